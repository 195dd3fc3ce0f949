//! Known answers. Cases with expectations from another implementation are under `tests/cases`.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use smallvec::smallvec;

use super::*;
use crate::builder::{Builder, Built};
use crate::dtype::DType;
use crate::graph::InputKind;
use crate::op::{BinaryOp, DotDims, Precision, UnaryOp, WindowDim};
use crate::text::{parse, parse_literal};

fn lit(text: &str) -> Literal {
    parse_literal(text).expect("a literal")
}

/// The only result of an op on literals.
fn apply(op: Op, args: &[&str]) -> Literal {
    let mut b = Builder::new();
    let inputs: Vec<Literal> = args.iter().map(|a| lit(a)).collect();
    let values: Vec<_> = inputs.iter().map(|x| b.parameter(x.ty().clone(), InputKind::Dynamic)).collect();
    let result: Built = b.op(op, values);
    let graph = b.finish([result.expect("the op takes the operands")]);
    interpret(&graph, &inputs).expect("interprets").remove(0)
}

#[test]
fn threefry_gives_the_published_answers() {
    assert_eq!(threefry2x32([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
    assert_eq!(threefry2x32([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
    assert_eq!(threefry2x32([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3]), [0xc492_3a9c, 0x483d_f7a0]);
}

#[test]
fn random_bits_follow_key_stream_and_position() {
    let bits = apply(Op::RandomBits { dims: smallvec![5], stream: 3 }, &["4294967298 : u64[]"]).to_i64().expect("integers");
    let block = |i: u32| threefry2x32([2, 1], [i, 3 << 8]).map(i64::from);
    assert_eq!(bits, [block(0), block(1), block(2)].concat()[..5]);
}

#[test]
fn narrow_floats_round_once_through_f32() {
    assert_eq!(apply(Op::Binary(BinaryOp::Add), &["2048.0 : f16[]", "1.0 : f16[]"]), lit("2048.0 : f16[]"));
    assert_eq!(apply(Op::Binary(BinaryOp::Add), &["2048.0 : f16[]", "3.0 : f16[]"]), lit("2052.0 : f16[]"));
    assert_eq!(apply(Op::Binary(BinaryOp::Mul), &["60000.0 : f16[]", "2.0 : f16[]"]), lit("inf : f16[]"));
    assert_eq!(apply(Op::Binary(BinaryOp::Add), &["256.0 : bf16[]", "1.0 : bf16[]"]), lit("256.0 : bf16[]"));
}

#[test]
fn f32_arithmetic_equals_native_f32() {
    let values = [1.1f32, -3.7e-39, 2.5e38, 1.0e-45, 7.0, 0.333_333_34];
    let bytes = |v: f32| Literal::new(TensorType::scalar(DType::F32), v.to_le_bytes().to_vec()).expect("four bytes");
    for x in values {
        for y in values {
            for (op, want) in [(BinaryOp::Add, x + y), (BinaryOp::Mul, x * y), (BinaryOp::Div, x / y), (BinaryOp::Rem, x % y)] {
                let got = apply(Op::Binary(op), &[&bytes(x).to_string(), &bytes(y).to_string()]);
                assert_eq!(got, bytes(want), "{x} {} {y}", op.name());
            }
        }
        assert_eq!(apply(Op::Unary(UnaryOp::Sqrt), &[&bytes(x.abs()).to_string()]), bytes(x.abs().sqrt()));
    }
}

#[test]
fn signed_zeros_and_nans_follow_the_contract() {
    assert_eq!(apply(Op::Unary(UnaryOp::Sign), &["[-0.0, nan, -3.0] : f64[3]"]), lit("[-0.0, nan, -1.0] : f64[3]"));
    assert_eq!(apply(Op::Binary(BinaryOp::Max), &["[-0.0, nan] : f32[2]", "[0.0, 1.0] : f32[2]"]), lit("[0.0, nan] : f32[2]"));
    let first_nan = Op::ArgReduce { axis: 0, max: true };
    assert_eq!(apply(first_nan, &["[1.0, nan, inf, nan] : f32[4]"]), lit("1 : s64[]"));
}

#[test]
fn moved_elements_keep_their_bits() {
    let nan = "[0x7fc00123, 0x7f800001, 0xffc00000] : f32[3]";
    assert_eq!(apply(Op::Reverse(smallvec![0]), &[nan]), lit("[0xffc00000, 0x7f800001, 0x7fc00123] : f32[3]"));
    assert_eq!(apply(Op::Bitcast(DType::U32), &[nan]), lit("[2143289635, 2139095041, 4290772992] : u32[3]"));
}

#[test]
fn maximum_pooling_gradient_goes_to_the_first_maximum() {
    let w = WindowDim { size: 2, stride: 2, ..WindowDim::TRIVIAL };
    let got = apply(Op::SelectAndScatter { window: smallvec![w] }, &["[3.0, 3.0, 1.0, nan] : f32[4]", "[5.0, 7.0] : f32[2]"]);
    assert_eq!(got, lit("[5.0, 0.0, 0.0, 7.0] : f32[4]"));
}

#[test]
fn reduction_of_padding_only_is_the_identity() {
    let w = WindowDim { size: 1, pad_low: 1, pad_high: 1, ..WindowDim::TRIVIAL };
    let max = Op::ReduceWindow { combiner: Combiner::Max, window: smallvec![w] };
    assert_eq!(apply(max.clone(), &["[2] : s16[1]"]), lit("[-32768, 2, -32768] : s16[3]"));
    assert_eq!(apply(max, &["[2.0] : f8e4m3fn[1]"]), lit("[-448.0, 2.0, -448.0] : f8e4m3fn[3]"));
}

#[test]
fn a_matrix_product_takes_milliseconds() {
    let dims = DotDims { lhs_contract: smallvec![1], rhs_contract: smallvec![0], ..DotDims::default() };
    let dot = Op::DotGeneral { dims, out: DType::F32, precision: Precision::Highest };
    let begin = Instant::now();
    let got = apply(dot, &["0.5 : f32[64,64]", "2.0 : f32[64,64]"]);
    assert_eq!(got, lit("64.0 : f32[64,64]"));
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
}

#[test]
fn inputs_must_match_the_parameters() {
    let graph = parse("graph { %0 = parameter(0) : f32[2] return %0 }").expect("a graph");
    assert_eq!(interpret(&graph, &[]), Err(InterpError::InputCount { expected: 1, got: 0 }));
    assert!(matches!(interpret(&graph, &[lit("1.0 : f32[3]")]), Err(InterpError::InputType { number: 0, .. })));
}

#[test]
fn values_too_large_are_refused() {
    let text = "graph { %0 = constant(1) : s8[] %1 = broadcast(%0) axes=[] : s8[4294967296] return %1 }";
    let graph = parse(text).expect("a graph");
    assert!(matches!(interpret(&graph, &[]), Err(InterpError::TooLarge { node: 1, .. })));
}
