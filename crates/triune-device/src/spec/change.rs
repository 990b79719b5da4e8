//! A description with some of its numbers changed, for asking what a device like it would do.

use toml::{Table, Value};

use super::{DeviceSpec, Problem, error};
use crate::Error;

/// A number as the schema has it: sizes are powers of 1024, rates of 1000.
#[derive(Clone, Copy)]
enum Unit {
    Size,
    Rate,
}

impl DeviceSpec {
    /// The description with numbers changed, in order: pairs of a key and a value. A key is a path into the schema of
    /// `docs/device-spec.md`, such as `queues.buffers`, `array.units[0]` or, with a memory's name, `memory.l2.ports`; or
    /// short:
    ///
    /// - `array`: rows and columns, as `32x64`;
    /// - `clock`: the default clock in MHz, which then also can be set;
    /// - the name of the first memory: its bandwidth in bytes per second;
    /// - the name of another memory: its size in bytes.
    ///
    /// Values may be decimal and end in K, M, G or T: powers of 1024 for sizes, of 1000 for everything else.
    ///
    /// # Errors
    /// [`Error::Spec`] names the key: there is none, or not of a number, the value is none, or the description that comes
    /// out is not valid.
    pub fn with(&self, changes: &[(&str, &str)]) -> Result<Self, Error> {
        let mut spec = self.clone();
        for (key, value) in changes {
            let mut table = Table::try_from(&spec)
                .map_err(|problem| error(key, format!("cannot be changed: {problem}")))?;
            change(&mut table, key, value, &spec)?;
            // Whether the description is in order is seen when all of them are made.
            spec = Value::Table(table)
                .try_into()
                .map_err(|problem: toml::de::Error| error(key, problem.message().to_owned()))?;
        }
        let table = Table::try_from(&spec).map_err(|problem| error("toml", problem.to_string()))?;
        Self::from_table(table).map_err(|problems| match problems.into_iter().next() {
            Some(Problem { key, problem, .. }) => Error::Spec { key, problem },
            None => error("toml", "is wrong".into()),
        })
    }

    /// What [`Self::with`] would have to set to change nothing: the value of a key as it is.
    ///
    /// # Errors
    /// [`Error::Spec`] if there is no such key, or it has no number now.
    pub fn number(&self, key: &str) -> Result<String, Error> {
        let none = || error(key, format!("there is no such number in the description of '{}'", self.name));
        if key == "array" {
            return self.array.map(|array| format!("{}x{}", array.rows, array.columns)).ok_or_else(none);
        }
        let path = match self.memory.iter().position(|memory| memory.name == key) {
            Some(0) => "memory[0].bytes_per_second".to_owned(),
            Some(index) => format!("memory[{index}].bytes"),
            None if key == "clock" => "clock_mhz".to_owned(),
            None => key.to_owned(),
        };
        let table = Table::try_from(self).map_err(|problem| error(key, problem.to_string()))?;
        let mut value = Value::Table(table);
        for step in steps(&path, self) {
            let next = match &value {
                Value::Table(table) => table.get(&step),
                Value::Array(items) => step.parse().ok().and_then(|index: usize| items.get(index)),
                _ => None,
            };
            value = next.cloned().ok_or_else(none)?;
        }
        match &value {
            Value::Integer(number) => Ok(number.to_string()),
            // A rate: whole bytes per cycle.
            Value::Array(rate) => match rate[..] {
                [Value::Integer(bytes), Value::Integer(1)] => Ok(bytes.to_string()),
                _ => Err(none()),
            },
            _ => Err(none()),
        }
    }
}

/// The keys and indices of a path, one after the other.
fn steps(path: &str, spec: &DeviceSpec) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for part in path.split('.') {
        let (name, index) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((name, index)) => (name, Some(index)),
            None => (part, None),
        };
        steps.push(name.to_owned());
        steps.extend(index.map(str::to_owned));
    }
    // A memory's name stands for its place in the list.
    if let [first, second, ..] = &mut steps[..]
        && first == "memory"
        && let Some(at) = spec.memory.iter().position(|memory| memory.name == *second)
    {
        *second = at.to_string();
    }
    steps
}

fn change(table: &mut Table, key: &str, value: &str, spec: &DeviceSpec) -> Result<(), Error> {
    let memory = |name: &str| spec.memory.iter().position(|memory| memory.name == name);
    match key {
        "array" => {
            let (rows, columns) = value.split_once('x').ok_or_else(|| {
                error(key, format!("expected rows and columns such as 32x32, got '{value}'"))
            })?;
            set(table, "array.rows", rows, spec)?;
            set(table, "array.columns", columns, spec)
        }
        "clock" => {
            set(table, "clock_mhz", value, spec)?;
            let clock = number(key, value, Unit::Rate)?;
            let clocks = table.get_mut("clocks_mhz").and_then(Value::as_array_mut);
            let clocks = clocks.ok_or_else(|| error(key, "the device has no clock".into()))?;
            let at = clocks.partition_point(|each| each.as_integer().is_some_and(|each| each < clock));
            if clocks.get(at).and_then(Value::as_integer) != Some(clock) {
                clocks.insert(at, clock.into());
            }
            Ok(())
        }
        name => match memory(name) {
            Some(0) => set(table, "memory[0].bytes_per_second", value, spec),
            Some(index) => set(table, &format!("memory[{index}].bytes"), value, spec),
            None => set(table, key, value, spec),
        },
    }
}

/// Sets the number at a path.
fn set(table: &mut Table, path: &str, value: &str, spec: &DeviceSpec) -> Result<(), Error> {
    let steps = steps(path, spec);
    let missing = |at: usize| error(path, format!("there is no '{}'", steps[at]));
    let Some((last, parents)) = steps.split_last() else { return Err(missing(0)) };
    let mut place: Option<&mut Value> = None;
    for (at, step) in parents.iter().enumerate() {
        let next = match place {
            None => table.get_mut(step),
            Some(Value::Table(inner)) => inner.get_mut(step),
            Some(Value::Array(items)) => step.parse().ok().and_then(|index: usize| items.get_mut(index)),
            Some(_) => None,
        };
        place = Some(next.ok_or_else(|| missing(at))?);
    }
    let unit = if matches!(&**last, "bytes" | "reserved" | "buffer_bytes") { Unit::Size } else { Unit::Rate };
    let wanted = Value::Integer(number(path, value, unit)?);
    let inner = match place {
        Some(Value::Array(items)) => {
            let item = last.parse().ok().and_then(|index: usize| items.get_mut(index));
            return match item {
                Some(number @ Value::Integer(_)) => {
                    *number = wanted;
                    Ok(())
                }
                _ => Err(missing(steps.len() - 1)),
            };
        }
        Some(Value::Table(inner)) => inner,
        None => table,
        Some(_) => return Err(missing(steps.len() - 1)),
    };
    match (inner.get_mut(last), &**last) {
        // A rate given as a whole number of bytes per cycle.
        (_, "bytes_per_cycle") => {
            inner.remove("bytes_per_second");
            inner.insert(last.clone(), Value::Array(vec![wanted, Value::Integer(1)]));
        }
        (_, "bytes_per_second") => {
            inner.remove("bytes_per_cycle");
            inner.insert(last.clone(), wanted);
        }
        // What is absent is optional, or unknown: reading the description tells.
        (None | Some(Value::Integer(_)), _) => {
            inner.insert(last.clone(), wanted);
        }
        (Some(other), _) => {
            return Err(error(path, format!("is no number but a {}", other.type_str())));
        }
    }
    Ok(())
}

/// A number that was written with a unit, `K` being `base`; none if it is no whole one.
pub(super) fn whole_size(text: &str, base: u64) -> Option<i64> {
    number("", text, if base == 1024 { Unit::Size } else { Unit::Rate }).ok()
}

/// A number with a unit, exactly.
fn number(key: &str, text: &str, unit: Unit) -> Result<i64, Error> {
    let wrong = || error(key, format!("expected a whole number such as 64, 512K or 6.4G, got '{text}'"));
    let trimmed = text.trim();
    let (digits, power) = match trimmed.char_indices().last() {
        Some((at, 'K' | 'k')) => (&trimmed[..at], 1),
        Some((at, 'M')) => (&trimmed[..at], 2),
        Some((at, 'G')) => (&trimmed[..at], 3),
        Some((at, 'T')) => (&trimmed[..at], 4),
        _ => (trimmed, 0),
    };
    let base: u128 = match unit {
        Unit::Size => 1024,
        Unit::Rate => 1000,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |text: &str| text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) {
        return Err(wrong());
    }
    let whole: u128 = whole.parse().map_err(|_| wrong())?;
    let ten = 10_u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| wrong())? };
    let scaled = (whole * ten + fraction).checked_mul(base.pow(power)).ok_or_else(wrong)?;
    if !scaled.is_multiple_of(ten) {
        return Err(wrong());
    }
    i64::try_from(scaled / ten).map_err(|_| wrong())
}
