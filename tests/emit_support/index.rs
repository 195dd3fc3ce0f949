//! Gathers, scatters and dynamic slices.

use clutch_graph::DType;
use clutch_graph::op::{Combiner, GatherDims, Op, ScatterDims};
use smallvec::smallvec;

use super::reduce::combiners;
use super::{Case, count, int_lit, ramp};

/// Rows of a table.
fn rows(width: i64) -> GatherDims {
    GatherDims {
        offset_dims: smallvec![1],
        collapsed_slice_dims: smallvec![0],
        start_index_map: smallvec![0],
        index_vector_dim: 1,
        slice_sizes: smallvec![1, width],
        in_bounds: false,
    }
}

fn gathers() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        let indices = int_lit(DType::S64, &[5], &[2, 0, 1, 2, 1]);
        cases.push(Case::of_op(format!("gather rows {dtype}"), Op::Gather(Box::new(rows(4))), vec![ramp(dtype, &[3, 4]), indices]));
    }
    for dtype in [DType::S8, DType::S16, DType::S32, DType::S64, DType::U8, DType::U16, DType::U32, DType::U64] {
        let indices = int_lit(dtype, &[4], &[-1, 0, 2, 100]);
        let name = format!("gather with clamping {dtype}");
        cases.push(Case::of_op(name, Op::Gather(Box::new(rows(4))), vec![count(DType::F32, &[3, 4]), indices]));
    }
    let promised = GatherDims { in_bounds: true, ..rows(4) };
    let indices = int_lit(DType::S32, &[2], &[1, 2]);
    cases.push(Case::of_op("gather in bounds", Op::Gather(Box::new(promised)), vec![count(DType::F32, &[3, 4]), indices]));
    let windows = GatherDims {
        offset_dims: smallvec![0, 3],
        collapsed_slice_dims: smallvec![1],
        start_index_map: smallvec![2, 0],
        index_vector_dim: 0,
        slice_sizes: smallvec![2, 1, 3],
        in_bounds: false,
    };
    let indices = int_lit(DType::S32, &[2, 2, 2], &[0, 1, 2, 5, 1, 0, -3, 2]);
    cases.push(Case::of_op("gather windows", Op::Gather(Box::new(windows)), vec![count(DType::F32, &[3, 1, 5]), indices]));
    cases
}

fn scatter(name: String, combiner: Combiner, dims: ScatterDims, x: DType, index: DType, indices: &[i64]) -> Case {
    let n = indices.len() as i64;
    let inputs = vec![ramp(x, &[4, 3]), int_lit(index, &[n], indices), ramp(x, &[n, 3])];
    Case::of_op(name, Op::Scatter { combiner, dims: Box::new(dims) }, inputs)
}

fn scatters() -> Vec<Case> {
    let rows = |unique| ScatterDims {
        update_window_dims: smallvec![1],
        inserted_window_dims: smallvec![0],
        scatter_dims_to_operand_dims: smallvec![0],
        index_vector_dim: 1,
        unique,
    };
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        for combiner in combiners(dtype) {
            let name = format!("scatter {combiner:?} {dtype}");
            cases.push(scatter(name, combiner, rows(false), dtype, DType::S64, &[2, 0, 2, 9, -1, 2]));
        }
        cases.push(scatter(format!("scatter unique {dtype}"), Combiner::Assign, rows(true), dtype, DType::S64, &[2, 0, 9]));
        cases.push(scatter(format!("scatter unique sum {dtype}"), Combiner::Add, rows(true), dtype, DType::S64, &[2, 0, 3]));
    }
    for dtype in [DType::S8, DType::S32, DType::U8, DType::U32, DType::U64] {
        cases.push(scatter(format!("scatter by {dtype}"), Combiner::Add, rows(false), DType::F32, dtype, &[3, 0, 3, -1]));
    }
    let windows = ScatterDims {
        update_window_dims: smallvec![0, 2],
        inserted_window_dims: smallvec![1],
        scatter_dims_to_operand_dims: smallvec![1, 2],
        index_vector_dim: 1,
        unique: false,
    };
    let indices = int_lit(DType::S32, &[3, 2], &[0, 1, 1, 0, 0, 3]);
    let inputs = vec![ramp(DType::F32, &[2, 3, 4]), indices, count(DType::F32, &[2, 3, 2])];
    cases.push(Case::of_op("scatter windows", Op::Scatter { combiner: Combiner::Add, dims: Box::new(windows) }, inputs));
    cases
}

fn dynamic() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::S32, DType::S64, DType::U32, DType::S8, DType::U8] {
        for (row, column) in [(1, 2), (-5, 100), (3, 0)] {
            let start = [row, column].map(|i| int_lit(dtype, &[], &[i]));
            let x = count(DType::F32, &[4, 5]);
            let inputs = [vec![x.clone()], start.to_vec()].concat();
            cases.push(Case::of_op(format!("dynamic slice {dtype} {row} {column}"), Op::DynamicSlice(smallvec![2, 3]), inputs));
            let inputs = [vec![x, ramp(DType::F32, &[2, 3])], start.to_vec()].concat();
            cases.push(Case::of_op(format!("dynamic update {dtype} {row} {column}"), Op::DynamicUpdateSlice, inputs));
        }
    }
    for dtype in DType::ALL {
        let inputs = vec![ramp(dtype, &[5]), ramp(dtype, &[2]), int_lit(DType::S32, &[], &[1])];
        cases.push(Case::of_op(format!("dynamic update of {dtype}"), Op::DynamicUpdateSlice, inputs));
    }
    cases
}

pub fn cases() -> Vec<Case> {
    [gathers(), scatters(), dynamic()].into_iter().flatten().collect()
}
