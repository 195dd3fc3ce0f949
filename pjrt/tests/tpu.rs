//! Ahead-of-time compilation through libtpu, with no TPU.

mod support;

use clutch_pjrt::{ApiVersion, CompileOptions, Error, Fault, Plugin, ProgramFormat, Topology};
use pretty_assertions::assert_eq;
use std::sync::OnceLock;
use support::{hlo, plugin_path};

fn libtpu() -> Option<&'static Plugin> {
    static PLUGIN: OnceLock<Option<Plugin>> = OnceLock::new();
    PLUGIN
        .get_or_init(|| {
            let path = plugin_path("libtpu")?;
            // SAFETY: every test of this binary waits here first, so no native code runs that reads the environment.
            Some(unsafe { Plugin::load_for_aot(path) }.unwrap())
        })
        .as_ref()
}

#[test]
fn programs_compile_for_a_topology() {
    let Some(plugin) = libtpu() else { return };
    assert!(plugin.is_tpu());
    assert!(plugin.api_version() >= ApiVersion { major: 0, minor: 114 });
    let topology = Topology::create(plugin, "v5e:1x1").unwrap();
    assert_eq!(topology.name(), "v5e:1x1");
    assert_eq!(topology.platform_name().unwrap(), "tpu");
    assert!(!topology.platform_version().unwrap().is_empty());
    assert_eq!(topology.device_kind().unwrap(), "TPU v5 lite");
    assert!(!topology.serialize().unwrap().is_empty());
    assert_eq!(topology.device_memory().unwrap(), Some(16_909_336_064));
    let devices = topology.devices().unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].id().unwrap(), 0);
    assert!(devices[0].attributes().unwrap().contains_key("coords"));

    let executable = topology.compile(&hlo::matmul(256), ProgramFormat::Hlo, &CompileOptions::default()).unwrap();
    assert!(executable.serialize().unwrap().len() > 1000);
    assert_eq!(executable.num_outputs().unwrap(), 1);
    assert_eq!(executable.output_dimensions().unwrap(), [vec![256, 256]]);
    let costs = executable.cost_analysis().unwrap();
    assert!(costs["flops"] >= 2.0 * 256.0 * 256.0 * 255.0, "{costs:?}");
    assert!(costs.iter().all(|(name, value)| !name.starts_with("optimal_seconds") || *value >= 0.0));
    let memory = executable.compiled_memory_stats().unwrap();
    assert_eq!(memory.argument, 2 * 256 * 256 * 4);
    assert!(memory.generated_code > 0);
    assert!(memory.peak.is_some());
    assert!(executable.optimized_program().unwrap().hlo_module().is_some());
    assert!(!executable.fingerprint().unwrap().is_empty());
    drop(topology);
    assert!(executable.name().is_ok());
}

#[test]
fn sizes_and_generations_differ() {
    let Some(plugin) = libtpu() else { return };
    let fingerprints: Vec<u64> = ["v5e:2x2", "v6e:2x2", "tpu7x:2x2x1", "v5p:2x2x1", "v4:2x2x1", "v3:2x2", "v2:2x2"]
        .iter()
        .map(|name| {
            let topology = Topology::create(plugin, name).unwrap();
            assert!(topology.devices().unwrap().len() >= 4, "{name}");
            topology.fingerprint().unwrap()
        })
        .collect();
    let mut unique = fingerprints.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), fingerprints.len());
}

#[test]
fn partitions_compile_with_spmd() {
    let Some(plugin) = libtpu() else { return };
    let topology = Topology::create(plugin, "v5e:2x2").unwrap();
    let options = CompileOptions { num_partitions: 4, use_spmd_partitioning: true, ..CompileOptions::default() };
    let executable = topology.compile(&hlo::matmul(256), ProgramFormat::Hlo, &options).unwrap();
    assert_eq!(executable.num_partitions().unwrap(), 4);
}

#[test]
fn refused_names_list_the_accepted_ones() {
    let Some(plugin) = libtpu() else { return };
    for name in ["", " ", "v8:2x2", "v5litepod-4", "v5e"] {
        let error = Topology::create(plugin, name).unwrap_err();
        assert!(matches!(error, Error::UnknownTopology { .. }), "{name}: {error}");
        assert!(error.to_string().contains("v5e:2x2"), "{error}");
        assert_eq!(error.fault(), Fault::Caller);
    }
    let error = Topology::create(plugin, "v5e:3x7").unwrap_err();
    assert!(matches!(error, Error::TopologyRefused { .. }), "{error}");
    assert!(error.to_string().contains("v5e:2x2"), "{error}");
}

#[test]
fn refused_programs_and_flags_are_errors() {
    let Some(plugin) = libtpu() else { return };
    let topology = Topology::create(plugin, "v5e:1x1").unwrap();
    let error = topology.compile(b"\xff", ProgramFormat::Hlo, &CompileOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Plugin { function: "PJRT_Compile", .. }), "{error}");
    let options = CompileOptions::default().with_override("xla_no_such_flag", 1_i64);
    let error = topology.compile(&hlo::add(&[8]), ProgramFormat::Hlo, &options).unwrap_err();
    assert!(error.to_string().contains("xla_no_such_flag"), "{error}");
    let options = CompileOptions::default().with_override("xla_tpu_scoped_vmem_limit_kib", 16_384_i64);
    topology.compile(&hlo::add(&[8]), ProgramFormat::Hlo, &options).unwrap();
}

#[test]
fn a_program_that_does_not_fit_is_out_of_memory() {
    let Some(plugin) = libtpu() else { return };
    let topology = Topology::create(plugin, "v5e:1x1").unwrap();
    let error = topology.compile(&hlo::add(&[1 << 16, 1 << 16]), ProgramFormat::Hlo, &CompileOptions::default()).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
}

#[test]
fn a_cpu_plugin_lives_beside_it() {
    let (Some(_), Some(path)) = (libtpu(), plugin_path(support::CPU_PACKAGES[0])) else { return };
    let plugin = Plugin::load(path).unwrap();
    let client = clutch_pjrt::Client::create(&plugin, &clutch_pjrt::Client::cpu_options()).unwrap();
    assert_eq!(client.platform_name(), "cpu");
}
