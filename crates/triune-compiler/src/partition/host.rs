//! What stays on the host before, between the stages of and behind the core, as models of their own.

use std::collections::{HashMap, HashSet};

use triune_graph::{Constant, Graph, Node, Op, Provenance, Value, ValueId, format::onnx, ops};
use triune_tensor::{DType, QuantParams, Shape};

use super::{
    names::{Counterparts, Names},
    stages::Crossings,
};
use crate::{Error, outline::macs};

/// What stays on the host on one side of the core.
#[derive(Default)]
pub(super) struct HostPart {
    /// An ONNX file, when there is anything to compute.
    pub(super) onnx: Option<Vec<u8>>,
    pub(super) nodes: usize,
}

impl HostPart {
    fn of(part: &Graph) -> Result<Self, Error> {
        Ok(Self { onnx: Some(onnx::write(part)?), nodes: part.nodes.len() })
    }
}

fn rewritten(name: &str) -> Error {
    Error::Internal(format!("the tensor '{name}' at the core's border was rewritten"))
}

/// The core's border in terms of the original model's tensors.
pub(super) struct Cut {
    /// Per core input: the float (or 8-bit model input) tensor that it is the quantized form of.
    pub(super) input_floats: Vec<String>,
    /// Per core output: the float tensor that it dequantizes to, and all names under which the model has it.
    pub(super) output_floats: Vec<(String, Vec<ValueId>)>,
    /// Per core input: what its integers stand for.
    pub(super) input_quants: Vec<Option<QuantParams>>,
    /// Per core output: the same.
    pub(super) output_quants: Vec<Option<QuantParams>>,
    /// Per core output: the integers' type in the model, unless they themselves are what the model has.
    output_dtypes: Vec<Option<DType>>,
    /// Per core output: the model's own integers, if it has them.
    output_integers: Vec<Option<ValueId>>,
}

impl Cut {
    pub(super) fn new(names: &Names<'_>, inputs: &[ValueId], outputs: &[ValueId]) -> Result<Self, Error> {
        let (model, prepared) = (names.model, names.prepared);
        let meanings = prepared.meanings();
        let entering = inputs.iter().map(|&id| {
            let (name, quant) = names.entering(id).ok_or_else(|| rewritten(&prepared.value(id).name))?;
            Ok((name.to_owned(), quant.or(meanings[id.0 as usize])))
        });
        let entering = entering.collect::<Result<Vec<_>, Error>>()?;
        let (input_floats, input_quants) = entering.into_iter().unzip();
        let output_floats = outputs
            .iter()
            .map(|&id| {
                let Counterparts { floats, quant } = names.counterparts(id);
                let name = floats.first().map(|&first| model.value(first).name.clone());
                let name = name.ok_or_else(|| {
                    let name = &prepared.value(id).name;
                    Error::Target(format!("the model has no float tensor for '{name}' at the core's border"))
                })?;
                let dtype = quant.and(prepared.value(id).dtype);
                Ok(((name, floats), (quant.or(meanings[id.0 as usize]), dtype)))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let (output_floats, said): (Vec<_>, Vec<_>) = output_floats.into_iter().unzip();
        let (output_quants, output_dtypes) = said.into_iter().unzip();
        let own = |&id: &ValueId| {
            let value = prepared.value(id);
            (value.provenance == Provenance::Network).then(|| names.find(&value.name)).flatten()
        };
        let output_integers = outputs.iter().map(own).collect();
        Ok(Self { input_floats, output_floats, input_quants, output_quants, output_dtypes, output_integers })
    }

    /// The host part before the core, which makes the first inputs, unless these are the model's own. An input of which nothing is
    /// made is one of its inputs, so that the whole takes what the model does. What it makes `beside` is for the host's parts between.
    pub(super) fn preprocess(
        &self,
        names: &Names<'_>,
        given: usize,
        beside: &[ValueId],
    ) -> Result<HostPart, Error> {
        let (model, floats) = (names.model, &self.input_floats[..given]);
        let inputs: HashSet<ValueId> = model.inputs.iter().copied().collect();
        let is_input = |name: &String| names.find(name).is_some_and(|id| inputs.contains(&id));
        if floats.iter().all(is_input)
            && beside.iter().all(|id| inputs.contains(id))
            && !names.has_idle_input()
        {
            return Ok(HostPart::default());
        }
        let (mut outputs, mut seen) = (Vec::new(), HashSet::new());
        let floats = floats.iter().map(|name| names.find(name).ok_or_else(|| rewritten(name)));
        for id in floats.chain(beside.iter().copied().map(Ok)) {
            let id = id?;
            if seen.insert(id) {
                outputs.push(id);
            }
        }
        let part = model.extract(&model.inputs, &outputs)?;
        HostPart::of(&part)
    }

    /// The model's value that an input of the core is made of.
    pub(super) fn input_value(&self, model: &Graph, index: usize) -> Result<ValueId, Error> {
        let name = &self.input_floats[index];
        model.find_value(name).ok_or_else(|| rewritten(name))
    }

    /// The host part behind the core, unless the core gives the model's own outputs; the order of the core's outputs, the
    /// model's own as it has them before all others, and how many of them are wanted then.
    ///
    /// It takes the core's outputs, and behind them those of the model's inputs of which it makes something past the core. What is
    /// `computed` on the device has to come from there.
    pub(super) fn postprocess(
        &self,
        model: &Graph,
        crossings: &Crossings,
        computed: &HashSet<&str>,
    ) -> Result<(HostPart, Vec<usize>, usize), Error> {
        let mut place: HashMap<ValueId, usize> = HashMap::new();
        for (index, (_, floats)) in self.output_floats.iter().enumerate() {
            for float in floats {
                place.entry(*float).or_insert(index);
            }
        }
        let (mut order, mut listed) = (Vec::new(), vec![false; self.output_floats.len()]);
        let mut list = |order: &mut Vec<usize>, index: usize| {
            if !std::mem::replace(&mut listed[index], true) {
                order.push(index);
            }
        };
        let own = model.outputs.iter().filter_map(|output| place.get(output).copied());
        own.clone().for_each(|index| list(&mut order, index));
        if order.len() == model.outputs.len() {
            let results = order.len();
            (0..self.output_floats.len()).for_each(|index| list(&mut order, index));
            return Ok((HostPart::default(), order, results));
        }
        let all: Vec<usize> = (0..self.output_floats.len()).collect();
        let rewired = self.rewired(model, &all);
        let border = self.border(&all);
        let past: Vec<ValueId> =
            rewired.inputs.iter().copied().filter(|input| !border.contains(input)).collect();
        let part = rewired.extract(&[border, past.clone()].concat(), &rewired.outputs)?;
        if let Some(node) = again(&part, computed) {
            return Err(Error::Target(format!(
                "the model cannot be split in host, device and host parts: what '{}' makes is also read as a tensor that does \
                 not cross",
                node.name
            )));
        }
        let used = used(&part);
        let past: Vec<ValueId> =
            past.into_iter().filter(|&id| used.contains(&*rewired.value(id).name)).collect();
        let wanted = |&index: &usize| {
            // Without pauses there is nobody else.
            crossings.pauses.is_empty() || used.contains(&*self.output_floats[index].0)
        };
        all.iter().copied().filter(wanted).for_each(|index| list(&mut order, index));
        let results = order.len();
        for index in all {
            list(&mut order, index);
        }
        Ok((self.part(&rewired, &order[..results], &past, &rewired.outputs)?, order, results))
    }

    /// The model with every name of a border tensor replaced by its first. Integers of which more is read than these floats are
    /// quantized from them again, which gives their bits, where the part that is cut out of it `reads` them.
    pub(super) fn rewired(&self, model: &Graph, reads: &[usize]) -> Graph {
        let mut rewired = model.clone();
        let mut first: HashMap<ValueId, ValueId> = HashMap::new();
        for (_, floats) in &self.output_floats {
            first.extend(floats.iter().map(|&float| (float, floats[0])));
        }
        for node in &mut rewired.nodes {
            for input in node.inputs.iter_mut().flatten() {
                *input = first.get(input).copied().unwrap_or(*input);
            }
        }
        for &index in reads {
            self.requantize(&mut rewired, index);
        }
        rewired
    }

    /// Lets integers that leave the core come from their floats, if anybody wants more of them than these.
    fn requantize(&self, graph: &mut Graph, index: usize) {
        let floats = &self.output_floats[index].1;
        let (Some(integers), Some(dtype), Some(quant)) =
            (self.output_integers[index], self.output_dtypes[index], self.output_quants[index])
        else {
            return;
        };
        let known = |node: &Node| node.outputs.iter().flatten().all(|made| floats.contains(made));
        let read = graph.nodes.iter().any(|node| node.inputs.contains(&Some(integers)) && !known(node));
        if !read && !graph.outputs.contains(&integers) {
            return;
        }
        let made = graph.nodes.iter().position(|node| node.outputs.contains(&Some(integers)));
        let (Some(place), Some(scale), Some(zero_point)) = (
            made,
            Constant::from_f32(Shape::from([]), &[quant.scale]),
            Constant::new(dtype, Shape::from([]), vec![quant.zero_point as u8]),
        ) else {
            return;
        };
        for output in graph.nodes[place].outputs.iter_mut().filter(|output| **output == Some(integers)) {
            *output = None;
        }
        let derived = |suffix: &str| format!("{}:{suffix}", graph.value(integers).name);
        let [scale_name, zero_name, name] = ["own_scale", "own_zero_point", "again"].map(derived);
        let operands = vec![
            Some(floats[0]),
            Some(graph.add_constant(scale_name, scale)),
            Some(graph.add_constant(zero_name, zero_point)),
        ];
        let op = Op::QuantizeLinear(ops::QuantizeLinear { axis: 1, dtype });
        graph.nodes.insert(place, Node::new(name, op, operands, vec![Some(integers)]));
    }

    /// The float tensors of some of the core's outputs.
    pub(super) fn border(&self, reads: &[usize]) -> Vec<ValueId> {
        reads.iter().map(|&index| self.output_floats[index].1[0]).collect()
    }

    /// What makes values of some of the core's outputs, and of what comes `past` it.
    pub(super) fn part(
        &self,
        rewired: &Graph,
        reads: &[usize],
        past: &[ValueId],
        makes: &[ValueId],
    ) -> Result<HostPart, Error> {
        let mut part = rewired.extract(&[&self.border(reads), past].concat(), makes)?;
        let meaning = |&index: &usize| self.output_dtypes[index].zip(self.output_quants[index]);
        let meanings = reads.iter().map(meaning).collect::<Vec<_>>();
        quantize_inputs(&mut part, &meanings);
        HostPart::of(&part)
    }
}

/// A node of a part that has been `computed` on the device, and is no matter of a moment.
pub(super) fn again<'p>(part: &'p Graph, computed: &HashSet<&str>) -> Option<&'p Node> {
    part.nodes.iter().find(|node| macs(part, node) > 0 && computed.contains(node.name.as_str()))
}

/// Names of what a part's operators read, and of what it gives.
fn used(part: &Graph) -> HashSet<&str> {
    let read = part.nodes.iter().flat_map(|node| node.inputs.iter().flatten());
    read.chain(&part.outputs).map(|&id| &*part.value(id).name).collect()
}

/// Puts a quantize and a dequantize operator behind every input of which a type and parameters are given. They change no
/// value that the core can give, but let whoever runs the part see that it takes integers, and compute on them where the
/// model does.
fn quantize_inputs(part: &mut Graph, meanings: &[Option<(DType, QuantParams)>]) {
    let (mut front, mut reals) = (Vec::new(), HashMap::new());
    for (&input, meaning) in part.inputs.clone().iter().zip(meanings) {
        let Some((dtype, quant)) = *meaning else { continue };
        let derived = |suffix: &str| format!("{}:{suffix}", part.value(input).name);
        let names = ["scale", "zero_point", "quantized", "dequantized"].map(derived);
        let shape = part.value(input).shape.clone();
        let [scale, zero_point, quantized, dequantized] = names.clone();
        let (Some(scale_value), Some(zero_value)) = (
            Constant::from_f32(Shape::from([]), &[quant.scale]),
            Constant::new(dtype, Shape::from([]), vec![quant.zero_point as u8]),
        ) else {
            continue;
        };
        let scale = part.add_constant(scale, scale_value);
        let zero_point = part.add_constant(zero_point, zero_value);
        let integers =
            part.add_value(Value { dtype: Some(dtype), shape: shape.clone(), ..Value::named(quantized) });
        let real = part.add_value(Value { dtype: Some(DType::F32), shape, ..Value::named(dequantized) });
        reals.insert(input, real);
        let axis = 1;
        let node = |name: &str, op: Op, input, output| {
            Node::new(name, op, vec![Some(input), Some(scale), Some(zero_point)], vec![Some(output)])
        };
        let quantize = Op::QuantizeLinear(ops::QuantizeLinear { axis, dtype });
        let dequantize = Op::DequantizeLinear(ops::DequantizeLinear { axis });
        front.push(node(&names[2], quantize, input, integers));
        front.push(node(&names[3], dequantize, integers, real));
    }
    for input in part.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().flatten()) {
        *input = reals.get(input).copied().unwrap_or(*input);
    }
    part.nodes.splice(0..0, front);
}
