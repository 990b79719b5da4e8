//! An online allocator of offsets: best fit over an ordered set of gaps.
//!
//! Keeps two ordered views of the free gaps, by offset (to merge neighbours) and by size (to find the best fit);
//! both operations cost O(log n). Device regions use it for what programs allocate at run time.

use std::collections::{BTreeMap, BTreeSet};

/// Hands out parts of `[0, size)`. An offset's alignment is relative to 0, so the region's base must be aligned.
#[derive(Clone, Debug)]
pub struct Arena {
    size: u64,
    live: BTreeMap<u64, u64>,
    gaps: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl Arena {
    /// An arena of `size` bytes, all free.
    pub fn new(size: u64) -> Self {
        let mut arena = Self { size, live: BTreeMap::new(), gaps: BTreeMap::new(), by_size: BTreeSet::new() };
        arena.insert_gap(0, size);
        arena
    }

    /// Total bytes, free or not.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes in live chunks.
    pub fn used(&self) -> u64 {
        self.live.values().sum()
    }

    /// Bytes of the largest gap: the largest chunk that alignment 1 could get.
    pub fn largest_gap(&self) -> u64 {
        self.by_size.last().map_or(0, |&(size, _)| size)
    }

    /// The offset of a new chunk of `size` bytes at a multiple of `alignment`, in the smallest gap that holds it;
    /// `None` when there is none, `size` is 0 or `alignment` is not a power of two.
    pub fn allocate(&mut self, size: u64, alignment: u64) -> Option<u64> {
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

    /// Takes exactly `[offset, offset + size)`; `false` when any of it is taken or outside, or `size` is 0.
    pub fn allocate_at(&mut self, offset: u64, size: u64) -> bool {
        let Some(end) = offset.checked_add(size).filter(|_| size > 0) else { return false };
        match self.gaps.range(..=offset).next_back() {
            Some((&gap, &length)) if end <= gap + length => {
                self.take(gap, offset, size);
                true
            }
            _ => false,
        }
    }

    /// Frees the chunk that starts at `offset` and returns its size; `None` when there is none.
    pub fn free(&mut self, offset: u64) -> Option<u64> {
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

    /// The live chunk that contains `offset`, as (start, size).
    pub fn find(&self, offset: u64) -> Option<(u64, u64)> {
        let (&start, &size) = self.live.range(..=offset).next_back()?;
        (offset - start < size).then_some((start, size))
    }

    /// Live chunks in address order, as (start, size).
    pub fn live(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.live.iter().map(|(&start, &size)| (start, size))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fixed_offsets_and_merging() {
        let mut arena = Arena::new(1024);
        assert!(arena.allocate_at(100, 50));
        assert!(!arena.allocate_at(120, 1));
        assert!(!arena.allocate_at(1000, 25));
        assert!(!arena.allocate_at(u64::MAX, 2));
        assert_eq!(arena.find(149), Some((100, 50)));
        assert_eq!(arena.find(150), None);
        assert_eq!(arena.free(100), Some(50));
        assert_eq!(arena.free(100), None);
        assert_eq!(arena.largest_gap(), 1024);
    }

    #[test]
    fn refuses_what_cannot_be() {
        let mut arena = Arena::new(64);
        assert_eq!(arena.allocate(0, 1), None);
        assert_eq!(arena.allocate(8, 3), None);
        assert_eq!(arena.allocate(65, 1), None);
        assert_eq!(arena.allocate(u64::MAX, 1 << 63), None);
        assert_eq!(arena.allocate(64, 64), Some(0));
        assert_eq!(Arena::new(0).allocate(1, 1), None);
    }

    proptest! {
        /// A map of every byte checks each step: chunks never overlap, are aligned, and a failed request really
        /// had no place.
        #[test]
        fn agrees_with_a_byte_map(steps in prop::collection::vec((0_u64..70, 0_u32..6, any::<bool>()), 1..200)) {
            let mut arena = Arena::new(256);
            let mut bytes = [false; 256];
            for (size, shift, free) in steps {
                if free {
                    let Some((start, size)) = arena.live().next() else { continue };
                    prop_assert_eq!(arena.free(start), Some(size));
                    bytes[start as usize..(start + size) as usize].fill(false);
                } else {
                    let alignment = 1_u64 << shift;
                    let fits = |start: u64| size > 0 && start + size <= 256
                        && bytes[start as usize..(start + size) as usize].iter().all(|taken| !taken);
                    match arena.allocate(size, alignment) {
                        Some(start) => {
                            prop_assert!(start % alignment == 0 && fits(start));
                            bytes[start as usize..(start + size) as usize].fill(true);
                        }
                        None => prop_assert!(!(0..256).step_by(alignment as usize).any(fits)),
                    }
                }
                prop_assert_eq!(arena.used(), bytes.iter().filter(|taken| **taken).count() as u64);
            }
        }
    }
}
