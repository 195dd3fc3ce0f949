//! Activation functions and their gradients.

use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{Op, ValueId};

use super::helpers::{cast, in_compute_type, place};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.relu.default", relu),
    ("aten.relu6.default", |l, c| clamp(l, c, 0.0, 6.0)),
    ("aten.hardtanh.default", |l, c| {
        let (low, high) = (c.float_or(l, 1, "min_val", -1.0)?, c.float_or(l, 2, "max_val", 1.0)?);
        clamp(l, c, low, high)
    }),
    ("aten.hardtanh_backward.default", hardtanh_backward),
    ("aten.gelu.default", gelu),
    ("aten.gelu_backward.default", gelu_backward),
    ("aten.silu.default", silu),
    ("aten.silu_backward.default", |l, c| gradient(l, c, "self", silu_backward)),
    ("aten.sigmoid.default", |l, c| function(l, c, |l, x| Ok(l.b.unary(UnaryOp::Logistic, x)?))),
    ("aten.special_expit.default", |l, c| function(l, c, |l, x| Ok(l.b.unary(UnaryOp::Logistic, x)?))),
    ("aten.sigmoid_backward.default", |l, c| gradient(l, c, "output", sigmoid_backward)),
    ("aten.tanh_backward.default", |l, c| gradient(l, c, "output", tanh_backward)),
    ("aten.softplus.default", softplus),
    ("aten.softplus_backward.default", softplus_backward),
    ("aten.leaky_relu.default", leaky_relu),
    ("aten.leaky_relu_backward.default", leaky_relu_backward),
    ("aten.elu.default", |l, c| {
        let values = [c.float_or(l, 1, "alpha", 1.0)?, c.float_or(l, 2, "scale", 1.0)?, c.float_or(l, 3, "input_scale", 1.0)?];
        elu(l, c, values)
    }),
    ("aten.celu.default", |l, c| {
        let alpha = c.float_or(l, 1, "alpha", 1.0)?;
        elu(l, c, [alpha, 1.0, 1.0 / alpha])
    }),
    ("aten.selu.default", |l, c| elu(l, c, [SELU_ALPHA, SELU_SCALE, 1.0])),
    ("aten.elu_backward.default", elu_backward),
    ("aten.hardswish.default", |l, c| function(l, c, hardswish)),
    ("aten.hardswish_backward.default", |l, c| gradient(l, c, "self", hardswish_backward)),
    ("aten.hardsigmoid.default", |l, c| function(l, c, hardsigmoid)),
    ("aten.hardsigmoid_backward.default", |l, c| gradient(l, c, "self", hardsigmoid_backward)),
    ("aten.mish.default", |l, c| function(l, c, mish)),
    ("aten.mish_backward.default", |l, c| gradient(l, c, "self", mish_backward)),
    ("aten.log_sigmoid.default", |l, c| function(l, c, log_sigmoid)),
    ("aten.log_sigmoid_forward.default", log_sigmoid_forward),
    ("aten.log_sigmoid_backward.default", |l, c| gradient(l, c, "self", log_sigmoid_backward)),
];

const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

type Built = Result<ValueId, LowerError>;

/// A function of floats in the compute type.
pub(super) fn function(
    l: &mut Lowering<'_>,
    c: &Call<'_>,
    f: impl FnOnce(&mut Lowering<'_>, ValueId) -> Built,
) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(in_compute_type(l, x, c.out_dtype()?, f)?)
}

/// A gradient: `f` of the incoming gradient (argument 0) and a saved tensor, both in the compute type.
pub(super) fn gradient_at(
    l: &mut Lowering<'_>,
    c: &Call<'_>,
    index: usize,
    name: &'static str,
    f: impl FnOnce(&mut Lowering<'_>, ValueId, ValueId) -> Built,
) -> Result<Outputs, LowerError> {
    let (g, x) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, index, name)?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    if out.is_complex() || !out.is_float() {
        return Err(LowerError::unsupported("this gradient of numbers that are not real"));
    }
    let compute = out.compute_type();
    let (g, x) = (place(l, g.into(), compute, &dims)?, place(l, x.into(), compute, &dims)?);
    let y = f(l, g, x)?;
    one(cast(l, y, out)?)
}

pub(super) fn gradient(
    l: &mut Lowering<'_>,
    c: &Call<'_>,
    name: &'static str,
    f: impl FnOnce(&mut Lowering<'_>, ValueId, ValueId) -> Built,
) -> Result<Outputs, LowerError> {
    gradient_at(l, c, 1, name, f)
}

pub(super) fn scaled(l: &mut Lowering<'_>, x: ValueId, by: f64) -> Built {
    if by == 1.0 { Ok(x) } else { Ok(l.b.binary_scalar(BinaryOp::Mul, x, by)?) }
}

pub(super) fn plus(l: &mut Lowering<'_>, x: ValueId, number: f64) -> Built {
    Ok(l.b.binary_scalar(BinaryOp::Add, x, number)?)
}

pub(super) fn one_less(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let one = l.b.full_like(x, 1.0)?;
    Ok(l.b.sub(one, x)?)
}

fn relu(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(l.b.binary_scalar(BinaryOp::Max, x, 0.0)?)
}

fn clamp(l: &mut Lowering<'_>, c: &Call<'_>, low: f64, high: f64) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let x = cast(l, x, c.out_dtype()?)?;
    let x = l.b.binary_scalar(BinaryOp::Max, x, low)?;
    one(l.b.binary_scalar(BinaryOp::Min, x, high)?)
}

/// `g` where `keep`, else 0.
pub(super) fn where_kept(l: &mut Lowering<'_>, keep: ValueId, g: ValueId) -> Built {
    let zero = l.b.full_like(g, 0.0)?;
    Ok(l.b.select(keep, g, zero)?)
}

/// 0 where `drop`, else `g`.
pub(super) fn where_not(l: &mut Lowering<'_>, drop: ValueId, g: ValueId) -> Built {
    let zero = l.b.full_like(g, 0.0)?;
    Ok(l.b.select(drop, zero, g)?)
}

fn hardtanh_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (low, high) = (c.float(l, 2, "min_val")?, c.float(l, 3, "max_val")?);
    gradient(l, c, "self", |l, g, x| {
        let below = l.b.compare_scalar(CompareDir::Le, x, low)?;
        let above = l.b.compare_scalar(CompareDir::Ge, x, high)?;
        let outside = l.b.binary(BinaryOp::Or, below, above)?;
        where_not(l, outside, g)
    })
}

fn is_tanh(c: &Call<'_>, index: usize) -> Result<bool, LowerError> {
    match c.opt_str(index, "approximate")? {
        None | Some("none") => Ok(false),
        Some("tanh") => Ok(true),
        Some(other) => Err(LowerError::unsupported(format!("approximation {other:?}"))),
    }
}

fn gelu(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(l.b.op(Op::Gelu { tanh: is_tanh(c, 1)? }, [x])?)
}

fn gelu_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let slope = if is_tanh(c, 2)? { gelu_tanh_slope } else { gelu_slope };
    gradient(l, c, "self", |l, g, x| {
        let slope = slope(l, x)?;
        Ok(l.b.mul(g, slope)?)
    })
}

/// Normal distribution function plus x times its density.
fn gelu_slope(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let t = scaled(l, x, std::f64::consts::FRAC_1_SQRT_2)?;
    let erf = l.b.unary(UnaryOp::Erf, t)?;
    let twice = plus(l, erf, 1.0)?;
    let cdf = scaled(l, twice, 0.5)?;
    let square = l.b.mul(x, x)?;
    let exponent = scaled(l, square, -0.5)?;
    let e = l.b.unary(UnaryOp::Exp, exponent)?;
    let density = scaled(l, e, std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 * 0.5)?;
    let product = l.b.mul(x, density)?;
    Ok(l.b.add(cdf, product)?)
}

/// Derivative of 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
fn gelu_tanh_slope(l: &mut Lowering<'_>, x: ValueId) -> Built {
    const CUBIC: f64 = 0.044_715;
    let factor = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
    let square = l.b.mul(x, x)?;
    let inner = scaled(l, square, CUBIC)?;
    let inner = plus(l, inner, 1.0)?;
    let inner = l.b.mul(x, inner)?;
    let u = scaled(l, inner, factor)?;
    let t = l.b.unary(UnaryOp::Tanh, u)?;
    let left = plus(l, t, 1.0)?;
    let left = scaled(l, left, 0.5)?;
    let tt = l.b.mul(t, t)?;
    let rest = one_less(l, tt)?;
    let du = scaled(l, square, 3.0 * CUBIC)?;
    let du = plus(l, du, 1.0)?;
    let du = scaled(l, du, factor)?;
    let right = l.b.mul(x, rest)?;
    let right = l.b.mul(right, du)?;
    let right = scaled(l, right, 0.5)?;
    Ok(l.b.add(left, right)?)
}

fn silu(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let x = cast(l, x, c.out_dtype()?)?;
    if l.b.dtype(x).is_complex() {
        return Err(LowerError::unsupported("complex numbers"));
    }
    one(l.b.op(Op::Silu, [x])?)
}

fn silu_backward(l: &mut Lowering<'_>, g: ValueId, x: ValueId) -> Built {
    let s = l.b.unary(UnaryOp::Logistic, x)?;
    let rest = one_less(l, s)?;
    let slope = l.b.mul(x, rest)?;
    let slope = plus(l, slope, 1.0)?;
    let slope = l.b.mul(s, slope)?;
    Ok(l.b.mul(g, slope)?)
}

fn sigmoid_backward(l: &mut Lowering<'_>, g: ValueId, y: ValueId) -> Built {
    let rest = one_less(l, y)?;
    let slope = l.b.mul(rest, y)?;
    Ok(l.b.mul(g, slope)?)
}

fn tanh_backward(l: &mut Lowering<'_>, g: ValueId, y: ValueId) -> Built {
    let square = l.b.mul(y, y)?;
    let slope = one_less(l, square)?;
    Ok(l.b.mul(g, slope)?)
}

fn softplus(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (beta, limit) = (c.float_or(l, 1, "beta", 1.0)?, c.float_or(l, 2, "threshold", 20.0)?);
    function(l, c, |l, x| {
        let bx = scaled(l, x, beta)?;
        let linear = l.b.compare_scalar(CompareDir::Gt, bx, limit)?;
        let e = l.b.unary(UnaryOp::Exp, bx)?;
        let log = l.b.unary(UnaryOp::Log1p, e)?;
        let log = l.b.binary_scalar(BinaryOp::Div, log, beta)?;
        Ok(l.b.select(linear, x, log)?)
    })
}

fn softplus_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (beta, limit) = (c.float(l, 2, "beta")?, c.float(l, 3, "threshold")?);
    gradient(l, c, "self", |l, g, x| {
        let bx = scaled(l, x, beta)?;
        let linear = l.b.compare_scalar(CompareDir::Gt, bx, limit)?;
        let slope = l.b.unary(UnaryOp::Logistic, bx)?;
        let bent = l.b.mul(g, slope)?;
        Ok(l.b.select(linear, g, bent)?)
    })
}

/// `positive` where x > 0, else `other`.
pub(super) fn by_sign(l: &mut Lowering<'_>, x: ValueId, positive: ValueId, other: ValueId) -> Built {
    let above = l.b.compare_scalar(CompareDir::Gt, x, 0.0)?;
    Ok(l.b.select(above, positive, other)?)
}

fn leaky_relu(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let slope = c.float_or(l, 1, "negative_slope", 0.01)?;
    function(l, c, |l, x| {
        let low = scaled(l, x, slope)?;
        by_sign(l, x, x, low)
    })
}

fn leaky_relu_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let slope = c.float(l, 2, "negative_slope")?;
    gradient(l, c, "self", |l, g, x| {
        let low = scaled(l, g, slope)?;
        by_sign(l, x, g, low)
    })
}

/// `values` are alpha, scale and input scale.
fn elu(l: &mut Lowering<'_>, c: &Call<'_>, values: [f64; 3]) -> Result<Outputs, LowerError> {
    let [alpha, scale, input_scale] = values;
    function(l, c, |l, x| {
        let t = scaled(l, x, input_scale)?;
        let e = l.b.unary(UnaryOp::Expm1, t)?;
        let low = scaled(l, e, alpha * scale)?;
        let high = scaled(l, x, scale)?;
        let below = l.b.compare_scalar(CompareDir::Le, x, 0.0)?;
        Ok(l.b.select(below, low, high)?)
    })
}

fn elu_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (alpha, scale, input_scale) = (c.float(l, 1, "alpha")?, c.float(l, 2, "scale")?, c.float(l, 3, "input_scale")?);
    let of_result = c.bool_or(4, "is_result", false)?;
    gradient_at(l, c, 5, "self_or_result", |l, g, x| {
        let slope = if of_result {
            let shifted = plus(l, x, alpha * scale)?;
            scaled(l, shifted, input_scale)?
        } else {
            let t = scaled(l, x, input_scale)?;
            let e = l.b.unary(UnaryOp::Exp, t)?;
            scaled(l, e, alpha * scale * input_scale)?
        };
        let low = l.b.mul(g, slope)?;
        let high = scaled(l, g, scale)?;
        let below = l.b.compare_scalar(CompareDir::Le, x, 0.0)?;
        Ok(l.b.select(below, low, high)?)
    })
}

/// min(max(x + 3, 0), 6) / 6.
fn hardsigmoid(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let t = plus(l, x, 3.0)?;
    let t = l.b.binary_scalar(BinaryOp::Max, t, 0.0)?;
    let t = l.b.binary_scalar(BinaryOp::Min, t, 6.0)?;
    Ok(l.b.binary_scalar(BinaryOp::Div, t, 6.0)?)
}

fn hardswish(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let gate = hardsigmoid(l, x)?;
    Ok(l.b.mul(x, gate)?)
}

fn hardswish_backward(l: &mut Lowering<'_>, g: ValueId, x: ValueId) -> Built {
    let slope = l.b.binary_scalar(BinaryOp::Div, x, 3.0)?;
    let slope = plus(l, slope, 0.5)?;
    let bent = l.b.mul(g, slope)?;
    let inside = l.b.compare_scalar(CompareDir::Lt, x, 3.0)?;
    let y = l.b.select(inside, bent, g)?;
    let below = l.b.compare_scalar(CompareDir::Le, x, -3.0)?;
    where_not(l, below, y)
}

fn hardsigmoid_backward(l: &mut Lowering<'_>, g: ValueId, x: ValueId) -> Built {
    let above = l.b.compare_scalar(CompareDir::Gt, x, -3.0)?;
    let below = l.b.compare_scalar(CompareDir::Lt, x, 3.0)?;
    let inside = l.b.binary(BinaryOp::And, above, below)?;
    let y = l.b.binary_scalar(BinaryOp::Div, g, 6.0)?;
    where_kept(l, inside, y)
}

/// tanh(log(1 + e^x)).
fn mish_gate(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let e = l.b.unary(UnaryOp::Exp, x)?;
    let log = l.b.unary(UnaryOp::Log1p, e)?;
    Ok(l.b.unary(UnaryOp::Tanh, log)?)
}

fn mish(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let gate = mish_gate(l, x)?;
    Ok(l.b.mul(x, gate)?)
}

fn mish_backward(l: &mut Lowering<'_>, g: ValueId, x: ValueId) -> Built {
    let gate = mish_gate(l, x)?;
    let s = l.b.unary(UnaryOp::Logistic, x)?;
    let square = l.b.mul(gate, gate)?;
    let rest = one_less(l, square)?;
    let bent = l.b.mul(x, s)?;
    let bent = l.b.mul(bent, rest)?;
    let slope = l.b.add(gate, bent)?;
    Ok(l.b.mul(g, slope)?)
}

/// e^-|x|.
fn decay(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let minus = l.b.unary(UnaryOp::Neg, size)?;
    Ok(l.b.unary(UnaryOp::Exp, minus)?)
}

/// min(x, 0) - log(1 + e^-|x|).
pub(super) fn log_sigmoid(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let low = l.b.binary_scalar(BinaryOp::Min, x, 0.0)?;
    let e = decay(l, x)?;
    let log = l.b.unary(UnaryOp::Log1p, e)?;
    Ok(l.b.sub(low, log)?)
}

fn log_sigmoid_forward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let out = c.out_dtype()?;
    let saved = c.out_meta(1)?;
    let saved_dims = l.sizes(&saved.shape)?;
    let x = cast(l, x, out.compute_type())?;
    let y = log_sigmoid(l, x)?;
    let buffer = if saved_dims == l.b.dims(x) { decay(l, x)? } else { l.b.full(saved.dtype, &saved_dims, 0.0)? };
    many([cast(l, y, out)?, cast(l, buffer, saved.dtype)?])
}

fn log_sigmoid_backward(l: &mut Lowering<'_>, g: ValueId, x: ValueId) -> Built {
    let minus = l.b.unary(UnaryOp::Neg, x)?;
    let slope = l.b.unary(UnaryOp::Logistic, minus)?;
    Ok(l.b.mul(g, slope)?)
}
