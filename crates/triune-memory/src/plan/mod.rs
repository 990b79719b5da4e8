//! Static planning: offsets for buffers whose lifespans are known before anything runs.
//!
//! Greedy placement, several orders tried, the lowest peak kept. A peak that equals the live lower bound is proven
//! optimal, the usual case on real networks. The words are those of the literature: buffer, lifespan, offset, peak.

mod search;
mod sections;
mod solve;

use std::{cmp::Reverse, collections::BTreeMap};

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
pub fn plan(buffers: &[Buffer]) -> Option<Plan> {
    if buffers.iter().any(|b| b.lower >= b.upper || !b.alignment.is_power_of_two()) {
        return None;
    }
    let lower_bound = live_lower_bound(buffers)?;
    let mut best: Option<(u64, Vec<u64>)> = None;
    for order in orders(buffers) {
        let (peak, offsets) = place(buffers, &order)?;
        if best.as_ref().is_none_or(|(lowest, _)| peak < *lowest) {
            best = Some((peak, offsets));
        }
        if peak == lower_bound {
            break;
        }
    }
    let (peak, offsets) = best?;
    Some(Plan { offsets, peak, lower_bound, proven_optimal: peak == lower_bound })
}

/// Orders in which greedy placement does well: by size, by area, by lifespan, by start.
fn orders(buffers: &[Buffer]) -> [Vec<usize>; 4] {
    let sorted = |key: &dyn Fn(&Buffer) -> (Reverse<u128>, u64)| {
        let mut order: Vec<usize> = (0..buffers.len()).collect();
        order.sort_by_key(|&index| key(&buffers[index]));
        order
    };
    let life = |b: &Buffer| u128::from(b.upper - b.lower);
    [
        sorted(&|b| (Reverse(u128::from(b.size)), b.lower)),
        sorted(&|b| (Reverse(u128::from(b.size).saturating_mul(life(b))), b.lower)),
        sorted(&|b| (Reverse(life(b)), b.lower)),
        sorted(&|b| (Reverse(0), b.lower)),
    ]
}

/// Places buffers in `order`, each at the lowest offset that is free during its whole lifespan.
fn place(buffers: &[Buffer], order: &[usize]) -> Option<(u64, Vec<u64>)> {
    let mut offsets = vec![0; buffers.len()];
    // Placed buffers in address order, so that one sweep finds the lowest gap.
    let mut placed: Vec<usize> = Vec::with_capacity(buffers.len());
    let mut peak = 0;
    for &index in order {
        let buffer = &buffers[index];
        let mut offset = 0_u64;
        for &other in placed.iter().filter(|&&other| buffers[other].coexists(buffer)) {
            if offset.checked_add(buffer.size)? <= offsets[other] {
                break;
            }
            offset = offset
                .max((offsets[other] + buffers[other].size).checked_next_multiple_of(buffer.alignment)?);
        }
        peak = peak.max(offset.checked_add(buffer.size)?);
        offsets[index] = offset;
        let at = placed.partition_point(|&other| offsets[other] <= offset);
        placed.insert(at, index);
    }
    Some((peak, offsets))
}

/// The largest sum of live sizes over all steps. All offsets are multiples of the least alignment, so what lies under
/// another buffer fills whole multiples; only the topmost one, at best the one with the most padding, need not.
fn live_lower_bound(buffers: &[Buffer]) -> Option<u64> {
    let sized = || buffers.iter().filter(|buffer| buffer.size > 0);
    let grain = sized().map(|buffer| buffer.alignment).min().unwrap_or(1);
    let mut events: Vec<(u64, bool, u64, u64)> = Vec::with_capacity(buffers.len() * 2);
    for buffer in sized() {
        let padded = buffer.size.checked_next_multiple_of(grain)?;
        events.push((buffer.lower, true, padded, padded - buffer.size));
        events.push((buffer.upper, false, padded, padded - buffer.size));
    }
    // Ends sort before starts of the same step: lifespans are half open.
    events.sort_unstable();
    let (mut live, mut most) = (0_u64, 0);
    let mut pads: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, starts, padded, pad) in events {
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
