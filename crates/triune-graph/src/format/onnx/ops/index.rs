//! Choices, elements picked by index, and what depends on data in extent.

use triune_tensor::DType;

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, bare, mistaken, operators,
};
use crate::{
    Error, Op,
    ops::{
        Gather, GatherElements, GatherNd, Hosted, NonMaxSuppression, NonZero, ScatterElements, ScatterKind,
        ScatterNd, TopK, Where,
    },
};

fn gather(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(Op::Gather(Gather { axis: node.axis("axis", 0)? }))
}

fn gather_elements(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(Op::GatherElements(GatherElements { axis: node.axis("axis", 0)? }))
}

fn write_gather(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    match op {
        Op::Gather(Gather { axis }) | Op::GatherElements(GatherElements { axis }) => {
            writer.int("axis", *axis as i64);
            Ok(())
        }
        _ => Err(mistaken(op)),
    }
}

fn gather_nd(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let batch_dims = node.int("batch_dims")?.unwrap_or(0);
    let batch_dims = usize::try_from(batch_dims)
        .map_err(|_| node.unsupported(format!("attribute 'batch_dims' = {batch_dims}")))?;
    Ok(Op::GatherNd(GatherNd { batch_dims }))
}

fn write_gather_nd(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::GatherNd(op) = op else { return Err(mistaken(op)) };
    if op.batch_dims != 0 {
        writer.int("batch_dims", op.batch_dims as i64);
    }
    Ok(())
}

/// What becomes of elements that others are put on, by their names.
const SCATTERS: [(&str, ScatterKind); 5] = [
    ("none", ScatterKind::Set),
    ("add", ScatterKind::Add),
    ("mul", ScatterKind::Mul),
    ("min", ScatterKind::Min),
    ("max", ScatterKind::Max),
];

fn scatter_elements(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let kind = node.choice("reduction", "none", &SCATTERS)?;
    Ok(Op::ScatterElements(ScatterElements { axis: node.axis("axis", 0)?, kind }))
}

fn scatter_nd(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(Op::ScatterNd(ScatterNd { kind: node.choice("reduction", "none", &SCATTERS)? }))
}

fn write_scatter(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let kind = match op {
        Op::ScatterElements(ScatterElements { axis, kind }) => {
            writer.int("axis", *axis as i64);
            kind
        }
        Op::ScatterNd(ScatterNd { kind }) => kind,
        _ => return Err(mistaken(op)),
    };
    if *kind != ScatterKind::Set {
        writer.needs(18);
        writer.choice("reduction", &SCATTERS, kind);
    }
    Ok(())
}

fn top_k(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axis = node.axis("axis", -1)?;
    let largest = node.int("largest")?.unwrap_or(1) != 0;
    let sorted = node.int("sorted")?.unwrap_or(1) != 0;
    if node.since < 10 {
        let k = node.int("k")?.ok_or_else(|| node.unsupported("attribute 'k' is missing"))?;
        let k = node.new_ints("k", &[k]);
        node.set_input(1, k);
    }
    Ok(Op::TopK(TopK { axis, largest, sorted, index_dtype: DType::I64 }))
}

fn write_top_k(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::TopK(op) = op else { return Err(mistaken(op)) };
    if op.index_dtype != DType::I64 {
        return Err(format!("indices of type {} cannot be written as ONNX", op.index_dtype));
    }
    writer.int("axis", op.axis as i64);
    writer.int("largest", i64::from(op.largest));
    writer.int("sorted", i64::from(op.sorted));
    Ok(())
}

fn non_max_suppression(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(NonMaxSuppression { center_point_box: node.flag("center_point_box")? }.into())
}

fn write_non_max_suppression(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Hosted(Hosted::NonMaxSuppression(op)) = op else { return Err(mistaken(op)) };
    writer.int("center_point_box", i64::from(op.center_point_box));
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "Gather": [1, 11, 13] {2, 2, 1 => gather} write write_gather;
    "GatherElements": [11, 13] {2, 2, 1 => gather_elements} write write_gather;
    "GatherND": [11, 12, 13] {2, 2, 1 => gather_nd} write write_gather_nd;
    "NonMaxSuppression": [10, 11] {2, 5, 1 => non_max_suppression} write write_non_max_suppression;
    "NonZero": [9, 13] {1, 1, 1 => |_| Ok(NonZero.into())} write bare;
    "Scatter": [9, 11] {3, 3, 1 => scatter_elements};
    "ScatterElements": [11, 13, 16, 18] {3, 3, 1 => scatter_elements} write write_scatter;
    "ScatterND": [11, 13, 16, 18] {3, 3, 1 => scatter_nd} write write_scatter;
    "TopK": [1] {1, 1, 2 => top_k} [10, 11, 24] {2, 2, 2 => top_k} write write_top_k;
    "Where": [9, 16] {3, 3, 1 => |_| Ok(Op::Where(Where))} write bare;
}
