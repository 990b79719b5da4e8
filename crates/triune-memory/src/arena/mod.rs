//! An online allocator of offsets: segregated fits in the manner of TLSF, with the choice of best fit.
//!
//! Why: device regions need offsets up to u64, alignment, fixed addresses and lookups, and the memory that is handed
//! out belongs to a device, so no header may lie in it. How: blocks (chunks and gaps) are nodes of a list in address
//! order, kept beside the memory; gaps also hang in lists by size class, 64 classes per octave. A request looks at a
//! few gaps of each class from its own upwards and takes the smallest that holds it: the best fit, or one that is at most
//! 1/64 larger, unless a class is crowded. Before a request fails it looks at every gap. What it costs: O(1) for allocate
//! and free in practice, with a hash lookup of the chunk's number on free, and some 60 bytes per block.

mod bins;
mod index;

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use bins::Bins;
use index::Index;

const NONE: u32 = Bins::NONE;
/// Gaps of one class that a request looks at before it goes on to the next class.
const GLANCE: usize = 8;

/// Hands out parts of `[0, size)`. An offset's alignment is relative to 0, so the region's base must be aligned.
#[derive(Clone, Debug)]
pub struct Arena {
    size: u64,
    used: u64,
    blocks: Vec<Block>,
    /// Numbers of blocks that are not in use.
    spare: Vec<u32>,
    bins: Bins,
    index: Index,
    live: HashMap<u64, u32, BuildHasherDefault<OffsetHasher>>,
}

/// A chunk or a gap.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: u64,
    size: u64,
    /// Neighbours in address order.
    below: u32,
    above: u32,
    /// Neighbours in the list of the size class, for gaps.
    previous: u32,
    next: u32,
    free: bool,
}

/// What an arena holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes, free or not.
    pub size: u64,
    /// Bytes in live chunks.
    pub used: u64,
    /// Live chunks.
    pub chunks: usize,
    /// Gaps between them.
    pub gaps: usize,
    /// Bytes of the largest gap.
    pub largest_gap: u64,
}

impl Arena {
    /// An arena of `size` bytes, all free.
    pub fn new(size: u64) -> Self {
        let mut arena = Self {
            size,
            used: 0,
            blocks: Vec::new(),
            spare: Vec::new(),
            bins: Bins::new(size),
            index: Index::new(size, 0),
            live: HashMap::default(),
        };
        if size > 0 {
            arena.blocks.push(Block {
                start: 0,
                size,
                below: NONE,
                above: NONE,
                previous: NONE,
                next: NONE,
                free: true,
            });
            arena.index.set_first(0, 0);
            arena.link(0);
        }
        arena
    }

    /// Total bytes, free or not.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes in live chunks.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of the largest gap: the largest chunk that alignment 1 could get.
    pub fn largest_gap(&self) -> u64 {
        let Some(class) = self.bins.largest() else { return 0 };
        self.class(class).map(|(_, gap)| gap.size).max().unwrap_or(0)
    }

    /// Sizes and counts at this moment; walks all blocks.
    pub fn report(&self) -> Report {
        Report {
            size: self.size,
            used: self.used,
            chunks: self.live.len(),
            gaps: self.in_order().filter(|block| block.free).count(),
            largest_gap: self.largest_gap(),
        }
    }

    /// The offset of a new chunk of `size` bytes at a multiple of `alignment`, in the smallest gap that holds it or
    /// one of about that size; `None` when no gap holds it, `size` is 0 or `alignment` is not a power of two.
    pub fn allocate(&mut self, size: u64, alignment: u64) -> Option<u64> {
        if size == 0 || !alignment.is_power_of_two() || size > self.size - self.used {
            return None;
        }
        let (gap, offset) =
            self.best(size, alignment, GLANCE).or_else(|| self.best(size, alignment, usize::MAX))?;
        self.take(gap, offset, size)?;
        Some(offset)
    }

    /// Takes exactly `[offset, offset + size)`; `false` when any of it is taken or outside, or `size` is 0.
    pub fn allocate_at(&mut self, offset: u64, size: u64) -> bool {
        let Some(end) = offset.checked_add(size).filter(|&end| size > 0 && end <= self.size) else {
            return false;
        };
        let number = self.covering(offset);
        let block = self.blocks[number as usize];
        block.free && end <= block.start + block.size && self.take(number, offset, size).is_some()
    }

    /// Frees the chunk that starts at `offset` and returns its size; `None` when there is none.
    pub fn free(&mut self, offset: u64) -> Option<u64> {
        let number = self.live.remove(&offset)?;
        let Block { size, below, above, .. } = self.blocks[number as usize];
        self.used -= size;
        let mut number = number;
        if below != NONE && self.blocks[below as usize].free {
            self.unlink(below);
            self.remove(number);
            self.blocks[below as usize].size += size;
            number = below;
        }
        if above != NONE && self.blocks[above as usize].free {
            self.unlink(above);
            self.remove(above);
            self.blocks[number as usize].size += self.blocks[above as usize].size;
        }
        self.blocks[number as usize].free = true;
        self.link(number);
        Some(size)
    }

    /// The live chunk that contains `offset`, as (start, size).
    pub fn find(&self, offset: u64) -> Option<(u64, u64)> {
        if offset >= self.size {
            return None;
        }
        let block = &self.blocks[self.covering(offset) as usize];
        (!block.free).then_some((block.start, block.size))
    }

    /// Live chunks in address order, as (start, size).
    pub fn live(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.in_order().filter(|block| !block.free).map(|block| (block.start, block.size))
    }

    /// All blocks in address order. Block 0 never moves: it starts at 0 for ever.
    fn in_order(&self) -> impl Iterator<Item = &Block> {
        let mut next = if self.blocks.is_empty() { NONE } else { 0 };
        std::iter::from_fn(move || {
            let block = self.blocks.get(next as usize)?;
            next = block.above;
            Some(block)
        })
    }

    /// The gaps of a class.
    fn class(&self, class: usize) -> impl Iterator<Item = (u32, &Block)> {
        let mut next = self.bins.head(class);
        std::iter::from_fn(move || {
            let (number, gap) = (next, self.blocks.get(next as usize)?);
            next = gap.next;
            Some((number, gap))
        })
    }

    /// The smallest gap that holds the request, and the offset in it, of at most `glance` gaps per class. Among equal
    /// sizes the lowest.
    fn best(&self, size: u64, alignment: u64, glance: usize) -> Option<(u32, u64)> {
        let mut class = Bins::class(size);
        loop {
            class = self.bins.at_least(class)?;
            let found = self.class(class).take(glance).find_map(|(number, gap)| {
                let offset = gap.start.checked_next_multiple_of(alignment)?;
                (offset - gap.start <= gap.size.checked_sub(size)?).then_some((number, offset))
            });
            if found.is_some() {
                return found;
            }
            class += 1;
        }
    }

    /// The block that covers an offset below `size`.
    fn covering(&self, offset: u64) -> u32 {
        let cell = self.index.cell(offset);
        let mut number = self.index.first(cell);
        if number == NONE || self.blocks[number as usize].start > offset {
            number = self.index.before(cell);
        }
        loop {
            let above = self.blocks[number as usize].above;
            if above == NONE || self.blocks[above as usize].start > offset {
                return number;
            }
            number = above;
        }
    }

    /// Makes `[offset, offset + size)` of a gap live; `None` when block numbers are used up.
    fn take(&mut self, gap: u32, offset: u64, size: u64) -> Option<()> {
        if self.spare.len() < 2 && self.blocks.len() + 2 >= NONE as usize {
            return None;
        }
        self.unlink(gap);
        let Block { start, size: length, .. } = self.blocks[gap as usize];
        let mut chunk = gap;
        if offset > start {
            // The front keeps the gap's number, so that block 0 stays at 0.
            chunk = self.insert_above(gap, offset, length - (offset - start));
            self.blocks[gap as usize].size = offset - start;
            self.link(gap);
        }
        let rest = start + length - (offset + size);
        if rest > 0 {
            let tail = self.insert_above(chunk, offset + size, rest);
            self.link(tail);
        }
        let block = &mut self.blocks[chunk as usize];
        block.size = size;
        block.free = false;
        self.live.insert(offset, chunk);
        self.used += size;
        if self.blocks.len() - self.spare.len() > self.index.cells()
            && self.index.cells() < self.size as usize
        {
            self.reindex();
        }
        Some(())
    }

    /// A new gap, in no class, above a block.
    fn insert_above(&mut self, below: u32, start: u64, size: u64) -> u32 {
        let above = self.blocks[below as usize].above;
        let block = Block { start, size, below, above, previous: NONE, next: NONE, free: true };
        let number = if let Some(number) = self.spare.pop() {
            self.blocks[number as usize] = block;
            number
        } else {
            self.blocks.push(block);
            self.blocks.len() as u32 - 1
        };
        self.blocks[below as usize].above = number;
        if above != NONE {
            self.blocks[above as usize].below = number;
        }
        let cell = self.index.cell(start);
        let first = self.index.first(cell);
        if first == NONE || self.blocks[first as usize].start > start {
            self.index.set_first(cell, number);
        }
        number
    }

    /// Takes a block, in no class and not the lowest, out of the address order.
    fn remove(&mut self, number: u32) {
        let Block { start, below, above, .. } = self.blocks[number as usize];
        self.blocks[below as usize].above = above;
        if above != NONE {
            self.blocks[above as usize].below = below;
        }
        let cell = self.index.cell(start);
        if self.index.first(cell) == number {
            let stays = above != NONE && self.index.cell(self.blocks[above as usize].start) == cell;
            self.index.set_first(cell, if stays { above } else { NONE });
        }
        self.spare.push(number);
    }

    /// Twice as many cells as blocks.
    fn reindex(&mut self) {
        let mut index = Index::new(self.size, 2 * (self.blocks.len() - self.spare.len()));
        let mut number = 0;
        while number != NONE {
            let block = &self.blocks[number as usize];
            let cell = index.cell(block.start);
            if index.first(cell) == NONE {
                index.set_first(cell, number);
            }
            number = block.above;
        }
        self.index = index;
    }

    /// Puts a gap first in its class.
    fn link(&mut self, number: u32) {
        let class = Bins::class(self.blocks[number as usize].size);
        let head = self.bins.head(class);
        let block = &mut self.blocks[number as usize];
        (block.previous, block.next) = (NONE, head);
        if head != NONE {
            self.blocks[head as usize].previous = number;
        }
        self.bins.set_head(class, number);
    }

    /// Takes a gap out of its class.
    fn unlink(&mut self, number: u32) {
        let Block { size, previous, next, .. } = self.blocks[number as usize];
        if next != NONE {
            self.blocks[next as usize].previous = previous;
        }
        if previous == NONE {
            self.bins.set_head(Bins::class(size), next);
        } else {
            self.blocks[previous as usize].next = next;
        }
    }
}

/// Multiplies by 2^64 / φ: offsets are spread already, only their low zeros are in the way.
#[derive(Clone, Copy, Debug, Default)]
struct OffsetHasher(u64);

impl Hasher for OffsetHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests;
