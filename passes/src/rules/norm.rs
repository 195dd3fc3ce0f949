//! Softmax and root-mean-square norm recognised from their parts, in f32 and f64 only: narrower types round between the parts.

use clutch_graph::op::{Axes, BinaryOp, Combiner, Real, UnaryOp};
use clutch_graph::{DType, Op};
use egg::Id;

use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "softmax-from-parts",
        condition: "exp(x - max) / sum(exp(x - max)) along one axis in f32 or f64",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(softmax),
    },
    Rule {
        name: "log-softmax-from-parts",
        condition: "x - max - log(sum(exp(x - max))) along one axis in f32 or f64",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(log_softmax),
    },
    Rule {
        name: "rms-norm-from-parts",
        condition: "x * rsqrt(mean(x^2) + eps) * weight along the last axis in f32 or f64",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(rms_norm),
    },
];

/// Through reshapes that only insert or drop axes of size 1.
fn through_ones(s: &Search<'_>, id: Id) -> Id {
    let plain = |dims: &[i64]| dims.iter().copied().filter(|&d| d != 1).collect::<Vec<i64>>();
    s.find(id, |op, x| match op {
        Op::Reshape(_) if plain(s.dims(x[0])) == plain(s.dims(id)) => Some(x[0]),
        _ => None,
    })
    .unwrap_or(id)
}

/// The operand and the axis of a reduction of one axis that a class spreads along that axis again.
fn spread_reduction(s: &Search<'_>, id: Id, combiner: Combiner) -> Option<(Id, usize)> {
    let (source, axes) = s.broadcast_of(id)?;
    let rank = s.ty(id).rank();
    let dropped = |axes: &Axes| -> Option<usize> {
        let mut missing = (0..rank).filter(|a| !axes.contains(a));
        missing.next().filter(|_| missing.next().is_none())
    };
    // The broadcast inserts the axis, or widens it from size 1 behind a reshape.
    let (reduced, axis) = match dropped(&axes) {
        Some(axis) => (source, axis),
        None if axes.len() == rank => {
            let mut widened = (0..rank).filter(|&a| s.dims(source)[a] == 1 && s.dims(id)[a] != 1);
            (through_ones(s, source), widened.next().filter(|_| widened.next().is_none())?)
        }
        None => return None,
    };
    s.find(reduced, |op, x| match op {
        Op::Reduce { combiner: c, axes } if *c == combiner && axes[..] == [axis] && s.dims(x[0]) == s.dims(id) => Some((x[0], axis)),
        _ => None,
    })
}

fn is_plain_float(s: &Search<'_>, id: Id) -> bool {
    matches!(s.dtype(id), DType::F32 | DType::F64)
}

/// `x` and the axis where a class is x - max(x).
fn shifted(s: &Search<'_>, id: Id) -> Option<(Id, usize)> {
    let [x, max] = s.binary_of(id, BinaryOp::Sub)?;
    let (source, axis) = spread_reduction(s, max, Combiner::Max)?;
    s.same(source, x).then_some((x, axis))
}

fn softmax(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Div) = op else { return Ok(None) };
    if !is_plain_float(s, x[0]) {
        return Ok(None);
    }
    let found = (|| {
        let (value, axis) = shifted(s, s.unary_of(x[0], UnaryOp::Exp)?)?;
        let (summed, sum_axis) = spread_reduction(s, x[1], Combiner::Add)?;
        (s.same(summed, x[0]) && axis == sum_axis).then_some((value, axis))
    })();
    match found {
        Some((value, axis)) => s.add(Op::Softmax { axis, log: false }, &[value]).map(Some),
        None => Ok(None),
    }
}

fn log_softmax(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Sub) = op else { return Ok(None) };
    if !is_plain_float(s, x[0]) {
        return Ok(None);
    }
    let found = (|| {
        let (value, axis) = shifted(s, x[0])?;
        let rank = s.ty(x[0]).rank();
        let (log, axes) = s.broadcast_of(x[1])?;
        let log = if axes.len() == rank { through_ones(s, log) } else { log };
        let sum = s.unary_of(log, UnaryOp::Log)?;
        let sum = if s.ty(sum).rank() == rank { through_ones(s, sum) } else { sum };
        let places = axes.iter().copied().filter(|&a| a != axis);
        let straight = places.eq((0..rank).filter(|&a| a != axis));
        let exp = s.find(sum, |op, y| match op {
            Op::Reduce { combiner: Combiner::Add, axes } if axes[..] == [axis] => Some(y[0]),
            _ => None,
        })?;
        (straight && s.same(s.unary_of(exp, UnaryOp::Exp)?, x[0])).then_some((value, axis))
    })();
    match found {
        Some((value, axis)) => s.add(Op::Softmax { axis, log: true }, &[value]).map(Some),
        None => Ok(None),
    }
}

/// `x` and eps where a class spreads rsqrt(mean(x^2) + eps) along the last axis.
fn rms_scale(s: &Search<'_>, id: Id) -> Option<(Id, f64)> {
    let rank = s.ty(id).rank();
    let (scale, axes) = s.broadcast_of(id)?;
    let spread = axes.iter().copied().eq(0..axes.len()) && axes.len() + 1 >= rank;
    let sum = s.unary_of(scale, UnaryOp::Rsqrt)?;
    let (mean, eps) = s.with_number(sum, BinaryOp::Add)?;
    let size = *s.dims(id).last()? as f64;
    let total = s
        .with_number(mean, BinaryOp::Div)
        .filter(|(_, c)| *c == size)
        .or_else(|| s.with_number(mean, BinaryOp::Mul).filter(|(_, c)| size.log2().fract() == 0.0 && *c == 1.0 / size))?
        .0;
    let total = if s.ty(total).rank() == rank { through_ones(s, total) } else { total };
    let square = s.find(total, |op, y| match op {
        Op::Reduce { combiner: Combiner::Add, axes } if axes[..] == [rank - 1] && s.dims(y[0]) == s.dims(id) => Some(y[0]),
        _ => None,
    })?;
    let [a, b] = s.binary_of(square, BinaryOp::Mul)?;
    (spread && s.same(a, b)).then_some((a, eps))
}

fn rms_norm(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Mul) = op else { return Ok(None) };
    let rank = s.ty(x[0]).rank();
    if !is_plain_float(s, x[0]) || rank == 0 {
        return Ok(None);
    }
    for (value, spread) in [(x[0], x[1]), (x[1], x[0])] {
        let Some((weight, axes)) = s.broadcast_of(spread) else { continue };
        if axes[..] != [rank - 1] || s.dims(weight)[0] != s.dims(value)[rank - 1] {
            continue;
        }
        let found = s.binary_of(value, BinaryOp::Mul).and_then(|[p, q]| {
            let scaled = |v: Id, scale: Id| rms_scale(s, scale).filter(|(x, _)| s.same(*x, v));
            scaled(p, q).or_else(|| scaled(q, p))
        });
        if let Some((source, eps)) = found {
            return s.add(Op::RmsNorm { eps: Real(eps) }, &[source, weight]).map(Some);
        }
    }
    Ok(None)
}
