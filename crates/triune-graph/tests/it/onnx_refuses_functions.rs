//! What operators that are made of others refuse once they see their operands: each row is a node that is wrong in one way, and
//! the error names it, has its kind, and says what of it.

use crate::onnx_common;
use crate::onnx_common::{Message, float, floats, int, ints, node, tensor, tensor_attribute, text};
use triune_graph::{Error, format::onnx::read_bytes, infer};

/// ONNX's numbers of element types.
const F32: i64 = 1;
const U8: i64 = 2;
const I64: i64 = 7;
const STRING: i64 = 8;
const BOOL: i64 = 9;

/// An operand.
enum Given {
    Missing,
    /// An input of the network.
    Open(i64, &'static [usize]),
    /// A list of integers that are known.
    Ints(&'static [i64]),
    Int(i64),
    Real(f32),
    Reals(&'static [f32]),
    /// A scalar of one byte.
    Byte(i64, u8),
}

use Given::{Byte, Int, Ints, Missing, Open, Real, Reals};

/// Which error it is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Shape,
    Unsupported,
}

struct Row {
    opset: i64,
    domain: &'static str,
    op: &'static str,
    inputs: Vec<Given>,
    results: usize,
    attributes: Vec<Message>,
    kind: Kind,
    words: &'static str,
}

fn row(opset: i64, op: &'static str, inputs: Vec<Given>, kind: Kind, words: &'static str) -> Row {
    Row { opset, domain: "", op, inputs, results: 1, attributes: Vec::new(), kind, words }
}

impl Row {
    fn of(self, attributes: Vec<Message>) -> Self {
        Self { attributes, ..self }
    }

    fn model(&self) -> Vec<u8> {
        let mut graph = Message::default();
        let mut names = Vec::new();
        for (index, input) in self.inputs.iter().enumerate() {
            let name = format!("x{index}");
            let known = |kind, dims: &[i64], bytes: &[u8]| tensor(&name, kind, dims).bytes(9, bytes);
            graph = match input {
                Missing => graph,
                Open(kind, dims) => {
                    let dims = dims.iter().fold(Message::default(), |shape, &dim| {
                        shape.message(1, &Message::default().int(1, dim as i64))
                    });
                    let of = Message::default().int(1, *kind).message(2, &dims);
                    graph.message(
                        11,
                        &Message::default().text(1, &name).message(2, &Message::default().message(1, &of)),
                    )
                }
                Ints(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    graph.message(5, &known(I64, &[values.len() as i64], &bytes))
                }
                Int(value) => graph.message(5, &known(I64, &[], &value.to_le_bytes())),
                Real(value) => graph.message(5, &known(F32, &[], &value.to_le_bytes())),
                Reals(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    graph.message(5, &known(F32, &[values.len() as i64], &bytes))
                }
                Byte(kind, byte) => graph.message(5, &known(*kind, &[], &[*byte])),
            };
            names.push(if matches!(input, Missing) { String::new() } else { name });
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let results: Vec<String> = (0..self.results).map(|index| format!("y{index}")).collect();
        let results: Vec<&str> = results.iter().map(String::as_str).collect();
        let own = node(self.op, &names, &results, &self.attributes).text(3, "it").text(7, self.domain);
        let graph = graph.message(1, &own);
        let graph =
            results.iter().fold(graph, |graph, name| graph.message(12, &Message::default().text(1, name)));
        let file = Message::default().int(1, 7).message(7, &graph);
        let file = file.message(8, &Message::default().text(1, "").int(2, self.opset));
        file.message(8, &Message::default().text(1, "com.microsoft").int(2, 1)).0
    }
}

fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for row in rows {
        let Row { opset, op, kind, words, .. } = row;
        let made = read_bytes(row.model(), None).and_then(|mut graph| infer::infer(&mut graph));
        let Err(error) = made else {
            wrong.push(format!("{op} of opset {opset} is taken; wanted '{words}'"));
            continue;
        };
        let found = match &error {
            Error::Shape { node, .. } if node.starts_with("it") => Some(Kind::Shape),
            Error::Unsupported { node, op: own, .. } if node.starts_with("it") && own == op => {
                Some(Kind::Unsupported)
            }
            _ => None,
        };
        let text = error.to_string();
        if found != Some(*kind) || !text.contains(words) {
            wrong.push(format!("{op} of opset {opset}, {kind:?} '{words}': {text}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn attention() {
    let qkv = |heads: &'static [usize], own: &'static [usize]| {
        vec![Open(F32, heads), Open(F32, own), Open(F32, own)]
    };
    let flat = || vec![Open(F32, &[1, 3, 8]), Open(F32, &[1, 3, 8]), Open(F32, &[1, 3, 8])];
    let past = |mut inputs: Vec<Given>, more: Vec<Given>| {
        inputs.extend(more);
        inputs
    };
    let heads = |query, own| vec![int("q_num_heads", query), int("kv_num_heads", own)];
    let rule = |name: &str| [heads(2, 2), vec![text("update_rule", name)]].concat();
    let before: &[usize] = &[1, 2, 5, 4];
    let square: &[usize] = &[1, 2, 3, 4];
    check(&[
        row(28, "SwiGLU", vec![Open(F32, &[2, 3]), Open(F32, &[3])], Kind::Shape, "a gate (2, 3) for (3)"),
        row(
            24,
            "Attention",
            past(qkv(square, square), vec![Missing, Open(F32, before)]),
            Kind::Shape,
            "keys and values of the past come together",
        ),
        row(
            24,
            "Attention",
            past(qkv(square, square), vec![Missing, Missing, Open(F32, before)]),
            Kind::Shape,
            "keys and values of the past come together",
        ),
        row(
            24,
            "Attention",
            past(qkv(square, square), vec![Missing, Open(F32, before), Open(F32, before), Open(I64, &[1])]),
            Kind::Shape,
            "come together, and without lengths",
        ),
        row(24, "Attention", qkv(&[1, 3, 2, 4], square), Kind::Shape, "3 heads of queries for 2 of keys"),
        row(
            24,
            "Attention",
            vec![Open(F32, square), Open(F32, square), Open(F32, &[1, 1, 3, 4])],
            Kind::Shape,
            "2 heads of queries for 2 of keys",
        ),
        row(27, "LinearAttention", flat(), Kind::Unsupported, "attribute 'q_num_heads' is not positive"),
        row(27, "LinearAttention", flat(), Kind::Unsupported, "attribute 'kv_num_heads' is not positive")
            .of(heads(2, 0)),
        row(27, "LinearAttention", flat(), Kind::Unsupported, "3 heads of queries for 2 of keys")
            .of(heads(3, 2)),
        row(27, "LinearAttention", flat(), Kind::Unsupported, "input 4 (decay) is missing").of(rule("gated")),
        row(27, "LinearAttention", flat(), Kind::Unsupported, "input 5 (beta) is missing").of(rule("delta")),
        row(
            27,
            "LinearAttention",
            past(flat(), vec![Missing, Open(F32, &[1, 3, 2])]),
            Kind::Unsupported,
            "input 4 (decay) has no place",
        )
        .of(rule("linear")),
        row(
            27,
            "LinearAttention",
            past(flat(), vec![Missing, Missing, Open(F32, &[1, 3, 2])]),
            Kind::Unsupported,
            "input 5 (beta) has no place",
        )
        .of(rule("linear")),
    ]);
}

#[test]
fn what_moves_elements() {
    let matrix = || Open(F32, &[2, 3]);
    let image = || Open(F32, &[1, 4, 6, 6]);
    let equation = |text: &str| vec![onnx_common::text("equation", text)];
    let blocks = |image, block| vec![Open(F32, &[1, 4, 9]), Ints(image), Ints(block)];
    check(&[
        row(
            18,
            "Col2Im",
            blocks(&[0, 4], &[2, 2]),
            Kind::Shape,
            "the image [0, 4] is not of positive extents",
        ),
        row(
            18,
            "Col2Im",
            blocks(&[4, 4], &[2, -2]),
            Kind::Shape,
            "the block [2, -2] is not of positive extents",
        ),
        row(18, "Col2Im", blocks(&[], &[]), Kind::Shape, "the image [] is not of positive extents"),
        row(18, "Col2Im", blocks(&[4, 4], &[2]), Kind::Shape, "of blocks of [2]"),
        row(
            12,
            "Einsum",
            vec![matrix()],
            Kind::Shape,
            "the result's axes are not distinct ones of the terms",
        )
        .of(equation("ij->ii")),
        row(
            12,
            "Einsum",
            vec![matrix()],
            Kind::Shape,
            "the result's axes are not distinct ones of the terms",
        )
        .of(equation("ij->ik")),
        row(12, "Einsum", vec![matrix()], Kind::Shape, "a diagonal of (2, 3)").of(equation("ii->i")),
        row(12, "Einsum", vec![matrix()], Kind::Shape, "the term 'i' for 2 dimensions").of(equation("i->i")),
        row(12, "Einsum", vec![matrix()], Kind::Shape, "the term 'ijk' for 2 dimensions")
            .of(equation("ijk->i")),
        row(
            20,
            "AffineGrid",
            vec![Open(F32, &[1, 2, 3]), Ints(&[1, 1, 4])],
            Kind::Shape,
            "none of images or volumes",
        ),
        row(
            20,
            "AffineGrid",
            vec![Open(F32, &[1, 2, 3]), Ints(&[2, 1, 4, 4])],
            Kind::Shape,
            "matrices (1, 2, 3) for 2 axes",
        ),
        row(11, "Range", vec![Int(0), Int(4), Int(0)], Kind::Shape, "a step of 0"),
        row(11, "Range", vec![Real(0.0), Real(1e30), Real(1e-3)], Kind::Shape, "a range of"),
        row(14, "Trilu", vec![Open(F32, &[4])], Kind::Shape, "(4) is no matrix"),
        row(14, "Trilu", vec![matrix(), Ints(&[1, 2])], Kind::Shape, "input 1 is not one integer"),
        row(9, "EyeLike", vec![Open(F32, &[4])], Kind::Shape, "(4) is no matrix"),
        row(9, "EyeLike", vec![Open(F32, &[4, 4, 4])], Kind::Shape, "(4, 4, 4) is no matrix"),
        row(
            11,
            "OneHot",
            vec![Open(I64, &[3]), Int(-1), Reals(&[0.0, 1.0])],
            Kind::Shape,
            "depth is not one known number of elements",
        ),
        row(
            11,
            "OneHot",
            vec![Open(I64, &[3]), Int(i64::MAX), Reals(&[0.0, 1.0])],
            Kind::Shape,
            "depth is not one known number of elements",
        ),
        row(
            11,
            "OneHot",
            vec![Open(I64, &[3]), Int(4), Reals(&[0.0, 1.0, 2.0])],
            Kind::Shape,
            "values (3) are not two",
        ),
        row(
            11,
            "OneHot",
            vec![Open(I64, &[3]), Int(4), Reals(&[0.0, 1.0])],
            Kind::Shape,
            "no axis for indices (3)",
        )
        .of(vec![int("axis", 2)]),
        row(13, "Tile", vec![matrix(), Ints(&[1, 2, 3])], Kind::Shape, "3 repeats for (2, 3)"),
        row(13, "Tile", vec![matrix(), Ints(&[1, -1])], Kind::Shape, "-1 repeats"),
        row(13, "SpaceToDepth", vec![Open(F32, &[4, 6, 6])], Kind::Shape, "(4, 6, 6) is no image")
            .of(vec![int("blocksize", 2)]),
        row(13, "SpaceToDepth", vec![image()], Kind::Shape, "(1, 4, 6, 6) in blocks of 4")
            .of(vec![int("blocksize", 4)]),
        row(13, "SpaceToDepth", vec![image()], Kind::Unsupported, "'blocksize' is not positive")
            .of(vec![int("blocksize", 0)]),
        row(13, "DepthToSpace", vec![image()], Kind::Shape, "4 channels in blocks of 3")
            .of(vec![int("blocksize", 3)]),
        row(13, "DepthToSpace", vec![matrix()], Kind::Shape, "(2, 3) in blocks of 2")
            .of(vec![int("blocksize", 2)]),
        row(18, "CenterCropPad", vec![matrix(), Ints(&[1])], Kind::Shape, "1 extents for 2 axes"),
        row(18, "CenterCropPad", vec![matrix(), Ints(&[1, -1])], Kind::Shape, "an extent of -1"),
        row(18, "CenterCropPad", vec![matrix(), Ints(&[1, 1])], Kind::Shape, "axes [0, -2] name one twice")
            .of(vec![ints("axes", &[0, -2])]),
        row(
            18,
            "CenterCropPad",
            vec![matrix(), Ints(&[1])],
            Kind::Shape,
            "axis 2 is not one of 2 dimensions",
        )
        .of(vec![ints("axes", &[2])]),
        row(
            18,
            "CenterCropPad",
            vec![matrix(), Open(I64, &[2])],
            Kind::Shape,
            "input 1 decides about shapes, but depends on the network's data",
        ),
        row(18, "CenterCropPad", vec![matrix(), Reals(&[1.0, 1.0])], Kind::Shape, "input 1 has type float32"),
        row(9, "Slice", vec![matrix()], Kind::Unsupported, "starts or ends are missing"),
        row(9, "Slice", vec![matrix()], Kind::Unsupported, "starts or ends are missing")
            .of(vec![ints("starts", &[1])]),
        row(2, "Pad", vec![matrix()], Kind::Unsupported, "pads are missing"),
        row(11, "Unsqueeze", vec![matrix()], Kind::Unsupported, "axes are missing"),
    ]);
}

#[test]
fn images_and_spectra() {
    let image = || Open(F32, &[1, 4, 6, 6]);
    let resize = |scales, sizes| vec![image(), Missing, scales, sizes];
    let cubic = || vec![text("mode", "cubic")];
    let window = |extents: &[i64]| vec![ints("kernel_shape", extents)];
    let mel =
        |bands, length, rate, low, high| vec![Int(bands), Int(length), Int(rate), Real(low), Real(high)];
    check(&[
        row(7, "Upsample", vec![image()], Kind::Unsupported, "scales are missing"),
        row(1, "Upsample", vec![image()], Kind::Unsupported, "scales are missing")
            .of(vec![float("height_scale", 2.0)]),
        row(9, "Upsample", vec![image(), Missing], Kind::Unsupported, "input 1 is missing"),
        row(
            18,
            "Resize",
            resize(Missing, Missing),
            Kind::Shape,
            "factors are missing, or depend on the network's data",
        )
        .of(cubic()),
        row(18, "Resize", resize(Reals(&[1.0, 1.0, 2.0]), Missing), Kind::Shape, "factors are missing")
            .of(cubic()),
        row(
            18,
            "Resize",
            resize(Reals(&[1.0, 1.0, 2.0, -1.0]), Missing),
            Kind::Shape,
            "factors [1, 1, 2, -1]",
        )
        .of(cubic()),
        row(
            18,
            "Resize",
            resize(Reals(&[1.0, 1.0, f32::INFINITY, 1.0]), Missing),
            Kind::Shape,
            "factors [1, 1, inf, 1]",
        )
        .of(cubic()),
        row(18, "Resize", resize(Missing, Ints(&[1, 4, 6])), Kind::Shape, "extents [1, 4, 6] for 4 axes")
            .of(cubic()),
        row(
            18,
            "Resize",
            resize(Missing, Ints(&[1, 4, 6, -6])),
            Kind::Shape,
            "extents [1, 4, 6, -6] for 4 axes",
        )
        .of(cubic()),
        row(13, "MaxPool", vec![Open(F32, &[4, 6])], Kind::Shape, "is no image").of(window(&[2, 2, 2])),
        row(13, "MaxPool", vec![Open(F32, &[1, 4, 0, 6, 6])], Kind::Shape, "is no image")
            .of(window(&[2, 2, 2])),
        Row {
            results: 2,
            ..row(
                13,
                "MaxPool",
                vec![Open(F32, &[1, 1, 3000, 3000])],
                Kind::Unsupported,
                "indices of a window of",
            )
            .of(window(&[3000, 3000]))
        },
        row(
            17,
            "MelWeightMatrix",
            mel(0, 16, 8000, 0.0, 4000.0),
            Kind::Shape,
            "input 0 is 0; a positive number",
        ),
        row(
            17,
            "MelWeightMatrix",
            mel(4, -1, 8000, 0.0, 4000.0),
            Kind::Shape,
            "input 1 is -1; a positive number",
        ),
        row(
            17,
            "MelWeightMatrix",
            mel(4, 16, 0, 0.0, 4000.0),
            Kind::Shape,
            "input 2 is 0; a positive number",
        ),
        row(
            17,
            "MelWeightMatrix",
            mel(4, 16, 8000, -1.0, 4000.0),
            Kind::Shape,
            "input 3 is not one known frequency",
        ),
        row(
            17,
            "MelWeightMatrix",
            mel(4, 16, 8000, 0.0, f32::INFINITY),
            Kind::Shape,
            "input 4 is not one known frequency",
        ),
        row(
            17,
            "MelWeightMatrix",
            vec![Int(4), Int(16), Int(8000), Reals(&[0.0, 1.0]), Real(4000.0)],
            Kind::Shape,
            "input 3 is not one known frequency",
        ),
        row(
            17,
            "MelWeightMatrix",
            mel(4, 16, 8000, 3000.0, 100.0),
            Kind::Shape,
            "band 0 reaches from element",
        ),
        row(17, "MelWeightMatrix", mel(4, 16, 8000, 0.0, 8000.0), Kind::Shape, "of a spectrum of 9"),
    ]);
}

#[test]
fn statistics_chance_and_strings() {
    let channels = || Reals(&[1.0; 4]);
    let image = || Open(F32, &[1, 4, 6, 6]);
    let numbers =
        |op, attributes| row(1, op, vec![], Kind::Unsupported, "a type of reals is expected").of(attributes);
    let quantized =
        |dims: &'static [usize]| vec![Open(U8, dims), Real(0.5), Byte(U8, 3), Real(0.25), Byte(U8, 7)];
    check(&[
        row(
            6,
            "InstanceNormalization",
            vec![Open(F32, &[1, 4]), channels(), channels()],
            Kind::Shape,
            "input (1, 4) is no image",
        ),
        row(
            6,
            "InstanceNormalization",
            vec![image(), Open(F32, &[1, 4]), channels()],
            Kind::Shape,
            "(1, 4) where an element per channel is expected",
        ),
        row(
            6,
            "InstanceNormalization",
            vec![image(), channels(), Open(F32, &[4, 1])],
            Kind::Shape,
            "(4, 1) where an element per channel is expected",
        ),
        row(
            21,
            "GroupNormalization",
            vec![image(), channels(), channels()],
            Kind::Unsupported,
            "'num_groups' is not positive",
        ),
        row(
            21,
            "GroupNormalization",
            vec![image(), channels(), channels()],
            Kind::Unsupported,
            "'num_groups' is not positive",
        )
        .of(vec![int("num_groups", -2)]),
        row(
            13,
            "Dropout",
            vec![image(), Real(0.5), Byte(BOOL, 1)],
            Kind::Unsupported,
            "input 2 (training_mode) is not false",
        ),
        row(
            13,
            "Dropout",
            vec![image(), Missing, Open(BOOL, &[])],
            Kind::Unsupported,
            "input 2 (training_mode) is not false",
        ),
        numbers("RandomNormal", vec![int("dtype", I64), ints("shape", &[2])]),
        numbers("RandomUniform", vec![int("dtype", U8), ints("shape", &[2])]),
        Row {
            domain: "com.microsoft",
            ..row(13, "QLinearGlobalAveragePool", quantized(&[4]), Kind::Shape, "has no channels")
        },
        row(
            13,
            "Add",
            vec![Open(STRING, &[2]), Open(F32, &[2])],
            Kind::Unsupported,
            "input 0 is of strings, and numbers are expected",
        ),
        row(
            13,
            "Add",
            vec![Open(F32, &[2]), Open(STRING, &[2])],
            Kind::Unsupported,
            "input 1 is of strings, and numbers are expected",
        ),
        row(
            13,
            "Gather",
            vec![Open(STRING, &[2]), Open(STRING, &[2])],
            Kind::Unsupported,
            "input 1 is of strings, and numbers are expected",
        ),
        row(
            20,
            "StringConcat",
            vec![Open(STRING, &[2]), Open(F32, &[2])],
            Kind::Unsupported,
            "input 1 is of numbers, and strings are expected",
        ),
        row(
            20,
            "StringSplit",
            vec![Open(I64, &[2])],
            Kind::Unsupported,
            "input 0 is of numbers, and strings are expected",
        ),
        row(
            18,
            "ScatterElements",
            vec![Open(STRING, &[2]), Open(I64, &[2]), Open(STRING, &[2])],
            Kind::Unsupported,
            "'reduction': strings cannot be calculated with",
        )
        .of(vec![text("reduction", "add")]),
        row(13, "Cast", vec![Open(STRING, &[2])], Kind::Unsupported, "strings cannot be read as bool")
            .of(vec![int("to", BOOL)]),
        row(13, "ConstantOfShape", vec![Ints(&[2])], Kind::Unsupported, "'value' does not have one element")
            .of(vec![tensor_attribute("value", &onnx_common::f32s("", &[2], &[1.0, 2.0]))]),
        row(1, "Constant", vec![], Kind::Unsupported, "exactly one of the value attributes")
            .of(vec![floats("value_floats", &[1.0]), int("value_int", 3)]),
    ]);
}

/// Sequences of numbers: one of one number, and one of two.
#[test]
fn counted_sequences() {
    let count = |words: &'static str, name: &str, attribute: Message| {
        let all = [
            ("min_gram_length", int("min_gram_length", 1)),
            ("max_gram_length", int("max_gram_length", 2)),
            ("max_skip_count", int("max_skip_count", 0)),
            ("pool_int64s", ints("pool_int64s", &[7, 3, 4])),
            ("ngram_counts", ints("ngram_counts", &[0, 1])),
            ("ngram_indexes", ints("ngram_indexes", &[1, 0])),
        ];
        let others = all.into_iter().filter(|(own, _)| *own != name).map(|(_, each)| each);
        let attributes = others.chain([text("mode", "TF"), attribute]).collect();
        row(9, "TfIdfVectorizer", vec![Open(I64, &[5])], Kind::Unsupported, words).of(attributes)
    };
    check(&[
        count("sequences of 0 to 2 numbers", "min_gram_length", int("min_gram_length", 0)),
        count("sequences of 3 to 2 numbers", "min_gram_length", int("min_gram_length", 3)),
        count("attribute 'max_skip_count' = -1", "max_skip_count", int("max_skip_count", -1)),
        count("sequences of 1 from 0 to 4", "ngram_counts", ints("ngram_counts", &[0, 4])),
        count("sequences of 2 from 2 to 3", "ngram_counts", ints("ngram_counts", &[0, 2])),
        count("sequences of 1 from 1 to 0", "ngram_counts", ints("ngram_counts", &[1, 0])),
        count("2 sequences for 3 places", "ngram_indexes", ints("ngram_indexes", &[1, 0, 2])),
        count("a place beyond 16777216", "ngram_indexes", ints("ngram_indexes", &[1, 1 << 24])),
        count("1 weights for 2 sequences", "weights", floats("weights", &[0.5])),
        count("3 weights for 2 sequences", "weights", floats("weights", &[0.5, 1.0, 2.0])),
        row(
            9,
            "TfIdfVectorizer",
            vec![Open(I64, &[5])],
            Kind::Unsupported,
            "attribute 'min_gram_length' is missing",
        )
        .of(vec![text("mode", "TF")]),
    ]);
}

#[test]
fn data_beside_the_model_stays_in_its_folder() {
    let folder = std::env::temp_dir().join(format!("triune-onnx-refuses-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("model/part")).expect("a folder");
    std::fs::write(folder.join("secret"), [0; 64]).expect("a file");
    std::fs::write(folder.join("model/data"), (0..16).collect::<Vec<u8>>()).expect("a file");
    std::os::unix::fs::symlink("../secret", folder.join("model/link")).expect("a link");
    let read = |entries: &[(&str, &str)]| {
        let entry = |&(key, value): &(&str, &str)| Message::default().text(1, key).text(2, value);
        let tensor =
            entries.iter().fold(tensor("w", F32, &[2]), |m, each| m.message(13, &entry(each))).int(14, 1);
        let graph = Message::default().message(1, &node("Identity", &["w"], &["y"], &[])).message(5, &tensor);
        let graph = graph.message(12, &Message::default().text(1, "y"));
        let file = Message::default().int(1, 7).message(7, &graph);
        let bytes = file.message(8, &Message::default().text(1, "").int(2, 13)).0;
        read_bytes(bytes, Some(&folder.join("model")))
    };
    let elements = |graph: &triune_graph::Graph| {
        let w = graph.find_value("w").expect("a constant");
        graph.value(w).constant.as_ref().expect("a constant").bytes().to_vec()
    };
    let whole = read(&[("location", "data"), ("offset", "4"), ("length", "8")]).expect("a model");
    assert_eq!(elements(&whole), (4..12).collect::<Vec<u8>>());
    let rest = read(&[("location", "./data"), ("offset", "8")]).expect("a model");
    assert_eq!(elements(&rest), (8..16).collect::<Vec<u8>>());
    let mut wrong = Vec::new();
    for (entries, words) in [
        (&[("location", "../secret")][..], "location '../secret' leaves the model's folder"),
        (&[("location", "part/../../secret")], "leaves the model's folder"),
        (&[("location", "/etc/hostname")], "leaves the model's folder"),
        (&[("location", "")], "location '' leaves the model's folder"),
        (&[("location", "link")], "location 'link' leads out of the model's folder"),
        (&[("location", "none")], "No such file or directory"),
        (&[("location", "data"), ("offset", "x")], "offset 'x' is no number"),
        (&[("location", "data"), ("offset", "9"), ("length", "8")], "bytes 9 + 8 of 'data', which has 16"),
        (&[("location", "data"), ("offset", "17")], "bytes 17 + 0 of 'data', which has 16"),
        (
            &[("location", "data"), ("offset", "8"), ("length", "18446744073709551615")],
            "of 'data', which has 16",
        ),
        (&[("location", "data"), ("length", "4")], "does not fit 4 bytes of data"),
    ] {
        match read(entries) {
            Ok(_) => wrong.push(format!("{entries:?} is read; wanted '{words}'")),
            Err(error) if error.to_string().contains(words) => {}
            Err(error) => wrong.push(format!("{entries:?}, '{words}': {error}")),
        }
    }
    std::fs::remove_dir_all(&folder).expect("removed");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
