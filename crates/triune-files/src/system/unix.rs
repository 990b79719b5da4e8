//! Linux and macOS: owners and modes, links and pipes.
#![expect(clippy::unnecessary_wraps, reason = "both systems' forms have one signature")]

use std::{
    ffi::OsString,
    fs::{DirBuilder, File, FileType, Metadata, OpenOptions, Permissions},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    },
    path::{Path, PathBuf},
};

/// The user that this process acts for.
pub(crate) fn user_id() -> Option<u32> {
    Some(rustix::process::geteuid().as_raw())
}

/// Who a file belongs to.
pub(crate) fn owner_id(metadata: &Metadata) -> Option<u32> {
    Some(metadata.uid())
}

/// Who may do what with a file.
pub(crate) fn mode(metadata: &Metadata) -> Option<u32> {
    Some(metadata.mode() & 0o7777)
}

/// Makes a folder, and those above it, for this user alone; one that is there stays as it is.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Refuses a file with a secret that others can read or write.
pub(crate) fn check_secret(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let mode = metadata.mode() & 0o7777;
    let others = mode & if owner_id(metadata) == user_id() { 0o077 } else { 0o007 };
    if others == 0 {
        return Ok(());
    }
    let reason =
        format!("others can read or write this secret (mode {mode:04o}); chmod 600 {}", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Whether what is in this folder is written at once, as nothing takes the place of it.
pub(crate) fn is_written_directly(folder: &Path, _name: &Path) -> bool {
    folder.starts_with("/proc") || folder.starts_with("/dev/fd")
}

/// Has no pipe waited for.
pub(crate) fn unwaiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(libc::O_NONBLOCK)
}

/// As [`unwaiting`], and follows no link.
pub(crate) fn unfollowing(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
}

/// Whether it is a link that was not followed.
pub(crate) fn was_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

pub(crate) fn is_folder() -> io::Error {
    io::Error::from_raw_os_error(libc::EISDIR)
}

/// What a file is that is no plain one, no folder and no link.
pub(crate) fn special(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Makes a file that was not there, with that mode but for what the process's mask takes from it.
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(mode).open(path)
}

/// Whether an open file that had this path still has a name.
pub(crate) fn has_name(file: &File, _path: &Path) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

/// Gives a new file the owner and the mode of the one that it replaces.
pub(crate) fn take_over(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o777;
    if (new.uid(), new.gid()) != (old.uid(), old.gid())
        && fchown(file, Some(old.uid()), Some(old.gid())).is_err()
        && fchown(file, None, Some(old.gid())).is_err()
    {
        // What the old group might, another one need not.
        mode &= 0o707;
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// The bytes that stand for a path in a list.
pub(crate) fn path_bytes(path: &Path) -> io::Result<&[u8]> {
    Ok(path.as_os_str().as_bytes())
}

/// The path that such bytes stand for.
pub(crate) fn bytes_path(bytes: &[u8]) -> Option<PathBuf> {
    Some(OsString::from_vec(bytes.to_vec()).into())
}
