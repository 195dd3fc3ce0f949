//! Composites: each states what it needs as a whole.

use clutch_graph::{NodeId, Op, ValueId};
use smallvec::{SmallVec, smallvec};

use super::{operands, rebuild, single};
use crate::bucket::extent::Axis;
use crate::bucket::validity::{Fill, Neutral, Pass, Ruled, State, Stop};

pub(super) fn apply(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    let xs = operands(p, id);
    match p.graphs[0].node(id).op.clone() {
        Op::Softmax { axis, log } => {
            let new = p.masked(xs[0], &[axis], Neutral::Lowest)?;
            let value = rebuild(p, id, &[new])?;
            let axes = p.state(xs[0]).axes.clone();
            let mut state = p.stated(ValueId::first(id), axes);
            if !log {
                state.fill[axis] = Fill::Known(Neutral::Zero);
            }
            single(value, state)
        }
        Op::LayerNorm { axes, .. } => normalized(p, id, &xs, axes),
        Op::RmsNorm { .. } => normalized(p, id, &xs, 1),
        Op::Attention(_) => attention(p, id, &xs),
        Op::AttentionBackward(_) => attention_backward(p, id, &xs),
        _ => Err(Stop::Refused("no rule")),
    }
}

fn normalized(p: &mut Pass<'_>, id: NodeId, xs: &[ValueId], count: usize) -> Ruled {
    let axes = p.state(xs[0]).axes.clone();
    let outer = axes.len() - count;
    if axes[outer..].iter().any(Axis::is_partial) {
        return Err(Stop::Refused("a norm over an axis of dynamic size"));
    }
    let new: SmallVec<[ValueId; 4]> = xs.iter().map(|&x| p.value(x)).collect();
    let results = p.b.op_multi(p.graphs[0].node(id).op.clone(), new)?;
    let state = |p: &Pass<'_>, o: usize| {
        let v = ValueId { node: id, output: o as u32 };
        let mut own = axes.clone();
        if o > 0 {
            own[outer..].iter_mut().for_each(|a| *a = Axis::default());
        }
        p.stated(v, own)
    };
    Ok(results.iter().enumerate().map(|(o, &r)| (r, state(p, o))).collect())
}

/// Batch axes, query length and key length of query, key and score-like operands.
struct Roles {
    rank: usize,
    query: usize,
    head: usize,
}

fn roles(p: &Pass<'_>, q: ValueId, k: ValueId, v: ValueId) -> Result<Roles, Stop> {
    let rank = p.state(q).axes.len();
    let r = Roles { rank, query: rank - 2, head: rank - 1 };
    for x in [q, k, v] {
        if p.state(x).axes[r.head].is_partial() {
            return Err(Stop::Refused("attention with heads of dynamic size"));
        }
    }
    for a in 0..r.query {
        let (x, y) = (&p.state(q).axes[a], &p.state(k).axes[a]);
        let grouped = p.dim(q, a) != p.dim(k, a);
        if (grouped && (x.is_partial() || y.is_partial())) || (!grouped && x.meet(y).is_none()) {
            return Err(Stop::Refused("operands whose padding lies at different places"));
        }
    }
    if [k, v].iter().any(|&x| p.state(x).axes[r.query].0.len() > 1) || p.state(q).axes[r.query].0.len() > 1 {
        return Err(Stop::Refused("attention over an axis that was merged from others"));
    }
    Ok(r)
}

/// The mask operand, or a new one, that hides padded keys; `None` when none is needed.
fn key_mask(p: &mut Pass<'_>, r: &Roles, k: ValueId, mask: Option<ValueId>) -> Result<Option<ValueId>, Stop> {
    let keys = p.state(k).axes[r.query].clone();
    let length = p.dim(k, r.query)[0];
    let Some(old) = mask else {
        let mut dims: SmallVec<[i64; 6]> = smallvec![1; r.rank];
        dims[r.rank - 1] = length;
        return p.valid(&keys, &dims, r.rank - 1);
    };
    let value = p.value(old);
    if !keys.is_partial() {
        return Ok(Some(value));
    }
    let mut dims = p.b.dims(value);
    let Some(last) = dims.len().checked_sub(1) else { return Err(Stop::Refused("a mask without axes")) };
    let mut value = value;
    if dims[last] == 1 && length != 1 {
        dims[last] = length;
        let axes: SmallVec<[usize; 6]> = (0..dims.len()).collect();
        value = p.b.broadcast_in_dim(value, &dims, &axes)?;
    }
    let hidden = p.b.constant(Neutral::Lowest.literal(p.b.dtype(value)))?;
    let mut axes: SmallVec<[Axis; 6]> = smallvec![Axis::default(); dims.len()];
    axes[last] = keys;
    p.masked_with(value, &axes, &[last], hidden).map(Some)
}

fn attention(p: &mut Pass<'_>, id: NodeId, xs: &[ValueId]) -> Ruled {
    let r = roles(p, xs[0], xs[1], xs[2])?;
    let mut new: SmallVec<[ValueId; 4]> =
        smallvec![p.value(xs[0]), p.masked(xs[1], &[r.query], Neutral::Zero)?, p.masked(xs[2], &[r.query], Neutral::Zero)?];
    new.extend(key_mask(p, &r, xs[1], xs.get(3).copied())?);
    let results = p.b.op_multi(p.graphs[0].node(id).op.clone(), new)?;
    let queries = p.state(xs[0]).axes.clone();
    let output = p.stated(ValueId::first(id), queries.clone());
    let mut sums = p.fresh(id, 1, false);
    for (a, axis) in sums.axes.iter_mut().enumerate().take(r.query + 1) {
        *axis = queries[a].clone();
    }
    Ok(smallvec![(results[0], output), (results[1], sums)])
}

fn attention_backward(p: &mut Pass<'_>, id: NodeId, xs: &[ValueId]) -> Ruled {
    let [grad, q, k, v, out, sums, ref rest @ ..] = *xs else { return Err(Stop::Refused("no rule")) };
    let r = roles(p, q, k, v)?;
    let mut new: SmallVec<[ValueId; 7]> = SmallVec::new();
    for x in [grad, q, k, v, out, sums] {
        new.push(p.masked(x, &[r.query], Neutral::Zero)?);
    }
    if let Some(mask) = key_mask(p, &r, k, rest.first().copied())? {
        new.push(finite_rows(p, &r, mask, rest.first().copied())?);
    }
    let results = p.b.op_multi(p.graphs[0].node(id).op.clone(), new)?;
    let state =
        |p: &Pass<'_>, o: usize, like: ValueId| -> State { p.stated(ValueId { node: id, output: o as u32 }, p.state(like).axes.clone()) };
    Ok(results.iter().enumerate().zip([q, k, v]).map(|((o, &value), like)| (value, state(p, o, like))).collect())
}

/// The mask with zeros in the rows of padded queries, whose gradients are zero only times something finite.
fn finite_rows(p: &mut Pass<'_>, r: &Roles, mask: ValueId, old: Option<ValueId>) -> Result<ValueId, Stop> {
    let Some(old) = old else { return Ok(mask) };
    let axes = p.state(old).axes.clone();
    let Some(row) = axes.len().checked_sub(2) else { return Ok(mask) };
    if !axes[row].is_partial() || r.rank < 2 {
        return Ok(mask);
    }
    let zero = p.b.constant(Neutral::Zero.literal(p.b.dtype(mask)))?;
    p.masked_with(mask, &axes, &[row], zero)
}
