//! Which buffers are alive together: every pair, found by one walk in order of time.

use super::Buffer;
use crate::events::{Event, events};

/// Pairs that are always listed.
const FEW: u64 = 1 << 19;
/// Pairs per buffer that are listed of any number of buffers. Networks have two to five.
const EACH: u64 = 16;

/// For every buffer, those that are alive together with it.
pub(super) struct Pairs {
    /// Where in `others` each buffer's list ends; it begins where the one before it ends.
    ends: Vec<usize>,
    others: Vec<u32>,
}

impl Pairs {
    /// `None` when there are more than the work is worth.
    pub(super) fn new(buffers: &[Buffer]) -> Option<Self> {
        let most = FEW.max(EACH.saturating_mul(buffers.len() as u64));
        u32::try_from(buffers.len()).ok()?;
        let events = events(buffers, |_| true);
        let (mut live, mut count) = (0_u64, 0_u64);
        for &Event { starts, .. } in &events {
            if starts {
                count = count.saturating_add(live);
                live += 1;
            } else {
                live -= 1;
            }
        }
        if count > most {
            return None;
        }
        // One pass counts each list, a second one fills it.
        let mut lengths = vec![0_usize; buffers.len()];
        each_pair(&events, |a, b| {
            lengths[a as usize] += 1;
            lengths[b as usize] += 1;
        });
        let mut ends: Vec<usize> = lengths
            .iter()
            .scan(0, |end, length| {
                let start = *end;
                *end += length;
                Some(start)
            })
            .collect();
        let mut others = vec![0; 2 * count as usize];
        each_pair(&events, |a, b| {
            for (own, other) in [(a, b), (b, a)] {
                others[ends[own as usize]] = other;
                ends[own as usize] += 1;
            }
        });
        Some(Self { ends, others })
    }

    /// The buffers that are alive together with this one.
    pub(super) fn of(&self, index: usize) -> &[u32] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.others[start..self.ends[index]]
    }
}

/// Calls `pair` once for any two buffers that are alive together.
fn each_pair(events: &[Event], mut pair: impl FnMut(u32, u32)) {
    let mut live: Vec<u32> = Vec::new();
    let mut places = vec![0_usize; events.len() / 2];
    for &Event { starts, index, .. } in events {
        if starts {
            let index = index as u32;
            for &other in &live {
                pair(index, other);
            }
            places[index as usize] = live.len();
            live.push(index);
        } else {
            let place = places[index];
            live.swap_remove(place);
            if let Some(&moved) = live.get(place) {
                places[moved as usize] = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pairs_are_those_that_coexist(raw in prop::collection::vec((0_u64..30, 1_u64..10), 0..40)) {
            let buffers: Vec<Buffer> = raw
                .into_iter()
                .map(|(lower, life)| Buffer { lower, upper: lower + life, size: 1, alignment: 1 })
                .collect();
            let pairs = Pairs::new(&buffers).unwrap();
            for (index, buffer) in buffers.iter().enumerate() {
                let mut found = pairs.of(index).to_vec();
                found.sort_unstable();
                let coexists = |&other: &usize| other != index && buffers[other].coexists(buffer);
                let expected: Vec<u32> =
                    (0..buffers.len()).filter(coexists).map(|other| other as u32).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn too_many_pairs_are_not_listed() {
        let all_alive = |count: u64| -> Vec<Buffer> {
            (0..count).map(|i| Buffer { lower: i, upper: 10_000 + i, size: 64, alignment: 64 }).collect()
        };
        assert!(Pairs::new(&all_alive(1000)).is_some());
        assert!(Pairs::new(&all_alive(2000)).is_none());
    }
}
