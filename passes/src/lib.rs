//! The ordered graph passes of Clutch: canonical forms, expansion of composites, layout, and the split of weight-only work.

mod error;
mod expand;
mod layout;
mod options;
mod pipeline;
mod rewrite;
mod simplify;
mod weights;

pub use error::PassError;
pub use options::{PassOptions, Target};
pub use pipeline::{PASSES, Pass, PassReport, PassTiming, run};
pub use rewrite::drop_dead;
pub use weights::{ParameterSource, WeightProgram, WeightSplit, split_weights};
