//! Who holds which range. Plain bookkeeping: knows no bytes.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::Instant,
};

use triune_fork::{Brief, Forked, Origin};
use triune_kernels::cancel::{self, GLANCE, NoLock};

use super::RangeAccess;

/// Why a request cannot be met.
#[derive(Debug)]
pub(super) enum Conflict {
    /// For now: a range stands against it.
    Busy { wanted: RangeAccess, held: RangeAccess },
    /// For good: so does one of a thread that is not in this process.
    Forked,
}

/// A range of a lease.
#[derive(Debug)]
struct Held {
    lease: u64,
    /// The process that the holder is in.
    origin: Origin,
    range: RangeAccess,
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
    held: Vec<Held>,
    /// Threads that look again when a lease ends.
    waiting: Vec<Thread>,
    watched: Vec<Watched>,
}

/// The leases and watches of a memory.
#[derive(Debug, Default)]
pub(super) struct LeaseTable {
    state: Brief<State>,
}

impl LeaseTable {
    /// Records a lease on all of `ranges`, which are in bounds and disjoint where one is exclusive.
    pub(super) fn acquire(&self, ranges: &[RangeAccess]) -> Result<u64, Conflict> {
        let mut state = self.state.lock();
        state.conflict(ranges)?;
        Ok(state.grant(ranges))
    }

    /// As [`Self::acquire`], but waits until nothing conflicts, or the work that waits is stopped.
    pub(super) fn acquire_wait(&self, ranges: &[RangeAccess]) -> Result<u64, NoLock> {
        // Who need not wait reads no clock.
        let mut asked = None;
        loop {
            let mut state = self.state.lock();
            match state.conflict(ranges) {
                Ok(()) => return Ok(state.grant(ranges)),
                Err(Conflict::Forked) => return Err(Forked.into()),
                Err(Conflict::Busy { .. }) => {
                    let own = thread::current();
                    state.waiting.retain(|each| each.id() != own.id());
                    state.waiting.push(own);
                }
            }
            drop(state);
            let since = *asked.get_or_insert_with(Instant::now);
            thread::park_timeout(GLANCE);
            if since.elapsed() >= GLANCE {
                if cancel::requested_waiting() {
                    return Err(NoLock::Cancelled);
                }
                asked = None;
            }
        }
    }

    /// Ends a lease.
    pub(super) fn release(&self, id: u64) {
        let mut state = self.state.lock();
        state.held.retain(|held| held.lease != id);
        state.waiting.drain(..).for_each(|thread| thread.unpark());
    }

    /// A counter that every later exclusive lease on one of `ranges` raises.
    pub(super) fn watch(&self, ranges: &[RangeAccess]) -> Arc<AtomicU64> {
        let generation = Arc::new(AtomicU64::new(0));
        let mut state = self.state.lock();
        state.watched.retain(|watched| watched.generation.strong_count() > 0);
        state.watched.push(Watched { ranges: ranges.into(), generation: Arc::downgrade(&generation) });
        generation
    }
}

impl State {
    fn conflict(&self, ranges: &[RangeAccess]) -> Result<(), Conflict> {
        let conflicts = ranges.iter().flat_map(|&wanted| {
            let stands_against = move |held: &&Held| {
                held.range.overlaps(&wanted) && (held.range.exclusive || wanted.exclusive)
            };
            self.held.iter().filter(stands_against).map(move |held| (wanted, held))
        });
        let mut busy = Ok(());
        for (wanted, held) in conflicts {
            if !held.origin.is_here() {
                return Err(Conflict::Forked);
            }
            busy = busy.and(Err(Conflict::Busy { wanted, held: held.range }));
        }
        busy
    }

    fn grant(&mut self, ranges: &[RangeAccess]) -> u64 {
        let id = self.next;
        self.next += 1;
        let origin = Origin::here();
        self.held.extend(ranges.iter().map(|&range| Held { lease: id, origin, range }));
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
