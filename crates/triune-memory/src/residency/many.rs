//! The choice among very many buffers: one walk in order of time, and what it takes to place its set.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use super::{Policy, Residency, Task};
use crate::{Buffer, plan};

/// Shares of the capacity, in sixteenths, that the set may fill before it is placed: where placing wastes too much, less is
/// tried.
const SHARES: [u64; 6] = [16, 15, 14, 12, 8, 4];

/// As [`super::choose`].
pub(super) fn choose(task: &Task, policy: Policy) -> Option<Residency> {
    let fits = |index: &usize| task.buffers[*index].size <= task.capacity;
    let bound = (0..task.buffers.len()).filter(fits).map(|index| task.values[index]).sum();
    let nothing = Residency { offsets: vec![None; task.buffers.len()], peak: 0, value: 0, bound };
    if policy == Policy::None {
        return Some(nothing);
    }
    let ranks = ranks(task);
    for share in SHARES {
        let room = (u128::from(task.room) * u128::from(share) / 16) as u64;
        let set = walk(task, &ranks, room);
        let chosen: Vec<usize> = (0..set.len()).filter(|&index| set[index]).collect();
        let buffers: Vec<Buffer> = chosen.iter().map(|&index| task.buffers[index]).collect();
        let placed = plan(&buffers)?;
        if placed.peak <= task.capacity {
            let mut offsets = nothing.offsets;
            for (&index, &offset) in chosen.iter().zip(&placed.offsets) {
                offsets[index] = Some(offset);
            }
            return Some(Residency { offsets, peak: placed.peak, value: task.worth(&set), bound });
        }
    }
    Some(nothing)
}

/// The place of each buffer among all by rising score.
fn ranks(task: &Task) -> Vec<usize> {
    let mut order: Vec<usize> = (0..task.buffers.len()).collect();
    order.sort_by(|&a, &b| task.by_score(a, b));
    let mut ranks = vec![0; order.len()];
    for (rank, index) in order.into_iter().enumerate() {
        ranks[index] = rank;
    }
    ranks
}

/// Takes each buffer for which there is room, or can be made by letting go of lower scores.
fn walk(task: &Task, ranks: &[usize], room: u64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..task.buffers.len()).collect();
    order.sort_by_key(|&index| (task.buffers[index].lower, index));
    let mut set = vec![false; order.len()];
    let mut live: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut used = 0_u64;
    for index in order {
        while let Some(&Reverse((upper, ended))) = ends.peek()
            && upper <= task.buffers[index].lower
        {
            ends.pop();
            used -= if live.remove(&(ranks[ended], ended)) { task.sizes[ended] } else { 0 };
        }
        if task.buffers[index].size > task.capacity || task.sizes[index] > room {
            continue;
        }
        let mut gone = Vec::new();
        let mut left = used;
        for &(rank, other) in &live {
            if left + task.sizes[index] <= room || rank > ranks[index] {
                break;
            }
            left -= task.sizes[other];
            gone.push((rank, other));
        }
        if left + task.sizes[index] > room {
            continue;
        }
        for each in gone {
            live.remove(&each);
            set[each.1] = false;
        }
        used = left + task.sizes[index];
        set[index] = true;
        live.insert((ranks[index], index));
        ends.push(Reverse((task.buffers[index].upper, index)));
    }
    set
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::residency::{Candidate, heuristics};

    proptest! {
        #[test]
        fn the_walk_is_that_of_the_third_option(
            raw in prop::collection::vec((0_u64..30, 1_u64..10, 0_u64..50, 0_u64..4), 0..40),
            capacity in 0_u64..200,
        ) {
            let candidates: Vec<Candidate> = raw
                .into_iter()
                .map(|(lower, life, size, reads)| Candidate {
                    buffer: Buffer { lower, upper: lower + life, size, alignment: 1 },
                    reads,
                })
                .collect();
            let task = Task::new(&candidates, capacity).unwrap();
            prop_assert_eq!(walk(&task, &ranks(&task), task.room), heuristics::option3(&task));
            for policy in Policy::ALL {
                crate::residency::tests::check(&candidates, capacity, &choose(&task, policy).unwrap());
            }
        }
    }
}
