//! The border between reals and 8-bit integers.

use triune_device::command::{Dequantize, Quantize};
use triune_graph::Node;

use super::{Lowering, operand, result};
use crate::Error;

impl Lowering<'_> {
    pub(super) fn quantize(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let quant = self.meaning(node, y)?;
        let (from, to) = self.elementwise(x, y)?;
        let rounding = self.graph.rounding.into();
        let command = Quantize { input: self.flat_map(&from)?, output: self.flat_map(&to)?, quant, rounding };
        self.emit(command, &[&from, &to]);
        Ok(())
    }

    pub(super) fn dequantize(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let quant = self.meaning(node, x)?;
        let (from, to) = self.elementwise(x, y)?;
        let command = Dequantize { input: self.flat_map(&from)?, output: self.flat_map(&to)?, quant };
        self.emit(command, &[&from, &to]);
        Ok(())
    }
}
