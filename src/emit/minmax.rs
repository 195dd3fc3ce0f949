//! Maximum and minimum, with NaN kept where the target may lose it.

use super::body::{Body, Inst};

/// `maximum` or `minimum` of two floats, NaN if either is NaN, on targets whose own may drop it.
pub(super) fn keeping_nan(body: &mut Body, opcode: &'static str, x: Inst, y: Inst) -> Inst {
    let z = body.same(opcode, &[x, y]);
    let y_nan = body.is_nan(y);
    let z = body.select(y_nan, y, z);
    let x_nan = body.is_nan(x);
    body.select(x_nan, x, z)
}
