//! What happens to one result between the accumulator and memory.

use triune_graph::ops::{Epilogue, PostOp};
use triune_tensor::{DType, QuantParams, Requantize, Rounding};

use super::{Step, unary::unary};

/// How a graph's integer operators compute.
#[derive(Clone, Copy)]
pub(super) struct Arithmetic {
    pub(super) rounding: Rounding,
    pub(super) requantize: Requantize,
}

impl Arithmetic {
    /// The factor itself, or the nearest m·2⁻ⁿ of all that there are.
    pub(super) fn factor(self, value: f32, dtype: DType) -> f32 {
        if self.requantize == Requantize::Float {
            return value;
        }
        let mut nearest = (f64::INFINITY, 0, 0.0);
        let longest = 16 * dtype.bytes() as i32 + 5;
        for n in 0..=longest {
            // Below 128 only with the longest shift; at 256 stands the next shorter shift's 128.
            for m in if n == longest { 0 } else { 128 }..=255 + i32::from(n > 0) {
                let own = f64::from(m) / 2_f64.powi(n);
                let away = (own - f64::from(value)).abs();
                if away < nearest.0 || away == nearest.0 && m % 2 < nearest.1 {
                    nearest = (away, m % 2, own);
                }
            }
        }
        nearest.2 as f32
    }
}

/// f32(value)·multiplier, rounded, zero point added, saturated: how every accumulator becomes 8 bits.
pub(super) fn requantize(
    accumulator: i64,
    multiplier: f32,
    zero_point: i32,
    dtype: DType,
    rounding: Rounding,
) -> i32 {
    if dtype == DType::I16 {
        return saturate(rounded_integer(accumulator as f64 * f64::from(multiplier), rounding), dtype);
    }
    saturate(rounding.round(accumulator as f32 * multiplier) as i64 + i64::from(zero_point), dtype)
}

/// 16-bit integers are made of reals in f64.
pub(super) fn rounded_integer(real: f64, rounding: Rounding) -> i64 {
    let rounded = match rounding {
        Rounding::HalfToEven => real.round_ties_even(),
        Rounding::HalfAwayFromZero => real.round(),
    };
    rounded as i64
}

/// What of a sum's or product's zero point is added before rounding, and what behind it.
fn zero_points(y: QuantParams, rounding: Rounding) -> (f32, i64) {
    match rounding {
        Rounding::HalfToEven => (y.zero_point as f32, 0),
        Rounding::HalfAwayFromZero => (0.0, i64::from(y.zero_point)),
    }
}

/// The nearest value of an 8-bit type.
pub(super) fn saturate(value: i64, dtype: DType) -> i32 {
    let (low, high) = dtype.int_range().expect("an integer type");
    value.clamp(low, high) as i32
}

/// `q` looked up by its byte pattern.
pub(super) fn look_up(table: &[u8; 256], q: i32, from: DType, to: DType) -> i32 {
    debug_assert!(from.is_quantized());
    let byte = table[usize::from(q as u8)];
    if to == DType::I8 { i32::from(byte as i8) } else { i32::from(byte) }
}

/// One operand of an integer addition.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) q: i32,
    pub(super) params: QuantParams,
}

/// The integer addition: one fused multiply-add per operand on the raw integers, zero points gathered in a constant.
///
/// A `sign` of −1 makes it a difference.
pub(super) fn add(
    a: Operand,
    b: Operand,
    sign: f32,
    y: QuantParams,
    dtype: DType,
    arithmetic: Arithmetic,
) -> i32 {
    let rounding = arithmetic.rounding;
    let [ra, rb] = [a, b].map(|own| arithmetic.factor(own.params.scale / y.scale, dtype));
    let rb = sign * rb;
    if dtype == DType::I16 {
        let sum = f64::from(a.q) * f64::from(ra) + f64::from(b.q) * f64::from(rb);
        return saturate(rounded_integer(sum, rounding), dtype);
    }
    let (inside, behind) = zero_points(y, rounding);
    let zero = inside - ra.mul_add(a.params.zero_point as f32, rb * b.params.zero_point as f32);
    let sum = (a.q as f32).mul_add(ra, (b.q as f32).mul_add(rb, zero));
    saturate(rounding.round(sum) as i64 + behind, dtype)
}

/// The integer product.
pub(super) fn mul(a: Operand, b: Operand, y: QuantParams, dtype: DType, arithmetic: Arithmetic) -> i32 {
    let rounding = arithmetic.rounding;
    let multiplier = arithmetic.factor(a.params.scale * b.params.scale / y.scale, dtype);
    let product = (a.q - a.params.zero_point) * (b.q - b.params.zero_point);
    if dtype == DType::I16 {
        return saturate(rounded_integer(f64::from(product) * f64::from(multiplier), rounding), dtype);
    }
    let (inside, behind) = zero_points(y, rounding);
    saturate(rounding.round(product as f32 * multiplier + inside) as i64 + behind, dtype)
}

impl Step<'_> {
    pub(super) fn arithmetic(&self) -> Arithmetic {
        Arithmetic { rounding: self.graph.rounding, requantize: self.graph.requantize }
    }

    /// The parameters that enter stage `index`: its own or those of the next stage that states any, at last the
    /// result's.
    pub(super) fn quant_before(&self, epilogue: &Epilogue, index: usize) -> QuantParams {
        epilogue.post_ops[index..]
            .iter()
            .find_map(|stage| match stage {
                PostOp::Table { quant, .. } => Some(*quant),
                PostOp::Residual(residual) => residual.quant,
                PostOp::Activation(_) | PostOp::Clamp { .. } => None,
            })
            .unwrap_or_else(|| self.result_quant())
    }

    /// The integer stages for the requantized result `q` that is stored at `at`.
    pub(super) fn finish_integer(&self, epilogue: &Epilogue, mut q: i32, at: usize) -> i32 {
        let dtype = self.result_dtype();
        for (index, stage) in epilogue.post_ops.iter().enumerate() {
            q = match stage {
                PostOp::Clamp { limits } => q.clamp(limits[0], limits[1]),
                PostOp::Table { table, .. } => look_up(table, q, dtype, dtype),
                PostOp::Residual(residual) => {
                    let last = self.node.inputs.len() - 1;
                    let other = self.input(last);
                    assert_eq!(self.result_shape(), other.shape, "residual of '{}'", self.node.name);
                    let own = Operand { q, params: self.quant_before(epilogue, index) };
                    let other = Operand { q: other.integer_at(at), params: self.input_quant(last) };
                    let target = self.quant_before(epilogue, index + 1);
                    let (a, b) = if residual.own_first { (own, other) } else { (other, own) };
                    add(a, b, 1.0, target, dtype, self.arithmetic())
                }
                PostOp::Activation(_) => {
                    panic!("'{}' is an integer operator with a float stage", self.node.name)
                }
            };
        }
        q
    }

    /// The float stages for the result that is stored at `at`.
    pub(super) fn finish_float(&self, epilogue: &Epilogue, mut x: f64, at: usize) -> f32 {
        for stage in &epilogue.post_ops {
            x = match stage {
                PostOp::Activation(kind) => unary(*kind, x),
                PostOp::Residual(_) => {
                    let other = self.input(self.node.inputs.len() - 1);
                    assert_eq!(self.result_shape(), other.shape, "residual of '{}'", self.node.name);
                    x + f64::from(other.as_f32()[at])
                }
                PostOp::Clamp { .. } | PostOp::Table { .. } => {
                    panic!("'{}' is a float operator with an integer stage", self.node.name)
                }
            };
        }
        x as f32
    }

    fn result_shape(&self) -> Vec<usize> {
        self.result()
            .fixed_shape()
            .unwrap_or_else(|| panic!("'{}' has no shape", self.result().name))
            .to_vec()
    }

    /// How many operands the stages add behind the operator's own.
    pub(super) fn own_operands(&self, epilogue: &Epilogue) -> usize {
        let residuals = epilogue.post_ops.iter().filter(|stage| matches!(stage, PostOp::Residual(_))).count();
        self.node.inputs.len() - residuals
    }
}
