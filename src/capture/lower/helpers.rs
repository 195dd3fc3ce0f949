//! Helpers that the families share: operands that are tensors or numbers, conversion, broadcasting and the compute type.

use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{DType, Dims, Literal, ValueId};

use super::promote::promote;
use super::{Call, LowerError, Lowering};
use crate::capture::program::Arg;

/// A number in the place of a tensor or attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
}

impl Scalar {
    /// The type that PyTorch gives to the number alone.
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Pred,
            Scalar::Int(_) => DType::S64,
            Scalar::Float(_) => DType::F32,
            Scalar::Complex(..) => DType::C64,
        }
    }

    /// The number as a scalar literal of the type.
    pub fn literal(self, dtype: DType) -> Literal {
        match self {
            Scalar::Bool(b) => Literal::scalar_i64(dtype, i64::from(b)),
            Scalar::Int(i) => Literal::scalar_i64(dtype, i),
            Scalar::Float(x) => Literal::scalar_f64(dtype, x),
            Scalar::Complex(re, im) => Literal::scalar_complex(dtype, re, im),
        }
    }

    /// The number's real part as `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => f64::from(u8::from(b)),
            Scalar::Int(i) => i as f64,
            Scalar::Float(x) | Scalar::Complex(x, _) => x,
        }
    }

    /// The integer equal to the number, if there is one.
    pub fn as_exact_int(self) -> Option<i64> {
        match self {
            Scalar::Bool(b) => Some(i64::from(b)),
            Scalar::Int(i) => Some(i),
            Scalar::Float(x) => (x.fract() == 0.0 && x.abs() < 9e15).then_some(x as i64),
            Scalar::Complex(..) => None,
        }
    }

    /// The type holds the number without rounding.
    pub fn fits(self, dtype: DType) -> bool {
        match self {
            Scalar::Bool(_) => true,
            _ if dtype.is_complex() => false,
            Scalar::Complex(..) => false,
            _ => self.literal(dtype).splat_f64().is_some_and(|x| x == self.as_f64()),
        }
    }
}

/// A tensor or a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// A tensor.
    Tensor(ValueId),
    /// A number.
    Scalar(Scalar),
}

impl From<ValueId> for Operand {
    fn from(v: ValueId) -> Self {
        Operand::Tensor(v)
    }
}

impl From<Scalar> for Operand {
    fn from(s: Scalar) -> Self {
        Operand::Scalar(s)
    }
}

/// An optional number argument.
pub fn opt_scalar(l: &Lowering<'_>, c: &Call<'_>, index: usize, name: &'static str) -> Result<Option<Scalar>, LowerError> {
    Ok(match c.arg(index, name) {
        None => None,
        Some(Arg::Bool(b)) => Some(Scalar::Bool(*b)),
        Some(Arg::Float(x)) => Some(Scalar::Float(*x)),
        Some(Arg::Complex(re, im)) => Some(Scalar::Complex(*re, *im)),
        Some(a) => match l.arg_int(a)? {
            Some(i) => Some(Scalar::Int(i)),
            None => return Err(LowerError::Argument { index, name, expected: "a number" }),
        },
    })
}

/// A number argument.
pub fn scalar(l: &Lowering<'_>, c: &Call<'_>, index: usize, name: &'static str) -> Result<Scalar, LowerError> {
    opt_scalar(l, c, index, name)?.ok_or(LowerError::Argument { index, name, expected: "a number" })
}

/// An optional argument that is a tensor or a number.
pub fn opt_operand(l: &Lowering<'_>, c: &Call<'_>, index: usize, name: &'static str) -> Result<Option<Operand>, LowerError> {
    match c.arg(index, name) {
        Some(Arg::Value(v)) => Ok(Some(Operand::Tensor(l.value(*v)?))),
        _ => Ok(opt_scalar(l, c, index, name)?.map(Operand::Scalar)),
    }
}

/// An argument that is a tensor or a number.
pub fn operand(l: &Lowering<'_>, c: &Call<'_>, index: usize, name: &'static str) -> Result<Operand, LowerError> {
    opt_operand(l, c, index, name)?.ok_or(LowerError::Argument { index, name, expected: "a tensor or a number" })
}

/// PyTorch's conversion of element types: complex to real takes the real part, floats to narrow integers truncate and wrap.
pub fn cast(l: &mut Lowering<'_>, x: ValueId, to: DType) -> Result<ValueId, LowerError> {
    let from = l.b.dtype(x);
    if from == to {
        return Ok(x);
    }
    if from.is_complex() && to == DType::Pred {
        let zero = l.b.full_like(x, 0.0)?;
        return Ok(l.b.compare(CompareDir::Ne, x, zero)?);
    }
    if from.is_complex() && !to.is_complex() {
        let re = l.b.unary(UnaryOp::Real, x)?;
        return cast(l, re, to);
    }
    if to == DType::F8E4M3FN {
        // PyTorch saturates, infinities too; HLO gives NaN.
        let x = cast(l, x, if from == DType::F64 { DType::F64 } else { DType::F32 })?;
        let most = l.b.full_like(x, 448.0)?;
        let least = l.b.full_like(x, -448.0)?;
        let x = l.b.min(x, most)?;
        let x = l.b.max(x, least)?;
        return Ok(l.b.convert(x, to)?);
    }
    let x = match to {
        DType::S8 | DType::S16 | DType::U8 | DType::U16 | DType::U32 if from.is_float() => l.b.convert(x, DType::S64)?,
        _ => x,
    };
    Ok(l.b.convert(x, to)?)
}

/// The tensor as one of the given element type and sizes.
pub fn fit(l: &mut Lowering<'_>, x: ValueId, dtype: DType, dims: &[i64]) -> Result<ValueId, LowerError> {
    let x = cast(l, x, dtype)?;
    Ok(l.b.expand(x, dims)?)
}

/// A tensor filled with a number.
pub fn filled(l: &mut Lowering<'_>, value: Scalar, dtype: DType, dims: &[i64]) -> Result<ValueId, LowerError> {
    let s = l.b.constant(value.literal(dtype))?;
    Ok(l.b.broadcast_in_dim(s, dims, &[])?)
}

/// The operand as a tensor of the given element type and sizes.
pub fn place(l: &mut Lowering<'_>, x: Operand, dtype: DType, dims: &[i64]) -> Result<ValueId, LowerError> {
    match x {
        Operand::Tensor(v) => fit(l, v, dtype, dims),
        Operand::Scalar(s) => filled(l, s, dtype, dims),
    }
}

/// PyTorch's `torch.result_type`: scalars and tensors without axes are weaker than tensors with axes and only widen the category.
pub fn result_type(l: &Lowering<'_>, operands: &[Operand]) -> DType {
    let mut strong: [Option<DType>; 3] = [None; 3];
    for o in operands {
        let (class, dtype) = match o {
            Operand::Tensor(v) if l.b.rank(*v) > 0 => (0, l.b.dtype(*v)),
            Operand::Tensor(v) => (1, l.b.dtype(*v)),
            Operand::Scalar(s) => (2, s.dtype()),
        };
        strong[class] = Some(strong[class].map_or(dtype, |d| promote(d, dtype)));
    }
    let [dimensioned, zero, number] = strong;
    combine(dimensioned, combine(zero, number)).unwrap_or(DType::F32)
}

/// The stronger type unless the weaker is of a wider category.
fn combine(stronger: Option<DType>, weaker: Option<DType>) -> Option<DType> {
    let (Some(s), Some(w)) = (stronger, weaker) else { return stronger.or(weaker) };
    Some(match (category(s), category(w)) {
        (2, 3) if s == DType::F64 => DType::C128,
        (2, 3) => DType::C64,
        (a, b) if b > a => promote(s, w),
        _ => s,
    })
}

fn category(d: DType) -> u8 {
    match d {
        DType::Pred => 0,
        d if d.is_int() => 1,
        d if d.is_float() => 2,
        _ => 3,
    }
}

/// Applies `f` in the compute type of `x` and converts the result to `out`, so that a lowering of many steps rounds once.
pub fn in_compute_type<F>(l: &mut Lowering<'_>, x: ValueId, out: DType, f: F) -> Result<ValueId, LowerError>
where
    F: FnOnce(&mut Lowering<'_>, ValueId) -> Result<ValueId, LowerError>,
{
    let compute = out.compute_type();
    let x = cast(l, x, compute)?;
    let y = f(l, x)?;
    cast(l, y, out)
}

/// `x op constant`, elementwise.
pub fn with_number(l: &mut Lowering<'_>, op: BinaryOp, x: ValueId, value: f64) -> Result<ValueId, LowerError> {
    Ok(l.b.binary_scalar(op, x, value)?)
}

/// `Pred`: the element is NaN; never for integers.
pub fn is_nan(l: &mut Lowering<'_>, x: ValueId) -> Result<ValueId, LowerError> {
    Ok(l.b.compare(CompareDir::Ne, x, x)?)
}

/// The largest (`true`) or smallest finite value of an integer type, or an infinity of a float type.
pub fn extreme(dtype: DType, largest: bool) -> Scalar {
    use DType::*;
    match (dtype, largest) {
        (Pred, l) => Scalar::Bool(l),
        (U8 | U16 | U32 | U64, false) => Scalar::Int(0),
        (U8, true) => Scalar::Int(0xFF),
        (U16, true) => Scalar::Int(0xFFFF),
        (U32, true) => Scalar::Int(0xFFFF_FFFF),
        (U64, true) => Scalar::Int(-1),
        (S8, true) => Scalar::Int(i8::MAX.into()),
        (S8, false) => Scalar::Int(i8::MIN.into()),
        (S16, true) => Scalar::Int(i16::MAX.into()),
        (S16, false) => Scalar::Int(i16::MIN.into()),
        (S32, true) => Scalar::Int(i32::MAX.into()),
        (S32, false) => Scalar::Int(i32::MIN.into()),
        (S64, true) => Scalar::Int(i64::MAX),
        (S64, false) => Scalar::Int(i64::MIN),
        (_, true) => Scalar::Float(f64::INFINITY),
        (_, false) => Scalar::Float(f64::NEG_INFINITY),
    }
}

/// Entries of `x` along `axis` at the given positions (a rank-1 integer tensor, in range).
pub fn take_axis(l: &mut Lowering<'_>, x: ValueId, axis: usize, positions: ValueId) -> Result<ValueId, LowerError> {
    use clutch_graph::Op;
    use clutch_graph::op::GatherDims;
    let dims = l.b.dims(x);
    let mut slice_sizes: Dims = dims.clone();
    slice_sizes[axis] = 1;
    let gather = GatherDims {
        offset_dims: (0..dims.len()).filter(|&a| a != axis).collect(),
        collapsed_slice_dims: smallvec::smallvec![axis],
        start_index_map: smallvec::smallvec![axis],
        index_vector_dim: 1,
        slice_sizes,
        in_bounds: true,
    };
    Ok(l.b.op(Op::Gather(Box::new(gather)), [x, positions])?)
}
