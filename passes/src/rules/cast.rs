//! Conversions: chains, and integers that fit a narrower type.

use clutch_graph::op::BinaryOp;
use clutch_graph::{DType, Op, TensorType};
use egg::Id;

use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "narrow-compare",
        condition: "both sides are s64 with bounds within s32",
        rounding: Rounding::Exact,
        apply: Apply::Term(narrow_compare),
    },
    Rule {
        name: "narrow-arithmetic",
        condition: "an s64 sum, difference or product that is converted to a narrower integer, whose arithmetic wraps alike",
        rounding: Rounding::Exact,
        apply: Apply::Term(narrow_arithmetic),
    },
    Rule {
        name: "narrow-counter",
        condition: "a counter that is converted to an integer type that holds all its values",
        rounding: Rounding::Exact,
        apply: Apply::Term(narrow_counter),
    },
    Rule {
        name: "narrow-movement",
        condition: "a converted integer that was only moved or chosen",
        rounding: Rounding::Exact,
        apply: Apply::Term(narrow_movement),
    },
    Rule {
        name: "convert-twice",
        condition: "the first conversion is of integers to integers of at least the final size",
        rounding: Rounding::Exact,
        apply: Apply::Term(convert_twice),
    },
];

fn fits_s32(s: &Search<'_>, id: Id) -> bool {
    let b = s.facts(id).bounds;
    s.dtype(id) == DType::S64 && b.low >= f64::from(i32::MIN) && b.high <= f64::from(i32::MAX)
}

fn narrow_compare(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Compare(_) = op else { return Ok(None) };
    if !fits_s32(s, x[0]) || !fits_s32(s, x[1]) {
        return Ok(None);
    }
    let left = s.add(Op::Convert(DType::S32), &[x[0]])?;
    let right = s.add(Op::Convert(DType::S32), &[x[1]])?;
    s.add(op.clone(), &[left, right]).map(Some)
}

/// The type that an integer is narrowed to, and what is narrowed.
fn narrowing(s: &Search<'_>, op: &Op, x: &[Id]) -> Option<DType> {
    let Op::Convert(to) = op else { return None };
    let from = s.dtype(x[0]);
    (from.is_int() && to.is_int() && to.size() < from.size()).then_some(*to)
}

fn narrow_arithmetic(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Some(to) = narrowing(s, op, x) else { return Ok(None) };
    let found = s.find(x[0], |op, y| match op {
        Op::Binary(b @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul)) => Some((*b, [y[0], y[1]])),
        _ => None,
    });
    let Some((b, [left, right])) = found else { return Ok(None) };
    let left = s.add(Op::Convert(to), &[left])?;
    let right = s.add(Op::Convert(to), &[right])?;
    s.binary(b, left, right).map(Some)
}

fn narrow_counter(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Some(to) = narrowing(s, op, x) else { return Ok(None) };
    let found = s.find(x[0], |op, _| match op {
        Op::Iota { ty, axis } => Some((ty.dims.clone(), *axis)),
        _ => None,
    });
    let Some((dims, axis)) = found else { return Ok(None) };
    let most = 1i64 << (8 * to.size() - 1);
    if dims[axis] > most {
        return Ok(None);
    }
    s.add(Op::Iota { ty: TensorType { dtype: to, dims }, axis }, &[]).map(Some)
}

fn narrow_movement(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Some(to) = narrowing(s, op, x) else { return Ok(None) };
    let found = s.find(x[0], |op, y| match op {
        Op::Reshape(_) | Op::Transpose(_) | Op::Broadcast { .. } | Op::Slice { .. } => Some((op.clone(), vec![y[0]], 0)),
        Op::Select => Some((op.clone(), y.to_vec(), 1)),
        _ => None,
    });
    let Some((inner, mut operands, first)) = found else { return Ok(None) };
    for v in &mut operands[first..] {
        *v = s.add(Op::Convert(to), &[*v])?;
    }
    s.add(inner, &operands).map(Some)
}

fn convert_twice(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Convert(to) = op else { return Ok(None) };
    let source = s.find(x[0], |op, y| matches!(op, Op::Convert(_)).then(|| y[0]));
    let Some(source) = source else { return Ok(None) };
    let (from, via) = (s.dtype(source), s.dtype(x[0]));
    if !(from.is_int() && via.is_int() && to.is_int() && via.size() >= to.size()) {
        return Ok(None);
    }
    s.add(Op::Convert(*to), &[source]).map(Some)
}
