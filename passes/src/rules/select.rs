//! Choices.

use clutch_graph::Op;
use clutch_graph::op::UnaryOp;
use egg::Id;

use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule { name: "select-of-not", condition: "always", rounding: Rounding::Exact, apply: Apply::Term(of_not) },
    Rule { name: "select-of-select", condition: "both choose by one condition", rounding: Rounding::Exact, apply: Apply::Term(of_select) },
    Rule {
        name: "select-of-one-and-zero",
        condition: "the values are one and positive zero, of a real type",
        rounding: Rounding::Exact,
        apply: Apply::Term(one_and_zero),
    },
];

fn of_not(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Select = op else { return Ok(None) };
    let Some(p) = s.unary_of(x[0], UnaryOp::Not) else { return Ok(None) };
    s.add(Op::Select, &[p, x[2], x[1]]).map(Some)
}

fn of_select(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Select = op else { return Ok(None) };
    let inner = |v: Id, place: usize| s.find(v, |op, y| (*op == Op::Select && s.same(y[0], x[0])).then(|| y[place]));
    match (inner(x[1], 1), inner(x[2], 2)) {
        (None, None) => Ok(None),
        (a, b) => s.add(Op::Select, &[x[0], a.unwrap_or(x[1]), b.unwrap_or(x[2])]).map(Some),
    }
}

fn one_and_zero(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Select = op else { return Ok(None) };
    let (a, b) = (s.facts(x[1]).uniform, s.facts(x[2]).uniform);
    let zero = |v: Option<f64>| v.is_some_and(|v| v.to_bits() == 0);
    let dtype = s.dtype(x[1]);
    if dtype.is_complex() {
        return Ok(None);
    }
    let condition = match () {
        () if a == Some(1.0) && zero(b) => x[0],
        () if zero(a) && b == Some(1.0) => s.unary(UnaryOp::Not, x[0])?,
        () => return Ok(None),
    };
    s.add(Op::Convert(dtype), &[condition]).map(Some)
}
