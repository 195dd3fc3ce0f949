//! Pooling of channels-last values as a combination of strided slices.

use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, Op, PadDim, UnaryOp, WindowDim};
use clutch_graph::{DType, Dims, GraphError, Literal, ValueId};
use smallvec::SmallVec;

use crate::expand::identity_literal;
use crate::layout::{positions, spatial_slice};
use crate::simplify::Simplifier;

/// Window positions up to which pooling is written out.
const WINDOW: i64 = 25;

pub(crate) fn rules(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Result<Option<ValueId>, GraphError> {
    match op {
        Op::ReduceWindow { combiner, window } => reduce_window(s, *combiner, window, x[0]),
        Op::SelectAndScatter { window } => maximum_gradient(s, window, x[0], x[1]),
        _ => Ok(None),
    }
}

/// Sizes of the pooled spatial axes, when the window covers only axes between the first and the last and is small.
fn pooled(s: &Simplifier<'_>, window: &[WindowDim], x: ValueId) -> Option<Dims> {
    let n = window.len();
    let channels_last = n >= 3 && window[0] == WindowDim::TRIVIAL && window[n - 1] == WindowDim::TRIVIAL;
    if !channels_last || window.iter().any(|w| w.base_dilation != 1) || window.iter().map(|w| w.size).product::<i64>() > WINDOW {
        return None;
    }
    let spatial = window[1..n - 1].iter().zip(&s.dims(x)[1..]);
    let counts: Dims = spatial.map(|(w, &d)| clutch_graph::infer::window_output_size(d, w)).collect();
    (!counts.contains(&0) && s.ty(x).numel() > 0).then_some(counts)
}

/// `x` padded as the windows need it.
fn padded(s: &mut Simplifier<'_>, window: &[WindowDim], x: ValueId, fill: Literal) -> Result<ValueId, GraphError> {
    let fill = s.emit(Op::Constant(fill), &[])?;
    let pads: SmallVec<[PadDim; 6]> = window.iter().map(|w| PadDim { low: w.pad_low, high: w.pad_high, interior: 0 }).collect();
    s.emit(Op::Pad(pads), &[x, fill])
}

fn reduce_window(s: &mut Simplifier<'_>, combiner: Combiner, window: &[WindowDim], x: ValueId) -> Result<Option<ValueId>, GraphError> {
    let n = window.len();
    let dtype = s.ty(x).dtype;
    let combine = match combiner {
        Combiner::Max if dtype != DType::Pred => BinaryOp::Max,
        Combiner::Min if dtype != DType::Pred => BinaryOp::Min,
        Combiner::Add if dtype == dtype.compute_type() && dtype != DType::Pred => BinaryOp::Add,
        _ => return Ok(None),
    };
    let Some(counts) = pooled(s, window, x) else { return Ok(None) };
    let spatial = &window[1..n - 1];
    let padded = padded(s, window, x, identity_literal(combiner, dtype))?;
    let sizes: Dims = spatial.iter().map(|w| w.size).collect();
    let step: Dims = spatial.iter().map(|w| w.stride).collect();
    let mut result: Option<ValueId> = None;
    for at in positions(&sizes) {
        let first: Dims = at.iter().zip(spatial).map(|(&i, w)| i * w.window_dilation).collect();
        let part = spatial_slice(s, padded, &first, &step, &counts)?;
        result = Some(match result {
            Some(so_far) => s.emit(Op::Binary(combine), &[so_far, part])?,
            None => part,
        });
    }
    Ok(result)
}

/// Gradient of maximum pooling: each window position that holds the first maximum of its window passes the gradient on. The plugin's
/// select-and-scatter is several times slower.
fn maximum_gradient(s: &mut Simplifier<'_>, window: &[WindowDim], x: ValueId, grad: ValueId) -> Result<Option<ValueId>, GraphError> {
    let n = window.len();
    let (dtype, dims): (DType, Dims) = (s.ty(x).dtype, s.dims(x).into());
    let Some(counts) = pooled(s, window, x) else { return Ok(None) };
    if !dtype.is_float() {
        return Ok(None);
    }
    let Some(best) = reduce_window(s, Combiner::Max, window, x)? else { return Ok(None) };
    let spatial = &window[1..n - 1];
    let padded_x = padded(s, window, x, identity_literal(Combiner::Max, dtype))?;
    let inside = inside(s, window, &dims)?;
    let compute = dtype.compute_type();
    let grad = s.emit(Op::Convert(compute), &[grad])?;
    let zero = s.emit(Op::Constant(Literal::scalar_f64(compute, 0.0)), &[])?;
    let zeros = s.emit(Op::Broadcast { dims: s.dims(grad).into(), axes: Axes::new() }, &[zero])?;
    let sizes: Dims = spatial.iter().map(|w| w.size).collect();
    let step: Dims = spatial.iter().map(|w| w.stride).collect();
    let mut found: Option<ValueId> = None;
    let mut sum: Option<ValueId> = None;
    for at in positions(&sizes) {
        let part = spatial_slice(s, padded_x, &at, &step, &counts)?;
        let equal = s.emit(Op::Compare(CompareDir::Eq), &[part, best])?;
        let nan = s.emit(Op::Compare(CompareDir::Ne), &[part, part])?;
        let mut hit = s.emit(Op::Binary(BinaryOp::Or), &[equal, nan])?;
        if let Some(inside) = inside {
            let inside = spatial_slice(s, inside, &at, &step, &counts)?;
            let inside = s.emit(Op::Reshape(counts.clone()), &[inside])?;
            let inside = s.emit(Op::Broadcast { dims: s.dims(hit).into(), axes: (1..n - 1).collect() }, &[inside])?;
            hit = s.emit(Op::Binary(BinaryOp::And), &[hit, inside])?;
        }
        if let Some(before) = found {
            let free = s.emit(Op::Unary(UnaryOp::Not), &[before])?;
            let first = s.emit(Op::Binary(BinaryOp::And), &[hit, free])?;
            found = Some(s.emit(Op::Binary(BinaryOp::Or), &[before, hit])?);
            hit = first;
        } else {
            found = Some(hit);
        }
        let passed = s.emit(Op::Select, &[hit, grad, zeros])?;
        let mut pads: SmallVec<[PadDim; 6]> = smallvec::smallvec![PadDim::default(); n];
        for (i, w) in spatial.iter().enumerate() {
            let low = at[i] - w.pad_low;
            let high = dims[i + 1] - low - ((counts[i] - 1) * w.stride + 1);
            pads[i + 1] = PadDim { low, high, interior: w.stride - 1 };
        }
        let spread = s.emit(Op::Pad(pads), &[passed, zero])?;
        sum = Some(match sum {
            Some(sum) => s.emit(Op::Binary(BinaryOp::Add), &[sum, spread])?,
            None => spread,
        });
    }
    match sum {
        Some(sum) => s.emit(Op::Convert(dtype), &[sum]).map(Some),
        None => Ok(None),
    }
}

/// True inside the operand and false in its padding, over the spatial axes and single batch and feature axes; `None` without padding.
fn inside(s: &mut Simplifier<'_>, window: &[WindowDim], dims: &Dims) -> Result<Option<ValueId>, GraphError> {
    if window.iter().all(|w| w.pad_low <= 0 && w.pad_high <= 0) {
        return Ok(None);
    }
    let mut one: Dims = dims.clone();
    one[0] = 1;
    one[dims.len() - 1] = 1;
    let yes = s.emit(Op::Constant(Literal::scalar_i64(DType::Pred, 1)), &[])?;
    let all = s.emit(Op::Broadcast { dims: one, axes: Axes::new() }, &[yes])?;
    padded(s, window, all, Literal::scalar_i64(DType::Pred, 0)).map(Some)
}
