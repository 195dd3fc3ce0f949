//! Emitted programs on the CPU plugin against the interpreter, one case table a family.

mod emit_support;

use clutch::emit::EmitOptions;
use clutch_graph::interpret;
use emit_support::{Case, control, convert, data, difference, elementwise, index, linear, plugins, reduce, sort};

/// Compares the plugin's results with the interpreter's.
fn check(cases: Vec<Case>, options: &EmitOptions) {
    emit_support::check(&cases, |case| match interpret(&case.graph, &case.inputs) {
        Ok(wanted) => match plugins::run_on_cpu(&case.graph, &case.inputs, options) {
            Ok(got) => difference(case, &got, &wanted),
            Err(error) => Some(error),
        },
        Err(error) => Some(format!("interpreter: {error}")),
    });
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

/// Without the flag the sign of a zero maximum is open, so zeros are left out.
#[test]
fn maxima_keep_nan_without_the_compilers_flag() {
    let options = EmitOptions { max_drops_nan: true, ..cpu() };
    check(elementwise::extrema(), &options);
    check(reduce::cases(), &options);
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
