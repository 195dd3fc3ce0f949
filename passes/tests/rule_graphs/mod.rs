//! For each rule, graphs that it applies to.

mod composites;
mod linear;
mod movement;
mod values;

use clutch_graph::builder::Builder;
use clutch_graph::graph::InputKind;
use clutch_graph::{DType, Graph, GraphError, TensorType, ValueId};

use crate::common::Numbers;

/// Graphs that a rule applies to, at least half of the time.
pub struct Case {
    pub rule: &'static str,
    pub graph: fn(&mut Numbers) -> Result<Graph, GraphError>,
}

pub static CASES: std::sync::LazyLock<Vec<&'static Case>> =
    std::sync::LazyLock::new(|| linear::CASES.iter().chain(movement::CASES).chain(values::CASES).chain(composites::CASES).collect());

/// `low..=high`.
pub fn whole(n: &mut Numbers, low: i64, high: i64) -> i64 {
    low + ((n.next() + 1.0) / 2.0 * (high - low + 1) as f64) as i64
}

pub fn pick<T: Copy>(n: &mut Numbers, list: &[T]) -> T {
    list[whole(n, 0, list.len() as i64 - 1) as usize]
}

pub fn sizes(n: &mut Numbers, rank: usize) -> Vec<i64> {
    (0..rank).map(|_| whole(n, 1, 5)).collect()
}

pub fn permutation(n: &mut Numbers, rank: usize) -> Vec<usize> {
    let mut perm: Vec<usize> = (0..rank).collect();
    for i in (1..rank).rev() {
        perm.swap(i, whole(n, 0, i as i64) as usize);
    }
    perm
}

pub fn input(b: &mut Builder, dtype: DType, dims: &[i64]) -> ValueId {
    b.parameter(TensorType::new(dtype, dims.iter().copied()), InputKind::Dynamic)
}

pub fn weight(b: &mut Builder, dtype: DType, dims: &[i64]) -> ValueId {
    b.parameter(TensorType::new(dtype, dims.iter().copied()), InputKind::Static)
}

pub const FLOATS: [DType; 2] = [DType::F32, DType::F64];
pub const ANY: [DType; 6] = [DType::F32, DType::F64, DType::BF16, DType::S32, DType::S64, DType::U8];
