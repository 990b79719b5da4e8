//! Where values come from: a caller, or the file.

use triune_tensor::{Shape, text::List};

use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::infer::{TensorType, is_countable},
};

/// A network's input, with the extents of the file as defaults.
pub(in super::super) fn input(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let [tensor] = node.operator.tensors.as_slice() else {
        return Err(node.unsupported(format!("{} tensors; 1 is expected", node.operator.tensors.len())));
    };
    let element = tensor.element.clone().map_err(|reason| node.unsupported(reason))?;
    let shape = Shape::new(&tensor.shape).filter(is_countable);
    let shape =
        shape.ok_or_else(|| node.unsupported(format!("an input of extents {}", List(&tensor.shape))))?;
    let name = node.names.first().ok_or_else(|| node.unsupported("the input is not a variable"))?;
    Ok(node.builder.add_input(name, TensorType { dtype: element.dtype, shape }, element.quant))
}

/// A weight.
pub(in super::super) fn constant(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    if node.operator.tensors.len() != 1 {
        return Err(node.unsupported(format!("{} tensors; 1 is expected", node.operator.tensors.len())));
    }
    one(node, 0)
}

/// Many weights in one operator, a variable each.
pub(in super::super) fn constants(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let count = node.operator.tensors.len();
    if count == 0 || count != node.names.len() {
        return Err(node.unsupported(format!("{count} tensors for {} variables", node.names.len())));
    }
    for index in 1..count {
        let value = one(node, index)?;
        node.finish(index, value)?;
    }
    one(node, 0)
}

fn one(node: &mut NodeReader<'_, '_, '_>, index: usize) -> Result<ValueId, Error> {
    let tensor = &node.operator.tensors[index];
    let element = tensor.element.clone().map_err(|reason| node.unsupported(reason))?;
    let constant = node.builder.tensor(tensor).map_err(|reason| node.damaged(&reason))?;
    if !is_countable(&constant.shape()) {
        return Err(node.unsupported(format!("a constant of extents {}", constant.shape())));
    }
    let id = node.new_constant("value", constant);
    node.builder.set_quant(id, element.quant);
    Ok(id)
}
