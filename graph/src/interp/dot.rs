//! General contraction. Reals accumulate in `f64`.

use crate::interp::complex::Number;
use crate::interp::elems::{Elems, decode, each_index, encode, position};
use crate::literal::Literal;
use crate::op::{Axes, DotDims};
use crate::types::{Dims, TensorType, row_major_strides};

pub(super) fn dot_general(lhs: &Literal, rhs: &Literal, dims: &DotDims, out: &TensorType) -> Literal {
    let l = Side::new(lhs.ty(), &dims.lhs_batch, &dims.lhs_contract);
    let r = Side::new(rhs.ty(), &dims.rhs_batch, &dims.rhs_contract);
    let elems = match (decode(lhs), decode(rhs)) {
        (Elems::Int(x), Elems::Int(y)) => Elems::Int(contract(&l, &x, &r, &y)),
        (Elems::Real(x), Elems::Real(y)) => Elems::Real(contract(&l, &x, &r, &y)),
        (Elems::Complex(x), Elems::Complex(y)) => Elems::Complex(contract(&l, &x, &r, &y)),
        _ => unreachable!("the shape rule asks for equal operand types"),
    };
    encode(out, elems)
}

/// Positions of an operand's elements, each the sum of a batch, a free and a contracting part.
struct Side {
    batch: Vec<usize>,
    free: Vec<usize>,
    contract: Vec<usize>,
}

impl Side {
    fn new(ty: &TensorType, batch: &Axes, contract: &Axes) -> Side {
        let strides = row_major_strides(&ty.dims);
        let positions = |axes: &[usize]| {
            let dims: Dims = axes.iter().map(|&a| ty.dims[a]).collect();
            let steps: Dims = axes.iter().map(|&a| strides[a]).collect();
            let mut all = Vec::new();
            each_index(&dims, |_, index| all.push(position(index, &steps)));
            all
        };
        let free: Axes = (0..ty.rank()).filter(|a| !batch.contains(a) && !contract.contains(a)).collect();
        Side { batch: positions(batch), free: positions(&free), contract: positions(contract) }
    }
}

fn contract<T: Number>(l: &Side, x: &[T], r: &Side, y: &[T]) -> Vec<T> {
    let mut out = Vec::with_capacity(l.batch.len() * l.free.len() * r.free.len());
    for (lb, rb) in l.batch.iter().zip(&r.batch) {
        for lf in &l.free {
            for rf in &r.free {
                let terms = l.contract.iter().zip(&r.contract).map(|(lc, rc)| x[lb + lf + lc].times(y[rb + rf + rc]));
                out.push(terms.fold(T::ZERO, T::plus));
            }
        }
    }
    out
}
