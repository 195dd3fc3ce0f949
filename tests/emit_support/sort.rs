//! Sorting. Results of unstable sorts of equal keys are not compared.

use clutch_graph::DType;
use clutch_graph::op::Op;

use super::elementwise::values;
use super::{Case, count, lit, ramp};

/// The largest and smallest elements, with many ties, NaN of both signs and infinities.
fn top_k() -> Vec<Case> {
    let mut cases = Vec::new();
    let ordered = DType::ALL.into_iter().filter(|d| !d.is_complex());
    for (dtype, largest) in ordered.flat_map(|d| [(d, true), (d, false)]) {
        for (k, dims) in [(1, &[2, 3, 40][..]), (7, &[2, 3, 40]), (39, &[2, 40]), (40, &[40]), (0, &[3])] {
            let op = Op::TopK { k, largest };
            cases.push(Case::of_op(format!("top {k} {dtype} {largest}"), op, vec![ramp(dtype, dims)]));
        }
    }
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = [1.0, nan, 3.0, 0.0, inf, 3.0, -nan, 3.0, -inf, 0.0, nan, -2.0];
    for (dtype, largest) in [DType::F32, DType::BF16, DType::F16, DType::F64].into_iter().flat_map(|d| [(d, true), (d, false)]) {
        for k in [3, 12] {
            let op = Op::TopK { k, largest };
            cases.push(Case::of_op(format!("top {k} of special values {dtype} {largest}"), op, vec![lit(dtype, &[12], &x)]));
        }
    }
    let ties: Vec<f64> = (0..3 * 5000).map(|i| f64::from((i * 7919) % 100)).collect();
    for k in [300, 2600, 4999] {
        cases.push(Case::of_op("top of many ties", Op::TopK { k, largest: true }, vec![lit(DType::F32, &[3, 5000], &ties)]));
    }
    cases
}

pub fn cases() -> Vec<Case> {
    let mut cases = top_k();
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_complex()) {
        for descending in [false, true] {
            let x = ramp(dtype, &[3, 8, 2]);
            let op = Op::Sort { axis: 1, descending, stable: true };
            cases.push(Case::of_op(format!("sort {dtype} {descending}"), op.clone(), vec![x.clone()]));
            let inputs = vec![x, count(DType::S64, &[3, 8, 2]), count(DType::BF16, &[3, 8, 2])];
            cases.push(Case::of_op(format!("sort with values {dtype} {descending}"), op, inputs));
            let special = values(dtype);
            let n = special.ty().dims[0];
            let op = Op::Sort { axis: 0, descending, stable: true };
            cases.push(Case::of_op(format!("sort special values {dtype} {descending}"), op, vec![special, count(DType::S32, &[n])]));
        }
    }
    let distinct = lit(DType::F32, &[6], &[3.0, -1.0, 2.0, f64::NAN, 7.0, 0.5]);
    cases.push(Case::of_op(
        "unstable sort",
        Op::Sort { axis: 0, descending: false, stable: false },
        vec![distinct, count(DType::S32, &[6])],
    ));
    cases
}
