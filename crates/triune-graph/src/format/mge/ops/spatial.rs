//! Windows other than those that the graph has an operator for: transposed convolutions, those of volumes and of weights that
//! differ from place to place, and windows taken apart.

use triune_tensor::{DType, text::List};

use super::{
    conv::real,
    convert::quantize,
    kind,
    layout::{self, layouts},
};
use crate::{
    Error, ValueId,
    format::mge::node::{NodeReader, Params},
    functions::{
        Scope,
        transposed::{self, Transposed},
        volume::{self, Attributes},
    },
    ops::{AutoPad, Op, Pad, PadMode},
};

/// Most taps of a window that is taken apart: each is an operator of its own.
const MOST_TAPS: usize = 1024;
/// Products of two bytes around 0 whose sum is exact in f32, in whatever order.
const EXACT: usize = (1 << 24) / (128 * 128);

/// Numbers of `axes` slots from `first` on.
fn list(params: &Params<'_>, first: usize, axes: usize, default: u32) -> Result<Vec<usize>, Error> {
    (first..first + axes).map(|slot| params.u32(slot, default).map(|value| value as usize)).collect()
}

/// The attributes of a window over `axes` axes: padding, steps and dilation, one behind the other from slot 1 on.
fn attributes(params: &Params<'_>, axes: usize) -> Result<Attributes, Error> {
    let pads = list(params, 1, axes, 0)?;
    Ok(Attributes {
        kernel: None,
        strides: Some(list(params, 1 + axes, axes, 1)?),
        dilations: Some(list(params, 1 + 2 * axes, axes, 1)?),
        pads: Some([pads.clone(), pads].concat()),
        auto_pad: AutoPad::Explicit,
        ceil_mode: false,
    })
}

/// Weights (G, O/G, I/G, …) of groups, or (O, I, …), as (O, I/G, …), with G.
fn ungrouped(
    node: &mut NodeReader<'_, '_, '_>,
    grouped: bool,
    weights: ValueId,
) -> Result<(ValueId, usize), Error> {
    if !grouped {
        return Ok((weights, 1));
    }
    let shape = node.shape(weights)?;
    let [groups, outputs, rest @ ..] = &*shape else {
        return Err(node.unsupported(format!("weights of extents {shape} in groups")));
    };
    let outputs = groups.checked_mul(*outputs).ok_or_else(|| node.unsupported("too many weights"))?;
    let dims: Vec<i64> = [&[outputs], rest].concat().iter().map(|&dim| dim as i64).collect();
    Ok((node.reshaped(weights, &dims)?, *groups))
}

/// A file's groups and mode, where its parameters have them.
fn grouped(node: &NodeReader<'_, '_, '_>, params: &Params<'_>, sparse: usize) -> Result<bool, Error> {
    if params.u32(0, 0)? != 0 {
        return Err(node.unsupported("a window whose taps are the other way round"));
    }
    match params.u32(sparse, 0)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(node.unsupported(format!("sparsity {other}"))),
    }
}

/// A convolution over volumes.
pub(in super::super) fn conv3d(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::CONVOLUTION_3D)?;
    let grouped = grouped(node, &params, 10)?;
    if params.u32(12, 0)? != 0 {
        return Err(node.unsupported("volumes whose channels come last"));
    }
    let attributes = attributes(&params, 3)?;
    let (x, weights) = (node.input(0)?, node.input(1)?);
    let (weights, groups) = ungrouped(node, grouped, weights)?;
    node.function(&[x, weights], &[], move |f| volume::conv(f, &attributes, groups))
}

/// The transposed convolution over volumes; operands weights, x, and optionally what has the result's extents.
pub(in super::super) fn deconv3d(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::CONVOLUTION_3D)?;
    let grouped = grouped(node, &params, 10)?;
    if params.u32(12, 0)? != 0 {
        return Err(node.unsupported("volumes whose channels come last"));
    }
    let attributes = attributes(&params, 3)?;
    let (weights, x) = (node.input(0)?, node.input(1)?);
    let (weights, groups) = ungrouped(node, grouped, weights)?;
    transposed(node, x, weights, attributes, groups)
}

/// The transposed convolution; operands weights, x, and optionally what has the result's extents.
pub(in super::super) fn deconv(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::CONVOLUTION)?;
    let grouped = grouped(node, &params, 7)?;
    let format = params.u32(8, 0)?;
    let attributes = attributes(&params, 2)?;
    let [from, to] = layouts(node, format)?;
    let (weights, x) = (node.input(0)?, node.input(1)?);
    let x = node.planes(x, from)?;
    let (weights, groups) = layout::weights(node, format, grouped, false, weights)?;
    let y = match (node.quant(x), node.quant(weights)) {
        (Some(own), Some(other)) => {
            let Some(element) = node.output_element()? else {
                return Err(node.unsupported("quantized inputs without an output type"));
            };
            let Some(target) = element.quant else {
                return Err(node.unsupported("quantized inputs without a quantized output type"));
            };
            if own.zero_point != 0 || other.zero_point != 0 {
                return Err(node.unsupported("quantized inputs whose 0 is not the integer 0"));
            }
            let extents = node.shape(weights)?;
            let taps = extents[2..]
                .iter()
                .try_fold(extents[0] / groups.max(1), |taps, &extent| taps.checked_mul(extent));
            if taps.is_none_or(|taps| taps > EXACT) {
                return Err(node.unsupported(format!("sums of more than {EXACT} products of bytes")));
            }
            // Integers in f32, whose sums are exact.
            let (x, weights) = (node.cast(x, DType::F32)?, node.cast(weights, DType::F32)?);
            let sums = transposed(node, x, weights, attributes, groups)?;
            let scale = node.scalar(own.scale * other.scale);
            let reals = node.binary(crate::ops::BinaryKind::Mul, sums, scale)?;
            quantize(node, reals, element, target)?
        }
        (None, None) => transposed(node, x, weights, attributes, groups)?,
        _ => {
            let (x, weights) = (real(node, x)?, real(node, weights)?);
            transposed(node, x, weights, attributes, groups)?
        }
    };
    node.laid_out(y, to)
}

fn transposed(
    node: &mut NodeReader<'_, '_, '_>,
    x: ValueId,
    weights: ValueId,
    attributes: Attributes,
    groups: usize,
) -> Result<ValueId, Error> {
    let op = Transposed { attributes, more: None, requested: None, groups };
    let mut inputs = vec![x, weights];
    inputs.extend(node.inputs.get(2));
    node.function(&inputs, &[], move |f| {
        let (x, weights) = (f.input(0)?, f.input(1)?);
        let mut op = op.clone();
        if let Some(like) = f.get(2) {
            // What is asked for more than the smallest result comes behind.
            let (own, taps, requested) = (f.shape(x), f.shape(weights), f.shape(like));
            let lists = [&op.attributes.strides, &op.attributes.dilations, &op.attributes.pads];
            let [Some(strides), Some(dilations), Some(pads)] = lists.map(Option::as_ref) else {
                return Err(f.wrong("a window without attributes"));
            };
            let mut more = Vec::new();
            for axis in 0..strides.len() {
                let (Some(&extent), Some(&kernel), Some(&requested)) =
                    (own.get(2 + axis), taps.get(2 + axis), requested.get(2 + axis))
                else {
                    return Err(f.wrong(format!("extents {requested} are asked of {own}")));
                };
                let span = |steps: usize, step: usize| steps.saturating_sub(1).saturating_mul(step);
                let full = span(extent, strides[axis])
                    .saturating_add(span(kernel, dilations[axis]))
                    .saturating_add(1);
                let rest = requested.saturating_add(2 * pads[axis]).checked_sub(full);
                more.push(rest.ok_or_else(|| {
                    f.wrong(format!("extent {requested} is asked for, at least {full} comes out"))
                })?);
            }
            op.more = Some(more);
        }
        op.over(f, x, weights, None)
    })
}

/// A window as files of the operators below have it: slots for padding, steps, dilation and extents.
#[derive(Clone, Copy)]
struct Window {
    pad: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    kernel: [usize; 2],
}

impl Window {
    fn read(node: &NodeReader<'_, '_, '_>, params: &Params<'_>, first: usize) -> Result<Self, Error> {
        let window = Self {
            pad: params.pair(first, 0)?,
            stride: params.pair(first + 2, 1)?,
            dilation: params.pair(first + 4, 1)?,
            kernel: params.pair(first + 6, 3)?,
        };
        window.check(node)?;
        Ok(window)
    }

    fn check(self, node: &NodeReader<'_, '_, '_>) -> Result<(), Error> {
        let taps = self.kernel[0].checked_mul(self.kernel[1]);
        if self.stride.contains(&0)
            || self.dilation.contains(&0)
            || taps.is_none_or(|taps| taps == 0 || taps > MOST_TAPS)
        {
            let [rows, columns] = self.kernel;
            return Err(node.unsupported(format!("a window of {rows} × {columns}, or a step of 0")));
        }
        Ok(())
    }

    /// Places along an axis of `extent` elements.
    fn places(self, f: &Scope<'_, '_>, axis: usize, extent: usize) -> Result<usize, Error> {
        let reach =
            (self.kernel[axis] - 1).checked_mul(self.dilation[axis]).and_then(|reach| reach.checked_add(1));
        let room = self.pad[axis].checked_mul(2).and_then(|pad| pad.checked_add(extent));
        match (room, reach) {
            (Some(room), Some(reach)) if room >= reach => Ok((room - reach) / self.stride[axis] + 1),
            _ => Err(f.wrong(format!("a window of {} does not fit {extent} elements", self.kernel[axis]))),
        }
    }

    /// The elements under each tap: (N, C, rows, columns) per tap.
    fn taps(self, f: &mut Scope<'_, '_>, x: ValueId) -> Result<Vec<ValueId>, Error> {
        let shape = f.shape(x);
        if shape.rank() != 4 {
            return Err(f.wrong(format!("input {shape}; 4 axes are expected")));
        }
        let places = [self.places(f, 0, shape[2])?, self.places(f, 1, shape[3])?];
        let [h, w] = self.pad.map(|pad| pad as i64);
        let pads = f.list(&[0, 0, h, w, 0, 0, h, w]);
        let zero = f.scalar_like(0.0, x);
        let padded = f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[x, pads, zero])?;
        let mut taps = Vec::new();
        for row in 0..self.kernel[0] {
            for column in 0..self.kernel[1] {
                let mut part = padded;
                for (axis, tap) in [row, column].into_iter().enumerate() {
                    let from = (tap * self.dilation[axis]) as i64;
                    let to = from + ((places[axis] - 1) * self.stride[axis]) as i64 + 1;
                    part = f.slice_by(part, 2 + axis, from, to, self.stride[axis] as i64)?;
                }
                taps.push(part);
            }
        }
        Ok(taps)
    }
}

/// The elements under a window at each of its places: (N, C, rows, columns, window's rows, window's columns).
pub(in super::super) fn apart(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::IMAGES_2_NEIBS)?;
    let window = Window::read(node, &params, 0)?;
    let x = node.input(0)?;
    node.function(&[x], &[], move |f| {
        let taps = window.taps(f, f.input(0)?)?;
        let mut parts = Vec::with_capacity(taps.len());
        let shape = f.shape(taps[0]);
        let last = [&*shape, &[1]].concat();
        for tap in taps {
            parts.push(f.reshape(tap, &last)?);
        }
        let all = f.concat(&parts, 4)?;
        f.reshape(all, &[&*shape, &window.kernel].concat())
    })
}

/// Windows put back: every element of the result is the sum of those that were taken from there.
pub(in super::super) fn together(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::SLIDING_WINDOW_TRANSPOSE)?;
    let out = params.pair(0, 0)?;
    let window = Window::read(node, &params, 2)?;
    let x = node.input(0)?;
    node.function(&[x], &[], move |f| {
        let x = f.input(0)?;
        let shape = f.shape(x);
        let &[n, channels, rows, columns, kh, kw] = &*shape else {
            return Err(f.wrong(format!("input {shape}; 6 axes are expected")));
        };
        let places = [window.places(f, 0, out[0])?, window.places(f, 1, out[1])?];
        if [rows, columns] != places || [kh, kw] != window.kernel {
            return Err(f.wrong(format!(
                "input {shape}; places {} of windows {} are expected",
                List(&places),
                List(&window.kernel)
            )));
        }
        let extents = [0, 1].map(|axis| out[axis] + 2 * window.pad[axis]);
        let mut sum = None;
        for row in 0..kh {
            for column in 0..kw {
                let mut part = f.slice(x, 4, row as i64, row as i64 + 1)?;
                part = f.slice(part, 5, column as i64, column as i64 + 1)?;
                part = f.reshape(part, &[n, channels, rows, columns])?;
                let mut pads = vec![0; 8];
                for (axis, tap) in [row, column].into_iter().enumerate() {
                    part = transposed::with_zeros(f, part, 2 + axis, window.stride[axis])?;
                    let own = f.shape(part)[2 + axis] as i64;
                    let first = (tap * window.dilation[axis]) as i64;
                    pads[2 + axis] = first;
                    pads[6 + axis] = extents[axis] as i64 - first - own;
                }
                let pads = f.list(&pads);
                let zero = f.scalar_like(0.0, part);
                // What is cut off behind are the zeros that were put behind the last element.
                let part = f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[part, pads, zero])?;
                sum = Some(match sum {
                    Some(sum) => f.add(sum, part)?,
                    None => part,
                });
            }
        }
        let mut sum = sum.ok_or_else(|| f.wrong("a window without taps"))?;
        for (axis, (&pad, &extent)) in window.pad.iter().zip(&out).enumerate() {
            let from = pad as i64;
            sum = f.slice(sum, 2 + axis, from, from + extent as i64)?;
        }
        Ok(sum)
    })
}

/// A convolution with weights of their own at each place: (groups, rows, columns, I/groups, KH, KW, O/groups), or without groups.
pub(in super::super) fn local(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::CONVOLUTION)?;
    if params.u32(0, 0)? != 0 || params.u32(8, 0)? != 0 {
        return Err(node.unsupported("a window the other way round, or images that are not in planes"));
    }
    let weights = node.input(1)?;
    let shape = node.shape(weights)?;
    let grouped = node.operator.kind.starts_with("Group");
    let [.., kh, kw, _] = *shape else { return Err(node.unsupported(format!("weights of extents {shape}"))) };
    if shape.rank() != 6 + usize::from(grouped) || !node.dtype(weights)?.is_float() {
        return Err(node.unsupported(format!("weights of extents {shape}")));
    }
    let window = Window {
        pad: params.pair(1, 0)?,
        stride: params.pair(3, 1)?,
        dilation: params.pair(5, 1)?,
        kernel: [kh, kw],
    };
    window.check(node)?;
    let x = node.input(0)?;
    node.function(&[x, weights], &[], move |f| {
        let (x, weights) = (f.input(0)?, f.input(1)?);
        let own = f.shape(weights);
        let own = if grouped { own.to_vec() } else { [&[1], &*own].concat() };
        let [groups, rows, columns, inputs, _, _, outputs] = own[..] else {
            return Err(f.wrong("weights of another number of axes"));
        };
        let shape = f.shape(x);
        let taps = window.taps(f, x)?;
        let found = f.shape(taps[0]);
        if shape[1] != groups * inputs || found[2..] != [rows, columns] {
            return Err(f.wrong(format!("weights {} over input {shape}", f.shape(weights))));
        }
        let (n, places) = (shape[0], f.product(&[rows, columns])?);
        f.product(&own)?;
        let mut parts = Vec::with_capacity(taps.len());
        for &tap in &taps {
            parts.push(f.reshape(tap, &[n, groups, inputs, 1, places])?);
        }
        let all = f.concat(&parts, 3)?;
        let depth = inputs * taps.len();
        let all = f.reshape(all, &[n, groups, depth, places])?;
        let all = f.transpose(all, &[1, 3, 0, 2])?;
        let weights = f.reshape(weights, &[groups, places, depth, outputs])?;
        let product = f.matmul(all, weights)?;
        let product = f.transpose(product, &[2, 0, 3, 1])?;
        f.reshape(product, &[n, groups * outputs, rows, columns])
    })
}
