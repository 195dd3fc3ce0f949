//! QR factors by Householder's reflections, in a loop over the columns.

use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, DotDims, Precision, UnaryOp};
use clutch_graph::{DType, Dims, ValueId};

use super::helpers::{Scalar, cast, filled};
use super::loops::repeat;
use super::lu::{against, line};
use super::table::Family;
use super::triangular::{adjoint, conjugate, identity, triangle};
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.geqrf.default", geqrf),
    ("aten.linalg_householder_product.default", householder_product),
    ("aten.ormqr.default", ormqr),
    ("aten.linalg_qr.default", qr),
];

type Built = Result<ValueId, LowerError>;

/// Products of two stacks of matrices of rank 3.
fn product(l: &mut Lowering<'_>, x: ValueId, y: ValueId) -> Built {
    let one: Axes = smallvec::smallvec![0];
    let dims =
        DotDims { lhs_batch: one.clone(), rhs_batch: one, lhs_contract: smallvec::smallvec![2], rhs_contract: smallvec::smallvec![1] };
    Ok(l.b.dot_general(x, y, dims, l.b.dtype(x), Precision::Highest)?)
}

/// A real tensor as one of the type.
fn widened(l: &mut Lowering<'_>, x: ValueId, dtype: DType) -> Built {
    cast(l, x, dtype)
}

/// Sum over the rows of |x|^2, real, `[batch, 1, 1]`.
fn square_norm(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let square = if l.b.dtype(x).is_complex() {
        let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
        let (re, im) = (l.b.mul(re, re)?, l.b.mul(im, im)?);
        l.b.add(re, im)?
    } else {
        l.b.mul(x, x)?
    };
    Ok(l.b.reduce_keep(Combiner::Add, square, &[1])?)
}

/// One reflection: `a` is `[batch, m, n]`, `tau` `[batch, k]`. As LAPACK's: I - tau v v*, with v 1 at the diagonal and the rest of it
/// stored below; the diagonal becomes real, of the sign opposite to what it was.
fn reflect(l: &mut Lowering<'_>, step: ValueId, a: ValueId, tau: ValueId) -> Result<Vec<ValueId>, LowerError> {
    let (dims, dtype) = (l.b.dims(a), l.b.dtype(a));
    let column_dims = [dims[0], dims[1], 1];
    let column = line(l, a, 2, step)?;
    let zero = filled(l, Scalar::Int(0), dtype, &column_dims)?;
    let under = against(l, &column_dims, 1, CompareDir::Gt, step)?;
    let tail = l.b.select(under, column, zero)?;
    let alpha = line(l, column, 1, step)?;
    let rest = square_norm(l, tail)?;
    let own = square_norm(l, alpha)?;
    let total = l.b.add(rest, own)?;
    let norm = l.b.unary(UnaryOp::Sqrt, total)?;
    let real = if dtype.is_complex() { l.b.unary(UnaryOp::Real, alpha)? } else { alpha };
    let minus = l.b.unary(UnaryOp::Neg, norm)?;
    let negative = l.b.compare_scalar(CompareDir::Lt, real, 0.0)?;
    let beta = l.b.select(negative, norm, minus)?;
    // Nothing to reflect when the column is zero below and the diagonal is real.
    let mut idle = l.b.compare_scalar(CompareDir::Eq, rest, 0.0)?;
    if dtype.is_complex() {
        let imaginary = l.b.unary(UnaryOp::Imag, alpha)?;
        let flat = l.b.compare_scalar(CompareDir::Eq, imaginary, 0.0)?;
        idle = l.b.binary(BinaryOp::And, idle, flat)?;
    }
    let beta_wide = widened(l, beta, dtype)?;
    let unit = l.b.full_like(beta, 1.0)?;
    let unit = widened(l, unit, dtype)?;
    let none = filled(l, Scalar::Int(0), dtype, &l.b.dims(alpha))?;
    let gap = l.b.sub(beta_wide, alpha)?;
    let factor = l.b.div(gap, beta_wide)?;
    let factor = l.b.select(idle, none, factor)?;
    let divisor = l.b.sub(alpha, beta_wide)?;
    let divisor = l.b.select(idle, unit, divisor)?;
    let divisor = l.b.expand(divisor, &column_dims)?;
    let v = l.b.div(tail, divisor)?;
    let here = against(l, &column_dims, 1, CompareDir::Eq, step)?;
    let ones = l.b.expand(unit, &column_dims)?;
    let v = l.b.select(here, ones, v)?;
    // The columns to the right: a - conj(tau) v (v* a).
    let v_adjoint = adjoint(l, v)?;
    let projected = product(l, v_adjoint, a)?;
    let update = product(l, v, projected)?;
    let scale = conjugate(l, factor)?;
    let scale = l.b.expand(scale, &dims)?;
    let update = l.b.mul(update, scale)?;
    let reduced = l.b.sub(a, update)?;
    let right = against(l, &dims, 2, CompareDir::Gt, step)?;
    let now = against(l, &dims, 2, CompareDir::Eq, step)?;
    let diagonal = l.b.select(idle, alpha, beta_wide)?;
    let diagonal = l.b.expand(diagonal, &column_dims)?;
    let stored = l.b.select(under, v, column)?;
    let stored = l.b.select(here, diagonal, stored)?;
    let stored = l.b.expand(stored, &dims)?;
    let a = l.b.select(right, reduced, a)?;
    let a = l.b.select(now, stored, a)?;
    let tau_dims = l.b.dims(tau);
    let factor = l.b.reshape(factor, &[dims[0], 1])?;
    let factor = l.b.expand(factor, &tau_dims)?;
    let place = against(l, &tau_dims, 1, CompareDir::Eq, step)?;
    Ok(vec![a, l.b.select(place, factor, tau)?])
}

/// The reflections' vectors below the diagonal with R on and above it, and their factors.
fn factor(l: &mut Lowering<'_>, a: ValueId) -> Result<[ValueId; 2], LowerError> {
    let (dims, dtype) = (l.b.dims(a), l.b.dtype(a));
    let n = dims.len();
    let k = dims[n - 2].min(dims[n - 1]);
    let mut tau_dims: Dims = dims[..n - 2].into();
    let count: i64 = tau_dims.iter().product();
    tau_dims.push(k);
    if dims.contains(&0) {
        return Ok([a, filled(l, Scalar::Int(0), dtype, &tau_dims)?]);
    }
    let flat = l.b.reshape(a, &[count, dims[n - 2], dims[n - 1]])?;
    let tau = filled(l, Scalar::Int(0), dtype, &[count, k])?;
    let times = l.b.scalar_int(DType::S32, k)?;
    let end = repeat(l, times, &[flat, tau], &[], |l, step, c, _| reflect(l, step, c[0], c[1]))?;
    Ok([l.b.reshape(end[0], &dims)?, l.b.reshape(end[1], &tau_dims)?])
}

/// The product of the reflections, in order or each adjoint in the opposite order, times `x` from the left; all of rank 3.
fn apply(l: &mut Lowering<'_>, stored: ValueId, tau: ValueId, x: ValueId, adjoined: bool) -> Built {
    let k = l.b.dims(tau)[1];
    if k == 0 || l.b.ty(x).numel() == 0 {
        return Ok(x);
    }
    let times = l.b.scalar_int(DType::S32, k)?;
    let end = repeat(l, times, &[x], &[stored, tau], |l, step, c, fixed| {
        let k = l.b.dims(fixed[1])[1];
        let at = if adjoined {
            step
        } else {
            let last = l.b.scalar_int(DType::S32, k - 1)?;
            l.b.sub(last, step)?
        };
        let dims = l.b.dims(fixed[0]);
        let column_dims = [dims[0], dims[1], 1];
        let column = line(l, fixed[0], 2, at)?;
        let (under, here) = (against(l, &column_dims, 1, CompareDir::Gt, at)?, against(l, &column_dims, 1, CompareDir::Eq, at)?);
        let (none, ones) =
            (filled(l, Scalar::Int(0), l.b.dtype(column), &column_dims)?, filled(l, Scalar::Int(1), l.b.dtype(column), &column_dims)?);
        let v = l.b.select(under, column, none)?;
        let v = l.b.select(here, ones, v)?;
        let factor = line(l, fixed[1], 1, at)?;
        let factor = if adjoined { conjugate(l, factor)? } else { factor };
        let factor = l.b.reshape(factor, &[dims[0], 1, 1])?;
        let v_adjoint = adjoint(l, v)?;
        let projected = product(l, v_adjoint, c[0])?;
        let update = product(l, v, projected)?;
        let factor = l.b.expand(factor, &l.b.dims(update))?;
        let update = l.b.mul(update, factor)?;
        Ok(vec![l.b.sub(c[0], update)?])
    })?;
    Ok(end[0])
}

/// A stack as one of rank 3.
fn flattened(l: &mut Lowering<'_>, x: ValueId, tail: usize) -> Built {
    let dims = l.b.dims(x);
    let lead: i64 = dims[..dims.len() - tail].iter().product();
    let sizes: Dims = [lead].into_iter().chain(dims[dims.len() - tail..].iter().copied()).collect();
    Ok(l.b.reshape(x, &sizes)?)
}

/// The first `columns` columns of the product of the reflections.
fn orthogonal(l: &mut Lowering<'_>, stored: ValueId, tau: ValueId, columns: i64) -> Built {
    let (dims, dtype) = (l.b.dims(stored), l.b.dtype(stored));
    let n = dims.len();
    let mut out = dims.clone();
    out[n - 1] = columns;
    if out.contains(&0) {
        return filled(l, Scalar::Int(0), dtype, &out);
    }
    let eye = identity(l, dtype, &out)?;
    if dims[n - 1] == 0 {
        return Ok(eye);
    }
    let (flat, tau, eye) = (flattened(l, stored, 2)?, flattened(l, tau, 1)?, flattened(l, eye, 2)?);
    let q = apply(l, flat, tau, eye, false)?;
    Ok(l.b.reshape(q, &out)?)
}

/// Q with `columns` orthonormal columns, at least `n`, and R on and above the diagonal of `[batch, n, n]`, of a stack of rank 3.
pub(super) fn orthonormal(l: &mut Lowering<'_>, a: ValueId, columns: i64) -> Result<[ValueId; 2], LowerError> {
    let n = l.b.dims(a)[2];
    let [stored, tau] = factor(l, a)?;
    let q = orthogonal(l, stored, tau, columns)?;
    Ok([q, l.b.slice_axis(stored, 1, 0, n, 1)?])
}

fn geqrf(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "self")?;
    many(factor(l, a)?)
}

fn householder_product(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (stored, tau) = (c.tensor(l, 0, "input")?, c.tensor(l, 1, "tau")?);
    let columns = l.b.dims(stored)[l.b.rank(stored) - 1];
    one(orthogonal(l, stored, tau, columns)?)
}

fn ormqr(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (stored, tau, x) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "input2")?, c.tensor(l, 2, "input3")?);
    let (left, adjoined) = (c.bool_or(3, "left", true)?, c.bool_or(4, "transpose", false)?);
    let (flat, tau, dims) = (flattened(l, stored, 2)?, flattened(l, tau, 1)?, l.b.dims(x));
    let x = flattened(l, x, 2)?;
    // From the right: (Q* x*)*.
    let x = if left { x } else { adjoint(l, x)? };
    let y = apply(l, flat, tau, x, adjoined == left)?;
    let y = if left { y } else { adjoint(l, y)? };
    one(l.b.reshape(y, &dims)?)
}

fn qr(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "A")?;
    let mode = c.opt_str(1, "mode")?.unwrap_or("reduced");
    let (dims, dtype) = (l.b.dims(a), l.b.dtype(a));
    let n = dims.len();
    let (rows, columns) = (dims[n - 2], dims[n - 1]);
    let kept = if mode == "complete" { rows } else { rows.min(columns) };
    let [stored, tau] = factor(l, a)?;
    let r = l.b.slice_axis(stored, n - 2, 0, kept, 1)?;
    let r_dims = l.b.dims(r);
    let over = triangle(l, &r_dims, true, 0)?;
    let none = filled(l, Scalar::Int(0), dtype, &r_dims)?;
    let r = l.b.select(over, r, none)?;
    let q = if mode == "r" { filled(l, Scalar::Int(0), dtype, &c.out_dims(l)?)? } else { orthogonal(l, stored, tau, kept)? };
    many([q, r])
}
