//! Which cards there are: from the environment's short list or from a TOML file.

use std::{fmt, path::Path, time::Duration};
use triune_tensor::text::Name;

use serde::Deserialize;
use triune_device::DeviceSpec;

use super::Error;

/// How long a changed clock takes to lock, unless a card's description says otherwise.
const SETTLE: Duration = Duration::from_millis(100);

/// The file describes some cards.
const MAX_FILE: u64 = 1 << 20;

/// More cards than a machine has slots for are a mistake in the description.
const MAX_CARDS: usize = 64;

/// The form of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoardType {
    /// Pre-series PCI Express card.
    AlphaPcie,
    /// Pre-series M.2 module.
    AlphaM2,
    /// PCI Express card.
    Pcie,
    /// M.2 module.
    M2,
    /// Development board.
    Devboard,
    /// Single-board computer.
    Sbc,
    /// Anything else.
    Unknown,
}

impl BoardType {
    /// Every board type.
    pub const ALL: [Self; 7] =
        [Self::AlphaPcie, Self::AlphaM2, Self::Pcie, Self::M2, Self::Devboard, Self::Sbc, Self::Unknown];

    /// The name that descriptions use, `"alpha_pcie"` for [`BoardType::AlphaPcie`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::AlphaPcie => "alpha_pcie",
            Self::AlphaM2 => "alpha_m2",
            Self::Pcie => "pcie",
            Self::M2 => "m2",
            Self::Devboard => "devboard",
            Self::Sbc => "sbc",
            Self::Unknown => "unknown",
        }
    }

    /// The board type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|board| board.name() == name)
    }
}

impl fmt::Display for BoardType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a card is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardSpec {
    /// The card's name, `device-domain:bus:function`, such as `metis-0:1:0`.
    pub name: String,
    /// The device model on it, by the name of its specification.
    pub device: String,
    /// The board's form.
    pub board: BoardType,
    /// How many sub-devices (cores that can be reserved one by one) it has.
    pub sub_devices: usize,
    /// Its memory in bytes; 0 if the description does not say.
    pub max_memory: u64,
    /// Version of the firmware that runs.
    pub firmware_version: String,
    /// Revision of the board.
    pub board_revision: u32,
    /// Version of the firmware in flash.
    pub flashed_firmware_version: String,
    /// Version of the board controller's firmware.
    pub board_controller_firmware_version: String,
    /// The board controller's name for the board.
    pub board_controller_board_type: String,
    /// How long a changed clock takes to lock.
    pub settle: Duration,
}

impl CardSpec {
    /// The card that `board` names, in the slot with that number (0 is the first).
    pub fn new(board: BoardType, slot: usize) -> Self {
        let version = concat!("v", env!("CARGO_PKG_VERSION"), "-triune");
        Self {
            name: format!("metis-0:{}:0", slot + 1),
            device: "metis".to_owned(),
            board,
            sub_devices: 4,
            max_memory: 0,
            firmware_version: version.to_owned(),
            board_revision: 0,
            flashed_firmware_version: version.to_owned(),
            board_controller_firmware_version: String::new(),
            board_controller_board_type: String::new(),
            settle: SETTLE,
        }
    }

    /// The cards of a short list: board types separated by commas, or `none`.
    ///
    /// # Errors
    /// [`Error::Description`] names the word that is no board type.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, Error> {
        if list.trim() == "none" {
            return Ok(Vec::new());
        }
        let words: Vec<&str> = list.split(',').map(str::trim).collect();
        if words.len() > MAX_CARDS {
            return Err(wrong(LIST, format!("expected at most {MAX_CARDS} cards, got {}", words.len())));
        }
        let card = |(slot, word): (usize, &&str)| {
            let board = BoardType::from_name(word).ok_or_else(|| {
                let names = BoardType::ALL.map(BoardType::name).join(", ");
                wrong(
                    LIST,
                    format!("expected a TOML file, `none` or board types ({names}), got \"{}\"", Name(word)),
                )
            })?;
            Ok(Self::new(board, slot))
        };
        words.iter().enumerate().map(card).collect()
    }

    /// The cards of a TOML text: one `[[card]]` table each, with the fields of this type, all optional (`settle_ms` for
    /// [`CardSpec::settle`], in milliseconds).
    ///
    /// # Errors
    /// [`Error::Description`] with `origin` and the place in the text.
    pub fn parse_toml(text: &str, origin: &str) -> Result<Vec<Self>, Error> {
        let file: File = toml::from_str(text).map_err(|error| wrong(origin, error.to_string()))?;
        if file.card.len() > MAX_CARDS {
            return Err(wrong(
                origin,
                format!("expected at most {MAX_CARDS} cards, got {}", file.card.len()),
            ));
        }
        let cards: Vec<Self> =
            file.card.into_iter().enumerate().map(|(slot, table)| table.card(slot)).collect();
        for (slot, card) in cards.iter().enumerate() {
            card.check().map_err(|problem| wrong(origin, format!("card {slot}: {problem}")))?;
            if cards[..slot].iter().any(|other| other.name == card.name) {
                return Err(wrong(
                    origin,
                    format!("card {slot}: a second card named \"{}\"", Name(&card.name)),
                ));
            }
        }
        Ok(cards)
    }

    fn check(&self) -> Result<(), String> {
        // The name becomes part of file names.
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if self.name.is_empty()
            || self.name.len() > 64
            || self.name.starts_with('.')
            || !self.name.chars().all(fits)
        {
            return Err(format!(
                "name: expected 1 to 64 letters, digits, '-', '_', '.' or ':', got \"{}\"",
                Name(&self.name)
            ));
        }
        if self.device != "metis" {
            return Err(format!("device: expected \"metis\", got \"{}\"", Name(&self.device)));
        }
        let device = DeviceSpec::builtin(&self.device).map_err(|error| format!("device: {error}"))?;
        if !(1..=device.cores as usize).contains(&self.sub_devices) {
            return Err(format!(
                "sub_devices: expected 1 to {}, the cores of {}, got {}",
                device.cores, self.device, self.sub_devices
            ));
        }
        Ok(())
    }
}

const LIST: &str = "TRIUNE_CARDS";

/// The cards that `TRIUNE_CARDS` describes; one `pcie` card if it is unset or empty.
pub(super) fn from_env() -> Result<Vec<CardSpec>, Error> {
    let Some(value) = std::env::var_os(LIST).filter(|value| !value.is_empty()) else {
        return Ok(vec![CardSpec::new(BoardType::Pcie, 0)]);
    };
    let value = value
        .into_string()
        .map_err(|value| wrong(LIST, format!("expected UTF-8, got {}", value.display())))?;
    // A path has a separator or the extension; everything else is a list.
    let is_toml = Path::new(&value).extension().is_some_and(|extension| extension == "toml");
    if !is_toml && !value.contains('/') {
        return CardSpec::parse_list(&value);
    }
    let text = triune_files::read_text(Path::new(&value), MAX_FILE)
        .map_err(|error| wrong(LIST, error.to_string()))?;
    CardSpec::parse_toml(&text, &value)
}

fn wrong(origin: &str, problem: String) -> Error {
    Error::Description { origin: origin.to_owned(), problem }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    card: Vec<Table>,
}

/// A `[[card]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: Option<String>,
    device: Option<String>,
    board: Option<BoardType>,
    sub_devices: Option<usize>,
    max_memory: Option<u64>,
    firmware_version: Option<String>,
    board_revision: Option<u32>,
    flashed_firmware_version: Option<String>,
    board_controller_firmware_version: Option<String>,
    board_controller_board_type: Option<String>,
    settle_ms: Option<u32>,
}

impl Table {
    fn card(self, slot: usize) -> CardSpec {
        let base = CardSpec::new(self.board.unwrap_or(BoardType::Pcie), slot);
        CardSpec {
            name: self.name.unwrap_or(base.name),
            device: self.device.unwrap_or(base.device),
            board: base.board,
            sub_devices: self.sub_devices.unwrap_or(base.sub_devices),
            max_memory: self.max_memory.unwrap_or(base.max_memory),
            firmware_version: self.firmware_version.unwrap_or(base.firmware_version),
            board_revision: self.board_revision.unwrap_or(base.board_revision),
            flashed_firmware_version: self.flashed_firmware_version.unwrap_or(base.flashed_firmware_version),
            board_controller_firmware_version: self
                .board_controller_firmware_version
                .unwrap_or(base.board_controller_firmware_version),
            board_controller_board_type: self
                .board_controller_board_type
                .unwrap_or(base.board_controller_board_type),
            settle: self.settle_ms.map_or(base.settle, |ms| Duration::from_millis(u64::from(ms))),
        }
    }
}
