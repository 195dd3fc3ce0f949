//! Shape rules of gathers, scatters and sorts.

use smallvec::smallvec;

use crate::dtype::DType;
use crate::error::GraphError;
use crate::infer::{Outputs, Rule, combines, windowed};
use crate::op::{Combiner, GatherDims, ScatterDims, WindowDim};
use crate::types::{Dims, TensorType};

fn index_batch_dims(r: &Rule<'_>, indices: &TensorType, vector_dim: usize, components: usize) -> Result<Dims, GraphError> {
    r.ensure(indices.dtype.is_int(), "indices are not integers")?;
    r.ensure(vector_dim <= indices.rank(), "index vector axis out of range")?;
    let width = indices.dims.get(vector_dim).copied().unwrap_or(1);
    r.ensure(width == components as i64, "index vectors have another number of components than the index map")?;
    Ok(indices.dims.iter().enumerate().filter(|(i, _)| *i != vector_dim).map(|(_, &d)| d).collect())
}

pub(crate) fn gather(r: &Rule<'_>, g: &GatherDims) -> Result<Outputs, GraphError> {
    r.arity(2)?;
    let (x, indices) = (r.operands[0], r.operands[1]);
    let batch = index_batch_dims(r, indices, g.index_vector_dim, g.start_index_map.len())?;
    r.axes(&g.start_index_map, x.rank())?;
    r.axes(&g.collapsed_slice_dims, x.rank())?;
    r.ensure(g.collapsed_slice_dims.is_sorted() && g.offset_dims.is_sorted(), "collapsed and offset axes must increase")?;
    r.ensure(
        g.slice_sizes.len() == x.rank() && g.slice_sizes.iter().zip(&x.dims).all(|(s, d)| (0..=*d).contains(s)),
        "slice sizes do not fit",
    )?;
    r.ensure(g.collapsed_slice_dims.iter().all(|&a| g.slice_sizes[a] == 1), "a collapsed axis has slice size other than 1")?;
    let offsets: Dims = (0..x.rank()).filter(|a| !g.collapsed_slice_dims.contains(a)).map(|a| g.slice_sizes[a]).collect();
    let rank = offsets.len() + batch.len();
    r.ensure(g.offset_dims.len() == offsets.len(), "one offset axis per kept operand axis")?;
    r.axes(&g.offset_dims, rank)?;
    let (mut offsets, mut batch) = (offsets.into_iter(), batch.into_iter());
    let dims: Option<Dims> = (0..rank).map(|i| if g.offset_dims.contains(&i) { offsets.next() } else { batch.next() }).collect();
    match dims {
        Some(dims) => Ok(smallvec![TensorType { dtype: x.dtype, dims }]),
        None => r.fail("result axes do not add up"),
    }
}

pub(crate) fn scatter(r: &Rule<'_>, combiner: Combiner, s: &ScatterDims) -> Result<Outputs, GraphError> {
    r.arity(3)?;
    if combiner != Combiner::Assign {
        combines(r, combiner, r.operands[0].dtype)?;
    }
    let (x, indices, updates) = (r.operands[0], r.operands[1], r.operands[2]);
    let batch = index_batch_dims(r, indices, s.index_vector_dim, s.scatter_dims_to_operand_dims.len())?;
    r.ensure(x.dtype == updates.dtype, "operand and updates differ in element type")?;
    r.axes(&s.scatter_dims_to_operand_dims, x.rank())?;
    r.axes(&s.inserted_window_dims, x.rank())?;
    r.axes(&s.update_window_dims, updates.rank())?;
    r.ensure(s.update_window_dims.is_sorted() && s.inserted_window_dims.is_sorted(), "window axes must increase")?;
    r.ensure(s.update_window_dims.len() + s.inserted_window_dims.len() == x.rank(), "window axes do not cover the operand")?;
    let kept = (0..x.rank()).filter(|a| !s.inserted_window_dims.contains(a));
    for (u, a) in s.update_window_dims.iter().zip(kept) {
        r.ensure(updates.dims[*u] <= x.dims[a], "an update window exceeds the operand")?;
    }
    let scattered: Dims = (0..updates.rank()).filter(|a| !s.update_window_dims.contains(a)).map(|a| updates.dims[a]).collect();
    r.ensure(scattered == batch, "updates do not match the indices")?;
    Ok(smallvec![x.clone()])
}

pub(crate) fn select_and_scatter(r: &Rule<'_>, window: &[WindowDim]) -> Result<Outputs, GraphError> {
    r.arity(2)?;
    let (x, source) = (r.operands[0], r.operands[1]);
    r.ensure(!x.dtype.is_complex(), "complex numbers have no order")?;
    r.ensure(window.iter().all(|w| w.window_dilation == 1 && w.base_dilation == 1), "dilated windows are not supported")?;
    r.ensure(windowed(r, x, window)? == *source, "the source is not of the windowed sizes")?;
    Ok(smallvec![x.clone()])
}

pub(crate) fn sort(r: &Rule<'_>, axis: usize) -> Result<Outputs, GraphError> {
    r.ensure(!r.operands.is_empty(), "takes at least one operand")?;
    r.axis(axis, r.operands[0].rank())?;
    r.ensure(!r.operands[0].dtype.is_complex(), "complex numbers have no order")?;
    r.ensure(r.operands.iter().all(|t| t.dims == r.operands[0].dims), "operands differ in size")?;
    Ok(r.operands.iter().map(|&t| t.clone()).collect())
}

pub(crate) fn top_k(r: &Rule<'_>, k: i64) -> Result<Outputs, GraphError> {
    r.arity(1)?;
    let mut out = r.operands[0].clone();
    r.ensure(!out.dtype.is_complex(), "complex numbers have no order")?;
    match out.dims.last_mut() {
        Some(last) if (0..=*last).contains(&k) => *last = k,
        _ => return r.fail("k exceeds the last axis"),
    }
    let positions = out.with_dtype(DType::S64);
    Ok(smallvec![out, positions])
}
