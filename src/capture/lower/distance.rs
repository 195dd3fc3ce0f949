//! Distances between rows and their gradients, and products of three tensors.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, UnaryOp};
use clutch_graph::{DType, Dims, Literal, ValueId};

use super::helpers::{Scalar, cast, filled, take_axis};
use super::index::put_along;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten._cdist_forward.default", cdist),
    ("aten._cdist_backward.default", cdist_backward),
    ("aten._pdist_forward.default", pdist),
    ("aten._pdist_backward.default", pdist_backward),
    ("aten._trilinear.default", trilinear),
];

type Built = Result<ValueId, LowerError>;

/// The p-norm over the last axis.
pub(super) fn norm(l: &mut Lowering<'_>, difference: ValueId, p: f64) -> Built {
    let last = l.b.rank(difference) - 1;
    let size = l.b.unary(UnaryOp::Abs, difference)?;
    if p == 0.0 {
        let moved = l.b.compare_scalar(CompareDir::Ne, size, 0.0)?;
        let moved = l.b.convert(moved, l.b.dtype(size))?;
        return Ok(l.b.reduce(Combiner::Add, moved, &[last])?);
    }
    if p == f64::INFINITY {
        let zero = l.b.full(l.b.dtype(size), &l.b.dims(size)[..last], 0.0)?;
        let largest = l.b.reduce(Combiner::Max, size, &[last])?;
        return Ok(l.b.max(largest, zero)?);
    }
    if p == 1.0 {
        return Ok(l.b.reduce(Combiner::Add, size, &[last])?);
    }
    if p == 2.0 {
        let square = l.b.mul(difference, difference)?;
        let sum = l.b.reduce(Combiner::Add, square, &[last])?;
        return Ok(l.b.unary(UnaryOp::Sqrt, sum)?);
    }
    let power = l.b.binary_scalar(BinaryOp::Pow, size, p)?;
    let sum = l.b.reduce(Combiner::Add, power, &[last])?;
    Ok(l.b.binary_scalar(BinaryOp::Pow, sum, 1.0 / p)?)
}

/// Derivative of [`norm`] by the differences, times `grad`; `distance` is the norm. Rows at distance 0 get 0.
fn norm_gradient(l: &mut Lowering<'_>, difference: ValueId, distance: ValueId, grad: ValueId, p: f64) -> Built {
    let dims = l.b.dims(difference);
    let kept: Vec<usize> = (0..dims.len() - 1).collect();
    let grad = l.b.broadcast_in_dim(grad, &dims, &kept)?;
    let wide = l.b.broadcast_in_dim(distance, &dims, &kept)?;
    let none = l.b.full_like(difference, 0.0)?;
    if p == 0.0 {
        return Ok(none);
    }
    let sign = l.b.unary(UnaryOp::Sign, difference)?;
    if p == 1.0 {
        return Ok(l.b.mul(grad, sign)?);
    }
    let size = l.b.unary(UnaryOp::Abs, difference)?;
    if p == f64::INFINITY {
        let largest = l.b.compare(CompareDir::Eq, size, wide)?;
        let part = l.b.mul(grad, sign)?;
        return Ok(l.b.select(largest, part, none)?);
    }
    let ratio = l.b.div(size, wide)?;
    let power = if p == 2.0 { ratio } else { l.b.binary_scalar(BinaryOp::Pow, ratio, p - 1.0)? };
    let slope = l.b.mul(sign, power)?;
    let part = l.b.mul(grad, slope)?;
    let apart = l.b.compare_scalar(CompareDir::Ne, size, 0.0)?;
    Ok(l.b.select(apart, part, none)?)
}

/// Differences of all pairs of rows: `[batch..., rows of x, rows of y, width]`.
fn pairs(l: &mut Lowering<'_>, x: ValueId, y: ValueId, batch: &[i64]) -> Built {
    let (xd, yd) = (l.b.dims(x), l.b.dims(y));
    let (rows, others, width) = (xd[xd.len() - 2], yd[yd.len() - 2], xd[xd.len() - 1]);
    let mut wide: Dims = batch.into();
    wide.extend([rows, others, width]);
    let x = l.b.unsqueeze(x, xd.len() - 1)?;
    let y = l.b.unsqueeze(y, yd.len() - 2)?;
    let (x, y) = (l.b.expand(x, &wide)?, l.b.expand(y, &wide)?);
    Ok(l.b.sub(x, y)?)
}

fn cdist(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y) = (c.tensor(l, 0, "x1")?, c.tensor(l, 1, "x2")?);
    let p = c.float(l, 2, "p")?;
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = dtype.compute_type();
    if out.contains(&0) || l.b.ty(x).numel() == 0 {
        return one(filled(l, Scalar::Int(0), dtype, &out)?);
    }
    let (x, y) = (cast(l, x, compute)?, cast(l, y, compute)?);
    let difference = pairs(l, x, y, &out[..out.len() - 2])?;
    let d = norm(l, difference, p)?;
    one(cast(l, d, dtype)?)
}

fn cdist_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (grad, x, y) = (c.tensor(l, 0, "grad")?, c.tensor(l, 1, "x1")?, c.tensor(l, 2, "x2")?);
    let (p, distance) = (c.float(l, 3, "p")?, c.tensor(l, 4, "cdist")?);
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = dtype.compute_type();
    let sizes = l.b.dims(distance);
    if out.contains(&0) || sizes.contains(&0) {
        return one(filled(l, Scalar::Int(0), dtype, &out)?);
    }
    let (x, y) = (cast(l, x, compute)?, cast(l, y, compute)?);
    let (grad, distance) = (cast(l, grad, compute)?, cast(l, distance, compute)?);
    let grad = l.b.expand(grad, &sizes)?;
    let difference = pairs(l, x, y, &sizes[..sizes.len() - 2])?;
    let slopes = norm_gradient(l, difference, distance, grad, p)?;
    let sum = l.b.reduce(Combiner::Add, slopes, &[sizes.len() - 1])?;
    one(cast(l, sum, dtype)?)
}

/// First and second row of each pair, in the order of the upper triangle.
fn triangle(l: &mut Lowering<'_>, rows: i64) -> Result<[ValueId; 2], LowerError> {
    let (first, second): (Vec<i64>, Vec<i64>) = (0..rows).flat_map(|i| (i + 1..rows).map(move |j| (i, j))).unzip();
    Ok([l.b.constant(Literal::vector_i64(DType::S64, &first))?, l.b.constant(Literal::vector_i64(DType::S64, &second))?])
}

fn pdist(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let p = c.float_or(l, 1, "p", 2.0)?;
    let (dtype, out, dims) = (c.out_dtype()?, c.out_dims(l)?, l.b.dims(x));
    if out.contains(&0) || dims.contains(&0) {
        return one(filled(l, Scalar::Int(0), dtype, &out)?);
    }
    let x = cast(l, x, dtype.compute_type())?;
    let [first, second] = triangle(l, dims[0])?;
    let (a, b) = (take_axis(l, x, 0, first)?, take_axis(l, x, 0, second)?);
    let difference = l.b.sub(a, b)?;
    let d = norm(l, difference, p)?;
    one(cast(l, d, dtype)?)
}

fn pdist_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (grad, x) = (c.tensor(l, 0, "grad")?, c.tensor(l, 1, "self")?);
    let (p, distance) = (c.float(l, 2, "p")?, c.tensor(l, 3, "pdist")?);
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = dtype.compute_type();
    if dims.contains(&0) || dims[0] < 2 {
        return one(filled(l, Scalar::Int(0), dtype, &dims)?);
    }
    let (x, grad, distance) = (cast(l, x, compute)?, cast(l, grad, compute)?, cast(l, distance, compute)?);
    let [first, second] = triangle(l, dims[0])?;
    let (a, b) = (take_axis(l, x, 0, first)?, take_axis(l, x, 0, second)?);
    let difference = l.b.sub(a, b)?;
    let slopes = norm_gradient(l, difference, distance, grad, p)?;
    let zeros = filled(l, Scalar::Int(0), compute, &dims)?;
    let sum = put_along(l, zeros, 0, first, slopes, Combiner::Add)?;
    let minus = l.b.unary(UnaryOp::Neg, slopes)?;
    let sum = put_along(l, sum, 0, second, minus, Combiner::Add)?;
    one(cast(l, sum, dtype)?)
}

/// The product of three tensors, each with axes of size 1 inserted, summed over axes.
fn trilinear(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = dtype.compute_type();
    let mut factors = Vec::with_capacity(3);
    for (i, (name, expand)) in [("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")].into_iter().enumerate() {
        let x = c.tensor(l, i, name)?;
        let mut x = cast(l, x, compute)?;
        let mut inserted = c.ints(l, i + 3, expand)?;
        inserted.sort_unstable();
        for axis in inserted {
            x = l.b.unsqueeze(x, axis as usize)?;
        }
        factors.push(x);
    }
    let summed: Vec<usize> = c.ints(l, 6, "sumdim")?.iter().map(|&a| a as usize).collect();
    let mut wide: Dims = l.b.dims(factors[0]);
    for &f in &factors[1..] {
        wide = clutch_graph::builder::broadcast_dims(&wide, &l.b.dims(f))
            .ok_or_else(|| LowerError::unsupported("sizes that do not broadcast"))?;
    }
    let mut product = l.b.expand(factors[0], &wide)?;
    for &f in &factors[1..] {
        let f = l.b.expand(f, &wide)?;
        product = l.b.mul(product, f)?;
    }
    let sum = l.b.reduce(Combiner::Add, product, &summed)?;
    let sum = l.b.reshape(sum, &out)?;
    one(cast(l, sum, dtype)?)
}
