//! Reads and writes at computed positions.

use clutch_graph::op::{CompareDir, GatherDims, ScatterDims};
use clutch_graph::{DType, NodeId, Op, ValueId};
use smallvec::SmallVec;

use super::{operands, rebuild, single};
use crate::bucket::extent::{Axis, Sizes, is_fixed};
use crate::bucket::validity::{Neutral, Pass, Ruled, Stop};

pub(super) fn apply(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    let xs = operands(p, id);
    match p.graphs[0].node(id).op.clone() {
        Op::Gather(dims) => gather(p, id, xs[0], xs[1], &dims),
        Op::Scatter { dims, .. } => scatter(p, id, &xs, &dims),
        Op::DynamicSlice(_) => {
            let mut state = p.fresh(id, 0, false);
            for a in 0..state.axes.len() {
                let axis = p.state(xs[0]).axes[a].clone();
                if p.attribute(id, a) == p.dim(xs[0], a) {
                    state.axes[a] = axis;
                } else if axis.0.len() > 1 || !is_fixed(&p.attribute(id, a)) {
                    return Err(Stop::Refused("a slice at a computed position whose size depends on a symbol"));
                }
            }
            let new: SmallVec<[ValueId; 7]> = xs.iter().map(|&x| p.value(x)).collect();
            let value = rebuild(p, id, &new)?;
            single(value, state)
        }
        Op::DynamicUpdateSlice => update(p, id, &xs),
        _ => Err(Stop::Refused("no rule")),
    }
}

/// A write at a computed position; where the padding of the update would fall on true data, the old data stays.
fn update(p: &mut Pass<'_>, id: NodeId, xs: &[ValueId]) -> Ruled {
    let axes = p.state(xs[0]).axes.clone();
    let mut cut: SmallVec<[usize; 4]> = SmallVec::new();
    for (a, axis) in axes.iter().enumerate() {
        let part = p.state(xs[1]).axes[a].clone();
        let (size, taken) = (p.dim(xs[0], a), p.dim(xs[1], a));
        if size == taken {
            axis.meet(&part).ok_or(Stop::Refused("operands whose padding lies at different places"))?;
        } else if part.is_partial() {
            let room: Sizes = std::array::from_fn(|i| size[i] - taken[i]);
            if axis.0.len() > 1 || part.0.len() > 1 || room.iter().any(|&r| r > room[0]) {
                return Err(Stop::Refused("a write at a computed position whose size depends on a symbol"));
            }
            cut.push(a);
        } else if axis.0.len() > 1 {
            return Err(Stop::Refused("a write into an axis that was merged from others"));
        }
    }
    let new: SmallVec<[ValueId; 8]> = xs.iter().map(|&x| p.value(x)).collect();
    let mut value = rebuild(p, id, &new)?;
    let dims = p.b.dims(value);
    for a in cut {
        let start = p.b.convert(p.value(xs[2 + a]), DType::S32)?;
        let length = p.size(&p.dim(xs[1], a))?;
        let end = p.b.add(start, length)?;
        let end = p.b.broadcast_in_dim(end, &[dims[a]], &[])?;
        let position = p.b.iota(DType::S32, &[dims[a]], 0)?;
        let before = p.b.compare(CompareDir::Lt, position, end)?;
        let before = p.b.broadcast_in_dim(before, &dims, &[a])?;
        value = p.b.select(before, value, new[0])?;
    }
    let state = p.stated(ValueId::first(id), axes);
    single(value, state)
}

/// Axes of the indices other than the one that holds index vectors, in order.
fn batch_axes(rank: usize, vector: usize) -> impl Iterator<Item = usize> {
    (0..rank).filter(move |&a| a != vector)
}

fn gather(p: &mut Pass<'_>, id: NodeId, x: ValueId, indices: ValueId, dims: &GatherDims) -> Ruled {
    let (source, index) = (p.state(x).clone(), p.state(indices).clone());
    let mut state = p.fresh(id, 0, false);
    let mut partial = false;
    let mut offsets = dims.offset_dims.iter();
    for (a, axis) in source.axes.iter().enumerate() {
        let (taken, size) = (p.attribute(id, a), p.dim(x, a));
        partial |= axis.is_partial();
        if taken != size && !is_fixed(&taken) {
            return Err(Stop::Refused("a gather of windows whose size depends on a symbol"));
        }
        if taken != size && axis.0.len() > 1 {
            return Err(Stop::Refused("positions in an axis that was merged from others"));
        }
        if dims.collapsed_slice_dims.contains(&a) {
            continue;
        }
        let Some(&to) = offsets.next() else { return Err(Stop::Refused("no rule")) };
        if taken == size {
            state.axes[to] = axis.clone();
        } else if axis.is_partial() {
            return Err(Stop::Refused("a gather of windows of an axis of dynamic size"));
        }
    }
    if index.axes.get(dims.index_vector_dim).is_some_and(Axis::is_partial) {
        return Err(Stop::Refused("index vectors of dynamic length"));
    }
    let result_batch = (0..state.axes.len()).filter(|a| !dims.offset_dims.contains(a));
    let pairs: SmallVec<[(usize, usize); 6]> = result_batch.zip(batch_axes(index.axes.len(), dims.index_vector_dim)).collect();
    for (to, from) in pairs {
        state.axes[to] = index.axes[from].clone();
        partial |= index.axes[from].is_partial();
    }
    let mut op = dims.clone();
    op.in_bounds &= !partial;
    let value = p.b.op(Op::Gather(Box::new(op)), [p.value(x), p.value(indices)])?;
    single(value, state)
}

/// Updates in padded lanes get an index that is none, so they are dropped.
fn scatter(p: &mut Pass<'_>, id: NodeId, xs: &[ValueId], dims: &ScatterDims) -> Ruled {
    let [x, indices, updates] = *xs else { return Err(Stop::Refused("no rule")) };
    let (source, index, update) = (p.state(x).clone(), p.state(indices).clone(), p.state(updates).clone());
    if index.axes.get(dims.index_vector_dim).is_some_and(Axis::is_partial) {
        return Err(Stop::Refused("index vectors of dynamic length"));
    }
    if dims.inserted_window_dims.iter().any(|&a| source.axes[a].0.len() > 1) {
        return Err(Stop::Refused("positions in an axis that was merged from others"));
    }
    let windows: SmallVec<[usize; 6]> = (0..source.axes.len()).filter(|a| !dims.inserted_window_dims.contains(a)).collect();
    for (&to, &from) in windows.iter().zip(&dims.update_window_dims) {
        let (axis, part) = (&source.axes[to], &update.axes[from]);
        if (axis.is_partial() || part.is_partial()) && (p.dim(x, to) != p.dim(updates, from) || axis.meet(part).is_none()) {
            return Err(Stop::Refused("updates that are windows of an axis of dynamic size"));
        }
    }
    let update_batch = (0..update.axes.len()).filter(|a| !dims.update_window_dims.contains(a));
    let mut dropped: SmallVec<[usize; 4]> = SmallVec::new();
    let mut placed = index.axes.clone();
    for (from, to) in update_batch.zip(batch_axes(index.axes.len(), dims.index_vector_dim)) {
        let axis = update.axes[from].meet(&index.axes[to]).ok_or(Stop::Refused("operands whose padding lies at different places"))?;
        if axis.is_partial() {
            dropped.push(to);
        }
        placed[to] = axis;
    }
    let dtype = p.graphs[0].ty(indices).dtype;
    let mut new_indices = p.value(indices);
    if !dropped.is_empty() {
        let none = p.b.constant(Neutral::NoIndex.literal(dtype))?;
        new_indices = p.masked_with(new_indices, &placed, &dropped, none)?;
    }
    let value = rebuild(p, id, &[p.value(x), new_indices, p.value(updates)])?;
    let state = p.stated(ValueId::first(id), source.axes);
    single(value, state)
}
