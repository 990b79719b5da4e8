//! Graphs from graphs: inputs bound to shapes, parts taken out, values renumbered.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use triune_tensor::text::List;

use crate::{
    Dim, Error, Graph, Node, NodeId, Op, Value, ValueId, ValueIds, ValueKind, ops::Identity, walk::Walk,
};

impl Graph {
    /// Fixes the inputs' extents: `shapes` has an input's name and its extents.
    ///
    /// An extent given for a symbol holds for the inputs without a shape, too. Those that have one need not agree: files of exporters
    /// name what differs alike, and the nodes say whether it fits. An unknown name, a contradiction with the model, and a symbol of
    /// an input without a shape that stays open or has two extents are errors. Afterwards the extents of all values that nodes make
    /// are open until [`crate::infer::infer`] fills them in.
    pub fn bind(&mut self, shapes: &[(&str, &[usize])]) -> Result<(), Error> {
        let mut given: HashMap<ValueId, &[usize]> = HashMap::new();
        let names: HashMap<&str, ValueId> =
            self.inputs.iter().rev().map(|&id| (self.value(id).name.as_str(), id)).collect();
        for &(name, dims) in shapes {
            let id = *names.get(name).ok_or_else(|| {
                let names: Vec<&str> = self.inputs.iter().map(|&id| self.value(id).name.as_str()).collect();
                Error::Graph(format!("no input is called '{name}'; inputs are {}", List(&names)))
            })?;
            if given.insert(id, dims).is_some() {
                return Err(Error::Graph(format!("two shapes for input '{name}'")));
            }
        }
        // The least and the largest extent that each is given.
        let mut symbols: HashMap<Arc<str>, [usize; 2]> = HashMap::new();
        for (&id, &dims) in &given {
            let value = self.value(id);
            let Some(declared) = &value.shape else { continue };
            let refuse = |why: String| {
                Error::Graph(format!("input '{}' cannot have shape {}: {why}", value.name, List(dims)))
            };
            if declared.len() != dims.len() {
                return Err(refuse(format!("the model has {} dimensions", declared.len())));
            }
            for (axis, (declared, &extent)) in declared.iter().zip(dims).enumerate() {
                match declared {
                    Dim::Fixed(own) if *own != extent => {
                        return Err(refuse(format!("dimension {axis} is {own} in the model")));
                    }
                    Dim::Fixed(_) => {}
                    Dim::Symbol(symbol) => {
                        let [least, largest] = symbols.entry(symbol.clone()).or_insert([extent; 2]);
                        (*least, *largest) = ((*least).min(extent), (*largest).max(extent));
                    }
                }
            }
        }
        for id in self.inputs.clone() {
            let value = self.value_mut(id);
            if !value.kind.is_tensor() {
                // Each of its tensors has extents of its own.
                continue;
            }
            let dims = match (given.get(&id), &value.shape) {
                (Some(dims), _) => dims.iter().map(|&extent| Dim::Fixed(extent)).collect(),
                (None, None) => {
                    return Err(Error::Graph(format!("input '{}' needs a shape", value.name)));
                }
                (None, Some(declared)) => {
                    let fixed = declared.iter().map(|dim| match dim {
                        Dim::Fixed(extent) => Ok(Dim::Fixed(*extent)),
                        Dim::Symbol(symbol) => {
                            let why = match symbols.get(symbol) {
                                Some(&[least, largest]) if least == largest => return Ok(Dim::Fixed(least)),
                                Some([least, largest]) => {
                                    format!("'{symbol}' is {least} in one input and {largest} in another")
                                }
                                None => format!("its extent '{symbol}' is open"),
                            };
                            Err(Error::Graph(format!("input '{}' needs a shape, {why}", value.name)))
                        }
                    });
                    fixed.collect::<Result<Vec<Dim>, Error>>()?
                }
            };
            value.shape = Some(dims);
        }
        let inputs: HashSet<ValueId> = self.inputs.iter().copied().collect();
        for (index, value) in self.values.iter_mut().enumerate() {
            if value.constant.is_none() && !inputs.contains(&ValueId(index as u32)) {
                value.shape = None;
            }
        }
        Ok(())
    }

    /// The sub-network that makes `outputs` from `inputs`, with values renumbered and names kept.
    ///
    /// An output that also needs another input of this graph is an error that names both.
    pub fn extract(&self, inputs: &[ValueId], outputs: &[ValueId]) -> Result<Self, Error> {
        let part = self.extract_by(&self.producers(), inputs, outputs)?;
        Ok(Self { strings: self.strings.clone(), ..part })
    }

    /// As [`Self::extract`], by the node that makes each value: takes time in proportion to the sub-network.
    pub(crate) fn extract_by(
        &self,
        producers: &[Option<NodeId>],
        inputs: &[ValueId],
        outputs: &[ValueId],
    ) -> Result<Self, Error> {
        let mut seen: HashSet<ValueId> = inputs.iter().copied().collect();
        let (mut nodes, mut constants) = (BTreeSet::new(), BTreeSet::new());
        for &output in outputs {
            let mut open = vec![output];
            while let Some(id) = open.pop() {
                if !seen.insert(id) {
                    continue;
                }
                match producers[id.0 as usize] {
                    Some(node) if nodes.insert(node) => {
                        open.extend(self.nodes[node.0 as usize].inputs.iter().flatten());
                    }
                    Some(_) => {}
                    None if self.value(id).constant.is_some() => {
                        constants.insert(id);
                    }
                    None => {
                        return Err(Error::Graph(format!(
                            "'{}' cannot be made without '{}'",
                            self.value(output).name,
                            self.value(id).name
                        )));
                    }
                }
            }
        }
        let mut part = Self {
            name: self.name.clone(),
            nodes: nodes.into_iter().map(|node| self.nodes[node.0 as usize].clone()).collect(),
            rounding: self.rounding,
            requantize: self.requantize,
            ..Self::default()
        };
        let mut new_ids: HashMap<ValueId, ValueId> = HashMap::new();
        let (mut own, mut taken) = (std::mem::take(&mut part.nodes), Vec::new());
        let made = own.iter().flat_map(|node| node.outputs.iter().flatten()).copied();
        for id in inputs.iter().copied().chain(constants).chain(made) {
            new_ids.entry(id).or_insert_with(|| {
                taken.push(id);
                ValueId(taken.len() as u32 - 1)
            });
        }
        part.values = taken.into_iter().map(|id| self.value(id).clone()).collect();
        for node in &mut own {
            node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(|id| *id = new_ids[id]);
        }
        part.nodes = own;
        [part.inputs, part.outputs] = [inputs, outputs].map(|ids| ids.iter().map(|id| new_ids[id]).collect());
        Ok(part)
    }

    /// Takes over another network's values: its inputs are `operands` of this one, what its nodes make as results is
    /// `results`, and the rest gets names by `name`.
    ///
    /// Returns the network's nodes, which are yet to be placed, and one node more for each result that is an operand, a
    /// constant or another result. A result that nothing makes is an error, of which `refuse` gets the text.
    pub(crate) fn adopt(
        &mut self,
        body: &Self,
        operands: &[Option<ValueId>],
        results: &[Option<ValueId>],
        mut name: impl FnMut(&str) -> String,
        refuse: impl Fn(String) -> Error,
    ) -> Result<Vec<Node>, Error> {
        let mut walk = Walk::new();
        let mut ids: Vec<Option<ValueId>> = vec![None; body.values.len()];
        let mut is_input = vec![false; body.values.len()];
        for (index, &input) in body.inputs.iter().enumerate() {
            ids[input.0 as usize] = operands.get(index).copied().flatten();
            is_input[input.0 as usize] = true;
        }
        for id in body.nodes.iter().flat_map(|node| &node.outputs).flatten() {
            let result = body.outputs.iter().position(|output| output == id);
            ids[id.0 as usize] = result.and_then(|result| results.get(result).copied().flatten());
        }
        for (index, value) in body.values.iter().enumerate() {
            walk.node()?;
            match ids[index] {
                None if is_input[index] => {}
                None => {
                    ids[index] = Some(self.add_value(Value { name: name(&value.name), ..value.clone() }));
                }
                Some(id) => {
                    let own = self.value_mut(id);
                    own.dtype = own.dtype.or(value.dtype);
                    if value.kind != ValueKind::Tensor {
                        own.kind = value.kind;
                    }
                }
            }
        }
        let renew = |old: &[Option<ValueId>]| -> ValueIds {
            old.iter().map(|id| id.and_then(|id| ids[id.0 as usize])).collect()
        };
        let adopted = |node: &Node| {
            walk.node()?;
            Ok(Node { inputs: renew(&node.inputs), outputs: renew(&node.outputs), ..node.clone() })
        };
        let mut nodes = body.nodes.iter().map(adopted).collect::<Result<Vec<Node>, Error>>()?;
        for (index, result) in results.iter().enumerate() {
            let Some(result) = *result else { continue };
            let made = body.outputs.get(index).and_then(|id| ids[id.0 as usize]);
            let made = made.ok_or_else(|| refuse(format!("nothing makes its output {index}")))?;
            if made != result {
                self.value_mut(result).kind = self.value(made).kind;
                let name = format!("output_{index}.Identity");
                nodes.push(Node::new(name, Op::Identity(Identity), vec![Some(made)], vec![Some(result)]));
            }
        }
        Ok(nodes)
    }

    /// Drops values that nobody refers to, and puts the rest in canonical order: inputs, constants, then what nodes
    /// make in execution order. Files are read in that order, too.
    pub(crate) fn renumber(&mut self) {
        let mut wanted = vec![false; self.values.len()];
        let refers = self.nodes.iter().flat_map(|node| node.inputs.iter().chain(&node.outputs).flatten());
        for id in refers.chain(&self.outputs) {
            wanted[id.0 as usize] = true;
        }
        let constants =
            (0..self.values.len()).filter(|&index| wanted[index] && self.values[index].constant.is_some());
        let constants: Vec<ValueId> = constants.map(|index| ValueId(index as u32)).collect();
        let made = self.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
        // What nobody makes is a fault for shape inference to name; it must not get lost here.
        let rest = (0..self.values.len()).filter(|&index| wanted[index]).map(|index| ValueId(index as u32));
        let order: Vec<ValueId> =
            self.inputs.iter().chain(&constants).chain(made).copied().chain(rest).collect();

        let mut new_ids: Vec<Option<ValueId>> = vec![None; self.values.len()];
        let mut taken: Vec<usize> = Vec::with_capacity(self.values.len());
        for id in order {
            let new = &mut new_ids[id.0 as usize];
            if new.is_none() {
                *new = Some(ValueId(taken.len() as u32));
                taken.push(id.0 as usize);
            }
        }
        if taken.len() == self.values.len() && taken.is_sorted() {
            return;
        }
        let mut old = std::mem::take(&mut self.values).into_iter().map(Some).collect::<Vec<_>>();
        self.values = taken.into_iter().filter_map(|index| old[index].take()).collect();
        let renew = |id: &mut ValueId| {
            if let Some(new) = new_ids[id.0 as usize] {
                *id = new;
            }
        };
        for node in &mut self.nodes {
            node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(renew);
        }
        self.inputs.iter_mut().chain(&mut self.outputs).for_each(renew);
        self.defaults.retain_mut(|default| {
            let new = new_ids[default.value.0 as usize];
            new.is_some_and(|new| {
                default.value = new;
                true
            })
        });
    }
}
