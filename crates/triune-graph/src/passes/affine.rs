//! Scales and shifts per channel (normalization, constant factors and addends) folded into the operator before them.

mod folded;

use std::collections::BTreeMap;

use smallvec::smallvec;
use triune_tensor::{DType, Requantize, Shape};

use folded::{Folded, addend};

use super::rewrite::Rewriter;
use crate::{
    Constant, Dim, Error, Graph, Node, Op, Value, ValueId,
    ops::{AutoPad, BatchNormalization, Binary, BinaryKind, Conv, Epilogue, Gemm, Reshape},
};

/// Folds y = x·scale + shift, per channel and constant, into the weights and bias of a float convolution or matrix
/// product that nothing else reads; the products are made in f64 and rounded once.
///
/// Batch normalization, and additions and products with a constant per channel, are such; a normalization behind
/// anything else becomes a depthwise 1×1 convolution, or a product and an addition when it is not over images.
/// Matrix products with a constant right side become [`Gemm`]. Wants a graph with inferred types. Returns whether
/// anything changed.
pub fn fold_batch_norm(graph: &mut Graph) -> Result<bool, Error> {
    let concerned = |node: &Node| {
        matches!(node.op, Op::BatchNormalization(_) | Op::Conv(_) | Op::Gemm(_) | Op::MatMul(_))
    };
    if !graph.nodes.iter().any(concerned) {
        return Ok(false);
    }
    let mut rewriter = Rewriter::new(graph);
    // By the node that takes them in: its weights are made once, when everything that follows it is known.
    let mut folded: BTreeMap<usize, Folded> = BTreeMap::new();
    for index in 0..rewriter.len() {
        rewriter.go_on()?;
        gemm_from_matmul(&mut rewriter, index);
        let Some(affine) = Affine::of(&rewriter, index) else { continue };
        if let Some((maker, sum)) = addend(&rewriter, &folded, &affine) {
            folded.insert(maker, sum);
            skip(&mut rewriter, index, &affine);
            continue;
        }
        let maker = rewriter.producer(affine.x).map(|(maker, _)| maker);
        match maker.and_then(|maker| Folded::of(&rewriter, maker, folded.get(&maker), affine.x, &affine)) {
            Some((maker, sum)) => {
                folded.insert(maker, sum);
                skip(&mut rewriter, index, &affine);
            }
            None => lower_alone(&mut rewriter, index, &affine),
        }
    }
    for (maker, folded) in folded {
        rewriter.go_on()?;
        folded.apply(&mut rewriter, maker)?;
    }
    Ok(rewriter.commit())
}

/// Lets the node that makes what the node at `index` reads make that one's result.
fn skip(rewriter: &mut Rewriter<'_>, index: usize, affine: &Affine) {
    let Some((maker, node)) = rewriter.producer(affine.x) else { return };
    let node = Node { outputs: smallvec![Some(affine.y)], ..node.clone() };
    rewriter.remove(index);
    rewriter.replace(maker, node);
}

/// Channels that a number is written out for: those of a map, and not of what merely has a long axis.
const MOST_CHANNELS: usize = 1 << 20;

/// x·scale + shift per index of axis 1.
struct Affine {
    x: ValueId,
    y: ValueId,
    scale: Vec<f64>,
    shift: Vec<f64>,
    is_normalization: bool,
}

impl Affine {
    /// What the node is, when it is such a one over f32.
    fn of(rewriter: &Rewriter<'_>, index: usize) -> Option<Self> {
        let node = rewriter.get(index)?;
        let y = (*node.outputs.first()?)?;
        let shape = rewriter.value(y).fixed_shape()?;
        let normalizes = matches!(node.op, Op::BatchNormalization(_));
        if rewriter.value(y).dtype != Some(DType::F32) || shape.rank() < 2 && !normalizes {
            return None;
        }
        let channels = BatchNormalization::channels(&shape);
        let (x, scale, shift, is_normalization) = match &node.op {
            Op::BatchNormalization(op) => {
                let parameter = |index: usize| constant_f64(rewriter, *node.inputs.get(index)?);
                let (gamma, beta, mean, var) = (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
                let epsilon = f64::from(op.epsilon);
                let scale: Vec<f64> =
                    gamma.iter().zip(&var).map(|(gamma, var)| gamma / (var + epsilon).sqrt()).collect();
                let shift =
                    beta.iter().zip(&mean).zip(&scale).map(|((beta, mean), scale)| beta - mean * scale);
                ((*node.inputs.first()?)?, scale.clone(), shift.collect::<Vec<f64>>(), true)
            }
            Op::Binary(op) if op.epilogue.post_ops.is_empty() && channels <= MOST_CHANNELS => {
                let operands = [(*node.inputs.first()?)?, (*node.inputs.get(1)?)?];
                let known = operands.iter().position(|&id| rewriter.value(id).constant.is_some())?;
                let x = operands[1 - known];
                let values = per_channel(rewriter, operands[known], &shape)?;
                if rewriter.value(x).fixed_shape()? != shape {
                    return None;
                }
                let (ones, zeros) = (vec![1.0; channels], vec![0.0; channels]);
                let negative = values.iter().map(|value| -value).collect();
                let (scale, shift) = match (op.kind, known) {
                    (BinaryKind::Add, _) => (ones, values),
                    (BinaryKind::Sub, 1) => (ones, negative),
                    (BinaryKind::Sub, _) => (vec![-1.0; channels], values),
                    (BinaryKind::Mul, _) => (values, zeros),
                    (BinaryKind::Div, 1) => (values.iter().map(|value| 1.0 / value).collect(), zeros),
                    _ => return None,
                };
                (x, scale, shift, false)
            }
            _ => return None,
        };
        (scale.len() == channels && shift.len() == channels).then_some(Self {
            x,
            y,
            scale,
            shift,
            is_normalization,
        })
    }
}

fn rounded(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

fn constant_f64(rewriter: &Rewriter<'_>, id: Option<ValueId>) -> Option<Vec<f64>> {
    let values = rewriter.value(id?).constant.as_ref()?.to_f32()?;
    Some(values.into_iter().map(f64::from).collect())
}

/// The elements of a constant that, broadcast to `shape`, depends on axis 1 at most.
fn per_channel(rewriter: &Rewriter<'_>, id: ValueId, shape: &[usize]) -> Option<Vec<f64>> {
    let own = rewriter.value(id).fixed_shape()?;
    if own.iter().all(|&extent| extent == 1) {
        let values = constant_f64(rewriter, Some(id))?;
        return Some(vec![*values.first()?; shape[1]]);
    }
    // Axis 1 of the result, counted in the constant's own axes.
    let axis = (own.rank() + 1).checked_sub(shape.len())?;
    let elsewhere_one = own.iter().enumerate().all(|(index, &extent)| index == axis || extent == 1);
    let fits = own.rank() <= shape.len() && own.get(axis) == Some(&shape[1]) && elsewhere_one;
    if fits { constant_f64(rewriter, Some(id)) } else { None }
}

fn constant_f32(shape: Shape, values: &[f32]) -> Constant {
    Constant::from_f32(shape, values).expect("as many values as the shape holds")
}

/// A value for a constant that serves `y`.
fn constant(rewriter: &mut Rewriter<'_>, y: ValueId, suffix: &str, constant: Constant) -> ValueId {
    let name = format!("{}.{suffix}", rewriter.value(y).name);
    let id = rewriter.add_value(Value::named(name));
    rewriter.set_constant(id, constant);
    id
}

/// A normalization that nothing takes in.
fn lower_alone(rewriter: &mut Rewriter<'_>, index: usize, affine: &Affine) {
    let Some(node) = rewriter.get(index) else { return };
    let Some(shape) = rewriter.value(affine.y).fixed_shape() else { return };
    if !affine.is_normalization {
        return;
    }
    let (mut node, channels) = (node.clone(), affine.scale.len());
    if shape.rank() > 1 && channels > 0 && !shape[2..].contains(&0) {
        if shape.rank() == 4 {
            let inputs = [affine.x].into_iter().chain(depthwise_operands(rewriter, affine)).map(Some);
            (node.op, node.inputs) = (depthwise(channels), inputs.collect());
            rewriter.replace(index, node);
            return;
        }
        // Integers have no other form; rows are images of one row of pixels. Where factors are m·2⁻ⁿ, those of rows are left to the
        // host: the vendor's documents have products and sums for them, which round otherwise than a convolution.
        let from_integers = |(_, maker): (usize, &Node)| matches!(maker.op, Op::DequantizeLinear(_));
        let as_documented = shape.rank() > 2 || rewriter.requantize() != Requantize::Fixed;
        if as_documented && rewriter.producer(affine.x).is_some_and(from_integers) {
            as_image(rewriter, index, affine, &shape);
            return;
        }
    }
    let mut dims = vec![1; shape.rank()];
    if let Some(extent) = dims.get_mut(1) {
        *extent = channels;
    }
    let Some(dims) = Shape::new(&dims) else { return };
    let scale = constant(rewriter, affine.y, "scale", constant_f32(dims, &rounded(&affine.scale)));
    let shift = constant(rewriter, affine.y, "shift", constant_f32(dims, &rounded(&affine.shift)));
    let value = Value {
        dtype: rewriter.value(affine.y).dtype,
        shape: rewriter.value(affine.y).shape.clone(),
        ..Value::named(format!("{}.scaled", rewriter.value(affine.y).name))
    };
    let scaled = rewriter.add_value(value);
    let inputs = vec![Some(affine.x), Some(scale)];
    let product = Node::new(format!("{}.scale", node.name), BinaryKind::Mul, inputs, vec![Some(scaled)]);
    rewriter.add_node(product, index);
    node.op = Op::Binary(Binary::new(BinaryKind::Add));
    node.inputs = smallvec![Some(scaled), Some(shift)];
    rewriter.replace(index, node);
}

/// A convolution of every channel by itself, of single pixels.
fn depthwise(channels: usize) -> Op {
    Op::Conv(Box::new(Conv {
        kernel: Some([1; 2]),
        stride: [1; 2],
        dilation: [1; 2],
        pad: [0; 4],
        auto_pad: AutoPad::Explicit,
        groups: channels,
        epilogue: Epilogue::default(),
    }))
}

/// Weights and bias of [`depthwise`].
fn depthwise_operands(rewriter: &mut Rewriter<'_>, affine: &Affine) -> [ValueId; 2] {
    let (scale, shift) = (rounded(&affine.scale), rounded(&affine.shift));
    let weights = constant_f32(Shape::from([scale.len(), 1, 1, 1]), &scale);
    let bias = constant_f32(Shape::from([shift.len()]), &shift);
    [constant(rewriter, affine.y, "weights", weights), constant(rewriter, affine.y, "bias", bias)]
}

/// Makes the normalization at `index`, of another rank than images have, one of images, between two changes of shape.
fn as_image(rewriter: &mut Rewriter<'_>, index: usize, affine: &Affine, shape: &Shape) {
    let Some(node) = rewriter.get(index).cloned() else { return };
    let image = [shape[0], shape[1], 1, shape[2..].iter().product()];
    let mut value = |what: &str| {
        let own = rewriter.value(affine.y);
        let shape = Some(image.iter().map(|&dim| Dim::Fixed(dim)).collect());
        let value = Value { dtype: own.dtype, shape, ..Value::named(format!("{}.{what}", own.name)) };
        rewriter.add_value(value)
    };
    let (x, y) = (value("image"), value("normalized"));
    let extents = |rewriter: &mut Rewriter<'_>, dims: &[usize], what: &str| {
        let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let dims = Constant::from_i64(Shape::from([dims.len()]), &dims).expect("as many elements");
        constant(rewriter, affine.y, what, dims)
    };
    let own = extents(rewriter, &image, "image extents");
    let back = extents(rewriter, shape, "extents");
    let op = || Op::Reshape(Reshape { allow_zero: true });
    let inputs = vec![Some(affine.x), Some(own)];
    rewriter.add_node(Node::new(format!("{}.image", node.name), op(), inputs, vec![Some(x)]), index);
    let [weights, bias] = depthwise_operands(rewriter, affine);
    let inputs = vec![Some(x), Some(weights), Some(bias)];
    let name = format!("{}.normalized", node.name);
    rewriter.add_node(Node::new(name, depthwise(shape[1]), inputs, vec![Some(y)]), index);
    let inputs = smallvec![Some(y), Some(back)];
    rewriter.replace(index, Node { op: op(), inputs, ..node });
}

/// A product of matrices, the right one constant, is what a fully connected layer is, and has room for a bias.
fn gemm_from_matmul(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(node @ Node { op: Op::MatMul(matmul), .. }) = rewriter.get(index) else { return };
    let operand = |index: usize| node.inputs.get(index).copied().flatten();
    let (Some(a), Some(b)) = (operand(0), operand(1)) else { return };
    let rank = |id: ValueId| rewriter.value(id).shape.as_ref().map(Vec::len);
    let constant = rewriter.value(b).constant.as_ref();
    if rank(a) != Some(2) || rank(b) != Some(2) || constant.is_none_or(|b| b.dtype() != DType::F32) {
        return;
    }
    let epilogue = matmul.epilogue.clone();
    let op = Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false, epilogue });
    let node = Node { op, ..node.clone() };
    rewriter.replace(index, node);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dim, infer::infer};

    fn f32s(graph: &mut Graph, name: &str, dims: &[usize], values: &[f32]) -> ValueId {
        graph.add_constant(name, Constant::from_f32(Shape::new(dims).unwrap(), values).unwrap())
    }

    fn add_node(graph: &mut Graph, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = format!("node{}", graph.nodes.len());
        let output = graph.add_value(Value::named(format!("{name}.out")));
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        graph.nodes.push(Node::new(name, op, inputs, vec![Some(output)]));
        output
    }

    fn input(graph: &mut Graph, dims: &[usize]) -> ValueId {
        let shape = dims.iter().map(|&dim| Dim::Fixed(dim)).collect();
        let id = graph.add_value(Value { dtype: Some(DType::F32), shape: Some(shape), ..Value::named("x") });
        graph.inputs.push(id);
        id
    }

    fn normalization(graph: &mut Graph, x: ValueId) -> ValueId {
        let parameters = [
            f32s(graph, "gamma", &[2], &[2.0, 3.0]),
            f32s(graph, "beta", &[2], &[0.5, -1.0]),
            f32s(graph, "mean", &[2], &[1.0, 4.0]),
            f32s(graph, "var", &[2], &[3.0, 0.0]),
        ];
        let op = Op::BatchNormalization(BatchNormalization { epsilon: 1.0 });
        let [gamma, beta, mean, var] = parameters;
        add_node(graph, op, &[x, gamma, beta, mean, var])
    }

    fn values(graph: &Graph, node: usize, input: usize) -> Vec<f32> {
        let id = graph.nodes[node].inputs[input].unwrap();
        graph.value(id).constant.as_ref().unwrap().to_f32().unwrap()
    }

    fn run(graph: &mut Graph) {
        infer(graph).unwrap();
        assert!(fold_batch_norm(graph).unwrap());
        super::super::dead_code(graph).unwrap();
        infer(graph).unwrap();
    }

    fn conv() -> Op {
        Op::Conv(Box::new(Conv {
            kernel: None,
            stride: [1; 2],
            dilation: [1; 2],
            pad: [0; 4],
            auto_pad: AutoPad::Explicit,
            groups: 1,
            epilogue: Epilogue::default(),
        }))
    }

    // gamma/√(var + 1) = 1, 3; beta − mean·scale = −0.5, −13.
    #[test]
    fn normalization_goes_into_a_convolution() {
        let mut graph = Graph::default();
        let x = input(&mut graph, &[1, 1, 4, 4]);
        let weights = f32s(&mut graph, "w", &[2, 1, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
        let bias = f32s(&mut graph, "b", &[2], &[10.0, 20.0]);
        let y = add_node(&mut graph, conv(), &[x, weights, bias]);
        let y = normalization(&mut graph, y);
        graph.outputs.push(y);
        run(&mut graph);
        assert_eq!(graph.nodes.len(), 1);
        assert_eq!(values(&graph, 0, 1), [1.0, 2.0, 9.0, 12.0]);
        assert_eq!(values(&graph, 0, 2), [9.5, 47.0]);
    }

    #[test]
    fn normalization_stays_beside_a_convolution_with_two_readers() {
        let mut graph = Graph::default();
        let x = input(&mut graph, &[1, 1, 4, 4]);
        let weights = f32s(&mut graph, "w", &[2, 1, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
        let y = add_node(&mut graph, conv(), &[x, weights]);
        let z = normalization(&mut graph, y);
        graph.outputs = vec![y, z];
        run(&mut graph);
        assert_eq!(graph.nodes.len(), 2);
        assert_eq!(values(&graph, 0, 1), [1.0, 2.0, 3.0, 4.0]);
        assert!(matches!(&graph.nodes[1].op, Op::Conv(conv) if conv.groups == 2));
        assert_eq!((values(&graph, 1, 1), values(&graph, 1, 2)), (vec![1.0, 3.0], vec![-0.5, -13.0]));
    }

    #[test]
    fn normalization_of_rows_is_a_product_and_an_addition() {
        let mut graph = Graph::default();
        let x = input(&mut graph, &[5, 2]);
        let y = normalization(&mut graph, x);
        graph.outputs.push(y);
        run(&mut graph);
        assert_eq!(graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>(), ["Mul", "Add"]);
        assert_eq!((values(&graph, 0, 1), values(&graph, 1, 1)), (vec![1.0, 3.0], vec![-0.5, -13.0]));
    }

    #[test]
    fn factors_and_addends_go_into_a_matrix_product() {
        let mut graph = Graph::default();
        let x = input(&mut graph, &[5, 2]);
        let weights = f32s(&mut graph, "w", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let addend = f32s(&mut graph, "c", &[1, 3], &[1.0, 0.0, -1.0]);
        let factor = f32s(&mut graph, "f", &[3], &[2.0, 1.0, 10.0]);
        let y = add_node(&mut graph, Op::MatMul(crate::ops::MatMul::default()), &[x, weights]);
        let y = add_node(&mut graph, Op::Binary(Binary::new(BinaryKind::Add)), &[addend, y]);
        let y = add_node(&mut graph, Op::Binary(Binary::new(BinaryKind::Mul)), &[y, factor]);
        graph.outputs.push(y);
        run(&mut graph);
        assert_eq!(graph.nodes.len(), 1);
        assert_eq!(values(&graph, 0, 1), [2.0, 2.0, 30.0, 8.0, 5.0, 60.0]);
        assert_eq!(values(&graph, 0, 2), [2.0, 0.0, -10.0]);
    }

    #[test]
    fn an_addend_per_column_is_none_per_channel() {
        let mut graph = Graph::default();
        let x = input(&mut graph, &[1, 1, 4, 2]);
        let weights = f32s(&mut graph, "w", &[2, 1, 1, 1], &[1.0, 2.0]);
        let addend = f32s(&mut graph, "c", &[2], &[1.0, 0.0]);
        let y = add_node(&mut graph, conv(), &[x, weights]);
        let y = add_node(&mut graph, Op::Binary(Binary::new(BinaryKind::Add)), &[y, addend]);
        graph.outputs.push(y);
        infer(&mut graph).unwrap();
        assert!(!fold_batch_norm(&mut graph).unwrap());
    }

    // (w·x + r) + c: the bias comes last, as optimized dumps have it.
    #[test]
    fn addends_behind_an_addition_go_into_the_convolution() {
        for swapped in [false, true] {
            let mut graph = Graph::default();
            let x = input(&mut graph, &[1, 2, 4, 4]);
            let weights = f32s(&mut graph, "w", &[2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0]);
            let addend = f32s(&mut graph, "c", &[1, 2, 1, 1], &[0.5, -1.0]);
            let y = add_node(&mut graph, conv(), &[x, weights]);
            let operands = if swapped { [x, y] } else { [y, x] };
            let y = add_node(&mut graph, Op::Binary(Binary::new(BinaryKind::Add)), &operands);
            let y = add_node(&mut graph, Op::Binary(Binary::new(BinaryKind::Add)), &[y, addend]);
            graph.outputs.push(y);
            run(&mut graph);
            let names: Vec<_> = graph.nodes.iter().map(|node| node.op.name()).collect();
            assert_eq!(names, ["Conv", "Add"]);
            assert_eq!(values(&graph, 0, 1), [1.0, 2.0, 3.0, 4.0]);
            assert_eq!(values(&graph, 0, 2), [0.5, -1.0]);
            assert_eq!(*graph.nodes[1].outputs, [Some(graph.outputs[0])]);
            super::super::fuse(&mut graph).unwrap();
            assert_eq!(graph.nodes.len(), 1, "the addition is the convolution's residual");
        }
    }

    #[test]
    fn a_sum_with_two_readers_keeps_its_addend() {
        let mut graph = Graph::default();
        let x = input(&mut graph, &[1, 2, 4, 4]);
        let weights = f32s(&mut graph, "w", &[2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0]);
        let addend = f32s(&mut graph, "c", &[1, 2, 1, 1], &[0.5, -1.0]);
        let y = add_node(&mut graph, conv(), &[x, weights]);
        let sum = add_node(&mut graph, Op::Binary(Binary::new(BinaryKind::Add)), &[y, x]);
        let y = add_node(&mut graph, Op::Binary(Binary::new(BinaryKind::Add)), &[sum, addend]);
        graph.outputs = vec![sum, y];
        infer(&mut graph).unwrap();
        assert!(!fold_batch_norm(&mut graph).unwrap());
    }

    #[test]
    fn a_chain_is_rounded_once() {
        let mut graph = Graph::default();
        let x = input(&mut graph, &[1, 1, 4, 4]);
        let weights = f32s(&mut graph, "w", &[1, 1, 1, 1], &[1.0 / 3.0]);
        let factors = [0.1_f32, 0.7, 1.1, 0.3];
        let mut y = add_node(&mut graph, conv(), &[x, weights]);
        for factor in factors {
            let factor = f32s(&mut graph, "f", &[1, 1, 1, 1], &[factor]);
            y = add_node(&mut graph, Op::Binary(Binary::new(BinaryKind::Mul)), &[y, factor]);
        }
        graph.outputs.push(y);
        run(&mut graph);
        assert_eq!(graph.nodes.len(), 1);
        let product: f64 = factors.iter().map(|&factor| f64::from(factor)).product();
        assert_eq!(values(&graph, 0, 1), [(f64::from(1.0_f32 / 3.0) * product) as f32]);
        let each = factors.iter().fold(1.0_f32 / 3.0, |weight, factor| weight * factor);
        assert_ne!(values(&graph, 0, 1), [each], "the test tells the two apart");
    }
}
