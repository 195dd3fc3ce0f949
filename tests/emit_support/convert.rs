//! Conversions and bitcasts between all element types.

use clutch_graph::op::Op;
use clutch_graph::{DType, Literal, TensorType};

use super::elementwise::values;
use super::{Case, lit};

/// Beyond every integer range, and just inside and outside of some.
const BEYOND: [f64; 14] = [1e30, -1e30, 127.0, 128.0, -128.0, -129.0, 255.0, 256.0, 3e9, -3e9, 2147483648.0, 1e19, 2.9, -2.9];

fn source(dtype: DType) -> Literal {
    let v = values(dtype);
    if !dtype.is_float() {
        return v;
    }
    let more = lit(dtype, &[BEYOND.len() as i64], &BEYOND);
    let ty = TensorType::new(dtype, [v.ty().dims[0] + more.ty().dims[0]]);
    Literal::new(ty, [v.bytes(), more.bytes()].concat()).expect("both lengths together")
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for from in DType::ALL {
        let x = source(from);
        cases.push(Case::build(format!("convert {from}"), vec![x.clone()], |b, args| {
            DType::ALL.iter().map(|&to| b.op(Op::Convert(to), [args[0]]).expect("all types convert")).collect()
        }));
        cases.push(Case::build(format!("bitcast {from}"), vec![x], |b, args| {
            // Only the bytes 0 and 1 are booleans; that direction has a case of its own.
            let equal = DType::ALL.iter().filter(|to| to.size() == from.size() && (from == DType::Pred || **to != DType::Pred));
            equal.map(|&to| b.op(Op::Bitcast(to), [args[0]]).expect("equal sizes")).collect()
        }));
        if from.size() == 1 {
            let bytes = Literal::new(TensorType::new(from, [2]), [0u8, 1].as_slice()).expect("two bytes");
            cases.push(Case::of_op(format!("bitcast {from} to pred"), Op::Bitcast(DType::Pred), vec![bytes]));
        }
    }
    cases
}
