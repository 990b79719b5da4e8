//! Operands against segments: bounds, alignment, who may be written, what overlaps.
//!
//! Everything that comes from an instruction word is checked here, with checked arithmetic, before a kernel sees it.

use triune_kernels::{Blocked, CopyNd, CopySpec, Filter, Isa, Nhwc, PackedFilter, Planes, Q8, QSoftmax};
use triune_tensor::{DType, memory, text::List};

use super::guard::Guard;
use super::operands::{MAX_READS, Operands, Prepared, SegRange, Step};
use super::{Library, Loan, Packing, SegmentTable, Weights, budget::Budget, segments::SegmentKind};
use crate::{
    Addr, Error, FeatureMap, Lease,
    command::{Blocks, FieldError, Opcode, Operand},
    memory::sanitizer::rows::Rows,
};
use std::{borrow::Cow, cell::RefCell, collections::HashMap, sync::Arc};

pub(super) type Result<T, E = FieldError> = std::result::Result<T, E>;

/// Most elements that an operand can have, repeats counted: keeps every product of extents far from overflow.
const MAX_ELEMENTS: u64 = 1 << 48;

/// Times the bytes of weights that they take while they are packed: beside those, in the order of the kernels and widened.
const PACKED: u64 = 4;

/// An error about `field`.
pub(super) fn bad<T>(field: &str, problem: impl Into<String>) -> Result<T> {
    Err(FieldError::new(problem).within(field))
}

/// A kernel's complaint while a command is prepared, about `field`.
pub(super) fn refused(field: &'static str) -> impl Fn(triune_kernels::Error) -> FieldError {
    move |error| FieldError::new(error.to_string()).within(field)
}

/// An operand whose bytes all lie in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) field: &'static str,
    /// From the first element's first byte to the last one's last.
    pub(super) range: SegRange,
    elem_bytes: u64,
    dims: [u64; 6],
    /// In bytes; 0 along extents of 1.
    strides: [u64; 6],
    /// For a feature map in blocks of channels: what to gather and scatter.
    blocks: Option<Blocked>,
    /// For an output map whose rows lie between each other: from a copy without gaps to where its elements go.
    spread: Option<CopyNd>,
}

impl Placed {
    /// Which bytes of its range the operand has.
    pub(super) fn rows(&self) -> Rows {
        Rows::strided(self.elem_bytes, self.dims, self.strides)
    }

    /// What to gather before, or to scatter behind a kernel, which wants all channels of a pixel in one run.
    pub(super) fn blocks(&self) -> Option<&Blocked> {
        self.blocks.as_ref()
    }

    /// What puts the elements of an output where they belong, if its rows lie between each other.
    pub(super) fn spread(&self) -> Option<&CopyNd> {
        self.spread.as_ref()
    }

    /// Strides in bytes, 0 along extents of 1.
    pub(super) fn strides(&self) -> [u64; 6] {
        self.strides
    }

    /// Strides in elements.
    pub(super) fn element_strides(&self) -> [usize; 6] {
        self.strides.map(|stride| (stride / self.elem_bytes) as usize)
    }

    /// Element strides of the same extents without gaps.
    pub(super) fn dense_strides(&self) -> [usize; 6] {
        let mut step = 1;
        let mut strides = [0; 6];
        for (stride, &dim) in strides.iter_mut().zip(&self.dims).rev() {
            *stride = step;
            step *= dim as usize;
        }
        strides
    }

    /// The operand as a feature map with the same elements in the same order, if four axes are enough for it.
    pub(super) fn collapse(&self) -> Option<Nhwc> {
        // Innermost axis first; axes that continue the one inside of them merge with it.
        let mut axes = vec![(1_u64, self.elem_bytes)];
        for (&dim, &stride) in self.dims.iter().zip(&self.strides).rev().filter(|&(&dim, _)| dim > 1) {
            match axes.last_mut() {
                Some(inner) if inner.0 * inner.1 == stride => inner.0 *= dim,
                _ => axes.push((dim, stride)),
            }
        }
        if axes.len() > 4 {
            return None;
        }
        axes.resize(4, (1, 0));
        let [c, w, h, n] = [0, 1, 2, 3].map(|axis| axes[axis].0 as usize);
        let [_, stride_w, stride_h, stride_n] =
            [0, 1, 2, 3].map(|axis| (axes[axis].1 / self.elem_bytes) as usize);
        Some(Nhwc { n, h, w, c, stride_n, stride_h, stride_w })
    }

    /// Length of the innermost contiguous run, and the greatest common divisor of all strides above it.
    fn run_and_pitch(&self) -> (u64, u64) {
        let mut run = self.elem_bytes;
        let mut pitch = 0;
        for (&dim, &stride) in self.dims.iter().zip(&self.strides).rev() {
            if dim > 1 && stride == run && pitch == 0 {
                run *= dim;
            } else if dim > 1 {
                pitch = gcd(pitch, stride);
            }
        }
        (run, pitch)
    }

    /// Whether the two operands have the same elements in the same order.
    fn same_elements(&self, other: &Self) -> bool {
        (self.range, self.dims, self.strides) == (other.range, other.dims, other.strides)
    }

    /// Whether no byte of the one is a byte of the other, although their ranges may interleave.
    fn disjoint(&self, other: &Self) -> bool {
        if !self.range.overlaps(&other.range) {
            return true;
        }
        // All runs of both start at multiples of `pitch` from their first: compare the two runs modulo it.
        let (own_run, own_pitch) = self.run_and_pitch();
        let (other_run, other_pitch) = other.run_and_pitch();
        let pitch = gcd(own_pitch, other_pitch);
        if pitch == 0 {
            return false;
        }
        let ahead = (other.range.start % pitch + pitch - self.range.start % pitch) % pitch;
        ahead >= own_run && ahead.checked_add(other_run).is_some_and(|end| end <= pitch)
    }

    /// Whether two elements could share a byte. Strides are compared from the smallest up, each with the span of those
    /// below it.
    fn overlaps_itself(&self) -> bool {
        let mut axes: Vec<(u64, u64)> =
            (self.strides.iter().copied().zip(self.dims)).filter(|axis| axis.1 > 1).collect();
        axes.sort_unstable();
        let mut span = self.elem_bytes;
        axes.into_iter().any(|(stride, dim)| {
            let overlaps = stride < span;
            span = span.saturating_add((dim - 1).saturating_mul(stride));
            overlaps
        })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A feature map whose bytes all lie in its segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedMap {
    pub(super) placed: Placed,
    /// The map in elements, as kernels see it: without gaps where they see a gathered copy.
    pub(super) nhwc: Nhwc,
}

/// What all commands of a program have in common while they are checked.
pub(super) struct Program<'a> {
    pub(super) segments: &'a SegmentTable,
    pub(super) lease: &'a Lease<'a>,
    pub(super) isa: Isa,
    pub(super) library: Option<&'a Library>,
    pub(super) budget: &'a Budget,
    /// Tables that commands with the same parameters share.
    pub(super) softmaxes: RefCell<HashMap<SoftmaxKey, Arc<QSoftmax>>>,
}

/// Length of the axis, whether integers are signed, their zero point, and the bits of the input's and the output's scale.
pub(super) type SoftmaxKey = (usize, bool, i32, [u32; 2]);

/// Checks the operands of one command.
pub(super) struct Checker<'a> {
    program: &'a Program<'a>,
    pub(super) isa: Isa,
    opcode: Opcode,
    guard: Option<Guard<'a>>,
    /// What the sanitizer found in constants, or the budget that was passed.
    fault: RefCell<Option<Error>>,
    /// The command's operands, for the sanitizer.
    operands: RefCell<Option<Operands>>,
}

/// Where a convolution's weights are.
pub(super) enum FilterSource<'a> {
    /// In the program's constants, in the order of the kernels.
    Constants(Cow<'a, [u8]>),
    /// In a library.
    Library(Loan<'a>),
}

impl<'a> Checker<'a> {
    pub(super) fn new(program: &'a Program<'a>, opcode: Opcode, guard: Option<Guard<'a>>) -> Self {
        let (fault, operands) = (RefCell::new(None), RefCell::new(None));
        Self { program, isa: program.isa, opcode, guard, fault, operands }
    }

    /// The operands of the command that was finished, while the sanitizer is on.
    pub(super) fn take_operands(&self) -> Option<Operands> {
        self.operands.take()
    }

    /// Counts memory that the command keeps in the form that runs, before it is allocated.
    pub(super) fn keep(&self, field: &'static str, bytes: u64) -> Result<()> {
        self.blame(field, self.program.budget.take(bytes))?;
        self.check_room(field, bytes)
    }

    /// Whether there is memory for the packed form of so many bytes, before it is made.
    fn check_room(&self, field: &'static str, bytes: u64) -> Result<()> {
        let room = memory::check_room(bytes.saturating_mul(PACKED));
        self.blame(field, room.map_err(Error::from))
    }

    /// An error that is no fault of the field's.
    fn blame<T>(&self, field: &'static str, result: Result<T, Error>) -> Result<T> {
        result.map_err(|error| {
            let text = FieldError::new(error.to_string()).within(field);
            self.fault.replace(Some(error));
            text
        })
    }

    /// What is behind the last error, if it is no fault of the field that it names.
    pub(super) fn take_fault(&self) -> Option<Error> {
        self.fault.take()
    }

    /// The weights of a convolution in blocks, put in the order of the kernels.
    pub(super) fn weights_in_blocks(
        &self,
        field: &'static str,
        addr: Addr,
        extents: [usize; 3],
        blocks: [u32; 2],
        elem_bytes: usize,
    ) -> Result<FilterSource<'a>> {
        let [outputs, taps, inputs] = extents;
        let [own_outputs, own_inputs] = blocks.map(|block| block as usize);
        if own_outputs == 0 || own_inputs == 0 {
            return bad("weight_blocks", "one of two extents is 0");
        }
        let padded = |channels: usize, block: usize| channels.checked_next_multiple_of(block);
        let elements = padded(outputs, own_outputs)
            .and_then(|outputs| outputs.checked_mul(padded(inputs, own_inputs)?))
            .and_then(|product| product.checked_mul(taps));
        let bytes = self.constants(field, addr, elements.map(|count| count as u64), elem_bytes as u64)?;
        self.keep(field, bytes.len() as u64)?;
        let mut dense = vec![0; outputs * taps * inputs * elem_bytes];
        for (index, to) in dense.chunks_exact_mut(elem_bytes).enumerate() {
            let (output, tap, input) = (index / (taps * inputs), index / inputs % taps, index % inputs);
            let block = output / own_outputs * inputs.div_ceil(own_inputs) + input / own_inputs;
            let within = output % own_outputs * own_inputs + input % own_inputs;
            let from = ((block * taps + tap) * own_outputs * own_inputs + within) * elem_bytes;
            to.copy_from_slice(&bytes[from..][..elem_bytes]);
        }
        Ok(FilterSource::Constants(Cow::Owned(dense)))
    }

    /// The weights of a convolution: output channels, taps, input channels of a group.
    pub(super) fn weights(
        &self,
        field: &'static str,
        addr: Addr,
        extents: [usize; 3],
        elem_bytes: usize,
    ) -> Result<FilterSource<'a>> {
        match self.lent(field, addr, extents, elem_bytes)? {
            FilterSource::Library(weights) => {
                let made = self.blame(field, weights.make().map_err(Error::from));
                Ok(FilterSource::Library(made?))
            }
            constants @ FilterSource::Constants(_) => Ok(constants),
        }
    }

    /// Weights of a library with their elements made.
    pub(super) fn made<'w>(&self, field: &'static str, weights: &'w Weights) -> Result<Cow<'w, Weights>> {
        self.blame(field, weights.made().map_err(Error::from))
    }

    /// As [`Self::weights`], those of a library as it has them: their elements may have to be made.
    pub(super) fn lent(
        &self,
        field: &'static str,
        addr: Addr,
        extents: [usize; 3],
        elem_bytes: usize,
    ) -> Result<FilterSource<'a>> {
        let Some(library) = self.program.library.filter(|_| addr.segment() == Library::SEGMENT) else {
            let elements =
                extents.into_iter().try_fold(1_u64, |product, extent| product.checked_mul(extent as u64));
            let bytes = self.constants(field, addr, elements, elem_bytes as u64)?;
            self.keep(field, bytes.len() as u64)?;
            return Ok(FilterSource::Constants(Cow::Borrowed(bytes)));
        };
        match library.get(addr) {
            Some(weights) if weights.extents == extents && weights.elem_bytes == elem_bytes => {
                self.check_room(field, (extents.iter().product::<usize>() * elem_bytes) as u64)?;
                Ok(FilterSource::Library(weights))
            }
            Some(weights) => bad(
                field,
                format!("{addr} has the extents {}, {} needed", List(&weights.extents), List(&extents)),
            ),
            None => bad(field, format!("{addr} is not in the library")),
        }
    }

    /// f32 weights in `field` "weights", in the form that kernels take; those of a library are packed once.
    pub(super) fn packed(
        &self,
        addr: Addr,
        extents: [usize; 3],
        groups: usize,
        packing: Packing,
    ) -> Result<Arc<PackedFilter>> {
        let packed = match self.lent("weights", addr, extents, size_of::<f32>())? {
            FilterSource::Constants(bytes) => {
                let [channels, taps, inputs] = extents;
                let filter = Filter::dense(&bytes, channels, taps, inputs);
                packing.pack(&filter, groups, self.isa).map(Arc::new)
            }
            FilterSource::Library(weights) => {
                weights.library.packed(addr, &weights, groups, self.isa, packing)
            }
        };
        packed.map_err(refused("weights"))
    }

    /// A strided operand.
    pub(super) fn strided(
        &self,
        field: &'static str,
        addr: Addr,
        elem_bytes: u64,
        dims: [u64; 6],
        strides: [u64; 6],
    ) -> Result<Placed> {
        let mut strides = strides;
        let mut elements = 1_u64;
        let mut extent = Some(elem_bytes);
        for (axis, (&dim, stride)) in dims.iter().zip(&mut strides).enumerate() {
            match dim {
                0 => return bad(field, format!("extent {axis} is 0")),
                1 => *stride = 0,
                _ => {}
            }
            if !stride.is_multiple_of(elem_bytes) {
                return bad(field, format!("the stride of {stride} bytes is not a multiple of {elem_bytes}"));
            }
            elements = elements.saturating_mul(dim);
            extent = extent.and_then(|extent| extent.checked_add((dim - 1).checked_mul(*stride)?));
        }
        if elements > MAX_ELEMENTS {
            return bad(field, format!("more than {MAX_ELEMENTS} elements"));
        }
        let range = self.flat(field, addr, extent.unwrap_or(u64::MAX), elem_bytes)?;
        Ok(Placed { field, range, elem_bytes, dims, strides, blocks: None, spread: None })
    }

    /// An operand of an elementwise command.
    pub(super) fn operand(&self, field: &'static str, operand: &Operand, dims: [u32; 6]) -> Result<Placed> {
        self.strided(field, operand.addr, operand.dtype.bytes() as u64, dims.map(u64::from), operand.strides)
    }

    /// A dense operand.
    pub(super) fn dense(
        &self,
        field: &'static str,
        addr: Addr,
        elem_bytes: u64,
        elements: u64,
    ) -> Result<Placed> {
        self.strided(field, addr, elem_bytes, [1, 1, 1, 1, 1, elements], [0, 0, 0, 0, 0, elem_bytes])
    }

    /// An operand whose elements can lie up to `reach` bytes further than its own extents lead.
    pub(super) fn widened(&self, placed: &Placed, reach: u64) -> Result<Placed> {
        let SegRange { segment, start, len } = placed.range;
        let Some(len) = len.checked_add(reach) else { return bad(placed.field, "its extents overflow") };
        let range = self.flat(placed.field, Addr::new(segment, start), len, placed.elem_bytes)?;
        Ok(Placed { range, ..*placed })
    }

    /// A feature map.
    pub(super) fn map(&self, field: &'static str, map: &FeatureMap) -> Result<PlacedMap> {
        if let Some(blocks) = map.blocks {
            return self.map_in_blocks(field, map, blocks);
        }
        let elem = map.dtype.bytes() as u64;
        let placed = self.strided(
            field,
            map.addr,
            elem,
            [1, 1, map.n.into(), map.h.into(), map.w.into(), map.c.into()],
            [0, 0, map.stride_n, map.stride_h, map.stride_w, elem],
        )?;
        let [.., stride_n, stride_h, stride_w, _] = placed.strides.map(|stride| (stride / elem) as usize);
        let nhwc = Nhwc {
            n: map.n as usize,
            h: map.h as usize,
            w: map.w as usize,
            c: map.c as usize,
            stride_n,
            stride_h,
            stride_w,
        };
        Ok(PlacedMap { placed, nhwc })
    }

    /// A feature map that is written. Kernels write it row by row: where rows lie between each other, they get a map without
    /// gaps, which is spread behind them.
    pub(super) fn output_map(&self, field: &'static str, map: &FeatureMap) -> Result<PlacedMap> {
        let PlacedMap { mut placed, nhwc } = self.map(field, map)?;
        if placed.blocks.is_some() || !nhwc.overlaps_itself() || placed.overlaps_itself() {
            return Ok(PlacedMap { placed, nhwc });
        }
        let elem = placed.elem_bytes as usize;
        let spread = CopyNd::new(&CopySpec {
            elem_bytes: elem,
            dims: placed.dims.map(|dim| dim as usize),
            src_offset: 0,
            src_strides: placed.dense_strides().map(|stride| (stride * elem) as i64),
            dst_strides: placed.strides.map(|stride| stride as usize),
        });
        placed.spread = Some(spread.map_err(refused(field))?);
        Ok(PlacedMap { placed, nhwc: Nhwc::dense(nhwc.n, nhwc.h, nhwc.w, nhwc.c) })
    }

    /// A feature map with channels in blocks: whole blocks are read and written.
    fn map_in_blocks(&self, field: &'static str, map: &FeatureMap, blocks: Blocks) -> Result<PlacedMap> {
        let wrong = |problem: String| FieldError::new(problem).within("blocks").within(field);
        let elem = map.dtype.bytes() as u64;
        let Blocks { channels, stride, fill } = blocks;
        if channels == 0 {
            return Err(wrong("a block of 0 channels".into()));
        }
        if elem < 4 && fill >> (8 * elem) != 0 {
            return Err(wrong(format!("the filling {fill:#x} has more than {elem} bytes")));
        }
        if elem > 2 {
            return Err(wrong(format!("elements of {elem} bytes do not lie in blocks")));
        }
        let count = map.c.div_ceil(channels);
        let mut placed = self.strided(
            field,
            map.addr,
            elem,
            [1, map.n.into(), count.into(), map.h.into(), map.w.into(), channels.into()],
            [0, map.stride_n, stride, map.stride_h, map.stride_w, elem],
        )?;
        let [_, stride_n, stride_block, stride_h, stride_w, _] = placed.strides.map(|stride| stride as usize);
        let [n, h, w, c] = [map.n, map.h, map.w, map.c].map(|extent| extent as usize);
        let elem = elem as usize;
        let bytes = fill.to_le_bytes();
        let blocked = Blocked {
            extents: [n, h, w],
            channels: c * elem,
            block: channels as usize * elem,
            strides: [stride_n, stride_h, stride_w],
            stride_block,
            fill: [bytes[0], bytes[elem - 1]],
        };
        blocked.check().map_err(|error| wrong(error.to_string()))?;
        placed.blocks = Some(blocked);
        let nhwc = if count == 1 {
            let [stride_n, stride_h, stride_w] = blocked.strides.map(|stride| stride / elem);
            Nhwc { n, h, w, c, stride_n, stride_h, stride_w }
        } else {
            Nhwc::dense(n, h, w, c)
        };
        Ok(PlacedMap { placed, nhwc })
    }

    /// A feature map in planes: blocks of a channel, whose columns follow each other.
    pub(super) fn planes(
        &self,
        field: &'static str,
        map: &FeatureMap,
        blocks: Blocks,
    ) -> Result<(Placed, Planes)> {
        let elem = map.dtype.bytes() as u64;
        if blocks.channels != 1 {
            return bad(field, format!("blocks of {} channels, where planes have one", blocks.channels));
        }
        if map.w > 1 && map.stride_w != elem {
            return bad(
                field,
                format!("columns of a plane that are {} bytes apart, not {elem}", map.stride_w),
            );
        }
        let placed = self.strided(
            field,
            map.addr,
            elem,
            [1, 1, map.n.into(), map.c.into(), map.h.into(), map.w.into()],
            [0, 0, map.stride_n, blocks.stride, map.stride_h, elem],
        )?;
        let [_, _, n, c, h, w] = placed.dims.map(|dim| dim as usize);
        let [_, _, stride_n, stride_c, stride_h, _] = placed.strides.map(|stride| (stride / elem) as usize);
        Ok((placed, Planes { n, c, h, w, stride_n, stride_c, stride_h }))
    }

    /// `len` bytes at an address.
    pub(super) fn flat(&self, field: &'static str, addr: Addr, len: u64, alignment: u64) -> Result<SegRange> {
        let Some(segment) = self.program.segments.get(addr.segment()) else {
            return bad(field, format!("{addr}: the program has no segment {}", addr.segment()));
        };
        if addr.offset().checked_add(len).is_none_or(|end| end > segment.len) {
            let size = segment.len;
            let len = if len == u64::MAX { "too many".into() } else { len.to_string() };
            return bad(field, format!("{len} bytes at {addr} leave the segment's {size} bytes"));
        }
        if !addr.offset().is_multiple_of(alignment) {
            return bad(field, format!("{addr} is not a multiple of {alignment}"));
        }
        Ok(SegRange { segment: addr.segment(), start: addr.offset(), len })
    }

    /// `elements` constants of `elem_bytes` each, from the constants segment.
    pub(super) fn constants(
        &self,
        field: &'static str,
        addr: Addr,
        elements: Option<u64>,
        elem_bytes: u64,
    ) -> Result<&'a [u8]> {
        let len = elements.and_then(|elements| elements.checked_mul(elem_bytes)).unwrap_or(u64::MAX);
        let range = self.flat(field, addr, len, elem_bytes)?;
        match self.program.segments.get(addr.segment()) {
            Some(segment) if segment.kind == SegmentKind::Constants => {}
            _ => return bad(field, format!("{addr} is not in a segment of constants")),
        }
        if let Some(Err(error)) = self.guard.as_ref().map(|guard| guard.constants(field, range)) {
            let text = FieldError::new(error.to_string()).within(field);
            self.fault.replace(Some(error));
            return Err(text);
        }
        let resolved =
            range.resolve(self.program.segments).and_then(|resolved| self.program.lease.read(resolved));
        resolved.map_err(|error| FieldError::new(error.to_string()).within(field))
    }

    /// f32 constants.
    pub(super) fn floats(&self, field: &'static str, addr: Addr, elements: Option<u64>) -> Result<Vec<f32>> {
        let bytes = self.constants(field, addr, elements, 4)?;
        self.keep(field, bytes.len() as u64)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
    }

    /// i32 constants.
    pub(super) fn ints(&self, field: &'static str, addr: Addr, elements: Option<u64>) -> Result<Vec<i32>> {
        let bytes = self.constants(field, addr, elements, 4)?;
        self.keep(field, bytes.len() as u64)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|&word| i32::from_le_bytes(word)).collect())
    }

    /// An integer softmax, whose table is made once for all commands with its parameters.
    pub(super) fn softmax(
        &self,
        len: usize,
        target: Q8,
        [input_scale, output_scale]: [f32; 2],
    ) -> Result<Arc<QSoftmax>> {
        let key = (len, target.signed, target.zero_point, [input_scale.to_bits(), output_scale.to_bits()]);
        if let Some(found) = self.program.softmaxes.borrow().get(&key) {
            return Ok(Arc::clone(found));
        }
        self.keep("output_quant", QSoftmax::TABLE_BYTES as u64)?;
        let made = QSoftmax::new(len, input_scale, target, output_scale).map_err(refused("output_quant"))?;
        let made = Arc::new(made);
        self.program.softmaxes.borrow_mut().insert(key, Arc::clone(&made));
        Ok(made)
    }

    /// A table of 256 bytes.
    pub(super) fn table(&self, field: &'static str, addr: Addr) -> Result<[u8; 256]> {
        let bytes = self.constants(field, addr, Some(256), 1)?;
        self.keep(field, bytes.len() as u64)?;
        bytes.try_into().or_else(|_| bad(field, "is no table of 256 bytes"))
    }

    /// So many tables of 256 bytes.
    pub(super) fn byte_tables(&self, field: &'static str, addr: Addr, count: u32) -> Result<Vec<[u8; 256]>> {
        let bytes = self.constants(field, addr, Some(u64::from(count) * 256), 1)?;
        self.keep(field, bytes.len() as u64)?;
        Ok(bytes.as_chunks::<256>().0.to_vec())
    }

    /// A table of 65,536 words of 16 bits.
    pub(super) fn q16_table(&self, field: &'static str, addr: Addr) -> Result<Vec<i16>> {
        let bytes = self.constants(field, addr, Some(1 << 16), 2)?;
        self.keep(field, bytes.len() as u64)?;
        Ok(bytes.as_chunks::<2>().0.iter().map(|&word| i16::from_le_bytes(word)).collect())
    }

    /// The command with its kernel, once its operands are known not to disturb each other: the output must be
    /// writable, have no element twice and share no byte with an input; `elementwise` commands may work in place.
    pub(super) fn finish<const N: usize>(
        &self,
        reads: [Placed; N],
        write: &Placed,
        elementwise: bool,
        kernel: impl Step + 'static,
    ) -> Result<Prepared> {
        self.finish_some(reads.map(Some), write, elementwise, kernel)
    }

    /// As [`Self::finish`], of operands that may be left out; the kernel finds the others at their places.
    pub(super) fn finish_some<const N: usize>(
        &self,
        reads: [Option<Placed>; N],
        write: &Placed,
        elementwise: bool,
        kernel: impl Step + 'static,
    ) -> Result<Prepared> {
        const { assert!(N <= MAX_READS) };
        self.check_write(write)?;
        let (mut all, mut staged) = ([None; MAX_READS], [false; MAX_READS]);
        for ((slot, staged), read) in all.iter_mut().zip(&mut staged).zip(reads) {
            let Some(read) = read else { continue };
            *staged = is_staged(&read, write, elementwise)?;
            *slot = Some(read);
        }
        self.prepared(&Operands { reads: all, write: *write }, staged, kernel)
    }

    /// As [`Self::finish`], for a window over `reads[0]` whose results are added to `reads[1]`, in place if need be.
    pub(super) fn finish_fused(
        &self,
        [input, residual]: [Placed; 2],
        write: &Placed,
        kernel: impl Step + 'static,
    ) -> Result<Prepared> {
        self.check_write(write)?;
        let (mut reads, mut staged) = ([None; MAX_READS], [false; MAX_READS]);
        (reads[0], staged[0]) = (Some(input), is_staged(&input, write, false)?);
        (reads[1], staged[1]) = (Some(residual), is_staged(&residual, write, true)?);
        self.prepared(&Operands { reads, write: *write }, staged, kernel)
    }

    fn prepared<K: Step + 'static>(
        &self,
        operands: &Operands,
        staged: [bool; MAX_READS],
        kernel: K,
    ) -> Result<Prepared> {
        self.keep("opcode", (Prepared::BYTES + size_of::<K>()) as u64)?;
        let prepared = Prepared::new(self.opcode, operands, staged, Box::new(kernel));
        if self.guard.is_some() {
            self.keep("opcode", size_of::<Operands>() as u64)?;
            self.operands.replace(Some(*operands));
        }
        Ok(prepared)
    }

    fn check_write(&self, write: &Placed) -> Result<()> {
        let index = write.range.segment;
        match self.program.segments.get(index) {
            Some(segment) if segment.kind.writable() => {}
            Some(segment) => {
                return bad(write.field, format!("segment {index} ({}) is read-only", segment.kind));
            }
            None => return bad(write.field, format!("the program has no segment {index}")),
        }
        if write.overlaps_itself() { bad(write.field, "two of its elements share bytes") } else { Ok(()) }
    }
}

/// Whether `read` has to be copied aside while `write` is written; an error where that does not help.
fn is_staged(read: &Placed, write: &Placed, elementwise: bool) -> Result<bool> {
    let interleaves = read.range.overlaps(&write.range);
    if interleaves && !(read.disjoint(write) || elementwise && read.same_elements(write)) {
        return bad(read.field, format!("shares bytes with {}, which is written", write.field));
    }
    Ok(interleaves)
}

/// Refuses an operand of another type.
pub(super) fn expect_dtype(field: &str, got: DType, allowed: &[DType]) -> Result<()> {
    if allowed.contains(&got) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(|dtype| dtype.name()).collect();
    bad(field, format!("the type is {got}, it can be {}", names.join(" or ")))
}

/// Refuses maps of different extents.
pub(super) fn expect_same_extents(field: &str, got: &Nhwc, expected: &Nhwc) -> Result<()> {
    let dims = |map: &Nhwc| [map.n, map.h, map.w, map.c];
    if dims(got) == dims(expected) {
        return Ok(());
    }
    bad(field, format!("the extents are {}, {} needed", List(&dims(got)), List(&dims(expected))))
}
