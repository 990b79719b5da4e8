//! Classical learning as ONNX writes it: what is read of a file that was written from a file is written as that one is.

use crate::learning_common::{doubles, texts};
use crate::onnx_common::{Message, float, floats, int, ints, node, tensor, tensor_attribute, text};
use triune_graph::{
    Graph, ValueKind,
    format::onnx::{read_bytes, write},
};

const F32: i64 = 1;
const I64: i64 = 7;
const STRING: i64 = 8;

fn reals(name: &str, values: &[f32]) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor_attribute(name, &tensor("", F32, &[values.len() as i64]).bytes(9, &bytes))
}

fn typed(dtype: i64) -> Message {
    let shape = ["N", "3"].iter().fold(Message::default(), |shape, dim| {
        let out = match dim.parse() {
            Ok(extent) => Message::default().int(1, extent),
            Err(_) => Message::default().text(2, dim),
        };
        shape.message(1, &out)
    });
    Message::default().message(1, &Message::default().int(1, dtype).message(2, &shape))
}

fn map_of(values: i64) -> Message {
    let scalar = Message::default().message(1, &Message::default().int(1, values));
    Message::default().message(5, &Message::default().int(1, STRING).message(2, &scalar))
}

/// A file of one node over `x`, of some operator set of classical learning.
fn file(opset: i64, op: &str, x: &Message, attributes: &[Message]) -> Vec<u8> {
    let results = if op.ends_with("Classifier") { &["y0", "y1"][..] } else { &["y0"] };
    let own = node(op, &["x"], results, attributes).text(3, "it").text(7, "ai.onnx.ml");
    let graph = Message::default().message(1, &own).text(2, "g");
    let graph = graph.message(11, &Message::default().text(1, "x").message(2, x));
    let graph =
        results.iter().fold(graph, |graph, name| graph.message(12, &Message::default().text(1, name)));
    let imports = [("", 17), ("ai.onnx.ml", opset)];
    let model = Message::default().int(1, 8).message(7, &graph);
    let import = |file: Message, (domain, version): (&str, i64)| {
        file.message(8, &Message::default().text(1, domain).int(2, version))
    };
    imports.into_iter().fold(model, import).0
}

/// The graph of a file, and that of what is written of it.
fn again(bytes: Vec<u8>) -> [Graph; 2] {
    let graph = read_bytes(bytes, None).expect("a file");
    let written = write(&graph).expect("operators that ONNX has");
    let read = read_bytes(written.clone(), None).expect("what was written");
    assert_eq!(write(&read).expect("the same operators"), written);
    let kinds = |graph: &Graph| graph.values.iter().map(|value| value.kind).collect::<Vec<ValueKind>>();
    assert_eq!(kinds(&graph), kinds(&read));
    [graph, read]
}

fn same(opset: i64, op: &str, x: &Message, attributes: &[Message]) {
    let [graph, read] = again(file(opset, op, x, attributes));
    assert_eq!(graph, read, "{op}");
}

/// The nodes of two trees; of the first, a node that nothing leads to.
fn trees(of: &str) -> Vec<Message> {
    vec![
        ints("nodes_treeids", &[0, 0, 0, 0, 0, 0, 1]),
        ints("nodes_nodeids", &[0, 1, 2, 3, 4, 5, 0]),
        ints("nodes_featureids", &[2, 0, 0, 1, 0, 0, 0]),
        texts("nodes_modes", &["BRANCH_LT", "LEAF", "BRANCH_EQ", "LEAF", "LEAF", "LEAF", "LEAF"]),
        floats("nodes_values", &[0.5, 0.0, 1.5, 0.0, 0.0, 0.0, 0.0]),
        ints("nodes_truenodeids", &[2, 0, 3, 0, 0, 0, 0]),
        ints("nodes_falsenodeids", &[1, 0, 4, 0, 0, 0, 0]),
        ints("nodes_missing_value_tracks_true", &[1, 0, 0, 0, 0, 0, 0]),
        ints(&format!("{of}_treeids"), &[0, 0, 0, 0, 0, 1]),
        ints(&format!("{of}_nodeids"), &[1, 1, 3, 4, 5, 0]),
        ints(&format!("{of}_ids"), &[0, 1, 1, 0, 1, 0]),
        floats(&format!("{of}_weights"), &[0.25, -1.0, 2.0, 0.125, 3.0, 4.0]),
    ]
}

#[test]
fn trees_are_written() {
    let x = typed(F32);
    let classes = [ints("classlabels_int64s", &[7, 9]), floats("base_values", &[0.5, 0.25])];
    again(file(3, "TreeEnsembleClassifier", &x, &[&trees("class")[..], &classes].concat()));
    let classes = [texts("classlabels_strings", &["a", "b"]), text("post_transform", "LOGISTIC")];
    let [_, read] = again(file(1, "TreeEnsembleClassifier", &x, &[&trees("class")[..], &classes].concat()));
    assert!(read.strings.find("b").is_some());
    let more = [int("n_targets", 2), text("aggregate_function", "MAX")];
    again(file(3, "TreeEnsembleRegressor", &x, &[&trees("target")[..], &more].concat()));
    // Over f64, and with weights of a single target, of which leaves have the sum.
    let mut wide = trees("target");
    wide[4] = doubles("nodes_values_as_tensor", &[0.1, 0.0, 1.5, 0.0, 0.0, 0.0, 0.0]);
    wide[11] = doubles("target_weights_as_tensor", &[0.1, -1.0, 2.0, 0.125, 3.0, 4.0]);
    wide[10] = ints("target_ids", &[0; 6]);
    again(file(3, "TreeEnsembleRegressor", &x, &wide));
    let mut single = trees("class");
    single[10] = ints("class_ids", &[0; 6]);
    single.push(ints("classlabels_int64s", &[7]));
    again(file(3, "TreeEnsembleClassifier", &x, &single));
}

#[test]
fn splits_and_leaves_apart_are_written() {
    let attributes = |targets: i64| {
        vec![
            int("n_targets", targets),
            int("aggregate_function", 3),
            int("post_transform", 2),
            // The second tree is a leaf.
            ints("tree_roots", &[0, 2]),
            ints("nodes_featureids", &[0, 1, 0]),
            tensor_attribute("nodes_modes", &tensor("", 2, &[3]).bytes(9, &[0, 6, 0])),
            reals("nodes_splits", &[0.5, 0.0, 0.0]),
            ints("nodes_truenodeids", &[1, 0, 2]),
            ints("nodes_falsenodeids", &[0, 1, 2]),
            ints("nodes_trueleafs", &[0, 1, 1]),
            ints("nodes_falseleafs", &[1, 1, 1]),
            reals("membership_values", &[3.0, 1.0, f32::NAN]),
            ints("leaf_targetids", &[0, targets - 1, 0]),
            reals("leaf_weights", &[0.25, -2.0, 8.0]),
        ]
    };
    for targets in [1, 2] {
        again(file(5, "TreeEnsemble", &typed(F32), &attributes(targets)));
    }
}

#[test]
fn support_vectors_are_written() {
    let x = typed(F32);
    let vectors = floats("support_vectors", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let parameters = floats("kernel_params", &[0.5, 0.25, 3.0]);
    for kernel in ["LINEAR", "POLY", "RBF", "SIGMOID"] {
        let common = [text("kernel_type", kernel), parameters.clone(), vectors.clone()];
        let own = [
            int("n_supports", 2),
            floats("coefficients", &[1.0, -1.0]),
            floats("rho", &[0.5]),
            int("one_class", 1),
        ];
        same(1, "SVMRegressor", &x, &[&common[..], &own].concat());
        let own = [
            ints("vectors_per_class", &[1, 1]),
            floats("coefficients", &[1.0, -1.0]),
            floats("rho", &[0.5]),
            floats("prob_a", &[2.0]),
            floats("prob_b", &[0.75]),
            ints("classlabels_ints", &[4, 5]),
            text("post_transform", "SOFTMAX"),
        ];
        same(1, "SVMClassifier", &x, &[&common[..], &own].concat());
    }
    let linear = [floats("coefficients", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), floats("rho", &[0.5])];
    same(1, "SVMRegressor", &x, &[floats("coefficients", &[1.0, 2.0, 3.0]), floats("rho", &[0.5])]);
    same(1, "SVMClassifier", &x, &[&linear[..], &[ints("classlabels_ints", &[1, 2])]].concat());
    again(file(
        1,
        "SVMClassifier",
        &x,
        &[&linear[..], &[texts("classlabels_strings", &["a", "b"])]].concat(),
    ));
}

#[test]
fn tables_are_written() {
    let (numbers, words) = (typed(I64), typed(STRING));
    let keys = ints("keys_int64s", &[1, 2]);
    same(
        2,
        "LabelEncoder",
        &numbers,
        &[keys.clone(), ints("values_int64s", &[3, 4]), int("default_int64", 9)],
    );
    same(
        2,
        "LabelEncoder",
        &numbers,
        &[keys, floats("values_floats", &[3.5, 4.0]), float("default_float", 1.5)],
    );
    let keys = texts("keys_strings", &["b", "a"]);
    again(file(
        2,
        "LabelEncoder",
        &words,
        &[keys, texts("values_strings", &["x", "b"]), text("default_string", "-")],
    ));
    let halves = tensor_attribute("keys_tensor", &tensor("", 6, &[1]).bytes(9, &[5, 0, 0, 0]));
    again(file(
        4,
        "LabelEncoder",
        &typed(6),
        &[halves, doubles("values_tensor", &[0.1]), doubles("default_tensor", &[0.2])],
    ));
    // Two older operators as the newer one.
    let pairs = [texts("cats_strings", &["a", "b"]), ints("cats_int64s", &[5, 6])];
    for x in [&numbers, &words] {
        again(file(1, "CategoryMapper", x, &pairs));
        again(file(1, "LabelEncoder", x, &[texts("classes_strings", &["a", "b"])]));
    }
    same(1, "OneHotEncoder", &words, &[texts("cats_strings", &["a", "b"]), int("zeros", 0)]);
    // The later of two equal categories has the place.
    same(1, "OneHotEncoder", &numbers, &[ints("cats_int64s", &[7, 8, 7])]);
}

#[test]
fn maps_are_written() {
    same(1, "ZipMap", &typed(F32), &[texts("classlabels_strings", &["a", "b", "c"])]);
    same(1, "ZipMap", &typed(F32), &[ints("classlabels_int64s", &[1, 2, 3])]);
    same(1, "DictVectorizer", &map_of(F32), &[texts("string_vocabulary", &["a", "b"])]);
    let numbered = Message::default().message(
        5,
        &Message::default()
            .int(1, I64)
            .message(2, &Message::default().message(1, &Message::default().int(1, STRING))),
    );
    again(file(
        1,
        "CastMap",
        &numbered,
        &[text("map_form", "SPARSE"), int("max_map", 4), text("cast_to", "TO_STRING")],
    ));
    again(file(1, "CastMap", &numbered, &[text("cast_to", "TO_INT64")]));
}
