//! Sampling of images at the points of a grid, and its gradients.

use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, Op, ScatterDims, UnaryOp};
use clutch_graph::{DType, Dims, ValueId};

use super::helpers::cast;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.grid_sampler_2d.default", grid_sample),
    ("aten.grid_sampler_3d.default", grid_sample),
    ("aten.grid_sampler_2d_backward.default", grid_sample_backward),
    ("aten.grid_sampler_3d_backward.default", grid_sample_backward),
];

type Built = Result<ValueId, LowerError>;

fn with(l: &mut Lowering<'_>, op: BinaryOp, x: ValueId, value: f64) -> Built {
    Ok(l.b.binary_scalar(op, x, value)?)
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Linear,
    Nearest,
    Cubic,
}

#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// How points become elements.
#[derive(Clone, Copy)]
struct Rule {
    mode: Mode,
    padding: Padding,
    align: bool,
}

impl Rule {
    /// Reads the arguments `interpolation_mode`, `padding_mode` and `align_corners` from `first` on.
    fn read(l: &Lowering<'_>, c: &Call<'_>, first: usize) -> Result<Self, LowerError> {
        let mode = match c.int(l, first, "interpolation_mode")? {
            0 => Mode::Linear,
            1 => Mode::Nearest,
            2 => Mode::Cubic,
            _ => return Err(LowerError::Argument { index: first, name: "interpolation_mode", expected: "0, 1 or 2" }),
        };
        let padding = match c.int(l, first + 1, "padding_mode")? {
            0 => Padding::Zeros,
            1 => Padding::Border,
            2 => Padding::Reflection,
            _ => return Err(LowerError::Argument { index: first + 1, name: "padding_mode", expected: "0, 1 or 2" }),
        };
        Ok(Rule { mode, padding, align: c.bool_or(first + 2, "align_corners", false)? })
    }
}

/// One of the elements that a point takes along one axis, for all points.
#[derive(Clone, Copy)]
struct Tap {
    /// `S64` position, in range.
    place: ValueId,
    weight: ValueId,
    /// Derivative of the weight by the grid's coordinate.
    slope: ValueId,
    /// `Pred`: the element lies in the image.
    inside: ValueId,
}

/// A coordinate and its derivative by the one it was made of.
#[derive(Clone, Copy)]
struct Moved {
    at: ValueId,
    slope: ValueId,
}

/// The coordinate within `[0, size - 1]`, its slope 0 from the edges on.
fn clip(l: &mut Lowering<'_>, x: Moved, size: i64) -> Result<Moved, LowerError> {
    let last = (size - 1) as f64;
    let (above, below) = (l.b.compare_scalar(CompareDir::Gt, x.at, 0.0)?, l.b.compare_scalar(CompareDir::Lt, x.at, last)?);
    let between = l.b.binary(BinaryOp::And, above, below)?;
    let low = with(l, BinaryOp::Max, x.at, 0.0)?;
    let at = with(l, BinaryOp::Min, low, last)?;
    let none = l.b.full_like(x.slope, 0.0)?;
    Ok(Moved { at, slope: l.b.select(between, x.slope, none)? })
}

/// The coordinate mirrored at the edges: at the centres of the outer elements when aligned, else at their borders.
fn reflect(l: &mut Lowering<'_>, x: ValueId, size: i64, align: bool) -> Result<Moved, LowerError> {
    let (low, span) = if align { (0.0, (size - 1) as f64) } else { (-0.5, size as f64) };
    if span == 0.0 {
        let zero = l.b.full_like(x, 0.0)?;
        return Ok(Moved { at: zero, slope: zero });
    }
    let (plus, minus) = (l.b.full_like(x, 1.0)?, l.b.full_like(x, -1.0)?);
    let offset = with(l, BinaryOp::Sub, x, low)?;
    let negative = l.b.compare_scalar(CompareDir::Lt, offset, 0.0)?;
    let sign = l.b.select(negative, minus, plus)?;
    let distance = l.b.unary(UnaryOp::Abs, offset)?;
    let rest = with(l, BinaryOp::Rem, distance, span)?;
    let turns = with(l, BinaryOp::Div, distance, span)?;
    let turns = l.b.unary(UnaryOp::Floor, turns)?;
    let parity = with(l, BinaryOp::Rem, turns, 2.0)?;
    let even = l.b.compare_scalar(CompareDir::Eq, parity, 0.0)?;
    let end = l.b.full_like(x, span)?;
    let back = l.b.sub(end, rest)?;
    let at = l.b.select(even, rest, back)?;
    let at = with(l, BinaryOp::Add, at, low)?;
    let opposite = l.b.unary(UnaryOp::Neg, sign)?;
    Ok(Moved { at, slope: l.b.select(even, sign, opposite)? })
}

/// The coordinate as the padding moves it.
fn padded(l: &mut Lowering<'_>, x: ValueId, size: i64, rule: Rule) -> Result<Moved, LowerError> {
    let slope = l.b.full_like(x, 1.0)?;
    match rule.padding {
        Padding::Zeros => Ok(Moved { at: x, slope }),
        Padding::Border => clip(l, Moved { at: x, slope }, size),
        Padding::Reflection => {
            let mirrored = reflect(l, x, size, rule.align)?;
            clip(l, mirrored, size)
        }
    }
}

/// The tap at a whole coordinate.
fn tap(l: &mut Lowering<'_>, at: ValueId, size: i64, weight: ValueId, slope: ValueId) -> Result<Tap, LowerError> {
    let last = (size - 1) as f64;
    let (above, below) = (l.b.compare_scalar(CompareDir::Ge, at, 0.0)?, l.b.compare_scalar(CompareDir::Le, at, last)?);
    let inside = l.b.binary(BinaryOp::And, above, below)?;
    let none = l.b.full_like(at, 0.0)?;
    let place = l.b.select(inside, at, none)?;
    Ok(Tap { place: l.b.convert(place, DType::S64)?, weight, slope, inside })
}

/// Weight of a neighbour at distance `d` (not negative) and its derivative by the distance: the cubic of a = -0.75.
fn cubic(l: &mut Lowering<'_>, d: ValueId, far: bool) -> Result<[ValueId; 2], LowerError> {
    const A: f64 = -0.75;
    let (c, e) = if far {
        ([A, -5.0 * A, 8.0 * A, -4.0 * A], [3.0 * A, -10.0 * A, 8.0 * A])
    } else {
        ([A + 2.0, -(A + 3.0), 0.0, 1.0], [3.0 * (A + 2.0), -2.0 * (A + 3.0), 0.0])
    };
    let mut values = [d; 2];
    for (value, coefficients) in values.iter_mut().zip([&c[..], &e[..]]) {
        *value = l.b.full_like(d, coefficients[0])?;
        for &k in &coefficients[1..] {
            let product = l.b.mul(*value, d)?;
            *value = with(l, BinaryOp::Add, product, k)?;
        }
    }
    Ok(values)
}

/// The elements along one axis of the given size for grid coordinates `g`, which are -1 and 1 at the ends of the axis.
fn taps(l: &mut Lowering<'_>, g: ValueId, size: i64, rule: Rule) -> Result<Vec<Tap>, LowerError> {
    let scale = if rule.align { (size - 1) as f64 / 2.0 } else { size as f64 / 2.0 };
    let from_start = with(l, BinaryOp::Add, g, 1.0)?;
    let mut x = if rule.align {
        let half = with(l, BinaryOp::Div, from_start, 2.0)?;
        with(l, BinaryOp::Mul, half, (size - 1) as f64)?
    } else {
        let wide = with(l, BinaryOp::Mul, from_start, size as f64)?;
        let wide = with(l, BinaryOp::Sub, wide, 1.0)?;
        with(l, BinaryOp::Div, wide, 2.0)?
    };
    let (zero, one) = (l.b.full_like(x, 0.0)?, l.b.full_like(x, 1.0)?);
    if rule.mode == Mode::Cubic {
        let start = l.b.unary(UnaryOp::Floor, x)?;
        let t = l.b.sub(x, start)?;
        return (-1..=2)
            .map(|k| {
                let towards = with(l, BinaryOp::Sub, t, f64::from(k))?;
                let distance = if k > 0 { l.b.unary(UnaryOp::Neg, towards)? } else { towards };
                let [weight, slope] = cubic(l, distance, !(0..=1).contains(&k))?;
                let slope = with(l, BinaryOp::Mul, slope, if k > 0 { -scale } else { scale })?;
                let at = with(l, BinaryOp::Add, start, f64::from(k))?;
                let at = padded(l, at, size, rule)?.at;
                tap(l, at, size, weight, slope)
            })
            .collect();
    }
    let moved = padded(l, x, size, rule)?;
    x = moved.at;
    if rule.mode == Mode::Nearest {
        let at = l.b.unary(UnaryOp::RoundEven, x)?;
        return Ok(vec![tap(l, at, size, one, zero)?]);
    }
    let start = l.b.unary(UnaryOp::Floor, x)?;
    let t = l.b.sub(x, start)?;
    let rest = l.b.sub(one, t)?;
    let slope = with(l, BinaryOp::Mul, moved.slope, scale)?;
    let falling = l.b.unary(UnaryOp::Neg, slope)?;
    let next = with(l, BinaryOp::Add, start, 1.0)?;
    Ok(vec![tap(l, start, size, rest, falling)?, tap(l, next, size, t, slope)?])
}

/// An image and the points to sample, as rows.
struct Sampling {
    /// Image: one row of channels per element, batch major.
    rows: ValueId,
    /// Taps of each spatial axis, one entry per point, batch major.
    taps: Vec<Vec<Tap>>,
    /// First row of the image that each point samples.
    base: ValueId,
    /// Sizes of the image.
    dims: Dims,
    /// Sizes of the result.
    out: Dims,
    points: i64,
}

/// `[batch, channels, space...]` as `[batch * space, channels]`.
fn to_rows(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let dims = l.b.dims(x);
    let order: Axes = [0].into_iter().chain(2..dims.len()).chain([1]).collect();
    let last = l.b.transpose(x, &order)?;
    let count = dims[0] * dims[2..].iter().product::<i64>();
    Ok(l.b.reshape(last, &[count, dims[1]])?)
}

/// The inverse of [`to_rows`] for the given sizes.
fn from_rows(l: &mut Lowering<'_>, rows: ValueId, dims: &[i64]) -> Built {
    let mut last: Dims = dims.into();
    let channels = last.remove(1);
    last.push(channels);
    let x = l.b.reshape(rows, &last)?;
    let end = dims.len() - 1;
    let order: Axes = [0, end].into_iter().chain(1..end).collect();
    Ok(l.b.transpose(x, &order)?)
}

impl Sampling {
    fn new(l: &mut Lowering<'_>, x: ValueId, grid: ValueId, rule: Rule) -> Result<Self, LowerError> {
        let compute = l.b.dtype(x).compute_type();
        let (x, grid) = (cast(l, x, compute)?, cast(l, grid, compute)?);
        let (dims, given) = (l.b.dims(x), l.b.dims(grid));
        let n = dims.len() - 2;
        let points: i64 = given[..given.len() - 1].iter().product();
        let mut taps_of = Vec::with_capacity(n);
        for axis in 0..n {
            // The grid's last axis names the image's last axis first.
            let component = (n - 1 - axis) as i64;
            let g = l.b.slice_axis(grid, given.len() - 1, component, component + 1, 1)?;
            let g = l.b.reshape(g, &[points])?;
            taps_of.push(taps(l, g, dims[axis + 2], rule)?);
        }
        let batch = l.b.iota(DType::S64, &given[..given.len() - 1], 0)?;
        let batch = l.b.reshape(batch, &[points])?;
        let base = l.b.binary_int(BinaryOp::Mul, batch, dims[2..].iter().product())?;
        let mut out: Dims = dims[..2].into();
        out.extend_from_slice(&given[1..=n]);
        Ok(Sampling { rows: to_rows(l, x)?, taps: taps_of, base, dims, out, points })
    }

    /// One tap of each axis, in all combinations.
    fn combinations(&self) -> Vec<Vec<Tap>> {
        self.taps.iter().fold(vec![Vec::new()], |all, axis| {
            all.iter().flat_map(|chosen| axis.iter().map(|&t| chosen.iter().copied().chain([t]).collect())).collect()
        })
    }

    /// The rows' numbers and whether they lie in the image.
    fn places(&self, l: &mut Lowering<'_>, chosen: &[Tap]) -> Result<[ValueId; 2], LowerError> {
        let mut place = l.b.full_int(DType::S64, &[self.points], 0)?;
        let mut inside = chosen[0].inside;
        for (tap, &size) in chosen.iter().zip(&self.dims[2..]) {
            place = l.b.binary_int(BinaryOp::Mul, place, size)?;
            place = l.b.add(place, tap.place)?;
            inside = l.b.binary(BinaryOp::And, inside, tap.inside)?;
        }
        Ok([l.b.add(self.base, place)?, inside])
    }

    /// The product of the taps' weights, with the slope in place of the weight of axis `but`.
    fn weight(l: &mut Lowering<'_>, chosen: &[Tap], but: Option<usize>) -> Built {
        let mut product = None;
        for (axis, tap) in chosen.iter().enumerate() {
            let factor = if but == Some(axis) { tap.slope } else { tap.weight };
            product = Some(match product {
                None => factor,
                Some(p) => l.b.mul(p, factor)?,
            });
        }
        product.ok_or_else(|| LowerError::unsupported("sampling without axes"))
    }

    fn gather(&self, l: &mut Lowering<'_>, place: ValueId) -> Built {
        super::helpers::take_axis(l, self.rows, 0, place)
    }
}

/// A value per point, for each channel.
fn spread(l: &mut Lowering<'_>, x: ValueId, channels: i64) -> Built {
    let points = l.b.dims(x)[0];
    Ok(l.b.broadcast_in_dim(x, &[points, channels], &[0])?)
}

fn grid_sample(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, grid) = (c.tensor(l, 0, "input")?, c.tensor(l, 1, "grid")?);
    let rule = Rule::read(l, c, 2)?;
    let (dtype, out) = (c.out_dtype()?, c.out_dims(l)?);
    if out.contains(&0) || l.b.dims(x).contains(&0) {
        return one(l.b.full(dtype, &out, 0.0)?);
    }
    let s = Sampling::new(l, x, grid, rule)?;
    let channels = s.dims[1];
    let mut sum = l.b.full(l.b.dtype(s.rows), &[s.points, channels], 0.0)?;
    for chosen in s.combinations() {
        let [place, inside] = s.places(l, &chosen)?;
        let weight = Sampling::weight(l, &chosen, None)?;
        let (weight, inside) = (spread(l, weight, channels)?, spread(l, inside, channels)?);
        let value = s.gather(l, place)?;
        let value = l.b.mul(value, weight)?;
        let none = l.b.full_like(value, 0.0)?;
        let value = l.b.select(inside, value, none)?;
        sum = l.b.add(sum, value)?;
    }
    let y = from_rows(l, sum, &s.out)?;
    one(cast(l, y, dtype)?)
}

/// Adds rows to those that `place` numbers.
fn add_rows(l: &mut Lowering<'_>, rows: ValueId, place: ValueId, updates: ValueId) -> Built {
    let dims = ScatterDims {
        update_window_dims: smallvec::smallvec![1],
        inserted_window_dims: smallvec::smallvec![0],
        scatter_dims_to_operand_dims: smallvec::smallvec![0],
        index_vector_dim: 1,
        unique: false,
    };
    Ok(l.b.op(Op::Scatter { combiner: Combiner::Add, dims: Box::new(dims) }, [rows, place, updates])?)
}

fn grid_sample_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (grad, x, grid) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "input")?, c.tensor(l, 2, "grid")?);
    let rule = Rule::read(l, c, 3)?;
    let mask = c.bools(6, "output_mask")?;
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(true);
    let (x_ty, grid_ty) = (l.b.ty(x).clone(), l.b.ty(grid).clone());
    if l.b.ty(grad).numel() == 0 || x_ty.numel() == 0 {
        let (gx, gg) = (l.b.full(x_ty.dtype, &x_ty.dims, 0.0)?, l.b.full(grid_ty.dtype, &grid_ty.dims, 0.0)?);
        return Ok([wanted(0).then_some(gx), wanted(1).then_some(gg)].into_iter().collect());
    }
    let s = Sampling::new(l, x, grid, rule)?;
    let (compute, channels) = (l.b.dtype(s.rows), s.dims[1]);
    let grad = cast(l, grad, compute)?;
    let grad = to_rows(l, grad)?;
    let none = l.b.full_like(grad, 0.0)?;
    let mut to_image = l.b.full_like(s.rows, 0.0)?;
    let mut to_axes = vec![l.b.full(compute, &[s.points], 0.0)?; s.taps.len()];
    for chosen in s.combinations() {
        let [place, inside] = s.places(l, &chosen)?;
        let inside = spread(l, inside, channels)?;
        if wanted(0) {
            let weight = Sampling::weight(l, &chosen, None)?;
            let weight = spread(l, weight, channels)?;
            let part = l.b.mul(grad, weight)?;
            let part = l.b.select(inside, part, none)?;
            to_image = add_rows(l, to_image, place, part)?;
        }
        if wanted(1) && rule.mode != Mode::Nearest {
            let value = s.gather(l, place)?;
            let product = l.b.mul(value, grad)?;
            let product = l.b.select(inside, product, none)?;
            let product = l.b.reduce(Combiner::Add, product, &[1])?;
            for (axis, sum) in to_axes.iter_mut().enumerate() {
                let slope = Sampling::weight(l, &chosen, Some(axis))?;
                let part = l.b.mul(product, slope)?;
                *sum = l.b.add(*sum, part)?;
            }
        }
    }
    let mut outputs = Outputs::new();
    outputs.push(if wanted(0) {
        let gx = from_rows(l, to_image, &s.dims)?;
        Some(cast(l, gx, x_ty.dtype)?)
    } else {
        None
    });
    outputs.push(if wanted(1) {
        let mut columns = Vec::with_capacity(to_axes.len());
        for &sum in to_axes.iter().rev() {
            columns.push(l.b.reshape(sum, &[s.points, 1])?);
        }
        let joined = l.b.concat(&columns, 1)?;
        let gg = l.b.reshape(joined, &grid_ty.dims)?;
        Some(cast(l, gg, grid_ty.dtype)?)
    } else {
        None
    });
    Ok(outputs)
}
