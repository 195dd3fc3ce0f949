//! LU factors with row pivots, in a loop over the columns.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, Op, UnaryOp};
use clutch_graph::{DType, Dims, ValueId};

use super::helpers::{Scalar, cast, filled};
use super::loops::repeat;
use super::scatter::Elements;
use super::triangular::{System, conjugate, solve};
use super::{LowerError, Lowering};

type Built = Result<ValueId, LowerError>;

/// Factors of a stack of matrices.
#[derive(Clone, Copy)]
pub(super) struct Lu {
    /// L below the diagonal, whose diagonal is ones, and U.
    pub lu: ValueId,
    /// `S32`: the row (from 1) that each row was exchanged with.
    pub pivots: ValueId,
    /// `S32`: 0, or the place (from 1) of the first zero on U's diagonal.
    pub info: ValueId,
}

/// The stack as one of rank 3.
fn flattened(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let dims = l.b.dims(x);
    let n = dims.len();
    Ok(l.b.reshape(x, &[dims[..n - 2].iter().product(), dims[n - 2], dims[n - 1]])?)
}

/// One line of a stack of rank 3 along `axis`, at a scalar position; the axis stays with size 1.
pub(super) fn line(l: &mut Lowering<'_>, x: ValueId, axis: usize, at: ValueId) -> Built {
    let mut dims = l.b.dims(x);
    dims[axis] = 1;
    let zero = l.b.scalar_int(DType::S32, 0)?;
    let starts = (0..dims.len()).map(|a| if a == axis { at } else { zero });
    Ok(l.b.op(Op::DynamicSlice(dims.clone()), [x].into_iter().chain(starts))?)
}

/// Positions along `axis` compared with a scalar.
pub(super) fn against(l: &mut Lowering<'_>, dims: &[i64], axis: usize, dir: CompareDir, at: ValueId) -> Built {
    let counted = l.b.iota(DType::S32, dims, axis)?;
    let at = l.b.broadcast_in_dim(at, dims, &[])?;
    Ok(l.b.compare(dir, counted, at)?)
}

/// What LAPACK compares pivots by: the absolute value, of complex numbers the sum of those of their parts.
fn magnitude(l: &mut Lowering<'_>, x: ValueId) -> Built {
    if !l.b.dtype(x).is_complex() {
        return Ok(l.b.unary(UnaryOp::Abs, x)?);
    }
    let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
    let (re, im) = (l.b.unary(UnaryOp::Abs, re)?, l.b.unary(UnaryOp::Abs, im)?);
    Ok(l.b.add(re, im)?)
}

/// One column eliminated: the values are the matrices `[batch, m, n]` and the pivots `[batch, k]`.
fn eliminate(l: &mut Lowering<'_>, step: ValueId, a: ValueId, pivots: ValueId, pivot: bool) -> Result<Vec<ValueId>, LowerError> {
    let dims = l.b.dims(a);
    let column_dims = [dims[0], dims[1], 1];
    let column = line(l, a, 2, step)?;
    let below = against(l, &column_dims, 1, CompareDir::Lt, step)?;
    let size = magnitude(l, column)?;
    let never = l.b.full_like(size, -1.0)?;
    let size = l.b.select(below, never, size)?;
    let chosen = if pivot {
        let best = l.b.op(Op::ArgReduce { axis: 1, max: true }, [size])?;
        let best = l.b.convert(best, DType::S32)?;
        l.b.reshape(best, &[dims[0]])?
    } else {
        l.b.broadcast_in_dim(step, &dims[..1], &[])?
    };
    let pivot_dims = l.b.dims(pivots);
    let now = against(l, &pivot_dims, 1, CompareDir::Eq, step)?;
    let named = l.b.binary_int(BinaryOp::Add, chosen, 1)?;
    let named = l.b.broadcast_in_dim(named, &pivot_dims, &[0])?;
    let pivots = l.b.select(now, named, pivots)?;
    // Exchange of the rows.
    let rows = l.b.iota(DType::S32, &dims, 1)?;
    let chosen = l.b.broadcast_in_dim(chosen, &dims, &[0])?;
    let is_chosen = l.b.compare(CompareDir::Eq, rows, chosen)?;
    let none = filled(l, Scalar::Int(0), l.b.dtype(a), &dims)?;
    let upper = line(l, a, 1, step)?;
    let lower = l.b.select(is_chosen, a, none)?;
    let lower = l.b.reduce_keep(Combiner::Add, lower, &[1])?;
    let is_step = against(l, &dims, 1, CompareDir::Eq, step)?;
    let (upper, lower_wide) = (l.b.expand(upper, &dims)?, l.b.expand(lower, &dims)?);
    let a = l.b.select(is_chosen, upper, a)?;
    let a = l.b.select(is_step, lower_wide, a)?;
    // Elimination under the pivot.
    let column = line(l, a, 2, step)?;
    let value = line(l, lower, 2, step)?;
    let zero = filled(l, Scalar::Int(0), l.b.dtype(a), &l.b.dims(value))?;
    let singular = l.b.compare(CompareDir::Eq, value, zero)?;
    let singular = l.b.expand(singular, &column_dims)?;
    let value = l.b.expand(value, &column_dims)?;
    let factor = l.b.div(column, value)?;
    let factor = l.b.select(singular, column, factor)?;
    let (factor, singular) = (l.b.expand(factor, &dims)?, l.b.expand(singular, &dims)?);
    let product = l.b.mul(factor, lower_wide)?;
    let reduced = l.b.sub(a, product)?;
    let reduced = l.b.select(singular, a, reduced)?;
    let (under, right) = (against(l, &dims, 1, CompareDir::Gt, step)?, against(l, &dims, 2, CompareDir::Gt, step)?);
    let here = against(l, &dims, 2, CompareDir::Eq, step)?;
    let (inner, edge) = (l.b.binary(BinaryOp::And, under, right)?, l.b.binary(BinaryOp::And, under, here)?);
    let a = l.b.select(inner, reduced, a)?;
    Ok(vec![l.b.select(edge, factor, a)?, pivots])
}

/// Factors of each matrix of a stack.
pub(super) fn factor(l: &mut Lowering<'_>, a: ValueId, pivot: bool) -> Result<Lu, LowerError> {
    let dims = l.b.dims(a);
    let n = dims.len();
    let k = dims[n - 2].min(dims[n - 1]);
    let mut pivot_dims: Dims = dims[..n - 2].into();
    let info_dims = pivot_dims.clone();
    pivot_dims.push(k);
    if dims.contains(&0) {
        let (pivots, info) = (filled(l, Scalar::Int(0), DType::S32, &pivot_dims)?, filled(l, Scalar::Int(0), DType::S32, &info_dims)?);
        return Ok(Lu { lu: a, pivots, info });
    }
    let flat = flattened(l, a)?;
    let count = l.b.dims(flat)[0];
    let pivots = filled(l, Scalar::Int(0), DType::S32, &[count, k])?;
    let times = l.b.scalar_int(DType::S32, k)?;
    let end = repeat(l, times, &[flat, pivots], &[], |l, step, c, _| eliminate(l, step, c[0], c[1], pivot))?;
    let lu = l.b.reshape(end[0], &dims)?;
    let diagonal = diagonal(l, lu)?;
    let zero = filled(l, Scalar::Int(0), l.b.dtype(diagonal), &pivot_dims)?;
    let singular = l.b.compare(CompareDir::Eq, diagonal, zero)?;
    let axis = n - 2;
    let any = l.b.reduce(Combiner::Or, singular, &[axis])?;
    let marks = l.b.convert(singular, DType::S32)?;
    let first = l.b.op(Op::ArgReduce { axis, max: true }, [marks])?;
    let first = l.b.convert(first, DType::S32)?;
    let first = l.b.binary_int(BinaryOp::Add, first, 1)?;
    let none = l.b.full_int(DType::S32, &info_dims, 0)?;
    let info = l.b.select(any, first, none)?;
    Ok(Lu { lu, pivots: l.b.reshape(end[1], &pivot_dims)?, info })
}

/// The diagonals of a stack of matrices.
pub(super) fn diagonal(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let dims = l.b.dims(x);
    let n = dims.len();
    let k = dims[n - 2].min(dims[n - 1]);
    let (mut start, mut limit): (Dims, Dims) = (smallvec::smallvec![0; n], dims.clone());
    let steps: Dims = smallvec::smallvec![1; n];
    (limit[n - 2], limit[n - 1]) = (k, k);
    start.truncate(n);
    let square = l.b.slice(x, &start, &limit, &steps)?;
    let (rows, columns) = (l.b.iota(DType::S32, &limit, n - 2)?, l.b.iota(DType::S32, &limit, n - 1)?);
    let here = l.b.compare(CompareDir::Eq, rows, columns)?;
    let none = filled(l, Scalar::Int(0), l.b.dtype(x), &limit)?;
    let kept = l.b.select(here, square, none)?;
    Ok(l.b.reduce(Combiner::Add, kept, &[n - 1])?)
}

/// `S64` `[..., rows]`: row i of L U is row `order[i]` of the matrix.
pub(super) fn order(l: &mut Lowering<'_>, pivots: ValueId, rows: i64) -> Built {
    let dims = l.b.dims(pivots);
    let n = dims.len();
    let (count, k): (i64, i64) = (dims[..n - 1].iter().product(), dims[n - 1]);
    let mut out: Dims = dims[..n - 1].into();
    out.push(rows);
    let start = l.b.iota(DType::S32, &[count, rows], 1)?;
    if out.contains(&0) || k == 0 {
        let start = l.b.reshape(start, &out)?;
        return cast(l, start, DType::S64);
    }
    let flat = l.b.reshape(pivots, &[count, k])?;
    let flat = cast(l, flat, DType::S32)?;
    let times = l.b.scalar_int(DType::S32, k)?;
    let end = repeat(l, times, &[start], &[flat], |l, step, c, fixed| {
        let dims = l.b.dims(c[0]);
        let other = line(l, fixed[0], 1, step)?;
        let other = l.b.binary_int(BinaryOp::Sub, other, 1)?;
        let other = l.b.expand(other, &dims)?;
        let places = l.b.iota(DType::S32, &dims, 1)?;
        let is_other = l.b.compare(CompareDir::Eq, places, other)?;
        let is_step = against(l, &dims, 1, CompareDir::Eq, step)?;
        let none = l.b.full_int(DType::S32, &dims, 0)?;
        let here = line(l, c[0], 1, step)?;
        let here = l.b.expand(here, &dims)?;
        let there = l.b.select(is_other, c[0], none)?;
        let there = l.b.reduce_keep(Combiner::Add, there, &[1])?;
        let there = l.b.expand(there, &dims)?;
        let moved = l.b.select(is_other, here, c[0])?;
        Ok(vec![l.b.select(is_step, there, moved)?])
    })?;
    let order = l.b.reshape(end[0], &out)?;
    cast(l, order, DType::S64)
}

/// How a factored matrix enters a system.
#[derive(Clone, Copy, Default)]
pub(super) struct Form {
    /// Transposed.
    pub transpose: bool,
    /// Conjugated.
    pub conjugate: bool,
}

/// Solution of A x = b, where A is given by its factors; leading sizes are equal.
pub(super) fn solve_factored(l: &mut Lowering<'_>, lu: ValueId, pivots: ValueId, b: ValueId, form: Form) -> Built {
    let dims = l.b.dims(b);
    let n = dims.len();
    if dims.contains(&0) {
        return Ok(b);
    }
    let lu = if form.conjugate { conjugate(l, lu)? } else { lu };
    let rows = order(l, pivots, dims[n - 2])?;
    let kept: Vec<usize> = (0..n - 1).collect();
    let rows = l.b.broadcast_in_dim(rows, &dims, &kept)?;
    let moved = Elements::new(l, rows, n - 2, &dims)?;
    let low = System { left: true, lower: true, unit: true, transpose: form.transpose };
    let high = System { left: true, lower: false, unit: false, transpose: form.transpose };
    if form.transpose {
        let y = solve(l, lu, b, high)?;
        let z = solve(l, lu, y, low)?;
        return moved.scatter(l, z, z, Combiner::Assign);
    }
    let b = moved.gather(l, b)?;
    let y = solve(l, lu, b, low)?;
    solve(l, lu, y, high)
}
