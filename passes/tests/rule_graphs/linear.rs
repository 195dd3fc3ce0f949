//! Products, convolutions, and what is folded into them.

use clutch_graph::builder::Builder;
use clutch_graph::op::{BinaryOp, ConvDims, Convolution, DotDims, Precision, WindowDim};
use clutch_graph::{DType, Graph, GraphError, Op, ValueId};
use smallvec::smallvec;

use super::{Case, FLOATS, input, permutation, pick, sizes, weight, whole};
use crate::common::Numbers;

pub const CASES: &[Case] = &[
    Case { rule: "merge-products", graph: siblings },
    Case { rule: "product-chain", graph: chain },
    Case { rule: "scale-into-operand", graph: scaled },
    Case { rule: "columns-into-weight", graph: columns },
    Case { rule: "product-of-slice", graph: slice_of_product },
    Case { rule: "transpose-of-product", graph: transposed_product },
    Case { rule: "spread-of-ones", graph: spread_ones },
    Case { rule: "channels-into-kernel", graph: |n| normalised(n, 1) },
    Case { rule: "scale-of-shifted", graph: |n| normalised(n, 2) },
    Case { rule: "scale-of-scaled", graph: |n| normalised(n, 3) },
    Case { rule: "shift-of-shifted", graph: |n| normalised(n, 4) },
];

fn siblings(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let b = &mut b;
    let dtype = pick(n, &[DType::F32, DType::BF16, DType::S32]);
    let (rows, depth, flipped) = (whole(n, 1, 5), whole(n, 1, 6), n.next() > 0.0);
    let x = input(b, dtype, &[rows, depth]);
    let mut outputs = Vec::new();
    for _ in 0..whole(n, 2, 4) {
        let columns = whole(n, 1, 4);
        let w = weight(b, dtype, &if flipped { [columns, depth] } else { [depth, columns] });
        let dims = DotDims { lhs_contract: smallvec![1], rhs_contract: smallvec![usize::from(flipped)], ..DotDims::default() };
        outputs.push(b.dot_general(x, w, dims, dtype, Precision::Highest)?);
    }
    Ok(std::mem::take(b).finish(outputs))
}

fn chain(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let b = &mut b;
    let dtype = pick(n, &FLOATS);
    let count = whole(n, 3, 5) as usize;
    let sizes = sizes(n, count + 1);
    let mut matrices: Vec<ValueId> = Vec::new();
    for w in sizes.windows(2) {
        let flipped = n.next() > 0.0;
        let dims = if flipped { [w[1], w[0]] } else { [w[0], w[1]] };
        let x = if n.next() > 0.0 { input(b, dtype, &dims) } else { weight(b, dtype, &dims) };
        matrices.push(if flipped { b.swap_last(x)? } else { x });
    }
    while matrices.len() > 1 {
        let at = whole(n, 0, matrices.len() as i64 - 2) as usize;
        let right = matrices.remove(at + 1);
        matrices[at] = b.matmul(matrices[at], right, Precision::Highest)?;
    }
    Ok(std::mem::take(b).finish(matrices))
}

/// A batched product with axes in any order.
fn product(b: &mut Builder, n: &mut Numbers, dtype: DType) -> Result<ValueId, GraphError> {
    let (batch, rows, depth, columns) = (whole(n, 1, 3), whole(n, 1, 4), whole(n, 1, 4), whole(n, 1, 4));
    let (p, q) = (permutation(n, 3), permutation(n, 3));
    let at = |perm: &[usize], axis: usize| perm.iter().position(|&v| v == axis).unwrap_or(0);
    let left: Vec<i64> = p.iter().map(|&a| [batch, rows, depth][a]).collect();
    let right: Vec<i64> = q.iter().map(|&a| [batch, depth, columns][a]).collect();
    let (x, y) = (input(b, dtype, &left), input(b, dtype, &right));
    let dims = DotDims {
        lhs_batch: smallvec![at(&p, 0)],
        rhs_batch: smallvec![at(&q, 0)],
        lhs_contract: smallvec![at(&p, 2)],
        rhs_contract: smallvec![at(&q, 1)],
    };
    b.dot_general(x, y, dims, dtype, Precision::Highest)
}

fn scaled(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &FLOATS);
    let y = product(&mut b, n, dtype)?;
    let c = pick(n, &[0.125, -0.3, 1.0, 4.0, 0.0883883]);
    let y = b.binary_scalar(BinaryOp::Mul, y, c)?;
    Ok(b.finish([y]))
}

fn columns(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &FLOATS);
    let (rows, depth, columns) = (whole(n, 1, 4), whole(n, 1, 4), whole(n, 1, 4));
    let x = input(&mut b, dtype, &[rows, depth]);
    let w = weight(&mut b, dtype, &[depth, columns]);
    let v = weight(&mut b, dtype, &[columns]);
    let y = b.matmul(x, w, Precision::Highest)?;
    let v = b.op(Op::Broadcast { dims: smallvec![rows, columns], axes: smallvec![1] }, [v])?;
    let y = b.mul(v, y)?;
    Ok(b.finish([y]))
}

fn slice_of_product(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &[DType::F32, DType::BF16, DType::S64]);
    let y = product(&mut b, n, dtype)?;
    let dims = b.dims(y);
    let start: Vec<i64> = dims.iter().map(|&d| whole(n, 0, d - 1)).collect();
    let limit: Vec<i64> = dims.iter().zip(&start).map(|(&d, &s)| whole(n, s + 1, d)).collect();
    let y = b.op(Op::Slice { start: start.into(), limit: limit.into(), stride: smallvec![1; 3] }, [y])?;
    Ok(b.finish([y]))
}

fn transposed_product(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &[DType::F32, DType::BF16, DType::S64]);
    let y = product(&mut b, n, dtype)?;
    let y = b.transpose(y, &[0, 2, 1])?;
    Ok(b.finish([y]))
}

/// A convolution followed by what batch norm does, in `steps` steps.
fn normalised(n: &mut Numbers, steps: usize) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let b = &mut b;
    let dtype = pick(n, &FLOATS);
    let (batch, features, outputs, size) = (whole(n, 1, 2), whole(n, 1, 3), whole(n, 2, 4), whole(n, 3, 5));
    let x = input(b, dtype, &[batch, features, size, size]);
    let w = weight(b, dtype, &[outputs, features, 3, 3]);
    let window = WindowDim { size: 3, pad_low: 1, pad_high: 1, stride: whole(n, 1, 2), ..WindowDim::TRIVIAL };
    let dims = ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: smallvec![2, 3],
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: smallvec![2, 3],
        output_batch: 0,
        output_feature: 1,
        output_spatial: smallvec![2, 3],
    };
    let c = Convolution { window: smallvec![window; 2], dims, feature_groups: 1, batch_groups: 1, precision: Precision::Highest };
    let mut y = b.op(Op::Convolution(Box::new(c)), [x, w])?;
    let full = b.dims(y);
    let spread = |b: &mut Builder| {
        let v = weight(b, dtype, &[outputs]);
        b.op(Op::Broadcast { dims: full.clone(), axes: smallvec![1] }, [v])
    };
    let ops: &[BinaryOp] = match steps {
        1 => &[BinaryOp::Mul],
        2 => &[BinaryOp::Sub, BinaryOp::Mul],
        3 => &[BinaryOp::Mul, BinaryOp::Mul],
        _ => &[BinaryOp::Sub, BinaryOp::Add],
    };
    for (i, &op) in ops.iter().enumerate() {
        let op = if steps == 4 && n.next() > 0.0 { ops[1 - i] } else { op };
        let v = spread(b)?;
        y = b.binary(op, y, v)?;
    }
    Ok(std::mem::take(b).finish([y]))
}

fn spread_ones(n: &mut Numbers) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let dtype = pick(n, &[DType::F32, DType::BF16, DType::S32]);
    let features = whole(n, 2, 5);
    let w = weight(&mut b, dtype, &[1, features, 1]);
    let y = b.op(Op::Broadcast { dims: smallvec![whole(n, 1, 3), features, whole(n, 1, 3)], axes: smallvec![0, 1, 2] }, [w])?;
    Ok(b.finish([y]))
}
