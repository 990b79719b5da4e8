//! Perspective warps.

use triune_device::command::Warp;
use triune_graph::{Node, ops::WarpPerspective};

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
        let command = Warp {
            input: self.map(&input)?,
            output: self.map(&output)?,
            matrices: self.addr(&matrices)?,
            images: images.as_ref().map(|view| self.addr(view)).transpose()?,
            sampling: op.sampling,
            border: op.border,
        };
        let mut touched = vec![&input, &matrices, &output];
        touched.extend(&images);
        self.emit(command, &touched);
        Ok(())
    }
}
