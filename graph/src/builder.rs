//! Builds graphs: one method an op, with no-ops dropped, plus broadcasting and scalar helpers.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::GraphError;
use crate::graph::{Graph, InputKind, ValueId};
use crate::literal::Literal;
use crate::op::{Axes, BinaryOp, Combiner, CompareDir, DotDims, Op, PadDim, Precision, UnaryOp};
use crate::types::{Dims, TensorType};

/// What a builder method gives.
pub type Built = Result<ValueId, GraphError>;

/// Appends nodes to a graph. Methods check their operands by the shape rules and return an operand itself where the op changes nothing.
#[derive(Debug, Default)]
pub struct Builder {
    graph: Graph,
    keep_no_ops: bool,
}

impl Builder {
    /// A builder of a new graph.
    pub fn new() -> Self {
        Builder::default()
    }

    /// A builder that goes on with `graph`.
    pub fn from_graph(graph: Graph) -> Self {
        Builder { graph, keep_no_ops: false }
    }

    /// A builder of a new graph whose structure does not depend on sizes: broadcasts, reshapes, slices and pads that change nothing stay.
    pub fn keeping_no_ops() -> Self {
        Builder { graph: Graph::default(), keep_no_ops: true }
    }

    /// The graph, with the given outputs.
    pub fn finish(mut self, outputs: impl IntoIterator<Item = ValueId>) -> Graph {
        self.graph.outputs = outputs.into_iter().collect();
        self.graph
    }

    /// The graph so far.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph so far, for changes.
    pub fn graph_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// Type of a value.
    pub fn ty(&self, v: ValueId) -> &TensorType {
        self.graph.ty(v)
    }

    /// Element type of a value.
    pub fn dtype(&self, v: ValueId) -> DType {
        self.ty(v).dtype
    }

    /// Sizes of a value.
    pub fn dims(&self, v: ValueId) -> Dims {
        self.ty(v).dims.clone()
    }

    /// Number of axes of a value.
    pub fn rank(&self, v: ValueId) -> usize {
        self.ty(v).rank()
    }

    /// A new parameter.
    pub fn parameter(&mut self, ty: TensorType, kind: InputKind) -> ValueId {
        self.graph.parameter(ty, kind)
    }

    /// Any op of one result.
    pub fn op(&mut self, op: Op, operands: impl IntoIterator<Item = ValueId>) -> Built {
        self.graph.add1(op, operands)
    }

    /// Any op; all results.
    pub fn op_multi(&mut self, op: Op, operands: impl IntoIterator<Item = ValueId>) -> Result<SmallVec<[ValueId; 4]>, GraphError> {
        let node = self.graph.add(op, operands)?;
        Ok((0..self.graph.node(node).outputs.len() as u32).map(|output| ValueId { node, output }).collect())
    }

    /// A constant tensor.
    pub fn constant(&mut self, literal: Literal) -> Built {
        self.op(Op::Constant(literal), [])
    }

    /// A scalar constant converted from `f64`.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> Built {
        self.constant(Literal::scalar_f64(dtype, value))
    }

    /// A scalar constant converted from `i64`.
    pub fn scalar_int(&mut self, dtype: DType, value: i64) -> Built {
        self.constant(Literal::scalar_i64(dtype, value))
    }

    /// A tensor filled with `value`.
    pub fn full(&mut self, dtype: DType, dims: &[i64], value: f64) -> Built {
        let s = self.scalar(dtype, value)?;
        self.broadcast_in_dim(s, dims, &[])
    }

    /// A tensor filled with an integer.
    pub fn full_int(&mut self, dtype: DType, dims: &[i64], value: i64) -> Built {
        let s = self.scalar_int(dtype, value)?;
        self.broadcast_in_dim(s, dims, &[])
    }

    /// A tensor of `like`'s type filled with `value`.
    pub fn full_like(&mut self, like: ValueId, value: f64) -> Built {
        let ty = self.ty(like).clone();
        self.full(ty.dtype, &ty.dims, value)
    }

    /// 0, 1, 2... along `axis`.
    pub fn iota(&mut self, dtype: DType, dims: &[i64], axis: usize) -> Built {
        self.op(Op::Iota { ty: TensorType::new(dtype, dims.iter().copied()), axis }, [])
    }

    /// An elementwise op of one operand.
    pub fn unary(&mut self, u: UnaryOp, x: ValueId) -> Built {
        self.op(Op::Unary(u), [x])
    }

    /// An elementwise op of two operands of equal type.
    pub fn binary(&mut self, b: BinaryOp, x: ValueId, y: ValueId) -> Built {
        self.op(Op::Binary(b), [x, y])
    }

    /// Sum of two operands of equal type.
    pub fn add(&mut self, x: ValueId, y: ValueId) -> Built {
        self.binary(BinaryOp::Add, x, y)
    }

    /// Difference of two operands of equal type.
    pub fn sub(&mut self, x: ValueId, y: ValueId) -> Built {
        self.binary(BinaryOp::Sub, x, y)
    }

    /// Product of two operands of equal type.
    pub fn mul(&mut self, x: ValueId, y: ValueId) -> Built {
        self.binary(BinaryOp::Mul, x, y)
    }

    /// Quotient of two operands of equal type.
    pub fn div(&mut self, x: ValueId, y: ValueId) -> Built {
        self.binary(BinaryOp::Div, x, y)
    }

    /// Larger of two operands of equal type.
    pub fn max(&mut self, x: ValueId, y: ValueId) -> Built {
        self.binary(BinaryOp::Max, x, y)
    }

    /// Smaller of two operands of equal type.
    pub fn min(&mut self, x: ValueId, y: ValueId) -> Built {
        self.binary(BinaryOp::Min, x, y)
    }

    /// An elementwise op with a scalar constant on the right.
    pub fn binary_scalar(&mut self, b: BinaryOp, x: ValueId, value: f64) -> Built {
        let y = self.full_like(x, value)?;
        self.binary(b, x, y)
    }

    /// An elementwise op with an integer constant on the right.
    pub fn binary_int(&mut self, b: BinaryOp, x: ValueId, value: i64) -> Built {
        let ty = self.ty(x).clone();
        let y = self.full_int(ty.dtype, &ty.dims, value)?;
        self.binary(b, x, y)
    }

    /// Comparison of two operands of equal type.
    pub fn compare(&mut self, dir: CompareDir, x: ValueId, y: ValueId) -> Built {
        self.op(Op::Compare(dir), [x, y])
    }

    /// Comparison with a constant.
    pub fn compare_scalar(&mut self, dir: CompareDir, x: ValueId, value: f64) -> Built {
        let y = self.full_like(x, value)?;
        self.compare(dir, x, y)
    }

    /// `on_true` where `pred`, else `on_false`; all of equal sizes.
    pub fn select(&mut self, pred: ValueId, on_true: ValueId, on_false: ValueId) -> Built {
        self.op(Op::Select, [pred, on_true, on_false])
    }

    /// Conversion to another element type; nothing if it is that type.
    pub fn convert(&mut self, x: ValueId, to: DType) -> Built {
        if self.dtype(x) == to { Ok(x) } else { self.op(Op::Convert(to), [x]) }
    }

    /// Broadcast with explicit axis map; nothing if it changes nothing.
    pub fn broadcast_in_dim(&mut self, x: ValueId, dims: &[i64], axes: &[usize]) -> Built {
        if !self.keep_no_ops && self.ty(x).dims[..] == *dims && axes.iter().copied().eq(0..dims.len()) {
            return Ok(x);
        }
        self.op(Op::Broadcast { dims: dims.into(), axes: axes.into() }, [x])
    }

    /// Broadcast by PyTorch's rule: axes are aligned at the end, sizes 1 expand.
    pub fn expand(&mut self, x: ValueId, dims: &[i64]) -> Built {
        let rank = self.rank(x);
        let skip = dims.len().saturating_sub(rank);
        let axes: Axes = (skip..skip + rank).collect();
        self.broadcast_in_dim(x, dims, &axes)
    }

    /// Reshape; nothing if the sizes are equal.
    pub fn reshape(&mut self, x: ValueId, dims: &[i64]) -> Built {
        if !self.keep_no_ops && self.ty(x).dims[..] == *dims { Ok(x) } else { self.op(Op::Reshape(dims.into()), [x]) }
    }

    /// Transpose; nothing for the identity.
    pub fn transpose(&mut self, x: ValueId, perm: &[usize]) -> Built {
        if perm.iter().copied().eq(0..self.rank(x)) { Ok(x) } else { self.op(Op::Transpose(perm.into()), [x]) }
    }

    /// Transpose of the last two axes.
    pub fn swap_last(&mut self, x: ValueId) -> Built {
        let n = self.rank(x);
        let mut perm: Axes = (0..n).collect();
        if n >= 2 {
            perm.swap(n - 1, n - 2);
        }
        self.transpose(x, &perm)
    }

    /// An axis of size 1 inserted at `axis`.
    pub fn unsqueeze(&mut self, x: ValueId, axis: usize) -> Built {
        let mut dims = self.dims(x);
        dims.insert(axis, 1);
        self.reshape(x, &dims)
    }

    /// Slice of all axes; nothing if it takes everything.
    pub fn slice(&mut self, x: ValueId, start: &[i64], limit: &[i64], stride: &[i64]) -> Built {
        let whole = !self.keep_no_ops && start.iter().all(|&s| s == 0) && stride.iter().all(|&s| s == 1) && self.ty(x).dims[..] == *limit;
        if whole { Ok(x) } else { self.op(Op::Slice { start: start.into(), limit: limit.into(), stride: stride.into() }, [x]) }
    }

    /// Slice of one axis.
    pub fn slice_axis(&mut self, x: ValueId, axis: usize, start: i64, limit: i64, stride: i64) -> Built {
        let mut limits = self.dims(x);
        let mut starts: Dims = smallvec::smallvec![0; limits.len()];
        let mut strides: Dims = smallvec::smallvec![1; limits.len()];
        (starts[axis], limits[axis], strides[axis]) = (start, limit, stride);
        self.slice(x, &starts, &limits, &strides)
    }

    /// Pad with a scalar; nothing if no axis is padded.
    pub fn pad(&mut self, x: ValueId, value: ValueId, pads: &[PadDim]) -> Built {
        if !self.keep_no_ops && pads.iter().all(|p| *p == PadDim::default()) { Ok(x) } else { self.op(Op::Pad(pads.into()), [x, value]) }
    }

    /// Join along an axis; nothing for one operand.
    pub fn concat(&mut self, xs: &[ValueId], axis: usize) -> Built {
        if let [x] = xs { Ok(*x) } else { self.op(Op::Concat(axis), xs.iter().copied()) }
    }

    /// Reduction of axes (any order), dropping them; nothing for no axes.
    pub fn reduce(&mut self, combiner: Combiner, x: ValueId, axes: &[usize]) -> Built {
        if axes.is_empty() {
            return Ok(x);
        }
        let mut axes: Axes = axes.into();
        axes.sort_unstable();
        self.op(Op::Reduce { combiner, axes }, [x])
    }

    /// Reduction of axes, leaving them with size 1.
    pub fn reduce_keep(&mut self, combiner: Combiner, x: ValueId, axes: &[usize]) -> Built {
        let mut dims = self.dims(x);
        for &a in axes {
            dims[a] = 1;
        }
        let reduced = self.reduce(combiner, x, axes)?;
        self.reshape(reduced, &dims)
    }

    /// General contraction with the given result type.
    pub fn dot_general(&mut self, x: ValueId, y: ValueId, dims: DotDims, out: DType, precision: Precision) -> Built {
        self.op(Op::DotGeneral { dims, out, precision }, [x, y])
    }

    /// Matrix product of the last two axes over equal leading axes.
    pub fn matmul(&mut self, x: ValueId, y: ValueId, precision: Precision) -> Built {
        let n = self.rank(x);
        let batch: Axes = (0..n.saturating_sub(2)).collect();
        let dims = DotDims {
            lhs_batch: batch.clone(),
            rhs_batch: batch,
            lhs_contract: smallvec::smallvec![n.saturating_sub(1)],
            rhs_contract: smallvec::smallvec![n.saturating_sub(2)],
        };
        let out = self.dtype(x);
        self.dot_general(x, y, dims, out, precision)
    }
}

/// Result sizes of broadcasting two size lists by PyTorch's rule; `None` when they do not broadcast.
pub fn broadcast_dims(x: &[i64], y: &[i64]) -> Option<Dims> {
    let n = x.len().max(y.len());
    let at = |d: &[i64], i: usize| (i + d.len()).checked_sub(n).map_or(1, |j| d[j]);
    (0..n)
        .map(|i| match (at(x, i), at(y, i)) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            _ => None,
        })
        .collect()
}
