//! Transposes, reshapes, broadcasts, slices and concatenations moved and cancelled.

use clutch_graph::op::Axes;
use clutch_graph::{Dims, Op};
use egg::Id;
use smallvec::SmallVec;

use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule { name: "transpose-twice", condition: "always", rounding: Rounding::Exact, apply: Apply::Term(transpose_twice) },
    Rule { name: "reshape-twice", condition: "always", rounding: Rounding::Exact, apply: Apply::Term(reshape_twice) },
    Rule {
        name: "transpose-out",
        condition: "every operand of an elementwise op is the same transpose of something, or one number",
        rounding: Rounding::Exact,
        apply: Apply::Term(transpose_out),
    },
    Rule {
        name: "transpose-in",
        condition: "the operand of the transpose is an elementwise op of one operand that is a transpose",
        rounding: Rounding::Exact,
        apply: Apply::Term(transpose_in),
    },
    Rule {
        name: "broadcast-out",
        condition: "every operand of an elementwise op is a broadcast along the same axes, or one number",
        rounding: Rounding::Exact,
        apply: Apply::Term(broadcast_out),
    },
    Rule {
        name: "slice-in",
        condition: "the operand of the slice is an elementwise op",
        rounding: Rounding::Exact,
        apply: Apply::Term(slice_in),
    },
    Rule {
        name: "concat-of-slices",
        condition: "neighbours are slices of one value that follow one another along the axis and agree on the others",
        rounding: Rounding::Exact,
        apply: Apply::Term(concat_of_slices),
    },
    Rule { name: "slice-of-transpose", condition: "always", rounding: Rounding::Exact, apply: Apply::Term(slice_of_transpose) },
];

pub(super) fn is_elementwise(op: &Op) -> bool {
    matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Convert(_) | Op::Bitcast(_) | Op::Gelu { .. } | Op::Silu)
}

fn transpose_twice(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Transpose(outer) = op else { return Ok(None) };
    let Some((source, perm)) = transpose_of(s, x[0]) else { return Ok(None) };
    let both: Axes = outer.iter().map(|&p| perm[p]).collect();
    s.transpose(source, &both).map(Some)
}

fn reshape_twice(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Reshape(dims) = op else { return Ok(None) };
    let Some(source) = s.find(x[0], |op, y| matches!(op, Op::Reshape(_)).then(|| y[0])) else { return Ok(None) };
    s.reshape(source, dims).map(Some)
}

fn transpose_of(s: &Search<'_>, id: Id) -> Option<(Id, Axes)> {
    s.find(id, |op, x| match op {
        Op::Transpose(perm) => Some((x[0], perm.clone())),
        _ => None,
    })
}

fn transpose_out(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    if !is_elementwise(op) {
        return Ok(None);
    }
    let Some(perm) = x.iter().find_map(|&v| transpose_of(s, v)).map(|(_, perm)| perm) else { return Ok(None) };
    let mut sources: SmallVec<[Id; 3]> = SmallVec::new();
    for &v in x {
        let same = s.find(v, |op, y| if matches!(op, Op::Transpose(p) if *p == perm) { Some(y[0]) } else { None });
        match (same, s.facts(v).uniform) {
            (Some(source), _) => sources.push(source),
            (None, Some(c)) => {
                let (dtype, dims) = (s.dtype(v), before(&perm, s.dims(v)));
                sources.push(s.number(dtype, &dims, c)?);
            }
            (None, None) => return Ok(None),
        }
    }
    let inner = s.add(op.clone(), &sources)?;
    s.transpose(inner, &perm).map(Some)
}

/// Sizes before a transpose that gives `dims`.
fn before(perm: &[usize], dims: &[i64]) -> Dims {
    let mut out: Dims = dims.into();
    perm.iter().zip(dims).for_each(|(&p, &d)| out[p] = d);
    out
}

fn transpose_in(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Transpose(perm) = op else { return Ok(None) };
    let found = s.find(x[0], |op, y| (is_elementwise(op) && y.len() == 1 && transpose_of(s, y[0]).is_some()).then(|| (op.clone(), y[0])));
    let Some((inner, operand)) = found else { return Ok(None) };
    let moved = s.transpose(operand, perm)?;
    s.add(inner, &[moved]).map(Some)
}

fn broadcast_out(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    if !is_elementwise(op) {
        return Ok(None);
    }
    let first = x.iter().find(|&&v| s.facts(v).uniform.is_none()).and_then(|&v| s.broadcast_of(v));
    let Some((first, axes)) = first else { return Ok(None) };
    let (dims, inner_dims): (Dims, Dims) = (s.dims(x[0]).into(), s.dims(first).into());
    let mut sources: SmallVec<[Id; 3]> = SmallVec::new();
    for &v in x {
        if let Some(c) = s.facts(v).uniform {
            let dtype = s.dtype(v);
            sources.push(s.number(dtype, &inner_dims, c)?);
            continue;
        }
        let same = s.find(v, |op, y| match op {
            Op::Broadcast { axes: a, .. } if *a == axes && s.dims(y[0]) == &inner_dims[..] => Some(y[0]),
            _ => None,
        });
        match same {
            Some(source) => sources.push(source),
            None => return Ok(None),
        }
    }
    let inner = s.add(op.clone(), &sources)?;
    s.broadcast(inner, &dims, &axes).map(Some)
}

fn slice_in(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Slice { .. } = op else { return Ok(None) };
    let found = s.find(x[0], |inner, y| is_elementwise(inner).then(|| (inner.clone(), SmallVec::<[Id; 3]>::from(y))));
    let Some((inner, operands)) = found else { return Ok(None) };
    let mut cut: SmallVec<[Id; 3]> = SmallVec::new();
    for v in operands {
        cut.push(match s.facts(v).uniform {
            Some(c) => {
                let Op::Slice { start, limit, stride } = op else { return Ok(None) };
                let dims: Dims = (0..start.len()).map(|i| (limit[i] - start[i] + stride[i] - 1) / stride[i]).collect();
                let dtype = s.dtype(v);
                s.number(dtype, &dims, c)?
            }
            None => s.add(op.clone(), &[v])?,
        });
    }
    s.add(inner, &cut).map(Some)
}

/// Source, starts and limits of a slice of stride one; whole values are slices of themselves.
fn slice_of(s: &Search<'_>, id: Id) -> Option<(Id, Dims, Dims)> {
    s.find(id, |op, x| match op {
        Op::Slice { start, limit, stride } if stride.iter().all(|&n| n == 1) => Some((s.terms.find(x[0]), start.clone(), limit.clone())),
        _ => None,
    })
}

fn concat_of_slices(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Concat(axis) = op else { return Ok(None) };
    let mut parts: Vec<Id> = Vec::new();
    let mut last: Option<(Id, Dims, Dims)> = None;
    for &v in x {
        let this = slice_of(s, v);
        if let (Some((source, start, limit)), Some((source2, start2, limit2))) = (&mut last, &this) {
            let elsewhere = (0..start.len()).all(|i| i == *axis || (start[i] == start2[i] && limit[i] == limit2[i]));
            if source == source2 && elsewhere && limit[*axis] == start2[*axis] {
                limit[*axis] = limit2[*axis];
                let stride = limit.iter().map(|_| 1).collect();
                let joined = Op::Slice { start: start.clone(), limit: limit.clone(), stride };
                let source = *source;
                parts.pop();
                parts.push(s.add(joined, &[source])?);
                continue;
            }
        }
        parts.push(v);
        last = this;
    }
    if parts.len() == x.len() { Ok(None) } else { s.add(Op::Concat(*axis), &parts).map(Some) }
}

fn slice_of_transpose(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Slice { start, limit, stride } = op else { return Ok(None) };
    let Some((source, perm)) = transpose_of(s, x[0]) else { return Ok(None) };
    let moved = |v: &Dims| before(&perm, v);
    let inner = s.add(Op::Slice { start: moved(start), limit: moved(limit), stride: moved(stride) }, &[source])?;
    s.transpose(inner, &perm).map(Some)
}
