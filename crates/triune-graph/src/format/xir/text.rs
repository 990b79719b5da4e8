//! The strings inside of a document: number formats, layouts, distributions, places and processors.
//!
//! Every type reads with `str::parse`, with or without the leading `@`, and writes with `Display`.

use std::{
    fmt::{self, Display, Formatter},
    str::FromStr,
};

use super::{Axis, Chip, Fill, Layout, Mem, MergedDistr, Scalar, Section, Target, cursor::Cursor};
use crate::Error;

/// Axis names of a [`Layout`], without the free axis `*`.
const AXES: &str = "NHWDCIOL";

impl FromStr for Scalar {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut cursor = Cursor::new("number format", text);
        cursor.take("@");
        let kind = cursor.until(&['(']);
        let bits = if cursor.take("(") {
            let bits =
                if cursor.rest().starts_with(')') { None } else { Some(cursor.number::<u16>(&[')'])?) };
            cursor.expect(")")?;
            bits
        } else {
            None
        };
        cursor.finish()?;
        let given = |allowed: &[u16]| match bits {
            Some(bits) if allowed.contains(&bits) => Ok(bits),
            Some(bits) => Err(cursor.error(format_args!("there is no {kind} of {bits} bits"))),
            None => Err(cursor.error("the number of bits is missing")),
        };
        let integer = || match bits {
            Some(bits) if (1..=64).contains(&bits) => Ok(bits),
            Some(bits) => Err(cursor.error(format_args!("an integer has 1 to 64 bits, not {bits}"))),
            None => Err(cursor.error("the number of bits is missing")),
        };
        match kind {
            "fp" => Ok(Self::Float(given(&[16, 32, 64])?)),
            "bf" => Ok(Self::BFloat(given(&[16])?)),
            "tf" => Ok(Self::TFloat(given(&[32])?)),
            "sint" => Ok(Self::Signed(integer()?)),
            "uint" => Ok(Self::Unsigned(integer()?)),
            "bool" => match bits {
                None | Some(1 | 8) => Ok(Self::Bool),
                Some(bits) => Err(cursor.error(format_args!("there is no bool of {bits} bits"))),
            },
            "fpe6m9" | "fpe7m8" => match bits {
                None | Some(16) => {
                    let exponent = if kind == "fpe6m9" { 6 } else { 7 };
                    Ok(Self::Split { exponent, mantissa: 15 - exponent, bits: 16 })
                }
                Some(bits) => Err(cursor.error(format_args!("{kind} has 16 bits, not {bits}"))),
            },
            _ => Err(cursor.error("the kinds are fp, bf, tf, fpe6m9, fpe7m8, sint, uint and bool")),
        }
    }
}

impl Display for Scalar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(bits) => write!(f, "@fp({bits})"),
            Self::BFloat(bits) => write!(f, "@bf({bits})"),
            Self::TFloat(bits) => write!(f, "@tf({bits})"),
            Self::Split { exponent, mantissa, bits } => write!(f, "@fpe{exponent}m{mantissa}({bits})"),
            Self::Signed(bits) => write!(f, "@sint({bits})"),
            Self::Unsigned(bits) => write!(f, "@uint({bits})"),
            Self::Bool => f.write_str("@bool"),
        }
    }
}

impl FromStr for Layout {
    type Err = Error;

    /// Reads `@layout(NCHWc32)` or `NCHWc32`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut cursor = Cursor::new("layout", text);
        let wrapped = cursor.take("@layout(") || cursor.take("layout(");
        let names = cursor.until(&[')']);
        if wrapped {
            cursor.expect(")")?;
        }
        cursor.finish()?;
        let mut axes = Vec::new();
        let mut rest = names;
        while let Some(name) = rest.chars().next() {
            rest = &rest[name.len_utf8()..];
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (unit, behind) = rest.split_at(digits);
            rest = behind;
            let split = name.is_ascii_lowercase();
            if name != '*' && !AXES.contains(name.to_ascii_uppercase()) {
                return Err(cursor.error(format_args!("'{name}' is not an axis; the axes are {AXES} and *")));
            }
            let unit = match (split, unit) {
                (false, "") => 0,
                (false, _) => {
                    return Err(cursor.error(format_args!("axis {name} is not split and has no length")));
                }
                (true, unit) => match unit.parse::<u64>() {
                    Ok(unit) if unit > 0 => unit,
                    _ => return Err(cursor.error(format_args!("a length above 0 should follow {name}"))),
                },
            };
            axes.push(Axis { name, unit });
        }
        Ok(Self { axes })
    }
}

/// The layout without `@layout()` round it: `NCHWc32`.
impl Display for Layout {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for axis in &self.axes {
            write!(f, "{}", axis.name)?;
            if axis.unit > 0 {
                write!(f, "{}", axis.unit)?;
            }
        }
        Ok(())
    }
}

impl FromStr for MergedDistr {
    type Err = Error;

    /// Reads `@merged_distr([1, 4]^ZERO:{v:[0, 32), u:[32, 64)})`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut cursor = Cursor::new("distribution of merged axes", text);
        cursor.take("@");
        cursor.expect("merged_distr")?;
        cursor.expect("(")?;
        cursor.expect("[")?;
        let mut axes = Vec::new();
        while !cursor.take("]") {
            if !axes.is_empty() {
                cursor.expect(",")?;
            }
            axes.push(cursor.number(&[',', ']'])?);
        }
        let fill = if cursor.take("^") {
            match cursor.until(&[':']) {
                "ZERO" => Some(Fill::Zero),
                "NONE" => Some(Fill::None),
                other => return Err(cursor.error(format_args!("padding is ZERO or NONE, not '{other}'"))),
            }
        } else {
            None
        };
        cursor.expect(":")?;
        cursor.expect("{")?;
        let mut sections: Vec<Section> = Vec::new();
        while !cursor.take("}") {
            if !sections.is_empty() {
                cursor.expect(",")?;
            }
            let valid = cursor.take("v");
            if !valid {
                cursor.expect("u")?;
            }
            cursor.expect(":")?;
            cursor.expect("[")?;
            let start = cursor.number(&[',', ')'])?;
            cursor.expect(",")?;
            let end = cursor.number(&[')', ']'])?;
            cursor.expect(")")?;
            let before = sections.last().map_or(0, |section| section.end);
            if start != before || end <= start {
                let reason = format_args!("a section [{start}, {end}) cannot follow what ends at {before}");
                return Err(cursor.error(reason));
            }
            sections.push(Section { valid, start, end });
        }
        cursor.expect(")")?;
        cursor.finish()?;
        Ok(Self { axes, fill, sections })
    }
}

impl Display for MergedDistr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes.iter().map(ToString::to_string).collect();
        write!(f, "@merged_distr([{}]", axes.join(", "))?;
        f.write_str(match self.fill {
            None => ":{",
            Some(Fill::Zero) => "^ZERO:{",
            Some(Fill::None) => "^NONE:{",
        })?;
        for (index, Section { valid, start, end }) in self.sections.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            let kind = if *valid { 'v' } else { 'u' };
            write!(f, "{comma}{kind}:[{start}, {end})")?;
        }
        f.write_str("})")
    }
}

impl FromStr for Mem {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut cursor = Cursor::new("place in memory", text);
        cursor.take("@");
        let place = match cursor.until(&['(']) {
            "hostm" => Self::Host,
            kind @ ("ocm" | "etm") => {
                cursor.expect("(")?;
                let address = cursor.number(&[')'])?;
                cursor.expect(")")?;
                if kind == "ocm" { Self::OnChip(address) } else { Self::External(address) }
            }
            "chunk" => {
                cursor.expect("(")?;
                let id = cursor.number(&['@', ')'])?;
                cursor.expect("@")?;
                let offset = cursor.number(&[')'])?;
                cursor.expect(")")?;
                Self::Chunk(id, offset)
            }
            _ => {
                return Err(
                    cursor.error("the places are hostm, ocm(address), etm(address) and chunk(id@offset)")
                );
            }
        };
        cursor.finish()?;
        Ok(place)
    }
}

impl Display for Mem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("@hostm"),
            Self::OnChip(address) => write!(f, "@ocm({address})"),
            Self::External(address) => write!(f, "@etm({address})"),
            Self::Chunk(id, offset) => write!(f, "@chunk({id}@{offset})"),
        }
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut cursor = Cursor::new("compile target", text);
        cursor.take("@");
        let target = match cursor.until(&['(']) {
            "hostt" => Self::Host,
            "fpgat" => Self::Fpga,
            "customt" => Self::Custom,
            "buyit" => Self::Buyi,
            "wolongt" => Self::Wolong,
            "zhuget" => {
                cursor.expect("(")?;
                let chip = match cursor.until(&[')']) {
                    "330" => Chip::Zg330,
                    "340" => Chip::Zg340,
                    "30S" => Chip::Zg30s,
                    other => {
                        let reason = format_args!("the chips are 330, 340 and 30S, not '{other}'");
                        return Err(cursor.error(reason));
                    }
                };
                cursor.expect(")")?;
                Self::Zhuge(chip)
            }
            _ => {
                let kinds = "the targets are hostt, fpgat, customt, buyit, zhuget(chip) and wolongt";
                return Err(cursor.error(kinds));
            }
        };
        cursor.finish()?;
        Ok(target)
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("@hostt"),
            Self::Fpga => f.write_str("@fpgat"),
            Self::Custom => f.write_str("@customt"),
            Self::Buyi => f.write_str("@buyit"),
            Self::Wolong => f.write_str("@wolongt"),
            Self::Zhuge(chip) => write!(f, "@zhuget({chip})"),
        }
    }
}

impl Display for Chip {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zg330 => "330",
            Self::Zg340 => "340",
            Self::Zg30s => "30S",
        })
    }
}
