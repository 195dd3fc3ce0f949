//! The text form reads back to an equal graph, and no text makes the reader panic.

use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, PadDim, Real, UnaryOp, WindowDim};
use clutch_graph::{Alias, DType, Graph, GraphError, InputKind, Literal, Op, TensorType, ValueId, interpret, parse, parse_literal, verify};
use proptest::prelude::*;

/// A graph grown by choices: each triple picks an op and operands among the values so far; what the shape rule refuses is left out.
fn grow(choices: &[(u8, u16, u16, i64)], bytes: &[u8]) -> Graph {
    let mut g = Graph::new();
    let mut values: Vec<ValueId> = Vec::new();
    values.push(g.parameter(TensorType::new(DType::F32, [3, 4]), InputKind::Static));
    values.push(g.parameter(TensorType::new(DType::S32, [4]), InputKind::Dynamic));
    values.push(g.parameter(TensorType::scalar(DType::Pred), InputKind::Dynamic));
    for &(kind, a, b, n) in choices {
        let x = values[a as usize % values.len()];
        let y = values[b as usize % values.len()];
        let rank = g.ty(x).rank();
        let axis = n.unsigned_abs() as usize % rank.max(1);
        let pick = n.unsigned_abs() as usize;
        let dtype = DType::ALL[pick % DType::ALL.len()];
        let (op, operands) = match kind % 20 {
            0 => (Op::Unary(UnaryOp::ALL[pick % UnaryOp::ALL.len()]), vec![x]),
            1 => (Op::Binary(BinaryOp::ALL[pick % BinaryOp::ALL.len()]), vec![x, x]),
            2 => (Op::Compare(CompareDir::ALL[pick % 6]), vec![x, x]),
            3 => (Op::Convert(dtype), vec![x]),
            4 => (Op::Transpose((0..rank).rev().collect()), vec![x]),
            5 => (Op::Concat(axis), vec![x, y]),
            6 => (Op::Reduce { combiner: Combiner::ALL[pick % 7], axes: Axes::from_slice(&[axis]) }, vec![x]),
            7 => (Op::Sort { axis, descending: n % 2 == 0, stable: n % 3 == 0 }, vec![x, y]),
            8 => (Op::TopK { k: n.rem_euclid(4), largest: n % 2 == 0 }, vec![x]),
            9 => (Op::Pad((0..rank).map(|i| PadDim { low: n % 3, high: i as i64, interior: n.rem_euclid(2) }).collect()), vec![x, y]),
            10 => (Op::RmsNorm { eps: Real(f64::from_bits(n as u64)) }, vec![x, y]),
            11 => (Op::Cumulative { combiner: Combiner::ALL[pick % 4], axis }, vec![x]),
            12 => {
                let w = WindowDim { size: 1 + n.rem_euclid(3), stride: 2, pad_low: n % 2, reversal: n % 5 == 0, ..WindowDim::TRIVIAL };
                (Op::ReduceWindow { combiner: Combiner::Max, window: (0..rank).map(|_| w).collect() }, vec![x])
            }
            13 => (Op::OptimizationBarrier, vec![x, y, y]),
            14 => (Op::Iota { ty: TensorType::new(dtype, [n.rem_euclid(5), 2]), axis: 0 }, vec![]),
            15 => (Op::Softmax { axis, log: n % 2 == 0 }, vec![x]),
            16 => {
                let mut inner = Graph::new();
                let p = inner.parameter(g.ty(x).clone(), InputKind::Dynamic);
                inner.outputs = vec![p; pick % 3];
                (Op::Call(inner.into()), vec![x])
            }
            _ => {
                let count = pick % 40;
                let data: Vec<u8> = bytes.iter().copied().cycle().skip(pick % 7).take(count * dtype.size()).collect();
                (Op::Constant(Literal::new(TensorType::new(dtype, [count as i64]), data).expect("sized by the type")), vec![])
            }
        };
        if let Ok(node) = g.add(op, operands) {
            values.extend((0..g.node(node).outputs.len() as u32).map(|output| ValueId { node, output }));
        }
    }
    g.outputs = values.iter().rev().take(3).copied().chain([values[0]]).collect();
    g.aliases = vec![Alias { output: g.outputs.len() - 1, parameter: 0 }];
    g
}

proptest! {
    #[test]
    fn random_graphs_read_back(
        choices in prop::collection::vec((any::<u8>(), any::<u16>(), any::<u16>(), any::<i64>()), 0..60),
        bytes in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let g = grow(&choices, &bytes);
        prop_assert_eq!(verify(&g), Ok(()));
        let text = g.to_string();
        let back = parse(&text);
        prop_assert_eq!(back.as_ref(), Ok(&g), "{}", text);
        prop_assert_eq!(back.map(|b| b.to_string()), Ok(text));
    }

    #[test]
    fn floats_read_back_bit_by_bit(bits in any::<u64>(), dtype in prop::sample::select(&DType::ALL[..])) {
        let bytes = bits.to_le_bytes().repeat(2)[..dtype.size()].to_vec();
        let x = Literal::new(TensorType::scalar(dtype), bytes).expect("sized by the type");
        prop_assert_eq!(parse_literal(&x.to_string()), Ok(x));
    }

    #[test]
    fn damaged_text_is_an_error_or_a_graph(
        choices in prop::collection::vec((any::<u8>(), any::<u16>(), any::<u16>(), -9i64..9), 0..12),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&[
            "%0", "%1.1", "graph {", "}", "{", "[", "]", "(", ")", ",", ":", "=", "-", "9223372036854775807", "-9223372036854775808", "0",
            "window=[{size=1}]", "while", "hex", "0x", "nan", "static", "return", "#", "é", "axis=7", "pred[]", "\n",
        ][..])), 1..6),
    ) {
        let mut text = grow(&choices, b"damage").to_string();
        for (at, insert) in edits {
            let mut at = at.index(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let end = (at..=text.len()).rev().find(|&e| e <= at + insert.len() && text.is_char_boundary(e)).unwrap_or(at);
            text.replace_range(at..end, insert);
        }
        if let Ok(g) = parse(&text) {
            let _ = verify(&g);
        }
    }

    #[test]
    fn garbage_is_an_error(text in "\\PC{0,80}") {
        let _ = parse(&text);
        let _ = parse(&format!("graph {{ %0 = {text}"));
        let _ = parse_literal(&text);
    }
}

#[test]
fn errors_name_the_line() {
    let text = "graph {\n  %0 = parameter(0) : f32[2]\n  # a remark\n  %1 = neg(%7) : f32[2]\n  return %1\n}\n";
    assert_eq!(parse(text), Err(GraphError::Parse { line: 4, reason: "no value %7 stands before".to_owned() }));
}

#[test]
fn absurd_numbers_are_refused_without_overflow() {
    let big = i64::MAX;
    for line in [
        format!("%1 = pad(%0, %s) low=[{big}] high=[{big}] interior=[{big}] : f32[2]"),
        format!("%1 = pad(%0, %s) low=[{}] high=[0] interior=[{big}] : f32[2]", i64::MIN),
        format!("%1 = reduce_window(%0) combiner=add window=[{{size={big} window_dilation={big} pad_low={big} pad_high={big}}}] : f32[2]"),
        format!("%1 = slice(%0) start=[0] limit=[2] stride=[{big}] : f32[2]"),
        format!("%1 = constant(1.0) : f32[{big}]"),
        "%1 = constant(1.0) : f32[4611686018427387904]".to_owned(),
        format!("%1 = fft(%0) kind=irfft lengths=[{}] : f32[2]", i64::MIN),
        format!("%1 = broadcast(%0) axes=[{}] : f32[2]", u64::MAX),
    ] {
        let text = format!("graph {{ %0 = parameter(0) : f32[2] %s = constant(0.0) : f32[] {line} return %1 }}");
        assert!(matches!(parse(&text), Err(GraphError::Parse { line: 1, .. })), "{line}");
    }
}

#[test]
fn nesting_is_bounded() {
    let open = "graph { %0 = call() callee=".repeat(10_000);
    assert!(matches!(parse(&open), Err(GraphError::Parse { .. })));
    let lists = format!("graph {{ %0 = call() callee={}", "[".repeat(100_000));
    assert!(matches!(parse(&lists), Err(GraphError::Parse { .. })));
}

/// Depth of the graph costs no stack.
#[test]
fn a_chain_of_a_hundred_thousand_nodes_fits_a_small_stack() {
    let run = || {
        let mut g = Graph::new();
        let mut x = g.parameter(TensorType::scalar(DType::F32), InputKind::Dynamic);
        let one = g.add1(Op::Constant(Literal::scalar_f64(DType::F32, 1.0)), []).expect("a constant");
        for _ in 0..100_000 {
            x = g.add1(Op::Binary(BinaryOp::Add), [x, one]).expect("equal types");
        }
        g.outputs.push(x);
        let back = parse(&g.to_string()).expect("reads back");
        assert_eq!(back, g);
        verify(&back).expect("sound");
        let out = interpret(&back, &[Literal::scalar_f64(DType::F32, 0.5)]).expect("interprets");
        assert_eq!(out, [Literal::scalar_f64(DType::F32, 100_000.5)]);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread").join().expect("no overflow");
}
