//! Conversions of element types.

use clutch_graph::op::{BinaryOp, UnaryOp};
use clutch_graph::{DType, Op, ValueId};

use super::helpers::{Scalar, cast, filled, fit};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};
use crate::capture::program::Arg;

/// Operators of this family.
pub const OPS: Family = &[
    ("aten._to_copy.default", convert),
    ("aten.to.dtype", convert),
    ("aten.type_as.default", convert),
    ("prims.convert_element_type.default", convert),
    ("prims.device_put.default", convert),
    ("prims.clone.default", convert),
    ("aten.clone.default", convert),
    ("aten.lift_fresh.default", convert),
    ("aten.lift_fresh_copy.default", convert),
    ("aten.contiguous.default", convert),
    ("aten.view.dtype", view_dtype),
    ("aten.view_as_real.default", view_as_real),
    ("aten.view_as_complex.default", view_as_complex),
    ("aten.view_as_real_copy.default", view_as_real),
    ("aten.view_as_complex_copy.default", view_as_complex),
    ("aten.real.default", |l, c| part(l, c, UnaryOp::Real)),
    ("aten.imag.default", |l, c| part(l, c, UnaryOp::Imag)),
    ("aten._conj.default", conj),
    ("aten._conj_physical.default", conj),
    ("aten.conj_physical.default", conj),
    ("aten.resolve_conj.default", convert),
    ("aten.resolve_neg.default", convert),
];

fn convert(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(cast(l, x, c.out_dtype()?)?)
}

/// The same bytes as elements of another type: the last axis grows or shrinks where the sizes differ.
fn view_dtype(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (from, to, dims) = (l.b.dtype(x), c.out_dtype()?, c.out_dims(l)?);
    if from == to {
        return one(x);
    }
    if from == DType::Pred || to == DType::Pred || from.is_complex() || to.is_complex() {
        return Err(LowerError::unsupported("bytes of boolean or complex elements as another type"));
    }
    if from.size() == to.size() {
        return one(l.b.op(Op::Bitcast(to), [x])?);
    }
    let (Some(wide), Some(narrow)) = (unsigned(from.size().max(to.size())), unsigned(from.size().min(to.size()))) else {
        return Err(LowerError::unsupported("bytes of this element type as another type"));
    };
    let ratio = from.size().max(to.size()) / from.size().min(to.size());
    let step = 8 * narrow.size() as i64;
    let rank = dims.len();
    let raw = |l: &mut Lowering<'_>, x: ValueId, as_type: DType| -> Result<ValueId, LowerError> {
        Ok(if l.b.dtype(x) == as_type { x } else { l.b.op(Op::Bitcast(as_type), [x])? })
    };
    if from.size() > to.size() {
        let x = raw(l, x, wide)?;
        let mut pieces = Vec::with_capacity(ratio);
        for i in 0..ratio as i64 {
            let shifted = l.b.binary_int(BinaryOp::ShiftRightLogical, x, i * step)?;
            let piece = l.b.convert(shifted, narrow)?;
            pieces.push(l.b.unsqueeze(piece, rank)?);
        }
        let joined = l.b.concat(&pieces, rank)?;
        let flat = l.b.reshape(joined, &dims)?;
        return one(raw(l, flat, to)?);
    }
    let x = raw(l, x, narrow)?;
    let mut split = dims.clone();
    split.push(ratio as i64);
    let x = l.b.reshape(x, &split)?;
    let mut sum = None;
    for i in 0..ratio as i64 {
        let piece = l.b.slice_axis(x, rank, i, i + 1, 1)?;
        let piece = l.b.reshape(piece, &dims)?;
        let piece = l.b.convert(piece, wide)?;
        let piece = l.b.binary_int(BinaryOp::ShiftLeft, piece, i * step)?;
        sum = Some(match sum {
            None => piece,
            Some(s) => l.b.binary(BinaryOp::Or, s, piece)?,
        });
    }
    match sum {
        Some(s) => one(raw(l, s, to)?),
        None => Err(LowerError::unsupported("bytes of this element type as another type")),
    }
}

fn unsigned(size: usize) -> Option<DType> {
    Some(match size {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        8 => DType::U64,
        _ => return None,
    })
}

fn view_as_real(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let rank = l.b.rank(x);
    let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
    let (re, im) = (l.b.unsqueeze(re, rank)?, l.b.unsqueeze(im, rank)?);
    one(l.b.concat(&[re, im], rank)?)
}

fn view_as_complex(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = c.out_dims(l)?;
    let axis = dims.len();
    let re = l.b.slice_axis(x, axis, 0, 1, 1)?;
    let im = l.b.slice_axis(x, axis, 1, 2, 1)?;
    let (re, im) = (l.b.reshape(re, &dims)?, l.b.reshape(im, &dims)?);
    one(l.b.binary(BinaryOp::Complex, re, im)?)
}

fn part(l: &mut Lowering<'_>, c: &Call<'_>, op: UnaryOp) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(if l.b.dtype(x).is_complex() { l.b.unary(op, x)? } else { x })
}

fn conj(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    if let Some(Arg::Complex(re, im)) = c.arg(0, "self") {
        return one(filled(l, Scalar::Complex(*re, -im), c.out_dtype()?, &c.out_dims(l)?)?);
    }
    let x = c.tensor(l, 0, "self")?;
    if !l.b.dtype(x).is_complex() {
        return one(x);
    }
    let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
    let im = l.b.unary(UnaryOp::Neg, im)?;
    one(l.b.binary(BinaryOp::Complex, re, im)?)
}

/// The value as the call's first result: converted and expanded.
pub(super) fn as_result(l: &mut Lowering<'_>, c: &Call<'_>, x: ValueId) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    one(fit(l, x, dtype, &dims)?)
}
