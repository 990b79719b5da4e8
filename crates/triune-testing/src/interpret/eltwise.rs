//! Functions of two operands, and normalization.

use triune_graph::ops::{BatchNormalization, Binary, BinaryKind};

use super::{
    Step,
    epilogue::{Operand, add, mul},
};
use crate::{
    Data, Tensor,
    tensor::{broadcast_flat, broadcast_shape, positions},
};

fn function(kind: BinaryKind, a: f64, b: f64) -> f64 {
    match kind {
        BinaryKind::Add => a + b,
        BinaryKind::Sub => a - b,
        BinaryKind::Mul => a * b,
        BinaryKind::Div => a / b,
        BinaryKind::Min => a.min(b),
        BinaryKind::Max => a.max(b),
        BinaryKind::Pow => a.powf(b),
    }
}

fn integer_function(kind: BinaryKind, a: i64, b: i64) -> i64 {
    match kind {
        BinaryKind::Add => a + b,
        BinaryKind::Sub => a - b,
        BinaryKind::Mul => a * b,
        BinaryKind::Div => a / b,
        BinaryKind::Min => a.min(b),
        BinaryKind::Max => a.max(b),
        BinaryKind::Pow => a.pow(u32::try_from(b).expect("a small exponent")),
    }
}

impl Step<'_> {
    pub(super) fn binary(&self, op: &Binary) -> Tensor {
        let (a, b) = (self.input(0), self.input(1));
        let shape = broadcast_shape(&a.shape, &b.shape);
        let pairs =
            positions(&shape).map(|at| (broadcast_flat(&a.shape, &at), broadcast_flat(&b.shape, &at)));
        if let (Data::F32(a), Data::F32(b)) = (&a.data, &b.data) {
            let result = |(at, (i, j)): (usize, (usize, usize))| {
                // The function itself is rounded to f32: a fused step behind it continues from there.
                let exact = function(op.kind, f64::from(a[i]), f64::from(b[j])) as f32;
                self.finish_float(&op.epilogue, f64::from(exact), at)
            };
            return Tensor::new(&shape, Data::F32(pairs.enumerate().map(result).collect()));
        }
        let (dtype, left, right) = (a.dtype(), a.integers(), b.integers());
        if self.result().quant.is_none() {
            let values: Vec<i64> = pairs.map(|(i, j)| integer_function(op.kind, left[i], right[j])).collect();
            return Tensor::of_integers(dtype, &shape, &values);
        }
        let (to, y) = (self.result_dtype(), self.quant_before(&op.epilogue, 0));
        let (a, b) = (self.input_quant(0), self.input_quant(1));
        let values: Vec<i64> = (pairs.enumerate())
            .map(|(at, (i, j))| {
                let a = Operand { q: left[i] as i32, params: a };
                let b = Operand { q: right[j] as i32, params: b };
                let q = match op.kind {
                    BinaryKind::Add => add(a, b, y, to, self.graph.rounding),
                    BinaryKind::Mul => mul(a, b, y, to, self.graph.rounding),
                    other => panic!("'{}': no integer {other:?}", self.node.name),
                };
                i64::from(self.finish_integer(&op.epilogue, q, at))
            })
            .collect();
        Tensor::of_integers(to, &shape, &values)
    }

    pub(super) fn batch_normalization(&self, op: BatchNormalization) -> Tensor {
        let x = self.input(0);
        let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|operand| self.input(operand).as_f32());
        let inner: usize = x.shape[2..].iter().product();
        let values = (x.as_f32().iter().enumerate())
            .map(|(at, &x)| {
                let c = at / inner % scale.len();
                let [scale, bias, mean, variance] =
                    [scale, bias, mean, variance].map(|list| f64::from(list[c]));
                ((f64::from(x) - mean) / (variance + f64::from(op.epsilon)).sqrt() * scale + bias) as f32
            })
            .collect();
        Tensor::new(&x.shape, Data::F32(values))
    }
}
