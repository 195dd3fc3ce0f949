//! Every rule of the e-graph alone, on random sizes and types, against the interpreter.

mod common;
mod rule_graphs;

use std::collections::BTreeSet;

use clutch_graph::{DType, Graph, Literal, TensorType, interpret};
use clutch_passes::{PassOptions, Rounding, RuleInfo, apply_rule, rules};
use common::Numbers;
use rule_graphs::{CASES, Case};

const ROUNDS: u64 = 24;

/// Inputs with what breaks careless rules: signed zeros, infinities, NaN, subnormal and huge numbers, the ends of integers.
fn special(ty: &TensorType, numbers: &mut Numbers) -> Literal {
    let floats = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, 3e38, -3e38, 0.5, 2.0];
    let ints = [0.0, 1.0, -1.0, 127.0, -128.0, 255.0, 2147483647.0, -2147483648.0];
    let values: Vec<f64> = (0..ty.numel())
        .map(|_| {
            let pick = |list: &[f64], x: f64| list[((x + 1.0) / 2.0 * list.len() as f64) as usize % list.len()];
            let x = numbers.next();
            match ty.dtype {
                DType::Pred => f64::from(x > 0.0),
                d if d.is_float() && numbers.next() > 0.0 => x * 4.0,
                d if d.is_float() => pick(&floats, x),
                d if d.is_unsigned_int() => pick(&ints, x).abs(),
                _ => pick(&ints, x),
            }
        })
        .collect();
    Literal::from_f64(ty.clone(), &values).expect("one value an element")
}

fn inputs(graph: &Graph, numbers: &mut Numbers, with_special: bool) -> Vec<Literal> {
    graph.parameter_types().map(|t| if with_special { special(t, numbers) } else { numbers.literal(t) }).collect()
}

/// Equal bits, but for the payload of NaN.
fn same_bits(a: &Literal, b: &Literal) -> bool {
    if a.ty() != b.ty() {
        return false;
    }
    match (a.to_f64(), b.to_f64()) {
        (Some(x), Some(y)) if a.ty().dtype.is_float() => {
            x.iter().zip(&y).all(|(x, y)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan())
        }
        _ => a.bytes() == b.bytes(),
    }
}

/// A few units in the last place of the largest element.
fn near(a: &Literal, b: &Literal) -> bool {
    let (Some(x), Some(y)) = (a.to_f64(), b.to_f64()) else { return a.bytes() == b.bytes() };
    let unit = match a.ty().dtype {
        DType::F64 => 2f64.powi(-52),
        DType::F32 => 2f64.powi(-23),
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => return a.bytes() == b.bytes(),
    };
    let scale = x.iter().filter(|v| v.is_finite()).fold(1.0f64, |m, v| m.max(v.abs()));
    x.iter().zip(&y).all(|(x, y)| x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= 32.0 * unit * scale)
}

/// Applies a rule to random graphs of a case; what went wrong, if anything did.
fn check(info: &RuleInfo, case: &Case) -> Result<(), String> {
    let mut fired = 0;
    for round in 0..ROUNDS {
        let mut numbers = Numbers::new(1 + round * 31);
        let graph = (case.graph)(&mut numbers).map_err(|e| e.to_string())?;
        let options = PassOptions { inference: true, ..PassOptions::default() };
        let Some(after) = apply_rule(&graph, &options, info.name).map_err(|e| e.to_string())? else { continue };
        clutch_graph::verify(&after).map_err(|e| e.to_string())?;
        if !graph.output_types().eq(after.output_types()) || graph == after {
            return Err(format!("types changed or nothing did\n{graph}\n{after}"));
        }
        fired += 1;
        let with_special: &[bool] = if info.rounding == Rounding::Exact { &[false, true] } else { &[false] };
        for &with_special in with_special {
            let x = inputs(&graph, &mut numbers, with_special);
            let before = interpret(&graph, &x).map_err(|e| e.to_string())?;
            let got = interpret(&after, &x).map_err(|e| e.to_string())?;
            for (b, g) in before.iter().zip(&got) {
                let equal = if info.rounding == Rounding::Exact { same_bits(b, g) } else { near(b, g) };
                if !equal {
                    return Err(format!("round {round}\n{graph}\n{after}\n{:?}\n{:?}", b.to_f64(), g.to_f64()));
                }
            }
        }
    }
    if fired * 2 >= ROUNDS { Ok(()) } else { Err(format!("applied {fired} times of {ROUNDS}")) }
}

#[test]
fn every_rule_keeps_results() {
    let mut failures = String::new();
    for info in rules() {
        let cases: Vec<&&Case> = CASES.iter().filter(|c| c.rule == info.name).collect();
        if cases.is_empty() {
            failures.push_str(&format!("{} has no case\n", info.name));
        }
        for case in cases {
            if let Err(failure) = check(&info, case) {
                failures.push_str(&format!("{}: {failure}\n", info.name));
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn rules_have_unique_names_and_say_when_they_hold() {
    let mut names = BTreeSet::new();
    for info in rules() {
        assert!(names.insert(info.name), "two rules are called {}", info.name);
        assert!(!info.condition.is_empty() && !info.family.is_empty());
    }
    for case in CASES.iter() {
        assert!(names.contains(case.rule), "a case is for {}, which is no rule", case.rule);
    }
}
