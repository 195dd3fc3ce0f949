//! Cases shared by the emission tests: graphs with inputs, run on the CPU plugin against the interpreter and compiled for a TPU.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod control;
pub mod convert;
pub mod data;
pub mod elementwise;
pub mod index;
pub mod linear;
pub mod plugins;
pub mod reduce;
pub mod sort;

use clutch_graph::literal::{push_i64, read_f64};
use clutch_graph::op::Op;
use clutch_graph::{Builder, DType, Graph, InputKind, Literal, NumericClass, TensorType, ValueId};

/// A graph, its inputs, and how far results may be off.
pub struct Case {
    pub name: String,
    pub graph: Graph,
    pub inputs: Vec<Literal>,
    /// Factor on the tolerance of each output's numeric class, by output.
    pub slack: Vec<f64>,
}

impl Case {
    /// A case of one node applied to parameters that hold `inputs`; all its results are outputs.
    pub fn of_op(name: impl Into<String>, op: Op, inputs: Vec<Literal>) -> Case {
        let name = name.into();
        Case::build(name.clone(), inputs, |b, args| {
            b.op_multi(op, args.iter().copied()).unwrap_or_else(|e| panic!("{name}: {e}")).into_iter().collect()
        })
    }

    /// A case of a graph built over parameters that hold `inputs`.
    pub fn build(name: impl Into<String>, inputs: Vec<Literal>, f: impl FnOnce(&mut Builder, &[ValueId]) -> Vec<ValueId>) -> Case {
        let mut b = Builder::new();
        let args: Vec<ValueId> = inputs.iter().map(|l| b.parameter(l.ty().clone(), InputKind::Dynamic)).collect();
        let outputs = f(&mut b, &args);
        let slack = vec![1.0; outputs.len()];
        Case { name: name.into(), graph: b.finish(outputs), inputs, slack }
    }

    pub fn slack(mut self, slack: f64) -> Case {
        self.slack.fill(slack);
        self
    }

    /// The same case for one of its outputs.
    pub fn only(&self, output: usize) -> Case {
        let mut graph = self.graph.clone();
        graph.outputs = vec![graph.outputs[output]];
        let op = &graph.node(graph.outputs[0].node).op;
        Case {
            name: format!("{} output {output} ({op:?})", self.name),
            inputs: self.inputs.clone(),
            slack: vec![self.slack[output]],
            graph,
        }
    }
}

/// One case that does what several do, so that one compilation serves them all.
pub fn merge(cases: &[Case]) -> Case {
    let mut merged = Graph::new();
    let mut outputs = Vec::new();
    for case in cases {
        let mut map = Vec::with_capacity(case.graph.nodes().len());
        for node in case.graph.nodes() {
            let operands = node.operands.iter().map(|v| ValueId { node: map[v.node.index()], output: v.output });
            map.push(match &node.op {
                Op::Parameter(_, ty) => merged.parameter(ty.clone(), InputKind::Dynamic).node,
                op => merged.add(op.clone(), operands).expect("the node was valid in its own graph"),
            });
        }
        outputs.extend(case.graph.outputs.iter().map(|v| ValueId { node: map[v.node.index()], output: v.output }));
    }
    merged.outputs = outputs;
    Case {
        name: cases.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", "),
        graph: merged,
        inputs: cases.iter().flat_map(|c| c.inputs.iter().cloned()).collect(),
        slack: cases.iter().flat_map(|c| c.slack.iter().copied()).collect(),
    }
}

/// How many cases are tried together.
const TOGETHER: usize = 24;

/// Runs `problem` on merged cases; where it finds one, on each case and then on each output alone, so that all faults show.
pub fn check(cases: &[Case], problem: impl Fn(&Case) -> Option<String>) {
    let alone = |case: &Case| problem(case).map(|p| format!("{}: {p}", case.name));
    let mut failures = Vec::new();
    for group in cases.chunks(TOGETHER) {
        let Some(together) = alone(&merge(group)) else { continue };
        let before = failures.len();
        for (case, fault) in group.iter().filter_map(|case| Some((case, alone(case)?))) {
            let count = case.graph.outputs.len();
            let single: Vec<String> = (0..count).filter(|_| count > 1).filter_map(|i| alone(&case.only(i))).collect();
            failures.extend(if single.is_empty() { vec![fault] } else { single });
        }
        if failures.len() == before {
            failures.push(format!("only together: {together}"));
        }
    }
    assert!(failures.is_empty(), "{} faults in {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// All cases of all families.
pub fn all() -> Vec<Case> {
    [
        elementwise::cases(),
        convert::cases(),
        data::cases(),
        linear::cases(),
        reduce::cases(),
        index::cases(),
        sort::cases(),
        control::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A literal of the given values converted to the type.
pub fn lit(dtype: DType, dims: &[i64], values: &[f64]) -> Literal {
    Literal::from_f64(TensorType::new(dtype, dims.iter().copied()), values).expect("the value count is the sizes'")
}

/// A literal of integers that wrap.
pub fn int_lit(dtype: DType, dims: &[i64], values: &[i64]) -> Literal {
    let mut bytes = Vec::new();
    for &v in values {
        push_i64(&mut bytes, dtype, v);
    }
    Literal::new(TensorType::new(dtype, dims.iter().copied()), bytes).expect("the value count is the sizes'")
}

/// Small exact numbers in an irregular order; complex types get imaginary parts too.
pub fn ramp(dtype: DType, dims: &[i64]) -> Literal {
    let n: i64 = dims.iter().product();
    let parts = if dtype.is_complex() { 2 * n } else { n };
    let signed = !dtype.is_unsigned_int() && dtype != DType::Pred;
    let values: Vec<f64> = (0..parts)
        .map(|i| {
            let v = (i * 7 + i / 3) % 11;
            let v = if signed { v - 5 } else { v };
            if dtype.is_float() || dtype.is_complex() { v as f64 * 0.5 } else { v as f64 }
        })
        .collect();
    if dtype.is_complex() {
        let flat = lit(dtype.real_part(), &[parts], &values);
        Literal::new(TensorType::new(dtype, dims.iter().copied()), flat.bytes()).expect("two parts an element")
    } else if dtype == DType::Pred {
        lit(dtype, dims, &values.iter().map(|v| f64::from(u8::from(*v > 5.0))).collect::<Vec<_>>())
    } else {
        lit(dtype, dims, &values)
    }
}

/// Distinct numbers 1, 2, 3... in the order of the elements.
pub fn count(dtype: DType, dims: &[i64]) -> Literal {
    let n: i64 = dims.iter().product();
    lit(dtype, dims, &(1..=n).map(|i| i as f64).collect::<Vec<_>>())
}

fn epsilon(dtype: DType) -> f64 {
    match dtype.real_part() {
        DType::F64 => f64::EPSILON,
        DType::F32 => f64::from(f32::EPSILON),
        DType::F16 => 1.0 / 1024.0,
        DType::BF16 => 1.0 / 128.0,
        DType::F8E4M3FN => 1.0 / 8.0,
        DType::F8E5M2 => 1.0 / 4.0,
        _ => 0.0,
    }
}

/// How far an output's elements may be off: relative to the element, and relative to the largest finite element.
fn tolerances(case: &Case, output: usize) -> (f64, f64) {
    let value = case.graph.outputs[output];
    let dtype = case.graph.ty(value).dtype;
    let op = &case.graph.node(value.node).op;
    let (element, tensor) = match op.numeric_class() {
        // A complex operation takes several roundings, and its parts may cancel.
        _ if dtype.is_complex() && matches!(op, Op::Unary(_) | Op::Binary(_)) => (64.0, 1.0),
        NumericClass::Exact => (0.0, 0.0),
        NumericClass::Rounding => (1.0, 0.0),
        NumericClass::Transcendental => (8.0, 0.0),
        NumericClass::Reassociating => (16.0, 4.0),
    };
    let unit = case.slack[output] * epsilon(dtype);
    (element * unit, tensor * unit)
}

/// Describes the first difference between the plugin's and the interpreter's results; `None` when they agree.
pub fn difference(case: &Case, got: &[Vec<u8>], wanted: &[Literal]) -> Option<String> {
    if got.len() != wanted.len() {
        return Some(format!("{} results instead of {}", got.len(), wanted.len()));
    }
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let dtype = wanted.ty().dtype.real_part();
        if got.len() != wanted.bytes().len() {
            return Some(format!("output {i}: {} bytes instead of {}", got.len(), wanted.bytes().len()));
        }
        let value = |bytes: &[u8]| read_f64(dtype, bytes).expect("parts are real");
        let largest = wanted.bytes().chunks_exact(dtype.size()).map(|w| value(w).abs()).filter(|w| w.is_finite()).fold(0.0, f64::max);
        let (element, tensor) = tolerances(case, i);
        let pairs = got.chunks_exact(dtype.size()).zip(wanted.bytes().chunks_exact(dtype.size()));
        for (at, (g, w)) in pairs.enumerate() {
            if g == w {
                continue;
            }
            let (g, w) = (value(g), value(w));
            let allowed = element * w.abs().max(1e-3) + tensor * largest;
            let close = dtype.is_float() && ((g.is_nan() && w.is_nan()) || (element > 0.0 && (g == w || (g - w).abs() <= allowed)));
            if !close {
                let op = &case.graph.node(case.graph.outputs[i].node).op;
                return Some(format!("output {i} ({op:?}), element {at}: {g} instead of {w}"));
            }
        }
    }
    None
}
