//! What operators of classical learning refuse: each row is a node of the domain `ai.onnx.ml` that is wrong in one way, and the error
//! names the node, the operator and the attribute.

use crate::learning_common::{doubles, texts};
use crate::onnx_common::{Message, float, floats, int, ints, node, tensor, tensor_attribute, text};
use triune_graph::{format::onnx::read_bytes, infer};

const F32: i64 = 1;
const I64: i64 = 7;
const STRING: i64 = 8;

fn modes(name: &str, values: &[u8]) -> Message {
    tensor_attribute(name, &tensor("", 2, &[values.len() as i64]).bytes(9, values))
}

/// A node of some operator set, an input, and what is said of it.
struct Row {
    opset: i64,
    op: &'static str,
    input: (i64, Vec<i64>),
    attributes: Vec<Message>,
    words: &'static str,
}

fn row(opset: i64, op: &'static str, dtype: i64, attributes: Vec<Message>, words: &'static str) -> Row {
    Row { opset, op, input: (dtype, vec![2, 3]), attributes, words }
}

impl Row {
    fn model(&self) -> Vec<u8> {
        let (dtype, dims) = &self.input;
        let shape = dims
            .iter()
            .fold(Message::default(), |shape, &dim| shape.message(1, &Message::default().int(1, dim)));
        let of = Message::default().message(1, &Message::default().int(1, *dtype).message(2, &shape));
        let results = if self.op.ends_with("Classifier") { &["y0", "y1"][..] } else { &["y0"] };
        let own = node(self.op, &["x"], results, &self.attributes).text(3, "it").text(7, "ai.onnx.ml");
        let graph = Message::default()
            .message(1, &own)
            .message(11, &Message::default().text(1, "x").message(2, &of))
            .message(12, &Message::default().text(1, "y0"));
        let imports = [("", 17), ("ai.onnx.ml", self.opset)];
        let file = Message::default().int(1, 8).message(7, &graph);
        let import = |file: Message, (domain, version): (&str, i64)| {
            file.message(8, &Message::default().text(1, domain).int(2, version))
        };
        imports.into_iter().fold(file, import).0
    }
}

fn check(rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for (index, row) in rows.into_iter().enumerate() {
        let result = read_bytes(row.model(), None).and_then(|mut graph| infer::infer(&mut graph));
        match result {
            Ok(()) => wrong.push(format!("{index}: {} is read", row.words)),
            Err(error) => {
                let text = error.to_string();
                let title = format!("node 'it' ({})", row.op);
                if !text.contains(&title) || !text.contains(row.words) {
                    wrong.push(format!("{index}: {} {}, but: {text}", row.op, row.words));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// A tree with one split over two leaves, with some attributes instead.
fn tree(instead: &[Message]) -> Vec<Message> {
    let own = [
        ints("nodes_treeids", &[4, 4, 4]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_featureids", &[1, 0, 0]),
        floats("nodes_values", &[0.5, 0.0, 0.0]),
        texts("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF"]),
        ints("nodes_truenodeids", &[1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 0]),
        int("n_targets", 2),
        ints("target_treeids", &[4, 4]),
        ints("target_nodeids", &[1, 2]),
        ints("target_ids", &[0, 1]),
        floats("target_weights", &[1.0, 2.0]),
    ];
    replaced(&own, instead)
}

/// Attributes, some instead of those of their names.
fn replaced(own: &[Message], instead: &[Message]) -> Vec<Message> {
    let name = |message: &Message| message.0[..2 + usize::from(message.0[1])].to_vec();
    let kept = own.iter().filter(|message| !instead.iter().any(|other| name(other) == name(message)));
    kept.chain(instead).map(|message| Message(message.0.clone())).collect()
}

#[test]
fn trees_that_do_not_hold_together() {
    let one = |instead: Message, words| row(3, "TreeEnsembleRegressor", F32, tree(&[instead]), words);
    check(vec![
        one(ints("nodes_nodeids", &[0, 1]), "'nodes_nodeids' has 2 elements; 3 are expected"),
        one(ints("nodes_nodeids", &[0, 2, 2]), "'nodes_nodeids', element 2: tree 4 has a node 2 already"),
        one(ints("nodes_truenodeids", &[9, 0, 0]), "'nodes_truenodeids', element 0: tree 4 has no node 9"),
        one(ints("nodes_falsenodeids", &[0, 0, 0]), "node 0 of tree 4 is its own ancestor"),
        one(ints("nodes_featureids", &[1 << 40, 0, 0]), "'nodes_featureids', element 0"),
        one(
            ints("nodes_featureids", &[3, 0, 0]),
            "'nodes_featureids' names feature 3, and the input has 3 columns",
        ),
        one(floats("nodes_values", &[f32::NAN, 0.0, 0.0]), "'nodes_values', element 0: NaN"),
        one(
            texts("nodes_modes", &["BRANCH_LEQ", "LEAF", "ROOT"]),
            "'nodes_modes', element 2: 'ROOT' is no mode",
        ),
        one(
            doubles("nodes_values_as_tensor", &[0.5, 0.0, 0.0]),
            "'nodes_values' and 'nodes_values_as_tensor'",
        ),
        one(ints("target_ids", &[0, 2]), "'target_ids', element 1: 2 is none of 2"),
        one(ints("target_ids", &[-1, 0]), "'target_ids', element 0: -1 is none of 2"),
        one(ints("target_treeids", &[5, 4]), "'target_nodeids', element 0: tree 5 has no node 1"),
        one(floats("target_weights", &[]), "'target_weights' has 0 elements; 2 are expected"),
        one(floats("base_values", &[1.0, 2.0, 3.0]), "'base_values' has 3 elements; none or 2 are expected"),
        one(int("n_targets", 0), "'n_targets' = 0"),
        one(int("n_targets", i64::MAX), "'n_targets' = 9223372036854775807"),
        one(text("aggregate_function", "MEDIAN"), "'aggregate_function' = 'MEDIAN'"),
        one(text("post_transform", "CUBE"), "'post_transform' = 'CUBE'"),
        one(
            ints("nodes_missing_value_tracks_true", &[1]),
            "'nodes_missing_value_tracks_true' has 1 elements",
        ),
        row(3, "TreeEnsembleRegressor", STRING, tree(&[]), "input 0 is of strings"),
        row(3, "TreeEnsembleRegressor", 2, tree(&[]), "an input of uint8"),
        row(
            3,
            "TreeEnsembleClassifier",
            F32,
            vec![],
            "'classlabels_int64s' and 'classlabels_strings' are missing",
        ),
    ]);
}

#[test]
fn trees_of_the_fifth_set_that_do_not_hold_together() {
    let own = [
        ints("tree_roots", &[0]),
        ints("nodes_featureids", &[0, 1]),
        doubles("nodes_splits", &[0.5, 1.5]),
        modes("nodes_modes", &[0, 6]),
        ints("nodes_truenodeids", &[1, 0]),
        ints("nodes_trueleafs", &[0, 1]),
        ints("nodes_falsenodeids", &[1, 2]),
        ints("nodes_falseleafs", &[1, 1]),
        ints("leaf_targetids", &[0, 0, 0]),
        doubles("leaf_weights", &[1.0, 2.0, 3.0]),
        doubles("membership_values", &[1.0, 2.0]),
    ];
    let one = |instead: Message, words| row(5, "TreeEnsemble", 11, replaced(&own, &[instead]), words);
    check(vec![
        one(ints("tree_roots", &[2]), "'tree_roots', element 0: 2 is none of 2 nodes"),
        one(ints("nodes_truenodeids", &[0, 0]), "node 0 is its own ancestor"),
        one(ints("nodes_truenodeids", &[2, 0]), "'nodes_truenodeids', element 0: 2 is none of 2 nodes"),
        one(ints("nodes_falsenodeids", &[1, 3]), "'nodes_falsenodeids', element 1: 3 is none of 3 leaves"),
        one(modes("nodes_modes", &[0, 7]), "'nodes_modes', element 1"),
        one(modes("nodes_modes", &[6, 6]), "'membership_values' has no set for node 1"),
        one(doubles("nodes_splits", &[f64::NAN, 0.0]), "'nodes_splits', element 0: NaN"),
        one(doubles("leaf_weights", &[1.0]), "'leaf_weights' has 1 elements; 3 are expected"),
        one(ints("leaf_targetids", &[0, 0, 1]), "'leaf_targetids', element 2: 1 is none of 1"),
        one(int("post_transform", 5), "'post_transform' = 5"),
        one(int("aggregate_function", -1), "'aggregate_function' = -1"),
        row(4, "TreeEnsemble", F32, vec![], "opset 4 does not have the operator, opset 5 is the first"),
    ]);
}

#[test]
fn attributes_that_do_not_fit() {
    let zipped = |keys: Vec<Message>, words| row(1, "ZipMap", F32, keys, words);
    check(vec![
        row(1, "Scaler", F32, vec![floats("scale", &[1.0])], "'offset' is missing"),
        row(
            1,
            "Scaler",
            F32,
            vec![floats("scale", &[1.0]), floats("offset", &[1.0, 2.0])],
            "'offset' has 2 elements",
        ),
        row(
            1,
            "Scaler",
            F32,
            vec![floats("scale", &[1.0; 2]), floats("offset", &[1.0; 2])],
            "for each of 3 columns",
        ),
        row(1, "Normalizer", F32, vec![text("norm", "L3")], "'norm' = 'L3'"),
        row(1, "Imputer", F32, vec![], "exactly one of both is expected"),
        row(
            1,
            "Imputer",
            F32,
            vec![ints("imputed_value_int64s", &[1])],
            "with attribute 'imputed_value_int64s'",
        ),
        row(
            1,
            "Imputer",
            I64,
            vec![ints("imputed_value_int64s", &[1, 2])],
            "'imputed_value_int64s' has 2 elements",
        ),
        row(1, "Binarizer", 2, vec![float("threshold", 0.5)], "an input of uint8"),
        row(
            1,
            "FeatureVectorizer",
            F32,
            vec![ints("inputdimensions", &[1, 2])],
            "'inputdimensions' has 2 elements",
        ),
        row(1, "LinearRegressor", F32, vec![], "'coefficients' is missing"),
        row(
            1,
            "LinearRegressor",
            F32,
            vec![floats("coefficients", &[1.0; 2])],
            "for 2 columns, and the input has 3",
        ),
        row(
            1,
            "LinearRegressor",
            F32,
            vec![floats("coefficients", &[1.0; 3]), int("targets", 2)],
            "a multiple of the 2",
        ),
        row(
            1,
            "LinearRegressor",
            F32,
            vec![floats("coefficients", &[1.0; 3]), floats("intercepts", &[0.0; 2])],
            "'intercepts' has 2",
        ),
        row(
            1,
            "LinearClassifier",
            F32,
            vec![floats("coefficients", &[1.0; 6]), floats("intercepts", &[0.0; 2])],
            "'classlabels_ints' has 0",
        ),
        row(2, "LabelEncoder", F32, vec![floats("keys_floats", &[1.0])], "'values_strings', 'values_int64s'"),
        row(
            2,
            "LabelEncoder",
            STRING,
            vec![floats("keys_floats", &[1.0]), ints("values_int64s", &[1])],
            "input 0 is of strings",
        ),
        row(
            2,
            "LabelEncoder",
            I64,
            vec![floats("keys_floats", &[1.0]), ints("values_int64s", &[1])],
            "its keys are of float32",
        ),
        row(
            2,
            "LabelEncoder",
            F32,
            vec![floats("keys_floats", &[1.0]), ints("values_int64s", &[1, 2])],
            "'values_int64s' has 2",
        ),
        row(
            2,
            "LabelEncoder",
            F32,
            vec![floats("keys_floats", &[1.0]), ints("keys_int64s", &[1])],
            "one of both is expected",
        ),
        row(
            1,
            "CategoryMapper",
            I64,
            vec![texts("cats_strings", &["a"]), ints("cats_int64s", &[])],
            "'cats_int64s' has 0",
        ),
        row(1, "OneHotEncoder", F32, vec![], "exactly one of both is expected"),
        row(1, "OneHotEncoder", F32, vec![texts("cats_strings", &["a"])], "input 0 is of numbers"),
        zipped(vec![], "exactly one of both is expected"),
        zipped(
            vec![ints("classlabels_int64s", &[1, 2, 1])],
            "'classlabels_int64s', element 2: the key is there",
        ),
        row(1, "DictVectorizer", F32, vec![ints("int64_vocabulary", &[1])], "input 0 is no map"),
        row(1, "CastMap", F32, vec![], "input 0 is no map"),
        row(1, "SVMRegressor", F32, vec![floats("coefficients", &[1.0])], "'rho' is missing"),
        row(
            1,
            "SVMRegressor",
            F32,
            vec![floats("coefficients", &[1.0; 2]), floats("rho", &[0.0])],
            "for 2 columns, and the input has 3",
        ),
        row(
            1,
            "SVMRegressor",
            F32,
            vec![floats("coefficients", &[1.0; 2]), floats("rho", &[0.0]), int("n_supports", 3)],
            "'coefficients' has 2",
        ),
        row(
            1,
            "SVMRegressor",
            F32,
            vec![floats("coefficients", &[1.0]), floats("rho", &[0.0]), floats("kernel_params", &[1.0])],
            "'kernel_params' has 1",
        ),
        row(
            1,
            "SVMClassifier",
            F32,
            vec![
                floats("coefficients", &[1.0]),
                floats("rho", &[0.0]),
                ints("classlabels_ints", &[1, 2]),
                ints("vectors_per_class", &[1]),
            ],
            "'vectors_per_class' has 1",
        ),
    ]);
}
