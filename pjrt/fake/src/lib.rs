//! A PJRT plugin that runs nothing, for tests of what happens when a plugin fails.
//!
//! It compiles any HLO module with a program shape. Executing copies argument *i* to output *i* where their sizes
//! agree and fills the others with zeros. Executables serialise, and load again while the platform version is the
//! same. Every call can be made to fail, see [`control`]; handles alive are counted, so tests can find leaks.
//!
//! Two copies of the library file are two plugins with separate state.

pub mod control;

mod buffer;
mod client;
mod event;
mod executable;
mod handle;
mod program;
mod table;
mod topology;
