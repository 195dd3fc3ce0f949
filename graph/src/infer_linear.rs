//! Shape rules of contractions, convolutions, transforms and solves.

use smallvec::smallvec;

use crate::dtype::DType;
use crate::error::GraphError;
use crate::infer::{Outputs, Rule, window_output_size};
use crate::op::{Convolution, DotDims, FftKind};
use crate::types::{Dims, TensorType};

pub(crate) fn dot_general(r: &Rule<'_>, d: &DotDims, out: DType) -> Result<Outputs, GraphError> {
    r.arity(2)?;
    let (lhs, rhs) = (r.operands[0], r.operands[1]);
    r.ensure(lhs.dtype == rhs.dtype, "operand element types differ")?;
    r.ensure(d.lhs_batch.len() == d.rhs_batch.len() && d.lhs_contract.len() == d.rhs_contract.len(), "axis lists differ in length")?;
    for (batch, contract, t) in [(&d.lhs_batch, &d.lhs_contract, lhs), (&d.rhs_batch, &d.rhs_contract, rhs)] {
        let all: Vec<usize> = batch.iter().chain(contract).copied().collect();
        r.axes(&all, t.rank())?;
    }
    let pairs = d.lhs_batch.iter().zip(&d.rhs_batch).chain(d.lhs_contract.iter().zip(&d.rhs_contract));
    for (&a, &b) in pairs {
        r.ensure(lhs.dims[a] == rhs.dims[b], "paired sizes differ")?;
    }
    let mut dims: Dims = d.lhs_batch.iter().map(|&a| lhs.dims[a]).collect();
    for (batch, contract, t) in [(&d.lhs_batch, &d.lhs_contract, lhs), (&d.rhs_batch, &d.rhs_contract, rhs)] {
        dims.extend((0..t.rank()).filter(|a| !batch.contains(a) && !contract.contains(a)).map(|a| t.dims[a]));
    }
    Ok(smallvec![TensorType { dtype: out, dims }])
}

pub(crate) fn convolution(r: &Rule<'_>, c: &Convolution) -> Result<Outputs, GraphError> {
    r.arity(2)?;
    let (x, k) = (r.operands[0], r.operands[1]);
    let d = &c.dims;
    let n = c.window.len();
    r.ensure(x.dtype == k.dtype, "operand element types differ")?;
    r.ensure(x.rank() == n + 2 && k.rank() == n + 2, "rank is not the window's plus two")?;
    for (a, b, spatial) in [
        (d.input_batch, d.input_feature, &d.input_spatial),
        (d.kernel_input_feature, d.kernel_output_feature, &d.kernel_spatial),
        (d.output_batch, d.output_feature, &d.output_spatial),
    ] {
        r.ensure(spatial.len() == n, "one spatial axis per window axis")?;
        let all: Vec<usize> = [a, b].into_iter().chain(spatial.iter().copied()).collect();
        r.axes(&all, n + 2)?;
    }
    r.ensure(c.feature_groups >= 1 && c.batch_groups >= 1, "group counts below 1")?;
    r.ensure(c.feature_groups == 1 || c.batch_groups == 1, "both group counts above 1")?;
    let (features, outputs) = (x.dims[d.input_feature], k.dims[d.kernel_output_feature]);
    r.ensure(k.dims[d.kernel_input_feature].checked_mul(c.feature_groups) == Some(features), "kernel input features do not match")?;
    r.ensure(outputs % c.feature_groups == 0 && outputs % c.batch_groups == 0, "groups do not divide the output features")?;
    r.ensure(x.dims[d.input_batch] % c.batch_groups == 0, "groups do not divide the batch")?;
    let mut dims: Dims = smallvec![0; n + 2];
    dims[d.output_batch] = x.dims[d.input_batch] / c.batch_groups;
    dims[d.output_feature] = outputs;
    for (i, w) in c.window.iter().enumerate() {
        r.ensure(w.size == k.dims[d.kernel_spatial[i]], "window size is not the kernel's")?;
        r.ensure(w.stride > 0 && w.window_dilation > 0 && w.base_dilation > 0, "strides and dilations must be positive")?;
        dims[d.output_spatial[i]] = window_output_size(x.dims[d.input_spatial[i]], w);
    }
    Ok(smallvec![TensorType { dtype: x.dtype, dims }])
}

pub(crate) fn fft(r: &Rule<'_>, kind: FftKind, lengths: &Dims) -> Result<Outputs, GraphError> {
    r.arity(1)?;
    let x = r.operands[0];
    r.ensure(!lengths.is_empty() && lengths.len() <= 3 && lengths.len() <= x.rank(), "transforms 1 to 3 trailing axes")?;
    let first = x.rank() - lengths.len();
    let last = *lengths.last().unwrap_or(&0);
    let mut out = x.clone();
    let mut expected = lengths.clone();
    match kind {
        FftKind::Fft | FftKind::Ifft => r.ensure(x.dtype.is_complex(), "takes complex operands")?,
        FftKind::Rfft => {
            out.dtype = match x.dtype {
                DType::F32 => DType::C64,
                DType::F64 => DType::C128,
                _ => return r.fail("takes f32 or f64"),
            };
            if let Some(d) = out.dims.last_mut() {
                *d = if last == 0 { 0 } else { last / 2 + 1 };
            }
        }
        FftKind::Irfft => {
            r.ensure(x.dtype.is_complex(), "takes complex operands")?;
            out.dtype = x.dtype.real_part();
            if let (Some(d), Some(e)) = (out.dims.last_mut(), expected.last_mut()) {
                *d = last;
                *e = last / 2 + 1;
            }
        }
    }
    r.ensure(x.dims[first..] == expected[..], "transform lengths are not the operand's sizes")?;
    Ok(smallvec![out])
}

pub(crate) fn triangular_solve(r: &Rule<'_>, left: bool) -> Result<Outputs, GraphError> {
    r.arity(2)?;
    let (a, b) = (r.operands[0], r.operands[1]);
    let n = a.rank();
    r.ensure(a.dtype.is_float() || a.dtype.is_complex(), "takes floating-point operands")?;
    r.ensure(n >= 2 && b.rank() == n && a.dtype == b.dtype, "operands differ in rank or element type")?;
    r.ensure(a.dims[n - 1] == a.dims[n - 2], "not square")?;
    r.ensure(a.dims[..n - 2] == b.dims[..n - 2], "batch sizes differ")?;
    r.ensure(b.dims[if left { n - 2 } else { n - 1 }] == a.dims[n - 1], "sizes do not match")?;
    Ok(smallvec![b.clone()])
}
