//! Eigenvalues of Hermitian matrices and singular values by Jacobi's rotations, all disjoint pairs of a round at once.

use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, DotDims, Precision, UnaryOp};
use clutch_graph::{DType, Dims, ValueId};

use super::helpers::{Scalar, cast, filled, take_axis};
use super::loops::iterate;
use super::qr::orthonormal;
use super::table::Family;
use super::triangular::{adjoint, conjugate, identity, triangle};
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family =
    &[("aten._linalg_eigh.default", eigh), ("aten._linalg_svd.default", svd), ("aten.linalg_pinv.atol_rtol_tensor", pinv)];

type Built = Result<ValueId, LowerError>;

/// Sweeps after which the rotations end without having converged. Convergence is quadratic: ten are enough for any matrix known.
const SWEEPS: i64 = 30;

/// Rounds of a tournament in which each of `n` meets each other once.
fn rounds(n: i64) -> i64 {
    if n % 2 == 0 { n - 1 } else { n }.max(1)
}

/// Each column's partner in the round of `step`, `[n]` of `S32`; the column itself where it has none.
fn partners(l: &mut Lowering<'_>, step: ValueId, n: i64) -> Built {
    let m = rounds(n);
    let modulus = l.b.full_int(DType::S32, &[n], m)?;
    let round = l.b.broadcast_in_dim(step, &[n], &[])?;
    let round = l.b.binary(BinaryOp::Rem, round, modulus)?;
    let own = l.b.iota(DType::S32, &[n], 0)?;
    let other = l.b.sub(round, own)?;
    let other = l.b.add(other, modulus)?;
    let other = l.b.binary(BinaryOp::Rem, other, modulus)?;
    if n % 2 == 1 {
        return Ok(other);
    }
    // The last plays whoever would play itself: i with 2 i = round modulo m, whose half is n / 2.
    let last = l.b.full_int(DType::S32, &[n], n - 1)?;
    let alone = l.b.compare(CompareDir::Eq, other, own)?;
    let other = l.b.select(alone, last, other)?;
    let halved = l.b.binary_int(BinaryOp::Mul, round, n / 2)?;
    let halved = l.b.binary(BinaryOp::Rem, halved, modulus)?;
    let is_last = l.b.compare(CompareDir::Eq, own, last)?;
    Ok(l.b.select(is_last, halved, other)?)
}

/// The rotation of each column with its partner: the column times `own` plus the partner times `other`, both `[batch, n]`.
struct Rotation {
    own: ValueId,
    other: ValueId,
}

/// The rotation that makes `gamma` zero: `alpha` and `beta` are the diagonal elements of the column and of its partner, real, and `gamma`
/// the element between them, all `[batch, n]`.
fn rotation(l: &mut Lowering<'_>, partner: ValueId, alpha: ValueId, beta: ValueId, gamma: ValueId) -> Result<Rotation, LowerError> {
    let (dims, dtype) = (l.b.dims(gamma), l.b.dtype(gamma));
    let size = l.b.unary(UnaryOp::Abs, gamma)?;
    let (zero, ones) = (l.b.full_like(size, 0.0)?, l.b.full_like(size, 1.0)?);
    let own = l.b.iota(DType::S32, &dims, 1)?;
    let partner = l.b.broadcast_in_dim(partner, &dims, &[1])?;
    let met = l.b.compare(CompareDir::Ne, own, partner)?;
    let some = l.b.compare(CompareDir::Ne, size, zero)?;
    let turns = l.b.binary(BinaryOp::And, met, some)?;
    let divisor = l.b.select(turns, size, ones)?;
    let theta = l.b.sub(beta, alpha)?;
    let theta = l.b.div(theta, divisor)?;
    let theta = l.b.binary_scalar(BinaryOp::Mul, theta, 0.5)?;
    // t = sign / (|theta| + hypot(theta, 1)); the two of a pair need opposite signs, also of zero.
    let magnitude = l.b.unary(UnaryOp::Abs, theta)?;
    let square = l.b.mul(theta, theta)?;
    let square = l.b.add(square, ones)?;
    let root = l.b.unary(UnaryOp::Sqrt, square)?;
    let sum = l.b.add(magnitude, root)?;
    let t = l.b.div(ones, sum)?;
    let first = l.b.compare(CompareDir::Lt, own, partner)?;
    let above = l.b.compare(CompareDir::Gt, theta, zero)?;
    let level = l.b.compare(CompareDir::Eq, theta, zero)?;
    let level = l.b.binary(BinaryOp::And, level, first)?;
    let positive = l.b.binary(BinaryOp::Or, above, level)?;
    let minus = l.b.unary(UnaryOp::Neg, t)?;
    let t = l.b.select(positive, t, minus)?;
    let square = l.b.mul(t, t)?;
    let square = l.b.add(square, ones)?;
    // One step of Newton's: an inexact root, and after many rotations the vectors would not be orthonormal.
    let rough = l.b.unary(UnaryOp::Rsqrt, square)?;
    let one_ish = l.b.mul(rough, rough)?;
    let one_ish = l.b.mul(one_ish, square)?;
    let correction = l.b.binary_scalar(BinaryOp::Mul, one_ish, -0.5)?;
    let correction = l.b.binary_scalar(BinaryOp::Add, correction, 1.5)?;
    let cosine = l.b.mul(rough, correction)?;
    let sine = l.b.mul(t, cosine)?;
    let minus = l.b.unary(UnaryOp::Neg, sine)?;
    let (cosine, minus) = (l.b.select(turns, cosine, ones)?, l.b.select(turns, minus, zero)?);
    let phase = conjugate(l, gamma)?;
    let divisor = cast(l, divisor, dtype)?;
    let phase = l.b.div(phase, divisor)?;
    let minus = cast(l, minus, dtype)?;
    Ok(Rotation { own: cast(l, cosine, dtype)?, other: l.b.mul(phase, minus)? })
}

/// The columns (or, with conjugates, the rows) of a stack rotated.
fn rotated(l: &mut Lowering<'_>, x: ValueId, axis: usize, partner: ValueId, by: &Rotation) -> Built {
    let dims = l.b.dims(x);
    let other = if axis == 1 { conjugate(l, by.other)? } else { by.other };
    let (own, other) = (l.b.broadcast_in_dim(by.own, &dims, &[0, axis])?, l.b.broadcast_in_dim(other, &dims, &[0, axis])?);
    let met = take_axis(l, x, axis, partner)?;
    let (x, met) = (l.b.mul(x, own)?, l.b.mul(met, other)?);
    Ok(l.b.add(x, met)?)
}

fn real_part(l: &mut Lowering<'_>, x: ValueId) -> Built {
    if l.b.dtype(x).is_complex() { Ok(l.b.unary(UnaryOp::Real, x)?) } else { Ok(x) }
}

/// |x|^2, real.
fn squares(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let c = conjugate(l, x)?;
    let y = l.b.mul(c, x)?;
    real_part(l, y)
}

fn epsilon(dtype: DType) -> f64 {
    if matches!(dtype, DType::F64 | DType::C128) { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// Diagonal of a stack of rank 3, `[batch, n]`.
fn diagonal(l: &mut Lowering<'_>, a: ValueId) -> Built {
    let dims = l.b.dims(a);
    let here = identity(l, DType::Pred, &dims)?;
    let none = filled(l, Scalar::Int(0), l.b.dtype(a), &dims)?;
    let kept = l.b.select(here, a, none)?;
    Ok(l.b.reduce(Combiner::Add, kept, &[2])?)
}

/// Eigenvalues `[batch, n]`, not sorted, and eigenvectors of Hermitian matrices `[batch, n, n]`.
fn eigen(l: &mut Lowering<'_>, a: ValueId) -> Result<[ValueId; 2], LowerError> {
    let (dims, dtype) = (l.b.dims(a), l.b.dtype(a));
    let n = dims[2];
    let v = identity(l, dtype, &dims)?;
    let zero = l.b.scalar_int(DType::S32, 0)?;
    let size = squares(l, a)?;
    let norm = l.b.reduce(Combiner::Add, size, &[1, 2])?;
    let bound = l.b.binary_scalar(BinaryOp::Mul, norm, epsilon(dtype).powi(2) * n as f64)?;
    let most = SWEEPS * rounds(n);
    let end = iterate(
        l,
        &[zero, a, v],
        &[bound],
        |l, c, f| {
            let dims = l.b.dims(c[1]);
            let size = squares(l, c[1])?;
            let here = identity(l, DType::Pred, &dims)?;
            let none = l.b.full_like(size, 0.0)?;
            let off = l.b.select(here, none, size)?;
            let off = l.b.reduce(Combiner::Add, off, &[1, 2])?;
            let over = l.b.compare(CompareDir::Gt, off, f[0])?;
            let any = l.b.reduce(Combiner::Or, over, &[0])?;
            let most = l.b.scalar_int(DType::S32, most)?;
            let left = l.b.compare(CompareDir::Lt, c[0], most)?;
            Ok(l.b.binary(BinaryOp::And, any, left)?)
        },
        |l, c, _| {
            let (a, v) = (c[1], c[2]);
            let dims = l.b.dims(a);
            let partner = partners(l, c[0], dims[2])?;
            let wide = diagonal(l, a)?;
            let alpha = real_part(l, wide)?;
            let beta = take_axis(l, alpha, 1, partner)?;
            let met = take_axis(l, a, 2, partner)?;
            let gamma = diagonal(l, met)?;
            let by = rotation(l, partner, alpha, beta, gamma)?;
            let a = rotated(l, a, 2, partner, &by)?;
            let a = rotated(l, a, 1, partner, &by)?;
            // Rounding must not part the two triangles: the rotations of a pair agree.
            let mirrored = adjoint(l, a)?;
            let whole = l.b.add(a, mirrored)?;
            let half = filled(l, Scalar::Float(0.5), l.b.dtype(a), &dims)?;
            let a = l.b.mul(whole, half)?;
            let v = rotated(l, v, 2, partner, &by)?;
            Ok(vec![l.b.binary_int(BinaryOp::Add, c[0], 1)?, a, v])
        },
    )?;
    let values = diagonal(l, end[1])?;
    Ok([real_part(l, values)?, end[2]])
}

/// The columns of matrices `[batch, m, n]`, `m >= n`, made orthogonal from the right, and what they were multiplied by.
fn orthogonalized(l: &mut Lowering<'_>, a: ValueId) -> Result<[ValueId; 2], LowerError> {
    let (dims, dtype) = (l.b.dims(a), l.b.dtype(a));
    let n = dims[2];
    let v = identity(l, dtype, &[dims[0], n, n])?;
    let zero = l.b.scalar_int(DType::S32, 0)?;
    let first = real_part(l, a)?;
    let worst = l.b.scalar(l.b.dtype(first), 0.0)?;
    let tolerance = (epsilon(dtype) * (dims[1] as f64).sqrt()).powi(2);
    let m = rounds(n);
    let end = iterate(
        l,
        &[zero, worst, a, v],
        &[],
        |l, c, _| {
            // After each whole sweep: was any pair still far from orthogonal?
            let m = l.b.scalar_int(DType::S32, m)?;
            let round = l.b.binary(BinaryOp::Rem, c[0], m)?;
            let inside = l.b.compare_scalar(CompareDir::Ne, round, 0.0)?;
            let start = l.b.compare_scalar(CompareDir::Eq, c[0], 0.0)?;
            let over = l.b.compare_scalar(CompareDir::Gt, c[1], tolerance)?;
            let more = l.b.binary(BinaryOp::Or, inside, over)?;
            let more = l.b.binary(BinaryOp::Or, more, start)?;
            let most = l.b.binary_int(BinaryOp::Mul, m, SWEEPS)?;
            let left = l.b.compare(CompareDir::Lt, c[0], most)?;
            Ok(l.b.binary(BinaryOp::And, more, left)?)
        },
        |l, c, _| {
            let (a, v) = (c[2], c[3]);
            let n = l.b.dims(a)[2];
            let partner = partners(l, c[0], n)?;
            let size = squares(l, a)?;
            let alpha = l.b.reduce(Combiner::Add, size, &[1])?;
            let beta = take_axis(l, alpha, 1, partner)?;
            let met = take_axis(l, a, 2, partner)?;
            let own = conjugate(l, a)?;
            let product = l.b.mul(own, met)?;
            let gamma = l.b.reduce(Combiner::Add, product, &[1])?;
            let by = rotation(l, partner, alpha, beta, gamma)?;
            // The squared cosine of the angle between the columns of the worst pair.
            let scale = l.b.mul(alpha, beta)?;
            let size = squares(l, gamma)?;
            let (none, ones) = (l.b.full_like(scale, 0.0)?, l.b.full_like(scale, 1.0)?);
            let regular = l.b.compare(CompareDir::Gt, scale, none)?;
            let divisor = l.b.select(regular, scale, ones)?;
            let angle = l.b.div(size, divisor)?;
            let dims = l.b.dims(angle);
            let counted = l.b.iota(DType::S32, &dims, 1)?;
            let other = l.b.broadcast_in_dim(partner, &dims, &[1])?;
            let apart = l.b.compare(CompareDir::Ne, counted, other)?;
            let counts = l.b.binary(BinaryOp::And, apart, regular)?;
            let angle = l.b.select(counts, angle, none)?;
            let worst = l.b.reduce(Combiner::Max, angle, &[0, 1])?;
            let m = l.b.scalar_int(DType::S32, rounds(n))?;
            let round = l.b.binary(BinaryOp::Rem, c[0], m)?;
            let fresh = l.b.compare_scalar(CompareDir::Eq, round, 0.0)?;
            let so_far = l.b.max(worst, c[1])?;
            let worst = l.b.select(fresh, worst, so_far)?;
            let a = rotated(l, a, 2, partner, &by)?;
            let v = rotated(l, v, 2, partner, &by)?;
            Ok(vec![l.b.binary_int(BinaryOp::Add, c[0], 1)?, worst, a, v])
        },
    )?;
    Ok([end[2], end[3]])
}

/// `[batch, n, n]` of `Pred`: the key at the second axis has the place of the third among all, in ascending order; equal keys in theirs.
fn places(l: &mut Lowering<'_>, keys: ValueId, descending: bool) -> Built {
    let dims = l.b.dims(keys);
    let wide = [dims[0], dims[1], dims[1]];
    let (own, other) = (l.b.broadcast_in_dim(keys, &wide, &[0, 1])?, l.b.broadcast_in_dim(keys, &wide, &[0, 2])?);
    let before = l.b.compare(if descending { CompareDir::Gt } else { CompareDir::Lt }, other, own)?;
    let same = l.b.compare(CompareDir::Eq, other, own)?;
    let earlier = triangle(l, &wide, false, -1)?;
    let tied = l.b.binary(BinaryOp::And, same, earlier)?;
    let before = l.b.binary(BinaryOp::Or, before, tied)?;
    let before = l.b.convert(before, DType::S32)?;
    let place = l.b.reduce_keep(Combiner::Add, before, &[2])?;
    let place = l.b.expand(place, &wide)?;
    let counted = l.b.iota(DType::S32, &wide, 2)?;
    Ok(l.b.compare(CompareDir::Eq, place, counted)?)
}

/// Keys `[batch, n]` in their places.
fn arranged(l: &mut Lowering<'_>, keys: ValueId, places: ValueId) -> Built {
    let wide = l.b.dims(places);
    let keys = l.b.broadcast_in_dim(keys, &wide, &[0, 1])?;
    let none = l.b.full_like(keys, 0.0)?;
    let kept = l.b.select(places, keys, none)?;
    Ok(l.b.reduce(Combiner::Add, kept, &[1])?)
}

/// Product of two stacks of matrices of rank 3.
fn product(l: &mut Lowering<'_>, x: ValueId, y: ValueId) -> Built {
    let batch: Axes = smallvec::smallvec![0];
    let dims =
        DotDims { lhs_batch: batch.clone(), rhs_batch: batch, lhs_contract: smallvec::smallvec![2], rhs_contract: smallvec::smallvec![1] };
    Ok(l.b.dot_general(x, y, dims, l.b.dtype(x), Precision::Highest)?)
}

/// The columns in their places.
fn arranged_columns(l: &mut Lowering<'_>, x: ValueId, places: ValueId) -> Built {
    let places = cast(l, places, l.b.dtype(x))?;
    product(l, x, places)
}

/// A stack as one of rank 3, with its leading sizes.
fn flattened(l: &mut Lowering<'_>, x: ValueId) -> Result<(ValueId, Dims), LowerError> {
    let dims = l.b.dims(x);
    let n = dims.len();
    let lead: Dims = dims[..n - 2].into();
    Ok((l.b.reshape(x, &[lead.iter().product(), dims[n - 2], dims[n - 1]])?, lead))
}

/// The stack with leading sizes.
fn restored(l: &mut Lowering<'_>, x: ValueId, lead: &[i64]) -> Built {
    let mut dims: Dims = lead.into();
    dims.extend_from_slice(&l.b.dims(x)[1..]);
    Ok(l.b.reshape(x, &dims)?)
}

/// The matrix of a triangle and its conjugate on the other side; the diagonal's imaginary parts do not count.
fn hermitian(l: &mut Lowering<'_>, a: ValueId, upper: bool) -> Built {
    let dims = l.b.dims(a);
    let mirrored = adjoint(l, a)?;
    let strict = triangle(l, &dims, upper, if upper { 1 } else { -1 })?;
    let off = l.b.select(strict, a, mirrored)?;
    let here = identity(l, DType::Pred, &dims)?;
    let real = real_part(l, a)?;
    let real = cast(l, real, l.b.dtype(a))?;
    Ok(l.b.select(here, real, off)?)
}

/// Eigenvalues in ascending order, of leading sizes and `n`, and eigenvectors.
fn eigen_sorted(l: &mut Lowering<'_>, a: ValueId, upper: bool) -> Result<[ValueId; 2], LowerError> {
    let (flat, lead) = flattened(l, a)?;
    let flat = hermitian(l, flat, upper)?;
    let [values, vectors] = eigen(l, flat)?;
    let order = places(l, values, false)?;
    let (values, vectors) = (arranged(l, values, order)?, arranged_columns(l, vectors, order)?);
    Ok([restored(l, values, &lead)?, restored(l, vectors, &lead)?])
}

/// Zeros like a result.
fn empty(l: &mut Lowering<'_>, c: &Call<'_>, output: usize) -> Built {
    let meta = c.out_meta(output)?;
    let dims = l.sizes(&meta.shape)?;
    filled(l, Scalar::Int(0), meta.dtype, &dims)
}

fn eigh(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "A")?;
    let upper = matches!(c.opt_str(1, "UPLO")?, Some("U" | "u"));
    let vectors = c.bool_or(2, "compute_v", true)?;
    if l.b.ty(a).numel() == 0 {
        return many([empty(l, c, 0)?, empty(l, c, 1)?]);
    }
    let [values, v] = eigen_sorted(l, a, upper)?;
    many([values, if vectors { v } else { empty(l, c, 1)? }])
}

/// U, S and V* of matrices without empty axes; U and V* have all columns and rows when `full`. U is None without `vectors`, and V* no matter.
struct Singular {
    u: ValueId,
    s: ValueId,
    vh: ValueId,
}

fn singular(l: &mut Lowering<'_>, a: ValueId, full: bool) -> Result<Singular, LowerError> {
    let (a, lead) = flattened(l, a)?;
    let dims = l.b.dims(a);
    let wide = dims[1] < dims[2];
    let a = if wide { adjoint(l, a)? } else { a };
    let [columns, v] = orthogonalized(l, a)?;
    let size = squares(l, columns)?;
    let size = l.b.reduce(Combiner::Add, size, &[1])?;
    let order = places(l, size, true)?;
    let columns = arranged_columns(l, columns, order)?;
    let v = arranged_columns(l, v, order)?;
    let size = arranged(l, size, order)?;
    let s = l.b.unary(UnaryOp::Sqrt, size)?;
    let (rows, n) = (dims[1].max(dims[2]), dims[1].min(dims[2]));
    // Orthonormal also where singular values are zero; R is diagonal, of either sign.
    let [q, r] = orthonormal(l, columns, if full { rows } else { n })?;
    let (d, q_dims) = (diagonal(l, r)?, l.b.dims(q));
    let d = real_part(l, d)?;
    let negative = l.b.compare_scalar(CompareDir::Lt, d, 0.0)?;
    let (plus, minus) = (l.b.full_like(d, 1.0)?, l.b.full_like(d, -1.0)?);
    let sign = l.b.select(negative, minus, plus)?;
    let mut tail = l.b.dims(sign);
    tail[1] = q_dims[2] - n;
    let ones = filled(l, Scalar::Int(1), l.b.dtype(sign), &tail)?;
    let sign = l.b.concat(&[sign, ones], 1)?;
    let sign = cast(l, sign, l.b.dtype(q))?;
    let sign = l.b.broadcast_in_dim(sign, &q_dims, &[0, 2])?;
    let u = l.b.mul(q, sign)?;
    let (u, vh) = if wide { (v, adjoint(l, u)?) } else { (u, adjoint(l, v)?) };
    Ok(Singular { u: restored(l, u, &lead)?, s: restored(l, s, &lead)?, vh: restored(l, vh, &lead)? })
}

fn svd(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "A")?;
    let (full, vectors) = (c.bool_or(1, "full_matrices", false)?, c.bool_or(2, "compute_uv", true)?);
    if l.b.ty(a).numel() == 0 {
        let mut outputs = Vec::with_capacity(3);
        for i in 0..3 {
            let zeros = empty(l, c, i)?;
            let dims = l.b.dims(zeros);
            outputs.push(if i == 1 || dims.contains(&0) { zeros } else { identity(l, l.b.dtype(zeros), &dims)? });
        }
        return many(outputs);
    }
    let f = singular(l, a, full)?;
    if vectors { many([f.u, f.s, f.vh]) } else { many([empty(l, c, 0)?, f.s, empty(l, c, 2)?]) }
}

/// The pseudo-inverse: singular values of at most max(atol, rtol * the largest) count as zero.
fn pinv(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "self")?;
    if l.b.ty(a).numel() == 0 {
        return one(empty(l, c, 0)?);
    }
    let (dims, dtype) = (l.b.dims(a), l.b.dtype(a));
    let n = dims.len();
    let symmetric = c.bool_or(usize::MAX, "hermitian", false)?;
    let (left, s, right) = if symmetric {
        let [values, vectors] = eigen_sorted(l, a, false)?;
        (vectors, values, adjoint(l, vectors)?)
    } else {
        let f = singular(l, a, false)?;
        (adjoint(l, f.vh)?, f.s, adjoint(l, f.u)?)
    };
    let size = l.b.unary(UnaryOp::Abs, s)?;
    let largest = l.b.reduce_keep(Combiner::Max, size, &[n - 2])?;
    let real = l.b.dtype(s);
    let lead = l.b.dims(largest);
    let tolerance = |l: &mut Lowering<'_>, name: &'static str, default: f64| -> Built {
        let Some(t) = c.opt_tensor(l, usize::MAX, name)? else { return Ok(l.b.full(real, &lead, default)?) };
        let t = cast(l, t, real)?;
        if l.b.rank(t) == 0 {
            return Ok(l.b.broadcast_in_dim(t, &lead, &[])?);
        }
        let rank = l.b.rank(t);
        let t = l.b.unsqueeze(t, rank)?;
        Ok(l.b.expand(t, &lead)?)
    };
    let atol = tolerance(l, "atol", 0.0)?;
    let given = c.opt_tensor(l, usize::MAX, "atol")?.is_some();
    let usual = epsilon(dtype) * dims[n - 2].max(dims[n - 1]) as f64;
    // With an absolute tolerance above zero and no relative one, the relative one is zero.
    let rtol = if given && c.opt_tensor(l, usize::MAX, "rtol")?.is_none() {
        let above = l.b.compare_scalar(CompareDir::Gt, atol, 0.0)?;
        let (none, usual) = (l.b.full(real, &lead, 0.0)?, l.b.full(real, &lead, usual)?);
        l.b.select(above, none, usual)?
    } else {
        tolerance(l, "rtol", usual)?
    };
    let relative = l.b.mul(rtol, largest)?;
    let bound = l.b.max(atol, relative)?;
    let bound = l.b.expand(bound, &l.b.dims(s))?;
    let counts = l.b.compare(CompareDir::Gt, size, bound)?;
    let (none, ones) = (l.b.full_like(s, 0.0)?, l.b.full_like(s, 1.0)?);
    let inverse = l.b.div(ones, s)?;
    let inverse = l.b.select(counts, inverse, none)?;
    let inverse = cast(l, inverse, dtype)?;
    let left_dims = l.b.dims(left);
    let axes: Vec<usize> = (0..n - 2).chain([n - 1]).collect();
    let inverse = l.b.broadcast_in_dim(inverse, &left_dims, &axes)?;
    let left = l.b.mul(left, inverse)?;
    one(l.b.matmul(left, right, Precision::Highest)?)
}
