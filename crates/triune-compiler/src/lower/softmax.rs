//! Softmax along one axis.

use triune_device::command::{FSoftmax, QSoftmax, Quant};
use triune_graph::{Node, ops::Softmax};
use triune_tensor::{DType, QuantParams};

use super::{Form, Lowering, extents, operand, result};
use crate::Error;

impl Lowering<'_> {
    pub(super) fn softmax(&mut self, node: &Node, op: Softmax) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let mut from = self.view(x)?;
        let rank = from.dims.rank();
        let axis = if op.axis < 0 { op.axis + rank as isize } else { op.axis };
        let axis = usize::try_from(axis)
            .ok()
            .filter(|&axis| axis < rank)
            .ok_or_else(|| Error::unsupported(node, format!("axis {} of rank {rank}", op.axis)))?;
        if op.flatten || !from.is_compact() {
            from = self.densified(&from)?;
        }
        // In memory the view is row-major over its axes in physical order.
        let order = from.physical_order();
        let physical = from.permuted(&order);
        let at = order.iter().position(|&from| from == axis).unwrap_or(axis);
        let end = if op.flatten { rank } else { at + 1 };
        let product = |dims: &[usize]| dims.iter().product::<usize>();
        let (outer, length, inner) = if op.flatten {
            (product(&from.dims[..axis]), product(&from.dims[axis..]), 1)
        } else {
            (product(&physical.dims[..at]), physical.dims[at], product(&physical.dims[end..]))
        };
        let to = self.place(y, Form::Like(from))?;
        let dims = extents([outer, length, inner])?;
        let (input, output) = (self.addr(&from)?, self.addr(&to)?);
        match from.dtype {
            DType::F32 => self.emit(FSoftmax { input, output, dims }, &[&from, &to]),
            DType::I8 | DType::U8 => {
                let quants = [self.operand_quant(node, 0)?, self.result_quant(node)?];
                let [input_quant, output_quant] =
                    quants.map(|QuantParams { scale, zero_point }| Quant { scale, zero_point });
                let command = QSoftmax { input, output, dtype: from.dtype, dims, input_quant, output_quant };
                self.emit(command, &[&from, &to]);
            }
            other => return Err(Error::unsupported(node, format!("{other} operand"))),
        }
        Ok(())
    }
}
