//! Convolutions.

use super::super::{View, node::Reader};
use crate::{
    Error, Op, ValueId,
    ops::{AutoPad, Conv, Epilogue, Pad, PadMode, Slice},
};

/// Steps, distances and borders of a window, rows before columns.
pub(in super::super) struct Window {
    pub(in super::super) stride: [usize; 2],
    pub(in super::super) dilation: [usize; 2],
    /// Top, left, bottom, right.
    pub(in super::super) pad: [usize; 4],
}

impl Reader<'_, '_> {
    /// Stride, dilation and padding of a window: rows, columns; top, left, bottom, right.
    pub(in super::super) fn window(&self, rows: bool) -> Result<Window, Error> {
        let vertical = |key: &str, default: usize, least: usize| {
            if !rows {
                return Ok(default);
            }
            if least > 0 { self.extent(key, default) } else { self.size(key, default) }
        };
        let stride = [vertical("stride_height", 1, 1)?, self.extent("stride_width", 1)?];
        let dilation = [vertical("dilation_height", 1, 1)?, self.extent("dilation_width", 1)?];
        let pad = [
            vertical("pad_top", 0, 0)?,
            self.size("pad_left", 0)?,
            vertical("pad_bottom", 0, 0)?,
            self.size("pad_right", 0)?,
        ];
        Ok(Window { stride, dilation, pad })
    }
}

/// What lies beyond the borders.
fn padding_mode(node: &Reader<'_, '_>) -> Result<Option<PadMode>, Error> {
    let names = [
        ("ZEROS", Some(None)),
        ("REFLECT", Some(Some(PadMode::Reflect))),
        ("REPLICATE", Some(Some(PadMode::Edge))),
        ("CIRCULAR", None),
    ];
    node.choice("padding_mode", Some(None), &names)?.ok_or_else(|| node.unsupported("padding_mode CIRCULAR"))
}

/// x ∗ w + b over images.
pub(in super::super) fn conv2d(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let y = node.result(0)?;
    let x = node.operand(0)?;
    let open = node.in_floats(x, View::Open)?;
    let result = conv(node, open, "OIHW", true)?;
    node.define(y, View::Open, result)
}

/// x ∗ w + b over rows.
pub(in super::super) fn conv1d(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let y = node.result(0)?;
    let x = node.operand(0)?;
    let open = node.in_floats(x, View::Open)?;
    let lifted = lift(node, x, open)?;
    let result = conv(node, lifted, "OIW", false)?;
    let extents = node.typed(y)?.form.open_extents();
    let result = node.reshape(result, &extents)?;
    node.define(y, View::Open, result)
}

/// (N, C, L) as (N, C, 1, L).
pub(in super::super) fn lift(
    node: &mut Reader<'_, '_>,
    index: usize,
    open: ValueId,
) -> Result<ValueId, Error> {
    let mut extents = node.typed(index)?.form.open_extents();
    if extents.len() != 3 {
        return Err(node.wrong(format!("an operand of {} axes, expected are 3", extents.len())));
    }
    extents.insert(2, Some(1));
    node.reshape(open, &extents)
}

fn conv(node: &mut Reader<'_, '_>, x: ValueId, names: &str, rows: bool) -> Result<ValueId, Error> {
    node.no_cut()?;
    let Window { stride, dilation, mut pad } = node.window(rows)?;
    let groups = node.extent("groups", 1)?;
    let ends = (node.operand(0)?, node.result(0)?);
    let (inputs, outputs) = (node.channel_axis(ends.0)?, node.channel_axis(ends.1)?);
    let weights = node.operand(1)?;
    if !node.is_constant(weights) {
        return Err(node.unsupported("weights that are not constant"));
    }
    let mut found = node.weights(weights, names, ends, (&inputs, &outputs), groups)?;
    if !rows {
        found.dense.taken.insert(2, vec![0]);
    }
    let kernel = node.install(&found)?;
    let mut operands = vec![x, kernel];
    if let Some(bias) = node.optional(2) {
        operands.push(node.bias(bias, &found, ends, &outputs)?);
    }
    if let Some(mode) = padding_mode(node)?
        && pad != [0; 4]
    {
        let [top, left, bottom, right] = pad.map(|amount| amount as i64);
        let pads = node.list("pads", &[0, 0, top, left, 0, 0, bottom, right])?;
        operands[0] = node.emit(Op::Pad(Pad { mode }), &[x, pads])?;
        pad = [0; 4];
    }
    let op = Conv {
        kernel: None,
        stride,
        dilation,
        pad,
        auto_pad: AutoPad::Explicit,
        groups,
        epilogue: Epilogue::default(),
    };
    node.emit(Op::Conv(Box::new(op)), &operands)
}

/// The transposed convolution over images.
pub(in super::super) fn conv_transpose2d(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let x = node.operand(0)?;
    let open = node.in_floats(x, View::Open)?;
    let result = conv_transpose(node, open, "OIHW", true)?;
    let y = node.result(0)?;
    node.define(y, View::Open, result)
}

/// The transposed convolution over rows.
pub(in super::super) fn conv_transpose1d(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let y = node.result(0)?;
    let x = node.operand(0)?;
    let open = node.in_floats(x, View::Open)?;
    let lifted = lift(node, x, open)?;
    let result = conv_transpose(node, lifted, "OIW", false)?;
    let extents = node.typed(y)?.form.open_extents();
    let result = node.reshape(result, &extents)?;
    node.define(y, View::Open, result)
}

/// The transposed convolution as a convolution over the operand with zeros between its elements.
fn conv_transpose(node: &mut Reader<'_, '_>, x: ValueId, names: &str, rows: bool) -> Result<ValueId, Error> {
    let Window { stride, dilation, pad } = node.window(rows)?;
    let more = [if rows { node.size("output_pad_height", 0)? } else { 0 }, node.size("output_pad_width", 0)?];
    let groups = node.extent("groups", 1)?;
    let ends = (node.operand(0)?, node.result(0)?);
    let (inputs, outputs) = (node.channel_axis(ends.0)?, node.channel_axis(ends.1)?);
    let weights = node.operand(1)?;
    if !node.is_constant(weights) {
        return Err(node.unsupported("weights that are not constant"));
    }
    let mut found = node.weights(weights, names, ends, (&inputs, &outputs), groups)?;
    if !rows {
        found.dense.taken.insert(2, vec![0]);
    }
    found.turn();
    let kernel = node.install(&found)?;
    let bias = match node.optional(2) {
        Some(bias) => Some(node.bias(bias, &found, ends, &outputs)?),
        None => None,
    };
    let mut extents = node.typed(ends.0)?.form.open_extents();
    if !rows {
        extents.insert(2, Some(1));
    }
    let known: Option<Vec<usize>> = extents.iter().copied().collect();
    let [n, c, h, w] = known.as_deref().unwrap_or_default()[..] else {
        return Err(node.unsupported("a transposed convolution needs an image of known extents"));
    };
    // Zeros behind each element, rows and columns apart.
    let mut spread = node.reshape(x, &[Some(n), Some(c), Some(h), Some(1), Some(w), Some(1)])?;
    if stride != [1; 2] {
        let mut pads = vec![0_i64; 12];
        (pads[9], pads[11]) = (stride[0] as i64 - 1, stride[1] as i64 - 1);
        let pads = node.list("zeros", &pads)?;
        spread = node.emit(Op::Pad(Pad { mode: PadMode::Constant }), &[spread, pads])?;
    }
    let wide = [h.checked_mul(stride[0]), w.checked_mul(stride[1])];
    let [Some(rows), Some(columns)] = wide else { return Err(node.unsupported("a stride out of range")) };
    let spread = node.reshape(spread, &[Some(n), Some(c), Some(rows), Some(columns)])?;
    // The last element has no zeros behind it; what the padding cuts may be more than the window adds.
    let taps = found.dense.extents();
    let mut amounts = [0_i64; 4];
    for axis in 0..2 {
        let reach =
            (taps[2 + axis] - 1).checked_mul(dilation[axis]).and_then(|reach| i64::try_from(reach).ok());
        let reach = reach.ok_or_else(|| node.unsupported("a dilation out of range"))?;
        amounts[axis] = reach - pad[axis] as i64;
        amounts[2 + axis] = reach - pad[2 + axis] as i64 + more[axis] as i64 - (stride[axis] as i64 - 1);
    }
    let mut cut = spread;
    if amounts.iter().any(|&amount| amount < 0) {
        let starts = node.list("starts", &[(-amounts[0]).max(0), (-amounts[1]).max(0)])?;
        let ends = [rows as i64 + amounts[2].min(0), columns as i64 + amounts[3].min(0)];
        let ends = node.list("ends", &ends.map(|end| end.max(0)))?;
        let axes = node.list("axes", &[2, 3])?;
        cut = node.emit(Op::Slice(Slice), &[spread, starts, ends, axes])?;
    }
    let pad = amounts.map(|amount| amount.max(0) as usize);
    let op = Conv {
        kernel: None,
        stride: [1; 2],
        dilation,
        pad,
        auto_pad: AutoPad::Explicit,
        groups,
        epilogue: Epilogue::default(),
    };
    let mut operands = vec![cut, kernel];
    operands.extend(bias);
    node.emit(Op::Conv(Box::new(op)), &operands)
}
