//! Emitted programs on the CPU plugin against the interpreter, one case table a family.

mod emit_support;

use clutch::emit::EmitOptions;
use clutch_graph::interpret;
use emit_support::{Case, control, convert, data, difference, elementwise, index, linear, plugins, reduce, sort};

fn mismatch(case: &Case, options: &EmitOptions) -> Option<String> {
    let wanted = match interpret(&case.graph, &case.inputs) {
        Ok(wanted) => wanted,
        Err(error) => return Some(format!("{}: interpreter: {error}", case.name)),
    };
    let problem = match plugins::run_on_cpu(&case.graph, &case.inputs, options) {
        Ok(got) => difference(case, &got, &wanted)?,
        Err(error) => error,
    };
    Some(format!("{}: {problem}", case.name))
}

/// Checks every case; of a failing one each output is tried alone, so that all faults show.
fn check(cases: Vec<Case>, options: &EmitOptions) {
    let mut failures = Vec::new();
    for case in &cases {
        let Some(problem) = mismatch(case, options) else { continue };
        let count = case.graph.outputs.len();
        let alone: Vec<String> = (0..count).filter(|_| count > 1).filter_map(|i| mismatch(&case.only(i), options)).collect();
        failures.extend(if alone.is_empty() { vec![problem] } else { alone });
    }
    assert!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

fn cpu() -> EmitOptions {
    EmitOptions::for_platform("cpu")
}

#[test]
fn elementwise_ops_agree() {
    check(elementwise::cases(), &cpu());
}

#[test]
fn conversions_agree() {
    check(convert::cases(), &cpu());
}

#[test]
fn conversions_agree_without_the_targets_promise() {
    check(convert::cases(), &EmitOptions::default());
}

#[test]
fn data_movement_agrees() {
    check(data::cases(), &cpu());
}

#[test]
fn linear_algebra_agrees() {
    check(linear::cases(), &cpu());
    check(linear::wide_integer_dots(), &cpu());
}

#[test]
fn reductions_agree() {
    check(reduce::cases(), &cpu());
}

#[test]
fn indexing_agrees() {
    check(index::cases(), &cpu());
}

#[test]
fn sorts_agree() {
    check(sort::cases(), &cpu());
}

#[test]
fn control_flow_agrees() {
    check(control::cases(), &cpu());
}
