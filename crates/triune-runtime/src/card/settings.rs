//! A card's settings: clocks and utilisation limits per core, and what else the vendor's programs set.
//!
//! They lie in one text file per card, `name=value` a line, and so outlive a process as a board's do.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    ops::RangeInclusive,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use triune_files::write_state;

use super::{Card, CardSpec, Error};

/// The clocks that a core of a Metis card can be set to, in MHz: what the compiler's `frequency` option reaches (20 to 800) and the
/// 1000 of the vendor's documentation.
pub const CLOCK_RANGE_MHZ: RangeInclusive<u32> = 20..=1000;

/// The share of matrix-vector products that a core may issue, in percent.
pub type Utilisation = u32;

/// The clock of a Metis card in MHz.
pub(super) const DEFAULT_CLOCK: u32 = 800;
const PERCENT: RangeInclusive<u32> = 1..=100;
/// A text setting (a firmware's name or number) is short.
const MAX_TEXT: usize = 256;
/// The file is ours; one that is longer has been damaged.
const MAX_FILE: u64 = 1 << 16;

/// A card's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    clock: u32,
    core_clock: Vec<u32>,
    core_utilisation: Vec<Utilisation>,
    /// Accepted and kept, without effect on the model: memory size and firmware.
    other: BTreeMap<String, String>,
    /// When the clocks are locked, in milliseconds since 1970; 0 if they are.
    ready_at: u64,
}

/// What a setting's name means.
enum Name<'a> {
    Clock,
    CoreClock(RangeInclusive<usize>),
    CoreUtilisation(RangeInclusive<usize>),
    Size(&'a str),
    Text(&'a str),
}

impl Settings {
    pub(super) fn new(spec: &CardSpec) -> Self {
        let (clock, _) = spec.clocks();
        Self {
            clock,
            core_clock: vec![clock; spec.sub_devices],
            core_utilisation: vec![100; spec.sub_devices],
            other: BTreeMap::new(),
            ready_at: 0,
        }
    }

    /// The clock of a core in MHz.
    pub fn clock_mhz(&self, core: usize) -> u32 {
        self.core_clock.get(core).copied().unwrap_or(self.clock)
    }

    /// The share of matrix-vector products that a core may issue, in percent.
    pub fn utilisation(&self, core: usize) -> Utilisation {
        self.core_utilisation.get(core).copied().unwrap_or(100)
    }

    /// Whether a changed clock has not locked yet.
    pub fn is_pending(&self) -> bool {
        now() < self.ready_at
    }

    /// Every setting by name.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let mut map = self.other.clone();
        map.insert("clock_profile".to_owned(), self.clock.to_string());
        for (core, (clock, limit)) in self.core_clock.iter().zip(&self.core_utilisation).enumerate() {
            map.insert(format!("clock_profile_core_{core}"), clock.to_string());
            map.insert(format!("mvm_utilisation_core_{core}"), limit.to_string());
        }
        map
    }

    /// Applies `changes`; `clock_profile` first, so that a core's own clock wins whatever the order.
    pub(super) fn apply(&mut self, changes: &[(&str, &str)], spec: &CardSpec) -> Result<(), Error> {
        let before = self.core_clock.clone();
        let (_, clocks) = spec.clocks();
        let mut parsed = Vec::with_capacity(changes.len());
        for &(name, value) in changes {
            parsed.push((Self::parse(name, spec)?, name, value));
        }
        parsed.sort_by_key(|(meaning, ..)| !matches!(meaning, Name::Clock));
        for (meaning, name, value) in parsed {
            match meaning {
                Name::Clock => {
                    self.clock = number(name, value, clocks.clone(), "MHz")?;
                    self.core_clock.fill(self.clock);
                }
                Name::CoreClock(cores) => {
                    self.core_clock[cores].fill(number(name, value, clocks.clone(), "MHz")?);
                }
                Name::CoreUtilisation(cores) => {
                    self.core_utilisation[cores].fill(number(name, value, PERCENT, "percent")?);
                }
                Name::Size(key) => {
                    let bytes: u64 = value
                        .parse()
                        .ok()
                        .filter(|&bytes| bytes > 0)
                        .ok_or_else(|| bad(name, "a positive number of bytes", value))?;
                    self.other.insert(key.to_owned(), bytes.to_string());
                }
                Name::Text(key) => {
                    if value.is_empty() || value.len() > MAX_TEXT || value.contains(char::is_control) {
                        return Err(bad(name, "a short printable text", value));
                    }
                    self.other.insert(key.to_owned(), value.to_owned());
                }
            }
        }
        if self.core_clock != before {
            self.ready_at = now() + spec.settle.as_millis() as u64;
        }
        Ok(())
    }

    fn parse<'a>(name: &'a str, spec: &CardSpec) -> Result<Name<'a>, Error> {
        let meaning = match name {
            "clock_profile" => Some(Name::Clock),
            "ddr_size" => Some(Name::Size(name)),
            "device_firmware" => Some(Name::Text(name)),
            _ => {
                if let Some(cores) = name.strip_prefix("clock_profile_core_") {
                    cores_of(cores, spec.sub_devices).map(Name::CoreClock)
                } else if let Some(cores) = name.strip_prefix("mvm_utilisation_core_") {
                    cores_of(cores, spec.sub_devices).map(Name::CoreUtilisation)
                } else {
                    None
                }
            }
        };
        meaning.ok_or_else(|| {
            let last = spec.sub_devices - 1;
            let valid = format!(
                "clock_profile, clock_profile_core_0-{last}, mvm_utilisation_core_0-{last}, ddr_size, device_firmware"
            );
            Error::UnknownSetting { name: name.to_owned(), valid }
        })
    }

    pub(super) fn load(card: &Card) -> Result<Self, Error> {
        let mut settings = Self::new(&card.spec);
        let bytes = match triune_files::read(&card.path("settings"), MAX_FILE) {
            Ok(bytes) => bytes,
            Err(missing) if missing.source().kind() == ErrorKind::NotFound => return Ok(settings),
            Err(error) => return Err(error.into()),
        };
        // Not text: damaged, so back to the defaults, as below.
        let Ok(text) = String::from_utf8(bytes) else { return Ok(settings) };
        let mut ready_at = 0;
        for line in text.lines() {
            let Some((name, value)) = line.split_once('=') else { continue };
            if name == "ready_at" {
                ready_at = value.parse().unwrap_or(0);
            } else {
                // A line that means nothing to this version or card leaves the default.
                settings.apply(&[(name, value)], &card.spec).ok();
            }
        }
        // A clock that was set back must not leave the card pending for years.
        let latest = now() + card.spec.settle.as_millis() as u64;
        settings.ready_at = if ready_at > latest { 0 } else { ready_at };
        Ok(settings)
    }

    pub(super) fn store(&self, card: &Card) -> Result<(), Error> {
        let mut text = format!("ready_at={}\n", self.ready_at);
        // `clock_profile` sorts before the cores' own clocks, which the reader needs.
        for (name, value) in self.to_map() {
            text.extend([&name, "=", &value, "\n"]);
        }
        // A reader sees the old file or the new one, never half of it, even if this process is killed here.
        Ok(write_state(&card.path("settings"), text.as_bytes())?)
    }
}

/// `3` or `0-3`.
fn cores_of(text: &str, cores: usize) -> Option<RangeInclusive<usize>> {
    let digits = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let (first, last): (usize, usize) = match text.split_once('-') {
        Some((first, last)) => (digits(first)?, digits(last)?),
        None => (digits(text)?, digits(text)?),
    };
    (first <= last && last < cores).then_some(first..=last)
}

fn number(name: &str, value: &str, range: RangeInclusive<u32>, unit: &str) -> Result<u32, Error> {
    value.trim().parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        bad(name, &format!("an integer from {} to {} ({unit})", range.start(), range.end()), value)
    })
}

fn bad(name: &str, expected: &str, got: &str) -> Error {
    Error::BadSetting { name: name.to_owned(), expected: expected.to_owned(), got: got.to_owned() }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64
}
