//! Any model file on this machine's CPU.

use std::{path::PathBuf, sync::Arc};

use numpy::PyUntypedArrayMethods;
use pyo3::{
    marker::Ungil,
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyDict, PyList},
};
use triune::internals::{
    fork::{Brief, Lock},
    kernels::{
        CancelToken,
        cancel::{self, NoLock},
    },
    runtime::{
        self, Dim, Model, ModelOptions, SessionOptions, StringTensor, Tensor, TensorMut, TensorRef, Value,
        ValueInfo, ValueKind, ValueRef,
    },
    tensor::{DType, MAX_RANK, OutOfMemory, Shape, memory},
};

use crate::{
    array::{self, Input, Output},
    error::{self, InternalError, ReleasedError},
    list::List,
};

/// Stops the runs that it was given to.
#[pyclass(frozen, module = "triune._native")]
pub(crate) struct Cancel(CancelToken);

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self(CancelToken::new())
    }

    /// Stops them, now and later. A second call does nothing.
    fn cancel(&self) {
        self.0.cancel();
    }
}

/// A model on this machine's CPU.
#[pyclass(frozen, module = "triune._native")]
pub(crate) struct Session {
    inner: Lock<Inner>,
    model: Arc<Model>,
    /// Whether the outputs' shapes follow from the inputs'.
    is_fixed: bool,
    stop: Brief<CancelToken>,
    last: Brief<Option<Arc<Last>>>,
}

/// What the last run whose results were made anew took and gave: results of the next one like it are arrays of numpy's from the
/// start, which its memory is cheaper for than bytes of zeros.
struct Last {
    inputs: Vec<Vec<usize>>,
    outputs: Vec<(DType, Vec<usize>)>,
}

impl Last {
    /// `None` where a value is no tensor.
    fn of(inputs: &[Parts<'_>], outputs: &[Option<Value>], model: &Model) -> Option<Self> {
        let outputs = outputs.iter().zip(model.outputs()).map(|(value, info)| match value {
            Some(Value::Tensor(tensor)) if info.kind == ValueKind::Tensor => {
                Some((tensor.dtype, tensor.shape.to_vec()))
            }
            _ => None,
        });
        let inputs = inputs.iter().map(|parts| parts.shape().map(<[usize]>::to_vec));
        Some(Self { inputs: inputs.collect::<Option<_>>()?, outputs: outputs.collect::<Option<_>>()? })
    }

    fn is_for(&self, inputs: &[Parts<'_>]) -> bool {
        self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).all(|(own, parts)| parts.shape() == Some(own))
    }
}

/// The session, and one for the inputs with defaults that were given last.
struct Inner {
    session: runtime::Session,
    options: SessionOptions,
    other: Option<(Vec<String>, runtime::Session)>,
}

impl Inner {
    /// What runs when these inputs are given besides those that have to be.
    fn taking(&mut self, names: &[&str]) -> Result<&mut runtime::Session, runtime::Error> {
        if names.is_empty() {
            return Ok(&mut self.session);
        }
        let other = if let Some(other) = self.other.take().filter(|(own, _)| own == names) {
            other
        } else {
            let model = self.session.model().taking(names)?;
            let names = names.iter().map(|&name| name.to_owned()).collect();
            (names, runtime::Session::of(model, &self.options)?)
        };
        Ok(&mut self.other.insert(other).1)
    }
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
        let session = inner.map_err(error::runtime)?;
        let model = Arc::clone(session.model());
        let is_fixed = !session.is_staged();
        let inner = Lock::new(Inner { session, options, other: None });
        Ok(Self { model, inner, is_fixed, stop: Brief::new(CancelToken::new()), last: Brief::new(None) })
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

    /// As `inputs`, those that may be left out: the model has constants for them.
    #[getter]
    fn defaults<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        self.model.defaults().iter().map(|info| describe(py, info)).collect()
    }

    /// What each input is: `tensor`, `strings`, `sequence`, `optional` or `optional sequence`.
    #[getter]
    fn input_kinds(&self) -> Vec<&'static str> {
        self.model.inputs().iter().map(|info| info.kind.name()).collect()
    }

    /// What each of `defaults` is, as for `input_kinds`.
    #[getter]
    fn default_kinds(&self) -> Vec<&'static str> {
        self.model.defaults().iter().map(|info| info.kind.name()).collect()
    }

    /// What each output is, as for `input_kinds`.
    #[getter]
    fn output_kinds(&self) -> Vec<&'static str> {
        self.model.outputs().iter().map(|info| info.kind.name()).collect()
    }

    /// Computes every output, in the model's order, from a C-contiguous array per input, given by name; a list of them for a
    /// sequence, one of str or of UTF-8 in bytes for strings, and None for an optional that has nothing. Calls from several threads run one after the other.
    ///
    /// `out` has a C-contiguous array that the result is written to for each output, or None where a new one is wanted, in the
    /// outputs' order; those are returned, too.
    ///
    /// Raises `ArgumentError` if a name is unknown or missing, or an array does not fit, `ForkedError` in a child of a fork that
    /// came upon a run, `ReleasedError` if `stop` was called, or `cancel` is cancelled, before its end.
    #[pyo3(signature = (feeds, out=None, cancel=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        feeds: &Bound<'py, PyDict>,
        out: Option<List<Option<Bound<'py, PyAny>>>>,
        cancel: Option<&Cancel>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let inputs = self.model.inputs();
        let defaults = self.model.defaults();
        for key in feeds.keys() {
            let name: String = key.extract()?;
            if !inputs.iter().chain(&defaults).any(|info| info.name == name) {
                let names: Vec<_> = inputs.iter().map(|info| info.name.as_str()).collect();
                let text = format!("unknown input '{name}'; the model has {}", names.join(", "));
                return Err(error::argument(text));
            }
        }
        let mut fed = Vec::with_capacity(inputs.len());
        for info in inputs {
            let object = feeds.get_item(&info.name)?.ok_or_else(|| {
                error::argument(format!("input '{}': expected an array, got none", info.name))
            })?;
            fed.push(Given::new(info, &object)?);
        }
        let mut more = Vec::new();
        for info in &defaults {
            if let Some(object) = feeds.get_item(&info.name)? {
                fed.push(Given::new(info, &object)?);
                more.push(&*info.name);
            }
        }
        let parts = fed.iter().map(Given::parts).collect::<PyResult<Vec<_>>>()?;
        let mut out = out.unwrap_or_default().0;
        // With inputs that have defaults, other extents can follow.
        let remembers = self.is_fixed && more.is_empty();
        let added = if remembers { self.complete(py, &parts, &mut out)? } else { Vec::new() };
        let mut targets = self.targets(&out, &added)?;
        let mut into = Vec::with_capacity(targets.len());
        for target in &mut targets {
            into.push(match target {
                Some((dtype, shape, output)) => {
                    Some(TensorMut { dtype: *dtype, shape, bytes: output.bytes()? })
                }
                None => None,
            });
        }
        let token = cancel.map_or_else(CancelToken::new, |cancel| cancel.0.clone());
        let results = self.stoppable(py, &token, |inner| {
            let lists = parts.iter().map(Parts::owned).collect::<Result<Vec<_>, _>>()?;
            let values: Vec<ValueRef<'_>> =
                parts.iter().zip(&lists).map(|(parts, list)| parts.value(list)).collect();
            inner.taking(&more)?.run_values(&values, &mut into)
        })?;
        drop(targets);
        if remembers && results.iter().all(Option::is_some) {
            *self.last.lock() = Last::of(&parts, &results, &self.model).map(Arc::new);
        }
        let given = out.into_iter().chain(std::iter::repeat(None));
        let results = results.into_iter().zip(given).filter_map(|(own, given)| match own {
            Some(own) => Some(result(py, own)),
            None => given.map(Ok),
        });
        results.collect()
    }

    /// Stops what other threads are in, or wait for: they raise `ReleasedError`. The session can be used again.
    fn stop(&self) {
        std::mem::take(&mut *self.stop.lock()).cancel();
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
        let known = self.detached(py, |inner| inner.session.prepare(&shapes))?;
        Ok(known.into_iter().map(|known| known.map(|(_, shape)| shape.to_vec())).collect())
    }

    /// Starts or stops taking the time of every operator of a run.
    fn profile(&self, py: Python<'_>, enable: bool) -> PyResult<()> {
        self.detached(py, |inner| {
            inner.session.profile(enable);
            Ok(())
        })
    }

    /// Name, operator and seconds of each operator of the last run, as `Network.operator_times` has them.
    fn operator_times(&self, py: Python<'_>) -> PyResult<Vec<(String, String, f64)>> {
        let times = self.detached(py, |inner| Ok(inner.session.operator_times()))?;
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
    /// Adds an array for each result that the caller has none for, if their shapes are known, and returns those arrays' types:
    /// a model need not say them.
    fn complete<'py>(
        &self,
        py: Python<'py>,
        inputs: &[Parts<'_>],
        out: &mut Vec<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Vec<Option<DType>>> {
        let last = self.last.lock().clone();
        let Some(last) = last.filter(|last| last.is_for(inputs)) else { return Ok(Vec::new()) };
        out.resize(out.len().max(last.outputs.len()), None);
        let mut added = vec![None; out.len()];
        for ((own, added), (dtype, shape)) in out.iter_mut().zip(&mut added).zip(&last.outputs) {
            if own.is_none() {
                *own = Some(array::empty(py, *dtype, shape)?.into_any());
                *added = Some(*dtype);
            }
        }
        Ok(added)
    }

    /// Borrows the arrays that results are written to, some of which were added, of these types.
    fn targets<'py>(
        &self,
        out: &[Option<Bound<'py, PyAny>>],
        added: &[Option<DType>],
    ) -> PyResult<Vec<Option<Target<'py>>>> {
        if out.len() > self.model.outputs().len() {
            let text = format!("out: expected {} at most, got {}", self.model.outputs().len(), out.len());
            return Err(error::argument(text));
        }
        let target = |(index, (object, info)): (usize, (&Option<Bound<'py, PyAny>>, &ValueInfo))| {
            let Some(object) = object else { return Ok(None) };
            let name = format!("out for '{}'", info.name);
            if info.kind == ValueKind::Strings {
                return Err(error::argument(format!(
                    "{name}: expected None, got an array: strings are always new ones"
                )));
            }
            let dtype = added.get(index).copied().flatten().unwrap_or(info.dtype);
            let array = array::check(&name, object, dtype, None)?;
            Ok(Some((dtype, array.shape().to_vec(), Output::new(&name, array)?)))
        };
        out.iter().zip(self.model.outputs()).enumerate().map(target).collect()
    }

    /// Works with the session without the interpreter.
    fn detached<T: Ungil + Send>(
        &self,
        py: Python<'_>,
        work: impl Ungil + Send + FnOnce(&mut Inner) -> Result<T, runtime::Error>,
    ) -> PyResult<T> {
        self.stoppable(py, &CancelToken::new(), work)
    }

    /// The same for work that a token stops as well.
    fn stoppable<T: Ungil + Send>(
        &self,
        py: Python<'_>,
        token: &CancelToken,
        work: impl Ungil + Send + FnOnce(&mut Inner) -> Result<T, runtime::Error>,
    ) -> PyResult<T> {
        let stop = self.stop.lock().clone();
        let locked = || {
            let mut inner = cancel::lock(&self.inner).map_err(|no| match no {
                NoLock::Cancelled => stopped(),
                no => error::no_lock(no),
            })?;
            if self.inner.is_poisoned() {
                return Err(InternalError::new_err("an earlier run failed midway"));
            }
            let done = work(&mut inner);
            if stop.is_cancelled() || token.is_cancelled() {
                return Err(stopped());
            }
            done.map_err(error::runtime)
        };
        error::stoppable(py, Some(&stop), || token.during(locked))?
    }
}

fn stopped() -> PyErr {
    ReleasedError::new_err("the run was stopped")
}

/// An array that a run takes, which nobody changes meanwhile.
struct Array<'py> {
    dtype: DType,
    shape: Vec<usize>,
    input: Input<'py>,
}

/// What a run takes for an input.
enum Given<'py> {
    Tensor(Array<'py>),
    Sequence(Vec<Array<'py>>),
    Strings(StringTensor),
    Nothing,
}

impl<'py> Given<'py> {
    fn new(info: &ValueInfo, object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let name = format!("input '{}'", info.name);
        let array = |name: &str, object: &Bound<'py, PyAny>| -> PyResult<Array<'py>> {
            let array = array::check(name, object, info.dtype, None)?;
            let shape = array.shape().to_vec();
            if info.kind != ValueKind::Tensor && shape.len() > MAX_RANK {
                let text = format!("{name}: expected {MAX_RANK} dimensions at most, got {}", shape.len());
                return Err(error::argument(text));
            }
            Ok(Array { dtype: info.dtype, shape, input: Input::new(name, array)? })
        };
        match info.kind {
            ValueKind::Optional | ValueKind::OptionalSequence if object.is_none() => Ok(Self::Nothing),
            ValueKind::Strings => Ok(Self::Strings(array::strings(&name, object)?)),
            ValueKind::Tensor | ValueKind::Optional => Ok(Self::Tensor(array(&name, object)?)),
            ValueKind::Sequence | ValueKind::OptionalSequence => {
                let Ok(list) = object.cast::<PyList>() else {
                    let got = object.get_type().name()?;
                    let text = format!("{name}: expected a list of arrays of {}, got {got}", info.dtype);
                    return Err(error::argument(text));
                };
                let arrays = list.iter().enumerate();
                let arrays = arrays.map(|(index, object)| array(&format!("{name}[{index}]"), &object));
                Ok(Self::Sequence(arrays.collect::<PyResult<_>>()?))
            }
        }
    }

    fn parts(&self) -> PyResult<Parts<'_>> {
        Ok(match self {
            Self::Tensor(array) => Parts::Tensor(array.tensor()?),
            Self::Sequence(list) => Parts::Sequence(list.iter().map(Array::tensor).collect::<PyResult<_>>()?),
            Self::Strings(strings) => Parts::Strings(strings),
            Self::Nothing => Parts::Nothing,
        })
    }
}

impl Array<'_> {
    fn tensor(&self) -> PyResult<TensorRef<'_>> {
        Ok(TensorRef { dtype: self.dtype, shape: &self.shape, bytes: self.input.bytes()? })
    }
}

/// The elements of what a run takes.
enum Parts<'a> {
    Tensor(TensorRef<'a>),
    Sequence(Vec<TensorRef<'a>>),
    Strings(&'a StringTensor),
    Nothing,
}

impl<'a> Parts<'a> {
    /// The tensors of a list, copied.
    fn owned(&self) -> Result<Vec<Tensor>, OutOfMemory> {
        let Self::Sequence(list) = self else { return Ok(Vec::new()) };
        let mut owned = memory::with_room(list.len())?;
        for tensor in list {
            let bytes = memory::copied(tensor.bytes)?;
            // Arrays of more axes have been refused.
            let shape = Shape::new(tensor.shape).unwrap_or_else(|| Shape::from([0]));
            owned.push(Tensor { dtype: tensor.dtype, shape, bytes });
        }
        Ok(owned)
    }

    /// A tensor's.
    fn shape(&self) -> Option<&[usize]> {
        match self {
            Self::Tensor(tensor) => Some(tensor.shape),
            Self::Sequence(_) | Self::Strings(_) | Self::Nothing => None,
        }
    }

    fn value(&self, list: &'a [Tensor]) -> ValueRef<'a> {
        match self {
            Self::Tensor(tensor) => ValueRef::Tensor(*tensor),
            Self::Sequence(_) => ValueRef::Sequence(list),
            Self::Strings(strings) => ValueRef::Strings(strings),
            Self::Nothing => ValueRef::Nothing,
        }
    }
}

/// A result as Python has it.
fn result(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    let array = |tensor: Tensor| array::from_bytes(py, tensor.dtype, &tensor.shape, tensor.bytes);
    match value {
        Value::Tensor(tensor) => array(tensor),
        Value::Sequence(list) => {
            let arrays = PyList::empty(py);
            for (index, tensor) in list.into_iter().enumerate() {
                array::heed_signals(py, index)?;
                arrays.append(array(tensor)?)?;
            }
            Ok(arrays.into_any())
        }
        Value::Strings(strings) => array::from_strings(py, &strings),
        Value::Nothing => Ok(py.None().into_bound(py)),
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
    // Numpy's own strings are of one length each.
    let dtype = if info.kind == ValueKind::Strings { "object" } else { info.dtype.name() };
    Ok((info.name.clone(), dtype, dims))
}
