//! What small networks are compiled to, all of it, as it was when their values were last compared: commands, places, borders,
//! constants. A change that is meant is written down with `TRIUNE_PIN=write cargo test -p triune-compiler --test it pinned`, and its
//! difference is what a reviewer reads.

use crate::common;
use std::{fmt::Write, path::Path};

use triune_compiler::{CompileOptions, Program, TensorIo, compile};
use triune_device::DeviceSpec;
use triune_graph::{
    Op, ValueId,
    ops::{
        AdaptivePool, ArgReduce, BinaryKind, BitCast, BlockMatMul, Cast, Clip, Concat, CoordinateMode,
        DequantizeLinear, Epilogue, Expand, Gather, GatherElements, GatherNd, Gemm, GlobalPool, Index,
        IntegerMatMul, LayerNorm, MatMul, NearestMode, Pad, PadMode, PoolKind, QuantizeLinear, Recurrence,
        Reduce, ReduceKind, Reshape, Resize, ResizeMode, Running, ScatterElements, ScatterKind, ScatterNd,
        Slice, Softmax, Split, TopK, Transpose, UnaryKind, WarpPerspective, Weigh, Where,
    },
};
use triune_tensor::{
    DType, QuantParams,
    function::{BorderMode, CellKind, Sampling},
};
use triune_testing::{GraphBuilder, Tensor, Window, digest, pinned};

type Build = fn(&mut GraphBuilder, ValueId) -> Vec<ValueId>;

const UNEVEN: Window = Window { kernel: [3, 2], stride: [2, 1], dilation: [1, 2], pad: [1, 0, 2, 1] };
const STEP: QuantParams = QuantParams { scale: 0.0625, zero_point: 3 };
const OTHER: QuantParams = QuantParams { scale: 0.125, zero_point: -5 };

/// Eighths from −2 to 2.
fn eighths(shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    Tensor::f32(shape, &(0..count).map(|at| (at * 23 % 33) as f32 / 8.0 - 2.0).collect::<Vec<f32>>())
}

/// Integers from −14 to 14, no two neighbours the same.
fn bytes(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::i8(shape, &(0..count).map(|at| (at * 37 % 29) as i8 - 14).collect::<Vec<i8>>())
}

fn ints(b: &mut GraphBuilder, values: &[i64]) -> ValueId {
    b.constant(&Tensor::i64(&[values.len()], values))
}

fn reshape(b: &mut GraphBuilder, x: ValueId, shape: &[i64]) -> ValueId {
    let shape = ints(b, shape);
    b.node(Op::Reshape(Reshape { allow_zero: false }), &[x, shape])
}

fn transpose(b: &mut GraphBuilder, x: ValueId, perm: &[usize]) -> ValueId {
    b.node(Op::Transpose(Transpose { perm: perm.to_vec() }), &[x])
}

/// Operators in reals on an image batch of (2, 4, 6, 5).
const REALS: &[(&str, Build)] = &[
    ("convolutions", |b, x| {
        let (w, c) = (b.constant(&eighths(&[6, 2, 3, 2])), b.constant(&eighths(&[6])));
        let y = b.conv_window(&[x, w, c], UNEVEN, 2);
        let y = b.unary(UnaryKind::Relu, y);
        let (w, d) = (b.constant(&eighths(&[6, 6, 1, 1])), b.constant(&eighths(&[6, 1, 2, 2])));
        let one = b.conv(&[y, w], 1, 0, 1);
        let sum = b.binary(BinaryKind::Add, one, y);
        let each = b.conv(&[sum, d], 1, 1, 6);
        vec![b.unary(UnaryKind::LeakyRelu(0.25), each)]
    }),
    ("products", |b, x| {
        let rows = reshape(b, x, &[8, 30]);
        let (w, c) = (b.constant(&eighths(&[7, 30])), b.constant(&eighths(&[7])));
        let y = b.gemm(&[rows, w, c], true);
        let y = b.unary(UnaryKind::Sigmoid, y);
        let left = reshape(b, x, &[4, 10, 6]);
        let right = transpose(b, left, &[0, 2, 1]);
        let product = b.node(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[left, right]);
        let factor = reshape(b, x, &[30, 8]);
        let square = reshape(b, x, &[30, 8]);
        let odd =
            Gemm { alpha: 0.5, beta: 2.0, trans_a: true, trans_b: false, epilogue: Epilogue::default() };
        vec![y, product, b.node(Op::Gemm(odd), &[factor, square])]
    }),
    ("pools", |b, x| {
        let averaged = b.pool_window(PoolKind::Average { count_include_pad: true }, x, UNEVEN);
        let part = b.pool_window(PoolKind::Average { count_include_pad: false }, x, UNEVEN);
        let most = b.pool_window(PoolKind::Max, x, UNEVEN);
        let all = b.node(Op::GlobalPool(GlobalPool::AVERAGE), &[x]);
        vec![averaged, part, most, all, b.node(Op::GlobalPool(GlobalPool::MAX), &[x])]
    }),
    ("reductions", |b, x| {
        let mut made = Vec::new();
        for (kind, axes, keep_dims) in [
            (ReduceKind::Sum, vec![1], true),
            (ReduceKind::Mean, vec![2, 3], false),
            (ReduceKind::Max, vec![0, 3], false),
            (ReduceKind::SumSquare, vec![-1], true),
        ] {
            made.push(b.node(Op::Reduce(Reduce { kind, axes: Some(axes), keep_dims }), &[x]));
        }
        let op =
            |axis, last| ArgReduce { kind: ReduceKind::Max, axis, keep_dims: false, last, dtype: DType::I64 };
        made.push(b.node(Op::ArgReduce(op(1, false)), &[x]));
        made.push(b.node(Op::ArgReduce(op(-1, true)), &[x]));
        for axis in [1, 3] {
            made.push(b.node(Op::Softmax(Softmax { axis, flatten: false, log: false }), &[x]));
        }
        made.push(b.node(Op::Softmax(Softmax { axis: 2, flatten: true, log: false }), &[x]));
        made
    }),
    ("images", |b, x| {
        let none = b.constant(&Tensor::f32(&[0], &[]));
        let mut made = Vec::new();
        for (mode, coordinates, scales) in [
            (ResizeMode::Nearest(NearestMode::Floor), CoordinateMode::Asymmetric, [1.0, 1.0, 2.0, 3.0]),
            (ResizeMode::Linear, CoordinateMode::HalfPixel, [1.0, 1.0, 1.5, 2.0]),
            (ResizeMode::Linear, CoordinateMode::AlignCorners, [1.0, 1.0, 0.5, 2.0]),
        ] {
            let scales = b.constant(&Tensor::f32(&[4], &scales));
            made.push(b.node(Op::Resize(Resize { mode, coordinates }), &[x, none, scales]));
        }
        let (pads, value) = (ints(b, &[0, 1, 2, 0, 0, 0, 1, 3]), b.constant(&Tensor::f32(&[], &[0.375])));
        for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Edge] {
            made.push(b.node(Op::Pad(Pad { mode }), &[x, pads, value]));
        }
        made
    }),
    ("movements", |b, x| {
        let turned = transpose(b, x, &[3, 0, 2, 1]);
        let (starts, ends, axes, steps) =
            (ints(b, &[1, -1]), ints(b, &[100, -7]), ints(b, &[-2, 3]), ints(b, &[2, -2]));
        let part = b.node(Op::Slice(Slice), &[x, starts, ends, axes, steps]);
        let sizes = ints(b, &[1, 3]);
        let parts = b.node_with(Op::Split(Split { axis: 1, parts: None }), &[Some(x), Some(sizes)], 2);
        let joined = b.node(Op::Concat(Concat { axis: 1 }), &[parts[1], x, parts[0]]);
        let across = b.node(Op::Concat(Concat { axis: 3 }), &[x, x]);
        let flat = reshape(b, turned, &[5, 48]);
        let shape = ints(b, &[3, 2, 4, 6, 5]);
        let wide = b.node(Op::Expand(Expand), &[x, shape]);
        vec![flat, part, joined, across, wide]
    }),
    ("indices", |b, x| {
        let known = b.constant(&Tensor::i64(&[2, 2], &[3, 0, -1, 2]));
        let many = b.constant(&Tensor::i64(&[9], &[0, 1, 2, 3, -1, -2, -3, -4, 0]));
        let each = b.constant(&Tensor::i64(&[2, 1, 6, 5], &[1; 60]));
        let tuples = b.constant(&Tensor::i64(&[3, 2], &[0, 3, 1, 0, 1, -1]));
        let k = ints(b, &[2]);
        let rows = b.constant(&eighths(&[3, 6, 5]));
        let spread = b.constant(&eighths(&[2, 1, 6, 5]));
        let mut made = vec![
            b.node(Op::Gather(Gather { axis: 1 }), &[x, known]),
            b.node(Op::Gather(Gather { axis: 1 }), &[x, many]),
            b.node(Op::GatherElements(GatherElements { axis: 1 }), &[x, each]),
            b.node(Op::GatherNd(GatherNd { batch_dims: 0 }), &[x, tuples]),
            b.node(
                Op::ScatterElements(ScatterElements { axis: 1, kind: ScatterKind::Add }),
                &[x, each, spread],
            ),
            b.node(Op::ScatterNd(ScatterNd { kind: ScatterKind::Set }), &[x, tuples, rows]),
        ];
        let op = TopK { axis: 1, largest: true, sorted: true, index_dtype: DType::I64 };
        made.extend(b.node_with(Op::TopK(op), &[Some(x), Some(k)], 2));
        made
    }),
    ("elements", |b, x| {
        let (row, map) = (b.constant(&eighths(&[5])), b.constant(&eighths(&[4, 1, 1])));
        let (low, high) = (b.constant(&Tensor::f32(&[], &[-0.5])), b.constant(&Tensor::f32(&[], &[1.5])));
        let sum = b.binary(BinaryKind::Add, x, row);
        let share = b.binary(BinaryKind::Div, map, sum);
        let power = b.binary(BinaryKind::Pow, share, low);
        let less = b.binary(BinaryKind::Less, x, map);
        let chosen = b.node(Op::Where(Where), &[less, x, row]);
        let limited = b.node(Op::Clip(Clip), &[chosen, low, high]);
        let running = Running { axis: 3, product: false, exclusive: true, reverse: true };
        let norm = LayerNorm { axes: [2, 4], epsilon: 0.5, centred: true };
        let integers = b.node(Op::Cast(Cast { to: DType::I32 }), &[x]);
        let twice = b.binary(BinaryKind::Add, integers, integers);
        vec![
            power,
            b.unary(UnaryKind::Gelu, limited),
            b.node(Op::Running(running), &[x]),
            b.node(Op::LayerNorm(norm), &[x]),
            b.unary(UnaryKind::Abs, twice),
        ]
    }),
    ("factors and addends by channel", |b, x| {
        let (w, c) = (b.constant(&eighths(&[4, 1, 1, 1])), b.constant(&eighths(&[4])));
        let y = b.conv(&[x, w, c], 1, 0, 4);
        let with_map = b.conv(&[y, w], 1, 0, 4);
        vec![b.conv(&[y, w], 1, 0, 4), b.binary(BinaryKind::Add, with_map, x)]
    }),
    ("doubles", |b, x| {
        let wide = b.node(Op::Cast(Cast { to: DType::F64 }), &[x]);
        let sum = b.binary(BinaryKind::Add, wide, wide);
        let root = b.unary(UnaryKind::Neg, sum);
        vec![b.binary(BinaryKind::Mul, root, wide)]
    }),
    ("products of integers", |b, x| {
        let left = b.node(Op::Cast(Cast { to: DType::U8 }), &[x]);
        let left = reshape(b, left, &[2, 4, 30]);
        let right = b.node(Op::Cast(Cast { to: DType::I8 }), &[x]);
        let right = reshape(b, right, &[2, 30, 4]);
        let (matrix, batch) = (b.constant(&bytes(&[30, 3])), b.constant(&bytes(&[2, 30, 3])));
        let zero = b.constant(&Tensor::u8(&[1], &[5]));
        let zeros = b.constant(&Tensor::i8(&[3], &[1, -2, 3]));
        let factors = b.constant(&Tensor::f32(&[3], &[0.5, 0.25, 2.0]));
        let all = [Some(left), Some(matrix), Some(zero), Some(zeros), Some(factors)];
        let mut made = b.node_with(Op::IntegerMatMul(IntegerMatMul), &all, 1);
        made.push(b.node(Op::IntegerMatMul(IntegerMatMul), &[left, batch]));
        made.push(b.node(Op::IntegerMatMul(IntegerMatMul), &[left, right]));
        made
    }),
    ("products with blocks", |b, x| {
        let rows = reshape(b, x, &[2, 6, 20]);
        let mut columns = Vec::new();
        for index in 0..3 * 2 {
            columns.extend([index; 8]);
            columns.extend([0.5_f32, 8.0].iter().flat_map(|value| value.to_le_bytes()));
        }
        let columns = b.constant(&Tensor::u8(&[3, 2 * 16], &columns));
        [false, true]
            .map(|integers| {
                let op = BlockMatMul { depth: 20, bits: 4, block: 16, integers };
                b.node(Op::BlockMatMul(op), &[rows, columns])
            })
            .into()
    }),
    ("other types", |b, x| {
        let short = b.node(Op::Cast(Cast { to: DType::I16 }), &[x]);
        let half = b.node(Op::Cast(Cast { to: DType::F16 }), &[x]);
        let truth = b.node(Op::Cast(Cast { to: DType::Bool }), &[x]);
        let limits = [
            b.constant(&Tensor::from_bytes(DType::I16, &[], &[254, 255])),
            b.constant(&Tensor::from_bytes(DType::I16, &[], &[3, 0])),
        ];
        let square = b.binary(BinaryKind::Mul, short, short);
        let limited = b.node(Op::Clip(Clip), &[square, limits[0], limits[1]]);
        let positive = b.unary(UnaryKind::Relu, short);
        let chosen = b.node(Op::Where(Where), &[truth, limited, positive]);
        let bits = b.node(Op::BitCast(BitCast { to: DType::I16 }), &[half]);
        let most = b.node(Op::Reduce(Reduce::along(ReduceKind::Max, &[3])), &[short]);
        let whole = b.node(Op::Cast(Cast { to: DType::F64 }), &[truth]);
        let k = ints(b, &[2]);
        let op = TopK { axis: 3, largest: false, sorted: true, index_dtype: DType::I32 };
        let mut made = b.node_with(Op::TopK(op), &[Some(short), Some(k)], 2);
        made.extend([chosen, bits, most, b.binary(BinaryKind::Pow, whole, whole), half]);
        made
    }),
    ("elements by their places", |b, x| {
        let rows = b.constant(&Tensor::i64(&[2, 1], &[1, 0]));
        let columns = b.constant(&Tensor::i32(&[3], &[0, -1, 2]));
        let places = b.constant(&Tensor::i64(&[2, 3, 1], &[0, 1, 2, 3, -1, -2]));
        vec![
            b.node(Op::Index(Index { axes: vec![1, 2] }), &[x, rows, columns]),
            b.node(Op::Index(Index { axes: vec![0, 3] }), &[x, rows, columns]),
            b.node(Op::Index(Index { axes: vec![-2] }), &[x, columns]),
            b.node(Op::GatherNd(GatherNd { batch_dims: 1 }), &[x, places]),
        ]
    }),
    ("steps of a cell", |b, x| {
        // Five steps of three sequences: two directions, four gates, two units.
        let steps = reshape(b, x, &[5, 3, 16]);
        let operands = [
            steps,
            b.constant(&eighths(&[2, 8, 2])),
            b.constant(&eighths(&[2, 6])),
            b.constant(&eighths(&[2, 2, 3, 2])),
            b.constant(&Tensor::i32(&[3], &[5, 1, 3])),
        ];
        let op = Recurrence {
            cell: CellKind::Lstm,
            backwards: vec![false, true],
            functions: vec![[UnaryKind::Sigmoid, UnaryKind::Tanh, UnaryKind::Softsign]; 2],
            clip: 3.0,
            coupled: false,
        };
        vec![b.node(Op::Recurrence(op), &operands)]
    }),
    ("images by matrices, and weighted sums", |b, x| {
        let matrices = b.constant(&eighths(&[3, 3, 3]));
        let images = b.constant(&Tensor::i32(&[3], &[1, 0, 1]));
        let size = ints(b, &[4, 3]);
        let op = WarpPerspective { sampling: Sampling::Linear, border: BorderMode::Replicate };
        let planes = reshape(b, x, &[2, 4, 30]);
        let known = b.constant(&Tensor::i32(&[1, 2, 3], &[0, 29, -1, 7, 8, 9]));
        let factors = b.constant(&eighths(&[1, 2, 3]));
        vec![
            b.node(Op::WarpPerspective(op), &[x, matrices, images, size]),
            b.node(Op::Weigh(Weigh), &[planes, known, factors]),
        ]
    }),
    ("scales that are computed", |b, x| {
        let scale = b.node(Op::Reduce(Reduce::along(ReduceKind::Max, &[0, 1, 2, 3])), &[x]);
        let scale = reshape(b, scale, &[]);
        let zero = b.constant(&Tensor::u8(&[], &[7]));
        let q = b.node(Op::QuantizeLinear(QuantizeLinear { axis: 1, dtype: DType::U8 }), &[x, scale, zero]);
        vec![b.node(Op::DequantizeLinear(DequantizeLinear { axis: 1 }), &[q, scale, zero])]
    }),
    ("pools to an extent", |b, x| {
        let size = ints(b, &[4, 3]);
        let kind = PoolKind::Average { count_include_pad: false };
        vec![b.node(Op::AdaptivePool(AdaptivePool { kind }), &[x, size])]
    }),
];

/// Quantized operators on an image batch of (1, 5, 9, 7), quantized already.
const INTEGERS: &[(&str, Build)] = &[
    ("convolutions", |b, x| {
        let scales = [0.031_25, 0.0625, 0.015_625, 0.031_25, 0.0625, 0.031_25];
        let w = b.dequantized_constant(&bytes(&[6, 5, 3, 2]), &scales, 0);
        let c = b.constant(&eighths(&[6]));
        let y = b.conv_window(&[x, w, c], UNEVEN, 1);
        let y = b.unary(UnaryKind::Relu, y);
        let y = b.quantize_dequantize(y, OTHER, DType::I8);
        let w = b.dequantized_constant(&bytes(&[6, 1, 3, 3]), &[0.031_25], 0);
        let each = b.conv(&[y, w], 1, 1, 6);
        let each = b.quantize_dequantize(each, STEP, DType::I8);
        let sum = b.binary(BinaryKind::Add, each, y);
        vec![b.quantize_dequantize(sum, OTHER, DType::I8)]
    }),
    ("windows", |b, x| {
        let most = b.pool_window(PoolKind::Max, x, UNEVEN);
        let none = b.constant(&Tensor::f32(&[0], &[]));
        let scales = b.constant(&Tensor::f32(&[4], &[1.0, 1.0, 2.0, 3.0]));
        let op =
            Resize { mode: ResizeMode::Nearest(NearestMode::Floor), coordinates: CoordinateMode::Asymmetric };
        let wide = b.node(Op::Resize(op), &[most, none, scales]);
        let wide = b.quantize_dequantize(wide, STEP, DType::I8);
        let kind = PoolKind::Average { count_include_pad: false };
        let mean = b.pool_window(kind, x, Window { dilation: [1, 1], ..UNEVEN });
        let mean = b.quantize_dequantize(mean, OTHER, DType::I8);
        vec![wide, mean]
    }),
    ("parts", |b, x| {
        let sizes = ints(b, &[2, 3]);
        let parts = b.node_with(Op::Split(Split { axis: 1, parts: None }), &[Some(x), Some(sizes)], 2);
        let table = b.unary(UnaryKind::Sigmoid, parts[0]);
        let table = b.quantize_dequantize(table, STEP, DType::I8);
        let (starts, ends, axes, steps) = (ints(b, &[1]), ints(b, &[9]), ints(b, &[2]), ints(b, &[2]));
        let even = b.node(Op::Slice(Slice), &[parts[1], starts, ends, axes, steps]);
        let even = b.quantize_dequantize(even, STEP, DType::I8);
        let joined = b.node(Op::Concat(Concat { axis: 1 }), &[parts[1], table]);
        vec![b.quantize_dequantize(joined, STEP, DType::I8), even]
    }),
    ("a classifier", |b, x| {
        let w = b.dequantized_constant(&bytes(&[8, 5, 1, 1]), &[0.031_25], 0);
        let y = b.conv(&[x, w], 1, 0, 1);
        let y = b.quantize_dequantize(y, OTHER, DType::I8);
        let mean = b.node(Op::GlobalPool(GlobalPool::AVERAGE), &[y]);
        let mean = b.quantize_dequantize(mean, STEP, DType::I8);
        let row = reshape(b, mean, &[1, 8]);
        let w = b.dequantized_constant(&bytes(&[3, 8]), &[0.031_25, 0.0625, 0.015_625], 0);
        let c = b.constant(&eighths(&[3]));
        let scores = b.gemm(&[row, w, c], true);
        let scores = b.quantize_dequantize(scores, OTHER, DType::I8);
        vec![b.node(Op::Softmax(Softmax { axis: 1, flatten: false, log: false }), &[scores])]
    }),
    ("a function that stays on the host", |b, x| {
        let w = b.dequantized_constant(&bytes(&[5, 5, 1, 1]), &[0.031_25], 0);
        let y = b.conv(&[x, w], 1, 0, 1);
        let y = b.quantize_dequantize(y, OTHER, DType::I8);
        let v = b.conv(&[x, w], 1, 0, 1);
        let v = b.quantize_dequantize(v, STEP, DType::I8);
        let y = b.binary(BinaryKind::Div, y, v);
        let y = b.quantize_dequantize(y, STEP, DType::I8);
        let z = b.conv(&[y, w], 1, 0, 1);
        vec![b.quantize_dequantize(z, OTHER, DType::I8)]
    }),
    ("products of maps", |b, x| {
        let rows = reshape(b, x, &[1, 45, 7]);
        let columns = transpose(b, rows, &[0, 2, 1]);
        let product = b.node(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[rows, columns]);
        let product = b.quantize_dequantize(product, OTHER, DType::I8);
        let shares = b.node(Op::Softmax(Softmax { axis: 2, flatten: false, log: false }), &[product]);
        let shares = b.quantize_dequantize(shares, STEP, DType::I8);
        let mixed = b.node(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[shares, rows]);
        vec![b.quantize_dequantize(mixed, OTHER, DType::I8)]
    }),
    ("factors and terms", |b, x| {
        let each = b.dequantized_constant(&bytes(&[5, 1, 1]), &[0.031_25], 0);
        let scaled = b.binary(BinaryKind::Mul, x, each);
        let scaled = b.quantize_dequantize(scaled, OTHER, DType::I8);
        let shifted = b.binary(BinaryKind::Add, scaled, each);
        let shifted = b.quantize_dequantize(shifted, STEP, DType::I8);
        let gate = b.unary(UnaryKind::Sigmoid, x);
        let gate = b.quantize_dequantize(gate, STEP, DType::I8);
        let gated = b.binary(BinaryKind::Mul, gate, shifted);
        let gated = b.quantize_dequantize(gated, OTHER, DType::I8);
        vec![gated, shifted]
    }),
    ("pictures", |b, x| {
        let none = b.constant(&Tensor::f32(&[0], &[]));
        let scales = b.constant(&Tensor::f32(&[4], &[1.0, 1.0, 1.5, 2.0]));
        let op = Resize { mode: ResizeMode::Linear, coordinates: CoordinateMode::HalfPixel };
        let wide = b.node(Op::Resize(op), &[x, none, scales]);
        let wide = b.quantize_dequantize(wide, OTHER, DType::I8);
        let (pads, value) = (ints(b, &[0, 1, 2, 0, 0, 0, 1, 3]), b.constant(&Tensor::f32(&[], &[0.375])));
        let padded = b.node(Op::Pad(Pad { mode: PadMode::Constant }), &[x, pads, value]);
        let padded = b.quantize_dequantize(padded, STEP, DType::I8);
        let mirrored = b.node(Op::Pad(Pad { mode: PadMode::Reflect }), &[x, pads]);
        let mirrored = b.quantize_dequantize(mirrored, STEP, DType::I8);
        let most = b.node(Op::GlobalPool(GlobalPool::MAX), &[x]);
        vec![wide, padded, mirrored, b.quantize_dequantize(most, STEP, DType::I8)]
    }),
    ("reals before and behind, bytes without a sign between", |b, x| {
        let factor = b.constant(&eighths(&[1, 5, 1, 1]));
        let before = b.binary(BinaryKind::Mul, x, factor);
        let q = b.quantize(before, STEP, DType::U8);
        let back = b.dequantize(q, STEP, DType::U8);
        let w = b.dequantized_constant(&bytes(&[8, 5, 3, 3]), &[0.031_25], 0);
        let y = b.conv(&[back, w], 1, 1, 1);
        let q = b.quantize(y, QuantParams { scale: 0.125, zero_point: 131 }, DType::U8);
        let y = b.dequantize(q, QuantParams { scale: 0.125, zero_point: 131 }, DType::U8);
        let turned = transpose(b, y, &[0, 2, 3, 1]);
        let k = ints(b, &[3]);
        let op = TopK { axis: 3, largest: true, sorted: true, index_dtype: DType::I64 };
        b.node_with(Op::TopK(op), &[Some(turned), Some(k)], 2)
    }),
    ("the device and the host in turns", |b, x| {
        let w = b.dequantized_constant(&bytes(&[64, 5, 3, 3]), &[0.031_25], 0);
        let y = b.conv(&[x, w], 1, 1, 1);
        let mut y = b.quantize_dequantize(y, OTHER, DType::I8);
        let w = b.dequantized_constant(&bytes(&[64, 64, 3, 3]), &[0.031_25], 0);
        for last in [false, true] {
            for _ in 0..3 {
                y = b.conv(&[y, w], 1, 1, 1);
                y = b.quantize_dequantize(y, OTHER, DType::I8);
            }
            if !last {
                let exponent = b.constant(&Tensor::f32(&[1], &[1.5]));
                let positive = b.unary(UnaryKind::Relu, y);
                y = b.binary(BinaryKind::Pow, positive, exponent);
                y = b.quantize_dequantize(y, STEP, DType::I8);
            }
        }
        vec![y]
    }),
];

/// The same on inputs of other extents.
const SHAPES: &[(&str, &[usize], Build)] = &[
    ("rows", &[2, 9], |b, x| {
        let w = b.dequantized_constant(&bytes(&[4, 9]), &[0.031_25], 0);
        let y = b.gemm(&[x, w], true);
        vec![b.quantize_dequantize(y, OTHER, DType::I8)]
    }),
    ("sequences", &[1, 6, 9], |b, x| {
        let w = b.dequantized_constant(&bytes(&[9, 4]), &[0.031_25], 0);
        let y = b.node(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[x, w]);
        vec![b.quantize_dequantize(y, OTHER, DType::I8)]
    }),
    ("an image", &[1, 3, 9, 10], |b, x| {
        let w = b.dequantized_constant(&bytes(&[6, 3, 3, 2]), &[0.031_25], 0);
        let y = b.conv_window(&[x, w], UNEVEN, 1);
        vec![b.quantize_dequantize(y, OTHER, DType::I8)]
    }),
    ("many channels", &[1, 40, 3, 2], |b, x| {
        let w = b.dequantized_constant(&bytes(&[36, 40, 1, 1]), &[0.031_25], 0);
        let y = b.conv(&[x, w], 1, 0, 1);
        let y = b.quantize_dequantize(y, OTHER, DType::I8);
        let joined = b.node(Op::Concat(Concat { axis: 1 }), &[y, x]);
        vec![b.quantize_dequantize(joined, OTHER, DType::I8)]
    }),
    ("five axes", &[1, 2, 3, 4, 5], |b, x| {
        let y = b.binary(BinaryKind::Add, x, x);
        vec![b.quantize_dequantize(y, OTHER, DType::I8)]
    }),
];

const UNSIGNED: QuantParams = QuantParams { scale: 0.0625, zero_point: 131 };

/// On an image in bytes without a sign, which devices have as bytes with one.
const BYTES: &[(&str, Build)] = &[
    ("products of bytes without a sign", |b, x| {
        let w = b.dequantized_constant(&bytes(&[6, 5, 3, 2]), &[0.031_25], 0);
        let y = b.conv_window(&[x, w], UNEVEN, 1);
        let limited = b.unary(UnaryKind::Relu, y);
        let limited = b.quantize_dequantize(limited, UNSIGNED, DType::U8);
        let rows = reshape(b, limited, &[5, 36]);
        let w = b.dequantized_constant(&bytes(&[4, 36]), &[0.031_25], 0);
        let scores = b.gemm(&[rows, w], true);
        vec![b.quantize_dequantize(scores, QuantParams { scale: 0.25, zero_point: 9 }, DType::U8), limited]
    }),
    ("other functions of bytes without a sign", |b, x| {
        let table = b.unary(UnaryKind::Sigmoid, x);
        let table = b.quantize_dequantize(table, UNSIGNED, DType::U8);
        let sum = b.binary(BinaryKind::Add, table, x);
        let sum = b.quantize_dequantize(sum, QuantParams { scale: 0.125, zero_point: 77 }, DType::U8);
        let most = b.pool_window(PoolKind::Max, x, UNEVEN);
        vec![sum, b.quantize_dequantize(most, UNSIGNED, DType::U8)]
    }),
    ("turns in bytes without a sign", |b, x| {
        let w = b.dequantized_constant(&bytes(&[64, 5, 3, 3]), &[0.031_25], 0);
        let y = b.conv(&[x, w], 1, 1, 1);
        let mut y = b.quantize_dequantize(y, UNSIGNED, DType::U8);
        let w = b.dequantized_constant(&bytes(&[64, 64, 3, 3]), &[0.031_25], 0);
        for last in [false, true] {
            for _ in 0..3 {
                y = b.conv(&[y, w], 1, 1, 1);
                y = b.quantize_dequantize(y, UNSIGNED, DType::U8);
            }
            if !last {
                let exponent = b.constant(&Tensor::f32(&[1], &[1.5]));
                let positive = b.unary(UnaryKind::Relu, y);
                y = b.binary(BinaryKind::Pow, positive, exponent);
                y = b.quantize_dequantize(y, UNSIGNED, DType::U8);
                y = b.pool_window(
                    PoolKind::Max,
                    y,
                    Window { kernel: [3, 3], stride: [1, 1], dilation: [1, 1], pad: [1; 4] },
                );
                y = b.quantize_dequantize(y, UNSIGNED, DType::U8);
            }
        }
        vec![y]
    }),
];

fn border(out: &mut String, kind: &str, io: &TensorIo) {
    writeln!(
        out,
        "{kind} {} {} {} padding {:?} scale {} zero {} block {:?} model {}",
        io.name, io.dtype, io.shape, io.padding, io.scale, io.zero_point, io.block, io.model_shape
    )
    .expect("memory");
}

fn program(out: &mut String, program: &Program) {
    let line = |out: &mut String, text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    program.inputs.iter().for_each(|io| border(out, "input", io));
    program.outputs.iter().for_each(|io| border(out, "output", io));
    line(
        out,
        format!(
            "scratch {} of at least {}, {} constants {:016x}",
            program.scratch_bytes,
            program.scratch_lower_bound,
            program.constants.len(),
            digest(&program.constants)
        ),
    );
    line(out, format!("results {} waits {:?} {:?}", program.results, program.waits, program.residency));
    for each in &program.buffers {
        let (segment, place, end) = (each.segment, each.offset, each.offset + each.bytes);
        line(
            out,
            format!("map {segment}: {place}..{end} at {}..{} read {}", each.first, each.last, each.reads),
        );
    }
    let mut first = 0;
    let commands = common::commands(program);
    for each in &program.operators {
        line(out, format!("{} ({}) {}..{} {:?}", each.name, each.kind, each.first, each.last, each.axes));
        for command in &commands[first..each.last as usize] {
            line(out, format!("  {command:?}"));
        }
        first = each.last as usize;
    }
}

#[track_caller]
fn compare(name: &str, got: &str) {
    pinned(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pinned/{name}.txt")), got);
}

#[test]
fn programs_of_the_host() {
    let host = DeviceSpec::builtin("host").expect("the host");
    let mut out = String::new();
    for &(name, build) in REALS {
        let mut b = GraphBuilder::new();
        let x = b.input("x", DType::F32, &[2, 4, 6, 5]);
        let made = build(&mut b, x);
        let graph = b.finish(&made);
        let (made, _) = triune_compiler::compile_host(
            graph,
            &host,
            true,
            None,
            triune_compiler::PlanOptions::default().search,
        )
        .expect(name);
        writeln!(out, "== {name}").expect("memory");
        program(&mut out, &made);
    }
    compare("host", &out);
}

#[test]
fn programs_of_npus() {
    for (device, block) in [("metis", None), ("zg330", Some(16)), ("buyi", Some(4))] {
        let spec = DeviceSpec::builtin(device).expect(device);
        let mut out = String::new();
        let image = &[1, 5, 9, 7][..];
        let signed = INTEGERS.iter().map(|&(name, build)| (name, image, build, (STEP, DType::I8)));
        let shapes = SHAPES.iter().map(|&(name, shape, build)| (name, shape, build, (STEP, DType::I8)));
        let unsigned = BYTES.iter().map(|&(name, build)| (name, image, build, (UNSIGNED, DType::U8)));
        for (name, shape, build, (params, dtype)) in signed.chain(shapes).chain(unsigned) {
            let mut b = GraphBuilder::new();
            let x = b.input("x", DType::F32, shape);
            let x = b.quantize_dequantize(x, params, dtype);
            let made = build(&mut b, x);
            let graph = b.finish(&made);
            writeln!(out, "== {name}").expect("memory");
            let options = CompileOptions { block, ..CompileOptions::default() };
            match compile(&graph, &spec, &options) {
                Ok(made) => {
                    let summary = &made.summary;
                    writeln!(
                        out,
                        "nodes {} on the device, {} before, {} between, {} behind",
                        summary.device_nodes,
                        summary.preprocess_nodes,
                        summary.between_nodes,
                        summary.postprocess_nodes
                    )
                    .expect("memory");
                    for side in [made.report.device, made.report.host] {
                        writeln!(out, "{side:?}").expect("memory");
                    }
                    made.report.stayed.iter().for_each(|each| writeln!(out, "{each:?}").expect("memory"));
                    made.report.crossings.iter().for_each(|each| writeln!(out, "{each:?}").expect("memory"));
                    made.report.outputs.iter().for_each(|each| writeln!(out, "{each:?}").expect("memory"));
                    program(&mut out, &made.program);
                }
                Err(error) => writeln!(out, "{error}").expect("memory"),
            }
        }
        compare(device, &out);
    }
}
