//! What can go wrong in a pass.

use clutch_graph::GraphError;

/// A pass failed. Always a fault of the compiler, never of the user's model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// A pass built a node that the shape rules refuse.
    #[error("internal error in pass `{pass}`: {source}")]
    Graph {
        /// Name of the pass.
        pass: &'static str,
        /// What was refused.
        source: GraphError,
    },
    /// Bodies of loops, branches and calls are nested deeper than passes follow.
    #[error("graph bodies are nested deeper than {limit}")]
    Nesting {
        /// The limit.
        limit: usize,
    },
}
