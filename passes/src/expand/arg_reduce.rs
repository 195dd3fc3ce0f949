//! Position of the largest or smallest element.

use clutch_graph::builder::{Builder, Built};
use clutch_graph::op::{BinaryOp, Combiner, CompareDir, Op};
use clutch_graph::{DType, ValueId};

use crate::expand::util::spread;
use crate::options::Target;

/// A value that XLA does not move or merge across.
fn fence(b: &mut Builder, x: ValueId) -> Built {
    b.op(Op::OptimizationBarrier, [x])
}

/// Where `x` is an extremum of its axis: equal to `best`, or NaN, which wins.
pub(crate) fn is_best(b: &mut Builder, x: ValueId, best: ValueId, axis: usize) -> Built {
    let wide = spread(b, best, x, &[axis])?;
    let hit = b.compare(CompareDir::Eq, x, wide)?;
    if !b.dtype(x).is_float() {
        return Ok(hit);
    }
    let nan = b.compare(CompareDir::Ne, x, x)?;
    b.binary(BinaryOp::Or, hit, nan)
}

/// First position along `axis` where `hit` holds, as `S32` (`S64` on axes too long for it).
pub(crate) fn first_hit(b: &mut Builder, hit: ValueId, axis: usize) -> Built {
    let dims = b.dims(hit);
    let index = if dims[axis] < i64::from(i32::MAX) { DType::S32 } else { DType::S64 };
    let position = b.iota(index, &dims, axis)?;
    let none = b.full_int(index, &dims, dims[axis] - 1)?;
    let position = b.select(hit, position, none)?;
    b.reduce(Combiner::Min, position, &[axis])
}

/// Extremum, then the first position that equals it. On the CPU plugin a two-operand reduction is many times slower than these two passes,
/// and the barriers keep XLA from merging them back or from computing the operand twice with different rounding.
pub(crate) fn arg_reduce(b: &mut Builder, x: ValueId, axis: usize, max: bool, target: Target) -> Built {
    let mut x = if b.dtype(x) == DType::Pred { b.convert(x, DType::U8)? } else { x };
    let cpu = target == Target::Cpu;
    let computed = !matches!(b.graph().node(x.node).op, Op::Parameter(..) | Op::Constant(..));
    if cpu && computed {
        x = fence(b, x)?;
    }
    let mut best = b.reduce(if max { Combiner::Max } else { Combiner::Min }, x, &[axis])?;
    if cpu {
        best = fence(b, best)?;
    }
    let hit = is_best(b, x, best, axis)?;
    let position = first_hit(b, hit, axis)?;
    b.convert(position, DType::S64)
}
