//! Shared by the expansions.

use clutch_graph::builder::{Builder, Built};
use clutch_graph::literal::Literal;
use clutch_graph::op::{Axes, Combiner};
use clutch_graph::{DType, ValueId};

/// `x` in the type its arithmetic is done in.
pub(crate) fn to_compute(b: &mut Builder, x: ValueId) -> Built {
    let compute = b.dtype(x).compute_type();
    b.convert(x, compute)
}

/// `stat`, which lacks `axes` of `like`, spread over them.
pub(crate) fn spread(b: &mut Builder, stat: ValueId, like: ValueId, axes: &[usize]) -> Built {
    let dims = b.dims(like);
    let kept: Axes = (0..dims.len()).filter(|a| !axes.contains(a)).collect();
    b.broadcast_in_dim(stat, &dims, &kept)
}

/// The scalar that changes nothing when combined: the identity of `combiner` in `dtype`.
pub(crate) fn identity_literal(combiner: Combiner, dtype: DType) -> Literal {
    let float = dtype.is_float() || dtype.is_complex();
    match combiner {
        Combiner::Add | Combiner::Or | Combiner::Assign => Literal::scalar_f64(dtype, 0.0),
        Combiner::Mul => Literal::scalar_f64(dtype, 1.0),
        Combiner::And => Literal::scalar_i64(dtype, -1),
        Combiner::Max if float => Literal::scalar_f64(dtype, lowest(dtype)),
        Combiner::Min if float => Literal::scalar_f64(dtype, -lowest(dtype)),
        Combiner::Max => Literal::scalar_i64(dtype, if dtype.is_signed_int() { i64::MIN >> (64 - 8 * dtype.size()) } else { 0 }),
        Combiner::Min => Literal::scalar_i64(dtype, if dtype.is_signed_int() { i64::MAX >> (64 - 8 * dtype.size()) } else { -1 }),
    }
}

/// [`identity_literal`] in the graph.
pub(crate) fn identity(b: &mut Builder, combiner: Combiner, dtype: DType) -> Built {
    b.constant(identity_literal(combiner, dtype))
}

/// Below every other number of a float type: minus infinity where there is one.
fn lowest(dtype: DType) -> f64 {
    if dtype == DType::F8E4M3FN { -448.0 } else { f64::NEG_INFINITY }
}
