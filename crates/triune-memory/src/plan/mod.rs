//! Static planning: offsets for buffers whose lifespans are known before anything runs.
//!
//! Greedy placement, several orders tried, the lowest peak kept. A peak that equals the live lower bound is proven
//! optimal, the usual case on real networks. Where very many buffers are alive together, one walk in order of time
//! takes the place of the orders, whose work grows with the pairs. The words are those of the literature: buffer,
//! lifespan, offset, peak.

mod pairs;
mod search;
mod sections;
mod solve;
mod walk;

use std::{cmp::Reverse, collections::BTreeMap};

use pairs::Pairs;

use crate::events::{Event, events};

pub use solve::{Limits, Outcome, minimize, solve};

/// Something that needs `size` bytes while steps `lower..upper` run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// First step of the lifespan.
    pub lower: u64,
    /// One past the last step.
    pub upper: u64,
    /// Bytes.
    pub size: u64,
    /// The offset is a multiple of this power of two.
    pub alignment: u64,
}

impl Buffer {
    /// Whether two buffers are alive in a common step.
    pub fn coexists(&self, other: &Self) -> bool {
        self.lower < other.upper && other.lower < self.upper
    }
}

/// Offsets for a set of buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One offset per buffer, in the order given.
    pub offsets: Vec<u64>,
    /// Bytes that the plan needs.
    pub peak: u64,
    /// No plan needs less: the largest sum of live sizes over all steps, each but one padded to the least alignment.
    pub lower_bound: u64,
    /// Whether no plan can need less than `peak`.
    pub proven_optimal: bool,
}

/// Places every buffer; `None` when sizes overflow u64, a lifespan is empty or an alignment is not a power of two.
///
/// The work is near to linear in the number of buffers: more pairs of buffers that are alive together than half a million and
/// sixteen per buffer are not compared, and the plan is then that of an allocator with best fit.
pub fn plan(buffers: &[Buffer]) -> Option<Plan> {
    if buffers.iter().any(|b| b.lower >= b.upper || !b.alignment.is_power_of_two()) {
        return None;
    }
    let lower_bound = live_lower_bound(buffers)?;
    let (peak, offsets) = match Pairs::new(buffers) {
        Some(pairs) => greedy(buffers, &pairs, lower_bound)?,
        None => walk::place(buffers)?,
    };
    Some(Plan { offsets, peak, lower_bound, proven_optimal: peak == lower_bound })
}

/// The lowest peak of several orders, and its offsets.
fn greedy(buffers: &[Buffer], pairs: &Pairs, lower_bound: u64) -> Option<(u64, Vec<u64>)> {
    let mut best: Option<(u64, Vec<u64>)> = None;
    for order in orders(buffers) {
        let (peak, offsets) = place(buffers, pairs, &order)?;
        if best.as_ref().is_none_or(|(lowest, _)| peak < *lowest) {
            best = Some((peak, offsets));
        }
        if peak == lower_bound {
            break;
        }
    }
    best
}

/// Orders in which greedy placement does well: by size, by area, by lifespan, by start.
fn orders(buffers: &[Buffer]) -> impl Iterator<Item = Vec<usize>> {
    fn life(b: &Buffer) -> u128 {
        u128::from(b.upper - b.lower)
    }
    let keys: [fn(&Buffer) -> u128; 4] =
        [|b| b.size.into(), |b| u128::from(b.size).saturating_mul(life(b)), life, |_| 0];
    keys.into_iter().map(|key| {
        let mut order: Vec<usize> = (0..buffers.len()).collect();
        order.sort_by_key(|&index| (Reverse(key(&buffers[index])), buffers[index].lower));
        order
    })
}

/// Places buffers in `order`, each at the lowest offset that is free during its whole lifespan.
fn place(buffers: &[Buffer], pairs: &Pairs, order: &[usize]) -> Option<(u64, Vec<u64>)> {
    let mut offsets = vec![0; buffers.len()];
    let mut is_placed = vec![false; buffers.len()];
    // What is placed and alive together with the buffer at hand, by address: one sweep finds the lowest gap.
    let mut beside: Vec<(u64, u64)> = Vec::new();
    let mut peak = 0;
    for &index in order {
        let buffer = &buffers[index];
        beside.clear();
        let others = pairs.of(index).iter().map(|&other| other as usize).filter(|&other| is_placed[other]);
        beside.extend(others.map(|other| (offsets[other], offsets[other] + buffers[other].size)));
        beside.sort_unstable();
        let mut offset = 0_u64;
        for &(start, end) in &beside {
            if offset.checked_add(buffer.size)? <= start {
                break;
            }
            offset = offset.max(end.checked_next_multiple_of(buffer.alignment)?);
        }
        peak = peak.max(offset.checked_add(buffer.size)?);
        offsets[index] = offset;
        is_placed[index] = true;
    }
    Some((peak, offsets))
}

/// The largest sum of live sizes over all steps. All offsets are multiples of the least alignment, so what lies under
/// another buffer fills whole multiples; only the topmost one, at best the one with the most padding, need not.
fn live_lower_bound(buffers: &[Buffer]) -> Option<u64> {
    let sized = buffers.iter().filter(|buffer| buffer.size > 0);
    let grain = sized.map(|buffer| buffer.alignment).min().unwrap_or(1);
    let (mut live, mut most) = (0_u64, 0);
    let mut pads: BTreeMap<u64, usize> = BTreeMap::new();
    for Event { starts, index, .. } in events(buffers, |buffer| buffer.size > 0) {
        let padded = buffers[index].size.checked_next_multiple_of(grain)?;
        let pad = padded - buffers[index].size;
        if starts {
            live = live.checked_add(padded)?;
            *pads.entry(pad).or_default() += 1;
            most = most.max(live - pads.last_key_value().map_or(0, |(&pad, _)| pad));
        } else {
            live -= padded;
            let count = pads.entry(pad).or_default();
            *count -= 1;
            if *count == 0 {
                pads.remove(&pad);
            }
        }
    }
    Some(most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::validate;

    #[test]
    fn a_chain_needs_two_neighbours() {
        let chain: Vec<Buffer> =
            (0..10).map(|i| Buffer { lower: i, upper: i + 2, size: 64, alignment: 64 }).collect();
        let plan = plan(&chain).unwrap();
        assert_eq!((plan.peak, plan.lower_bound, plan.proven_optimal), (128, 128, true));
        assert_eq!(validate(&chain, &plan), Ok(()));
    }

    #[test]
    fn refuses_what_cannot_be() {
        let good = Buffer { lower: 0, upper: 1, size: u64::MAX, alignment: 1 };
        assert!(plan(&[Buffer { upper: 0, ..good }]).is_none());
        assert!(plan(&[Buffer { alignment: 3, ..good }]).is_none());
        assert!(plan(&[good, good]).is_none());
        assert_eq!(plan(&[]).unwrap().peak, 0);
    }

    proptest! {
        #[test]
        fn plans_are_valid(raw in prop::collection::vec((0_u64..30, 1_u64..10, 1_u64..5000, 0_u32..8), 0..60)) {
            let buffers: Vec<Buffer> = raw
                .into_iter()
                .map(|(lower, life, size, shift)| Buffer { lower, upper: lower + life, size, alignment: 1 << shift })
                .collect();
            let plan = plan(&buffers).unwrap();
            prop_assert_eq!(validate(&buffers, &plan), Ok(()));
            prop_assert!(plan.peak >= plan.lower_bound);
            prop_assert_eq!(plan.proven_optimal, plan.peak == plan.lower_bound);
        }
    }
}
