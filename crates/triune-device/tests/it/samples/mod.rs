//! One command of each kind that is right, over a bench's segments.

use crate::common::{CONSTANTS, Constants, INPUT, OUTPUT, input, operand, output, quant, window};
use triune_device::{
    Addr,
    command::{
        AddParams, ArgReduce, Binary, BlockMatMul, Convert, Copy, Dequantize, FAttention, FBinary, FConv,
        FLogSoftmax, FMatMul, FNorm, FSoftmax, FTriple, FUnary, Fill, GlobalPool, IMatMul, Order, Pool, Put,
        QAdd, QConv, QMatMul, QMul, QNorm, QSoftmax, Quantize, QuantizeBy, Recurrence, Reduce, RequantTarget,
        Resize, Rotate, Running, Select, TMatMul, Table, Tables, Take, Warp, Weigh,
    },
};
use triune_tensor::{
    DType, Requantize, Rounding,
    function::{
        BinaryKind, BorderMode, CellKind, CoordinateMode, PoolKind, ReduceKind, ResizeMode, Sampling,
        ScatterKind, UnaryKind,
    },
};

pub(crate) const MAP: [u32; 4] = [1, 4, 4, 2];
pub(crate) const DIMS: [u32; 6] = [1, 1, 1, 1, 8, 4];
/// Where constants for everything lie: zeros.
pub(crate) const ZEROS: Addr = Addr::new(CONSTANTS, 0);
pub(crate) const ONES: Addr = Addr::new(CONSTANTS, 256 << 10);

pub(crate) fn constants() -> Constants {
    let mut constants = Constants::default();
    assert_eq!(constants.add(vec![0; 256 << 10]), ZEROS);
    assert_eq!(constants.floats(&[0.01; 64]), ONES);
    constants
}

pub(crate) fn of(addr: Addr, dtype: DType) -> triune_device::command::Operand {
    operand(addr, dtype, DIMS)
}

pub(crate) fn from(dtype: DType) -> triune_device::command::Operand {
    of(Addr::new(INPUT, 0), dtype)
}

pub(crate) fn to(dtype: DType) -> triune_device::command::Operand {
    of(Addr::new(OUTPUT, 0), dtype)
}

pub(crate) fn target(dtype: DType) -> RequantTarget {
    RequantTarget { dtype, zero_point: 0 }
}

pub(crate) fn copy() -> Copy {
    let strides = [0, 0, 0, 0, 16, 4];
    let (src, dst) = (Addr::new(INPUT, 0), Addr::new(OUTPUT, 0));
    Copy { elem_bytes: 4, dims: DIMS, src, src_strides: strides, dst, dst_strides: strides }
}

pub(crate) fn fill() -> Fill {
    let dst = Addr::new(OUTPUT, 0);
    Fill { elem_bytes: 1, dims: DIMS, dst, dst_strides: [0, 0, 0, 0, 4, 1], value: 7 }
}

/// With a residual, which an addition joins.
pub(crate) fn qconv(dtype: DType) -> QConv {
    let wide = dtype == DType::I16;
    QConv {
        input: input(dtype, MAP),
        output: output(dtype, MAP),
        window: window([3, 3], [1, 1], [1; 4], 1),
        weights: ZEROS,
        weight_blocks: [0, 0],
        bias: Some(ZEROS),
        multiplier: ONES,
        multipliers: 2,
        input_zero_point: 0,
        result: target(dtype),
        rounding: Rounding::HalfToEven,
        clamp: [-100, 100],
        table: None,
        residual: (!wide).then(|| input(dtype, MAP)),
        add: (!wide).then(|| params(dtype)),
        conv_is_a: true,
    }
}

pub(crate) fn params(dtype: DType) -> AddParams {
    let (a, b, out) = (target(dtype), target(dtype), target(dtype));
    AddParams { a, b, out, ra: 1.0, rb: 0.5, k: 0.0, rounding: Rounding::HalfToEven, clamp: [-100, 100] }
}

pub(crate) fn fconv() -> FConv {
    FConv {
        input: input(DType::F32, MAP),
        output: output(DType::F32, MAP),
        window: window([3, 3], [1, 1], [1; 4], 1),
        weights: ZEROS,
        bias: Some(ZEROS),
        residual: Some(input(DType::F32, MAP)),
        activation: UnaryKind::Relu,
    }
}

pub(crate) fn fmatmul() -> FMatMul {
    FMatMul {
        batch: 1,
        m: 4,
        n: 4,
        k: 4,
        a: Addr::new(INPUT, 0),
        transpose_a: false,
        b: Addr::new(INPUT, 64),
        transpose_b: false,
        shared_b: false,
        bias: Some(ZEROS),
        output: Addr::new(OUTPUT, 0),
        activation: UnaryKind::Relu,
    }
}

fn bytes(dtype: DType, zero_point: i32) -> RequantTarget {
    RequantTarget { dtype, zero_point }
}

pub(crate) fn qmatmul() -> QMatMul {
    QMatMul {
        batch: 1,
        m: 4,
        n: 4,
        k: 4,
        a: Addr::new(INPUT, 0),
        a_target: bytes(DType::U8, 3),
        transpose_a: false,
        b: Addr::new(INPUT, 64),
        b_target: bytes(DType::I8, -5),
        transpose_b: true,
        shared_b: false,
        output: Addr::new(OUTPUT, 0),
        result: bytes(DType::U8, 7),
        multiplier: 0.01,
        rounding: Rounding::HalfToEven,
    }
}

pub(crate) fn qnorm() -> QNorm {
    QNorm {
        input: Addr::new(INPUT, 0),
        output: Addr::new(OUTPUT, 0),
        dtype: DType::I8,
        dims: [2, 4, 4],
        input_quant: quant(0.1, 0),
        output_quant: quant(0.05, 3),
        epsilon: 1e-5,
        gamma: Some(ONES),
        beta: Some(ZEROS),
        rounding: Rounding::HalfToEven,
        centred: true,
    }
}

/// Over bytes.
pub(crate) fn blend() -> Resize {
    Resize { input: input(DType::U8, MAP), output: output(DType::U8, [1, 6, 8, 2]), ..resize() }
}

pub(crate) fn pool(dtype: DType) -> Pool {
    Pool {
        input: input(dtype, MAP),
        output: output(dtype, [1, 2, 2, 2]),
        window: window([3, 3], [2, 2], [1; 4], 1),
        kind: PoolKind::Average { count_include_pad: false },
        input_quant: quant(1.0, 0),
        output_quant: quant(0.5, 0),
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    }
}

pub(crate) fn gpool(dtype: DType) -> GlobalPool {
    let Pool { input, kind, input_quant, output_quant, rounding, requantize, .. } = pool(dtype);
    let output = output(dtype, [1, 1, 1, 2]);
    GlobalPool { input, output, kind, input_quant, output_quant, rounding, requantize }
}

pub(crate) fn qadd(dtype: DType) -> QAdd {
    QAdd {
        dims: DIMS,
        a: from(dtype),
        b: from(dtype),
        output: to(dtype),
        params: params(dtype),
        counted: [0, 0],
    }
}

pub(crate) fn qmul(dtype: DType) -> QMul {
    QMul {
        dims: DIMS,
        a: from(dtype),
        b: from(dtype),
        output: to(dtype),
        zero_points: [0; 3],
        multiplier: 0.5,
        rounding: Rounding::HalfToEven,
        clamp: [-100, 100],
        counted: [0, 0],
    }
}

pub(crate) fn fbinary() -> FBinary {
    let (a, b, output) = (from(DType::F32), from(DType::F32), to(DType::F32));
    FBinary { dims: DIMS, kind: BinaryKind::Add, a, b, output, activation: UnaryKind::Relu }
}

pub(crate) fn ftriple() -> FTriple {
    let [a, b, c] = [from(DType::F32); 3];
    FTriple { dims: DIMS, then: BinaryKind::Add, a, b, c, output: to(DType::F32) }
}

pub(crate) fn fattention() -> FAttention {
    let (heads, queries, keys, width, elements) = ([1, 2], 3, 4, 2, 1);
    let at = |segment, rows, len| operand(Addr::new(segment, 0), DType::F32, [1, 1, 1, 2, rows, len]);
    let bias = at(INPUT, queries, keys);
    FAttention {
        heads,
        queries,
        keys,
        width,
        elements,
        scale: 0.5,
        q: at(INPUT, queries, width),
        k: at(INPUT, keys, width),
        v: at(INPUT, keys, elements),
        bias: Some(bias.addr),
        bias_strides: bias.strides,
        output: at(OUTPUT, queries, elements),
    }
}

pub(crate) fn rotate() -> Rotate {
    let [input, cosines, sines] = [from(DType::F32); 3];
    Rotate { dims: DIMS, pairs: 2, interleaved: false, input, cosines, sines, output: to(DType::F32) }
}

pub(crate) fn funary() -> FUnary {
    FUnary { input: input(DType::F32, MAP), output: output(DType::F32, MAP), function: UnaryKind::Relu }
}

pub(crate) fn table(dtype: DType) -> Table {
    Table { input: input(dtype, MAP), output: output(dtype, MAP), table: ZEROS }
}

pub(crate) fn tables(by_rows: bool) -> Tables {
    Tables { input: input(DType::U8, MAP), output: output(DType::U8, MAP), tables: ZEROS, by_rows }
}

pub(crate) fn quantize(dtype: DType) -> Quantize {
    let (input, output) = (input(DType::F32, MAP), output(dtype, MAP));
    Quantize { input, output, quant: quant(0.1, 0), rounding: Rounding::HalfToEven }
}

pub(crate) fn dequantize(dtype: DType) -> Dequantize {
    Dequantize { input: input(dtype, MAP), output: output(DType::F32, MAP), quant: quant(0.1, 0) }
}

pub(crate) fn qsoftmax() -> QSoftmax {
    QSoftmax {
        input: Addr::new(INPUT, 0),
        output: Addr::new(OUTPUT, 0),
        dtype: DType::U8,
        dims: [2, 4, 4],
        input_quant: quant(0.1, 0),
        output_quant: quant(1.0 / 256.0, 0),
    }
}

pub(crate) fn fsoftmax() -> FSoftmax {
    FSoftmax { input: Addr::new(INPUT, 0), output: Addr::new(OUTPUT, 0), dims: [2, 4, 4] }
}

pub(crate) fn flogsoftmax() -> FLogSoftmax {
    FLogSoftmax { input: Addr::new(INPUT, 0), output: Addr::new(OUTPUT, 0), dims: [2, 4, 4] }
}

pub(crate) fn fnorm() -> FNorm {
    FNorm {
        input: Addr::new(INPUT, 0),
        output: Addr::new(OUTPUT, 0),
        dims: [8, 4],
        epsilon: 1e-5,
        gamma: None,
        beta: None,
    }
}

pub(crate) fn resize() -> Resize {
    Resize {
        input: input(DType::F32, MAP),
        output: output(DType::F32, MAP),
        mode: ResizeMode::Linear,
        coordinates: CoordinateMode::HalfPixel,
        scales: [1.0, 1.0],
        zero_points: [0; 2],
        factor: 1.0,
        rounding: Rounding::HalfToEven,
    }
}

pub(crate) fn warp() -> Warp {
    Warp {
        input: input(DType::F32, MAP),
        output: output(DType::F32, MAP),
        matrices: ZEROS,
        images: Some(ZEROS),
        sampling: Sampling::Linear,
        border: BorderMode::Constant(1.0),
    }
}

pub(crate) fn reduce() -> Reduce {
    let output = operand(Addr::new(OUTPUT, 0), DType::F32, [1, 1, 1, 1, 8, 1]);
    Reduce { dims: DIMS, axes: 0b10_0000, kind: ReduceKind::Sum, input: from(DType::F32), output }
}

pub(crate) fn argreduce() -> ArgReduce {
    let output = operand(Addr::new(OUTPUT, 0), DType::I64, [1, 1, 1, 1, 1, 4]);
    ArgReduce { dims: DIMS, axis: 4, largest: true, last: false, input: from(DType::F32), output }
}

pub(crate) fn binary() -> Binary {
    let (a, b, output) = (from(DType::I32), from(DType::I32), to(DType::I32));
    Binary { dims: DIMS, kind: BinaryKind::Add, a, b, output }
}

pub(crate) fn select() -> Select {
    let (a, b, output) = (from(DType::F32), from(DType::F32), to(DType::F32));
    Select { dims: DIMS, condition: from(DType::Bool), a, b, output }
}

pub(crate) fn convert() -> Convert {
    Convert { dims: DIMS, input: from(DType::F32), output: to(DType::I16) }
}

pub(crate) fn take() -> Take {
    Take {
        elem_bytes: 4,
        dims: [1, 1, 1, 1, 2, 3],
        src: Addr::new(INPUT, 0),
        src_strides: [0, 0, 0, 0, 0, 4],
        indices: triune_device::command::Operand {
            addr: ZEROS,
            dtype: DType::I64,
            strides: [0, 0, 0, 0, 8, 0],
        },
        count: 1,
        index_stride: 0,
        extents: [8, 1, 1, 1, 1, 1],
        axis_strides: [16, 0, 0, 0, 0, 0],
        dst: Addr::new(OUTPUT, 0),
        dst_strides: [0, 0, 0, 0, 12, 4],
    }
}

pub(crate) fn put() -> Put {
    Put {
        dtype: DType::F32,
        kind: ScatterKind::Add,
        dims: [1, 1, 1, 1, 2, 3],
        src: Addr::new(INPUT, 0),
        src_strides: [0, 0, 0, 0, 12, 4],
        indices: triune_device::command::Operand {
            addr: ZEROS,
            dtype: DType::I64,
            strides: [0, 0, 0, 0, 8, 0],
        },
        count: 1,
        index_stride: 0,
        extents: [2, 1, 1, 1, 1, 1],
        axis_strides: [12, 0, 0, 0, 0, 0],
        dst: Addr::new(OUTPUT, 0),
        dst_strides: [0, 0, 0, 0, 0, 4],
    }
}

/// Two rows times three columns, with zero points of either and a factor per column.
pub(crate) fn imatmul() -> IMatMul {
    let at = |bytes: u64| Some(Addr::new(INPUT, bytes));
    IMatMul {
        batch: 2,
        m: 2,
        n: 3,
        k: 4,
        a: Addr::new(INPUT, 0),
        a_dtype: DType::U8,
        b: at(16),
        weights: None,
        b_dtype: DType::I8,
        shared_b: false,
        a_zeros: at(40),
        b_zeros: at(44),
        scales: at(48),
        counts: [1, 3, 3],
        output: Addr::new(OUTPUT, 0),
    }
}

pub(crate) fn blockmatmul() -> BlockMatMul {
    BlockMatMul {
        extents: [2, 1, 8],
        blocks: [4, 16],
        integers: false,
        input: Addr::new(INPUT, 0),
        weights: ZEROS,
        output: Addr::new(OUTPUT, 0),
    }
}

pub(crate) fn tmatmul() -> TMatMul {
    TMatMul {
        dtype: DType::I32,
        batch: 1,
        m: 2,
        n: 3,
        k: 4,
        a: Addr::new(INPUT, 0),
        b: Addr::new(INPUT, 32),
        shared_b: false,
        output: Addr::new(OUTPUT, 0),
    }
}

pub(crate) fn quantizeby() -> QuantizeBy {
    QuantizeBy {
        input: input(DType::F32, MAP),
        output: output(DType::U8, MAP),
        scale: Addr::new(INPUT, 128),
        zero_point: Some(Addr::new(INPUT, 132)),
        rounding: Rounding::HalfToEven,
    }
}

pub(crate) fn weigh() -> Weigh {
    Weigh {
        batch: 1,
        channels: 5,
        elements: 4,
        count: 3,
        taps: 2,
        shared: false,
        input: Addr::new(INPUT, 0),
        // All 0, wherever they are read.
        indices: ZEROS,
        factors: Some(Addr::new(INPUT, 96)),
        output: Addr::new(OUTPUT, 0),
    }
}

pub(crate) fn running() -> Running {
    Running {
        input: Addr::new(INPUT, 0),
        output: Addr::new(OUTPUT, 0),
        dtype: DType::F32,
        dims: [2, 4, 4],
        product: false,
        exclusive: false,
        reverse: true,
    }
}

pub(crate) fn order() -> Order {
    Order {
        input: Addr::new(INPUT, 0),
        dtype: DType::F32,
        dims: [2, 4, 4],
        k: 2,
        descending: true,
        output: Addr::new(OUTPUT, 0),
    }
}

/// Both directions of one unit over two steps of two sequences.
pub(crate) fn recurrence() -> Recurrence {
    let at = |bytes: u64| Some(Addr::new(INPUT, bytes));
    Recurrence {
        cell: CellKind::Lstm,
        steps: 2,
        directions: 2,
        batch: 2,
        hidden: 1,
        backwards: [false, true],
        functions: [UnaryKind::Sigmoid; 6],
        clip: 1.0,
        coupled: false,
        input: Addr::new(INPUT, 0),
        weights: Some(ONES),
        given_weights: None,
        vectors: at(128),
        initial: at(152),
        // All 0, wherever they are read.
        lengths: Some(ZEROS),
        output: Addr::new(OUTPUT, 0),
    }
}
