//! The two cache keys: of a captured program (a hit skips passes and emission) and of an emitted program (a hit skips the plugin).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use clutch_cache::{KeyKind, KeyRecord};
use clutch_pjrt::{CompileOptions, Error};

use crate::capture::canonical::canonical_bytes;
use crate::capture::program::Program;
use crate::driver::Config;
use crate::runtime::device::Device;

/// The version of this build: the package's and a digest of its sources.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("CLUTCH_SOURCE_DIGEST"));

/// Key of a captured program with its symbols bound; `padded` programs serve smaller sizes too.
///
/// # Errors
/// When the plugin cannot describe its device.
pub fn graph_key(program: &Program, symbols: &[i64], padded: bool, device: &Device, config: &Config) -> Result<KeyRecord, Error> {
    let mut record = KeyRecord::new(KeyKind::Graph);
    record.push_text("clutch", VERSION);
    record.push_text("torch", config.torch_version.as_str());
    push_device(&mut record, device)?;
    record.push_text("precision", format!("{:?}", config.precision));
    record.push_text("inference", config.inference.to_string());
    record.push_text("donate", config.donate.to_string());
    record.push_text("fold_budget_bytes", config.fold_budget_bytes.to_string());
    record.push_text("rewrite", format!("{:?}", config.rewrite));
    record.push_text("roll", format!("{:?}", config.roll));
    record.push_text("sizes", format!("{symbols:?}{}", if padded { " and below" } else { "" }));
    record.push_bytes("program", &canonical_bytes(program));
    Ok(record)
}

/// Key of an emitted program.
///
/// # Errors
/// When the plugin cannot describe its device.
pub fn executable_key(hlo: &[u8], options: &CompileOptions, device: &Device) -> Result<KeyRecord, Error> {
    let mut record = KeyRecord::new(KeyKind::Executable);
    push_device(&mut record, device)?;
    record.push_bytes("compile_options", &options.to_bytes());
    record.push_bytes("hlo", hlo);
    Ok(record)
}

fn push_device(record: &mut KeyRecord, device: &Device) -> Result<(), Error> {
    let identity = device.identity()?;
    record.push_text("platform", identity.platform.as_str());
    record.push_text("device_kind", identity.kind);
    record.push_text("topology", identity.arrangement);
    record.push_text("plugin_version", identity.version);
    record.push_text("plugin_api", device.plugin().api_version().to_string());
    record.push_text("plugin_file", plugin_digest(device.plugin().path()));
    if device.is_cpu() {
        record.push_text("cpu_features", cpu_features());
    }
    Ok(())
}

/// The fields of a record that describe where code runs.
///
/// # Errors
/// When the plugin cannot describe its device.
pub fn device_fields(device: &Device) -> Result<KeyRecord, Error> {
    let mut record = KeyRecord::new(KeyKind::Executable);
    push_device(&mut record, device)?;
    Ok(record)
}

/// Length and a digest of both ends of the plugin's file: tells builds apart that call themselves the same, without reading it all. Read
/// once a process, since a plugin that is loaded stays.
fn plugin_digest(path: &Path) -> String {
    static DIGESTS: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let mut digests = DIGESTS.lock().unwrap_or_else(PoisonError::into_inner);
    digests.entry(path.to_owned()).or_insert_with(|| read_digest(path)).clone()
}

fn read_digest(path: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    const END: u64 = 64 << 10;
    let digest = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        let mut hasher = blake3::Hasher::new();
        let mut bytes = Vec::new();
        file.by_ref().take(END).read_to_end(&mut bytes)?;
        file.seek(SeekFrom::Start(length.saturating_sub(END)))?;
        file.take(END).read_to_end(&mut bytes)?;
        hasher.update(&bytes);
        Ok(format!("{length}-{}", &hasher.finalize().to_hex()[..16]))
    };
    digest().unwrap_or_else(|error| format!("unreadable: {}", error.kind()))
}

/// The features that the operating system reports for the first processor, sorted.
fn cpu_features() -> &'static str {
    static FEATURES: OnceLock<String> = OnceLock::new();
    FEATURES.get_or_init(|| {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = info.lines().find(|l| l.starts_with("flags") || l.starts_with("Features")).unwrap_or_default();
        let mut words: Vec<&str> = line.split_once(':').map(|(_, words)| words).unwrap_or_default().split_whitespace().collect();
        words.sort_unstable();
        words.join(" ")
    })
}
