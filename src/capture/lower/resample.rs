//! Adaptive averages and interpolation: separable linear maps of the trailing axes, each a fixed matrix, and their gradients.

use clutch_graph::op::{Combiner, DotDims, Op, Precision};
use clutch_graph::{DType, Dims, Literal, TensorType, ValueId};

use super::helpers::{cast, take_axis};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten._adaptive_avg_pool2d.default", |l, c| adaptive(l, c, 2)),
    ("aten._adaptive_avg_pool3d.default", |l, c| adaptive(l, c, 3)),
    ("aten._adaptive_avg_pool2d_backward.default", |l, c| adaptive_backward(l, c, 2)),
    ("aten._adaptive_avg_pool3d_backward.default", |l, c| adaptive_backward(l, c, 3)),
    ("aten.upsample_nearest1d.default", |l, c| interpolate(l, c, 1, Kernel::Nearest { exact: false })),
    ("aten.upsample_nearest2d.default", |l, c| interpolate(l, c, 2, Kernel::Nearest { exact: false })),
    ("aten.upsample_nearest3d.default", |l, c| interpolate(l, c, 3, Kernel::Nearest { exact: false })),
    ("aten._upsample_nearest_exact1d.default", |l, c| interpolate(l, c, 1, Kernel::Nearest { exact: true })),
    ("aten._upsample_nearest_exact2d.default", |l, c| interpolate(l, c, 2, Kernel::Nearest { exact: true })),
    ("aten._upsample_nearest_exact3d.default", |l, c| interpolate(l, c, 3, Kernel::Nearest { exact: true })),
    ("aten.upsample_nearest1d_backward.default", |l, c| interpolate_backward(l, c, 1, Kernel::Nearest { exact: false })),
    ("aten.upsample_nearest2d_backward.default", |l, c| interpolate_backward(l, c, 2, Kernel::Nearest { exact: false })),
    ("aten.upsample_nearest3d_backward.default", |l, c| interpolate_backward(l, c, 3, Kernel::Nearest { exact: false })),
    ("aten._upsample_nearest_exact1d_backward.default", |l, c| interpolate_backward(l, c, 1, Kernel::Nearest { exact: true })),
    ("aten._upsample_nearest_exact2d_backward.default", |l, c| interpolate_backward(l, c, 2, Kernel::Nearest { exact: true })),
    ("aten._upsample_nearest_exact3d_backward.default", |l, c| interpolate_backward(l, c, 3, Kernel::Nearest { exact: true })),
    ("aten.upsample_linear1d.default", |l, c| interpolate(l, c, 1, Kernel::Linear)),
    ("aten.upsample_bilinear2d.default", |l, c| interpolate(l, c, 2, Kernel::Linear)),
    ("aten.upsample_trilinear3d.default", |l, c| interpolate(l, c, 3, Kernel::Linear)),
    ("aten.upsample_linear1d_backward.default", |l, c| interpolate_backward(l, c, 1, Kernel::Linear)),
    ("aten.upsample_bilinear2d_backward.default", |l, c| interpolate_backward(l, c, 2, Kernel::Linear)),
    ("aten.upsample_trilinear3d_backward.default", |l, c| interpolate_backward(l, c, 3, Kernel::Linear)),
    ("aten.upsample_bicubic2d.default", |l, c| interpolate(l, c, 2, Kernel::Cubic)),
    ("aten.upsample_bicubic2d_backward.default", |l, c| interpolate_backward(l, c, 2, Kernel::Cubic)),
    ("aten._upsample_bilinear2d_aa.default", |l, c| interpolate(l, c, 2, LINEAR_AA)),
    ("aten._upsample_bilinear2d_aa_backward.default", |l, c| interpolate_backward(l, c, 2, LINEAR_AA)),
    ("aten._upsample_bicubic2d_aa.default", |l, c| interpolate(l, c, 2, CUBIC_AA)),
    ("aten._upsample_bicubic2d_aa_backward.default", |l, c| interpolate_backward(l, c, 2, CUBIC_AA)),
    ("aten._upsample_lanczos2d_aa.default", |l, c| interpolate(l, c, 2, LANCZOS_AA)),
    ("aten._upsample_lanczos2d_aa_backward.default", |l, c| interpolate_backward(l, c, 2, LANCZOS_AA)),
];

type Built = Result<ValueId, LowerError>;

/// For each output position the input positions that it is made of and their weights.
type Taps = Vec<Vec<(i64, f64)>>;

/// The map along `axis` by its matrix, or by the transposed one.
fn apply(l: &mut Lowering<'_>, x: ValueId, axis: usize, taps: &Taps, input: i64, transposed: bool) -> Built {
    let output = taps.len() as i64;
    let dtype = l.b.dtype(x);
    let mut matrix = vec![0.0; (output * input) as usize];
    for (o, row) in taps.iter().enumerate() {
        for &(i, w) in row {
            matrix[o * input as usize + i as usize] += w;
        }
    }
    let literal = Literal::from_f64(TensorType::new(dtype, [output, input]), &matrix)
        .map_err(|e| LowerError::unsupported(format!("internal: {e}")))?;
    let matrix = l.b.constant(literal)?;
    let contract = usize::from(!transposed);
    let roles = DotDims { lhs_contract: smallvec::smallvec![axis], rhs_contract: smallvec::smallvec![contract], ..DotDims::default() };
    let y = l.b.dot_general(x, matrix, roles, dtype, Precision::Highest)?;
    let last = l.b.rank(y) - 1;
    let mut order: Vec<usize> = (0..last).collect();
    order.insert(axis, last);
    Ok(l.b.transpose(y, &order)?)
}

/// Windows from floor(o * in / out) up to ceil((o + 1) * in / out), averaged.
fn adaptive_taps(input: i64, output: i64) -> Taps {
    (0..output)
        .map(|o| {
            let (start, end) = (o * input / output, ((o + 1) * input + output - 1) / output);
            (start..end).map(|i| (i, 1.0 / (end - start) as f64)).collect()
        })
        .collect()
}

fn adaptive(l: &mut Lowering<'_>, c: &Call<'_>, n: usize) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    let dims = l.b.dims(x);
    if dims.contains(&0) || out.contains(&0) {
        return one(l.b.full(dtype, &out, 0.0)?);
    }
    let mut y = cast(l, x, dtype.compute_type())?;
    for axis in dims.len() - n..dims.len() {
        let (input, output) = (dims[axis], out[axis]);
        if input % output == 0 {
            y = averaged(l, y, axis, output)?;
        } else {
            y = apply(l, y, axis, &adaptive_taps(input, output), input, false)?;
        }
    }
    one(cast(l, y, dtype)?)
}

/// Sizes with the axis split into `output` parts.
fn split(dims: &[i64], axis: usize, output: i64) -> Dims {
    let mut sizes: Dims = dims.into();
    sizes[axis] = output;
    sizes.insert(axis + 1, dims[axis] / output);
    sizes
}

/// Averages of equal parts of an axis.
fn averaged(l: &mut Lowering<'_>, x: ValueId, axis: usize, output: i64) -> Built {
    let sizes = split(&l.b.dims(x), axis, output);
    let parts = l.b.reshape(x, &sizes)?;
    let sum = l.b.reduce(Combiner::Add, parts, &[axis + 1])?;
    Ok(l.b.binary_scalar(clutch_graph::op::BinaryOp::Div, sum, sizes[axis + 1] as f64)?)
}

/// Each element of the axis repeated `times` times.
fn repeated(l: &mut Lowering<'_>, x: ValueId, axis: usize, times: i64) -> Built {
    let mut dims = l.b.dims(x);
    let mut wide = dims.clone();
    wide.insert(axis + 1, times);
    let kept: Vec<usize> = (0..wide.len()).filter(|&a| a != axis + 1).collect();
    let spread = l.b.broadcast_in_dim(x, &wide, &kept)?;
    dims[axis] *= times;
    Ok(l.b.reshape(spread, &dims)?)
}

fn adaptive_backward(l: &mut Lowering<'_>, c: &Call<'_>, n: usize) -> Result<Outputs, LowerError> {
    let g = c.tensor(l, 0, "grad_output")?;
    let (dtype, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let out = l.b.dims(g);
    if dims.contains(&0) || out.contains(&0) {
        return one(l.b.full(dtype, &dims, 0.0)?);
    }
    let mut y = cast(l, g, dtype.compute_type())?;
    for axis in dims.len() - n..dims.len() {
        let (input, output) = (dims[axis], out[axis]);
        if input % output == 0 {
            y = l.b.binary_scalar(clutch_graph::op::BinaryOp::Div, y, (input / output) as f64)?;
            y = repeated(l, y, axis, input / output)?;
        } else {
            y = apply(l, y, axis, &adaptive_taps(input, output), input, true)?;
        }
    }
    one(cast(l, y, dtype)?)
}

/// How an interpolation weighs its neighbours.
#[derive(Clone, Copy)]
enum Kernel {
    /// One neighbour; `exact` takes the one nearest to the centre.
    Nearest { exact: bool },
    /// Two neighbours.
    Linear,
    /// Four neighbours, the cubic of a = -0.75.
    Cubic,
    /// All neighbours under a filter that widens with the step, so that shrinking averages.
    Wide {
        /// Reach of the filter in elements, at step 1 and below.
        reach: f64,
        /// The filter at a distance.
        filter: fn(f64) -> f64,
    },
}

const LINEAR_AA: Kernel = Kernel::Wide { reach: 1.0, filter: |d| (1.0 - d.abs()).max(0.0) };

const CUBIC_AA: Kernel = Kernel::Wide {
    reach: 2.0,
    filter: |d| {
        const A: f64 = -0.5;
        match d.abs() {
            d if d < 1.0 => ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0,
            d if d < 2.0 => ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A,
            _ => 0.0,
        }
    },
};

const LANCZOS_AA: Kernel = Kernel::Wide {
    reach: 3.0,
    filter: |d| {
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) };
        if d.abs() < 3.0 { sinc(d) * sinc(d / 3.0) } else { 0.0 }
    },
};

/// Taps of the output at `o` under a filter that widens with the step; their weights sum to 1.
fn wide_taps(o: i64, step: f64, input: i64, reach: f64, filter: fn(f64) -> f64) -> Vec<(i64, f64)> {
    let stretch = step.max(1.0);
    let (centre, reach) = (step * (o as f64 + 0.5), reach * stretch);
    let start = ((centre - reach + 0.5) as i64).max(0);
    let end = ((centre + reach + 0.5) as i64).min(input);
    let row: Vec<(i64, f64)> = (start..end).map(|i| (i, filter((i as f64 - centre + 0.5) / stretch))).collect();
    let sum: f64 = row.iter().map(|(_, w)| w).sum();
    row.into_iter().map(|(i, w)| (i, w / sum)).collect()
}

/// Input steps an output step; the scale that the user gave counts before the sizes.
fn step(input: i64, output: i64, align: bool, scale: Option<f64>) -> f64 {
    if align {
        return if output > 1 { (input - 1) as f64 / (output - 1) as f64 } else { 0.0 };
    }
    match scale {
        Some(s) if s > 0.0 => 1.0 / s,
        _ => input as f64 / output as f64,
    }
}

/// Weights of the four neighbours of a point at distance `t` behind the second.
fn cubic(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |d: f64| ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0;
    let far = |d: f64| ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// Positions are found in `f32`, as PyTorch finds them for every type but `f64`.
fn taps(kernel: Kernel, input: i64, output: i64, align: bool, scale: Option<f64>, double: bool) -> Taps {
    let round = |x: f64| if double { x } else { f64::from(x as f32) };
    let step = round(step(input, output, align, scale));
    let inside = |i: i64| i.clamp(0, input - 1);
    (0..output)
        .map(|o| match kernel {
            Kernel::Nearest { exact } => {
                let step = f64::from(step as f32);
                let at = if exact { (o as f32 + 0.5) * step as f32 } else { o as f32 * step as f32 };
                vec![(inside(at.floor() as i64), 1.0)]
            }
            Kernel::Linear => {
                let at = if align { round(step * o as f64) } else { round(step * (o as f64 + 0.5) - 0.5).max(0.0) };
                let low = inside(at.floor() as i64);
                let t = round(at - low as f64).clamp(0.0, 1.0);
                vec![(low, 1.0 - t), (inside(low + 1), t)]
            }
            Kernel::Cubic => {
                let at = if align { round(step * o as f64) } else { round(step * (o as f64 + 0.5) - 0.5) };
                let low = at.floor();
                let t = round(at - low).clamp(0.0, 1.0);
                cubic(t).iter().zip(-1..).map(|(&w, d)| (inside(low as i64 + d), w)).collect()
            }
            Kernel::Wide { reach, filter } => wide_taps(o, step, input, reach, filter),
        })
        .collect()
}

/// Taps of each interpolated axis. `first` is the argument after the sizes.
fn axes_taps(l: &Lowering<'_>, c: &Call<'_>, n: usize, first: usize, kernel: Kernel, sizes: [&[i64]; 2]) -> Result<Vec<Taps>, LowerError> {
    let nearest = matches!(kernel, Kernel::Nearest { .. });
    let align = !nearest && c.bool_or(first, "align_corners", false)?;
    let scales = first + usize::from(!nearest);
    let names = [["scales", "", ""], ["scales_h", "scales_w", ""], ["scales_d", "scales_h", "scales_w"]][n - 1];
    let double = c.out_dtype()? == DType::F64;
    let [input, output] = sizes;
    let skip = input.len() - n;
    (0..n)
        .map(|i| {
            let scale = c.opt_float(l, scales + i, names[i])?;
            Ok(taps(kernel, input[skip + i], output[skip + i], align, scale, double))
        })
        .collect()
}

/// Times that a nearest map repeats each element, when it does so evenly.
fn repeats(taps: &Taps, input: i64) -> Option<i64> {
    let times = (taps.len() as i64).checked_div(input)?;
    let even = times > 0 && times * input == taps.len() as i64 && taps.iter().zip(0..).all(|(row, o)| row[..] == [(o / times, 1.0)]);
    even.then_some(times)
}

fn interpolate(l: &mut Lowering<'_>, c: &Call<'_>, n: usize, kernel: Kernel) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "self")?;
    let (dtype, dims, out) = (c.out_dtype()?, l.b.dims(x), c.out_dims(l)?);
    if !dtype.is_float() && !matches!(kernel, Kernel::Nearest { .. }) {
        return Err(LowerError::unsupported("interpolation of integers"));
    }
    if dims.contains(&0) || out.contains(&0) {
        return one(l.b.full(dtype, &out, 0.0)?);
    }
    let maps = axes_taps(l, c, n, 2, kernel, [&dims, &out])?;
    let skip = dims.len() - n;
    if let Kernel::Nearest { .. } = kernel {
        let mut y = x;
        for (i, map) in maps.iter().enumerate() {
            y = match repeats(map, dims[skip + i]) {
                Some(times) => repeated(l, y, skip + i, times)?,
                None => {
                    let places: Vec<i64> = map.iter().map(|row| row[0].0).collect();
                    let places = l.b.constant(Literal::vector_i64(DType::S32, &places))?;
                    take_axis(l, y, skip + i, places)?
                }
            };
        }
        return one(y);
    }
    let mut y = cast(l, x, dtype.compute_type())?;
    for (i, map) in maps.iter().enumerate() {
        y = apply(l, y, skip + i, map, dims[skip + i], false)?;
    }
    one(cast(l, y, dtype)?)
}

fn interpolate_backward(l: &mut Lowering<'_>, c: &Call<'_>, n: usize, kernel: Kernel) -> Result<Outputs, LowerError> {
    let g = c.tensor(l, 0, "grad_output")?;
    let (dtype, dims, out) = (c.out_dtype()?, c.out_dims(l)?, l.b.dims(g));
    if dims.contains(&0) || out.contains(&0) {
        return one(l.b.full(dtype, &dims, 0.0)?);
    }
    let maps = axes_taps(l, c, n, 3, kernel, [&dims, &out])?;
    let skip = dims.len() - n;
    let mut y = cast(l, g, dtype.compute_type())?;
    for (i, map) in maps.iter().enumerate() {
        let (axis, input) = (skip + i, dims[skip + i]);
        y = match repeats(map, input) {
            Some(times) if matches!(kernel, Kernel::Nearest { .. }) => {
                let parts = split(&l.b.dims(y), axis, input);
                debug_assert_eq!(parts[axis + 1], times);
                let parts = l.b.reshape(y, &parts)?;
                l.b.op(Op::Reduce { combiner: Combiner::Add, axes: smallvec::smallvec![axis + 1] }, [parts])?
            }
            _ => apply(l, y, axis, map, input, true)?,
        };
    }
    one(cast(l, y, dtype)?)
}
