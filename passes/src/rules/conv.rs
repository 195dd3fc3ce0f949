//! Batch norm folded into the convolution before it: what multiplies channels goes into the kernel, what is added is joined.

use clutch_graph::op::{Axes, BinaryOp};
use clutch_graph::{DType, Dims, Op};
use egg::Id;

use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "spread-of-ones",
        condition: "a broadcast of a weight that has axes of size 1 and others",
        rounding: Rounding::Exact,
        apply: Apply::Term(spread_of_ones),
    },
    Rule {
        name: "channels-into-kernel",
        condition: "an f32 or f64 convolution with a weight kernel times a weight vector along its output features",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(channels_into_kernel),
    },
    Rule {
        name: "scale-of-shifted",
        condition: "a difference or sum of a product or convolution, of f32 or f64, and a spread weight, times a weight spread alike",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(scale_of_shifted),
    },
    Rule {
        name: "scale-of-scaled",
        condition: "a product or convolution, of f32 or f64, times two weights spread alike",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(scale_of_scaled),
    },
    Rule {
        name: "shift-of-shifted",
        condition: "two weights spread alike are added to or taken from a value of f32 or f64",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(shift_of_shifted),
    },
];

fn is_plain_float(s: &Search<'_>, id: Id) -> bool {
    matches!(s.dtype(id), DType::F32 | DType::F64)
}

/// The weight that a class repeats and along which axes, in the form with the fewest axes.
fn spread_weight(s: &Search<'_>, id: Id) -> Option<(Id, Axes)> {
    let spread = |op: &Op, x: &[Id]| match op {
        Op::Broadcast { axes, .. } if s.is_weight(x[0]) => Some((x[0], axes.clone())),
        _ => None,
    };
    s.terms[id].nodes.iter().filter_map(|t| spread(s.op(t)?, &t.children)).min_by_key(|(_, axes)| axes.len())
}

fn spread_of_ones(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Broadcast { dims, axes } = op else { return Ok(None) };
    let inner = Dims::from(s.dims(x[0]));
    if !s.is_weight(x[0]) || !inner.contains(&1) || inner.iter().all(|&d| d == 1) {
        return Ok(None);
    }
    let kept: Axes = axes.iter().zip(&inner).filter(|(_, d)| **d != 1).map(|(&a, _)| a).collect();
    let plain: Dims = inner.iter().copied().filter(|&d| d != 1).collect();
    let source = s.reshape(x[0], &plain)?;
    s.broadcast(source, dims, &kept).map(Some)
}

fn channels_into_kernel(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Mul) = op else { return Ok(None) };
    if !is_plain_float(s, x[0]) {
        return Ok(None);
    }
    for (value, factor) in [(x[0], x[1]), (x[1], x[0])] {
        let Some((vector, axes)) = spread_weight(s, factor) else { continue };
        let found = s.find(value, |op, y| match op {
            Op::Convolution(c) if s.is_weight(y[1]) && c.batch_groups == 1 => Some((c.clone(), [y[0], y[1]])),
            _ => None,
        });
        let Some((c, y)) = found else { continue };
        if axes[..] != [c.dims.output_feature] || s.dims(vector)[0] != s.dims(value)[c.dims.output_feature] {
            continue;
        }
        let dims = Dims::from(s.dims(y[1]));
        let factor = s.broadcast(vector, &dims, &[c.dims.kernel_output_feature])?;
        let kernel = s.binary(BinaryOp::Mul, y[1], factor)?;
        return s.add(Op::Convolution(c), &[y[0], kernel]).map(Some);
    }
    Ok(None)
}

/// The value and the spread of a sum or difference whose right side repeats a weight along `axes`, with the sign of that side.
fn shifted(s: &Search<'_>, id: Id, axes: &[usize]) -> Option<(Id, Id, bool)> {
    let weight = |v: Id| spread_weight(s, v).filter(|(_, a)| a[..] == *axes).map(|(w, _)| w);
    s.find(id, |op, y| match op {
        Op::Binary(BinaryOp::Sub) => weight(y[1]).map(|w| (y[0], w, false)),
        Op::Binary(BinaryOp::Add) => weight(y[1]).map(|w| (y[0], w, true)).or_else(|| weight(y[0]).map(|w| (y[1], w, true))),
        _ => None,
    })
}

/// A product or convolution with weights, or one that is scaled already: scaling it can be free.
fn takes_factor(s: &Search<'_>, id: Id, depth: usize) -> bool {
    let found = s.find(id, |op, y| match op {
        Op::Convolution(_) | Op::DotGeneral { .. } => s.is_weight(y[1]).then_some(()),
        Op::Binary(BinaryOp::Mul | BinaryOp::Sub | BinaryOp::Add) if depth > 0 => {
            let inner = |a: Id, b: Id| spread_weight(s, b).is_some() && takes_factor(s, a, depth - 1);
            (inner(y[0], y[1]) || inner(y[1], y[0])).then_some(())
        }
        _ => None,
    });
    found.is_some()
}

const DEPTH: usize = 4;

fn scale_of_shifted(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Mul) = op else { return Ok(None) };
    if !is_plain_float(s, x[0]) {
        return Ok(None);
    }
    for (sum, spread) in [(x[0], x[1]), (x[1], x[0])] {
        let Some((factor, axes)) = spread_weight(s, spread) else { continue };
        let Some((value, shift, added)) = shifted(s, sum, &axes) else { continue };
        if !takes_factor(s, value, DEPTH) || s.dims(factor) != s.dims(shift) {
            continue;
        }
        let dims = Dims::from(s.dims(sum));
        let scaled = s.binary(BinaryOp::Mul, value, spread)?;
        let shift = s.binary(BinaryOp::Mul, shift, factor)?;
        let shift = s.broadcast(shift, &dims, &axes)?;
        return s.binary(if added { BinaryOp::Add } else { BinaryOp::Sub }, scaled, shift).map(Some);
    }
    Ok(None)
}

fn scale_of_scaled(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Mul) = op else { return Ok(None) };
    if !is_plain_float(s, x[0]) {
        return Ok(None);
    }
    for (value, spread) in [(x[0], x[1]), (x[1], x[0])] {
        let Some((outer, axes)) = spread_weight(s, spread) else { continue };
        let weight = |v: Id| spread_weight(s, v).filter(|(w, a)| *a == axes && s.dims(*w) == s.dims(outer)).map(|(w, _)| w);
        let inner = s.find(value, |op, y| match op {
            Op::Binary(BinaryOp::Mul) => weight(y[1]).map(|w| (y[0], w)).or_else(|| weight(y[0]).map(|w| (y[1], w))),
            _ => None,
        });
        let Some((source, inner)) = inner else { continue };
        if !takes_factor(s, source, DEPTH) {
            continue;
        }
        let dims = Dims::from(s.dims(value));
        let both = s.binary(BinaryOp::Mul, inner, outer)?;
        let both = s.broadcast(both, &dims, &axes)?;
        return s.binary(BinaryOp::Mul, source, both).map(Some);
    }
    Ok(None)
}

fn shift_of_shifted(s: &mut Search<'_>, op: &Op, x: &[Id], root: Id) -> Found {
    let Op::Binary(BinaryOp::Add | BinaryOp::Sub) = op else { return Ok(None) };
    if !is_plain_float(s, root) {
        return Ok(None);
    }
    let sides: &[(Id, Id)] = if *op == Op::Binary(BinaryOp::Sub) { &[(x[0], x[1])] } else { &[(x[0], x[1]), (x[1], x[0])] };
    for &(value, spread) in sides {
        let Some((outer, axes)) = spread_weight(s, spread) else { continue };
        let Some((source, inner, added)) = shifted(s, value, &axes) else { continue };
        if s.dims(inner) != s.dims(outer) {
            continue;
        }
        let plus = *op == Op::Binary(BinaryOp::Add);
        // source ± inner ± outer as source + (both) or source - (both).
        let both = s.binary(if plus == added { BinaryOp::Add } else { BinaryOp::Sub }, inner, outer)?;
        let dims = Dims::from(s.dims(value));
        let both = s.broadcast(both, &dims, &axes)?;
        return s.binary(if added { BinaryOp::Add } else { BinaryOp::Sub }, source, both).map(Some);
    }
    Ok(None)
}
