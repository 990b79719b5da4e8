//! Operators of each family, with operands of every form, behind and within a core: documents compute what the model computes,
//! and what the representation cannot say is refused by name.

use triune_compiler::PlanOptions;
use triune_device::DeviceSpec;
use triune_graph::{Graph, Op, ValueId, ops};
use triune_icraft::{Error, Stages};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Tensor as Naive, Window};

use crate::{difference, floats, reals, run, run_document};
use ops::{BinaryKind as B, UnaryKind as U};

pub(super) type Build = fn(&mut GraphBuilder, ValueId) -> Vec<ValueId>;

const STEP: QuantParams = QuantParams { scale: 0.0625, zero_point: 0 };

/// Integers from −14 to 14, no two neighbours the same.
pub(super) fn bytes(count: usize) -> Vec<i8> {
    (0..count).map(|at| (at * 37 % 29) as i8 - 14).collect()
}

/// Eighths from −2 to 2.
pub(super) fn eighths(shape: &[usize]) -> Naive {
    let count = shape.iter().product();
    Naive::f32(shape, &(0..count).map(|at| (at * 23 % 33) as f32 / 8.0 - 2.0).collect::<Vec<f32>>())
}

pub(super) fn ints(builder: &mut GraphBuilder, values: &[i64]) -> ValueId {
    builder.constant(&Naive::i64(&[values.len()], values))
}

pub(super) fn quantized(builder: &mut GraphBuilder, x: ValueId) -> ValueId {
    builder.quantize_dequantize(x, STEP, DType::I8)
}

pub(super) fn reshape(builder: &mut GraphBuilder, x: ValueId, shape: &[i64]) -> ValueId {
    let shape = ints(builder, shape);
    builder.node(Op::Reshape(ops::Reshape { allow_zero: false }), &[x, shape])
}

fn matmul(builder: &mut GraphBuilder, a: ValueId, b: ValueId) -> ValueId {
    builder.node(Op::MatMul(ops::MatMul { epilogue: ops::Epilogue::default() }), &[a, b])
}

fn reduce(builder: &mut GraphBuilder, kind: ops::ReduceKind, axes: &[isize], x: ValueId) -> ValueId {
    let op = ops::Reduce { kind, axes: Some(axes.to_vec()), keep_dims: false };
    builder.node(Op::Reduce(op), &[x])
}

/// A quantized convolution by channel over (1, 4, 6, 5), and what is built behind it.
pub(super) fn behind(build: Build) -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 4, 6, 5]);
    let x = quantized(&mut builder, x);
    let weights = builder.dequantized_constant(&Naive::i8(&[4, 1, 3, 3], &bytes(36)), &[0.03125], 0);
    let y = builder.conv(&[x, weights], 1, 1, 4);
    let y = quantized(&mut builder, y);
    let made = build(&mut builder, y);
    builder.finish(&made)
}

/// What each case is called, and what is behind the convolution.
pub(super) const KEPT: &[(&str, Build)] = &[
    ("gemm of reals with rows and a bias", |b, y| {
        let y = reshape(b, y, &[4, 30]);
        let (w, c) = (b.constant(&eighths(&[30, 3])), b.constant(&eighths(&[3])));
        vec![b.gemm(&[y, w, c], false)]
    }),
    ("gemm of reals with columns", |b, y| {
        let y = reshape(b, y, &[4, 30]);
        let w = b.constant(&eighths(&[3, 30]));
        vec![b.gemm(&[y, w], true)]
    }),
    ("gemm of integers with scales by row", |b, y| {
        let y = reshape(b, y, &[4, 30]);
        let w = b.dequantized_constant(&Naive::i8(&[3, 30], &bytes(90)), &[0.03125, 0.0625, 0.015_625], 0);
        let c = b.constant(&eighths(&[3]));
        let z = b.gemm(&[y, w, c], true);
        vec![quantized(b, z)]
    }),
    ("gemm of integers with scales by column", |b, y| {
        let y = reshape(b, y, &[4, 30]);
        let w = b.dequantized_constant(&Naive::i8(&[30, 3], &bytes(90)), &[0.03125, 0.0625, 0.015_625], 1);
        let z = b.gemm(&[y, w], false);
        vec![quantized(b, z)]
    }),
    ("gemm of integers with a bias of integers", |b, y| {
        let y = reshape(b, y, &[4, 30]);
        let w = b.dequantized_constant(&Naive::i8(&[30, 3], &bytes(90)), &[0.03125], 1);
        let c = b.dequantized_constant(&Naive::i32(&[3], &[500, -700, 33]), &[0.0625 * 0.03125], 0);
        let z = b.gemm(&[y, w, c], false);
        vec![quantized(b, z)]
    }),
    ("gemm of integers with a bias of other steps", |b, y| {
        let y = reshape(b, y, &[4, 30]);
        let scales = [0.03125, 0.0625, 0.015_625];
        let w = b.dequantized_constant(&Naive::i8(&[30, 3], &bytes(90)), &scales, 1);
        let c = b.dequantized_constant(&Naive::i32(&[3], &[50, -70, 33]), &[0.125], 0);
        let z = b.gemm(&[y, w, c], false);
        vec![quantized(b, z)]
    }),
    ("gemm of integers with biases that have zero points", |b, y| {
        let y = reshape(b, y, &[4, 30]);
        let scales = [0.03125, 0.0625, 0.015_625];
        let w = b.dequantized_constant(&Naive::i8(&[30, 3], &bytes(90)), &scales, 1);
        let mut made = Vec::new();
        for zeros in [[3, 3, 3], [0, 7, 0]] {
            let c = b.constant(&Naive::i32(&[3], &[500, -700, 33]));
            let steps = b.constant(&Naive::f32(&[3], &scales.map(|scale| scale * STEP.scale)));
            let zeros = b.constant(&Naive::i32(&[3], &zeros));
            let c = b.node(Op::DequantizeLinear(ops::DequantizeLinear { axis: 0 }), &[c, steps, zeros]);
            let z = b.gemm(&[y, w, c], false);
            made.push(quantized(b, z));
        }
        made
    }),
    ("matmul by a constant", |b, y| {
        let w = b.constant(&eighths(&[5, 3]));
        let product = matmul(b, y, w);
        // Results of four axes that are no images are no test's business here.
        vec![reshape(b, product, &[24, 3])]
    }),
    ("matmul of two that are computed", |b, y| {
        let (left, right) = (reshape(b, y, &[2, 10, 6]), reshape(b, y, &[2, 6, 10]));
        vec![matmul(b, left, right)]
    }),
    ("matmul by another rank", |b, y| {
        let (left, right) = (reshape(b, y, &[20, 6]), reshape(b, y, &[2, 6, 10]));
        vec![matmul(b, left, right)]
    }),
    ("a normalization of an image", |b, y| {
        let rows =
            [[0.5, 2.0, -1.0, 1.5], [1.0, -0.5, 0.25, 2.0], [0.125, -1.0, 0.5, 1.0], [1.0, 4.0, 0.25, 9.0]];
        let rows = rows.map(|row| b.constant(&Naive::f32(&[4], &row)));
        let op = Op::BatchNormalization(ops::BatchNormalization { epsilon: 0.5 });
        vec![b.node(op, &[y, rows[0], rows[1], rows[2], rows[3]])]
    }),
    ("a normalization of rows", |b, y| {
        let y = reshape(b, y, &[2, 3, 20]);
        let rows = [[0.5, 2.0, -1.0], [1.0, -0.5, 0.25], [0.125, -1.0, 0.5], [1.0, 4.0, 0.25]];
        let rows = rows.map(|row| b.constant(&Naive::f32(&[3], &row)));
        let op = Op::BatchNormalization(ops::BatchNormalization { epsilon: 0.5 });
        vec![b.node(op, &[y, rows[0], rows[1], rows[2], rows[3]])]
    }),
    ("the largest of a window", |b, y| {
        let window = Window { kernel: [3, 2], stride: [2, 1], dilation: [1, 2], pad: [1, 0, 2, 1] };
        vec![b.pool_window(ops::PoolKind::Max, y, window)]
    }),
    ("the mean of a window", |b, y| {
        let window = Window { kernel: [2, 3], stride: [1, 2], dilation: [1, 1], pad: [0, 2, 1, 1] };
        vec![
            b.pool_window(ops::PoolKind::Average { count_include_pad: true }, y, window),
            b.pool_window(ops::PoolKind::Average { count_include_pad: false }, y, window),
        ]
    }),
    ("windows that reach beyond", |b, y| {
        let op = |kind| ops::Pool {
            kind,
            kernel: [3, 2],
            stride: [2, 2],
            dilation: [1, 1],
            pad: [1, 0, 0, 0],
            auto_pad: ops::AutoPad::Explicit,
            ceil_mode: true,
        };
        vec![
            b.node(Op::Pool(Box::new(op(ops::PoolKind::Max))), &[y]),
            b.node(Op::Pool(Box::new(op(ops::PoolKind::Average { count_include_pad: false }))), &[y]),
        ]
    }),
    ("one window", |b, y| {
        vec![
            b.node(Op::GlobalPool(ops::GlobalPool::AVERAGE), &[y]),
            b.node(Op::GlobalPool(ops::GlobalPool::MAX), &[y]),
        ]
    }),
    ("limits on either side", |b, y| {
        let (low, high) = (b.constant(&Naive::f32(&[], &[-0.75])), b.constant(&Naive::f32(&[], &[0.5])));
        let both = b.node(Op::Clip(ops::Clip), &[y, low, high]);
        let above = b.node(Op::Clip(ops::Clip), &[y, low]);
        let below = b.node_with(Op::Clip(ops::Clip), &[Some(y), None, Some(high)], 1)[0];
        vec![both, above, below]
    }),
    ("a choice", |b, y| {
        let (row, least) = (b.constant(&eighths(&[5])), b.constant(&eighths(&[4, 1, 1])));
        let mut made = Vec::new();
        for kind in [B::Equal, B::NotEqual, B::Less, B::LessOrEqual, B::Greater, B::GreaterOrEqual] {
            let condition = b.binary(kind, y, least);
            made.push(b.node(Op::Where(ops::Where), &[condition, y, row]));
        }
        made
    }),
    ("constants of fewer axes on either side", |b, y| {
        let row = b.constant(&eighths(&[5]));
        vec![b.binary(B::Sub, row, y), b.binary(B::Sub, y, row), b.binary(B::FloorDiv, y, row)]
    }),
    ("an operand of fewer axes that is computed", |b, y| {
        let mean = reduce(b, ops::ReduceKind::Mean, &[0, 1], y);
        vec![b.binary(B::Sub, y, mean), b.binary(B::Sub, mean, y)]
    }),
    ("powers", |b, y| {
        let magnitude = b.unary(U::Abs, y);
        let (two, half) = (b.constant(&Naive::f32(&[], &[2.0])), b.constant(&Naive::f32(&[], &[0.5])));
        let large = b.constant(&Naive::f32(&[], &[3.0]));
        let large = b.binary(B::Add, magnitude, large);
        vec![b.binary(B::Pow, y, two), b.binary(B::Pow, magnitude, half), b.unary(U::Reciprocal, large)]
    }),
    ("one slope, and as many as channels", |b, y| {
        let (one, each) = (b.constant(&eighths(&[1])), b.constant(&eighths(&[4, 1, 1])));
        let each_of_batch = b.constant(&eighths(&[1, 4, 1, 1]));
        let sequence = reshape(b, y, &[1, 4, 30]);
        let of_sequence = b.constant(&eighths(&[4, 1]));
        vec![
            b.binary(B::PRelu, y, one),
            b.binary(B::PRelu, y, each),
            b.binary(B::PRelu, y, each_of_batch),
            b.binary(B::PRelu, sequence, of_sequence),
        ]
    }),
    ("functions within limits", |b, y| {
        let third = b.constant(&Naive::f32(&[], &[0.2]));
        let small = b.binary(B::Mul, y, third);
        let small = b.unary(U::Clip([-0.875, 0.875]), small);
        let above = b.constant(&Naive::f32(&[], &[2.5]));
        let above = b.binary(B::Add, small, above);
        let mut made: Vec<ValueId> =
            [U::Tan, U::Asin, U::Acos, U::Atan, U::Sinh, U::Cosh, U::Asinh, U::Atanh, U::Softsign]
                .map(|kind| b.unary(kind, small))
                .to_vec();
        made.extend([U::Log, U::Sqrt, U::Acosh].map(|kind| b.unary(kind, above)));
        made
    }),
    ("other orders of axes", |b, y| {
        let turned = b.node(Op::Transpose(ops::Transpose { perm: vec![3, 0, 2, 1] }), &[y]);
        let last = b.node(Op::Transpose(ops::Transpose { perm: vec![0, 2, 3, 1] }), &[y]);
        let rows = reshape(b, last, &[30, 4]);
        let row = b.constant(&eighths(&[4]));
        let sum = b.binary(B::Add, rows, row);
        let turned = reshape(b, turned, &[5, 6, 4]);
        vec![turned, b.node(Op::Flatten(ops::Flatten { axis: 2 }), &[y]), sum]
    }),
    ("axes of extent 1", |b, y| {
        let first = ints(b, &[0]);
        let gone = b.node(Op::Squeeze(ops::Squeeze), &[y, first]);
        let where_to = ints(b, &[1, -1]);
        let back = b.node(Op::Unsqueeze(ops::Unsqueeze), &[gone, where_to]);
        vec![gone, back]
    }),
    ("one index", |b, y| {
        let (third, last) = (b.constant(&Naive::i64(&[], &[2])), b.constant(&Naive::i64(&[], &[-1])));
        let first = b.constant(&Naive::i64(&[], &[0]));
        vec![
            b.node(Op::Gather(ops::Gather { axis: 1 }), &[y, first]),
            b.node(Op::Gather(ops::Gather { axis: 1 }), &[y, third]),
            b.node(Op::Gather(ops::Gather { axis: -1 }), &[y, last]),
            b.node(Op::Gather(ops::Gather { axis: 2 }), &[y, third]),
        ]
    }),
    ("borders", |b, y| {
        let pads = ints(b, &[0, 1, 2, 0, 0, 0, 1, 3]);
        let value = b.constant(&Naive::f32(&[], &[0.375]));
        let [constant, reflect, edge] = [ops::PadMode::Constant, ops::PadMode::Reflect, ops::PadMode::Edge]
            .map(|mode| Op::Pad(ops::Pad { mode }));
        let (few, axes) = (ints(b, &[2, 1]), ints(b, &[-2]));
        let named = b.node_with(constant.clone(), &[Some(y), Some(few), None, Some(axes)], 1)[0];
        vec![
            b.node(constant, &[y, pads, value]),
            b.node(reflect, &[y, pads]),
            b.node(edge, &[y, pads]),
            named,
        ]
    }),
    ("a border of a real that integers have", |b, y| {
        let pads = ints(b, &[0, 0, 1, 2, 0, 0, 3, 0]);
        let value = b.constant(&Naive::f32(&[], &[0.375]));
        let wide = b.node(Op::Pad(ops::Pad { mode: ops::PadMode::Constant }), &[y, pads, value]);
        let weights = b.dequantized_constant(&Naive::i8(&[4, 1, 3, 3], &bytes(36)), &[0.03125], 0);
        let z = b.conv(&[wide, weights], 1, 1, 4);
        vec![quantized(b, z)]
    }),
    ("joined along other axes", |b, y| {
        let more = b.unary(U::Neg, y);
        vec![
            b.node(Op::Concat(ops::Concat { axis: 1 }), &[y, more]),
            b.node(Op::Concat(ops::Concat { axis: -1 }), &[more, y]),
            b.node(Op::Concat(ops::Concat { axis: 2 }), &[y, more, y]),
        ]
    }),
    ("every second element of parts", |b, y| {
        let (starts, ends, axes, steps) =
            (ints(b, &[1, -4]), ints(b, &[100, -1]), ints(b, &[-2, 3]), ints(b, &[2, 2]));
        let part = b.node(Op::Slice(ops::Slice), &[y, starts, ends, axes, steps]);
        let sizes = ints(b, &[1, 2, 2]);
        let parts = b.node_with(Op::Split(ops::Split { axis: -1, parts: None }), &[Some(y), Some(sizes)], 3);
        [vec![part], parts].concat()
    }),
    ("a larger image", |b, y| {
        let none = b.constant(&Naive::f32(&[0], &[]));
        let scales = b.constant(&Naive::f32(&[4], &[1.0, 1.0, 2.0, 3.0]));
        let mut made = Vec::new();
        for (mode, coordinates) in [
            (
                ops::ResizeMode::Nearest(ops::NearestMode::RoundPreferCeil),
                ops::CoordinateMode::PytorchHalfPixel,
            ),
            (ops::ResizeMode::Linear, ops::CoordinateMode::PytorchHalfPixel),
            (ops::ResizeMode::Linear, ops::CoordinateMode::AlignCorners),
        ] {
            made.push(b.node(Op::Resize(ops::Resize { mode, coordinates }), &[y, none, scales]));
        }
        made
    }),
    ("layer normalizations over one axis and several", |b, y| {
        let axes = [([1, 4], vec![4, 6, 5]), ([2, 4], vec![6, 5]), ([3, 4], vec![5])];
        let norms = axes.map(|(axes, shape)| {
            let factors: Vec<f32> = eighths(&shape).as_f32().iter().map(|x| 0.5 + x).collect();
            let [factors, addends] =
                [Naive::f32(&shape, &factors), eighths(&shape)].map(|row| b.constant(&row));
            let norm = ops::LayerNorm { axes, epsilon: 0.25, centred: true };
            let norm = b.node(Op::LayerNorm(norm), &[y, factors, addends]);
            // In the model's order of axes, whatever the one before it was.
            reshape(b, norm, &[4, 30])
        });
        norms.to_vec()
    }),
];

#[test]
fn operators_of_every_family_keep_their_values() {
    let values: Vec<f32> = reals(120, 4.0).iter().map(|x| x - 2.0).collect();
    let inputs = [(vec![1, 4, 6, 5], values)];
    let mut wrong = Vec::new();
    for &(what, build) in KEPT {
        for device in ["zg330", "buyi"] {
            let spec = DeviceSpec::builtin(device).unwrap();
            let model = behind(build);
            let stages = match Stages::new(&model, None, &spec, &PlanOptions::default()) {
                Ok(stages) => stages,
                Err(error) => {
                    wrong.push(format!("{what} on {device}: {error}"));
                    continue;
                }
            };
            let wanted: Vec<Vec<f32>> = run(model, &inputs).iter().map(floats).collect();
            for document in [&stages.quantized, &stages.adapted] {
                let far = difference(&run_document(document, &inputs), &wanted);
                if far > 1e-5 {
                    wrong.push(format!("{what} on {device}: {} differs by {far}", document.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// What cannot be said: the operator and the words that an error has, and what is behind the convolution.
const REFUSED: &[(&str, &str, Build)] = &[
    ("TopK", "has no such operator; let the model end before it (--outputs ", |b, y| {
        let k = ints(b, &[2]);
        let op = ops::TopK { axis: 1, largest: true, sorted: true, index_dtype: DType::I64 };
        b.node_with(Op::TopK(op), &[Some(y), Some(k)], 2)
    }),
    ("Clip", "its limits are not constant reals", |b, y| {
        let low = reduce(b, ops::ReduceKind::Mean, &[0, 1, 2, 3], y);
        vec![b.node(Op::Clip(ops::Clip), &[y, low])]
    }),
    ("Gemm", "its bias is not", |b, y| {
        let (left, w) = (reshape(b, y, &[4, 30]), b.constant(&eighths(&[30, 5])));
        let c = reduce(b, ops::ReduceKind::Sum, &[0, 1, 2], y);
        vec![b.gemm(&[left, w, c], false)]
    }),
    ("Gemm", "its bias is not one per output channel", |b, y| {
        let (left, w) = (reshape(b, y, &[4, 30]), b.constant(&eighths(&[30, 5])));
        let c = b.constant(&eighths(&[4, 1]));
        vec![b.gemm(&[left, w, c], false)]
    }),
    ("Add", "it is fused with what follows", |b, y| {
        let row = b.constant(&eighths(&[5]));
        vec![b.node(Op::Binary(ops::Binary { kind: B::Add, epilogue: relued() }), &[y, row])]
    }),
    ("Conv", "it is fused with what follows", |b, y| {
        let weights = b.constant(&eighths(&[2, 4, 1, 1]));
        let op = ops::Conv {
            kernel: None,
            stride: [1; 2],
            dilation: [1; 2],
            pad: [0; 4],
            auto_pad: ops::AutoPad::Explicit,
            groups: 1,
            epilogue: relued(),
        };
        vec![b.node(Op::Conv(Box::new(op)), &[y, weights])]
    }),
    ("Gemm", "it is fused with what follows", |b, y| {
        let (y, w) = (reshape(b, y, &[4, 30]), b.constant(&eighths(&[30, 3])));
        let op = ops::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false, epilogue: relued() };
        vec![b.node(Op::Gemm(op), &[y, w])]
    }),
    ("Conv", "its weights are computed, and of such a convolution only one over integers", |b, y| {
        let weights = reshape(b, y, &[30, 4, 1, 1]);
        vec![b.conv(&[y, weights], 1, 0, 1)]
    }),
    ("BatchNormalization", "its parameters are not constant", |b, y| {
        let mean = reduce(b, ops::ReduceKind::Mean, &[0, 2, 3], y);
        let row = b.constant(&Naive::f32(&[4], &[0.5, 1.0, 2.0, 4.0]));
        let op = Op::BatchNormalization(ops::BatchNormalization { epsilon: 0.5 });
        vec![b.node(op, &[y, row, row, mean, row])]
    }),
    ("PRelu", "its slopes are not one constant, or one for each channel", |b, y| {
        let slopes = b.constant(&eighths(&[4, 1, 5]));
        vec![b.binary(B::PRelu, y, slopes)]
    }),
    ("PRelu", "its slopes are not one constant, or one for each channel", |b, y| {
        let op = ops::Reduce { kind: ops::ReduceKind::Mean, axes: Some(vec![2, 3]), keep_dims: true };
        let slopes = b.node(Op::Reduce(op), &[y]);
        vec![b.binary(B::PRelu, y, slopes)]
    }),
    ("LogSoftmax", "the logarithm of a softmax over several axes", |b, y| {
        vec![b.node(Op::Softmax(ops::Softmax { axis: 1, flatten: true, log: true }), &[y])]
    }),
    ("ReduceProd", "has no product along an axis", |b, y| vec![reduce(b, ops::ReduceKind::Product, &[1], y)]),
    ("ArgMax", "the last of equal extremes", |b, y| {
        let op = ops::ArgReduce {
            kind: ops::ReduceKind::Max,
            axis: 1,
            keep_dims: true,
            last: true,
            dtype: DType::I64,
        };
        vec![b.node(Op::ArgReduce(op), &[y])]
    }),
    ("AveragePool", "with dilation [1, 2]; the vendor's has none", |b, y| {
        let window = Window { kernel: [2, 2], stride: [1, 1], dilation: [1, 2], pad: [0; 4] };
        vec![b.pool_window(ops::PoolKind::Average { count_include_pad: false }, y, window)]
    }),
    ("AveragePool", "counts the padding [1, 0, 0, 0] but not the", |b, y| {
        let op = ops::Pool {
            kind: ops::PoolKind::Average { count_include_pad: true },
            kernel: [3, 2],
            stride: [1, 2],
            dilation: [1; 2],
            pad: [1, 0, 0, 0],
            auto_pad: ops::AutoPad::Explicit,
            ceil_mode: true,
        };
        vec![b.node(Op::Pool(Box::new(op)), &[y])]
    }),
    ("Resize", "resampling of images or channels", |b, y| {
        vec![resized(b, y, &[1.0, 2.0, 2.0, 2.0], ops::ResizeMode::Nearest(ops::NearestMode::Floor))]
    }),
    ("Pad", "a border that takes elements away", |b, y| {
        let pads = ints(b, &[0, 0, -1, 0, 0, 0, 2, 0]);
        vec![b.node(Op::Pad(ops::Pad { mode: ops::PadMode::Constant }), &[y, pads])]
    }),
    ("Gather", "let the model end before it (--outputs), or compile the model into a package", |b, y| {
        let op = ops::ArgReduce {
            kind: ops::ReduceKind::Max,
            axis: 1,
            keep_dims: false,
            last: false,
            dtype: DType::I64,
        };
        let indices = b.node(Op::ArgReduce(op), &[y]);
        vec![b.node(Op::Gather(ops::Gather { axis: 1 }), &[y, indices])]
    }),
    ("Pad", "what it fills with is not one constant real", |b, y| {
        let (pads, value) = (ints(b, &[0, 0, 1, 0, 0, 0, 2, 0]), reduce(b, ops::ReduceKind::Max, &[3], y));
        let value = reduce(b, ops::ReduceKind::Sum, &[0, 1, 2], value);
        vec![b.node(Op::Pad(ops::Pad { mode: ops::PadMode::Constant }), &[y, pads, value])]
    }),
    ("QuantizeLinear", "one constant scale and zero point", |b, y| {
        let scales = b.constant(&Naive::f32(&[4], &[0.5, 0.25, 0.125, 1.0]));
        let q = b.node(Op::QuantizeLinear(ops::QuantizeLinear { axis: 1, dtype: DType::I8 }), &[y, scales]);
        vec![b.node(Op::DequantizeLinear(ops::DequantizeLinear { axis: 1 }), &[q, scales])]
    }),
    ("DequantizeLinear", "does not read its operand's integers as they were written", |b, y| {
        let q = b.quantize(y, STEP, DType::I8);
        let z = b.dequantize(q, QuantParams { scale: 0.125, zero_point: 0 }, DType::I8);
        vec![z]
    }),
    ("DequantizeLinear", "does not read its operand's integers as they were written", |b, y| {
        let q = b.quantize(y, STEP, DType::I8);
        let z = b.dequantize(q, QuantParams { scale: 0.0625, zero_point: 1 }, DType::I8);
        vec![z]
    }),
    ("Concat", "it moves integers that do not mean the same", |b, y| {
        let more = b.unary(U::Neg, y);
        let other = QuantParams { scale: 0.125, zero_point: 0 };
        let (left, right) = (b.quantize(y, STEP, DType::I8), b.quantize(more, other, DType::I8));
        let joined = b.node(Op::Concat(ops::Concat { axis: 1 }), &[left, right]);
        vec![b.dequantize(joined, STEP, DType::I8)]
    }),
    ("Add", "it computes on integers, not on what they mean, as", |b, y| {
        let more = b.unary(U::Neg, y);
        let (left, right) = (b.quantize(y, STEP, DType::I8), b.quantize(more, STEP, DType::I8));
        let sum = b.binary(B::Add, left, right);
        vec![b.dequantize(sum, STEP, DType::I8)]
    }),
];

fn relued() -> ops::Epilogue {
    ops::Epilogue { post_ops: vec![ops::PostOp::Activation(U::Relu)] }
}

fn resized(builder: &mut GraphBuilder, x: ValueId, scales: &[f32], mode: ops::ResizeMode) -> ValueId {
    let none = builder.constant(&Naive::f32(&[0], &[]));
    let scales = builder.constant(&Naive::f32(&[4], scales));
    let op = ops::Resize { mode, coordinates: ops::CoordinateMode::Asymmetric };
    builder.node(Op::Resize(op), &[x, none, scales])
}

#[test]
fn what_cannot_be_said_is_named() {
    let spec = DeviceSpec::builtin("zg330").unwrap();
    let mut wrong = Vec::new();
    for &(op, words, build) in REFUSED {
        match Stages::new(&behind(build), None, &spec, &PlanOptions::default()) {
            Ok(_) => wrong.push(format!("{op}: written all the same; wanted '{words}'")),
            Err(error) => {
                let text = error.to_string();
                let kind = matches!(error, Error::Compile(triune_compiler::Error::Unsupported { .. }));
                let named = text.starts_with("node 'node") && text.contains(&format!("({op})"));
                if !(kind && named && text.contains(words)) {
                    wrong.push(format!("{op}, '{words}': {text}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), REFUSED.len(), wrong.join("\n"));
    let spec = DeviceSpec::builtin("host").unwrap();
    let model = behind(|_, y| vec![y]);
    let error = Stages::new(&model, None, &spec, &PlanOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Compile(triune_compiler::Error::Argument(_))), "{error}");
    assert!(error.to_string().contains("are for buyi and zg330; 'host' is neither"), "{error}");
}
