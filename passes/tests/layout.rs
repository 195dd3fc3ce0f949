//! Convolution layouts: every form equals the plain convolution, and transposes cancel through a residual network.

mod common;
#[path = "common/networks.rs"]
mod networks;

use clutch_graph::DType::{self, BF16, F32};
use clutch_graph::op::{Combiner, ConvDims, Convolution, Precision, UnaryOp, WindowDim};
use clutch_graph::{Graph, Op};
use clutch_passes::{PassOptions, Target, run, split_weights};
use common::{build, check_on, count, random_inputs, ty};
use networks::{Conv, PLAIN, conv, max_pool, nchw, relu, residual_network};

fn check_cpu(g: &Graph, tolerance: f64) -> Graph {
    check_on(g, &PassOptions::default(), &random_inputs(g, 11), tolerance)
}

fn single(dtype: DType, input: &[i64], outputs: i64, c: Conv) -> Graph {
    let mut kernel = vec![outputs, input[1] / c.groups];
    kernel.extend(vec![c.size; input.len() - 2]);
    build(&[ty(dtype, input), ty(dtype, &kernel)], |b, x| Ok(vec![conv(b, x[0], x[1], c)?]))
}

#[test]
fn every_form_equals_the_plain_convolution() {
    let cases: &[(&[i64], i64, Conv, &str)] = &[
        (&[1, 3, 20, 20], 8, Conv { size: 7, stride: 2, pad: 3, ..PLAIN }, "convolution"),
        (&[2, 8, 9, 9], 5, Conv { size: 1, pad: 0, ..PLAIN }, "dot_general"),
        (&[2, 8, 9, 9], 5, Conv { size: 1, pad: 0, stride: 2, ..PLAIN }, "dot_general"),
        (&[1, 16, 7, 7], 5, PLAIN, "dot_general"),
        (&[1, 16, 14, 14], 5, Conv { stride: 2, ..PLAIN }, "dot_general"),
        (&[1, 16, 12, 9], 4, Conv { dilation: 2, pad: 2, ..PLAIN }, "dot_general"),
        (&[2, 16, 14, 14], 5, PLAIN, "convolution"),
        (&[2, 6, 8, 8], 6, Conv { groups: 6, ..PLAIN }, "mul"),
        (&[2, 6, 8, 8], 6, Conv { groups: 6, stride: 2, dilation: 2, ..PLAIN }, "mul"),
        (&[2, 6, 8, 8], 12, Conv { groups: 6, ..PLAIN }, "convolution"),
        (&[1, 8, 16, 16], 4, Conv { groups: 2, ..PLAIN }, "convolution"),
        (&[1, 8, 5, 5], 4, Conv { size: 1, pad: 0, groups: 2, ..PLAIN }, "dot_general"),
        (&[2, 8, 30], 4, PLAIN, "convolution"),
        (&[1, 4, 5, 6, 4], 3, PLAIN, "convolution"),
        (&[0, 4, 5, 6], 3, PLAIN, "broadcast"),
    ];
    for (i, &(input, outputs, c, form)) in cases.iter().enumerate() {
        let after = check_cpu(&single(F32, input, outputs, c), 1e-5);
        assert!(count(&after, form) > 0, "case {i} is not a {form}:\n{after}");
        check_cpu(&single(BF16, input, outputs, c), 0.03);
    }
}

#[test]
fn tpu_graphs_keep_their_convolutions() {
    let g = single(F32, &[1, 16, 7, 7], 5, PLAIN);
    let options = PassOptions { target: Target::Tpu, ..PassOptions::default() };
    let after = run(g.clone(), &options).expect("passes succeed").0;
    assert_eq!(after, g);
}

#[test]
fn gradients_equal_the_plain_ones() {
    let g = build(&[ty(F32, &[2, 4, 6, 6]), ty(F32, &[5, 4, 3, 3]), ty(F32, &[2, 5, 6, 6])], |b, x| {
        let activation = b.unary(UnaryOp::Tanh, x[0])?;
        let forward = conv(b, activation, x[1], PLAIN)?;
        let grad = b.mul(forward, x[2])?;
        let flipped = WindowDim { size: 3, pad_low: 1, pad_high: 1, reversal: true, ..WindowDim::TRIVIAL };
        let data = Convolution {
            window: smallvec::smallvec![flipped; 2],
            dims: ConvDims { kernel_input_feature: 0, kernel_output_feature: 1, ..nchw(2) },
            feature_groups: 1,
            batch_groups: 1,
            precision: Precision::Highest,
        };
        let data = b.op(Op::Convolution(Box::new(data)), [grad, x[1]])?;
        let weight = Convolution {
            window: smallvec::smallvec![WindowDim { size: 6, pad_low: 1, pad_high: 1, ..WindowDim::TRIVIAL }; 2],
            dims: ConvDims {
                input_batch: 1,
                input_feature: 0,
                kernel_input_feature: 0,
                kernel_output_feature: 1,
                output_batch: 1,
                output_feature: 0,
                ..nchw(2)
            },
            feature_groups: 1,
            batch_groups: 1,
            precision: Precision::Highest,
        };
        let weight = b.op(Op::Convolution(Box::new(weight)), [activation, grad])?;
        Ok(vec![data, weight])
    });
    check_cpu(&g, 1e-5);
}

#[test]
fn transposes_cancel_through_a_residual_network() {
    let g = residual_network(32, 4, &[1, 2]).expect("the network builds");
    let options = PassOptions { inference: true, ..PassOptions::default() };
    let inputs = random_inputs(&g, 2);
    let after = check_on(&g, &options, &inputs, 1e-4);
    assert_eq!(count(&after, "reduce_window"), 0);
    let split = split_weights(&after, &options).expect("the split succeeds");
    let activations: Vec<_> = split.main.nodes().iter().filter(|n| matches!(n.op, Op::Transpose(_))).collect();
    assert!(activations.len() <= 1, "transposes are left:\n{}", split.main);
    assert!(split.main.nodes().iter().all(|n| !matches!(&n.op, Op::Unary(UnaryOp::Rsqrt))), "normalisation factors are made per call");
}

#[test]
fn a_full_residual_network_keeps_one_transpose_and_few_convolutions() {
    let g = residual_network(224, 64, &[3, 4, 6, 3]).expect("the network builds");
    let options = PassOptions { inference: true, ..PassOptions::default() };
    let after = run(g, &options).expect("passes succeed").0;
    let split = split_weights(&after, &options).expect("the split succeeds");
    assert_eq!(count(&split.main, "transpose"), 1, "more than the input's transpose is left");
    assert_eq!((count(&split.main, "convolution"), count(&split.main, "dot_general")), (10, 44));
    assert_eq!(count(&split.main, "rsqrt"), 0, "normalisation factors are made per call");
}

#[test]
fn a_channels_first_consumer_gets_channels_first() {
    let g = build(&[ty(F32, &[2, 3, 8, 8]), ty(F32, &[4, 3, 3, 3])], |b, x| {
        let y = conv(b, x[0], x[1], PLAIN)?;
        let y = relu(b, y)?;
        let flat = b.reshape(y, &[2, 256])?;
        let pooled = max_pool(b, y)?;
        let joined = b.concat(&[y, y], 1)?;
        let cut = b.slice_axis(joined, 1, 1, 7, 2)?;
        Ok(vec![flat, pooled, cut, b.reduce(Combiner::Max, cut, &[1])?])
    });
    check_cpu(&g, 1e-5);
}

#[test]
fn pooling_gradients_go_to_the_first_maximum() {
    for (size, stride, pad) in [(3, 2, 1), (2, 2, 0), (3, 1, 1), (2, 3, 0)] {
        let w = WindowDim { size, stride, pad_low: pad, pad_high: pad, ..WindowDim::TRIVIAL };
        let window: smallvec::SmallVec<[WindowDim; 6]> = [WindowDim::TRIVIAL, WindowDim::TRIVIAL, w, w].into_iter().collect();
        let out = (8 + 2 * pad - size) / stride + 1;
        let g = build(&[ty(F32, &[2, 3, 8, 8]), ty(F32, &[4, 3, 1, 1]), ty(F32, &[2, 4, out, out])], |b, x| {
            let y = conv(b, x[0], x[1], Conv { size: 1, pad: 0, ..PLAIN })?;
            let floor = b.full_like(y, f64::NEG_INFINITY)?;
            let low = b.compare_scalar(clutch_graph::op::CompareDir::Lt, y, 0.0)?;
            let y = b.select(low, floor, y)?;
            let pooled = b.op(Op::ReduceWindow { combiner: Combiner::Max, window: window.clone() }, [y])?;
            let grad = b.op(Op::SelectAndScatter { window: window.clone() }, [y, x[2]])?;
            Ok(vec![pooled, grad])
        });
        let after = check_cpu(&g, 1e-5);
        assert_eq!(count(&after, "select_and_scatter"), 0);
    }
}
