//! Element types and extents of every value of a bound graph, by the rules of the operators.

use std::collections::HashMap;

use crate::{
    Constant, Dim, Error, Graph, ValueId,
    known::Evaluator,
    ops::infer::{Operand, Operands, TensorType, is_countable},
};

/// Values up to this many elements are followed through shape arithmetic.
const KNOWN_ELEMENTS: usize = 1024;

/// Gives every value its element type and fixed extents, and fixes what operators leave open until then: automatic
/// padding, a kernel's extents, an empty permutation.
///
/// All inputs need a type and fixed extents (see [`Graph::bind`]). Shapes that are computed from extents, such as the
/// operand of a reshape, are followed; one that depends on data is an error. Errors name the node and say what was
/// expected and what was found.
pub fn infer(graph: &mut Graph) -> Result<(), Error> {
    let mut types: Vec<Option<TensorType>> = vec![None; graph.values.len()];
    for (index, value) in graph.values.iter().enumerate() {
        let Some(constant) = &value.constant else { continue };
        if !is_countable(&constant.shape()) {
            return Err(Error::Graph(format!(
                "'{}' has too many elements: {}",
                value.name,
                constant.shape()
            )));
        }
        types[index] = Some(TensorType { dtype: constant.dtype(), shape: constant.shape() });
    }
    for &id in &graph.inputs {
        let value = graph.value(id);
        let (Some(dtype), Some(shape)) = (value.dtype, value.fixed_shape()) else {
            return Err(Error::Graph(format!(
                "input '{}' needs an element type and fixed extents, bind its shape first",
                value.name
            )));
        };
        if !is_countable(&shape) {
            return Err(Error::Graph(format!("input '{}' has too many elements: {shape}", value.name)));
        }
        types[id.0 as usize] = Some(TensorType { dtype, shape });
    }
    // By value; few have any.
    let mut known: HashMap<ValueId, Constant> = HashMap::new();
    let mut evaluator = Evaluator::new(8 * KNOWN_ELEMENTS);
    let mut nodes = std::mem::take(&mut graph.nodes);
    let result: Result<(), Error> = nodes.iter_mut().try_for_each(|node| {
        let mut operands = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            operands.push(match input {
                None => None,
                Some(id) => {
                    let index = id.0 as usize;
                    let TensorType { dtype, shape } = types[index].ok_or_else(|| {
                        let name = &graph.values[index].name;
                        Error::Graph(format!("node '{}' reads value '{name}' before it is made", node.name))
                    })?;
                    let constant = graph.values[index].constant.as_ref();
                    let constant = constant.or_else(|| known.get(id));
                    Some(Operand { dtype, shape, constant })
                }
            });
        }
        let quantized = node.quant.as_ref().map(|quant| quant.dtype);
        let at = Operands { node: &node.name, op: node.op.name(), inputs: &operands, quantized };
        let results = node.op.infer(&at, node.outputs.len())?;
        let values = evaluator.evaluate(&node.op, &at, &results);
        for (index, output) in node.outputs.iter().enumerate() {
            let Some(id) = output else { continue };
            types[id.0 as usize] = results.get(index).copied();
            if let Some(value) = values.as_ref().and_then(|values| values.get(index)) {
                known.insert(*id, value.clone());
            }
        }
        Ok(())
    });
    graph.nodes = nodes;
    result?;
    for (value, found) in graph.values.iter_mut().zip(types) {
        if let Some(TensorType { dtype, shape }) = found {
            value.dtype = Some(dtype);
            if value.fixed_shape() != Some(shape) {
                value.shape = Some(shape.iter().map(|&extent| Dim::Fixed(extent)).collect());
            }
        }
    }
    for &id in &graph.outputs {
        if graph.value(id).fixed_shape().is_none() {
            return Err(Error::Graph(format!("output '{}' is not made by any node", graph.value(id).name)));
        }
    }
    Ok(())
}
