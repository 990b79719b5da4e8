//! What a node takes from the file to the first run: pieces and bytes of memory, counted by the allocator itself. A model of many
//! nodes leaves the caches, so that each byte of a node is felt there; neither may grow with their number, or creep up.

#[expect(dead_code, reason = "what is refused, and packages, have tests of their own")]
#[path = "it/families/mod.rs"]
mod families;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

use families::FAMILIES;
use triune_runtime::{Model, ModelOptions, Session, SessionOptions};

/// Counts pieces, what is alive, and what was at most when a further piece was asked for; what is only asked for, and given back,
/// is not seen.
struct Counting;

static PIECES: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system allocator does the work; counting changes nothing about it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PIECES.fetch_add(1, Ordering::Relaxed);
        let live = LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        MOST.fetch_max(live, Ordering::Relaxed);
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

/// Two sizes. Tables that double are as full with either.
const FEW: usize = 1_000;
const MANY: usize = 16 * FEW;

/// Pieces and bytes that a node of the simplest model may take to be read, and to be compiled: what it takes, and one tenth.
const LITTLE: [[f64; 2]; 2] = [[11.0, 840.0], [18.9, 1210.0]];

/// Pieces, and bytes at most, that work took per node.
fn per_node<T>(count: usize, work: impl FnOnce() -> T) -> (T, [f64; 2]) {
    let before = [PIECES.load(Ordering::Relaxed), LIVE.load(Ordering::Relaxed)];
    MOST.store(before[1], Ordering::Relaxed);
    let result = work();
    let after = [PIECES.load(Ordering::Relaxed), MOST.load(Ordering::Relaxed)];
    let taken = [0, 1].map(|at| (after[at] - before[at]) as f64 / count as f64);
    (result, taken)
}

/// What reading and what compiling take per node of a model with so many.
fn taken(family: fn(usize) -> Vec<u8>, count: usize) -> [[f64; 2]; 2] {
    let bytes = family(count);
    let (model, read) = per_node(count, || Model::from_bytes(bytes, &ModelOptions::default()));
    let model = model.expect("a model");
    let (session, compiled) = per_node(count, || Session::of(model, &SessionOptions::default()));
    session.expect("a session");
    [read, compiled]
}

// One test: the counts are the process's.
#[test]
fn what_a_node_takes_is_flat_and_little() {
    for (index, (name, family)) in FAMILIES.into_iter().enumerate() {
        let (few, many) = (taken(family, FEW), taken(family, MANY));
        println!("{name}: {few:.1?} per node of {FEW}, {many:.1?} of {MANY}");
        for ((step, few), many) in ["read", "compile"].into_iter().zip(few).zip(many) {
            for ((what, few), many) in ["pieces", "bytes"].into_iter().zip(few).zip(many) {
                let most = 1.1 * few + 1.0;
                assert!(many <= most, "{name}: {many} {what} per node to {step}, {few} of {FEW} nodes");
            }
        }
        if index == 0 {
            for (found, most) in many.as_flattened().iter().zip(LITTLE.as_flattened()) {
                assert!(found <= most, "{name}: {found} per node, {most} at most");
            }
        }
    }
}
