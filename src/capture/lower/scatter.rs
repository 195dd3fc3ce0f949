//! Gathers and scatters along one axis.

use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, GatherDims, ScatterDims};
use clutch_graph::{DType, Dims, Op, ValueId};

use super::helpers::{Operand, Scalar, cast, extreme, filled, operand, place, scalar};
use super::index::{combiner_of, flat, put_along, take_along, wrap};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.gather.default", gather),
    ("aten.scatter.src", |l, c| scatter(l, c, Combiner::Assign)),
    ("aten.scatter.value", |l, c| scatter(l, c, Combiner::Assign)),
    ("aten.scatter.reduce", scatter_named),
    ("aten.scatter.value_reduce", scatter_named),
    ("aten.scatter_add.default", |l, c| scatter(l, c, Combiner::Add)),
    ("aten.scatter_reduce.two", scatter_reduce),
    ("aten.index_add.default", index_add),
    ("aten.index_copy.default", index_copy),
    ("aten.index_fill.int_Scalar", index_fill),
    ("aten.index_fill.int_Tensor", index_fill),
    ("aten.index_reduce.default", index_reduce),
    ("aten.masked_scatter.default", masked_scatter),
    ("aten.masked_scatter_backward.default", masked_scatter_backward),
];

type Built = Result<ValueId, LowerError>;

/// The tensor with at least one axis.
fn with_axis(l: &mut Lowering<'_>, x: ValueId) -> Built {
    if l.b.rank(x) == 0 { Ok(l.b.reshape(x, &[1])?) } else { Ok(x) }
}

/// For each element of an index tensor the position of the element it names: `S64` vectors over the axes that vary.
pub(super) struct Elements {
    /// Axes that the vectors select; the others have position 0.
    axes: Axes,
    /// Vectors, components last.
    vectors: ValueId,
    rank: usize,
}

impl Elements {
    /// Positions `index` along `axis` of a tensor of the given sizes, and the element's own along the other axes.
    pub(super) fn new(l: &mut Lowering<'_>, index: ValueId, axis: usize, dims: &[i64]) -> Result<Self, LowerError> {
        let given = l.b.dims(index);
        let rank = given.len();
        let axes: Axes = (0..rank).filter(|&a| a == axis || given[a] != 1).collect();
        let mut columns = Vec::with_capacity(axes.len());
        for &a in &axes {
            let column = if a == axis { wrap(l, index, dims[axis])? } else { l.b.iota(DType::S64, &given, a)? };
            columns.push(l.b.unsqueeze(column, rank)?);
        }
        Ok(Elements { axes, vectors: l.b.concat(&columns, rank)?, rank })
    }

    /// The elements of `x`.
    pub(super) fn gather(&self, l: &mut Lowering<'_>, x: ValueId) -> Built {
        let dims = GatherDims {
            offset_dims: Axes::new(),
            collapsed_slice_dims: (0..self.rank).collect(),
            start_index_map: self.axes.clone(),
            index_vector_dim: self.rank,
            slice_sizes: smallvec::smallvec![1; self.rank],
            in_bounds: false,
        };
        Ok(l.b.op(Op::Gather(Box::new(dims)), [x, self.vectors])?)
    }

    /// `x` with the updates combined into the elements.
    pub(super) fn scatter(&self, l: &mut Lowering<'_>, x: ValueId, updates: ValueId, combiner: Combiner) -> Built {
        let dims = ScatterDims {
            update_window_dims: Axes::new(),
            inserted_window_dims: (0..self.rank).collect(),
            scatter_dims_to_operand_dims: self.axes.clone(),
            index_vector_dim: self.rank,
            unique: false,
        };
        let combiner = combiner_of(combiner, l.b.dtype(x));
        Ok(l.b.op(Op::Scatter { combiner, dims: Box::new(dims) }, [x, self.vectors, updates])?)
    }
}

fn gather(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, index) = (c.tensor(l, 0, "self")?, c.tensor(l, 2, "index")?);
    let out = c.out_dims(l)?;
    let (x, index) = (with_axis(l, x)?, with_axis(l, index)?);
    let dims = l.b.dims(x);
    let axis = c.axis(l, 1, "dim", dims.len())?;
    if out.contains(&0) || dims.contains(&0) {
        return one(filled(l, Scalar::Int(0), l.b.dtype(x), &out)?);
    }
    let elements = Elements::new(l, index, axis, &dims)?;
    let taken = elements.gather(l, x)?;
    one(l.b.reshape(taken, &out)?)
}

/// Where a scatter writes: the base with an axis, the elements, and the updates cut to the index.
struct Target {
    base: ValueId,
    out: Dims,
    /// The elements and the updates; `None` when nothing is written.
    writes: Option<(Elements, ValueId)>,
}

fn target(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Target, LowerError> {
    let (base, index) = (c.tensor(l, 0, "self")?, c.tensor(l, 2, "index")?);
    let source = operand(l, c, 3, "src")?;
    let (dtype, out) = (l.b.dtype(base), l.b.dims(base));
    let (base, index) = (with_axis(l, base)?, with_axis(l, index)?);
    let (dims, given) = (l.b.dims(base), l.b.dims(index));
    let axis = c.axis(l, 1, "dim", dims.len())?;
    if given.contains(&0) || dims.contains(&0) {
        return Ok(Target { base, out, writes: None });
    }
    let updates = match source {
        Operand::Tensor(t) => {
            let t = with_axis(l, t)?;
            let (zeros, steps): (Dims, Dims) = (smallvec::smallvec![0; given.len()], smallvec::smallvec![1; given.len()]);
            let part = l.b.slice(t, &zeros, &given, &steps)?;
            cast(l, part, dtype)?
        }
        number => place(l, number, dtype, &given)?,
    };
    let elements = Elements::new(l, index, axis, &dims)?;
    Ok(Target { base, out, writes: Some((elements, updates)) })
}

fn scatter(l: &mut Lowering<'_>, c: &Call<'_>, combiner: Combiner) -> Result<Outputs, LowerError> {
    let t = target(l, c)?;
    let Some((elements, updates)) = t.writes else { return one(l.b.reshape(t.base, &t.out)?) };
    let result = elements.scatter(l, t.base, updates, combiner)?;
    one(l.b.reshape(result, &t.out)?)
}

fn scatter_named(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    match c.opt_str(usize::MAX, "reduce")? {
        Some("add") => scatter(l, c, Combiner::Add),
        Some("multiply") => scatter(l, c, Combiner::Mul),
        _ => Err(LowerError::Argument { index: 4, name: "reduce", expected: "add or multiply" }),
    }
}

/// A reduction by name.
#[derive(Clone, Copy)]
struct Reduction {
    combiner: Combiner,
    mean: bool,
}

impl Reduction {
    fn read(c: &Call<'_>, index: usize) -> Result<Self, LowerError> {
        let (combiner, mean) = match c.opt_str(index, "reduce")? {
            Some("sum") => (Combiner::Add, false),
            Some("mean") => (Combiner::Add, true),
            Some("prod") => (Combiner::Mul, false),
            Some("amax") => (Combiner::Max, false),
            Some("amin") => (Combiner::Min, false),
            _ => return Err(LowerError::Argument { index, name: "reduce", expected: "sum, prod, mean, amax or amin" }),
        };
        Ok(Reduction { combiner, mean })
    }

    fn identity(self, dtype: DType) -> Scalar {
        match self.combiner {
            Combiner::Mul => Scalar::Int(1),
            Combiner::Max => extreme(dtype, false),
            Combiner::Min => extreme(dtype, true),
            _ => Scalar::Int(0),
        }
    }

    /// Reduces updates into `base`, in the compute type; `write` scatters updates into a tensor of the base's sizes. Elements that no
    /// update meets keep the base's value; without `include_self` the base's value enters no other.
    fn apply<F>(self, l: &mut Lowering<'_>, base: ValueId, updates: ValueId, include_self: bool, mut write: F) -> Built
    where
        F: FnMut(&mut Lowering<'_>, ValueId, ValueId, Combiner) -> Built,
    {
        let (dtype, dims, given) = (l.b.dtype(base), l.b.dims(base), l.b.dims(updates));
        let compute = dtype.compute_type();
        let (start, updates) = (cast(l, base, compute)?, cast(l, updates, compute)?);
        let mut wide = start;
        if !include_self {
            let (nowhere, there) =
                (filled(l, Scalar::Bool(false), DType::Pred, &dims)?, filled(l, Scalar::Bool(true), DType::Pred, &given)?);
            let touched = write(l, nowhere, there, Combiner::Assign)?;
            let identity = filled(l, self.identity(compute), compute, &dims)?;
            wide = l.b.select(touched, identity, start)?;
        }
        let mut result = write(l, wide, updates, self.combiner)?;
        if self.mean {
            let first = filled(l, Scalar::Int(i64::from(include_self)), compute, &dims)?;
            let each = filled(l, Scalar::Int(1), compute, &given)?;
            let count = write(l, first, each, Combiner::Add)?;
            let one = l.b.full_like(count, 1.0)?;
            let count = l.b.max(count, one)?;
            result = mean(l, result, count)?;
        }
        cast(l, result, dtype)
    }
}

/// The quotient by a positive count, rounded down for integers.
fn mean(l: &mut Lowering<'_>, sum: ValueId, count: ValueId) -> Built {
    let quotient = l.b.div(sum, count)?;
    if !l.b.dtype(sum).is_int() {
        return Ok(quotient);
    }
    let rest = l.b.binary(BinaryOp::Rem, sum, count)?;
    let zero = l.b.full_like(rest, 0.0)?;
    let below = l.b.compare(CompareDir::Lt, rest, zero)?;
    let lower = l.b.binary_int(BinaryOp::Sub, quotient, 1)?;
    Ok(l.b.select(below, lower, quotient)?)
}

fn scatter_reduce(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let reduction = Reduction::read(c, 4)?;
    let include_self = c.bool_or(5, "include_self", true)?;
    let t = target(l, c)?;
    let Some((elements, updates)) = t.writes else { return one(l.b.reshape(t.base, &t.out)?) };
    let write = |l: &mut Lowering<'_>, x, u, combiner| elements.scatter(l, x, u, combiner);
    let result = reduction.apply(l, t.base, updates, include_self, write)?;
    one(l.b.reshape(result, &t.out)?)
}

/// A base and a source along an axis, with the positions that the source's entries go to.
struct Entries {
    base: ValueId,
    axis: usize,
    positions: ValueId,
    source: ValueId,
    out: Dims,
}

impl Entries {
    fn read(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Self, LowerError> {
        let (base, index) = (c.tensor(l, 0, "self")?, c.tensor(l, 2, "index")?);
        let source = operand(l, c, 3, "source")?;
        let (dtype, out) = (l.b.dtype(base), l.b.dims(base));
        let base = with_axis(l, base)?;
        let axis = c.axis(l, 1, "dim", l.b.rank(base))?;
        let index = flat(l, index)?;
        let mut dims = l.b.dims(base);
        let positions = wrap(l, index, dims[axis])?;
        dims[axis] = l.b.ty(index).numel();
        let source = match source {
            Operand::Tensor(t) if l.b.ty(t).numel() == dims.iter().product::<i64>() => {
                let t = cast(l, t, dtype)?;
                l.b.reshape(t, &dims)?
            }
            other => place(l, other, dtype, &dims)?,
        };
        Ok(Entries { base, axis, positions, source, out })
    }

    fn put(&self, l: &mut Lowering<'_>, x: ValueId, updates: ValueId, combiner: Combiner) -> Built {
        put_along(l, x, self.axis, self.positions, updates, combiner)
    }

    fn finish(&self, l: &mut Lowering<'_>, combiner: Combiner) -> Result<Outputs, LowerError> {
        let result = self.put(l, self.base, self.source, combiner)?;
        one(l.b.reshape(result, &self.out)?)
    }
}

fn index_add(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let mut e = Entries::read(l, c)?;
    if c.kwarg("alpha").is_some() {
        let alpha = scalar(l, c, usize::MAX, "alpha")?;
        let (dtype, dims) = (l.b.dtype(e.source), l.b.dims(e.source));
        if alpha.as_exact_int() != Some(1) {
            let factor = filled(l, alpha, dtype, &dims)?;
            e.source = l.b.mul(e.source, factor)?;
        }
    }
    e.finish(l, Combiner::Add)
}

fn index_copy(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    Entries::read(l, c)?.finish(l, Combiner::Assign)
}

fn index_fill(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    Entries::read(l, c)?.finish(l, Combiner::Assign)
}

fn index_reduce(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let reduction = Reduction::read(c, 4)?;
    let include_self = c.bool_or(5, "include_self", true)?;
    let e = Entries::read(l, c)?;
    let result = reduction.apply(l, e.base, e.source, include_self, |l, x, u, combiner| e.put(l, x, u, combiner))?;
    one(l.b.reshape(result, &e.out)?)
}

/// For each place of a flat mask how many true places come before it.
fn rank_in_mask(l: &mut Lowering<'_>, mask: ValueId) -> Built {
    let count = cast(l, mask, DType::S64)?;
    let running = l.b.op(Op::Cumulative { combiner: Combiner::Add, axis: 0 }, [count])?;
    Ok(l.b.binary_int(BinaryOp::Sub, running, 1)?)
}

fn masked_scatter(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, mask, source) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mask")?, c.tensor(l, 2, "source")?);
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let (x, mask) = (l.b.expand(x, &out)?, l.b.expand(mask, &out)?);
    if l.b.ty(source).numel() == 0 || out.contains(&0) {
        return one(x);
    }
    let row = flat(l, mask)?;
    let positions = rank_in_mask(l, row)?;
    let source = flat(l, source)?;
    let source = cast(l, source, dtype)?;
    let taken = take_along(l, source, 0, positions)?;
    let taken = l.b.reshape(taken, &out)?;
    one(l.b.select(mask, taken, x)?)
}

/// Masked elements of the gradient, in order, in front of zeros.
fn masked_scatter_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (grad, mask) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "mask")?);
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let count: i64 = out.iter().product();
    let mask = l.b.expand(mask, &l.b.dims(grad))?;
    let (grad, mask) = (flat(l, grad)?, flat(l, mask)?);
    let zeros = filled(l, Scalar::Int(0), dtype, &[count])?;
    if l.b.ty(grad).numel() == 0 {
        return one(l.b.reshape(zeros, &out)?);
    }
    let positions = rank_in_mask(l, mask)?;
    let nowhere = l.b.full_int(DType::S64, &l.b.dims(positions), count)?;
    let positions = l.b.select(mask, positions, nowhere)?;
    let taken = put_along(l, zeros, 0, positions, grad, Combiner::Assign)?;
    one(l.b.reshape(taken, &out)?)
}
