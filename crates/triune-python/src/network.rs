//! A model whose arrays stay bound, for many runs with little between them.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pyo3::{prelude::*, types::PyBytes};
use triune::{
    runtime::{self, Session, SessionOptions, Tensor, ValueInfo},
    tensor::Shape,
};

use crate::{
    array,
    bound::{self, Expected},
    error::{self, ArgumentError, InternalError},
};

/// A model with arrays bound to its inputs and outputs.
#[pyclass(frozen, module = "triune._native")]
pub(crate) struct Network {
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    state: Mutex<State>,
    /// Apart from the rest, as it is looked at with the interpreter held: nobody computes while holding it.
    bound: Mutex<Option<Arc<bound::Bound>>>,
}

struct State {
    session: Session,
    /// The extents that are planned for, once they are known.
    shapes: Option<Vec<Shape>>,
    /// What they give: by output, `None` where it depends on data.
    output_shapes: Vec<Option<Shape>>,
    /// Results of the last run that no array was bound to.
    results: Vec<Option<Tensor>>,
    /// Counts plans: arrays that were bound to another one do not fit this one.
    plan: u64,
}

/// Name, element type and extents; the latter are missing where nobody knows them yet.
type Described = (String, &'static str, Option<Vec<usize>>);

impl State {
    fn prepare(&mut self, shapes: Vec<Shape>) -> Result<(), runtime::Error> {
        self.output_shapes = self.session.output_shapes(&shapes)?;
        self.shapes = Some(shapes);
        self.results.clear();
        self.plan += 1;
        Ok(())
    }

    /// Runs on bound arrays, which have been checked with the interpreter held.
    fn run(&mut self, bound: &bound::Bound) -> PyResult<()> {
        let Some(shapes) = self.shapes.as_ref().filter(|_| bound.plan() == self.plan) else {
            return Err(unbound());
        };
        let program = self.session.prepare(shapes).map_err(error::runtime)?;
        if self.results.len() != self.output_shapes.len() {
            let own = |(index, io): (usize, &runtime::TensorIo)| {
                let bytes = (!bound.has_output(index)).then(|| vec![0; io.bytes()])?;
                Some(Tensor { dtype: io.dtype, shape: io.shape, bytes })
            };
            self.results = program.program().outputs.iter().enumerate().map(own).collect();
        }
        bound
            .run(&mut self.results, &mut |inputs, outputs| program.run(inputs, outputs))
            .map_err(error::runtime)
    }
}

#[pymethods]
impl Network {
    /// Opens a model file, given as a path or as its bytes. `threads` compute a run; 0 takes every CPU.
    ///
    /// A model that says what shapes its inputs have is planned at once.
    ///
    /// Raises `FileError` if it cannot be read, `ArgumentError` if it is damaged, `UnsupportedError` if it holds an operator that
    /// does not run here.
    #[new]
    #[pyo3(signature = (model, *, threads=1))]
    fn new(py: Python<'_>, model: &Bound<'_, PyAny>, threads: usize) -> PyResult<Self> {
        let options = SessionOptions { threads };
        let open = |session: Result<Session, runtime::Error>| -> Result<State, runtime::Error> {
            let session = session?;
            let output_shapes = vec![None; session.outputs().len()];
            let shapes = session.default_shapes();
            let mut state = State { session, shapes: None, output_shapes, results: Vec::new(), plan: 0 };
            if let Some(shapes) = shapes {
                state.prepare(shapes)?;
            }
            Ok(state)
        };
        let state = if let Ok(bytes) = model.cast::<PyBytes>() {
            let bytes = bytes.as_bytes().to_vec();
            error::detached(py, || open(Session::from_bytes(bytes, &options)))?
        } else {
            let path: PathBuf = model.extract()?;
            error::detached(py, || open(Session::open(&path, &options)))?
        };
        let state = state.map_err(error::runtime)?;
        let (inputs, outputs) = (state.session.inputs().to_vec(), state.session.outputs().to_vec());
        Ok(Self { inputs, outputs, state: Mutex::new(state), bound: Mutex::new(None) })
    }

    /// Name, dtype and shape of each input: the shapes that are planned for, `None` before any are.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<Described>> {
        let shapes = error::detached(py, || self.state().shapes.clone())?;
        let shape = |index: usize| shapes.as_ref().map(|shapes| shapes[index].to_vec());
        Ok(self
            .inputs
            .iter()
            .enumerate()
            .map(|(i, info)| (info.name.clone(), info.dtype.name(), shape(i)))
            .collect())
    }

    /// Name, dtype and shape of each output: `None` before the inputs' shapes are known, and where it depends on data.
    #[getter]
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<Described>> {
        let shapes = error::detached(py, || self.state().output_shapes.clone())?;
        let shape = |shape: Option<Shape>| shape.map(|shape| shape.to_vec());
        let pairs = self.outputs.iter().zip(shapes);
        Ok(pairs.map(|(info, found)| (info.name.clone(), info.dtype.name(), shape(found))).collect())
    }

    /// Plans for inputs of these shapes, in the order of `inputs`, and returns the outputs' shapes. Arrays that are bound
    /// are let go. Plans for earlier shapes are kept, some at least.
    ///
    /// Raises `ArgumentError` if the model does not take such shapes.
    fn prepare(&self, py: Python<'_>, shapes: Vec<Vec<usize>>) -> PyResult<Vec<Option<Vec<usize>>>> {
        if shapes.len() != self.inputs.len() {
            let text = format!("shapes: expected {}, got {}", self.inputs.len(), shapes.len());
            return Err(ArgumentError::new_err(text));
        }
        let shape = |(info, dims): (&ValueInfo, &Vec<usize>)| {
            let rank =
                || format!("input '{}': expected at most {} dimensions", info.name, triune::tensor::MAX_RANK);
            Shape::new(dims).ok_or_else(|| ArgumentError::new_err(rank()))
        };
        let shapes: Vec<Shape> = self.inputs.iter().zip(&shapes).map(shape).collect::<PyResult<_>>()?;
        let found = error::detached(py, || {
            let mut state = self.state();
            state.prepare(shapes)?;
            Ok(state.output_shapes.clone())
        })?
        .map_err(error::runtime)?;
        *self.lock_bound() = None;
        Ok(found.into_iter().map(|shape| shape.map(|shape| shape.to_vec())).collect())
    }

    /// Names the arrays that every following `forward` reads and writes in place: C-contiguous, of the dtypes and shapes that
    /// are planned for. For an output without an array (`None`), `output` has the result.
    ///
    /// An output shares memory with no other array. Raises `ArgumentError` if an array does not fit.
    fn bind<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Bound<'py, PyAny>>,
        outputs: Vec<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<()> {
        let (shapes, output_shapes, plan) = error::detached(py, || {
            let state = self.state();
            (state.shapes.clone(), state.output_shapes.clone(), state.plan)
        })?;
        let shapes = shapes.ok_or_else(unprepared)?;
        for (what, expected, got) in
            [("inputs", self.inputs.len(), inputs.len()), ("outputs", self.outputs.len(), outputs.len())]
        {
            if expected != got {
                return Err(ArgumentError::new_err(format!("{what}: expected {expected} arrays, got {got}")));
            }
        }
        let inputs: Vec<_> = inputs
            .into_iter()
            .zip(self.inputs.iter().zip(&shapes))
            .map(|(object, (info, shape))| (object, Expected::new("input", info, shape)))
            .collect();
        let outputs = outputs
            .into_iter()
            .zip(self.outputs.iter().zip(&output_shapes))
            .map(|(object, (info, shape))| match (object, shape) {
                (None, _) => Ok(None),
                (Some(object), Some(shape)) => Ok(Some((object, Expected::new("output", info, shape)))),
                (Some(_), None) => Err(ArgumentError::new_err(format!(
                    "output '{}': expected None, as its shape depends on data, got an array",
                    info.name
                ))),
            })
            .collect::<PyResult<Vec<_>>>()?;
        let new = Arc::new(bound::Bound::new(&inputs, &outputs, plan)?);
        *self.lock_bound() = Some(new);
        error::detached(py, || self.state().results.clear())
    }

    /// Computes the outputs from what the bound inputs hold. Calls from several threads run one after the other.
    ///
    /// Raises `ArgumentError` if nothing is bound, or an array was resized since.
    fn forward(&self, py: Python<'_>) -> PyResult<()> {
        let bound = self.lock_bound().clone().ok_or_else(unbound)?;
        bound.check(py)?;
        error::detached(py, || {
            let mut state = self.state.lock().map_err(|_| midway())?;
            state.run(&bound)
        })?
    }

    /// What the last `forward` gave for output `index`, as a new array.
    ///
    /// Raises `ArgumentError` if there is no such output, an array is bound to it, or nothing ran yet.
    fn output<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let Some(info) = self.outputs.get(index) else {
            let text = format!("index: expected less than {}, got {index}", self.outputs.len());
            return Err(ArgumentError::new_err(text));
        };
        let result = error::detached(py, || self.state().results.get(index).cloned().flatten())?;
        let result = result.ok_or_else(|| {
            let name = &info.name;
            ArgumentError::new_err(format!(
                "output '{name}': no result; it needs a forward without an array bound to it"
            ))
        })?;
        array::from_bytes(py, result.dtype, &result.shape, result.bytes)
    }
}

impl Network {
    /// The state; what a panic left behind is only looked at, see `forward`.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_bound(&self) -> MutexGuard<'_, Option<Arc<bound::Bound>>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unprepared() -> PyErr {
    ArgumentError::new_err("the inputs' shapes are not known; call prepare first")
}

fn unbound() -> PyErr {
    ArgumentError::new_err("no arrays are bound to the network; call bind first, again after prepare")
}

fn midway() -> PyErr {
    InternalError::new_err("an earlier run failed midway")
}

impl<'a> Expected<'a> {
    fn new(what: &str, info: &ValueInfo, shape: &'a Shape) -> Self {
        Self { name: format!("{what} '{}'", info.name), dtype: info.dtype, shape }
    }
}
