//! Where real models lie that are too large for the sources.

use std::path::{Path, PathBuf};

/// A file below the folder of test data, if it is there: the folder that `TRIUNE_TEST_DATA` names, else the folder
/// `shared` beside the checkout. Prints what is missing, for a test to skip.
pub fn test_data(file: &str) -> Option<PathBuf> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let beside = || checkout.and_then(Path::parent).map(|parent| parent.join("shared"));
    let folder = std::env::var_os("TRIUNE_TEST_DATA").map(PathBuf::from).or_else(beside)?;
    let path = folder.join(file);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: there is no {} (TRIUNE_TEST_DATA names the folder)", path.display());
    None
}
