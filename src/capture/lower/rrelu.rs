//! Leaky ReLU of random slope.

use clutch_graph::ValueId;
use clutch_graph::op::{BinaryOp, CompareDir};

use super::helpers::cast;
use super::random::between;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[("aten.rrelu_with_noise_functional.default", rrelu), ("aten.rrelu_with_noise_backward.default", rrelu_backward)];

/// Results: the activation, and the slope of each element: in training random where x is not positive, else 1. Outside of training the
/// slope is the middle of the range and the second result is the noise that was given.
fn rrelu(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, noise) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "noise")?);
    let (low, high) = (c.float_or(l, 2, "lower", 0.125)?, c.float_or(l, 3, "upper", 1.0 / 3.0)?);
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let training = c.bool_or(4, "training", false)?;
    let slope = match training {
        true => between(l, dtype, &dims, low, high)?,
        false => l.b.full(dtype, &dims, (low + high) / 2.0)?,
    };
    let compute = dtype.compute_type();
    let (wide, slope_wide) = (cast(l, x, compute)?, cast(l, slope, compute)?);
    let below = l.b.compare_scalar(CompareDir::Le, x, 0.0)?;
    let lower: ValueId = l.b.mul(wide, slope_wide)?;
    let lower = cast(l, lower, dtype)?;
    let y = l.b.select(below, lower, x)?;
    if !training {
        return many([y, noise]);
    }
    let one = l.b.full_like(slope, 1.0)?;
    many([y, l.b.select(below, slope, one)?])
}

/// The gradient times the slopes of the forward, or times the middle slope where x (or the result, of the same sign) is not positive.
fn rrelu_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (grad, x, noise) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "self")?, c.tensor(l, 2, "noise")?);
    let (low, high) = (c.float(l, 3, "lower")?, c.float(l, 4, "upper")?);
    let dtype = c.out_dtype()?;
    let compute = dtype.compute_type();
    let grad_wide = cast(l, grad, compute)?;
    if c.bool_or(5, "training", false)? && high - low > 1e-6 {
        let noise = cast(l, noise, compute)?;
        let y = l.b.mul(grad_wide, noise)?;
        return one(cast(l, y, dtype)?);
    }
    let lower = l.b.binary_scalar(BinaryOp::Mul, grad_wide, (low + high) / 2.0)?;
    let lower = cast(l, lower, dtype)?;
    let above = l.b.compare_scalar(CompareDir::Gt, x, 0.0)?;
    one(l.b.select(above, grad, lower)?)
}
