//! Properties of emitted programs: equal bytes, shared computations, text, aliases, errors.

mod emit_support;

use std::time::Instant;

use clutch::emit::{CPU_OVERRIDES, EmitError, EmitOptions, emit, hlo_text};
use clutch_graph::op::{BinaryOp, Combiner, DotDims, Op, Precision, Real, UnaryOp, WindowDim};
use clutch_graph::{Alias, Builder, DType, Graph, InputKind, TensorType, interpret};
use clutch_pjrt::{Buffer, CompileOptions, CopySemantics, ExecuteScratch, ProgramFormat};
use emit_support::{all, count, plugins, ramp};
use pretty_assertions::assert_eq;
use smallvec::smallvec;

fn options() -> EmitOptions {
    EmitOptions::for_platform("cpu")
}

#[test]
fn equal_graphs_give_equal_bytes() {
    for (a, b) in all().iter().zip(&all()) {
        let [a, b] = [a, b].map(|case| emit(&case.graph, &options()).unwrap_or_else(|e| panic!("{}: {e}", case.name)));
        assert_eq!(a, b);
        assert_eq!(a.text(), hlo_text(&b.bytes).expect("emitted bytes decode"));
    }
}

/// Two layers, the sum of the result, and a node that no output needs.
fn two_layers() -> Graph {
    let mut b = Builder::new();
    let x = b.parameter(TensorType::new(DType::F32, [2, 3]), InputKind::Dynamic);
    let w = b.parameter(TensorType::new(DType::F32, [3, 3]), InputKind::Static);
    let mut y = x;
    for _ in 0..2 {
        let z = b.matmul(y, w, Precision::Highest).expect("fits");
        y = b.binary_scalar(BinaryOp::Max, z, 0.0).expect("fits");
    }
    let rows = b.reduce(Combiner::Add, y, &[1]).expect("fits");
    let total = b.reduce(Combiner::Add, rows, &[0]).expect("fits");
    b.unary(UnaryOp::Neg, x).expect("fits");
    let mut graph = b.finish([y, total]);
    graph.aliases.push(Alias { output: 0, parameter: 0 });
    graph
}

#[test]
fn the_text_shows_the_program() {
    let program = emit(&two_layers(), &options()).expect("emits");
    let wanted = "\
HloModule clutch, input_output_alias={ {0}: (0, {}, may-alias) }, entry_computation_layout={(f32[2,3]{1,0}, f32[3,3]{1,0})->(f32[2,3]{1,0}, f32[])}

add.f32 {
  parameter.1 = f32[] parameter(0)
  parameter.2 = f32[] parameter(1)
  ROOT add.3 = f32[] add(parameter.1, parameter.2)
}

ENTRY main {
  parameter.4 = f32[2,3]{1,0} parameter(0)
  parameter.5 = f32[3,3]{1,0} parameter(1)
  dot.6 = f32[2,3]{1,0} dot(parameter.4, parameter.5), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  constant.7 = f32[] constant(0)
  broadcast.8 = f32[2,3]{1,0} broadcast(constant.7), dimensions={}
  maximum.9 = f32[2,3]{1,0} maximum(dot.6, broadcast.8)
  dot.10 = f32[2,3]{1,0} dot(maximum.9, parameter.5), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  broadcast.11 = f32[2,3]{1,0} broadcast(constant.7), dimensions={}
  maximum.12 = f32[2,3]{1,0} maximum(dot.10, broadcast.11)
  reduce.13 = f32[2]{0} reduce(maximum.12, constant.7), dimensions={1}, to_apply=add.f32
  reduce.14 = f32[] reduce(reduce.13, constant.7), dimensions={0}, to_apply=add.f32
  ROOT tuple.15 = (f32[2,3]{1,0}, f32[]) tuple(maximum.12, reduce.14)
}
";
    assert_eq!(wanted, program.text());
    assert_eq!(15, program.instruction_count);
}

#[test]
fn every_case_has_text() {
    for case in all() {
        let program = emit(&case.graph, &options()).expect("emits");
        let text = program.text();
        assert!(!text.contains('?'), "{}:\n{text}", case.name);
        let lines = text.lines().filter(|l| l.contains(" = ")).count();
        assert_eq!(program.instruction_count, lines, "{}:\n{text}", case.name);
    }
}

#[test]
fn foreign_bytes_are_refused() {
    assert!(hlo_text(&[0x0a, 0xff]).is_err());
}

#[test]
fn aliased_inputs_are_donated() {
    let graph = two_layers();
    let program = emit(&graph, &options()).expect("emits");
    let client = plugins::cpu();
    let flags = CPU_OVERRIDES.iter().fold(CompileOptions::default(), |o, (name, value)| o.with_override(*name, *value));
    let executable = client.compile(&program.bytes, ProgramFormat::Hlo, &flags).expect("compiles");
    let inputs = [ramp(DType::F32, &[2, 3]), ramp(DType::F32, &[3, 3])];
    let buffers = inputs.each_ref().map(|l| {
        let ty = plugins::element_type(l.ty().dtype);
        Buffer::from_host(client.default_device(), l.bytes(), &l.ty().dims, ty, CopySemantics::DuringCall).expect("fits")
    });
    let mut outputs = Vec::new();
    executable.execute(&buffers, &[], &mut ExecuteScratch::default(), &mut outputs).expect("runs");
    let wanted = interpret(&graph, &inputs).expect("interprets");
    assert_eq!(wanted[0].bytes(), outputs[0].to_vec().expect("reads"));
    assert_eq!([true, false], buffers.each_ref().map(|b| b.is_deleted().expect("known")));
}

#[test]
fn impossible_aliases_are_faults() {
    let reject = |alias: Alias, also: Option<Alias>| {
        let mut graph = two_layers();
        graph.aliases = [Some(alias), also].into_iter().flatten().collect();
        matches!(emit(&graph, &options()), Err(EmitError::Alias { .. }))
    };
    assert!(reject(Alias { output: 2, parameter: 0 }, None));
    assert!(reject(Alias { output: 0, parameter: 2 }, None));
    assert!(reject(Alias { output: 0, parameter: 1 }, None));
    assert!(reject(Alias { output: 0, parameter: 0 }, Some(Alias { output: 0, parameter: 0 })));
}

#[test]
fn composites_are_faults_that_name_the_node() {
    let mut b = Builder::new();
    let x = b.parameter(TensorType::new(DType::F32, [4]), InputKind::Dynamic);
    let norm = b.parameter(TensorType::new(DType::F32, [4]), InputKind::Dynamic);
    let y = b.op(Op::RmsNorm { eps: Real(1e-6) }, [x, norm]).expect("fits");
    let error = emit(&b.finish([y]), &options()).expect_err("composites have no emission");
    assert_eq!("compiler fault: node %2: composite `rms_norm` was not expanded before emission", error.to_string());
}

#[test]
fn ops_without_a_form_are_faults() {
    let mut b = Builder::new();
    let x = b.parameter(TensorType::new(DType::F32, [4]), InputKind::Dynamic);
    let source = b.parameter(TensorType::new(DType::F32, [2]), InputKind::Dynamic);
    let window = smallvec![WindowDim { size: 2, pad_low: -1, ..WindowDim::TRIVIAL }];
    let y = b.op(Op::SelectAndScatter { window }, [x, source]).expect("fits");
    assert!(matches!(emit(&b.finish([y]), &options()), Err(EmitError::Unsupported { node: 2, dtype: DType::F32, .. })));
}

#[test]
fn a_program_without_outputs_runs() {
    let mut b = Builder::new();
    b.parameter(TensorType::new(DType::F32, [4]), InputKind::Dynamic);
    let graph = b.finish([]);
    let got = plugins::run_on_cpu(&graph, &[count(DType::F32, &[4])], &options()).expect("runs");
    assert!(got.is_empty());
}

/// A chain of 100,000 nodes.
#[test]
fn deep_graphs_are_emitted_without_recursion() {
    let mut b = Builder::new();
    let x = b.parameter(TensorType::new(DType::F32, [4]), InputKind::Dynamic);
    let mut y = x;
    for _ in 0..100_000 {
        y = b.add(y, x).expect("fits");
    }
    let program = emit(&b.finish([y]), &options()).expect("emits");
    assert_eq!(100_002, program.instruction_count);
}

/// Prints the time of a large program; the bound is far above the expected few milliseconds.
#[test]
fn emission_is_fast() {
    let mut b = Builder::new();
    let x = b.parameter(TensorType::new(DType::BF16, [8, 128, 768]), InputKind::Dynamic);
    let w = b.parameter(TensorType::new(DType::BF16, [768, 768]), InputKind::Static);
    let dims = DotDims { lhs_contract: smallvec![2], rhs_contract: smallvec![0], ..DotDims::default() };
    let mut y = x;
    while b.graph().nodes().len() < 5_000 {
        let z = b.dot_general(y, w, dims.clone(), DType::BF16, Precision::Default).expect("fits");
        let s = b.reduce_keep(Combiner::Max, z, &[2]).expect("fits");
        let s = b.expand(s, &[8, 128, 768]).expect("fits");
        let d = b.sub(z, s).expect("fits");
        y = b.add(d, x).expect("fits");
    }
    let graph = b.finish([y]);
    let start = Instant::now();
    let program = emit(&graph, &options()).expect("emits");
    let time = start.elapsed();
    println!("{} instructions, {} bytes in {time:?}", program.instruction_count, program.bytes.len());
    assert!(time.as_millis() < 500, "{time:?}");
}
