//! Size classes of free gaps: one class per 1/64 of an octave, found by two bit scans.
//!
//! Knows sizes and which classes hold something; the gaps' lists are the arena's.

/// log2 of the classes per octave. A class spans at most 1/64 of its sizes; sizes below 64 have one class each.
const SPLIT: u32 = 6;

/// Heads of the lists of gaps by size class, and bitmaps of the classes that hold something.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    heads: Vec<u32>,
    /// One word per octave, one bit per class.
    classes: Vec<u64>,
    /// One bit per word of `classes`.
    octaves: u64,
}

impl Bins {
    /// Stands for no block.
    pub(super) const NONE: u32 = u32::MAX;

    /// Classes for gaps of up to `largest` bytes.
    pub(super) fn new(largest: u64) -> Self {
        let words = (Self::class(largest) >> SPLIT) + 1;
        Self { heads: vec![Self::NONE; words << SPLIT], classes: vec![0; words], octaves: 0 }
    }

    /// The class of a size; larger sizes never have a smaller class.
    pub(super) fn class(size: u64) -> usize {
        if size < 1 << SPLIT {
            return size as usize;
        }
        let octave = size.ilog2() - SPLIT;
        ((octave as usize) << SPLIT) + (size >> octave) as usize
    }

    /// The first gap of a class.
    pub(super) fn head(&self, class: usize) -> u32 {
        self.heads[class]
    }

    /// Sets the first gap of a class.
    pub(super) fn set_head(&mut self, class: usize, head: u32) {
        self.heads[class] = head;
        let (word, bit) = (class >> SPLIT, class & ((1 << SPLIT) - 1));
        if head == Self::NONE {
            self.classes[word] &= !(1 << bit);
            if self.classes[word] == 0 {
                self.octaves &= !(1 << word);
            }
        } else {
            self.classes[word] |= 1 << bit;
            self.octaves |= 1 << word;
        }
    }

    /// The smallest class, not below `class`, that holds a gap.
    pub(super) fn at_least(&self, class: usize) -> Option<usize> {
        let (word, bit) = (class >> SPLIT, class & ((1 << SPLIT) - 1));
        let here = self.classes.get(word)? & (u64::MAX << bit);
        if here != 0 {
            return Some((word << SPLIT) + here.trailing_zeros() as usize);
        }
        let above = self.octaves & u64::MAX.checked_shl(word as u32 + 1).unwrap_or(0);
        (above != 0).then(|| {
            let word = above.trailing_zeros() as usize;
            (word << SPLIT) + self.classes[word].trailing_zeros() as usize
        })
    }

    /// The largest class that holds a gap.
    pub(super) fn largest(&self) -> Option<usize> {
        let word = self.octaves.checked_ilog2()? as usize;
        Some((word << SPLIT) + self.classes[word].ilog2() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_with_sizes_and_are_narrow() {
        let mut sizes: Vec<u64> = (0..5000).collect();
        sizes.extend((13..64).flat_map(|e| [(1_u64 << e) - 1, 1 << e, (1 << e) + (1 << (e - 7))]));
        sizes.push(u64::MAX);
        sizes.sort_unstable();
        for pair in sizes.windows(2) {
            let (low, high) = (Bins::class(pair[0]), Bins::class(pair[1]));
            assert!(low <= high, "{pair:?}");
            assert!(low < high || pair[1] - pair[0] <= pair[0] / 64, "{pair:?}");
        }
        assert!(Bins::class(u64::MAX) < 64 * 64);
    }

    #[test]
    fn scans_agree_with_a_list() {
        let mut bins = Bins::new(1 << 20);
        let all = Bins::class(1 << 20) + 1;
        for filled in [[0, 1, 63], [64, 65, 700], [5, 127, all - 1]] {
            for &class in &filled {
                bins.set_head(class, 7);
            }
            for class in 0..all {
                assert_eq!(bins.at_least(class), filled.iter().copied().find(|&other| other >= class));
            }
            assert_eq!(bins.largest(), Some(filled[2]));
            for &class in &filled {
                bins.set_head(class, Bins::NONE);
            }
            assert_eq!((bins.at_least(0), bins.largest()), (None, None));
        }
    }
}
