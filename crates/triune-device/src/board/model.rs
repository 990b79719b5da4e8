//! What is known of a kind of board beside its device description: versions, the far memory's clock, its registers.

use super::registers::{self, Register};
use crate::DeviceSpec;

/// A kind of board.
#[derive(Debug)]
pub(super) struct Model {
    /// The far memory's clock in Hz at which it has the bandwidth of the description.
    pub(super) memory_hz: u64,
    /// What the core calls itself.
    pub(super) core_version: Option<&'static str>,
    /// What the board's logic calls itself.
    pub(super) board_version: Option<u32>,
    /// The registers, by address.
    pub(super) registers: &'static [Register],
    /// Whether addresses go through a table.
    pub(super) mmu: bool,
}

/// Version of BUYI's board logic, as reports of users have it.
pub(super) const BUYI_BOARD: u32 = 0x1018_44d2;
/// Version of ZG330's board logic; none is published, so it says what it stands for.
pub(super) const ZG330_BOARD: u32 = 0x0000_0330;

const BUYI: Model = Model {
    // Inferred: that of DDR3-1600, the memory on vendors' boards.
    memory_hz: 800_000_000,
    core_version: Some("FMSHBYV1-20200903"),
    board_version: Some(BUYI_BOARD),
    registers: registers::BUYI,
    mmu: true,
};

const ZG330: Model = Model {
    // The default of ddr_clk_freq in the vendor's device header.
    memory_hz: 333_000_000,
    // Inferred: none is published.
    core_version: Some("ZG330-simulated"),
    board_version: Some(ZG330_BOARD),
    registers: registers::ZG330,
    mmu: false,
};

/// A board of a device whose registers are not known: it has none.
const PLAIN: Model =
    Model { memory_hz: 1_000_000_000, core_version: None, board_version: None, registers: &[], mmu: false };

impl Model {
    /// The kind of board that a device sits on; `buyi-RxC` is a `buyi`.
    pub(super) fn of(spec: &DeviceSpec) -> &'static Self {
        match spec.name.split_once('-').map_or(&*spec.name, |(name, _)| name) {
            "buyi" => &BUYI,
            "zg330" => &ZG330,
            _ => &PLAIN,
        }
    }

    /// Versions by name.
    pub(super) fn versions(&self) -> Vec<(String, String)> {
        let core = self.core_version.map(|version| ("icore".to_owned(), version.to_owned()));
        let board = self.board_version.map(|version| ("device".to_owned(), format!("{version:08x}")));
        let simulator = ("simulator".to_owned(), format!("triune {}", env!("CARGO_PKG_VERSION")));
        core.into_iter().chain(board).chain([simulator]).collect()
    }
}
