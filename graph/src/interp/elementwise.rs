//! Elementwise ops.

use std::cmp::Ordering;

use crate::dtype::DType;
use crate::interp::complex::{Complex, Number};
use crate::interp::elems::{Elems, decode, decode_int, encode, literal};
use crate::literal::Literal;
use crate::op::{BinaryOp, CompareDir, UnaryOp};
use crate::types::TensorType;

pub(super) fn unary(op: UnaryOp, x: &Literal, out: &TensorType) -> Literal {
    let dtype = x.ty().dtype;
    let elems = match decode(x) {
        Elems::Int(v) => Elems::Int(v.into_iter().map(|i| unary_int(op, i, dtype)).collect()),
        Elems::Real(v) if op == UnaryOp::IsFinite => Elems::Int(v.into_iter().map(|x| i128::from(x.is_finite())).collect()),
        Elems::Real(v) => Elems::Real(v.into_iter().map(|x| unary_real(op, x)).collect()),
        Elems::Complex(v) => match op {
            UnaryOp::Abs => Elems::Real(v.into_iter().map(Complex::abs).collect()),
            UnaryOp::Real => Elems::Real(v.into_iter().map(|z| z.re).collect()),
            UnaryOp::Imag => Elems::Real(v.into_iter().map(|z| z.im).collect()),
            _ => Elems::Complex(v.into_iter().map(|z| unary_complex(op, z)).collect()),
        },
    };
    encode(out, elems)
}

fn unary_int(op: UnaryOp, i: i128, dtype: DType) -> i128 {
    let bits = 8 * dtype.size() as u32;
    let unsigned = || (i as u64) & (u64::MAX >> (64 - bits));
    match op {
        UnaryOp::Abs => i.abs(),
        UnaryOp::Neg => -i,
        UnaryOp::Sign => i.signum(),
        UnaryOp::Not if dtype == DType::Pred => 1 - i,
        UnaryOp::Not => !i,
        UnaryOp::PopCount => unsigned().count_ones().into(),
        UnaryOp::CountLeadingZeros => (unsigned().leading_zeros() - (64 - bits)).into(),
        _ => unreachable!("the shape rule refuses {} of integers", op.name()),
    }
}

fn unary_real(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Abs => x.abs(),
        UnaryOp::Neg => -x,
        UnaryOp::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                x.signum()
            }
        }
        UnaryOp::Exp => x.exp(),
        UnaryOp::Expm1 => x.exp_m1(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Log1p => x.ln_1p(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Cbrt => x.cbrt(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tan => x.tan(),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Erf => libm::erf(x),
        UnaryOp::Logistic => logistic(x),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::RoundEven => x.round_ties_even(),
        UnaryOp::RoundAway => x.round(),
        UnaryOp::Not | UnaryOp::PopCount | UnaryOp::CountLeadingZeros | UnaryOp::IsFinite | UnaryOp::Real | UnaryOp::Imag => {
            unreachable!("the shape rule refuses {} of reals", op.name())
        }
    }
}

/// 1 / (1 + e^-x).
pub(super) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn unary_complex(op: UnaryOp, z: Complex) -> Complex {
    let one = Complex::ONE;
    match op {
        UnaryOp::Neg => -z,
        UnaryOp::Sign => {
            let r = z.abs();
            if r == 0.0 { z } else { Complex::new(z.re / r, z.im / r) }
        }
        UnaryOp::Exp => z.exp(),
        UnaryOp::Expm1 => {
            let half = (z.im / 2.0).sin();
            Complex::new(z.re.exp_m1() * z.im.cos() - 2.0 * half * half, z.re.exp() * z.im.sin())
        }
        UnaryOp::Log => z.log(),
        UnaryOp::Log1p => (one + z).log(),
        UnaryOp::Sqrt => z.sqrt(),
        UnaryOp::Rsqrt => one / z.sqrt(),
        UnaryOp::Sin => z.sin(),
        UnaryOp::Cos => z.cos(),
        UnaryOp::Tan => {
            let t = Complex::new(-z.im, z.re).tanh();
            Complex::new(t.im, -t.re)
        }
        UnaryOp::Tanh => z.tanh(),
        UnaryOp::Logistic => one / (one + (-z).exp()),
        _ => unreachable!("the shape rule refuses {} of complex numbers", op.name()),
    }
}

pub(super) fn binary(op: BinaryOp, x: &Literal, y: &Literal, out: &TensorType) -> Literal {
    let dtype = x.ty().dtype;
    let elems = match (decode(x), decode(y)) {
        (Elems::Int(x), Elems::Int(y)) => Elems::Int(x.into_iter().zip(y).map(|(x, y)| binary_int(op, x, y, dtype)).collect()),
        (Elems::Real(x), Elems::Real(y)) if op == BinaryOp::Complex => {
            Elems::Complex(x.into_iter().zip(y).map(|(re, im)| Complex::new(re, im)).collect())
        }
        (Elems::Real(x), Elems::Real(y)) => Elems::Real(x.into_iter().zip(y).map(|(x, y)| binary_real(op, x, y)).collect()),
        (Elems::Complex(x), Elems::Complex(y)) => Elems::Complex(x.into_iter().zip(y).map(|(x, y)| binary_complex(op, x, y)).collect()),
        _ => unreachable!("the shape rule asks for equal operand types"),
    };
    encode(out, elems)
}

fn binary_int(op: BinaryOp, x: i128, y: i128, dtype: DType) -> i128 {
    let bits = 8 * dtype.size() as u32;
    let amount = u32::try_from(y).ok().filter(|&n| n < bits);
    match op {
        BinaryOp::Add => x.wrapping_add(y),
        BinaryOp::Sub => x.wrapping_sub(y),
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::Div if y == 0 => -1,
        BinaryOp::Div => x / y,
        BinaryOp::Rem if y == 0 => x,
        BinaryOp::Rem => x % y,
        BinaryOp::Pow => power(x, y),
        BinaryOp::Max => x.max(y),
        BinaryOp::Min => x.min(y),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::ShiftLeft => amount.map_or(0, |n| x.wrapping_shl(n)),
        BinaryOp::ShiftRightArithmetic => {
            let signed = (x << (128 - bits)) >> (128 - bits);
            signed >> amount.unwrap_or(bits - 1)
        }
        BinaryOp::ShiftRightLogical => amount.map_or(0, |n| (x & ((1 << bits) - 1)) >> n),
        BinaryOp::Atan2 | BinaryOp::Complex => unreachable!("the shape rule refuses {} of integers", op.name()),
    }
}

/// Wrapping power; of a negative exponent 1 / x^-y truncated, 0 for x = 0.
fn power(x: i128, y: i128) -> i128 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => 1 - 2 * (y & 1),
            _ => 0,
        };
    }
    let (mut result, mut base, mut rest) = (1i128, x, y);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        rest >>= 1;
    }
    result
}

fn binary_real(op: BinaryOp, x: f64, y: f64) -> f64 {
    match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Rem => x % y,
        BinaryOp::Pow => x.powf(y),
        BinaryOp::Max => maximum(x, y),
        BinaryOp::Min => minimum(x, y),
        BinaryOp::Atan2 => x.atan2(y),
        _ => unreachable!("the shape rule refuses {} of reals", op.name()),
    }
}

/// Larger; NaN if either is; 0 above -0.
pub(super) fn maximum(x: f64, y: f64) -> f64 {
    match x.partial_cmp(&y) {
        None if x.is_nan() => x,
        None => y,
        Some(Ordering::Equal) if x.is_sign_negative() => y,
        Some(Ordering::Less) => y,
        Some(_) => x,
    }
}

/// Smaller; NaN if either is; -0 below 0.
pub(super) fn minimum(x: f64, y: f64) -> f64 {
    match x.partial_cmp(&y) {
        None if x.is_nan() => x,
        None => y,
        Some(Ordering::Equal) if x.is_sign_positive() => y,
        Some(Ordering::Greater) => y,
        Some(_) => x,
    }
}

fn binary_complex(op: BinaryOp, x: Complex, y: Complex) -> Complex {
    match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Pow if y == Complex::ZERO => Complex::ONE,
        BinaryOp::Pow if x == Complex::ZERO => Complex::ZERO,
        BinaryOp::Pow => (y * x.log()).exp(),
        _ => unreachable!("the shape rule refuses {} of complex numbers", op.name()),
    }
}

pub(super) fn compare(dir: CompareDir, x: &Literal, y: &Literal, out: &TensorType) -> Literal {
    fn holds(dir: CompareDir, order: Option<Ordering>) -> bool {
        match dir {
            CompareDir::Eq => order == Some(Ordering::Equal),
            CompareDir::Ne => order != Some(Ordering::Equal),
            CompareDir::Lt => order == Some(Ordering::Less),
            CompareDir::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            CompareDir::Gt => order == Some(Ordering::Greater),
            CompareDir::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
    let bytes = match (decode(x), decode(y)) {
        (Elems::Int(x), Elems::Int(y)) => x.iter().zip(&y).map(|(x, y)| u8::from(holds(dir, x.partial_cmp(y)))).collect(),
        (Elems::Real(x), Elems::Real(y)) => x.iter().zip(&y).map(|(x, y)| u8::from(holds(dir, x.partial_cmp(y)))).collect(),
        (Elems::Complex(x), Elems::Complex(y)) => {
            x.iter().zip(&y).map(|(x, y)| u8::from(holds(dir, (x == y).then_some(Ordering::Equal)))).collect()
        }
        _ => unreachable!("the shape rule asks for equal operand types"),
    };
    literal(out, bytes)
}

pub(super) fn select(pred: &Literal, on_true: &Literal, on_false: &Literal) -> Literal {
    let size = on_true.ty().dtype.size();
    let mut bytes = Vec::with_capacity(on_true.bytes().len());
    for (i, p) in decode_int(pred).into_iter().enumerate() {
        let from = if p != 0 { on_true } else { on_false };
        bytes.extend_from_slice(&from.bytes()[i * size..(i + 1) * size]);
    }
    literal(on_true.ty(), bytes)
}
