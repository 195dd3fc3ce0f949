//! Sorting and the largest elements.

use clutch_graph::op::CompareDir;
use clutch_graph::{DType, Dims, Literal, Node, TensorType};
use smallvec::smallvec;

use super::EmitError;
use super::body::{Inst, Results};
use super::data;
use super::helpers::Helper;
use super::lower::Lower;
use super::types::Shape;

pub(super) fn sort(cx: &mut Lower<'_, '_>, axis: usize, descending: bool, stable: bool, operands: &[Inst]) -> Results {
    let types: Vec<_> = operands.iter().map(|&o| cx.body.ty(o).clone()).collect();
    let dtypes = types.iter().map(|t| t.dtype).collect();
    let order = cx.module.helper(Helper::Order { dtypes, descending });
    let shape = match <[_; 1]>::try_from(types) {
        Ok([one]) => Shape::Array(one),
        Err(types) => Shape::Tuple(types),
    };
    let inst = cx.body.push("sort", shape, operands);
    let proto = cx.body.proto(inst);
    proto.dimensions = vec![axis as i64];
    proto.is_stable = stable;
    proto.called_computation_ids = vec![order];
    cx.body.unpack(inst)
}

/// The type's values are all values of `F32`.
fn fits_f32(dtype: DType) -> bool {
    dtype == DType::F32 || (!dtype.is_complex() && dtype.size() <= 2)
}

/// HLO's `topk` over `F32` keys: its total order becomes the contract's when NaN and zero have one form each, and equal keys come lower
/// position first. Of other types, and of all elements, XLA's form is unstable: those are sorted. From `topk` a negative zero comes back as
/// zero.
pub(super) fn top_k(cx: &mut Lower<'_, '_>, node: &Node, k: i64, largest: bool, x: Inst) -> Result<Results, EmitError> {
    let ty = cx.body.ty(x).clone();
    let Some((&length, outer)) = ty.dims.split_last() else {
        return cx.unsupported(node, "a scalar has no last axis");
    };
    if !fits_f32(ty.dtype) || k == length {
        return Ok(sorted_top_k(cx, node, k, largest, x));
    }
    let body = &mut cx.body;
    let rows: i64 = outer.iter().product();
    let x = body.reshape(x, &[rows, length]);
    let mut key = body.convert(x, DType::F32);
    if !largest {
        key = body.same("negate", &[key]);
    }
    let flat = TensorType::new(DType::F32, [rows, length]);
    if ty.dtype.is_float() {
        // NaN is the largest either way: of the negated keys it must be the smallest, which is the NaN with the sign set.
        let nan: f32 = if largest { f32::from_bits(0x7fc0_0000) } else { f32::from_bits(0xffc0_0000) };
        let nan = Literal::new(TensorType::scalar(DType::F32), nan.to_le_bytes().as_slice()).expect("four bytes are an f32");
        let nan = body.splat(&nan, &flat);
        let is_nan = body.is_nan(key);
        key = body.select(is_nan, nan, key);
        let zero = body.fill(DType::F32, 0.0, &flat);
        let is_zero = body.compare(CompareDir::Eq, key, zero);
        key = body.select(is_zero, zero, key);
    }
    let chosen = TensorType::new(DType::F32, [rows, k]);
    let inst = body.push("topk", Shape::Tuple(vec![chosen.clone(), chosen.with_dtype(DType::S32)]), &[key]);
    let proto = body.proto(inst);
    (proto.k, proto.largest) = (k, true);
    let results = body.unpack(inst);
    let (mut values, positions) = (results[0], results[1]);
    if !largest {
        values = body.same("negate", &[values]);
        if ty.dtype.is_float() {
            let zero = body.fill(DType::F32, 0.0, &chosen);
            let is_zero = body.compare(CompareDir::Eq, values, zero);
            values = body.select(is_zero, zero, values);
        }
    }
    let values = body.reshape(values, &node.outputs[0].dims);
    let positions = body.reshape(positions, &node.outputs[0].dims);
    let positions = body.convert(positions, DType::S64);
    Ok(smallvec![super::convert::convert(cx, values, ty.dtype), positions])
}

fn sorted_top_k(cx: &mut Lower<'_, '_>, node: &Node, k: i64, largest: bool, x: Inst) -> Results {
    let ty = cx.body.ty(x).clone();
    let axis = ty.rank() - 1;
    let positions = data::iota(cx, &ty.with_dtype(DType::S64), axis);
    let sorted = sort(cx, axis, largest, true, &[x, positions]);
    let (start, stride): (Dims, Dims) = (smallvec![0; axis + 1], smallvec![1; axis + 1]);
    let mut limit = ty.dims;
    limit[axis] = k;
    sorted.into_iter().zip(&node.outputs).map(|(s, ty)| data::slice_to(cx, ty, s, &start, &limit, &stride)).collect()
}
