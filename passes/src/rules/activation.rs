//! Activations recognised from their parts. In f32 and f64 only, where the parts round as the composite's do; narrower types round between
//! the parts, which a composite does not.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, SQRT_2};

use clutch_graph::op::{BinaryOp, UnaryOp};
use clutch_graph::{DType, Op};
use egg::Id;

use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "logistic-from-exponential",
        condition: "1 / (1 + exp(-x)) in f32 or f64",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(logistic),
    },
    Rule {
        name: "silu-from-parts",
        condition: "x * logistic(x) in f32 or f64",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(silu),
    },
    Rule {
        name: "gelu-from-parts",
        condition: "x / 2 * (1 + erf(x / sqrt 2)) in f32 or f64, factors in any order",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(gelu),
    },
    Rule {
        name: "tanh-gelu-from-parts",
        condition: "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) in f32 or f64, factors in any order",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(tanh_gelu),
    },
];

fn is_plain_float(s: &Search<'_>, id: Id) -> bool {
    matches!(s.dtype(id), DType::F32 | DType::F64)
}

/// The number is `value` as the type rounds it.
fn is_number(c: f64, value: f64) -> bool {
    (c - value).abs() <= value.abs() * 1e-7
}

fn logistic(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Div) = op else { return Ok(None) };
    if !is_plain_float(s, x[0]) || s.facts(x[0]).uniform != Some(1.0) {
        return Ok(None);
    }
    let Some((exp, c)) = s.with_number(x[1], BinaryOp::Add) else { return Ok(None) };
    let negated = s.unary_of(exp, UnaryOp::Exp).and_then(|e| s.unary_of(e, UnaryOp::Neg));
    match negated {
        Some(v) if c == 1.0 => s.unary(UnaryOp::Logistic, v).map(Some),
        _ => Ok(None),
    }
}

fn silu(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Mul) = op else { return Ok(None) };
    if !is_plain_float(s, x[0]) {
        return Ok(None);
    }
    for (value, gate) in [(x[0], x[1]), (x[1], x[0])] {
        if s.unary_of(gate, UnaryOp::Logistic).is_some_and(|v| s.same(v, value)) {
            return s.add(Op::Silu, &[value]).map(Some);
        }
    }
    Ok(None)
}

/// `x` and `bent` where the factors of a product are x, 1/2 and 1 + `bent`, in any order.
fn half_gate(s: &Search<'_>, op: &Op, x: &[Id], u: UnaryOp) -> Option<(Id, Id)> {
    let Op::Binary(BinaryOp::Mul) = op else { return None };
    if !is_plain_float(s, x[0]) {
        return None;
    }
    let bent = |id: Id| s.with_number(id, BinaryOp::Add).filter(|(_, c)| *c == 1.0).and_then(|(b, _)| s.unary_of(b, u));
    let half = |id: Id| s.with_number(id, BinaryOp::Mul).filter(|(_, c)| *c == 0.5).map(|(v, _)| v);
    for (a, b) in [(x[0], x[1]), (x[1], x[0])] {
        // (x * 0.5) * gate, and x * (gate * 0.5).
        if let (Some(v), Some(inner)) = (half(a), bent(b)) {
            return Some((v, inner));
        }
        if let Some(inner) = half(b).and_then(bent) {
            return Some((a, inner));
        }
        // (x * gate) * 0.5.
        if s.facts(a).uniform == Some(0.5) {
            let [p, q] = s.binary_of(b, BinaryOp::Mul)?;
            if let Some(inner) = bent(q) {
                return Some((p, inner));
            }
            if let Some(inner) = bent(p) {
                return Some((q, inner));
            }
        }
    }
    None
}

fn gelu(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Some((value, inner)) = half_gate(s, op, x, UnaryOp::Erf) else { return Ok(None) };
    let times = s.with_number(inner, BinaryOp::Mul).filter(|(_, c)| is_number(*c, FRAC_1_SQRT_2));
    let over = s.with_number(inner, BinaryOp::Div).filter(|(_, c)| is_number(*c, SQRT_2));
    match times.or(over) {
        Some((v, _)) if s.same(v, value) => s.add(Op::Gelu { tanh: false }, &[value]).map(Some),
        _ => Ok(None),
    }
}

/// The class is the cube of `x`.
fn is_cube(s: &Search<'_>, id: Id, x: Id) -> bool {
    let square = |v: Id| s.binary_of(v, BinaryOp::Mul).is_some_and(|[a, b]| s.same(a, x) && s.same(b, x));
    let power = s.with_number(id, BinaryOp::Pow).is_some_and(|(v, c)| c == 3.0 && s.same(v, x));
    power || s.binary_of(id, BinaryOp::Mul).is_some_and(|[a, b]| s.same(a, x) && square(b) || s.same(b, x) && square(a))
}

fn tanh_gelu(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Some((value, inner)) = half_gate(s, op, x, UnaryOp::Tanh) else { return Ok(None) };
    let Some((sum, c)) = s.with_number(inner, BinaryOp::Mul) else { return Ok(None) };
    let Some([p, q]) = s.binary_of(sum, BinaryOp::Add) else { return Ok(None) };
    let cubic = if s.same(p, value) { q } else { p };
    let cube = s.with_number(cubic, BinaryOp::Mul).filter(|(_, c)| is_number(*c, 0.044715));
    let fits = is_number(c, FRAC_2_PI.sqrt()) && (s.same(p, value) || s.same(q, value)) && cube.is_some_and(|(v, _)| is_cube(s, v, value));
    if fits { s.add(Op::Gelu { tanh: true }, &[value]).map(Some) } else { Ok(None) }
}
