//! What the ONNX writer makes, the reader reads as the same graph.

use crate::growth::{Growth, KINDS};
use proptest::prelude::*;
use triune_graph::{
    format::onnx::{read_bytes, write},
    infer::infer,
    ops::{
        Gather, GatherElements, GatherNd, Op, PostOp, ScatterElements, ScatterKind, ScatterNd, ShapeOf,
        Unary, UnaryKind, Weigh,
    },
    passes,
};
use triune_tensor::{DType, Requantize};
use triune_testing::GraphBuilder;

fn steps() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0..KINDS, any::<u8>()), 1..12)
}

proptest! {
    #[test]
    fn read_of_write_is_the_graph(steps in steps(), bound in any::<bool>()) {
        let mut growth = Growth::new(!bound);
        for (kind, a) in steps {
            growth.step(kind, a);
        }
        let mut graph = growth.finish();
        if bound {
            infer(&mut graph).expect("steps that fit");
        }
        passes::dead_code(&mut graph).unwrap();
        let bytes = write(&graph).expect("operators that ONNX has");
        let read = read_bytes(bytes, None).expect("what was written");
        prop_assert_eq!(read, graph);
    }

    #[test]
    fn dead_code_and_extract_agree(steps in steps()) {
        let mut growth = Growth::new(false);
        for (kind, a) in steps {
            growth.step(kind, a);
        }
        let mut graph = growth.finish();
        infer(&mut graph).unwrap();
        let mut alive = graph.extract(&graph.inputs, &graph.outputs).unwrap();
        passes::dead_code(&mut graph).unwrap();
        prop_assert_eq!(&alive, &graph);
        infer(&mut alive).unwrap();
        prop_assert_eq!(alive, graph);
    }
}

/// Sums of one tap and of several, with and without factors, with indices for all images and for each: they are written as several
/// operators, and read as one, whose products are not rounded.
#[test]
fn weighted_sums_are_read_as_they_were() {
    for (taps, images, with_factors) in [(1, 1, false), (4, 1, true), (3, 2, true), (2, 2, false)] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[2, 3, 5]);
        let indices = builder.input("indices", DType::I32, &[images, taps, 7]);
        let mut operands = vec![x, indices];
        if with_factors {
            operands.push(builder.input("factors", DType::F32, &[images, taps, 7]));
        }
        let y = builder.node(Op::Weigh(Weigh), &operands);
        let graph = builder.finish_inferred(&[y]);
        let read = read_bytes(write(&graph).expect("other operators"), None).expect("what was written");
        assert_eq!((&read.inputs, read.nodes.len()), (&graph.inputs, 1), "{taps} taps, {images} images");
        assert_eq!((&read.nodes[0].op, &read.nodes[0].inputs), (&graph.nodes[0].op, &graph.nodes[0].inputs));
    }
}

/// Operators with every attribute at another value than its default, and at that.
#[test]
fn attributes_of_gathers_and_scatters_are_written() {
    let mut ops: Vec<(Op, [&[usize]; 2])> = Vec::new();
    for &kind in ScatterKind::ALL {
        for axis in [0, 1, -1] {
            ops.push((Op::ScatterElements(ScatterElements { axis, kind }), [&[2, 3], &[2, 3]]));
        }
        ops.push((Op::ScatterNd(ScatterNd { kind }), [&[2, 1], &[2, 4]]));
    }
    for batch_dims in [0, 1] {
        ops.push((Op::GatherNd(GatherNd { batch_dims }), [&[3, 1], &[]]));
    }
    for axis in [0, 1] {
        ops.push((Op::Gather(Gather { axis }), [&[2], &[]]));
        ops.push((Op::GatherElements(GatherElements { axis }), [&[2, 3], &[]]));
    }
    for (op, [indices, updates]) in ops {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[3, 4]);
        let mut operands = vec![x, builder.input("indices", DType::I64, indices)];
        if !updates.is_empty() {
            operands.push(builder.input("updates", DType::F32, updates));
        }
        let y = builder.node(op.clone(), &operands);
        let mut graph = builder.finish(&[y]);
        infer(&mut graph).expect("operands that fit");
        let bytes = write(&graph).expect("ONNX has it");
        let read = read_bytes(bytes, None).expect("what was written");
        assert_eq!(read.nodes[0].op, op);
        assert_eq!(read, graph);
    }
}

#[test]
fn a_part_of_a_shape_needs_a_newer_version_than_the_whole() {
    let written = |start: isize, end: Option<isize>| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[2, 3, 4]);
        let shape = builder.node(Op::ShapeOf(ShapeOf { start, end }), &[x]);
        let bytes = write(&builder.finish(&[shape])).expect("ONNX has it");
        let has = |name: &str| bytes.windows(name.len()).any(|word| word == name.as_bytes());
        [has("start"), has("end")]
    };
    assert_eq!(written(0, None), [false; 2]);
    assert_eq!(written(1, None), [true, false]);
    assert_eq!(written(0, Some(2)), [true; 2]);
}

#[test]
fn what_onnx_lacks_is_an_error() {
    let mut growth = Growth::new(false);
    growth.step(0, 0);
    let mut graph = growth.finish();
    let Op::Conv(conv) = &mut graph.nodes[0].op else { panic!("no convolution") };
    conv.epilogue.post_ops.push(PostOp::Activation(UnaryKind::Relu));
    let error = write(&graph).unwrap_err().to_string();
    assert!(error.contains("Conv0") && error.contains("epilogue"), "{error}");
    graph.nodes[0].op = Op::Unary(Unary { kind: UnaryKind::ErfInv });
    assert!(write(&graph).is_err());
}

/// A device's factors are those of its host's parts, too.
#[test]
fn what_factors_are_is_written() {
    for requantize in [Requantize::Float, Requantize::Fixed] {
        let mut b = GraphBuilder::new();
        let x = b.input("x", DType::F32, &[2, 3]);
        let y = b.unary(UnaryKind::Relu, x);
        let mut graph = b.finish_inferred(&[y]);
        graph.requantize = requantize;
        let read = read_bytes(write(&graph).expect("a sound graph"), None).expect("its own file");
        assert_eq!(read.requantize, requantize);
        assert_eq!(read.extract(&read.inputs, &read.outputs).expect("all of it").requantize, requantize);
    }
}

#[test]
fn parts_are_cut_out() {
    let mut growth = Growth::new(false);
    for kind in [0, 3, 2, 11] {
        growth.step(kind, 0);
    }
    let mut graph = growth.finish();
    infer(&mut graph).unwrap();
    let value = |name: &str| graph.find_value(name).unwrap();
    let (inner, end) = (value("Conv0:0"), value("Add2:0"));
    let mut part = graph.extract(&[inner], &[end]).unwrap();
    let names: Vec<&str> = part.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["Relu1", "Add2"]);
    assert_eq!(part.values.len(), 4);
    infer(&mut part).unwrap();
    assert_eq!(part.value(part.outputs[0]).fixed_shape(), graph.value(end).fixed_shape());
    let error = graph.extract(&[end], &[inner]).unwrap_err().to_string();
    assert!(error.contains("'Conv0:0'") && error.contains("'image'"), "{error}");
}
