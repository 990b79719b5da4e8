//! Forked children: they have the thread that forked and no other, and every lock as it was.

use pyo3::{prelude::*, types::PyDict};

use crate::{exit, interrupt, tensor_info};

/// Called before a fork: what a thread may be about to look up once and for all is looked up, so that no child is left
/// waiting for that thread.
#[pyfunction]
fn before(py: Python<'_>) -> PyResult<()> {
    let modules = py.import("sys")?.getattr("modules")?;
    if modules.contains("numpy")? {
        // The tables of numpy's functions and types.
        let _ = numpy::dtype::<u8>(py);
        let _ = numpy::npyffi::is_numpy_2(py);
    }
    Ok(())
}

/// Called in a child, before anything else there.
#[pyfunction]
fn in_child() {
    exit::in_child();
    interrupt::in_child();
}

/// Makes the interpreter announce forks.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    tensor_info::prepare();
    let py = module.py();
    let os = py.import("os")?;
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let hooks = PyDict::new(py);
    hooks.set_item("before", wrap_pyfunction!(before, module)?)?;
    hooks.set_item("after_in_child", wrap_pyfunction!(in_child, module)?)?;
    os.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}
