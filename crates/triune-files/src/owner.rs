//! Whose a file is. Each answer is none on Windows, where files have access lists instead.

use std::{fs::Metadata, io, path::Path};

use crate::system;

/// The user that this process acts for.
pub fn user_id() -> Option<u32> {
    system::user_id()
}

/// The user that a file belongs to.
pub fn owner_id(metadata: &Metadata) -> Option<u32> {
    system::owner_id(metadata)
}

/// Who may do what with a file, in twelve bits.
pub fn mode(metadata: &Metadata) -> Option<u32> {
    system::mode(metadata)
}

/// Makes a folder, and those above it, for this user alone. One that is there stays as it is, and on Windows it inherits who may use it.
///
/// # Errors
/// What the system says.
pub fn make_private(folder: &Path) -> io::Result<()> {
    system::make_private(folder)
}
