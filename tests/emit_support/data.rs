//! Constants and data movement.

use clutch_graph::op::{Op, PadDim};
use clutch_graph::{DType, TensorType};
use smallvec::smallvec;

use super::elementwise::values;
use super::{Case, count, lit, ramp};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        cases.push(Case::build(format!("constant {dtype}"), vec![], |b, _| {
            let whole = b.constant(values(dtype)).expect("constants have no rule to break");
            let splat = b.constant(ramp(dtype, &[1]).reshaped(&[1, 1]).expect("one element")).expect("constant");
            let zeros = b.constant(lit(dtype, &[2, 3], &[0.0; 6])).expect("constant");
            let empty = b.constant(lit(dtype, &[0, 3], &[])).expect("constant");
            vec![whole, splat, zeros, empty]
        }));
        if dtype != DType::Pred {
            cases.push(Case::of_op(format!("iota {dtype}"), Op::Iota { ty: TensorType::new(dtype, [3, 4, 2]), axis: 1 }, vec![]));
        }
        let x = ramp(dtype, &[2, 3, 4]);
        cases.push(Case::build(format!("movement {dtype}"), vec![x, ramp(dtype, &[])], |b, args| {
            let x = args[0];
            let ops = [
                Op::Reshape(smallvec![4, 6]),
                Op::Transpose(smallvec![2, 0, 1]),
                Op::Slice { start: smallvec![0, 1, 0], limit: smallvec![2, 3, 4], stride: smallvec![1, 1, 3] },
                Op::Concat(1),
                Op::Reverse(smallvec![0, 2]),
                Op::Broadcast { dims: smallvec![2, 5, 3, 4], axes: smallvec![0, 2, 3] },
            ];
            let mut outputs: Vec<_> = ops
                .into_iter()
                .map(|op| {
                    let operands = if matches!(op, Op::Concat(_)) { vec![x, x, x] } else { vec![x] };
                    b.op(op, operands).expect("fits")
                })
                .collect();
            let pads = smallvec![
                PadDim { low: 1, high: 0, interior: 0 },
                PadDim { low: -1, high: 2, interior: 1 },
                PadDim { low: 0, high: -2, interior: 2 }
            ];
            outputs.push(b.op(Op::Pad(pads), [x, args[1]]).expect("fits"));
            outputs
        }));
    }
    let stretch = |dims: &[i64], to: &[i64], axes: &[usize]| {
        Case::of_op(
            format!("broadcast {dims:?} to {to:?}"),
            Op::Broadcast { dims: to.into(), axes: axes.into() },
            vec![count(DType::F32, dims)],
        )
    };
    cases.push(stretch(&[1, 3], &[2, 3], &[0, 1]));
    cases.push(stretch(&[2, 1, 3], &[2, 4, 5, 3], &[0, 2, 3]));
    cases.push(stretch(&[1, 1], &[1, 3], &[0, 1]));
    cases.push(stretch(&[1], &[4, 2], &[1]));
    cases.push(stretch(&[], &[2, 2], &[]));
    cases.push(stretch(&[2, 3], &[2, 3], &[0, 1]));
    cases.push(stretch(&[1, 3], &[0, 3], &[0, 1]));
    cases.push(Case::of_op("reshape of nothing", Op::Reshape(smallvec![4, 0]), vec![lit(DType::F32, &[0, 2], &[])]));
    cases.push(Case::of_op("concat with nothing", Op::Concat(0), vec![lit(DType::F32, &[0, 2], &[]), count(DType::F32, &[3, 2])]));
    cases
}
