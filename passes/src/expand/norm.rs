//! Layer and root-mean-square normalisation.

use clutch_graph::builder::{Builder, Built};
use clutch_graph::op::{Axes, BinaryOp, Combiner, UnaryOp};
use clutch_graph::{GraphError, ValueId};

use crate::expand::util::{spread, to_compute};

fn mean(b: &mut Builder, x: ValueId, axes: &[usize]) -> Built {
    let count: i64 = axes.iter().map(|&a| b.ty(x).dims[a]).product();
    let sum = b.reduce(Combiner::Add, x, axes)?;
    b.binary_scalar(BinaryOp::Div, sum, count as f64)
}

/// `w`, of the sizes of the last axes of `like`, in the compute type and spread over the leading axes.
fn affine(b: &mut Builder, w: ValueId, like: ValueId) -> Built {
    let (dtype, dims) = (b.dtype(like), b.dims(like));
    let w = b.convert(w, dtype)?;
    b.expand(w, &dims)
}

/// Result, mean and reciprocal standard deviation.
pub(crate) fn layer_norm(b: &mut Builder, [x, weight, bias]: [ValueId; 3], axes: usize, eps: f64) -> Result<[ValueId; 3], GraphError> {
    let dtype = b.dtype(x);
    let x = to_compute(b, x)?;
    let kept = b.rank(x) - axes;
    let axes: Axes = (kept..b.rank(x)).collect();
    let mean_value = mean(b, x, &axes)?;
    let wide = spread(b, mean_value, x, &axes)?;
    let centred = b.sub(x, wide)?;
    let square = b.mul(centred, centred)?;
    let variance = mean(b, square, &axes)?;
    let variance = b.binary_scalar(BinaryOp::Add, variance, eps)?;
    let rstd = b.unary(UnaryOp::Rsqrt, variance)?;
    let scale = spread(b, rstd, x, &axes)?;
    let y = b.mul(centred, scale)?;
    let weight = affine(b, weight, x)?;
    let y = b.mul(y, weight)?;
    let bias = affine(b, bias, x)?;
    let y = b.add(y, bias)?;
    let y = b.convert(y, dtype)?;
    let mut stat = b.dims(x);
    stat[kept..].fill(1);
    Ok([y, b.reshape(mean_value, &stat)?, b.reshape(rstd, &stat)?])
}

/// x * rsqrt(mean(x^2) + eps) * weight.
pub(crate) fn rms_norm(b: &mut Builder, x: ValueId, weight: ValueId, eps: f64) -> Built {
    let dtype = b.dtype(x);
    let x = to_compute(b, x)?;
    let last = b.rank(x) - 1;
    let square = b.mul(x, x)?;
    let power = mean(b, square, &[last])?;
    let power = b.binary_scalar(BinaryOp::Add, power, eps)?;
    let scale = b.unary(UnaryOp::Rsqrt, power)?;
    let scale = spread(b, scale, x, &[last])?;
    let y = b.mul(x, scale)?;
    let weight = affine(b, weight, x)?;
    let y = b.mul(y, weight)?;
    b.convert(y, dtype)
}
