//! Sorts by floats on the CPU plugin, where comparing integers is several times faster.

use clutch_graph::builder::{Builder, Built};
use clutch_graph::op::{BinaryOp, CompareDir, Op};
use clutch_graph::{DType, GraphError, ValueId};

use crate::options::Target;
use crate::rewrite::Values;

/// How the operands are sorted.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub axis: usize,
    pub descending: bool,
    pub stable: bool,
}

/// The sort, on the CPU by a signed integer key in the order of the floats. All zeros share one key and so do all NaN, so that ties stay
/// ties; sorted zeros come out positive and NaN without payload.
pub(crate) fn sort(b: &mut Builder, operands: &[ValueId], order: Order, target: Target) -> Result<Values, GraphError> {
    let Order { axis, descending, stable } = order;
    let op = Op::Sort { axis, descending, stable };
    let dtype = b.dtype(operands[0]);
    let key_type = match (target, dtype) {
        (Target::Cpu, DType::F32) => DType::S32,
        (Target::Cpu, DType::F64) => DType::S64,
        _ => return b.op_multi(op, operands.iter().copied()).map(|v| v.into_iter().collect()),
    };
    let mut sorted: Vec<ValueId> = operands.to_vec();
    sorted[0] = key(b, operands[0], key_type)?;
    let mut results: Values = b.op_multi(op, sorted)?.into_iter().collect();
    let values = flip(b, results[0])?;
    results[0] = b.op(Op::Bitcast(dtype), [values])?;
    Ok(results)
}

fn key(b: &mut Builder, x: ValueId, key_type: DType) -> Built {
    let zero = b.full_like(x, 0.0)?;
    let is_zero = b.compare(CompareDir::Eq, x, zero)?;
    let x = b.select(is_zero, zero, x)?;
    let is_nan = b.compare(CompareDir::Ne, x, x)?;
    let nan = b.full_like(x, f64::NAN)?;
    let x = b.select(is_nan, nan, x)?;
    let bits = b.op(Op::Bitcast(key_type), [x])?;
    flip(b, bits)
}

/// The magnitude of negative numbers inverted: bits of floats to ordered integers and back.
fn flip(b: &mut Builder, bits: ValueId) -> Built {
    let magnitude = if b.dtype(bits) == DType::S32 { i64::from(i32::MAX) } else { i64::MAX };
    let zero = b.full_like(bits, 0.0)?;
    let negative = b.compare(CompareDir::Lt, bits, zero)?;
    let inverted = b.binary_int(BinaryOp::Xor, bits, magnitude)?;
    b.select(negative, inverted, bits)
}
