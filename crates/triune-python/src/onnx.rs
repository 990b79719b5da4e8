//! What the reader of ONNX files knows.

use pyo3::prelude::*;
use triune::internals::graph::format::onnx;

/// Every version of every ONNX operator that the reader knows: domain, operator, the opset that it holds from, and why it is
/// not read, if it is not.
#[pyfunction]
pub(crate) fn onnx_versions() -> Vec<(&'static str, &'static str, i64, Option<&'static str>)> {
    let version = |version: onnx::Version| (version.domain, version.operator, version.since, version.refused);
    onnx::versions().into_iter().map(version).collect()
}
