//! Model files: the ciphers, the packed form, one format to another.

use std::{
    collections::HashMap,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use pyo3::{
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyDict},
};
use triune::internals::{
    files,
    graph::{
        Error, Graph,
        format::{
            self,
            mge::{
                self, cipher,
                packed::{self, Packed},
            },
            onnx,
        },
        infer, passes,
    },
    runtime::Error as RuntimeError,
};

use crate::error;
use crate::list::{self, List};

/// The plain bytes of what the cipher called `name` made of them.
///
/// Without a key, the cipher's public default one is taken. Raises `ArgumentError` for an unknown cipher, a key that is
/// too short, and data that cannot be the cipher's.
#[pyfunction]
#[pyo3(signature = (name, data, key=None))]
pub(crate) fn decrypt<'py>(
    py: Python<'py>,
    name: &str,
    data: PyBackedBytes,
    key: Option<&[u8]>,
) -> PyResult<Bound<'py, PyBytes>> {
    let key = key.or(cipher::default_key(name)).unwrap_or_default();
    let plain = error::detached(py, || cipher::decrypt(name, key, &data))?;
    list::to_bytes(py, &plain.map_err(graph)?)
}

/// Bytes that `decrypt` with the same name and key turns into `data` again.
///
/// Raises `ArgumentError` for an unknown cipher and a key that is too short.
#[pyfunction]
#[pyo3(signature = (name, data, key=None))]
pub(crate) fn encrypt<'py>(
    py: Python<'py>,
    name: &str,
    data: PyBackedBytes,
    key: Option<&[u8]>,
) -> PyResult<Bound<'py, PyBytes>> {
    let key = key.or(cipher::default_key(name)).unwrap_or_default();
    let secret = error::detached(py, || cipher::encrypt(name, key, &data))?;
    list::to_bytes(py, &secret.map_err(graph)?)
}

/// The parts of a packed model by name, nothing decrypted.
///
/// Text: `name`, `info_decryption`, `info_parser`, `model_decryption`, `cache_parser`. Bytes: `info`, `algo_policy`,
/// `binary_cache`, `model`. Flag: `is_fast_run_cache`. Raises `ArgumentError` for bytes that are no packed model.
#[pyfunction]
pub(crate) fn unpack_model(py: Python<'_>, data: PyBackedBytes) -> PyResult<Bound<'_, PyDict>> {
    let parts = error::detached(py, || packed::read(bytes::Bytes::from_owner(data)))?.map_err(graph)?;
    let dict = PyDict::new(py);
    dict.set_item("name", parts.name)?;
    dict.set_item("info_decryption", parts.info_decryption)?;
    dict.set_item("info_parser", parts.info_parser)?;
    dict.set_item("model_decryption", parts.model_decryption)?;
    dict.set_item("cache_parser", parts.cache_parser)?;
    dict.set_item("is_fast_run_cache", parts.is_fast_run_cache)?;
    for (name, part) in [
        ("info", parts.info),
        ("algo_policy", parts.algo_policy),
        ("binary_cache", parts.binary_cache),
        ("model", parts.model),
    ] {
        dict.set_item(name, list::to_bytes(py, &part)?)?;
    }
    Ok(dict)
}

/// A packed model: `info` is its description as JSON, which repeats `name`.
///
/// The parts are taken as they are; `info_decryption` and `model_decryption` name the ciphers that they are encrypted with.
#[pyfunction]
#[pyo3(signature = (name, model, *, info=None, info_decryption="NONE", model_decryption="NONE", binary_cache=None))]
pub(crate) fn pack_model<'py>(
    py: Python<'py>,
    name: &str,
    model: PyBackedBytes,
    info: Option<List<u8>>,
    info_decryption: &str,
    model_decryption: &str,
    binary_cache: Option<List<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let parts = Packed {
        name: name.into(),
        info_decryption: info_decryption.into(),
        info_parser: "LITE_default".into(),
        model_decryption: model_decryption.into(),
        cache_parser: "LITE_parse_cache".into(),
        is_fast_run_cache: binary_cache.is_some(),
        info: info.unwrap_or_default().0.into(),
        algo_policy: bytes::Bytes::new(),
        binary_cache: binary_cache.unwrap_or_default().0.into(),
        model: bytes::Bytes::from_owner(model),
    };
    let packed = error::detached(py, || packed::write(&parts))?;
    list::to_bytes(py, &packed)
}

/// Reads a model file of any supported format and writes it as another, by the suffix: `.mge` or `.onnx`.
///
/// `shapes` are extents by input name; a MegEngine model has to have extents, and those that are open and not given
/// are 1. Raises `FileError` for a file that cannot be read or written, and `ArgumentError` for one that is no model, has
/// what the other format does not, or has no such input.
#[pyfunction]
#[pyo3(signature = (model, output, *, shapes=None))]
pub(crate) fn convert(
    py: Python<'_>,
    model: PathBuf,
    output: PathBuf,
    shapes: Option<HashMap<String, List<usize>>>,
) -> PyResult<()> {
    let shapes = shapes.map(|shapes| shapes.into_iter().map(|(name, shape)| (name, shape.0)).collect());
    error::detached(py, || convert_files(&model, &output, &shapes.unwrap_or_default()))?
        .map_err(error::runtime)
}

fn convert_files(
    model: &Path,
    output: &Path,
    shapes: &HashMap<String, Vec<usize>>,
) -> Result<(), RuntimeError> {
    let graph = format::read(model)?;
    let bytes = match output.extension().and_then(OsStr::to_str) {
        Some("mge") => {
            let defaults = mge::default_shapes(&graph, shapes)?;
            mge::write(&graph, &defaults)?
        }
        Some("onnx") => {
            let mut graph = graph;
            if !shapes.is_empty() {
                let shapes: Vec<(&str, &[usize])> =
                    shapes.iter().map(|(name, shape)| (&**name, &**shape)).collect();
                graph.bind(&shapes)?;
                tell_shapes(&mut graph);
            }
            onnx::write(&graph)?
        }
        _ => {
            let name = output.display();
            return Err(
                Error::Graph(format!("{name}: formats are told by their suffix, .mge or .onnx")).into()
            );
        }
    };
    Ok(files::write(output, &bytes)?)
}

/// Lets the outputs of a graph with bound inputs say their extents, where these do not depend on data.
fn tell_shapes(graph: &mut Graph) {
    let mut known = graph.clone();
    if passes::fold_constants(&mut known).is_err() || infer::infer(&mut known).is_err() {
        return;
    }
    for (&id, &same) in graph.outputs.clone().iter().zip(&known.outputs) {
        let found = known.value(same);
        let (dtype, shape) = (found.dtype, found.shape.clone());
        let value = graph.value_mut(id);
        (value.dtype, value.shape) = (dtype, shape);
    }
}

fn graph(error: Error) -> PyErr {
    error::runtime(error.into())
}
