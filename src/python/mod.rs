//! The extension module `torch_clutch._clutch`.

mod cache;
mod captured;
pub mod errors;
mod graph;
mod logs;
mod programs;
mod saved;
mod served;
mod settings;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::metrics::METRICS;
use crate::target::Target;

/// Counters since the start or the last reset, by name.
#[pyfunction]
fn metrics(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in METRICS.snapshot() {
        match name.strip_suffix("_ns") {
            Some(phase) => dict.set_item(format!("{phase}_seconds"), value as f64 * 1e-9)?,
            None => dict.set_item(name, value)?,
        }
    }
    Ok(dict)
}

/// Sets all counters to zero.
#[pyfunction]
fn reset_metrics() {
    METRICS.reset();
}

/// Adds to the count of graph parts that run in eager.
#[pyfunction]
fn count_eager_parts(n: u64) {
    crate::metrics::count_n(&METRICS.eager_parts, n);
}

/// Checks a target name; raises TargetError.
#[pyfunction]
fn check_target(py: Python<'_>, name: &str) -> PyResult<()> {
    Target::parse(name).map(|_| ()).map_err(|e| errors::new(py, "TargetError", &e.to_string()))
}

/// Checks a ladder of buckets; raises ValueError.
#[pyfunction]
fn check_ladder(text: &str) -> PyResult<()> {
    crate::bucket::ladder::Ladder::parse(text).map(|_| ()).map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))
}

/// The bucket of a size in a ladder, with no declared maximum; None beyond a list's end. Raises ValueError for what is no ladder.
#[pyfunction]
fn ladder_bucket(text: &str, size: i64) -> PyResult<Option<i64>> {
    let ladder = crate::bucket::ladder::Ladder::parse(text).map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
    Ok(ladder.bucket(size, None))
}

/// Whether this machine has a TPU.
#[pyfunction]
fn tpu_attached() -> bool {
    crate::runtime::device::tpu_attached()
}

/// Forbids new compilations until [`leave_strict`].
#[pyfunction]
fn enter_strict() {
    crate::strict::enter();
}

/// Undoes one [`enter_strict`].
#[pyfunction]
fn leave_strict() {
    crate::strict::leave();
}

/// Returns when nothing is compiled in the background.
#[pyfunction]
fn wait_for_compiles(py: Python<'_>) {
    py.detach(crate::background::wait);
}

/// Compilations that wait or run in the background.
#[pyfunction]
fn unfinished_compiles() -> usize {
    crate::background::unfinished()
}

/// Holds compilations in the background back, until [`resume_compiles`].
#[pyfunction]
fn pause_compiles() {
    crate::background::pause();
}

/// Undoes one [`pause_compiles`].
#[pyfunction]
fn resume_compiles() {
    crate::background::resume();
}

/// To be called in the child after a fork.
#[pyfunction]
fn after_fork() {
    crate::runtime::device::after_fork();
}

/// Whether this process was forked from one that had loaded a plugin.
#[pyfunction]
fn is_forked() -> bool {
    crate::runtime::device::is_forked()
}

/// Names of all operators with a lowering.
#[pyfunction]
fn supported_operators() -> Vec<&'static str> {
    crate::capture::lower::table::supported()
}

#[pymodule]
fn _clutch(m: &Bound<'_, PyModule>) -> PyResult<()> {
    if let Some(complaint) = logs::start() {
        tracing::warn!("{complaint}");
    }
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<graph::CompiledGraph>()?;
    m.add_function(wrap_pyfunction!(metrics, m)?)?;
    m.add_function(wrap_pyfunction!(reset_metrics, m)?)?;
    m.add_function(wrap_pyfunction!(count_eager_parts, m)?)?;
    m.add_function(wrap_pyfunction!(check_target, m)?)?;
    m.add_function(wrap_pyfunction!(check_ladder, m)?)?;
    m.add_function(wrap_pyfunction!(ladder_bucket, m)?)?;
    m.add_function(wrap_pyfunction!(tpu_attached, m)?)?;
    m.add_function(wrap_pyfunction!(enter_strict, m)?)?;
    m.add_function(wrap_pyfunction!(leave_strict, m)?)?;
    m.add_function(wrap_pyfunction!(wait_for_compiles, m)?)?;
    m.add_function(wrap_pyfunction!(unfinished_compiles, m)?)?;
    m.add_function(wrap_pyfunction!(pause_compiles, m)?)?;
    m.add_function(wrap_pyfunction!(resume_compiles, m)?)?;
    m.add_function(wrap_pyfunction!(after_fork, m)?)?;
    m.add_function(wrap_pyfunction!(is_forked, m)?)?;
    m.add_function(wrap_pyfunction!(supported_operators, m)?)?;
    m.add_function(wrap_pyfunction!(graph::compile, m)?)?;
    m.add_function(wrap_pyfunction!(settings::device_info, m)?)?;
    m.add_class::<captured::Captured>()?;
    m.add_function(wrap_pyfunction!(captured::capture, m)?)?;
    m.add_function(wrap_pyfunction!(captured::compile_captured, m)?)?;
    m.add_class::<saved::SavePlan>()?;
    m.add_function(wrap_pyfunction!(saved::plan_saved, m)?)?;
    m.add_function(wrap_pyfunction!(saved::load_saved, m)?)?;
    m.add_function(wrap_pyfunction!(saved::digest, m)?)?;
    m.add_function(wrap_pyfunction!(saved::digest_sections, m)?)?;
    m.add_function(wrap_pyfunction!(cache::cache_stats, m)?)?;
    m.add_function(wrap_pyfunction!(cache::cache_ls, m)?)?;
    m.add_function(wrap_pyfunction!(cache::cache_verify, m)?)?;
    m.add_function(wrap_pyfunction!(cache::cache_prune, m)?)?;
    m.add_function(wrap_pyfunction!(cache::cache_export, m)?)?;
    m.add_function(wrap_pyfunction!(cache::cache_import, m)?)?;
    m.add_function(wrap_pyfunction!(cache::cache_explain, m)?)?;
    Ok(())
}
