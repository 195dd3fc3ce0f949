//! Reductions along axes and running combinations. Real sums and products accumulate in `f64` and are rounded once.

use crate::dtype::DType;
use crate::interp::complex::{Complex, Number};
use crate::interp::elementwise::{maximum, minimum};
use crate::interp::elems::{Elems, Lines, decode, each_index, encode};
use crate::literal::Literal;
use crate::op::Combiner;
use crate::types::{Dims, TensorType, row_major_strides};

/// The combiner's identity among integers of a type.
pub(super) fn identity_int(combiner: Combiner, dtype: DType) -> i128 {
    let bits = 8 * dtype.size() as u32;
    let (low, high) = match dtype {
        DType::Pred => (0, 1),
        d if d.is_signed_int() => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        _ => (0, (1i128 << bits) - 1),
    };
    match combiner {
        Combiner::Add | Combiner::Or | Combiner::Assign => 0,
        Combiner::Mul => 1,
        Combiner::Max => low,
        Combiner::Min => high,
        Combiner::And if dtype == DType::Pred => 1,
        Combiner::And => -1,
    }
}

/// The combiner's identity among reals.
pub(super) fn identity_real(combiner: Combiner) -> f64 {
    match combiner {
        Combiner::Mul => 1.0,
        Combiner::Max => f64::NEG_INFINITY,
        Combiner::Min => f64::INFINITY,
        _ => 0.0,
    }
}

pub(super) fn combine_int(combiner: Combiner) -> fn(i128, i128) -> i128 {
    match combiner {
        Combiner::Add => Number::plus,
        Combiner::Mul => Number::times,
        Combiner::Max => Ord::max,
        Combiner::Min => Ord::min,
        Combiner::And => |a, b| a & b,
        Combiner::Or => |a, b| a | b,
        Combiner::Assign => |_, b| b,
    }
}

pub(super) fn combine_real(combiner: Combiner) -> fn(f64, f64) -> f64 {
    match combiner {
        Combiner::Add => Number::plus,
        Combiner::Mul => Number::times,
        Combiner::Max => maximum,
        Combiner::Min => minimum,
        Combiner::Assign => |_, b| b,
        Combiner::And | Combiner::Or => unreachable!("the shape rule refuses {} of reals", combiner.name()),
    }
}

pub(super) fn combine_complex(combiner: Combiner) -> fn(Complex, Complex) -> Complex {
    match combiner {
        Combiner::Add => Number::plus,
        Combiner::Mul => Number::times,
        Combiner::Assign => |_, b| b,
        _ => unreachable!("the shape rule refuses {} of complex numbers", combiner.name()),
    }
}

/// Infinities that are identities become the extreme finite values of a type without infinities; booleans stay 0 or 1.
pub(super) fn finish(elems: Elems, dtype: DType) -> Elems {
    match (elems, dtype) {
        (Elems::Real(v), DType::F8E4M3FN) => {
            Elems::Real(v.into_iter().map(|x| if x.is_infinite() { 448f64.copysign(x) } else { x }).collect())
        }
        (elems, _) => elems,
    }
}

pub(super) fn reduce(x: &Literal, combiner: Combiner, axes: &[usize], out: &TensorType) -> Literal {
    fn run<T: Copy>(x: &[T], dims: &[i64], steps: &[i64], count: usize, identity: T, combine: impl Fn(T, T) -> T) -> Vec<T> {
        let mut result = vec![identity; count];
        each_index(dims, |from, index| {
            let to = super::elems::position(index, steps);
            result[to] = combine(result[to], x[from]);
        });
        result
    }
    let (dims, dtype, count) = (&x.ty().dims, x.ty().dtype, out.numel() as usize);
    let mut strides = row_major_strides(&out.dims).into_iter();
    let steps: Dims = (0..dims.len()).map(|a| if axes.contains(&a) { 0 } else { strides.next().unwrap_or(0) }).collect();
    let elems = match decode(x) {
        Elems::Int(v) => Elems::Int(run(&v, dims, &steps, count, identity_int(combiner, dtype), combine_int(combiner))),
        Elems::Real(v) => Elems::Real(run(&v, dims, &steps, count, identity_real(combiner), combine_real(combiner))),
        Elems::Complex(v) => {
            let identity = if combiner == Combiner::Mul { Number::ONE } else { Number::ZERO };
            Elems::Complex(run(&v, dims, &steps, count, identity, combine_complex(combiner)))
        }
    };
    encode(out, finish(elems, dtype))
}

pub(super) fn cumulative(x: &Literal, combiner: Combiner, axis: usize) -> Literal {
    fn run<T: Copy>(mut v: Vec<T>, lines: Lines, combine: impl Fn(T, T) -> T) -> Vec<T> {
        for start in lines.starts() {
            let mut running: Option<T> = None;
            for p in lines.line(start) {
                let value = running.map_or(v[p], |r| combine(r, v[p]));
                v[p] = value;
                running = Some(value);
            }
        }
        v
    }
    let lines = Lines::along(&x.ty().dims, axis);
    let elems = match decode(x) {
        Elems::Int(v) => Elems::Int(run(v, lines, combine_int(combiner))),
        Elems::Real(v) => Elems::Real(run(v, lines, combine_real(combiner))),
        Elems::Complex(v) => Elems::Complex(run(v, lines, combine_complex(combiner))),
    };
    encode(x.ty(), elems)
}
