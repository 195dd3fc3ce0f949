//! Emission: a graph becomes a serialised `HloModuleProto`.
//!
//! [`emit`] is a pure function: ids and names follow positions, nothing depends on addresses or hash order, and no metadata is written,
//! so equal graphs give equal bytes. Composites must have been expanded before. Where XLA leaves an operation's result open or differs
//! from the contract in [`clutch_graph::op`], emission writes the instructions that restore it; each such place says so.

mod body;
mod control;
mod convert;
mod data;
mod elementwise;
mod helpers;
mod index;
mod linear;
mod lower;
mod minmax;
mod module;
mod power;
mod proto;
mod reduce;
mod sort;
mod text;
mod text_attributes;
mod text_literal;
mod types;

use clutch_graph::{DType, Graph};
use prost::Message;

use self::module::Module;

/// How the target treats what HLO leaves open. The default is right for every target that follows HLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EmitOptions {
    /// `convert` from floats to integers saturates and turns NaN into 0. Otherwise comparisons that do so are written out.
    pub convert_saturates: bool,
    /// `maximum` and `minimum` may lose a NaN, as XLA's CPU compiler does without [`CPU_OVERRIDES`]. Comparisons that keep it are then
    /// written out.
    pub max_drops_nan: bool,
}

/// Compile option overrides that [`EmitOptions::for_platform`] counts on for `cpu`: without them the CPU compiler's `maximum(x, NaN)` is
/// x. A plugin that refuses them needs [`EmitOptions::max_drops_nan`].
pub const CPU_OVERRIDES: &[(&str, bool)] = &[("xla_cpu_enable_fast_min_max", false)];

impl EmitOptions {
    /// What is known of a PJRT platform, by the name its plugin gives, as in `cpu`.
    pub fn for_platform(platform: &str) -> Self {
        EmitOptions { convert_saturates: platform.eq_ignore_ascii_case("cpu"), max_drops_nan: false }
    }
}

/// A graph that cannot be emitted. Always a fault of the compiler: capture and passes must not let such a graph through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// A composite reached emission; the expansion pass did not run or does not know it.
    #[error("compiler fault: node %{node}: composite `{op}` was not expanded before emission")]
    Composite {
        /// Node number in its graph.
        node: u32,
        /// Name of the op.
        op: &'static str,
    },
    /// The op has no HLO form for this element type or these attributes.
    #[error("compiler fault: node %{node}: `{op}` of {dtype} has no HLO form: {reason}")]
    Unsupported {
        /// Node number in its graph.
        node: u32,
        /// Name of the op.
        op: &'static str,
        /// Element type of the first operand, or of the result without operands.
        dtype: DType,
        /// Why not.
        reason: &'static str,
    },
    /// A donation that does not fit its output and parameter.
    #[error("compiler fault: output {output} cannot take over parameter {parameter}: {reason}")]
    Alias {
        /// Output number.
        output: usize,
        /// Parameter number.
        parameter: usize,
        /// What is wrong.
        reason: &'static str,
    },
}

/// An emitted program, ready for a PJRT plugin under the program format `hlo`.
///
/// The program takes the graph's parameters in order and returns a tuple of its outputs, a tuple also for a single one. Arrays are
/// row-major. The graph's aliases are the module's input-output aliases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HloProgram {
    /// The serialised `HloModuleProto`.
    pub bytes: Vec<u8>,
    /// Instructions in all computations.
    pub instruction_count: usize,
}

/// Name of the PJRT program format of [`HloProgram::bytes`].
pub const PROGRAM_FORMAT: &str = "hlo";

impl HloProgram {
    /// The program as HLO text.
    pub fn text(&self) -> String {
        hlo_text(&self.bytes).expect("a program holds the bytes that emission encoded")
    }
}

/// Serialised bytes that are no HLO module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a serialised HLO module: {0}")]
pub struct DecodeError(#[from] prost::DecodeError);

/// HLO text of a serialised `HloModuleProto`. Fields that Clutch does not write are left out, constants of more than 32 elements are
/// shown as `{...}`.
///
/// # Errors
/// When the bytes are no such message.
pub fn hlo_text(bytes: &[u8]) -> Result<String, DecodeError> {
    Ok(text::module(&proto::HloModuleProto::decode(bytes)?))
}

/// Emits a graph whose composites are expanded.
///
/// Nodes that no output needs are left out; parameters all stay.
///
/// # Errors
/// See [`EmitError`].
pub fn emit(graph: &Graph, options: &EmitOptions) -> Result<HloProgram, EmitError> {
    let mut module = Module::new(*options);
    for (nested, calling) in control::nested_graphs(graph) {
        module.add_nested(nested, calling)?;
    }
    let (proto, instruction_count) = module.finish(graph)?;
    Ok(HloProgram { bytes: proto.encode_to_vec(), instruction_count })
}
