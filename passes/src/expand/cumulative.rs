//! Running sums, products and extrema.

use std::sync::Arc;

use clutch_graph::builder::{Builder, Built};
use clutch_graph::graph::InputKind;
use clutch_graph::op::{Axes, Combiner, CompareDir, DotDims, Op, PadDim, Precision, UnaryOp, WindowDim};
use clutch_graph::{DType, Graph, GraphError, TensorType, ValueId};
use smallvec::SmallVec;

use crate::expand::util::{combine, identity, to_compute};
use crate::options::Target;

/// Axes at most this long are combined by doubling steps.
const SHORT: i64 = 32;

/// Running combination along `axis`, in the compute type: a window reduction on TPU; on CPU blocks times a triangular matrix for sums of
/// floats, doubling steps otherwise.
pub(crate) fn cumulative(b: &mut Builder, x: ValueId, combiner: Combiner, axis: usize, target: Target) -> Built {
    let dtype = b.dtype(x);
    let length = b.dims(x)[axis];
    let x = to_compute(b, x)?;
    let y = if length <= 1 {
        x
    } else if target == Target::Tpu {
        windowed(b, x, combiner, axis)?
    } else if combiner == Combiner::Add && dtype.is_float() && length > SHORT {
        guarded_sum(b, x, axis)?
    } else {
        doubling(b, x, combiner, axis)?
    };
    b.convert(y, dtype)
}

fn windowed(b: &mut Builder, x: ValueId, combiner: Combiner, axis: usize) -> Built {
    let length = b.dims(x)[axis];
    let mut window: SmallVec<[WindowDim; 6]> = smallvec::smallvec![WindowDim::TRIVIAL; b.rank(x)];
    window[axis] = WindowDim { size: length, pad_low: length - 1, ..WindowDim::TRIVIAL };
    b.op(Op::ReduceWindow { combiner, window }, [x])
}

/// After the step of distance d each element combines its 2d predecessors and itself.
fn doubling(b: &mut Builder, x: ValueId, combiner: Combiner, axis: usize) -> Built {
    let (length, rank, dtype) = (b.dims(x)[axis], b.rank(x), b.dtype(x));
    let fill = identity(b, combiner, dtype)?;
    let mut y = x;
    let mut distance = 1;
    while distance < length {
        let mut pads: SmallVec<[PadDim; 6]> = smallvec::smallvec![PadDim::default(); rank];
        pads[axis] = PadDim { low: distance, high: -distance, interior: 0 };
        let earlier = b.pad(y, fill, &pads)?;
        y = combine(b, combiner, earlier, y)?;
        distance *= 2;
    }
    Ok(y)
}

/// A triangular product spreads one infinity or NaN over its whole block (0 * inf), so it is taken only when all elements are finite.
fn guarded_sum(b: &mut Builder, x: ValueId, axis: usize) -> Built {
    let ty = b.ty(x).clone();
    let finite = b.unary(UnaryOp::IsFinite, x)?;
    let all: Axes = (0..ty.rank()).collect();
    let finite = b.reduce(Combiner::And, finite, &all)?;
    let on_true = Arc::new(branch(&ty, |b, x| blocked_sum(b, x, axis))?);
    let on_false = Arc::new(branch(&ty, |b, x| doubling(b, x, Combiner::Add, axis))?);
    b.op(Op::Cond { on_true, on_false }, [finite, x])
}

fn branch(ty: &TensorType, build: impl FnOnce(&mut Builder, ValueId) -> Built) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let x = b.parameter(ty.clone(), InputKind::Dynamic);
    let y = build(&mut b, x)?;
    Ok(b.finish([y]))
}

/// Sums within blocks by a product with a triangle of ones, plus the running sum of the blocks before.
fn blocked_sum(b: &mut Builder, x: ValueId, axis: usize) -> Built {
    let rank = b.rank(x);
    let mut perm: Axes = (0..rank).filter(|&a| a != axis).collect();
    perm.push(axis);
    let moved = b.transpose(x, &perm)?;
    let moved_dims = b.dims(moved);
    let (length, dtype) = (moved_dims[rank - 1], b.dtype(x));
    let rows: i64 = moved_dims[..rank - 1].iter().product();
    let block = if length > 4096 { 128 } else { 64 };
    let blocks = (length + block - 1) / block;
    let flat = b.reshape(moved, &[rows, length])?;
    let zero = b.scalar(dtype, 0.0)?;
    let tail = PadDim { low: 0, high: blocks * block - length, interior: 0 };
    let padded = b.pad(flat, zero, &[PadDim::default(), tail])?;
    let split = b.reshape(padded, &[rows * blocks, block])?;
    let from = b.iota(DType::S32, &[block, block], 0)?;
    let to = b.iota(DType::S32, &[block, block], 1)?;
    let triangle = b.compare(CompareDir::Le, from, to)?;
    let triangle = b.convert(triangle, dtype)?;
    let dims = DotDims { lhs_contract: smallvec::smallvec![1], rhs_contract: smallvec::smallvec![0], ..DotDims::default() };
    let inner = b.dot_general(split, triangle, dims, dtype, Precision::Highest)?;
    let inner = b.reshape(inner, &[rows, blocks, block])?;
    let totals = b.slice_axis(inner, 2, block - 1, block, 1)?;
    let totals = b.reshape(totals, &[rows, blocks])?;
    let running = doubling(b, totals, Combiner::Add, 1)?;
    let before = b.pad(running, zero, &[PadDim::default(), PadDim { low: 1, high: -1, interior: 0 }])?;
    let before = b.broadcast_in_dim(before, &[rows, blocks, block], &[0, 1])?;
    let sums = b.add(inner, before)?;
    let sums = b.reshape(sums, &[rows, blocks * block])?;
    let sums = b.slice_axis(sums, 1, 0, length, 1)?;
    let sums = b.reshape(sums, &moved_dims)?;
    let mut back: Axes = smallvec::smallvec![0; rank];
    for (i, &p) in perm.iter().enumerate() {
        back[p] = i;
    }
    b.transpose(sums, &back)
}
