//! The ordered graph passes of Clutch: canonical forms, expansion of composites, layout, and the split of weight-only work.

mod egraph;
mod error;
mod expand;
mod layout;
mod options;
mod pipeline;
mod rewrite;
mod roll;
mod rules;
mod simplify;
mod weights;

pub use egraph::cost::{Device, Placed, Table, op_cost};
pub use egraph::{Gain, apply_rule, rewrite_explained};
pub use error::PassError;
pub use options::{PassOptions, Rewrite, Roll, Target};
pub use pipeline::{PASSES, Pass, PassReport, PassTiming, run};
pub use rewrite::drop_dead;
pub use rules::{Family, Rounding, RuleInfo, rules};
pub use weights::{ParameterSource, WeightProgram, WeightSplit, split_weights};
