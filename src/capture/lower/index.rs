//! Indexing with tensors, embeddings and selection along one axis.

use clutch_graph::builder::broadcast_dims;
use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, GatherDims, ScatterDims};
use clutch_graph::{DType, Dims, Op, ValueId};

use super::helpers::{Scalar, cast, filled, fit, opt_scalar};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.index.Tensor", index),
    ("aten._unsafe_index.Tensor", index),
    ("aten.index_put.default", index_put),
    ("aten._unsafe_index_put.default", index_put),
    ("aten._index_put_impl.default", index_put),
    ("aten._unsafe_masked_index.default", masked_index),
    ("aten._unsafe_masked_index_put_accumulate.default", masked_index_put),
    ("aten.embedding.default", embedding),
    ("aten.embedding_dense_backward.default", embedding_backward),
    ("aten.nonzero_static.default", nonzero_static),
    ("aten.index_select.default", index_select),
    ("aten.take.default", take),
    ("aten.put.default", put),
    ("aten.one_hot.default", one_hot),
];

type Built = Result<ValueId, LowerError>;

/// The combiner's form for the element type: of truth values sums are `Or` and products `And`.
pub(super) fn combiner_of(combiner: Combiner, dtype: DType) -> Combiner {
    match combiner {
        Combiner::Add | Combiner::Max if dtype == DType::Pred => Combiner::Or,
        Combiner::Mul | Combiner::Min if dtype == DType::Pred => Combiner::And,
        other => other,
    }
}

/// Positions on an axis of `size` as `S64`, negative ones counted from the end.
pub(super) fn wrap(l: &mut Lowering<'_>, positions: ValueId, size: i64) -> Built {
    let positions = cast(l, positions, DType::S64)?;
    let zero = l.b.full_like(positions, 0.0)?;
    let negative = l.b.compare(CompareDir::Lt, positions, zero)?;
    let from_end = l.b.binary_int(BinaryOp::Add, positions, size)?;
    Ok(l.b.select(negative, from_end, positions)?)
}

/// Entries of `x` along `axis`: the axis is replaced by those of `positions`, which clamp to the axis.
pub(super) fn take_along(l: &mut Lowering<'_>, x: ValueId, axis: usize, positions: ValueId) -> Built {
    Subspace::of_axis(l, axis, positions).gather(l, x)
}

/// `updates` combined into `x` at `positions` along `axis`; positions out of range are dropped. The updates' sizes are those of
/// [`take_along`]'s result.
pub(super) fn put_along(l: &mut Lowering<'_>, x: ValueId, axis: usize, positions: ValueId, updates: ValueId, combiner: Combiner) -> Built {
    Subspace::of_axis(l, axis, positions).scatter(l, x, updates, combiner)
}

/// Axes of a tensor that integer tensors index, and where the axes of the indices stand in the result.
struct Subspace {
    /// Indexed axes, increasing.
    axes: Axes,
    /// Broadcast sizes of the indices.
    batch: Dims,
    /// First result axis of the indices' axes.
    at: usize,
    /// `S64` index vectors, components last; scalars when one axis is indexed.
    positions: ValueId,
}

impl Subspace {
    fn of_axis(l: &Lowering<'_>, axis: usize, positions: ValueId) -> Self {
        Subspace { axes: smallvec::smallvec![axis], batch: l.b.dims(positions), at: axis, positions }
    }

    /// Reads an index list of integer tensors and None; `negative` positions count from the end of the axis or stay as they are.
    fn new(l: &mut Lowering<'_>, x: ValueId, indices: &[Option<ValueId>], negative: bool) -> Result<Self, LowerError> {
        let dims = l.b.dims(x);
        let axes: Axes = (0..indices.len()).filter(|&a| indices[a].is_some()).collect();
        let given: Vec<ValueId> = indices.iter().flatten().copied().collect();
        if axes.is_empty() || indices.len() > dims.len() {
            return Err(LowerError::Argument { index: 1, name: "indices", expected: "a list of at most as many indices as axes" });
        }
        let mut batch = Dims::new();
        for &i in &given {
            if is_mask(l, i) {
                return Err(LowerError::unsupported("the size of the result depends on the contents of a boolean index"));
            }
            batch = broadcast_dims(&batch, &l.b.dims(i)).ok_or(LowerError::Argument {
                index: 1,
                name: "indices",
                expected: "tensors that broadcast",
            })?;
        }
        let mut components = Vec::with_capacity(given.len());
        for (&a, &i) in axes.iter().zip(&given) {
            let i = if negative { wrap(l, i, dims[a])? } else { cast(l, i, DType::S64)? };
            components.push(l.b.expand(i, &batch)?);
        }
        let adjacent = axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let at = if adjacent { axes[0] } else { 0 };
        let positions = match components[..] {
            [single] => single,
            _ => {
                for v in &mut components {
                    *v = l.b.unsqueeze(*v, batch.len())?;
                }
                l.b.concat(&components, batch.len())?
            }
        };
        Ok(Subspace { axes, batch, at, positions })
    }

    /// Sizes of the indexed part of a tensor of the given sizes.
    fn dims(&self, of: &[i64]) -> Dims {
        let mut dims: Dims = (0..of.len()).filter(|a| !self.axes.contains(a)).map(|a| of[a]).collect();
        dims.insert_many(self.at, self.batch.iter().copied());
        dims
    }

    /// Result axes that do not come from the indices.
    fn windows(&self, rank: usize) -> Axes {
        let kept = rank - self.axes.len();
        (0..self.at).chain(self.at + self.batch.len()..kept + self.batch.len()).collect()
    }

    fn gather(&self, l: &mut Lowering<'_>, x: ValueId) -> Built {
        let dims = l.b.dims(x);
        let out = self.dims(&dims);
        if out.contains(&0) || dims.contains(&0) {
            return filled(l, Scalar::Int(0), l.b.dtype(x), &out);
        }
        let slice_sizes = (0..dims.len()).map(|a| if self.axes.contains(&a) { 1 } else { dims[a] }).collect();
        let gather = GatherDims {
            offset_dims: self.windows(dims.len()),
            collapsed_slice_dims: self.axes.clone(),
            start_index_map: self.axes.clone(),
            index_vector_dim: self.batch.len(),
            slice_sizes,
            in_bounds: false,
        };
        Ok(l.b.op(Op::Gather(Box::new(gather)), [x, self.positions])?)
    }

    fn scatter(&self, l: &mut Lowering<'_>, x: ValueId, updates: ValueId, combiner: Combiner) -> Built {
        let (dims, dtype) = (l.b.dims(x), l.b.dtype(x));
        let updates = fit(l, updates, dtype, &self.dims(&dims))?;
        if l.b.ty(updates).numel() == 0 || dims.contains(&0) {
            return Ok(x);
        }
        let scatter = ScatterDims {
            update_window_dims: self.windows(dims.len()),
            inserted_window_dims: self.axes.clone(),
            scatter_dims_to_operand_dims: self.axes.clone(),
            index_vector_dim: self.batch.len(),
            unique: false,
        };
        let combiner = combiner_of(combiner, dtype);
        Ok(l.b.op(Op::Scatter { combiner, dims: Box::new(scatter) }, [x, self.positions, updates])?)
    }
}

fn is_mask(l: &Lowering<'_>, index: ValueId) -> bool {
    matches!(l.b.dtype(index), DType::Pred | DType::U8)
}

fn index(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let indices = c.opt_tensors(l, 1, "indices")?;
    if indices.iter().all(Option::is_none) {
        return one(x);
    }
    let space = Subspace::new(l, x, &indices, true)?;
    one(space.gather(l, x)?)
}

fn index_put(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, values) = (c.tensor(l, 0, "self")?, c.tensor(l, 2, "values")?);
    let indices = c.opt_tensors(l, 1, "indices")?;
    let accumulate = c.bool_or(3, "accumulate", false)?;
    let combiner = if accumulate { Combiner::Add } else { Combiner::Assign };
    let given: Vec<(usize, ValueId)> = indices.iter().enumerate().filter_map(|(a, i)| i.map(|i| (a, i))).collect();
    match given[..] {
        [] => {
            let whole = fit(l, values, l.b.dtype(x), &l.b.dims(x))?;
            one(if accumulate { l.b.add(x, whole)? } else { whole })
        }
        [(axis, mask)] if is_mask(l, mask) => one(put_where(l, x, axis, mask, values, accumulate)?),
        _ => {
            let space = Subspace::new(l, x, &indices, true)?;
            one(space.scatter(l, x, values, combiner)?)
        }
    }
}

/// `x[..., mask] = values` for values with one element for all places of the mask, the mask's axes starting at `axis`.
fn put_where(l: &mut Lowering<'_>, x: ValueId, axis: usize, mask: ValueId, values: ValueId, accumulate: bool) -> Built {
    let ty = l.b.ty(x).clone();
    let masked = l.b.rank(mask);
    let after = ty.rank().checked_sub(axis + masked).ok_or(LowerError::Argument {
        index: 1,
        name: "indices",
        expected: "a mask of the tensor's axes",
    })?;
    let mut dims = l.b.dims(values);
    if let Some(place) = dims.len().checked_sub(after + 1) {
        if dims[place] != 1 {
            return Err(LowerError::unsupported("the number of values taken depends on the contents of a boolean index"));
        }
        dims.remove(place);
        dims.insert_many(place, std::iter::repeat_n(1, masked));
    }
    let values = l.b.reshape(values, &dims)?;
    let mut values = fit(l, values, ty.dtype, &ty.dims)?;
    if accumulate {
        values = l.b.add(x, values)?;
    }
    let mask = cast(l, mask, DType::Pred)?;
    let axes: Axes = (axis..axis + masked).collect();
    let mask = l.b.broadcast_in_dim(mask, &ty.dims, &axes)?;
    Ok(l.b.select(mask, values, x)?)
}

fn masked_index(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, mask) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mask")?);
    let indices = c.opt_tensors(l, 2, "indices")?;
    let fill = opt_scalar(l, c, 3, "fill")?.unwrap_or(Scalar::Int(0));
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let space = Subspace::new(l, x, &indices, false)?;
    let taken = space.gather(l, x)?;
    let fill = filled(l, fill, dtype, &out)?;
    if l.b.ty(x).numel() == 0 {
        return one(fill);
    }
    let mask = fit(l, mask, DType::Pred, &out)?;
    one(l.b.select(mask, taken, fill)?)
}

fn masked_index_put(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, mask, values) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mask")?, c.tensor(l, 3, "values")?);
    let indices = c.opt_tensors(l, 2, "indices")?;
    let space = Subspace::new(l, x, &indices, true)?;
    let (dtype, dims) = (l.b.dtype(x), space.dims(&l.b.dims(x)));
    let (mask, values) = (fit(l, mask, DType::Pred, &dims)?, fit(l, values, dtype, &dims)?);
    let zero = l.b.full_like(values, 0.0)?;
    let values = l.b.select(mask, values, zero)?;
    one(space.scatter(l, x, values, Combiner::Add)?)
}

fn embedding(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (weight, positions) = (c.tensor(l, 0, "weight")?, c.tensor(l, 1, "indices")?);
    one(take_along(l, weight, 0, positions)?)
}

fn embedding_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (grad, positions) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "indices")?);
    let (rows, padding) = (c.int(l, 2, "num_weights")?, c.int_or(l, 3, "padding_idx", -1)?);
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = dtype.compute_type();
    let mut positions = cast(l, positions, DType::S64)?;
    if (0..rows).contains(&padding) {
        let target = l.b.binary_int(BinaryOp::Sub, positions, padding)?;
        let zero = l.b.full_like(target, 0.0)?;
        let padded = l.b.compare(CompareDir::Eq, target, zero)?;
        let nowhere = filled(l, Scalar::Int(rows), DType::S64, &l.b.dims(positions))?;
        positions = l.b.select(padded, nowhere, positions)?;
    }
    let mut grad = cast(l, grad, compute)?;
    if c.bool_or(4, "scale_grad_by_freq", false)? {
        let places = l.b.dims(positions);
        let (none, each) = (filled(l, Scalar::Int(0), compute, &[rows])?, filled(l, Scalar::Int(1), compute, &places)?);
        let counts = put_along(l, none, 0, positions, each, Combiner::Add)?;
        let count = take_along(l, counts, 0, positions)?;
        let (axes, wide): (Axes, Dims) = ((0..places.len()).collect(), l.b.dims(grad));
        let count = l.b.broadcast_in_dim(count, &wide, &axes)?;
        grad = l.b.div(grad, count)?;
    }
    let zeros = filled(l, Scalar::Int(0), compute, &dims)?;
    let sums = put_along(l, zeros, 0, positions, grad, Combiner::Add)?;
    one(cast(l, sums, dtype)?)
}

fn index_select(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, positions) = (c.tensor(l, 0, "self")?, c.tensor(l, 2, "index")?);
    let (rank, out) = (l.b.rank(x), c.out_dims(l)?);
    if rank == 0 {
        return one(l.b.reshape(x, &out)?);
    }
    let axis = c.axis(l, 1, "dim", rank)?;
    let count = l.b.ty(positions).numel();
    let positions = l.b.reshape(positions, &[count])?;
    one(take_along(l, x, axis, positions)?)
}

/// The tensor as one row of elements.
pub(super) fn flat(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let count = l.b.ty(x).numel();
    Ok(l.b.reshape(x, &[count])?)
}

fn take(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, positions) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "index")?);
    let x = flat(l, x)?;
    let positions = wrap(l, positions, l.b.ty(x).numel())?;
    one(take_along(l, x, 0, positions)?)
}

fn put(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, positions, source) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "index")?, c.tensor(l, 2, "source")?);
    let combiner = if c.bool_or(3, "accumulate", false)? { Combiner::Add } else { Combiner::Assign };
    let dims = l.b.dims(x);
    let row = flat(l, x)?;
    let positions = wrap(l, positions, l.b.ty(row).numel())?;
    let source = l.b.reshape(source, &l.b.dims(positions))?;
    let row = put_along(l, row, 0, positions, source, combiner)?;
    one(l.b.reshape(row, &dims)?)
}

fn one_hot(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let out = c.out_dims(l)?;
    let rank = l.b.rank(x);
    let axes: Axes = (0..rank).collect();
    let x = cast(l, x, DType::S64)?;
    let dims = l.b.dims(x);
    let bounds = [
        (CompareDir::Ge, 0, "Class values must be non-negative."),
        (CompareDir::Lt, out[rank], "Class values must be smaller than num_classes."),
    ];
    for (direction, bound, message) in bounds {
        let bound = filled(l, Scalar::Int(bound), DType::S64, &dims)?;
        let inside = l.b.compare(direction, x, bound)?;
        let all = l.b.reduce(Combiner::And, inside, &axes)?;
        l.assert(all, message.to_owned());
    }
    let wide = l.b.broadcast_in_dim(x, &out, &axes)?;
    let class = l.b.iota(DType::S64, &out, rank)?;
    let there = l.b.compare(CompareDir::Eq, wide, class)?;
    one(cast(l, there, DType::S64)?)
}

/// Positions of the first `size` elements that are not zero, one row each; rows past the last hold `fill_value`.
fn nonzero_static(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let fill = c.int_or(l, usize::MAX, "fill_value", -1)?;
    let (dims, out) = (l.b.dims(x), c.out_dims(l)?);
    let count = l.b.ty(x).numel();
    if count == 0 || out.contains(&0) {
        return one(filled(l, Scalar::Int(fill), DType::S64, &out)?);
    }
    let held = cast(l, x, DType::Pred)?;
    let held = l.b.reshape(held, &[count])?;
    let ones = l.b.convert(held, DType::S64)?;
    let running = l.b.op(Op::Cumulative { combiner: Combiner::Add, axis: 0 }, [ones])?;
    let rank = l.b.binary_int(BinaryOp::Sub, running, 1)?;
    let nowhere = l.b.full_int(DType::S64, &[count], out[0])?;
    let target = l.b.select(held, rank, nowhere)?;
    let mut columns = Vec::with_capacity(dims.len());
    for axis in 0..dims.len() {
        let places = l.b.iota(DType::S64, &dims, axis)?;
        let places = l.b.reshape(places, &[count])?;
        let column = filled(l, Scalar::Int(fill), DType::S64, &out[..1])?;
        let column = put_along(l, column, 0, target, places, Combiner::Assign)?;
        columns.push(l.b.unsqueeze(column, 1)?);
    }
    one(l.b.concat(&columns, 1)?)
}
