//! Linear systems, inverses and determinants by LU factors, and the matrix exponential.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir, DotDims, UnaryOp};
use clutch_graph::{DType, Dims, ValueId};

use super::helpers::{Scalar, cast, filled};
use super::loops::repeat;
use super::lu::{Form, Lu, diagonal, factor, order, solve_factored};
use super::table::Family;
use super::triangular::{batch, identity, stacked, triangle};
use super::{Call, LowerError, Lowering, Outputs, many, one};
use crate::capture::program::Arg;

/// Operators of this family.
pub const OPS: Family = &[
    ("aten.linalg_lu_factor_ex.default", lu_factor_ex),
    ("aten.linalg_lu.default", lu),
    ("aten.lu_unpack.default", lu_unpack),
    ("aten.linalg_lu_solve.default", lu_solve),
    ("aten._linalg_solve_ex.default", solve_ex),
    ("aten.linalg_inv_ex.default", inv_ex),
    ("aten._linalg_det.default", det),
    ("aten._linalg_slogdet.default", slogdet),
    ("aten.linalg_matrix_exp.default", matrix_exp),
];

type Built = Result<ValueId, LowerError>;

fn lu_factor_ex(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "A")?;
    let f = factor(l, a, c.bool_or(usize::MAX, "pivot", true)?)?;
    many([f.lu, f.pivots, f.info])
}

/// P, L and U of factors.
fn unpacked(l: &mut Lowering<'_>, lu: ValueId, pivots: ValueId) -> Result<[ValueId; 3], LowerError> {
    let ty = l.b.ty(lu).clone();
    let n = ty.rank();
    let (rows, columns) = (ty.dims[n - 2], ty.dims[n - 1]);
    let k = rows.min(columns);
    let low = l.b.slice_axis(lu, n - 1, 0, k, 1)?;
    let high = l.b.slice_axis(lu, n - 2, 0, k, 1)?;
    let (low_dims, high_dims) = (l.b.dims(low), l.b.dims(high));
    let under = triangle(l, &low_dims, false, -1)?;
    let eye = identity(l, ty.dtype, &low_dims)?;
    let low = l.b.select(under, low, eye)?;
    let over = triangle(l, &high_dims, true, 0)?;
    let none = filled(l, Scalar::Int(0), ty.dtype, &high_dims)?;
    let high = l.b.select(over, high, none)?;
    let rows_of = order(l, pivots, rows)?;
    let mut square: Dims = ty.dims[..n - 2].into();
    square.extend([rows, rows]);
    let kept: Vec<usize> = (0..n - 2).chain([n - 1]).collect();
    let wide = l.b.broadcast_in_dim(rows_of, &square, &kept)?;
    let counted = l.b.iota(DType::S64, &square, n - 2)?;
    let here = l.b.compare(CompareDir::Eq, counted, wide)?;
    Ok([cast(l, here, ty.dtype)?, low, high])
}

fn lu(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "A")?;
    let f = factor(l, a, c.bool_or(usize::MAX, "pivot", true)?)?;
    let results = unpacked(l, f.lu, f.pivots)?;
    sized(l, c, results)
}

/// The results, each without elements where PyTorch says that it is not wanted.
fn sized(l: &mut Lowering<'_>, c: &Call<'_>, results: [ValueId; 3]) -> Result<Outputs, LowerError> {
    let mut outputs = Outputs::new();
    for (i, r) in results.into_iter().enumerate() {
        let meta = c.out_meta(i)?;
        let dims = l.sizes(&meta.shape)?;
        outputs.push(Some(if l.b.dims(r) == dims { r } else { filled(l, Scalar::Int(0), meta.dtype, &dims)? }));
    }
    Ok(outputs)
}

fn lu_unpack(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (lu, pivots) = (c.tensor(l, 0, "LU_data")?, c.tensor(l, 1, "LU_pivots")?);
    let results = unpacked(l, lu, pivots)?;
    sized(l, c, results)
}

/// Solution of A x = b, or of x A = b unless `left`.
fn solve_side(l: &mut Lowering<'_>, lu: ValueId, pivots: ValueId, b: ValueId, left: bool, form: Form) -> Built {
    if left {
        return solve_factored(l, lu, pivots, b, form);
    }
    let b = l.b.swap_last(b)?;
    let x = solve_factored(l, lu, pivots, b, Form { transpose: !form.transpose, ..form })?;
    Ok(l.b.swap_last(x)?)
}

fn lu_solve(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (lu, pivots, b) = (c.tensor(l, 0, "LU")?, c.tensor(l, 1, "pivots")?, c.tensor(l, 2, "B")?);
    let (left, adjoint) = (c.bool_or(usize::MAX, "left", true)?, c.bool_or(usize::MAX, "adjoint", false)?);
    let lead = batch(l, lu, b)?;
    let (lu, b) = (stacked(l, lu, &lead)?, stacked(l, b, &lead)?);
    let mut wide = lead;
    wide.push(l.b.dims(pivots)[l.b.rank(pivots) - 1]);
    let pivots = l.b.expand(pivots, &wide)?;
    one(solve_side(l, lu, pivots, b, left, Form { transpose: adjoint, conjugate: adjoint })?)
}

/// For determinants PyTorch factors the transpose of a real matrix that is contiguous, and its gradients count on that.
fn factors_transpose(l: &Lowering<'_>, c: &Call<'_>, a: ValueId) -> Result<bool, LowerError> {
    if l.b.dtype(a).is_complex() {
        return Ok(false);
    }
    let Some(Arg::Value(v)) = c.arg(0, "A") else { return Ok(false) };
    let Some(meta) = l.meta(*v) else { return Ok(false) };
    let (dims, strides) = (l.sizes(&meta.shape)?, l.sizes(&meta.strides)?);
    let mut expected = 1;
    for (&d, &s) in dims.iter().zip(&strides).rev() {
        if d != 1 && s != expected {
            return Ok(dims.contains(&0));
        }
        expected *= d;
    }
    Ok(true)
}

/// Factors of the argument `A`, or of its transpose.
fn factors(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Lu, LowerError> {
    let a = c.tensor(l, 0, "A")?;
    let a = if factors_transpose(l, c, a)? { l.b.swap_last(a)? } else { a };
    factor(l, a, true)
}

fn solve_ex(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (a, b) = (c.tensor(l, 0, "A")?, c.tensor(l, 1, "B")?);
    let left = c.bool_or(usize::MAX, "left", true)?;
    let (a_dims, b_dims) = (l.b.dims(a), l.b.dims(b));
    let vector = b_dims.len() == 1 || (b_dims.len() + 1 == a_dims.len() && b_dims[..] == a_dims[..b_dims.len()]);
    let b = if vector { l.b.unsqueeze(b, b_dims.len())? } else { b };
    let f = factor(l, a, true)?;
    let lead = batch(l, f.lu, b)?;
    let (lu, b) = (stacked(l, f.lu, &lead)?, stacked(l, b, &lead)?);
    let mut wide = lead;
    wide.push(a_dims[a_dims.len() - 1]);
    let pivots = l.b.expand(f.pivots, &wide)?;
    let x = solve_side(l, lu, pivots, b, left, Form::default())?;
    let x = l.b.reshape(x, &c.out_dims(l)?)?;
    many([x, f.lu, f.pivots, f.info])
}

fn inv_ex(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let a = c.tensor(l, 0, "A")?;
    let ty = l.b.ty(a).clone();
    let f = factor(l, a, true)?;
    let eye = identity(l, ty.dtype, &ty.dims)?;
    many([solve_factored(l, f.lu, f.pivots, eye, Form::default())?, f.info])
}

/// -1 for an odd number of row exchanges, else 1, of the given type.
fn parity(l: &mut Lowering<'_>, pivots: ValueId, dtype: DType) -> Built {
    let dims = l.b.dims(pivots);
    let axis = dims.len() - 1;
    let own = l.b.iota(DType::S32, &dims, axis)?;
    let own = l.b.binary_int(BinaryOp::Add, own, 1)?;
    let moved = l.b.compare(CompareDir::Ne, pivots, own)?;
    let moved = l.b.convert(moved, DType::S32)?;
    let count = l.b.reduce(Combiner::Add, moved, &[axis])?;
    let odd = l.b.binary_int(BinaryOp::And, count, 1)?;
    let twice = l.b.binary_int(BinaryOp::Mul, odd, -2)?;
    let sign = l.b.binary_int(BinaryOp::Add, twice, 1)?;
    cast(l, sign, dtype)
}

fn det(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let f = factors(l, c)?;
    let d = diagonal(l, f.lu)?;
    let product = l.b.reduce(Combiner::Mul, d, &[l.b.rank(d) - 1])?;
    let sign = parity(l, f.pivots, l.b.dtype(d))?;
    many([l.b.mul(product, sign)?, f.lu, f.pivots])
}

fn slogdet(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let f = factors(l, c)?;
    let d = diagonal(l, f.lu)?;
    let axis = l.b.rank(d) - 1;
    let size = l.b.unary(UnaryOp::Abs, d)?;
    let signs = l.b.unary(UnaryOp::Sign, d)?;
    let product = l.b.reduce(Combiner::Mul, signs, &[axis])?;
    let sign = parity(l, f.pivots, l.b.dtype(d))?;
    let sign = l.b.mul(product, sign)?;
    let log = l.b.unary(UnaryOp::Log, size)?;
    many([sign, l.b.reduce(Combiner::Add, log, &[axis])?, f.lu, f.pivots])
}

/// Products of two stacks of square matrices.
fn product(l: &mut Lowering<'_>, x: ValueId, y: ValueId) -> Built {
    let n = l.b.rank(x);
    let lead: clutch_graph::op::Axes = (0..n - 2).collect();
    let dims = DotDims {
        lhs_batch: lead.clone(),
        rhs_batch: lead,
        lhs_contract: smallvec::smallvec![n - 1],
        rhs_contract: smallvec::smallvec![n - 2],
    };
    Ok(l.b.dot_general(x, y, dims, l.b.dtype(x), clutch_graph::op::Precision::Highest)?)
}

/// Taylor's series of the matrix over a power of two, squared as often as that power says. The power brings the norm below the bound at
/// which the series of degree 18 is exact to the type's rounding (Bader, Blanes and Casas 2019): each squaring doubles the error.
fn matrix_exp(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    const DEGREE: i32 = 18;
    let a = c.tensor(l, 0, "self")?;
    let out = l.b.dtype(a);
    let dims = l.b.dims(a);
    let n = dims.len();
    if dims.contains(&0) {
        return one(a);
    }
    let a = cast(l, a, out.compute_type())?;
    let dtype = l.b.dtype(a);
    let size = l.b.unary(UnaryOp::Abs, a)?;
    let columns = l.b.reduce(Combiner::Add, size, &[n - 2])?;
    let norm = l.b.reduce(Combiner::Max, columns, &[n - 2])?;
    let log = l.b.unary(UnaryOp::Log, norm)?;
    let log = l.b.binary_scalar(BinaryOp::Mul, log, std::f64::consts::LOG2_E)?;
    let bound: f64 = if matches!(dtype, DType::F64 | DType::C128) { 1.09 } else { 3.01 };
    let log = l.b.binary_scalar(BinaryOp::Sub, log, bound.log2())?;
    let log = l.b.unary(UnaryOp::Ceil, log)?;
    let log = l.b.binary_scalar(BinaryOp::Max, log, 0.0)?;
    let halvings = l.b.binary_scalar(BinaryOp::Min, log, 60.0)?;
    let two = l.b.full_like(halvings, 0.5)?;
    let scale = l.b.binary(BinaryOp::Pow, two, halvings)?;
    let scale = cast(l, scale, dtype)?;
    let lead: Vec<usize> = (0..n - 2).collect();
    let scale = l.b.broadcast_in_dim(scale, &dims, &lead)?;
    let small = l.b.mul(a, scale)?;
    let eye = identity(l, dtype, &dims)?;
    let mut sum = eye;
    for k in (1..=DEGREE).rev() {
        let next = product(l, small, sum)?;
        let factor = filled(l, Scalar::Float(1.0 / f64::from(k)), dtype, &dims)?;
        let next = l.b.mul(next, factor)?;
        sum = l.b.add(next, eye)?;
    }
    let halvings = l.b.convert(halvings, DType::S32)?;
    let times = l.b.reduce(Combiner::Max, halvings, &lead)?;
    let end = repeat(l, times, &[sum], &[halvings], |l, step, c, fixed| {
        let dims = l.b.dims(c[0]);
        let lead: Vec<usize> = (0..dims.len() - 2).collect();
        let squared = product(l, c[0], c[0])?;
        let step = l.b.broadcast_in_dim(step, &l.b.dims(fixed[0]), &[])?;
        let pending = l.b.compare(CompareDir::Lt, step, fixed[0])?;
        let pending = l.b.broadcast_in_dim(pending, &dims, &lead)?;
        Ok(vec![l.b.select(pending, squared, c[0])?])
    })?;
    one(cast(l, end[0], out)?)
}
