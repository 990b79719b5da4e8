//! Files, read and written with care: what is read ends, and what is written is whole.
//!
//! **Reading.** [`Input`] opens plain files alone, up to a limit that the reader names, so that a device, a pipe or a file of
//! `/proc` can neither be waited for nor read without end. Nothing is mapped: a mapped file that somebody shortens ends the process.
//!
//! **Writing.** [`Output`] writes beside the file and takes its place at the end; [`FileSet`] does so for several files of a
//! folder as one. A full disk, an error or a kill on the way leaves what was there. Links are written through, as `cp` does, and
//! the mode stays; devices and pipes are written directly.
//!
//! **Systems.** The above is said of Linux and macOS. Windows has neither owners nor modes nor locks of folders here: what a user may do
//! is what the folder's access list allows, writers of the same files at the same time may mix them, and files with secrets are
//! refused.
//!
//! **Power cuts.** The content reaches the disk before it gets its name, so that afterwards there is the old file or the new one,
//! whole. Folders are not synchronized: which of the two it is may depend on when the power went.
#![forbid(unsafe_code)]

mod error;
mod input;
mod journal;
mod lock;
mod output;
pub mod owner;
mod set;
mod state;
mod system;

pub use error::Error;
pub use input::{Input, read, read_secret, read_text};
pub use lock::FolderLock;
pub use output::{Output, append, write};
pub use set::FileSet;
pub use state::{open_state, write_state};

/// What a file with a model in it has at most: offsets in the formats have 32 bits.
pub const MODEL_LIMIT: u64 = 4 << 30;

/// What a file with data has at most whose size another file gives.
pub const DATA_LIMIT: u64 = 1 << 40;

/// What a text that describes something has at most; those of the largest networks have some hundred megabytes.
pub const TEXT_LIMIT: u64 = 1 << 30;
