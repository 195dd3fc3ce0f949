//! Discrete Fourier transforms, one axis after another.

use clutch_graph::op::{BinaryOp, FftKind, Op, UnaryOp};
use clutch_graph::{DType, Dims, Literal, TensorType, ValueId};

use super::helpers::{Scalar, cast, filled};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten._fft_c2c.default", complex),
    ("aten._fft_r2c.default", from_real),
    ("aten._fft_c2r.default", to_real),
    ("aten.fft_fftfreq.default", |l, c| frequencies(l, c, true)),
    ("aten.fft_rfftfreq.default", |l, c| frequencies(l, c, false)),
];

type Built = Result<ValueId, LowerError>;

/// One transform along `axis`; `length` is the real-side length.
fn transform(l: &mut Lowering<'_>, x: ValueId, axis: usize, kind: FftKind, length: i64) -> Built {
    let rank = l.b.rank(x);
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(axis, rank - 1);
    let x = l.b.transpose(x, &order)?;
    let y = l.b.op(Op::Fft { kind, lengths: smallvec::smallvec![length] }, [x])?;
    Ok(l.b.transpose(y, &order)?)
}

/// PyTorch's normalisation: 0 none, 1 by the root of the number of elements, 2 by their number; `built_in` is what the transforms have
/// divided by already.
fn normalized(l: &mut Lowering<'_>, c: &Call<'_>, x: ValueId, count: f64, built_in: f64) -> Built {
    let factor = match c.int(l, 2, "normalization")? {
        0 => built_in,
        1 => built_in / count.sqrt(),
        2 => built_in / count,
        _ => return Err(LowerError::Argument { index: 2, name: "normalization", expected: "0, 1 or 2" }),
    };
    if factor == 1.0 {
        return Ok(x);
    }
    let dtype = l.b.dtype(x);
    if !dtype.is_complex() {
        return Ok(l.b.binary_scalar(BinaryOp::Mul, x, factor)?);
    }
    let (re, im) = (l.b.unary(UnaryOp::Real, x)?, l.b.unary(UnaryOp::Imag, x)?);
    let (re, im) = (l.b.binary_scalar(BinaryOp::Mul, re, factor)?, l.b.binary_scalar(BinaryOp::Mul, im, factor)?);
    Ok(l.b.binary(BinaryOp::Complex, re, im)?)
}

/// The axes, in the order given.
fn axes(l: &Lowering<'_>, c: &Call<'_>, rank: usize) -> Result<Vec<usize>, LowerError> {
    let given = c.ints(l, 1, "dim")?;
    let wrong = LowerError::Argument { index: 1, name: "dim", expected: "axes of the tensor" };
    given.iter().map(|&a| super::call::normalize_axis(a, rank).ok_or_else(|| wrong.clone())).collect()
}

fn count(dims: &[i64], axes: &[usize]) -> f64 {
    axes.iter().map(|&a| dims[a] as f64).product()
}

fn empty(l: &mut Lowering<'_>, c: &Call<'_>, dims: &Dims) -> Result<Option<Outputs>, LowerError> {
    let out = c.out_dims(l)?;
    if !dims.contains(&0) && !out.contains(&0) {
        return Ok(None);
    }
    one(filled(l, Scalar::Int(0), c.out_dtype()?, &out)?).map(Some)
}

fn complex(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = l.b.dims(x);
    if let Some(outputs) = empty(l, c, &dims)? {
        return Ok(outputs);
    }
    let axes = axes(l, c, dims.len())?;
    let forward = c.bool_or(3, "forward", true)?;
    let kind = if forward { FftKind::Fft } else { FftKind::Ifft };
    let mut y = cast(l, x, c.out_dtype()?)?;
    for &axis in &axes {
        y = transform(l, y, axis, kind, dims[axis])?;
    }
    let n = count(&dims, &axes);
    one(normalized(l, c, y, n, if forward { 1.0 } else { n })?)
}

fn from_real(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = l.b.dims(x);
    if let Some(outputs) = empty(l, c, &dims)? {
        return Ok(outputs);
    }
    let axes = axes(l, c, dims.len())?;
    let onesided = c.bool_or(3, "onesided", true)?;
    let out = c.out_dtype()?;
    let mut y = cast(l, x, if out == DType::C128 { DType::F64 } else { DType::F32 })?;
    let mut rest = &axes[..];
    if let (true, [others @ .., last]) = (onesided, rest) {
        y = transform(l, y, *last, FftKind::Rfft, dims[*last])?;
        rest = others;
    } else {
        y = cast(l, y, out)?;
    }
    for &axis in rest {
        y = transform(l, y, axis, FftKind::Fft, dims[axis])?;
    }
    let n = count(&dims, &axes);
    one(normalized(l, c, y, n, 1.0)?)
}

fn to_real(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = l.b.dims(x);
    if let Some(outputs) = empty(l, c, &dims)? {
        return Ok(outputs);
    }
    let axes = axes(l, c, dims.len())?;
    let [others @ .., last] = &axes[..] else { return Err(LowerError::unsupported("a transform of no axis")) };
    let length = c.int(l, 3, "last_dim_size")?;
    let mut y = x;
    for &axis in others {
        y = transform(l, y, axis, FftKind::Ifft, dims[axis])?;
    }
    let half = length / 2 + 1;
    y = l.b.slice_axis(y, *last, 0, half.min(dims[*last]), 1)?;
    y = transform(l, y, *last, FftKind::Irfft, length)?;
    let n = count(&dims, others) * length as f64;
    one(normalized(l, c, y, n, n)?)
}

/// Frequencies of the transform's elements; the second half of a two-sided one is negative.
fn frequencies(l: &mut Lowering<'_>, c: &Call<'_>, two_sided: bool) -> Result<Outputs, LowerError> {
    let n = c.int(l, 0, "n")?;
    let spacing = c.float_or(l, 1, "d", 1.0)?;
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let step = 1.0 / (n as f64 * spacing);
    let place = |k: i64| if two_sided && k > (n - 1) / 2 { k - n } else { k };
    let values: Vec<f64> = (0..dims[0]).map(|k| place(k) as f64 * step).collect();
    let literal = Literal::from_f64(TensorType { dtype, dims }, &values).map_err(|e| LowerError::unsupported(format!("internal: {e}")))?;
    one(l.b.constant(literal)?)
}
