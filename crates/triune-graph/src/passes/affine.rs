//! Scales and shifts per channel (normalization, constant factors and addends) folded into the operator before them.

use triune_tensor::{DType, Shape};

use super::rewrite::Rewriter;
use crate::{
    Constant, Error, Graph, Node, Op, Value, ValueId,
    ops::{AutoPad, Binary, BinaryKind, Conv, Epilogue, Gemm},
};

/// Folds y = x·scale + shift, per channel and constant, into the weights and bias of a float convolution or matrix
/// product that nothing else reads; the products are made in f64 and rounded once.
///
/// Batch normalization, and additions and products with a constant per channel, are such; a normalization behind
/// anything else becomes a depthwise 1×1 convolution, or a product and an addition when it is not over images.
/// Matrix products with a constant right side become [`Gemm`]. Wants a graph with inferred types. Returns whether
/// anything changed.
pub fn fold_batch_norm(graph: &mut Graph) -> Result<bool, Error> {
    let mut rewriter = Rewriter::new(graph);
    for index in 0..rewriter.len() {
        gemm_from_matmul(&mut rewriter, index);
        let Some(affine) = Affine::of(&rewriter, index) else { continue };
        if !fold_into_conv(&mut rewriter, index, &affine) && !fold_into_gemm(&mut rewriter, index, &affine) {
            lower_alone(&mut rewriter, index, &affine);
        }
    }
    Ok(rewriter.commit())
}

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
        if rewriter.value(y).dtype != Some(DType::F32) || shape.rank() < 2 {
            return None;
        }
        let channels = shape[1];
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
            Op::Binary(op) if op.epilogue.stages.is_empty() => {
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

    /// The bias behind the operation of one that was there before.
    fn bias(&self, before: Option<&[f64]>) -> Vec<f32> {
        let bias = |channel: usize| {
            let before = before.map_or(0.0, |before| before[channel]);
            (before * self.scale[channel] + self.shift[channel]) as f32
        };
        (0..self.scale.len()).map(bias).collect()
    }
}

fn constant_f64(rewriter: &Rewriter<'_>, id: Option<ValueId>) -> Option<Vec<f64>> {
    let values = rewriter.value(id?).constant.as_ref()?.to_f32()?;
    Some(values.into_iter().map(f64::from).collect())
}

/// The elements of a constant that, broadcast to `shape`, depends on axis 1 at most.
fn per_channel(rewriter: &Rewriter<'_>, id: ValueId, shape: &[usize]) -> Option<Vec<f64>> {
    let values = constant_f64(rewriter, Some(id))?;
    if let [value] = values.as_slice() {
        return Some(vec![*value; shape[1]]);
    }
    let own = rewriter.value(id).fixed_shape()?;
    // Axis 1 of the result, counted in the constant's own axes.
    let axis = (own.rank() + 1).checked_sub(shape.len())?;
    let elsewhere_one = own.iter().enumerate().all(|(index, &extent)| index == axis || extent == 1);
    (own.rank() <= shape.len() && own.get(axis) == Some(&shape[1]) && elsewhere_one).then_some(values)
}

fn constant(rewriter: &mut Rewriter<'_>, y: ValueId, suffix: &str, shape: Shape, values: &[f32]) -> ValueId {
    let name = format!("{}.{suffix}", rewriter.value(y).name);
    let id = rewriter.add_value(Value::named(name));
    rewriter.set_constant(id, Constant::from_f32(shape, values).expect("as many values as the shape holds"));
    id
}

fn fold_into_conv(rewriter: &mut Rewriter<'_>, index: usize, affine: &Affine) -> bool {
    let Some((maker, node @ Node { op: Op::Conv(conv), .. })) = rewriter.producer(affine.x) else {
        return false;
    };
    let weights_id = node.inputs.get(1).copied().flatten();
    let Some(weights) = constant_f64(rewriter, weights_id) else { return false };
    let Some(shape) = weights_id.and_then(|id| rewriter.value(id).fixed_shape()) else { return false };
    let bias_id = node.inputs.get(2).copied().flatten();
    let bias = constant_f64(rewriter, bias_id);
    let plain = conv.epilogue.stages.is_empty() && bias.is_some() == bias_id.is_some();
    if !plain || !rewriter.is_private(affine.x) || shape[0] != affine.scale.len() {
        return false;
    }
    let mut node = node.clone();
    let bias = affine.bias(bias.as_deref());
    if affine.scale.iter().any(|&scale| scale != 1.0) {
        let run = (weights.len() / shape[0].max(1)).max(1);
        let scaled = weights.iter().enumerate().map(|(at, weight)| (weight * affine.scale[at / run]) as f32);
        let scaled: Vec<f32> = scaled.collect();
        node.inputs[1] = Some(constant(rewriter, affine.y, "weights", shape, &scaled));
    }
    node.inputs.truncate(2);
    node.inputs.push(Some(constant(rewriter, affine.y, "bias", Shape::from([bias.len()]), &bias)));
    node.outputs = vec![Some(affine.y)];
    rewriter.remove(index);
    rewriter.replace(maker, node);
    true
}

fn fold_into_gemm(rewriter: &mut Rewriter<'_>, index: usize, affine: &Affine) -> bool {
    let Some((maker, node @ Node { op: Op::Gemm(gemm), .. })) = rewriter.producer(affine.x) else {
        return false;
    };
    let weights_id = node.inputs.get(1).copied().flatten();
    let Some(weights) = constant_f64(rewriter, weights_id) else { return false };
    let Some(shape) = weights_id.and_then(|id| rewriter.value(id).fixed_shape()) else { return false };
    let Some(out) = rewriter.value(affine.x).fixed_shape() else { return false };
    let bias_id = node.inputs.get(2).copied().flatten();
    let bias = bias_id.and_then(|id| per_channel(rewriter, id, &out));
    let plain = gemm.epilogue.stages.is_empty() && bias.is_some() == bias_id.is_some();
    if !plain || !rewriter.is_private(affine.x) || shape.rank() != 2 {
        return false;
    }
    let (gemm, mut node) = (gemm.clone(), node.clone());
    let bias: Option<Vec<f64>> =
        bias.map(|bias| bias.into_iter().map(|value| value * f64::from(gemm.beta)).collect());
    let bias = affine.bias(bias.as_deref());
    if affine.scale.iter().any(|&scale| scale != 1.0) {
        let column = |at: usize| if gemm.trans_b { at / shape[1] } else { at % shape[1] };
        let scaled =
            weights.iter().enumerate().map(|(at, weight)| (weight * affine.scale[column(at)]) as f32);
        let scaled: Vec<f32> = scaled.collect();
        node.inputs[1] = Some(constant(rewriter, affine.y, "weights", shape, &scaled));
    }
    node.op = Op::Gemm(Gemm { beta: 1.0, ..gemm });
    node.inputs.truncate(2);
    node.inputs.push(Some(constant(rewriter, affine.y, "bias", Shape::from([bias.len()]), &bias)));
    node.outputs = vec![Some(affine.y)];
    rewriter.remove(index);
    rewriter.replace(maker, node);
    true
}

/// A normalization that nothing takes in.
fn lower_alone(rewriter: &mut Rewriter<'_>, index: usize, affine: &Affine) {
    let Some(node) = rewriter.get(index) else { return };
    let Some(shape) = rewriter.value(affine.y).fixed_shape() else { return };
    if !affine.is_normalization {
        return;
    }
    let (mut node, channels) = (node.clone(), shape[1]);
    let scale: Vec<f32> = affine.scale.iter().map(|&scale| scale as f32).collect();
    let shift = affine.bias(None);
    if shape.rank() == 4 && channels > 0 {
        let weights = constant(rewriter, affine.y, "weights", Shape::from([channels, 1, 1, 1]), &scale);
        let bias = constant(rewriter, affine.y, "bias", Shape::from([channels]), &shift);
        node.op = Op::Conv(Conv {
            kernel: Some([1; 2]),
            stride: [1; 2],
            dilation: [1; 2],
            pad: [0; 4],
            auto_pad: AutoPad::Explicit,
            groups: channels,
            epilogue: Epilogue::default(),
        });
        node.inputs = vec![Some(affine.x), Some(weights), Some(bias)];
        rewriter.replace(index, node);
        return;
    }
    let mut dims = vec![1; shape.rank()];
    dims[1] = channels;
    let Some(dims) = Shape::new(&dims) else { return };
    let scale = constant(rewriter, affine.y, "scale", dims, &scale);
    let shift = constant(rewriter, affine.y, "shift", dims, &shift);
    let value = Value {
        dtype: rewriter.value(affine.y).dtype,
        shape: rewriter.value(affine.y).shape.clone(),
        ..Value::named(format!("{}.scaled", rewriter.value(affine.y).name))
    };
    let scaled = rewriter.add_value(value);
    let product = Node {
        name: format!("{}.scale", node.name),
        op: Op::Binary(Binary::new(BinaryKind::Mul)),
        inputs: vec![Some(affine.x), Some(scale)],
        outputs: vec![Some(scaled)],
    };
    rewriter.add_node(product, index);
    node.op = Op::Binary(Binary::new(BinaryKind::Add));
    node.inputs = vec![Some(scaled), Some(shift)];
    rewriter.replace(index, node);
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
    use crate::{Dim, infer::infer, ops::BatchNormalization};

    fn f32s(graph: &mut Graph, name: &str, dims: &[usize], values: &[f32]) -> ValueId {
        graph.add_constant(name, Constant::from_f32(Shape::new(dims).unwrap(), values).unwrap())
    }

    fn add_node(graph: &mut Graph, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = format!("node{}", graph.nodes.len());
        let output = graph.add_value(Value::named(format!("{name}.out")));
        let inputs = inputs.iter().copied().map(Some).collect();
        graph.nodes.push(Node { name, op, inputs, outputs: vec![Some(output)] });
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
        Op::Conv(Conv {
            kernel: None,
            stride: [1; 2],
            dilation: [1; 2],
            pad: [0; 4],
            auto_pad: AutoPad::Explicit,
            groups: 1,
            epilogue: Epilogue::default(),
        })
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
}
