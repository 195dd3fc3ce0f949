//! GELU and SiLU.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use clutch_graph::ValueId;
use clutch_graph::builder::{Builder, Built};
use clutch_graph::op::{BinaryOp, UnaryOp};

use crate::expand::util::to_compute;

/// x / 2 * (1 + erf(x / sqrt 2)), or with tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) in place of erf.
pub(crate) fn gelu(b: &mut Builder, x: ValueId, tanh: bool) -> Built {
    let dtype = b.dtype(x);
    let x = to_compute(b, x)?;
    let bent = if tanh {
        let square = b.mul(x, x)?;
        let cube = b.mul(square, x)?;
        let cubic = b.binary_scalar(BinaryOp::Mul, cube, 0.044715)?;
        let inner = b.add(x, cubic)?;
        let inner = b.binary_scalar(BinaryOp::Mul, inner, FRAC_2_PI.sqrt())?;
        b.unary(UnaryOp::Tanh, inner)?
    } else {
        let inner = b.binary_scalar(BinaryOp::Mul, x, FRAC_1_SQRT_2)?;
        b.unary(UnaryOp::Erf, inner)?
    };
    let gate = b.binary_scalar(BinaryOp::Add, bent, 1.0)?;
    let half = b.binary_scalar(BinaryOp::Mul, x, 0.5)?;
    let y = b.mul(half, gate)?;
    b.convert(y, dtype)
}

/// x * sigmoid(x).
pub(crate) fn silu(b: &mut Builder, x: ValueId) -> Built {
    let dtype = b.dtype(x);
    let x = to_compute(b, x)?;
    let gate = b.unary(UnaryOp::Logistic, x)?;
    let y = b.mul(x, gate)?;
    b.convert(y, dtype)
}
