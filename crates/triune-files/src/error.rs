//! What goes wrong with files.

use std::{
    fmt,
    fs::FileType,
    io,
    path::{Path, PathBuf},
};

use crate::system;

/// A file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be opened or read, is no plain file, or is longer than what it should hold.
    #[error("cannot read {}: {}", path.display(), Reason(source))]
    Read {
        /// The file that was asked for.
        path: PathBuf,
        /// What the system said, or what is wrong.
        source: io::Error,
    },
    /// It cannot be made, written or put in its place; what was there is there.
    #[error("cannot write {}: {}", path.display(), Reason(source))]
    Write {
        /// The file that was asked for.
        path: PathBuf,
        /// What the system said, or what is wrong.
        source: io::Error,
    },
}

impl Error {
    /// What the system said, or what is wrong.
    pub fn source(&self) -> &io::Error {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => source,
        }
    }

    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

/// The system's words without the number that the standard library puts behind them.
pub(crate) struct Reason<'a>(pub(crate) &'a io::Error);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        f.write_str(match self.0.raw_os_error() {
            Some(number) => text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text),
            None => &text,
        })
    }
}

/// What a file is that is no plain one.
pub(crate) fn named(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a folder"
    } else if kind.is_symlink() {
        "a link"
    } else {
        system::special(kind)
    }
}
