//! Products with a vector, as products with a matrix of one row or column.

use triune_tensor::{DType, Shape};

use super::rewrite::Rewriter;
use crate::{Constant, Dim, Error, Graph, Node, Op, Value, ValueId, infer::infer, ops::Reshape};

/// Gives each vector that a product takes the axis that it lacks, and takes that from the result, for whoever multiplies matrices
/// alone. Infers types before. Returns whether anything changed.
pub fn widen_vectors(graph: &mut Graph) -> Result<bool, Error> {
    infer(graph)?;
    let mut rewriter = Rewriter::new(graph);
    for index in 0..rewriter.len() {
        rewriter.go_on()?;
        widen(&mut rewriter, index);
    }
    Ok(rewriter.commit())
}

fn widen(rewriter: &mut Rewriter<'_>, index: usize) -> Option<()> {
    let node = rewriter.get(index).filter(|node| matches!(node.op, Op::MatMul(_)))?.clone();
    let operands = [node.inputs.first().copied()??, node.inputs.get(1).copied()??];
    let output = node.outputs.first().copied()??;
    let [a, b] = operands.map(|id| rewriter.value(id).fixed_shape());
    let [a, b] = [a?, b?];
    if a.rank() != 1 && b.rank() != 1 {
        return None;
    }
    let dtype = rewriter.value(output).dtype?;
    let own = rewriter.value(output).fixed_shape()?;
    let mut dims = own.to_vec();
    if a.rank() == 1 {
        // In front of the columns, if there are any.
        dims.insert(dims.len() - usize::from(b.rank() > 1), 1);
    }
    if b.rank() == 1 {
        dims.push(1);
    }
    let wide = [
        if a.rank() == 1 { reshaped(rewriter, index, operands[0], &[1, a[0]])? } else { operands[0] },
        if b.rank() == 1 { reshaped(rewriter, index, operands[1], &[b[0], 1])? } else { operands[1] },
    ];
    let product = value(rewriter, output, dtype, &dims);
    let mut inputs = node.inputs.clone();
    (inputs[0], inputs[1]) = (Some(wide[0]), Some(wide[1]));
    let made = Node { inputs, outputs: vec![Some(product)].into(), ..node.clone() };
    let shape = requested(rewriter, output, &own)?;
    let op = Op::Reshape(Reshape { allow_zero: own.contains(&0) });
    let name = format!("{}.Reshape", node.name);
    rewriter.add_node(made, index);
    rewriter.replace(index, Node::new(name, op, vec![Some(product), Some(shape)], vec![Some(output)]));
    Some(())
}

/// The operand under other extents: a constant of those, or what a node makes in front of the one at `place`.
fn reshaped(rewriter: &mut Rewriter<'_>, place: usize, id: ValueId, dims: &[usize]) -> Option<ValueId> {
    let dtype = rewriter.value(id).dtype?;
    let known = rewriter.value(id).constant.clone();
    let wide = value(rewriter, id, dtype, dims);
    if let Some(constant) = known {
        rewriter.set_constant(wide, constant.reshaped(Shape::new(dims)?)?);
        return Some(wide);
    }
    let shape = requested(rewriter, wide, dims)?;
    let op = Op::Reshape(Reshape { allow_zero: dims.contains(&0) });
    let name = format!("{}.Reshape", rewriter.value(wide).name);
    rewriter.add_node(Node::new(name, op, vec![Some(id), Some(shape)], vec![Some(wide)]), place);
    Some(wide)
}

fn value(rewriter: &mut Rewriter<'_>, like: ValueId, dtype: DType, dims: &[usize]) -> ValueId {
    let mut value = Value::named(format!("{}.matrix", rewriter.value(like).name));
    value.dtype = Some(dtype);
    value.shape = Some(dims.iter().map(|&extent| Dim::Fixed(extent)).collect());
    rewriter.add_value(value)
}

/// The extents as an operand of a reshape.
fn requested(rewriter: &mut Rewriter<'_>, of: ValueId, dims: &[usize]) -> Option<ValueId> {
    let extents: Vec<i64> = dims.iter().map(|&extent| extent as i64).collect();
    let constant = Constant::from_i64(Shape::from([extents.len()]), &extents)?;
    let id = rewriter.add_value(Value::named(format!("{}.shape", rewriter.value(of).name)));
    rewriter.set_constant(id, constant);
    Some(id)
}
