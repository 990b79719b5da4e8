//! The attributes of windows that slide over the rows and columns of an image, which convolutions and pools share.

use super::{NodeReader, NodeWriter};
use crate::{
    Error, Op,
    ops::{AutoPad, Squeeze, Unsqueeze, Window},
};

/// A window as a file has it.
pub(super) struct FileWindow {
    pub(super) window: Window,
    /// Whether it runs over one axis only; `window` has a height of 1 then.
    one_axis: bool,
}

pub(super) const AUTO_PADS: [(&str, AutoPad); 4] = [
    ("NOTSET", AutoPad::Explicit),
    ("SAME_UPPER", AutoPad::SameUpper),
    ("SAME_LOWER", AutoPad::SameLower),
    ("VALID", AutoPad::Valid),
];

/// Axes that the node's window runs over; `weights_rank` helps where no attribute tells.
pub(super) fn window_axes(
    node: &mut NodeReader<'_, '_>,
    weights_rank: Option<usize>,
) -> Result<usize, Error> {
    for name in ["kernel_shape", "strides", "dilations"] {
        if let Some(extents) = node.extents(name)? {
            return Ok(extents.len());
        }
    }
    if let Some(axes) = weights_rank.and_then(|rank| rank.checked_sub(2)) {
        return Ok(axes);
    }
    Ok(node.extents("pads")?.map_or(2, |pads| pads.len() / 2))
}

/// Takes the attributes; `weights_rank` helps where there is no `kernel_shape`.
pub(super) fn read_window(
    node: &mut NodeReader<'_, '_>,
    weights_rank: Option<usize>,
) -> Result<FileWindow, Error> {
    let kernel = node.extents("kernel_shape")?;
    let strides = node.extents("strides")?;
    let dilations = node.extents("dilations")?;
    let pads = node.extents("pads")?;
    let auto_pad = node.choice("auto_pad", "NOTSET", &AUTO_PADS)?;
    let axes = window_axes(node, weights_rank)?;
    if !(1..=2).contains(&axes) {
        return Err(node.unsupported(format!("a window over {axes} axes; 1 to 3 are supported")));
    }
    let pair = |values: Option<Vec<usize>>, name: &str, default: Option<usize>| match values {
        None => Ok(default.map(|value| [value; 2])),
        Some(values) if values.len() == axes && values.iter().all(|&value| value > 0) => {
            Ok(Some([if axes == 2 { values[0] } else { 1 }, values[axes - 1]]))
        }
        Some(_) => {
            Err(node.unsupported(format!("attribute '{name}' does not have {axes} positive elements")))
        }
    };
    let kernel = pair(kernel, "kernel_shape", None)?;
    let stride = pair(strides, "strides", Some(1))?.unwrap_or([1; 2]);
    let dilation = pair(dilations, "dilations", Some(1))?.unwrap_or([1; 2]);
    let pad = match pads.as_deref() {
        // Padding given beside an automatic one is noise that old exporters leave.
        _ if auto_pad != AutoPad::Explicit => [0; 4],
        None => [0; 4],
        Some(&[left, right]) if axes == 1 => [0, left, 0, right],
        Some(&[top, left, bottom, right]) if axes == 2 => [top, left, bottom, right],
        Some(_) => {
            return Err(node.unsupported(format!("attribute 'pads' does not have {} elements", 2 * axes)));
        }
    };
    Ok(FileWindow { window: Window { kernel, stride, dilation, pad, auto_pad }, one_axis: axes == 1 })
}

impl FileWindow {
    /// Gives operands 0..`operands` a height of 1 and takes it from the result, when the window runs over one axis.
    pub(super) fn lift(&self, node: &mut NodeReader<'_, '_>, operands: usize) {
        if !self.one_axis {
            return;
        }
        let axes = node.new_ints("axes", &[2]);
        for index in 0..operands {
            let lifted = node.new_value(if index == 0 { "image" } else { "weights" });
            node.emit_before(Op::Unsqueeze(Unsqueeze), &[node.inputs[index], Some(axes)], lifted);
            node.inputs[index] = Some(lifted);
        }
        node.emit_after(Op::Squeeze(Squeeze), &[Some(axes)]);
    }
}

/// Writes the attributes.
pub(super) fn write_window(window: &Window, writer: &mut NodeWriter<'_>) {
    writer.extents("dilations", &window.dilation);
    write_undilated(window, writer);
}

/// Writes the attributes but the dilation.
pub(super) fn write_undilated(window: &Window, writer: &mut NodeWriter<'_>) {
    if let Some(kernel) = window.kernel {
        writer.extents("kernel_shape", &kernel);
    }
    writer.extents("strides", &window.stride);
    match window.auto_pad {
        AutoPad::Explicit => writer.extents("pads", &window.pad),
        AutoPad::SameUpper => writer.text("auto_pad", "SAME_UPPER"),
        AutoPad::SameLower => writer.text("auto_pad", "SAME_LOWER"),
        AutoPad::Valid => writer.text("auto_pad", "VALID"),
    }
}
