//! The devices of this process: one client a plugin, made once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Instant;

use clutch_pjrt::{Client, Discovery, Error, Platform, Plugin, Topology};

use crate::metrics::{METRICS, time};
use crate::target::Target;

/// Where plugins may be, and which one the user named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PluginChoice {
    /// Folders of installed Python packages.
    pub site_packages: Vec<PathBuf>,
    /// The `plugin` option: a path or a package name.
    pub explicit: Option<String>,
}

/// What programs are compiled for and, when it is here, run on.
#[derive(Clone, Debug)]
pub enum Device {
    /// A device of this machine.
    Here(Arc<Client>),
    /// A topology that programs are compiled for ahead of time.
    Elsewhere(Arc<Topology>),
}

impl Device {
    /// Whether passes should choose the CPU's forms.
    pub fn is_cpu(&self) -> bool {
        match self {
            Device::Here(client) => client.platform_name().eq_ignore_ascii_case("cpu"),
            Device::Elsewhere(_) => false,
        }
    }

    /// The plugin.
    pub fn plugin(&self) -> &Plugin {
        match self {
            Device::Here(client) => client.plugin(),
            Device::Elsewhere(topology) => topology.plugin(),
        }
    }

    /// A line that names platform, device kind and plugin build, as it stands in cache keys.
    ///
    /// # Errors
    /// When the plugin cannot say.
    pub fn identity(&self) -> Result<DeviceIdentity, Error> {
        match self {
            // Attached devices are described by their topology too, so that what was compiled ahead of time has the same keys.
            Device::Here(client) if !self.is_cpu() => match Topology::of_client(client) {
                Ok(topology) => DeviceIdentity::of_topology(&topology),
                Err(error) if error.is_unimplemented() => DeviceIdentity::of_client(client),
                Err(error) => Err(error),
            },
            Device::Here(client) => DeviceIdentity::of_client(client),
            Device::Elsewhere(topology) => DeviceIdentity::of_topology(topology),
        }
    }

    /// Memory of one device in bytes, where the plugin says.
    pub fn memory(&self) -> Option<i64> {
        let topology = match self {
            Device::Here(client) => Topology::of_client(client).ok()?.device_memory(),
            Device::Elsewhere(topology) => topology.device_memory(),
        };
        topology.ok().flatten()
    }
}

/// What distinguishes one device from another for compiled code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// Platform name, as in `cpu`.
    pub platform: String,
    /// The plugin's description of its build.
    pub version: String,
    /// Kind of device.
    pub kind: String,
    /// Topology name when compiled ahead of time.
    pub topology: String,
    /// Fingerprint of the devices' arrangement: the same for a named topology and for the attached devices that it names.
    pub arrangement: String,
}

impl DeviceIdentity {
    fn of_client(client: &Client) -> Result<Self, Error> {
        Ok(DeviceIdentity {
            platform: client.platform_name().to_owned(),
            version: client.platform_version().to_owned(),
            kind: client.default_device().kind()?,
            topology: String::new(),
            arrangement: String::new(),
        })
    }

    fn of_topology(topology: &Topology) -> Result<Self, Error> {
        let arrangement = match topology.fingerprint() {
            Ok(fingerprint) => format!("{fingerprint:016x}"),
            Err(error) if error.is_unimplemented() => topology.name().to_owned(),
            Err(error) => return Err(error),
        };
        Ok(DeviceIdentity {
            platform: topology.platform_name()?,
            version: topology.platform_version()?,
            kind: topology.device_kind()?,
            topology: topology.name().to_owned(),
            arrangement,
        })
    }
}

/// This process was forked from one whose plugins run threads, which are not here.
static FORKED: AtomicBool = AtomicBool::new(false);

/// To be called in the child after a fork.
pub fn after_fork() {
    let (clients, topologies) = (CLIENTS.try_lock(), TOPOLOGIES.try_lock());
    // A lock that another thread of the parent held stays locked here.
    let used = matches!(&clients, Err(TryLockError::WouldBlock))
        || matches!(&topologies, Err(TryLockError::WouldBlock))
        || clients.is_ok_and(|clients| !clients.is_empty())
        || topologies.is_ok_and(|topologies| !topologies.is_empty());
    FORKED.fetch_or(used, Ordering::Relaxed);
}

/// Whether this process was forked from one that had loaded a plugin: nothing can be compiled or run in it.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

static CLIENTS: Mutex<BTreeMap<PathBuf, Arc<Client>>> = Mutex::new(BTreeMap::new());
static TOPOLOGIES: Mutex<BTreeMap<(PathBuf, String), Arc<Topology>>> = Mutex::new(BTreeMap::new());

/// Whether this machine has a TPU, by the device files that its driver makes.
pub fn tpu_attached() -> bool {
    let entry = |folder: &str, prefix: &str| {
        std::fs::read_dir(folder).is_ok_and(|files| files.flatten().any(|f| f.file_name().to_str().is_some_and(|n| n.starts_with(prefix))))
    };
    entry("/dev", "accel") || entry("/dev/vfio", "0")
}

/// The device of a target; the plugin is loaded and the client created at first use.
///
/// # Errors
/// When no plugin is found, it does not load, or it refuses the topology.
pub fn open(target: &Target, choice: &PluginChoice) -> Result<Device, Error> {
    let discovery = Discovery::new(choice.site_packages.clone(), choice.explicit.clone());
    match target {
        Target::Topology(name) => {
            let path = Plugin::discover(Some(Platform::Tpu), &discovery)?;
            let mut topologies = TOPOLOGIES.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (path.clone(), name.clone());
            if let Some(topology) = topologies.get(&key) {
                return Ok(Device::Elsewhere(topology.clone()));
            }
            // SAFETY: the variables are read by libtpu while it loads; the module sets them under the interpreter's lock, and no other
            // thread of Clutch reads the environment at this point.
            let plugin = unsafe { Plugin::load_for_aot(&path) }?;
            let topology = Arc::new(Topology::create(&plugin, name)?);
            topologies.insert(key, topology.clone());
            Ok(Device::Elsewhere(topology))
        }
        Target::Tpu => client(&Plugin::discover(Some(Platform::Tpu), &discovery)?, false),
        Target::Cpu => client(&Plugin::discover(Some(Platform::Cpu), &discovery)?, true),
        Target::Auto => {
            let named = discovery.explicit.is_some() || discovery.environment.is_some();
            let platform = if named {
                None
            } else if tpu_attached() {
                Some(Platform::Tpu)
            } else {
                Some(Platform::Cpu)
            };
            let path = Plugin::discover(platform, &discovery)?;
            let is_tpu = path.file_name().is_some_and(|n| n == "libtpu.so");
            client(&path, !is_tpu)
        }
    }
}

fn client(path: &Path, cpu: bool) -> Result<Device, Error> {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = clients.get(path) {
        return Ok(Device::Here(client.clone()));
    }
    let start = Instant::now();
    let _quiet = cpu.then(QuietPlugin::start);
    let plugin = Plugin::load(path)?;
    let options = if cpu { Client::cpu_options() } else { Vec::new() };
    let client = match Client::create(&plugin, &options) {
        Err(error) if cpu && error.is_invalid_argument() => Client::create(&plugin, &[])?,
        other => other?,
    };
    let client = Arc::new(client);
    time(&METRICS.plugin_ns, start.elapsed());
    clients.insert(path.to_owned(), client.clone());
    Ok(Device::Here(client))
}

/// While it lives, a plugin that loads writes only errors to the terminal, unless the user asked for more with the same variable.
struct QuietPlugin {
    ours: bool,
}

const PLUGIN_LOG_LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";

impl QuietPlugin {
    fn start() -> Self {
        let ours = std::env::var_os(PLUGIN_LOG_LEVEL).is_none();
        if ours {
            // SAFETY: called with the lock of CLIENTS held and, from Python, under the interpreter's lock, so neither Clutch nor Python
            // code reads or writes the environment at the same time.
            unsafe { std::env::set_var(PLUGIN_LOG_LEVEL, "2") };
        }
        QuietPlugin { ours }
    }
}

impl Drop for QuietPlugin {
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: as in `start`.
            unsafe { std::env::remove_var(PLUGIN_LOG_LEVEL) };
        }
    }
}
