//! Who holds which range. Plain bookkeeping: knows no bytes.

use std::sync::{
    Arc, Condvar, Mutex, PoisonError, Weak,
    atomic::{AtomicU64, Ordering},
};

use super::{RangeAccess, lock};

/// A request that cannot be met, and the range that stands against it.
#[derive(Debug)]
pub(super) struct Conflict {
    pub(super) wanted: RangeAccess,
    pub(super) held: RangeAccess,
}

#[derive(Debug)]
struct Watched {
    ranges: Box<[RangeAccess]>,
    generation: Weak<AtomicU64>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Flat, because a handful of leases is all that ever live: a scan beats any tree, and the vector's capacity stays,
    /// so that taking a lease allocates nothing after the first few.
    held: Vec<(u64, RangeAccess)>,
    watched: Vec<Watched>,
}

/// The leases and watches of a memory.
#[derive(Debug, Default)]
pub(super) struct LeaseTable {
    state: Mutex<State>,
    released: Condvar,
}

impl LeaseTable {
    /// Records a lease on all of `ranges`, which are in bounds and disjoint where one is exclusive.
    pub(super) fn acquire(&self, ranges: &[RangeAccess]) -> Result<u64, Conflict> {
        let mut state = lock(&self.state);
        match state.conflict(ranges) {
            Some(conflict) => Err(conflict),
            None => Ok(state.grant(ranges)),
        }
    }

    /// As [`Self::acquire`], but waits until nothing conflicts.
    pub(super) fn acquire_wait(&self, ranges: &[RangeAccess]) -> u64 {
        let mut state = lock(&self.state);
        while state.conflict(ranges).is_some() {
            state = self.released.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.grant(ranges)
    }

    /// Ends a lease.
    pub(super) fn release(&self, id: u64) {
        lock(&self.state).held.retain(|&(owner, _)| owner != id);
        self.released.notify_all();
    }

    /// A counter that every later exclusive lease on one of `ranges` raises.
    pub(super) fn watch(&self, ranges: &[RangeAccess]) -> Arc<AtomicU64> {
        let generation = Arc::new(AtomicU64::new(0));
        let mut state = lock(&self.state);
        state.watched.retain(|watched| watched.generation.strong_count() > 0);
        state.watched.push(Watched { ranges: ranges.into(), generation: Arc::downgrade(&generation) });
        generation
    }
}

impl State {
    fn conflict(&self, ranges: &[RangeAccess]) -> Option<Conflict> {
        ranges.iter().find_map(|&wanted| {
            self.held
                .iter()
                .find(|(_, held)| held.overlaps(&wanted) && (held.exclusive || wanted.exclusive))
                .map(|&(_, held)| Conflict { wanted, held })
        })
    }

    fn grant(&mut self, ranges: &[RangeAccess]) -> u64 {
        let id = self.next;
        self.next += 1;
        self.held.extend(ranges.iter().map(|&range| (id, range)));
        for range in ranges.iter().filter(|range| range.exclusive) {
            for watched in &self.watched {
                if watched.ranges.iter().any(|each| each.overlaps(range))
                    && let Some(generation) = watched.generation.upgrade()
                {
                    generation.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
        id
    }
}
