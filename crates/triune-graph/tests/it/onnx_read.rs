//! The ONNX reader: old forms end as the new ones, nonsense ends as an error that names who is to blame.

use crate::onnx_common::{
    Message, Model, f32s, float, floats, i64s, int, ints, node, tensor, tensor_attribute, text, value,
};
use triune_graph::{
    Dim, Graph,
    format::onnx::{read, read_bytes},
    infer::infer,
    ops::{AutoPad, Op, PoolKind, ResizeMode},
    passes,
};

fn load(model: &Model) -> Graph {
    read_bytes(model.bytes(), None).unwrap_or_else(|error| panic!("{error}"))
}

fn fails(model: &Model, words: &[&str]) {
    let error = read_bytes(model.bytes(), None).expect_err("a broken model").to_string();
    for word in words {
        assert!(error.contains(word), "'{word}' is not in: {error}");
    }
}

/// Operators and the shape of y.
fn inferred(model: &Model) -> (Vec<&'static str>, Vec<usize>) {
    let mut graph = load(model);
    infer(&mut graph).unwrap_or_else(|error| panic!("{error}"));
    let names = graph.nodes.iter().map(|node| node.op.name()).collect();
    (names, graph.value(graph.outputs[0]).fixed_shape().expect("a shape").to_vec())
}

fn infer_fails(model: &Model, words: &[&str]) {
    let mut graph = load(model);
    let error = infer(&mut graph).expect_err("operands that do not fit").to_string();
    for word in words {
        assert!(error.contains(word), "'{word}' is not in: {error}");
    }
}

const IMAGE: [&str; 4] = ["1", "4", "8", "6"];

#[test]
fn attributes_become_operands() {
    let clip = Model::new(6 + 1, &["2", "3"], &[node("Clip", &["x"], &["y"], &[float("max", 6.0)])]);
    let graph = load(&clip);
    assert_eq!(graph.nodes[0].inputs.len(), 3);
    // What is left out is the least number of the type: −∞ is cut, too.
    for (index, expected) in [(1, f32::MIN), (2, 6.0)] {
        let limit = graph.value(graph.nodes[0].inputs[index].expect("a limit"));
        assert_eq!(limit.constant.as_ref().and_then(triune_graph::Constant::scalar_f32), Some(expected));
    }

    let cases = [
        (node("Squeeze", &["x"], &["y"], &[ints("axes", &[0])]), 11, vec![4, 8, 6]),
        (node("Unsqueeze", &["x"], &["y"], &[ints("axes", &[0, -1])]), 11, vec![1, 1, 4, 8, 6, 1]),
        (
            node(
                "Slice",
                &["x"],
                &["y"],
                &[ints("starts", &[1, -3]), ints("ends", &[i64::MAX, -1]), ints("axes", &[1, 2])],
            ),
            9,
            vec![1, 3, 2, 6],
        ),
        (node("Pad", &["x"], &["y"], &[ints("pads", &[0, 0, 1, 2, 0, 0, 3, -1])]), 10, vec![1, 4, 12, 7]),
        (node("Upsample", &["x"], &["y"], &[floats("scales", &[1.0, 1.0, 2.0, 2.5])]), 7, vec![1, 4, 16, 15]),
        (node("ReduceMean", &["x"], &["y"], &[ints("axes", &[2, 3])]), 13, vec![1, 4, 1, 1]),
        (node("ReduceMax", &["x"], &["y"], &[ints("axes", &[-1, -2]), int("keepdims", 0)]), 13, vec![1, 4]),
        (node("ReduceSum", &["x"], &["y"], &[]), 13, vec![1, 1, 1, 1]),
        (node("ReduceProd", &["x"], &["y"], &[ints("axes", &[1])]), 11, vec![1, 1, 8, 6]),
        (node("ReduceL2", &["x"], &["y"], &[ints("axes", &[1]), int("keepdims", 0)]), 13, vec![1, 8, 6]),
        (node("ReduceMin", &["x"], &["y"], &[int("noop_with_empty_axes", 1)]), 18, vec![1, 4, 8, 6]),
        (node("ArgMax", &["x"], &["y"], &[int("axis", 1)]), 13, vec![1, 1, 8, 6]),
        (node("ArgMin", &["x"], &["y"], &[int("axis", -1), int("keepdims", 0)]), 13, vec![1, 4, 8]),
        (node("Flatten", &["x"], &["y"], &[int("axis", -2)]), 13, vec![4, 48]),
        (node("Transpose", &["x"], &["y"], &[]), 13, vec![6, 8, 4, 1]),
    ];
    for (node, opset, shape) in cases {
        assert_eq!(inferred(&Model::new(opset, &IMAGE, &[node])).1, shape);
    }
}

#[test]
fn one_meaning_whatever_the_opset() {
    for (opset, flatten, axis) in [(12, true, 1), (13, false, -1)] {
        let graph = load(&Model::new(opset, &IMAGE, &[node("Softmax", &["x"], &["y"], &[])]));
        assert!(
            matches!(&graph.nodes[0].op, Op::Softmax(s) if s.flatten == flatten && s.axis == axis),
            "{opset}"
        );
    }
    // A row of one axis is the plain form, which shape inference finds out.
    let mut graph =
        load(&Model::new(9, &["3", "10", "1", "1"], &[node("Softmax", &["x"], &["y"], &[int("axis", 1)])]));
    infer(&mut graph).unwrap();
    assert!(matches!(&graph.nodes[0].op, Op::Softmax(softmax) if !softmax.flatten && softmax.axis == 1));

    let dropout = Model::new(7, &IMAGE, &[node("Dropout", &["x"], &["y", "mask"], &[float("ratio", 0.5)])]);
    assert_eq!(inferred(&dropout), (vec!["Identity"], vec![1, 4, 8, 6]));
    let read_mask = [node("Dropout", &["x"], &["z", "mask"], &[]), node("Identity", &["mask"], &["y"], &[])];
    assert_eq!(inferred(&Model::new(7, &IMAGE, &read_mask)).1, [1, 4, 8, 6]);

    let chain = Model::new(13, &IMAGE, &[node("Max", &["x", "x", "x", "x"], &["y"], &[])]);
    assert_eq!(inferred(&chain).0, ["Max", "Max", "Max"]);
    let single = Model::new(13, &IMAGE, &[node("Min", &["x"], &["y"], &[])]);
    assert_eq!(inferred(&single).0, ["Identity"]);
}

#[test]
fn windows_over_one_axis_get_a_second_one() {
    let weights = f32s("w", &[2, 4, 3], &[1.0; 24]);
    let conv = node("Conv", &["x", "w"], &["y"], &[ints("strides", &[2]), ints("pads", &[1, 0])]);
    let model = Model::new(13, &["5", "4", "9"], &[conv]).with(&[weights]);
    assert_eq!(inferred(&model), (vec!["Unsqueeze", "Unsqueeze", "Conv", "Squeeze"], vec![5, 2, 4]));
    let graph = load(&model);
    assert!(
        matches!(&graph.nodes[2].op, Op::Conv(conv) if conv.pad == [0, 1, 0, 0] && conv.stride == [1, 2])
    );
    let pool = node("AveragePool", &["x"], &["y"], &[ints("kernel_shape", &[3])]);
    assert_eq!(inferred(&Model::new(13, &["5", "4", "9"], &[pool])).1, [5, 4, 7]);
    let volume = node("MaxPool", &["x"], &["y"], &[ints("kernel_shape", &[3, 3, 3, 3])]);
    fails(&Model::new(13, &["1", "1", "9", "9", "9", "9"], &[volume]), &["MaxPool", "4 axes"]);
}

#[test]
fn automatic_padding_is_resolved() {
    let weights = f32s("w", &[2, 4, 3, 2], &[1.0; 48]);
    for (auto, pad, shape) in [
        ("SAME_UPPER", [0, 0, 1, 0], [1, 2, 4, 3]),
        ("SAME_LOWER", [1, 0, 0, 0], [1, 2, 4, 3]),
        ("VALID", [0; 4], [1, 2, 3, 3]),
    ] {
        let conv = node("Conv", &["x", "w"], &["y"], &[text("auto_pad", auto), ints("strides", &[2, 2])]);
        let mut graph = load(&Model::new(13, &IMAGE, &[conv]).with(std::slice::from_ref(&weights)));
        infer(&mut graph).unwrap();
        let Op::Conv(conv) = &graph.nodes[0].op else { panic!("no convolution") };
        assert_eq!((conv.pad, conv.auto_pad, conv.kernel), (pad, AutoPad::Explicit, Some([3, 2])), "{auto}");
        assert_eq!(*graph.value(graph.outputs[0]).fixed_shape().unwrap(), shape, "{auto}");
    }
}

#[test]
fn every_form_of_a_constant_is_read() {
    let forms = [
        (tensor_attribute("value", &i64s("", &[2, 24])), 2),
        (tensor_attribute("value", &tensor("", 7, &[2]).int(7, 2).int(7, 24)), 2),
        (tensor_attribute("value", &tensor("", 7, &[2]).bytes(7, &[2, 24])), 2),
        (ints("value_ints", &[2, 24]), 2),
    ];
    for (form, rank) in forms {
        let nodes = [node("Constant", &[], &["s"], &[form]), node("Reshape", &["x", "s"], &["y"], &[])];
        let (names, shape) = inferred(&Model::new(13, &["48"], &nodes));
        assert_eq!((names, shape.len()), (vec!["Reshape"], rank));
    }
    let scalar =
        [node("Constant", &[], &["s"], &[float("value_float", 2.0)]), node("Mul", &["x", "s"], &["y"], &[])];
    assert_eq!(inferred(&Model::new(13, &["48"], &scalar)).1, [48]);
    let strings =
        [node("Constant", &[], &["s"], &[text("value_string", "a")]), node("Relu", &["s"], &["y"], &[])];
    fails(&Model::new(13, &["48"], &strings), &["Relu", "input 0 is of strings"]);
}

#[test]
fn typed_data_of_every_type_is_read() {
    let typed: [(i64, Message, &[u8]); 8] = [
        (1, tensor("c", 1, &[1]).float(4, 1.0), &[0, 0, 0x80, 0x3f]),
        (2, tensor("c", 2, &[2]).bytes(5, &[1, 0xff, 1]), &[1, 255]),
        (3, tensor("c", 3, &[1]).int(5, -2), &[0xfe]),
        (6, tensor("c", 6, &[1]).int(5, -2), &[0xfe, 0xff, 0xff, 0xff]),
        (9, tensor("c", 9, &[1]).int(5, 1), &[1]),
        (10, tensor("c", 10, &[1]).int(5, 0x3c00), &[0, 0x3c]),
        (12, tensor("c", 12, &[1]).int(11, 7), &[7, 0, 0, 0]),
        (13, tensor("c", 13, &[1]).int(11, -1), &[0xff; 8]),
    ];
    for (number, tensor, bytes) in typed {
        let model = Model::new(13, &["1"], &[node("Identity", &["x"], &["y"], &[])]).with(&[tensor]);
        let graph = load(&model);
        let constant = graph.value(graph.find_value("c").unwrap()).constant.clone().unwrap();
        assert_eq!(constant.bytes().as_ref(), bytes, "type {number}");
    }
    let out_of_range = tensor("c", 3, &[1]).int(5, 128);
    let model = Model::new(13, &["1"], &[node("Identity", &["x"], &["y"], &[])]);
    fails(&model.with(&[out_of_range]), &["initializer 'c'", "int8"]);
}

#[test]
fn raw_data_share_the_files_buffer() {
    let model = Model::new(13, &["2"], &[node("Add", &["x", "w"], &["y"], &[])]);
    let bytes = bytes::Bytes::from(model.with(&[f32s("w", &[2], &[1.0, 2.0])]).bytes());
    let graph = read_bytes(bytes.clone(), None).unwrap();
    let data = graph.value(graph.find_value("w").unwrap()).constant.as_ref().unwrap().bytes().as_ptr();
    assert!(bytes.as_ptr_range().contains(&data));
}

#[test]
fn symbols_are_kept_and_bound() {
    let mut model = Model::new(13, &["N", "3", ""], &[node("Add", &["x", "z"], &["y"], &[])]);
    model.inputs.push(value("z", &["N", "1", "1"]));
    let graph = load(&model);
    let shape = graph.value(graph.inputs[0]).shape.clone().unwrap();
    assert_eq!(shape, [Dim::Symbol("N".into()), Dim::Fixed(3), Dim::Symbol("x:2".into())]);

    let bind = |shapes: &[(&str, &[usize])]| {
        let mut graph = graph.clone();
        graph.bind(shapes).map_err(|error| error.to_string())?;
        infer(&mut graph).map_err(|error| error.to_string())?;
        Ok::<_, String>(graph.value(graph.outputs[0]).fixed_shape().unwrap().to_vec())
    };
    assert_eq!(bind(&[("x", &[5, 3, 7])]), Ok(vec![5, 3, 7]));
    // Inputs whose extents are given need not agree.
    assert_eq!(bind(&[("x", &[5, 3, 7]), ("z", &[1, 1, 1])]), Ok(vec![5, 3, 7]));
    for (shapes, word) in [
        (&[("x", &[5, 3, 7][..]), ("z", &[4, 1, 1])][..], "broadcast"),
        (&[("x", &[5, 4, 7])], "dimension 1"),
        (&[("x", &[5, 3])], "3 dimensions"),
        (&[("z", &[5, 1, 1])], "'x:2' is open"),
        (&[("w", &[5, 1, 1])], "'w'"),
        (&[("x", &[5, 3, 7]), ("x", &[5, 3, 7])], "two shapes"),
    ] {
        let error = bind(shapes).unwrap_err();
        assert!(error.contains(word), "'{word}' is not in: {error}");
    }
    let error = infer(&mut load(&model)).unwrap_err().to_string();
    assert!(error.contains("bind"), "{error}");
}

#[test]
fn nodes_are_put_in_order() {
    let nodes = [
        node("Relu", &["b"], &["y"], &[]),
        node("Relu", &["a"], &["b"], &[]),
        node("Neg", &["x"], &["a"], &[]),
    ];
    assert_eq!(inferred(&Model::new(13, &["2"], &nodes)).0, ["Neg", "Relu", "Relu"]);
    let cycle = [node("Add", &["x", "b"], &["y"], &[]), node("Relu", &["y"], &["b"], &[])];
    fails(&Model::new(13, &["2"], &cycle), &["cycle", "Add_0"]);
}

#[test]
fn initializers_that_are_inputs_are_weights() {
    let mut model =
        Model::new(8, &["2"], &[node("Add", &["x", "w"], &["y"], &[])]).with(&[f32s("w", &[2], &[1.0, 2.0])]);
    model.inputs.insert(0, value("w", &["2"]));
    let graph = load(&model);
    assert_eq!(graph.inputs, [graph.find_value("x").unwrap()]);
}

#[test]
fn nodes_of_one_name_are_told_apart() {
    let called = |input: &str, output: &str| node("Relu", &[input], &[output], &[]).text(3, "same");
    let mut nodes = vec![called("x", "v0")];
    nodes.extend((1..30_000).map(|index| called(&format!("v{}", index - 1), &format!("v{index}"))));
    nodes.push(called("v29999", "y"));
    let graph = load(&Model::new(13, &["2"], &nodes));
    assert_eq!((graph.nodes[0].name.as_str(), graph.nodes[30_000].name.as_str()), ("same", "same_30001"));
}

#[test]
fn names_that_do_not_fit_are_errors() {
    let relu = |input, output| node("Relu", &[input], &[output], &[]);
    fails(&Model::new(13, &["2"], &[relu("q", "y")]), &["Relu_0", "'q'"]);
    fails(&Model::new(13, &["2"], &[relu("x", "y"), relu("x", "y")]), &["Relu_1", "'y'", "already"]);
    fails(&Model::new(13, &["2"], &[relu("x", "x")]), &["'x'", "already"]);
    fails(&Model::new(13, &["2"], &[relu("x", "z")]), &["output 'y'"]);
    let mut twice = Model::new(13, &["2"], &[relu("x", "y")]);
    twice.inputs.push(value("x", &["2"]));
    fails(&twice, &["'x'", "twice"]);
}

#[test]
fn what_is_not_supported_is_named() {
    let image = |node: Message| Model::new(13, &IMAGE, &[node]);
    let window = ints("kernel_shape", &[2, 2]);
    for (node, words) in [
        (node("Frobnicate", &["x"], &["y"], &[]), vec!["Frobnicate_0", "no operator of ONNX"]),
        (node("Relu", &["x"], &["y"], &[int("strange", 1)]), vec!["Relu_0", "'strange'"]),
        (node("Relu", &["x", "x"], &["y"], &[]), vec!["2 inputs"]),
        (node("Add", &["x", ""], &["y"], &[]), vec!["input 1 is missing"]),
        (node("Relu", &["x"], &[""], &[]), vec!["first output"]),
        (node("Resize", &["x", "", ""], &["y"], &[text("mode", "area")]), vec!["'mode' = 'area'"]),
        (node("Pad", &["x", "x"], &["y"], &[text("mode", "wrap")]), vec!["'mode' = 'wrap'"]),
        (node("MaxPool", &["x"], &["y"], &[]), vec!["kernel_shape"]),
        (node("MaxPool", &["x"], &["y"], &[window.clone(), ints("strides", &[0, 1])]), vec!["'strides'"]),
        (
            node("MaxPool", &["x"], &["y"], &[window.clone(), ints("pads", &[0, 0, -1, 0])]),
            vec!["'pads'", "negative"],
        ),
        (node("MaxPool", &["x"], &["y"], &[float("kernel_shape", 1.0)]), vec!["list of integers"]),
        (node("MaxPool", &["x"], &["y"], &[window.clone(), window.clone()]), vec!["twice"]),
        (node("Conv", &["x", "x"], &["y"], &[int("group", -1)]), vec!["'group' = -1"]),
        (
            node("DequantizeLinear", &["x", "x"], &["y"], &[int("block_size", -1)]),
            vec!["'block_size' is negative"],
        ),
        (node("Cast", &["x"], &["y"], &[int("to", 15)]), vec!["'to'", "15"]),
        (node("If", &["x"], &["y"], &[Message::default().text(1, "then").int(20, 5)]), vec!["'then'"]),
    ] {
        fails(&image(node), &words);
    }
    fails(&Model::new(0, &IMAGE, &[]), &["operator set 0,", "1 to 28"]);
    fails(&Model::new(29, &IMAGE, &[]), &["operator set 29,"]);
    // What an operator set does not have yet, has in a form that is not read, or no longer.
    let versions = [
        (19, "Gelu", vec!["opset 19", "20 is the first"]),
        (5, "Cast", vec!["version 1", "opset 6"]),
        (10, "Upsample", vec!["version 10", "Resize"]),
    ];
    for (opset, operator, words) in versions {
        fails(&Model::new(opset, &IMAGE, &[node(operator, &["x"], &["y"], &[])]), &words);
    }
}

#[test]
fn operands_that_do_not_fit_are_named() {
    let weights = f32s("w", &[2, 3, 1, 1], &[1.0; 6]);
    let conv = node("Conv", &["x", "w"], &["y"], &[]);
    infer_fails(
        &Model::new(13, &IMAGE, &[conv]).with(&[weights]),
        &["Conv_0", "(2, 3, 1, 1)", "(1, 4, 8, 6)"],
    );
    let add = node("Add", &["x", "w"], &["y"], &[]);
    infer_fails(
        &Model::new(13, &IMAGE, std::slice::from_ref(&add)).with(&[f32s("w", &[5], &[1.0; 5])]),
        &["Add_0", "broadcast"],
    );
    infer_fails(&Model::new(13, &["1"], &[add]).with(&[i64s("w", &[1])]), &["float32", "int64"]);
    let reshape = node("Reshape", &["x", "s"], &["y"], &[]);
    for wish in [&[5, -1][..], &[-1, -1], &[-2, 96], &[0, 0, 0, 0, 0], &[i64::MAX, i64::MAX]] {
        let model = Model::new(13, &IMAGE, std::slice::from_ref(&reshape)).with(&[i64s("s", wish)]);
        infer_fails(&model, &["Reshape_0", "cannot become"]);
    }
    let mut by_data = Model::new(
        13,
        &IMAGE,
        &[node("Cast", &["x"], &["s"], &[int("to", 7)]), node("Reshape", &["x", "s"], &["y"], &[])],
    );
    infer_fails(&by_data, &["depends on the network's data"]);
    by_data.nodes = vec![node("MaxPool", &["x"], &["y"], &[ints("kernel_shape", &[9, 1])])];
    infer_fails(&by_data, &["MaxPool_0", "window of 9"]);
}

#[test]
fn an_extent_of_zero_hides_no_overflow() {
    let flatten = Model::new(
        13,
        &["0", "4611686018427387904", "4611686018427387904"],
        &[node("Flatten", &["x"], &["y"], &[])],
    );
    infer_fails(&flatten, &["'x'", "too many"]);
    let huge = tensor("w", 1, &[0, 1 << 62, 1 << 62]).bytes(9, &[]);
    infer_fails(&Model::new(13, &["1"], &[node("Add", &["x", "w"], &["y"], &[])]).with(&[huge]), &["'w'"]);
    let empty = Model::new(13, &["0", "4"], &[node("Flatten", &["x"], &["y"], &[])]);
    assert_eq!(inferred(&empty).1, [0, 4]);
}

#[test]
fn resizing_takes_scales_or_sizes() {
    let scales = f32s("s", &[4], &[1.0, 1.0, 0.5, 1.5]);
    let resize = |inputs: &[&str]| node("Resize", inputs, &["y"], &[text("mode", "linear")]);
    let model = Model::new(13, &IMAGE, &[resize(&["x", "", "s"])]).with(&[scales]);
    assert_eq!(inferred(&model).1, [1, 4, 4, 9]);
    assert!(matches!(&load(&model).nodes[0].op, Op::Resize(resize) if resize.mode == ResizeMode::Linear));
    let empty = tensor("s", 1, &[0]).bytes(9, &[]);
    let sizes = Model::new(11, &IMAGE, &[resize(&["x", "s", "s", "t"])]);
    assert_eq!(inferred(&sizes.with(&[empty, i64s("t", &[1, 4, 3, 3])])).1, [1, 4, 3, 3]);
    let old = |height: f32, width: f32| {
        let scales = f32s("s", &[4], &[1.0, 1.0, height, width]);
        Model::new(10, &IMAGE, &[node("Resize", &["x", "s"], &["y"], &[])]).with(&[scales])
    };
    assert_eq!(inferred(&old(0.5, 0.5)).1, [1, 4, 4, 3]);
    fails(&old(0.5, 2.0), &["shrinking"]);
}

#[test]
fn ceil_mode_counts_the_last_window() {
    let pool = |ceil| {
        node(
            "AveragePool",
            &["x"],
            &["y"],
            &[
                ints("kernel_shape", &[3, 3]),
                ints("strides", &[2, 2]),
                int("ceil_mode", ceil),
                int("count_include_pad", 1),
            ],
        )
    };
    for (ceil, extent) in [(0, 5), (1, 6)] {
        let model = Model::new(13, &["1", "1", "12", "12"], &[pool(ceil)]);
        assert_eq!(inferred(&model).1, [1, 1, extent, extent]);
        let average =
            |op: &Op| matches!(op, Op::Pool(p) if p.kind == PoolKind::Average { count_include_pad: true });
        assert!(average(&load(&model).nodes[0].op));
    }
}

#[test]
fn shapes_are_followed_through_arithmetic() {
    // What exporters make of x.view(x.size(0), -1) and a broadcast.
    let nodes = [
        node("Shape", &["x"], &["shape"], &[]),
        node("Gather", &["shape", "zero"], &["n"], &[int("axis", 0)]),
        node("Unsqueeze", &["n"], &["n1"], &[ints("axes", &[0])]),
        node("Concat", &["n1", "minus"], &["wish"], &[int("axis", 0)]),
        node("Reshape", &["x", "wish"], &["flat"], &[]),
        node("Slice", &["shape"], &["tail"], &[ints("starts", &[-1]), ints("ends", &[9])]),
        node("Cast", &["tail"], &["f"], &[int("to", 1)]),
        node("Div", &["f", "two"], &["half"], &[]),
        node("Floor", &["half"], &["floor"], &[]),
        node("Cast", &["floor"], &["extent"], &[int("to", 7)]),
        node("ConstantOfShape", &["extent"], &["ones"], &[]),
        node("Concat", &["flat", "row"], &["wide"], &[int("axis", 1)]),
        node("Expand", &["ones", "extent"], &["again"], &[]),
        node("Identity", &["wide"], &["y"], &[]),
    ];
    let mut model = Model::new(9, &["2", "3", "5"], &nodes).with(&[
        tensor("zero", 7, &[]).int(7, 0),
        i64s("minus", &[-1]),
        f32s("two", &[1], &[2.0]),
        f32s("row", &[2, 1], &[0.0; 2]),
    ]);
    model.outputs.push(Message::default().text(1, "again"));
    assert_eq!(inferred(&model).1, [2, 16]);
    let mut graph = load(&model);
    assert!(passes::fold_constants(&mut graph).unwrap());
    let kept: Vec<&str> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(kept, ["Reshape", "Concat"]);
    let again = graph.value(graph.outputs[1]);
    assert_eq!(again.constant.as_ref().and_then(triune_graph::Constant::to_f32), Some(vec![0.0, 0.0]));
    assert!(!passes::fold_constants(&mut graph).unwrap(), "a second round changes nothing");
}

#[test]
fn folding_is_bounded() {
    let big = [
        node("ConstantOfShape", &["s"], &["a"], &[]),
        node("Expand", &["a", "t"], &["b"], &[]),
        node("Add", &["x", "b"], &["y"], &[]),
    ];
    let model = |s: &[i64], t: &[i64]| Model::new(13, &["1"], &big).with(&[i64s("s", s), i64s("t", t)]);
    let mut graph = load(&model(&[1 << 30], &[2, 1 << 30]));
    passes::fold_constants(&mut graph).unwrap();
    assert_eq!(graph.nodes.len(), 3);
    let mut graph = load(&model(&[1 << 10], &[2, 1 << 10]));
    passes::fold_constants(&mut graph).unwrap();
    assert_eq!(graph.nodes.len(), 1);
    infer_fails(&model(&[1 << 40, 1 << 40], &[1]), &["ConstantOfShape_0", "too large"]);
}

#[test]
fn external_data_stay_in_the_models_folder() {
    let folder = std::env::temp_dir().join(format!("triune-graph-external-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("model/weights")).unwrap();
    let data: Vec<u8> = [9.0_f32, 1.0, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.join("model/weights/w.bin"), &data).unwrap();
    std::fs::write(folder.join("secret"), &data).unwrap();
    let entry = |key: &str, value: &str| Message::default().text(1, key).text(2, value);
    let model = |location: &str, offset: &str, length: &str| {
        let weights = tensor("w", 1, &[2])
            .message(13, &entry("location", location))
            .message(13, &entry("offset", offset))
            .message(13, &entry("length", length))
            .int(14, 1);
        Model::new(13, &["2"], &[node("Add", &["x", "w"], &["y"], &[])]).with(&[weights]).bytes()
    };
    let path = folder.join("model/m.onnx");
    let load = |bytes: Vec<u8>| {
        std::fs::write(&path, bytes).unwrap();
        read(&path).map_err(|error| error.to_string())
    };
    let graph = load(model("weights/w.bin", "4", "8")).unwrap();
    let weights = graph.value(graph.find_value("w").unwrap()).constant.clone().unwrap();
    assert_eq!(weights.to_f32(), Some(vec![1.0, 2.0]));
    for (location, offset, length, words) in [
        ("../secret", "0", "8", &["m.onnx", "'w'", "leaves"][..]),
        ("/etc/passwd", "0", "8", &["leaves"]),
        ("weights/../../secret", "0", "8", &["leaves"]),
        ("", "0", "8", &["leaves"]),
        ("weights", "0", "8", &["folder, not a plain file"]),
        ("missing", "0", "8", &["missing"]),
        ("weights/w.bin", "8", "8", &["bytes 8 + 8"]),
        ("weights/w.bin", "18446744073709551615", "8", &["bytes"]),
        ("weights/w.bin", "-1", "8", &["'-1' is no number"]),
        ("weights/w.bin", "0", "12", &["does not fit 12 bytes"]),
    ] {
        let error = load(model(location, offset, length)).expect_err(location);
        for word in words {
            assert!(error.contains(word), "'{word}' is not in: {error}");
        }
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../secret", folder.join("model/link")).unwrap();
        let error = load(model("link", "0", "8")).unwrap_err();
        assert!(error.contains("leads out"), "{error}");
    }
    let error = read_bytes(model("weights/w.bin", "4", "8"), None).unwrap_err().to_string();
    assert!(error.contains("from memory"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A model with a little of everything.
fn small_model() -> Model {
    let nodes = [
        node("Conv", &["x", "w", "b"], &["a"], &[ints("pads", &[1, 1, 1, 1]), int("group", 1)]),
        node("Clip", &["a"], &["c"], &[float("min", 0.0)]),
        node("Shape", &["c"], &["s"], &[]),
        node("Constant", &[], &["k"], &[tensor_attribute("value", &i64s("", &[0]))]),
        node("Gather", &["s", "k"], &["n"], &[]),
        node("Concat", &["n", "minus"], &["wish"], &[int("axis", 0)]),
        node("Reshape", &["c", "wish"], &["d"], &[]),
        node("Softmax", &["d"], &["y"], &[int("axis", 1)]),
    ];
    Model::new(10, &["N", "1", "4", "4"], &nodes).with(&[
        f32s("w", &[2, 1, 3, 3], &[0.5; 18]),
        f32s("b", &[2], &[1.0, 2.0]),
        i64s("minus", &[-1]),
    ])
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = small_model().bytes();
    // The opset import comes last: only the whole file is a model.
    assert!(read_bytes(bytes.clone(), None).is_ok());
    for length in 0..bytes.len() {
        assert!(read_bytes(bytes[..length].to_vec(), None).is_err(), "{length} bytes");
    }
}

#[test]
fn no_flipped_bytes_panic() {
    let bytes = small_model().bytes();
    let mut random = triune_testing::Random(1);
    let mut next = |bound: usize| random.below(bound);
    let mut survivors = 0;
    for _ in 0..20_000 {
        let mut broken = bytes.clone();
        for _ in 0..=next(3) {
            let at = next(broken.len());
            broken[at] = if next(2) == 0 { broken[at] ^ 1 << next(8) } else { next(256) as u8 };
        }
        let Ok(mut graph) = read_bytes(broken, None) else { continue };
        let Some(&input) = graph.inputs.first() else { continue };
        let name = graph.value(input).name.clone();
        if graph.bind(&[(&name, &[2, 1, 4, 4])]).is_ok() && passes::prepare(&mut graph).is_ok() {
            survivors += 1;
        }
    }
    assert!(
        survivors > 100,
        "{survivors} models were still sound: too few to have tested anything behind reading"
    );
}

/// The integers that y is folded to, `None` when it stays a node's result.
fn folded(nodes: &[Message], constants: &[Message]) -> Option<Vec<i64>> {
    let mut model = Model::new(13, &["1"], nodes).with(constants);
    model.inputs.clear();
    let mut graph = load(&model);
    passes::fold_constants(&mut graph).unwrap_or_else(|error| panic!("{error}"));
    graph.value(graph.outputs[0]).constant.as_ref().and_then(triune_graph::Constant::to_i64)
}

#[test]
fn integers_are_computed() {
    let (a, b) = (i64s("a", &[7, -7, 9]), i64s("b", &[2, 2, -4]));
    for (op, expected) in [
        ("Add", [9, -5, 5]),
        ("Sub", [5, -9, 13]),
        ("Mul", [14, -14, -36]),
        ("Div", [3, -3, -2]),
        ("Min", [2, -7, -4]),
        ("Max", [7, 2, 9]),
    ] {
        let node = node(op, &["a", "b"], &["y"], &[]);
        assert_eq!(folded(&[node], &[a.clone(), b.clone()]), Some(expected.to_vec()), "{op}");
    }
    let by_zero = node("Div", &["a", "z"], &["y"], &[]);
    assert_eq!(folded(&[by_zero], &[a.clone(), i64s("z", &[0])]), None);
    let power = node("Pow", &["a", "z"], &["y"], &[]);
    assert_eq!(folded(&[power], &[a.clone(), i64s("z", &[2])]), Some(vec![49, 49, 81]));
    // Through i32, which keeps the low half, and f32, which is cut off towards zero.
    let casts = [
        node("Cast", &["a"], &["i"], &[int("to", 6)]),
        node("Sub", &["i", "i"], &["zero"], &[]),
        node("Sub", &["zero", "i"], &["negative"], &[]),
        node("Cast", &["negative"], &["f"], &[int("to", 1)]),
        node("Mul", &["f", "half"], &["h"], &[]),
        node("Cast", &["h"], &["y"], &[int("to", 7)]),
    ];
    let wide = i64s("a", &[7, -7, (1 << 32) + 9]);
    assert_eq!(folded(&casts, &[wide, f32s("half", &[], &[0.5])]), Some(vec![-3, 3, -4]));
}

#[test]
fn a_step_backwards_is_not_nothing() {
    let constants = [i64s("s", &[-1]), i64s("e", &[i64::MIN]), i64s("axes", &[0]), i64s("steps", &[-1])];
    let slice = node("Slice", &["x", "s", "e", "axes", "steps"], &["z"], &[]);
    let model = Model::new(13, &["3"], &[slice.clone(), node("Relu", &["z"], &["y"], &[])]).with(&constants);
    let mut graph = load(&model);
    passes::fold_constants(&mut graph).unwrap();
    assert_eq!(graph.nodes.len(), 2);
    let of_constant = node("Slice", &["a", "s", "e", "axes", "steps"], &["y"], &[]);
    let constants = [constants.to_vec(), vec![i64s("a", &[1, 2, 3])]].concat();
    assert_eq!(folded(&[of_constant], &constants), Some(vec![3, 2, 1]));
}

#[test]
fn leftover_weights_are_dequantized_per_channel() {
    let weights = tensor("w", 3, &[2, 2, 2]).bytes(9, &[1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0x80]);
    let zero = tensor("z", 3, &[2]).bytes(9, &[1, 0]);
    let dequantize = |axis| {
        let nodes = [
            node("DequantizeLinear", &["w", "s", "z"], &["r"], &[int("axis", axis)]),
            node("Add", &["x", "r"], &["y"], &[]),
        ];
        let scales = f32s("s", &[2], &[0.5, 2.0]);
        let mut graph = load(&Model::new(13, &["1"], &nodes).with(&[weights.clone(), scales, zero.clone()]));
        passes::fold_constants(&mut graph).unwrap();
        assert_eq!(graph.nodes.len(), 2, "quantization comes first");
        assert!(passes::fold_dequantize(&mut graph).unwrap());
        assert_eq!(graph.nodes.len(), 1);
        graph.value(graph.find_value("r").unwrap()).constant.as_ref().unwrap().to_f32().unwrap()
    };
    assert_eq!(dequantize(0), [0.0, 0.5, 1.0, 1.5, -2.0, -4.0, -6.0, -256.0]);
    assert_eq!(dequantize(-2), [0.0, 0.5, 6.0, 8.0, -1.0, -1.5, -6.0, -256.0]);
}
