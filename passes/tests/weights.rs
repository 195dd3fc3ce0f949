//! The weight program: main graph on weight outputs equals the whole graph, and only what pays is moved.

mod common;

use clutch_graph::DType::{self, BF16, F32, S64};
use clutch_graph::builder::Builder;
use clutch_graph::graph::InputKind::{Dynamic, Static};
use clutch_graph::op::{BinaryOp, CompareDir, Precision, UnaryOp};
use clutch_graph::{Alias, Graph, Literal, Op, interpret};
use clutch_passes::{ParameterSource, PassOptions, WeightSplit, split_weights};
use common::{TOL, assert_close, count, random_inputs, ty};

fn inference() -> PassOptions {
    PassOptions { inference: true, ..PassOptions::default() }
}

/// Runs the weight program and the main graph as a runtime would.
fn run_split(split: &WeightSplit, inputs: &[Literal]) -> Vec<Literal> {
    let made = match &split.weights {
        Some(w) => {
            let taken: Vec<Literal> = w.inputs.iter().map(|&i| inputs[i].clone()).collect();
            interpret(&w.graph, &taken).expect("the weight program runs")
        }
        None => Vec::new(),
    };
    let main: Vec<Literal> = split
        .parameters
        .iter()
        .map(|p| match *p {
            ParameterSource::Original(i) => inputs[i].clone(),
            ParameterSource::Weight(j) => made[j].clone(),
        })
        .collect();
    interpret(&split.main, &main).expect("the main graph runs")
}

#[track_caller]
fn check_split(g: &Graph) -> WeightSplit {
    let split = split_weights(g, &inference()).expect("the split succeeds");
    clutch_graph::verify(&split.main).expect("a valid main graph");
    assert_eq!(split.main.parameters().len(), split.parameters.len());
    let inputs = random_inputs(g, 9);
    assert_close(&interpret(g, &inputs).expect("runs"), &run_split(&split, &inputs), TOL, &split.main);
    split
}

/// x @ w' + b with rows of x, and w of [N, K].
fn linear(dtype: DType, rows: i64) -> Graph {
    let mut b = Builder::new();
    let x = b.parameter(ty(dtype, &[rows, 6]), Dynamic);
    let w = b.parameter(ty(dtype, &[4, 6]), Static);
    let bias = b.parameter(ty(dtype, &[4]), Static);
    let w = b.swap_last(w).expect("valid");
    let y = b.matmul(x, w, Precision::Highest).expect("valid");
    let bias = b.expand(bias, &[rows, 4]).expect("valid");
    let y = b.add(y, bias).expect("valid");
    let g = b.finish([y]);
    clutch_passes::run(g, &inference()).expect("passes succeed").0
}

#[test]
fn weights_of_few_rows_are_laid_out_once() {
    let split = check_split(&linear(F32, 8));
    assert_eq!(split.parameters, [ParameterSource::Original(0), ParameterSource::Original(2), ParameterSource::Weight(0)]);
    let weights = split.weights.expect("a weight program");
    assert_eq!(weights.inputs, [1]);
    assert_eq!(count(&weights.graph, "transpose"), 1);
    assert_eq!(count(&split.main, "transpose"), 0);
}

#[test]
fn weights_of_one_or_many_rows_or_of_bf16_stay() {
    for (dtype, rows) in [(F32, 1), (F32, 128), (BF16, 8)] {
        let split = check_split(&linear(dtype, rows));
        assert_eq!(split.weights, None);
        assert_eq!(split.parameters, [0, 1, 2].map(ParameterSource::Original));
    }
}

#[test]
fn broadcasts_and_widening_stay_in_the_main_graph() {
    let mut b = Builder::new();
    let x = b.parameter(ty(F32, &[5, 4]), Dynamic);
    let w = b.parameter(ty(BF16, &[4]), Static);
    let unused = b.parameter(ty(F32, &[3]), Static);
    let _ = unused;
    let negated = b.unary(UnaryOp::Neg, w).expect("valid");
    let wide = b.convert(negated, F32).expect("valid");
    let spread = b.expand(wide, &[5, 4]).expect("valid");
    let y = b.mul(x, spread).expect("valid");
    let plain = b.convert(w, F32).expect("valid");
    let plain = b.expand(plain, &[5, 4]).expect("valid");
    let z = b.add(y, plain).expect("valid");
    let split = check_split(&b.finish([z]));
    assert_eq!(split.parameters, [ParameterSource::Original(0), ParameterSource::Original(1), ParameterSource::Weight(0)]);
    let weights = split.weights.expect("a weight program");
    assert_eq!(weights.graph.output_types().cloned().collect::<Vec<_>>(), [ty(BF16, &[4])]);
    assert_eq!(count(&split.main, "convert"), 2);
}

#[test]
fn what_no_input_reaches_is_made_where_it_is_used() {
    let mut b = Builder::new();
    let x = b.parameter(ty(F32, &[6]), Dynamic);
    let w = b.parameter(ty(F32, &[6]), Static);
    let counter = b.iota(F32, &[6], 0).expect("valid");
    let both = b.mul(w, counter).expect("valid");
    let y = b.add(x, both).expect("valid");
    let z = b.mul(y, counter).expect("valid");
    let split = check_split(&b.finish([z, both]));
    assert_eq!(count(&split.main, "iota"), 1);
    assert_eq!(count(&split.weights.expect("a weight program").graph, "iota"), 1);
}

#[test]
fn results_of_multi_result_ops_and_donations_are_renumbered() {
    let mut b = Builder::new();
    let w = b.parameter(ty(F32, &[4]), Static);
    let state = b.parameter(ty(F32, &[4]), Static);
    let x = b.parameter(ty(F32, &[4]), Dynamic);
    let index = b.iota(S64, &[4], 0).expect("valid");
    let sorted = b.op_multi(Op::Sort { axis: 0, descending: false, stable: true }, [w, index]).expect("valid");
    let order = b.convert(sorted[1], F32).expect("valid");
    let y = b.add(x, order).expect("valid");
    let next = b.binary_scalar(BinaryOp::Mul, state, 2.0).expect("valid");
    let seen = b.compare(CompareDir::Lt, y, next).expect("valid");
    let mut g = b.finish([next, seen]);
    g.aliases.push(Alias { output: 0, parameter: 1 });
    let split = check_split(&g);
    assert_eq!(split.parameters, [ParameterSource::Original(1), ParameterSource::Original(2), ParameterSource::Weight(0)]);
    assert_eq!(split.main.aliases, [Alias { output: 0, parameter: 0 }]);
    assert_eq!(count(&split.main, "sort"), 0);
}

#[test]
fn training_graphs_are_not_split() {
    let g = linear(F32, 8);
    let split = split_weights(&g, &PassOptions::default()).expect("the split succeeds");
    assert_eq!(split.main, g);
    assert_eq!(split.weights, None);
}
