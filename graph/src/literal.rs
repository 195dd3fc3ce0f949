//! Constant tensors.

use std::sync::Arc;

use half::{bf16, f16};

use crate::dtype::DType;
use crate::types::TensorType;

/// A constant: its type and dense row-major little-endian bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    ty: TensorType,
    bytes: Arc<[u8]>,
}

/// The byte count does not match the type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a literal of type {ty} takes {expected} bytes, got {got}")]
pub struct LiteralSizeError {
    ty: TensorType,
    expected: usize,
    got: usize,
}

impl Literal {
    /// A literal from dense row-major little-endian bytes.
    ///
    /// # Errors
    /// When `bytes` is not exactly the size of `ty`.
    pub fn new(ty: TensorType, bytes: impl Into<Arc<[u8]>>) -> Result<Self, LiteralSizeError> {
        let bytes = bytes.into();
        if bytes.len() != ty.byte_size() {
            return Err(LiteralSizeError { expected: ty.byte_size(), got: bytes.len(), ty });
        }
        Ok(Literal { ty, bytes })
    }

    /// A scalar of type `dtype` nearest to `value`: integers truncate and wrap, `Pred` is `value != 0`, complex gets a zero imaginary part.
    pub fn scalar_f64(dtype: DType, value: f64) -> Self {
        let mut bytes = Vec::with_capacity(dtype.size());
        push_f64(&mut bytes, dtype, value);
        Literal { ty: TensorType::scalar(dtype), bytes: bytes.into() }
    }

    /// A scalar of type `dtype` equal to `value`, wrapping where the type is narrower.
    pub fn scalar_i64(dtype: DType, value: i64) -> Self {
        let mut bytes = Vec::with_capacity(dtype.size());
        push_i64(&mut bytes, dtype, value);
        Literal { ty: TensorType::scalar(dtype), bytes: bytes.into() }
    }

    /// A complex scalar.
    pub fn scalar_complex(dtype: DType, re: f64, im: f64) -> Self {
        let part = dtype.real_part();
        let mut bytes = Vec::with_capacity(dtype.size());
        push_f64(&mut bytes, part, re);
        if dtype.is_complex() {
            push_f64(&mut bytes, part, im);
        }
        Literal { ty: TensorType::scalar(dtype), bytes: bytes.into() }
    }

    /// A rank-1 literal of integers, wrapping where the type is narrower.
    pub fn vector_i64(dtype: DType, values: &[i64]) -> Self {
        let mut bytes = Vec::with_capacity(dtype.size() * values.len());
        for &v in values {
            push_i64(&mut bytes, dtype, v);
        }
        Literal { ty: TensorType::new(dtype, [values.len() as i64]), bytes: bytes.into() }
    }

    /// A literal of the given sizes whose elements are converted from `values`, row-major.
    ///
    /// # Errors
    /// When the number of values is not the number of elements.
    pub fn from_f64(ty: TensorType, values: &[f64]) -> Result<Self, LiteralSizeError> {
        let mut bytes = Vec::with_capacity(ty.byte_size());
        for &v in values {
            push_f64(&mut bytes, ty.dtype, v);
        }
        Literal::new(ty, bytes)
    }

    /// Type of the literal.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Dense row-major little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same bytes under other dimensions of equal element count.
    ///
    /// # Errors
    /// When the element counts differ.
    pub fn reshaped(&self, dims: &[i64]) -> Result<Self, LiteralSizeError> {
        let ty = TensorType::new(self.ty.dtype, dims.iter().copied());
        if ty.byte_size() != self.bytes.len() {
            return Err(LiteralSizeError { expected: ty.byte_size(), got: self.bytes.len(), ty });
        }
        Ok(Literal { ty, bytes: self.bytes.clone() })
    }

    /// The first element as `f64` when all elements are bitwise equal and the type is real; `None` otherwise or when empty.
    pub fn splat_f64(&self) -> Option<f64> {
        let size = self.ty.dtype.size();
        let first = self.bytes.get(..size)?;
        self.bytes.chunks_exact(size).all(|c| c == first).then(|| read_f64(self.ty.dtype, first)).flatten()
    }

    /// The first element as `i64` when all elements are bitwise equal and the type is integer or `Pred`.
    pub fn splat_i64(&self) -> Option<i64> {
        let size = self.ty.dtype.size();
        let first = self.bytes.get(..size)?;
        self.bytes.chunks_exact(size).all(|c| c == first).then(|| read_i64(self.ty.dtype, first)).flatten()
    }

    /// All elements as `f64`; `None` for complex types.
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        self.bytes.chunks_exact(self.ty.dtype.size()).map(|c| read_f64(self.ty.dtype, c)).collect()
    }

    /// All elements as `i64`; `None` for floating-point and complex types.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        self.bytes.chunks_exact(self.ty.dtype.size()).map(|c| read_i64(self.ty.dtype, c)).collect()
    }
}

/// Appends `value` converted to `dtype`; complex types get a zero imaginary part.
pub fn push_f64(out: &mut Vec<u8>, dtype: DType, value: f64) {
    match dtype {
        DType::F64 => out.extend(value.to_le_bytes()),
        DType::F32 => out.extend((value as f32).to_le_bytes()),
        DType::F16 => out.extend(f16::from_f64(value).to_le_bytes()),
        DType::BF16 => out.extend(bf16::from_f64(value).to_le_bytes()),
        DType::F8E4M3FN | DType::F8E5M2 => out.push(crate::float8::encode(dtype, value as f32)),
        DType::C64 => {
            out.extend((value as f32).to_le_bytes());
            out.extend(0f32.to_le_bytes());
        }
        DType::C128 => {
            out.extend(value.to_le_bytes());
            out.extend(0f64.to_le_bytes());
        }
        DType::Pred => out.push(u8::from(value != 0.0)),
        DType::U64 if value >= 0.0 => out.extend((value as u64).to_le_bytes()),
        _ => push_i64(out, dtype, value as i64),
    }
}

/// Appends `value` converted to `dtype`, wrapping where the type is narrower.
pub fn push_i64(out: &mut Vec<u8>, dtype: DType, value: i64) {
    match dtype {
        DType::Pred => out.push(u8::from(value != 0)),
        DType::S8 | DType::U8 => out.push(value as u8),
        DType::S16 | DType::U16 => out.extend((value as u16).to_le_bytes()),
        DType::S32 | DType::U32 => out.extend((value as u32).to_le_bytes()),
        DType::S64 | DType::U64 => out.extend(value.to_le_bytes()),
        _ => push_f64(out, dtype, value as f64),
    }
}

/// Reads one element as `f64`; `None` for complex types or a short slice.
pub fn read_f64(dtype: DType, bytes: &[u8]) -> Option<f64> {
    Some(match dtype {
        DType::F64 => f64::from_le_bytes(bytes.get(..8)?.try_into().ok()?),
        DType::F32 => f64::from(f32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)),
        DType::F16 => f16::from_le_bytes(bytes.get(..2)?.try_into().ok()?).to_f64(),
        DType::BF16 => bf16::from_le_bytes(bytes.get(..2)?.try_into().ok()?).to_f64(),
        DType::F8E4M3FN | DType::F8E5M2 => f64::from(crate::float8::decode(dtype, *bytes.first()?)),
        DType::C64 | DType::C128 => return None,
        DType::U64 => u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?) as f64,
        _ => read_i64(dtype, bytes)? as f64,
    })
}

/// Reads one element as `i64` (`U64` wraps); `None` for floats, complex types or a short slice.
pub fn read_i64(dtype: DType, bytes: &[u8]) -> Option<i64> {
    Some(match dtype {
        DType::Pred => i64::from(*bytes.first()? != 0),
        DType::S8 => i64::from(*bytes.first()? as i8),
        DType::U8 => i64::from(*bytes.first()?),
        DType::S16 => i64::from(i16::from_le_bytes(bytes.get(..2)?.try_into().ok()?)),
        DType::U16 => i64::from(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?)),
        DType::S32 => i64::from(i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)),
        DType::U32 => i64::from(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)),
        DType::S64 | DType::U64 => i64::from_le_bytes(bytes.get(..8)?.try_into().ok()?),
        _ => return None,
    })
}
