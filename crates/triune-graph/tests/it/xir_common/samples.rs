//! Every operator of XIR in a form that is read, to be changed by what is wrong in one way; and the check that it is refused.

use triune_graph::{
    Error,
    format::xir::{Attribute, Document, ExpScale, Options, Runs, Scalar, Scale, TensorType, to_graph},
};
use triune_testing::Tensor;

use super::{
    check::{float, int, text},
    net::{Net, ints, plain, quantized, real},
};

/// What kind an error is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// The document does not hold together.
    Malformed,
    /// What is asked for does not run.
    Unsupported,
    /// Operands and results do not fit.
    Shape,
}

/// What an attribute has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Takes {
    /// A whole number.
    Int,
    /// A whole number that is not negative.
    Size,
    /// A whole number above 0.
    Extent,
    /// A number.
    Number,
    /// A number or several.
    Numbers,
    /// Whole numbers.
    Ints,
    /// A truth value.
    Flag,
    /// A member of an enumeration.
    Choice,
    /// A constant.
    Constant,
    /// A list of scales without any.
    Cut,
    /// An element type.
    Type,
}

impl Takes {
    /// What such an attribute may not be, and what the error says then.
    pub(crate) fn refused(self) -> Vec<(Attribute, &'static str)> {
        let list = |item: Attribute| Attribute::List(vec![item]);
        let whole = [text("1"), float(1.0), Attribute::Bool(true), list(int(1))];
        let whole = whole.map(|other| (other, "is not a whole number"));
        let exponents =
            Scale::Exp(Runs { axis: -1, runs: vec![(1, ExpScale { m: 3, exp: 1, origin: 1.5 })] });
        let none = |others: &[Attribute], words| others.iter().map(|other| (other.clone(), words)).collect();
        match self {
            Self::Int => whole.to_vec(),
            Self::Size => [&whole[..], &[(int(-1), "is not 0 or more")]].concat(),
            Self::Extent => {
                [&whole[..], &[(int(-1), "is not 0 or more"), (int(0), "is not above 0")]].concat()
            }
            Self::Number => none(&[text("1"), Attribute::Bool(true), list(int(1))], "is not a number"),
            Self::Numbers => none(&[text("1"), list(text("1"))], "is not a list of numbers"),
            Self::Ints => none(&[text("1"), float(1.0), list(float(1.0))], "is not a list of whole numbers"),
            Self::Flag => none(&[int(2), int(-1), text("true"), float(1.0)], "is not a bool"),
            Self::Choice => none(&[text("NOTHING"), int(99), int(-1), float(0.0)], "is not one of "),
            Self::Constant => none(&[int(0), text("0")], "is not a constant"),
            Self::Cut => vec![
                (text("@scales([axis=-1]0.5)"), "is set; what it does is not public"),
                (text(&exponents.to_string()), "is set; what it does is not public"),
                (text("@scales("), ": "),
                (int(1), "is not a list of scales"),
            ],
            Self::Type => vec![
                (int(8), "is not a type"),
                (text("@sint(65)"), ": "),
                (text("@sint(8)"), "is @sint(8), its result is declared @fp(32)"),
                (
                    Attribute::Type(Box::new(plain(Scalar::Float(16), "*", &[1]))),
                    "is @fp(16), its result is declared @fp(32)",
                ),
                (
                    Attribute::Element(Box::new(quantized(-1, &[0.5], 0))),
                    "is @sint(8), its result is declared @fp(32)",
                ),
            ],
        }
    }
}

/// An operand of a sample.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    /// A value that the network is given.
    Input(TensorType),
    /// A constant.
    Constant(TensorType, Tensor),
}

/// One operation that is read without a complaint.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) kind: &'static str,
    pub(crate) operands: Vec<Given>,
    /// How many of the operands have to be there.
    pub(crate) needed: usize,
    pub(crate) results: Vec<TensorType>,
    /// Attributes with a value; those that have to be there come first.
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
    /// Constants among the attributes.
    pub(crate) constants: Vec<(&'static str, TensorType, Tensor)>,
    /// Attributes that have to be there.
    pub(crate) needs: Vec<&'static str>,
    /// What each attribute has to be, given or not.
    pub(crate) takes: Vec<(&'static str, Takes)>,
}

impl Sample {
    pub(crate) fn document(&self) -> Document {
        let mut net = Net::default();
        let mut attributes = self.attributes.clone();
        for (key, dtype, data) in &self.constants {
            attributes.push((key, Attribute::Value(net.constant(dtype.clone(), data))));
        }
        let operands: Vec<usize> = (self.operands.iter())
            .map(|operand| match operand {
                Given::Input(dtype) => net.input(dtype.clone()),
                Given::Constant(dtype, data) => net.constant(dtype.clone(), data),
            })
            .collect();
        let results = net.op_many(self.kind, &operands, &self.results, &attributes);
        net.finish(&results)
    }

    pub(crate) fn with(&self, key: &'static str, value: Attribute) -> Self {
        let mut other = self.clone();
        other.attributes.retain(|(own, _)| *own != key);
        other.constants.retain(|(own, ..)| *own != key);
        other.attributes.push((key, value));
        other
    }

    pub(crate) fn without(&self, key: &'static str) -> Self {
        self.with(key, Attribute::Null)
    }
}

pub(crate) const IMAGE: [usize; 4] = [1, 6, 8, 4];

pub(crate) fn image() -> TensorType {
    real("NHWC", &IMAGE)
}

pub(crate) fn zeros(shape: &[usize]) -> Tensor {
    Tensor::f32(shape, &vec![0.0; shape.iter().product()])
}

pub(crate) fn constant(layout: &str, shape: &[usize]) -> Given {
    Given::Constant(real(layout, shape), zeros(shape))
}

/// A function of an image that keeps its extents.
pub(crate) fn unary(kind: &'static str) -> Sample {
    Sample {
        kind,
        operands: vec![Given::Input(image())],
        needed: 1,
        results: vec![image()],
        attributes: Vec::new(),
        constants: Vec::new(),
        needs: Vec::new(),
        takes: Vec::new(),
    }
}

/// Attributes of a window.
fn window(rows: bool) -> Vec<(&'static str, Takes)> {
    let mut takes = vec![
        ("stride_width", Takes::Extent),
        ("dilation_width", Takes::Extent),
        ("pad_left", Takes::Size),
        ("pad_right", Takes::Size),
    ];
    if rows {
        takes.extend([
            ("stride_height", Takes::Extent),
            ("dilation_height", Takes::Extent),
            ("pad_top", Takes::Size),
            ("pad_bottom", Takes::Size),
        ]);
    }
    takes
}

fn convolution(kind: &'static str) -> Sample {
    let rows = !kind.ends_with("1d");
    let (dtype, weights) = if rows {
        (real("NHWC", &IMAGE), constant("HWIO", &[1, 1, 4, 4]))
    } else {
        (real("N*C", &[1, 8, 4]), constant("WIO", &[1, 4, 4]))
    };
    let mut takes = window(rows);
    takes.push(("groups", Takes::Extent));
    if kind.contains("Transpose") {
        takes.push(("output_pad_width", Takes::Size));
        if rows {
            takes.push(("output_pad_height", Takes::Size));
        }
    } else {
        takes.extend([("padding_mode", Takes::Choice), ("cut_scale", Takes::Cut)]);
    }
    Sample {
        operands: vec![Given::Input(dtype.clone()), weights, constant("O", &[4])],
        needed: 2,
        results: vec![dtype],
        takes,
        ..unary(kind)
    }
}

fn pooling(kind: &'static str) -> Sample {
    let rows = !kind.ends_with("1d");
    let mut takes = window(rows);
    takes.extend([
        ("pool_width", Takes::Extent),
        ("divisor_override", Takes::Size),
        ("count_include_pad", Takes::Flag),
    ]);
    if rows {
        takes.push(("pool_height", Takes::Extent));
        return Sample { takes, ..unary(kind) };
    }
    let dtype = real("N*C", &[1, 8, 4]);
    Sample { operands: vec![Given::Input(dtype.clone())], results: vec![dtype], takes, ..unary(kind) }
}

/// An operator in a form that is read.
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub(crate) fn sample(kind: &'static str) -> Sample {
    let one = unary(kind);
    let takes = |takes: &[(&'static str, Takes)]| Sample { takes: takes.to_vec(), ..unary(kind) };
    let binary =
        || Sample { operands: vec![Given::Input(image()), Given::Input(image())], needed: 2, ..unary(kind) };
    let needing = |given: &[(&'static str, Attribute)], sample: Sample| Sample {
        attributes: given.to_vec(),
        needs: given.iter().map(|(key, _)| *key).collect(),
        ..sample
    };
    let channels = |keys: &[&'static str]| -> Vec<(&'static str, TensorType, Tensor)> {
        keys.iter().map(|key| (*key, real("C", &[4]), zeros(&[4]))).collect()
    };
    match kind {
        "Add" => Sample { takes: vec![("alpha", Takes::Numbers), ("beta", Takes::Numbers)], ..binary() },
        "Multiply" => Sample { takes: vec![("cut_scale", Takes::Cut)], ..binary() },
        "Div" => Sample { takes: vec![("rounding_mode", Takes::Choice)], ..binary() },
        "Maximum" | "Minimum" => binary(),
        "Equal" | "Greater" | "GreaterEqual" | "Less" | "LessEqual" | "NotEqual" => {
            Sample { results: vec![plain(Scalar::Bool, "NHWC", &IMAGE)], ..binary() }
        }
        "Where" => Sample {
            operands: vec![
                Given::Input(image()),
                Given::Input(image()),
                Given::Input(plain(Scalar::Bool, "NHWC", &IMAGE)),
            ],
            needed: 3,
            ..one
        },
        "Argmax" | "Argmin" => Sample {
            results: vec![plain(Scalar::Signed(64), "NHW", &[1, 6, 8])],
            attributes: vec![("dim", int(-1))],
            takes: vec![("dim", Takes::Ints), ("keepdim", Takes::Flag)],
            ..one
        },
        "Max" | "Mean" | "Min" | "Sum" => Sample {
            attributes: vec![("dim", int(1)), ("keepdim", Attribute::Bool(true))],
            results: vec![real("NHWC", &[1, 1, 8, 4])],
            takes: vec![("dim", Takes::Ints), ("keepdim", Takes::Flag)],
            ..one
        },
        "AvgPool1d" | "AvgPool2d" | "Avgpool" | "MaxPool1d" | "MaxPool2d" | "Maxpool" => pooling(kind),
        "BatchNorm1d" | "BatchNorm2d" | "BatchNorm3d" | "Batchnorm" => Sample {
            constants: channels(&["variance", "mean"]),
            needs: vec!["variance", "mean"],
            takes: vec![("variance", Takes::Constant), ("mean", Takes::Constant)],
            ..one
        },
        "InstanceNorm1d" | "InstanceNorm2d" | "InstanceNorm3d" => Sample {
            constants: channels(&["gamma", "beta"]),
            takes: vec![("gamma", Takes::Constant), ("beta", Takes::Constant), ("eps", Takes::Number)],
            ..one
        },
        "LayerNorm" | "Layernorm" => Sample {
            constants: channels(&["gamma", "beta"]),
            takes: vec![
                ("axis", Takes::Ints),
                ("gamma", Takes::Constant),
                ("beta", Takes::Constant),
                ("eps", Takes::Number),
            ],
            ..needing(&[("axis", ints(&[3]))], one)
        },
        "Normalize" => Sample {
            takes: vec![("axis", Takes::Ints), ("eps", Takes::Number), ("p", Takes::Number)],
            ..needing(&[("axis", ints(&[3]))], one)
        },
        "PReLU" | "Prelu" => {
            Sample { constants: channels(&["alpha"]), takes: vec![("alpha", Takes::Constant)], ..one }
        }
        "Cast" => Sample {
            attributes: vec![("target_dtype", text("@fp(32)"))],
            takes: vec![("target_dtype", Takes::Type)],
            ..one
        },
        "ChannelShuffle" => takes(&[("groups", Takes::Extent)]),
        "PixelShuffle" => takes(&[("upscale_factor", Takes::Extent)]),
        "ClampScalar" => takes(&[("min", Takes::Number), ("max", Takes::Number)]),
        "Concat" => Sample {
            results: vec![real("NHWC", &[1, 6, 8, 8])],
            takes: vec![("axis", Takes::Int)],
            ..binary()
        },
        "Conv1d" | "Conv2d" | "Conv2dTranspose" | "ConvTranspose1d" | "ConvTranspose2d" => convolution(kind),
        "DivideScalar" => takes(&[("divisor", Takes::Number), ("rounding_mode", Takes::Choice)]),
        "ELU" | "Elu" => takes(&[("alpha", Takes::Number)]),
        "Hardshrink" | "Softshrink" => takes(&[("lambda_", Takes::Number), ("lambda", Takes::Number)]),
        "Hardsigmoid" => takes(&[("alpha", Takes::Number), ("beta", Takes::Number)]),
        "Hardtanh" => takes(&[("min_val", Takes::Number), ("max_val", Takes::Number)]),
        "LogSoftmax" | "Softmax" => takes(&[("axis", Takes::Int)]),
        "Matmul" => Sample {
            operands: vec![Given::Input(real("NC", &[2, 4])), constant("IO", &[4, 3]), constant("*", &[3])],
            needed: 2,
            results: vec![real("NC", &[2, 3])],
            takes: vec![("cut_scale", Takes::Cut)],
            ..one
        },
        "Pad" => Sample {
            results: vec![real("NHWC", &[1, 6, 8, 7])],
            takes: vec![("padding", Takes::Ints), ("mode", Takes::Choice), ("value", Takes::Number)],
            ..needing(&[("padding", ints(&[1, 2]))], one)
        },
        "ReLU" | "Relu" => {
            takes(&[("alpha", Takes::Number), ("max_value", Takes::Number), ("threshold", Takes::Number)])
        }
        "Resize" => Sample {
            takes: vec![("dsize", Takes::Ints), ("interpolation", Takes::Choice)],
            ..needing(&[("dsize", ints(&[8, 6]))], one)
        },
        "Roll" => Sample {
            takes: vec![("shifts", Takes::Ints), ("dims", Takes::Ints)],
            ..needing(&[("shifts", ints(&[1]))], one)
        },
        "Slice" => Sample {
            results: vec![real("NHWC", &[1, 5, 8, 4])],
            takes: vec![("begin", Takes::Ints), ("end", Takes::Ints), ("stride", Takes::Ints)],
            ..needing(&[("begin", ints(&[0, 1, 0, 0])), ("end", ints(&[1, 6, 8, 4]))], one)
        },
        "Softplus" => takes(&[("beta", Takes::Number), ("threshold", Takes::Number)]),
        "Split" => Sample {
            results: vec![real("NHWC", &[1, 6, 8, 1]), real("NHWC", &[1, 6, 8, 3])],
            takes: vec![("axis", Takes::Int), ("sections", Takes::Ints)],
            ..one
        },
        "Stack" => Sample {
            results: vec![real("*****", &[2, 1, 6, 8, 4])],
            takes: vec![("dim", Takes::Int)],
            ..binary()
        },
        "Unstack" => {
            Sample { results: vec![real("***", &[6, 8, 4])], takes: vec![("dim", Takes::Int)], ..one }
        }
        "SwapOrder" => Sample {
            takes: vec![("order", Takes::Ints), ("axis", Takes::Int)],
            ..needing(&[("order", ints(&[3, 1, 2, 0]))], one)
        },
        "Transpose" => Sample {
            results: vec![real("****", &[1, 8, 6, 4])],
            takes: vec![("dims", Takes::Ints)],
            ..needing(&[("dims", ints(&[0, 2, 1, 3]))], one)
        },
        "Upsample" => Sample {
            results: vec![real("NHWC", &[1, 12, 16, 4])],
            takes: vec![
                ("height", Takes::Int),
                ("width", Takes::Int),
                ("interpolation", Takes::Choice),
                ("align_corners", Takes::Flag),
            ],
            attributes: vec![("height", int(12)), ("width", int(16))],
            ..one
        },
        _ => one,
    }
}

/// Rows whose documents are not refused as they should be.
#[derive(Default)]
pub(crate) struct Wrong(pub(crate) Vec<String>);

impl Wrong {
    /// A document whose operation number 1 is refused.
    pub(crate) fn check(&mut self, what: &str, document: &Document, kind: Kind, words: &[&str]) {
        let kind_of = document.ops[1].type_key.trim_start_matches("icraft::xir::");
        let title = format!("node '{kind_of}_1 (op_id 1)' (");
        match to_graph(document, &Options::default()) {
            Ok(_) => self.0.push(format!("{what}: is read")),
            Err(error) => {
                let found = match &error {
                    Error::Malformed { format: "XIR", .. } => Some(Kind::Malformed),
                    Error::Unsupported { .. } => Some(Kind::Unsupported),
                    Error::Shape { .. } => Some(Kind::Shape),
                    _ => None,
                };
                let message = error.to_string();
                let named = kind == Kind::Malformed || message.contains(&title);
                if found != Some(kind) || !named || !words.iter().all(|word| message.contains(word)) {
                    self.0.push(format!("{what}: expected {kind:?} {words:?}, found {error:?}"));
                }
            }
        }
    }

    pub(crate) fn sample(&mut self, what: &str, sample: &Sample, kind: Kind, words: &[&str]) {
        self.check(&format!("{} {what}", sample.kind), &sample.document(), kind, words);
    }
}

impl Drop for Wrong {
    fn drop(&mut self) {
        assert!(
            std::thread::panicking() || self.0.is_empty(),
            "{} rows:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}
