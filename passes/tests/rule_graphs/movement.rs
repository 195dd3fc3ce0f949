//! Movement and reductions.

use clutch_graph::builder::Builder;
use clutch_graph::op::{Axes, Combiner, UnaryOp};
use clutch_graph::{DType, Graph, GraphError, Op, ValueId};
use smallvec::smallvec;

use super::{ANY, Case, input, permutation, pick, sizes, whole};
use crate::common::Numbers;

pub const CASES: &[Case] = &[
    Case { rule: "transpose-twice", graph: transposes },
    Case { rule: "reshape-twice", graph: reshapes },
    Case { rule: "transpose-out", graph: elementwise_of_transposes },
    Case { rule: "transpose-in", graph: transpose_around_elementwise },
    Case { rule: "broadcast-out", graph: elementwise_of_broadcasts },
    Case { rule: "slice-in", graph: slice_of_elementwise },
    Case { rule: "concat-of-slices", graph: concat_of_slices },
    Case { rule: "slice-of-transpose", graph: slice_of_transpose },
    Case { rule: "extreme-of-broadcast", graph: |n| reduce_of_broadcast(n, Combiner::Max) },
    Case { rule: "extreme-of-broadcast", graph: |n| reduce_of_broadcast(n, Combiner::Min) },
    Case { rule: "sum-of-broadcast", graph: |n| reduce_of_broadcast(n, Combiner::Add) },
    Case { rule: "extreme-of-extreme", graph: |n| reduce_of_reduce(n, Combiner::Max) },
    Case { rule: "sum-of-sum", graph: |n| reduce_of_reduce(n, Combiner::Add) },
    Case { rule: "extreme-of-transpose", graph: |n| reduce_of_transpose(n, Combiner::Min) },
    Case { rule: "sum-of-transpose", graph: |n| reduce_of_transpose(n, Combiner::Add) },
];

/// A permutation that is not the identity.
fn moving(n: &mut Numbers, rank: usize) -> Vec<usize> {
    let mut perm = permutation(n, rank);
    if perm.is_sorted() {
        perm.swap(0, rank - 1);
    }
    perm
}

fn transposes(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &ANY);
    let dims = sizes(n, 4);
    let x = input(&mut b, dtype, &dims);
    let y = b.transpose(x, &moving(n, 4))?;
    let y = b.transpose(y, &moving(n, 4))?;
    Ok(b.finish([y]))
}

fn reshapes(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &ANY);
    let (p, q, r) = (whole(n, 2, 4), whole(n, 2, 4), whole(n, 2, 4));
    let x = input(&mut b, dtype, &[p, q * r]);
    let y = b.reshape(x, &[p * q, r])?;
    let y = b.reshape(y, &[p, q, r])?;
    Ok(b.finish([y]))
}

/// A few elementwise ops of one or two operands of a type.
fn elementwise(b: &mut Builder, n: &mut Numbers, x: ValueId, y: ValueId) -> Result<ValueId, GraphError> {
    match whole(n, 0, 4) {
        0 => b.add(x, y),
        1 => b.mul(x, y),
        2 => b.max(x, y),
        3 => {
            let p = b.compare(clutch_graph::op::CompareDir::Lt, x, y)?;
            b.select(p, x, y)
        }
        _ => b.sub(x, y),
    }
}

fn elementwise_of_transposes(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &ANY);
    let (dims, perm) = (sizes(n, 3), moving(n, 3));
    let (x, y) = (input(&mut b, dtype, &dims), input(&mut b, dtype, &dims));
    let x = b.transpose(x, &perm)?;
    let y = if n.next() > 0.0 { b.full_like(x, 3.0)? } else { b.transpose(y, &perm)? };
    let y = elementwise(&mut b, n, x, y)?;
    Ok(b.finish([y]))
}

fn transpose_around_elementwise(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &[DType::F32, DType::BF16]);
    let dims = sizes(n, 3);
    let x = input(&mut b, dtype, &dims);
    let x = b.transpose(x, &moving(n, 3))?;
    let u = pick(n, &[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Floor, UnaryOp::Sign]);
    let y = b.unary(u, x)?;
    let y = b.transpose(y, &moving(n, 3))?;
    Ok(b.finish([y]))
}

/// `x`, of rank 2, repeated along a third axis.
fn spread(b: &mut Builder, n: &mut Numbers, x: ValueId, at: usize, times: i64) -> Result<ValueId, GraphError> {
    let _ = n;
    let mut dims = b.dims(x);
    dims.insert(at, times);
    let axes: Axes = (0..3).filter(|&a| a != at).collect();
    b.op(Op::Broadcast { dims, axes }, [x])
}

fn elementwise_of_broadcasts(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &ANY);
    let (dims, at, times) = (sizes(n, 2), whole(n, 0, 2) as usize, whole(n, 2, 4));
    let (x, y) = (input(&mut b, dtype, &dims), input(&mut b, dtype, &dims));
    let x = spread(&mut b, n, x, at, times)?;
    let y = if n.next() > 0.0 { b.full_like(x, 2.0)? } else { spread(&mut b, n, y, at, times)? };
    let y = elementwise(&mut b, n, x, y)?;
    Ok(b.finish([y]))
}

fn cut(b: &mut Builder, n: &mut Numbers, x: ValueId) -> Result<ValueId, GraphError> {
    let dims = b.dims(x);
    let start: Vec<i64> = dims.iter().map(|&d| whole(n, 0, d - 1)).collect();
    let limit: Vec<i64> = dims.iter().zip(&start).map(|(&d, &s)| whole(n, s + 1, d)).collect();
    let stride = dims.iter().map(|_| whole(n, 1, 2)).collect();
    b.op(Op::Slice { start: start.into(), limit: limit.into(), stride }, [x])
}

fn slice_of_elementwise(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &ANY);
    let dims = sizes(n, 3);
    let (x, y) = (input(&mut b, dtype, &dims), input(&mut b, dtype, &dims));
    let y = if n.next() > 0.0 { b.full_like(x, 3.0)? } else { y };
    let y = elementwise(&mut b, n, x, y)?;
    let y = cut(&mut b, n, y)?;
    Ok(b.finish([y]))
}

fn concat_of_slices(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &ANY);
    let axis = whole(n, 0, 1) as usize;
    let mut dims = sizes(n, 2);
    dims[axis] = whole(n, 4, 8);
    let x = input(&mut b, dtype, &dims);
    let other = input(&mut b, dtype, &dims);
    let (first, second) = (whole(n, 0, 1), whole(n, 2, 3));
    let parts = [
        other,
        b.slice_axis(x, axis, first, second, 1)?,
        b.slice_axis(x, axis, second, dims[axis] - 1, 1)?,
        b.slice_axis(x, axis, dims[axis] - 1, dims[axis], 1)?,
    ];
    let y = b.concat(&parts[usize::from(n.next() > 0.0)..], axis)?;
    Ok(b.finish([y]))
}

fn slice_of_transpose(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &ANY);
    let dims = sizes(n, 3);
    let x = input(&mut b, dtype, &dims);
    let y = b.transpose(x, &moving(n, 3))?;
    let y = cut(&mut b, n, y)?;
    Ok(b.finish([y]))
}

fn reducible(n: &mut Numbers, combiner: Combiner) -> DType {
    if combiner == Combiner::Add { pick(n, &[DType::F32, DType::F64, DType::S32, DType::U8]) } else { pick(n, &ANY) }
}

fn reduce_of_broadcast(n: &mut Numbers, combiner: Combiner) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = reducible(n, combiner);
    let (dims, at) = (sizes(n, 2), whole(n, 0, 2) as usize);
    let x = input(&mut b, dtype, &dims);
    let times = whole(n, 2, 4);
    let x = spread(&mut b, n, x, at, times)?;
    let mut axes: Axes = smallvec![at];
    if n.next() > 0.0 {
        axes.push((at + 1) % 3);
        axes.sort_unstable();
    }
    let y = b.op(Op::Reduce { combiner, axes }, [x])?;
    Ok(b.finish([y]))
}

fn reduce_of_reduce(n: &mut Numbers, combiner: Combiner) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = reducible(n, combiner);
    let dims = sizes(n, 4);
    let x = input(&mut b, dtype, &dims);
    let y = b.reduce(combiner, x, &[whole(n, 0, 3) as usize])?;
    let y = b.reduce(combiner, y, &[whole(n, 0, 2) as usize])?;
    Ok(b.finish([y]))
}

fn reduce_of_transpose(n: &mut Numbers, combiner: Combiner) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = reducible(n, combiner);
    let dims = sizes(n, 3);
    let x = input(&mut b, dtype, &dims);
    let y = b.transpose(x, &moving(n, 3))?;
    let kept = whole(n, 0, 2) as usize;
    let axes: Axes = (0..3).filter(|&a| a != kept).collect();
    let y = b.reduce(combiner, y, &axes)?;
    Ok(b.finish([y]))
}
