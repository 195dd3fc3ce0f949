//! Composites, computed in `f64` from their definitions and rounded once.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use crate::interp::elementwise::{logistic, maximum};
use crate::interp::elems::{Lines, decode_real, encode_real};
use crate::literal::Literal;
use crate::types::TensorType;

pub(super) fn softmax(x: &Literal, axis: usize, log: bool) -> Literal {
    let mut v = decode_real(x);
    let lines = Lines::along(&x.ty().dims, axis);
    for start in lines.starts() {
        let largest = lines.line(start).map(|p| v[p]).fold(f64::NEG_INFINITY, maximum);
        let sum: f64 = lines.line(start).map(|p| (v[p] - largest).exp()).sum();
        for p in lines.line(start) {
            let shifted = v[p] - largest;
            v[p] = if log { shifted - sum.ln() } else { shifted.exp() / sum };
        }
    }
    encode_real(x.ty(), v)
}

pub(super) fn gelu(x: &Literal, tanh: bool) -> Literal {
    let exact = |x: f64| 0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2);
    let approximate = |x: f64| 0.5 * x * (1.0 + (FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x)).tanh());
    encode_real(x.ty(), decode_real(x).into_iter().map(|x| if tanh { approximate(x) } else { exact(x) }).collect())
}

pub(super) fn silu(x: &Literal) -> Literal {
    encode_real(x.ty(), decode_real(x).into_iter().map(|x| x * logistic(x)).collect())
}

pub(super) fn layer_norm(args: &[Literal], axes: usize, eps: f64, outs: &[TensorType]) -> Vec<Literal> {
    let dims = &args[0].ty().dims;
    let (mut v, weight, bias) = (decode_real(&args[0]), decode_real(&args[1]), decode_real(&args[2]));
    let n = dims[dims.len() - axes..].iter().product::<i64>() as usize;
    let rows = outs[1].numel() as usize;
    let (mut means, mut rstds) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let row = &mut v[row * n..(row + 1) * n];
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
        let rstd = 1.0 / (variance + eps).sqrt();
        for (i, x) in row.iter_mut().enumerate() {
            *x = (*x - mean) * rstd * weight[i] + bias[i];
        }
        means.push(mean);
        rstds.push(rstd);
    }
    vec![encode_real(&outs[0], v), encode_real(&outs[1], means), encode_real(&outs[2], rstds)]
}

pub(super) fn rms_norm(x: &Literal, weight: &Literal, eps: f64) -> Literal {
    let (mut v, weight) = (decode_real(x), decode_real(weight));
    for row in v.chunks_mut(weight.len().max(1)) {
        let mean_square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
        for (x, w) in row.iter_mut().zip(&weight) {
            *x = *x / (mean_square + eps).sqrt() * w;
        }
    }
    encode_real(x.ty(), v)
}
