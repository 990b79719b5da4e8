//! Graphs from graphs: inputs bound to shapes, parts taken out, values renumbered.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use triune_tensor::text::List;

use crate::{Dim, Error, Graph, ValueId};

impl Graph {
    /// Fixes the inputs' extents: `shapes` has an input's name and its extents.
    ///
    /// An extent given for a symbol holds wherever the symbol stands. An unknown name, a contradiction with the
    /// model or between two shapes, and a symbol that stays open are errors. Afterwards the extents of all values
    /// that nodes make are open until [`crate::infer::infer`] fills them in.
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
        let mut symbols: HashMap<Arc<str>, usize> = HashMap::new();
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
                        if let Some(other) = symbols.insert(symbol.clone(), extent)
                            && other != extent
                        {
                            return Err(refuse(format!("'{symbol}' is {other} elsewhere")));
                        }
                    }
                }
            }
        }
        for id in self.inputs.clone() {
            let value = self.value_mut(id);
            let dims = match (given.get(&id), &value.shape) {
                (Some(dims), _) => dims.iter().map(|&extent| Dim::Fixed(extent)).collect(),
                (None, None) => {
                    return Err(Error::Graph(format!("input '{}' needs a shape", value.name)));
                }
                (None, Some(declared)) => {
                    let fixed = declared.iter().map(|dim| match dim {
                        Dim::Fixed(extent) => Ok(Dim::Fixed(*extent)),
                        Dim::Symbol(symbol) => {
                            symbols.get(symbol).map(|&extent| Dim::Fixed(extent)).ok_or_else(|| {
                                Error::Graph(format!(
                                    "input '{}' needs a shape, its extent '{symbol}' is open",
                                    value.name
                                ))
                            })
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
        let cut: HashSet<ValueId> = inputs.iter().copied().collect();
        let producers = self.producers();
        let mut seen = cut.clone();
        let mut needed = vec![false; self.nodes.len()];
        for &output in outputs {
            let mut open = vec![output];
            while let Some(id) = open.pop() {
                if !seen.insert(id) {
                    continue;
                }
                match producers[id.0 as usize] {
                    Some(node) => {
                        needed[node.0 as usize] = true;
                        open.extend(self.nodes[node.0 as usize].inputs.iter().flatten());
                    }
                    None if self.value(id).constant.is_some() => {}
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
        let nodes = self.nodes.iter().zip(needed).filter(|(_, needed)| *needed);
        let mut part = Self {
            name: self.name.clone(),
            values: self.values.clone(),
            nodes: nodes.map(|(node, _)| node.clone()).collect(),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            rounding: self.rounding,
            requantize: self.requantize,
        };
        part.renumber();
        Ok(part)
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
        let mut old = std::mem::take(&mut self.values).into_iter().map(Some).collect::<Vec<_>>();
        for id in order {
            if let Some(value) = old[id.0 as usize].take() {
                new_ids[id.0 as usize] = Some(self.add_value(value));
            }
        }
        let renew = |id: &mut ValueId| {
            if let Some(new) = new_ids[id.0 as usize] {
                *id = new;
            }
        };
        for node in &mut self.nodes {
            node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(renew);
        }
        self.inputs.iter_mut().chain(&mut self.outputs).for_each(renew);
    }
}
