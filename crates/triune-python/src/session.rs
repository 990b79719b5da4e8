//! Any ONNX file on this machine's CPU.

use std::path::PathBuf;

use numpy::PyUntypedArrayMethods;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use triune::internals::{
    fork::Lock,
    kernels::cancel,
    runtime::{self, Dim, SessionOptions, TensorRef, ValueInfo},
    tensor::memory,
};

use crate::{
    array::{self, Input},
    error::{self, InternalError},
};

/// A model on this machine's CPU.
#[pyclass(frozen, module = "triune._native")]
pub(crate) struct Session {
    inner: Lock<runtime::Session>,
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
}

/// Name, element type and extents (an int, or a name where the model leaves it open) of a model's input or output.
type Described<'py> = (String, &'static str, Vec<Bound<'py, PyAny>>);

#[pymethods]
impl Session {
    /// Opens an ONNX file, given as a path or as its bytes. `threads` compute a run; 0 takes every CPU.
    ///
    /// Raises `FileError` if it cannot be read, `ArgumentError` if it is damaged, `UnsupportedError` if it holds an operator that
    /// does not run here.
    #[new]
    #[pyo3(signature = (model, *, threads=1))]
    fn new(py: Python<'_>, model: &Bound<'_, PyAny>, threads: usize) -> PyResult<Self> {
        let options = SessionOptions { threads, ..SessionOptions::default() };
        let inner = if let Ok(bytes) = model.cast::<PyBytes>() {
            let bytes = memory::copied(bytes.as_bytes()).map_err(error::out_of_memory)?;
            error::detached(py, || runtime::Session::from_bytes(bytes, &options))?
        } else {
            let path: PathBuf = model.extract()?;
            error::detached(py, || runtime::Session::open(&path, &options))?
        };
        let inner = inner.map_err(error::runtime)?;
        let (inputs, outputs) = (inner.inputs().to_vec(), inner.outputs().to_vec());
        Ok(Self { inner: Lock::new(inner), inputs, outputs })
    }

    /// Name, dtype and shape of each input; an extent that the model leaves open is a name.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        self.inputs.iter().map(|info| describe(py, info)).collect()
    }

    /// Name, dtype and shape of each output, as for `inputs`.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        self.outputs.iter().map(|info| describe(py, info)).collect()
    }

    /// Computes every output, in the model's order, from a C-contiguous array per input, given by name. Calls from
    /// several threads run one after the other.
    ///
    /// Raises `ArgumentError` if a name is unknown or missing, or an array does not fit, `ForkedError` in a child of a fork that
    /// came upon a run.
    fn run<'py>(&self, py: Python<'py>, feeds: &Bound<'py, PyDict>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        for key in feeds.keys() {
            let name: String = key.extract()?;
            if !self.inputs.iter().any(|info| info.name == name) {
                let names: Vec<_> = self.inputs.iter().map(|info| info.name.as_str()).collect();
                let text = format!("unknown input '{name}'; the model has {}", names.join(", "));
                return Err(error::argument(text));
            }
        }
        let mut arrays = Vec::with_capacity(self.inputs.len());
        for info in &self.inputs {
            let name = format!("input '{}'", info.name);
            let object = feeds
                .get_item(&info.name)?
                .ok_or_else(|| error::argument(format!("{name}: expected an array, got none")))?;
            let array = array::check(&name, &object, info.dtype, None)?;
            let shape = array.shape().to_vec();
            arrays.push((info.dtype, shape, Input::new(&name, array)?));
        }
        let tensors = arrays
            .iter()
            .map(|(dtype, shape, input)| Ok(TensorRef { dtype: *dtype, shape, bytes: input.bytes()? }))
            .collect::<PyResult<Vec<_>>>()?;
        let results = error::detached(py, || {
            let mut inner = cancel::lock(&self.inner).map_err(error::no_lock)?;
            if self.inner.is_poisoned() {
                return Err(InternalError::new_err("an earlier run failed midway"));
            }
            inner.run(&tensors).map_err(error::runtime)
        })??;
        results.into_iter().map(|t| array::from_bytes(py, t.dtype, &t.shape, t.bytes)).collect()
    }
}

fn describe<'py>(py: Python<'py>, info: &ValueInfo) -> PyResult<Described<'py>> {
    let extent = |dim: &Dim| -> PyResult<_> {
        Ok(match dim {
            Dim::Fixed(extent) => extent.into_pyobject(py)?.into_any(),
            Dim::Symbol(name) => name.into_pyobject(py)?.into_any(),
        })
    };
    let dims = info.dims.iter().map(extent).collect::<PyResult<_>>()?;
    Ok((info.name.clone(), info.dtype.name(), dims))
}
