//! Norm ratios and scales along an axis as text: `@scales([axis=-1]32*0.2,0.5)`.

use std::{
    fmt::{self, Display, Formatter},
    str::FromStr,
};

use super::{ExpScale, Runs, Scale, cursor::Cursor, number::shortest};
use crate::Error;

/// The name before the parentheses of an array of norm ratios.
const NORM_RATIOS: &str = "norm_ratios";
/// The name before the parentheses of plain scales.
const SCALES: &str = "scales";
/// The name before the parentheses of scales m · 2^-exp.
const EXP_SCALES: &str = "exp_scales";

impl<T> Runs<T> {
    /// The values one by one, `None` when there are more than `limit`: counts come from files.
    pub fn expanded(&self, limit: usize) -> Option<Vec<T>>
    where
        T: Clone,
    {
        let total = self.runs.iter().try_fold(0_u64, |sum, &(count, _)| sum.checked_add(count))?;
        if total > limit as u64 {
            return None;
        }
        Some(self.runs.iter().flat_map(|(count, value)| (0..*count).map(|_| value.clone())).collect())
    }

    /// How many values there are.
    pub fn total(&self) -> u64 {
        self.runs.iter().fold(0, |sum: u64, &(count, _)| sum.saturating_add(count))
    }

    /// `values` along `axis`, equal neighbours counted.
    pub fn from_values(axis: i64, values: impl IntoIterator<Item = T>) -> Self
    where
        T: PartialEq,
    {
        let mut runs: Vec<(u64, T)> = Vec::new();
        for value in values {
            match runs.last_mut() {
                Some((count, last)) if *last == value => *count += 1,
                _ => runs.push((1, value)),
            }
        }
        Self { axis, runs }
    }

    /// Reads `@name([axis=-1]32*v,v,…)`, every `v` by `value`.
    fn read(
        what: &'static str,
        name: &str,
        text: &str,
        value: impl Fn(&mut Cursor<'_>) -> Result<T, Error>,
    ) -> Result<Self, Error> {
        let mut cursor = Cursor::new(what, text);
        cursor.take("@");
        cursor.expect(name)?;
        cursor.expect("(")?;
        cursor.expect("[")?;
        cursor.expect("axis=")?;
        let axis = cursor.number(&[']'])?;
        cursor.expect("]")?;
        let mut runs = Vec::new();
        let mut total = 0_u64;
        while !cursor.rest().starts_with(')') {
            if !runs.is_empty() {
                cursor.expect(",")?;
            }
            let end = cursor.rest().find([',', ')']).unwrap_or(cursor.rest().len());
            let count = if cursor.rest()[..end].contains('*') {
                let count: u64 = cursor.number(&['*'])?;
                cursor.expect("*")?;
                count
            } else {
                1
            };
            if count == 0 {
                return Err(cursor.error("a value is repeated 0 times"));
            }
            total = total.checked_add(count).ok_or_else(|| cursor.error("it has too many values"))?;
            runs.push((count, value(&mut cursor)?));
        }
        cursor.expect(")")?;
        cursor.finish()?;
        Ok(Self { axis, runs })
    }

    fn write(&self, name: &str, f: &mut Formatter<'_>, value: impl Fn(&T) -> String) -> fmt::Result {
        write!(f, "@{name}([axis={}]", self.axis)?;
        for (index, (count, item)) in self.runs.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match count {
                1 => write!(f, "{comma}{}", value(item))?,
                _ => write!(f, "{comma}{count}*{}", value(item))?,
            }
        }
        f.write_str(")")
    }
}

impl Runs<f32> {
    /// Reads `@norm_ratios([axis=-1]32*0.2,0.5)`.
    pub fn parse_ratios(text: &str) -> Result<Self, Error> {
        Self::read("list of norm ratios", NORM_RATIOS, text, |cursor| cursor.number(&[',', ')']))
    }

    /// Writes `@norm_ratios([axis=-1]32*0.2,0.5)`.
    pub fn ratios_text(&self) -> String {
        struct Ratios<'a>(&'a Runs<f32>);
        impl Display for Ratios<'_> {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                self.0.write(NORM_RATIOS, f, |&value| shortest(value))
            }
        }
        Ratios(self).to_string()
    }
}

impl FromStr for Scale {
    type Err = Error;

    /// Reads `@scales([axis=-1]0.5,3*0.25)` or `@exp_scales([axis=4]128/21/6.1035156e-05)`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let name = text.trim_start().trim_start_matches('@');
        if name.starts_with(EXP_SCALES) {
            return Runs::read("list of scales", EXP_SCALES, text, |cursor| {
                let m = cursor.number(&['/', ',', ')'])?;
                cursor.expect("/")?;
                let exp = cursor.number(&['/', ',', ')'])?;
                cursor.expect("/")?;
                Ok(ExpScale { m, exp, origin: cursor.number(&[',', ')'])? })
            })
            .map(Self::Exp);
        }
        Runs::read("list of scales", SCALES, text, |cursor| cursor.number(&[',', ')'])).map(Self::Plain)
    }
}

impl Display for Scale {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(runs) => runs.write(SCALES, f, |&value| shortest(value)),
            Self::Exp(runs) => runs.write(EXP_SCALES, f, |scale| {
                format!("{}/{}/{}", scale.m, scale.exp, shortest(scale.origin))
            }),
        }
    }
}
