//! Adaptive maximum pooling.

use clutch_graph::op::{Axes, Combiner, CompareDir, Op};
use clutch_graph::{DType, Dims, Literal, TensorType, ValueId};

use super::helpers::{Scalar, filled, take_axis};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.adaptive_max_pool2d.default", |l, c| adaptive_max_pool(l, c, 2)),
    ("aten.adaptive_max_pool3d.default", |l, c| adaptive_max_pool(l, c, 3)),
];

/// The windows of one axis, from floor(o * in / out) up to ceil((o + 1) * in / out), all as long as the longest: the last element of a
/// shorter one is repeated, which changes no first maximum.
struct Windows {
    length: i64,
    /// Positions, window major.
    places: Vec<i64>,
}

impl Windows {
    fn new(input: i64, output: i64) -> Self {
        let ends: Vec<(i64, i64)> = (0..output).map(|o| (o * input / output, ((o + 1) * input + output - 1) / output)).collect();
        let length = ends.iter().map(|(start, end)| end - start).max().unwrap_or(0);
        let places = ends.iter().flat_map(|&(start, end)| (0..length).map(move |k| (start + k).min(end - 1))).collect();
        Windows { length, places }
    }
}

/// Positions in the plane of every window's elements: windows in order, elements in order within each.
fn plane_places(axes: &[Windows], input: &[i64], output: &[i64]) -> Vec<f64> {
    let mut all = vec![0i64];
    let mut counts = vec![(1i64, 1i64)];
    // Grows a table [windows, elements] by one axis at a time.
    for ((w, &size), &out) in axes.iter().zip(input).zip(output) {
        let (windows, elements) = counts[counts.len() - 1];
        let mut next = Vec::with_capacity(all.len() * w.places.len());
        for i in 0..windows {
            for o in 0..out {
                for e in 0..elements {
                    for k in 0..w.length {
                        next.push(all[(i * elements + e) as usize] * size + w.places[(o * w.length + k) as usize]);
                    }
                }
            }
        }
        all = next;
        counts.push((windows * out, elements * w.length));
    }
    all.into_iter().map(|p| p as f64).collect()
}

fn adaptive_max_pool(l: &mut Lowering<'_>, c: &Call<'_>, n: usize) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (dims, out) = (l.b.dims(x), c.out_dims(l)?);
    let dtype = l.b.dtype(x);
    if out.contains(&0) || dims.contains(&0) {
        return many([filled(l, Scalar::Int(0), dtype, &out)?, filled(l, Scalar::Int(0), DType::S64, &out)?]);
    }
    let skip = dims.len() - n;
    let axes: Vec<Windows> = (skip..dims.len()).map(|a| Windows::new(dims[a], out[a])).collect();
    let mut y = x;
    for (i, w) in axes.iter().enumerate() {
        let places = l.b.constant(Literal::vector_i64(DType::S32, &w.places))?;
        y = take_axis(l, y, skip + i, places)?;
    }
    let mut split: Dims = dims[..skip].into();
    for (w, &o) in axes.iter().zip(&out[skip..]) {
        split.extend([o, w.length]);
    }
    y = l.b.reshape(y, &split)?;
    let order: Axes = (0..skip).chain((0..n).map(|i| skip + 2 * i)).chain((0..n).map(|i| skip + 2 * i + 1)).collect();
    y = l.b.transpose(y, &order)?;
    let elements: i64 = axes.iter().map(|w| w.length).product();
    let mut flat = out.clone();
    flat.push(elements);
    y = l.b.reshape(y, &flat)?;
    let last = out.len();
    let values = l.b.reduce(Combiner::Max, y, &[last])?;
    let chosen = l.b.op(Op::ArgReduce { axis: last, max: true }, [y])?;
    let kept: Axes = (0..last).collect();
    let chosen = l.b.broadcast_in_dim(chosen, &flat, &kept)?;
    let counted = l.b.iota(DType::S64, &flat, last)?;
    let here = l.b.compare(CompareDir::Eq, chosen, counted)?;
    let table = TensorType::new(DType::S64, flat[skip..].iter().copied());
    let places = Literal::from_f64(table, &plane_places(&axes, &dims[skip..], &out[skip..]))
        .map_err(|e| LowerError::unsupported(format!("internal: {e}")))?;
    let places = l.b.constant(places)?;
    let places = l.b.expand(places, &flat)?;
    let none: ValueId = l.b.full_like(places, 0.0)?;
    let places = l.b.select(here, places, none)?;
    let places = l.b.reduce(Combiner::Add, places, &[last])?;
    many([values, places])
}
