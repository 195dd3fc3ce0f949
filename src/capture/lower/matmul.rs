//! Matrix products.

use clutch_graph::ValueId;
use clutch_graph::op::{BinaryOp, DotDims};

use super::helpers::{cast, fit};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.mm.default", mm),
    ("aten.bmm.default", mm),
    ("aten.addmm.default", addmm),
    ("aten.baddbmm.default", addmm),
    ("aten.dot.default", dot),
    ("aten.mv.default", dot),
];

fn product(l: &mut Lowering<'_>, x: ValueId, y: ValueId) -> Result<ValueId, LowerError> {
    let precision = l.precision();
    Ok(l.b.matmul(x, y, precision)?)
}

fn mm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mat2")?);
    one(product(l, x, y)?)
}

fn addmm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (bias, x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mat1")?, c.tensor(l, 2, "mat2")?);
    let (beta, alpha) = (c.float_or(l, 3, "beta", 1.0)?, c.float_or(l, 4, "alpha", 1.0)?);
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let mut out = product(l, x, y)?;
    if alpha != 1.0 {
        out = l.b.binary_scalar(BinaryOp::Mul, out, alpha)?;
    }
    if beta != 0.0 {
        let mut bias = fit(l, bias, dtype, &dims)?;
        if beta != 1.0 {
            bias = l.b.binary_scalar(BinaryOp::Mul, bias, beta)?;
        }
        out = l.b.add(out, bias)?;
    }
    one(cast(l, out, dtype)?)
}

fn dot(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "other")?);
    let rank = l.b.rank(x);
    let dims = DotDims { lhs_contract: smallvec::smallvec![rank - 1], rhs_contract: smallvec::smallvec![0], ..DotDims::default() };
    let (out, precision) = (l.b.dtype(x), l.precision());
    one(l.b.dot_general(x, y, dims, out, precision)?)
}
