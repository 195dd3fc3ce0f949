//! Batch normalisation and its gradient.

use clutch_graph::op::{BinaryOp, Combiner};
use clutch_graph::{DType, Dims, ValueId};

use super::helpers::{Scalar, cast, filled};
use super::norm::{inverse_deviation, mask, moments, result, times};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten._native_batch_norm_legit_functional.default", |l, c| forward(l, c, &Form { stats: true, training: Some(5), momentum: 6 })),
    ("aten._native_batch_norm_legit_no_training.default", |l, c| forward(l, c, &Form { stats: true, training: None, momentum: 5 })),
    ("aten._native_batch_norm_legit.no_stats", |l, c| forward(l, c, &Form { stats: false, training: Some(3), momentum: 4 })),
    ("aten._native_batch_norm_legit.default", without_update),
    ("aten.native_batch_norm.default", without_update),
    ("aten.native_batch_norm_backward.default", backward),
    ("aten._batch_norm_with_update_functional.default", with_update),
    ("aten.batch_norm_backward.default", backward),
];

type Built = Result<ValueId, LowerError>;

/// Where an overload has its arguments.
struct Form {
    stats: bool,
    /// The argument that says so; without one it is evaluation.
    training: Option<usize>,
    momentum: usize,
}

/// The sizes of a batch: those of one number a channel, and the axes that a channel spans.
struct Channels {
    dims: Dims,
    wide: Dims,
    axes: Vec<usize>,
    compute: DType,
}

impl Channels {
    fn of(l: &Lowering<'_>, x: ValueId) -> Result<Self, LowerError> {
        let dims = l.b.dims(x);
        if dims.len() < 2 {
            return Err(LowerError::unsupported("batch normalisation of a tensor without a channel axis"));
        }
        let wide = dims.iter().enumerate().map(|(a, &d)| if a == 1 { d } else { 1 }).collect();
        let axes = (0..dims.len()).filter(|&a| a != 1).collect();
        Ok(Channels { wide, axes, compute: l.b.dtype(x).compute_type(), dims })
    }

    /// Elements of one channel.
    fn count(&self) -> f64 {
        self.axes.iter().map(|&a| self.dims[a]).product::<i64>() as f64
    }

    /// One number a channel, in the compute type, ready to broadcast.
    fn spread(&self, l: &mut Lowering<'_>, x: ValueId) -> Built {
        let x = cast(l, x, self.compute)?;
        Ok(l.b.reshape(x, &self.wide)?)
    }
}

/// The overloads that update the running statistics in place, where there is nothing to update.
fn without_update(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let stats = c.opt_tensor(l, 3, "running_mean")?.is_some();
    if stats && c.bool_or(5, "training", false)? {
        return Err(LowerError::unsupported("running statistics updated in place"));
    }
    forward(l, c, &Form { stats, training: Some(5), momentum: 6 })
}

fn forward(l: &mut Lowering<'_>, c: &Call<'_>, form: &Form) -> Result<Outputs, LowerError> {
    let training = match form.training {
        Some(at) => c.bool_or(at, "training", false)?,
        None => false,
    };
    normalize(l, c, form, training, 3)
}

/// Training that gives the new running statistics after an empty reserve.
fn with_update(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let mut out = normalize(l, c, &Form { stats: true, training: None, momentum: 5 }, true, 4)?;
    out.insert(3, saved_nothing(l, c, 3)?);
    Ok(out)
}

fn saved_nothing(l: &mut Lowering<'_>, c: &Call<'_>, index: usize) -> Result<Option<ValueId>, LowerError> {
    let meta = c.out_meta(index)?;
    let dims = l.sizes(&meta.shape)?;
    Ok(Some(filled(l, Scalar::Int(0), meta.dtype, &dims)?))
}

/// The results of a forward operator; new running statistics are results from `updated` on.
fn normalize(l: &mut Lowering<'_>, c: &Call<'_>, form: &Form, training: bool, updated: usize) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "input")?;
    let (momentum, eps) = (c.float(l, form.momentum, "momentum")?, c.float(l, form.momentum + 1, "eps")?);
    let ch = Channels::of(l, x)?;
    let x = cast(l, x, ch.compute)?;
    let running = match form.stats {
        true => Some((c.tensor(l, 3, "running_mean")?, c.tensor(l, 4, "running_var")?)),
        false => None,
    };
    let [mean, variance, centred] = match running {
        Some((mean, variance)) if !training => {
            let (mean, variance) = (ch.spread(l, mean)?, ch.spread(l, variance)?);
            let wide = l.b.expand(mean, &ch.dims)?;
            [mean, variance, l.b.sub(x, wide)?]
        }
        _ => moments(l, x, &ch.axes)?,
    };
    let rstd = inverse_deviation(l, variance, eps)?;
    let mut y = times(l, centred, rstd)?;
    if let Some(w) = c.opt_tensor(l, 1, "weight")? {
        let w = ch.spread(l, w)?;
        y = times(l, y, w)?;
    }
    if let Some(b) = c.opt_tensor(l, 2, "bias")? {
        let b = ch.spread(l, b)?;
        let b = l.b.expand(b, &ch.dims)?;
        y = l.b.add(y, b)?;
    }
    let mut out = Outputs::new();
    out.push(Some(result(l, c, 0, y)?));
    out.push(saved(l, c, 1, mean)?);
    out.push(saved(l, c, 2, rstd)?);
    if let (Some(old), true) = (running, c.node.outputs.len() == updated + 2) {
        if training {
            let n = ch.count();
            let unbiased = l.b.binary_scalar(BinaryOp::Mul, variance, n / (n - 1.0))?;
            for (i, old, new) in [(updated, old.0, mean), (updated + 1, old.1, unbiased)] {
                let old = ch.spread(l, old)?;
                let kept = l.b.binary_scalar(BinaryOp::Mul, old, 1.0 - momentum)?;
                let new = l.b.binary_scalar(BinaryOp::Mul, new, momentum)?;
                let mixed = l.b.add(new, kept)?;
                out.push(Some(result(l, c, i, mixed)?));
            }
        } else {
            out.extend([Some(old.0), Some(old.1)]);
        }
    }
    Ok(out)
}

/// A statistic kept for the gradient; evaluation keeps none, in a tensor without elements.
fn saved(l: &mut Lowering<'_>, c: &Call<'_>, index: usize, stat: ValueId) -> Result<Option<ValueId>, LowerError> {
    let Ok(meta) = c.out_meta(index) else { return Ok(None) };
    let dims = l.sizes(&meta.shape)?;
    if dims.contains(&0) {
        return Ok(Some(filled(l, Scalar::Int(0), meta.dtype, &dims)?));
    }
    Ok(Some(result(l, c, index, stat)?))
}

fn backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, x) = (c.tensor(l, 0, "grad_out")?, c.tensor(l, 1, "input")?);
    let training = c.bool_or(7, "train", false)?;
    let eps = c.float(l, 8, "eps")?;
    let wanted = mask(c, 9, 3)?;
    let ch = Channels::of(l, x)?;
    let (g, x) = (cast(l, g, ch.compute)?, cast(l, x, ch.compute)?);
    let (mean, rstd) = if training {
        let (mean, rstd) = (c.tensor(l, 5, "save_mean")?, c.tensor(l, 6, "save_invstd")?);
        (ch.spread(l, mean)?, ch.spread(l, rstd)?)
    } else {
        let (mean, variance) = (c.tensor(l, 3, "running_mean")?, c.tensor(l, 4, "running_var")?);
        let variance = ch.spread(l, variance)?;
        (ch.spread(l, mean)?, inverse_deviation(l, variance, eps)?)
    };
    let mean = l.b.expand(mean, &ch.dims)?;
    let centred = l.b.sub(x, mean)?;
    let normal = times(l, centred, rstd)?;
    let product = l.b.mul(g, normal)?;
    let by_weight = l.b.reduce_keep(Combiner::Add, product, &ch.axes)?;
    let by_bias = l.b.reduce_keep(Combiner::Add, g, &ch.axes)?;
    let mut out = Outputs::from_elem(None, 3);
    if wanted[0] {
        let mut inner = g;
        if training {
            let [along, level] = [by_weight, by_bias].map(|sum| l.b.binary_scalar(BinaryOp::Div, sum, ch.count()));
            let along = times(l, normal, along?)?;
            let level = l.b.expand(level?, &ch.dims)?;
            inner = l.b.sub(inner, level)?;
            inner = l.b.sub(inner, along)?;
        }
        let mut by_input = times(l, inner, rstd)?;
        if let Some(w) = c.opt_tensor(l, 2, "weight")? {
            let w = ch.spread(l, w)?;
            by_input = times(l, by_input, w)?;
        }
        out[0] = Some(result(l, c, 0, by_input)?);
    }
    if wanted[1] {
        out[1] = Some(result(l, c, 1, by_weight)?);
    }
    if wanted[2] {
        out[2] = Some(result(l, c, 2, by_bias)?);
    }
    Ok(out)
}
