use super::*;
use crate::dtype::DType;
use crate::graph::{Alias, InputKind};
use crate::op::UnaryOp;
use crate::text::parse;

fn two_negations() -> Graph {
    parse("graph { %0 = parameter(0) : f32[2] %1 = neg(%0) : f32[2] %2 = neg(%1) : f32[2] return %2 alias 0 <- parameter 0 }")
        .expect("a graph")
}

fn reason(graph: &Graph) -> String {
    verify(graph).expect_err("a broken graph").to_string()
}

#[test]
fn a_sound_graph_passes() {
    assert_eq!(verify(&two_negations()), Ok(()));
}

#[test]
fn input_kinds_are_one_per_parameter() {
    let mut g = two_negations();
    g.input_kinds.push(InputKind::Static);
    assert_eq!(reason(&g), "graph: 1 parameters, but 2 input kinds");
}

#[test]
fn outputs_exist() {
    let mut g = two_negations();
    g.outputs.push(ValueId { node: NodeId(2), output: 1 });
    assert_eq!(reason(&g), "graph: output %2.1 is not in the graph");
}

#[test]
fn aliases_are_in_range() {
    let mut g = two_negations();
    g.aliases = vec![Alias { output: 0, parameter: 7 }];
    assert_eq!(reason(&g), "graph: alias 0 <- parameter 7 is out of range");
}

#[test]
fn nested_graphs_are_checked() {
    let mut inner = two_negations();
    inner.aliases.push(Alias { output: 0, parameter: 0 });
    let mut g = Graph::new();
    let x = g.parameter(TensorType::new(DType::F32, [2]), InputKind::Dynamic);
    let y = g.add1(Op::Call(Arc::new(inner)), [x]).expect("the types fit");
    g.outputs.push(y);
    assert_eq!(reason(&g), "node %1: in a nested graph: graph: alias 0 <- parameter 0: aliased twice");
}

#[test]
fn negative_parameter_sizes_are_refused() {
    let mut g = Graph::new();
    g.parameter(TensorType::new(DType::F32, [-2]), InputKind::Dynamic);
    assert!(reason(&g).contains("negative size"));
}

#[test]
fn nesting_is_bounded_and_shared_graphs_are_checked_once() {
    let ty = TensorType::scalar(DType::F32);
    let nested = |levels: usize| {
        let mut inner = Graph::new();
        let x = inner.parameter(ty.clone(), InputKind::Dynamic);
        inner.outputs = vec![inner.add1(Op::Unary(UnaryOp::Neg), [x]).expect("a float")];
        for _ in 0..levels {
            let callee = Arc::new(inner);
            inner = Graph::new();
            let x = inner.parameter(ty.clone(), InputKind::Dynamic);
            let once = inner.add1(Op::Call(callee.clone()), [x]).expect("the types fit");
            inner.outputs = vec![inner.add1(Op::Call(callee), [once]).expect("the types fit")];
        }
        inner
    };
    assert_eq!(verify(&nested(MAX_NESTING)), Ok(()));
    assert!(reason(&nested(MAX_NESTING + 1)).contains("nest deeper"));
}
