//! The bindings against both CPU plugins.

mod support;

use clutch_pjrt::{
    Buffer, CompileOptions, CopySemantics, ElementType, Error, ExecuteScratch, Fault, LoadedExecutable, Plugin, ProgramFormat,
};
use pretty_assertions::assert_eq;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{f32_buffer, f32_values, hlo, on_each_cpu_plugin};

/// A host array on a 64-byte boundary.
#[repr(align(64))]
struct Aligned([f32; 16]);

fn run(executable: &LoadedExecutable, arguments: &[&Buffer]) -> Vec<Buffer> {
    let mut outputs = Vec::new();
    executable.execute(arguments.iter().copied(), &[], &mut ExecuteScratch::default(), &mut outputs).unwrap();
    outputs
}

fn compile(client: &clutch_pjrt::Client, program: &[u8]) -> LoadedExecutable {
    client.compile(program, ProgramFormat::Hlo, &CompileOptions::default()).unwrap()
}

#[test]
fn client_describes_itself() {
    on_each_cpu_plugin(|client| {
        assert_eq!(client.platform_name(), "cpu");
        assert!(!client.platform_version().is_empty());
        assert_eq!(client.devices().len(), 1);
        let device = client.default_device();
        assert_eq!(device.id().unwrap(), 0);
        assert_eq!(device.kind().unwrap(), "cpu");
        assert!(!device.description().unwrap().describe().unwrap().is_empty());
        assert!(!client.plugin().is_tpu());
        assert!(!client.plugin().attributes().is_empty());
    });
}

#[test]
fn programs_run() {
    on_each_cpu_plugin(|client| {
        let executable = compile(client, &hlo::matmul(2));
        let device = client.default_device();
        let a = f32_buffer(device, &[1.0, 2.0, 3.0, 4.0], &[2, 2]);
        let b = f32_buffer(device, &[0.0, 1.0, 1.0, 0.0], &[2, 2]);
        let outputs = run(&executable, &[&a, &b]);
        assert_eq!(outputs.len(), 1);
        assert_eq!(outputs[0].dimensions().unwrap(), [2, 2]);
        assert_eq!(outputs[0].element_type().unwrap(), ElementType::F32);
        assert_eq!(f32_values(&outputs[0].to_vec().unwrap()), [2.0, 1.0, 4.0, 3.0]);
        let view = outputs[0].host_view().unwrap();
        assert_eq!(f32_values(view.bytes()), [2.0, 1.0, 4.0, 3.0]);
        assert_eq!(view.as_ptr() as usize % 64, 0);
    });
}

#[test]
fn zero_copy_inputs_share_memory_and_are_released_once() {
    on_each_cpu_plugin(|client| {
        let device = client.default_device();
        let host = Box::new(Aligned(std::array::from_fn(|index| index as f32)));
        let data = host.0.as_ptr().cast::<u8>();
        let released = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&released);
        // SAFETY: the array outlives the buffer and the wait for its release below.
        let buffer = unsafe {
            Buffer::from_host_zero_copy_with_release(device, data, &[4, 4], ElementType::F32, move || {
                counter.fetch_add(1, Ordering::SeqCst);
            })
        }
        .unwrap();
        assert_eq!(buffer.unsafe_pointer().unwrap(), data as usize);
        assert_eq!(released.load(Ordering::SeqCst), 0);
        let executable = compile(client, &hlo::add(&[4, 4]));
        let outputs = run(&executable, &[&buffer, &buffer]);
        assert_eq!(f32_values(outputs[0].host_view().unwrap().bytes())[15], 30.0);
        drop(buffer);
        for _ in 0..1000 {
            if released.load(Ordering::SeqCst) > 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(released.load(Ordering::SeqCst), 1);
        drop(host);
    });
}

#[test]
fn views_keep_memory_after_the_executable_and_client_handles_are_gone() {
    on_each_cpu_plugin(|client| {
        let plugin = client.plugin().clone();
        let view = {
            let client = clutch_pjrt::Client::create(&plugin, &clutch_pjrt::Client::cpu_options()).unwrap();
            let executable = compile(&client, &hlo::add(&[3]));
            let a = f32_buffer(client.default_device(), &[1.0, 2.0, 3.0], &[3]);
            run(&executable, &[&a, &a]).pop().unwrap().into_host_view().unwrap()
        };
        assert_eq!(f32_values(view.bytes()), [2.0, 4.0, 6.0]);
    });
}

#[test]
fn empty_and_scalar_arrays_work() {
    on_each_cpu_plugin(|client| {
        let device = client.default_device();
        let executable = compile(client, &hlo::add(&[0, 3]));
        let empty = f32_buffer(device, &[], &[0, 3]);
        let outputs = run(&executable, &[&empty, &empty]);
        assert_eq!(outputs[0].to_vec().unwrap(), []);
        assert_eq!(outputs[0].host_view().unwrap().bytes(), []);
        let executable = compile(client, &hlo::add(&[]));
        let scalar = f32_buffer(device, &[1.5], &[]);
        assert_eq!(f32_values(&run(&executable, &[&scalar, &scalar])[0].to_vec().unwrap()), [3.0]);
    });
}

#[test]
fn donation_deletes_inputs_unless_they_are_protected() {
    on_each_cpu_plugin(|client| {
        let mut module = hlo::Module::new("donate");
        let (a, b) = (module.parameter(&[4]), module.parameter(&[4]));
        let sum = module.binary("add", a, b);
        module.alias(0, 0);
        let executable = compile(client, &module.finish(&[sum]));
        let device = client.default_device();
        let (a, b) = (f32_buffer(device, &[1.0; 4], &[4]), f32_buffer(device, &[2.0; 4], &[4]));
        let mut scratch = ExecuteScratch::default();
        let mut outputs = Vec::new();
        executable.execute([&a, &b], &[0], &mut scratch, &mut outputs).unwrap();
        assert!(!a.is_deleted().unwrap());
        assert_eq!(f32_values(&outputs[0].to_vec().unwrap()), [3.0; 4]);
        executable.execute([&a, &b], &[], &mut scratch, &mut outputs).unwrap();
        assert!(a.is_deleted().unwrap());
        assert!(!b.is_deleted().unwrap());
        let error = executable.execute([&a, &b], &[], &mut scratch, &mut outputs).unwrap_err();
        assert!(matches!(error, Error::Plugin { .. }), "{error}");
        assert!(outputs.is_empty());
        assert!(a.host_view().is_err());
    });
}

#[test]
fn a_viewed_buffer_is_not_donated_under_the_view() {
    on_each_cpu_plugin(|client| {
        let mut module = hlo::Module::new("donate");
        let (a, b) = (module.parameter(&[4]), module.parameter(&[4]));
        let sum = module.binary("add", a, b);
        module.alias(0, 0);
        let executable = compile(client, &module.finish(&[sum]));
        let device = client.default_device();
        let (a, b) = (f32_buffer(device, &[1.0; 4], &[4]), f32_buffer(device, &[2.0; 4], &[4]));
        let view = a.host_view().unwrap();
        let mut outputs = Vec::new();
        let result = executable.execute([&a, &b], &[], &mut ExecuteScratch::default(), &mut outputs);
        assert!(result.is_err() || f32_values(&outputs[0].to_vec().unwrap()) == [3.0; 4]);
        assert_eq!(f32_values(view.bytes()), [1.0; 4]);
    });
}

#[test]
fn executables_survive_serialisation() {
    on_each_cpu_plugin(|client| {
        let program = hlo::add(&[2]);
        let executable = compile(client, &program);
        let bytes = executable.serialize().unwrap();
        assert!(!bytes.is_empty());
        let loaded = client.load(&bytes).unwrap();
        let a = f32_buffer(client.default_device(), &[1.0, 2.0], &[2]);
        assert_eq!(f32_values(&run(&loaded, &[&a, &a])[0].to_vec().unwrap()), [2.0, 4.0]);
        assert_eq!(
            executable.fingerprint().ok(),
            compile(client, &program).fingerprint().ok(),
            "the fingerprint depends on the input only"
        );
        let error = client.load(b"no executable").unwrap_err();
        assert_eq!(error.fault(), Fault::Plugin, "{error}");
        assert_eq!(client.load(b"").unwrap_err().fault(), Fault::Caller);
    });
}

#[test]
fn executables_describe_themselves() {
    on_each_cpu_plugin(|client| {
        let mut module = hlo::Module::new("two_outputs");
        let (a, b) = (module.parameter(&[2, 3]), module.parameter(&[3, 5]));
        let dot = module.dot(a, b, &[2, 5]);
        let double = module.binary("add", a, a);
        let executable = compile(client, &module.finish(&[dot, double]));
        assert_eq!(executable.name().unwrap(), "two_outputs");
        assert_eq!(executable.num_outputs().unwrap(), 2);
        assert_eq!(executable.num_replicas().unwrap(), 1);
        assert_eq!(executable.num_partitions().unwrap(), 1);
        assert_eq!(executable.output_element_types().unwrap(), [ElementType::F32; 2]);
        assert_eq!(executable.output_dimensions().unwrap(), [vec![2, 5], vec![2, 3]]);
        let optimized = executable.optimized_program().unwrap();
        assert_eq!(optimized.format, "hlo_with_config");
        assert!(optimized.hlo_module().is_some_and(|module| module.windows(11).any(|text| text == b"two_outputs")));
        let memory = executable.compiled_memory_stats().unwrap();
        assert_eq!(memory.argument, 4 * (6 + 15));
        assert_eq!(memory.output, 80);
        assert!(memory.peak.is_none_or(|peak| peak >= memory.argument));
        assert!(executable.size_of_generated_code().unwrap() >= 0);
        match executable.cost_analysis() {
            Ok(costs) => assert!(costs.values().all(|value| value.is_finite())),
            Err(error) => assert!(error.is_unimplemented(), "{error}"),
        }
        assert!(!executable.is_deleted().unwrap());
        executable.delete().unwrap();
        // The older plugin's answer to this stays "no".
        assert!(executable.is_deleted().unwrap() || client.plugin().api_version().minor < 115);
    });
}

#[test]
fn every_element_type_goes_to_the_device_and_back() {
    on_each_cpu_plugin(|client| {
        for ty in ElementType::ALL {
            if *ty == ElementType::Token {
                continue;
            }
            // Small bit patterns: sub-byte types hold one element a byte.
            let data: Vec<u8> = (0..ty.size_of() * 6).map(|index| u8::from(index % 3 == 1)).collect();
            for semantics in [CopySemantics::DuringCall, CopySemantics::UntilTransferCompletes] {
                match Buffer::from_host(client.default_device(), &data, &[2, 3], *ty, semantics) {
                    Ok(buffer) => {
                        assert_eq!(buffer.element_type().unwrap(), *ty);
                        assert_eq!(buffer.minor_to_major().unwrap(), Some(vec![1, 0]));
                        assert_eq!(buffer.to_vec().unwrap(), data, "{ty}");
                        match buffer.host_view() {
                            Ok(view) => assert_eq!(view.bytes(), data, "{ty}"),
                            Err(error) => assert!(ty.is_sub_byte(), "{ty}: {error}"),
                        }
                    }
                    Err(error) => assert!(error.is_unimplemented(), "{ty}: {error}"),
                }
            }
        }
    });
}

#[test]
fn bad_arguments_are_refused_with_their_reason() {
    on_each_cpu_plugin(|client| {
        let device = client.default_device();
        let error = Buffer::from_host(device, &[0; 7], &[2], ElementType::F32, CopySemantics::DuringCall).unwrap_err();
        assert_eq!(error.fault(), Fault::Caller);
        assert_eq!(error.to_string(), "Buffer::from_host: 7 bytes given for f32[2], which needs Some(8)");
        let a = f32_buffer(device, &[1.0, 2.0], &[2]);
        assert_eq!(a.to_host(&mut [0; 4]).unwrap_err().fault(), Fault::Caller);

        let executable = compile(client, &hlo::add(&[2]));
        let mut outputs = Vec::new();
        let mut scratch = ExecuteScratch::default();
        let error = executable.execute([&a], &[], &mut scratch, &mut outputs).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
        let wrong = f32_buffer(device, &[1.0; 3], &[3]);
        let error = executable.execute([&a, &wrong], &[], &mut scratch, &mut outputs).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");

        let options = CompileOptions::default().with_override("xla_no_such_flag", true);
        let error = client.compile(&hlo::add(&[2]), ProgramFormat::Hlo, &options).unwrap_err();
        assert!(error.to_string().contains("xla_no_such_flag"), "{error}");
        let error = client.compile(b"\xff\xff", ProgramFormat::Hlo, &CompileOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Plugin { function: "PJRT_Client_Compile", .. }), "{error}");
        let options = CompileOptions::default().with_override("xla_backend_optimization_level", 0_i64);
        client.compile(&hlo::add(&[2]), ProgramFormat::Hlo, &options).unwrap();
    });
}

#[test]
fn buffers_of_another_client_are_refused() {
    on_each_cpu_plugin(|client| {
        let other = clutch_pjrt::Client::create(client.plugin(), &clutch_pjrt::Client::cpu_options()).unwrap();
        let executable = compile(client, &hlo::add(&[1]));
        let foreign = f32_buffer(other.default_device(), &[1.0], &[1]);
        let error = executable.execute([&foreign, &foreign], &[], &mut ExecuteScratch::default(), &mut Vec::new()).unwrap_err();
        assert_eq!(error.fault(), Fault::Caller);
    });
}

#[test]
fn executables_are_shared_between_threads() {
    on_each_cpu_plugin(|client| {
        let executable = compile(client, &hlo::add(&[8]));
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let executable = &executable;
                scope.spawn(move || {
                    let mut scratch = ExecuteScratch::default();
                    let mut outputs = Vec::new();
                    for _ in 0..200 {
                        let a = f32_buffer(client.default_device(), &[f32::from(thread); 8], &[8]);
                        executable.execute([&a, &a], &[], &mut scratch, &mut outputs).unwrap();
                        assert_eq!(f32_values(outputs[0].host_view().unwrap().bytes()), [2.0 * f32::from(thread); 8]);
                    }
                });
            }
        });
    });
}

#[test]
fn cpu_plugins_have_no_topologies() {
    on_each_cpu_plugin(|client| {
        let error = clutch_pjrt::Topology::create(client.plugin(), "host").unwrap_err();
        assert!(error.is_unimplemented(), "{error}");
    });
}

#[test]
fn one_file_is_one_plugin() {
    on_each_cpu_plugin(|client| {
        let again = Plugin::load(client.plugin().path()).unwrap();
        assert_eq!(again.path(), client.plugin().path());
        assert_eq!(again.api_version(), client.plugin().api_version());
    });
}
