//! Functions, pools and quantized operators of XIR documents against formulas, element by element, in several layouts.

use crate::passes_common::Numbers;
use crate::xir_common::{
    check::{F32, NAMES, close, float, images, int, pool_attributes, text},
    net::{Net, Place, graph, ints, plain, quantized, real, run},
};
use triune_graph::{
    Op,
    format::xir::{Attribute, ElementType, Options, Runs, Scalar, Scale, TensorType, to_graph},
    ops::PoolKind,
    passes,
};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Tensor, interpret};

#[test]
fn functions_of_one_operand() {
    type Case = (&'static str, Vec<(&'static str, Attribute)>, fn(f64) -> f64);
    fn erf(x: f64) -> f64 {
        // Series, good for the small arguments here.
        let mut term = x;
        let mut sum = x;
        for n in 1..60_i32 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }
    let cases: Vec<Case> = vec![
        ("ReLU", vec![], |x| x.max(0.0)),
        (
            "ReLU",
            vec![("alpha", float(0.1)), ("max_value", float(f64::INFINITY)), ("threshold", float(0.0))],
            |x| {
                if x < 0.0 { f64::from(0.1_f32) * x } else { x }
            },
        ),
        ("Relu", vec![("max_value", float(0.5))], |x| x.clamp(0.0, 0.5)),
        ("ReLU", vec![("alpha", float(0.5)), ("max_value", float(0.75))], |x| {
            (if x < 0.0 { 0.5 * x } else { x }).min(0.75)
        }),
        ("ReLU", vec![("alpha", float(0.5)), ("threshold", float(0.25))], |x| {
            if x >= 0.25 { x } else { 0.5 * (x - 0.25) }
        }),
        ("Sigmoid", vec![], |x| 1.0 / (1.0 + (-x).exp())),
        ("Tanh", vec![], f64::tanh),
        ("SiLU", vec![], |x| x / (1.0 + (-x).exp())),
        ("Silu", vec![], |x| x / (1.0 + (-x).exp())),
        ("Mish", vec![], |x| x * x.exp().ln_1p().tanh()),
        ("GELU", vec![], |x| x * 0.5 * (1.0 + erf(x / 2.0_f64.sqrt()))),
        ("ELU", vec![("alpha", float(0.5))], |x| if x < 0.0 { 0.5 * x.exp_m1() } else { x }),
        ("Hardsigmoid", vec![], |x| (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        ("Hardsigmoid", vec![("alpha", float(0.25)), ("beta", float(0.125))], |x| {
            (0.25 * x + 0.125).clamp(0.0, 1.0)
        }),
        ("Hardswish", vec![], |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        ("Hardtanh", vec![], |x| x.clamp(-1.0, 1.0)),
        ("Hardtanh", vec![("min_val", float(-0.25)), ("max_val", float(0.5))], |x| x.clamp(-0.25, 0.5)),
        ("Hardshrink", vec![], |x| if x.abs() > 0.5 { x } else { 0.0 }),
        ("Softshrink", vec![("lambda_", float(0.25))], |x| x - x.clamp(-0.25, 0.25)),
        ("Softplus", vec![], |x| x.exp().ln_1p()),
        ("Softplus", vec![("beta", float(2.0)), ("threshold", float(1.0))], |x| {
            if 2.0 * x > 1.0 { x } else { (2.0 * x).exp().ln_1p() / 2.0 }
        }),
        ("Softsign", vec![], |x| x / (1.0 + x.abs())),
        ("Tanhshrink", vec![], |x| x - x.tanh()),
        ("LogSigmoid", vec![], |x| -(-x).exp().ln_1p()),
        ("ClampScalar", vec![("min", float(-0.5)), ("max", float(0.25))], |x| x.clamp(-0.5, 0.25)),
        ("DivideScalar", vec![("divisor", float(0.3))], |x| x / f64::from(0.3_f32)),
        ("DivideScalar", vec![("divisor", float(0.25)), ("rounding_mode", text("FLOOR"))], |x| {
            (x / 0.25).floor()
        }),
        ("DivideScalar", vec![("divisor", float(0.25)), ("rounding_mode", text("TRUNC"))], |x| {
            (x / 0.25).trunc()
        }),
        ("Abs", vec![], f64::abs),
        ("Neg", vec![], |x| -x),
        ("Sin", vec![], f64::sin),
        ("Cos", vec![], f64::cos),
        ("Tan", vec![], f64::tan),
        ("ASin", vec![], f64::asin),
        ("ACos", vec![], f64::acos),
        ("ATan", vec![], f64::atan),
        ("Sinh", vec![], f64::sinh),
        ("Cosh", vec![], f64::cosh),
        ("ASinh", vec![], f64::asinh),
        ("ATanh", vec![], f64::atanh),
        ("Copy", vec![], |x| x),
        ("AlignAxis", vec![], |x| x),
        ("PruneAxis", vec![], |x| x),
        ("Cast", vec![("target_dtype", text("@fp(32)"))], |x| x),
        ("customop::Erf", vec![], erf),
        ("customop::Exp", vec![], f64::exp),
        ("customop::Floor", vec![], f64::floor),
        ("customop::Sign", vec![], f64::signum),
        ("customop::Affine", vec![("alpha", float(0.5)), ("beta", float(-2.0))], |x| 0.5 * x - 2.0),
        ("customop::ThresholdedRelu", vec![("alpha", float(0.25))], |x| if x > 0.25 { x } else { 0.0 }),
    ];
    let x = Numbers::new(3).reals(&[1, 5, 3, 4], 0.99);
    let values = x.reals();
    for (kind, attributes, f) in cases {
        for from in images() {
            for to in [Place::new("NHWC"), Place::new("NCHWc4")] {
                let mut net = Net::default();
                let input = net.input(from.dtype(F32, NAMES, &x.shape));
                let y = net.op(kind, &[input], to.dtype(F32, NAMES, &x.shape), &attributes);
                let found = run(&net.finish(&[y]), &[from.store(NAMES, &x, 5.0)]).remove(0);
                let expected: Vec<f64> = values.iter().map(|&x| f(x)).collect();
                let expected = Tensor::of_floats(DType::F64, &x.shape, &expected);
                let stored = to.store(NAMES, &expected, 0.0);
                close(&found, &stored.reals(), &format!("{kind} {attributes:?} {from:?} {to:?}"));
            }
        }
    }
    for (kind, f) in [("Sqrt", f64::sqrt as fn(f64) -> f64), ("Log", f64::ln), ("ACosh", |x| x.acosh())] {
        let x = Tensor::f32(&[3], &[1.5, 2.0, 7.25]);
        let mut net = Net::default();
        let input = net.input(real("*", &[3]));
        let y = net.op(kind, &[input], real("*", &[3]), &[]);
        let expected: Vec<f64> = x.reals().into_iter().map(f).collect();
        close(&run(&net.finish(&[y]), &[x]).remove(0), &expected, kind);
    }
}

#[test]
fn functions_of_two_operands_find_their_axes() {
    type Case = (&'static str, Vec<(&'static str, Attribute)>, fn(f64, f64) -> f64);
    let list = |value: f64| Attribute::List(vec![float(value)]);
    let cases: Vec<Case> = vec![
        ("Add", vec![], |a, b| a + b),
        ("Add", vec![("alpha", list(1.0)), ("beta", list(-1.0))], |a, b| a - b),
        ("Add", vec![("alpha", list(0.5)), ("beta", float(2.0))], |a, b| 0.5 * a + 2.0 * b),
        ("Multiply", vec![("cut_scale", text("@scales([axis=-1])"))], |a, b| a * b),
        ("Div", vec![("rounding_mode", text("NONE"))], |a, b| a / b),
        ("Maximum", vec![], f64::max),
        ("Minimum", vec![], f64::min),
        ("customop::Atan2", vec![], f64::atan2),
        ("customop::LogAddExp", vec![], |a, b| (a.exp() + b.exp()).ln()),
    ];
    let mut numbers = Numbers::new(4);
    let a = numbers.reals(&[1, 5, 3, 4], 2.0);
    let row = numbers.reals(&[1, 5, 1, 1], 2.0);
    for (kind, attributes, f) in cases {
        for place in images() {
            // The same extents in another layout; one per channel, by name and by position.
            let full = numbers.reals(&[1, 5, 3, 4], 2.0);
            let other = Place::new("NHWC");
            for (b, dtype, stored) in [
                (&full, other.dtype(F32, NAMES, &full.shape), other.store(NAMES, &full, 0.0)),
                (&row, real("C", &[5]), Tensor::f32(&[5], row.as_f32())),
                (&row, real("NHWC", &[1, 1, 1, 5]), Tensor::f32(&[1, 1, 1, 5], row.as_f32())),
            ] {
                let expected: Vec<f64> = (0..60)
                    .map(|at| f(a.reals()[at], b.reals()[if b.elements() == 5 { at / 12 } else { at }]))
                    .collect();
                let expected = Tensor::of_floats(DType::F64, &a.shape, &expected);
                let mut net = Net::default();
                let x = net.input(place.dtype(F32, NAMES, &a.shape));
                let second = net.constant(dtype, &stored);
                let y = net.op(kind, &[x, second], place.dtype(F32, NAMES, &a.shape), &attributes);
                let found = run(&net.finish(&[y]), &[place.store(NAMES, &a, 1.0)]).remove(0);
                close(&found, &place.store(NAMES, &expected, 0.0).reals(), &format!("{kind} {place:?}"));
            }
        }
    }
}

#[test]
fn comparisons_and_choices() {
    let (a, b) = (Tensor::f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), Tensor::f32(&[2, 2], &[2.0, 2.0, 2.0, 5.0]));
    for (kind, expected) in [
        ("Equal", [0, 1, 0, 0]),
        ("NotEqual", [1, 0, 1, 1]),
        ("Greater", [0, 0, 1, 0]),
        ("GreaterEqual", [0, 1, 1, 0]),
        ("Less", [1, 0, 0, 1]),
        ("LessEqual", [1, 1, 0, 1]),
    ] {
        let mut net = Net::default();
        let x = net.input(real("**", &[2, 2]));
        let z = net.input(real("**", &[2, 2]));
        let question = net.op(kind, &[x, z], plain(Scalar::Bool, "**", &[2, 2]), &[]);
        let y = net.op("Where", &[x, z, question], real("**", &[2, 2]), &[]);
        let found = run(&net.finish(&[question, y]), &[a.clone(), b.clone()]);
        assert_eq!(found[0].integers(), expected, "{kind}");
        let choice: Vec<f64> = expected
            .iter()
            .enumerate()
            .map(|(at, &own)| if own == 1 { a.reals()[at] } else { b.reals()[at] })
            .collect();
        assert_eq!(found[1].reals(), choice, "{kind}");
    }
}

#[test]
fn pools_slide_over_images_and_rows() {
    let x = Numbers::new(5).reals(&[1, 5, 6, 7], 2.0);
    let at = |c: usize, row: i64, column: i64| -> Option<f64> {
        let inside = (0..6).contains(&row) && (0..7).contains(&column);
        inside.then(|| x.reals()[(c * 6 + row as usize) * 7 + column as usize])
    };
    for place in images() {
        for (kind, divisor, include) in
            [("MaxPool2d", 0, false), ("AvgPool2d", 0, false), ("AvgPool2d", 0, true), ("Avgpool", 5, false)]
        {
            let (rows, columns) = (4, 4);
            let mut expected = Vec::new();
            for c in 0..5 {
                for row in 0..rows {
                    for column in 0..columns {
                        let taps: Vec<Option<f64>> = (0..6_i64)
                            .map(|tap| at(c, row * 2 - 1 + tap / 2, column * 2 - 1 + tap % 2))
                            .collect();
                        let inside: Vec<f64> = taps.iter().flatten().copied().collect();
                        let sum: f64 = inside.iter().sum();
                        expected.push(match (kind, divisor, include) {
                            ("MaxPool2d", ..) => inside.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                            (_, 0, false) => sum / inside.len() as f64,
                            (_, 0, true) => sum / 6.0,
                            (_, divisor, _) => sum / f64::from(divisor),
                        });
                    }
                }
            }
            let expected = Tensor::of_floats(DType::F64, &[1, 5, 4, 4], &expected);
            // Three rows of two columns, steps of 2.
            let mut attributes = pool_attributes([3, 2], 2, [1, 1, 2, 0]);
            attributes.push(("divisor_override", int(i64::from(divisor))));
            attributes.push(("count_include_pad", Attribute::Bool(include)));
            let mut net = Net::default();
            let input = net.input(place.dtype(F32, NAMES, &x.shape));
            let y = net.op(kind, &[input], place.dtype(F32, NAMES, &[1, 5, 4, 4]), &attributes);
            let found = run(&net.finish(&[y]), &[place.store(NAMES, &x, -9.0)]).remove(0);
            close(&found, &place.store(NAMES, &expected, 0.0).reals(), &format!("{kind} {place:?}"));
        }
    }
    let mut net = Net::default();
    let input = net.input(real("N*C", &[1, 5, 2]));
    let attributes =
        [("pool_width", int(2)), ("stride_width", int(2)), ("pad_left", int(0)), ("pad_right", int(1))];
    let y = net.op("MaxPool1d", &[input], real("N*C", &[1, 3, 2]), &attributes);
    let x = Tensor::f32(&[1, 5, 2], &[1., 9., 2., 8., 3., 7., 4., 6., 5., 0.]);
    assert_eq!(run(&net.finish(&[y]), &[x]).remove(0).as_f32(), [2., 9., 4., 7., 5., 0.]);
}

#[test]
fn ratios_and_scales_along_channels() {
    let x = Tensor::i8(&[1, 1, 2, 3], &[10, 20, 30, -10, -20, -30]);
    let scales = [0.5, 0.25, 2.0];
    let each = TensorType { element: quantized(-1, &scales, 0), ..real("NHWC", &[1, 1, 2, 3]) };
    let ratio = ElementType::Normalized {
        storage: Scalar::Float(32),
        expressed: Scalar::Float(32),
        ratio: Runs::from_values(-1, [4.0, 2.0, 1.0]),
        zero_points: None,
    };
    let mut net = Net::default();
    let input = net.input(each.clone());
    let reals = net.op("Cast", &[input], real("NHWC", &[1, 1, 2, 3]), &[]);
    let normalized =
        net.op("Copy", &[reals], TensorType { element: ratio, ..real("NHWC", &[1, 1, 2, 3]) }, &[]);
    let again = net.op("Cast", &[normalized], each, &[("target_dtype", text("@sint(8)"))]);
    let found = run(&net.finish(&[reals, normalized, again]), std::slice::from_ref(&x));
    assert_eq!(found[0].as_f32(), [5., 5., 60., -5., -5., -60.]);
    assert_eq!(found[1].as_f32(), [1.25, 2.5, 60., -1.25, -2.5, -60.]);
    assert_eq!(found[2], x);
}

#[test]
fn int8_sums_pools_and_tables_are_those_of_onnx_to_the_bit() {
    let mut numbers = Numbers::new(9);
    for place in images() {
        let shape = [1, 5, 4, 6];
        let (a, b) = (numbers.bytes(&shape), numbers.bytes(&shape));
        let params = [0; 3].map(|_| numbers.params(DType::I8, 2.0));
        for kind in ["Add", "Multiply", "AvgPool2d", "MaxPool2d", "SiLU", "Mean"] {
            let binary = matches!(kind, "Add" | "Multiply");
            let mut builder = GraphBuilder::new();
            let x = builder.input("a", DType::I8, &shape);
            let second = binary.then(|| builder.input("b", DType::I8, &shape));
            let dx = builder.dequantize(x, params[0], DType::I8);
            let mut out = shape.to_vec();
            let y = match (kind, second) {
                (_, Some(second)) => {
                    let dz = builder.dequantize(second, params[1], DType::I8);
                    let op = if kind == "Add" {
                        triune_graph::ops::BinaryKind::Add
                    } else {
                        triune_graph::ops::BinaryKind::Mul
                    };
                    builder.binary(op, dx, dz)
                }
                ("AvgPool2d" | "MaxPool2d", None) => {
                    (out[2], out[3]) = (2, 3);
                    let kind = if kind == "MaxPool2d" {
                        PoolKind::Max
                    } else {
                        PoolKind::Average { count_include_pad: false }
                    };
                    builder.pool(kind, dx, 2, 2, 0)
                }
                ("Mean", None) => {
                    (out[2], out[3]) = (1, 1);
                    builder.node(Op::GlobalPool(triune_graph::ops::GlobalPool::AVERAGE), &[dx])
                }
                _ => builder.unary(triune_graph::ops::UnaryKind::Silu, dx),
            };
            let to = if kind == "MaxPool2d" { params[0] } else { params[2] };
            let y = builder.quantize(y, to, DType::I8);
            let mut onnx = builder.finish(&[y]);
            passes::prepare(&mut onnx).expect("a graph");
            let mut given = vec![("a", a.clone())];
            given.extend(binary.then(|| ("b", b.clone())));
            let expected = interpret(&onnx, &given).remove(0);
            let element =
                |params: triune_tensor::QuantParams| quantized(-1, &[params.scale], params.zero_point.into());
            let mut net = Net::default();
            let mut inputs = vec![net.input(place.dtype(element(params[0]), NAMES, &shape))];
            inputs.extend(binary.then(|| net.input(place.dtype(element(params[1]), NAMES, &shape))));
            let axis = |name: char| {
                place.layout.axes.iter().position(|axis| axis.name == name).expect("an axis") as i64
            };
            let attributes = match kind {
                "AvgPool2d" | "MaxPool2d" => pool_attributes([2, 2], 2, [0; 4]),
                "Mean" => vec![("dim", ints(&[axis('H'), axis('W')])), ("keepdim", Attribute::Bool(true))],
                _ => Vec::new(),
            };
            let y = net.op(kind, &inputs, place.dtype(element(to), NAMES, &out), &attributes);
            let mut prepared = graph(&net.finish(&[y]));
            passes::prepare(&mut prepared).expect("a graph");
            let leftover = prepared
                .nodes
                .iter()
                .find(|node| matches!(node.op, Op::DequantizeLinear(_) | Op::QuantizeLinear(_)));
            assert!(leftover.is_none(), "{kind} {place:?}: {leftover:?} is left");
            let names: Vec<String> =
                prepared.inputs.iter().map(|&id| prepared.value(id).name.clone()).collect();
            let stored: Vec<(&str, Tensor)> = names
                .iter()
                .zip([&a, &b])
                .zip(&params)
                .map(|((name, tensor), params)| {
                    (name.as_str(), place.store(NAMES, tensor, params.zero_point.into()))
                })
                .collect();
            let found = interpret(&prepared, &stored).remove(0);
            assert_eq!(found, place.store(NAMES, &expected, to.zero_point.into()), "{kind} {place:?}");
        }
    }
}

#[test]
fn normalizations_and_slopes_of_channels() {
    let x = Tensor::f32(&[1, 2, 1, 2], &[-1., 2., 3., -4.]);
    let place = Place::new("NHWC");
    let mut net = Net::default();
    let input = net.input(place.dtype(F32, NAMES, &x.shape));
    let row = |net: &mut Net, values: &[f32]| net.constant(real("C", &[2]), &Tensor::f32(&[2], values));
    let (factors, addends, slopes) =
        (row(&mut net, &[2., 3.]), row(&mut net, &[0.5, -1.]), row(&mut net, &[0.5, 0.25]));
    let result = place.dtype(F32, NAMES, &x.shape);
    let attributes = [("variance", Attribute::Value(factors)), ("mean", Attribute::Value(addends))];
    let a = net.op("BatchNorm2d", &[input], result.clone(), &attributes);
    let b = net.op("PReLU", &[input], result, &[("alpha", Attribute::Value(slopes))]);
    let found = run(&net.finish(&[a, b]), &[place.store(NAMES, &x, 0.0)]);
    assert_eq!(found[0].as_f32(), [-1.5, 8., 4.5, -13.]);
    assert_eq!(found[1].as_f32(), [-0.5, 3., 2., -1.]);
}

#[test]
fn what_does_not_run_is_said() {
    let one = |kind: &str, attributes: &[(&str, Attribute)]| {
        let mut net = Net::default();
        let x = net.input(real("NHWC", &[1, 4, 4, 2]));
        let y = net.op(kind, &[x], real("NHWC", &[1, 4, 4, 2]), attributes);
        to_graph(&net.finish(&[y]), &Options::default()).map(|_| ()).unwrap_err().to_string()
    };
    let cases: [(String, &str); 7] = [
        (one("HardOp", &[]), "`triune compile --format icraft`"),
        (one("Einsum", &[]), "'Einsum_1 (op_id 1)' (icraft::xir::Einsum): there is no such operator"),
        (one("Upsample", &[("height", int(8)), ("width", int(8))]), "8 rows of 8 are asked for"),
        (one("Transpose", &[("dims", ints(&[0, 0, 1, 2]))]), "does not permute 4 axes"),
        (one("Softmax", &[("axis", int(7))]), "'axis' 7"),
        (one("Pad", &[("mode", text("SYMMETRIC")), ("padding", ints(&[0, 0]))]), "mirrors the edge"),
        (one("MaxPool2d", &[("pool_height", int(0))]), "'pool_height' is not above 0"),
    ];
    for (message, reason) in cases {
        assert!(message.contains(reason), "{message}");
    }
    // A value that is read too early, one that is made twice, a document without an end.
    let mut net = Net::default();
    let x = net.input(real("*", &[4]));
    let y = net.op("ReLU", &[x], real("*", &[4]), &[]);
    let z = net.op("ReLU", &[y], real("*", &[4]), &[]);
    let mut document = net.finish(&[z]);
    document.ops.swap(1, 2);
    let error = to_graph(&document, &Options::default()).unwrap_err().to_string();
    assert!(
        error.contains("'ReLU_2 (op_id 2)'") && error.contains("value 1 is read before it is made"),
        "{error}"
    );
    document.ops[2].outputs = vec![x];
    document.ops.swap(1, 2);
    let error = to_graph(&document, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("value 0 is made twice"), "{error}");
    document.ops[1].outputs = vec![99];
    let error = to_graph(&document, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("operation 1 refers to a value that is not there"), "{error}");
    document.ops[1].outputs = Vec::new();
    document.ops.truncate(1);
    assert!(to_graph(&document, &Options::default()).unwrap_err().to_string().contains("no Output"));
    let scales = ElementType::Quantized {
        storage: Scalar::Signed(8),
        expressed: Scalar::Float(32),
        scale: Scale::Plain(Runs { axis: -1, runs: vec![(u64::MAX - 1, 0.5), (1, 0.25)] }),
        zero_points: Vec::new(),
    };
    let mut net = Net::default();
    let x = net.input(TensorType { element: scales, ..real("NC", &[1, 1 << 40]) });
    let error = to_graph(&net.finish(&[x]), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("more scales than"), "{error}");
}
