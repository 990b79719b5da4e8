//! What is claimed before the many small parts of a model are made is what they take, in every format.

#[expect(dead_code, reason = "what is refused, and packages, have tests of their own")]
#[path = "it/families/mod.rs"]
mod families;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

use families::FAMILIES;
use triune_runtime::{Model, ModelOptions, Session, SessionOptions};
use triune_tensor::memory::claimed;

/// Counts what is alive, and what was at most when a further piece was asked for; what is only asked for, and given back, is
/// not seen.
struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);
static CLAIMED: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system allocator does the work; counting changes nothing about it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        MOST.fetch_max(live, Ordering::Relaxed);
        CLAIMED.fetch_max(claimed(), Ordering::Relaxed);
        // SAFETY: the caller's layout, as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: allocated by `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NODES: usize = 8_000;
/// What need not be claimed.
const SMALL: u64 = 1 << 20;
/// What may be claimed for whatever there is.
const LEAST: u64 = 64 << 20;

/// Bytes that work took and that it claimed, each at most.
fn measured<T>(work: impl FnOnce() -> T) -> (T, [u64; 2]) {
    let before = LIVE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    CLAIMED.store(0, Ordering::Relaxed);
    let result = work();
    (result, [MOST.load(Ordering::Relaxed) - before, CLAIMED.load(Ordering::Relaxed)])
}

#[test]
fn what_a_model_takes_is_claimed() {
    for (name, family) in FAMILIES {
        let bytes = family(NODES);
        let size = bytes.len() as u64;
        let (model, read) = measured(|| Model::from_bytes(bytes, &ModelOptions::default()));
        let (session, load) = measured(|| Session::of(model.expect(name), &SessionOptions::default()));
        session.expect(name);
        println!("{name}: {size} bytes; read, claimed {read:?}; compiled, claimed {load:?}");
        for [taken, claimed] in [read, load] {
            assert!(taken <= claimed + SMALL, "{name}: {taken} bytes taken, {claimed} claimed");
            assert!(claimed <= 4 * taken + LEAST, "{name}: {taken} bytes taken, {claimed} claimed");
        }
    }
}
