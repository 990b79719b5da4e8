//! What the ONNX writer makes, the reader reads as the same graph.

mod growth;

use growth::{Growth, KINDS};
use proptest::prelude::*;
use triune_graph::{
    format::onnx::{read_bytes, write},
    infer::infer,
    ops::{Op, ShapeOf, Stage, Unary, UnaryKind},
    passes,
};
use triune_tensor::DType;
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
    conv.epilogue.stages.push(Stage::Activation(UnaryKind::Relu));
    let error = write(&graph).unwrap_err().to_string();
    assert!(error.contains("Conv0") && error.contains("epilogue"), "{error}");
    graph.nodes[0].op = Op::Unary(Unary { kind: UnaryKind::Silu });
    assert!(write(&graph).is_err());
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
