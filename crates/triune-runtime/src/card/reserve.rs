//! Reservation of sub-devices, seen by every process of a user.
//!
//! One lock file per card and sub-device, held by `flock`: the kernel frees it when its holder dies, however it dies. Another
//! file beside it says who holds it (on Windows, nobody else reads a locked one), which means something only while the lock is held. `flock` belongs to the open file,
//! not to the process, so the same rule holds between two connections of one process. A child made by `fork` without
//! `exec` shares its parent's open files: the parent frees what it lets go of all the same, the child frees nothing, but
//! where a parent dies, its living children keep what it had.

use std::{
    collections::BTreeSet,
    fmt,
    fs::{File, TryLockError},
    path::PathBuf,
    sync::Arc,
};

use triune_files::{open_state, owner, read_text, write_state};
use triune_fork::Origin;

use super::{Card, Error};

/// Enough for a user's name and a process id; what is longer is not ours.
const MAX_TEXT: u64 = 256;

/// The holder of one sub-device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Which sub-device.
    pub sub_device: usize,
    /// Who, as `user:pid`.
    pub holder: String,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.holder)
    }
}

/// Reserved sub-devices of one card; dropping it frees them.
#[derive(Debug)]
pub struct Reservation {
    card: Arc<Card>,
    held: Vec<(usize, File)>,
    origin: Origin,
}

impl Reservation {
    /// The card.
    pub fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// The sub-devices' numbers, ascending.
    pub fn sub_devices(&self) -> impl ExactSizeIterator<Item = usize> {
        self.held.iter().map(|(index, _)| *index)
    }

    pub(super) fn take(card: &Arc<Card>, count: usize) -> Result<Self, Error> {
        let available = card.spec.sub_devices;
        if count == 0 || count > available {
            return Err(Error::TooMany { card: card.spec.name.clone(), wanted: count, available });
        }
        // Two processes that each took half of what they need would both fail; the gate lets one finish.
        let _gate = card.gate()?;
        let mut reservation =
            Self { card: card.clone(), held: Vec::with_capacity(count), origin: Origin::here() };
        let mut others = BTreeSet::new();
        let me = holder();
        for index in 0..available {
            if reservation.held.len() == count {
                break;
            }
            match try_hold(card, index)? {
                Ok(file) => {
                    write_state(&holder_path(card, index), me.as_bytes())?;
                    reservation.held.push((index, file));
                }
                Err(user) => {
                    others.insert(user.holder);
                }
            }
        }
        if reservation.held.len() < count {
            return Err(Error::InUse {
                card: card.spec.name.clone(),
                wanted: count,
                free: reservation.held.len(),
                users: others.into_iter().collect::<Vec<_>>().join(", "),
            });
        }
        Ok(reservation)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.origin.is_here() {
            // Closing is not enough while a child has the file, too.
            self.held.iter().for_each(|(_, file)| drop(file.unlock()));
        }
    }
}

/// Who holds which sub-devices. Probing takes the locks for a moment, hence under the gate.
pub(super) fn users(card: &Card) -> Result<Vec<User>, Error> {
    let _gate = card.gate()?;
    let mut users = Vec::new();
    for index in 0..card.spec.sub_devices {
        if let Err(user) = try_hold(card, index)? {
            users.push(user);
        }
    }
    Ok(users)
}

/// The locked file, or who has locked it.
fn try_hold(card: &Card, index: usize) -> Result<Result<File, User>, Error> {
    let file = open_state(&card.path(&index.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(Ok(file)),
        Err(TryLockError::WouldBlock) => {
            // An unreadable text is no reason to fail: the lock is what counts.
            let holder = match read_text(&holder_path(card, index), MAX_TEXT) {
                Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
                _ => "unknown".to_owned(),
            };
            Ok(Err(User { sub_device: index, holder }))
        }
        Err(TryLockError::Error(source)) => Err(io_error(card, index, source)),
    }
}

fn holder_path(card: &Card, index: usize) -> PathBuf {
    card.path(&format!("{index}.holder"))
}

fn io_error(card: &Card, index: usize, source: std::io::Error) -> Error {
    Error::Io { path: card.path(&index.to_string()), source }
}

/// This process, as `user:pid`.
fn holder() -> String {
    let name = ["USER", "LOGNAME", "USERNAME"]
        .into_iter()
        .find_map(|key| std::env::var(key).ok().filter(|v| !v.is_empty()));
    let name = name.or_else(|| owner::user_id().map(|id| id.to_string())).unwrap_or_default();
    format!("{name}:{}", std::process::id())
}
