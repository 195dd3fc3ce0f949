//! Errors of lowering.

use clutch_graph::GraphError;

use crate::capture::expr::ExprError;

/// Why one call could not be lowered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LowerError {
    /// The operator, or this use of it, is not supported; it can run in eager.
    #[error("{0}")]
    Unsupported(String),
    /// An argument is missing or of another kind than the operator's schema says.
    #[error("argument {index} ({name}) is not {expected}")]
    Argument {
        /// Position.
        index: usize,
        /// Name in the schema.
        name: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// The lowering built a graph that breaks a shape rule: a fault of the compiler.
    #[error("internal: {0}")]
    Graph(#[from] GraphError),
    /// A size expression has no value.
    #[error(transparent)]
    Size(#[from] ExprError),
}

impl LowerError {
    /// This use of the operator is not supported.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        LowerError::Unsupported(reason.into())
    }
}

/// A call that could not be lowered.
#[derive(Debug, Clone, PartialEq)]
pub struct Unsupported {
    /// Number of the node in the program.
    pub node: usize,
    /// The operator.
    pub target: String,
    /// Name of the FX node.
    pub name: String,
    /// The user's line, when known.
    pub line: Option<String>,
    /// Why.
    pub error: LowerError,
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (node {})", self.target, self.name)?;
        if let Some(line) = &self.line {
            write!(f, " at {line}")?;
        }
        write!(f, ": {}", self.error)
    }
}
