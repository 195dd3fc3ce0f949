//! Rules on tensors without elements, which plugins' own products and convolutions do not all survive.

use clutch_graph::infer::infer;
use clutch_graph::{DType, GraphError, Literal, Op, TensorType, ValueId};

use crate::simplify::Simplifier;
use crate::simplify::shape::repeat;

/// What is computed from no elements is zero where it is a sum of products, and has no elements itself elsewhere.
pub(super) fn rules(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Result<Option<ValueId>, GraphError> {
    if x.iter().all(|&v| s.ty(v).numel() != 0) {
        return Ok(None);
    }
    let types: Vec<&TensorType> = x.iter().map(|&v| s.ty(v)).collect();
    let [ty] = &infer(op, &types)?[..] else { return Ok(None) };
    let is_sum_of_products = matches!(op, Op::DotGeneral { .. } | Op::Convolution(_));
    let is_repeated_zero = matches!(op, Op::Broadcast { axes, .. } if axes.is_empty());
    if is_repeated_zero || !(is_sum_of_products || ty.numel() == 0) {
        return Ok(None);
    }
    let (dtype, dims) = (ty.dtype, ty.dims.clone());
    let zero = if dtype == DType::Pred || dtype.is_int() { Literal::scalar_i64(dtype, 0) } else { Literal::scalar_f64(dtype, 0.0) };
    let zero = s.emit(Op::Constant(zero), &[])?;
    repeat(s, zero, dims).map(Some)
}
