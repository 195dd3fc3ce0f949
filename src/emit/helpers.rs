//! Small computations that reductions, scatters and sorts call, shared by content.

use std::fmt::Write as _;

use clutch_graph::op::{Combiner, CompareDir};
use clutch_graph::{DType, Literal, TensorType};

use super::body::{Body, Inst};
use super::minmax;
use super::types::Shape;

/// A helper computation by content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Helper {
    /// Combination of two scalars.
    Combine(Combiner, DType),
    /// Whether the first of two scalars keeps its place as the window's maximum against a later one; NaN counts as the largest.
    KeepsMaximum(DType),
    /// Whether the first of two elements stands before the second: one scalar pair per sorted operand, ordered by the first pair.
    Order {
        /// Element types of the sorted operands.
        dtypes: Vec<DType>,
        /// Largest first.
        descending: bool,
    },
}

/// HLO opcode of a combiner; booleans use the logical form. `None` for `Assign`, which has no instruction.
pub(super) fn combine_opcode(combiner: Combiner, dtype: DType) -> Option<&'static str> {
    Some(match (combiner, dtype) {
        (Combiner::Add | Combiner::Max | Combiner::Or, DType::Pred) | (Combiner::Or, _) => "or",
        (Combiner::Mul | Combiner::Min | Combiner::And, DType::Pred) | (Combiner::And, _) => "and",
        (Combiner::Add, _) => "add",
        (Combiner::Mul, _) => "multiply",
        (Combiner::Max, _) => "maximum",
        (Combiner::Min, _) => "minimum",
        (Combiner::Assign, _) => return None,
    })
}

/// The value of `dtype` that a combiner leaves unchanged, held in the type the combination runs in.
pub(super) fn identity(combiner: Combiner, dtype: DType, compute: DType) -> Literal {
    let bits = (dtype.size() * 8) as u32;
    let infinity = if dtype == DType::F8E4M3FN { 448.0 } else { f64::INFINITY };
    let (lowest, highest) = if dtype.is_signed_int() { (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)) } else { (0, -1) };
    match combiner {
        Combiner::Add | Combiner::Or | Combiner::Assign => Literal::scalar_f64(compute, 0.0),
        Combiner::Mul => Literal::scalar_f64(compute, 1.0),
        Combiner::And => Literal::scalar_i64(compute, -1),
        Combiner::Max if dtype.is_float() => Literal::scalar_f64(compute, -infinity),
        Combiner::Min if dtype.is_float() => Literal::scalar_f64(compute, infinity),
        Combiner::Max => Literal::scalar_i64(compute, lowest),
        Combiner::Min => Literal::scalar_i64(compute, highest),
    }
}

impl Helper {
    /// The combination of two scalars; combiners with one instruction are one helper.
    pub(super) fn combine(combiner: Combiner, dtype: DType) -> Helper {
        let combiner = match combine_opcode(combiner, dtype) {
            Some("or") => Combiner::Or,
            Some("and") => Combiner::And,
            _ => combiner,
        };
        Helper::Combine(combiner, dtype)
    }

    pub(super) fn name(&self) -> String {
        match self {
            Helper::Combine(combiner, dtype) => format!("{}.{dtype}", combine_opcode(*combiner, *dtype).unwrap_or("assign")),
            Helper::KeepsMaximum(dtype) => format!("keeps_maximum.{dtype}"),
            Helper::Order { dtypes, descending } => {
                let mut name = String::from(if *descending { "descending" } else { "ascending" });
                for dtype in dtypes {
                    write!(name, ".{dtype}").expect("writing to a string cannot fail");
                }
                name
            }
        }
    }

    /// The computation's body and root. `keep_nan`: maximum and minimum must not lose NaN by themselves.
    pub(super) fn body(&self, keep_nan: bool) -> (Body, Inst) {
        let mut body = Body::default();
        let pair = |body: &mut Body, dtype: DType| {
            let ty = Shape::Array(TensorType::scalar(dtype));
            (body.parameter(ty.clone()), body.parameter(ty))
        };
        let root = match self {
            Helper::Combine(combiner, dtype) => {
                let (a, b) = pair(&mut body, *dtype);
                match combine_opcode(*combiner, *dtype) {
                    Some(opcode @ ("maximum" | "minimum")) if keep_nan && dtype.is_float() => minmax::keeping_nan(&mut body, opcode, a, b),
                    Some(opcode) => body.same(opcode, &[a, b]),
                    None => b,
                }
            }
            Helper::KeepsMaximum(dtype) => {
                let (a, b) = pair(&mut body, *dtype);
                let ge = body.compare(CompareDir::Ge, a, b);
                if dtype.is_float() {
                    let nan = body.is_nan(a);
                    body.same("or", &[ge, nan])
                } else {
                    ge
                }
            }
            Helper::Order { dtypes, descending } => {
                let pairs: Vec<(Inst, Inst)> = dtypes.iter().map(|&d| pair(&mut body, d)).collect();
                let (a, b) = pairs[0];
                precedes(&mut body, a, b, *descending)
            }
        };
        (body, root)
    }
}

/// `a` stands strictly before `b`. Floats: NaN is the largest and equal to itself, zeros are equal.
fn precedes(body: &mut Body, a: Inst, b: Inst, descending: bool) -> Inst {
    let (small, large) = if descending { (b, a) } else { (a, b) };
    if !body.dtype(a).is_float() {
        return body.compare(CompareDir::Lt, small, large);
    }
    let small = body.convert(small, body.dtype(small).compute_type());
    let large = body.convert(large, body.dtype(large).compute_type());
    let lt = body.compare(CompareDir::Lt, small, large);
    let number = body.compare(CompareDir::Eq, small, small);
    let nan = body.is_nan(large);
    let nan_last = body.same("and", &[number, nan]);
    body.same("or", &[lt, nan_last])
}
