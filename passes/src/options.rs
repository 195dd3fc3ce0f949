//! What the passes are told about the program and its device.

use crate::egraph::cost::Device;

/// The kind of device a graph is prepared for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Target {
    /// The CPU plugin.
    #[default]
    Cpu,
    /// A TPU, present or ahead of time.
    Tpu,
}

/// Which rewrites of the e-graph are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rewrite {
    /// None.
    Off,
    /// Those that keep every bit.
    Exact,
    /// Those that keep every bit, and those that change the order of sums or the place of a rounding within stated bounds.
    #[default]
    On,
}

/// Which repeated layers become loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Roll {
    /// None.
    #[default]
    Off,
    /// Those that compile faster and, by the cost table, run about as fast.
    Auto,
    /// All that can be.
    On,
}

/// Options of one run of the passes. All of them are part of the cache key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PassOptions {
    /// The device.
    pub target: Target,
    /// Largest constant, in bytes, that constant folding may create.
    pub fold_budget_bytes: usize,
    /// The program computes no gradients, so `Static` inputs change rarely and work that depends on them alone may be split off.
    pub inference: bool,
    /// The emitter has a native form of `TopK` for this target; otherwise it is expanded.
    pub native_top_k: bool,
    /// Rewrites of the e-graph.
    pub rewrite: Rewrite,
    /// The cost table that rewrites are chosen by.
    pub device: Device,
    /// Repeated layers as loops.
    pub roll: Roll,
}

impl Default for PassOptions {
    fn default() -> Self {
        PassOptions {
            target: Target::Cpu,
            fold_budget_bytes: 4096,
            inference: false,
            native_top_k: false,
            rewrite: Rewrite::On,
            device: Device::Cpu,
            roll: Roll::Off,
        }
    }
}
