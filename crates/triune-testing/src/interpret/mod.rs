//! The interpreter: each node in order, each operator as its definition reads.
//!
//! Float operators accumulate in f64 and round once to f32; integer operators (nodes with a `Node::quant`) compute
//! in exactly the f32 steps that Triune promises for them.

mod conv;
mod eltwise;
mod epilogue;
mod index;
mod movement;
mod pool;
mod recurrence;
mod reduce;
mod resize;
mod softmax;
mod unary;
mod warp;

pub use unary::unary;

use triune_graph::{Graph, Node, Op, Quantization, Value, ValueId};
use triune_tensor::{DType, QuantParams};

use crate::{Data, Tensor, tensor::resolve_axis};

/// Runs the network on named inputs and returns its outputs, in the graph's order.
///
/// # Panics
/// For a missing input, or a graph that does not hold together; the message names the node.
pub fn interpret(graph: &Graph, inputs: &[(&str, Tensor)]) -> Vec<Tensor> {
    let values = trace(graph, inputs);
    let result = |id: &ValueId| values[id.0 as usize].clone();
    let name = |id: &ValueId| &graph.value(*id).name;
    graph.outputs.iter().map(|id| result(id).unwrap_or_else(|| panic!("no value '{}'", name(id)))).collect()
}

/// Runs the network as [`interpret`] and returns every value that was computed, indexed by [`ValueId`].
///
/// # Panics
/// As [`interpret`].
pub fn trace(graph: &Graph, inputs: &[(&str, Tensor)]) -> Vec<Option<Tensor>> {
    let mut values: Vec<Option<Tensor>> =
        graph.values.iter().map(|value| value.constant.as_ref().map(Tensor::of_constant)).collect();
    for (name, tensor) in inputs {
        let id = graph.find_value(name).unwrap_or_else(|| panic!("no value '{name}' to give"));
        values[id.0 as usize] = Some(tensor.clone());
    }
    for node in &graph.nodes {
        let results = Step { graph, node, values: &values }.run();
        assert!(node.outputs.len() <= results.len(), "results of node '{}'", node.name);
        for (id, tensor) in node.outputs.iter().zip(results) {
            if let Some(id) = id {
                check(graph.value(*id), &tensor, node);
                values[id.0 as usize] = Some(tensor);
            }
        }
    }
    values
}

/// What the graph states about a value must be true of it.
fn check(value: &Value, tensor: &Tensor, node: &Node) {
    if let Some(dtype) = value.dtype {
        assert_eq!(dtype, tensor.dtype(), "element type of '{}' made by '{}'", value.name, node.name);
    }
    if let Some(shape) = value.fixed_shape() {
        assert_eq!(&*shape, &tensor.shape[..], "shape of '{}' made by '{}'", value.name, node.name);
    }
}

/// One node with what it may read.
struct Step<'a> {
    graph: &'a Graph,
    node: &'a Node,
    values: &'a [Option<Tensor>],
}

impl<'a> Step<'a> {
    fn id(&self, operand: usize) -> Option<ValueId> {
        self.node.inputs.get(operand).copied().flatten()
    }

    fn optional(&self, operand: usize) -> Option<&'a Tensor> {
        let id = self.id(operand)?;
        let tensor = self.values[id.0 as usize].as_ref();
        Some(tensor.unwrap_or_else(|| {
            panic!("'{}' reads '{}' too early", self.node.name, self.graph.value(id).name)
        }))
    }

    fn input(&self, operand: usize) -> &'a Tensor {
        self.optional(operand).unwrap_or_else(|| panic!("node '{}' lacks operand {operand}", self.node.name))
    }

    fn result(&self) -> &'a Value {
        self.graph.value(self.node.outputs[0].unwrap_or_else(|| panic!("'{}' has no result", self.node.name)))
    }

    /// What the node says of its integers, if it computes on integers that stand for reals.
    fn quant(&self) -> Option<&'a Quantization> {
        self.node.quant.as_deref()
    }

    fn quantization(&self) -> &'a Quantization {
        self.quant().unwrap_or_else(|| panic!("'{}' has no quantization parameters", self.node.name))
    }

    fn input_quant(&self, operand: usize) -> QuantParams {
        let quant = self.quantization().operand(operand);
        quant.unwrap_or_else(|| panic!("operand {operand} of '{}' has no parameters", self.node.name))
    }

    fn result_quant(&self) -> QuantParams {
        self.quantization().result
    }

    /// The integer type of the result.
    fn result_dtype(&self) -> DType {
        self.quantization().dtype
    }

    fn run(&self) -> Vec<Tensor> {
        let one = match &self.node.op {
            Op::Conv(op) => self.conv(op),
            Op::Gemm(op) => self.gemm(op),
            Op::MatMul(op) => self.matmul(op),
            Op::IntegerMatMul(_) => self.integer_matmul(),
            Op::BlockMatMul(op) => self.block_matmul(*op),
            Op::Running(op) => self.running(*op),
            Op::BatchNormalization(op) => self.batch_normalization(*op),
            Op::Pool(op) => self.pool(op),
            Op::GlobalPool(op) => self.global_pool(*op),
            Op::Binary(op) => self.binary(op),
            Op::Rotate(op) => self.rotate(*op),
            Op::Unary(op) => self.unary(*op),
            Op::Clip(_) => self.clip(),
            Op::Table(op) => self.table(op),
            Op::Tables(op) => self.tables(op),
            Op::Softmax(op) => self.softmax(*op),
            Op::LayerNorm(op) => self.layer_norm(*op),
            Op::Reduce(op) => self.reduce(op),
            Op::ArgReduce(op) => self.arg_reduce(*op),
            Op::Reshape(op) => self.reshape(*op),
            Op::Flatten(op) => self.flatten(*op),
            Op::Transpose(op) => self.transpose(op),
            Op::Concat(op) => self.concat(*op),
            Op::Slice(_) => self.slice(),
            Op::Split(op) => return self.split(*op),
            Op::Gather(op) => self.gather(*op),
            Op::GatherElements(op) => self.gather_elements(*op),
            Op::GatherNd(op) => self.gather_nd(*op),
            Op::ScatterElements(op) => self.scatter_elements(*op),
            Op::ScatterNd(op) => self.scatter_nd(*op),
            Op::Index(op) => self.index(op),
            Op::Where(_) => self.choose(),
            Op::TopK(op) => return self.top_k(*op),
            Op::Unsqueeze(_) => self.unsqueeze(),
            Op::Squeeze(_) => self.squeeze(),
            Op::Expand(_) => self.expand(),
            Op::Pad(op) => self.pad(*op),
            Op::Identity(_) => self.input(0).clone(),
            Op::ShapeOf(op) => self.shape_of(*op),
            Op::ConstantOfShape(op) => self.constant_of_shape(op),
            Op::Cast(op) => self.cast(*op),
            Op::BitCast(op) => self.bit_cast(*op),
            Op::Resize(op) => self.resize(*op),
            Op::QuantizeLinear(op) => self.quantize_linear(op.axis, op.dtype),
            Op::DequantizeLinear(op) => self.dequantize_linear(op.axis),
            Op::AdaptivePool(op) => self.adaptive_pool(*op),
            Op::WarpPerspective(op) => self.warp(*op),
            Op::Weigh(_) => self.weigh(),
            Op::Recurrence(op) => self.recurrence(op),
            Op::Hosted(_) | Op::Function(_) => {
                panic!("'{}' runs between stages", self.node.name)
            }
        };
        vec![one]
    }

    /// For each element of `x`, the index of its scale among `count`, which run along `axis` when there are several.
    fn channels(x: &Tensor, axis: isize, count: usize) -> impl Fn(usize) -> usize + use<> {
        let (inner, extent) = if count == 1 {
            (1, 1)
        } else {
            let axis = resolve_axis(axis, x.shape.len());
            assert_eq!(x.shape[axis], count, "one scale per index of the axis");
            (x.shape[axis + 1..].iter().product(), count)
        };
        move |element| element / inner % extent
    }

    fn quantize_linear(&self, axis: isize, default: DType) -> Tensor {
        let (x, scales) = (self.input(0), self.input(1).as_f32());
        let (dtype, zero_points) = match self.optional(2) {
            Some(tensor) => (tensor.dtype(), tensor.integers()),
            None => (default, vec![0; scales.len()]),
        };
        let channel = Self::channels(x, axis, scales.len());
        let quantized: Vec<i64> = (x.as_f32().iter().enumerate())
            .map(|(at, &x)| {
                let params =
                    QuantParams { scale: scales[channel(at)], zero_point: zero_points[channel(at)] as i32 };
                i64::from(params.quantize_by(self.graph.rounding, x, dtype))
            })
            .collect();
        Tensor::of_integers(dtype, &x.shape, &quantized)
    }

    fn dequantize_linear(&self, axis: isize) -> Tensor {
        let (x, scales) = (self.input(0), self.input(1).as_f32());
        let zero_points = self.optional(2).map_or_else(|| vec![0; scales.len()], Tensor::integers);
        let channel = Self::channels(x, axis, scales.len());
        let reals = (x.integers().iter().enumerate())
            .map(|(at, &q)| (q - zero_points[channel(at)]) as f32 * scales[channel(at)])
            .collect();
        Tensor::new(&x.shape, Data::F32(reals))
    }
}
