//! Lists that callers give: the one way from a Python sequence to elements in memory.
//!
//! A sequence says how many elements it has before it gives one, and may say anything: what there is no memory for is
//! `MemoryError`, and the process goes on.

use std::ops::Deref;

use pyo3::{
    buffer::PyBuffer,
    conversion::FromPyObjectOwned,
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBytes, PySequence, PyString},
};
use triune::internals::tensor::memory;

use crate::error;

/// The bytes of a buffer, in memory of their own.
pub(crate) fn bytes(py: Python<'_>, buffer: &PyBuffer<u8>) -> PyResult<Vec<u8>> {
    let mut bytes = memory::filled(buffer.item_count(), 0).map_err(error::out_of_memory)?;
    buffer.copy_to_slice(py, &mut bytes)?;
    Ok(bytes)
}

/// Bytes for Python, which has to find memory for them.
pub(crate) fn to_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |own| {
        own.copy_from_slice(bytes);
        Ok(())
    })
}

/// The elements of a sequence that is no text.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<'a, 'py, T: FromPyObjectOwned<'py>> FromPyObject<'a, 'py> for List<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("expected a list, got a text"));
        }
        let sequence = object.cast::<PySequence>()?;
        let mut elements = memory::with_room(sequence.len()?).map_err(error::out_of_memory)?;
        for item in sequence.try_iter()? {
            memory::grow(&mut elements, 1).map_err(error::out_of_memory)?;
            elements.push(item?.extract::<T>().map_err(Into::into)?);
        }
        Ok(Self(elements))
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
