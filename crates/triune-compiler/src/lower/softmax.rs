//! Softmax along one axis, and normalization along several.

use triune_device::command::{FLogSoftmax, FNorm, FSoftmax, QNorm, QSoftmax, Quant};
use triune_graph::{
    Node,
    ops::{LayerNorm, Softmax},
};
use triune_tensor::{DType, QuantParams};

use super::{Form, Lowering, constant, extents, lowers, operand, result};
use crate::{Error, view::View};

lowers! {
    Softmax => |to, node, op| to.softmax(node, *op);
    LayerNorm => |to, node, op| to.layer_norm(node, *op);
}

impl Lowering<'_> {
    pub(super) fn layer_norm(&mut self, node: &Node, op: LayerNorm) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let mut from = self.view(x)?;
        if from.dims.contains(&0) {
            self.place(y, Form::Dense)?;
            return Ok(());
        }
        let [first, end] = op.axes;
        let rows = from.dtype == DType::F32;
        if !from.is_compact() || !lie_in_order(&from, op.axes) || rows && !from.is_dense() {
            from = self.densified(&from)?;
        }
        let physical = from.physical_order();
        let product = |axes: &[usize]| axes.iter().map(|&axis| from.dims[axis]).product::<usize>();
        // Axes of one element lie anywhere.
        let at = physical.iter().position(|axis| (first..end).contains(axis) && from.dims[*axis] != 1);
        let (before, behind) = physical.split_at(at.unwrap_or(physical.len()));
        let length = product(&(first..end).collect::<Vec<_>>());
        let lengths = [product(before), length, product(behind) / length.max(1)];
        let to = self.place(y, Form::Like(from))?;
        let mut row = |index: usize| {
            let known = node.inputs.get(index).copied().flatten();
            let known = known.and_then(|id| self.graph.value(id).constant.as_ref());
            known.map(|known| constant(self.constants.add(known.bytes())))
        };
        let (gamma, beta) = (row(1), row(2));
        if from.dtype == DType::F32 {
            let [outer, len, inner] = lengths;
            if inner > 1 {
                return Err(Error::unsupported(node, "a float normalization along axes in the middle"));
            }
            if !op.centred {
                return Err(Error::unsupported(
                    node,
                    "a float normalization by the mean square as one operator",
                ));
            }
            let (input, output, dims) = (self.addr(&from)?, self.addr(&to)?, extents([outer, len])?);
            let command = FNorm { input, output, dims, epsilon: op.epsilon, gamma, beta };
            self.emit(command, &[&from, &to]);
            return Ok(());
        }
        let [input_quant, output_quant] = [self.operand_quant(node, 0)?, self.result_quant(node)?]
            .map(|QuantParams { scale, zero_point }| Quant { scale, zero_point });
        let command = QNorm {
            input: self.addr(&from)?,
            output: self.addr(&to)?,
            dtype: from.dtype,
            dims: extents(lengths)?,
            input_quant,
            output_quant,
            epsilon: op.epsilon,
            gamma,
            beta,
            rounding: self.graph.rounding,
            centred: op.centred,
        };
        self.emit(command, &[&from, &to]);
        Ok(())
    }

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
            DType::F32 if op.log => self.emit(FLogSoftmax { input, output, dims }, &[&from, &to]),
            DType::F32 => self.emit(FSoftmax { input, output, dims }, &[&from, &to]),
            DType::I8 | DType::U8 if !op.log => {
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

/// Whether the axes from one to another follow each other in memory.
fn lie_in_order(view: &View, [first, end]: [usize; 2]) -> bool {
    let long = |axis: &usize| view.dims[*axis] != 1;
    let order: Vec<usize> = view.physical_order().into_iter().filter(long).collect();
    let axes: Vec<usize> = (first..end).filter(long).collect();
    axes.is_empty() || order.windows(axes.len()).any(|own| own == axes)
}
