//! Compiled programs: serialisation, costs, memory, shapes.

use crate::abi;
use crate::api::{ApiRef, non_null, slice_from, string_from};
use crate::attribute::{Attribute, attributes_from};
use crate::client::Client;
use crate::dtype::ElementType;
use crate::error::{Error, Result};
use crate::topology::Topology;
use crate::wire;
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// What an executable was made with, kept alive beside it.
#[derive(Debug)]
#[allow(dead_code, reason = "held for its drop")]
pub(crate) enum Owner {
    Client(Client),
    Topology(Topology),
}

/// A compiled program, loaded or not.
#[derive(Debug)]
pub struct Executable {
    api: ApiRef,
    raw: NonNull<abi::Executable>,
    /// Dropped after the executable.
    _owner: Owner,
}

// SAFETY: PJRT executables are thread-safe.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        let mut args = abi::ExecutableDestroyArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is ours and not used afterwards.
        unsafe { self.api.destroy(args) };
    }
}

/// Memory a program needs on each device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompiledMemoryStats {
    /// Machine code.
    pub generated_code: i64,
    /// Arguments.
    pub argument: i64,
    /// Outputs.
    pub output: i64,
    /// Outputs that share memory with arguments, counted in both.
    pub alias: i64,
    /// Temporaries.
    pub temp: i64,
    /// Most memory in use at one time, where the plugin counts it.
    pub peak: Option<i64>,
}

/// A program as the plugin's compiler left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptimizedProgram {
    /// The plugin's name for the encoding; `"hlo_with_config"` for XLA plugins.
    pub format: String,
    /// The encoded program.
    pub code: Vec<u8>,
}

impl OptimizedProgram {
    /// The serialised `HloModuleProto`, if the encoding is one that holds it.
    #[must_use]
    pub fn hlo_module(&self) -> Option<&[u8]> {
        match self.format.as_str() {
            "hlo" => Some(&self.code),
            "hlo_with_config" => wire::find_bytes(&self.code, 1),
            _ => None,
        }
    }
}

impl Executable {
    /// # Safety
    /// `raw` is an executable of the plugin that belongs to the caller, made with `owner`.
    pub(crate) unsafe fn new(api: ApiRef, raw: NonNull<abi::Executable>, owner: Owner) -> Self {
        Self { api, raw, _owner: owner }
    }

    /// The executable as bytes that [`Client::load`] reads. Two compilations of one program may give different bytes.
    ///
    /// # Errors
    /// The plugin cannot serialise or failed.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let mut args = abi::ExecutableSerializeArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive; the bytes are copied before the plugin's deleter frees them.
        unsafe {
            self.api.call(&mut args)?;
            let bytes = slice_from(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size).to_vec();
            if let Some(free) = args.serialized_executable_deleter {
                free(args.serialized_executable);
            }
            Ok(bytes)
        }
    }

    /// Identifies the compiled program; the same for every compilation of one input with one plugin.
    ///
    /// # Errors
    /// The plugin has none or failed.
    pub fn fingerprint(&self) -> Result<String> {
        let mut args = abi::ExecutableFingerprintArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive and owns the text.
        unsafe {
            self.api.call(&mut args)?;
            let bytes = slice_from(args.executable_fingerprint.cast::<u8>(), args.executable_fingerprint_size);
            Ok(printable(bytes))
        }
    }

    /// Name of the program.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn name(&self) -> Result<String> {
        let mut args = abi::ExecutableNameArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive and owns the text.
        unsafe {
            self.api.call(&mut args)?;
            Ok(string_from(args.executable_name, args.executable_name_size))
        }
    }

    /// Replicas it was compiled for.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn num_replicas(&self) -> Result<usize> {
        let mut args = abi::ExecutableNumReplicasArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.api.call(&mut args) }?;
        Ok(args.num_replicas)
    }

    /// Partitions it was compiled for.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn num_partitions(&self) -> Result<usize> {
        let mut args = abi::ExecutableNumPartitionsArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.api.call(&mut args) }?;
        Ok(args.num_partitions)
    }

    /// Outputs of the program on one device.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn num_outputs(&self) -> Result<usize> {
        let mut args = abi::ExecutableNumOutputsArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.api.call(&mut args) }?;
        Ok(args.num_outputs)
    }

    /// Bytes of machine code.
    ///
    /// # Errors
    /// The plugin failed the call or does not know.
    pub fn size_of_generated_code(&self) -> Result<i64> {
        let mut args = abi::ExecutableSizeOfGeneratedCodeInBytesArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.api.call(&mut args) }?;
        Ok(args.size_in_bytes)
    }

    /// Element types of the outputs.
    ///
    /// # Errors
    /// The plugin failed the call or named a type this crate does not know.
    pub fn output_element_types(&self) -> Result<Vec<ElementType>> {
        let mut args = abi::ExecutableOutputElementTypesArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive and owns the array.
        let types = unsafe {
            self.api.call(&mut args)?;
            slice_from(args.output_types, args.num_output_types)
        };
        types
            .iter()
            .map(|raw| {
                ElementType::from_raw(*raw).ok_or_else(|| Error::InvalidAnswer {
                    function: "PJRT_Executable_OutputElementTypes",
                    what: format!("element type {raw}"),
                })
            })
            .collect()
    }

    /// Dimensions of the outputs.
    ///
    /// # Errors
    /// The plugin failed the call.
    pub fn output_dimensions(&self) -> Result<Vec<Vec<i64>>> {
        let mut args = abi::ExecutableOutputDimensionsArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive and owns the arrays: one rank an output, all dimensions in one list.
        unsafe {
            self.api.call(&mut args)?;
            let ranks = slice_from(args.dim_sizes, args.num_outputs);
            let mut rest = slice_from(args.dims, ranks.iter().sum());
            Ok(ranks
                .iter()
                .map(|rank| {
                    let (dims, tail) = rest.split_at(*rank);
                    rest = tail;
                    dims.to_vec()
                })
                .collect())
        }
    }

    /// The compiler's cost estimate: name to value, such as `flops` and `bytes accessed`.
    ///
    /// The time estimates (`optimal_seconds...`) are sums that can hold sentinel values; those below zero are left
    /// out, as is everything that is no finite number.
    ///
    /// # Errors
    /// The plugin failed the call or has no estimate.
    pub fn cost_analysis(&self) -> Result<BTreeMap<String, f64>> {
        let mut args = abi::ExecutableGetCostAnalysisArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive and owns the list.
        let properties = unsafe {
            self.api.call(&mut args)?;
            attributes_from(args.properties, args.num_properties)
        };
        Ok(properties
            .into_iter()
            .filter_map(|(name, value)| {
                #[allow(clippy::cast_precision_loss, reason = "an estimate")]
                let value = match value {
                    Attribute::Float(value) => f64::from(value),
                    Attribute::Int(value) => value as f64,
                    _ => return None,
                };
                let sentinel = name.starts_with("optimal_seconds") && value < 0.0;
                (value.is_finite() && !sentinel).then_some((name, value))
            })
            .collect())
    }

    /// Memory the program needs.
    ///
    /// # Errors
    /// The plugin failed the call or does not know.
    pub fn compiled_memory_stats(&self) -> Result<CompiledMemoryStats> {
        let mut args = abi::ExecutableGetCompiledMemoryStatsArgs::new();
        args.executable = self.raw.as_ptr();
        // SAFETY: the executable is alive.
        unsafe { self.api.call(&mut args) }?;
        Ok(CompiledMemoryStats {
            generated_code: args.generated_code_size_in_bytes,
            argument: args.argument_size_in_bytes,
            output: args.output_size_in_bytes,
            alias: args.alias_size_in_bytes,
            temp: args.temp_size_in_bytes,
            peak: (args.peak_memory_in_bytes > 0).then_some(args.peak_memory_in_bytes),
        })
    }

    /// The program after the plugin's optimisations.
    ///
    /// # Errors
    /// The plugin failed the call or does not keep it.
    pub fn optimized_program(&self) -> Result<OptimizedProgram> {
        let function = "PJRT_Executable_OptimizedProgram";
        let mut program = abi::Program::new();
        let mut args = abi::ExecutableOptimizedProgramArgs::new();
        args.executable = self.raw.as_ptr();
        args.program = &raw mut program;
        // SAFETY: the executable is alive; with a null code pointer the call only states size and format.
        unsafe { self.api.call(&mut args) }?;
        let mut code = vec![0_u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        // SAFETY: the code pointer has room for the size the plugin asked for.
        unsafe { self.api.call(&mut args) }?;
        if program.code_size > code.len() {
            return Err(Error::InvalidAnswer { function, what: "the program grew between two calls".to_owned() });
        }
        code.truncate(program.code_size);
        non_null(function, program.format.cast_mut())?;
        // SAFETY: the format is a static text of the plugin.
        let format = unsafe { string_from(program.format, program.format_size) };
        Ok(OptimizedProgram { format, code })
    }
}

/// The text that `bytes` are, or their hexadecimal digits: libtpu's fingerprints are no text.
fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) => text.to_owned(),
        _ => bytes.iter().map(|b| format!("{b:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fingerprints_are_printable() {
        assert_eq!(super::printable(b"a1:b2"), "a1:b2");
        assert_eq!(super::printable(&[0xff, 0, b'a']), "ff0061");
    }
}
