//! What is known of every class of equal terms: types, what it depends on, a uniform value, bounds.

use clutch_graph::infer::infer;
use clutch_graph::literal::Literal;
use clutch_graph::op::{BinaryOp, Combiner, UnaryOp};
use clutch_graph::{DType, Op, TensorType};
use egg::{Analysis, DidMerge, EGraph, Id};
use smallvec::SmallVec;

use crate::egraph::language::{Head, Heads, Term};

/// The e-graph.
pub(crate) type Terms = EGraph<Term, Knowledge>;

/// How a value depends on inputs, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    /// On none.
    Nothing,
    /// On weights only: computed when weights change, not per call.
    Weights,
    /// On inputs of the call.
    Call,
}

/// Bounds of every element of a real or integer value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    /// No element is less.
    pub low: f64,
    /// No element is larger.
    pub high: f64,
    /// An element may be NaN.
    pub nan: bool,
}

impl Bounds {
    /// Nothing is known.
    pub const ANY: Bounds = Bounds { low: f64::NEG_INFINITY, high: f64::INFINITY, nan: true };

    /// Every element is finite.
    pub fn is_finite(&self) -> bool {
        !self.nan && self.low.is_finite() && self.high.is_finite()
    }

    /// Bounds that hold where either does. Ends that differ fall to one of a few values, so that repeated joins end.
    fn join(self, other: Bounds) -> Bounds {
        let low = match () {
            () if self.low == other.low => self.low,
            () if self.low >= 0.0 && other.low >= 0.0 => 0.0,
            () if self.low.is_finite() && other.low.is_finite() => f64::MIN,
            () => f64::NEG_INFINITY,
        };
        let high = match () {
            () if self.high == other.high => self.high,
            () if self.high.is_finite() && other.high.is_finite() => f64::MAX,
            () => f64::INFINITY,
        };
        Bounds { low, high, nan: self.nan || other.nan }
    }
}

/// Types of the results of a term.
pub(crate) type Types = SmallVec<[TensorType; 1]>;

/// What is known of a class.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Types of the results; one unless the op has several.
    pub types: Types,
    /// What it depends on.
    pub origin: Origin,
    /// The number that every element is, when it is one real or integer number.
    pub uniform: Option<f64>,
    /// Bounds of the elements.
    pub bounds: Bounds,
}

/// The analysis, with the tables that terms refer to.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// Heads of terms.
    pub heads: Heads,
    /// Facts of the region's inputs.
    pub inputs: Vec<Facts>,
    /// Result types of the term that is being added, as its shape rule gave them.
    pub checked: Option<Types>,
}

impl Analysis<Term> for Knowledge {
    type Data = Facts;

    fn make(terms: &mut Terms, term: &Term, _: Id) -> Facts {
        let checked = terms.analysis.checked.take();
        facts(terms, term, checked)
    }

    fn merge(&mut self, a: &mut Facts, b: Facts) -> DidMerge {
        debug_assert_eq!(a.types, b.types, "equal terms have equal types");
        let origin = a.origin.min(b.origin);
        let uniform = a.uniform.or(b.uniform);
        let bounds = a.bounds.join(b.bounds);
        let changes = |f: &Facts| f.origin != origin || f.uniform.is_none() && uniform.is_some() || f.bounds != bounds;
        let did = DidMerge(changes(a), changes(&b));
        (a.origin, a.uniform, a.bounds) = (origin, uniform, bounds);
        did
    }
}

fn facts(terms: &Terms, term: &Term, checked: Option<Types>) -> Facts {
    let child = |i: usize| &terms[term.children[i]].data;
    match terms.analysis.heads.get(term.head) {
        Head::Input(n) => terms.analysis.inputs[*n as usize].clone(),
        Head::Result(n) => {
            let tuple = child(0);
            let ty = tuple.types[*n as usize].clone();
            let bounds = natural(ty.dtype);
            Facts { types: SmallVec::from_iter([ty]), origin: tuple.origin, uniform: None, bounds }
        }
        Head::Op(op) => {
            let operands: SmallVec<[&Facts; 4]> = term.children.iter().map(|&c| &terms[c].data).collect();
            let types = checked.unwrap_or_else(|| {
                let types: SmallVec<[&TensorType; 4]> = operands.iter().map(|f| &f.types[0]).collect();
                // `Search::add` refuses terms that break their shape rule, and equal classes have equal types.
                infer(op, &types).unwrap_or_else(|error| unreachable!("a term of the e-graph is ill-typed: {error}"))
            });
            let origin = operands.iter().map(|f| f.origin).max().unwrap_or(Origin::Nothing);
            let uniform = uniform(op, &operands);
            let bounds = types.first().map_or(Bounds::ANY, |ty| bounds(op, &operands, ty, uniform));
            Facts { types, origin, uniform, bounds }
        }
    }
}

/// Bounds that a type alone gives.
pub(crate) fn natural(dtype: DType) -> Bounds {
    let bits = 8 * dtype.size() as i32;
    // The largest 64-bit integers are rounded up.
    let below = |power: i32| 2f64.powi(power) - 1.0;
    match dtype {
        DType::Pred => Bounds { low: 0.0, high: 1.0, nan: false },
        d if d.is_unsigned_int() => Bounds { low: 0.0, high: below(bits), nan: false },
        d if d.is_int() => Bounds { low: -(2f64.powi(bits - 1)), high: below(bits - 1), nan: false },
        _ => Bounds::ANY,
    }
}

fn uniform(op: &Op, x: &[&Facts]) -> Option<f64> {
    match op {
        Op::Constant(literal) if literal.ty().numel() <= 1024 => splat(literal),
        Op::Broadcast { .. } | Op::Reshape(_) | Op::Transpose(_) | Op::Slice { .. } | Op::Reverse(_) => x[0].uniform,
        Op::Convert(to) => {
            // Floats to integers are left to the folding rules.
            let from = x[0].types[0].dtype;
            let exact = to.is_float() || !from.is_float();
            x[0].uniform.filter(|_| exact).and_then(|v| splat(&Literal::scalar_f64(*to, v)))
        }
        _ => None,
    }
}

/// The number that all elements of a literal are; not NaN, and an integer only when `f64` holds it exactly.
fn splat(literal: &Literal) -> Option<f64> {
    const EXACT: u64 = 1 << 53;
    match literal.splat_i64() {
        Some(i) => (i.unsigned_abs() < EXACT).then_some(i as f64),
        None => literal.splat_f64().filter(|v| !v.is_nan()),
    }
}

/// `bound` rounded to the type, which keeps its side since rounding is monotone.
fn rounded(dtype: DType, bound: f64) -> f64 {
    if !dtype.is_float() || !bound.is_finite() {
        return bound;
    }
    Literal::scalar_f64(dtype, bound).splat_f64().unwrap_or(bound)
}

fn bounds(op: &Op, x: &[&Facts], ty: &TensorType, uniform: Option<f64>) -> Bounds {
    let of = |i: usize| x[i].bounds;
    let any = natural(ty.dtype);
    if let Some(v) = uniform {
        return Bounds { low: v, high: v, nan: false };
    }
    if ty.dtype.is_complex() {
        return Bounds::ANY;
    }
    match op {
        Op::Constant(literal) if literal.ty().numel() <= 1024 => literal_bounds(literal),
        Op::Iota { axis, .. } => Bounds { low: 0.0, high: rounded(ty.dtype, ty.dims[*axis] as f64), nan: false },
        Op::Broadcast { .. }
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Slice { .. }
        | Op::Reverse(_)
        | Op::DynamicSlice(_)
        | Op::Gather(_) => of(0),
        Op::Reduce { combiner: Combiner::Max | Combiner::Min, axes } if axes.iter().all(|&a| x[0].types[0].dims[a] > 0) => of(0),
        Op::Concat(_) | Op::Pad(_) => x.iter().map(|f| f.bounds).reduce(Bounds::join).unwrap_or(any),
        Op::Select => of(1).join(of(2)),
        Op::Convert(to) if to.is_float() => {
            let b = of(0);
            if x[0].types[0].dtype.is_complex() {
                return Bounds::ANY;
            }
            Bounds { low: rounded(*to, b.low), high: rounded(*to, b.high), nan: b.nan }
        }
        Op::Convert(to) if to.is_int() && (x[0].types[0].dtype.is_int() || x[0].types[0].dtype == DType::Pred) => {
            let (b, all) = (of(0), any);
            if b.low >= all.low && b.high <= all.high { b } else { any }
        }
        Op::Unary(u) => unary_bounds(*u, x[0], ty, any),
        Op::Binary(b) if ty.dtype.is_float() => binary_bounds(*b, of(0), of(1), ty.dtype),
        Op::Softmax { log: false, .. } => Bounds { low: 0.0, ..Bounds::ANY },
        _ => any,
    }
}

fn literal_bounds(literal: &Literal) -> Bounds {
    let Some(values) = literal.to_f64() else { return Bounds::ANY };
    let mut out = Bounds { low: f64::INFINITY, high: f64::NEG_INFINITY, nan: false };
    for v in values {
        out = Bounds { low: out.low.min(v), high: out.high.max(v), nan: out.nan || v.is_nan() };
    }
    if out.low <= out.high { out } else { Bounds::ANY }
}

fn unary_bounds(u: UnaryOp, x: &Facts, ty: &TensorType, any: Bounds) -> Bounds {
    let b = x.bounds;
    if x.types[0].dtype.is_complex() || !ty.dtype.is_float() {
        return any;
    }
    match u {
        UnaryOp::Neg => Bounds { low: -b.high, high: -b.low, nan: b.nan },
        UnaryOp::Abs if b.low >= 0.0 => b,
        UnaryOp::Abs => Bounds { low: 0.0, high: b.high.max(-b.low), nan: b.nan },
        UnaryOp::Exp => Bounds { low: 0.0, high: f64::INFINITY, nan: b.nan },
        UnaryOp::Sqrt if b.low >= 0.0 => Bounds { low: 0.0, high: f64::INFINITY, nan: b.nan },
        // Device approximations may pass the mathematical bound by a few units in the last place.
        UnaryOp::Tanh | UnaryOp::Erf => Bounds { low: -1.5, high: 1.5, nan: b.nan },
        UnaryOp::Logistic => Bounds { low: 0.0, high: 1.5, nan: b.nan },
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::RoundEven | UnaryOp::RoundAway if b.low >= 0.0 => {
            Bounds { low: 0.0, high: f64::INFINITY, nan: b.nan }
        }
        _ => any,
    }
}

fn binary_bounds(op: BinaryOp, a: Bounds, b: Bounds, dtype: DType) -> Bounds {
    let end = |v: f64, otherwise: f64| if v.is_nan() { otherwise } else { rounded(dtype, v) };
    let finite = a.is_finite() && b.is_finite();
    match op {
        BinaryOp::Add => {
            Bounds { low: end(a.low + b.low, f64::NEG_INFINITY), high: end(a.high + b.high, f64::INFINITY), nan: a.nan || b.nan || !finite }
        }
        BinaryOp::Sub => {
            Bounds { low: end(a.low - b.high, f64::NEG_INFINITY), high: end(a.high - b.low, f64::INFINITY), nan: a.nan || b.nan || !finite }
        }
        BinaryOp::Mul if a.low >= 0.0 && b.low >= 0.0 => Bounds { low: 0.0, high: f64::INFINITY, nan: a.nan || b.nan || !finite },
        BinaryOp::Max => Bounds { low: a.low.max(b.low), high: a.high.max(b.high), nan: a.nan || b.nan },
        BinaryOp::Min => Bounds { low: a.low.min(b.low), high: a.high.min(b.high), nan: a.nan || b.nan },
        _ => Bounds::ANY,
    }
}
