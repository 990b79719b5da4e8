//! Operators that move elements without computing on them.

use super::{
    DEFAULT_DOMAIN, Form, MANY, Meaning, NodeReader, NodeWriter, Operator, Signature, bare, mistaken,
    operators,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{Concat, Pad, PadMode, Slice, Split, Transpose},
};

fn transpose(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(Op::Transpose(Transpose { perm: node.extents("perm")?.unwrap_or_default() }))
}

fn write_transpose(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Transpose(op) = op else { return Err(mistaken(op)) };
    if !op.perm.is_empty() {
        writer.extents("perm", &op.perm);
    }
    Ok(())
}

fn concat(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.inputs.iter().any(Option::is_none) {
        return Err(node.unsupported("an input is missing"));
    }
    // The first version joins along axis 1 unless told otherwise.
    if node.since >= 4 && !node.has("axis") {
        return Err(node.unsupported("attribute 'axis' is missing"));
    }
    Ok(Op::Concat(Concat { axis: node.axis("axis", 1)? }))
}

fn write_concat(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Concat(op) = op else { return Err(mistaken(op)) };
    writer.int("axis", op.axis as i64);
    Ok(())
}

fn slice(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 10 {
        for (index, name) in [(1, "starts"), (2, "ends"), (3, "axes")] {
            if let Some(values) = node.ints(name)? {
                let values = node.new_ints(name, &values);
                node.set_input(index, values);
            }
        }
    }
    if node.inputs.len() < 3 || node.inputs[1].is_none() || node.inputs[2].is_none() {
        return Err(node.unsupported("starts or ends are missing"));
    }
    Ok(Op::Slice(Slice))
}

fn split(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 2 && !node.has("axis") {
        return Err(node.unsupported("attribute 'axis' is missing, which has no default before opset 2"));
    }
    let axis = node.axis("axis", 0)?;
    if node.since < 13
        && let Some(sizes) = node.ints("split")?
    {
        let sizes = node.new_ints("split", &sizes);
        node.set_input(1, sizes);
    }
    let outputs = node.outputs.len();
    let parts = node.int("num_outputs")?.map_or(Ok(outputs), usize::try_from);
    if parts != Ok(outputs) {
        return Err(node.unsupported(format!("attribute 'num_outputs', but {outputs} outputs")));
    }
    let given = node.inputs.get(1).is_some_and(Option::is_some);
    Ok(Op::Split(Split { axis, parts: (!given).then_some(outputs) }))
}

fn write_split(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Split(op) = op else { return Err(mistaken(op)) };
    writer.int("axis", op.axis as i64);
    if let Some(parts) = op.parts
        && writer.target >= 18
    {
        writer.int("num_outputs", parts as i64);
    }
    Ok(())
}

const PAD_MODES: [(&str, PadMode); 3] =
    [("constant", PadMode::Constant), ("reflect", PadMode::Reflect), ("edge", PadMode::Edge)];

/// Where the elements of a border come from.
#[derive(Clone, Copy)]
enum Around {
    /// The other side, as often as it takes.
    Wrap,
    /// The outermost element.
    Edge,
    /// A mirror at the outermost element.
    Reflect,
}

impl Around {
    /// The element, of `extent`, that stands at a place before, among, or behind them.
    fn place(self, at: i64, extent: i64) -> i64 {
        match self {
            Self::Wrap => at.rem_euclid(extent.max(1)),
            Self::Edge => at.clamp(0, (extent - 1).max(0)),
            Self::Reflect => {
                let period = (2 * (extent - 1)).max(1);
                let at = at.rem_euclid(period);
                at.min(period - at).min((extent - 1).max(0))
            }
        }
    }
}

/// A border of elements of the input. What is taken away goes first.
fn bordered(f: &mut Scope<'_, '_>, around: Around) -> Result<ValueId, Error> {
    let mut x = f.input(0)?;
    let (pads, axes) = (f.ints(1)?.unwrap_or_default(), f.ints(3)?);
    let amounts = Pad::amounts(f.rank(x), &pads, axes.as_deref());
    let amounts = amounts
        .ok_or_else(|| f.wrong(format!("pads {} for {}", triune_tensor::text::List(&pads), f.shape(x))))?;
    for (axis, &(before, behind)) in amounts.iter().enumerate() {
        let own = f.shape(x)[axis] as i64;
        let (first, end) = (before.min(0).saturating_neg(), own.saturating_add(behind.min(0)));
        if first > end {
            return Err(f.wrong(format!("pads {before} and {behind} of {own} elements")));
        }
        if (before, behind) == (0, 0) {
            continue;
        }
        let (before, behind, extent) = (before.max(0), behind.max(0), end - first);
        let count = extent.checked_add(before).and_then(|count| count.checked_add(behind));
        f.bounded(count.and_then(|count| usize::try_from(count).ok()))?;
        if extent == 0 && before + behind > 0 {
            return Err(f.wrong(format!("axis {axis} has no elements to repeat")));
        }
        if matches!(around, Around::Wrap) && before <= extent && behind <= extent {
            // What is repeated lies together.
            let own = f.slice(x, axis, first, end)?;
            let mut parts = vec![own];
            if before > 0 {
                parts.insert(0, f.slice(own, axis, extent - before, extent)?);
            }
            if behind > 0 {
                parts.push(f.slice(own, axis, 0, behind)?);
            }
            x = f.concat(&parts, axis)?;
            continue;
        }
        let places: Vec<i64> =
            (-before..extent + behind).map(|at| first + around.place(at, extent)).collect();
        let places = f.list(&places);
        x = f.gather(x, axis, places)?;
    }
    Ok(x)
}

pub(super) fn pad(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let wraps = node.since >= 19 && node.text("mode", "constant")? == "wrap";
    if wraps {
        return Ok(node.function(|f| bordered(f, Around::Wrap)).deciding(&[1, 3]).into());
    }
    let mode = node.choice("mode", "constant", &PAD_MODES)?;
    if node.since < 11 {
        let name = if node.since < 2 { "paddings" } else { "pads" };
        if let Some(pads) = node.ints(name)? {
            let pads = node.new_ints("pads", &pads);
            node.set_input(1, pads);
        }
        if let Some(value) = node.maybe_float("value")? {
            let value = node.new_scalar("value", value);
            node.set_input(2, value);
        }
    }
    if node.inputs.get(1).copied().flatten().is_none() {
        return Err(node.unsupported("pads are missing"));
    }
    let around = match mode {
        PadMode::Constant => None,
        PadMode::Edge => Some(Around::Edge),
        PadMode::Reflect => Some(Around::Reflect),
    };
    let negative =
        node.constant(1).and_then(Constant::to_i64).is_some_and(|pads| pads.iter().any(|&pad| pad < 0));
    if let Some(around) = around.filter(|_| negative) {
        return Ok(node.function(move |f| bordered(f, around)).deciding(&[1, 3]).into());
    }
    Ok(Op::Pad(Pad { mode }))
}

fn write_pad(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Pad(op) = op else { return Err(mistaken(op)) };
    writer.choice("mode", &PAD_MODES, &op.mode);
    // Axes of their own came with opset 18.
    if writer.has_input(3) {
        writer.needs(18);
    }
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "Concat": [1, 4, 11, 13] {1, MANY, 1 => concat} write write_concat;
    "Pad": [1, 2] {1, 1, 1 => pad} [11, 13] {2, 3, 1 => pad} [18, 19, 21, 23, 24, 25] {2, 4, 1 => pad}
        write write_pad;
    "Slice": [1] {1, 1, 1 => slice} [10, 11, 13] {3, 5, 1 => slice} write bare;
    "Split": [1] {1, 2, MANY => split} [2, 11] {1, 1, MANY => split} [13, 18] {1, 2, MANY => split}
        write write_split;
    "Transpose": [1, 13, 21, 23, 24, 25] {1, 1, 1 => transpose} write write_transpose;
}
