//! What a command asks of the engines: multiply-accumulates, busy cycles, bytes per segment.
//!
//! Bytes are those of elements, never of gaps or padding; a repeated (broadcast) operand counts once.

use std::collections::HashMap;

use crate::{
    Addr, Command, FeatureMap,
    command::{Access, Elements, Use, Window, product},
    spec::{ArraySpec, BorderSpec, Depthwise, DeviceSpec, Groups, Precision, VectorSpec},
};

use super::TimingOptions;
use super::array::{Gemm, SramAccesses, bytes_of, vector_cycles};

/// Bytes at an address.
pub(super) type Traffic = (Addr, u64);

/// The work of one command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Cycles before it can compute.
    pub(super) launch: u64,
    pub(super) macs: u64,
    /// Multiply-accumulates or comparisons of windows, which the array does not do.
    pub(super) taps: u64,
    /// Cycles that the array or the vector unit is busy.
    pub(super) cycles: u64,
    /// Accesses to the array's operand buffers; none for what runs on the vector unit.
    pub(super) sram: SramAccesses,
    /// Results of the vector unit, or of the array, which pass it.
    pub(super) elements: u64,
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
        let inner = product(window.kernel).saturating_mul(width.inner(input.c));
        // Groups have inputs of their own: a panel of them would need a part of the map only.
        let apart = width.groups(window.groups) > 1 || is_depthwise(input, window);
        let [panels, chunks] = if apart { [1, 1] } else { [output.c.into(), inner] };
        Self {
            rows: if own { pixels } else { product([output.n, output.h]) }.max(1),
            panels,
            chunks,
            sums: pixels.saturating_mul(output.c.into()).saturating_mul(4),
            second_is_weights: false,
            reach: (!own).then(|| Reach::new(input, output, window)),
        }
    }

    /// That of a convolution of 8-bit integers.
    #[cfg(test)]
    pub(super) fn of_window(
        spec: &DeviceSpec,
        input: &FeatureMap,
        output: &FeatureMap,
        window: &Window,
    ) -> Self {
        Self::convolution(Width::on(spec, &TimingOptions::default()), input, output, window)
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

    /// Behind the rows of results, from `from` on, of which equally many need equally many rows of the input; `from` if there are none.
    pub(super) fn alike_until(&self, from: u64) -> u64 {
        let Some(reach) = &self.reach else { return u64::MAX };
        let inside = from >= reach.within[0] && from.saturating_mul(reach.stride) >= reach.pad;
        // Windows of several images' edges differ.
        if reach.images != 1 || !inside {
            return from;
        }
        let last = (reach.rows_in + reach.pad).checked_sub(reach.extent).map(|rows| rows / reach.stride);
        last.map_or(from, |last| reach.within[1].min(last + 1)).max(from)
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
    /// Whether its weights are constants, of which the array may skip some.
    skips: bool,
}

impl Amount {
    const fn elementwise(elements: u64) -> Self {
        Self { macs: 0, gemm: None, depthwise: None, taps: 0, elements, skips: false }
    }

    /// The product that an array computes of it, if it does.
    fn on_array(&self, array: &ArraySpec) -> Option<Gemm> {
        match (self.depthwise, array.depthwise()) {
            (None, _) | (Some(_), Depthwise::Groups) => self.gemm,
            (Some(_), Depthwise::Vector) => None,
            (window @ Some(_), Depthwise::Window) => window,
        }
    }

    /// Multiply-accumulates that the array cannot skip.
    fn ideal(&self, array: &ArraySpec) -> u64 {
        if self.skips { array.kept(self.macs) } else { self.macs }
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
        work.elements = self.elements;
        if let (Some(cut), Some(array)) = (&mut work.cut, &spec.array) {
            // Less than the array's extents would leave a part of it idle.
            let columns = u64::from(array.columns).saturating_mul(array.units[1].into());
            cut.panels = cut.panels.div_ceil(columns).max(1);
            cut.chunks = cut.chunks.div_ceil(array.rows.into()).max(1);
        }
        let product = spec.array.as_ref().and_then(|array| Some((self.on_array(array)?, array)));
        // Results pass the vector unit for requantization while they leave the array.
        work.cycles = if let Some((gemm, array)) = product {
            work.sram = gemm.sram(array);
            work.ideal = self.ideal(array).div_ceil(array.macs_per_cycle().max(1));
            gemm.array_cycles(array, options.precision, options.array_percent).max(on_vector(0))
        } else {
            work.taps = self.taps;
            on_vector(self.taps)
        };
    }
}

/// How elements lie: bytes of those that the commands have as 8-bit ones, and blocks of channels.
#[derive(Clone, Copy)]
struct Width {
    bytes: u64,
    border: BorderSpec,
    /// Blocks that channels enter inner products in.
    inner: u32,
    /// The array, if there is one.
    array: Option<ArraySpec>,
    /// Whether padding of blocks counts wherever it is read or written.
    addressed: bool,
}

impl Width {
    /// How they lie on a device.
    fn on(spec: &DeviceSpec, options: &TimingOptions) -> Self {
        Self {
            bytes: bytes_of(options.precision),
            border: spec.border,
            inner: spec.array.and_then(|array| array.channels).unwrap_or(spec.border.channels),
            array: spec.array,
            addressed: false,
        }
    }

    /// How they lie without blocks of channels, as commands address them.
    fn addressed() -> Self {
        Self { bytes: 1, border: BorderSpec::default(), inner: 1, array: None, addressed: true }
    }

    fn element(self, bytes: u64) -> u64 {
        if bytes == 1 { self.bytes } else { bytes }
    }

    /// Channels with those that fill the last block.
    fn channels(self, channels: u32) -> u64 {
        self.in_blocks(channels, self.border.channels)
    }

    /// Channels that an inner product has of so many, with zeros that fill the last block.
    fn inner(self, channels: u32) -> u64 {
        self.in_blocks(channels, self.inner)
    }

    fn in_blocks(self, channels: u32, block: u32) -> u64 {
        let block = match self.border.image_channels {
            images if channels <= images => images,
            _ => block,
        };
        u64::from(channels).next_multiple_of(block.max(1).into())
    }

    /// As how many groups an array computes a convolution of so many, which is not depthwise.
    fn groups(self, groups: u32) -> u32 {
        let dense = self.array.is_some_and(|array| array.groups == Groups::Dense);
        if dense { 1 } else { groups.max(1) }
    }

    /// Inputs of a product with constant weights that the array does not skip.
    fn kept(self, k: u64) -> u64 {
        self.array.map_or(k, |array| array.kept(k))
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

    /// How many elements count.
    fn count(self, elements: &Elements) -> u64 {
        match elements {
            Elements::Map(map) => self.elements(map),
            Elements::Extents(dims) => product(*dims),
            Elements::Part(dims, counted) => self.counted(product(*dims), *counted),
        }
    }

    fn bytes(self, access: &Access) -> u64 {
        let each = self.element(access.each);
        match &access.elements {
            Elements::Part(dims, counted) => self.counted(product(*dims).saturating_mul(each), *counted),
            elements => self.count(elements).saturating_mul(each),
        }
    }

    /// Of `elements`, those that are no padding of blocks, where that does not count.
    fn counted(self, elements: u64, [part, of]: [u32; 2]) -> u64 {
        if of == 0 || self.addressed {
            elements
        } else {
            elements.saturating_mul(part.into()) / u64::from(of)
        }
    }
}

/// The amount of a convolution: an array computes dense and grouped ones, and depthwise ones if its description says so.
fn convolution(
    width: Width,
    input: &FeatureMap,
    output: &FeatureMap,
    window: &Window,
    on_array: bool,
) -> Amount {
    let inputs = input.c / window.groups.max(1);
    let kernel = product(window.kernel);
    let depthwise = is_depthwise(input, window);
    let groups = if depthwise { window.groups } else { width.groups(window.groups) };
    let gemm = Gemm {
        m: product([output.n, output.h, output.w]),
        n: u64::from(output.c / groups),
        // A pixel's channels come in whole blocks, of which the last holds zeros.
        k: width.kept(kernel.saturating_mul(width.inner(input.c / groups))),
        step: product([window.kernel[0], window.stride[1].min(window.kernel[1]), input.c])
            / u64::from(groups),
        groups: groups.into(),
    };
    let all = width.kept(kernel.saturating_mul(width.inner(input.c)));
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
        skips: true,
    }
}

/// Whether each channel of the input is a group of its own.
const fn is_depthwise(input: &FeatureMap, window: &Window) -> bool {
    window.groups > 1 && input.c == window.groups
}

/// Bytes of a command's weights, of `bytes` as it has them, where they lie and move on the device: with those between groups, if it
/// has them, without those that it skips.
fn weight_bytes(width: Width, command: &Command, bytes: u64) -> u64 {
    match (command, width.array) {
        (Command::QConv(c), Some(array)) if !is_depthwise(&c.input, &c.window) => {
            let copies = c.window.groups.max(1) / width.groups(c.window.groups);
            array.stored(bytes.saturating_mul(copies.into()))
        }
        _ => bytes,
    }
}

/// Bytes of constants that the commands use, as the device holds them.
pub(super) fn constant_bytes<'a>(spec: &DeviceSpec, commands: impl IntoIterator<Item = &'a Command>) -> u64 {
    let width = Width::on(spec, &TimingOptions::default());
    let mut once: HashMap<Addr, u64> = HashMap::new();
    for command in commands {
        for (addr, bytes) in measure(width, None, command).0.constants.into_iter().flatten() {
            let most = once.entry(addr).or_default();
            *most = bytes.max(*most);
        }
    }
    once.into_values().fold(0, u64::saturating_add)
}

/// Cycles before a command can compute.
fn launch(spec: &DeviceSpec, command: &Command, precision: Precision) -> u64 {
    let launch = &spec.launch;
    let cycles = match precision {
        Precision::Int8 => launch.command_cycles,
        Precision::Int16 => launch.command_cycles_16.unwrap_or(launch.command_cycles),
    };
    let function = matches!(command, Command::QConv(c) if c.table.is_some());
    u64::from(cycles) + if function { launch.table_cycles.into() } else { 0 }
}

/// The work of `command` on `spec` under the circumstances `options`.
pub(super) fn work(spec: &DeviceSpec, command: &Command, options: &TimingOptions) -> Work {
    let work = work_at(Width::on(spec, options), spec, command, options);
    Work { launch: launch(spec, command, options.precision), ..work }
}

/// The work of `command` on maps that lie without blocks of channels, as the commands address them.
pub(super) fn work_as_addressed(spec: &DeviceSpec, command: &Command) -> Work {
    work_at(Width::addressed(), spec, command, &TimingOptions::default())
}

fn work_at(width: Width, spec: &DeviceSpec, command: &Command, options: &TimingOptions) -> Work {
    let (mut work, amount) = measure(width, spec.vector, command);
    amount.put(&mut work, spec, options);
    work
}

/// The operations of `command`, see [`super::operations`].
pub(super) fn operations(command: &Command) -> u64 {
    let width = Width::addressed();
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
    let mut work = Work { cut: cut(width, command), ..Work::default() };
    let (mut constants, mut reads) = (work.constants.iter_mut(), work.reads.iter_mut());
    let mut write = None;
    command.accesses(&mut |used, access| {
        let traffic = access.map(|(addr, access)| (addr, width.bytes(&access)));
        let slot = match used {
            Use::Const => constants.next(),
            Use::In => reads.next(),
            Use::Out => Some(&mut write),
        };
        debug_assert!(
            slot.is_some(),
            "{} has more operands than the work of a command",
            command.opcode().mnemonic()
        );
        if let Some(slot) = slot {
            *slot = traffic;
        }
    });
    work.write = write;
    // The first constant is the weights.
    if let Some((_, bytes)) = &mut work.constants[0] {
        *bytes = weight_bytes(width, command, *bytes);
    }
    (work, amount(width, vector, command))
}

/// How the command can be cut.
fn cut(width: Width, command: &Command) -> Option<Cut> {
    match command {
        Command::QConv(c) => Some(Cut::convolution(width, &c.input, &c.output, &c.window)),
        Command::FConv(c) => Some(Cut::convolution(width, &c.input, &c.output, &c.window)),
        Command::Pool(c) => Some(Cut::pool(&c.input, &c.output, &c.window)),
        Command::FMatMul(c) => Cut::product([c.batch, c.m, c.n, c.k]),
        Command::QMatMul(c) => Cut::product([c.batch, c.m, c.n, c.k]),
        Command::TMatMul(c) => Cut::product([c.batch, c.m, c.n, c.k]),
        _ => None,
    }
}

/// What a command computes: as many elements as it makes, each of as many as its table says, unless the engines have more to do.
fn amount(width: Width, vector: Option<VectorSpec>, command: &Command) -> Amount {
    let elements = command.makes().map_or(0, |made| width.count(&made));
    let taps = |taps| Amount { taps, ..Amount::elementwise(elements) };
    let products = |k: u32| {
        let macs = elements.saturating_mul(k.into());
        Amount { macs, ..taps(macs) }
    };
    match command {
        Command::Copy(_) | Command::Fill(_) => Amount::NONE,
        Command::QConv(c) => convolution(width, &c.input, &c.output, &c.window, true),
        Command::FConv(c) => convolution(width, &c.input, &c.output, &c.window, false),
        Command::FMatMul(c) => products(c.k),
        Command::IMatMul(c) => products(c.k),
        Command::TMatMul(c) => products(c.k),
        Command::BlockMatMul(c) => products(c.extents[2]),
        // The second operand enters the array as weights do, and its batches are groups.
        Command::QMatMul(c) => {
            let gemm = Gemm {
                m: c.m.into(),
                n: c.n.into(),
                k: width.inner(c.k),
                step: c.k.into(),
                groups: c.batch.into(),
            };
            Amount { gemm: Some(gemm), ..products(c.k) }
        }
        // Both products; and of the scores, three passes as of a softmax.
        Command::FAttention(c) => {
            let scores = product([c.heads[0], c.heads[1], c.queries, c.keys]);
            let macs = scores.saturating_mul(u64::from(c.width) + u64::from(c.elements));
            Amount { macs, taps: macs, ..Amount::elementwise(scores.saturating_mul(3)) }
        }
        Command::Recurrence(c) => {
            let elements = elements.saturating_mul(c.steps.into());
            let macs = elements.saturating_mul(product([c.cell.gates() as u32, c.hidden]));
            Amount { macs, taps: macs, ..Amount::elementwise(elements) }
        }
        Command::GlobalPool(c) => taps(width.elements(&c.input)),
        // As many elements of the ordinary kind as take that long.
        Command::QMul(_) => match vector.and_then(|vector| Some((vector, vector.products_per_cycle?))) {
            Some((vector, rate)) => Amount::elementwise(
                elements.div_ceil(rate.into()).saturating_mul(vector.elements_per_cycle.into()),
            ),
            None => Amount::elementwise(elements),
        },
        // A product, and what is done with it.
        Command::FTriple(_) => Amount::elementwise(elements.saturating_mul(2)),
        // Two products and their sum; three passes: maximum, exponentials and their sum, division; both sums, differences times the inverse deviation, factors
        // and addends.
        Command::QSoftmax(_)
        | Command::FSoftmax(_)
        | Command::FLogSoftmax(_)
        | Command::Rotate(_)
        | Command::QNorm(_)
        | Command::FNorm(_) => Amount::elementwise(elements.saturating_mul(3)),
        // Comparisons of a sort by merging.
        Command::Order(c) => {
            taps(product(c.dims).saturating_mul(u64::from(u32::BITS - c.dims[1].leading_zeros())))
        }
        _ => taps(command.taps().map_or(0, |each| elements.saturating_mul(each))),
    }
}
