//! What makes several renames one: a list of them that is there while they are under way.
//!
//! The list is written whole before the first file gets its name and removed behind the last. Whoever finds one finds it from a
//! process that was killed between: a reader takes the parts for the files that they are to become, the next writer goes on where
//! the other one stopped.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{Error, output::Output, state::write_state, system};

/// The list's name in the folder.
const NAME: &str = ".triune-renames";
/// A list has some lines.
const LIMIT: u64 = 1 << 20;

/// Part and file, as paths from the folder on.
type Rename = (PathBuf, PathBuf);

/// Writes the list of what is to be renamed in `folder`.
pub(crate) fn begin(folder: &Path, outputs: &[Output]) -> Result<(), Error> {
    let mut text = Vec::new();
    for (part, target) in outputs.iter().filter_map(Output::part) {
        for path in [part, target] {
            // The folder may have moved when the list is read.
            let path = path.strip_prefix(folder).unwrap_or(path);
            text.extend_from_slice(system::path_bytes(path).map_err(Error::write(path))?);
            text.push(0);
        }
    }
    write_state(&folder.join(NAME), &text)
}

/// Removes the list.
pub(crate) fn end(folder: &Path) -> Result<(), Error> {
    let path = folder.join(NAME);
    fs::remove_file(&path).map_err(Error::write(&path))
}

/// Does what a killed process left to be done in `folder`, which is locked.
pub(crate) fn recover(folder: &Path) -> Result<(), Error> {
    let Some(renames) = pending(folder) else { return Ok(()) };
    for (part, target) in renames {
        // A part that is not there has its name already. One that cannot have it is in the way of nothing but itself.
        if fs::rename(folder.join(&part), folder.join(&target)).is_err() {
            let _ = fs::remove_file(folder.join(&part));
        }
    }
    end(folder)
}

/// Where the content of `path` is if a killed process left it under another name.
pub(crate) fn place_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (part, _) = pending(folder)?.into_iter().find(|(_, target)| {
        target.as_os_str() == name
            || (target.is_absolute() && path.canonicalize().is_ok_and(|path| path == *target))
    })?;
    let part = folder.join(part);
    fs::symlink_metadata(&part).is_ok_and(|metadata| metadata.is_file()).then_some(part)
}

/// The list of a folder, if there is one of this user's.
fn pending(folder: &Path) -> Option<Vec<Rename>> {
    let read = || -> io::Result<Vec<u8>> {
        let file = system::unfollowing(fs::File::options().read(true)).open(folder.join(NAME))?;
        let metadata = file.metadata()?;
        // Somebody else's list would have this user rename files for them.
        if !metadata.is_file() || system::owner_id(&metadata) != system::user_id() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut text = Vec::new();
        file.take(LIMIT).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = read().ok()?;
    let mut paths = text.split(|&byte| byte == 0).map_while(system::bytes_path);
    let mut renames = Vec::new();
    while let (Some(part), Some(target)) = (paths.next(), paths.next()) {
        renames.push((part, target));
    }
    Some(renames)
}
