//! The pass list as a whole: names, reports, and the bodies of loops, branches and calls.

mod common;

use std::sync::Arc;

use clutch_graph::DType::{F32, Pred, S32};
use clutch_graph::graph::InputKind::Dynamic;
use clutch_graph::op::CompareDir;
use clutch_graph::{Alias, Graph, Op};
use clutch_passes::{PASSES, PassError, PassOptions, run};
use common::{TOL, build, check, ty};

#[test]
fn passes_are_named_once_and_described() {
    for (i, pass) in PASSES.iter().enumerate() {
        assert!(!pass.description.is_empty());
        assert!(PASSES[..i].iter().all(|other| other.name != pass.name), "{} appears twice", pass.name);
    }
}

fn softmax_body() -> Arc<Graph> {
    Arc::new(build(&[ty(F32, &[2, 3])], |b, x| Ok(vec![b.op(Op::Softmax { axis: 1, log: false }, [x[0]])?])))
}

/// No composite is left, at any depth.
fn assert_expanded(g: &Graph) {
    for node in g.nodes() {
        assert!(!matches!(node.op, Op::Softmax { .. }), "a composite is left");
        match &node.op {
            Op::Call(body) => assert_expanded(body),
            Op::Cond { on_true, on_false } => [on_true, on_false].into_iter().for_each(|body| assert_expanded(body)),
            Op::While { cond, body } => [cond, body].into_iter().for_each(|body| assert_expanded(body)),
            _ => {}
        }
    }
}

#[test]
fn bodies_are_rewritten_too() {
    let g = build(&[ty(F32, &[2, 3]), ty(Pred, &[])], |b, x| {
        let called = b.op(Op::Call(softmax_body()), [x[0]])?;
        let chosen = b.op(Op::Cond { on_true: softmax_body(), on_false: softmax_body() }, [x[1], called])?;
        let limit = |b: &mut clutch_graph::Builder, i, n| {
            let n = b.scalar_int(S32, n)?;
            b.compare(CompareDir::Lt, i, n)
        };
        let cond = build(&[ty(S32, &[]), ty(F32, &[2, 3])], |b, x| Ok(vec![limit(b, x[0], 3)?]));
        let body = build(&[ty(S32, &[]), ty(F32, &[2, 3])], |b, x| {
            let one = b.scalar_int(S32, 1)?;
            Ok(vec![b.add(x[0], one)?, b.op(Op::Call(softmax_body()), [x[1]])?])
        });
        let start = b.scalar_int(S32, 0)?;
        let looped = b.op_multi(Op::While { cond: Arc::new(cond), body: Arc::new(body) }, [start, chosen])?;
        Ok(vec![looped[1]])
    });
    assert_expanded(&check(&g, TOL));
}

#[test]
fn shared_bodies_stay_shared() {
    let body = softmax_body();
    let g = build(&[ty(F32, &[2, 3])], |b, x| {
        let y = b.op(Op::Call(body.clone()), [x[0]])?;
        Ok(vec![b.op(Op::Call(body.clone()), [y])?])
    });
    let after = run(g, &PassOptions::default()).expect("passes succeed").0;
    let bodies: Vec<_> = after.nodes().iter().filter_map(|n| if let Op::Call(body) = &n.op { Some(body) } else { None }).collect();
    assert!(bodies.len() == 2 && Arc::ptr_eq(bodies[0], bodies[1]));
}

#[test]
fn bodies_nested_too_deep_are_an_error() {
    let mut g = build(&[ty(F32, &[])], |_, x| Ok(vec![x[0]]));
    for _ in 0..40 {
        g = build(&[ty(F32, &[])], |b, x| Ok(vec![b.op(Op::Call(Arc::new(g)), [x[0]])?]));
    }
    assert!(matches!(run(g, &PassOptions::default()), Err(PassError::Nesting { .. })));
}

#[test]
fn parameters_outputs_and_donations_keep_their_numbers() {
    let mut b = clutch_graph::Builder::new();
    let _unused = b.parameter(ty(F32, &[2]), Dynamic);
    let x = b.parameter(ty(F32, &[2]), Dynamic);
    let y = b.add(x, x).expect("valid");
    let mut g = b.finish([x, y, y]);
    g.aliases.push(Alias { output: 1, parameter: 1 });
    let (after, report) = run(g.clone(), &PassOptions::default()).expect("passes succeed");
    assert_eq!(after, g);
    let names: Vec<_> = report.passes.iter().map(|p| p.name).collect();
    assert_eq!(names, ["simplify", "rewrite", "tidy", "dead-code"]);
    assert_eq!(report.passes[0].nodes_before, 3);
}

#[test]
fn depth_is_no_limit() {
    let g = build(&[ty(F32, &[2])], |b, x| {
        let mut y = x[0];
        for _ in 0..100_000 {
            y = b.add(y, x[0])?;
        }
        Ok(vec![y])
    });
    assert_eq!(run(g, &PassOptions::default()).expect("passes succeed").0.nodes().len(), 100_001);
}
