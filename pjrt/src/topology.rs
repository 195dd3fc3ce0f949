//! Topologies: compiling for devices that are not on this machine.

use crate::abi;
use crate::api::{ApiRef, non_null, slice_from, string_from};
use crate::attribute::{Attribute, OptionValue, attributes_from, named_values};
use crate::client::{Client, program_struct};
use crate::device::DeviceDescription;
use crate::error::{Error, Result};
use crate::executable::{Executable, Owner};
use crate::options::{CompileOptions, ProgramFormat};
use crate::plugin::Plugin;
use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// TPU topology names that libtpu accepts: generation, colon, chips in each direction.
pub const ACCEPTED_TOPOLOGIES: &str = "v2:AxB, v3:AxB, v4:AxBxC, v5e:AxB, v5p:AxBxC, v6e:AxB, tpu7x:AxBxC \
     (chips in each direction, for example v5e:2x2, v6e:16x16, v5p:4x4x4)";

/// Generations and the number of directions their chips are wired in.
const FAMILIES: &[(&str, usize)] = &[("v2", 2), ("v3", 2), ("v4", 3), ("v5e", 2), ("v5p", 3), ("v6e", 2), ("tpu7x", 3)];

struct Inner {
    plugin: Plugin,
    raw: NonNull<abi::TopologyDescription>,
    name: String,
    /// The client that owns the description, when it is a client's.
    client: Option<Client>,
}

// SAFETY: a PJRT topology is constant.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.client.is_some() {
            return;
        }
        let mut args = abi::TopologyDescriptionDestroyArgs::new();
        args.topology = self.raw.as_ptr();
        // SAFETY: executables hold this struct, so none is left; the topology is not used afterwards.
        unsafe { self.plugin.api().destroy(args) };
    }
}

/// A named arrangement of devices to compile for. Clones are handles to the same topology.
#[derive(Clone)]
pub struct Topology {
    inner: Arc<Inner>,
}

impl fmt::Debug for Topology {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Topology").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

/// Whether a name has a form libtpu accepts.
fn is_tpu_name(name: &str) -> bool {
    let Some((family, sizes)) = name.split_once(':') else { return false };
    let Some((_, rank)) = FAMILIES.iter().find(|(known, _)| *known == family) else { return false };
    let sizes: Vec<&str> = sizes.split('x').collect();
    sizes.len() == *rank
        && sizes.iter().all(|size| size.bytes().all(|byte| byte.is_ascii_digit()) && size.parse::<u32>().is_ok_and(|chips| chips > 0))
}

impl Topology {
    /// Describes the devices called `name`, such as `"v5e:2x2"` for a TPU plugin.
    ///
    /// # Errors
    /// [`Error::UnknownTopology`] for an empty name, or one of no accepted form on a TPU plugin (an empty name would
    /// silently mean a TPU v2); [`Error::TopologyRefused`] when the plugin refuses it; [`Error::Plugin`] with
    /// [`crate::ErrorCode::Unimplemented`] when the plugin has no topologies, as CPU plugins do not.
    pub fn create(plugin: &Plugin, name: &str) -> Result<Self> {
        Self::create_with(plugin, name, &[])
    }

    /// As [`Self::create`], with options of the plugin.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_with(plugin: &Plugin, name: &str, options: &[(&str, OptionValue)]) -> Result<Self> {
        if name.trim().is_empty() || (plugin.is_tpu() && !is_tpu_name(name)) {
            return Err(Error::UnknownTopology { name: name.to_owned(), accepted: ACCEPTED_TOPOLOGIES });
        }
        let values = named_values(options);
        let mut args = abi::TopologyDescriptionCreateArgs::new();
        args.topology_name = name.as_ptr().cast();
        args.topology_name_size = name.len();
        args.create_options = values.as_ptr();
        args.num_options = values.len();
        // SAFETY: name and options are alive during the call.
        let result = unsafe { plugin.api().call(&mut args) };
        match result {
            Ok(()) => {}
            Err(error) if error.is_invalid_argument() => {
                return Err(Error::TopologyRefused { name: name.to_owned(), accepted: ACCEPTED_TOPOLOGIES, source: Box::new(error) });
            }
            Err(error) => return Err(error),
        }
        let raw = non_null("PJRT_TopologyDescription_Create", args.topology)?;
        Ok(Self { inner: Arc::new(Inner { plugin: plugin.clone(), raw, name: name.to_owned(), client: None }) })
    }

    /// Describes the devices of a client.
    ///
    /// # Errors
    /// The plugin has no description of its clients' devices or failed.
    pub fn of_client(client: &Client) -> Result<Self> {
        let mut args = abi::ClientTopologyDescriptionArgs::new();
        args.client = client.raw().as_ptr();
        // SAFETY: the client is alive; it owns the description and is kept beside it.
        unsafe { client.api().call(&mut args) }?;
        let raw = non_null("PJRT_Client_TopologyDescription", args.topology)?;
        let inner = Inner { plugin: client.plugin().clone(), raw, name: String::new(), client: Some(client.clone()) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The name it was created with; empty for a client's.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The plugin.
    #[must_use]
    pub fn plugin(&self) -> &Plugin {
        &self.inner.plugin
    }

    /// Name of the platform, such as `"tpu"`.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn platform_name(&self) -> Result<String> {
        let mut args = abi::TopologyDescriptionPlatformNameArgs::new();
        args.topology = self.inner.raw.as_ptr();
        // SAFETY: the topology is alive and owns the text.
        unsafe {
            self.api().call(&mut args)?;
            Ok(string_from(args.platform_name, args.platform_name_size))
        }
    }

    /// The plugin's text about its platform and build.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn platform_version(&self) -> Result<String> {
        let mut args = abi::TopologyDescriptionPlatformVersionArgs::new();
        args.topology = self.inner.raw.as_ptr();
        // SAFETY: the topology is alive and owns the text.
        unsafe {
            self.api().call(&mut args)?;
            Ok(string_from(args.platform_version, args.platform_version_size))
        }
    }

    /// Descriptions of the devices.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn devices(&self) -> Result<Vec<DeviceDescription<'_>>> {
        let mut args = abi::TopologyDescriptionGetDeviceDescriptionsArgs::new();
        args.topology = self.inner.raw.as_ptr();
        // SAFETY: the topology is alive and owns the list and the descriptions.
        unsafe {
            self.api().call(&mut args)?;
            slice_from(args.descriptions, args.num_descriptions)
                .iter()
                .map(|raw| {
                    let raw = non_null("PJRT_TopologyDescription_GetDeviceDescriptions", *raw)?;
                    Ok(DeviceDescription::new(self.api(), raw))
                })
                .collect()
        }
    }

    /// Kind of the first device, such as `"TPU v5 lite"`.
    ///
    /// # Errors
    /// The plugin failed the call or described no device.
    pub fn device_kind(&self) -> Result<String> {
        match self.devices()?.first() {
            Some(device) => device.kind(),
            None => Err(Error::InvalidAnswer { function: "PJRT_TopologyDescription_GetDeviceDescriptions", what: "no device".to_owned() }),
        }
    }

    /// What the plugin says about the topology.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn attributes(&self) -> Result<BTreeMap<String, Attribute>> {
        let mut args = abi::TopologyDescriptionAttributesArgs::new();
        args.topology = self.inner.raw.as_ptr();
        // SAFETY: the topology is alive and owns the list.
        unsafe {
            self.api().call(&mut args)?;
            Ok(attributes_from(args.attributes, args.num_attributes))
        }
    }

    /// Memory of each device in bytes, where the plugin says.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn device_memory(&self) -> Result<Option<i64>> {
        Ok(self.attributes()?.get("device_memory_bytes_limit").and_then(Attribute::as_int))
    }

    /// Identifies the topology.
    ///
    /// # Errors
    /// The plugin has no fingerprint (before API 0.101) or failed.
    pub fn fingerprint(&self) -> Result<u64> {
        let mut args = abi::TopologyDescriptionFingerprintArgs::new();
        args.topology = self.inner.raw.as_ptr();
        // SAFETY: the topology is alive.
        unsafe { self.api().call(&mut args) }?;
        Ok(args.fingerprint)
    }

    /// The topology as bytes.
    ///
    /// # Errors
    /// The plugin cannot serialise it or failed.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let mut args = abi::TopologyDescriptionSerializeArgs::new();
        args.topology = self.inner.raw.as_ptr();
        // SAFETY: the topology is alive; the bytes are copied before the plugin's deleter frees them.
        unsafe {
            self.api().call(&mut args)?;
            let bytes = slice_from(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size).to_vec();
            if let Some(free) = args.serialized_topology_deleter {
                free(args.serialized_topology);
            }
            Ok(bytes)
        }
    }

    /// Compiles a program for the topology, with no device present.
    ///
    /// # Errors
    /// The plugin refused the program or an option, or the program does not fit the devices.
    pub fn compile(&self, program: &[u8], format: ProgramFormat, options: &CompileOptions) -> Result<Executable> {
        let encoded = options.to_bytes();
        let program = program_struct(program, format);
        let mut args = abi::CompileArgs::new();
        args.topology = self.inner.raw.as_ptr();
        args.program = &raw const program;
        args.compile_options = encoded.as_ptr().cast();
        args.compile_options_size = encoded.len();
        // SAFETY: program, options and topology are alive during the call; there is no client.
        unsafe {
            self.api().call(&mut args)?;
            let raw = non_null("PJRT_Compile", args.executable)?;
            Ok(Executable::new(self.api(), raw, Owner::Topology(self.clone())))
        }
    }

    fn api(&self) -> ApiRef {
        self.inner.plugin.api()
    }
}

#[cfg(test)]
mod tests {
    use super::is_tpu_name;

    #[test]
    fn names_follow_the_accepted_families() {
        for name in ["v2:2x2", "v4:1x1x1", "v5e:2x4", "v5p:16x16x16", "v6e:16x16", "tpu7x:2x2x1"] {
            assert!(is_tpu_name(name), "{name}");
        }
        for name in ["", "v5e", "v5e:", "v5e:2", "v5e:2x0", "v5e:2x2x2", "v8:2x2", "v7x:2x2x1", "v5p-8", "v5e:+1x2"] {
            assert!(!is_tpu_name(name), "{name}");
        }
    }
}
