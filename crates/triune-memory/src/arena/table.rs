//! Which chunk starts at an offset: a hash table of block numbers with linear probing.
//!
//! An entry is 8 bytes, half a hash and half a block number, so that a probe and the shift after a removal touch one
//! cache line and no block; the block itself, which the caller needs anyway, decides. A general map from offset to number
//! takes 17 bytes per slot and two lines per operation.

/// Numbers of chunks by the offsets where they start.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// A power of two of slots; the hash in the upper half, the block's number in the lower.
    slots: Vec<u64>,
    len: usize,
}

impl Table {
    /// No block has the largest number, so no entry has these bits.
    const EMPTY: u64 = u64::MAX;
    const LEAST: usize = 64;

    pub(super) fn new() -> Self {
        Self { slots: vec![Self::EMPTY; Self::LEAST], len: 0 }
    }

    /// Chunks in the table.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Multiplies by 2^64 / φ: offsets are spread already, only their low zeros are in the way.
    fn hash(offset: u64) -> u32 {
        (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    /// The slot where the search for a hash begins: its upper bits.
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    /// Chunks that the slots are enough for. A table that fits the innermost cache is a quarter full, so that most probes
    /// hit at once and are foreseen; a larger one is at most 5/8 full, because then lines are dearer than probes.
    fn limit(&self) -> usize {
        let slots = self.slots.len();
        if slots <= 4096 { slots / 4 } else { slots / 8 * 5 }
    }

    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// Adds the chunk `number`, which starts at an offset that is not in the table.
    pub(super) fn insert(&mut self, offset: u64, number: u32) {
        if self.len >= self.limit() {
            let doubled = vec![Self::EMPTY; 2 * self.slots.len()];
            let old = std::mem::replace(&mut self.slots, doubled);
            old.into_iter().filter(|&entry| entry != Self::EMPTY).for_each(|entry| self.put(entry));
        }
        self.put(u64::from(Self::hash(offset)) << 32 | u64::from(number));
        self.len += 1;
    }

    fn put(&mut self, entry: u64) {
        let mut slot = self.home((entry >> 32) as u32);
        while self.slots[slot] != Self::EMPTY {
            slot = self.after(slot);
        }
        self.slots[slot] = entry;
    }

    /// The slot of the chunk that starts at an offset; `start` gives a chunk's own.
    fn find(&self, offset: u64, start: impl Fn(u32) -> u64) -> Option<usize> {
        let hash = Self::hash(offset);
        let mut slot = self.home(hash);
        loop {
            let entry = self.slots[slot];
            if entry == Self::EMPTY {
                return None;
            }
            if (entry >> 32) as u32 == hash && start(entry as u32) == offset {
                return Some(slot);
            }
            slot = self.after(slot);
        }
    }

    /// Takes out the chunk that starts at an offset and gives its number; `start` gives a chunk's own offset.
    pub(super) fn remove(&mut self, offset: u64, start: impl Fn(u32) -> u64) -> Option<u32> {
        let mut hole = self.find(offset, start)?;
        let number = self.slots[hole] as u32;
        // Entries behind the hole move into it unless that were before their home.
        let mask = self.slots.len() - 1;
        let mut slot = self.after(hole);
        while self.slots[slot] != Self::EMPTY {
            let home = self.home((self.slots[slot] >> 32) as u32);
            if (slot.wrapping_sub(home) & mask) >= (slot.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[slot];
                hole = slot;
            }
            slot = self.after(slot);
        }
        self.slots[hole] = Self::EMPTY;
        self.len -= 1;
        Some(number)
    }

    /// The number of the chunk that starts at an offset.
    #[cfg(test)]
    pub(super) fn get(&self, offset: u64, start: impl Fn(u32) -> u64) -> Option<u32> {
        self.find(offset, start).map(|slot| self.slots[slot] as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Agrees with a map of the standard library; offsets are few, so that they come back and collide.
        #[test]
        fn agrees_with_a_map(
            shift in 0_u32..56,
            steps in prop::collection::vec((any::<bool>(), 0_u64..200), 1..600),
        ) {
            let (mut table, mut map) = (Table::new(), HashMap::new());
            let mut starts = Vec::new();
            for (add, offset) in steps {
                let offset = offset << shift;
                if add && !map.contains_key(&offset) {
                    let number = starts.len() as u32;
                    starts.push(offset);
                    table.insert(offset, number);
                    map.insert(offset, number);
                } else if !add {
                    prop_assert_eq!(table.remove(offset, |number| starts[number as usize]), map.remove(&offset));
                }
                prop_assert_eq!(table.len(), map.len());
            }
            for offset in (0..200).map(|offset| offset << shift) {
                let found = table.get(offset, |number| starts[number as usize]);
                prop_assert_eq!(found, map.get(&offset).copied());
            }
        }
    }
}
