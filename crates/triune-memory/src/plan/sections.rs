//! Buffers cut into sections: the stretches of time between which the set of live buffers changes.
//!
//! Only maximal sections stay, those whose live set is no subset of a neighbour's; the others constrain nothing.

use super::Buffer;
use crate::events::events;

/// A buffer in terms of sections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Bytes that nothing above can use: the size, padded to the least alignment of all.
    pub(super) size: u64,
    /// How much of it is padding: the topmost item does not need it.
    pub(super) pad: u64,
    pub(super) alignment: u64,
    /// Sections `first..last`.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Steps alive.
    pub(super) width: u64,
}

/// What a search needs to know of the buffers, all of it fixed.
#[derive(Clone, Debug)]
pub(super) struct Sections {
    /// The least alignment.
    pub(super) grain: u64,
    /// One item per buffer that has a size.
    pub(super) items: Vec<Item>,
    /// The buffer of each item.
    pub(super) buffers: Vec<usize>,
    /// Items that live in each section.
    pub(super) members: Vec<Vec<u32>>,
    /// Items that live together with each item.
    pub(super) overlaps: Vec<Vec<u32>>,
}

impl Sections {
    /// Cuts time; buffers of size 0 are left out. Padded sizes must not overflow.
    pub(super) fn new(buffers: &[Buffer]) -> Self {
        let kept: Vec<usize> = (0..buffers.len()).filter(|&index| buffers[index].size > 0).collect();
        let grain = kept.iter().map(|&index| buffers[index].alignment).min().unwrap_or(1);
        let events = events(buffers, |buffer| buffer.size > 0);
        // A maximal live set stands between a start and the end that follows it; the end's step closes the section.
        let closes: Vec<u64> = events
            .windows(2)
            .filter(|pair| pair[0].starts && !pair[1].starts)
            .map(|pair| pair[1].step)
            .collect();
        let items: Vec<Item> = kept
            .iter()
            .map(|&index| {
                let buffer = &buffers[index];
                let size = buffer.size.next_multiple_of(grain);
                Item {
                    size,
                    pad: size - buffer.size,
                    alignment: buffer.alignment,
                    first: closes.partition_point(|&close| close <= buffer.lower) as u32,
                    last: closes.partition_point(|&close| close <= buffer.upper) as u32,
                    width: buffer.upper - buffer.lower,
                }
            })
            .collect();
        let mut members = vec![Vec::new(); closes.len()];
        for (number, item) in items.iter().enumerate() {
            members[item.first as usize..item.last as usize]
                .iter_mut()
                .for_each(|each| each.push(number as u32));
        }
        let overlaps = (0..items.len())
            .map(|number| {
                let item = &items[number];
                (0..items.len())
                    .filter(|&other| {
                        other != number && items[other].first < item.last && item.first < items[other].last
                    })
                    .map(|other| other as u32)
                    .collect()
            })
            .collect();
        Self { grain, items, buffers: kept, members, overlaps }
    }
}
