//! Expansions give what the interpreter's direct rules of the composites give.

mod common;

use clutch_graph::DType::{self, BF16, F16, F32, F64, Pred, S32, S64, U8, U32, U64};
use clutch_graph::op::{AttentionAttrs, Combiner, Precision, Real};
use clutch_graph::{Literal, Op};
use clutch_passes::PassOptions;
use common::{TOL, build, check, check_on, count, random_inputs, ty};

/// Rounding of one step of a narrow type, with some slack for values that fall on either side.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        BF16 => 0.02,
        F16 => 2e-3,
        F32 => TOL,
        _ => 1e-12,
    }
}

#[test]
fn softmax() {
    for dtype in [F32, F64, BF16, F16] {
        for (axis, log) in [(0, false), (1, true), (2, false)] {
            let g = build(&[ty(dtype, &[3, 4, 5])], |b, x| Ok(vec![b.op(Op::Softmax { axis, log }, [x[0]])?]));
            assert_eq!(count(&check(&g, tolerance(dtype)), "softmax"), 0);
        }
    }
}

#[test]
fn softmax_of_minus_infinity_is_nan() {
    let g = build(&[ty(F32, &[2, 2])], |b, x| Ok(vec![b.op(Op::Softmax { axis: 1, log: false }, [x[0]])?]));
    let inf = f64::NEG_INFINITY;
    let x = Literal::from_f64(ty(F32, &[2, 2]), &[inf, inf, inf, 1.0]).expect("four values");
    check_on(&g, &PassOptions::default(), &[x], TOL);
}

#[test]
fn activations() {
    for dtype in [F32, F64, BF16] {
        let g = build(&[ty(dtype, &[40])], |b, x| {
            Ok(vec![b.op(Op::Gelu { tanh: false }, [x[0]])?, b.op(Op::Gelu { tanh: true }, [x[0]])?, b.op(Op::Silu, [x[0]])?])
        });
        check(&g, tolerance(dtype));
    }
}

#[test]
fn norms() {
    for (dtype, weights) in [(F32, F32), (BF16, BF16), (BF16, F32), (F64, F64)] {
        let g = build(&[ty(dtype, &[3, 4, 5]), ty(weights, &[4, 5]), ty(weights, &[4, 5]), ty(weights, &[5])], |b, x| {
            let mut out = b.op_multi(Op::LayerNorm { axes: 2, eps: Real(1e-5) }, [x[0], x[1], x[2]])?.to_vec();
            out.push(b.op(Op::RmsNorm { eps: Real(1e-6) }, [x[0], x[3]])?);
            Ok(out)
        });
        check(&g, tolerance(dtype).max(4e-6));
    }
}

struct Case {
    dtype: DType,
    query: Vec<i64>,
    key: Vec<i64>,
    value: i64,
    mask: Option<(DType, Vec<i64>)>,
    causal: bool,
}

fn attention_cases() -> Vec<Case> {
    let case = |dtype, query: &[i64], key: &[i64], value, mask: Option<(DType, &[i64])>, causal| Case {
        dtype,
        query: query.to_vec(),
        key: key.to_vec(),
        value,
        mask: mask.map(|(d, m)| (d, m.to_vec())),
        causal,
    };
    vec![
        case(F32, &[2, 3, 4, 8], &[2, 3, 5, 8], 6, None, false),
        case(F32, &[2, 3, 4, 8], &[2, 3, 4, 8], 8, None, true),
        case(F32, &[2, 4, 3, 8], &[2, 2, 5, 8], 8, None, true),
        case(F32, &[2, 4, 3, 8], &[2, 2, 5, 8], 8, Some((Pred, &[2, 1, 3, 5])), false),
        case(F32, &[2, 4, 3, 8], &[2, 1, 5, 8], 8, Some((F32, &[3, 5])), false),
        case(F64, &[4, 3, 8], &[2, 5, 8], 8, Some((F32, &[5])), true),
        case(F32, &[3, 8], &[5, 8], 8, Some((Pred, &[3, 1])), false),
        case(BF16, &[2, 4, 3, 8], &[2, 2, 5, 8], 8, Some((BF16, &[2, 4, 3, 5])), false),
        case(F16, &[2, 2, 3, 8], &[2, 2, 3, 8], 8, None, true),
    ]
}

#[test]
fn attention_forward_and_backward() {
    for c in attention_cases() {
        let attrs = AttentionAttrs { causal: c.causal, scale: Real(0.35), precision: Precision::Highest };
        let mut value = c.key.clone();
        *value.last_mut().expect("a shape") = c.value;
        let mut output = c.query.clone();
        *output.last_mut().expect("a shape") = c.value;
        let mut inputs = vec![ty(c.dtype, &c.query), ty(c.dtype, &c.key), ty(c.dtype, &value), ty(c.dtype, &output)];
        inputs.extend(c.mask.iter().map(|(d, m)| ty(*d, m)));
        let g = build(&inputs, |b, x| {
            let mut operands = vec![x[0], x[1], x[2]];
            operands.extend(x.get(4));
            let forward = b.op_multi(Op::Attention(attrs), operands)?;
            let mut operands = vec![x[3], x[0], x[1], x[2], forward[0], forward[1]];
            operands.extend(x.get(4));
            let backward = b.op_multi(Op::AttentionBackward(attrs), operands)?;
            Ok(forward.into_iter().chain(backward).collect())
        });
        let after = check(&g, (4.0 * tolerance(c.dtype)).max(4e-6));
        assert_eq!(count(&after, "attention") + count(&after, "attention_backward"), 0);
        assert_eq!(count(&after, "concat"), 0, "keys or values are repeated");
    }
}

#[test]
fn rows_that_see_nothing_give_zeros() {
    let attrs = AttentionAttrs { causal: false, scale: Real(1.0), precision: Precision::Highest };
    let shape = ty(F32, &[1, 2, 2, 4]);
    let g = build(&[shape.clone(), shape.clone(), shape, ty(Pred, &[2, 2])], |b, x| {
        let forward = b.op_multi(Op::Attention(attrs), x.iter().copied())?;
        let backward = b.op_multi(Op::AttentionBackward(attrs), [x[0], x[0], x[1], x[2], forward[0], forward[1], x[3]])?;
        Ok(forward.into_iter().chain(backward).collect())
    });
    let mut inputs = random_inputs(&g, 3);
    inputs[3] = Literal::from_f64(ty(Pred, &[2, 2]), &[0.0, 0.0, 1.0, 0.0]).expect("four values");
    check_on(&g, &PassOptions::default(), &inputs, TOL);
}

#[test]
fn random_bits_are_exact() {
    for dims in [&[7][..], &[3, 4], &[], &[0], &[1]] {
        for stream in [0, 1, 0x0300_0001] {
            let g = build(&[ty(U64, &[])], |b, x| Ok(vec![b.op(Op::RandomBits { dims: dims.into(), stream }, [x[0]])?]));
            let key = Literal::new(ty(U64, &[]), 0x0123_4567_89AB_CDEF_u64.to_le_bytes().to_vec()).expect("eight bytes");
            check_on(&g, &PassOptions::default(), &[key], 0.0);
        }
    }
}

#[test]
fn draws_of_equal_sizes_share_a_body() {
    let g = build(&[ty(U64, &[])], |b, x| {
        (0..3).map(|stream| b.op(Op::RandomBits { dims: [4, 4].into_iter().collect(), stream }, [x[0]])).collect()
    });
    let (after, _) = clutch_passes::run(g, &PassOptions::default()).expect("passes succeed");
    let bodies: Vec<_> = after.nodes().iter().filter_map(|n| if let Op::Call(body) = &n.op { Some(body) } else { None }).collect();
    assert_eq!(bodies.len(), 3);
    assert!(bodies.iter().all(|body| std::sync::Arc::ptr_eq(body, bodies[0])));
}

#[test]
fn arg_reduce() {
    for dtype in [F32, BF16, S64, U8, Pred] {
        for (axis, max) in [(0, true), (1, false), (2, true)] {
            let g = build(&[ty(dtype, &[3, 5, 4])], |b, x| Ok(vec![b.op(Op::ArgReduce { axis, max }, [x[0]])?]));
            check(&g, 0.0);
        }
    }
}

#[test]
fn arg_reduce_finds_the_first_nan() {
    for max in [true, false] {
        let g = build(&[ty(F32, &[2, 4])], |b, x| {
            let y = b.unary(clutch_graph::op::UnaryOp::Neg, x[0])?;
            Ok(vec![b.op(Op::ArgReduce { axis: 1, max }, [y])?])
        });
        let nan = f64::NAN;
        let x =
            Literal::from_f64(ty(F32, &[2, 4]), &[1.0, nan, nan, 9.0, f64::INFINITY, 2.0, f64::NEG_INFINITY, 2.0]).expect("eight values");
        check_on(&g, &PassOptions::default(), &[x], 0.0);
    }
}

#[test]
fn cumulative() {
    for (dtype, combiner) in [
        (F32, Combiner::Add),
        (F64, Combiner::Add),
        (BF16, Combiner::Add),
        (S32, Combiner::Add),
        (F32, Combiner::Max),
        (S64, Combiner::Min),
        (U8, Combiner::Max),
        (F64, Combiner::Mul),
    ] {
        for dims in [&[3, 7][..], &[2, 150], &[150, 2], &[1], &[0]] {
            for axis in 0..dims.len() {
                let g = build(&[ty(dtype, dims)], |b, x| Ok(vec![b.op(Op::Cumulative { combiner, axis }, [x[0]])?]));
                check(&g, tolerance(dtype).max(1e-5));
            }
        }
    }
}

#[test]
fn a_running_sum_keeps_what_stands_before_an_infinity() {
    let g = build(&[ty(F32, &[130])], |b, x| Ok(vec![b.op(Op::Cumulative { combiner: Combiner::Add, axis: 0 }, [x[0]])?]));
    let values: Vec<f64> = (0..130).map(|i| if i == 40 { f64::INFINITY } else { f64::from(i) / 7.0 }).collect();
    let x = Literal::from_f64(ty(F32, &[130]), &values).expect("130 values");
    check_on(&g, &PassOptions::default(), &[x], 1e-5);
}

#[test]
fn top_k() {
    for dtype in [F32, S32, U32, BF16] {
        for (k, largest, length) in [(3, true, 40), (3, false, 40), (20, true, 40), (0, true, 4), (1, true, 9)] {
            let g = build(&[ty(dtype, &[2, length])], |b, x| Ok(b.op_multi(Op::TopK { k, largest }, [x[0]])?.to_vec()));
            let after = check(&g, 0.0);
            assert_eq!(count(&after, "top_k"), 0);
        }
    }
}

#[test]
fn top_k_of_ties_infinities_and_nan() {
    let g = build(&[ty(F32, &[3, 9])], |b, x| Ok(b.op_multi(Op::TopK { k: 2, largest: true }, [x[0]])?.to_vec()));
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let mut values = vec![-inf; 9];
    values.extend([1.0, nan, 2.0, nan, inf, nan, 0.0, 0.0, 0.0]);
    values.extend([5.0, -inf, 5.0, 1.0, -0.0, 0.0, 2.0, 2.0, 5.0]);
    let x = Literal::from_f64(ty(F32, &[3, 9]), &values).expect("27 values");
    check_on(&g, &PassOptions::default(), &[x], 0.0);
}

#[test]
fn a_native_top_k_stays() {
    let g = build(&[ty(F32, &[2, 40])], |b, x| Ok(b.op_multi(Op::TopK { k: 3, largest: true }, [x[0]])?.to_vec()));
    let options = PassOptions { native_top_k: true, ..PassOptions::default() };
    let inputs = random_inputs(&g, 1);
    assert_eq!(count(&check_on(&g, &options, &inputs, 0.0), "top_k"), 1);
}

#[test]
fn sorts_by_floats_keep_ties_and_put_nan_last() {
    for dtype in [F32, F64] {
        for descending in [false, true] {
            let g = build(&[ty(dtype, &[4, 12])], |b, x| {
                let position = b.iota(S64, &[4, 12], 1)?;
                let sort = Op::Sort { axis: 1, descending, stable: true };
                let mut out = b.op_multi(sort.clone(), [x[0], position])?.to_vec();
                out.extend(b.op_multi(sort, [x[0]])?);
                Ok(out)
            });
            let mut inputs = random_inputs(&g, 4);
            let mut values = inputs[0].to_f64().expect("floats");
            values[..8].copy_from_slice(&[0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0]);
            inputs[0] = Literal::from_f64(ty(dtype, &[4, 12]), &values).expect("48 values");
            check_on(&g, &PassOptions::default(), &inputs, 0.0);
        }
    }
}

#[test]
fn one_row_of_bf16_is_padded_to_two() {
    for (swap, row) in [(false, &[1, 1, 8][..]), (true, &[8])] {
        let g = build(&[ty(BF16, row), ty(BF16, if swap { &[8, 5] } else { &[5, 8] })], |b, x| {
            let w = if swap { b.swap_last(x[1])? } else { x[1] };
            let last = row.len() - 1;
            let dims = clutch_graph::op::DotDims {
                lhs_contract: [last].into_iter().collect(),
                rhs_contract: [1].into_iter().collect(),
                ..Default::default()
            };
            Ok(vec![
                b.dot_general(x[0], w, dims.clone(), BF16, Precision::Highest)?,
                b.dot_general(x[0], w, dims, F32, Precision::Highest)?,
            ])
        });
        let after = check(&g, tolerance(BF16));
        assert_eq!((count(&after, "dot_general"), count(&after, "slice")), (2, 2));
    }
}
