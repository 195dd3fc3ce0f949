//! The pipeline: a captured program becomes executables. Look up the graph key; else lower, run the passes, split off the weights, emit
//! and compile.

use std::path::PathBuf;
use std::time::Instant;

use clutch_cache::{KeyKind, KeyRecord, Metadata, Store};
use clutch_graph::graph::Alias;
use clutch_graph::op::Precision;
use clutch_graph::{Graph, GraphError, InputKind};
use clutch_passes::{ParameterSource, PassError, PassOptions, PassReport, Rewrite, Roll, split_weights};

use crate::capture::lower::{LowerError, LowerOptions, Lowered, Source, Unsupported, lower};
use crate::capture::program::Program;
use crate::compile::{self, Code, Compiled};
use crate::dump;
use crate::emit::{EmitError, EmitOptions, emit};
use crate::graph_entry::GraphEntry;
use crate::keys::graph_key;
use crate::metrics::{METRICS, count, count_n, time};
use crate::recipe::{Argument, Interface, Recipe};
use crate::runtime::device::Device;
use crate::weight_values::weight_values;

/// Choices of one compilation; all that change code are part of the keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Accuracy of float32 products.
    pub precision: Precision,
    /// No gradients are computed: what depends on weights alone may be split off.
    pub inference: bool,
    /// Inputs that the program writes to are donated: results are computed into their memory.
    pub donate: bool,
    /// Largest constant, in bytes, that folding may create.
    pub fold_budget_bytes: usize,
    /// Rewrites of the e-graph.
    pub rewrite: Rewrite,
    /// Repeated layers as loops.
    pub roll: Roll,
    /// PyTorch's version, as it stands in the graph key.
    pub torch_version: String,
    /// Where graphs and programs are written for people to read.
    pub dump_dir: Option<PathBuf>,
    /// Keep the texts for [`Report`]; then the graph key is not asked, since a hit has no texts.
    pub keep_texts: bool,
    /// Keep the emitted programs for [`Report`]; then the graph key is not asked, since a hit has none.
    pub keep_programs: bool,
}

impl Config {
    /// The choices that lowering makes.
    pub fn lower_options(&self) -> LowerOptions {
        LowerOptions { precision: self.precision, keep_no_ops: false }
    }

    /// Whether graphs are looked for in the cache: a hit has neither texts nor programs.
    fn asks_the_cache(&self) -> bool {
        !self.keep_texts && !self.keep_programs && self.dump_dir.is_none()
    }
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
    /// A program that is not ready is wanted while [`crate::strict`] forbids it.
    #[error("a new program would have to be compiled inside torch_clutch.strict()")]
    Strict,
    /// The plugin refused.
    #[error(transparent)]
    Plugin(#[from] clutch_pjrt::Error),
}

/// Times and texts of one build.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The graph key was in the cache: nothing else here was done.
    pub graph_hit: bool,
    /// Why the cache did not give the program, when it was asked.
    pub miss: Option<Miss>,
    /// Nanoseconds in lowering.
    pub lower_ns: u64,
    /// Nanoseconds in the passes.
    pub passes_ns: u64,
    /// Nanoseconds in emission.
    pub emit_ns: u64,
    /// Nanoseconds in the plugin's compiler and in the cache.
    pub compile_ns: u64,
    /// Nodes of the graph before and after the passes.
    pub nodes: (usize, usize),
    /// Instructions of the emitted programs.
    pub instructions: usize,
    /// Bytes of the emitted programs.
    pub hlo_bytes: usize,
    /// Each pass.
    pub passes: Option<PassReport>,
    /// Text of the graph after the passes, when texts are kept.
    pub graph_text: Option<String>,
    /// Text of the emitted program, when texts are kept.
    pub hlo_text: Option<String>,
    /// The main program and the weight program, when programs are kept.
    pub programs: Vec<KeptProgram>,
}

/// An emitted program.
#[derive(Clone, Debug)]
pub struct KeptProgram {
    /// Key of its executable.
    pub record: KeyRecord,
    /// The program.
    pub hlo: Vec<u8>,
    /// Whether its executable was compiled just now.
    pub fresh: bool,
}

/// Why the cache did not give a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// There is no entry of this graph key.
    Unknown,
    /// There is one, but an executable that it names is gone or damaged.
    ExecutableGone,
    /// The plugin does not load the executable.
    Refused,
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
    /// Key of the captured program.
    pub key: KeyRecord,
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
pub fn build(program: &Program, symbols: &[i64], device: &Device, config: &Config, store: Option<&Store>) -> Result<Built, BuildError> {
    build_lowered(program, symbols, None, device, config, store)
}

/// As [`build`] for a bucket: `sizes` are the bucket's and `lowered` is the masked program, see [`crate::bucket`]. Inputs are not donated,
/// since they are smaller than the results that they become.
///
/// # Errors
/// As [`build`].
pub fn build_bucket(
    program: &Program,
    sizes: &[i64],
    lowered: &Lowered,
    device: &Device,
    config: &Config,
    store: Option<&Store>,
) -> Result<Built, BuildError> {
    let config = Config { donate: false, ..config.clone() };
    build_lowered(program, sizes, Some(lowered), device, &config, store)
}

/// The program for the given sizes from the cache alone, if it is there; `padded` is a bucket's.
pub fn load(program: &Program, symbols: &[i64], padded: bool, device: &Device, config: &Config, store: Option<&Store>) -> Option<Artifact> {
    let store = store.filter(|_| config.asks_the_cache())?;
    let config = if padded { Config { donate: false, ..config.clone() } } else { config.clone() };
    let key = graph_key(program, symbols, padded, device, &config).ok()?;
    let artifact = from_cache(&key, device, store).ok()?;
    count(&METRICS.graph_hits);
    Some(artifact)
}

fn build_lowered(
    program: &Program,
    symbols: &[i64],
    bucket: Option<&Lowered>,
    device: &Device,
    config: &Config,
    store: Option<&Store>,
) -> Result<Built, BuildError> {
    let start = Instant::now();
    let key = graph_key(program, symbols, bucket.is_some(), device, config)?;
    time(&METRICS.cache_ns, start.elapsed());
    let mut miss = None;
    if let Some(store) = store
        && config.asks_the_cache()
    {
        match from_cache(&key, device, store) {
            Ok(artifact) => {
                count(&METRICS.graph_hits);
                return Ok(Built::Ready(Box::new(artifact)));
            }
            Err(reason) => miss = Some(reason),
        }
        count(&METRICS.graph_misses);
    }
    let start = Instant::now();
    let lowered = match bucket {
        Some(lowered) => lowered.clone(),
        None => lower(program, symbols, config.lower_options())?,
    };
    time(&METRICS.lower_ns, start.elapsed());
    if !lowered.unsupported.is_empty() {
        return Ok(Built::Unsupported(lowered.unsupported));
    }
    let report = Report { lower_ns: nanos(start), miss, ..Report::default() };
    Build { device, config, store, report }.finish(program, lowered, key).map(|a| Built::Ready(Box::new(a)))
}

/// The artifact of a graph key, when its entry and its executables are in the cache and load.
fn from_cache(key: &KeyRecord, device: &Device, store: &Store) -> Result<Artifact, Miss> {
    let start = Instant::now();
    let entry = store.get(key).and_then(|e| GraphEntry::decode(&e.payload));
    let parts = entry.ok_or(Miss::Unknown).and_then(|g| {
        let main = store.get(&g.main).ok_or(Miss::ExecutableGone)?;
        let weights = match &g.weights {
            Some(record) => Some(store.get(record).ok_or(Miss::ExecutableGone)?),
            None => None,
        };
        Ok((g.recipe, main, weights))
    });
    time(&METRICS.cache_ns, start.elapsed());
    let (recipe, main, weights) = parts?;
    let main = compile::load(main, device).ok_or(Miss::Refused)?;
    let weights = match weights {
        Some(entry) => Some(compile::load(entry, device).ok_or(Miss::Refused)?),
        None => None,
    };
    let report = Report { graph_hit: true, ..Report::default() };
    Ok(Artifact { recipe, main, weights, key: key.clone(), report })
}

fn nanos(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

struct Build<'a> {
    device: &'a Device,
    config: &'a Config,
    store: Option<&'a Store>,
    report: Report,
}

impl Build<'_> {
    fn finish(mut self, program: &Program, lowered: Lowered, key: KeyRecord) -> Result<Artifact, BuildError> {
        let Lowered { mut graph, sources, sinks, mutations, assertions, .. } = lowered;
        // A failed assertion leaves the inputs as they were.
        if self.config.donate && assertions.is_empty() {
            graph.aliases = aliases(&sources, &mutations);
        }
        self.report.nodes.0 = graph.nodes().len();
        if let Some(dir) = &self.config.dump_dir {
            dump::write_graph(dir, "captured", &graph.to_string());
        }
        let start = Instant::now();
        let options = PassOptions {
            target: if self.device.is_cpu() { clutch_passes::Target::Cpu } else { clutch_passes::Target::Tpu },
            fold_budget_bytes: self.config.fold_budget_bytes,
            inference: self.config.inference,
            rewrite: self.config.rewrite,
            roll: self.config.roll,
            device: self.cost_table()?,
            ..PassOptions::default()
        };
        let (graph, passes) = clutch_passes::run(graph, &options)?;
        let split = split_weights(&graph, &options)?;
        self.report.passes_ns = nanos(start);
        time(&METRICS.passes_ns, start.elapsed());
        count_n(&METRICS.passes_run, passes.passes.len() as u64 + 1);
        self.report.passes = Some(passes);
        self.report.nodes.1 = split.main.nodes().len();

        let arguments = split.parameters.iter().map(|p| match *p {
            ParameterSource::Original(i) => Argument::Program(sources[i].clone()),
            ParameterSource::Weight(i) => Argument::Weight(i),
        });
        let main_interface = interface(&split.main, arguments);
        let main = self.compile(&split.main, "main")?;
        let (weights, weights_interface, values) = match &split.weights {
            Some(w) => {
                let of: Vec<&Source> = w.inputs.iter().map(|&i| &sources[i]).collect();
                let interface = interface(&w.graph, of.iter().map(|&source| Argument::Program(source.clone())));
                (Some(self.compile(&w.graph, "weights")?), Some(interface), weight_values(&w.graph, &of))
            }
            None => (None, None, Vec::new()),
        };
        let recipe = Recipe {
            main: main_interface,
            weights: weights_interface,
            weight_values: values,
            mutation_orders: mutations.iter().map(|(input, _)| order_of(&sources, *input)).collect(),
            sinks,
            mutations,
            assertions,
            donated: split.main.aliases.iter().map(|a| (a.parameter, a.output)).collect(),
            inputs: program.inputs.len(),
        };
        self.remember(&key, &recipe, &main, weights.as_ref());
        tracing::info!(
            key = %key.key(),
            nodes = self.report.nodes.0,
            nodes_after_passes = self.report.nodes.1,
            instructions = self.report.instructions,
            hlo_bytes = self.report.hlo_bytes,
            lower_us = self.report.lower_ns / 1000,
            passes_us = self.report.passes_ns / 1000,
            emit_us = self.report.emit_ns / 1000,
            compile_us = self.report.compile_ns / 1000,
            weight_program = weights.is_some(),
            "a graph was compiled"
        );
        Ok(Artifact { recipe, main: main.code, weights: weights.map(|w| w.code), key, report: self.report })
    }

    /// The cost table of the device.
    fn cost_table(&self) -> Result<clutch_passes::Device, BuildError> {
        if self.device.is_cpu() {
            return Ok(clutch_passes::Device::Cpu);
        }
        Ok(clutch_passes::Device::of_tpu_kind(&self.device.identity()?.kind))
    }

    /// Puts the graph's entry into the cache when its executables are there.
    fn remember(&self, key: &KeyRecord, recipe: &Recipe, main: &Compiled, weights: Option<&Compiled>) {
        let Some(store) = self.store else { return };
        if !main.stored || weights.is_some_and(|w| !w.stored) {
            return;
        }
        let start = Instant::now();
        let entry = GraphEntry { recipe: recipe.clone(), main: main.record.clone(), weights: weights.map(|w| w.record.clone()) };
        let mut metadata = Metadata::new();
        metadata.insert("instructions".to_owned(), self.report.instructions.to_string());
        store.put(key, &metadata, &entry.encode());
        time(&METRICS.cache_ns, start.elapsed());
    }

    fn compile(&mut self, graph: &Graph, role: &str) -> Result<Compiled, BuildError> {
        let start = Instant::now();
        let program = emit(graph, &EmitOptions::default())?;
        self.report.emit_ns += nanos(start);
        time(&METRICS.emit_ns, start.elapsed());
        count(&METRICS.emits);
        self.report.instructions += program.instruction_count;
        self.report.hlo_bytes += program.bytes.len();
        if self.config.keep_texts || self.config.dump_dir.is_some() {
            let (graph_text, hlo_text) = (graph.to_string(), program.text());
            if let Some(dir) = &self.config.dump_dir {
                dump::write(dir, role, &graph_text, &hlo_text);
            }
            if self.config.keep_texts && role == "main" {
                (self.report.graph_text, self.report.hlo_text) = (Some(graph_text), Some(hlo_text));
            }
        }
        let start = Instant::now();
        let compiled = compile::compile(&program.bytes, self.device, self.store, role)?;
        self.report.compile_ns += nanos(start);
        if self.config.keep_programs {
            self.report.programs.push(KeptProgram { record: compiled.record.clone(), hlo: program.bytes, fresh: compiled.fresh });
        }
        Ok(compiled)
    }
}

/// Each placeholder that is written to, paired with the output that it becomes.
fn aliases(sources: &[Source], mutations: &[(usize, usize)]) -> Vec<Alias> {
    let parameter = |input: usize| sources.iter().position(|s| matches!(s, Source::Input { index, .. } if *index == input));
    mutations.iter().filter_map(|&(input, output)| Some(Alias { output, parameter: parameter(input)? })).collect()
}

fn order_of(sources: &[Source], input: usize) -> clutch_graph::op::Axes {
    let found = sources.iter().find_map(|s| match s {
        Source::Input { index, order } if *index == input => Some(order.clone()),
        _ => None,
    });
    found.unwrap_or_default()
}

fn interface(graph: &Graph, arguments: impl Iterator<Item = Argument>) -> Interface {
    Interface {
        arguments: arguments
            .zip(graph.parameter_types())
            .zip(&graph.input_kinds)
            .map(|((a, ty), kind)| (a, ty.clone(), *kind == InputKind::Static))
            .collect(),
        outputs: graph.output_types().cloned().collect(),
    }
}

/// Why a program was not in the cache when it was built: the nearest entry other than its own, and the first field that differs.
pub fn explain(artifact: &Artifact, store: &Store) -> String {
    debug_assert_eq!(artifact.key.kind(), KeyKind::Graph);
    match artifact.report.miss {
        _ if artifact.report.graph_hit => "the graph was in the cache: nothing was compiled".to_owned(),
        None => "the cache was not asked: texts or dumps were wanted".to_owned(),
        Some(Miss::Unknown) => store.explain_others(&artifact.key).to_string(),
        Some(Miss::ExecutableGone) => "the graph was in the cache, but its executable was evicted or damaged".to_owned(),
        Some(Miss::Refused) => "the graph was in the cache, but the plugin refused to load its executable".to_owned(),
    }
}
