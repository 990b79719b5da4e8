//! Packages on disk: one file of a good one is replaced, which the first byte chooses.
#![no_main]

use std::{fs, path::PathBuf, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use triune::runtime::Package;

/// A good package, and its files with what they hold.
static GOOD: LazyLock<(TempDir, Vec<(PathBuf, Vec<u8>)>)> = LazyLock::new(triune_fuzz::package);

fuzz_target!(|data: &[u8]| {
    let Some((&choice, contents)) = data.split_first() else { return };
    let (folder, files) = &*GOOD;
    let (path, good) = &files[usize::from(choice) % files.len()];
    fs::write(path, contents).expect("a file");
    let _ = Package::load(folder.path());
    fs::write(path, good).expect("a file");
});
