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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::SegmentKind;

    const FAR: RegionId = RegionId(0);
    const NEAR: RegionId = RegionId(1);

    fn mmu(entries: &[[u32; 2]]) -> Mmu {
        let mut mmu = Mmu::new(true);
        mmu.load(entries.iter().copied());
        mmu
    }

    /// Where one address goes: by the last entry, in the order of the bases, that is not above it.
    fn naive(entries: &[[u32; 2]], address: u32) -> Option<u32> {
        let mut found: Option<[u32; 2]> = None;
        for &[base, difference] in entries {
            if base <= address && found.is_none_or(|[best, _]| base > best) {
                found = Some([base, difference]);
            }
        }
        found.map(|[_, difference]| address.wrapping_add(difference))
    }

    #[test]
    fn ends_of_the_address_space() {
        let mmu = mmu(&[[0x1000, 0_u32.wrapping_sub(0x1000)], [0xffff_ff00, 0x200]]);
        assert_eq!(mmu.physical(0x1000, 0x100), Ok(0));
        assert_eq!(mmu.physical(0xffff_ff00, 0x100), Ok(0x100));
        assert_eq!(mmu.physical(0xffff_ff00, 0), Ok(0x100));
        for (start, bytes, said) in [
            (0xfff, 1, "below"),
            (0xffff_ff00, 0x101, "leave 32 bits"),
            (u64::MAX, 1, "leave 32 bits"),
            (1 << 32, 1, "leave 32 bits"),
            (0xffff_fe00, 0x101, "reach over"),
        ] {
            let error = mmu.physical(start, bytes).expect_err("refused");
            assert!(error.contains(said), "{error}");
        }
        // Exactly up to the border.
        assert_eq!(mmu.physical(0xffff_fe00, 0x100), Ok(0xffff_ee00));
    }

    #[test]
    fn only_the_far_memory_moves() {
        let mmu = mmu(&[[0, 0x1_0000]]);
        let segment = |region, kind| Segment { region, base: 0x40, len: 64, kind };
        let table = SegmentTable::new(vec![
            segment(FAR, SegmentKind::Input),
            segment(NEAR, SegmentKind::Resident),
            Segment { base: u64::MAX - 63, len: 0, ..segment(FAR, SegmentKind::Scratch) },
        ])
        .expect("disjoint");
        let (start, moved) = mmu.translate(FAR, 0x40, 64, &table).expect("inside");
        let bases: Vec<_> = moved.segments().iter().map(|segment| segment.base).collect();
        assert_eq!((start, bases), (0x1_0040, vec![0x1_0040, 0x40, u64::MAX - 63]));
        let off = Mmu { on: false, ..mmu };
        assert_eq!(off.translate(FAR, 0x40, 64, &table), Ok((0x40, table)));
    }

    proptest! {
        #[test]
        fn every_byte_of_a_range_goes_where_it_alone_would(
            entries in proptest::collection::vec((0..400_u32, any::<u32>()).prop_map(<[u32; 2]>::from), 1..6),
            start in 0..500_u32,
            bytes in 1..40_u32,
        ) {
            let mmu = mmu(&entries);
            let each: Vec<_> = (start..start + bytes).map(|address| naive(&entries, address)).collect();
            let together = each[0].is_some_and(|first| {
                each.iter().enumerate().all(|(at, place)| *place == Some(first.wrapping_add(at as u32)))
            });
            match mmu.physical(start.into(), bytes.into()) {
                Ok(place) => prop_assert!(together && each[0] == Some(place as u32)),
                Err(_) => prop_assert!(!together),
            }
        }
    }
}
