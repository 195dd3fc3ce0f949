//! Transposes sink below the ops that can work on any axis order, until they meet their inverse or an op that absorbs them.

use clutch_graph::graph::{InputKind, Operands};
use clutch_graph::op::{Axes, Op};
use clutch_graph::{Dims, GraphError, ValueId};

use crate::layout::inverse;
use crate::simplify::Simplifier;

type Outcome = Result<Option<ValueId>, GraphError>;

pub(crate) fn rules(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Outcome {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Convert(_) | Op::Bitcast(_) => elementwise(s, op, x),
        Op::Reduce { combiner, axes } => {
            let Some((source, perm)) = transposed(s, x[0]) else { return Ok(None) };
            let mut reduced: Axes = axes.iter().map(|&a| perm[a]).collect();
            reduced.sort_unstable();
            let kept: Axes = (0..perm.len()).filter(|a| !reduced.contains(a)).collect();
            let rest = perm.iter().filter_map(|p| kept.iter().position(|k| k == p)).collect();
            let y = s.emit(Op::Reduce { combiner: *combiner, axes: reduced }, &[source])?;
            s.emit(Op::Transpose(rest), &[y]).map(Some)
        }
        Op::Pad(pads) => one(s, x, |perm| Op::Pad(inverse(perm).iter().map(|&i| pads[i]).collect())),
        Op::Slice { start, limit, stride } => one(s, x, |perm| {
            let order = inverse(perm);
            let through = |d: &Dims| order.iter().map(|&i| d[i]).collect();
            Op::Slice { start: through(start), limit: through(limit), stride: through(stride) }
        }),
        Op::Reverse(axes) => one(s, x, |perm| Op::Reverse(axes.iter().map(|&a| perm[a]).collect())),
        Op::ReduceWindow { combiner, window } => {
            one(s, x, |perm| Op::ReduceWindow { combiner: *combiner, window: inverse(perm).iter().map(|&i| window[i]).collect() })
        }
        Op::SelectAndScatter { window } => {
            let Some((source, perm)) = transposed(s, x[0]) else { return Ok(None) };
            let order = inverse(&perm);
            let grad = s.emit(Op::Transpose(order.clone()), &[x[1]])?;
            let y = s.emit(Op::SelectAndScatter { window: order.iter().map(|&i| window[i]).collect() }, &[source, grad])?;
            s.emit(Op::Transpose(perm), &[y]).map(Some)
        }
        Op::Concat(axis) => all(s, x, |perm| Op::Concat(perm[*axis])),
        _ => Ok(None),
    }
}

/// Operand and permutation of a transpose.
fn transposed(s: &Simplifier<'_>, v: ValueId) -> Option<(ValueId, Axes)> {
    let node = s.def(v);
    match &node.op {
        Op::Transpose(perm) => Some((node.operands[0], perm.clone())),
        _ => None,
    }
}

/// Transposing the value costs nothing per call: it is a broadcast, a constant, or a static input that is laid out once.
fn free(s: &Simplifier<'_>, v: ValueId) -> bool {
    match &s.def(v).op {
        Op::Broadcast { .. } | Op::Constant(_) | Op::Iota { .. } => true,
        Op::Parameter(..) => s.options().inference && s.parameter_kind(v) == Some(InputKind::Static),
        _ => false,
    }
}

/// The op's first operand is transposed; other operands are scalars.
fn one(s: &mut Simplifier<'_>, x: &[ValueId], moved: impl FnOnce(&[usize]) -> Op) -> Outcome {
    let Some((source, perm)) = transposed(s, x[0]) else { return Ok(None) };
    let mut operands: Operands = x.into();
    operands[0] = source;
    let y = s.emit(moved(&perm), &operands)?;
    s.emit(Op::Transpose(perm), &[y]).map(Some)
}

fn elementwise(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Outcome {
    all(s, x, |_| op.clone())
}

/// All operands are transposed alike, or free to be.
fn all(s: &mut Simplifier<'_>, x: &[ValueId], moved: impl FnOnce(&[usize]) -> Op) -> Outcome {
    let Some(perm) = x.iter().find_map(|&v| transposed(s, v)).map(|(_, perm)| perm) else { return Ok(None) };
    let alike = |v: ValueId| matches!(&s.def(v).op, Op::Transpose(p) if *p == perm);
    if !x.iter().all(|&v| alike(v) || free(s, v)) {
        return Ok(None);
    }
    let back = inverse(&perm);
    let mut operands = Operands::new();
    for &v in x {
        operands.push(s.emit(Op::Transpose(back.clone()), &[v])?);
    }
    let y = s.emit(moved(&perm), &operands)?;
    s.emit(Op::Transpose(perm), &[y]).map(Some)
}
