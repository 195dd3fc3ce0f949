//! Clients: a plugin's devices, ready to compile for and run on.

use crate::abi;
use crate::api::{ApiRef, non_null, slice_from, string_from};
use crate::attribute::{OptionValue, named_values};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::execute::LoadedExecutable;
use crate::options::{CompileOptions, ProgramFormat};
use crate::plugin::Plugin;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

struct Inner {
    plugin: Plugin,
    raw: NonNull<abi::Client>,
    devices: Vec<NonNull<abi::Device>>,
    platform_name: String,
    platform_version: String,
}

// SAFETY: PJRT clients and devices are thread-safe.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut args = abi::ClientDestroyArgs::new();
        args.client = self.raw.as_ptr();
        // SAFETY: every handle made from the client holds this struct, so none is left.
        unsafe { self.plugin.api().destroy(args) };
    }
}

/// A connection to a plugin's devices. Clones are handles to the same client; buffers and executables keep it alive.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Client")
            .field("platform", &self.inner.platform_name)
            .field("devices", &self.inner.devices.len())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client with the plugin's own options; see [`Self::cpu_options`] for CPU plugins.
    ///
    /// # Errors
    /// The plugin refused an option, found no device or failed otherwise.
    pub fn create(plugin: &Plugin, options: &[(&str, OptionValue)]) -> Result<Self> {
        let api = plugin.api();
        let values = named_values(options);
        let mut args = abi::ClientCreateArgs::new();
        args.create_options = values.as_ptr();
        args.num_options = values.len();
        // SAFETY: the options are alive during the call; no callbacks are passed.
        unsafe { api.call(&mut args) }?;
        let raw = non_null("PJRT_Client_Create", args.client)?;
        let mut inner =
            Inner { plugin: plugin.clone(), raw, devices: Vec::new(), platform_name: String::new(), platform_version: String::new() };
        inner.fill(api)?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Options for CPU plugins: one device, execution on the calling thread.
    #[must_use]
    pub fn cpu_options() -> Vec<(&'static str, OptionValue)> {
        vec![("cpu_device_count", OptionValue::Int(1)), ("asynchronous", OptionValue::Bool(false))]
    }

    /// Name of the platform, such as `"cpu"` or `"tpu"`.
    #[must_use]
    pub fn platform_name(&self) -> &str {
        &self.inner.platform_name
    }

    /// The plugin's text about its platform and build; executables of one version may not load in another.
    #[must_use]
    pub fn platform_version(&self) -> &str {
        &self.inner.platform_version
    }

    /// The plugin.
    #[must_use]
    pub fn plugin(&self) -> &Plugin {
        &self.inner.plugin
    }

    /// The devices this process can use; at least one.
    #[must_use]
    pub fn devices(&self) -> Vec<Device<'_>> {
        self.inner.devices.iter().map(|raw| Device::new(self, *raw)).collect()
    }

    /// The device used when none is named: the first.
    #[must_use]
    pub fn default_device(&self) -> Device<'_> {
        Device::new(self, self.inner.devices[0])
    }

    /// Compiles a program and loads it onto the client's devices.
    ///
    /// # Errors
    /// The plugin refused the program or an option, or ran out of memory.
    pub fn compile(&self, program: &[u8], format: ProgramFormat, options: &CompileOptions) -> Result<LoadedExecutable> {
        let encoded = options.to_bytes();
        let program = program_struct(program, format);
        let mut args = abi::ClientCompileArgs::new();
        args.client = self.inner.raw.as_ptr();
        args.program = &raw const program;
        args.compile_options = encoded.as_ptr().cast();
        args.compile_options_size = encoded.len();
        // SAFETY: program and options are alive during the call and only read.
        unsafe { self.api().call(&mut args) }?;
        let raw = non_null("PJRT_Client_Compile", args.executable)?;
        // SAFETY: the executable was made for us by this client.
        unsafe { LoadedExecutable::new(self.clone(), raw) }
    }

    /// Loads an executable that [`crate::Executable::serialize`] wrote, in this or another process.
    ///
    /// The bytes hold machine code: they must come from a trusted place.
    ///
    /// # Errors
    /// The plugin does not know the bytes, or they were made by another version or for another device.
    pub fn load(&self, serialized: &[u8]) -> Result<LoadedExecutable> {
        if serialized.is_empty() {
            return Err(Error::InvalidArgument { function: "Client::load", message: "the serialised executable is empty".to_owned() });
        }
        let mut args = abi::ExecutableDeserializeAndLoadArgs::new();
        args.client = self.inner.raw.as_ptr();
        args.serialized_executable = serialized.as_ptr().cast();
        args.serialized_executable_size = serialized.len();
        // SAFETY: the bytes are alive during the call; the optional pointers are null.
        unsafe { self.api().call(&mut args) }?;
        let raw = non_null("PJRT_Executable_DeserializeAndLoad", args.loaded_executable)?;
        // SAFETY: the executable was made for us by this client.
        unsafe { LoadedExecutable::new(self.clone(), raw) }
    }

    pub(crate) fn api(&self) -> ApiRef {
        self.inner.plugin.api()
    }

    pub(crate) fn raw(&self) -> NonNull<abi::Client> {
        self.inner.raw
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Inner {
    fn fill(&mut self, api: ApiRef) -> Result<()> {
        let mut devices = abi::ClientAddressableDevicesArgs::new();
        devices.client = self.raw.as_ptr();
        let mut name = abi::ClientPlatformNameArgs::new();
        name.client = self.raw.as_ptr();
        let mut version = abi::ClientPlatformVersionArgs::new();
        version.client = self.raw.as_ptr();
        // SAFETY: the client is alive and owns what it returns; all of it is copied.
        unsafe {
            api.call(&mut name)?;
            self.platform_name = string_from(name.platform_name, name.platform_name_size);
            api.call(&mut version)?;
            self.platform_version = string_from(version.platform_version, version.platform_version_size);
            api.call(&mut devices)?;
            for device in slice_from(devices.addressable_devices, devices.num_addressable_devices) {
                self.devices.push(non_null("PJRT_Client_AddressableDevices", *device)?);
            }
        }
        if self.devices.is_empty() {
            return Err(Error::InvalidAnswer {
                function: "PJRT_Client_AddressableDevices",
                what: "no device that this process can use".to_owned(),
            });
        }
        Ok(())
    }
}

/// The C form of a program; valid while `code` is.
pub(crate) fn program_struct(code: &[u8], format: ProgramFormat) -> abi::Program {
    let mut program = abi::Program::new();
    program.code = code.as_ptr().cast_mut().cast();
    program.code_size = code.len();
    program.format = format.name().as_ptr().cast();
    program.format_size = format.name().len();
    program
}
