//! Strings: which operators take them, and those that are about them.
//!
//! [`crate::Strings`] says how a tensor of strings is one of numbers. Operators that move elements need nothing besides; whatever
//! would calculate with the numbers is refused here.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, learning::ML_DOMAIN, operators};
use crate::{
    Error, Node, Op,
    ops::{CaseChange, Gather, Hosted, Identity, Normalize, StringOp, Unique},
};

/// The element type of strings in files.
pub(in crate::format::onnx) const STRING: i64 = 8;

/// What an operator does with strings.
enum Rule {
    /// Its operands are all strings, and so is the result.
    MovesAll,
    /// These operands are strings, and so are all results.
    Moves(&'static [usize]),
    /// Its operands are all strings, the result is not.
    Reads,
    /// Its reader knows.
    Own,
}

fn rule(domain: &str, operator: &str) -> Option<Rule> {
    if domain == ML_DOMAIN {
        return Some(match operator {
            "ArrayFeatureExtractor" => Rule::Moves(&[0]),
            "CategoryMapper" | "LabelEncoder" | "OneHotEncoder" => Rule::Own,
            _ => return None,
        });
    }
    if domain != DEFAULT_DOMAIN {
        return None;
    }
    Some(match operator {
        "Concat" => Rule::MovesAll,
        "Compress" | "DepthToSpace" | "Expand" | "Flatten" | "Gather" | "GatherElements" | "GatherND"
        | "Identity" | "Reshape" | "ReverseSequence" | "Slice" | "SpaceToDepth" | "Split" | "Squeeze"
        | "Tile" | "Transpose" | "Unsqueeze" => Rule::Moves(&[0]),
        "Pad" | "Scatter" | "ScatterElements" | "ScatterND" => Rule::Moves(&[0, 2]),
        "OneHot" => Rule::Moves(&[2]),
        "Where" => Rule::Moves(&[1, 2]),
        "Equal" | "Shape" | "Size" => Rule::Reads,
        "Cast" | "CastLike" | "StringConcat" | "StringNormalizer" | "StringSplit" | "TfIdfVectorizer"
        | "Unique" => Rule::Own,
        _ => return None,
    })
}

const fn what(strings: bool) -> &'static str {
    if strings { "strings" } else { "numbers" }
}

/// Refuses strings for which the operator has no place, and says of its results that they are strings where it moves some.
pub(in crate::format::onnx) fn settle(node: &mut NodeReader<'_, '_>, domain: &str) -> Result<(), Error> {
    let given: Vec<(usize, bool)> = (0..node.inputs.len())
        .filter(|&index| node.inputs[index].is_some())
        .map(|index| (index, node.is_strings(index)))
        .collect();
    let Some((first, _)) = given.iter().find(|(_, strings)| *strings) else { return Ok(()) };
    let rule = rule(domain, node.op_type);
    let (places, moves) = match rule {
        None => {
            return Err(node.unsupported(format!("input {first} is of strings, and numbers are expected")));
        }
        Some(Rule::Own) => return Ok(()),
        Some(Rule::MovesAll) => (None, true),
        Some(Rule::Moves(places)) => (Some(places), true),
        Some(Rule::Reads) => (None, false),
    };
    for (index, strings) in given {
        let expected = places.is_none_or(|places| places.contains(&index));
        if strings != expected {
            let (got, expected) = (what(strings), what(expected));
            return Err(node.unsupported(format!("input {index} is of {got}, and {expected} are expected")));
        }
    }
    if node.has("reduction") && node.text("reduction", "none")? != "none" {
        return Err(node.unsupported("attribute 'reduction': strings cannot be calculated with"));
    }
    if moves {
        (0..node.outputs.len()).for_each(|index| node.makes_strings(index));
    }
    Ok(())
}

/// Refuses an operand of numbers.
fn expect(node: &NodeReader<'_, '_>, index: usize) -> Result<(), Error> {
    if node.is_strings(index) {
        return Ok(());
    }
    Err(node.unsupported(format!("input {index} is of numbers, and strings are expected")))
}

/// A conversion from strings or into them; `None` where there are neither.
pub(super) fn cast(node: &mut NodeReader<'_, '_>) -> Result<Option<Op>, Error> {
    let strings = node.int("to")? == Some(STRING);
    if !strings && !node.is_strings(0) {
        return Ok(None);
    }
    node.ignore(&["saturate", "round_mode"]);
    if strings {
        return Ok(Some(spelled(node)));
    }
    let to = node.dtype("to")?;
    parsed(node, to).map(Some)
}

/// As [`cast`], into the type of another operand.
pub(super) fn cast_like(node: &mut NodeReader<'_, '_>) -> Result<Option<Op>, Error> {
    let strings = node.is_strings(1);
    if !strings && !node.is_strings(0) {
        return Ok(None);
    }
    node.ignore(&["saturate", "round_mode"]);
    let to = node.dtype_of(1);
    node.inputs.truncate(1);
    if strings { Ok(Some(spelled(node))) } else { parsed(node, to).map(Some) }
}

fn spelled(node: &mut NodeReader<'_, '_>) -> Op {
    node.makes_strings(0);
    if node.is_strings(0) { Op::Identity(Identity) } else { StringOp::Format.into() }
}

fn parsed(node: &NodeReader<'_, '_>, to: Option<DType>) -> Result<Op, Error> {
    let to = to.ok_or_else(|| node.unsupported("the file does not say which numbers strings become"))?;
    if to == DType::Bool || to.is_storage() {
        return Err(node.unsupported(format!("strings cannot be read as {to}")));
    }
    Ok(StringOp::Parse(to).into())
}

fn concat(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    expect(node, 0)?;
    expect(node, 1)?;
    node.makes_strings(0);
    Ok(StringOp::Concat.into())
}

fn split(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    expect(node, 0)?;
    let delimiter = node.text("delimiter", "")?;
    let most = node.int("maxsplit")?;
    let most = most.map(|most| {
        usize::try_from(most).map_err(|_| node.unsupported(format!("attribute 'maxsplit' = {most}")))
    });
    let most = most.transpose()?;
    node.makes_strings(0);
    Ok(StringOp::Split { delimiter: Some(delimiter).filter(|text| !text.is_empty()), most }.into())
}

fn normalizer(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    expect(node, 0)?;
    // Letters are those of Unicode wherever one is.
    node.ignore(&["locale"]);
    let cases = [("NONE", CaseChange::None), ("LOWER", CaseChange::Lower), ("UPPER", CaseChange::Upper)];
    let normalize = Normalize {
        case: node.choice("case_change_action", "NONE", &cases)?,
        stopwords: node.texts("stopwords")?.unwrap_or_default(),
        case_sensitive: node.flag("is_case_sensitive")?,
    };
    node.makes_strings(0);
    Ok(StringOp::Normalize(normalize).into())
}

/// The different ones of strings, in their order: of what stands where in that order, which is taken back in the end.
pub(super) fn unique(node: &mut NodeReader<'_, '_>, unique: Unique) -> Op {
    node.makes_strings(0);
    if unique.sorted {
        let [ranks, table, found] = ["ranks", "table", "found"].map(|name| node.new_value(name));
        let name = node.builder.unique_node_name(format!("{}.ranks", node.name));
        let op = Op::from(StringOp::Ranks);
        let ranked = Node::new(name, op, vec![node.inputs[0]], vec![Some(ranks), Some(table)]);
        node.builder.graph.nodes.push(ranked);
        node.set_input(0, ranks);
        let outer = node.outputs[0].replace(found);
        let name = node.builder.unique_node_name(format!("{}.Gather", node.name));
        let gather = Op::Gather(Gather { axis: 0 });
        node.after.insert(0, Node::new(name, gather, vec![Some(table), Some(found)], vec![outer]));
    }
    Op::Hosted(Hosted::Unique(unique))
}

operators! {
    DEFAULT_DOMAIN;
    "StringConcat": [20] {2, 2, 1 => concat};
    "StringNormalizer": [10] {1, 1, 1 => normalizer};
    "StringSplit": [20] {1, 1, 2 => split};
}
