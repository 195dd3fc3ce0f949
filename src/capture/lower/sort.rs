//! Order: sorts, selections, searches and histograms.

use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, ScatterDims, UnaryOp};
use clutch_graph::{DType, Op, ValueId};

use super::helpers::{Operand, Scalar, cast, filled, is_nan, operand, place};
use super::scatter::Elements;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.sort.default", |l, c| sort(l, c, 1)),
    ("aten.sort.stable", |l, c| sort(l, c, 2)),
    ("aten.argsort.default", |l, c| argsort(l, c, 1)),
    ("aten.argsort.stable", |l, c| argsort(l, c, 2)),
    ("aten.msort.default", msort),
    ("aten.topk.default", topk),
    ("aten.kthvalue.default", kthvalue),
    ("aten.searchsorted.Tensor", searchsorted),
    ("aten.searchsorted.Scalar", searchsorted),
    ("aten.bucketize.Tensor", bucketize),
    ("aten.bucketize.Scalar", bucketize),
    ("aten.histc.default", histc),
    ("aten.bincount.default", bincount),
];

/// Sorted values and their positions along an axis; equal elements keep their order.
pub(super) fn sorted(l: &mut Lowering<'_>, x: ValueId, axis: usize, descending: bool) -> Result<(ValueId, ValueId), LowerError> {
    let ty = l.b.ty(x).clone();
    if ty.rank() == 0 || ty.numel() == 0 {
        return Ok((x, filled(l, Scalar::Int(0), DType::S64, &ty.dims)?));
    }
    let key = if ty.dtype == DType::Pred { l.b.convert(x, DType::U8)? } else { x };
    let positions = l.b.iota(DType::S64, &ty.dims, axis)?;
    let r = l.b.op_multi(Op::Sort { axis, descending, stable: true }, [key, positions])?;
    Ok((cast(l, r[0], ty.dtype)?, r[1]))
}

/// `dim` and `descending` at `first` and after; `sort.stable` has its flag before them.
fn order(l: &Lowering<'_>, c: &Call<'_>, x: ValueId, first: usize) -> Result<(usize, bool), LowerError> {
    Ok((c.axis_or(l, first, "dim", l.b.rank(x), -1)?, c.bool_or(first + 1, "descending", false)?))
}

fn sort(l: &mut Lowering<'_>, c: &Call<'_>, first: usize) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (axis, descending) = order(l, c, x, first)?;
    let (values, positions) = sorted(l, x, axis, descending)?;
    many([values, positions])
}

fn argsort(l: &mut Lowering<'_>, c: &Call<'_>, first: usize) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (axis, descending) = if first == 2 {
        (c.axis_or(l, usize::MAX, "dim", l.b.rank(x), -1)?, c.bool_or(usize::MAX, "descending", false)?)
    } else {
        order(l, c, x, first)?
    };
    one(sorted(l, x, axis, descending)?.1)
}

fn msort(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(sorted(l, x, 0, false)?.0)
}

/// The permutation that exchanges `axis` and the last axis.
fn to_last(rank: usize, axis: usize) -> Axes {
    let mut perm: Axes = (0..rank).collect();
    if rank > 0 {
        perm.swap(axis, rank - 1);
    }
    perm
}

fn topk(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (ty, k) = (l.b.ty(x).clone(), c.int(l, 1, "k")?);
    let axis = c.axis_or(l, 2, "dim", ty.rank(), -1)?;
    let largest = c.bool_or(3, "largest", true)?;
    let out = c.out_dims(l)?;
    if ty.rank() == 0 || out.contains(&0) {
        let positions = filled(l, Scalar::Int(0), DType::S64, &out)?;
        let values = if ty.rank() == 0 && k > 0 { x } else { filled(l, Scalar::Int(0), ty.dtype, &out)? };
        return many([values, positions]);
    }
    let key = if ty.dtype == DType::Pred { l.b.convert(x, DType::U8)? } else { x };
    let perm = to_last(ty.rank(), axis);
    let key = l.b.transpose(key, &perm)?;
    let r = l.b.op_multi(Op::TopK { k, largest }, [key])?;
    let (values, positions) = (l.b.transpose(r[0], &perm)?, l.b.transpose(r[1], &perm)?);
    many([cast(l, values, ty.dtype)?, positions])
}

fn kthvalue(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (dims, k, out) = (l.b.dims(x), c.int(l, 1, "k")?, c.out_dims(l)?);
    let axis = c.axis_or(l, 2, "dim", dims.len(), -1)?;
    let (values, positions) = sorted(l, x, axis, false)?;
    let mut results = [values, positions];
    for r in &mut results {
        if !dims.is_empty() {
            *r = l.b.slice_axis(*r, axis, k - 1, k, 1)?;
        }
        *r = l.b.reshape(*r, &out)?;
    }
    many(results)
}

/// For each value, how many of the sorted entries (last axis of `entries`, leading axes equal or absent) are below it, or not above it when
/// `right`. NaN counts as the largest.
fn insertion_points(l: &mut Lowering<'_>, entries: ValueId, values: ValueId, right: bool) -> Result<ValueId, LowerError> {
    let (entry_dims, value_dims) = (l.b.dims(entries), l.b.dims(values));
    let (n, rank) = (entry_dims[entry_dims.len() - 1], value_dims.len());
    let mut wide = value_dims.clone();
    wide.push(n);
    let axes: Axes = (0..rank).collect();
    let v = l.b.broadcast_in_dim(values, &wide, &axes)?;
    let lead = entry_dims.len() - 1;
    let axes: Axes = (0..lead).chain([rank]).collect();
    let e = l.b.broadcast_in_dim(entries, &wide, &axes)?;
    let mut before = l.b.compare(if right { CompareDir::Le } else { CompareDir::Lt }, e, v)?;
    if l.b.dtype(v).is_float() {
        let missing = is_nan(l, v)?;
        let reached = if right {
            missing
        } else {
            let present = l.b.compare(CompareDir::Eq, e, e)?;
            l.b.binary(BinaryOp::And, missing, present)?
        };
        before = l.b.binary(BinaryOp::Or, before, reached)?;
    }
    let ones = l.b.convert(before, DType::S64)?;
    Ok(l.b.reduce(Combiner::Add, ones, &[rank])?)
}

/// Whether `right` is asked for, by its flag or by the side.
fn is_right(c: &Call<'_>, flag: usize) -> Result<bool, LowerError> {
    Ok(c.bool_or(flag, "right", false)? || c.opt_str(flag + 1, "side")? == Some("right"))
}

fn searchsorted(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let mut entries = c.tensor(l, 0, "sorted_sequence")?;
    let values = operand(l, c, 1, "self")?;
    let right = is_right(c, 3)?;
    if let Some(order) = c.opt_tensor(l, usize::MAX, "sorter")? {
        let dims = l.b.dims(entries);
        if !dims.contains(&0) {
            entries = Elements::new(l, order, dims.len() - 1, &dims)?.gather(l, entries)?;
        }
    }
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let dtype = common(l, entries, values);
    entries = cast(l, entries, dtype)?;
    let values = place(l, values, dtype, &dims)?;
    let r = insertion_points(l, entries, values, right)?;
    one(cast(l, r, out)?)
}

fn bucketize(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let values = operand(l, c, 0, "self")?;
    let entries = c.tensor(l, 1, "boundaries")?;
    let right = c.bool_or(3, "right", false)?;
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let dtype = common(l, entries, values);
    let entries = cast(l, entries, dtype)?;
    let values = place(l, values, dtype, &dims)?;
    let r = insertion_points(l, entries, values, right)?;
    one(cast(l, r, out)?)
}

/// The type in which entries and values are compared.
fn common(l: &Lowering<'_>, entries: ValueId, values: Operand) -> DType {
    super::helpers::result_type(l, &[Operand::Tensor(entries), values])
}

/// Adds one (or the weight) to the counter at each position; positions out of range are dropped.
fn tally(l: &mut Lowering<'_>, counters: ValueId, positions: ValueId, amounts: ValueId) -> Result<ValueId, LowerError> {
    let dims = ScatterDims {
        update_window_dims: Axes::new(),
        inserted_window_dims: smallvec::smallvec![0],
        scatter_dims_to_operand_dims: smallvec::smallvec![0],
        index_vector_dim: 1,
        unique: false,
    };
    Ok(l.b.op(Op::Scatter { combiner: Combiner::Add, dims: Box::new(dims) }, [counters, positions, amounts])?)
}

fn histc(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let bins = c.int_or(l, 1, "bins", 100)?;
    let (low, high) = (c.float_or(l, 2, "min", 0.0)?, c.float_or(l, 3, "max", 0.0)?);
    let out = c.out_dtype()?;
    let n = l.b.ty(x).numel();
    let compute = if out.is_float() { out.compute_type() } else { DType::F64 };
    let counters = filled(l, Scalar::Int(0), compute, &[bins])?;
    if n == 0 {
        return one(cast(l, counters, out)?);
    }
    let x = l.b.reshape(x, &[n])?;
    let x = cast(l, x, compute)?;
    let (low, high) = if low == high && low == 0.0 {
        (l.b.reduce(Combiner::Min, x, &[0])?, l.b.reduce(Combiner::Max, x, &[0])?)
    } else {
        (l.b.scalar(compute, low)?, l.b.scalar(compute, high)?)
    };
    let equal = l.b.compare(CompareDir::Eq, low, high)?;
    let below = l.b.binary_scalar(BinaryOp::Sub, low, 1.0)?;
    let above = l.b.binary_scalar(BinaryOp::Add, high, 1.0)?;
    let (low, high) = (l.b.select(equal, below, low)?, l.b.select(equal, above, high)?);
    let (low, high) = (l.b.broadcast_in_dim(low, &[n], &[])?, l.b.broadcast_in_dim(high, &[n], &[])?);
    let (offset, span) = (l.b.sub(x, low)?, l.b.sub(high, low)?);
    let bin = l.b.binary_scalar(BinaryOp::Mul, offset, bins as f64)?;
    let bin = l.b.div(bin, span)?;
    let bin = l.b.unary(UnaryOp::Floor, bin)?;
    let bin = l.b.binary_scalar(BinaryOp::Min, bin, (bins - 1) as f64)?;
    let (after_low, before_high) = (l.b.compare(CompareDir::Ge, x, low)?, l.b.compare(CompareDir::Le, x, high)?);
    let inside = l.b.binary(BinaryOp::And, after_low, before_high)?;
    let outside = l.b.full_like(bin, bins as f64)?;
    let bin = l.b.select(inside, bin, outside)?;
    let positions = l.b.convert(bin, DType::S32)?;
    let ones = l.b.full_like(x, 1.0)?;
    let r = tally(l, counters, positions, ones)?;
    one(cast(l, r, out)?)
}

/// Counts of each non-negative integer; only where PyTorch knows the length of the result.
fn bincount(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let weights = c.opt_tensor(l, 1, "weights")?;
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let positions = cast(l, x, DType::S64)?;
    let counters = filled(l, Scalar::Int(0), out, &dims)?;
    let n = l.b.dims(x);
    let amounts = match weights {
        Some(w) => cast(l, w, out)?,
        None => filled(l, Scalar::Int(1), out, &n)?,
    };
    one(tally(l, counters, positions, amounts)?)
}
