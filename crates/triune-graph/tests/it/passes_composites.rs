//! Normalizations and Gelus that models spell out become one integer operator, in whatever way they are spelled; what only looks like
//! one stays in reals.

use crate::passes_common::{Numbers, count, distance};
use triune_graph::{
    Graph, Op, ValueId,
    ops::{BinaryKind, GlobalPool, Reduce, ReduceKind, Unary, UnaryKind},
    passes::quantize,
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Tensor, interpret};

const SHAPE: [usize; 4] = [2, 3, 4, 5];
const IN: QuantParams = QuantParams { scale: 0.02, zero_point: 7 };
const OUT: QuantParams = QuantParams { scale: 0.03, zero_point: -5 };

/// A function of one real, which is dequantized: once for the first of these, once more for the second.
type Body = fn(&mut GraphBuilder, [ValueId; 2]) -> ValueId;

fn graph(body: Body) -> Graph {
    let mut b = GraphBuilder::new();
    let x = b.input("x", DType::F32, &SHAPE);
    let q = b.quantize(x, IN, DType::I8);
    let ends = [(); 2].map(|()| b.dequantize(q, IN, DType::I8));
    let y = body(&mut b, ends);
    let y = b.quantize_dequantize(y, OUT, DType::I8);
    b.finish_inferred(&[y])
}

/// Quantizes a graph and compares what it computes; gives how many integer operators `is` has found in it.
fn integers(name: &str, body: Body, is: fn(&Op) -> bool) -> usize {
    let graph = graph(body);
    let mut quantized = graph.clone();
    quantize(&mut quantized).expect("a sound graph");
    let x = Numbers::new(1).reals(&SHAPE, 2.5);
    let (before, after) = (interpret(&graph, &[("x", x.clone())]), interpret(&quantized, &[("x", x)]));
    let worst = distance(&before[0], &after[0]);
    assert!(worst <= OUT.scale * 1.001, "{name}: off by {worst}");
    let borders = count(&quantized, |op| matches!(op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_)));
    let found = quantized.nodes.iter().filter(|node| is(&node.op)).count();
    assert_eq!(borders == 2, found > 0, "{name}: {borders} borders, {found} operators");
    found
}

fn number(b: &mut GraphBuilder, value: f32) -> ValueId {
    b.constant(&Tensor::f32(&[], &[value]))
}

fn mean(b: &mut GraphBuilder, x: ValueId, axes: &[isize]) -> ValueId {
    b.node(Op::Reduce(Reduce::along(ReduceKind::Mean, axes)), &[x])
}

/// The root of a variance and a little more.
fn deviation(b: &mut GraphBuilder, variance: ValueId, epsilon: f32) -> ValueId {
    let epsilon = number(b, epsilon);
    let sum = b.binary(BinaryKind::Add, variance, epsilon);
    b.unary(UnaryKind::Sqrt, sum)
}

/// (x − mean)/√(variance + ε) over some axes.
fn normal(b: &mut GraphBuilder, [x, same]: [ValueId; 2], axes: &[isize]) -> ValueId {
    let middle = mean(b, same, axes);
    let difference = b.binary(BinaryKind::Sub, x, middle);
    let square = b.binary(BinaryKind::Mul, difference, difference);
    let variance = mean(b, square, axes);
    let deviation = deviation(b, variance, 0.001);
    b.binary(BinaryKind::Div, difference, deviation)
}

/// The same with the square, the inverse and the last step in other words.
fn worded(
    b: &mut GraphBuilder,
    x: ValueId,
    square: fn(&mut GraphBuilder, ValueId) -> ValueId,
    last: fn(&mut GraphBuilder, ValueId, ValueId) -> ValueId,
) -> ValueId {
    let middle = mean(b, x, &[3]);
    let difference = b.binary(BinaryKind::Sub, x, middle);
    let square = square(b, difference);
    let variance = mean(b, square, &[-1]);
    let deviation = deviation(b, variance, 0.001);
    last(b, difference, deviation)
}

/// The same with the step from the variance, and a little more, in other words.
fn in_powers(
    b: &mut GraphBuilder,
    x: ValueId,
    last: fn(&mut GraphBuilder, ValueId, ValueId) -> ValueId,
) -> ValueId {
    let middle = mean(b, x, &[3]);
    let difference = b.binary(BinaryKind::Sub, x, middle);
    let square = squared(b, difference);
    let variance = mean(b, square, &[3]);
    let little = number(b, 0.001);
    let radicand = b.binary(BinaryKind::Add, variance, little);
    last(b, difference, radicand)
}

fn power(b: &mut GraphBuilder, x: ValueId, exponent: f32) -> ValueId {
    let exponent = number(b, exponent);
    b.binary(BinaryKind::Pow, x, exponent)
}

/// A constant of an element for each of the last axis.
fn last_row(b: &mut GraphBuilder) -> ValueId {
    b.constant(&Tensor::f32(&[5], &[0.5, 1.0, -1.5, 0.25, 0.75]))
}

fn squared(b: &mut GraphBuilder, x: ValueId) -> ValueId {
    b.unary(UnaryKind::Square, x)
}

fn divided(b: &mut GraphBuilder, x: ValueId, by: ValueId) -> ValueId {
    b.binary(BinaryKind::Div, x, by)
}

/// x·f + (shift − mean·f) with f = scale/√(variance + ε): `last` makes the sum of x, f, the mean and the shift.
fn inside(
    b: &mut GraphBuilder,
    x: ValueId,
    scale: Option<f32>,
    last: fn(&mut GraphBuilder, [ValueId; 4]) -> ValueId,
) -> ValueId {
    let middle = mean(b, x, &[3]);
    let difference = b.binary(BinaryKind::Sub, x, middle);
    let square = squared(b, difference);
    let variance = mean(b, square, &[3]);
    let root = deviation(b, variance, 0.001);
    let mut factor = b.unary(UnaryKind::Reciprocal, root);
    if let Some(scale) = scale {
        let scale = b.constant(&Tensor::f32(&[5], &[scale, 1.0, -1.5, 0.25, 0.75]));
        factor = b.binary(BinaryKind::Mul, factor, scale);
    }
    let shift = b.constant(&Tensor::f32(&[1, 5], &[0.5, -0.5, 0.0, 1.0, 0.25]));
    last(b, [x, factor, middle, shift])
}

/// x·f + (shift − mean·f).
fn shift_less_product(b: &mut GraphBuilder, [x, factor, middle, shift]: [ValueId; 4]) -> ValueId {
    let (product, taken) = (b.binary(BinaryKind::Mul, x, factor), b.binary(BinaryKind::Mul, middle, factor));
    let rest = b.binary(BinaryKind::Sub, shift, taken);
    b.binary(BinaryKind::Add, product, rest)
}

/// (−mean·f + shift) + f·x.
fn negated(b: &mut GraphBuilder, [x, factor, middle, shift]: [ValueId; 4]) -> ValueId {
    let less = b.unary(UnaryKind::Neg, middle);
    let (product, taken) = (b.binary(BinaryKind::Mul, factor, x), b.binary(BinaryKind::Mul, less, factor));
    let rest = b.binary(BinaryKind::Add, taken, shift);
    b.binary(BinaryKind::Add, rest, product)
}

#[test]
fn normalizations_in_many_words_are_one_operator() {
    let bodies: [(&str, Body); 16] = [
        ("factors inside", |b, [x, _]| inside(b, x, Some(0.5), shift_less_product)),
        ("factors inside, the mean negated", |b, [x, _]| inside(b, x, Some(0.5), negated)),
        ("no factors, addends inside", |b, [x, _]| inside(b, x, None, negated)),
        ("products apart", |b, [x, _]| {
            inside(b, x, Some(0.5), |b, [x, factor, middle, _]| {
                let product = b.binary(BinaryKind::Mul, x, factor);
                let taken = b.binary(BinaryKind::Mul, middle, factor);
                b.binary(BinaryKind::Sub, product, taken)
            })
        }),
        ("of one real", |b, [x, _]| normal(b, [x, x], &[3])),
        ("of two reals of the same integers", |b, ends| normal(b, ends, &[3])),
        ("over several axes", |b, [x, _]| normal(b, [x, x], &[1, 2, 3])),
        ("over axes in the middle", |b, [x, _]| normal(b, [x, x], &[-3, -2])),
        ("a square", |b, [x, _]| worded(b, x, squared, divided)),
        ("a power", |b, [x, _]| {
            let power = |b: &mut GraphBuilder, x| {
                let two = number(b, 2.0);
                b.binary(BinaryKind::Pow, x, two)
            };
            worded(b, x, power, divided)
        }),
        ("times the reciprocal", |b, [x, _]| {
            worded(b, x, squared, |b, x, deviation| {
                let inverse = b.unary(UnaryKind::Reciprocal, deviation);
                b.binary(BinaryKind::Mul, x, inverse)
            })
        }),
        ("one by it, times", |b, [x, _]| {
            worded(b, x, squared, |b, x, deviation| {
                let one = number(b, 1.0);
                let inverse = b.binary(BinaryKind::Div, one, deviation);
                b.binary(BinaryKind::Mul, inverse, x)
            })
        }),
        ("by pools", |b, [x, _]| {
            let middle = b.node(Op::GlobalPool(GlobalPool::AVERAGE), &[x]);
            let difference = b.binary(BinaryKind::Sub, x, middle);
            let square = squared(b, difference);
            let variance = b.node(Op::GlobalPool(GlobalPool::AVERAGE), &[square]);
            let deviation = deviation(b, variance, 0.001);
            divided(b, difference, deviation)
        }),
        ("the little first", |b, [x, _]| {
            let middle = mean(b, x, &[3]);
            let difference = b.binary(BinaryKind::Sub, x, middle);
            let square = squared(b, difference);
            let variance = mean(b, square, &[3]);
            let little = number(b, 0.001);
            let sum = b.binary(BinaryKind::Add, little, variance);
            let deviation = b.unary(UnaryKind::Sqrt, sum);
            divided(b, difference, deviation)
        }),
        ("with factors and addends", |b, [x, _]| {
            let y = normal(b, [x, x], &[3]);
            let (w, c) = (
                b.constant(&Tensor::f32(&[5], &[0.5, 1.0, -1.5, 0.25, 0.75])),
                b.constant(&Tensor::f32(&[1, 5], &[0.5, -0.5, 0.0, 1.0, 0.25])),
            );
            let y = b.binary(BinaryKind::Mul, w, y);
            b.binary(BinaryKind::Add, y, c)
        }),
        ("with one factor for all", |b, [x, _]| {
            let y = normal(b, [x, x], &[2, 3]);
            let w = number(b, 0.75);
            b.binary(BinaryKind::Mul, y, w)
        }),
    ];
    for (name, body) in bodies {
        assert_eq!(integers(name, body, |op| matches!(op, Op::LayerNorm(_))), 1, "{name}");
    }
}

#[test]
fn normalizations_multiplied_and_divided_in_any_order_are_one_operator() {
    let bodies: [(&str, Body); 9] = [
        ("two by the deviation", |b, [x, _]| {
            worded(b, x, squared, |b, x, deviation| {
                let two = number(b, 2.0);
                let inverse = b.binary(BinaryKind::Div, two, deviation);
                b.binary(BinaryKind::Mul, x, inverse)
            })
        }),
        ("factors before the division", |b, [x, _]| {
            worded(b, x, squared, |b, x, deviation| {
                let row = last_row(b);
                let scaled = b.binary(BinaryKind::Mul, row, x);
                let normal = b.binary(BinaryKind::Div, scaled, deviation);
                b.binary(BinaryKind::Add, normal, row)
            })
        }),
        ("factors by the deviation", |b, [x, _]| {
            worded(b, x, squared, |b, x, deviation| {
                let row = last_row(b);
                let scaled = b.binary(BinaryKind::Div, row, deviation);
                b.binary(BinaryKind::Mul, scaled, x)
            })
        }),
        ("factors times the inverse", |b, [x, _]| {
            worded(b, x, squared, |b, x, deviation| {
                let row = last_row(b);
                let inverse = b.unary(UnaryKind::Reciprocal, deviation);
                let scaled = b.binary(BinaryKind::Mul, inverse, row);
                b.binary(BinaryKind::Mul, x, scaled)
            })
        }),
        ("the root as a power", |b, [x, _]| {
            in_powers(b, x, |b, x, radicand| {
                let root = power(b, radicand, 0.5);
                b.binary(BinaryKind::Div, x, root)
            })
        }),
        ("the inverse root as a power", |b, [x, _]| {
            in_powers(b, x, |b, x, radicand| {
                let inverse = power(b, radicand, -0.5);
                b.binary(BinaryKind::Mul, inverse, x)
            })
        }),
        ("the inverse of the root as a power", |b, [x, _]| {
            in_powers(b, x, |b, x, radicand| {
                let root = b.unary(UnaryKind::Sqrt, radicand);
                let inverse = power(b, root, -1.0);
                b.binary(BinaryKind::Mul, x, inverse)
            })
        }),
        ("one mean behind the other", |b, [x, _]| {
            let first = mean(b, x, &[2]);
            let middle = mean(b, first, &[3]);
            let difference = b.binary(BinaryKind::Sub, x, middle);
            let square = squared(b, difference);
            let square = mean(b, square, &[3]);
            let variance = mean(b, square, &[2]);
            let deviation = deviation(b, variance, 0.001);
            divided(b, difference, deviation)
        }),
        ("of means", |b, [x, _]| {
            let middle = mean(b, x, &[1]);
            let middle = mean(b, middle, &[2]);
            let middle = mean(b, middle, &[3]);
            let difference = b.binary(BinaryKind::Sub, x, middle);
            let square = b.binary(BinaryKind::Mul, difference, difference);
            let variance = mean(b, square, &[1, 2]);
            let variance = mean(b, variance, &[3]);
            let deviation = deviation(b, variance, 0.001);
            divided(b, difference, deviation)
        }),
    ];
    for (name, body) in bodies {
        assert_eq!(integers(name, body, |op| matches!(op, Op::LayerNorm(_))), 1, "{name}");
    }
}

#[test]
fn normalizations_by_the_mean_square_are_one_operator() {
    let bodies: [(&str, Body); 5] = [
        ("of a product of the inverse root and factors", |b, [x, _]| {
            let square = squared(b, x);
            let square = mean(b, square, &[3]);
            let little = number(b, 0.001);
            let sum = b.binary(BinaryKind::Add, square, little);
            let inverse = power(b, sum, -0.5);
            let row = last_row(b);
            let scaled = b.binary(BinaryKind::Mul, row, inverse);
            b.binary(BinaryKind::Mul, scaled, x)
        }),
        ("divided", |b, [x, _]| {
            let square = squared(b, x);
            let square = mean(b, square, &[3]);
            let little = number(b, 0.001);
            let sum = b.binary(BinaryKind::Add, square, little);
            let root = b.unary(UnaryKind::Sqrt, sum);
            divided(b, x, root)
        }),
        ("each reader with its own reals", |b, [x, again]| {
            let square = b.binary(BinaryKind::Mul, again, x);
            let square = mean(b, square, &[1, 2, 3]);
            let little = number(b, 0.001);
            let sum = b.binary(BinaryKind::Add, square, little);
            let root = b.unary(UnaryKind::Sqrt, sum);
            divided(b, again, root)
        }),
        ("by the inverse, with factors", |b, [x, _]| {
            let square = squared(b, x);
            let square = mean(b, square, &[2]);
            let little = number(b, 0.001);
            let sum = b.binary(BinaryKind::Add, square, little);
            let root = b.unary(UnaryKind::Sqrt, sum);
            let inverse = b.unary(UnaryKind::Reciprocal, root);
            let y = b.binary(BinaryKind::Mul, x, inverse);
            let w = b.constant(&Tensor::f32(&[4, 1], &[0.5, 1.0, -1.5, 0.25]));
            b.binary(BinaryKind::Mul, w, y)
        }),
        ("the sum of squares by their number", |b, [x, _]| {
            let sum = b.node(Op::Reduce(Reduce::along(ReduceKind::SumSquare, &[3])), &[x]);
            let part = number(b, 0.2);
            let square = b.binary(BinaryKind::Mul, sum, part);
            let little = number(b, 0.001);
            let sum = b.binary(BinaryKind::Add, square, little);
            let root = b.unary(UnaryKind::Sqrt, sum);
            divided(b, x, root)
        }),
    ];
    for (name, body) in bodies {
        let by_squares = |op: &Op| matches!(op, Op::LayerNorm(norm) if !norm.centred);
        assert_eq!(integers(name, body, by_squares), 1, "{name}");
    }
}

#[test]
fn what_only_looks_like_a_normalization_is_none() {
    let bodies: [(&str, Body); 17] = [
        ("the negated mean taken off", |b, [x, _]| {
            inside(b, x, Some(0.5), |b, [x, factor, middle, _]| {
                let less = b.unary(UnaryKind::Neg, middle);
                let product = b.binary(BinaryKind::Mul, x, factor);
                let taken = b.binary(BinaryKind::Mul, less, factor);
                b.binary(BinaryKind::Sub, product, taken)
            })
        }),
        ("the mean added", |b, [x, _]| {
            inside(b, x, Some(0.5), |b, [x, factor, middle, shift]| {
                let product = b.binary(BinaryKind::Mul, x, factor);
                let taken = b.binary(BinaryKind::Mul, middle, factor);
                let rest = b.binary(BinaryKind::Add, shift, taken);
                b.binary(BinaryKind::Add, product, rest)
            })
        }),
        ("the mean negated twice", |b, [x, _]| {
            inside(b, x, Some(0.5), |b, [x, factor, middle, shift]| {
                let less = b.unary(UnaryKind::Neg, middle);
                shift_less_product(b, [x, factor, less, shift])
            })
        }),
        ("factors that differ", |b, [x, _]| {
            inside(b, x, Some(0.5), |b, [x, factor, middle, shift]| {
                let other = b.unary(UnaryKind::Abs, factor);
                let (product, taken) =
                    (b.binary(BinaryKind::Mul, x, factor), b.binary(BinaryKind::Mul, middle, other));
                let rest = b.binary(BinaryKind::Sub, shift, taken);
                b.binary(BinaryKind::Add, product, rest)
            })
        }),
        ("another's mean taken off", |b, [x, _]| {
            inside(b, x, Some(0.5), |b, [x, factor, _, shift]| {
                let other = b.unary(UnaryKind::Relu, x);
                let middle = mean(b, other, &[3]);
                shift_less_product(b, [x, factor, middle, shift])
            })
        }),
        ("means over other axes", |b, [x, _]| {
            let middle = mean(b, x, &[2]);
            let difference = b.binary(BinaryKind::Sub, x, middle);
            let square = squared(b, difference);
            let variance = mean(b, square, &[3]);
            let deviation = deviation(b, variance, 0.001);
            divided(b, difference, deviation)
        }),
        ("axes that are apart", |b, [x, _]| normal(b, [x, x], &[1, 3])),
        ("another's mean", |b, [x, _]| {
            let other = b.unary(UnaryKind::Relu, x);
            normal(b, [x, other], &[3])
        }),
        ("the mean less the value", |b, [x, _]| {
            let middle = mean(b, x, &[3]);
            let difference = b.binary(BinaryKind::Sub, middle, x);
            let square = squared(b, difference);
            let variance = mean(b, square, &[3]);
            let deviation = deviation(b, variance, 0.001);
            divided(b, difference, deviation)
        }),
        ("the square of something else", |b, [x, _]| {
            let middle = mean(b, x, &[3]);
            let difference = b.binary(BinaryKind::Sub, x, middle);
            let square = squared(b, x);
            let variance = mean(b, square, &[3]);
            let deviation = deviation(b, variance, 0.001);
            divided(b, difference, deviation)
        }),
        ("a third power", |b, [x, _]| {
            worded(
                b,
                x,
                |b, x| {
                    let size = b.unary(UnaryKind::Abs, x);
                    let three = number(b, 3.0);
                    b.binary(BinaryKind::Pow, size, three)
                },
                divided,
            )
        }),
        ("divided twice", |b, [x, _]| {
            worded(b, x, squared, |b, x, deviation| {
                let once = b.binary(BinaryKind::Div, x, deviation);
                b.binary(BinaryKind::Div, once, deviation)
            })
        }),
        ("two factors that are no constants", |b, [x, _]| {
            worded(b, x, squared, |b, x, deviation| {
                let more = b.binary(BinaryKind::Mul, x, x);
                b.binary(BinaryKind::Div, more, deviation)
            })
        }),
        ("the inverse of the variance", |b, [x, _]| {
            in_powers(b, x, |b, x, radicand| {
                let power = number(b, -1.0);
                let inverse = b.binary(BinaryKind::Pow, radicand, power);
                b.binary(BinaryKind::Mul, x, inverse)
            })
        }),
        ("one axis averaged twice", |b, [x, _]| {
            let once = mean(b, x, &[3]);
            let middle = mean(b, once, &[3]);
            let difference = b.binary(BinaryKind::Sub, x, middle);
            let square = squared(b, difference);
            let variance = mean(b, square, &[1, 2, 3]);
            let deviation = deviation(b, variance, 0.001);
            divided(b, difference, deviation)
        }),
        ("the deviation by the difference", |b, [x, _]| {
            worded(b, x, squared, |b, x, deviation| {
                let size = b.unary(UnaryKind::Abs, x);
                let one = number(b, 1.0);
                let more = b.binary(BinaryKind::Add, size, one);
                b.binary(BinaryKind::Div, deviation, more)
            })
        }),
        ("factors along an axis that is not normalized", |b, [x, _]| {
            let y = normal(b, [x, x], &[3]);
            let w = b.constant(&Tensor::f32(&[4, 1], &[0.5, 1.0, -1.5, 0.25]));
            b.binary(BinaryKind::Mul, y, w)
        }),
    ];
    for (name, body) in bodies {
        let joined =
            |op: &Op| matches!(op, Op::LayerNorm(norm) if norm.axes == [3, 4] || norm.axes == [1, 4]);
        let graph = graph(body);
        let mut quantized = graph.clone();
        quantize(&mut quantized).expect("a sound graph");
        let whole = quantized.nodes.iter().any(|node| joined(&node.op) && node.quant.is_some());
        assert!(!whole, "{name}: {:#?}", quantized.nodes);
    }
}

/// A constant of the elements, along axis 1 of the image.
fn row(b: &mut GraphBuilder, elements: &[f32]) -> ValueId {
    b.constant(&Tensor::f32(&[elements.len(), 1, 1], elements))
}

/// Slopes, factors or addends, another one for each channel.
const ROW: [f32; SHAPE[1]] = [0.25, 0.125, -0.5];

#[test]
fn functions_per_channel_are_tables() {
    let tables = |op: &Op| matches!(op, Op::Tables(tables) if tables.axis == 1);
    let one = |op: &Op| matches!(op, Op::Table(_));
    macro_rules! by_row {
        ($kind:ident, $first:literal) => {
            (concat!(stringify!($kind), " ", $first), |b, [x, _]| {
                let own = row(b, &ROW);
                let [first, second] = if $first { [own, x] } else { [x, own] };
                b.binary(BinaryKind::$kind, first, second)
            })
        };
    }
    let bodies: [(&str, Body); 8] = [
        by_row!(PRelu, false),
        by_row!(Mul, false),
        by_row!(Mul, true),
        by_row!(Add, false),
        by_row!(Sub, true),
        by_row!(Max, false),
        by_row!(Min, true),
        ("a web", |b, [x, same]| {
            let (factors, addends) = (row(b, &ROW), row(b, &[0.25, 0.5, 1.0]));
            let product = b.binary(BinaryKind::Mul, x, factors);
            let sum = b.binary(BinaryKind::Add, product, addends);
            let gate = b.unary(UnaryKind::Sigmoid, same);
            b.binary(BinaryKind::Mul, sum, gate)
        }),
    ];
    for (name, body) in bodies {
        assert_eq!(integers(name, body, tables), 1, "{name}");
    }
    let alike: Body = |b, [x, _]| {
        let own = row(b, &[0.5; SHAPE[1]]);
        b.binary(BinaryKind::PRelu, x, own)
    };
    assert_eq!(integers("slopes that are all the same", alike, one), 1);
    // Along two axes there is none.
    let crossed: Body = |b, [x, _]| {
        let (rows, columns) =
            (row(b, &ROW), b.constant(&Tensor::f32(&[SHAPE[3]], &[0.5, 1.0, 2.0, 3.0, 4.0])));
        let product = b.binary(BinaryKind::Mul, x, rows);
        b.binary(BinaryKind::Add, product, columns)
    };
    assert_eq!(integers("two axes", crossed, |op| matches!(op, Op::Tables(_) | Op::Table(_))), 0);
}

/// x·½·(1 + erf(x/√2)), by way of how it is multiplied and divided.
fn gelu(
    b: &mut GraphBuilder,
    x: ValueId,
    scaled: fn(&mut GraphBuilder, ValueId) -> ValueId,
    product: fn(&mut GraphBuilder, ValueId, ValueId, ValueId) -> ValueId,
) -> ValueId {
    let scaled = scaled(b, x);
    let erf = b.unary(UnaryKind::Erf, scaled);
    let one = number(b, 1.0);
    let sum = b.binary(BinaryKind::Add, erf, one);
    let half = number(b, 0.5);
    product(b, x, sum, half)
}

fn by_root(b: &mut GraphBuilder, x: ValueId) -> ValueId {
    let root = number(b, std::f32::consts::SQRT_2);
    b.binary(BinaryKind::Div, x, root)
}

fn product(b: &mut GraphBuilder, [first, second, third]: [ValueId; 3]) -> ValueId {
    let inner = b.binary(BinaryKind::Mul, first, second);
    b.binary(BinaryKind::Mul, third, inner)
}

#[test]
fn gelus_in_many_words_are_one_table() {
    let table = |op: &Op| matches!(op, Op::Table(_));
    let bodies: [(&str, Body); 5] = [
        ("x times the half of the rest", |b, [x, _]| {
            gelu(b, x, by_root, |b, x, sum, half| product(b, [sum, half, x]))
        }),
        ("half of x, times the rest", |b, [x, _]| {
            gelu(b, x, by_root, |b, x, sum, half| product(b, [x, half, sum]))
        }),
        ("half of the product", |b, [x, _]| {
            gelu(b, x, by_root, |b, x, sum, half| product(b, [x, sum, half]))
        }),
        ("times the inverse root", |b, [x, _]| {
            let times = |b: &mut GraphBuilder, x| {
                let inverse = number(b, std::f32::consts::FRAC_1_SQRT_2);
                b.binary(BinaryKind::Mul, inverse, x)
            };
            gelu(b, x, times, |b, x, sum, half| product(b, [half, x, sum]))
        }),
        ("in one word", |b, [x, _]| b.node(Op::Unary(Unary { kind: UnaryKind::Gelu }), &[x])),
    ];
    for (name, body) in bodies {
        assert_eq!(integers(name, body, table), 1, "{name}");
    }
    let bodies: [(&str, Body); 4] = [
        ("a third instead of a half", |b, [x, _]| {
            gelu(b, x, by_root, |b, x, sum, _| {
                let third = number(b, 0.375);
                product(b, [x, third, sum])
            })
        }),
        ("another root", |b, [x, _]| {
            let by = |b: &mut GraphBuilder, x| {
                let root = number(b, 1.5);
                b.binary(BinaryKind::Div, x, root)
            };
            gelu(b, x, by, |b, x, sum, half| product(b, [x, half, sum]))
        }),
        ("another factor", |b, [x, _]| {
            let by = |b: &mut GraphBuilder, x| {
                let inverse = number(b, 0.75);
                b.binary(BinaryKind::Mul, x, inverse)
            };
            gelu(b, x, by, |b, x, sum, half| product(b, [x, half, sum]))
        }),
        ("of something else", |b, [x, _]| {
            gelu(b, x, by_root, |b, x, sum, half| {
                let other = b.unary(UnaryKind::Relu, x);
                product(b, [other, half, sum])
            })
        }),
    ];
    for (name, body) in bodies {
        let graph = graph(body);
        let mut quantized = graph.clone();
        quantize(&mut quantized).expect("a sound graph");
        let x = Numbers::new(1).reals(&SHAPE, 2.5);
        let (before, after) = (interpret(&graph, &[("x", x.clone())]), interpret(&quantized, &[("x", x)]));
        assert!(distance(&before[0], &after[0]) <= OUT.scale * 1.001, "{name}");
        assert_eq!(
            count(&quantized, |op| matches!(op, Op::Unary(Unary { kind: UnaryKind::Gelu }))),
            0,
            "{name}"
        );
    }
}
