//! Cost of one op from its types.

use clutch_graph::op::{AttentionAttrs, Combiner, DotDims, Precision, UnaryOp};
use clutch_graph::{DType, Op, TensorType};

use crate::egraph::cost::device::Table;

/// Where an op stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Among others, so that cheap ones join their neighbours' kernels.
    Among,
    /// Alone in its program.
    Alone,
}

/// Cost of an op in the table's units.
pub fn op_cost(op: &Op, operands: &[&TensorType], results: &[TensorType], t: &Table, placed: Placed) -> f64 {
    let out = results.first().map_or(0.0, |ty| ty.numel() as f64);
    let bytes = |ty: &TensorType| ty.byte_size() as f64;
    let moved = operands.iter().copied().map(bytes).sum::<f64>() + results.iter().map(bytes).sum::<f64>();
    let kernel = |elements: f64, rate: f64| t.kernel.max(elements / rate).max(moved / t.memory_bytes / 4.0);
    let streamed = |elements: f64, rate: f64| t.kernel + elements / rate;
    let elementwise = |weight: f64| match placed {
        Placed::Among => SMALL + out * weight / t.fused,
        Placed::Alone => kernel(out * weight.max(1.0), t.elementwise),
    };
    match op {
        Op::Parameter(..) | Op::Constant(_) => 0.0,
        Op::Reshape(_) | Op::Bitcast(_) | Op::OptimizationBarrier => SMALL,
        Op::Broadcast { .. } | Op::Iota { .. } => SMALL + out / t.fused / 8.0,
        Op::Unary(u) => elementwise(unary_weight(*u, t)),
        Op::Binary(b) => elementwise(binary_weight(*b, t)),
        Op::Compare(_) | Op::Select | Op::Convert(_) => elementwise(1.0),
        Op::Silu | Op::Gelu { .. } => elementwise(4.0 + t.transcendental),
        Op::Slice { .. } => SMALL + out / t.slice,
        Op::Transpose(perm) => {
            let keeps_last = perm.last().is_none_or(|&p| p + 1 == perm.len());
            streamed(out, if keeps_last { t.transpose_major } else { t.transpose_minor })
        }
        Op::Concat(_) | Op::Pad(_) | Op::Reverse(_) | Op::DynamicSlice(_) => streamed(out, t.concat),
        // The operand's memory is taken over, or copied once.
        Op::DynamicUpdateSlice => streamed(operands.get(1).map_or(0.0, |u| u.numel() as f64), t.concat) + moved / t.memory_bytes / 4.0,
        Op::Gather(_) => streamed(out, t.gather),
        Op::Scatter { .. } => streamed(operands.get(2).map_or(0.0, |u| u.numel() as f64), t.gather) + moved / t.memory_bytes,
        Op::DotGeneral { dims, precision, .. } => dot(dims, *precision, operands, &results[0], t),
        Op::Convolution(c) => {
            let kernel = operands[1];
            let depth = kernel.numel() as f64 / kernel.dims[c.dims.kernel_output_feature].max(1) as f64;
            let peak = peak(operands[0].dtype, c.precision, t);
            2.0 * out * depth / (peak * t.efficiency) + moved / t.stream_bytes + t.start
        }
        Op::Reduce { combiner, .. } => {
            let weight = if matches!(combiner, Combiner::Add | Combiner::Mul) { 1.0 } else { 0.9 };
            t.kernel + elements(operands) * weight / t.reduce
        }
        Op::ArgReduce { .. } => t.kernel + 1.5 * elements(operands) / t.reduce,
        Op::Cumulative { .. } => t.kernel + 4.0 * elements(operands) / t.reduce,
        Op::Softmax { .. } if placed == Placed::Alone => 2.0 * t.kernel + t.softmax_passes * out / t.elementwise,
        // Composites cost what they expand to; a whole one is a little less than its parts.
        Op::Softmax { .. } => softmax(out, out, t),
        Op::LayerNorm { .. } => 2.0 * (t.kernel + out / t.reduce) + 6.0 * out / t.fused,
        Op::RmsNorm { .. } => t.kernel + out / t.reduce + 4.0 * out / t.fused,
        Op::Attention(attrs) => attention(attrs, operands, t),
        Op::AttentionBackward(attrs) => 2.5 * attention(attrs, &operands[1..], t),
        Op::Sort { axis, .. } => {
            let length = operands[0].dims[*axis].max(2) as f64;
            t.kernel + operands.iter().map(|ty| ty.numel() as f64).sum::<f64>() * length.log2().ceil() / t.sort
        }
        Op::TopK { .. } => t.kernel + 4.0 * elements(operands) / t.reduce,
        Op::ReduceWindow { window, .. } => t.kernel + out * window.iter().map(|w| w.size as f64).product::<f64>() / t.reduce,
        _ => t.kernel + moved / t.memory_bytes,
    }
}

/// Cost of an op that is no work, so that fewer ops win among equals.
const SMALL: f64 = 0.5;

fn elements(operands: &[&TensorType]) -> f64 {
    operands.first().map_or(0.0, |ty| ty.numel() as f64)
}

fn unary_weight(u: UnaryOp, t: &Table) -> f64 {
    match u {
        UnaryOp::Abs | UnaryOp::Neg | UnaryOp::Not | UnaryOp::Sign | UnaryOp::IsFinite | UnaryOp::Real | UnaryOp::Imag => 1.0,
        UnaryOp::Sqrt | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::RoundEven | UnaryOp::RoundAway => 1.5,
        _ => t.transcendental,
    }
}

fn binary_weight(b: clutch_graph::op::BinaryOp, t: &Table) -> f64 {
    use clutch_graph::op::BinaryOp::{Atan2, Div, Pow, Rem};
    match b {
        Pow | Atan2 => 2.0 * t.transcendental,
        Div | Rem => 2.0,
        _ => 1.0,
    }
}

fn peak(dtype: DType, precision: Precision, t: &Table) -> f64 {
    match dtype {
        DType::BF16 | DType::F16 => t.flops_bf16,
        DType::F32 => {
            t.flops_f32[match precision {
                Precision::Default => 0,
                Precision::High => 1,
                Precision::Highest => 2,
            }]
        }
        // Integers, wide floats and complex numbers are several passes of something narrower.
        _ => t.flops_f32[2] / 2.0,
    }
}

fn dot(dims: &DotDims, precision: Precision, x: &[&TensorType], result: &TensorType, t: &Table) -> f64 {
    let depth: f64 = dims.lhs_contract.iter().map(|&a| x[0].dims[a] as f64).product();
    let work = 2.0 * result.numel() as f64 * depth / (peak(x[0].dtype, precision, t) * t.efficiency);
    let bytes = |ty: &TensorType| ty.byte_size() as f64;
    let batched = !dims.lhs_batch.is_empty();
    // A matrix that every row is multiplied by is fetched whole; the operands of batched products stream.
    let (fetched, streamed) = if batched { (0.0, bytes(x[0]) + bytes(x[1])) } else { (bytes(x[1]), bytes(x[0])) };
    t.kernel
        + t.start.min(work)
        + work.max(fetched / t.weight_bytes / 2.0)
        + fetched / t.weight_bytes / 2.0
        + (streamed + bytes(result)) / t.stream_bytes
}

fn attention(attrs: &AttentionAttrs, x: &[&TensorType], t: &Table) -> f64 {
    let (query, key, value) = (x[0], x[1], x[2]);
    let n = query.rank();
    let scores = query.numel() as f64 / query.dims[n - 1].max(1) as f64 * key.dims[n - 2] as f64;
    let flops = 2.0 * scores * (query.dims[n - 1] + value.dims[n - 1]) as f64;
    let masks = f64::from(u8::from(attrs.causal)) + f64::from(u8::from(x.len() > 3));
    let bytes: f64 = x.iter().map(|ty| ty.byte_size() as f64).sum();
    let work = flops / (peak(query.dtype, attrs.precision, t) * t.efficiency);
    let divided = if t.divide_after_product { query.numel() as f64 } else { scores };
    let scores_bytes = 2.0 * scores * query.dtype.size() as f64;
    2.0 * (t.kernel + t.start.min(work / 2.0))
        + work
        + softmax(scores, divided, t)
        + (1.0 + masks) * scores / t.fused
        + (bytes + scores_bytes) / t.stream_bytes
}

/// A softmax of so many elements, of which `divided` are divided by sums.
fn softmax(elements: f64, divided: f64, t: &Table) -> f64 {
    2.0 * t.kernel + 1.9 * elements / t.reduce + (1.0 + t.transcendental) * elements / t.fused + 2.0 * divided / t.fused
}
