//! Shared by the integration tests: finding plugins and writing small HLO modules.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod fake;
pub mod hlo;

use clutch_pjrt::{Client, Device, Discovery, Platform, Plugin};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// The folders with installed Python packages: `CLUTCH_TEST_SITE_PACKAGES`, else the workspace's `.venv`.
pub fn site_packages() -> Vec<PathBuf> {
    if let Some(list) = std::env::var_os("CLUTCH_TEST_SITE_PACKAGES") {
        return std::env::split_paths(&list).collect();
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/lib");
    let mut found: Vec<PathBuf> = std::fs::read_dir(lib)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages")))
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

/// The plugin file in a package. `None`, with a counted note, only where missing plugins are allowed.
pub fn plugin_path(package: &str) -> Option<PathBuf> {
    let discovery = Discovery { site_packages: site_packages(), explicit: Some(package.to_owned()), environment: None };
    match Plugin::discover(Some(Platform::Cpu), &discovery) {
        Ok(path) => Some(path),
        Err(error) if std::env::var_os("CLUTCH_TEST_ALLOW_MISSING_PLUGINS").is_some_and(|value| value == "1") => {
            let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
            eprintln!("skipped {count}: {error}");
            None
        }
        Err(error) => panic!("{error}\n(set CLUTCH_TEST_ALLOW_MISSING_PLUGINS=1 to skip tests that need it)"),
    }
}

/// Both CPU plugins.
pub const CPU_PACKAGES: [&str; 2] = ["lammps-jax-pjrt-cpu", "fastatomstruct-xla-cpu"];

/// Runs `test` on a one-device client of each CPU plugin.
pub fn on_each_cpu_plugin(test: impl Fn(&Client)) {
    for package in CPU_PACKAGES {
        let Some(path) = plugin_path(package) else { continue };
        let plugin = Plugin::load(path).unwrap();
        let client = Client::create(&plugin, &Client::cpu_options()).unwrap();
        eprintln!("{package}: API {}", plugin.api_version());
        test(&client);
    }
}

pub fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub fn f32_values(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

pub fn f32_buffer(device: Device<'_>, values: &[f32], dims: &[i64]) -> clutch_pjrt::Buffer {
    clutch_pjrt::Buffer::from_host(device, &f32_bytes(values), dims, clutch_pjrt::ElementType::F32, clutch_pjrt::CopySemantics::DuringCall)
        .unwrap()
}
