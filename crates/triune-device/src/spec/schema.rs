//! The schema of a description: every key with its kind, unit, range and meaning.
//!
//! The one place that says so: what is read is checked against it, and `docs/device-spec.md`, `triune device show` and the
//! comments of `triune device new` are made from it. What one key asks of another is in `validate.rs`.

mod check;
mod docs;
mod keys;
mod near;
mod write;

pub use docs::markdown;
pub use keys::{KEYS, TABLES};
pub use write::Style;

use std::fmt;

pub(super) use check::{check, line_at, line_of};
pub(super) use write::quoted;

/// What can stand behind a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text of at most this many bytes.
    Text(usize),
    /// A word of at most this many letters, digits, `-`, `_` and `.`, a letter or digit first.
    Name(usize),
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number within these.
    Integer(u64, u64),
    /// A power of two within these.
    Power(u64, u64),
    /// Ascending whole numbers within these.
    Ascending(u64, u64),
    /// Two whole numbers within these.
    Pair(u64, u64),
    /// The name of a memory.
    Memory,
}

/// When a key has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Always.
    Always,
    /// When time is modelled.
    Modelled,
    /// Never; this is what its absence means.
    Optional(&'static str),
}

/// A key of a description.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table that it stands in, empty for the first.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What can stand behind it.
    pub kind: Kind,
    /// The unit of its number, empty for none.
    pub unit: &'static str,
    /// When it has to be there.
    pub need: Need,
    /// What it means.
    pub meaning: &'static str,
}

/// A table of a description.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name, empty for the first.
    pub name: &'static str,
    /// Whether there can be several, as `[[name]]`.
    pub many: bool,
    /// When it has to be there.
    pub need: Need,
    /// What it is about.
    pub title: &'static str,
}

impl Table {
    /// Its keys, in the order in which descriptions have them.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        let name = self.name;
        KEYS.iter().filter(move |key| key.table == name)
    }

    /// Its heading in a description, empty for the first.
    pub fn heading(&self) -> String {
        match (self.name, self.many) {
            ("", _) => String::new(),
            (name, true) => format!("[[{name}]]"),
            (name, false) => format!("[{name}]"),
        }
    }
}

impl Key {
    /// What its absence means, if it can be absent.
    pub fn default(&self) -> Option<&'static str> {
        match self.need {
            Need::Optional(text) => Some(text),
            Need::Always | Need::Modelled => None,
        }
    }

    /// The default as a value, if its absence is the same as one.
    fn default_value(&self) -> Option<toml::Value> {
        let text = self.default()?;
        match self.kind {
            Kind::Flag => text.parse().ok().map(toml::Value::Boolean),
            Kind::Word(words) => words.contains(&text).then(|| toml::Value::String(text.to_owned())),
            Kind::Integer(..) => text.parse().ok().map(toml::Value::Integer),
            Kind::Pair(..) => {
                let (one, two) = text.strip_prefix('[')?.strip_suffix(']')?.split_once(", ")?;
                let numbers = [one.parse().ok()?, two.parse().ok()?];
                Some(toml::Value::Array(numbers.map(toml::Value::Integer).to_vec()))
            }
            Kind::Text(_) | Kind::Name(_) | Kind::Power(..) | Kind::Ascending(..) | Kind::Memory => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(most) => write!(f, "a text of at most {most} bytes"),
            Self::Name(most) => {
                write!(f, "1 to {most} letters, digits, '-', '_' or '.', a letter or digit first")
            }
            Self::Word(words) => {
                for (at, word) in words.iter().enumerate() {
                    let before = match at {
                        0 => "",
                        at if at + 1 == words.len() => " or ",
                        _ => ", ",
                    };
                    write!(f, "{before}\"{word}\"")?;
                }
                Ok(())
            }
            Self::Flag => f.write_str("true or false"),
            Self::Integer(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Power(least, most) => write!(f, "a power of two from {least} to {most}"),
            Self::Ascending(least, most) => {
                write!(f, "1 to {MAX_LIST} ascending whole numbers from {least} to {most}")
            }
            Self::Pair(least, most) => write!(f, "two whole numbers from {least} to {most}, as [a, b]"),
            Self::Memory => f.write_str("the name of a [[memory]]"),
        }
    }
}

/// Most numbers of a list.
const MAX_LIST: usize = 64;
