//! Clutch: from an FX graph of PyTorch to a running PJRT executable. [`driver`] shows the pipeline on one screen.

pub mod background;
pub mod bucket;
pub mod capture;
pub mod compile;
pub mod driver;
pub mod dump;
pub mod emit;
pub mod graph_entry;
pub mod host;
pub mod keys;
pub mod metrics;
#[cfg(feature = "python")]
pub mod python;
pub mod recipe;
pub mod recipe_codec;
pub mod runtime;
pub mod saved;
pub mod strict;
pub mod target;
pub mod weight_values;
