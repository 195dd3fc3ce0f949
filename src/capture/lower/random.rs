//! Random draws. The bits are a pure function of the call's seed and of which draw of the program this is.

use clutch_graph::op::{Axes, BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{DType, Dims, Op, ValueId};

use super::helpers::{Scalar, cast, filled, fit};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.native_dropout.default", native_dropout),
    ("aten.native_dropout_backward.default", native_dropout_backward),
    ("aten.rand.default", rand),
    ("aten.rand_like.default", rand),
    ("aten.randn.default", randn),
    ("aten.randn_like.default", randn),
    ("aten.uniform.default", uniform),
    ("aten.normal_functional.default", normal),
    ("aten.normal.Tensor_float", normal_of),
    ("aten.normal.float_Tensor", normal_of),
    ("aten.normal.Tensor_Tensor", normal_of),
    ("aten.normal.float_float", normal_of),
    ("aten.bernoulli.default", bernoulli),
    ("aten.bernoulli.p", bernoulli_p),
    ("aten.bernoulli.Tensor", bernoulli_tensor),
    ("aten.exponential.default", exponential),
    ("aten.geometric.default", geometric),
    ("aten.cauchy.default", cauchy),
    ("aten.log_normal.default", log_normal),
    ("aten.randint.default", |l, c| randint(l, c, None, 0)),
    ("aten.randint.low", |l, c| randint(l, c, Some(0), 1)),
    ("aten.randint_like.default", |l, c| randint(l, c, None, 1)),
    ("aten.randint_like.low_dtype", |l, c| randint(l, c, Some(1), 2)),
    ("aten.randperm.default", randperm),
    ("aten.multinomial.default", multinomial),
    ("prims.normal.default", prims_normal),
];

type Built = Result<ValueId, LowerError>;

/// `U32` bits of the given sizes, from the next draw.
fn bits(l: &mut Lowering<'_>, dims: &[i64]) -> Built {
    let seed = l.seed();
    let stream = l.next_draw();
    Ok(l.b.op(Op::RandomBits { dims: dims.into(), stream }, [seed])?)
}

/// `U64` bits of the given sizes.
fn wide_bits(l: &mut Lowering<'_>, dims: &[i64]) -> Built {
    let mut pairs: Dims = dims.into();
    pairs.push(2);
    let both = bits(l, &pairs)?;
    let axis = dims.len();
    let mut halves = [both; 2];
    for (i, half) in halves.iter_mut().enumerate() {
        let part = l.b.slice_axis(both, axis, i as i64, i as i64 + 1, 1)?;
        let part = l.b.reshape(part, dims)?;
        *half = l.b.convert(part, DType::U64)?;
    }
    let high = l.b.binary_int(BinaryOp::ShiftLeft, halves[0], 32)?;
    Ok(l.b.binary(BinaryOp::Or, high, halves[1])?)
}

/// Even numbers in `[0, 1)` of the compute type of `dtype`: the top 24 bits as a fraction, 53 for `F64`.
fn unit(l: &mut Lowering<'_>, dtype: DType, dims: &[i64]) -> Built {
    if dtype == DType::F64 {
        let raw = wide_bits(l, dims)?;
        let top = l.b.binary_int(BinaryOp::ShiftRightLogical, raw, 11)?;
        let x = l.b.convert(top, DType::F64)?;
        return Ok(l.b.binary_scalar(BinaryOp::Mul, x, 2f64.powi(-53))?);
    }
    let raw = bits(l, dims)?;
    let top = l.b.binary_int(BinaryOp::ShiftRightLogical, raw, 8)?;
    let x = l.b.convert(top, DType::F32)?;
    Ok(l.b.binary_scalar(BinaryOp::Mul, x, 2f64.powi(-24))?)
}

/// As [`unit`], of the type itself: narrow floats take as few bits as they hold, so that rounding never gives 1.
fn unit_of(l: &mut Lowering<'_>, dtype: DType, dims: &[i64]) -> Built {
    let digits = match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => return unit(l, dtype, dims),
    };
    let raw = bits(l, dims)?;
    let top = l.b.binary_int(BinaryOp::ShiftRightLogical, raw, 32 - digits)?;
    let x = l.b.convert(top, DType::F32)?;
    let x = l.b.binary_scalar(BinaryOp::Mul, x, 2f64.powi(-(digits as i32)))?;
    cast(l, x, dtype)
}

/// Standard normal numbers by Box and Muller, in the compute type: both numbers of each pair are used.
fn standard_normal(l: &mut Lowering<'_>, dtype: DType, dims: &[i64]) -> Built {
    let compute = dtype.compute_type();
    let count: i64 = dims.iter().product();
    if count == 0 {
        return filled(l, Scalar::Int(0), compute, dims);
    }
    let half = (count + 1) / 2;
    let u = unit(l, compute, &[half])?;
    let v = unit(l, compute, &[half])?;
    let one = l.b.full_like(u, 1.0)?;
    let u = l.b.sub(one, u)?;
    let log = l.b.unary(UnaryOp::Log, u)?;
    let square = l.b.binary_scalar(BinaryOp::Mul, log, -2.0)?;
    let radius = l.b.unary(UnaryOp::Sqrt, square)?;
    let angle = l.b.binary_scalar(BinaryOp::Mul, v, 2.0 * std::f64::consts::PI)?;
    let (cos, sin) = (l.b.unary(UnaryOp::Cos, angle)?, l.b.unary(UnaryOp::Sin, angle)?);
    let (x, y) = (l.b.mul(radius, cos)?, l.b.mul(radius, sin)?);
    let both = l.b.concat(&[x, y], 0)?;
    let exact = l.b.slice_axis(both, 0, 0, count, 1)?;
    Ok(l.b.reshape(exact, dims)?)
}

/// True with the probability that each element of `p` (`F32` or `F64`) says.
fn chance(l: &mut Lowering<'_>, p: ValueId) -> Built {
    let dims = l.b.dims(p);
    let u = unit(l, l.b.dtype(p), &dims)?;
    Ok(l.b.compare(CompareDir::Lt, u, p)?)
}

fn float_result(c: &Call<'_>) -> Result<DType, LowerError> {
    let dtype = c.out_dtype()?;
    if dtype.is_float() { Ok(dtype) } else { Err(LowerError::unsupported("random numbers of other than real floats")) }
}

fn native_dropout(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let x = c.tensor(l, 0, "input")?;
    let p = c.float(l, 1, "p")?;
    let train = c.bool_or(2, "train", true)?;
    let ty = l.b.ty(x).clone();
    if !train || p == 0.0 {
        return many([x, filled(l, Scalar::Bool(true), DType::Pred, &ty.dims)?]);
    }
    if p >= 1.0 {
        return many([filled(l, Scalar::Int(0), ty.dtype, &ty.dims)?, filled(l, Scalar::Bool(false), DType::Pred, &ty.dims)?]);
    }
    let keep = l.b.full(DType::F32, &ty.dims, 1.0 - p)?;
    let mask = chance(l, keep)?;
    let scaled = scale(l, x, 1.0 / (1.0 - p))?;
    let zero = l.b.full_like(x, 0.0)?;
    many([l.b.select(mask, scaled, zero)?, mask])
}

/// The tensor times a number, rounded once.
fn scale(l: &mut Lowering<'_>, x: ValueId, factor: f64) -> Built {
    let dtype = l.b.dtype(x);
    let x = cast(l, x, dtype.compute_type())?;
    let y = l.b.binary_scalar(BinaryOp::Mul, x, factor)?;
    cast(l, y, dtype)
}

fn native_dropout_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (grad, mask) = (c.tensor(l, 0, "grad_output")?, c.tensor(l, 1, "mask")?);
    let factor = c.float(l, 2, "scale")?;
    let mask = cast(l, mask, DType::Pred)?;
    let scaled = scale(l, grad, factor)?;
    let zero = l.b.full_like(scaled, 0.0)?;
    one(l.b.select(mask, scaled, zero)?)
}

fn rand(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    one(unit_of(l, dtype, &dims)?)
}

fn randn(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    let x = standard_normal(l, dtype, &dims)?;
    one(cast(l, x, dtype)?)
}

/// Even numbers in `[low, high)`; a draw that rounding takes to `high` gives `low`.
pub(super) fn between(l: &mut Lowering<'_>, dtype: DType, dims: &[i64], low: f64, high: f64) -> Built {
    let u = unit(l, dtype.compute_type(), dims)?;
    let x = l.b.binary_scalar(BinaryOp::Mul, u, high - low)?;
    let x = l.b.binary_scalar(BinaryOp::Add, x, low)?;
    let x = cast(l, x, dtype)?;
    let lowest = l.b.full_like(x, low)?;
    let over = l.b.compare_scalar(CompareDir::Ge, x, high)?;
    Ok(l.b.select(over, lowest, x)?)
}

fn uniform(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    let (low, high) = (c.float_or(l, 1, "from", 0.0)?, c.float_or(l, 2, "to", 1.0)?);
    one(between(l, dtype, &dims, low, high)?)
}

/// `mean + std * z` with numbers.
fn scaled_normal(l: &mut Lowering<'_>, dtype: DType, dims: &[i64], mean: f64, std: f64) -> Built {
    let z = standard_normal(l, dtype, dims)?;
    let x = l.b.binary_scalar(BinaryOp::Mul, z, std)?;
    let x = l.b.binary_scalar(BinaryOp::Add, x, mean)?;
    cast(l, x, dtype)
}

fn normal(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    let (mean, std) = (c.float_or(l, 1, "mean", 0.0)?, c.float_or(l, 2, "std", 1.0)?);
    one(scaled_normal(l, dtype, &dims, mean, std)?)
}

fn prims_normal(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    let (mean, std) = (c.float_or(l, usize::MAX, "mean", 0.0)?, c.float_or(l, usize::MAX, "std", 1.0)?);
    one(scaled_normal(l, dtype, &dims, mean, std)?)
}

fn normal_of(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    let (mean, std) = (super::helpers::opt_operand(l, c, 0, "mean")?, super::helpers::opt_operand(l, c, 1, "std")?);
    let compute = dtype.compute_type();
    let mean = super::helpers::place(l, mean.unwrap_or(Scalar::Float(0.0).into()), compute, &dims)?;
    let std = super::helpers::place(l, std.unwrap_or(Scalar::Float(1.0).into()), compute, &dims)?;
    let z = standard_normal(l, dtype, &dims)?;
    let x = l.b.mul(z, std)?;
    let x = l.b.add(x, mean)?;
    one(cast(l, x, dtype)?)
}

/// 1 with the given probabilities, else 0, of the call's result type.
fn trial(l: &mut Lowering<'_>, c: &Call<'_>, p: ValueId) -> Result<Outputs, LowerError> {
    let hit = chance(l, p)?;
    one(cast(l, hit, c.out_dtype()?)?)
}

fn bernoulli(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let p = c.tensor(l, 0, "self")?;
    let p = cast(l, p, l.b.dtype(p).compute_type())?;
    trial(l, c, p)
}

fn bernoulli_p(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let dims = c.out_dims(l)?;
    let p = c.float_or(l, 1, "p", 0.5)?;
    let p = l.b.full(DType::F32, &dims, p)?;
    trial(l, c, p)
}

fn bernoulli_tensor(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let dims = c.out_dims(l)?;
    let p = c.tensor(l, 1, "p")?;
    let p = fit(l, p, l.b.dtype(p).compute_type(), &dims)?;
    trial(l, c, p)
}

/// -log(u) with u in `(0, 1]`: standard exponential numbers.
fn standard_exponential(l: &mut Lowering<'_>, dtype: DType, dims: &[i64]) -> Built {
    let u = unit(l, dtype, dims)?;
    let minus = l.b.unary(UnaryOp::Neg, u)?;
    let log = l.b.unary(UnaryOp::Log1p, minus)?;
    Ok(l.b.unary(UnaryOp::Neg, log)?)
}

fn exponential(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    let rate = c.float_or(l, 1, "lambd", 1.0)?;
    let x = standard_exponential(l, dtype.compute_type(), &dims)?;
    let x = l.b.binary_scalar(BinaryOp::Div, x, rate)?;
    one(cast(l, x, dtype)?)
}

/// Number of trials up to the first success of probability `p`.
fn geometric(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    let p = c.float(l, 1, "p")?;
    let wait = standard_exponential(l, dtype.compute_type(), &dims)?;
    let trials = l.b.binary_scalar(BinaryOp::Div, wait, -(-p).ln_1p())?;
    let trials = l.b.unary(UnaryOp::Ceil, trials)?;
    let trials = l.b.binary_scalar(BinaryOp::Max, trials, 1.0)?;
    one(cast(l, trials, dtype)?)
}

fn cauchy(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    let (median, width) = (c.float_or(l, 1, "median", 0.0)?, c.float_or(l, 2, "sigma", 1.0)?);
    let u = unit(l, dtype.compute_type(), &dims)?;
    let centred = l.b.binary_scalar(BinaryOp::Sub, u, 0.5)?;
    let angle = l.b.binary_scalar(BinaryOp::Mul, centred, std::f64::consts::PI)?;
    let x = l.b.unary(UnaryOp::Tan, angle)?;
    let x = l.b.binary_scalar(BinaryOp::Mul, x, width)?;
    let x = l.b.binary_scalar(BinaryOp::Add, x, median)?;
    one(cast(l, x, dtype)?)
}

fn log_normal(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (dtype, dims) = (float_result(c)?, c.out_dims(l)?);
    let (mean, std) = (c.float_or(l, 1, "mean", 1.0)?, c.float_or(l, 2, "std", 2.0)?);
    let x = scaled_normal(l, dtype.compute_type(), &dims, mean, std)?;
    let x = l.b.unary(UnaryOp::Exp, x)?;
    one(cast(l, x, dtype)?)
}

/// Integers in `[low, high)`: the remainder of 64 bits, whose bias is below 2^-32 for ranges of 32 bits.
fn randint(l: &mut Lowering<'_>, c: &Call<'_>, low: Option<usize>, high: usize) -> Result<Outputs, LowerError> {
    let low = match low {
        Some(i) => c.int(l, i, "low")?,
        None => 0,
    };
    let high = c.int(l, high, "high")?;
    let dims = c.out_dims(l)?;
    let range = high.wrapping_sub(low);
    let raw = wide_bits(l, &dims)?;
    let x = if range == 0 { raw } else { l.b.binary_int(BinaryOp::Rem, raw, range)? };
    let x = l.b.convert(x, DType::S64)?;
    let x = l.b.binary_int(BinaryOp::Add, x, low)?;
    one(cast(l, x, c.out_dtype()?)?)
}

/// Positions in the order of random keys of 64 bits.
fn randperm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let dims = c.out_dims(l)?;
    let positions = l.b.iota(DType::S64, &dims, 0)?;
    let shuffled = if dims[0] < 2 {
        positions
    } else {
        let keys = wide_bits(l, &dims)?;
        l.b.op_multi(Op::Sort { axis: 0, descending: false, stable: true }, [keys, positions])?[1]
    };
    one(cast(l, shuffled, c.out_dtype()?)?)
}

/// Draws by the exponential race: the category whose exponential number over its weight is least wins. Without replacement the `n` first.
fn multinomial(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let weights = c.tensor(l, 0, "self")?;
    let n = c.int(l, 1, "num_samples")?;
    let replacement = c.bool_or(2, "replacement", false)?;
    let compute = l.b.dtype(weights).compute_type();
    let weights = cast(l, weights, compute)?;
    let (dims, out) = (l.b.dims(weights), c.out_dims(l)?);
    if out.contains(&0) {
        return one(filled(l, Scalar::Int(0), DType::S64, &out)?);
    }
    let rank = dims.len();
    let race = |l: &mut Lowering<'_>, weights: ValueId| -> Built {
        let dims = l.b.dims(weights);
        let times = standard_exponential(l, compute, &dims)?;
        let tiny = l.b.binary_scalar(BinaryOp::Max, times, f64::from(f32::MIN_POSITIVE))?;
        Ok(l.b.div(weights, tiny)?)
    };
    if !replacement {
        let scores = race(l, weights)?;
        return one(l.b.op_multi(Op::TopK { k: n, largest: true }, [scores])?[1]);
    }
    let mut wide = dims.clone();
    wide.insert(rank - 1, n);
    let axes: Axes = (0..rank - 1).chain([rank]).collect();
    let weights = l.b.broadcast_in_dim(weights, &wide, &axes)?;
    let scores = race(l, weights)?;
    one(l.b.op(Op::ArgReduce { axis: rank, max: true }, [scores])?)
}
