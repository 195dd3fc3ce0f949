//! Reductions over sliding windows.

use crate::interp::complex::Number;
use crate::interp::elems::{Elems, decode, each_index, encode, position};
use crate::interp::reduce::{combine_complex, combine_int, combine_real, finish, identity_int, identity_real};
use crate::literal::Literal;
use crate::op::{Combiner, WindowDim};
use crate::types::{Dims, TensorType, row_major_strides};

/// Operand index that element `at` of the window at `out` covers; `None` in padding and between dilated elements.
pub(super) fn operand_index(w: &WindowDim, out: i64, at: i64, size: i64) -> Option<i64> {
    let p = out.saturating_mul(w.stride).saturating_add(at.saturating_mul(w.window_dilation)).saturating_sub(w.pad_low);
    (p >= 0 && p % w.base_dilation == 0 && p / w.base_dilation < size).then(|| p / w.base_dilation)
}

/// Calls `f` with the operand positions in the window of the result index, in the window's row-major order.
fn each_in_window(dims: &[i64], strides: &[i64], window: &[WindowDim], out: &[i64], mut f: impl FnMut(usize)) {
    let sizes: Dims = window.iter().map(|w| w.size).collect();
    let mut index = vec![0; dims.len()];
    each_index(&sizes, |_, at| {
        for (a, w) in window.iter().enumerate() {
            match operand_index(w, out[a], at[a], dims[a]) {
                Some(p) => index[a] = p,
                None => return,
            }
        }
        f(position(&index, strides));
    });
}

pub(super) fn reduce_window(x: &Literal, combiner: Combiner, window: &[WindowDim], out: &TensorType) -> Literal {
    fn reduce<T: Copy>(x: &[T], dims: &[i64], window: &[WindowDim], out: &[i64], identity: T, combine: impl Fn(T, T) -> T) -> Vec<T> {
        let strides = row_major_strides(dims);
        let mut result = Vec::new();
        each_index(out, |_, index| {
            let mut value = identity;
            each_in_window(dims, &strides, window, index, |p| value = combine(value, x[p]));
            result.push(value);
        });
        result
    }
    let (dims, dtype) = (&x.ty().dims, x.ty().dtype);
    let elems = match decode(x) {
        Elems::Int(v) => Elems::Int(reduce(&v, dims, window, &out.dims, identity_int(combiner, dtype), combine_int(combiner))),
        Elems::Real(v) => Elems::Real(reduce(&v, dims, window, &out.dims, identity_real(combiner), combine_real(combiner))),
        Elems::Complex(v) => {
            let identity = if combiner == Combiner::Mul { Number::ONE } else { Number::ZERO };
            Elems::Complex(reduce(&v, dims, window, &out.dims, identity, combine_complex(combiner)))
        }
    };
    encode(out, finish(elems, out.dtype))
}

pub(super) fn select_and_scatter(x: &Literal, source: &Literal, window: &[WindowDim]) -> Literal {
    fn scatter<T: Copy, S: Number>(
        x: &[T],
        source: &[S],
        dims: &[i64],
        window: &[WindowDim],
        source_dims: &[i64],
        wins: impl Fn(T, T) -> bool,
    ) -> Vec<S> {
        let strides = row_major_strides(dims);
        let mut out = vec![S::ZERO; x.len()];
        each_index(source_dims, |from, index| {
            let mut best: Option<usize> = None;
            each_in_window(dims, &strides, window, index, |p| {
                if best.is_none_or(|b| wins(x[p], x[b])) {
                    best = Some(p);
                }
            });
            if let Some(p) = best {
                out[p] = out[p].plus(source[from]);
            }
        });
        out
    }
    let (dims, source_dims) = (&x.ty().dims, &source.ty().dims);
    let elems = match (decode(x), decode(source)) {
        (Elems::Int(v), Elems::Int(s)) => Elems::Int(scatter(&v, &s, dims, window, source_dims, |a, b| a > b)),
        (Elems::Real(v), Elems::Real(s)) => {
            Elems::Real(scatter(&v, &s, dims, window, source_dims, |a: f64, b: f64| !b.is_nan() && (a > b || a.is_nan())))
        }
        _ => unreachable!("the shape rule asks for equal ordered operand types"),
    };
    encode(x.ty(), elems)
}
