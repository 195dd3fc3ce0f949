//! Results that share memory with inputs or with one another, found by the memory of PyTorch's fake tensors.

use pyo3::prelude::*;
use pyo3::types::PyInt;
use rustc_hash::FxHashMap;

use super::{Walk, WalkError};
use crate::capture::program::{Arg, Node, ValueRef, View, ViewBase};

impl<'py> Walk<'py> {
    /// Finds the results that share memory with an input that the program does not write to, or with the largest result of that memory.
    pub(super) fn views(&mut self, vals: &[Option<Bound<'py, PyAny>>]) -> Result<(), WalkError> {
        let mut whole: FxHashMap<i64, (u32, Bound<'py, PyAny>)> = FxHashMap::default();
        let mut pending = Vec::new();
        for (i, val) in vals.iter().enumerate() {
            let Some(val) = val else { continue };
            let Some(storage) = storage_of(val) else { continue };
            if let Some((number, base)) = self.storages.get(&storage) {
                let is_itself = matches!(self.program.outputs[i], Arg::Value(ValueRef::Input(n)) if n == *number);
                if !is_itself && !self.is_written(*number) && same_reading(val, base)? {
                    pending.push((i as u32, ViewBase::Input(*number), base.clone(), val.clone()));
                }
                continue;
            }
            let larger = match whole.get(&storage) {
                Some((_, first)) => elements(val)? > elements(first)?,
                None => true,
            };
            if larger && val.call_method0("storage_offset")?.extract::<i64>().is_ok_and(|offset| offset == 0) {
                whole.insert(storage, (i as u32, val.clone()));
            }
        }
        for (i, val) in vals.iter().enumerate() {
            let Some(val) = val else { continue };
            if let Some((base, base_val)) = storage_of(val).and_then(|s| whole.get(&s))
                && *base != i as u32
                && same_reading(val, base_val)?
            {
                pending.push((i as u32, ViewBase::Output(*base), base_val.clone(), val.clone()));
            }
        }
        pending.sort_by_key(|p| p.0);
        for (output, base, base_val, val) in pending {
            let shape = self.size_list(&val.getattr("shape")?)?;
            let strides = self.size_list(&val.call_method0("stride")?)?;
            let offset = val.call_method0("storage_offset")?.sub(base_val.call_method0("storage_offset")?)?;
            let Some(offset) = self.int_size(&offset)? else { continue };
            self.program.views.push(View { output, base, shape, strides, offset });
        }
        Ok(())
    }

    /// Whether the program ends by writing to a placeholder.
    fn is_written(&self, input: u32) -> bool {
        let writes = |n: &Node| {
            self.program.target(n) == "aten.copy_.default" && matches!(n.args.first(), Some(Arg::Value(ValueRef::Input(i))) if *i == input)
        };
        self.program.nodes.iter().any(writes)
    }
}

/// What identifies the memory of a tensor among those of one graph.
pub(super) fn storage_of(val: &Bound<'_, PyAny>) -> Option<i64> {
    val.call_method0("untyped_storage").ok()?.getattr("_cdata").ok()?.extract().ok()
}

/// Whether two views of one memory read it alike: with the same element type and nothing pending.
fn same_reading(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<bool> {
    let alike = |method: &str| -> PyResult<bool> { a.call_method0(method)?.eq(b.call_method0(method)?) };
    Ok(a.getattr("dtype")?.eq(b.getattr("dtype")?)? && alike("is_conj")? && alike("is_neg")?)
}

/// Number of elements in the example that was captured; 0 where it depends on data.
fn elements(val: &Bound<'_, PyAny>) -> PyResult<i64> {
    let mut count = 1i64;
    for size in val.getattr("shape")?.try_iter()? {
        let size = size?;
        let known = match size.cast::<PyInt>() {
            Ok(size) => size.extract::<i64>()?,
            Err(_) => size.getattr("node")?.getattr("hint").and_then(|h| h.extract()).unwrap_or(0),
        };
        count = count.saturating_mul(known);
    }
    Ok(count)
}
