//! The plugins under test.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clutch::emit::{CPU_OVERRIDES, EmitOptions, HloProgram, emit};
use clutch_graph::{DType, Graph, Literal};
use clutch_pjrt::{
    Buffer, Client, CompileOptions, CopySemantics, Discovery, ElementType, ExecuteScratch, Platform, Plugin, ProgramFormat, Topology,
};

/// Package folders of the repository's own environment and of the active one.
fn site_packages() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv");
    let active = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let mut found = Vec::new();
    for root in active.into_iter().chain([own]) {
        let Ok(entries) = std::fs::read_dir(root.join("lib")) else { continue };
        found.extend(entries.flatten().map(|e| e.path().join("site-packages")));
    }
    found.sort();
    found
}

fn path(platform: Platform) -> Option<PathBuf> {
    let discovery = Discovery { site_packages: site_packages(), explicit: None, environment: None };
    Plugin::discover(Some(platform), &discovery).ok()
}

/// A client of the CPU plugin, which every test needs.
pub fn cpu() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let path = path(Platform::Cpu).expect("the CPU plugin is installed with the package");
        let plugin = Plugin::load(path).expect("the CPU plugin loads");
        Client::create(&plugin, &Client::cpu_options()).expect("the CPU plugin has a client")
    })
}

/// A one-chip topology of libtpu; `None` where libtpu is not installed.
pub fn tpu() -> Option<&'static Topology> {
    static TOPOLOGY: OnceLock<Option<Topology>> = OnceLock::new();
    TOPOLOGY
        .get_or_init(|| {
            let path = path(Platform::Tpu)?;
            // SAFETY: the tests of a binary that call this read no environment variable from other threads meanwhile.
            let plugin = unsafe { Plugin::load_for_aot(path) }.expect("libtpu loads");
            Some(Topology::create(&plugin, "v5e:1x1").expect("libtpu knows the topology"))
        })
        .as_ref()
}

/// The element type of buffers that hold `dtype`.
pub fn element_type(dtype: DType) -> ElementType {
    *ElementType::ALL.iter().find(|t| t.name() == dtype.name()).expect("every element type has a buffer type")
}

/// An emitted graph, for the target's guarantees.
pub fn program(graph: &Graph, options: &EmitOptions) -> Result<HloProgram, String> {
    emit(graph, options).map_err(|e| e.to_string())
}

/// Results of a graph on the CPU plugin, compiled as the options expect.
pub fn run_on_cpu(graph: &Graph, inputs: &[Literal], options: &EmitOptions) -> Result<Vec<Vec<u8>>, String> {
    let program = program(graph, options)?;
    let client = cpu();
    let flags = if options.max_drops_nan { &[] } else { CPU_OVERRIDES };
    let compile = flags.iter().fold(CompileOptions::default(), |o, (name, value)| o.with_override(*name, *value));
    let executable = client.compile(&program.bytes, ProgramFormat::Hlo, &compile).map_err(|e| e.to_string())?;
    let device = client.default_device();
    let buffers: Vec<Buffer> = inputs
        .iter()
        .map(|l| Buffer::from_host(device, l.bytes(), &l.ty().dims, element_type(l.ty().dtype), CopySemantics::DuringCall))
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    let mut outputs = Vec::new();
    executable.execute(&buffers, &[], &mut ExecuteScratch::default(), &mut outputs).map_err(|e| e.to_string())?;
    outputs.iter().map(|b| b.to_vec().map_err(|e| e.to_string())).collect()
}

/// Compiles a graph for the TPU topology.
pub fn compile_for_tpu(topology: &Topology, graph: &Graph) -> Result<(), String> {
    let program = program(graph, &EmitOptions::for_platform("tpu"))?;
    topology.compile(&program.bytes, ProgramFormat::Hlo, &CompileOptions::default()).map(|_| ()).map_err(|e| e.to_string())
}
