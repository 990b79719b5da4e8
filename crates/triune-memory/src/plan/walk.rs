//! One walk in order of time, as an allocator with best fit would go: for buffers so many of which are alive together that
//! comparing each with all others would take too long.

use std::collections::{BTreeMap, BTreeSet};

use super::Buffer;

/// Gaps that are large enough but too misaligned, before a buffer goes on top.
const TRIES: usize = 16;

/// Free bytes below the top.
#[derive(Default)]
struct Gaps {
    /// Lengths by offset.
    lengths: BTreeMap<u64, u64>,
    /// The same gaps as (length, offset).
    by_length: BTreeSet<(u64, u64)>,
    /// Everything from here on is free.
    top: u64,
}

impl Gaps {
    fn add(&mut self, offset: u64, length: u64) {
        if length > 0 {
            self.lengths.insert(offset, length);
            self.by_length.insert((length, offset));
        }
    }

    fn remove(&mut self, offset: u64) -> u64 {
        let length = self.lengths.remove(&offset).unwrap_or(0);
        self.by_length.remove(&(length, offset));
        length
    }

    /// Takes the least gap that holds the bytes, or bytes on top.
    fn take(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let aligned = |&(length, offset): &(u64, u64)| {
            let start = offset.checked_next_multiple_of(alignment)?;
            (start.checked_add(size)? <= offset + length).then_some((offset, start))
        };
        let found = self.by_length.range((size, 0)..).take(TRIES).find_map(aligned);
        if let Some((offset, start)) = found {
            let length = self.remove(offset);
            self.add(offset, start - offset);
            self.add(start + size, offset + length - (start + size));
            return Some(start);
        }
        let start = self.top.checked_next_multiple_of(alignment)?;
        let below = self.top;
        self.top = start.checked_add(size)?;
        self.add(below, start - below);
        Some(start)
    }

    fn give_back(&mut self, mut offset: u64, mut length: u64) {
        if length == 0 {
            return;
        }
        // None where no gap begins.
        length += self.remove(offset + length);
        if let Some((&before, &own)) = self.lengths.range(..offset).next_back()
            && before + own == offset
        {
            length += self.remove(before);
            offset = before;
        }
        if offset + length == self.top { self.top = offset } else { self.add(offset, length) }
    }
}

/// The peak and an offset for every buffer; of those that start together the largest comes first. `None` when sizes overflow.
pub(super) fn place(buffers: &[Buffer]) -> Option<(u64, Vec<u64>)> {
    // Lengths in multiples of the least alignment, so that equal ones fill each other's gaps without rests.
    let grain = buffers.iter().map(|buffer| buffer.alignment).min().unwrap_or(1);
    let mut events: Vec<(u64, bool, u64, usize)> = Vec::with_capacity(2 * buffers.len());
    for (index, buffer) in buffers.iter().enumerate() {
        events.push((buffer.lower, true, u64::MAX - buffer.size, index));
        events.push((buffer.upper, false, 0, index));
    }
    events.sort_unstable();
    let mut gaps = Gaps::default();
    let mut offsets = vec![0; buffers.len()];
    let mut peak = 0;
    for (_, starts, _, index) in events {
        let buffer = &buffers[index];
        let size = buffer.size.checked_next_multiple_of(grain)?;
        if starts {
            offsets[index] = gaps.take(size, buffer.alignment)?;
            peak = peak.max(offsets[index].checked_add(buffer.size)?);
        } else {
            gaps.give_back(offsets[index], size);
        }
    }
    Some((peak, offsets))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Plan, validate};

    proptest! {
        #[test]
        fn placements_are_valid(
            raw in prop::collection::vec((0_u64..30, 1_u64..10, 0_u64..5000, 0_u32..8), 0..60),
        ) {
            let buffers: Vec<Buffer> = raw
                .into_iter()
                .map(|(lower, life, size, shift)| Buffer { lower, upper: lower + life, size, alignment: 1 << shift })
                .collect();
            let (peak, offsets) = place(&buffers).unwrap();
            let plan = Plan { offsets, peak, lower_bound: 0, proven_optimal: false };
            prop_assert_eq!(validate(&buffers, &plan), Ok(()));
        }
    }

    #[test]
    fn equal_buffers_take_what_is_alive() {
        // A stack that grows and shrinks: what is on top goes first, and nothing is wasted.
        let buffers: Vec<Buffer> =
            (0..3000).map(|i| Buffer { lower: i, upper: 7000 - i, size: 10, alignment: 64 }).collect();
        assert_eq!(place(&buffers).unwrap().0, 2999 * 64 + 10);
    }

    #[test]
    fn what_has_ended_makes_room() {
        // Waves of eight, each dead before the next: one wave's bytes are enough for all of them.
        let buffers: Vec<Buffer> = (0..800)
            .map(|i| Buffer { lower: i / 8, upper: i / 8 + 1, size: 100 + i % 8, alignment: 1 })
            .collect();
        assert_eq!(place(&buffers).unwrap().0, (100..108).sum::<u64>());
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let huge = Buffer { lower: 0, upper: 2, size: u64::MAX - 64, alignment: 64 };
        assert_eq!(place(&[huge, huge]), None);
    }
}
