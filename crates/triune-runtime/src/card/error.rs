//! What can go wrong with cards.

use std::{io, path::PathBuf};

use triune_tensor::text::{Name, Reason};

/// A card could not be described, reserved or set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The list of cards, or the file that describes them, is wrong.
    #[error("{}: {}", Name(.origin), Reason(.problem))]
    Description {
        /// The environment variable or file.
        origin: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The file of a card's device is wrong.
    #[error("{}", Reason(.problem))]
    Device {
        /// The file, the line and the key, and what is wrong there.
        problem: String,
    },
    /// More sub-devices were asked for than the card has.
    #[error("expected 1 to {available} sub-devices of {card}, got {wanted}")]
    TooMany {
        /// The card's name.
        card: String,
        /// Sub-devices asked for.
        wanted: usize,
        /// Sub-devices that the card has.
        available: usize,
    },
    /// Fewer sub-devices are free than were asked for.
    #[error("{card} has {free} free sub-devices, {wanted} wanted; in use by {users}")]
    InUse {
        /// The card's name.
        card: String,
        /// Sub-devices asked for.
        wanted: usize,
        /// Sub-devices that are free.
        free: usize,
        /// Who holds the others, as `user:pid`, comma separated.
        users: String,
    },
    /// There is no such setting.
    #[error("unknown property \"{}\"; valid are {valid}", Name(.name))]
    UnknownSetting {
        /// The name asked for.
        name: String,
        /// The names that there are.
        valid: String,
    },
    /// A setting's value is not one it can take.
    #[error("{}: expected {expected}, got \"{}\"", Name(.name), Name(.got))]
    BadSetting {
        /// The setting's name.
        name: String,
        /// What it can take.
        expected: String,
        /// The value asked for.
        got: String,
    },
    /// A state file cannot be used.
    #[error(transparent)]
    File(#[from] triune_files::Error),
    /// A state file, or the directory of all of them, cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}
