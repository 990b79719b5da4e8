//! Which cards there are: from the environment's short list or from a TOML file.

use std::{fmt, ops::RangeInclusive, path::Path, sync::Arc, time::Duration};
use triune_tensor::text::Name;

use serde::Deserialize;
use triune_device::{
    DeviceSpec,
    spec::{Style, schema},
};

use super::{
    Error,
    settings::{CLOCK_RANGE_MHZ, DEFAULT_CLOCK},
};
use crate::target;

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
    /// That specification, if it is one of the user's own.
    pub own: Option<Arc<DeviceSpec>>,
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
            device: if matches!(board, BoardType::M2 | BoardType::AlphaM2) { METIS_M2 } else { METIS }
                .to_owned(),
            own: None,
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

    /// A card with a device of one's own: `tag` tells its name from those of other devices' cards.
    ///
    /// The board is of no known form, and all of the device's cores are sub-devices.
    pub fn of_device(device: &Arc<DeviceSpec>, tag: &str, slot: usize) -> Self {
        Self {
            name: format!("{}{tag}-0:{}:0", device.name, slot + 1),
            device: device.name.clone(),
            own: Some(Arc::clone(device)),
            sub_devices: device.cores as usize,
            ..Self::new(BoardType::Unknown, slot)
        }
    }

    /// The card that a package runs on whose device is on no card that is described: its name tells devices of one name
    /// apart, and packages of one device share it.
    pub fn of_package(device: &Arc<DeviceSpec>) -> Self {
        let digest = triune_kernels::sha256(device.to_toml(Style::Short).as_bytes());
        let tag = digest.iter().take(4).fold(0_u32, |tag, &byte| tag << 8 | u32::from(byte));
        Self::of_device(device, &format!("-{tag:08x}"), 0)
    }

    /// The card that packages run on for a device that comes with Triune: of the vendor's boards the first one in its first slot.
    ///
    /// # Errors
    /// [`Error::Description`] if no device of that name comes with Triune.
    pub fn of_builtin(name: &str) -> Result<Self, Error> {
        match name {
            METIS => Ok(Self::new(BoardType::Pcie, 0)),
            METIS_M2 => Ok(Self::new(BoardType::M2, 0)),
            _ => {
                let device = DeviceSpec::builtin(name).map_err(|error| wrong(name, error.to_string()))?;
                Ok(Self::of_device(&Arc::new(device), "", 0))
            }
        }
    }

    /// Whether packages for the device of that name run on the card: those for one form of the vendor's board run on every other, in the time
    /// that its memory takes.
    pub fn takes(&self, target: &str) -> bool {
        let forms = [METIS, METIS_M2];
        self.device == target
            || (self.own.is_none() && [&self.device, target].iter().all(|name| forms.contains(name)))
    }

    /// What is on the card.
    ///
    /// # Errors
    /// [`Error::Description`] if no device of that name comes with Triune, and it is none of the user's own.
    pub fn model(&self) -> Result<DeviceSpec, Error> {
        match &self.own {
            Some(own) => Ok(DeviceSpec::clone(own)),
            None => DeviceSpec::builtin(&self.device).map_err(|error| wrong(&self.name, error.to_string())),
        }
    }

    /// The clock that a core has, and those that it can be set to, in MHz; 0 for a device whose time is not modelled.
    pub(super) fn clocks(&self) -> (u32, RangeInclusive<u32>) {
        let Some(own) = &self.own else { return (DEFAULT_CLOCK, CLOCK_RANGE_MHZ) };
        let least = own.clocks_mhz.first().copied().unwrap_or_default();
        let most = own.clocks_mhz.last().copied().unwrap_or_default();
        (own.clock_mhz.unwrap_or_default(), least..=most)
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
    /// [`CardSpec::settle`], in milliseconds). `device` is `metis`, `metis-m2`, or the path of a device file, from the folder of
    /// `origin` on. The text of a device file is one card with that device.
    ///
    /// # Errors
    /// [`Error::Description`] with `origin` and the place in the text.
    pub fn parse_toml(text: &str, origin: &str) -> Result<Vec<Self>, Error> {
        let place = Path::new(origin);
        if describes_device(text) {
            let device = DeviceSpec::own(text)
                .map_err(|problems| Error::Device { problem: target::told(place, &problems) })?;
            return Ok(vec![Self::of_device(&Arc::new(device), "", 0)]);
        }
        let file: File = toml::from_str(text).map_err(|error| wrong(origin, in_words(&error.to_string())))?;
        if file.card.len() > MAX_CARDS {
            return Err(wrong(
                origin,
                format!("expected at most {MAX_CARDS} cards, got {}", file.card.len()),
            ));
        }
        let folder = place.parent().unwrap_or(Path::new(""));
        let cards = file.card.into_iter().enumerate().map(|(slot, table)| table.card(slot, folder));
        let cards: Vec<Self> = cards.collect::<Result<_, Error>>()?;
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
        if self.own.is_none() && ![METIS, METIS_M2].contains(&&*self.device) {
            return Err(format!(
                "device: expected \"{METIS}\", \"{METIS_M2}\" or the path of a device file, such as \"./mine.toml\", got \"{}\"",
                Name(&self.device)
            ));
        }
        let device = self.model().map_err(|error| format!("device: {error}"))?;
        if !(1..=device.cores as usize).contains(&self.sub_devices) {
            return Err(format!(
                "sub_devices: expected 1 to {}, the cores of {}, got {}",
                device.cores, self.device, self.sub_devices
            ));
        }
        Ok(())
    }
}

/// What a reader of TOML says, with words for the types of fields.
fn in_words(text: &str) -> String {
    let words = [
        ("expected usize", "expected a whole number of 0 or more"),
        ("expected u64", "expected a whole number of 0 or more"),
        ("expected u32", "expected a whole number of 0 or more"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
    ];
    words.iter().fold(text.to_owned(), |text, (of, said)| text.replace(of, said))
}

/// Whether a TOML text has what descriptions of devices have, and no cards.
fn describes_device(text: &str) -> bool {
    // What is no TOML is not told apart; reading it says what is wrong.
    let Ok(table) = text.parse::<toml::Table>() else { return false };
    let known = |key: &String| {
        schema::KEYS.iter().any(|each| each.table.is_empty() && each.name == key)
            || schema::TABLES.iter().any(|each| each.name == key)
    };
    !table.contains_key("card") && table.keys().any(known)
}

/// The device of cards, unless they say otherwise.
const METIS: &str = "metis";
/// And of modules for M.2, whose memory is smaller and slower.
const METIS_M2: &str = "metis-m2";

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
    fn card(self, slot: usize, folder: &Path) -> Result<CardSpec, Error> {
        let board = self.board.unwrap_or(BoardType::Pcie);
        let own = self.device.as_deref().map(Path::new).filter(|path| target::is_file(path));
        let base = if let Some(path) = own {
            let device = target::device(&folder.join(path)).map_err(|error| match error {
                crate::Error::File(error) => Error::File(error),
                other => Error::Device { problem: other.to_string() },
            })?;
            CardSpec { board, ..CardSpec::of_device(&Arc::new(device), "", slot) }
        } else {
            let base = CardSpec::new(board, slot);
            CardSpec { device: self.device.unwrap_or_else(|| base.device.clone()), ..base }
        };
        Ok(CardSpec {
            name: self.name.unwrap_or(base.name),
            device: base.device,
            own: base.own,
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
        })
    }
}
