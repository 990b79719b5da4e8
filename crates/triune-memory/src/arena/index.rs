//! Which block covers an offset: the arena cut into equal cells, each naming the first block that starts in it.
//!
//! Knows block numbers and starts, not what blocks are. Upkeep costs one or two words per block that comes or goes, in
//! cache lines that allocate and free do not touch otherwise: a quarter of their time. So an index lives from a lookup until
//! four times as many blocks came and went as it has cells; making it again then costs those changes a fraction of a
//! step each. A lookup walks the blocks that start in one cell, about one unless chunks of very different sizes crowd.

use super::bins::Bins;

/// First block per cell, and a bitmap of the cells that have one.
#[derive(Clone, Debug)]
pub(super) struct Index {
    shift: u32,
    /// Blocks that came or went since it was made.
    changes: usize,
    first: Vec<u32>,
    filled: Vec<u64>,
}

impl Index {
    /// An index of `size` bytes that expects about `blocks` blocks.
    pub(super) fn new(size: u64, blocks: usize) -> Self {
        let wanted = blocks.clamp(256, 1 << 30).next_power_of_two() as u64;
        let shift = size.div_ceil(wanted).max(1).next_power_of_two().trailing_zeros();
        let cells = ((size.max(1) - 1) >> shift) as usize + 1;
        Self { shift, changes: 0, first: vec![Bins::NONE; cells], filled: vec![0; cells.div_ceil(64)] }
    }

    /// Notes that a block came or went.
    pub(super) fn count_change(&mut self) {
        self.changes += 1;
    }

    /// Whether it has too few cells for so many blocks, or has been kept up to date for long enough.
    pub(super) fn is_outgrown(&self, blocks: usize) -> bool {
        (blocks > self.first.len() && self.shift > 0) || self.changes > 4 * self.first.len()
    }

    /// The cell of an offset.
    pub(super) fn cell(&self, offset: u64) -> usize {
        (offset >> self.shift) as usize
    }

    /// The first block that starts in a cell.
    pub(super) fn first(&self, cell: usize) -> u32 {
        self.first[cell]
    }

    /// Sets the first block that starts in a cell.
    pub(super) fn set_first(&mut self, cell: usize, block: u32) {
        self.first[cell] = block;
        if block == Bins::NONE {
            self.filled[cell / 64] &= !(1 << (cell % 64));
        } else {
            self.filled[cell / 64] |= 1 << (cell % 64);
        }
    }

    /// The first block of the nearest cell below `cell` that has one.
    pub(super) fn before(&self, cell: usize) -> u32 {
        let mut word = cell / 64;
        let mut bits = self.filled[word] & ((1 << (cell % 64)) - 1);
        while bits == 0 {
            if word == 0 {
                return Bins::NONE;
            }
            word -= 1;
            bits = self.filled[word];
        }
        self.first[word * 64 + bits.ilog2() as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_many_as_blocks_at_most() {
        for (size, blocks, cells) in [
            (1 << 20, 100, 256),
            (1024, 256, 256),
            (1025, 256, 129),
            (3, 1, 3),
            (0, 0, 1),
            (u64::MAX, 1000, 1024),
        ] {
            let index = Index::new(size, blocks);
            assert_eq!(index.first.len(), cells, "{size} bytes, {blocks} blocks");
            assert_eq!(index.cell(size.saturating_sub(1)), cells - 1, "{size} bytes, {blocks} blocks");
        }
    }

    #[test]
    fn the_nearest_cell_below_is_found_across_words() {
        let mut index = Index::new(1 << 20, 256);
        for (cell, block) in [(3, 7), (63, 8), (64, 9), (200, 10)] {
            index.set_first(cell, block);
        }
        let found = [0, 3, 4, 63, 64, 65, 128, 200, 201, 255].map(|cell| index.before(cell));
        assert_eq!(found, [Bins::NONE, Bins::NONE, 7, 7, 8, 9, 9, 9, 10, 10]);
        index.set_first(64, Bins::NONE);
        assert_eq!(index.before(200), 8);
    }
}
