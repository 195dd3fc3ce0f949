//! The cost tables of TPUs against the TPU compiler's estimates of single operations (`benches/data/tpu-estimates.tsv`: libtpu 0.0.52, ahead
//! of time, one operation a program). Rows that the compiler gives no full estimate for are left out.

use clutch_graph::op::{Combiner, ConvDims, Convolution, DotDims, PadDim, Precision, WindowDim};
use clutch_graph::{DType, Op, TensorType};
use clutch_passes::{Device, Placed, op_cost};
use smallvec::{SmallVec, smallvec};

const ESTIMATES: &str = include_str!("../benches/data/tpu-estimates.tsv");

/// An operation with its operand types.
fn operation(name: &str, dims: &str, dtype: DType) -> Option<(Op, Vec<TensorType>)> {
    let (dims, rest) = dims.split_once(' ').unwrap_or((dims, ""));
    let d: Vec<i64> = dims.split(',').filter_map(|v| v.parse().ok()).collect();
    let ty = |dims: &[i64]| TensorType::new(dtype, dims.iter().copied());
    let binary = |b| (Op::Binary(b), vec![ty(&d), ty(&d)]);
    let product = |batch: usize| {
        let axes: SmallVec<[usize; 6]> = (0..batch).collect();
        let dims = DotDims { lhs_batch: axes.clone(), rhs_batch: axes, lhs_contract: smallvec![batch + 1], rhs_contract: smallvec![batch] };
        Op::DotGeneral { dims, out: dtype, precision: Precision::Default }
    };
    let last = d.len().wrapping_sub(1);
    Some(match name {
        "add2" => binary(clutch_graph::op::BinaryOp::Add),
        "mul_const" => binary(clutch_graph::op::BinaryOp::Mul),
        "exp" => (Op::Unary(clutch_graph::op::UnaryOp::Exp), vec![ty(&d)]),
        "dot" => (product(0), vec![ty(&[d[0], d[1]]), ty(&[d[1], d[2]])]),
        "bmm" => (product(1), vec![ty(&[d[0], d[1], d[2]]), ty(&[d[0], d[2], d[3]])]),
        "reduce_first" => (Op::Reduce { combiner: Combiner::Add, axes: smallvec![0] }, vec![ty(&d)]),
        "reduce_last" => (Op::Reduce { combiner: Combiner::Add, axes: smallvec![last] }, vec![ty(&d)]),
        "softmax" => (Op::Softmax { axis: last, log: false }, vec![ty(&d)]),
        "argmax_last" => (Op::ArgReduce { axis: last, max: true }, vec![ty(&d)]),
        "concat2_last" => (Op::Concat(last), vec![ty(&d), ty(&d)]),
        "transpose" => {
            let perm = rest.strip_prefix("perm ")?.bytes().map(|b| usize::from(b - b'0')).collect();
            (Op::Transpose(perm), vec![ty(&d)])
        }
        "pad_last" => {
            let mut pads: SmallVec<[PadDim; 6]> = smallvec![PadDim::default(); d.len()];
            pads[last].high = (d[last] + 127) / 128 * 128 - d[last];
            (Op::Pad(pads), vec![ty(&d), TensorType::scalar(dtype)])
        }
        "conv_nhwc" => {
            let size: i64 = dims.rsplit_once(",k")?.1.parse().ok()?;
            let window = WindowDim { size, pad_low: size / 2, pad_high: size / 2, ..WindowDim::TRIVIAL };
            let dims = ConvDims {
                input_batch: 0,
                input_feature: 3,
                input_spatial: smallvec![1, 2],
                kernel_input_feature: 2,
                kernel_output_feature: 3,
                kernel_spatial: smallvec![0, 1],
                output_batch: 0,
                output_feature: 3,
                output_spatial: smallvec![1, 2],
            };
            let c = Convolution { window: smallvec![window; 2], dims, feature_groups: 1, batch_groups: 1, precision: Precision::Default };
            (Op::Convolution(Box::new(c)), vec![ty(&d[..4]), ty(&[size, size, d[3], d[4]])])
        }
        _ => return None,
    })
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let tied = order[from..].iter().take_while(|&&i| values[i] == values[order[from]]).count();
        order[from..from + tied].iter().for_each(|&i| ranks[i] = from as f64 + (tied as f64 - 1.0) / 2.0);
        from += tied;
    }
    ranks
}

/// Spearman's rank correlation.
fn rank_correlation(x: &[f64], y: &[f64]) -> f64 {
    let (x, y) = (ranks(x), ranks(y));
    let mean = (x.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    product(&x, &y) / (product(&x, &x) * product(&y, &y)).sqrt()
}

#[test]
fn tables_rank_operations_as_the_compiler_does() {
    for (generation, device) in [("v5e", Device::V5e), ("v6e", Device::V6e), ("tpu7x", Device::Tpu7x)] {
        let (mut ours, mut theirs, mut logs) = (Vec::new(), Vec::new(), Vec::new());
        for line in ESTIMATES.lines().skip(1) {
            let columns: Vec<&str> = line.split('\t').collect();
            let [of, name, dims, dtype, cycles, no_estimate] = columns[..] else { panic!("a row of six columns: {line}") };
            if of != generation || no_estimate != "-" {
                continue;
            }
            let dtype = if dtype == "bf16" { DType::BF16 } else { DType::F32 };
            let Some((op, operands)) = operation(name, dims, dtype) else { continue };
            let types: Vec<&TensorType> = operands.iter().collect();
            let results = clutch_graph::infer::infer(&op, &types).expect("the row is an operation");
            let cost = op_cost(&op, &types, &results, device.table(), Placed::Alone);
            let cycles: f64 = cycles.parse().expect("a number");
            logs.push((cost / cycles, format!("{name} {dims} {dtype}")));
            ours.push(cost);
            theirs.push(cycles);
        }
        logs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let correlation = rank_correlation(&ours, &theirs);
        let within = logs.iter().filter(|(r, _)| (0.5..=2.0).contains(r)).count();
        println!("{generation}: {} rows, rank correlation {correlation:.3}, {within} within a factor of two", ours.len());
        println!("  lowest {:?}\n  highest {:?}", &logs[..6], &logs[logs.len() - 6..]);
        assert!(ours.len() > 100 && correlation >= 0.9);
    }
}
