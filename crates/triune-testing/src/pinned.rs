//! Texts that are written down: what a test gets has to be what the file says.

use std::{env, fs, path::Path};

/// Compares a text line by line with what a file says; with `TRIUNE_PIN=write`, writes it there instead.
///
/// # Panics
/// If they differ, or the file cannot be read or written.
#[track_caller]
pub fn pinned(file: &Path, got: &str) {
    if env::var_os("TRIUNE_PIN").is_some_and(|what| what == "write") {
        fs::write(file, got).expect("a file that can be written");
        return;
    }
    let wanted = fs::read_to_string(file).expect("a file that can be read");
    let name = file.display();
    for (at, (got, wanted)) in got.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(got, wanted, "{name}:{}", at + 1);
    }
    assert_eq!(got.lines().count(), wanted.lines().count(), "lines of {name}");
}

/// A number for bytes, however many: Fowler's, Noll's and Vo's, of 64 bits.
pub fn digest(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Questions of a file, a line each, with their answers below, indented by two spaces: compares these with what `answer` says now,
/// or writes them there as [`pinned`] does. Empty lines and those that begin with `#` are no questions.
///
/// # Panics
/// As [`pinned`].
#[track_caller]
pub fn pinned_answers(file: &Path, answer: impl Fn(&str) -> String) {
    let text = fs::read_to_string(file).expect("a file that can be read");
    let mut got = String::new();
    for line in text.lines().filter(|line| !line.starts_with("  ")) {
        got.push_str(line);
        got.push('\n');
        if !line.is_empty() && !line.starts_with('#') {
            got.push_str(&answer(line));
        }
    }
    pinned(file, &got);
}
