//! Descriptions of devices: the schema, what is wrong with one, what is in one.

use std::path::PathBuf;

use pyo3::{prelude::*, types::PyDict};
use triune::internals::{
    device::{DeviceSpec, spec::schema},
    runtime::{conformance, target},
};

use crate::error;

/// The keys of descriptions, in order: dicts with table (empty for the first), name, values (what can stand there), unit,
/// need (`always`, `modelled`, `optional`), default (of optional ones, if their absence is the same as a value) and meaning.
#[pyfunction]
pub(crate) fn device_schema(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let row = |key: &schema::Key| {
        let row = PyDict::new(py);
        row.set_item("table", key.table)?;
        row.set_item("name", key.name)?;
        row.set_item("values", key.kind.to_string())?;
        row.set_item("unit", key.unit)?;
        let (need, default) = match key.need {
            schema::Need::Always => ("always", None),
            schema::Need::Modelled => ("modelled", None),
            schema::Need::Optional("") => ("optional", None),
            schema::Need::Optional(text) => ("optional", Some(text)),
        };
        row.set_item("need", need)?;
        row.set_item("default", default)?;
        row.set_item("meaning", key.meaning)?;
        Ok(row)
    };
    schema::KEYS.iter().map(row).collect()
}

/// What a target names, as TOML with every key that has a value; and its name.
///
/// Raises `FileError`, `ArgumentError` if there is no such device, or its file is wrong.
#[pyfunction]
pub(crate) fn device_of(py: Python<'_>, target: PathBuf) -> PyResult<(String, String)> {
    let read = || target::device(&target).map(|spec| (spec.name.clone(), spec.to_toml(schema::Style::Whole)));
    error::detached(py, read)?.map_err(error::runtime)
}

/// Whether a target is the path of a file, and no name.
#[pyfunction]
pub(crate) fn device_is_file(target: PathBuf) -> bool {
    target::is_file(&target)
}

/// All that is wrong with a device file: the line, or None, the key, and the problem.
///
/// Raises `FileError`.
#[pyfunction]
pub(crate) fn device_problems(
    py: Python<'_>,
    file: PathBuf,
) -> PyResult<Vec<(Option<usize>, String, String)>> {
    let found = error::detached(py, || target::problems(&file))?.map_err(error::runtime)?;
    let problems = found.err().unwrap_or_default();
    Ok(problems.into_iter().map(|problem| (problem.line, problem.key, problem.problem)).collect())
}

/// The text of a device file to begin with: a small array, or a device that comes with Triune.
///
/// Raises `ArgumentError` if there is no such device, or the name is none for a device of one's own.
#[pyfunction]
#[pyo3(signature = (name, like=None))]
pub(crate) fn device_begin(name: &str, like: Option<&str>) -> PyResult<String> {
    DeviceSpec::begin(name, like).map_err(error::device)
}

/// Runs the conformance suite over a device: for each check its name, and what failed, if it did.
///
/// Raises `FileError`, `ArgumentError` if there is no such device, or its file is wrong.
#[pyfunction]
pub(crate) fn device_conformance(py: Python<'_>, target: PathBuf) -> PyResult<Vec<(String, Option<String>)>> {
    let run = || {
        let spec = target::device(&target)?;
        Ok(conformance::run(&spec).into_iter().map(|check| (check.name, check.failed)).collect())
    };
    error::detached(py, run)?.map_err(error::runtime)
}
