//! Arithmetic of two or three operands.

use clutch_graph::op::{BinaryOp, CompareDir, UnaryOp};
use clutch_graph::{DType, ValueId};

use super::helpers::{Operand, Scalar, cast, filled, is_nan, operand, opt_scalar, place};
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.add.Tensor", add),
    ("aten.add.Scalar", add),
    ("aten.sub.Tensor", sub),
    ("aten.sub.Scalar", sub),
    ("aten.rsub.Tensor", rsub),
    ("aten.rsub.Scalar", rsub),
    ("aten.mul.Tensor", mul),
    ("aten.mul.Scalar", mul),
    ("aten.div.Tensor", true_div),
    ("aten.div.Scalar", true_div),
    ("aten.div.Tensor_mode", div_mode),
    ("aten.div.Scalar_mode", div_mode),
    ("aten.floor_divide.default", floor_divide),
    ("aten.floor_divide.Scalar", floor_divide),
    ("aten.remainder.Tensor", remainder),
    ("aten.remainder.Scalar", remainder),
    ("aten.remainder.Scalar_Tensor", remainder),
    ("aten.fmod.Tensor", fmod),
    ("aten.fmod.Scalar", fmod),
    ("aten.pow.Tensor_Tensor", pow),
    ("aten.pow.Tensor_Scalar", pow),
    ("aten.pow.Scalar", pow),
    ("aten.addcmul.default", addcmul),
    ("aten.addcdiv.default", addcdiv),
    ("aten.lerp.Scalar", lerp),
    ("aten.lerp.Tensor", lerp),
    ("prims.fma.default", fma),
    ("aten.atan2.default", atan2),
    ("aten.hypot.default", hypot),
    ("aten.copysign.Tensor", copysign),
    ("aten.copysign.Scalar", copysign),
    ("aten.logaddexp.default", log_add_exp),
    ("aten.logaddexp2.default", log_add_exp2),
    ("aten.xlogy.Tensor", xlogy),
    ("aten.xlogy.Scalar_Self", xlogy),
    ("aten.xlogy.Scalar_Other", xlogy),
    ("aten.special_xlog1py.default", xlog1py),
    ("aten.special_xlog1py.self_scalar", xlog1py),
    ("aten.special_xlog1py.other_scalar", xlog1py),
    ("aten.heaviside.default", heaviside),
    ("aten.gcd.default", gcd),
    ("aten.complex.default", complex),
    ("aten.polar.default", polar),
];

type Built = Result<ValueId, LowerError>;

/// The type that PyTorch's CPU kernels compute in: a number (or a tensor without axes) beside a narrow float tensor is not rounded to it.
fn arithmetic_type(l: &Lowering<'_>, out: DType, operands: &[Operand]) -> DType {
    if out.compute_type() == out {
        return out;
    }
    let finer = operands.iter().any(|o| match o {
        Operand::Scalar(s) => !s.fits(out),
        Operand::Tensor(v) => l.b.dtype(*v) != out && l.b.rank(*v) == 0,
    });
    if finer { out.compute_type() } else { out }
}

/// Both operands in the arithmetic type and the result's sizes, through `f`, converted to the result's type.
fn two<F>(l: &mut Lowering<'_>, c: &Call<'_>, f: F) -> Result<Outputs, LowerError>
where
    F: FnOnce(&mut Lowering<'_>, ValueId, ValueId) -> Built,
{
    let (a, b) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let t = arithmetic_type(l, out, &[a, b]);
    let x = place(l, a, t, &dims)?;
    let y = place(l, b, t, &dims)?;
    let r = f(l, x, y)?;
    one(cast(l, r, out)?)
}

/// As [`two`], in the compute type whatever the operands are, for lowerings of several steps.
fn two_composite<F>(l: &mut Lowering<'_>, c: &Call<'_>, f: F) -> Result<Outputs, LowerError>
where
    F: FnOnce(&mut Lowering<'_>, ValueId, ValueId) -> Built,
{
    let (a, b) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let x = place(l, a, out.compute_type(), &dims)?;
    let y = place(l, b, out.compute_type(), &dims)?;
    let r = f(l, x, y)?;
    one(cast(l, r, out)?)
}

/// `a + alpha * b`, or `a - alpha * b`; `alpha` is the keyword or third argument.
fn scaled_sum(l: &mut Lowering<'_>, c: &Call<'_>, op: BinaryOp, swap: bool) -> Result<Outputs, LowerError> {
    let (mut a, mut b) = (operand(l, c, 0, "self")?, operand(l, c, 1, "other")?);
    if swap {
        std::mem::swap(&mut a, &mut b);
    }
    let alpha = opt_scalar(l, c, 2, "alpha")?.filter(|s| *s != Scalar::Int(1) && *s != Scalar::Float(1.0) && *s != Scalar::Bool(true));
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let t = if alpha.is_some() { out.compute_type() } else { arithmetic_type(l, out, &[a, b]) };
    let x = place(l, a, t, &dims)?;
    let mut y = place(l, b, t, &dims)?;
    if let Some(alpha) = alpha {
        let factor = filled(l, alpha, t, &dims)?;
        y = l.b.mul(y, factor)?;
    }
    let r = l.b.binary(op, x, y)?;
    one(cast(l, r, out)?)
}

fn add(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    scaled_sum(l, c, BinaryOp::Add, false)
}

fn sub(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    scaled_sum(l, c, BinaryOp::Sub, false)
}

fn rsub(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    scaled_sum(l, c, BinaryOp::Sub, true)
}

fn mul(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two(l, c, |l, x, y| Ok(l.b.mul(x, y)?))
}

fn true_div(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two(l, c, |l, x, y| Ok(l.b.div(x, y)?))
}

fn div_mode(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    match c.opt_str(2, "rounding_mode")? {
        None => true_div(l, c),
        Some("floor") => floor_divide(l, c),
        Some("trunc") => two_composite(l, c, |l, x, y| {
            let q = l.b.div(x, y)?;
            truncate(l, q)
        }),
        Some(other) => Err(LowerError::unsupported(format!("unknown rounding mode `{other}`"))),
    }
}

/// Rounds floats towards zero; integers stay.
pub(super) fn truncate(l: &mut Lowering<'_>, x: ValueId) -> Built {
    if !l.b.dtype(x).is_float() {
        return Ok(x);
    }
    let negative = l.b.compare_scalar(CompareDir::Lt, x, 0.0)?;
    let up = l.b.unary(UnaryOp::Ceil, x)?;
    let down = l.b.unary(UnaryOp::Floor, x)?;
    Ok(l.b.select(negative, up, down)?)
}

fn floor_divide(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two_composite(l, c, floor_div)
}

/// Where both are not zero and their signs differ.
fn signs_differ(l: &mut Lowering<'_>, r: ValueId, y: ValueId) -> Built {
    let some = l.b.compare_scalar(CompareDir::Ne, r, 0.0)?;
    let r_negative = l.b.compare_scalar(CompareDir::Lt, r, 0.0)?;
    let y_negative = l.b.compare_scalar(CompareDir::Lt, y, 0.0)?;
    let differ = l.b.compare(CompareDir::Ne, r_negative, y_negative)?;
    Ok(l.b.binary(BinaryOp::And, some, differ)?)
}

/// Quotient rounded towards negative infinity; for floats by PyTorch's (Python's) steps through the exact remainder.
fn floor_div(l: &mut Lowering<'_>, x: ValueId, y: ValueId) -> Built {
    let dtype = l.b.dtype(x);
    if dtype.is_unsigned_int() {
        return Ok(l.b.div(x, y)?);
    }
    let rem = l.b.binary(BinaryOp::Rem, x, y)?;
    let fix = signs_differ(l, rem, y)?;
    if dtype.is_int() {
        let q = l.b.div(x, y)?;
        let lower = l.b.binary_int(BinaryOp::Sub, q, 1)?;
        return Ok(l.b.select(fix, lower, q)?);
    }
    let exact = l.b.sub(x, rem)?;
    let q = l.b.div(exact, y)?;
    let lower = l.b.binary_scalar(BinaryOp::Sub, q, 1.0)?;
    let q = l.b.select(fix, lower, q)?;
    let floor = l.b.unary(UnaryOp::Floor, q)?;
    let gap = l.b.sub(q, floor)?;
    let far = l.b.compare_scalar(CompareDir::Gt, gap, 0.5)?;
    let above = l.b.binary_scalar(BinaryOp::Add, floor, 1.0)?;
    let rounded = l.b.select(far, above, floor)?;
    let quotient = l.b.div(x, y)?;
    let zero = l.b.full_like(x, 0.0)?;
    let signed_zero = with_sign_of(l, zero, quotient)?;
    let is_zero = l.b.compare(CompareDir::Eq, q, zero)?;
    let result = l.b.select(is_zero, signed_zero, rounded)?;
    let by_zero = l.b.compare(CompareDir::Eq, y, zero)?;
    Ok(l.b.select(by_zero, quotient, result)?)
}

fn remainder(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two_composite(l, c, |l, x, y| {
        let rem = l.b.binary(BinaryOp::Rem, x, y)?;
        if l.b.dtype(x).is_unsigned_int() {
            return Ok(rem);
        }
        let fix = signs_differ(l, rem, y)?;
        let moved = l.b.add(rem, y)?;
        Ok(l.b.select(fix, moved, rem)?)
    })
}

fn fmod(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two_composite(l, c, |l, x, y| Ok(l.b.binary(BinaryOp::Rem, x, y)?))
}

fn pow(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (base, exponent) = (operand(l, c, 0, "self")?, operand(l, c, 1, "exponent")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let t = out.compute_type();
    let x = place(l, base, t, &dims)?;
    if let Operand::Scalar(s) = exponent
        && let Some(r) = pow_constant(l, x, s)?
    {
        return one(cast(l, r, out)?);
    }
    let y = place(l, exponent, t, &dims)?;
    let r = if t == DType::Pred {
        let not = l.b.unary(UnaryOp::Not, y)?;
        l.b.binary(BinaryOp::Or, x, not)?
    } else if t.is_int() {
        int_pow(l, x, y)?
    } else {
        l.b.binary(BinaryOp::Pow, x, y)?
    };
    one(cast(l, r, out)?)
}

/// Integer power: negative exponents give 1 for 1, 1 or -1 for -1, and 0 otherwise.
fn int_pow(l: &mut Lowering<'_>, x: ValueId, y: ValueId) -> Built {
    let dtype = l.b.dtype(x);
    if dtype.is_unsigned_int() {
        return power_by_squaring(l, x, y);
    }
    let zero = l.b.full_like(x, 0.0)?;
    let one = l.b.full_like(x, 1.0)?;
    let negative = l.b.compare(CompareDir::Lt, y, zero)?;
    let exponent = l.b.select(negative, zero, y)?;
    let power = power_by_squaring(l, x, exponent)?;
    let minus_one = l.b.full_like(x, -1.0)?;
    let odd = l.b.binary(BinaryOp::And, y, one)?;
    let odd = l.b.compare(CompareDir::Ne, odd, zero)?;
    let alternating = l.b.select(odd, minus_one, one)?;
    let is_one = l.b.compare(CompareDir::Eq, x, one)?;
    let is_minus_one = l.b.compare(CompareDir::Eq, x, minus_one)?;
    let small = l.b.select(is_minus_one, alternating, zero)?;
    let small = l.b.select(is_one, one, small)?;
    Ok(l.b.select(negative, small, power)?)
}

/// x to the non-negative integer power y, modulo the type's range. Squaring 2^k times is periodic enough that as many steps as the type has
/// bits are exact.
fn power_by_squaring(l: &mut Lowering<'_>, x: ValueId, y: ValueId) -> Built {
    let one = l.b.full_like(x, 1.0)?;
    let zero = l.b.full_like(x, 0.0)?;
    let (mut result, mut square, mut rest) = (one, x, y);
    let bits = l.b.dtype(x).size() * 8;
    for step in 0..bits {
        let low = l.b.binary(BinaryOp::And, rest, one)?;
        let take = l.b.compare(CompareDir::Ne, low, zero)?;
        let factor = l.b.select(take, square, one)?;
        result = l.b.mul(result, factor)?;
        if step + 1 < bits {
            square = l.b.mul(square, square)?;
            rest = l.b.binary(BinaryOp::ShiftRightLogical, rest, one)?;
        }
    }
    Ok(result)
}

/// Powers that PyTorch computes without its power function.
fn pow_constant(l: &mut Lowering<'_>, x: ValueId, exponent: Scalar) -> Result<Option<ValueId>, LowerError> {
    let dtype = l.b.dtype(x);
    if dtype == DType::Pred {
        return Ok(None);
    }
    if let Some(n) = exponent.as_exact_int().filter(|n| (0..=64).contains(n)) {
        let exact = dtype.is_int() || n <= 3;
        return if exact { repeated_product(l, x, n as u32).map(Some) } else { Ok(None) };
    }
    if !dtype.is_float() {
        return Ok(None);
    }
    let e = exponent.as_f64();
    let root = if e == 0.5 || e == -0.5 { Some(l.b.unary(UnaryOp::Sqrt, x)?) } else { None };
    let denominator = match root {
        Some(r) if e > 0.0 => return Ok(Some(r)),
        Some(r) => r,
        None if e == -1.0 => x,
        None if e == -2.0 => l.b.mul(x, x)?,
        None => return Ok(None),
    };
    let one = l.b.full_like(x, 1.0)?;
    Ok(Some(l.b.div(one, denominator)?))
}

fn repeated_product(l: &mut Lowering<'_>, x: ValueId, n: u32) -> Built {
    if n == 0 {
        return Ok(l.b.full_like(x, 1.0)?);
    }
    if n == 3 {
        let square = l.b.mul(x, x)?;
        return Ok(l.b.mul(square, x)?);
    }
    let (mut result, mut square, mut rest) = (None, x, n);
    while rest > 0 {
        if rest & 1 == 1 {
            result = Some(match result {
                None => square,
                Some(r) => l.b.mul(r, square)?,
            });
        }
        rest >>= 1;
        if rest > 0 {
            square = l.b.mul(square, square)?;
        }
    }
    Ok(result.unwrap_or(x))
}

/// Three operands in the compute type, with the `value` factor on the middle one.
fn three<F>(l: &mut Lowering<'_>, c: &Call<'_>, names: [&'static str; 3], f: F) -> Result<Outputs, LowerError>
where
    F: FnOnce(&mut Lowering<'_>, ValueId, ValueId, ValueId) -> Built,
{
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let t = out.compute_type();
    let mut values = [None; 3];
    for (i, slot) in values.iter_mut().enumerate() {
        let o = operand(l, c, i, names[i])?;
        *slot = Some(place(l, o, t, &dims)?);
    }
    let [Some(x), Some(mut y), Some(z)] = values else { return Err(LowerError::unsupported("it takes three tensors")) };
    if let Some(value) = opt_scalar(l, c, 3, "value")?.filter(|s| s.as_exact_int() != Some(1)) {
        let factor = filled(l, value, t, &dims)?;
        y = l.b.mul(factor, y)?;
    }
    let r = f(l, x, y, z)?;
    one(cast(l, r, out)?)
}

fn addcmul(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    three(l, c, ["self", "tensor1", "tensor2"], |l, x, y, z| {
        let p = l.b.mul(y, z)?;
        Ok(l.b.add(x, p)?)
    })
}

fn addcdiv(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    three(l, c, ["self", "tensor1", "tensor2"], |l, x, y, z| {
        let q = l.b.div(y, z)?;
        Ok(l.b.add(x, q)?)
    })
}

fn fma(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    three(l, c, ["a", "b", "c"], |l, x, y, z| {
        let p = l.b.mul(x, y)?;
        Ok(l.b.add(p, z)?)
    })
}

fn lerp(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let weight = operand(l, c, 2, "weight")?;
    three(l, c, ["self", "end", "weight"], |l, start, end, w| {
        let span = l.b.sub(end, start)?;
        let near = |l: &mut Lowering<'_>| -> Built {
            let step = l.b.mul(w, span)?;
            Ok(l.b.add(start, step)?)
        };
        let far = |l: &mut Lowering<'_>| -> Built {
            let one = l.b.full_like(w, 1.0)?;
            let rest = l.b.sub(one, w)?;
            let step = l.b.mul(span, rest)?;
            Ok(l.b.sub(end, step)?)
        };
        match weight {
            Operand::Scalar(s) if s.as_f64().abs() < 0.5 => near(l),
            Operand::Scalar(Scalar::Complex(..)) => near(l),
            Operand::Scalar(_) => far(l),
            Operand::Tensor(_) => {
                let size = l.b.unary(UnaryOp::Abs, w)?;
                let small = l.b.compare_scalar(CompareDir::Lt, size, 0.5)?;
                let (a, b) = (near(l)?, far(l)?);
                Ok(l.b.select(small, a, b)?)
            }
        }
    })
}

fn atan2(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two_composite(l, c, |l, x, y| Ok(l.b.binary(BinaryOp::Atan2, x, y)?))
}

fn hypot(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two_composite(l, c, |l, x, y| {
        let (x, y) = (l.b.unary(UnaryOp::Abs, x)?, l.b.unary(UnaryOp::Abs, y)?);
        let (large, small) = (l.b.max(x, y)?, l.b.min(x, y)?);
        let zero = l.b.full_like(x, 0.0)?;
        let one = l.b.full_like(x, 1.0)?;
        let ratio = l.b.div(small, large)?;
        let square = l.b.mul(ratio, ratio)?;
        let sum = l.b.add(square, one)?;
        let root = l.b.unary(UnaryOp::Sqrt, sum)?;
        let length = l.b.mul(large, root)?;
        let flat = l.b.compare(CompareDir::Eq, small, zero)?;
        let length = l.b.select(flat, large, length)?;
        let infinity = l.b.full_like(x, f64::INFINITY)?;
        let x_infinite = l.b.compare(CompareDir::Eq, x, infinity)?;
        let y_infinite = l.b.compare(CompareDir::Eq, y, infinity)?;
        let infinite = l.b.binary(BinaryOp::Or, x_infinite, y_infinite)?;
        Ok(l.b.select(infinite, infinity, length)?)
    })
}

/// `Pred`: the sign bit of a float is set, also of -0 and NaN; of an integer: it is negative.
pub(super) fn sign_bit(l: &mut Lowering<'_>, x: ValueId) -> Built {
    use clutch_graph::Op;
    let bits = match l.b.dtype(x) {
        DType::F64 => DType::S64,
        DType::F32 => DType::S32,
        DType::F16 | DType::BF16 => DType::S16,
        d if d.is_float() => DType::S8,
        d => d,
    };
    if bits == DType::Pred || bits.is_unsigned_int() {
        let dims = l.b.dims(x);
        return filled(l, Scalar::Bool(false), DType::Pred, &dims);
    }
    let raw = if bits == l.b.dtype(x) { x } else { l.b.op(Op::Bitcast(bits), [x])? };
    Ok(l.b.compare_scalar(CompareDir::Lt, raw, 0.0)?)
}

/// The magnitude of `x` with the sign bit of `s`.
fn with_sign_of(l: &mut Lowering<'_>, x: ValueId, s: ValueId) -> Built {
    let negative = sign_bit(l, s)?;
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let minus = l.b.unary(UnaryOp::Neg, size)?;
    Ok(l.b.select(negative, minus, size)?)
}

fn copysign(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two(l, c, with_sign_of)
}

/// log(e^x + e^y) without overflow, `scale` being the logarithm's base's natural logarithm.
pub(super) fn log_sum_of_two(l: &mut Lowering<'_>, x: ValueId, y: ValueId, scale: f64) -> Built {
    let large = l.b.max(x, y)?;
    let small = l.b.min(x, y)?;
    let gap = l.b.sub(small, large)?;
    let gap = if scale == 1.0 { gap } else { l.b.binary_scalar(BinaryOp::Mul, gap, scale)? };
    let e = l.b.unary(UnaryOp::Exp, gap)?;
    let tail = l.b.unary(UnaryOp::Log1p, e)?;
    let tail = if scale == 1.0 { tail } else { l.b.binary_scalar(BinaryOp::Div, tail, scale)? };
    let sum = l.b.add(large, tail)?;
    let equal = l.b.compare(CompareDir::Eq, x, y)?;
    let size = l.b.unary(UnaryOp::Abs, x)?;
    let infinite = l.b.compare_scalar(CompareDir::Eq, size, f64::INFINITY)?;
    let same = l.b.binary(BinaryOp::And, equal, infinite)?;
    Ok(l.b.select(same, x, sum)?)
}

fn log_add_exp(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two_composite(l, c, |l, x, y| log_sum_of_two(l, x, y, 1.0))
}

fn log_add_exp2(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two_composite(l, c, |l, x, y| log_sum_of_two(l, x, y, std::f64::consts::LN_2))
}

/// x times `log` of y; 0 where x is 0, NaN where y is NaN.
fn x_times_log(l: &mut Lowering<'_>, x: ValueId, y: ValueId, log: UnaryOp) -> Built {
    let zero = l.b.full_like(x, 0.0)?;
    let x_zero = l.b.compare(CompareDir::Eq, x, zero)?;
    let logarithm = l.b.unary(log, y)?;
    let product = l.b.mul(x, logarithm)?;
    let product = l.b.select(x_zero, zero, product)?;
    let nan = is_nan(l, y)?;
    Ok(l.b.select(nan, y, product)?)
}

fn xlogy(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two_composite(l, c, |l, x, y| x_times_log(l, x, y, UnaryOp::Log))
}

fn xlog1py(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two_composite(l, c, |l, x, y| x_times_log(l, x, y, UnaryOp::Log1p))
}

fn heaviside(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    two(l, c, |l, x, at_zero| {
        let zero = l.b.full_like(x, 0.0)?;
        let positive = l.b.compare(CompareDir::Gt, x, zero)?;
        let step = cast_pred(l, positive, x)?;
        let is_zero = l.b.compare(CompareDir::Eq, x, zero)?;
        Ok(l.b.select(is_zero, at_zero, step)?)
    })
}

/// 1 where true, 0 where false, of `like`'s type.
fn cast_pred(l: &mut Lowering<'_>, p: ValueId, like: ValueId) -> Built {
    let dtype = l.b.dtype(like);
    cast(l, p, dtype)
}

fn gcd(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    use clutch_graph::graph::InputKind;
    use clutch_graph::op::Combiner;
    use clutch_graph::{Builder, Op, TensorType};
    two(l, c, |l, x, y| {
        let ty = l.b.ty(x).clone();
        let signed = ty.dtype.is_signed_int();
        let (x, y) = if signed { (l.b.unary(UnaryOp::Abs, x)?, l.b.unary(UnaryOp::Abs, y)?) } else { (x, y) };
        let axes: Vec<usize> = (0..ty.rank()).collect();
        let mut cond = Builder::new();
        let _ = cond.parameter(ty.clone(), InputKind::Dynamic);
        let b = cond.parameter(ty.clone(), InputKind::Dynamic);
        let left = cond.compare_scalar(CompareDir::Ne, b, 0.0)?;
        let any = cond.reduce(Combiner::Or, left, &axes)?;
        let cond = cond.finish([any]);
        let mut body = Builder::new();
        let a = body.parameter(TensorType::new(ty.dtype, ty.dims.iter().copied()), InputKind::Dynamic);
        let b = body.parameter(ty, InputKind::Dynamic);
        let zero = body.full_like(b, 0.0)?;
        let done = body.compare(CompareDir::Eq, b, zero)?;
        let rem = body.binary(BinaryOp::Rem, a, b)?;
        let next_a = body.select(done, a, b)?;
        let next_b = body.select(done, zero, rem)?;
        let body = body.finish([next_a, next_b]);
        let results = l.b.op_multi(Op::While { cond: cond.into(), body: body.into() }, [x, y])?;
        let g = results[0];
        Ok(if signed { l.b.unary(UnaryOp::Abs, g)? } else { g })
    })
}

fn complex(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let (re, im) = (operand(l, c, 0, "real")?, operand(l, c, 1, "imag")?);
    let re = place(l, re, out.real_part(), &dims)?;
    let im = place(l, im, out.real_part(), &dims)?;
    one(l.b.binary(BinaryOp::Complex, re, im)?)
}

fn polar(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let (size, angle) = (operand(l, c, 0, "abs")?, operand(l, c, 1, "angle")?);
    let size = place(l, size, out.real_part(), &dims)?;
    let angle = place(l, angle, out.real_part(), &dims)?;
    let (cos, sin) = (l.b.unary(UnaryOp::Cos, angle)?, l.b.unary(UnaryOp::Sin, angle)?);
    let (re, im) = (l.b.mul(size, cos)?, l.b.mul(size, sin)?);
    one(l.b.binary(BinaryOp::Complex, re, im)?)
}
