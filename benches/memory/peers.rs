//! One interface over the allocators that are compared, and the workload: a region filled to a share, then churned.

#[path = "../../crates/triune-memory/tests/peers/best_fit.rs"]
mod best_fit;

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

pub(crate) use best_fit::BestFit as Tree;
use offset_allocator::{Allocation, Allocator};
use triune_memory::Arena;

/// Bytes of the region.
pub(crate) const REGION: u32 = 1 << 30;

/// An allocator of offsets; a chunk is named by what `allocate` gave.
pub(crate) trait Peer {
    /// What `free` needs.
    type Chunk: Copy;
    /// An empty region for requests of one alignment.
    fn region(alignment: u32) -> Self;
    /// A chunk, if there is room.
    fn allocate(&mut self, size: u32, alignment: u32) -> Option<Self::Chunk>;
    /// Gives a chunk back.
    fn free(&mut self, chunk: Self::Chunk);
}

impl Peer for Arena {
    type Chunk = u64;
    fn region(alignment: u32) -> Self {
        Self::with_granule(REGION.into(), alignment.into())
    }
    fn allocate(&mut self, size: u32, alignment: u32) -> Option<u64> {
        self.allocate(size.into(), alignment.into())
    }
    fn free(&mut self, chunk: u64) {
        self.free(chunk);
    }
}

impl Peer for Tree {
    type Chunk = u64;
    fn region(_: u32) -> Self {
        Self::new(REGION.into())
    }
    fn allocate(&mut self, size: u32, alignment: u32) -> Option<u64> {
        self.allocate(size.into(), alignment.into())
    }
    fn free(&mut self, chunk: u64) {
        self.free(chunk);
    }
}

/// Has no alignment of its own: sizes are rounded up to it, which gives the same for one alignment throughout.
impl Peer for Allocator {
    type Chunk = Allocation;
    fn region(_: u32) -> Self {
        Self::with_max_allocs(REGION, 1 << 20)
    }
    fn allocate(&mut self, size: u32, alignment: u32) -> Option<Allocation> {
        self.allocate(size.next_multiple_of(alignment))
    }
    fn free(&mut self, chunk: Allocation) {
        self.free(chunk);
    }
}

/// The same, freed by address as the others are: what a program adds that has no place for handles.
#[derive(Default)]
pub(crate) struct ByAddress {
    allocator: Option<Allocator>,
    handles: HashMap<u32, Allocation, BuildHasherDefault<Multiply>>,
}

/// The quickest hasher that spreads multiples of a power of two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }
    fn write_u32(&mut self, value: u32) {
        let product = u128::from(self.0 ^ u64::from(value)) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Peer for ByAddress {
    type Chunk = u32;
    fn region(alignment: u32) -> Self {
        Self { allocator: Some(Peer::region(alignment)), handles: HashMap::default() }
    }
    fn allocate(&mut self, size: u32, alignment: u32) -> Option<u32> {
        let chunk = Peer::allocate(self.allocator.as_mut()?, size, alignment)?;
        self.handles.insert(chunk.offset, chunk);
        Some(chunk.offset)
    }
    fn free(&mut self, chunk: u32) {
        if let (Some(allocator), Some(handle)) = (&mut self.allocator, self.handles.remove(&chunk)) {
            allocator.free(handle);
        }
    }
}

/// How sizes between 64 B and 8 MiB are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes {
    /// Each octave as often as any other.
    Logarithmic,
    /// Each size as often as any other.
    Uniform,
}

/// A deterministic stream of operations.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// Draws for sizes.
    pub(crate) sizes: Vec<u32>,
    /// Draws for which chunk goes.
    pub(crate) picks: Vec<u32>,
}

impl Workload {
    /// `length` sizes and picks.
    pub(crate) fn new(sizes: Sizes, length: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
        };
        let draw = |bits: u64| match sizes {
            Sizes::Logarithmic => {
                let exponent = 6.0 + 17.0 * bits as f64 / f64::from(u32::MAX);
                exponent.exp2() as u32
            }
            Sizes::Uniform => 64 + ((bits * ((8 << 20) - 64)) >> 32) as u32,
        };
        let draws: Vec<u32> = (0..length).map(|_| draw(next())).collect();
        let picks = (0..length).map(|_| next() as u32).collect();
        Self { sizes: draws, picks }
    }

    /// Runs the stream: below the occupancy each step allocates, else it frees a random chunk. Gives the operations
    /// done, the allocations tried, those that failed, and the chunks alive in the end; after a failure one chunk goes.
    pub(crate) fn run<P: Peer>(&self, peer: &mut P, alignment: u32, occupancy: f64) -> [u64; 4] {
        let goal = (f64::from(REGION) * occupancy) as u64;
        let mut live: Vec<(P::Chunk, u32)> = Vec::new();
        let (mut used, mut tried, mut failed, mut operations) = (0, 0, 0, 0);
        for (&size, &pick) in self.sizes.iter().zip(&self.picks) {
            operations += 1;
            let mut free = used + u64::from(size) > goal;
            if !free {
                tried += 1;
                if let Some(chunk) = peer.allocate(size, alignment) {
                    live.push((chunk, size));
                    used += u64::from(size);
                } else {
                    failed += 1;
                    operations += 1;
                    free = true;
                }
            }
            if free && !live.is_empty() {
                let (chunk, size) = live.swap_remove(((u64::from(pick) * live.len() as u64) >> 32) as usize);
                peer.free(chunk);
                used -= u64::from(size);
            }
        }
        [operations, tried, failed, live.len() as u64]
    }
}
