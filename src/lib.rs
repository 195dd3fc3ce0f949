//! Clutch.

pub mod capture;
pub mod emit;
pub mod runtime;
pub mod driver;
pub mod dump;
pub mod metrics;
pub mod recipe;
pub mod target;
#[cfg(feature = "python")]
pub mod python;
