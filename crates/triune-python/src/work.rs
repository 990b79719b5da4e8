//! How much work a run may be.

use pyo3::prelude::*;
use triune::internals::device::work;

use crate::error;

/// How many operations a run may take, None for any number: what `set_work_limit` set, or else `TRIUNE_WORK_LIMIT`.
///
/// Raises `ArgumentError` if that is no limit.
#[pyfunction]
pub(crate) fn work_limit() -> PyResult<Option<u64>> {
    let limit = work::limit().map_err(error::device)?;
    Ok(Some(limit).filter(|&limit| limit < u64::MAX))
}

/// Sets how many operations a run may take in this process, for programs that are made ready later; None lifts the limit.
///
/// Raises `ArgumentError` for 0.
#[pyfunction]
pub(crate) fn set_work_limit(operations: Option<u64>) -> PyResult<()> {
    if operations == Some(0) {
        return Err(error::argument("operations: expected a number from 1 or None, got 0"));
    }
    work::set_limit(operations.unwrap_or(u64::MAX));
    Ok(())
}
