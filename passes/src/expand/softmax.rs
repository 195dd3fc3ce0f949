//! Softmax and its logarithm.

use clutch_graph::ValueId;
use clutch_graph::builder::{Builder, Built};
use clutch_graph::op::{Combiner, UnaryOp};

use crate::expand::util::{spread, to_compute};

/// exp(x - max) / sum, or x - max - log(sum), in the compute type.
pub(crate) fn softmax(b: &mut Builder, x: ValueId, axis: usize, log: bool) -> Built {
    let dtype = b.dtype(x);
    let x = to_compute(b, x)?;
    let max = b.reduce(Combiner::Max, x, &[axis])?;
    let max = spread(b, max, x, &[axis])?;
    let shifted = b.sub(x, max)?;
    let exp = b.unary(UnaryOp::Exp, shifted)?;
    let sum = b.reduce(Combiner::Add, exp, &[axis])?;
    let y = if log {
        let log_sum = b.unary(UnaryOp::Log, sum)?;
        let log_sum = spread(b, log_sum, x, &[axis])?;
        b.sub(shifted, log_sum)?
    } else {
        let sum = spread(b, sum, x, &[axis])?;
        b.div(exp, sum)?
    };
    b.convert(y, dtype)
}
