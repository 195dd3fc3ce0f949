//! Elementwise arithmetic, conversions, choices, and composites from their parts.

use clutch_graph::builder::Builder;
use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{DType, Graph, GraphError};

use super::{ANY, Case, FLOATS, input, pick, sizes, whole};
use crate::common::Numbers;

pub const CASES: &[Case] = &[
    Case { rule: "select-of-not", graph: select_of_not },
    Case { rule: "select-of-select", graph: select_of_select },
    Case { rule: "select-of-one-and-zero", graph: one_and_zero },
    Case { rule: "narrow-compare", graph: narrow_compare },
    Case { rule: "narrow-arithmetic", graph: narrow_arithmetic },
    Case { rule: "narrow-counter", graph: narrow_counter },
    Case { rule: "narrow-movement", graph: narrow_movement },
    Case { rule: "convert-twice", graph: convert_twice },
    Case { rule: "add-of-negated", graph: |n| negated(n, &[BinaryOp::Add], 1) },
    Case { rule: "subtract-negated", graph: |n| negated(n, &[BinaryOp::Sub], 1) },
    Case { rule: "product-of-negated", graph: |n| negated(n, &[BinaryOp::Mul], 2) },
    Case { rule: "divide-by-power-of-two", graph: divided },
    Case { rule: "factor-integers", graph: factored_integers },
    Case { rule: "factor-number", graph: factored_number },
    Case { rule: "scale-twice", graph: scaled_twice },
];

fn select_of_not(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let (dtype, dims) = (pick(n, &ANY), sizes(n, 2));
    let p = input(&mut b, DType::Pred, &dims);
    let (x, y) = (input(&mut b, dtype, &dims), input(&mut b, dtype, &dims));
    let p = b.unary(UnaryOp::Not, p)?;
    let y = b.select(p, x, y)?;
    Ok(b.finish([y]))
}

fn select_of_select(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let (dtype, dims) = (pick(n, &ANY), sizes(n, 2));
    let p = input(&mut b, DType::Pred, &dims);
    let (x, y, z) = (input(&mut b, dtype, &dims), input(&mut b, dtype, &dims), input(&mut b, dtype, &dims));
    let inner = b.select(p, x, y)?;
    let out = if n.next() > 0.0 { b.select(p, inner, z)? } else { b.select(p, z, inner)? };
    Ok(b.finish([out]))
}

fn one_and_zero(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let (dtype, dims) = (pick(n, &ANY), sizes(n, 2));
    let p = input(&mut b, DType::Pred, &dims);
    let (one, zero) = (b.full(dtype, &dims, 1.0)?, b.full(dtype, &dims, 0.0)?);
    let y = if n.next() > 0.0 { b.select(p, one, zero)? } else { b.select(p, zero, one)? };
    Ok(b.finish([y]))
}

fn narrow_compare(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dims = sizes(n, 2);
    let x = input(&mut b, DType::S32, &dims);
    let x = b.convert(x, DType::S64)?;
    let y = b.iota(DType::S64, &dims, 1)?;
    let dir = pick(n, CompareDir::ALL);
    let y = b.compare(dir, x, y)?;
    Ok(b.finish([y]))
}

fn narrow_arithmetic(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dims = sizes(n, 2);
    let (x, y) = (input(&mut b, DType::S64, &dims), input(&mut b, DType::S64, &dims));
    let y = b.binary(pick(n, &[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul]), x, y)?;
    let y = b.convert(y, pick(n, &[DType::S32, DType::U16, DType::S8]))?;
    Ok(b.finish([y]))
}

fn narrow_counter(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let x = b.iota(DType::S64, &[2, whole(n, 1, 128)], 1)?;
    let y = b.convert(x, pick(n, &[DType::S32, DType::S16, DType::S8]))?;
    Ok(b.finish([y]))
}

fn narrow_movement(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dims = [whole(n, 2, 4), whole(n, 2, 4)];
    let (x, y) = (input(&mut b, DType::S64, &dims), input(&mut b, DType::S64, &dims));
    let p = input(&mut b, DType::Pred, &dims);
    let y = match whole(n, 0, 3) {
        0 => b.select(p, x, y)?,
        1 => b.transpose(x, &[1, 0])?,
        2 => b.reshape(x, &[dims[0] * dims[1]])?,
        _ => b.slice_axis(x, 0, 0, 1, 1)?,
    };
    let y = b.convert(y, DType::S32)?;
    Ok(b.finish([y]))
}

fn convert_twice(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dims = sizes(n, 2);
    let x = input(&mut b, pick(n, &[DType::S32, DType::S8, DType::U16, DType::U64]), &dims);
    let y = b.convert(x, DType::S64)?;
    let y = if b.dtype(x) == DType::S64 { x } else { y };
    let y = b.convert(y, pick(n, &[DType::S16, DType::U8]))?;
    Ok(b.finish([y]))
}

/// An op whose last operands are negated.
fn negated(n: &mut Numbers, ops: &[BinaryOp], count: usize) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &[DType::F32, DType::F64, DType::BF16, DType::S32, DType::S8]);
    let dims = sizes(n, 2);
    let (mut x, mut y) = (input(&mut b, dtype, &dims), input(&mut b, dtype, &dims));
    y = b.unary(UnaryOp::Neg, y)?;
    if count == 2 {
        x = b.unary(UnaryOp::Neg, x)?;
    }
    let y = b.binary(pick(n, ops), x, y)?;
    Ok(b.finish([y]))
}

fn divided(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &[DType::F32, DType::F64, DType::BF16, DType::F16]);
    let dims = sizes(n, 2);
    let x = input(&mut b, dtype, &dims);
    let y = b.binary_scalar(BinaryOp::Div, x, pick(n, &[2.0, -8.0, 0.25, 4096.0]))?;
    Ok(b.finish([y]))
}

fn factored_integers(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &[DType::S32, DType::U8, DType::S64]);
    let dims = sizes(n, 2);
    let [x, y, z] = [(); 3].map(|()| input(&mut b, dtype, &dims));
    let p = b.mul(x, y)?;
    let q = if n.next() > 0.0 { b.mul(x, z)? } else { b.mul(z, x)? };
    let y = b.binary(pick(n, &[BinaryOp::Add, BinaryOp::Sub]), p, q)?;
    Ok(b.finish([y]))
}

fn factored_number(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &FLOATS);
    let dims = sizes(n, 2);
    let (x, y) = (input(&mut b, dtype, &dims), input(&mut b, dtype, &dims));
    let c = pick(n, &[1.5, -3.0, 7.0]);
    let p = b.binary_scalar(BinaryOp::Mul, x, c)?;
    let q = b.binary_scalar(BinaryOp::Mul, y, c)?;
    let y = b.binary(pick(n, &[BinaryOp::Add, BinaryOp::Sub]), p, q)?;
    Ok(b.finish([y]))
}

fn scaled_twice(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &FLOATS);
    let dims = sizes(n, 2);
    let x = input(&mut b, dtype, &dims);
    let (c, d) = pick(n, &[(0.5, 0.3), (2.5, 3.0), (-0.7, 0.9)]);
    let y = b.binary_scalar(BinaryOp::Mul, x, c)?;
    let y = b.binary_scalar(BinaryOp::Mul, y, d)?;
    Ok(b.finish([y]))
}
