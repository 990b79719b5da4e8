//! A description as a text that reads back as the same.

use std::fmt::Write;

use toml::{Table as Toml, Value};

use super::{Key, TABLES};
use crate::spec::DeviceSpec;

/// How much is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// What differs from the defaults.
    Short,
    /// The same, with a comment on each line.
    Commented,
    /// Every key that has a value, defaults too.
    Whole,
}

impl DeviceSpec {
    /// The description as a TOML text, in the order of the schema. [`Self::from_toml`] reads the same from it.
    pub fn to_toml(&self, style: Style) -> String {
        // What was read has nothing that TOML has no words for: those are numbers from 2⁶³ on.
        let Ok(root) = Toml::try_from(self) else { return String::new() };
        let mut text = String::new();
        for table in TABLES {
            let tables: Vec<&Toml> = match root.get(table.name) {
                _ if table.name.is_empty() => vec![&root],
                Some(Value::Table(inner)) => vec![inner],
                Some(Value::Array(items)) => items.iter().filter_map(Value::as_table).collect(),
                _ => Vec::new(),
            };
            for inner in tables {
                let lines: Vec<(&Key, String)> = table
                    .keys()
                    .filter_map(|key| Some((key, inner.get(key.name)?)))
                    .filter(|&(key, value)| {
                        style == Style::Whole || key.default_value().as_ref() != Some(value)
                    })
                    .map(|(key, value)| (key, format!("{} = {}", key.name, written(value))))
                    .collect();
                if lines.is_empty() {
                    continue;
                }
                if !table.name.is_empty() {
                    let title =
                        if style == Style::Commented { format!(" # {}", table.title) } else { String::new() };
                    let _ = writeln!(text, "\n{}{title}", table.heading());
                }
                for (key, line) in lines {
                    let _ = match style {
                        Style::Commented => writeln!(text, "{line} # {}", key.remark()),
                        Style::Short | Style::Whole => writeln!(text, "{line}"),
                    };
                }
            }
        }
        text
    }
}

impl Key {
    /// Unit and meaning in one line.
    fn remark(&self) -> String {
        if self.unit.is_empty() {
            self.meaning.to_owned()
        } else {
            format!("{}: {}", self.unit, self.meaning)
        }
    }
}

/// A value in TOML.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(written).collect();
            format!("[{}]", items.join(", "))
        }
        // A description has none of these.
        Value::Float(_) | Value::Datetime(_) | Value::Table(_) => String::new(),
    }
}

/// A text as a basic string.
pub(in crate::spec) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
