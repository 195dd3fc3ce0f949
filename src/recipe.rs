//! What a compiled program needs beside the executables: where arguments come from and where results go.

use clutch_graph::TensorType;
use clutch_graph::op::Axes;

use crate::capture::lower::{Sink, Source};
use crate::weight_values::WeightValue;

/// Where one argument of an executable comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// From the program: a placeholder, a constant, the seed.
    Program(Source),
    /// Result of the weight program.
    Weight(usize),
}

/// One executable's interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Source, type in memory order, and whether it is kept across calls, of each argument.
    pub arguments: Vec<(Argument, TensorType, bool)>,
    /// Type of each output, in memory order.
    pub outputs: Vec<TensorType>,
}

/// A compiled program's plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// The program run on each call.
    pub main: Interface,
    /// The program run when weights change.
    pub weights: Option<Interface>,
    /// Each result of the program run when weights change.
    pub weight_values: Vec<WeightValue>,
    /// Each result of the FX graph.
    pub sinks: Vec<Sink>,
    /// Written-back placeholders: (placeholder, main output).
    pub mutations: Vec<(usize, usize)>,
    /// Main outputs that must be true, and what to say when one is not.
    pub assertions: Vec<(usize, String)>,
    /// Donated arguments: (main argument, main output that takes over its memory).
    pub donated: Vec<(usize, usize)>,
    /// Number of placeholders of the FX graph.
    pub inputs: usize,
    /// For each placeholder that is written back: its memory order.
    pub mutation_orders: Vec<Axes>,
}

impl Recipe {
    /// Whether the program draws random numbers.
    pub fn needs_seed(&self) -> bool {
        self.main.arguments.iter().any(|(a, _, _)| *a == Argument::Program(Source::Seed))
    }
}
