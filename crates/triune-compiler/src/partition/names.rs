//! What integers of a prepared graph are in the model that it was made of.

use std::collections::{HashMap, HashSet};

use triune_graph::{Graph, Node, NodeId, Op, Provenance, ValueId};
use triune_tensor::QuantParams;

/// Names and readers of a model and of what was prepared of it.
pub(super) struct Names<'g> {
    pub(super) model: &'g Graph,
    pub(super) prepared: &'g Graph,
    /// The model's values by name.
    ids: HashMap<&'g str, ValueId>,
    /// The values that the model's nodes read, and those that it gives.
    read: HashSet<ValueId>,
    given: HashSet<ValueId>,
    /// The node of the model that quantizes what nobody else reads, by the integers that it makes.
    quantizers: HashMap<ValueId, &'g Node>,
    /// The nodes that dequantize each value, in the model and in what was prepared.
    dequantizers: [HashMap<ValueId, Vec<&'g Node>>; 2],
    /// For every value of what was prepared, the node that makes it.
    producers: Vec<Option<NodeId>>,
}

/// The float tensors of the original model that an integer value of the prepared one stands for.
#[derive(Default)]
pub(super) struct Counterparts {
    pub(super) floats: Vec<ValueId>,
    /// What all of them take the integers for; `None` when the model itself gives integers.
    pub(super) quant: Option<QuantParams>,
}

impl<'g> Names<'g> {
    pub(super) fn new(model: &'g Graph, prepared: &'g Graph) -> Self {
        let values = model.values.iter().enumerate().rev();
        let dequantizers = [model, prepared].map(|graph| {
            let mut found: HashMap<ValueId, Vec<&Node>> = HashMap::new();
            for node in graph.nodes.iter().filter(|node| matches!(node.op, Op::DequantizeLinear(_))) {
                if let Some(Some(id)) = node.inputs.first() {
                    found.entry(*id).or_default().push(node);
                }
            }
            found
        });
        let given: HashSet<ValueId> = model.outputs.iter().copied().collect();
        let mut readers: HashMap<ValueId, usize> = HashMap::new();
        for id in model.nodes.iter().flat_map(|node| node.inputs.iter().flatten()) {
            *readers.entry(*id).or_default() += 1;
        }
        let alone = |id: &ValueId| readers.get(id) == Some(&1) && !given.contains(id);
        let quantizers = model.nodes.iter().filter(|node| matches!(node.op, Op::QuantizeLinear(_)));
        let quantizers = quantizers.filter_map(|node| {
            let real = node.inputs.first().copied().flatten()?;
            let integers = node.outputs.first().copied().flatten()?;
            alone(&real).then_some((integers, node))
        });
        Self {
            model,
            prepared,
            quantizers: quantizers.collect(),
            ids: values.map(|(index, value)| (value.name.as_str(), ValueId(index as u32))).collect(),
            read: model.nodes.iter().flat_map(|node| node.inputs.iter().flatten().copied()).collect(),
            given,
            dequantizers,
            producers: prepared.producers(),
        }
    }

    /// The model's tensor that is quantized where integers enter the core: what their `QuantizeLinear` reads, what they become
    /// where the host makes them by other operators, or the model's input. And what whoever makes reals of the integers takes them
    /// for, where these reals are the tensor: that need not be what they were quantized by.
    pub(super) fn entering(&self, id: ValueId) -> Option<(&'g str, Option<QuantParams>)> {
        let maker = self.producers[id.0 as usize].map(|producer| &self.prepared.nodes[producer.0 as usize]);
        let real = match maker {
            Some(Node { op: Op::QuantizeLinear(_), inputs, .. }) => inputs.first().copied().flatten()?,
            Some(_) => {
                let Counterparts { floats, quant } = self.counterparts(id);
                return Some((&self.model.value(*floats.first()?).name, quant));
            }
            None => id,
        };
        let value = self.prepared.value(real);
        (value.provenance == Provenance::Network).then_some((&*value.name, None))
    }

    /// Whether the model has an input of which it makes nothing.
    pub(super) fn has_idle_input(&self) -> bool {
        self.model.inputs.iter().any(|id| !self.read.contains(id) && !self.given.contains(id))
    }

    /// The model's value of this name.
    pub(super) fn find(&self, name: &str) -> Option<ValueId> {
        self.ids.get(name).copied()
    }

    /// The model's values that the integers become in the model or in what was prepared, and what they are taken for there.
    fn dequantized(
        &self,
        prepared: bool,
        id: ValueId,
    ) -> impl Iterator<Item = (ValueId, Option<QuantParams>)> {
        let graph = if prepared { self.prepared } else { self.model };
        let nodes = self.dequantizers[usize::from(prepared)].get(&id).map_or(&[][..], Vec::as_slice);
        nodes.iter().filter_map(move |node| {
            let value = graph.value(node.outputs.first().copied()??);
            let own = (value.provenance == Provenance::Network).then(|| self.find(&value.name)).flatten();
            Some((own?, graph.border_params(node)))
        })
    }

    /// What an integer value of the prepared graph stands for; nothing when those who read it do not take it for the same
    /// reals.
    pub(super) fn counterparts(&self, id: ValueId) -> Counterparts {
        let value = self.prepared.value(id);
        let mut found: Vec<_> = self.dequantized(true, id).collect();
        match &value.provenance {
            Provenance::Network => {
                if let Some(same) = self.find(&value.name) {
                    found.extend(self.dequantized(false, same));
                    if found.is_empty() && self.given.contains(&same) && !self.read.contains(&same) {
                        // The model itself gives integers, and nobody else goes on with them.
                        return Counterparts { floats: vec![same], quant: None };
                    }
                    if found.is_empty()
                        && let Some(node) = self.quantizers.get(&same)
                        && let Some(&Some(real)) = node.inputs.first()
                    {
                        // Who goes on with integers has them of the reals that they were made of.
                        found.push((real, self.model.border_params(node)));
                    }
                }
            }
            Provenance::Same { value, quant } => {
                found.extend(self.find(value).map(|float| (float, Some(*quant))));
            }
            Provenance::Quantized(_) | Provenance::Pass => {}
        }
        let quant = found.first().and_then(|(_, quant)| *quant);
        if quant.is_none() || found.iter().any(|(_, other)| *other != quant) {
            return Counterparts::default();
        }
        let mut seen = HashSet::new();
        let floats = found.into_iter().map(|(float, _)| float).filter(|float| seen.insert(*float)).collect();
        Counterparts { floats, quant }
    }
}
