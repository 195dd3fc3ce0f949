//! Emitted programs to executables, through the cache when there is one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clutch_cache::{Entry, Flight, KeyRecord, Metadata, Store};
use clutch_pjrt::{CompileOptions, Executable, LoadedExecutable, ProgramFormat};

use crate::driver::BuildError;
use crate::keys::executable_key;
use crate::metrics::{METRICS, count, time};
use crate::runtime::device::Device;

/// How long one process waits for another that compiles the same program, before it compiles too.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(1800);

/// Compiled code.
#[derive(Debug)]
pub enum Code {
    /// Loaded on a device of this process.
    Loaded(LoadedExecutable),
    /// Compiled for a device that is not here.
    Elsewhere(Executable),
    /// In the cache, for a device that is not here; what the entry says of it.
    Stored(Metadata),
}

impl Code {
    /// The executable's description; `None` when only its entry is here.
    pub fn executable(&self) -> Option<&Executable> {
        match self {
            Code::Loaded(loaded) => Some(loaded.executable()),
            Code::Elsewhere(executable) => Some(executable),
            Code::Stored(_) => None,
        }
    }
}

/// Compiled code, its key, and whether the cache has it now.
pub struct Compiled {
    /// The code.
    pub code: Code,
    /// Key of its entry.
    pub record: KeyRecord,
    /// Whether the entry is in the cache.
    pub stored: bool,
    /// Whether it was compiled just now. Plugins may serialise what they loaded themselves incompletely.
    pub fresh: bool,
}

/// The compiler options for a device.
pub fn compile_options(device: &Device) -> CompileOptions {
    let mut options = CompileOptions::default();
    if device.is_cpu() {
        for &(name, value) in crate::emit::CPU_OVERRIDES {
            options = options.with_override(name, value);
        }
    }
    options
}

/// The executable of an emitted program: from the cache, or compiled and put there.
///
/// # Errors
/// When the plugin refuses the program. Failures of the cache are counted misses.
pub fn compile(hlo: &[u8], device: &Device, store: Option<&Store>, label: &str) -> Result<Compiled, BuildError> {
    let options = compile_options(device);
    let record = executable_key(hlo, &options, device)?;
    let (mut lead, mut refused) = (None, false);
    if let Some(store) = store {
        let start = Instant::now();
        let flight = store.lead_or_wait(&record, WAIT_FOR_OTHERS);
        time(&METRICS.cache_ns, start.elapsed());
        match flight {
            Flight::Hit(entry) => {
                if let Some(code) = load(entry, device) {
                    return Ok(Compiled { code, record, stored: true, fresh: false });
                }
                refused = true;
            }
            Flight::Lead(guard) => lead = Some(guard),
            Flight::TimedOut => tracing::warn!("another process has been compiling this program for long; compiling it here too"),
        }
        count(&METRICS.executable_misses);
    }
    if crate::strict::is_on() {
        return Err(BuildError::Strict);
    }
    let start = Instant::now();
    let code = match device {
        Device::Here(client) => Code::Loaded(client.compile(hlo, ProgramFormat::Hlo, &options)?),
        Device::Elsewhere(topology) => Code::Elsewhere(topology.compile(hlo, ProgramFormat::Hlo, &options)?),
    };
    let elapsed = start.elapsed();
    time(&METRICS.compile_ns, elapsed);
    count(&METRICS.compiles);
    let stored = match (lead, store) {
        (Some(guard), _) => publish(&code, label, elapsed, |metadata, bytes| guard.publish(metadata, bytes)),
        // What the plugin did not load gives way to what it compiled now.
        (None, Some(store)) if refused => publish(&code, label, elapsed, |metadata, bytes| store.put(&record, metadata, bytes)),
        _ => false,
    };
    Ok(Compiled { code, record, stored, fresh: true })
}

/// The code of an entry; `None`, logged and counted, when the plugin does not take it.
pub fn load(entry: Entry, device: &Device) -> Option<Code> {
    match device {
        Device::Here(client) => {
            let start = Instant::now();
            let loaded = client.load(&entry.payload);
            time(&METRICS.load_ns, start.elapsed());
            match loaded {
                Ok(loaded) => {
                    count(&METRICS.executable_hits);
                    Some(Code::Loaded(loaded))
                }
                Err(error) => {
                    count(&METRICS.load_failures);
                    let message = "the plugin does not load a cached executable; such executables are compiled again";
                    warn_once(&REFUSED, &error, message);
                    None
                }
            }
        }
        Device::Elsewhere(_) => {
            count(&METRICS.executable_hits);
            Some(Code::Stored(entry.metadata))
        }
    }
}

static REFUSED: AtomicBool = AtomicBool::new(false);
static NOT_SERIALIZED: AtomicBool = AtomicBool::new(false);

/// A plugin that fails at one executable mostly fails at all: the first is a warning, the others stand in the log of details.
fn warn_once(warned: &AtomicBool, error: &clutch_pjrt::Error, message: &str) {
    if warned.swap(true, Ordering::Relaxed) {
        tracing::info!(%error, "{message}");
    } else {
        tracing::warn!(%error, "{message}");
    }
}

/// Hands the serialised executable to `put`; whether it is stored.
fn publish(code: &Code, label: &str, elapsed: Duration, put: impl FnOnce(&Metadata, &[u8]) -> bool) -> bool {
    let Some(executable) = code.executable() else { return false };
    let start = Instant::now();
    let stored = match executable.serialize() {
        Ok(bytes) => put(&describe(executable, label, elapsed, bytes.len()), &bytes),
        Err(error) => {
            count(&METRICS.serialize_failures);
            warn_once(&NOT_SERIALIZED, &error, "the plugin cannot serialise an executable; such executables are not cached");
            false
        }
    };
    time(&METRICS.cache_ns, start.elapsed());
    stored
}

/// What an entry says of its executable, for listings and for devices that are not here.
fn describe(executable: &Executable, label: &str, elapsed: Duration, size: usize) -> Metadata {
    let mut metadata = Metadata::new();
    let mut put = |name: &str, value: String| metadata.insert(name.to_owned(), value);
    put("label", label.to_owned());
    put("compile_seconds", format!("{:.3}", elapsed.as_secs_f64()));
    put("serialized_bytes", size.to_string());
    if let Ok(costs) = executable.cost_analysis() {
        for name in ["flops", "bytes accessed", "transcendentals"] {
            if let Some(value) = costs.get(name) {
                put(name, format!("{value:.0}"));
            }
        }
    }
    if let Ok(m) = executable.compiled_memory_stats() {
        put("argument_bytes", m.argument.to_string());
        put("output_bytes", m.output.to_string());
        put("temp_bytes", m.temp.to_string());
        put("alias_bytes", m.alias.to_string());
        put("code_bytes", m.generated_code.to_string());
    }
    if let Ok(fingerprint) = executable.fingerprint() {
        put("fingerprint", fingerprint.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect());
    }
    metadata
}
