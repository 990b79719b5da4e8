//! Single operators written as MegEngine models and read again, by the naive interpreter; and what such a model cannot express.

use std::collections::HashMap;

use triune_graph::{
    Dim, Error, Graph, Op, Quantization, ValueId,
    format::mge,
    infer::infer,
    ops::{
        BatchNormalization, Binary, BinaryKind, Cast, Concat, CoordinateMode, Epilogue, Expand, Flatten,
        Gemm, GlobalPool, Identity, MatMul, NearestMode, Pad, PadMode, Pool, PoolKind, PostOp, Reduce,
        ReduceKind, Resize, ResizeMode, Softmax, Split, Squeeze, Transpose, Unary, UnaryKind, Unsqueeze,
        Where,
    },
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor, Window, interpret};

/// A graph of one operator on inputs and constants.
fn one(op: Op, inputs: &[(DType, &[usize])], constants: &[Tensor], results: usize) -> Graph {
    let mut builder = GraphBuilder::new();
    let names = ["x", "y", "z"];
    let mut operands: Vec<Option<ValueId>> = (inputs.iter().zip(names))
        .map(|((dtype, shape), name)| Some(builder.input(name, *dtype, shape)))
        .collect();
    operands.extend(constants.iter().map(|tensor| Some(builder.constant(tensor))));
    let made = builder.node_with(op, &operands, results);
    builder.finish(&made)
}

fn written(graph: &Graph) -> Result<Vec<u8>, Error> {
    let shapes = mge::default_shapes(graph, &HashMap::<String, Vec<usize>>::new())?;
    mge::write(graph, &shapes)
}

/// The graph after it was a file.
#[track_caller]
fn again(graph: &Graph, what: &str) -> Graph {
    let bytes = written(graph).unwrap_or_else(|error| panic!("{what}: {error}"));
    let model =
        mge::read(bytes, &mge::ReadOptions::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (mut read, shapes) = (model.graph, model.default_shapes);
    let names: Vec<String> = read.inputs.iter().map(|&id| read.value(id).name.clone()).collect();
    let bound: Vec<(&str, &[usize])> =
        names.iter().map(String::as_str).zip(shapes.iter().map(Vec::as_slice)).collect();
    read.bind(&bound).unwrap_or_else(|error| panic!("{what}: {error}"));
    infer(&mut read).unwrap_or_else(|error| panic!("{what}: {error}"));
    read
}

#[track_caller]
fn check(graph: &Graph, inputs: &[Tensor], what: &str) {
    let read = again(graph, what);
    let run = |graph: &Graph| {
        let names: Vec<String> = graph.inputs.iter().map(|&id| graph.value(id).name.clone()).collect();
        let given: Vec<(&str, Tensor)> =
            names.iter().map(String::as_str).zip(inputs.iter().cloned()).collect();
        interpret(graph, &given)
    };
    let (want, got) = (run(graph), run(&read));
    assert_eq!(want.len(), got.len(), "{what}");
    for (want, got) in want.iter().zip(&got) {
        assert_eq!((want.dtype(), &want.shape), (got.dtype(), &got.shape), "{what}");
        for (want, got) in want.reals().into_iter().zip(got.reals()) {
            let close = (want - got).abs() <= 1e-5 * want.abs().max(1.0);
            assert!(close || want == got || want.is_nan() && got.is_nan(), "{what}: {got}, expected {want}");
        }
    }
}

const REAL: DType = DType::F32;

fn ints(values: &[i64]) -> Tensor {
    Tensor::i64(&[values.len()], values)
}

#[test]
fn functions_round_trip() {
    use BinaryKind as B;
    use UnaryKind as U;
    let mut random = Random(1);
    let image: &[usize] = &[2, 3, 4, 5];
    for kind in [
        B::Add,
        B::Sub,
        B::Mul,
        B::Div,
        B::Min,
        B::Max,
        B::Pow,
        B::FloorDiv,
        B::Rem,
        B::LogAddExp,
        B::Atan2,
        B::PRelu,
    ] {
        let graph = one(kind.into(), &[(REAL, image), (REAL, &[3, 1, 1])], &[], 1);
        // Neither quotients by 0 nor roots of what is negative.
        let above = |random: &mut Random, shape: &[usize]| {
            let values: Vec<f64> = random.tensor(REAL, shape).reals().iter().map(|x| x + 4.0625).collect();
            Tensor::of_floats(REAL, shape, &values)
        };
        let inputs = [above(&mut random, image), above(&mut random, &[3, 1, 1])];
        check(&graph, &inputs, &format!("{kind:?}"));
    }
    for kind in [B::Add, B::Mul, B::FloorDiv, B::Mod, B::ShiftLeft, B::ShiftRight, B::MulHigh, B::Min, B::Max]
    {
        let graph = one(kind.into(), &[(DType::I32, &[2, 6]), (DType::I32, &[6])], &[], 1);
        let given = Tensor::i32(&[2, 6], &[1, 5, 70_000, 9, 1 << 30, 3, 0, 8, 2, 1 << 20, 6, 4]);
        check(&graph, &[given, Tensor::i32(&[6], &[2, 3, 1, 4, 5, 7])], &format!("{kind:?}"));
    }
    for kind in [B::And, B::Or, B::Xor] {
        let graph = one(kind.into(), &[(DType::Bool, &[2, 2]), (DType::Bool, &[2])], &[], 1);
        let truths = |shape: &[usize], bytes: &[u8]| Tensor::from_bytes(DType::Bool, shape, bytes);
        check(&graph, &[truths(&[2, 2], &[0, 1, 1, 0]), truths(&[2], &[0, 1])], &format!("{kind:?}"));
    }
    for kind in [
        U::Relu,
        U::Abs,
        U::Ceil,
        U::Exp,
        U::Floor,
        U::Log,
        U::Neg,
        U::Sigmoid,
        U::Tanh,
        U::Erf,
        U::HardSwish,
        U::Silu,
        U::Gelu,
        U::Softplus,
        U::Sqrt,
        U::Clip([0.0, 6.0]),
        U::Clip([-1.5, 2.0]),
        U::Clip([0.0, 5.0]),
        U::LeakyRelu(0.25),
        U::Reciprocal,
        U::HardSigmoid { alpha: 0.25, beta: 0.75 },
    ] {
        let graph = one(Op::Unary(Unary { kind }), &[(REAL, &[5, 3])], &[], 1);
        let values: Vec<f64> =
            random.tensor(REAL, &[5, 3]).reals().iter().map(|x| 2.0 * x + 0.0625).collect();
        check(&graph, &[Tensor::of_floats(REAL, &[5, 3], &values)], &format!("{kind:?}"));
    }
    for (kind, axes) in [
        (ReduceKind::Sum, vec![1, 3]),
        (ReduceKind::SumSquare, vec![2]),
        (ReduceKind::Product, vec![-1]),
        (ReduceKind::Min, vec![0, 2]),
        (ReduceKind::Max, vec![1]),
        (ReduceKind::Mean, vec![2, 3]),
    ] {
        for keep_dims in [true, false] {
            let graph = one(
                Op::Reduce(Reduce { kind, axes: Some(axes.clone()), keep_dims }),
                &[(REAL, image)],
                &[],
                1,
            );
            check(&graph, &[random.tensor(REAL, image)], &format!("{kind:?} along {axes:?}"));
        }
    }
    let graph = one(
        Op::Reduce(Reduce { kind: ReduceKind::Max, axes: None, keep_dims: true }),
        &[(REAL, image)],
        &[],
        1,
    );
    // The format has no scalars.
    check(&graph, &[random.tensor(REAL, image)], "the largest of all");
}

#[test]
fn products_and_windows_round_trip() {
    let mut random = Random(2);
    for (index, (alpha, beta)) in [(1.0, 1.0), (0.5, 1.0), (1.0, -2.0), (3.0, 0.5)].into_iter().enumerate() {
        for (trans_a, trans_b) in [(false, false), (true, false), (false, true), (true, true)] {
            let op = Gemm { alpha, beta, trans_a, trans_b, epilogue: Epilogue::default() };
            let what = format!("{op:?} {index}");
            let a: &[usize] = if trans_a { &[5, 3] } else { &[3, 5] };
            let b = random.tensor(REAL, if trans_b { &[4, 5] } else { &[5, 4] });
            let bias = random.tensor(REAL, &[4]);
            check(
                &one(Op::Gemm(op.clone()), &[(REAL, a)], &[b.clone(), bias], 1),
                &[random.tensor(REAL, a)],
                &what,
            );
            check(&one(Op::Gemm(op), &[(REAL, a)], &[b], 1), &[random.tensor(REAL, a)], &what);
        }
    }
    for (a, b) in [(&[3, 5][..], &[5, 4][..]), (&[2, 3, 5], &[2, 5, 4])] {
        let op = MatMul { epilogue: Epilogue::default() };
        let inputs = [random.tensor(REAL, a), random.tensor(REAL, b)];
        check(&one(Op::MatMul(op), &[(REAL, a), (REAL, b)], &[], 1), &inputs, "a product");
    }
    for round in 0..24 {
        let size = [random.between(4, 8), random.between(4, 8)];
        let window = random.window(size, [3, 3]);
        let groups = [1, 2][round % 2];
        let mut builder = GraphBuilder::new();
        let shape = [1, 2 * groups, size[0], size[1]];
        let x = builder.input("x", REAL, &shape);
        let weights = random.tensor(REAL, &[3 * groups, 2, window.kernel[0], window.kernel[1]]);
        let mut operands = vec![x, builder.constant(&weights)];
        if round % 3 > 0 {
            operands.push(builder.constant(&random.tensor(REAL, &[3 * groups])));
        }
        let y = builder.conv_window(&operands, window, groups);
        check(&builder.finish(&[y]), &[random.tensor(REAL, &shape)], &format!("{window:?}"));
        // Windows without gaps; means that leave the padding out want it to be the same at both ends.
        let mut flat = Window { dilation: [1; 2], ..random.window(size, [3, 3]) };
        let kind = [
            PoolKind::Max,
            PoolKind::Average { count_include_pad: true },
            PoolKind::Average { count_include_pad: false },
        ][round % 3];
        if kind == (PoolKind::Average { count_include_pad: false }) || round % 4 == 0 {
            flat.pad = [flat.pad[0].min(flat.kernel[0] / 2), flat.pad[1].min(flat.kernel[1] / 2), 0, 0];
            (flat.pad[2], flat.pad[3]) = (flat.pad[0], flat.pad[1]);
        }
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", REAL, &shape);
        let y = builder.pool_window(kind, x, flat);
        check(&builder.finish(&[y]), &[random.tensor(REAL, &shape)], &format!("{kind:?} {flat:?}"));
    }
    let image: &[usize] = &[2, 3, 4, 5];
    for kind in [PoolKind::Max, PoolKind::Average { count_include_pad: false }] {
        check(
            &one(Op::GlobalPool(GlobalPool { kind }), &[(REAL, image)], &[], 1),
            &[random.tensor(REAL, image)],
            "a global pool",
        );
    }
    let rows: Vec<Tensor> = (0..4).map(|at| Tensor::f32(&[3], &[1.5, 0.25 + at as f32, 2.0])).collect();
    let op = BatchNormalization { epsilon: 0.125 };
    check(
        &one(Op::BatchNormalization(op), &[(REAL, image)], &rows, 1),
        &[random.tensor(REAL, image)],
        "a normalization",
    );
}

#[test]
fn movements_round_trip() {
    let mut random = Random(3);
    let image: &[usize] = &[2, 3, 4, 5];
    let x = random.tensor(REAL, image);
    let mut go = |op: Op, shape: &[usize], constants: &[Tensor], results: usize| {
        let what = format!("{op:?}");
        check(&one(op, &[(REAL, shape)], constants, results), &[random.tensor(REAL, shape)], &what);
    };
    go(Op::Softmax(Softmax { axis: 1, flatten: false, log: false }), image, &[], 1);
    go(Op::Softmax(Softmax { axis: -1, flatten: false, log: false }), image, &[], 1);
    for axis in [1, -1] {
        go(Op::Softmax(Softmax { axis, flatten: false, log: true }), image, &[], 1);
    }
    go(Op::Flatten(Flatten { axis: 2 }), image, &[], 1);
    go(Op::Squeeze(Squeeze), &[2, 1, 3], &[ints(&[1])], 1);
    go(Op::Unsqueeze(Unsqueeze), &[2, 3], &[ints(&[0, 2])], 1);
    go(Op::Transpose(Transpose { perm: vec![0, 3, 1, 2] }), image, &[], 1);
    go(Op::Expand(Expand), &[3, 1], &[ints(&[2, 3, 4])], 1);
    go(Op::Identity(Identity), image, &[], 1);
    go(Op::Concat(Concat { axis: 1 }), image, std::slice::from_ref(&x), 1);
    go(Op::Split(Split { axis: 1, parts: None }), image, &[ints(&[1, 2])], 2);
    go(Op::Split(Split { axis: -1, parts: None }), image, &[ints(&[2, 0, 3])], 3);
    for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Edge] {
        go(Op::Pad(Pad { mode }), image, &[ints(&[0, 0, 1, 2, 0, 0, 3, 0])], 1);
    }
    go(
        Op::Pad(Pad { mode: PadMode::Constant }),
        &[2, 3],
        &[ints(&[1, 0, 0, 2]), Tensor::f32(&[], &[2.5])],
        1,
    );
    let resize = |mode, coordinates| Op::Resize(Resize { mode, coordinates });
    for op in [
        resize(ResizeMode::Nearest(NearestMode::Floor), CoordinateMode::Asymmetric),
        resize(ResizeMode::Linear, CoordinateMode::HalfPixel),
    ] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", REAL, &[1, 2, 3, 4]);
        let sizes = builder.constant(&ints(&[1, 2, 7, 5]));
        let y = builder.node_with(op, &[Some(x), None, None, Some(sizes)], 1);
        check(&builder.finish(&y), &[Random(4).tensor(REAL, &[1, 2, 3, 4])], "resampling");
    }
    for to in [DType::I32, DType::I8, DType::U8, DType::I16] {
        let graph = one(Op::Cast(Cast { to }), &[(REAL, &[6])], &[], 1);
        check(&graph, &[Tensor::f32(&[6], &[0.0, 1.0, 2.5, 100.0, 7.9, 3.0])], &format!("as {to}"));
    }
    let mut builder = GraphBuilder::new();
    let params = QuantParams { scale: 0.25, zero_point: 0 };
    let x = builder.input("x", REAL, &[8]);
    let y = builder.quantize_dequantize(x, params, DType::I8);
    check(
        &builder.finish(&[y]),
        &[Tensor::f32(&[8], &[0.0, 0.3, -0.3, 99.0, -99.0, 1.0, 0.1, 5.2])],
        "a step",
    );
}

/// Inputs that are open get extents by name, 1 where nobody says any.
#[test]
fn open_inputs_get_extents() {
    let mut graph = one(BinaryKind::Add.into(), &[(REAL, &[1, 2]), (REAL, &[1, 2])], &[], 1);
    let x = graph.inputs[0];
    graph.value_mut(x).shape = Some(vec![Dim::Symbol("n".into()), Dim::Fixed(2)]);
    let given = |names: &[&str]| {
        let given = names.iter().map(|name| ((*name).to_owned(), vec![7, 2])).collect::<HashMap<_, _>>();
        mge::default_shapes(&graph, &given)
    };
    assert_eq!(given(&[]).expect("extents"), [[1, 2], [1, 2]]);
    assert_eq!(given(&["x"]).expect("extents"), [[7, 2], [1, 2]]);
    let error = given(&["x", "q"]).expect_err("no such input").to_string();
    assert!(error.contains("no input is called 'q'"), "{error}");
    let error = mge::write(&graph, &[vec![1, 2]]).expect_err("too few").to_string();
    assert!(error.contains("1 default shapes for 2 inputs"), "{error}");
}

#[test]
fn what_no_model_expresses_is_named() {
    let image: &[usize] = &[1, 4, 6, 5];
    let real = |op: Op| one(op, &[(REAL, image)], &[], 1);
    let pair = |kind: BinaryKind, dtype: DType| one(kind.into(), &[(dtype, &[3]), (dtype, &[3])], &[], 1);
    let pool = |change: &dyn Fn(&mut Pool)| {
        let mut op = Pool {
            kind: PoolKind::Max,
            kernel: [2; 2],
            stride: [2; 2],
            dilation: [1; 2],
            pad: [0; 4],
            auto_pad: triune_graph::ops::AutoPad::Explicit,
            ceil_mode: false,
        };
        change(&mut op);
        real(Op::Pool(Box::new(op)))
    };
    let resize = |mode, coordinates| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", REAL, image);
        let sizes = builder.constant(&ints(&[1, 4, 12, 10]));
        let y = builder.node_with(
            Op::Resize(Resize { mode, coordinates }),
            &[Some(x), None, None, Some(sizes)],
            1,
        );
        builder.finish(&y)
    };
    let pad = |constants: &[Tensor]| {
        one(Op::Pad(Pad { mode: PadMode::Constant }), &[(REAL, &[2, 3])], constants, 1)
    };
    let fused = one(
        Op::Binary(Binary {
            kind: BinaryKind::Add,
            epilogue: Epilogue { post_ops: vec![PostOp::Activation(UnaryKind::Relu)] },
        }),
        &[(REAL, &[3]), (REAL, &[3])],
        &[],
        1,
    );
    let mut quantized = pair(BinaryKind::Add, DType::I8);
    let half = QuantParams { scale: 0.5, zero_point: 0 };
    quantized.nodes[0].quant = Some(Box::new(Quantization {
        operands: vec![Some(half); 2],
        weights: [].into(),
        dtype: DType::I8,
        result: half,
    }));
    let normalization = one(
        Op::BatchNormalization(BatchNormalization { epsilon: 0.0 }),
        &[(REAL, &[2, 3])],
        &[0; 4].map(|_| Tensor::f32(&[3], &[1.0; 3])),
        1,
    );
    let matmul = |a: &[usize], b: &[usize]| {
        one(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[(REAL, a), (REAL, b)], &[], 1)
    };
    let reduce =
        |kind, axes: &[isize]| real(Op::Reduce(Reduce { kind, axes: Some(axes.to_vec()), keep_dims: true }));
    let to_shape = one(
        Op::Reduce(Reduce { kind: ReduceKind::Sum, axes: None, keep_dims: true }),
        &[(REAL, &[2, 3])],
        &[ints(&[1, 3])],
        1,
    );
    let rows: Vec<(Graph, &str)> = vec![
        (fused, "a fused epilogue"),
        (quantized, "an operator over quantized values"),
        (real(Op::Softmax(Softmax { axis: 1, flatten: true, log: false })), "a softmax over several axes"),
        (
            one(Op::Where(Where), &[(DType::Bool, &[3]), (REAL, &[3]), (REAL, &[3])], &[], 1),
            "the operator Where",
        ),
        (real(Op::Unary(Unary { kind: UnaryKind::Acosh })), "the function Acosh"),
        (pair(BinaryKind::Div, DType::I32), "a division of integers"),
        (pair(BinaryKind::Mod, REAL), "this function"),
        (pair(BinaryKind::Rem, DType::I32), "this function"),
        (pair(BinaryKind::Less, REAL), "this function"),
        (pair(BinaryKind::Equal, REAL), "this function"),
        (reduce(ReduceKind::SumSquare, &[1, 2]), "a sum of squares over several axes"),
        (to_shape, "a reduction to a shape"),
        (matmul(&[1, 2, 3], &[3, 4]), "a product of [1, 2, 3] and [3, 4]"),
        (matmul(&[1, 2, 3], &[2, 3, 4]), "a product of [1, 2, 3] and [2, 3, 4]"),
        (normalization, "normalization of [2, 3]"),
        (pool(&|op| op.dilation = [1, 2]), "a dilated window"),
        (pool(&|op| op.dilation = [2, 1]), "a dilated window"),
        // Five columns in steps of two leave a window that is not whole.
        (pool(&|op| op.ceil_mode = true), "partial windows at one end"),
        (
            pool(&|op| (op.kind, op.pad) = (PoolKind::Average { count_include_pad: false }, [1, 0, 0, 0])),
            "partial windows at one end",
        ),
        (resize(ResizeMode::Linear, CoordinateMode::AlignCorners), "this choice of coordinates"),
        (
            resize(ResizeMode::Nearest(NearestMode::Ceil), CoordinateMode::Asymmetric),
            "this choice of coordinates",
        ),
        (pad(&[ints(&[-1, 0, 0, 0])]), "this padding"),
        (pad(&[ints(&[1, 0, 0, -1])]), "this padding"),
        (one(Op::Pad(Pad { mode: PadMode::Edge }), &[(REAL, &[1; 8])], &[ints(&[0; 16])], 1), "this padding"),
        (
            one(Op::Cast(Cast { to: DType::U64 }), &[(REAL, &[3])], &[], 1),
            "the format has no element type uint64",
        ),
    ];
    let mut wrong = Vec::new();
    for (graph, words) in rows {
        match written(&graph) {
            Ok(_) => wrong.push(format!("{words}: is written")),
            Err(error @ Error::Unsupported { .. }) if error.to_string().contains(words) => {}
            Err(error) => wrong.push(format!("{words}: {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
