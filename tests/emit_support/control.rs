//! Loops, branches, calls and barriers.

use std::sync::Arc;

use clutch_graph::op::{BinaryOp, CompareDir, Op};
use clutch_graph::{Builder, DType, Graph, InputKind, TensorType, ValueId};

use super::{Case, count, int_lit, ramp};

/// A nested graph over parameters of the given types.
pub fn graph(types: &[TensorType], f: impl FnOnce(&mut Builder, &[ValueId]) -> Vec<ValueId>) -> Arc<Graph> {
    let mut b = Builder::new();
    let args: Vec<ValueId> = types.iter().map(|t| b.parameter(t.clone(), InputKind::Dynamic)).collect();
    let outputs = f(&mut b, &args);
    Arc::new(b.finish(outputs))
}

/// Doubles the vector until the counter reaches `rounds`.
fn loop_op(vector: &TensorType, rounds: i64) -> Op {
    let types = [TensorType::scalar(DType::S32), vector.clone()];
    let cond = graph(&types, |b, args| {
        let limit = b.scalar_int(DType::S32, rounds).expect("scalar");
        vec![b.compare(CompareDir::Lt, args[0], limit).expect("equal types")]
    });
    let body = graph(&types, |b, args| {
        let one = b.scalar_int(DType::S32, 1).expect("scalar");
        let next = b.add(args[0], one).expect("equal types");
        vec![next, b.add(args[1], args[1]).expect("equal types")]
    });
    Op::While { cond, body }
}

pub fn cases() -> Vec<Case> {
    let vector = TensorType::new(DType::F32, [4]);
    let start = int_lit(DType::S32, &[], &[0]);
    let mut cases = Vec::new();
    for rounds in [0, 3] {
        cases.push(Case::of_op(format!("while {rounds} rounds"), loop_op(&vector, rounds), vec![start.clone(), count(DType::F32, &[4])]));
    }
    let single = [TensorType::scalar(DType::S32)];
    let below = graph(&single, |b, args| vec![b.compare_scalar(CompareDir::Lt, args[0], 5.0).expect("equal types")]);
    let step = graph(&single, |b, args| vec![b.binary_int(BinaryOp::Add, args[0], 2).expect("equal types")]);
    cases.push(Case::of_op("while with one value", Op::While { cond: below, body: step }, vec![start.clone()]));

    let types = [vector.clone(), vector.clone()];
    let sum = graph(&types, |b, args| vec![b.add(args[0], args[1]).expect("equal types"), args[0]]);
    let product = graph(&types, |b, args| vec![b.mul(args[0], args[1]).expect("equal types"), args[1]]);
    for taken in [0, 1] {
        let inputs = vec![int_lit(DType::Pred, &[], &[taken]), count(DType::F32, &[4]), ramp(DType::F32, &[4])];
        let op = Op::Cond { on_true: sum.clone(), on_false: product.clone() };
        cases.push(Case::of_op(format!("cond {taken}"), op, inputs));
    }
    let inner = graph(&types, |b, args| {
        let both = b.op_multi(Op::Call(sum.clone()), args.iter().copied()).expect("fits");
        vec![b.mul(both[0], both[1]).expect("equal types")]
    });
    cases.push(Case::build("calls", vec![count(DType::F32, &[4]), ramp(DType::F32, &[4])], |b, args| {
        let once = b.op(Op::Call(inner.clone()), args.iter().copied()).expect("fits");
        let twice = b.op(Op::Call(inner.clone()), [once, args[1]]).expect("fits");
        let both = b.op_multi(Op::Call(product.clone()), [once, twice]).expect("fits");
        let zero = b.scalar_int(DType::S32, 0).expect("scalar");
        let looped = b.op_multi(loop_op(&vector, 2), [zero, twice]).expect("fits");
        [both.to_vec(), looped.to_vec()].concat()
    }));
    let nested_types = [TensorType::scalar(DType::S32), vector.clone()];
    let outer = graph(&nested_types, |b, args| {
        let zero = b.scalar_int(DType::S32, 0).expect("scalar");
        let inner = b.op_multi(loop_op(&vector, 2), [zero, args[1]]).expect("fits");
        vec![b.binary_int(BinaryOp::Add, args[0], 1).expect("equal types"), inner[1]]
    });
    let until = graph(&nested_types, |b, args| vec![b.compare_scalar(CompareDir::Lt, args[0], 3.0).expect("equal types")]);
    cases.push(Case::of_op("loop in a loop", Op::While { cond: until, body: outer }, vec![start, count(DType::F32, &[4])]));
    cases.push(Case::of_op("barrier", Op::OptimizationBarrier, vec![count(DType::F32, &[4])]));
    cases.push(Case::of_op("barrier of many", Op::OptimizationBarrier, vec![count(DType::F32, &[4]), ramp(DType::S64, &[2])]));
    cases
}
