//! The steps that give a program's symbols from the sizes of its arguments.

use super::Sizes;
use crate::capture::expr::{Expr, ExprId, ExprTable, Size};
use crate::capture::program::{Meta, Program};

/// Where a size is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An integer argument, by position in [`Plan::integers`].
    Integer(usize),
    /// A size of a tensor.
    Axis {
        /// The tensor by position in [`Plan::tensors`].
        tensor: usize,
        /// The axis.
        axis: usize,
    },
}

/// A number computed from symbols that are known at its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number.
    Const(i64),
    /// An expression without unknown symbols.
    Size(ExprId),
    /// Sum.
    Sum(Box<Amount>, Box<Amount>),
    /// Product.
    Product(Box<Amount>, Box<Amount>),
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The size read is `scale * symbol + offset`: gives the symbol. Contradicted when no whole symbol fits, and by scale 0.
    Solve {
        /// The symbol's number.
        symbol: u32,
        /// Where the size is read.
        place: Place,
        /// Factor of the symbol.
        scale: Amount,
        /// What is added.
        offset: Amount,
    },
    /// The size read must be this one.
    Check {
        /// Where the size is read.
        place: Place,
        /// The expression it must equal.
        size: ExprId,
    },
}

impl Step {
    /// Where the step reads.
    pub fn place(&self) -> Place {
        match self {
            Step::Solve { place, .. } | Step::Check { place, .. } => *place,
        }
    }
}

/// What a call reads and computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Placeholder and number of axes of each tensor that is read.
    pub tensors: Vec<(usize, usize)>,
    /// Placeholder of each integer that is read.
    pub integers: Vec<usize>,
    /// The steps in order.
    pub steps: Vec<Step>,
    /// The expression that each step reads, for messages.
    pub expressions: Vec<ExprId>,
}

impl Plan {
    /// The plan of a program; `None` when its placeholders do not determine every symbol.
    pub fn of(program: &Program) -> Option<Plan> {
        let mut plan = Plan::default();
        let mut equations: Vec<(ExprId, Place)> = Vec::new();
        for (i, input) in program.inputs.iter().enumerate() {
            match &input.meta {
                Meta::Int(Size::Expr(id)) => {
                    equations.push((*id, Place::Integer(plan.integers.len())));
                    plan.integers.push(i);
                }
                Meta::Tensor(t) if t.shape.iter().any(|s| matches!(s, Size::Expr(_))) => {
                    let tensor = plan.tensors.len();
                    for (axis, size) in t.shape.iter().enumerate() {
                        if let Size::Expr(id) = size {
                            equations.push((*id, Place::Axis { tensor, axis }));
                        }
                    }
                    plan.tensors.push((i, t.shape.len()));
                }
                _ => {}
            }
        }
        plan.order(&program.exprs, equations).then_some(plan)
    }

    /// Whether there is a size for each that the plan reads, and room for each symbol.
    pub(super) fn fits(&self, sizes: Sizes<'_>, symbols: &[i64]) -> bool {
        let last = self.steps.iter().filter_map(|s| if let Step::Solve { symbol, .. } = s { Some(*symbol as usize) } else { None }).max();
        sizes.tensors.len() >= self.tensors.len()
            && sizes.integers.len() >= self.integers.len()
            && last.is_none_or(|last| last < symbols.len())
            && self.tensors.iter().zip(sizes.tensors).all(|((_, rank), dims)| dims.len() >= *rank)
    }

    /// Orders the equations so that each is solved for one symbol or checked; whether all symbols come out.
    pub(super) fn order(&mut self, exprs: &ExprTable, mut equations: Vec<(ExprId, Place)>) -> bool {
        let mut known = vec![false; exprs.symbols().len()];
        loop {
            let mut rest = Vec::new();
            let before = equations.len();
            for (id, place) in equations {
                match linear(exprs, id, &known) {
                    Some((None, _, _)) => self.steps.push(Step::Check { place, size: id }),
                    Some((Some(symbol), scale, offset)) if scale != Amount::Const(0) => {
                        known[symbol as usize] = true;
                        self.steps.push(Step::Solve { symbol, place, scale, offset });
                    }
                    _ => {
                        rest.push((id, place));
                        continue;
                    }
                }
                self.expressions.push(id);
            }
            if rest.is_empty() || rest.len() == before {
                return known.iter().all(|&k| k);
            }
            equations = rest;
        }
    }
}

/// The expression as `scale * symbol + offset` with at most one unknown symbol.
fn linear(exprs: &ExprTable, id: ExprId, known: &[bool]) -> Option<(Option<u32>, Amount, Amount)> {
    let constant = |offset| Some((None, Amount::Const(0), offset));
    match *exprs.get(id) {
        Expr::Const(c) => constant(Amount::Const(c)),
        Expr::Symbol(s) if !*known.get(s as usize)? => Some((Some(s), Amount::Const(1), Amount::Const(0))),
        Expr::Symbol(_) => constant(Amount::Size(id)),
        Expr::Add(x, y) => match (linear(exprs, x, known)?, linear(exprs, y, known)?) {
            ((None, ..), (None, ..)) => constant(Amount::Size(id)),
            ((Some(s), ..), (Some(t), ..)) if s != t => None,
            ((s, a, b), (t, c, d)) => Some((s.or(t), sum(a, c), sum(b, d))),
        },
        Expr::Mul(x, y) => match (linear(exprs, x, known)?, linear(exprs, y, known)?) {
            ((None, ..), (None, ..)) => constant(Amount::Size(id)),
            ((s, a, b), (None, _, c)) | ((None, _, c), (s, a, b)) => Some((s, product(a, c.clone()), product(b, c))),
            _ => None,
        },
        Expr::FloorDiv(x, y) | Expr::Mod(x, y) | Expr::Min(x, y) | Expr::Max(x, y) | Expr::Pow(x, y) => {
            match (linear(exprs, x, known)?, linear(exprs, y, known)?) {
                ((None, ..), (None, ..)) => constant(Amount::Size(id)),
                _ => None,
            }
        }
    }
}

fn sum(a: Amount, b: Amount) -> Amount {
    match (a, b) {
        (Amount::Const(0), x) | (x, Amount::Const(0)) => x,
        (Amount::Const(x), Amount::Const(y)) if x.checked_add(y).is_some() => Amount::Const(x + y),
        (a, b) => Amount::Sum(Box::new(a), Box::new(b)),
    }
}

fn product(a: Amount, b: Amount) -> Amount {
    match (a, b) {
        (Amount::Const(0), _) | (_, Amount::Const(0)) => Amount::Const(0),
        (Amount::Const(1), x) | (x, Amount::Const(1)) => x,
        (Amount::Const(x), Amount::Const(y)) if x.checked_mul(y).is_some() => Amount::Const(x * y),
        (a, b) => Amount::Product(Box::new(a), Box::new(b)),
    }
}
