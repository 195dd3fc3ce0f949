//! Elements of tensors as numbers, and walks over index spaces.

use crate::dtype::DType;
use crate::interp::complex::Complex;
use crate::literal::{Literal, push_f64, push_i64, read_f64, read_i64};
use crate::types::TensorType;

/// All elements of a tensor, row-major.
pub(super) enum Elems {
    /// Integers and booleans; 0 and 1 stand for false and true.
    Int(Vec<i128>),
    /// Real floating point of any width.
    Real(Vec<f64>),
    /// Complex numbers.
    Complex(Vec<Complex>),
}

/// Elements of a literal.
pub(super) fn decode(literal: &Literal) -> Elems {
    let dtype = literal.ty().dtype;
    let chunks = literal.bytes().chunks_exact(dtype.size());
    if dtype.is_complex() {
        let part = dtype.real_part();
        let read = |b: &[u8]| read_f64(part, b).unwrap_or(f64::NAN);
        return Elems::Complex(chunks.map(|c| Complex::new(read(c), read(&c[part.size()..]))).collect());
    }
    if dtype.is_float() {
        return Elems::Real(chunks.map(|c| read_f64(dtype, c).unwrap_or(f64::NAN)).collect());
    }
    let read = |c| read_i64(dtype, c).unwrap_or(0);
    Elems::Int(chunks.map(|c| if dtype == DType::U64 { i128::from(read(c) as u64) } else { i128::from(read(c)) }).collect())
}

/// Elements of a literal of reals.
pub(super) fn decode_real(literal: &Literal) -> Vec<f64> {
    match decode(literal) {
        Elems::Real(v) => v,
        Elems::Int(v) => v.into_iter().map(|i| i as f64).collect(),
        Elems::Complex(v) => v.into_iter().map(|c| c.re).collect(),
    }
}

/// Elements of a literal of integers.
pub(super) fn decode_int(literal: &Literal) -> Vec<i128> {
    match decode(literal) {
        Elems::Int(v) => v,
        Elems::Real(v) => v.into_iter().map(|x| x as i128).collect(),
        Elems::Complex(v) => v.into_iter().map(|c| c.re as i128).collect(),
    }
}

/// A literal of type `ty` with elements converted: reals to integers truncate and saturate with NaN to 0, integers wrap, anything to
/// `Pred` is compared with zero, complex to real drops the imaginary part. Types narrower than `F32` are rounded by way of `F32`.
pub(super) fn encode(ty: &TensorType, elems: Elems) -> Literal {
    let mut out = Vec::with_capacity(ty.byte_size());
    match elems {
        Elems::Int(v) => v.into_iter().for_each(|i| push_int(&mut out, ty.dtype, i)),
        Elems::Real(v) => v.into_iter().for_each(|x| push_real(&mut out, ty.dtype, x)),
        Elems::Complex(v) => v.into_iter().for_each(|z| push_complex(&mut out, ty.dtype, z)),
    }
    literal(ty, out)
}

/// As [`encode`], of reals.
pub(super) fn encode_real(ty: &TensorType, values: Vec<f64>) -> Literal {
    encode(ty, Elems::Real(values))
}

/// A literal of bytes that are as many as the type takes.
pub(super) fn literal(ty: &TensorType, bytes: Vec<u8>) -> Literal {
    Literal::new(ty.clone(), bytes).expect("evaluation gives one element per element of the inferred type")
}

fn push_int(out: &mut Vec<u8>, dtype: DType, i: i128) {
    match dtype {
        DType::Pred => out.push(u8::from(i != 0)),
        DType::F64 | DType::C128 => push_f64(out, dtype, i as f64),
        d if d.is_float() || d.is_complex() => push_f64(out, d, f64::from(i as f32)),
        _ => push_i64(out, dtype, i as i64),
    }
}

fn push_real(out: &mut Vec<u8>, dtype: DType, x: f64) {
    match dtype {
        DType::S8 => out.extend((x as i8).to_le_bytes()),
        DType::S16 => out.extend((x as i16).to_le_bytes()),
        DType::S32 => out.extend((x as i32).to_le_bytes()),
        DType::U8 => out.extend((x as u8).to_le_bytes()),
        DType::U16 => out.extend((x as u16).to_le_bytes()),
        DType::U32 => out.extend((x as u32).to_le_bytes()),
        DType::U64 => out.extend((x as u64).to_le_bytes()),
        DType::S64 => out.extend((x as i64).to_le_bytes()),
        DType::F16 | DType::BF16 => push_f64(out, dtype, f64::from(x as f32)),
        _ => push_f64(out, dtype, x),
    }
}

fn push_complex(out: &mut Vec<u8>, dtype: DType, z: Complex) {
    match dtype {
        DType::C64 | DType::C128 => {
            push_f64(out, dtype.real_part(), z.re);
            push_f64(out, dtype.real_part(), z.im);
        }
        DType::Pred => out.push(u8::from(z.re != 0.0 || z.im != 0.0)),
        _ => push_real(out, dtype, z.re),
    }
}

/// Calls `f` with the row-major position and the index of each element, in order.
pub(super) fn each_index(dims: &[i64], mut f: impl FnMut(usize, &[i64])) {
    let count: i64 = dims.iter().product();
    let mut index = vec![0; dims.len()];
    for position in 0..count as usize {
        f(position, &index);
        for a in (0..dims.len()).rev() {
            index[a] += 1;
            if index[a] < dims[a] {
                break;
            }
            index[a] = 0;
        }
    }
}

/// Position of an index, given strides in elements.
pub(super) fn position(index: &[i64], strides: &[i64]) -> usize {
    index.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>() as usize
}

/// A tensor's lines along an axis: `outer` blocks of `size` rows of `inner` elements.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub size: usize,
    pub outer: usize,
    pub inner: usize,
}

impl Lines {
    pub fn along(dims: &[i64], axis: usize) -> Lines {
        let product = |d: &[i64]| d.iter().product::<i64>() as usize;
        Lines { size: dims[axis] as usize, outer: product(&dims[..axis]), inner: product(&dims[axis + 1..]) }
    }

    /// Positions of the first element of each line, in row-major order of the other axes.
    pub fn starts(self) -> impl Iterator<Item = usize> {
        (0..self.outer).flat_map(move |o| (0..self.inner).map(move |i| o * self.size * self.inner + i))
    }

    /// Positions of a line's elements.
    pub fn line(self, start: usize) -> impl Iterator<Item = usize> {
        (0..self.size).map(move |k| start + k * self.inner)
    }
}
