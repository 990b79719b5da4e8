//! Registers of the boards whose vendors' headers name them, with what reading shows and writing does.
//!
//! Names and addresses are the headers' (`buyi_device.h`, `zg330_device.h`; those of copying and of image input come from
//! users' programs). What a register counts is documented here; where the headers have a name only, it is inferred.

use std::collections::BTreeMap;

use super::{
    Settings,
    logic::{self, Unit},
    mmu::{ENTRIES, Mmu},
    model::{self, Model},
    records::Cost,
};
use crate::Error;

/// What a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Holds what was written, zero at first.
    Stored,
    /// Always the same; cannot be written.
    Fixed(u32),
    /// 1 while the core is idle, 0 while a job runs.
    Idle,
    /// Layers since the last reset, modulo 2³².
    Layers,
    /// Tiles read from the far memory since the last reset: of each command's bytes, 4096 or a rest.
    ReadTiles,
    /// Tiles written to the far memory since the last reset, counted likewise.
    WrittenTiles,
    /// Cycles of the last job, from its launch to its last store.
    Cycles,
    /// Cycles of the last job from its first command on.
    Working,
    /// 64-byte bursts of instructions read since the last reset.
    Fetches,
    /// Anything but 0 resets counters and timers (level 1); reads 0.
    Clear,
    /// Anything but 0 resets everything but memory (level 0); reads 0.
    Reset,
    /// Anything but 0 runs the commands that the two registers of these addresses name by first byte and bytes; reads 0.
    Run(u64, u64),
    /// Columns and rows of engines that work: a bit each, rows in bits 0 to 15, columns in bits 16 to 31, both from the lowest
    /// bit on. (Inferred: the header gives the name only.)
    Engines,
    /// Bit 0: whether addresses go through the MMU's table, as they do at first.
    MmuMode,
    /// Anything but 0 puts bank 0 of the MMU's table registers in force; reads 0.
    MmuStart,
    /// Anything but 0 sets the MMU to how it was at first; reads 0.
    MmuReset,
    /// A word of the MMU's table: four banks of 32, logical bases 0 and 1, then differences 0 and 1.
    MmuTable,
    /// Anything but 0 copies bursts of 64 bytes within the far memory: the registers for source and destination hold the
    /// addresses of the first and the last of them; reads 0.
    Copy,
    /// Anything but 0 starts a piece of logic; reads 0.
    Start(Unit),
    /// 1 once a piece of logic is done; anything but 0 sets it to 0.
    Done,
    /// What a piece of logic found; cannot be written.
    Made,
}

/// A register, or `count` of them one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Register {
    pub(super) address: u64,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) count: u64,
}

pub(super) const fn register(address: u64, name: &'static str, kind: Kind) -> Register {
    Register { address, name, kind, count: 1 }
}

const ICORE: u64 = 0x40000;
const MMU: u64 = 0x1_0000_2000;
const MMU_TABLE: u64 = MMU + 0x20;
/// Bytes of a burst of the far memory.
const BURST: u64 = 64;
const COPY: u64 = 0x1_0004_1000;
/// Registers of single engines, ours: the vendor's are reached by column, row and offset only, and not named.
const ENGINE: u64 = 0x2_0000_0000;
const ENGINE_COLUMN: u64 = 1 << 24;
const ENGINE_ROW: u64 = 1 << 16;
/// Whether the engine works.
const ENGINE_ON: u64 = 0x00;
/// Holds what was written.
const ENGINE_DEBUG: u64 = 0x3c;
/// The engine's share of the tiles.
const ENGINE_WRITTEN: u64 = 0x10;
const ENGINE_READ: u64 = 0x14;

/// The registers of a BUYI board.
pub(super) const BUYI: &[Register] = &[
    register(0x00, "DEBUG_REG", Kind::Stored),
    register(0x04, "DDR_STATE_CLR_REQ", Kind::Clear),
    register(0x08, "DDR_STATE", Kind::Idle),
    register(0x0c, "AWLAYER_CNT", Kind::Layers),
    register(0x10, "AWTILE_CNT", Kind::WrittenTiles),
    register(0x14, "ARTILE_CNT", Kind::ReadTiles),
    register(0x18, "RUN_TIMER_CNT", Kind::Cycles),
    register(0x1c, "PRJ_VER", Kind::Fixed(model::BUYI_BOARD)),
    register(0x20, "ITF_EXHS_VLD", Kind::Stored),
    register(0x24, "ITF_EXHS", Kind::Stored),
    register(0x28, "ITF_EXHS_ACK_REQ", Kind::Stored),
    register(0x34, "FPGA_RESET_REG", Kind::Reset),
    register(0x38, "VMA_OFFSET", Kind::Stored),
    // The clock is set at once, so its state is always settled.
    register(0x20004, "DR_STATUS", Kind::Fixed(1)),
    register(0x20200, "DR_CFG0", Kind::Stored),
    register(0x20208, "DR_CFG2", Kind::Stored),
    register(0x2025c, "DR_CFG23", Kind::Stored),
    register(ICORE + 0x04, "RUN_RESUME", Kind::Stored),
    register(ICORE + 0x08, "RUN_BASE", Kind::Stored),
    register(ICORE + 0x0c, "RUN_SIZE", Kind::Stored),
    register(ICORE + 0x10, "RUN_VALID", Kind::Run(ICORE + 0x08, ICORE + 0x0c)),
    register(ICORE + 0x14, "OCM_CLK_EN_B", Kind::Stored),
    register(ICORE + 0x18, "OCM_BIST_ST_SEL", Kind::Stored),
    register(ICORE + 0x3c, "BUYI_DEBUG_REG", Kind::Stored),
    register(ICORE + 0x40, "RA_IDMA_CNT", Kind::Fetches),
    register(ICORE + 0x44, "RA_TIMER", Kind::Working),
    register(ICORE + 0x48, "RA_DUMMY_FLAG", Kind::Fixed(0)),
    // "FMSH", "BYV1" and the date: how the version that users see spreads over three words is inferred.
    register(ICORE + 0x4c, "BYAI_VERSION1", Kind::Fixed(0x464d_5348)),
    register(ICORE + 0x50, "BYAI_VERSION2", Kind::Fixed(0x4259_5631)),
    register(ICORE + 0x54, "BYAI_VERSION3", Kind::Fixed(0x2020_0903)),
    // Built-in tests that found nothing.
    register(ICORE + 0x5c, "INST_BIST_STATUS", Kind::Fixed(0)),
    register(ICORE + 0x60, "BIST_ABNORMAL", Kind::Fixed(0)),
    register(ICORE + 0x64, "OCM_BIST_STATUS", Kind::Fixed(0)),
    register(ICORE + 0x68, "STATIC_OCM_ERR", Kind::Fixed(0)),
    register(ICORE + 0x6c, "COL_ROW_EN", Kind::Engines),
    register(ICORE + 0x1dc, "RESET_REG", Kind::Clear),
    register(MMU + 0x04, "MMU_GP_START", Kind::MmuStart),
    register(MMU + 0x08, "MMU_CONVERT_DONE", Kind::Stored),
    register(MMU + 0x0c, "MMU_VERSION", Kind::Fixed(1)),
    register(MMU + 0x10, "MMU_TEST_REG", Kind::Stored),
    register(MMU + 0x14, "MMU_TIME_CNT", Kind::Cycles),
    register(MMU + 0x18, "MMU_SOFT_RESET", Kind::MmuReset),
    register(MMU + 0x1c, "MMU_MODE", Kind::MmuMode),
    Register { address: MMU_TABLE, name: "MMU table", kind: Kind::MmuTable, count: 4 * ENTRIES as u64 },
    register(COPY + 0x04, "PLDMA start", Kind::Copy),
    register(COPY + 0x18, "PLDMA first burst read", Kind::Stored),
    register(COPY + 0x1c, "PLDMA last burst read", Kind::Stored),
    register(COPY + 0x20, "PLDMA first burst written", Kind::Stored),
    register(COPY + 0x24, "PLDMA last burst written", Kind::Stored),
    // A copy is done when the write that starts it returns.
    register(COPY + 0x84, "PLDMA status", Kind::Fixed(0)),
];

/// The registers of a ZG330 board.
pub(super) const ZG330: &[Register] = &[
    register(0x04, "FPGA_STATE_CLEAR_REG", Kind::Clear),
    register(0x08, "FPGA_STATE_REG", Kind::Idle),
    register(0x0c, "FPGA_LAYER_CNT_REG", Kind::Layers),
    register(0x10, "FPGA_WTILE_CNT_REG", Kind::WrittenTiles),
    register(0x14, "FPGA_RTILE_CNT_REG", Kind::ReadTiles),
    register(0x18, "FPGA_TIMER_CNT_REG", Kind::Cycles),
    register(0x1c, "FPGA_VERSION_REG", Kind::Fixed(model::ZG330_BOARD)),
    register(0x20, "FPGA_EXHS_VLD_REG", Kind::Stored),
    register(0x28, "FPGA_EXHS_ACK_REG", Kind::Stored),
    register(0x34, "FPGA_RESET_REG", Kind::Reset),
    register(0x4c, "FPGA_STID_INFO_REG", Kind::Stored),
    register(0x50, "FPGA_AVR_STATE_REG", Kind::Fixed(0)),
    register(ICORE + 0x18, "ICORE_RUN_BASE_REG", Kind::Stored),
    register(ICORE + 0x20, "ICORE_RUN_SIZE_REG", Kind::Stored),
    register(ICORE + 0x24, "ICORE_RUN_START_REG", Kind::Run(ICORE + 0x18, ICORE + 0x20)),
];

/// What runs leave behind; zero after a reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) layers: u64,
    /// Cycles of all jobs.
    clock: u64,
    read_tiles: u64,
    written_tiles: u64,
    fetches: u64,
    /// Cycles of the last job, and those before its first command.
    last: [u64; 2],
}

impl Counters {
    /// Counts a job; gives the layers and cycles before it.
    pub(super) fn job(&mut self, cost: &Cost, instruction_bytes: u64) -> (u64, u64) {
        let before = (self.layers, self.clock);
        self.layers += cost.layers.len() as u64;
        self.clock = self.clock.saturating_add(cost.cycles);
        self.read_tiles = self.read_tiles.saturating_add(cost.read_tiles);
        self.written_tiles = self.written_tiles.saturating_add(cost.written_tiles);
        self.fetches = self.fetches.saturating_add(instruction_bytes.div_ceil(BURST));
        self.last = [cost.cycles, cost.launch];
        before
    }
}

/// What writing a register asks of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Run { start: u64, bytes: u64 },
    Reset(u32),
    Engines([u32; 2]),
    Copy { from: u64, to: u64, bytes: u64 },
    Logic(Unit),
}

/// Everything of a board that can change and is not memory.
#[derive(Debug)]
pub(super) struct State {
    map: &'static [Register],
    pub(super) settings: Settings,
    pub(super) counters: Counters,
    pub(super) mmu: Mmu,
    /// Engines that there are.
    engines: [u32; 2],
    stored: BTreeMap<u64, u32>,
}

impl State {
    /// The state in which a board is opened.
    pub(super) fn new(model: &Model, settings: Settings) -> Self {
        Self {
            map: model.registers,
            counters: Counters::default(),
            mmu: Mmu::new(model.mmu),
            engines: settings.engines,
            stored: BTreeMap::new(),
            settings,
        }
    }

    pub(super) fn stored(&self, address: u64) -> u32 {
        self.stored.get(&address).copied().unwrap_or(0)
    }

    /// Lets registers show what logic found.
    pub(super) fn record(&mut self, found: &[(u64, u32)]) {
        self.stored.extend(found.iter().copied());
    }

    fn find(&self, device: &str, address: u64) -> Result<Register, Error> {
        let behind = |each: &&Register| {
            let distance = address.checked_sub(each.address);
            distance.is_some_and(|distance| distance < 4 * each.count && distance.is_multiple_of(4))
        };
        // A board without registers has no logic either.
        let logic = if self.map.is_empty() { &[] } else { logic::ALL };
        self.map.iter().chain(logic).find(behind).copied().ok_or_else(|| unknown(device, address))
    }

    /// An engine's register: its column, row and offset.
    fn engine(&self, device: &str, address: u64) -> Result<Option<[u64; 3]>, Error> {
        let Some(within) = address.checked_sub(ENGINE).filter(|_| !self.map.is_empty()) else {
            return Ok(None);
        };
        let place = [within / ENGINE_COLUMN, within % ENGINE_COLUMN / ENGINE_ROW, within % ENGINE_ROW];
        let [rows, columns] = self.engines.map(u64::from);
        if place[0] >= columns || place[1] >= rows {
            return Err(Error::Board(format!(
                "{device} has no engine in column {} and row {}; it has {columns} columns and {rows} rows",
                place[0], place[1]
            )));
        }
        if ![ENGINE_ON, ENGINE_WRITTEN, ENGINE_READ, ENGINE_DEBUG].contains(&place[2]) {
            return Err(Error::Board(format!(
                "{device}: an engine has no register at {:#x}; it has {ENGINE_ON:#x} (works), {ENGINE_WRITTEN:#x} (tiles \
                 written), {ENGINE_READ:#x} (tiles read) and {ENGINE_DEBUG:#x} (debug)",
                place[2]
            )));
        }
        Ok(Some(place))
    }

    /// What a register shows; `busy` while a job runs.
    pub(super) fn read(&self, device: &str, address: u64, busy: bool) -> Result<u32, Error> {
        let counters = &self.counters;
        if let Some([column, row, offset]) = self.engine(device, address)? {
            let [rows, columns] = self.settings.engines.map(u64::from);
            let works = column < columns && row < rows;
            let share = |total: u64| {
                let (index, engines) = (column * rows + row, rows * columns);
                if works { (total / engines + u64::from(index < total % engines)) as u32 } else { 0 }
            };
            return Ok(match offset {
                ENGINE_ON => u32::from(works),
                ENGINE_WRITTEN => share(counters.written_tiles),
                ENGINE_READ => share(counters.read_tiles),
                _ => self.stored(address),
            });
        }
        let count = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(match self.find(device, address)?.kind {
            Kind::Stored | Kind::MmuTable | Kind::Done | Kind::Made => self.stored(address),
            Kind::Fixed(value) => value,
            Kind::Idle => u32::from(!busy),
            Kind::Layers => counters.layers as u32,
            Kind::ReadTiles => counters.read_tiles as u32,
            Kind::WrittenTiles => counters.written_tiles as u32,
            Kind::Cycles => count(counters.last[0]),
            Kind::Working => count(counters.last[0] - counters.last[1]),
            Kind::Fetches => counters.fetches as u32,
            Kind::Engines => {
                let [rows, columns] = self.settings.engines.map(|count| (1_u64 << count.min(16)) - 1);
                (rows | columns << 16) as u32
            }
            Kind::MmuMode => u32::from(self.mmu.on),
            Kind::Clear
            | Kind::Reset
            | Kind::Run(..)
            | Kind::MmuStart
            | Kind::MmuReset
            | Kind::Copy
            | Kind::Start(_) => 0,
        })
    }

    /// Sets a register; gives what that asks for.
    pub(super) fn write(&mut self, device: &str, address: u64, value: u32) -> Result<Effect, Error> {
        let fail = |problem: String| Err(Error::Board(format!("{device}: {problem}")));
        if let Some([_, _, offset]) = self.engine(device, address)? {
            if offset != ENGINE_DEBUG {
                return fail(format!("the engine's register at {offset:#x} cannot be written"));
            }
            self.stored.insert(address, value);
            return Ok(Effect::None);
        }
        let register = self.find(device, address)?;
        let on = value != 0;
        match register.kind {
            Kind::Stored | Kind::MmuTable => {
                self.stored.insert(address, value);
            }
            Kind::Fixed(_)
            | Kind::Idle
            | Kind::Layers
            | Kind::ReadTiles
            | Kind::WrittenTiles
            | Kind::Cycles
            | Kind::Working
            | Kind::Made
            | Kind::Fetches => {
                return fail(format!("the register {} at {address:#x} cannot be written", register.name));
            }
            Kind::Engines => return engines(value).map_or_else(fail, |engines| Ok(Effect::Engines(engines))),
            Kind::MmuMode => self.mmu.on = value & 1 == 1,
            Kind::Start(unit) if on => return Ok(Effect::Logic(unit)),
            Kind::Done if on => {
                self.stored.remove(&address);
            }
            Kind::Clear if on => return Ok(Effect::Reset(1)),
            Kind::Reset if on => return Ok(Effect::Reset(0)),
            Kind::Run(start, bytes) if on => {
                return Ok(Effect::Run {
                    start: self.stored(start).into(),
                    bytes: self.stored(bytes).into(),
                });
            }
            Kind::MmuStart if on => {
                let word =
                    |bank: u64, entry: u64| self.stored(MMU_TABLE + 4 * (bank * ENTRIES as u64 + entry));
                let entries: Vec<_> =
                    (0..ENTRIES as u64).map(|entry| [word(0, entry), word(2, entry)]).collect();
                self.mmu.load(entries.into_iter());
                self.stored.insert(MMU + 0x08, 1);
            }
            Kind::MmuReset if on => {
                self.mmu = Mmu::new(true);
                self.stored.retain(|address, _| !(MMU..COPY).contains(address));
            }
            Kind::Copy if on => {
                let words = [0x18, 0x1c, 0x20, 0x24].map(|offset| u64::from(self.stored(COPY + offset)));
                let [from, from_last, to, to_last] = words;
                let whole = words.iter().all(|word| word.is_multiple_of(BURST));
                let [length, room] =
                    [(from, from_last), (to, to_last)].map(|(first, last)| last.checked_sub(first));
                return match length {
                    Some(length) if whole && Some(length) == room => {
                        Ok(Effect::Copy { from, to, bytes: length + BURST })
                    }
                    _ => fail(format!(
                        "PLDMA cannot copy the bursts {from:#x} to {from_last:#x} to {to:#x} to {to_last:#x}: as many have to be \
                         read as written, all at multiples of {BURST}"
                    )),
                };
            }
            Kind::Clear
            | Kind::Reset
            | Kind::Run(..)
            | Kind::MmuStart
            | Kind::MmuReset
            | Kind::Copy
            | Kind::Done
            | Kind::Start(_) => {}
        }
        Ok(Effect::None)
    }
}

/// The rows and columns of a mask.
fn engines(mask: u32) -> Result<[u32; 2], String> {
    let [rows, columns] = [mask & 0xffff, mask >> 16];
    let whole = |bits: u32| bits != 0 && bits & (bits + 1) == 0;
    if !whole(rows) || !whole(columns) {
        return Err(format!("{mask:#x} does not switch on rows and columns from the first one on"));
    }
    Ok([rows.count_ones(), columns.count_ones()])
}

fn unknown(device: &str, address: u64) -> Error {
    Error::Board(format!("{device} has no register at {address:#x}"))
}
