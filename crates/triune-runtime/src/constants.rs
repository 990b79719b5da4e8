//! What a model computes of constants alone: once, when it is read, instead of in every run.

use triune_compiler::Error as CompileError;
use triune_device::Error as DeviceError;
use triune_graph::{Constant, Graph, Node, Op, ValueId, ValueKind, infer::infer};
use triune_tensor::Shape;

use crate::{Error, Model, Session, SessionOptions};

/// Elements that such operators read and make from which on they are worth a program of their own.
const WORTH: u64 = 4096;
/// Bytes that all that is kept of it may take, however little it is made of.
const ALWAYS: u64 = 64 << 20;
/// Bytes of that for each byte of the constants that there are.
const MOST: u64 = 4;

/// Replaces weights that are converted, turned, products, norms or functions of other constants by what they come to. Graph passes
/// do so with what is small, for each set of extents; borders between reals and integers stay, which quantization looks at. What
/// cannot be computed stays as it is: a run says why.
///
/// # Errors
/// Work that was stopped.
pub fn fold_constants(graph: Graph) -> Result<Graph, Error> {
    let chosen = chosen(&graph);
    if !chosen.contains(&true) {
        return Ok(graph);
    }
    match computed(&graph, &chosen) {
        Ok(None) => Ok(graph),
        Ok(Some(results)) => {
            let mut folded = graph;
            let mut chosen = chosen.into_iter();
            folded.nodes.retain(|_| chosen.next() != Some(true));
            for (id, constant) in results {
                folded.set_constant(id, constant);
            }
            Ok(folded)
        }
        Err(error @ Error::Compile(CompileError::Device(DeviceError::Cancelled))) => Err(error),
        Err(error) => {
            // A run says so, too, with the operator's name.
            log::debug!(target: "triune::session", "operators over constants stay: {error}");
            Ok(graph)
        }
    }
}

/// For each operator, whether it is computed now: one that takes time over constants, or whose result goes into one.
fn chosen(graph: &Graph) -> Vec<bool> {
    let mut known: Vec<bool> = graph.values.iter().map(|value| value.constant.is_some()).collect();
    // Constants of which making others takes time, whatever is done, and what is made of them.
    let elements = |constant: &Constant| constant.elements() as u64;
    let mut large: Vec<bool> =
        graph.values.iter().map(|value| value.constant.as_ref().map_or(0, elements) >= WORTH).collect();
    graph.defaults.iter().for_each(|default| known[default.value.0 as usize] = false);
    let is = |flags: &[bool], id: ValueId| flags[id.0 as usize];
    let mut chosen: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let mut inputs = node.inputs.iter().flatten();
        let fits = node.inputs.first().is_some_and(Option::is_some)
            && inputs.all(|&id| is(&known, id))
            && !matches!(node.op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_) | Op::Hosted(_))
            && node.quant.is_none()
            && node
                .outputs
                .iter()
                .flatten()
                .all(|&id| graph.value(id).kind == ValueKind::Tensor && !graph.outputs.contains(&id));
        if fits {
            let of_large = node.inputs.iter().flatten().any(|&id| is(&large, id));
            for id in node.outputs.iter().flatten() {
                (known[id.0 as usize], large[id.0 as usize]) = (true, of_large);
            }
        }
        chosen.push(fits);
    }
    let mut wanted = vec![false; graph.values.len()];
    for (node, chosen) in graph.nodes.iter().zip(&mut chosen).rev() {
        let remade = makes_elements(node) && node.inputs.iter().flatten().any(|&id| is(&large, id));
        *chosen = *chosen
            && (remade || takes_time(node) || node.outputs.iter().flatten().any(|&id| is(&wanted, id)));
        if *chosen {
            node.inputs.iter().flatten().for_each(|id| wanted[id.0 as usize] = true);
        }
    }
    chosen
}

/// Whether an operator makes elements of its operand's, at most as many, each in little time.
fn makes_elements(node: &Node) -> bool {
    matches!(node.op, Op::Cast(_) | Op::Binary(_) | Op::Transpose(_) | Op::Where(_))
}

fn takes_time(node: &Node) -> bool {
    matches!(
        node.op,
        Op::Unary(_)
            | Op::Clip(_)
            | Op::Reduce(_)
            | Op::MatMul(_)
            | Op::Gemm(_)
            | Op::Conv(_)
            | Op::Softmax(_)
            | Op::Resize(_)
            | Op::Function(_)
    )
}

/// The results of the chosen operators that others read; `None` where they are few, or would take much more than the model.
fn computed(graph: &Graph, chosen: &[bool]) -> Result<Option<Vec<(ValueId, Constant)>>, Error> {
    let all = || graph.nodes.iter().zip(chosen);
    let mut read = vec![false; graph.values.len()];
    for (node, _) in all().filter(|(_, chosen)| !**chosen) {
        node.inputs.iter().flatten().for_each(|id| read[id.0 as usize] = true);
    }
    let mut part = graph.clone();
    part.nodes = all().filter(|(_, chosen)| **chosen).map(|(node, _)| node.clone()).collect();
    let made = part.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied());
    part.outputs = made.filter(|id| read[id.0 as usize]).collect();
    (part.inputs, part.defaults) = (Vec::new(), Vec::new());
    let mut typed = part.clone();
    infer(&mut typed)?;
    let size = |id: ValueId| -> Option<(u64, u64)> {
        let value = typed.value(id);
        let elements = value.fixed_shape()?.elements()? as u64;
        Some((elements, elements.checked_mul(value.dtype?.bytes() as u64)?))
    };
    let (mut elements, mut largest) = (0_u64, 0);
    for id in typed.nodes.iter().flat_map(|node| node.inputs.iter().chain(&node.outputs)).flatten() {
        let Some((own, own_bytes)) = size(*id) else { return Ok(None) };
        elements = elements.saturating_add(own);
        largest = own_bytes.max(largest);
    }
    // What is only made on the way goes again.
    let kept = part.outputs.iter().filter_map(|&id| Some(size(id)?.1));
    let bytes = kept.fold(0, u64::saturating_add).max(largest);
    let constants = graph.values.iter().filter_map(|value| value.constant.as_ref());
    let held = constants.map(|constant| constant.byte_len() as u64).fold(0, u64::saturating_add);
    if elements < WORTH || bytes > ALWAYS.max(held.saturating_mul(MOST)) {
        return Ok(None);
    }
    let outputs = part.outputs.clone();
    let mut session = Session::of(Model::new(part), &SessionOptions::default())?;
    let results = session.run(&[])?;
    let constant = |(id, result): (_, crate::Tensor)| {
        let shape = Shape::new(&result.shape)?;
        Some((id, Constant::new(result.dtype, shape, result.bytes)?))
    };
    Ok(outputs.into_iter().zip(results).map(constant).collect())
}
