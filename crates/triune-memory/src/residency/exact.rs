//! The optimum by dynamic programming over time: what has been decided matters later only through what is still
//! alive, so of two decisions with the same live set the less valuable one is forgotten.

use std::collections::BTreeMap;

use super::Task;

/// Live sets kept per step. Real networks have tens; beyond this the least promising are dropped and the bound says so.
const MOST: usize = 2_000;

/// A decision and what it came after.
struct Taken {
    index: usize,
    before: usize,
}

/// The best decisions with one live set.
#[derive(Clone, Copy)]
struct Best {
    value: u64,
    /// Bytes alive.
    used: u64,
    /// Number of the last `Taken`.
    last: usize,
}

const NOTHING: usize = usize::MAX;

/// The most valuable set of which no more than the capacity is ever alive, and a bound on the value of all such sets,
/// which is its value unless there were too many live sets. `known` is such a set, to start from.
pub(super) fn optimum(task: &Task, known: &[bool]) -> (Vec<bool>, u64) {
    let mut order: Vec<usize> =
        (0..task.buffers.len()).filter(|&index| task.buffers[index].size <= task.capacity).collect();
    order.sort_by_key(|&index| (task.buffers[index].lower, index));
    let mut ahead: u64 = order.iter().map(|&index| task.values[index]).sum();
    let floor = task.worth(known);
    let mut bound = floor;
    let mut taken: Vec<Taken> = Vec::new();
    let mut states: BTreeMap<Vec<u32>, Best> = BTreeMap::new();
    states.insert(Vec::new(), Best { value: 0, used: 0, last: NOTHING });
    for &index in &order {
        let (start, size, value) = (task.buffers[index].lower, task.sizes[index], task.values[index]);
        let mut next: BTreeMap<Vec<u32>, Best> = BTreeMap::new();
        let mut keep = |live: Vec<u32>, best: Best| {
            let entry = next.entry(live).or_insert(best);
            if best.value > entry.value {
                *entry = best;
            }
        };
        for (mut live, mut best) in states {
            // What cannot get above the known set is not followed.
            if best.value + ahead <= floor {
                continue;
            }
            live.retain(|&other| {
                let stays = task.buffers[other as usize].upper > start;
                best.used -= if stays { 0 } else { task.sizes[other as usize] };
                stays
            });
            if best.used + size <= task.room {
                let mut with = live.clone();
                with.push(index as u32);
                taken.push(Taken { index, before: best.last });
                keep(with, Best { value: best.value + value, used: best.used + size, last: taken.len() - 1 });
            }
            keep(live, best);
        }
        ahead -= value;
        if next.len() > MOST {
            let mut values: Vec<u64> = next.values().map(|best| best.value).collect();
            values.sort_unstable_by(|a, b| b.cmp(a));
            let least = values[MOST - 1];
            next.retain(|_, best| {
                if best.value < least {
                    bound = bound.max(best.value + ahead);
                }
                best.value >= least
            });
        }
        states = next;
    }
    let best = states.into_values().max_by_key(|best| best.value).filter(|best| best.value > floor);
    let Some(best) = best else { return (known.to_vec(), bound) };
    let mut set = vec![false; task.buffers.len()];
    let mut last = best.last;
    while let Some(step) = taken.get(last) {
        set[step.index] = true;
        last = step.before;
    }
    (set, bound.max(best.value))
}
