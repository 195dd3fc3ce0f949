//! Conversions and bitcasts.

use clutch_graph::op::CompareDir;
use clutch_graph::{DType, Literal, Node};

use super::body::{Body, Inst};
use super::elementwise::parts;
use super::lower::{Lower, Lowered};

/// Value conversion by the contract of `Op::Convert`.
pub(super) fn convert(cx: &mut Lower<'_, '_>, x: Inst, to: DType) -> Inst {
    let saturates = cx.module.options.convert_saturates;
    let body = &mut cx.body;
    let from = body.dtype(x);
    if from == to {
        return x;
    }
    if to == DType::Pred {
        let x = if from.is_float() { body.convert(x, from.compute_type()) } else { x };
        let ty = body.ty(x).clone();
        let zero = body.fill(ty.dtype, 0.0, &ty);
        return body.compare(CompareDir::Ne, x, zero);
    }
    if from.is_complex() && !to.is_complex() {
        // HLO does not convert complex numbers to real ones.
        let (re, _) = parts(body, x);
        return convert(cx, re, to);
    }
    if from.is_float() && to.is_int() {
        let x = if from.size() == 1 { body.convert(x, DType::F32) } else { x };
        return if saturates { body.convert(x, to) } else { saturate(body, x, to) };
    }
    body.convert(x, to)
}

/// Float to integer, with the ends of the range and NaN written out.
fn saturate(body: &mut Body, x: Inst, to: DType) -> Inst {
    let ty = body.ty(x).clone();
    let out = ty.with_dtype(to);
    let bits = (to.size() * 8) as i32;
    let (low, lowest, high, highest) = if to.is_signed_int() {
        (-2f64.powi(bits - 1), i64::MIN >> (64 - bits), 2f64.powi(bits - 1), i64::MAX >> (64 - bits))
    } else {
        (0.0, 0, 2f64.powi(bits), -1)
    };
    let mut y = body.convert(x, to);
    for (dir, bound, value) in [(CompareDir::Le, low, lowest), (CompareDir::Ge, high, highest)] {
        let bound = body.fill(ty.dtype, bound, &ty);
        let beyond = body.compare(dir, x, bound);
        let value = body.splat(&Literal::scalar_i64(to, value), &out);
        y = body.select(beyond, value, y);
    }
    let nan = body.is_nan(x);
    let zero = body.splat(&Literal::scalar_i64(to, 0), &out);
    body.select(nan, zero, y)
}

/// The same bits as another type. HLO's own form takes neither booleans nor complex numbers.
pub(super) fn bitcast(cx: &mut Lower<'_, '_>, node: &Node, x: Inst, to: DType) -> Lowered {
    let from = cx.body.dtype(x);
    if from == to {
        return Ok(x);
    }
    let body = &mut cx.body;
    if to == DType::Pred {
        let bits = raw_bitcast(body, x, DType::U8);
        let ty = body.ty(bits).clone();
        let zero = body.fill(DType::U8, 0.0, &ty);
        return Ok(body.compare(CompareDir::Ne, bits, zero));
    }
    if from == DType::Pred {
        let bits = body.convert(x, DType::U8);
        return Ok(raw_bitcast(body, bits, to));
    }
    match (from, to) {
        (DType::C64, _) => {
            let (re, im) = parts(body, x);
            let [low, high] = [re, im].map(|part| {
                let bits = raw_bitcast(body, part, DType::U32);
                body.convert(bits, DType::U64)
            });
            let high = shift(body, "shift-left", high);
            let bits = body.same("or", &[low, high]);
            Ok(raw_bitcast(body, bits, to))
        }
        (_, DType::C64) => {
            let bits = raw_bitcast(body, x, DType::U64);
            let high = shift(body, "shift-right-logical", bits);
            let [re, im] = [bits, high].map(|half| {
                let half = body.convert(half, DType::U32);
                raw_bitcast(body, half, DType::F32)
            });
            let ty = body.ty(re).with_dtype(DType::C64);
            Ok(body.op("complex", ty, &[re, im]))
        }
        _ if from.is_complex() || to.is_complex() => cx.unsupported(node, "no type of equal size"),
        _ => Ok(raw_bitcast(body, x, to)),
    }
}

fn raw_bitcast(body: &mut Body, x: Inst, to: DType) -> Inst {
    if body.dtype(x) == to {
        return x;
    }
    let ty = body.ty(x).with_dtype(to);
    body.op("bitcast-convert", ty, &[x])
}

fn shift(body: &mut Body, opcode: &'static str, x: Inst) -> Inst {
    let ty = body.ty(x).clone();
    let amount = body.fill(DType::U64, 32.0, &ty);
    body.same(opcode, &[x, amount])
}
