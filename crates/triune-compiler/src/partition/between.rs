//! What the host computes in the core's pauses, each operator once.
//!
//! A part takes what the core has given until then, what earlier parts have made, and what is there before the core begins, which
//! callers give beside the core's inputs. So every value has a part that it belongs to: the first that has all that it is made of.

use std::collections::{HashMap, HashSet};

use triune_graph::{Graph, NodeId, ValueId};

use super::{
    host::{Cut, HostPart, again},
    stages::Crossings,
};
use crate::{Error, border};

/// What the host does in all pauses of the core.
#[derive(Default)]
pub(super) struct Betweens {
    pub(super) parts: Vec<Between>,
    /// Values of the model that are there before the core begins, and that parts read.
    pub(super) beside: Vec<ValueId>,
}

/// What the host does in a pause of the core.
pub(super) struct Between {
    pub(super) part: HostPart,
    /// The core's outputs that it takes.
    pub(super) reads: Vec<usize>,
}

/// Which part of the host each value of a model belongs to: 0 before the core, then one for each pause.
struct Owners<'g> {
    graph: &'g Graph,
    producers: Vec<Option<NodeId>>,
    /// The core's output that a value is, and the first part that has it.
    border: HashMap<ValueId, (usize, usize)>,
    /// For each value its part; `None` for what is made of constants alone, which every part makes for itself.
    parts: Vec<Option<usize>>,
}

/// What a part takes.
struct Needs {
    /// Outputs of the core.
    reads: HashSet<usize>,
    /// Values of earlier parts.
    takes: Vec<ValueId>,
}

impl<'g> Owners<'g> {
    /// Those of the model with the border of `cut` in it.
    fn new(graph: &'g Graph, cut: &Cut, crossings: &Crossings) -> Self {
        let mut border: HashMap<ValueId, (usize, usize)> = HashMap::new();
        let pauses = crossings.pauses.iter().zip(1..);
        for (index, part) in
            pauses.flat_map(|(pause, part)| pause.reads.iter().map(move |&index| (index, part)))
        {
            // The first pause that reads it is the first here.
            border.entry(cut.output_floats[index].1[0]).or_insert((index, part));
        }
        let mut parts = vec![None; graph.values.len()];
        graph.inputs.iter().for_each(|id| parts[id.0 as usize] = Some(0));
        for (id, (_, part)) in &border {
            parts[id.0 as usize] = Some(*part);
        }
        for node in &graph.nodes {
            let mut operands = node.inputs.iter().flatten().peekable();
            // What is made of nothing need not be the same again.
            let alone = operands.peek().is_none().then_some(0);
            let part = operands.filter_map(|id| parts[id.0 as usize]).max().or(alone);
            for id in node.outputs.iter().flatten().filter(|id| !border.contains_key(id)) {
                parts[id.0 as usize] = part;
            }
        }
        Self { graph, producers: graph.producers(), border, parts }
    }

    /// What `part` takes to make values.
    fn needs(&self, part: usize, makes: &[ValueId]) -> Needs {
        let mut needs = Needs { reads: HashSet::new(), takes: Vec::new() };
        let (mut left, mut seen) = (makes.to_vec(), HashSet::new());
        while let Some(id) = left.pop() {
            if !seen.insert(id) || self.graph.value(id).constant.is_some() {
                continue;
            }
            match (self.border.get(&id), self.parts[id.0 as usize]) {
                (Some(&(index, first)), _) if first <= part => {
                    needs.reads.insert(index);
                }
                (None, Some(owner)) if owner < part => needs.takes.push(id),
                _ => {
                    let maker =
                        self.producers[id.0 as usize].map(|maker| &self.graph.nodes[maker.0 as usize]);
                    left.extend(maker.into_iter().flat_map(|maker| maker.inputs.iter().flatten()));
                }
            }
        }
        // By their place in the model.
        needs.takes.sort_unstable();
        needs
    }

    /// Whether `part` can make values without what the core computes for itself.
    fn can_make(&self, part: usize, makes: &[ValueId], computed: &HashSet<&str>) -> bool {
        let there = self.border.iter().filter(|(_, (_, first))| *first <= part).map(|(id, _)| *id);
        let mut inputs: Vec<ValueId> = self.graph.inputs.iter().copied().chain(there).collect();
        inputs.sort_unstable();
        inputs.dedup();
        self.graph.extract(&inputs, makes).is_ok_and(|all| again(&all, computed).is_none())
    }

    /// Whether a value can wait on the host for a later part: any tensor that is made there, and of those that callers give what is
    /// told apart from the device's integers.
    fn can_wait(&self, id: ValueId) -> bool {
        let value = self.graph.value(id);
        match self.parts[id.0 as usize] {
            Some(0) => border::beside(self.graph, id).is_some(),
            _ => value.kind.is_tensor(),
        }
    }
}

impl Cut {
    /// The host's parts in the core's pauses; or the first pause whose part takes more than there is. What is `computed` on the device
    /// has to come from there.
    pub(super) fn between(
        &self,
        model: &Graph,
        crossings: &Crossings,
        computed: &HashSet<&str>,
    ) -> Result<Result<Betweens, usize>, Error> {
        let mut found = Betweens::default();
        let count = crossings.pauses.len();
        if count == 0 {
            return Ok(Ok(found));
        }
        let all: Vec<usize> = (0..crossings.outputs.len()).collect();
        let rewired = self.rewired(model, &all);
        let owners = Owners::new(&rewired, self, crossings);
        let mut makes: Vec<Vec<ValueId>> = vec![Vec::new(); count + 1];
        let mut taken: Vec<Needs> = Vec::with_capacity(count);
        let mut lost = None;
        // From the back: what a part takes, an earlier one makes.
        for pause in (0..count).rev() {
            let part = pause + 1;
            let mut own: Vec<ValueId> = Vec::new();
            for &index in &crossings.pauses[pause].makes {
                let id = self.input_value(model, index)?;
                if !own.contains(&id) {
                    own.push(id);
                }
            }
            let is_there = owners.can_make(part, &own, computed);
            let later = std::mem::take(&mut makes[part]);
            own.extend(later.into_iter().filter(|id| !own.contains(id)).collect::<Vec<_>>());
            let needs = owners.needs(part, &own);
            if !is_there || !needs.takes.iter().all(|&id| owners.can_wait(id)) {
                lost = Some(pause);
            }
            for &id in &needs.takes {
                let owner = &mut makes[owners.parts[id.0 as usize].unwrap_or(0)];
                if !owner.contains(&id) {
                    owner.push(id);
                }
            }
            makes[part] = own;
            taken.push(needs);
        }
        if let Some(pause) = lost {
            return Ok(Err(pause));
        }
        for (part, needs) in (1..).zip(taken.into_iter().rev()) {
            let mut seen = HashSet::new();
            let earlier = crossings.pauses[..part].iter().flat_map(|pause| &pause.reads).copied();
            let reads: Vec<usize> =
                earlier.filter(|index| needs.reads.contains(index) && seen.insert(*index)).collect();
            let part = self.part(&rewired, &reads, &needs.takes, &makes[part])?;
            found.parts.push(Between { part, reads });
        }
        found.beside = std::mem::take(&mut makes[0]);
        found.beside.sort_unstable();
        Ok(Ok(found))
    }
}
