//! Results of a call: tensors that own an output's memory, views, and writes to inputs.

use std::ffi::c_void;

use clutch_graph::types::row_major_strides;
use clutch_graph::{Dims, TensorType};
use clutch_pjrt::Buffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::call::Context;
use super::inputs::{check, client_is_cpu, fits, stored_strides};
use super::pack::{self, Line};
use crate::bucket::bind::Placed;
use crate::capture::layout::inverse_order;
use crate::python::errors;

/// Copies an output into the tensor that the program writes to.
pub(super) fn write_back(
    context: &Context,
    tensor: &Bound<'_, PyAny>,
    buffer: Buffer,
    ty: &TensorType,
    order: &[usize],
    placed: Option<&Placed>,
) -> PyResult<()> {
    let py = tensor.py();
    let view = context.exchange.view(tensor)?;
    if let Some(placed) = placed {
        fits(placed, ty)?;
    }
    let ty = &TensorType { dtype: ty.dtype, dims: placed.map_or(&ty.dims, |p| &p.dims).clone() };
    check(&view, ty, order)?;
    let strides = stored_strides(&view, order);
    let target = view.start().cast::<u8>();
    if view.numel() == 0 {
        return Ok(());
    }
    let copy = |bytes: &[u8]| {
        // SAFETY: the output has the dense size; the tensor's memory is described by its own sizes and strides and is not the output's.
        unsafe {
            match placed {
                None => pack::scatter(bytes.as_ptr(), target, &ty.dims, &strides, ty.dtype.size()),
                Some(p) => {
                    let (from, to) = (row_major_strides(&p.padded), p.strides(&strides));
                    pack::copy(bytes.as_ptr(), target, &p.parts, &from, &to, ty.dtype.size());
                }
            }
        };
    };
    if client_is_cpu(buffer.client()) {
        let host = buffer.host_view().map_err(|e| errors::plugin(py, &e))?;
        if host.as_ptr() != target.cast_const() {
            copy(host.bytes());
        }
    } else {
        copy(&buffer.to_vec().map_err(|e| errors::plugin(py, &e))?);
    }
    Ok(())
}

/// A view of a tensor's memory; the offset counts from its first element.
pub(super) fn view<'py>(base: &Bound<'py, PyAny>, dims: &Dims, strides: &Dims, offset: i64) -> PyResult<Bound<'py, PyAny>> {
    let py = base.py();
    let start: i64 = base.call_method0(intern!(py, "storage_offset"))?.extract()?;
    base.call_method1(intern!(py, "as_strided"), (PyTuple::new(py, dims)?, PyTuple::new(py, strides)?, start + offset))
}

/// A PyTorch tensor that owns an output's memory.
pub(super) fn tensor<'py>(
    py: Python<'py>,
    context: &Context,
    buffer: Buffer,
    ty: &TensorType,
    order: &[usize],
    placed: Option<&Placed>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(placed) = placed
        && !placed.is_full()
    {
        return true_part(py, context, buffer, ty, order, placed);
    }
    let inverse = inverse_order(order);
    let stored = row_major_strides(&ty.dims);
    let dims: Dims = inverse.iter().map(|&p| ty.dims[p]).collect();
    let strides: Dims = inverse.iter().map(|&p| stored[p]).collect();
    if client_is_cpu(buffer.client()) {
        let host = buffer.into_host_view().map_err(|e| errors::plugin(py, &e))?;
        let data = host.as_ptr() as *mut c_void;
        // SAFETY: the view keeps the memory of this dense output; nothing else refers to it, so PyTorch may write to it.
        return unsafe { context.exchange.tensor(py, data, ty.dtype, &dims, &strides, host) };
    }
    let mut bytes = buffer.to_vec().map_err(|e| errors::plugin(py, &e))?;
    let data = bytes.as_mut_ptr().cast();
    // SAFETY: the vector's heap memory is dense, does not move with the vector, and is owned by the tensor.
    unsafe { context.exchange.tensor(py, data, ty.dtype, &dims, &strides, bytes) }
}

/// A PyTorch tensor of the true data of an output: a view of its memory where that is contiguous, else a copy.
fn true_part<'py>(
    py: Python<'py>,
    context: &Context,
    buffer: Buffer,
    ty: &TensorType,
    order: &[usize],
    placed: &Placed,
) -> PyResult<Bound<'py, PyAny>> {
    fits(placed, ty)?;
    let (dims, parts) = (&placed.dims, &placed.parts);
    let (inverse, stored) = (inverse_order(order), row_major_strides(dims));
    let (padded, dense) = (row_major_strides(&placed.padded), row_major_strides(parts));
    let (logical, strides): (Dims, Dims) = inverse.iter().map(|&p| (dims[p], stored[p])).unzip();
    let contiguous = parts.iter().zip(padded.iter().zip(&dense)).all(|(&d, (p, s))| d <= 1 || p == s);
    let host = client_is_cpu(buffer.client());
    if host && contiguous {
        let view = buffer.into_host_view().map_err(|e| errors::plugin(py, &e))?;
        let data = view.as_ptr() as *mut c_void;
        // SAFETY: the view keeps the memory of this output, of which the true data is a dense prefix.
        return unsafe { context.exchange.tensor(py, data, ty.dtype, &logical, &strides, view) };
    }
    let small = TensorType { dtype: ty.dtype, dims: dims.clone() };
    let mut copy = vec![Line::default(); small.byte_size().div_ceil(size_of::<Line>())];
    let target: *mut u8 = copy.as_mut_ptr().cast();
    // SAFETY: the parts lie in the output; the copy has their size.
    let take = |bytes: &[u8]| unsafe { pack::copy(bytes.as_ptr(), target, parts, &padded, &dense, ty.dtype.size()) };
    if host {
        take(buffer.host_view().map_err(|e| errors::plugin(py, &e))?.bytes());
    } else {
        take(&buffer.to_vec().map_err(|e| errors::plugin(py, &e))?);
    }
    // SAFETY: the vector's memory is dense, does not move with the vector, and is owned by the tensor.
    unsafe { context.exchange.tensor(py, target.cast(), ty.dtype, &logical, &strides, copy) }
}
