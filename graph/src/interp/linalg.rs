//! Factorisations and solves of batches of matrices.

use crate::interp::complex::Field;
use crate::interp::elems::{Elems, decode, encode};
use crate::literal::Literal;

/// Lower factor of each matrix, from its lower triangle; NaN where it is not positive definite.
pub(super) fn cholesky(x: &Literal) -> Literal {
    fn factor<T: Field>(v: &[T], n: usize) -> Vec<T> {
        let mut out = vec![T::ZERO; v.len()];
        for base in (0..v.len()).step_by((n * n).max(1)) {
            for i in 0..n {
                for j in 0..=i {
                    let mut sum = v[base + i * n + j];
                    for k in 0..j {
                        sum = sum - out[base + i * n + k].times(out[base + j * n + k].conjugate());
                    }
                    out[base + i * n + j] = if i == j { sum.root() } else { sum / out[base + j * n + j] };
                }
            }
        }
        out
    }
    let n = x.ty().dims[x.ty().rank() - 1] as usize;
    let elems = match decode(x) {
        Elems::Real(v) => Elems::Real(factor(&v, n)),
        Elems::Complex(v) => Elems::Complex(factor(&v, n)),
        Elems::Int(_) => unreachable!("the shape rule refuses integers"),
    };
    encode(x.ty(), elems)
}

/// Attributes of a triangular solve, as [`crate::Op::TriangularSolve`].
#[derive(Clone, Copy)]
pub(super) struct Triangle {
    pub left: bool,
    pub lower: bool,
    pub unit_diagonal: bool,
    pub transpose: bool,
}

/// Solves a system per column of b (`left`) or per row.
pub(super) fn triangular_solve(a: &Literal, b: &Literal, t: Triangle) -> Literal {
    let n = a.ty().dims[a.ty().rank() - 1] as usize;
    let columns = b.ty().dims[b.ty().rank() - 1] as usize;
    let rows = b.ty().dims[b.ty().rank() - 2] as usize;
    let elems = match (decode(a), decode(b)) {
        (Elems::Real(a), Elems::Real(b)) => Elems::Real(solve(&a, b, n, rows, columns, t)),
        (Elems::Complex(a), Elems::Complex(b)) => Elems::Complex(solve(&a, b, n, rows, columns, t)),
        _ => unreachable!("the shape rule asks for equal floating-point types"),
    };
    encode(b.ty(), elems)
}

fn solve<T: Field>(a: &[T], mut b: Vec<T>, n: usize, rows: usize, columns: usize, t: Triangle) -> Vec<T> {
    // x a = b is aᵀ xᵀ = bᵀ, and either transposition turns a lower triangle into an upper one.
    let transposed = t.transpose == t.left;
    let lower = t.lower != transposed;
    let (systems, system_step, step) = if t.left { (columns, 1, columns) } else { (rows, columns, 1) };
    for batch in 0..b.len() / (rows * columns).max(1) {
        let entry = |i: usize, j: usize| a[batch * n * n + if transposed { j * n + i } else { i * n + j }];
        for system in 0..systems {
            let base = batch * rows * columns + system * system_step;
            for k in 0..n {
                let i = if lower { k } else { n - 1 - k };
                let solved = if lower { 0..i } else { i + 1..n };
                let mut value = b[base + i * step];
                for j in solved {
                    value = value - entry(i, j).times(b[base + j * step]);
                }
                b[base + i * step] = if t.unit_diagonal { value } else { value / entry(i, i) };
            }
        }
    }
    b
}
