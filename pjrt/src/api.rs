//! The function table of one plugin: size-gated calls and error conversion.

use crate::abi::{self, Arguments};
use crate::error::{Error, ErrorCode, Result};
use std::mem::offset_of;
use std::ptr::NonNull;

type Function<A> = unsafe extern "C" fn(*mut A) -> *mut abi::Error;

/// A plugin's function table. Valid for the life of the process, since plugins are never unloaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApiRef {
    table: NonNull<abi::Api>,
    size: usize,
}

// SAFETY: the table is constant data of a library that stays loaded, and the PJRT interface is thread-safe.
unsafe impl Send for ApiRef {}
// SAFETY: as above.
unsafe impl Sync for ApiRef {}

impl ApiRef {
    /// # Safety
    /// `table` is what `GetPjrtApi` of a library that is never unloaded returned, and is at least as long as the
    /// version field.
    pub(crate) unsafe fn new(table: NonNull<abi::Api>) -> Self {
        // SAFETY: the first field is the table's own size; the caller says it is there.
        let size = unsafe { table.cast::<usize>().read() };
        Self { table, size }
    }

    /// Version of the interface: major, minor.
    pub(crate) fn version(self) -> (i32, i32) {
        // SAFETY: `new` requires the version field to be inside the table.
        let version = unsafe { &raw const (*self.table.as_ptr()).pjrt_api_version };
        // SAFETY: as above; the fields are read one by one because the rest of the table may be short.
        unsafe { ((*version).major_version, (*version).minor_version) }
    }

    /// First extension of the plugin's chain, null when there is none.
    pub(crate) fn extensions(self) -> *const abi::ExtensionBase {
        // SAFETY: the field lies before the version field, which `new` requires to be there.
        unsafe { (&raw const (*self.table.as_ptr()).extension_start).read() }
    }

    /// The pointer in a slot; `None` if the table is too short or the slot is null.
    fn pointer(self, slot: usize) -> Option<NonNull<()>> {
        if slot + size_of::<*const ()>() > self.size {
            return None;
        }
        // SAFETY: the slot lies within the size the table states; slots are pointer aligned.
        NonNull::new(unsafe { self.table.as_ptr().byte_add(slot).cast::<*mut ()>().read() })
    }

    fn slot<A: Arguments>(self) -> Result<Function<A>> {
        match self.pointer(A::SLOT) {
            // SAFETY: `Arguments` guarantees that the slot holds a function of this type.
            Some(pointer) => Ok(unsafe { std::mem::transmute::<NonNull<()>, Function<A>>(pointer) }),
            None => Err(Error::Unimplemented { function: A::FUNCTION }),
        }
    }

    /// Calls a function of the table and turns its error into ours.
    ///
    /// # Safety
    /// Every pointer in `args` is valid for what the C interface does with it during (and, where it says so, after)
    /// the call.
    #[inline]
    pub(crate) unsafe fn call<A: Arguments>(self, args: &mut A) -> Result<()> {
        let function = self.slot::<A>()?;
        // SAFETY: forwarded to the caller.
        let error = unsafe { function(args) };
        match NonNull::new(error) {
            None => Ok(()),
            // SAFETY: the plugin just handed us this error, to be freed by us.
            Some(error) => Err(unsafe { self.take_error(A::FUNCTION, error) }),
        }
    }

    /// Calls a destructor; an error is logged, since a destructor has no one to return it to.
    ///
    /// # Safety
    /// As for [`Self::call`]; the handle in `args` is not used afterwards.
    pub(crate) unsafe fn destroy<A: Arguments>(self, mut args: A) {
        // SAFETY: forwarded to the caller.
        if let Err(error) = unsafe { self.call(&mut args) } {
            tracing::warn!(%error, "a PJRT handle could not be destroyed");
        }
    }

    /// Reads and frees an error.
    ///
    /// # Safety
    /// `error` is an error of this plugin that nobody else frees.
    #[cold]
    pub(crate) unsafe fn take_error(self, function: &'static str, error: NonNull<abi::Error>) -> Error {
        let mut message = abi::ErrorMessageArgs::new();
        message.error = error.as_ptr();
        let mut text = String::new();
        if let Some(pointer) = self.pointer(offset_of!(abi::Api, PJRT_Error_Message)) {
            // SAFETY: the slot holds a function of this type.
            let read: unsafe extern "C" fn(*mut abi::ErrorMessageArgs) = unsafe { std::mem::transmute(pointer) };
            // SAFETY: the error is alive; the text lives as long as the error and is copied.
            unsafe {
                read(&raw mut message);
                text = string_from(message.message, message.message_size);
            }
        }
        let mut code = abi::ErrorGetCodeArgs::new();
        code.error = error.as_ptr();
        code.code = abi::error_code::UNKNOWN;
        if let Ok(read) = self.slot::<abi::ErrorGetCodeArgs>() {
            // SAFETY: the error is alive.
            let failed = unsafe { read(&raw mut code) };
            if let Some(failed) = NonNull::new(failed) {
                // SAFETY: an error handed to us.
                unsafe { self.free_error(failed) };
            }
        }
        // SAFETY: the error is ours and not used after this.
        unsafe { self.free_error(error) };
        Error::Plugin { function, code: ErrorCode::from_raw(code.code), message: text }
    }

    /// # Safety
    /// `error` is an error of this plugin that is not used afterwards.
    unsafe fn free_error(self, error: NonNull<abi::Error>) {
        let mut args = abi::ErrorDestroyArgs::new();
        args.error = error.as_ptr();
        if let Some(pointer) = self.pointer(offset_of!(abi::Api, PJRT_Error_Destroy)) {
            // SAFETY: the slot holds a function of this type.
            let free: unsafe extern "C" fn(*mut abi::ErrorDestroyArgs) = unsafe { std::mem::transmute(pointer) };
            // SAFETY: forwarded to the caller.
            unsafe { free(&raw mut args) };
        }
    }
}

/// Copies text of the plugin; bytes that are no UTF-8 are replaced.
///
/// # Safety
/// `data` points to `size` readable bytes, or is null.
pub(crate) unsafe fn string_from(data: *const std::ffi::c_char, size: usize) -> String {
    // SAFETY: forwarded to the caller.
    String::from_utf8_lossy(unsafe { slice_from(data.cast(), size) }).into_owned()
}

/// A slice over memory of the plugin; empty for a null pointer.
///
/// # Safety
/// `data` is null or points to `size` elements that stay valid and unchanged for `'a`.
pub(crate) unsafe fn slice_from<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if data.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: forwarded to the caller.
    unsafe { std::slice::from_raw_parts(data, size) }
}

/// A handle the plugin must have filled in.
pub(crate) fn non_null<T>(function: &'static str, pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| Error::InvalidAnswer { function, what: "a null handle".to_owned() })
}
