//! What the XIR reader refuses of single operators, types and constants: each row is wrong in one way, and the error has the kind and the
//! words for it.

use std::collections::BTreeMap;

use crate::xir_common::{
    check::{float, int, text},
    net::{ints, of, quantized, real},
    samples::{
        Given, IMAGE, Kind,
        Kind::{Malformed, Shape, Unsupported},
        Sample, Wrong, constant, image, sample, unary, zeros,
    },
};
use triune_graph::{
    Error,
    format::xir::{Attribute, ElementType, Options, Params, Runs, Scalar, Scale, TensorType, to_graph},
};
use triune_testing::Tensor;

/// Operands, results and attributes that do not fit together, one by one.
#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn operators_that_do_not_fit() {
    let mut wrong = Wrong::default();
    let mut row =
        |what: &str, sample: Sample, kind: Kind, words: &[&str]| wrong.sample(what, &sample, kind, words);
    let attribute = |kind, key, value| sample(kind).with(key, value);
    let operand = |kind, index: usize, given: Given| {
        let mut other = sample(kind);
        other.operands[index] = given;
        other
    };
    let input = |layout: &str, shape: &[usize]| Given::Input(real(layout, shape));
    let result = |kind, dtype: TensorType| Sample { results: vec![dtype], ..sample(kind) };
    let open = |mut dtype: TensorType, axes: &[usize]| {
        for &axis in axes {
            dtype.shape[axis] = -1;
        }
        dtype
    };
    let rank3 = || real("NHC", &[1, 6, 4]);

    row("that nobody knows", unary("Einsum"), Unsupported, &["there is no such operator here"]);
    row("of the accelerator", unary("HardOp"), Unsupported, &["`triune compile --format icraft`"]);

    // Results that come out otherwise than they are declared.
    for kind in ["ReLU", "Copy", "Softmax", "Cast"] {
        let words = "an operand of 4 axes and a result of 3";
        row("into three axes", result(kind, rank3()), Shape, &[words]);
        row(
            "into more rows",
            result(kind, real("NHWC", &[1, 7, 8, 4])),
            Shape,
            &["declared [1, 7, 8, 4] as NHWC"],
        );
    }
    for kind in ["Add", "Where", "Conv2d", "MaxPool2d", "Mean", "Slice", "Concat", "Transpose", "LayerNorm"] {
        let mut other = sample(kind);
        other.results[0].shape[1] += 1;
        row("into more rows", other, Shape, &["declared", "computed are"]);
    }
    for kind in ["ReLU", "Add", "Conv2d", "MaxPool2d", "Mean", "Upsample"] {
        let mut other = sample(kind);
        other.results[0].element = ElementType::Scalar(Scalar::Signed(16));
        row("into integers", other, Shape, &["its result is of type float32, declared is int16"]);
    }

    // Functions of two operands.
    for kind in ["Add", "Div", "Maximum", "Equal", "Where"] {
        let more = operand(kind, 1, input("*NHWC", &[1, 1, 6, 8, 4]));
        row("of five axes and four", more, Shape, &["an operand of 5 axes and a result of 4"]);
        row(
            "of other extents",
            operand(kind, 1, input("NHWC", &[1, 5, 8, 4])),
            Shape,
            &["cannot be broadcast"],
        );
    }
    let three = Attribute::List(vec![float(1.0), float(2.0), float(3.0)]);
    for key in ["alpha", "beta"] {
        row(key, attribute("Add", key, three.clone()), Unsupported, &["3 factors of an operand"]);
    }

    // Products.
    for kind in ["Conv2d", "ConvTranspose2d"] {
        let weights = |layout: &str, shape: &[usize]| operand(kind, 1, constant(layout, shape));
        let bias = |given: Given| operand(kind, 2, given);
        row(
            "with weights",
            operand(kind, 1, input("HWIO", &[1, 1, 4, 4])),
            Unsupported,
            &["weights that are not constant"],
        );
        row("with a bias", bias(input("O", &[4])), Unsupported, &["a bias that is not constant"]);
        row("with a bias", bias(constant("O", &[3])), Shape, &["a bias of 3 elements for 4 channels"]);
        row("with a bias", bias(constant("HO", &[2, 4])), Unsupported, &["a bias of several axes"]);
        row("with weights", weights("HWI*", &[1, 1, 4, 4]), Unsupported, &["layout HWI* has not one axis O"]);
        row("with weights", weights("DHWIO", &[2, 1, 1, 4, 4]), Unsupported, &["expected are axes OIHW"]);
        row("with weights", weights("HWIO", &[1, 1, 4, 0]), Unsupported, &["it has no elements"]);
        row("with weights", weights("HWIO", &[1, 1, 3, 4]), Shape, &["(4, 3, 1, 1) in 1 groups do not fit"]);
        row("in groups", attribute(kind, "groups", int(3)), Shape, &["(4, 4, 1, 1) in 3 groups do not fit"]);
        let other = operand(kind, 0, input("NHW*", &IMAGE));
        row("of no channels", other, Unsupported, &["an activation without one axis of channels C"]);
        let bytes = |element: ElementType, layout: &str, shape: &[usize]| {
            let data = Tensor::i8(shape, &vec![1; shape.iter().product()]);
            Given::Constant(of(element, layout, shape), data)
        };
        let raw = ElementType::Scalar(Scalar::Signed(8));
        let other = operand(kind, 1, bytes(raw.clone(), "HWIO", &[1, 1, 4, 4]));
        row("with weights", other, Unsupported, &["weights that are integers without a scale"]);
        row("with a bias", bias(bytes(raw, "O", &[4])), Unsupported, &["an integer bias without a scale"]);
        let shifted = bytes(quantized(-1, &[0.5], 3), "O", &[4]);
        row("with a bias", bias(shifted), Unsupported, &["a bias with zero points"]);
        let scales =
            |scales: &[f32], zero_point| bytes(quantized(-1, scales, zero_point), "HWIO", &[1, 1, 4, 4]);
        for (given, words) in [
            (scales(&[0.5, 0.25, 0.125], 0), "constant 1: 3 scales for 4 channels"),
            (scales(&[0.5, -0.25, 1.0, 2.0], 0), "constant 1: the scale -0.25"),
            (scales(&[f32::INFINITY], 0), "constant 1: the scale inf"),
            (scales(&[0.0, 0.25, 1.0, 2.0], 3), "a scale of 0 beside a zero point"),
        ] {
            row("with weights", operand(kind, 1, given), Unsupported, &[words]);
        }
    }
    for kind in ["Conv1d", "ConvTranspose1d"] {
        let other = operand(kind, 0, input("NHWC", &IMAGE));
        row("of an image", other, Shape, &["an operand of 4 axes, expected are 3"]);
    }
    for kind in ["Conv1d", "Conv2d"] {
        let circular = attribute(kind, "padding_mode", text("CIRCULAR"));
        row("of a ring", circular, Unsupported, &["padding_mode CIRCULAR"]);
    }
    for axes in [[1_usize], [2]] {
        let mut other = sample("ConvTranspose2d");
        other.operands[0] = Given::Input(open(image(), &axes));
        row("of open extents", other, Unsupported, &["an image of known extents"]);
    }
    let far = attribute("ConvTranspose2d", "stride_width", int(i64::MAX));
    row("with a stride", far, Shape, &["is too large"]);
    let mut far = attribute("ConvTranspose2d", "dilation_height", int(i64::MAX));
    far.operands[1] = constant("HWIO", &[3, 1, 4, 4]);
    row("with a dilation", far, Unsupported, &["a dilation out of range"]);
    row("of scalars", operand("Matmul", 0, input("", &[])), Shape, &["a scalar has no matrix product"]);
    row("of others", operand("Matmul", 0, input("NC", &[2, 5])), Shape, &["inner extents 5 and 4"]);

    // Axes by number.
    let outside = [4, -5, i64::MAX, i64::MIN];
    for axis in outside {
        for (kind, key) in [("Concat", "axis"), ("Split", "axis"), ("SwapOrder", "axis"), ("Unstack", "dim")]
        {
            row("along no axis", attribute(kind, key, int(axis)), Shape, &[&format!("axis {axis} of 4")]);
        }
        for kind in ["Softmax", "LogSoftmax"] {
            row("along no axis", attribute(kind, "axis", int(axis)), Shape, &[&format!("'axis' {axis}")]);
        }
        for (kind, key) in
            [("Mean", "dim"), ("Sum", "dim"), ("Argmax", "dim"), ("LayerNorm", "axis"), ("Normalize", "axis")]
        {
            let words = format!("'{key}' [{axis}]: there are no such whole axes");
            row("along no axis", attribute(kind, key, int(axis)), Shape, &[&words]);
        }
        let roll = attribute("Roll", "dims", int(axis));
        row("along no axis", roll, Shape, &[&format!("axis {axis} of 4")]);
    }
    for axis in [5, -6] {
        row("along no axis", attribute("Stack", "dim", int(axis)), Shape, &[&format!("axis {axis} of 5")]);
    }
    row("along two axes", attribute("Argmin", "dim", ints(&[1, 2])), Shape, &["'dim' names several axes"]);

    // Parts and joints.
    let other = operand("Concat", 1, input("NHWC", &[1, 6, 7, 4]));
    row("of other rows", other, Shape, &["cannot be joined"]);
    for (key, value) in [("begin", vec![0, 1, 0]), ("end", vec![1, 6, 8, 4, 1]), ("stride", vec![1; 3])] {
        row(key, attribute("Slice", key, ints(&value)), Shape, &["of 4 axes", &format!("{key} ")]);
    }
    row(
        "backwards",
        attribute("Slice", "stride", ints(&[1, -1, 1, 1])),
        Shape,
        &["computed are (1, 0, 8, 4)"],
    );
    row(
        "in parts",
        attribute("Split", "sections", ints(&[2, 2])),
        Shape,
        &["'sections' [2, 2], declared results have [1, 3]"],
    );
    let mut other = sample("Split");
    other.results[1].shape[3] = 2;
    row("into less", other, Shape, &["4 elements cannot be split into 2 parts [1, 2]"]);
    let mut other = sample("Split");
    other.results[1] = open(other.results[1].clone(), &[3]);
    row("into an open part", other, Shape, &["a result whose extent is not known"]);
    for padding in [vec![1], vec![0; 10]] {
        row(
            "by these",
            attribute("Pad", "padding", ints(&padding)),
            Shape,
            &["attribute 'padding'", "of 4 axes"],
        );
    }
    row("by a mirror", attribute("Pad", "mode", text("SYMMETRIC")), Unsupported, &["mirrors the edge"]);
    let integers = |sample: Sample| {
        let element = ElementType::Scalar(Scalar::Signed(8));
        let typed = |dtype: &TensorType| TensorType { element: element.clone(), ..dtype.clone() };
        let results = sample.results.iter().map(typed).collect();
        Sample { operands: vec![Given::Input(typed(&image()))], results, ..sample }
    };
    let half = integers(attribute("Pad", "value", float(0.5)));
    row("of integers by halves", half, Unsupported, &["a border of 0.5"]);
    let far = integers(attribute("Pad", "value", float(128.0)));
    row("of integers by more", far, Unsupported, &["[128] as int8"]);
    row(
        "to open extents",
        result("Expand", open(image(), &[0])),
        Unsupported,
        &["extents that the network decides about"],
    );
    row("to fewer", result("Expand", real("NHWC", &[1, 3, 8, 4])), Shape, &["cannot be broadcast"]);
    let two = attribute("Roll", "shifts", ints(&[1, 2])).with("dims", int(1));
    row("by two along one", two, Shape, &["shifts [1, 2] of axes [1]"]);
    let other = operand("Roll", 0, Given::Input(open(image(), &[0])));
    row("of open extents", other, Unsupported, &["extents that the network decides about"]);
    for order in [vec![0, 1, 2, 4], vec![0, 1, 2, -1]] {
        row(
            "by an order",
            attribute("SwapOrder", "order", ints(&order)),
            Shape,
            &["attribute 'order' [0, 1, 2, "],
        );
    }
    for order in [vec![0, 1, 2], vec![0, 1, 2, 3, 3]] {
        let words = format!("an order of {} elements for axis 3", order.len());
        row("by an order", attribute("SwapOrder", "order", ints(&order)), Shape, &[&words]);
    }
    for dims in
        [vec![0, 0, 1, 2], vec![0, 1, 2], vec![0, 1, 2, 4], vec![0, 1, 2, -5], vec![0, 1, 2, i64::MIN]]
    {
        row("of axes", attribute("Transpose", "dims", ints(&dims)), Shape, &["does not permute 4 axes"]);
    }
    row("into three axes", result("Transpose", real("***", &[8, 6, 4])), Shape, &["does not permute 4 axes"]);
    for kind in ["Reshape", "Squeeze"] {
        row("into fewer", result(kind, real("**", &[6, 31])), Shape, &["(1, 6, 8, 4) cannot become [6, 31]"]);
        let words = "a reshape with two extents that the network decides about";
        row("into open ones", result(kind, open(real("***", &[1, 6, 32]), &[0, 1])), Unsupported, &[words]);
    }

    // Images.
    for (kind, key) in [("PixelShuffle", "upscale_factor"), ("ChannelShuffle", "groups")] {
        let other = operand(kind, 0, Given::Input(rank3()));
        row("of rows", other, Unsupported, &["an operand that is not an image"]);
        let words = if key == "groups" { "4 channels in 3 groups" } else { "4 channels for a factor of 3" };
        row("by 3", attribute(kind, key, int(3)), Shape, &[words]);
        let other = operand(kind, 0, Given::Input(open(image(), &[3])));
        row("of open channels", other, Unsupported, &["extents that the network decides about"]);
    }
    row(
        "by much",
        attribute("PixelShuffle", "upscale_factor", int(1 << 40)),
        Shape,
        &["4 channels for a factor"],
    );
    for dsize in [vec![8], vec![8, 6, 1]] {
        row(
            "to a size",
            attribute("Resize", "dsize", ints(&dsize)),
            Shape,
            &["'dsize' is not columns and rows"],
        );
    }
    for dsize in [[8, 7], [9, 6], [-1, 6]] {
        let words = format!("{} rows of {} are asked for, declared are [1, 4, 6, 8]", dsize[1], dsize[0]);
        row("to a size", attribute("Resize", "dsize", ints(&dsize)), Shape, &[&words]);
    }
    for (key, value) in [("height", 13), ("width", 15), ("height", -1)] {
        row(
            key,
            attribute("Upsample", key, int(value)),
            Shape,
            &["are asked for, declared are [1, 4, 12, 16]"],
        );
    }
    let cubic = attribute("Upsample", "interpolation", text("BICUBIC"));
    row("in cubes", cubic, Unsupported, &["cubic interpolation"]);
    let corners = attribute("Upsample", "align_corners", Attribute::Bool(true));
    row("to corners", corners, Unsupported, &["nearest neighbours with aligned corners"]);
    let mut other = sample("Upsample");
    other.results[0] = open(other.results[0].clone(), &[0]);
    row("of open images", other, Unsupported, &["extents that the network decides about"]);

    // Normalizations and slopes.
    for kind in ["LayerNorm", "Normalize"] {
        row(
            "along nothing",
            attribute(kind, "axis", ints(&[])),
            Unsupported,
            &["attribute 'axis' is missing"],
        );
    }
    for (key, name) in [("gamma", "attribute 'gamma'"), ("beta", "attribute 'beta'")] {
        let mut other = sample("LayerNorm");
        other.constants = vec![(key, real("WC", &[8, 4]), zeros(&[8, 4]))];
        row(key, other, Shape, &[name, "has 2 axes, 1 are normalized"]);
    }
    row("of power 3", attribute("Normalize", "p", float(3.0)), Unsupported, &["the norm of power 3"]);
    let pair = real("NC", &[2, 4]);
    let flat = Sample {
        operands: vec![Given::Input(pair.clone())],
        results: vec![pair],
        ..sample("InstanceNorm1d")
    };
    row("of two axes", flat, Shape, &["an operand of 2 axes"]);
    for (kind, key) in [("PReLU", "alpha"), ("BatchNorm2d", "mean"), ("InstanceNorm2d", "gamma")] {
        let mut other = sample(kind);
        for each in other.constants.iter_mut().filter(|each| each.0 == key) {
            *each = (key, real("C", &[3]), zeros(&[3]));
        }
        row("of other channels", other, Shape, &["cannot be broadcast"]);
    }
}

/// Types and constants that say nothing, or too much.
#[test]
fn types_that_do_not_hold_together() {
    let mut wrong = Wrong::default();
    let typed = |element: ElementType| {
        let dtype = || of(element.clone(), "NHWC", &IMAGE);
        Sample { operands: vec![Given::Input(dtype())], results: vec![dtype()], ..unary("Copy") }
    };
    let (storage, expressed) = (Scalar::Signed(8), Scalar::Float(32));
    let scaled = |scales: &[f32], zero_points: &[i64]| {
        typed(ElementType::Quantized {
            storage,
            expressed,
            scale: Scale::Plain(Runs::from_values(-1, scales.iter().copied())),
            zero_points: zero_points.to_vec(),
        })
    };
    let normalized = |ratio: &[f32], scales: &[f32]| {
        typed(ElementType::NormalizedQuantized {
            storage,
            expressed,
            ratio: Runs::from_values(-1, ratio.iter().copied()),
            scale: Scale::Plain(Runs::from_values(-1, scales.iter().copied())),
            zero_points: Vec::new(),
        })
    };
    let each = [0.5, 0.25, 1.0, 2.0];
    for sample in
        [scaled(&each, &[]), scaled(&each, &[0, 1, 2, 3]), scaled(&[0.5], &[3; 4]), normalized(&each, &each)]
    {
        let read = to_graph(&sample.document(), &Options::default());
        assert!(read.is_ok(), "{}", read.err().map_or_else(String::new, |error| error.to_string()));
    }
    let zero_points = ElementType::Normalized {
        storage: expressed,
        expressed,
        ratio: Runs::from_values(-1, [0.5]),
        zero_points: Some(vec![0, 1]),
    };
    let rows = [
        (typed(ElementType::Scalar(Scalar::Signed(4))), "elements of type @sint(4)"),
        (typed(ElementType::Scalar(Scalar::BFloat(16))), "elements of type @bf(16)"),
        (scaled(&[0.0], &[]), "the scale 0"),
        (scaled(&[0.5, 0.25, -1.0, 2.0], &[]), "the scale -1"),
        (scaled(&[f32::NAN], &[]), "the scale NaN"),
        (scaled(&[f32::INFINITY], &[]), "the scale inf"),
        (scaled(&each, &[1, 2, 3]), "3 zero points beside 4 scales"),
        (scaled(&each[..3], &[]), "3 scales for 4 channels"),
        (scaled(&[0.5, 0.25, 1.0, 2.0, 4.0], &[]), "more scales than the 4 channels"),
        (normalized(&each[..3], &each[..2]), "2 scales beside 3 norm ratios"),
        (typed(zero_points), "a normalized type with zero points"),
    ];
    for (sample, words) in rows {
        // The first operation is what the network is given.
        let document = sample.document();
        match to_graph(&document, &Options::default()) {
            Err(error @ Error::Unsupported { .. }) if error.to_string().contains(words) => {}
            other => wrong.0.push(format!("{words}: {:?}", other.err())),
        }
    }
    let mut nameless = scaled(&each, &[]);
    for dtype in &mut nameless.results {
        dtype.layout = "NHW*".parse().expect("a layout");
    }
    nameless.operands = vec![Given::Input(image())];
    wrong.sample("without channels", &nameless, Unsupported, &["scales than the 0 channels"]);

    // Constants.
    let conv = sample("Conv2d");
    let damaged = |change: &dyn Fn(&mut Params)| {
        let mut document = conv.document();
        let weights = document.ops[1].inputs[1].expect("weights");
        change(document.values[weights].params.as_mut().expect("a constant"));
        document
    };
    wrong.check("no data", &damaged(&|params| params.data = None), Shape, &["constant 1 has no data"]);
    let short = damaged(&|params| params.data = params.data.as_ref().map(|data| data.slice(4..)));
    wrong.check("short data", &short, Shape, &["constant 1 has 60 bytes, not those of (1, 1, 4, 4)"]);

    // Values that are not there, or there twice.
    let document = sample("ReLU").document();
    let mut other = document.clone();
    other.ops[1].inputs = vec![Some(99)];
    wrong.check("an operand that is not there", &other, Malformed, &["operation 1 refers to a value"]);
    for attribute in [
        Attribute::Value(99),
        Attribute::List(vec![Attribute::Value(99)]),
        Attribute::Map(BTreeMap::from([("x".to_owned(), Attribute::Value(99))])),
    ] {
        let mut other = document.clone();
        other.ops[1].attributes.insert("x".into(), attribute);
        wrong.check("an attribute that is not there", &other, Malformed, &["operation 1 refers to a value"]);
    }
    let mut other = document.clone();
    other.ops[1].outputs = other.ops[0].outputs.clone();
    wrong.check("an input made again", &other, Shape, &["value 0 is made twice, or is a constant"]);
    let with_constant = Sample { constants: vec![("x", image(), zeros(&IMAGE))], ..unary("ReLU") };
    let mut other = with_constant.document();
    // The constant is the first value.
    other.ops[1].outputs = vec![0];
    wrong.check("a constant made", &other, Shape, &["value 0 is made twice, or is a constant"]);
    let mut other = document.clone();
    other.ops[1].inputs = other.ops[1].outputs.iter().copied().map(Some).collect();
    wrong.check("a value of itself", &other, Shape, &["value 1 is read before it is made"]);
    let mut other = document.clone();
    let again = other.ops[0].outputs[0];
    other.ops[0].outputs.push(again);
    let error = to_graph(&other, &Options::default()).expect_err("an input twice").to_string();
    assert!(error.contains("value 0 is made twice"), "{error}");
    let mut other = document.clone();
    let end = other.ops[2].clone();
    other.ops.push(end);
    let error = to_graph(&other, &Options::default()).expect_err("two ends").to_string();
    assert!(error.contains("the document has several"), "{error}");
    let mut other = document;
    other.ops.truncate(2);
    let error = to_graph(&other, &Options::default()).expect_err("no end").to_string();
    assert!(error.contains("the document has no Output"), "{error}");
}
