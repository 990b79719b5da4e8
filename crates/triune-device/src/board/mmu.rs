//! The table through which a core's addresses in the far memory go: logical bases, and what is added to addresses from each
//! of them on to the next.

use crate::{Error, RegionId, Segment, SegmentTable};

/// Entries of the table.
pub(super) const ENTRIES: usize = 32;

/// The MMU of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mmu {
    pub(super) on: bool,
    /// Logical base, and physical minus logical address modulo 2³², in the order of the bases. Zeros at first: addresses stay.
    table: Vec<[u32; 2]>,
}

impl Mmu {
    /// The state in which a board with or without an MMU is opened.
    pub(super) fn new(on: bool) -> Self {
        Self { on, table: vec![[0, 0]] }
    }

    /// Takes over a table. Of entries with the same base, the first counts.
    pub(super) fn load(&mut self, entries: impl Iterator<Item = [u32; 2]>) {
        self.table = entries.collect();
        self.table.sort_by_key(|&[base, _]| base);
        self.table.dedup_by_key(|&mut [base, _]| base);
    }

    /// Whether addresses stay as they are.
    pub(super) fn is_identity(&self) -> bool {
        !self.on || self.table == [[0, 0]]
    }

    /// The physical address of `bytes` bytes at a logical one.
    fn physical(&self, start: u64, bytes: u64) -> Result<u64, String> {
        let end = start.checked_add(bytes).filter(|&end| end <= 1 << 32);
        let end =
            end.ok_or_else(|| format!("{bytes} bytes at the logical address {start:#x} leave 32 bits"))?;
        let behind = self.table.partition_point(|&[base, _]| u64::from(base) <= start);
        let Some(&[_, difference]) = behind.checked_sub(1).and_then(|index| self.table.get(index)) else {
            return Err(format!("the logical address {start:#x} is below all of the MMU's bases"));
        };
        let rest = self.table[behind..].iter().take_while(|&&[base, _]| u64::from(base) < end);
        if let Some([base, _]) = rest.clone().find(|&&[_, other]| other != difference) {
            return Err(format!(
                "the {bytes} bytes at the logical address {start:#x} reach over the MMU's base {base:#x}, behind which \
                 addresses go elsewhere"
            ));
        }
        Ok(u64::from((start as u32).wrapping_add(difference)))
    }

    /// A job's first byte and table with physical addresses.
    pub(super) fn translate(
        &self,
        far: RegionId,
        start: u64,
        bytes: u64,
        segments: &SegmentTable,
    ) -> Result<(u64, SegmentTable), Error> {
        if self.is_identity() {
            return Ok((start, segments.clone()));
        }
        let translated = |(index, segment): (usize, &Segment)| {
            if segment.region != far || segment.len == 0 {
                return Ok(*segment);
            }
            let base = self.physical(segment.base, segment.len);
            let base = base.map_err(|problem| Error::Segment { segment: index, problem })?;
            Ok(Segment { base, ..*segment })
        };
        let table = segments.segments().iter().enumerate().map(translated).collect::<Result<_, Error>>()?;
        Ok((self.physical(start, bytes).map_err(Error::Board)?, SegmentTable::new(table)?))
    }
}
