//! Devices and their descriptions.

use crate::abi;
use crate::api::{ApiRef, non_null, string_from};
use crate::attribute::{Attribute, attributes_from};
use crate::client::Client;
use crate::error::Result;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// What a device is; the device itself may not be on this machine.
#[derive(Clone, Copy, Debug)]
pub struct DeviceDescription<'a> {
    api: ApiRef,
    raw: NonNull<abi::DeviceDescription>,
    owner: PhantomData<&'a ()>,
}

// SAFETY: descriptions are constant data of their client or topology.
unsafe impl Send for DeviceDescription<'_> {}
// SAFETY: as above.
unsafe impl Sync for DeviceDescription<'_> {}

impl DeviceDescription<'_> {
    /// # Safety
    /// `raw` is a description of this plugin that lives as long as `'a`.
    pub(crate) unsafe fn new(api: ApiRef, raw: NonNull<abi::DeviceDescription>) -> Self {
        Self { api, raw, owner: PhantomData }
    }

    /// Number of the device, unique among those of its client or topology.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn id(&self) -> Result<i32> {
        let mut args = abi::DeviceDescriptionIdArgs::new();
        args.device_description = self.raw.as_ptr();
        // SAFETY: the description is alive.
        unsafe { self.api.call(&mut args) }?;
        Ok(args.id)
    }

    /// Kind of the device, such as `"cpu"` or `"TPU v5 lite"`.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn kind(&self) -> Result<String> {
        let mut args = abi::DeviceDescriptionKindArgs::new();
        args.device_description = self.raw.as_ptr();
        // SAFETY: the description is alive and owns the text.
        unsafe {
            self.api.call(&mut args)?;
            Ok(string_from(args.device_kind, args.device_kind_size))
        }
    }

    /// The plugin's one-line description.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn describe(&self) -> Result<String> {
        let mut args = abi::DeviceDescriptionToStringArgs::new();
        args.device_description = self.raw.as_ptr();
        // SAFETY: the description is alive and owns the text.
        unsafe {
            self.api.call(&mut args)?;
            Ok(string_from(args.to_string, args.to_string_size))
        }
    }

    /// Attributes such as coordinates.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn attributes(&self) -> Result<BTreeMap<String, Attribute>> {
        let mut args = abi::DeviceDescriptionAttributesArgs::new();
        args.device_description = self.raw.as_ptr();
        // SAFETY: the description is alive and owns the attributes.
        unsafe {
            self.api.call(&mut args)?;
            Ok(attributes_from(args.attributes, args.num_attributes))
        }
    }
}

/// Memory of a device in bytes; `None` where the plugin does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// In use now.
    pub bytes_in_use: i64,
    /// Most that was in use.
    pub peak_bytes_in_use: Option<i64>,
    /// Allocations alive (a count).
    pub num_allocs: Option<i64>,
    /// Largest single allocation.
    pub largest_alloc_size: Option<i64>,
    /// What the allocator may use.
    pub bytes_limit: Option<i64>,
    /// Reserved.
    pub bytes_reserved: Option<i64>,
    /// Largest free block.
    pub largest_free_block_bytes: Option<i64>,
}

/// A device of a client.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    client: &'a Client,
    raw: NonNull<abi::Device>,
}

// SAFETY: PJRT devices are thread-safe and owned by the client.
unsafe impl Send for Device<'_> {}
// SAFETY: as above.
unsafe impl Sync for Device<'_> {}

impl<'a> Device<'a> {
    /// `raw` must be a device of `client`.
    pub(crate) fn new(client: &'a Client, raw: NonNull<abi::Device>) -> Self {
        Self { client, raw }
    }

    pub(crate) fn raw(&self) -> NonNull<abi::Device> {
        self.raw
    }

    /// The client the device belongs to.
    #[must_use]
    pub fn client(&self) -> &'a Client {
        self.client
    }

    /// The device's description.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn description(&self) -> Result<DeviceDescription<'a>> {
        let mut args = abi::DeviceGetDescriptionArgs::new();
        args.device = self.raw.as_ptr();
        let api = self.client.api();
        // SAFETY: the client owns the device and its description.
        unsafe {
            api.call(&mut args)?;
            Ok(DeviceDescription::new(api, non_null("PJRT_Device_GetDescription", args.device_description)?))
        }
    }

    /// Number of the device.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn id(&self) -> Result<i32> {
        self.description()?.id()
    }

    /// Kind of the device.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn kind(&self) -> Result<String> {
        self.description()?.kind()
    }

    /// Number of the hardware on this host.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn local_hardware_id(&self) -> Result<i32> {
        let mut args = abi::DeviceLocalHardwareIdArgs::new();
        args.device = self.raw.as_ptr();
        // SAFETY: the client owns the device.
        unsafe { self.client.api().call(&mut args) }?;
        Ok(args.local_hardware_id)
    }

    /// Memory in use and available.
    ///
    /// # Errors
    /// The plugin failed the call or does not count (CPU plugins do not).
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        let mut args = abi::DeviceMemoryStatsArgs::new();
        args.device = self.raw.as_ptr();
        // SAFETY: the client owns the device.
        unsafe { self.client.api().call(&mut args) }?;
        Ok(MemoryStats {
            bytes_in_use: args.bytes_in_use,
            peak_bytes_in_use: args.peak_bytes_in_use_is_set.then_some(args.peak_bytes_in_use),
            num_allocs: args.num_allocs_is_set.then_some(args.num_allocs),
            largest_alloc_size: args.largest_alloc_size_is_set.then_some(args.largest_alloc_size),
            bytes_limit: args.bytes_limit_is_set.then_some(args.bytes_limit),
            bytes_reserved: args.bytes_reserved_is_set.then_some(args.bytes_reserved),
            largest_free_block_bytes: args.largest_free_block_bytes_is_set.then_some(args.largest_free_block_bytes),
        })
    }
}
