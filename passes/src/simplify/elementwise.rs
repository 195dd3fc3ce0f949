//! Rules on elementwise ops. Rules on floats hold for signed zeros, infinities and NaN.

use clutch_graph::op::{BinaryOp, UnaryOp};
use clutch_graph::{DType, GraphError, Op, ValueId};
use smallvec::SmallVec;

use crate::simplify::Simplifier;
use crate::simplify::shape::{repeat, repeated_scalar};

type Outcome = Result<Option<ValueId>, GraphError>;

pub(super) fn rules(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Outcome {
    let found = match op {
        Op::Unary(u) => unary(s, *u, x[0]),
        Op::Binary(b) => binary(s, *b, x[0], x[1])?,
        Op::Select => select(s, x),
        Op::Convert(to) => convert(s, *to, x[0])?,
        Op::Bitcast(to) => (s.b.dtype(x[0]) == *to).then(|| x[0]),
        Op::Compare(_) => None,
        _ => return Ok(None),
    };
    match found {
        Some(v) => Ok(Some(v)),
        None => on_repeated(s, op, x),
    }
}

/// An op on repeated scalars is done once and repeated; one of a single operand is done before the broadcast.
fn on_repeated(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Outcome {
    if let ([v], Op::Broadcast { dims, axes }) = (x, &s.def(x[0]).op) {
        let (dims, axes) = (dims.clone(), axes.clone());
        let source = s.def(*v).operands[0];
        let inner = s.emit(op.clone(), &[source])?;
        return s.emit(Op::Broadcast { dims, axes }, &[inner]).map(Some);
    }
    let scalars: Option<SmallVec<[ValueId; 3]>> = x.iter().map(|&v| repeated_scalar(s, v)).collect();
    let Some(scalars) = scalars else { return Ok(None) };
    let dims = s.dims(x[0]).into();
    let inner = s.emit(op.clone(), &scalars)?;
    repeat(s, inner, dims).map(Some)
}

fn unary(s: &Simplifier<'_>, u: UnaryOp, x: ValueId) -> Option<ValueId> {
    let node = s.def(x);
    match (u, &node.op) {
        (UnaryOp::Neg, Op::Unary(UnaryOp::Neg)) | (UnaryOp::Not, Op::Unary(UnaryOp::Not)) => Some(node.operands[0]),
        (UnaryOp::Abs, Op::Unary(UnaryOp::Abs)) if s.b.dtype(x) == s.b.dtype(node.operands[0]) => Some(x),
        (UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::RoundEven | UnaryOp::RoundAway, Op::Unary(v)) if u == *v => Some(x),
        _ => None,
    }
}

/// A value that is one number throughout.
#[derive(Clone, Copy, PartialEq)]
enum Uniform {
    Int(i64),
    Float(f64),
}

impl Uniform {
    fn is(self, number: i64) -> bool {
        match self {
            Uniform::Int(i) => i == number,
            Uniform::Float(f) => f == number as f64 && (number != 0 || f.is_sign_positive()),
        }
    }
}

fn uniform(s: &Simplifier<'_>, v: ValueId) -> Option<Uniform> {
    let scalar = repeated_scalar(s, v).unwrap_or(v);
    let Op::Constant(literal) = &s.def(scalar).op else { return None };
    if literal.ty().numel() > 1024 {
        return None;
    }
    literal.splat_i64().map(Uniform::Int).or_else(|| literal.splat_f64().map(Uniform::Float))
}

fn binary(s: &mut Simplifier<'_>, op: BinaryOp, x: ValueId, y: ValueId) -> Outcome {
    let dtype = s.b.dtype(x);
    let (left, right) = (uniform(s, x), uniform(s, y));
    if left.is_none() && right.is_none() {
        let same = x == y && matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Max | BinaryOp::Min);
        return Ok(same.then_some(x));
    }
    let right_is = |n: i64| right.is_some_and(|r| r.is(n));
    let left_is = |n: i64| left.is_some_and(|l| l.is(n));
    let minus_zero = |u: Option<Uniform>| matches!(u, Some(Uniform::Float(f)) if f == 0.0 && f.is_sign_negative());
    let exact_int = dtype.is_int();
    Ok(match op {
        BinaryOp::Add if right_is(0) && !dtype.is_float() || minus_zero(right) => Some(x),
        BinaryOp::Add if left_is(0) && !dtype.is_float() || minus_zero(left) => Some(y),
        BinaryOp::Sub if right_is(0) => Some(x),
        BinaryOp::Mul if right_is(1) => Some(x),
        BinaryOp::Mul if left_is(1) => Some(y),
        BinaryOp::Mul if exact_int && right_is(0) => Some(y),
        BinaryOp::Mul if exact_int && left_is(0) => Some(x),
        BinaryOp::Div if right_is(1) => Some(x),
        BinaryOp::Pow if right_is(1) => Some(x),
        BinaryOp::Pow if right_is(2) => Some(s.emit(Op::Binary(BinaryOp::Mul), &[x, x])?),
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightLogical | BinaryOp::ShiftRightArithmetic if right_is(0) => Some(x),
        BinaryOp::And => absorbing(dtype, [(x, left), (y, right)], false),
        BinaryOp::Or => absorbing(dtype, [(x, left), (y, right)], true),
        BinaryOp::Xor if right_is(0) => Some(x),
        BinaryOp::Xor if left_is(0) => Some(y),
        _ => None,
    })
}

/// And (`ones` false) or or (`ones` true) with all zeros or all ones on one side.
fn absorbing(dtype: DType, sides: [(ValueId, Option<Uniform>); 2], ones: bool) -> Option<ValueId> {
    let full = if dtype == DType::Pred { 1 } else { -1 };
    let full = |u: Uniform| u.is(full) || (dtype.is_unsigned_int() && dtype.size() < 8 && u.is((1i64 << (8 * dtype.size())) - 1));
    for ((value, u), (other, _)) in [(sides[0], sides[1]), (sides[1], sides[0])] {
        match u {
            Some(u) if u.is(0) => return Some(if ones { other } else { value }),
            Some(u) if full(u) => return Some(if ones { value } else { other }),
            _ => {}
        }
    }
    None
}

fn select(s: &Simplifier<'_>, x: &[ValueId]) -> Option<ValueId> {
    if x[1] == x[2] {
        return Some(x[1]);
    }
    match uniform(s, x[0]) {
        Some(Uniform::Int(0)) => Some(x[2]),
        Some(Uniform::Int(_)) => Some(x[1]),
        _ => None,
    }
}

fn convert(s: &mut Simplifier<'_>, to: DType, x: ValueId) -> Outcome {
    if s.b.dtype(x) == to {
        return Ok(Some(x));
    }
    let node = s.def(x);
    if !matches!(node.op, Op::Convert(_)) {
        return Ok(None);
    }
    let source = node.operands[0];
    let (from, via) = (s.b.dtype(source), s.b.dtype(x));
    if !(lossless(from, via) && (from == to || same_rule(from, via, to))) {
        return Ok(None);
    }
    if from == to { Ok(Some(source)) } else { s.emit(Op::Convert(to), &[source]).map(Some) }
}

/// Every value of `from` is a value of `to`.
fn lossless(from: DType, to: DType) -> bool {
    let mantissa = |d: DType| match d {
        DType::F64 | DType::C128 => 53,
        DType::F32 | DType::C64 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 0,
    };
    match (from, to) {
        (a, b) if a == b => true,
        (DType::Pred, b) => b.is_int() || b.is_float() || b.is_complex(),
        (a, b) if a.is_int() && (b.is_float() || b.is_complex()) => mantissa(b) > 8 * a.size(),
        (a, b) if a.is_unsigned_int() && b.is_int() => a.size() < b.size(),
        (a, b) if a.is_signed_int() && b.is_signed_int() => a.size() < b.size(),
        (a, b) if a.is_float() && (b.is_float() || b.is_complex()) => match (a, b) {
            (DType::F8E4M3FN, DType::F8E5M2) | (DType::F8E5M2, DType::F8E4M3FN) => false,
            (DType::F8E4M3FN | DType::F8E5M2, _) => true,
            (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => false,
            _ => mantissa(a) < mantissa(b),
        },
        _ => false,
    }
}

/// Given lossless `from` to `via`, converting on to `to` follows the same rule as from `from` directly.
fn same_rule(from: DType, via: DType, to: DType) -> bool {
    let wraps = |d: DType| d.is_int() || d == DType::Pred;
    !wraps(from) || wraps(via) || !to.is_int() || from == DType::Pred || lossless(from, to)
}
