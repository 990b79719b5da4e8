//! Single operators through compile, deploy and run, against the naive interpreter: every element type that they take,
//! operands in whatever order they lie.

use triune_graph::{
    Graph, Op, ValueId,
    ops::{
        ArgReduce, BinaryKind, Cast, Clip, Gather, GatherElements, GatherNd, Index, Pad, PadMode, Reduce,
        ReduceKind, Slice, TopK, Transpose, UnaryKind, Where,
    },
};
use triune_runtime::{Session, SessionOptions, TensorRef};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Random, Tensor, interpret};

/// Runs a graph on one and on three threads.
fn run(graph: &Graph, inputs: &[(&str, Tensor)]) -> Vec<Tensor> {
    let mut results = [1, 3].map(|threads| {
        let mut session =
            Session::new(graph.clone(), &SessionOptions { threads, ..SessionOptions::default() })
                .expect("a session");
        let bytes: Vec<Vec<u8>> = inputs.iter().map(|(_, tensor)| tensor.to_bytes()).collect();
        let operands: Vec<TensorRef<'_>> = (inputs.iter().zip(&bytes))
            .map(|((_, tensor), bytes)| TensorRef { dtype: tensor.dtype(), shape: &tensor.shape, bytes })
            .collect();
        session.run(&operands).expect("a run")
    });
    let [one, three] = &mut results;
    assert_eq!(one, three, "threads change nothing");
    one.iter().map(|tensor| Tensor::from_bytes(tensor.dtype, &tensor.shape, &tensor.bytes)).collect()
}

/// Compares a graph's results with the interpreter's: integers exactly, floats within `tolerance` of their size.
#[track_caller]
fn check(graph: &Graph, inputs: &[(&str, Tensor)], tolerance: f64, what: &str) {
    let expected = interpret(graph, inputs);
    let got = run(graph, inputs);
    assert_eq!(got.len(), expected.len(), "{what}");
    for (got, expected) in got.iter().zip(&expected) {
        assert_eq!((got.dtype(), &got.shape), (expected.dtype(), &expected.shape), "{what}");
        if !expected.dtype().is_float() {
            assert_eq!(got, expected, "{what}");
            continue;
        }
        for (at, (got, expected)) in got.reals().into_iter().zip(expected.reals()).enumerate() {
            let close = (got - expected).abs() <= tolerance * expected.abs().max(1.0);
            let same = got == expected || got.is_nan() && expected.is_nan();
            assert!(same || close, "{what}: [{at}] {got}, expected {expected}");
        }
    }
}

/// An input seen as it is, transposed, or every second element of it: with the shape that it has then.
fn seen(builder: &mut GraphBuilder, x: ValueId, shape: &[usize], way: usize) -> (ValueId, Vec<usize>) {
    match way {
        0 => (x, shape.to_vec()),
        1 => {
            let perm: Vec<usize> = (0..shape.len()).map(|axis| (axis + 1) % shape.len()).collect();
            let dims = perm.iter().map(|&axis| shape[axis]).collect();
            (builder.node(Op::Transpose(Transpose { perm }), &[x]), dims)
        }
        _ => {
            let last = shape.len() - 1;
            let mut ints = |values: &[i64]| {
                let tensor = Tensor::i64(&[values.len()], values);
                builder.constant(&tensor)
            };
            let operands = [x, ints(&[1]), ints(&[i64::MAX]), ints(&[last as i64]), ints(&[2])];
            let mut dims = shape.to_vec();
            dims[last] /= 2;
            (builder.node(Op::Slice(Slice), &operands), dims)
        }
    }
}

const REDUCTIONS: [ReduceKind; 6] = [
    ReduceKind::Sum,
    ReduceKind::SumSquare,
    ReduceKind::Product,
    ReduceKind::Min,
    ReduceKind::Max,
    ReduceKind::Mean,
];

const NUMBERS: [DType; 9] = [
    DType::F32,
    DType::I32,
    DType::I64,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::U32,
    DType::U64,
];

#[test]
fn reductions() {
    let mut random = Random(1);
    let shape = [2, 5, 4, 6];
    let axes: [Option<&[isize]>; 7] =
        [None, Some(&[0]), Some(&[-1]), Some(&[1]), Some(&[2, 3]), Some(&[0, 2]), Some(&[])];
    for dtype in NUMBERS {
        for kind in REDUCTIONS {
            for (index, axes) in axes.iter().enumerate() {
                let (way, keep_dims) = (index % 3, (index + kind as usize).is_multiple_of(2));
                let mut builder = GraphBuilder::new();
                let x = builder.input("x", dtype, &shape);
                let (seen, _) = seen(&mut builder, x, &shape, way);
                let op = Reduce { kind, axes: axes.map(<[isize]>::to_vec), keep_dims };
                let what = format!("{dtype} {op:?} seen {way}");
                let y = builder.node(Op::Reduce(op), &[seen]);
                let inputs = [("x", random.tensor(dtype, &shape))];
                check(&builder.finish(&[y]), &inputs, 1e-6, &what);
            }
        }
    }
}

#[test]
fn reductions_to_a_shape() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[2, 3, 4]);
    let target = builder.constant(&Tensor::i64(&[3], &[1, 3, 1]));
    let y = builder
        .node(Op::Reduce(Reduce { kind: ReduceKind::Sum, axes: None, keep_dims: false }), &[x, target]);
    check(&builder.finish(&[y]), &[("x", Random(3).tensor(DType::F32, &[2, 3, 4]))], 1e-6, "to (1, 3, 1)");
}

#[test]
fn sums_over_nothing() {
    for (kind, expected) in [(ReduceKind::Sum, 0.0), (ReduceKind::Product, 1.0)] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[2, 3]);
        let operands = [[3], [3], [1]].map(|ints| builder.constant(&Tensor::i64(&[1], &ints)));
        let nothing = builder.node(Op::Slice(Slice), &[x, operands[0], operands[1], operands[2]]);
        let y = builder.node(Op::Reduce(Reduce::along(kind, &[1])), &[nothing]);
        let got = run(&builder.finish(&[y]), &[("x", Tensor::f32(&[2, 3], &[7.0; 6]))]);
        assert_eq!(got, [Tensor::f32(&[2, 1], &[expected; 2])]);
    }
}

#[test]
fn positions_of_extremes() {
    let mut random = Random(2);
    let shape = [3, 5, 4, 6];
    for dtype in NUMBERS {
        for (index, (kind, last)) in [
            (ReduceKind::Max, false),
            (ReduceKind::Max, true),
            (ReduceKind::Min, false),
            (ReduceKind::Min, true),
        ]
        .into_iter()
        .enumerate()
        {
            for axis in [0_isize, 1, -1] {
                let mut builder = GraphBuilder::new();
                let x = builder.input("x", dtype, &shape);
                let (seen, _) = seen(&mut builder, x, &shape, (index + axis.unsigned_abs()) % 3);
                let dtype_out = if index.is_multiple_of(2) { DType::I64 } else { DType::I32 };
                let op = ArgReduce { kind, axis, keep_dims: index < 2, last, dtype: dtype_out };
                let y = builder.node(Op::ArgReduce(op), &[seen]);
                let inputs = [("x", random.tensor(dtype, &shape))];
                check(&builder.finish(&[y]), &inputs, 0.0, &format!("{dtype} {op:?}"));
            }
        }
    }
    // A NaN wins.
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[4]);
    let op = |kind| ArgReduce { kind, axis: 0, keep_dims: false, last: false, dtype: DType::I64 };
    let y = [ReduceKind::Max, ReduceKind::Min].map(|kind| builder.node(Op::ArgReduce(op(kind)), &[x]));
    let got = run(&builder.finish(&y), &[("x", Tensor::f32(&[4], &[1.0, f32::NAN, 3.0, f32::NAN]))]);
    assert_eq!(got, vec![Tensor::i64(&[], &[1]); 2]);
}

const INTEGERS: [DType; 8] =
    [DType::I32, DType::I64, DType::I8, DType::U8, DType::I16, DType::U16, DType::U32, DType::U64];

#[test]
fn functions_of_two_integers() {
    use BinaryKind as K;
    let mut random = Random(4);
    let kinds = [
        K::Add,
        K::Sub,
        K::Mul,
        K::Div,
        K::FloorDiv,
        K::Mod,
        K::Rem,
        K::Min,
        K::Max,
        K::Pow,
        K::PRelu,
        K::And,
        K::Or,
        K::Xor,
        K::ShiftLeft,
        K::ShiftRight,
        K::Equal,
        K::NotEqual,
        K::Less,
        K::LessOrEqual,
        K::Greater,
        K::GreaterOrEqual,
    ];
    for dtype in INTEGERS {
        for (index, kind) in kinds.into_iter().enumerate() {
            // Values of the interpreter are i64: quotients of wrapped differences are another's.
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", dtype, &[3, 4, 6]);
            let (a, shape) = seen(&mut builder, x, &[3, 4, 6], index % 3);
            let other = if index.is_multiple_of(2) { vec![shape[2]] } else { vec![shape[0], 1, shape[2]] };
            let b = builder.input("b", dtype, &other);
            let y = builder.binary(kind, a, b);
            let inputs = [("x", random.tensor(dtype, &[3, 4, 6])), ("b", random.tensor(dtype, &other))];
            check(&builder.finish(&[y]), &inputs, 0.0, &format!("{dtype} {kind:?}"));
        }
    }
    for dtype in [DType::I8, DType::I16, DType::I32] {
        let mut builder = GraphBuilder::new();
        let a = builder.input("a", dtype, &[50]);
        let b = builder.input("b", dtype, &[50]);
        let y = builder.binary(K::MulHigh, a, b);
        let (low, high) = dtype.int_range().expect("a range");
        let mut values = |first: i64| {
            let mut values: Vec<i64> =
                (1..50).map(|_| low + (random.next() % (high - low) as u64) as i64).collect();
            values.push(first);
            Tensor::of_integers(dtype, &[50], &values)
        };
        check(&builder.finish(&[y]), &[("a", values(low)), ("b", values(low))], 0.0, "the high half");
    }
}

#[test]
fn functions_of_two_reals_and_truths() {
    use BinaryKind as K;
    let mut random = Random(5);
    for dtype in [DType::F32, DType::F64, DType::F16] {
        for kind in [
            K::Add,
            K::Div,
            K::FloorDiv,
            K::Mod,
            K::Rem,
            K::Min,
            K::Max,
            K::PRelu,
            K::Atan2,
            K::LogAddExp,
            K::Equal,
            K::Less,
            K::GreaterOrEqual,
        ] {
            if dtype == DType::F64 && matches!(kind, K::Atan2 | K::LogAddExp) {
                continue;
            }
            let mut builder = GraphBuilder::new();
            let a = builder.input("a", dtype, &[2, 3, 4, 5]);
            let b = builder.input("b", dtype, &[4, 1]);
            let y = builder.binary(kind, a, b);
            let mut b_values = random.tensor(dtype, &[4, 1]).reals();
            // No quotient by 0: both signs of infinity and NaN are in the kernels' own tests.
            for value in &mut b_values {
                *value += 0.0625;
            }
            let inputs = [
                ("a", random.tensor(dtype, &[2, 3, 4, 5])),
                ("b", Tensor::of_floats(dtype, &[4, 1], &b_values)),
            ];
            let tolerance = if dtype == DType::F16 { 2e-3 } else { 1e-6 };
            check(&builder.finish(&[y]), &inputs, tolerance, &format!("{dtype} {kind:?}"));
        }
    }
    for kind in [K::And, K::Or, K::Xor, K::Min, K::Max, K::Equal] {
        let mut builder = GraphBuilder::new();
        let a = builder.input("a", DType::Bool, &[3, 4]);
        let b = builder.input("b", DType::Bool, &[4]);
        let y = builder.binary(kind, a, b);
        let inputs = [("a", random.tensor(DType::Bool, &[3, 4])), ("b", random.tensor(DType::Bool, &[4]))];
        check(&builder.finish(&[y]), &inputs, 0.0, &format!("bool {kind:?}"));
    }
}

#[test]
fn functions_of_one_number() {
    use UnaryKind as K;
    let mut random = Random(6);
    let kinds = [
        K::Sin,
        K::Cos,
        K::Tan,
        K::Asin,
        K::Acos,
        K::Atan,
        K::Sinh,
        K::Cosh,
        K::Asinh,
        K::Acosh,
        K::Atanh,
        K::Expm1,
        K::Log1p,
        K::Erfc,
        K::ErfInv,
        K::ErfcInv,
        K::FastTanh,
        K::RoundHalfAway,
        K::Sign,
        K::Square,
        K::Rsqrt,
        K::LogSigmoid,
        K::Affine { alpha: -1.5, beta: 0.25 },
        K::ThresholdedRelu(0.5),
        K::ScaledTanh { alpha: 1.75, beta: 0.625 },
        K::Softsign,
        K::Gate { alpha: 1.5, beta: 0.125 },
    ];
    for dtype in [DType::F32, DType::F16] {
        for kind in kinds {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", dtype, &[2, 3, 50]);
            let y = builder.unary(kind, x);
            let mut values = random.tensor(dtype, &[2, 3, 50]).reals();
            match kind {
                K::Asin | K::Acos | K::Atanh | K::ErfInv => values.iter_mut().for_each(|x| *x /= 4.125),
                K::Acosh => values.iter_mut().for_each(|x| *x += 5.0),
                K::ErfcInv => values.iter_mut().for_each(|x| *x = (*x + 4.125) / 4.25),
                K::Log1p | K::Rsqrt => values.iter_mut().for_each(|x| *x = x.abs() + 0.125),
                _ => {}
            }
            let inputs = [("x", Tensor::of_floats(dtype, &[2, 3, 50], &values))];
            let tolerance = if dtype == DType::F16 { 2e-3 } else { 1e-6 };
            check(&builder.finish(&[y]), &inputs, tolerance, &format!("{dtype} {kind:?}"));
        }
    }
    for dtype in INTEGERS {
        for kind in [K::Relu, K::Abs, K::Neg, K::Sign, K::Square, K::Round] {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", dtype, &[3, 4, 6]);
            let (x, _) = seen(&mut builder, x, &[3, 4, 6], 1);
            let y = builder.unary(kind, x);
            check(
                &builder.finish(&[y]),
                &[("x", random.tensor(dtype, &[3, 4, 6]))],
                0.0,
                &format!("{dtype} {kind:?}"),
            );
        }
    }
}

#[test]
fn limits_that_are_operands() {
    let mut random = Random(7);
    for dtype in [DType::F32, DType::I32, DType::U8] {
        for given in [[true, true], [true, false], [false, true]] {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", dtype, &[2, 30]);
            let limits = ["low", "high"].map(|name| builder.input(name, dtype, &[]));
            let operands = [Some(x), given[0].then_some(limits[0]), given[1].then_some(limits[1])];
            let y = builder.node_with(Op::Clip(Clip), &operands, 1);
            let one = |value: i64| match dtype {
                DType::F32 => Tensor::f32(&[], &[value as f32]),
                _ => Tensor::of_integers(dtype, &[], &[value]),
            };
            let inputs = [("x", random.tensor(dtype, &[2, 30])), ("low", one(2)), ("high", one(5))];
            check(&builder.finish(&y), &inputs, 0.0, &format!("{dtype} {given:?}"));
        }
    }
}

#[test]
fn every_type_becomes_every_other() {
    let mut random = Random(8);
    for from in DType::ALL {
        for to in DType::ALL {
            for way in 0..3 {
                let mut builder = GraphBuilder::new();
                let x = builder.input("x", from, &[3, 4, 6]);
                let (x, _) = seen(&mut builder, x, &[3, 4, 6], way);
                let y = builder.node(Op::Cast(Cast { to }), &[x]);
                check(
                    &builder.finish(&[y]),
                    &[("x", random.tensor(from, &[3, 4, 6]))],
                    0.0,
                    &format!("{from} to {to}"),
                );
            }
        }
    }
    // Beyond the range: low bits, as in C; NaN is 0.
    let cases = [f32::NAN, -1.0, 300.0, -129.7, 3e9, f32::INFINITY];
    for to in [DType::U8, DType::I8, DType::I32, DType::U64, DType::Bool] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[6]);
        let y = builder.node(Op::Cast(Cast { to }), &[x]);
        check(&builder.finish(&[y]), &[("x", Tensor::f32(&[6], &cases))], 0.0, &format!("float32 to {to}"));
    }
}

#[test]
fn choices() {
    let mut random = Random(9);
    for dtype in DType::ALL {
        let mut builder = GraphBuilder::new();
        let condition = builder.input("condition", DType::Bool, &[4, 1]);
        let a = builder.input("a", dtype, &[2, 4, 6]);
        let b = builder.input("b", dtype, &[6]);
        let (a, _) = seen(&mut builder, a, &[2, 4, 6], 0);
        let y = builder.node(Op::Where(Where), &[condition, a, b]);
        let inputs = [
            ("condition", random.tensor(DType::Bool, &[4, 1])),
            ("a", random.tensor(dtype, &[2, 4, 6])),
            ("b", random.tensor(dtype, &[6])),
        ];
        check(&builder.finish(&[y]), &inputs, 0.0, &format!("{dtype}"));
    }
}

/// Indices within ± `extent`.
fn indices(random: &mut Random, dtype: DType, shape: &[usize], extent: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<i64> =
        (0..count).map(|_| (random.next() % (2 * extent) as u64) as i64 - extent as i64).collect();
    Tensor::of_integers(dtype, shape, &values)
}

#[test]
fn elements_by_index() {
    let mut random = Random(10);
    for (index, dtype) in DType::ALL.into_iter().enumerate() {
        let kind = if index.is_multiple_of(2) { DType::I64 } else { DType::I32 };
        let way = index % 2;
        for axis in [0_isize, 1, -1] {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", dtype, &[3, 4, 6]);
            let (x, shape) = seen(&mut builder, x, &[3, 4, 6], way);
            let extent = shape[if axis < 0 { 2 } else { axis as usize }];
            let i = builder.input("i", kind, &[2, 5]);
            let j = builder.input("j", kind, &[2, 2, 3]);
            let y = builder.node(Op::Gather(Gather { axis }), &[x, i]);
            let z = builder.node(Op::GatherElements(GatherElements { axis }), &[x, j]);
            let inputs = [
                ("x", random.tensor(dtype, &[3, 4, 6])),
                ("i", indices(&mut random, kind, &[2, 5], extent)),
                ("j", indices(&mut random, kind, &[2, 2, 3], extent)),
            ];
            check(&builder.finish(&[y, z]), &inputs, 0.0, &format!("{dtype} along {axis}"));
        }
        for (batch_dims, rows, count) in [(0, &[5][..], 2), (1, &[3, 2], 1), (1, &[3, 2], 2), (0, &[2], 3)] {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", dtype, &[3, 4, 6]);
            let shape = [rows, &[count]].concat();
            let i = builder.input("i", kind, &shape);
            let y = builder.node(Op::GatherNd(GatherNd { batch_dims }), &[x, i]);
            let inputs =
                [("x", random.tensor(dtype, &[3, 4, 6])), ("i", indices(&mut random, kind, &shape, 3))];
            check(&builder.finish(&[y]), &inputs, 0.0, &format!("{dtype} {batch_dims} {rows:?} {count}"));
        }
        for axes in [&[0][..], &[1], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2]] {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", dtype, &[3, 4, 6]);
            let (x, _) = seen(&mut builder, x, &[3, 4, 6], way);
            let names = ["i", "j", "k"];
            let shapes = [&[2, 5][..], &[5], &[2, 1]];
            let mut operands = vec![x];
            let mut inputs = vec![("x", random.tensor(dtype, &[3, 4, 6]))];
            for at in 0..axes.len() {
                operands.push(builder.input(names[at], kind, shapes[at]));
                inputs.push((names[at], indices(&mut random, kind, shapes[at], 3)));
            }
            let y = builder.node(Op::Index(Index { axes: axes.to_vec() }), &operands);
            check(&builder.finish(&[y]), &inputs, 0.0, &format!("{dtype} axes {axes:?}"));
        }
    }
}

/// Six axes are indexed by one command; seven are refused, and named.
#[test]
fn as_many_axes_are_indexed_as_a_command_has() {
    let mut random = Random(12);
    for count in [6, 7] {
        let shape = [2, 1, 3, 2, 1, 2, 2];
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::I32, &shape);
        let i = builder.input("i", DType::I64, &[4, count]);
        let y = builder.node(Op::GatherNd(GatherNd { batch_dims: 0 }), &[x, i]);
        let graph = builder.finish(&[y]);
        if count == 7 {
            let error = Session::new(graph, &SessionOptions::default()).expect_err("seven axes").to_string();
            assert!(error.contains("more than six indexed axes"), "{error}");
            continue;
        }
        let at: Vec<i64> = (0..4 * count).map(|at| random.below(shape[at % count]) as i64).collect();
        let inputs = [("x", random.tensor(DType::I32, &shape)), ("i", Tensor::i64(&[4, count], &at))];
        check(&graph, &inputs, 0.0, "six axes");
    }
}

#[test]
fn an_index_outside_is_an_error() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[3, 2]);
    let i = builder.input("i", DType::I64, &[1]);
    let y = builder.node(Op::Gather(Gather { axis: 0 }), &[x, i]);
    let mut session = Session::new(builder.finish(&[y]), &SessionOptions::default()).expect("a session");
    let x = Tensor::f32(&[3, 2], &[0.0; 6]).to_bytes();
    let mut run = |index: i64| {
        let bytes = index.to_le_bytes();
        let operands = [
            TensorRef { dtype: DType::F32, shape: &[3, 2], bytes: &x },
            TensorRef { dtype: DType::I64, shape: &[1], bytes: &bytes },
        ];
        session.run(&operands).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(run(-3), Ok(()));
    for index in [3, -4, i64::MAX, i64::MIN] {
        let error = run(index).expect_err("an index outside");
        assert!(error.contains("outside"), "{error}");
    }
}

#[test]
fn first_elements_in_order() {
    let mut random = Random(11);
    for (index, dtype) in NUMBERS.into_iter().chain([DType::F16, DType::F64]).enumerate() {
        for (axis, k) in [(0_isize, 2), (1, 5), (-1, 4), (-1, 1)] {
            let index_dtype = if index.is_multiple_of(2) { DType::I64 } else { DType::I32 };
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", dtype, &[3, 5, 4]);
            let k_value = builder.constant(&Tensor::i64(&[1], &[k]));
            let op =
                TopK { axis, largest: (index + k as usize).is_multiple_of(2), sorted: true, index_dtype };
            let y = builder.node_with(Op::TopK(op), &[Some(x), Some(k_value)], 2);
            check(
                &builder.finish(&y),
                &[("x", random.tensor(dtype, &[3, 5, 4]))],
                0.0,
                &format!("{dtype} {op:?} {k}"),
            );
        }
    }
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[5]);
    let k = builder.constant(&Tensor::i64(&[1], &[5]));
    let op = TopK { axis: 0, largest: false, sorted: true, index_dtype: DType::I64 };
    let y = builder.node_with(Op::TopK(op), &[Some(x), Some(k)], 2);
    let got =
        run(&builder.finish(&y[1..]), &[("x", Tensor::f32(&[5], &[f32::NAN, 2.0, -1.0, f32::NAN, 2.0]))]);
    assert_eq!(got, [Tensor::i64(&[5], &[2, 1, 4, 0, 3])]);
}

/// A network in half precision computes in f32 between what it stores.
#[test]
fn half_precision_networks() {
    let mut random = Random(12);
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F16, &[1, 3, 8, 8]);
    let weights = builder.constant(&random.tensor(DType::F16, &[4, 3, 3, 3]));
    let conv = builder.conv(&[x, weights], 1, 1, 1);
    let relu = builder.unary(UnaryKind::Relu, conv);
    let transposed = builder.node(Op::Transpose(Transpose { perm: vec![0, 2, 3, 1] }), &[relu]);
    let y = builder.node(Op::Reduce(Reduce::along(ReduceKind::Mean, &[-1])), &[transposed]);
    let half = builder.finish(&[y]);
    let input = random.tensor(DType::F16, &[1, 3, 8, 8]);
    let got = run(&half, &[("x", input.clone())]);
    assert_eq!((got[0].dtype(), &got[0].shape[..]), (DType::F16, &[1, 8, 8, 1][..]));

    let mut single = half.clone();
    for value in &mut single.values {
        if let Some(constant) = &value.constant
            && constant.dtype() == DType::F16
        {
            let tensor = Tensor::of_constant(constant);
            let wide = Tensor::of_floats(DType::F32, &tensor.shape, &tensor.reals()).to_constant();
            value.constant = Some(wide);
            value.dtype = Some(DType::F32);
        } else if value.dtype == Some(DType::F16) {
            value.dtype = Some(DType::F32);
        }
    }
    let wide = Tensor::of_floats(DType::F32, &input.shape, &input.reals());
    let expected = interpret(&single, &[("x", wide)]);
    for (got, expected) in got[0].reals().into_iter().zip(expected[0].reals()) {
        assert!((got - expected).abs() <= 2e-3 * expected.abs().max(1.0), "{got} {expected}");
    }
}

#[test]
fn borders_that_repeat_what_lies_beside_them() {
    let mut random = Random(21);
    for round in 0..120_usize {
        let rank = 1 + round % 4;
        let shape: Vec<usize> = (0..rank).map(|_| 2 + (random.next() % 4) as usize).collect();
        let dtype = [DType::F32, DType::U8, DType::I16, DType::I64][round / 4 % 4];
        let mode = [PadMode::Reflect, PadMode::Edge][round % 2];
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", dtype, &shape);
        let (seen, dims) = seen(&mut builder, x, &shape, round / 2 % 2);
        // A mirror shows at most all but the edge.
        let amounts: Vec<i64> = (0..2 * rank)
            .map(|at| (random.next() % if mode == PadMode::Edge { 7 } else { dims[at % rank] as u64 }) as i64)
            .collect();
        let pads = builder.constant(&Tensor::i64(&[2 * rank], &amounts));
        let y = builder.node(Op::Pad(Pad { mode }), &[seen, pads]);
        let graph = builder.finish_inferred(&[y]);
        let input = random.tensor(dtype, &shape);
        check(&graph, &[("x", input)], 0.0, &format!("{mode:?} of {dims:?} by {amounts:?}, {dtype}"));
    }
}
