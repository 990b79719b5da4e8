//! What integers stand for, as the operators beside them say.
//!
//! Operators compute with what they say themselves ([`crate::Node::quant`], a quantizer's operands). What is found here
//! describes tensors where a network is cut or looked at; nothing computes with it.

use triune_tensor::QuantParams;

use crate::{Graph, Node, Op, ValueId};

/// What the readers of a value say.
#[derive(Clone, Copy, PartialEq)]
enum Said {
    Nothing,
    One(QuantParams),
    /// They contradict each other.
    Several,
}

impl Said {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, said) | (said, Self::Nothing) => said,
            (own, other) if own == other => own,
            _ => Self::Several,
        }
    }
}

impl Graph {
    /// Scale and zero point of a `QuantizeLinear` or `DequantizeLinear` that has one known one of each; one that is left out is 0.
    pub fn border_params(&self, node: &Node) -> Option<QuantParams> {
        let known = |id: ValueId| self.value(id).constant.as_ref();
        let scale = known((*node.inputs.get(1)?)?)?.scalar_f32()?;
        let zero_point = match node.inputs.get(2).copied().flatten() {
            None => 0,
            Some(id) => match known(id)?.to_i64()?.as_slice() {
                [zero_point] => i32::try_from(*zero_point).ok()?,
                _ => return None,
            },
        };
        (scale.is_finite() && scale > 0.0).then_some(QuantParams { scale, zero_point })
    }

    /// For every value, what its integers stand for: what the operator says that makes them, before those that move them, or
    /// else what all operators agree on that read them, behind those that move them.
    pub fn meanings(&self) -> Vec<Option<QuantParams>> {
        let mut made: Vec<Option<QuantParams>> = vec![None; self.values.len()];
        for node in &self.nodes {
            let stated = match &node.op {
                Op::QuantizeLinear(_) => self.border_params(node),
                _ if node.quant.is_some() => node.quant.as_ref().map(|quant| quant.result),
                op => {
                    let mut parts = moved(op, node).map(|id| made[id.0 as usize]);
                    let first = parts.next().flatten();
                    first.filter(|_| parts.all(|part| part == first))
                }
            };
            for output in node.outputs.iter().flatten() {
                made[output.0 as usize] = stated;
            }
        }
        let mut read = vec![Said::Nothing; self.values.len()];
        for node in self.nodes.iter().rev() {
            let of = |said: Option<QuantParams>| said.map_or(Said::Nothing, Said::One);
            let behind = node.outputs.iter().flatten().map(|id| read[id.0 as usize]);
            let behind = behind.fold(Said::Nothing, Said::and);
            let mut say = |id: ValueId, said| read[id.0 as usize] = read[id.0 as usize].and(said);
            match (&node.op, &node.quant) {
                (Op::DequantizeLinear(_), _) => {
                    if let Some(Some(id)) = node.inputs.first() {
                        say(*id, of(self.border_params(node)));
                    }
                }
                (_, Some(quant)) => {
                    for (index, id) in node.inputs.iter().enumerate() {
                        if let Some(id) = id {
                            say(*id, of(quant.operand(index)));
                        }
                    }
                }
                (op, None) => {
                    for id in moved(op, node) {
                        say(id, behind);
                    }
                }
            }
        }
        let pairs = made.into_iter().zip(read);
        pairs
            .map(|(made, read)| made.or(if let Said::One(said) = read { Some(said) } else { None }))
            .collect()
    }
}

/// The operands whose elements the results have, if the operator moves some.
fn moved<'n>(op: &Op, node: &'n Node) -> impl Iterator<Item = ValueId> + use<'n> {
    let operands = match op {
        Op::Concat(_) => node.inputs.len(),
        op if op.moves() => 1,
        _ => 0,
    };
    node.inputs.iter().take(operands).filter_map(|id| *id)
}
