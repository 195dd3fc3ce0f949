//! Reductions of what is repeated, transposed or reduced already.

use clutch_graph::op::{Axes, BinaryOp, Combiner};
use clutch_graph::{Dims, Op};
use egg::Id;

use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "extreme-of-broadcast",
        condition: "a maximum or minimum over axes of which at least one, not of size 0, is repeated",
        rounding: Rounding::Exact,
        apply: Apply::Term(extreme_of_broadcast),
    },
    Rule {
        name: "sum-of-broadcast",
        condition: "a sum of f32, f64 or integers over axes of which at least one, not of size 0, is repeated",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(sum_of_broadcast),
    },
    Rule {
        name: "extreme-of-extreme",
        condition: "both are maxima, or both minima",
        rounding: Rounding::Exact,
        apply: Apply::Term(extreme_of_extreme),
    },
    Rule {
        name: "sum-of-sum",
        condition: "both are sums of f32, f64 or integers",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(sum_of_sum),
    },
    Rule {
        name: "extreme-of-transpose",
        condition: "a maximum or minimum whose remaining axes keep their order under the transpose",
        rounding: Rounding::Exact,
        apply: Apply::Term(extreme_of_transpose),
    },
    Rule {
        name: "sum-of-transpose",
        condition: "a sum whose remaining axes keep their order under the transpose",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(sum_of_transpose),
    },
];

fn reduction(op: &Op) -> Option<(Combiner, &Axes)> {
    match op {
        Op::Reduce { combiner, axes } => Some((*combiner, axes)),
        _ => None,
    }
}

fn is_extreme(combiner: Combiner) -> bool {
    matches!(combiner, Combiner::Max | Combiner::Min)
}

/// A sum may be split and joined without an intermediate that is narrower than where it is computed.
fn sums_plainly(s: &Search<'_>, id: Id) -> bool {
    use clutch_graph::DType;
    let dtype = s.dtype(id);
    dtype.is_int() || matches!(dtype, DType::F32 | DType::F64)
}

/// The reduction over the axes that the operand of the broadcast has, spread over those that remain of the others; and how often an element
/// was repeated along reduced axes.
fn without_repeats(s: &mut Search<'_>, combiner: Combiner, axes: &Axes, x: Id) -> Result<Option<(Id, f64)>, clutch_graph::GraphError> {
    let Some((source, places)) = s.broadcast_of(x) else { return Ok(None) };
    let (dims, inner): (Dims, Dims) = (s.dims(x).into(), s.dims(source).into());
    // Operand axes of size 1 that grow are left to other rules.
    if (0..inner.len()).any(|i| inner[i] != dims[places[i]]) || dims.contains(&0) {
        return Ok(None);
    }
    let repeated: f64 = axes.iter().filter(|a| !places.contains(a)).map(|&a| dims[a] as f64).product();
    if axes.iter().all(|a| places.contains(a)) {
        return Ok(None);
    }
    let reduced: Axes = (0..inner.len()).filter(|&i| axes.contains(&places[i])).collect();
    let kept: Axes = (0..dims.len()).filter(|a| !axes.contains(a)).collect();
    let place = |a: &usize| kept.iter().position(|k| k == a);
    let spread: Axes = places.iter().filter_map(place).collect();
    let small = s.add(Op::Reduce { combiner, axes: reduced }, &[source])?;
    let out: Dims = kept.iter().map(|&a| dims[a]).collect();
    Ok(Some((s.broadcast(small, &out, &spread)?, repeated)))
}

fn extreme_of_broadcast(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    match reduction(op) {
        Some((combiner, axes)) if is_extreme(combiner) => Ok(without_repeats(s, combiner, axes, x[0])?.map(|(id, _)| id)),
        _ => Ok(None),
    }
}

fn sum_of_broadcast(s: &mut Search<'_>, op: &Op, x: &[Id], root: Id) -> Found {
    let Some((Combiner::Add, axes)) = reduction(op) else { return Ok(None) };
    if !sums_plainly(s, x[0]) {
        return Ok(None);
    }
    let Some((sum, times)) = without_repeats(s, Combiner::Add, axes, x[0])? else { return Ok(None) };
    let (dtype, dims) = (s.dtype(root), Dims::from(s.dims(root)));
    let times = s.number(dtype, &dims, times)?;
    s.binary(BinaryOp::Mul, sum, times).map(Some)
}

fn joined(s: &mut Search<'_>, op: &Op, x: &[Id]) -> Found {
    let Some((combiner, outer)) = reduction(op) else { return Ok(None) };
    let found = s.find(x[0], |op, y| reduction(op).filter(|(c, _)| *c == combiner).map(|(_, axes)| (axes.clone(), y[0])));
    let Some((inner, source)) = found else { return Ok(None) };
    let kept: Axes = (0..s.ty(source).rank()).filter(|a| !inner.contains(a)).collect();
    let mut axes: Axes = inner.iter().copied().chain(outer.iter().map(|&a| kept[a])).collect();
    axes.sort_unstable();
    s.add(Op::Reduce { combiner, axes }, &[source]).map(Some)
}

fn extreme_of_extreme(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    if reduction(op).is_some_and(|(c, _)| is_extreme(c)) { joined(s, op, x) } else { Ok(None) }
}

fn sum_of_sum(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    if reduction(op).is_some_and(|(c, _)| c == Combiner::Add) && sums_plainly(s, x[0]) { joined(s, op, x) } else { Ok(None) }
}

fn of_transpose(s: &mut Search<'_>, op: &Op, x: &[Id]) -> Found {
    let Some((combiner, axes)) = reduction(op) else { return Ok(None) };
    let found = s.find(x[0], |op, y| match op {
        Op::Transpose(perm) => Some((perm.clone(), y[0])),
        _ => None,
    });
    let Some((perm, source)) = found else { return Ok(None) };
    if !(0..perm.len()).filter(|a| !axes.contains(a)).map(|a| perm[a]).is_sorted() {
        return Ok(None);
    }
    let mut axes: Axes = axes.iter().map(|&a| perm[a]).collect();
    axes.sort_unstable();
    s.add(Op::Reduce { combiner, axes }, &[source]).map(Some)
}

fn extreme_of_transpose(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    if reduction(op).is_some_and(|(c, _)| is_extreme(c)) { of_transpose(s, op, x) } else { Ok(None) }
}

fn sum_of_transpose(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    if reduction(op).is_some_and(|(c, _)| c == Combiner::Add) { of_transpose(s, op, x) } else { Ok(None) }
}
