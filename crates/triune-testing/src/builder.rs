//! Short ways to write a graph in a test.

use triune_graph::{
    Dim, Graph, Node, Op, Quantization, Value, ValueId, ValueIds,
    ops::{
        AutoPad, Binary, BinaryKind, Conv, DequantizeLinear, Epilogue, Gemm, Pool, PoolKind, QuantizeLinear,
        Unary, UnaryKind,
    },
};
use triune_tensor::{DType, QuantParams};

use crate::{Tensor, Window};

/// Grows a graph node by node. Results are unnamed values called after their node.
#[derive(Default)]
pub struct GraphBuilder {
    graph: Graph,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// A graph input of fixed shape.
    pub fn input(&mut self, name: &str, dtype: DType, shape: &[usize]) -> ValueId {
        let value = Value {
            dtype: Some(dtype),
            shape: Some(shape.iter().map(|&dim| Dim::Fixed(dim)).collect()),
            ..Value::named(name)
        };
        let id = self.graph.add_value(value);
        self.graph.inputs.push(id);
        id
    }

    /// A constant.
    pub fn constant(&mut self, tensor: &Tensor) -> ValueId {
        let name = format!("constant{}", self.graph.values.len());
        self.graph.add_constant(name, tensor.to_constant())
    }

    /// A node with one result.
    pub fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.node_with(op, &inputs.iter().copied().map(Some).collect::<Vec<_>>(), 1)[0]
    }

    /// A node with one result that computes on integers: operands with what they are taken for, and what the result stands for.
    pub fn integer_node(
        &mut self,
        op: Op,
        inputs: &[(ValueId, QuantParams)],
        (dtype, result): (DType, QuantParams),
    ) -> ValueId {
        let output = self.node(op, &inputs.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        let operands = inputs.iter().map(|(_, params)| Some(*params)).collect();
        if let Some(node) = self.graph.nodes.last_mut() {
            node.quant = Some(Box::new(Quantization { operands, weights: [].into(), dtype, result }));
        }
        output
    }

    /// A node with optional operands and any number of results.
    pub fn node_with(&mut self, op: Op, inputs: &[Option<ValueId>], results: usize) -> Vec<ValueId> {
        let name = format!("node{}", self.graph.nodes.len());
        let outputs: Vec<ValueId> =
            (0..results).map(|index| self.graph.add_value(Value::named(format!("{name}_{index}")))).collect();
        let results: ValueIds = outputs.iter().copied().map(Some).collect();
        self.graph.nodes.push(Node::new(name, op, inputs, results));
        outputs
    }

    /// A convolution with square stride and symmetric padding; the kernel is the weights'.
    pub fn conv(&mut self, inputs: &[ValueId], stride: usize, pad: usize, groups: usize) -> ValueId {
        let op = Conv {
            kernel: None,
            stride: [stride; 2],
            dilation: [1; 2],
            pad: [pad; 4],
            auto_pad: AutoPad::Explicit,
            groups,
            epilogue: Epilogue::default(),
        };
        self.node(Op::Conv(Box::new(op)), inputs)
    }

    /// A convolution by whatever window; the kernel is the weights'.
    pub fn conv_window(&mut self, inputs: &[ValueId], window: Window, groups: usize) -> ValueId {
        let op = Conv {
            kernel: None,
            stride: window.stride,
            dilation: window.dilation,
            pad: window.pad,
            auto_pad: AutoPad::Explicit,
            groups,
            epilogue: Epilogue::default(),
        };
        self.node(Op::Conv(Box::new(op)), inputs)
    }

    /// A matrix product with factors of 1.
    pub fn gemm(&mut self, inputs: &[ValueId], trans_b: bool) -> ValueId {
        let op = Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b, epilogue: Epilogue::default() };
        self.node(Op::Gemm(op), inputs)
    }

    /// A function of two operands.
    pub fn binary(&mut self, kind: BinaryKind, a: ValueId, b: ValueId) -> ValueId {
        self.node(Op::Binary(Binary { kind, epilogue: Epilogue::default() }), &[a, b])
    }

    /// A function of one operand.
    pub fn unary(&mut self, kind: UnaryKind, x: ValueId) -> ValueId {
        self.node(Op::Unary(Unary { kind }), &[x])
    }

    /// A square pooling window.
    pub fn pool(&mut self, kind: PoolKind, x: ValueId, kernel: usize, stride: usize, pad: usize) -> ValueId {
        let op = Pool {
            kind,
            kernel: [kernel; 2],
            stride: [stride; 2],
            dilation: [1; 2],
            pad: [pad; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        };
        self.node(Op::Pool(Box::new(op)), &[x])
    }

    /// A pool by whatever window.
    pub fn pool_window(&mut self, kind: PoolKind, x: ValueId, window: Window) -> ValueId {
        let Window { kernel, stride, dilation, pad } = window;
        let op = Pool { kind, kernel, stride, dilation, pad, auto_pad: AutoPad::Explicit, ceil_mode: false };
        self.node(Op::Pool(Box::new(op)), &[x])
    }

    fn params(&mut self, params: QuantParams, dtype: DType) -> [ValueId; 2] {
        let scale = self.constant(&Tensor::f32(&[], &[params.scale]));
        [scale, self.constant(&Tensor::of_integers(dtype, &[], &[i64::from(params.zero_point)]))]
    }

    /// f32 → 8 bit.
    pub fn quantize(&mut self, x: ValueId, params: QuantParams, dtype: DType) -> ValueId {
        let [scale, zero_point] = self.params(params, dtype);
        self.node(Op::QuantizeLinear(QuantizeLinear { axis: 1, dtype }), &[x, scale, zero_point])
    }

    /// 8 bit → f32.
    pub fn dequantize(&mut self, x: ValueId, params: QuantParams, dtype: DType) -> ValueId {
        let [scale, zero_point] = self.params(params, dtype);
        self.node(Op::DequantizeLinear(DequantizeLinear { axis: 1 }), &[x, scale, zero_point])
    }

    /// f32 → 8 bit → f32: how a quantized model writes every activation.
    pub fn quantize_dequantize(&mut self, x: ValueId, params: QuantParams, dtype: DType) -> ValueId {
        let quantized = self.quantize(x, params, dtype);
        self.dequantize(quantized, params, dtype)
    }

    /// A constant of integers with one scale per index of `axis` (or a single scale), as reals.
    pub fn dequantized_constant(&mut self, tensor: &Tensor, scales: &[f32], axis: isize) -> ValueId {
        let shape: &[usize] = if scales.len() == 1 { &[] } else { &[scales.len()] };
        let x = self.constant(tensor);
        let scale = self.constant(&Tensor::f32(shape, scales));
        let zero_point = self.constant(&Tensor::of_integers(tensor.dtype(), shape, &vec![0; scales.len()]));
        self.node(Op::DequantizeLinear(DequantizeLinear { axis }), &[x, scale, zero_point])
    }

    /// The graph so far, to be changed by hand.
    pub fn graph_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// The graph with these outputs. Element types and shapes of results are whatever the interpreter finds: see
    /// [`GraphBuilder::finish_inferred`].
    pub fn finish(mut self, outputs: &[ValueId]) -> Graph {
        self.graph.outputs = outputs.to_vec();
        self.graph
    }

    /// The graph with these outputs; element type and shape of every value are filled in from a run on zeros.
    ///
    /// # Panics
    /// As [`crate::trace`].
    pub fn finish_inferred(self, outputs: &[ValueId]) -> Graph {
        let mut graph = self.finish(outputs);
        let inputs: Vec<(String, Tensor)> = (graph.inputs.iter())
            .map(|&id| {
                let value = graph.value(id);
                let shape = value.fixed_shape().expect("an input of fixed shape");
                let dtype = value.dtype.expect("an input's element type");
                let zeros = vec![0; shape.iter().product::<usize>() * dtype.bytes()];
                (value.name.clone(), Tensor::from_bytes(dtype, &shape, &zeros))
            })
            .collect();
        let inputs: Vec<(&str, Tensor)> = inputs.iter().map(|(name, x)| (name.as_str(), x.clone())).collect();
        for (index, tensor) in crate::trace(&graph, &inputs).into_iter().enumerate() {
            if let Some(tensor) = tensor {
                let value = &mut graph.values[index];
                value.dtype = Some(tensor.dtype());
                value.shape = Some(tensor.shape.iter().map(|&dim| Dim::Fixed(dim)).collect());
            }
        }
        graph
    }
}
