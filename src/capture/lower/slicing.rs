//! Parts of tensors, and writing parts into tensors.

use clutch_graph::op::{Axes, Combiner, PadDim, ScatterDims};
use clutch_graph::{DType, Dims, Op, ValueId};

use super::call::normalize_axis;
use super::helpers::{Scalar, cast, filled, fit, take_axis};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.slice.Tensor", slice),
    ("aten.slice_copy.Tensor", slice),
    ("aten.narrow.default", narrow),
    ("aten.narrow_copy.default", narrow),
    ("aten.select.int", select),
    ("aten.select_copy.int", select),
    ("aten.split.Tensor", split),
    ("aten.split_copy.Tensor", split),
    ("aten.unsafe_split.Tensor", split),
    ("aten.chunk.default", split_as_given),
    ("aten.unsafe_chunk.default", split_as_given),
    ("aten.split_with_sizes.default", split_with_sizes),
    ("aten.split_with_sizes_copy.default", split_with_sizes),
    ("aten.unsafe_split_with_sizes.default", split_with_sizes),
    ("aten.unbind.int", unbind),
    ("aten.unbind_copy.int", unbind),
    ("aten.slice_backward.default", slice_backward),
    ("aten.select_backward.default", select_backward),
    ("aten.slice_scatter.default", slice_scatter),
    ("aten.select_scatter.default", select_scatter),
    ("aten.diagonal.default", diagonal),
    ("aten.diagonal_copy.default", diagonal),
    ("aten.diagonal_backward.default", diagonal_backward),
    ("aten.diagonal_scatter.default", diagonal_scatter),
    ("aten.diag_embed.default", diag_embed),
    ("aten.unfold.default", unfold),
    ("aten.unfold_copy.default", unfold),
    ("aten.unfold_backward.default", unfold_backward),
];

type Built = Result<ValueId, LowerError>;

/// Start, end and step of a Python slice of an axis of `size`, clamped as Python does. Arguments stand at `first` and after.
fn bounds(l: &Lowering<'_>, c: &Call<'_>, first: usize, size: i64) -> Result<(i64, i64, i64), LowerError> {
    let wrap = |i: i64| if i < 0 { i.saturating_add(size) } else { i };
    let start = wrap(c.int_or(l, first, "start", 0)?).clamp(0, size);
    let end = wrap(c.int_or(l, first + 1, "end", i64::MAX)?).clamp(start, size);
    let step = c.int_or(l, first + 2, "step", 1)?;
    if step < 1 {
        return Err(LowerError::Argument { index: first + 2, name: "step", expected: "positive" });
    }
    Ok((start, end, step))
}

fn slice(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = l.b.dims(x);
    let axis = c.axis_or(l, 1, "dim", dims.len(), 0)?;
    let (start, end, step) = bounds(l, c, 2, dims[axis])?;
    one(l.b.slice_axis(x, axis, start, end, step)?)
}

fn narrow(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = l.b.dims(x);
    let axis = c.axis(l, 1, "dim", dims.len())?;
    let start = c.int(l, 2, "start")?;
    let start = if start < 0 { start + dims[axis] } else { start };
    let length = c.int(l, 3, "length")?;
    one(l.b.slice_axis(x, axis, start, start + length, 1)?)
}

/// A possibly negative position on an axis of `size`.
fn position(l: &Lowering<'_>, c: &Call<'_>, index: usize, size: i64) -> Result<i64, LowerError> {
    let i = c.int(l, index, "index")?;
    let i = if i < 0 { i + size } else { i };
    if (0..size).contains(&i) { Ok(i) } else { Err(LowerError::Argument { index, name: "index", expected: "a position on the axis" }) }
}

fn select(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = l.b.dims(x);
    let axis = c.axis(l, 1, "dim", dims.len())?;
    let i = position(l, c, 2, dims[axis])?;
    one(drop_to(l, x, axis, i)?)
}

/// The entry at position `i` of `axis`, without the axis.
fn drop_to(l: &mut Lowering<'_>, x: ValueId, axis: usize, i: i64) -> Built {
    let mut dims = l.b.dims(x);
    let part = l.b.slice_axis(x, axis, i, i + 1, 1)?;
    dims.remove(axis);
    Ok(l.b.reshape(part, &dims)?)
}

/// Consecutive parts of the given sizes along `axis`.
fn parts(l: &mut Lowering<'_>, x: ValueId, axis: usize, sizes: &[i64]) -> Result<Outputs, LowerError> {
    let mut start = 0;
    let mut values = Vec::with_capacity(sizes.len());
    for &size in sizes {
        values.push(l.b.slice_axis(x, axis, start, start + size, 1)?);
        start += size;
    }
    many(values)
}

fn split(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = l.b.dims(x);
    let size = c.int(l, 1, "split_size")?;
    let axis = c.axis_or(l, 2, "dim", dims.len(), 0)?;
    let n = dims[axis];
    if size < 1 {
        return parts(l, x, axis, &[n]);
    }
    let count = (n + size - 1).div_euclid(size).max(1);
    let sizes: Dims = (0..count).map(|i| size.min(n - i * size)).collect();
    parts(l, x, axis, &sizes)
}

/// Parts of the sizes that PyTorch says the results have.
fn split_as_given(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axis = c.axis_or(l, 2, "dim", l.b.rank(x), 0)?;
    let mut sizes = Dims::new();
    for i in 0..c.node.outputs.len() {
        sizes.push(l.size(c.out_meta(i)?.shape[axis])?);
    }
    parts(l, x, axis, &sizes)
}

fn split_with_sizes(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let sizes = c.ints(l, 1, "split_sizes")?;
    let axis = c.axis_or(l, 2, "dim", l.b.rank(x), 0)?;
    parts(l, x, axis, &sizes)
}

fn unbind(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = l.b.dims(x);
    let axis = c.axis_or(l, 1, "dim", dims.len(), 0)?;
    let values: Result<Vec<ValueId>, LowerError> = (0..dims[axis]).map(|i| drop_to(l, x, axis, i)).collect();
    many(values?)
}

/// `src` at positions `start, start + step...` of an axis of `size`, zeros (or `Pred` false) between.
fn spread(l: &mut Lowering<'_>, src: ValueId, axis: usize, size: i64, start: i64, step: i64) -> Built {
    let ty = l.b.ty(src).clone();
    let count = ty.dims[axis];
    let mut dims = ty.dims.clone();
    dims[axis] = size;
    if count == 0 {
        return filled(l, Scalar::Int(0), ty.dtype, &dims);
    }
    let used = start + (count - 1) * step + 1;
    let mut pads = smallvec::smallvec![PadDim::default(); dims.len()];
    pads[axis] = PadDim { low: start, high: size - used, interior: step - 1 };
    let pads: smallvec::SmallVec<[PadDim; 6]> = pads;
    let zero = l.b.scalar_int(ty.dtype, 0)?;
    Ok(l.b.pad(src, zero, &pads)?)
}

fn slice_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let grad = c.tensor(l, 0, "grad_output")?;
    let dims = c.out_dims(l)?;
    let axis = c.axis(l, 2, "dim", dims.len())?;
    let (start, _, step) = bounds(l, c, 3, dims[axis])?;
    one(spread(l, grad, axis, dims[axis], start, step)?)
}

fn select_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let grad = c.tensor(l, 0, "grad_output")?;
    let dims = c.out_dims(l)?;
    let axis = c.axis(l, 2, "dim", dims.len())?;
    let i = position(l, c, 3, dims[axis])?;
    let grad = l.b.unsqueeze(grad, axis)?;
    one(spread(l, grad, axis, dims[axis], i, 1)?)
}

/// `base` with `src` at positions `start, start + step...` of `axis`.
fn insert(l: &mut Lowering<'_>, base: ValueId, src: ValueId, axis: usize, start: i64, step: i64) -> Built {
    let (base_dims, src_dims) = (l.b.dims(base), l.b.dims(src));
    if base_dims == src_dims {
        return Ok(src);
    }
    if src_dims.contains(&0) {
        return Ok(base);
    }
    if step == 1 || src_dims[axis] == 1 {
        let mut operands = vec![base, src];
        for a in 0..base_dims.len() {
            operands.push(l.b.scalar_int(DType::S32, if a == axis { start } else { 0 })?);
        }
        return Ok(l.b.op(Op::DynamicUpdateSlice, operands)?);
    }
    let there = filled(l, Scalar::Bool(true), DType::Pred, &src_dims)?;
    let there = spread(l, there, axis, base_dims[axis], start, step)?;
    let value = spread(l, src, axis, base_dims[axis], start, step)?;
    Ok(l.b.select(there, value, base)?)
}

fn slice_scatter(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (base, src) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "src")?);
    let dims = l.b.dims(base);
    let axis = c.axis_or(l, 2, "dim", dims.len(), 0)?;
    let (start, end, step) = bounds(l, c, 3, dims[axis])?;
    let mut part = dims.clone();
    part[axis] = (end - start + step - 1).div_euclid(step);
    let src = fit(l, src, l.b.dtype(base), &part)?;
    one(insert(l, base, src, axis, start, step)?)
}

fn select_scatter(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (base, src) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "src")?);
    let dims = l.b.dims(base);
    let axis = c.axis(l, 2, "dim", dims.len())?;
    let i = position(l, c, 3, dims[axis])?;
    let src = cast(l, src, l.b.dtype(base))?;
    let src = l.b.unsqueeze(src, axis)?;
    one(insert(l, base, src, axis, i, 1)?)
}

/// Which diagonal of which two axes: arguments at `first` and after.
struct Diagonal {
    offset: i64,
    axis1: usize,
    axis2: usize,
}

impl Diagonal {
    fn read(l: &Lowering<'_>, c: &Call<'_>, first: usize, rank: usize, defaults: (i64, i64)) -> Result<Self, LowerError> {
        Ok(Diagonal {
            offset: c.int_or(l, first, "offset", 0)?,
            axis1: c.axis_or(l, first + 1, "dim1", rank, defaults.0)?,
            axis2: c.axis_or(l, first + 2, "dim2", rank, defaults.1)?,
        })
    }

    /// The permutation that puts both axes last.
    fn last(&self, rank: usize) -> Axes {
        (0..rank).filter(|a| *a != self.axis1 && *a != self.axis2).chain([self.axis1, self.axis2]).collect()
    }

    /// Elements on the diagonal of an `n` by `m` matrix, and the row-major position of the first.
    fn place(&self, n: i64, m: i64) -> (i64, i64) {
        let count = if self.offset >= 0 { n.min(m.saturating_sub(self.offset)) } else { n.saturating_add(self.offset).min(m) };
        let first = if self.offset >= 0 { self.offset } else { self.offset.saturating_neg().saturating_mul(m) };
        (count.max(0), first)
    }
}

fn diagonal(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (rank, out) = (l.b.rank(x), c.out_dims(l)?);
    let d = Diagonal::read(l, c, 1, rank, (0, 1))?;
    let x = l.b.transpose(x, &d.last(rank))?;
    let mut dims = l.b.dims(x);
    let (n, m) = (dims[rank - 2], dims[rank - 1]);
    let (count, first) = d.place(n, m);
    if count == 0 {
        return one(filled(l, Scalar::Int(0), l.b.dtype(x), &out)?);
    }
    dims.truncate(rank - 2);
    dims.push(n * m);
    let flat = l.b.reshape(x, &dims)?;
    one(l.b.slice_axis(flat, rank - 2, first, first + (count - 1) * (m + 1) + 1, m + 1)?)
}

/// Matrices of the given sizes whose diagonal holds the last axis of `src` and whose other elements are zero.
fn on_diagonal(l: &mut Lowering<'_>, src: ValueId, d: &Diagonal, out: &[i64]) -> Built {
    let rank = out.len();
    let order = d.last(rank);
    let moved: Dims = order.iter().map(|&a| out[a]).collect();
    let (n, m) = (moved[rank - 2], moved[rank - 1]);
    let (count, first) = d.place(n, m);
    if count == 0 {
        return filled(l, Scalar::Int(0), l.b.dtype(src), out);
    }
    let flat = spread(l, src, rank - 2, n * m, first, m + 1)?;
    let matrices = l.b.reshape(flat, &moved)?;
    Ok(l.b.transpose(matrices, &crate::capture::layout::inverse_order(&order))?)
}

fn diagonal_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let grad = c.tensor(l, 0, "grad_output")?;
    let dims = c.out_dims(l)?;
    let d = Diagonal::read(l, c, 2, dims.len(), (0, 1))?;
    one(on_diagonal(l, grad, &d, &dims)?)
}

fn diag_embed(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = c.out_dims(l)?;
    let d = Diagonal::read(l, c, 1, dims.len(), (-2, -1))?;
    one(on_diagonal(l, x, &d, &dims)?)
}

fn diagonal_scatter(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (base, src) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "src")?);
    let dims = l.b.dims(base);
    let d = Diagonal::read(l, c, 2, dims.len(), (0, 1))?;
    let src = cast(l, src, l.b.dtype(base))?;
    let src_dims = l.b.dims(src);
    let there = filled(l, Scalar::Bool(true), DType::Pred, &src_dims)?;
    let there = on_diagonal(l, there, &d, &dims)?;
    let value = on_diagonal(l, src, &d, &dims)?;
    one(l.b.select(there, value, base)?)
}

/// Positions `window * step + element` of each window, row-major, for `count` windows of `size`.
fn window_positions(l: &mut Lowering<'_>, count: i64, size: i64, step: i64) -> Built {
    let window = l.b.iota(DType::S64, &[count, size], 0)?;
    let element = l.b.iota(DType::S64, &[count, size], 1)?;
    let window = l.b.binary_int(clutch_graph::op::BinaryOp::Mul, window, step)?;
    let sum = l.b.add(window, element)?;
    Ok(l.b.reshape(sum, &[count * size])?)
}

fn unfold(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (dims, out) = (l.b.dims(x), c.out_dims(l)?);
    if dims.is_empty() {
        return one(l.b.reshape(x, &out)?);
    }
    let axis = c.axis(l, 1, "dimension", dims.len())?;
    let (size, step) = (c.int(l, 2, "size")?, c.int(l, 3, "step")?);
    if out.contains(&0) {
        return one(filled(l, Scalar::Int(0), l.b.dtype(x), &out)?);
    }
    let count = out[axis];
    let positions = window_positions(l, count, size, step)?;
    let taken = take_axis(l, x, axis, positions)?;
    let mut split = dims.clone();
    split[axis] = count;
    split.insert(axis + 1, size);
    let windows = l.b.reshape(taken, &split)?;
    let perm: Axes = (0..split.len()).filter(|a| *a != axis + 1).chain([axis + 1]).collect();
    one(l.b.transpose(windows, &perm)?)
}

fn unfold_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let grad = c.tensor(l, 0, "grad_in")?;
    let out = c.out_dims(l)?;
    let axis = normalize_axis(c.int(l, 2, "dim")?, out.len());
    let Some(axis) = axis.filter(|_| !out.is_empty()) else { return one(l.b.reshape(grad, &out)?) };
    let (size, step) = (c.int(l, 3, "size")?, c.int(l, 4, "step")?);
    let zeros = filled(l, Scalar::Int(0), l.b.dtype(grad), &out)?;
    let rank = out.len();
    let count = l.b.dims(grad)[axis];
    if l.b.dims(grad).contains(&0) {
        return one(zeros);
    }
    let mut wide = out.clone();
    wide[axis] = count;
    wide.push(size);
    let grad = l.b.expand(grad, &wide)?;
    let perm: Axes = (0..axis + 1).chain([rank]).chain(axis + 1..rank).collect();
    let windows = l.b.transpose(grad, &perm)?;
    let mut flat = out.clone();
    flat[axis] = count * size;
    let updates = l.b.reshape(windows, &flat)?;
    let positions = window_positions(l, count, size, step)?;
    let dims = ScatterDims {
        update_window_dims: (0..rank).filter(|a| *a != axis).collect(),
        inserted_window_dims: smallvec::smallvec![axis],
        scatter_dims_to_operand_dims: smallvec::smallvec![axis],
        index_vector_dim: 1,
        unique: step >= size,
    };
    one(l.b.op(Op::Scatter { combiner: Combiner::Add, dims: Box::new(dims) }, [zeros, positions, updates])?)
}
