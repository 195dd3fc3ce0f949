//! Completion events.

use crate::abi;
use crate::api::ApiRef;
use crate::error::{Error, Result};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Completion of an asynchronous operation of a plugin.
#[derive(Debug)]
pub struct Event {
    api: ApiRef,
    raw: NonNull<abi::Event>,
    /// The function whose completion this is; errors are reported under its name.
    function: &'static str,
}

// SAFETY: PJRT events are thread-safe.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

struct Notification {
    api: ApiRef,
    function: &'static str,
    callback: Callback,
}

unsafe extern "C" fn notify(error: *mut abi::Error, user_arg: *mut c_void) {
    // SAFETY: `on_ready` passed a leaked box of this type, and the plugin calls exactly once.
    let notification = unsafe { Box::from_raw(user_arg.cast::<Notification>()) };
    let Notification { api, function, callback } = *notification;
    let result = match NonNull::new(error) {
        None => Ok(()),
        // SAFETY: the plugin hands the error over to the callback.
        Some(error) => Err(unsafe { api.take_error(function, error) }),
    };
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback(result))).is_err() {
        tracing::error!(function, "a completion callback panicked");
    }
}

impl Event {
    /// # Safety
    /// `raw` is an event of the plugin that belongs to the caller.
    pub(crate) unsafe fn new(api: ApiRef, raw: NonNull<abi::Event>, function: &'static str) -> Self {
        Self { api, raw, function }
    }

    /// Blocks until the operation is complete.
    ///
    /// # Errors
    /// The operation failed.
    pub fn wait(&self) -> Result<()> {
        let mut args = abi::EventAwaitArgs::new();
        args.event = self.raw.as_ptr();
        // SAFETY: the event is alive.
        unsafe { self.api.call(&mut args) }.map_err(|error| self.attribute(error))
    }

    /// Whether the operation is complete, with or without success.
    ///
    /// # Errors
    /// The plugin cannot tell.
    pub fn is_ready(&self) -> Result<bool> {
        let mut args = abi::EventIsReadyArgs::new();
        args.event = self.raw.as_ptr();
        // SAFETY: the event is alive.
        unsafe { self.api.call(&mut args) }?;
        Ok(args.is_ready)
    }

    /// Calls `callback` once with the outcome, on a thread of the plugin, or at once if the operation is complete.
    /// The callback must not block.
    ///
    /// # Errors
    /// The plugin refused the callback, which is then never called.
    pub fn on_ready(&self, callback: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        let notification = Box::new(Notification { api: self.api, function: self.function, callback: Box::new(callback) });
        let user_arg = Box::into_raw(notification);
        let mut args = abi::EventOnReadyArgs::new();
        args.event = self.raw.as_ptr();
        args.callback = Some(notify);
        args.user_arg = user_arg.cast();
        // SAFETY: the event is alive, and the box stays until the callback takes it.
        let result = unsafe { self.api.call(&mut args) };
        if result.is_err() {
            // SAFETY: the callback was refused, so the box is still ours.
            drop(unsafe { Box::from_raw(user_arg) });
        }
        result
    }

    /// Puts an error of the await call under the name of the function that started the operation.
    fn attribute(&self, error: Error) -> Error {
        match error {
            Error::Plugin { code, message, .. } => Error::Plugin { function: self.function, code, message },
            other => other,
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut args = abi::EventDestroyArgs::new();
        args.event = self.raw.as_ptr();
        // SAFETY: the event is ours and not used afterwards.
        unsafe { self.api.destroy(args) };
    }
}
