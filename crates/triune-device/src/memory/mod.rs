//! Simulated device memory: named regions, allocation in them, host access, and leases for everything else.
//!
//! Regions cost address space only; pages are committed when touched. Every byte is reached through a [`Lease`] (the
//! host's reads and writes take one for their duration), so two threads never race. Nothing here knows commands.

mod chunk;
mod pages;
pub mod sanitizer;
mod slab;
mod strips;
mod table;

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use triune_fork::{Brief, Forked};
use triune_memory::Arena;

pub use chunk::Chunk;
pub use slab::Lease;
use slab::Slab;
pub(crate) use slab::nothing;
pub(crate) use strips::{Cut, Own, Strip, Strips};
use table::{Conflict, LeaseTable};

pub use sanitizer::Sanitize;
use sanitizer::{ChunkInfo, Report, Sanitizer};

use crate::{DeviceSpec, Error};

/// Which region of a [`Memory`]: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub usize);

/// What a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Any number of readers.
    Read,
    /// One writer.
    Write,
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "reading",
            Self::Write => "writing",
        })
    }
}

/// A range of a region, and whether it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeAccess {
    /// The region.
    pub region: RegionId,
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Whether the range may be written, which excludes every other lease on it.
    pub exclusive: bool,
}

impl RangeAccess {
    /// A range that is read.
    pub const fn shared(region: RegionId, start: u64, len: u64) -> Self {
        Self { region, start, len, exclusive: false }
    }

    /// A range that is written.
    pub const fn exclusive(region: RegionId, start: u64, len: u64) -> Self {
        Self { region, start, len, exclusive: true }
    }

    /// What a lease on the range is for.
    pub const fn kind(&self) -> AccessKind {
        if self.exclusive { AccessKind::Write } else { AccessKind::Read }
    }

    /// One past the last byte; saturates.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }

    /// Whether the two ranges share a byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.region == other.region
            && self.len > 0
            && other.len > 0
            && self.start < other.end()
            && other.start < self.end()
    }
}

/// Counts the times that any byte of some ranges could have been written; see [`Memory::watch`].
#[derive(Clone, Debug)]
pub struct Watch {
    generation: Arc<AtomicU64>,
}

impl Watch {
    /// The count. Read it while holding a lease on the ranges, and it cannot change until the lease ends.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

struct Region {
    name: String,
    reserved: u64,
    slab: Slab,
    arena: Brief<Arena>,
}

/// All memory of one device.
pub struct Memory {
    device: String,
    regions: Vec<Region>,
    leases: LeaseTable,
    sanitizer: Option<Box<Sanitizer>>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Memory {
    /// The memories of a device: one region each, or one per core (`l1.0`, `l1.1`, …) where the description says so;
    /// watched by the sanitizer if the environment asks for it ([`Sanitize::from_environment`]).
    ///
    /// # Errors
    /// [`Error::Map`] when the host has no address space for a region, [`Error::SanitizerMode`].
    pub fn new(spec: &DeviceSpec) -> Result<Self, Error> {
        Self::with_sanitizer(spec, Sanitize::from_environment()?)
    }

    /// As [`Self::new`], with the sanitizer as said here.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn with_sanitizer(spec: &DeviceSpec, sanitize: Sanitize) -> Result<Self, Error> {
        let mut regions = Vec::new();
        for memory in &spec.memory {
            let names: Vec<String> = if memory.per_core {
                (0..spec.cores).map(|core| format!("{}.{core}", memory.name)).collect()
            } else {
                vec![memory.name.clone()]
            };
            for name in names {
                let slab = Slab::new(memory.bytes).map_err(|reason| Error::Map {
                    region: name.clone(),
                    size: memory.bytes,
                    reason: reason.to_string(),
                })?;
                let mut arena = Arena::new(memory.bytes);
                if memory.reserved > 0 {
                    arena.allocate_at(0, memory.reserved);
                }
                regions.push(Region { name, reserved: memory.reserved, slab, arena: Brief::new(arena) });
            }
        }
        let named = regions.iter().map(|region| (&*region.name, region.reserved));
        let sanitizer = Sanitizer::new(&spec.name, sanitize, named).map(Box::new);
        Ok(Self { device: spec.name.clone(), regions, leases: LeaseTable::default(), sanitizer })
    }

    /// The region of this name.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`] lists the names that exist.
    pub fn region(&self, name: &str) -> Result<RegionId, Error> {
        self.regions.iter().position(|region| region.name == name).map(RegionId).ok_or_else(|| {
            Error::UnknownMemory {
                device: self.device.clone(),
                name: name.to_owned(),
                known: self.regions.iter().map(|region| region.name.as_str()).collect::<Vec<_>>().join(", "),
            }
        })
    }

    /// The region that core `core` sees under a memory's name: its own (`l1.2`) where cores have one each.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`].
    pub fn core_region(&self, name: &str, core: u32) -> Result<RegionId, Error> {
        self.region(&format!("{name}.{core}")).or_else(|_| self.region(name))
    }

    /// Every region with its name and size.
    pub fn regions(&self) -> impl Iterator<Item = (RegionId, &str, u64)> {
        self.regions
            .iter()
            .enumerate()
            .map(|(index, each)| (RegionId(index), each.name.as_str(), each.slab.size()))
    }

    /// The region's size in bytes.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`] for an index out of range.
    pub fn size(&self, region: RegionId) -> Result<u64, Error> {
        Ok(self.get(region)?.slab.size())
    }

    /// Allocates `len` bytes at a multiple of `alignment` (a power of two) and gives their address.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], also for a length of 0 or an alignment that is no power of two.
    #[track_caller]
    pub fn allocate(&self, region: RegionId, len: u64, alignment: u64) -> Result<u64, Error> {
        let own = self.get(region)?;
        let mut arena = own.arena.lock();
        let start =
            arena.allocate(len, alignment).ok_or_else(|| own.out_of_memory(&arena, len, alignment))?;
        if let Some(sanitizer) = &self.sanitizer {
            sanitizer.allocated(region.0, start, len, Location::caller())?;
        }
        Ok(start)
    }

    /// Allocates exactly `len` bytes at `start`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when any of them is in use or outside of the region.
    #[track_caller]
    pub fn allocate_at(&self, region: RegionId, start: u64, len: u64) -> Result<(), Error> {
        let own = self.get(region)?;
        let mut arena = own.arena.lock();
        if !arena.allocate_at(start, len) {
            return Err(own.out_of_memory(&arena, len, 1));
        }
        if let Some(sanitizer) = &self.sanitizer {
            sanitizer.allocated(region.0, start, len, Location::caller())?;
        }
        Ok(())
    }

    /// Frees what was allocated at `start` and gives its length.
    ///
    /// # Errors
    /// [`Error::NotAllocated`], also for the reserved part of a region; [`Error::Sanitizer`] instead where the sanitizer
    /// knows more.
    #[track_caller]
    pub fn free(&self, region: RegionId, start: u64) -> Result<u64, Error> {
        let own = self.get(region)?;
        let refused = || Error::NotAllocated { region: own.name.clone(), start };
        if start < own.reserved {
            return Err(refused());
        }
        // Held until the shadow knows, so that nobody is given the bytes meanwhile.
        let mut arena = own.arena.lock();
        let freed = arena.free(start);
        if let Some(sanitizer) = &self.sanitizer {
            match freed {
                Some(_) => sanitizer.freed(region.0, start, Location::caller()),
                None => sanitizer.not_allocated(region.0, start)?,
            }
        }
        freed.ok_or_else(refused)
    }

    /// Says what the chunk at `start` is for, in the words that sanitizer reports shall use. Does nothing, and does not
    /// call `label`, while the sanitizer is off.
    pub fn label(&self, region: RegionId, start: u64, label: impl FnOnce() -> String) {
        if let Some(sanitizer) = &self.sanitizer
            && region.0 < self.regions.len()
        {
            sanitizer.name(region.0, start, label);
        }
    }

    /// Says that the chunk at `start` holds instructions or constants of a live program: until it is freed, the sanitizer
    /// reports writes to it, the host's and programs'. Does nothing while the sanitizer is off.
    pub fn seal(&self, region: RegionId, start: u64) {
        if let Some(sanitizer) = &self.sanitizer
            && region.0 < self.regions.len()
        {
            sanitizer.seal(region.0, start);
        }
    }

    /// Says that bytes hold nothing of value any more: until they are written again, the sanitizer reports who reads them. Who
    /// runs a program in parts says so of what a part makes, before it runs; whole programs do it themselves. Does nothing to
    /// what is sealed, nor while the sanitizer is off.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`], [`Error::OutOfRegion`].
    pub fn forget(&self, region: RegionId, start: u64, len: u64) -> Result<(), Error> {
        let range = RangeAccess::exclusive(region, start, len);
        self.check_ranges(&[range])?;
        if let Some(sanitizer) = &self.sanitizer {
            sanitizer.forget(range, None);
        }
        Ok(())
    }

    /// Whether the sanitizer is on.
    pub fn is_watched(&self) -> bool {
        self.sanitizer.is_some()
    }

    /// What is allocated at this moment, in the order of allocation, without the regions' reserved parts: what would leak
    /// if the memory were dropped now. Empty while the sanitizer is off. At drop the same list goes to standard error.
    pub fn leaks(&self) -> Vec<ChunkInfo> {
        self.sanitizer.as_ref().map_or_else(Vec::new, |sanitizer| sanitizer.live())
    }

    /// The different faults that were logged so far, at most 1,000; see [`Sanitize::Log`].
    pub fn faults(&self) -> Vec<Report> {
        self.sanitizer.as_ref().map_or_else(Vec::new, |sanitizer| sanitizer.logged())
    }

    /// The sanitizer, if it is on.
    pub(crate) fn sanitizer(&self) -> Option<&Sanitizer> {
        self.sanitizer.as_deref()
    }

    /// What is allocated in a region: (address, length), the reserved part included.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`] for an index out of range.
    pub fn live(&self, region: RegionId) -> Result<Vec<(u64, u64)>, Error> {
        Ok(self.get(region)?.arena.lock().live().collect())
    }

    /// Copies `out.len()` bytes at `start` to the host.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`]; [`Error::Busy`] while any of them is being written; [`Error::Sanitizer`].
    pub fn read(&self, region: RegionId, start: u64, out: &mut [u8]) -> Result<(), Error> {
        let ranges = [RangeAccess::shared(region, start, out.len() as u64)];
        out.copy_from_slice(self.lease(&ranges)?.read(ranges[0])?);
        Ok(())
    }

    /// Copies `bytes` from the host to `start`.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`]; [`Error::Busy`] while any of them is leased; [`Error::Sanitizer`], also for bytes of
    /// instructions and constants of a live program.
    pub fn write(&self, region: RegionId, start: u64, bytes: &[u8]) -> Result<(), Error> {
        let ranges = [RangeAccess::exclusive(region, start, bytes.len() as u64)];
        self.lease(&ranges)?.write(ranges[0])?.copy_from_slice(bytes);
        Ok(())
    }

    /// Leases all of `ranges`, or none of them.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`]; [`Error::Overlap`] when two of the ranges share bytes and one is exclusive;
    /// [`Error::Busy`] names the range that another lease holds; [`Error::Forked`] if that is a thread's that is not in this
    /// process.
    pub fn lease<'a>(&'a self, ranges: &'a [RangeAccess]) -> Result<Lease<'a>, Error> {
        let id = self.acquire(ranges)?;
        Ok(Lease::new(self, ranges, id, self.sanitizer()))
    }

    /// As [`Self::lease`], for programs, which tell the sanitizer themselves what they touch.
    pub(crate) fn lease_for_program<'a>(&'a self, ranges: &'a [RangeAccess]) -> Result<Lease<'a>, Error> {
        let id = self.acquire(ranges)?;
        Ok(Lease::new(self, ranges, id, None))
    }

    fn acquire(&self, ranges: &[RangeAccess]) -> Result<u64, Error> {
        self.check_ranges(ranges)?;
        self.leases.acquire(ranges).map_err(|conflict| self.refused(&conflict))
    }

    /// Leases all of `ranges`, waiting until no other lease conflicts. A thread that already holds a conflicting
    /// lease waits for ever.
    ///
    /// # Errors
    /// [`Error::OutOfRegion`], [`Error::Overlap`] and [`Error::Forked`] as [`Self::lease`]; [`Error::Cancelled`] when the
    /// wait is stopped.
    pub fn lease_wait<'a>(&'a self, ranges: &'a [RangeAccess]) -> Result<Lease<'a>, Error> {
        self.check_ranges(ranges)?;
        let id = self.leases.acquire_wait(ranges)?;
        Ok(Lease::new(self, ranges, id, self.sanitizer()))
    }

    /// Starts counting writes to `ranges`: every host write and every exclusive lease that overlaps one of them
    /// raises the generation before the first byte can change. Ends when the last clone is dropped.
    pub fn watch(&self, ranges: &[RangeAccess]) -> Watch {
        Watch { generation: self.leases.watch(ranges) }
    }

    fn get(&self, region: RegionId) -> Result<&Region, Error> {
        self.regions.get(region.0).ok_or_else(|| Error::UnknownMemory {
            device: self.device.clone(),
            name: format!("#{}", region.0),
            known: format!("{} regions", self.regions.len()),
        })
    }

    fn check_ranges(&self, ranges: &[RangeAccess]) -> Result<(), Error> {
        for (index, range) in ranges.iter().enumerate() {
            let region = self.get(range.region)?;
            let size = region.slab.size();
            if range.start.checked_add(range.len).is_none_or(|end| end > size) {
                return Err(Error::OutOfRegion {
                    region: region.name.clone(),
                    start: range.start,
                    length: range.len,
                    size,
                });
            }
            if let Some(other) = ranges[..index]
                .iter()
                .find(|other| other.overlaps(range) && (other.exclusive || range.exclusive))
            {
                return Err(Error::Overlap(format!(
                    "the ranges {:#x}..{:#x} and {:#x}..{:#x} of {}, one of which is written,",
                    other.start,
                    other.end(),
                    range.start,
                    range.end(),
                    region.name
                )));
            }
        }
        Ok(())
    }

    fn refused(&self, conflict: &Conflict) -> Error {
        let Conflict::Busy { wanted, held } = conflict else { return Forked.into() };
        Error::Busy {
            region: self.regions[wanted.region.0].name.clone(),
            start: wanted.start,
            end: wanted.end(),
            wanted: wanted.kind(),
            held_start: held.start,
            held_end: held.end(),
            held: held.kind(),
        }
    }
}

impl Region {
    fn out_of_memory(&self, arena: &Arena, length: u64, alignment: u64) -> Error {
        Error::OutOfMemory {
            region: self.name.clone(),
            length,
            alignment,
            live: arena.used(),
            size: self.slab.size(),
        }
    }
}
