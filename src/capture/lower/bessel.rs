//! Bessel and Airy functions and the normal quantile, by fits that hold for `F64` and are evaluated in the compute type.

use clutch_graph::ValueId;
use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};

use super::airy_fits::*;
use super::bessel_fits::*;
use super::elementwise::composite;
use super::special::{bessel, chebyshev, polynomial, with};
use super::special_fits::{I0E_FAR, I0E_NEAR, I1E_FAR, I1E_NEAR};
use super::table::Family;
use super::{LowerError, Lowering};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.special_bessel_j0.default", |l, c| composite(l, c, |l, x| first_kind(l, x, 0))),
    ("aten.special_bessel_j1.default", |l, c| composite(l, c, |l, x| first_kind(l, x, 1))),
    ("aten.special_bessel_y0.default", |l, c| composite(l, c, |l, x| second_kind(l, x, 0))),
    ("aten.special_bessel_y1.default", |l, c| composite(l, c, |l, x| second_kind(l, x, 1))),
    ("aten.special_modified_bessel_i0.default", |l, c| composite(l, c, |l, x| bessel(l, x, &I0E_NEAR, &I0E_FAR, false, true))),
    ("aten.special_modified_bessel_i1.default", |l, c| composite(l, c, |l, x| bessel(l, x, &I1E_NEAR, &I1E_FAR, true, true))),
    ("aten.special_modified_bessel_k0.default", |l, c| composite(l, c, |l, x| modified(l, x, 0, false))),
    ("aten.special_modified_bessel_k1.default", |l, c| composite(l, c, |l, x| modified(l, x, 1, false))),
    ("aten.special_scaled_modified_bessel_k0.default", |l, c| composite(l, c, |l, x| modified(l, x, 0, true))),
    ("aten.special_scaled_modified_bessel_k1.default", |l, c| composite(l, c, |l, x| modified(l, x, 1, true))),
    ("aten.special_spherical_bessel_j0.default", |l, c| composite(l, c, spherical)),
    ("aten.special_airy_ai.default", |l, c| composite(l, c, airy)),
    ("aten.special_ndtri.default", |l, c| composite(l, c, ndtri)),
];

type Built = Result<ValueId, LowerError>;

/// The fit at `factor * z - offset`.
fn fitted(l: &mut Lowering<'_>, z: ValueId, factor: f64, offset: f64, coefficients: &[f64]) -> Built {
    let y = with(l, BinaryOp::Mul, z, factor)?;
    let y = with(l, BinaryOp::Sub, y, offset)?;
    chebyshev(l, y, coefficients)
}

fn quotient(l: &mut Lowering<'_>, numerator: f64, x: ValueId) -> Built {
    let n = l.b.full_like(x, numerator)?;
    Ok(l.b.div(n, x)?)
}

/// The first value where x is below `bound`, else the second.
fn below(l: &mut Lowering<'_>, x: ValueId, bound: f64, low: ValueId, high: ValueId) -> Built {
    let is_below = l.b.compare_scalar(CompareDir::Lt, x, bound)?;
    Ok(l.b.select(is_below, low, high)?)
}

/// The value where x is not below 0, infinity times `sign` at 0 and NaN left of it.
fn on_the_right(l: &mut Lowering<'_>, x: ValueId, value: ValueId, sign: f64) -> Built {
    let zero = l.b.compare_scalar(CompareDir::Eq, x, 0.0)?;
    let (pole, nan) = (l.b.full_like(x, sign * f64::INFINITY)?, l.b.full_like(x, f64::NAN)?);
    let value = l.b.select(zero, pole, value)?;
    below(l, x, 0.0, nan, value)
}

/// sqrt(2 / (pi x)) times the cosine and the sine parts of order `order`, for x of at least 8: the functions of both kinds.
fn far(l: &mut Lowering<'_>, x: ValueId, order: usize) -> Result<[ValueId; 2], LowerError> {
    let (p, q): (&[f64], &[f64]) = if order == 0 { (&J0_P, &J0_Q) } else { (&J1_P, &J1_Q) };
    let eighth = quotient(l, 8.0, x)?;
    let square = l.b.mul(eighth, eighth)?;
    let p = fitted(l, square, 2.0, 1.0, p)?;
    let q = fitted(l, square, 2.0, 1.0, q)?;
    let q = l.b.mul(q, eighth)?;
    // cos and sin of x - pi/4, or of x - 3 pi/4, times the root of 2.
    let (cos, sin) = (l.b.unary(UnaryOp::Cos, x)?, l.b.unary(UnaryOp::Sin, x)?);
    let (sum, difference) = (l.b.add(sin, cos)?, l.b.sub(sin, cos)?);
    let (c, s) = if order == 0 { (sum, difference) } else { (difference, l.b.unary(UnaryOp::Neg, sum)?) };
    let scale = quotient(l, std::f64::consts::FRAC_1_PI, x)?;
    let scale = l.b.unary(UnaryOp::Sqrt, scale)?;
    let (pc, qs, ps, qc) = (l.b.mul(p, c)?, l.b.mul(q, s)?, l.b.mul(p, s)?, l.b.mul(q, c)?);
    let (first, second) = (l.b.sub(pc, qs)?, l.b.add(ps, qc)?);
    Ok([l.b.mul(first, scale)?, l.b.mul(second, scale)?])
}

/// J0, or J1 for odd `order`, at x in [0, 8] and its square.
fn near(l: &mut Lowering<'_>, x: ValueId, order: usize) -> Result<[ValueId; 2], LowerError> {
    let inner = with(l, BinaryOp::Min, x, 8.0)?;
    let square = l.b.mul(inner, inner)?;
    let j = fitted(l, square, 1.0 / 32.0, 1.0, if order == 0 { &J0_NEAR } else { &J1_NEAR })?;
    Ok([if order == 0 { j } else { l.b.mul(j, inner)? }, square])
}

fn first_kind(l: &mut Lowering<'_>, x: ValueId, order: usize) -> Built {
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let [close, _] = near(l, size, order)?;
    let outer = with(l, BinaryOp::Max, size, 8.0)?;
    let [distant, _] = far(l, outer, order)?;
    let y = below(l, size, 8.0, close, distant)?;
    let infinite = l.b.compare_scalar(CompareDir::Eq, size, f64::INFINITY)?;
    let none = l.b.full_like(x, 0.0)?;
    let y = l.b.select(infinite, none, y)?;
    if order == 0 {
        return Ok(y);
    }
    let minus = l.b.unary(UnaryOp::Neg, y)?;
    below(l, x, 0.0, minus, y)
}

fn second_kind(l: &mut Lowering<'_>, x: ValueId, order: usize) -> Built {
    let [j, square] = near(l, x, order)?;
    let inner = with(l, BinaryOp::Min, x, 8.0)?;
    let log = l.b.unary(UnaryOp::Log, inner)?;
    let mut singular = l.b.mul(log, j)?;
    if order == 1 {
        let inverse = quotient(l, 1.0, inner)?;
        singular = l.b.sub(singular, inverse)?;
    }
    let singular = with(l, BinaryOp::Mul, singular, std::f64::consts::FRAC_2_PI)?;
    let mut regular = fitted(l, square, 1.0 / 32.0, 1.0, if order == 0 { &Y0_NEAR } else { &Y1_NEAR })?;
    if order == 1 {
        regular = l.b.mul(regular, inner)?;
    }
    let close = l.b.add(singular, regular)?;
    let outer = with(l, BinaryOp::Max, x, 8.0)?;
    let [_, distant] = far(l, outer, order)?;
    let y = below(l, x, 8.0, close, distant)?;
    on_the_right(l, x, y, -1.0)
}

/// K0 or K1, times e^x when `scaled`.
fn modified(l: &mut Lowering<'_>, x: ValueId, order: usize, scaled: bool) -> Built {
    let inner = with(l, BinaryOp::Min, x, 2.0)?;
    let square = l.b.mul(inner, inner)?;
    let half = with(l, BinaryOp::Mul, inner, 0.5)?;
    let log = l.b.unary(UnaryOp::Log, half)?;
    let mut close = if order == 0 {
        let i = bessel(l, inner, &I0E_NEAR, &I0E_FAR, false, true)?;
        let product = l.b.mul(log, i)?;
        let regular = fitted(l, square, 0.5, 1.0, &K0_NEAR)?;
        l.b.sub(regular, product)?
    } else {
        let i = bessel(l, inner, &I1E_NEAR, &I1E_FAR, true, true)?;
        let product = l.b.mul(log, i)?;
        let regular = fitted(l, square, 0.5, 1.0, &K1_NEAR)?;
        let regular = l.b.div(regular, inner)?;
        l.b.add(regular, product)?
    };
    if scaled {
        let growth = l.b.unary(UnaryOp::Exp, inner)?;
        close = l.b.mul(close, growth)?;
    }
    let outer = with(l, BinaryOp::Max, x, 2.0)?;
    let inverse = quotient(l, 1.0, outer)?;
    let distant = fitted(l, inverse, 4.0, 1.0, if order == 0 { &K0E_FAR } else { &K1E_FAR })?;
    let root = l.b.unary(UnaryOp::Sqrt, outer)?;
    let mut distant = l.b.div(distant, root)?;
    if !scaled {
        let minus = l.b.unary(UnaryOp::Neg, outer)?;
        let decay = l.b.unary(UnaryOp::Exp, minus)?;
        distant = l.b.mul(distant, decay)?;
    }
    let y = below(l, x, 2.0, close, distant)?;
    on_the_right(l, x, y, 1.0)
}

/// sin(x) / x, by its series near 0.
fn spherical(l: &mut Lowering<'_>, x: ValueId) -> Built {
    const SERIES: [f64; 7] = [1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5_040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0];
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let square = l.b.mul(x, x)?;
    let close = polynomial(l, square, &SERIES)?;
    let sine = l.b.unary(UnaryOp::Sin, x)?;
    let distant = l.b.div(sine, x)?;
    let infinite = l.b.compare_scalar(CompareDir::Eq, size, f64::INFINITY)?;
    let none = l.b.full_like(x, 0.0)?;
    let distant = l.b.select(infinite, none, distant)?;
    below(l, size, 0.5, close, distant)
}

/// Ai: three fits, with z = 2/3 |x|^(3/2) outside of [-2, 2].
fn airy(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let edge = 2.0 / 3.0 * 2f64.powf(1.5);
    let inner = with(l, BinaryOp::Max, x, -2.0)?;
    let inner = with(l, BinaryOp::Min, inner, 2.0)?;
    let close = fitted(l, inner, 0.5, 0.0, &AIRY_NEAR)?;
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let size = with(l, BinaryOp::Max, size, 2.0)?;
    let root = l.b.unary(UnaryOp::Sqrt, size)?;
    let power = l.b.mul(size, root)?;
    let z = with(l, BinaryOp::Mul, power, 2.0 / 3.0)?;
    let fourth = l.b.unary(UnaryOp::Sqrt, root)?;
    let ratio = quotient(l, edge, z)?;
    let right = fitted(l, ratio, 2.0, 1.0, &AIRY_RIGHT)?;
    let minus = l.b.unary(UnaryOp::Neg, z)?;
    let decay = l.b.unary(UnaryOp::Exp, minus)?;
    let right = l.b.mul(right, decay)?;
    let right = with(l, BinaryOp::Mul, right, 0.5 / std::f64::consts::PI.sqrt())?;
    let right = l.b.div(right, fourth)?;
    let square = l.b.mul(ratio, ratio)?;
    let p = fitted(l, square, 2.0, 1.0, &AIRY_P)?;
    let q = fitted(l, square, 2.0, 1.0, &AIRY_Q)?;
    let q = l.b.mul(q, ratio)?;
    // P cos(z - pi/4) + Q sin(z - pi/4), times the root of 2.
    let (cos, sin) = (l.b.unary(UnaryOp::Cos, z)?, l.b.unary(UnaryOp::Sin, z)?);
    let (sum, difference) = (l.b.add(sin, cos)?, l.b.sub(sin, cos)?);
    let (a, b) = (l.b.mul(p, sum)?, l.b.mul(q, difference)?);
    let left = l.b.add(a, b)?;
    let left = with(l, BinaryOp::Mul, left, (0.5 / std::f64::consts::PI).sqrt())?;
    let left = l.b.div(left, fourth)?;
    let y = below(l, x, 2.0, close, right)?;
    below(l, x, -2.0, left, y)
}

/// The x whose normal distribution function is p: a fit around 1/2 and one of sqrt(-2 log p) on each side.
fn ndtri(l: &mut Lowering<'_>, p: ValueId) -> Built {
    let centred = with(l, BinaryOp::Sub, p, 0.5)?;
    let square = l.b.mul(centred, centred)?;
    let square = with(l, BinaryOp::Min, square, 0.140_625)?;
    let middle = fitted(l, square, 1.0 / 0.070_312_5, 1.0, &NDTRI_CENTRE)?;
    let middle = l.b.mul(middle, centred)?;
    let one = l.b.full_like(p, 1.0)?;
    let other = l.b.sub(one, p)?;
    let least = l.b.min(p, other)?;
    let least = with(l, BinaryOp::Min, least, 0.135)?;
    let log = l.b.unary(UnaryOp::Log, least)?;
    let double = with(l, BinaryOp::Mul, log, -2.0)?;
    let x = l.b.unary(UnaryOp::Sqrt, double)?;
    let inverse = quotient(l, 1.0, x)?;
    let low = with(l, BinaryOp::Max, inverse, 0.125)?;
    let tail = fitted(l, low, 16.0 / 3.0, 5.0 / 3.0, &NDTRI_TAIL)?;
    let high = with(l, BinaryOp::Min, inverse, 0.125)?;
    let far_tail = fitted(l, high, 128.0 / 7.0, 9.0 / 7.0, &NDTRI_FAR_TAIL)?;
    let rest = below(l, x, 8.0, tail, far_tail)?;
    let log_x = l.b.unary(UnaryOp::Log, x)?;
    let rest = l.b.add(log_x, rest)?;
    let rest = l.b.mul(rest, inverse)?;
    let outer = l.b.sub(rest, x)?;
    let mirrored = l.b.unary(UnaryOp::Neg, outer)?;
    let side = below(l, p, 0.5, outer, mirrored)?;
    let size = l.b.unary(UnaryOp::Abs, centred)?;
    let y = below(l, size, 0.375, middle, side)?;
    let (infinity, nan) = (l.b.full_like(p, f64::INFINITY)?, l.b.full_like(p, f64::NAN)?);
    let minus = l.b.unary(UnaryOp::Neg, infinity)?;
    let (at_zero, at_one) = (l.b.compare_scalar(CompareDir::Eq, p, 0.0)?, l.b.compare_scalar(CompareDir::Eq, p, 1.0)?);
    let y = l.b.select(at_zero, minus, y)?;
    let y = l.b.select(at_one, infinity, y)?;
    let outside = l.b.compare_scalar(CompareDir::Gt, size, 0.5)?;
    Ok(l.b.select(outside, nan, y)?)
}
