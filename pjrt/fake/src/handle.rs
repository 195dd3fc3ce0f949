//! Handles, their counts, and errors.

use crate::control;
use clutch_pjrt::ErrorCode;
use clutch_pjrt::abi::{self, Arguments};
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a call fails.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: ErrorCode, message: &str) -> Self {
        Self { code, message: message.to_owned() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::InvalidArgument, message: message.into() }
    }
}

pub(crate) type Outcome = Result<(), Failure>;

/// Kinds of handles that are counted.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Error,
    Event,
    Client,
    Buffer,
    Executable,
    LoadedExecutable,
    Topology,
    Serialized,
}

const NAMES: [&str; 8] = ["error", "event", "client", "buffer", "executable", "loaded_executable", "topology", "serialized"];
static LIVE: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

pub(crate) fn live(kind: &str) -> u64 {
    let count = |index: usize| LIVE[index].load(Ordering::SeqCst);
    match NAMES.iter().position(|name| *name == kind) {
        Some(index) => count(index),
        None => (0..LIVE.len()).map(count).sum(),
    }
}

/// A value behind an opaque handle, counted while it lives.
pub(crate) struct Counted<T> {
    kind: Kind,
    pub(crate) value: T,
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        LIVE[self.kind as usize].fetch_sub(1, Ordering::SeqCst);
    }
}

/// Puts a value behind a handle of the interface.
pub(crate) fn export<T, H>(kind: Kind, value: T) -> *mut H {
    LIVE[kind as usize].fetch_add(1, Ordering::SeqCst);
    Box::into_raw(Box::new(Counted { kind, value })).cast()
}

/// The value behind a handle.
///
/// # Safety
/// `handle` is null or was made by [`export`] from a `T` and is not freed during `'a`.
pub(crate) unsafe fn borrow<'a, T, H>(handle: *const H) -> Result<&'a T, Failure> {
    // SAFETY: forwarded to the caller.
    match unsafe { handle.cast::<Counted<T>>().as_ref() } {
        Some(counted) => Ok(&counted.value),
        None => Err(Failure::invalid("null handle")),
    }
}

/// Frees a handle.
///
/// # Safety
/// `handle` is null or was made by [`export`] from a `T` and is not used afterwards.
pub(crate) unsafe fn free<T, H>(handle: *mut H) {
    if !handle.is_null() {
        // SAFETY: forwarded to the caller.
        drop(unsafe { Box::from_raw(handle.cast::<Counted<T>>()) });
    }
}

pub(crate) fn export_failure(failure: Failure) -> *mut abi::Error {
    export(Kind::Error, failure)
}

/// Body of every function: counts the call, returns a fault if one is set, checks the struct's size.
///
/// # Safety
/// `args` points to a struct of this type, or a shorter one that states its size.
pub(crate) unsafe fn enter<A: Arguments>(args: *mut A, body: impl FnOnce(&mut A) -> Outcome) -> *mut abi::Error {
    let run = || {
        control::enter(A::FUNCTION)?;
        // SAFETY: every struct of the interface begins with its size.
        let size = unsafe { args.cast::<usize>().read() };
        if size < A::SIZE {
            return Err(Failure::invalid(format!("{}: expected {} bytes, got {size}", A::FUNCTION, A::SIZE)));
        }
        // SAFETY: the struct is as long as its type.
        body(unsafe { &mut *args })
    };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(Ok(())) => std::ptr::null_mut(),
        Ok(Err(failure)) => export_failure(failure),
        Err(_) => export_failure(Failure::new(ErrorCode::Internal, "the fake plugin panicked")),
    }
}

/// Declares a function of the table.
macro_rules! function {
    ($name:ident($args:ident: $ty:ident) $body:block) => {
        pub(crate) unsafe extern "C" fn $name(args: *mut clutch_pjrt::abi::$ty) -> *mut clutch_pjrt::abi::Error {
            let body = |$args: &mut clutch_pjrt::abi::$ty| -> crate::handle::Outcome { $body };
            // SAFETY: the caller passes this function's own argument struct.
            unsafe { crate::handle::enter(args, body) }
        }
    };
}
pub(crate) use function;

pub(crate) unsafe extern "C" fn error_destroy(args: *mut abi::ErrorDestroyArgs) {
    // SAFETY: errors are exported failures.
    unsafe { free::<Failure, _>((*args).error) };
}

pub(crate) unsafe extern "C" fn error_message(args: *mut abi::ErrorMessageArgs) {
    // SAFETY: errors are exported failures, alive until they are destroyed.
    unsafe {
        if let Ok(failure) = borrow::<Failure, _>((*args).error) {
            (*args).message = failure.message.as_ptr().cast();
            (*args).message_size = failure.message.len();
        }
    }
}

pub(crate) unsafe extern "C" fn error_get_code(args: *mut abi::ErrorGetCodeArgs) -> *mut abi::Error {
    // SAFETY: errors are exported failures.
    unsafe {
        if let Ok(failure) = borrow::<Failure, _>((*args).error) {
            (*args).code = failure.code.to_raw();
        }
    }
    std::ptr::null_mut()
}
