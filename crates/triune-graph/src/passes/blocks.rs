//! Products with matrices that a file has in blocks of integers.

use std::collections::HashMap;

use triune_tensor::DType;

use crate::{Graph, Op, ValueId};

/// Products of f32 with a constant that is made of blocks of integers take these instead of the reals that they stand for: the same bits,
/// of an eighth of the bytes. Returns whether there are any.
pub(super) fn multiply_as_stored(graph: &mut Graph) -> bool {
    let mut matrices: HashMap<ValueId, ValueId> = HashMap::new();
    let mut changed = false;
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let Op::MatMul(product) = &node.op else { continue };
        let plain = product.epilogue.post_ops.is_empty() && node.quant.is_none();
        let (Some(&Some(x)), Some(&Some(of))) = (node.inputs.first(), node.inputs.get(1)) else { continue };
        let found = graph.value(of).constant.as_ref().and_then(|constant| constant.blocks().cloned());
        let Some((product, matrix)) = found.filter(|_| plain && graph.value(x).dtype == Some(DType::F32))
        else {
            continue;
        };
        let name = format!("{}:blocks", graph.value(of).name);
        let own = *matrices.entry(of).or_insert_with(|| graph.add_constant(name, matrix));
        let node = &mut graph.nodes[index];
        node.op = Op::BlockMatMul(product);
        node.inputs[1] = Some(own);
        changed = true;
    }
    changed
}
