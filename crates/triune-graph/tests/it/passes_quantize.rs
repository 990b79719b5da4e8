//! The quantization pass: each pattern becomes its integer form, and the numbers stay where the float graph has them.

use crate::passes_common::{Numbers, count, distance};
use triune_graph::{
    Constant, Graph, Op, Provenance, Value, ValueId,
    ops::{
        BinaryKind, Concat, Flatten, GlobalPool, Identity, Pad, PadMode, PoolKind, PostOp, Reduce,
        ReduceKind, Reshape, Softmax, Transpose, Unary, UnaryKind,
    },
    passes::{self, quantize},
};
use triune_tensor::{DType, QuantParams, Requantize};
use triune_testing::{GraphBuilder, Tensor, interpret};

fn is_border(op: &Op) -> bool {
    matches!(op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_))
}

/// A graph of one quantized input, `body`, and one quantized output.
fn between(
    numbers: &mut Numbers,
    shape: &[usize],
    out: QuantParams,
    dtype: DType,
    body: impl FnOnce(&mut GraphBuilder, &mut Numbers, ValueId, QuantParams) -> ValueId,
) -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, shape);
    let params = numbers.params(dtype, 2.0);
    let x = builder.quantize_dequantize(x, params, dtype);
    let y = body(&mut builder, numbers, x, params);
    let y = builder.quantize_dequantize(y, out, dtype);
    builder.finish_inferred(&[y])
}

/// Runs the graph before and after the pass on random reals. Asserts that only the outer `QuantizeLinear` and
/// `DequantizeLinear` are left and that no result is off by more than one step.
fn check(numbers: &mut Numbers, graph: &Graph, shape: &[usize], step: f32) -> Graph {
    let mut quantized = graph.clone();
    assert!(quantize(&mut quantized).expect("a sound graph"));
    assert_eq!(count(&quantized, is_border), 2, "{:#?}", quantized.nodes);
    let x = numbers.reals(shape, 2.5);
    let before = interpret(graph, &[("x", x.clone())]);
    let after = interpret(&quantized, &[("x", x)]);
    let worst = distance(&before[0], &after[0]);
    assert!(worst <= step * 1.001, "off by {worst}, a step is {step}");
    quantized
}

fn quantized_conv(
    builder: &mut GraphBuilder,
    numbers: &mut Numbers,
    x: ValueId,
    params: QuantParams,
    per_channel: bool,
) -> ValueId {
    let scales: Vec<f32> =
        (0..if per_channel { 4 } else { 1 }).map(|_| 0.001 + 0.01 * numbers.unit()).collect();
    let weights = numbers.bytes(&[4, 3, 3, 3]);
    let weights = builder.dequantized_constant(&weights, &scales, 0);
    let bias_scales: Vec<f32> = scales.iter().map(|scale| scale * params.scale).collect();
    let bias = numbers.ints(&[4], 5000);
    let bias = builder.dequantized_constant(&bias, &bias_scales, 0);
    builder.conv(&[x, weights, bias], 1, 1, 1)
}

#[test]
fn convolution_becomes_integer() {
    for (seed, dtype) in [(1, DType::U8), (2, DType::I8), (3, DType::U8), (4, DType::I8)] {
        let numbers = &mut Numbers::new(seed);
        let out = numbers.params(dtype, 8.0);
        let graph = between(numbers, &[1, 3, 6, 5], out, dtype, |builder, numbers, x, params| {
            quantized_conv(builder, numbers, x, params, seed % 2 == 0)
        });
        let quantized = check(numbers, &graph, &[1, 3, 6, 5], out.scale);
        let conv = quantized.nodes.iter().find(|node| matches!(node.op, Op::Conv(_))).expect("a convolution");
        let value = |at: usize| quantized.value(conv.inputs[at].expect("an operand"));
        let quant = conv.quant.as_ref().expect("an integer operator");
        assert!(quant.operand(0).is_some());
        assert_eq!(value(1).dtype, Some(DType::I8));
        assert_eq!(quant.weights.len(), if seed % 2 == 0 { 4 } else { 1 });
        assert_eq!(value(2).dtype, Some(DType::I32));
        assert_eq!((quant.dtype, quant.result), (dtype, out));
    }
}

/// Weights of windows along one axis, per channel, that get a height of 1 behind their dequantizer.
#[test]
fn reshaped_weights_keep_their_integers() {
    for (axis, kept) in [(0_usize, true), (1, true), (2, false)] {
        let numbers = &mut Numbers::new(5);
        let mut builder = GraphBuilder::new();
        let params = numbers.params(DType::U8, 2.0);
        let x = builder.input("x", DType::F32, &[1, 3, 4, 6]);
        let x = builder.quantize_dequantize(x, params, DType::U8);
        let extents = [4, 3, 10];
        let scales: Vec<f32> = (0..extents[axis]).map(|_| 0.001 + 0.01 * numbers.unit()).collect();
        let weights = numbers.bytes(&extents);
        let weights = builder.dequantized_constant(&weights, &scales, axis as isize);
        let shape = builder.constant(&Tensor::i64(&[4], &[4, 3, 2, 5]));
        let weights = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[weights, shape]);
        let y = builder.conv(&[x, weights], 1, 2, 1);
        let out = numbers.params(DType::U8, 8.0);
        let y = builder.quantize_dequantize(y, out, DType::U8);
        let graph = builder.finish_inferred(&[y]);
        let mut prepared = graph.clone();
        passes::prepare(&mut prepared).expect("a sound graph");
        let conv = prepared.nodes.iter().find(|node| matches!(node.op, Op::Conv(_))).expect("a convolution");
        // Scales along what is taken apart, or along other channels than the results', say nothing of products.
        let integer = axis == 0;
        assert_eq!(conv.quant.is_some(), integer, "{axis}");
        if let Some(quant) = &conv.quant {
            assert_eq!(*quant.weights, *scales);
        }
        let mut folded = graph.clone();
        passes::fold_constants(&mut folded).expect("a sound graph");
        assert_eq!(count(&folded, |op| matches!(op, Op::Reshape(_))) == 0, kept, "{axis}");
        let x = numbers.reals(&[1, 3, 4, 6], 2.5);
        let before = interpret(&graph, &[("x", x.clone())]);
        assert_eq!(before, interpret(&folded, &[("x", x.clone())]), "{axis}");
        let after = interpret(&prepared, &[("x", x)]);
        assert!(distance(&before[0], &after[0]) <= out.scale * 1.001, "{axis}");
    }
}

#[test]
fn limits_before_quantization_become_a_clamp() {
    for (kind, expected) in [
        (UnaryKind::Relu, Some([10, 255])),
        (UnaryKind::Clip([0.0, 6.0]), Some([10, 130])),
        (UnaryKind::Clip([-0.5, 100.0]), None),
    ] {
        let numbers = &mut Numbers::new(7);
        let out = QuantParams { scale: 0.05, zero_point: 10 };
        let graph = between(numbers, &[1, 3, 4, 4], out, DType::U8, |builder, numbers, x, params| {
            let y = quantized_conv(builder, numbers, x, params, true);
            builder.unary(kind, y)
        });
        let quantized = check(numbers, &graph, &[1, 3, 4, 4], out.scale);
        let stages = quantized.nodes.iter().find_map(|node| match &node.op {
            Op::Conv(conv) => Some(conv.epilogue.post_ops.clone()),
            _ => None,
        });
        let expected: Vec<PostOp> = expected.map(|limits| PostOp::Clamp { limits }).into_iter().collect();
        assert_eq!(stages, Some(expected), "{kind:?}");
    }
}

#[test]
fn unsigned_weights_around_128_are_rebased() {
    let numbers = &mut Numbers::new(11);
    let mut builder = GraphBuilder::new();
    let params = QuantParams { scale: 0.02, zero_point: 100 };
    let x = builder.input("x", DType::F32, &[2, 5]);
    let x = builder.quantize_dequantize(x, params, DType::U8);
    let bytes = numbers.bytes(&[5, 3]);
    let unsigned: Vec<i64> = bytes.integers().iter().map(|byte| byte + 128).collect();
    let weights = builder.constant(&Tensor::of_integers(DType::U8, &[5, 3], &unsigned));
    let weights = builder.dequantize(weights, QuantParams { scale: 0.01, zero_point: 128 }, DType::U8);
    let y = builder.gemm(&[x, weights], false);
    let out = QuantParams { scale: 0.03, zero_point: 128 };
    let y = builder.quantize_dequantize(y, out, DType::U8);
    let graph = builder.finish_inferred(&[y]);
    let quantized = check(numbers, &graph, &[2, 5], out.scale);
    let gemm = quantized.nodes.iter().find(|node| matches!(node.op, Op::Gemm(_))).expect("a product");
    let weights = quantized.value(gemm.inputs[1].expect("weights"));
    assert_eq!(
        weights.constant.as_ref().map(|constant| (constant.dtype(), constant.bytes().to_vec())),
        Some((DType::I8, bytes.integers().iter().map(|&b| b as u8).collect()))
    );
    assert_eq!(gemm.quant.as_ref().map(|quant| quant.weights.to_vec()), Some(vec![0.01]));
}

/// Weights around another zero point are two of eight bits where one does not reach, and the operand is there twice.
#[test]
fn other_weight_zero_points_are_taken_off() {
    let params = QuantParams { scale: 0.02, zero_point: 100 };
    for (zero_point, weights, expected) in [
        (3, [7_i8, -8, 125, -125, 0, 3], vec![4_i8, -11, 122, -128, -3, 0]),
        (3, [7, -8, 127, -128, 0, 3], vec![4, -11, 124, -128, -3, 0, 0, 0, 0, -3, 0, 0]),
        (-3, [7, -8, 127, -128, 0, 3], vec![10, -5, 127, -125, 3, 6, 0, 0, 3, 0, 0, 0]),
    ] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[4, 3]);
        let x = builder.quantize_dequantize(x, params, DType::U8);
        let weights = builder.constant(&Tensor::i8(&[3, 2], &weights));
        let weights = builder.dequantize(weights, QuantParams { scale: 0.01, zero_point }, DType::I8);
        let bias = builder.dequantized_constant(&Tensor::i32(&[2], &[10, -20]), &[0.0002], 0);
        let y = builder.gemm(&[x, weights, bias], false);
        let y = builder.quantize_dequantize(y, params, DType::U8);
        let graph = builder.finish_inferred(&[y]);
        let mut quantized = graph.clone();
        quantize(&mut quantized).expect("a sound graph");
        let gemm = quantized.nodes.iter().find(|node| matches!(node.op, Op::Gemm(_))).expect("a product");
        assert_eq!(quantized.value(gemm.inputs[0].expect("x")).dtype, Some(DType::U8));
        let own = quantized.value(gemm.inputs[1].expect("weights")).constant.as_ref();
        let bytes = own.map(|own| own.bytes().iter().map(|&byte| byte.cast_signed()).collect());
        assert_eq!(bytes, Some(expected));
        let x = Numbers::new(13).reals(&[4, 3], 2.0);
        assert_eq!(interpret(&graph, &[("x", x.clone())]), interpret(&quantized, &[("x", x)]));
    }
}

/// Two products share one bias, whose scale is that of the first alone.
#[test]
fn biases_on_other_scales_count_for_their_reals() {
    let numbers = &mut Numbers::new(15);
    let mut builder = GraphBuilder::new();
    let params = QuantParams { scale: 0.5, zero_point: 100 };
    let x = builder.input("x", DType::F32, &[2, 5]);
    let x = builder.quantize_dequantize(x, params, DType::U8);
    let bias = builder.dequantized_constant(&Tensor::i32(&[1, 3], &[1, 3, -41]), &[0.1875], 0);
    let out = QuantParams { scale: 4.0, zero_point: 128 };
    let ys: Vec<ValueId> = [&[0.375][..], &[0.25, 0.5, 0.125]]
        .into_iter()
        .map(|scales| {
            let weights = builder.dequantized_constant(&numbers.bytes(&[3, 5]), scales, 0);
            let y = builder.gemm(&[x, weights, bias], true);
            builder.quantize_dequantize(y, out, DType::U8)
        })
        .collect();
    let graph = builder.finish_inferred(&ys);
    let mut quantized = graph.clone();
    quantize(&mut quantized).expect("a sound graph");
    assert_eq!(count(&quantized, is_border), 3);
    let biases: Vec<Option<Vec<i32>>> = quantized
        .nodes
        .iter()
        .filter(|node| matches!(node.op, Op::Gemm(_)))
        .map(|node| quantized.value(node.inputs[2].expect("a bias")).constant.as_ref()?.to_i32())
        .collect();
    // Products of 0.125, 0.25 and 0.0625: 1.5 is a tie, which goes to the even neighbour, and 2.25 is none.
    assert_eq!(biases, [Some(vec![1, 3, -41]), Some(vec![2, 2, -123])]);
    let x = numbers.reals(&[2, 5], 20.0);
    let (before, after) = (interpret(&graph, &[("x", x.clone())]), interpret(&quantized, &[("x", x)]));
    for (before, after) in before.iter().zip(&after) {
        assert!(distance(before, after) <= out.scale * 1.001);
    }
}

#[test]
fn float_biases_beside_quantized_weights_are_quantized() {
    let numbers = &mut Numbers::new(14);
    let mut builder = GraphBuilder::new();
    let params = QuantParams { scale: 0.5, zero_point: 100 };
    let x = builder.input("x", DType::F32, &[2, 5]);
    let x = builder.quantize_dequantize(x, params, DType::U8);
    let weights = builder.dequantized_constant(&numbers.bytes(&[3, 5]), &[0.25, 0.5, 1.0], 0);
    let bias = builder.constant(&Tensor::f32(&[3], &[0.3125, 0.375, -7.6]));
    let y = builder.gemm(&[x, weights, bias], true);
    let out = QuantParams { scale: 4.0, zero_point: 128 };
    let y = builder.quantize_dequantize(y, out, DType::U8);
    let graph = builder.finish_inferred(&[y]);
    let quantized = check(numbers, &graph, &[2, 5], out.scale);
    let gemm = quantized.nodes.iter().find(|node| matches!(node.op, Op::Gemm(_))).expect("a product");
    let bias = quantized.value(gemm.inputs[2].expect("a bias")).constant.as_ref();
    // 2.5 and 1.5 are ties, which go to the even neighbour.
    assert_eq!(bias.and_then(Constant::to_i32), Some(vec![2, 2, -15]));
}

#[test]
fn functions_become_tables() {
    for kind in [
        UnaryKind::Sigmoid,
        UnaryKind::Tanh,
        UnaryKind::HardSwish,
        UnaryKind::Silu,
        UnaryKind::LeakyRelu(0.1),
        UnaryKind::Gelu,
        UnaryKind::Relu,
        UnaryKind::Abs,
    ] {
        let numbers = &mut Numbers::new(17);
        let out = numbers.params(DType::I8, 2.0);
        let graph =
            between(numbers, &[1, 3, 4, 4], out, DType::I8, |builder, _, x, _| builder.unary(kind, x));
        let quantized = check(numbers, &graph, &[1, 3, 4, 4], 0.0);
        assert_eq!(count(&quantized, |op| matches!(op, Op::Table(_))), 1);
    }
}

#[test]
fn sums_products_and_pools_become_integer() {
    type Body = fn(&mut GraphBuilder, ValueId, ValueId) -> ValueId;
    let bodies: [Body; 7] = [
        |builder, x, y| builder.binary(BinaryKind::Add, x, y),
        |builder, x, y| builder.binary(BinaryKind::Mul, x, y),
        |builder, x, y| {
            let sum = builder.binary(BinaryKind::Add, y, x);
            builder.unary(UnaryKind::Relu, sum)
        },
        |builder, x, _| builder.pool(PoolKind::Average { count_include_pad: false }, x, 3, 2, 1),
        |builder, x, _| {
            builder.node(
                Op::GlobalPool(GlobalPool { kind: PoolKind::Average { count_include_pad: false } }),
                &[x],
            )
        },
        |builder, x, y| builder.node(Op::Concat(Concat { axis: 1 }), &[x, y, x]),
        |builder, x, _| builder.pool(PoolKind::Max, x, 2, 2, 0),
    ];
    for (index, body) in bodies.into_iter().enumerate() {
        for dtype in [DType::U8, DType::I8] {
            let numbers = &mut Numbers::new(19 + index as u64);
            let out = numbers.params(dtype, 3.0);
            let graph = between(numbers, &[2, 3, 6, 6], out, dtype, |builder, numbers, x, _| {
                let other = numbers.params(dtype, 1.5);
                let y = builder.unary(UnaryKind::Tanh, x);
                let y = builder.quantize_dequantize(y, other, dtype);
                body(builder, x, y)
            });
            check(numbers, &graph, &[2, 3, 6, 6], out.scale);
        }
    }
}

/// Fixed-point factors are coarser than reals: what is rounded by them alone is so with limits behind it, too, where other factors
/// let a function of one value be a table of the reals' results.
#[test]
fn limits_change_no_fixed_factor() {
    let mut numbers = Numbers::new(23);
    let shape = [1, 4, 3, 3];
    for requantize in [Requantize::Float, Requantize::Fixed] {
        for kind in [BinaryKind::Add, BinaryKind::Sub, BinaryKind::Mul] {
            let out = QuantParams { scale: 0.013, zero_point: -128 };
            let mut graph = between(&mut numbers, &shape, out, DType::I8, |builder, _, x, _| {
                let sum = builder.binary(kind, x, x);
                builder.unary(UnaryKind::Relu, sum)
            });
            graph.requantize = requantize;
            assert!(quantize(&mut graph).expect("a sound graph"));
            let sums = count(&graph, |op| matches!(op, Op::Binary(_)));
            let tables = count(&graph, |op| matches!(op, Op::Table(_)));
            let fixed = requantize == Requantize::Fixed;
            assert_eq!((sums, tables), if fixed { (1, 0) } else { (0, 1) }, "{kind:?} {:#?}", graph.nodes);
        }
    }
}

#[test]
fn movement_runs_on_bytes_and_equal_parameters_vanish() {
    type Body = fn(&mut GraphBuilder, ValueId) -> ValueId;
    let bodies: [(Body, usize); 5] = [
        (|builder, x| builder.node(Op::Transpose(Transpose { perm: vec![0, 2, 3, 1] }), &[x]), 0),
        (
            |builder, x| {
                let shape = builder.constant(&Tensor::i64(&[2], &[6, -1]));
                builder.node(Op::Reshape(Reshape { allow_zero: false }), &[x, shape])
            },
            0,
        ),
        (|builder, x| builder.node(Op::Flatten(Flatten { axis: 1 }), &[x]), 0),
        (
            |builder, x| {
                let pads = builder.constant(&Tensor::i64(&[8], &[0, 0, 1, 2, 0, 0, 0, 1]));
                builder.node(Op::Pad(Pad { mode: PadMode::Constant }), &[x, pads])
            },
            0,
        ),
        (|builder, x| builder.node(Op::Identity(Identity), &[x]), 0),
    ];
    for (body, _) in bodies {
        for same in [true, false] {
            let numbers = &mut Numbers::new(23);
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", DType::F32, &[2, 3, 4, 5]);
            let params = numbers.params(DType::U8, 2.0);
            let out = if same { params } else { numbers.params(DType::U8, 3.0) };
            let x = builder.quantize_dequantize(x, params, DType::U8);
            let y = body(&mut builder, x);
            let y = builder.quantize_dequantize(y, out, DType::U8);
            let graph = builder.finish_inferred(&[y]);
            let quantized = check(numbers, &graph, &[2, 3, 4, 5], 0.0);
            assert_eq!(count(&quantized, |op| matches!(op, Op::Table(_))), usize::from(!same));
        }
    }
}

#[test]
fn what_has_one_quantized_end_stays_float() {
    let numbers = &mut Numbers::new(29);
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[2, 7]);
    let params = QuantParams { scale: 0.02, zero_point: 100 };
    let x = builder.quantize_dequantize(x, params, DType::U8);
    let y = builder.node(Op::Softmax(Softmax { axis: -1, flatten: false, log: false }), &[x]);
    let graph = builder.finish_inferred(&[y]);
    let mut quantized = graph.clone();
    quantize(&mut quantized).expect("a sound graph");
    assert_eq!(quantized.nodes, graph.nodes);
    let x = numbers.reals(&[2, 7], 2.0);
    assert_eq!(interpret(&graph, &[("x", x.clone())]), interpret(&quantized, &[("x", x)]));
}

#[test]
fn requantization_of_outputs_keeps_their_names() {
    for same in [true, false] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::U8, &[6]);
        let params = QuantParams { scale: 0.5, zero_point: 3 };
        let real = builder.dequantize(x, params, DType::U8);
        let out = if same { params } else { QuantParams { scale: 1.0, zero_point: 0 } };
        let y = builder.quantize(real, out, DType::U8);
        let graph = builder.finish_inferred(&[y]);
        let mut quantized = graph.clone();
        assert!(quantize(&mut quantized).expect("a sound graph"));
        assert_eq!(count(&quantized, is_border), 0);
        assert_eq!(quantized.outputs, graph.outputs);
        let x = Tensor::u8(&[6], &[0, 1, 4, 5, 100, 255]);
        assert_eq!(interpret(&graph, &[("x", x.clone())]), interpret(&quantized, &[("x", x)]));
    }
}

/// Three meanings that no two readers share.
const MEANINGS: [QuantParams; 3] = [
    QuantParams { scale: 0.1, zero_point: 3 },
    QuantParams { scale: 0.5, zero_point: 10 },
    QuantParams { scale: 0.25, zero_point: 128 },
];

#[test]
fn readers_may_take_the_same_integers_for_different_reals() {
    let [first, second, sum] = MEANINGS;
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::U8, &[256]);
    let a = builder.dequantize(x, first, DType::U8);
    let b = builder.dequantize(x, second, DType::U8);
    let y = builder.binary(BinaryKind::Sub, a, b);
    let z = builder.unary(UnaryKind::Abs, b);
    let y = builder.quantize(y, sum, DType::U8);
    let z = builder.quantize(z, sum, DType::U8);
    let graph = builder.finish_inferred(&[y, z]);
    let mut quantized = graph.clone();
    assert!(quantize(&mut quantized).expect("a sound graph"));
    let every: Vec<u8> = (0..=255).collect();
    let x = Tensor::u8(&[256], &every);
    assert_eq!(interpret(&graph, &[("x", x.clone())]), interpret(&quantized, &[("x", x)]));
    let table = quantized.nodes.iter().find(|node| matches!(node.op, Op::Table(_))).expect("a table");
    assert_eq!(table.quant.as_ref().and_then(|quant| quant.operand(0)), Some(second));
}

#[test]
fn integers_may_be_read_as_others_than_they_were_made() {
    let [made, read, out] = MEANINGS;
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[2, 3, 4, 4]);
    let first = builder.quantize(x, made, DType::U8);
    let second = builder.quantize(x, out, DType::U8);
    let joint = builder.node(Op::Concat(Concat { axis: 1 }), &[first, second]);
    let pads = builder.constant(&Tensor::i64(&[8], &[0, 0, 1, 1, 0, 0, 1, 1]));
    let padded = builder.node(Op::Pad(Pad { mode: PadMode::Constant }), &[joint, pads]);
    let largest = builder.pool(PoolKind::Max, padded, 2, 1, 0);
    let real = builder.dequantize(largest, read, DType::U8);
    let y = builder.unary(UnaryKind::Relu, real);
    let y = builder.quantize(y, out, DType::U8);
    let graph = builder.finish_inferred(&[y]);
    let mut quantized = graph.clone();
    assert!(quantize(&mut quantized).expect("a sound graph"));
    // Both quantizers at the top stay; the function between the other two is a table.
    assert_eq!((count(&quantized, is_border), count(&quantized, |op| matches!(op, Op::Table(_)))), (2, 1));
    let x = Numbers::new(31).reals(&[2, 3, 4, 4], 20.0);
    assert_eq!(interpret(&graph, &[("x", x.clone())]), interpret(&quantized, &[("x", x)]));
}

#[test]
fn what_passes_add_is_told_from_what_the_network_calls_so() {
    let params = MEANINGS[0];
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::U8, &[2, 6]);
    let real = builder.dequantize(x, params, DType::U8);
    let shape = builder.constant(&Tensor::i64(&[1], &[12]));
    let y = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[real, shape]);
    let mut graph = builder.finish_inferred(&[y]);
    // The network has values of its own under the names that a pass would take next.
    let taken = graph.values.len() as u32;
    let name = graph.value(y).name.clone();
    for number in 0..2 {
        let own = graph.add_value(Value::named(format!("{name}#{}", taken + 2 + number)));
        graph.values[own.0 as usize].dtype = Some(DType::F32);
    }
    quantize(&mut graph).expect("a sound graph");
    let mut names: Vec<&str> = graph.values.iter().map(|value| value.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), graph.values.len());
    let added = graph.values.iter().filter(|value| value.provenance != Provenance::Network);
    let added_by: Vec<&Provenance> = added.map(|value| &value.provenance).collect();
    assert_eq!(added_by, [&Provenance::Same { value: name, quant: params }]);
}

/// A convolution over one axis is one over two between reshapes; the limit behind it still joins it.
#[test]
fn limits_behind_reorderings_join_the_product() {
    for (seed, moves) in [(41, 1), (42, 2)] {
        let numbers = &mut Numbers::new(seed);
        let out = numbers.params(DType::U8, 8.0);
        let graph = between(numbers, &[1, 3, 6, 5], out, DType::U8, |builder, numbers, x, params| {
            let mut y = quantized_conv(builder, numbers, x, params, false);
            let shapes: [&[i64]; 2] = [&[1, 4, 30], &[4, 30]];
            for shape in &shapes[..moves] {
                let shape = builder.constant(&Tensor::i64(&[shape.len()], shape));
                y = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[y, shape]);
            }
            builder.unary(UnaryKind::Relu, y)
        });
        let quantized = check(numbers, &graph, &[1, 3, 6, 5], out.scale);
        assert_eq!(count(&quantized, |op| matches!(op, Op::Unary(_))), 0);
    }
}

/// Others read what is between: the limit stays where it is.
#[test]
fn limits_behind_what_others_read_stay() {
    let numbers = &mut Numbers::new(43);
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 6, 5]);
    let params = numbers.params(DType::I8, 2.0);
    let x = builder.quantize_dequantize(x, params, DType::I8);
    let y = quantized_conv(&mut builder, numbers, x, params, false);
    let shape = builder.constant(&Tensor::i64(&[3], &[1, 4, 30]));
    let y = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[y, shape]);
    let limited = builder.unary(UnaryKind::Relu, y);
    let limited = builder.quantize_dequantize(limited, params, DType::I8);
    let graph = builder.finish_inferred(&[y, limited]);
    let mut quantized = graph.clone();
    quantize(&mut quantized).expect("a sound graph");
    let x = numbers.reals(&[1, 3, 6, 5], 2.5);
    let before = interpret(&graph, &[("x", x.clone())]);
    let after = interpret(&quantized, &[("x", x)]);
    for (before, after) in before.iter().zip(&after) {
        assert!(distance(before, after) <= params.scale * 1.001);
    }
    assert_eq!(count(&quantized, |op| matches!(op, Op::Unary(Unary { kind: UnaryKind::Relu }))), 1);
}

/// Means, sums and maxima over any axes are pools over integers, beside the mean of the elements themselves.
#[test]
fn reductions_over_any_axes_are_pools() {
    for (at, axes) in
        [vec![1], vec![2], vec![0], vec![1, 2], vec![0, 2], vec![0, 1, 2]].into_iter().enumerate()
    {
        for kind in [ReduceKind::Mean, ReduceKind::Sum, ReduceKind::Max] {
            for keep_dims in [false, true] {
                let numbers = &mut Numbers::new(50 + at as u64);
                let out = numbers.params(DType::I8, 2.0);
                let graph = between(numbers, &[2, 7, 5], out, DType::I8, |builder, _, x, _| {
                    builder.node(Op::Reduce(Reduce { kind, axes: Some(axes.clone()), keep_dims }), &[x])
                });
                let quantized = check(numbers, &graph, &[2, 7, 5], out.scale);
                let pools = count(&quantized, |op| matches!(op, Op::GlobalPool(_)));
                assert_eq!(pools, 1, "{:#?}", quantized.nodes);
            }
        }
    }
}

/// A pool over all of what is no image is one, too: one of sequences, or of volumes.
#[test]
fn pools_over_all_of_any_number_of_axes_are_pools() {
    for (at, shape) in [&[2, 7, 5][..], &[1, 4, 3, 2, 5]].into_iter().enumerate() {
        for pool in [GlobalPool::AVERAGE, GlobalPool::MAX] {
            let numbers = &mut Numbers::new(60 + at as u64);
            let out = numbers.params(DType::I8, 2.0);
            let graph = between(numbers, shape, out, DType::I8, |builder, _, x, _| {
                builder.node(Op::GlobalPool(pool), &[x])
            });
            let quantized = check(numbers, &graph, shape, out.scale);
            let whole = |op: &Op| matches!(op, Op::GlobalPool(_));
            let images = quantized.nodes.iter().filter(|node| whole(&node.op)).all(|node| {
                let x = node.inputs[0].expect("an operand");
                quantized.value(x).fixed_shape().is_some_and(|shape| shape.rank() == 4)
            });
            assert!(images && count(&quantized, whole) == 1, "{:#?}", quantized.nodes);
        }
    }
}

/// The larger and the smaller of values is a pool over their integers, to the bit, whatever their scales.
#[test]
fn extremes_are_pools() {
    for (seed, kind) in [(80, BinaryKind::Max), (81, BinaryKind::Min)] {
        for dtype in [DType::I8, DType::U8] {
            for shape in [&[1, 5, 4, 3][..], &[2, 7, 5], &[3, 4], &[6]] {
                let numbers = &mut Numbers::new(seed);
                let (other, third, out) =
                    (numbers.params(dtype, 1.0), numbers.params(dtype, 3.0), numbers.params(dtype, 1.5));
                let graph = between(numbers, shape, out, dtype, |builder, _, x, _| {
                    let a = builder.node(Op::Unary(Unary { kind: UnaryKind::Neg }), &[x]);
                    let a = builder.quantize_dequantize(a, other, dtype);
                    let b = builder.node(Op::Unary(Unary { kind: UnaryKind::Abs }), &[x]);
                    let b = builder.quantize_dequantize(b, third, dtype);
                    let inner = builder.node(kind.into(), &[x, a]);
                    builder.node(kind.into(), &[inner, b])
                });
                let quantized = check(numbers, &graph, shape, 0.0);
                assert_eq!(count(&quantized, |op| matches!(op, Op::Pool(_))), 1, "{:#?}", quantized.nodes);
            }
        }
    }
}
