//! Errors of building and checking graphs.

use crate::op::Op;

/// A graph that breaks the rules of the IR. Always a fault of the compiler, never of the user's model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// The shape rule refuses the operands.
    #[error("{op}: {reason}")]
    Shape {
        /// Name of the op with its attributes.
        op: String,
        /// What is wrong.
        reason: String,
    },
    /// An operand names a value that is not in the graph.
    #[error("value %{node}.{output} is not in the graph")]
    UnknownValue {
        /// Node number.
        node: u32,
        /// Result number.
        output: u32,
    },
    /// The verifier found a broken invariant.
    #[error("node %{node}: {reason}")]
    Invalid {
        /// Node number.
        node: u32,
        /// The broken invariant.
        reason: String,
    },
    /// The verifier found a fault in what the graph takes or returns.
    #[error("graph: {reason}")]
    Interface {
        /// The broken invariant.
        reason: String,
    },
    /// The text form could not be read.
    #[error("line {line}: {reason}")]
    Parse {
        /// Line number from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A literal's bytes do not match its type.
    #[error(transparent)]
    Literal(#[from] crate::literal::LiteralSizeError),
}

impl GraphError {
    /// A shape-rule error of `op`.
    pub fn shape(op: &Op, reason: impl Into<String>) -> Self {
        let mut name = format!("{op:?}");
        if name.len() > 200 {
            let mut end = 200;
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            name.truncate(end);
            name.push_str("...");
        }
        GraphError::Shape { op: name, reason: reason.into() }
    }
}
