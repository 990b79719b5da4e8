//! The fusion pass: the steps behind an operator join it, integers keep every bit, floats their meaning.

use crate::passes_common::{Numbers, count, distance};
use proptest::prelude::*;
use triune_graph::{
    Graph, Op, ValueId,
    ops::{BinaryKind, Epilogue, MatMul, PostOp, UnaryKind},
    passes::{fuse, quantize},
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Tensor, interpret};

fn stages(graph: &Graph) -> Vec<Vec<PostOp>> {
    let epilogue = |op: &Op| match op {
        Op::Conv(op) => Some(op.epilogue.post_ops.clone()),
        Op::Gemm(op) => Some(op.epilogue.post_ops.clone()),
        Op::MatMul(op) => Some(op.epilogue.post_ops.clone()),
        Op::Binary(op) => Some(op.epilogue.post_ops.clone()),
        _ => None,
    };
    graph.nodes.iter().filter_map(|node| epilogue(&node.op)).collect()
}

/// A network that grows by random blocks, each of which leaves its result as quantized reals.
struct Network {
    builder: GraphBuilder,
    numbers: Numbers,
    dtype: DType,
    /// Reals with the parameters they were quantized by.
    results: Vec<(ValueId, QuantParams)>,
}

const CHANNELS: usize = 3;

impl Network {
    fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let dtype = if numbers.below(2) == 0 { DType::U8 } else { DType::I8 };
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[1, CHANNELS, 5, 4]);
        let params = numbers.params(dtype, 2.0);
        let x = builder.quantize_dequantize(x, params, dtype);
        Self { builder, numbers, dtype, results: vec![(x, params)] }
    }

    fn pick(&mut self) -> (ValueId, QuantParams) {
        // Mostly the latest: chains are what fuses.
        let back = if self.numbers.below(3) == 0 {
            self.numbers.below(self.results.len() as u64) as usize
        } else {
            0
        };
        self.results[self.results.len() - 1 - back]
    }

    fn push(&mut self, real: ValueId, reach: f32) {
        let params = self.numbers.params(self.dtype, reach);
        let real = self.builder.quantize_dequantize(real, params, self.dtype);
        self.results.push((real, params));
    }

    fn block(&mut self) {
        let (x, params) = self.pick();
        match self.numbers.below(6) {
            0 | 1 => {
                let scale = 0.002 + 0.004 * self.numbers.unit();
                let weights = self.numbers.bytes(&[CHANNELS, CHANNELS, 1, 1]);
                let weights = self.builder.dequantized_constant(&weights, &[scale], 0);
                let bias = self.numbers.ints(&[CHANNELS], 3000);
                let bias = self.builder.dequantized_constant(&bias, &[scale * params.scale], 0);
                let mut y = self.builder.conv(&[x, weights, bias], 1, 0, 1);
                if self.numbers.below(2) == 0 {
                    y = self.builder.unary(UnaryKind::Relu, y);
                }
                self.push(y, 2.0);
            }
            2 => {
                // x·σ(x), as exporters write it.
                let gate = self.builder.unary(UnaryKind::Sigmoid, x);
                let gate_params = QuantParams {
                    scale: 1.0 / 255.0,
                    zero_point: if self.dtype == DType::U8 { 0 } else { -128 },
                };
                let gate = self.builder.quantize_dequantize(gate, gate_params, self.dtype);
                let y = self.builder.binary(BinaryKind::Mul, x, gate);
                self.push(y, 1.5);
            }
            3 => {
                let (other, _) = self.pick();
                let (a, b) = if self.numbers.below(2) == 0 { (x, other) } else { (other, x) };
                let mut y = self.builder.binary(BinaryKind::Add, a, b);
                if self.numbers.below(2) == 0 {
                    y = self.builder.unary(UnaryKind::Clip([-0.5, 1.5]), y);
                }
                self.push(y, 2.0);
            }
            4 => {
                let y = self.builder.unary(UnaryKind::HardSwish, x);
                self.push(y, 1.5);
            }
            _ => {
                let y = self.builder.unary(UnaryKind::LeakyRelu(0.2), x);
                self.push(y, 1.5);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever was fused, quantized networks keep every bit.
    #[test]
    fn fusion_keeps_integer_bits(seed in any::<u64>(), blocks in 1_usize..9) {
        let mut network = Network::new(seed);
        for _ in 0..blocks {
            network.block();
        }
        let mut numbers = network.numbers;
        let mut outputs = vec![network.results.last().expect("a result").0];
        if numbers.below(3) == 0 {
            outputs.push(network.results[network.results.len() / 2].0);
        }
        let mut graph = network.builder.finish_inferred(&outputs);
        quantize(&mut graph).expect("a sound graph");
        let mut fused = graph.clone();
        fuse(&mut fused).expect("a sound graph");
        prop_assert!(fused.nodes.len() <= graph.nodes.len());
        let x = numbers.reals(&[1, CHANNELS, 5, 4], 2.5);
        prop_assert_eq!(interpret(&graph, &[("x", x.clone())]), interpret(&fused, &[("x", x)]));
    }
}

/// Sums and products of two functions of one value, on all 256 bytes. Scales are multiples of one number, so that many
/// results are ties but for rounding on the way, where the order of operations shows.
#[test]
fn functions_of_one_value_compose_to_the_bit() {
    let numbers = &mut Numbers::new(41);
    for round in 0..400 {
        let dtype = if round % 2 == 0 { DType::U8 } else { DType::I8 };
        let mut params = || {
            let zero_point = numbers.params(dtype, 1.0).zero_point;
            QuantParams { scale: 0.1 * (1 + numbers.below(7)) as f32, zero_point }
        };
        let (first, second, third) = (params(), params(), params());
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", dtype, &[256]);
        let real = builder.dequantize(x, first, dtype);
        let gate = builder.unary(UnaryKind::LeakyRelu(0.5), real);
        let gate = builder.quantize_dequantize(gate, second, dtype);
        let kind = if round % 4 < 2 { BinaryKind::Add } else { BinaryKind::Mul };
        let y =
            if round % 8 < 4 { builder.binary(kind, real, gate) } else { builder.binary(kind, gate, real) };
        let y = builder.quantize(y, third, dtype);
        let mut graph = builder.finish_inferred(&[y]);
        quantize(&mut graph).expect("a sound graph");
        let mut fused = graph.clone();
        fuse(&mut fused).expect("a sound graph");
        assert_eq!(fused.nodes.len(), 1);
        let bytes: Vec<u8> = (0..=255).collect();
        let x = Tensor::from_bytes(dtype, &[256], &bytes);
        assert_eq!(
            interpret(&graph, &[("x", x.clone())]),
            interpret(&fused, &[("x", x)]),
            "{first:?} {second:?} {third:?}"
        );
    }
}

#[test]
fn swish_behind_a_convolution_becomes_its_table() {
    let mut network = Network::new(3);
    let (x, params) = network.results[0];
    let weights = network.numbers.bytes(&[CHANNELS, CHANNELS, 1, 1]);
    let weights = network.builder.dequantized_constant(&weights, &[0.004], 0);
    let bias =
        network.builder.dequantized_constant(&Tensor::i32(&[3], &[5, -7, 9]), &[0.004 * params.scale], 0);
    let y = network.builder.conv(&[x, weights, bias], 1, 0, 1);
    let y = network.builder.quantize_dequantize(y, params, network.dtype);
    let gate = network.builder.unary(UnaryKind::Sigmoid, y);
    let gate = network.builder.quantize_dequantize(gate, params, network.dtype);
    let y = network.builder.binary(BinaryKind::Mul, y, gate);
    let y = network.builder.quantize_dequantize(y, params, network.dtype);
    let mut graph = network.builder.finish_inferred(&[y]);
    quantize(&mut graph).expect("a sound graph");
    fuse(&mut graph).expect("a sound graph");
    assert_eq!(graph.nodes.len(), 3, "{:#?}", graph.nodes);
    assert!(matches!(&stages(&graph)[0][..], [PostOp::Table { quant, .. }] if *quant == params));
}

/// Two convolutions meet in an addition: the later one takes it, in its own operand's place.
#[test]
fn additions_join_the_later_convolution() {
    for own_first in [true, false] {
        let mut network = Network::new(5);
        let (x, params) = network.results[0];
        let conv = |network: &mut Network| {
            let weights = network.numbers.bytes(&[CHANNELS, CHANNELS, 1, 1]);
            let weights = network.builder.dequantized_constant(&weights, &[0.004], 0);
            let y = network.builder.conv(&[x, weights], 1, 0, 1);
            network.builder.quantize_dequantize(y, params, network.dtype)
        };
        let (first, second) = (conv(&mut network), conv(&mut network));
        let (a, b) = if own_first { (second, first) } else { (first, second) };
        let y = network.builder.binary(BinaryKind::Add, a, b);
        let y = network.builder.unary(UnaryKind::Relu, y);
        let y = network.builder.quantize_dequantize(y, params, network.dtype);
        let mut graph = network.builder.finish_inferred(&[y]);
        quantize(&mut graph).expect("a sound graph");
        fuse(&mut graph).expect("a sound graph");
        let stages = stages(&graph);
        assert_eq!(stages.len(), 2);
        assert_eq!(stages[0], []);
        match &stages[1][..] {
            [PostOp::Residual(residual), PostOp::Clamp { .. }] => {
                assert_eq!((residual.quant, residual.own_first), (Some(params), own_first));
            }
            other => panic!("{other:?}"),
        }
    }
}

fn float_conv(builder: &mut GraphBuilder, numbers: &mut Numbers, x: ValueId) -> ValueId {
    let weights = numbers.reals(&[CHANNELS, CHANNELS, 3, 3], 0.5);
    let weights = builder.constant(&weights);
    builder.conv(&[x, weights], 1, 1, 1)
}

/// Builds `body` on a float input, fuses, checks the numbers and returns the stages of what is left.
fn fused(
    body: impl FnOnce(&mut GraphBuilder, &mut Numbers, ValueId) -> ValueId,
) -> (Graph, Vec<Vec<PostOp>>) {
    let numbers = &mut Numbers::new(31);
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, CHANNELS, 4, 4]);
    let y = body(&mut builder, numbers, x);
    let graph = builder.finish_inferred(&[y]);
    let mut fused = graph.clone();
    fuse(&mut fused).expect("a sound graph");
    let x = numbers.reals(&[1, CHANNELS, 4, 4], 2.0);
    let (before, after) = (interpret(&graph, &[("x", x.clone())]), interpret(&fused, &[("x", x)]));
    assert!(distance(&before[0], &after[0]) < 1e-5);
    let stages = stages(&fused);
    (fused, stages)
}

#[test]
fn float_activations_join_products() {
    let (graph, stages) = fused(|builder, numbers, x| {
        let y = float_conv(builder, numbers, x);
        let gate = builder.unary(UnaryKind::Sigmoid, y);
        builder.binary(BinaryKind::Mul, gate, y)
    });
    assert_eq!(graph.nodes.len(), 1);
    assert_eq!(stages, [[PostOp::Activation(UnaryKind::Silu)]]);
    let (graph, stages) = fused(|builder, numbers, x| {
        let y = float_conv(builder, numbers, x);
        let gate = builder.unary(UnaryKind::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 }, y);
        let y = builder.binary(BinaryKind::Mul, y, gate);
        builder.unary(UnaryKind::Relu, y)
    });
    // One activation is all there is room for.
    assert_eq!(graph.nodes.len(), 2);
    assert_eq!(stages, [[PostOp::Activation(UnaryKind::HardSwish)]]);
}

#[test]
fn float_residuals_join_before_their_activation() {
    let (graph, stages) = fused(|builder, numbers, x| {
        let y = float_conv(builder, numbers, x);
        let y = builder.binary(BinaryKind::Add, x, y);
        builder.unary(UnaryKind::Relu, y)
    });
    assert_eq!(graph.nodes.len(), 1);
    match &stages[0][..] {
        [PostOp::Residual(residual), PostOp::Activation(UnaryKind::Relu)] => {
            assert_eq!((residual.quant, residual.own_first), (None, false));
        }
        other => panic!("{other:?}"),
    }
    // Behind an activation there is no room for an addition.
    let (graph, _) = fused(|builder, numbers, x| {
        let y = float_conv(builder, numbers, x);
        let y = builder.unary(UnaryKind::Relu, y);
        builder.binary(BinaryKind::Add, x, y)
    });
    assert_eq!(graph.nodes.len(), 2);
    // A result with a second reader stays.
    let (graph, _) = fused(|builder, numbers, x| {
        let y = float_conv(builder, numbers, x);
        let z = builder.unary(UnaryKind::Relu, y);
        builder.binary(BinaryKind::Sub, z, y)
    });
    assert_eq!(graph.nodes.len(), 3);
}

#[test]
fn constant_rows_become_biases() {
    let (graph, _) = fused(|builder, numbers, x| {
        let y = float_conv(builder, numbers, x);
        let row = builder.constant(&Tensor::f32(&[CHANNELS, 1, 1], &[1.0, -2.0, 0.5]));
        let y = builder.binary(BinaryKind::Add, row, y);
        builder.unary(UnaryKind::Relu, y)
    });
    assert_eq!(graph.nodes.len(), 1);
    assert_eq!(graph.nodes[0].inputs.len(), 3);
    // One constant per column is no bias of a convolution.
    let (graph, _) = fused(|builder, numbers, x| {
        let y = float_conv(builder, numbers, x);
        let row = builder.constant(&Tensor::f32(&[4], &[1.0, -2.0, 0.5, 3.0]));
        builder.binary(BinaryKind::Add, y, row)
    });
    assert_eq!(graph.nodes.len(), 2);

    let numbers = &mut Numbers::new(37);
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[2, 5]);
    let weights = builder.constant(&numbers.reals(&[5, 3], 1.0));
    let y = builder.node(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[x, weights]);
    let row = builder.constant(&Tensor::f32(&[1, 3], &[1.0, 2.0, 3.0]));
    let y = builder.binary(BinaryKind::Add, y, row);
    let graph = builder.finish_inferred(&[y]);
    let mut fused = graph.clone();
    assert!(fuse(&mut fused).expect("a sound graph"));
    assert_eq!(count(&fused, |op| matches!(op, Op::Gemm(_))), 1);
    assert_eq!(fused.nodes.len(), 1);
    let x = numbers.reals(&[2, 5], 1.0);
    let (before, after) = (interpret(&graph, &[("x", x.clone())]), interpret(&fused, &[("x", x)]));
    assert!(distance(&before[0], &after[0]) < 1e-6);
}

/// x·hard sigmoid(x) is hard swish for one slope and one offset only.
#[test]
fn only_the_hard_sigmoid_of_hard_swish_joins() {
    let sixth = 1.0 / 6.0;
    for (alpha, beta, joins) in
        [(sixth, 0.5, true), (sixth, 0.4, false), (sixth, 0.6, false), (0.2, 0.5, false), (0.1, 0.5, false)]
    {
        for swapped in [false, true] {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", DType::F32, &[1, 2, 3, 25]);
            let gate = builder.unary(UnaryKind::HardSigmoid { alpha, beta }, x);
            let (a, b) = if swapped { (gate, x) } else { (x, gate) };
            let y = builder.binary(BinaryKind::Mul, a, b);
            let mut graph = builder.finish_inferred(&[y]);
            let ramp: Vec<f32> = (0..150_i16).map(|at| f32::from(at - 75) / 15.0).collect();
            let inputs = [("x", Tensor::f32(&[1, 2, 3, 25], &ramp))];
            let before = interpret(&graph, &inputs);
            fuse(&mut graph).expect("a sound graph");
            let joined = |op: &Op| matches!(op, Op::Unary(unary) if unary.kind == UnaryKind::HardSwish);
            assert_eq!(count(&graph, joined) == 1, joins, "{alpha} {beta}");
            assert!(distance(&before[0], &interpret(&graph, &inputs)[0]) < 1e-6, "{alpha} {beta}");
        }
    }
}
