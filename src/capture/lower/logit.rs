//! The logit and its gradient.

use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};

use super::activation::{gradient, one_less};
use super::helpers::in_compute_type;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family =
    &[("aten.logit.default", logit), ("aten.special_logit.default", logit), ("aten.logit_backward.default", logit_backward)];

/// log(x / (1 - x)); with `eps`, x is first raised to eps and only else cut to 1 - eps.
fn logit(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let eps = c.opt_float(l, 1, "eps")?;
    one(in_compute_type(l, x, c.out_dtype()?, |l, x| {
        let mut p = x;
        if let Some(eps) = eps {
            let (low, high) = (l.b.full_like(x, eps)?, l.b.full_like(x, 1.0 - eps)?);
            let (below, above) = (l.b.compare(CompareDir::Lt, x, low)?, l.b.compare(CompareDir::Gt, x, high)?);
            p = l.b.select(above, high, x)?;
            p = l.b.select(below, low, p)?;
        }
        let rest = one_less(l, p)?;
        let odds = l.b.div(p, rest)?;
        Ok(l.b.unary(UnaryOp::Log, odds)?)
    })?)
}

fn logit_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let eps = c.opt_float(l, 2, "eps")?;
    gradient(l, c, "self", |l, g, x| {
        let (low, high) = eps.map_or((0.0, 1.0), |e| (e, 1.0 - e));
        let above = l.b.compare_scalar(CompareDir::Ge, x, low)?;
        let below = l.b.compare_scalar(CompareDir::Le, x, high)?;
        let inside = l.b.binary(BinaryOp::And, above, below)?;
        let rest = one_less(l, x)?;
        let product = l.b.mul(x, rest)?;
        let y = l.b.div(g, product)?;
        let outside = l.b.full_like(y, if eps.is_some() { 0.0 } else { f64::NAN })?;
        Ok(l.b.select(inside, y, outside)?)
    })
}
