//! What a network computes in reals, and what quantization says about its values, apart from each other.
//!
//! A model in QDQ form has quantize and dequantize operators between its float operators. Here they go: what they say is
//! kept beside the values, and where they change a value by themselves, an identity that has a meaning stands for them.

use std::collections::HashMap;

use triune_graph::{
    Constant, Graph, Node, Op, Provenance, Value, ValueId, infer, ops, ops::UnaryKind, passes,
};
use triune_tensor::{DType, QuantParams, Shape};

use crate::Error;

/// What the integers of a value mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Meaning {
    pub(crate) dtype: DType,
    pub(crate) params: QuantParams,
}

/// The integers behind a constant of reals: real = (q − zero point)·scale.
#[derive(Clone, Debug)]
pub(crate) struct Integers {
    pub(crate) constant: Constant,
    /// One, or one per index of `axis`.
    pub(crate) scales: Vec<f32>,
    pub(crate) axis: usize,
    /// As many as there are scales.
    pub(crate) zero_points: Vec<i64>,
}

/// A float network, and what quantization says about its values.
#[derive(Debug)]
pub(crate) struct Source {
    /// Operators over reals. An identity quantizes when its result has a meaning, dequantizes when its operand has one, or
    /// renames.
    pub(crate) graph: Graph,
    meanings: Vec<Option<Meaning>>,
    integers: HashMap<ValueId, Integers>,
    /// For each value of the model, the one that stands for it.
    same: Vec<ValueId>,
    /// What is quantized before operators that reorder it.
    raised: Vec<Raised>,
}

impl Source {
    /// Takes the quantizers out of a bound model.
    pub(crate) fn new(model: &Graph) -> Result<Self, Error> {
        let mut graph = model.clone();
        passes::dead_code(&mut graph)?;
        passes::widen_half(&mut graph)?;
        passes::fold_constants(&mut graph)?;
        passes::dead_code(&mut graph)?;
        infer::infer(&mut graph)?;
        // What is one operator over integers, or has a name of its own, is one for the vendor.
        let quantized =
            graph.nodes.iter().any(|node| matches!(node.op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_)));
        let joined = if quantized {
            passes::join_composites(&mut graph)?
        } else {
            passes::join_gelus(&mut graph)? | passes::join_normalizations(&mut graph)?
        };
        if joined {
            passes::dead_code(&mut graph)?;
            infer::infer(&mut graph)?;
        }
        passes::spell_out_correlations(&mut graph)?;
        passes::spell_out_vectors(&mut graph)?;
        let integers = constants(&graph);
        passes::fold_dequantize(&mut graph)?;
        let mut strip = Strip {
            consumers: graph.consumers().iter().map(Vec::len).collect(),
            same: (0..graph.values.len() as u32).map(ValueId).collect(),
            meanings: vec![None; graph.values.len()],
            graph,
        };
        strip.run()?;
        let Strip { graph, meanings, same, .. } = strip;
        let mut source = Self { graph, meanings, integers, same, raised: Vec::new() };
        source.limits();
        source.movement();
        source.raise();
        Ok(source)
    }

    /// The network in reals alone, what can be computed before it runs computed, normalizations folded.
    pub(crate) fn optimized(&self) -> Result<Self, Error> {
        let mut graph = self.graph.clone();
        passes::fold_constants(&mut graph)?;
        passes::fold_batch_norm(&mut graph)?;
        passes::dead_code(&mut graph)?;
        infer::infer(&mut graph)?;
        let meanings = vec![None; graph.values.len()];
        Ok(Self { graph, meanings, integers: HashMap::new(), same: Vec::new(), raised: Vec::new() })
    }

    /// What the integers of a value mean, if it has any.
    pub(crate) fn meaning(&self, id: ValueId) -> Option<Meaning> {
        self.meanings.get(id.0 as usize).copied().flatten()
    }

    /// The integers behind a constant.
    pub(crate) fn integers(&self, id: ValueId) -> Option<&Integers> {
        self.integers.get(&id)
    }

    /// The value whose integers a value of the prepared model has, if they mean the same.
    pub(crate) fn integers_of(&self, value: &Value, meaning: Meaning) -> Option<ValueId> {
        let named = |name: &str| {
            let id = *self.same.get(self.graph.find_value(name)?.0 as usize)?;
            (self.meaning(id) == Some(meaning)).then_some(id)
        };
        match &value.provenance {
            Provenance::Network => named(&value.name),
            Provenance::Same { value, .. } => named(value),
            Provenance::Quantized(x) => {
                let x = self.graph.find_value(x)?;
                let raised = self.raised.iter().find(|each| each.x == x && each.meaning == meaning);
                raised.map(|raised| self.same[raised.quantized.0 as usize])
            }
            Provenance::Pass => None,
        }
    }

    /// Whoever moves integers may do it before they are dequantized, or after they are made.
    fn movement(&mut self) {
        for node in &self.graph.nodes {
            let operands = if matches!(node.op, Op::Concat(_)) { node.inputs.len() } else { 1 };
            let mut meanings = node.inputs.iter().take(operands).map(|id| self.meaning((*id)?));
            let Some(Some(meaning)) = meanings.next() else { continue };
            let moved = moves(&node.op) || self.borders(node, meaning);
            if !moved || meanings.any(|other| other != Some(meaning)) {
                continue;
            }
            let outputs = || node.outputs.iter().flatten();
            if outputs().all(|&id| self.meaning(id).is_none() && !self.graph.outputs.contains(&id)) {
                outputs().for_each(|id| self.meanings[id.0 as usize] = Some(meaning));
            }
        }
    }

    /// Whether a node adds a border of one real that integers of this meaning have exactly.
    fn borders(&self, node: &Node, meaning: Meaning) -> bool {
        if !matches!(node.op, Op::Pad(ops::Pad { mode: ops::PadMode::Constant })) {
            return false;
        }
        let real = match node.inputs.get(2).copied().flatten() {
            None => Some(0.0),
            Some(id) => self.graph.value(id).constant.as_ref().and_then(Constant::scalar_f32),
        };
        let Meaning { dtype, params } = meaning;
        real.is_some_and(|real| params.dequantize(params.quantize(real, dtype)) == real)
    }

    /// What is quantized behind an operator that only reorders may be quantized before it, and once for all readers.
    fn raise(&mut self) {
        let mut raised: Vec<Raised> = Vec::new();
        for index in (0..self.graph.nodes.len()).rev() {
            let node = &self.graph.nodes[index];
            for output in node.outputs.clone().into_iter().flatten() {
                self.settle(output, &mut raised);
            }
            let node = &self.graph.nodes[index];
            let (Some(&Some(x)), [Some(y)]) = (node.inputs.first(), node.outputs.as_slice()) else {
                continue;
            };
            let Some(meaning) = self.meaning(*y) else { continue };
            let half = || {
                let [from, to] = [x, *y].map(|id| self.graph.value(id).fixed_shape()?.elements());
                // A small part of something large is better quantized by itself.
                Some(to?.checked_mul(2)? >= from?)
            };
            let reorders = reorders(&node.op) || matches!(node.op, Op::Slice(_));
            let open = self.meaning(x).is_none() && self.graph.value(x).constant.is_none();
            if !reorders || !open || half() != Some(true) {
                continue;
            }
            let found = raised.iter().find(|each| each.x == x && each.meaning == meaning);
            let quantized = match found.map(|each| each.quantized) {
                Some(quantized) => quantized,
                None => self.quantized(x, meaning, &mut raised),
            };
            self.graph.nodes[index].inputs[0] = Some(quantized);
        }
        let producers = self.graph.producers();
        let mut places: Vec<(usize, Node)> = raised
            .into_iter()
            .map(|Raised { x, quantized, .. }| {
                let place = producers[x.0 as usize].map_or(0, |producer| producer.0 as usize + 1);
                let name = self.graph.value(quantized).name.clone();
                let op = Op::Identity(ops::Identity);
                (place, Node::new(name, op, vec![Some(x)], vec![Some(quantized)]))
            })
            .collect();
        places.sort_by_key(|(place, _)| *place);
        for (place, node) in places.into_iter().rev() {
            self.graph.nodes.insert(place, node);
        }
    }

    /// A new value for the integers of another.
    fn quantized(&mut self, x: ValueId, meaning: Meaning, raised: &mut Vec<Raised>) -> ValueId {
        let value = self.graph.value(x);
        let name = format!("{}:quantized", value.name);
        let value = Value { dtype: value.dtype, shape: value.shape.clone(), ..Value::named(name) };
        let quantized = self.graph.add_value(value);
        self.meanings.push(Some(meaning));
        self.same.push(quantized);
        let own = Raised { x, quantized, meaning };
        raised.push(own);
        self.raised.push(own);
        quantized
    }

    /// A value that is read only to be quantized has that meaning itself.
    fn settle(&mut self, id: ValueId, raised: &mut Vec<Raised>) {
        let own: Vec<Raised> = raised.iter().filter(|each| each.x == id).copied().collect();
        let [only] = own.as_slice() else { return };
        let read = self.graph.nodes.iter().any(|node| node.inputs.contains(&Some(id)));
        if read || self.graph.outputs.contains(&id) {
            return;
        }
        self.meanings[id.0 as usize] = Some(only.meaning);
        let operands = self.graph.nodes.iter_mut().flat_map(|node| &mut node.inputs);
        for operand in operands.filter(|operand| **operand == Some(only.quantized)) {
            *operand = Some(id);
        }
        self.same[only.quantized.0 as usize] = id;
        raised.retain(|each| each.quantized != only.quantized);
    }

    /// A limit commutes with quantization: what is limited may be quantized before as it is behind, and before it is reordered, as
    /// the result of a convolution over one axis is.
    fn limits(&mut self) {
        let (producers, consumers) = (self.graph.producers(), self.graph.consumers());
        for node in &self.graph.nodes {
            let (Op::Unary(op), Some(&Some(x)), Some(&Some(y))) =
                (&node.op, node.inputs.first(), node.outputs.first())
            else {
                continue;
            };
            if !matches!(op.kind, UnaryKind::Relu | UnaryKind::Clip(_)) {
                continue;
            }
            // From the limit back to what computes its operand.
            let (mut between, mut at) = (Vec::new(), x);
            let computed = loop {
                let private = consumers[at.0 as usize].len() == 1 && !self.graph.outputs.contains(&at);
                if !private || self.meanings[at.0 as usize].is_some() {
                    break false;
                }
                between.push(at);
                let Some(producer) = producers[at.0 as usize] else { break false };
                let producer = &self.graph.nodes[producer.0 as usize];
                match &producer.op {
                    Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_) => break true,
                    Op::Binary(_) => break between.len() == 1,
                    op if reorders(op) => match producer.inputs.first() {
                        Some(&Some(operand)) => at = operand,
                        _ => break false,
                    },
                    _ => break false,
                }
            };
            if computed {
                for id in between {
                    self.meanings[id.0 as usize] = self.meanings[y.0 as usize];
                }
            }
        }
    }
}

/// A value that is quantized before operators that reorder it.
#[derive(Clone, Copy, Debug)]
struct Raised {
    x: ValueId,
    quantized: ValueId,
    meaning: Meaning,
}

/// Whether results are elements of the operands, whatever these mean.
fn moves(op: &Op) -> bool {
    match op {
        Op::Slice(_) | Op::Split(_) | Op::Concat(_) => true,
        Op::Pool(op) => op.kind == ops::PoolKind::Max,
        Op::GlobalPool(op) => op.kind == ops::PoolKind::Max,
        _ => reorders(op),
    }
}

/// Whether the result has the operand's elements in another order.
fn reorders(op: &Op) -> bool {
    matches!(op, Op::Reshape(_) | Op::Flatten(_) | Op::Transpose(_) | Op::Squeeze(_) | Op::Unsqueeze(_))
}

/// The integers behind constants that are dequantized.
fn constants(graph: &Graph) -> HashMap<ValueId, Integers> {
    let known = |id: Option<&Option<ValueId>>| graph.value((*id?)?).constant.as_ref();
    let found = graph.nodes.iter().filter_map(|node| {
        let Op::DequantizeLinear(op) = &node.op else { return None };
        let constant = known(node.inputs.first())?.clone();
        let scales = known(node.inputs.get(1))?.to_f32()?;
        let zero_points = match node.inputs.get(2) {
            Some(Some(_)) => known(node.inputs.get(2))?.to_i64()?,
            _ => vec![0; scales.len()],
        };
        let rank = constant.shape().rank() as isize;
        let along = if op.axis < 0 { op.axis + rank } else { op.axis };
        let axis = usize::try_from(along).ok().filter(|&axis| scales.len() == 1 || axis < rank as usize)?;
        let output = node.outputs.first().copied().flatten()?;
        Some((output, Integers { constant, scales, axis, zero_points }))
    });
    found.collect()
}

struct Strip {
    graph: Graph,
    /// How many operands read each value.
    consumers: Vec<usize>,
    /// The value that stands for each.
    same: Vec<ValueId>,
    meanings: Vec<Option<Meaning>>,
}

impl Strip {
    fn run(&mut self) -> Result<(), Error> {
        for &id in &self.graph.inputs {
            // Integers at the border: whoever dequantizes them says what they mean.
            if self.graph.value(id).dtype.is_some_and(is_storage) {
                self.meanings[id.0 as usize] = self.graph.nodes.iter().find_map(|node| {
                    let reads = node.inputs.first() == Some(&Some(id));
                    reads.then(|| read(&self.graph, node))?
                });
            }
        }
        let nodes = std::mem::take(&mut self.graph.nodes);
        for node in nodes {
            match node.op {
                Op::QuantizeLinear(_) => self.quantize(&node)?,
                Op::DequantizeLinear(_) => self.dequantize(&node)?,
                Op::Cast(_) if self.reads_plainly(&node) => self.dequantize(&node)?,
                _ => self.keep(node)?,
            }
        }
        for index in 0..self.graph.outputs.len() {
            let output = self.graph.outputs[index];
            let same = self.same[output.0 as usize];
            if same != output {
                // A caller gets the value under its name: in reals, or the integers that the model itself gives.
                if self.graph.value(output).dtype.is_some_and(is_storage) {
                    self.meanings[output.0 as usize] = self.meanings[same.0 as usize];
                }
                let name = self.graph.value(output).name.clone();
                self.identity(name, same, output);
            }
        }
        // Results of operators over integers are reals here, as all others.
        for (value, meaning) in self.graph.values.iter_mut().zip(&self.meanings) {
            if meaning.is_some() && value.constant.is_none() {
                value.dtype = Some(DType::F32);
            }
        }
        Ok(())
    }

    fn quantize(&mut self, node: &Node) -> Result<(), Error> {
        let meaning = meaning(&self.graph, node).ok_or_else(|| {
            Error::unsupported(node, "an activation needs one constant scale and zero point")
        })?;
        let (x, q) = ends(node)?;
        let source = self.same[x.0 as usize];
        let own = self.meanings[source.0 as usize];
        if own == Some(meaning) {
            self.same[q.0 as usize] = source;
            return Ok(());
        }
        let made = self.graph.nodes.iter().any(|node| node.outputs.contains(&Some(source)));
        let private = self.consumers[x.0 as usize] == 1 && !self.graph.outputs.contains(&x);
        if made && private && source == x && own.is_none() {
            let limited = self.limited(x, meaning).unwrap_or(x);
            self.meanings[limited.0 as usize] = Some(meaning);
            self.same[q.0 as usize] = limited;
        } else {
            self.meanings[q.0 as usize] = Some(meaning);
            self.identity(node.name.clone(), source, q);
        }
        Ok(())
    }

    /// What of a computed value is not below 0, where its integers have nothing for the rest: quantizers leave a `Relu` or
    /// `Clip` out when saturation is one. The value's name goes over to the limited one.
    fn limited(&mut self, x: ValueId, meaning: Meaning) -> Option<ValueId> {
        let (low, high) = meaning.dtype.int_range()?;
        (i64::from(meaning.params.zero_point) == low).then_some(())?;
        let maker = self.graph.nodes.iter().find(|node| node.outputs.contains(&Some(x)))?;
        let from_zero = |id: &Option<ValueId>| {
            let meaning = id.and_then(|id| self.meanings[id.0 as usize]);
            meaning.is_some_and(|Meaning { dtype, params }| {
                dtype.int_range().is_some_and(|(low, _)| i64::from(params.zero_point) == low)
            })
        };
        let computes = match &maker.op {
            Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_) | Op::BatchNormalization(_) => true,
            Op::Binary(op) => {
                let rises = matches!(op.kind, ops::BinaryKind::Add | ops::BinaryKind::Mul);
                !(rises && maker.inputs.iter().all(from_zero))
            }
            _ => false,
        };
        computes.then_some(())?;
        let most = meaning.params.dequantize(i32::try_from(high).ok()?);
        let node_name = format!("{}:limit", maker.name);
        let value = self.graph.value_mut(x);
        let name = value.name.clone();
        value.name = format!("{name}:unlimited");
        let value = Value { dtype: value.dtype, shape: value.shape.clone(), ..Value::named(name) };
        let limited = self.graph.add_value(value);
        self.meanings.push(None);
        self.same.push(limited);
        let op = Op::Unary(ops::Unary { kind: UnaryKind::Clip([0.0, most]) });
        self.graph.nodes.push(Node::new(node_name, op, vec![Some(x)], vec![Some(limited)]));
        Some(limited)
    }

    fn dequantize(&mut self, node: &Node) -> Result<(), Error> {
        let (q, y) = ends(node)?;
        let source = self.same[q.0 as usize];
        let wanted = read(&self.graph, node);
        if wanted.is_none() || self.meanings[source.0 as usize] != wanted {
            return Err(Error::unsupported(
                node,
                "it does not read its operand's integers as they were written",
            ));
        }
        self.same[y.0 as usize] = source;
        Ok(())
    }

    /// Whether a node takes integers that mean themselves for reals.
    fn reads_plainly(&self, node: &Node) -> bool {
        let operand = node.inputs.first().copied().flatten();
        let meaning = operand.and_then(|id| self.meanings[self.same[id.0 as usize].0 as usize]);
        meaning.is_some() && meaning == read(&self.graph, node)
    }

    fn keep(&mut self, mut node: Node) -> Result<(), Error> {
        let is_integer = |graph: &Graph, id: ValueId| {
            let value = graph.value(id);
            value.constant.is_none() && value.dtype.is_some_and(is_storage)
        };
        let operands = node.inputs.iter().flatten().copied();
        let integers: Vec<ValueId> = operands.filter(|&id| is_integer(&self.graph, id)).collect();
        for input in node.inputs.iter_mut().flatten() {
            *input = self.same[input.0 as usize];
        }
        let mut meanings = integers.iter().map(|id| self.meanings[self.same[id.0 as usize].0 as usize]);
        if let Some(Some(meaning)) = meanings.next() {
            if meanings.any(|other| other != Some(meaning)) {
                return Err(Error::unsupported(&node, "it moves integers that do not mean the same"));
            }
            match node.op {
                // The largest integer stands for the largest real.
                Op::ArgReduce(_) => {}
                Op::Pad(_) => self.border(&mut node, meaning)?,
                _ if node.op.moves() => {}
                _ => {
                    return Err(Error::unsupported(
                        &node,
                        "it computes on integers, not on what they mean, as the vendor's operators do; let it stand between a \
                         DequantizeLinear and a QuantizeLinear, let the model end before it (--outputs), or compile the model \
                         into a package (--format package)",
                    ));
                }
            }
            // Movement of integers: the results mean what the operand does.
            for output in node.outputs.iter().flatten().filter(|id| is_integer(&self.graph, **id)) {
                self.meanings[output.0 as usize] = Some(meaning);
            }
        }
        self.graph.nodes.push(node);
        Ok(())
    }

    /// Gives a border of integers the real that they mean.
    fn border(&mut self, node: &mut Node, meaning: Meaning) -> Result<(), Error> {
        let given = node.inputs.get(2).copied().flatten();
        let known = given.and_then(|id| self.graph.value(id).constant.as_ref()?.to_i64());
        let integer = match (given, known.as_deref()) {
            (None, _) => 0,
            (Some(_), Some(&[integer])) => integer as i32,
            _ => return Err(Error::unsupported(node, "a border that is not constant")),
        };
        let real = Constant::from_f32(Shape::from([]), &[meaning.params.dequantize(integer)]);
        let real = real.ok_or_else(|| Error::unsupported(node, "a border of no element"))?;
        let real = self.graph.add_constant(format!("{}:border", node.name), real);
        self.meanings.push(None);
        self.same.push(real);
        node.inputs.resize(node.inputs.len().max(3), None);
        node.inputs[2] = Some(real);
        Ok(())
    }

    fn identity(&mut self, name: String, from: ValueId, to: ValueId) {
        let op = Op::Identity(ops::Identity);
        self.graph.nodes.push(Node::new(name, op, vec![Some(from)], vec![Some(to)]));
    }
}

/// Whether activations can be kept in this type.
pub(crate) fn is_storage(dtype: DType) -> bool {
    dtype.is_quantized() || dtype == DType::I16
}

/// First operand and first result.
pub(crate) fn ends(node: &Node) -> Result<(ValueId, ValueId), Error> {
    match (node.inputs.first(), node.outputs.first()) {
        (Some(&Some(input)), Some(&Some(output))) => Ok((input, output)),
        _ => Err(Error::unsupported(node, "it has no operand or no result")),
    }
}

/// What the integers mean that a node makes reals of: what a dequantizer says, themselves where they are cast.
fn read(graph: &Graph, node: &Node) -> Option<Meaning> {
    match &node.op {
        Op::DequantizeLinear(_) => meaning(graph, node),
        Op::Cast(op) if op.to == DType::F32 => {
            let dtype = graph.value((*node.inputs.first()?)?).dtype.filter(|&dtype| is_storage(dtype))?;
            Some(Meaning { dtype, params: QuantParams { scale: 1.0, zero_point: 0 } })
        }
        _ => None,
    }
}

/// What a quantizer or dequantizer with one constant scale makes or reads.
fn meaning(graph: &Graph, node: &Node) -> Option<Meaning> {
    let known = |index: usize| graph.value((*node.inputs.get(index)?)?).constant.as_ref();
    let scale = known(1)?.scalar_f32().filter(|scale| scale.is_finite() && *scale > 0.0)?;
    let zero_point = match node.inputs.get(2) {
        Some(Some(_)) => match known(2)?.to_i64()?.as_slice() {
            [zero_point] => i32::try_from(*zero_point).ok()?,
            _ => return None,
        },
        _ => 0,
    };
    let given = known(2).map(Constant::dtype);
    let dtype = match &node.op {
        Op::QuantizeLinear(op) => given.unwrap_or(op.dtype),
        _ => given.or(graph.value((*node.inputs.first()?)?).dtype)?,
    };
    is_storage(dtype).then_some(Meaning { dtype, params: QuantParams { scale, zero_point } })
}
