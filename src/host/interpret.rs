//! A plan run step by step.

use super::plan::{Amount, Place, Plan, Step};
use super::{Contradiction, Sizes};
use crate::capture::expr::{ExprTable, Size};

/// As [`super::Solver::solve`], without machine code. A number that overflows contradicts its step.
///
/// # Errors
/// At the first step that the sizes contradict; at step 0 when there are fewer sizes or less room than the plan says.
pub fn interpret(plan: &Plan, exprs: &ExprTable, sizes: Sizes<'_>, symbols: &mut [i64]) -> Result<(), Contradiction> {
    if !plan.fits(sizes, symbols) {
        return Err(Contradiction(0));
    }
    for (i, step) in plan.steps.iter().enumerate() {
        apply(step, exprs, sizes, symbols).ok_or(Contradiction(i))?;
    }
    Ok(())
}

fn apply(step: &Step, exprs: &ExprTable, sizes: Sizes<'_>, symbols: &mut [i64]) -> Option<()> {
    let read = match step.place() {
        Place::Integer(i) => *sizes.integers.get(i)?,
        Place::Axis { tensor, axis } => *sizes.tensors.get(tensor)?.get(axis)?,
    };
    match step {
        Step::Solve { symbol, scale, offset, .. } => {
            let (scale, offset) = (amount(scale, exprs, symbols)?, amount(offset, exprs, symbols)?);
            let rest = read.checked_sub(offset)?;
            let value = rest.checked_div(scale)?;
            if value.checked_mul(scale)? != rest {
                return None;
            }
            *symbols.get_mut(*symbol as usize)? = value;
        }
        Step::Check { size, .. } => {
            if exprs.eval(Size::Expr(*size), symbols).ok()? != read {
                return None;
            }
        }
    }
    Some(())
}

fn amount(amount: &Amount, exprs: &ExprTable, symbols: &[i64]) -> Option<i64> {
    match amount {
        Amount::Const(c) => Some(*c),
        Amount::Size(id) => exprs.eval(Size::Expr(*id), symbols).ok(),
        Amount::Sum(a, b) => self::amount(a, exprs, symbols)?.checked_add(self::amount(b, exprs, symbols)?),
        Amount::Product(a, b) => self::amount(a, exprs, symbols)?.checked_mul(self::amount(b, exprs, symbols)?),
    }
}
