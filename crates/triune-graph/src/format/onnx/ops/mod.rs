//! The operators of ONNX: one file per family, in which what reads an operator stands beside what writes it.
//!
//! A table at the end of each file says, per operator, every version that ONNX has of it and who reads that: a version holds
//! from the operator set that it is numbered after until the next one. Versions whose texts mean the same share a reader,
//! which asks [`NodeReader::since`] where they differ in form only. A version that is known but not read says why.

mod activation;
mod attention;
mod borrowed;
mod columns;
mod control;
mod conv;
mod cumulative;
mod einsum;
mod elementwise;
mod encoders;
mod few_bits;
mod fused;
mod grid;
mod index;
mod layout;
mod learning;
mod loss;
mod microsoft;
mod microsoft_attention;
mod movement;
mod normalization;
mod pool;
mod preview;
mod product;
mod qlinear;
mod quant;
mod quantized;
mod random;
mod recurrent;
mod reduce;
mod regions;
mod resample;
mod reshape;
mod resize;
mod sequence;
mod signal;
mod statistics;
mod strings;
mod trees;
mod vectors;
mod volume;
mod window;

use std::{collections::HashMap, sync::LazyLock};

use super::{NodeReader, NodeWriter};
use crate::{
    Error, Op,
    ops::{Epilogue, Hosted},
};
pub(super) use encoders::settle_maps;
pub(super) use learning::ML_DOMAIN;
pub(super) use reduce::has_axes_operand;
pub(super) use strings::{STRING, settle as settle_strings};

/// ONNX's own domain, which files also call `ai.onnx`.
pub(super) const DEFAULT_DOMAIN: &str = "";

/// An operator of a domain in all its versions.
pub(super) struct Operator {
    pub(super) domain: &'static str,
    pub(super) name: &'static str,
    /// The versions in groups that are read alike.
    forms: &'static [Form],
    /// Writes the attributes, and says why if ONNX cannot express the operator. The newest form is what gets written.
    pub(super) write: Write,
}

/// Versions of an operator that are read alike.
pub(super) struct Form {
    /// The first operator set of each.
    pub(super) since: &'static [i64],
    pub(super) meaning: Meaning,
}

/// What is known about a form.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    /// How it is read.
    Read(Signature, Read),
    /// Why it is not read.
    Refused(&'static str),
}

/// How many operands and results an operator has.
#[derive(Clone, Copy)]
pub(super) struct Signature {
    /// Fewest and most operands.
    pub(super) inputs: (usize, usize),
    /// Most results.
    pub(super) outputs: usize,
}

/// Makes the operator of a node.
pub(super) type Read = fn(&mut NodeReader<'_, '_>) -> Result<Op, Error>;

/// Writes an operator's attributes.
pub(super) type Write = fn(&Op, &mut NodeWriter<'_>) -> Result<(), String>;

/// Any number of operands or results.
pub(super) const MANY: usize = usize::MAX;

/// A table of operators: the name, then each group of versions with the fewest and most operands, the most results and
/// the reader, or the body of an operator that is made of others and has no attributes, or the reason why there is neither;
/// then the writer.
macro_rules! operators {
    (@form $low:expr, $high:expr, $outputs:expr => body $body:expr $(, deciding $decides:expr)?) => {
        operators!(@form $low, $high, $outputs => |node| {
            Ok(node.function($body)$(.deciding($decides))?.into())
        })
    };
    (@form $low:expr, $high:expr, $outputs:expr => $read:expr) => {
        Meaning::Read(Signature { inputs: ($low, $high), outputs: $outputs }, $read)
    };
    (@form refused $reason:literal) => { Meaning::Refused($reason) };
    (@write) => { |op, _| Err(format!("{} is never written", op.name())) };
    (@write $write:expr) => { $write };
    ($domain:expr; $($name:literal: $([$($since:literal),+] {$($form:tt)+})+ $(write $write:expr)?;)*) => {
        pub(super) const OPERATORS: &[Operator] = &[$(Operator {
            domain: $domain,
            name: $name,
            forms: &[$(Form { since: &[$($since),+], meaning: operators!(@form $($form)+) }),+],
            write: operators!(@write $($write)?),
        }),*];
    };
}
use operators;

/// For operators without attributes.
#[expect(clippy::unnecessary_wraps, reason = "it is one of the writers")]
fn bare(_: &Op, _: &mut NodeWriter<'_>) -> Result<(), String> {
    Ok(())
}

/// The name that an operator has in a file.
pub(super) fn written_name(op: &Op) -> &'static str {
    match op {
        Op::Recurrence(op) => recurrent::name(op.cell),
        // Their newer form has whatever these had.
        Op::Hosted(Hosted::Dictionary(_)) => "LabelEncoder",
        _ => op.name(),
    }
}

/// The domain that an operator has in a file.
pub(super) fn written_domain(op: &Op) -> &'static str {
    match op {
        Op::Hosted(
            Hosted::Trees(_)
            | Hosted::SupportVectors(_)
            | Hosted::Dictionary(_)
            | Hosted::OneHotEncoder(_)
            | Hosted::Maps(_),
        ) => ML_DOMAIN,
        _ => DEFAULT_DOMAIN,
    }
}

/// An error if steps are fused behind the operator: ONNX has none.
fn no_epilogue(epilogue: &Epilogue) -> Result<(), String> {
    if epilogue.post_ops.is_empty() {
        Ok(())
    } else {
        Err("a fused epilogue cannot be written as ONNX".into())
    }
}

/// What a writer says of another operator than its own.
fn mistaken(op: &Op) -> String {
    format!("{} has another's writer", op.name())
}

const FAMILIES: [&[Operator]; 40] = [
    activation::OPERATORS,
    attention::OPERATORS,
    borrowed::OPERATORS,
    columns::OPERATORS,
    control::OPERATORS,
    conv::OPERATORS,
    cumulative::OPERATORS,
    einsum::OPERATORS,
    elementwise::OPERATORS,
    encoders::OPERATORS,
    few_bits::OPERATORS,
    fused::OPERATORS,
    grid::OPERATORS,
    index::OPERATORS,
    layout::OPERATORS,
    learning::OPERATORS,
    loss::OPERATORS,
    microsoft::OPERATORS,
    microsoft_attention::OPERATORS,
    movement::OPERATORS,
    normalization::OPERATORS,
    pool::OPERATORS,
    preview::OPERATORS,
    product::OPERATORS,
    qlinear::OPERATORS,
    quant::OPERATORS,
    quantized::OPERATORS,
    random::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    regions::OPERATORS,
    reshape::OPERATORS,
    resize::OPERATORS,
    sequence::OPERATORS,
    signal::OPERATORS,
    statistics::OPERATORS,
    strings::OPERATORS,
    trees::OPERATORS,
    vectors::OPERATORS,
    volume::OPERATORS,
];

/// All operators, by domain and name.
static BY_NAME: LazyLock<HashMap<(&str, &str), &Operator>> = LazyLock::new(|| {
    let all = FAMILIES.into_iter().flatten();
    all.map(|operator| ((operator.domain, operator.name), operator)).collect()
});

/// The operator that ONNX or a vendor has under this name.
pub(super) fn find(domain: &str, name: &str) -> Option<&'static Operator> {
    BY_NAME.get(&(canonical(domain), name)).copied()
}

/// A domain under the one name that tables have it.
pub(super) fn canonical(domain: &str) -> &str {
    if domain == "ai.onnx" { DEFAULT_DOMAIN } else { domain }
}

impl Operator {
    /// The version that holds in operator set `opset`, and what it means; `None` before the first one.
    pub(super) fn at(&self, opset: i64) -> Option<(i64, Meaning)> {
        let versions =
            self.forms.iter().flat_map(|form| form.since.iter().map(|&since| (since, form.meaning)));
        versions.filter(|(since, _)| *since <= opset).max_by_key(|(since, _)| *since)
    }

    /// The first operator set that has the operator.
    pub(super) fn first(&self) -> i64 {
        self.forms.iter().flat_map(|form| form.since).copied().min().unwrap_or(1)
    }
}

/// A version of an operator that ONNX has, as [`versions`] lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The domain; empty for ONNX's own.
    pub domain: &'static str,
    /// The operator.
    pub operator: &'static str,
    /// The operator set that it holds from.
    pub since: i64,
    /// Why it is not read, if it is not.
    pub refused: Option<&'static str>,
}

/// Every version of every operator that the reader knows, by domain, name and version.
pub fn versions() -> Vec<Version> {
    let version = |operator: &'static Operator, form: &'static Form| {
        let refused = match form.meaning {
            Meaning::Read(..) => None,
            Meaning::Refused(reason) => Some(reason),
        };
        let (domain, name) = (operator.domain, operator.name);
        form.since.iter().map(move |&since| Version { domain, operator: name, since, refused })
    };
    let all = FAMILIES.into_iter().flatten();
    let mut versions: Vec<Version> = all
        .flat_map(|operator| operator.forms.iter().flat_map(move |form| version(operator, form)))
        .collect();
    versions.sort_by_key(|version| (version.domain, version.operator, version.since));
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_stands_once() {
        let versions = versions();
        for pair in versions.windows(2) {
            let key = |version: &Version| (version.domain, version.operator, version.since);
            assert!(key(&pair[0]) < key(&pair[1]), "{:?} {:?}", key(&pair[0]), key(&pair[1]));
        }
        assert_eq!(BY_NAME.len(), FAMILIES.into_iter().map(<[_]>::len).sum::<usize>());
    }

    #[test]
    fn a_version_holds_until_the_next() {
        let clip = find("ai.onnx", "Clip").expect("it is known");
        let since = |opset| clip.at(opset).map(|(since, _)| since);
        assert_eq!([1, 5, 6, 10, 11, 12, 13, 28].map(since), [1, 1, 6, 6, 11, 12, 13, 13].map(Some));
        assert_eq!(find("", "Mish").and_then(|mish| mish.at(17)).map(|(since, _)| since), None);
        assert!(find("", "Relu").is_some_and(|relu| relu.at(0).is_none()));
    }
}
