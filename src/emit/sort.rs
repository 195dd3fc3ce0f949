//! Sorting.

use super::body::{Inst, Results};
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
