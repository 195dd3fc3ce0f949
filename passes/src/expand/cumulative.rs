//! Running sums, products and extrema.

use clutch_graph::ValueId;
use clutch_graph::builder::{Builder, Built};
use clutch_graph::op::{Combiner, Op, WindowDim};
use smallvec::SmallVec;

use crate::expand::util::to_compute;

/// Running combination along `axis` in the compute type, as a reduction of windows that end at each element. XLA turns these into trees;
/// on the CPU plugin blocks times a triangle, doubling steps and scans are all slower.
pub(crate) fn cumulative(b: &mut Builder, x: ValueId, combiner: Combiner, axis: usize) -> Built {
    let dtype = b.dtype(x);
    let length = b.dims(x)[axis];
    if length <= 1 {
        return Ok(x);
    }
    let x = to_compute(b, x)?;
    let mut window: SmallVec<[WindowDim; 6]> = smallvec::smallvec![WindowDim::TRIVIAL; b.rank(x)];
    window[axis] = WindowDim { size: length, pad_low: length - 1, ..WindowDim::TRIVIAL };
    let y = b.op(Op::ReduceWindow { combiner, window }, [x])?;
    b.convert(y, dtype)
}
