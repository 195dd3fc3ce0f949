//! Shared by the tests: inputs, comparison, and running one graph before and after passes.
#![allow(dead_code)]

use clutch_graph::builder::Builder;
use clutch_graph::graph::InputKind;
use clutch_graph::{DType, Graph, GraphError, Literal, TensorType, ValueId, interpret};
use clutch_passes::{PASSES, PassOptions, Target, run};

/// Deterministic numbers in -1..1.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn literal(&mut self, ty: &TensorType) -> Literal {
        let values: Vec<f64> = (0..ty.numel())
            .map(|_| {
                let x = self.next();
                match ty.dtype {
                    DType::Pred => f64::from(x > 0.0),
                    d if d.is_unsigned_int() => ((x + 1.0) * 8.0).floor(),
                    d if d.is_int() => (x * 8.0).floor(),
                    _ => x * 2.0,
                }
            })
            .collect();
        Literal::from_f64(ty.clone(), &values).expect("one value an element")
    }
}

pub fn ty(dtype: DType, dims: &[i64]) -> TensorType {
    TensorType::new(dtype, dims.iter().copied())
}

pub fn build(inputs: &[TensorType], body: impl FnOnce(&mut Builder, &[ValueId]) -> Result<Vec<ValueId>, GraphError>) -> Graph {
    let mut b = Builder::new();
    let x: Vec<ValueId> = inputs.iter().map(|t| b.parameter(t.clone(), InputKind::Dynamic)).collect();
    let outputs = body(&mut b, &x).expect("the test's graph is valid");
    b.finish(outputs)
}

pub fn random_inputs(graph: &Graph, seed: u64) -> Vec<Literal> {
    let mut numbers = Numbers::new(seed);
    graph.parameter_types().map(|t| numbers.literal(t)).collect()
}

/// Largest difference relative to 1 + the expected magnitude; infinite where exactly one of the two is NaN or infinite.
pub fn difference(expected: &Literal, got: &Literal) -> f64 {
    assert_eq!(expected.ty(), got.ty());
    let (Some(e), Some(g)) = (expected.to_f64(), got.to_f64()) else {
        return if expected.bytes() == got.bytes() { 0.0 } else { f64::INFINITY };
    };
    e.iter()
        .zip(&g)
        .map(|(&e, &g)| match () {
            () if e.is_nan() && g.is_nan() || e == g => 0.0,
            () if !e.is_finite() || !g.is_finite() => f64::INFINITY,
            () => (e - g).abs() / (1.0 + e.abs()),
        })
        .fold(0.0, f64::max)
}

#[track_caller]
pub fn assert_close(expected: &[Literal], got: &[Literal], tolerance: f64, after: &Graph) {
    assert_eq!(expected.len(), got.len());
    for (i, (e, g)) in expected.iter().zip(got).enumerate() {
        let d = difference(e, g);
        assert!(d <= tolerance, "output {i} differs by {d}:\n{:?}\n{:?}\n{after}", e.to_f64(), g.to_f64());
    }
}

/// Runs the pass list and requires equal results on the inputs; returns the graph after.
#[track_caller]
pub fn check_on(graph: &Graph, options: &PassOptions, inputs: &[Literal], tolerance: f64) -> Graph {
    let expected = interpret(graph, inputs).expect("the test's graph runs");
    let (after, _) = run(graph.clone(), options).expect("passes succeed");
    clutch_graph::verify(&after).expect("passes leave a valid graph");
    assert!(graph.parameter_types().eq(after.parameter_types()), "parameters changed");
    let got = interpret(&after, inputs).expect("the rewritten graph runs");
    assert_close(&expected, &got, tolerance, &after);
    let again = run(graph.clone(), options).expect("passes succeed").0;
    assert_eq!(after, again, "passes are not deterministic");
    after
}

/// As [`check_on`], on random inputs, for both targets; returns the graph for the CPU.
#[track_caller]
pub fn check(graph: &Graph, tolerance: f64) -> Graph {
    let inputs = random_inputs(graph, 7);
    check_on(graph, &PassOptions { target: Target::Tpu, ..PassOptions::default() }, &inputs, tolerance);
    check_on(graph, &PassOptions::default(), &inputs, tolerance)
}

/// Runs one pass and drops what it left dead.
pub fn run_pass(name: &str, graph: &Graph, options: &PassOptions) -> Graph {
    let pass = PASSES.iter().find(|p| p.name == name).expect("the pass is in the list");
    let after = pass.run(graph, options).expect("the pass succeeds");
    clutch_passes::drop_dead(&after).expect("a valid graph")
}

/// How many nodes of the graph are of the named op.
pub fn count(graph: &Graph, name: &str) -> usize {
    graph.nodes().iter().filter(|n| n.op.name() == name).count()
}

pub const TOL: f64 = 2e-6;
