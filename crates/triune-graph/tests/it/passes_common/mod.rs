//! What the tests of the passes share: repeatable numbers, quantization parameters, ways to look at a graph.

use triune_graph::{Graph, Op};
use triune_tensor::{DType, QuantParams};
use triune_testing::{Random, Tensor};

/// Tensors and parameters of arbitrary numbers.
pub(crate) struct Numbers(Random);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random(seed))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.next() % bound
    }

    pub(crate) fn unit(&mut self) -> f32 {
        self.below(1 << 20) as f32 / (1 << 20) as f32
    }

    pub(crate) fn reals(&mut self, shape: &[usize], reach: f32) -> Tensor {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| (self.unit() * 2.0 - 1.0) * reach).collect();
        Tensor::f32(shape, &values)
    }

    pub(crate) fn bytes(&mut self, shape: &[usize]) -> Tensor {
        let count = shape.iter().product();
        let values: Vec<i8> = (0..count).map(|_| self.below(255) as i64 as i8).collect();
        Tensor::i8(shape, &values)
    }

    pub(crate) fn ints(&mut self, shape: &[usize], reach: i32) -> Tensor {
        let count = shape.iter().product();
        let values: Vec<i32> =
            (0..count).map(|_| self.below(2 * u64::from(reach.unsigned_abs()) + 1) as i32 - reach).collect();
        Tensor::i32(shape, &values)
    }

    /// Parameters whose range holds about ±`reach`.
    pub(crate) fn params(&mut self, dtype: DType, reach: f32) -> QuantParams {
        let (low, high) = dtype.int_range().expect("an 8-bit type");
        let middle = i64::midpoint(low, high) as i32;
        QuantParams {
            scale: reach / 128.0 * (0.7 + 0.6 * self.unit()),
            zero_point: middle + self.below(61) as i32 - 30,
        }
    }
}

/// How often each operator occurs, by the name of its variant.
pub(crate) fn count(graph: &Graph, wanted: fn(&Op) -> bool) -> usize {
    graph.nodes.iter().filter(|node| wanted(&node.op)).count()
}

/// Largest absolute difference of two f32 tensors.
pub(crate) fn distance(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.shape, b.shape);
    a.as_f32().iter().zip(b.as_f32()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
