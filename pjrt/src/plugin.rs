//! Loading plugins.

use crate::abi;
use crate::api::ApiRef;
use crate::attribute::{Attribute, attributes_from};
use crate::error::{Error, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// A version of the PJRT interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// Major version; different ones are incompatible.
    pub major: i32,
    /// Minor version; newer ones only add.
    pub minor: i32,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// The oldest interface version that is accepted.
pub const MINIMUM_API: ApiVersion = ApiVersion { major: 0, minor: 81 };

struct Inner {
    api: ApiRef,
    version: ApiVersion,
    path: PathBuf,
    attributes: BTreeMap<String, Attribute>,
    extensions: Vec<u32>,
}

/// A loaded and initialised plugin. Clones are handles to the same plugin.
#[derive(Clone)]
pub struct Plugin {
    inner: Arc<Inner>,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Plugin").field("path", &self.inner.path).field("version", &self.inner.version).finish_non_exhaustive()
    }
}

/// Plugins of this process, so that each file is initialised once.
static LOADED: Mutex<Vec<Plugin>> = Mutex::new(Vec::new());

/// Environment that libtpu needs before it is loaded on a machine without a TPU: name and value.
///
/// Without it, initialisation waits minutes for a metadata server, and a second process fails on a lock file. The
/// values need not match the topology that is compiled for.
#[must_use]
pub const fn libtpu_aot_environment() -> &'static [(&'static str, &'static str)] {
    &[
        ("TPU_SKIP_MDS_QUERY", "1"),
        ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
        ("TPU_WORKER_HOSTNAMES", "localhost"),
        ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
        ("TPU_LOG_DIR", "disabled"),
    ]
}

impl Plugin {
    /// Loads the plugin at `path` and initialises it; a file that is loaded already gives the same plugin again.
    ///
    /// The file's code is run, so it must be trusted. The library stays loaded until the process ends.
    ///
    /// # Errors
    /// The file is missing, cannot be loaded, is no plugin, is too old, or fails to initialise.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_prepared(path.as_ref(), || ())
    }

    /// As [`Self::load`], after setting those variables of [`libtpu_aot_environment`] that are not set yet.
    ///
    /// # Safety
    /// No other thread may read or write the process environment through the C library during the call. Rust's own
    /// `std::env` takes a lock and is no danger; native code that calls `getenv` is. Callers that cannot know set the
    /// variables before threads start (from Python: `os.environ` before the first compile), and then this function
    /// changes nothing and is as safe as [`Self::load`].
    ///
    /// # Errors
    /// As [`Self::load`].
    pub unsafe fn load_for_aot(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_prepared(path.as_ref(), || {
            for (name, value) in libtpu_aot_environment() {
                if std::env::var_os(name).is_none() {
                    // SAFETY: forwarded to the caller.
                    unsafe { std::env::set_var(name, value) };
                }
            }
        })
    }

    fn load_prepared(path: &Path, prepare: impl FnOnce()) -> Result<Self> {
        let Ok(canonical) = path.canonicalize() else {
            return Err(Error::PluginFileMissing { path: path.to_owned() });
        };
        if !canonical.is_file() {
            return Err(Error::NotAPlugin { path: canonical, reason: "it is not a file" });
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.iter().find(|plugin| plugin.inner.path == canonical) {
            return Ok(plugin.clone());
        }
        prepare();
        let plugin = Self::open(canonical)?;
        loaded.push(plugin.clone());
        Ok(plugin)
    }

    fn open(path: PathBuf) -> Result<Self> {
        // SAFETY: the library's initialisers run; the caller of `load` trusts the file. Local binding keeps two
        // plugins that carry the same libraries apart.
        let library = match unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => library,
            Err(error) => return Err(Error::PluginLoad { path, message: error.to_string() }),
        };
        // SAFETY: a symbol of this name has this type in every PJRT plugin.
        let entry = unsafe { library.get::<abi::GetPjrtApi>(b"GetPjrtApi\0") }.map(|symbol| *symbol);
        // Plugins start threads and register exit handlers: unloading one is never sound.
        std::mem::forget(library);
        let Ok(entry) = entry else {
            return Err(Error::NotAPlugin { path, reason: "it does not export GetPjrtApi" });
        };
        // SAFETY: the function takes nothing and returns a static table.
        let Some(table) = NonNull::new(unsafe { entry() }.cast_mut()) else {
            return Err(Error::NotAPlugin { path, reason: "GetPjrtApi returned nothing" });
        };
        // SAFETY: the first field of every version of the table is its size.
        let size = unsafe { table.cast::<usize>().read() };
        if size < std::mem::offset_of!(abi::Api, PJRT_Error_Destroy) {
            return Err(Error::NotAPlugin { path, reason: "its function table is too short" });
        }
        // SAFETY: the library is never unloaded, and the table reaches past the version.
        let api = unsafe { ApiRef::new(table) };
        let (major, minor) = api.version();
        let version = ApiVersion { major, minor };
        if major != MINIMUM_API.major || version < MINIMUM_API {
            return Err(Error::ApiVersion { path, found: version, needed: MINIMUM_API });
        }
        if minor > abi::API_MINOR {
            tracing::info!(%version, path = %path.display(), "the plugin's API is newer than the one declared here");
        }
        // SAFETY: no pointers are passed.
        if let Err(source) = unsafe { api.call(&mut abi::PluginInitializeArgs::new()) } {
            return Err(Error::PluginInitialization { path, source: Box::new(source) });
        }
        let attributes = read_attributes(api)?;
        let extensions = read_extensions(api);
        tracing::debug!(%version, path = %path.display(), "PJRT plugin loaded");
        Ok(Self { inner: Arc::new(Inner { api, version, path, attributes, extensions }) })
    }

    /// Interface version of the plugin.
    #[must_use]
    pub fn api_version(&self) -> ApiVersion {
        self.inner.version
    }

    /// The plugin's file, symbolic links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// What the plugin says about itself, such as `xla_version` and the StableHLO versions it reads.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, Attribute> {
        &self.inner.attributes
    }

    /// Numbers of the interface extensions the plugin carries, in its order.
    #[must_use]
    pub fn extensions(&self) -> &[u32] {
        &self.inner.extensions
    }

    /// Whether this is a TPU plugin: it carries the TPU topology extension.
    #[must_use]
    pub fn is_tpu(&self) -> bool {
        self.inner.extensions.contains(&abi::extension_type::TPU_TOPOLOGY)
    }

    pub(crate) fn api(&self) -> ApiRef {
        self.inner.api
    }
}

fn read_attributes(api: ApiRef) -> Result<BTreeMap<String, Attribute>> {
    let mut args = abi::PluginAttributesArgs::new();
    // SAFETY: the struct holds outputs only.
    match unsafe { api.call(&mut args) } {
        // SAFETY: the plugin owns the array for the life of the process.
        Ok(()) => Ok(unsafe { attributes_from(args.attributes, args.num_attributes) }),
        Err(error) if error.is_unimplemented() => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

fn read_extensions(api: ApiRef) -> Vec<u32> {
    let mut kinds = Vec::new();
    let mut next = api.extensions();
    // The chains seen hold under twenty entries; the bound keeps a broken one from looping.
    while !next.is_null() && kinds.len() < 256 {
        // SAFETY: the chain is static data of the plugin, and every entry begins with this header.
        let entry = unsafe { &*next };
        kinds.push(entry.type_);
        next = entry.next;
    }
    kinds
}
