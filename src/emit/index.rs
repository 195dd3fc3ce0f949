//! Gathers, scatters and dynamic slices. HLO clamps and drops out-of-range indices as the contract asks.

use clutch_graph::op::{Combiner, GatherDims, ScatterDims};
use clutch_graph::{Node, TensorType};

use super::body::Inst;
use super::helpers::Helper;
use super::lower::{Lower, Lowered};
use super::proto::{GatherDimensionNumbers, ScatterDimensionNumbers};
use super::reduce;
use super::types::numbers_of;

/// HLO has no promise of indices in range; `in_bounds` is of use to passes only.
pub(super) fn gather(cx: &mut Lower<'_, '_>, node: &Node, dims: &GatherDims, operands: &[Inst]) -> Inst {
    let inst = cx.body.op("gather", node.outputs[0].clone(), operands);
    let proto = cx.body.proto(inst);
    proto.gather_dimension_numbers = Some(Box::new(GatherDimensionNumbers {
        offset_dims: numbers_of(&dims.offset_dims),
        collapsed_slice_dims: numbers_of(&dims.collapsed_slice_dims),
        start_index_map: numbers_of(&dims.start_index_map),
        index_vector_dim: dims.index_vector_dim as i64,
    }));
    proto.gather_slice_sizes = dims.slice_sizes.to_vec();
    inst
}

/// Sums and products of narrow floats run in the compute type unless no two updates meet.
pub(super) fn scatter(cx: &mut Lower<'_, '_>, node: &Node, combiner: Combiner, dims: &ScatterDims, operands: &[Inst]) -> Lowered {
    let dtype = cx.body.dtype(operands[0]);
    if combiner != Combiner::Assign {
        reduce::check(cx, node, combiner, dtype)?;
    }
    let compute = reduce::combine_type(combiner, dtype);
    let compute = if dims.unique && dtype.size() > 1 { dtype } else { compute };
    let computation = cx.module.helper(Helper::combine(combiner, compute));
    let (x, updates) = (cx.body.convert(operands[0], compute), cx.body.convert(operands[2], compute));
    let inst = cx.body.same("scatter", &[x, operands[1], updates]);
    let proto = cx.body.proto(inst);
    proto.scatter_dimension_numbers = Some(Box::new(ScatterDimensionNumbers {
        update_window_dims: numbers_of(&dims.update_window_dims),
        inserted_window_dims: numbers_of(&dims.inserted_window_dims),
        scatter_dims_to_operand_dims: numbers_of(&dims.scatter_dims_to_operand_dims),
        index_vector_dim: dims.index_vector_dim as i64,
    }));
    proto.unique_indices = dims.unique;
    proto.called_computation_ids = vec![computation];
    Ok(cx.body.convert(inst, dtype))
}

pub(super) fn dynamic_slice(cx: &mut Lower<'_, '_>, node: &Node, sizes: &[i64], operands: &[Inst]) -> Inst {
    let ty: TensorType = node.outputs[0].clone();
    let inst = cx.body.op("dynamic-slice", ty, operands);
    cx.body.proto(inst).dynamic_slice_sizes = sizes.to_vec();
    inst
}
