//! Transposed convolutions over one to three axes in terms of others.

use super::{
    Scope,
    volume::{Attributes, Window, spatial},
};
use crate::{
    Error, Op, ValueId,
    ops::{AutoPad, Axis, Pad, PadMode},
};

/// Most phases of a transposed convolution of single channels that are operators of their own.
const MOST_KINDS: usize = 16;

/// A transposed convolution along one axis, whose results come in turns of `stride` phases.
#[derive(Clone, Copy)]
struct Phases {
    extent: usize,
    kernel: usize,
    stride: usize,
    /// Results in front that are cut off; not below 0.
    cut: i64,
    out: usize,
}

impl Default for Phases {
    /// An axis of one element.
    fn default() -> Self {
        Self { extent: 1, kernel: 1, stride: 1, cut: 0, out: 1 }
    }
}

impl Phases {
    /// The window over the operand that makes every phase of the turns that are asked for: result turn·stride + phase is the sum
    /// over taps t of element turn − t times weight phase + t·stride.
    fn window(self) -> Axis {
        let (stride, kernel) = (self.stride as i64, self.kernel.div_ceil(self.stride));
        let (first, last) = (self.cut / stride, (self.cut + self.out as i64 - 1) / stride);
        Axis {
            extent: self.extent,
            kernel,
            stride: 1,
            dilation: 1,
            before: kernel as i64 - 1 - first,
            behind: last + 1 - self.extent as i64,
            out: (last - first + 1) as usize,
        }
    }

    /// The same window for every `stride`th result from `place` on alone, with the phase that makes these, and how many of its first
    /// taps no weight belongs to.
    fn every(self, place: usize) -> (usize, Axis, usize) {
        let from = self.cut as usize + place;
        let (phase, taps) = (from % self.stride, self.kernel.div_ceil(self.stride));
        let own = (self.kernel - phase).div_ceil(self.stride);
        let before = own as i64 - 1 - (from / self.stride) as i64;
        let axis = Axis { kernel: own, before, out: self.out.div_ceil(self.stride), ..self.window() };
        (phase, axis, taps - own)
    }
}

/// Whether as many convolutions as there are phases take less time than one with all of them as channels, where some of the taps have
/// no weight: by the vectors of results, each of which has a product for every tap.
fn gains_by_phase([rows, columns]: [Phases; 2], made: usize) -> bool {
    const LANES: usize = 16;
    let kinds = rows.stride * columns.stride;
    let taps = rows.kernel.div_ceil(rows.stride) * columns.kernel.div_ceil(columns.stride);
    let together = (kinds * made).div_ceil(LANES) * taps;
    let apart = made.div_ceil(LANES) * rows.kernel * columns.kernel;
    kinds <= MOST_KINDS
        && rows.kernel >= rows.stride
        && columns.kernel >= columns.stride
        && 5 * apart <= 4 * together
}

/// A transposed convolution. Over reals, of `stride` neighbouring results each is made by its own taps: one convolution makes them
/// as channels, which then take their places. Over integers, and where the taps are dilated, one convolution over the operand with
/// zeros between its elements, the weights turned round.
#[derive(Clone)]
pub(crate) struct Transposed {
    pub(crate) attributes: Attributes,
    /// Elements that come behind the result of the smallest operand with it, per axis.
    pub(crate) more: Option<Vec<usize>>,
    /// The result's extents, where they are asked for.
    pub(crate) requested: Option<Vec<usize>>,
    pub(crate) groups: usize,
}

impl Transposed {
    /// Over x (N, C, …) with weights (C, M/groups, …).
    pub(crate) fn over(
        &self,
        f: &mut Scope<'_, '_>,
        x: ValueId,
        weights: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, Error> {
        let groups = self.groups;
        let (shape, taps) = (f.shape(x), f.shape(weights));
        let extents = spatial(f, &shape)?;
        let axes = extents.len();
        if taps.rank() != shape.rank() || taps[0] != shape[1] || !taps[0].is_multiple_of(self.groups) {
            return Err(f.wrong(format!("weights {taps} in {groups} groups do not fit the input {shape}")));
        }
        let wrong = || f.wrong(format!("the window's attributes do not fit {axes} axes"));
        let lists = [&self.attributes.strides, &self.attributes.dilations, &self.more].map(Option::as_ref);
        if lists.into_iter().flatten().any(|list| list.len() != axes)
            || self.attributes.pads.as_ref().is_some_and(|pads| pads.len() != 2 * axes)
            || self.attributes.kernel.as_ref().is_some_and(|kernel| kernel[..] != taps[2..])
            || taps[2..].contains(&0)
            || !(1..=3).contains(&axes)
        {
            return Err(wrong());
        }
        let requested = match &self.requested {
            // The batch and the channels may stand before the extents.
            Some(requested) if requested.len() >= axes => Some(&requested[requested.len() - axes..]),
            Some(_) => return Err(wrong()),
            None => None,
        };
        let mut window = Window { axes: [Axis::ONE; 3], own: axes };
        let mut strides = Vec::with_capacity(axes);
        let mut phases = [Phases::default(); 3];
        for index in 0..axes {
            let stride = self.attributes.strides.as_ref().map_or(1, |strides| strides[index]);
            let dilation = self.attributes.dilations.as_ref().map_or(1, |dilations| dilations[index]);
            let more = self.more.as_ref().map_or(0, |more| more[index]) as i64;
            let (extent, kernel) = (extents[index], taps[2 + index]);
            if stride == 0 || dilation == 0 {
                return Err(wrong());
            }
            let reach = (kernel - 1).checked_mul(dilation).ok_or_else(wrong)? as i64;
            let full = ((extent - 1).checked_mul(stride).ok_or_else(wrong)? as i64) + reach + 1 + more;
            let same = matches!(self.attributes.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
            let asked = match requested {
                Some(requested) => Some(requested[index] as i64),
                None if same => Some((extent * stride) as i64),
                None => None,
            };
            let (before, behind) = match asked {
                Some(asked) => {
                    let total = (full - asked).max(0);
                    let small = total / 2;
                    let (before, behind) = match self.attributes.auto_pad {
                        AutoPad::SameUpper => (small, total - small),
                        _ => (total - small, small),
                    };
                    // More than there is comes behind.
                    (before, behind - (asked - full).max(0))
                }
                None if self.attributes.auto_pad == AutoPad::Valid => (0, 0),
                None => self
                    .attributes
                    .pads
                    .as_ref()
                    .map_or((0, 0), |pads| (pads[index] as i64, pads[index + axes] as i64)),
            };
            strides.push(stride);
            let out = usize::try_from(full - before - behind).ok().filter(|out| *out > 0);
            let out = out.ok_or_else(wrong)?;
            phases[3 - axes + index] = Phases { extent, kernel, stride, cut: before, out };
            window.axes[3 - axes + index] = Axis {
                extent: extent * stride,
                kernel,
                stride: 1,
                dilation,
                before: reach - before,
                // The last element has no zeros behind it.
                behind: reach - behind + more - (stride as i64 - 1),
                out,
            };
        }
        let over_reals = f.dtype(x).is_float() && !f.is_dequantized(x);
        // One element, and no border: every tap is a result.
        let is_point = extents.iter().all(|&extent| extent == 1)
            && (phases[3 - axes..].iter().zip(&taps[2..])).all(|(own, &tap)| own.cut == 0 && own.out == tap)
            && window.axes.iter().all(|axis| axis.dilation == 1);
        if is_point && over_reals && groups == 1 {
            let columns = f.product(&taps[1..])?;
            let (rows, matrix) =
                (f.reshape(x, &[shape[0], shape[1]])?, f.reshape(weights, &[taps[0], columns])?);
            let product = f.matmul(rows, matrix)?;
            let result = f.reshape(product, &[&[shape[0]], &taps[1..]].concat())?;
            let Some(bias) = bias else { return Ok(result) };
            let mut each = vec![1; axes + 1];
            each[0] = taps[1];
            let bias = f.reshape(bias, &each)?;
            return f.add(result, bias);
        }
        let [depth, planes @ ..] = phases;
        let windows_abut = depth.stride > 1
            && depth.stride == depth.kernel
            && window.axes[0].dilation == 1
            && depth.cut == 0
            && depth.extent.checked_mul(depth.stride) == Some(depth.out);
        if windows_abut && over_reals {
            return self.slice_by_slice(f, x, weights, bias);
        }
        let apart = planes.iter().any(|own| own.stride > 1)
            && planes.iter().all(|own| own.cut >= 0)
            && window.axes[1..].iter().all(|axis| axis.dilation == 1);
        if apart && over_reals {
            let x = if depth.stride > 1 { with_zeros(f, x, 2, depth.stride)? } else { x };
            window.axes[1..].copy_from_slice(&planes.map(Phases::window));
            return self.by_phases(f, &window, planes, x, weights, bias);
        }
        let mut spread = x;
        for (index, &stride) in strides.iter().enumerate() {
            spread = with_zeros(f, spread, 2 + index, stride)?;
        }
        let weights = turned(f, weights, self.groups)?;
        window.conv(f, spread, weights, bias, self.groups)
    }

    /// Over volumes each of whose slices makes slices of its own: an image each, of which a channel for every slice is made.
    fn slice_by_slice(
        &self,
        f: &mut Scope<'_, '_>,
        x: ValueId,
        weights: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, Error> {
        let (shape, taps, groups) = (f.shape(x), f.shape(weights), self.groups);
        let (images, channels, slices) = (shape[0], shape[1], shape[2]);
        let (made, depth) = (taps[1], taps[2]);
        let behind = |list: &Option<Vec<usize>>| list.as_ref().map(|list| list[list.len() - 2..].to_vec());
        let Attributes { kernel, strides, dilations, pads, auto_pad, ceil_mode } = &self.attributes;
        let planes = Self {
            attributes: Attributes {
                kernel: behind(kernel),
                strides: behind(strides),
                dilations: behind(dilations),
                pads: pads.as_ref().map(|pads| vec![pads[1], pads[2], pads[4], pads[5]]),
                auto_pad: *auto_pad,
                ceil_mode: *ceil_mode,
            },
            more: behind(&self.more),
            requested: behind(&self.requested),
            groups,
        };
        let all = f.product(&[images, slices])?;
        let x = f.transpose(x, &[0, 2, 1, 3, 4])?;
        let x = f.reshape(x, &[all, channels, shape[3], shape[4]])?;
        let weights = f.transpose(weights, &[0, 2, 1, 3, 4])?;
        let each = f.product(&[made, depth])?;
        let weights = f.reshape(weights, &[channels, each, taps[3], taps[4]])?;
        let bias = spread(f, bias, [groups, depth, made])?;
        let result = planes.over(f, x, weights, bias)?;
        let [height, width] = [f.shape(result)[2], f.shape(result)[3]];
        let plane = f.product(&[height, width])?;
        // Turned while it is images, so that their channels, which lie together, are taken apart plane by plane.
        let result = f.transpose(result, &[1, 0, 2, 3])?;
        let result = f.reshape(result, &[groups, depth, made, images, slices, plane])?;
        let result = f.transpose(result, &[3, 0, 2, 4, 1, 5])?;
        f.reshape(result, &[images, groups * made, slices * depth, height, width])
    }

    /// One convolution with a channel for each phase of rows and columns, and these put where they belong. `window` is over the
    /// operand as it is.
    fn by_phases(
        &self,
        f: &mut Scope<'_, '_>,
        window: &Window,
        [rows, columns]: [Phases; 2],
        x: ValueId,
        weights: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, Error> {
        let (groups, shape) = (self.groups, f.shape(weights));
        let (own, made) = (shape[0] / groups, shape[1]);
        let phases = [rows.stride, columns.stride].into_iter().try_fold(made, usize::checked_mul);
        let channels = f.bounded(phases.and_then(|phases| phases.checked_mul(groups)))?;
        let [depth, taps @ ..] = window.axes.map(|axis| axis.kernel);
        // As many taps for every phase, some of them 0.
        let whole = [(rows, taps[0]), (columns, taps[1])].map(|(own, taps)| own.stride * taps);
        let mut turned = f.reshape(weights, &[shape[0], made, depth, rows.kernel, columns.kernel])?;
        if depth > 1 {
            turned = f.slice_by(turned, 2, -1, i64::MIN, -1)?;
        }
        let behind = [whole[0] - rows.kernel, whole[1] - columns.kernel].map(|zeros| zeros as i64);
        if behind != [0, 0] {
            let pads = f.list(&[0, 0, 0, 0, 0, 0, 0, 0, behind[0], behind[1]]);
            turned = f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[turned, pads])?;
        }
        let split = [groups, own, made, depth, taps[0], rows.stride, taps[1], columns.stride];
        turned = f.reshape(turned, &split)?;
        for (axis, taps) in [(4, taps[0]), (6, taps[1])] {
            if taps > 1 {
                turned = f.slice_by(turned, axis, -1, i64::MIN, -1)?;
            }
        }
        // The phases to the front, then what is made before what is read: one by one, since a copy has six axes.
        let (window_rows, window_columns) = (own * made * depth * taps[0], taps[1] * columns.stride);
        turned = f.reshape(turned, &[groups, window_rows, rows.stride, window_columns])?;
        turned = f.transpose(turned, &[0, 2, 1, 3])?;
        turned = f.reshape(turned, &[groups * rows.stride, window_rows * taps[1], columns.stride])?;
        turned = f.transpose(turned, &[0, 2, 1])?;
        let phases = groups * rows.stride * columns.stride;
        let [images, kinds] = [f.shape(x)[0], rows.stride * columns.stride];
        let [slices, height, width] = window.axes.map(|axis| axis.out);
        if groups > 1 && own == 1 && made == 1 && slices == 1 && depth == 1 && kinds <= MOST_KINDS {
            // A channel of its own for each: as many convolutions with one result per channel are faster than one with several.
            turned = f.reshape(turned, &[groups, kinds, taps[0], taps[1]])?;
            let mut results = Vec::with_capacity(kinds);
            for kind in 0..kinds {
                let own = f.slice(turned, 1, kind as i64, kind as i64 + 1)?;
                let own = f.reshape(own, &[groups, 1, 1, taps[0], taps[1]])?;
                let result = window.conv(f, x, own, bias, groups)?;
                results.push(f.reshape(result, &[images, groups, height, width])?);
            }
            let result = f.concat(&results, 1)?;
            let parts = [images, rows.stride, columns.stride, groups, height, width];
            let result = f.reshape(result, &parts)?;
            let result = f.transpose(result, &[0, 3, 4, 1, 5, 2])?;
            return cut_out(f, result, window, [rows, columns], [images, groups, 1]);
        }
        turned = f.reshape(turned, &[phases, own, made, depth * taps[0] * taps[1]])?;
        turned = f.transpose(turned, &[0, 2, 1, 3])?;
        turned = f.reshape(turned, &[channels, own, depth, taps[0], taps[1]])?;
        if groups == 1 && slices == 1 && depth == 1 && gains_by_phase([rows, columns], made) {
            let mut results = Vec::with_capacity(kinds);
            for kind in 0..kinds {
                let own = [rows.every(kind / columns.stride), columns.every(kind % columns.stride)];
                let first = ((own[0].0 * columns.stride + own[1].0) * made) as i64;
                let mut weights = f.slice(turned, 0, first, first + made as i64)?;
                let mut axes = window.axes;
                for (index, (_, axis, empty)) in own.into_iter().enumerate() {
                    weights = f.slice(weights, 3 + index, empty as i64, taps[index] as i64)?;
                    axes[1 + index] = axis;
                }
                let window = Window { axes, own: window.own };
                let result = window.conv(f, x, weights, bias, 1)?;
                let [height, width] = [axes[1].out, axes[2].out];
                results.push(f.reshape(result, &[images, made, height, width])?);
            }
            let result = f.concat(&results, 1)?;
            let [height, width] = [f.shape(result)[2], f.shape(result)[3]];
            let parts = [images, rows.stride, columns.stride, made, height, width];
            let result = f.reshape(result, &parts)?;
            let result = f.transpose(result, &[0, 3, 4, 1, 5, 2])?;
            let mut axes = window.axes;
            (axes[1].out, axes[2].out) = (height, width);
            let planes = [rows, columns].map(|own| Phases { cut: 0, ..own });
            return cut_out(f, result, &Window { axes, own: window.own }, planes, [images, made, 1]);
        }
        let bias = spread(f, bias, [groups, kinds, made])?;
        let result = match window.few_points(f, x, turned, bias, groups)? {
            Some(result) => result,
            None => window.conv(f, x, turned, bias, groups)?,
        };
        // (image and group, row's phase, column's phase, channel and depth, rows, columns): each phase goes behind its axis.
        let images = f.shape(result)[0];
        let [slices, height, width] = window.axes.map(|axis| axis.out);
        let result = if slices == 1 && (groups == 1 || images == 1) {
            let parts = [images * groups, rows.stride, columns.stride, made, height, width];
            let result = f.reshape(result, &parts)?;
            f.transpose(result, &[0, 3, 4, 1, 5, 2])?
        } else {
            // In two steps: a copy has six axes, and images and groups, channels and depth need not lie side by side.
            let parts = [images * groups * rows.stride, columns.stride, made * slices * height, width];
            let result = f.reshape(result, &parts)?;
            let result = f.transpose(result, &[0, 2, 3, 1])?;
            let parts = [images * groups, rows.stride, made * slices, height, width * columns.stride];
            let result = f.reshape(result, &parts)?;
            f.transpose(result, &[0, 2, 3, 1, 4])?
        };
        cut_out(f, result, window, [rows, columns], [images, groups * made, slices])
    }
}

/// A bias of each group's channels, `kinds` times for each group.
fn spread(
    f: &mut Scope<'_, '_>,
    bias: Option<ValueId>,
    [groups, kinds, made]: [usize; 3],
) -> Result<Option<ValueId>, Error> {
    let Some(bias) = bias else { return Ok(None) };
    let each = f.reshape(bias, &[groups, 1, made])?;
    let all = f.expand(each, &[groups, kinds, made])?;
    let channels = f.product(&[groups, kinds, made])?;
    Ok(Some(f.reshape(all, &[channels])?))
}

/// What is asked for of the results of all phases, whose axes lie one within the other.
fn cut_out(
    f: &mut Scope<'_, '_>,
    phases: ValueId,
    window: &Window,
    planes: [Phases; 2],
    [images, channels, slices]: [usize; 3],
) -> Result<ValueId, Error> {
    let [_, height, width] = window.axes.map(|axis| axis.out);
    let dims = [images, channels, slices, height * planes[0].stride, width * planes[1].stride];
    let mut result = f.reshape(phases, &dims)?;
    for (axis, own) in [(3, planes[0]), (4, planes[1])] {
        let skipped = own.cut as usize % own.stride;
        if dims[axis] != own.out {
            result = f.slice(result, axis, skipped as i64, (skipped + own.out) as i64)?;
        }
    }
    let dims = f.shape(result);
    f.reshape(result, &[&dims[..2], &dims[5 - window.own..]].concat())
}

/// The operand with `stride` − 1 zeros behind each element along an axis.
pub(crate) fn with_zeros(
    f: &mut Scope<'_, '_>,
    x: ValueId,
    axis: usize,
    stride: usize,
) -> Result<ValueId, Error> {
    if stride == 1 {
        return Ok(x);
    }
    let mut dims = f.shape(x).to_vec();
    let (before, behind) = (dims[..=axis].iter().product(), dims[axis + 1..].iter().product());
    let rows = f.reshape(x, &[before, 1, behind])?;
    let pads = f.list(&[0, 0, 0, 0, stride as i64 - 1, 0]);
    let rows = f.op(Op::Pad(Pad { mode: PadMode::Constant }), &[rows, pads])?;
    dims[axis] = dims[axis].checked_mul(stride).ok_or_else(|| f.wrong(format!("a stride of {stride}")))?;
    f.reshape(rows, &dims)
}

/// Weights (C, M/groups, …) as (M, C/groups, …), their taps the other way round.
fn turned(f: &mut Scope<'_, '_>, weights: ValueId, groups: usize) -> Result<ValueId, Error> {
    let shape = f.shape(weights);
    let mut turned = weights;
    for axis in 2..shape.rank() {
        if shape[axis] > 1 {
            turned = f.slice_by(turned, axis, -1, i64::MIN, -1)?;
        }
    }
    let taps: usize = shape[2..].iter().product();
    turned = f.reshape(turned, &[groups, shape[0] / groups, shape[1], taps])?;
    turned = f.transpose(turned, &[0, 2, 1, 3])?;
    let dims = [&[groups * shape[1], shape[0] / groups], &shape[2..]].concat();
    f.reshape(turned, &dims)
}
