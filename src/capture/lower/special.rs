//! Special functions, by fits and expansions that hold for `F64` and are evaluated in the compute type.

use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{DType, ValueId};

use super::elementwise::composite;
use super::special_fits::{ERFCX, I0E_FAR, I0E_NEAR, I1E_FAR, I1E_NEAR};
use super::table::Family;
use super::{LowerError, Lowering};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.erfc.default", |l, c| composite(l, c, erfc)),
    ("aten.special_erfc.default", |l, c| composite(l, c, erfc)),
    ("aten.special_erfcx.default", |l, c| composite(l, c, erfcx)),
    ("aten.erfinv.default", |l, c| composite(l, c, erfinv)),
    ("aten.special_erfinv.default", |l, c| composite(l, c, erfinv)),
    ("aten.special_log_ndtr.default", |l, c| composite(l, c, log_ndtr)),
    ("aten.special_ndtr.default", |l, c| composite(l, c, ndtr)),
    ("aten.lgamma.default", |l, c| composite(l, c, lgamma)),
    ("aten.special_gammaln.default", |l, c| composite(l, c, lgamma)),
    ("aten.digamma.default", |l, c| composite(l, c, digamma)),
    ("aten.special_digamma.default", |l, c| composite(l, c, digamma)),
    ("aten.special_psi.default", |l, c| composite(l, c, digamma)),
    ("aten.i0.default", |l, c| composite(l, c, |l, x| bessel(l, x, &I0E_NEAR, &I0E_FAR, false, true))),
    ("aten.special_i0.default", |l, c| composite(l, c, |l, x| bessel(l, x, &I0E_NEAR, &I0E_FAR, false, true))),
    ("aten.special_i0e.default", |l, c| composite(l, c, |l, x| bessel(l, x, &I0E_NEAR, &I0E_FAR, false, false))),
    ("aten.special_i1.default", |l, c| composite(l, c, |l, x| bessel(l, x, &I1E_NEAR, &I1E_FAR, true, true))),
    ("aten.special_i1e.default", |l, c| composite(l, c, |l, x| bessel(l, x, &I1E_NEAR, &I1E_FAR, true, false))),
];

type Built = Result<ValueId, LowerError>;

/// `x op value`.
pub(super) fn with(l: &mut Lowering<'_>, op: BinaryOp, x: ValueId, value: f64) -> Built {
    Ok(l.b.binary_scalar(op, x, value)?)
}

/// Sum of Chebyshev polynomials of `y` by Clenshaw's recurrence.
pub(super) fn chebyshev(l: &mut Lowering<'_>, y: ValueId, coefficients: &[f64]) -> Built {
    let double = l.b.add(y, y)?;
    let mut previous = l.b.full_like(y, 0.0)?;
    let mut current = previous;
    for &c in coefficients[1..].iter().rev() {
        let product = l.b.mul(double, current)?;
        let difference = l.b.sub(product, previous)?;
        previous = current;
        current = with(l, BinaryOp::Add, difference, c)?;
    }
    let product = l.b.mul(y, current)?;
    let difference = l.b.sub(product, previous)?;
    with(l, BinaryOp::Add, difference, coefficients[0])
}

/// A polynomial, highest coefficient first.
pub(super) fn polynomial(l: &mut Lowering<'_>, x: ValueId, coefficients: &[f64]) -> Built {
    let mut sum = l.b.full_like(x, coefficients[0])?;
    for &c in &coefficients[1..] {
        let product = l.b.mul(sum, x)?;
        sum = with(l, BinaryOp::Add, product, c)?;
    }
    Ok(sum)
}

/// e^(-x^2): the square of the leading bits is exact and the rest is small, so that large squares lose nothing.
fn gauss(l: &mut Lowering<'_>, x: ValueId, positive_exponent: bool) -> Built {
    let scaled = with(l, BinaryOp::Mul, x, 16.0)?;
    let rounded = l.b.unary(UnaryOp::RoundEven, scaled)?;
    let head = with(l, BinaryOp::Mul, rounded, 1.0 / 16.0)?;
    let (low, high) = (l.b.sub(x, head)?, l.b.add(x, head)?);
    let rest = l.b.mul(low, high)?;
    let square = l.b.mul(head, head)?;
    let (rest, square) =
        if positive_exponent { (rest, square) } else { (l.b.unary(UnaryOp::Neg, rest)?, l.b.unary(UnaryOp::Neg, square)?) };
    let (a, b) = (l.b.unary(UnaryOp::Exp, square)?, l.b.unary(UnaryOp::Exp, rest)?);
    Ok(l.b.mul(a, b)?)
}

/// e^(x^2) erfc(x) for x not below 0.
fn erfcx_positive(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let x = with(l, BinaryOp::Min, x, 1e18)?;
    let (below, above) = (with(l, BinaryOp::Sub, x, 2.0)?, with(l, BinaryOp::Add, x, 2.0)?);
    let y = l.b.div(below, above)?;
    let fitted = chebyshev(l, y, &ERFCX)?;
    let double = l.b.add(x, x)?;
    let scale = with(l, BinaryOp::Add, double, 1.0)?;
    Ok(l.b.div(fitted, scale)?)
}

fn erfc(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let size = with(l, BinaryOp::Min, size, 30.0)?;
    let scaled = erfcx_positive(l, size)?;
    let g = gauss(l, size, false)?;
    let tail = l.b.mul(scaled, g)?;
    let two = l.b.full_like(x, 2.0)?;
    let other = l.b.sub(two, tail)?;
    let negative = l.b.compare_scalar(CompareDir::Lt, x, 0.0)?;
    Ok(l.b.select(negative, other, tail)?)
}

fn erfcx(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let scaled = erfcx_positive(l, size)?;
    let bounded = with(l, BinaryOp::Max, x, -30.0)?;
    let g = gauss(l, bounded, true)?;
    let double = l.b.add(g, g)?;
    let other = l.b.sub(double, scaled)?;
    let negative = l.b.compare_scalar(CompareDir::Lt, x, 0.0)?;
    Ok(l.b.select(negative, other, scaled)?)
}

/// By Giles' single-precision polynomials (2010), refined by two of Newton's steps for `F64`.
fn erfinv(l: &mut Lowering<'_>, x: ValueId) -> Built {
    const CENTRE: [f64; 9] = [
        2.810_226_36e-8,
        3.432_739_39e-7,
        -3.523_387_7e-6,
        -4.391_506_54e-6,
        2.185_808_7e-4,
        -1.253_725_03e-3,
        -4.177_681_64e-3,
        2.466_407_27e-1,
        1.501_409_41,
    ];
    const TAIL: [f64; 9] = [
        -2.002_142_57e-4,
        1.009_505_58e-4,
        1.349_343_22e-3,
        -3.673_428_44e-3,
        5.739_507_73e-3,
        -7.622_461_3e-3,
        9.438_870_47e-3,
        1.001_674_06,
        2.832_976_82,
    ];
    let minus = l.b.unary(UnaryOp::Neg, x)?;
    let (up, down) = (l.b.unary(UnaryOp::Log1p, x)?, l.b.unary(UnaryOp::Log1p, minus)?);
    let sum = l.b.add(up, down)?;
    let w = l.b.unary(UnaryOp::Neg, sum)?;
    let near = with(l, BinaryOp::Sub, w, 2.5)?;
    let near = polynomial(l, near, &CENTRE)?;
    let far = l.b.unary(UnaryOp::Sqrt, w)?;
    let far = with(l, BinaryOp::Sub, far, 3.0)?;
    let far = polynomial(l, far, &TAIL)?;
    let central = l.b.compare_scalar(CompareDir::Lt, w, 5.0)?;
    let factor = l.b.select(central, near, far)?;
    let mut y = l.b.mul(factor, x)?;
    if l.b.dtype(x) == DType::F64 {
        for _ in 0..2 {
            let value = l.b.unary(UnaryOp::Erf, y)?;
            let error = l.b.sub(value, x)?;
            let slope = gauss(l, y, false)?;
            let slope = with(l, BinaryOp::Mul, slope, std::f64::consts::FRAC_2_SQRT_PI)?;
            let step = l.b.div(error, slope)?;
            y = l.b.sub(y, step)?;
        }
    }
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let edge = l.b.compare_scalar(CompareDir::Eq, size, 1.0)?;
    let infinity = with(l, BinaryOp::Mul, x, f64::INFINITY)?;
    Ok(l.b.select(edge, infinity, y)?)
}

/// Distribution function of the standard normal.
fn ndtr(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let t = with(l, BinaryOp::Mul, x, -std::f64::consts::FRAC_1_SQRT_2)?;
    let tail = erfc(l, t)?;
    with(l, BinaryOp::Mul, tail, 0.5)
}

fn log_ndtr(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let t = with(l, BinaryOp::Mul, x, std::f64::consts::FRAC_1_SQRT_2)?;
    let minus = l.b.unary(UnaryOp::Neg, t)?;
    let up = with(l, BinaryOp::Max, minus, 0.0)?;
    let scaled = erfcx_positive(l, up)?;
    let half = with(l, BinaryOp::Mul, scaled, 0.5)?;
    let log = l.b.unary(UnaryOp::Log, half)?;
    let square = l.b.mul(t, t)?;
    let low = l.b.sub(log, square)?;
    let tail = erfc(l, t)?;
    let tail = with(l, BinaryOp::Mul, tail, -0.5)?;
    let high = l.b.unary(UnaryOp::Log1p, tail)?;
    let below = l.b.compare_scalar(CompareDir::Lt, x, -1.0)?;
    Ok(l.b.select(below, low, high)?)
}

/// Lanczos' approximation with g = 7 for x not below 1/2.
fn lgamma_right(l: &mut Lowering<'_>, x: ValueId) -> Built {
    const LANCZOS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let mut series = l.b.full_like(x, 0.999_999_999_999_809_9)?;
    for (k, &c) in LANCZOS.iter().enumerate() {
        let shifted = with(l, BinaryOp::Add, x, k as f64)?;
        let numerator = l.b.full_like(x, c)?;
        let term = l.b.div(numerator, shifted)?;
        series = l.b.add(series, term)?;
    }
    let t = with(l, BinaryOp::Add, x, 6.5)?;
    let log_t = l.b.unary(UnaryOp::Log, t)?;
    let less = with(l, BinaryOp::Sub, log_t, 1.0)?;
    let power = with(l, BinaryOp::Sub, x, 0.5)?;
    let main = l.b.mul(power, less)?;
    let main = with(l, BinaryOp::Add, main, 0.5 * (2.0 * std::f64::consts::PI).ln() - 7.0)?;
    let log_series = l.b.unary(UnaryOp::Log, series)?;
    Ok(l.b.add(main, log_series)?)
}

/// sin(pi x) and cos(pi x), with x brought to [-1/2, 1/2] around the nearest integer; the sign of the nearest integer's parity is dropped.
fn reduced_angle(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let whole = l.b.unary(UnaryOp::RoundEven, x)?;
    let part = l.b.sub(x, whole)?;
    with(l, BinaryOp::Mul, part, std::f64::consts::PI)
}

pub(super) fn lgamma(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let one = l.b.full_like(x, 1.0)?;
    let left = l.b.compare_scalar(CompareDir::Lt, x, 0.5)?;
    let mirrored = l.b.sub(one, x)?;
    let argument = l.b.select(left, mirrored, x)?;
    let right = lgamma_right(l, argument)?;
    let angle = reduced_angle(l, x)?;
    let sine = l.b.unary(UnaryOp::Sin, angle)?;
    let sine = l.b.unary(UnaryOp::Abs, sine)?;
    let log = l.b.unary(UnaryOp::Log, sine)?;
    let pi = l.b.full_like(x, std::f64::consts::PI.ln())?;
    let reflected = l.b.sub(pi, log)?;
    let reflected = l.b.sub(reflected, right)?;
    let y = l.b.select(left, reflected, right)?;
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let infinite = l.b.compare_scalar(CompareDir::Eq, size, f64::INFINITY)?;
    Ok(l.b.select(infinite, size, y)?)
}

pub(super) fn digamma(l: &mut Lowering<'_>, x: ValueId) -> Built {
    const SERIES: [f64; 6] = [-1.0 / 132.0, 1.0 / 240.0, -1.0 / 252.0, 1.0 / 120.0, -1.0 / 12.0, 0.0];
    let one = l.b.full_like(x, 1.0)?;
    let left = l.b.compare_scalar(CompareDir::Lt, x, 0.5)?;
    let mirrored = l.b.sub(one, x)?;
    let argument = l.b.select(left, mirrored, x)?;
    let mut harmonic = l.b.full_like(x, 0.0)?;
    for k in 0..10 {
        let shifted = with(l, BinaryOp::Add, argument, f64::from(k))?;
        let term = l.b.div(one, shifted)?;
        harmonic = l.b.add(harmonic, term)?;
    }
    let z = with(l, BinaryOp::Add, argument, 10.0)?;
    let inverse = l.b.div(one, z)?;
    let square = l.b.mul(inverse, inverse)?;
    let series = polynomial(l, square, &SERIES)?;
    let half = with(l, BinaryOp::Mul, inverse, 0.5)?;
    let log = l.b.unary(UnaryOp::Log, z)?;
    let right = l.b.sub(log, half)?;
    let right = l.b.add(right, series)?;
    let right = l.b.sub(right, harmonic)?;
    let angle = reduced_angle(l, x)?;
    let tangent = l.b.unary(UnaryOp::Tan, angle)?;
    let pi = l.b.full_like(x, std::f64::consts::PI)?;
    let cotangent = l.b.div(pi, tangent)?;
    let reflected = l.b.sub(right, cotangent)?;
    let y = l.b.select(left, reflected, right)?;
    let floor = l.b.unary(UnaryOp::Floor, x)?;
    let whole = l.b.compare(CompareDir::Eq, floor, x)?;
    let negative = l.b.compare_scalar(CompareDir::Lt, x, 0.0)?;
    let pole = l.b.binary(BinaryOp::And, whole, negative)?;
    let zero = l.b.compare_scalar(CompareDir::Eq, x, 0.0)?;
    let inverse_x = l.b.div(one, x)?;
    let minus_infinity = l.b.unary(UnaryOp::Neg, inverse_x)?;
    let nan = l.b.full_like(x, f64::NAN)?;
    let y = l.b.select(pole, nan, y)?;
    Ok(l.b.select(zero, minus_infinity, y)?)
}

/// A modified Bessel function from its fits near and far; odd ones take the sign of x, unscaled ones grow by e^|x|.
pub(super) fn bessel(l: &mut Lowering<'_>, x: ValueId, near: &[f64], far: &[f64], odd: bool, grows: bool) -> Built {
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let inner = with(l, BinaryOp::Min, size, 8.0)?;
    let y = with(l, BinaryOp::Mul, inner, 0.25)?;
    let y = with(l, BinaryOp::Sub, y, 1.0)?;
    let mut close = chebyshev(l, y, near)?;
    if odd {
        close = l.b.mul(close, inner)?;
    }
    let outer = with(l, BinaryOp::Max, size, 8.0)?;
    let sixteen = l.b.full_like(x, 16.0)?;
    let y = l.b.div(sixteen, outer)?;
    let y = with(l, BinaryOp::Sub, y, 1.0)?;
    let distant = chebyshev(l, y, far)?;
    let root = l.b.unary(UnaryOp::Sqrt, outer)?;
    let distant = l.b.div(distant, root)?;
    let inside = l.b.compare_scalar(CompareDir::Le, size, 8.0)?;
    let mut value = l.b.select(inside, close, distant)?;
    if grows {
        let half = with(l, BinaryOp::Mul, size, 0.5)?;
        let root = l.b.unary(UnaryOp::Exp, half)?;
        value = l.b.mul(value, root)?;
        value = l.b.mul(value, root)?;
    }
    if odd {
        let minus = l.b.unary(UnaryOp::Neg, value)?;
        let negative = l.b.compare_scalar(CompareDir::Lt, x, 0.0)?;
        value = l.b.select(negative, minus, value)?;
    }
    Ok(value)
}
