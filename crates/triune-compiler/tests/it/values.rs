//! Operators through the compiler and the host's device, against the naive interpreter: windows whose sides differ, operands in
//! whatever order they lie, epilogues of several stages.

use crate::common::{check, mnemonics};
use triune_graph::{
    Dim, Graph, Op, ValueId,
    ops::{
        AutoPad, BatchNormalization, BinaryKind, Concat, ConstantOfShape, Conv, Epilogue, Expand, Gather,
        Gemm, MatMul, Pad, PadMode, PostOp, Residual, Slice, Split, Transpose, UnaryKind,
    },
};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Random, Tensor};

/// Products are sums of some hundred terms at most.
const CLOSE: f64 = 1e-5;

fn floats(random: &mut Random, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    Tensor::f32(shape, &random.floats(count))
}

fn ints(builder: &mut GraphBuilder, values: &[i64]) -> ValueId {
    builder.constant(&Tensor::i64(&[values.len()], values))
}

/// A value whose last two axes were swapped, so that it lies otherwise than its extents say.
fn turned(builder: &mut GraphBuilder, name: &str, shape: &[usize]) -> ValueId {
    let mut stored = shape.to_vec();
    let last = stored.len() - 1;
    stored.swap(last, last - 1);
    let x = builder.input(name, DType::F32, &stored);
    let mut perm: Vec<usize> = (0..stored.len()).collect();
    perm.swap(last, last - 1);
    builder.node(Op::Transpose(Transpose { perm }), &[x])
}

fn swapped(shape: &[usize]) -> Vec<usize> {
    let mut stored = shape.to_vec();
    let last = stored.len() - 1;
    stored.swap(last, last - 1);
    stored
}

#[test]
fn products_of_matrices() {
    let mut random = Random(1);
    // Extents of both operands, and whether the second is known.
    let cases: [(&[usize], &[usize], bool); 9] = [
        (&[3, 5], &[5, 7], true),
        (&[3, 5], &[5, 7], false),
        (&[2, 3, 5], &[5, 7], true),
        (&[2, 3, 5], &[5, 7], false),
        (&[2, 3, 5], &[2, 5, 7], true),
        (&[2, 3, 5], &[2, 5, 7], false),
        (&[2, 3, 4, 5], &[2, 3, 5, 6], false),
        (&[2, 3, 4, 5], &[1, 1, 5, 6], false),
        (&[1, 1, 5], &[1, 5, 1], false),
    ];
    for (index, (a_shape, b_shape, known)) in cases.into_iter().enumerate() {
        for order in 0..4 {
            let mut builder = GraphBuilder::new();
            let mut inputs = Vec::new();
            let a = if order % 2 == 0 {
                inputs.push(("a", floats(&mut random, a_shape)));
                builder.input("a", DType::F32, a_shape)
            } else {
                inputs.push(("a", floats(&mut random, &swapped(a_shape))));
                turned(&mut builder, "a", a_shape)
            };
            let b = if known {
                builder.constant(&floats(&mut random, b_shape))
            } else if order < 2 {
                inputs.push(("b", floats(&mut random, b_shape)));
                builder.input("b", DType::F32, b_shape)
            } else {
                inputs.push(("b", floats(&mut random, &swapped(b_shape))));
                turned(&mut builder, "b", b_shape)
            };
            let product = builder.node(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[a, b]);
            let y = match (index + order) % 3 {
                0 => product,
                1 => builder.unary(UnaryKind::LeakyRelu(0.25), product),
                _ => {
                    let columns = b_shape[b_shape.len() - 1];
                    let row = builder.constant(&floats(&mut random, &[columns]));
                    let sum = builder.binary(BinaryKind::Add, product, row);
                    builder.unary(UnaryKind::Relu, sum)
                }
            };
            check(
                &builder.finish(&[y]),
                &inputs,
                CLOSE,
                &format!("{a_shape:?} · {b_shape:?} {known} {order}"),
            );
        }
    }
}

#[test]
fn products_with_transposes_factors_and_biases() {
    let mut random = Random(2);
    let (m, k, n) = (3, 5, 4);
    for round in 0..24_usize {
        let (trans_a, trans_b) = (round % 2 == 1, round / 2 % 2 == 1);
        let (alpha, beta) = [(1.0, 1.0), (0.5, 1.0), (1.0, -2.0)][round / 4 % 3];
        let bias = [None, Some(vec![n]), Some(vec![1]), Some(vec![m, 1])][round % 4].clone();
        let mut builder = GraphBuilder::new();
        let a_shape = if trans_a { [k, m] } else { [m, k] };
        let a = builder.input("a", DType::F32, &a_shape);
        let b = builder.constant(&floats(&mut random, &if trans_b { [n, k] } else { [k, n] }));
        let mut operands = vec![a, b];
        operands.extend(bias.as_ref().map(|shape| builder.constant(&floats(&mut random, shape))));
        let op = Gemm { alpha, beta, trans_a, trans_b, epilogue: Epilogue::default() };
        let what = format!("{op:?} with a bias {bias:?}");
        let y = builder.node(Op::Gemm(op), &operands);
        check(&builder.finish(&[y]), &[("a", floats(&mut random, &a_shape))], CLOSE, &what);
    }
}

/// A convolution over whatever window, with what stages.
fn convolution(
    random: &mut Random,
    builder: &mut GraphBuilder,
    stages: Vec<PostOp>,
    groups: bool,
) -> (ValueId, Vec<usize>, Vec<usize>) {
    let size = [random.between(3, 9), random.between(3, 9)];
    let window = random.window(size, [4, 3]);
    let count = if groups { [3, 5][random.below(2)] } else { 1 };
    let (inside, outside) = (random.between(1, 3), random.between(1, 3));
    let (inputs, outputs) = (count * inside, count * outside);
    let shape = vec![random.between(1, 2), inputs, size[0], size[1]];
    let [h, w] = window.output(size);
    let result = vec![shape[0], outputs, h, w];
    let x = builder.input("x", DType::F32, &shape);
    let weights = floats(random, &[outputs, inside, window.kernel[0], window.kernel[1]]);
    let weights = builder.constant(&weights);
    let bias = builder.constant(&floats(random, &[outputs]));
    let residual = stages.iter().any(|stage| matches!(stage, PostOp::Residual(_)));
    let mut operands = vec![x, weights, bias];
    if residual {
        operands.push(builder.input("residual", DType::F32, &result));
    }
    let op = Conv {
        kernel: None,
        stride: window.stride,
        dilation: window.dilation,
        pad: window.pad,
        auto_pad: AutoPad::Explicit,
        groups: count,
        epilogue: Epilogue { post_ops: stages },
    };
    let y = builder.node(Op::Conv(Box::new(op)), &operands);
    let value = builder.graph_mut().value_mut(y);
    (value.dtype, value.shape) =
        (Some(DType::F32), Some(result.iter().map(|&dim| Dim::Fixed(dim)).collect()));
    (y, shape, result)
}

/// Stages in every order: some join the command, the others are commands of their own.
#[test]
fn convolutions_end_in_stages() {
    let mut random = Random(3);
    let residual = || PostOp::Residual(Residual { quant: None, own_first: true });
    let relu = || PostOp::Activation(UnaryKind::Relu);
    let tanh = || PostOp::Activation(UnaryKind::Tanh);
    let cases: [(Vec<PostOp>, &[&str]); 8] = [
        (vec![], &["fconv"]),
        (vec![relu()], &["fconv"]),
        (vec![residual()], &["fconv"]),
        (vec![residual(), relu()], &["fconv"]),
        (vec![relu(), residual()], &["fconv", "fbinary"]),
        (vec![relu(), tanh()], &["fconv", "funary"]),
        (vec![relu(), residual(), tanh()], &["fconv", "fbinary", "funary"]),
        (vec![residual(), relu(), tanh()], &["fconv", "funary"]),
    ];
    for round in 0..6 {
        for (stages, expected) in &cases {
            let mut builder = GraphBuilder::new();
            let (y, shape, result) = convolution(&mut random, &mut builder, stages.clone(), round % 2 == 0);
            let mut inputs = vec![("x", floats(&mut random, &shape))];
            if stages.contains(&residual()) {
                inputs.push(("residual", floats(&mut random, &result)));
            }
            // The border is row-major, feature maps have channels last; copies stand between, where there is a difference.
            let commands = check(&builder.finish(&[y]), &inputs, CLOSE, &format!("{stages:?} {shape:?}"));
            let own: Vec<&str> = mnemonics(&commands).into_iter().filter(|name| *name != "copy").collect();
            assert_eq!(own, *expected, "{stages:?}");
        }
    }
}

/// A sum behind a convolution joins it, whichever operand the convolution is, also of extents of 1.
#[test]
fn sums_join_convolutions() {
    let mut random = Random(4);
    for round in 0..12 {
        let mut builder = GraphBuilder::new();
        let (y, shape, result) = convolution(&mut random, &mut builder, Vec::new(), false);
        let other = builder.input("other", DType::F32, &result);
        let kind = [BinaryKind::Add, BinaryKind::Sub, BinaryKind::Mul][round % 3];
        let pair = if round % 2 == 0 { [y, other] } else { [other, y] };
        let y = builder.binary(kind, pair[0], pair[1]);
        let y = builder.unary(UnaryKind::Clip([-0.25, 0.5]), y);
        let inputs = [("x", floats(&mut random, &shape)), ("other", floats(&mut random, &result))];
        check(&builder.finish(&[y]), &inputs, CLOSE, &format!("{kind:?} {shape:?}"));
    }
}

/// Factors and addends per channel, in front of and behind whatever makes their operand, against the same unfused.
#[test]
fn factors_and_addends_fold() {
    let mut random = Random(5);
    for round in 0..48_usize {
        let mut builder = GraphBuilder::new();
        let channels = 3;
        let shape = if round % 3 == 0 { vec![2, channels] } else { vec![2, channels, 4, 5] };
        let x = builder.input("x", DType::F32, &shape);
        let mut y = match (round % 4, shape.len()) {
            (0, _) => x,
            (1, 4) => {
                let weights = builder.constant(&floats(&mut random, &[channels, channels, 2, 3]));
                builder.conv_window(&[x, weights], random.window([4, 5], [1, 1]), 1)
            }
            (2, 4) => {
                let weights = builder.constant(&floats(&mut random, &[channels, 1, 3, 3]));
                let bias = builder.constant(&floats(&mut random, &[channels]));
                builder.conv(&[x, weights, bias], 1, 1, channels)
            }
            (_, 4) => builder.unary(UnaryKind::Relu, x),
            (1, _) => {
                let weights = builder.constant(&floats(&mut random, &[channels, channels]));
                builder.node(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[x, weights])
            }
            _ => {
                let weights = builder.constant(&floats(&mut random, &[channels, channels]));
                let bias = builder.constant(&floats(&mut random, &[channels]));
                builder.gemm(&[x, weights, bias], round % 2 == 0)
            }
        };
        for _ in 0..random.between(1, 3) {
            let mut row = vec![1; shape.len()];
            row[1] = [1, channels][random.below(2)];
            let values: Vec<f32> = random.floats(row[1]).iter().map(|x| x + 1.5).collect();
            let constant = builder.constant(&Tensor::f32(&row, &values));
            y = match random.below(5) {
                0 => {
                    let parameters: Vec<ValueId> = (0..4)
                        .map(|_| {
                            let values: Vec<f32> = random.floats(channels).iter().map(|x| x + 1.25).collect();
                            builder.constant(&Tensor::f32(&[channels], &values))
                        })
                        .collect();
                    let op = Op::BatchNormalization(BatchNormalization { epsilon: 0.125 });
                    builder.node(op, &[y, parameters[0], parameters[1], parameters[2], parameters[3]])
                }
                1 => builder.binary(BinaryKind::Div, y, constant),
                2 => builder.binary(BinaryKind::Mul, constant, y),
                3 if random.below(2) == 0 => builder.binary(BinaryKind::Sub, constant, y),
                3 => builder.binary(BinaryKind::Sub, y, constant),
                _ => builder.binary(BinaryKind::Add, y, constant),
            };
        }
        check(&builder.finish(&[y]), &[("x", floats(&mut random, &shape))], CLOSE, &format!("round {round}"));
    }
}

/// Movements one behind the other, of every element type, from feature maps and from rows.
#[test]
fn movements_in_a_row() {
    let mut random = Random(6);
    let types = [DType::F32, DType::U8, DType::I16, DType::I64];
    for round in 0..300_usize {
        let dtype = types[round % types.len()];
        let rank = 1 + round % 4;
        let mut shape: Vec<usize> = (0..rank).map(|_| random.between(1, 5)).collect();
        let input = shape.clone();
        let mut builder = GraphBuilder::new();
        let mut y = builder.input("x", dtype, &shape);
        let mut did = Vec::new();
        for _ in 0..random.between(1, 4) {
            let axis = random.below(shape.len());
            let (value, next, what) = movement(&mut random, &mut builder, y, &shape, axis, dtype);
            did.push(what);
            (y, shape) = (value, next);
        }
        let given = [("x", random.tensor(dtype, &input))];
        check(&builder.finish_inferred(&[y]), &given, 0.0, &format!("{dtype} {input:?}: {did:?}"));
    }
}

/// Some movement of a value, and what became of its extents.
fn movement(
    random: &mut Random,
    builder: &mut GraphBuilder,
    x: ValueId,
    shape: &[usize],
    axis: usize,
    dtype: DType,
) -> (ValueId, Vec<usize>, String) {
    let mut next = shape.to_vec();
    let extent = shape[axis];
    let signed = if random.below(2) == 0 { axis as i64 } else { axis as i64 - shape.len() as i64 };
    match random.below(9) {
        0 => {
            // From the back or the front, in steps, maybe with the axes and steps left out.
            let (start, step) = (random.below(extent), random.between(1, 2));
            next[axis] = (extent - start).div_ceil(step);
            let from = if random.below(2) == 0 { start as i64 } else { start as i64 - extent as i64 };
            let mut operands = vec![x];
            if axis == 0 && random.below(2) == 0 {
                next[0] = extent - start;
                operands.extend([ints(builder, &[from]), ints(builder, &[i64::MAX])]);
            } else {
                for value in [from, extent as i64 + 3, signed, step as i64] {
                    operands.push(ints(builder, &[value]));
                }
            }
            (builder.node(Op::Slice(Slice), &operands), next, format!("slice {axis} from {from} by {step}"))
        }
        1 => {
            let perm: Vec<usize> = (0..shape.len()).map(|at| (at + axis) % shape.len()).collect();
            let next = perm.iter().map(|&at| shape[at]).collect();
            let what = format!("transpose {perm:?}");
            (builder.node(Op::Transpose(Transpose { perm }), &[x]), next, what)
        }
        2 => {
            // Backwards is what no attribute stands for.
            next.reverse();
            let op = Op::Transpose(Transpose { perm: Vec::new() });
            (builder.node(op, &[x]), next, "transpose".into())
        }
        3 => {
            // As few indices as are copied, one that goes, or more than are copied.
            let count = [0, 1, 3, 9][random.below(4)];
            let list: Vec<i64> =
                (0..count.max(1)).map(|_| random.below(2 * extent) as i64 - extent as i64).collect();
            let what = format!("gather {axis} {list:?}");
            let tensor = if count == 0 { Tensor::i64(&[], &list) } else { Tensor::i64(&[count], &list) };
            if count == 0 {
                next.remove(axis);
            } else {
                next[axis] = count;
            }
            if next.is_empty() {
                return (x, shape.to_vec(), "nothing".into());
            }
            let indices = builder.constant(&tensor);
            (builder.node(Op::Gather(Gather { axis: signed as isize }), &[x, indices]), next, what)
        }
        4 => {
            let amounts: Vec<i64> = (0..2).map(|_| random.below(3) as i64).collect();
            next[axis] += (amounts[0] + amounts[1]) as usize;
            let pads = ints(builder, &amounts);
            let axes = ints(builder, &[signed]);
            let fill = builder.constant(&random.tensor(dtype, &[]));
            let fill = (random.below(2) == 0).then_some(fill);
            let operands = [Some(x), Some(pads), fill, Some(axes)];
            let op = Op::Pad(Pad { mode: PadMode::Constant });
            (builder.node_with(op, &operands, 1)[0], next, format!("pad {axis} by {amounts:?}"))
        }
        5 => {
            // Beside itself, and beside a part of itself.
            next[axis] *= 2;
            let op = Op::Concat(Concat { axis: signed as isize });
            (builder.node(op, &[x, x]), next, format!("concat {axis}"))
        }
        6 => {
            let first = random.below(extent + 1);
            let sizes = ints(builder, &[first as i64, (extent - first) as i64]);
            let op = Op::Split(Split { axis: signed as isize, parts: None });
            let parts = builder.node_with(op, &[Some(x), Some(sizes)], 2);
            let op = Op::Concat(Concat { axis: axis as isize });
            (builder.node(op, &[parts[1], parts[0]]), next, format!("turn {axis} at {first}"))
        }
        7 if extent == 1 => {
            next[axis] = 3;
            let target: Vec<i64> = next.iter().map(|&dim| dim as i64).collect();
            let target = ints(builder, &target);
            (builder.node(Op::Expand(Expand), &[x, target]), next, format!("expand {axis}"))
        }
        _ => {
            let count: usize = shape.iter().product();
            let target = ints(builder, &[count as i64]);
            let op = Op::Reshape(triune_graph::ops::Reshape { allow_zero: false });
            (builder.node(op, &[x, target]), vec![count], "reshape".into())
        }
    }
}

#[test]
fn a_value_everywhere() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::I32, &[3]);
    let shape = ints(&mut builder, &[400, 3]);
    let op = ConstantOfShape { value: Tensor::i32(&[1], &[-7]).to_constant() };
    let everywhere = builder.node(Op::ConstantOfShape(op), &[shape]);
    let y = builder.binary(BinaryKind::Add, everywhere, x);
    check(&builder.finish(&[y]), &[("x", Tensor::i32(&[3], &[1, 2, 3]))], 0.0, "a value everywhere");
}

/// Both forms of a function of two operands over broadcast extents in all orders of axes.
#[test]
fn operands_that_broadcast() {
    let mut random = Random(7);
    for round in 0..160_usize {
        let dtype = [DType::F32, DType::I32, DType::F64, DType::U8][round % 4];
        let rank = 1 + round / 4 % 5;
        let full: Vec<usize> = (0..rank).map(|_| random.between(1, 4)).collect();
        let part = |random: &mut Random| -> Vec<usize> {
            let skip = random.below(rank);
            full[skip..].iter().map(|&dim| if random.below(3) == 0 { 1 } else { dim }).collect()
        };
        let shapes = if round % 2 == 0 {
            [full.clone(), part(&mut random)]
        } else {
            [part(&mut random), full.clone()]
        };
        let mut builder = GraphBuilder::new();
        let mut operands = Vec::new();
        let mut inputs = Vec::new();
        for (name, shape) in ["a", "b"].into_iter().zip(&shapes) {
            let perm: Vec<usize> = (0..shape.len()).rev().collect();
            let back = random.below(2) == 0;
            let stored: Vec<usize> = if back { shape.iter().rev().copied().collect() } else { shape.clone() };
            let x = builder.input(name, dtype, &stored);
            operands.push(if back { builder.node(Op::Transpose(Transpose { perm }), &[x]) } else { x });
            inputs.push((name, random.tensor(dtype, &stored)));
        }
        let kind = [BinaryKind::Add, BinaryKind::Sub, BinaryKind::Max][round % 3];
        let y = builder.binary(kind, operands[0], operands[1]);
        check(&builder.finish(&[y]), &inputs, 0.0, &format!("{dtype} {shapes:?}"));
    }
}

/// What a model leaves open is filled in before it is compiled; the first extent of all inputs is the batch.
#[test]
fn open_batches_are_bound() {
    let mut builder = GraphBuilder::new();
    let inputs = ["x", "z"].map(|name| builder.input(name, DType::F32, &[1, 3]));
    let y = builder.binary(BinaryKind::Add, inputs[0], inputs[1]);
    let mut model: Graph = builder.finish(&[y]);
    for id in inputs {
        model.value_mut(id).shape = Some(vec![Dim::Symbol("batch".into()), Dim::Fixed(3)]);
    }
    let bound = triune_compiler::bind_batch(&model, 5).expect("a batch");
    for id in inputs {
        assert_eq!(bound.value(id).fixed_shape().as_deref(), Some(&[5, 3][..]));
    }
}
