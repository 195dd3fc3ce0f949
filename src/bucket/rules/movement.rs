//! Ops that move elements.

use clutch_graph::op::PadDim;
use clutch_graph::{DType, Dims, NodeId, Op, ValueId};
use smallvec::{SmallVec, smallvec};

use super::{operands, rebuild, single};
use crate::bucket::extent::{Axis, GRAPHS, Sizes, is_fixed, reshape};
use crate::bucket::validity::{Fill, Neutral, Pass, Ruled, State, Stop};

pub(super) fn apply(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    let xs = operands(p, id);
    let v = ValueId::first(id);
    match p.graphs[0].node(id).op.clone() {
        Op::Broadcast { axes, .. } => {
            let value = rebuild(p, id, &[p.value(xs[0])])?;
            let mut state = p.fresh(id, 0, true);
            let known = repeated(p, xs[0]);
            state.fill.iter_mut().for_each(|f| *f = known.unwrap_or(*f));
            let source = p.state(xs[0]).clone();
            for (from, &to) in axes.iter().enumerate() {
                if p.dim(xs[0], from) != [1; GRAPHS] {
                    (state.axes[to], state.fill[to]) = (source.axes[from].clone(), source.fill[from]);
                }
            }
            single(value, state)
        }
        Op::Reshape(dims) => {
            let value = p.b.reshape(p.value(xs[0]), &dims)?;
            let source = p.state(xs[0]).clone();
            let axes = reshape(&source.axes, &p.dims(v)).ok_or(Stop::Refused("a reshape that scatters the padding"))?;
            let mut state = p.stated(v, axes.into());
            // One kind of lanes in, one kind out.
            let mut kinds = source.axes.iter().zip(&source.fill).filter(|(a, _)| a.is_partial()).map(|(_, f)| *f);
            if let Some(first) = kinds.next()
                && kinds.all(|f| f == first)
            {
                // Lanes outside of two factors at once are described by neither.
                for (fill, axis) in state.fill.iter_mut().zip(&state.axes) {
                    if axis.0.iter().filter(|f| f.is_partial()).count() == 1 {
                        *fill = first;
                    }
                }
            }
            single(value, state)
        }
        Op::Transpose(perm) => {
            let value = rebuild(p, id, &[p.value(xs[0])])?;
            let s = p.state(xs[0]);
            let axes = perm.iter().map(|&a| s.axes[a].clone()).collect();
            let fill = perm.iter().map(|&a| s.fill[a]).collect();
            single(value, State { axes, fill })
        }
        Op::Slice { start, limit, stride } => slice(p, id, xs[0], [start, limit, stride]),
        Op::Pad(pads) => pad(p, id, &xs, &pads),
        Op::Concat(axis) => concat(p, id, &xs, axis),
        Op::Reverse(axes) => reverse(p, id, xs[0], &axes),
        _ => Err(Stop::Refused("no rule")),
    }
}

/// What lanes hold that a broadcast makes of a constant.
fn repeated(p: &Pass<'_>, x: ValueId) -> Option<Fill> {
    let node = p.graphs[0].node(x.node);
    let Op::Constant(literal) = &node.op else { return None };
    if p.ops(x.node).iter().any(|o| *o != &node.op) {
        return None;
    }
    match literal.splat_f64() {
        Some(0.0) => Some(Fill::Known(Neutral::Zero)),
        Some(f) if f.is_finite() => Some(Fill::Finite),
        _ => None,
    }
}

/// The only factor of a partial axis.
fn plain(axis: &Axis) -> Result<(), Stop> {
    if axis.is_partial() && axis.0.len() > 1 { Err(Stop::Refused("a part of an axis that was merged from others")) } else { Ok(()) }
}

fn slice(p: &mut Pass<'_>, id: NodeId, x: ValueId, [start, mut limit, stride]: [Dims; 3]) -> Ruled {
    let v = ValueId::first(id);
    let rank = start.len();
    let source = p.state(x).clone();
    let mut state = p.fresh(id, 0, false);
    let mut moving: SmallVec<[(usize, Sizes); 2]> = SmallVec::new();
    for a in 0..rank {
        let (starts, limits, size) = (p.attribute(id, a), p.attribute(id, rank + a), p.dim(x, a));
        if starts == [0; GRAPHS] && limits == size && stride[a] == 1 {
            (state.axes[a], state.fill[a]) = (source.axes[a].clone(), source.fill[a]);
            continue;
        }
        plain(&source.axes[a])?;
        let taken = p.dim(v, a);
        // Only a slice to the end has the operand's padding for its own.
        if source.axes[a].is_partial() && stride[a] == 1 && (0..GRAPHS).all(|g| starts[g] + taken[g] == size[g]) {
            state.fill[a] = source.fill[a];
        }
        if is_fixed(&starts) {
            continue;
        }
        if !is_fixed(&p.dim(v, a)) || stride[a] != 1 {
            return Err(Stop::Refused("a slice whose start and length both depend on sizes"));
        }
        moving.push((a, starts));
        limit[a] = p.dim(x, a)[0];
    }
    let mut first = start;
    for (a, _) in &moving {
        first[*a] = 0;
    }
    let value = p.b.slice(p.value(x), &first, &limit, &stride)?;
    if moving.is_empty() {
        return single(value, state);
    }
    let mut sizes = p.b.dims(value);
    let mut starts: SmallVec<[ValueId; 7]> = smallvec![value];
    for (a, size) in sizes.iter_mut().enumerate() {
        let at = match moving.iter().find(|(m, _)| *m == a) {
            Some((_, at)) => {
                *size = p.dim(v, a)[0];
                *at
            }
            None => [0; GRAPHS],
        };
        starts.push(p.size(&at)?);
    }
    let value = p.b.op(Op::DynamicSlice(sizes), starts)?;
    single(value, state)
}

fn pad(p: &mut Pass<'_>, id: NodeId, xs: &[ValueId], pads: &[PadDim]) -> Ruled {
    let source = p.state(xs[0]).clone();
    let mut state = p.fresh(id, 0, false);
    let mut open: SmallVec<[usize; 4]> = SmallVec::new();
    for (a, pad) in pads.iter().enumerate() {
        let (low, high) = (p.attribute(id, 2 * a), p.attribute(id, 2 * a + 1));
        if !is_fixed(&low) {
            return Err(Stop::Refused("padding before the data whose width depends on sizes"));
        }
        if *pad == PadDim::default() && is_fixed(&high) {
            (state.axes[a], state.fill[a]) = (source.axes[a].clone(), source.fill[a]);
            continue;
        }
        plain(&source.axes[a])?;
        if source.axes[a].is_partial() && (high.iter().any(|&h| h > 0) || pad.interior > 0) {
            open.push(a);
        }
    }
    let fill = p.value(xs[1]);
    let value = p.masked_with(p.value(xs[0]), &source.axes, &open, fill)?;
    let value = rebuild(p, id, &[value, fill])?;
    single(value, state)
}

/// Operands with padding at the end are written one after another, each over the padding of the one before.
fn concat(p: &mut Pass<'_>, id: NodeId, xs: &[ValueId], axis: usize) -> Ruled {
    let v = ValueId::first(id);
    let mut state = p.fresh(id, 0, false);
    for a in (0..state.axes.len()).filter(|&a| a != axis) {
        let mut met = p.state(xs[0]).axes[a].clone();
        for &x in &xs[1..] {
            met = met.meet(&p.state(x).axes[a]).ok_or(Stop::Refused("operands whose padding lies at different places"))?;
        }
        state.axes[a] = met;
        let first = p.state(xs[0]).fill[a];
        if xs.iter().all(|&x| p.state(x).fill[a] == first) {
            state.fill[a] = first;
        }
    }
    for &x in xs {
        plain(&p.state(x).axes[axis])?;
    }
    let new: SmallVec<[ValueId; 4]> = xs.iter().map(|&x| p.value(x)).collect();
    let (_, before) = xs.split_last().ok_or(Stop::Refused("no operands"))?;
    if before.iter().all(|&x| !p.state(x).axes[axis].is_partial()) {
        let value = rebuild(p, id, &new)?;
        return single(value, state);
    }
    let total = p.dim(v, axis)[0];
    let rank = state.axes.len();
    let zero = p.b.constant(Neutral::Zero.literal(p.b.dtype(new[0])))?;
    let mut pads: SmallVec<[PadDim; 6]> = smallvec![PadDim::default(); rank];
    pads[axis].high = total - p.dim(xs[0], axis)[0];
    let mut value = p.b.pad(new[0], zero, &pads)?;
    let origin = p.b.scalar_int(DType::S32, 0)?;
    let mut at = p.size(&p.dim(xs[0], axis))?;
    for (&x, &n) in xs.iter().zip(&new).skip(1) {
        let mut arguments: SmallVec<[ValueId; 8]> = smallvec![value, n];
        arguments.extend((0..rank).map(|a| if a == axis { at } else { origin }));
        value = p.b.op(Op::DynamicUpdateSlice, arguments)?;
        let size = p.size(&p.dim(x, axis))?;
        at = p.b.add(at, size)?;
    }
    single(value, state)
}

fn reverse(p: &mut Pass<'_>, id: NodeId, x: ValueId, axes: &[usize]) -> Ruled {
    let state = p.state(x).clone();
    let mut value = rebuild(p, id, &[p.value(x)])?;
    let partial: SmallVec<[usize; 4]> = axes.iter().copied().filter(|&a| state.axes[a].is_partial()).collect();
    let dims = p.b.dims(value);
    let zero = p.b.constant(Neutral::Zero.literal(p.b.dtype(value)))?;
    for a in partial {
        plain(&state.axes[a])?;
        let mut pads: SmallVec<[PadDim; 6]> = smallvec![PadDim::default(); dims.len()];
        pads[a].high = dims[a];
        let padded = p.b.pad(value, zero, &pads)?;
        let (whole, valid) = (p.b.scalar_int(DType::S32, dims[a])?, p.size(&p.dim(x, a))?);
        let at = p.b.sub(whole, valid)?;
        let origin = p.b.scalar_int(DType::S32, 0)?;
        let mut arguments: SmallVec<[ValueId; 8]> = smallvec![padded];
        arguments.extend((0..dims.len()).map(|i| if i == a { at } else { origin }));
        value = p.b.op(Op::DynamicSlice(dims.clone()), arguments)?;
    }
    let v = ValueId::first(id);
    let state = p.stated(v, state.axes);
    single(value, state)
}
