//! Views that keep every element: other sizes, orders of axes and expansion. Sizes of views and of their copies are what PyTorch says.

use clutch_graph::op::Axes;

use super::call::normalize_axis;
use super::helpers::fit;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.view.default", reshape),
    ("aten.view_copy.default", reshape),
    ("aten._unsafe_view.default", reshape),
    ("aten.reshape.default", reshape),
    ("aten._reshape_alias.default", reshape),
    ("aten._reshape_copy.default", reshape),
    ("aten._reshape_alias_copy.default", reshape),
    ("aten.view_as.default", reshape),
    ("aten.flatten.using_ints", reshape),
    ("aten.unflatten.int", reshape),
    ("aten.ravel.default", reshape),
    ("aten.squeeze.default", reshape),
    ("aten.squeeze.dim", reshape),
    ("aten.squeeze.dims", reshape),
    ("aten.squeeze_copy.default", reshape),
    ("aten.squeeze_copy.dim", reshape),
    ("aten.squeeze_copy.dims", reshape),
    ("aten.unsqueeze.default", reshape),
    ("aten.unsqueeze_copy.default", reshape),
    ("aten.alias.default", reshape),
    ("aten.alias_copy.default", reshape),
    ("aten.detach.default", reshape),
    ("aten.detach_copy.default", reshape),
    ("prims.view_of.default", reshape),
    ("prims.collapse_view.default", reshape),
    ("prims.split_dim.default", reshape),
    ("prims.squeeze.default", reshape),
    ("prims.reshape.default", reshape),
    ("aten.expand.default", expand),
    ("aten.expand_copy.default", expand),
    ("aten.expand_as.default", expand),
    ("aten.broadcast_to.default", expand),
    ("prims.broadcast_in_dim.default", broadcast_in_dim),
    ("aten.permute.default", permute),
    ("aten.permute_copy.default", permute),
    ("prims.transpose.default", permute),
    ("aten.transpose.int", transpose),
    ("aten.transpose_copy.int", transpose),
    ("aten.swapaxes.default", transpose),
    ("aten.t.default", t),
    ("aten.t_copy.default", t),
    ("aten.numpy_T.default", reverse_axes),
    ("aten.mT.default", swap_last),
    ("aten.movedim.int", movedim),
    ("aten.movedim.intlist", movedim),
    ("aten.pixel_shuffle.default", pixel_shuffle),
    ("aten.pixel_unshuffle.default", pixel_unshuffle),
    ("aten.channel_shuffle.default", channel_shuffle),
    ("aten.native_channel_shuffle.default", channel_shuffle),
];

fn reshape(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = c.out_dims(l)?;
    one(l.b.reshape(x, &dims)?)
}

fn expand(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let dims = c.out_dims(l)?;
    let dtype = l.b.dtype(x);
    one(fit(l, x, dtype, &dims)?)
}

fn broadcast_in_dim(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "a")?;
    let axes: Vec<usize> = c.ints(l, 2, "broadcast_dimensions")?.iter().map(|&a| a as usize).collect();
    let dims = c.out_dims(l)?;
    one(l.b.broadcast_in_dim(x, &dims, &axes)?)
}

/// A list of distinct axes, in the order given.
pub(super) fn axis_list(l: &Lowering<'_>, c: &Call<'_>, index: usize, name: &'static str, rank: usize) -> Result<Axes, LowerError> {
    let wrong = LowerError::Argument { index, name, expected: "axes of the tensor" };
    c.ints(l, index, name)?.iter().map(|&a| normalize_axis(a, rank).ok_or_else(|| wrong.clone())).collect()
}

fn permute(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let rank = l.b.rank(x);
    let perm = axis_list(l, c, 1, "dims", rank)?;
    one(l.b.transpose(x, &perm)?)
}

fn transpose(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let rank = l.b.rank(x);
    let (a, b) = (c.axis(l, 1, "dim0", rank)?, c.axis(l, 2, "dim1", rank)?);
    let mut perm: Axes = (0..rank).collect();
    if rank > 0 {
        perm.swap(a, b);
    }
    one(l.b.transpose(x, &perm)?)
}

fn t(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    reverse_axes(l, c)
}

fn reverse_axes(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let perm: Axes = (0..l.b.rank(x)).rev().collect();
    one(l.b.transpose(x, &perm)?)
}

fn swap_last(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    one(l.b.swap_last(x)?)
}

fn movedim(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let rank = l.b.rank(x);
    let (from, to) = (axis_list(l, c, 1, "source", rank)?, axis_list(l, c, 2, "destination", rank)?);
    let mut perm: Vec<Option<usize>> = vec![None; rank];
    for (&f, &t) in from.iter().zip(&to) {
        if let Some(slot) = perm.get_mut(t) {
            *slot = Some(f);
        }
    }
    let mut rest = (0..rank).filter(|a| !from.contains(a));
    let perm: Option<Axes> = perm.into_iter().map(|p| p.or_else(|| rest.next())).collect();
    match perm {
        Some(perm) => one(l.b.transpose(x, &perm)?),
        None => Err(LowerError::Argument { index: 2, name: "destination", expected: "distinct axes" }),
    }
}

/// Channels `[.., C * r * r, H, W]` become pixels `[.., C, H * r, W * r]`.
fn pixel_shuffle(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let r = c.int(l, 1, "upscale_factor")?;
    let (dims, out) = (l.b.dims(x), c.out_dims(l)?);
    let n = dims.len() - 3;
    let mut split = dims.clone();
    split.truncate(n);
    split.extend([out[n], r, r, dims[n + 1], dims[n + 2]]);
    let x = l.b.reshape(x, &split)?;
    let perm: Axes = (0..n).chain([n, n + 3, n + 1, n + 4, n + 2]).collect();
    let x = l.b.transpose(x, &perm)?;
    one(l.b.reshape(x, &out)?)
}

fn pixel_unshuffle(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let r = c.int(l, 1, "downscale_factor")?;
    let (dims, out) = (l.b.dims(x), c.out_dims(l)?);
    let n = dims.len() - 3;
    let mut split = dims.clone();
    split.truncate(n);
    split.extend([dims[n], out[n + 1], r, out[n + 2], r]);
    let x = l.b.reshape(x, &split)?;
    let perm: Axes = (0..n).chain([n, n + 2, n + 4, n + 1, n + 3]).collect();
    let x = l.b.transpose(x, &perm)?;
    one(l.b.reshape(x, &out)?)
}

fn channel_shuffle(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let groups = c.int(l, 1, "groups")?;
    let dims = l.b.dims(x);
    if groups < 1 || dims.len() < 2 || dims[1] % groups != 0 {
        return Err(LowerError::Argument { index: 1, name: "groups", expected: "a divisor of the channels" });
    }
    let mut split = dims.clone();
    split[1] = groups;
    split.insert(2, dims[1] / groups);
    let x = l.b.reshape(x, &split)?;
    let mut perm: Axes = (0..split.len()).collect();
    perm.swap(1, 2);
    let x = l.b.transpose(x, &perm)?;
    one(l.b.reshape(x, &dims)?)
}
