//! Windows: who may do what is said by lists of each folder, which are the user's own affair, and folders have no locks.
#![expect(clippy::unnecessary_wraps, reason = "both systems' forms have one signature")]

use std::{
    fs::{self, File, FileType, Metadata, OpenOptions},
    io,
    os::windows::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// `FILE_FLAG_OPEN_REPARSE_POINT`: a link itself, not what it leads to.
const OPEN_LINK: u32 = 0x0020_0000;

/// Users have no numbers.
pub(crate) fn user_id() -> Option<u32> {
    None
}

/// Users have no numbers.
pub(crate) fn owner_id(_metadata: &Metadata) -> Option<u32> {
    None
}

/// Files have no mode.
pub(crate) fn mode(_metadata: &Metadata) -> Option<u32> {
    None
}

/// Makes a folder, and those above it; who may use it is inherited from what it is in.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Refuses every file with a secret: whether others can read it is not known here.
pub(crate) fn check_secret(_path: &Path, _metadata: &Metadata) -> io::Result<()> {
    let reason = "on Windows it is not known who else can read this secret; \
                  give a token in the variable TRIUNE_TOKEN, and serve with TLS on Linux or macOS";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

/// Whether it is a device's name, which is one in every folder.
pub(crate) fn is_written_directly(_folder: &Path, name: &Path) -> bool {
    ["NUL", "CON"].iter().any(|device| name.as_os_str().eq_ignore_ascii_case(device))
}

/// Opening waits for nobody.
pub(crate) fn unwaiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Opens a link itself, which then is no plain file.
pub(crate) fn unfollowing(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OPEN_LINK)
}

/// Links are opened.
pub(crate) fn was_link(_error: &io::Error) -> bool {
    false
}

pub(crate) fn is_folder() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")
}

/// What a file is that is no plain one, no folder and no link.
pub(crate) fn special(_kind: FileType) -> &'static str {
    "a device"
}

/// Makes a file that was not there.
pub(crate) fn create_new(path: &Path, _mode: u32) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// Whether an open file that had this path still has a name. Paths of parts are given once.
pub(crate) fn has_name(_file: &File, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// Files inherit from their folder.
pub(crate) fn take_over(_file: &File, _old: &Metadata) -> io::Result<()> {
    Ok(())
}

/// The bytes that stand for a path in a list.
pub(crate) fn path_bytes(path: &Path) -> io::Result<&[u8]> {
    let text =
        path.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its name is no Unicode"))?;
    Ok(text.as_bytes())
}

/// The path that such bytes stand for.
pub(crate) fn bytes_path(bytes: &[u8]) -> Option<PathBuf> {
    String::from_utf8(bytes.to_vec()).ok().map(PathBuf::from)
}
