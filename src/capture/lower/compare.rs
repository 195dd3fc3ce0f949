//! Comparisons, logical and bitwise operators, choices and bounds.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, UnaryOp};
use clutch_graph::{DType, ValueId};

use super::helpers::{Operand, Scalar, cast, filled, fit, is_nan, operand, opt_operand, place, result_type};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.eq.Tensor", |l, c| compare(l, c, CompareDir::Eq)),
    ("aten.eq.Scalar", |l, c| compare(l, c, CompareDir::Eq)),
    ("aten.ne.Tensor", |l, c| compare(l, c, CompareDir::Ne)),
    ("aten.ne.Scalar", |l, c| compare(l, c, CompareDir::Ne)),
    ("aten.lt.Tensor", |l, c| compare(l, c, CompareDir::Lt)),
    ("aten.lt.Scalar", |l, c| compare(l, c, CompareDir::Lt)),
    ("aten.le.Tensor", |l, c| compare(l, c, CompareDir::Le)),
    ("aten.le.Scalar", |l, c| compare(l, c, CompareDir::Le)),
    ("aten.gt.Tensor", |l, c| compare(l, c, CompareDir::Gt)),
    ("aten.gt.Scalar", |l, c| compare(l, c, CompareDir::Gt)),
    ("aten.ge.Tensor", |l, c| compare(l, c, CompareDir::Ge)),
    ("aten.ge.Scalar", |l, c| compare(l, c, CompareDir::Ge)),
    ("aten.isnan.default", isnan),
    ("aten.isinf.default", isinf),
    ("aten.isfinite.default", isfinite),
    ("aten.isposinf.default", |l, c| is_infinity(l, c, f64::INFINITY)),
    ("aten.isneginf.default", |l, c| is_infinity(l, c, f64::NEG_INFINITY)),
    ("aten.logical_and.default", |l, c| logical(l, c, BinaryOp::And)),
    ("aten.logical_or.default", |l, c| logical(l, c, BinaryOp::Or)),
    ("aten.logical_xor.default", |l, c| logical(l, c, BinaryOp::Xor)),
    ("aten.logical_not.default", logical_not),
    ("aten.bitwise_and.Tensor", |l, c| bitwise(l, c, BinaryOp::And)),
    ("aten.bitwise_and.Scalar", |l, c| bitwise(l, c, BinaryOp::And)),
    ("aten.bitwise_and.Scalar_Tensor", |l, c| bitwise(l, c, BinaryOp::And)),
    ("aten.bitwise_or.Tensor", |l, c| bitwise(l, c, BinaryOp::Or)),
    ("aten.bitwise_or.Scalar", |l, c| bitwise(l, c, BinaryOp::Or)),
    ("aten.bitwise_or.Scalar_Tensor", |l, c| bitwise(l, c, BinaryOp::Or)),
    ("aten.bitwise_xor.Tensor", |l, c| bitwise(l, c, BinaryOp::Xor)),
    ("aten.bitwise_xor.Scalar", |l, c| bitwise(l, c, BinaryOp::Xor)),
    ("aten.bitwise_xor.Scalar_Tensor", |l, c| bitwise(l, c, BinaryOp::Xor)),
    ("aten.bitwise_not.default", bitwise_not),
    ("aten.bitwise_left_shift.Tensor", |l, c| shift(l, c, BinaryOp::ShiftLeft)),
    ("aten.bitwise_left_shift.Tensor_Scalar", |l, c| shift(l, c, BinaryOp::ShiftLeft)),
    ("aten.bitwise_left_shift.Scalar_Tensor", |l, c| shift(l, c, BinaryOp::ShiftLeft)),
    ("aten.__lshift__.Tensor", |l, c| shift(l, c, BinaryOp::ShiftLeft)),
    ("aten.__lshift__.Scalar", |l, c| shift(l, c, BinaryOp::ShiftLeft)),
    ("aten.bitwise_right_shift.Tensor", |l, c| shift(l, c, BinaryOp::ShiftRightArithmetic)),
    ("aten.bitwise_right_shift.Tensor_Scalar", |l, c| shift(l, c, BinaryOp::ShiftRightArithmetic)),
    ("aten.bitwise_right_shift.Scalar_Tensor", |l, c| shift(l, c, BinaryOp::ShiftRightArithmetic)),
    ("aten.__rshift__.Tensor", |l, c| shift(l, c, BinaryOp::ShiftRightArithmetic)),
    ("aten.__rshift__.Scalar", |l, c| shift(l, c, BinaryOp::ShiftRightArithmetic)),
    ("aten.where.self", where_),
    ("aten.where.ScalarSelf", where_),
    ("aten.where.ScalarOther", where_),
    ("aten.where.Scalar", where_),
    ("aten.masked_fill.Scalar", masked_fill),
    ("aten.masked_fill.Tensor", masked_fill),
    ("aten.clamp.default", |l, c| clamp(l, c, Some((1, "min")), Some((2, "max")))),
    ("aten.clamp.Tensor", |l, c| clamp(l, c, Some((1, "min")), Some((2, "max")))),
    ("aten.clamp_min.default", |l, c| clamp(l, c, Some((1, "min")), None)),
    ("aten.clamp_min.Tensor", |l, c| clamp(l, c, Some((1, "min")), None)),
    ("aten.clamp_max.default", |l, c| clamp(l, c, None, Some((1, "max")))),
    ("aten.clamp_max.Tensor", |l, c| clamp(l, c, None, Some((1, "max")))),
    ("aten.maximum.default", |l, c| extremum(l, c, true, true)),
    ("aten.minimum.default", |l, c| extremum(l, c, false, true)),
    ("aten.fmax.default", |l, c| extremum(l, c, true, false)),
    ("aten.fmin.default", |l, c| extremum(l, c, false, false)),
    ("aten.isin.Tensor_Tensor", isin),
    ("aten.isin.Tensor_Scalar", isin),
    ("aten.isin.Scalar_Tensor", isin),
];

type Built = Result<ValueId, LowerError>;

fn compare(l: &mut Lowering<'_>, c: &Call<'_>, dir: CompareDir) -> Result<Outputs, LowerError> {
    let (a, b) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    let dims = c.out_dims(l)?;
    let dtype = result_type(l, &[a, b]);
    let x = place(l, a, dtype, &dims)?;
    let y = place(l, b, dtype, &dims)?;
    one(l.b.compare(dir, x, y)?)
}

/// False everywhere, of the sizes of `x`.
fn nowhere(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let dims = l.b.dims(x);
    filled(l, Scalar::Bool(false), DType::Pred, &dims)
}

fn isnan(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dtype = l.b.dtype(x);
    one(if dtype.is_float() || dtype.is_complex() { is_nan(l, x)? } else { nowhere(l, x)? })
}

fn isinf(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dtype = l.b.dtype(x);
    one(if dtype.is_complex() {
        let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
        let (re, im) = (infinite(l, re)?, infinite(l, im)?);
        l.b.binary(BinaryOp::Or, re, im)?
    } else if dtype.is_float() {
        infinite(l, x)?
    } else {
        nowhere(l, x)?
    })
}

/// `Pred`: either infinity.
fn infinite(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let size = l.b.unary(UnaryOp::Abs, x)?;
    Ok(l.b.compare_scalar(CompareDir::Eq, size, f64::INFINITY)?)
}

fn isfinite(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dtype = l.b.dtype(x);
    one(if dtype.is_complex() {
        let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
        let (re, im) = (l.b.unary(UnaryOp::IsFinite, re)?, l.b.unary(UnaryOp::IsFinite, im)?);
        l.b.binary(BinaryOp::And, re, im)?
    } else if dtype.is_float() {
        l.b.unary(UnaryOp::IsFinite, x)?
    } else {
        let dims = l.b.dims(x);
        filled(l, Scalar::Bool(true), DType::Pred, &dims)?
    })
}

fn is_infinity(l: &mut Lowering<'_>, c: &Call<'_>, which: f64) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(if l.b.dtype(x).is_float() { l.b.compare_scalar(CompareDir::Eq, x, which)? } else { nowhere(l, x)? })
}

fn logical(l: &mut Lowering<'_>, c: &Call<'_>, op: BinaryOp) -> Result<Outputs, LowerError> {
    let dims = c.out_dims(l)?;
    let (a, b) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "other")?);
    let x = fit(l, a, DType::Pred, &dims)?;
    let y = fit(l, b, DType::Pred, &dims)?;
    one(l.b.binary(op, x, y)?)
}

fn logical_not(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let x = cast(l, x, DType::Pred)?;
    one(l.b.unary(UnaryOp::Not, x)?)
}

fn bitwise(l: &mut Lowering<'_>, c: &Call<'_>, op: BinaryOp) -> Result<Outputs, LowerError> {
    let (a, b) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let x = place(l, a, out, &dims)?;
    let y = place(l, b, out, &dims)?;
    one(l.b.binary(op, x, y)?)
}

fn bitwise_not(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(l.b.unary(UnaryOp::Not, x)?)
}

fn shift(l: &mut Lowering<'_>, c: &Call<'_>, op: BinaryOp) -> Result<Outputs, LowerError> {
    let (a, b) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    if !out.is_int() {
        return Err(LowerError::unsupported("shifts of other than integers"));
    }
    let op = if out.is_unsigned_int() && op == BinaryOp::ShiftRightArithmetic { BinaryOp::ShiftRightLogical } else { op };
    let x = place(l, a, out, &dims)?;
    let y = place(l, b, out, &dims)?;
    one(l.b.binary(op, x, y)?)
}

fn where_(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let condition = c.tensor(l, 0, "condition")?;
    let (a, b) = (operand(l, c, 1, "self")?, operand(l, c, 2, "other")?);
    let condition = fit(l, condition, DType::Pred, &dims)?;
    let x = place(l, a, out, &dims)?;
    let y = place(l, b, out, &dims)?;
    one(l.b.select(condition, x, y)?)
}

fn masked_fill(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let (x, mask) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mask")?);
    let value = operand(l, c, 2, "value")?;
    let x = fit(l, x, out, &dims)?;
    let mask = fit(l, mask, DType::Pred, &dims)?;
    let value = place(l, value, out, &dims)?;
    one(l.b.select(mask, value, x)?)
}

type Bound = Option<(usize, &'static str)>;

fn clamp(l: &mut Lowering<'_>, c: &Call<'_>, low: Bound, high: Bound) -> Result<Outputs, LowerError> {
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let x = c.tensor(l, 0, "self")?;
    let mut r = fit(l, x, out, &dims)?;
    for (bound, op) in [(low, BinaryOp::Max), (high, BinaryOp::Min)] {
        let Some((index, name)) = bound else { continue };
        if let Some(o) = opt_operand(l, c, index, name)? {
            let o = place(l, o, out, &dims)?;
            r = l.b.binary(op, r, o)?;
        }
    }
    one(r)
}

fn extremum(l: &mut Lowering<'_>, c: &Call<'_>, max: bool, nan_wins: bool) -> Result<Outputs, LowerError> {
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let (a, b) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    let x = place(l, a, out, &dims)?;
    let y = place(l, b, out, &dims)?;
    let op = match (out, max) {
        (DType::Pred, true) => BinaryOp::Or,
        (DType::Pred, false) => BinaryOp::And,
        (_, true) => BinaryOp::Max,
        (_, false) => BinaryOp::Min,
    };
    let r = l.b.binary(op, x, y)?;
    if nan_wins || !out.is_float() {
        return one(r);
    }
    let (x_nan, y_nan) = (is_nan(l, x)?, is_nan(l, y)?);
    let r = l.b.select(x_nan, y, r)?;
    one(l.b.select(y_nan, x, r)?)
}

fn isin(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (elements, tests) = (operand(l, c, 0, "elements")?, operand(l, c, 1, "test_elements")?);
    let invert = c.bool_or(3, "invert", false)?;
    let mut dims = c.out_dims(l)?;
    let rank = dims.len();
    let dtype = result_type(l, &[elements, tests]);
    let x = place(l, elements, dtype, &dims)?;
    let tests = match tests {
        Operand::Tensor(v) => {
            let count = l.b.ty(v).numel();
            l.b.reshape(v, &[count])?
        }
        Operand::Scalar(s) => filled(l, s, dtype, &[1])?,
    };
    let tests = cast(l, tests, dtype)?;
    dims.push(l.b.ty(tests).dims[0]);
    let axes: Vec<usize> = (0..rank).collect();
    let x = l.b.broadcast_in_dim(x, &dims, &axes)?;
    let tests = l.b.broadcast_in_dim(tests, &dims, &[rank])?;
    let equal = l.b.compare(CompareDir::Eq, x, tests)?;
    let found = l.b.reduce(Combiner::Or, equal, &[rank])?;
    one(if invert { l.b.unary(UnaryOp::Not, found)? } else { found })
}
