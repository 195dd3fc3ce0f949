//! Reductions, window reductions and the maximum-pooling gradient.

use clutch_graph::op::{Combiner, PadDim, WindowDim};
use clutch_graph::{DType, Dims, Node};
use smallvec::{SmallVec, smallvec};

use super::body::Inst;
use super::data;
use super::helpers::{Helper, combine_opcode, identity};
use super::linear;
use super::lower::{Lower, Lowered};
use super::types::numbers_of;

/// The type a combination runs in: XLA would add and multiply narrow floats in their own type, and 8-bit floats have no infinities.
pub(super) fn combine_type(combiner: Combiner, dtype: DType) -> DType {
    let rounds = matches!(combiner, Combiner::Add | Combiner::Mul);
    if dtype.is_float() && (dtype.size() == 1 || rounds) && combiner != Combiner::Assign { dtype.compute_type() } else { dtype }
}

/// The combiner has an instruction for the type.
pub(super) fn check(cx: &Lower<'_, '_>, node: &Node, combiner: Combiner, dtype: DType) -> Result<(), super::EmitError> {
    let bits = matches!(combiner, Combiner::And | Combiner::Or);
    let order = matches!(combiner, Combiner::Max | Combiner::Min);
    if combine_opcode(combiner, dtype).is_none() {
        cx.unsupported(node, "overwriting is no reduction")
    } else if (bits && !(dtype.is_int() || dtype == DType::Pred)) || (order && dtype.is_complex()) {
        cx.unsupported(node, "the combiner is not defined for the type")
    } else {
        Ok(())
    }
}

pub(super) fn reduce(cx: &mut Lower<'_, '_>, node: &Node, combiner: Combiner, axes: &[usize], x: Inst) -> Lowered {
    let dtype = cx.body.dtype(x);
    check(cx, node, combiner, dtype)?;
    if axes.is_empty() {
        return Ok(x);
    }
    let compute = combine_type(combiner, dtype);
    let computation = cx.module.helper(Helper::combine(combiner, compute));
    let x = cx.body.convert(x, compute);
    let init = cx.body.constant(&identity(combiner, dtype, compute));
    let inst = cx.body.op("reduce", node.outputs[0].with_dtype(compute), &[x, init]);
    let proto = cx.body.proto(inst);
    proto.dimensions = numbers_of(axes);
    proto.called_computation_ids = vec![computation];
    Ok(cx.body.convert(inst, dtype))
}

/// Negative padding is cropped beforehand, as HLO's window reduction has none. Reversal changes no reduction and is dropped.
pub(super) fn window(cx: &mut Lower<'_, '_>, node: &Node, combiner: Combiner, window: &[WindowDim], x: Inst) -> Lowered {
    let dtype = cx.body.dtype(x);
    check(cx, node, combiner, dtype)?;
    let compute = combine_type(combiner, dtype);
    let computation = cx.module.helper(Helper::combine(combiner, compute));
    let mut x = cx.body.convert(x, compute);
    let init = cx.body.constant(&identity(combiner, dtype, compute));
    let mut window: SmallVec<[WindowDim; 6]> = window.iter().map(|w| WindowDim { reversal: false, ..*w }).collect();
    if window.iter().any(|w| w.pad_low < 0 || w.pad_high < 0) {
        let pads: SmallVec<[PadDim; 6]> =
            window.iter().map(|w| PadDim { low: w.pad_low, high: w.pad_high, interior: w.base_dilation - 1 }).collect();
        x = data::pad(cx, x, init, &pads);
        for w in &mut window {
            (w.pad_low, w.pad_high, w.base_dilation) = (0, 0, 1);
        }
    }
    let inst = cx.body.op("reduce-window", node.outputs[0].with_dtype(compute), &[x, init]);
    let proto = cx.body.proto(inst);
    proto.window = linear::window(&window);
    proto.called_computation_ids = vec![computation];
    Ok(cx.body.convert(inst, dtype))
}

/// Sums where windows overlap run in the compute type. TPUs want two axes that the window leaves alone, so axes of size 1 are added.
pub(super) fn select_and_scatter(cx: &mut Lower<'_, '_>, node: &Node, window: &[WindowDim], x: Inst, source: Inst) -> Lowered {
    let ty = cx.body.ty(x).clone();
    if window.iter().any(|w| w.pad_low < 0 || w.pad_high < 0) {
        return cx.unsupported(node, "negative padding");
    }
    check(cx, node, Combiner::Max, ty.dtype)?;
    let compute = ty.dtype.compute_type();
    let select = cx.module.helper(Helper::KeepsMaximum(compute));
    let scatter = cx.module.helper(Helper::combine(Combiner::Add, compute));
    let added = 2usize.saturating_sub(window.iter().filter(|w| **w == WindowDim::TRIVIAL).count());
    let mut extended: SmallVec<[WindowDim; 6]> = smallvec![WindowDim::TRIVIAL; added];
    extended.extend_from_slice(window);
    let [x, source] = [x, source].map(|operand| {
        let mut dims: Dims = smallvec![1; added];
        dims.extend_from_slice(&cx.body.ty(operand).dims);
        let operand = cx.body.reshape(operand, &dims);
        cx.body.convert(operand, compute)
    });
    let init = cx.body.constant(&identity(Combiner::Add, ty.dtype, compute));
    let inst = cx.body.same("select-and-scatter", &[x, source, init]);
    let proto = cx.body.proto(inst);
    proto.window = linear::window(&extended);
    proto.called_computation_ids = vec![select, scatter];
    let inst = cx.body.reshape(inst, &ty.dims);
    Ok(cx.body.convert(inst, ty.dtype))
}
