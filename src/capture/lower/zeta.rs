//! Hurwitz' zeta function and the polygamma functions.

use clutch_graph::ValueId;
use clutch_graph::op::{BinaryOp, Combiner, CompareDir, UnaryOp};

use super::helpers::{cast, in_compute_type, operand, place};
use super::loops::iterate;
use super::special::{digamma, with};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[("aten.polygamma.default", polygamma), ("aten.special_zeta.default", zeta)];

type Built = Result<ValueId, LowerError>;

/// Hurwitz' zeta function for s above 1, by Euler and Maclaurin's sum after ten terms, and before those as many as take q to the right of 0.
fn hurwitz(l: &mut Lowering<'_>, s: ValueId, q: ValueId) -> Built {
    const BERNOULLI_OVER_FACTORIAL: [f64; 6] =
        [1.0 / 12.0, -1.0 / 720.0, 1.0 / 30_240.0, -1.0 / 1_209_600.0, 1.0 / 47_900_160.0, -691.0 / 1_307_674_368_000.0];
    let minus_s = l.b.unary(UnaryOp::Neg, s)?;
    let nothing = l.b.full_like(q, 0.0)?;
    let end = iterate(
        l,
        &[q, nothing],
        &[minus_s],
        |l, c, _| {
            let left = l.b.compare_scalar(CompareDir::Lt, c[0], 0.0)?;
            let finite = l.b.compare_scalar(CompareDir::Gt, c[0], -1e6)?;
            let left = l.b.binary(BinaryOp::And, left, finite)?;
            let all: Vec<usize> = (0..l.b.rank(left)).collect();
            Ok(l.b.reduce(Combiner::Or, left, &all)?)
        },
        |l, c, fixed| {
            let left = l.b.compare_scalar(CompareDir::Lt, c[0], 0.0)?;
            let term = l.b.binary(BinaryOp::Pow, c[0], fixed[0])?;
            let (next, sum) = (with(l, BinaryOp::Add, c[0], 1.0)?, l.b.add(c[1], term)?);
            Ok(vec![l.b.select(left, next, c[0])?, l.b.select(left, sum, c[1])?])
        },
    )?;
    let (q, mut sum) = (end[0], end[1]);
    for k in 0..10 {
        let base = with(l, BinaryOp::Add, q, f64::from(k))?;
        let term = l.b.binary(BinaryOp::Pow, base, minus_s)?;
        sum = l.b.add(sum, term)?;
    }
    let z = with(l, BinaryOp::Add, q, 10.0)?;
    let power = l.b.binary(BinaryOp::Pow, z, minus_s)?;
    let less = with(l, BinaryOp::Sub, s, 1.0)?;
    let integral = l.b.mul(power, z)?;
    let integral = l.b.div(integral, less)?;
    sum = l.b.add(sum, integral)?;
    let half = with(l, BinaryOp::Mul, power, 0.5)?;
    sum = l.b.add(sum, half)?;
    let mut factor = l.b.div(power, z)?;
    factor = l.b.mul(factor, s)?;
    let square = l.b.mul(z, z)?;
    for (k, &c) in BERNOULLI_OVER_FACTORIAL.iter().enumerate() {
        let term = with(l, BinaryOp::Mul, factor, c)?;
        sum = l.b.add(sum, term)?;
        let (a, b) = (with(l, BinaryOp::Add, s, 2.0 * k as f64 + 1.0)?, with(l, BinaryOp::Add, s, 2.0 * k as f64 + 2.0)?);
        let growth = l.b.mul(a, b)?;
        let growth = l.b.div(growth, square)?;
        factor = l.b.mul(factor, growth)?;
    }
    Ok(sum)
}

fn zeta(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (s, q) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let s = place(l, s, out.compute_type(), &dims)?;
    let q = place(l, q, out.compute_type(), &dims)?;
    let sum = hurwitz(l, s, q)?;
    let (nan, infinity) = (l.b.full_like(s, f64::NAN)?, l.b.full_like(s, f64::INFINITY)?);
    let below = l.b.compare_scalar(CompareDir::Lt, s, 1.0)?;
    let (low_s, low_q) = (l.b.unary(UnaryOp::Floor, s)?, l.b.unary(UnaryOp::Floor, q)?);
    let (broken_s, broken_q) = (l.b.compare(CompareDir::Ne, s, low_s)?, l.b.compare(CompareDir::Ne, q, low_q)?);
    let negative = l.b.compare_scalar(CompareDir::Lt, q, 0.0)?;
    let broken = l.b.binary(BinaryOp::And, broken_s, broken_q)?;
    let broken = l.b.binary(BinaryOp::And, broken, negative)?;
    let undefined = l.b.binary(BinaryOp::Or, below, broken)?;
    let pole = l.b.compare_scalar(CompareDir::Eq, s, 1.0)?;
    let y = l.b.select(undefined, nan, sum)?;
    let y = l.b.select(pole, infinity, y)?;
    one(cast(l, y, out)?)
}

fn polygamma(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let n = c.int(l, 0, "n")?;
    let x = c.tensor(l, 1, "self")?;
    one(in_compute_type(l, x, c.out_dtype()?, |l, x| {
        if n == 0 {
            return digamma(l, x);
        }
        let factorial: f64 = (1..=n.min(200)).map(|k| k as f64).product();
        let s = l.b.full_like(x, n as f64 + 1.0)?;
        let sum = hurwitz(l, s, x)?;
        with(l, BinaryOp::Mul, sum, if n % 2 == 1 { factorial } else { -factorial })
    })?)
}
