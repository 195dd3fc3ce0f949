//! Order statistics of an axis: median and mode.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir};
use clutch_graph::{DType, Op, ValueId};

use super::helpers::{Scalar, filled, is_nan};
use super::sort::sorted;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.median.default", |l, c| of_all(l, c, false)),
    ("aten.median.dim", |l, c| along(l, c, false)),
    ("aten.nanmedian.default", |l, c| of_all(l, c, true)),
    ("aten.nanmedian.dim", |l, c| along(l, c, true)),
    ("aten.mode.default", mode),
];

type Built = Result<ValueId, LowerError>;

/// The element of each row that `place` (`S64`, size 1 along the axis) numbers; the axis is dropped.
fn pick(l: &mut Lowering<'_>, x: ValueId, axis: usize, place: ValueId) -> Built {
    let ty = l.b.ty(x).clone();
    let counted = l.b.iota(DType::S64, &ty.dims, axis)?;
    let place = l.b.expand(place, &ty.dims)?;
    let here = l.b.compare(CompareDir::Eq, counted, place)?;
    let zero = filled(l, Scalar::Int(0), ty.dtype, &ty.dims)?;
    let kept = l.b.select(here, x, zero)?;
    let combiner = if ty.dtype == DType::Pred { Combiner::Or } else { Combiner::Add };
    Ok(l.b.reduce(combiner, kept, &[axis])?)
}

/// The lower median of each row and its position. With a NaN in the row that NaN, or as if it were not there when `skip`.
fn median(l: &mut Lowering<'_>, x: ValueId, axis: usize, skip: bool) -> Result<[ValueId; 2], LowerError> {
    let (values, positions) = sorted(l, x, axis, false)?;
    let ty = l.b.ty(x).clone();
    let n = ty.dims[axis];
    let middle = (n - 1) / 2;
    if !ty.dtype.is_float() {
        let mut results = [values, positions];
        for r in &mut results {
            *r = l.b.slice_axis(*r, axis, middle, middle + 1, 1)?;
            *r = l.b.reduce(Combiner::Max, *r, &[axis])?;
        }
        return Ok(results);
    }
    let missing = is_nan(l, x)?;
    let missing = l.b.convert(missing, DType::S64)?;
    let missing = l.b.reduce_keep(Combiner::Add, missing, &[axis])?;
    let length = l.b.full_int(DType::S64, &l.b.dims(missing), n)?;
    let present = l.b.sub(length, missing)?;
    let place = if skip {
        let place = l.b.binary_int(BinaryOp::Sub, present, 1)?;
        let place = l.b.binary_int(BinaryOp::Max, place, 0)?;
        l.b.binary_int(BinaryOp::Div, place, 2)?
    } else {
        let ordinary = l.b.full_int(DType::S64, &l.b.dims(missing), middle)?;
        let complete = l.b.compare(CompareDir::Eq, present, length)?;
        l.b.select(complete, ordinary, present)?
    };
    Ok([pick(l, values, axis, place)?, pick(l, positions, axis, place)?])
}

fn of_all(l: &mut Lowering<'_>, c: &Call<'_>, skip: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let ty = l.b.ty(x).clone();
    if ty.numel() == 0 {
        return one(filled(l, Scalar::Float(f64::NAN), ty.dtype, &[])?);
    }
    let row = l.b.reshape(x, &[ty.numel()])?;
    one(median(l, row, 0, skip)?[0])
}

fn along(l: &mut Lowering<'_>, c: &Call<'_>, skip: bool) -> Result<Outputs, LowerError> {
    by_axis(l, c, |l, x, axis| median(l, x, axis, skip))
}

/// Value and position per row by `f`; tensors without axes count as one row of one.
fn by_axis<F>(l: &mut Lowering<'_>, c: &Call<'_>, f: F) -> Result<Outputs, LowerError>
where
    F: FnOnce(&mut Lowering<'_>, ValueId, usize) -> Result<[ValueId; 2], LowerError>,
{
    let x = c.tensor(l, 0, "self")?;
    let (ty, out) = (l.b.ty(x).clone(), c.out_dims(l)?);
    let axis = c.axis_or(l, 1, "dim", ty.rank(), -1)?;
    if ty.rank() == 0 || ty.numel() == 0 {
        let zeros = filled(l, Scalar::Int(0), DType::S64, &out)?;
        return many([l.b.reshape(x, &out)?, zeros]);
    }
    let mut results = f(l, x, axis)?;
    for r in &mut results {
        *r = l.b.reshape(*r, &out)?;
    }
    many(results)
}

/// The most frequent value of each row, the smallest of equally frequent ones, and the position of its last occurrence.
fn mode(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    by_axis(l, c, |l, x, axis| {
        let (values, positions) = sorted(l, x, axis, false)?;
        let dims = l.b.dims(x);
        let n = dims[axis];
        let counted = l.b.iota(DType::S64, &dims, axis)?;
        let mut start = filled(l, Scalar::Int(0), DType::S64, &dims)?;
        if n > 1 {
            let before = l.b.slice_axis(values, axis, 0, n - 1, 1)?;
            let after = l.b.slice_axis(values, axis, 1, n, 1)?;
            let changed = l.b.compare(CompareDir::Ne, before, after)?;
            let here = l.b.slice_axis(counted, axis, 1, n, 1)?;
            let first = l.b.slice_axis(start, axis, 0, 1, 1)?;
            let none = l.b.full_like(here, 0.0)?;
            let starts = l.b.select(changed, here, none)?;
            start = l.b.concat(&[first, starts], axis)?;
            start = l.b.op(Op::Cumulative { combiner: Combiner::Max, axis }, [start])?;
        }
        let length = l.b.sub(counted, start)?;
        let place = l.b.op(Op::ArgReduce { axis, max: true }, [length])?;
        let place = l.b.unsqueeze(place, axis)?;
        Ok([pick(l, values, axis, place)?, pick(l, positions, axis, place)?])
    })
}
