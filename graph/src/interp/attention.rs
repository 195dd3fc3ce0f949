//! Scaled dot-product attention and its gradient, computed in `f64` from their definitions and rounded once.

use crate::dtype::DType;
use crate::interp::elementwise::maximum;
use crate::interp::elems::{decode_int, decode_real, each_index, encode_real, position};
use crate::literal::Literal;
use crate::op::AttentionAttrs;
use crate::types::{Dims, TensorType, row_major_strides};

/// Query, key, value and mask with the sizes that index them.
struct Scores {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    /// Added to each score; -inf where a boolean mask hides. Broadcast to all scores.
    bias: Option<Vec<f64>>,
    /// Batch axes of the query, heads included.
    batch: Dims,
    /// For each batch of queries the batch of keys that serves it.
    key_batch: Vec<usize>,
    queries: usize,
    keys: usize,
    head: usize,
    value_head: usize,
    causal: bool,
    scale: f64,
}

impl Scores {
    fn new(q: &Literal, k: &Literal, v: &Literal, mask: Option<&Literal>, attrs: &AttentionAttrs) -> Scores {
        let (qd, kd, vd) = (&q.ty().dims, &k.ty().dims, &v.ty().dims);
        let n = qd.len();
        let batch: Dims = qd[..n - 2].into();
        let strides = row_major_strides(&kd[..n - 2]);
        let mut key_batch = Vec::new();
        each_index(&batch, |_, index| {
            let served: Dims = index.iter().enumerate().map(|(a, i)| i / (batch[a] / kd[a])).collect();
            key_batch.push(position(&served, &strides));
        });
        let mut scores: Dims = qd[..n - 1].into();
        scores.push(kd[n - 2]);
        Scores {
            q: decode_real(q),
            k: decode_real(k),
            v: decode_real(v),
            bias: mask.map(|m| spread_mask(m, &scores)),
            batch,
            key_batch,
            queries: qd[n - 2] as usize,
            keys: kd[n - 2] as usize,
            head: qd[n - 1] as usize,
            value_head: vd[n - 1] as usize,
            causal: attrs.causal,
            scale: attrs.scale.0,
        }
    }

    fn batches(&self) -> usize {
        self.batch.iter().product::<i64>() as usize
    }

    fn q(&self, b: usize, i: usize) -> usize {
        (b * self.queries + i) * self.head
    }

    fn k(&self, b: usize, j: usize) -> usize {
        (self.key_batch[b] * self.keys + j) * self.head
    }

    fn v(&self, b: usize, j: usize) -> usize {
        (self.key_batch[b] * self.keys + j) * self.value_head
    }

    /// Start of a row of the output.
    fn o(&self, b: usize, i: usize) -> usize {
        (b * self.queries + i) * self.value_head
    }

    /// Scores of a query with all keys; -inf where it does not see one.
    fn row(&self, b: usize, i: usize) -> Vec<f64> {
        let q = &self.q[self.q(b, i)..][..self.head];
        let score = |j: usize| {
            if self.causal && j > i {
                return f64::NEG_INFINITY;
            }
            let k = &self.k[self.k(b, j)..][..self.head];
            let product: f64 = q.iter().zip(k).map(|(q, k)| q * k).sum();
            match self.bias.as_ref().map(|bias| bias[(b * self.queries + i) * self.keys + j]) {
                Some(f64::NEG_INFINITY) => f64::NEG_INFINITY,
                bias => product * self.scale + bias.unwrap_or(0.0),
            }
        };
        (0..self.keys).map(score).collect()
    }
}

/// The mask as an addend for each score.
fn spread_mask(mask: &Literal, scores: &[i64]) -> Vec<f64> {
    let dims = &mask.ty().dims;
    let strides = row_major_strides(dims);
    let values: Vec<f64> = if mask.ty().dtype == DType::Pred {
        decode_int(mask).into_iter().map(|seen| if seen != 0 { 0.0 } else { f64::NEG_INFINITY }).collect()
    } else {
        decode_real(mask)
    };
    let skip = scores.len() - dims.len();
    let mut out = Vec::new();
    each_index(scores, |_, index| {
        let at: Dims = dims.iter().zip(&index[skip..]).map(|(&d, &i)| if d == 1 { 0 } else { i }).collect();
        out.push(values[position(&at, &strides)]);
    });
    out
}

/// Output and log-sum-exp.
pub(super) fn forward(args: &[Literal], attrs: &AttentionAttrs, outs: &[TensorType]) -> Vec<Literal> {
    let s = Scores::new(&args[0], &args[1], &args[2], args.get(3), attrs);
    let mut out = vec![0.0; outs[0].numel() as usize];
    let mut lse = Vec::new();
    for b in 0..s.batches() {
        for i in 0..s.queries {
            let row = s.row(b, i);
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, maximum);
            if largest == f64::NEG_INFINITY {
                lse.push(largest);
                continue;
            }
            let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
            lse.push(largest + sum.ln());
            for (j, x) in row.iter().enumerate() {
                let weight = (x - largest).exp() / sum;
                for e in 0..s.value_head {
                    out[s.o(b, i) + e] += weight * s.v[s.v(b, j) + e];
                }
            }
        }
    }
    vec![encode_real(&outs[0], out), encode_real(&outs[1], lse)]
}

/// Gradients of query, key and value. With P the weights and D the row sums of gradient times output:
/// dV = Pᵀ dO, dS = P (dO Vᵀ - D), dQ = scale dS K, dK = scale dSᵀ Q.
pub(super) fn backward(args: &[Literal], attrs: &AttentionAttrs, outs: &[TensorType]) -> Vec<Literal> {
    let s = Scores::new(&args[1], &args[2], &args[3], args.get(6), attrs);
    let (grad, output, lse) = (decode_real(&args[0]), decode_real(&args[4]), decode_real(&args[5]));
    let (mut dq, mut dk, mut dv) = (vec![0.0; s.q.len()], vec![0.0; s.k.len()], vec![0.0; s.v.len()]);
    for b in 0..s.batches() {
        for i in 0..s.queries {
            let o = s.o(b, i)..s.o(b, i) + s.value_head;
            let delta: f64 = grad[o.clone()].iter().zip(&output[o.clone()]).map(|(g, o)| g * o).sum();
            let lse = lse[b * s.queries + i];
            for (j, score) in s.row(b, i).into_iter().enumerate() {
                if score == f64::NEG_INFINITY {
                    continue;
                }
                let weight = (score - lse).exp();
                let mut product = 0.0;
                for (e, g) in grad[o.clone()].iter().enumerate() {
                    dv[s.v(b, j) + e] += weight * g;
                    product += g * s.v[s.v(b, j) + e];
                }
                let ds = weight * (product - delta) * s.scale;
                for h in 0..s.head {
                    dq[s.q(b, i) + h] += ds * s.k[s.k(b, j) + h];
                    dk[s.k(b, j) + h] += ds * s.q[s.q(b, i) + h];
                }
            }
        }
    }
    vec![encode_real(&outs[0], dq), encode_real(&outs[1], dk), encode_real(&outs[2], dv)]
}
