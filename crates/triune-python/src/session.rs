//! Any model file on this machine's CPU.

mod given;
mod maps;
mod plan;
mod source;
mod state;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use numpy::PyUntypedArrayMethods;
use pyo3::{marker::Ungil, prelude::*, types::PyDict};
use triune::internals::{
    fork::{Brief, Forked, Lock},
    kernels::{
        CancelToken,
        cancel::{self, NoLock},
    },
    runtime::{
        self, Dim, Model, ModelOptions, Outline, OutlineNode, Profile, SessionOptions, TensorMut, ValueInfo,
        ValueKind, ValueRef, Variable, target,
    },
    tensor::{DType, MAX_RANK, Shape},
};

use self::{
    given::{Given, Last, Parts, result},
    source::Source,
    state::{State, unbound},
};
use crate::{
    array::{self, Output},
    bound::{self, Expected},
    error::{self, InternalError, ReleasedError},
    list::List,
    timeline::Timeline,
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

/// A model on this machine's CPU: `run` takes arrays by name, `forward` those that `bind` named.
#[pyclass(frozen, module = "triune._native")]
pub(crate) struct Session {
    model: Arc<Model>,
    /// Whether the outputs' shapes follow from the inputs'.
    is_fixed: bool,
    state: Lock<State>,
    /// Stops the calls that are under way; those that begin later are under another one.
    stop: Brief<CancelToken>,
    last: Brief<Option<Arc<Last>>>,
    /// Apart from the state, as it is looked at with the interpreter held: nobody computes while holding it.
    bound: Brief<Option<Arc<bound::Bound>>>,
}

/// Name, element type and extents (an int, or a name where the model leaves it open) of a model's input or output.
type Described<'py> = (String, &'static str, Vec<Bound<'py, PyAny>>);

/// Name, element type and extents; the latter are missing where nobody knows them yet.
type Planned = (String, &'static str, Option<Vec<usize>>);

/// Name, operator, names of its operands, elements.
type Traced<'py> = (String, &'static str, Vec<String>, Bound<'py, PyAny>);

/// Name, operator, names of its operands and results, arithmetic.
type Outlined = (String, &'static str, Vec<String>, Vec<String>, Option<u64>);

#[pymethods]
impl Session {
    /// Opens a model file, given as a path or as its bytes; or, with `sharing_weights`, the model that another session has,
    /// whose weights then are in memory once: `model` is not looked at. The other one may be dropped. External data of an ONNX
    /// model in bytes is looked for below `folder`.
    ///
    /// `threads` compute a run; 0 takes every CPU. Without `fusion`, every operator runs by itself. `compressed` says that the
    /// tensors of a MegEngine file are, which the file does not tell. `sharing_scratch` names a session to share the memory of runs with: no two of
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
    #[pyo3(signature = (model=None, *, threads=1, folder=None, fusion=true, compressed=false, device=None, sharing_weights=None, sharing_scratch=None, params=None, fake_qf=false))]
    fn new(
        py: Python<'_>,
        model: Option<&Bound<'_, PyAny>>,
        threads: usize,
        folder: Option<PathBuf>,
        fusion: bool,
        compressed: bool,
        device: Option<&str>,
        sharing_weights: Option<&Self>,
        sharing_scratch: Option<&Self>,
        params: Option<&Bound<'_, PyDict>>,
        fake_qf: bool,
    ) -> PyResult<Self> {
        let source = match sharing_weights {
            Some(session) => Source::Open(Arc::clone(&session.model)),
            None => Source::new(model, folder, params, fake_qf)?,
        };
        let device = device.filter(|&name| name != "host").map(|name| target::device(Path::new(name)));
        let device = device.transpose().map_err(error::runtime)?;
        let state = error::detached(py, || {
            let shared = |other: &Self| -> Result<_, Forked> {
                Ok(Arc::clone(other.state.lock()?.session.workspace()))
            };
            let workspace = sharing_scratch.map(shared).transpose()?;
            let model = source.model(ModelOptions { compressed })?;
            let options = SessionOptions { threads, fusion, device, workspace };
            State::new(runtime::Session::of(model, &options)?, options)
        })?;
        let state = state.map_err(error::runtime)?;
        Ok(Self {
            model: Arc::clone(state.session.model()),
            is_fixed: !state.session.is_staged(),
            state: Lock::new(state),
            stop: Brief::default(),
            last: Brief::default(),
            bound: Brief::default(),
        })
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

    /// As `inputs`, those that may be left out: the model has constants for them.
    #[getter]
    fn defaults<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        self.model.defaults().iter().map(|info| describe(py, info)).collect()
    }

    /// What each of `inputs`, `outputs` and `defaults` is: `tensor`, `strings`, `sequence`, `optional` or `optional sequence`.
    #[getter]
    fn kinds(&self) -> [Vec<&'static str>; 3] {
        let names = |infos: &[ValueInfo]| infos.iter().map(|info| info.kind.name()).collect();
        [names(self.model.inputs()), names(self.model.outputs()), names(&self.model.defaults())]
    }

    /// Name, dtype and shape of each input, and of each output: the inputs' shapes that are planned for, `None` before any are, and
    /// the outputs', `None` before, and where they depend on data. After `forward`, these are those of that run.
    #[getter]
    fn planned(&self, py: Python<'_>) -> PyResult<(Vec<Planned>, Vec<Planned>)> {
        let (shapes, results) = self.work(py, None, |state| {
            let result = |index: usize| state.results.get(index)?.as_ref().map(|tensor| tensor.shape);
            let results = state.output_shapes.iter().enumerate();
            let results = results.map(|(index, shape)| shape.or_else(|| result(index)));
            let shapes = state.shapes.as_ref().map(|shapes| shapes.iter().copied().map(Some).collect());
            Ok((shapes, results.collect()))
        })?;
        let rows = |infos: &[ValueInfo], shapes: Vec<Option<Shape>>| -> Vec<Planned> {
            let row = |(info, shape): (&ValueInfo, Option<Shape>)| {
                (info.name.clone(), info.dtype.name(), shape.map(|shape| shape.to_vec()))
            };
            infos.iter().zip(shapes).map(row).collect()
        };
        let (inputs, outputs) = (self.model.inputs(), self.model.outputs());
        Ok((rows(inputs, shapes.unwrap_or_else(|| vec![None; inputs.len()])), rows(outputs, results)))
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
        let mut objects = Vec::with_capacity(inputs.len());
        for info in inputs {
            objects.push((info, feeds.get_item(&info.name)?));
        }
        let mut more = Vec::new();
        for info in &defaults {
            if let Some(object) = feeds.get_item(&info.name)? {
                objects.push((info, Some(object)));
                more.push(&*info.name);
            }
        }
        if objects.iter().filter(|(_, object)| object.is_some()).count() < feeds.len() {
            for key in feeds.keys() {
                let name: String = key.extract()?;
                if !inputs.iter().chain(&defaults).any(|info| info.name == name) {
                    let names: Vec<_> = inputs.iter().map(|info| info.name.as_str()).collect();
                    let text = format!("unknown input '{name}'; the model has {}", names.join(", "));
                    return Err(error::argument(text));
                }
            }
        }
        let mut fed = Vec::with_capacity(objects.len());
        for (info, object) in objects {
            let object = object.ok_or_else(|| {
                error::argument(format!("input '{}': expected an array, got none", info.name))
            })?;
            fed.push(Given::new(info, &object)?);
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
        let results = self.work(py, cancel, |state| {
            let lists = parts.iter().map(Parts::owned).collect::<Result<Vec<_>, _>>();
            let lists = lists.map_err(error::out_of_memory)?;
            let values: Vec<ValueRef<'_>> =
                parts.iter().zip(&lists).map(|(parts, list)| parts.value(list)).collect();
            let session = state.taking(&more).map_err(error::runtime)?;
            let results = session.run_values(&values, &mut into).map_err(error::runtime)?;
            if more.is_empty() {
                state.note(&values);
            }
            Ok(results)
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
    /// data. A later run with them starts at once, and `bind` takes arrays of these shapes; those that are bound are let go. Plans
    /// for earlier shapes are kept, some at least.
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
        let known = self.work(py, None, |state| {
            state.prepare(shapes).map_err(error::runtime)?;
            Ok(state.output_shapes.clone())
        })?;
        self.rebind(None);
        Ok(known.into_iter().map(|shape| shape.map(|shape| shape.to_vec())).collect())
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
            self.work(py, None, |state| Ok((state.prepared()?, state.output_shapes.clone(), state.plan)))?;
        let (own_inputs, own_outputs) = (self.model.inputs(), self.model.outputs());
        for (what, expected, got) in
            [("inputs", own_inputs.len(), inputs.len()), ("outputs", own_outputs.len(), outputs.len())]
        {
            if expected != got {
                return Err(error::argument(format!("{what}: expected {expected} arrays, got {got}")));
            }
        }
        let inputs: Vec<_> = inputs
            .into_iter()
            .zip(own_inputs.iter().zip(&shapes))
            .map(|(object, (info, shape))| (object, Expected::new("input", info, shape)))
            .collect();
        let outputs = outputs
            .into_iter()
            .zip(own_outputs.iter().zip(&output_shapes))
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
        self.work(py, None, |state| {
            state.results.clear();
            Ok(())
        })
    }

    /// Computes the outputs from what the bound inputs hold. Calls from several threads run one after the other.
    ///
    /// Raises `ArgumentError` if nothing is bound, or an array was resized since, `ForkedError` in a child of a fork that came upon
    /// a run, `ReleasedError` if `stop` was called meanwhile.
    fn forward(&self, py: Python<'_>) -> PyResult<()> {
        let bound = self.bound.lock().clone().ok_or_else(unbound)?;
        let _held = bound.hold(py)?;
        self.work(py, None, |state| state.run(&bound))
    }

    /// Every value of the model for what the bound inputs hold, inputs first, then in execution order: its name, the operator
    /// that makes it (`Input` for an input), the names of that operator's operands, and the elements. No operators are fused.
    ///
    /// The first call, and one for other shapes, compiles the model anew. Raises `ArgumentError` as `forward`, `UnsupportedError` if an operator does not run by itself.
    fn trace<'py>(&self, py: Python<'py>) -> PyResult<Vec<Traced<'py>>> {
        let bound = self.bound.lock().clone().ok_or_else(unbound)?;
        let _held = bound.hold(py)?;
        let found = self.work(py, None, |state| state.trace(&bound))?;
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
        self.work(py, None, |state| {
            state.session.profile(enable);
            Ok(())
        })
    }

    /// Name, operator and seconds of each operator of the last run, in execution order; empty unless `profile` was asked for
    /// before it. Operators that were fused into others, or only change how their operand is seen, are left out. What ran
    /// on a device is one entry, with the device's name and `Device` for an operator: the time that simulating it took.
    fn operator_times(&self, py: Python<'_>) -> PyResult<Vec<(String, String, f64)>> {
        let times = self.work(py, None, |state| Ok(state.session.operator_times()))?;
        Ok(times.into_iter().map(|time| (time.name, time.kind, time.nanos as f64 * 1e-9)).collect())
    }

    /// The operators of the last run as they ran, fused, in execution order: of each its name, the operator, the names of its
    /// operands and results, and how many additions and multiplications it takes, `None` where nobody counts them; and by
    /// name, dtype, shape and whether it is a constant of every tensor that they read or make. Of a model with extents that
    /// depend on data: what has been compiled, and what ran since `profile` was asked for.
    ///
    /// Raises `ArgumentError` before the inputs' shapes are known.
    fn outline<'py>(&self, py: Python<'py>) -> PyResult<(Vec<Outlined>, Bound<'py, PyDict>)> {
        let outline = self.work(py, None, |state| {
            let shapes = state.known()?;
            // What is planned for is the last plan that was used.
            state.session.prepare(&shapes).map_err(error::runtime)?;
            Ok(state.session.outline())
        })?;
        outlined(py, outline)
    }

    /// As `outline`, of the model's own operators, none fused; tensors whose type or extents the file does not say are left out.
    fn own_outline<'py>(&self, py: Python<'py>) -> PyResult<(Vec<Outlined>, Bound<'py, PyDict>)> {
        let outline = self.work(py, None, |state| Ok(state.session.own_outline()))?;
        outlined(py, outline)
    }

    /// Whether some operators run on the host, between the parts that have programs.
    #[getter]
    fn staged(&self, py: Python<'_>) -> PyResult<bool> {
        self.work(py, None, |state| Ok(state.session.is_staged()))
    }

    /// Numbers that operators themselves have of what was learned, such as those of trees, and their bytes.
    #[getter]
    fn held(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.work(py, None, |state| {
            let [count, bytes] = state.session.held();
            Ok((count, bytes))
        })
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
        let (planned, shapes, results) = self.work(py, None, |state| {
            let shapes = state.known()?;
            let planned = state.session.memory_plan(&shapes).map_err(error::runtime)?;
            Ok((planned, shapes, state.output_shapes.clone()))
        })?;
        let plan = PyDict::new(py);
        plan.set_item("bytes", planned.bytes)?;
        plan.set_item("near", planned.near)?;
        plan.set_item("lower_bound", planned.lower_bound)?;
        plan.set_item("weights", planned.weights)?;
        let maps = planned.maps.iter().map(|map| (map.offset, map.bytes, map.first, map.last));
        plan.set_item("buffers", maps.collect::<Vec<_>>())?;
        let operators = planned.operators.iter().map(|own| (&own.name, &own.kind, own.first, own.last));
        plan.set_item("operators", operators.collect::<Vec<_>>())?;
        let bytes = |(info, shape): (&ValueInfo, Option<Shape>)| {
            let elements = shape.map(|shape| shape.iter().product::<usize>());
            (info.name.clone(), elements.map(|elements| elements * info.dtype.bytes()))
        };
        let inputs = self.model.inputs().iter().zip(shapes.into_iter().map(Some)).map(bytes);
        plan.set_item("inputs", inputs.collect::<Vec<_>>())?;
        plan.set_item("outputs", self.model.outputs().iter().zip(results).map(bytes).collect::<Vec<_>>())?;
        Ok(plan)
    }

    /// What a run does on this machine: `isa`, `threads`; `workspace_bytes`, `weight_bytes` as the model has them, `packed_bytes`,
    /// `table_bytes`; and `parts`, a dict for the program, or of a model with extents that depend on data for each stage, as far as it is
    /// compiled. Of a part: `map_bytes`, `lower_bound`, `output_names`, `border_bytes`, `constant_bytes`, `scratch_bytes`; `operators`, dicts with `name`,
    /// `kind`, `made_of`, the (name, operator) of the model's own, `part_of`, the composite one, `inputs`, `outputs`, each (name, dtype,
    /// shape), and `commands`, each (mnemonic, method, place, offset there or number of the output, bytes); `maps`, each (offset, bytes,
    /// first command, one past the last); `strips`, each (first command, one past the last, rows, rows of a strip); `hosted`, the
    /// (name, operator) of what the host runs behind it.
    ///
    /// Raises `ArgumentError` before the inputs' shapes are known, and if a part of the model runs on a device.
    fn plan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let plan = self.work(py, None, |state| {
            let shapes = state.known()?;
            state.session.plan(&shapes).map_err(error::runtime)
        })?;
        plan::dict(py, plan)
    }

    /// The modelled time of the core on the device, `None` when all of the model runs on the host.
    ///
    /// Raises `ArgumentError` before the inputs' shapes are known.
    fn timeline(&self, py: Python<'_>) -> PyResult<Option<Timeline>> {
        self.work(py, None, |state| {
            let shapes = state.known()?;
            let deployment = state.session.deployment(&shapes).map_err(error::runtime)?;
            Ok(deployment.map(|deployment| Timeline { inner: Profile::of(deployment) }))
        })
    }

    /// Bytes of packed weights that this session, and those that share them, have in memory.
    #[getter]
    fn weight_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.work(py, None, |state| Ok(state.session.model().library().packed_bytes()))
    }

    /// Bytes of memory for feature maps, inputs and outputs.
    #[getter]
    fn scratch_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.work(py, None, |state| Ok(state.session.workspace().bytes()))
    }

    /// Bytes of weights, as the model has them, and of feature maps: what a run goes through, about.
    #[getter]
    fn run_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.work(py, None, |state| {
            Ok(state.session.workspace().bytes().saturating_add(self.model.library().bytes() as u64))
        })
    }

    /// Returns whether a thread is at work with it that is not in this process.
    fn forked(&self) -> bool {
        self.state.is_forked()
    }

    /// Sets of input shapes that plans are kept for.
    #[getter]
    fn plans(&self, py: Python<'_>) -> PyResult<usize> {
        self.work(py, None, |state| Ok(state.session.plans()))
    }

    /// What the last `forward` gave for output `index`, as a new array.
    ///
    /// Raises `ArgumentError` if there is no such output, an array is bound to it, or nothing ran yet.
    fn output<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let Some(info) = self.model.outputs().get(index) else {
            let text = format!("index: expected less than {}, got {index}", self.model.outputs().len());
            return Err(error::argument(text));
        };
        let result = self.work(py, None, |state| Ok(state.results.get(index).cloned().flatten()))?;
        let result = result.ok_or_else(|| {
            let name = &info.name;
            error::argument(format!(
                "output '{name}': no result; it needs a forward without an array bound to it"
            ))
        })?;
        array::from_bytes(py, result.dtype, &result.shape, result.bytes)
    }
}

/// An array that a result is written to, with its type and shape.
type Target<'py> = (DType, Vec<usize>, Output<'py>);

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
            if info.kind == ValueKind::Strings || info.kind.is_map() {
                return Err(error::argument(format!(
                    "{name}: expected None, got an array: strings and maps are always new ones"
                )));
            }
            let dtype = added.get(index).copied().flatten().unwrap_or(info.dtype);
            let array = array::check(&name, object, dtype, None)?;
            Ok(Some((dtype, array.shape().to_vec(), Output::new(&name, array)?)))
        };
        out.iter().zip(self.model.outputs()).enumerate().map(target).collect()
    }

    /// Replaces the bound arrays. They may be the last owners of objects whose end runs Python code, which a fork must not have to
    /// wait for.
    fn rebind(&self, new: Option<Arc<bound::Bound>>) {
        let old = std::mem::replace(&mut *self.bound.lock(), new);
        drop(old);
    }

    /// Works with the state without the interpreter, until `stop` or a token stops it.
    fn work<T: Ungil + Send>(
        &self,
        py: Python<'_>,
        cancel: Option<&Cancel>,
        work: impl Ungil + Send + FnOnce(&mut State) -> PyResult<T>,
    ) -> PyResult<T> {
        let stop = self.stop.lock().clone();
        let token = cancel.map(|cancel| &cancel.0);
        let locked = || {
            let mut state = cancel::lock(&self.state).map_err(|no| match no {
                NoLock::Cancelled => stopped(),
                no => error::no_lock(no),
            })?;
            if self.state.is_poisoned() {
                return Err(InternalError::new_err("an earlier run failed midway"));
            }
            let done = work(&mut state);
            if stop.is_cancelled() || token.is_some_and(CancelToken::is_cancelled) {
                return Err(stopped());
            }
            done
        };
        error::stoppable(py, Some(&stop), || match token {
            Some(token) => token.during(locked),
            None => locked(),
        })?
    }
}

fn stopped() -> PyErr {
    ReleasedError::new_err("the run was stopped")
}

impl<'a> Expected<'a> {
    fn new(what: &str, info: &ValueInfo, shape: &'a Shape) -> Self {
        Self { name: format!("{what} '{}'", info.name), dtype: info.dtype, shape }
    }
}

/// An outline as Python has it, values in its order.
fn outlined(
    py: Python<'_>,
    Outline { values, nodes }: Outline,
) -> PyResult<(Vec<Outlined>, Bound<'_, PyDict>)> {
    let names = |positions: Vec<usize>| -> Vec<String> {
        positions.into_iter().map(|position| values[position].name.clone()).collect()
    };
    let node =
        |node: OutlineNode| (node.name, node.kind, names(node.inputs), names(node.outputs), node.operations);
    let nodes = nodes.into_iter().map(node).collect();
    let by_name = PyDict::new(py);
    for value in values {
        by_name.set_item(value.name, (value.dtype.name(), value.shape.to_vec(), value.constant))?;
    }
    Ok((nodes, by_name))
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
