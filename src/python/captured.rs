//! Capturing without compiling, and compiling what another process captured (`clutch warmup`).

use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::errors;
use super::graph::{declared_maxima, solve, unsupported};
use super::served::Buckets;
use super::settings::Settings;
use crate::bucket::bind::Binding;
use crate::bucket::bucket;
use crate::capture::canonical::canonical_bytes;

use crate::capture::lower::lower;
use crate::capture::program::{Arg, Meta, Program, ValueRef};
use crate::capture::read::read_program;
use crate::capture::walk::walk;
use crate::driver::{Built, build, build_bucket};
use crate::graph_entry::GraphEntry;
use crate::runtime::dlpack::Exchange;
use crate::runtime::sizes::{SymbolSolver, Symbols};

/// An FX graph that was captured and not compiled.
#[pyclass(frozen, module = "torch_clutch._clutch")]
pub struct Captured {
    program: Program,
    largest: Vec<Option<i64>>,
    constants: Vec<Option<Py<PyAny>>>,
    sizes: SymbolSolver,
    exchange: Exchange,
}

/// Captures `gm`. Raises UnsupportedError with a `nodes` list when calls cannot be lowered, as compiling it would.
#[pyfunction]
pub fn capture(py: Python<'_>, gm: &Bound<'_, PyAny>, static_inputs: Vec<usize>, settings: Settings) -> PyResult<Captured> {
    let walked = walk(gm, &static_inputs).map_err(|e| errors::walk(py, e))?;
    if let Some(symbols) = solve(&walked.program, &walked.hints) {
        let options = settings.config().lower_options();
        let lowered = lower(&walked.program, &symbols, options).map_err(|e| errors::internal(e.to_string()))?;
        if !lowered.unsupported.is_empty() {
            return Err(unsupported(py, &lowered.unsupported)?);
        }
    }
    let sizes = SymbolSolver::of(&walked.program);
    let largest = declared_maxima(&walked);
    Ok(Captured { largest, program: walked.program, constants: walked.constants, sizes, exchange: Exchange::get(py)? })
}

#[pymethods]
impl Captured {
    /// The program's bytes, which are equal for equal programs.
    fn program<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &canonical_bytes(&self.program))
    }

    /// The symbols' names, by number.
    fn symbol_names(&self) -> Vec<String> {
        self.program.exprs.symbols().to_vec()
    }

    /// The declared maximum of each symbol.
    fn largest(&self) -> Vec<Option<i64>> {
        self.largest.clone()
    }

    /// The symbols' values that a call with these arguments gives.
    fn symbols(&self, args: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<i64>> {
        Ok(self.sizes.symbols(&self.program, &self.exchange, &args)?.to_vec())
    }

    /// What a call would give: for each result None, an integer, the argument or constant itself, or (sizes, strides) of a new tensor.
    fn outputs<'py>(&self, py: Python<'py>, symbols: Vec<i64>, args: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let eval = |size| self.program.exprs.eval(size, &symbols).map_err(|e| errors::internal(e.to_string()));
        for output in &self.program.outputs {
            match output {
                Arg::Value(ValueRef::Input(i)) => list.append(&args[*i as usize])?,
                Arg::Value(ValueRef::Constant(i)) => list.append(self.constants.get(*i as usize).and_then(Option::as_ref))?,
                Arg::Value(node @ ValueRef::Node(n, o)) => match self.program.meta(*node) {
                    Some(tensor) => {
                        let sizes = tensor.shape.iter().map(|s| eval(*s)).collect::<PyResult<Vec<i64>>>()?;
                        let strides = tensor.strides.iter().map(|s| eval(*s)).collect::<PyResult<Vec<i64>>>()?;
                        list.append((sizes, strides))?;
                    }
                    None => match self.program.nodes[*n as usize].outputs.get(*o as usize) {
                        Some(Meta::Int(size)) => list.append(eval(*size)?)?,
                        _ => list.append(py.None())?,
                    },
                },
                Arg::Int(i) => list.append(i)?,
                Arg::Size(size) => list.append(eval(*size)?)?,
                _ => list.append(py.None())?,
            }
        }
        Ok(list)
    }
}

/// Compiles a captured program into the cache, in the bucket for these symbols' values or with them bound, and says what it is.
///
/// Raises CacheError when the cache cannot be used or did not keep the result.
#[pyfunction]
pub fn compile_captured<'py>(
    py: Python<'py>,
    program: &[u8],
    symbols: Vec<i64>,
    largest: Vec<Option<i64>>,
    settings: Settings,
) -> PyResult<Bound<'py, PyDict>> {
    let store = settings.required_store(py)?;
    let device = settings.device(py)?;
    let config = settings.config();
    let program = read_program(program).map_err(|e| errors::internal(e.to_string()))?;
    let start = Instant::now();
    let symbols = Symbols::from_vec(symbols);
    let sizes = Buckets::new(settings.ladders(py, program.exprs.symbols())?, largest).choose(&symbols);
    let options = config.lower_options();
    let (built, bucket) = py.detach(|| {
        if let Some(sizes) = sizes
            && let Ok(bucketed) = bucket(&program, &sizes, options)
            && Binding::of(&bucketed.template, &program, &symbols, options).is_ok()
        {
            return (build_bucket(&program, &sizes, &bucketed.lowered, &device, &config, Some(&store)), Some(sizes));
        }
        (build(&program, &symbols, &device, &config, Some(&store)), None)
    });
    let artifact = match built.map_err(|e| errors::build(py, &e))? {
        Built::Ready(artifact) => artifact,
        Built::Unsupported(calls) => return Err(unsupported(py, &calls)?),
    };
    let seconds = start.elapsed();
    let hit = artifact.report.graph_hit;
    if !hit && !store.entry_path(&artifact.key).is_some_and(|path| path.exists()) {
        let why = if store.stats().put_failures > 0 || store.stats().too_large > 0 {
            "it could not be written: is the disk full, the directory read-only, or the bound too small?"
        } else {
            "the plugin cannot serialise it"
        };
        return Err(errors::new(py, "CacheError", &format!("compiled, but the cache did not keep the result: {why}")));
    }
    let info = PyDict::new(py);
    info.set_item("key", artifact.key.key().to_string())?;
    info.set_item("cached", hit)?;
    info.set_item("sizes", bucket.map(|sizes| sizes.to_vec()))?;
    info.set_item("seconds", seconds.as_secs_f64())?;
    let entry = store.get(&artifact.key).and_then(|e| GraphEntry::decode(&e.payload));
    for (role, record) in [("main", entry.as_ref().map(|e| &e.main)), ("weights", entry.as_ref().and_then(|e| e.weights.as_ref()))] {
        info.set_item(role, record.and_then(|r| store.get(r)).map(|e| e.metadata))?;
    }
    Ok(info)
}
