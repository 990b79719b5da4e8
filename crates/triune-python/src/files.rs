//! What Python writes and reads, by the core's rules for files.

use std::{
    fs::File,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pyo3::{buffer::PyBuffer, prelude::*, types::PyBytes};
use triune::internals::{
    files::{self, Error, Input},
    runtime::Error as RuntimeError,
};

use crate::{error, list};

/// A file that is being written: it takes its place with `commit`, or leaves nothing behind.
#[pyclass(frozen, module = "triune._native")]
pub(crate) struct OutputFile {
    inner: Mutex<Option<files::Output>>,
}

impl OutputFile {
    fn lock(&self) -> MutexGuard<'_, Option<files::Output>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl OutputFile {
    /// Starts to write the file at `path`.
    ///
    /// Raises `FileError` if it cannot be made, or is there and may not be written.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let output = error::detached(py, || files::Output::create(&path))?.map_err(file)?;
        Ok(Self { inner: Mutex::new(Some(output)) })
    }

    /// A new descriptor to write to, on Windows a handle, which the caller closes; None for what is written directly, such as a
    /// device or a pipe: that is the caller's to open.
    ///
    /// Raises `ArgumentError` after `commit` and `discard`.
    fn descriptor(&self) -> PyResult<Option<i64>> {
        let mut inner = self.lock();
        let output = inner.as_mut().ok_or_else(|| error::argument("the file has been put in its place"))?;
        if output.direct().is_some() {
            return Ok(None);
        }
        Ok(Some(descriptor_of(output.file()?.try_clone()?)))
    }

    /// Puts the file in its place; with `sync`, once its content is on the disk.
    ///
    /// Raises `FileError`; then what was there is still there.
    #[pyo3(signature = (*, sync=true))]
    fn commit(&self, py: Python<'_>, sync: bool) -> PyResult<()> {
        let output = self.lock().take();
        let commit = |output: files::Output| if sync { output.commit() } else { output.commit_unsynced() };
        error::detached(py, || output.map_or(Ok(()), commit))?.map_err(file)
    }

    /// Removes what was written; harmless after `commit`.
    fn discard(&self) {
        *self.lock() = None;
    }
}

/// A new descriptor, on Windows a handle, of the plain file at `path`, which has at most `limit` bytes.
///
/// Raises `FileError` if it cannot be opened, is no plain file, or is longer.
#[pyfunction]
pub(crate) fn open_input(py: Python<'_>, path: PathBuf, limit: u64) -> PyResult<i64> {
    let input = error::detached(py, || Input::open(&path, limit))?.map_err(file)?;
    Ok(descriptor_of(input.into_file()))
}

/// The bytes of the plain file at `path`, which has at most `limit`.
///
/// Raises `FileError` if it cannot be read, is no plain file, or is longer.
#[pyfunction]
pub(crate) fn read_file(py: Python<'_>, path: PathBuf, limit: u64) -> PyResult<Bound<'_, PyBytes>> {
    let bytes = error::detached(py, || files::read(&path, limit))?.map_err(file)?;
    list::to_bytes(py, &bytes)
}

/// Puts `data` behind what the file at `path` holds: all of it, or nothing. A file that is missing is made.
///
/// Raises `FileError` if it cannot be written.
#[pyfunction]
pub(crate) fn append_to_file(py: Python<'_>, path: PathBuf, data: PyBuffer<u8>) -> PyResult<()> {
    let data = list::bytes(py, &data)?;
    error::detached(py, || files::append(&path, &data))?.map_err(file)
}

#[cfg(unix)]
fn descriptor_of(file: File) -> i64 {
    std::os::fd::IntoRawFd::into_raw_fd(file).into()
}

/// Python's C library has the descriptors, and makes one of it.
#[cfg(windows)]
fn descriptor_of(file: File) -> i64 {
    std::os::windows::io::IntoRawHandle::into_raw_handle(file) as i64
}

fn file(error: Error) -> PyErr {
    error::runtime(RuntimeError::File(error))
}
