//! Running sums, products and extrema along an axis.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, PadDim};
use clutch_graph::{DType, Op};

use super::arithmetic::log_sum_of_two;
use super::helpers::{Scalar, cast, filled, is_nan};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.cumsum.default", |l, c| running(l, c, Combiner::Add)),
    ("aten.cumprod.default", |l, c| running(l, c, Combiner::Mul)),
    ("aten.cummax.default", |l, c| extremum(l, c, true)),
    ("aten.cummin.default", |l, c| extremum(l, c, false)),
    ("aten.logcumsumexp.default", logcumsumexp),
];

fn running(l: &mut Lowering<'_>, c: &Call<'_>, combiner: Combiner) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (out, rank) = (c.out_dtype()?, l.b.rank(x));
    let axis = c.axis(l, 1, "dim", rank)?;
    let x = cast(l, x, out.compute_type())?;
    if rank == 0 || l.b.ty(x).numel() == 0 {
        return one(cast(l, x, out)?);
    }
    let r = l.b.op(Op::Cumulative { combiner, axis }, [x])?;
    one(cast(l, r, out)?)
}

/// Running extremum and the position of the last element that is it; a NaN stays the extremum from where it stands.
fn extremum(l: &mut Lowering<'_>, c: &Call<'_>, max: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let ty = l.b.ty(x).clone();
    let axis = c.axis(l, 1, "dim", ty.rank())?;
    if ty.rank() == 0 || ty.numel() == 0 {
        return many([x, filled(l, Scalar::Int(0), DType::S64, &ty.dims)?]);
    }
    let key = if ty.dtype == DType::Pred { l.b.convert(x, DType::U8)? } else { x };
    let combiner = if max { Combiner::Max } else { Combiner::Min };
    let values = l.b.op(Op::Cumulative { combiner, axis }, [key])?;
    let mut moved = l.b.compare(CompareDir::Eq, key, values)?;
    if ty.dtype.is_float() {
        let missing = is_nan(l, key)?;
        moved = l.b.binary(BinaryOp::Or, moved, missing)?;
    }
    let place = l.b.iota(DType::S64, &ty.dims, axis)?;
    let none = l.b.full_int(DType::S64, &ty.dims, -1)?;
    let place = l.b.select(moved, place, none)?;
    let positions = l.b.op(Op::Cumulative { combiner: Combiner::Max, axis }, [place])?;
    many([cast(l, values, ty.dtype)?, positions])
}

/// Doubling steps: after the step of distance d each element covers its 2d predecessors and itself.
fn logcumsumexp(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (out, dims) = (c.out_dtype()?, l.b.dims(x));
    if !out.is_float() {
        return Err(LowerError::unsupported("running log-sum-exp of complex numbers"));
    }
    let axis = c.axis(l, 1, "dim", dims.len())?;
    let mut sum = cast(l, x, out.compute_type())?;
    let length = dims.get(axis).copied().unwrap_or(1);
    let lowest = l.b.scalar(out.compute_type(), f64::NEG_INFINITY)?;
    let mut distance = 1;
    while distance < length && !dims.contains(&0) {
        let mut pads = vec![PadDim::default(); dims.len()];
        pads[axis] = PadDim { low: distance, high: -distance, interior: 0 };
        let earlier = l.b.pad(sum, lowest, &pads)?;
        sum = log_sum_of_two(l, earlier, sum, 1.0)?;
        distance *= 2;
    }
    one(cast(l, sum, out)?)
}
