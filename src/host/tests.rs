use std::time::Instant;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::interpret::interpret;
use super::jit::Code;
use super::plan::{Place, Plan};
use super::{Contradiction, Sizes};
use crate::capture::expr::{ExprId, ExprTable};

/// A plan that reads one axis per expression of `sizes`.
fn plan(sizes: &[&str]) -> (ExprTable, Plan, bool) {
    let mut exprs = ExprTable::default();
    let ids: Vec<ExprId> = sizes.iter().map(|text| exprs.parse(text).expect("a valid expression")).collect();
    let mut plan = Plan { tensors: vec![(0, sizes.len())], ..Plan::default() };
    let equations = ids.into_iter().enumerate().map(|(axis, id)| (id, Place::Axis { tensor: 0, axis })).collect();
    let solved = plan.order(&exprs, equations);
    (exprs, plan, solved)
}

/// What both ways of running a plan give.
fn both(exprs: &ExprTable, plan: &Plan, dims: &[i64]) -> Result<Vec<i64>, Contradiction> {
    let sizes = Sizes { tensors: &[dims], integers: &[] };
    let (mut a, mut b) = (vec![0; exprs.symbols().len()], vec![0; exprs.symbols().len()]);
    let interpreted = interpret(plan, exprs, sizes, &mut a).map(|()| a);
    let compiled = Code::of(plan, exprs).expect("a plan that can be compiled").run(plan, sizes, &mut b).map(|()| b);
    assert_eq!(interpreted, compiled, "{plan:?} of {dims:?}");
    interpreted
}

#[test]
fn symbols_come_out_and_other_sizes_are_checked() {
    let (exprs, plan, solved) = plan(&["s0", "s0 + s1", "2*s1 + 1", "(s0 + 3)//4", "Mod(s0, 3)", "Max(s0, s1)", "Min(s0, 7)", "s1**2"]);
    assert!(solved);
    assert_eq!(both(&exprs, &plan, &[10, 16, 13, 3, 1, 10, 7, 36]), Ok(vec![10, 6]));
    assert_eq!(both(&exprs, &plan, &[10, 16, 13, 4, 1, 10, 7, 36]), Err(Contradiction(3)));
    assert_eq!(both(&exprs, &plan, &[10, 16, 12, 3, 1, 10, 7, 36]), Err(Contradiction(2)));
    assert_eq!(both(&exprs, &plan, &[10, 16, 13, 3, 2, 10, 7, 36]), Err(Contradiction(4)));
}

#[test]
fn products_are_solved_after_their_factors() {
    let (exprs, plan, solved) = plan(&["s0*s1", "4*s0 + 1"]);
    assert!(solved);
    assert_eq!(both(&exprs, &plan, &[21, 13]), Ok(vec![3, 7]));
    assert_eq!(both(&exprs, &plan, &[20, 13]), Err(Contradiction(1)), "7 * 3 is not 20");
    assert_eq!(both(&exprs, &plan, &[0, 1]), Err(Contradiction(1)), "a factor of zero gives no symbol");
    assert_eq!(both(&exprs, &plan, &[21, 14]), Err(Contradiction(0)));
}

#[test]
fn sizes_that_leave_a_symbol_open_make_no_plan() {
    assert!(!plan(&["s0*s1"]).2);
    assert!(!plan(&["s0//2"]).2);
    assert!(plan(&["s0//2", "s0"]).2);
}

#[test]
fn too_few_sizes_are_a_contradiction() {
    let (exprs, plan, _) = plan(&["s0", "s0"]);
    assert_eq!(both(&exprs, &plan, &[3]).err().map(|_| ()), Some(()));
}

#[test]
fn numbers_at_the_ends_of_their_range_do_not_trap() {
    let (exprs, plan, _) = plan(&["-1*s0", "s0 + 1", "s0*s0"]);
    for first in [i64::MIN, i64::MIN + 1, i64::MAX, 0, -1] {
        for second in [i64::MIN, i64::MAX, 0, 1, 2] {
            let _ = both_outcomes(&exprs, &plan, &[first, second, 1]);
        }
    }
}

/// As [`both`] where only the outcome matters: an overflow may be noticed at another step.
fn both_outcomes(exprs: &ExprTable, plan: &Plan, dims: &[i64]) -> bool {
    let sizes = Sizes { tensors: &[dims], integers: &[] };
    let (mut a, mut b) = (vec![0; exprs.symbols().len()], vec![0; exprs.symbols().len()]);
    let interpreted = interpret(plan, exprs, sizes, &mut a).is_ok();
    let compiled = Code::of(plan, exprs).expect("a plan that can be compiled").run(plan, sizes, &mut b).is_ok();
    assert_eq!(interpreted, compiled, "{plan:?} of {dims:?}");
    compiled
}

#[test]
#[ignore = "prints times; run it in release on a quiet machine"]
fn time_of_compiling_and_calling() {
    let texts: Vec<String> = (0..10).flat_map(|i| [format!("s{}", i % 3), format!("2*s{} + {i}", i % 3)]).collect();
    let (exprs, plan, _) = plan(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let mut times: Vec<f64> = (0..50)
        .map(|_| {
            let start = Instant::now();
            let code = Code::of(&plan, &exprs).expect("compiles");
            let time = start.elapsed().as_secs_f64() * 1e6;
            drop(code);
            time
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let code = Code::of(&plan, &exprs).expect("compiles");
    let dims: Vec<i64> = (0..10).flat_map(|i| [7 + i % 3, 2 * (7 + i % 3) + i]).collect();
    let mut symbols = [0; 3];
    let start = Instant::now();
    for _ in 0..100_000 {
        let sizes = Sizes { tensors: &[std::hint::black_box(&dims)], integers: &[] };
        code.run(&plan, sizes, &mut symbols).expect("sizes that fit");
    }
    let call = start.elapsed().as_secs_f64() * 1e9 / 100_000.0;
    let start = Instant::now();
    for _ in 0..100_000 {
        let sizes = Sizes { tensors: &[std::hint::black_box(&dims)], integers: &[] };
        interpret(&plan, &exprs, sizes, &mut symbols).expect("sizes that fit");
    }
    let interpreted = start.elapsed().as_secs_f64() * 1e9 / 100_000.0;
    println!(
        "{} steps: compiled in {:.0} us (median of 50), called in {call:.0} ns, interpreted in {interpreted:.0} ns",
        plan.steps.len(),
        times[25]
    );
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![(0..3usize).prop_map(|s| format!("s{s}")), (0..9i64).prop_map(|c| c.to_string())];
    leaf.prop_recursive(3, 12, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            pair.clone().prop_map(|(a, b)| format!("({a} + {b})")),
            pair.clone().prop_map(|(a, b)| format!("({a})*({b})")),
            pair.clone().prop_map(|(a, b)| format!("Min({a}, {b})")),
            pair.prop_map(|(a, b)| format!("Max({a}, {b})")),
            (inner.clone(), 1..6i64).prop_map(|(a, c)| format!("({a})//{c}")),
            (inner, 1..6i64).prop_map(|(a, c)| format!("Mod({a}, {c})")),
        ]
    })
}

proptest! {
    #[test]
    fn compiled_and_interpreted_plans_agree(
        texts in prop::collection::vec(expression(), 1..6),
        symbols in prop::collection::vec(0..40i64, 3),
        change in prop::option::of((0..8usize, -2..3i64)),
    ) {
        let texts: Vec<&str> = ["s0", "s1 + s0", "3*s2 + 1"].into_iter().chain(texts.iter().map(String::as_str)).collect();
        let (exprs, plan, solved) = plan(&texts);
        prop_assert!(solved);
        let values: Vec<i64> = exprs.symbols().iter().map(|name| symbols[name[1..].parse::<usize>().expect("s0 to s2")]).collect();
        let mut reader = exprs.clone();
        let mut dims: Vec<i64> = texts.iter().map(|text| {
            let id = reader.parse(text).expect("parsed before");
            reader.eval(crate::capture::expr::Size::Expr(id), &values).expect("small numbers")
        }).collect();
        prop_assert_eq!(both(&exprs, &plan, &dims), Ok(values));
        if let Some((axis, by)) = change && let Some(size) = dims.get_mut(axis) {
            *size += by;
            let _ = both(&exprs, &plan, &dims);
        }
    }
}
