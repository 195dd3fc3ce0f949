//! Running executables.

use crate::abi;
use crate::api::non_null;
use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::executable::{Executable, Owner};
use std::ops::Deref;
use std::ptr::NonNull;

const EXECUTE: &str = "PJRT_LoadedExecutable_Execute";

/// Memory that [`LoadedExecutable::execute`] uses for handles; keep one per thread to save allocations.
#[derive(Debug, Default)]
pub struct ExecuteScratch {
    arguments: Vec<*mut abi::Buffer>,
    outputs: Vec<*mut abi::Buffer>,
}

// SAFETY: the pointers are only meaningful during a call, which borrows the scratch mutably.
unsafe impl Send for ExecuteScratch {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for ExecuteScratch {}

/// An executable that is loaded on a client's devices. Dereferences to its [`Executable`].
#[derive(Debug)]
pub struct LoadedExecutable {
    raw: NonNull<abi::LoadedExecutable>,
    client: Client,
    executable: Executable,
    num_outputs: usize,
}

// SAFETY: PJRT executables are thread-safe.
unsafe impl Send for LoadedExecutable {}
// SAFETY: as above.
unsafe impl Sync for LoadedExecutable {}

impl Drop for LoadedExecutable {
    fn drop(&mut self) {
        let mut args = abi::LoadedExecutableDestroyArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is ours and not used afterwards.
        unsafe { self.client.api().destroy(args) };
    }
}

impl Deref for LoadedExecutable {
    type Target = Executable;

    fn deref(&self) -> &Executable {
        &self.executable
    }
}

impl LoadedExecutable {
    /// # Safety
    /// `raw` is a loaded executable of `client` that belongs to the caller.
    pub(crate) unsafe fn new(client: Client, raw: NonNull<abi::LoadedExecutable>) -> Result<Self> {
        let api = client.api();
        let mut args = abi::LoadedExecutableGetExecutableArgs::new();
        args.loaded_executable = raw.as_ptr();
        // SAFETY: the loaded executable is alive; the executable returned is ours to destroy.
        let executable = unsafe {
            api.call(&mut args)
                .and_then(|()| non_null("PJRT_LoadedExecutable_GetExecutable", args.executable))
                .map(|executable| Executable::new(api, executable, Owner::Client(client.clone())))
        };
        let result = executable.and_then(|executable| Ok((executable.num_outputs()?, executable)));
        match result {
            Ok((num_outputs, executable)) => Ok(Self { raw, client, executable, num_outputs }),
            Err(error) => {
                let mut args = abi::LoadedExecutableDestroyArgs::new();
                args.executable = raw.as_ptr();
                // SAFETY: the loaded executable is ours and not used afterwards.
                unsafe { api.destroy(args) };
                Err(error)
            }
        }
    }

    /// The executable itself: serialisation, costs, shapes.
    #[must_use]
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// The client it is loaded on.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs the program on its one device and waits until it is complete.
    ///
    /// `outputs` is emptied (which frees the buffers in it) and filled with the program's outputs. Inputs the program
    /// aliases to outputs are donated and deleted, except those whose index is in `non_donatable`. With reused
    /// `scratch` and `outputs` the call itself allocates nothing.
    ///
    /// # Errors
    /// An argument belongs to another client; the plugin refused the arguments (number, shape, deleted or viewed
    /// buffers) or the execution failed. `outputs` is then empty.
    pub fn execute<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a Buffer>,
        non_donatable: &[i64],
        scratch: &mut ExecuteScratch,
        outputs: &mut Vec<Buffer>,
    ) -> Result<()> {
        let complete = self.execute_async(arguments, non_donatable, scratch, outputs)?;
        let result = complete.wait();
        if result.is_err() {
            outputs.clear();
        }
        result
    }

    /// As [`Self::execute`] without the wait: the outputs are usable as arguments at once, and the event tells when
    /// the execution is complete. An execution that fails later reports its error through the event and through
    /// every use of its outputs.
    ///
    /// # Errors
    /// As [`Self::execute`], for errors found before the execution starts.
    pub fn execute_async<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a Buffer>,
        non_donatable: &[i64],
        scratch: &mut ExecuteScratch,
        outputs: &mut Vec<Buffer>,
    ) -> Result<Event> {
        outputs.clear();
        scratch.arguments.clear();
        for (index, buffer) in arguments.into_iter().enumerate() {
            if !self.client.is(buffer.client()) {
                return Err(Error::InvalidArgument {
                    function: "LoadedExecutable::execute",
                    message: format!("argument {index} belongs to another client"),
                });
            }
            scratch.arguments.push(buffer.raw().as_ptr());
        }
        scratch.outputs.clear();
        scratch.outputs.resize(self.num_outputs, std::ptr::null_mut());

        let mut options = abi::ExecuteOptions::new();
        options.non_donatable_input_indices = non_donatable.as_ptr();
        options.num_non_donatable_input_indices = non_donatable.len();
        let argument_list: *const *mut abi::Buffer = scratch.arguments.as_ptr();
        let output_list: *mut *mut abi::Buffer = scratch.outputs.as_mut_ptr();
        let mut complete: *mut abi::Event = std::ptr::null_mut();
        let mut args = abi::LoadedExecutableExecuteArgs::new();
        args.executable = self.raw.as_ptr();
        args.options = &raw mut options;
        args.argument_lists = (&raw const argument_list).cast();
        args.num_devices = 1;
        args.num_args = scratch.arguments.len();
        args.output_lists = (&raw const output_list).cast();
        args.device_complete_events = &raw mut complete;
        let api = self.client.api();
        // SAFETY: the argument handles are borrowed for the call, the lists have the lengths stated (the output list
        // that of the program's outputs), and one event slot is given for one device.
        unsafe { api.call(&mut args) }?;

        let mut missing = false;
        for raw in scratch.outputs.drain(..) {
            match NonNull::new(raw) {
                // SAFETY: the plugin made the buffer for us on this client.
                Some(raw) => outputs.push(unsafe { Buffer::new(self.client.clone(), raw) }),
                None => missing = true,
            }
        }
        // SAFETY: the plugin made the event for us.
        let complete = non_null(EXECUTE, complete).map(|raw| unsafe { Event::new(api, raw, EXECUTE) });
        if missing || complete.is_err() {
            outputs.clear();
        }
        if missing {
            return Err(Error::InvalidAnswer { function: EXECUTE, what: "an output is missing".to_owned() });
        }
        complete
    }

    /// Frees what the executable holds on the devices; the handle stays and later executions fail.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn delete(&self) -> Result<()> {
        let mut args = abi::LoadedExecutableDeleteArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.client.api().call(&mut args) }
    }

    /// Whether [`Self::delete`] was called.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn is_deleted(&self) -> Result<bool> {
        let mut args = abi::LoadedExecutableIsDeletedArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.client.api().call(&mut args) }?;
        Ok(args.is_deleted)
    }
}
