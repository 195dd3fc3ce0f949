//! Sources and elementwise ops: lanes stay where they are.

use clutch_graph::op::{BinaryOp, UnaryOp};
use clutch_graph::{DType, NodeId, Op, ValueId};
use smallvec::SmallVec;

use super::{operands, rebuild, single};
use crate::bucket::extent::{Axis, is_fixed};
use crate::bucket::validity::{Bound, Fill, Neutral, Pass, Ruled, State, Stop};

/// Constants, iotas and random bits. A constant that depends on the sizes becomes an input.
pub(super) fn source(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    let ops = p.ops(id);
    let v = ValueId::first(id);
    match ops[0] {
        Op::Constant(literal) => {
            let same = ops.iter().all(|o| *o == ops[0]);
            let ty = literal.ty().clone();
            if !(0..ty.rank()).all(|a| is_fixed(&p.dim(v, a))) {
                return Err(Stop::Refused("a constant whose size depends on a symbol"));
            }
            let splat = same && (literal.splat_f64().is_some() || literal.splat_i64().is_some());
            let value = if same { p.b.constant(literal.clone())? } else { p.bound(Bound::Constant(id), ty) };
            single(value, p.fresh(id, 0, splat))
        }
        Op::Iota { axis, .. } => {
            let counted = *axis;
            let value = rebuild(p, id, &[])?;
            let mut state = p.fresh(id, 0, true);
            state.axes[counted] = Axis::prefix(p.dim(v, counted), false);
            state.fill.iter_mut().for_each(|f| *f = Fill::Finite);
            single(value, state)
        }
        _ => {
            let xs = operands(p, id);
            let new: SmallVec<[ValueId; 3]> = xs.iter().map(|&x| p.value(x)).collect();
            let value = rebuild(p, id, &new)?;
            single(value, p.fresh(id, 0, false))
        }
    }
}

pub(super) fn apply(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    let xs = operands(p, id);
    let v = ValueId::first(id);
    let new: SmallVec<[ValueId; 3]> = xs.iter().map(|&x| p.value(x)).collect();
    let rank = p.graphs[0].ty(v).rank();
    if xs.iter().any(|&x| p.state(x).axes.len() != rank) {
        return Err(Stop::Refused("elements of another width"));
    }
    let mut axes: SmallVec<[Axis; 6]> = SmallVec::with_capacity(rank);
    for a in 0..rank {
        let mut axis = p.state(xs[0]).axes[a].clone();
        for &x in &xs[1..] {
            axis = axis.meet(&p.state(x).axes[a]).ok_or(Stop::Refused("operands whose padding lies at different places"))?;
        }
        axes.push(axis);
    }
    let value = rebuild(p, id, &new)?;
    let dtype = p.graphs[0].ty(v).dtype;
    let op = &p.graphs[0].node(id).op;
    let fill = (0..rank).map(|a| fill_after(op, dtype, &xs.iter().map(|&x| p.state(x).fill[a]).collect::<SmallVec<[Fill; 3]>>())).collect();
    single(value, State { axes, fill })
}

/// What lanes hold after an elementwise op.
fn fill_after(op: &Op, dtype: DType, fills: &[Fill]) -> Fill {
    let zero = Fill::Known(Neutral::Zero);
    let finite = |f: &Fill| matches!(f, Fill::Finite | Fill::Known(Neutral::Zero | Neutral::One | Neutral::NoIndex));
    let unknown = Pass::unknown(dtype);
    match op {
        Op::Convert(_) if fills[0] == zero => zero,
        Op::Unary(UnaryOp::Neg | UnaryOp::Abs) if fills[0] == zero => zero,
        Op::Gelu { .. } | Op::Silu | Op::Unary(UnaryOp::Tanh | UnaryOp::Sqrt) if fills[0] == zero => zero,
        Op::Binary(BinaryOp::Mul) if fills.contains(&zero) && fills.iter().all(finite) => zero,
        Op::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Max | BinaryOp::Min) if fills == [zero, zero] => zero,
        Op::Binary(BinaryOp::And) if dtype == DType::Pred && fills.contains(&zero) => zero,
        Op::Select if fills[1] == fills[2] => fills[1],
        Op::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Tanh) if finite(&fills[0]) => Fill::Finite,
        Op::Binary(BinaryOp::Max | BinaryOp::Min) if fills.iter().all(finite) => Fill::Finite,
        Op::Select if fills[1..].iter().all(finite) => Fill::Finite,
        _ => unknown,
    }
}
