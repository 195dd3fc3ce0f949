//! Safe bindings of Clutch to the PJRT C API.
//!
//! A [`Plugin`] is a shared library with the PJRT interface. With a [`Client`] it compiles and runs programs on its
//! devices; with a [`Topology`] it compiles for a machine that is not there. Handles keep what they depend on alive,
//! and a plugin's library is never unloaded, so no handle can outlive the code behind it.
//!
//! The PJRT interface is thread-safe, hence the handles are `Send` and `Sync`.

pub mod abi;
mod api;
mod attribute;
mod buffer;
mod client;
mod device;
mod discover;
mod dtype;
mod error;
mod event;
mod executable;
mod execute;
mod host_view;
mod options;
mod plugin;
mod topology;
mod wire;

pub use attribute::{Attribute, OptionValue};
pub use buffer::{Buffer, CopySemantics};
pub use client::Client;
pub use device::{Device, DeviceDescription, MemoryStats};
pub use discover::{Discovery, PLUGIN_VARIABLE, Platform};
pub use dtype::ElementType;
pub use error::{Error, ErrorCode, Fault, Result};
pub use event::Event;
pub use executable::{CompiledMemoryStats, Executable, OptimizedProgram};
pub use execute::{ExecuteScratch, LoadedExecutable};
pub use host_view::{BufferHandle, HostView};
pub use options::{CompileOptions, ProgramFormat};
pub use plugin::{ApiVersion, MINIMUM_API, Plugin, libtpu_aot_environment};
pub use topology::{ACCEPTED_TOPOLOGIES, Topology};
