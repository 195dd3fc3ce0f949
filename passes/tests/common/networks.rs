//! Networks as capture gives them, in ATen's layouts.
#![allow(dead_code)]

use clutch_graph::DType::{F32, U32, U64};
use clutch_graph::builder::{Builder, Built};
use clutch_graph::graph::InputKind;
use clutch_graph::op::{AttentionAttrs, BinaryOp, Combiner, CompareDir, ConvDims, Convolution, Precision, Real, UnaryOp, WindowDim};
use clutch_graph::{Dims, Graph, GraphError, Op, TensorType, ValueId};

fn ty(dtype: clutch_graph::DType, dims: &[i64]) -> TensorType {
    TensorType::new(dtype, dims.iter().copied())
}

#[derive(Clone, Copy)]
pub struct Conv {
    pub size: i64,
    pub stride: i64,
    pub pad: i64,
    pub dilation: i64,
    pub groups: i64,
}

pub const PLAIN: Conv = Conv { size: 3, stride: 1, pad: 1, dilation: 1, groups: 1 };

pub fn nchw(spatial: usize) -> ConvDims {
    ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: (2..2 + spatial).collect(),
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: (2..2 + spatial).collect(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: (2..2 + spatial).collect(),
    }
}

pub fn conv(b: &mut Builder, x: ValueId, w: ValueId, c: Conv) -> Built {
    let w_dims =
        WindowDim { size: c.size, stride: c.stride, pad_low: c.pad, pad_high: c.pad, window_dilation: c.dilation, ..WindowDim::TRIVIAL };
    let n = b.rank(x) - 2;
    let op = Convolution {
        window: smallvec::smallvec![w_dims; n],
        dims: nchw(n),
        feature_groups: c.groups,
        batch_groups: 1,
        precision: Precision::Highest,
    };
    b.op(Op::Convolution(Box::new(op)), [x, w])
}

pub fn max_pool(b: &mut Builder, x: ValueId) -> Built {
    let w = WindowDim { size: 3, stride: 2, pad_low: 1, pad_high: 1, ..WindowDim::TRIVIAL };
    let window = [WindowDim::TRIVIAL, WindowDim::TRIVIAL, w, w].into_iter().collect();
    b.op(Op::ReduceWindow { combiner: Combiner::Max, window }, [x])
}

/// Convolution, normalisation by vectors and ReLU.
pub fn unit(b: &mut Builder, x: ValueId, outputs: i64, c: Conv) -> Built {
    let features = b.dims(x)[1];
    let w = b.parameter(ty(F32, &[outputs, features / c.groups, c.size, c.size]), InputKind::Static);
    let [mean, variance, scale, shift] = [(); 4].map(|()| b.parameter(ty(F32, &[outputs]), InputKind::Static));
    let y = conv(b, x, w, c)?;
    let dims = b.dims(y);
    let variance = b.unary(UnaryOp::Abs, variance)?;
    let variance = b.binary_scalar(BinaryOp::Add, variance, 1e-5)?;
    let rstd = b.unary(UnaryOp::Rsqrt, variance)?;
    let factor = b.mul(rstd, scale)?;
    let spread = |b: &mut Builder, v| {
        let column = b.reshape(v, &[outputs, 1, 1])?;
        b.expand(column, &dims)
    };
    let (mean, factor, shift) = (spread(b, mean)?, spread(b, factor)?, spread(b, shift)?);
    let y = b.sub(y, mean)?;
    let y = b.mul(y, factor)?;
    b.add(y, shift)
}

pub fn relu(b: &mut Builder, x: ValueId) -> Built {
    let zero = b.full_like(x, 0.0)?;
    b.max(x, zero)
}

pub fn bottleneck(b: &mut Builder, x: ValueId, width: i64, stride: i64) -> Built {
    let point = Conv { size: 1, pad: 0, ..PLAIN };
    let y = unit(b, x, width, point)?;
    let y = relu(b, y)?;
    let y = unit(b, y, width, Conv { stride, ..PLAIN })?;
    let y = relu(b, y)?;
    let y = unit(b, y, 4 * width, point)?;
    let shortcut = if b.dims(x) == b.dims(y) { x } else { unit(b, x, 4 * width, Conv { stride, ..point })? };
    let y = b.add(y, shortcut)?;
    relu(b, y)
}

pub fn residual_network(size: i64, width: i64, blocks: &[usize]) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let x = b.parameter(ty(F32, &[1, 3, size, size]), InputKind::Dynamic);
    let y = unit(&mut b, x, width, Conv { size: 7, stride: 2, pad: 3, ..PLAIN })?;
    let y = relu(&mut b, y)?;
    let mut y = max_pool(&mut b, y)?;
    for (stage, &count) in blocks.iter().enumerate() {
        for block in 0..count {
            y = bottleneck(&mut b, y, width << stage, if stage > 0 && block == 0 { 2 } else { 1 })?;
        }
    }
    let pooled = b.reduce(Combiner::Add, y, &[2, 3])?;
    let area = (b.dims(y)[2] * b.dims(y)[3]) as f64;
    let pooled = b.binary_scalar(BinaryOp::Div, pooled, area)?;
    let features = b.dims(pooled)[1];
    let w = b.parameter(ty(F32, &[10, features]), InputKind::Static);
    let w = b.swap_last(w)?;
    let logits = b.matmul(pooled, w, Precision::Highest)?;
    Ok(b.finish([logits]))
}

fn linear(b: &mut Builder, x: ValueId, outputs: i64) -> Built {
    let dims = b.dims(x);
    let (rows, inner) = (dims[0] * dims[1], dims[2]);
    let w = b.parameter(ty(F32, &[outputs, inner]), InputKind::Static);
    let bias = b.parameter(ty(F32, &[outputs]), InputKind::Static);
    let flat = b.reshape(x, &[rows, inner])?;
    let w = b.swap_last(w)?;
    let y = b.matmul(flat, w, Precision::Highest)?;
    let bias = b.expand(bias, &[rows, outputs])?;
    let y = b.add(y, bias)?;
    b.reshape(y, &[dims[0], dims[1], outputs])
}

fn layer_norm(b: &mut Builder, x: ValueId) -> Built {
    let size = b.dims(x)[2];
    let [w, bias] = [(); 2].map(|()| b.parameter(ty(F32, &[size]), InputKind::Static));
    Ok(b.op_multi(Op::LayerNorm { axes: 1, eps: Real(1e-12) }, [x, w, bias])?[0])
}

fn dropout(b: &mut Builder, x: ValueId, key: Option<ValueId>, stream: &mut u32) -> Built {
    let Some(key) = key else { return Ok(x) };
    *stream += 1;
    let dims: Dims = b.dims(x);
    let bits = b.op(Op::RandomBits { dims: dims.clone(), stream: *stream }, [key])?;
    let limit = b.full_int(U32, &dims, 0x1999_9999)?;
    let kept = b.compare(CompareDir::Ge, bits, limit)?;
    let zero = b.full_like(x, 0.0)?;
    let scaled = b.binary_scalar(BinaryOp::Mul, x, 1.0 / 0.9)?;
    b.select(kept, scaled, zero)
}

fn heads(b: &mut Builder, x: ValueId, heads: i64) -> Built {
    let d = b.dims(x);
    let x = b.reshape(x, &[d[0], d[1], heads, d[2] / heads])?;
    b.transpose(x, &[0, 2, 1, 3])
}

/// A stack of encoder layers over hidden states, with dropout when `training`.
pub fn encoder(layers: usize, batch: i64, length: i64, width: i64, training: bool) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let b = &mut b;
    let mut x = b.parameter(ty(F32, &[batch, length, width]), InputKind::Dynamic);
    let mask = b.parameter(ty(F32, &[batch, 1, 1, length]), InputKind::Dynamic);
    let key = if training { Some(b.parameter(ty(U64, &[]), InputKind::Dynamic)) } else { None };
    let count = width / 64;
    let attrs = AttentionAttrs { causal: false, scale: Real(0.125), precision: Precision::Highest };
    let mut stream = 0;
    for _ in 0..layers {
        let mut projected = Vec::new();
        for _ in 0..3 {
            let y = linear(b, x, width)?;
            projected.push(heads(b, y, count)?);
        }
        let mixed = b.op_multi(Op::Attention(attrs), [projected[0], projected[1], projected[2], mask])?[0];
        let mixed = b.transpose(mixed, &[0, 2, 1, 3])?;
        let mixed = b.reshape(mixed, &[batch, length, width])?;
        let y = linear(b, mixed, width)?;
        let y = dropout(b, y, key, &mut stream)?;
        let y = b.add(x, y)?;
        let y = layer_norm(b, y)?;
        let inner = linear(b, y, 4 * width)?;
        let inner = b.op(Op::Gelu { tanh: false }, [inner])?;
        let outer = linear(b, inner, width)?;
        let outer = dropout(b, outer, key, &mut stream)?;
        let outer = b.add(y, outer)?;
        x = layer_norm(b, outer)?;
    }
    Ok(std::mem::take(b).finish([x]))
}

/// A chain of `nodes` elementwise, moving and reducing nodes.
pub fn chain(nodes: usize) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let mut x = b.parameter(ty(F32, &[64, 32]), InputKind::Dynamic);
    let first = x;
    while b.graph().nodes().len() < nodes {
        let y = b.unary(UnaryOp::Tanh, x)?;
        let y = b.add(y, first)?;
        let sum = b.reduce_keep(Combiner::Add, y, &[1])?;
        let sum = b.expand(sum, &[64, 32])?;
        let y = b.div(y, sum)?;
        let y = b.transpose(y, &[1, 0])?;
        x = b.reshape(y, &[64, 32])?;
    }
    Ok(b.finish([x]))
}
