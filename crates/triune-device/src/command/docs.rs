//! The field tables of `docs/command-set.md`, made from the command table.

use std::fmt::Write;

use triune_tensor::function::{Code, Coded};

use super::{set, types};

/// One field of a command or composite type.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) type_name: String,
    pub(super) words: usize,
    pub(super) doc: &'static str,
}

/// A command or composite type.
pub(super) struct Struct {
    pub(super) name: &'static str,
    pub(super) words: usize,
    pub(super) doc: &'static str,
    pub(super) fields: Vec<Row>,
}

/// A type with named codes.
pub(super) struct Codes {
    name: &'static str,
    doc: &'static str,
    values: &'static [Code],
}

impl Codes {
    pub(super) fn of<T: Coded>() -> Self {
        Self { name: T::NAME, doc: T::MEANING, values: T::CODES }
    }
}

fn text(doc: &str) -> String {
    doc.lines().map(str::trim).collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn rows(out: &mut String, fields: &[Row], first_word: usize) {
    if fields.is_empty() {
        return;
    }
    out.push_str("| word | field | type | meaning |\n|---|---|---|---|\n");
    let mut word = first_word;
    for row in fields {
        let last = word + row.words - 1;
        let span = if row.words == 1 { word.to_string() } else { format!("{word}–{last}") };
        let _ = writeln!(out, "| {span} | `{}` | {} | {} |", row.name, row.type_name, row.doc.trim());
        word += row.words;
    }
    out.push('\n');
}

/// The Markdown of every command, composite type and code, as it stands in `docs/command-set.md`.
pub fn field_tables() -> String {
    let mut out = String::from("## Commands\n\n");
    for (code, mnemonic, command) in set::structs() {
        let _ = writeln!(
            out,
            "### `{mnemonic}` ({code:#06x}, {} words)\n\n{}\n",
            command.words,
            text(command.doc)
        );
        rows(&mut out, &command.fields, super::codec::HEADER_WORDS);
    }
    out.push_str("## Composite fields\n\n");
    for record in types::composites() {
        let _ = writeln!(out, "### {} ({} words)\n\n{}\n", record.name, record.words, text(record.doc));
        rows(&mut out, &record.fields, 0);
    }
    out.push_str("## Codes\n\n");
    for codes in types::code_tables() {
        let _ = writeln!(
            out,
            "### {}\n\n{}\n\n| code | name | meaning |\n|---|---|---|",
            codes.name,
            text(codes.doc)
        );
        for Code { code, name, meaning } in codes.values {
            let _ = writeln!(out, "| {code} | {name} | {meaning} |");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "### DType\n\nElement type.\n\n| code | name |\n|---|---|");
    for (index, dtype) in triune_tensor::DType::ALL.iter().enumerate() {
        let _ = writeln!(out, "| {} | {dtype} |", index + 1);
    }
    out
}

#[cfg(test)]
mod tests {
    /// `docs/command-set.md` holds the tables between two markers, as the example `command_tables` prints them.
    #[test]
    fn documentation_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-set.md");
        let text = std::fs::read_to_string(path).expect("docs/command-set.md is readable");
        let tables = super::field_tables();
        let (_, behind) = text.split_once("<!-- tables -->\n\n").expect("the start marker");
        let (held, _) = behind.split_once("\n<!-- end of tables -->").expect("the end marker");
        assert!(
            held == tables,
            "docs/command-set.md is behind: put there what the example command_tables prints"
        );
    }
}
