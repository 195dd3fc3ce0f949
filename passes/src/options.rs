//! What the passes are told about the program and its device.

/// The kind of device a graph is prepared for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Target {
    /// The CPU plugin.
    #[default]
    Cpu,
    /// A TPU, present or ahead of time.
    Tpu,
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
}

impl Default for PassOptions {
    fn default() -> Self {
        PassOptions { target: Target::Cpu, fold_budget_bytes: 4096, inference: false, native_top_k: false }
    }
}
