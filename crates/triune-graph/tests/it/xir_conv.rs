//! Convolutions of XIR documents against the same ones written as ONNX has them, in all layouts.

use crate::passes_common::Numbers;
use crate::xir_common::net::{Net, Place, graph, plain, quantized, real, run};
use triune_graph::{
    Op,
    format::xir::{
        Attribute, Document, ElementType, ExpScale, Options, Runs, Scalar, Scale, TensorType, to_graph,
    },
    passes,
};
use triune_tensor::{DType, QuantParams, Requantize};
use triune_testing::{GraphBuilder, Random, Tensor, Window, interpret};

const NAMES: &str = "NCHW";

/// The window of a 1×1 kernel.
const POINT: Window = Window { kernel: [1; 2], stride: [1; 2], dilation: [1; 2], pad: [0; 4] };

/// A window of 3 × 3 elements whose sides differ, and which keeps the extents.
const UNEVEN: Window = Window { kernel: [3; 2], stride: [1; 2], dilation: [2, 1], pad: [3, 0, 1, 2] };

fn attributes(window: Window, groups: usize) -> Vec<(&'static str, Attribute)> {
    let int = |value: usize| Attribute::Int(value as i64);
    let Window { stride, dilation, pad: [top, left, bottom, right], .. } = window;
    vec![
        ("stride_height", int(stride[0])),
        ("stride_width", int(stride[1])),
        ("pad_top", int(top)),
        ("pad_bottom", int(bottom)),
        ("pad_left", int(left)),
        ("pad_right", int(right)),
        ("dilation_height", int(dilation[0])),
        ("dilation_width", int(dilation[1])),
        ("groups", int(groups)),
        ("padding_mode", Attribute::Text("ZEROS".into())),
        ("cut_scale", Attribute::Text("@scales([axis=-1])".into())),
    ]
}

/// Layouts of an image of `inputs` channels, of weights, of a bias, and of a result.
fn places(inputs: usize) -> Vec<(Place, Place, Place, Place)> {
    let sections = |channels: usize| [(1, 2), (4, 4 + channels - 1)];
    let gaps = |channels: usize| (channels + 8).next_multiple_of(4);
    vec![
        (Place::new("NHWC"), Place::new("HWIO"), Place::new("O"), Place::new("NHWC")),
        (Place::new("NCHW"), Place::new("OIHW"), Place::new("O"), Place::new("NHWC")),
        (Place::new("NCHWc4"), Place::new("OIHWo4i4"), Place::new("Oo4"), Place::new("NCHWc4")),
        (Place::new("NHWC"), Place::new("HWIO"), Place::new("O"), Place::new("NHWCc4")),
        // Padding between channels, which the weights of the operand have rows for.
        (
            Place::new("NCHWc4").padded('C', &sections(inputs), gaps(inputs)),
            Place::new("OIHWo4i4").padded('I', &sections(inputs), gaps(inputs)),
            Place::new("Oo4"),
            Place::new("NCHWc8"),
        ),
    ]
}

struct Case {
    x: Tensor,
    w: Tensor,
    b: Tensor,
    window: Window,
    groups: usize,
}

impl Case {
    fn new(numbers: &mut Numbers, inputs: usize, outputs: usize, groups: usize) -> Self {
        let window = Random(numbers.below(1 << 32)).window([6, 7], [3, 4]);
        Self {
            x: numbers.reals(&[1, inputs, 6, 7], 2.0),
            w: numbers.reals(&[outputs, inputs / groups, window.kernel[0], window.kernel[1]], 1.0),
            b: numbers.reals(&[outputs], 1.0),
            window,
            groups,
        }
    }

    fn expected(&self) -> Tensor {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &self.x.shape);
        let (w, b) = (builder.constant(&self.w), builder.constant(&self.b));
        let y = builder.conv_window(&[x, w, b], self.window, self.groups);
        interpret(&builder.finish(&[y]), &[("x", self.x.clone())]).remove(0)
    }
}

#[test]
fn convolutions_of_reals_are_the_same_in_every_layout() {
    let mut numbers = Numbers::new(1);
    let channels = [(3, 5, 1), (8, 4, 1), (6, 6, 6), (5, 9, 1), (4, 8, 2)];
    for (inputs, outputs, groups) in channels.into_iter().cycle().take(15) {
        let case = Case::new(&mut numbers, inputs, outputs, groups);
        let expected = case.expected();
        for (px, pw, pb, py) in places(inputs) {
            if groups > 1 && (!pw.padded.is_empty()) {
                continue;
            }
            let mut net = Net::default();
            let f32s = ElementType::Scalar(Scalar::Float(32));
            let x = net.input(px.dtype(f32s.clone(), NAMES, &case.x.shape));
            let w =
                net.constant(pw.dtype(f32s.clone(), "OIHW", &case.w.shape), &pw.store("OIHW", &case.w, 9.0));
            let b = net.constant(pb.dtype(f32s.clone(), "O", &case.b.shape), &pb.store("O", &case.b, 9.0));
            let attributes = attributes(case.window, groups);
            let result = py.dtype(f32s, NAMES, &expected.shape);
            let y = net.op("Conv2d", &[x, w, b], result, &attributes);
            let document = net.finish(&[y]);
            let found = run(&document, &[px.store(NAMES, &case.x, 7.0)]).remove(0);
            assert_eq!(found, py.store(NAMES, &expected, 0.0), "{px:?} {pw:?} {py:?}");
        }
    }
}

/// A document of one int8 convolution, and the ONNX graph that says the same.
fn integer_pair(
    numbers: &mut Numbers,
    px: &Place,
    pw: &Place,
    pb: &Place,
    py: &Place,
) -> (Document, triune_graph::Graph, Tensor) {
    let (inputs, outputs) = (5, 6);
    let [from, to] = [numbers.params(DType::I8, 2.0), numbers.params(DType::I8, 9.0)];
    let scales: Vec<f32> = (0..outputs).map(|_| 0.004 + 0.01 * numbers.unit()).collect();
    let w = numbers.bytes(&[outputs, inputs, 3, 3]);
    let b = numbers.ints(&[outputs], 900);
    let x = numbers.bytes(&[1, inputs, 6, 7]);
    // ONNX
    let mut builder = GraphBuilder::new();
    let input = builder.input("x", DType::I8, &x.shape);
    let dx = builder.dequantize(input, from, DType::I8);
    let dw = builder.dequantized_constant(&w, &scales, 0);
    let steps: Vec<f32> = scales.iter().map(|scale| from.scale * scale).collect();
    let db = builder.dequantized_constant(&b, &steps, 0);
    let y = builder.conv_window(&[dx, dw, db], UNEVEN, 1);
    let y = builder.quantize(y, to, DType::I8);
    let onnx = builder.finish(&[y]);
    // The document
    let mut net = Net::default();
    let activation = |params: QuantParams| quantized(-1, &[params.scale], params.zero_point.into());
    let xi = net.input(px.dtype(activation(from), NAMES, &x.shape));
    let along = |place: &Place, scales: &[f32], all: usize| {
        let axis = place.layout.axes.iter().position(|axis| axis.name == 'O').unwrap_or(0) as i64;
        let mut scales = scales.to_vec();
        scales.resize(all, 1.0);
        (axis, scales)
    };
    let all = |place: &Place, extents: &[usize], names: &str| {
        let dtype = place.dtype(ElementType::Scalar(Scalar::Signed(8)), names, extents);
        let axes = dtype.layout.axes.iter().zip(&dtype.shape);
        axes.filter(|(axis, _)| axis.name.eq_ignore_ascii_case(&'O'))
            .map(|(_, extent)| *extent as usize)
            .product()
    };
    let (axis, own) = along(pw, &scales, all(pw, &w.shape, "OIHW"));
    let wi = net.constant(pw.dtype(quantized(axis, &own, 0), "OIHW", &w.shape), &pw.store("OIHW", &w, 0.0));
    let (axis, own) = along(pb, &steps, all(pb, &b.shape, "O"));
    let ElementType::Quantized { expressed, scale, zero_points, .. } = quantized(axis, &own, 0) else {
        unreachable!()
    };
    let bias = ElementType::Quantized { storage: Scalar::Signed(32), expressed, scale, zero_points };
    let bi = net.constant(pb.dtype(bias, "O", &b.shape), &pb.store("O", &b, 0.0));
    let result = py.dtype(activation(to), NAMES, &[1, outputs, 6, 7]);
    let y = net.op("Conv2d", &[xi, wi, bi], result, &attributes(UNEVEN, 1));
    (net.finish(&[y]), onnx, x)
}

#[test]
fn int8_convolutions_are_the_integer_operator_of_onnx_to_the_bit() {
    let mut numbers = Numbers::new(2);
    for (px, pw, pb, py) in places(5) {
        for _ in 0..4 {
            let (document, mut onnx, x) = integer_pair(&mut numbers, &px, &pw, &pb, &py);
            passes::prepare(&mut onnx).expect("a graph");
            let expected = interpret(&onnx, &[("x", x.clone())]).remove(0);
            let zero = |index: usize| match &document.values[index].dtype.element {
                ElementType::Quantized { zero_points, .. } => {
                    zero_points.first().copied().unwrap_or(0) as f64
                }
                _ => 0.0,
            };
            let (x_zero, y_zero) = (zero(0), zero(document.values.len() - 1));
            let stored = px.store(NAMES, &x, x_zero);
            let mut prepared = graph(&document);
            passes::prepare(&mut prepared).expect("a graph");
            let operator =
                prepared.nodes.iter().find(|node| matches!(node.op, Op::Conv(_))).expect("a convolution");
            assert!(operator.quant.is_some(), "{px:?} {pw:?}: it stayed a convolution of reals");
            let name = prepared.value(prepared.inputs[0]).name.clone();
            let found = interpret(&prepared, &[(&name, stored)]).remove(0);
            assert_eq!(found, py.store(NAMES, &expected, y_zero), "{px:?} {pw:?} {py:?}");
        }
    }
}

/// Multipliers in the document: m · 2^-exp is what products are multiplied with.
#[test]
fn multipliers_are_those_of_the_document() {
    let (r_x, r_y) = (0.215_372_38_f32, 0.276_672_04_f32);
    let ratio = |ratio: f32, count: u64| ElementType::NormalizedQuantized {
        storage: Scalar::Signed(8),
        expressed: Scalar::Float(32),
        ratio: Runs { axis: -1, runs: vec![(count, ratio)] },
        scale: Scale::Exp(Runs { axis: -1, runs: vec![(count, ExpScale { m: 1, exp: 0, origin: 1.0 })] }),
        zero_points: Vec::new(),
    };
    let multiplier = |m: i64, exp: i64| ExpScale { m, exp, origin: m as f32 * (-exp as f32).exp2() };
    let weights = ElementType::Quantized {
        storage: Scalar::Signed(8),
        expressed: Scalar::Float(32),
        // The third channel is silent.
        scale: Scale::Exp(Runs {
            axis: 3,
            runs: vec![(1, multiplier(185, 12)), (1, multiplier(128, 9)), (1, multiplier(0, 9))],
        }),
        zero_points: Vec::new(),
    };
    let bias = ElementType::Quantized {
        storage: Scalar::Signed(32),
        expressed: Scalar::Float(32),
        scale: Scale::Exp(Runs {
            axis: 0,
            runs: vec![(1, multiplier(185, 12)), (1, multiplier(128, 9)), (1, multiplier(0, 9))],
        }),
        zero_points: Vec::new(),
    };
    let mut net = Net::default();
    let typed = |element, layout: &str, shape: &[usize]| TensorType { element, ..real(layout, shape) };
    let x = net.input(typed(ratio(r_x, 2), "NHWC", &[1, 1, 3, 2]));
    let w = net.constant(
        typed(weights, "HWIO", &[1, 1, 2, 3]),
        &Tensor::i8(&[1, 1, 2, 3], &[100, -7, 5, -3, 44, 9]),
    );
    let b = net.constant(typed(bias, "O", &[3]), &Tensor::i32(&[3], &[1000, -333, 77]));
    let y = net.op("Conv2d", &[x, w, b], typed(ratio(r_y, 3), "NHWC", &[1, 1, 3, 3]), &attributes(POINT, 1));
    let document = net.finish(&[y]);
    let mut graph = graph(&document);
    assert_eq!(graph.requantize, Requantize::Fixed);
    passes::prepare(&mut graph).expect("a graph");
    let xs = [[120_i32, -5], [17, 99], [-128, 127]];
    let input = Tensor::i8(&[1, 1, 3, 2], &xs.concat().iter().map(|&x| x as i8).collect::<Vec<_>>());
    let name = graph.value(graph.inputs[0]).name.clone();
    let found = interpret(&graph, &[(&name, input)]).remove(0).integers();
    let mut expected = Vec::new();
    for [a, b] in xs {
        let sums = [a * 100 + b * -3 + 1000, a * -7 + b * 44 - 333, 0];
        let factors = [185.0 / 4096.0, 128.0 / 512.0, 0.0];
        for (sum, factor) in sums.iter().zip(factors) {
            expected.push((f64::from(*sum) * factor).round_ties_even().clamp(-128.0, 127.0) as i64);
        }
    }
    assert_eq!(found, expected);

    // In reals they stand for the same weights and biases.
    let mut graph = to_graph(&document, &Options { fake_qf: true }).expect("a graph");
    triune_graph::infer::infer(&mut graph).expect("types");
    let reals: Vec<f32> = xs.concat().iter().map(|&x| x as f32 * r_x).collect();
    let name = graph.value(graph.inputs[0]).name.clone();
    let found = interpret(&graph, &[(&name, Tensor::f32(&[1, 1, 3, 2], &reals))]).remove(0);
    for (channels, [a, b]) in found.as_f32().chunks(3).zip(xs) {
        let sums = [a * 100 + b * -3 + 1000, a * -7 + b * 44 - 333, 0];
        let factors = [185.0 / 4096.0, 128.0 / 512.0, 0.0];
        for ((sum, factor), found) in sums.iter().zip(factors).zip(channels) {
            let expected = (f64::from(*sum) * factor) as f32 * r_y;
            assert!((found - expected).abs() <= expected.abs().max(1.0) * 1e-5, "{found} {expected}");
        }
    }
}

#[test]
fn with_reals_kept_nothing_is_rounded() {
    let mut net = Net::default();
    let x = net.input(TensorType { element: quantized(-1, &[0.5], 0), ..real("NC", &[1, 2]) });
    let w = TensorType { element: quantized(-1, &[0.25], 0), ..real("IO", &[2, 1]) };
    let w = net.constant(w, &Tensor::i8(&[2, 1], &[3, 5]));
    let y = TensorType { element: quantized(-1, &[10.0], 0), ..real("NC", &[1, 1]) };
    let y = net.op("Matmul", &[x, w], y, &[]);
    let document = net.finish(&[y]);
    let mut graph = to_graph(&document, &Options { fake_qf: true }).expect("a graph");
    triune_graph::infer::infer(&mut graph).expect("types");
    let name = graph.value(graph.inputs[0]).name.clone();
    let found = interpret(&graph, &[(&name, Tensor::f32(&[1, 2], &[0.3, 1e6]))]).remove(0);
    assert_eq!(found.as_f32(), [(0.3_f32 * 0.75) + 1e6 * 1.25]);
}

#[test]
fn what_a_convolution_cannot_be_is_said() {
    let build = |x: &str, w: &str, y: &[usize], cut: &str, data: usize| {
        let mut net = Net::default();
        let x = net.input(real(x, &[1, 4, 4, 2]));
        let w = net.constant(real(w, &[1, 1, 2, 3]), &Tensor::f32(&[data], &vec![0.0; data]));
        let mut attributes = attributes(POINT, 1);
        attributes.retain(|(key, _)| *key != "cut_scale");
        attributes.push(("cut_scale", Attribute::Text(cut.into())));
        let y = net.op("Conv2d", &[x, w], real("NHWC", y), &attributes);
        to_graph(&net.finish(&[y]), &Options::default()).map(|_| ()).map_err(|error| error.to_string())
    };
    let none = "@scales([axis=-1])";
    assert_eq!(build("NHWC", "HWIO", &[1, 4, 4, 3], none, 6), Ok(()));
    for (result, reason) in [
        (
            build("NHW*", "HWIO", &[1, 4, 4, 3], none, 6),
            "'Conv2d_1 (op_id 1)' (icraft::xir::Conv2d): an activation without one axis of channels",
        ),
        (build("NHWC", "HW**", &[1, 4, 4, 3], none, 6), "has not one axis O"),
        (build("NHWC", "HWIO", &[1, 4, 4, 2], none, 6), "declared [1, 4, 4, 2] as NHWC"),
        (build("NHWC", "HWIO", &[1, 4, 4, 3], "@scales([axis=-1]1)", 6), "'cut_scale' is set"),
        (build("NHWC", "HWIO", &[1, 4, 4, 3], none, 5), "has 20 bytes"),
        (build("NHWC", "HWOI", &[1, 4, 4, 3], none, 6), "do not fit the input"),
    ] {
        let error = result.expect_err(reason);
        assert!(error.contains(reason), "{error}");
    }
    let mut net = Net::default();
    let x = net.input(plain(Scalar::BFloat(16), "NC", &[1, 4]));
    let error = to_graph(&net.finish(&[x]), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("elements of type @bf(16)"), "{error}");
}
