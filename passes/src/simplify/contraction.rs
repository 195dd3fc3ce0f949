//! Rules on dots.

use clutch_graph::op::{Axes, DotDims, PadDim};
use clutch_graph::{DType, Dims, GraphError, Literal, Op, TensorType, ValueId};
use smallvec::smallvec;

use crate::simplify::Simplifier;

/// A transpose of an operand goes into the axis numbers when the order of the free axes stays.
pub(super) fn rules(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Result<Option<ValueId>, GraphError> {
    let Op::DotGeneral { dims, out, precision } = op else { return Ok(None) };
    let mut new = dims.clone();
    let mut operands = [x[0], x[1]];
    let left = absorb(s, x[0], &dims.lhs_batch, &dims.lhs_contract);
    if let Some((source, batch, contract)) = left {
        (operands[0], new.lhs_batch, new.lhs_contract) = (source, batch, contract);
    }
    let right = absorb(s, x[1], &dims.rhs_batch, &dims.rhs_contract);
    if let Some((source, batch, contract)) = right {
        (operands[1], new.rhs_batch, new.rhs_contract) = (source, batch, contract);
    }
    if operands == [x[0], x[1]] {
        return Ok(None);
    }
    sort_contraction(&mut new);
    s.emit(Op::DotGeneral { dims: new, out: *out, precision: *precision }, &operands).map(Some)
}

fn absorb(s: &Simplifier<'_>, x: ValueId, batch: &Axes, contract: &Axes) -> Option<(ValueId, Axes, Axes)> {
    let node = s.def(x);
    let Op::Transpose(perm) = &node.op else { return None };
    let free = (0..perm.len()).filter(|a| !batch.contains(a) && !contract.contains(a)).map(|a| perm[a]);
    if !free.is_sorted() {
        return None;
    }
    let through = |axes: &Axes| axes.iter().map(|&a| perm[a]).collect();
    Some((node.operands[0], through(batch), through(contract)))
}

/// Contracting pairs in the order of the left operand's axes.
fn sort_contraction(dims: &mut DotDims) {
    let mut pairs: smallvec::SmallVec<[(usize, usize); 6]> =
        dims.lhs_contract.iter().copied().zip(dims.rhs_contract.iter().copied()).collect();
    pairs.sort_unstable();
    dims.lhs_contract = pairs.iter().map(|p| p.0).collect();
    dims.rhs_contract = pairs.iter().map(|p| p.1).collect();
}

/// One row of `bf16` times a matrix gets a second row of zeros on the CPU plugin: with a single row its dot converts the whole matrix first
/// and is up to nine times slower.
pub(super) fn single_row(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Result<Option<ValueId>, GraphError> {
    let Op::DotGeneral { dims, out, precision } = op else { return Ok(None) };
    if !is_single_row(dims, s.ty(x[0]), s.ty(x[1])) {
        return Ok(None);
    }
    let inner = s.ty(x[0]).numel();
    let columns = s.dims(x[1])[1 - dims.rhs_contract[0]];
    let mut result: Dims = s.dims(x[0]).iter().enumerate().filter(|(a, _)| !dims.lhs_contract.contains(a)).map(|(_, &d)| d).collect();
    result.push(columns);
    let zero = s.emit(Op::Constant(Literal::scalar_f64(s.ty(x[0]).dtype, 0.0)), &[])?;
    let row = s.emit(Op::Reshape(smallvec![1, inner]), &[x[0]])?;
    let rows = s.emit(Op::Pad(smallvec![PadDim { low: 0, high: 1, interior: 0 }, PadDim::default()]), &[row, zero])?;
    let dims = DotDims { lhs_contract: smallvec![1], rhs_contract: dims.rhs_contract.clone(), ..DotDims::default() };
    let y = s.emit(Op::DotGeneral { dims, out: *out, precision: *precision }, &[rows, x[1]])?;
    let first = Op::Slice { start: smallvec![0, 0], limit: smallvec![1, columns], stride: smallvec![1, 1] };
    let y = s.emit(first, &[y])?;
    s.emit(Op::Reshape(result), &[y]).map(Some)
}

/// One row of `bf16` times a matrix.
pub(super) fn is_single_row(dims: &DotDims, x: &TensorType, matrix: &TensorType) -> bool {
    x.dtype == DType::BF16
        && matrix.rank() == 2
        && dims.lhs_batch.is_empty()
        && dims.lhs_contract.len() == 1
        && x.dims[dims.lhs_contract[0]] == x.numel()
}
