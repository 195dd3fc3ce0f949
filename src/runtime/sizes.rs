//! The symbols of a call, from the sizes of its arguments.

use pyo3::prelude::*;
use smallvec::SmallVec;

use super::dlpack::{DlTensor, Exchange};
use crate::capture::expr::Size;
use crate::capture::program::Program;
use crate::host::plan::{Place, Plan, Step};
use crate::host::{Contradiction, Sizes, Solver};
use crate::python::errors;

/// Values of the symbols, by number.
pub type Symbols = SmallVec<[i64; 4]>;

/// Computes the symbols of a program's calls.
pub enum SymbolSolver {
    /// The program has no symbols and reads no sizes.
    Static,
    /// Machine code, or the interpreter where there is none.
    Plan(Box<Solver>),
    /// The arguments leave a symbol open.
    Undetermined,
}

impl SymbolSolver {
    /// The solver of a program.
    pub fn of(program: &Program) -> Self {
        match Plan::of(program) {
            Some(plan) if plan.steps.is_empty() => SymbolSolver::Static,
            Some(plan) => SymbolSolver::Plan(Box::new(Solver::new(plan, &program.exprs))),
            None => SymbolSolver::Undetermined,
        }
    }

    /// Where a symbol comes from, in words; `names` is what the user calls each argument.
    pub fn origin(&self, symbol: u32, names: &[String]) -> String {
        let SymbolSolver::Plan(solver) = self else { return format!("size {symbol}") };
        let plan = solver.plan();
        let found = plan.steps.iter().find(|s| matches!(s, Step::Solve { symbol: s, .. } if *s == symbol));
        let name = |i: usize| names.get(i).cloned().unwrap_or_else(|| format!("argument {i}"));
        match found.map(Step::place) {
            Some(Place::Integer(i)) => name(plan.integers[i]),
            Some(Place::Axis { tensor, axis }) => format!("axis {axis} of {}", name(plan.tensors[tensor].0)),
            None => format!("size {symbol}"),
        }
    }

    /// The symbols' values that the arguments of a call give.
    ///
    /// # Errors
    /// SizeError when the sizes contradict one another.
    pub fn symbols(&self, program: &Program, exchange: &Exchange, args: &[Bound<'_, PyAny>]) -> PyResult<Symbols> {
        let solver = match self {
            SymbolSolver::Static => return Ok(Symbols::new()),
            SymbolSolver::Undetermined => {
                return Err(errors::internal("the sizes of the arguments do not determine all symbols".to_owned()));
            }
            SymbolSolver::Plan(solver) => solver,
        };
        let plan = solver.plan();
        let argument = |i: usize| args.get(i).ok_or_else(|| errors::internal(format!("argument {i} is missing")));
        let mut views: SmallVec<[DlTensor; 8]> = SmallVec::new();
        for &(i, rank) in &plan.tensors {
            let view = exchange.view(argument(i)?)?;
            if view.dims().len() != rank {
                return Err(errors::internal(format!("argument {i} has {} axes where {rank} were captured", view.dims().len())));
            }
            views.push(view);
        }
        let tensors: SmallVec<[&[i64]; 8]> = views.iter().map(DlTensor::dims).collect();
        let integers = plan.integers.iter().map(|&i| argument(i)?.extract::<i64>()).collect::<PyResult<SmallVec<[i64; 8]>>>()?;
        let mut symbols: Symbols = smallvec::smallvec![0; program.exprs.symbols().len()];
        let sizes = Sizes { tensors: &tensors, integers: &integers };
        match solver.solve(sizes, &mut symbols) {
            Ok(()) => Ok(symbols),
            Err(step) => Err(contradiction(program, plan, sizes, &symbols, step)),
        }
    }
}

fn contradiction(program: &Program, plan: &Plan, sizes: Sizes<'_>, symbols: &[i64], Contradiction(step): Contradiction) -> PyErr {
    let (place, expr) = (plan.steps[step].place(), plan.expressions[step]);
    let (what, found) = match place {
        Place::Integer(i) => (format!("argument {}", plan.integers[i]), sizes.integers[i]),
        Place::Axis { tensor, axis } => (format!("axis {axis} of argument {}", plan.tensors[tensor].0), sizes.tensors[tensor][axis]),
    };
    let formula = program.exprs.display(expr).to_string();
    let wanted = match program.exprs.eval(Size::Expr(expr), symbols) {
        Ok(value) if matches!(plan.steps[step], Step::Check { .. }) => format!("{formula} = {value}"),
        _ => formula,
    };
    let message =
        format!("the sizes of the arguments contradict one another: {what} is {found}, but the program was captured with {wanted}");
    Python::attach(|py| errors::new(py, "SizeError", &message))
}
