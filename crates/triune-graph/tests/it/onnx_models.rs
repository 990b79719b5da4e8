//! Real networks are read, bound and inferred, and have the output shapes that ONNX Runtime 1.31 gives them.
//!
//! The models are not part of the sources: `TRIUNE_TEST_DATA` names the folder that holds `models/onnx`,
//! `refdata/topologies` and `resnets`; without it a folder `shared` beside the repository is tried.

use std::path::{Path, PathBuf};

use triune_graph::{Dim, Graph, Op, format::onnx, infer::infer, passes};
use triune_testing::first_test_data;

/// Model, batch where the model leaves it open, and what ONNX Runtime gave for it.
type Row = (&'static str, usize, &'static [(&'static str, &'static [usize])]);

#[rustfmt::skip]
const EXPECTED: &[Row] = &[
    ("efficientnet_b0_224x224", 1, &[("648", &[1, 1000])]),
    ("mlperftiny_resnet8_int8_qdq", 1, &[("output", &[1, 10])]),
    ("mlperftiny_resnet8_int8_qdq", 3, &[("output", &[3, 10])]),
    ("mnist8_f32", 1, &[("Plus214_Output_0", &[1, 10])]),
    ("mobilenet_v2_224x224", 1, &[("536", &[1, 1000])]),
    ("mobilenetv2_int8_qdq", 1, &[("output", &[1, 1001])]),
    ("mobilenetv2_int8_qdq", 3, &[("output", &[3, 1001])]),
    ("resnet18_224x224", 1, &[("191", &[1, 1000])]),
    ("resnet18_f32", 1, &[("output", &[1, 1000])]),
    ("resnet18_f32", 3, &[("output", &[3, 1000])]),
    ("resnet18_u8s8_qdq", 1, &[("output", &[1, 1000])]),
    ("resnet18_u8s8_qdq", 3, &[("output", &[3, 1000])]),
    ("resnet50_224x224", 1, &[("495", &[1, 1000])]),
    ("resnet50_b4_224x224", 1, &[("495", &[4, 1000])]),
    ("resnet50_f32", 1, &[("output", &[1, 1000])]),
    ("resnet50_f32", 3, &[("output", &[3, 1000])]),
    ("resnet50_u8s8_qdq", 1, &[("output", &[1, 1000])]),
    ("resnet50_u8s8_qdq", 3, &[("output", &[3, 1000])]),
    ("se_resnet34_224x224", 1, &[("503", &[1, 1000])]),
    ("squeezenet1_1_224x224", 1, &[("117", &[1, 1000])]),
    ("squeezenet_f32", 1, &[("softmaxout_1", &[1, 1000, 1, 1])]),
    ("squeezenet_f32", 3, &[("softmaxout_1", &[3, 1000, 1, 1])]),
    ("squeezenet_u8s8_qdq", 1, &[("softmaxout_1", &[1, 1000, 1, 1])]),
    ("squeezenet_u8s8_qdq", 3, &[("softmaxout_1", &[3, 1000, 1, 1])]),
    ("ultraface_f32", 1, &[("scores", &[1, 4420, 2]), ("boxes", &[1, 4420, 4])]),
    ("ultraface_s8s8_qdq", 1, &[("scores", &[1, 4420, 2]), ("boxes", &[1, 4420, 4])]),
    ("ultraface_u8s8_qdq", 1, &[("scores", &[1, 4420, 2]), ("boxes", &[1, 4420, 4])]),
    ("wide_resnet50_224x224", 1, &[("495", &[1, 1000])]),
    ("yolov5s_640x640", 1, &[("610", &[1, 255, 80, 80]), ("611", &[1, 255, 40, 40]), ("612", &[1, 255, 20, 20])]),
    ("yolov8n_cls_224x224", 1, &[("158", &[1, 1000]), ("onnx::Softmax_157", &[1, 1000])]),
    ("yolov8s_640x640", 1, &[("321", &[1, 64, 80, 80]), ("328", &[1, 80, 80, 80]), ("335", &[1, 64, 40, 40]), ("342", &[1, 80, 40, 40]), ("349", &[1, 64, 20, 20]), ("356", &[1, 80, 20, 20])]),
    ("yolox_nano_f32", 1, &[("output", &[1, 3549, 85])]),
    ("yolox_nano_u8s8_qdq", 1, &[("output", &[1, 3549, 85])]),
    ("yolox_nano_u8s8_qdq", 3, &[("output", &[3, 3549, 85])]),
    ("yolox_s_640x640", 1, &[("812", &[1, 4, 80, 80]), ("813", &[1, 1, 80, 80]), ("814", &[1, 80, 80, 80]), ("835", &[1, 4, 40, 40]), ("836", &[1, 1, 40, 40]), ("837", &[1, 80, 40, 40]), ("858", &[1, 4, 20, 20]), ("859", &[1, 1, 20, 20]), ("860", &[1, 80, 20, 20])]),
];

fn find(model: &str) -> Option<PathBuf> {
    let [a, b, c] =
        ["models/onnx", "refdata/topologies", "resnets"].map(|folder| format!("{folder}/{model}.onnx"));
    first_test_data(&[&a, &b, &c])
}

fn bound(path: &Path, batch: usize) -> Graph {
    let mut graph = onnx::read(path).expect("a readable model");
    let shapes: Vec<(String, Vec<usize>)> = graph
        .inputs
        .iter()
        .map(|&id| {
            let value = graph.value(id);
            let extent = |dim: &Dim| match dim {
                Dim::Fixed(extent) => *extent,
                Dim::Symbol(_) => batch,
            };
            (value.name.clone(), value.shape.iter().flatten().map(extent).collect())
        })
        .collect();
    let shapes: Vec<(&str, &[usize])> =
        shapes.iter().map(|(name, dims)| (name.as_str(), dims.as_slice())).collect();
    graph.bind(&shapes).expect("fitting shapes");
    graph
}

fn outputs(graph: &Graph) -> Vec<(String, Vec<usize>)> {
    let output = |&id| {
        let value = graph.value(id);
        (value.name.clone(), value.fixed_shape().expect("an inferred shape").to_vec())
    };
    graph.outputs.iter().map(output).collect()
}

fn for_each_model(mut check: impl FnMut(&str, Graph, Vec<(String, Vec<usize>)>)) {
    let mut found = 0;
    for &(model, batch, expected) in EXPECTED {
        let Some(path) = find(model) else { continue };
        found += 1;
        let expected = expected.iter().map(|(name, dims)| ((*name).into(), dims.to_vec())).collect();
        check(&format!("{model}, batch {batch}"), bound(&path, batch), expected);
    }
    if found < EXPECTED.len() {
        println!("skipped {} models that are not there", EXPECTED.len() - found);
    }
}

#[test]
fn shapes_are_those_of_onnx_runtime() {
    for_each_model(|model, mut graph, expected| {
        infer(&mut graph).unwrap_or_else(|error| panic!("{model}: {error}"));
        assert_eq!(outputs(&graph), expected, "{model}");
    });
}

#[test]
fn folding_keeps_shapes_and_leaves_no_shape_arithmetic() {
    for_each_model(|model, mut graph, expected| {
        passes::fold_constants(&mut graph).unwrap_or_else(|error| panic!("{model}: {error}"));
        passes::fold_batch_norm(&mut graph).unwrap();
        passes::dead_code(&mut graph).unwrap();
        infer(&mut graph).unwrap_or_else(|error| panic!("{model}: {error}"));
        assert_eq!(outputs(&graph), expected, "{model}");
        for node in &graph.nodes {
            let left = matches!(
                node.op,
                Op::ShapeOf(_)
                    | Op::Gather(_)
                    | Op::Unsqueeze(_)
                    | Op::Flatten(_)
                    | Op::Identity(_)
                    | Op::Clip(_)
                    | Op::ConstantOfShape(_)
                    | Op::BatchNormalization(_)
            );
            assert!(!left, "{model}: {} '{}' is left", node.op.name(), node.name);
        }
    });
}

#[test]
fn prepared_networks_keep_their_outputs() {
    for_each_model(|model, mut graph, expected| {
        passes::prepare(&mut graph).unwrap_or_else(|error| panic!("{model}: {error}"));
        assert_eq!(outputs(&graph), expected, "{model}");
        let prepared = graph.clone();
        passes::prepare(&mut graph).unwrap();
        assert_eq!(graph.nodes.len(), prepared.nodes.len(), "{model}: a second round finds more");
    });
}

#[test]
fn written_networks_read_the_same() {
    for_each_model(|model, mut graph, _| {
        infer(&mut graph).unwrap();
        passes::dead_code(&mut graph).unwrap();
        // What may be given instead of constants is not written.
        graph.defaults.clear();
        if graph.nodes.iter().any(|node| matches!(&node.op, Op::Softmax(softmax) if softmax.flatten)) {
            return;
        }
        let bytes = onnx::write(&graph).unwrap_or_else(|error| panic!("{model}: {error}"));
        let read = onnx::read_bytes(bytes, None).unwrap_or_else(|error| panic!("{model}: {error}"));
        assert!(read == graph, "{model}: differs after a round trip");
    });
}
