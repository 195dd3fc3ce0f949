//! Joining, repeating, reordering and padding.

use clutch_graph::op::PadDim;
use clutch_graph::{Dims, Op, ValueId};

use super::helpers::{Scalar, cast, filled, opt_scalar};
use super::table::Family;
use super::view::axis_list;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.cat.default", cat),
    ("aten.concat.default", cat),
    ("prims.cat.default", cat),
    ("aten.stack.default", stack),
    ("aten.repeat.default", repeat),
    ("aten.tile.default", repeat),
    ("aten.flip.default", flip),
    ("prims.rev.default", flip),
    ("aten.rot90.default", rot90),
    ("aten.roll.default", roll),
    ("aten.constant_pad_nd.default", constant_pad),
    ("aten.reflection_pad1d.default", |l, c| edge_pad(l, c, true)),
    ("aten.reflection_pad2d.default", |l, c| edge_pad(l, c, true)),
    ("aten.reflection_pad3d.default", |l, c| edge_pad(l, c, true)),
    ("aten.replication_pad1d.default", |l, c| edge_pad(l, c, false)),
    ("aten.replication_pad2d.default", |l, c| edge_pad(l, c, false)),
    ("aten.replication_pad3d.default", |l, c| edge_pad(l, c, false)),
    ("aten.reflection_pad1d_backward.default", |l, c| edge_pad_backward(l, c, true)),
    ("aten.reflection_pad2d_backward.default", |l, c| edge_pad_backward(l, c, true)),
    ("aten.reflection_pad3d_backward.default", |l, c| edge_pad_backward(l, c, true)),
    ("aten.replication_pad1d_backward.default", |l, c| edge_pad_backward(l, c, false)),
    ("aten.replication_pad2d_backward.default", |l, c| edge_pad_backward(l, c, false)),
    ("aten.replication_pad3d_backward.default", |l, c| edge_pad_backward(l, c, false)),
];

type Built = Result<ValueId, LowerError>;

fn cat(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let tensors = c.tensors(l, 0, "tensors")?;
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let axis = c.axis_or(l, 1, "dim", out.len(), 0)?;
    let mut parts = Vec::with_capacity(tensors.len());
    for x in tensors {
        let dims = l.b.dims(x);
        if dims[..] == [0] && out.len() != 1 || dims.get(axis) == Some(&0) && out.len() == dims.len() {
            continue;
        }
        parts.push(cast(l, x, dtype)?);
    }
    one(if parts.is_empty() { filled(l, Scalar::Int(0), dtype, &out)? } else { l.b.concat(&parts, axis)? })
}

fn stack(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let tensors = c.tensors(l, 0, "tensors")?;
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let axis = c.axis_or(l, 1, "dim", out.len(), 0)?;
    let mut parts = Vec::with_capacity(tensors.len());
    for x in tensors {
        let x = cast(l, x, dtype)?;
        parts.push(l.b.unsqueeze(x, axis)?);
    }
    one(l.b.concat(&parts, axis)?)
}

fn repeat(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let mut repeats = c.ints(l, 1, "repeats")?;
    let (mut dims, out) = (l.b.dims(x), c.out_dims(l)?);
    while dims.len() < out.len() {
        dims.insert(0, 1);
    }
    while repeats.len() < out.len() {
        repeats.insert(0, 1);
    }
    let (mut wide, mut narrow, mut axes) = (Dims::new(), Dims::new(), Vec::new());
    for (&d, &r) in dims.iter().zip(&repeats) {
        if d == 1 {
            axes.push(wide.len());
            narrow.push(1);
            wide.push(r);
            continue;
        }
        if r != 1 {
            wide.push(r);
        }
        axes.push(wide.len());
        narrow.push(d);
        wide.push(d);
    }
    let x = l.b.reshape(x, &narrow)?;
    let x = l.b.broadcast_in_dim(x, &wide, &axes)?;
    one(l.b.reshape(x, &out)?)
}

fn flip(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let rank = l.b.rank(x);
    if rank == 0 {
        return one(x);
    }
    let axes = axis_list(l, c, 1, "dims", rank)?;
    one(reverse(l, x, &axes)?)
}

fn reverse(l: &mut Lowering<'_>, x: ValueId, axes: &[usize]) -> Built {
    let mut axes: clutch_graph::op::Axes = axes.into();
    axes.sort_unstable();
    axes.dedup();
    Ok(if axes.is_empty() { x } else { l.b.op(Op::Reverse(axes), [x])? })
}

fn rot90(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let rank = l.b.rank(x);
    let turns = c.int_or(l, 1, "k", 1)?.rem_euclid(4);
    let axes = match c.opt_ints(l, 2, "dims")? {
        Some(_) => axis_list(l, c, 2, "dims", rank)?,
        None => smallvec::smallvec![0, 1],
    };
    let [a, b] = axes[..] else { return Err(LowerError::Argument { index: 2, name: "dims", expected: "two axes" }) };
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(a, b);
    one(match turns {
        1 => {
            let x = reverse(l, x, &[b])?;
            l.b.transpose(x, &perm)?
        }
        2 => reverse(l, x, &[a, b])?,
        3 => {
            let x = reverse(l, x, &[a])?;
            l.b.transpose(x, &perm)?
        }
        _ => x,
    })
}

fn roll(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let shifts = c.ints(l, 1, "shifts")?;
    let dims = l.b.dims(x);
    if dims.contains(&0) {
        return one(x);
    }
    let axes = match c.opt_ints(l, 2, "dims")? {
        Some(given) if !given.is_empty() => axis_list(l, c, 2, "dims", dims.len())?,
        _ => {
            let count: i64 = dims.iter().product();
            let flat = l.b.reshape(x, &[count])?;
            let rolled = roll_axis(l, flat, 0, shifts.first().copied().unwrap_or(0))?;
            return one(l.b.reshape(rolled, &dims)?);
        }
    };
    let mut x = x;
    for (&axis, &shift) in axes.iter().zip(&shifts) {
        if !dims.is_empty() {
            x = roll_axis(l, x, axis, shift)?;
        }
    }
    one(x)
}

fn roll_axis(l: &mut Lowering<'_>, x: ValueId, axis: usize, shift: i64) -> Built {
    let size = l.b.dims(x)[axis];
    let cut = (-shift).rem_euclid(size);
    if cut == 0 {
        return Ok(x);
    }
    let tail = l.b.slice_axis(x, axis, cut, size, 1)?;
    let head = l.b.slice_axis(x, axis, 0, cut, 1)?;
    Ok(l.b.concat(&[tail, head], axis)?)
}

/// (low, high) padding of each axis from PyTorch's list, which starts at the last axis.
fn padding(l: &Lowering<'_>, c: &Call<'_>, index: usize, rank: usize) -> Result<Vec<(i64, i64)>, LowerError> {
    let flat = c.ints(l, index, "pad")?;
    if flat.len() % 2 != 0 || flat.len() / 2 > rank {
        return Err(LowerError::Argument { index, name: "pad", expected: "two numbers for each of the last axes" });
    }
    let mut pads = vec![(0, 0); rank];
    for (i, pair) in flat.chunks_exact(2).enumerate() {
        pads[rank - 1 - i] = (pair[0], pair[1]);
    }
    Ok(pads)
}

fn constant_pad(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let pads = padding(l, c, 1, l.b.rank(x))?;
    let value = opt_scalar(l, c, 2, "value")?.unwrap_or(Scalar::Int(0));
    let value = l.b.constant(value.literal(l.b.dtype(x)))?;
    let pads: Vec<PadDim> = pads.iter().map(|&(low, high)| PadDim { low, high, interior: 0 }).collect();
    one(l.b.pad(x, value, &pads)?)
}

/// Padding that mirrors the elements next to the edge, or repeats the edge element.
fn edge_pad(l: &mut Lowering<'_>, c: &Call<'_>, mirror: bool) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let pads = padding(l, c, 1, l.b.rank(x))?;
    let mut x = x;
    for (axis, &(low, high)) in pads.iter().enumerate() {
        let (low_crop, high_crop) = (low.min(0), high.min(0));
        let n = l.b.dims(x)[axis];
        let mut parts = Vec::with_capacity(3);
        let band = |l: &mut Lowering<'_>, from: i64, count: i64| -> Built {
            if mirror {
                let part = l.b.slice_axis(x, axis, from, from + count, 1)?;
                return reverse(l, part, &[axis]);
            }
            let mut dims = l.b.dims(x);
            dims[axis] = count;
            let axes: Vec<usize> = (0..dims.len()).collect();
            let part = l.b.slice_axis(x, axis, from, from + 1, 1)?;
            Ok(l.b.broadcast_in_dim(part, &dims, &axes)?)
        };
        if low > 0 {
            let from = if mirror { 1 } else { 0 };
            parts.push(band(l, from, low)?);
        }
        parts.push(l.b.slice_axis(x, axis, -low_crop, n + high_crop, 1)?);
        if high > 0 {
            let from = if mirror { n - 1 - high } else { n - 1 };
            parts.push(band(l, from, high)?);
        }
        x = l.b.concat(&parts, axis)?;
    }
    one(x)
}

fn edge_pad_backward(l: &mut Lowering<'_>, c: &Call<'_>, mirror: bool) -> Result<Outputs, LowerError> {
    let grad = c.tensor(l, 0, "grad_output")?;
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let pads = padding(l, c, 2, out.len())?;
    let mut grad = cast(l, grad, dtype.compute_type())?;
    for (axis, &(low, high)) in pads.iter().enumerate() {
        if low == 0 && high == 0 {
            continue;
        }
        let (n, wide) = (out[axis], l.b.dims(grad)[axis]);
        let zero = l.b.scalar_int(l.b.dtype(grad), 0)?;
        let at = |l: &mut Lowering<'_>, part: ValueId, start: i64| -> Built {
            let mut pads = vec![PadDim::default(); out.len()];
            let count = l.b.dims(part)[axis];
            pads[axis] = PadDim { low: start, high: n - start - count, interior: 0 };
            Ok(l.b.pad(part, zero, &pads)?)
        };
        let band = |l: &mut Lowering<'_>, from: i64, count: i64| -> Built {
            let part = l.b.slice_axis(grad, axis, from, from + count, 1)?;
            if mirror { reverse(l, part, &[axis]) } else { Ok(l.b.reduce_keep(clutch_graph::op::Combiner::Add, part, &[axis])?) }
        };
        let middle = l.b.slice_axis(grad, axis, low.max(0), wide - high.max(0), 1)?;
        let mut sum = at(l, middle, -low.min(0))?;
        if low > 0 {
            let part = band(l, 0, low)?;
            let part = at(l, part, if mirror { 1 } else { 0 })?;
            sum = l.b.add(sum, part)?;
        }
        if high > 0 {
            let part = band(l, wide - high, high)?;
            let part = at(l, part, if mirror { n - 1 - high } else { n - 1 })?;
            sum = l.b.add(sum, part)?;
        }
        grad = sum;
    }
    one(cast(l, grad, dtype)?)
}
