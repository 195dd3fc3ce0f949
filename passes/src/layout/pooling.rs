//! Pooling of channels-last values as a combination of strided slices.

use clutch_graph::op::{BinaryOp, Combiner, Op, PadDim, WindowDim};
use clutch_graph::{DType, Dims, GraphError, ValueId};
use smallvec::SmallVec;

use crate::layout::{positions, spatial_slice};
use crate::simplify::Simplifier;

/// Window positions up to which pooling is written out.
const WINDOW: i64 = 25;

pub(crate) fn rules(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Result<Option<ValueId>, GraphError> {
    let Op::ReduceWindow { combiner, window } = op else { return Ok(None) };
    let n = window.len();
    let dtype = s.ty(x[0]).dtype;
    let combine = match combiner {
        Combiner::Max if dtype != DType::Pred => BinaryOp::Max,
        Combiner::Min if dtype != DType::Pred => BinaryOp::Min,
        Combiner::Add if dtype == dtype.compute_type() && dtype != DType::Pred => BinaryOp::Add,
        _ => return Ok(None),
    };
    let channels_last = n >= 3 && window[0] == WindowDim::TRIVIAL && window[n - 1] == WindowDim::TRIVIAL;
    if !channels_last || window.iter().any(|w| w.base_dilation != 1) || window.iter().map(|w| w.size).product::<i64>() > WINDOW {
        return Ok(None);
    }
    let spatial = &window[1..n - 1];
    let counts: Dims = spatial.iter().zip(&s.dims(x[0])[1..]).map(|(w, &d)| clutch_graph::infer::window_output_size(d, w)).collect();
    if counts.contains(&0) {
        return Ok(None);
    }
    let identity = crate::expand::identity_literal(*combiner, dtype);
    let fill = s.emit(Op::Constant(identity), &[])?;
    let pads: SmallVec<[PadDim; 6]> = window.iter().map(|w| PadDim { low: w.pad_low, high: w.pad_high, interior: 0 }).collect();
    let padded = s.emit(Op::Pad(pads), &[x[0], fill])?;
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
