//! Descriptions that do not come with this crate: a user's file, or what a package carries.

use std::fmt;

use toml::Table;
use triune_tensor::text::Name;

use super::{DeviceSpec, Style, schema};
use crate::Error;

/// Most bytes of a description. The longest that comes with this crate has a tenth of it.
pub const MAX_TEXT: u64 = 1 << 16;

/// A description to begin with: a small systolic array with a scratchpad.
pub const TEMPLATE: &str = include_str!("../../specs/template.toml");

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1, where it is known.
    pub line: Option<usize>,
    /// The TOML key, dotted; `toml` if the text is none.
    pub key: String,
    /// What is there, what can be, and the cure.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}: {}", self.key, self.problem),
            None => write!(f, "{}: {}", self.key, self.problem),
        }
    }
}

impl DeviceSpec {
    /// Reads and checks a description.
    ///
    /// # Errors
    /// Everything that is wrong with its keys; or with how they go together, the first thing.
    pub fn read(text: &str) -> Result<Self, Vec<Problem>> {
        let toml = |line, problem: String| vec![Problem { line, key: "toml".into(), problem }];
        if text.len() as u64 > MAX_TEXT {
            return Err(toml(
                None,
                format!("has {} bytes; a description has at most {MAX_TEXT}", text.len()),
            ));
        }
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| schema::line_at(text, span.start));
            toml(line, format!("is not valid: {}", error.message().lines().collect::<Vec<_>>().join("; ")))
        })?;
        Self::from_table(table).map_err(|mut problems| {
            for problem in &mut problems {
                problem.line = schema::line_of(text, &problem.key);
            }
            problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
            problems
        })
    }

    /// The same of a text that was parsed.
    pub(super) fn from_table(table: Table) -> Result<Self, Vec<Problem>> {
        let problems = schema::check(&table);
        if !problems.is_empty() {
            return Err(problems);
        }
        let problem = |key: &str, problem: String| vec![Problem { line: None, key: key.into(), problem }];
        // The schema has said what there is to say of each key.
        let spec: Self =
            table.try_into().map_err(|error: toml::de::Error| problem("toml", error.message().to_owned()))?;
        match spec.validate() {
            Ok(()) => Ok(spec),
            Err(Error::Spec { key, problem: text }) => Err(problem(&key, text)),
            Err(other) => Err(problem("toml", other.to_string())),
        }
    }

    /// Reads and checks the description of a device of one's own. It needs a name of its own, unless it is a copy of the
    /// device that comes with this crate under its name.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn own(text: &str) -> Result<Self, Vec<Problem>> {
        let spec = Self::read(text)?;
        spec.check_name().map_err(|problem| {
            vec![Problem { line: schema::line_of(text, "name"), key: "name".into(), problem }]
        })?;
        Ok(spec)
    }

    /// Whether it is a device that comes with this crate, as it comes.
    pub fn is_builtin(&self) -> bool {
        Self::builtin(&self.name).is_ok_and(|builtin| builtin == *self)
    }

    fn check_name(&self) -> Result<(), String> {
        match Self::builtin(&self.name) {
            Ok(builtin) if builtin == *self => Ok(()),
            Ok(_) => Err(format!(
                "'{}' is a device that comes with Triune, and this one differs from it; give yours a name of its own",
                Name(&self.name)
            )),
            Err(_) => Ok(()),
        }
    }

    /// The text of a description to begin with, under a name of one's own: a device that comes with this crate as it is
    /// written there, or [`TEMPLATE`].
    ///
    /// # Errors
    /// [`Error::Spec`] if there is no such device, or the name is none for a device of one's own.
    pub fn begin(name: &str, like: Option<&str>) -> Result<String, Error> {
        let (text, base) = match like {
            None => (Some(TEMPLATE), Self::from_toml(TEMPLATE)?),
            Some(like) => (Self::builtin_text(like), Self::builtin(like)?),
        };
        let mut spec = base.clone();
        name.clone_into(&mut spec.name);
        spec.description = match like {
            None => base.description.clone(),
            Some(like) => format!("A device like {like}."),
        };
        let wrong = |problems: Vec<Problem>| {
            let problem = problems.into_iter().next().map_or_else(String::new, |problem| problem.problem);
            Error::Spec { key: "name".into(), problem }
        };
        let written = spec.to_toml(Style::Commented);
        let Some(text) = text else {
            Self::own(&written).map_err(wrong)?;
            return Ok(written);
        };
        // The files of this crate say where their figures are from: they stay as they are, but for two lines.
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (key, value) in [("name", &spec.name), ("description", &spec.description)] {
            let first = lines.iter_mut().find(|line| line.starts_with(&format!("{key} = ")));
            if let Some(line) = first {
                *line = format!("{key} = {}", schema::quoted(value));
            }
        }
        let text = lines.join("\n") + "\n";
        Self::own(&text).map_err(wrong)?;
        Ok(text)
    }
}
