//! What happens when a plugin fails, with the fake plugin: every error is typed, and nothing leaks.

mod support;

use clutch_pjrt::{
    ApiVersion, Buffer, Client, CompileOptions, CopySemantics, ElementType, Error, ErrorCode, ExecuteScratch, Fault, LoadedExecutable,
    Plugin, ProgramFormat, Topology,
};
use pretty_assertions::assert_eq;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use support::fake::Fake;
use support::{f32_buffer, f32_values, hlo};

fn client(fake: &Fake) -> Client {
    Client::create(&fake.load().unwrap(), &[]).unwrap()
}

fn compile(client: &Client) -> LoadedExecutable {
    client.compile(&hlo::add(&[2]), ProgramFormat::Hlo, &CompileOptions::default()).unwrap()
}

/// Asserts that the error is the one set for the function.
fn assert_fault(error: &Error, function: &str, code: ErrorCode) {
    match error {
        Error::Plugin { function: failed, code: found, message } => {
            assert_eq!((*failed, *found, message.as_str()), (function, code, "boom"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(error.fault(), Fault::Plugin);
}

#[test]
fn the_whole_path_works_and_leaves_nothing_behind() {
    let fake = Fake::new();
    {
        let client = client(&fake);
        assert_eq!(client.platform_name(), "fake");
        assert_eq!(client.platform_version(), "fake 1");
        assert_eq!(client.default_device().kind().unwrap(), "fake");
        let executable = compile(&client);
        let a = f32_buffer(client.default_device(), &[1.0, 2.0], &[2]);
        let mut outputs = Vec::new();
        let mut scratch = ExecuteScratch::default();
        for _ in 0..3 {
            executable.execute([&a, &a], &[], &mut scratch, &mut outputs).unwrap();
        }
        assert_eq!(f32_values(&outputs[0].to_vec().unwrap()), [1.0, 2.0]);
        let view = outputs.pop().unwrap().into_host_view().unwrap();
        assert_eq!(f32_values(view.bytes()), [1.0, 2.0]);
        let again = client.load(&executable.serialize().unwrap()).unwrap();
        assert_eq!(again.fingerprint().unwrap(), executable.fingerprint().unwrap());
        assert_eq!(again.optimized_program().unwrap().hlo_module().unwrap(), hlo::add(&[2]));
        let topology = Topology::create(client.plugin(), "v5e:2x2").unwrap();
        assert_eq!(topology.devices().unwrap().len(), 4);
        topology.serialize().unwrap();
        topology.compile(&hlo::add(&[2]), ProgramFormat::Hlo, &CompileOptions::default()).unwrap();
        assert_eq!(fake.live("client"), 1);
        assert_eq!(fake.live("serialized"), 0);
        assert!(fake.live("buffer") >= 2);
    }
    assert_eq!(fake.live(""), 0);
    assert_eq!(fake.calls("PJRT_LoadedExecutable_Execute"), 3);
    assert_eq!(fake.calls("PJRT_Client_Compile"), 1);
}

#[test]
fn every_function_on_the_path_reports_its_failure_and_frees_everything() {
    type Step = fn(&Client) -> Result<(), Error>;
    let create: Step = |client| Client::create(client.plugin(), &[]).map(drop);
    let compile_step: Step = |client| client.compile(&hlo::add(&[2]), ProgramFormat::Hlo, &CompileOptions::default()).map(drop);
    let load: Step = |client| client.load(&compile(client).serialize()?).map(drop);
    let transfer: Step = |client| {
        let semantics = CopySemantics::UntilTransferCompletes;
        Buffer::from_host(client.default_device(), &[0; 8], &[2], ElementType::F32, semantics).map(drop)
    };
    let zero_copy: Step = |client| {
        static HOST: [u8; 8] = [0; 8];
        // SAFETY: the array is static.
        unsafe { Buffer::from_host_zero_copy_with_release(client.default_device(), HOST.as_ptr(), &[2], ElementType::F32, || ()) }.map(drop)
    };
    let execute: Step = |client| {
        let a = f32_buffer(client.default_device(), &[1.0, 2.0], &[2]);
        let mut outputs = Vec::new();
        let result = compile(client).execute([&a, &a], &[], &mut ExecuteScratch::default(), &mut outputs);
        assert!(result.is_ok() || outputs.is_empty());
        result
    };
    let read: Step = |client| f32_buffer(client.default_device(), &[1.0, 2.0], &[2]).to_vec().map(drop);
    let view: Step = |client| f32_buffer(client.default_device(), &[1.0, 2.0], &[2]).host_view().map(drop);
    let describe: Step = |client| {
        let executable = compile(client);
        executable.name()?;
        executable.fingerprint()?;
        executable.cost_analysis()?;
        executable.compiled_memory_stats()?;
        executable.output_element_types()?;
        executable.output_dimensions()?;
        executable.size_of_generated_code()?;
        executable.optimized_program().map(drop)
    };
    let topology: Step = |client| {
        let topology = Topology::create(client.plugin(), "any")?;
        topology.platform_name()?;
        topology.platform_version()?;
        topology.device_kind()?;
        topology.attributes()?;
        topology.fingerprint()?;
        topology.serialize()?;
        topology.compile(&hlo::add(&[2]), ProgramFormat::Hlo, &CompileOptions::default()).map(drop)
    };
    let device: Step = |client| {
        let device = client.default_device();
        device.id()?;
        device.kind()?;
        device.local_hardware_id()?;
        device.description()?.describe()?;
        device.description()?.attributes()?;
        device.memory_stats().map(drop)
    };
    let cases: &[(Step, &[&str])] = &[
        (create, &["PJRT_Client_Create", "PJRT_Client_PlatformName", "PJRT_Client_PlatformVersion", "PJRT_Client_AddressableDevices"]),
        (compile_step, &["PJRT_Client_Compile", "PJRT_LoadedExecutable_GetExecutable", "PJRT_Executable_NumOutputs"]),
        (load, &["PJRT_Executable_Serialize", "PJRT_Executable_DeserializeAndLoad"]),
        (transfer, &["PJRT_Client_BufferFromHostBuffer"]),
        (zero_copy, &["PJRT_Client_BufferFromHostBuffer", "PJRT_Event_OnReady"]),
        (execute, &["PJRT_LoadedExecutable_Execute"]),
        (read, &["PJRT_Buffer_ToHostBuffer", "PJRT_Buffer_Dimensions", "PJRT_Buffer_ElementType"]),
        (
            view,
            &["PJRT_Buffer_ReadyEvent", "PJRT_Buffer_IsOnCpu", "PJRT_Buffer_IncreaseExternalReferenceCount", "PJRT_Buffer_UnsafePointer"],
        ),
        (
            describe,
            &[
                "PJRT_Executable_Name",
                "PJRT_Executable_Fingerprint",
                "PJRT_Executable_GetCostAnalysis",
                "PJRT_Executable_GetCompiledMemoryStats",
                "PJRT_Executable_OutputElementTypes",
                "PJRT_Executable_OutputDimensions",
                "PJRT_Executable_SizeOfGeneratedCodeInBytes",
                "PJRT_Executable_OptimizedProgram",
            ],
        ),
        (
            topology,
            &[
                "PJRT_TopologyDescription_Create",
                "PJRT_TopologyDescription_PlatformName",
                "PJRT_TopologyDescription_PlatformVersion",
                "PJRT_TopologyDescription_GetDeviceDescriptions",
                "PJRT_DeviceDescription_Kind",
                "PJRT_TopologyDescription_Attributes",
                "PJRT_TopologyDescription_Fingerprint",
                "PJRT_TopologyDescription_Serialize",
                "PJRT_Compile",
            ],
        ),
        (
            device,
            &[
                "PJRT_Device_GetDescription",
                "PJRT_DeviceDescription_Id",
                "PJRT_Device_LocalHardwareId",
                "PJRT_DeviceDescription_ToString",
                "PJRT_DeviceDescription_Attributes",
                "PJRT_Device_MemoryStats",
            ],
        ),
    ];
    let fake = Fake::new();
    let client = client(&fake);
    let idle = fake.live("");
    for (step, functions) in cases {
        step(&client).unwrap();
        assert_eq!(fake.live(""), idle);
        for function in *functions {
            for code in [ErrorCode::ResourceExhausted, ErrorCode::Internal, ErrorCode::Unavailable] {
                fake.fail(function, code, "boom", 1);
                let error = step(&client).unwrap_err();
                assert_fault(&error, function, code);
                assert_eq!(error.is_out_of_memory(), code == ErrorCode::ResourceExhausted);
                assert_eq!(error.is_transient(), code == ErrorCode::Unavailable);
                assert_eq!(fake.live(""), idle, "{function} leaks");
            }
        }
        step(&client).unwrap();
    }
}

#[test]
fn failed_destructors_do_not_panic() {
    let fake = Fake::new();
    let client = client(&fake);
    fake.fail("PJRT_Buffer_Destroy", ErrorCode::Internal, "boom", 1);
    drop(f32_buffer(client.default_device(), &[1.0, 2.0], &[2]));
    fake.fail("PJRT_LoadedExecutable_Destroy", ErrorCode::Internal, "boom", 1);
    drop(compile(&client));
    assert_eq!(fake.live("error"), 0);
}

#[test]
fn an_execution_that_fails_later_fails_under_its_own_name() {
    let fake = Fake::new();
    let client = client(&fake);
    let executable = compile(&client);
    let a = f32_buffer(client.default_device(), &[1.0, 2.0], &[2]);
    let (mut scratch, mut outputs) = (ExecuteScratch::default(), Vec::new());
    let idle = fake.live("");
    fake.fail("PJRT_LoadedExecutable_Execute#event", ErrorCode::Internal, "boom", 1);
    let error = executable.execute([&a, &a], &[], &mut scratch, &mut outputs).unwrap_err();
    assert_fault(&error, "PJRT_LoadedExecutable_Execute", ErrorCode::Internal);
    assert!(outputs.is_empty());
    assert_eq!(fake.live(""), idle);

    fake.fail("PJRT_LoadedExecutable_Execute#event", ErrorCode::Internal, "boom", 1);
    let complete = executable.execute_async([&a, &a], &[], &mut scratch, &mut outputs).unwrap();
    assert!(complete.is_ready().unwrap());
    assert_fault(&complete.wait().unwrap_err(), "PJRT_LoadedExecutable_Execute", ErrorCode::Internal);
    let (sender, receiver) = mpsc::channel();
    complete.on_ready(move |outcome| sender.send(outcome).unwrap()).unwrap();
    assert_fault(&receiver.recv().unwrap().unwrap_err(), "PJRT_LoadedExecutable_Execute", ErrorCode::Internal);
    assert!(outputs[0].host_view().is_err());
    drop((complete, outputs));
    assert_eq!(fake.live(""), idle);
}

#[test]
fn a_panicking_callback_stops_at_the_border() {
    let fake = Fake::new();
    let client = client(&fake);
    let buffer = f32_buffer(client.default_device(), &[1.0], &[1]);
    buffer.ready_event().unwrap().on_ready(|_| panic!("in a callback")).unwrap();
    assert_eq!(fake.live("event"), 0);
}

#[test]
fn zero_copy_memory_is_released_when_the_buffer_goes() {
    let fake = Fake::new();
    let client = client(&fake);
    let host = [1.0_f32, 2.0];
    let released = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&released);
    // SAFETY: the array outlives the buffer.
    let buffer = unsafe {
        Buffer::from_host_zero_copy_with_release(client.default_device(), host.as_ptr().cast(), &[2], ElementType::F32, move || {
            counter.fetch_add(1, Ordering::SeqCst);
        })
    }
    .unwrap();
    assert_eq!(released.load(Ordering::SeqCst), 0);
    drop(buffer);
    assert_eq!(released.load(Ordering::SeqCst), 1);
}

#[test]
fn cost_sentinels_are_not_shown() {
    let fake = Fake::new();
    let costs = compile(&client(&fake)).cost_analysis().unwrap();
    assert_eq!(costs.keys().collect::<Vec<_>>(), ["bytes accessed", "flops"]);
}

#[test]
fn executables_of_another_version_are_refused() {
    let fake = Fake::new();
    let client = client(&fake);
    let bytes = compile(&client).serialize().unwrap();
    fake.set_platform_version("fake 2");
    assert!(client.load(&bytes).unwrap_err().is_invalid_argument());
    fake.reset();
    client.load(&bytes).unwrap();
    client.load(&bytes[..bytes.len() - 1]).unwrap_err();
    fake.set_fingerprint("fixed");
    assert_eq!(compile(&client).fingerprint().unwrap(), "fixed");
}

#[test]
fn old_and_foreign_interfaces_are_refused_with_both_versions() {
    let fake = Fake::new();
    for (major, minor) in [(0, 80), (0, 54), (1, 0), (1, 200)] {
        fake.set_api_version(major, minor);
        let error = fake.load().unwrap_err();
        match &error {
            Error::ApiVersion { found, needed, .. } => {
                assert_eq!(*found, ApiVersion { major, minor });
                assert_eq!(*needed, ApiVersion { major: 0, minor: 81 });
            }
            other => panic!("{other:?}"),
        }
        assert!(error.to_string().contains(&format!("{major}.{minor}")), "{error}");
        assert_eq!(error.fault(), Fault::Installation);
    }
    for minor in [81, 117, 300] {
        let fake = Fake::new();
        fake.set_api_version(0, minor);
        assert_eq!(fake.load().unwrap().api_version().minor, minor);
    }
}

#[test]
fn functions_an_older_table_does_not_reach_are_unimplemented() {
    let fake = Fake::new();
    fake.set_api_version(0, 81);
    // The table of 0.81 ends before the topology fingerprint.
    fake.set_table_size(984);
    let plugin = fake.load().unwrap();
    let topology = Topology::create(&plugin, "any").unwrap();
    let error = topology.fingerprint().unwrap_err();
    assert!(matches!(error, Error::Unimplemented { function: "PJRT_TopologyDescription_Fingerprint" }), "{error}");
    assert!(error.is_unimplemented());
    let client = Client::create(&plugin, &[]).unwrap();
    let a = f32_buffer(client.default_device(), &[1.0, 2.0], &[2]);
    let semantics = CopySemantics::DuringCall;
    let error = Buffer::from_host(client.default_device(), &[0], &[1], ElementType::S1, semantics).unwrap_err();
    assert!(error.is_unimplemented(), "{error}");
    compile(&client).execute([&a, &a], &[], &mut ExecuteScratch::default(), &mut Vec::new()).unwrap();
}

#[test]
fn empty_slots_are_unimplemented() {
    let fake = Fake::new();
    fake.set_missing("PJRT_Executable_Fingerprint");
    fake.set_missing("PJRT_Plugin_Attributes");
    let client = client(&fake);
    assert!(client.plugin().attributes().is_empty());
    assert!(compile(&client).fingerprint().unwrap_err().is_unimplemented());
}

#[test]
fn tables_too_short_for_a_version_are_no_plugins() {
    let fake = Fake::new();
    fake.set_table_size(24);
    assert!(matches!(fake.load().unwrap_err(), Error::NotAPlugin { .. }));
}

#[test]
fn plugins_that_do_not_start_say_why_and_may_be_tried_again() {
    let fake = Fake::new();
    fake.fail("PJRT_Plugin_Initialize", ErrorCode::FailedPrecondition, "boom", 1);
    let error = fake.load().unwrap_err();
    assert!(matches!(error, Error::PluginInitialization { .. }), "{error}");
    assert!(error.to_string().contains("boom"));
    assert_eq!(error.code(), Some(ErrorCode::FailedPrecondition));
    assert_eq!(error.fault(), Fault::Installation);
    fake.load().unwrap();
    fake.load().unwrap();
    assert_eq!(fake.calls("PJRT_Plugin_Initialize"), 2);
}

#[test]
fn files_that_are_no_plugins_are_told_apart() {
    let fake = Fake::new();
    let missing = fake.folder().join("missing.so");
    assert!(matches!(Plugin::load(&missing).unwrap_err(), Error::PluginFileMissing { .. }));
    assert!(matches!(Plugin::load(fake.folder()).unwrap_err(), Error::NotAPlugin { .. }));
    let text = fake.folder().join("text.so");
    std::fs::write(&text, "no library").unwrap();
    assert!(matches!(Plugin::load(&text).unwrap_err(), Error::PluginLoad { .. }));
}

#[test]
fn topology_names_are_checked() {
    let fake = Fake::new();
    let plugin = fake.load().unwrap();
    assert!(matches!(Topology::create(&plugin, "").unwrap_err(), Error::UnknownTopology { .. }));
    assert_eq!(fake.calls("PJRT_TopologyDescription_Create"), 0);
    fake.fail("PJRT_TopologyDescription_Create", ErrorCode::InvalidArgument, "boom", 1);
    let error = Topology::create(&plugin, "v5e:9x9").unwrap_err();
    assert!(matches!(error, Error::TopologyRefused { .. }), "{error}");
    assert_eq!(error.fault(), Fault::Caller);
    fake.fail("PJRT_TopologyDescription_Create", ErrorCode::Internal, "boom", 1);
    assert_fault(&Topology::create(&plugin, "v5e:2x2").unwrap_err(), "PJRT_TopologyDescription_Create", ErrorCode::Internal);
}

#[test]
fn unknown_codes_are_kept() {
    let fake = Fake::new();
    let plugin = fake.load().unwrap();
    fake.fail("PJRT_Client_Create", ErrorCode::Other(77), "boom", 0);
    for _ in 0..2 {
        assert_fault(&Client::create(&plugin, &[]).unwrap_err(), "PJRT_Client_Create", ErrorCode::Other(77));
    }
}

#[test]
fn faults_and_aborts_come_from_the_environment_too() {
    const CHILD: &str = "CLUTCH_TEST_CHILD_PLUGIN";
    if let Some(path) = std::env::var_os(CHILD) {
        let plugin = Plugin::load(path).unwrap();
        let client = Client::create(&plugin, &[]).unwrap();
        assert_eq!(client.platform_version(), "from outside");
        let result = client.compile(&hlo::add(&[2]), ProgramFormat::Hlo, &CompileOptions::default());
        assert!(result.unwrap_err().is_out_of_memory());
        return;
    }
    let fake = Fake::new();
    let log = fake.folder().join("log");
    let child = |name: &str, value: &str| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults_and_aborts_come_from_the_environment_too"])
            .env(CHILD, fake.path())
            .env("CLUTCH_FAKE_PJRT_PLATFORM_VERSION", "from outside")
            .env("CLUTCH_FAKE_PJRT_LOG", &log)
            .env(name, value)
            .output()
            .unwrap()
            .status
    };
    assert!(child("CLUTCH_FAKE_PJRT_FAIL", "X=INTERNAL:no;PJRT_Client_Compile=RESOURCE_EXHAUSTED:out of memory").success());
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 1);
    let status = child("CLUTCH_FAKE_PJRT_ABORT", "PJRT_Client_Compile");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(6));
}
