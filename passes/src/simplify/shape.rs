//! Rules on ops that only move elements.

use clutch_graph::op::{Axes, PadDim};
use clutch_graph::{Dims, GraphError, Op, TensorType, ValueId};

use crate::simplify::Simplifier;

type Outcome = Result<Option<ValueId>, GraphError>;

pub(super) fn rules(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Outcome {
    match op {
        Op::Reshape(dims) => reshape(s, dims, x[0]),
        Op::Transpose(perm) => transpose(s, perm, x[0]),
        Op::Broadcast { dims, axes } => broadcast(s, dims, axes, x[0]),
        Op::Slice { start, limit, stride } => slice(s, [start, limit, stride], x[0]),
        Op::Concat(axis) => concat(s, *axis, x),
        Op::Pad(pads) => Ok(pads.iter().all(|p| *p == PadDim::default()).then(|| x[0])),
        Op::Reverse(axes) => Ok(axes.iter().all(|&a| s.dims(x[0])[a] <= 1).then(|| x[0])),
        Op::Reduce { axes, .. } => Ok(axes.is_empty().then(|| x[0])),
        Op::DynamicSlice(sizes) => Ok((s.dims(x[0]) == &sizes[..]).then(|| x[0])),
        _ => Ok(None),
    }
}

/// The scalar that `v` repeats, when `v` is the broadcast of a scalar.
pub(super) fn repeated_scalar(s: &Simplifier<'_>, v: ValueId) -> Option<ValueId> {
    let node = s.def(v);
    match &node.op {
        Op::Broadcast { axes, .. } if axes.is_empty() => Some(node.operands[0]),
        _ => None,
    }
}

pub(super) fn repeat(s: &mut Simplifier<'_>, scalar: ValueId, dims: Dims) -> Result<ValueId, GraphError> {
    if dims.is_empty() { Ok(scalar) } else { s.emit(Op::Broadcast { dims, axes: Axes::new() }, &[scalar]) }
}

fn reshape(s: &mut Simplifier<'_>, dims: &Dims, x: ValueId) -> Outcome {
    if s.dims(x) == &dims[..] {
        return Ok(Some(x));
    }
    if let Some(scalar) = repeated_scalar(s, x) {
        return repeat(s, scalar, dims.clone()).map(Some);
    }
    let node = s.def(x);
    match &node.op {
        Op::Reshape(_) => {
            let source = node.operands[0];
            s.emit(Op::Reshape(dims.clone()), &[source]).map(Some)
        }
        Op::Constant(literal) => {
            let literal = literal.reshaped(dims)?;
            s.emit(Op::Constant(literal), &[]).map(Some)
        }
        _ => Ok(None),
    }
}

fn transpose(s: &mut Simplifier<'_>, perm: &Axes, x: ValueId) -> Outcome {
    if perm.iter().copied().eq(0..perm.len()) {
        return Ok(Some(x));
    }
    let dims: Dims = perm.iter().map(|&p| s.dims(x)[p]).collect();
    let node = s.def(x);
    match &node.op {
        Op::Transpose(inner) => {
            let source = node.operands[0];
            let perm = perm.iter().map(|&p| inner[p]).collect();
            return s.emit(Op::Transpose(perm), &[source]).map(Some);
        }
        Op::Broadcast { axes, .. } => {
            let source = node.operands[0];
            let place = |a: usize| perm.iter().position(|&p| p == a).unwrap_or(a);
            let moved: Axes = axes.iter().map(|&a| place(a)).collect();
            let mut order: Axes = (0..moved.len()).collect();
            order.sort_unstable_by_key(|&i| moved[i]);
            let axes: Axes = order.iter().map(|&i| moved[i]).collect();
            let source = s.emit(Op::Transpose(order), &[source])?;
            return s.emit(Op::Broadcast { dims, axes }, &[source]).map(Some);
        }
        Op::Iota { ty, axis } => {
            let (dtype, axis) = (ty.dtype, perm.iter().position(|p| p == axis).unwrap_or(*axis));
            return s.emit(Op::Iota { ty: TensorType { dtype, dims }, axis }, &[]).map(Some);
        }
        _ => {}
    }
    let kept = |p: &&usize| s.dims(x)[**p] != 1;
    if perm.iter().filter(kept).is_sorted() {
        return s.emit(Op::Reshape(dims), &[x]).map(Some);
    }
    Ok(None)
}

fn broadcast(s: &mut Simplifier<'_>, dims: &Dims, axes: &Axes, x: ValueId) -> Outcome {
    let sizes: Dims = s.dims(x).into();
    if sizes == *dims && axes.iter().copied().eq(0..dims.len()) {
        return Ok(Some(x));
    }
    let grows = |i: usize| sizes[i] == 1 && dims[axes[i]] != 1;
    if (0..sizes.len()).any(grows) {
        let kept: Dims = (0..sizes.len()).filter(|&i| !grows(i)).map(|i| sizes[i]).collect();
        let axes: Axes = (0..sizes.len()).filter(|&i| !grows(i)).map(|i| axes[i]).collect();
        let source = s.emit(Op::Reshape(kept), &[x])?;
        return s.emit(Op::Broadcast { dims: dims.clone(), axes }, &[source]).map(Some);
    }
    if dims.iter().all(|&d| d == 1) || (sizes.iter().product::<i64>() == dims.iter().product() && !dims.contains(&0)) {
        return s.emit(Op::Reshape(dims.clone()), &[x]).map(Some);
    }
    let node = s.def(x);
    if let Op::Broadcast { axes: inner, .. } = &node.op {
        let source = node.operands[0];
        let axes = inner.iter().map(|&i| axes[i]).collect();
        return s.emit(Op::Broadcast { dims: dims.clone(), axes }, &[source]).map(Some);
    }
    if let Op::Reshape(_) = node.op {
        let source = node.operands[0];
        if let Some(places) = inserted_ones(s.dims(source), &sizes) {
            let axes = places.iter().map(|&p| axes[p]).collect();
            return s.emit(Op::Broadcast { dims: dims.clone(), axes }, &[source]).map(Some);
        }
    }
    Ok(None)
}

/// Where each of `from`'s axes stands in `to`, when `to` is `from` with axes of size 1 inserted.
fn inserted_ones(from: &[i64], to: &[i64]) -> Option<Axes> {
    let mut places = Axes::new();
    for (i, &d) in to.iter().enumerate() {
        match from.get(places.len()) {
            Some(&f) if f == d => places.push(i),
            _ if d == 1 => {}
            _ => return None,
        }
    }
    (places.len() == from.len()).then_some(places)
}

fn slice(s: &mut Simplifier<'_>, [start, limit, stride]: [&Dims; 3], x: ValueId) -> Outcome {
    let n = start.len();
    let sizes: Dims = s.dims(x).into();
    if (0..n).all(|i| start[i] == 0 && limit[i] == sizes[i] && (stride[i] == 1 || sizes[i] <= 1)) {
        return Ok(Some(x));
    }
    let dims: Dims = (0..n).map(|i| (limit[i] - start[i] + stride[i] - 1) / stride[i]).collect();
    if let Some(scalar) = repeated_scalar(s, x) {
        return repeat(s, scalar, dims).map(Some);
    }
    let node = s.def(x);
    match &node.op {
        Op::Slice { start: start0, stride: stride0, .. } if !dims.contains(&0) => {
            let source = node.operands[0];
            let first: Dims = (0..n).map(|i| start0[i] + start[i] * stride0[i]).collect();
            let step: Dims = (0..n).map(|i| stride[i] * stride0[i]).collect();
            let end: Dims = (0..n).map(|i| first[i] + (dims[i] - 1) * step[i] + 1).collect();
            s.emit(Op::Slice { start: first, limit: end, stride: step }, &[source]).map(Some)
        }
        Op::Concat(axis) => {
            let (axis, parts) = (*axis, node.operands.clone());
            let mut offset = 0;
            for part in parts {
                let size = s.dims(part)[axis];
                if offset <= start[axis] && limit[axis] <= offset + size && start[axis] < limit[axis] {
                    let (mut start, mut limit) = (start.clone(), limit.clone());
                    start[axis] -= offset;
                    limit[axis] -= offset;
                    return s.emit(Op::Slice { start, limit, stride: stride.clone() }, &[part]).map(Some);
                }
                offset += size;
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn concat(s: &mut Simplifier<'_>, axis: usize, x: &[ValueId]) -> Outcome {
    let filled: smallvec::SmallVec<[ValueId; 8]> = x.iter().copied().filter(|&v| s.dims(v)[axis] != 0).collect();
    match &filled[..] {
        [] => Ok(Some(x[0])),
        [one] => Ok(Some(*one)),
        rest if rest.len() < x.len() => s.emit(Op::Concat(axis), rest).map(Some),
        _ => Ok(None),
    }
}
