//! The border between reals and integers.

use triune_device::command::{Dequantize, Quant, Quantize};
use triune_graph::Node;

use super::{Lowering, operand, result};
use crate::Error;

impl Lowering<'_> {
    pub(super) fn quantize(&mut self, node: &Node) -> Result<(), Error> {
        let quant = self.border_quant(node)?;
        let (from, to) = self.elementwise(operand(node, 0)?, result(node)?)?;
        let rounding = self.graph.rounding;
        let command = Quantize { input: self.flat_map(&from)?, output: self.flat_map(&to)?, quant, rounding };
        self.emit(command, &[&from, &to]);
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
