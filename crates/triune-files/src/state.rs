//! Files of Triune's own in a folder of its own, such as locks: no link is followed, as nobody has a reason to put one there but
//! to lead the writer elsewhere.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use crate::{Error, error::named, output::Output, system};

/// Opens such a file to be read and written; it is made if it is missing. The kernel closes it on exec, so that no child keeps its
/// locks.
///
/// # Errors
/// [`Error::Write`], also for a link and for what is no plain file.
pub fn open_state(path: &Path) -> Result<File, Error> {
    let fail = Error::write(path);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let link = || fail(io::Error::other("it is a link, which is not followed; remove it"));
    let file = system::unfollowing(&mut options)
        .open(path)
        .map_err(|error| if system::was_link(&error) { link() } else { fail(error) })?;
    let kind = file.metadata().map_err(&fail)?.file_type();
    if kind.is_symlink() {
        return Err(link());
    }
    if !kind.is_file() {
        return Err(fail(io::Error::other(format!("it is {}, not a plain file", named(kind)))));
    }
    Ok(file)
}

/// Replaces such a file; a link in its place goes.
///
/// # Errors
/// [`Error::Write`].
pub fn write_state(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut output = Output::replacing(path)?;
    output.write_all(bytes).map_err(Error::write(path))?;
    output.commit_unsynced()
}
