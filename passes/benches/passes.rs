//! Wall time of every pass on captured-like networks: `cargo bench -p clutch-passes`.

#[path = "../tests/common/networks.rs"]
mod networks;

use clutch_graph::Graph;
use clutch_passes::{PassOptions, PassReport, run, split_weights};
use std::time::Instant;

const ROUNDS: usize = 30;

fn measure(name: &str, graph: &Graph, options: &PassOptions) {
    let mut reports: Vec<PassReport> = Vec::new();
    let mut splits: Vec<u64> = Vec::new();
    for _ in 0..ROUNDS {
        let (after, report) = run(graph.clone(), options).expect("passes succeed");
        let started = Instant::now();
        std::hint::black_box(split_weights(&after, options).expect("the split succeeds"));
        splits.push(started.elapsed().as_micros() as u64);
        reports.push(report);
    }
    reports.sort_by_key(PassReport::total_micros);
    splits.sort_unstable();
    let median = &reports[ROUNDS / 2];
    println!("{name}: {} nodes, {} us, split {} us", graph.nodes().len(), median.total_micros(), splits[ROUNDS / 2]);
    for p in &median.passes {
        println!("  {:10} {:6} us  {} -> {} nodes", p.name, p.micros, p.nodes_before, p.nodes_after);
    }
}

fn main() {
    let inference = PassOptions { inference: true, ..PassOptions::default() };
    let training = PassOptions::default();
    measure("encoder 12 x 768, inference", &networks::encoder(12, 1, 128, 768, false).expect("builds"), &inference);
    measure("encoder 12 x 768, dropout", &networks::encoder(12, 8, 128, 768, true).expect("builds"), &training);
    measure("encoder 96 x 768, inference", &networks::encoder(96, 1, 128, 768, false).expect("builds"), &inference);
    measure("residual network 50", &networks::residual_network(224, 64, &[3, 4, 6, 3]).expect("builds"), &inference);
    measure("chain of 5000", &networks::chain(5000).expect("builds"), &training);
    measure("chain of 100000", &networks::chain(100_000).expect("builds"), &training);
}
