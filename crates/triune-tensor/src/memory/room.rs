//! Room for work whose many parts are allocated in the ordinary way: claimed before they are, and given back when the work
//! is done.
//!
//! A claim is asked of the system together with all others that are out, so that what one thread was promised no other one
//! is promised, too; large pieces that come from [`super`] leave it alone as well. It commits nothing.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use super::OutOfMemory;

/// Bytes of all claims of the process.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Bytes of the thread's own claims.
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// A claim to memory. It belongs to the thread that made it.
#[derive(Debug, Default)]
pub struct Room {
    claimed: u64,
    used: u64,
    /// Claims of a thread are counted by it.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Room {
    /// What a claim that has run out grows by at least: asking takes a call to the system.
    const STEP: u64 = 1 << 20;

    /// No claim yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A claim to so many bytes.
    ///
    /// # Errors
    /// When this process cannot have them beside all that is claimed.
    pub fn of(bytes: u64) -> Result<Self, OutOfMemory> {
        let mut room = Self::new();
        room.take(bytes)?;
        Ok(room)
    }

    /// Counts bytes that are about to be allocated, and claims more when the claim does not hold them: as much again as
    /// there was, so that counting small parts one by one asks seldom.
    ///
    /// # Errors
    /// When this process cannot have them beside all that is claimed. The claim stays as it was.
    pub fn take(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        let used = self.used.saturating_add(bytes);
        if used > self.claimed {
            let requested = used.max(self.claimed.saturating_mul(2)).max(Self::STEP);
            if self.claim(requested).is_err() {
                self.claim(used)?;
            }
        }
        self.used = used;
        Ok(())
    }

    fn claim(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        let more = bytes - self.claimed;
        let before = CLAIMED.fetch_add(more, Ordering::Relaxed);
        if probe(before.saturating_add(more)).is_err() {
            CLAIMED.fetch_sub(more, Ordering::Relaxed);
            return Err(OutOfMemory { bytes });
        }
        OWN.with(|own| own.set(own.get() + more));
        self.claimed = bytes;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        CLAIMED.fetch_sub(self.claimed, Ordering::Relaxed);
        OWN.with(|own| own.set(own.get() - self.claimed));
    }
}

/// Bytes that all threads have claimed now.
pub fn claimed() -> u64 {
    CLAIMED.load(Ordering::Relaxed)
}

/// Bytes that other threads have claimed.
pub(super) fn claimed_by_others() -> u64 {
    claimed().saturating_sub(OWN.with(Cell::get))
}

/// Whether the system gives so many bytes now.
pub(super) fn probe(bytes: u64) -> Result<(), OutOfMemory> {
    let mut all = Vec::<u8>::new();
    let count = usize::try_from(bytes).map_err(|_| OutOfMemory { bytes })?;
    all.try_reserve_exact(count).map_err(|_| OutOfMemory { bytes })
}
