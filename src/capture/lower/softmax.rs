//! Softmax, its logarithm and their gradients.

use clutch_graph::op::{Combiner, CompareDir, UnaryOp};
use clutch_graph::{Op, ValueId};

use super::helpers::cast;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten._softmax.default", |l, c| forward(l, c, false)),
    ("aten.softmax.int", |l, c| forward(l, c, false)),
    ("aten._log_softmax.default", |l, c| forward(l, c, true)),
    ("aten.log_softmax.int", |l, c| forward(l, c, true)),
    ("aten._safe_softmax.default", safe_softmax),
    ("aten._softmax_backward_data.default", softmax_backward),
    ("aten._log_softmax_backward_data.default", log_softmax_backward),
];

type Built = Result<ValueId, LowerError>;

/// Softmax along an axis, in the compute type; a scalar is a row of one.
fn softmax(l: &mut Lowering<'_>, x: ValueId, axis: usize, log: bool) -> Built {
    if l.b.rank(x) > 0 {
        return Ok(l.b.op(Op::Softmax { axis, log }, [x])?);
    }
    let row = l.b.reshape(x, &[1])?;
    let y = l.b.op(Op::Softmax { axis: 0, log }, [row])?;
    Ok(l.b.reshape(y, &[])?)
}

fn forward(l: &mut Lowering<'_>, c: &Call<'_>, log: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axis = c.axis(l, 1, "dim", l.b.rank(x))?;
    let x = cast(l, x, c.out_dtype()?)?;
    one(softmax(l, x, axis, log)?)
}

/// Softmax that gives 0 for a row of only -inf.
fn safe_softmax(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axis = c.axis(l, 1, "dim", l.b.rank(x))?;
    let x = cast(l, x, c.out_dtype()?)?;
    let y = softmax(l, x, axis, false)?;
    let dims = l.b.dims(x);
    let absent = l.b.compare_scalar(CompareDir::Eq, x, f64::NEG_INFINITY)?;
    let none = if dims.is_empty() { absent } else { l.b.reduce_keep(Combiner::And, absent, &[axis])? };
    let none = l.b.expand(none, &dims)?;
    let zero = l.b.full_like(y, 0.0)?;
    one(l.b.select(none, zero, y)?)
}

/// Incoming gradient and saved result in the compute type, and the axis.
fn saved(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<(ValueId, ValueId, Option<usize>), LowerError> {
    let (g, y) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "output")?);
    let rank = l.b.rank(y);
    let axis = c.axis(l, 2, "dim", rank)?;
    let compute = l.b.dtype(y).compute_type();
    Ok((cast(l, g, compute)?, cast(l, y, compute)?, (rank > 0).then_some(axis)))
}

/// Sum along the axis, spread over it.
fn total(l: &mut Lowering<'_>, x: ValueId, axis: Option<usize>) -> Built {
    let dims = l.b.dims(x);
    match axis {
        None => Ok(x),
        Some(axis) => {
            let sum = l.b.reduce_keep(Combiner::Add, x, &[axis])?;
            Ok(l.b.expand(sum, &dims)?)
        }
    }
}

fn softmax_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, y, axis) = saved(l, c)?;
    let product = l.b.mul(g, y)?;
    let sum = total(l, product, axis)?;
    let share = l.b.mul(y, sum)?;
    let dx = l.b.sub(product, share)?;
    one(cast(l, dx, c.out_dtype()?)?)
}

fn log_softmax_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, y, axis) = saved(l, c)?;
    let e = l.b.unary(UnaryOp::Exp, y)?;
    let sum = total(l, g, axis)?;
    let share = l.b.mul(e, sum)?;
    let dx = l.b.sub(g, share)?;
    one(cast(l, dx, c.out_dtype()?)?)
}
