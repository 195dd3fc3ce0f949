//! Sorting. Results of unstable sorts of equal keys are not compared.

use clutch_graph::DType;
use clutch_graph::op::Op;

use super::elementwise::values;
use super::{Case, count, lit, ramp};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
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
    cases.push(Case::of_op("unstable sort", Op::Sort { axis: 0, descending: false, stable: false }, vec![distinct, count(DType::S32, &[6])]));
    cases
}
