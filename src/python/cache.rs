//! The cache for the command line: what it holds, its verification, and bundles.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use clutch_cache::{BundleError, EntryInfo, KeyKind, KeyRecord, LayerId, Store, StoreOptions};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::errors;
use crate::graph_entry::GraphEntry;

/// Directories and bound, from `torch_clutch.options.Options.cache_settings()`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CacheSettings {
    cache_dir: Option<PathBuf>,
    cache_bytes: u64,
    cache_shared: Vec<PathBuf>,
}

impl CacheSettings {
    /// Opens the store. `create` makes a missing directory; otherwise the store goes without it, as an empty one.
    fn open(&self, py: Python<'_>, create: bool) -> PyResult<Store> {
        let directory = self.cache_dir.clone().filter(|d| create || d.exists());
        if create && directory.is_none() {
            return Err(failed(py, "there is no home directory to keep a cache in; set CLUTCH_CACHE_DIR"));
        }
        let shared = self.cache_shared.clone();
        Store::open(StoreOptions { directory, shared, max_bytes: self.cache_bytes, ..StoreOptions::default() }).map_err(|e| failed(py, e))
    }
}

fn failed(py: Python<'_>, error: impl ToString) -> PyErr {
    errors::new(py, "CacheError", &error.to_string())
}

fn bundle_failed(py: Python<'_>, path: &Path, error: &BundleError) -> PyErr {
    match error {
        BundleError::Magic => failed(py, format!("{} is not a cache bundle; make one with `clutch cache export`", path.display())),
        BundleError::Version { .. } => failed(py, format!("{}: {error}; use the Clutch version that wrote it", path.display())),
        other => failed(py, other),
    }
}

/// Calls a Python progress function; the first exception (or a signal's) is kept and ends the work.
fn report<'a>(py: Python<'a>, progress: &'a Py<PyAny>, raised: &'a mut Option<PyErr>) -> impl FnMut(u64, u64) -> bool + 'a {
    move |done, total| match py.check_signals().and_then(|()| progress.call1(py, (done, total)).map(drop)) {
        Ok(()) => true,
        Err(error) => {
            *raised = Some(error);
            false
        }
    }
}

/// What the directories hold, by kind. A directory that is not there yet is an empty one.
#[pyfunction]
pub fn cache_stats<'py>(py: Python<'py>, settings: CacheSettings) -> PyResult<Bound<'py, PyDict>> {
    let store = settings.open(py, false)?;
    let usage = store.usage();
    let info = PyDict::new(py);
    info.set_item("directory", settings.cache_dir.as_deref())?;
    info.set_item("exists", store.directory().is_some())?;
    info.set_item("shared", store.shared())?;
    info.set_item("graph_entries", usage.graph_entries)?;
    info.set_item("graph_bytes", usage.graph_bytes)?;
    info.set_item("executable_entries", usage.executable_entries)?;
    info.set_item("executable_bytes", usage.executable_bytes)?;
    info.set_item("temporaries", usage.temporaries)?;
    info.set_item("temporary_bytes", usage.temporary_bytes)?;
    info.set_item("locks", usage.locks)?;
    info.set_item("max_bytes", settings.cache_bytes)?;
    Ok(info)
}

fn layer_name(layer: &LayerId) -> String {
    match layer {
        LayerId::Local => "local".to_owned(),
        LayerId::Shared(i) => format!("shared {i}"),
    }
}

fn entry<'py>(py: Python<'py>, e: &EntryInfo) -> PyResult<Bound<'py, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("key", e.key.to_string())?;
    info.set_item("kind", e.record.kind().name())?;
    info.set_item("layer", layer_name(&e.layer))?;
    info.set_item("path", e.path.to_string_lossy())?;
    info.set_item("file_bytes", e.file_bytes)?;
    info.set_item("payload_bytes", e.payload_bytes)?;
    info.set_item("last_used", e.last_used.duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()))?;
    info.set_item("metadata", &e.metadata)?;
    info.set_item("fields", shown_fields(&e.record))?;
    Ok(info)
}

fn shown_fields(record: &KeyRecord) -> Vec<(String, String)> {
    record.fields().iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
}

/// Every entry by its header, and the number of entry files whose header cannot be read.
#[pyfunction]
pub fn cache_ls(py: Python<'_>, settings: CacheSettings) -> PyResult<(Bound<'_, PyList>, u64)> {
    let listing = settings.open(py, false)?.ls();
    let list = PyList::empty(py);
    for e in &listing.entries {
        list.append(entry(py, e)?)?;
    }
    Ok((list, listing.unreadable))
}

/// Reads and checks every entry; with `remove`, bad ones of the local directory are removed. `progress(done, total)` is called for each.
#[pyfunction]
pub fn cache_verify<'py>(py: Python<'py>, settings: CacheSettings, remove: bool, progress: Py<PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let store = settings.open(py, false)?;
    let mut raised = None;
    let found = store.verify_with(remove, &mut report(py, &progress, &mut raised));
    if let Some(error) = raised {
        return Err(error);
    }
    let info = PyDict::new(py);
    info.set_item("good", found.good)?;
    info.set_item("good_bytes", found.good_bytes)?;
    let bad = PyList::empty(py);
    for b in &found.bad {
        let one = PyDict::new(py);
        one.set_item("layer", layer_name(&b.layer))?;
        one.set_item("path", b.path.to_string_lossy())?;
        one.set_item("problem", b.problem.to_string())?;
        one.set_item("removed", b.removed)?;
        bad.append(one)?;
    }
    info.set_item("bad", bad)?;
    Ok(info)
}

/// Removes the least recently used entries until at most `bytes` are left.
#[pyfunction]
pub fn cache_prune<'py>(py: Python<'py>, settings: CacheSettings, bytes: u64) -> PyResult<Bound<'py, PyDict>> {
    let store = settings.open(py, false)?;
    let done = py.detach(|| store.prune(bytes));
    let info = PyDict::new(py);
    info.set_item("removed", done.removed)?;
    info.set_item("removed_bytes", done.removed_bytes)?;
    info.set_item("remaining", done.remaining)?;
    info.set_item("remaining_bytes", done.remaining_bytes)?;
    info.set_item("temporaries", done.temporaries)?;
    info.set_item("locks", done.locks)?;
    Ok(info)
}

/// The one entry whose key starts with `prefix`.
fn find<'a>(py: Python<'_>, entries: &'a [EntryInfo], prefix: &str) -> PyResult<&'a EntryInfo> {
    let mut found: Vec<&EntryInfo> = entries.iter().filter(|e| e.key.to_string().starts_with(prefix)).collect();
    found.sort_by_key(|e| (e.key, e.record.kind()));
    found.dedup_by_key(|e| (e.key, e.record.kind()));
    match found[..] {
        [one] => Ok(one),
        [] => Err(failed(py, format!("no entry's key starts with {prefix}; `clutch cache ls` lists the keys"))),
        _ => Err(failed(py, format!("{} keys start with {prefix}; give more digits", found.len()))),
    }
}

/// Writes entries to a bundle: all, or those whose keys start with one of `keys`, graphs with the executables that they name.
#[pyfunction]
pub fn cache_export<'py>(
    py: Python<'py>,
    settings: CacheSettings,
    path: PathBuf,
    keys: Vec<String>,
    progress: Py<PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let store = settings.open(py, false)?;
    let mut chosen = BTreeSet::new();
    if !keys.is_empty() {
        let entries = store.ls().entries;
        for prefix in &keys {
            let found = find(py, &entries, prefix)?;
            chosen.insert(found.key);
            if found.record.kind() == KeyKind::Graph
                && let Some(graph) = store.get(&found.record).and_then(|e| GraphEntry::decode(&e.payload))
            {
                chosen.insert(graph.main.key());
                chosen.extend(graph.weights.map(|w| w.key()));
            }
        }
    }
    let mut raised = None;
    let mut select = |e: &EntryInfo| keys.is_empty() || chosen.contains(&e.key);
    let done = store.export_file_with(&path, &mut select, &mut report(py, &progress, &mut raised));
    if let Some(error) = raised {
        return Err(error);
    }
    let done = done.map_err(|e| bundle_failed(py, &path, &e))?;
    let info = PyDict::new(py);
    info.set_item("exported", done.exported)?;
    info.set_item("bytes", done.bytes)?;
    info.set_item("skipped", done.skipped)?;
    Ok(info)
}

/// Reads a bundle into the local directory. `progress(bytes, file bytes)` is called for each entry.
#[pyfunction]
pub fn cache_import<'py>(py: Python<'py>, settings: CacheSettings, path: PathBuf, progress: Py<PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let store = settings.open(py, true)?;
    let total = std::fs::metadata(&path).map(|m| m.len()).unwrap_or_default();
    let mut raised = None;
    let done = {
        let mut tell = report(py, &progress, &mut raised);
        store.import_file_with(&path, &mut |bytes| tell(bytes, total))
    };
    if let Some(error) = raised {
        return Err(error);
    }
    let done = done.map_err(|e| bundle_failed(py, &path, &e))?;
    let info = PyDict::new(py);
    info.set_item("imported", done.imported)?;
    info.set_item("present", done.present)?;
    info.set_item("corrupt", done.corrupt)?;
    info.set_item("future_version", done.future_version)?;
    info.set_item("failed", done.failed)?;
    info.set_item("bytes", done.bytes)?;
    info.set_item("complete", done.complete)?;
    Ok(info)
}

/// What an entry stands for and how it differs from another: the one named, else the nearest.
#[pyfunction]
#[pyo3(signature = (settings, key, other=None))]
pub fn cache_explain<'py>(py: Python<'py>, settings: CacheSettings, key: &str, other: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
    let store = settings.open(py, false)?;
    let entries = store.ls().entries;
    let ours = find(py, &entries, key)?;
    let info = PyDict::new(py);
    info.set_item("entry", entry(py, ours)?)?;
    let compared = match other {
        Some(prefix) => {
            let theirs = find(py, &entries, prefix)?;
            Some((theirs.clone(), ours.record.differences(&theirs.record)))
        }
        None => store.explain_others(&ours.record).nearest.map(|n| (n.entry, n.differences)),
    };
    let differences = PyList::empty(py);
    if let Some((theirs, found)) = &compared {
        for d in found {
            let show = |value: &Option<clutch_cache::FieldValue>| value.as_ref().map(ToString::to_string);
            differences.append((d.name.as_str(), show(&d.ours), show(&d.theirs)))?;
        }
        info.set_item("other", entry(py, theirs)?)?;
    } else {
        info.set_item("other", py.None())?;
    }
    info.set_item("differences", differences)?;
    Ok(info)
}
