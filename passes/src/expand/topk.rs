//! The largest or smallest elements of the last axis.

use clutch_graph::builder::Builder;
use clutch_graph::op::{BinaryOp, Combiner, Op, UnaryOp};
use clutch_graph::{DType, GraphError, ValueId};

use crate::expand::arg_reduce::{first_hit, is_best};
use crate::expand::sort::{Order, sort};
use crate::expand::util::{identity, spread};
use crate::options::Target;

/// Up to this many elements are taken out one by one on the CPU plugin, where a sort costs 9 to 94 times as much as eager.
const EXTRACTED: i64 = 8;

/// Values and `S64` positions.
pub(crate) fn top_k(b: &mut Builder, x: ValueId, k: i64, largest: bool, target: Target) -> Result<[ValueId; 2], GraphError> {
    let axis = b.rank(x) - 1;
    let length = b.dims(x)[axis];
    let simple = largest && b.dtype(x) != DType::Pred;
    if target == Target::Cpu && simple && (1..=EXTRACTED).contains(&k) && length > 4 * k {
        extract(b, x, k, axis)
    } else {
        sorted(b, x, k, largest, target)
    }
}

fn sorted(b: &mut Builder, x: ValueId, k: i64, largest: bool, target: Target) -> Result<[ValueId; 2], GraphError> {
    let (dims, axis) = (b.dims(x), b.rank(x) - 1);
    let index = if dims[axis] < i64::from(i32::MAX) { DType::S32 } else { DType::S64 };
    let position = b.iota(index, &dims, axis)?;
    let both = sort(b, &[x, position], Order { axis, descending: largest, stable: true }, target)?;
    let values = b.slice_axis(both[0], axis, 0, k, 1)?;
    let positions = b.slice_axis(both[1], axis, 0, k, 1)?;
    Ok([values, b.convert(positions, DType::S64)?])
}

/// The largest remaining element, k times. What was taken counts as the lowest value and is excluded from ties with real lowest values.
fn extract(b: &mut Builder, x: ValueId, k: i64, axis: usize) -> Result<[ValueId; 2], GraphError> {
    let (dims, dtype) = (b.dims(x), b.dtype(x));
    let mut column = dims.clone();
    column[axis] = 1;
    let x = b.op(Op::OptimizationBarrier, [x])?;
    let lowest = identity(b, Combiner::Max, dtype)?;
    let lowest = b.broadcast_in_dim(lowest, &dims, &[])?;
    let mut taken: Option<ValueId> = None;
    let (mut values, mut positions) = (Vec::new(), Vec::new());
    for _ in 0..k {
        let rest = match taken {
            Some(taken) => b.select(taken, lowest, x)?,
            None => x,
        };
        let best = b.reduce(Combiner::Max, rest, &[axis])?;
        let best = b.op(Op::OptimizationBarrier, [best])?;
        let mut hit = is_best(b, rest, best, axis)?;
        if let Some(taken) = taken {
            let free = b.unary(UnaryOp::Not, taken)?;
            hit = b.binary(BinaryOp::And, hit, free)?;
        }
        let position = first_hit(b, hit, axis)?;
        let position = b.op(Op::OptimizationBarrier, [position])?;
        let index = b.dtype(position);
        let counter = b.iota(index, &dims, axis)?;
        let wide = spread(b, position, x, &[axis])?;
        let now = b.compare(clutch_graph::op::CompareDir::Eq, counter, wide)?;
        taken = Some(match taken {
            Some(before) => b.binary(BinaryOp::Or, before, now)?,
            None => now,
        });
        values.push(b.reshape(best, &column)?);
        positions.push(b.reshape(position, &column)?);
    }
    let values = b.concat(&values, axis)?;
    let positions = b.concat(&positions, axis)?;
    Ok([values, b.convert(positions, DType::S64)?])
}
