//! Recurrences over time: extents and operands checked, recurrent weights packed where they are known.

use triune_kernels::{MAX_DIRECTIONS, Recurrence, RecurrenceSpec, Sequences};

use super::super::{
    Packing,
    check::{Checker, Placed, Result, bad, refused},
    operands::{Prepared, with_scratch},
};
use super::{Prepare, elements, elements_mut};
use crate::{Addr, command};

impl Prepare for command::Recurrence {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Recurrence { cell, steps, directions, batch, hidden, .. } = *self;
        if !(1..=MAX_DIRECTIONS).contains(&(directions as usize)) {
            return bad("directions", format!("{directions}, one or two are possible"));
        }
        if self.clip.is_nan() || self.clip < 0.0 {
            return bad("clip", format!("{} is not a limit", self.clip));
        }
        let (gates, states, vectors) = (cell.gates(), cell.states(), cell.vectors());
        let [steps, directions, batch, hidden] = [steps, directions, batch, hidden].map(u64::from);
        let dense = |field: &'static str, addr: Addr, factors: [u64; 4]| {
            let elements = factors.into_iter().fold(1, u64::saturating_mul);
            checker.dense(field, addr, 4, elements)
        };
        let maybe = |field: &'static str, addr: Option<Addr>, factors: [u64; 4]| -> Result<Option<Placed>> {
            addr.map(|addr| dense(field, addr, factors)).transpose()
        };
        let all_gates = directions * gates as u64;
        let input = dense("input", self.input, [steps, batch, all_gates, hidden])?;
        let given = maybe("given_weights", self.given_weights, [1, all_gates, hidden, hidden])?;
        if vectors == 0 && self.vectors.is_some() {
            return bad("vectors", format!("{cell} has none"));
        }
        let own = maybe("vectors", self.vectors, [1, directions, vectors as u64, hidden])?;
        let initial = maybe("initial", self.initial, [states as u64, directions, batch, hidden])?;
        let lengths = maybe("lengths", self.lengths, [1, 1, 1, batch])?;
        let output = dense("output", self.output, [steps + states as u64, directions, batch, hidden])?;
        let weights = match (self.weights, self.given_weights) {
            (Some(addr), None) => {
                let Some(outputs) = (all_gates as usize).checked_mul(hidden as usize) else {
                    return bad("hidden", "is too large");
                };
                let extents = [outputs, 1, hidden as usize];
                Some(checker.packed(addr, extents, all_gates as usize, Packing::Matrices)?)
            }
            (None, Some(_)) => None,
            _ => return bad("weights", "are either constant or given"),
        };
        let [forth, back] = self.backwards;
        let [f, g, j, other_f, other_g, other_j] = self.functions;
        let spec = RecurrenceSpec {
            cell,
            steps: steps as usize,
            directions: directions as usize,
            batch: batch as usize,
            hidden: hidden as usize,
            backwards: [forth, back],
            functions: [[f, g, j], [other_f, other_g, other_j]],
            clip: self.clip,
            coupled: self.coupled,
        };
        let recurrence = Recurrence::new(&spec, weights, checker.isa).map_err(refused("hidden"))?;
        let has = [given.is_some(), own.is_some(), initial.is_some(), lengths.is_some()];
        let step = with_scratch(
            recurrence,
            Recurrence::scratch_bytes,
            move |recurrence, [input, weights, vectors, initial, lengths], write, scratch, pool| {
                let [has_weights, has_vectors, has_initial, has_lengths] = has;
                let floats = |has: bool, bytes| if has { elements(bytes).map(Some) } else { Ok(None) };
                let sequences = Sequences {
                    input: elements(input)?,
                    weights: floats(has_weights, weights)?,
                    vectors: floats(has_vectors, vectors)?,
                    initial: floats(has_initial, initial)?,
                    lengths: if has_lengths { Some(elements(lengths)?) } else { None },
                };
                recurrence.run(&sequences, elements_mut(write)?, scratch, pool)
            },
        );
        checker.finish_some([Some(input), given, own, initial, lengths], &output, false, step)
    }
}
