//! The quick policies. Each gives a set of which no more than the capacity is ever alive.

use std::cmp::Ordering;

use super::Task;

/// Sets that a knapsack keeps; beyond that the least valuable are dropped.
const FRONT: usize = 4096;

impl Task {
    /// Compares scores, value / (size × steps), without dividing.
    pub(super) fn by_score(&self, a: usize, b: usize) -> Ordering {
        let room = |index: usize| {
            let buffer = &self.buffers[index];
            u128::from(buffer.size.max(1)) * u128::from(buffer.upper - buffer.lower)
        };
        // 64-bit values times 128-bit rooms: the quotients decide, then the remainders' order matters little.
        let scaled = |index: usize| (u128::from(self.values[index]) << 64) / room(index).max(1);
        scaled(a).cmp(&scaled(b)).then(self.values[a].cmp(&self.values[b])).then(b.cmp(&a))
    }
}

/// Global scoring.
pub(super) fn option1(task: &Task) -> Vec<bool> {
    let mut order: Vec<usize> = (0..task.buffers.len()).collect();
    order.sort_by(|&a, &b| task.by_score(b, a));
    let mut set = vec![false; order.len()];
    for index in order {
        set[index] = task.fits(&set, index);
    }
    set
}

/// A knapsack per step, the fullest first. What one step has decided stands in all others.
pub(super) fn option2(task: &Task) -> Vec<bool> {
    let count = task.buffers.len();
    let live = |step: u64| {
        (0..count).filter(move |&index| task.buffers[index].lower <= step && step < task.buffers[index].upper)
    };
    let mut steps: Vec<u64> = task.buffers.iter().map(|buffer| buffer.lower).collect();
    steps.sort_unstable();
    steps.dedup();
    steps.sort_by_cached_key(|&step| {
        std::cmp::Reverse(live(step).map(|index| task.sizes[index]).sum::<u64>())
    });
    let (mut set, mut decided) = (vec![false; count], vec![false; count]);
    for step in steps {
        let taken: u64 = live(step).filter(|&index| set[index]).map(|index| task.sizes[index]).sum();
        let open: Vec<usize> =
            live(step).filter(|&index| !decided[index] && task.fits(&set, index)).collect();
        let mut chosen = knapsack(task, &open, task.room - taken);
        chosen.sort_by(|&a, &b| task.by_score(b, a));
        for index in chosen {
            set[index] = task.fits(&set, index);
        }
        live(step).for_each(|index| decided[index] = true);
    }
    set
}

/// The most valuable of `open` with at most `room` bytes in all.
fn knapsack(task: &Task, open: &[usize], room: u64) -> Vec<usize> {
    // (size, value, last taken and the set before it), none smaller and more valuable than another.
    let mut sets: Vec<(usize, usize)> = vec![(usize::MAX, usize::MAX)];
    let mut front: Vec<(u64, u64, usize)> = vec![(0, 0, 0)];
    for &index in open {
        let mut next = front.clone();
        for &(size, value, before) in &front {
            let size = size + task.sizes[index];
            if size <= room {
                sets.push((index, before));
                next.push((size, value + task.values[index], sets.len() - 1));
            }
        }
        next.sort_unstable_by_key(|&(size, value, _)| (size, std::cmp::Reverse(value)));
        let mut most = None;
        next.retain(|&(_, value, _)| {
            let better = most.is_none_or(|most| value > most);
            most = most.max(Some(value));
            better
        });
        if next.len() > FRONT {
            next.drain(..next.len() - FRONT);
        }
        front = next;
    }
    let mut chosen = Vec::new();
    let mut at = front.last().map_or(0, |&(_, _, set)| set);
    while sets[at].0 != usize::MAX {
        chosen.push(sets[at].0);
        at = sets[at].1;
    }
    chosen
}

/// A walk in order of time that lets the lower scores go.
pub(super) fn option3(task: &Task) -> Vec<bool> {
    let mut order: Vec<usize> = (0..task.buffers.len()).collect();
    order.sort_by_key(|&index| (task.buffers[index].lower, index));
    let mut set = vec![false; order.len()];
    let mut live: Vec<usize> = Vec::new();
    for index in order {
        live.retain(|&other| task.buffers[other].upper > task.buffers[index].lower);
        if task.buffers[index].size > task.capacity {
            continue;
        }
        // Everything live ends later or now, so the fullest step of this buffer is its first.
        let mut used: u64 = live.iter().map(|&other| task.sizes[other]).sum();
        live.sort_by(|&a, &b| task.by_score(b, a));
        let mut keep = live.len();
        while used + task.sizes[index] > task.room && keep > 0 && task.by_score(live[keep - 1], index).is_lt()
        {
            keep -= 1;
            used -= task.sizes[live[keep]];
        }
        if used + task.sizes[index] <= task.room {
            live.drain(keep..).for_each(|other| set[other] = false);
            live.push(index);
            set[index] = true;
        }
    }
    set
}
