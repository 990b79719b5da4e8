//! Memory layouts of images and weights: what the format has in blocks of channels or channels last is rows of planes
//! in the graph.
//!
//! A variable that the file has as (N, C/b, H, W, b) is a value (N, C, H, W) with a note of b beside it; only what
//! looks at its axes one by one gets the five, by a reshape and a transpose. So conversions between layouts disappear.

use triune_tensor::{Shape, text::List};

use super::kind;
use crate::{
    Constant, Error, ValueId,
    format::mge::node::{NodeReader, Params},
    ops::{Concat, Identity, Op, Pad, PadMode, Reshape, ShapeOf, Slice},
};

/// How an operator's images are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// (N, C, H, W).
    Planes,
    /// (N, H, W, C).
    Pixels,
    /// (N, C/b, H, W, b).
    Blocks(usize),
}

/// Names of formats, by number.
const FORMATS: [&str; 18] = [
    "NCHW",
    "NHWC",
    "NHWCD4",
    "NCHW4",
    "NCHW8",
    "NCHW32",
    "NCHW88",
    "NCHW44",
    "NCHW44_DOT",
    "NCHW4_NCHW32",
    "NCHW32_NCHW4",
    "NCHW4_NCHW",
    "NHWC_NCHW",
    "NHWC_NCHW4_IC_SMALL",
    "NCHW_NCHW4_IC_SMALL",
    "CHWN4",
    "NCHW64",
    "NCHW4_NHWC",
];

/// A format's layouts of the input and of the result.
pub(super) fn layouts(node: &NodeReader<'_, '_, '_>, format: u32) -> Result<[Layout; 2], Error> {
    use Layout::{Blocks, Pixels, Planes};
    Ok(match format {
        0 => [Planes; 2],
        1 => [Pixels; 2],
        4 | 6 => [Blocks(8); 2],
        5 => [Blocks(32); 2],
        3 | 7 | 8 => [Blocks(4); 2],
        9 => [Blocks(4), Blocks(32)],
        10 => [Blocks(32), Blocks(4)],
        11 => [Blocks(4), Planes],
        12 => [Pixels, Planes],
        16 => [Blocks(64); 2],
        17 => [Blocks(4), Pixels],
        other => {
            let name = FORMATS.get(other as usize).map_or_else(|| other.to_string(), |&name| name.into());
            return Err(node.unsupported(format!("format {name}")));
        }
    })
}

/// The layout in `slot` of an operator that does not change it.
pub(super) fn layout(
    node: &NodeReader<'_, '_, '_>,
    params: &Params<'_>,
    slot: usize,
    default: u32,
) -> Result<Layout, Error> {
    let format = params.u32(slot, default)?;
    match layouts(node, format)? {
        [from, to] if from == to => Ok(from),
        _ => Err(node.unsupported(format!("format {}", FORMATS[format as usize]))),
    }
}

impl NodeReader<'_, '_, '_> {
    /// The number of channels in a block, for a variable that the file has in blocks.
    pub(in crate::format::mge) fn blocked(&self, id: ValueId) -> Option<usize> {
        self.builder.blocks.get(&id).copied()
    }

    /// An image of this layout as (N, C, H, W).
    pub(super) fn planes(&mut self, id: ValueId, layout: Layout) -> Result<ValueId, Error> {
        match (layout, self.blocked(id)) {
            (Layout::Blocks(block), Some(own)) if block == own => Ok(id),
            (_, Some(own)) => Err(self.unsupported(format!("an operand in blocks of {own} channels"))),
            (Layout::Planes, None) => Ok(id),
            (Layout::Pixels, None) => self.transposed(id, &[0, 3, 1, 2]),
            (Layout::Blocks(block), None) => self.joined_blocks(id, block),
        }
    }

    /// (N, C, H, W) as an image of this layout.
    pub(super) fn laid_out(&mut self, id: ValueId, layout: Layout) -> Result<ValueId, Error> {
        match layout {
            Layout::Planes => Ok(id),
            Layout::Pixels => self.transposed(id, &[0, 2, 3, 1]),
            Layout::Blocks(block) => {
                self.check_blocks(id, block)?;
                self.builder.blocks.insert(id, block);
                Ok(id)
            }
        }
    }

    /// An error unless the channels of (N, C, H, W) fill blocks.
    fn check_blocks(&self, id: ValueId, block: usize) -> Result<(), Error> {
        let shape = self.shape(id)?;
        if shape.rank() == 4 && shape[1].is_multiple_of(block) {
            return Ok(());
        }
        Err(self.unsupported(format!("extents {shape} in blocks of {block} channels")))
    }

    /// (N, C/b, H, W, b) as (N, C, H, W).
    pub(in crate::format::mge) fn joined_blocks(
        &mut self,
        id: ValueId,
        block: usize,
    ) -> Result<ValueId, Error> {
        let shape = self.shape(id)?;
        let &[images, outer, rows, columns, inner] = &*shape else {
            return Err(self.unsupported(format!("extents {shape} in blocks of {block} channels")));
        };
        if inner != block {
            return Err(self.unsupported(format!("extents {shape} in blocks of {block} channels")));
        }
        if self.constant(id).is_some() {
            return self.rearranged(id, &[0, 1, 4, 2, 3], &[images, outer * inner, rows, columns]);
        }
        let apart = self.transposed(id, &[0, 1, 4, 2, 3])?;
        let front = self.emit(ShapeOf { start: 0, end: Some(1) }, &[id])?;
        let behind = self.emit(ShapeOf { start: 2, end: Some(4) }, &[id])?;
        let open = self.ints("channels", &[-1])?;
        let requested = self.emit(Concat { axis: 0 }, &[front, open, behind])?;
        self.emit_like(Op::Reshape(Reshape { allow_zero: true }), &[apart, requested])
    }

    /// The five axes that the file has of a variable in blocks; anything else as it is.
    pub(in crate::format::mge) fn as_in_file(&mut self, id: ValueId) -> Result<ValueId, Error> {
        let Some(block) = self.blocked(id) else { return Ok(id) };
        self.check_blocks(id, block)?;
        let front = self.emit(ShapeOf { start: 0, end: Some(1) }, &[id])?;
        let behind = self.emit(ShapeOf { start: 2, end: Some(4) }, &[id])?;
        let open = self.ints("blocks", &[-1, block as i64])?;
        let requested = self.emit(Concat { axis: 0 }, &[front, open, behind])?;
        let apart = self.emit_like(Op::Reshape(Reshape { allow_zero: true }), &[id, requested])?;
        self.transposed(apart, &[0, 1, 3, 4, 2])
    }

    /// Readies the operands of an operator that works element by element: all in blocks of one extent become planes,
    /// others keep the axes of the file. Gives that extent.
    pub(in crate::format::mge) fn unblock_alike(&mut self) -> Result<Option<usize>, Error> {
        let mut inputs = self.inputs.clone();
        let blocked = inputs.iter().find_map(|&id| Some((id, self.blocked(id)?)));
        let Some((first, block)) = blocked else { return Ok(None) };
        // One block that is repeated for several is one channel of none.
        let channels = self.shape(first)?[1];
        let mut alike = true;
        for id in &mut inputs {
            let shape = self.shape(*id)?;
            match self.blocked(*id) {
                Some(own) => alike &= own == block && shape[1] == channels,
                None if shape.elements() == Some(1) => *id = self.reshaped(*id, &[1])?,
                None if shape.rank() == 5 && shape[4] == block && shape[1] == channels / block => {
                    *id = self.joined_blocks(*id, block)?;
                }
                None => alike = false,
            }
        }
        if alike {
            self.inputs = inputs;
            return Ok(Some(block));
        }
        for index in 0..self.inputs.len() {
            self.inputs[index] = self.as_in_file(self.inputs[index])?;
        }
        Ok(None)
    }

    /// Axes permuted, then other extents; a constant stays one.
    pub(super) fn rearranged(
        &mut self,
        id: ValueId,
        perm: &[usize],
        dims: &[usize],
    ) -> Result<ValueId, Error> {
        let permuted = self.constant(id).and_then(|constant| constant.permuted(perm));
        if let Some(constant) = permuted {
            let reshaped = Shape::new(dims).and_then(|shape| constant.reshaped(shape));
            let constant = reshaped.ok_or_else(|| self.unsupported(format!("extents {}", List(dims))))?;
            let quant = self.quant(id);
            let id = self.new_constant("planes", constant);
            self.builder.set_quant(id, quant);
            return Ok(id);
        }
        let apart = self.transposed(id, perm)?;
        let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        self.reshaped(apart, &dims)
    }
}

/// From one layout to another; a change between planes and blocks is none.
pub(in super::super) fn relayout(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    use Layout::{Blocks, Pixels, Planes};
    let params = node.params(kind::RELAYOUT_FORMAT)?;
    let (mode, channels, groups) =
        (params.u32(0, 0)?, params.u32(1, 0)? as usize, params.u32(2, 1)? as usize);
    let x = node.input(0)?;
    let (from, to) = match mode {
        20 => (Planes, Blocks(8)),
        21 => (Blocks(8), Planes),
        22 | 24 => (Planes, Blocks(4)),
        25 => (Blocks(4), Planes),
        27 => (Planes, Blocks(64)),
        28 => (Blocks(64), Planes),
        29 => (Planes, Pixels),
        30 => (Pixels, Planes),
        17 | 18 | 19 | 23 | 26 => return relayout_weights(node, x, mode),
        _ => return Err(node.unsupported(format!("mode {mode}"))),
    };
    let mut value = node.planes(x, from)?;
    let [_, found, ..] = *node.shape(value)? else {
        return Err(node.unsupported("an operand without channels"));
    };
    if let Blocks(block) = to {
        let per_group = found.checked_div(groups).unwrap_or(0);
        if groups > 1 && !per_group.is_multiple_of(block) {
            return Err(node.unsupported("groups of channels that do not fill blocks"));
        }
        value = filled(node, value, &[1], block)?;
    } else if channels != 0 && channels != found {
        if groups > 1 {
            return Err(node.unsupported("channels taken from groups"));
        }
        let (start, end, axis) =
            (node.ints("start", &[0])?, node.ints("end", &[channels as i64])?, node.ints("axis", &[1])?);
        value = node.emit_like(Op::Slice(Slice), &[value, start, end, axis])?;
    }
    if value == x {
        // The same elements with another note beside them.
        value = node.emit_like(Op::Identity(Identity), &[value])?;
    }
    node.laid_out(value, to)
}

/// Zeros behind the axes, up to a multiple of `block`.
fn filled(
    node: &mut NodeReader<'_, '_, '_>,
    x: ValueId,
    axes: &[usize],
    block: usize,
) -> Result<ValueId, Error> {
    let shape = node.shape(x)?;
    let mut pads = vec![0; 2 * shape.rank()];
    for &axis in axes {
        pads[shape.rank() + axis] = (shape[axis].next_multiple_of(block) - shape[axis]) as i64;
    }
    if pads.iter().all(|&pad| pad == 0) {
        return Ok(x);
    }
    let quant = node.quant(x);
    if let Some(constant) = node.constant(x).filter(|_| quant.is_none_or(|quant| quant.zero_point == 0)) {
        let dims: Vec<usize> =
            shape.iter().zip(&pads[shape.rank()..]).map(|(own, pad)| own + *pad as usize).collect();
        let full = Shape::new(&dims).and_then(|to| zero_filled(constant, to));
        let full = full.ok_or_else(|| node.unsupported(format!("extents {}", List(&dims))))?;
        let id = node.new_constant("filled", full);
        node.builder.set_quant(id, quant);
        return Ok(id);
    }
    if quant.is_some_and(|quant| quant.zero_point != 0) {
        return Err(node.unsupported("blocks filled up with integers that do not mean 0"));
    }
    let dtype = node.dtype(x)?;
    let zero = Constant::new(dtype, Shape::from([]), vec![0; dtype.bytes()]);
    let zero = zero.ok_or_else(|| node.unsupported("no constant"))?;
    let zero = node.new_constant("zero", zero);
    let pads = node.ints("pads", &pads)?;
    node.emit_like(Op::Pad(Pad { mode: PadMode::Constant }), &[x, pads, zero])
}

/// A constant with zeros behind its axes, to the extents `to`.
fn zero_filled(constant: &Constant, to: Shape) -> Option<Constant> {
    let (from, width) = (constant.shape(), constant.dtype().bytes());
    let mut bytes = vec![0; to.elements()?.checked_mul(width)?];
    for element in 0..constant.elements() {
        let (mut rest, mut at, mut step) = (element, 0, 1);
        for axis in (0..from.rank()).rev() {
            at += rest % from[axis] * step;
            rest /= from[axis];
            step *= to[axis];
        }
        bytes
            .get_mut(at * width..(at + 1) * width)?
            .copy_from_slice(&constant.bytes()[element * width..][..width]);
    }
    Constant::new(constant.dtype(), to, bytes)
}

/// Weights into blocks: here the axes really change, as a convolution tells by them what it has.
fn relayout_weights(node: &mut NodeReader<'_, '_, '_>, x: ValueId, mode: u32) -> Result<ValueId, Error> {
    let shape = node.shape(x)?;
    let wrong = |node: &NodeReader<'_, '_, '_>| node.unsupported(format!("weights of extents {shape}"));
    match (mode, &*shape) {
        (17, &[outputs, inputs, rows, columns]) if outputs % 8 == 0 && inputs % 8 == 0 => {
            let apart = [outputs / 8, 8, inputs / 8, 8, rows, columns];
            let apart = node.reshaped(x, &apart.map(|dim| dim as i64))?;
            turned(node, apart, &[0, 2, 4, 5, 3, 1])
        }
        (18, &[groups, 1, 1, rows, columns]) if groups % 8 == 0 => {
            let apart = node.reshaped(x, &[groups / 8, 8, 1, 1, rows, columns].map(|dim| dim as i64))?;
            turned(node, apart, &[0, 2, 3, 4, 5, 1])
        }
        (19, &[groups, outputs, inputs, rows, columns]) if outputs % 8 == 0 && inputs % 8 == 0 => {
            let apart = [groups, outputs / 8, 8, inputs / 8, 8, rows, columns];
            let apart = node.reshaped(x, &apart.map(|dim| dim as i64))?;
            turned(node, apart, &[0, 1, 3, 5, 6, 4, 2])
        }
        (23 | 26, &[.., _, _, _, _]) if matches!(shape.rank(), 4 | 5) => {
            let first = shape.rank() - 4;
            let axes: &[usize] = if mode == 23 { &[first + 1] } else { &[first, first + 1] };
            let full = filled(node, x, axes, 4)?;
            let shape = node.shape(full)?;
            let mut apart: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
            apart.splice(first + 1..first + 2, [shape[first + 1] as i64 / 4, 4]);
            let apart = node.reshaped(full, &apart)?;
            let mut perm: Vec<usize> = (0..=shape.rank()).collect();
            let block = perm.remove(first + 2);
            perm.push(block);
            turned(node, apart, &perm)
        }
        _ => Err(wrong(node)),
    }
}

/// Axes permuted; a constant stays one.
fn turned(node: &mut NodeReader<'_, '_, '_>, id: ValueId, perm: &[usize]) -> Result<ValueId, Error> {
    let shape = node.shape(id)?;
    let dims: Vec<usize> = perm.iter().map(|&axis| shape[axis]).collect();
    node.rearranged(id, perm, &dims)
}

/// How a format has a convolution's weights.
#[derive(Clone, Copy)]
enum Weights {
    /// (O, I, KH, KW).
    Plain,
    /// (O, KH, KW, I).
    Last,
    /// (O, I/b, KH, KW, b).
    Inputs(usize),
    /// (O/b, I/b, KH, KW, b, b): inputs first, or outputs first; of one channel per group (G/b, 1, 1, KH, KW, b); over
    /// an image that is not in blocks (O/b, KH, KW, I, b).
    Both { block: usize, outputs_first: bool },
}

/// A convolution's weights as (O, I/groups, KH, KW) with their number of groups. `small` says that the image is one of
/// planes although the format has blocks.
pub(super) fn weights(
    node: &mut NodeReader<'_, '_, '_>,
    format: u32,
    grouped: bool,
    small: bool,
    id: ValueId,
) -> Result<(ValueId, usize), Error> {
    let form = match format {
        0 => Weights::Plain,
        1 | 12 => Weights::Last,
        3 | 9 | 11 | 17 => Weights::Inputs(4),
        4 => Weights::Inputs(8),
        5 | 10 => Weights::Inputs(32),
        16 => Weights::Inputs(64),
        6 => Weights::Both { block: 8, outputs_first: false },
        7 => Weights::Both { block: 4, outputs_first: false },
        8 => Weights::Both { block: 4, outputs_first: true },
        _ => return Err(node.unsupported(format!("weights of format {format}"))),
    };
    let shape = node.shape(id)?;
    let own: Vec<usize> = shape.to_vec();
    let wrong = || node.unsupported(format!("weights of extents {shape}"));
    // The axes of the groups, outputs, inputs, rows and columns, each from the slowest to the fastest.
    let axes: [&[usize]; 5] = match (form, grouped, own.len()) {
        (Weights::Plain, false, 4) => [&[], &[0], &[1], &[2], &[3]],
        (Weights::Plain, true, 5) => [&[0], &[1], &[2], &[3], &[4]],
        (Weights::Last, false, 4) => [&[], &[0], &[3], &[1], &[2]],
        (Weights::Last, true, 5) => [&[0], &[1], &[4], &[2], &[3]],
        (Weights::Inputs(block), false, 5) if own[4] == block => [&[], &[0], &[1, 4], &[2], &[3]],
        (Weights::Inputs(block), true, 6) if own[5] == block => [&[0], &[1], &[2, 5], &[3], &[4]],
        (Weights::Both { block, .. }, false, 5) if small && own[4] == block => {
            [&[], &[0, 4], &[3], &[1], &[2]]
        }
        (Weights::Both { block, outputs_first }, false, 6) if own[4] == block && own[5] == block => {
            if outputs_first {
                [&[], &[0, 4], &[1, 5], &[2], &[3]]
            } else {
                [&[], &[0, 5], &[1, 4], &[2], &[3]]
            }
        }
        (Weights::Both { block, outputs_first }, true, 7) if own[5] == block && own[6] == block => {
            if outputs_first {
                [&[0], &[1, 5], &[2, 6], &[3], &[4]]
            } else {
                [&[0], &[1, 6], &[2, 5], &[3], &[4]]
            }
        }
        (Weights::Both { block, .. }, true, 6) if own[1..3] == [1, 1] && own[5] == block => {
            [&[0, 5], &[1], &[2], &[3], &[4]]
        }
        _ => return Err(wrong()),
    };
    let extent = |axes: &[usize]| axes.iter().map(|&axis| own[axis]).product::<usize>();
    let groups = extent(axes[0]);
    let outputs = groups.checked_mul(extent(axes[1])).ok_or_else(wrong)?;
    let dims = [outputs, extent(axes[2]), extent(axes[3]), extent(axes[4])];
    let perm = axes.concat();
    if perm.is_sorted() {
        let dims = dims.map(|dim| dim as i64);
        return Ok((if own.len() == 4 { id } else { node.reshaped(id, &dims)? }, groups));
    }
    Ok((node.rearranged(id, &perm, &dims)?, groups))
}

/// A bias of one element per channel, laid out like the result, as one row; `None` for other extents.
pub(super) fn channel_row(
    node: &mut NodeReader<'_, '_, '_>,
    id: ValueId,
    layout: Layout,
) -> Result<Option<ValueId>, Error> {
    if node.blocked(id).is_some() {
        return Ok(None);
    }
    let channels = match (layout, &*node.shape(id)?) {
        (Layout::Planes, &[1, channels, 1, 1]) | (Layout::Pixels, &[1, 1, 1, channels]) => channels,
        (Layout::Blocks(block), &[1, outer, 1, 1, inner]) if inner == block => outer * inner,
        _ => return Ok(None),
    };
    node.reshaped(id, &[channels as i64]).map(Some)
}
