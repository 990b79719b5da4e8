//! Reading: plain files, up to a limit.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{Error, error::named, journal, system};

/// A plain file that is open to be read, with an end.
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    file: File,
    size: u64,
    limit: u64,
    modified: Option<SystemTime>,
}

impl Input {
    /// Opens a plain file of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::Read`], also for what is no plain file: pipes and devices may have no end, and some wait for one.
    pub fn open(path: &Path, limit: u64) -> Result<Self, Error> {
        let fail = Error::read(path);
        let place = journal::place_of(path);
        let place = place.as_deref().unwrap_or(path);
        // Before it is opened, as opening alone does things to some devices; and after, in case it was exchanged.
        plain(&fs::metadata(place).map_err(&fail)?).map_err(&fail)?;
        let file = system::unwaiting(File::options().read(true)).open(place).map_err(&fail)?;
        let metadata = file.metadata().map_err(&fail)?;
        plain(&metadata).map_err(&fail)?;
        let size = metadata.len();
        if size > limit {
            return Err(fail(too_long(&format!("it has {size} bytes"), limit)));
        }
        Ok(Self { path: path.to_owned(), file, size, limit, modified: metadata.modified().ok() })
    }

    /// Its bytes when it was opened; 0 also for files that do not tell, as those in `/proc`.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The open file, for a reader of one's own.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Its bytes, as far as it went when it was opened.
    ///
    /// # Errors
    /// [`Error::Read`], also if it does not tell its size and is longer than the limit.
    pub fn read(self) -> Result<Vec<u8>, Error> {
        let fail = Error::read(&self.path);
        let most = if self.size == 0 { self.limit.saturating_add(1) } else { self.size };
        let mut bytes = Vec::new();
        let room = usize::try_from(self.size).map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
        bytes.try_reserve_exact(room).map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
        (&self.file).take(most).read_to_end(&mut bytes).map_err(&fail)?;
        if bytes.len() as u64 > self.limit {
            return Err(fail(too_long("it goes on", self.limit)));
        }
        Ok(bytes)
    }

    /// Reads into `buffer` until that is full or the file ends; returns how many bytes there were.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::read(&self.path)(error)),
            }
        }
        Ok(filled)
    }

    /// Checks that nobody has written to it since it was opened: what was read then is of one writing.
    ///
    /// Told by the time of the last change, as exact as the file system has it. A file that another one takes the place of
    /// stays as it was.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn check_unchanged(&self) -> Result<(), Error> {
        let fail = Error::read(&self.path);
        let now = self.file.metadata().map_err(&fail)?;
        if (now.len(), now.modified().ok()) == (self.size, self.modified) {
            return Ok(());
        }
        let text = "it was written to while it was read; read it again when that is done";
        Err(fail(invalid(text.to_owned())))
    }
}

/// The bytes of a plain file of at most `limit` bytes.
///
/// # Errors
/// [`Error::Read`].
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    Input::open(path, limit)?.read()
}

/// The text of a plain file of at most `limit` bytes.
///
/// # Errors
/// [`Error::Read`], also if it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, Error> {
    String::from_utf8(read(path, limit)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::read(path)(invalid(format!("byte {at} is not UTF-8")))
    })
}

/// The bytes of a file with a secret, which only its owner may read and write.
///
/// A file that belongs to somebody else, such as an administrator, may be shared with a group, but not with everybody. On Windows,
/// which has no modes, every such file is refused.
///
/// # Errors
/// [`Error::Read`].
pub fn read_secret(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let input = Input::open(path, limit)?;
    let fail = Error::read(path);
    let metadata = input.file.metadata().map_err(&fail)?;
    system::check_secret(path, &metadata).map_err(&fail)?;
    input.read()
}

fn plain(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    if kind.is_file() { Ok(()) } else { Err(invalid(format!("it is {}, not a plain file", named(kind)))) }
}

fn too_long(found: &str, limit: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("{found}, more than the {limit} that such a file can have"),
    )
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}
