//! Ops that move elements without looking at them.

use crate::interp::elems::{Elems, each_index, encode, literal, position};
use crate::literal::Literal;
use crate::op::PadDim;
use crate::types::{TensorType, row_major_strides};

/// A tensor whose element at each index is the element of `x` at the position that `from` gives.
pub(super) fn take(x: &Literal, out: &TensorType, mut from: impl FnMut(&[i64]) -> usize) -> Literal {
    let size = out.dtype.size();
    let mut bytes = Vec::with_capacity(out.byte_size());
    each_index(&out.dims, |_, index| {
        let at = from(index) * size;
        bytes.extend_from_slice(&x.bytes()[at..at + size]);
    });
    literal(out, bytes)
}

/// Copies element `from` of `x` to element `to` of `bytes`.
pub(super) fn put(bytes: &mut [u8], to: usize, x: &Literal, from: usize) {
    let size = x.ty().dtype.size();
    bytes[to * size..(to + 1) * size].copy_from_slice(&x.bytes()[from * size..(from + 1) * size]);
}

pub(super) fn iota(axis: usize, out: &TensorType) -> Literal {
    let mut values = Vec::with_capacity(out.numel() as usize);
    each_index(&out.dims, |_, index| values.push(i128::from(index[axis])));
    encode(out, Elems::Int(values))
}

pub(super) fn broadcast(x: &Literal, axes: &[usize], out: &TensorType) -> Literal {
    let dims = &x.ty().dims;
    let strides = row_major_strides(dims);
    take(x, out, |index| axes.iter().enumerate().map(|(i, &a)| if dims[i] == 1 { 0 } else { index[a] * strides[i] }).sum::<i64>() as usize)
}

pub(super) fn transpose(x: &Literal, perm: &[usize], out: &TensorType) -> Literal {
    let strides = row_major_strides(&x.ty().dims);
    take(x, out, |index| index.iter().zip(perm).map(|(i, &p)| i * strides[p]).sum::<i64>() as usize)
}

pub(super) fn slice(x: &Literal, start: &[i64], stride: &[i64], out: &TensorType) -> Literal {
    let strides = row_major_strides(&x.ty().dims);
    take(x, out, |index| (0..index.len()).map(|a| (start[a] + index[a] * stride[a]) * strides[a]).sum::<i64>() as usize)
}

pub(super) fn reverse(x: &Literal, axes: &[usize]) -> Literal {
    let dims = &x.ty().dims;
    let strides = row_major_strides(dims);
    let flipped = |a: usize, i: i64| if axes.contains(&a) { dims[a] - 1 - i } else { i };
    take(x, x.ty(), |index| index.iter().enumerate().map(|(a, &i)| flipped(a, i) * strides[a]).sum::<i64>() as usize)
}

pub(super) fn pad(x: &Literal, value: &Literal, pads: &[PadDim], out: &TensorType) -> Literal {
    let mut bytes = value.bytes().repeat(out.numel() as usize);
    let strides = row_major_strides(&out.dims);
    each_index(&x.ty().dims, |from, index| {
        let to: Vec<i64> =
            index.iter().zip(pads).map(|(i, p)| i.saturating_mul(p.interior).saturating_add(*i).saturating_add(p.low)).collect();
        if to.iter().zip(&out.dims).all(|(t, d)| (0..*d).contains(t)) {
            put(&mut bytes, position(&to, &strides), x, from);
        }
    });
    literal(out, bytes)
}

pub(super) fn concat(parts: &[Literal], axis: usize, out: &TensorType) -> Literal {
    let row = |x: &Literal| x.ty().dims[axis..].iter().product::<i64>() as usize * out.dtype.size();
    let outer = out.dims[..axis].iter().product::<i64>() as usize;
    let mut bytes = Vec::with_capacity(out.byte_size());
    for o in 0..outer {
        for part in parts {
            let n = row(part);
            bytes.extend_from_slice(&part.bytes()[o * n..(o + 1) * n]);
        }
    }
    literal(out, bytes)
}
