//! Regularised incomplete gamma functions, in `F64`: the power series below the turning point, the continued fraction above it.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, UnaryOp};
use clutch_graph::{DType, ValueId};

use super::helpers::{cast, operand, place};
use super::loops::iterate;
use super::special::{lgamma, with};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.igamma.default", |l, c| incomplete(l, c, false)),
    ("aten.special_gammainc.default", |l, c| incomplete(l, c, false)),
    ("aten.igammac.default", |l, c| incomplete(l, c, true)),
    ("aten.special_gammaincc.default", |l, c| incomplete(l, c, true)),
];

type Built = Result<ValueId, LowerError>;

/// Steps after which a sum or fraction counts as converged in any case.
const STEPS: f64 = 20_000.0;

/// Any element for which `pred` holds, and fewer than [`STEPS`] steps done (`step`: scalar).
fn unfinished(l: &mut Lowering<'_>, pred: ValueId, step: ValueId) -> Built {
    let all: Vec<usize> = (0..l.b.rank(pred)).collect();
    let any = l.b.reduce(Combiner::Or, pred, &all)?;
    let few = l.b.compare_scalar(CompareDir::Lt, step, STEPS)?;
    Ok(l.b.binary(BinaryOp::And, any, few)?)
}

/// Sum of x^n / ((a + 1) ... (a + n)).
fn series(l: &mut Lowering<'_>, a: ValueId, x: ValueId) -> Built {
    let start = l.b.full_like(a, 1.0)?;
    let step = l.b.scalar(DType::F64, 0.0)?;
    let end = iterate(
        l,
        &[step, start, start],
        &[a, x],
        |l, c, _| {
            let small = with(l, BinaryOp::Mul, c[2], f64::EPSILON / 4.0)?;
            let pending = l.b.compare(CompareDir::Gt, c[1], small)?;
            unfinished(l, pending, c[0])
        },
        |l, c, fixed| {
            let step = with(l, BinaryOp::Add, c[0], 1.0)?;
            let dims = l.b.dims(c[1]);
            let n = l.b.broadcast_in_dim(step, &dims, &[])?;
            let divisor = l.b.add(fixed[0], n)?;
            let term = l.b.mul(c[1], fixed[1])?;
            let term = l.b.div(term, divisor)?;
            Ok(vec![step, term, l.b.add(c[2], term)?])
        },
    )?;
    Ok(end[2])
}

/// The continued fraction of the upper function over x^a e^-x / Gamma(a), by Lentz' method.
fn fraction(l: &mut Lowering<'_>, a: ValueId, x: ValueId) -> Built {
    const TINY: f64 = 1e-300;
    let apart = l.b.sub(x, a)?;
    let b = with(l, BinaryOp::Add, apart, 1.0)?;
    let one = l.b.full_like(a, 1.0)?;
    let d = l.b.div(one, b)?;
    let c = l.b.full_like(a, 1.0 / TINY)?;
    let (step, change) = (l.b.scalar(DType::F64, 0.0)?, l.b.full_like(a, 0.0)?);
    let end = iterate(
        l,
        &[step, b, c, d, d, change],
        &[a],
        |l, c, _| {
            let off = with(l, BinaryOp::Sub, c[5], 1.0)?;
            let off = l.b.unary(UnaryOp::Abs, off)?;
            let pending = l.b.compare_scalar(CompareDir::Gt, off, f64::EPSILON)?;
            unfinished(l, pending, c[0])
        },
        |l, carried, fixed| {
            let &[step, b, c, d, h, _] = carried else { return Err(LowerError::unsupported("internal: carried values")) };
            let step = with(l, BinaryOp::Add, step, 1.0)?;
            let dims = l.b.dims(b);
            let n = l.b.broadcast_in_dim(step, &dims, &[])?;
            let less = l.b.sub(fixed[0], n)?;
            let an = l.b.mul(n, less)?;
            let b = with(l, BinaryOp::Add, b, 2.0)?;
            let d = l.b.mul(an, d)?;
            let d = l.b.add(d, b)?;
            let c = l.b.div(an, c)?;
            let c = l.b.add(b, c)?;
            let (d, c) = (apart_from_zero(l, d, TINY)?, apart_from_zero(l, c, TINY)?);
            let one = l.b.full_like(d, 1.0)?;
            let d = l.b.div(one, d)?;
            let change = l.b.mul(d, c)?;
            Ok(vec![step, b, c, d, l.b.mul(h, change)?, change])
        },
    )?;
    Ok(end[4])
}

fn apart_from_zero(l: &mut Lowering<'_>, x: ValueId, tiny: f64) -> Built {
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let small = l.b.compare_scalar(CompareDir::Lt, size, tiny)?;
    let least = l.b.full_like(x, tiny)?;
    Ok(l.b.select(small, least, x)?)
}

fn incomplete(l: &mut Lowering<'_>, c: &Call<'_>, upper: bool) -> Result<Outputs, LowerError> {
    let (a, x) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let a = place(l, a, DType::F64, &dims)?;
    let x = place(l, x, DType::F64, &dims)?;
    if dims.contains(&0) {
        return one(cast(l, x, out)?);
    }
    let turn = with(l, BinaryOp::Add, a, 1.0)?;
    let by_series = l.b.compare(CompareDir::Lt, x, turn)?;
    let (unit, two) = (l.b.full_like(a, 1.0)?, l.b.full_like(a, 2.0)?);
    let (zero, infinity, nan) = (l.b.full_like(a, 0.0)?, l.b.full_like(a, f64::INFINITY)?, l.b.full_like(a, f64::NAN)?);
    let (a_finite, x_finite) = (l.b.unary(UnaryOp::IsFinite, a)?, l.b.unary(UnaryOp::IsFinite, x)?);
    let (a_positive, x_positive) = (l.b.compare(CompareDir::Gt, a, zero)?, l.b.compare(CompareDir::Gt, x, zero)?);
    let finite = l.b.binary(BinaryOp::And, a_finite, x_finite)?;
    let positive = l.b.binary(BinaryOp::And, a_positive, x_positive)?;
    let ordinary = l.b.binary(BinaryOp::And, finite, positive)?;
    let below = l.b.binary(BinaryOp::And, ordinary, by_series)?;
    let above = l.b.unary(UnaryOp::Not, by_series)?;
    let above = l.b.binary(BinaryOp::And, ordinary, above)?;
    // Elements of the other kind stand at a point where the expansion ends at once.
    let (a_low, x_low) = (l.b.select(below, a, unit)?, l.b.select(below, x, zero)?);
    let (a_high, x_high) = (l.b.select(above, a, unit)?, l.b.select(above, x, two)?);
    let sum = series(l, a_low, x_low)?;
    let tail = fraction(l, a_high, x_high)?;
    let (a_safe, x_safe) = (l.b.select(ordinary, a, unit)?, l.b.select(ordinary, x, unit)?);
    let log = l.b.unary(UnaryOp::Log, x_safe)?;
    let power = l.b.mul(a_safe, log)?;
    let power = l.b.sub(power, x_safe)?;
    let gamma = lgamma(l, a_safe)?;
    let power = l.b.sub(power, gamma)?;
    let weight = l.b.unary(UnaryOp::Exp, power)?;
    let lower = l.b.mul(weight, sum)?;
    let lower = l.b.div(lower, a_safe)?;
    let higher = l.b.mul(weight, tail)?;
    let (from_low, from_high) = (l.b.sub(unit, lower)?, l.b.sub(unit, higher)?);
    let y = if upper { l.b.select(below, from_low, higher)? } else { l.b.select(below, lower, from_high)? };
    // Ends of the domain: nothing at x = 0 or a = infinity, everything at a = 0 or x = infinity.
    let (nothing, everything) = if upper { (unit, zero) } else { (zero, unit) };
    let (a_zero, x_zero) = (l.b.compare(CompareDir::Eq, a, zero)?, l.b.compare(CompareDir::Eq, x, zero)?);
    let (a_end, x_end) = (l.b.compare(CompareDir::Eq, a, infinity)?, l.b.compare(CompareDir::Eq, x, infinity)?);
    let whole = l.b.binary(BinaryOp::Or, a_zero, x_end)?;
    let none = l.b.binary(BinaryOp::Or, x_zero, a_end)?;
    let both = l.b.binary(BinaryOp::And, whole, none)?;
    let y = l.b.select(whole, everything, y)?;
    let y = l.b.select(none, nothing, y)?;
    let y = l.b.select(both, nan, y)?;
    let (a_ok, x_ok) = (l.b.compare(CompareDir::Ge, a, zero)?, l.b.compare(CompareDir::Ge, x, zero)?);
    let defined = l.b.binary(BinaryOp::And, a_ok, x_ok)?;
    let y = l.b.select(defined, y, nan)?;
    one(cast(l, y, out)?)
}
