//! Compile options.

use crate::attribute::OptionValue;
use crate::wire;
use std::collections::BTreeMap;

/// Encoding of a program handed to a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ProgramFormat {
    /// A serialised `HloModuleProto`.
    #[default]
    Hlo,
    /// StableHLO as text, bytecode or portable artifact.
    Mlir,
}

impl ProgramFormat {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hlo => "hlo",
            Self::Mlir => "mlir",
        }
    }
}

/// Options of one compilation, encoded as XLA's `CompileOptionsProto`.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// Copies of the program that run on different data.
    pub num_replicas: u32,
    /// Parts the program is split into.
    pub num_partitions: u32,
    /// Split by the sharding annotations of the program.
    pub use_spmd_partitioning: bool,
    /// Compiler flags by XLA name, such as `xla_backend_optimization_level`. Plugins refuse names they do not know.
    pub overrides: BTreeMap<String, OptionValue>,
}

impl Default for CompileOptions {
    /// One replica, one partition, the plugin's default flags.
    fn default() -> Self {
        Self { num_replicas: 1, num_partitions: 1, use_spmd_partitioning: false, overrides: BTreeMap::new() }
    }
}

impl CompileOptions {
    /// The same options with one more compiler flag.
    #[must_use]
    pub fn with_override(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.overrides.insert(name.into(), value.into());
        self
    }

    /// The encoded options; equal options give equal bytes, so they can be part of a cache key.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut build = Vec::new();
        wire::integer(&mut build, 4, i64::from(self.num_replicas));
        wire::integer(&mut build, 5, i64::from(self.num_partitions));
        if self.use_spmd_partitioning {
            wire::integer(&mut build, 6, 1);
        }
        let mut options = Vec::new();
        wire::bytes(&mut options, 3, &build);
        for (name, value) in &self.overrides {
            let mut choice = Vec::new();
            match value {
                OptionValue::String(text) => wire::bytes(&mut choice, 1, text.as_bytes()),
                OptionValue::Bool(flag) => wire::integer(&mut choice, 2, i64::from(*flag)),
                OptionValue::Int(number) => wire::integer(&mut choice, 3, *number),
                OptionValue::Float(number) => wire::double(&mut choice, 4, *number),
            }
            let mut entry = Vec::new();
            wire::bytes(&mut entry, 1, name.as_bytes());
            wire::bytes(&mut entry, 2, &choice);
            wire::bytes(&mut options, 7, &entry);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_shortest_form_plugins_accept() {
        assert_eq!(CompileOptions::default().to_bytes(), [0x1a, 0x04, 0x20, 0x01, 0x28, 0x01]);
    }

    #[test]
    fn overrides_are_ordered_and_typed() {
        let one = CompileOptions::default().with_override("b", 2_i64).with_override("a", false);
        let other = CompileOptions::default().with_override("a", false).with_override("b", 2_i64);
        assert_eq!(one.to_bytes(), other.to_bytes());
        assert_eq!(one.to_bytes()[6..], [0x3a, 7, 0x0a, 1, b'a', 0x12, 2, 0x10, 0, 0x3a, 7, 0x0a, 1, b'b', 0x12, 2, 0x18, 2]);
    }
}
