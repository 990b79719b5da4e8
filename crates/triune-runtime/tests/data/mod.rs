//! Where reference data lie that are not part of the sources.

use std::path::PathBuf;

/// The folder that `TRIUNE_TEST_DATA` names; without it, tests say so and pass.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TRIUNE_TEST_DATA").map(PathBuf::from).filter(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("skipped: TRIUNE_TEST_DATA names no folder with reference data");
    }
    folder
}
