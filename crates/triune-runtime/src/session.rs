//! Sessions: a model run on the host, whole, with shapes bound by each call.

use std::{collections::HashSet, path::Path, sync::Arc};

use bytes::Bytes;
use triune_device::{DeviceSpec, Inputs, Outputs, Scratch};
use triune_graph::{Dim, MapType, Op, ValueId, ValueKind, passes};
#[cfg(doc)]
use triune_kernels::CancelToken;
use triune_kernels::{Isa, Pool};
use triune_tensor::{DType, MAX_RANK, Shape};

use crate::{
    Deployment, Error, Model, ModelOptions, Outline, Program, Tensor, TensorMut, TensorRef, ValueInfo,
    Workspace,
    engine::{Engine, Resources},
    plans::PlanCache,
    staged::{
        Staged,
        value::{Maps, StringTensor, Value, ValueRef},
    },
    tensor::{Operands, Results},
};

/// How a session runs.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Threads that a run uses, the caller's included; 0 means one per CPU core.
    pub threads: usize,
    /// Whether operators are fused into those before them where that gives the same results.
    pub fusion: bool,
    /// A device to run the integer core of a quantized model on; the rest runs on the host. The results are the host's.
    pub device: Option<DeviceSpec>,
    /// Memory to run in, shared with other sessions: no two of them can run at once. `None` means memory of its own.
    pub workspace: Option<Arc<Workspace>>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { threads: 1, fusion: true, device: None, workspace: None }
    }
}

/// A model on the host. Programs are compiled per set of input shapes; some are kept. They share weights and memory.
///
/// A model whose extents depend on data is compiled in stages, each for what the ones before it gave; some of each stage
/// are kept.
#[derive(Debug)]
pub struct Session {
    resources: Resources,
    /// By the shapes of their inputs.
    plans: PlanCache<Vec<Shape>>,
    /// Instead of plans.
    staged: Option<Staged>,
    /// What traces run: the model's values in parts, each made by a session that keeps its programs.
    tracers: Vec<Session>,
}

/// A value of a model as a run gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name in the model.
    pub name: String,
    /// The operator that gave it, such as `Conv`; `Input` for an input.
    pub operator: &'static str,
    /// Names of the operator's operands.
    pub operands: Vec<String>,
    /// The elements.
    pub value: Tensor,
}

/// How long an operator of the last run took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorTime {
    /// The node's name in the model.
    pub name: String,
    /// The operator, such as `Conv`.
    pub kind: String,
    /// Wall time.
    pub nanos: u64,
}

impl OperatorTime {
    /// The operator of an entry for all that a device ran.
    pub const DEVICE: &str = "Device";
}

impl Session {
    /// Values that one program gives to a trace: each is a segment, and addresses have 8 bits for them.
    const TRACED: usize = 128;

    /// Opens a model file.
    pub fn open(path: &Path, options: &SessionOptions) -> Result<Self, Error> {
        Self::of(Model::open(path, &ModelOptions::default())?, options)
    }

    /// Opens a model in memory; external data is not available.
    pub fn from_bytes(bytes: impl Into<Bytes>, options: &SessionOptions) -> Result<Self, Error> {
        Self::of(Model::from_bytes(bytes, &ModelOptions::default())?, options)
    }

    /// A session over a graph.
    pub fn new(graph: triune_graph::Graph, options: &SessionOptions) -> Result<Self, Error> {
        Self::of(Model::new(graph), options)
    }

    /// A session over a model, whose weights it shares with other sessions over it.
    ///
    /// A model that gives its inputs' shapes is compiled at once, so that its errors show here and the first run is fast.
    pub fn of(model: Arc<Model>, options: &SessionOptions) -> Result<Self, Error> {
        let workspace = match &options.workspace {
            Some(workspace) => Arc::clone(workspace),
            None => Workspace::new()?,
        };
        let resources = Resources {
            workspace,
            pool: Pool::new(options.threads),
            fusion: options.fusion,
            device: options.device.clone(),
            scratch: Scratch::default(),
            strings: model.graph.strings.clone(),
            profiled: false,
            planned: 0,
            rounds_left: 0,
            model,
        };
        let (graph, threads) = (&resources.model.graph, resources.pool.threads());
        log::debug!(
            target: "triune::session",
            "{} operators, {threads} thread{} with {}",
            graph.nodes.len(),
            if threads == 1 { "" } else { "s" },
            Isa::best().name()
        );
        let staged = passes::stages(graph)?.map(|stages| Staged::new(stages, graph));
        let mut session = Self { resources, plans: PlanCache::default(), staged, tracers: Vec::new() };
        if let Some(shapes) = session.model().default_shapes().map(<[Shape]>::to_vec) {
            session.prepare(&shapes)?;
        }
        Ok(session)
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.resources.model
    }

    /// The memory that it runs in.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.resources.workspace
    }

    /// What a run takes.
    pub fn inputs(&self) -> &[ValueInfo] {
        self.model().inputs()
    }

    /// What a run gives.
    pub fn outputs(&self) -> &[ValueInfo] {
        self.model().outputs()
    }

    /// Threads that a run uses.
    pub(crate) fn threads(&self) -> usize {
        self.resources.pool.threads()
    }

    /// What was prepared last, stage by stage, each with the name and kind of what the host runs behind it.
    pub(crate) fn host_parts(&self) -> impl Iterator<Item = (Option<&Engine>, Vec<(String, &'static str)>)> {
        let staged = self.staged.iter().flat_map(Staged::host_parts);
        let whole = if self.staged.is_none() { self.plans.last() } else { None };
        whole.map(|engine| (Some(engine), Vec::new())).into_iter().chain(staged)
    }

    /// Whether extents depend on data, so that not every output's shape is known before a run.
    pub fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// Sets of input shapes that programs are kept for; of the stage with most, if there are stages.
    pub fn plans(&self) -> usize {
        self.staged.as_ref().map_or(self.plans.len(), Staged::plans)
    }

    /// Compiles for these input shapes unless that is done, as far as they decide what to compile; a later run with them
    /// starts at once.
    ///
    /// Gives the outputs' types and extents, `None` where those depend on data.
    pub fn prepare(&mut self, shapes: &[Shape]) -> Result<Vec<Option<(DType, Shape)>>, Error> {
        self.model().check_count("number of input shapes", shapes.len())?;
        if let Some(staged) = &mut self.staged {
            return staged.prepare(shapes, &mut self.resources);
        }
        let (_, engine) = self.engine(shapes)?;
        Ok(engine.outputs().iter().map(|io| Some((io.dtype, io.shape))).collect())
    }

    /// What runs for these input shapes: the whole model, or its core on the device; the stages that are compiled, as they
    /// were used last, if there are stages.
    pub fn programs(&mut self, shapes: &[Shape]) -> Result<Vec<&Program>, Error> {
        self.prepare(shapes)?;
        Ok(match &self.staged {
            Some(staged) => staged.programs(),
            None => self.plans.last().map(Engine::program).into_iter().collect(),
        })
    }

    /// The core of the model on the device for these input shapes, unless all of it runs on the host. Of several stages,
    /// the first with a core.
    pub fn deployment(&mut self, shapes: &[Shape]) -> Result<Option<&Deployment>, Error> {
        self.prepare(shapes)?;
        Ok(match &self.staged {
            Some(staged) => staged.deployment(),
            None => self.plans.last().and_then(Engine::deployment),
        })
    }

    /// Runs the model on inputs in the order of [`Self::inputs`].
    ///
    /// Another thread can stop a run with a [`CancelToken`] that it is made under: it looks at it every few milliseconds, also
    /// inside of an operator, and gives [`triune_device::Error::Cancelled`]. The next run is as if there had been none.
    ///
    /// ```no_run
    /// use std::{path::Path, thread, time::Duration};
    /// use triune_runtime::{CancelToken, Error, Session, SessionOptions, Tensor, TensorRef};
    ///
    /// fn run_for_a_second(session: &mut Session, inputs: &[TensorRef<'_>]) -> Result<Vec<Tensor>, Error> {
    ///     let token = CancelToken::new();
    ///     let stopper = token.clone();
    ///     thread::spawn(move || {
    ///         thread::sleep(Duration::from_secs(1));
    ///         stopper.cancel();
    ///     });
    ///     token.during(|| session.run(inputs))
    /// }
    /// ```
    ///
    /// A model that takes more operations than a run may ([`triune_device::work::set_limit`]) is refused when it is compiled
    /// for the inputs' shapes.
    ///
    /// A model that takes or gives sequences or optionals is run by [`Self::run_values`].
    pub fn run(&mut self, inputs: &[TensorRef<'_>]) -> Result<Vec<Tensor>, Error> {
        let results = self.run_into(inputs, &mut [])?;
        Ok(results.into_iter().flatten().collect())
    }

    /// The same with results that are written where the caller has memory for them, in the order of [`Self::outputs`]; those
    /// without any, and behind the end of `into`, are given back.
    ///
    /// A result whose extents depend on data is copied there. Nothing is written unless all of it fits, except where extents
    /// depend on data.
    ///
    /// # Errors
    /// As [`Self::run`]; [`Error::Operand`] for memory of another type, shape or size than the result's.
    pub fn run_into(
        &mut self,
        inputs: &[TensorRef<'_>],
        into: &mut [Option<TensorMut<'_>>],
    ) -> Result<Vec<Option<Tensor>>, Error> {
        let inputs: Vec<_> = inputs.iter().copied().map(ValueRef::Tensor).collect();
        let results = self.run_values(&inputs, into)?;
        let tensor = |(value, info): (Option<Value>, &ValueInfo)| match value {
            None => Ok(None),
            Some(Value::Tensor(tensor)) => Ok(Some(tensor)),
            Some(Value::Sequence(_) | Value::Strings(_) | Value::Map(_) | Value::Nothing) => {
                Err(no_tensor(info))
            }
        };
        results.into_iter().zip(self.outputs()).map(tensor).collect()
    }

    /// As [`Self::run_into`], for models whose inputs and outputs are not all tensors: those that are sequences are lists of
    /// tensors of one element type, and optionals can be nothing.
    pub fn run_values(
        &mut self,
        inputs: &[ValueRef<'_>],
        into: &mut [Option<TensorMut<'_>>],
    ) -> Result<Vec<Option<Value>>, Error> {
        self.model().check_count("number of inputs", inputs.len())?;
        let mut shapes = Vec::with_capacity(inputs.len());
        for (info, input) in self.inputs().iter().zip(inputs) {
            shapes.push(info.check_value(*input)?);
        }
        for (info, into) in self.outputs().iter().zip(&*into) {
            if into.is_some() && (info.kind == ValueKind::Strings || info.kind.is_map()) {
                return Err(no_tensor(info));
            }
        }
        // What the last run has added is nobody's any more.
        let own = self.model().graph.strings.len();
        self.resources.strings.truncate(own);
        let (mut numbered, mut mapped) = (Vec::new(), Vec::new());
        for input in inputs {
            match input {
                ValueRef::Strings(strings) => numbered.push(strings.numbers(&mut self.resources.strings)?),
                ValueRef::Map(map) => mapped.push(map.numbers(&mut self.resources.strings)?),
                _ => {}
            }
        }
        let (mut numbers, mut maps) = (numbered.iter(), mapped.iter());
        let mut tensors = Vec::with_capacity(inputs.len());
        for input in inputs {
            tensors.push(match input {
                ValueRef::Strings(_) => {
                    numbers.next().map_or(ValueRef::Nothing, |own| ValueRef::Tensor(own.view()))
                }
                ValueRef::Map(_) => maps.next().map_or(ValueRef::Nothing, |own| ValueRef::Sequence(own)),
                other => *other,
            });
        }
        let mut results = self.run_numbers(&shapes, &tensors, into)?;
        for (info, result) in self.outputs().iter().zip(&mut results) {
            if info.kind == ValueKind::Strings
                && let Some(Value::Tensor(numbers)) = result
            {
                *result = Some(Value::Strings(StringTensor::of(numbers, &self.resources.strings)?));
            }
            if let ValueKind::Map(map) | ValueKind::Maps(map) = info.kind
                && let Some(Value::Sequence(parts)) = result
            {
                let parts = std::mem::take(parts);
                *result = Some(Value::Map(Maps::of(parts, map, &self.resources.strings)?));
            }
        }
        Ok(results)
    }

    /// As [`Self::run_values`] for inputs that are checked and of numbers.
    fn run_numbers(
        &mut self,
        shapes: &[Shape],
        inputs: &[ValueRef<'_>],
        into: &mut [Option<TensorMut<'_>>],
    ) -> Result<Vec<Option<Value>>, Error> {
        let model = Arc::clone(self.model());
        if let Some(staged) = &mut self.staged {
            let mut results: Vec<_> =
                staged.run(shapes, inputs, &mut self.resources)?.into_iter().map(Some).collect();
            model.check_results(results.iter().map(|result| match result {
                Some(Value::Tensor(tensor)) => Some(tensor.dtype),
                _ => None,
            }))?;
            for ((info, result), into) in model.outputs().iter().zip(&mut results).zip(into) {
                let Some(into) = into else { continue };
                let Some(Value::Tensor(found)) = &result else { return Err(no_tensor(info)) };
                into.check(&info.name, found.dtype, &found.shape)?;
                into.bytes.copy_from_slice(&found.bytes);
                *result = None;
            }
            return Ok(results);
        }
        let tensors = inputs.iter().filter_map(|input| match input {
            ValueRef::Tensor(tensor) => Some(*tensor),
            _ => None,
        });
        let tensors: Vec<_> = tensors.collect();
        let (resources, engine) = self.engine(shapes)?;
        let mut results = Vec::with_capacity(engine.outputs().len());
        for (index, (info, io)) in model.outputs().iter().zip(engine.outputs()).enumerate() {
            results.push(match into.get(index) {
                Some(Some(into)) => {
                    into.check(&info.name, io.dtype, &io.shape)?;
                    None
                }
                _ => Some(Tensor::zeros(io.dtype, io.shape)?),
            });
        }
        let mut made = Results { own: results, into };
        engine.run(resources, &Operands(&tensors), &mut made)?;
        Ok(made.own.into_iter().map(|tensor| tensor.map(Value::Tensor)).collect())
    }

    /// The same with the inputs by name, in any order.
    ///
    /// ```no_run
    /// # use std::path::Path;
    /// # use triune_runtime::{Error, Session, SessionOptions, TensorRef};
    /// # fn main() -> Result<(), Error> {
    /// let mut session = Session::open(Path::new("classifier.onnx"), &SessionOptions::default())?;
    /// let pixels = vec![0.0f32; 3 * 224 * 224];
    /// let outputs = session.run_named(&[("image", TensorRef::of(&pixels, &[1, 3, 224, 224]))])?;
    /// let scores: &[f32] = outputs[0].as_slice()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::run`]; [`Error::Operand`] for a name that is missing, given twice, or not of an input.
    pub fn run_named(&mut self, inputs: &[(&str, TensorRef<'_>)]) -> Result<Vec<Tensor>, Error> {
        self.model().check_count("number of inputs", inputs.len())?;
        let mut ordered = Vec::with_capacity(inputs.len());
        for info in self.inputs() {
            let mut given = inputs.iter().filter(|(name, _)| *name == info.name);
            let one = |got: &str| Error::Operand {
                what: format!("input '{}'", info.name),
                expected: "one tensor".into(),
                got: got.into(),
            };
            let (_, tensor) = given.next().ok_or_else(|| one("none"))?;
            if given.next().is_some() {
                return Err(one("several"));
            }
            ordered.push(*tensor);
        }
        self.run(&ordered)
    }

    /// Runs on inputs of these shapes and into outputs of those that they give, all dense and row-major. Allocates
    /// nothing once it is prepared.
    ///
    /// A model whose extents depend on data is refused: [`Self::run`] gives its results.
    pub fn run_border(
        &mut self,
        shapes: &[Shape],
        inputs: &dyn Inputs,
        outputs: &mut dyn Outputs,
    ) -> Result<(), Error> {
        if self.is_staged() {
            return Err(Error::argument("the outputs' extents depend on data"));
        }
        let mut infos = self.inputs().iter().chain(self.outputs());
        if let Some(info) = infos.find(|info| info.kind == ValueKind::Strings) {
            return Err(Error::argument(format!("'{}' is of strings, which are no elements", info.name)));
        }
        let (resources, engine) = self.engine(shapes)?;
        engine.run(resources, inputs, outputs)
    }

    /// Starts or stops taking the time of every operator of a run. It costs some dozen nanoseconds per command.
    pub fn profile(&mut self, enable: bool) {
        self.resources.profiled = enable;
    }

    /// What the operators of the last run took, in execution order; nothing unless [`Self::profile`] was asked for before.
    ///
    /// An operator that only changes how its operand is seen costs nothing and is left out. What ran on a device is one
    /// entry, with the device's name and [`OperatorTime::DEVICE`] for an operator: the time that simulating it took.
    pub fn operator_times(&self) -> Vec<OperatorTime> {
        if !self.resources.profiled {
            return Vec::new();
        }
        match &self.staged {
            Some(staged) => staged.operator_times(),
            None => self.plans.last().map(Engine::operator_times).unwrap_or_default(),
        }
    }

    /// The operators of the last run as they ran, fused, and what they worked on; those between stages only if
    /// [`Self::profile`] was asked for before. Nothing before the input shapes are known.
    pub fn outline(&self) -> Outline {
        match &self.staged {
            Some(staged) => staged.outline(),
            None => self.plans.last().map(Engine::outline).unwrap_or_default(),
        }
    }

    /// The model's own operators, none fused, and of what they work on that of which the file says type and extents.
    pub fn own_outline(&self) -> Outline {
        Outline::of(&self.model().graph)
    }

    /// Numbers that operators themselves have of what was learned, such as those of trees, and their bytes; constants are apart.
    pub fn held(&self) -> [u64; 2] {
        let own = self.model().graph.nodes.iter().filter_map(|node| match &node.op {
            Op::Hosted(op) => Some(op.held()),
            _ => None,
        });
        own.fold([0; 2], |[count, bytes], [more, size]| [count + more, bytes + size])
    }

    /// Every value of the model, in the order in which its operators make them, inputs first: the model's own operators,
    /// none fused.
    ///
    /// The first call, and one with other shapes, compiles programs for it, which are kept with weights of their own.
    pub fn trace(&mut self, inputs: &[TensorRef<'_>]) -> Result<Vec<Variable>, Error> {
        let model = Arc::clone(self.model());
        let graph = &model.graph;
        self.model().check_count("number of inputs", inputs.len())?;
        let mut shapes = Vec::with_capacity(inputs.len());
        for (info, input) in self.inputs().iter().zip(inputs) {
            shapes.push(info.check(input)?);
        }
        let mut variables: Vec<Variable> = self
            .inputs()
            .iter()
            .zip(inputs)
            .zip(&shapes)
            .map(|((info, input), shape)| {
                let value = Tensor { dtype: input.dtype, shape: *shape, bytes: input.bytes.to_vec() };
                Variable { name: info.name.clone(), operator: "Input", operands: Vec::new(), value }
            })
            .collect();
        let mut seen: HashSet<ValueId> = graph.inputs.iter().copied().collect();
        let mut made: Vec<(ValueId, Variable)> = Vec::new();
        for node in &graph.nodes {
            for &id in node.outputs.iter().flatten().filter(|id| seen.insert(**id)) {
                let name = |id: &ValueId| graph.value(*id).name.clone();
                let value = Tensor { dtype: DType::F32, shape: Shape::from([]), bytes: Vec::new() };
                let operands = node.inputs.iter().flatten().map(name).collect();
                made.push((id, Variable { name: name(&id), operator: node.op.name(), operands, value }));
            }
        }
        let options = SessionOptions {
            threads: self.resources.pool.threads(),
            fusion: false,
            ..SessionOptions::default()
        };
        for (index, part) in made.chunks_mut(Self::TRACED).enumerate() {
            if self.tracers.len() == index {
                let mut graph = graph.clone();
                graph.outputs = part.iter().map(|(id, _)| *id).collect();
                self.tracers.push(Self::of(Model::new(graph), &options)?);
            }
            for ((_, variable), value) in part.iter_mut().zip(self.tracers[index].run(inputs)?) {
                variable.value = value;
            }
        }
        variables.extend(made.into_iter().map(|(_, variable)| variable));
        Ok(variables)
    }

    /// What runs for these shapes, compiled unless it is kept, and what its runs need besides.
    fn engine(&mut self, shapes: &[Shape]) -> Result<(&mut Resources, &mut Engine), Error> {
        let Self { resources, plans, .. } = self;
        let engine = plans.serving(
            |own| own == shapes,
            || {
                resources.model.check_count("number of input shapes", shapes.len())?;
                let engine = Engine::new(resources.model.bound(shapes)?, resources, false)?;
                resources.model.check_results(engine.outputs().iter().map(|io| Some(io.dtype)))?;
                Ok((shapes.to_vec(), engine))
            },
        )?;
        Ok((resources, engine))
    }
}

/// The error for an output that a caller takes for a tensor.
fn no_tensor(info: &ValueInfo) -> Error {
    Error::Operand {
        what: format!("output '{}'", info.name),
        expected: "a tensor".into(),
        got: "a sequence, strings, maps, or nothing".into(),
    }
}

impl TensorMut<'_> {
    /// Checks that a result fits.
    fn check(&self, name: &str, dtype: DType, shape: &Shape) -> Result<(), Error> {
        let fail = |expected: String, got: String| Error::Operand {
            what: format!("out for '{name}'"),
            expected,
            got,
        };
        if self.dtype != dtype {
            return Err(fail(dtype.to_string(), self.dtype.to_string()));
        }
        if *self.shape != **shape {
            let extents: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
            return Err(fail(format!("shape {shape}"), format!("({})", extents.join(", "))));
        }
        let bytes = shape.iter().product::<usize>() * dtype.bytes();
        if bytes != self.bytes.len() {
            return Err(fail(format!("{bytes} bytes"), format!("{} bytes", self.bytes.len())));
        }
        Ok(())
    }
}

impl ValueInfo {
    /// Checks an operand against this and gives its shape; what is no tensor has none.
    fn check_value(&self, input: ValueRef<'_>) -> Result<Shape, Error> {
        let fail = |expected: &str, got: String| Error::Operand {
            what: format!("input '{}'", self.name),
            expected: expected.into(),
            got,
        };
        let none = Shape::from([]);
        match (self.kind, input) {
            (ValueKind::Tensor, ValueRef::Tensor(tensor)) => self.check(&tensor),
            (ValueKind::Strings, ValueRef::Strings(strings)) => self.check_strings(strings),
            (ValueKind::Map(map), ValueRef::Map(given)) => {
                self.check_map(map, given)?;
                Ok(none)
            }
            (ValueKind::Optional, ValueRef::Tensor(tensor)) if tensor.dtype == self.dtype => Ok(none),
            (ValueKind::Optional | ValueKind::OptionalSequence, ValueRef::Nothing) => Ok(none),
            (ValueKind::Sequence | ValueKind::OptionalSequence, ValueRef::Sequence(list)) => {
                match list.iter().find(|tensor| tensor.dtype != self.dtype) {
                    None => Ok(none),
                    Some(other) => Err(fail(self.dtype.name(), other.dtype.to_string())),
                }
            }
            (kind, input) => Err(fail(
                kind.name(),
                match input {
                    ValueRef::Tensor(tensor) => format!("a tensor of {}", tensor.dtype),
                    ValueRef::Sequence(_) => "a sequence".into(),
                    ValueRef::Strings(_) => "strings".into(),
                    ValueRef::Map(_) => "a map".into(),
                    ValueRef::Nothing => "nothing".into(),
                },
            )),
        }
    }

    /// Checks a tensor against this and gives its shape.
    fn check(&self, input: &TensorRef<'_>) -> Result<Shape, Error> {
        let fail = |expected: String, got: String| Error::Operand {
            what: format!("input '{}'", self.name),
            expected,
            got,
        };
        if self.kind != ValueKind::Tensor {
            return Err(fail(self.kind.name().into(), "a tensor".into()));
        }
        if input.dtype != self.dtype {
            return Err(fail(self.dtype.to_string(), input.dtype.to_string()));
        }
        let shape = self.check_shape(input.shape)?;
        let bytes = shape.elements().and_then(|elements| elements.checked_mul(self.dtype.bytes()));
        let Some(bytes) = bytes else {
            return Err(fail("a size that fits memory".into(), format!("shape {shape}")));
        };
        if bytes != input.bytes.len() {
            return Err(fail(
                format!("{bytes} bytes for shape {shape}"),
                format!("{} bytes", input.bytes.len()),
            ));
        }
        Ok(shape)
    }

    /// Checks strings against this and gives their shape.
    fn check_strings(&self, strings: &StringTensor) -> Result<Shape, Error> {
        let shape = self.check_shape(&strings.shape)?;
        if shape.elements() == Some(strings.texts.len()) {
            return Ok(shape);
        }
        Err(Error::Operand {
            what: format!("input '{}'", self.name),
            expected: format!("strings of shape {shape}"),
            got: format!("{} strings", strings.texts.len()),
        })
    }

    /// Checks a map against this.
    fn check_map(&self, map: MapType, given: &Maps) -> Result<(), Error> {
        let (keys, values) = (given.keys.form(), given.values.form());
        let expected = [(!map.string_keys).then_some(DType::I64), (!map.string_values).then_some(self.dtype)];
        if [keys.0, values.0] == expected && keys.1 == values.1 && keys.1.rank() == 1 {
            return Ok(());
        }
        let name = |dtype: Option<DType>| dtype.map_or("strings", DType::name);
        Err(Error::Operand {
            what: format!("input '{}'", self.name),
            expected: format!("a map of {} to {}, as many", name(expected[0]), name(expected[1])),
            got: format!("{} {} and {} {}", name(keys.0), keys.1, name(values.0), values.1),
        })
    }

    /// Checks extents against this.
    fn check_shape(&self, given: &[usize]) -> Result<Shape, Error> {
        let fail = |expected: String, got: String| Error::Operand {
            what: format!("input '{}'", self.name),
            expected,
            got,
        };
        let ranked = self.dims.len() == given.len()
            && self.dims.iter().zip(given).all(|(dim, &extent)| match dim {
                Dim::Fixed(fixed) => *fixed == extent,
                Dim::Symbol(_) => true,
            });
        if let Some(shape) = Shape::new(given).filter(|_| ranked || !self.is_ranked()) {
            return Ok(shape);
        }
        if given.len() > MAX_RANK {
            let most = format!("{MAX_RANK} dimensions at most");
            return Err(fail(most, format!("{} dimensions", given.len())));
        }
        let extents: Vec<String> = given.iter().map(ToString::to_string).collect();
        Err(fail(format!("shape {}", self.shape_text()), format!("({})", extents.join(", "))))
    }

    /// The extents as text, symbols by name.
    fn shape_text(&self) -> String {
        let dims: Vec<String> = self
            .dims
            .iter()
            .map(|dim| match dim {
                Dim::Fixed(extent) => extent.to_string(),
                Dim::Symbol(symbol) => symbol.to_string(),
            })
            .collect();
        format!("({})", dims.join(", "))
    }
}
