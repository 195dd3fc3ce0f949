//! Device buffers.

use crate::abi::{self, host_buffer_semantics};
use crate::api::{non_null, slice_from};
use crate::client::Client;
use crate::device::Device;
use crate::dtype::ElementType;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::host_view::HostView;
use std::ptr::NonNull;

/// How a copying transfer to the device treats the host's memory. With either, the memory is free again on return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CopySemantics {
    /// The plugin copies during the call; the device transfer may go on afterwards.
    #[default]
    DuringCall,
    /// The plugin reads the memory until the transfer is complete, with no copy between; the call waits for that.
    UntilTransferCompletes,
}

/// An array in device memory. Dropping it frees the memory, once executions that use it are complete.
#[derive(Debug)]
pub struct Buffer {
    client: Client,
    raw: NonNull<abi::Buffer>,
}

// SAFETY: PJRT buffers are thread-safe.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut args = abi::BufferDestroyArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer is ours and not used afterwards.
        unsafe { self.client.api().destroy(args) };
    }
}

impl Buffer {
    /// # Safety
    /// `raw` is a buffer of `client` that belongs to the caller.
    #[inline]
    pub(crate) unsafe fn new(client: Client, raw: NonNull<abi::Buffer>) -> Self {
        Self { client, raw }
    }

    #[inline]
    pub(crate) fn raw(&self) -> NonNull<abi::Buffer> {
        self.raw
    }

    /// The client the buffer belongs to.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Copies a dense row-major host array to the device.
    ///
    /// # Errors
    /// `data` is not exactly as long as `dims` and `ty` say, or the plugin failed.
    pub fn from_host(device: Device<'_>, data: &[u8], dims: &[i64], ty: ElementType, semantics: CopySemantics) -> Result<Self> {
        let needed = ty.array_bytes(dims);
        if needed != Some(data.len()) {
            return Err(Error::InvalidArgument {
                function: "Buffer::from_host",
                message: format!("{} bytes given for {ty}{dims:?}, which needs {needed:?}", data.len()),
            });
        }
        let raw_semantics = match semantics {
            CopySemantics::DuringCall => host_buffer_semantics::IMMUTABLE_ONLY_DURING_CALL,
            CopySemantics::UntilTransferCompletes => host_buffer_semantics::IMMUTABLE_UNTIL_TRANSFER_COMPLETES,
        };
        // SAFETY: the memory is read during the call, or until the event that is waited for below.
        let (buffer, done) = unsafe { transfer(device, data.as_ptr(), dims, ty, raw_semantics) }?;
        if semantics == CopySemantics::UntilTransferCompletes {
            done.wait()?;
        }
        Ok(buffer)
    }

    /// A buffer over a dense row-major host array, without a copy where the plugin can: CPU plugins need 64-byte
    /// alignment and copy silently otherwise (compare [`Self::unsafe_pointer`] with `data` to know).
    ///
    /// # Safety
    /// `data` is valid for reads of the array's size (`ty`, `dims`) and is neither written nor freed until the buffer
    /// is dropped and every execution that takes it is complete. A program that donates the input must not be given
    /// such a buffer unless it is named non-donatable.
    ///
    /// # Errors
    /// A dimension is invalid, or the plugin failed.
    pub unsafe fn from_host_zero_copy(device: Device<'_>, data: *const u8, dims: &[i64], ty: ElementType) -> Result<Self> {
        check_zero_copy(data, dims, ty)?;
        // SAFETY: forwarded to the caller.
        let (buffer, _done) = unsafe { transfer(device, data, dims, ty, host_buffer_semantics::IMMUTABLE_ZERO_COPY) }?;
        Ok(buffer)
    }

    /// As [`Self::from_host_zero_copy`] for memory that may be written: a program that the buffer is donated to computes its aliased
    /// output in place, and the memory then holds that output.
    ///
    /// # Safety
    /// `data` is valid for reads and writes of the array's size, and nothing else reads or writes it until the buffer is dropped and
    /// every execution that takes it is complete.
    ///
    /// # Errors
    /// A dimension is invalid, or the plugin failed.
    pub unsafe fn from_host_in_place(device: Device<'_>, data: *mut u8, dims: &[i64], ty: ElementType) -> Result<Self> {
        check_zero_copy(data, dims, ty)?;
        // SAFETY: forwarded to the caller.
        let (buffer, _done) = unsafe { transfer(device, data, dims, ty, host_buffer_semantics::MUTABLE_ZERO_COPY) }?;
        Ok(buffer)
    }

    /// As [`Self::from_host_zero_copy`], and calls `release` once when the plugin no longer reads the memory: after
    /// the buffer is dropped and its uses are complete, or at once if the plugin copied. The callback may run on any
    /// thread and must not block.
    ///
    /// # Safety
    /// `data` is valid for reads of the array's size and is neither written nor freed until `release` is called.
    ///
    /// # Errors
    /// As [`Self::from_host_zero_copy`]; `release` is dropped without a call when no buffer was made.
    pub unsafe fn from_host_zero_copy_with_release(
        device: Device<'_>,
        data: *const u8,
        dims: &[i64],
        ty: ElementType,
        release: impl FnOnce() + Send + 'static,
    ) -> Result<Self> {
        check_zero_copy(data, dims, ty)?;
        // SAFETY: forwarded to the caller.
        let (buffer, done) = unsafe { transfer(device, data, dims, ty, host_buffer_semantics::IMMUTABLE_ZERO_COPY) }?;
        done.on_ready(move |_outcome| release())?;
        Ok(buffer)
    }

    /// Element type.
    ///
    /// # Errors
    /// The plugin failed or named a type this crate does not know.
    pub fn element_type(&self) -> Result<ElementType> {
        let mut args = abi::BufferElementTypeArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { self.client.api().call(&mut args) }?;
        ElementType::from_raw(args.type_)
            .ok_or_else(|| Error::InvalidAnswer { function: "PJRT_Buffer_ElementType", what: format!("element type {}", args.type_) })
    }

    /// Dimensions, outermost first.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn dimensions(&self) -> Result<&[i64]> {
        let mut args = abi::BufferDimensionsArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer owns the array and does not change it.
        unsafe {
            self.client.api().call(&mut args)?;
            Ok(slice_from(args.dims, args.num_dims))
        }
    }

    /// Dimension numbers from the fastest to the slowest varying; `None` if the layout is given in strides.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn minor_to_major(&self) -> Result<Option<Vec<i64>>> {
        let mut args = abi::BufferGetMemoryLayoutArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer is alive and owns the arrays; the union field read is the one the type names.
        unsafe {
            self.client.api().call(&mut args)?;
            if args.layout.type_ != abi::buffer_memory_layout_type::TILED {
                return Ok(None);
            }
            let tiled = &args.layout.data.tiled;
            Ok(Some(slice_from(tiled.minor_to_major, tiled.minor_to_major_size).to_vec()))
        }
    }

    /// Bytes in device memory, padding included.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn on_device_size(&self) -> Result<usize> {
        let mut args = abi::BufferOnDeviceSizeInBytesArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { self.client.api().call(&mut args) }?;
        Ok(args.on_device_size_in_bytes)
    }

    /// Bytes of the array in host memory.
    ///
    /// # Errors
    /// The plugin failed a call.
    pub fn host_size(&self) -> Result<usize> {
        let dims = self.dimensions()?;
        self.element_type()?
            .array_bytes(dims)
            .ok_or_else(|| Error::InvalidAnswer { function: "PJRT_Buffer_Dimensions", what: format!("dimensions {dims:?}") })
    }

    /// Whether the memory is gone: freed by [`Self::delete`], or donated to an execution.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn is_deleted(&self) -> Result<bool> {
        let mut args = abi::BufferIsDeletedArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { self.client.api().call(&mut args) }?;
        Ok(args.is_deleted)
    }

    /// Whether the memory is host memory.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn is_on_cpu(&self) -> Result<bool> {
        let mut args = abi::BufferIsOnCpuArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { self.client.api().call(&mut args) }?;
        Ok(args.is_on_cpu)
    }

    /// Frees the device memory; the handle stays and later uses fail.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn delete(&self) -> Result<()> {
        let mut args = abi::BufferDeleteArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { self.client.api().call(&mut args) }
    }

    /// Completion of whatever computes the buffer.
    ///
    /// # Errors
    /// The plugin failed the call, as for a deleted buffer.
    pub fn ready_event(&self) -> Result<Event> {
        let mut args = abi::BufferReadyEventArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer is alive, and the event is made for us.
        unsafe {
            self.client.api().call(&mut args)?;
            let raw = non_null("PJRT_Buffer_ReadyEvent", args.event)?;
            Ok(Event::new(self.client.api(), raw, "PJRT_Buffer_ReadyEvent"))
        }
    }

    /// Address of the device memory. On CPU plugins it is a host address; read it through [`HostView`].
    ///
    /// # Errors
    /// The plugin failed the call or does not give addresses away.
    pub fn unsafe_pointer(&self) -> Result<usize> {
        let mut args = abi::BufferUnsafePointerArgs::new();
        args.buffer = self.raw.as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { self.client.api().call(&mut args) }?;
        Ok(args.buffer_pointer)
    }

    /// Copies the array into `destination` in dense row-major order and waits for the copy.
    ///
    /// # Errors
    /// `destination` is not exactly [`Self::host_size`] bytes long, or the plugin failed, then or when computing the
    /// buffer.
    pub fn to_host(&self, destination: &mut [u8]) -> Result<()> {
        let needed = self.host_size()?;
        if destination.len() != needed {
            return Err(Error::InvalidArgument {
                function: "Buffer::to_host",
                message: format!("{} bytes given for a buffer of {needed}", destination.len()),
            });
        }
        let rank = self.dimensions()?.len() as i64;
        let minor_to_major: Vec<i64> = (0..rank).rev().collect();
        let mut layout = abi::BufferMemoryLayout::new();
        layout.type_ = abi::buffer_memory_layout_type::TILED;
        let mut tiled = abi::BufferMemoryLayoutTiled::new();
        tiled.minor_to_major = minor_to_major.as_ptr();
        tiled.minor_to_major_size = minor_to_major.len();
        layout.data.tiled = tiled;
        let mut args = abi::BufferToHostBufferArgs::new();
        args.src = self.raw.as_ptr();
        args.dst = destination.as_mut_ptr().cast();
        args.dst_size = destination.len();
        args.host_layout = &raw mut layout;
        // SAFETY: the destination is borrowed until the event is complete, and is as long as stated.
        let event = unsafe {
            self.client.api().call(&mut args)?;
            Event::new(self.client.api(), non_null("PJRT_Buffer_ToHostBuffer", args.event)?, "PJRT_Buffer_ToHostBuffer")
        };
        event.wait()
    }

    /// Copies the array into new host memory; see [`Self::to_host`].
    ///
    /// # Errors
    /// As [`Self::to_host`].
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.host_size()?];
        self.to_host(&mut bytes)?;
        Ok(bytes)
    }

    /// A view of the memory in place; see [`HostView::new`].
    ///
    /// # Errors
    /// As [`HostView::new`].
    pub fn host_view(&self) -> Result<HostView<&Self>> {
        HostView::new(self)
    }

    /// A view of the memory in place that owns the buffer; see [`HostView::new`].
    ///
    /// # Errors
    /// As [`HostView::new`]; the buffer is then gone.
    pub fn into_host_view(self) -> Result<HostView<Self>> {
        HostView::new(self)
    }
}

fn check_zero_copy(data: *const u8, dims: &[i64], ty: ElementType) -> Result<()> {
    if data.is_null() || ty.array_bytes(dims).is_none() {
        return Err(Error::InvalidArgument {
            function: "Buffer::from_host_zero_copy",
            message: format!("no array {ty}{dims:?} at {data:?}"),
        });
    }
    Ok(())
}

/// # Safety
/// `data` is readable for the array's size for as long as the semantics say.
unsafe fn transfer(device: Device<'_>, data: *const u8, dims: &[i64], ty: ElementType, semantics: u32) -> Result<(Buffer, Event)> {
    let client = device.client();
    let found = client.plugin().api_version();
    if found.minor < ty.since_minor() {
        return Err(Error::UnsupportedElementType { element_type: ty, found });
    }
    let mut args = abi::ClientBufferFromHostBufferArgs::new();
    args.client = client.raw().as_ptr();
    args.data = data.cast();
    args.type_ = ty.to_raw();
    args.dims = dims.as_ptr();
    args.num_dims = dims.len();
    args.host_buffer_semantics = semantics;
    args.device = device.raw().as_ptr();
    let api = client.api();
    // SAFETY: dims are alive during the call; the data is the caller's promise; no strides, memory or layout are given.
    unsafe {
        api.call(&mut args)?;
        let function = "PJRT_Client_BufferFromHostBuffer";
        let buffer = Buffer::new(client.clone(), non_null(function, args.buffer)?);
        let done = Event::new(api, non_null(function, args.done_with_host_buffer)?, function);
        Ok((buffer, done))
    }
}
