//! Softmax and its logarithm.

use clutch_graph::Op;

use super::helpers::cast;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[("aten._softmax.default", softmax), ("aten._log_softmax.default", softmax)];

fn softmax(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let axis = c.axis(l, 1, "dim", l.b.rank(x))?;
    let dtype = c.out_dtype()?;
    let x = cast(l, x, dtype)?;
    if l.b.rank(x) == 0 {
        return Err(LowerError::unsupported("a tensor without axes"));
    }
    one(l.b.op(Op::Softmax { axis, log: c.target.contains("log") }, [x])?)
}
