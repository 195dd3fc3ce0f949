//! The pipeline: a captured program becomes executables. Lower, run the passes, split off the weights, emit, compile.

use std::path::PathBuf;
use std::time::Instant;

use clutch_graph::op::Precision;
use clutch_graph::{Graph, GraphError};
use clutch_passes::{PassError, PassOptions, PassReport};
use clutch_pjrt::{CompileOptions, Executable, LoadedExecutable, ProgramFormat};

use crate::capture::lower::{LowerError, LowerOptions, Lowered, Source, Unsupported, lower};
use crate::capture::program::Program;
use crate::dump;
use crate::emit::{EmitError, EmitOptions, emit};
use crate::metrics::{METRICS, count, count_n, time};
use crate::recipe::{Argument, Interface, Recipe};
use crate::runtime::device::Device;

/// Choices of one compilation; all that change code are part of the keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Accuracy of float32 products.
    pub precision: Precision,
    /// No gradients are computed: what depends on weights alone may be split off.
    pub inference: bool,
    /// Largest constant, in bytes, that folding may create.
    pub fold_budget_bytes: usize,
    /// Where graphs and programs are written for people to read.
    pub dump_dir: Option<PathBuf>,
    /// Keep the texts for [`Report`].
    pub keep_texts: bool,
}

/// Why a program could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A size expression has no value, or an internal fault of lowering.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A fault of the compiler: the graph breaks the IR's rules.
    #[error("internal: {0}")]
    Graph(#[from] GraphError),
    /// A fault of the compiler in a pass.
    #[error("internal: {0}")]
    Pass(#[from] PassError),
    /// A fault of the compiler in emission, or a type that the target lacks.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// The plugin refused.
    #[error(transparent)]
    Plugin(#[from] clutch_pjrt::Error),
}

/// Compiled code.
#[derive(Debug)]
pub enum Code {
    /// Loaded on a device of this process.
    Loaded(LoadedExecutable),
    /// Compiled for a device that is not here.
    Elsewhere(Executable),
}

impl Code {
    /// The executable's description.
    pub fn executable(&self) -> &Executable {
        match self {
            Code::Loaded(loaded) => loaded.executable(),
            Code::Elsewhere(executable) => executable,
        }
    }
}

/// Times and texts of one build.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Nanoseconds in lowering, passes, emission and the plugin.
    pub lower_ns: u64,
    /// Nanoseconds in the passes.
    pub passes_ns: u64,
    /// Nanoseconds in emission.
    pub emit_ns: u64,
    /// Nanoseconds in the plugin's compiler.
    pub compile_ns: u64,
    /// Nodes of the graph before and after the passes.
    pub nodes: (usize, usize),
    /// Instructions of the emitted program.
    pub instructions: usize,
    /// Bytes of the emitted program.
    pub hlo_bytes: usize,
    /// Each pass.
    pub passes: Option<PassReport>,
    /// Text of the graph after the passes, when texts are kept.
    pub graph_text: Option<String>,
    /// Text of the emitted program, when texts are kept.
    pub hlo_text: Option<String>,
}

/// A program ready to run.
#[derive(Debug)]
pub struct Artifact {
    /// Where arguments come from and results go.
    pub recipe: Recipe,
    /// The program run on each call.
    pub main: Code,
    /// The program run when weights change.
    pub weights: Option<Code>,
    /// Times and texts.
    pub report: Report,
}

/// The outcome of a build.
#[derive(Debug)]
pub enum Built {
    /// Ready.
    Ready(Box<Artifact>),
    /// These calls cannot be lowered; nothing was compiled.
    Unsupported(Vec<Unsupported>),
}

/// Builds `program` for the given value of each symbol.
///
/// # Errors
/// On faults of the compiler and when the plugin refuses; unsupported calls are an outcome, not an error.
pub fn build(program: &Program, symbols: &[i64], device: &Device, config: &Config) -> Result<Built, BuildError> {
    let mut report = Report::default();
    let start = Instant::now();
    let lowered = lower(program, symbols, LowerOptions { precision: config.precision })?;
    report.lower_ns = nanos(start);
    time(&METRICS.lower_ns, start.elapsed());
    if !lowered.unsupported.is_empty() {
        return Ok(Built::Unsupported(lowered.unsupported));
    }
    let Lowered { graph, sources, sinks, mutations, .. } = lowered;
    report.nodes.0 = graph.nodes().len();

    let start = Instant::now();
    let target = if device.is_cpu() { clutch_passes::Target::Cpu } else { clutch_passes::Target::Tpu };
    let options = PassOptions {
        target,
        fold_budget_bytes: config.fold_budget_bytes,
        inference: config.inference,
        ..PassOptions::default()
    };
    let (graph, passes) = clutch_passes::run(graph, &options)?;
    let split = Split { main_parameters: (0..graph.parameters().len()).map(ParameterSource::Original).collect(), main: graph, weights: None };
    report.passes_ns = nanos(start);
    time(&METRICS.passes_ns, start.elapsed());
    count_n(&METRICS.passes_run, passes.passes.len() as u64);
    report.passes = Some(passes);
    report.nodes.1 = split.main.nodes().len();

    let arguments = |parameters: &[ParameterSource]| -> Vec<Argument> {
        parameters
            .iter()
            .map(|p| match *p {
                ParameterSource::Original(i) => Argument::Program(sources[i].clone()),
                ParameterSource::Weight(i) => Argument::Weight(i),
            })
            .collect()
    };
    let main_interface = interface(&split.main, arguments(&split.main_parameters));
    let mutation_orders = mutations
        .iter()
        .map(|(input, _)| {
            let order = sources.iter().find_map(|s| match s {
                Source::Input { index, order } if index == input => Some(order.clone()),
                _ => None,
            });
            order.unwrap_or_default()
        })
        .collect();
    let main = compile(&split.main, device, config, "main", &mut report)?;
    let (weights, weights_interface) = match &split.weights {
        Some(w) => {
            let interface = interface(&w.graph, arguments(&w.parameters));
            (Some(compile(&w.graph, device, config, "weights", &mut report)?), Some(interface))
        }
        None => (None, None),
    };
    let recipe =
        Recipe { main: main_interface, weights: weights_interface, sinks, mutations, inputs: program.inputs.len(), mutation_orders };
    Ok(Built::Ready(Box::new(Artifact { recipe, main, weights, report })))
}

fn nanos(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn interface(graph: &Graph, arguments: Vec<Argument>) -> Interface {
    let kinds = &graph.input_kinds;
    Interface {
        arguments: arguments
            .into_iter()
            .zip(graph.parameter_types())
            .zip(kinds)
            .map(|((a, ty), kind)| (a, ty.clone(), *kind == clutch_graph::InputKind::Static))
            .collect(),
        outputs: graph.output_types().cloned().collect(),
    }
}

fn compile(graph: &Graph, device: &Device, config: &Config, role: &str, report: &mut Report) -> Result<Code, BuildError> {
    let start = Instant::now();
    let program = emit(graph, &EmitOptions::default())?;
    report.emit_ns += nanos(start);
    time(&METRICS.emit_ns, start.elapsed());
    count(&METRICS.emits);
    report.instructions += program.instruction_count;
    report.hlo_bytes += program.bytes.len();
    if config.keep_texts || config.dump_dir.is_some() {
        let (graph_text, hlo_text) = (graph.to_string(), program.text());
        if let Some(dir) = &config.dump_dir {
            dump::write(dir, role, &graph_text, &hlo_text);
        }
        if config.keep_texts && role == "main" {
            (report.graph_text, report.hlo_text) = (Some(graph_text), Some(hlo_text));
        }
    }
    let start = Instant::now();
    let options = CompileOptions::default();
    let code = match device {
        Device::Here(client) => Code::Loaded(client.compile(&program.bytes, ProgramFormat::Hlo, &options)?),
        Device::Elsewhere(topology) => Code::Elsewhere(topology.compile(&program.bytes, ProgramFormat::Hlo, &options)?),
    };
    report.compile_ns += nanos(start);
    time(&METRICS.compile_ns, start.elapsed());
    count(&METRICS.compiles);
    Ok(code)
}

enum ParameterSource { Original(usize), Weight(usize) }
struct Split { main: Graph, main_parameters: Vec<ParameterSource>, weights: Option<W> }
struct W { graph: Graph, parameters: Vec<ParameterSource> }
