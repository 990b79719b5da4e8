//! The schema as the tables of `docs/device-spec.md`.

use std::fmt::Write;

use super::{Key, Kind, Need, TABLES, Table};

/// The tables of a page: for each table of a description its heading and its keys.
pub fn markdown() -> String {
    let mut page = String::new();
    for table in TABLES {
        let _ = writeln!(page, "### {}\n", heading(table));
        page.push_str("| key | values | unit | absent | meaning |\n|---|---|---|---|---|\n");
        for key in table.keys() {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} |",
                key.name,
                values(key.kind),
                key.unit,
                absent(key),
                key.meaning
            );
        }
        page.push('\n');
    }
    page
}

fn heading(table: &Table) -> String {
    if table.name.is_empty() {
        return "Device".to_owned();
    }
    let when = match table.need {
        Need::Always if table.many => " (1 to 8)",
        Need::Always => "",
        Need::Modelled => " (needed when time is modelled)",
        Need::Optional(_) => " (optional)",
    };
    format!("`{}`: {}{when}", table.heading(), table.title)
}

fn absent(key: &Key) -> String {
    match key.need {
        Need::Always => "an error".to_owned(),
        Need::Modelled => "an error when time is modelled".to_owned(),
        Need::Optional("") => String::new(),
        Need::Optional(text) => format!("`{text}`"),
    }
}

fn values(kind: Kind) -> String {
    let most = |most: u64| match most {
        _ if most == u64::from(u32::MAX) => "2³²−1".to_owned(),
        most if most > 9999 && most.is_power_of_two() => format!("2{}", superscript(most.trailing_zeros())),
        most if most > 9999 && 10_u64.pow(most.ilog10()) == most => {
            format!("10{}", superscript(most.ilog10()))
        }
        most => most.to_string(),
    };
    match kind {
        Kind::Text(bytes) => format!("text, at most {bytes} bytes"),
        Kind::Name(letters) => format!("1–{letters} letters, digits, `-`, `_`, `.`"),
        Kind::Word(words) => words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", "),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Integer(least, top) => format!("{least}–{}", most(top)),
        Kind::Power(least, top) => format!("powers of two, {least}–{}", most(top)),
        Kind::Ascending(least, top) => format!("ascending, {least}–{}", most(top)),
        Kind::Pair(least, top) => format!("two of {least}–{}", most(top)),
        Kind::Memory => "a memory's name".to_owned(),
    }
}

fn superscript(number: u32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number.to_string().bytes().map(|digit| DIGITS[usize::from(digit - b'0') % 10]).collect()
}
