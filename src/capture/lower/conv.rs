//! Convolutions of any number of spatial axes and their gradients.
//!
//! Three products cover all: the plain one, the one that undoes strides (the input's gradient, and the transposed convolution), and the
//! correlation that gives the weight's gradient. Each is given the result's spatial sizes, which fix the padding at the high end.

use clutch_graph::op::{Axes, Combiner, ConvDims, Convolution, WindowDim};
use clutch_graph::{Dims, Op, ValueId};

use super::helpers::{cast, fit};
use super::norm::{mask, result};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[("aten.convolution.default", convolution), ("aten.convolution_backward.default", backward)];

/// The attributes of one call.
struct Attributes {
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    transposed: bool,
    groups: i64,
}

impl Attributes {
    fn new(l: &Lowering<'_>, c: &Call<'_>, spatial: usize) -> Result<Self, LowerError> {
        let spread = |mut v: Dims| {
            if let [single] = v[..] {
                v = smallvec::smallvec![single; spatial];
            }
            v
        };
        Ok(Attributes {
            stride: spread(c.ints(l, 3 + usize::from(is_backward(c)), "stride")?),
            padding: spread(c.ints(l, 4 + usize::from(is_backward(c)), "padding")?),
            dilation: spread(c.ints(l, 5 + usize::from(is_backward(c)), "dilation")?),
            transposed: c.bool_or(6 + usize::from(is_backward(c)), "transposed", false)?,
            groups: c.int(l, 8 + usize::from(is_backward(c)), "groups")?,
        })
    }
}

fn is_backward(c: &Call<'_>) -> bool {
    c.target.contains("backward")
}

fn spatial_axes(rank: usize) -> Axes {
    (2..rank).collect()
}

/// Axis roles of channels-first tensors; the kernel's feature axes are given.
fn channels_first(rank: usize, kernel_input: usize, kernel_output: usize) -> ConvDims {
    ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: spatial_axes(rank),
        kernel_input_feature: kernel_input,
        kernel_output_feature: kernel_output,
        kernel_spatial: spatial_axes(rank),
        output_batch: 0,
        output_feature: 1,
        output_spatial: spatial_axes(rank),
    }
}

/// The high padding that gives `out` windows.
fn high(size: i64, out: i64, w: &WindowDim) -> i64 {
    let dilated = (size - 1) * w.base_dilation + 1;
    let window = (w.size - 1) * w.window_dilation + 1;
    (out - 1) * w.stride + window - dilated - w.pad_low
}

/// Zeros when nothing is summed: an operand or the result has no elements.
fn empty(l: &mut Lowering<'_>, x: ValueId, y: ValueId, out: &[i64]) -> Result<Option<ValueId>, LowerError> {
    let none = [l.b.dims(x), l.b.dims(y), out.into()].iter().any(|d| d.contains(&0));
    if none { Ok(Some(l.b.full(l.b.dtype(x), out, 0.0)?)) } else { Ok(None) }
}

/// Plain convolution of `x` `[n, i, ...]` with `w` `[o, i/groups, ...]`.
fn plain(l: &mut Lowering<'_>, x: ValueId, w: ValueId, a: &Attributes, out: &[i64]) -> Result<ValueId, LowerError> {
    let (dims, kernel) = (l.b.dims(x), l.b.dims(w));
    let full: Dims = [dims[0], kernel[0]].into_iter().chain(out.iter().copied()).collect();
    if let Some(zeros) = empty(l, x, w, &full)? {
        return Ok(zeros);
    }
    let window = (0..out.len()).map(|i| {
        let mut axis = WindowDim {
            size: kernel[i + 2],
            stride: a.stride[i],
            pad_low: a.padding[i],
            window_dilation: a.dilation[i],
            ..WindowDim::TRIVIAL
        };
        axis.pad_high = high(dims[i + 2], out[i], &axis);
        axis
    });
    let attributes = Convolution {
        window: window.collect(),
        dims: channels_first(dims.len(), 1, 0),
        feature_groups: a.groups,
        batch_groups: 1,
        precision: l.precision(),
    };
    Ok(l.b.op(Op::Convolution(Box::new(attributes)), [x, w])?)
}

/// `w` `[o, i/groups, ...]` as `[o/groups, i, ...]`: for each output feature of a group, the input features of all groups.
fn regroup(l: &mut Lowering<'_>, w: ValueId, groups: i64) -> Result<ValueId, LowerError> {
    if groups == 1 {
        return Ok(w);
    }
    let dims = l.b.dims(w);
    let mut split: Dims = smallvec::smallvec![groups, dims[0] / groups];
    split.extend_from_slice(&dims[1..]);
    let split = l.b.reshape(w, &split)?;
    let mut order: Axes = smallvec::smallvec![1, 0];
    order.extend(2..=dims.len());
    let swapped = l.b.transpose(split, &order)?;
    let mut joined = dims.clone();
    (joined[0], joined[1]) = (dims[0] / groups, dims[1] * groups);
    Ok(l.b.reshape(swapped, &joined)?)
}

/// The adjoint of `plain` in its input: `g` `[n, o, ...]` and `w` `[o, i/groups, ...]` give `[n, i, ...]`.
fn adjoint(l: &mut Lowering<'_>, g: ValueId, w: ValueId, a: &Attributes, out: &[i64]) -> Result<ValueId, LowerError> {
    let (dims, kernel) = (l.b.dims(g), l.b.dims(w));
    let full: Dims = [dims[0], kernel[1] * a.groups].into_iter().chain(out.iter().copied()).collect();
    if let Some(zeros) = empty(l, g, w, &full)? {
        return Ok(zeros);
    }
    let w = regroup(l, w, a.groups)?;
    let w = l.b.op(Op::Reverse(spatial_axes(dims.len())), [w])?;
    let window = (0..out.len()).map(|i| {
        let mut axis = WindowDim {
            size: kernel[i + 2],
            pad_low: a.dilation[i] * (kernel[i + 2] - 1) - a.padding[i],
            window_dilation: a.dilation[i],
            base_dilation: a.stride[i],
            ..WindowDim::TRIVIAL
        };
        axis.pad_high = high(dims[i + 2], out[i], &axis);
        axis
    });
    let attributes = Convolution {
        window: window.collect(),
        dims: channels_first(dims.len(), 0, 1),
        feature_groups: a.groups,
        batch_groups: 1,
        precision: l.precision(),
    };
    Ok(l.b.op(Op::Convolution(Box::new(attributes)), [g, w])?)
}

/// The adjoint of `plain` in its weight: `x` `[n, i, ...]` and `g` `[n, o, ...]` give `[o, i/groups, kernel...]`.
fn correlate(l: &mut Lowering<'_>, x: ValueId, g: ValueId, a: &Attributes, kernel: &[i64]) -> Result<ValueId, LowerError> {
    let (dims, grad) = (l.b.dims(x), l.b.dims(g));
    let full: Dims = [grad[1], dims[1] / a.groups].into_iter().chain(kernel.iter().copied()).collect();
    if let Some(zeros) = empty(l, x, g, &full)? {
        return Ok(zeros);
    }
    let window = (0..kernel.len()).map(|i| {
        let mut axis = WindowDim {
            size: grad[i + 2],
            stride: a.dilation[i],
            pad_low: a.padding[i],
            window_dilation: a.stride[i],
            ..WindowDim::TRIVIAL
        };
        axis.pad_high = high(dims[i + 2], kernel[i], &axis);
        axis
    });
    let roles = ConvDims {
        input_batch: 1,
        input_feature: 0,
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        output_batch: 1,
        output_feature: 0,
        ..channels_first(dims.len(), 0, 1)
    };
    let attributes =
        Convolution { window: window.collect(), dims: roles, feature_groups: 1, batch_groups: a.groups, precision: l.precision() };
    Ok(l.b.op(Op::Convolution(Box::new(attributes)), [x, g])?)
}

fn convolution(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, w) = (c.tensor(l, 0, "input")?, c.tensor(l, 1, "weight")?);
    let bias = c.opt_tensor(l, 2, "bias")?;
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    if dims.len() < 3 || l.b.rank(x) != dims.len() {
        return Err(LowerError::unsupported("a convolution without batch or spatial axes"));
    }
    let a = Attributes::new(l, c, dims.len() - 2)?;
    let (x, w) = (cast(l, x, dtype)?, cast(l, w, dtype)?);
    let y = if a.transposed { adjoint(l, x, w, &a, &dims[2..])? } else { plain(l, x, w, &a, &dims[2..])? };
    let Some(bias) = bias else { return one(y) };
    let mut wide: Dims = smallvec::smallvec![1; dims.len()];
    wide[1] = dims[1];
    let bias = l.b.reshape(bias, &wide)?;
    let bias = fit(l, bias, dtype, &dims)?;
    one(l.b.add(y, bias)?)
}

fn backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (g, x, w) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "input")?, c.tensor(l, 2, "weight")?);
    let wanted = mask(c, 10, 3)?;
    let (dims, kernel, dtype) = (l.b.dims(x), l.b.dims(w), l.b.dtype(g));
    let a = Attributes::new(l, c, dims.len() - 2)?;
    let mut out = Outputs::from_elem(None, 3);
    if wanted[0] {
        let by_input = if a.transposed { plain(l, g, w, &a, &dims[2..])? } else { adjoint(l, g, w, &a, &dims[2..])? };
        out[0] = Some(result(l, c, 0, by_input)?);
    }
    if wanted[1] {
        let by_weight = if a.transposed { correlate(l, g, x, &a, &kernel[2..])? } else { correlate(l, x, g, &a, &kernel[2..])? };
        out[1] = Some(result(l, c, 1, by_weight)?);
    }
    if wanted[2] {
        let axes: Vec<usize> = (0..dims.len()).filter(|&i| i != 1).collect();
        let g = cast(l, g, dtype.compute_type())?;
        let by_bias = l.b.reduce(Combiner::Add, g, &axes)?;
        out[2] = Some(result(l, c, 2, by_bias)?);
    }
    Ok(out)
}
