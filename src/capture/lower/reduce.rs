//! Reductions.

use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, UnaryOp};
use clutch_graph::{DType, Op, ValueId};

use super::helpers::{Scalar, cast, filled, fit, is_nan};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.sum.default", |l, c| sum(l, c, false)),
    ("aten.sum.dim_IntList", |l, c| sum(l, c, true)),
    ("aten.nansum.default", nansum),
    ("aten.mean.default", |l, c| mean(l, c, false)),
    ("aten.mean.dim", |l, c| mean(l, c, true)),
    ("aten.prod.default", |l, c| prod(l, c, false)),
    ("aten.prod.dim_int", |l, c| prod(l, c, true)),
    ("aten.amax.default", |l, c| extremum(l, c, true)),
    ("aten.amin.default", |l, c| extremum(l, c, false)),
    ("aten.aminmax.default", aminmax),
    ("aten.max.default", |l, c| extremum_of_all(l, c, true)),
    ("aten.min.default", |l, c| extremum_of_all(l, c, false)),
    ("aten.max.dim", |l, c| extremum_and_position(l, c, true)),
    ("aten.min.dim", |l, c| extremum_and_position(l, c, false)),
    ("aten.argmax.default", |l, c| arg(l, c, true)),
    ("aten.argmin.default", |l, c| arg(l, c, false)),
    ("aten.any.default", |l, c| logical(l, c, Combiner::Or)),
    ("aten.any.dim", |l, c| logical(l, c, Combiner::Or)),
    ("aten.any.dims", |l, c| logical(l, c, Combiner::Or)),
    ("aten.all.default", |l, c| logical(l, c, Combiner::And)),
    ("aten.all.dim", |l, c| logical(l, c, Combiner::And)),
    ("aten.all.dims", |l, c| logical(l, c, Combiner::And)),
    ("aten.var.default", |l, c| var(l, c, false)),
    ("aten.var.dim", |l, c| var(l, c, false)),
    ("aten.var.correction", |l, c| var(l, c, false)),
    ("aten.std.default", |l, c| var(l, c, true)),
    ("aten.std.dim", |l, c| var(l, c, true)),
    ("aten.std.correction", |l, c| var(l, c, true)),
    ("aten.var_mean.default", |l, c| var_mean(l, c, false)),
    ("aten.var_mean.dim", |l, c| var_mean(l, c, false)),
    ("aten.var_mean.correction", |l, c| var_mean(l, c, false)),
    ("aten.std_mean.default", |l, c| var_mean(l, c, true)),
    ("aten.std_mean.dim", |l, c| var_mean(l, c, true)),
    ("aten.std_mean.correction", |l, c| var_mean(l, c, true)),
    ("prims.var.default", prims_var),
    ("prims.sum.default", |l, c| sum(l, c, true)),
    ("aten.logsumexp.default", logsumexp),
    ("aten.linalg_vector_norm.default", vector_norm),
    ("aten.norm.Scalar", norm),
    ("aten.norm.ScalarOpt_dim", norm),
    ("aten.norm.ScalarOpt_dim_dtype", norm),
    ("aten.norm.ScalarOpt_dtype", norm),
    ("aten.frobenius_norm.dim", frobenius),
    ("aten.dist.default", dist),
    ("aten.count_nonzero.default", count_nonzero),
    ("aten.count_nonzero.dim_IntList", count_nonzero),
];

type Built = Result<ValueId, LowerError>;

/// Reduced axes of a call: argument 1 where the overload has one, all otherwise.
fn axes_of(l: &Lowering<'_>, c: &Call<'_>, x: ValueId, has_dim: bool) -> Result<Vec<usize>, LowerError> {
    let rank = l.b.rank(x);
    if has_dim { c.axes_or_all(l, 1, "dim", rank) } else { Ok((0..rank).collect()) }
}

/// The reduced value with the sizes that PyTorch gives the result, so that kept axes reappear.
fn finish(l: &mut Lowering<'_>, c: &Call<'_>, x: ValueId) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let x = cast(l, x, dtype)?;
    one(l.b.reshape(x, &dims)?)
}

fn sum(l: &mut Lowering<'_>, c: &Call<'_>, has_dim: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axes = axes_of(l, c, x, has_dim)?;
    let x = cast(l, x, c.out_dtype()?.compute_type())?;
    let r = l.b.reduce(Combiner::Add, x, &axes)?;
    finish(l, c, r)
}

fn nansum(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axes = axes_of(l, c, x, true)?;
    let x = cast(l, x, c.out_dtype()?.compute_type())?;
    let missing = is_nan(l, x)?;
    let zero = l.b.full_like(x, 0.0)?;
    let x = l.b.select(missing, zero, x)?;
    let r = l.b.reduce(Combiner::Add, x, &axes)?;
    finish(l, c, r)
}

/// Number of elements that the axes hold together.
fn count(l: &Lowering<'_>, x: ValueId, axes: &[usize]) -> f64 {
    axes.iter().map(|&a| l.b.ty(x).dims[a]).product::<i64>() as f64
}

/// Mean over axes, which stay with size 1.
fn mean_keep(l: &mut Lowering<'_>, x: ValueId, axes: &[usize]) -> Built {
    let n = count(l, x, axes);
    let total = l.b.reduce_keep(Combiner::Add, x, axes)?;
    Ok(l.b.binary_scalar(BinaryOp::Div, total, n)?)
}

fn mean(l: &mut Lowering<'_>, c: &Call<'_>, has_dim: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axes = axes_of(l, c, x, has_dim)?;
    let x = cast(l, x, c.out_dtype()?.compute_type())?;
    let r = mean_keep(l, x, &axes)?;
    finish(l, c, r)
}

fn prod(l: &mut Lowering<'_>, c: &Call<'_>, has_dim: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axes = axes_of(l, c, x, has_dim)?;
    let x = cast(l, x, c.out_dtype()?.compute_type())?;
    let r = l.b.reduce(Combiner::Mul, x, &axes)?;
    finish(l, c, r)
}

/// Largest or smallest over axes; booleans by or and and.
fn extreme_over(l: &mut Lowering<'_>, x: ValueId, axes: &[usize], max: bool) -> Built {
    let combiner = match (l.b.dtype(x), max) {
        (DType::Pred, true) => Combiner::Or,
        (DType::Pred, false) => Combiner::And,
        (_, true) => Combiner::Max,
        (_, false) => Combiner::Min,
    };
    Ok(l.b.reduce(combiner, x, axes)?)
}

fn extremum(l: &mut Lowering<'_>, c: &Call<'_>, max: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axes = axes_of(l, c, x, true)?;
    let r = extreme_over(l, x, &axes, max)?;
    finish(l, c, r)
}

/// Eager raises for the largest of no elements, which PyTorch does not notice while it captures.
fn not_empty(elements: i64) -> Result<(), LowerError> {
    if elements == 0 { Err(LowerError::unsupported("the extremum of no elements, for which eager raises an error")) } else { Ok(()) }
}

fn extremum_of_all(l: &mut Lowering<'_>, c: &Call<'_>, max: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    not_empty(l.b.ty(x).numel())?;
    let axes = axes_of(l, c, x, false)?;
    let r = extreme_over(l, x, &axes, max)?;
    finish(l, c, r)
}

fn aminmax(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let rank = l.b.rank(x);
    let axes = match c.opt_int(l, 1, "dim")? {
        Some(_) if rank > 0 => vec![c.axis(l, 1, "dim", rank)?],
        _ => (0..rank).collect(),
    };
    let dims = c.out_dims(l)?;
    let low = extreme_over(l, x, &axes, false)?;
    let high = extreme_over(l, x, &axes, true)?;
    many([l.b.reshape(low, &dims)?, l.b.reshape(high, &dims)?])
}

/// Position of the largest or smallest along an axis, the axis dropped.
fn position(l: &mut Lowering<'_>, x: ValueId, axis: usize, max: bool) -> Built {
    let x = if l.b.dtype(x) == DType::Pred { l.b.convert(x, DType::U8)? } else { x };
    Ok(l.b.op(Op::ArgReduce { axis, max }, [x])?)
}

fn extremum_and_position(l: &mut Lowering<'_>, c: &Call<'_>, max: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (rank, out) = (l.b.rank(x), c.out_dims(l)?);
    if rank == 0 {
        return many([x, l.b.full_int(DType::S64, &[], 0)?]);
    }
    let axis = c.axis(l, 1, "dim", rank)?;
    not_empty(l.b.ty(x).dims[axis])?;
    let values = extreme_over(l, x, &[axis], max)?;
    let positions = position(l, x, axis, max)?;
    many([l.b.reshape(values, &out)?, l.b.reshape(positions, &out)?])
}

fn arg(l: &mut Lowering<'_>, c: &Call<'_>, max: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (rank, out) = (l.b.rank(x), c.out_dims(l)?);
    if out.contains(&0) || l.b.ty(x).numel() == 0 {
        return one(filled(l, Scalar::Int(0), DType::S64, &out)?);
    }
    let (x, axis) = match c.opt_int(l, 1, "dim")? {
        Some(_) if rank > 0 => (x, c.axis(l, 1, "dim", rank)?),
        _ => {
            let n = l.b.ty(x).numel();
            (l.b.reshape(x, &[n])?, 0)
        }
    };
    let r = position(l, x, axis, max)?;
    finish(l, c, r)
}

fn logical(l: &mut Lowering<'_>, c: &Call<'_>, combiner: Combiner) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axes = axes_of(l, c, x, !c.target.ends_with(".default"))?;
    let x = cast(l, x, DType::Pred)?;
    let r = l.b.reduce(combiner, x, &axes)?;
    finish(l, c, r)
}

/// The call's axes and divisor correction. `var.dim` and `var.default` say `unbiased`, `var.correction` a number.
fn variance_arguments(l: &Lowering<'_>, c: &Call<'_>, x: ValueId) -> Result<(Vec<usize>, f64), LowerError> {
    let unbiased = |index: usize| Ok::<f64, LowerError>(f64::from(u8::from(c.bool_or(index, "unbiased", true)?)));
    if c.target.ends_with(".default") {
        return Ok((axes_of(l, c, x, false)?, unbiased(1)?));
    }
    let axes = axes_of(l, c, x, true)?;
    let correction = if c.target.ends_with(".dim") { unbiased(2)? } else { c.float_or(l, usize::MAX, "correction", 1.0)? };
    Ok((axes, correction))
}

/// Variance and mean over axes, which stay with size 1: two passes in the compute type.
fn moments(l: &mut Lowering<'_>, x: ValueId, axes: &[usize], correction: f64) -> Result<(ValueId, ValueId), LowerError> {
    let mean = mean_keep(l, x, axes)?;
    let dims = l.b.dims(x);
    let centre = l.b.expand(mean, &dims)?;
    let d = l.b.sub(x, centre)?;
    let square = if l.b.dtype(x).is_complex() {
        let (re, im) = (l.b.unary(UnaryOp::Real, d)?, l.b.unary(UnaryOp::Imag, d)?);
        let (re, im) = (l.b.mul(re, re)?, l.b.mul(im, im)?);
        l.b.add(re, im)?
    } else {
        l.b.mul(d, d)?
    };
    let total = l.b.reduce_keep(Combiner::Add, square, axes)?;
    let divisor = (count(l, x, axes) - correction).max(0.0);
    Ok((l.b.binary_scalar(BinaryOp::Div, total, divisor)?, mean))
}

fn var(l: &mut Lowering<'_>, c: &Call<'_>, root: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (axes, correction) = variance_arguments(l, c, x)?;
    let x = cast(l, x, l.b.dtype(x).compute_type())?;
    let (mut v, _) = moments(l, x, &axes, correction)?;
    if root {
        v = l.b.unary(UnaryOp::Sqrt, v)?;
    }
    finish(l, c, v)
}

fn var_mean(l: &mut Lowering<'_>, c: &Call<'_>, root: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (axes, correction) = variance_arguments(l, c, x)?;
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let x = cast(l, x, l.b.dtype(x).compute_type())?;
    let (mut v, m) = moments(l, x, &axes, correction)?;
    if root {
        v = l.b.unary(UnaryOp::Sqrt, v)?;
    }
    let (v, m) = (cast(l, v, out)?, cast(l, m, c.out_meta(1)?.dtype)?);
    many([l.b.reshape(v, &dims)?, l.b.reshape(m, &dims)?])
}

fn prims_var(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "inp")?;
    let axes = c.axes_or_all(l, 1, "dims", l.b.rank(x))?;
    let correction = c.float_or(l, 2, "correction", 1.0)?;
    let x = cast(l, x, l.b.dtype(x).compute_type())?;
    let (v, _) = moments(l, x, &axes, correction)?;
    finish(l, c, v)
}

fn logsumexp(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axes = axes_of(l, c, x, true)?;
    let x = cast(l, x, c.out_dtype()?.compute_type())?;
    let dims = l.b.dims(x);
    let top = l.b.reduce_keep(Combiner::Max, x, &axes)?;
    let size = l.b.unary(UnaryOp::Abs, top)?;
    let infinite = l.b.compare_scalar(CompareDir::Eq, size, f64::INFINITY)?;
    let zero = l.b.full_like(top, 0.0)?;
    let top = l.b.select(infinite, zero, top)?;
    let wide = l.b.expand(top, &dims)?;
    let shifted = l.b.sub(x, wide)?;
    let e = l.b.unary(UnaryOp::Exp, shifted)?;
    let total = l.b.reduce_keep(Combiner::Add, e, &axes)?;
    let log = l.b.unary(UnaryOp::Log, total)?;
    let r = l.b.add(log, top)?;
    finish(l, c, r)
}

/// (sum |x|^p)^(1/p) over axes, with the usual readings of p = 0 and infinite p.
fn p_norm(l: &mut Lowering<'_>, c: &Call<'_>, x: ValueId, axes: &[usize], p: f64) -> Result<Outputs, LowerError> {
    let compute = c.out_dtype()?.compute_type();
    let x = if l.b.dtype(x).is_complex() { l.b.unary(UnaryOp::Abs, x)? } else { x };
    let x = cast(l, x, compute)?;
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let r = if p == 0.0 {
        let there = l.b.compare_scalar(CompareDir::Ne, size, 0.0)?;
        let there = cast(l, there, compute)?;
        l.b.reduce(Combiner::Add, there, axes)?
    } else if p == f64::INFINITY {
        let any = axes.iter().all(|&a| l.b.ty(size).dims[a] > 0);
        if any { l.b.reduce(Combiner::Max, size, axes)? } else { l.b.reduce(Combiner::Add, size, axes)? }
    } else if p == f64::NEG_INFINITY {
        l.b.reduce(Combiner::Min, size, axes)?
    } else if p == 1.0 {
        l.b.reduce(Combiner::Add, size, axes)?
    } else if p == 2.0 {
        let square = l.b.mul(x, x)?;
        let total = l.b.reduce(Combiner::Add, square, axes)?;
        l.b.unary(UnaryOp::Sqrt, total)?
    } else {
        let power = l.b.binary_scalar(BinaryOp::Pow, size, p)?;
        let total = l.b.reduce(Combiner::Add, power, axes)?;
        l.b.binary_scalar(BinaryOp::Pow, total, 1.0 / p)?
    };
    finish(l, c, r)
}

fn vector_norm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let p = c.float_or(l, 1, "ord", 2.0)?;
    let axes = c.axes_or_all(l, 2, "dim", l.b.rank(x))?;
    p_norm(l, c, x, &axes, p)
}

fn norm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let p = c.float_or(l, 1, "p", 2.0)?;
    let rank = l.b.rank(x);
    let axes = if c.target.contains("_dim") { c.axes_or_all(l, 2, "dim", rank)? } else { (0..rank).collect() };
    p_norm(l, c, x, &axes, p)
}

fn frobenius(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axes = axes_of(l, c, x, true)?;
    p_norm(l, c, x, &axes, 2.0)
}

fn count_nonzero(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axes: Axes = axes_of(l, c, x, true)?.into_iter().collect();
    let there = cast(l, x, DType::Pred)?;
    let there = cast(l, there, DType::S64)?;
    let r = l.b.reduce(Combiner::Add, there, &axes)?;
    finish(l, c, r)
}

/// Norm of the difference of two tensors.
fn dist(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "other")?);
    let p = c.float_or(l, 2, "p", 2.0)?;
    let compute = c.out_dtype()?.compute_type();
    let (x_dims, y_dims) = (l.b.dims(x), l.b.dims(y));
    let Some(dims) = clutch_graph::builder::broadcast_dims(&x_dims, &y_dims) else {
        return Err(LowerError::unsupported("the sizes do not broadcast"));
    };
    let (x, y) = (fit(l, x, compute, &dims)?, fit(l, y, compute, &dims)?);
    let difference = l.b.sub(x, y)?;
    let axes: Vec<usize> = (0..dims.len()).collect();
    p_norm(l, c, difference, &axes, p)
}
