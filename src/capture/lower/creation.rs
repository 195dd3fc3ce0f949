//! Tensors made from nothing: constants, ranges and triangles.

use clutch_graph::op::{BinaryOp, CompareDir};
use clutch_graph::{DType, Literal, TensorType, ValueId};

use super::helpers::{Scalar, cast, filled, opt_scalar, scalar};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.full.default", |l, c| fill_with(l, c, 1)),
    ("aten.full_like.default", |l, c| fill_with(l, c, 1)),
    ("aten.new_full.default", |l, c| fill_with(l, c, 2)),
    ("aten.scalar_tensor.default", scalar_tensor),
    ("aten.zeros.default", |l, c| fill(l, c, 0)),
    ("aten.zeros_like.default", |l, c| fill(l, c, 0)),
    ("aten.new_zeros.default", |l, c| fill(l, c, 0)),
    ("aten._efficientzerotensor.default", |l, c| fill(l, c, 0)),
    ("aten._new_zeros_with_same_feature_meta.default", |l, c| fill(l, c, 0)),
    ("aten.ones.default", |l, c| fill(l, c, 1)),
    ("aten.ones_like.default", |l, c| fill(l, c, 1)),
    ("aten.new_ones.default", |l, c| fill(l, c, 1)),
    ("aten.empty.memory_format", |l, c| fill(l, c, 0)),
    ("aten.empty_like.default", |l, c| fill(l, c, 0)),
    ("aten.empty_permuted.default", |l, c| fill(l, c, 0)),
    ("aten.empty_strided.default", |l, c| fill(l, c, 0)),
    ("prims.empty_strided.default", |l, c| fill(l, c, 0)),
    ("prims.empty_permuted.default", |l, c| fill(l, c, 0)),
    ("aten.new_empty.default", |l, c| fill(l, c, 0)),
    ("aten.new_empty_strided.default", |l, c| fill(l, c, 0)),
    ("aten.arange.default", |l, c| arange(l, c, None, None)),
    ("aten.arange.start", |l, c| arange(l, c, Some(0), None)),
    ("aten.arange.start_step", |l, c| arange(l, c, Some(0), Some(2))),
    ("prims.iota.default", iota),
    ("aten.linspace.default", linspace),
    ("aten.logspace.default", logspace),
    ("aten.eye.default", eye),
    ("aten.eye.m", eye),
    ("aten.tril.default", |l, c| triangle(l, c, CompareDir::Ge)),
    ("aten.triu.default", |l, c| triangle(l, c, CompareDir::Le)),
    ("aten.tril_indices.default", |l, c| triangle_indices(l, c, false)),
    ("aten.triu_indices.default", |l, c| triangle_indices(l, c, true)),
];

/// Most elements that a range computed at compile time may have as a literal.
const LITERAL_LIMIT: i64 = 4096;

fn fill_with(l: &mut Lowering<'_>, c: &Call<'_>, index: usize) -> Result<Outputs, LowerError> {
    let value = scalar(l, c, index, "fill_value")?;
    let dims = c.out_dims(l)?;
    one(filled(l, value, c.out_dtype()?, &dims)?)
}

fn scalar_tensor(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let value = scalar(l, c, 0, "s")?;
    one(filled(l, value, c.out_dtype()?, &[])?)
}

/// Uninitialised tensors are filled too, with zeros, so that results do not depend on what memory held.
fn fill(l: &mut Lowering<'_>, c: &Call<'_>, value: i64) -> Result<Outputs, LowerError> {
    let dims = c.out_dims(l)?;
    one(filled(l, Scalar::Int(value), c.out_dtype()?, &dims)?)
}

/// `start + i * step` for i below `count`, rounded once to `dtype`.
fn progression(l: &mut Lowering<'_>, dtype: DType, count: i64, start: Scalar, step: Scalar) -> Result<ValueId, LowerError> {
    if let (Some(first), Some(stride)) = (start.as_exact_int(), step.as_exact_int()) {
        let last = stride.saturating_mul(count).saturating_add(first);
        let exact = [first, last].iter().all(|v| v.abs() < 1 << 24);
        let t = if exact && matches!(dtype, DType::F32 | DType::F64) || dtype.is_int() { dtype } else { DType::S64 };
        let mut x = l.b.iota(t, &[count], 0)?;
        if stride != 1 {
            x = l.b.binary_int(BinaryOp::Mul, x, stride)?;
        }
        if first != 0 {
            x = l.b.binary_int(BinaryOp::Add, x, first)?;
        }
        return cast(l, x, dtype);
    }
    let (start, step) = (start.as_f64(), step.as_f64());
    float_sequence(
        l,
        dtype,
        count,
        |i| start + step * i,
        |l, i| {
            let scaled = l.b.binary_scalar(BinaryOp::Mul, i, step)?;
            Ok(l.b.binary_scalar(BinaryOp::Add, scaled, start)?)
        },
    )
}

/// Values of a function of the index: a literal when few, otherwise computed in `F64` on the device.
fn float_sequence(
    l: &mut Lowering<'_>,
    dtype: DType,
    count: i64,
    host: impl Fn(f64) -> f64,
    device: impl FnOnce(&mut Lowering<'_>, ValueId) -> Result<ValueId, LowerError>,
) -> Result<ValueId, LowerError> {
    if count <= LITERAL_LIMIT {
        let values: Vec<f64> = (0..count).map(|i| host(i as f64)).collect();
        let literal = Literal::from_f64(TensorType::new(dtype, [count]), &values);
        let literal = literal.map_err(|e| LowerError::unsupported(format!("internal: {e}")))?;
        return Ok(l.b.constant(literal)?);
    }
    let i = l.b.iota(DType::F64, &[count], 0)?;
    let x = device(l, i)?;
    cast(l, x, dtype)
}

fn arange(l: &mut Lowering<'_>, c: &Call<'_>, start: Option<usize>, step: Option<usize>) -> Result<Outputs, LowerError> {
    let start = match start {
        Some(i) => opt_scalar(l, c, i, "start")?.unwrap_or(Scalar::Int(0)),
        None => Scalar::Int(0),
    };
    let step = match step {
        Some(i) => opt_scalar(l, c, i, "step")?.unwrap_or(Scalar::Int(1)),
        None => Scalar::Int(1),
    };
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let (start, step) = if dtype.is_int() { (truncated(start), truncated(step)) } else { (start, step) };
    one(progression(l, dtype, dims[0], start, step)?)
}

/// A number given for an integer tensor loses its fraction.
fn truncated(s: Scalar) -> Scalar {
    match s {
        Scalar::Float(x) => Scalar::Int(x as i64),
        other => other,
    }
}

fn iota(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let start = opt_scalar(l, c, 1, "start")?.unwrap_or(Scalar::Int(0));
    let step = opt_scalar(l, c, 2, "step")?.unwrap_or(Scalar::Int(1));
    let dims = c.out_dims(l)?;
    one(progression(l, c.out_dtype()?, dims[0], start, step)?)
}

/// Start, end and count of an evenly spaced sequence.
fn spacing(l: &Lowering<'_>, c: &Call<'_>) -> Result<(f64, f64, i64), LowerError> {
    let (start, end) = (scalar(l, c, 0, "start")?, scalar(l, c, 1, "end")?);
    Ok((start.as_f64(), end.as_f64(), c.out_dims(l)?[0]))
}

/// Counts from both ends so that both are met exactly.
fn evenly(start: f64, end: f64, count: i64, i: f64) -> f64 {
    if count == 1 {
        return start;
    }
    let step = (end - start) / (count - 1) as f64;
    if i < (count / 2) as f64 { start + step * i } else { end - step * ((count - 1) as f64 - i) }
}

fn evenly_on_device(l: &mut Lowering<'_>, start: f64, end: f64, count: i64, i: ValueId) -> Result<ValueId, LowerError> {
    let step = (end - start) / (count - 1).max(1) as f64;
    let up = l.b.binary_scalar(BinaryOp::Mul, i, step)?;
    let up = l.b.binary_scalar(BinaryOp::Add, up, start)?;
    let rest = l.b.full_like(i, (count - 1) as f64)?;
    let rest = l.b.sub(rest, i)?;
    let down = l.b.binary_scalar(BinaryOp::Mul, rest, step)?;
    let last = l.b.full_like(i, end)?;
    let down = l.b.sub(last, down)?;
    let low = l.b.compare_scalar(CompareDir::Lt, i, (count / 2) as f64)?;
    Ok(l.b.select(low, up, down)?)
}

fn linspace(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (start, end, count) = spacing(l, c)?;
    let dtype = c.out_dtype()?;
    one(float_sequence(l, dtype, count, |i| evenly(start, end, count, i), |l, i| evenly_on_device(l, start, end, count, i))?)
}

fn logspace(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (start, end, count) = spacing(l, c)?;
    let base = c.float_or(l, 3, "base", 10.0)?;
    let dtype = c.out_dtype()?;
    one(float_sequence(
        l,
        dtype,
        count,
        |i| base.powf(evenly(start, end, count, i)),
        |l, i| {
            let e = evenly_on_device(l, start, end, count, i)?;
            let base = l.b.full_like(e, base)?;
            Ok(l.b.binary(BinaryOp::Pow, base, e)?)
        },
    )?)
}

/// Row and column number of each element of the last two axes.
fn row_and_column(l: &mut Lowering<'_>, dims: &[i64]) -> Result<(ValueId, ValueId), LowerError> {
    let n = dims.len();
    Ok((l.b.iota(DType::S32, &dims[n - 2..], 0)?, l.b.iota(DType::S32, &dims[n - 2..], 1)?))
}

fn eye(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let dims = c.out_dims(l)?;
    let (row, column) = row_and_column(l, &dims)?;
    let diagonal = l.b.compare(CompareDir::Eq, row, column)?;
    one(cast(l, diagonal, c.out_dtype()?)?)
}

fn triangle(l: &mut Lowering<'_>, c: &Call<'_>, dir: CompareDir) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let shift = c.int_or(l, 1, "diagonal", 0)?;
    let dims = l.b.dims(x);
    let n = dims.len();
    let shift = shift.clamp(-dims[n - 2] - 1, dims[n - 1] + 1);
    let (row, column) = row_and_column(l, &dims)?;
    let row = l.b.binary_int(BinaryOp::Add, row, shift)?;
    let keep = l.b.compare(dir, row, column)?;
    let keep = l.b.expand(keep, &dims)?;
    let zero = filled(l, Scalar::Int(0), l.b.dtype(x), &dims)?;
    one(l.b.select(keep, x, zero)?)
}

fn triangle_indices(l: &mut Lowering<'_>, c: &Call<'_>, upper: bool) -> Result<Outputs, LowerError> {
    let (rows, columns) = (c.int(l, 0, "row")?, c.int(l, 1, "col")?);
    let shift = c.int_or(l, 2, "offset", 0)?;
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let inside = |r: i64, k: i64| if upper { k - r >= shift } else { k - r <= shift };
    let pairs: Vec<(i64, i64)> = (0..rows).flat_map(|r| (0..columns).filter(move |&k| inside(r, k)).map(move |k| (r, k))).collect();
    let values: Vec<i64> = pairs.iter().map(|p| p.0).chain(pairs.iter().map(|p| p.1)).collect();
    let flat = l.b.constant(Literal::vector_i64(dtype, &values))?;
    one(l.b.reshape(flat, &dims)?)
}
