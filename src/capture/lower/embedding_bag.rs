//! Sums, means and maxima of bags of embedding rows, their gradients, and renormalisation of embedding rows.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, Op};
use clutch_graph::{DType, ValueId};

use super::helpers::{Scalar, cast, extreme, filled, scalar};
use super::index::{put_along, take_along};
use super::scatter::Elements;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten._embedding_bag.default", embedding_bag),
    ("aten._embedding_bag_forward_only.default", embedding_bag),
    ("aten._embedding_bag_backward.default", backward),
    ("aten._embedding_bag_dense_backward.default", dense_backward),
    ("aten._embedding_bag_per_sample_weights_backward.default", weights_backward),
    ("aten.embedding_renorm.default", renorm),
];

type Built = Result<ValueId, LowerError>;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Sum,
    Mean,
    Max,
}

fn mode(l: &Lowering<'_>, c: &Call<'_>, index: usize) -> Result<Mode, LowerError> {
    Ok(match c.int_or(l, index, "mode", 0)? {
        0 => Mode::Sum,
        1 => Mode::Mean,
        2 => Mode::Max,
        _ => return Err(LowerError::Argument { index, name: "mode", expected: "0, 1 or 2" }),
    })
}

/// The bag of each of `count` entries, from the first entry of each bag.
fn bag_of_each(l: &mut Lowering<'_>, offsets: ValueId, count: i64) -> Built {
    let starts = filled(l, Scalar::Int(0), DType::S64, &[count])?;
    let ones = filled(l, Scalar::Int(1), DType::S64, &l.b.dims(offsets))?;
    let starts = put_along(l, starts, 0, offsets, ones, Combiner::Add)?;
    let running = l.b.op(Op::Cumulative { combiner: Combiner::Add, axis: 0 }, [starts])?;
    Ok(l.b.binary_int(BinaryOp::Sub, running, 1)?)
}

/// `places` where the index is not the padding row, else `nowhere`.
fn without_padding(l: &mut Lowering<'_>, places: ValueId, indices: ValueId, padding: i64, nowhere: i64) -> Built {
    if padding < 0 {
        return Ok(places);
    }
    let dims = l.b.dims(places);
    let row = l.b.full_int(DType::S64, &dims, padding)?;
    let away = l.b.full_int(DType::S64, &dims, nowhere)?;
    let padded = l.b.compare(CompareDir::Eq, indices, row)?;
    Ok(l.b.select(padded, away, places)?)
}

/// A number per row, for each column of `[rows, columns]`.
fn per_row(l: &mut Lowering<'_>, x: ValueId, dims: &[i64]) -> Built {
    Ok(l.b.broadcast_in_dim(x, dims, &[0])?)
}

/// Result `index` of the sizes that PyTorch says: the value if those are its own, else zeros that nothing reads.
fn side_result(l: &mut Lowering<'_>, c: &Call<'_>, index: usize, value: ValueId) -> Result<Option<ValueId>, LowerError> {
    let meta = c.out_meta(index)?;
    let dims = l.sizes(&meta.shape)?;
    let value = cast(l, value, meta.dtype)?;
    Ok(Some(if l.b.dims(value) == dims { value } else { filled(l, Scalar::Int(0), meta.dtype, &dims)? }))
}

fn embedding_bag(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (weight, indices, offsets) = (c.tensor(l, 0, "weight")?, c.tensor(l, 1, "indices")?, c.tensor(l, 2, "offsets")?);
    let mode = mode(l, c, 4)?;
    let factors = c.opt_tensor(l, 6, "per_sample_weights")?;
    let padding = c.int_or(l, 8, "padding_idx", -1)?;
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let (bags, count, compute) = (out[0], l.b.ty(indices).numel(), dtype.compute_type());
    let (indices, offsets) = (cast(l, indices, DType::S64)?, cast(l, offsets, DType::S64)?);
    let starts = l.b.slice_axis(offsets, 0, 0, bags, 1)?;
    let mut sizes = filled(l, Scalar::Int(0), DType::S64, &[bags])?;
    let mut winners = filled(l, Scalar::Int(0), DType::S64, &out)?;
    let mut result = filled(l, Scalar::Int(0), compute, &out)?;
    let mut bag = filled(l, Scalar::Int(0), DType::S64, &[count])?;
    if count > 0 && !out.contains(&0) {
        bag = bag_of_each(l, starts, count)?;
        let target = without_padding(l, bag, indices, padding, bags)?;
        let ones = filled(l, Scalar::Int(1), DType::S64, &[count])?;
        sizes = put_along(l, sizes, 0, target, ones, Combiner::Add)?;
        let rows = take_along(l, weight, 0, indices)?;
        let mut rows = cast(l, rows, compute)?;
        let wide = l.b.dims(rows);
        if let Some(f) = factors {
            let f = cast(l, f, compute)?;
            let f = per_row(l, f, &wide)?;
            rows = l.b.mul(rows, f)?;
        }
        if mode == Mode::Max {
            let lowest = filled(l, extreme(compute, false), compute, &out)?;
            let tops = put_along(l, lowest, 0, target, rows, Combiner::Max)?;
            let own = take_along(l, tops, 0, bag)?;
            let wins = l.b.compare(CompareDir::Eq, own, rows)?;
            let counted = l.b.iota(DType::S64, &wide, 0)?;
            let never = l.b.full_int(DType::S64, &wide, count)?;
            let candidates = l.b.select(wins, counted, never)?;
            let first = l.b.full_int(DType::S64, &out, count)?;
            let first = put_along(l, first, 0, target, candidates, Combiner::Min)?;
            let last = l.b.full_int(DType::S64, &out, count - 1)?;
            let first = l.b.min(first, last)?;
            winners = take_along(l, indices, 0, first)?;
            let filled_bags = l.b.compare_scalar(CompareDir::Gt, sizes, 0.0)?;
            let filled_bags = per_row(l, filled_bags, &out)?;
            let none = l.b.full_like(winners, 0.0)?;
            winners = l.b.select(filled_bags, winners, none)?;
            result = l.b.select(filled_bags, tops, result)?;
        } else {
            result = put_along(l, result, 0, target, rows, Combiner::Add)?;
        }
        if mode == Mode::Mean {
            let n = l.b.convert(sizes, compute)?;
            let n = l.b.binary_scalar(BinaryOp::Max, n, 1.0)?;
            let n = per_row(l, n, &out)?;
            result = l.b.div(result, n)?;
        }
    }
    let mut outputs = Outputs::new();
    outputs.push(Some(cast(l, result, dtype)?));
    outputs.push(side_result(l, c, 1, bag)?);
    let with_end = c.out_meta(2).ok().map(|m| l.sizes(&m.shape)).transpose()?;
    if with_end.is_some_and(|d| d[..] == [bags + 1]) {
        let end = filled(l, Scalar::Int(0), DType::S64, &[1])?;
        sizes = l.b.concat(&[sizes, end], 0)?;
    }
    outputs.push(side_result(l, c, 2, sizes)?);
    outputs.push(side_result(l, c, 3, winners)?);
    Ok(outputs)
}

fn dense_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (bag, sizes) = (c.tensor(l, 2, "offset2bag")?, c.tensor(l, 3, "bag_size")?);
    gradient(l, c, bag, sizes, 4)
}

/// The gradient by the embedding rows, with what the forward kept found anew from the offsets.
fn backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    if c.bool_or(9, "sparse", false)? {
        return Err(LowerError::unsupported("a sparse gradient"));
    }
    let (grad, indices, offsets) = (c.tensor(l, 0, "grad")?, c.tensor(l, 1, "indices")?, c.tensor(l, 2, "offsets")?);
    let padding = c.int_or(l, 11, "padding_idx", -1)?;
    let (bags, count) = (l.b.dims(grad)[0], l.b.ty(indices).numel());
    let mut bag = filled(l, Scalar::Int(0), DType::S64, &[count])?;
    let mut sizes = filled(l, Scalar::Int(0), DType::S64, &[bags])?;
    if bags > 0 && count > 0 {
        let offsets = cast(l, offsets, DType::S64)?;
        let offsets = l.b.slice_axis(offsets, 0, 0, bags, 1)?;
        bag = bag_of_each(l, offsets, count)?;
        let indices = cast(l, indices, DType::S64)?;
        let target = without_padding(l, bag, indices, padding, bags)?;
        let ones = filled(l, Scalar::Int(1), DType::S64, &[count])?;
        sizes = put_along(l, sizes, 0, target, ones, Combiner::Add)?;
    }
    gradient(l, c, bag, sizes, 5)
}

/// `first` is the number of the argument `maximum_indices`; the sparse operator has one more argument before the weights.
fn gradient(l: &mut Lowering<'_>, c: &Call<'_>, bag: ValueId, sizes: ValueId, first: usize) -> Result<Outputs, LowerError> {
    let (grad, indices, winners) = (c.tensor(l, 0, "grad")?, c.tensor(l, 1, "indices")?, c.tensor(l, first, "maximum_indices")?);
    let mode = mode(l, c, first + 3)?;
    let weights = if first == 5 { 10 } else { 8 };
    let factors = c.opt_tensor(l, weights, "per_sample_weights")?;
    let padding = c.int_or(l, weights + 1, "padding_idx", -1)?;
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = dtype.compute_type();
    let zeros = filled(l, Scalar::Int(0), compute, &out)?;
    let grad = cast(l, grad, compute)?;
    let (bags, count) = (l.b.dims(grad)[0], l.b.ty(indices).numel());
    if bags == 0 || count == 0 || out.contains(&0) {
        return one(cast(l, zeros, dtype)?);
    }
    let (indices, bag, sizes) = (cast(l, indices, DType::S64)?, cast(l, bag, DType::S64)?, cast(l, sizes, DType::S64)?);
    let sizes = l.b.slice_axis(sizes, 0, 0, bags, 1)?;
    if mode == Mode::Max {
        let dims = l.b.dims(grad);
        let winners = cast(l, winners, DType::S64)?;
        let some = l.b.compare_scalar(CompareDir::Gt, sizes, 0.0)?;
        let some = per_row(l, some, &dims)?;
        let none = l.b.full_like(grad, 0.0)?;
        let grad = l.b.select(some, grad, none)?;
        let sums = Elements::new(l, winners, 0, &out)?.scatter(l, zeros, grad, Combiner::Add)?;
        return one(cast(l, sums, dtype)?);
    }
    let mut rows = take_along(l, grad, 0, bag)?;
    let wide = l.b.dims(rows);
    let mut scales = Vec::new();
    if mode == Mode::Mean {
        scales.push((take_along(l, sizes, 0, bag)?, true));
    }
    if c.bool_or(first + 2, "scale_grad_by_freq", false)? {
        let counts = filled(l, Scalar::Int(0), DType::S64, &out[..1])?;
        let ones = filled(l, Scalar::Int(1), DType::S64, &[count])?;
        let counts = put_along(l, counts, 0, indices, ones, Combiner::Add)?;
        scales.push((take_along(l, counts, 0, indices)?, true));
    }
    scales.extend(factors.map(|f| (f, false)));
    for (scale, divides) in scales {
        let scale = cast(l, scale, compute)?;
        let scale = per_row(l, scale, &wide)?;
        rows = l.b.binary(if divides { BinaryOp::Div } else { BinaryOp::Mul }, rows, scale)?;
    }
    let target = without_padding(l, indices, indices, padding, out[0])?;
    let sums = put_along(l, zeros, 0, target, rows, Combiner::Add)?;
    one(cast(l, sums, dtype)?)
}

fn weights_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (grad, weight, indices) = (c.tensor(l, 0, "grad")?, c.tensor(l, 1, "weight")?, c.tensor(l, 2, "indices")?);
    let (offsets, padding) = (c.tensor(l, 3, "offsets")?, c.int_or(l, 6, "padding_idx", -1)?);
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = dtype.compute_type();
    if out.contains(&0) {
        return one(filled(l, Scalar::Int(0), dtype, &out)?);
    }
    let (indices, offsets) = (cast(l, indices, DType::S64)?, cast(l, offsets, DType::S64)?);
    let bag = bag_of_each(l, offsets, out[0])?;
    let (own, rows) = (take_along(l, grad, 0, bag)?, take_along(l, weight, 0, indices)?);
    let (own, rows) = (cast(l, own, compute)?, cast(l, rows, compute)?);
    let product = l.b.mul(own, rows)?;
    let mut sum = l.b.reduce(Combiner::Add, product, &[1])?;
    if padding >= 0 {
        let row = l.b.full_int(DType::S64, &out, padding)?;
        let padded = l.b.compare(CompareDir::Eq, indices, row)?;
        let none = l.b.full_like(sum, 0.0)?;
        sum = l.b.select(padded, none, sum)?;
    }
    one(cast(l, sum, dtype)?)
}

/// Rows that the indices name, scaled down to the norm `max_norm` where theirs is above it.
fn renorm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (weight, indices) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "indices")?);
    let (limit, p) = (c.float(l, 2, "max_norm")?, scalar(l, c, 3, "norm_type")?.as_f64());
    let (dtype, dims) = (l.b.dtype(weight), l.b.dims(weight));
    let count = l.b.ty(indices).numel();
    if count == 0 || dims.contains(&0) {
        return one(weight);
    }
    let compute = dtype.compute_type();
    let wide = cast(l, weight, compute)?;
    let norms = super::distance::norm(l, wide, p)?;
    let above = l.b.compare_scalar(CompareDir::Gt, norms, limit)?;
    let indices = cast(l, indices, DType::S64)?;
    let indices = l.b.reshape(indices, &[count])?;
    let untouched = filled(l, Scalar::Bool(false), DType::Pred, &dims[..1])?;
    let there = filled(l, Scalar::Bool(true), DType::Pred, &[count])?;
    let touched = put_along(l, untouched, 0, indices, there, Combiner::Assign)?;
    let shrunk = l.b.binary(BinaryOp::And, above, touched)?;
    let shrunk = per_row(l, shrunk, &dims)?;
    let divisor = l.b.binary_scalar(BinaryOp::Add, norms, 1e-7)?;
    let limit = l.b.full_like(norms, limit)?;
    let factor = l.b.div(limit, divisor)?;
    let factor = per_row(l, factor, &dims)?;
    let scaled = l.b.mul(wide, factor)?;
    let scaled = cast(l, scaled, dtype)?;
    one(l.b.select(shrunk, scaled, weight)?)
}
