//! Reductions, window reductions and the maximum-pooling gradient.

use clutch_graph::op::{Combiner, Op, WindowDim};
use clutch_graph::{DType, Literal};
use smallvec::{SmallVec, smallvec};

use super::{Case, lit, ramp};

/// Combiners that reduce the type.
pub fn combiners(dtype: DType) -> Vec<Combiner> {
    let mut list = vec![Combiner::Add, Combiner::Mul];
    if !dtype.is_complex() {
        list.extend([Combiner::Max, Combiner::Min]);
    }
    if dtype.is_int() || dtype == DType::Pred {
        list.extend([Combiner::And, Combiner::Or]);
    }
    list
}

/// Longer than a narrow float's own sum could follow.
fn long_sum(dtype: DType) -> Case {
    let x = lit(dtype, &[4096], &[1.0; 4096]);
    Case::of_op(format!("long sum {dtype}"), Op::Reduce { combiner: Combiner::Add, axes: smallvec![0] }, vec![x])
}

fn special() -> Literal {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    lit(DType::F32, &[4, 3], &[1.0, nan, 2.0, -inf, -inf, -inf, inf, 1.0, -inf, nan, nan, nan])
}

fn windows() -> Vec<Case> {
    let w = |size| WindowDim { size, ..WindowDim::TRIVIAL };
    let pool = [w(1), w(1), WindowDim { stride: 2, pad_low: 1, pad_high: 1, ..w(3) }, WindowDim { stride: 2, ..w(2) }];
    let dilated = [
        w(1),
        WindowDim { window_dilation: 2, ..w(2) },
        WindowDim { base_dilation: 2, pad_low: -1, pad_high: 2, ..w(2) },
        WindowDim { pad_low: 1, pad_high: -2, reversal: true, ..w(2) },
    ];
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        let x = ramp(dtype, &[2, 3, 5, 6]);
        cases.push(Case::build(format!("reduce window {dtype}"), vec![x], |b, args| {
            let kinds = combiners(dtype);
            let windows = [&pool, &dilated].map(|w| SmallVec::<[WindowDim; 6]>::from_slice(w));
            let all = kinds.iter().flat_map(|c| windows.iter().map(move |w| (*c, w.clone())));
            all.map(|(combiner, window)| b.op(Op::ReduceWindow { combiner, window }, [args[0]]).expect("fits")).collect()
        }));
    }
    cases
}

fn max_pool_gradients() -> Vec<Case> {
    let w = |size| WindowDim { size, ..WindowDim::TRIVIAL };
    let overlapping = WindowDim { stride: 2, pad_low: 1, pad_high: 1, ..w(3) };
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::S32] {
        for (name, axis, size) in [("disjoint", WindowDim { stride: 2, ..w(2) }, 3), ("overlapping", overlapping, 3)] {
            let op = Op::SelectAndScatter { window: smallvec![w(1), axis, axis] };
            let inputs = vec![ramp(dtype, &[2, 6, 6]), ramp(dtype, &[2, size, size])];
            cases.push(Case::of_op(format!("select and scatter {name} {dtype}"), op, inputs));
        }
    }
    let nan = f64::NAN;
    let x = lit(DType::F32, &[2, 4], &[1.0, nan, 3.0, 2.0, 5.0, 5.0, nan, nan]);
    let op = Op::SelectAndScatter { window: smallvec![w(1), WindowDim { stride: 4, ..w(4) }] };
    cases.push(Case::of_op("select and scatter NaN", op, vec![x, lit(DType::F32, &[2, 1], &[10.0, 20.0])]));
    cases
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        let x = ramp(dtype, &[3, 4, 5]);
        cases.push(Case::build(format!("reduce {dtype}"), vec![x], |b, args| {
            let all = combiners(dtype).into_iter().flat_map(|c| [(c, &[1][..]), (c, &[0, 2]), (c, &[0, 1, 2]), (c, &[])]);
            all.map(|(combiner, axes)| b.op(Op::Reduce { combiner, axes: axes.into() }, [args[0]]).expect("fits")).collect()
        }));
        cases.push(Case::build(format!("reduce nothing {dtype}"), vec![ramp(dtype, &[2, 0])], |b, args| {
            combiners(dtype).into_iter().map(|c| b.reduce(c, args[0], &[1]).expect("fits")).collect()
        }));
    }
    cases.extend([DType::F16, DType::BF16].map(long_sum));
    for combiner in [Combiner::Max, Combiner::Min, Combiner::Add] {
        cases.push(Case::of_op(
            format!("reduce {combiner:?} of special values"),
            Op::Reduce { combiner, axes: smallvec![1] },
            vec![special()],
        ));
    }
    cases.extend(windows());
    cases.extend(max_pool_gradients());
    cases
}
