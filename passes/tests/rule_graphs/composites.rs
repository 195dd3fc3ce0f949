//! Composites from their parts, and forms of attention.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, SQRT_2};

use clutch_graph::builder::{Builder, Built};
use clutch_graph::op::{AttentionAttrs, Axes, BinaryOp, Combiner, Precision, Real, UnaryOp};
use clutch_graph::{DType, Graph, GraphError, Op, ValueId};
use smallvec::smallvec;

use super::{Case, FLOATS, input, pick, sizes, weight, whole};
use crate::common::Numbers;

pub const CASES: &[Case] = &[
    Case { rule: "logistic-from-exponential", graph: logistic },
    Case { rule: "silu-from-parts", graph: silu },
    Case { rule: "gelu-from-parts", graph: gelu },
    Case { rule: "tanh-gelu-from-parts", graph: tanh_gelu },
    Case { rule: "softmax-from-parts", graph: |n| softmax(n, false) },
    Case { rule: "log-softmax-from-parts", graph: |n| softmax(n, true) },
    Case { rule: "rms-norm-from-parts", graph: rms_norm },
    Case { rule: "grouped-attention", graph: grouped_attention },
    Case { rule: "grouped-product", graph: grouped_product },
    Case { rule: "divide-after-product", graph: divided_attention },
];

fn logistic(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let (dtype, dims) = (pick(n, &FLOATS), sizes(n, 2));
    let x = input(&mut b, dtype, &dims);
    let e = b.unary(UnaryOp::Neg, x)?;
    let e = b.unary(UnaryOp::Exp, e)?;
    let sum = b.binary_scalar(BinaryOp::Add, e, 1.0)?;
    let one = b.full_like(x, 1.0)?;
    let y = b.div(one, sum)?;
    Ok(b.finish([y]))
}

fn silu(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let (dtype, dims) = (pick(n, &FLOATS), sizes(n, 2));
    let x = input(&mut b, dtype, &dims);
    let gate = b.unary(UnaryOp::Logistic, x)?;
    let y = if n.next() > 0.0 { b.mul(x, gate)? } else { b.mul(gate, x)? };
    Ok(b.finish([y]))
}

/// x, 1/2 and 1 + bent multiplied in some order.
fn gated(b: &mut Builder, n: &mut Numbers, x: ValueId, bent: ValueId) -> Built {
    let gate = b.binary_scalar(BinaryOp::Add, bent, 1.0)?;
    match whole(n, 0, 2) {
        0 => {
            let half = b.binary_scalar(BinaryOp::Mul, x, 0.5)?;
            b.mul(half, gate)
        }
        1 => {
            let half = b.binary_scalar(BinaryOp::Mul, gate, 0.5)?;
            b.mul(x, half)
        }
        _ => {
            let y = b.mul(x, gate)?;
            b.binary_scalar(BinaryOp::Mul, y, 0.5)
        }
    }
}

fn gelu(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let (dtype, dims) = (pick(n, &FLOATS), sizes(n, 2));
    let x = input(&mut b, dtype, &dims);
    let inner = if n.next() > 0.0 { b.binary_scalar(BinaryOp::Mul, x, FRAC_1_SQRT_2)? } else { b.binary_scalar(BinaryOp::Div, x, SQRT_2)? };
    let bent = b.unary(UnaryOp::Erf, inner)?;
    let y = gated(&mut b, n, x, bent)?;
    Ok(b.finish([y]))
}

fn tanh_gelu(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let (dtype, dims) = (pick(n, &FLOATS), sizes(n, 2));
    let x = input(&mut b, dtype, &dims);
    let cube = if n.next() > 0.0 {
        b.binary_scalar(BinaryOp::Pow, x, 3.0)?
    } else {
        let square = b.mul(x, x)?;
        b.mul(square, x)?
    };
    let cubic = b.binary_scalar(BinaryOp::Mul, cube, 0.044715)?;
    let inner = b.add(x, cubic)?;
    let inner = b.binary_scalar(BinaryOp::Mul, inner, FRAC_2_PI.sqrt())?;
    let bent = b.unary(UnaryOp::Tanh, inner)?;
    let y = gated(&mut b, n, x, bent)?;
    Ok(b.finish([y]))
}

/// `x` reduced along `axis` and spread again, directly or through an axis of size 1.
fn spread_reduction(b: &mut Builder, n: &mut Numbers, combiner: Combiner, x: ValueId, axis: usize) -> Built {
    let dims = b.dims(x);
    if n.next() > 0.0 {
        let kept = b.reduce_keep(combiner, x, &[axis])?;
        return b.expand(kept, &dims);
    }
    let reduced = b.reduce(combiner, x, &[axis])?;
    let axes: Axes = (0..dims.len()).filter(|&a| a != axis).collect();
    b.op(Op::Broadcast { dims, axes }, [reduced])
}

fn softmax(n: &mut Numbers, log: bool) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let (dtype, axis) = (pick(n, &FLOATS), whole(n, 0, 2) as usize);
    let dims: Vec<i64> = (0..3).map(|_| whole(n, 2, 5)).collect();
    let x = input(&mut b, dtype, &dims);
    let max = spread_reduction(&mut b, n, Combiner::Max, x, axis)?;
    let shifted = b.sub(x, max)?;
    let exp = b.unary(UnaryOp::Exp, shifted)?;
    let y = if log {
        let sum = b.reduce_keep(Combiner::Add, exp, &[axis])?;
        let log = b.unary(UnaryOp::Log, sum)?;
        let log = b.expand(log, &dims)?;
        b.sub(shifted, log)?
    } else {
        let sum = spread_reduction(&mut b, n, Combiner::Add, exp, axis)?;
        b.div(exp, sum)?
    };
    Ok(b.finish([y]))
}

fn rms_norm(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &FLOATS);
    let dims = [whole(n, 1, 3), whole(n, 2, 4), whole(n, 2, 8)];
    let x = input(&mut b, dtype, &dims);
    let w = weight(&mut b, dtype, &dims[2..]);
    let square = b.mul(x, x)?;
    let sum = b.reduce_keep(Combiner::Add, square, &[2])?;
    let mean = b.binary_scalar(BinaryOp::Div, sum, dims[2] as f64)?;
    let mean = b.binary_scalar(BinaryOp::Add, mean, 1e-5)?;
    let scale = b.unary(UnaryOp::Rsqrt, mean)?;
    let scale = b.expand(scale, &dims)?;
    let y = b.mul(x, scale)?;
    let w = b.expand(w, &dims)?;
    let y = if n.next() > 0.0 { b.mul(w, y)? } else { b.mul(y, w)? };
    Ok(b.finish([y]))
}

/// `[batch, heads, rows, size]` with each head repeated `times` times in a row.
fn repeat_heads(b: &mut Builder, n: &mut Numbers, x: ValueId, times: i64) -> Built {
    let d = b.dims(x);
    let wide = [d[0], d[1], times, d[2], d[3]];
    let spread = if n.next() > 0.0 {
        let inserted = b.unsqueeze(x, 2)?;
        b.expand(inserted, &wide)?
    } else {
        b.op(Op::Broadcast { dims: wide.into_iter().collect(), axes: smallvec![0, 1, 3, 4] }, [x])?
    };
    b.reshape(spread, &[d[0], d[1] * times, d[2], d[3]])
}

fn grouped_attention(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let b = &mut b;
    let dtype = pick(n, &[DType::F32, DType::F64, DType::BF16]);
    let (batch, heads, times, rows, keys, size) = (whole(n, 1, 2), whole(n, 1, 3), whole(n, 2, 3), whole(n, 1, 4), whole(n, 2, 4), 4);
    let q = input(b, dtype, &[batch, heads * times, rows, size]);
    let (k, v) = (input(b, dtype, &[batch, heads, keys, size]), input(b, dtype, &[batch, heads, keys, size]));
    let (k, v) = (repeat_heads(b, n, k, times)?, repeat_heads(b, n, v, times)?);
    let mut operands = vec![q, k, v];
    if n.next() > 0.0 {
        operands.push(input(b, DType::Pred, &[batch, 1, rows, keys]));
    }
    let attrs = AttentionAttrs { causal: n.next() > 0.0, scale: Real(0.5), precision: Precision::Highest };
    let y = b.op_multi(Op::Attention(attrs), operands)?;
    Ok(std::mem::take(b).finish(y))
}

fn grouped_product(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let b = &mut b;
    let dtype = pick(n, &[DType::F32, DType::BF16, DType::S32]);
    let (batch, heads, times, rows, keys, size) = (whole(n, 1, 2), whole(n, 1, 3), whole(n, 2, 3), whole(n, 1, 4), whole(n, 1, 4), 3);
    let q = input(b, dtype, &[batch, heads * times, rows, size]);
    let flipped = n.next() > 0.0;
    let k = input(b, dtype, &if flipped { [batch, heads, keys, size] } else { [batch, heads, size, keys] });
    let k = repeat_heads(b, n, k, times)?;
    let dims = clutch_graph::op::DotDims {
        lhs_batch: smallvec![0, 1],
        rhs_batch: smallvec![0, 1],
        lhs_contract: smallvec![3],
        rhs_contract: smallvec![if flipped { 3 } else { 2 }],
    };
    let y = b.dot_general(q, k, dims, dtype, Precision::Highest)?;
    Ok(std::mem::take(b).finish([y]))
}

fn divided_attention(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &FLOATS);
    let (heads, rows, keys, size) = (whole(n, 1, 3), whole(n, 1, 4), whole(n, 1, 5), whole(n, 1, 4));
    let scores = input(&mut b, dtype, &[heads, rows, keys]);
    let v = input(&mut b, dtype, &[heads, keys, size]);
    let p = b.op(Op::Softmax { axis: 2, log: false }, [scores])?;
    let y = b.matmul(p, v, Precision::Highest)?;
    Ok(b.finish([y]))
}
