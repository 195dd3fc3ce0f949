//! Sorts and searches. Floats order with NaN as the largest and -0 equal to 0.

use std::cmp::Ordering;

use crate::interp::elems::{Elems, Lines, decode, encode, literal};
use crate::interp::movement::put;
use crate::literal::Literal;
use crate::types::TensorType;

/// Order of two reals with NaN largest.
fn order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// A total order of the elements of `x` by position.
fn comparator(x: &Literal) -> Box<dyn Fn(usize, usize) -> Ordering> {
    match decode(x) {
        Elems::Int(v) => Box::new(move |a, b| v[a].cmp(&v[b])),
        Elems::Real(v) => Box::new(move |a, b| order(v[a], v[b])),
        Elems::Complex(_) => unreachable!("the shape rule refuses complex keys"),
    }
}

/// All operands sorted by the first, always stably.
pub(super) fn sort(args: &[Literal], axis: usize, descending: bool) -> Vec<Literal> {
    let compare = comparator(&args[0]);
    let lines = Lines::along(&args[0].ty().dims, axis);
    let mut results: Vec<Vec<u8>> = args.iter().map(|x| x.bytes().to_vec()).collect();
    for start in lines.starts() {
        let mut from: Vec<usize> = lines.line(start).collect();
        from.sort_by(|&a, &b| if descending { compare(b, a) } else { compare(a, b) });
        for (to, from) in lines.line(start).zip(from) {
            for (result, x) in results.iter_mut().zip(args) {
                put(result, to, x, from);
            }
        }
    }
    results.into_iter().zip(args).map(|(bytes, x)| literal(x.ty(), bytes)).collect()
}

pub(super) fn top_k(x: &Literal, k: i64, largest: bool, outs: &[TensorType]) -> Vec<Literal> {
    let compare = comparator(x);
    let lines = Lines::along(&x.ty().dims, x.ty().rank() - 1);
    let mut values = vec![0; outs[0].byte_size()];
    let mut positions = Vec::new();
    for start in lines.starts() {
        let mut from: Vec<usize> = lines.line(start).collect();
        from.sort_by(|&a, &b| if largest { compare(b, a) } else { compare(a, b) });
        for &p in &from[..k as usize] {
            put(&mut values, positions.len(), x, p);
            positions.push((p - start) as i128);
        }
    }
    vec![literal(&outs[0], values), encode(&outs[1], Elems::Int(positions))]
}

pub(super) fn arg_reduce(x: &Literal, axis: usize, max: bool, out: &TensorType) -> Literal {
    let compare = comparator(x);
    let nan: Vec<bool> = match decode(x) {
        Elems::Real(v) => v.into_iter().map(f64::is_nan).collect(),
        _ => vec![false; x.ty().numel() as usize],
    };
    let lines = Lines::along(&x.ty().dims, axis);
    let better = |a: usize, b: usize| {
        if nan[a] || nan[b] {
            return nan[a] && !nan[b];
        }
        compare(a, b) == if max { Ordering::Greater } else { Ordering::Less }
    };
    let mut positions = Vec::new();
    for start in lines.starts() {
        let mut best = (0, start);
        for (k, p) in lines.line(start).enumerate() {
            if better(p, best.1) {
                best = (k, p);
            }
        }
        positions.push(best.0 as i128);
    }
    encode(out, Elems::Int(positions))
}
