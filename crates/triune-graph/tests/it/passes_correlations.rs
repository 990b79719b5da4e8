//! Convolutions of two activations become one product over integers, whatever their windows; where one end is in reals, none does.

use crate::passes_common::{Numbers, count, distance};
use triune_graph::{Graph, Node, Op, ValueId, ops::UnaryKind, passes::quantize};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Window, interpret};

const IMAGE: QuantParams = QuantParams { scale: 0.02, zero_point: 7 };
const FILTER: QuantParams = QuantParams { scale: 0.015, zero_point: -9 };
const OUT: QuantParams = QuantParams { scale: 0.06, zero_point: -5 };

struct Case {
    name: &'static str,
    image: [usize; 4],
    filter: [usize; 4],
    window: Window,
    groups: usize,
    limited: bool,
}

const PLAIN: Window = Window { kernel: [0; 2], stride: [1; 2], dilation: [1; 2], pad: [0; 4] };

fn cases() -> Vec<Case> {
    let case =
        |name, image, filter, window, groups, limited| Case { name, image, filter, window, groups, limited };
    vec![
        case("channel by channel", [1, 6, 9, 8], [6, 1, 4, 3], PLAIN, 6, false),
        case("all channels", [1, 4, 7, 7], [1, 4, 5, 5], PLAIN, 1, false),
        case("the image's own extents", [1, 4, 3, 5], [2, 4, 3, 5], PLAIN, 1, true),
        case("points", [1, 4, 5, 3], [8, 4, 1, 1], PLAIN, 1, true),
        case("every second point", [1, 4, 5, 3], [8, 4, 1, 1], Window { stride: [2; 2], ..PLAIN }, 1, false),
        case(
            "borders, steps and gaps",
            [1, 4, 11, 9],
            [6, 2, 3, 2],
            Window { stride: [2, 1], dilation: [1, 2], pad: [1, 0, 2, 1], ..PLAIN },
            2,
            true,
        ),
        case("several images", [3, 4, 6, 5], [6, 2, 3, 3], Window { pad: [1; 4], ..PLAIN }, 2, false),
        case("rows", [2, 4, 1, 16], [4, 1, 1, 3], Window { pad: [0, 1, 0, 1], ..PLAIN }, 4, true),
    ]
}

/// The correlation of two inputs, either of which may stay in reals.
fn graph(case: &Case, quantized: [bool; 3]) -> Graph {
    let mut b = GraphBuilder::new();
    let operand = |b: &mut GraphBuilder, name, shape: &[usize], params, quantized: bool| -> ValueId {
        let x = b.input(name, DType::F32, shape);
        if quantized { b.quantize_dequantize(x, params, DType::I8) } else { b.unary(UnaryKind::Sin, x) }
    };
    let x = operand(&mut b, "x", &case.image, IMAGE, quantized[0]);
    let z = operand(&mut b, "z", &case.filter, FILTER, quantized[1]);
    let mut y = b.conv_window(&[x, z], case.window, case.groups);
    if case.limited {
        y = b.unary(UnaryKind::Relu, y);
    }
    if quantized[2] {
        y = b.quantize_dequantize(y, OUT, DType::I8);
    }
    b.finish_inferred(&[y])
}

#[test]
fn correlations_are_products_over_integers() {
    for case in cases() {
        let graph = graph(&case, [true; 3]);
        let mut quantized = graph.clone();
        quantize(&mut quantized).expect("a sound graph");
        let mut numbers = Numbers::new(3);
        let inputs = [("x", numbers.reals(&case.image, 2.5)), ("z", numbers.reals(&case.filter, 1.8))];
        let (before, after) = (interpret(&graph, &inputs), interpret(&quantized, &inputs));
        // Sums of reals may fall on the other side of a half.
        let worst = distance(&before[0], &after[0]);
        assert!(worst <= OUT.scale * 1.001, "{}: off by {worst}", case.name);
        let products = quantized.nodes.iter().filter(|node| matches!(node.op, Op::MatMul(_)));
        assert!(
            products.map(|node| node.quant.is_some()).eq([true]),
            "{}: {:#?}",
            case.name,
            quantized.nodes
        );
        let borders = count(&quantized, |op| matches!(op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_)));
        assert_eq!(borders, 3, "{}: two go in and one comes out", case.name);
        let own = |node: &&Node| !matches!(node.op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_));
        assert!(quantized.nodes.iter().filter(own).all(|node| node.title().1 == "Conv"), "{}", case.name);
    }
}

#[test]
fn correlations_with_reals_stay_convolutions() {
    for ends in [[false, true, true], [true, false, true], [true, true, false]] {
        for case in cases() {
            let mut quantized = graph(&case, ends);
            quantize(&mut quantized).expect("a sound graph");
            assert_eq!(count(&quantized, |op| matches!(op, Op::Conv(_))), 1, "{} {ends:?}", case.name);
        }
    }
}
