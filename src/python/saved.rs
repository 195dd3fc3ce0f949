//! Saved programs (`torch_clutch.save`, `torch_clutch.load`): their bytes, their digests, and calls without a tracer.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use smallvec::SmallVec;

use super::errors;
use super::graph::{solve, unsupported};
use super::settings::Settings;
use crate::capture::walk::walk;
use crate::driver::{Built, Config, build};
use crate::runtime::call::{Context, Runner};
use crate::runtime::dlpack::Exchange;
use crate::saved::{SavedError, SavedProgram};

/// Constants of a program that are passed as inputs, by number.
type Constants = Vec<Option<Py<PyAny>>>;

fn failed(py: Python<'_>, error: SavedError) -> PyErr {
    match error {
        SavedError::Build(e) => errors::build(py, &e),
        SavedError::Platform { .. } => errors::new(py, "TargetError", &error.to_string()),
        other => errors::new(py, "SavedModelError", &other.to_string()),
    }
}

/// Compiles `gm` and gives the program's bytes and its large constants. The sizes must be static.
///
/// Raises UnsupportedError when calls cannot be lowered or sizes are symbolic.
#[pyfunction]
pub fn compile_saved<'py>(
    py: Python<'py>,
    gm: &Bound<'py, PyAny>,
    static_inputs: Vec<usize>,
    settings: Settings,
) -> PyResult<(Bound<'py, PyBytes>, Constants)> {
    let device = settings.device(py)?;
    let store = settings.store();
    let config = Config { keep_programs: true, dump_dir: None, ..settings.config() };
    let walked = walk(gm, &static_inputs).map_err(|e| errors::walk(py, e))?;
    let symbols = solve(&walked.program, &[]).ok_or_else(|| {
        errors::new(py, "UnsupportedError", "the program has dynamic sizes; export it with static ones to save it, once for each size")
    })?;
    let built = py.detach(|| build(&walked.program, &symbols, &device, &config, store.as_ref()));
    let artifact = match built.map_err(|e| errors::build(py, &e))? {
        Built::Ready(artifact) => artifact,
        Built::Unsupported(calls) => return Err(unsupported(py, &calls)?),
    };
    let saved = SavedProgram::of(&artifact, store.as_ref()).map_err(|e| failed(py, e))?;
    Ok((PyBytes::new(py, &saved.encode()), walked.constants))
}

/// A loaded program. Calling it with the list of its placeholders' values runs it, and empties the list.
#[pyclass(frozen, module = "torch_clutch._clutch")]
pub struct SavedGraph {
    runner: Runner,
    context: Context,
    constants: Constants,
    /// The first field of the executable's key that differed here, when it was compiled anew.
    #[pyo3(get)]
    recompiled_for: Option<String>,
}

#[pymethods]
impl SavedGraph {
    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let items: SmallVec<[Bound<'py, PyAny>; 16]> = args.iter().collect();
        args.del_slice(0, args.len())?;
        self.runner.call(py, &self.context, &items, &self.constants, None)
    }
}

/// Loads a program's bytes on the device of the settings.
///
/// Raises SavedModelError when the bytes are something else, TargetError when they are for another kind of device.
#[pyfunction]
pub fn load_saved(py: Python<'_>, program: &[u8], constants: Constants, settings: Settings) -> PyResult<SavedGraph> {
    let saved = SavedProgram::decode(program).map_err(|e| failed(py, e))?;
    let device = settings.device(py)?;
    let store = settings.store();
    let loaded = py.detach(|| saved.load(&device, store.as_ref())).map_err(|e| failed(py, e))?;
    let helpers = py.import("torch_clutch._runtime")?;
    let context = Context {
        exchange: Exchange::get(py)?,
        draw_seed: helpers.getattr("draw_seed")?.unbind(),
        increment_version: helpers.getattr("increment_version")?.unbind(),
    };
    let recompiled_for = loaded.recompiled_for;
    Ok(SavedGraph { runner: Runner::new(Arc::new(loaded.artifact)), context, constants, recompiled_for })
}

/// The blake3 digest of some bytes, in hexadecimal digits.
#[pyfunction]
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The digests of sections (offset, length) of a file, computed by all processors. Raises OSError when the file ends early.
#[pyfunction]
pub fn digest_sections(py: Python<'_>, path: PathBuf, sections: Vec<(u64, u64)>) -> PyResult<Vec<String>> {
    let digests = py.detach(|| -> std::io::Result<Vec<String>> {
        let file = File::open(&path)?;
        let next = AtomicUsize::new(0);
        let work = || -> std::io::Result<Vec<(usize, String)>> {
            let mut buffer = vec![0; CHUNK];
            let mut done = Vec::new();
            while let number = next.fetch_add(1, Ordering::Relaxed)
                && let Some(&(offset, length)) = sections.get(number)
            {
                let mut hasher = blake3::Hasher::new();
                let mut at = 0;
                while at < length {
                    let part = &mut buffer[..CHUNK.min((length - at) as usize)];
                    file.read_exact_at(part, offset + at)?;
                    hasher.update(part);
                    at += part.len() as u64;
                }
                done.push((number, hasher.finalize().to_hex().to_string()));
            }
            Ok(done)
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let mut all = vec![String::new(); sections.len()];
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for handle in handles {
                let found = handle.join().map_err(|_| std::io::Error::other("a thread ended early"))??;
                for (number, text) in found {
                    all[number] = text;
                }
            }
            Ok::<(), std::io::Error>(())
        })?;
        Ok(all)
    })?;
    Ok(digests)
}
