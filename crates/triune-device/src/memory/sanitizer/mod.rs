//! The device-memory sanitizer: finds misuse of chunks when it happens and names the chunk, its size and its places.
//!
//! Off, it is an absent option of a [`Memory`](super::Memory) that nobody looks at per command. On, it keeps a shadow of
//! each region (`shadow.rs`), is told of every allocation, free, host access and operand of a command, byte by byte with
//! strides (`rows.rs`), and turns what is wrong into a [`Report`]. It reads no device memory and changes no result.

mod report;
pub(crate) mod rows;
mod shadow;

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use triune_fork::Brief;

pub use report::{ChunkInfo, Fault, Report};
use rows::Rows;
pub(crate) use shadow::Record;
use shadow::Shadow;

use super::{AccessKind, RangeAccess};
use crate::Error;

/// What happens when the sanitizer finds a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sanitize {
    /// Nothing is watched.
    #[default]
    Off,
    /// What was asked for is not done, and fails with [`Error::Sanitizer`].
    Report,
    /// The fault is printed to standard error, kept for [`Memory::faults`](super::Memory::faults), and work goes on.
    Log,
}

impl Sanitize {
    /// The environment variable that [`Memory::new`](super::Memory::new) reads.
    pub const VARIABLE: &str = "TRIUNE_SANITIZE";

    /// What [`Self::VARIABLE`] says: unset, empty or `0` is off, `1` or `report` reports, `log` logs.
    ///
    /// # Errors
    /// [`Error::SanitizerMode`] for anything else.
    pub fn from_environment() -> Result<Self, Error> {
        std::env::var_os(Self::VARIABLE).map_or(Ok(Self::Off), |value| Self::parse(&value.to_string_lossy()))
    }

    fn parse(value: &str) -> Result<Self, Error> {
        match value {
            "" | "0" => Ok(Self::Off),
            "1" | "report" => Ok(Self::Report),
            "log" => Ok(Self::Log),
            other => Err(Error::SanitizerMode { value: other.to_owned() }),
        }
    }
}

/// Who touches memory; put into words only when there is something to say.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Actor {
    /// A caller of the memory's methods.
    Host,
    /// A command's operand.
    Command { index: usize, mnemonic: &'static str, operand: &'static str },
    /// The decoder, which reads commands.
    Decoder,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("the host"),
            Self::Command { index, mnemonic, operand } => {
                write!(f, "command {index} ({mnemonic}), operand {operand},")
            }
            Self::Decoder => f.write_str("the decoder"),
        }
    }
}

/// Bytes that somebody touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch<'a> {
    pub(crate) actor: Actor,
    pub(crate) kind: AccessKind,
    /// From the first byte to the last.
    pub(crate) range: RangeAccess,
    /// Which of them.
    pub(crate) rows: Rows,
    /// The chunk that is meant, where that is known from before.
    pub(crate) meant: Option<&'a Arc<Record>>,
}

/// Faults that are kept when they are logged.
const KEPT: usize = 1000;

/// A region under watch.
#[derive(Debug)]
struct Watched {
    name: String,
    /// Bytes at its start that belong to the device for ever: no leak.
    reserved: u64,
    shadow: Brief<Shadow>,
}

/// The shadows of a memory's regions.
#[derive(Debug)]
pub(crate) struct Sanitizer {
    device: String,
    mode: Sanitize,
    regions: Vec<Watched>,
    chunks: AtomicU64,
    logged: Brief<Vec<Report>>,
}

impl Sanitizer {
    /// A sanitizer for regions with these names and reserved bytes; `None` when it is off.
    pub(super) fn new<'a>(
        device: &str,
        mode: Sanitize,
        regions: impl Iterator<Item = (&'a str, u64)>,
    ) -> Option<Self> {
        if mode == Sanitize::Off {
            return None;
        }
        let (place, mut chunks) = (Location::caller(), 0);
        let regions = regions.map(|(name, reserved)| {
            let mut shadow = Shadow::default();
            if reserved > 0 {
                let (record, _) = shadow.insert(chunks, 0, reserved, place);
                record.name("reserved by the device".to_owned());
                chunks += 1;
            }
            Watched { name: name.to_owned(), reserved, shadow: Brief::new(shadow) }
        });
        let regions = regions.collect();
        Some(Self {
            device: device.to_owned(),
            mode,
            regions,
            chunks: AtomicU64::new(chunks),
            logged: Brief::default(),
        })
    }

    /// Notes a new chunk.
    pub(super) fn allocated(
        &self,
        region: usize,
        start: u64,
        len: u64,
        place: &'static Location<'static>,
    ) -> Result<(), Error> {
        let Watched { name, shadow, .. } = &self.regions[region];
        let serial = self.chunks.fetch_add(1, Ordering::Relaxed);
        let (new, clash) = shadow.lock().insert(serial, start, len, place);
        let Some(clash) = clash else { return Ok(()) };
        self.found(Report {
            fault: Fault::Overlap,
            actor: Actor::Host.to_string(),
            action: "allocates",
            region: name.clone(),
            start,
            end: new.end(),
            first: start.max(clash.start),
            last: new.end().min(clash.end()),
            chunk: Some(new.info(name)),
            other: Some(clash.info(name)),
        })
    }

    /// Notes that the chunk at `start` went.
    pub(super) fn freed(&self, region: usize, start: u64, place: &'static Location<'static>) {
        self.regions[region].shadow.lock().remove(start, place);
    }

    /// Explains why there is nothing to free at `start`, if it can.
    pub(super) fn not_allocated(&self, region: usize, start: u64) -> Result<(), Error> {
        let Watched { name, shadow, .. } = &self.regions[region];
        let mut shadow = shadow.lock();
        let inside = shadow.at(start).map(|chunk| chunk.record.info(name));
        let before = shadow.freed_from(start).map(|record| record.info(name));
        drop(shadow);
        let (fault, chunk, other) = match (inside, before) {
            (other, Some(before)) => (Fault::DoubleFree, before, other),
            (Some(chunk), None) => (Fault::FreeInside, chunk, None),
            (None, None) => return Ok(()),
        };
        let (actor, region) = (Actor::Host.to_string(), name.clone());
        let (chunk, action) = (Some(chunk), "frees");
        self.found(Report {
            fault,
            actor,
            action,
            region,
            start,
            end: start,
            first: start,
            last: start,
            chunk,
            other,
        })
    }

    /// Says what the live chunk at `start` is for.
    pub(super) fn name(&self, region: usize, start: u64, label: impl FnOnce() -> String) {
        if let Some(chunk) = self.regions[region].shadow.lock().at(start) {
            chunk.record.name(label());
        }
    }

    /// From now on, writes to the live chunk at `start` are faults.
    pub(super) fn seal(&self, region: usize, start: u64) {
        if let Some(chunk) = self.regions[region].shadow.lock().at(start) {
            chunk.record.seal();
        }
    }

    /// The live chunk that holds an address.
    pub(crate) fn chunk_at(&self, region: usize, address: u64) -> Option<Arc<Record>> {
        self.regions[region].shadow.lock().at(address).map(|chunk| Arc::clone(&chunk.record))
    }

    /// Live chunks of all regions.
    pub(super) fn live(&self) -> Vec<ChunkInfo> {
        let mut all = Vec::new();
        for Watched { name, reserved, shadow } in &self.regions {
            let shadow = shadow.lock();
            all.extend(
                shadow.live().filter(|record| record.start >= *reserved).map(|record| record.info(name)),
            );
        }
        all.sort_by_key(|chunk| chunk.serial);
        all
    }

    /// What was logged.
    pub(super) fn logged(&self) -> Vec<Report> {
        self.logged.lock().clone()
    }

    /// Marks bytes of the chunk that they begin in as never written; of the chunk that is meant alone, where one is.
    pub(crate) fn forget(&self, range: RangeAccess, meant: Option<&Arc<Record>>) {
        let mut shadow = self.regions[range.region.0].shadow.lock();
        if let Some(chunk) = shadow.at(range.start)
            && meant.is_none_or(|meant| Arc::ptr_eq(&chunk.record, meant))
            // What is sealed no program may write, so it keeps what it has.
            && !chunk.record.is_sealed()
        {
            chunk.forget(range.start, range.end().min(chunk.record.end()));
        }
    }

    /// Checks what somebody is about to do, and notes what they write.
    pub(crate) fn touch(&self, touch: &Touch<'_>) -> Result<(), Error> {
        if touch.range.len == 0 {
            return Ok(());
        }
        let shadow = &self.regions[touch.range.region.0].shadow;
        let fault = check(&mut shadow.lock(), touch);
        fault.map_or(Ok(()), |found| self.found(self.report(touch, found)))
    }

    fn report(&self, touch: &Touch<'_>, found: Found) -> Report {
        let Touch { actor, kind, range, .. } = touch;
        let name = &self.regions[range.region.0].name;
        let info = |record: Option<Arc<Record>>| record.map(|record| record.info(name));
        Report {
            fault: found.fault,
            actor: actor.to_string(),
            action: match kind {
                AccessKind::Read => "reads",
                AccessKind::Write => "writes",
            },
            region: name.clone(),
            start: range.start,
            end: range.end(),
            first: found.at.0,
            last: found.at.1,
            chunk: info(found.chunk),
            other: info(found.other),
        }
    }

    /// Does with a report what the mode says.
    fn found(&self, report: Report) -> Result<(), Error> {
        if self.mode == Sanitize::Report {
            return Err(Error::Sanitizer(Box::new(report)));
        }
        let mut logged = self.logged.lock();
        // A loop makes the same mistake again and again: once is enough.
        if logged.len() < KEPT && !logged.contains(&report) {
            say(format_args!("device {}: {report}", self.device));
            logged.push(report);
        }
        Ok(())
    }
}

/// Prints to standard error, whose lock no forked child shall find taken.
fn say(what: std::fmt::Arguments<'_>) {
    static SPEAKING: Brief<()> = Brief::new(());
    let _speaking = SPEAKING.lock();
    eprintln!("triune sanitizer: {what}");
}

/// A fault in a touch: the bytes, the chunk that it is about, and the one that lies there instead.
struct Found {
    fault: Fault,
    at: (u64, u64),
    chunk: Option<Arc<Record>>,
    other: Option<Arc<Record>>,
}

/// The rules. The whole range is compared with its chunk first, so that a row is only compared with bits.
fn check(shadow: &mut Shadow, touch: &Touch<'_>) -> Option<Found> {
    let Touch { kind, range, rows, meant, .. } = touch;
    let (start, end) = (range.start, range.end());
    let there = shadow.at(start).map(|chunk| Arc::clone(&chunk.record));
    if let Some(meant) = meant
        && there.as_ref().is_none_or(|there| !Arc::ptr_eq(there, meant))
    {
        let fault = if meant.is_freed() { Fault::UseAfterFree } else { Fault::OutOfBounds };
        return Some(Found { fault, at: (start, end), chunk: Some(Arc::clone(meant)), other: there });
    }
    let Some(record) = there else {
        let freed = shadow.freed_at(start).cloned();
        let fault = if freed.is_some() { Fault::UseAfterFree } else { Fault::OutOfBounds };
        let chunk = freed.or_else(|| shadow.below(start).map(|chunk| Arc::clone(&chunk.record)));
        return Some(Found { fault, at: (start, end), chunk, other: None });
    };
    if end > record.end() {
        let other = shadow.at(record.end()).map(|chunk| Arc::clone(&chunk.record));
        return Some(Found {
            fault: Fault::OutOfBounds,
            at: (record.end(), end),
            chunk: Some(record),
            other,
        });
    }
    let chunk = shadow.at(start)?;
    let result = match kind {
        AccessKind::Write if record.is_sealed() => Err((Fault::Sealed, (start, end))),
        AccessKind::Write => rows.try_each(|offset, len| {
            chunk.write(start + offset, start + offset + len);
            Ok(())
        }),
        AccessKind::Read => rows.try_each(|offset, len| {
            let missing = chunk.never_written(start + offset, start + offset + len);
            missing.map_or(Ok(()), |at| Err((Fault::NeverWritten, at)))
        }),
    };
    result.err().map(|(fault, at)| Found { fault, at, chunk: Some(record), other: None })
}

impl Drop for Sanitizer {
    /// Names what was never freed.
    fn drop(&mut self) {
        for chunk in self.live() {
            say(format_args!("device {}: leak: {chunk}", self.device));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_by_name() {
        for (value, mode) in [
            ("", Sanitize::Off),
            ("0", Sanitize::Off),
            ("1", Sanitize::Report),
            ("report", Sanitize::Report),
            ("log", Sanitize::Log),
        ] {
            assert_eq!(Sanitize::parse(value), Ok(mode));
        }
        let error = Sanitize::parse("yes").expect_err("no mode").to_string();
        assert!(error.contains("TRIUNE_SANITIZE=yes") && error.contains("log"), "{error}");
    }

    /// The arena never does this, so it is planted where the arena's answers arrive.
    #[test]
    fn an_allocator_that_hands_out_bytes_twice_is_found() {
        let sanitizer = Sanitizer::new("test", Sanitize::Report, [("ddr", 0)].into_iter()).expect("on");
        let place = Location::caller();
        sanitizer.allocated(0, 64, 100, place).expect("alone");
        let error = sanitizer.allocated(0, 128, 100, place).expect_err("36 bytes twice");
        let Error::Sanitizer(report) = &error else { panic!("{error}") };
        assert_eq!((report.fault, report.first, report.last), (Fault::Overlap, 128, 164));
        assert!(error.to_string().contains("100 bytes at ddr 0x40..0xa4"), "{error}");
        sanitizer.freed(0, 64, place);
        sanitizer.freed(0, 128, place);
    }
}
