//! Shape rules: result types of each op from its operand types. One rule an op.

use smallvec::{SmallVec, smallvec};

use crate::dtype::DType;
use crate::error::GraphError;
use crate::graph::Graph;
use crate::infer_attention::{attention, attention_backward};
use crate::infer_index::{gather, scatter, select_and_scatter, sort, top_k};
use crate::infer_linear::{convolution, dot_general, fft, triangular_solve};
use crate::op::{BinaryOp, Combiner, CompareDir, Op, UnaryOp, WindowDim};
use crate::types::{Dims, TensorType};

/// Result types of one node.
pub type Outputs = SmallVec<[TensorType; 1]>;

pub(crate) struct Rule<'a> {
    pub op: &'a Op,
    pub operands: &'a [&'a TensorType],
}

impl Rule<'_> {
    pub fn fail<T>(&self, reason: impl Into<String>) -> Result<T, GraphError> {
        let mut reason = reason.into();
        if !self.operands.is_empty() {
            reason.push_str("; operands");
            for t in self.operands {
                reason.push_str(&format!(" {t}"));
            }
        }
        Err(GraphError::shape(self.op, reason))
    }

    pub fn ensure(&self, holds: bool, reason: &str) -> Result<(), GraphError> {
        if holds { Ok(()) } else { self.fail(reason) }
    }

    pub fn arity(&self, n: usize) -> Result<(), GraphError> {
        self.ensure(self.operands.len() == n, &format!("takes {n} operands"))
    }

    pub fn axis(&self, axis: usize, rank: usize) -> Result<(), GraphError> {
        self.ensure(axis < rank, "axis out of range")
    }

    /// Axes are in range and distinct.
    pub fn axes(&self, axes: &[usize], rank: usize) -> Result<(), GraphError> {
        for (i, &a) in axes.iter().enumerate() {
            self.axis(a, rank)?;
            self.ensure(!axes[..i].contains(&a), "an axis appears twice")?;
        }
        Ok(())
    }
}

/// Result size of one window axis over an operand axis of `size` elements; negative results mean no window fits.
pub fn window_output_size(size: i64, w: &WindowDim) -> i64 {
    let wide = i128::from;
    let dilated = if size == 0 { 0 } else { (wide(size) - 1) * wide(w.base_dilation) + 1 };
    let padded = dilated + wide(w.pad_low) + wide(w.pad_high);
    let window = (wide(w.size) - 1) * wide(w.window_dilation) + 1;
    if padded < window { 0 } else { narrow((padded - window) / wide(w.stride) + 1) }
}

/// Saturates: a size that large fails the check of the result type.
fn narrow(size: i128) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn one(ty: TensorType) -> Result<Outputs, GraphError> {
    Ok(smallvec![ty])
}

/// Result types of `op` on operands of the given types.
///
/// # Errors
/// When the operands break the op's contract.
pub fn infer(op: &Op, operands: &[&TensorType]) -> Result<Outputs, GraphError> {
    let r = Rule { op, operands };
    let outputs = rule(&r)?;
    match outputs.iter().find(|t| !t.is_valid()) {
        None => Ok(outputs),
        Some(bad) => r.fail(format!("the result {bad} has a negative size or too many elements")),
    }
}

fn rule(r: &Rule<'_>) -> Result<Outputs, GraphError> {
    let Rule { op, operands } = *r;
    match op {
        Op::Parameter(_, ty) => {
            r.arity(0)?;
            one(ty.clone())
        }
        Op::Constant(lit) => {
            r.arity(0)?;
            one(lit.ty().clone())
        }
        Op::Iota { ty, axis } => {
            r.arity(0)?;
            r.axis(*axis, ty.rank())?;
            r.ensure(ty.dtype != DType::Pred, "iota has no boolean form")?;
            one(ty.clone())
        }
        Op::Unary(u) => unary(r, *u),
        Op::Binary(b) => binary(r, *b),
        Op::Compare(dir) => {
            r.arity(2)?;
            r.ensure(operands[0] == operands[1], "operand types differ")?;
            let equality = matches!(dir, CompareDir::Eq | CompareDir::Ne);
            r.ensure(equality || !operands[0].dtype.is_complex(), "complex numbers have no order")?;
            one(operands[0].with_dtype(DType::Pred))
        }
        Op::Select => {
            r.arity(3)?;
            r.ensure(operands[0].dtype == DType::Pred, "the condition is not boolean")?;
            r.ensure(operands[1] == operands[2], "the two values differ in type")?;
            r.ensure(operands[0].dims == operands[1].dims, "condition and values differ in size")?;
            one(operands[1].clone())
        }
        Op::Convert(to) => {
            r.arity(1)?;
            one(operands[0].with_dtype(*to))
        }
        Op::Bitcast(to) => {
            r.arity(1)?;
            r.ensure(operands[0].dtype.size() == to.size(), "element sizes differ")?;
            one(operands[0].with_dtype(*to))
        }
        Op::Broadcast { dims, axes } => {
            r.arity(1)?;
            let x = operands[0];
            r.ensure(axes.len() == x.rank(), "one result axis per operand axis")?;
            r.axes(axes, dims.len())?;
            r.ensure(axes.is_sorted(), "result axes must increase")?;
            for (&a, &d) in axes.iter().zip(&x.dims) {
                r.ensure(d == dims[a] || d == 1, "operand size is neither the result's nor 1")?;
            }
            one(TensorType { dtype: x.dtype, dims: dims.clone() })
        }
        Op::Reshape(dims) => {
            r.arity(1)?;
            let out = TensorType { dtype: operands[0].dtype, dims: dims.clone() };
            r.ensure(dims.iter().all(|&d| d >= 0), "negative size")?;
            r.ensure(out.numel() == operands[0].numel(), "element counts differ")?;
            one(out)
        }
        Op::Transpose(perm) => {
            r.arity(1)?;
            r.ensure(perm.len() == operands[0].rank(), "permutation length is not the rank")?;
            r.axes(perm, operands[0].rank())?;
            one(TensorType::new(operands[0].dtype, perm.iter().map(|&p| operands[0].dims[p])))
        }
        Op::Slice { start, limit, stride } => slice(r, start, limit, stride),
        Op::Pad(pads) => {
            r.arity(2)?;
            let x = operands[0];
            r.ensure(*operands[1] == TensorType::scalar(x.dtype), "the padding value is not a scalar of the operand's type")?;
            r.ensure(pads.len() == x.rank(), "one padding per axis")?;
            let mut dims = Dims::new();
            for (p, &d) in pads.iter().zip(&x.dims) {
                r.ensure(p.interior >= 0, "negative interior padding")?;
                let inner = i128::from((d - 1).max(0)) * i128::from(p.interior);
                let size = i128::from(d) + inner + i128::from(p.low) + i128::from(p.high);
                r.ensure(size >= 0, "padding crops more than there is")?;
                dims.push(narrow(size));
            }
            one(TensorType { dtype: x.dtype, dims })
        }
        Op::Concat(axis) => concat(r, *axis),
        Op::Reverse(axes) => {
            r.arity(1)?;
            r.axes(axes, operands[0].rank())?;
            one(operands[0].clone())
        }
        Op::DotGeneral { dims, out, .. } => dot_general(r, dims, *out),
        Op::Convolution(c) => convolution(r, c),
        Op::Reduce { combiner, axes } => {
            r.arity(1)?;
            combines(r, *combiner, operands[0].dtype)?;
            r.axes(axes, operands[0].rank())?;
            r.ensure(axes.is_sorted(), "axes must increase")?;
            one(drop_axes(operands[0], axes))
        }
        Op::ReduceWindow { combiner, window } => {
            r.arity(1)?;
            combines(r, *combiner, operands[0].dtype)?;
            one(windowed(r, operands[0], window)?)
        }
        Op::SelectAndScatter { window } => select_and_scatter(r, window),
        Op::Gather(g) => gather(r, g),
        Op::Scatter { combiner, dims } => scatter(r, *combiner, dims),
        Op::DynamicSlice(sizes) => {
            r.ensure(!operands.is_empty(), "takes an operand and one index per axis")?;
            let x = operands[0];
            r.arity(1 + x.rank())?;
            scalar_indices(r, &operands[1..])?;
            r.ensure(sizes.len() == x.rank() && sizes.iter().zip(&x.dims).all(|(s, d)| (0..=*d).contains(s)), "slice sizes do not fit")?;
            one(TensorType { dtype: x.dtype, dims: sizes.clone() })
        }
        Op::DynamicUpdateSlice => {
            r.ensure(operands.len() >= 2, "takes an operand, an update and one index per axis")?;
            let (x, u) = (operands[0], operands[1]);
            r.arity(2 + x.rank())?;
            scalar_indices(r, &operands[2..])?;
            r.ensure(
                u.dtype == x.dtype && u.rank() == x.rank() && u.dims.iter().zip(&x.dims).all(|(u, d)| u <= d),
                "the update does not fit",
            )?;
            one(x.clone())
        }
        Op::Sort { axis, .. } => sort(r, *axis),
        Op::TopK { k, .. } => top_k(r, *k),
        Op::ArgReduce { axis, .. } => {
            r.arity(1)?;
            r.axis(*axis, operands[0].rank())?;
            r.ensure(!operands[0].dtype.is_complex(), "complex numbers have no order")?;
            r.ensure(operands[0].dims[*axis] > 0, "no element to choose from")?;
            one(drop_axes(operands[0], &[*axis]).with_dtype(DType::S64))
        }
        Op::Cumulative { combiner, axis } => {
            r.arity(1)?;
            combines(r, *combiner, operands[0].dtype)?;
            r.ensure(!matches!(combiner, Combiner::And | Combiner::Or), "no running form of this combiner")?;
            r.axis(*axis, operands[0].rank())?;
            one(operands[0].clone())
        }
        Op::RandomBits { dims, .. } => {
            r.arity(1)?;
            r.ensure(*operands[0] == TensorType::scalar(DType::U64), "the key is not a u64 scalar")?;
            one(TensorType { dtype: DType::U32, dims: dims.clone() })
        }
        Op::While { cond, body } => {
            let carried = operands;
            for g in [cond, body] {
                returns(r, g)?;
                r.ensure(g.parameter_types().eq(carried.iter().copied()), "parameters are not the carried values")?;
            }
            r.ensure(cond.output_types().eq([&TensorType::scalar(DType::Pred)]), "the condition is not one boolean scalar")?;
            r.ensure(body.output_types().eq(carried.iter().copied()), "the body does not return the carried types")?;
            Ok(carried.iter().map(|&t| t.clone()).collect())
        }
        Op::Cond { on_true, on_false } => {
            r.ensure(
                operands.first().is_some_and(|t| **t == TensorType::scalar(DType::Pred)),
                "the first operand is not a boolean scalar",
            )?;
            for g in [on_true, on_false] {
                returns(r, g)?;
                r.ensure(g.parameter_types().eq(operands[1..].iter().copied()), "branch parameters are not the operands")?;
            }
            r.ensure(on_true.output_types().eq(on_false.output_types()), "branch results differ")?;
            Ok(on_true.output_types().cloned().collect())
        }
        Op::Call(g) => {
            returns(r, g)?;
            r.ensure(g.parameter_types().eq(operands.iter().copied()), "parameters are not the operands")?;
            Ok(g.output_types().cloned().collect())
        }
        Op::Fft { kind, lengths } => fft(r, *kind, lengths),
        Op::Cholesky => {
            r.arity(1)?;
            let x = operands[0];
            r.ensure(x.dtype.is_float() || x.dtype.is_complex(), "takes floating-point operands")?;
            r.ensure(x.rank() >= 2 && x.dims[x.rank() - 1] == x.dims[x.rank() - 2], "not a batch of square matrices")?;
            one(x.clone())
        }
        Op::TriangularSolve { left, .. } => triangular_solve(r, *left),
        Op::OptimizationBarrier => Ok(operands.iter().map(|&t| t.clone()).collect()),
        Op::Softmax { axis, .. } => {
            r.arity(1)?;
            r.axis(*axis, operands[0].rank())?;
            float(r, operands[0])?;
            one(operands[0].clone())
        }
        Op::Gelu { .. } | Op::Silu => {
            r.arity(1)?;
            float(r, operands[0])?;
            one(operands[0].clone())
        }
        Op::LayerNorm { axes, .. } => {
            r.arity(3)?;
            let x = operands[0];
            float(r, x)?;
            r.ensure((1..=x.rank()).contains(axes), "normalised axes out of range")?;
            let kept = x.rank() - axes;
            r.ensure(operands[1..].iter().all(|w| w.dims[..] == x.dims[kept..]), "weight or bias is not of the normalised sizes")?;
            let mut stat = x.with_dtype(x.dtype.compute_type());
            stat.dims[kept..].fill(1);
            Ok(smallvec![x.clone(), stat.clone(), stat])
        }
        Op::RmsNorm { .. } => {
            r.arity(2)?;
            let x = operands[0];
            float(r, x)?;
            r.ensure(x.rank() >= 1 && operands[1].dims[..] == x.dims[x.rank() - 1..], "weight is not of the last axis's size")?;
            one(x.clone())
        }
        Op::Attention(_) => attention(r),
        Op::AttentionBackward(_) => attention_backward(r),
    }
}

/// The nested graph's outputs exist.
fn returns(r: &Rule<'_>, g: &Graph) -> Result<(), GraphError> {
    r.ensure(g.outputs.iter().all(|&v| g.try_ty(v).is_some()), "a nested graph returns a value that it does not have")
}

/// The combiner reduces elements of this type.
pub(crate) fn combines(r: &Rule<'_>, combiner: Combiner, dtype: DType) -> Result<(), GraphError> {
    let ok = match combiner {
        Combiner::Add | Combiner::Mul => true,
        Combiner::Max | Combiner::Min => !dtype.is_complex(),
        Combiner::And | Combiner::Or => dtype == DType::Pred || dtype.is_int(),
        Combiner::Assign => false,
    };
    r.ensure(ok, "the combiner is not defined for this element type")
}

fn float(r: &Rule<'_>, ty: &TensorType) -> Result<(), GraphError> {
    r.ensure(ty.dtype.is_float(), "takes floating-point operands")
}

fn scalar_indices(r: &Rule<'_>, indices: &[&TensorType]) -> Result<(), GraphError> {
    r.ensure(indices.iter().all(|t| t.rank() == 0 && t.dtype.is_int()), "indices are not integer scalars")?;
    r.ensure(indices.windows(2).all(|w| w[0] == w[1]), "indices differ in type")
}

pub(crate) fn drop_axes(ty: &TensorType, axes: &[usize]) -> TensorType {
    TensorType::new(ty.dtype, ty.dims.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, &d)| d))
}

pub(crate) fn windowed(r: &Rule<'_>, x: &TensorType, window: &[WindowDim]) -> Result<TensorType, GraphError> {
    r.ensure(window.len() == x.rank(), "one window axis per axis")?;
    r.ensure(
        window.iter().all(|w| w.size > 0 && w.stride > 0 && w.window_dilation > 0 && w.base_dilation > 0),
        "window sizes, strides and dilations must be positive",
    )?;
    Ok(TensorType::new(x.dtype, x.dims.iter().zip(window).map(|(&d, w)| window_output_size(d, w))))
}

fn unary(r: &Rule<'_>, u: UnaryOp) -> Result<Outputs, GraphError> {
    r.arity(1)?;
    let x = r.operands[0];
    let d = x.dtype;
    let (ok, out) = match u {
        UnaryOp::Abs => (d != DType::Pred, d.real_part()),
        UnaryOp::Neg | UnaryOp::Sign => (d != DType::Pred, d),
        UnaryOp::Real | UnaryOp::Imag => (d.is_complex(), d.real_part()),
        UnaryOp::IsFinite => (d.is_float(), DType::Pred),
        UnaryOp::Not => (d == DType::Pred || d.is_int(), d),
        UnaryOp::PopCount | UnaryOp::CountLeadingZeros => (d.is_int(), d),
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::RoundEven | UnaryOp::RoundAway | UnaryOp::Erf | UnaryOp::Cbrt => (d.is_float(), d),
        _ => (d.is_float() || d.is_complex(), d),
    };
    r.ensure(ok, "not defined for this element type")?;
    one(x.with_dtype(out))
}

fn binary(r: &Rule<'_>, b: BinaryOp) -> Result<Outputs, GraphError> {
    r.arity(2)?;
    let x = r.operands[0];
    r.ensure(x == r.operands[1], "operand types differ")?;
    let d = x.dtype;
    let (ok, out) = match b {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => (d == DType::Pred || d.is_int(), d),
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightArithmetic | BinaryOp::ShiftRightLogical => (d.is_int(), d),
        BinaryOp::Atan2 => (d.is_float(), d),
        BinaryOp::Complex => match d {
            DType::F32 => (true, DType::C64),
            DType::F64 => (true, DType::C128),
            _ => (false, d),
        },
        BinaryOp::Max | BinaryOp::Min | BinaryOp::Rem => (!d.is_complex(), d),
        BinaryOp::Sub | BinaryOp::Div | BinaryOp::Pow => (d != DType::Pred, d),
        BinaryOp::Add | BinaryOp::Mul => (true, d),
    };
    r.ensure(ok, "not defined for this element type")?;
    one(x.with_dtype(out))
}

fn slice(r: &Rule<'_>, start: &Dims, limit: &Dims, stride: &Dims) -> Result<Outputs, GraphError> {
    r.arity(1)?;
    let x = r.operands[0];
    let n = x.rank();
    r.ensure(start.len() == n && limit.len() == n && stride.len() == n, "one start, limit and stride per axis")?;
    let mut dims = Dims::new();
    for i in 0..n {
        r.ensure(stride[i] >= 1, "stride below 1")?;
        r.ensure(0 <= start[i] && start[i] <= limit[i] && limit[i] <= x.dims[i], "slice out of range")?;
        dims.push((limit[i] - start[i]).div_euclid(stride[i]) + i64::from((limit[i] - start[i]) % stride[i] != 0));
    }
    one(TensorType { dtype: x.dtype, dims })
}

fn concat(r: &Rule<'_>, axis: usize) -> Result<Outputs, GraphError> {
    r.ensure(!r.operands.is_empty(), "takes at least one operand")?;
    let first = r.operands[0];
    r.axis(axis, first.rank())?;
    let mut out = first.clone();
    for t in &r.operands[1..] {
        r.ensure(t.dtype == first.dtype && t.rank() == first.rank(), "operand types differ")?;
        r.ensure((0..t.rank()).all(|i| i == axis || t.dims[i] == first.dims[i]), "sizes off the joined axis differ")?;
        out.dims[axis] = out.dims[axis].saturating_add(t.dims[axis]);
    }
    one(out)
}
