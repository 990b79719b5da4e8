//! A float network as quantization tools would write it: every activation through 8 bit and back, weights as 8-bit
//! constants. The topologies have no weights, so scales are arbitrary; only shapes matter to the timeline.

use triune_graph::{
    Constant, Dim, Error, Graph, Node, Op, Value, ValueId, infer,
    ops::{AutoPad, Conv, DequantizeLinear, Epilogue, QuantizeLinear, UnaryKind},
    passes,
};
use triune_tensor::{DType, Shape};

const ACTIVATION_SCALE: f32 = 0.05;
const WEIGHT_SCALE: f32 = 0.01;

/// The network with `QuantizeLinear` and `DequantizeLinear` around everything but a final softmax.
pub(crate) fn quantized(mut graph: Graph) -> Result<Graph, Error> {
    infer::infer(&mut graph)?;
    passes::fold_constants(&mut graph)?;
    infer::infer(&mut graph)?;
    let mut tool = Tool::new(graph);
    for id in tool.graph.inputs.clone() {
        tool.activation(id);
    }
    for node in std::mem::take(&mut tool.graph.nodes) {
        tool.node(node);
    }
    let Tool { mut graph, nodes, .. } = tool;
    graph.nodes = nodes;
    infer::infer(&mut graph)?;
    Ok(graph)
}

struct Tool {
    graph: Graph,
    nodes: Vec<Node>,
    /// What stands for each value now.
    current: Vec<ValueId>,
    /// Whether a value is only limited by its one reader, which is then what gets quantized.
    limited: Vec<bool>,
    /// Scales of activations and weights, and zero points of 8 and 32 bit.
    scales: [ValueId; 3],
    zeros: [ValueId; 2],
}

impl Tool {
    fn new(mut graph: Graph) -> Self {
        let current = (0..graph.values.len() as u32).map(ValueId).collect();
        let consumers = graph.consumers();
        let limits = |op: &Op| match op {
            Op::Unary(unary) => matches!(unary.kind, UnaryKind::Relu | UnaryKind::Clip(_)),
            Op::Clip(_) => true,
            _ => false,
        };
        let limited = consumers
            .iter()
            .enumerate()
            .map(|(index, readers)| match readers[..] {
                [reader] => {
                    limits(&graph.nodes[reader.0 as usize].op)
                        && !graph.outputs.contains(&ValueId(index as u32))
                }
                _ => false,
            })
            .collect();
        let scalar =
            |dtype, bytes: &[u8]| Constant::new(dtype, Shape::from([]), bytes.to_vec()).expect("a scalar");
        let scale = |value: f32| scalar(DType::F32, &value.to_le_bytes());
        let scales = [
            graph.add_constant("scale", scale(ACTIVATION_SCALE)),
            graph.add_constant("weight_scale", scale(WEIGHT_SCALE)),
            graph.add_constant("bias_scale", scale(ACTIVATION_SCALE * WEIGHT_SCALE)),
        ];
        let zeros = [
            graph.add_constant("zero", scalar(DType::I8, &[0])),
            graph.add_constant("bias_zero", scalar(DType::I32, &[0; 4])),
        ];
        Self { graph, nodes: Vec::new(), current, limited, scales, zeros }
    }

    fn node(&mut self, mut node: Node) {
        let weighted = matches!(node.op, Op::Conv(_) | Op::Gemm(_));
        for (position, input) in node.inputs.iter_mut().enumerate() {
            let Some(id) = input else { continue };
            let constant = self.graph.value(*id).constant.as_ref();
            *id = match constant.map(|constant| (constant.dtype(), constant.shape())) {
                Some((DType::F32, shape)) if weighted => self.weights(*id, shape, position == 2),
                _ => self.current[id.0 as usize],
            };
        }
        let results: Vec<ValueId> = node.outputs.iter().flatten().copied().collect();
        let stays_float = matches!(node.op, Op::Softmax(_));
        self.nodes.push(node);
        for id in results {
            if !stays_float && self.graph.value(id).dtype == Some(DType::F32) && !self.limited[id.0 as usize]
            {
                self.activation(id);
            }
        }
    }

    /// Puts a pair behind a value.
    fn activation(&mut self, id: ValueId) {
        let name = self.graph.value(id).name.clone();
        let shape = self.graph.value(id).shape.clone();
        let integers = self.value(format!("{name}_quantized"), DType::I8, shape.clone());
        let reals = self.value(format!("{name}_dequantized"), DType::F32, shape);
        let parameters = [Some(self.scales[0]), Some(self.zeros[0])];
        self.nodes.push(Node::new(
            format!("{name}_quantize"),
            Op::QuantizeLinear(QuantizeLinear { axis: 1, dtype: DType::I8 }),
            vec![Some(id), parameters[0], parameters[1]],
            vec![Some(integers)],
        ));
        self.nodes.push(Node::new(
            format!("{name}_dequantize"),
            Op::DequantizeLinear(DequantizeLinear { axis: 1 }),
            vec![Some(integers), parameters[0], parameters[1]],
            vec![Some(reals)],
        ));
        self.current[id.0 as usize] = reals;
        for output in self.graph.outputs.iter_mut().filter(|output| **output == id) {
            *output = reals;
        }
    }

    /// A constant of integers for weights or a bias.
    fn weights(&mut self, id: ValueId, shape: Shape, bias: bool) -> ValueId {
        let name = format!("{}_{}", self.graph.value(id).name, self.nodes.len());
        let dtype = if bias { DType::I32 } else { DType::I8 };
        let bytes = vec![0; shape.iter().product::<usize>() * dtype.bytes()];
        let dims = Some(shape.iter().map(|&dim| Dim::Fixed(dim)).collect());
        let constant = Constant::new(dtype, shape, bytes).expect("as many bytes as the shape has");
        let integers = self.graph.add_constant(format!("{name}_integers"), constant);
        let reals = self.value(format!("{name}_reals"), DType::F32, dims);
        let parameters = [self.scales[1 + usize::from(bias)], self.zeros[usize::from(bias)]];
        self.nodes.push(Node::new(
            format!("{name}_dequantize"),
            Op::DequantizeLinear(DequantizeLinear { axis: 0 }),
            vec![Some(integers), Some(parameters[0]), Some(parameters[1])],
            vec![Some(reals)],
        ));
        reals
    }

    fn value(&mut self, name: String, dtype: DType, shape: Option<Vec<Dim>>) -> ValueId {
        self.graph.add_value(Value { dtype: Some(dtype), shape, ..Value::named(name) })
    }
}

/// A product of `m` pixels of `k` channels and constant weights for `n`, as a 1×1 convolution.
pub(crate) fn product(k: usize, n: usize, m: usize) -> Graph {
    let fixed = |dims: &[usize]| Some(dims.iter().map(|&dim| Dim::Fixed(dim)).collect());
    let mut graph = Graph::default();
    let mut value = |name: &str, dims: &[usize]| {
        graph.add_value(Value { dtype: Some(DType::F32), shape: fixed(dims), ..Value::named(name) })
    };
    let (x, y) = (value("x", &[1, k, 1, m]), value("y", &[1, n, 1, m]));
    let zeros =
        Constant::from_f32(Shape::from([n, k, 1, 1]), &vec![0.0; n * k]).expect("as many as the shape has");
    let weights = graph.add_constant("weights", zeros);
    let conv = Conv {
        kernel: None,
        stride: [1; 2],
        dilation: [1; 2],
        pad: [0; 4],
        auto_pad: AutoPad::Explicit,
        groups: 1,
        epilogue: Epilogue::default(),
    };
    graph.nodes.push(Node::new(
        "product",
        Op::Conv(Box::new(conv)),
        vec![Some(x), Some(weights)],
        vec![Some(y)],
    ));
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    graph
}
