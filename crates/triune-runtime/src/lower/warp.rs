//! Perspective warps.

use triune_device::command::{BorderMode, Warp};
use triune_graph::{
    Node,
    ops::{Border, WarpPerspective},
};

use super::{Form, Lowering, operand, result};
use crate::Error;

impl Lowering<'_> {
    pub(super) fn warp(&mut self, node: &Node, op: WarpPerspective) -> Result<(), Error> {
        let (x, matrices, y) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let input = self.feature_map(node, x)?;
        let matrices = self.dense(matrices)?;
        let images = match node.inputs.get(2).copied().flatten() {
            Some(id) => Some(self.dense(id)?),
            None => None,
        };
        let output = self.place(y, Form::ChannelsLast)?;
        let (border, border_value) = match op.border {
            Border::Constant(value) => (BorderMode::Constant, value),
            Border::Replicate => (BorderMode::Replicate, 0.0),
            Border::Reflect => (BorderMode::Reflect, 0.0),
            Border::Reflect101 => (BorderMode::Reflect101, 0.0),
            Border::Wrap => (BorderMode::Wrap, 0.0),
        };
        let command = Warp {
            input: self.map(&input)?,
            output: self.map(&output)?,
            matrices: self.addr(&matrices)?,
            images: images.as_ref().map(|view| self.addr(view)).transpose()?,
            linear: op.linear,
            border,
            border_value,
        };
        let mut touched = vec![&input, &matrices, &output];
        touched.extend(&images);
        self.emit(command, &touched);
        Ok(())
    }
}
