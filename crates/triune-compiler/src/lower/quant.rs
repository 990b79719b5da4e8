//! The border between reals and integers.

use triune_device::command::{Dequantize, Quant, Quantize, QuantizeBy};
use triune_graph::Node;
use triune_tensor::DType;

use super::{Lowering, lowers, operand, result};
use crate::{Error, view::View};

lowers! {
    QuantizeLinear => |to, node, _| to.quantize(node);
    DequantizeLinear => |to, node, _| to.dequantize(node);
}

impl Lowering<'_> {
    pub(super) fn quantize(&mut self, node: &Node) -> Result<(), Error> {
        let (from, to) = self.elementwise(operand(node, 0)?, result(node)?)?;
        let rounding = self.graph.rounding;
        if self.graph.border_params(node).is_none() && from.dtype == DType::F32 && to.dtype.is_quantized() {
            return self.quantize_by(node, &from, &to);
        }
        let quant = self.border_quant(node)?;
        let command = Quantize { input: self.flat_map(&from)?, output: self.flat_map(&to)?, quant, rounding };
        self.emit(command, &[&from, &to]);
        Ok(())
    }

    /// By a scale and a zero point that are computed.
    fn quantize_by(&mut self, node: &Node, from: &View, to: &View) -> Result<(), Error> {
        let scale = self.dense(operand(node, 1)?)?;
        let zero_point = node.inputs.get(2).copied().flatten().map(|id| self.dense(id)).transpose()?;
        let mut all = Some(scale).into_iter().chain(zero_point);
        if all.any(|parameter| parameter.dims.elements() != Some(1)) {
            return Err(Error::unsupported(node, "several computed scales and zero points"));
        }
        let command = QuantizeBy {
            input: self.flat_map(from)?,
            output: self.flat_map(to)?,
            scale: self.addr(&scale)?,
            zero_point: zero_point.map(|view| self.addr(&view)).transpose()?,
            rounding: self.graph.rounding,
        };
        self.emit(command, &[from, to, &scale, &zero_point.unwrap_or(scale)]);
        Ok(())
    }

    pub(super) fn dequantize(&mut self, node: &Node) -> Result<(), Error> {
        let quant = self.border_quant(node)?;
        let (from, to) = self.elementwise(operand(node, 0)?, result(node)?)?;
        let command = Dequantize { input: self.flat_map(&from)?, output: self.flat_map(&to)?, quant };
        self.emit(command, &[&from, &to]);
        Ok(())
    }

    /// The one scale and zero point that the operator has itself.
    fn border_quant(&self, node: &Node) -> Result<Quant, Error> {
        let params = self.graph.border_params(node);
        let params =
            params.ok_or_else(|| Error::unsupported(node, "several or computed scales and zero points"))?;
        Ok(Quant { scale: params.scale, zero_point: params.zero_point })
    }
}
