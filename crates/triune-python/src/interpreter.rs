//! One interpreter per process: classes, tables and the end of threads belong to the one that imported the module first.
#![expect(unsafe_code, reason = "asks which interpreter this is; PyO3 has no safe way")]

use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::{exceptions::PyImportError, ffi, prelude::*};

/// No interpreter has this number.
const NONE: i64 = -1;

/// The number of this thread's interpreter; the main one's is 0.
fn number(_py: Python<'_>) -> i64 {
    // SAFETY: `_py` says that this thread has an interpreter, which there is as long as it runs.
    unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) }
}

/// Whether this thread's interpreter is the main one, which other threads get, too.
pub(crate) fn is_main(py: Python<'_>) -> bool {
    number(py) == 0
}

/// Refuses a second interpreter.
///
/// Raises `ImportError`.
pub(crate) fn claim(py: Python<'_>) -> PyResult<()> {
    static OWNER: AtomicI64 = AtomicI64::new(NONE);
    let own = number(py);
    match OWNER.compare_exchange(NONE, own, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => Ok(()),
        Err(owner) if owner == own => Ok(()),
        Err(owner) => Err(PyImportError::new_err(format!(
            "triune works in one interpreter of a process: interpreter {owner} has imported it, this is {own}; use threads or \
             processes instead of subinterpreters"
        ))),
    }
}
