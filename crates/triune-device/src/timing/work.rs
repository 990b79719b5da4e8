//! What a command asks of the engines: multiply-accumulates, busy cycles, bytes per segment.
//!
//! Bytes are those of elements, never of gaps or padding; a repeated (broadcast) operand counts once.

use triune_tensor::function::ResizeMode;

use crate::{
    Addr, Command, FeatureMap,
    command::{Operand, Window},
    spec::{ArraySpec, BorderSpec, Depthwise, DeviceSpec, VectorSpec},
};

use super::TimingOptions;
use super::array::{Gemm, SramAccesses, bytes_of, vector_cycles};

/// Bytes at an address.
pub(super) type Traffic = (Addr, u64);

/// The work of one command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) macs: u64,
    /// Cycles that the array or the vector unit is busy.
    pub(super) cycles: u64,
    /// Accesses to the array's operand buffers; none for what runs on the vector unit.
    pub(super) sram: SramAccesses,
    /// Cycles that the array would be busy if all of it worked all the time; 0 for what runs on the vector unit.
    pub(super) ideal: u64,
    /// Weights and parameters, which can be loaded before the command's inputs are there.
    pub(super) constants: [Option<Traffic>; 4],
    /// Inputs.
    pub(super) reads: [Option<Traffic>; 5],
    /// The output.
    pub(super) write: Option<Traffic>,
    /// How it can be cut into bands and panels; absent: into equal parts of everything only.
    pub(super) cut: Option<Cut>,
}

/// How a command's work can be cut: bands of rows of its results, panels of its outputs, pieces of its inner products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cut {
    /// Rows of results; pixels, if a result needs no more than its own pixel.
    pub(super) rows: u64,
    /// Panels that fill the array each, or nearly.
    pub(super) panels: u64,
    /// Pieces of inner products that fill the array each, or nearly.
    pub(super) chunks: u64,
    /// Bytes of the partial sums of all results.
    pub(super) sums: u64,
    /// Whether the second input takes the place of weights.
    pub(super) second_is_weights: bool,
    /// What rows of results need of the input; absent: a row needs its own.
    pub(super) reach: Option<Reach>,
}

/// Rows of an input that rows of results need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reach {
    images: u64,
    rows_in: u64,
    rows_out: u64,
    stride: u64,
    pad: u64,
    /// From a window's first row until behind its last.
    extent: u64,
    /// The rows of results whose windows do not lie in padding.
    within: [u64; 2],
}

impl Reach {
    fn new(input: &FeatureMap, output: &FeatureMap, window: &Window) -> Self {
        let (rows_in, pad) = (u64::from(input.h), u64::from(window.pad[0]));
        let stride = u64::from(window.stride[0]).max(1);
        let extent = u64::from(window.kernel[0].saturating_sub(1)) * u64::from(window.dilation[0]) + 1;
        Self {
            images: output.n.into(),
            rows_in,
            rows_out: u64::from(output.h).max(1),
            stride,
            pad,
            extent,
            within: [(pad + 1).saturating_sub(extent).div_ceil(stride), (rows_in + pad).div_ceil(stride)],
        }
    }

    /// Rows of one image's input that its rows `from..to` of results need; those whose windows lie in padding need none.
    fn rows(&self, from: u64, to: u64) -> u64 {
        let (from, to) = (from.max(self.within[0]), to.min(self.within[1]));
        if from >= to {
            return 0;
        }
        let first = from.saturating_mul(self.stride).saturating_sub(self.pad);
        let last = (to - 1).saturating_mul(self.stride).saturating_add(self.extent).saturating_sub(self.pad);
        last.min(self.rows_in).saturating_sub(first)
    }
}

impl Cut {
    /// A convolution's. Panels and pieces count outputs and inputs as they are; an array's extents make fewer of them.
    fn convolution(width: Width, input: &FeatureMap, output: &FeatureMap, window: &Window) -> Self {
        let pixels = product([output.n, output.h, output.w]);
        let own = window.kernel == [1, 1] && window.stride == [1, 1] && window.pad == [0; 4];
        let inner = product(window.kernel).saturating_mul(width.channels(input.c));
        // Groups have inputs of their own: a panel of them would need a part of the map only.
        let [panels, chunks] = if window.groups > 1 { [1, 1] } else { [output.c.into(), inner] };
        Self {
            rows: if own { pixels } else { product([output.n, output.h]) }.max(1),
            panels,
            chunks,
            sums: pixels.saturating_mul(output.c.into()).saturating_mul(4),
            second_is_weights: false,
            reach: (!own).then(|| Reach::new(input, output, window)),
        }
    }

    /// A product of two operands, of which the second one takes the place of weights; those of a batch are cut evenly.
    fn product([batch, m, n, k]: [u32; 4]) -> Option<Self> {
        (batch == 1).then(|| Self {
            rows: u64::from(m).max(1),
            panels: n.into(),
            chunks: k.into(),
            sums: product([m, n]).saturating_mul(4),
            second_is_weights: true,
            reach: None,
        })
    }

    /// A pool's.
    fn pool(input: &FeatureMap, output: &FeatureMap, window: &Window) -> Self {
        Self {
            rows: product([output.n, output.h]).max(1),
            panels: 1,
            chunks: 1,
            sums: 0,
            second_is_weights: false,
            reach: Some(Reach::new(input, output, window)),
        }
    }

    /// Rows of the input.
    pub(super) fn rows_in(&self) -> u64 {
        self.reach.map_or(self.rows, |reach| reach.images.saturating_mul(reach.rows_in)).max(1)
    }

    /// Rows of the input that rows `from..to` of results need.
    pub(super) fn rows_read(&self, from: u64, to: u64) -> u64 {
        let Some(reach) = &self.reach else { return to - from };
        if to <= reach.rows_out {
            return reach.rows(from, to);
        }
        if from >= to {
            return 0;
        }
        // Rows of the first image, whole images, rows of the last.
        let (first, last) = (from / reach.rows_out, (to - 1) / reach.rows_out);
        let (from, to) = (from - first * reach.rows_out, to - last * reach.rows_out);
        if first == last {
            return reach.rows(from, to);
        }
        let between = (last - first - 1).saturating_mul(reach.rows(0, reach.rows_out));
        reach.rows(from, reach.rows_out).saturating_add(between).saturating_add(reach.rows(0, to))
    }
}

impl Work {
    fn set_reads<const N: usize>(&mut self, reads: [Option<Traffic>; N]) {
        self.reads[..N].copy_from_slice(&reads);
    }
}

/// What a command computes, without saying where.
struct Amount {
    macs: u64,
    /// The dense product, if it is one on 8-bit integers, which is what arrays compute.
    gemm: Option<Gemm>,
    /// Whether it is a depthwise convolution, and the same product as one filter over the windows of all channels.
    depthwise: Option<Gemm>,
    /// Vector unit: multiply-accumulates or comparisons.
    taps: u64,
    /// Vector unit: results.
    elements: u64,
}

impl Amount {
    const fn elementwise(elements: u64) -> Self {
        Self { macs: 0, gemm: None, depthwise: None, taps: 0, elements }
    }

    /// The product that an array computes of it, if it does.
    fn on_array(&self, array: &ArraySpec) -> Option<Gemm> {
        match (self.depthwise, array.depthwise()) {
            (None, _) | (Some(_), Depthwise::Groups) => self.gemm,
            (Some(_), Depthwise::Vector) => None,
            (window @ Some(_), Depthwise::Window) => window,
        }
    }

    /// Moved by DMA alone.
    const NONE: Self = Self::elementwise(0);

    fn put(&self, work: &mut Work, spec: &DeviceSpec, options: &TimingOptions) {
        // The vector unit's registers hold half as many elements of twice the width.
        let wide = bytes_of(options.precision);
        let on_vector = |taps: u64| {
            let (taps, elements) = (taps.saturating_mul(wide), self.elements.saturating_mul(wide));
            spec.vector.map_or(0, |vector| vector_cycles(vector, taps, elements))
        };
        work.macs = self.macs;
        if let (Some(cut), Some(array)) = (&mut work.cut, &spec.array) {
            // Less than the array's extents would leave a part of it idle.
            let columns = u64::from(array.columns).saturating_mul(array.units[1].into());
            cut.panels = cut.panels.div_ceil(columns).max(1);
            cut.chunks = cut.chunks.div_ceil(array.rows.into()).max(1);
        }
        work.cycles = match (spec.array.and_then(|array| self.on_array(&array)), &spec.array) {
            // Results pass the vector unit for requantization while they leave the array.
            (Some(gemm), Some(array)) => {
                work.sram = gemm.sram(array);
                work.ideal = self.macs.div_ceil(array.macs_per_cycle().max(1));
                gemm.array_cycles(array, options.precision, options.array_percent).max(on_vector(0))
            }
            _ => on_vector(self.taps),
        };
    }
}

/// How elements lie: bytes of those that the commands have as 8-bit ones, and blocks of channels.
#[derive(Clone, Copy)]
struct Width {
    bytes: u64,
    border: BorderSpec,
    /// Whether padding of blocks counts wherever it is read or written.
    addressed: bool,
}

impl Width {
    fn element(self, bytes: u64) -> u64 {
        if bytes == 1 { self.bytes } else { bytes }
    }

    /// Channels with those that fill the last block.
    fn channels(self, channels: u32) -> u64 {
        let block = match self.border.image_channels {
            images if channels <= images => images,
            _ => self.border.channels,
        };
        u64::from(channels).next_multiple_of(block.max(1).into())
    }

    /// The same of a map, which may lie in blocks of its own.
    fn map_channels(self, map: &FeatureMap) -> u64 {
        let own = map.blocks.map_or(1, |blocks| blocks.channels.max(1));
        self.channels(map.c).max(u64::from(map.c).next_multiple_of(own.into()))
    }

    /// Elements of a map with the channels that fill its last block.
    fn elements(self, map: &FeatureMap) -> u64 {
        product([map.n, map.h, map.w]).saturating_mul(self.map_channels(map))
    }

    fn map(self, map: &FeatureMap) -> Traffic {
        (map.addr, self.elements(map).saturating_mul(self.element(map.dtype.bytes() as u64)))
    }

    /// Bytes of a strided layout; repeats count once.
    fn strided(self, addr: Addr, elem_bytes: u64, dims: [u32; 6], strides: [u64; 6]) -> Traffic {
        let distinct = dims.into_iter().zip(strides).map(|(dim, stride)| if stride == 0 { 1 } else { dim });
        (addr, product(distinct).saturating_mul(self.element(elem_bytes)))
    }

    fn operand(self, operand: &Operand, dims: [u32; 6]) -> Traffic {
        self.strided(operand.addr, operand.dtype.bytes() as u64, dims, operand.strides)
    }

    /// Of `elements`, those that are no padding of blocks, where that does not count.
    fn counted(self, elements: u64, [part, of]: [u32; 2]) -> u64 {
        if of == 0 || self.addressed {
            elements
        } else {
            elements.saturating_mul(part.into()) / u64::from(of)
        }
    }

    fn part(self, (addr, bytes): Traffic, counted: [u32; 2]) -> Traffic {
        (addr, self.counted(bytes, counted))
    }

    fn weights(self, addr: Addr, input: &FeatureMap, output: &FeatureMap, window: &Window) -> Traffic {
        let per_output = product(window.kernel).saturating_mul(u64::from(input.c / window.groups.max(1)));
        let bytes = self.element(input.dtype.bytes() as u64);
        (addr, per_output.saturating_mul(output.c.into()).saturating_mul(bytes))
    }
}

fn product(factors: impl IntoIterator<Item = u32>) -> u64 {
    factors.into_iter().fold(1, |product: u64, factor| product.saturating_mul(factor.into()))
}

/// The amount of a convolution: an array computes dense and grouped ones, and depthwise ones if its description says so.
fn convolution(
    width: Width,
    input: &FeatureMap,
    output: &FeatureMap,
    window: &Window,
    on_array: bool,
) -> Amount {
    let groups = window.groups.max(1);
    let inputs = input.c / groups;
    let kernel = product(window.kernel);
    let gemm = Gemm {
        m: product([output.n, output.h, output.w]),
        n: u64::from(output.c / groups),
        // A pixel's channels come in whole blocks, of which the last holds zeros.
        k: kernel.saturating_mul(width.channels(inputs)),
        step: product([window.kernel[0], window.stride[1].min(window.kernel[1]), input.c])
            / u64::from(groups),
        groups: groups.into(),
    };
    let depthwise = groups > 1 && input.c == groups;
    let all = kernel.saturating_mul(width.channels(input.c));
    let window = Gemm { k: all, step: all, groups: 1, ..gemm };
    let macs = output.elements().saturating_mul(kernel).saturating_mul(inputs.into());
    let elements = width.elements(output);
    let taps = if depthwise { elements.saturating_mul(kernel) } else { macs };
    Amount {
        macs,
        gemm: on_array.then_some(gemm),
        depthwise: (on_array && depthwise).then_some(window),
        taps,
        elements,
    }
}

/// The work of `command` on `spec` under the circumstances `options`.
pub(super) fn work(spec: &DeviceSpec, command: &Command, options: &TimingOptions) -> Work {
    let width = Width { bytes: bytes_of(options.precision), border: spec.border, addressed: false };
    work_at(width, spec, command, options)
}

/// The work of `command` on maps that lie without blocks of channels, as the commands address them.
pub(super) fn work_as_addressed(spec: &DeviceSpec, command: &Command) -> Work {
    let options = TimingOptions::default();
    let width = Width { bytes: bytes_of(options.precision), border: BorderSpec::default(), addressed: true };
    work_at(width, spec, command, &options)
}

fn work_at(width: Width, spec: &DeviceSpec, command: &Command, options: &TimingOptions) -> Work {
    let (mut work, amount) = measure(width, spec.vector, command);
    amount.put(&mut work, spec, options);
    work
}

/// The operations of `command`, see [`super::operations`].
pub(super) fn operations(command: &Command) -> u64 {
    let width = Width { bytes: 1, border: BorderSpec::default(), addressed: true };
    let moved = match command {
        Command::Copy(c) => product(c.dims),
        Command::Fill(c) => product(c.dims),
        _ => 0,
    };
    let Amount { macs, taps, elements, .. } = measure(width, None, command).1;
    macs.max(taps).max(elements).max(moved)
}

/// The bytes that a command moves, and what it computes.
fn measure(width: Width, vector: Option<VectorSpec>, command: &Command) -> (Work, Amount) {
    let mut work = Work::default();
    let amount = match command {
        Command::End(_) => Amount::NONE,
        Command::Copy(c) => {
            work.reads[0] = Some(width.strided(c.src, c.elem_bytes.into(), c.dims, c.src_strides));
            work.write = Some(width.strided(c.dst, c.elem_bytes.into(), c.dims, c.dst_strides));
            Amount::NONE
        }
        Command::Fill(c) => {
            work.write = Some(width.strided(c.dst, c.elem_bytes.into(), c.dims, c.dst_strides));
            Amount::NONE
        }
        Command::QConv(c) => {
            let outputs = u64::from(c.output.c);
            work.constants = [
                Some(width.weights(c.weights, &c.input, &c.output, &c.window)),
                c.bias.map(|addr| (addr, 4 * outputs)),
                Some((c.multiplier, 4 * u64::from(c.multipliers))),
                c.table.map(|addr| (addr, 256)),
            ];
            work.set_reads([Some(width.map(&c.input)), c.residual.as_ref().map(|map| width.map(map)), None]);
            work.write = Some(width.map(&c.output));
            work.cut = Some(Cut::convolution(width, &c.input, &c.output, &c.window));
            convolution(width, &c.input, &c.output, &c.window, true)
        }
        Command::FConv(c) => {
            work.constants[0] = Some(width.weights(c.weights, &c.input, &c.output, &c.window));
            work.constants[1] = c.bias.map(|addr| (addr, 4 * u64::from(c.output.c)));
            work.set_reads([Some(width.map(&c.input)), c.residual.as_ref().map(|map| width.map(map)), None]);
            work.write = Some(width.map(&c.output));
            work.cut = Some(Cut::convolution(width, &c.input, &c.output, &c.window));
            convolution(width, &c.input, &c.output, &c.window, false)
        }
        Command::FMatMul(c) => {
            let b_batch = if c.shared_b { 1 } else { c.batch };
            let bytes = |factors: [u32; 3]| product(factors).saturating_mul(4);
            work.constants[0] = c.bias.map(|addr| (addr, 4 * u64::from(c.n)));
            work.reads[0] = Some((c.a, bytes([c.batch, c.m, c.k])));
            work.reads[1] = Some((c.b, bytes([b_batch, c.k, c.n])));
            work.write = Some((c.output, bytes([c.batch, c.m, c.n])));
            work.cut = Cut::product([c.batch, c.m, c.n, c.k]);
            let macs = product([c.batch, c.m, c.n, c.k]);
            Amount { macs, gemm: None, depthwise: None, taps: macs, elements: product([c.batch, c.m, c.n]) }
        }
        Command::QMatMul(c) => {
            let b_batch = if c.shared_b { 1 } else { c.batch };
            let bytes = |factors: [u32; 3]| product(factors).saturating_mul(width.element(1));
            work.reads[0] = Some((c.a, bytes([c.batch, c.m, c.k])));
            work.reads[1] = Some((c.b, bytes([b_batch, c.k, c.n])));
            work.write = Some((c.output, bytes([c.batch, c.m, c.n])));
            work.cut = Cut::product([c.batch, c.m, c.n, c.k]);
            let macs = product([c.batch, c.m, c.n, c.k]);
            // The second operand enters the array as weights do, and its batches are groups.
            let gemm = Gemm {
                m: c.m.into(),
                n: c.n.into(),
                k: width.channels(c.k),
                step: c.k.into(),
                groups: c.batch.into(),
            };
            Amount {
                macs,
                gemm: Some(gemm),
                depthwise: None,
                taps: macs,
                elements: product([c.batch, c.m, c.n]),
            }
        }
        Command::IMatMul(c) => {
            let b_batch = if c.shared_b { 1 } else { c.batch };
            let bytes = |factors: [u32; 3], each: u64| product(factors).saturating_mul(each);
            let [a_zeros, b_zeros, scales] = c.counts;
            work.constants[0] = c.weights.map(|addr| (addr, bytes([1, c.k, c.n], 1)));
            work.set_reads([
                Some((c.a, bytes([c.batch, c.m, c.k], 1))),
                c.b.map(|addr| (addr, bytes([b_batch, c.k, c.n], 1))),
                c.a_zeros.map(|addr| (addr, a_zeros.into())),
                c.b_zeros.map(|addr| (addr, b_zeros.into())),
                c.scales.map(|addr| (addr, bytes([1, 1, scales], 4))),
            ]);
            work.write = Some((c.output, bytes([c.batch, c.m, c.n], 4)));
            let macs = product([c.batch, c.m, c.n, c.k]);
            Amount { macs, gemm: None, depthwise: None, taps: macs, elements: product([c.batch, c.m, c.n]) }
        }
        Command::TMatMul(c) => {
            let b_batch = if c.shared_b { 1 } else { c.batch };
            let bytes = |factors: [u32; 3]| product(factors).saturating_mul(c.dtype.bytes() as u64);
            work.reads[0] = Some((c.a, bytes([c.batch, c.m, c.k])));
            work.reads[1] = Some((c.b, bytes([b_batch, c.k, c.n])));
            work.write = Some((c.output, bytes([c.batch, c.m, c.n])));
            work.cut = Cut::product([c.batch, c.m, c.n, c.k]);
            let macs = product([c.batch, c.m, c.n, c.k]);
            Amount { macs, gemm: None, depthwise: None, taps: macs, elements: product([c.batch, c.m, c.n]) }
        }
        Command::QuantizeBy(c) => {
            let zero_point = c.zero_point.map(|addr| (addr, 1));
            work.set_reads([Some(width.map(&c.input)), Some((c.scale, 4)), zero_point]);
            work.write = Some(width.map(&c.output));
            Amount::elementwise(width.elements(&c.output))
        }
        Command::Weigh(c) => {
            let bytes = |factors: [u32; 3]| product(factors).saturating_mul(4);
            let own = bytes([if c.shared { 1 } else { c.batch }, c.taps, c.count]);
            work.set_reads([
                Some((c.input, bytes([c.batch, c.channels, c.elements]))),
                Some((c.indices, own)),
                c.factors.map(|addr| (addr, own)),
            ]);
            work.write = Some((c.output, bytes([c.batch, c.channels, c.count])));
            let elements = product([c.batch, c.channels, c.count]);
            Amount {
                macs: 0,
                gemm: None,
                depthwise: None,
                taps: elements.saturating_mul(c.taps.into()),
                elements,
            }
        }
        Command::Running(c) => {
            let elements = product(c.dims);
            let bytes = elements.saturating_mul(width.element(c.dtype.bytes() as u64));
            work.reads[0] = Some((c.input, bytes));
            work.write = Some((c.output, bytes));
            Amount::elementwise(elements)
        }
        Command::Pool(c) => {
            work.reads[0] = Some(width.map(&c.input));
            work.write = Some(width.map(&c.output));
            work.cut = Some(Cut::pool(&c.input, &c.output, &c.window));
            let elements = width.elements(&c.output);
            Amount {
                macs: 0,
                gemm: None,
                depthwise: None,
                taps: elements.saturating_mul(product(c.window.kernel)),
                elements,
            }
        }
        Command::GlobalPool(c) => {
            work.reads[0] = Some(width.map(&c.input));
            work.write = Some(width.map(&c.output));
            Amount {
                macs: 0,
                gemm: None,
                depthwise: None,
                taps: width.elements(&c.input),
                elements: width.elements(&c.output),
            }
        }
        Command::QAdd(c) => {
            let part = |operand| width.part(width.operand(operand, c.dims), c.counted);
            work.set_reads([Some(part(&c.a)), Some(part(&c.b)), None]);
            work.write = Some(part(&c.output));
            Amount::elementwise(width.counted(product(c.dims), c.counted))
        }
        Command::QMul(c) => {
            let part = |operand| width.part(width.operand(operand, c.dims), c.counted);
            work.set_reads([Some(part(&c.a)), Some(part(&c.b)), None]);
            work.write = Some(part(&c.output));
            // As many elements of the ordinary kind as take that long.
            let slow = vector.and_then(|vector| Some((vector, vector.products_per_cycle?)));
            let results = width.counted(product(c.dims), c.counted);
            Amount::elementwise(slow.map_or(results, |(vector, rate)| {
                results.div_ceil(rate.into()).saturating_mul(vector.elements_per_cycle.into())
            }))
        }
        Command::FBinary(c) => {
            work.set_reads([Some(width.operand(&c.a, c.dims)), Some(width.operand(&c.b, c.dims)), None]);
            work.write = Some(width.operand(&c.output, c.dims));
            Amount::elementwise(product(c.dims))
        }
        Command::FUnary(c) => {
            work.reads[0] = Some(width.map(&c.input));
            work.write = Some(width.map(&c.output));
            Amount::elementwise(width.elements(&c.output))
        }
        Command::Table(c) => {
            work.constants[0] = Some((c.table, if c.input.dtype.bytes() == 2 { 1 << 17 } else { 256 }));
            work.reads[0] = Some(width.map(&c.input));
            work.write = Some(width.map(&c.output));
            Amount::elementwise(width.elements(&c.output))
        }
        Command::Quantize(c) => {
            work.reads[0] = Some(width.map(&c.input));
            work.write = Some(width.map(&c.output));
            Amount::elementwise(width.elements(&c.output))
        }
        Command::Dequantize(c) => {
            work.reads[0] = Some(width.map(&c.input));
            work.write = Some(width.map(&c.output));
            Amount::elementwise(width.elements(&c.output))
        }
        Command::QSoftmax(c) => {
            let elements = product(c.dims);
            let bytes = elements.saturating_mul(width.element(c.dtype.bytes() as u64));
            work.reads[0] = Some((c.input, bytes));
            work.write = Some((c.output, bytes));
            softmax(elements)
        }
        Command::QNorm(c) => {
            let elements = product(c.dims);
            let bytes = elements.saturating_mul(width.element(c.dtype.bytes() as u64));
            let row = |addr: Option<Addr>| addr.map(|addr| (addr, 4 * u64::from(c.dims[1])));
            work.constants[..2].copy_from_slice(&[row(c.gamma), row(c.beta)]);
            work.reads[0] = Some((c.input, bytes));
            work.write = Some((c.output, bytes));
            normalization(elements)
        }
        Command::FNorm(c) => {
            let elements = c.dims.iter().map(|&extent| u64::from(extent)).fold(1, u64::saturating_mul);
            let row = |addr: Option<Addr>| addr.map(|addr| (addr, 4 * u64::from(c.dims[1])));
            work.constants[..2].copy_from_slice(&[row(c.gamma), row(c.beta)]);
            work.reads[0] = Some((c.input, elements.saturating_mul(4)));
            work.write = Some((c.output, elements.saturating_mul(4)));
            normalization(elements)
        }
        Command::FSoftmax(c) => {
            let elements = product(c.dims);
            work.reads[0] = Some((c.input, elements.saturating_mul(4)));
            work.write = Some((c.output, elements.saturating_mul(4)));
            softmax(elements)
        }
        Command::Resize(c) => {
            work.reads[0] = Some(width.map(&c.input));
            work.write = Some(width.map(&c.output));
            let elements = width.elements(&c.output);
            let taps = if c.mode == ResizeMode::Linear { 4 } else { 1 };
            Amount { macs: 0, gemm: None, depthwise: None, taps: elements.saturating_mul(taps), elements }
        }
        Command::Warp(c) => {
            let images = u64::from(c.output.n);
            let indices = c.images.map(|addr| (addr, 4 * images));
            work.set_reads([Some(width.map(&c.input)), Some((c.matrices, 36 * images)), indices]);
            work.write = Some(width.map(&c.output));
            let elements = c.output.elements();
            Amount {
                macs: 0,
                gemm: None,
                depthwise: None,
                taps: elements.saturating_mul(c.sampling.taps()),
                elements,
            }
        }
        Command::Recurrence(c) => {
            let (gates, states) = (c.cell.gates() as u32, c.cell.states() as u32);
            let bytes = |factors: [u32; 4]| product(factors).saturating_mul(4);
            let weights = bytes([c.directions, gates, c.hidden, c.hidden]);
            work.constants[0] = c.weights.map(|addr| (addr, weights));
            work.set_reads([
                Some((c.input, bytes([c.steps, c.batch, c.directions * gates, c.hidden]))),
                c.given_weights.map(|addr| (addr, weights)),
                c.vectors.map(|addr| (addr, bytes([1, c.directions, c.cell.vectors() as u32, c.hidden]))),
                c.initial.map(|addr| (addr, bytes([states, c.directions, c.batch, c.hidden]))),
                c.lengths.map(|addr| (addr, bytes([1, 1, 1, c.batch]))),
            ]);
            let rows = c.steps.saturating_add(states);
            work.write = Some((c.output, bytes([rows, c.directions, c.batch, c.hidden])));
            let elements = product([c.steps, c.directions, c.batch, c.hidden]);
            let macs = elements.saturating_mul(product([gates, c.hidden]));
            Amount { macs, gemm: None, depthwise: None, taps: macs, elements }
        }
        Command::Reduce(c) => {
            work.reads[0] = Some(width.operand(&c.input, c.dims));
            let kept = kept(c.dims, |axis| c.axes >> axis & 1 == 1);
            work.write = Some(width.operand(&c.output, kept));
            Amount { macs: 0, gemm: None, depthwise: None, taps: product(c.dims), elements: product(kept) }
        }
        Command::Binary(c) => {
            work.set_reads([Some(width.operand(&c.a, c.dims)), Some(width.operand(&c.b, c.dims)), None]);
            work.write = Some(width.operand(&c.output, c.dims));
            Amount::elementwise(product(c.dims))
        }
        Command::Select(c) => {
            work.set_reads([&c.condition, &c.a, &c.b].map(|operand| Some(width.operand(operand, c.dims))));
            work.write = Some(width.operand(&c.output, c.dims));
            Amount::elementwise(product(c.dims))
        }
        Command::Convert(c) => {
            work.reads[0] = Some(width.operand(&c.input, c.dims));
            work.write = Some(width.operand(&c.output, c.dims));
            Amount::elementwise(product(c.dims))
        }
        Command::Take(c) => {
            // As many elements are read as are written, wherever they lie.
            let bytes = product(c.dims).saturating_mul(width.element(c.elem_bytes.into()));
            work.reads[0] = Some((c.src, bytes));
            let (addr, indices) = width.operand(&c.indices, c.dims);
            work.reads[1] = Some((addr, indices.saturating_mul(c.count.into())));
            work.write = Some((c.dst, bytes));
            Amount::elementwise(product(c.dims))
        }
        Command::Put(c) => {
            let bytes = product(c.dims).saturating_mul(width.element(c.dtype.bytes() as u64));
            work.reads[0] = Some((c.src, bytes));
            let (addr, indices) = width.operand(&c.indices, c.dims);
            work.reads[1] = Some((addr, indices.saturating_mul(c.count.into())));
            work.write = Some((c.dst, bytes));
            Amount::elementwise(product(c.dims))
        }
        Command::Order(c) => {
            let elements = product(c.dims);
            let [outer, len, inner] = c.dims;
            let results = product([outer, c.k, inner]);
            work.reads[0] = Some((c.input, elements.saturating_mul(width.element(c.dtype.bytes() as u64))));
            work.write = Some((c.output, results.saturating_mul(8)));
            // Comparisons of a sort by merging.
            let rounds = u64::from(u32::BITS - len.leading_zeros());
            Amount {
                macs: 0,
                gemm: None,
                depthwise: None,
                taps: elements.saturating_mul(rounds),
                elements: results,
            }
        }
        Command::ArgReduce(c) => {
            work.reads[0] = Some(width.operand(&c.input, c.dims));
            let kept = kept(c.dims, |axis| c.axis as usize == axis);
            work.write = Some(width.operand(&c.output, kept));
            Amount { macs: 0, gemm: None, depthwise: None, taps: product(c.dims), elements: product(kept) }
        }
    };
    (work, amount)
}

/// The extents of a reduction's result.
fn kept(mut dims: [u32; 6], goes: impl Fn(usize) -> bool) -> [u32; 6] {
    for (axis, dim) in dims.iter_mut().enumerate() {
        if goes(axis) {
            *dim = 1;
        }
    }
    dims
}

/// Three passes: both sums, differences times the inverse deviation, factors and addends.
const fn normalization(elements: u64) -> Amount {
    Amount::elementwise(elements.saturating_mul(3))
}

/// Three passes: maximum, exponentials and their sum, division.
const fn softmax(elements: u64) -> Amount {
    Amount::elementwise(elements.saturating_mul(3))
}
