//! The allocator to compare with: exact best fit over ordered sets of gaps, O(log n) each operation.
//!
//! Two views of the gaps, by offset (to merge neighbours) and by size (to find the best fit). Tests and benches only.

use std::collections::{BTreeMap, BTreeSet};

/// Hands out parts of `[0, size)`. An offset's alignment is relative to 0, so the region's base must be aligned.
#[derive(Debug)]
pub(crate) struct BestFit {
    live: BTreeMap<u64, u64>,
    gaps: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl BestFit {
    /// A region of `size` bytes, all free.
    pub(crate) fn new(size: u64) -> Self {
        let mut region = Self { live: BTreeMap::new(), gaps: BTreeMap::new(), by_size: BTreeSet::new() };
        region.insert_gap(0, size);
        region
    }

    /// The offset of a new chunk of `size` bytes at a multiple of `alignment`, in the smallest gap that holds it;
    /// `None` when there is none, `size` is 0 or `alignment` is not a power of two.
    pub(crate) fn allocate(&mut self, size: u64, alignment: u64) -> Option<u64> {
        if size == 0 || !alignment.is_power_of_two() {
            return None;
        }
        let (gap, offset) = self.by_size.range((size, 0)..).find_map(|&(length, gap)| {
            let offset = gap.checked_next_multiple_of(alignment)?;
            (offset.checked_add(size)? <= gap + length).then_some((gap, offset))
        })?;
        self.take(gap, offset, size);
        Some(offset)
    }

    /// Frees the chunk that starts at `offset` and returns its size; `None` when there is none.
    pub(crate) fn free(&mut self, offset: u64) -> Option<u64> {
        let size = self.live.remove(&offset)?;
        let (mut start, mut length) = (offset, size);
        if let Some((&gap, &before)) = self.gaps.range(..offset).next_back()
            && gap + before == offset
        {
            self.remove_gap(gap, before);
            (start, length) = (gap, before + length);
        }
        if let Some(&after) = self.gaps.get(&(offset + size)) {
            self.remove_gap(offset + size, after);
            length += after;
        }
        self.insert_gap(start, length);
        Some(size)
    }

    /// Splits the gap at `gap` round `[offset, offset + size)`, which it holds, and makes that part live.
    fn take(&mut self, gap: u64, offset: u64, size: u64) {
        let length = self.gaps[&gap];
        self.remove_gap(gap, length);
        self.insert_gap(gap, offset - gap);
        self.insert_gap(offset + size, gap + length - offset - size);
        self.live.insert(offset, size);
    }

    fn insert_gap(&mut self, start: u64, length: u64) {
        if length > 0 {
            self.gaps.insert(start, length);
            self.by_size.insert((length, start));
        }
    }

    fn remove_gap(&mut self, start: u64, length: u64) {
        self.gaps.remove(&start);
        self.by_size.remove(&(length, start));
    }
}
