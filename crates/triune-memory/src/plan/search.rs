//! Exact search: are there offsets for all items below one capacity?
//!
//! Depth first, bottom up. A solution in which nothing can sink is found by placing items in the order of
//! (offset, rank), each at the lowest offset that the items below it leave: only such canonical solutions are looked
//! at. Cuts, each of which leaves at least one canonical solution if there is any:
//!
//! 1. Section inference: the floor of a section, the lowest offset any unplaced item in it can have, plus the sizes
//!    of those items must not pass the capacity.
//! 2. Monotonic floor: no item goes below the one placed last, so that offset is a floor everywhere.
//! 3. Dominance: an item is not placed at or above the height that another unplaced item could reach, since that one
//!    would fit below and sink.
//! 4. Hatless: when placing an item lifts nothing and still fails, the item is not to blame; go back.
//! 5. Decomposition: where no unplaced item spans two sections, both sides are solved on their own.
//! 6. Memory: a part that failed with the same items at the same least offsets fails again.

use std::time::Instant;

use super::sections::Sections;

/// Stands for no offset.
const NOWHERE: u64 = u64::MAX;
/// Placements between two looks at the clock.
const CLOCK: u64 = 1024;
/// log2 of the failed parts remembered.
const MEMORY: u32 = 16;

/// By what items rank, most significant first: greatest first, ties by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Steps alive.
    Width,
    /// Size times steps.
    Area,
    /// The most unplaced bytes in any of the item's sections.
    Total,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Found,
    Infeasible,
    /// Out of placements.
    Exhausted,
    /// Out of time.
    Late,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Least(u32, u64),
    Floor(u32, u64),
    Rank(u32, u32),
    Placed(u32),
}

/// Unplaced items `active[from..to]`, which live in sections `first..last` only.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: usize,
    to: usize,
    first: u32,
    last: u32,
}

/// The state of one search. Reused for several orders and limits: what is remembered of failed parts holds for
/// all of them.
pub(super) struct Search<'a> {
    sections: &'a Sections,
    capacity: u64,
    /// The capacity, padded as the items are.
    ceiling: u64,
    keys: [Key; 3],
    noise: u64,
    tried: u64,
    limit: u64,
    deadline: Option<Instant>,
    late: bool,
    /// Per item: its offset or `NOWHERE`, the least it can have, its rank.
    offset: Vec<u64>,
    least: Vec<u64>,
    rank: Vec<u32>,
    /// Per section: lowest offset any unplaced item can have, and the sum of their sizes.
    floor: Vec<u64>,
    total: Vec<u64>,
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    /// Per pair of neighbouring sections: unplaced items that live in both.
    bridges: Vec<u32>,
    /// Unplaced items, and where each is.
    active: Vec<u32>,
    position: Vec<u32>,
    candidates: Vec<(u64, u32, u32)>,
    trail: Vec<Change>,
    failed: Vec<(u64, u64)>,
}

impl<'a> Search<'a> {
    /// Ready to search below `capacity`, which with the largest alignment stays below 2^63.
    pub(super) fn new(sections: &'a Sections, capacity: u64, deadline: Option<Instant>) -> Self {
        let (items, count) = (sections.items.len(), sections.members.len());
        Self {
            sections,
            capacity,
            ceiling: capacity.next_multiple_of(sections.grain),
            keys: [Key::Width, Key::Area, Key::Total],
            noise: 0,
            tried: 0,
            limit: 0,
            deadline,
            late: false,
            offset: vec![NOWHERE; items],
            least: vec![0; items],
            rank: vec![0; items],
            floor: vec![0; count],
            total: vec![0; count],
            dirty: Vec::new(),
            is_dirty: vec![false; count],
            bridges: vec![0; count],
            active: (0..items as u32).collect(),
            position: (0..items as u32).collect(),
            candidates: Vec::new(),
            trail: Vec::new(),
            failed: vec![(0, 0); 1 << MEMORY],
        }
    }

    /// Offsets of all items, after `Found`.
    pub(super) fn offsets(&self) -> &[u64] {
        &self.offset
    }

    /// Placements tried since the start.
    pub(super) fn tried(&self) -> u64 {
        self.tried
    }

    /// Searches from nothing with ranks by `keys`, disturbed when `noise` is not 0, for at most `limit`
    /// placements.
    pub(super) fn run(&mut self, keys: [Key; 3], noise: u64, limit: u64) -> Verdict {
        (self.keys, self.noise, self.limit) = (keys, noise, self.tried.saturating_add(limit));
        self.offset.fill(NOWHERE);
        self.least.fill(0);
        self.floor.fill(0);
        self.total.fill(0);
        self.bridges.fill(0);
        self.candidates.clear();
        self.trail.clear();
        for item in &self.sections.items {
            if item.size - item.pad > self.capacity {
                return Verdict::Infeasible;
            }
            for section in item.first..item.last {
                self.total[section as usize] += item.size;
                self.bridges[section as usize] += u32::from(section + 1 < item.last);
            }
        }
        if self.total.iter().any(|&total| total > self.ceiling) {
            return Verdict::Infeasible;
        }
        let all = Part { from: 0, to: self.active.len(), first: 0, last: self.total.len() as u32 };
        let cuts: Vec<u32> = (0..all.last)
            .filter(|&section| self.bridges[section as usize] == 0)
            .map(|section| section + 1)
            .collect();
        self.split(all, &cuts)
    }

    /// Solves the parts between the cuts one by one.
    fn split(&mut self, part: Part, cuts: &[u32]) -> Verdict {
        let mut parts = Vec::with_capacity(cuts.len() + 1);
        let (mut from, mut first) = (part.from, part.first);
        for &cut in cuts.iter().chain([&part.last]) {
            if cut == first {
                continue;
            }
            let mut to = from;
            for at in from..part.to {
                let item = self.active[at];
                if self.sections.items[item as usize].first < cut {
                    self.swap(at, to);
                    to += 1;
                }
            }
            if to > from {
                parts.push(Part { from, to, first, last: cut });
            }
            (from, first) = (to, cut);
        }
        // The tightest first: it fails soonest.
        let slack = |part: &Part| {
            (part.first..part.last)
                .filter(|&section| self.total[section as usize] > 0)
                .map(|section| self.ceiling - self.floor[section as usize] - self.total[section as usize])
                .min()
        };
        parts.sort_by_key(slack);
        for each in parts {
            let state = self.state(each);
            let slot = state.0 as usize & ((1 << MEMORY) - 1);
            if self.failed[slot] == state {
                return Verdict::Infeasible;
            }
            self.order(each);
            let verdict = self.step(each, 0, 0);
            if verdict == Verdict::Infeasible {
                self.failed[slot] = state;
            }
            if verdict != Verdict::Found {
                return verdict;
            }
        }
        Verdict::Found
    }

    /// Ranks the items of a part.
    fn order(&mut self, part: Part) {
        let mut keyed: Vec<([u128; 3], u32)> = self.active[part.from..part.to]
            .iter()
            .map(|&number| {
                let item = &self.sections.items[number as usize];
                let value = |key| match key {
                    Key::Width => u128::from(item.width),
                    Key::Area => u128::from(item.width) * u128::from(item.size),
                    Key::Total => u128::from(
                        self.total[item.first as usize..item.last as usize]
                            .iter()
                            .copied()
                            .max()
                            .unwrap_or(0),
                    ),
                };
                (self.keys.map(value), number)
            })
            .collect();
        if self.noise != 0 {
            for (keys, number) in &mut keyed {
                let random = mix(self.noise, u64::from(*number)) >> 56;
                keys[0] = keys[0] * u128::from(768 + random) / 1024;
            }
        }
        keyed.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (rank, &(_, number)) in keyed.iter().enumerate() {
            self.trail.push(Change::Rank(number, self.rank[number as usize]));
            self.rank[number as usize] = rank as u32;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.active.swap(a, b);
        self.position[self.active[a] as usize] = a as u32;
        self.position[self.active[b] as usize] = b as u32;
    }

    /// A fingerprint of a part's items and their least offsets.
    fn state(&self, part: Part) -> (u64, u64) {
        let (mut low, mut high) = (0_u64, 0_u64);
        for &item in &self.active[part.from..part.to] {
            let least = self.least[item as usize];
            low = low.wrapping_add(mix(least, u64::from(item) + 1));
            high = high.wrapping_add(mix(least ^ 0x5851_f42d_4c95_7f2d, u64::from(item) + 0x1_0000_0001));
        }
        (low, high)
    }

    /// Places all items of a part at or above (`offset`, `rank`).
    fn step(&mut self, part: Part, offset: u64, rank: u32) -> Verdict {
        if part.from == part.to {
            return Verdict::Found;
        }
        let mut reach = u64::MAX;
        for &item in &self.active[part.from..part.to] {
            reach = reach.min(self.least[item as usize] + self.sections.items[item as usize].size);
        }
        let base = self.candidates.len();
        for &item in &self.active[part.from..part.to] {
            let (least, own) = (self.least[item as usize], self.rank[item as usize]);
            if least < reach && (least, own) >= (offset, rank) {
                self.candidates.push((least, own, item));
            }
        }
        self.candidates[base..].sort_unstable();
        for at in base..self.candidates.len() {
            let (least, own, item) = self.candidates[at];
            if self.tried >= self.limit {
                return Verdict::Exhausted;
            }
            self.tried += 1;
            if self.tried.is_multiple_of(CLOCK)
                && self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            {
                self.late = true;
            }
            if self.late {
                return Verdict::Late;
            }
            let mark = self.trail.len();
            let lifted = self.place(item, least, part);
            if let Some(rest) = lifted.map(|_| Part { to: part.to - 1, ..part })
                && self.clears(rest, least)
            {
                let verdict = self.descend(rest, item, least, own);
                if verdict != Verdict::Infeasible {
                    return verdict;
                }
            }
            self.undo(mark);
            if lifted == Some(false) {
                break;
            }
        }
        self.candidates.truncate(base);
        Verdict::Infeasible
    }

    /// Goes on after `item` was placed: with what is left, or with its parts.
    fn descend(&mut self, rest: Part, item: u32, offset: u64, rank: u32) -> Verdict {
        let item = &self.sections.items[item as usize];
        let mut cuts = Vec::new();
        for section in item.first..item.last - 1 {
            if self.bridges[section as usize] == 0 {
                cuts.push(section + 1);
            }
        }
        if cuts.is_empty() { self.step(rest, offset, rank) } else { self.split(rest, &cuts) }
    }

    /// Whether every section of a part still has room above `offset`.
    fn clears(&self, part: Part, offset: u64) -> bool {
        let range = part.first as usize..part.last as usize;
        self.floor[range.clone()]
            .iter()
            .zip(&self.total[range])
            .all(|(&floor, &total)| total == 0 || floor.max(offset) + total <= self.ceiling)
    }

    /// Places an item and lifts what lies over it. `None` when that cannot end well, else whether anything was
    /// lifted.
    fn place(&mut self, number: u32, offset: u64, part: Part) -> Option<bool> {
        let item = self.sections.items[number as usize];
        let height = offset + item.size;
        self.trail.push(Change::Placed(number));
        self.offset[number as usize] = offset;
        self.swap(self.position[number as usize] as usize, part.to - 1);
        for section in item.first..item.last {
            let index = section as usize;
            self.total[index] -= item.size;
            self.bridges[index] -= u32::from(section + 1 < item.last);
            if self.total[index] > 0 {
                self.is_dirty[index] = true;
                self.dirty.push(section);
            }
        }
        let mut lifted = false;
        let mut possible = true;
        for &other in &self.sections.overlaps[number as usize] {
            let least = self.least[other as usize];
            if self.offset[other as usize] != NOWHERE || least >= height {
                continue;
            }
            let over = &self.sections.items[other as usize];
            let raised = (height + (over.alignment - 1)) & !(over.alignment - 1);
            self.trail.push(Change::Least(other, least));
            self.least[other as usize] = raised;
            lifted = true;
            if raised + (over.size - over.pad) > self.capacity {
                possible = false;
                break;
            }
            for section in over.first..over.last {
                let index = section as usize;
                if least <= self.floor[index] && !self.is_dirty[index] {
                    self.is_dirty[index] = true;
                    self.dirty.push(section);
                }
            }
        }
        while let Some(section) = self.dirty.pop() {
            let index = section as usize;
            self.is_dirty[index] = false;
            if !possible {
                continue;
            }
            let floor = self.sections.members[index]
                .iter()
                .filter(|&&member| self.offset[member as usize] == NOWHERE)
                .map(|&member| self.least[member as usize])
                .min()
                .unwrap_or(0);
            if floor > self.floor[index] {
                self.trail.push(Change::Floor(section, self.floor[index]));
                self.floor[index] = floor;
                possible = floor + self.total[index] <= self.ceiling;
            }
        }
        possible.then_some(lifted)
    }

    /// Takes back all changes after `mark`.
    fn undo(&mut self, mark: usize) {
        while self.trail.len() > mark {
            match self.trail.pop() {
                Some(Change::Least(item, least)) => self.least[item as usize] = least,
                Some(Change::Rank(item, rank)) => self.rank[item as usize] = rank,
                Some(Change::Floor(section, floor)) => self.floor[section as usize] = floor,
                Some(Change::Placed(number)) => {
                    self.offset[number as usize] = NOWHERE;
                    let item = &self.sections.items[number as usize];
                    for section in item.first..item.last {
                        self.total[section as usize] += item.size;
                        self.bridges[section as usize] += u32::from(section + 1 < item.last);
                    }
                }
                None => {}
            }
        }
    }
}

/// Two words to one, every bit depending on all.
fn mix(a: u64, b: u64) -> u64 {
    let product =
        u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b.wrapping_mul(0xd6e8_feb8_6659_fd93) | 1);
    let folded = (product as u64 ^ (product >> 64) as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
    folded ^ (folded >> 32)
}
