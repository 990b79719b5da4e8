//! Where reference data lie that are not part of the sources.

use std::path::PathBuf;

/// The whole folder of test data; without it, tests say so and pass.
pub(crate) fn folder() -> Option<PathBuf> {
    triune_testing::test_data("")
}
