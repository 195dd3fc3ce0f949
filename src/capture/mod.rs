//! Capture: from PyTorch's FX graph to a [`program::Program`], and from there to a [`clutch_graph::Graph`].

pub mod canonical;
pub mod expr;
pub mod layout;
pub mod lower;
pub mod program;
pub mod read;
#[cfg(feature = "python")]
pub mod walk;
