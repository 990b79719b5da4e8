//! What has no command: each row is one operator that is wrong in one way, as no pass leaves it or as no reader makes it, and the
//! error names the operator and says why.

use std::sync::Arc;

use crate::common::{compiled, lowered};
use triune_compiler::{CompileOptions, Error, bind_batch, compile};
use triune_device::DeviceSpec;
use triune_graph::{
    Dim, Graph, Op, Quantization, ValueId,
    ops::{
        AdaptivePool, ArgReduce, AutoPad, BatchNormalization, Binary, BinaryKind, Cast, Concat, CondTake,
        Conv, CoordinateMode, Epilogue, Expand, Flatten, Gather, GatherNd, Gemm, GlobalPool, Index, MatMul,
        NearestMode, NonZero, Pad, PadMode, Pool, PoolKind, PostOp, Reduce, ReduceKind, Reshape, Residual,
        Resize, ResizeMode, ShapeOf, Slice, Softmax, Split, TopK, Transpose, Unary, UnaryKind,
    },
};
use triune_tensor::{DType, QuantParams, Requantize};
use triune_testing::{GraphBuilder, Tensor};

/// An operand.
#[derive(Clone)]
enum Given {
    Input(DType, Vec<usize>),
    Known(Tensor),
    Nothing,
}

use Given::{Known, Nothing};

const REAL: DType = DType::F32;

fn of(dtype: DType, shape: &[usize]) -> Given {
    Given::Input(dtype, shape.to_vec())
}

fn real(shape: &[usize]) -> Given {
    of(REAL, shape)
}

fn zeros(dtype: DType, shape: &[usize]) -> Given {
    let bytes = vec![0; shape.iter().product::<usize>() * dtype.bytes()];
    Known(Tensor::from_bytes(dtype, shape, &bytes))
}

fn ints(values: &[i64]) -> Given {
    Known(Tensor::i64(&[values.len()], values))
}

/// One operator on operands, with results of these types and extents.
fn one(op: impl Into<Op>, operands: &[Given], results: &[(DType, &[usize])]) -> Graph {
    let mut builder = GraphBuilder::new();
    let inputs: Vec<Option<ValueId>> = (operands.iter().enumerate())
        .map(|(at, given)| match given {
            Given::Input(dtype, shape) => Some(builder.input(&format!("x{at}"), *dtype, shape)),
            Known(tensor) => Some(builder.constant(tensor)),
            Nothing => None,
        })
        .collect();
    let made = builder.node_with(op.into(), &inputs, results.len());
    for (&id, (dtype, shape)) in made.iter().zip(results) {
        let value = builder.graph_mut().value_mut(id);
        value.dtype = Some(*dtype);
        value.shape = Some(shape.iter().map(|&dim| Dim::Fixed(dim)).collect());
    }
    builder.finish(&made)
}

/// The same on integers that stand for reals.
fn integers(graph: Graph, operands: &[Option<QuantParams>], weights: &[f32], result: QuantParams) -> Graph {
    let mut graph = graph;
    let dtype = graph.value(graph.outputs[0]).dtype.expect("a type");
    let operands = operands.to_vec();
    graph.nodes[0].quant = Some(Box::new(Quantization { operands, weights: weights.into(), dtype, result }));
    graph
}

const HALF: QuantParams = QuantParams { scale: 0.5, zero_point: 0 };
const SHIFTED: QuantParams = QuantParams { scale: 0.5, zero_point: 3 };
const IMAGE: [usize; 4] = [1, 4, 6, 5];

fn conv(stages: Vec<PostOp>) -> Conv {
    Conv {
        kernel: None,
        stride: [1; 2],
        dilation: [1; 2],
        pad: [0; 4],
        auto_pad: AutoPad::Explicit,
        groups: 1,
        epilogue: Epilogue { post_ops: stages },
    }
}

fn pool() -> Pool {
    Pool {
        kind: PoolKind::Max,
        kernel: [1; 2],
        stride: [1; 2],
        dilation: [1; 2],
        pad: [0; 4],
        auto_pad: AutoPad::Explicit,
        ceil_mode: false,
    }
}

fn mean() -> Pool {
    Pool { kind: PoolKind::Average { count_include_pad: true }, ..pool() }
}

/// A mean of bytes with fixed-point factors, whose result has steps too small for them.
fn coarse(op: Op, result: &[usize]) -> Graph {
    let graph = one(op, &[of(DType::I8, &IMAGE)], &[(DType::I8, result)]);
    let small = QuantParams { scale: 1e-6, zero_point: 0 };
    let mut graph = integers(graph, &[Some(HALF)], &[], small);
    graph.requantize = Requantize::Fixed;
    graph
}

fn binary(kind: BinaryKind, stages: Vec<PostOp>) -> Binary {
    Binary { kind, epilogue: Epilogue { post_ops: stages } }
}

fn gemm(alpha: f32, beta: f32) -> Gemm {
    Gemm { alpha, beta, trans_a: false, trans_b: false, epilogue: Epilogue::default() }
}

fn resize(mode: ResizeMode) -> Resize {
    Resize { mode, coordinates: CoordinateMode::Asymmetric }
}

/// A graph, and words of its error.
type Row = (Graph, &'static str);

#[track_caller]
fn check(rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for (index, (graph, words)) in rows.into_iter().enumerate() {
        match lowered(&graph) {
            Ok(_) => wrong.push(format!("{index}: {words} is lowered")),
            Err(Error::Unsupported { node, op, reason }) => {
                let own = graph.nodes[0].op.name();
                if (&*node, &*op) != ("node0", own) || !reason.contains(words) {
                    wrong.push(format!("{index}: expected {words}, found '{node}' ({op}): {reason}"));
                }
            }
            Err(other) => wrong.push(format!("{index}: expected {words}, found {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn products_and_windows() {
    let image = || (REAL, &IMAGE[..]);
    let weights = || zeros(REAL, &[4, 4, 1, 1]);
    let convolved = |op: Conv, operands: &[Given]| one(Op::Conv(Box::new(op)), operands, &[image()]);
    let open = |auto_pad| Conv { auto_pad, ..conv(vec![]) };
    let bytes = |dtype, shape: &[usize]| of(dtype, shape);
    // An integer convolution as it should be, and what becomes of it.
    let integer = |stages, weights: &[f32], bias: Given, x: DType, y: DType| {
        let known = if x == DType::I16 { DType::I16 } else { DType::I8 };
        let graph = one(
            Op::Conv(Box::new(conv(stages))),
            &[bytes(x, &IMAGE), zeros(known, &[4, 4, 1, 1]), bias],
            &[(y, &IMAGE)],
        );
        integers(graph, &[Some(HALF), None, None], weights, HALF)
    };
    let i8 = |stages| integer(stages, &[0.5], Nothing, DType::I8, DType::I8);
    let i16 = |stages| integer(stages, &[0.5], Nothing, DType::I16, DType::I16);
    for graph in
        [i8(vec![]), i16(vec![]), integer(vec![], &[0.5; 4], zeros(DType::I32, &[1]), DType::U8, DType::I8)]
    {
        lowered(&graph).expect("an integer convolution");
    }
    let clamp = || PostOp::Clamp { limits: [0, 5] };
    let table = || PostOp::Table { quant: HALF, table: Arc::new([0; 256]) };
    let residual = |quant| PostOp::Residual(Residual { quant, own_first: true });
    check(vec![
        (
            convolved(conv(vec![]), &[real(&IMAGE), real(&[4, 4, 1, 1])]),
            "weights that are computed at run time",
        ),
        (convolved(conv(vec![]), &[real(&IMAGE), zeros(REAL, &[4, 4])]), "weights of shape (4, 4)"),
        (convolved(open(AutoPad::SameUpper), &[real(&IMAGE), weights()]), "auto_pad"),
        (convolved(open(AutoPad::Valid), &[real(&IMAGE), weights()]), "auto_pad"),
        (
            convolved(conv(vec![]), &[real(&IMAGE), zeros(DType::I8, &[4, 4, 1, 1])]),
            "float32 input with int8 weights",
        ),
        (
            convolved(conv(vec![]), &[real(&IMAGE), weights(), real(&[4])]),
            "a bias that is not a constant of f32",
        ),
        (convolved(conv(vec![]), &[real(&IMAGE), weights(), zeros(REAL, &[3])]), "a bias of another length"),
        (
            convolved(conv(vec![]), &[real(&IMAGE), weights(), zeros(DType::I32, &[4])]),
            "a bias that is not a constant of f32",
        ),
        (convolved(conv(vec![]), &[real(&[4, 6, 5]), weights()]), "rank 3 where an image batch is needed"),
        (convolved(conv(vec![]), &[Nothing, weights()]), "operand 0 is missing"),
        (convolved(conv(vec![]), &[real(&IMAGE)]), "operand 1 is missing"),
        (
            convolved(conv(vec![residual(None)]), &[real(&IMAGE), weights(), Nothing, real(&[1, 4, 6, 1])]),
            "a fused addition of another shape",
        ),
        (
            convolved(
                conv(vec![PostOp::Activation(UnaryKind::Relu), residual(None)]),
                &[real(&IMAGE), weights(), Nothing, real(&[4, 6, 1])],
            ),
            "a fused addition of another shape",
        ),
        (
            convolved(conv(vec![clamp()]), &[real(&IMAGE), weights()]),
            "an integer epilogue behind a float operator",
        ),
        (
            convolved(conv(vec![table()]), &[real(&IMAGE), weights()]),
            "an integer epilogue behind a float operator",
        ),
        // Integers.
        (
            one(
                Op::Conv(Box::new(conv(vec![]))),
                &[bytes(DType::I8, &IMAGE), zeros(DType::I8, &[4, 4, 1, 1])],
                &[(DType::I8, &IMAGE)],
            ),
            "integers without scales and zero points",
        ),
        (integer(vec![], &[0.5], Nothing, DType::I16, DType::I8), "int8 made of int16"),
        (integer(vec![], &[0.5], Nothing, DType::I8, DType::I16), "int16 made of int8"),
        (integer(vec![], &[0.5; 3], Nothing, DType::I8, DType::I8), "3 weight scales for 4 channels"),
        (integer(vec![], &[0.5; 5], Nothing, DType::I8, DType::I8), "5 weight scales for 4 channels"),
        (
            integer(vec![], &[0.5], zeros(DType::I32, &[3]), DType::I8, DType::I8),
            "a bias that is not a constant of i32 per channel",
        ),
        (
            integer(vec![], &[0.5], bytes(DType::I32, &[4]), DType::I8, DType::I8),
            "a bias that is not a constant of i32 per channel",
        ),
        (
            integer(vec![], &[0.5], zeros(REAL, &[4]), DType::I8, DType::I8),
            "a bias that is not a constant of i32 per channel",
        ),
        (i8(vec![table(), clamp()]), "limits behind a table"),
        (i8(vec![table(), table()]), "an epilogue in an order that no command has"),
        (i8(vec![PostOp::Activation(UnaryKind::Relu)]), "an epilogue in an order that no command has"),
        (i8(vec![residual(None)]), "an addition without scales"),
        (i16(vec![table()]), "a function or an addition fused into a 16-bit operator"),
        (i16(vec![residual(Some(HALF))]), "a function or an addition fused into a 16-bit operator"),
        // Matrices.
        (
            one(Op::Gemm(gemm(2.0, 1.0)), &[real(&[2, 4]), zeros(REAL, &[4, 3])], &[(REAL, &[2, 3])]),
            "alpha or beta other than 1",
        ),
        (
            one(
                Op::Gemm(gemm(1.0, 2.0)),
                &[real(&[2, 4]), zeros(REAL, &[4, 3]), zeros(REAL, &[3])],
                &[(REAL, &[2, 3])],
            ),
            "alpha or beta other than 1",
        ),
        (
            one(Op::Gemm(gemm(1.0, 1.0)), &[real(&[2, 4]), real(&[4, 3])], &[(REAL, &[2, 3])]),
            "a second matrix that is not constant",
        ),
        (
            one(Op::Gemm(gemm(1.0, 1.0)), &[real(&[2, 4]), zeros(REAL, &[4, 3, 1])], &[(REAL, &[2, 3])]),
            "a matrix of shape (4, 3, 1)",
        ),
        (
            one(
                Op::MatMul(MatMul { epilogue: Epilogue::default() }),
                &[of(DType::F16, &[2, 4]), of(DType::F16, &[4, 3])],
                &[(DType::F16, &[2, 3])],
            ),
            "a float16 product of (2, 4) and (4, 3)",
        ),
        (
            one(
                Op::MatMul(MatMul { epilogue: Epilogue::default() }),
                &[real(&[4]), real(&[4, 3])],
                &[(REAL, &[3])],
            ),
            "a float32 product of (4) and (4, 3)",
        ),
        (
            one(
                Op::MatMul(MatMul { epilogue: Epilogue::default() }),
                &[real(&[2, 4]), real(&[4])],
                &[(REAL, &[2])],
            ),
            "a float32 product of (2, 4) and (4)",
        ),
        (
            one(
                Op::MatMul(MatMul { epilogue: Epilogue::default() }),
                &[real(&[1, 2, 4]), real(&[3, 4, 3])],
                &[(REAL, &[3, 2, 3])],
            ),
            "batches of (1, 2, 4) and (3, 4, 3) that broadcast",
        ),
        // Windows.
        (
            one(
                Op::Pool(Box::new(Pool { auto_pad: AutoPad::SameLower, ..pool() })),
                &[real(&IMAGE)],
                &[image()],
            ),
            "auto_pad",
        ),
        (
            one(Op::Pool(Box::new(pool())), &[real(&[4, 6, 5])], &[(REAL, &[4, 6, 5])]),
            "rank 3 where an image batch is needed",
        ),
        (
            one(
                Op::AdaptivePool(AdaptivePool { kind: PoolKind::Max }),
                &[real(&IMAGE)],
                &[(REAL, &[1, 4, 7, 5])],
            ),
            "(1, 4, 6, 5) pooled to (1, 4, 7, 5)",
        ),
        (
            one(
                Op::GlobalPool(GlobalPool::AVERAGE),
                &[bytes(DType::I8, &IMAGE)],
                &[(DType::I8, &[1, 4, 1, 1])],
            ),
            "integers without scales and zero points",
        ),
        (coarse(Op::GlobalPool(GlobalPool::AVERAGE), &[1, 4, 1, 1]), "a multiplier of 500000"),
        (coarse(Op::Pool(Box::new(mean())), &IMAGE), "where m·2⁻ⁿ has an m of at most 255"),
        (
            one(
                Op::Resize(resize(ResizeMode::Nearest(NearestMode::Floor))),
                &[real(&IMAGE)],
                &[(REAL, &[1, 5, 6, 5])],
            ),
            "resampling (1, 4, 6, 5) to (1, 5, 6, 5) changes images or channels",
        ),
        (
            one(
                Op::Resize(resize(ResizeMode::Nearest(NearestMode::Floor))),
                &[real(&IMAGE)],
                &[(REAL, &[2, 4, 6, 5])],
            ),
            "changes images or channels",
        ),
        (
            one(
                Op::Resize(resize(ResizeMode::Linear)),
                &[bytes(DType::U8, &IMAGE)],
                &[(DType::U8, &[1, 4, 12, 10])],
            ),
            "integers without scales and zero points",
        ),
    ]);
}

#[test]
fn functions_of_elements() {
    let both = |kind, stages, dtype: DType| {
        one(Op::Binary(binary(kind, stages)), &[of(dtype, &[3]), of(dtype, &[3])], &[(dtype, &[3])])
    };
    let quantized = |kind, stages, types: [DType; 3]| {
        let graph = one(
            Op::Binary(binary(kind, stages)),
            &[of(types[0], &[3]), of(types[1], &[3])],
            &[(types[2], &[3])],
        );
        integers(graph, &[Some(HALF), Some(HALF)], &[], HALF)
    };
    let relu = || vec![PostOp::Activation(UnaryKind::Relu)];
    let (i8, i16) = (DType::I8, DType::I16);
    let unary = |kind, dtype: DType| one(Op::Unary(Unary { kind }), &[of(dtype, &[3])], &[(dtype, &[3])]);
    let mut fixed = quantized(BinaryKind::Mul, vec![], [i8; 3]);
    fixed.requantize = Requantize::Fixed;
    fixed.nodes[0].quant.as_mut().expect("integers").result.scale = 1e-6;
    let one_operand = |quant: &[Option<QuantParams>]| {
        let graph = quantized(BinaryKind::Add, vec![], [i8; 3]);
        integers(graph, quant, &[], HALF)
    };
    let shifted = |operands: [QuantParams; 2], result| {
        integers(quantized(BinaryKind::Mul, vec![], [i16; 3]), &operands.map(Some), &[], result)
    };
    let over = |shape: &[usize]| {
        one(Op::Binary(binary(BinaryKind::Add, vec![])), &[real(&[3]), real(shape)], &[(REAL, &[3])])
    };
    lowered(&quantized(BinaryKind::Add, vec![PostOp::Clamp { limits: [0, 3] }], [i8; 3])).expect("a sum");
    lowered(&shifted([HALF; 2], HALF)).expect("a product of 16 bits");
    check(vec![
        (both(BinaryKind::Add, relu(), DType::I32), "an epilogue that no command has"),
        (quantized(BinaryKind::Add, relu(), [i8; 3]), "an epilogue that no command has"),
        (quantized(BinaryKind::Div, vec![], [i8; 3]), "it has no form over quantized integers"),
        (quantized(BinaryKind::Add, vec![], [i8, i16, i16]), "operands of 8 and of 16 bits"),
        (quantized(BinaryKind::Add, vec![], [i16, i8, i16]), "operands of 8 and of 16 bits"),
        (quantized(BinaryKind::Mul, vec![], [i16, i16, i8]), "operands of 8 and of 16 bits"),
        (one_operand(&[Some(HALF), None]), "operand 1 has no scale and zero point"),
        (one_operand(&[]), "operand 0 has no scale and zero point"),
        (shifted([SHIFTED, HALF], HALF), "16-bit value 'x0' with a zero point of 3"),
        (shifted([HALF, SHIFTED], HALF), "16-bit value 'x1' with a zero point of 3"),
        (shifted([HALF; 2], SHIFTED), "with a zero point of 3"),
        (fixed, "where m·2⁻ⁿ has an m of at most 255"),
        (over(&[4]), "(4) does not broadcast to (3)"),
        (over(&[2, 3]), "(2, 3) does not broadcast to (3)"),
        (both(BinaryKind::Add, vec![], DType::F16), "float16 operands"),
        (both(BinaryKind::Atan2, vec![], DType::I32), "int32 operands"),
        (both(BinaryKind::LogAddExp, vec![], DType::F64), "float64 operands"),
        (both(BinaryKind::Xor, vec![], REAL), "reals"),
        (unary(UnaryKind::Exp, DType::I32), "int32 operand"),
        (unary(UnaryKind::Relu, DType::F16), "float16 operand"),
        (unary(UnaryKind::Relu, DType::Bool), "bool operand"),
        (integers(unary(UnaryKind::Relu, i8), &[Some(HALF)], &[], HALF), "int8 operand"),
        (integers(unary(UnaryKind::Exp, i16), &[None], &[], HALF), "an operand without a scale"),
        (
            one(
                Op::Softmax(Softmax { axis: 2, flatten: false, log: false }),
                &[real(&[2, 3])],
                &[(REAL, &[2, 3])],
            ),
            "axis 2 of rank 2",
        ),
        (
            one(
                Op::Softmax(Softmax { axis: -3, flatten: false, log: false }),
                &[real(&[2, 3])],
                &[(REAL, &[2, 3])],
            ),
            "axis -3 of rank 2",
        ),
        (
            one(
                Op::Softmax(Softmax { axis: 1, flatten: false, log: false }),
                &[of(i16, &[2, 3])],
                &[(i16, &[2, 3])],
            ),
            "int16 operand",
        ),
    ]);
}

#[test]
fn reductions_and_movements() {
    let reduce = |kind, axes: &[isize], given: Given, result: (DType, &[usize])| {
        one(Op::Reduce(Reduce { kind, axes: Some(axes.to_vec()), keep_dims: false }), &[given], &[result])
    };
    let arg = |given: Given| {
        let op =
            ArgReduce { kind: ReduceKind::Max, axis: 0, keep_dims: false, last: false, dtype: DType::I64 };
        one(Op::ArgReduce(op), &[given], &[(DType::I64, &[])])
    };
    let slice = |operands: &[Given]| {
        let all: Vec<Given> = [real(&[4, 3])].into_iter().chain(operands.iter().cloned()).collect();
        one(Op::Slice(Slice), &all, &[(REAL, &[2, 3])])
    };
    let pad = |operands: &[Given]| {
        let all: Vec<Given> = [real(&[2, 3])].into_iter().chain(operands.iter().cloned()).collect();
        one(Op::Pad(Pad { mode: PadMode::Constant }), &all, &[(REAL, &[4, 3])])
    };
    let gather = |axis, indices: Given, result: &[usize]| {
        one(Op::Gather(Gather { axis }), &[real(&[4, 3]), indices], &[(REAL, result)])
    };
    let quantized = integers(
        reduce(ReduceKind::Sum, &[0], of(DType::I8, &[3]), (DType::I8, &[])),
        &[Some(HALF)],
        &[],
        HALF,
    );
    let scattered = |rank: usize, extent: usize| {
        // No two axes lie one behind the other.
        let shape = vec![extent; rank];
        let perm: Vec<usize> = (0..rank).rev().collect();
        let mut graph = one(Op::Transpose(Transpose { perm }), &[real(&shape)], &[(REAL, &shape)]);
        graph.nodes[0].op = Op::Transpose(Transpose { perm: (0..rank).rev().collect() });
        graph
    };
    assert!(lowered(&scattered(6, 2)).is_ok() && lowered(&scattered(8, 2)).is_ok());
    assert!(
        matches!(lowered(&scattered(7, 65)), Err(Error::Target(reason)) if reason.contains("more than six axes"))
    );
    check(vec![
        (quantized, "quantized operands"),
        (reduce(ReduceKind::Sum, &[2], real(&[2, 3]), (REAL, &[2, 3])), "axes [2] of rank 2"),
        (reduce(ReduceKind::Sum, &[0], of(DType::F16, &[3]), (DType::F16, &[])), "float16 operand"),
        (
            reduce(ReduceKind::Max, &[0], of(DType::F8E4M3FN, &[0, 3]), (DType::F8E4M3FN, &[3])),
            "an operand without elements",
        ),
        (arg(of(DType::F16, &[3])), "float16 operand"),
        (arg(of(DType::Bool, &[3])), "bool operand"),
        (
            one(Op::Transpose(Transpose { perm: vec![0, 0] }), &[real(&[2, 3])], &[(REAL, &[2, 2])]),
            "[0, 0] is no permutation of 2 axes",
        ),
        (
            one(Op::Transpose(Transpose { perm: vec![0] }), &[real(&[2, 3])], &[(REAL, &[2])]),
            "[0] is no permutation of 2 axes",
        ),
        (
            one(Op::Expand(Expand), &[real(&[2, 3]), ints(&[3, 3])], &[(REAL, &[3, 3])]),
            "(2, 3) does not broadcast to (3, 3)",
        ),
        (
            one(Op::Reshape(Reshape { allow_zero: false }), &[real(&[2, 3]), ints(&[7])], &[(REAL, &[7])]),
            "(2, 3) elements as (7)",
        ),
        (
            one(Op::Flatten(Flatten { axis: 1 }), &[real(&[2, 3])], &[(REAL, &[2, 4])]),
            "(2, 3) elements as (2, 4)",
        ),
        (slice(&[ints(&[0]), ints(&[2, 3])]), "starts, ends, axes and steps of different lengths"),
        (
            slice(&[ints(&[0]), ints(&[2]), ints(&[0, 1])]),
            "starts, ends, axes and steps of different lengths",
        ),
        (
            slice(&[ints(&[0]), ints(&[2]), ints(&[0]), ints(&[1, 1])]),
            "starts, ends, axes and steps of different lengths",
        ),
        (slice(&[ints(&[0]), ints(&[2]), ints(&[0]), ints(&[0])]), "step 0"),
        (slice(&[ints(&[0]), ints(&[2]), ints(&[0]), ints(&[-1])]), "step -1"),
        (slice(&[ints(&[0]), ints(&[2]), ints(&[2])]), "axis 2 of rank 2"),
        (slice(&[ints(&[0]), ints(&[2]), ints(&[-3])]), "axis -3 of rank 2"),
        (slice(&[of(DType::I64, &[1]), ints(&[2])]), "operand 1 is not a constant of integers"),
        (slice(&[ints(&[0]), zeros(REAL, &[1])]), "operand 2 is not a constant of integers"),
        (pad(&[ints(&[1, 0, 1])]), "pads [1, 0, 1]"),
        (pad(&[ints(&[1, 0, 1, 0, 0])]), "pads [1, 0, 1, 0, 0]"),
        (pad(&[ints(&[-1, 0, 3, 0])]), "pads [-1, 0, 3, 0]"),
        (pad(&[ints(&[1, 1]), Nothing, ints(&[2])]), "axis 2 of rank 2"),
        (pad(&[ints(&[1, 0, 1, 0]), real(&[])]), "a border of float32 with this value"),
        (pad(&[ints(&[1, 0, 1, 0]), zeros(DType::I32, &[])]), "a border of float32 with this value"),
        (pad(&[ints(&[1, 0, 1, 0]), zeros(REAL, &[2])]), "a border of float32 with this value"),
        (one(Op::Concat(Concat { axis: 2 }), &[real(&[2, 3])], &[(REAL, &[2, 3])]), "axis 2 of rank 2"),
        (
            one(Op::Split(Split { axis: -3, parts: None }), &[real(&[2, 3]), ints(&[3])], &[(REAL, &[2, 3])]),
            "axis -3 of rank 2",
        ),
        (gather(0, ints(&[4]), &[1, 3]), "index 4 along an axis of 4"),
        (gather(0, ints(&[-5]), &[1, 3]), "index -5 along an axis of 4"),
        (gather(1, ints(&[0, 3]), &[4, 2]), "index 3 along an axis of 3"),
        (gather(2, ints(&[0]), &[4, 3]), "axis 2 of rank 2"),
        (gather(0, of(DType::I8, &[2]), &[2, 3]), "indices of type int8"),
        (
            one(
                Op::GatherNd(GatherNd { batch_dims: 0 }),
                &[real(&[4, 3]), of(DType::I64, &[])],
                &[(REAL, &[4, 3])],
            ),
            "indices without an axis of coordinates",
        ),
        (
            one(
                Op::Index(Index { axes: vec![2] }),
                &[real(&[4, 3]), of(DType::I64, &[2])],
                &[(REAL, &[2, 3])],
            ),
            "axes [2] of rank 2",
        ),
        (
            one(
                Op::TopK(TopK { axis: 0, largest: true, sorted: true, index_dtype: DType::I64 }),
                &[of(DType::Bool, &[3]), ints(&[1])],
                &[(DType::Bool, &[1]), (DType::I64, &[1])],
            ),
            "bool operand",
        ),
        (
            one(Op::from(NonZero), &[real(&[3])], &[(DType::I64, &[1, 3])]),
            "it runs on the host, between the stages of a network",
        ),
        (
            one(Op::ShapeOf(ShapeOf { start: 0, end: None }), &[real(&[3])], &[(DType::I64, &[1])]),
            "its parameters are not constant",
        ),
        (
            one(
                Op::BatchNormalization(BatchNormalization { epsilon: 0.0 }),
                &[real(&[1, 2])],
                &[(REAL, &[1, 2])],
            ),
            "its parameters are not constant",
        ),
    ]);
}

/// Parts and results that nobody asked for.
#[test]
fn results_that_are_missing() {
    let mut split = one(
        Op::Split(Split { axis: 0, parts: None }),
        &[real(&[4]), ints(&[1, 3])],
        &[(REAL, &[1]), (REAL, &[3])],
    );
    (split.nodes[0].outputs[0], split.outputs) = (None, vec![split.outputs[1]]);
    let mut cast = one(Op::Cast(Cast { to: DType::I8 }), &[real(&[4])], &[(DType::I8, &[4])]);
    cast.nodes[0].outputs[0] = None;
    check(vec![(split, "a part that nobody reads"), (cast, "its result is unused")]);
    // A value of unknown extents, and one that nobody makes.
    let mut open = one(Op::Cast(Cast { to: DType::I8 }), &[real(&[4])], &[(DType::I8, &[4])]);
    let id = open.outputs[0];
    open.outputs = Vec::new();
    open.value_mut(id).shape = None;
    check(vec![(open, "the shape of 'node0_0' is not known")]);
    let mut lost = one(Op::Cast(Cast { to: DType::I8 }), &[real(&[4])], &[(DType::I8, &[4])]);
    lost.inputs = Vec::new();
    assert!(
        matches!(lowered(&lost), Err(Error::Internal(reason)) if reason.contains("'x0' is read before anything makes it"))
    );
}

/// Whole models.
#[test]
fn models_that_do_not_fit() {
    let npu = DeviceSpec::builtin("metis").expect("an NPU");
    let model = || {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", REAL, &[1, 4, 6, 5]);
        let y = builder.unary(UnaryKind::Relu, x);
        builder.finish(&[y])
    };
    let refused = |batch: usize, block| {
        let options = CompileOptions { batch, block, ..CompileOptions::default() };
        compile(&model(), &npu, &options).expect_err("no program")
    };
    let cores = npu.cores as usize;
    for batch in [0, cores + 1] {
        let error = refused(batch, None);
        let words = format!("a batch of {batch} on a device of {cores} cores");
        assert!(matches!(&error, Error::Argument(reason) if reason.contains(&words)), "{error}");
    }
    assert!(matches!(refused(1, None), Error::NotQuantized));
    // Integers that there are, and that packages cannot have: samples would not help.
    let mut builder = GraphBuilder::new();
    let (step, wide) = (QuantParams { scale: 0.5, zero_point: 0 }, DType::I16);
    let x = builder.input("x", REAL, &[1, 4, 6, 5]);
    let x = builder.quantize_dequantize(x, step, wide);
    let y = builder.unary(UnaryKind::Sigmoid, x);
    let y = builder.quantize_dequantize(y, step, wide);
    let error =
        compile(&builder.finish_inferred(&[y]), &npu, &CompileOptions::default()).expect_err("16 bits");
    let words = "over 16-bit integers only, and packages have 8-bit ones";
    assert!(matches!(&error, Error::Target(reason) if reason.contains(words)), "{error}");
    assert!(error.to_string().contains("--target buyi --format icraft"), "{error}");
    // Only batches may be open.
    let mut open = model();
    let x = open.inputs[0];
    let dims = open.value(x).shape.clone().expect("extents");
    for axis in 1..4 {
        let mut other = dims.clone();
        other[axis] = Dim::Symbol("rows".into());
        open.value_mut(x).shape = Some(other);
        let error = bind_batch(&open, 1).expect_err("an open extent");
        let words = format!("input 'x': extent 'rows' of axis {axis} is open");
        assert!(matches!(&error, Error::Target(reason) if reason.contains(&words)), "{error}");
    }
    open.value_mut(x).shape = None;
    let error = bind_batch(&open, 1).expect_err("no extents");
    assert!(matches!(&error, Error::Target(reason) if reason.contains("input 'x' has no shape")), "{error}");
    let error = compiled(&open, true).expect_err("no extents");
    assert!(matches!(&error, Error::Graph(_)) && error.to_string().contains("'x'"), "{error}");
    let mut words = model();
    let x = words.inputs[0];
    words.value_mut(x).kind = triune_graph::ValueKind::Strings;
    let error = compile(&words, &npu, &CompileOptions::default()).expect_err("no numbers");
    assert!(error.to_string().contains("input 'x' is of kind 'strings', and packages take"), "{error}");
    // What is taken between stages has no commands.
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", REAL, &[3]);
    let mask = builder.constant(&Tensor::from_bytes(DType::Bool, &[3], &[1, 0, 1]));
    let op = CondTake { comparison: triune_graph::ops::Comparison::Equal, value: 1.0, epsilon: 0.0 };
    let made = builder.node_with(Op::from(op), &[Some(x), Some(mask)], 2);
    let error = compiled(&builder.finish(&made), true).expect_err("no command");
    assert!(error.to_string().contains("node 'node0'"), "{error}");
}
