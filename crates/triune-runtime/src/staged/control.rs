//! Operators with networks of their own: one of two, one again and again, one along axes.

use std::borrow::Cow;

use triune_device::work;
use triune_graph::{
    Dim, ValueId,
    ops::{Body, Hosted, If, Loop, Map, Scan, ScanAxis},
    passes::{HostStep, body_stages},
};
use triune_tensor::{DType, Shape, memory, text::List};

use super::{
    Staged, Table,
    value::{Strip, Value, ValueRef, join, own},
};
use crate::{
    Error, Tensor, TensorRef,
    dynamic::{self, unsupported, wrong},
    engine::Resources,
};

/// The networks of a step, in the operator's order, each once it has run.
pub(super) type Bodies = [Option<Box<Staged>>; 2];

/// Operations that a round counts at least, what it takes besides its network included (see [`work::limit`]).
const ROUND: u64 = 100_000;

/// How often networks within networks may run in a run.
pub(super) fn rounds() -> Result<u64, Error> {
    Ok(work::limit()? / ROUND)
}

/// Runs the step; gives its results in order.
pub(super) fn run(
    step: &HostStep,
    op: &Hosted,
    bodies: &mut Bodies,
    table: &Table<'_>,
    resources: &mut Resources,
) -> Result<Vec<Value>, Error> {
    let operands = dynamic::operands(step, ValueRef::Tensor, |name| table.value(name))?;
    let mut at = At { step, operands: &operands, resources };
    match op {
        Hosted::If(op) => at.choose(op, bodies),
        Hosted::Loop(op) => at.repeat(op, &mut bodies[0]),
        Hosted::Scan(op) => at.scan(op, &mut bodies[0]),
        Hosted::Map(op) => at.map(op, &mut bodies[0]),
        _ => Err(unsupported(step, "it has no networks of its own")),
    }
}

/// A step on its way.
struct At<'a> {
    step: &'a HostStep,
    operands: &'a [Option<ValueRef<'a>>],
    resources: &'a mut Resources,
}

impl<'a> At<'a> {
    fn wrong(&self, reason: impl Into<String>) -> Error {
        wrong(self.step, reason)
    }

    fn operand(&self, index: usize) -> Option<ValueRef<'a>> {
        self.operands.get(index).copied().flatten()
    }

    /// The values of operands; one that is left out is nothing.
    fn values(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        let operands = self.operands.get(range).unwrap_or_default();
        operands.iter().map(|operand| operand.unwrap_or(ValueRef::Nothing))
    }

    fn tensor(&self, index: usize) -> Result<TensorRef<'a>, Error> {
        match self.operand(index) {
            Some(ValueRef::Tensor(tensor)) => Ok(tensor),
            _ => Err(self.wrong(format!("operand {index} is not a tensor"))),
        }
    }

    /// The one element of a boolean.
    fn truth(&self, what: &str, value: ValueRef<'_>) -> Result<bool, Error> {
        match value {
            ValueRef::Tensor(TensorRef { dtype: DType::Bool, bytes: [byte], .. }) => Ok(*byte != 0),
            ValueRef::Tensor(TensorRef { dtype, shape, .. }) => {
                Err(self.wrong(format!("{what} is {dtype} {}, not one bool", List(shape))))
            }
            ValueRef::Sequence(_) | ValueRef::Strings(_) | ValueRef::Map(_) | ValueRef::Nothing => {
                Err(self.wrong(format!("{what} is not a tensor")))
            }
        }
    }

    /// Runs a network on the inputs that the operator gives it and those that it sees, the operands from `captures` on.
    fn body(
        &mut self,
        body: &Body,
        staged: &mut Option<Box<Staged>>,
        given: &[ValueRef<'_>],
        captures: usize,
    ) -> Result<Vec<Value>, Error> {
        work::go_on()?;
        let Some(left) = self.resources.rounds_left.checked_sub(1) else {
            return Err(self.wrong(format!(
                "its network and others have run {} times in this run; a higher limit of work ({}, or triune.set_work_limit) would let them go on",
                rounds()?,
                work::VARIABLE
            )));
        };
        self.resources.rounds_left = left;
        let graph = &*body.graph;
        let staged = match staged {
            Some(staged) => staged,
            None => staged.insert(Box::new(Staged::new(body_stages(graph)?, graph))),
        };
        let seen = self.values(captures..captures + body.captures);
        staged.flow(graph, given.iter().copied().chain(seen), self.resources)
    }

    fn choose(&mut self, op: &If, bodies: &mut Bodies) -> Result<Vec<Value>, Error> {
        let condition = self.operand(0).unwrap_or(ValueRef::Nothing);
        let [then, otherwise] = bodies;
        if self.truth("the condition", condition)? {
            self.body(&op.then, then, &[], 1)
        } else {
            self.body(&op.otherwise, otherwise, &[], 1 + op.then.captures)
        }
    }

    fn repeat(&mut self, op: &Loop, staged: &mut Option<Box<Staged>>) -> Result<Vec<Value>, Error> {
        let rounds = match self.operand(0) {
            None => i64::MAX,
            Some(ValueRef::Tensor(TensorRef { dtype: DType::I64, bytes, .. })) if bytes.len() == 8 => {
                bytes.as_chunks().0.first().map_or(0, |&word| i64::from_le_bytes(word))
            }
            Some(_) => return Err(self.wrong("the number of rounds is not one int64")),
        };
        let mut goes_on = match self.operand(1) {
            None => true,
            Some(condition) => self.truth("the condition", condition)?,
        };
        let captures = self.operands.len() - op.body.captures;
        let given: Vec<_> = self.values(2..captures).collect();
        let states = given.len();
        let mut state = given.into_iter().map(ValueRef::to_owned).collect::<Result<Vec<_>, _>>()?;
        let mut collected = Collected::new(&op.body, 1 + states);
        // Files declare them as scalars or as lists of one.
        let counter = |rank: Option<usize>| if rank == Some(1) { &[1][..] } else { &[] };
        let [round_shape, condition_shape] = [0, 1].map(|index| counter(op.body.ranks[index]));
        let mut round = 0;
        while goes_on && round < rounds {
            let (number, holds) = (round.to_le_bytes(), [1]);
            let mut inputs = vec![
                ValueRef::Tensor(TensorRef { dtype: DType::I64, shape: round_shape, bytes: &number }),
                ValueRef::Tensor(TensorRef { dtype: DType::Bool, shape: condition_shape, bytes: &holds }),
            ];
            inputs.extend(state.iter().map(Value::view));
            let mut results = self.body(&op.body, staged, &inputs, captures)?;
            collected.add(self, results.split_off(1 + states))?;
            state = results.split_off(1);
            goes_on = self.truth("the network's first output", results[0].view())?;
            round += 1;
        }
        let axes = vec![ScanAxis::default(); collected.parts.len()];
        state.extend(collected.finish(self, &axes)?);
        Ok(state)
    }

    fn map(&mut self, op: &Map, staged: &mut Option<Box<Staged>>) -> Result<Vec<Value>, Error> {
        let captures = self.operands.len() - op.body.captures;
        let given: Vec<ValueRef<'_>> = self.values(0..captures).collect();
        let Some(ValueRef::Sequence(first)) = given.first() else {
            return Err(self.wrong("operand 0 is not a sequence"));
        };
        let mut lists = vec![Vec::new(); op.body.graph.outputs.len()];
        for index in 0..first.len() {
            let mut elements = Vec::with_capacity(given.len());
            for (operand, value) in given.iter().enumerate() {
                elements.push(match value {
                    ValueRef::Sequence(list) => ValueRef::Tensor(
                        list.get(index)
                            .ok_or_else(|| {
                                let (own, count) = (list.len(), first.len());
                                self.wrong(format!("operand {operand} has {own} elements, not {count}"))
                            })?
                            .view(),
                    ),
                    value => *value,
                });
            }
            let results = self.body(&op.body, staged, &elements, captures)?;
            for (list, result) in lists.iter_mut().zip(results) {
                match result {
                    Value::Tensor(tensor) => list.push(tensor),
                    Value::Sequence(_) | Value::Strings(_) | Value::Map(_) | Value::Nothing => {
                        return Err(self.wrong("what its network makes is not a tensor"));
                    }
                }
            }
        }
        Ok(lists.into_iter().map(Value::Sequence).collect())
    }

    fn scan(&mut self, op: &Scan, staged: &mut Option<Box<Staged>>) -> Result<Vec<Value>, Error> {
        let captures = self.operands.len() - op.body.captures;
        let first = usize::from(op.batched);
        let walked = captures - op.inputs.len();
        let mut given = Vec::with_capacity(captures);
        for index in first..captures {
            given.push(self.tensor(index)?);
        }
        if !op.batched {
            return self.walk(op, staged, &given, walked - first, None);
        }
        let batch = given.first().and_then(|tensor| tensor.shape.first()).copied().unwrap_or(0);
        let lengths = match self.operand(0) {
            None => None,
            Some(ValueRef::Tensor(TensorRef { dtype: DType::I64, bytes, .. }))
                if bytes.len() == 8 * batch =>
            {
                Some(bytes.as_chunks().0.iter().map(|&word| i64::from_le_bytes(word)).collect::<Vec<_>>())
            }
            Some(_) => return Err(self.wrong("operand 0 is not one int64 per entry of the batch")),
        };
        let mut entries: Vec<Vec<Tensor>> = Vec::new();
        for entry in 0..batch {
            let mut parts = Vec::with_capacity(given.len());
            for tensor in &given {
                parts.push(self.slice(*tensor, 0, entry)?);
            }
            let length = lengths.as_ref().map(|lengths| lengths[entry]);
            let parts: Vec<_> =
                given.iter().zip(&parts).map(|(whole, part)| seen(whole.dtype, part)).collect();
            let results = self.walk(op, staged, &parts, walked - first, length)?;
            let results = results.into_iter().map(|value| match value {
                Value::Tensor(tensor) => Ok(tensor),
                Value::Sequence(_) | Value::Strings(_) | Value::Map(_) | Value::Nothing => {
                    Err(self.wrong("a result is not a tensor"))
                }
            });
            entries.push(results.collect::<Result<_, _>>()?);
        }
        let results = entries.first().map_or(0, Vec::len);
        let stack = |index: usize| {
            let parts: Vec<Tensor> = entries.iter().map(|entry| entry[index].clone()).collect();
            join(&parts, 0, true)?.map(Value::Tensor).map_err(|reason| self.wrong(reason))
        };
        (0..results).map(stack).collect()
    }

    /// One scan: `states` states, then what is walked along, `length` positions where that is not all of them.
    fn walk(
        &mut self,
        op: &Scan,
        staged: &mut Option<Box<Staged>>,
        given: &[TensorRef<'_>],
        states: usize,
        length: Option<i64>,
    ) -> Result<Vec<Value>, Error> {
        let captures = self.operands.len() - op.body.captures;
        let (first, walked) = given.split_at(states);
        let mut axes = Vec::with_capacity(walked.len());
        let mut positions = None;
        for (tensor, along) in walked.iter().zip(&op.inputs) {
            let axis = dynamic::axis(self.step, along.axis, tensor.shape.len())?;
            let extent = tensor.shape[axis];
            if *positions.get_or_insert(extent) != extent {
                let (a, b) = (positions.unwrap_or(0), extent);
                return Err(self.wrong(format!("operands of {a} and {b} positions")));
            }
            axes.push((axis, along.reverse));
        }
        let extent = positions.unwrap_or(0);
        let positions = match length.map(usize::try_from) {
            None => extent,
            Some(Ok(length)) if length <= extent => length,
            Some(_) => return Err(self.wrong(format!("a length that is not one of 0 to {extent}"))),
        };
        let mut state =
            first.iter().map(|tensor| own(*tensor).map(Value::Tensor)).collect::<Result<Vec<_>, _>>()?;
        let mut collected = Collected::new(&op.body, states);
        for position in 0..positions {
            let mut elements = Vec::with_capacity(walked.len());
            for (tensor, &(axis, reverse)) in walked.iter().zip(&axes) {
                let index = if reverse { positions - 1 - position } else { position };
                elements.push(self.slice(*tensor, axis, index)?);
            }
            let inputs: Vec<_> = state
                .iter()
                .map(Value::view)
                .chain(
                    walked
                        .iter()
                        .zip(&elements)
                        .map(|(whole, part)| ValueRef::Tensor(seen(whole.dtype, part))),
                )
                .collect();
            let mut results = self.body(&op.body, staged, &inputs, captures)?;
            collected.add(self, results.split_off(states))?;
            state = results;
        }
        for value in collected.finish(self, &op.outputs)? {
            state.push(if positions < extent { self.filled_up(value, extent)? } else { value });
        }
        Ok(state)
    }

    /// So many positions along the first axis: zeros behind those that there are.
    fn filled_up(&self, value: Value, extent: usize) -> Result<Value, Error> {
        let Value::Tensor(part) = value else { return Ok(value) };
        let mut shape = part.shape.to_vec();
        shape.first_mut().into_iter().for_each(|first| *first = extent);
        let shape = Shape::new(&shape).ok_or_else(|| self.wrong("too many dimensions"))?;
        let size = shape.elements().and_then(|count| count.checked_mul(part.dtype.bytes()));
        let mut bytes = memory::filled(size.unwrap_or(usize::MAX), 0)?;
        bytes[..part.bytes.len()].copy_from_slice(&part.bytes);
        Ok(Tensor { shape, bytes, ..part }.into())
    }

    /// What lies at a position of an axis: extents and elements, copied where those lie in pieces.
    fn slice<'b>(
        &self,
        tensor: TensorRef<'b>,
        axis: usize,
        index: usize,
    ) -> Result<(Shape, Cow<'b, [u8]>), Error> {
        let strip = Strip::of(tensor.dtype, tensor.shape, axis).filter(|strip| index < strip.extent);
        let strip = strip.ok_or_else(|| {
            self.wrong(format!("position {index} of axis {axis} of {}", List(tensor.shape)))
        })?;
        let mut shape = Shape::new(&tensor.shape[1..]).ok_or_else(|| self.wrong("too many dimensions"))?;
        shape.dims_mut()[..axis].copy_from_slice(&tensor.shape[..axis]);
        let bytes = if strip.outer == 1 {
            Cow::Borrowed(&tensor.bytes[index * strip.inner..][..strip.inner])
        } else {
            Cow::Owned(strip.part(tensor.bytes, index, 1)?)
        };
        Ok((shape, bytes))
    }
}

/// A part of a tensor of this type.
fn seen<'a>(dtype: DType, (shape, bytes): &'a (Shape, Cow<'_, [u8]>)) -> TensorRef<'a> {
    TensorRef { dtype, shape, bytes }
}

/// What rounds give, result by result.
struct Collected<'a> {
    body: &'a Body,
    results: &'a [ValueId],
    parts: Vec<Vec<Tensor>>,
}

impl<'a> Collected<'a> {
    /// Of a network's results from `first` on.
    fn new(body: &'a Body, first: usize) -> Self {
        let results = body.graph.outputs.get(first..).unwrap_or_default();
        Self { body, results, parts: results.iter().map(|_| Vec::new()).collect() }
    }

    fn add(&mut self, at: &At<'_>, results: Vec<Value>) -> Result<(), Error> {
        for (parts, result) in self.parts.iter_mut().zip(results) {
            match result {
                Value::Tensor(tensor) => parts.push(tensor),
                Value::Sequence(_) | Value::Strings(_) | Value::Map(_) | Value::Nothing => {
                    return Err(at.wrong("what is collected from its network is not a tensor"));
                }
            }
        }
        Ok(())
    }

    fn finish(self, at: &At<'_>, axes: &[ScanAxis]) -> Result<Vec<Value>, Error> {
        let mut whole = Vec::with_capacity(self.parts.len());
        for ((mut parts, along), id) in self.parts.into_iter().zip(axes).zip(self.results) {
            let value = self.body.graph.value(*id);
            let Some(first) = parts.first() else {
                // Nothing ran: what the file declares is all there is to know, and open extents are 0.
                let declared = value.shape.as_deref().unwrap_or_default();
                let fixed = |dim: &Dim| if let Dim::Fixed(extent) = dim { *extent } else { 0 };
                let mut shape: Vec<usize> = declared.iter().map(fixed).collect();
                shape.insert(dynamic::axis(at.step, along.axis, shape.len() + 1)?, 0);
                let shape = Shape::new(&shape).ok_or_else(|| at.wrong("too many dimensions"))?;
                whole.push(Tensor::zeros(value.dtype.unwrap_or(DType::F32), shape)?.into());
                continue;
            };
            let axis = dynamic::axis(at.step, along.axis, first.shape.rank() + 1)?;
            if along.reverse {
                parts.reverse();
            }
            let joined = join(&parts, axis, true)?;
            whole.push(joined.map_err(|reason| at.wrong(format!("'{}': {reason}", value.name)))?.into());
        }
        Ok(whole)
    }
}
