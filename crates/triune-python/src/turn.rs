//! A lock for front ends' own work, under the core's rules for forks.

use std::time::Duration;

use pyo3::prelude::*;
use triune::internals::fork;

use crate::error;

/// How often a thread that waits looks whether it is to be interrupted.
const GLANCE: Duration = Duration::from_millis(50);

/// A lock around work of any length, as a context manager. A thread may take it again while it has it.
///
/// In a child of a fork that came upon another thread with it, taking it raises `ForkedError`, or what `failure` makes of its text.
///
/// An interrupt comes before the turn is taken or after the body has begun, and never keeps it from being given back: there is no
/// function of Python's between.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Turn {
    inner: fork::Turn,
    failure: Option<Py<PyAny>>,
}

#[pymethods]
impl Turn {
    #[new]
    #[pyo3(signature = (failure=None))]
    fn new(failure: Option<Py<PyAny>>) -> Self {
        Self { inner: fork::Turn::default(), failure }
    }

    /// Waits until no other thread has it. Raises `ForkedError`.
    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        let mut taken = self.inner.take_within(Duration::ZERO);
        while taken == Ok(false) {
            taken = error::detached(py, || self.inner.take_within(GLANCE))?;
            if taken == Ok(false) {
                py.check_signals()?;
            }
        }
        match (taken, &self.failure) {
            (Ok(_), _) => Ok(()),
            (Err(error), None) => Err(error::forked(error)),
            (Err(error), Some(failure)) => {
                Err(PyErr::from_value(failure.bind(py).call1((error.to_string(),))?))
            }
        }
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.inner.give();
    }

    /// Returns whether a thread has it that is not in this process.
    fn forked(&self) -> bool {
        self.inner.is_forked()
    }
}
