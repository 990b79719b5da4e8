//! From `DequantizeLinear` → operator → `QuantizeLinear` to the operator over 8-bit values.
//!
//! The result computes what ONNX Runtime's fused integer graph computes, to the bit. What has no integer form, or
//! only one of its ends quantized, stays in float between explicit `DequantizeLinear` and `QuantizeLinear` nodes.
//! Knows nothing of fused steps except the limits that a Relu or Clip in front of a `QuantizeLinear` becomes.

pub(super) mod movement;
mod operator;
mod pattern;
pub(super) mod table;

use super::rewrite::Rewriter;
use crate::{Error, Graph, Node};
use pattern::{annotate, dequantized, quantizer};
use table::mapping;

/// Turns quantized regions into operators over 8-bit values whose [`crate::Value::quant`] is set. Returns whether
/// anything changed.
///
/// Wants constants folded as far as scales and zero points need it, but dequantized weights left alone.
pub fn quantize(graph: &mut Graph) -> Result<bool, Error> {
    let mut rewriter = Rewriter::new(graph);
    rewriter.sweep_all();
    for index in 0..rewriter.len() {
        annotate(&mut rewriter, index);
    }
    for index in (0..rewriter.len()).rev() {
        let mut raised = Some(index);
        while let Some(index) = raised {
            raised = movement::raise_quantizer(&mut rewriter, index);
        }
    }
    // The bound moves with the nodes that are added on the way.
    let mut index = 0;
    while index < rewriter.len() {
        if !cancel_pair(&mut rewriter, index) && !movement::lower(&mut rewriter, index) {
            operator::lower(&mut rewriter, index);
        }
        index += 1;
    }
    Ok(rewriter.commit())
}

/// `DequantizeLinear` → `QuantizeLinear`: nothing when the parameters are equal, else one table, or between 16-bit integers one
/// function that keeps the real.
fn cancel_pair(rewriter: &mut Rewriter<'_>, index: usize) -> bool {
    let Some((real, output, to)) = quantizer(rewriter, index) else { return false };
    let Some((source, from)) = dequantized(rewriter, real) else { return false };
    if from == to && !rewriter.is_output(output) {
        rewriter.replace_uses(output, source);
        return true;
    }
    let Some(op) = mapping(None, from, to, rewriter.rounding()) else { return false };
    let node = rewriter.get(index).expect("a live node");
    let node = Node { name: node.name.clone(), op, inputs: vec![Some(source)], outputs: vec![Some(output)] };
    rewriter.replace(index, node);
    true
}
