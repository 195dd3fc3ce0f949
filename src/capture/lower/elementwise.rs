//! Elementwise functions of one tensor.

use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{DType, ValueId};

use super::arithmetic::{sign_bit, truncate};
use super::helpers::{Scalar, cast, filled, in_compute_type, is_nan};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.abs.default", abs),
    ("aten.neg.default", neg),
    ("aten._neg_view.default", neg),
    ("aten._neg_view_copy.default", neg),
    ("aten.positive.default", |l, c| one(c.tensor(l, 0, "self")?)),
    ("aten.sign.default", sign),
    ("aten.sgn.default", sgn),
    ("aten.signbit.default", signbit),
    ("aten.exp.default", |l, c| float(l, c, UnaryOp::Exp)),
    ("aten.expm1.default", |l, c| float(l, c, UnaryOp::Expm1)),
    ("aten.exp2.default", |l, c| composite(l, c, exp2)),
    ("aten.special_exp2.default", |l, c| composite(l, c, exp2)),
    ("aten.log.default", |l, c| float(l, c, UnaryOp::Log)),
    ("aten.log1p.default", |l, c| float(l, c, UnaryOp::Log1p)),
    ("aten.log2.default", |l, c| composite(l, c, |l, x| log_base(l, x, std::f64::consts::LN_2))),
    ("aten.log10.default", |l, c| composite(l, c, |l, x| log_base(l, x, std::f64::consts::LN_10))),
    ("aten.sqrt.default", |l, c| float(l, c, UnaryOp::Sqrt)),
    ("aten.rsqrt.default", |l, c| composite(l, c, rsqrt)),
    ("aten.reciprocal.default", |l, c| composite(l, c, reciprocal)),
    ("aten.square.default", square),
    ("aten.sin.default", |l, c| float(l, c, UnaryOp::Sin)),
    ("aten.cos.default", |l, c| float(l, c, UnaryOp::Cos)),
    ("aten.tan.default", |l, c| float(l, c, UnaryOp::Tan)),
    ("aten.tanh.default", |l, c| float(l, c, UnaryOp::Tanh)),
    ("aten.erf.default", |l, c| float(l, c, UnaryOp::Erf)),
    ("aten.special_erf.default", |l, c| float(l, c, UnaryOp::Erf)),
    ("aten.asin.default", |l, c| composite(l, c, asin)),
    ("aten.acos.default", |l, c| composite(l, c, acos)),
    ("aten.atan.default", |l, c| composite(l, c, atan)),
    ("aten.sinh.default", |l, c| composite(l, c, sinh)),
    ("aten.cosh.default", |l, c| composite(l, c, cosh)),
    ("aten.asinh.default", |l, c| composite(l, c, asinh)),
    ("aten.acosh.default", |l, c| composite(l, c, acosh)),
    ("aten.atanh.default", |l, c| composite(l, c, atanh)),
    ("aten.floor.default", |l, c| rounding(l, c, UnaryOp::Floor)),
    ("aten.ceil.default", |l, c| rounding(l, c, UnaryOp::Ceil)),
    ("aten.round.default", |l, c| rounding(l, c, UnaryOp::RoundEven)),
    ("aten.round.decimals", round_decimals),
    ("aten.trunc.default", trunc),
    ("aten.fix.default", trunc),
    ("aten.frac.default", |l, c| composite(l, c, frac)),
    ("aten.nan_to_num.default", nan_to_num),
    ("aten.sinc.default", |l, c| composite(l, c, sinc)),
    ("aten.special_entr.default", |l, c| composite(l, c, entropy)),
    ("aten.angle.default", angle),
    ("aten.deg2rad.default", |l, c| composite(l, c, |l, x| Ok(l.b.binary_scalar(BinaryOp::Mul, x, std::f64::consts::PI / 180.0)?))),
    ("aten.rad2deg.default", |l, c| composite(l, c, |l, x| Ok(l.b.binary_scalar(BinaryOp::Mul, x, 180.0 / std::f64::consts::PI)?))),
];

type Built = Result<ValueId, LowerError>;

/// A function of several steps, in the compute type.
pub(super) fn composite(l: &mut Lowering<'_>, c: &Call<'_>, f: fn(&mut Lowering<'_>, ValueId) -> Built) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(in_compute_type(l, x, c.out_dtype()?, f)?)
}

/// A function that the graph has as one op of floats, in the compute type.
fn float(l: &mut Lowering<'_>, c: &Call<'_>, op: UnaryOp) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(in_compute_type(l, x, c.out_dtype()?, |l, x| Ok(l.b.unary(op, x)?))?)
}

fn abs(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dtype = l.b.dtype(x);
    one(if dtype == DType::Pred || dtype.is_unsigned_int() { x } else { l.b.unary(UnaryOp::Abs, x)? })
}

fn neg(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(l.b.unary(UnaryOp::Neg, x)?)
}

/// 1 where positive less 1 where negative, so 0 for NaN.
fn sign(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dtype = l.b.dtype(x);
    if dtype == DType::Pred {
        return one(x);
    }
    if !dtype.is_float() {
        return one(l.b.unary(UnaryOp::Sign, x)?);
    }
    let zero = l.b.full_like(x, 0.0)?;
    let up = l.b.compare(CompareDir::Gt, x, zero)?;
    let down = l.b.compare(CompareDir::Lt, x, zero)?;
    let (one_, minus) = (l.b.full_like(x, 1.0)?, l.b.full_like(x, -1.0)?);
    let low = l.b.select(down, minus, zero)?;
    one(l.b.select(up, one_, low)?)
}

/// As `sign` for real numbers; a complex number over its magnitude, 0 for 0.
fn sgn(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    if l.b.dtype(x).is_complex() { one(l.b.unary(UnaryOp::Sign, x)?) } else { sign(l, c) }
}

fn signbit(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(sign_bit(l, x)?)
}

fn exp2(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let two = l.b.full_like(x, 2.0)?;
    Ok(l.b.binary(BinaryOp::Pow, two, x)?)
}

fn log_base(l: &mut Lowering<'_>, x: ValueId, ln_base: f64) -> Built {
    let log = l.b.unary(UnaryOp::Log, x)?;
    Ok(l.b.binary_scalar(BinaryOp::Div, log, ln_base)?)
}

fn rsqrt(l: &mut Lowering<'_>, x: ValueId) -> Built {
    Ok(l.b.unary(UnaryOp::Rsqrt, x)?)
}

fn reciprocal(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let one = l.b.full_like(x, 1.0)?;
    Ok(l.b.div(one, x)?)
}

fn square(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let x = cast(l, x, c.out_dtype()?)?;
    one(l.b.mul(x, x)?)
}

/// sqrt((1 - x) (1 + x)), the other leg of a right triangle of hypotenuse 1.
fn other_leg(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let one = l.b.full_like(x, 1.0)?;
    let (less, more) = (l.b.sub(one, x)?, l.b.add(one, x)?);
    let product = l.b.mul(less, more)?;
    Ok(l.b.unary(UnaryOp::Sqrt, product)?)
}

fn real_only(l: &Lowering<'_>, x: ValueId) -> Result<(), LowerError> {
    if l.b.dtype(x).is_complex() { Err(LowerError::unsupported("this function of complex numbers")) } else { Ok(()) }
}

fn asin(l: &mut Lowering<'_>, x: ValueId) -> Built {
    real_only(l, x)?;
    let leg = other_leg(l, x)?;
    Ok(l.b.binary(BinaryOp::Atan2, x, leg)?)
}

fn acos(l: &mut Lowering<'_>, x: ValueId) -> Built {
    real_only(l, x)?;
    let leg = other_leg(l, x)?;
    Ok(l.b.binary(BinaryOp::Atan2, leg, x)?)
}

fn atan(l: &mut Lowering<'_>, x: ValueId) -> Built {
    real_only(l, x)?;
    let one = l.b.full_like(x, 1.0)?;
    Ok(l.b.binary(BinaryOp::Atan2, x, one)?)
}

/// Half of e^x as e^(x/2) times half of itself: no early overflow, and halving is exact.
fn half_exp(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let half = l.b.binary_scalar(BinaryOp::Mul, x, 0.5)?;
    let root = l.b.unary(UnaryOp::Exp, half)?;
    let half_root = l.b.binary_scalar(BinaryOp::Mul, root, 0.5)?;
    Ok(l.b.mul(half_root, root)?)
}

fn sinh(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let minus = l.b.unary(UnaryOp::Neg, x)?;
    let (up, down) = (half_exp(l, x)?, half_exp(l, minus)?);
    let far = l.b.sub(up, down)?;
    if l.b.dtype(x).is_complex() {
        return Ok(far);
    }
    let e = l.b.unary(UnaryOp::Expm1, x)?;
    let e1 = l.b.binary_scalar(BinaryOp::Add, e, 1.0)?;
    let ratio = l.b.div(e, e1)?;
    let sum = l.b.add(e, ratio)?;
    let near = l.b.binary_scalar(BinaryOp::Mul, sum, 0.5)?;
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let small = l.b.compare_scalar(CompareDir::Lt, size, 1.0)?;
    Ok(l.b.select(small, near, far)?)
}

fn cosh(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let minus = l.b.unary(UnaryOp::Neg, x)?;
    let (up, down) = (half_exp(l, x)?, half_exp(l, minus)?);
    Ok(l.b.add(up, down)?)
}

/// log(2 x), for large x.
fn log_of_double(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let log = l.b.unary(UnaryOp::Log, x)?;
    Ok(l.b.binary_scalar(BinaryOp::Add, log, std::f64::consts::LN_2)?)
}

fn asinh(l: &mut Lowering<'_>, x: ValueId) -> Built {
    real_only(l, x)?;
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let square = l.b.mul(size, size)?;
    let sum = l.b.binary_scalar(BinaryOp::Add, square, 1.0)?;
    let root = l.b.unary(UnaryOp::Sqrt, sum)?;
    let root = l.b.binary_scalar(BinaryOp::Add, root, 1.0)?;
    let ratio = l.b.div(square, root)?;
    let argument = l.b.add(size, ratio)?;
    let near = l.b.unary(UnaryOp::Log1p, argument)?;
    let far = log_of_double(l, size)?;
    let large = l.b.compare_scalar(CompareDir::Gt, size, 1e9)?;
    let magnitude = l.b.select(large, far, near)?;
    let negative = l.b.compare_scalar(CompareDir::Lt, x, 0.0)?;
    let minus = l.b.unary(UnaryOp::Neg, magnitude)?;
    Ok(l.b.select(negative, minus, magnitude)?)
}

fn acosh(l: &mut Lowering<'_>, x: ValueId) -> Built {
    real_only(l, x)?;
    let t = l.b.binary_scalar(BinaryOp::Sub, x, 1.0)?;
    let above = l.b.binary_scalar(BinaryOp::Add, x, 1.0)?;
    let product = l.b.mul(t, above)?;
    let root = l.b.unary(UnaryOp::Sqrt, product)?;
    let argument = l.b.add(t, root)?;
    let near = l.b.unary(UnaryOp::Log1p, argument)?;
    let far = log_of_double(l, x)?;
    let large = l.b.compare_scalar(CompareDir::Gt, x, 1e9)?;
    Ok(l.b.select(large, far, near)?)
}

fn atanh(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let minus = l.b.unary(UnaryOp::Neg, x)?;
    let (up, down) = (l.b.unary(UnaryOp::Log1p, x)?, l.b.unary(UnaryOp::Log1p, minus)?);
    let difference = l.b.sub(up, down)?;
    Ok(l.b.binary_scalar(BinaryOp::Mul, difference, 0.5)?)
}

fn rounding(l: &mut Lowering<'_>, c: &Call<'_>, op: UnaryOp) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(if l.b.dtype(x).is_float() { l.b.unary(op, x)? } else { x })
}

fn round_decimals(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let decimals = c.int_or(l, 1, "decimals", 0)?;
    if !l.b.dtype(x).is_float() {
        return one(x);
    }
    let power = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
    let (before, after) = if decimals >= 0 { (BinaryOp::Mul, BinaryOp::Div) } else { (BinaryOp::Div, BinaryOp::Mul) };
    let scaled = l.b.binary_scalar(before, x, power)?;
    let rounded = l.b.unary(UnaryOp::RoundEven, scaled)?;
    one(l.b.binary_scalar(after, rounded, power)?)
}

fn trunc(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(truncate(l, x)?)
}

fn frac(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let whole = truncate(l, x)?;
    Ok(l.b.sub(x, whole)?)
}

fn nan_to_num(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dtype = l.b.dtype(x);
    if !dtype.is_float() {
        real_only(l, x)?;
        return one(x);
    }
    let largest = match dtype {
        DType::F64 => f64::MAX,
        DType::F32 => f64::from(f32::MAX),
        DType::BF16 => 3.389_531_389_251_535_5e38,
        _ => 65504.0,
    };
    let dims = l.b.dims(x);
    let values = [c.float_or(l, 1, "nan", 0.0)?, c.float_or(l, 2, "posinf", largest)?, c.float_or(l, 3, "neginf", -largest)?];
    let [nan, high, low] = values.map(|v| filled(l, Scalar::Float(v), dtype, &dims));
    let is_high = l.b.compare_scalar(CompareDir::Eq, x, f64::INFINITY)?;
    let is_low = l.b.compare_scalar(CompareDir::Eq, x, f64::NEG_INFINITY)?;
    let missing = is_nan(l, x)?;
    let y = l.b.select(is_high, high?, x)?;
    let y = l.b.select(is_low, low?, y)?;
    one(l.b.select(missing, nan?, y)?)
}

fn sinc(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let angle = l.b.binary_scalar(BinaryOp::Mul, x, std::f64::consts::PI)?;
    let sine = l.b.unary(UnaryOp::Sin, angle)?;
    let ratio = l.b.div(sine, angle)?;
    let zero = l.b.compare_scalar(CompareDir::Eq, x, 0.0)?;
    let one = l.b.full_like(x, 1.0)?;
    Ok(l.b.select(zero, one, ratio)?)
}

/// -x log x; 0 for 0 and -inf below.
fn entropy(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let zero = l.b.full_like(x, 0.0)?;
    let log = l.b.unary(UnaryOp::Log, x)?;
    let product = l.b.mul(x, log)?;
    let product = l.b.unary(UnaryOp::Neg, product)?;
    let is_zero = l.b.compare(CompareDir::Eq, x, zero)?;
    let below = l.b.compare(CompareDir::Lt, x, zero)?;
    let lowest = l.b.full_like(x, f64::NEG_INFINITY)?;
    let y = l.b.select(is_zero, zero, product)?;
    Ok(l.b.select(below, lowest, y)?)
}

fn angle(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let out = c.out_dtype()?;
    if l.b.dtype(x).is_complex() {
        let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
        return one(l.b.binary(BinaryOp::Atan2, im, re)?);
    }
    let x = cast(l, x, out)?;
    let negative = l.b.compare_scalar(CompareDir::Lt, x, 0.0)?;
    let (zero, pi) = (l.b.full_like(x, 0.0)?, l.b.full_like(x, std::f64::consts::PI)?);
    let y = l.b.select(negative, pi, zero)?;
    let missing = is_nan(l, x)?;
    one(l.b.select(missing, x, y)?)
}
