//! Saved programs (`torch_clutch.save`, `torch_clutch.load`): their bytes, their digests, and calls without a tracer.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors;
use super::graph::{CompiledGraph, unsupported};
use super::programs::Programs;
use super::served::Buckets;
use super::settings::Settings;
use crate::bucket::bucket;
use crate::bucket::ladder::Ladder;
use crate::capture::canonical::canonical_bytes;
use crate::capture::read::read_program;
use crate::capture::walk::walk;
use crate::driver::{Built, Config, build, build_bucket};
use crate::runtime::sizes::{SymbolSolver, Symbols};
use crate::saved::{SavedError, SavedProgram, SavedPrograms};

/// Constants of a program that are passed as inputs, by number.
type Constants = Vec<Option<Py<PyAny>>>;

/// Programs of one file; more would take too long to compile.
const MOST_PROGRAMS: usize = 256;

/// A captured program and all sizes that it is to be compiled for.
#[pyclass(frozen, module = "torch_clutch._clutch")]
pub struct SavePlan {
    programs: Programs,
    sizes: Vec<Symbols>,
    rungs: Vec<Vec<i64>>,
    ranges: Vec<(String, i64, i64)>,
    constants: Constants,
}

/// Captures `gm` and plans the programs that serve all sizes in `ranges`: smallest and largest size of each symbol by name. A symbol
/// without a largest size ends at the last bucket of its list.
///
/// Raises UnsupportedError when a symbol has neither, SavedModelError when there would be too many programs.
#[pyfunction]
pub fn plan_saved(
    py: Python<'_>,
    gm: &Bound<'_, PyAny>,
    static_inputs: Vec<usize>,
    ranges: Vec<(String, i64, Option<i64>)>,
    settings: Settings,
) -> PyResult<SavePlan> {
    let device = settings.device(py)?;
    let walked = walk(gm, &static_inputs).map_err(|e| errors::walk(py, e))?;
    let symbols = walked.program.exprs.symbols();
    let ladders = settings.ladders(py, symbols)?;
    let solver = SymbolSolver::of(&walked.program);
    let mut known = Vec::new();
    for (i, (name, ladder)) in symbols.iter().zip(&ladders).enumerate() {
        let range = ranges.iter().find(|(symbol, ..)| symbol == name);
        let listed = if let Ladder::List(sizes) = ladder { sizes.last().copied() } else { None };
        let declared = range.and_then(|(_, _, largest)| *largest);
        let Some(largest) = listed.into_iter().chain(declared).min() else {
            let place = solver.origin(i as u32, &settings.names);
            let advice = "export the model with torch.export.Dim(..., max=N), or list the sizes in the option 'buckets'";
            return Err(errors::new(py, "UnsupportedError", &format!("{place} has no largest size; {advice}")));
        };
        known.push((name.clone(), range.map_or(1, |(_, smallest, _)| (*smallest).max(1)), largest));
    }
    let bounds: Vec<(i64, i64)> = known.iter().map(|(_, smallest, largest)| (*smallest, *largest)).collect();
    let buckets = Buckets::new(ladders, known.iter().map(|(.., largest)| Some(*largest)).collect());
    let rungs = buckets.rungs(&bounds);
    let count = rungs.iter().try_fold(1_usize, |count, rungs| count.checked_mul(rungs.len())).unwrap_or(usize::MAX);
    if count > MOST_PROGRAMS {
        let each: Vec<String> = rungs.iter().map(|r| r.len().to_string()).collect();
        let advice = "list fewer sizes in the option 'buckets', or declare smaller ranges";
        let message = format!("{} programs would have to be compiled, more than {MOST_PROGRAMS}; {advice}", each.join(" x "));
        return Err(errors::new(py, "SavedModelError", &message));
    }
    let mut sizes = vec![Symbols::new()];
    for rungs in &rungs {
        let longer = |one: &Symbols| rungs.iter().map(|&rung| one.iter().copied().chain([rung]).collect()).collect::<Vec<Symbols>>();
        sizes = sizes.iter().flat_map(longer).collect();
    }
    let config = Config { keep_programs: true, dump_dir: None, ..settings.config() };
    let programs = Programs::new(walked.program, config, device, settings.store(), buckets);
    Ok(SavePlan { programs, sizes, rungs, ranges: known, constants: walked.constants })
}

#[pymethods]
impl SavePlan {
    /// The captured program.
    fn captured<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &canonical_bytes(&self.programs.program))
    }

    /// Large constants of the program, by number.
    fn constants(&self, py: Python<'_>) -> Constants {
        self.constants.iter().map(|c| c.as_ref().map(|c| c.clone_ref(py))).collect()
    }

    /// Name, smallest and largest size of each symbol.
    fn ranges(&self) -> Vec<(String, i64, i64)> {
        self.ranges.clone()
    }

    /// The sizes that each symbol is compiled for.
    fn rungs(&self) -> Vec<Vec<i64>> {
        self.rungs.clone()
    }

    /// The symbols' sizes of each program.
    fn sizes(&self) -> Vec<Vec<i64>> {
        self.sizes.iter().map(|s| s.to_vec()).collect()
    }

    /// Compiles the program of this number and gives its bytes.
    ///
    /// Raises UnsupportedError when calls cannot be lowered or padding could show.
    fn compile<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyBytes>> {
        let Programs { program, config, device, store, buckets, .. } = &self.programs;
        let (store, sizes) = (store.as_ref(), &self.sizes[number]);
        let (built, digest) = match buckets.choose(sizes) {
            None => (py.detach(|| build(program, sizes, device, config, store)), [0; 32]),
            Some(sizes) => {
                let bucketed = py.detach(|| bucket(program, &sizes, config.lower_options())).map_err(|reason| {
                    let advice = "export it with static sizes, or use options={\"buckets\": \"exact\"}";
                    let message = format!("the program cannot be padded to the sizes {:?}: {reason}; {advice}", sizes.as_slice());
                    errors::new(py, "UnsupportedError", &message)
                })?;
                (py.detach(|| build_bucket(program, &sizes, &bucketed.lowered, device, config, store)), bucketed.digest())
            }
        };
        let artifact = match built.map_err(|e| errors::build(py, &e))? {
            Built::Ready(artifact) => artifact,
            Built::Unsupported(calls) => return Err(unsupported(py, &calls)?),
        };
        let saved = SavedProgram::of(&artifact, digest, store).map_err(|e| errors::saved(py, &e))?;
        Ok(PyBytes::new(py, &saved.encode()))
    }
}

/// Loads the programs of a file on the device of the settings: the largest now, others when they are first called. `rungs` and `parts` are
/// what [`SavePlan`] gave.
///
/// Raises SavedModelError when the bytes are something else, TargetError when they are for another kind of device.
#[pyfunction]
pub fn load_saved(
    py: Python<'_>,
    captured: &[u8],
    rungs: Vec<Vec<i64>>,
    parts: Vec<(Vec<i64>, Vec<u8>)>,
    constants: Constants,
    settings: Settings,
) -> PyResult<CompiledGraph> {
    let bad = || errors::saved(py, &SavedError::Bytes);
    let program = read_program(captured).map_err(|_| bad())?;
    if program.exprs.symbols().len() != rungs.len() || parts.iter().any(|(sizes, _)| sizes.len() != rungs.len()) {
        return Err(bad());
    }
    let largest = rungs.iter().map(|r| r.last().copied()).collect();
    let buckets = Buckets::new(rungs.into_iter().map(Ladder::List).collect(), largest);
    let first = parts.iter().map(|(sizes, _)| Symbols::from_slice(sizes)).max().ok_or_else(bad)?;
    let mut programs = Programs::new(program, settings.config(), settings.device(py)?, settings.store(), buckets);
    programs.saved = Some(SavedPrograms::new(parts));
    let graph = CompiledGraph::of(py, programs, constants, &settings)?;
    graph.serve(py, &first)?;
    Ok(graph)
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
