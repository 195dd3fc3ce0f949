//! Host glue: what a call computes from the sizes of its arguments before anything runs on the device. A [`plan::Plan`] is made once per
//! captured program; [`jit`] compiles it with Cranelift, [`interpret`] does the same without a JIT.

pub mod interpret;
pub mod jit;
pub mod plan;

use crate::capture::expr::ExprTable;
use interpret::interpret;
use jit::Code;
use plan::Plan;

/// The sizes of a call's arguments, in the order of the plan's tensors and integers.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'a> {
    /// For each tensor of the plan, its sizes; at least as many axes as the plan says.
    pub tensors: &'a [&'a [i64]],
    /// For each integer of the plan, its value.
    pub integers: &'a [i64],
}

/// A step that the sizes of a call do not satisfy, by its position in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction(pub usize);

/// Computes the symbols of a program from the sizes of its arguments.
#[derive(Debug)]
pub struct Solver {
    plan: Plan,
    exprs: ExprTable,
    code: Option<Code>,
}

impl Solver {
    /// A solver of `plan`, compiled where this host allows it.
    pub fn new(plan: Plan, exprs: &ExprTable) -> Self {
        let code = match Code::of(&plan, exprs) {
            Ok(code) => Some(code),
            Err(reason) => {
                tracing::debug!(%reason, "sizes are computed by the interpreter");
                None
            }
        };
        Solver { plan, exprs: exprs.clone(), code }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether the plan runs as machine code.
    pub fn is_compiled(&self) -> bool {
        self.code.is_some()
    }

    /// Writes the value of each symbol, by number, to `symbols`, which has room for all.
    ///
    /// # Errors
    /// At the first step that the sizes contradict; at step 0 when there are fewer sizes or less room than the plan says.
    pub fn solve(&self, sizes: Sizes<'_>, symbols: &mut [i64]) -> Result<(), Contradiction> {
        match &self.code {
            Some(code) => code.run(&self.plan, sizes, symbols),
            None => interpret(&self.plan, &self.exprs, sizes, symbols),
        }
    }
}

#[cfg(test)]
mod tests;
