//! Layer, RMS and group normalisation and their gradients.

use clutch_graph::op::{BinaryOp, Combiner, Real, UnaryOp};
use clutch_graph::{DType, Dims, Op, ValueId};

use super::helpers::{Scalar, cast, filled, place};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.native_layer_norm.default", layer_norm),
    ("aten.native_layer_norm_backward.default", layer_norm_backward),
    ("aten._fused_rms_norm.default", rms_norm),
    ("aten._fused_rms_norm_backward.default", rms_norm_backward),
    ("aten.native_group_norm.default", group_norm),
    ("aten.native_group_norm_backward.default", group_norm_backward),
];

type Built = Result<ValueId, LowerError>;

/// The value with the element type and sizes that PyTorch gives the result `output`.
pub(super) fn result(l: &mut Lowering<'_>, c: &Call<'_>, output: usize, x: ValueId) -> Built {
    let meta = c.out_meta(output)?;
    let dims = l.sizes(&meta.shape)?;
    let x = cast(l, x, meta.dtype)?;
    Ok(l.b.reshape(x, &dims)?)
}

/// Mean over axes, which stay with size 1.
pub(super) fn mean_keep(l: &mut Lowering<'_>, x: ValueId, axes: &[usize]) -> Built {
    let n: i64 = axes.iter().map(|&a| l.b.ty(x).dims[a]).product();
    let total = l.b.reduce_keep(Combiner::Add, x, axes)?;
    Ok(l.b.binary_scalar(BinaryOp::Div, total, n as f64)?)
}

/// Mean and biased variance over axes, which stay with size 1; and the elements less the mean.
pub(super) fn moments(l: &mut Lowering<'_>, x: ValueId, axes: &[usize]) -> Result<[ValueId; 3], LowerError> {
    let dims = l.b.dims(x);
    let mean = mean_keep(l, x, axes)?;
    let wide = l.b.expand(mean, &dims)?;
    let centred = l.b.sub(x, wide)?;
    let square = l.b.mul(centred, centred)?;
    Ok([mean, mean_keep(l, square, axes)?, centred])
}

/// 1 / sqrt(variance + eps).
pub(super) fn inverse_deviation(l: &mut Lowering<'_>, variance: ValueId, eps: f64) -> Built {
    let v = l.b.binary_scalar(BinaryOp::Add, variance, eps)?;
    Ok(l.b.unary(UnaryOp::Rsqrt, v)?)
}

/// Product with a factor that broadcasts.
pub(super) fn times(l: &mut Lowering<'_>, x: ValueId, factor: ValueId) -> Built {
    let dims = l.b.dims(x);
    let factor = l.b.expand(factor, &dims)?;
    Ok(l.b.mul(x, factor)?)
}

/// Which of the gradients are asked for.
pub(super) fn mask(c: &Call<'_>, index: usize, count: usize) -> Result<Vec<bool>, LowerError> {
    let mask = c.bools(index, "output_mask")?;
    if mask.len() == count {
        Ok(mask)
    } else {
        Err(LowerError::Argument { index, name: "output_mask", expected: "one truth value a gradient" })
    }
}

/// Number of trailing axes that a normalisation runs over.
fn trailing(l: &Lowering<'_>, c: &Call<'_>, index: usize, rank: usize) -> Result<usize, LowerError> {
    let n = c.ints(l, index, "normalized_shape")?.len();
    if (1..=rank).contains(&n) {
        Ok(n)
    } else {
        Err(LowerError::Argument { index, name: "normalized_shape", expected: "sizes of the last axes" })
    }
}

fn layer_norm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "input")?;
    let axes = trailing(l, c, 1, l.b.rank(x))?;
    let eps = c.float(l, 4, "eps")?;
    let dims = l.b.dims(x);
    let inner = &dims[dims.len() - axes..];
    let dtype = l.b.dtype(x);
    let weight = match c.opt_tensor(l, 2, "weight")? {
        Some(w) => w,
        None => filled(l, Scalar::Float(1.0), dtype, inner)?,
    };
    let bias = match c.opt_tensor(l, 3, "bias")? {
        Some(b) => b,
        None => filled(l, Scalar::Float(0.0), dtype, inner)?,
    };
    let r = l.b.op_multi(Op::LayerNorm { axes, eps: Real(eps) }, [x, weight, bias])?;
    many([r[0], result(l, c, 1, r[1])?, result(l, c, 2, r[2])?])
}

/// Gradient of a normalised value `xhat` with respect to its input: rstd (h - mean(h) - xhat mean(h xhat)), the mean of h only where
/// the mean was taken off.
fn input_gradient(l: &mut Lowering<'_>, h: ValueId, xhat: ValueId, rstd: ValueId, axes: &[usize], centred: bool) -> Built {
    let dims = l.b.dims(h);
    let product = l.b.mul(h, xhat)?;
    let along = mean_keep(l, product, axes)?;
    let along = times(l, xhat, along)?;
    let mut r = l.b.sub(h, along)?;
    if centred {
        let mean = mean_keep(l, h, axes)?;
        let mean = l.b.expand(mean, &dims)?;
        r = l.b.sub(r, mean)?;
    }
    times(l, r, rstd)
}

/// A statistic as a tensor of the compute type with the normalised axes of size 1.
fn statistic(l: &mut Lowering<'_>, x: ValueId, compute: DType, dims: &[i64], kept: usize) -> Built {
    let mut sizes: Dims = dims.into();
    sizes[kept..].fill(1);
    let x = cast(l, x, compute)?;
    Ok(l.b.reshape(x, &sizes)?)
}

fn layer_norm_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, x) = (c.tensor(l, 0, "grad_out")?, c.tensor(l, 1, "input")?);
    let dims = l.b.dims(x);
    let kept = dims.len() - trailing(l, c, 2, dims.len())?;
    let compute = l.b.dtype(x).compute_type();
    let mask = mask(c, 7, 3)?;
    let (g, x) = (place(l, g.into(), compute, &dims)?, cast(l, x, compute)?);
    let (mean, rstd) = (c.tensor(l, 3, "mean")?, c.tensor(l, 4, "rstd")?);
    let mean = statistic(l, mean, compute, &dims, kept)?;
    let rstd = statistic(l, rstd, compute, &dims, kept)?;
    let mean = l.b.expand(mean, &dims)?;
    let centred = l.b.sub(x, mean)?;
    let xhat = times(l, centred, rstd)?;
    let inner: Vec<usize> = (kept..dims.len()).collect();
    let outer: Vec<usize> = (0..kept).collect();
    let mut out = Outputs::new();
    out.push(if mask[0] {
        let h = match c.opt_tensor(l, 5, "weight")? {
            Some(w) => {
                let w = cast(l, w, compute)?;
                times(l, g, w)?
            }
            None => g,
        };
        let dx = input_gradient(l, h, xhat, rstd, &inner, true)?;
        Some(result(l, c, 0, dx)?)
    } else {
        None
    });
    out.push(if mask[1] && c.opt_tensor(l, 5, "weight")?.is_some() {
        let product = l.b.mul(g, xhat)?;
        let dw = l.b.reduce(Combiner::Add, product, &outer)?;
        Some(result(l, c, 1, dw)?)
    } else {
        None
    });
    out.push(if mask[2] && c.opt_tensor(l, 6, "bias")?.is_some() {
        let db = l.b.reduce(Combiner::Add, g, &outer)?;
        Some(result(l, c, 2, db)?)
    } else {
        None
    });
    Ok(out)
}

/// Reciprocal root mean square over the last `axes` axes, which stay with size 1.
fn inverse_root_mean_square(l: &mut Lowering<'_>, x: ValueId, axes: usize, eps: f64) -> Built {
    let rank = l.b.rank(x);
    let inner: Vec<usize> = (rank - axes..rank).collect();
    let square = l.b.mul(x, x)?;
    let power = mean_keep(l, square, &inner)?;
    inverse_deviation(l, power, eps)
}

fn rms_norm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "input")?;
    let axes = trailing(l, c, 1, l.b.rank(x))?;
    let compute = l.b.dtype(x).compute_type();
    let eps = match c.opt_float(l, 3, "eps")? {
        Some(eps) => eps,
        None if compute == DType::F64 => f64::EPSILON,
        None => f64::from(f32::EPSILON),
    };
    let weight = c.opt_tensor(l, 2, "weight")?;
    let wide = cast(l, x, compute)?;
    let rstd = inverse_root_mean_square(l, wide, axes, eps)?;
    let y = match weight {
        Some(w) if axes == 1 => l.b.op(Op::RmsNorm { eps: Real(eps) }, [x, w])?,
        _ => {
            let y = times(l, wide, rstd)?;
            match weight {
                Some(w) => {
                    let w = cast(l, w, compute)?;
                    times(l, y, w)?
                }
                None => y,
            }
        }
    };
    many([result(l, c, 0, y)?, result(l, c, 1, rstd)?])
}

fn rms_norm_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, x) = (c.tensor(l, 0, "grad_out")?, c.tensor(l, 1, "input")?);
    let dims = l.b.dims(x);
    let kept = dims.len() - trailing(l, c, 2, dims.len())?;
    let compute = l.b.dtype(x).compute_type();
    let rstd = c.tensor(l, 3, "rstd")?;
    let mask = mask(c, 5, 2)?;
    let (g, x) = (place(l, g.into(), compute, &dims)?, cast(l, x, compute)?);
    let rstd = statistic(l, rstd, compute, &dims, kept)?;
    let xhat = times(l, x, rstd)?;
    let weight = c.opt_tensor(l, 4, "weight")?;
    let mut out = Outputs::new();
    out.push(if mask[0] {
        let h = match weight {
            Some(w) => {
                let w = cast(l, w, compute)?;
                times(l, g, w)?
            }
            None => g,
        };
        let inner: Vec<usize> = (kept..dims.len()).collect();
        let dx = input_gradient(l, h, xhat, rstd, &inner, false)?;
        Some(result(l, c, 0, dx)?)
    } else {
        None
    });
    out.push(if mask[1] && weight.is_some() {
        let outer: Vec<usize> = (0..kept).collect();
        let product = l.b.mul(g, xhat)?;
        let dw = l.b.reduce(Combiner::Add, product, &outer)?;
        Some(result(l, c, 1, dw)?)
    } else {
        None
    });
    Ok(out)
}

/// Sizes of a group normalisation: batch, groups, channels in a group, positions.
fn group_sizes(l: &Lowering<'_>, c: &Call<'_>, first: usize) -> Result<[i64; 4], LowerError> {
    let (n, channels) = (c.int(l, first, "N")?, c.int(l, first + 1, "C")?);
    let (positions, groups) = (c.int(l, first + 2, "HxW")?, c.int(l, first + 3, "group")?);
    if groups < 1 || channels % groups != 0 {
        return Err(LowerError::unsupported("the groups do not divide the channels"));
    }
    Ok([n, groups, channels / groups, positions])
}

/// A value for each channel as `[1, groups, channels in a group, 1]` in the compute type.
fn per_channel(l: &mut Lowering<'_>, w: ValueId, compute: DType, sizes: [i64; 4]) -> Built {
    let w = cast(l, w, compute)?;
    Ok(l.b.reshape(w, &[1, sizes[1], sizes[2], 1])?)
}

fn group_norm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "input")?;
    let sizes = group_sizes(l, c, 3)?;
    let eps = c.float(l, 7, "eps")?;
    let compute = l.b.dtype(x).compute_type();
    let x = cast(l, x, compute)?;
    let x = l.b.reshape(x, &sizes)?;
    let [mean, variance, centred] = moments(l, x, &[2, 3])?;
    let rstd = inverse_deviation(l, variance, eps)?;
    let mut y = times(l, centred, rstd)?;
    if let Some(w) = c.opt_tensor(l, 1, "weight")? {
        let w = per_channel(l, w, compute, sizes)?;
        y = times(l, y, w)?;
    }
    if let Some(b) = c.opt_tensor(l, 2, "bias")? {
        let b = per_channel(l, b, compute, sizes)?;
        let b = l.b.expand(b, &sizes)?;
        y = l.b.add(y, b)?;
    }
    many([result(l, c, 0, y)?, result(l, c, 1, mean)?, result(l, c, 2, rstd)?])
}

fn group_norm_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, x) = (c.tensor(l, 0, "grad_out")?, c.tensor(l, 1, "input")?);
    let (mean, rstd) = (c.tensor(l, 2, "mean")?, c.tensor(l, 3, "rstd")?);
    let sizes = group_sizes(l, c, 5)?;
    let mask = mask(c, 9, 3)?;
    let compute = l.b.dtype(x).compute_type();
    let (g, x) = (place(l, g.into(), compute, &l.b.dims(x))?, cast(l, x, compute)?);
    let (g, x) = (l.b.reshape(g, &sizes)?, l.b.reshape(x, &sizes)?);
    let [mean, rstd] = [mean, rstd].map(|s| cast(l, s, compute).and_then(|s| Ok(l.b.reshape(s, &[sizes[0], sizes[1], 1, 1])?)));
    let (mean, rstd) = (mean?, rstd?);
    let mean = l.b.expand(mean, &sizes)?;
    let centred = l.b.sub(x, mean)?;
    let xhat = times(l, centred, rstd)?;
    let mut out = Outputs::new();
    out.push(if mask[0] {
        let h = match c.opt_tensor(l, 4, "weight")? {
            Some(w) => {
                let w = per_channel(l, w, compute, sizes)?;
                times(l, g, w)?
            }
            None => g,
        };
        let dx = input_gradient(l, h, xhat, rstd, &[2, 3], true)?;
        Some(result(l, c, 0, dx)?)
    } else {
        None
    });
    out.push(if mask[1] {
        let product = l.b.mul(g, xhat)?;
        let dw = l.b.reduce(Combiner::Add, product, &[0, 3])?;
        Some(result(l, c, 1, dw)?)
    } else {
        None
    });
    out.push(if mask[2] {
        let db = l.b.reduce(Combiner::Add, g, &[0, 3])?;
        Some(result(l, c, 2, db)?)
    } else {
        None
    });
    Ok(out)
}
