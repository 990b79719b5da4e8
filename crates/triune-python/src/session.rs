//! Any model file on this machine's CPU.

use std::{path::PathBuf, sync::Arc};

use numpy::PyUntypedArrayMethods;
use pyo3::{
    marker::Ungil,
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyDict},
};
use triune::internals::{
    fork::Lock,
    kernels::cancel,
    runtime::{self, Dim, Model, ModelOptions, SessionOptions, TensorMut, TensorRef, ValueInfo},
    tensor::{DType, MAX_RANK, Shape},
};

use crate::{
    array::{self, Input, Output},
    error::{self, InternalError},
    list::List,
};

/// A model on this machine's CPU.
#[pyclass(frozen, module = "triune._native")]
pub(crate) struct Session {
    inner: Lock<runtime::Session>,
    model: Arc<Model>,
}

/// Name, element type and extents (an int, or a name where the model leaves it open) of a model's input or output.
type Described<'py> = (String, &'static str, Vec<Bound<'py, PyAny>>);

#[pymethods]
impl Session {
    /// Opens a model file, given as a path or as its bytes, or what another session has open, whose weights then are in memory
    /// once. `threads` compute a run; 0 takes every CPU. External data of an ONNX model in bytes is looked for below `folder`.
    ///
    /// Raises `FileError` if it cannot be read, `ArgumentError` if it is damaged, `UnsupportedError` if it holds an operator that
    /// does not run here.
    #[new]
    #[pyo3(signature = (model, *, threads=1, folder=None))]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        threads: usize,
        folder: Option<PathBuf>,
    ) -> PyResult<Self> {
        let options = SessionOptions { threads, ..SessionOptions::default() };
        let source = if let Ok(session) = model.cast::<Self>() {
            Source::Open(Arc::clone(&session.get().model))
        } else if let Ok(bytes) = model.cast::<PyBytes>() {
            Source::Bytes(bytes.clone().into(), folder)
        } else {
            Source::File(model.extract()?)
        };
        let inner = error::detached(py, || runtime::Session::of(source.model()?, &options))?;
        let inner = inner.map_err(error::runtime)?;
        Ok(Self { model: Arc::clone(inner.model()), inner: Lock::new(inner) })
    }

    /// Name, dtype and shape of each input; an extent that the model leaves open is a name.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        self.model.inputs().iter().map(|info| describe(py, info)).collect()
    }

    /// Name, dtype and shape of each output, as for `inputs`.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        self.model.outputs().iter().map(|info| describe(py, info)).collect()
    }

    /// What the file says of itself, by name; texts are empty where the format has no place for them.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let said = self.model.metadata();
        let dict = PyDict::new(py);
        dict.set_item("format", said.format)?;
        dict.set_item("format_version", said.format_version)?;
        dict.set_item("producer", &said.producer)?;
        dict.set_item("producer_version", &said.producer_version)?;
        dict.set_item("domain", &said.domain)?;
        dict.set_item("version", said.version)?;
        dict.set_item("description", &said.description)?;
        dict.set_item("graph", &said.graph)?;
        let opsets = PyDict::new(py);
        said.opsets.iter().try_for_each(|(domain, version)| opsets.set_item(domain, version))?;
        dict.set_item("opsets", opsets)?;
        let properties = PyDict::new(py);
        said.properties.iter().try_for_each(|(key, value)| properties.set_item(key, value))?;
        dict.set_item("properties", properties)?;
        Ok(dict)
    }

    /// Computes every output, in the model's order, from a C-contiguous array per input, given by name. Calls from
    /// several threads run one after the other.
    ///
    /// `out` has a C-contiguous array that the result is written to for each output, or None where a new one is wanted, in the
    /// outputs' order; those are returned, too.
    ///
    /// Raises `ArgumentError` if a name is unknown or missing, or an array does not fit, `ForkedError` in a child of a fork that
    /// came upon a run.
    #[pyo3(signature = (feeds, out=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        feeds: &Bound<'py, PyDict>,
        out: Option<List<Option<Bound<'py, PyAny>>>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let inputs = self.model.inputs();
        for key in feeds.keys() {
            let name: String = key.extract()?;
            if !inputs.iter().any(|info| info.name == name) {
                let names: Vec<_> = inputs.iter().map(|info| info.name.as_str()).collect();
                let text = format!("unknown input '{name}'; the model has {}", names.join(", "));
                return Err(error::argument(text));
            }
        }
        let mut arrays = Vec::with_capacity(inputs.len());
        for info in inputs {
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
        let out = out.unwrap_or_default().0;
        let mut targets = self.targets(&out)?;
        let mut into = Vec::with_capacity(targets.len());
        for target in &mut targets {
            into.push(match target {
                Some((dtype, shape, output)) => {
                    Some(TensorMut { dtype: *dtype, shape, bytes: output.bytes()? })
                }
                None => None,
            });
        }
        let results = self.detached(py, |inner| inner.run_into(&tensors, &mut into))?;
        drop(targets);
        let given = out.into_iter().chain(std::iter::repeat(None));
        let results = results.into_iter().zip(given).filter_map(|(own, given)| match own {
            Some(own) => Some(array::from_bytes(py, own.dtype, &own.shape, own.bytes)),
            None => given.map(Ok),
        });
        results.collect()
    }

    /// Plans for inputs of these shapes, in the order of `inputs`, and returns the outputs' shapes, None for one that depends on
    /// data. A later run with them starts at once.
    ///
    /// Raises `ArgumentError` if the model does not take such shapes.
    fn prepare(&self, py: Python<'_>, shapes: List<List<usize>>) -> PyResult<Vec<Option<Vec<usize>>>> {
        let names = self.model.inputs().iter().map(|info| info.name.as_str()).chain(std::iter::repeat(""));
        let shape = |(dims, name): (&List<usize>, &str)| {
            let rank =
                || format!("input '{name}': expected {MAX_RANK} dimensions at most, got {}", dims.len());
            Shape::new(dims).ok_or_else(|| error::argument(rank()))
        };
        let shapes: Vec<Shape> = shapes.iter().zip(names).map(shape).collect::<PyResult<_>>()?;
        let known = self.detached(py, |inner| inner.prepare(&shapes))?;
        Ok(known.into_iter().map(|known| known.map(|(_, shape)| shape.to_vec())).collect())
    }

    /// Starts or stops taking the time of every operator of a run.
    fn profile(&self, py: Python<'_>, enable: bool) -> PyResult<()> {
        self.detached(py, |inner| {
            inner.profile(enable);
            Ok(())
        })
    }

    /// Name, operator and seconds of each operator of the last run, as `Network.operator_times` has them.
    fn operator_times(&self, py: Python<'_>) -> PyResult<Vec<(String, String, f64)>> {
        let times = self.detached(py, |inner| Ok(inner.operator_times()))?;
        Ok(times.into_iter().map(|time| (time.name, time.kind, time.nanos as f64 * 1e-9)).collect())
    }
}

/// An array that a result is written to, with its type and shape.
type Target<'py> = (DType, Vec<usize>, Output<'py>);

/// Where a session's model comes from.
enum Source {
    File(PathBuf),
    Bytes(PyBackedBytes, Option<PathBuf>),
    Open(Arc<Model>),
}

impl Source {
    fn model(self) -> Result<Arc<Model>, runtime::Error> {
        let options = ModelOptions::default();
        match self {
            Self::File(path) => Model::open(&path, &options),
            // The weights stay where Python has them.
            Self::Bytes(bytes, folder) => {
                Model::from_bytes_beside(bytes::Bytes::from_owner(bytes), folder.as_deref(), &options)
            }
            Self::Open(model) => Ok(model),
        }
    }
}

impl Session {
    /// Borrows the arrays that results are written to.
    fn targets<'py>(&self, out: &[Option<Bound<'py, PyAny>>]) -> PyResult<Vec<Option<Target<'py>>>> {
        if out.len() > self.model.outputs().len() {
            let text = format!("out: expected {} at most, got {}", self.model.outputs().len(), out.len());
            return Err(error::argument(text));
        }
        let target = |(object, info): (&Option<Bound<'py, PyAny>>, &ValueInfo)| {
            let Some(object) = object else { return Ok(None) };
            let name = format!("out for '{}'", info.name);
            let array = array::check(&name, object, info.dtype, None)?;
            Ok(Some((info.dtype, array.shape().to_vec(), Output::new(&name, array)?)))
        };
        out.iter().zip(self.model.outputs()).map(target).collect()
    }

    /// Works with the session without the interpreter.
    fn detached<T: Ungil + Send>(
        &self,
        py: Python<'_>,
        work: impl Ungil + Send + FnOnce(&mut runtime::Session) -> Result<T, runtime::Error>,
    ) -> PyResult<T> {
        error::detached(py, || {
            let mut inner = cancel::lock(&self.inner).map_err(error::no_lock)?;
            if self.inner.is_poisoned() {
                return Err(InternalError::new_err("an earlier run failed midway"));
            }
            work(&mut inner).map_err(error::runtime)
        })?
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
