//! The shadow of one region: its live chunks, which of their bytes were written, and what was freed of late.
//!
//! One bit per byte of a live chunk, in zeroed vectors that cost address space until bits are set: a region of 4 GiB costs
//! what is used of it. Knows addresses and bits; what a fault is, is said elsewhere.

use std::{
    collections::{BTreeMap, VecDeque},
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use super::report::ChunkInfo;

/// Freed chunks that are remembered per region.
const REMEMBERED: usize = 4096;

/// Who a chunk is, for as long as anybody asks.
#[derive(Debug)]
pub(crate) struct Record {
    serial: u64,
    pub(super) start: u64,
    pub(super) len: u64,
    allocated: &'static Location<'static>,
    label: OnceLock<String>,
    freed: OnceLock<&'static Location<'static>>,
    sealed: AtomicBool,
}

impl Record {
    pub(super) fn end(&self) -> u64 {
        self.start + self.len
    }

    pub(super) fn is_freed(&self) -> bool {
        self.freed.get().is_some()
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Relaxed)
    }

    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Relaxed);
    }

    /// Says what the chunk is for; the first word stands.
    pub(super) fn name(&self, label: String) {
        let _ = self.label.set(label);
    }

    pub(super) fn info(&self, region: &str) -> ChunkInfo {
        ChunkInfo {
            serial: self.serial,
            region: region.to_owned(),
            start: self.start,
            len: self.len,
            label: self.label.get().cloned().unwrap_or_default(),
            allocated: self.allocated,
            freed: self.freed.get().copied(),
        }
    }
}

/// One bit per byte.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: u64) -> Self {
        Self(vec![0; len.div_ceil(64) as usize])
    }

    /// The words that hold bits `start..end`, each with the mask of those bits.
    fn words(start: u64, end: u64) -> impl Iterator<Item = (usize, u64)> {
        let (first, last) = (start / 64, end.div_ceil(64));
        (first..last).map(move |word| {
            let low = if word == first { u64::MAX << (start % 64) } else { u64::MAX };
            let high = if word == last - 1 && !end.is_multiple_of(64) {
                !(u64::MAX << (end % 64))
            } else {
                u64::MAX
            };
            (word as usize, low & high)
        })
    }

    fn set(&mut self, start: u64, end: u64) {
        Self::words(start, end).for_each(|(word, mask)| self.0[word] |= mask);
    }

    fn clear(&mut self, start: u64, end: u64) {
        Self::words(start, end).for_each(|(word, mask)| self.0[word] &= !mask);
    }

    /// The first range without a gap, cut at `end`, of bits in `start..end` that are not set.
    fn missing(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (word, zeros) = Self::words(start, end)
            .map(|(word, mask)| (word, mask & !self.0[word]))
            .find(|&(_, zeros)| zeros != 0)?;
        let first = word as u64 * 64 + u64::from(zeros.trailing_zeros());
        let last = Self::words(first, end)
            .map(|(word, mask)| (word, mask & self.0[word]))
            .find(|&(_, ones)| ones != 0)
            .map_or(end, |(word, ones)| word as u64 * 64 + u64::from(ones.trailing_zeros()));
        Some((first, last))
    }
}

/// A live chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) record: Arc<Record>,
    written: Bits,
}

impl Chunk {
    /// Marks bytes as written; they lie in the chunk.
    pub(super) fn write(&mut self, start: u64, end: u64) {
        self.written.set(start - self.record.start, end - self.record.start);
    }

    /// Marks bytes as never written; they lie in the chunk.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        self.written.clear(start - self.record.start, end - self.record.start);
    }

    /// The first bytes of a range in the chunk that were never written.
    pub(super) fn never_written(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let base = self.record.start;
        self.written.missing(start - base, end - base).map(|(first, last)| (first + base, last + base))
    }
}

/// The chunks of one region.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    live: BTreeMap<u64, Chunk>,
    freed: VecDeque<Arc<Record>>,
}

impl Shadow {
    /// Records a new chunk; gives a live one that shares bytes with it, if the allocator made such a mistake.
    pub(super) fn insert(
        &mut self,
        serial: u64,
        start: u64,
        len: u64,
        allocated: &'static Location<'static>,
    ) -> (Arc<Record>, Option<Arc<Record>>) {
        let record = Arc::new(Record {
            serial,
            start,
            len,
            allocated,
            label: OnceLock::new(),
            freed: OnceLock::new(),
            sealed: AtomicBool::new(false),
        });
        let below = self.live.range(..record.end()).next_back();
        let clash =
            below.filter(|(_, other)| other.record.end() > start).map(|(_, other)| Arc::clone(&other.record));
        let chunk = Chunk { record: Arc::clone(&record), written: Bits::new(len) };
        self.live.insert(start, chunk);
        (record, clash)
    }

    /// Takes the chunk that starts at an address out of the live ones.
    pub(super) fn remove(&mut self, start: u64, place: &'static Location<'static>) {
        let Some(chunk) = self.live.remove(&start) else { return };
        let _ = chunk.record.freed.set(place);
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back(chunk.record);
    }

    /// The live chunk that holds an address.
    pub(super) fn at(&mut self, address: u64) -> Option<&mut Chunk> {
        self.below(address).filter(|chunk| address < chunk.record.end())
    }

    /// The live chunk that starts last at or below an address.
    pub(super) fn below(&mut self, address: u64) -> Option<&mut Chunk> {
        self.live.range_mut(..=address).next_back().map(|(_, chunk)| chunk)
    }

    /// The chunk freed last that had this address.
    pub(super) fn freed_at(&self, address: u64) -> Option<&Arc<Record>> {
        self.freed.iter().rev().find(|record| (record.start..record.end()).contains(&address))
    }

    /// The chunk freed last that started at this address.
    pub(super) fn freed_from(&self, start: u64) -> Option<&Arc<Record>> {
        self.freed.iter().rev().find(|record| record.start == start)
    }

    /// Live chunks in address order.
    pub(super) fn live(&self) -> impl Iterator<Item = &Record> {
        self.live.values().map(|chunk| &*chunk.record)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Bits agree with a vector of booleans.
        #[test]
        fn bits_agree_with_a_list(
            steps in prop::collection::vec((any::<bool>(), 0_u64..300, 0_u64..300), 1..30),
            (from, to) in (0_u64..300, 0_u64..300),
        ) {
            let (mut bits, mut list) = (Bits::new(300), [false; 300]);
            for (set, a, b) in steps {
                let (start, end) = (a.min(b), a.max(b));
                if set { bits.set(start, end) } else { bits.clear(start, end) }
                list[start as usize..end as usize].fill(set);
            }
            let (start, end) = (from.min(to), from.max(to));
            let first = (start..end).find(|&bit| !list[bit as usize]);
            let expected = first.map(|first| {
                (first, (first..end).find(|&bit| list[bit as usize]).unwrap_or(end))
            });
            prop_assert_eq!(bits.missing(start, end), expected);
        }
    }

    #[test]
    fn chunks_that_share_bytes_are_seen() {
        let mut shadow = Shadow::default();
        let place = Location::caller();
        assert!(shadow.insert(1, 100, 50, place).1.is_none());
        assert!(shadow.insert(2, 150, 50, place).1.is_none());
        assert_eq!(shadow.insert(3, 149, 1, place).1.map(|record| record.serial), Some(1));
        assert_eq!(shadow.insert(4, 50, 51, place).1.map(|record| record.serial), Some(1));
        assert!(shadow.insert(5, 300, 1, place).1.is_none());
    }

    #[test]
    fn what_was_freed_is_remembered_for_a_while() {
        let mut shadow = Shadow::default();
        let place = Location::caller();
        for serial in 0..=REMEMBERED as u64 {
            shadow.insert(serial, serial * 10, 10, place);
            shadow.remove(serial * 10, place);
        }
        assert!(shadow.freed_at(5).is_none());
        assert_eq!(shadow.freed_at(15).map(|record| record.serial), Some(1));
        assert!(shadow.freed_from(15).is_none() && shadow.at(15).is_none());
    }
}
