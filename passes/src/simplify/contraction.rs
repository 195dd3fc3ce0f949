//! Rules on dots.

use clutch_graph::op::{Axes, DotDims};
use clutch_graph::{GraphError, Op, ValueId};

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
