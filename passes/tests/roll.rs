//! Repeated layers as loops: equal results, one body, stacks in the weight program, odd layers left out.

mod common;

use clutch_graph::DType::F32;
use clutch_graph::builder::{Builder, Built};
use clutch_graph::graph::InputKind::{Dynamic, Static};
use clutch_graph::op::{Precision, UnaryOp};
use clutch_graph::{Graph, Literal, Op, ValueId, interpret};
use clutch_passes::{Device, ParameterSource, PassOptions, Roll, Target, run, split_weights};
use common::{TOL, assert_close, count, random_inputs, ty};

const ROWS: i64 = 3;
const WIDTH: i64 = 4;

fn options(roll: Roll) -> PassOptions {
    PassOptions { inference: true, target: Target::Tpu, device: Device::V5e, roll, ..PassOptions::default() }
}

fn weight(b: &mut Builder, dims: &[i64]) -> ValueId {
    b.parameter(ty(F32, dims), Static)
}

/// x + f(x @ w + bias) * mask.
fn layer(b: &mut Builder, x: ValueId, mask: ValueId, f: UnaryOp) -> Built {
    let (w, bias) = (weight(b, &[WIDTH, WIDTH]), weight(b, &[WIDTH]));
    let y = b.matmul(x, w, Precision::Highest)?;
    let bias = b.expand(bias, &[ROWS, WIDTH])?;
    let y = b.add(y, bias)?;
    let y = b.unary(f, y)?;
    let mask = b.unary(UnaryOp::Cos, mask)?;
    let y = b.mul(y, mask)?;
    b.add(x, y)
}

/// Layers of these functions; the results of those in `read` are outputs too.
fn network(functions: &[UnaryOp], read: &[usize]) -> Graph {
    let mut b = Builder::new();
    let mut x = b.parameter(ty(F32, &[ROWS, WIDTH]), Dynamic);
    let mask = b.parameter(ty(F32, &[ROWS, WIDTH]), Dynamic);
    let mut outputs = Vec::new();
    for (i, &f) in functions.iter().enumerate() {
        x = layer(&mut b, x, mask, f).expect("valid");
        if read.contains(&i) {
            outputs.push(x);
        }
    }
    outputs.insert(0, x);
    b.finish(outputs)
}

/// Loops of the graph: layers' products in each.
fn loops(graph: &Graph) -> Vec<usize> {
    let body = |op: &Op| if let Op::While { body, .. } = op { Some(count(body, "dot_general")) } else { None };
    graph.nodes().iter().filter_map(|n| body(&n.op)).collect()
}

/// The rolled graph, found equal to the unrolled one, whole and split.
#[track_caller]
fn rolled(g: &Graph, roll: Roll) -> Graph {
    let (plain, _) = run(g.clone(), &options(Roll::Off)).expect("passes succeed");
    let (got, _) = run(g.clone(), &options(roll)).expect("passes succeed");
    clutch_graph::verify(&got).expect("a valid graph");
    let inputs = random_inputs(g, 5);
    let expected = interpret(&plain, &inputs).expect("runs");
    assert_close(&expected, &interpret(&got, &inputs).expect("runs"), TOL, &got);
    let split = split_weights(&got, &options(roll)).expect("the split succeeds");
    let made: Vec<Literal> = split.weights.as_ref().map_or_else(Vec::new, |w| {
        let taken: Vec<Literal> = w.inputs.iter().map(|&i| inputs[i].clone()).collect();
        interpret(&w.graph, &taken).expect("the weight program runs")
    });
    let arguments: Vec<Literal> = split
        .parameters
        .iter()
        .map(|p| match *p {
            ParameterSource::Original(i) => inputs[i].clone(),
            ParameterSource::Weight(j) => made[j].clone(),
        })
        .collect();
    assert_close(&expected, &interpret(&split.main, &arguments).expect("runs"), TOL, &split.main);
    assert_eq!(count(&split.main, "concat"), 0, "weights are stacked per call:\n{}", split.main);
    got
}

#[test]
fn equal_layers_become_one_loop() {
    let got = rolled(&network(&[UnaryOp::Tanh; 6], &[]), Roll::On);
    assert_eq!(loops(&got), [1]);
    assert_eq!(count(&got, "dot_general"), 0, "{got}");
}

#[test]
fn alternating_layers_are_one_group() {
    let functions: Vec<UnaryOp> = (0..8).map(|i| if i % 2 == 0 { UnaryOp::Tanh } else { UnaryOp::Sin }).collect();
    let got = rolled(&network(&functions, &[]), Roll::On);
    assert_eq!(loops(&got), [2]);
    assert_eq!(count(&got, "dot_general"), 0, "{got}");
}

#[test]
fn odd_layers_stay_out() {
    let mut functions = [UnaryOp::Tanh; 9];
    functions[4] = UnaryOp::Sin;
    let got = rolled(&network(&functions, &[]), Roll::On);
    assert_eq!(loops(&got), [1, 1]);
    assert_eq!(count(&got, "dot_general"), 1, "{got}");
}

#[test]
fn results_of_layers_are_gathered() {
    let got = rolled(&network(&[UnaryOp::Tanh; 6], &[0, 3, 5]), Roll::On);
    assert_eq!(loops(&got), [1]);
}

#[test]
fn two_layers_stay() {
    assert!(loops(&rolled(&network(&[UnaryOp::Tanh; 2], &[]), Roll::On)).is_empty());
}

#[test]
fn training_and_off_keep_the_layers() {
    let g = network(&[UnaryOp::Tanh; 6], &[]);
    for options in [options(Roll::Off), PassOptions { inference: false, ..options(Roll::On) }] {
        assert!(loops(&run(g.clone(), &options).expect("passes succeed").0).is_empty());
    }
}

#[test]
fn auto_keeps_the_layers_on_host_memory_and_where_a_layer_is_small() {
    let g = network(&[UnaryOp::Tanh; 6], &[]);
    let cpu = PassOptions { target: Target::Cpu, device: Device::Cpu, ..options(Roll::Auto) };
    for options in [cpu, options(Roll::Auto)] {
        assert!(loops(&run(g.clone(), &options).expect("passes succeed").0).is_empty());
    }
}
