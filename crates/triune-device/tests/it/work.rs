//! What each command is counted as: bytes per operand, cycles of the vector unit, products. Extents are different primes, so
//! that no two of them can be mixed up.

use crate::common;
use crate::common::operand;
use triune_device::{
    Addr, Command, CommandTime, DeviceSpec, FeatureMap, TimingOptions,
    command::{
        ArgReduce, BlockMatMul, Convert, Copy, FAttention, FBinary, FMatMul, FSoftmax, Fill, GlobalPool,
        IMatMul, Operand, Order, Pool, Put, QMatMul, QNorm, QSoftmax, QuantizeBy, Recurrence, Reduce,
        RequantTarget, Resize, Running, Select, TMatMul, Take, Warp, Weigh, Window,
    },
    spec::VectorSpec,
    timeline, work,
};
use triune_tensor::{
    DType, Requantize, Rounding,
    function::{
        BinaryKind, BorderMode, CellKind, CoordinateMode, NearestMode, PoolKind, ReduceKind, ResizeMode,
        Sampling, ScatterKind, UnaryKind,
    },
};

/// Memories of the segments: the first operand and constants, the second operand, the result.
const PLACEMENT: [&str; 3] = ["ddr", "l2", "l1"];
const A: Addr = Addr::new(0, 0);
const B: Addr = Addr::new(1, 0);
const Y: Addr = Addr::new(2, 0);
const DIMS: [u32; 6] = [1, 1, 2, 3, 5, 7];
const ELEMENTS: u64 = 2 * 3 * 5 * 7;

/// One tap and one element per cycle, so that cycles are what was counted; taps count wherever there are more of them.
fn spec() -> DeviceSpec {
    let mut spec = DeviceSpec::builtin("metis").expect("builtin");
    spec.vector = Some(VectorSpec { elements_per_cycle: 1, taps_per_cycle: 1, products_per_cycle: None });
    // Channels as they are: blocks are tested elsewhere.
    (spec.border.channels, spec.border.image_channels) = (1, 1);
    spec.array.as_mut().expect("an array").channels = None;
    // Every operand is read once, as a whole: tiles are tested elsewhere.
    spec.queues.buffer_bytes = None;
    spec
}

fn time(command: &Command) -> CommandTime {
    let found = timeline(&spec(), [*command], &PLACEMENT, &TimingOptions::default()).expect("timed");
    found.commands[0]
}

/// Bytes read from each of [`PLACEMENT`]'s memories, bytes written, cycles, products. The limit of a run's work counts whichever
/// of the latter are more, and elements where nothing is computed with them.
#[track_caller]
fn is(command: impl Into<Command>, read: [u64; 3], written: u64, compute: u64, macs: u64) {
    let command = command.into();
    let operations = match &command {
        Command::Copy(_) | Command::Fill(_) => ELEMENTS,
        _ => compute.max(macs),
    };
    assert_eq!(work::operations(&command), operations, "{command:?}: operations");
    let (spec, found) = (spec(), time(&command));
    let at = |name: &str| spec.memory_index(name).expect("a memory");
    assert_eq!(PLACEMENT.map(|name| found.bytes_read[at(name)]), read, "{:?}: read", found.opcode);
    let all: u64 = PLACEMENT.iter().map(|name| found.bytes_written[at(name)]).sum();
    assert_eq!((found.bytes_written[at("l1")], all), (written, written), "{:?}: written", found.opcode);
    assert_eq!((found.compute, found.macs), (compute, macs), "{:?}: cycles and products", found.opcode);
}

fn map(addr: Addr, dtype: DType, dims: [u32; 4]) -> FeatureMap {
    FeatureMap::dense(addr, dtype, dims)
}

/// With the last axis repeated.
fn repeated(addr: Addr, dtype: DType) -> Operand {
    let mut strides = operand(addr, dtype, DIMS).strides;
    strides[5] = 0;
    Operand { addr, dtype, strides }
}

#[test]
fn matrix_products() {
    let product = FMatMul {
        batch: 2,
        m: 3,
        n: 5,
        k: 7,
        a: A,
        transpose_a: false,
        b: B,
        transpose_b: false,
        shared_b: false,
        bias: None,
        output: Y,
        activation: UnaryKind::Identity,
    };
    let macs = 2 * 3 * 5 * 7;
    is(product, [4 * 2 * 3 * 7, 4 * 2 * 5 * 7, 0], 4 * 2 * 3 * 5, macs, macs);
    // One second operand for all, and a bias per column.
    let shared = FMatMul { shared_b: true, bias: Some(A), ..product };
    is(shared, [4 * (2 * 3 * 7 + 5), 4 * 5 * 7, 0], 4 * 2 * 3 * 5, macs, macs);
    // How operands lie changes nothing.
    let turned = FMatMul { transpose_a: true, transpose_b: true, ..product };
    is(turned, [4 * 2 * 3 * 7, 4 * 2 * 5 * 7, 0], 4 * 2 * 3 * 5, macs, macs);
    // A product of one element has an element, too.
    is(FMatMul { k: 0, ..product }, [0; 3], 4 * 2 * 3 * 5, 2 * 3 * 5, 0);
    // Of attention both products count, whose scores go nowhere.
    let at = |addr, rows, len| operand(addr, DType::F32, [1, 1, 2, 3, rows, len]);
    let (q, k, v, output) = (at(A, 5, 7), at(B, 11, 7), at(B, 11, 13), at(Y, 5, 13));
    let attention = FAttention {
        heads: [2, 3],
        queries: 5,
        keys: 11,
        width: 7,
        elements: 13,
        scale: 1.0,
        q,
        k,
        v,
        bias: None,
        bias_strides: [0; 6],
        output,
    };
    let (scores, heads) = (2 * 3 * 5 * 11, 4 * 2 * 3);
    let both = scores * (7 + 13);
    is(attention, [heads * 5 * 7, heads * 11 * (7 + 13), 0], heads * 5 * 13, both, both);
    // Bytes.
    let target = RequantTarget { dtype: DType::I8, zero_point: 0 };
    let product = QMatMul {
        batch: 2,
        m: 3,
        n: 5,
        k: 7,
        a: A,
        a_target: target,
        transpose_a: false,
        b: B,
        b_target: target,
        transpose_b: false,
        shared_b: false,
        output: Y,
        result: target,
        multiplier: 0.01,
        rounding: Rounding::HalfToEven,
    };
    // On the array, whose results pass the vector unit.
    is(product, [2 * 3 * 7, 2 * 5 * 7, 0], 2 * 3 * 5, 2 * 3 * 5, macs);
    is(QMatMul { shared_b: true, ..product }, [2 * 3 * 7, 5 * 7, 0], 2 * 3 * 5, 2 * 3 * 5, macs);
    // On the vector unit, a tap per product.
    let product = IMatMul {
        batch: 2,
        m: 3,
        n: 5,
        k: 7,
        a: A,
        a_dtype: DType::U8,
        b: Some(B),
        weights: None,
        b_dtype: DType::I8,
        shared_b: false,
        a_zeros: Some(A),
        b_zeros: Some(B),
        scales: Some(B),
        counts: [3, 1, 5],
        output: Y,
    };
    is(product, [2 * 3 * 7 + 3, 2 * 5 * 7 + 1 + 4 * 5, 0], 4 * 2 * 3 * 5, macs, macs);
    let known = IMatMul { b: None, weights: Some(B), b_zeros: None, scales: None, ..product };
    is(known, [2 * 3 * 7 + 3, 5 * 7, 0], 4 * 2 * 3 * 5, macs, macs);
    let shared = IMatMul { shared_b: true, ..product };
    is(shared, [2 * 3 * 7 + 3, 5 * 7 + 1 + 4 * 5, 0], 4 * 2 * 3 * 5, macs, macs);
    let product =
        TMatMul { dtype: DType::F64, batch: 2, m: 3, n: 5, k: 7, a: A, b: B, shared_b: false, output: Y };
    is(product, [8 * 2 * 3 * 7, 8 * 2 * 5 * 7, 0], 8 * 2 * 3 * 5, macs, macs);
    is(TMatMul { shared_b: true, ..product }, [8 * 2 * 3 * 7, 8 * 5 * 7, 0], 8 * 2 * 3 * 5, macs, macs);
    // Two blocks a column, of eight bytes with factor and zero point behind them.
    let product =
        BlockMatMul { extents: [3, 5, 20], blocks: [4, 16], integers: true, input: A, weights: B, output: Y };
    is(product, [4 * 3 * 20, 5 * 2 * (8 + 8), 0], 4 * 3 * 5, 3 * 5 * 20, 3 * 5 * 20);
}

#[test]
fn running_sums_and_computed_scales() {
    let sums = Running {
        input: A,
        output: Y,
        dtype: DType::I16,
        dims: [2, 3, 5],
        product: false,
        exclusive: false,
        reverse: false,
    };
    is(sums, [2 * 30, 0, 0], 2 * 30, 30, 0);
    let quantizer = QuantizeBy {
        input: map(A, DType::F32, [1, 3, 5, 7]),
        output: map(Y, DType::U8, [1, 3, 5, 7]),
        scale: B,
        zero_point: Some(B),
        rounding: Rounding::HalfToEven,
    };
    is(quantizer, [4 * 105, 5, 0], 105, 105, 0);
    let sums = Weigh {
        batch: 2,
        channels: 3,
        elements: 7,
        count: 5,
        taps: 4,
        shared: false,
        input: A,
        indices: B,
        factors: Some(B),
        output: Y,
    };
    // A tap per element of a result.
    is(sums, [4 * 42, 2 * 4 * 40, 0], 4 * 30, 4 * 30, 0);
    is(Weigh { shared: true, factors: None, ..sums }, [4 * 42, 4 * 20, 0], 4 * 30, 4 * 30, 0);
}

#[test]
fn movement() {
    let strides = operand(A, DType::I16, DIMS).strides;
    let copy = Copy { elem_bytes: 2, dims: DIMS, src: A, src_strides: strides, dst: Y, dst_strides: strides };
    is(copy, [2 * ELEMENTS, 0, 0], 2 * ELEMENTS, 0, 0);
    // What is repeated is read once.
    is(Copy { src_strides: repeated(A, DType::I16).strides, ..copy }, [2 * 30, 0, 0], 2 * ELEMENTS, 0, 0);
    is(
        Fill { elem_bytes: 2, dims: DIMS, dst: Y, dst_strides: strides, value: 1 },
        [0; 3],
        2 * ELEMENTS,
        0,
        0,
    );
    let take = Take {
        elem_bytes: 2,
        dims: DIMS,
        src: A,
        src_strides: [0; 6],
        indices: repeated(B, DType::I64),
        count: 3,
        index_stride: 8,
        extents: [11, 13, 17, 1, 1, 1],
        axis_strides: [2, 4, 6, 0, 0, 0],
        dst: Y,
        dst_strides: strides,
    };
    is(take, [2 * ELEMENTS, 8 * 30 * 3, 0], 2 * ELEMENTS, ELEMENTS, 0);
    let put = Put {
        dtype: DType::I16,
        kind: ScatterKind::Set,
        dims: DIMS,
        src: A,
        src_strides: strides,
        indices: repeated(B, DType::I64),
        count: 3,
        index_stride: 8,
        extents: [11, 13, 17, 1, 1, 1],
        axis_strides: [2, 4, 6, 0, 0, 0],
        dst: Y,
        dst_strides: [0; 6],
    };
    is(put, [2 * ELEMENTS, 8 * 30 * 3, 0], 2 * ELEMENTS, ELEMENTS, 0);
}

#[test]
fn element_by_element() {
    let at = |addr, dtype| operand(addr, dtype, DIMS);
    let sum = FBinary {
        dims: DIMS,
        kind: BinaryKind::Add,
        a: at(A, DType::F32),
        b: repeated(B, DType::F32),
        output: at(Y, DType::F32),
        activation: UnaryKind::Identity,
    };
    is(sum, [4 * ELEMENTS, 4 * 30, 0], 4 * ELEMENTS, ELEMENTS, 0);
    let select = Select {
        dims: DIMS,
        condition: at(A, DType::Bool),
        a: repeated(B, DType::F32),
        b: at(B, DType::F32),
        output: at(Y, DType::F32),
    };
    is(select, [ELEMENTS, 4 * (30 + ELEMENTS), 0], 4 * ELEMENTS, ELEMENTS, 0);
    let convert = Convert { dims: DIMS, input: at(A, DType::I64), output: at(Y, DType::I16) };
    is(convert, [8 * ELEMENTS, 0, 0], 2 * ELEMENTS, ELEMENTS, 0);
    let rows = FSoftmax { input: A, output: Y, dims: [2, 3, 5] };
    // Three passes.
    is(rows, [4 * 30, 0, 0], 4 * 30, 3 * 30, 0);
    let quant = common::quant(1.0, 0);
    let rows = QSoftmax {
        input: A,
        output: Y,
        dtype: DType::U8,
        dims: [2, 3, 5],
        input_quant: quant,
        output_quant: quant,
    };
    is(rows, [30, 0, 0], 30, 3 * 30, 0);
    let rows = QNorm {
        input: A,
        output: Y,
        dtype: DType::U8,
        dims: [2, 3, 5],
        input_quant: quant,
        output_quant: quant,
        epsilon: 1e-5,
        gamma: Some(B),
        beta: None,
        rounding: Rounding::HalfToEven,
        centred: true,
    };
    // Three factors.
    is(rows, [30, 4 * 3, 0], 30, 3 * 30, 0);
}

#[test]
fn reductions() {
    let at = |addr, dtype| operand(addr, dtype, DIMS);
    let sum = Reduce {
        dims: DIMS,
        axes: 1 << 3 | 1 << 5,
        kind: ReduceKind::Sum,
        input: at(A, DType::F32),
        output: at(Y, DType::F32),
    };
    is(sum, [4 * ELEMENTS, 0, 0], 4 * 10, ELEMENTS, 0);
    let place = ArgReduce {
        dims: DIMS,
        axis: 4,
        largest: true,
        last: false,
        input: at(A, DType::I16),
        output: at(Y, DType::I64),
    };
    is(place, [2 * ELEMENTS, 0, 0], 8 * 2 * 3 * 7, ELEMENTS, 0);
    let order = Order { input: A, dtype: DType::I16, dims: [2, 11, 3], k: 5, descending: true, output: Y };
    // As many rounds of merging as 11 has bits.
    is(order, [2 * 66, 0, 0], 8 * 2 * 5 * 3, 4 * 66, 0);
}

#[test]
fn images() {
    let x = map(A, DType::U8, [1, 11, 13, 3]);
    let quant = common::quant(1.0, 0);
    let pool = Pool {
        input: x,
        output: map(Y, DType::U8, [1, 5, 7, 3]),
        window: Window { kernel: [2, 3], stride: [2, 2], dilation: [1; 2], pad: [0, 1, 0, 2], groups: 1 },
        kind: PoolKind::Max,
        input_quant: quant,
        output_quant: quant,
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    };
    is(pool, [11 * 13 * 3, 0, 0], 5 * 7 * 3, 5 * 7 * 3 * 6, 0);
    let global = GlobalPool {
        input: x,
        output: map(Y, DType::U8, [1, 1, 1, 3]),
        kind: PoolKind::Max,
        input_quant: quant,
        output_quant: quant,
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    };
    is(global, [11 * 13 * 3, 0, 0], 3, 11 * 13 * 3, 0);
    for (mode, taps) in [(ResizeMode::Linear, 4), (ResizeMode::Nearest(NearestMode::Floor), 1)] {
        let resize = Resize {
            input: map(A, DType::F32, [1, 5, 7, 3]),
            output: map(Y, DType::F32, [1, 11, 13, 3]),
            mode,
            coordinates: CoordinateMode::HalfPixel,
            scales: [0.0; 2],
            zero_points: [0; 2],
            factor: 0.0,
            rounding: Rounding::HalfToEven,
        };
        is(resize, [4 * 5 * 7 * 3, 0, 0], 4 * 11 * 13 * 3, taps * 11 * 13 * 3, 0);
    }
    for (sampling, taps) in [(Sampling::Linear, 4), (Sampling::AffineGrid, 4), (Sampling::Nearest, 1)] {
        for images in [None, Some(B)] {
            let warp = Warp {
                input: map(A, DType::U8, [2, 5, 7, 3]),
                output: map(Y, DType::U8, [3, 11, 13, 3]),
                matrices: B,
                images,
                sampling,
                border: BorderMode::Replicate,
            };
            // Nine reals and, where there is one, an index per result.
            let beside = 3 * (36 + if images.is_some() { 4 } else { 0 });
            is(warp, [2 * 5 * 7 * 3, beside, 0], 3 * 11 * 13 * 3, taps * 3 * 11 * 13 * 3, 0);
        }
    }
}

#[test]
fn recurrences_count_the_products_of_their_states() {
    for (weights, given_weights) in [(Some(A), None), (None, Some(B))] {
        for more in [None, Some(B)] {
            let recurrence = Recurrence {
                cell: CellKind::Lstm,
                steps: 5,
                directions: 2,
                batch: 3,
                hidden: 7,
                backwards: [false, true],
                functions: [UnaryKind::Tanh; 6],
                clip: 1.0,
                coupled: false,
                input: A,
                weights,
                given_weights,
                vectors: more,
                initial: more,
                lengths: more,
                output: Y,
            };
            // Four gates of two directions; three vectors, two states, a length per sequence.
            let (input, own) = (4 * 5 * 3 * 8 * 7, 4 * 8 * 7 * 7);
            let beside = if more.is_some() { 4 * (2 * 3 * 7 + 2 * 2 * 3 * 7 + 3) } else { 0 };
            let [own_a, own_b] = if weights.is_some() { [own, 0] } else { [0, own] };
            let macs = 5 * 3 * 8 * 7 * 7;
            is(recurrence, [input + own_a, beside + own_b, 0], 4 * (5 + 2) * 2 * 3 * 7, macs, macs);
        }
    }
}
