//! A compiled FX graph as a Python callable.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use smallvec::SmallVec;

use super::errors;
use super::programs::{MakeError, Programs, Service};
use super::served::{Buckets, Served};
use super::settings::Settings;
use crate::capture::canonical::canonical_bytes;
use crate::capture::expr::ExprId;
use crate::capture::lower::Unsupported;
use crate::capture::program::Program;
use crate::capture::walk::{Walked, walk};
use crate::compile::Code;
use crate::driver::{BuildError, Config, explain};
use crate::metrics::{METRICS, count, time};
use crate::runtime::call::{Context, Runner};
use crate::runtime::device::is_forked;
use crate::runtime::dlpack::Exchange;
use crate::runtime::sizes::{SymbolSolver, Symbols};
use crate::strict;

/// A size to lower with where the true one depends on data.
const PROBE: i64 = 12;

/// A compiled FX graph. Calling it with the list of arguments runs it, and empties the list.
#[pyclass(frozen, module = "torch_clutch._clutch")]
pub struct CompiledGraph {
    programs: Arc<Programs>,
    constants: Vec<Option<Py<PyAny>>>,
    context: Context,
    sizes: SymbolSolver,
    /// What the user calls each argument.
    names: Vec<String>,
    beyond_is_error: bool,
    /// Placeholders whose conjugation or negation may be pending.
    lazy: Vec<usize>,
    only: OnceLock<Arc<Runner>>,
    /// The FX graph itself, where eager serves calls while programs are compiled in the background.
    eager: Option<Py<PyAny>>,
}

/// Compiles `gm`. Raises UnsupportedError with a `nodes` list when calls cannot be lowered.
#[pyfunction]
pub fn compile(py: Python<'_>, gm: &Bound<'_, PyAny>, static_inputs: Vec<usize>, settings: Settings) -> PyResult<CompiledGraph> {
    let device = settings.device(py)?;
    let start = Instant::now();
    let walked = walk(gm, &static_inputs).map_err(|e| errors::walk(py, e))?;
    time(&METRICS.walk_ns, start.elapsed());
    count(&METRICS.captures);
    if !walked.introduced.is_empty() {
        return Err(data_dependent(py, &walked.introduced)?);
    }
    let largest = declared_maxima(&walked);
    let ladders = settings.ladders(py, walked.program.exprs.symbols())?;
    let buckets = Buckets::new(ladders, largest);
    let programs = Programs::new(walked.program, settings.config(), device, settings.store(), buckets);
    let eager = settings.async_compile.then(|| gm.clone().unbind());
    let graph = CompiledGraph { eager, ..CompiledGraph::of(py, programs, walked.constants, &settings)? };
    let program = &graph.programs.program;
    match solve(program, &walked.hints) {
        Some(symbols) if graph.eager.is_some() => {
            let calls = graph.programs.unsupported(&symbols);
            if !calls.is_empty() {
                return Err(unsupported(py, &calls)?);
            }
            graph.serve(py, &symbols)?;
        }
        Some(symbols) => {
            graph.serve(py, &symbols)?;
        }
        None => {
            tracing::info!("the sizes of the example are not known; compiling at the first call");
            // What cannot be lowered must be known now all the same, so that it can run in eager.
            let mut symbols = vec![None; program.exprs.symbols().len()];
            program.exprs.solve(&walked.hints, &mut symbols);
            let symbols: Symbols = symbols.into_iter().map(|known| known.unwrap_or(PROBE)).collect();
            let calls = graph.programs.unsupported(&symbols);
            if !calls.is_empty() {
                return Err(unsupported(py, &calls)?);
            }
        }
    }
    Ok(graph)
}

/// The declared maximum of each symbol, by number.
pub(super) fn declared_maxima(walked: &Walked) -> Vec<Option<i64>> {
    let range = |symbol: &String| walked.largest.iter().find(|(name, _)| name == symbol).map(|(_, largest)| *largest);
    walked.program.exprs.symbols().iter().map(range).collect()
}

/// The symbols' values from equations; `None` when one stays unknown.
pub(super) fn solve(program: &Program, equations: &[(ExprId, i64)]) -> Option<Symbols> {
    let mut known = vec![None; program.exprs.symbols().len()];
    program.exprs.solve(equations, &mut known);
    known.into_iter().collect()
}

/// UnsupportedError that names nodes whose results have sizes that depend on data.
fn data_dependent(py: Python<'_>, introduced: &[(String, String)]) -> PyResult<PyErr> {
    let reason = "the size of its result depends on data";
    let lines: Vec<String> = introduced.iter().map(|(name, target)| format!("{target} (node {name}): {reason}")).collect();
    let error = errors::new(py, "UnsupportedError", &format!("cannot compile:\n  {}", lines.join("\n  ")));
    let nodes: Vec<(&str, &str, &str)> = introduced.iter().map(|(name, target)| (name.as_str(), target.as_str(), reason)).collect();
    error.value(py).setattr("nodes", nodes)?;
    Ok(error)
}

/// UnsupportedError with a `nodes` list.
pub(super) fn unsupported(py: Python<'_>, calls: &[Unsupported]) -> PyResult<PyErr> {
    let lines: Vec<String> = calls.iter().map(ToString::to_string).collect();
    let error = errors::new(py, "UnsupportedError", &format!("cannot compile:\n  {}", lines.join("\n  ")));
    let nodes: Vec<(String, String, String)> = calls.iter().map(|c| (c.name.clone(), c.target.clone(), c.error.to_string())).collect();
    error.value(py).setattr("nodes", nodes)?;
    Ok(error)
}

impl CompiledGraph {
    /// A captured graph whose calls wait for compilations.
    pub(super) fn of(py: Python<'_>, programs: Programs, constants: Vec<Option<Py<PyAny>>>, settings: &Settings) -> PyResult<Self> {
        let helpers = py.import("torch_clutch._runtime")?;
        let context = Context {
            exchange: Exchange::get(py)?,
            draw_seed: helpers.getattr("draw_seed")?.unbind(),
            increment_version: helpers.getattr("increment_version")?.unbind(),
        };
        let program = &programs.program;
        Ok(CompiledGraph {
            sizes: SymbolSolver::of(program),
            lazy: program.inputs.iter().enumerate().filter(|(_, input)| input.is_lazy).map(|(i, _)| i).collect(),
            programs: Arc::new(programs),
            constants,
            context,
            names: settings.names.clone(),
            beyond_is_error: settings.beyond_is_error(),
            only: OnceLock::new(),
            eager: None,
        })
    }

    /// What serves these symbol values, built or looked for at first use; `None` while eager has to.
    pub(super) fn serve(&self, py: Python<'_>, symbols: &Symbols) -> PyResult<Option<Served>> {
        if let Some(found) = self.programs.found(symbols) {
            return Ok(Some(found));
        }
        let buckets = &self.programs.buckets;
        if self.beyond_is_error
            && let Some((symbol, last)) = buckets.beyond(symbols)
        {
            let place = self.sizes.origin(symbol as u32, &self.names);
            let size = symbols[symbol];
            let advice = "add a larger size to the option 'buckets', or use beyond=\"exact\" to compile such sizes as they are";
            return Err(errors::new(py, "SizeError", &format!("{place} is {size}, beyond its largest bucket {last}; {advice}")));
        }
        if self.eager.is_some() {
            match py.detach(|| self.programs.serve_soon(symbols)) {
                Service::Ready(served) => return Ok(Some(served)),
                Service::Meanwhile(served) if !strict::is_on() => return Ok(served),
                Service::Meanwhile(_) => {}
            }
        }
        let served = py.detach(|| self.programs.serve(symbols));
        served.map(Some).map_err(|error| self.raised(py, error, symbols))
    }

    fn raised(&self, py: Python<'_>, error: MakeError, symbols: &Symbols) -> PyErr {
        match error {
            MakeError::Build(BuildError::Strict) => errors::strict(py, &self.what_is_new(symbols)),
            MakeError::Build(error) => errors::build(py, &error),
            MakeError::Saved(error) => errors::saved(py, &error),
            MakeError::Unsupported(calls) => unsupported(py, &calls).unwrap_or_else(|error| error),
        }
    }

    /// For strict mode: the arguments whose sizes no compiled program serves, and the sizes that are served.
    fn what_is_new(&self, symbols: &Symbols) -> String {
        let bucket = |symbols: &Symbols| self.programs.buckets.choose(symbols).unwrap_or_else(|| symbols.clone());
        let mut ready: Vec<Symbols> = self.programs.sizes_served().iter().map(bucket).collect();
        ready.sort();
        ready.dedup();
        if ready.is_empty() || symbols.is_empty() {
            return BuildError::Strict.to_string();
        }
        let wanted = bucket(symbols);
        let mut news: Vec<String> = Vec::new();
        for (symbol, &size) in wanted.iter().enumerate() {
            let mut known: Vec<i64> = ready.iter().map(|r| r[symbol]).collect();
            known.sort_unstable();
            known.dedup();
            if !known.contains(&size) {
                let place = self.sizes.origin(symbol as u32, &self.names);
                news.push(format!("{place} is {} (bucket {size}), compiled so far: {known:?}", symbols[symbol]));
            }
        }
        if news.is_empty() {
            let places: Vec<String> = (0..wanted.len()).map(|s| self.sizes.origin(s as u32, &self.names)).collect();
            news.push(format!("this combination of {}: {:?} (buckets {:?})", places.join(" and "), symbols.as_slice(), wanted.as_slice()));
        }
        format!("{}: {}", BuildError::Strict, news.join("; "))
    }

    /// Checks what serves a call against the first call's arguments: weights that PyTorch does not watch get a program without a weight
    /// program.
    fn admit(&self, py: Python<'_>, symbols: &Symbols, served: Served, args: &[Bound<'_, PyAny>]) -> PyResult<Served> {
        if !served.runner.reads_uncounted_weights(args)? {
            return Ok(served);
        }
        let config = Config { inference: false, ..self.programs.config.clone() };
        let built = py.detach(|| self.programs.build_exact(symbols, &config));
        let served = Served { runner: built.map_err(|error| self.raised(py, error, symbols))?, binding: None };
        self.programs.put(symbols, &served);
        Ok(served)
    }

    /// Runs the FX graph itself.
    fn in_eager<'py>(&self, py: Python<'py>, args: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyList>> {
        let Some(graph) = &self.eager else { return Err(errors::internal("a call has no program".to_owned())) };
        count(&METRICS.eager_calls);
        graph.bind(py).call1(PyTuple::new(py, args)?)?.try_iter()?.collect::<PyResult<Vec<_>>>().and_then(|r| PyList::new(py, r))
    }
}

#[pymethods]
impl CompiledGraph {
    /// AOTAutograd passes the arguments in one list and lets the callee empty it.
    #[classattr]
    fn _boxed_call() -> bool {
        true
    }

    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        if is_forked() {
            return Err(errors::forked());
        }
        let mut items: SmallVec<[Bound<'py, PyAny>; 16]> = args.iter().collect();
        args.del_slice(0, args.len())?;
        for &i in &self.lazy {
            items[i] = items[i].call_method0("resolve_conj")?.call_method0("resolve_neg")?;
        }
        let runner = match self.only.get() {
            Some(runner) => runner.clone(),
            None => {
                let symbols = self.sizes.symbols(&self.programs.program, &self.context.exchange, &items)?;
                let Some(served) = self.serve(py, &symbols)? else { return self.in_eager(py, &items) };
                let served = self.admit(py, &symbols, served, &items)?;
                if symbols.is_empty() {
                    // Another thread may have been first; either runner is right.
                    let _ = self.only.set(served.runner.clone());
                }
                return served.runner.call(py, &self.context, &items, &self.constants, served.binding.as_deref());
            }
        };
        runner.call(py, &self.context, &items, &self.constants, None)
    }

    /// The symbols' names, by number.
    fn symbol_names(&self) -> Vec<String> {
        self.programs.program.exprs.symbols().to_vec()
    }

    /// The captured program, the declared maxima of its symbols, and the values that it was built for so far, for compiling it
    /// elsewhere.
    fn captured<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Vec<Option<i64>>, Vec<Vec<i64>>) {
        let bindings = self.programs.sizes_served().iter().map(|s| s.to_vec()).collect();
        (PyBytes::new(py, &canonical_bytes(&self.programs.program)), self.programs.buckets.largest().to_vec(), bindings)
    }

    /// Of a saved program: the first field of the executable's key that differed here, when it was compiled anew.
    #[getter]
    fn recompiled_for(&self) -> Option<String> {
        self.programs.saved.as_ref().and_then(|saved| saved.recompiled_for())
    }

    /// Why the graph built last was not in the cache: the nearest entry and the first field that differs.
    fn explain(&self) -> Option<String> {
        Some(explain(&*self.programs.last()?, self.programs.store.as_ref()?))
    }

    /// Costs, memory, fingerprint, sizes and times of the executable built last.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        let Some(artifact) = self.programs.last() else { return Ok(info) };
        let report = &artifact.report;
        info.set_item("graph_hit", report.graph_hit)?;
        match &artifact.main {
            Code::Stored(metadata) => {
                for (name, value) in metadata {
                    info.set_item(name, value)?;
                }
            }
            Code::Loaded(_) | Code::Elsewhere(_) => {}
        }
        if let Some(executable) = artifact.main.executable() {
            describe(executable, &info)?;
        }
        info.set_item("hlo_bytes", report.hlo_bytes)?;
        info.set_item("instructions", report.instructions)?;
        info.set_item("nodes_before", report.nodes.0)?;
        info.set_item("nodes_after", report.nodes.1)?;
        info.set_item("lower_seconds", report.lower_ns as f64 * 1e-9)?;
        info.set_item("passes_seconds", report.passes_ns as f64 * 1e-9)?;
        info.set_item("emit_seconds", report.emit_ns as f64 * 1e-9)?;
        info.set_item("compile_seconds", report.compile_ns as f64 * 1e-9)?;
        info.set_item("graph_text", report.graph_text.as_deref())?;
        info.set_item("hlo_text", report.hlo_text.as_deref())?;
        if let Some(passes) = &report.passes {
            let list = PyList::empty(py);
            for p in &passes.passes {
                list.append((p.name, p.micros, p.nodes_before, p.nodes_after))?;
            }
            info.set_item("passes", list)?;
        }
        Ok(info)
    }
}

/// Costs, memory, fingerprint and sizes of an executable; what the plugin does not offer is said in words.
fn describe(executable: &clutch_pjrt::Executable, info: &Bound<'_, PyDict>) -> PyResult<()> {
    let missing = |e: clutch_pjrt::Error| format!("not available: {e}");
    match executable.cost_analysis() {
        Ok(costs) => info.set_item("cost_analysis", costs)?,
        Err(e) => info.set_item("cost_analysis", missing(e))?,
    }
    match executable.compiled_memory_stats() {
        Ok(m) => {
            let memory = PyDict::new(info.py());
            memory.set_item("argument_bytes", m.argument)?;
            memory.set_item("output_bytes", m.output)?;
            memory.set_item("alias_bytes", m.alias)?;
            memory.set_item("temp_bytes", m.temp)?;
            memory.set_item("code_bytes", m.generated_code)?;
            memory.set_item("peak_bytes", m.peak)?;
            info.set_item("memory", memory)?;
        }
        Err(e) => info.set_item("memory", missing(e))?,
    }
    match executable.fingerprint() {
        Ok(f) => info.set_item("fingerprint", f)?,
        Err(e) => info.set_item("fingerprint", missing(e))?,
    }
    match executable.size_of_generated_code() {
        Ok(size) => info.set_item("code_bytes", size)?,
        Err(e) => info.set_item("code_bytes", missing(e))?,
    }
    match executable.serialize() {
        Ok(bytes) => info.set_item("serialized_bytes", bytes.len())?,
        Err(e) => info.set_item("serialized_bytes", missing(e))?,
    }
    Ok(())
}
