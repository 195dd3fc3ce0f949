//! One call of a compiled program: tensors in, executable, tensors out.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use clutch_graph::types::row_major_strides;
use clutch_graph::{DType, Dims, TensorType};
use clutch_pjrt::{Buffer, Client, CopySemantics, ElementType, ExecuteScratch, LoadedExecutable};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;

use super::dlpack::{DlTensor, Exchange, Retained};
use super::pack;
use crate::bucket::bind::{Binding, Placed};
use crate::capture::layout::inverse_order;
use crate::capture::lower::{Sink, Source};
use crate::capture::program::ViewBase;
use crate::compile::Code;
use crate::driver::Artifact;
use crate::metrics::{METRICS, count, count_n};
use crate::python::errors;
use crate::recipe::{Argument, Interface};

/// Alignment in bytes at which CPU plugins read host memory in place.
const ALIGNMENT: usize = 64;

/// What calls need of this process's Python.
pub struct Context {
    /// PyTorch's tensor exchange.
    pub exchange: Exchange,
    /// Draws a seed from PyTorch's default generator.
    pub draw_seed: Py<PyAny>,
    /// `torch.autograd.graph.increment_version`.
    pub increment_version: Py<PyAny>,
}

/// The contents of an argument on the device, and what they were made from.
#[derive(Default)]
struct Slot {
    buffer: Option<Buffer>,
    address: usize,
    /// The buffer reads the tensor's own memory, so only its address matters.
    in_place: bool,
    version: u64,
    /// Digest of a few elements: notices writes that PyTorch does not count, such as through `.data`.
    sample: u64,
    /// Keeps a copied tensor's storage, so that its address cannot be given to another tensor.
    retained: Option<Retained>,
}

/// What is kept between calls.
#[derive(Default)]
struct State {
    main: Vec<Slot>,
    weights: Vec<Slot>,
    weight_results: Vec<Buffer>,
    outputs: Vec<Buffer>,
    scratch: ExecuteScratch,
}

/// A compiled program with its device state.
pub struct Runner {
    artifact: Arc<Artifact>,
    state: Mutex<Option<State>>,
}

/// The tensors of one call.
struct Inputs<'a, 'py> {
    args: &'a [Bound<'py, PyAny>],
    constants: &'a [Option<Py<PyAny>>],
    seed: u64,
    binding: Option<&'a Binding>,
}

impl Runner {
    /// A runner of `artifact`.
    pub fn new(artifact: Arc<Artifact>) -> Self {
        Runner { artifact, state: Mutex::new(None) }
    }

    /// The program.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// Whether a weight that the weight program reads is an inference tensor: PyTorch does not count writes to those, so what is made
    /// from them must be made anew on every call.
    ///
    /// # Errors
    /// With what PyTorch raises.
    pub fn reads_uncounted_weights(&self, args: &[Bound<'_, PyAny>]) -> PyResult<bool> {
        let Some(interface) = &self.artifact.recipe.weights else { return Ok(false) };
        for (argument, _, _) in &interface.arguments {
            if let Argument::Program(Source::Input { index, .. }) = argument
                && let Some(tensor) = args.get(*index)
                && tensor.call_method0(intern!(tensor.py(), "is_inference"))?.is_truthy()?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the program on the FX graph's arguments and gives its results.
    ///
    /// # Errors
    /// When an argument is not what was captured, memory runs out, the plugin fails, or the program was built for a device elsewhere.
    pub fn call<'py>(
        &self,
        py: Python<'py>,
        context: &Context,
        args: &[Bound<'py, PyAny>],
        constants: &[Option<Py<PyAny>>],
        binding: Option<&Binding>,
    ) -> PyResult<Bound<'py, PyList>> {
        let taken = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut state = taken.unwrap_or_default();
        let result = self.run(py, context, args, constants, binding, &mut state);
        state.outputs.clear();
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        result
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        context: &Context,
        args: &[Bound<'py, PyAny>],
        constants: &[Option<Py<PyAny>>],
        binding: Option<&Binding>,
        state: &mut State,
    ) -> PyResult<Bound<'py, PyList>> {
        let recipe = &self.artifact.recipe;
        let Code::Loaded(main) = &self.artifact.main else { return Err(errors::not_here()) };
        if args.len() != recipe.inputs {
            return Err(errors::internal(format!("the program takes {} arguments, got {}", recipe.inputs, args.len())));
        }
        let seed = if recipe.needs_seed() { context.draw_seed.call0(py)?.extract::<i64>(py)? as u64 } else { 0 };
        let inputs = Inputs { args, constants, seed, binding };
        if let (Some(interface), Some(Code::Loaded(code))) = (&recipe.weights, &self.artifact.weights) {
            self.refresh_weights(py, context, interface, code, &inputs, state)?;
        }
        state.main.resize_with(recipe.main.arguments.len(), Slot::default);
        for (slot, (argument, ty, kept)) in state.main.iter_mut().zip(&recipe.main.arguments) {
            if let Argument::Program(source) = argument {
                fill(context, main.client(), slot, source, ty, *kept, &inputs)?;
            }
        }
        for &(argument, _) in &recipe.donated {
            let (_, ty, _) = &recipe.main.arguments[argument];
            donate(py, main.client(), &mut state.main[argument], ty)?;
        }
        let executed = execute(py, main, &recipe.main, &state.main, &state.weight_results, &mut state.scratch, &mut state.outputs);
        for &(argument, _) in &recipe.donated {
            state.main[argument] = Slot::default();
        }
        executed?;
        count(&METRICS.executions);
        self.results(py, context, &inputs, state)
    }

    /// Runs the weight program when a weight's address or version has changed.
    fn refresh_weights(
        &self,
        py: Python<'_>,
        context: &Context,
        interface: &Interface,
        code: &LoadedExecutable,
        inputs: &Inputs<'_, '_>,
        state: &mut State,
    ) -> PyResult<()> {
        let mut stale = state.weight_results.is_empty();
        state.weights.resize_with(interface.arguments.len(), Slot::default);
        for (slot, (argument, _, _)) in state.weights.iter_mut().zip(&interface.arguments) {
            let Some(tensor) = tensor_of(argument, inputs) else { continue };
            let tensor = tensor?;
            let view = context.exchange.view(tensor)?;
            let (address, version, sample) = (view.start() as usize, version(tensor)?, sample(&view));
            if (slot.address, slot.version, slot.sample) != (address, version, sample) {
                (slot.address, slot.version, slot.sample, stale) = (address, version, sample, true);
                slot.buffer = None;
                slot.retained = Some(context.exchange.retain(&tensor.call_method0(intern!(py, "detach"))?)?);
            }
        }
        if !stale {
            return Ok(());
        }
        let mut slots: Vec<Slot> = Vec::new();
        for (argument, ty, _) in &interface.arguments {
            let mut slot = Slot::default();
            if let Argument::Program(source) = argument {
                fill(context, code.client(), &mut slot, source, ty, false, inputs)?;
            }
            slots.push(slot);
        }
        let mut results = Vec::new();
        execute(py, code, interface, &slots, &[], &mut state.scratch, &mut results)?;
        let bytes: usize = interface.outputs.iter().map(TensorType::byte_size).sum();
        if state.weight_results.is_empty() {
            count_n(&METRICS.weight_bytes, bytes as u64);
        }
        count(&METRICS.weight_executions);
        state.weight_results = results;
        Ok(())
    }

    fn results<'py>(
        &self,
        py: Python<'py>,
        context: &Context,
        inputs: &Inputs<'_, 'py>,
        state: &mut State,
    ) -> PyResult<Bound<'py, PyList>> {
        let recipe = &self.artifact.recipe;
        let mut outputs: SmallVec<[Option<Buffer>; 8]> = state.outputs.drain(..).map(Some).collect();
        let take = |outputs: &mut SmallVec<[Option<Buffer>; 8]>, index: usize| {
            outputs.get_mut(index).and_then(Option::take).ok_or_else(|| errors::internal(format!("the program has no output {index}")))
        };
        let mutated = PyList::empty(py);
        for ((input, output), order) in recipe.mutations.iter().zip(&recipe.mutation_orders) {
            let tensor = &inputs.args[*input];
            let buffer = take(&mut outputs, *output)?;
            write_back(context, tensor, buffer, &recipe.main.outputs[*output], order, inputs.true_output(*output))?;
            if !tensor.call_method0(intern!(py, "is_inference"))?.is_truthy()? {
                mutated.append(tensor)?;
            }
        }
        if !mutated.is_empty() {
            context.increment_version.call1(py, (mutated,))?;
        }
        let list = PyList::empty(py);
        let mut views: SmallVec<[usize; 4]> = SmallVec::new();
        let sinks = inputs.binding.map_or(&recipe.sinks, |b| &b.sinks);
        for (i, sink) in sinks.iter().enumerate() {
            match sink {
                Sink::None => list.append(py.None())?,
                Sink::Int(i) => list.append(i)?,
                Sink::Input(i) => list.append(&inputs.args[*i])?,
                Sink::View { .. } => {
                    views.push(i);
                    list.append(py.None())?;
                }
                Sink::Constant(i) => list.append(inputs.constants.get(*i).and_then(Option::as_ref))?,
                Sink::Output { index, order } => {
                    let buffer = take(&mut outputs, *index)?;
                    list.append(tensor(py, context, buffer, &recipe.main.outputs[*index], order, inputs.true_output(*index))?)?;
                }
            }
        }
        for i in views {
            let Sink::View { base, dims, strides, offset } = &sinks[i] else { continue };
            let base = match base {
                ViewBase::Input(n) => inputs.args[*n as usize].clone(),
                ViewBase::Output(n) => list.get_item(*n as usize)?,
            };
            list.set_item(i, view(&base, dims, strides, *offset)?)?;
        }
        Ok(list)
    }
}

impl Inputs<'_, '_> {
    /// Where the true data of a placeholder is to lie, when the program may be larger.
    fn true_input(&self, index: usize) -> Option<&Placed> {
        self.binding.and_then(|b| b.inputs.get(index)).and_then(Option::as_ref)
    }

    /// Where the true data of an output lies, when the program may be larger.
    fn true_output(&self, index: usize) -> Option<&Placed> {
        self.binding.and_then(|b| b.outputs.get(index))
    }
}

/// The tensor an argument is made from; `None` when it is made from none.
fn tensor_of<'a, 'py>(argument: &Argument, inputs: &'a Inputs<'a, 'py>) -> Option<PyResult<&'a Bound<'py, PyAny>>> {
    match argument {
        Argument::Program(Source::Input { index, .. }) => {
            Some(inputs.args.get(*index).ok_or_else(|| errors::internal("an argument is missing".to_owned())))
        }
        _ => None,
    }
}

/// Elements that a sample reads.
const SAMPLED: i64 = 8;

/// A digest of a few elements spread over the tensor: first, last and between.
fn sample(view: &DlTensor) -> u64 {
    let (dims, strides) = (view.dims(), view.strides());
    let count = view.numel();
    let size = usize::from(view.bits / 8);
    if count == 0 || !view.on_cpu() {
        return 0;
    }
    let mut digest = 0u64;
    for i in 0..SAMPLED.min(count) {
        let mut index = if count <= SAMPLED { i } else { i * (count - 1) / (SAMPLED - 1) };
        let mut offset = index;
        if !strides.is_empty() {
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

fn version(tensor: &Bound<'_, PyAny>) -> PyResult<u64> {
    tensor.getattr(intern!(tensor.py(), "_version"))?.extract()
}

fn execute(
    py: Python<'_>,
    code: &LoadedExecutable,
    interface: &Interface,
    slots: &[Slot],
    weights: &[Buffer],
    scratch: &mut ExecuteScratch,
    outputs: &mut Vec<Buffer>,
) -> PyResult<()> {
    let mut buffers: SmallVec<[&Buffer; 16]> = SmallVec::with_capacity(slots.len());
    for (slot, (argument, _, _)) in slots.iter().zip(&interface.arguments) {
        let buffer = match argument {
            Argument::Weight(i) => weights.get(*i),
            Argument::Program(_) => slot.buffer.as_ref(),
        };
        buffers.push(buffer.ok_or_else(|| errors::internal("an argument has no contents".to_owned()))?);
    }
    py.detach(|| code.execute(buffers, &[], scratch, outputs)).map_err(|e| errors::plugin(py, &e))
}

/// Puts an argument's contents into its slot.
fn fill(
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
fn upload_padded(
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
    let mut bytes = vec![fill; ty.byte_size()];
    let (from, to) = (placed.strides(&stored_strides(&view, order)), row_major_strides(&placed.padded));
    // SAFETY: the tensor's own sizes and strides; the parts lie in the target, which is new.
    unsafe { pack::copy(view.start().cast(), bytes.as_mut_ptr(), &placed.parts, &from, &to, ty.dtype.size()) };
    count_n(&METRICS.pad_elements, (ty.numel() - small.numel()) as u64);
    let made = Buffer::from_host(client.default_device(), &bytes, &ty.dims, element_type(ty.dtype), CopySemantics::DuringCall);
    *slot = Slot { buffer: Some(made.map_err(|e| errors::plugin(tensor.py(), &e))?), ..Slot::default() };
    Ok(())
}

/// Checks that the parts lie in memory of the program's type.
fn fits(placed: &Placed, ty: &TensorType) -> PyResult<()> {
    let inside = placed.parts.iter().zip(&placed.padded).all(|(true_size, padded)| true_size <= padded);
    let (parts, whole): (i64, i64) = (placed.parts.iter().product(), placed.dims.iter().product());
    if inside && parts == whole && placed.padded.iter().product::<i64>() == ty.numel() {
        return Ok(());
    }
    Err(errors::internal(format!("a tensor of sizes {:?} does not fit a program for up to {ty}", placed.dims)))
}

/// `CLUTCH_POISON_PADDING=1` fills padded lanes with NaN, to prove that none leaks.
fn poison_padding() -> bool {
    static POISON: OnceLock<bool> = OnceLock::new();
    *POISON.get_or_init(|| std::env::var("CLUTCH_POISON_PADDING").is_ok_and(|v| v == "1"))
}

/// Gives the slot a buffer with the tensor's contents: in place when the memory is dense in `order`, aligned and the device's own.
fn upload(
    context: &Context,
    client: &Client,
    slot: &mut Slot,
    tensor: &Bound<'_, PyAny>,
    ty: &TensorType,
    order: &[usize],
    kept: bool,
) -> PyResult<()> {
    let view = context.exchange.view(tensor)?;
    check(&view, ty, order)?;
    let address = view.start() as usize;
    let strides = stored_strides(&view, order);
    let dense = is_dense(&ty.dims, &strides);
    if dense && slot.address == address && slot.in_place && slot.buffer.is_some() {
        return Ok(());
    }
    let in_place = dense && address != 0 && address.is_multiple_of(ALIGNMENT) && client_is_cpu(client);
    let py = tensor.py();
    let counted = kept && !in_place && version(tensor).is_ok();
    if counted && slot.buffer.is_some() && (slot.address, slot.version, slot.sample) == (address, version(tensor)?, sample(&view)) {
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
    (slot.address, slot.in_place) = (address, in_place);
    if counted {
        (slot.version, slot.sample) = (version(tensor)?, sample(&view));
        slot.retained = Some(context.exchange.retain(&tensor.call_method0(intern!(py, "detach"))?)?);
    }
    Ok(())
}

/// Lets the execution write to the memory of a slot that reads a tensor in place.
fn donate(py: Python<'_>, client: &Client, slot: &mut Slot, ty: &TensorType) -> PyResult<()> {
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

fn client_is_cpu(client: &Client) -> bool {
    client.platform_name().eq_ignore_ascii_case("cpu")
}

/// The tensor is in host memory and of the captured type.
fn check(view: &DlTensor, ty: &TensorType, order: &[usize]) -> PyResult<()> {
    let dims = view.dims();
    let same = dims.len() == order.len() && order.iter().zip(&ty.dims).all(|(&a, &d)| dims[a] == d);
    if !same || view.dtype() != Some(ty.dtype) {
        return Err(errors::internal(format!("an argument of sizes {dims:?} was given where {ty} (axes {order:?}) was captured")));
    }
    if !view.on_cpu() {
        return Err(errors::device("an argument is not in host memory; move the model and its inputs to the CPU device".to_owned()));
    }
    Ok(())
}

fn stored_strides(view: &DlTensor, order: &[usize]) -> Dims {
    let strides = view.strides();
    if strides.is_empty() {
        let logical = row_major_strides(view.dims());
        return order.iter().map(|&a| logical[a]).collect();
    }
    order.iter().map(|&a| strides[a]).collect()
}

fn is_dense(dims: &[i64], strides: &[i64]) -> bool {
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

/// Copies an output into the tensor that the program writes to.
fn write_back(
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
fn view<'py>(base: &Bound<'py, PyAny>, dims: &Dims, strides: &Dims, offset: i64) -> PyResult<Bound<'py, PyAny>> {
    let py = base.py();
    let start: i64 = base.call_method0(intern!(py, "storage_offset"))?.extract()?;
    base.call_method1(intern!(py, "as_strided"), (PyTuple::new(py, dims)?, PyTuple::new(py, strides)?, start + offset))
}

/// A PyTorch tensor that owns an output's memory.
fn tensor<'py>(
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

/// Memory at the alignment that plugins read in place.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

impl Default for Line {
    fn default() -> Self {
        Line([0; ALIGNMENT])
    }
}

/// The plugin's element type.
pub fn element_type(dtype: DType) -> ElementType {
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
