//! Virtual cards: which there are, how they are set, and who holds their sub-devices.
//!
//! A card is a device model plugged into an imagined slot. What a board keeps in silicon, who reserved a sub-device
//! and which clock it runs at, lies in the runtime directory, so that every process of a user sees the same cards.
//! Nothing here knows programs or memory.

mod error;
mod list;
mod reserve;
mod settings;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use triune_fork::{Brief, BriefGuard};

pub use error::Error;
pub use list::{BoardType, CardSpec};
pub use reserve::{Reservation, User};
pub use settings::{CLOCK_RANGE_MHZ, Settings, Utilisation};
use triune_files::{open_state, owner};

/// The cards that this process sees, in the order in which they are enumerated.
#[derive(Debug)]
pub struct Cards {
    cards: Vec<Arc<Card>>,
}

impl Cards {
    /// The cards that the environment describes.
    ///
    /// `TRIUNE_CARDS` is a comma-separated list of board types (`pcie,m2`), `none`, or the path of a TOML file with cards or
    /// the description of a device (see [`CardSpec::parse_toml`]); unset or empty means one `pcie` card. The runtime directory is `TRIUNE_RUNTIME_DIR`, else
    /// `triune` under `XDG_RUNTIME_DIR`, else `triune-<uid>` (on Windows `triune`) under the temporary directory.
    ///
    /// # Errors
    /// [`Error::Description`] if the list or file is wrong, [`Error::Io`] if the directory cannot be used.
    pub fn from_env() -> Result<Self, Error> {
        Self::with_state(list::from_env()?)
    }

    /// The cards `specs`, with their state where that of all cards of this user lies.
    ///
    /// # Errors
    /// [`Error::Io`] if that directory cannot be used.
    pub fn with_state(specs: Vec<CardSpec>) -> Result<Self, Error> {
        let directory = match runtime_dir() {
            Some(directory) => directory,
            None => guessable_dir(&std::env::temp_dir())?,
        };
        Self::new(specs, &directory)
    }

    /// The cards `specs`, with their state in `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be made or is somebody else's.
    pub fn new(specs: Vec<CardSpec>, directory: &Path) -> Result<Self, Error> {
        prepare(directory)?;
        let cards = specs.into_iter().map(|spec| Arc::new(Card { spec, directory: directory.to_owned() }));
        Ok(Self { cards: cards.collect() })
    }

    /// The cards, in enumeration order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Card>> {
        self.cards.iter()
    }
}

/// One virtual card.
#[derive(Debug)]
pub struct Card {
    spec: CardSpec,
    directory: PathBuf,
}

impl Card {
    /// What the card is.
    pub fn spec(&self) -> &CardSpec {
        &self.spec
    }

    /// Reserves `count` free sub-devices, the lowest numbers first, until the reservation is dropped or the process ends.
    ///
    /// # Errors
    /// [`Error::TooMany`] if the card has fewer, [`Error::InUse`] if fewer are free.
    pub fn reserve(self: &Arc<Self>, count: usize) -> Result<Reservation, Error> {
        Reservation::take(self, count)
    }

    /// Who holds which sub-devices now, in ascending order of the sub-device.
    ///
    /// # Errors
    /// [`Error::Io`] if a lock file cannot be read.
    pub fn users(&self) -> Result<Vec<User>, Error> {
        reserve::users(self)
    }

    /// Changes settings, all or none, and returns whether they are in force already. A changed clock takes
    /// [`CardSpec::settle`] to lock; until then the card is pending.
    ///
    /// # Errors
    /// [`Error::UnknownSetting`], [`Error::BadSetting`].
    pub fn configure(&self, changes: &[(&str, &str)]) -> Result<bool, Error> {
        let gate = self.gate()?;
        let mut settings = Settings::load(self)?;
        settings.apply(changes, &self.spec)?;
        settings.store(self)?;
        drop(gate);
        Ok(!settings.is_pending())
    }

    /// The settings in force or, while the card is pending, about to be.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read.
    pub fn settings(&self) -> Result<Settings, Error> {
        let _gate = self.gate()?;
        Settings::load(self)
    }

    /// The path of one of the card's state files.
    fn path(&self, what: &str) -> PathBuf {
        self.directory.join(format!("{}.{what}", self.spec.name))
    }

    /// Locks out every other process (and thread) that reads or changes the card's state, until the gate is dropped.
    fn gate(&self) -> Result<Gate, Error> {
        // What other processes do behind theirs takes a moment, too.
        static PASSING: Brief<()> = Brief::new(());
        let passing = PASSING.lock();
        let path = self.path("gate");
        let file = open_state(&path)?;
        file.lock().map_err(|source| Error::Io { path, source })?;
        Ok(Gate { file, _passing: passing })
    }
}

/// The lock on a card's state. No fork happens meanwhile: a child would have the file, too, and keep the lock.
struct Gate {
    file: fs::File,
    _passing: BriefGuard<'static, ()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        // A file that cannot be unlocked is unlocked by being closed.
        let _ = self.file.unlock();
    }
}

/// The directory that the user or the system named.
fn runtime_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("TRIUNE_RUNTIME_DIR")
        .or_else(|| variable("XDG_RUNTIME_DIR").filter(|path| path.is_dir()).map(|path| path.join("triune")))
}

/// The directory below `shared`, which everybody writes to. Its name can be guessed, so it must be this user's own, root included:
/// another user could have put links in it that lead the writer elsewhere.
fn guessable_dir(shared: &Path) -> Result<PathBuf, Error> {
    let user = owner::user_id();
    let directory = shared.join(user.map_or("triune".to_owned(), |user| format!("triune-{user}")));
    make(&directory)?;
    let error = |source| Error::Io { path: directory.clone(), source };
    let metadata = fs::symlink_metadata(&directory).map_err(error)?;
    let others = owner::mode(&metadata).is_some_and(|mode| mode & 0o022 != 0);
    if !metadata.is_dir() || owner::owner_id(&metadata) != user || others {
        let message = "it is not a directory of this user alone; set TRIUNE_RUNTIME_DIR to one";
        return Err(error(io::Error::new(io::ErrorKind::PermissionDenied, message)));
    }
    Ok(directory)
}

fn make(directory: &Path) -> Result<(), Error> {
    owner::make_private(directory).map_err(|why| {
        let cure = format!("{why}; set TRIUNE_RUNTIME_DIR to a directory of your own");
        Error::Io { path: directory.to_owned(), source: io::Error::new(why.kind(), cure) }
    })
}

/// Makes the directory, and refuses one that another user prepared.
fn prepare(directory: &Path) -> Result<(), Error> {
    make(directory)?;
    let error = |source| Error::Io { path: directory.to_owned(), source };
    let metadata = fs::metadata(directory).map_err(error)?;
    if let (Some(owner), Some(user)) = (owner::owner_id(&metadata), owner::user_id())
        && owner != user
        && user != 0
    {
        let message =
            format!("it belongs to user {owner}; set TRIUNE_RUNTIME_DIR to a directory of your own");
        return Err(error(io::Error::new(io::ErrorKind::PermissionDenied, message)));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
