//! Checks a plan without knowing how it was found: one walk in order of time over what is alive, by address.

use std::collections::BTreeMap;

use crate::{
    Buffer, Plan,
    events::{Event, events},
};

/// What a plan breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Not one offset per buffer.
    #[error("{offsets} offsets for {buffers} buffers")]
    Count {
        /// Offsets in the plan.
        offsets: usize,
        /// Buffers to place.
        buffers: usize,
    },
    /// An offset is not a multiple of its buffer's alignment.
    #[error("buffer {0} is misaligned")]
    Misaligned(usize),
    /// A buffer ends above the plan's peak.
    #[error("buffer {0} ends above the peak")]
    AbovePeak(usize),
    /// Two buffers that are alive in a common step share bytes.
    #[error("buffers {0} and {1} are alive together and overlap")]
    Overlap(usize, usize),
}

/// Checks alignment, peak and disjointness of every pair of buffers that are alive together. A buffer without bytes shares
/// none.
pub fn validate(buffers: &[Buffer], plan: &Plan) -> Result<(), Violation> {
    if plan.offsets.len() != buffers.len() {
        return Err(Violation::Count { offsets: plan.offsets.len(), buffers: buffers.len() });
    }
    for (index, (buffer, &offset)) in buffers.iter().zip(&plan.offsets).enumerate() {
        if offset % buffer.alignment != 0 {
            return Err(Violation::Misaligned(index));
        }
        if offset.checked_add(buffer.size).is_none_or(|end| end > plan.peak) {
            return Err(Violation::AbovePeak(index));
        }
    }
    let events = events(buffers, |buffer| buffer.size > 0 && buffer.lower < buffer.upper);
    // What is alive, by offset. As long as all of it is disjoint, only the nearest ones can touch what comes.
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    for Event { starts, index, .. } in events {
        let (start, end) = (plan.offsets[index], plan.offsets[index] + buffers[index].size);
        if !starts {
            live.remove(&start);
            continue;
        }
        if let Some((&at, &other)) = live.range(..end).next_back()
            && start < at + buffers[other].size
        {
            return Err(Violation::Overlap(index.min(other), index.max(other)));
        }
        live.insert(start, index);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: every pair.
    fn overlap(buffers: &[Buffer], offsets: &[u64], a: usize, b: usize) -> bool {
        let ends = |index: usize| offsets[index] + buffers[index].size;
        a != b
            && buffers[a].coexists(&buffers[b])
            && buffers[a].size.min(buffers[b].size) > 0
            && offsets[a] < ends(b)
            && offsets[b] < ends(a)
    }

    proptest! {
        #[test]
        fn agrees_with_every_pair(
            raw in prop::collection::vec((0_u64..12, 1_u64..6, 0_u64..4, 0_u64..16), 0..12),
        ) {
            let buffers: Vec<Buffer> = raw
                .iter()
                .map(|&(lower, life, size, _)| Buffer { lower, upper: lower + life, size, alignment: 1 })
                .collect();
            let offsets: Vec<u64> = raw.iter().map(|&(.., offset)| offset).collect();
            let all = || (0..buffers.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
            let any = all().any(|(a, b)| overlap(&buffers, &offsets, a, b));
            let plan = Plan { offsets, peak: 32, lower_bound: 0, proven_optimal: false };
            match validate(&buffers, &plan) {
                Ok(()) => prop_assert!(!any),
                Err(Violation::Overlap(a, b)) => {
                    prop_assert!(a < b && overlap(&buffers, &plan.offsets, a, b));
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn names_each_fault() {
        let buffers = [
            Buffer { lower: 0, upper: 2, size: 64, alignment: 64 },
            Buffer { lower: 1, upper: 3, size: 64, alignment: 64 },
        ];
        let plan = |offsets: [u64; 2], peak| Plan {
            offsets: offsets.to_vec(),
            peak,
            lower_bound: 128,
            proven_optimal: false,
        };
        assert_eq!(validate(&buffers, &plan([0, 64], 128)), Ok(()));
        assert_eq!(validate(&buffers, &plan([0, 32], 128)), Err(Violation::Misaligned(1)));
        assert_eq!(validate(&buffers, &plan([64, 0], 100)), Err(Violation::AbovePeak(0)));
        assert_eq!(validate(&buffers, &plan([0, 0], 128)), Err(Violation::Overlap(0, 1)));
        let short = Plan { offsets: vec![0], peak: 64, lower_bound: 128, proven_optimal: false };
        assert_eq!(validate(&buffers, &short), Err(Violation::Count { offsets: 1, buffers: 2 }));
    }
}
