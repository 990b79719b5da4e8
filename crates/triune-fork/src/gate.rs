//! Forks and the sections that no fork falls into. The crate's one door to the system. Where processes are not forked, as on
//! Windows, no gate is ever closed.
//!
//! A section is announced in a counter before the gate is looked at, a fork closes the gate before it looks at the counters,
//! and both orders are sequentially consistent: either the section sees the closed gate and steps back, or the fork sees the
//! section and waits. Counters are spread over a few cache lines, so that threads that share nothing do not get into each
//! other's way.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

/// How often this process's line was forked: no two processes of it have the same but for the parent's later children, which
/// have nothing of each other.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// Threads that are about to fork.
static FORKING: AtomicUsize = AtomicUsize::new(0);
/// Whether the system tells us of forks.
#[cfg(unix)]
static TOLD: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Counts threads in sections, on a cache line of its own (two, as processors fetch them in pairs).
#[repr(align(128))]
struct Shard(AtomicUsize);

static SHARDS: [Shard; 16] = [const { Shard(AtomicUsize::new(0)) }; 16];

/// How long the gate is left alone before it is looked at again: a fork takes longer.
const GLANCE: Duration = Duration::from_micros(20);

thread_local! {
    /// Sections that this thread is in, one in the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Its shard, once it has one.
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn shard() -> &'static AtomicUsize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let mut own = SHARD.get();
    if own == usize::MAX {
        own = THREADS.fetch_add(1, SeqCst) % SHARDS.len();
        SHARD.set(own);
    }
    &SHARDS[own].0
}

/// A stretch of time in which this process is not forked, but by the thread that is in it.
#[derive(Debug)]
pub(crate) struct Section {
    /// Bound to its thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Section {
    pub(crate) fn enter() -> Self {
        watch();
        let depth = DEPTH.get();
        if depth == 0 {
            let inside = shard();
            loop {
                inside.fetch_add(1, SeqCst);
                if FORKING.load(SeqCst) == 0 {
                    break;
                }
                inside.fetch_sub(1, SeqCst);
                while FORKING.load(SeqCst) != 0 {
                    thread::sleep(GLANCE);
                }
            }
        }
        DEPTH.set(depth + 1);
        Self { _thread: std::marker::PhantomData }
    }

    /// Whether this thread is in one.
    pub(crate) fn is_inside() -> bool {
        DEPTH.get() > 0
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            shard().fetch_sub(1, SeqCst);
        }
    }
}

/// The process that something was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u64);

impl Origin {
    /// This process.
    pub fn here() -> Self {
        watch();
        Self(GENERATION.load(SeqCst))
    }

    /// Whether this is still the same process, not one that was forked from it.
    pub fn is_here(self) -> bool {
        self == Self::here()
    }
}

#[cfg(not(unix))]
fn watch() {}

/// Threads in sections that this thread has in a shard: itself at most.
#[cfg(unix)]
fn own(shard: &Shard) -> usize {
    usize::from(Section::is_inside() && std::ptr::eq(self::shard(), &raw const shard.0))
}

#[cfg(unix)]
extern "C" fn before() {
    FORKING.fetch_add(1, SeqCst);
    for shard in &SHARDS {
        while shard.0.load(SeqCst) != own(shard) {
            thread::sleep(GLANCE);
        }
    }
}

#[cfg(unix)]
extern "C" fn in_parent() {
    FORKING.fetch_sub(1, SeqCst);
}

#[cfg(unix)]
extern "C" fn in_child() {
    // Those that had seen the closed gate and not stepped back yet are not here, nor are others that were about to fork.
    for shard in &SHARDS {
        shard.0.store(own(shard), SeqCst);
    }
    FORKING.store(0, SeqCst);
    GENERATION.fetch_add(1, SeqCst);
}

/// Makes the system tell us of forks. Two threads that ask for it at once are both heard, which does no harm: what is done
/// twice before a fork is undone twice after it.
#[cfg(unix)]
fn watch() {
    if TOLD.load(SeqCst) {
        return;
    }
    // SAFETY: the three functions live as long as the library, which takes them back when it is unloaded. In the child they
    // only touch atomics and this thread's cells.
    #[expect(unsafe_code, reason = "the only way to hear of forks")]
    let told = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    // Without memory for it now, the next one asks again.
    if told == 0 {
        TOLD.store(true, SeqCst);
    }
}
