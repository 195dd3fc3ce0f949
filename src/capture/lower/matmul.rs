//! Matrix products, with and without an addend.

use clutch_graph::op::{Axes, BinaryOp, Combiner, DotDims, UnaryOp};
use clutch_graph::{DType, Dims, ValueId};

use super::helpers::{Scalar, cast, filled, fit, opt_scalar};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.mm.default", mm),
    ("aten.mm.dtype", mm),
    ("aten.bmm.default", mm),
    ("aten.bmm.dtype", mm),
    ("aten._int_mm.default", mm),
    ("aten.addmm.default", addmm),
    ("aten.addmm.dtype", addmm),
    ("aten.baddbmm.default", addmm),
    ("aten.baddbmm.dtype", addmm),
    ("aten._addmm_activation.default", addmm_activation),
    ("aten.addbmm.default", addbmm),
    ("aten.addmv.default", addmv),
    ("aten.addr.default", addr),
    ("aten.dot.default", dot),
    ("aten.vdot.default", vdot),
    ("aten.mv.default", dot),
    ("aten.outer.default", outer),
    ("aten.ger.default", outer),
    ("aten.linear.default", linear),
    ("aten.linear_backward.default", linear_backward),
];

type Built = Result<ValueId, LowerError>;

/// Both operands in the type that the product takes; an error when they differ, as in PyTorch.
fn same_type(l: &Lowering<'_>, x: ValueId, y: ValueId) -> Result<DType, LowerError> {
    let (a, b) = (l.b.dtype(x), l.b.dtype(y));
    if a == b { Ok(a) } else { Err(LowerError::unsupported(format!("a product of {} and {}", a.name(), b.name()))) }
}

/// Contraction of the given axes, accumulated in `out`; over nothing it is zero.
fn contract(l: &mut Lowering<'_>, x: ValueId, y: ValueId, dims: DotDims, out: DType) -> Built {
    let dtype = same_type(l, x, y)?;
    let precision = l.precision();
    if dtype == DType::Pred {
        let (x, y) = (cast(l, x, DType::S32)?, cast(l, y, DType::S32)?);
        let count = l.b.dot_general(x, y, dims, DType::S32, precision)?;
        let any = cast(l, count, DType::Pred)?;
        return cast(l, any, out);
    }
    Ok(l.b.dot_general(x, y, dims, out, precision)?)
}

/// Product of the last two axes over equal leading axes.
fn product(l: &mut Lowering<'_>, x: ValueId, y: ValueId, out: DType) -> Built {
    let n = l.b.rank(x);
    let batch: Axes = (0..n.saturating_sub(2)).collect();
    let dims = DotDims {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contract: smallvec::smallvec![n.saturating_sub(1)],
        rhs_contract: smallvec::smallvec![n.saturating_sub(2)],
    };
    contract(l, x, y, dims, out)
}

/// Product of the last axis of the left with the first of the right operand.
fn inner(l: &mut Lowering<'_>, x: ValueId, y: ValueId, out: DType) -> Built {
    let last = l.b.rank(x).saturating_sub(1);
    let dims = DotDims { lhs_contract: smallvec::smallvec![last], rhs_contract: smallvec::smallvec![0], ..DotDims::default() };
    contract(l, x, y, dims, out)
}

fn mm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mat2")?);
    one(product(l, x, y, c.out_dtype()?)?)
}

/// The type in which `beta * addend + alpha * product` is computed before it is rounded to `dtype`.
fn sum_type(dtype: DType) -> DType {
    dtype.compute_type()
}

/// `tensor * factor`; the tensor itself for 1.
fn scaled(l: &mut Lowering<'_>, x: ValueId, factor: Scalar) -> Built {
    if factor.as_exact_int() == Some(1) {
        return Ok(x);
    }
    let ty = l.b.ty(x).clone();
    let factor = filled(l, factor, ty.dtype, &ty.dims)?;
    Ok(l.b.binary(BinaryOp::Mul, x, factor)?)
}

/// `beta * addend + alpha * value` in the type of `value`; a beta of zero hides the addend's NaN and infinities.
fn with_addend(l: &mut Lowering<'_>, c: &Call<'_>, addend: ValueId, value: ValueId) -> Built {
    let beta = opt_scalar(l, c, usize::MAX, "beta")?.unwrap_or(Scalar::Int(1));
    let alpha = opt_scalar(l, c, usize::MAX, "alpha")?.unwrap_or(Scalar::Int(1));
    let ty = l.b.ty(value).clone();
    let value = scaled(l, value, alpha)?;
    if beta.as_exact_int() == Some(0) {
        return Ok(value);
    }
    let addend = fit(l, addend, ty.dtype, &ty.dims)?;
    let addend = scaled(l, addend, beta)?;
    Ok(l.b.add(addend, value)?)
}

fn addmm_value(l: &mut Lowering<'_>, c: &Call<'_>) -> Built {
    let (addend, x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mat1")?, c.tensor(l, 2, "mat2")?);
    let value = product(l, x, y, sum_type(c.out_dtype()?))?;
    with_addend(l, c, addend, value)
}

fn addmm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let sum = addmm_value(l, c)?;
    one(cast(l, sum, c.out_dtype()?)?)
}

fn addmm_activation(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let sum = addmm_value(l, c)?;
    let sum = cast(l, sum, c.out_dtype()?)?;
    let active = if c.bool_or(usize::MAX, "use_gelu", false)? {
        l.b.op(clutch_graph::Op::Gelu { tanh: true }, [sum])?
    } else {
        let zero = l.b.full_like(sum, 0.0)?;
        l.b.max(sum, zero)?
    };
    one(active)
}

fn addbmm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (addend, x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "batch1")?, c.tensor(l, 2, "batch2")?);
    let out = c.out_dtype()?;
    let dims = DotDims { lhs_contract: smallvec::smallvec![0, 2], rhs_contract: smallvec::smallvec![0, 1], ..DotDims::default() };
    let value = contract(l, x, y, dims, sum_type(out))?;
    let sum = with_addend(l, c, addend, value)?;
    one(cast(l, sum, out)?)
}

fn addmv(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (addend, x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mat")?, c.tensor(l, 2, "vec")?);
    let out = c.out_dtype()?;
    let (x, y) = (cast(l, x, out)?, cast(l, y, out)?);
    let value = inner(l, x, y, sum_type(out))?;
    let sum = with_addend(l, c, addend, value)?;
    one(cast(l, sum, out)?)
}

/// Products of all pairs of elements of two vectors.
fn pairs(l: &mut Lowering<'_>, x: ValueId, y: ValueId, dtype: DType) -> Built {
    let dims: Dims = smallvec::smallvec![l.b.ty(x).numel(), l.b.ty(y).numel()];
    let (x, y) = (cast(l, x, dtype)?, cast(l, y, dtype)?);
    let x = l.b.broadcast_in_dim(x, &dims, &[0])?;
    let y = l.b.broadcast_in_dim(y, &dims, &[1])?;
    Ok(l.b.mul(x, y)?)
}

fn addr(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (addend, x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "vec1")?, c.tensor(l, 2, "vec2")?);
    let out = c.out_dtype()?;
    let value = pairs(l, x, y, sum_type(out))?;
    let sum = with_addend(l, c, addend, value)?;
    one(cast(l, sum, out)?)
}

fn outer(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "vec2")?);
    one(pairs(l, x, y, c.out_dtype()?)?)
}

fn dot(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "other")?);
    one(inner(l, x, y, c.out_dtype()?)?)
}

fn vdot(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "other")?);
    let x = conjugate(l, x)?;
    one(inner(l, x, y, c.out_dtype()?)?)
}

fn conjugate(l: &mut Lowering<'_>, x: ValueId) -> Built {
    if !l.b.dtype(x).is_complex() {
        return Ok(x);
    }
    let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
    let im = l.b.unary(UnaryOp::Neg, im)?;
    Ok(l.b.binary(BinaryOp::Complex, re, im)?)
}

fn linear(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, weight, bias) = (c.tensor(l, 0, "input")?, c.tensor(l, 1, "weight")?, c.opt_tensor(l, 2, "bias")?);
    let out = c.out_dtype()?;
    let (last, width) = (l.b.rank(x).saturating_sub(1), l.b.rank(weight).saturating_sub(1));
    let dims = DotDims { lhs_contract: smallvec::smallvec![last], rhs_contract: smallvec::smallvec![width], ..DotDims::default() };
    let mut y = contract(l, x, weight, dims, if bias.is_some() { sum_type(out) } else { out })?;
    if let Some(bias) = bias {
        let ty = l.b.ty(y).clone();
        let bias = fit(l, bias, ty.dtype, &ty.dims)?;
        y = l.b.add(y, bias)?;
    }
    one(cast(l, y, out)?)
}

/// Gradients of input, weight and bias, those that the mask asks for.
fn linear_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, grad, weight) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "grad_output")?, c.tensor(l, 2, "weight")?);
    let wanted = c.bools(3, "output_mask")?;
    let wanted = |i: usize| wanted.get(i).copied().unwrap_or(false);
    let dtype = l.b.dtype(x);
    let rows: Axes = (0..l.b.rank(x).saturating_sub(1)).collect();
    let mut outputs: Outputs = smallvec::smallvec![None; 3];
    if wanted(0) {
        outputs[0] = Some(inner(l, grad, weight, dtype)?);
    }
    if wanted(1) {
        let dims = DotDims { lhs_contract: rows.clone(), rhs_contract: rows.clone(), ..DotDims::default() };
        outputs[1] = Some(contract(l, grad, x, dims, dtype)?);
    }
    if wanted(2) {
        let sum = cast(l, grad, dtype.compute_type())?;
        let sum = l.b.reduce(Combiner::Add, sum, &rows)?;
        outputs[2] = Some(cast(l, sum, dtype)?);
    }
    Ok(outputs)
}
