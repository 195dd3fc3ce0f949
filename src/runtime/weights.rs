//! Weights as the weight program lays them out, made anew when one has changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use clutch_graph::TensorType;
use clutch_pjrt::{Buffer, ExecuteScratch, LoadedExecutable};
use pyo3::intern;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::call::{Context, execute};
use super::inputs::{Inputs, Slot, fill, sample, version};
use crate::capture::lower::Source;
use crate::metrics::{METRICS, count, count_n, time};
use crate::python::errors;
use crate::recipe::{Argument, Interface, Recipe};
use crate::weight_values::WeightValue;

/// Address, version and sample of each weight that a value is made from.
type Origin = Vec<(usize, u64, u64)>;

type Values = FxHashMap<[u8; 32], (Origin, Weak<Buffer>)>;

/// The laid out weights of one captured graph, by [`WeightValue::digest`]: programs for several buckets keep one copy of equal ones.
#[derive(Default)]
pub struct WeightTable(Mutex<Values>);

impl WeightTable {
    fn lock(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of these values, if programs that are alive hold them.
    fn all(&self, values: &[WeightValue], from: &[Slot]) -> Option<Vec<Arc<Buffer>>> {
        let table = self.lock();
        values.iter().map(|value| held(&table, value, from)).collect()
    }

    /// Puts new results in; those that are held already come in place of the new ones.
    fn exchange(&self, values: &[WeightValue], from: &[Slot], results: Vec<Buffer>, sizes: &[usize]) -> Vec<Arc<Buffer>> {
        let mut table = self.lock();
        let mut kept = Vec::with_capacity(results.len());
        for ((value, result), size) in values.iter().zip(results).zip(sizes) {
            kept.push(held(&table, value, from).unwrap_or_else(|| {
                let result = Arc::new(result);
                if table.insert(value.digest, (origin(value, from), Arc::downgrade(&result))).is_none() {
                    count_n(&METRICS.weight_bytes, *size as u64);
                }
                result
            }));
        }
        kept
    }
}

/// A value that some program holds. Its holder retains the weights' memory, so equal addresses are the same tensors.
fn held(table: &Values, value: &WeightValue, from: &[Slot]) -> Option<Arc<Buffer>> {
    let (made_from, buffer) = table.get(&value.digest)?;
    if *made_from == origin(value, from) { buffer.upgrade() } else { None }
}

fn origin(value: &WeightValue, from: &[Slot]) -> Origin {
    value.arguments.iter().map(|&a| (from[a].address, from[a].version, from[a].sample)).collect()
}

/// Results of a weight program, and the weights that they were made from.
#[derive(Default)]
pub(super) struct LaidOut {
    from: Vec<Slot>,
    results: Vec<Arc<Buffer>>,
}

impl LaidOut {
    /// What the main program reads.
    pub(super) fn results(&self) -> &[Arc<Buffer>] {
        &self.results
    }

    /// Runs the weight program when a weight's address or version has changed, and no other program has the results.
    ///
    /// # Errors
    /// When a weight is not what was captured, memory runs out or the plugin fails.
    pub(super) fn refresh(
        &mut self,
        py: Python<'_>,
        context: &Context,
        recipe: &Recipe,
        code: &LoadedExecutable,
        inputs: &Inputs<'_, '_>,
        table: &WeightTable,
    ) -> PyResult<()> {
        let Some(interface) = &recipe.weights else { return Ok(()) };
        let mut stale = self.results.is_empty();
        self.from.resize_with(interface.arguments.len(), Slot::default);
        for (slot, (argument, _, _)) in self.from.iter_mut().zip(&interface.arguments) {
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
        let shared = table.all(&recipe.weight_values, &self.from);
        // Results of old weights must not outlive a failure.
        self.results.clear();
        self.results = match shared {
            Some(results) => results,
            None => {
                let start = Instant::now();
                let results = run(py, context, interface, code, inputs)?;
                let sizes: Vec<usize> = interface.outputs.iter().map(TensorType::byte_size).collect();
                count(&METRICS.weight_executions);
                time(&METRICS.weight_ns, start.elapsed());
                table.exchange(&recipe.weight_values, &self.from, results, &sizes)
            }
        };
        Ok(())
    }
}

fn run(
    py: Python<'_>,
    context: &Context,
    interface: &Interface,
    code: &LoadedExecutable,
    inputs: &Inputs<'_, '_>,
) -> PyResult<Vec<Buffer>> {
    let mut slots: Vec<Slot> = Vec::new();
    for (argument, ty, _) in &interface.arguments {
        let mut slot = Slot::default();
        if let Argument::Program(source) = argument {
            fill(context, code.client(), &mut slot, source, ty, false, inputs)?;
        }
        slots.push(slot);
    }
    let mut results = Vec::new();
    execute(py, code, interface, &slots, &[], &mut ExecuteScratch::default(), &mut results)?;
    Ok(results)
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
