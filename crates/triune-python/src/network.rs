//! A model whose arrays stay bound, for many runs with little between them.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use pyo3::{
    buffer::PyBuffer,
    marker::Ungil,
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyDict},
};
use triune::internals::{
    fork::{Brief, Forked, Lock},
    graph::format::xir,
    kernels::{
        CancelToken,
        cancel::{self, NoLock},
    },
    runtime::{
        self, Dim, Inputs, Model, ModelOptions, Outline, OutlineNode, OutlineValue, Outputs, PlannedBuffer,
        Program, Session, SessionOptions, Tensor, TensorRef, ValueInfo, Variable, target,
    },
    tensor::{DType, Shape},
};

use crate::list::{self, List};
use crate::{
    array,
    bound::{self, Expected},
    error::{self, InternalError, ReleasedError},
    timeline::Timeline,
};

/// A model with arrays bound to its inputs and outputs.
#[pyclass(frozen, module = "triune._native")]
pub(crate) struct Network {
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    state: Lock<State>,
    /// Apart from the rest, as it is looked at with the interpreter held: nobody computes while holding it.
    bound: Brief<Option<Arc<bound::Bound>>>,
    /// Stops the runs that are under way; those that begin later are under another one.
    stop: Brief<CancelToken>,
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

/// Extents; an open one is `None`.
type Declared = Vec<Option<usize>>;

/// Where a network's model comes from.
enum Source {
    File(PathBuf),
    Bytes(PyBackedBytes),
    Document { json: PyBackedBytes, params: Vec<(i64, bytes::Bytes)>, fake_qf: bool },
    Network(Py<Network>),
}

impl Source {
    fn new(
        model: Option<&Bound<'_, PyAny>>,
        sharing: Option<Py<Network>>,
        params: Option<&Bound<'_, PyDict>>,
        fake_qf: bool,
    ) -> PyResult<Self> {
        match (model, sharing) {
            (_, Some(network)) => Ok(Self::Network(network)),
            (Some(model), None) if params.is_some() || fake_qf => {
                let json = model.cast::<PyBytes>().map_err(|_| {
                    error::argument("model: expected the bytes of an XIR document beside params or fake_qf")
                })?;
                let params = params.iter().flat_map(|params| params.iter()).map(|(v_id, data)| {
                    let data: PyBuffer<u8> = data.extract()?;
                    Ok((v_id.extract()?, list::bytes(model.py(), &data)?.into()))
                });
                Ok(Self::Document {
                    json: json.clone().into(),
                    params: params.collect::<PyResult<_>>()?,
                    fake_qf,
                })
            }
            (Some(model), None) => match model.cast::<PyBytes>() {
                Ok(bytes) => Ok(Self::Bytes(bytes.clone().into())),
                Err(_) => Ok(Self::File(model.extract()?)),
            },
            (None, None) => {
                Err(error::argument("model: expected a path or bytes, or a network to share weights with"))
            }
        }
    }

    fn model(self, options: ModelOptions) -> Result<Arc<Model>, runtime::Error> {
        match self {
            Self::File(path) => Model::open(&path, &options),
            // The weights stay where Python has them.
            Self::Bytes(bytes) => Model::from_bytes(bytes::Bytes::from_owner(bytes), &options),
            Self::Document { json, params, fake_qf } => {
                let mut document = xir::Document::read(&json, None)?;
                for (v_id, data) in params {
                    document.give(v_id, data)?;
                }
                Ok(Model::new(xir::to_graph(&document, &xir::Options { fake_qf })?))
            }
            Self::Network(network) => Ok(Arc::clone(network.get().state.lock()?.session.model())),
        }
    }
}

/// Name, operator, names of its operands, elements.
type Traced<'py> = (String, &'static str, Vec<String>, Bound<'py, PyAny>);

/// Name, operator, names of its operands and results, arithmetic.
type Outlined = (String, &'static str, Vec<String>, Vec<String>, Option<u64>);

/// Dtype, shape, whether it is a constant.
type OutlinedValue = (&'static str, Vec<usize>, bool);

impl State {
    fn new(session: Session) -> Result<Self, runtime::Error> {
        let output_shapes = vec![None; session.outputs().len()];
        let shapes = session.model().default_shapes().map(<[Shape]>::to_vec);
        let mut state = Self { session, shapes: None, output_shapes, results: Vec::new(), plan: 0 };
        if let Some(shapes) = shapes {
            state.prepare(shapes)?;
        }
        Ok(state)
    }

    fn prepare(&mut self, shapes: Vec<Shape>) -> Result<(), runtime::Error> {
        let outputs = self.session.prepare(&shapes)?;
        self.output_shapes = outputs.into_iter().map(|known| known.map(|(_, shape)| shape)).collect();
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
        if self.session.is_staged() {
            return self.run_staged(bound);
        }
        if self.results.len() != self.output_shapes.len() {
            let own = |(index, known): (usize, Option<(DType, Shape)>)| {
                let own = known.filter(|_| !bound.has_output(index));
                own.map(|(dtype, shape)| Tensor::zeros(dtype, shape).map_err(error::runtime)).transpose()
            };
            let outputs = self.session.prepare(shapes).map_err(error::runtime)?;
            self.results = outputs.into_iter().enumerate().map(own).collect::<PyResult<_>>()?;
        }
        let mut outputs = bound::Taken { bound, own: &mut self.results };
        self.session.run_border(shapes, &bound::Given(bound), &mut outputs).map_err(error::runtime)
    }

    /// The same for a model with extents that depend on data, which has no room for its results beforehand.
    fn run_staged(&mut self, bound: &bound::Bound) -> PyResult<()> {
        // What an earlier run gave is not the result of this one, whatever happens.
        self.results.clear();
        let Some(shapes) = &self.shapes else { return Err(unbound()) };
        let given = bound::Given(bound);
        let operand = |(index, (info, shape)): (usize, (&ValueInfo, &'_ Shape))| (info.dtype, *shape, index);
        let operands: Vec<_> = self.session.inputs().iter().zip(shapes).enumerate().map(operand).collect();
        let operands: Vec<TensorRef<'_>> = operands
            .iter()
            .map(|(dtype, shape, index)| TensorRef { dtype: *dtype, shape, bytes: given.input(*index) })
            .collect();
        let results = self.session.run(&operands).map_err(error::runtime)?;
        let mut none = vec![None; results.len()];
        let mut outputs = bound::Taken { bound, own: &mut none };
        let mut kept = Vec::with_capacity(results.len());
        for (index, result) in results.into_iter().enumerate() {
            if !bound.has_output(index) {
                kept.push(Some(result));
                continue;
            }
            let output = outputs.output(index);
            if output.len() != result.bytes.len() {
                let text =
                    format!("output {index}: {} bytes for an array of {}", result.bytes.len(), output.len());
                return Err(InternalError::new_err(text));
            }
            output.copy_from_slice(&result.bytes);
            kept.push(None);
        }
        self.results = kept;
        Ok(())
    }
}

#[pymethods]
impl Network {
    /// Opens a model file, given as a path or as its bytes; or, with `sharing_weights`, the model that another network has,
    /// whose weights then are in memory once: `model` is not looked at. The other one may be dropped.
    ///
    /// `threads` compute a run; 0 takes every CPU. Without `fusion`, every operator runs by itself. `compressed` says that the
    /// tensors of a MegEngine file are, which the file does not tell. `sharing_scratch` names a network to share the memory of runs with: no two of
    /// those that share it can run at once.
    ///
    /// `device` names a simulated device, or the file that describes one, to run the integer core of a quantized model on, with the results of the host;
    /// `timeline` has its modelled time.
    ///
    /// An XIR document as bytes takes the bytes of its constants from `params`, by their `v_id`; they are copied. With `fake_qf`,
    /// its quantized values are computed as the reals that they stand for.
    ///
    /// A model that says what shapes its inputs have is planned at once.
    ///
    /// Raises `FileError` if it cannot be read, `ArgumentError` if it is damaged, `UnsupportedError` if it holds an operator that
    /// does not run here.
    #[new]
    #[pyo3(signature = (model=None, *, threads=1, fusion=true, compressed=false, device=None, sharing_weights=None, sharing_scratch=None, params=None, fake_qf=false))]
    fn new(
        py: Python<'_>,
        model: Option<&Bound<'_, PyAny>>,
        threads: usize,
        fusion: bool,
        compressed: bool,
        device: Option<&str>,
        sharing_weights: Option<Py<Self>>,
        sharing_scratch: Option<Py<Self>>,
        params: Option<&Bound<'_, PyDict>>,
        fake_qf: bool,
    ) -> PyResult<Self> {
        let source = Source::new(model, sharing_weights, params, fake_qf)?;
        let device = device.filter(|&name| name != "host").map(|name| target::device(Path::new(name)));
        let device = device.transpose().map_err(error::runtime)?;
        let state = error::detached(py, || {
            let shared = |other: &Py<Self>| -> Result<_, Forked> {
                Ok(Arc::clone(other.get().state.lock()?.session.workspace()))
            };
            let workspace = sharing_scratch.as_ref().map(shared).transpose()?;
            let model = source.model(ModelOptions { compressed })?;
            let session = Session::of(model, &SessionOptions { threads, fusion, device, workspace })?;
            State::new(session)
        })?;
        let state = state.map_err(error::runtime)?;
        let (inputs, outputs) = (state.session.inputs().to_vec(), state.session.outputs().to_vec());
        Ok(Self { inputs, outputs, state: Lock::new(state), bound: Brief::new(None), stop: Brief::default() })
    }

    /// Name, dtype and shape of each input: the shapes that are planned for, `None` before any are.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<Described>> {
        let shapes = self.look(py, |state| state.shapes.clone())?;
        let shape = |index: usize| shapes.as_ref().map(|shapes| shapes[index].to_vec());
        Ok(self
            .inputs
            .iter()
            .enumerate()
            .map(|(i, info)| (info.name.clone(), info.dtype.name(), shape(i)))
            .collect())
    }

    /// Name, dtype and shape of each output: `None` before the inputs' shapes are known, and where it depends on data. After
    /// `forward`, the shapes that depend on data are those of that run.
    #[getter]
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<Described>> {
        let shapes = self.look(py, |state| {
            let result = |index: usize| state.results.get(index)?.as_ref().map(|tensor| tensor.shape);
            let shapes = state.output_shapes.iter().enumerate();
            shapes.map(|(index, shape)| shape.or_else(|| result(index))).collect::<Vec<_>>()
        })?;
        let shape = |shape: Option<Shape>| shape.map(|shape| shape.to_vec());
        let pairs = self.outputs.iter().zip(shapes);
        Ok(pairs.map(|(info, found)| (info.name.clone(), info.dtype.name(), shape(found))).collect())
    }

    /// Extents of each input and of each output as the model gives them; `None` for one that it leaves open, or that depends
    /// on data.
    #[getter]
    fn declared(&self) -> (Vec<Declared>, Vec<Declared>) {
        let extent = |dim: &Dim| match dim {
            Dim::Fixed(extent) => Some(*extent),
            Dim::Symbol(_) => None,
        };
        let all = |infos: &[ValueInfo]| -> Vec<Declared> {
            infos.iter().map(|info| info.dims.iter().map(extent).collect()).collect()
        };
        (all(&self.inputs), all(&self.outputs))
    }

    /// Plans for inputs of these shapes, in the order of `inputs`, and returns the outputs' shapes. Arrays that are bound
    /// are let go. Plans for earlier shapes are kept, some at least.
    ///
    /// Raises `ArgumentError` if the model does not take such shapes.
    fn prepare(&self, py: Python<'_>, shapes: List<List<usize>>) -> PyResult<Vec<Option<Vec<usize>>>> {
        if shapes.len() != self.inputs.len() {
            let text = format!("shapes: expected {}, got {}", self.inputs.len(), shapes.len());
            return Err(error::argument(text));
        }
        let shape = |(info, dims): (&ValueInfo, &List<usize>)| {
            let rank = || {
                format!(
                    "input '{}': expected at most {} dimensions",
                    info.name,
                    triune::internals::tensor::MAX_RANK
                )
            };
            Shape::new(dims).ok_or_else(|| error::argument(rank()))
        };
        let shapes: Vec<Shape> = self.inputs.iter().zip(&*shapes).map(shape).collect::<PyResult<_>>()?;
        let found = self
            .look(py, |state| {
                state.prepare(shapes)?;
                Ok(state.output_shapes.clone())
            })?
            .map_err(error::runtime)?;
        self.rebind(None);
        Ok(found.into_iter().map(|shape| shape.map(|shape| shape.to_vec())).collect())
    }

    /// Names the arrays that every following `forward` reads and writes in place: C-contiguous, of the dtypes and shapes that
    /// are planned for. For an output without an array (`None`), `output` has the result.
    ///
    /// An output shares memory with no other array. Raises `ArgumentError` if an array does not fit.
    fn bind<'py>(
        &self,
        py: Python<'py>,
        inputs: List<Bound<'py, PyAny>>,
        outputs: List<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<()> {
        let (shapes, output_shapes, plan) =
            self.look(py, |state| (state.shapes.clone(), state.output_shapes.clone(), state.plan))?;
        let shapes = shapes.ok_or_else(unprepared)?;
        for (what, expected, got) in
            [("inputs", self.inputs.len(), inputs.len()), ("outputs", self.outputs.len(), outputs.len())]
        {
            if expected != got {
                return Err(error::argument(format!("{what}: expected {expected} arrays, got {got}")));
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
                (Some(_), None) => Err(error::argument(format!(
                    "output '{}': expected None, as its shape depends on data, got an array",
                    info.name
                ))),
            })
            .collect::<PyResult<Vec<_>>>()?;
        let new = Arc::new(bound::Bound::new(&inputs, &outputs, plan)?);
        self.rebind(Some(new));
        self.look(py, |state| state.results.clear())
    }

    /// Computes the outputs from what the bound inputs hold. Calls from several threads run one after the other.
    ///
    /// Raises `ArgumentError` if nothing is bound, or an array was resized since, `ForkedError` in a child of a fork that came upon
    /// a run, `ReleasedError` if `stop` was called meanwhile.
    fn forward(&self, py: Python<'_>) -> PyResult<()> {
        let bound = self.bound.lock().clone().ok_or_else(unbound)?;
        let _held = bound.hold(py)?;
        let stop = self.stop.lock().clone();
        error::stoppable(py, Some(&stop), || {
            let mut state = cancel::lock(&self.state).map_err(|no| match no {
                NoLock::Cancelled => stopped(),
                no => error::no_lock(no),
            })?;
            if self.state.is_poisoned() {
                return Err(midway());
            }
            let done = state.run(&bound);
            if stop.is_cancelled() { Err(stopped()) } else { done }
        })?
    }

    /// Stops every `forward` that other threads are in, which raises `ReleasedError`. The network can be used again.
    fn stop(&self) {
        std::mem::take(&mut *self.stop.lock()).cancel();
    }

    /// Every value of the model for what the bound inputs hold, inputs first, then in execution order: its name, the operator
    /// that makes it (`Input` for an input), the names of that operator's operands, and the elements. No operators are fused.
    ///
    /// The first call, and one for other shapes, compiles the model anew. Raises `ArgumentError` as `forward`, `UnsupportedError` if an operator does not run by itself.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Vec<Traced<'py>>> {
        let bound = self.bound.lock().clone().ok_or_else(unbound)?;
        let _held = bound.hold(py)?;
        let found = self.look(py, |state| {
            let shapes = state.shapes.clone().filter(|_| bound.plan() == state.plan).ok_or_else(unbound)?;
            let given = bound::Given(&bound);
            let operand = |(index, (info, shape)): (usize, (&ValueInfo, &'_ Shape))| {
                // Copied: the arrays may change as soon as the inputs have been read.
                (info.dtype, *shape, given.input(index).to_vec())
            };
            let copies: Vec<_> = self.inputs.iter().zip(&shapes).enumerate().map(operand).collect();
            let operands: Vec<TensorRef<'_>> = copies
                .iter()
                .map(|(dtype, shape, bytes)| TensorRef { dtype: *dtype, shape, bytes })
                .collect();
            state.session.trace(&operands).map_err(error::runtime)
        })??;
        found
            .into_iter()
            .map(|variable| {
                let Variable { name, operator, operands, value } = variable;
                let value = array::from_bytes(py, value.dtype, &value.shape, value.bytes)?;
                Ok((name, operator, operands, value))
            })
            .collect()
    }

    /// Starts or stops taking the time of every operator of every run.
    fn profile(&self, py: Python<'_>, enable: bool) -> PyResult<()> {
        self.look(py, |state| state.session.profile(enable))
    }

    /// Name, operator and seconds of each operator of the last run, in execution order; empty unless `profile` was asked for
    /// before it. Operators that were fused into others, or only change how their operand is seen, are left out. What ran
    /// on a device is one entry, with the device's name and `Device` for an operator: the time that simulating it took.
    fn operator_times(&self, py: Python<'_>) -> PyResult<Vec<(String, String, f64)>> {
        let times = self.look(py, |state| state.session.operator_times())?;
        Ok(times.into_iter().map(|time| (time.name, time.kind, time.nanos as f64 * 1e-9)).collect())
    }

    /// The operators of the last run as they ran, fused, in execution order: of each its name, the operator, the names of its
    /// operands and results, and how many additions and multiplications it takes, `None` where nobody counts them; and by
    /// name, dtype, shape and whether it is a constant of every tensor that they read or make. Of a model with extents that
    /// depend on data: what has been compiled, and what ran since `profile` was asked for.
    ///
    /// Raises `ArgumentError` before the inputs' shapes are known.
    fn outline(&self, py: Python<'_>) -> PyResult<(Vec<Outlined>, HashMap<String, OutlinedValue>)> {
        let Outline { values, nodes } = self.look(py, |state| {
            let shapes = state.shapes.clone().ok_or_else(unprepared)?;
            // What is planned for is the last plan that was used.
            state.session.prepare(&shapes).map_err(error::runtime)?;
            Ok::<_, PyErr>(state.session.outline())
        })??;
        let names = |positions: Vec<usize>| -> Vec<String> {
            positions.into_iter().map(|position| values[position].name.clone()).collect()
        };
        let node = |node: OutlineNode| {
            (node.name, node.kind, names(node.inputs), names(node.outputs), node.operations)
        };
        let nodes = nodes.into_iter().map(node).collect();
        let value =
            |value: OutlineValue| (value.name, (value.dtype.name(), value.shape.to_vec(), value.constant));
        Ok((nodes, values.into_iter().map(value).collect()))
    }

    /// Where feature maps lie in memory, and when: `bytes` in all; `lower_bound`, what no plan can do without; `buffers`, each
    /// (offset, bytes, first command, one past the last); `operators`, each (name, operator, first command, one past the
    /// last); `inputs` and `outputs`, each (name, bytes), `None` for bytes that depend on data; `weights`, the bytes of the
    /// model's weights.
    ///
    /// Of a model with a core on a device, the core's: first the `near` bytes of the maps that stay near the array, behind them
    /// those in the far memory; `weights` are the core's constants as they lie in the device, beside what weights stages
    /// on the host have. Of a model with extents that depend on data: what has been compiled, stage by stage, commands
    /// counted through, `bytes` and `near` of the stage with the most.
    ///
    /// Raises `ArgumentError` before the inputs' shapes are known.
    fn memory_plan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (programs, weights, shapes, results) = self.look(py, |state| {
            let shapes = state.shapes.clone().ok_or_else(unprepared)?;
            let programs = state.session.programs(&shapes).map_err(error::runtime)?;
            let programs: Vec<Program> = programs.into_iter().cloned().collect();
            let tables = usize::try_from(state.session.workspace().table_bytes()).unwrap_or(usize::MAX);
            let weights = state.session.model().library().bytes().saturating_add(tables);
            Ok::<_, PyErr>((programs, weights, shapes, state.output_shapes.clone()))
        })??;
        let plan = PyDict::new(py);
        let total = |program: &Program| program.resident_bytes().saturating_add(program.scratch_bytes);
        let largest = programs.iter().max_by_key(|program| total(program));
        plan.set_item("bytes", largest.map_or(0, total))?;
        plan.set_item("near", largest.map_or(0, Program::resident_bytes))?;
        let least = |program: &Program| {
            let near = program.residency.map_or(0, |residency| residency.lower_bound);
            near.saturating_add(program.scratch_lower_bound)
        };
        plan.set_item("lower_bound", programs.iter().map(least).max().unwrap_or(0))?;
        let (mut buffers, mut operators, mut start) = (Vec::new(), Vec::new(), 0);
        for program in &programs {
            let at = |command: u32| start + command;
            let behind =
                |segment: u8| if segment == Program::RESIDENT { 0 } else { program.resident_bytes() };
            let place = |b: &PlannedBuffer| b.offset.saturating_add(behind(b.segment));
            buffers.extend(program.buffers.iter().map(|b| (place(b), b.bytes, at(b.first), at(b.last))));
            operators.extend(program.operators.iter().map(|o| (&o.name, &o.kind, at(o.first), at(o.last))));
            start += program.operators.iter().map(|o| o.last).max().unwrap_or(0);
        }
        plan.set_item("buffers", buffers)?;
        plan.set_item("operators", operators)?;
        let bytes = |(info, shape): (&ValueInfo, Option<Shape>)| {
            let elements = shape.map(|shape| shape.iter().product::<usize>());
            (info.name.clone(), elements.map(|elements| elements * info.dtype.bytes()))
        };
        let inputs = self.inputs.iter().zip(shapes.into_iter().map(Some)).map(bytes);
        plan.set_item("inputs", inputs.collect::<Vec<_>>())?;
        plan.set_item("outputs", self.outputs.iter().zip(results).map(bytes).collect::<Vec<_>>())?;
        // The host's are in the library, once for all programs.
        let on_device = programs.iter().filter(|program| program.target != "host");
        let constants: usize = on_device.map(|program| program.constants.len()).sum();
        plan.set_item("weights", weights.saturating_add(constants))?;
        Ok(plan)
    }

    /// The modelled time of the core on the device, `None` when all of the model runs on the host.
    ///
    /// Raises `ArgumentError` before the inputs' shapes are known.
    fn timeline(&self, py: Python<'_>) -> PyResult<Option<Timeline>> {
        self.look(py, |state| {
            let shapes = state.shapes.clone().ok_or_else(unprepared)?;
            Ok(state.session.deployment(&shapes).map_err(error::runtime)?.map(Timeline::new))
        })?
    }

    /// Bytes of packed weights that this network, and those that share them, have in memory.
    #[getter]
    fn weight_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, |state| state.session.model().library().packed_bytes())
    }

    /// Bytes of memory for feature maps, inputs and outputs.
    #[getter]
    fn scratch_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |state| state.session.workspace().bytes())
    }

    /// Bytes of weights, as the model has them, and of feature maps: what a run goes through, about.
    #[getter]
    fn run_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |state| {
            state.session.workspace().bytes().saturating_add(state.session.model().library().bytes() as u64)
        })
    }

    /// Returns whether a thread is at work with it that is not in this process.
    fn forked(&self) -> bool {
        self.state.is_forked()
    }

    /// Sets of input shapes that plans are kept for.
    #[getter]
    fn plans(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, |state| state.session.plans())
    }

    /// What the last `forward` gave for output `index`, as a new array.
    ///
    /// Raises `ArgumentError` if there is no such output, an array is bound to it, or nothing ran yet.
    fn output<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let Some(info) = self.outputs.get(index) else {
            let text = format!("index: expected less than {}, got {index}", self.outputs.len());
            return Err(error::argument(text));
        };
        let result = self.look(py, |state| state.results.get(index).cloned().flatten())?;
        let result = result.ok_or_else(|| {
            let name = &info.name;
            error::argument(format!(
                "output '{name}': no result; it needs a forward without an array bound to it"
            ))
        })?;
        array::from_bytes(py, result.dtype, &result.shape, result.bytes)
    }
}

impl Network {
    /// Replaces the bound arrays. They may be the last owners of objects whose end runs Python code, which a fork must not have to
    /// wait for.
    fn rebind(&self, new: Option<Arc<bound::Bound>>) {
        let old = std::mem::replace(&mut *self.bound.lock(), new);
        drop(old);
    }

    /// Looks at the state without the interpreter; what a panic left behind, too, see `forward`.
    ///
    /// Raises `ForkedError`.
    fn look<T: Ungil + Send>(
        &self,
        py: Python<'_>,
        look: impl Ungil + Send + FnOnce(&mut State) -> T,
    ) -> PyResult<T> {
        error::detached(py, || Ok(look(&mut *self.state.lock().map_err(error::forked)?)))?
    }
}

fn unprepared() -> PyErr {
    error::argument("the inputs' shapes are not known; call prepare first")
}

fn unbound() -> PyErr {
    error::argument("no arrays are bound to the network; call bind first, again after prepare")
}

fn stopped() -> PyErr {
    ReleasedError::new_err("the run was stopped")
}

fn midway() -> PyErr {
    InternalError::new_err("an earlier run failed midway")
}

impl<'a> Expected<'a> {
    fn new(what: &str, info: &ValueInfo, shape: &'a Shape) -> Self {
        Self { name: format!("{what} '{}'", info.name), dtype: info.dtype, shape }
    }
}
