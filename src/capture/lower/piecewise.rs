//! Activations in pieces: thresholds, shrinks, parametric and gated units.

use clutch_graph::ValueId;
use clutch_graph::op::{CompareDir, UnaryOp};

use super::activation::{by_sign, function, gradient, one_less, plus, scaled, where_not};
use super::helpers::{cast, place, scalar};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.threshold.default", threshold),
    ("aten.threshold_backward.default", threshold_backward),
    ("aten._prelu_kernel.default", prelu),
    ("aten._prelu_kernel_backward.default", prelu_backward),
    ("aten.glu.default", glu),
    ("aten.glu_backward.default", glu_backward),
    ("aten.hardshrink.default", hardshrink),
    ("aten.hardshrink_backward.default", shrink_backward),
    ("aten.softshrink.default", softshrink),
    ("aten.softshrink_backward.default", shrink_backward),
];

type Built = Result<ValueId, LowerError>;

fn threshold(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (limit, value) = (c.float(l, 1, "threshold")?, scalar(l, c, 2, "value")?);
    let value = place(l, value.into(), l.b.dtype(x), &l.b.dims(x))?;
    let below = l.b.compare_scalar(CompareDir::Le, x, limit)?;
    one(l.b.select(below, value, x)?)
}

fn threshold_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, x) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "self")?);
    let limit = c.float(l, 2, "threshold")?;
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let (g, x) = (place(l, g.into(), out, &dims)?, l.b.expand(x, &dims)?);
    let below = l.b.compare_scalar(CompareDir::Le, x, limit)?;
    one(where_not(l, below, g)?)
}

fn prelu(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, w) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "weight")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = out.compute_type();
    let (x, w) = (place(l, x.into(), compute, &dims)?, place(l, w.into(), compute, &dims)?);
    let low = l.b.mul(w, x)?;
    let y = by_sign(l, x, x, low)?;
    one(cast(l, y, out)?)
}

fn prelu_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, x, w) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "self")?, c.tensor(l, 2, "weight")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = out.compute_type();
    let [g, x, w] = [g, x, w].map(|v| place(l, v.into(), compute, &dims));
    let (g, x, w) = (g?, x?, w?);
    let low = l.b.mul(w, g)?;
    let dx = by_sign(l, x, g, low)?;
    let (zero, product) = (l.b.full_like(x, 0.0)?, l.b.mul(x, g)?);
    let dw = by_sign(l, x, zero, product)?;
    let dw_dtype = c.out_meta(1)?.dtype;
    many([cast(l, dx, out)?, cast(l, dw, dw_dtype)?])
}

/// Both halves along the axis.
fn halves(l: &mut Lowering<'_>, x: ValueId, axis: usize) -> Result<(ValueId, ValueId), LowerError> {
    let n = l.b.ty(x).dims.get(axis).copied().unwrap_or(1);
    if l.b.rank(x) == 0 || n % 2 != 0 {
        return Err(LowerError::unsupported("an axis of odd size has no halves"));
    }
    Ok((l.b.slice_axis(x, axis, 0, n / 2, 1)?, l.b.slice_axis(x, axis, n / 2, n, 1)?))
}

fn glu(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axis = c.axis_or(l, 1, "dim", l.b.rank(x), -1)?;
    function(l, c, |l, x| {
        let (a, b) = halves(l, x, axis)?;
        let gate = l.b.unary(UnaryOp::Logistic, b)?;
        Ok(l.b.mul(a, gate)?)
    })
}

fn glu_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, x) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "self")?);
    let axis = c.axis(l, 2, "dim", l.b.rank(x))?;
    let out = c.out_dtype()?;
    let (g, x) = (cast(l, g, out.compute_type())?, cast(l, x, out.compute_type())?);
    let (a, b) = halves(l, x, axis)?;
    let gate = l.b.unary(UnaryOp::Logistic, b)?;
    let da = l.b.mul(g, gate)?;
    let rest = one_less(l, gate)?;
    let slope = l.b.mul(a, rest)?;
    let db = l.b.mul(da, slope)?;
    let y = l.b.concat(&[da, db], axis)?;
    one(cast(l, y, out)?)
}

/// `Pred`: |x| is at most the limit.
fn within(l: &mut Lowering<'_>, x: ValueId, limit: f64) -> Built {
    let size = l.b.unary(UnaryOp::Abs, x)?;
    Ok(l.b.compare_scalar(CompareDir::Le, size, limit)?)
}

fn hardshrink(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let limit = c.float_or(l, 1, "lambd", 0.5)?;
    let x = c.tensor(l, 0, "self")?;
    let small = within(l, x, limit)?;
    one(where_not(l, small, x)?)
}

fn softshrink(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let limit = c.float_or(l, 1, "lambd", 0.5)?;
    function(l, c, |l, x| {
        let (less, more) = (plus(l, x, -limit)?, plus(l, x, limit)?);
        let above = l.b.compare_scalar(CompareDir::Gt, x, limit)?;
        let below = l.b.compare_scalar(CompareDir::Lt, x, -limit)?;
        let middle = scaled(l, x, 0.0)?;
        let low = l.b.select(below, more, middle)?;
        Ok(l.b.select(above, less, low)?)
    })
}

fn shrink_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let limit = c.float(l, 2, "lambd")?;
    gradient(l, c, "self", |l, g, x| {
        let small = within(l, x, limit)?;
        where_not(l, small, g)
    })
}
