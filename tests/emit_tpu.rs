//! The case tables compile for a TPU, ahead of time and without one.

mod emit_support;

use emit_support::{all, plugins};

#[test]
fn every_case_compiles_for_a_tpu() {
    let Some(topology) = plugins::tpu() else {
        eprintln!("skipped: libtpu is not installed");
        return;
    };
    let cases = all();
    let mut failures = Vec::new();
    for case in &cases {
        let Err(problem) = plugins::compile_for_tpu(topology, &case.graph) else { continue };
        let count = case.graph.outputs.len();
        let outputs = (0..count).filter(|_| count > 1).map(|i| case.only(i));
        let alone: Vec<String> =
            outputs.filter_map(|c| plugins::compile_for_tpu(topology, &c.graph).err().map(|e| format!("{}: {e}", c.name))).collect();
        failures.extend(if alone.is_empty() { vec![format!("{}: {problem}", case.name)] } else { alone });
    }
    assert!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
