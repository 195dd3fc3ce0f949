//! Threefry-2x32 with 20 rounds (Salmon et al. 2011) as elementwise integer arithmetic.

use std::sync::Arc;

use clutch_graph::builder::{Builder, Built};
use clutch_graph::graph::InputKind;
use clutch_graph::op::{BinaryOp, CompareDir, Op};
use clutch_graph::{DType, Dims, Graph, GraphError, TensorType, ValueId};
use rustc_hash::FxHashMap;

use crate::options::PassOptions;
use crate::rewrite::drop_dead;
use crate::simplify::simplify;

const ROTATIONS: [[i64; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
const PARITY: i64 = 0x1BD1_1BDA;

/// Generator bodies by result sizes: draws of equal sizes share one.
#[derive(Default)]
pub(crate) struct Bodies(FxHashMap<Dims, Arc<Graph>>);

impl Bodies {
    /// Random bits of the given sizes as a call of the shared body on both halves of the key and of the first counter.
    pub fn random_bits(&mut self, b: &mut Builder, key: ValueId, dims: &Dims, stream: u32, options: &PassOptions) -> Built {
        let body = match self.0.get(dims) {
            Some(body) => body.clone(),
            None => {
                let body = Arc::new(drop_dead(&simplify(&generator(dims)?, options)?)?);
                self.0.insert(dims.clone(), body.clone());
                body
            }
        };
        let low = b.convert(key, DType::U32)?;
        let high = b.binary_int(BinaryOp::ShiftRightLogical, key, 32)?;
        let high = b.convert(high, DType::U32)?;
        let counter_high = b.scalar_int(DType::U32, i64::from(stream << 8))?;
        b.op(Op::Call(body), [low, high, counter_high])
    }
}

/// A graph from key halves and the counter's stream bits to the bits. Every element runs the rounds of its block and takes its word, so that
/// the whole generator is one elementwise loop that its consumer can join.
fn generator(dims: &Dims) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let scalar = TensorType::scalar(DType::U32);
    let [low, high, stream] = [(); 3].map(|()| b.parameter(scalar.clone(), InputKind::Dynamic));
    let count: i64 = dims.iter().product();
    let (index, upper) = if count <= 1 << 32 {
        (b.iota(DType::U32, &[count], 0)?, None)
    } else {
        let wide = b.iota(DType::U64, &[count], 0)?;
        let upper = b.binary_int(BinaryOp::ShiftRightLogical, wide, 33)?;
        let block = b.binary_int(BinaryOp::ShiftRightLogical, wide, 1)?;
        let block = b.convert(block, DType::U32)?;
        let odd = b.binary_int(BinaryOp::And, wide, 1)?;
        let odd = b.convert(odd, DType::U32)?;
        (odd, Some((block, b.convert(upper, DType::U32)?)))
    };
    let spread = |b: &mut Builder, v| b.broadcast_in_dim(v, &[count], &[]);
    let parity = b.scalar_int(DType::U32, PARITY)?;
    let mixed = b.binary(BinaryOp::Xor, low, high)?;
    let mixed = b.binary(BinaryOp::Xor, mixed, parity)?;
    let keys = [low, high, mixed];
    let stream = spread(&mut b, stream)?;
    let (block, counter_high) = match upper {
        None => (b.binary_int(BinaryOp::ShiftRightLogical, index, 1)?, stream),
        Some((block, upper)) => (block, b.add(stream, upper)?),
    };
    let first = spread(&mut b, keys[0])?;
    let second = spread(&mut b, keys[1])?;
    let mut x = b.add(block, first)?;
    let mut y = b.add(counter_high, second)?;
    for group in 0..5 {
        for &distance in &ROTATIONS[group % 2] {
            x = b.add(x, y)?;
            let left = b.binary_int(BinaryOp::ShiftLeft, y, distance)?;
            let right = b.binary_int(BinaryOp::ShiftRightLogical, y, 32 - distance)?;
            let rotated = b.binary(BinaryOp::Or, left, right)?;
            y = b.binary(BinaryOp::Xor, rotated, x)?;
        }
        let round_key = spread(&mut b, keys[(group + 1) % 3])?;
        x = b.add(x, round_key)?;
        let injected = b.binary_int(BinaryOp::Add, keys[(group + 2) % 3], group as i64 + 1)?;
        let injected = spread(&mut b, injected)?;
        y = b.add(y, injected)?;
    }
    let odd = b.binary_int(BinaryOp::And, index, 1)?;
    let zero = b.full_int(DType::U32, &[count], 0)?;
    let even = b.compare(CompareDir::Eq, odd, zero)?;
    let bits = b.select(even, x, y)?;
    let bits = b.reshape(bits, dims)?;
    Ok(b.finish([bits]))
}
