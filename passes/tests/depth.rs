//! Deep graphs: no pass is recursive in depth, and none is quadratic in size.

use clutch_graph::DType::{BF16, F16, F32};
use clutch_graph::builder::{Builder, Built};
use clutch_graph::graph::InputKind::{Dynamic, Static};
use clutch_graph::op::{Precision, UnaryOp};
use clutch_graph::{Graph, TensorType, ValueId, verify};
use clutch_passes::{Device, PASSES, PassOptions, Target, drop_dead, run, split_weights};

/// Nodes of a chain, about.
const NODES: usize = 100_000;

const SIDE: i64 = 2;

/// Stack of the thread that a chain is compiled on, in bytes.
const STACK: usize = 2 << 20;

fn matrix() -> TensorType {
    TensorType::new(F32, [SIDE, SIDE])
}

/// A chain over the last value (first a call's input), a weight and a second input. A step gets its number and these, and gives the next value.
fn chain(step: impl Fn(&mut Builder, usize, [ValueId; 3]) -> Built) -> Graph {
    let mut b = Builder::new();
    let (x, w, y) = (b.parameter(matrix(), Dynamic), b.parameter(matrix(), Static), b.parameter(matrix(), Dynamic));
    let (mut value, mut number) = (x, 0);
    while b.graph_mut().nodes().len() < NODES {
        value = step(&mut b, number, [value, w, y]).expect("valid");
        number += 1;
    }
    b.finish([value])
}

/// All that a graph goes through before it is emitted, for both kinds of devices, on a small stack.
fn compiles(make: impl Fn() -> Graph + Send + 'static) {
    let work = move || {
        let graph = make();
        verify(&graph).expect("a valid graph");
        for (target, device) in [(Target::Cpu, Device::Cpu), (Target::Tpu, Device::V5e)] {
            let options = PassOptions { inference: true, target, device, ..PassOptions::default() };
            for pass in PASSES.iter().filter(|pass| (pass.applies)(&graph, &options)) {
                verify(&pass.run(&graph, &options).expect("the pass succeeds")).expect("a valid graph");
            }
            let (done, _) = run(graph.clone(), &options).expect("passes succeed");
            verify(&done).expect("a valid graph");
            let split = split_weights(&done, &options).expect("the split succeeds");
            verify(&split.main).expect("a valid main graph");
        }
        let alive = drop_dead(&graph).expect("valid");
        assert_eq!(clutch_graph::parse(&alive.to_string()).expect("its own text parses"), alive);
    };
    std::thread::Builder::new().stack_size(STACK).spawn(work).expect("a thread").join().expect("the chain compiles");
}

#[test]
fn elementwise() {
    compiles(|| {
        chain(|b, i, [x, _, y]| match i % 3 {
            0 => b.unary(UnaryOp::Tanh, x),
            1 => b.mul(x, y),
            _ => b.add(x, y),
        })
    });
}

#[test]
fn sums_that_are_read_twice() {
    compiles(|| {
        chain(|b, _, [x, _, _]| {
            let f = b.unary(UnaryOp::Sin, x)?;
            b.add(x, f)
        })
    });
}

#[test]
fn products_with_a_weight() {
    compiles(|| {
        chain(|b, _, [x, w, _]| {
            let z = b.matmul(x, w, Precision::Highest)?;
            b.unary(UnaryOp::Tanh, z)
        })
    });
}

#[test]
fn products_of_products() {
    compiles(|| chain(|b, _, [x, w, _]| b.matmul(x, w, Precision::Highest)));
}

#[test]
fn movements_that_cancel() {
    compiles(|| {
        chain(|b, i, [x, _, _]| if i % 2 == 0 { b.swap_last(x) } else { b.op(clutch_graph::Op::Reverse(smallvec::smallvec![0]), [x]) })
    });
}

#[test]
fn weights_alone() {
    compiles(|| {
        chain(|b, i, [x, w, _]| {
            let from = if i == 0 { w } else { x };
            b.unary(UnaryOp::Tanh, from)
        })
    });
}

#[test]
fn constants_alone() {
    compiles(|| {
        chain(|b, i, [x, _, _]| {
            let from = if i == 0 { b.full(F32, &[SIDE, SIDE], 1.5)? } else { x };
            b.unary(UnaryOp::Sin, from)
        })
    });
}

/// What regions copy in, read at every depth.
#[test]
fn casts_of_casts() {
    compiles(|| {
        let mut b = Builder::new();
        let (mut x, w) = (b.parameter(matrix(), Dynamic), b.parameter(matrix(), Static));
        let mut half = w;
        for i in 0..NODES / 3 {
            half = b.convert(half, if i % 2 == 0 { BF16 } else { F16 }).expect("valid");
            let wide = b.convert(half, F32).expect("valid");
            x = b.add(x, wide).expect("valid");
        }
        b.finish([x])
    });
}
