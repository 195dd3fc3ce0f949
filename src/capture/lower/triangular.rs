//! Triangular systems and Cholesky factors.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, Op, UnaryOp};
use clutch_graph::{DType, Dims, ValueId};

use super::helpers::{Scalar, cast, filled};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.linalg_cholesky_ex.default", cholesky_ex),
    ("aten.cholesky.default", cholesky),
    ("aten.cholesky_solve.default", cholesky_solve),
    ("aten.cholesky_inverse.default", cholesky_inverse),
    ("aten.linalg_solve_triangular.default", solve_triangular),
    ("aten.triangular_solve.default", triangular_solve),
];

type Built = Result<ValueId, LowerError>;

/// Which triangular system.
#[derive(Clone, Copy)]
pub(super) struct System {
    /// The matrix stands left of the unknown.
    pub left: bool,
    /// The matrix is lower triangular, as it stands.
    pub lower: bool,
    /// Its diagonal counts as ones.
    pub unit: bool,
    /// It is transposed first.
    pub transpose: bool,
}

/// The conjugate of a complex tensor, or the tensor.
pub(super) fn conjugate(l: &mut Lowering<'_>, x: ValueId) -> Built {
    if !l.b.dtype(x).is_complex() {
        return Ok(x);
    }
    let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
    let im = l.b.unary(UnaryOp::Neg, im)?;
    Ok(l.b.binary(BinaryOp::Complex, re, im)?)
}

/// The transposed conjugate of the last two axes.
pub(super) fn adjoint(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let x = l.b.swap_last(x)?;
    conjugate(l, x)
}

/// Leading sizes of two stacks of matrices, broadcast.
pub(super) fn batch(l: &Lowering<'_>, x: ValueId, y: ValueId) -> Result<Dims, LowerError> {
    let lead = |v: ValueId| l.b.dims(v)[..l.b.rank(v) - 2].to_vec();
    clutch_graph::builder::broadcast_dims(&lead(x), &lead(y)).ok_or_else(|| LowerError::unsupported("stacks that do not broadcast"))
}

/// The stack of matrices with the given leading sizes.
pub(super) fn stacked(l: &mut Lowering<'_>, x: ValueId, lead: &[i64]) -> Built {
    let dims = l.b.dims(x);
    let mut wide: Dims = lead.into();
    wide.extend_from_slice(&dims[dims.len() - 2..]);
    Ok(l.b.expand(x, &wide)?)
}

/// Solution of a triangular system; both operands have equal leading sizes.
pub(super) fn solve(l: &mut Lowering<'_>, a: ValueId, b: ValueId, s: System) -> Built {
    if l.b.ty(b).numel() == 0 || l.b.ty(a).numel() == 0 {
        let ty = l.b.ty(b).clone();
        return filled(l, Scalar::Int(0), ty.dtype, &ty.dims);
    }
    let op = Op::TriangularSolve { left: s.left, lower: s.lower, unit_diagonal: s.unit, transpose: s.transpose };
    Ok(l.b.op(op, [a, b])?)
}

/// Where the column is not right of the row, or not left of it when `upper`, counted from a diagonal.
pub(super) fn triangle(l: &mut Lowering<'_>, dims: &[i64], upper: bool, diagonal: i64) -> Built {
    let n = dims.len();
    let (rows, columns) = (l.b.iota(DType::S64, dims, n - 2)?, l.b.iota(DType::S64, dims, n - 1)?);
    let rows = l.b.binary_int(BinaryOp::Add, rows, diagonal)?;
    Ok(l.b.compare(if upper { CompareDir::Ge } else { CompareDir::Le }, columns, rows)?)
}

/// The stack of square matrices with ones on the diagonal.
pub(super) fn identity(l: &mut Lowering<'_>, dtype: DType, dims: &[i64]) -> Built {
    let n = dims.len();
    let (rows, columns) = (l.b.iota(DType::S64, dims, n - 2)?, l.b.iota(DType::S64, dims, n - 1)?);
    let here = l.b.compare(CompareDir::Eq, rows, columns)?;
    cast(l, here, dtype)
}

/// The lower factor, of the matrix's lower triangle; NaN throughout where the matrix is not positive definite.
fn factor(l: &mut Lowering<'_>, a: ValueId, upper: bool) -> Built {
    let a = if upper { adjoint(l, a)? } else { a };
    let dims = l.b.dims(a);
    if dims.contains(&0) {
        return Ok(a);
    }
    let low = l.b.op(Op::Cholesky, [a])?;
    let kept = triangle(l, &dims, false, 0)?;
    let none = l.b.full_like(low, 0.0)?;
    let low = l.b.select(kept, low, none)?;
    if upper { adjoint(l, low) } else { Ok(low) }
}

/// The second result is 0 for a positive definite matrix, else 1.
fn cholesky_ex(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "self")?;
    let upper = c.bool_or(1, "upper", false)?;
    let info = c.out_meta(1)?;
    let info_dims = l.sizes(&info.shape)?;
    let y = factor(l, a, upper)?;
    if l.b.ty(y).numel() == 0 {
        return many([y, filled(l, Scalar::Int(0), info.dtype, &info_dims)?]);
    }
    let rank = l.b.rank(y);
    let real = if l.b.dtype(y).is_complex() { l.b.unary(UnaryOp::Real, y)? } else { y };
    let missing = l.b.compare(CompareDir::Ne, real, real)?;
    let failed = l.b.reduce(Combiner::Or, missing, &[rank - 2, rank - 1])?;
    many([y, cast(l, failed, info.dtype)?])
}

fn cholesky(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "self")?;
    one(factor(l, a, c.bool_or(1, "upper", false)?)?)
}

/// Solution of (L L*) x = b, or of (U* U) x = b.
fn with_factor(l: &mut Lowering<'_>, b: ValueId, low: ValueId, upper: bool) -> Built {
    let low = if upper { adjoint(l, low)? } else { low };
    let system = System { left: true, lower: true, unit: false, transpose: false };
    let y = solve(l, low, b, system)?;
    let conjugated = conjugate(l, low)?;
    solve(l, conjugated, y, System { transpose: true, ..system })
}

fn cholesky_solve(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (b, low) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "input2")?);
    let lead = batch(l, b, low)?;
    let (b, low) = (stacked(l, b, &lead)?, stacked(l, low, &lead)?);
    one(with_factor(l, b, low, c.bool_or(2, "upper", false)?)?)
}

fn cholesky_inverse(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let low = c.tensor(l, 0, "self")?;
    let ty = l.b.ty(low).clone();
    let eye = identity(l, ty.dtype, &ty.dims)?;
    one(with_factor(l, eye, low, c.bool_or(1, "upper", false)?)?)
}

fn solve_triangular(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (a, b) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "B")?);
    let flag = |name: &'static str, default: bool| c.bool_or(usize::MAX, name, default);
    let system = System { left: flag("left", true)?, lower: !flag("upper", false)?, unit: flag("unitriangular", false)?, transpose: false };
    let lead = batch(l, a, b)?;
    let (a, b) = (stacked(l, a, &lead)?, stacked(l, b, &lead)?);
    one(solve(l, a, b, system)?)
}

/// The second result is the matrix.
fn triangular_solve(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (b, a) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "A")?);
    let system = System {
        left: true,
        lower: !c.bool_or(2, "upper", true)?,
        unit: c.bool_or(4, "unitriangular", false)?,
        transpose: c.bool_or(3, "transpose", false)?,
    };
    let lead = batch(l, a, b)?;
    let (a, b) = (stacked(l, a, &lead)?, stacked(l, b, &lead)?);
    many([solve(l, a, b, system)?, a])
}
