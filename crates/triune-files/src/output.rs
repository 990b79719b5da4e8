//! Writing one file: beside it, then in its place.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{Error, error::named, system};

/// Links that are followed one after the other; the kernel's own limit.
const MOST_LINKS: usize = 40;
/// File systems take names of 255 bytes; the rest is for what makes a part's name its own.
const LONGEST_NAME: usize = 200;
const PART: &str = ".part";

/// A file that is being written, and that nobody sees before [`Output::commit`]. Dropped before that, it leaves nothing behind.
///
/// Devices and pipes have no place beside them: they are written at once, and so is what a link of `/proc` leads to, such as
/// `/dev/stdout`.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    to: To,
    /// The process that writes it. A fork of it has a copy of this, and no business with the file.
    owner: u32,
}

#[derive(Debug)]
enum To {
    Direct { place: PathBuf, file: Option<File> },
    Beside { file: File, part: PathBuf, target: PathBuf, placed: bool },
}

/// Where a path leads, all links followed.
enum Place {
    File(PathBuf, Option<Metadata>),
    Direct(PathBuf),
}

impl Output {
    /// Starts to write the file at `path`. A new one gets the mode that the process's mask leaves it, another one keeps mode and,
    /// as far as the system allows, owner.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot be made, or is there and may not be written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let to = match place(path).map_err(Error::write(path))? {
            Place::Direct(place) => To::Direct { place, file: None },
            Place::File(target, old) => beside(target, old.as_ref()).map_err(Error::write(path))?,
        };
        Ok(Self { path: path.to_owned(), to, owner: process::id() })
    }

    /// Starts to write what takes the place of whatever is at `path`, a link included.
    pub(crate) fn replacing(path: &Path) -> Result<Self, Error> {
        let to = beside(path.to_owned(), None).map_err(Error::write(path))?;
        Ok(Self { path: path.to_owned(), to, owner: process::id() })
    }

    /// The path that was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The device, pipe or open file that is written at once, if it is one; it is opened with the first write.
    pub fn direct(&self) -> Option<&Path> {
        match &self.to {
            To::Direct { place, .. } => Some(place),
            To::Beside { .. } => None,
        }
    }

    /// The open file.
    ///
    /// # Errors
    /// What the system says when a device or pipe is opened.
    pub fn file(&mut self) -> io::Result<&File> {
        match &mut self.to {
            To::Beside { file, .. } | To::Direct { file: Some(file), .. } => Ok(file),
            To::Direct { place, file } => {
                let opened = File::options().write(true).truncate(cfg!(unix)).open(place)?;
                Ok(file.insert(opened))
            }
        }
    }

    /// Puts the file in its place, once its content is on the disk.
    ///
    /// # Errors
    /// [`Error::Write`]; then what was there is still there.
    pub fn commit(mut self) -> Result<(), Error> {
        self.sync()?;
        self.put()
    }

    /// As [`Output::commit`], for what is written often and worth little: it is whole unless the power goes.
    ///
    /// # Errors
    /// [`Error::Write`]; then what was there is still there.
    pub fn commit_unsynced(mut self) -> Result<(), Error> {
        self.put()
    }

    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        match &self.to {
            To::Beside { file, .. } => file.sync_all().map_err(Error::write(&self.path)),
            To::Direct { .. } => Ok(()),
        }
    }

    pub(crate) fn put(&mut self) -> Result<(), Error> {
        if let To::Beside { file, part, target, placed } = &mut self.to {
            fs::rename(part, target).map_err(Error::write(&self.path))?;
            *placed = true;
            // On Windows nobody could read it. A file that cannot be unlocked is unlocked by being closed.
            let _ = file.unlock();
        }
        Ok(())
    }

    /// Leaves what there is, as a kill does.
    #[cfg(test)]
    pub(crate) fn abandon(mut self) {
        if let To::Beside { placed, .. } = &mut self.to {
            *placed = true;
        }
    }

    /// What is written, and what it replaces.
    pub(crate) fn part(&self) -> Option<(&Path, &Path)> {
        match &self.to {
            To::Beside { part, target, .. } => Some((part, target)),
            To::Direct { .. } => None,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let To::Beside { part, placed: false, .. } = &self.to
            && self.owner == process::id()
        {
            // Whoever drops it has the error that matters.
            let _ = fs::remove_file(part);
        }
    }
}

/// Writes a file whole.
///
/// # Errors
/// [`Error::Write`]; then what was there is still there.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut output = Output::create(path)?;
    output.write_all(bytes).map_err(Error::write(path))?;
    output.commit()
}

/// Puts bytes behind what a file holds: all of them, or none. A file that is missing is made.
///
/// # Errors
/// [`Error::Write`].
pub fn append(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let append = || -> io::Result<()> {
        let mut file = File::options().append(true).create(true).open(path)?;
        let before = file.metadata()?;
        file.write_all(bytes).or_else(|error| {
            if before.is_file() {
                file.set_len(before.len())?;
            }
            Err(error)
        })
    };
    append().map_err(Error::write(path))
}

fn place(path: &Path) -> io::Result<Place> {
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Some(name) = at.file_name() else { return Err(system::is_folder()) };
        let parent = at.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = parent.canonicalize().map_err(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                return error;
            }
            io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", parent.display()))
        })?;
        if system::is_written_directly(&parent, Path::new(name)) {
            return Ok(Place::Direct(at));
        }
        let found = parent.join(name);
        let metadata = match fs::symlink_metadata(&found) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::File(found, None)),
            Err(error) => return Err(error),
        };
        let kind = metadata.file_type();
        if kind.is_symlink() {
            at = parent.join(fs::read_link(&found)?);
        } else if kind.is_file() {
            return Ok(Place::File(found, Some(metadata)));
        } else if kind.is_dir() {
            return Err(system::is_folder());
        } else {
            return Ok(Place::Direct(found));
        }
    }
    Err(io::Error::other("too many links lead on from it"))
}

/// Makes the part beside a file.
fn beside(target: PathBuf, old: Option<&Metadata>) -> io::Result<To> {
    if old.is_some() {
        // Who may not write the file may not replace it, whatever the folder allows.
        system::unfollowing(File::options().write(true)).open(&target)?;
    }
    // Until it has its owner, it is nobody else's to read.
    let (part, file) = new_part(&target, if old.is_some() { 0o600 } else { 0o666 }).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("no file can be made beside it: {}", crate::error::Reason(&error)),
        )
    })?;
    let to = To::Beside { file, part, target, placed: false };
    if let (Some(old), To::Beside { file, part, .. }) = (old, &to)
        && let Err(error) = system::take_over(file, old)
    {
        let _ = fs::remove_file(part);
        return Err(error);
    }
    Ok(to)
}

fn new_part(target: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
    let process = process::id();
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let part = target.with_file_name(format!(".{name}.{process}-{count}{PART}"));
        match system::create_new(&part, mode) {
            Ok(file) => {
                // Held while it is written, which tells it from what a killed process left. Where there are no locks, nothing
                // is told apart and nothing removed.
                let taken = matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock));
                // Another writer may have swept it away before it was locked.
                if !taken && system::has_name(&file, &part)? {
                    return Ok((part, file));
                }
            }
            // Another process had this one's number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a name is that of a part.
pub(crate) fn is_part(name: &OsStr) -> bool {
    let Some(stem) = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(PART)) else {
        return false;
    };
    let numbers = stem.rsplit_once('.').and_then(|(_, numbers)| numbers.split_once('-'));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, count)| digits(process) && digits(count))
}

/// What is no plain file cannot be part of a set.
pub(crate) fn refuse_direct(output: &Output) -> Result<(), Error> {
    let Some(place) = output.direct() else { return Ok(()) };
    let kind = fs::metadata(place).map_or("a device", |metadata| named(metadata.file_type()));
    let reason = format!("it is {kind}, and files that belong together are replaced together");
    Err(Error::write(&output.path)(io::Error::other(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_have_two_numbers() {
        for (stem, part) in [
            (".net.12-0", true),
            (".a.b.1-22", true),
            (".net.-0", false),
            (".net.12-", false),
            (".net.-", false),
            (".net.1x-0", false),
            (".net.1-0x", false),
            (".net.12", false),
            (".net", false),
            ("net.12-0", false),
        ] {
            let name = format!("{stem}{PART}");
            assert_eq!(is_part(OsStr::new(&name)), part, "{name}");
        }
        assert!(!is_part(OsStr::new(".net.12-0")));
    }
}
