//! One call of a compiled program: tensors in, executable, tensors out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clutch_pjrt::{Buffer, ExecuteScratch, LoadedExecutable};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use smallvec::SmallVec;

use super::dlpack::Exchange;
use super::inputs::{Inputs, Slot, donate, fill};
use super::outputs::{tensor, view, write_back};
use super::weights::{LaidOut, WeightTable};
use crate::bucket::bind::Binding;
use crate::capture::lower::{Sink, Source};
use crate::capture::program::ViewBase;
use crate::compile::Code;
use crate::driver::Artifact;
use crate::metrics::{METRICS, count, time};
use crate::python::errors;
use crate::recipe::{Argument, Interface};

/// What calls need of this process's Python.
pub struct Context {
    /// PyTorch's tensor exchange.
    pub exchange: Exchange,
    /// Draws a seed from PyTorch's default generator.
    pub draw_seed: Py<PyAny>,
    /// `torch.autograd.graph.increment_version`.
    pub increment_version: Py<PyAny>,
}

/// What is kept between calls.
#[derive(Default)]
struct State {
    main: Vec<Slot>,
    weights: LaidOut,
    outputs: Vec<Buffer>,
    scratch: ExecuteScratch,
}

/// A compiled program with its device state.
pub struct Runner {
    artifact: Arc<Artifact>,
    table: Arc<WeightTable>,
    state: Mutex<Option<State>>,
}

impl Runner {
    /// A runner of `artifact`; all programs of one captured graph share one table of laid out weights.
    pub fn new(artifact: Arc<Artifact>, table: Arc<WeightTable>) -> Self {
        Runner { artifact, table, state: Mutex::new(None) }
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
        if let Some(Code::Loaded(code)) = &self.artifact.weights {
            state.weights.refresh(py, context, recipe, code, &inputs, &self.table)?;
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
        let start = Instant::now();
        let executed = execute(py, main, &recipe.main, &state.main, state.weights.results(), &mut state.scratch, &mut state.outputs);
        time(&METRICS.execute_ns, start.elapsed());
        for &(argument, _) in &recipe.donated {
            state.main[argument] = Slot::default();
        }
        executed?;
        count(&METRICS.executions);
        self.results(py, context, &inputs, state)
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
        for (output, message) in &recipe.assertions {
            if !is_true(py, &take(&mut outputs, *output)?)? {
                return Err(PyRuntimeError::new_err(message.clone()));
            }
        }
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

/// The value of a `Pred` scalar.
fn is_true(py: Python<'_>, buffer: &Buffer) -> PyResult<bool> {
    let bytes = buffer.to_vec().map_err(|e| errors::plugin(py, &e))?;
    Ok(bytes.first().is_some_and(|&b| b != 0))
}

/// Runs an executable on the contents of `slots` and on the weight program's results.
///
/// # Errors
/// When an argument has no contents, or the plugin fails.
pub(super) fn execute(
    py: Python<'_>,
    code: &LoadedExecutable,
    interface: &Interface,
    slots: &[Slot],
    weights: &[Arc<Buffer>],
    scratch: &mut ExecuteScratch,
    outputs: &mut Vec<Buffer>,
) -> PyResult<()> {
    let mut buffers: SmallVec<[&Buffer; 16]> = SmallVec::with_capacity(slots.len());
    for (slot, (argument, _, _)) in slots.iter().zip(&interface.arguments) {
        let buffer = match argument {
            Argument::Weight(i) => weights.get(*i).map(Arc::as_ref),
            Argument::Program(_) => slot.buffer.as_ref(),
        };
        buffers.push(buffer.ok_or_else(|| errors::internal("an argument has no contents".to_owned()))?);
    }
    py.detach(|| code.execute(buffers, &[], scratch, outputs)).map_err(|e| errors::plugin(py, &e))
}
