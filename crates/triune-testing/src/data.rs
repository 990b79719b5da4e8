//! Where real models lie that are too large for the sources.

use std::path::{Path, PathBuf};

/// A file or folder below the folder of test data, if it is there: the folder that `TRIUNE_TEST_DATA` names, else the folder
/// `shared` beside the checkout. Says what is missing, for a test to skip.
pub fn test_data(file: &str) -> Option<PathBuf> {
    first_test_data(&[file])
}

/// The first of several files below the folder of test data that is there, as [`test_data`].
pub fn first_test_data(files: &[&str]) -> Option<PathBuf> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let beside = || checkout.and_then(Path::parent).map(|parent| parent.join("shared"));
    let folder = std::env::var_os("TRIUNE_TEST_DATA").map(PathBuf::from).or_else(beside).unwrap_or_default();
    let found = files.iter().map(|file| folder.join(file)).find(|path| path.exists());
    if found.is_none() {
        let missing = folder.join(files.first().copied().unwrap_or_default());
        skipped(&format!("{} (TRIUNE_TEST_DATA names the folder)", missing.display()));
    }
    found
}

/// Says that a test does not test, for want of what it needs.
pub fn skipped(what: &str) {
    println!("skipped: {what} is not there");
}
