//! Writes to inputs, overwriting values, and assertions.

use clutch_graph::DType;

use super::cast::as_result;
use super::helpers::{operand, place};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};
use crate::capture::program::Arg;

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.copy_.default", copy_back),
    ("aten.copy.default", copy),
    ("aten.fill.Scalar", fill),
    ("aten.fill.Tensor", fill),
    ("aten._assert_tensor_metadata.default", nothing),
    ("aten._assert_async.default", assert_async),
    ("aten._assert_async.msg", assert_async),
];

/// Functional graphs write to inputs at their end only: the input takes on the value.
fn copy_back(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let outputs = copy(l, c)?;
    match (c.arg(0, "self"), outputs.first()) {
        (Some(Arg::Value(target)), Some(Some(value))) => l.write_back(*target, *value)?,
        _ => return Err(LowerError::Argument { index: 0, name: "self", expected: "a tensor" }),
    }
    Ok(outputs)
}

fn copy(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let src = c.tensor(l, 1, "src")?;
    as_result(l, c, src)
}

fn fill(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let value = operand(l, c, 1, "value")?;
    one(place(l, value, dtype, &dims)?)
}

/// The host reads the condition after the program has run, before any result or write is seen.
fn assert_async(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let condition = c.tensor(l, 0, "self")?;
    if l.b.ty(condition).numel() != 1 {
        return Err(LowerError::unsupported("it asserts a tensor that is not one value"));
    }
    let scalar = l.b.reshape(condition, &[])?;
    let holds = l.b.convert(scalar, DType::Pred)?;
    let message = match c.arg(1, "assert_msg") {
        Some(Arg::Str(message)) => message.clone(),
        _ => "Expected Tensor with single nonzero value, but got zero".to_owned(),
    };
    l.assert(holds, message);
    Ok(Outputs::new())
}

/// Capture has checked assertions on types and sizes.
fn nothing(_: &mut Lowering<'_>, _: &Call<'_>) -> Result<Outputs, LowerError> {
    Ok(Outputs::new())
}
