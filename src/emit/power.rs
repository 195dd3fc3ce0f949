//! Integer powers. XLA reads six bits of an integer exponent, so that 2^64 is 1: larger exponents are taken six bits at a time.

use clutch_graph::op::CompareDir;
use clutch_graph::{DType, Literal};

use super::body::{Body, Inst};

/// Bits of the exponent that one `power` instruction reads.
const BITS: u32 = 6;

/// x to the power y, wrapping. Negative exponents are left to the instruction: they give 1, -1 or 0.
pub(super) fn integer(body: &mut Body, x: Inst, y: Inst) -> Inst {
    let native = body.same("power", &[x, y]);
    let ty = body.ty(y).clone();
    if body.scalar_value(y).and_then(Literal::splat_i64).is_some_and(|y| (i64::MIN..1 << BITS).contains(&y) && !wraps_large(ty.dtype, y)) {
        return native;
    }
    let all = (ty.dtype.size() * 8) as u32 - u32::from(ty.dtype.is_signed_int());
    let fill = |body: &mut Body, value| body.splat(&Literal::scalar_i64(ty.dtype, value), &ty);
    let (mask, shift, half) = (fill(body, (1 << BITS) - 1), fill(body, i64::from(BITS)), fill(body, 1 << (BITS - 1)));
    let (mut base, mut rest) = (x, y);
    let mut result = None;
    for chunk in 0..all.div_ceil(BITS) {
        if chunk > 0 {
            let root = body.same("power", &[base, half]);
            base = body.same("multiply", &[root, root]);
            rest = body.same("shift-right-logical", &[rest, shift]);
        }
        let digit = body.same("and", &[rest, mask]);
        let part = body.same("power", &[base, digit]);
        result = Some(result.map_or(part, |r| body.same("multiply", &[r, part])));
    }
    let result = result.unwrap_or(native);
    if !ty.dtype.is_signed_int() {
        return result;
    }
    let zero = fill(body, 0);
    let negative = body.compare(CompareDir::Lt, y, zero);
    body.select(negative, native, result)
}

/// A `U64` exponent of 2^63 or more, which reads back as a negative number.
fn wraps_large(dtype: DType, y: i64) -> bool {
    dtype.is_unsigned_int() && y < 0
}
