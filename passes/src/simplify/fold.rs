//! Constant folding with a budget.

use clutch_graph::builder::Builder;
use clutch_graph::{GraphError, Literal, Op, ValueId, interpret};

use crate::simplify::Simplifier;

/// Folding reads at most this many times the budget.
const READ_FACTOR: usize = 16;

/// An op on constants alone becomes a constant by the reference interpreter, when the result fits the budget. Ops that grow their operands
/// (broadcasts, iotas) and bodies stay: a device makes their results faster than it reads them.
pub(super) fn rules(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Result<Option<ValueId>, GraphError> {
    if x.is_empty() || !foldable(op) {
        return Ok(None);
    }
    let mut read = 0;
    for &v in x {
        let Op::Constant(literal) = &s.def(v).op else { return Ok(None) };
        read += literal.bytes().len();
    }
    if read > s.options.fold_budget_bytes.saturating_mul(READ_FACTOR) {
        return Ok(None);
    }
    let mut b = Builder::new();
    let mut operands = Vec::with_capacity(x.len());
    for &v in x {
        operands.push(b.op(s.def(v).op.clone(), [])?);
    }
    let result = b.op(op.clone(), operands)?;
    if b.ty(result).byte_size() > s.options.fold_budget_bytes {
        return Ok(None);
    }
    let inputs: [Literal; 0] = [];
    match interpret(&b.finish([result]), &inputs) {
        Ok(results) => match results.into_iter().next() {
            Some(literal) => s.emit(Op::Constant(literal), &[]).map(Some),
            None => Ok(None),
        },
        Err(_) => Ok(None),
    }
}

fn foldable(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Convert(_)
            | Op::Bitcast(_)
            | Op::Transpose(_)
            | Op::Slice { .. }
            | Op::Pad(_)
            | Op::Concat(_)
            | Op::Reverse(_)
            | Op::Reduce { .. }
            | Op::Gather(_)
            | Op::DynamicSlice(_)
    )
}
