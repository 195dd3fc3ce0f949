//! The tensor graph IR of Clutch: element types, ops with their shape rules, graphs with their builder, verifier, text form and
//! reference interpreter.

pub mod builder;
pub mod dtype;
pub mod error;
pub mod float8;
pub mod graph;
pub mod infer;
mod infer_attention;
mod infer_index;
mod infer_linear;
pub mod interp;
pub mod literal;
pub mod op;
mod op_names;
pub mod text;
pub mod types;
pub mod verify;

pub use builder::Builder;
pub use dtype::DType;
pub use error::GraphError;
pub use graph::{Alias, Graph, InputKind, Node, NodeId, ValueId};
pub use interp::{InterpError, interpret};
pub use literal::Literal;
pub use op::Op;
pub use op_names::NumericClass;
pub use text::{parse, parse_literal};
pub use types::{Dims, TensorType};
pub use verify::verify;
