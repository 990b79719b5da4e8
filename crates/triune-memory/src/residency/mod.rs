//! On-chip residency: which buffers stay in a small memory, and where in it.
//!
//! The set is chosen first, by how much traffic to external memory it avoids, and then placed by the planner. A buffer
//! stays for its whole lifespan or not at all. Nothing here knows what a memory costs: bytes not moved are the value.

mod exact;
mod heuristics;
mod many;

use crate::{Buffer, Limits, Outcome, solve, validate};

/// Placements tried for the set that was chosen, and for each set that could stand in for it.
const PLACEMENTS: (u64, u64) = (50_000, 2_000);

/// More candidates than these are chosen in one walk in order of time, whatever the policy: the others compare all pairs.
const COMPARED: usize = 4096;

/// A buffer that could stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Size, lifespan and alignment.
    pub buffer: Buffer,
    /// How often all of it is read.
    pub reads: u64,
}

impl Candidate {
    /// Bytes not moved when it stays: size × (1 write + reads); saturates.
    pub fn value(&self) -> u64 {
        self.buffer.size.saturating_mul(self.reads.saturating_add(1))
    }
}

/// How the set is chosen. The vendor that offers the options does not publish its score: here it is the traffic avoided
/// per byte and step that a buffer occupies, (1 + reads) / steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Nothing stays.
    None,
    /// Global scoring: by falling score, each that still fits.
    Option1,
    /// Local optimum by dynamic programming: a knapsack over the buffers of each step, the fullest steps first.
    Option2,
    /// In order of time; where there is no room, buffers of lower score go, if that makes room.
    Option3,
    /// The most valuable set of the three options.
    BestScore,
    /// The optimum: dynamic programming over time with the live set as state.
    #[default]
    Exact,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Option1, Self::Option2, Self::Option3, Self::BestScore, Self::Exact];

    /// Its name in options and files: `none`, `option1`, `option2`, `option3`, `best_score`, `exact`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Option1 => "option1",
            Self::Option2 => "option2",
            Self::Option3 => "option3",
            Self::BestScore => "best_score",
            Self::Exact => "exact",
        }
    }

    /// The policy of that [`Self::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// What stays, where, and what that is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residency {
    /// The offset of each candidate that stays, in the order given.
    pub offsets: Vec<Option<u64>>,
    /// Bytes of the small memory that are used.
    pub peak: u64,
    /// Bytes not moved: the sum of the values of what stays.
    pub value: u64,
    /// No set is worth more.
    pub bound: u64,
}

impl Residency {
    /// Whether no set can be worth more.
    pub fn proven_optimal(&self) -> bool {
        self.value == self.bound
    }

    /// How far `value` may be below the optimum, from 0 to 1.
    pub fn gap(&self) -> f64 {
        if self.bound == 0 { 0.0 } else { 1.0 - self.value as f64 / self.bound as f64 }
    }
}

/// Chooses what stays in `capacity` bytes, and places it. `None` when a lifespan is empty, an alignment is not a power
/// of two, or the sum of sizes or of values overflows u64.
///
/// Of more than 4,096 candidates, the set is that of [`Policy::Option3`] unless nothing is to stay, and the bound the worth
/// of all that fit one by one.
pub fn choose(candidates: &[Candidate], capacity: u64, policy: Policy) -> Option<Residency> {
    let task = Task::new(candidates, capacity)?;
    if candidates.len() > COMPARED {
        return many::choose(&task, policy);
    }
    let best_score = || {
        [heuristics::option1(&task), heuristics::option2(&task), heuristics::option3(&task)]
            .into_iter()
            .max_by_key(|set| task.worth(set))
            .unwrap_or_default()
    };
    let (optimum, bound) = exact::optimum(&task, &best_score());
    let set = match policy {
        Policy::None => vec![false; candidates.len()],
        Policy::Option1 => heuristics::option1(&task),
        Policy::Option2 => heuristics::option2(&task),
        Policy::Option3 => heuristics::option3(&task),
        Policy::BestScore => best_score(),
        Policy::Exact => optimum,
    };
    let (set, offsets) = task.place(set, policy);
    let value = task.worth(&set);
    let ends =
        offsets.iter().zip(&task.buffers).filter_map(|(offset, buffer)| Some((*offset)? + buffer.size));
    let peak = ends.max().unwrap_or(0);
    Some(Residency { offsets, peak, value, bound })
}

/// The candidates, checked, as the policies see them.
struct Task {
    buffers: Vec<Buffer>,
    values: Vec<u64>,
    /// Sizes padded to the least alignment: what a set of them really takes.
    sizes: Vec<u64>,
    capacity: u64,
    /// The capacity, padded likewise: every set that can be placed has at most this much alive.
    room: u64,
}

impl Task {
    fn new(candidates: &[Candidate], capacity: u64) -> Option<Self> {
        let buffers: Vec<Buffer> = candidates.iter().map(|candidate| candidate.buffer).collect();
        if buffers.iter().any(|b| b.lower >= b.upper || !b.alignment.is_power_of_two()) {
            return None;
        }
        let grain = buffers.iter().map(|buffer| buffer.alignment).min().unwrap_or(1);
        let sizes: Vec<u64> = buffers
            .iter()
            .map(|buffer| buffer.size.checked_next_multiple_of(grain))
            .collect::<Option<_>>()?;
        let values: Vec<u64> = candidates
            .iter()
            .map(|candidate| candidate.buffer.size.checked_mul(candidate.reads.checked_add(1)?))
            .collect::<Option<_>>()?;
        let total = |all: &[u64]| all.iter().try_fold(0_u64, |sum, &each| sum.checked_add(each));
        total(&sizes)?;
        total(&values)?;
        let room = capacity.checked_next_multiple_of(grain).unwrap_or(capacity);
        Some(Self { buffers, values, sizes, capacity, room })
    }

    fn worth(&self, set: &[bool]) -> u64 {
        set.iter().zip(&self.values).filter(|(stays, _)| **stays).map(|(_, value)| value).sum()
    }

    /// Whether `index` can be alive beside a set. The most is alive at some start, so only those are looked at.
    fn fits(&self, set: &[bool], index: usize) -> bool {
        let buffer = &self.buffers[index];
        let beside: Vec<usize> = (0..set.len())
            .filter(|&other| set[other] && other != index && self.buffers[other].coexists(buffer))
            .collect();
        beside.iter().map(|&other| self.buffers[other].lower.max(buffer.lower)).chain([buffer.lower]).all(
            |step| {
                let live = beside
                    .iter()
                    .filter(|&&other| self.buffers[other].lower <= step && step < self.buffers[other].upper);
                live.map(|&other| self.sizes[other]).sum::<u64>() + self.sizes[index] <= self.room
            },
        ) && buffer.size <= self.capacity
    }

    /// Places a set; what stands in the way of that goes, the least valuable first, and whatever else still has room
    /// comes in its stead.
    fn place(&self, mut set: Vec<bool>, policy: Policy) -> (Vec<bool>, Vec<Option<u64>>) {
        if let Some(offsets) = self.offsets(&set, PLACEMENTS.0) {
            return (set, offsets);
        }
        let mut by_value: Vec<usize> = (0..set.len()).collect();
        by_value.sort_by_key(|&index| self.values[index]);
        let mut offsets = loop {
            let without = by_value.iter().filter(|&&index| set[index]).find_map(|&index| {
                let mut less = set.clone();
                less[index] = false;
                self.offsets(&less, PLACEMENTS.1).map(|offsets| (less, offsets))
            });
            if let Some((less, offsets)) = without {
                set = less;
                break offsets;
            }
            let Some(&least) = by_value.iter().find(|&&index| set[index]) else {
                break vec![None; set.len()];
            };
            set[least] = false;
        };
        if policy == Policy::Exact {
            for &index in by_value.iter().rev() {
                if !set[index] && self.fits(&set, index) {
                    set[index] = true;
                    match self.offsets(&set, PLACEMENTS.1) {
                        Some(more) => offsets = more,
                        None => set[index] = false,
                    }
                }
            }
        }
        (set, offsets)
    }

    /// Offsets for a set, if the planner finds them.
    fn offsets(&self, set: &[bool], placements: u64) -> Option<Vec<Option<u64>>> {
        let chosen: Vec<usize> = (0..set.len()).filter(|&index| set[index]).collect();
        let buffers: Vec<Buffer> = chosen.iter().map(|&index| self.buffers[index]).collect();
        let Outcome::Fits(plan) = solve(&buffers, self.capacity, Limits::placements(placements))? else {
            return None;
        };
        debug_assert_eq!(validate(&buffers, &plan), Ok(()));
        let mut offsets = vec![None; set.len()];
        for (&index, &offset) in chosen.iter().zip(&plan.offsets) {
            offsets[index] = Some(offset);
        }
        Some(offsets)
    }
}

#[cfg(test)]
mod tests;
