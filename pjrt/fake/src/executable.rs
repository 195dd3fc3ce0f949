//! Executables: compiling, describing, serialising, running.

use crate::buffer::{Buffer, buffer};
use crate::client::{bytes, compile};
use crate::control;
use crate::event::Completion;
use crate::handle::{Failure, Kind, borrow, export, free, function};
use crate::program::Program;
use clutch_pjrt::abi::{self, named_value_type};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// First bytes of a serialised executable.
const MAGIC: &[u8] = b"clutch-fake-executable\n";

/// What an executable says about itself; arrays stay in place for the plugin's callers.
pub(crate) struct Executable {
    program: Program,
    fingerprint: String,
    types: Vec<u32>,
    ranks: Vec<usize>,
    dims: Vec<i64>,
    costs: Vec<abi::NamedValue>,
}

// SAFETY: the named values point to static names.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

type Shared = Arc<Executable>;

struct Loaded {
    executable: Shared,
    deleted: AtomicBool,
}

fn cost(name: &'static str, value: f32) -> abi::NamedValue {
    let mut entry = abi::NamedValue::new();
    entry.name = name.as_ptr().cast();
    entry.name_size = name.len();
    entry.type_ = named_value_type::FLOAT;
    entry.value.float_value = value;
    entry.value_size = 1;
    entry
}

impl Executable {
    pub(crate) fn compile(code: &[u8], options: &[u8]) -> Result<Self, Failure> {
        let program = Program::parse(code, options)?;
        let fingerprint = control::fingerprint().unwrap_or_else(|| format!("{:016x}", program.hash()));
        let total: usize = program.parameters.iter().chain(&program.results).map(|shape| shape.bytes()).sum();
        Ok(Self {
            types: program.results.iter().map(|shape| shape.ty.to_raw()).collect(),
            ranks: program.results.iter().map(|shape| shape.dims.len()).collect(),
            dims: program.results.iter().flat_map(|shape| shape.dims.iter().copied()).collect(),
            // The time is a sentinel, as real compilers report.
            costs: vec![cost("bytes accessed", total as f32), cost("flops", 1.0), cost("optimal_seconds", -1.0)],
            program,
            fingerprint,
        })
    }

    fn serialize(&self) -> Vec<u8> {
        let version = control::platform_version();
        let mut out = MAGIC.to_vec();
        for part in [version.as_bytes(), &self.program.options, &self.program.code] {
            out.extend_from_slice(&(part.len() as u64).to_le_bytes());
            out.extend_from_slice(part);
        }
        out
    }

    fn deserialize(serialized: &[u8]) -> Result<Self, Failure> {
        let malformed = || Failure::invalid("the bytes are no serialised executable");
        let mut rest = serialized.strip_prefix(MAGIC).ok_or_else(malformed)?;
        let mut part = || {
            let (size, tail) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
            let size = usize::try_from(u64::from_le_bytes(*size)).map_err(|_| malformed())?;
            let (part, tail) = tail.split_at_checked(size).ok_or_else(malformed)?;
            rest = tail;
            Ok::<&[u8], Failure>(part)
        };
        let (version, options, code) = (part()?, part()?, part()?);
        if version != control::platform_version().as_bytes() {
            return Err(Failure::invalid("the executable was made by another platform version"));
        }
        Self::compile(code, options)
    }

    pub(crate) fn export(self) -> *mut abi::Executable {
        export::<Shared, _>(Kind::Executable, Arc::new(self))
    }

    fn export_loaded(self) -> *mut abi::LoadedExecutable {
        export(Kind::LoadedExecutable, Loaded { executable: Arc::new(self), deleted: AtomicBool::new(false) })
    }
}

/// # Safety
/// `handle` is an executable of this plugin that lives during `'a`.
unsafe fn executable<'a>(handle: *const abi::Executable) -> Result<&'a Executable, Failure> {
    // SAFETY: forwarded to the caller.
    unsafe { borrow::<Shared, _>(handle) }.map(|shared| &**shared)
}

function!(client_compile(args: ClientCompileArgs) {
    // SAFETY: the caller passes a program and options.
    let made = unsafe { compile(args.program, args.compile_options, args.compile_options_size) }?;
    args.executable = made.export_loaded();
    Ok(())
});

function!(compile_for_topology(args: CompileArgs) {
    // SAFETY: the caller passes a program and options.
    let made = unsafe { compile(args.program, args.compile_options, args.compile_options_size) }?;
    args.executable = made.export();
    Ok(())
});

function!(executable_deserialize_and_load(args: ExecutableDeserializeAndLoadArgs) {
    // SAFETY: the caller passes bytes of the size stated.
    let serialized = unsafe { bytes(args.serialized_executable, args.serialized_executable_size) };
    args.loaded_executable = Executable::deserialize(serialized)?.export_loaded();
    Ok(())
});

function!(executable_destroy(args: ExecutableDestroyArgs) {
    // SAFETY: executables are exported.
    unsafe { free::<Shared, _>(args.executable) };
    Ok(())
});

function!(executable_name(args: ExecutableNameArgs) {
    // SAFETY: executables are exported.
    let name = &unsafe { executable(args.executable) }?.program.name;
    args.executable_name = name.as_ptr().cast();
    args.executable_name_size = name.len();
    Ok(())
});

function!(executable_num_replicas(args: ExecutableNumReplicasArgs) {
    args.num_replicas = 1;
    Ok(())
});

function!(executable_num_partitions(args: ExecutableNumPartitionsArgs) {
    args.num_partitions = 1;
    Ok(())
});

function!(executable_num_outputs(args: ExecutableNumOutputsArgs) {
    // SAFETY: executables are exported.
    args.num_outputs = unsafe { executable(args.executable) }?.types.len();
    Ok(())
});

function!(executable_size_of_generated_code(args: ExecutableSizeOfGeneratedCodeInBytesArgs) {
    // SAFETY: executables are exported.
    args.size_in_bytes = unsafe { executable(args.executable) }?.program.code.len() as i64;
    Ok(())
});

function!(executable_fingerprint(args: ExecutableFingerprintArgs) {
    // SAFETY: executables are exported.
    let text = &unsafe { executable(args.executable) }?.fingerprint;
    args.executable_fingerprint = text.as_ptr().cast();
    args.executable_fingerprint_size = text.len();
    Ok(())
});

function!(executable_get_cost_analysis(args: ExecutableGetCostAnalysisArgs) {
    // SAFETY: executables are exported.
    let costs = &unsafe { executable(args.executable) }?.costs;
    args.properties = costs.as_ptr();
    args.num_properties = costs.len();
    Ok(())
});

function!(executable_get_compiled_memory_stats(args: ExecutableGetCompiledMemoryStatsArgs) {
    // SAFETY: executables are exported.
    let program = &unsafe { executable(args.executable) }?.program;
    args.generated_code_size_in_bytes = program.code.len() as i64;
    args.argument_size_in_bytes = program.parameters.iter().map(|shape| shape.bytes() as i64).sum();
    args.output_size_in_bytes = program.results.iter().map(|shape| shape.bytes() as i64).sum();
    args.peak_memory_in_bytes = args.argument_size_in_bytes + args.output_size_in_bytes;
    Ok(())
});

function!(executable_output_element_types(args: ExecutableOutputElementTypesArgs) {
    // SAFETY: executables are exported; the list is only read by callers.
    let types = &unsafe { executable(args.executable) }?.types;
    args.output_types = types.as_ptr().cast_mut();
    args.num_output_types = types.len();
    Ok(())
});

function!(executable_output_dimensions(args: ExecutableOutputDimensionsArgs) {
    // SAFETY: executables are exported.
    let executable = unsafe { executable(args.executable) }?;
    args.num_outputs = executable.ranks.len();
    args.dims = executable.dims.as_ptr();
    args.dim_sizes = executable.ranks.as_ptr();
    Ok(())
});

function!(executable_optimized_program(args: ExecutableOptimizedProgramArgs) {
    const FORMAT: &str = "hlo";
    // SAFETY: executables are exported, and the caller passes a program struct.
    let (executable, program) = unsafe { (executable(args.executable)?, args.program.as_mut()) };
    let program = program.ok_or_else(|| Failure::invalid("no program struct"))?;
    let code = &executable.program.code;
    program.format = FORMAT.as_ptr().cast();
    program.format_size = FORMAT.len();
    if !program.code.is_null() {
        if program.code_size < code.len() {
            return Err(Failure::invalid("the program does not fit"));
        }
        // SAFETY: the caller's memory has room for the size it states.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), program.code.cast(), code.len()) };
    }
    program.code_size = code.len();
    Ok(())
});

unsafe extern "C" fn free_serialized(serialized: *mut abi::SerializedExecutable) {
    // SAFETY: the handle is the exported bytes.
    unsafe { free::<Vec<u8>, _>(serialized) };
}

function!(executable_serialize(args: ExecutableSerializeArgs) {
    // SAFETY: executables are exported.
    let serialized = unsafe { executable(args.executable) }?.serialize();
    args.serialized_bytes = serialized.as_ptr().cast();
    args.serialized_bytes_size = serialized.len();
    args.serialized_executable = export(Kind::Serialized, serialized);
    args.serialized_executable_deleter = Some(free_serialized);
    Ok(())
});

function!(loaded_executable_destroy(args: LoadedExecutableDestroyArgs) {
    // SAFETY: loaded executables are exported.
    unsafe { free::<Loaded, _>(args.executable) };
    Ok(())
});

function!(loaded_executable_get_executable(args: LoadedExecutableGetExecutableArgs) {
    // SAFETY: loaded executables are exported.
    let shared = unsafe { borrow::<Loaded, _>(args.loaded_executable) }?.executable.clone();
    args.executable = export::<Shared, _>(Kind::Executable, shared);
    Ok(())
});

function!(loaded_executable_delete(args: LoadedExecutableDeleteArgs) {
    // SAFETY: loaded executables are exported.
    unsafe { borrow::<Loaded, _>(args.executable) }?.deleted.store(true, Ordering::SeqCst);
    Ok(())
});

function!(loaded_executable_is_deleted(args: LoadedExecutableIsDeletedArgs) {
    // SAFETY: loaded executables are exported.
    args.is_deleted = unsafe { borrow::<Loaded, _>(args.executable) }?.deleted.load(Ordering::SeqCst);
    Ok(())
});

function!(loaded_executable_execute(args: LoadedExecutableExecuteArgs) {
    // SAFETY: loaded executables are exported.
    let loaded = unsafe { borrow::<Loaded, _>(args.executable) }?;
    let program = &loaded.executable.program;
    if loaded.deleted.load(Ordering::SeqCst) {
        return Err(Failure::invalid("the executable was deleted"));
    }
    if args.num_devices != 1 {
        return Err(Failure::invalid("the fake plugin has one device"));
    }
    if args.num_args != program.parameters.len() {
        let (given, expected) = (args.num_args, program.parameters.len());
        return Err(Failure::invalid(format!("{given} arguments given, the program has {expected} parameters")));
    }
    let mut inputs = Vec::with_capacity(args.num_args);
    for (index, parameter) in program.parameters.iter().enumerate() {
        // SAFETY: one list for one device, as long as stated, of exported buffers.
        let input = unsafe { buffer(*(*args.argument_lists).add(index)) }?;
        if input.shape != *parameter {
            return Err(Failure::invalid(format!("argument {index} is {:?}, not {parameter:?}", input.shape)));
        }
        inputs.push(input.data()?);
    }
    let outcome = control::enter("PJRT_LoadedExecutable_Execute#event");
    let completion = Completion::done(outcome);
    for (index, shape) in program.results.iter().enumerate() {
        let data = inputs.get(index).filter(|data| data.len() == shape.bytes()).copied().unwrap_or_default();
        let output = export(Kind::Buffer, Buffer::owned(shape.clone(), data, completion.clone()));
        // SAFETY: the caller's list has room for every output.
        unsafe { *(*args.output_lists).add(index) = output };
    }
    if !args.device_complete_events.is_null() {
        // SAFETY: the caller's list has room for one device.
        unsafe { *args.device_complete_events = completion.export() };
    }
    Ok(())
});
