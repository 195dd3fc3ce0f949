//! Maximum and average pooling and their gradients.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, PadDim, ScatterDims, WindowDim};
use clutch_graph::{DType, Dims, Literal, Op, TensorType, ValueId};

use super::helpers::{cast, extreme, filled, is_nan, place};
use super::norm::result;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.max_pool2d_with_indices.default", |l, c| max_pool(l, c, 2, Position::Plane)),
    ("aten.max_pool3d_with_indices.default", |l, c| max_pool(l, c, 3, Position::Plane)),
    ("aten.max_pool2d_with_indices_backward.default", |l, c| max_pool_backward(l, c, 2)),
    ("aten.max_pool3d_with_indices_backward.default", |l, c| max_pool_backward(l, c, 3)),
    ("prims._low_memory_max_pool_with_offsets.default", |l, c| {
        let axes = c.ints(l, 1, "kernel_size")?.len();
        max_pool(l, c, axes, Position::Window)
    }),
    ("prims._low_memory_max_pool_offsets_to_indices.default", offsets_to_indices),
    ("aten.adaptive_max_pool2d_backward.default", |l, c| scattered(l, c, 2, 2)),
    ("aten.adaptive_max_pool3d_backward.default", |l, c| scattered(l, c, 3, 2)),
    ("aten.avg_pool1d.default", |l, c| avg_pool(l, c, 1)),
    ("aten.avg_pool2d.default", |l, c| avg_pool(l, c, 2)),
    ("aten.avg_pool3d.default", |l, c| avg_pool(l, c, 3)),
    ("aten.avg_pool2d_backward.default", |l, c| avg_pool_backward(l, c, 2)),
    ("aten.avg_pool3d_backward.default", |l, c| avg_pool_backward(l, c, 3)),
];

type Built = Result<ValueId, LowerError>;

/// What a maximum's position is counted in.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    /// The input's pooled axes.
    Plane,
    /// The window.
    Window,
}

/// One pooled axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    axis: usize,
    input: i64,
    output: i64,
    size: i64,
    stride: i64,
    pad: i64,
    dilation: i64,
}

impl Axis {
    /// Elements that the window spans.
    fn span(&self) -> i64 {
        (self.size - 1) * self.dilation + 1
    }

    /// Padding after the last element that the windows reach; negative when they stop short of it.
    fn pad_high(&self) -> i64 {
        (self.output - 1) * self.stride + self.span() - self.input - self.pad
    }

    fn window(&self) -> WindowDim {
        WindowDim {
            size: self.size,
            stride: self.stride,
            pad_low: self.pad,
            pad_high: self.pad_high(),
            window_dilation: self.dilation,
            ..WindowDim::TRIVIAL
        }
    }
}

/// A list argument for each of `n` axes; one value serves all, none gives `default`.
fn per_axis(l: &Lowering<'_>, c: &Call<'_>, index: usize, name: &'static str, n: usize, default: &[i64]) -> Result<Dims, LowerError> {
    let given = c.opt_ints(l, index, name)?.unwrap_or_default();
    match given.len() {
        0 => Ok(default.into()),
        1 => Ok(smallvec::smallvec![given[0]; n]),
        len if len == n => Ok(given),
        _ => Err(LowerError::Argument { index, name, expected: "one value a pooled axis" }),
    }
}

/// The pooled axes. Kernel size is argument `first`, then stride, padding and, if `dilated`, dilation.
fn pooled(
    l: &Lowering<'_>,
    c: &Call<'_>,
    input: &[i64],
    output: &[i64],
    n: usize,
    first: usize,
    dilated: bool,
) -> Result<Vec<Axis>, LowerError> {
    if input.len() < n || output.len() != input.len() {
        return Err(LowerError::unsupported("the tensor has fewer axes than are pooled"));
    }
    let ones: Dims = smallvec::smallvec![1; n];
    let zeros: Dims = smallvec::smallvec![0; n];
    let size = per_axis(l, c, first, "kernel_size", n, &ones)?;
    let stride = per_axis(l, c, first + 1, "stride", n, &size)?;
    let pad = per_axis(l, c, first + 2, "padding", n, &zeros)?;
    let dilation = if dilated { per_axis(l, c, first + 3, "dilation", n, &ones)? } else { ones };
    let skip = input.len() - n;
    Ok((0..n)
        .map(|i| Axis {
            axis: skip + i,
            input: input[skip + i],
            output: output[skip + i],
            size: size[i],
            stride: stride[i],
            pad: pad[i],
            dilation: dilation[i],
        })
        .collect())
}

fn windows(rank: usize, axes: &[Axis]) -> smallvec::SmallVec<[WindowDim; 6]> {
    let mut window = smallvec::smallvec![WindowDim::TRIVIAL; rank];
    for a in axes {
        window[a.axis] = a.window();
    }
    window
}

fn max_pool(l: &mut Lowering<'_>, c: &Call<'_>, n: usize, position: Position) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (dims, out) = (l.b.dims(x), c.out_dims(l)?);
    let axes = pooled(l, c, &dims, &out, n, 1, true)?;
    if out.contains(&0) {
        let dtype = c.out_meta(1)?.dtype;
        return many([l.b.full(l.b.dtype(x), &out, 0.0)?, l.b.full_int(dtype, &out, 0)?]);
    }
    let values = l.b.op(Op::ReduceWindow { combiner: Combiner::Max, window: windows(dims.len(), &axes) }, [x])?;
    let places = positions(l, x, &axes, position)?;
    many([values, result(l, c, 1, places)?])
}

/// The elements that offset `j` of each window takes along the axis; padded with `fill`.
fn taken(l: &mut Lowering<'_>, x: ValueId, a: &Axis, j: i64, fill: ValueId) -> Built {
    let mut pads = vec![PadDim::default(); l.b.rank(x)];
    pads[a.axis] = PadDim { low: a.pad, high: a.pad_high().max(0), interior: 0 };
    let padded = l.b.pad(x, fill, &pads)?;
    let start = j * a.dilation;
    Ok(l.b.slice_axis(padded, a.axis, start, start + (a.output - 1) * a.stride + 1, a.stride)?)
}

/// `S32` position of each window's maximum, axis by axis from the last: as PyTorch's loop over the window, a NaN replaces what stands
/// and padding is never taken.
fn positions(l: &mut Lowering<'_>, x: ValueId, axes: &[Axis], position: Position) -> Built {
    let dtype = l.b.dtype(x);
    let lowest = l.b.constant(extreme(dtype, false).literal(dtype))?;
    let nowhere = l.b.scalar_int(DType::S32, 0)?;
    let (mut best, mut place): (ValueId, Option<ValueId>) = (x, None);
    let mut step = 1;
    for (done, a) in axes.iter().rev().enumerate() {
        let source = best;
        let inner = place;
        let mut dims = l.b.dims(source);
        dims[a.axis] = a.output;
        let mut at = l.b.full_int(DType::S32, &dims, 0)?;
        let mut behind = 1;
        for b in axes.iter().rev().take(done + 1) {
            let first = first_inside(l, &dims, b, position)?;
            let first = l.b.binary_int(BinaryOp::Mul, first, behind)?;
            at = l.b.add(at, first)?;
            behind *= if position == Position::Plane { b.input } else { b.size };
        }
        let mut top = filled(l, extreme(dtype, false), dtype, &dims)?;
        let starts = starts(l, &dims, a)?;
        for j in 0..a.size {
            let value = taken(l, source, a, j, lowest)?;
            let mut candidate = match position {
                Position::Plane => l.b.binary_int(BinaryOp::Add, starts, j * a.dilation)?,
                Position::Window => l.b.full_int(DType::S32, &dims, j)?,
            };
            candidate = l.b.binary_int(BinaryOp::Mul, candidate, step)?;
            if let Some(inner) = inner {
                let inner = taken(l, inner, a, j, nowhere)?;
                candidate = l.b.add(candidate, inner)?;
            }
            let mut better = l.b.compare(CompareDir::Gt, value, top)?;
            if dtype.is_float() {
                let missing = is_nan(l, value)?;
                better = l.b.binary(BinaryOp::Or, better, missing)?;
            }
            top = l.b.select(better, value, top)?;
            at = l.b.select(better, candidate, at)?;
        }
        step *= if position == Position::Plane { a.input } else { a.size };
        (best, place) = (top, Some(at));
    }
    place.ok_or_else(|| LowerError::unsupported("no axis is pooled"))
}

/// Position of each window's first element along the axis, negative in the padding.
fn starts(l: &mut Lowering<'_>, dims: &[i64], a: &Axis) -> Built {
    let count = l.b.iota(DType::S32, dims, a.axis)?;
    let start = l.b.binary_int(BinaryOp::Mul, count, a.stride)?;
    Ok(l.b.binary_int(BinaryOp::Sub, start, a.pad)?)
}

/// The first position along the axis that a window takes inside the input.
fn first_inside(l: &mut Lowering<'_>, dims: &[i64], a: &Axis, position: Position) -> Built {
    let start = starts(l, dims, a)?;
    let short = l.b.binary_int(BinaryOp::Min, start, 0)?;
    let short = l.b.binary_int(BinaryOp::Mul, short, -1)?;
    let short = l.b.binary_int(BinaryOp::Add, short, a.dilation - 1)?;
    let skipped = l.b.binary_int(BinaryOp::Div, short, a.dilation)?;
    if position == Position::Window {
        return Ok(skipped);
    }
    let skipped = l.b.binary_int(BinaryOp::Mul, skipped, a.dilation)?;
    Ok(l.b.add(start, skipped)?)
}

fn offsets_to_indices(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let offsets = c.tensor(l, 0, "self")?;
    let (kernel, input) = (c.ints(l, 1, "kernel_size")?, c.ints(l, 2, "input_size")?);
    let n = kernel.len();
    let (ones, zeros): (Dims, Dims) = (smallvec::smallvec![1; n], smallvec::smallvec![0; n]);
    let stride = per_axis(l, c, 3, "stride", n, &kernel)?;
    let pad = per_axis(l, c, 4, "padding", n, &zeros)?;
    let dilation = per_axis(l, c, 5, "dilation", n, &ones)?;
    let dims = l.b.dims(offsets);
    if dims.len() < n || input.len() != n {
        return Err(LowerError::unsupported("the tensor has fewer axes than are pooled"));
    }
    let mut rest = l.b.convert(offsets, DType::S32)?;
    let mut index = l.b.full_int(DType::S32, &dims, 0)?;
    let mut step = 1;
    for i in (0..n).rev() {
        let axis = dims.len() - n + i;
        let a = Axis { axis, input: input[i], output: dims[axis], size: kernel[i], stride: stride[i], pad: pad[i], dilation: dilation[i] };
        let j = l.b.binary_int(BinaryOp::Rem, rest, a.size)?;
        rest = l.b.binary_int(BinaryOp::Div, rest, a.size)?;
        let start = starts(l, &dims, &a)?;
        let along = l.b.binary_int(BinaryOp::Mul, j, a.dilation)?;
        let at = l.b.add(start, along)?;
        let at = l.b.binary_int(BinaryOp::Mul, at, step)?;
        index = l.b.add(index, at)?;
        step *= a.input;
    }
    one(result(l, c, 0, index)?)
}

/// Each window's gradient goes to its maximum: found again in the input, or, where windows skip elements, by the saved positions.
fn max_pool_backward(l: &mut Lowering<'_>, c: &Call<'_>, n: usize) -> Result<Outputs, LowerError> {
    let (g, x) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "self")?);
    let dims = l.b.dims(x);
    let axes = pooled(l, c, &dims, &l.b.dims(g), n, 2, true)?;
    let plain = l.b.ty(g).numel() > 0 && axes.iter().all(|a| a.dilation == 1);
    if !plain {
        return scattered(l, c, n, 7);
    }
    let mut kept = dims.clone();
    let mut window = windows(dims.len(), &axes);
    let mut pads = vec![PadDim::default(); dims.len()];
    for a in &axes {
        let cropped = (-a.pad_high()).max(0);
        kept[a.axis] -= cropped;
        window[a.axis].pad_high += cropped;
        pads[a.axis].high = cropped;
    }
    let zeros: Dims = smallvec::smallvec![0; dims.len()];
    let ones: Dims = smallvec::smallvec![1; dims.len()];
    let x = l.b.slice(x, &zeros, &kept, &ones)?;
    let g = cast(l, g, l.b.dtype(x))?;
    let dx = l.b.op(Op::SelectAndScatter { window }, [x, g])?;
    let zero = l.b.scalar(l.b.dtype(x), 0.0)?;
    one(l.b.pad(dx, zero, &pads)?)
}

/// Gradients added at positions of the input's last `n` axes taken as one; the positions are argument `index`.
fn scattered(l: &mut Lowering<'_>, c: &Call<'_>, n: usize, index: usize) -> Result<Outputs, LowerError> {
    let (g, at) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, index, "indices")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = out.compute_type();
    let kept = dims.len() - n;
    let (plane, planes): (i64, i64) = (dims[kept..].iter().product(), dims[..kept].iter().product());
    let total = l.b.ty(g).numel();
    if planes * plane == 0 || total == 0 {
        return one(l.b.full(out, &dims, 0.0)?);
    }
    let g = cast(l, g, compute)?;
    let g = l.b.reshape(g, &[total])?;
    let at = l.b.convert(at, DType::S64)?;
    let at = l.b.reshape(at, &[planes, total / planes])?;
    let base = l.b.iota(DType::S64, &[planes, total / planes], 0)?;
    let base = l.b.binary_int(BinaryOp::Mul, base, plane)?;
    let at = l.b.add(at, base)?;
    let at = l.b.reshape(at, &[total, 1])?;
    let zeros = l.b.full(compute, &[planes * plane], 0.0)?;
    let roles = ScatterDims {
        update_window_dims: smallvec::smallvec![],
        inserted_window_dims: smallvec::smallvec![0],
        scatter_dims_to_operand_dims: smallvec::smallvec![0],
        index_vector_dim: 1,
        unique: false,
    };
    let dx = l.b.op(Op::Scatter { combiner: Combiner::Add, dims: Box::new(roles) }, [zeros, at, g])?;
    let dx = cast(l, dx, out)?;
    one(l.b.reshape(dx, &dims)?)
}

/// How an average divides.
struct Average {
    axes: Vec<Axis>,
    include_pad: bool,
    divisor: Option<i64>,
}

/// Arguments of an average pool; kernel size is argument `first`.
fn average(l: &Lowering<'_>, c: &Call<'_>, input: &[i64], output: &[i64], n: usize, first: usize) -> Result<Average, LowerError> {
    let axes = pooled(l, c, input, output, n, first, false)?;
    let include_pad = c.bool_or(first + 4, "count_include_pad", true)?;
    let divisor = c.opt_int(l, first + 5, "divisor_override")?;
    Ok(Average { axes, include_pad, divisor })
}

/// The divisor of each window as a tensor that broadcasts to `dims`.
fn divisor(l: &mut Lowering<'_>, how: &Average, dtype: DType, dims: &[i64]) -> Built {
    if let Some(d) = how.divisor {
        return Ok(l.b.full(dtype, dims, d as f64)?);
    }
    let mut all = l.b.full(dtype, dims, 1.0)?;
    for a in &how.axes {
        let counts: Vec<f64> = (0..a.output)
            .map(|o| {
                let start = o * a.stride - a.pad;
                let end = (start + a.size).min(a.input + a.pad);
                let count = if how.include_pad { end - start } else { end.min(a.input) - start.max(0) };
                count as f64
            })
            .collect();
        let same = counts.iter().all(|&n| n == counts[0]);
        let factor = if same {
            l.b.full(dtype, dims, counts.first().copied().unwrap_or(1.0))?
        } else {
            let literal = Literal::from_f64(TensorType::new(dtype, [a.output]), &counts)
                .map_err(|e| LowerError::unsupported(format!("internal: {e}")))?;
            let vector = l.b.constant(literal)?;
            l.b.broadcast_in_dim(vector, dims, &[a.axis])?
        };
        all = l.b.mul(all, factor)?;
    }
    Ok(all)
}

fn avg_pool(l: &mut Lowering<'_>, c: &Call<'_>, n: usize) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    if !dtype.is_float() {
        return Err(LowerError::unsupported("averages of integers"));
    }
    let dims = l.b.dims(x);
    let how = average(l, c, &dims, &out, n, 1)?;
    if out.contains(&0) {
        return one(l.b.full(dtype, &out, 0.0)?);
    }
    let x = cast(l, x, dtype.compute_type())?;
    let sum = l.b.op(Op::ReduceWindow { combiner: Combiner::Add, window: windows(dims.len(), &how.axes) }, [x])?;
    let count = divisor(l, &how, dtype.compute_type(), &out)?;
    let y = l.b.div(sum, count)?;
    one(cast(l, y, dtype)?)
}

/// The transposed window sum: gradients spread by the stride, padded, and summed over windows of step 1.
fn avg_pool_backward(l: &mut Lowering<'_>, c: &Call<'_>, n: usize) -> Result<Outputs, LowerError> {
    let (g, x) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "self")?);
    let (dtype, dims, out) = (c.out_dtype()?, l.b.dims(x), l.b.dims(g));
    let compute = dtype.compute_type();
    let how = average(l, c, &dims, &out, n, 2)?;
    if out.contains(&0) || dims.contains(&0) {
        return one(l.b.full(dtype, &dims, 0.0)?);
    }
    let g = place(l, g.into(), compute, &out)?;
    let count = divisor(l, &how, compute, &out)?;
    let g = l.b.div(g, count)?;
    let mut pads = vec![PadDim::default(); dims.len()];
    let mut window = smallvec::smallvec![WindowDim::TRIVIAL; dims.len()];
    for a in &how.axes {
        let low = a.size - 1 - a.pad;
        let high = a.input + a.size - 1 - low - (a.output - 1) * a.stride - 1;
        pads[a.axis] = PadDim { low, high, interior: a.stride - 1 };
        window[a.axis] = WindowDim { size: a.size, ..WindowDim::TRIVIAL };
    }
    let zero = l.b.scalar(compute, 0.0)?;
    let padded = l.b.pad(g, zero, &pads)?;
    let dx = l.b.op(Op::ReduceWindow { combiner: Combiner::Add, window }, [padded])?;
    one(cast(l, dx, dtype)?)
}
