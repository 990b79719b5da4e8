//! Softmax, and normalization of integers.

use triune_graph::ops::{LayerNorm, Softmax};
use triune_tensor::DType;

use super::Step;
use crate::{Data, Tensor, tensor::resolve_axis};

impl Step<'_> {
    pub(super) fn softmax(&self, op: Softmax) -> Tensor {
        let x = self.input(0);
        let axis = resolve_axis(op.axis, x.shape.len());
        let (length, inner) = if op.flatten {
            (x.shape[axis..].iter().product(), 1)
        } else {
            (x.shape[axis], x.shape[axis + 1..].iter().product::<usize>())
        };
        let rows = (0..x.elements() / length.max(1)).map(|row| {
            let first = row / inner * length * inner + row % inner;
            (0..length).map(|at| first + at * inner).collect::<Vec<usize>>()
        });
        match &x.data {
            Data::F32(values) => {
                let mut results = vec![0.0; values.len()];
                for row in rows {
                    let largest = row.iter().map(|&i| f64::from(values[i])).fold(f64::NEG_INFINITY, f64::max);
                    let powers: Vec<f64> =
                        row.iter().map(|&i| (f64::from(values[i]) - largest).exp()).collect();
                    let sum: f64 = powers.iter().sum();
                    for (&i, power) in row.iter().zip(powers) {
                        let value =
                            if op.log { f64::from(values[i]) - largest - sum.ln() } else { power / sum };
                        results[i] = value as f32;
                    }
                }
                Tensor::new(&x.shape, Data::F32(results))
            }
            _ => self.integer_softmax(rows, length),
        }
    }

    /// Softmax over 8 bits as ONNX Runtime's `QLinearSoftmax` has it: a table of 256 f32 powers, shifted so that the row's
    /// largest value takes the last entry, f32 sums in order, and one division per result. Signed values are the unsigned
    /// ones less 128.
    fn integer_softmax(&self, rows: impl Iterator<Item = Vec<usize>>, length: usize) -> Tensor {
        let x = self.input(0);
        let (quant, target, dtype) = (self.input_quant(0), self.result_quant(), self.result_dtype());
        let bias = if x.dtype() == DType::I8 { 128 } else { 0 };
        let bytes: Vec<usize> = x.integers().iter().map(|&q| (q + bias) as usize).collect();
        let scale = f64::from(quant.scale);
        let headroom = f64::from((f32::MAX / length as f32).ln());
        let steps = (1.0 / target.scale).floor().min((1_u32 << 30) as f32);
        // Beyond the reference's steps, products have to stay finite.
        let least = if steps > 256.0 { (f64::from(steps) / length as f64).ln() + 0.01 } else { 0.0 };
        let shift = (headroom - least.max(5.0)).max(0.0) / scale;
        let powers: Vec<f32> =
            (0..256).map(|i| ((f64::from(i) - 255.0 + shift) * scale).exp() as f32).collect();
        let (low, high) = dtype.int_range().expect("an integer type");
        let mut results = vec![0; bytes.len()];
        for row in rows {
            let largest = row.iter().map(|&i| bytes[i]).max().unwrap_or(0);
            let power = |i: usize| powers[bytes[i] + 255 - largest];
            let sum = row.iter().fold(0.0_f32, |sum, &i| sum + power(i));
            for &i in &row {
                let rounded = (power(i) * steps / sum).round_ties_even() as i64;
                results[i] = (rounded + i64::from(target.zero_point)).clamp(low, high);
            }
        }
        Tensor::of_integers(dtype, &x.shape, &results)
    }

    /// In f64, rows of the last axes.
    fn float_layer_norm(&self, op: LayerNorm) -> Tensor {
        let x = self.input(0);
        let length: usize = x.shape[op.axes[0]..].iter().product();
        let rows = [1, 2].map(|index| self.optional(index).map(|row| row.as_f32().to_vec()));
        let mut results = Vec::new();
        for row in x.as_f32().chunks(length.max(1)) {
            let sum = row.iter().map(|&x| f64::from(x)).sum::<f64>();
            let mean = if op.centred { sum / length as f64 } else { 0.0 };
            let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / length as f64;
            for (at, &x) in row.iter().enumerate() {
                let mut real = (f64::from(x) - mean) / (variance + f64::from(op.epsilon)).sqrt();
                real *= rows[0].as_ref().map_or(1.0, |row| f64::from(row[at]));
                real += rows[1].as_ref().map_or(0.0, |row| f64::from(row[at]));
                results.push(real as f32);
            }
        }
        Tensor::f32(&x.shape, &results)
    }

    /// By exact sums, a quotient in f64, factors and addends in f32.
    pub(super) fn layer_norm(&self, op: LayerNorm) -> Tensor {
        let x = self.input(0);
        let [first, end] = op.axes;
        if x.dtype() == DType::F32 {
            return self.float_layer_norm(op);
        }
        let (quant, target, dtype) = (self.input_quant(0), self.result_quant(), self.result_dtype());
        let length: usize = x.shape[first..end].iter().product();
        let inner: usize = x.shape[end..].iter().product();
        let rows = [1, 2].map(|index| self.optional(index).map(|row| row.as_f32().to_vec()));
        let values = x.integers();
        let mut results = vec![0; values.len()];
        for row in 0..values.len() / length.max(1) {
            let start = row / inner * length * inner + row % inner;
            let about = if op.centred { 0 } else { i64::from(quant.zero_point) };
            let own = |at: usize| values[start + at * inner] - about;
            let sum: i64 = if op.centred { (0..length).map(own).sum() } else { 0 };
            let spread =
                (0..length).map(|at| (length as i64 * own(at) - sum).pow(2)).sum::<i64>() / length as i64;
            let room = (length as f64).powi(2) * f64::from(op.epsilon) / f64::from(quant.scale).powi(2);
            for at in 0..length {
                let mut real =
                    ((length as i64 * own(at) - sum) as f64 / (spread as f64 + room).sqrt()) as f32;
                if let Some(factors) = &rows[0] {
                    real *= factors[at];
                }
                if let Some(addends) = &rows[1] {
                    real += addends[at];
                }
                let q = target.quantize_by(self.graph.rounding, real, dtype);
                results[start + at * inner] = i64::from(q);
            }
        }
        Tensor::of_integers(dtype, &x.shape, &results)
    }
}
