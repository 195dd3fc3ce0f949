//! Floats in parts: scaling by powers of two, fraction and exponent, neighbours.

use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{DType, Op};

use super::arithmetic::truncate;
use super::helpers::{cast, fit, operand, place};
use super::special::with;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[("aten.ldexp.Tensor", ldexp), ("aten.frexp.Tensor", frexp), ("aten.nextafter.default", nextafter)];

/// x times 2 to the power of the second operand, in two factors so that neither overflows first.
fn ldexp(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, e) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let x = place(l, x, out.compute_type(), &dims)?;
    let e = place(l, e, out.compute_type(), &dims)?;
    let two = l.b.full_like(x, 2.0)?;
    let half = with(l, BinaryOp::Mul, e, 0.5)?;
    let first = truncate(l, half)?;
    let second = l.b.sub(e, first)?;
    let (a, b) = (l.b.binary(BinaryOp::Pow, two, first)?, l.b.binary(BinaryOp::Pow, two, second)?);
    let y = l.b.mul(x, a)?;
    let y = l.b.mul(y, b)?;
    one(cast(l, y, out)?)
}

/// Fraction in [1/2, 1) and power of two, from the bits alone: devices may take numbers below the normal range for zero.
fn frexp(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dtype = l.b.dtype(x);
    let (compute, raw, mantissa, width) = match dtype {
        DType::F64 => (DType::F64, DType::S64, 52, 64),
        _ => (DType::F32, DType::S32, 23, 32),
    };
    let ones: i64 = (1 << (width - 1 - mantissa)) - 1;
    let bias = ones / 2 - 1;
    let x = cast(l, x, compute)?;
    let bits = l.b.op(Op::Bitcast(raw), [x])?;
    let field = l.b.binary_int(BinaryOp::ShiftRightLogical, bits, mantissa)?;
    let field = l.b.binary_int(BinaryOp::And, field, ones)?;
    let low = l.b.binary_int(BinaryOp::And, bits, (1 << mantissa) - 1)?;
    let zero = l.b.full_int(raw, &l.b.dims(x), 0)?;
    let (no_field, no_low) = (l.b.compare(CompareDir::Eq, field, zero)?, l.b.compare(CompareDir::Eq, low, zero)?);
    // Below the normal range the leading one of the mantissa moves to where the implicit one is.
    let zeros = l.b.unary(UnaryOp::CountLeadingZeros, low)?;
    let shift = l.b.binary_int(BinaryOp::Sub, zeros, width - 1 - mantissa)?;
    let moved = l.b.binary(BinaryOp::ShiftLeft, low, shift)?;
    let moved = l.b.binary_int(BinaryOp::And, moved, (1 << mantissa) - 1)?;
    let low = l.b.select(no_field, moved, low)?;
    let first = l.b.full_int(raw, &l.b.dims(x), 1)?;
    let lowered = l.b.sub(first, shift)?;
    let field = l.b.select(no_field, lowered, field)?;
    let exponent = l.b.binary_int(BinaryOp::Sub, field, bias)?;
    let sign = l.b.binary_int(BinaryOp::And, bits, -1 << (width - 1))?;
    let halves = l.b.binary_int(BinaryOp::Or, low, bias << mantissa)?;
    let halves = l.b.binary(BinaryOp::Or, halves, sign)?;
    let fraction = l.b.op(Op::Bitcast(compute), [halves])?;
    let nothing = l.b.binary(BinaryOp::And, no_field, no_low)?;
    let last = l.b.full_int(raw, &l.b.dims(x), ones)?;
    let special = l.b.compare(CompareDir::Eq, field, last)?;
    let special = l.b.binary(BinaryOp::Or, nothing, special)?;
    let exponent = l.b.select(special, zero, exponent)?;
    let fraction = l.b.select(special, x, fraction)?;
    many([cast(l, fraction, dtype)?, cast(l, exponent, DType::S32)?])
}

/// The neighbour of x in the direction of the second operand, by stepping the bits.
fn nextafter(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "other")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let raw = match out {
        DType::F64 => DType::S64,
        DType::F32 => DType::S32,
        DType::BF16 | DType::F16 => DType::S16,
        _ => return Err(LowerError::unsupported("neighbours in this element type")),
    };
    let x = fit(l, x, out, &dims)?;
    let y = fit(l, y, out, &dims)?;
    let bits = l.b.op(Op::Bitcast(raw), [x])?;
    let (one_, minus) = (l.b.full_int(raw, &dims, 1)?, l.b.full_int(raw, &dims, -1)?);
    let zero = l.b.full_like(x, 0.0)?;
    let upward = l.b.compare(CompareDir::Gt, y, x)?;
    let positive = l.b.compare(CompareDir::Gt, x, zero)?;
    let away = l.b.compare(CompareDir::Eq, upward, positive)?;
    let step = l.b.select(away, one_, minus)?;
    let moved = l.b.add(bits, step)?;
    let moved = l.b.op(Op::Bitcast(out), [moved])?;
    let smallest = l.b.op(Op::Bitcast(out), [one_])?;
    let below = l.b.unary(UnaryOp::Neg, smallest)?;
    let from_zero = l.b.select(upward, smallest, below)?;
    let is_zero = l.b.compare(CompareDir::Eq, x, zero)?;
    let moved = l.b.select(is_zero, from_zero, moved)?;
    let equal = l.b.compare(CompareDir::Eq, x, y)?;
    let moved = l.b.select(equal, y, moved)?;
    let (x_nan, y_nan) = (l.b.compare(CompareDir::Ne, x, x)?, l.b.compare(CompareDir::Ne, y, y)?);
    let moved = l.b.select(y_nan, y, moved)?;
    one(l.b.select(x_nan, x, moved)?)
}
