//! Elementwise arithmetic.

use clutch_graph::op::{BinaryOp, UnaryOp};
use clutch_graph::{DType, Dims, Op};
use egg::Id;

use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule { name: "add-of-negated", condition: "one side is negated", rounding: Rounding::Exact, apply: Apply::Term(add_of_negated) },
    Rule { name: "subtract-negated", condition: "always", rounding: Rounding::Exact, apply: Apply::Term(subtract_negated) },
    Rule {
        name: "product-of-negated",
        condition: "both sides are negated",
        rounding: Rounding::Exact,
        apply: Apply::Term(product_of_negated),
    },
    Rule {
        name: "divide-by-power-of-two",
        condition: "floats divided by one number, a power of two whose reciprocal is normal in the type",
        rounding: Rounding::Exact,
        apply: Apply::Term(divide_by_power_of_two),
    },
    Rule {
        name: "factor-integers",
        condition: "two products of integers with a common factor are added or subtracted; arithmetic wraps",
        rounding: Rounding::Exact,
        apply: Apply::Term(factor_integers),
    },
    Rule {
        name: "factor-number",
        condition: "two products of f32 or f64 with one number of at least 1 in size are added or subtracted",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(factor_number),
    },
    Rule {
        name: "scale-twice",
        condition: "f32 or f64 times two numbers, both at most 1 or both at least 1 in size, whose product is finite and normal",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(scale_twice),
    },
];

fn add_of_negated(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Add) = op else { return Ok(None) };
    for (kept, negated) in [(x[0], x[1]), (x[1], x[0])] {
        if let Some(y) = s.unary_of(negated, UnaryOp::Neg) {
            return s.binary(BinaryOp::Sub, kept, y).map(Some);
        }
    }
    Ok(None)
}

fn subtract_negated(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Sub) = op else { return Ok(None) };
    match s.unary_of(x[1], UnaryOp::Neg) {
        Some(y) => s.binary(BinaryOp::Add, x[0], y).map(Some),
        None => Ok(None),
    }
}

fn product_of_negated(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(b @ (BinaryOp::Mul | BinaryOp::Div)) = op else { return Ok(None) };
    // The smallest integer has no negation, and dividing wraps unlike multiplying.
    if *b == BinaryOp::Div && !s.dtype(x[0]).is_float() {
        return Ok(None);
    }
    match (s.unary_of(x[0], UnaryOp::Neg), s.unary_of(x[1], UnaryOp::Neg)) {
        (Some(p), Some(q)) => s.binary(*b, p, q).map(Some),
        _ => Ok(None),
    }
}

fn divide_by_power_of_two(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Div) = op else { return Ok(None) };
    let dtype = s.dtype(x[0]);
    let Some(c) = s.facts(x[1]).uniform else { return Ok(None) };
    // Well inside of the exponents of every float type that has a reciprocal.
    let exponent = match dtype {
        DType::F16 => 13,
        DType::F32 | DType::BF16 | DType::F64 => 125,
        _ => return Ok(None),
    };
    let power = c.to_bits() << 12 == 0 && (2f64.powi(-exponent)..=2f64.powi(exponent)).contains(&c.abs());
    if !power {
        return Ok(None);
    }
    let dims = Dims::from(s.dims(x[0]));
    let inverse = s.number(dtype, &dims, 1.0 / c)?;
    s.binary(BinaryOp::Mul, x[0], inverse).map(Some)
}

fn factors(s: &Search<'_>, id: Id) -> Option<[Id; 2]> {
    s.binary_of(id, BinaryOp::Mul)
}

fn factor_integers(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(b @ (BinaryOp::Add | BinaryOp::Sub)) = op else { return Ok(None) };
    if !s.dtype(x[0]).is_int() {
        return Ok(None);
    }
    let (Some(p), Some(q)) = (factors(s, x[0]), factors(s, x[1])) else { return Ok(None) };
    for (common, rest) in [(p[0], p[1]), (p[1], p[0])] {
        for (other, rest2) in [(q[0], q[1]), (q[1], q[0])] {
            if s.same(common, other) {
                let sum = s.binary(*b, rest, rest2)?;
                return s.binary(BinaryOp::Mul, common, sum).map(Some);
            }
        }
    }
    Ok(None)
}

fn factor_number(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(b @ (BinaryOp::Add | BinaryOp::Sub)) = op else { return Ok(None) };
    let dtype = s.dtype(x[0]);
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Ok(None);
    }
    let (Some((p, c)), Some((q, d))) = (s.with_number(x[0], BinaryOp::Mul), s.with_number(x[1], BinaryOp::Mul)) else {
        return Ok(None);
    };
    if c != d || c.abs() < 1.0 || !c.is_finite() {
        return Ok(None);
    }
    let dims = Dims::from(s.dims(x[0]));
    let sum = s.binary(*b, p, q)?;
    let number = s.number(dtype, &dims, c)?;
    s.binary(BinaryOp::Mul, sum, number).map(Some)
}

fn scale_twice(s: &mut Search<'_>, op: &Op, x: &[Id], root: Id) -> Found {
    let Op::Binary(BinaryOp::Mul) = op else { return Ok(None) };
    let dtype = s.dtype(x[0]);
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Ok(None);
    }
    for (inner, number) in [(x[0], x[1]), (x[1], x[0])] {
        let (Some(c), Some((source, d))) = (s.facts(number).uniform, s.with_number(inner, BinaryOp::Mul)) else { continue };
        let small = c.abs() <= 1.0 && d.abs() <= 1.0;
        let large = c.abs() >= 1.0 && d.abs() >= 1.0;
        let normal = (f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX)).contains(&(c * d).abs());
        if !(small || large) || !normal || s.same(source, root) {
            continue;
        }
        let dims = Dims::from(s.dims(root));
        let both = s.number(dtype, &dims, c * d)?;
        return s.binary(BinaryOp::Mul, source, both).map(Some);
    }
    Ok(None)
}
