//! Models whose extents depend on data: stages that run one after the other, each compiled for what the ones before it
//! gave. [`triune_graph::passes::stages`] says how.

mod control;
mod maps;
mod sequence;
pub(crate) mod value;

use std::{collections::HashMap, time::Instant};

use triune_compiler::OutlineBuilder;
use triune_device::work;
use triune_graph::{
    Graph, Op, ValueId,
    ops::Hosted,
    passes::{Arrival, HostOperand, HostStep, Stage},
};
use triune_tensor::{DType, Shape};

use crate::{
    Deployment, Error, Model, OperatorTime, Outline, OutlineValue, Program, Tensor, TensorRef, dynamic,
    engine::{Engine, Resources},
    plans::PlanCache,
    tensor::{Operands, Results},
};
use control::Bodies;
use value::{Value, ValueRef};

/// The stages of a model, and what is compiled of them.
#[derive(Debug)]
pub(crate) struct Staged {
    parts: Vec<Part>,
    names: Names,
    /// Places of the network's inputs, and of its outputs, where they are no constants.
    inputs: Vec<usize>,
    outputs: Vec<Option<usize>>,
    /// Input shapes that the model as a whole was found to take.
    taken: Option<Vec<Shape>>,
}

#[derive(Debug)]
struct Part {
    stage: Stage,
    /// Places of its inputs and outputs.
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    plans: PlanCache<Vec<Operand>>,
    /// The networks of each host step, once it has run.
    bodies: Vec<Bodies>,
    /// Nanoseconds of each host step of the last run, if it was profiled.
    times: Vec<u64>,
    /// What those steps worked on.
    outline: Outline,
}

/// What of an operand the compiled stage depends on.
#[derive(Debug)]
struct Operand {
    dtype: DType,
    shape: Shape,
    /// The elements, where they decide about extents.
    constant: Option<Vec<u8>>,
}

/// Places of a network's values in a [`Table`]. Rounds of a loop, which are many and short, find theirs once.
#[derive(Debug, Default)]
struct Names(HashMap<String, usize, foldhash::fast::RandomState>);

impl Names {
    /// The value's place, a new one for a name that is new.
    fn place(&mut self, name: &str) -> usize {
        if let Some(&place) = self.0.get(name) {
            return place;
        }
        let place = self.0.len();
        self.0.insert(name.into(), place);
        place
    }

    fn places<'a>(&mut self, names: impl IntoIterator<Item = &'a String>) -> Vec<usize> {
        names.into_iter().map(|name| self.place(name)).collect()
    }
}

/// A value of a run.
enum Known<'a> {
    NotYet,
    Given(ValueRef<'a>),
    Made(Value),
}

/// The values of a run by their places.
struct Table<'a> {
    names: &'a Names,
    values: Vec<Known<'a>>,
}

impl<'a> Table<'a> {
    fn new(names: &'a Names, given: impl Iterator<Item = (usize, ValueRef<'a>)>) -> Self {
        let mut values: Vec<_> = names.0.iter().map(|_| Known::NotYet).collect();
        for (place, value) in given {
            values[place] = Known::Given(value);
        }
        Self { names, values }
    }

    fn at(&self, place: usize) -> Option<ValueRef<'_>> {
        match &self.values[place] {
            Known::NotYet => None,
            Known::Given(value) => Some(*value),
            Known::Made(value) => Some(value.view()),
        }
    }

    fn tensor_at(&self, place: usize) -> Option<TensorRef<'_>> {
        match self.at(place)? {
            ValueRef::Tensor(tensor) => Some(tensor),
            ValueRef::Sequence(_) | ValueRef::Strings(_) | ValueRef::Map(_) | ValueRef::Nothing => None,
        }
    }

    fn value(&self, name: &str) -> Option<ValueRef<'_>> {
        self.at(*self.names.0.get(name)?)
    }

    fn get(&self, name: &str) -> Option<TensorRef<'_>> {
        self.tensor_at(*self.names.0.get(name)?)
    }

    fn outline(&self, name: &str) -> Option<OutlineValue> {
        let TensorRef { dtype, shape, .. } = self.get(name)?;
        Some(OutlineValue { name: name.into(), dtype, shape: Shape::new(shape)?, constant: false })
    }

    fn arrival(&self, name: &str) -> Option<Arrival<'_>> {
        self.get(name).map(|TensorRef { dtype, shape, bytes }| Arrival { dtype, shape, bytes })
    }

    /// A value of a network in the end: made by a stage, given, or, without a place, known from the start. The `last` time it is
    /// asked for it need not be copied.
    fn result(
        &mut self,
        graph: &Graph,
        id: ValueId,
        place: Option<usize>,
        last: bool,
    ) -> Result<Value, Error> {
        let value = graph.value(id);
        if let Some(constant) = &value.constant {
            let bytes = constant.bytes().to_vec();
            return Ok(Value::Tensor(Tensor { dtype: constant.dtype(), shape: constant.shape(), bytes }));
        }
        let known = place.map(|place| &mut self.values[place]);
        match known {
            Some(made @ Known::Made(_)) if last => {
                if let Known::Made(value) = std::mem::replace(made, Known::NotYet) {
                    return Ok(value);
                }
            }
            Some(Known::Made(value)) => return value.view().to_owned(),
            Some(Known::Given(value)) => return value.to_owned(),
            Some(Known::NotYet) | None => {}
        }
        Err(Error::internal(format!("no stage makes the output '{}'", value.name)))
    }
}

/// Runs a host step on what there is.
fn step<'a>(
    step: &'a HostStep,
    bodies: &mut Bodies,
    table: &Table<'_>,
    resources: &mut Resources,
) -> Result<Vec<(&'a str, Value)>, Error> {
    let results = match &step.op {
        Op::Hosted(op @ (Hosted::If(_) | Hosted::Loop(_) | Hosted::Scan(_) | Hosted::Map(_))) => {
            control::run(step, op, bodies, table, resources)?
        }
        Op::Hosted(Hosted::Sequence(op)) => vec![sequence::run(step, *op, table)?],
        Op::Hosted(Hosted::Strings(op)) => {
            let results = dynamic::strings::run(step, op, &mut resources.strings, |name| table.get(name))?;
            results.into_iter().map(Value::Tensor).collect()
        }
        Op::Hosted(Hosted::Maps(op)) => vec![maps::run(step, op, table, &mut resources.strings)?],
        Op::Hosted(Hosted::SupportVectors(op)) => {
            let results = dynamic::vectors::run(step, op, &resources.pool, |name| table.get(name))?;
            results.into_iter().map(Value::Tensor).collect()
        }
        Op::Hosted(Hosted::Trees(op)) => {
            let results = dynamic::trees::run(step, op, &resources.pool, |name| table.get(name))?;
            results.into_iter().map(Value::Tensor).collect()
        }
        _ => {
            let results = dynamic::run(step, |name| table.get(name))?;
            return Ok(results.into_iter().map(|(name, tensor)| (name, tensor.into())).collect());
        }
    };
    let named = step.outputs.iter().zip(results);
    Ok(named.filter_map(|(name, value)| Some((name.as_deref()?, value))).collect())
}

/// Compiles the stage for what has arrived, unless that is done.
fn plan<'p>(
    stage: &Stage,
    places: &[usize],
    plans: &'p mut PlanCache<Vec<Operand>>,
    table: &Table<'_>,
    resources: &mut Resources,
) -> Result<&'p mut Engine, Error> {
    plans.serving(
        |operands| serves(operands, places, table),
        || {
            let graph = stage.bind(|name| table.arrival(name))?;
            let operand = |name: &String| {
                let tensor = table.get(name)?;
                let constant = stage.constants.contains(name).then(|| tensor.bytes.to_vec());
                Some(Operand { dtype: tensor.dtype, shape: Shape::new(tensor.shape)?, constant })
            };
            let operands = stage.inputs.iter().filter_map(operand).collect();
            Ok((operands, Engine::new(graph, resources, true)?))
        },
    )
}

impl Part {
    fn plan(&mut self, table: &Table<'_>, resources: &mut Resources) -> Result<&mut Engine, Error> {
        plan(&self.stage, &self.inputs, &mut self.plans, table, resources)
    }

    fn run<'a>(&'a mut self, table: &mut Table<'a>, resources: &mut Resources) -> Result<(), Error> {
        if !self.stage.outputs.is_empty() {
            let stage = &self.stage;
            let engine = plan(stage, &self.inputs, &mut self.plans, table, resources)?;
            let outputs = engine.outputs().iter();
            let results = outputs.map(|io| Tensor::zeros(io.dtype, io.shape).map(Some));
            let results = results.collect::<Result<_, _>>()?;
            let named = stage.inputs.iter().zip(&self.inputs);
            let open = named.filter(|(name, _)| !stage.constants.contains(*name));
            let inputs: Vec<TensorRef<'_>> = open.filter_map(|(_, &place)| table.tensor_at(place)).collect();
            let mut made = Results { own: results, into: &mut [] };
            engine.run(resources, &Operands(&inputs), &mut made)?;
            let results = made.own.into_iter().flatten().map(Value::Tensor);
            for (&place, result) in self.outputs.iter().zip(results) {
                table.values[place] = Known::Made(result);
            }
        }
        if self.stage.host.is_empty() {
            return Ok(());
        }
        self.times.clear();
        let mut outline = OutlineBuilder::default();
        for (step, bodies) in self.stage.host.iter().zip(&mut self.bodies) {
            work::go_on()?;
            let start = Instant::now();
            let results = self::step(step, bodies, table, resources)?;
            for (name, result) in results {
                let place = table.names.0.get(name);
                let place = *place.ok_or_else(|| Error::internal(format!("'{name}' has no place")))?;
                table.values[place] = Known::Made(result);
            }
            if resources.profiled {
                self.times.push(start.elapsed().as_nanos() as u64);
                let operand = |operand: &HostOperand| match operand {
                    HostOperand::Value(name) => table.outline(name),
                    HostOperand::Constant(_) => None,
                };
                let inputs: Vec<_> = step.inputs.iter().flatten().filter_map(operand).collect();
                let outputs = step.outputs.iter().flatten();
                let outputs: Vec<_> = outputs.filter_map(|name| table.outline(name)).collect();
                outline.add(&step.name, step.op.name(), &inputs, &outputs);
            }
        }
        self.outline = outline.finish();
        Ok(())
    }

    /// What ran last.
    fn engine(&self) -> Option<&Engine> {
        self.plans.last()
    }

    fn operator_times(&self) -> Vec<OperatorTime> {
        let mut times = self.engine().map(Engine::operator_times).unwrap_or_default();
        let step = |(step, &nanos): (&HostStep, &u64)| OperatorTime {
            name: step.name.clone(),
            kind: step.op.name().into(),
            nanos,
        };
        times.extend(self.stage.host.iter().zip(&self.times).map(step));
        times
    }
}

/// Whether a stage that was compiled for these operands serves for what has arrived.
fn serves(operands: &[Operand], places: &[usize], table: &Table<'_>) -> bool {
    places.len() == operands.len()
        && places.iter().zip(operands).all(|(&place, operand)| {
            table.tensor_at(place).is_some_and(|tensor| {
                tensor.dtype == operand.dtype
                    && *tensor.shape == *operand.shape
                    && operand.constant.as_deref().is_none_or(|constant| constant == tensor.bytes)
            })
        })
}

impl Staged {
    /// The stages of a network.
    pub(crate) fn new(stages: Vec<Stage>, graph: &Graph) -> Self {
        let mut names = Names::default();
        let inputs = graph.inputs.iter().map(|&id| names.place(&graph.value(id).name)).collect();
        let mut parts = Vec::with_capacity(stages.len());
        for stage in stages {
            for step in &stage.host {
                for operand in step.inputs.iter().flatten() {
                    if let HostOperand::Value(name) = operand {
                        names.place(name);
                    }
                }
                names.places(step.outputs.iter().flatten());
            }
            parts.push(Part {
                bodies: stage.host.iter().map(|_| Bodies::default()).collect(),
                inputs: names.places(&stage.inputs),
                outputs: names.places(&stage.outputs),
                stage,
                plans: PlanCache::default(),
                times: Vec::new(),
                outline: Outline::default(),
            });
        }
        let output = |&id: &ValueId| {
            let value = graph.value(id);
            value.constant.is_none().then(|| names.place(&value.name))
        };
        let outputs = graph.outputs.iter().map(output).collect();
        Self { parts, names, inputs, outputs, taken: None }
    }

    /// Most compiled forms that a stage has.
    pub(crate) fn plans(&self) -> usize {
        self.parts.iter().map(|part| part.plans.len()).max().unwrap_or(0)
    }

    /// Refuses shapes that the model as a whole does not take.
    fn check(&mut self, shapes: &[Shape], model: &Model) -> Result<(), Error> {
        if self.taken.as_deref() != Some(shapes) {
            model.bound(shapes)?;
            self.taken = Some(shapes.to_vec());
        }
        Ok(())
    }

    /// Compiles the first stage, the only one whose extents the inputs' shapes alone decide.
    ///
    /// Gives the outputs' types and extents, `None` where those depend on data.
    pub(crate) fn prepare(
        &mut self,
        shapes: &[Shape],
        resources: &mut Resources,
    ) -> Result<Vec<Option<(DType, Shape)>>, Error> {
        let model = resources.model.clone();
        self.check(shapes, &model)?;
        let given = model.inputs().iter().zip(shapes).zip(&self.inputs);
        let given = given.filter(|((info, _), _)| info.kind.is_tensor()).map(|((info, shape), &place)| {
            // The first stage knows no elements.
            (place, ValueRef::Tensor(TensorRef { dtype: info.dtype, shape, bytes: &[] }))
        });
        let table = Table::new(&self.names, given);
        let mut first = HashMap::new();
        if let Some(part) = self.parts.first_mut().filter(|part| !part.stage.outputs.is_empty()) {
            let engine = part.plan(&table, resources)?;
            let ios: Vec<_> = engine.outputs().iter().map(|io| (io.dtype, io.shape)).collect();
            first.extend(part.stage.outputs.iter().cloned().zip(ios));
        }
        let output = |&id: &ValueId| {
            let value = model.graph.value(id);
            match &value.constant {
                Some(constant) => Some((constant.dtype(), constant.shape())),
                None => first.get(&value.name).copied().or_else(|| {
                    let input = table.get(&value.name)?;
                    Some((input.dtype, Shape::new(input.shape)?))
                }),
            }
        };
        Ok(model.graph.outputs.iter().map(output).collect())
    }

    /// Runs all stages on inputs of these shapes.
    pub(crate) fn run(
        &mut self,
        shapes: &[Shape],
        inputs: &[ValueRef<'_>],
        resources: &mut Resources,
    ) -> Result<Vec<Value>, Error> {
        let model = resources.model.clone();
        self.check(shapes, &model)?;
        resources.rounds_left = control::rounds()?;
        self.flow(&model.graph, inputs.iter().copied(), resources)
    }

    /// Runs all stages of a network on its inputs, in order; gives its results.
    fn flow<'a>(
        &'a mut self,
        graph: &Graph,
        inputs: impl Iterator<Item = ValueRef<'a>>,
        resources: &mut Resources,
    ) -> Result<Vec<Value>, Error> {
        let mut table = Table::new(&self.names, self.inputs.iter().copied().zip(inputs));
        for part in &mut self.parts {
            part.run(&mut table, resources)?;
        }
        let outputs = graph.outputs.iter().zip(&self.outputs).enumerate();
        outputs
            .map(|(index, (id, place))| {
                table.result(graph, *id, *place, !graph.outputs[index + 1..].contains(id))
            })
            .collect()
    }

    /// What the stages run that are compiled, in order, each as it was used last.
    fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.parts.iter().filter_map(Part::engine)
    }

    /// Each stage's engine, if it is compiled, and the name and kind of what the host runs behind it.
    pub(crate) fn host_parts(&self) -> impl Iterator<Item = (Option<&Engine>, Vec<(String, &'static str)>)> {
        self.parts.iter().map(|part| {
            let hosted = part.stage.host.iter().map(|step| (step.name.clone(), step.op.name()));
            (part.engine(), hosted.collect())
        })
    }

    pub(crate) fn programs(&self) -> Vec<&Program> {
        self.engines().map(Engine::program).collect()
    }

    pub(crate) fn deployment(&self) -> Option<&Deployment> {
        self.engines().find_map(Engine::deployment)
    }

    /// The operators of the last run, those between stages if it was profiled.
    pub(crate) fn outline(&self) -> Outline {
        let mut outline = OutlineBuilder::default();
        for part in &self.parts {
            if let Some(engine) = part.engine() {
                outline.append(&engine.outline());
            }
            outline.append(&part.outline);
        }
        outline.finish()
    }

    pub(crate) fn operator_times(&self) -> Vec<OperatorTime> {
        self.parts.iter().flat_map(Part::operator_times).collect()
    }
}
