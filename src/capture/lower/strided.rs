//! `as_strided` and its scatter, over the elements in memory order.

use clutch_graph::op::{Axes, BinaryOp, Combiner, PadDim, ScatterDims};
use clutch_graph::{DType, Dims, Op, ValueId};

use super::helpers::{Scalar, cast, filled, take_axis};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};
use crate::capture::layout::{dense_order, inverse_order};
use crate::capture::program::{Arg, ValueRef};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.as_strided.default", as_strided),
    ("aten.as_strided_copy.default", as_strided),
    ("aten.as_strided_scatter.default", as_strided_scatter),
];

type Built = Result<ValueId, LowerError>;

/// Sizes, strides and offset of a view of a flat buffer, in elements.
struct Strided {
    dims: Dims,
    strides: Dims,
    offset: i64,
}

impl Strided {
    /// Arguments at `first` and after, checked against a buffer of `count` elements.
    fn read(l: &Lowering<'_>, c: &Call<'_>, first: usize, count: i64) -> Result<Self, LowerError> {
        let (dims, strides) = (c.ints(l, first, "size")?, c.ints(l, first + 1, "stride")?);
        let offset = c.int_or(l, first + 2, "storage_offset", 0)?;
        if strides.len() != dims.len() || strides.iter().any(|&s| s < 0) || offset < 0 {
            return Err(LowerError::Argument { index: first + 1, name: "stride", expected: "one non-negative stride per size" });
        }
        let view = Strided { dims, strides, offset };
        if !view.dims.contains(&0) && view.last().is_none_or(|last| last >= count) {
            return Err(LowerError::unsupported("the strided view reaches past the tensor that it is taken of"));
        }
        Ok(view)
    }

    /// Largest position that is read.
    fn last(&self) -> Option<i64> {
        self.dims.iter().zip(&self.strides).try_fold(self.offset, |sum, (&d, &s)| sum.checked_add((d - 1).checked_mul(s)?))
    }

    /// Axes that move through memory, largest stride first, when each nests inside the one before.
    fn nested(&self) -> Option<Axes> {
        let mut axes: Axes = (0..self.dims.len()).filter(|&a| self.dims[a] > 1 && self.strides[a] > 0).collect();
        axes.sort_by_key(|&a| std::cmp::Reverse(self.strides[a]));
        let fits = |outer: usize, inner: usize| {
            self.strides[outer] % self.strides[inner] == 0 && self.dims[inner] * self.strides[inner] <= self.strides[outer]
        };
        axes.windows(2).all(|w| fits(w[0], w[1])).then_some(axes)
    }

    /// Positions of all elements, row-major, as a rank-1 tensor.
    fn positions(&self, l: &mut Lowering<'_>) -> Built {
        let mut sum = l.b.full_int(DType::S64, &self.dims, self.offset)?;
        for (a, &s) in self.strides.iter().enumerate() {
            if s > 0 && self.dims[a] > 1 {
                let i = l.b.iota(DType::S64, &self.dims, a)?;
                let i = l.b.binary_int(BinaryOp::Mul, i, s)?;
                sum = l.b.add(sum, i)?;
            }
        }
        let count: i64 = self.dims.iter().product();
        Ok(l.b.reshape(sum, &[count])?)
    }

    /// The view of a rank-1 buffer: reshapes and slices where the axes nest, a gather otherwise.
    fn of(&self, l: &mut Lowering<'_>, flat: ValueId) -> Built {
        if self.dims.contains(&0) {
            return filled(l, Scalar::Int(0), l.b.dtype(flat), &self.dims);
        }
        let Some(order) = self.nested() else {
            let positions = self.positions(l)?;
            let taken = take_axis(l, flat, 0, positions)?;
            return Ok(l.b.reshape(taken, &self.dims)?);
        };
        let Some(&outer) = order.first() else {
            let element = l.b.slice_axis(flat, 0, self.offset, self.offset + 1, 1)?;
            let element = l.b.reshape(element, &[])?;
            return Ok(l.b.broadcast_in_dim(element, &self.dims, &[])?);
        };
        let (count, span) = (l.b.dims(flat)[0], self.dims[outer] * self.strides[outer]);
        let end = count.min(self.offset + span);
        let part = l.b.slice_axis(flat, 0, self.offset, end, 1)?;
        let zero = l.b.scalar_int(l.b.dtype(flat), 0)?;
        let mut x = l.b.pad(part, zero, &[PadDim { low: 0, high: self.offset + span - end, interior: 0 }])?;
        let mut shape = Dims::new();
        for &a in &order {
            let stride = self.strides[a];
            let mut split = shape.clone();
            split.extend([l.b.ty(x).numel() / shape.iter().product::<i64>() / stride, stride]);
            x = l.b.reshape(x, &split)?;
            x = l.b.slice_axis(x, shape.len(), 0, self.dims[a], 1)?;
            shape.push(self.dims[a]);
        }
        x = l.b.slice_axis(x, shape.len(), 0, 1, 1)?;
        x = l.b.reshape(x, &shape)?;
        let mut axes = order.clone();
        axes.sort_unstable();
        let perm: Axes = axes.iter().filter_map(|a| order.iter().position(|o| o == a)).collect();
        x = l.b.transpose(x, &perm)?;
        Ok(l.b.broadcast_in_dim(x, &self.dims, &axes)?)
    }
}

/// The tensor's elements in memory order as a rank-1 value, and its axes major to minor.
fn in_memory(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<(ValueId, Axes), LowerError> {
    let Some(Arg::Value(reference)) = c.arg(0, "self") else {
        return Err(LowerError::Argument { index: 0, name: "self", expected: "a tensor" });
    };
    owns_its_memory(l, *reference)?;
    let x = l.value(*reference)?;
    let dims = l.b.dims(x);
    let strides = match l.meta(*reference) {
        Some(meta) => l.sizes(&meta.strides)?,
        None => Dims::new(),
    };
    let Some(order) = dense_order(&dims, &strides) else {
        return Err(LowerError::unsupported("a strided view of a tensor whose memory has gaps or overlaps"));
    };
    let stored = l.b.transpose(x, &order)?;
    let count: i64 = dims.iter().product();
    Ok((l.b.reshape(stored, &[count])?, order))
}

/// A view of a part does not know the memory around it, which a strided view may reach.
fn owns_its_memory(l: &Lowering<'_>, mut reference: ValueRef) -> Result<(), LowerError> {
    const PARTS: [&str; 11] =
        ["slice", "select", "split", "split_with_sizes", "unbind", "narrow", "as_strided", "diagonal", "unfold", "expand", "chunk"];
    const WHOLE: [&str; 10] =
        ["view", "_unsafe_view", "permute", "transpose", "t", "squeeze", "unsqueeze", "alias", "detach", "_reshape_alias"];
    while let ValueRef::Node(n, _) = reference {
        let program = l.program();
        let node = &program.nodes[n as usize];
        let name = program.target(node).split('.').nth(1).unwrap_or_default();
        if PARTS.contains(&name) {
            return Err(LowerError::unsupported("a strided view of a view of a part of a tensor"));
        }
        match node.args.first() {
            Some(Arg::Value(base)) if WHOLE.contains(&name) => reference = *base,
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn as_strided(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (flat, _) = in_memory(l, c)?;
    let view = Strided::read(l, c, 1, l.b.dims(flat)[0])?;
    one(view.of(l, flat)?)
}

fn as_strided_scatter(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (flat, order) = in_memory(l, c)?;
    let src = c.tensor(l, 1, "src")?;
    let src = cast(l, src, l.b.dtype(flat))?;
    let view = Strided::read(l, c, 2, l.b.dims(flat)[0])?;
    let out = c.out_dims(l)?;
    let stored: Dims = order.iter().map(|&a| out[a]).collect();
    let mut written = flat;
    if !view.dims.contains(&0) {
        let positions = view.positions(l)?;
        let count: i64 = view.dims.iter().product();
        let updates = l.b.reshape(src, &[count])?;
        let dims = ScatterDims {
            update_window_dims: Axes::new(),
            inserted_window_dims: smallvec::smallvec![0],
            scatter_dims_to_operand_dims: smallvec::smallvec![0],
            index_vector_dim: 1,
            unique: view.nested().is_some() && view.strides.iter().zip(&view.dims).all(|(&s, &d)| s > 0 || d == 1),
        };
        written = l.b.op(Op::Scatter { combiner: Combiner::Assign, dims: Box::new(dims) }, [flat, positions, updates])?;
    }
    let x = l.b.reshape(written, &stored)?;
    one(l.b.transpose(x, &inverse_order(&order))?)
}
