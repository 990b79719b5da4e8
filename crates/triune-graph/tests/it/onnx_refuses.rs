//! What the ONNX reader refuses: each row is a model that is wrong in one way, and the error has the kind and the words for it.

use crate::onnx_common::{
    Message, Model, f32s, float, floats, i64s, int, ints, node, tensor, tensor_attribute, text, value,
};
use triune_graph::{Error, format::onnx::read_bytes};

const IMAGE: [&str; 4] = ["1", "4", "8", "6"];

/// What kind an error is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The bytes are no model.
    Malformed,
    /// It is of a version that is not read.
    Version,
    /// Its names do not fit together.
    Graph,
    /// A node is not supported.
    Unsupported,
}

fn kind(error: &Error) -> Option<Kind> {
    match error {
        Error::Malformed { format: "ONNX", .. } => Some(Kind::Malformed),
        Error::Version { format: "ONNX", .. } => Some(Kind::Version),
        Error::Graph(_) => Some(Kind::Graph),
        Error::Unsupported { .. } => Some(Kind::Unsupported),
        _ => None,
    }
}

/// A file, the kind of its error, and words of it.
type Row = (Vec<u8>, Kind, &'static [&'static str]);

fn check(rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for (index, (bytes, expected, words)) in rows.into_iter().enumerate() {
        match read_bytes(bytes, None) {
            Ok(_) => wrong.push(format!("{index}: {words:?} is read")),
            Err(error) => {
                let text = error.to_string();
                if kind(&error) != Some(expected) || !words.iter().all(|word| text.contains(word)) {
                    wrong.push(format!("{index}: {expected:?} {words:?}, but: {text}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// A file of these fields at its top.
fn file(fields: &[(u64, &Message)]) -> Vec<u8> {
    fields.iter().fold(Message::default(), |file, (field, message)| file.message(*field, message)).0
}

fn opset(version: i64) -> Message {
    Message::default().text(1, "").int(2, version)
}

/// A graph of x to y by nodes, with fields of its own besides.
fn graph(nodes: &[Message], more: &[(u64, &Message)]) -> Vec<u8> {
    let graph = nodes.iter().fold(Message::default(), |graph, node| graph.message(1, node));
    let graph = graph.message(11, &value("x", &["2"])).message(12, &Message::default().text(1, "y"));
    let graph = more.iter().fold(graph, |graph, (field, message)| graph.message(*field, message));
    file(&[(7, &graph), (8, &opset(13))])
}

fn relu() -> Message {
    node("Relu", &["x"], &["y"], &[])
}

#[test]
fn messages_that_are_damaged() {
    let empty = Message::default();
    let bytes = |bytes: &[u8]| bytes.to_vec();
    // Field 7 with a length, or with nothing behind it.
    check(vec![
        (bytes(&[]), Kind::Malformed, &["no import of the default operator set"]),
        (file(&[(8, &opset(13))]), Kind::Malformed, &["no graph"]),
        (file(&[(7, &empty)]), Kind::Malformed, &["no import of the default operator set"]),
        (file(&[(7, &empty), (7, &empty), (8, &opset(13))]), Kind::Malformed, &["two graphs"]),
        (bytes(&[0x3a]), Kind::Malformed, &["ends inside a field"]),
        (bytes(&[0x3a, 5, 0]), Kind::Malformed, &["a field of 5 bytes, but 1 are left"]),
        (
            bytes(&[0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Kind::Malformed,
            &["10 bytes"],
        ),
        (bytes(&[0x00, 0x00]), Kind::Malformed, &["field number 0"]),
        (bytes(&[0x3b]), Kind::Malformed, &["wire type 3 of field 7"]),
        (bytes(&[0x38, 1]), Kind::Malformed, &["message field has another wire type"]),
        (bytes(&[0x42, 2, 0x12, 0]), Kind::Malformed, &["an integer field has another wire type"]),
        (bytes(&[0x42, 3, 0x0a, 1, 0xff]), Kind::Malformed, &["not UTF-8"]),
        (Model::new(0, &IMAGE, &[relu()]).bytes(), Kind::Version, &["operator set 0,", "1 to 28"]),
        (Model::new(29, &IMAGE, &[relu()]).bytes(), Kind::Version, &["operator set 29,"]),
        (
            Model::new(i64::MIN, &IMAGE, &[relu()]).bytes(),
            Kind::Version,
            &["operator set -9223372036854775808"],
        ),
        (graph(&[relu()], &[(15, &empty)]), Kind::Malformed, &["sparse initializers"]),
        (graph(&[Message::default().text(3, "it")], &[]), Kind::Malformed, &["node 'it' has no operator"]),
        (graph(&[relu().message(5, &empty)], &[]), Kind::Malformed, &["an attribute has no name"]),
        (
            graph(&[relu().message(5, &Message::default().text(1, "a").int(20, 4))], &[]),
            Kind::Malformed,
            &["tensor attribute 'a' has no tensor"],
        ),
        (
            graph(&[relu().message(5, &Message::default().text(1, "a").int(2, 4))], &[]),
            Kind::Malformed,
            &["a float field has another wire type"],
        ),
        (
            graph(&[relu().message(5, &Message::default().text(1, "a").bytes(7, &[0; 7]))], &[]),
            Kind::Malformed,
            &["a broken length"],
        ),
        (
            graph(&[relu().message(5, &Message::default().text(1, "a").float(8, 1.0))], &[]),
            Kind::Malformed,
            &["a repeated integer field has another wire type"],
        ),
    ]);
}

#[test]
fn tensors_that_do_not_hold_together() {
    let with = |tensor: Message| graph(&[relu()], &[(5, &tensor)]);
    let external = |entries: &[(&str, &str)]| {
        let entry = |&(key, value): &(&str, &str)| Message::default().text(1, key).text(2, value);
        entries.iter().fold(tensor("w", 1, &[2]), |m, each| m.message(13, &entry(each))).int(14, 1)
    };
    check(vec![
        (with(tensor("w", 15, &[1])), Kind::Malformed, &["initializer 'w'", "element type 15"]),
        (with(tensor("w", 0, &[1])), Kind::Malformed, &["initializer 'w'", "element type 0"]),
        (with(tensor("w", 8, &[1])), Kind::Malformed, &["initializer 'w'", "does not fit 0 strings"]),
        (with(tensor("w", 8, &[1]).bytes(6, &[0xff])), Kind::Malformed, &["'w'", "string 0 is not UTF-8"]),
        (with(tensor("w", 8, &[1]).bytes(9, b"a")), Kind::Malformed, &["'w'", "strings lie in the field"]),
        (with(tensor("w", 1, &[-1])), Kind::Malformed, &["'w'", "a negative extent"]),
        (with(tensor("w", 1, &[1; 9])), Kind::Malformed, &["'w'", "9 dimensions, at most"]),
        (with(tensor("w", 1, &[2]).bytes(9, &[0; 7])), Kind::Malformed, &["'w'", "does not fit 7 bytes"]),
        (with(tensor("w", 1, &[2]).float(4, 1.0)), Kind::Malformed, &["'w'", "does not fit 4 bytes"]),
        (with(tensor("w", 1, &[1 << 62, 8]).bytes(9, &[])), Kind::Malformed, &["'w'", "does not fit"]),
        (with(tensor("w", 2, &[1]).int(5, 256)), Kind::Malformed, &["'w'", "out of the range of uint8"]),
        (with(tensor("w", 3, &[1]).int(5, 128)), Kind::Malformed, &["'w'", "out of the range of int8"]),
        (with(tensor("w", 3, &[1]).int(5, -129)), Kind::Malformed, &["'w'", "out of the range of int8"]),
        (with(tensor("w", 4, &[1]).int(5, 65_536)), Kind::Malformed, &["'w'", "out of the range of uint16"]),
        (with(tensor("w", 5, &[1]).int(5, 32_768)), Kind::Malformed, &["'w'", "out of the range of int16"]),
        (with(tensor("w", 6, &[1]).int(5, 1 << 31)), Kind::Malformed, &["'w'", "out of the range of int32"]),
        (with(tensor("w", 9, &[1]).int(5, 2)), Kind::Malformed, &["'w'", "out of the range of bool"]),
        (with(tensor("w", 10, &[1]).int(5, -1)), Kind::Malformed, &["'w'", "out of the range of float16"]),
        (
            with(tensor("w", 12, &[1]).int(11, 1 << 32)),
            Kind::Malformed,
            &["'w'", "out of the range of uint32"],
        ),
        (
            with(tensor("w", 1, &[1]).message(3, &Message::default()).bytes(9, &[0; 4])),
            Kind::Malformed,
            &["'w'", "segmented tensors"],
        ),
        (with(external(&[])), Kind::Malformed, &["'w'", "external data: no location"]),
        (
            with(external(&[("location", "w")])),
            Kind::Malformed,
            &["'w' lies beside the model's file", "from memory"],
        ),
        (with(tensor("", 1, &[1]).bytes(9, &[0; 4])), Kind::Graph, &["an initializer has no name"]),
        (
            graph(&[relu()], &[(5, &f32s("w", &[1], &[1.0])), (5, &f32s("w", &[1], &[1.0]))]),
            Kind::Graph,
            &["value 'w' is defined twice"],
        ),
        (
            graph(
                &[node("Constant", &[], &["k"], &[tensor_attribute("value", &tensor("", 99, &[]))]), relu()],
                &[],
            ),
            Kind::Malformed,
            &["node 'Constant_0' (Constant)", "element type 99"],
        ),
    ]);
}

#[test]
fn values_and_names_that_do_not_fit() {
    let declared = |kind: u64, inner: &Message| {
        let typed = Message::default().text(1, "z").message(2, &Message::default().message(kind, inner));
        graph(&[relu()], &[(11, &typed)])
    };
    let unary = |input, output| node("Relu", &[input], &[output], &[]);
    let of = |nodes: &[Message]| graph(nodes, &[]);
    check(vec![
        (declared(4, &Message::default()), Kind::Malformed, &["value 'z' is of a type of its own"]),
        (declared(5, &Message::default()), Kind::Malformed, &["value 'z' is of a type of its own"]),
        (declared(1, &Message::default().int(1, 15)), Kind::Malformed, &["value 'z'", "element type 15"]),
        (graph(&[relu()], &[(11, &value("", &["1"]))]), Kind::Graph, &["an input has no name"]),
        (graph(&[relu()], &[(11, &value("x", &["1"]))]), Kind::Graph, &["value 'x' is defined twice"]),
        (
            graph(&[relu()], &[(12, &Message::default().text(1, "q"))]),
            Kind::Graph,
            &["output 'q' is neither"],
        ),
        (of(&[unary("q", "y")]), Kind::Graph, &["node 'Relu_0' (Relu) reads value 'q'"]),
        (
            of(&[unary("x", "y"), unary("x", "y")]),
            Kind::Graph,
            &["node 'Relu_1'", "value 'y', which is there already"],
        ),
        (of(&[unary("x", "x")]), Kind::Graph, &["node 'Relu_0'", "value 'x', which is there already"]),
        (
            of(&[unary("b", "a"), unary("a", "b"), unary("x", "y")]),
            Kind::Graph,
            &["node 'Relu_0'", "a cycle"],
        ),
        (of(&[unary("y", "y")]), Kind::Graph, &["node 'Relu_0'", "a cycle"]),
    ]);
}

/// One node from x, or constants c, to y.
fn one(opset: i64, op: &str, inputs: &[&str], attributes: &[Message]) -> Vec<u8> {
    let model = Model::new(opset, &IMAGE, &[node(op, inputs, &["y"], attributes)]);
    model.with(&[i64s("c", &[1, 1, 1, 1]), f32s("w", &[4, 4, 1, 1], &[0.0; 16])]).bytes()
}

/// A network with one node that has such a network, so many within each other.
fn nested(depth: usize) -> Message {
    let mut attribute = Message::default().text(1, "then_branch").message(6, &Message::default()).int(20, 5);
    for _ in 0..depth {
        let node = Message::default().text(4, "If").message(5, &attribute);
        let graph = Message::default().message(1, &node);
        attribute = Message::default().text(1, "then_branch").message(6, &graph).int(20, 5);
    }
    attribute
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn nodes_that_are_not_supported() {
    let window = || ints("kernel_shape", &[2, 2]);
    let ten = |op, inputs: &[&str], attributes: &[Message]| one(13, op, inputs, attributes);
    let scalar = |value| tensor_attribute("value", &f32s("", &[2], &[value, value]));
    let statistics =
        [node("BatchNormalization", &["x"; 5], &["z", "i"], &[]), node("Identity", &["i"], &["y"], &[])];
    let mut rows: Vec<Row> = vec![
        (
            ten("Frobnicate", &["x"], &[]),
            Kind::Unsupported,
            &["node 'Frobnicate_0' (Frobnicate)", "no operator of ONNX"],
        ),
        (
            graph(&[relu().text(7, "com.strange")], &[]),
            Kind::Unsupported,
            &["node 'Relu_0' (Relu)", "domain 'com.strange' is not supported"],
        ),
        // Operands and results.
        (
            ten("Relu", &["x", "x"], &[]),
            Kind::Unsupported,
            &["'Relu_0' (Relu)", "2 inputs, but the operator takes 1 to 1"],
        ),
        (
            ten("Add", &["x"], &[]),
            Kind::Unsupported,
            &["'Add_0' (Add)", "1 inputs, but the operator takes 2 to 2"],
        ),
        (ten("Add", &["x", ""], &[]), Kind::Unsupported, &["'Add_0' (Add)", "input 1 is missing"]),
        (ten("Where", &["", "x", "x"], &[]), Kind::Unsupported, &["'Where_0' (Where)", "input 0 is missing"]),
        (ten("Concat", &["x", ""], &[int("axis", 0)]), Kind::Unsupported, &["Concat", "an input is missing"]),
        (ten("Sum", &["x", ""], &[]), Kind::Unsupported, &["Sum", "an input is missing"]),
        (
            ten("Unsqueeze", &["x"], &[]),
            Kind::Unsupported,
            &["Unsqueeze", "1 inputs, but the operator takes 2 to 2"],
        ),
        (
            ten("Slice", &["x", "c"], &[]),
            Kind::Unsupported,
            &["Slice", "2 inputs, but the operator takes 3 to 5"],
        ),
        (ten("Pad", &["x"], &[]), Kind::Unsupported, &["Pad", "1 inputs, but the operator takes 2 to 3"]),
        (ten("TopK", &["x"], &[]), Kind::Unsupported, &["TopK", "1 inputs, but the operator takes 2 to 2"]),
        (
            ten("Upsample", &["x"], &[]),
            Kind::Unsupported,
            &["Upsample", "deprecated from opset 10 on, for Resize"],
        ),
        (
            Model::new(13, &IMAGE, &[node("Relu", &["x"], &[""], &[])]).bytes(),
            Kind::Unsupported,
            &["'Relu_0' (Relu)", "the first output is missing"],
        ),
        (
            Model::new(13, &IMAGE, &[node("Relu", &["x"], &["y", "z"], &[])]).bytes(),
            Kind::Unsupported,
            &["'Relu_0' (Relu)", "2 outputs, but the operator has at most 1"],
        ),
        (
            Model::new(13, &IMAGE, &statistics).bytes(),
            Kind::Unsupported,
            &["'BatchNormalization_0'", "output 1 is not supported"],
        ),
        // Attributes of any node.
        (
            ten("Relu", &["x"], &[int("a", 1)]),
            Kind::Unsupported,
            &["'Relu_0'", "attribute 'a' is not supported"],
        ),
        (
            ten("Concat", &["x"], &[int("axis", 1), int("axis", 1)]),
            Kind::Unsupported,
            &["'axis' is given twice"],
        ),
        (
            ten("If", &["x"], &[Message::default().text(1, "then_branch").int(20, 5)]),
            Kind::Malformed,
            &["graph attribute 'then_branch' has no graph"],
        ),
        (ten("If", &["x"], &[]), Kind::Unsupported, &["'If_0' (If)", "attribute 'then_branch' is missing"]),
        (ten("If", &["x"], &[nested(40)]), Kind::Malformed, &["more than 32 networks within each other"]),
        (ten("Loop", &["x"], &[]), Kind::Unsupported, &["'Loop_0' (Loop)", "fewer than 2 inputs"]),
        (
            ten("Scan", &["x"], &[]),
            Kind::Unsupported,
            &["'Scan_0' (Scan)", "'num_scan_inputs' is not one to all inputs"],
        ),
        (
            ten("Relu", &["x"], &[Message::default().text(1, "alpha").text(21, "slope").int(20, 1)]),
            Kind::Unsupported,
            &["'Relu_0' (Relu)", "'alpha' refers to a function's, but there is none around"],
        ),
        (
            ten("Relu", &["x"], &[Message::default().text(1, "a").text(9, "x").int(20, 8)]),
            Kind::Unsupported,
            &["attribute 'a' is not supported"],
        ),
        // Attributes of another kind.
        (
            ten("Concat", &["x"], &[float("axis", 1.0)]),
            Kind::Unsupported,
            &["Concat", "'axis' is not an integer"],
        ),
        (
            ten("Flatten", &["x"], &[ints("axis", &[1])]),
            Kind::Unsupported,
            &["Flatten", "'axis' is not an integer"],
        ),
        (
            ten("LeakyRelu", &["x"], &[int("alpha", 1)]),
            Kind::Unsupported,
            &["LeakyRelu", "'alpha' is not a float"],
        ),
        (
            ten("Resize", &["x", "", "", "c"], &[int("mode", 1)]),
            Kind::Unsupported,
            &["Resize", "'mode' is not a string"],
        ),
        (
            ten(
                "Resize",
                &["x", "", "", "c"],
                &[Message::default().text(1, "mode").bytes(4, &[0xff]).int(20, 3)],
            ),
            Kind::Unsupported,
            &["Resize", "'mode' is not UTF-8"],
        ),
        (
            ten("Transpose", &["x"], &[int("perm", 1)]),
            Kind::Unsupported,
            &["Transpose", "'perm' is not a list of integers"],
        ),
        (
            one(7, "Upsample", &["x"], &[int("scales", 1)]),
            Kind::Unsupported,
            &["Upsample", "'scales' is not a list of floats"],
        ),
        (ten("ConstantOfShape", &["c"], &[int("value", 1)]), Kind::Unsupported, &["'value' is not a tensor"]),
        // Attributes with other values.
        (
            ten("Transpose", &["x"], &[ints("perm", &[0, -1, 2, 3])]),
            Kind::Unsupported,
            &["Transpose", "'perm' has a negative"],
        ),
        (ten("Concat", &["x"], &[]), Kind::Unsupported, &["Concat", "attribute 'axis' is missing"]),
        (ten("Cast", &["x"], &[]), Kind::Unsupported, &["Cast", "attribute 'to' is missing"]),
        (ten("Cast", &["x"], &[int("to", 15)]), Kind::Unsupported, &["Cast", "'to': element type 15"]),
        (
            ten("Resize", &["x", "", "", "c"], &[text("mode", "area")]),
            Kind::Unsupported,
            &["'mode' = 'area'"],
        ),
        (
            ten("Resize", &["x", "", "", "c"], &[text("coordinate_transformation_mode", "tf_crop")]),
            Kind::Unsupported,
            &["'coordinate_transformation_mode' = 'tf_crop'"],
        ),
        (
            ten("Resize", &["x", "", "", "c"], &[text("nearest_mode", "middle")]),
            Kind::Unsupported,
            &["'nearest_mode' = 'middle'"],
        ),
        (ten("Pad", &["x", "c"], &[text("mode", "wrap")]), Kind::Unsupported, &["Pad", "'mode' = 'wrap'"]),
        (ten("MaxPool", &["x"], &[]), Kind::Unsupported, &["MaxPool", "'kernel_shape' is missing"]),
        (
            ten("MaxPool", &["x"], &[ints("kernel_shape", &[2, 2, 2, 2])]),
            Kind::Unsupported,
            &["MaxPool", "a window over 4 axes"],
        ),
        (
            ten("MaxPool", &["x"], &[ints("kernel_shape", &[2, 0])]),
            Kind::Unsupported,
            &["'kernel_shape' does not have 2 positive elements"],
        ),
        (
            ten("MaxPool", &["x"], &[window(), ints("strides", &[1])]),
            Kind::Unsupported,
            &["'strides' does not have 2 positive elements"],
        ),
        (
            ten("AveragePool", &["x"], &[window(), ints("dilations", &[0, 1])]),
            Kind::Unsupported,
            &["'dilations' does not have 2 positive elements"],
        ),
        (
            ten("MaxPool", &["x"], &[window(), ints("pads", &[0, 0])]),
            Kind::Unsupported,
            &["'pads' does not have 4 elements"],
        ),
        (
            ten("MaxPool", &["x"], &[window(), ints("pads", &[0, 0, -1, 0])]),
            Kind::Unsupported,
            &["'pads' has a negative element"],
        ),
        (
            ten("MaxPool", &["x"], &[window(), text("auto_pad", "WRAP")]),
            Kind::Unsupported,
            &["'auto_pad' = 'WRAP'"],
        ),
        (ten("Conv", &["x", "w"], &[int("group", 0)]), Kind::Unsupported, &["Conv", "'group' = 0"]),
        (ten("Conv", &["x", "w"], &[int("group", -1)]), Kind::Unsupported, &["Conv", "'group' = -1"]),
        (
            ten("Split", &["x"], &[int("num_outputs", 3)]),
            Kind::Unsupported,
            &["Split", "'num_outputs', but 1 outputs"],
        ),
        (
            ten("GatherND", &["x", "c"], &[int("batch_dims", -1)]),
            Kind::Unsupported,
            &["GatherND", "'batch_dims' = -1"],
        ),
        (
            ten("DequantizeLinear", &["x", "w"], &[int("block_size", -32)]),
            Kind::Unsupported,
            &["DequantizeLinear", "'block_size' is negative"],
        ),
        (
            one(21, "DequantizeLinear", &["x", "w"], &[int("output_dtype", 15)]),
            Kind::Unsupported,
            &["DequantizeLinear", "'output_dtype': element type 15"],
        ),
        (
            one(21, "QuantizeLinear", &["x", "w"], &[int("output_dtype", 15)]),
            Kind::Unsupported,
            &["QuantizeLinear", "'output_dtype': element type 15"],
        ),
        (
            ten("BitShift", &["x", "x"], &[text("direction", "UP")]),
            Kind::Unsupported,
            &["BitShift", "'direction' = 'UP'"],
        ),
        (
            one(20, "Gelu", &["x"], &[text("approximate", "much")]),
            Kind::Unsupported,
            &["Gelu", "'approximate' = 'much'"],
        ),
        (
            ten("ConstantOfShape", &["c"], &[scalar(1.0)]),
            Kind::Unsupported,
            &["ConstantOfShape", "'value' does not have one element"],
        ),
        (
            ten("Constant", &[], &[]),
            Kind::Unsupported,
            &["'Constant_0' (Constant)", "exactly one of the value attributes"],
        ),
        (
            ten("Constant", &[], &[int("value_int", 1), float("value_float", 1.0)]),
            Kind::Unsupported,
            &["Constant", "exactly one of the value attributes"],
        ),
        (
            ten("Constant", &[], &[int("value_string", 1)]),
            Kind::Unsupported,
            &["'value_string' is not supported here"],
        ),
        (
            ten("Constant", &[], &[floats("value_ints", &[1.0])]),
            Kind::Unsupported,
            &["'value_ints' is not supported here"],
        ),
        (
            Model::new(13, &IMAGE, &[node("Constant", &[], &[], &[int("value_int", 1)]), relu()]).bytes(),
            Kind::Unsupported,
            &["Constant", "the output is missing"],
        ),
        (
            one(10, "Resize", &["x", "x"], &[]),
            Kind::Unsupported,
            &["Resize", "nearest-neighbour shrinking before opset 11"],
        ),
        (
            Model::new(
                13,
                &["1", "1", "9", "9", "9", "9"],
                &[node("MaxPool", &["x"], &["y"], &[ints("kernel_shape", &[3; 4])])],
            )
            .bytes(),
            Kind::Unsupported,
            &["MaxPool", "4 axes; 1 to 3 are supported"],
        ),
    ];
    // Operators that the format has and Triune does not are told apart from those with too many operands.
    for op in ["RegexFullMatch", "TreeEnsemble"] {
        rows.push((ten(op, &["x"], &[]), Kind::Unsupported, &["no operator of ONNX"]));
    }
    check(rows);
}
