//! What programs are made of: which operators have commands, which constants are kept, what is said of it to people.

use crate::common;
use crate::common::{compiled, lowered, mnemonics};
use triune_compiler::{Error, Outline, OutlineBuilder, OutlineNode, OutlineValue, Program, Residency};
use triune_device::Command;
use triune_graph::{
    Graph, Op,
    ops::{
        AutoPad, Binary, BinaryKind, Concat, Epilogue, Flatten, Gather, GatherElements, GatherNd, Gemm,
        GlobalPool, Identity, Index, MatMul, Pool, PoolKind, Reduce, ReduceKind, Reshape, Slice, Softmax,
        Split, Squeeze, Transpose, Unary, UnaryKind,
    },
};
use triune_kernels::Error as KernelError;
use triune_memory::residency::Policy;
use triune_tensor::{DType, Shape};
use triune_testing::{GraphBuilder, Tensor};

const REAL: DType = DType::F32;

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::f32(shape, &vec![0.0; shape.iter().product()])
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::i64(&[values.len()], values)
}

/// The commands of one operator on the first of some inputs, before its result is copied to the border.
fn own_commands(op: Op, shape: &[usize], operands: &[Tensor], results: usize) -> Vec<&'static str> {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", REAL, shape);
    // Not on the border itself, which is row-major.
    let x = builder.unary(UnaryKind::Exp, x);
    let mut inputs = vec![Some(x)];
    inputs.extend(operands.iter().map(|tensor| Some(builder.constant(tensor))));
    let made = builder.node_with(op, &inputs, results);
    let graph = builder.finish_inferred(&made);
    let lowered = lowered(&graph).expect("an operator with commands");
    let [first, last] = lowered.spans[1].map(|at| at as usize);
    let own: Vec<_> = lowered.commands.iter().take(last).skip(first).collect();
    mnemonics(&own)
}

#[test]
fn movements_are_views_where_strides_allow_it() {
    let transpose = |perm: &[usize]| Op::Transpose(Transpose { perm: perm.to_vec() });
    let reshape = || Op::Reshape(Reshape { allow_zero: false });
    let gather = Op::Gather(Gather { axis: 1 });
    let image = [1, 4, 6, 5];
    let slices = [ints(&[1]), ints(&[4]), ints(&[2]), ints(&[2])];
    let none: [&str; 0] = [];
    for (op, shape, operands, results, expected) in [
        (transpose(&[0, 2, 3, 1]), &image[..], vec![], 1, &none[..]),
        (Op::Slice(Slice), &image, slices.to_vec(), 1, &none),
        (Op::Split(Split { axis: 1, parts: None }), &image, vec![ints(&[1, 3])], 2, &none),
        (reshape(), &[6, 5], vec![ints(&[2, 3, 5])], 1, &none),
        (Op::Flatten(Flatten { axis: 1 }), &[6, 5, 2], vec![], 1, &none),
        (Op::Squeeze(Squeeze), &[6, 1, 2], vec![ints(&[1])], 1, &none),
        // One index is a slice, few are copies, many are looked up.
        (gather.clone(), &[2, 20], vec![Tensor::i64(&[], &[-3])], 1, &none),
        (gather.clone(), &[2, 20], vec![ints(&[3, 0, -1])], 1, &["copy"; 3]),
        (gather.clone(), &[2, 20], vec![ints(&[1; 8])], 1, &["copy"; 8]),
        (gather, &[2, 20], vec![ints(&[1; 9])], 1, &["take"]),
        (Op::Concat(Concat { axis: 0 }), &[6, 5], vec![zeros(&[2, 5])], 1, &["copy"; 2]),
    ] {
        let what = format!("{op:?} of {shape:?}");
        assert_eq!(own_commands(op, shape, &operands, results), expected, "{what}");
    }
}

/// Feature maps have channels last: what takes them apart otherwise costs a copy, what does not costs none.
#[test]
fn reshapes_of_feature_maps() {
    let convolved = |op: Op, operands: &[Tensor]| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", REAL, &[1, 4, 6, 5]);
        let weights = builder.constant(&zeros(&[8, 4, 1, 1]));
        let x = builder.conv(&[x, weights], 1, 0, 1);
        let mut inputs = vec![x];
        inputs.extend(operands.iter().map(|tensor| builder.constant(tensor)));
        let y = builder.node(op, &inputs);
        let lowered = lowered(&builder.finish_inferred(&[y])).expect("commands");
        let [first, last] = lowered.spans[1].map(|at| at as usize);
        let own: Vec<_> = lowered.commands.iter().take(last).skip(first).collect();
        mnemonics(&own)
    };
    let reshape = || Op::Reshape(Reshape { allow_zero: false });
    assert_eq!(convolved(reshape(), &[ints(&[1, 8, 30])]), [""; 0]);
    assert_eq!(convolved(reshape(), &[ints(&[1, 240])]), ["copy"]);
    assert_eq!(convolved(Op::Transpose(Transpose { perm: vec![0, 2, 3, 1] }), &[]), [""; 0]);
    assert_eq!(convolved(Op::Softmax(Softmax { axis: 1, flatten: false, log: false }), &[]), ["fsoftmax"]);
    assert_eq!(
        convolved(Op::Softmax(Softmax { axis: 1, flatten: true, log: false }), &[]),
        ["copy", "fsoftmax"]
    );
    assert_eq!(convolved(Op::Reduce(Reduce::along(ReduceKind::Sum, &[1])), &[]), ["reduce"]);
}

/// What is joined of planes stays so, unless something that reads feature maps comes of it: then pixels are joined, once.
#[test]
fn planes_become_feature_maps_for_who_reads_them() {
    let joined = |behind: &[(Op, Vec<Tensor>)]| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", REAL, &[1, 4, 6, 5]);
        let mut y = builder.node(Op::Concat(Concat { axis: 1 }), &[x, x]);
        for (op, operands) in behind {
            let mut inputs = vec![y];
            inputs.extend(operands.iter().map(|tensor| builder.constant(tensor)));
            y = builder.node(op.clone(), &inputs);
        }
        let lowered = lowered(&builder.finish_inferred(&[y])).expect("commands");
        let commands: Vec<_> = lowered.commands.iter().collect();
        let Some(Command::Copy(first)) = commands.first() else { panic!("no copy") };
        // Whether the first one writes channels one beside the other.
        let pixels = first.dst_strides.iter().zip(first.dims).any(|(&stride, dim)| dim == 4 && stride == 4);
        (pixels, mnemonics(&commands).join(" "))
    };
    let exp = || (Op::Unary(Unary { kind: UnaryKind::Exp }), vec![]);
    let add = || {
        (
            Op::Binary(Binary { kind: BinaryKind::Add, epilogue: Epilogue::default() }),
            vec![zeros(&[1, 8, 6, 5])],
        )
    };
    let pool = || (Op::GlobalPool(GlobalPool { kind: PoolKind::Max }), vec![]);
    let window = || {
        let pool = Pool {
            kind: PoolKind::Max,
            kernel: [2, 2],
            stride: [2, 2],
            dilation: [1, 1],
            pad: [0; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        };
        (Op::Pool(Box::new(pool)), vec![])
    };
    let softmax = || (Op::Softmax(Softmax { axis: 3, flatten: false, log: false }), vec![]);
    for (behind, pixels, commands) in [
        (vec![], false, "copy copy"),
        (vec![exp(), add()], false, "copy copy funary fbinary"),
        (vec![softmax()], false, "copy copy fsoftmax"),
        // Who reads it in between wants rows, and there they stay.
        (vec![softmax(), pool()], false, "copy copy fsoftmax gpool"),
        (vec![pool()], true, "copy copy gpool"),
        // A window slides over planes as well.
        (vec![window()], false, "copy copy pool"),
        (vec![exp(), window(), exp()], false, "copy copy funary pool funary"),
        (vec![window(), pool()], true, "copy copy pool gpool"),
        (vec![exp(), pool()], true, "copy copy funary gpool"),
        (vec![add(), exp(), pool()], true, "copy copy fbinary funary gpool"),
    ] {
        assert_eq!(joined(&behind), (pixels, commands.to_owned()));
    }
}

/// Small pieces are kept once, large ones as often as they come; each on a boundary of its own.
#[test]
fn equal_constants_are_kept_once() {
    let pieces = |sizes: &[usize], same: bool| {
        let mut builder = GraphBuilder::new();
        let mut made = Vec::new();
        for (at, &size) in sizes.iter().enumerate() {
            let x = builder.input(&format!("x{at}"), REAL, &[size]);
            let value = if same { 2.0 } else { at as f32 };
            let c = builder.constant(&Tensor::f32(&[size], &vec![value; size]));
            made.push(builder.binary(BinaryKind::Mul, x, c));
        }
        let lowered = lowered(&builder.finish_inferred(&made)).expect("products");
        assert!(lowered.constants.len().is_multiple_of(64));
        lowered.pieces
    };
    assert_eq!(pieces(&[3, 3], true), [[0, 12]]);
    assert_eq!(pieces(&[3, 3], false), [[0, 12], [64, 12]]);
    assert_eq!(pieces(&[16, 17, 3], false), [[0, 64], [64, 68], [192, 12]]);
    // 4096 bytes are small, one element more is not.
    assert_eq!(pieces(&[1024, 1024], true), [[0, 4096]]);
    assert_eq!(pieces(&[1025, 1025], true), [[0, 4100], [4160, 4100]]);
}

/// A small network: a convolution, a pool, a product.
fn network() -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", REAL, &[2, 3, 6, 5]);
    let weights = builder.constant(&zeros(&[4, 3, 3, 2]));
    let y = builder.conv(&[x, weights], 1, 0, 1);
    let y = builder.pool(PoolKind::Max, y, 2, 1, 0);
    let y = builder.node(Op::GlobalPool(GlobalPool::AVERAGE), &[y]);
    let y = builder.node(Op::Flatten(Flatten { axis: 1 }), &[y]);
    let matrix = builder.constant(&zeros(&[4, 7]));
    let y = builder.node(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[y, matrix]);
    let y = builder.unary(UnaryKind::Exp, y);
    builder.finish(&[y])
}

#[test]
fn outlines_name_and_count() {
    let (program, outline) = compiled(&network(), false).expect("a program");
    let kinds: Vec<(&str, Option<u64>)> =
        outline.nodes.iter().map(|node| (node.kind, node.operations)).collect();
    assert_eq!(
        kinds,
        [
            // A product with its sum is two.
            ("Conv", Some(2 * (2 * 4 * 4 * 4) * (3 * 3 * 2))),
            ("MaxPool", Some((2 * 4 * 3 * 3) * 4)),
            ("GlobalAveragePool", Some(2 * 4 * 3 * 3)),
            ("Reshape", None),
            ("Gemm", Some(2 * (2 * 7) * 4)),
            ("Exp", Some(2 * 7)),
        ]
    );
    // Every tensor once, in the order in which operators name them.
    let values: Vec<(&str, bool)> =
        outline.values.iter().map(|value| (value.name.as_str(), value.constant)).collect();
    assert_eq!(values[..3], [("x", false), ("constant1", true), ("node0_0", false)]);
    assert_eq!(outline.values[2].shape, Shape::from([2, 4, 4, 4]));
    assert_eq!(outline.values[2].dtype, REAL);
    assert_eq!((&*outline.nodes[1].inputs, &*outline.nodes[1].outputs), (&[2][..], &[3][..]));
    // Commands belong to the operators that have any.
    let names: Vec<(&str, &str)> =
        program.operators.iter().map(|each| (each.name.as_str(), &*each.kind)).collect();
    assert_eq!(names[1..4], [("node1", "MaxPool"), ("node2", "GlobalAveragePool"), ("node4", "Gemm")]);
    for operator in &program.operators {
        for command in operator.first..operator.last {
            assert_eq!(program.operator_of(command), Some(operator));
        }
    }
    let behind = program.operators.last().expect("operators").last;
    assert_eq!(program.operator_of(behind), None);
}

#[test]
fn products_are_counted_by_their_inner_extent() {
    let count = |op: Op, a: &[usize], b: &[usize]| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("a", REAL, a);
        let z = builder.constant(&zeros(b));
        let y = builder.node(op, &[x, z]);
        let graph = builder.finish_inferred(&[y]);
        Outline::of(&graph).nodes[0].operations
    };
    let gemm = |trans_a| {
        Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, trans_a, trans_b: false, epilogue: Epilogue::default() })
    };
    assert_eq!(count(gemm(false), &[2, 5], &[5, 3]), Some(2 * 6 * 5));
    assert_eq!(count(gemm(true), &[5, 2], &[5, 3]), Some(2 * 6 * 5));
    let matmul = || Op::MatMul(MatMul { epilogue: Epilogue::default() });
    assert_eq!(count(matmul(), &[4, 2, 5], &[4, 5, 3]), Some(2 * 24 * 5));
}

#[test]
fn outlines_of_parts_become_one() {
    let value = |name: &str| OutlineValue {
        name: name.into(),
        dtype: REAL,
        shape: Shape::from([2]),
        constant: false,
    };
    let [a, b, c, d] = ["a", "b", "c", "d"].map(value);
    let node = |name: &str, inputs: &[usize], outputs: &[usize], operations| OutlineNode {
        name: name.into(),
        kind: "Add",
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        operations,
    };
    let part = Outline {
        values: vec![c.clone(), b.clone(), d.clone()],
        nodes: vec![node("second", &[1, 0], &[2], Some(5))],
    };
    let mut builder = OutlineBuilder::default();
    builder.add("first", "Add", &[a.clone(), b.clone()], &[c.clone(), b.clone()]);
    builder.append(&part);
    builder.add("third", "Add", std::slice::from_ref(&d), &[]);
    let expected = Outline {
        values: vec![a, b, c, d],
        nodes: vec![
            node("first", &[0, 1], &[2, 1], None),
            node("second", &[1, 2], &[3], Some(5)),
            node("third", &[3], &[], None),
        ],
    };
    assert_eq!(builder.finish(), expected);
}

/// An error of a command is one of its operator, and tells axes as the operator's operand has them.
#[test]
fn errors_of_commands_name_operators() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", REAL, &[3, 4]);
    let indices = builder.input("i", DType::I64, &[2]);
    let x = builder.unary(UnaryKind::Exp, x);
    let y = builder.node(Op::Gather(Gather { axis: 1 }), &[x, indices]);
    let (program, _) = compiled(&builder.finish(&[y]), true).expect("a program");
    let gather = program.operators.iter().find(|each| each.kind == "Gather").expect("a gather");
    assert_eq!(gather.axes, [1]);
    let error = |index: usize, axis: usize| triune_device::Error::Kernel {
        index,
        mnemonic: "take",
        source: KernelError::Index { operand: "indices", index: 9, axis, extent: 4 },
    };
    let blamed = |first: u32, error| match program.blame(first, error) {
        Error::Node { node, op, source } => Some((node, op, source.to_string())),
        _ => None,
    };
    let at = gather.first as usize;
    let (node, op, source) = blamed(0, error(at, 0)).expect("a node");
    assert_eq!((&*node, &*op), ("node1", "Gather"));
    assert!(source.contains("axis 1"), "{source}");
    // The same command of a part that begins further on, and axes that no operand has.
    assert_eq!(blamed(gather.first, error(0, 0)).expect("a node").0, "node1");
    assert!(blamed(0, error(at, 5)).expect("a node").2.contains("axis 5"));
    assert_eq!(blamed(0, error(at - 1, 0)).expect("a node").0, "node0");
    // Commands of nobody, and errors of no command.
    assert_eq!(blamed(0, error(1000, 0)), None);
    assert_eq!(blamed(u32::MAX, error(at, 0)), None);
    assert_eq!(blamed(0, triune_device::Error::HostMemory(triune_tensor::OutOfMemory { bytes: 5 })), None);
}

/// Which axes of their operand operators index, counted from the front.
#[test]
fn operators_know_the_axes_that_they_index() {
    let axes = |op: Op, indices: &[&[usize]]| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", REAL, &[3, 4, 5]);
        let mut operands = vec![x];
        for (at, shape) in indices.iter().enumerate() {
            operands.push(builder.input(&format!("i{at}"), DType::I64, shape));
        }
        let y = builder.node(op, &operands);
        let (program, _) = compiled(&builder.finish(&[y]), true).expect("a program");
        program.operators[0].axes.clone()
    };
    assert_eq!(axes(Op::Gather(Gather { axis: -1 }), &[&[2]]), [2]);
    assert_eq!(axes(Op::GatherElements(GatherElements { axis: 1 }), &[&[3, 4, 5]]), [1]);
    assert_eq!(axes(Op::GatherNd(GatherNd { batch_dims: 1 }), &[&[3, 2]]), [1, 2]);
    assert_eq!(axes(Op::GatherNd(GatherNd { batch_dims: 0 }), &[&[2, 1]]), [0]);
    assert_eq!(axes(Op::Index(Index { axes: vec![0, 2] }), &[&[2], &[2]]), [0, 2]);
    assert!(axes(Op::Unary(Unary { kind: UnaryKind::Exp }), &[]).is_empty());
}

/// Large constants of the model's own lie in segments that other programs have, too; what a pass made does not, nor what is small.
#[test]
fn large_constants_of_the_model_are_tables() {
    let mut builder = GraphBuilder::new();
    let values: Vec<f32> = (0..1 << 14).map(|at| at as f32).collect();
    let [small, large] = [100, 1 << 14].map(|rows| builder.constant(&Tensor::f32(&[rows], &values[..rows])));
    let at = builder.input("at", DType::I64, &[2]);
    let extents = builder.constant(&ints(&[1 << 7, 1 << 7]));
    let made = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[large, extents]);
    let turned = builder.node(Op::Transpose(Transpose { perm: vec![1, 0] }), &[made]);
    let taken: Vec<_> = [small, large, turned, large, made]
        .into_iter()
        .map(|table| builder.node(Op::Gather(Gather { axis: 0 }), &[table, at]))
        .collect();
    let graph = builder.finish(&taken);
    let host = triune_device::DeviceSpec::builtin("host").expect("the host");
    let own = graph.value(large).constant.as_ref().expect("a constant").bytes();
    let library = triune_device::Library::beside([own]);
    let (program, _) = triune_compiler::compile_host(
        graph.clone(),
        &host,
        true,
        Some(&library),
        triune_compiler::PlanOptions::default().search,
    )
    .expect("a program");
    let places: Vec<_> = program.tables.iter().map(|table| (table.as_ptr(), table.len())).collect();
    assert_eq!(places, [(own.as_ptr(), 1 << 16)], "one for every view of it");
    assert!((1 << 16..2 << 16).contains(&program.constants.len()), "the small and the turned one");
    let (program, _) = compiled(&graph, true).expect("a program");
    assert!(program.tables.is_empty() && program.constants.len() > 2 << 16);
}

/// Programs end; what stands on the border twice is copied there.
#[test]
fn outputs_are_copied_where_they_cannot_be_made() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", REAL, &[2, 3]);
    let y = builder.unary(UnaryKind::Exp, x);
    let z = builder.node(Op::Transpose(Transpose { perm: vec![1, 0] }), &[y]);
    let (program, _) = compiled(&builder.finish(&[y, y, z, x]), true).expect("a program");
    let commands = common::commands(&program);
    assert_eq!(mnemonics(&commands), ["funary", "copy", "copy", "copy"]);
    assert!(matches!(commands.last(), Some(Command::End(_))));
    let last = program.operators.last().expect("copies");
    assert_eq!((&*last.name, last.first, last.last), ("outputs", 1, 4));
    let inputs = [Tensor::f32(&[2, 3], &[0.0; 6])];
    assert_eq!(common::run(&program, &inputs)[2], Tensor::f32(&[3, 2], &[1.0; 6]));
    assert_eq!(program.scratch_bytes, 0);
    assert_eq!(Program::FIRST_IO, 4);
}

/// Segments are counted in 10 bits, of which the border has those between the program's own and the library's.
#[test]
fn a_program_has_1019_inputs_and_outputs() {
    let many = |inputs: usize| {
        let mut builder = GraphBuilder::new();
        let all: Vec<_> = (0..inputs).map(|at| builder.input(&format!("x{at}"), REAL, &[1])).collect();
        let y = builder.node(Op::Concat(Concat { axis: 0 }), &all);
        lowered(&builder.finish_inferred(&[y]))
    };
    assert!(many(1018).is_ok());
    let error = many(1019).map(drop).expect_err("one too many").to_string();
    assert!(error.contains("more than 1019 inputs, outputs and tables"), "{error}");
}

/// Of what might stay in the near memory at best, the share that does not.
#[test]
fn gaps_are_shares_of_the_bound() {
    let gap = |value, bound| {
        Residency { policy: Policy::Exact, capacity: 1 << 20, value, bound, peak: 0, lower_bound: 0 }.gap()
    };
    assert_eq!((gap(30, 40), gap(40, 40), gap(0, 40), gap(0, 0)), (0.25, 0.0, 1.0, 0.0));
}

/// A result that an output only sees under other extents is written there, axes of one element or not; one that others read, too, is
/// copied.
#[test]
fn results_under_other_extents_are_outputs() {
    let made = |dims: &[i64], twice: bool| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", REAL, &[1, 6, 5]);
        let y = builder.unary(UnaryKind::Exp, x);
        let dims = builder.constant(&ints(dims));
        let seen = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[y, dims]);
        let mut results = vec![builder.node(Op::Identity(Identity), &[seen])];
        if twice {
            results.push(builder.unary(UnaryKind::Exp, y));
        }
        let lowered = lowered(&builder.finish_inferred(&results)).expect("commands");
        mnemonics(&lowered.commands.iter().collect::<Vec<_>>()).join(" ")
    };
    assert_eq!(made(&[30], false), "funary");
    assert_eq!(made(&[3, 10, 1, 1], false), "funary");
    assert_eq!(made(&[1, 2, 15], false), "funary");
    assert_eq!(made(&[1, 2, 15], true), "funary funary copy");
}

/// A product that one sum or product alone reads is made with it; one that others read, or that is given, is not.
#[test]
fn products_are_made_with_what_reads_them() {
    let made = |then: BinaryKind, given: bool, other: &[usize]| {
        let mut builder = GraphBuilder::new();
        let [a, b] = ["a", "b"].map(|name| builder.input(name, REAL, &[3, 5]));
        let c = builder.input("c", REAL, other);
        let binary = |kind| Op::Binary(Binary { kind, epilogue: Epilogue::default() });
        let product = builder.node(binary(BinaryKind::Mul), &[a, b]);
        let y = builder.node(binary(then), &[c, product]);
        let results = if given { vec![y, product] } else { vec![y] };
        let lowered = lowered(&builder.finish_inferred(&results)).expect("commands");
        mnemonics(&lowered.commands.iter().collect::<Vec<_>>()).join(" ")
    };
    assert_eq!(made(BinaryKind::Add, false, &[3, 5]), "ftriple");
    assert_eq!(made(BinaryKind::Mul, false, &[1, 5]), "ftriple");
    assert_eq!(made(BinaryKind::Add, true, &[3, 5]), "fbinary fbinary");
    assert_eq!(made(BinaryKind::Sub, false, &[3, 5]), "fbinary fbinary");
    // Of more extents than the product has: it is made once.
    assert_eq!(made(BinaryKind::Add, false, &[2, 3, 5]), "fbinary fbinary");
}

/// An image's planes that are scaled and shifted stay planes, one image as several.
#[test]
fn scaled_planes_stay_where_they_lie() {
    for images in [1, 2] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", REAL, &[images, 4, 6, 8]);
        let [scale, shift] = ["scale", "shift"].map(|name| builder.input(name, REAL, &[4, 1, 1]));
        let binary = |kind| Op::Binary(Binary { kind, epilogue: Epilogue::default() });
        let scaled = builder.node(binary(BinaryKind::Mul), &[x, scale]);
        let y = builder.node(binary(BinaryKind::Add), &[scaled, shift]);
        let lowered = lowered(&builder.finish_inferred(&[y])).expect("commands");
        assert_eq!(mnemonics(&lowered.commands.iter().collect::<Vec<_>>()).join(" "), "ftriple");
    }
}
