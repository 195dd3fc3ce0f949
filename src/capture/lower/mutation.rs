//! Writes to inputs, overwriting values, and assertions.

use clutch_graph::DType;
use clutch_graph::op::{Combiner, CompareDir};

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
    ("torch.ops.higher_order.with_effects", with_effects),
    ("prims._make_token.default", token),
    ("prims._sink_tokens.default", nothing),
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

/// The token of effects in an order: a tensor without elements.
fn token(l: &mut Lowering<'_>, _: &Call<'_>) -> Result<Outputs, LowerError> {
    one(l.b.full(DType::F32, &[0], 0.0)?)
}

/// An operator with an effect, whose place among others a token holds: the check that a linear system had a solution.
fn with_effects(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let token = c.tensor(l, 0, "token")?;
    match c.arg(1, "op") {
        Some(Arg::Str(op)) if op == "aten._linalg_check_errors.default" => {}
        Some(Arg::Str(op)) => return Err(LowerError::unsupported(format!("no lowering for the effect of {op}"))),
        _ => return Err(LowerError::Argument { index: 1, name: "op", expected: "an operator" }),
    }
    let info = c.tensor(l, 2, "info")?;
    let axes: Vec<usize> = (0..l.b.rank(info)).collect();
    let well = l.b.compare_scalar(CompareDir::Eq, info, 0.0)?;
    let all = l.b.reduce(Combiner::And, well, &axes)?;
    let name = match c.arg(3, "api_name") {
        Some(Arg::Str(name)) => name.as_str(),
        _ => "linalg",
    };
    l.assert(all, format!("{name}: the computation could not be completed because the input matrix is singular or not positive-definite"));
    let mut outputs = Outputs::new();
    outputs.push(Some(token));
    outputs.resize(c.node.outputs.len().max(1), None);
    Ok(outputs)
}

/// Capture has checked assertions on types and sizes.
fn nothing(_: &mut Lowering<'_>, _: &Call<'_>) -> Result<Outputs, LowerError> {
    Ok(Outputs::new())
}
