//! Gathers, scatters and dynamic slices.

use crate::interp::complex::Number;
use crate::interp::elems::{Elems, decode, decode_int, each_index, encode, literal, position};
use crate::interp::movement::{put, take};
use crate::interp::reduce::{combine_complex, combine_int, combine_real};
use crate::literal::Literal;
use crate::op::{Axes, Combiner, GatherDims, ScatterDims};
use crate::types::{Dims, TensorType, row_major_strides};

/// An index moved so that a slice of `size` starting there fits into `dim`.
fn clamp(index: i128, size: i64, dim: i64) -> i64 {
    index.clamp(0, i128::from(dim - size)) as i64
}

/// Index vectors laid out along an axis of a tensor.
struct IndexVectors {
    values: Vec<i128>,
    strides: Dims,
    vector_dim: usize,
    /// Operand axis of each component.
    axes: Axes,
}

impl IndexVectors {
    fn new(indices: &Literal, vector_dim: usize, axes: &Axes) -> Self {
        IndexVectors { values: decode_int(indices), strides: row_major_strides(&indices.ty().dims), vector_dim, axes: axes.clone() }
    }

    /// Start index on each operand axis, unclamped, for an index over the other axes; 0 on axes that have no component.
    fn start(&self, batch: &[i64], rank: usize) -> Vec<i128> {
        let mut base = 0;
        let mut rest = batch.iter();
        for (a, stride) in self.strides.iter().enumerate() {
            if a != self.vector_dim {
                base += rest.next().unwrap_or(&0) * stride;
            }
        }
        let step = self.strides.get(self.vector_dim).copied().unwrap_or(0);
        let mut start = vec![0; rank];
        for (c, &axis) in self.axes.iter().enumerate() {
            start[axis] = self.values[(base + c as i64 * step) as usize];
        }
        start
    }
}

/// The parts of an index on the listed axes and on the others.
fn split(index: &[i64], axes: &[usize]) -> (Dims, Dims) {
    let (inside, outside): (Vec<_>, Vec<_>) = index.iter().enumerate().partition(|(a, _)| axes.contains(a));
    (inside.into_iter().map(|(_, &i)| i).collect(), outside.into_iter().map(|(_, &i)| i).collect())
}

pub(super) fn gather(x: &Literal, indices: &Literal, g: &GatherDims, out: &TensorType) -> Literal {
    let dims = &x.ty().dims;
    let strides = row_major_strides(dims);
    let vectors = IndexVectors::new(indices, g.index_vector_dim, &g.start_index_map);
    take(x, out, |index| {
        let (offset, batch) = split(index, &g.offset_dims);
        let mut offset = offset.into_iter();
        let start = vectors.start(&batch, dims.len());
        let element = |a: usize| {
            let inside = if g.collapsed_slice_dims.contains(&a) { 0 } else { offset.next().unwrap_or(0) };
            clamp(start[a], g.slice_sizes[a], dims[a]) + inside
        };
        let full: Dims = (0..dims.len()).map(element).collect();
        position(&full, &strides)
    })
}

/// Calls `f` with the operand position and the update position of each update in range, in order.
fn each_update(x: &TensorType, indices: &Literal, updates: &TensorType, d: &ScatterDims, mut f: impl FnMut(usize, usize)) {
    let strides = row_major_strides(&x.dims);
    let vectors = IndexVectors::new(indices, d.index_vector_dim, &d.scatter_dims_to_operand_dims);
    let spread = |window: &[i64], other: i64| -> Dims {
        let mut window = window.iter().copied();
        (0..x.rank()).map(|a| if d.inserted_window_dims.contains(&a) { other } else { window.next().unwrap_or(other) }).collect()
    };
    let sizes = spread(&split(&updates.dims, &d.update_window_dims).0, 1);
    each_index(&updates.dims, |from, index| {
        let (window, batch) = split(index, &d.update_window_dims);
        let start = vectors.start(&batch, x.rank());
        let fits = (0..x.rank()).all(|a| (0..=i128::from(x.dims[a] - sizes[a])).contains(&start[a]));
        if fits {
            let inside = spread(&window, 0);
            let full: Dims = start.iter().zip(&inside).map(|(&s, i)| s as i64 + i).collect();
            f(position(&full, &strides), from);
        }
    });
}

/// Scatter that overwrites; of several updates to one element the last wins.
pub(super) fn scatter_assign(x: &Literal, indices: &Literal, updates: &Literal, d: &ScatterDims) -> Literal {
    let mut bytes = x.bytes().to_vec();
    each_update(x.ty(), indices, updates.ty(), d, |to, from| put(&mut bytes, to, updates, from));
    literal(x.ty(), bytes)
}

/// Scatter that combines; reals accumulate in `f64`.
pub(super) fn scatter(x: &Literal, indices: &Literal, updates: &Literal, combiner: Combiner, d: &ScatterDims) -> Literal {
    let mut elems = decode(x);
    let ut = updates.ty();
    match (&mut elems, decode(updates)) {
        (Elems::Int(v), Elems::Int(u)) => {
            let combine = combine_int(combiner);
            each_update(x.ty(), indices, ut, d, |to, from| v[to] = combine(v[to], u[from]));
        }
        (Elems::Real(v), Elems::Real(u)) => {
            let combine = combine_real(combiner);
            each_update(x.ty(), indices, ut, d, |to, from| v[to] = combine(v[to], u[from]));
        }
        (Elems::Complex(v), Elems::Complex(u)) => {
            let combine = combine_complex(combiner);
            each_update(x.ty(), indices, ut, d, |to, from| v[to] = combine(v[to], u[from]));
        }
        _ => unreachable!("the shape rule asks for equal element types"),
    }
    encode(x.ty(), elems)
}

/// Clamped start indices from one scalar per axis.
fn starts(indices: &[Literal], sizes: &[i64], dims: &[i64]) -> Dims {
    indices.iter().enumerate().map(|(a, i)| clamp(decode_int(i).first().copied().unwrap_or(i128::ZERO), sizes[a], dims[a])).collect()
}

pub(super) fn dynamic_slice(x: &Literal, indices: &[Literal], out: &TensorType) -> Literal {
    let start = starts(indices, &out.dims, &x.ty().dims);
    let strides = row_major_strides(&x.ty().dims);
    let base = position(&start, &strides);
    take(x, out, |index| base + position(index, &strides))
}

pub(super) fn dynamic_update_slice(x: &Literal, update: &Literal, indices: &[Literal]) -> Literal {
    let start = starts(indices, &update.ty().dims, &x.ty().dims);
    let strides = row_major_strides(&x.ty().dims);
    let base = position(&start, &strides);
    let mut bytes = x.bytes().to_vec();
    each_index(&update.ty().dims, |from, index| put(&mut bytes, base + position(index, &strides), update, from));
    literal(x.ty(), bytes)
}
