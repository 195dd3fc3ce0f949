//! Running compiled programs: devices, tensors of the host, calls.

#[cfg(feature = "python")]
pub mod call;
pub mod device;
#[cfg(feature = "python")]
pub mod dlpack;
#[cfg(feature = "python")]
mod inputs;
#[cfg(feature = "python")]
mod outputs;
pub mod pack;
#[cfg(feature = "python")]
pub mod sizes;
#[cfg(feature = "python")]
pub mod weights;
