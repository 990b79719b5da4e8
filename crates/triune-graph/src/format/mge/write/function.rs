//! Functions of one or two operands, reductions, and the border between reals and integers.

use super::{Variable, site::Site};
use crate::{
    Error, Op,
    format::flatbuffer::TableBuilder,
    ops::{self, BinaryKind, ReduceKind, UnaryKind},
};

impl Site<'_, '_> {
    pub(super) fn binary(&mut self, op: &ops::Binary) -> Result<u32, Error> {
        let result = self.result.clone();
        let mode = match op.kind {
            BinaryKind::Add => 16,
            BinaryKind::Sub => 24,
            BinaryKind::Mul => 21,
            BinaryKind::Div if result.element.dtype.is_float() => 27,
            BinaryKind::Min => 19,
            BinaryKind::Max => 18,
            BinaryKind::Pow => 22,
            BinaryKind::FloorDiv => 17,
            BinaryKind::Rem if result.element.dtype.is_float() => 20,
            BinaryKind::Mod if !result.element.dtype.is_float() => 20,
            BinaryKind::LogAddExp => 28,
            BinaryKind::ShiftLeft => 32,
            BinaryKind::ShiftRight => 33,
            BinaryKind::MulHigh => 43,
            BinaryKind::Atan2 => 44,
            BinaryKind::And => 53,
            BinaryKind::Or => 54,
            BinaryKind::Xor => 55,
            BinaryKind::PRelu => 73,
            BinaryKind::Div => return Err(self.unsupported("a division of integers")),
            BinaryKind::Mod
            | BinaryKind::Rem
            | BinaryKind::Equal
            | BinaryKind::NotEqual
            | BinaryKind::Less
            | BinaryKind::LessOrEqual
            | BinaryKind::Greater
            | BinaryKind::GreaterOrEqual => return Err(self.unsupported("this function")),
        };
        let inputs = [self.input(0)?, self.input(1)?];
        self.elemwise(mode, &inputs, &result)
    }

    pub(super) fn reduce(&mut self, op: &ops::Reduce) -> Result<u32, Error> {
        let result = self.result.clone();
        let mode = match op.kind {
            ReduceKind::Sum => 0,
            ReduceKind::SumSquare => 1,
            ReduceKind::Product => 2,
            ReduceKind::Min => 3,
            ReduceKind::Max => 4,
            ReduceKind::Mean => 5,
        };
        if self.node.inputs.len() > 1 {
            return Err(self.unsupported("a reduction to a shape"));
        }
        let mut inner = self.variable(0)?;
        inner.name = format!("{}.partial", result.name);
        let rank = inner.shape.len() as isize;
        let axes = op.axes.clone().unwrap_or_else(|| (0..rank).collect());
        let mut y = self.input(0)?;
        if axes.len() > 1 && op.kind == ReduceKind::SumSquare {
            return Err(self.unsupported("a sum of squares over several axes"));
        }
        for axis in axes {
            let axis = if axis < 0 { axis + rank } else { axis };
            inner.shape[axis as usize] = 1;
            let params = TableBuilder::default().u32(0, mode).i32(1, axis as i32);
            y = self.add("ReduceV2", Some((23, params)), &[y], &inner)?;
        }
        self.reshape(y, &result)
    }

    /// x − max − ln Σ e^(x − max), for which there is no operator.
    pub(super) fn log_softmax(&mut self, axis: isize) -> Result<u32, Error> {
        let result = self.result.clone();
        let rank = result.shape.len() as isize;
        let axis = if axis < 0 { axis + rank } else { axis };
        let along = |site: &mut Self, mode: u32, x: u32, suffix: &str| {
            let mut inner = site.inner(suffix);
            inner.shape[axis as usize] = 1;
            let params = TableBuilder::default().u32(0, mode).i32(1, axis as i32);
            Ok::<_, Error>((site.add("ReduceV2", Some((23, params)), &[x], &inner)?, inner))
        };
        let x = self.input(0)?;
        let (most, _) = along(self, 4, x, "largest")?;
        let (shifted, powers) = (self.inner("shifted"), self.inner("powers"));
        let shifted = self.elemwise(24, &[x, most], &shifted)?;
        let powers = self.elemwise(6, &[shifted], &powers)?;
        let (sum, one) = along(self, 0, powers, "sum")?;
        let sum = self.elemwise(9, &[sum], &Variable { name: format!("{}.log", one.name), ..one })?;
        self.elemwise(24, &[shifted, sum], &result)
    }

    pub(super) fn unary(&mut self, kind: UnaryKind) -> Result<u32, Error> {
        let result = self.result.clone();
        let x = self.input(0)?;
        let mode = match kind {
            UnaryKind::Relu => 0,
            UnaryKind::Abs => 1,
            UnaryKind::Ceil => 4,
            UnaryKind::Exp => 6,
            UnaryKind::Floor => 8,
            UnaryKind::Log => 9,
            UnaryKind::Neg => 11,
            UnaryKind::Sigmoid => 12,
            UnaryKind::Tanh => 14,
            UnaryKind::Erf => 45,
            UnaryKind::HardSwish => 49,
            UnaryKind::Silu => 56,
            UnaryKind::Gelu => 58,
            UnaryKind::Softplus => 76,
            UnaryKind::Clip([0.0, 6.0]) => 78,
            UnaryKind::Sqrt => 83,
            UnaryKind::LeakyRelu(alpha) => {
                let alpha = self.writer.scalar(alpha, &format!("{}.alpha", result.name))?;
                return self.elemwise(73, &[x, alpha], &result);
            }
            UnaryKind::Clip([low, high]) => {
                let low = self.writer.scalar(low, &format!("{}.low", result.name))?;
                let high = self.writer.scalar(high, &format!("{}.high", result.name))?;
                return self.elemwise(74, &[x, low, high], &result);
            }
            UnaryKind::Reciprocal => {
                let one = self.writer.scalar(1.0, &format!("{}.one", result.name))?;
                return self.elemwise(27, &[one, x], &result);
            }
            UnaryKind::HardSigmoid { alpha, beta } => {
                let mut number =
                    |value: f32, name: &str| self.writer.scalar(value, &format!("{}.{name}", result.name));
                let (alpha, beta) = (number(alpha, "alpha")?, number(beta, "beta")?);
                let (low, high) = (number(0.0, "low")?, number(1.0, "high")?);
                let inner = self.inner("line");
                let line = self.elemwise(35, &[x, alpha, beta], &inner)?;
                return self.elemwise(74, &[line, low, high], &result);
            }
            other => return Err(self.unsupported(format!("the function {}", other.name()))),
        };
        self.elemwise(mode, &[x], &result)
    }

    /// Reals to integers or back, with one scale.
    pub(super) fn border(&mut self) -> Result<u32, Error> {
        let Some(quant) = self.writer.graph.border_params(self.node) else {
            return Err(self.unsupported("quantization with several or computed scales"));
        };
        let mut result = self.result.clone();
        if matches!(self.node.op, Op::QuantizeLinear(_)) {
            result.element.quant = Some(quant);
            let x = self.input(0)?;
            return self.convert(x, &result);
        }
        // What a variable's integers mean is part of its type, which says it to every reader.
        let source = self.node.inputs.first().copied().flatten();
        let x = match self.constant(0).cloned() {
            Some(constant) => {
                self.writer.constant(&constant, Some(quant), &format!("{}.integers", result.name))?
            }
            None if source.and_then(|id| self.writer.quants[id.0 as usize]) == Some(quant) => {
                self.input(0)?
            }
            None => {
                return Err(self.unsupported("integers that do not come from a quantization with this scale"));
            }
        };
        self.convert(x, &result)
    }
}
