//! Losses and their gradients.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, UnaryOp};
use clutch_graph::{DType, Dims, ValueId};

use super::helpers::{cast, place};
use super::norm::result;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.nll_loss_forward.default", nll_forward),
    ("aten.nll_loss_backward.default", nll_backward),
    ("aten.nll_loss2d_forward.default", nll_forward),
    ("aten.nll_loss2d_backward.default", nll_backward),
    ("aten.mse_loss.default", |l, c| pointwise(l, c, 2, square_error)),
    ("aten.mse_loss_backward.default", |l, c| {
        pointwise_backward(l, c, 3, |l, x, y| {
            let d = l.b.sub(x, y)?;
            Ok(l.b.binary_scalar(BinaryOp::Mul, d, 2.0)?)
        })
    }),
    ("aten.smooth_l1_loss.default", |l, c| {
        let beta = c.float_or(l, 3, "beta", 1.0)?;
        pointwise(l, c, 2, |l, x, y| bent_error(l, x, y, beta, beta))
    }),
    ("aten.smooth_l1_loss_backward.default", |l, c| {
        let beta = c.float(l, 4, "beta")?;
        pointwise_backward(l, c, 3, |l, x, y| bent_slope(l, x, y, beta, 1.0))
    }),
    ("aten.huber_loss.default", |l, c| {
        let delta = c.float_or(l, 3, "delta", 1.0)?;
        pointwise(l, c, 2, |l, x, y| bent_error(l, x, y, delta, 1.0))
    }),
    ("aten.huber_loss_backward.default", |l, c| {
        let delta = c.float(l, 4, "delta")?;
        pointwise_backward(l, c, 3, |l, x, y| bent_slope(l, x, y, delta, delta))
    }),
    ("aten.binary_cross_entropy.default", |l, c| weighted(l, c, 3, &[(2, "weight")], |l, x, y, w| cross_entropy(l, x, y, w[0]))),
    ("aten.binary_cross_entropy_backward.default", cross_entropy_backward),
    ("aten.binary_cross_entropy_with_logits.default", |l, c| {
        weighted(l, c, 4, &[(2, "weight"), (3, "pos_weight")], |l, x, y, w| logits_cross_entropy(l, x, y, w[0], w[1]))
    }),
    ("aten.soft_margin_loss.default", |l, c| {
        pointwise(l, c, 2, |l, x, y| {
            let product = l.b.mul(x, y)?;
            let minus = l.b.unary(UnaryOp::Neg, product)?;
            let e = l.b.unary(UnaryOp::Exp, minus)?;
            Ok(l.b.unary(UnaryOp::Log1p, e)?)
        })
    }),
    ("aten.soft_margin_loss_backward.default", |l, c| {
        pointwise_backward(l, c, 3, |l, x, y| {
            let product = l.b.mul(x, y)?;
            let minus = l.b.unary(UnaryOp::Neg, product)?;
            let s = l.b.unary(UnaryOp::Logistic, minus)?;
            let slope = l.b.mul(y, s)?;
            Ok(l.b.unary(UnaryOp::Neg, slope)?)
        })
    }),
];

type Built = Result<ValueId, LowerError>;

/// How element losses become the result.
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    None,
    Mean,
    Sum,
}

fn reduction(l: &Lowering<'_>, c: &Call<'_>, index: usize) -> Result<Reduction, LowerError> {
    match c.int_or(l, index, "reduction", 1)? {
        0 => Ok(Reduction::None),
        1 => Ok(Reduction::Mean),
        2 => Ok(Reduction::Sum),
        _ => Err(LowerError::Argument { index, name: "reduction", expected: "0, 1 or 2" }),
    }
}

fn reduced(l: &mut Lowering<'_>, x: ValueId, how: Reduction) -> Built {
    if how == Reduction::None {
        return Ok(x);
    }
    let (n, axes) = (l.b.ty(x).numel(), (0..l.b.rank(x)).collect::<Vec<_>>());
    let total = l.b.reduce(Combiner::Add, x, &axes)?;
    if how == Reduction::Sum { Ok(total) } else { Ok(l.b.binary_scalar(BinaryOp::Div, total, n as f64)?) }
}

/// Input and target in the compute type, broadcast together.
fn pair(l: &mut Lowering<'_>, c: &Call<'_>, first: usize, compute: DType) -> Result<(ValueId, ValueId), LowerError> {
    let (x, y) = (c.tensor(l, first, "self")?, c.tensor(l, first + 1, "target")?);
    let dims = clutch_graph::builder::broadcast_dims(&l.b.dims(x), &l.b.dims(y))
        .ok_or_else(|| LowerError::unsupported("input and target do not broadcast"))?;
    Ok((place(l, x.into(), compute, &dims)?, place(l, y.into(), compute, &dims)?))
}

fn pointwise(
    l: &mut Lowering<'_>,
    c: &Call<'_>,
    index: usize,
    f: impl FnOnce(&mut Lowering<'_>, ValueId, ValueId) -> Built,
) -> Result<Outputs, LowerError> {
    let how = reduction(l, c, index)?;
    let (x, y) = pair(l, c, 0, c.out_dtype()?.compute_type())?;
    let loss = f(l, x, y)?;
    let loss = reduced(l, loss, how)?;
    one(cast(l, loss, c.out_dtype()?)?)
}

/// Gradient of a loss: `f` gives the slope of the element loss.
fn pointwise_backward(
    l: &mut Lowering<'_>,
    c: &Call<'_>,
    index: usize,
    f: impl FnOnce(&mut Lowering<'_>, ValueId, ValueId) -> Built,
) -> Result<Outputs, LowerError> {
    let how = reduction(l, c, index)?;
    let out = c.out_dtype()?;
    let (x, y) = pair(l, c, 1, out.compute_type())?;
    let slope = f(l, x, y)?;
    let r = chained(l, c, slope, how)?;
    one(result(l, c, 0, r)?)
}

/// The slope times the incoming gradient (argument 0), over the number of elements for a mean.
fn chained(l: &mut Lowering<'_>, c: &Call<'_>, slope: ValueId, how: Reduction) -> Built {
    let ty = l.b.ty(slope).clone();
    let g = c.tensor(l, 0, "grad_output")?;
    let g = place(l, g.into(), ty.dtype, &ty.dims)?;
    let r = l.b.mul(slope, g)?;
    if how == Reduction::Mean { Ok(l.b.binary_scalar(BinaryOp::Div, r, ty.numel() as f64)?) } else { Ok(r) }
}

fn square_error(l: &mut Lowering<'_>, x: ValueId, y: ValueId) -> Built {
    let d = l.b.sub(x, y)?;
    Ok(l.b.mul(d, d)?)
}

/// Quadratic up to `knee`, then linear; the whole divided by `scale`.
fn bent_error(l: &mut Lowering<'_>, x: ValueId, y: ValueId, knee: f64, scale: f64) -> Built {
    let d = l.b.sub(x, y)?;
    let size = l.b.unary(UnaryOp::Abs, d)?;
    if knee == 0.0 {
        return Ok(size);
    }
    let square = l.b.mul(size, size)?;
    let near = l.b.binary_scalar(BinaryOp::Mul, square, 0.5 / scale)?;
    let far = l.b.binary_scalar(BinaryOp::Sub, size, 0.5 * knee)?;
    let far = l.b.binary_scalar(BinaryOp::Mul, far, knee / scale)?;
    let inside = l.b.compare_scalar(CompareDir::Lt, size, knee)?;
    Ok(l.b.select(inside, near, far)?)
}

/// Slope of `bent_error` where it reaches `steepest` at the knee.
fn bent_slope(l: &mut Lowering<'_>, x: ValueId, y: ValueId, knee: f64, steepest: f64) -> Built {
    let d = l.b.sub(x, y)?;
    let middle = if knee == 0.0 { l.b.full_like(d, 0.0)? } else { l.b.binary_scalar(BinaryOp::Mul, d, steepest / knee)? };
    let (high, low) = (l.b.full_like(d, steepest)?, l.b.full_like(d, -steepest)?);
    let above = l.b.compare_scalar(if knee == 0.0 { CompareDir::Gt } else { CompareDir::Ge }, d, knee)?;
    let below = l.b.compare_scalar(if knee == 0.0 { CompareDir::Lt } else { CompareDir::Le }, d, -knee)?;
    let r = l.b.select(above, high, middle)?;
    Ok(l.b.select(below, low, r)?)
}

type Weights = [Option<ValueId>; 2];

/// An element loss with optional weights that broadcast to the input.
fn weighted(
    l: &mut Lowering<'_>,
    c: &Call<'_>,
    index: usize,
    weights: &[(usize, &'static str)],
    f: impl FnOnce(&mut Lowering<'_>, ValueId, ValueId, Weights) -> Built,
) -> Result<Outputs, LowerError> {
    let how = reduction(l, c, index)?;
    let out = c.out_dtype()?;
    let (x, y) = pair(l, c, 0, out.compute_type())?;
    let dims = l.b.dims(x);
    let mut found: Weights = [None; 2];
    for (slot, &(at, name)) in found.iter_mut().zip(weights) {
        if let Some(w) = c.opt_tensor(l, at, name)? {
            *slot = Some(place(l, w.into(), out.compute_type(), &dims)?);
        }
    }
    let loss = f(l, x, y, found)?;
    let loss = reduced(l, loss, how)?;
    one(cast(l, loss, out)?)
}

fn times_weight(l: &mut Lowering<'_>, x: ValueId, w: Option<ValueId>) -> Built {
    match w {
        Some(w) => Ok(l.b.mul(x, w)?),
        None => Ok(x),
    }
}

fn one_less(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let one = l.b.full_like(x, 1.0)?;
    Ok(l.b.sub(one, x)?)
}

/// (y - 1) max(log(1 - x), -100) - y max(log x, -100).
fn cross_entropy(l: &mut Lowering<'_>, x: ValueId, y: ValueId, w: Option<ValueId>) -> Built {
    let log = l.b.unary(UnaryOp::Log, x)?;
    let log = l.b.binary_scalar(BinaryOp::Max, log, -100.0)?;
    let minus = l.b.unary(UnaryOp::Neg, x)?;
    let other = l.b.unary(UnaryOp::Log1p, minus)?;
    let other = l.b.binary_scalar(BinaryOp::Max, other, -100.0)?;
    let less = l.b.binary_scalar(BinaryOp::Sub, y, 1.0)?;
    let (off, on) = (l.b.mul(less, other)?, l.b.mul(y, log)?);
    let loss = l.b.sub(off, on)?;
    times_weight(l, loss, w)
}

fn cross_entropy_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let compute = c.out_dtype()?.compute_type();
    let weight = c.opt_tensor(l, 3, "weight")?;
    pointwise_backward(l, c, 4, |l, x, y| {
        let d = l.b.sub(x, y)?;
        let rest = one_less(l, x)?;
        let spread = l.b.mul(rest, x)?;
        let spread = l.b.binary_scalar(BinaryOp::Max, spread, 1e-12)?;
        let slope = l.b.div(d, spread)?;
        let dims = l.b.dims(x);
        let w = weight.map(|w| place(l, w.into(), compute, &dims)).transpose()?;
        times_weight(l, slope, w)
    })
}

/// (1 - y) x + (1 + (p - 1) y) (log(1 + e^-|x|) + max(-x, 0)), with p the weight of positives.
fn logits_cross_entropy(l: &mut Lowering<'_>, x: ValueId, y: ValueId, w: Option<ValueId>, p: Option<ValueId>) -> Built {
    let minus = l.b.unary(UnaryOp::Neg, x)?;
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let size = l.b.unary(UnaryOp::Neg, size)?;
    let e = l.b.unary(UnaryOp::Exp, size)?;
    let log = l.b.unary(UnaryOp::Log1p, e)?;
    let above = l.b.binary_scalar(BinaryOp::Max, minus, 0.0)?;
    let mut log = l.b.add(log, above)?;
    if let Some(p) = p {
        let p = l.b.binary_scalar(BinaryOp::Sub, p, 1.0)?;
        let factor = l.b.mul(p, y)?;
        let factor = l.b.binary_scalar(BinaryOp::Add, factor, 1.0)?;
        log = l.b.mul(log, factor)?;
    }
    let less = l.b.binary_scalar(BinaryOp::Sub, y, 1.0)?;
    let linear = l.b.mul(less, minus)?;
    let loss = l.b.add(linear, log)?;
    times_weight(l, loss, w)
}

/// Where the class is the target's and the target counts, with the target's axis inserted as the class axis.
struct Chosen {
    /// `Pred` of the input's sizes.
    hit: ValueId,
    /// `Pred` of the target's sizes: not the ignored class.
    counts: ValueId,
    /// The class axis.
    axis: usize,
}

fn chosen(l: &mut Lowering<'_>, target: ValueId, dims: &[i64], ignored: i64) -> Result<Chosen, LowerError> {
    let axis = if dims.len() == 1 { 0 } else { 1 };
    let ignored = l.b.full_int(l.b.dtype(target), &l.b.dims(target), ignored)?;
    let counts = l.b.compare(CompareDir::Ne, target, ignored)?;
    let mut kept: Dims = dims.into();
    kept[axis] = 1;
    let spread = |l: &mut Lowering<'_>, v: ValueId| -> Built {
        let v = l.b.reshape(v, &kept)?;
        Ok(l.b.expand(v, dims)?)
    };
    let (wide, valid) = (spread(l, target)?, spread(l, counts)?);
    let class = l.b.iota(l.b.dtype(target), dims, axis)?;
    let same = l.b.compare(CompareDir::Eq, wide, class)?;
    Ok(Chosen { hit: l.b.binary(BinaryOp::And, same, valid)?, counts, axis })
}

/// Class weights along the class axis.
fn class_weights(l: &mut Lowering<'_>, w: ValueId, compute: DType, dims: &[i64], axis: usize) -> Built {
    let w = cast(l, w, compute)?;
    Ok(l.b.broadcast_in_dim(w, dims, &[axis])?)
}

fn nll_input(l: &Lowering<'_>, x: ValueId) -> Result<Dims, LowerError> {
    let dims = l.b.dims(x);
    if dims.is_empty() || !l.b.dtype(x).is_float() { Err(LowerError::unsupported("an input without a class axis")) } else { Ok(dims) }
}

/// Asserts that each target that counts is a class.
fn assert_classes(l: &mut Lowering<'_>, target: ValueId, counts: ValueId, classes: i64) -> Result<(), LowerError> {
    let wide = cast(l, target, DType::S64)?;
    let dims = l.b.dims(wide);
    let (none, end) = (l.b.full_int(DType::S64, &dims, 0)?, l.b.full_int(DType::S64, &dims, classes)?);
    let (over, under) = (l.b.compare(CompareDir::Ge, wide, end)?, l.b.compare(CompareDir::Lt, wide, none)?);
    let outside = l.b.binary(BinaryOp::Or, over, under)?;
    let ignored = l.b.unary(UnaryOp::Not, counts)?;
    let inside = l.b.unary(UnaryOp::Not, outside)?;
    let holds = l.b.binary(BinaryOp::Or, ignored, inside)?;
    let axes: Vec<usize> = (0..dims.len()).collect();
    let all = l.b.reduce(Combiner::And, holds, &axes)?;
    l.assert(all, format!("a target is out of bounds: classes are 0 to {}", classes - 1));
    Ok(())
}

fn nll_forward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, target) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "target")?);
    let (how, ignored) = (reduction(l, c, 3)?, c.int_or(l, 4, "ignore_index", -100)?);
    let dims = nll_input(l, x)?;
    let compute = c.out_dtype()?.compute_type();
    let x = cast(l, x, compute)?;
    let Chosen { hit, counts, axis } = chosen(l, target, &dims, ignored)?;
    assert_classes(l, target, counts, dims[axis])?;
    let zero = l.b.full_like(x, 0.0)?;
    let (loss, weight) = match c.opt_tensor(l, 2, "weight")? {
        Some(w) => {
            let w = class_weights(l, w, compute, &dims, axis)?;
            let product = l.b.mul(x, w)?;
            let (product, w) = (l.b.select(hit, product, zero)?, l.b.select(hit, w, zero)?);
            (l.b.reduce(Combiner::Add, product, &[axis])?, l.b.reduce(Combiner::Add, w, &[axis])?)
        }
        None => {
            let x = l.b.select(hit, x, zero)?;
            (l.b.reduce(Combiner::Add, x, &[axis])?, cast(l, counts, compute)?)
        }
    };
    let sizes: Dims = dims.iter().enumerate().filter(|&(a, _)| a != axis).map(|(_, &d)| d).collect();
    let (loss, weight) = (l.b.unary(UnaryOp::Neg, loss)?, l.b.reshape(weight, &sizes)?);
    if how == Reduction::None {
        let none = l.b.scalar(compute, 0.0)?;
        return many([result(l, c, 0, loss)?, result(l, c, 1, none)?]);
    }
    let (loss, weight) = (reduced(l, loss, Reduction::Sum)?, reduced(l, weight, Reduction::Sum)?);
    let value = if how == Reduction::Mean { l.b.div(loss, weight)? } else { loss };
    many([result(l, c, 0, value)?, result(l, c, 1, weight)?])
}

fn nll_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, x, target) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "self")?, c.tensor(l, 2, "target")?);
    let (how, ignored) = (reduction(l, c, 4)?, c.int_or(l, 5, "ignore_index", -100)?);
    let dims = nll_input(l, x)?;
    let compute = c.out_dtype()?.compute_type();
    let Chosen { hit, axis, .. } = chosen(l, target, &dims, ignored)?;
    let mut g = cast(l, g, compute)?;
    if how == Reduction::Mean {
        let total = c.tensor(l, 6, "total_weight")?;
        let total = place(l, total.into(), compute, &l.b.dims(g))?;
        g = l.b.div(g, total)?;
    }
    let g = l.b.unary(UnaryOp::Neg, g)?;
    let mut kept = dims.clone();
    if l.b.ty(g).numel() == 1 {
        kept.fill(1);
    } else {
        kept[axis] = 1;
    }
    let g = l.b.reshape(g, &kept)?;
    let mut g = l.b.expand(g, &dims)?;
    if let Some(w) = c.opt_tensor(l, 3, "weight")? {
        let w = class_weights(l, w, compute, &dims, axis)?;
        g = l.b.mul(g, w)?;
    }
    let zero = l.b.full_like(g, 0.0)?;
    let dx = l.b.select(hit, g, zero)?;
    one(result(l, c, 0, dx)?)
}
