//! What a fault is: a place in a file, and what is written around it.

use std::fmt::Write;

/// What stands in a fault's texts for the question whether it is switched on.
pub const SWITCH: &str = "@SWITCH@";

/// A small change of a crate that tests should notice.
///
/// It is planted by writing `prefix` before the bytes `start..end` of the file and `suffix` behind them: what stands between stays
/// as it is, so that faults may lie within each other.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The folder of the crate, as it was given.
    pub folder: String,
    /// The file within it.
    pub file: String,
    /// The function, with its type and trait.
    pub function: String,
    /// The family of changes; samples have equally many of each.
    pub kind: &'static str,
    /// Where, counted from 1.
    pub line: usize,
    /// What stands there, on one line.
    pub before: String,
    /// What stands there with the fault.
    pub after: String,
    /// The first byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
    /// What is written before it.
    pub prefix: String,
    /// What is written behind it.
    pub suffix: String,
}

impl Fault {
    /// The fault as a JSON object. By hand, because a crate that does it takes longer to build than the rest of the lister.
    pub fn json(&self) -> String {
        let texts = [
            ("folder", self.folder.as_str()),
            ("file", &self.file),
            ("function", &self.function),
            ("kind", self.kind),
            ("before", &self.before),
            ("after", &self.after),
            ("prefix", &self.prefix),
            ("suffix", &self.suffix),
        ];
        let texts = texts.map(|(name, text)| format!("\"{name}\":{}", quoted(text))).join(",");
        format!("{{{texts},\"line\":{},\"start\":{},\"end\":{}}}", self.line, self.start, self.end)
    }
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\0'..' ' => write!(quoted, "\\u{:04x}", u32::from(letter)).expect("a String takes all"),
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}
