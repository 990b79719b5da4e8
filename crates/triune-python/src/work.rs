//! How much work a run may be.

use pyo3::{exceptions::PyOverflowError, prelude::*};
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
/// Raises `ArgumentError` for what is no number from 1 to 2**64 - 1.
#[pyfunction]
pub(crate) fn set_work_limit(operations: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let limit = match operations {
        None => u64::MAX,
        Some(operations) => match operations.extract() {
            Ok(limit @ 1_u64..) => limit,
            Err(error) if !error.is_instance_of::<PyOverflowError>(operations.py()) => return Err(error),
            _ => {
                return Err(error::argument(format!(
                    "operations: expected a number from 1 to 2**64 - 1 or None, got {operations}"
                )));
            }
        },
    };
    work::set_limit(limit);
    Ok(())
}
