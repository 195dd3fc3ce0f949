//! Canonical forms: text cases before and after, exceptions that must stay, and random graphs that keep every bit.

mod common;

use clutch_graph::DType::{BF16, F32, S32};
use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{Graph, Op, ValueId, interpret, parse};
use clutch_passes::PassOptions;
use common::{Numbers, build, count, difference, random_inputs, run_pass, ty};
use pretty_assertions::assert_eq;

/// The body of a graph that `before` simplifies to, both in the text form.
#[track_caller]
fn case(before: &str, after: &str) {
    let graph = |body: &str| -> Graph { parse(&format!("graph {{\n{body}\n}}")).expect("the case parses") };
    let got = run_pass("simplify", &graph(before), &PassOptions::default());
    assert_eq!(graph(after).to_string(), got.to_string());
}

#[test]
fn moves_of_moves() {
    case(
        "%x = parameter(0) : f32[2,3,4]
         %a = transpose(%x) perm=[2,0,1] : f32[4,2,3]
         %b = transpose(%a) perm=[1,2,0] : f32[2,3,4]
         %c = reshape(%b) : f32[6,4]
         %d = reshape(%c) : f32[24]
         return %d",
        "%x = parameter(0) : f32[2,3,4]
         %d = reshape(%x) : f32[24]
         return %d",
    );
    case(
        "%x = parameter(0) : f32[3]
         %a = reshape(%x) : f32[1,3,1]
         %b = broadcast(%a) axes=[0,1,2] : f32[2,3,4]
         %c = transpose(%b) perm=[2,1,0] : f32[4,3,2]
         return %c",
        "%x = parameter(0) : f32[3]
         %c = broadcast(%x) axes=[1] : f32[4,3,2]
         return %c",
    );
    case(
        "%x = parameter(0) : f32[10]
         %a = slice(%x) start=[1] limit=[10] stride=[2] : f32[5]
         %b = slice(%a) start=[1] limit=[5] stride=[3] : f32[2]
         return %b",
        "%x = parameter(0) : f32[10]
         %b = slice(%x) start=[3] limit=[10] stride=[6] : f32[2]
         return %b",
    );
    case(
        "%x = parameter(0) : f32[3]
         %y = parameter(1) : f32[4]
         %a = concat(%x, %y) axis=0 : f32[7]
         %b = slice(%a) start=[4] limit=[7] stride=[1] : f32[3]
         return %b",
        "%x = parameter(0) : f32[3]
         %y = parameter(1) : f32[4]
         %b = slice(%y) start=[1] limit=[4] stride=[1] : f32[3]
         return %b",
    );
}

#[test]
fn conversions() {
    case(
        "%x = parameter(0) : bf16[3]
         %a = convert(%x) : f32[3]
         %b = convert(%a) : bf16[3]
         return %b",
        "%x = parameter(0) : bf16[3]
         return %x",
    );
    let rounding = "%x = parameter(0) : f32[3]
         %a = convert(%x) : bf16[3]
         %b = convert(%a) : f32[3]
         return %b";
    case(rounding, rounding);
    let saturating = "%x = parameter(0) : s16[3]
         %a = convert(%x) : f32[3]
         %b = convert(%a) : s8[3]
         return %b";
    case(saturating, saturating);
}

#[test]
fn arithmetic_identities() {
    case(
        "%x = parameter(0) : f32[3]
         %one = constant(1.0) : f32[]
         %ones = broadcast(%one) axes=[] : f32[3]
         %zero = constant(0.0) : f32[]
         %zeros = broadcast(%zero) axes=[] : f32[3]
         %a = mul(%x, %ones) : f32[3]
         %b = sub(%a, %zeros) : f32[3]
         %c = neg(%b) : f32[3]
         %d = neg(%c) : f32[3]
         return %d",
        "%x = parameter(0) : f32[3]
         return %x",
    );
    let minus_zero_matters = "%x = parameter(0) : f32[3]
         %zero = constant(0.0) : f32[]
         %zeros = broadcast(%zero) axes=[] : f32[3]
         %a = add(%x, %zeros) : f32[3]
         return %a";
    case(minus_zero_matters, minus_zero_matters);
    let infinity_matters = "%x = parameter(0) : f32[3]
         %zero = constant(0.0) : f32[]
         %zeros = broadcast(%zero) axes=[] : f32[3]
         %a = mul(%x, %zeros) : f32[3]
         return %a";
    case(infinity_matters, infinity_matters);
}

#[test]
fn equal_nodes_are_one_and_dead_ones_go() {
    case(
        "%x = parameter(0) : f32[3]
         %unused = parameter(1) : f32[9]
         %a = exp(%x) : f32[3]
         %b = exp(%x) : f32[3]
         %dead = log(%x) : f32[3]
         %c = add(%a, %b) : f32[3]
         return %c",
        "%x = parameter(0) : f32[3]
         %unused = parameter(1) : f32[9]
         %a = exp(%x) : f32[3]
         %c = add(%a, %a) : f32[3]
         return %c",
    );
}

#[test]
fn constants_fold_within_the_budget() {
    case(
        "%a = constant([1, 2, 3]) : s32[3]
         %b = constant([10, 20, 30]) : s32[3]
         %c = add(%a, %b) : s32[3]
         %d = reverse(%c) axes=[0] : s32[3]
         return %d",
        "%d = constant([33, 22, 11]) : s32[3]
         return %d",
    );
    case(
        "%two = constant(2.0) : f32[]
         %big = broadcast(%two) axes=[] : f32[1000,1000]
         %x = exp(%big) : f32[1000,1000]
         %y = log(%x) : f32[1000,1000]
         return %y",
        "%two = constant(2.0) : f32[]
         %big = broadcast(%two) axes=[] : f32[1000,1000]
         return %big",
    );
    let g = build(&[], |b, _| {
        let x = b.constant(clutch_graph::Literal::vector_i64(S32, &(0..2000).collect::<Vec<_>>()))?;
        Ok(vec![b.unary(UnaryOp::Neg, x)?])
    });
    assert_eq!(count(&run_pass("simplify", &g, &PassOptions::default()), "neg"), 1);
    let generous = PassOptions { fold_budget_bytes: 1 << 20, ..PassOptions::default() };
    assert_eq!(count(&run_pass("simplify", &g, &generous), "neg"), 0);
}

#[test]
fn dots_absorb_transposes_that_keep_the_free_axes_in_order() {
    let g = build(&[ty(F32, &[2, 5, 3, 4]), ty(F32, &[2, 6, 3, 4])], |b, x| {
        let q = b.transpose(x[0], &[0, 2, 1, 3])?;
        let k = b.transpose(x[1], &[0, 2, 3, 1])?;
        Ok(vec![b.matmul(q, k, Default::default())?])
    });
    let after = run_pass("simplify", &g, &PassOptions::default());
    assert_eq!(count(&after, "transpose"), 0);
    let inputs = random_inputs(&g, 5);
    assert_eq!(interpret(&g, &inputs), interpret(&after, &inputs));
}

/// A graph of random moves and arithmetic over `f32`, `bf16` and `s32` values.
fn random_graph(seed: u64) -> Graph {
    let mut numbers = Numbers::new(seed);
    let mut pick = move |n: usize| ((numbers.next() + 1.0) / 2.0 * n as f64) as usize % n;
    build(&[ty(F32, &[2, 3, 4]), ty(F32, &[4]), ty(BF16, &[2, 3, 4]), ty(S32, &[3, 1])], |b, x| {
        let mut values: Vec<ValueId> = x.to_vec();
        for _ in 0..40 {
            let v = values[pick(values.len())];
            let dims = b.dims(v);
            let axis = pick(dims.len().max(1));
            let dtype = b.dtype(v);
            let new = match pick(14) {
                0 => b.unary(UnaryOp::Neg, v)?,
                1 => b.unary(UnaryOp::Abs, v)?,
                2 => {
                    let constant = [0.0, 1.0, -0.0, 2.0, -1.0][pick(5)];
                    let op = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Pow][pick(5)];
                    let op = if dtype == S32 && matches!(op, BinaryOp::Div | BinaryOp::Pow) { BinaryOp::Add } else { op };
                    b.binary_scalar(op, v, constant)?
                }
                3 => b.reshape(v, &[b.ty(v).numel()])?,
                4 => {
                    let mut split = dims.clone();
                    split.insert(axis, 1);
                    b.reshape(v, &split)?
                }
                5 => {
                    let mut perm: Vec<usize> = (0..dims.len()).collect();
                    perm.rotate_left(axis);
                    b.transpose(v, &perm)?
                }
                6 if dims.iter().product::<i64>() < 200 => {
                    let mut wide = dims.clone();
                    wide.insert(axis, 2);
                    let axes: Vec<usize> = (0..wide.len()).filter(|&a| a != axis).collect();
                    b.broadcast_in_dim(v, &wide, &axes)?
                }
                7 if !dims.is_empty() => b.slice_axis(v, axis, pick(dims[axis].max(1) as usize) as i64, dims[axis], 1 + pick(2) as i64)?,
                8 if !dims.is_empty() && dims.iter().product::<i64>() < 200 => b.concat(&[v, v], axis)?,
                9 => b.convert(v, [F32, BF16, S32][pick(3)])?,
                10 => {
                    let other = values.iter().copied().find(|&o| o != v && b.ty(o) == b.ty(v)).unwrap_or(v);
                    b.binary([BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max][pick(3)], v, other)?
                }
                11 => {
                    let other = b.full_like(v, 0.5)?;
                    let p = b.compare(CompareDir::Lt, v, other)?;
                    b.select(p, v, other)?
                }
                12 if !dims.is_empty() => b.op(Op::Reverse([axis].into_iter().collect()), [v])?,
                _ => b.full_like(v, 1.0)?,
            };
            if b.rank(new) <= 5 {
                values.push(new);
            }
        }
        Ok(values.into_iter().rev().take(8).collect())
    })
}

#[test]
fn random_graphs_keep_their_results() {
    for seed in 1..300 {
        let g = random_graph(seed);
        let after = run_pass("simplify", &g, &PassOptions::default());
        clutch_graph::verify(&after).expect("the pass leaves a valid graph");
        assert!(after.nodes().len() <= g.nodes().len() + 4, "grew from {} to {}", g.nodes().len(), after.nodes().len());
        let again = run_pass("simplify", &after, &PassOptions::default());
        assert!(again.nodes().len() <= after.nodes().len());
        let inputs = random_inputs(&g, seed);
        let expected = interpret(&g, &inputs).expect("runs");
        let got = interpret(&after, &inputs).expect("runs");
        for (e, g) in expected.iter().zip(&got) {
            assert!(difference(e, g) == 0.0, "seed {seed}\n{:?}\n{:?}\n{after}", e.to_f64(), g.to_f64());
        }
    }
}

#[test]
fn without_elements() {
    case(
        "%x = parameter(0) : bf16[3,0]
         %y = parameter(1) : bf16[0,2]
         %a = dot_general(%x, %y) lhs_contract=[1] rhs_contract=[0] : bf16[3,2]
         return %a",
        "%x = parameter(0) : bf16[3,0]
         %y = parameter(1) : bf16[0,2]
         %z = constant(0.0) : bf16[]
         %a = broadcast(%z) axes=[] : bf16[3,2]
         return %a",
    );
    case(
        "%x = parameter(0) : s32[0,4]
         %a = add(%x, %x) : s32[0,4]
         return %a",
        "%x = parameter(0) : s32[0,4]
         %z = constant(0) : s32[]
         %a = broadcast(%z) axes=[] : s32[0,4]
         return %a",
    );
}
