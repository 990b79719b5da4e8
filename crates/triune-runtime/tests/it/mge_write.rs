//! Networks written as MegEngine models and read back: the same numbers.

use proptest::prelude::*;
use triune_graph::{
    Graph, Op,
    format::{mge, onnx},
    infer,
    ops::{self, BinaryKind, PoolKind, ReduceKind, UnaryKind},
};
use triune_runtime::{Session, SessionOptions, TensorRef};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Tensor, interpret, test_data};

/// The outputs for made-up inputs of `shapes`, in the order of the graph's inputs by name.
fn run(graph: &Graph, shapes: &[(String, Vec<usize>)]) -> Vec<Vec<f32>> {
    let mut session = Session::new(graph.clone(), &SessionOptions::default()).expect("a session");
    let bytes: Vec<Vec<u8>> = shapes
        .iter()
        .map(|(_, shape)| {
            let count: usize = shape.iter().product();
            (0..count).flat_map(|index| ((index * 37 % 101) as f32 / 50.0 - 1.0).to_le_bytes()).collect()
        })
        .collect();
    let names: Vec<String> = session.inputs().iter().map(|input| input.name.clone()).collect();
    let operands: Vec<TensorRef<'_>> = names
        .iter()
        .map(|name| {
            let index = shapes.iter().position(|(own, _)| own == name).expect("an input of this name");
            TensorRef { dtype: DType::F32, shape: &shapes[index].1, bytes: &bytes[index] }
        })
        .collect();
    let outputs = session.run(&operands).unwrap_or_else(|error| panic!("{error}"));
    let floats = |bytes: &[u8]| {
        bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
    };
    outputs.iter().map(|output| floats(&output.bytes)).collect()
}

/// The names and extents of the variables that a file declares, which other readers than this one go by.
fn declared(file: &[u8]) -> Vec<(String, Vec<usize>)> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes")) as usize;
    let follow = |at: usize| at + word(at);
    let field = |table: usize, slot: usize| {
        let fields = (table as i64 - i64::from(word(table) as u32 as i32)) as usize;
        let entry = fields + 4 + 2 * slot;
        let offset = if 2 * slot + 4 < usize::from(file[fields]) { usize::from(file[entry]) } else { 0 };
        follow(table + offset)
    };
    let variables = field(follow(4), 3);
    let variable = |index: usize| {
        let table = follow(variables + 4 + 4 * index);
        let (name, shape) = (field(table, 0), field(table, 1));
        let name = String::from_utf8(file[name + 4..name + 4 + word(name)].to_vec()).expect("UTF-8");
        (name, (0..word(shape)).map(|axis| word(shape + 4 + 4 * axis)).collect())
    };
    (0..word(variables)).map(variable).collect()
}

/// Whether the extents that a file declares are those that follow from its operators.
fn declares_what_follows(file: &[u8], mut graph: Graph, shapes: &[(String, Vec<usize>)]) {
    let inputs: Vec<(&str, &[usize])> = shapes.iter().map(|(name, shape)| (&**name, &**shape)).collect();
    graph.bind(&inputs).expect("its inputs");
    infer::infer(&mut graph).unwrap_or_else(|error| panic!("{error}"));
    let mut compared = 0;
    for (name, extents) in declared(file) {
        if let Some(shape) = graph.find_value(&name).and_then(|id| graph.value(id).fixed_shape()) {
            assert_eq!(extents, *shape, "the variable '{name}'");
            compared += 1;
        }
    }
    assert!(compared >= graph.outputs.len(), "{compared} variables");
}

/// Writes, reads and compares; gives the largest difference in units of the largest magnitude.
fn round_trip(graph: &Graph, shapes: &[(String, Vec<usize>)]) -> f32 {
    let extents: Vec<Vec<usize>> = shapes.iter().map(|(_, shape)| shape.clone()).collect();
    let bytes = mge::write(graph, &extents).unwrap_or_else(|error| panic!("{error}"));
    let model =
        mge::read(bytes.clone(), &mge::ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(model.warnings.is_empty());
    assert_eq!(model.default_shapes, extents);
    declares_what_follows(&bytes, model.graph.clone(), shapes);
    let (want, got) = (run(graph, shapes), run(&model.graph, shapes));
    let mut worst = 0.0_f32;
    assert_eq!(want.len(), got.len());
    for (want, got) in want.iter().zip(&got) {
        assert_eq!(want.len(), got.len());
        let largest = want.iter().fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        for (want, got) in want.iter().zip(got) {
            worst = worst.max((want - got).abs() / largest);
        }
    }
    worst
}

fn file_round_trips(file: &str, shape: &[usize]) {
    let Some(path) = test_data(&format!("models/onnx/{file}")) else { return };
    let graph = onnx::read(&path).unwrap();
    let name = graph.value(graph.inputs[0]).name.clone();
    let worst = round_trip(&graph, &[(name, shape.to_vec())]);
    // Biases are additions in the file, which changes how sums are rounded.
    assert!(worst <= 1e-5, "{}: {worst}", path.display());
}

#[test]
fn pools_with_a_partial_window_at_one_end_are_refused() {
    for (extent, pad, kind) in [
        (7, [0; 4], PoolKind::Max),
        (8, [1, 1, 0, 1], PoolKind::Average { count_include_pad: false }),
        (8, [1, 0, 1, 0], PoolKind::Average { count_include_pad: false }),
    ] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[1, 2, extent, 8]);
        let (kernel, stride, dilation) = ([2; 2], [2; 2], [1; 2]);
        let pool = ops::Pool {
            kind,
            kernel,
            stride,
            dilation,
            pad,
            auto_pad: ops::AutoPad::Explicit,
            ceil_mode: extent == 7,
        };
        let y = builder.node(Op::Pool(Box::new(pool)), &[x]);
        let graph = builder.finish(&[y]);
        let wrote = mge::write(&graph, &[vec![1, 2, extent, 8]]);
        let symmetric = pad[0] == pad[2] && pad[1] == pad[3];
        if extent == 7 || !symmetric {
            let error = wrote.expect_err("it has a partial window").to_string();
            assert!(error.contains("partial windows at one end"), "{error}");
        } else {
            wrote.unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn mnist() {
    file_round_trips("mnist8_f32.onnx", &[1, 1, 28, 28]);
}

#[test]
fn squeezenet() {
    file_round_trips("squeezenet_f32.onnx", &[1, 3, 224, 224]);
}

#[test]
fn ultraface() {
    file_round_trips("ultraface_f32.onnx", &[1, 3, 240, 320]);
}

#[test]
fn yolox() {
    file_round_trips("yolox_nano_f32.onnx", &[1, 3, 416, 416]);
}

/// One operator of each kind that the format has, with attributes that change something.
#[derive(Clone, Debug)]
enum Step {
    Conv { outputs: usize, kernel: usize, stride: usize, pad: [usize; 4], grouped: bool },
    Pool { max: bool, pad: usize },
    Unary(UnaryKind),
    Scale(BinaryKind, f32),
    Both(BinaryKind),
    Reduce(ReduceKind, isize),
    Transpose,
}

fn step() -> impl Strategy<Value = Step> {
    let unary = prop::sample::select(vec![
        UnaryKind::Relu,
        UnaryKind::LeakyRelu(0.1),
        UnaryKind::Clip([-0.5, 0.75]),
        UnaryKind::Clip([0.0, 6.0]),
        UnaryKind::Sigmoid,
        UnaryKind::Silu,
        UnaryKind::HardSwish,
        UnaryKind::HardSigmoid { alpha: 0.2, beta: 0.4 },
        UnaryKind::Tanh,
        UnaryKind::Abs,
        UnaryKind::Neg,
        UnaryKind::Floor,
        UnaryKind::Gelu,
    ]);
    let binary = || {
        prop::sample::select(vec![
            BinaryKind::Add,
            BinaryKind::Sub,
            BinaryKind::Mul,
            BinaryKind::Min,
            BinaryKind::Max,
        ])
    };
    let kinds = vec![ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min];
    prop_oneof![
        (1..5_usize, 1..4_usize, 1..3_usize, prop::array::uniform4(0..2_usize), any::<bool>()).prop_map(
            |(outputs, kernel, stride, pad, grouped)| Step::Conv { outputs, kernel, stride, pad, grouped }
        ),
        (any::<bool>(), 0..2_usize).prop_map(|(max, pad)| Step::Pool { max, pad }),
        unary.prop_map(Step::Unary),
        (binary(), -2.0..2.0_f32).prop_map(|(kind, value)| Step::Scale(kind, value)),
        binary().prop_map(Step::Both),
        (prop::sample::select(kinds), -2..0_isize).prop_map(|(kind, axis)| Step::Reduce(kind, axis)),
        Just(Step::Transpose),
    ]
}

fn grow(steps: &[Step]) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut dims = vec![2, 4, 8, 6];
    let mut x = builder.input("x", DType::F32, &dims);
    for step in steps {
        let (op, mut inputs): (Op, Vec<_>) = match *step {
            Step::Conv { outputs, kernel, stride, pad, grouped } => {
                if dims[2].min(dims[3]) < kernel {
                    continue;
                }
                let groups = if grouped { dims[1] } else { 1 };
                let outputs = outputs * groups;
                let count = outputs * dims[1] / groups * kernel * kernel;
                let weights = builder.constant(&Tensor::f32(
                    &[outputs, dims[1] / groups, kernel, kernel],
                    &(0..count).map(|index| ((index * 29 % 23) as f32 - 11.0) / 20.0).collect::<Vec<_>>(),
                ));
                let size = |axis: usize| (dims[axis + 2] + pad[axis] + pad[axis + 2] - kernel) / stride + 1;
                dims = vec![dims[0], outputs, size(0), size(1)];
                let conv = ops::Conv {
                    kernel: None,
                    stride: [stride; 2],
                    dilation: [1; 2],
                    pad,
                    auto_pad: ops::AutoPad::Explicit,
                    groups,
                    epilogue: ops::Epilogue::default(),
                };
                (Op::Conv(Box::new(conv)), vec![weights])
            }
            Step::Pool { max, pad } => {
                if dims[2].min(dims[3]) < 2 {
                    continue;
                }
                // Where the windows fit, there is no last one that does not.
                let ceil_mode = dims[2..4].iter().all(|extent| extent.is_multiple_of(2));
                for extent in &mut dims[2..4] {
                    *extent = (*extent + 2 * pad - 2) / 2 + 1;
                }
                let kind =
                    if max { PoolKind::Max } else { PoolKind::Average { count_include_pad: pad == 1 } };
                let pool = ops::Pool {
                    kind,
                    kernel: [2; 2],
                    stride: [2; 2],
                    dilation: [1; 2],
                    pad: [pad; 4],
                    auto_pad: ops::AutoPad::Explicit,
                    ceil_mode,
                };
                (Op::Pool(Box::new(pool)), vec![])
            }
            Step::Unary(kind) => (kind.into(), vec![]),
            Step::Scale(kind, value) => {
                let constant = builder.constant(&Tensor::f32(&[], &[value]));
                (kind.into(), vec![constant])
            }
            Step::Both(kind) => (kind.into(), vec![x]),
            Step::Reduce(kind, axis) => {
                dims[(axis + 4) as usize] = 1;
                (Op::Reduce(ops::Reduce::along(kind, &[axis])), vec![])
            }
            Step::Transpose => {
                dims.swap(2, 3);
                (Op::Transpose(ops::Transpose { perm: vec![0, 1, 3, 2] }), vec![])
            }
        };
        inputs.insert(0, x);
        x = builder.node(op, &inputs);
    }
    builder.finish(&[x])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn random_networks_round_trip(steps in prop::collection::vec(step(), 1..7)) {
        let graph = grow(&steps);
        let shapes = [("x".to_owned(), vec![2, 4, 8, 6])];
        prop_assert!(round_trip(&graph, &shapes) <= 1e-6);
    }
}

/// Parts from the front, from the back, backwards to the first element and up to one before it.
#[test]
fn slices_of_every_direction_round_trip() {
    let walks = [
        (0, i64::MAX, 2),
        (1, 5, 3),
        (-1, i64::MIN, -1),
        (-1, 0, -1),
        (4, i64::MIN, -2),
        (5, 1, -3),
        (1, -2, 1),
        (2, 2, 1),
        (0, 1, 5),
        (0, i64::MIN, -1),
    ];
    for (index, rows) in walks.into_iter().enumerate() {
        for columns in [walks[(index + 3) % walks.len()], (0, i64::MAX, 1)] {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", DType::F32, &[2, 7, 6]);
            let operand = |builder: &mut GraphBuilder, of: fn((i64, i64, i64)) -> i64| {
                builder.constant(&Tensor::i64(&[2], &[of(rows), of(columns)]))
            };
            let (start, end) = (operand(&mut builder, |walk| walk.0), operand(&mut builder, |walk| walk.1));
            let axes = builder.constant(&Tensor::i64(&[2], &[1, 2]));
            let step = operand(&mut builder, |walk| walk.2);
            let y = builder.node(Op::Slice(ops::Slice), &[x, start, end, axes, step]);
            let graph = builder.finish(&[y]);
            let bytes = mge::write(&graph, &[vec![2, 7, 6]]).unwrap_or_else(|error| panic!("{error}"));
            let model =
                mge::read(bytes, &mge::ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
            // By the interpreter: no device walks backwards.
            let ramp: Vec<f32> = (0_u8..84).map(f32::from).collect();
            let inputs = [("x", Tensor::f32(&[2, 7, 6], &ramp))];
            let [want, got] = [&graph, &model.graph].map(|graph| interpret(graph, &inputs).remove(0));
            assert_eq!((want.shape, want.data), (got.shape, got.data), "{rows:?} {columns:?}");
        }
    }
}
