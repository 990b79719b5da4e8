//! Locks of folders: while files that belong together get their names, nobody reads some of the old and some of the new.

use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
    thread,
    time::Duration,
};

use crate::Error;

/// Files get their names in a moment: who holds a lock for this many steps is stopped, or has another reason.
const STEPS: u32 = 5000;
const STEP: Duration = Duration::from_millis(2);

/// A lock of a folder, until it is dropped. The kernel frees it when the process ends, however it ends.
#[derive(Debug)]
pub struct FolderLock(Option<File>);

impl Drop for FolderLock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // Closing is not enough where a child has been forked meanwhile, which has the file open, too. An error has no cure.
            let _ = file.unlock();
        }
    }
}

impl FolderLock {
    /// Keeps writers out while several files of a folder are read. It is a help where it can be had: what is read is checked all
    /// the same, and file systems without locks, or a lock that is held for long, do not stop a reader.
    pub fn to_read(folder: &Path) -> Self {
        Self(acquire(folder, File::try_lock_shared).unwrap_or(None))
    }

    /// Keeps readers and other writers out.
    pub(crate) fn to_write(folder: &Path) -> Result<Self, Error> {
        acquire(folder, File::try_lock).map(Self).map_err(Error::write(folder))
    }
}

/// The lock, or none if the folder cannot have one.
fn acquire(folder: &Path, take: impl Fn(&File) -> Result<(), TryLockError>) -> io::Result<Option<File>> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(file) = File::open(folder) else { return Ok(None) };
    for _ in 0..STEPS {
        match take(&file) {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => thread::sleep(STEP),
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "another process holds a lock on this folder and does not let go",
    ))
}
