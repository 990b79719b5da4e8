//! Which operators the accelerator runs, and the values at the border, in terms of the network in reals.

use std::collections::{HashMap, HashSet};

use triune_graph::{Graph, NodeId, ValueId, passes};

use super::source::{Meaning, Source};
use crate::Error;
use triune_compiler::{
    Report,
    partition::{Crossings, Turns, extract, is_device, stages, without_operators},
};

/// The integer core of a network.
#[derive(Debug)]
pub(crate) struct Accelerated {
    /// Its operators as they are compiled; what it takes and gives are values of the network.
    pub(crate) graph: Graph,
    /// Per value of `graph`, what its integers stand for.
    pub(crate) meanings: Vec<Option<Meaning>>,
    /// Per value of `graph`, the network's value whose integers it has, if there is one.
    pub(crate) values: Vec<Option<ValueId>>,
    /// Names of the network's operators that it stands for.
    pub(crate) nodes: HashSet<String>,
    /// How it takes turns with the host.
    pub(crate) turns: Turns,
    /// What runs where, and why.
    pub(crate) report: Report,
}

impl Accelerated {
    /// Splits a prepared model, `source` being the same model in reals, for an accelerator that may compute on 16-bit integers.
    pub(crate) fn new(prepared: &Graph, source: &Source, int16: bool) -> Result<Self, Error> {
        let producers = prepared.producers();
        let meanings = meanings(prepared);
        let named = |id: ValueId| source.integers_of(prepared.value(id), meanings[id.0 as usize]?);
        let mut kept: HashSet<NodeId> = HashSet::new();
        let (stages, crossings) = loop {
            let stages = stages(prepared, &kept, int16);
            if !stages.iter().copied().any(is_device) {
                let instead = "the accelerator computes on 8-bit ones; buyi computes on both";
                return Err(without_operators(prepared, &kept, int16, instead).into());
            }
            let crossings = Crossings::new(prepared, &stages);
            // What crosses the border must be a value of the network; who reads or makes another one stays on the host.
            let before = kept.len();
            for &id in crossings.outputs.iter().filter(|&&id| named(id).is_none()) {
                kept.extend(producers[id.0 as usize]);
            }
            for &id in crossings.inputs.iter().filter(|&&id| named(id).is_none()) {
                let readers = prepared.nodes.iter().zip(&stages).zip(0..);
                let readers = readers
                    .filter(|((node, stage), _)| is_device(**stage) && node.inputs.contains(&Some(id)));
                kept.extend(readers.map(|(_, index)| NodeId(index)));
            }
            if kept.len() == before {
                break (stages, crossings);
            }
        };
        let report = Report::new(prepared, &stages, &crossings, [&kept, &HashSet::new()], int16);
        let (graph, own) = extract(prepared, &stages, &crossings.inputs, &crossings.outputs)?;
        let Crossings { given, results, pauses, .. } = crossings;
        let stages = (0..=pauses.len()).map(|stage| own.iter().filter(|&&each| each == stage).count());
        let turns = Turns { stages: stages.collect(), given, results, pauses };
        // Of the whole model: in its own part, nobody may say what a value that is only moved means.
        let known: HashMap<&str, Meaning> = prepared
            .values
            .iter()
            .zip(&meanings)
            .filter_map(|(value, meaning)| Some((&*value.name, (*meaning)?)))
            .collect();
        let meanings: Vec<Option<Meaning>> =
            graph.values.iter().map(|value| known.get(&*value.name).copied()).collect();
        let values = graph.values.iter().zip(&meanings).map(|(value, meaning)| {
            source.integers_of(value, (*meaning)?).filter(|_| value.constant.is_none())
        });
        let values = values.collect();
        let mut core = Self { graph, meanings, values, nodes: HashSet::new(), turns, report };
        let ends =
            |ids: &[ValueId]| -> Vec<ValueId> { ids.iter().filter_map(|&id| core.value(id)).collect() };
        let (from, to) = (ends(&core.graph.inputs), ends(&core.graph.outputs));
        let between = between(&source.graph, &from, &to, &HashSet::new());
        core.nodes = between.iter().map(|&node| source.graph.nodes[node.0 as usize].name.clone()).collect();
        Ok(core)
    }

    /// The network's value whose integers a value of the core has.
    pub(crate) fn value(&self, id: ValueId) -> Option<ValueId> {
        self.values.get(id.0 as usize).copied().flatten()
    }
}

/// What the integers of each value stand for, and their type.
fn meanings(graph: &Graph) -> Vec<Option<Meaning>> {
    let types = graph.values.iter().map(|value| value.dtype.filter(|dtype| dtype.holds_quantized()));
    let meaning = |(params, dtype): (Option<_>, Option<_>)| Some(Meaning { params: params?, dtype: dtype? });
    graph.meanings().into_iter().zip(types).map(meaning).collect()
}

/// The nodes that make `to` of `from` or of what nodes in `stop` make, in execution order.
pub(crate) fn between(
    graph: &Graph,
    from: &[ValueId],
    to: &[ValueId],
    stop: &HashSet<NodeId>,
) -> Vec<NodeId> {
    let producers = graph.producers();
    let mut seen: HashSet<ValueId> = from.iter().copied().collect();
    let mut open: Vec<ValueId> = to.to_vec();
    let mut found = Vec::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        if let Some(node) = producers[id.0 as usize].filter(|node| !stop.contains(node)) {
            found.push(node);
            open.extend(graph.nodes[node.0 as usize].inputs.iter().flatten());
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The images that a core takes whose channels are so few that they have blocks of their own.
pub(crate) fn images(core: &Accelerated, channels: usize) -> HashMap<ValueId, usize> {
    let inputs = core.graph.inputs.iter().filter_map(|&id| {
        let dims = core.graph.value(id).fixed_shape()?;
        let image = dims.rank() == 4 && dims[1] <= channels;
        Some((core.value(id)?, channels)).filter(|_| image)
    });
    inputs.collect()
}

/// The model as it is compiled.
pub(crate) fn prepared(model: &Graph) -> Result<Graph, Error> {
    let mut graph = model.clone();
    passes::prepare(&mut graph)?;
    Ok(graph)
}
