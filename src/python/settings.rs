//! Settings that Python hands to the pipeline, and what it can ask about devices.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clutch_cache::{Store, StoreOptions};
use clutch_graph::op::Precision;
use clutch_passes::{Rewrite, Roll};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::errors;
use crate::bucket::ladder::Ladder;
use crate::driver::Config;
use crate::runtime::device::{self, Device, PluginChoice};
use crate::target::Target;

/// Directory, shared directories and bound of an open store.
type StoreKey = (PathBuf, Vec<PathBuf>, u64);

/// Options in force for one compilation, from `torch_clutch.options.Options.for_rust()`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    target: String,
    plugin: Option<String>,
    site_packages: Vec<PathBuf>,
    precision: String,
    inference: bool,
    buckets: String,
    donate: bool,
    fold_budget_bytes: usize,
    /// `on`, `exact` or `off`.
    rewrite: String,
    /// `auto`, `on` or `off`.
    roll: String,
    torch_version: String,
    dump_dir: Option<PathBuf>,
    keep_texts: bool,
    cache: bool,
    cache_dir: Option<PathBuf>,
    cache_bytes: u64,
    cache_shared: Vec<PathBuf>,
    /// Ladders of single symbols, by name, or by number as `#0`.
    ladders: BTreeMap<String, String>,
    /// `exact` or `error`: what becomes of a size beyond the largest bucket of a list.
    beyond: String,
    /// Calls do not wait for compilations.
    pub(super) async_compile: bool,
    /// What the user calls each argument, for messages; empty when not known.
    pub(super) names: Vec<String>,
}

impl Settings {
    /// The pipeline's configuration.
    pub fn config(&self) -> Config {
        Config {
            precision: match self.precision.as_str() {
                "high" => Precision::High,
                "medium" => Precision::Default,
                _ => Precision::Highest,
            },
            inference: self.inference,
            donate: self.donate,
            fold_budget_bytes: self.fold_budget_bytes,
            rewrite: match self.rewrite.as_str() {
                "off" => Rewrite::Off,
                "exact" => Rewrite::Exact,
                _ => Rewrite::On,
            },
            roll: match self.roll.as_str() {
                "on" => Roll::On,
                "auto" => Roll::Auto,
                _ => Roll::Off,
            },
            torch_version: self.torch_version.clone(),
            dump_dir: self.dump_dir.clone(),
            keep_texts: self.keep_texts,
            keep_programs: false,
        }
    }

    /// The ladder of each of these symbols, from the option `buckets`.
    pub fn ladders(&self, py: Python<'_>, symbols: &[String]) -> PyResult<Vec<Ladder>> {
        let named = |(i, name): (usize, &String)| {
            let text = self.ladders.get(name).or_else(|| self.ladders.get(&format!("#{i}"))).unwrap_or(&self.buckets);
            Ladder::parse(text).map_err(|e| errors::new(py, "OptionError", &format!("option 'buckets': {e}")))
        };
        symbols.iter().enumerate().map(named).collect()
    }

    /// Whether a size beyond the largest bucket of a list is an error.
    pub fn beyond_is_error(&self) -> bool {
        self.beyond == "error"
    }

    /// The cache that the options name; opened once a process for each set of options.
    pub fn store(&self) -> Option<Store> {
        static STORES: Mutex<BTreeMap<StoreKey, Store>> = Mutex::new(BTreeMap::new());
        let directory = self.cache_dir.clone()?;
        if !self.cache {
            return None;
        }
        let key = (directory.clone(), self.cache_shared.clone(), self.cache_bytes);
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        let store = stores.entry(key).or_insert_with(|| {
            let shared = self.cache_shared.clone();
            Store::open_or_without(StoreOptions {
                directory: Some(directory),
                shared,
                max_bytes: self.cache_bytes,
                ..StoreOptions::default()
            })
        });
        Some(store.clone())
    }

    /// The cache that the options name; it must be usable.
    pub fn required_store(&self, py: Python<'_>) -> PyResult<Store> {
        let store = self.store().filter(|s| s.directory().is_some());
        store.ok_or_else(|| {
            let place = self.cache_dir.as_ref().map_or_else(|| "no directory".to_owned(), |d| d.display().to_string());
            errors::new(py, "CacheError", &format!("the cache is off or cannot be used ({place}); see `clutch cache stats`"))
        })
    }

    /// The device that the options name.
    pub fn device(&self, py: Python<'_>) -> PyResult<Device> {
        if device::is_forked() {
            return Err(errors::forked());
        }
        let target = Target::parse(&self.target).map_err(|e| errors::new(py, "TargetError", &e.to_string()))?;
        let named = self.plugin.is_some() || std::env::var_os("CLUTCH_PJRT_PLUGIN").is_some();
        if target == Target::Tpu && !named && !device::tpu_attached() {
            let message = "no TPU is attached to this machine (there is no /dev/accel* and no /dev/vfio/0); use target 'auto' or 'cpu' here, \
                           or a topology such as 'v5e:2x2' to compile ahead of time";
            return Err(errors::new(py, "DeviceError", message));
        }
        let choice = PluginChoice { site_packages: self.site_packages.clone(), explicit: self.plugin.clone() };
        device::open(&target, &choice).map_err(|e| {
            let class = if matches!(e, clutch_pjrt::Error::UnknownTopology { .. }) { "TargetError" } else { "PluginError" };
            errors::new(py, class, &e.to_string())
        })
    }
}

/// Plugin, platform and devices of the given settings.
#[pyfunction]
pub fn device_info<'py>(py: Python<'py>, settings: Settings) -> PyResult<Bound<'py, PyDict>> {
    let device = settings.device(py)?;
    let info = PyDict::new(py);
    info.set_item("plugin", device.plugin().path())?;
    info.set_item("api_version", device.plugin().api_version().to_string())?;
    let identity = device.identity().map_err(|e| errors::plugin(py, &e))?;
    info.set_item("platform", identity.platform)?;
    info.set_item("platform_version", identity.version)?;
    info.set_item("device_kind", identity.kind)?;
    info.set_item("topology", identity.topology)?;
    let count = match &device {
        Device::Here(client) => client.devices().len(),
        Device::Elsewhere(topology) => topology.devices().map_err(|e| errors::plugin(py, &e))?.len(),
    };
    info.set_item("devices", count)?;
    info.set_item("memory_bytes", device.memory())?;
    Ok(info)
}
