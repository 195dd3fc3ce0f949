//! Buffers in host memory.

use crate::client::device;
use crate::event::Completion;
use crate::handle::{Failure, Kind, borrow, export, free, function};
use crate::program::Shape;
use clutch_pjrt::{ElementType, abi};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

static BYTES: AtomicI64 = AtomicI64::new(0);

pub(crate) fn bytes_in_use() -> i64 {
    BYTES.load(Ordering::SeqCst)
}

#[derive(Clone)]
#[repr(align(64))]
struct Line([u8; 64]);

enum Memory {
    /// Memory of ours, on 64-byte boundaries.
    Owned(Vec<Line>),
    /// The caller's, until the completion is told.
    Borrowed(*const u8, Completion),
}

/// An array.
pub(crate) struct Buffer {
    pub(crate) shape: Shape,
    memory: Memory,
    deleted: AtomicBool,
    references: AtomicUsize,
    ready: Completion,
}

impl Buffer {
    /// A buffer of our own; missing data is zero.
    pub(crate) fn owned(shape: Shape, data: &[u8], ready: Completion) -> Self {
        let size = shape.bytes();
        let mut lines = vec![Line([0; 64]); size.div_ceil(64)];
        for (line, chunk) in lines.iter_mut().zip(data.chunks(64)) {
            line.0[..chunk.len()].copy_from_slice(chunk);
        }
        Self::new(shape, Memory::Owned(lines), ready)
    }

    fn new(shape: Shape, memory: Memory, ready: Completion) -> Self {
        BYTES.fetch_add(shape.bytes() as i64, Ordering::SeqCst);
        Self { shape, memory, deleted: AtomicBool::new(false), references: AtomicUsize::new(0), ready }
    }

    fn pointer(&self) -> *const u8 {
        match &self.memory {
            Memory::Owned(lines) => lines.as_ptr().cast(),
            Memory::Borrowed(pointer, _) => *pointer,
        }
    }

    pub(crate) fn data(&self) -> Result<&[u8], Failure> {
        if self.deleted.load(Ordering::SeqCst) {
            return Err(Failure::invalid("Buffer has been deleted or donated."));
        }
        // SAFETY: the memory is as long as the shape says and lives as long as the buffer.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer(), self.shape.bytes()) })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.shape.bytes() as i64, Ordering::SeqCst);
        if let Memory::Borrowed(_, done) = &self.memory {
            done.complete(Ok(()));
        }
    }
}

/// # Safety
/// `handle` is a buffer of this plugin that lives during `'a`.
pub(crate) unsafe fn buffer<'a>(handle: *const abi::Buffer) -> Result<&'a Buffer, Failure> {
    // SAFETY: forwarded to the caller.
    unsafe { borrow::<Buffer, _>(handle) }
}

function!(client_buffer_from_host_buffer(args: ClientBufferFromHostBufferArgs) {
    let ty = ElementType::from_raw(args.type_).ok_or_else(|| Failure::invalid("unknown element type"))?;
    // SAFETY: the caller passes dims and data of the sizes stated.
    let dims = if args.num_dims == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(args.dims, args.num_dims) } };
    let shape = Shape { ty, dims: dims.to_vec() };
    if !args.byte_strides.is_null() || !args.device_layout.is_null() {
        return Err(Failure::invalid("the fake plugin takes dense row-major arrays only"));
    }
    if args.device != device() {
        return Err(Failure::invalid("unknown device"));
    }
    let (made, done) = if args.host_buffer_semantics >= abi::host_buffer_semantics::IMMUTABLE_ZERO_COPY {
        let done = Completion::default();
        let memory = Memory::Borrowed(args.data.cast(), done.clone());
        (Buffer::new(shape, memory, Completion::done(Ok(()))), done)
    } else {
        let data = match shape.bytes() {
            0 => &[][..],
            // SAFETY: the data has the size of the shape.
            size => unsafe { std::slice::from_raw_parts(args.data.cast::<u8>(), size) },
        };
        (Buffer::owned(shape, data, Completion::done(Ok(()))), Completion::done(Ok(())))
    };
    args.buffer = export(Kind::Buffer, made);
    args.done_with_host_buffer = done.export();
    Ok(())
});

function!(buffer_destroy(args: BufferDestroyArgs) {
    // SAFETY: buffers are exported.
    unsafe { free::<Buffer, _>(args.buffer) };
    Ok(())
});

function!(buffer_element_type(args: BufferElementTypeArgs) {
    // SAFETY: buffers are exported.
    args.type_ = unsafe { buffer(args.buffer) }?.shape.ty.to_raw();
    Ok(())
});

function!(buffer_dimensions(args: BufferDimensionsArgs) {
    // SAFETY: buffers are exported.
    let dims = &unsafe { buffer(args.buffer) }?.shape.dims;
    args.dims = dims.as_ptr();
    args.num_dims = dims.len();
    Ok(())
});

function!(buffer_on_device_size(args: BufferOnDeviceSizeInBytesArgs) {
    // SAFETY: buffers are exported.
    args.on_device_size_in_bytes = unsafe { buffer(args.buffer) }?.shape.bytes();
    Ok(())
});

function!(buffer_delete(args: BufferDeleteArgs) {
    // SAFETY: buffers are exported.
    unsafe { buffer(args.buffer) }?.deleted.store(true, Ordering::SeqCst);
    Ok(())
});

function!(buffer_is_deleted(args: BufferIsDeletedArgs) {
    // SAFETY: buffers are exported.
    args.is_deleted = unsafe { buffer(args.buffer) }?.deleted.load(Ordering::SeqCst);
    Ok(())
});

function!(buffer_is_on_cpu(args: BufferIsOnCpuArgs) {
    args.is_on_cpu = true;
    Ok(())
});

function!(buffer_ready_event(args: BufferReadyEventArgs) {
    // SAFETY: buffers are exported.
    let buffer = unsafe { buffer(args.buffer) }?;
    buffer.data()?;
    args.event = buffer.ready.export();
    Ok(())
});

function!(buffer_unsafe_pointer(args: BufferUnsafePointerArgs) {
    // SAFETY: buffers are exported.
    let buffer = unsafe { buffer(args.buffer) }?;
    buffer.data()?;
    args.buffer_pointer = buffer.pointer().expose_provenance();
    Ok(())
});

function!(buffer_increase_external_reference_count(args: BufferIncreaseExternalReferenceCountArgs) {
    // SAFETY: buffers are exported.
    let buffer = unsafe { buffer(args.buffer) }?;
    buffer.data()?;
    buffer.references.fetch_add(1, Ordering::SeqCst);
    Ok(())
});

function!(buffer_decrease_external_reference_count(args: BufferDecreaseExternalReferenceCountArgs) {
    // SAFETY: buffers are exported.
    let references = &unsafe { buffer(args.buffer) }?.references;
    match references.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::invalid("no external reference is held")),
    }
});

function!(buffer_to_host_buffer(args: BufferToHostBufferArgs) {
    // SAFETY: buffers are exported.
    let source = unsafe { buffer(args.src) }?;
    let data = source.data()?;
    if args.dst.is_null() {
        args.dst_size = data.len();
        return Ok(());
    }
    if args.dst_size < data.len() {
        return Err(Failure::invalid("the destination is too small"));
    }
    // SAFETY: the destination has room for the size it states.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), args.dst.cast::<u8>(), data.len()) };
    args.event = source.ready.export();
    Ok(())
});
