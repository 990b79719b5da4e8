//! Parts of a command for cores that share it: bands of rows of its results, or some of its output channels.
//!
//! A part is the same command on less, with the window's padding that its rows meet. Parts write results that no other part writes and
//! read what they need of the whole inputs, so that together, in any order, they give the bits of the command.

use std::ops::Range;

use triune_device::{
    Addr, Command, DeviceSpec,
    command::{FeatureMap, Operand, QConv, Resize},
    touches,
};
use triune_tensor::function::{CoordinateMode, NearestMode, ResizeMode};

use crate::cascade::{band, rows_of_one};

/// What a command is cut along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Rows of results: each part needs rows of the inputs, and all weights.
    Rows,
    /// Channels of results: each part needs all of the inputs, and its weights.
    Channels,
}

impl Axis {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Rows, Self::Channels];

    /// The word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Channels => "channels",
        }
    }
}

/// `command` in `count` parts of about the same size; `None` where it cannot be cut so.
pub fn parts(spec: &DeviceSpec, command: &Command, axis: Axis, count: u32) -> Option<Vec<Command>> {
    if count < 2 || in_place(spec, command) {
        return None;
    }
    let units = match axis {
        Axis::Rows => rows(command)?,
        Axis::Channels => channels(command)?.div_ceil(block(spec, command)),
    };
    if units < count {
        return None;
    }
    let at = |part: u32| (u64::from(units) * u64::from(part) / u64::from(count)) as u32;
    let ranges = (0..count).map(|part| at(part)..at(part + 1));
    match axis {
        Axis::Rows => ranges.map(|range| on_rows(command, range)).collect(),
        Axis::Channels => {
            let (all, block) = (channels(command)?, block(spec, command));
            ranges
                .map(|range| on_channels(command, range.start * block..all.min(range.end * block)))
                .collect()
        }
    }
}

/// Whether it writes where it reads: another part could not read that any more.
fn in_place(spec: &DeviceSpec, command: &Command) -> bool {
    let ends = |addr: Addr, bytes: u64| (addr.offset(), addr.offset().saturating_add(bytes));
    let touched: Vec<_> = touches(spec, command).collect();
    touched.iter().filter(|touch| touch.written).any(|made| {
        touched.iter().filter(|touch| !touch.written).any(|read| {
            let (one, other) = (ends(made.addr, made.bytes), ends(read.addr, read.bytes));
            made.addr.segment() == read.addr.segment() && one.0 < other.1 && other.0 < one.1
        })
    })
}

/// The first axis along which there is more than one.
fn outermost(dims: &[u32; 6]) -> usize {
    dims.iter().position(|&extent| extent > 1).unwrap_or(0)
}

/// Rows of results, or whatever else comes first of them.
fn rows(command: &Command) -> Option<u32> {
    Some(match command {
        Command::QConv(c) => c.output.h,
        Command::Pool(c) => c.output.h,
        Command::Resize(c) => c.output.h / per_row(c)?,
        Command::Table(c) => c.output.h,
        Command::Quantize(c) if c.input.n == 1 => c.output.h,
        Command::Dequantize(c) if c.input.n == 1 => c.output.h,
        Command::QAdd(c) => c.dims[outermost(&c.dims)],
        Command::QMul(c) => c.dims[outermost(&c.dims)],
        Command::Copy(c) => c.dims[outermost(&c.dims)],
        Command::Fill(c) => c.dims[outermost(&c.dims)],
        Command::QMatMul(c) if c.batch > 1 => c.batch,
        Command::QMatMul(c) if !c.transpose_a => c.m,
        Command::QSoftmax(c) => c.dims[0],
        Command::QNorm(c) => c.dims[0],
        _ => return None,
    })
}

/// Rows of results that a resampling makes of each row, if it reads no other for them.
fn per_row(resize: &Resize) -> Option<u32> {
    let own = match resize.mode {
        ResizeMode::Nearest(NearestMode::Floor) => resize.coordinates == CoordinateMode::Asymmetric,
        ResizeMode::Nearest(NearestMode::RoundPreferFloor | NearestMode::RoundPreferCeil) => {
            resize.coordinates == CoordinateMode::HalfPixel
        }
        _ => false,
    };
    rows_of_one(resize).filter(|&rows| own && rows > 0)
}

/// Channels of results.
fn channels(command: &Command) -> Option<u32> {
    let (input, output) = match command {
        Command::QConv(c) => (&c.input, &c.output),
        Command::GlobalPool(c) => (&c.input, &c.output),
        _ => return None,
    };
    if let Command::QConv(c) = command
        && c.window.groups > 1
        && c.weight_blocks != [0, 0]
    {
        return None;
    }
    (input.blocks.is_none() && output.blocks.is_none()).then_some(output.c)
}

/// Channels that stay together: those of a block of the device's maps, of a block of weights, and of whole groups.
fn block(spec: &DeviceSpec, command: &Command) -> u32 {
    let own = spec.border.channels.max(1);
    match command {
        Command::QConv(c) => {
            let group = c.output.c / c.window.groups.max(1);
            let step = if c.window.groups > 1 { group.max(1) } else { c.weight_blocks[0].max(1) };
            step.saturating_mul(own.div_ceil(step))
        }
        _ => own,
    }
}

fn ahead(addr: Addr, count: u32, bytes: u64) -> Addr {
    Addr::new(addr.segment(), addr.offset() + u64::from(count) * bytes)
}

/// A command on some of what [`rows`] counts.
fn on_rows(command: &Command, range: Range<u32>) -> Option<Command> {
    let (start, len) = (range.start, range.end - range.start);
    let of_map = |map: FeatureMap| FeatureMap { addr: ahead(map.addr, start, map.stride_h), h: len, ..map };
    let of_operand = |operand: Operand, at: usize| Operand {
        addr: ahead(operand.addr, start, operand.strides[at]),
        ..operand
    };
    Some(match *command {
        Command::QConv(_) | Command::Pool(_) | Command::Table(_) => band(command, &range, None, None)?,
        Command::Resize(ref resize) => {
            let rows = per_row(resize)?;
            band(command, &(start * rows..range.end * rows), None, None)?
        }
        Command::Quantize(mut c) => {
            (c.input, c.output) = (of_map(c.input), of_map(c.output));
            Command::Quantize(c)
        }
        Command::Dequantize(mut c) => {
            (c.input, c.output) = (of_map(c.input), of_map(c.output));
            Command::Dequantize(c)
        }
        Command::QAdd(mut c) => {
            let at = outermost(&c.dims);
            c.dims[at] = len;
            (c.a, c.b, c.output) = (of_operand(c.a, at), of_operand(c.b, at), of_operand(c.output, at));
            Command::QAdd(c)
        }
        Command::QMul(mut c) => {
            let at = outermost(&c.dims);
            c.dims[at] = len;
            (c.a, c.b, c.output) = (of_operand(c.a, at), of_operand(c.b, at), of_operand(c.output, at));
            Command::QMul(c)
        }
        Command::Copy(mut c) => {
            let at = outermost(&c.dims);
            c.dims[at] = len;
            (c.src, c.dst) = (ahead(c.src, start, c.src_strides[at]), ahead(c.dst, start, c.dst_strides[at]));
            Command::Copy(c)
        }
        Command::Fill(mut c) => {
            let at = outermost(&c.dims);
            c.dims[at] = len;
            c.dst = ahead(c.dst, start, c.dst_strides[at]);
            Command::Fill(c)
        }
        Command::QMatMul(mut c) => {
            let [m, n, k] = [c.m, c.n, c.k].map(u64::from);
            if c.batch > 1 {
                c.batch = len;
                (c.a, c.output) = (ahead(c.a, start, m * k), ahead(c.output, start, m * n));
                c.b = if c.shared_b { c.b } else { ahead(c.b, start, k * n) };
            } else {
                c.m = len;
                (c.a, c.output) = (ahead(c.a, start, k), ahead(c.output, start, n));
            }
            Command::QMatMul(c)
        }
        Command::QSoftmax(mut c) => {
            let bytes = u64::from(c.dims[1]) * u64::from(c.dims[2]) * c.dtype.bytes() as u64;
            c.dims[0] = len;
            (c.input, c.output) = (ahead(c.input, start, bytes), ahead(c.output, start, bytes));
            Command::QSoftmax(c)
        }
        Command::QNorm(mut c) => {
            let bytes = u64::from(c.dims[1]) * u64::from(c.dims[2]) * c.dtype.bytes() as u64;
            c.dims[0] = len;
            (c.input, c.output) = (ahead(c.input, start, bytes), ahead(c.output, start, bytes));
            Command::QNorm(c)
        }
        _ => return None,
    })
}

/// A command on some of its output channels.
fn on_channels(command: &Command, range: Range<u32>) -> Option<Command> {
    let of_map = |map: FeatureMap, range: &Range<u32>| FeatureMap {
        addr: ahead(map.addr, range.start, map.dtype.bytes() as u64),
        c: range.end - range.start,
        ..map
    };
    Some(match *command {
        Command::QConv(mut c) => {
            c.weights = ahead(c.weights, range.start, weights_of_channel(&c));
            if c.window.groups > 1 {
                let [inside, outside] = [c.input.c, c.output.c].map(|channels| channels / c.window.groups);
                let groups = range.start / outside..range.end / outside;
                c.window.groups = groups.end - groups.start;
                c.input = of_map(c.input, &(groups.start * inside..groups.end * inside));
            }
            c.bias = c.bias.map(|bias| ahead(bias, range.start, 4));
            if c.multipliers > 1 {
                c.multiplier = ahead(c.multiplier, range.start, 4);
                c.multipliers = range.end - range.start;
            }
            c.residual = c.residual.map(|map| of_map(map, &range));
            c.output = of_map(c.output, &range);
            Command::QConv(c)
        }
        Command::GlobalPool(mut c) => {
            (c.input, c.output) = (of_map(c.input, &range), of_map(c.output, &range));
            Command::GlobalPool(c)
        }
        _ => return None,
    })
}

/// Bytes of the weights of an output channel, of those that [`block`] keeps together.
fn weights_of_channel(conv: &QConv) -> u64 {
    let [rows, columns] = conv.window.kernel.map(u64::from);
    let inputs = u64::from(conv.input.c / conv.window.groups.max(1))
        .next_multiple_of(conv.weight_blocks[1].max(1).into());
    rows * columns * inputs * conv.input.dtype.bytes() as u64
}
