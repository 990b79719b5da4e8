//! Choices, elements picked by index, and what depends on data in extent.

use triune_tensor::{DType, text::List};

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, bare, mistaken, operators,
    strings,
};
use crate::{
    Error, Op,
    ops::{
        Gather, GatherElements, GatherNd, Hosted, NonMaxSuppression, NonZero, Pad, PadMode, Reshape,
        ScatterElements, ScatterKind, ScatterNd, TopK, Unique, Where,
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

pub(super) fn gather_nd(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
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

/// The elements where a list of truth values holds: those at their positions.
fn compress(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let flat = node.int("axis")?.is_none();
    let axis = node.axis("axis", 0)?;
    let all = node.new_ints("all", &[-1]);
    let reshape = || Op::Reshape(Reshape { allow_zero: false });
    let [found, places] = ["found", "places"].map(|name| node.new_value(name));
    node.emit_before(NonZero.into(), &[node.inputs[1]], found);
    node.emit_before(reshape(), &[Some(found), Some(all)], places);
    if flat {
        let list = node.new_value("list");
        node.emit_before(reshape(), &[node.inputs[0], Some(all)], list);
        node.set_input(0, list);
    }
    node.set_input(1, places);
    Ok(Op::Gather(Gather { axis }))
}

/// The different elements, or parts along an axis, in order or as they come.
fn unique(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let sorted = node.int("sorted")?.unwrap_or(1) != 0;
    let unique = Unique { axis: node.int("axis")?, sorted };
    if node.is_strings(0) { Ok(strings::unique(node, unique)) } else { Ok(unique.into()) }
}

/// Elements put where a pool took them from, among zeros.
fn max_unpool(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let kernel = node.extents("kernel_shape")?;
    let kernel = kernel.ok_or_else(|| node.unsupported("attribute 'kernel_shape' is missing"))?;
    let strides = node.extents("strides")?.unwrap_or_else(|| vec![1; kernel.len()]);
    let pads = node.extents("pads")?.unwrap_or_else(|| vec![0; 2 * kernel.len()]);
    if strides.len() != kernel.len() || pads.len() != 2 * kernel.len() {
        return Err(node.unsupported(format!("attributes that do not fit {} axes", kernel.len())));
    }
    let unpool = node.function(move |f| {
        let (x, places) = (f.input(0)?, f.input(1)?);
        let shape = f.shape(x);
        if shape.rank() != kernel.len() + 2 {
            return Err(f.wrong(format!("a window over {} axes for {shape}", kernel.len())));
        }
        let natural = |axis: usize| {
            let whole =
                shape[axis + 2].checked_sub(1)?.checked_mul(strides[axis])?.checked_add(kernel[axis])?;
            whole.checked_sub(pads[axis])?.checked_sub(pads[axis + kernel.len()])
        };
        let extents = (0..kernel.len()).map(natural).collect::<Option<Vec<_>>>();
        let extents = extents.ok_or_else(|| f.wrong(format!("no extents for {shape}")))?;
        // Positions are counted in the extents that the pool had, whatever is asked for.
        let own = [&shape[..2], &extents].concat();
        let total =
            |dims: &[usize]| dims.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
        let elements = f.bounded(total(&own))?;
        let count = f.bounded(total(&shape))?;
        let zero = f.scalar(0.0, f.dtype(x));
        let zeros = f.expand(zero, &[elements])?;
        let (places, list) = (f.reshape(places, &[count])?, f.reshape(x, &[count])?);
        let put = Op::ScatterElements(ScatterElements { axis: 0, kind: ScatterKind::Set });
        let flat = f.op(put, &[zeros, places, list])?;
        let unpooled = f.reshape(flat, &own)?;
        let Some(asked) = f.ints(2)? else { return Ok(unpooled) };
        // What is asked for beyond that is zeros behind.
        let more = |(&asked, &own): (&i64, &usize)| Some(asked - own as i64).filter(|more| *more >= 0);
        let more = asked.iter().zip(&own).map(more).collect::<Option<Vec<_>>>();
        let more = more.filter(|_| asked.len() == own.len());
        let more = more.ok_or_else(|| f.wrong(format!("extents {} for {}", List(&asked), List(&own))))?;
        if more.iter().all(|&more| more == 0) {
            return Ok(unpooled);
        }
        let pads = f.list(&[vec![0; own.len()], more].concat());
        f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[unpooled, pads])
    });
    Ok(unpool.deciding(&[2]).into())
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
    "Compress": [9, 11, 28] {2, 2, 1 => compress};
    "Gather": [1, 11, 13] {2, 2, 1 => gather} write write_gather;
    "GatherElements": [11, 13] {2, 2, 1 => gather_elements} write write_gather;
    "GatherND": [11, 12, 13] {2, 2, 1 => gather_nd} write write_gather_nd;
    "MaxUnpool": [9, 11, 22] {2, 3, 1 => max_unpool};
    "NonMaxSuppression": [10, 11] {2, 5, 1 => non_max_suppression} write write_non_max_suppression;
    "NonZero": [9, 13] {1, 1, 1 => |_| Ok(NonZero.into())} write bare;
    "Scatter": [9, 11] {3, 3, 1 => scatter_elements};
    "ScatterElements": [11, 13, 16, 18] {3, 3, 1 => scatter_elements} write write_scatter;
    "ScatterND": [11, 13, 16, 18] {3, 3, 1 => scatter_nd} write write_scatter;
    "TopK": [1] {1, 1, 2 => top_k} [10, 11, 24] {2, 2, 2 => top_k} write write_top_k;
    "Unique": [11, 28] {1, 1, 4 => unique};
    "Where": [9, 16] {3, 3, 1 => |_| Ok(Op::Where(Where))} write bare;
}
