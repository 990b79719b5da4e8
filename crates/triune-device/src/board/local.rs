//! A board in this process: a device's memory and executor behind the interface that a driver sees.

use std::sync::Arc;

use triune_fork::{Brief, Lock, LockGuard, Origin};
use triune_kernels::{Pool, cancel};

use super::{
    Board, BoardInfo, Job, JobReport, Records, RegionInfo, Settings,
    core::{Core, Surroundings, Tables},
    logic::{Places, Task, Unit},
    model::Model,
    records::records,
    registers::{Effect, State},
};
use crate::{
    DeviceSpec, Error, Memory, RegionId, Sanitize,
    memory::RangeAccess,
    spec::{MemorySpec, Precision},
    work,
};

/// The host's buffer for DMA, a region of every board.
const UDMA: &str = "udma";
/// Its size; inferred, as none is published: the vendor's examples hold a few camera images in it.
const UDMA_BYTES: u64 = 256 << 20;
/// Highest clock of the far memory in Hz: beyond what any memory has, so that a mistyped one is found.
const MOST_MEMORY_HZ: u64 = 10_000_000_000;

/// A simulated board in this process.
///
/// Its regions are the device's memories and `udma`, 256 MiB of the host that the core does not reach. Registers are those
/// that the vendor's headers name, of `buyi` and `zg330`; boards of other devices have none.
pub struct LocalBoard {
    info: BoardInfo,
    spec: DeviceSpec,
    model: &'static Model,
    memory: Arc<Memory>,
    pool: Pool,
    /// Names of the device's memories by region; none for `udma`.
    memories: Vec<Option<String>>,
    instructions: RegionId,
    /// The far memory, and its index in the description.
    far: (RegionId, usize),
    opened: Settings,
    /// Held while a job's records are written.
    state: Lock<State>,
    /// Held as long as a job runs.
    core: Lock<Core>,
    tables: Brief<Tables>,
    /// Freed while a job ran: what was decoded from there is dropped before the next one.
    freed: Brief<Vec<RangeAccess>>,
    /// The process that a job runs in.
    busy: Brief<Option<Origin>>,
}

impl std::fmt::Debug for LocalBoard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalBoard").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Says that a job runs, as long as it lives.
struct Busy<'a>(&'a Brief<Option<Origin>>);

impl<'a> Busy<'a> {
    fn new(flag: &'a Brief<Option<Origin>>) -> Self {
        *flag.lock() = Some(Origin::here());
        Self(flag)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl LocalBoard {
    /// The board of a builtin device ([`DeviceSpec::builtin`]). One that does not compute has memory and registers only.
    /// Jobs use `threads` threads, 0 means one per CPU core.
    ///
    /// # Errors
    /// As [`DeviceSpec::builtin`] and [`Memory::new`].
    pub fn open(device: &str, computes: bool, threads: usize) -> Result<Self, Error> {
        Self::new(DeviceSpec::builtin(device)?, computes, threads)
    }

    /// The board of a device, watched by the sanitizer if the environment asks for it.
    ///
    /// # Errors
    /// As [`Memory::new`], [`Error::UnknownMemory`] when the description places instructions in no memory of its.
    pub fn new(spec: DeviceSpec, computes: bool, threads: usize) -> Result<Self, Error> {
        Self::with_sanitizer(spec, computes, threads, Sanitize::from_environment()?)
    }

    /// As [`Self::new`], with the sanitizer as said here.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_sanitizer(
        spec: DeviceSpec,
        computes: bool,
        threads: usize,
        sanitize: Sanitize,
    ) -> Result<Self, Error> {
        let far = spec.memory_index(&spec.placement.scratch)?;
        let mut with_udma = spec.clone();
        with_udma.memory.push(MemorySpec {
            name: UDMA.to_owned(),
            bytes: UDMA_BYTES,
            reserved: 0,
            per_core: false,
            bytes_per_cycle: None,
            bytes_per_second: None,
            ports: 1,
            latency_cycles: 0,
            burst_bytes: 1,
            row_bytes: None,
            row_ns: 0,
            read_fj_per_byte: spec.energy.map(|_| 0),
            write_fj_per_byte: None,
        });
        let memory = Memory::with_sanitizer(&with_udma, sanitize)?;
        let of_region = |name: &str| {
            let plain = name.rsplit_once('.').map_or(name, |(plain, _)| plain);
            spec.memory.iter().find(|each| each.name == name || (each.per_core && each.name == plain))
        };
        let regions = memory.regions().map(|(_, name, bytes)| RegionInfo {
            name: name.to_owned(),
            bytes,
            reserved: of_region(name).map_or(0, |each| each.reserved),
        });
        let regions: Vec<RegionInfo> = regions.collect();
        let memories = regions.iter().map(|region| of_region(&region.name).map(|each| each.name.clone()));
        let memories = memories.collect();
        let model = Model::of(&spec);
        let opened = Settings {
            core_hz: u64::from(spec.clock_mhz.unwrap_or(0)) * 1_000_000,
            memory_hz: model.memory_hz,
            engines: spec.array.map_or([0, 0], |array| array.units),
            precision: Precision::Int8,
            timer: None,
            profiler: None,
        };
        Ok(Self {
            info: BoardInfo {
                device: spec.name.clone(),
                regions,
                versions: model.versions(),
                computes,
                watched: memory.is_watched(),
            },
            instructions: memory.core_region(&spec.placement.instructions, 0)?,
            far: (memory.core_region(&spec.placement.scratch, 0)?, far),
            memory: Arc::new(memory),
            pool: Pool::new(if computes { threads } else { 1 }),
            memories,
            opened,
            state: Lock::new(State::new(model, opened)),
            core: Lock::default(),
            tables: Brief::default(),
            freed: Brief::default(),
            busy: Brief::default(),
            model,
            spec,
        })
    }

    /// The device's description.
    pub fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// The description of the device at some settings.
    fn spec_at(&self, settings: &Settings) -> Result<DeviceSpec, Error> {
        let mut spec = self.spec.clone();
        if let Some(memory) = spec.memory.get_mut(self.far.1)
            && let Some(rate) = &mut memory.bytes_per_second
        {
            let scaled =
                u128::from(*rate) * u128::from(settings.memory_hz) / u128::from(self.opened.memory_hz);
            *rate = u64::try_from(scaled).unwrap_or(u64::MAX).max(1);
        }
        if settings.engines == self.opened.engines { Ok(spec) } else { spec.with_units(settings.engines) }
    }

    /// Refuses settings that cannot be.
    fn check(&self, settings: &Settings) -> Result<(), Error> {
        let refuse = |problem: String| Err(Error::Board(format!("{}: {problem}", self.info.device)));
        let clocks = &self.spec.clocks_mhz;
        let (lowest, highest) = (clocks.first().copied().unwrap_or(0), clocks.last().copied().unwrap_or(0));
        let whole = settings.core_hz.is_multiple_of(1_000_000);
        let mhz = u32::try_from(settings.core_hz / 1_000_000).unwrap_or(u32::MAX);
        if settings.core_hz != self.opened.core_hz && !(whole && self.spec.allows_clock(mhz)) {
            return refuse(format!(
                "the core cannot run at {} Hz; whole MHz from {lowest} to {highest} can be set",
                settings.core_hz
            ));
        }
        if !(1..=MOST_MEMORY_HZ).contains(&settings.memory_hz) {
            return refuse(format!(
                "the far memory cannot run at {} Hz; 1 to {MOST_MEMORY_HZ} can be set",
                settings.memory_hz
            ));
        }
        if settings.engines != self.opened.engines
            && let Err(error) = self.spec.clone().with_units(settings.engines)
        {
            return refuse(error.to_string());
        }
        let wide = self.spec.array.is_some_and(|array| array.cycles_per_vector_16.is_some());
        if settings.precision == Precision::Int16 && !wide {
            return refuse("its array has no 16-bit integers".into());
        }
        for records in [settings.timer, settings.profiler].into_iter().flatten() {
            self.inside(records.region, records.start, records.bytes)?;
        }
        Ok(())
    }

    fn region(&self, region: RegionId) -> Result<&RegionInfo, Error> {
        self.info.regions.get(region.0).ok_or_else(|| Error::UnknownMemory {
            device: self.info.device.clone(),
            name: format!("#{}", region.0),
            known: self.info.regions.iter().map(|region| region.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    fn inside(&self, region: RegionId, start: u64, length: u64) -> Result<(), Error> {
        let info = self.region(region)?;
        if start.checked_add(length).is_some_and(|end| end <= info.bytes) {
            return Ok(());
        }
        Err(Error::OutOfRegion { region: info.name.clone(), start, length, size: info.bytes })
    }

    /// The core, once no job runs.
    fn core(&self) -> Result<LockGuard<'_, Core>, Error> {
        Ok(cancel::lock(&self.core)?)
    }

    /// Runs a job; the core is held.
    fn execute(&self, core: &mut Core, job: &Job) -> Result<JobReport, Error> {
        core.forget(&std::mem::take(&mut *self.freed.lock()));
        let (settings, mmu) = {
            let state = self.state.lock()?;
            (state.settings, state.mmu.clone())
        };
        if job.segments.is_none() && mmu.is_identity() {
            self.inside(self.instructions, job.start, job.bytes)?;
        }
        let at = Surroundings {
            memory: &self.memory,
            pool: &self.pool,
            instructions: self.instructions,
            memories: &self.memories,
        };
        let logical = self.tables.lock().of(job, self.instructions)?;
        let (start, table) = mmu.translate(self.far.0, job.start, job.bytes, &logical)?;
        core.prepare(&at, start, job.bytes, &table)?;
        let cost = core.cost(&at, || self.spec_at(&settings), &settings, self.far.1)?;
        core.run(&at)?;
        self.tables.lock().remember(&logical);
        let mut state = self.state.lock()?;
        let (first, clock) = state.counters.job(&cost, job.bytes);
        let layer_count = state.counters.layers;
        // Those of now: nothing is written to what was freed meanwhile.
        let wanted = state.settings;
        for (range, start, bytes) in records(&wanted, &cost.layers, first, clock) {
            self.write(range.region, start, &bytes)?;
        }
        drop(state);
        Ok(JobReport {
            layer_count,
            cycles: cost.cycles,
            nanoseconds: cost.nanoseconds,
            layers: cost.layers.iter().map(super::records::Layer::time).collect(),
        })
    }

    /// Does what writing a register asks for.
    fn apply(&self, effect: Effect) -> Result<(), Error> {
        match effect {
            Effect::None => Ok(()),
            Effect::Run { start, bytes } => self.run(&Job { start, bytes, segments: None }).map(drop),
            Effect::Reset(level) => self.reset(level),
            Effect::Engines(engines) => {
                let settings = Settings { engines, ..self.settings()? };
                self.configure(&settings)
            }
            Effect::Copy { from, to, bytes } => self.copy((self.far.0, from), (self.far.0, to), bytes),
            Effect::Logic(unit) => self.start(unit),
        }
    }

    /// Runs a piece of logic by the registers as they are.
    fn start(&self, unit: Unit) -> Result<(), Error> {
        if !self.info.computes {
            return Err(Error::Board(format!(
                "this board of {} has memory and registers only: its logic cannot be started",
                self.info.device
            )));
        }
        let places = Places { far: self.far.0, udma: self.info.region(UDMA)? };
        let task = Task::of(unit, &*self.state.lock()?, &self.info.device, places)?;
        let mut read = Vec::with_capacity(task.reads().len());
        for &(region, start, bytes) in task.reads() {
            // Before there is room made for them.
            self.inside(region, start, bytes)?;
            let mut own = Vec::new();
            own.try_reserve_exact(bytes as usize).map_err(|_| {
                Error::Board(format!("there are no {bytes} bytes of memory for the logic's data"))
            })?;
            own.resize(bytes as usize, 0);
            self.read(region, start, &mut own)?;
            read.push(own);
        }
        let done = task.run(&read)?;
        if !done.bytes.is_empty() {
            self.write(done.to.0, done.to.1, &done.bytes)?;
        }
        self.state.lock()?.record(&done.registers);
        Ok(())
    }
}

impl Board for LocalBoard {
    fn info(&self) -> &BoardInfo {
        &self.info
    }

    fn allocate(&self, region: RegionId, bytes: u64, alignment: u64) -> Result<u64, Error> {
        self.memory.allocate(region, bytes, alignment)
    }

    fn allocate_at(&self, region: RegionId, start: u64, bytes: u64) -> Result<(), Error> {
        self.memory.allocate_at(region, start, bytes)
    }

    fn free(&self, region: RegionId, start: u64) -> Result<u64, Error> {
        // Held, so that no record is written to what somebody else is given meanwhile. A board that a fork came upon with it
        // writes no more records.
        let mut state = self.state.lock().ok();
        let bytes = self.memory.free(region, start)?;
        let freed = RangeAccess::exclusive(region, start, bytes);
        self.tables.lock().forget(&freed);
        let lies_there = |records: &Records| {
            RangeAccess::exclusive(records.region, records.start, records.bytes).overlaps(&freed)
        };
        if let Some(state) = &mut state {
            let Settings { timer, profiler, .. } = &mut state.settings;
            for records in [timer, profiler] {
                if records.as_ref().is_some_and(lies_there) {
                    *records = None;
                }
            }
        }
        drop(state);
        // A job that runs is not waited for.
        match self.core.try_lock() {
            Ok(Some(mut core)) => core.forget(&[freed]),
            Ok(None) | Err(_) => self.freed.lock().push(freed),
        }
        Ok(bytes)
    }

    fn live(&self, region: RegionId) -> Result<Vec<(u64, u64)>, Error> {
        let reserved = self.region(region)?.reserved;
        let mut live = self.memory.live(region)?;
        live.retain(|&(start, _)| start >= reserved);
        live.sort_unstable();
        Ok(live)
    }

    fn read(&self, region: RegionId, start: u64, out: &mut [u8]) -> Result<(), Error> {
        let range = RangeAccess::shared(region, start, out.len() as u64);
        cancel::copy(self.memory.lease_wait(&[range])?.read(range)?, out);
        work::go_on()
    }

    fn write(&self, region: RegionId, start: u64, bytes: &[u8]) -> Result<(), Error> {
        let range = RangeAccess::exclusive(region, start, bytes.len() as u64);
        cancel::copy(bytes, self.memory.lease_wait(&[range])?.write(range)?);
        work::go_on()
    }

    fn copy(&self, from: (RegionId, u64), to: (RegionId, u64), bytes: u64) -> Result<(), Error> {
        self.inside(from.0, from.1, bytes)?;
        self.inside(to.0, to.1, bytes)?;
        let source = RangeAccess::shared(from.0, from.1, bytes);
        let target = RangeAccess::exclusive(to.0, to.1, bytes);
        if bytes == 0 || (source.region, source.start) == (target.region, target.start) {
            return Ok(());
        }
        if !source.overlaps(&target) {
            let ranges = [source, target];
            let mut lease = self.memory.lease_wait(&ranges)?;
            let ([read], write) = lease.split([source], target)?;
            cancel::copy(read, write);
            return work::go_on();
        }
        let first = from.1.min(to.1);
        let both = RangeAccess::exclusive(from.0, first, from.1.max(to.1) + bytes - first);
        let ranges = [both];
        let mut lease = self.memory.lease_wait(&ranges)?;
        lease.read(source)?;
        let at = (from.1 - first) as usize;
        lease.write(both)?.copy_within(at..at + bytes as usize, (to.1 - first) as usize);
        Ok(())
    }

    fn forget(&self, ranges: &[(RegionId, u64, u64)]) -> Result<(), Error> {
        ranges.iter().try_for_each(|&(region, start, bytes)| self.memory.forget(region, start, bytes))
    }

    fn read_register(&self, address: u64) -> Result<u32, Error> {
        let busy = self.busy.lock().is_some_and(Origin::is_here);
        self.state.lock()?.read(&self.info.device, address, busy)
    }

    fn write_register(&self, address: u64, value: u32) -> Result<(), Error> {
        let effect = self.state.lock()?.write(&self.info.device, address, value)?;
        self.apply(effect)
    }

    fn settings(&self) -> Result<Settings, Error> {
        Ok(self.state.lock()?.settings)
    }

    fn configure(&self, settings: &Settings) -> Result<(), Error> {
        self.check(settings)?;
        self.state.lock()?.settings = *settings;
        Ok(())
    }

    fn run(&self, job: &Job) -> Result<JobReport, Error> {
        if !self.info.computes {
            return Err(Error::Board(format!(
                "this board of {} has memory and registers only: it cannot run commands",
                self.info.device
            )));
        }
        let mut core = self.core()?;
        let _busy = Busy::new(&self.busy);
        self.execute(&mut core, job)
    }

    fn reset(&self, level: u32) -> Result<(), Error> {
        // A job ends before.
        let _core = self.core()?;
        let mut state = self.state.lock()?;
        match level {
            0 => {
                self.tables.lock().clear();
                *state = State::new(self.model, self.opened);
            }
            1 => state.counters = super::registers::Counters::default(),
            other => {
                return Err(Error::Board(format!(
                    "{}: {other} is no level of a reset; 0 is everything but memory, 1 counters and timers",
                    self.info.device
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Addr, Command, Segment, SegmentKind, SegmentTable,
        command::{End, Fill, encode},
    };

    /// Puts a program that fills an output on a board and runs it; gives its instructions' place.
    fn run(board: &LocalBoard) -> u64 {
        let fill = Fill {
            elem_bytes: 1,
            dims: [1, 1, 1, 1, 1, 64],
            dst: Addr::new(1, 0),
            dst_strides: [0, 0, 0, 0, 0, 1],
            value: 7,
        };
        let words = encode([&Command::from(fill), &Command::from(End {})]);
        let far = board.far.0;
        let place = |kind, len: u64| {
            let base = board.allocate(far, len, 64).expect("room");
            Segment { region: far, base, len, kind }
        };
        let table =
            vec![place(SegmentKind::Instructions, words.len() as u64), place(SegmentKind::Output, 64)];
        board.write(far, table[0].base, &words).expect("inside");
        let start = table[0].base;
        let segments = Some(SegmentTable::new(table).expect("disjoint"));
        board.run(&Job { start, bytes: words.len() as u64, segments }).expect("runs");
        start
    }

    fn set(board: &LocalBoard, base: u64, registers: &[(u64, u32)]) {
        for &(offset, value) in registers {
            board.write_register(base + offset, value).expect("a register");
        }
    }

    /// As programs feed a picture: 2x3 pixels of 3 channels.
    #[test]
    fn a_picture_from_udma_becomes_a_feature_map() {
        let board = LocalBoard::open("buyi", true, 1).expect("builtin");
        let (image, feed) = (0x1_0000_0400, 0x1_000c_0000);
        let udma = board.info.region("udma").expect("there is one");
        let picture: Vec<u8> = (100..118).collect();
        let from = board.allocate(udma, 18, 64).expect("room");
        board.write(udma, from, &picture).expect("inside");
        let to = board.allocate(board.far.0, 24, 64).expect("room");
        let start = [(0x04, from as u32), (0x08, 3), (0x0c, 6), (0x10, 3), (0x1c, 1), (0x20, 0), (0x00, 1)];
        let before = board.write_register(feed, 1).expect_err("not set up").to_string();
        assert!(before.contains("buyi: ImageMake is fed a picture before it is set up"), "{before}");
        let factor = 0x0080_03f8;
        let own =
            [(0x14, factor), (0x18, factor), (0x1c, factor), (0x114, to as u32), (0x118, 3), (0x11c, 2)];
        set(&board, image, &own);
        set(&board, image, &[(0x240, 3), (0x244, 1)]);
        assert_eq!(board.read_register(image + 0x234).expect("a register"), 0x2022_0623);
        set(&board, feed, &start);
        let shows = |offset| board.read_register(image + offset).expect("a register");
        assert_eq!([0x228, 0x238, 0x260].map(shows), [1, 6, 6]);
        let mut map = [0; 24];
        board.read(board.far.0, to, &mut map).expect("inside");
        let wanted: Vec<u8> = picture
            .chunks(3)
            .flat_map(|pixel| {
                let made = |value: u8| (((i32::from(value) - 128) * 1016) >> 10) as u8;
                [made(pixel[0]), made(pixel[1]), made(pixel[2]), 0]
            })
            .collect();
        assert_eq!(map[..], wanted);
        set(&board, image, &[(0x228, 1)]);
        assert_eq!(shows(0x228), 0);
        // Registers that do not agree.
        for (base, offset, value, said) in [
            (feed, 0x0c, 5, "for an image of 3 * 2, but is fed 5 pixels"),
            (feed, 0x10, 4, "set up for 3 channels and fed 4"),
            (feed, 0x20, 1, "mode 1"),
            (feed, 0x04, u32::MAX, "udma"),
            (image, 0x04, 1, "one fast"),
            (image, 0x12c, 9, "pads with other numbers than 0"),
            (image, 0x254, 3, "arrangement 3"),
            (image, 0x114, u32::MAX, "ddr"),
        ] {
            let was = board.read_register(base + offset).expect("a register");
            set(&board, base, &[(offset, value)]);
            let error = board.write_register(feed, 1).expect_err("refused").to_string();
            assert!(error.contains(said), "{error}");
            set(&board, base, &[(offset, was)]);
        }
        set(&board, feed, &[(0, 1)]);
        // Memory alone.
        let mock = LocalBoard::open("buyi", false, 1).expect("builtin");
        let error = mock.write_register(feed, 1).expect_err("refused").to_string();
        assert!(error.contains("its logic cannot be started"), "{error}");
        assert!(mock.write_register(image + 0x238, 1).is_err());
    }

    #[test]
    fn candidates_and_boxes_lie_in_udma() {
        let board = LocalBoard::open("zg330", true, 1).expect("builtin");
        let (post, nms) = (0x1_0000_0800, 0x1_0000_1c00);
        let udma = board.info.region("udma").expect("there is one");
        let (far, near) = (board.far.0, board.allocate(udma, 1 << 12, 64).expect("room"));
        let at = board.allocate(far, 4 * 64, 64).expect("room");
        // Two columns, two anchors of one unit; the first channel is compared.
        let mut map = vec![1_u8; 4 * 64];
        map[2 * 64 + 32] = 9;
        board.write(far, at, &map).expect("inside");
        let step = 4;
        let own = [
            (0x10, 1),
            (0x14, (at / 32) as u32),
            (0x20, 1),
            (0x24, 0),
            (0x28, 0),
            (0x34, step),
            (0x38, 1),
            (0x3c, step),
            (0x48, 1),
            (0x4c, 8),
            (0x50, !1),
            (0x54, !0),
            (0x58, (near / 8) as u32),
            (0x5c, 0),
            (0x74, 0),
            (0x80, step * 2),
            (0x08, 1),
        ];
        set(&board, post, &own);
        let shows = |offset| board.read_register(post + offset).expect("a register");
        assert_eq!([0x0c, 0x70, 0x78, 0x7c].map(shows), [1, 1, 1, 2]);
        let mut row = [7; 16];
        board.read(udma, near, &mut row).expect("inside");
        assert_eq!(row, [9, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 1, 0]);
        for (offset, value, said) in [
            (0x10, 2, "parts 0b10"),
            (0x34, 5, "unit step"),
            (0x3c, 5, "anchor step"),
            (0x80, 5, "part step"),
            (0x5c, 8, "9 words"),
            (0x20, u32::MAX, "beyond 65536"),
            (0x14, u32::MAX, "ddr"),
            (0x58, u32::MAX, "udma"),
        ] {
            let was = shows(offset);
            set(&board, post, &[(offset, value)]);
            let error = board.write_register(post + 0x08, 1).expect_err("refused").to_string();
            assert!(error.contains(said), "{error}");
            set(&board, post, &[(offset, was)]);
        }
        // Sixteen boxes, all the same: the first stays.
        let boxes: Vec<u8> =
            [0_i16, 0, 4, 4, 1].repeat(16).iter().flat_map(|value| value.to_le_bytes()).collect();
        board.write(udma, near, &boxes).expect("inside");
        let last = near as u32 + 160 - 8;
        let own = [(0x1c, near as u32), (0x20, near as u32), (0x24, last), (0x28, near as u32), (0x2c, 1)];
        set(&board, nms, &own);
        set(&board, nms, &[(0x34, 16384), (0x38, 1), (0x00, 1)]);
        assert_eq!(board.read_register(nms + 0x04).expect("a register"), 1);
        let mut mask = [9; 8];
        board.read(udma, near, &mut mask).expect("inside");
        assert_eq!(mask, [1, 0, 0, 0, 0, 0, 0, 0]);
        for (offset, value, said) in [
            (0x2c, 513, "8208 boxes"),
            (0x2c, 0, "0 boxes"),
            (0x30, 2, "mode 2"),
            (0x24, 0, "something else"),
        ] {
            let was = board.read_register(nms + offset).expect("a register");
            set(&board, nms, &[(offset, value)]);
            let error = board.write_register(nms, 1).expect_err("refused").to_string();
            assert!(error.contains(said), "{error}");
            set(&board, nms, &[(offset, was)]);
        }
    }

    #[test]
    fn what_was_decoded_goes_with_its_memory() {
        let board = LocalBoard::open("zg330", true, 1).expect("builtin");
        let [first, second] = [run(&board), run(&board)];
        assert_eq!(board.core.lock().expect("not forked").kept(), 2);
        board.free(board.far.0, first).expect("allocated");
        assert_eq!(board.core.lock().expect("not forked").kept(), 1);
        // Freed while a job runs: dropped before the next.
        let core = board.core.lock().expect("not forked");
        board.free(board.far.0, second).expect("allocated");
        assert_eq!(core.kept(), 1);
        drop(core);
        run(&board);
        assert_eq!(board.core.lock().expect("not forked").kept(), 1);
        // As many as there may be.
        for _ in 0..5000 {
            run(&board);
        }
        assert_eq!(board.core.lock().expect("not forked").kept(), 4096);
    }
}
