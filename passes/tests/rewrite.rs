//! Rewriting as a whole: costs never rise, limits hold, equal layers are rewritten alike, runs are equal.

mod common;
#[path = "common/networks.rs"]
mod networks;

use clutch_graph::DType::F32;
use clutch_graph::builder::Builder;
use clutch_graph::graph::InputKind::{Dynamic, Static};
use clutch_graph::op::{BinaryOp, Precision};
use clutch_graph::{Graph, interpret};
use clutch_passes::{Device, PassOptions, Rewrite, rewrite_explained, split_weights};
use common::{assert_close, count, random_inputs, ty};

fn inference() -> PassOptions {
    PassOptions { inference: true, ..PassOptions::default() }
}

/// Rewrites, checks the graph and that each region became cheaper.
fn rewritten(graph: &Graph, options: &PassOptions) -> Graph {
    let (after, gains) = rewrite_explained(graph, options).expect("rewriting succeeds");
    clutch_graph::verify(&after).expect("a valid graph");
    assert!(graph.output_types().eq(after.output_types()));
    assert!(gains.iter().all(|g| g.after < g.before), "{gains:?}");
    assert_eq!(after, rewrite_explained(graph, options).expect("rewriting succeeds").0, "two runs differ");
    after
}

#[test]
fn products_of_one_operand_are_merged_and_their_weights_stacked_once() {
    let graph = networks::encoder(4, 1, 32, 128, false).expect("builds");
    let after = rewritten(&graph, &inference());
    assert_eq!(count(&graph, "dot_general") - count(&after, "dot_general"), 4 * 2, "three products become one in each layer");
    let split = split_weights(&after, &inference()).expect("splits");
    let weights = split.weights.expect("there is work on weights").graph;
    assert_eq!(count(&weights, "concat"), 4, "weights are stacked in the weight program");
    assert_eq!(count(&split.main, "concat"), 0);
}

#[test]
fn products_stay_apart_where_slices_are_copies() {
    let graph = networks::encoder(2, 1, 32, 128, false).expect("builds");
    for device in Device::ALL.into_iter().filter(|d| *d != Device::Cpu) {
        let after = rewritten(&graph, &PassOptions { device, ..inference() });
        assert_eq!(count(&after, "dot_general"), count(&graph, "dot_general"), "{device:?}");
    }
}

#[test]
fn training_does_not_stack_weights_on_every_call() {
    let graph = networks::encoder(2, 1, 32, 128, true).expect("builds");
    let after = rewritten(&graph, &PassOptions::default());
    assert_eq!(count(&after, "dot_general"), count(&graph, "dot_general"));
}

#[test]
fn off_changes_nothing_and_exact_keeps_bits() {
    let graph = networks::encoder(2, 1, 8, 128, false).expect("builds");
    let off = PassOptions { rewrite: Rewrite::Off, ..inference() };
    assert_eq!(rewritten(&graph, &off), graph);
    let exact = PassOptions { rewrite: Rewrite::Exact, ..inference() };
    let after = rewritten(&graph, &exact);
    let inputs = random_inputs(&graph, 5);
    let (before, got) = (interpret(&graph, &inputs).expect("runs"), interpret(&after, &inputs).expect("runs"));
    assert_eq!(before, got);
}

#[test]
fn results_stay_on_every_device() {
    let graphs = [
        networks::encoder(2, 2, 8, 128, false).expect("builds"),
        networks::encoder(1, 2, 8, 128, true).expect("builds"),
        networks::residual_network(16, 4, &[1, 1]).expect("builds"),
        networks::chain(200).expect("builds"),
    ];
    for graph in &graphs {
        let inputs = random_inputs(graph, 11);
        let before = interpret(graph, &inputs).expect("runs");
        for device in Device::ALL {
            for inference in [false, true] {
                let after = rewritten(graph, &PassOptions { inference, device, ..PassOptions::default() });
                assert_close(&before, &interpret(&after, &inputs).expect("runs"), 1e-4, &after);
            }
        }
    }
}

#[test]
fn thirty_products_end_at_the_limits() {
    let mut b = Builder::new();
    let sizes: Vec<i64> = (0..31).map(|i| 2 + (i * 7) % 5).collect();
    let matrices: Vec<_> = sizes.windows(2).map(|w| b.parameter(ty(F32, &[w[0], w[1]]), Dynamic)).collect();
    let mut y = matrices[0];
    for &m in &matrices[1..] {
        y = b.matmul(y, m, Precision::Highest).expect("fits");
    }
    let graph = b.finish([y]);
    let after = rewritten(&graph, &inference());
    let inputs = random_inputs(&graph, 3);
    let (before, got) = (interpret(&graph, &inputs).expect("runs"), interpret(&after, &inputs).expect("runs"));
    let scale = before[0].to_f64().expect("real").iter().fold(0f64, |m, v| m.max(v.abs()));
    let far = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-4 * scale;
    let (a, b) = (before[0].to_f64().expect("real"), got[0].to_f64().expect("real"));
    assert!(!a.iter().zip(&b).any(far), "{a:?}\n{b:?}");
}

#[test]
fn a_cheap_order_of_products_is_found() {
    let mut b = Builder::new();
    let x = b.parameter(ty(F32, &[512, 1024]), Dynamic);
    let down = b.parameter(ty(F32, &[1024, 8]), Dynamic);
    let up = b.parameter(ty(F32, &[8, 1024]), Dynamic);
    let w = b.matmul(down, up, Precision::Highest).expect("fits");
    let y = b.matmul(x, w, Precision::Highest).expect("fits");
    let after = rewritten(&b.finish([y]), &inference());
    assert!(after.nodes().iter().all(|n| n.outputs[0].numel() < 1024 * 1024), "the large product is avoided\n{after}");
}

#[test]
fn two_hundred_sums_and_deep_transposes_end_at_the_limits() {
    let mut b = Builder::new();
    let mut terms: Vec<_> = (0..200).map(|_| b.parameter(ty(F32, &[3, 4]), Dynamic)).collect();
    while terms.len() > 1 {
        let mut next = Vec::new();
        for pair in terms.chunks(2) {
            next.push(if let [x, y] = *pair { b.add(x, y).expect("fits") } else { pair[0] });
        }
        terms = next;
    }
    let mut y = terms[0];
    for i in 0..100 {
        y = b.transpose(y, &[1, 0]).expect("fits");
        y = b.binary_scalar(BinaryOp::Mul, y, 1.0 + f64::from(i % 3)).expect("fits");
    }
    let graph = b.finish([y]);
    let after = rewritten(&graph, &PassOptions::default());
    assert!(count(&after, "transpose") < count(&graph, "transpose") / 2);
    let inputs = random_inputs(&graph, 3);
    assert_close(&interpret(&graph, &inputs).expect("runs"), &interpret(&after, &inputs).expect("runs"), 1e-3, &after);
}

#[test]
fn equal_layers_are_rewritten_once() {
    let graph = networks::encoder(24, 1, 16, 128, false).expect("builds");
    let (_, gains) = rewrite_explained(&graph, &inference()).expect("rewriting succeeds");
    assert!(gains.len() <= 6, "{} regions were rewritten apart", gains.len());
    assert!(gains.iter().map(|g| g.count).sum::<usize>() >= 20);
}

#[test]
fn weights_that_the_program_overwrites_are_not_stacked() {
    let mut b = Builder::new();
    let x = b.parameter(ty(F32, &[2, 8]), Dynamic);
    let weights: Vec<_> = (0..2).map(|_| b.parameter(ty(F32, &[8, 8]), Static)).collect();
    let mut outputs: Vec<_> = weights.iter().map(|&w| b.matmul(x, w, Precision::Highest).expect("fits")).collect();
    outputs.push(b.add(weights[0], weights[1]).expect("fits"));
    let mut graph = b.finish(outputs);
    graph.aliases.push(clutch_graph::Alias { output: 2, parameter: 1 });
    let after = rewritten(&graph, &inference());
    assert_eq!(count(&after, "dot_general"), 2);
}
