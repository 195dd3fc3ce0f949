//! What each op does with padded lanes; one file a family.

mod composite;
mod contract;
mod elementwise;
mod index;
mod movement;
mod reduce;

use clutch_graph::{NodeId, Op, ValueId};
use smallvec::{SmallVec, smallvec};

use super::extent::{Axis, is_fixed};
use super::validity::{Pass, Ruled, State, Stop};

/// Applies the rule of a node.
pub fn apply(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    match &p.graphs[0].node(id).op {
        Op::Parameter(..) | Op::Constant(_) | Op::Iota { .. } | Op::RandomBits { .. } => elementwise::source(p, id),
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Convert(_) | Op::Bitcast(_) | Op::Gelu { .. } | Op::Silu => {
            elementwise::apply(p, id)
        }
        Op::OptimizationBarrier => through(p, id),
        Op::Broadcast { .. } | Op::Reshape(_) | Op::Transpose(_) | Op::Slice { .. } | Op::Pad(_) | Op::Concat(_) | Op::Reverse(_) => {
            movement::apply(p, id)
        }
        Op::DotGeneral { .. } | Op::Convolution(_) => contract::apply(p, id),
        Op::Reduce { .. }
        | Op::ReduceWindow { .. }
        | Op::SelectAndScatter { .. }
        | Op::Sort { .. }
        | Op::TopK { .. }
        | Op::ArgReduce { .. }
        | Op::Cumulative { .. } => reduce::apply(p, id),
        Op::Gather(_) | Op::Scatter { .. } | Op::DynamicSlice(_) | Op::DynamicUpdateSlice => index::apply(p, id),
        Op::Softmax { .. } | Op::LayerNorm { .. } | Op::RmsNorm { .. } | Op::Attention(_) | Op::AttentionBackward(_) => {
            composite::apply(p, id)
        }
        Op::While { .. } | Op::Cond { .. } | Op::Call(_) => bodies(p, id),
        Op::Fft { lengths, .. } => inner(p, id, lengths.len()),
        Op::Cholesky | Op::TriangularSolve { .. } => inner(p, id, 2),
    }
}

/// The node's operands in the bucket's graph.
fn operands(p: &Pass<'_>, id: NodeId) -> SmallVec<[ValueId; 3]> {
    p.graphs[0].node(id).operands.clone()
}

/// The node on new operands, one result.
fn rebuild(p: &mut Pass<'_>, id: NodeId, new: &[ValueId]) -> Result<ValueId, Stop> {
    let op = p.graphs[0].node(id).op.clone();
    Ok(p.b.op(op, new.iter().copied())?)
}

fn single(value: ValueId, state: State) -> Ruled {
    Ok(smallvec![(value, state)])
}

/// Operands and states pass.
fn through(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    let xs = operands(p, id);
    let new: SmallVec<[ValueId; 4]> = xs.iter().map(|&x| p.value(x)).collect();
    let results = p.b.op_multi(p.graphs[0].node(id).op.clone(), new)?;
    Ok(results.iter().zip(&xs).map(|(&r, &x)| (r, p.state(x).clone())).collect())
}

/// Loops, branches and calls: only on values without padding.
fn bodies(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    let xs = operands(p, id);
    if xs.iter().any(|&x| p.state(x).axes.iter().any(Axis::is_partial)) {
        return Err(Stop::Refused("control flow over values of dynamic size"));
    }
    let new: SmallVec<[ValueId; 4]> = xs.iter().map(|&x| p.value(x)).collect();
    let results = p.b.op_multi(p.graphs[0].node(id).op.clone(), new)?;
    let fixed = |p: &Pass<'_>, o: usize| {
        let v = ValueId { node: id, output: o as u32 };
        (0..p.graphs[0].ty(v).rank()).all(|a| is_fixed(&p.dim(v, a)))
    };
    if !(0..results.len()).all(|o| fixed(p, o)) {
        return Err(Stop::Refused("control flow over values of dynamic size"));
    }
    Ok(results.iter().enumerate().map(|(o, &r)| (r, p.fresh(id, o, false))).collect())
}

/// Ops that mix the last `count` axes and repeat over the others.
fn inner(p: &mut Pass<'_>, id: NodeId, count: usize) -> Ruled {
    let xs = operands(p, id);
    for &x in &xs {
        let axes = &p.state(x).axes;
        if axes[axes.len().saturating_sub(count)..].iter().any(Axis::is_partial) {
            return Err(Stop::Refused("a transform or solve over an axis of dynamic size"));
        }
    }
    let new: SmallVec<[ValueId; 4]> = xs.iter().map(|&x| p.value(x)).collect();
    let value = rebuild(p, id, &new)?;
    let mut state = p.fresh(id, 0, false);
    let outer = state.axes.len().saturating_sub(count);
    for a in 0..outer {
        let mut axis = p.state(xs[0]).axes[a].clone();
        for &x in &xs[1..] {
            axis = axis.meet(&p.state(x).axes[a]).ok_or(Stop::Refused("operands whose padding lies at different places"))?;
        }
        state.axes[a] = axis;
    }
    single(value, state)
}
