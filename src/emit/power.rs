//! Integer powers. XLA reads six bits of an integer exponent, so that its 2^64 is 1: larger exponents are squared out here.

use clutch_graph::op::CompareDir;
use clutch_graph::{DType, Literal};

use super::body::{Body, Inst};

/// Exponents below are left to the `power` instruction.
const NATIVE: i64 = 64;

/// x to the power y, wrapping. Negative exponents give 1, -1 or 0, as the instruction has them.
pub(super) fn integer(body: &mut Body, x: Inst, y: Inst) -> Inst {
    let native = body.same("power", &[x, y]);
    let ty = body.ty(y).clone();
    let signed = ty.dtype.is_signed_int();
    let known = body.scalar_value(y).and_then(Literal::splat_i64);
    if known.is_some_and(|y| y < NATIVE && (signed || ty.dtype != DType::U64 || y >= 0)) {
        return native;
    }
    let [zero, one] = [0, 1].map(|value| body.splat(&Literal::scalar_i64(ty.dtype, value), &ty));
    let (mut base, mut rest, mut result) = (x, y, one);
    for bit in 0..(ty.dtype.size() * 8) as u32 - u32::from(signed) {
        if bit > 0 {
            base = body.same("multiply", &[base, base]);
            rest = body.same("shift-right-logical", &[rest, one]);
        }
        let digit = body.same("and", &[rest, one]);
        let odd = body.compare(CompareDir::Ne, digit, zero);
        let more = body.same("multiply", &[result, base]);
        result = body.select(odd, more, result);
    }
    if !signed {
        return result;
    }
    let negative = body.compare(CompareDir::Lt, y, zero);
    body.select(negative, native, result)
}
