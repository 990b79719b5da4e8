//! An online allocator of offsets: segregated fits in the manner of TLSF, with the choice of best fit.
//!
//! Why: device regions need offsets up to u64, alignment, fixed addresses and lookups, and the memory that is handed
//! out belongs to a device, so no header may lie in it. How: blocks (chunks and gaps) are nodes of a list in address
//! order, kept beside the memory; gaps also hang in lists by size class, 64 classes per octave. A request looks at a
//! few gaps of each class from its own upwards and takes the smallest that holds it: the best fit, or one that is at most
//! 1/64 larger, unless a class is crowded. Before a request fails it looks at every gap.
//!
//! What it costs: O(1) for allocate and free in practice, and some 45 bytes per block. With many chunks time is cache
//! misses, so a block is half a cache line that straddles none, `free` finds its chunk through one line of a table of its
//! own (`table.rs`), and what only lookups need (`index.rs`) exists only while there are lookups.

mod bins;
mod index;
mod table;

use std::sync::OnceLock;

use bins::Bins;
use index::Index;
use table::Table;

const NONE: u32 = Bins::NONE;
/// In a chunk, where a gap has its neighbour in the list.
const LIVE: u32 = NONE - 1;
/// Blocks that a lookup walks through without an index.
const FEW: usize = 8;
/// Gaps that a request looks at before it goes on to those that hold it for certain.
const GLANCE: usize = 16;

/// Hands out parts of `[0, size)`. An offset's alignment is relative to 0, so the region's base must be aligned.
#[derive(Clone, Debug)]
pub struct Arena {
    size: u64,
    granule: u64,
    used: u64,
    blocks: Vec<Block>,
    /// Numbers of blocks that are not in use.
    spare: Vec<u32>,
    bins: Bins,
    live: Table,
    /// Made by the first lookup, kept up to date for a while, dropped and made again.
    index: OnceLock<Index>,
}

/// A chunk or a gap. Aligned, so that none lies in two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Block {
    start: u64,
    size: u64,
    /// Neighbours in address order.
    below: u32,
    above: u32,
    /// Neighbours in the list of the size class; a chunk has `LIVE` and the bytes of its last granule that nobody
    /// asked for.
    previous: u32,
    next: u32,
}

impl Block {
    fn free(&self) -> bool {
        self.previous != LIVE
    }

    /// The size of a chunk as it was asked for.
    fn asked(&self) -> u64 {
        self.size - u64::from(self.next)
    }
}

/// What an arena holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes, free or not.
    pub size: u64,
    /// Bytes in live chunks, in whole granules.
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
        Self::with_granule(size, 1)
    }

    /// An arena of the whole granules in `size` bytes. Chunks start and end at multiples of `granule`, which keeps
    /// gaps apart that are too small to be of use: where every request has the same alignment, this is faster.
    ///
    /// # Panics
    /// When `granule` is not a power of two below 2^32.
    pub fn with_granule(size: u64, granule: u64) -> Self {
        assert!(granule.is_power_of_two() && granule < 1 << 32, "a granule is a power of two below 2^32");
        let size = size & !(granule - 1);
        let mut arena = Self {
            size,
            granule,
            used: 0,
            blocks: Vec::new(),
            spare: Vec::new(),
            bins: Bins::new(size),
            live: Table::new(),
            index: OnceLock::new(),
        };
        if size > 0 {
            arena.blocks.push(Block { start: 0, size, below: NONE, above: NONE, previous: NONE, next: NONE });
            arena.link(0);
        }
        arena
    }

    /// Total bytes, free or not.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes in live chunks, in whole granules.
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
            gaps: self.in_order().filter(|block| block.free()).count(),
            largest_gap: self.largest_gap(),
        }
    }

    /// The offset of a new chunk of `size` bytes at a multiple of `alignment`, in the smallest gap that holds it or
    /// one of about that size; `None` when no gap holds it, `size` is 0 or `alignment` is not a power of two.
    pub fn allocate(&mut self, size: u64, alignment: u64) -> Option<u64> {
        if size == 0 || !alignment.is_power_of_two() || size > self.size - self.used {
            return None;
        }
        let (whole, alignment) = (self.whole(size)?, alignment.max(self.granule));
        let (gap, offset) =
            self.search(whole, alignment, GLANCE).or_else(|| self.search(whole, alignment, usize::MAX))?;
        self.take(gap, offset, whole, size)?;
        Some(offset)
    }

    /// Takes exactly `[offset, offset + size)`, up to the end of a granule; `false` when any of it is taken or outside,
    /// `size` is 0 or `offset` is no multiple of the granule.
    pub fn allocate_at(&mut self, offset: u64, size: u64) -> bool {
        let Some(whole) = self.whole(size).filter(|_| size > 0 && offset.is_multiple_of(self.granule)) else {
            return false;
        };
        let Some(end) = offset.checked_add(whole).filter(|&end| end <= self.size) else { return false };
        let number = self.covering(offset);
        let block = self.blocks[number as usize];
        block.free() && end <= block.start + block.size && self.take(number, offset, whole, size).is_some()
    }

    /// Frees the chunk that starts at `offset` and returns its size; `None` when there is none.
    pub fn free(&mut self, offset: u64) -> Option<u64> {
        let number = self.live.remove(offset, |number| self.blocks[number as usize].start)?;
        let Block { size, below, above, .. } = self.blocks[number as usize];
        let asked = self.blocks[number as usize].asked();
        self.used -= size;
        let mut number = number;
        if below != NONE && self.blocks[below as usize].free() {
            self.unlink(below);
            self.remove(number);
            self.blocks[below as usize].size += size;
            number = below;
        }
        if above != NONE && self.blocks[above as usize].free() {
            self.unlink(above);
            self.remove(above);
            self.blocks[number as usize].size += self.blocks[above as usize].size;
        }
        self.link(number);
        Some(asked)
    }

    /// The live chunk that contains `offset`, as (start, size).
    pub fn find(&self, offset: u64) -> Option<(u64, u64)> {
        if offset >= self.size {
            return None;
        }
        let block = &self.blocks[self.covering(offset) as usize];
        (!block.free() && offset - block.start < block.asked()).then(|| (block.start, block.asked()))
    }

    /// Live chunks in address order, as (start, size).
    pub fn live(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.in_order().filter(|block| !block.free()).map(|block| (block.start, block.asked()))
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

    /// A gap that holds the request, and the offset in it: from the smallest class that has one, of at most `glance`
    /// gaps that might, else the first of those that do for certain.
    fn search(&self, size: u64, alignment: u64, glance: usize) -> Option<(u32, u64)> {
        let certain = Bins::class(size.saturating_add(alignment - 1)) + 1;
        let (mut class, mut looks) = (Bins::class(size), 0);
        loop {
            class = self.bins.at_least(class)?;
            for (number, gap) in self.class(class) {
                if looks == glance && class < certain {
                    // Nothing is lost: with no gap up there, the caller comes back and looks at all.
                    class = certain - 1;
                    break;
                }
                looks += 1;
                if let Some(offset) = gap.start.checked_next_multiple_of(alignment)
                    && gap.size.checked_sub(size).is_some_and(|spare| offset - gap.start <= spare)
                {
                    return Some((number, offset));
                }
            }
            class += 1;
        }
    }

    /// The block that covers an offset below `size`.
    fn covering(&self, offset: u64) -> u32 {
        let mut number = 0;
        if self.in_use() > FEW {
            let index = self.index.get_or_init(|| self.indexed());
            let cell = index.cell(offset);
            number = index.first(cell);
            if number == NONE || self.blocks[number as usize].start > offset {
                number = index.before(cell);
            }
        }
        loop {
            let above = self.blocks[number as usize].above;
            if above == NONE || self.blocks[above as usize].start > offset {
                return number;
            }
            number = above;
        }
    }

    /// A size in whole granules.
    fn whole(&self, size: u64) -> Option<u64> {
        size.checked_next_multiple_of(self.granule)
    }

    /// Makes `[offset, offset + size)` of a gap live; `None` when block numbers are used up.
    fn take(&mut self, gap: u32, offset: u64, size: u64, asked: u64) -> Option<()> {
        if self.spare.len() < 2 && self.blocks.len() + 2 >= LIVE as usize {
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
        (block.previous, block.next) = (LIVE, (size - asked) as u32);
        self.live.insert(offset, chunk);
        self.used += size;
        let blocks = self.in_use();
        if self.index.get().is_some_and(|index| index.is_outgrown(blocks)) {
            self.index.take();
        }
        Some(())
    }

    /// A new gap, in no class, above a block.
    fn insert_above(&mut self, below: u32, start: u64, size: u64) -> u32 {
        let above = self.blocks[below as usize].above;
        let block = Block { start, size, below, above, previous: NONE, next: NONE };
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
        if let Some(index) = self.index.get_mut() {
            let cell = index.cell(start);
            let first = index.first(cell);
            if first == NONE || self.blocks[first as usize].start > start {
                index.set_first(cell, number);
            }
            index.count_change();
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
        if let Some(index) = self.index.get_mut() {
            let cell = index.cell(start);
            if index.first(cell) == number {
                let stays = above != NONE && index.cell(self.blocks[above as usize].start) == cell;
                index.set_first(cell, if stays { above } else { NONE });
            }
            index.count_change();
        }
        self.spare.push(number);
    }

    /// Blocks that are chunks or gaps.
    fn in_use(&self) -> usize {
        self.blocks.len() - self.spare.len()
    }

    /// An index with twice as many cells as blocks.
    fn indexed(&self) -> Index {
        let mut index = Index::new(self.size, 2 * self.in_use());
        let mut number = 0;
        while number != NONE {
            let block = &self.blocks[number as usize];
            let cell = index.cell(block.start);
            if index.first(cell) == NONE {
                index.set_first(cell, number);
            }
            number = block.above;
        }
        index
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

#[cfg(test)]
mod tests;
