//! The text form of graphs, which reads back to an equal graph.
//!
//! ```text
//! graph {
//!   %0 = parameter(0) : f32[8,256] static
//!   %1 = constant([1.0, 2.5]) : f32[2]
//!   %2:2 = top_k(%0) k=4 largest=true : (f32[8,4], s64[8,4])
//!   return %2.0, %2.1
//!   alias 0 <- parameter 1
//! }
//! ```
//!
//! A value is `%name`, followed by `.n` for result n of a node of several; a node of other than one result gives their count after `:`.
//! Names are node numbers when printed and any word when read. Attributes are `name=value`, where a value is a word or number, a list
//! `[a,b]`, a record `{name=value ...}` or a nested `graph { ... }`. The result type stands last and also carries the types and sizes
//! that an op would otherwise have as attributes. `static` marks parameters of [`crate::InputKind::Static`]. Line breaks mean nothing;
//! `#` comments to the end of the line.
//!
//! Constants are one element for all (`constant(1.5) : f32[8]`), a row-major list, or `hex` and the dense little-endian bytes. Floats are
//! written as the shortest decimal that reads back to the same value; `nan` is the quiet NaN without payload, any other NaN is its bits as
//! `0x...`; complex elements are `(re, im)`.

mod attr;
mod lex;
mod literal;
mod parse;
mod print;
mod schema;

pub use parse::{parse, parse_literal};

/// How deep graphs may nest in graphs.
pub const MAX_NESTING: usize = 32;
