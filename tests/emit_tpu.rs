//! The case tables compile for a TPU, ahead of time and without one.

mod emit_support;

use clutch_graph::op::Op;
use clutch_graph::{DType, Graph};
use emit_support::{Case, all, check, plugins};

/// libtpu has neither transforms nor maximum-pooling gradients of double precision, and takes minutes over its emulated arithmetic.
fn compiles(graph: &Graph) -> bool {
    !graph.nodes().iter().any(|node| {
        let double = node.outputs.iter().any(|t| matches!(t.dtype, DType::F64 | DType::C128));
        double && matches!(node.op, Op::Fft { .. } | Op::SelectAndScatter { .. } | Op::Binary(_))
    })
}

#[test]
fn the_cases_compile_for_a_tpu() {
    let Some(topology) = plugins::tpu() else {
        eprintln!("skipped: libtpu is not installed");
        return;
    };
    let cases: Vec<Case> = all().into_iter().filter(|case| compiles(&case.graph)).collect();
    check(&cases, |case| plugins::compile_for_tpu(topology, &case.graph).err());
}
