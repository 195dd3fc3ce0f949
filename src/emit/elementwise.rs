//! Elementwise operations. 8-bit floats are computed in `F32`.

use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{DType, Node, TensorType};

use super::body::{Body, Inst};
use super::lower::{Lower, Lowered};
use super::{minmax, power};

/// `F32` for 8-bit floats, else the type itself.
fn arithmetic_type(dtype: DType) -> DType {
    if dtype.is_float() && dtype.size() == 1 { DType::F32 } else { dtype }
}

fn unary_opcode(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Abs => "abs",
        UnaryOp::Neg => "negate",
        UnaryOp::Sign => "sign",
        UnaryOp::Exp => "exponential",
        UnaryOp::Expm1 => "exponential-minus-one",
        UnaryOp::Log => "log",
        UnaryOp::Log1p => "log-plus-one",
        UnaryOp::Sqrt => "sqrt",
        UnaryOp::Rsqrt => "rsqrt",
        UnaryOp::Cbrt => "cbrt",
        UnaryOp::Sin => "sine",
        UnaryOp::Cos => "cosine",
        UnaryOp::Tan => "tan",
        UnaryOp::Tanh => "tanh",
        UnaryOp::Erf => "erf",
        UnaryOp::Logistic => "logistic",
        UnaryOp::Floor => "floor",
        UnaryOp::Ceil => "ceil",
        UnaryOp::RoundEven => "round-nearest-even",
        UnaryOp::RoundAway => "round-nearest-afz",
        UnaryOp::Not => "not",
        UnaryOp::PopCount => "popcnt",
        UnaryOp::CountLeadingZeros => "count-leading-zeros",
        UnaryOp::IsFinite => "is-finite",
        UnaryOp::Real => "real",
        UnaryOp::Imag => "imag",
    }
}

fn binary_opcode(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "add",
        BinaryOp::Sub => "subtract",
        BinaryOp::Mul => "multiply",
        BinaryOp::Div => "divide",
        BinaryOp::Rem => "remainder",
        BinaryOp::Pow => "power",
        BinaryOp::Max => "maximum",
        BinaryOp::Min => "minimum",
        BinaryOp::And => "and",
        BinaryOp::Or => "or",
        BinaryOp::Xor => "xor",
        BinaryOp::ShiftLeft => "shift-left",
        BinaryOp::ShiftRightArithmetic => "shift-right-arithmetic",
        BinaryOp::ShiftRightLogical => "shift-right-logical",
        BinaryOp::Atan2 => "atan2",
        BinaryOp::Complex => "complex",
    }
}

pub(super) fn unary(cx: &mut Lower<'_, '_>, node: &Node, op: UnaryOp, x: Inst) -> Lowered {
    let body = &mut cx.body;
    let ty = body.ty(x).clone();
    let out = &node.outputs[0];
    match op {
        // HLO's sign and absolute value take no unsigned integers.
        UnaryOp::Abs if ty.dtype.is_unsigned_int() => Ok(x),
        UnaryOp::Sign if ty.dtype.is_unsigned_int() => {
            let zero = body.fill(ty.dtype, 0.0, &ty);
            let positive = body.compare(CompareDir::Ne, x, zero);
            Ok(body.convert(positive, ty.dtype))
        }
        _ => {
            let compute = arithmetic_type(ty.dtype);
            let x = body.convert(x, compute);
            let mid = if out.dtype == ty.dtype { compute } else { out.dtype };
            let y = body.op(unary_opcode(op), out.with_dtype(mid), &[x]);
            Ok(body.convert(y, out.dtype))
        }
    }
}

pub(super) fn binary(cx: &mut Lower<'_, '_>, node: &Node, op: BinaryOp, x: Inst, y: Inst) -> Lowered {
    let body = &mut cx.body;
    let dtype = body.dtype(x);
    let out = &node.outputs[0];
    if dtype == DType::Pred {
        return match pred_opcode(op) {
            Some(opcode) => Ok(body.same(opcode, &[x, y])),
            // y false leaves x, y true leaves nothing.
            None if op == BinaryOp::Rem => {
                let not = body.same("not", &[y]);
                Ok(body.same("and", &[x, not]))
            }
            None => cx.unsupported(node, "not defined for booleans"),
        };
    }
    let compute = arithmetic_type(dtype);
    let (x, y) = (body.convert(x, compute), body.convert(y, compute));
    if op == BinaryOp::Pow && dtype.is_int() {
        return Ok(power::integer(body, x, y));
    }
    if matches!(op, BinaryOp::Max | BinaryOp::Min) && dtype.is_float() && cx.module.options.max_drops_nan {
        let z = minmax::keeping_nan(body, binary_opcode(op), x, y);
        return Ok(body.convert(z, dtype));
    }
    let mid = if out.dtype == dtype { compute } else { out.dtype };
    let z = body.op(binary_opcode(op), out.with_dtype(mid), &[x, y]);
    Ok(body.convert(z, out.dtype))
}

fn pred_opcode(op: BinaryOp) -> Option<&'static str> {
    Some(match op {
        BinaryOp::Add | BinaryOp::Max | BinaryOp::Or => "or",
        BinaryOp::Mul | BinaryOp::Min | BinaryOp::And => "and",
        BinaryOp::Xor => "xor",
        _ => return None,
    })
}

pub(super) fn compare(cx: &mut Lower<'_, '_>, dir: CompareDir, x: Inst, y: Inst) -> Inst {
    let compute = arithmetic_type(cx.body.dtype(x));
    let (x, y) = (cx.body.convert(x, compute), cx.body.convert(y, compute));
    cx.body.compare(dir, x, y)
}

/// Real and imaginary part of a complex value.
pub(super) fn parts(body: &mut Body, x: Inst) -> (Inst, Inst) {
    let ty: TensorType = body.ty(x).with_dtype(body.dtype(x).real_part());
    (body.op("real", ty.clone(), &[x]), body.op("imag", ty, &[x]))
}
