//! What a decoded program may take of the host's memory.
//!
//! Some bytes of a stream can call for megabytes of packed weights or tables, over and over, so decoding counts what it
//! keeps and ends with an error before that passes any proportion.

use std::cell::{Cell, RefCell};

use triune_tensor::memory::Room;

use super::{SegmentKind, SegmentTable};
use crate::Error;

/// What is left of the memory for one program, or for the streams of one job.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: Cell<u64>,
    /// What is counted is there to be allocated.
    room: RefCell<Room>,
}

impl Budget {
    /// Bytes that every program may take: its commands in the form that runs, up to eight times the stream's bytes.
    pub(crate) const COMMANDS: u64 = 1 << 30;
    /// Times the bytes of its constants that it may take besides, for packed weights and tables.
    const CONSTANTS: u64 = 4;

    /// The budget of a program over these segments.
    pub(crate) fn new(segments: &SegmentTable) -> Self {
        let constants = segments.segments().iter().filter(|segment| segment.kind == SegmentKind::Constants);
        let bytes = constants.fold(0_u64, |sum, segment| sum.saturating_add(segment.len));
        let limit = bytes.saturating_mul(Self::CONSTANTS).saturating_add(Self::COMMANDS);
        Self { limit, used: Cell::new(0), room: RefCell::default() }
    }

    /// Counts bytes before they are allocated.
    pub(super) fn take(&self, bytes: u64) -> Result<(), Error> {
        let used = self.used.get().saturating_add(bytes);
        if used > self.limit {
            return Err(Error::ProgramTooLarge { bytes: used, limit: self.limit });
        }
        self.room.borrow_mut().take(bytes)?;
        self.used.set(used);
        Ok(())
    }

    /// Bytes that have been counted.
    pub(super) fn used(&self) -> u64 {
        self.used.get()
    }
}

#[cfg(test)]
mod tests {
    use triune_kernels::Isa;
    use triune_tensor::DType;

    use super::*;
    use crate::{
        Addr, Command, Decoded, DeviceSpec, FeatureMap, Memory, RegionId, Segment, Stream,
        command::{Table, encode},
        exec::Words,
    };

    fn segment(region: RegionId, base: u64, len: u64, kind: SegmentKind) -> Segment {
        Segment { region, base, len, kind }
    }

    #[test]
    fn what_passes_the_limit_is_not_counted() {
        let constants = segment(RegionId(0), 0, 100, SegmentKind::Constants);
        let budget = Budget::new(&SegmentTable::new(vec![constants]).unwrap());
        assert_eq!(budget.take(Budget::COMMANDS), Ok(()));
        assert_eq!(budget.take(400), Ok(()));
        let limit = Budget::COMMANDS + 400;
        assert_eq!(budget.take(1), Err(Error::ProgramTooLarge { bytes: limit + 1, limit }));
        assert_eq!(budget.take(u64::MAX), Err(Error::ProgramTooLarge { bytes: u64::MAX, limit }));
        assert_eq!(budget.used(), limit);
    }

    /// A few bytes of a stream keep a table of 128 KiB each.
    #[test]
    fn programs_that_keep_too_much_are_refused() {
        let memory = Memory::new(&DeviceSpec::builtin("host").unwrap()).unwrap();
        let region = memory.regions().next().unwrap().0;
        let map = |segment| FeatureMap::dense(Addr::new(segment, 0), DType::I16, [1, 1, 1, 4]);
        let table = Table { input: map(2), output: map(3), table: Addr::new(1, 0) };
        let words = encode(&[Command::from(table); 10]);
        memory.write(region, 0, &words).unwrap();
        let table = SegmentTable::new(vec![
            segment(region, 0, words.len() as u64, SegmentKind::Instructions),
            segment(region, 1 << 16, 1 << 17, SegmentKind::Constants),
            segment(region, 1 << 18, 8, SegmentKind::Input),
            segment(region, 1 << 19, 8, SegmentKind::Output),
        ])
        .unwrap();
        let stream = Stream { addr: Addr::new(0, 0), len: words.len() as u64 };
        let within = |limit| {
            let budget = Budget { limit, used: Cell::new(0), room: RefCell::default() };
            Decoded::within(&memory, &table, Words::At(stream), Isa::best(), None, &budget)
                .map(|decoded| decoded.bytes())
        };
        let bytes = within(2 << 20).unwrap();
        assert!((10 << 17..11 << 17).contains(&bytes), "{bytes}");
        assert_eq!(within(bytes), Ok(bytes));
        match within(10 << 17) {
            Err(Error::ProgramTooLarge { bytes, limit }) => assert!(bytes > limit && limit == 10 << 17),
            other => panic!("{other:?}"),
        }
    }
}
