//! Arguments of a call: tensors read in place, copied or padded into device buffers.

use std::sync::OnceLock;

use clutch_graph::types::row_major_strides;
use clutch_graph::{DType, Dims, TensorType};
use clutch_pjrt::{Buffer, Client, CopySemantics, ElementType};
use pyo3::intern;
use pyo3::prelude::*;
use smallvec::SmallVec;

use super::call::Context;
use super::dlpack::{DlTensor, Retained, element_code};
use super::pack::{self, ALIGNMENT, Line};
use crate::bucket::bind::{Binding, Placed};
use crate::capture::lower::Source;
use crate::metrics::{METRICS, count, count_n};
use crate::python::errors;

/// The contents of an argument on the device, and what they were made from.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) buffer: Option<Buffer>,
    pub(super) address: usize,
    /// The buffer reads the tensor's own memory, so only its address matters.
    pub(super) in_place: bool,
    pub(super) version: u64,
    /// Digest of a few elements: notices writes that PyTorch does not count, such as through `.data`.
    pub(super) sample: u64,
    /// Memory that `buffer` reads when `staged`, laid out as the program expects; kept between calls.
    pub(super) staging: Vec<Line>,
    /// The buffer reads the slot's own memory.
    pub(super) staged: bool,
    /// Keeps a copied tensor's storage, so that its address cannot be given to another tensor.
    pub(super) retained: Option<Retained>,
}

/// The tensors of one call.
pub(super) struct Inputs<'a, 'py> {
    pub(super) args: &'a [Bound<'py, PyAny>],
    pub(super) constants: &'a [Option<Py<PyAny>>],
    pub(super) seed: u64,
    pub(super) binding: Option<&'a Binding>,
}

impl Inputs<'_, '_> {
    /// Where the true data of a placeholder is to lie, when the program may be larger.
    pub(super) fn true_input(&self, index: usize) -> Option<&Placed> {
        self.binding.and_then(|b| b.inputs.get(index)).and_then(Option::as_ref)
    }

    /// Where the true data of an output lies, when the program may be larger.
    pub(super) fn true_output(&self, index: usize) -> Option<&Placed> {
        self.binding.and_then(|b| b.outputs.get(index))
    }
}

/// Elements that a sample reads.
const SAMPLED: i64 = 8;

/// A digest of a few elements spread over the tensor: first, last and between.
pub(super) fn sample(view: &DlTensor) -> u64 {
    let (dims, strides) = (view.dims(), view.strides());
    let count = view.numel();
    let size = usize::from(view.bits / 8);
    if count == 0 || !view.on_cpu() {
        return 0;
    }
    let (mut digest, row_major) = (0u64, view.is_row_major());
    for i in 0..SAMPLED.min(count) {
        let mut index = if count <= SAMPLED { i } else { i * (count - 1) / (SAMPLED - 1) };
        let mut offset = index;
        if !row_major {
            offset = 0;
            for (&d, &s) in dims.iter().zip(strides).rev() {
                offset += index % d * s;
                index /= d;
            }
        }
        let mut bytes = [0u8; 16];
        // SAFETY: the element at a valid index of a live tensor; `size` is at most 16.
        unsafe {
            let element = view.start().cast::<u8>().offset(offset as isize * size as isize);
            std::ptr::copy_nonoverlapping(element, bytes.as_mut_ptr(), size.min(16));
        }
        let value = u128::from_le_bytes(bytes);
        digest = (digest.rotate_left(7) ^ value as u64 ^ (value >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    digest
}

pub(super) fn version(tensor: &Bound<'_, PyAny>) -> PyResult<u64> {
    tensor.getattr(intern!(tensor.py(), "_version"))?.extract()
}

/// Puts an argument's contents into its slot.
pub(super) fn fill(
    context: &Context,
    client: &Client,
    slot: &mut Slot,
    source: &Source,
    ty: &TensorType,
    kept: bool,
    inputs: &Inputs<'_, '_>,
) -> PyResult<()> {
    match source {
        Source::Seed => {
            let bytes = inputs.seed.to_le_bytes();
            let buffer = Buffer::from_host(client.default_device(), &bytes, &[], ElementType::U64, CopySemantics::DuringCall);
            slot.buffer = Some(Python::attach(|py| buffer.map_err(|e| errors::plugin(py, &e)))?);
            Ok(())
        }
        Source::Bound(i) => {
            let bytes = inputs.binding.and_then(|b| b.bounds.get(*i));
            let bytes = bytes.ok_or_else(|| errors::internal(format!("bound {i} is missing")))?;
            let made = Buffer::from_host(client.default_device(), bytes, &ty.dims, element_type(ty.dtype), CopySemantics::DuringCall);
            slot.buffer = Some(Python::attach(|py| made.map_err(|e| errors::plugin(py, &e)))?);
            Ok(())
        }
        Source::Constant(i) => {
            if slot.buffer.is_some() {
                return Ok(());
            }
            let Some(Some(tensor)) = inputs.constants.get(*i) else { return Err(errors::internal(format!("constant {i} is missing"))) };
            Python::attach(|py| {
                let tensor = tensor.bind(py).call_method0("detach")?;
                let order: Dims = (0..ty.rank() as i64).collect();
                upload(context, client, slot, &tensor, ty, &order.iter().map(|&a| a as usize).collect::<SmallVec<[usize; 6]>>(), true)
            })
        }
        Source::Input { index, order } => {
            let tensor = inputs.args.get(*index).ok_or_else(|| errors::internal("an argument is missing".to_owned()))?;
            match inputs.true_input(*index) {
                Some(placed) if !placed.is_full() => upload_padded(context, client, slot, tensor, ty, order, placed),
                _ => upload(context, client, slot, tensor, ty, order, kept),
            }
        }
    }
}

/// Gives the slot a buffer of the program's sizes that holds the tensor where the program expects it.
pub(super) fn upload_padded(
    context: &Context,
    client: &Client,
    slot: &mut Slot,
    tensor: &Bound<'_, PyAny>,
    ty: &TensorType,
    order: &[usize],
    placed: &Placed,
) -> PyResult<()> {
    let view = context.exchange.view(tensor)?;
    let small = TensorType { dtype: ty.dtype, dims: placed.dims.clone() };
    check(&view, &small, order)?;
    fits(placed, ty)?;
    let fill = match (poison_padding(), ty.dtype) {
        (false, _) => 0,
        (true, DType::Pred) => 1,
        // NaN in every float type, -1 in every integer type.
        (true, _) => 0xff,
    };
    // What was left in padded lanes by an earlier call is as good as anything else: the program masks them where they matter.
    let lines = ty.byte_size().div_ceil(ALIGNMENT);
    if slot.staging.len() != lines {
        (slot.buffer, slot.staged) = (None, false);
        slot.staging = vec![Line([fill; ALIGNMENT]); lines];
    } else if poison_padding() {
        slot.staging.fill(Line([fill; ALIGNMENT]));
    }
    let target: *mut u8 = slot.staging.as_mut_ptr().cast();
    let (from, to) = (placed.strides(&stored_strides(&view, order)), row_major_strides(&placed.padded));
    // SAFETY: the tensor's own sizes and strides; the parts lie in the target, which is the slot's own.
    unsafe { pack::copy(view.start().cast(), target, &placed.parts, &from, &to, ty.dtype.size()) };
    count_n(&METRICS.pad_elements, (ty.numel() - small.numel()) as u64);
    let (device, element, in_place) = (client.default_device(), element_type(ty.dtype), client_is_cpu(client) && lines > 0);
    if !(slot.staged && in_place) || slot.buffer.is_none() {
        let made = if in_place {
            // SAFETY: aligned memory of this type that the slot frees after the buffer; it is written between executions only.
            unsafe { Buffer::from_host_zero_copy(device, target, &ty.dims, element) }
        } else {
            // SAFETY: the slot's own memory holds this many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(target, ty.byte_size()) };
            Buffer::from_host(device, bytes, &ty.dims, element, CopySemantics::DuringCall)
        };
        slot.buffer = Some(made.map_err(|e| errors::plugin(tensor.py(), &e))?);
    }
    (slot.staged, slot.address, slot.in_place, slot.retained) = (true, 0, false, None);
    Ok(())
}

/// Checks that the parts lie in memory of the program's type.
pub(super) fn fits(placed: &Placed, ty: &TensorType) -> PyResult<()> {
    let inside = placed.parts.iter().zip(&placed.padded).all(|(true_size, padded)| true_size <= padded);
    let (parts, whole): (i64, i64) = (placed.parts.iter().product(), placed.dims.iter().product());
    if inside && parts == whole && placed.padded.iter().product::<i64>() == ty.numel() {
        return Ok(());
    }
    Err(errors::internal(format!("a tensor of sizes {:?} does not fit a program for up to {ty}", placed.dims)))
}

/// `CLUTCH_POISON_PADDING=1` fills padded lanes with NaN, to prove that none leaks.
pub(super) fn poison_padding() -> bool {
    static POISON: OnceLock<bool> = OnceLock::new();
    *POISON.get_or_init(|| std::env::var("CLUTCH_POISON_PADDING").is_ok_and(|v| v == "1"))
}

/// Gives the slot a buffer with the tensor's contents: in place when the memory is dense in `order`, aligned and the device's own.
pub(super) fn upload(
    context: &Context,
    client: &Client,
    slot: &mut Slot,
    tensor: &Bound<'_, PyAny>,
    ty: &TensorType,
    order: &[usize],
    kept: bool,
) -> PyResult<()> {
    let view = context.exchange.view(tensor)?;
    let address = view.start() as usize;
    if slot.in_place && slot.address == address && slot.buffer.is_some() && lies_dense(&view, ty, order) {
        return Ok(());
    }
    check(&view, ty, order)?;
    let strides = stored_strides(&view, order);
    let dense = is_dense(&ty.dims, &strides);
    let in_place = dense && address != 0 && address.is_multiple_of(ALIGNMENT) && client_is_cpu(client);
    let py = tensor.py();
    // Versions are not counted for inference tensors: those are copied on every call.
    let counted = if kept && !in_place { version(tensor).ok().map(|version| (version, sample(&view))) } else { None };
    if slot.buffer.is_some() && slot.address == address && counted == Some((slot.version, slot.sample)) {
        return Ok(());
    }
    let device = client.default_device();
    let element = element_type(ty.dtype);
    let buffer = if in_place {
        // SAFETY: aligned dense memory of this type; it is read only while an execution runs, and during one the caller's argument list
        // or the cached slot's tensor keeps it alive. A slot is used again only for a tensor at the same address.
        unsafe { Buffer::from_host_zero_copy(device, address as *const u8, &ty.dims, element) }
    } else if dense {
        // SAFETY: dense memory of the tensor, alive during the call.
        let bytes = if ty.byte_size() == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(address as *const u8, ty.byte_size()) } };
        count(&METRICS.input_copies);
        Buffer::from_host(device, bytes, &ty.dims, element, CopySemantics::DuringCall)
    } else {
        let mut bytes = vec![0u8; ty.byte_size()];
        // SAFETY: the tensor's own sizes and strides; the target has the dense size.
        unsafe { pack::gather(address as *const u8, bytes.as_mut_ptr(), &ty.dims, &strides, ty.dtype.size()) };
        count(&METRICS.input_copies);
        Buffer::from_host(device, &bytes, &ty.dims, element, CopySemantics::DuringCall)
    };
    slot.buffer = Some(buffer.map_err(|e| errors::plugin(py, &e))?);
    (slot.address, slot.in_place, slot.staged) = (address, in_place, false);
    if let Some(counted) = counted {
        (slot.version, slot.sample) = counted;
        slot.retained = Some(context.exchange.retain(&tensor.call_method0(intern!(py, "detach"))?)?);
    }
    Ok(())
}

/// Lets the execution write to the memory of a slot that reads a tensor in place.
pub(super) fn donate(py: Python<'_>, client: &Client, slot: &mut Slot, ty: &TensorType) -> PyResult<()> {
    if !slot.in_place {
        return Ok(());
    }
    slot.buffer = None;
    let data = slot.address as *mut u8;
    // SAFETY: as for reading in place; the program writes to this tensor, and AOTAutograd gives no other argument that shares its memory.
    let buffer = unsafe { Buffer::from_host_in_place(client.default_device(), data, &ty.dims, element_type(ty.dtype)) };
    slot.buffer = Some(buffer.map_err(|e| errors::plugin(py, &e))?);
    count(&METRICS.donations);
    Ok(())
}

pub(super) fn client_is_cpu(client: &Client) -> bool {
    client.platform_name().eq_ignore_ascii_case("cpu")
}

/// Whether the tensor is what [`check`] wants and dense in `order`; the question of every call, so without memory of its own.
fn lies_dense(view: &DlTensor, ty: &TensorType, order: &[usize]) -> bool {
    let (dims, strides) = (view.dims(), view.strides());
    let ranks = dims.len() == order.len() && strides.len() == order.len() && ty.dims.len() == order.len();
    if !ranks || !view.on_cpu() || element_code(ty.dtype) != (view.code, view.bits) {
        return false;
    }
    let mut expected = 1;
    order.iter().zip(&ty.dims).rev().all(|(&axis, &dim)| {
        let fits = dims[axis] == dim && (dim == 1 || strides[axis] == expected);
        expected *= dim;
        fits
    })
}

/// The tensor is in host memory and of the captured type.
pub(super) fn check(view: &DlTensor, ty: &TensorType, order: &[usize]) -> PyResult<()> {
    let dims = view.dims();
    let same = dims.len() == order.len() && order.iter().zip(&ty.dims).all(|(&a, &d)| dims[a] == d);
    if !same || element_code(ty.dtype) != (view.code, view.bits) {
        return Err(errors::internal(format!("an argument of sizes {dims:?} was given where {ty} (axes {order:?}) was captured")));
    }
    if !view.on_cpu() {
        return Err(errors::device("an argument is not in host memory; move the model and its inputs to the CPU device".to_owned()));
    }
    Ok(())
}

pub(super) fn stored_strides(view: &DlTensor, order: &[usize]) -> Dims {
    let strides = view.strides();
    if strides.is_empty() {
        let logical = row_major_strides(view.dims());
        return order.iter().map(|&a| logical[a]).collect();
    }
    order.iter().map(|&a| strides[a]).collect()
}

pub(super) fn is_dense(dims: &[i64], strides: &[i64]) -> bool {
    if dims.contains(&0) {
        return true;
    }
    let mut expected = 1;
    dims.iter().zip(strides).rev().all(|(&d, &s)| {
        let fits = d == 1 || s == expected;
        expected *= d;
        fits
    })
}

/// The plugin's element type.
pub(super) fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::Pred => ElementType::Pred,
        DType::S8 => ElementType::S8,
        DType::S16 => ElementType::S16,
        DType::S32 => ElementType::S32,
        DType::S64 => ElementType::S64,
        DType::U8 => ElementType::U8,
        DType::U16 => ElementType::U16,
        DType::U32 => ElementType::U32,
        DType::U64 => ElementType::U64,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::Bf16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::C64 => ElementType::C64,
        DType::C128 => ElementType::C128,
        DType::F8E4M3FN => ElementType::F8E4M3Fn,
        DType::F8E5M2 => ElementType::F8E5M2,
    }
}
