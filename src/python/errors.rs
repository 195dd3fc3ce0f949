//! Errors as the Python exceptions of `torch_clutch.errors`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::capture::walk::WalkError;
use crate::driver::BuildError;
use crate::saved::SavedError;

/// An exception of the class `torch_clutch.errors.<class>`.
pub fn new(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py.import("torch_clutch.errors").and_then(|m| m.getattr(class)).and_then(|c| c.call1((message,)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => PyRuntimeError::new_err(message.to_owned()),
    }
}

/// A fault of Clutch itself.
pub fn internal(message: String) -> PyErr {
    Python::attach(|py| {
        new(py, "InternalError", &format!("{message}. This is a fault in Clutch; please report it with CLUTCH_DUMP_DIR's files"))
    })
}

/// Something about devices that the user can change.
pub fn device(message: String) -> PyErr {
    Python::attach(|py| new(py, "DeviceError", &message))
}

/// The program was compiled for a device that this machine does not have.
pub fn not_here() -> PyErr {
    device(
        "this program was compiled ahead of time for a device that is not here; run it on that device, or use \
         options={\"target\": \"auto\"} to compile for this machine"
            .to_owned(),
    )
}

/// The process cannot use what its parent loaded.
pub fn forked() -> PyErr {
    device(
        "this process was forked from one in which Clutch had loaded a PJRT plugin, whose threads are not here; start worker processes \
         with multiprocessing's method \"spawn\" or \"forkserver\", or fork before the first compiled call"
            .to_owned(),
    )
}

/// An error of a saved program.
pub fn saved(py: Python<'_>, error: &SavedError) -> PyErr {
    match error {
        SavedError::Build(e) => build(py, e),
        SavedError::Platform { .. } => new(py, "TargetError", &error.to_string()),
        SavedError::NoBytes(_) | SavedError::Bytes => new(py, "SavedModelError", &error.to_string()),
    }
}

/// An error of the plugin.
pub fn plugin(py: Python<'_>, error: &clutch_pjrt::Error) -> PyErr {
    let class = if error.is_out_of_memory() { "DeviceMemoryError" } else { "PluginError" };
    let advice = if error.is_out_of_memory() { ". Use smaller batches, or a device with more memory" } else { "" };
    new(py, class, &format!("{error}{advice}"))
}

/// A compilation that strict mode forbids.
pub fn strict(py: Python<'_>, what: &str) -> PyErr {
    new(py, "StrictModeError", what)
}

/// Whether an error is one of strict mode.
pub fn is_strict(py: Python<'_>, error: &PyErr) -> bool {
    let class = py.import("torch_clutch.errors").and_then(|m| m.getattr("StrictModeError"));
    class.is_ok_and(|class| error.is_instance(py, &class))
}

/// An error of the pipeline.
pub fn build(py: Python<'_>, error: &BuildError) -> PyErr {
    match error {
        BuildError::Plugin(e) => plugin(py, e),
        BuildError::Strict => strict(py, &error.to_string()),
        other => internal(other.to_string()),
    }
}

/// An error of the walk.
pub fn walk(py: Python<'_>, error: WalkError) -> PyErr {
    match error {
        WalkError::Python(e) => e,
        e @ (WalkError::TensorKind { .. } | WalkError::Dtype { .. }) => new(py, "UnsupportedError", &e.to_string()),
        e => new(py, "UnsupportedError", &format!("{e}; this graph cannot be compiled")),
    }
}
