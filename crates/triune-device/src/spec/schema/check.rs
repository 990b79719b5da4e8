//! Whether a text has the form that the schema asks for: its keys, their kinds and ranges.

use toml::{
    Table as Toml, Value,
    de::{DeTable, DeValue},
};
use triune_tensor::text::Name;

use super::{Key, Kind, MAX_LIST, Need, TABLES, Table, near::nearest};
use crate::spec::{MAX_MEMORIES, Problem, change::whole_size};

/// What is wrong with a description, each with its key; its keys' relations are another matter.
pub(in crate::spec) fn check(root: &Toml) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut wrong = |key: String, problem: String| problems.push(Problem { line: None, key, problem });
    let modelled = root.get("timing").and_then(Value::as_str) != Some("none");
    for table in TABLES {
        let found = if table.name.is_empty() { None } else { root.get(table.name) };
        match (table.name, found) {
            ("", _) => one(table, "", root, modelled, &mut wrong),
            (name, None) => {
                if is_needed(table.need, modelled) {
                    wrong(name.to_owned(), missing(&table.heading(), table.need));
                }
            }
            (name, Some(Value::Table(inner))) if !table.many => one(table, name, inner, modelled, &mut wrong),
            (name, Some(Value::Array(items)))
                if table.many && !items.is_empty() && items.iter().all(Value::is_table) =>
            {
                if items.len() > MAX_MEMORIES {
                    wrong(
                        name.to_owned(),
                        format!("{} of them; there can be 1 to {MAX_MEMORIES}", items.len()),
                    );
                }
                for (at, inner) in items.iter().filter_map(Value::as_table).take(MAX_MEMORIES).enumerate() {
                    one(table, &format!("{name}[{at}]"), inner, modelled, &mut wrong);
                }
            }
            (name, Some(other)) => {
                let (heading, kind) = (table.heading(), if table.many { "tables" } else { "a table" });
                wrong(name.to_owned(), format!("expected {kind} {heading}, got {}", shown(other)));
            }
        }
    }
    problems
}

const fn is_needed(need: Need, modelled: bool) -> bool {
    match need {
        Need::Always => true,
        Need::Modelled => modelled,
        Need::Optional(_) => false,
    }
}

fn missing(what: &str, need: Need) -> String {
    match need {
        Need::Modelled => format!("is missing, and timing is modelled: add {what}, or say timing = \"none\""),
        _ => format!("is missing: add {what}"),
    }
}

/// One table's keys.
fn one(table: &Table, path: &str, inner: &Toml, modelled: bool, wrong: &mut impl FnMut(String, String)) {
    let place = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, value) in inner {
        if let Some(key) = table.keys().find(|key| key.name == name) {
            if let Err(problem) = is_of(key, value) {
                wrong(place(name), problem);
            }
        } else if !(path.is_empty() && TABLES.iter().any(|table| table.name == name)) {
            wrong(place(&Name(name).to_string()), unknown(table, name));
        }
    }
    for key in table.keys() {
        if is_needed(key.need, modelled) && !inner.contains_key(key.name) {
            wrong(place(key.name), missing(&format!("{} ({})", key.kind, key.meaning), key.need));
        }
    }
}

/// What to do about a key that the table does not have.
fn unknown(table: &Table, name: &str) -> String {
    let top = table.name.is_empty();
    let within = if top { "at the top".to_owned() } else { format!("in {}", table.heading()) };
    let tables = TABLES.iter().map(|table| table.name).filter(|each| top && !each.is_empty());
    let own: Vec<&str> = table.keys().map(|key| key.name).chain(tables).collect();
    if let Some(near) = nearest(name, own.iter().copied()) {
        return format!("there is no such key {within}; did you mean {near}?");
    }
    let elsewhere = super::KEYS.iter().find(|key| key.name == name);
    if let Some(other) = elsewhere.and_then(|key| TABLES.iter().find(|table| table.name == key.table)) {
        let place =
            if other.name.is_empty() { "the top, before all tables".to_owned() } else { other.heading() };
        return format!("there is no such key {within}; {name} belongs to {place}");
    }
    format!("there is no such key {within}; there are {}", own.join(", "))
}

/// Whether a value is of a key's kind.
fn is_of(key: &Key, value: &Value) -> Result<(), String> {
    let within = |value: &Value, least: u64, most: u64| {
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        number.filter(|number| (least..=most).contains(number))
    };
    let fits = match (key.kind, value) {
        (Kind::Text(most), Value::String(text)) => text.len() <= most && !text.contains(char::is_control),
        (Kind::Name(most), Value::String(text)) => is_name(text, most),
        (Kind::Word(words), Value::String(word)) => words.contains(&&**word),
        // Whether there is a memory of that name is seen later.
        (Kind::Flag, Value::Boolean(_)) | (Kind::Memory, Value::String(_)) => true,
        (Kind::Integer(least, most), value) => within(value, least, most).is_some(),
        (Kind::Power(least, most), value) => within(value, least, most).is_some_and(u64::is_power_of_two),
        (Kind::Ascending(least, most), Value::Array(items)) => {
            let numbers: Option<Vec<u64>> = items.iter().map(|item| within(item, least, most)).collect();
            numbers.is_some_and(|numbers| {
                (1..=MAX_LIST).contains(&numbers.len()) && numbers.is_sorted_by(|a, b| a < b)
            })
        }
        (Kind::Pair(least, most), Value::Array(items)) => {
            items.len() == 2 && items.iter().all(|item| within(item, least, most).is_some())
        }
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(format!("expected {}, got {}{}", key.kind, shown(value), cure(key, value)))
    }
}

fn is_name(text: &str, most: usize) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let begins = |letter: char| letter.is_ascii_alphanumeric();
    text.len() <= most && text.chars().all(fits) && text.starts_with(begins)
}

/// How to write what was likely meant.
fn cure(key: &Key, value: &Value) -> String {
    match (key.kind, value) {
        (Kind::Word(words), Value::String(word)) => nearest(word, words.iter().copied())
            .map_or_else(String::new, |near| format!("; did you mean \"{near}\"?")),
        // `"256K"`: the words of sweeps and of the command line.
        (Kind::Integer(..) | Kind::Power(..), Value::String(text)) => {
            let base = if key.unit == "bytes" { 1024 } else { 1000 };
            whole_size(text, base).map_or_else(String::new, |number| format!("; write {number}"))
        }
        (Kind::Integer(..) | Kind::Power(..), Value::Float(number))
            if number.fract() == 0.0 && (0.0..9e15).contains(number) =>
        {
            format!("; write {number:.0}")
        }
        (Kind::Pair(..), Value::Integer(number)) if key.name == "bytes_per_cycle" => {
            format!("; write [{number}, 1] for {number} bytes per cycle")
        }
        _ => String::new(),
    }
}

/// A value as messages show it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", Name(text)),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Datetime(_) => "a date".to_owned(),
        Value::Table(_) => "a table".to_owned(),
        Value::Array(items) => {
            let first: Vec<String> = items.iter().take(4).map(part).collect();
            let more = if items.len() > 4 { format!(", … {} in all", items.len()) } else { String::new() };
            format!("[{}{more}]", first.join(", "))
        }
    }
}

/// An item of a list: lists in lists are not followed.
fn part(value: &Value) -> String {
    if value.is_array() { "[…]".to_owned() } else { shown(value) }
}

/// The line of a key, or failing that of the table that it should stand in; lines count from 1.
pub(in crate::spec) fn line_of(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut at: Option<usize> = None;
    let mut table: Option<&DeTable<'_>> = Some(root.get_ref());
    for part in key.split('.') {
        let (name, index) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((name, index)) => (name, index.parse::<usize>().ok()),
            None => (part, None),
        };
        let found = table.and_then(|table| table.iter().find(|(key, _)| key.get_ref().as_ref() == name));
        let Some((name, value)) = found else { break };
        at = Some(name.span().start);
        table = match (value.get_ref(), index) {
            (DeValue::Table(inner), _) => Some(inner),
            (DeValue::Array(items), Some(index)) => items.get(index).and_then(|item| {
                at = Some(item.span().start);
                match item.get_ref() {
                    DeValue::Table(inner) => Some(inner),
                    _ => None,
                }
            }),
            _ => None,
        };
    }
    at.map(|at| line_at(text, at))
}

/// The line of a byte.
pub(in crate::spec) fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}
