//! From `DequantizeLinear` → operator → `QuantizeLinear` to the operator over 8-bit values.
//!
//! The result computes what ONNX Runtime's fused integer graph computes, to the bit. What has no integer form, or
//! only one of its ends quantized, stays in float between explicit `DequantizeLinear` and `QuantizeLinear` nodes.
//! Knows nothing of fused steps except the limits that a Relu or Clip in front of a `QuantizeLinear` becomes.

pub(super) mod composite;
pub(super) mod correlation;
mod extreme;
mod maker;
pub(super) mod movement;
mod operator;
pub(super) mod pattern;
mod reduction;
pub(super) mod table;

use super::rewrite::Rewriter;
use crate::{Error, Graph, Node, Op, Quantization, ValueId};
use pattern::{dequantized, quantizer, state_type};
use table::{Quantized, mapping};

/// Whether anything in the graph is quantized.
pub(super) fn concerns(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| matches!(node.op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_)))
}

/// Turns quantized regions into operators that say what their integers stand for ([`Node::quant`]). Returns whether anything
/// changed.
///
/// Wants constants folded as far as scales and zero points need it, but dequantized weights left alone.
pub fn quantize(graph: &mut Graph) -> Result<bool, Error> {
    if !concerns(graph) {
        return super::dead_code(graph);
    }
    let mut rewriter = Rewriter::new(graph);
    rewriter.sweep_all();
    for index in 0..rewriter.len() {
        rewriter.go_on()?;
        state_type(&mut rewriter, index);
        composite::join_gelu(&mut rewriter, index);
        reduction::as_pool(&mut rewriter, index);
        correlation::as_product(&mut rewriter, index);
        movement::raise_limit(&mut rewriter, index);
    }
    let mut quantizers = movement::Quantizers::new(&rewriter);
    for index in (0..rewriter.len()).rev() {
        rewriter.go_on()?;
        let mut raised = Some(index);
        while let Some(index) = raised {
            raised = movement::raise_quantizer(&mut rewriter, &mut quantizers, index);
        }
    }
    // The bound moves with the nodes that are added on the way.
    let mut index = 0;
    while index < rewriter.len() {
        rewriter.go_on()?;
        if !cancel_pair(&mut rewriter, index) && !movement::lower(&mut rewriter, index) {
            operator::lower(&mut rewriter, index);
        }
        index += 1;
    }
    Ok(rewriter.commit())
}

/// `DequantizeLinear` → `QuantizeLinear`: nothing when the parameters are equal, else one table, or between 16-bit integers one
/// function that keeps the real. The other way round the integers are what they are, whatever either side takes them for.
fn cancel_pair(rewriter: &mut Rewriter<'_>, index: usize) -> bool {
    let Some((real, output, to)) = quantizer(rewriter, index) else { return false };
    let Some((source, from)) = dequantized(rewriter, real) else { return false };
    if from == to && !rewriter.is_output(output) {
        rewriter.replace_uses(output, source);
        return true;
    }
    let Some(op) = mapping(None, from, to, rewriter.rounding()) else { return false };
    let name = rewriter.get(index).expect("a live node").name.clone();
    rewriter.replace(index, mapped(name, op, (source, from), (output, to)));
    true
}

/// A node that maps integers of one meaning to those of another.
fn mapped(
    name: String,
    op: Op,
    (input, from): (ValueId, Quantized),
    (output, to): (ValueId, Quantized),
) -> Node {
    let quant = Some(Box::new(over(&[from], to)));
    Node { quant, ..Node::new(name, op, vec![Some(input)], vec![Some(output)]) }
}

/// What an operator without weights says of operands and a result.
fn over(operands: &[Quantized], to: Quantized) -> Quantization {
    let operands = operands.iter().map(|own| Some(own.params)).collect();
    Quantization { operands, weights: [].into(), dtype: to.dtype, result: to.params }
}
