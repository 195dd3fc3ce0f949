//! Reading a buffer's memory in place.

use crate::abi;
use crate::api::non_null;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use std::ptr::NonNull;
use std::sync::Arc;

mod sealed {
    /// Always gives the same buffer, on which the view's reference count relies.
    pub trait Sealed {
        fn buffer_ref(&self) -> &crate::buffer::Buffer;
    }
}

/// How a view holds its buffer: `Buffer`, `&Buffer` or `Arc<Buffer>`.
pub trait BufferHandle: sealed::Sealed {}

impl sealed::Sealed for Buffer {
    fn buffer_ref(&self) -> &Buffer {
        self
    }
}

impl sealed::Sealed for &Buffer {
    fn buffer_ref(&self) -> &Buffer {
        self
    }
}

impl sealed::Sealed for Arc<Buffer> {
    fn buffer_ref(&self) -> &Buffer {
        self
    }
}

impl BufferHandle for Buffer {}
impl BufferHandle for &Buffer {}
impl BufferHandle for Arc<Buffer> {}

/// A buffer's memory read in place, on plugins whose device memory is host memory. While the view lives the memory
/// stays: it can be neither freed nor donated.
#[derive(Debug)]
pub struct HostView<B: BufferHandle> {
    buffer: B,
    data: NonNull<u8>,
    len: usize,
}

// SAFETY: the view reads memory that nobody writes while the view lives.
unsafe impl<B: BufferHandle + Send> Send for HostView<B> {}
// SAFETY: as above.
unsafe impl<B: BufferHandle + Sync> Sync for HostView<B> {}

impl<B: BufferHandle> HostView<B> {
    /// Waits until the buffer is computed and takes a reference to its memory.
    ///
    /// # Errors
    /// The computation failed, the buffer is deleted, its memory is not host memory, or its elements are narrower than
    /// a byte.
    pub fn new(buffer: B) -> Result<Self> {
        let handle = buffer.buffer_ref();
        handle.ready_event()?.wait()?;
        if !handle.is_on_cpu()? {
            return Err(Error::InvalidArgument {
                function: "HostView::new",
                message: "the buffer is not in host memory; copy it with Buffer::to_host".to_owned(),
            });
        }
        let ty = handle.element_type()?;
        if ty.is_sub_byte() {
            return Err(Error::InvalidArgument {
                function: "HostView::new",
                message: format!("a {ty} buffer may be packed; copy it with Buffer::to_host"),
            });
        }
        let len = handle.host_size()?;
        let mut args = abi::BufferIncreaseExternalReferenceCountArgs::new();
        args.buffer = handle.raw().as_ptr();
        // SAFETY: the buffer is alive.
        unsafe { handle.client().api().call(&mut args) }?;
        // From here on the view's drop gives the reference back.
        let mut view = Self { buffer, data: NonNull::dangling(), len };
        if len > 0 {
            let address = view.buffer.buffer_ref().unsafe_pointer()?;
            view.data = non_null("PJRT_Buffer_UnsafePointer", std::ptr::with_exposed_provenance_mut(address))?;
        }
        Ok(view)
    }

    /// The memory, in the buffer's own layout (dense row-major unless the program asked for another).
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the reference keeps the memory; it is host memory of this length and is not written.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    /// Address of the first byte; dangling for an empty array. Valid as long as the view.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.data.as_ptr()
    }

    /// The buffer.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        self.buffer.buffer_ref()
    }
}

impl<B: BufferHandle> Drop for HostView<B> {
    fn drop(&mut self) {
        let handle = self.buffer.buffer_ref();
        let mut args = abi::BufferDecreaseExternalReferenceCountArgs::new();
        args.buffer = handle.raw().as_ptr();
        // SAFETY: the reference was taken in `new` and is given back once.
        unsafe { handle.client().api().destroy(args) };
    }
}
