//! Data movement: iota, broadcast, transposes, slices, padding, joins.

use clutch_graph::op::PadDim;
use clutch_graph::{Node, TensorType};

use super::body::Inst;
use super::lower::Lower;
use super::proto::PaddingConfig;
use super::proto::hlo_instruction_proto::SliceDimensions;
use super::proto::padding_config::PaddingConfigDimension;
use super::types::numbers_of;

pub(super) fn iota(cx: &mut Lower<'_, '_>, ty: &TensorType, axis: usize) -> Inst {
    let inst = cx.body.op("iota", ty.clone(), &[]);
    cx.body.proto(inst).dimensions = vec![axis as i64];
    inst
}

/// Operand axes of size 1 that grow are dropped first, as HLO's broadcast does not stretch.
pub(super) fn broadcast(cx: &mut Lower<'_, '_>, x: Inst, dims: &[i64], axes: &[usize]) -> Inst {
    let ty = cx.body.ty(x).clone();
    let kept: Vec<usize> = (0..ty.rank()).filter(|&i| ty.dims[i] == dims[axes[i]]).collect();
    let sizes: Vec<i64> = kept.iter().map(|&i| ty.dims[i]).collect();
    let kept_axes: Vec<usize> = kept.iter().map(|&i| axes[i]).collect();
    let x = cx.body.reshape(x, &sizes);
    cx.body.broadcast(x, TensorType::new(ty.dtype, dims.iter().copied()), &kept_axes)
}

pub(super) fn transpose(cx: &mut Lower<'_, '_>, node: &Node, x: Inst, perm: &[usize]) -> Inst {
    let inst = cx.body.op("transpose", node.outputs[0].clone(), &[x]);
    cx.body.proto(inst).dimensions = numbers_of(perm);
    inst
}

pub(super) fn slice(cx: &mut Lower<'_, '_>, node: &Node, x: Inst, start: &[i64], limit: &[i64], stride: &[i64]) -> Inst {
    slice_to(cx, &node.outputs[0], x, start, limit, stride)
}

/// A slice whose result type is known.
pub(super) fn slice_to(cx: &mut Lower<'_, '_>, ty: &TensorType, x: Inst, start: &[i64], limit: &[i64], stride: &[i64]) -> Inst {
    let inst = cx.body.op("slice", ty.clone(), &[x]);
    cx.body.proto(inst).slice_dimensions =
        (0..start.len()).map(|i| SliceDimensions { start: start[i], limit: limit[i], stride: stride[i] }).collect();
    inst
}

pub(super) fn pad(cx: &mut Lower<'_, '_>, x: Inst, value: Inst, pads: &[PadDim]) -> Inst {
    let ty = cx.body.ty(x);
    let sizes = ty.dims.iter().zip(pads).map(|(&d, p)| d + (d - 1).max(0) * p.interior + p.low + p.high);
    let out = TensorType::new(ty.dtype, sizes);
    let inst = cx.body.op("pad", out, &[x, value]);
    let dimensions = pads
        .iter()
        .map(|p| PaddingConfigDimension { edge_padding_low: p.low, edge_padding_high: p.high, interior_padding: p.interior })
        .collect();
    cx.body.proto(inst).padding_config = Some(Box::new(PaddingConfig { dimensions }));
    inst
}

pub(super) fn concat(cx: &mut Lower<'_, '_>, node: &Node, operands: &[Inst], axis: usize) -> Inst {
    let inst = cx.body.op("concatenate", node.outputs[0].clone(), operands);
    cx.body.proto(inst).dimensions = vec![axis as i64];
    inst
}

pub(super) fn reverse(cx: &mut Lower<'_, '_>, x: Inst, axes: &[usize]) -> Inst {
    let inst = cx.body.same("reverse", &[x]);
    cx.body.proto(inst).dimensions = numbers_of(axes);
    inst
}
