//! Ops that combine elements along axes: lanes there must hold what changes nothing.

use clutch_graph::op::{Combiner, WindowDim};
use clutch_graph::{DType, NodeId, Op, ValueId};
use smallvec::SmallVec;

use super::{operands, rebuild, single};
use crate::bucket::extent::Axis;
use crate::bucket::validity::{Fill, Neutral, Pass, Ruled, State, Stop};

/// What changes nothing under a combiner.
fn identity(combiner: Combiner, dtype: DType) -> Result<Neutral, Stop> {
    Ok(match combiner {
        Combiner::Add | Combiner::Or => Neutral::Zero,
        Combiner::Mul => Neutral::One,
        Combiner::Max => Neutral::Lowest,
        Combiner::Min => Neutral::Highest,
        Combiner::And if dtype == DType::Pred => Neutral::One,
        Combiner::And => Neutral::NoIndex,
        Combiner::Assign => return Err(Stop::Refused("a reduction without an identity")),
    })
}

pub(super) fn apply(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    let xs = operands(p, id);
    let x = xs[0];
    let (v, dtype) = (ValueId::first(id), p.graphs[0].ty(x).dtype);
    match p.graphs[0].node(id).op.clone() {
        Op::Reduce { combiner, axes } => {
            let new = p.masked(x, &axes, identity(combiner, dtype)?)?;
            let value = rebuild(p, id, &[new])?;
            let state = without(p, v, x, &axes, combiner == Combiner::Add);
            single(value, state)
        }
        Op::ArgReduce { axis, max } => {
            plain(&p.state(x).axes[axis])?;
            let new = p.masked(x, &[axis], if max { Neutral::Lowest } else { Neutral::Highest })?;
            let value = rebuild(p, id, &[new])?;
            let state = without(p, v, x, &[axis], false);
            single(value, state)
        }
        Op::Cumulative { axis, .. } => {
            plain(&p.state(x).axes[axis])?;
            let value = rebuild(p, id, &[p.value(x)])?;
            let axes = p.state(x).axes.clone();
            let mut state = p.stated(v, axes);
            state.axes[axis].0.iter_mut().for_each(|f| f.uniform = false);
            single(value, state)
        }
        Op::TopK { k: _, largest } => {
            let last = p.state(x).axes.len() - 1;
            plain(&p.state(x).axes[last])?;
            let new = p.masked(x, &[last], if largest { Neutral::Lowest } else { Neutral::Last })?;
            let results = p.b.op_multi(p.graphs[0].node(id).op.clone(), [new])?;
            let mut axes = p.state(x).axes.clone();
            axes[last] = Axis::prefix(p.dim(v, last), false);
            Ok(results.iter().enumerate().map(|(o, &r)| (r, p.stated(ValueId { node: id, output: o as u32 }, axes.clone()))).collect())
        }
        Op::Sort { axis, descending, .. } => sort(p, id, &xs, axis, descending),
        Op::ReduceWindow { combiner, window } => {
            let value = windowed(p, x, &window, identity(combiner, dtype)?)?;
            let value = rebuild(p, id, &[value])?;
            let mut state = p.fresh(id, 0, false);
            for a in (0..window.len()).filter(|&a| window[a] == WindowDim::TRIVIAL) {
                state.axes[a] = p.state(x).axes[a].clone();
            }
            single(value, state)
        }
        Op::SelectAndScatter { window } => {
            let new = [windowed(p, x, &window, Neutral::Lowest)?, windowed(p, xs[1], &window, Neutral::Zero)?];
            let value = rebuild(p, id, &new)?;
            let axes = p.state(x).axes.clone();
            let state = p.stated(v, axes);
            single(value, state)
        }
        _ => Err(Stop::Refused("no rule")),
    }
}

fn plain(axis: &Axis) -> Result<(), Stop> {
    if axis.is_partial() && axis.0.len() > 1 { Err(Stop::Refused("positions in an axis that was merged from others")) } else { Ok(()) }
}

/// The state after `axes` are dropped. Sums of zeros are zero.
fn without(p: &Pass<'_>, v: ValueId, x: ValueId, axes: &[usize], is_sum: bool) -> State {
    let source = p.state(x);
    let kept: SmallVec<[usize; 6]> = (0..source.axes.len()).filter(|a| !axes.contains(a)).collect();
    let mut state = p.stated(v, kept.iter().map(|&a| source.axes[a].clone()).collect());
    for (fill, &a) in state.fill.iter_mut().zip(&kept) {
        if is_sum && source.fill[a] == Fill::Known(Neutral::Zero) && !axes.iter().any(|&r| source.axes[r].is_partial()) {
            *fill = source.fill[a];
        }
    }
    state
}

/// Padding sorts to the end: its keys are the last, and a stable sort leaves it behind equal ones.
fn sort(p: &mut Pass<'_>, id: NodeId, xs: &[ValueId], axis: usize, descending: bool) -> Ruled {
    let mut met: SmallVec<[Axis; 6]> = p.state(xs[0]).axes.clone();
    for &x in &xs[1..] {
        for (a, m) in met.iter_mut().enumerate() {
            *m = m.meet(&p.state(x).axes[a]).ok_or(Stop::Refused("operands whose padding lies at different places"))?;
        }
    }
    plain(&met[axis])?;
    let key = p.masked(xs[0], &[axis], if descending { Neutral::Lowest } else { Neutral::Last })?;
    let mut new: SmallVec<[ValueId; 4]> = xs.iter().map(|&x| p.value(x)).collect();
    new[0] = key;
    let op = match p.graphs[0].node(id).op.clone() {
        Op::Sort { axis, descending, stable } => Op::Sort { axis, descending, stable: stable || met[axis].is_partial() },
        other => other,
    };
    let results = p.b.op_multi(op, new)?;
    met[axis].0.iter_mut().for_each(|f| f.uniform = false);
    Ok(results.iter().enumerate().map(|(o, &r)| (r, p.stated(ValueId { node: id, output: o as u32 }, met.clone()))).collect())
}

/// `x` with `fill` in the lanes of the axes that windows slide over.
fn windowed(p: &mut Pass<'_>, x: ValueId, window: &[WindowDim], fill: Neutral) -> Result<ValueId, Stop> {
    let open: SmallVec<[usize; 4]> =
        (0..window.len()).filter(|&a| window[a] != WindowDim::TRIVIAL && p.state(x).axes[a].is_partial()).collect();
    for &a in &open {
        plain(&p.state(x).axes[a])?;
    }
    p.masked(x, &open, fill)
}
