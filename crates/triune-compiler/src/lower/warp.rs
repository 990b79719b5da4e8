//! Perspective warps, and weighted sums of picked elements.

use triune_device::command::{self, Warp};
use triune_graph::{Node, ops::WarpPerspective};

use super::{Form, Lowering, extents, lowers, operand, result};
use crate::Error;

lowers! {
    Weigh => |to, node, _| to.weigh(node);
    WarpPerspective => |to, node, op| to.warp(node, *op);
}

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
    pub(super) fn weigh(&mut self, node: &Node) -> Result<(), Error> {
        let (x, indices) = (self.dense(operand(node, 0)?)?, self.dense(operand(node, 1)?)?);
        let factors = node.inputs.get(2).copied().flatten().map(|id| self.dense(id)).transpose()?;
        let output = self.place(result(node)?, Form::Dense)?;
        let (&[batch, channels, elements], &[own, taps, count]) = (&*x.dims, &*indices.dims) else {
            return Err(Error::unsupported(node, format!("sums of {} by {}", x.dims, indices.dims)));
        };
        let shared = own == 1;
        let [batch, channels, elements, count, taps] = extents([batch, channels, elements, count, taps])?;
        if taps == 0 || elements == 0 {
            return self.fill(&output, 0);
        }
        let command = command::Weigh {
            batch,
            channels,
            elements,
            count,
            taps,
            shared,
            input: self.addr(&x)?,
            indices: self.addr(&indices)?,
            factors: factors.as_ref().map(|view| self.addr(view)).transpose()?,
            output: self.addr(&output)?,
        };
        let mut touched = vec![&x, &indices, &output];
        touched.extend(&factors);
        self.emit(command, &touched);
        Ok(())
    }
}
