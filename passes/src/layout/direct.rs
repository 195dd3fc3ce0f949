//! Convolutions in other forms, where the CPU plugin is measured faster with them. Inputs are NHWC, kernels HWIO.

use clutch_graph::op::{BinaryOp, Convolution, DotDims, Op, PadDim};
use clutch_graph::{Dims, GraphError, Literal, ValueId};
use smallvec::{SmallVec, smallvec};

use crate::layout::convolution::canonical_dims;
use crate::layout::{positions, spatial_slice};
use crate::simplify::Simplifier;

/// Window positions up to which a depthwise convolution is written out.
const DEPTHWISE_WINDOW: i64 = 81;
/// Groups up to which a grouped convolution is split; more would cost more time to compile than they save.
const SPLIT_GROUPS: i64 = 8;
/// Input features below which collecting windows costs more than it gains.
const COLLECTED_FEATURES: i64 = 16;

/// The value of the convolution in a better form than a convolution op, if there is one.
pub(super) fn best_form(s: &mut Simplifier<'_>, c: &Convolution, x: ValueId, kernel: ValueId) -> Result<Option<ValueId>, GraphError> {
    if c.window.iter().any(|w| w.base_dilation != 1 || w.reversal) {
        return Ok(None);
    }
    let (input, weights): (Dims, Dims) = (s.dims(x).into(), s.dims(kernel).into());
    let n = c.window.len();
    let (batch, features, outputs) = (input[0], input[n + 1], weights[n + 1]);
    let sizes: Dims = c.window.iter().map(|w| w.size).collect();
    let counts: Dims = c.window.iter().zip(&input[1..]).map(|(w, &d)| clutch_graph::infer::window_output_size(d, w)).collect();
    let area: i64 = counts.iter().product();
    if area * batch * features * outputs == 0 {
        return Ok(None);
    }
    let pointwise = c.window.iter().all(|w| w.size == 1 && w.pad_low == 0 && w.pad_high == 0);
    let strided = c.window.iter().any(|w| w.stride != 1);
    if c.feature_groups == 1 {
        if pointwise && (!strided || area <= 49 || batch >= 8) {
            return as_dot(s, c, x, kernel, &counts).map(Some);
        }
        let small = area <= 49 || (batch == 1 && area <= 196);
        if n == 2 && sizes[..] == [3, 3] && small && features >= COLLECTED_FEATURES {
            return collected(s, c, x, kernel, &counts).map(Some);
        }
        return Ok(None);
    }
    if c.feature_groups == features && outputs == features && sizes.iter().product::<i64>() <= DEPTHWISE_WINDOW {
        return depthwise(s, c, x, kernel, &counts).map(Some);
    }
    if c.feature_groups <= SPLIT_GROUPS { split(s, c, x, kernel).map(Some) } else { Ok(None) }
}

fn padded(s: &mut Simplifier<'_>, c: &Convolution, x: ValueId) -> Result<ValueId, GraphError> {
    let zero = s.emit(Op::Constant(Literal::scalar_f64(s.ty(x).dtype, 0.0)), &[])?;
    let mut pads: SmallVec<[PadDim; 6]> = smallvec![PadDim::default()];
    pads.extend(c.window.iter().map(|w| PadDim { low: w.pad_low, high: w.pad_high, interior: 0 }));
    pads.push(PadDim::default());
    s.emit(Op::Pad(pads), &[x, zero])
}

fn window_slice(s: &mut Simplifier<'_>, c: &Convolution, x: ValueId, at: &[i64], counts: &[i64]) -> Result<ValueId, GraphError> {
    let first: Dims = at.iter().zip(&c.window).map(|(&i, w)| i * w.window_dilation).collect();
    let step: Dims = c.window.iter().map(|w| w.stride).collect();
    spatial_slice(s, x, &first, &step, counts)
}

/// `[N..., C]` times `[C, O]`.
fn product(s: &mut Simplifier<'_>, c: &Convolution, x: ValueId, kernel: ValueId) -> Result<ValueId, GraphError> {
    let (mut dims, weights): (Dims, Dims) = (s.dims(x).into(), s.dims(kernel).into());
    let last = dims.len() - 1;
    let dtype = s.ty(x).dtype;
    let rows = dims[..last].iter().product();
    let inner = dims[last];
    let outputs = weights[weights.len() - 1];
    let flat = s.emit(Op::Reshape(smallvec![rows, inner]), &[x])?;
    let matrix = s.emit(Op::Reshape(smallvec![inner, outputs]), &[kernel])?;
    let axes = DotDims { lhs_contract: smallvec![1], rhs_contract: smallvec![0], ..DotDims::default() };
    let y = s.emit(Op::DotGeneral { dims: axes, out: dtype, precision: c.precision }, &[flat, matrix])?;
    dims[last] = outputs;
    s.emit(Op::Reshape(dims), &[y])
}

/// A pointwise convolution as a product over all positions; strides take their positions first.
fn as_dot(s: &mut Simplifier<'_>, c: &Convolution, x: ValueId, kernel: ValueId, counts: &[i64]) -> Result<ValueId, GraphError> {
    let origin: Dims = smallvec![0; counts.len()];
    let taken = window_slice(s, c, x, &origin, counts)?;
    product(s, c, taken, kernel)
}

/// The elements of each window collected in the feature axis, then one product.
fn collected(s: &mut Simplifier<'_>, c: &Convolution, x: ValueId, kernel: ValueId, counts: &[i64]) -> Result<ValueId, GraphError> {
    let x = padded(s, c, x)?;
    let sizes: Dims = c.window.iter().map(|w| w.size).collect();
    let mut parts = Vec::with_capacity(9);
    for at in positions(&sizes) {
        parts.push(window_slice(s, c, x, &at, counts)?);
    }
    let all = s.emit(Op::Concat(counts.len() + 1), &parts)?;
    product(s, c, all, kernel)
}

/// One multiply-add of a shifted slice a window position, in the compute type.
fn depthwise(s: &mut Simplifier<'_>, c: &Convolution, x: ValueId, kernel: ValueId, counts: &[i64]) -> Result<ValueId, GraphError> {
    let n = counts.len();
    let dtype = s.ty(x).dtype;
    let compute = dtype.compute_type();
    let x = padded(s, c, x)?;
    let kernel_dims: Dims = s.dims(kernel).into();
    let features = kernel_dims[n + 1];
    let sizes = &kernel_dims[..n];
    let mut sum: Option<ValueId> = None;
    for at in positions(sizes) {
        let part = window_slice(s, c, x, &at, counts)?;
        let part = s.emit(Op::Convert(compute), &[part])?;
        let mut start: Dims = at.clone();
        start.extend([0, 0]);
        let mut limit: Dims = at.iter().map(|i| i + 1).collect();
        limit.extend([1, features]);
        let weight = s.emit(Op::Slice { start, limit, stride: smallvec![1; n + 2] }, &[kernel])?;
        let weight = s.emit(Op::Reshape(smallvec![features]), &[weight])?;
        let weight = s.emit(Op::Convert(compute), &[weight])?;
        let dims: Dims = s.dims(part).into();
        let weight = s.emit(Op::Broadcast { dims, axes: smallvec![n + 1] }, &[weight])?;
        let term = s.emit(Op::Binary(BinaryOp::Mul), &[part, weight])?;
        sum = Some(match sum {
            Some(sum) => s.emit(Op::Binary(BinaryOp::Add), &[sum, term])?,
            None => term,
        });
    }
    match sum {
        Some(sum) => s.emit(Op::Convert(dtype), &[sum]),
        None => s.emit(Op::Convolution(Box::new(c.clone())), &[x, kernel]),
    }
}

/// One convolution a group, each in its own best form, joined along the features.
fn split(s: &mut Simplifier<'_>, c: &Convolution, x: ValueId, kernel: ValueId) -> Result<ValueId, GraphError> {
    let axis = c.window.len() + 1;
    let groups = c.feature_groups;
    let (features, outputs) = (s.dims(x)[axis] / groups, s.dims(kernel)[axis] / groups);
    let one = Convolution { feature_groups: 1, dims: canonical_dims(c.window.len()), ..c.clone() };
    let mut parts = Vec::with_capacity(usize::try_from(groups).unwrap_or(0));
    for g in 0..groups {
        let input = last_axis_slice(s, x, g * features, features)?;
        let weights = last_axis_slice(s, kernel, g * outputs, outputs)?;
        parts.push(s.emit(Op::Convolution(Box::new(one.clone())), &[input, weights])?);
    }
    s.emit(Op::Concat(axis), &parts)
}

fn last_axis_slice(s: &mut Simplifier<'_>, x: ValueId, start: i64, count: i64) -> Result<ValueId, GraphError> {
    let sizes: Dims = s.dims(x).into();
    let n = sizes.len();
    let mut starts: Dims = smallvec![0; n];
    let mut limits = sizes;
    starts[n - 1] = start;
    limits[n - 1] = start + count;
    s.emit(Op::Slice { start: starts, limit: limits, stride: smallvec![1; n] }, &[x])
}
