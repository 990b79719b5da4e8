//! What a decoded program takes of the host's memory, counted by the allocator itself.

#[expect(dead_code, reason = "other tests take more")]
#[path = "it/common/mod.rs"]
mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use common::{Bench, CONSTANTS, Constants, INPUT, OUTPUT, input, operand, output, quant, window};
use triune_device::{
    Addr, Command, Decoded,
    command::{
        self, AddParams, ArgReduce, BlockMatMul, Convert, Dequantize, FAttention, FBinary, FConv,
        FLogSoftmax, FMatMul, FNorm, FSoftmax, FTriple, FUnary, Fill, GlobalPool, IMatMul, Opcode, Order,
        Pool, Put, QAdd, QConv, QMatMul, QMul, QNorm, QSoftmax, Quantize, QuantizeBy, Recurrence, Reduce,
        RequantTarget, Resize, Rotate, Running, Select, TMatMul, Table, Tables, Take, Warp, Weigh,
    },
};
use triune_kernels::Isa;
use triune_tensor::{
    DType, Requantize, Rounding,
    function::{
        BinaryKind, BorderMode, CellKind, CoordinateMode, PoolKind, ReduceKind, ResizeMode, Sampling,
        ScatterKind, UnaryKind,
    },
};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system allocator does the work; counting changes nothing about it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's layout, as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: allocated by `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Commands in a stream: enough that what a program has once does not count.
const COUNT: usize = 4000;
const DIMS: [u32; 6] = [1, 1, 1, 1, 4, 4];
const MAP: [u32; 4] = [1, 2, 2, 4];
const FUNCTION: UnaryKind = UnaryKind::Sigmoid;
/// Those that pack weights keep these besides, in forms that are counted by the weights' own bytes.
const WEIGHTS: [&str; 3] = ["qconv", "fconv", "blockmatmul"];

/// A kind of command by name, and one of it.
type Kind = (&'static str, fn() -> Command);

fn target(dtype: DType, zero_point: i32) -> RequantTarget {
    RequantTarget { dtype, zero_point }
}

/// Short commands, and commands with much to keep.
fn kinds() -> Vec<Kind> {
    vec![
        ("fill", || {
            Fill {
                elem_bytes: 4,
                dims: DIMS,
                dst: Addr::new(OUTPUT, 0),
                dst_strides: [0, 0, 0, 0, 16, 4],
                value: 7,
            }
            .into()
        }),
        ("copy", || {
            let strides = [0, 0, 0, 0, 16, 4];
            let (src, dst) = (Addr::new(INPUT, 0), Addr::new(OUTPUT, 0));
            command::Copy { elem_bytes: 4, dims: DIMS, src, src_strides: strides, dst, dst_strides: strides }
                .into()
        }),
        ("fnorm", || {
            FNorm {
                input: Addr::new(INPUT, 0),
                output: Addr::new(OUTPUT, 0),
                dims: [1, 16],
                epsilon: 1e-5,
                gamma: None,
                beta: None,
            }
            .into()
        }),
        ("fsoftmax", || {
            FSoftmax { input: Addr::new(INPUT, 0), output: Addr::new(OUTPUT, 0), dims: [1, 16, 1] }.into()
        }),
        ("flogsoftmax", || {
            FLogSoftmax { input: Addr::new(INPUT, 0), output: Addr::new(OUTPUT, 0), dims: [1, 16, 1] }.into()
        }),
        ("ftriple", || {
            let [a, b, c] = [operand(Addr::new(INPUT, 0), DType::F32, DIMS); 3];
            let output = operand(Addr::new(OUTPUT, 0), DType::F32, DIMS);
            FTriple { dims: DIMS, then: BinaryKind::Mul, a, b, c, output }.into()
        }),
        ("rotate", || {
            let [input, cosines, sines] = [operand(Addr::new(INPUT, 0), DType::F32, DIMS); 3];
            let output = operand(Addr::new(OUTPUT, 0), DType::F32, DIMS);
            Rotate { dims: DIMS, pairs: 2, interleaved: true, input, cosines, sines, output }.into()
        }),
        ("fattention", || {
            let [q, k, v] = [operand(Addr::new(INPUT, 0), DType::F32, DIMS); 3];
            let output = operand(Addr::new(OUTPUT, 0), DType::F32, DIMS);
            let (heads, queries, keys, width, elements) = ([1, 1], 8, 8, 4, 4);
            let (scale, bias, bias_strides) = (0.5, Some(q.addr), [0, 0, 0, 0, 0, 4]);
            FAttention { heads, queries, keys, width, elements, scale, q, k, v, bias, bias_strides, output }
                .into()
        }),
        ("qsoftmax", || {
            QSoftmax {
                input: Addr::new(INPUT, 0),
                output: Addr::new(OUTPUT, 0),
                dtype: DType::I8,
                dims: [1, 16, 1],
                input_quant: quant(0.1, 0),
                output_quant: quant(1.0 / 256.0, -128),
            }
            .into()
        }),
        ("qnorm", || {
            QNorm {
                input: Addr::new(INPUT, 0),
                output: Addr::new(OUTPUT, 0),
                dtype: DType::I8,
                dims: [1, 16, 1],
                input_quant: quant(0.1, 0),
                output_quant: quant(0.05, 0),
                epsilon: 1e-5,
                gamma: None,
                beta: None,
                rounding: Rounding::HalfToEven,
                centred: true,
            }
            .into()
        }),
        ("qmatmul", || {
            let target = RequantTarget { dtype: DType::I8, zero_point: 0 };
            QMatMul {
                batch: 1,
                m: 4,
                n: 4,
                k: 4,
                a: Addr::new(INPUT, 0),
                a_target: target,
                transpose_a: false,
                b: Addr::new(INPUT, 0),
                b_target: target,
                transpose_b: false,
                shared_b: true,
                output: Addr::new(OUTPUT, 0),
                result: target,
                multiplier: 0.01,
                rounding: Rounding::HalfToEven,
            }
            .into()
        }),
        ("funary", || {
            let (input, output) = (input(DType::F32, [1, 2, 2, 4]), output(DType::F32, [1, 2, 2, 4]));
            FUnary { input, output, function: FUNCTION }.into()
        }),
        ("table", || {
            let (input, output) = (input(DType::I8, [1, 2, 2, 4]), output(DType::I8, [1, 2, 2, 4]));
            Table { input, output, table: Addr::new(CONSTANTS, 0) }.into()
        }),
        ("tables", || {
            let (input, output) = (input(DType::I8, [1, 2, 2, 4]), output(DType::I8, [1, 2, 2, 4]));
            Tables { input, output, tables: Addr::new(CONSTANTS, 0), by_rows: true }.into()
        }),
        ("fbinary", || {
            let [a, output] = [INPUT, OUTPUT].map(|segment| operand(Addr::new(segment, 0), DType::F32, DIMS));
            FBinary { dims: DIMS, kind: BinaryKind::Add, a, b: a, output, activation: FUNCTION }.into()
        }),
        ("convert", || {
            let input = operand(Addr::new(INPUT, 0), DType::F32, DIMS);
            let output = operand(Addr::new(OUTPUT, 0), DType::U16, DIMS);
            Convert { dims: DIMS, input, output }.into()
        }),
        ("fmatmul", || {
            FMatMul {
                batch: 1,
                m: 4,
                n: 4,
                k: 4,
                a: Addr::new(INPUT, 0),
                transpose_a: false,
                b: Addr::new(INPUT, 0),
                transpose_b: false,
                shared_b: true,
                bias: None,
                output: Addr::new(OUTPUT, 0),
                activation: FUNCTION,
            }
            .into()
        }),
        ("qconv", || {
            let (input, output) = (input(DType::I8, MAP), output(DType::I8, MAP));
            QConv {
                input,
                output,
                window: window([1, 1], [1, 1], [0; 4], 1),
                weights: Addr::new(CONSTANTS, 0),
                weight_blocks: [0, 0],
                bias: None,
                multiplier: Addr::new(CONSTANTS, 64),
                multipliers: 1,
                input_zero_point: 0,
                result: target(DType::I8, 0),
                rounding: Rounding::HalfToEven,
                clamp: [-128, 127],
                table: None,
                residual: None,
                add: None,
                conv_is_a: false,
            }
            .into()
        }),
        ("qadd", || {
            let [a, output] = [INPUT, OUTPUT].map(|segment| operand(Addr::new(segment, 0), DType::I8, DIMS));
            let [from, out] = [target(DType::I8, 0), target(DType::I8, 0)];
            let (rounding, clamp) = (Rounding::HalfToEven, [-128, 127]);
            let params = AddParams { a: from, b: from, out, ra: 1.0, rb: 0.5, k: 0.0, rounding, clamp };
            QAdd { dims: DIMS, a, b: a, output, params, counted: [0, 0] }.into()
        }),
        ("fconv", || {
            let (input, output) = (input(DType::F32, MAP), output(DType::F32, MAP));
            let (window, weights) = (window([1, 1], [1, 1], [0; 4], 1), Addr::new(CONSTANTS, 0));
            let (bias, residual) = (None, None);
            FConv { input, output, window, weights, bias, residual, activation: FUNCTION }.into()
        }),
        ("pool", || {
            let (input, output) = (input(DType::F32, MAP), output(DType::F32, MAP));
            let (kind, window) = (PoolKind::Max, window([1, 1], [1, 1], [0; 4], 1));
            let (input_quant, output_quant) = (quant(1.0, 0), quant(1.0, 0));
            let (rounding, requantize) = (Rounding::HalfToEven, Requantize::Float);
            Pool { input, output, window, kind, input_quant, output_quant, rounding, requantize }.into()
        }),
        ("gpool", || {
            let (input, output) = (input(DType::F32, MAP), output(DType::F32, [1, 1, 1, 4]));
            let (input_quant, output_quant) = (quant(1.0, 0), quant(1.0, 0));
            let (rounding, requantize) = (Rounding::HalfToEven, Requantize::Float);
            GlobalPool { input, output, kind: PoolKind::Max, input_quant, output_quant, rounding, requantize }
                .into()
        }),
        ("qmul", || {
            let [a, output] = [INPUT, OUTPUT].map(|segment| operand(Addr::new(segment, 0), DType::I8, DIMS));
            let (rounding, clamp) = (Rounding::HalfToEven, [-128, 127]);
            QMul {
                dims: DIMS,
                a,
                b: a,
                output,
                zero_points: [0; 3],
                multiplier: 0.5,
                rounding,
                clamp,
                counted: [1, 16],
            }
            .into()
        }),
        ("quantize", || {
            let (input, output) = (input(DType::F32, MAP), output(DType::I8, MAP));
            Quantize { input, output, quant: quant(0.5, 0), rounding: Rounding::HalfToEven }.into()
        }),
        ("dequantize", || {
            let (input, output) = (input(DType::I8, MAP), output(DType::F32, MAP));
            Dequantize { input, output, quant: quant(0.5, 0) }.into()
        }),
        ("resize", || {
            let (input, output) = (input(DType::F32, MAP), output(DType::F32, [1, 4, 4, 4]));
            let (mode, coordinates) = (ResizeMode::Linear, CoordinateMode::HalfPixel);
            let (zero_points, factor, rounding) = ([0; 2], 0.0, Rounding::HalfToEven);
            Resize { input, output, mode, coordinates, scales: [2.0; 2], zero_points, factor, rounding }
                .into()
        }),
        ("warp", || {
            let (input, output) = (input(DType::F32, MAP), output(DType::F32, MAP));
            let (matrices, border) = (Addr::new(INPUT, 0), BorderMode::Replicate);
            Warp { input, output, matrices, images: None, sampling: Sampling::Linear, border }.into()
        }),
        ("recurrence", || {
            let [input, output] = [INPUT, OUTPUT].map(|segment| Addr::new(segment, 0));
            Recurrence {
                cell: CellKind::Lstm,
                steps: 2,
                directions: 1,
                batch: 1,
                hidden: 4,
                backwards: [false; 2],
                functions: [FUNCTION; 6],
                clip: 1.0,
                coupled: false,
                input,
                weights: None,
                given_weights: Some(input),
                vectors: Some(input),
                initial: Some(input),
                lengths: Some(input),
                output,
            }
            .into()
        }),
        ("reduce", || {
            let input = operand(Addr::new(INPUT, 0), DType::I32, DIMS);
            let output = operand(Addr::new(OUTPUT, 0), DType::I32, DIMS);
            Reduce { dims: DIMS, axes: 1 << 5, kind: ReduceKind::Sum, input, output }.into()
        }),
        ("argreduce", || {
            let input = operand(Addr::new(INPUT, 0), DType::F32, DIMS);
            let output = operand(Addr::new(OUTPUT, 0), DType::I64, DIMS);
            ArgReduce { dims: DIMS, axis: 5, largest: true, last: false, input, output }.into()
        }),
        ("binary", || {
            let [a, output] = [INPUT, OUTPUT].map(|segment| operand(Addr::new(segment, 0), DType::I64, DIMS));
            command::Binary { dims: DIMS, kind: BinaryKind::Add, a, b: a, output }.into()
        }),
        ("select", || {
            let [a, output] = [INPUT, OUTPUT].map(|segment| operand(Addr::new(segment, 0), DType::F32, DIMS));
            let condition = operand(Addr::new(INPUT, 0), DType::Bool, DIMS);
            Select { dims: DIMS, condition, a, b: a, output }.into()
        }),
        ("take", || {
            Take {
                elem_bytes: 4,
                dims: DIMS,
                src: Addr::new(INPUT, 0),
                src_strides: [0; 6],
                indices: operand(Addr::new(INPUT, 512), DType::I32, DIMS),
                count: 1,
                index_stride: 0,
                extents: [16, 1, 1, 1, 1, 1],
                axis_strides: [4, 0, 0, 0, 0, 0],
                dst: Addr::new(OUTPUT, 0),
                dst_strides: [0, 0, 0, 0, 16, 4],
            }
            .into()
        }),
        ("put", || {
            Put {
                dtype: DType::I32,
                kind: ScatterKind::Max,
                dims: DIMS,
                src: Addr::new(INPUT, 0),
                src_strides: [0, 0, 0, 0, 16, 4],
                indices: operand(Addr::new(INPUT, 512), DType::I32, DIMS),
                count: 1,
                index_stride: 0,
                extents: [16, 1, 1, 1, 1, 1],
                axis_strides: [4, 0, 0, 0, 0, 0],
                dst: Addr::new(OUTPUT, 0),
                dst_strides: [0; 6],
            }
            .into()
        }),
        ("order", || {
            let (input, output) = (Addr::new(INPUT, 0), Addr::new(OUTPUT, 0));
            Order { input, dtype: DType::F32, dims: [1, 8, 1], k: 8, descending: true, output }.into()
        }),
        ("blockmatmul", || {
            BlockMatMul {
                extents: [2, 1, 4],
                blocks: [4, 16],
                integers: false,
                input: Addr::new(INPUT, 0),
                weights: Addr::new(CONSTANTS, 0),
                output: Addr::new(OUTPUT, 0),
            }
            .into()
        }),
        ("imatmul", || {
            let at = |bytes: u64| Addr::new(INPUT, bytes);
            IMatMul {
                batch: 1,
                m: 2,
                n: 3,
                k: 4,
                a: at(0),
                a_dtype: DType::U8,
                b: Some(at(16)),
                weights: None,
                b_dtype: DType::I8,
                shared_b: true,
                a_zeros: Some(at(40)),
                b_zeros: Some(at(44)),
                scales: Some(at(48)),
                counts: [1, 3, 3],
                output: Addr::new(OUTPUT, 0),
            }
            .into()
        }),
        ("tmatmul", || {
            let (a, output) = (Addr::new(INPUT, 0), Addr::new(OUTPUT, 0));
            TMatMul { dtype: DType::F64, batch: 1, m: 2, n: 3, k: 4, a, b: a, shared_b: true, output }.into()
        }),
        ("quantizeby", || {
            QuantizeBy {
                input: input(DType::F32, MAP),
                output: output(DType::U8, MAP),
                scale: Addr::new(INPUT, 512),
                zero_point: Some(Addr::new(INPUT, 516)),
                rounding: Rounding::HalfToEven,
            }
            .into()
        }),
        ("weigh", || {
            Weigh {
                batch: 1,
                channels: 3,
                elements: 4,
                count: 3,
                taps: 2,
                shared: true,
                input: Addr::new(INPUT, 0),
                indices: Addr::new(INPUT, 64),
                factors: None,
                output: Addr::new(OUTPUT, 0),
            }
            .into()
        }),
        ("running", || {
            let (input, output) = (Addr::new(INPUT, 0), Addr::new(OUTPUT, 0));
            let (product, exclusive, reverse) = (false, true, false);
            Running { input, output, dtype: DType::F64, dims: [1, 8, 2], product, exclusive, reverse }.into()
        }),
    ]
}

#[test]
fn decoded_programs_take_up_to_eight_times_their_stream() {
    let mut constants = Constants::default();
    constants.add(vec![0; 1 << 17]);
    let all = Opcode::ALL.iter().filter(|opcode| **opcode != Opcode::End).map(|opcode| opcode.mnemonic());
    let all: BTreeSet<&str> = all.collect();
    assert_eq!(kinds().iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), all);
    for (name, make) in kinds() {
        let commands: Vec<Command> = (0..COUNT).map(|_| make()).collect();
        let bench = Bench::alone(&commands, &constants, [1024, 1024, 1024]);
        let before = LIVE.load(Ordering::Relaxed);
        let decoded = Decoded::new(&bench.memory, &bench.table, bench.stream, Isa::best()).expect(name);
        let live = LIVE.load(Ordering::Relaxed) - before;
        let stream = bench.stream.len as usize;
        let fits = live <= 8 * stream || WEIGHTS.contains(&name);
        assert!(fits, "{name}: {live} bytes for a stream of {stream}");
        // What is counted for the limit is what is there, allocator's rests apart.
        assert!(
            (decoded.bytes() as usize).abs_diff(live) <= live / 4 || WEIGHTS.contains(&name),
            "{name}: {} of {live}",
            decoded.bytes()
        );
        // Decoded again from the words that are kept.
        assert_eq!(decoded.commands().len(), COUNT, "{name}");
        assert!(decoded.commands().eq(commands), "{name}");
    }
}
