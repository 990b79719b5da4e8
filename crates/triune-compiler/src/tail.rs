//! What comes behind extents that depend on data, such as the boxes that a suppression leaves: the host's last part has it.
//!
//! Nothing of it can be bound before there are data, so that it is cut off before anything else is looked at.

use std::collections::HashSet;

use triune_device::DeviceSpec;
use triune_graph::{Graph, Node, NodeId, Op, Value, ValueId, format::onnx, ops::Hosted};

use crate::{Error, Stayed, compile::adapt};

/// A model in two.
pub(crate) struct Split {
    /// What has known extents. Its outputs are what the rest reads of it, and those of the model's that it makes.
    pub(crate) head: Graph,
    /// The rest: of the head's outputs and the model's inputs, the model's outputs.
    tail: Graph,
}

impl Split {
    /// Cuts a model in front of the operators whose extents depend on data; nothing if it has none, or nothing before them.
    pub(crate) fn of(model: &Graph) -> Result<Option<Self>, Error> {
        let mut late = vec![false; model.values.len()];
        let (mut rest, mut front) = (Vec::new(), HashSet::new());
        for node in &model.nodes {
            let after = node.inputs.iter().flatten().any(|id| late[id.0 as usize]);
            if after || matches!(node.op, Op::Hosted(_)) {
                node.outputs.iter().flatten().for_each(|id| late[id.0 as usize] = true);
                rest.push(node);
            } else {
                front.extend(node.inputs.iter().flatten().copied());
            }
        }
        if rest.is_empty() || rest.len() == model.nodes.len() {
            return Ok(None);
        }
        let producers: Vec<Option<NodeId>> = model.producers();
        let read = rest.iter().flat_map(|node| node.inputs.iter().flatten());
        let mut seen = HashSet::new();
        let ends: Vec<ValueId> = read
            .chain(&model.outputs)
            .copied()
            .filter(|id| !late[id.0 as usize] && producers[id.0 as usize].is_some() && seen.insert(*id))
            .collect();
        let used: HashSet<ValueId> = rest
            .iter()
            .flat_map(|node| node.inputs.iter().flatten())
            .chain(&model.outputs)
            .copied()
            .collect();
        let past = model.inputs.iter().filter(|id| used.contains(id));
        let begin: Vec<ValueId> = ends.iter().chain(past).copied().collect();
        let first = model.inputs.iter().filter(|id| front.contains(id) || !used.contains(id));
        Ok(Some(Self {
            head: model.extract(&first.copied().collect::<Vec<_>>(), &ends)?,
            tail: model.extract(&begin, &model.outputs)?,
        }))
    }

    /// Nodes of the rest.
    pub(crate) fn nodes(&self) -> usize {
        self.tail.nodes.len()
    }

    /// Its operators, and why they are the host's.
    pub(crate) fn stayed(&self) -> impl Iterator<Item = Stayed> {
        self.tail.nodes.iter().map(|node| Stayed {
            node: node.title().0.into(),
            op: node.title().1.into(),
            macs: 0,
            reason: match &node.op {
                Op::Hosted(Hosted::Maps(_)) => "only the host has maps".into(),
                Op::Hosted(
                    Hosted::Trees(_)
                    | Hosted::SupportVectors(_)
                    | Hosted::Dictionary(_)
                    | Hosted::OneHotEncoder(_)
                    | Hosted::Strings(_),
                ) => "only the host computes it".into(),
                Op::Hosted(_) => "the extents of its result depend on data".into(),
                _ => "it comes behind extents that depend on data".into(),
            },
        })
    }

    /// The rest behind what the host computes in front of it, as an ONNX file.
    pub(crate) fn behind(&self, postprocess: Option<Vec<u8>>, spec: &DeviceSpec) -> Result<Vec<u8>, Error> {
        let mut whole = match postprocess {
            // With the numbers that strings have in the rest.
            Some(file) => onnx::read_with(file, self.tail.strings.clone())?,
            None => {
                Graph { name: self.tail.name.clone(), strings: self.tail.strings.clone(), ..Graph::default() }
            }
        };
        adapt(&mut whole, spec);
        // Either has the model's own names.
        let ids: Vec<ValueId> = self
            .tail
            .values
            .iter()
            .map(|value| {
                whole.find_value(&value.name).unwrap_or_else(|| whole.add_value(Value::clone(value)))
            })
            .collect();
        let made: HashSet<ValueId> =
            whole.nodes.iter().flat_map(|node| node.outputs.iter().flatten()).copied().collect();
        for id in &self.tail.inputs {
            let id = ids[id.0 as usize];
            if !made.contains(&id) && !whole.inputs.contains(&id) {
                whole.inputs.push(id);
            }
        }
        for node in &self.tail.nodes {
            let mut node = Node::clone(node);
            node.inputs.iter_mut().chain(&mut node.outputs).flatten().for_each(|id| *id = ids[id.0 as usize]);
            whole.nodes.push(node);
        }
        whole.outputs = self.tail.outputs.iter().map(|id| ids[id.0 as usize]).collect();
        Ok(onnx::write(&whole)?)
    }
}
