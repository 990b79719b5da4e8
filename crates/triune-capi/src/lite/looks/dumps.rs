//! Every intermediate result of a network's runs, as text and as files, in the vendor's formats.

use std::{
    collections::HashMap,
    io::Write,
    path::{Path, PathBuf},
};

use triune::{
    DType,
    internals::{
        files::{self, Output},
        runtime::Variable,
    },
};

use super::{
    super::{
        failure::{Failure, failure},
        types::MAX_DIMS,
    },
    numbers::{general, known, reals},
};

/// How many elements of a result a text shows.
const SHOWN: usize = 5;

/// Where the results of a run go.
#[derive(Debug)]
pub(in super::super) enum Dump {
    /// All behind each other, to be read.
    Text(PathBuf),
    /// A file for each, in a directory.
    Binary(PathBuf),
}

impl Dump {
    /// A text, empty so far.
    pub(super) fn text(file: &Path) -> Result<Self, Failure> {
        files::write(file, b"").map_err(|error| failure(format!("enable_io_txt_dump: {error}")))?;
        Ok(Self::Text(file.to_owned()))
    }

    /// Files in a directory that is there.
    pub(super) fn binary(folder: &Path) -> Result<Self, Failure> {
        if !folder.is_dir() {
            let shown = folder.display();
            return Err(failure(format!(
                "enable_io_bin_dump: there is no directory '{shown}': make it first"
            )));
        }
        Ok(Self::Binary(folder.to_owned()))
    }

    /// Adds the results of a run.
    pub(super) fn take(&self, results: &[Variable]) -> Result<(), Failure> {
        let results: Vec<Produced<'_>> = results.iter().enumerate().map(Produced::of).collect();
        match self {
            Self::Text(file) => {
                let by_name: HashMap<&str, &Produced<'_>> =
                    results.iter().map(|result| (result.variable.name.as_str(), result)).collect();
                let text: String = results.iter().map(|result| result.block(&by_name)).collect();
                files::append(file, text.as_bytes())
                    .map_err(|error| failure(format!("enable_io_txt_dump: {error}")))
            }
            Self::Binary(folder) => results.iter().try_for_each(|result| {
                let path = folder.join(format!("{:06x}", result.number()));
                let write = || {
                    let mut output = Output::create(&path)?;
                    output
                        .write_all(&result.record())
                        .map_err(|source| files::Error::Write { path: path.clone(), source })?;
                    output.commit_unsynced()
                };
                write().map_err(|error: files::Error| failure(format!("enable_io_bin_dump: {error}")))
            }),
        }
    }
}

/// A result as the vendor's library shows it: operators and results are counted together, and nothing is without axes.
struct Produced<'a> {
    index: usize,
    variable: &'a Variable,
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl<'a> Produced<'a> {
    fn of((index, variable): (usize, &'a Variable)) -> Self {
        let value = &variable.value;
        let shape = if value.shape.is_empty() { vec![1] } else { value.shape.to_vec() };
        let values = reals(value.dtype, value.shape, &value.bytes).unwrap_or_default();
        Self { index, variable, shape, values }
    }

    fn number(&self) -> usize {
        2 * self.index + 1
    }

    fn kind(&self) -> &str {
        if self.variable.operator == "Input" { "Host2DeviceCopy" } else { self.variable.operator }
    }

    fn block(&self, by_name: &HashMap<&str, &Produced<'_>>) -> String {
        let (name, kind, number) = (&self.variable.name, self.kind(), self.number());
        let mut lines = vec![
            format!(
                "var{number} produced: name={name} layout={} owner_opr={name}{{{kind}}} opr{}",
                self.layout(),
                2 * self.index
            ),
            " deps:".to_owned(),
        ];
        for (index, name) in self.variable.operands.iter().enumerate() {
            lines.push(match by_name.get(name.as_str()) {
                // A constant is no result of the run.
                None => format!("  [i{index}]var: <{name}> s"),
                Some(operand) => format!("  [i{index}]var{}: {} s", operand.number(), operand.elements()),
            });
        }
        lines.push(format!(" val: {}{} s\n", self.elements(), self.statistics()));
        lines.join("\n")
    }

    fn layout(&self) -> String {
        let stride = |axis: usize| self.shape[axis + 1..].iter().product::<usize>();
        let axes: Vec<String> = self
            .shape
            .iter()
            .enumerate()
            .map(|(axis, extent)| format!("{extent}({})", stride(axis)))
            .collect();
        let dtype = self.variable.value.dtype;
        format!("{{{} {}}}", axes.join(","), known(dtype).map_or(dtype.name(), |(_, name)| name))
    }

    fn elements(&self) -> String {
        let mut shown: Vec<String> = self.values.iter().take(SHOWN).map(|&value| general(value, 4)).collect();
        if self.values.len() > SHOWN {
            shown.push("...".to_owned());
        }
        format!("[{}]", shown.join(", "))
    }

    fn statistics(&self) -> String {
        if self.values.is_empty() {
            return String::new();
        }
        let count = self.values.len() as f64;
        // What is no number is the least and the greatest, too.
        let least = self.values.iter().copied().reduce(|a, b| if a.is_nan() || a < b { a } else { b });
        let most = self.values.iter().copied().reduce(|a, b| if a.is_nan() || a > b { a } else { b });
        let (total, squares) = self
            .values
            .iter()
            .fold((0.0, 0.0), |(total, squares), &value| (total + value, squares + value * value));
        let spread = if self.values.len() == 1 {
            "N/A".to_owned()
        } else {
            let variance = (squares * count - total * total) / (count * (count - 1.0));
            general(if variance.is_finite() { variance.max(0.0).sqrt() } else { variance }, 3)
        };
        format!(
            "min={} max={} mean={} l2={} sd={spread}",
            general(least.unwrap_or_default(), 3),
            general(most.unwrap_or_default(), 3),
            general(total / count, 3),
            general((squares / count).sqrt(), 3),
        )
    }

    /// The result as the vendor's tools read it: sizes, element type, extents, name, elements.
    fn record(&self) -> Vec<u8> {
        let Variable { name, operands, value, .. } = self.variable;
        let name = format!("var={name} owner_opr={} owner_opr_inputs={}", self.kind(), operands.join(","));
        let name = ascii(&name);
        // What the library has no number for becomes what comes closest.
        let (number, elements) = match (known(value.dtype), value.dtype) {
            (Some((number, _)), _) => (number, value.bytes.clone()),
            (None, DType::I64 | DType::U64 | DType::U32) => {
                (4, self.values.iter().flat_map(|&value| (value as i64 as i32).to_le_bytes()).collect())
            }
            _ => (0, self.values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect()),
        };
        let mut shape = self.shape.clone();
        if shape.len() > MAX_DIMS {
            let lead = shape.drain(..=shape.len() - MAX_DIMS).product();
            shape.insert(0, lead);
        }
        shape.resize(MAX_DIMS, 0);
        let header = [name.len(), number as usize, MAX_DIMS].into_iter().chain(shape);
        let mut record: Vec<u8> = header.flat_map(|number| (number as u32).to_le_bytes()).collect();
        record.extend_from_slice(name.as_bytes());
        record.extend(elements);
        record
    }
}

/// A text in letters that the tools read: others are written as numbers.
fn ascii(text: &str) -> String {
    text.chars()
        .map(|letter| match letter as u32 {
            0..0x80 => letter.to_string(),
            code @ 0x80..0x100 => format!("\\x{code:02x}"),
            code @ 0x100..0x1_0000 => format!("\\u{code:04x}"),
            code => format!("\\U{code:08x}"),
        })
        .collect()
}
