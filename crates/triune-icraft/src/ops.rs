//! The network's operators in the vendor's words: one file per family.

mod elementwise;
mod movement;
mod product;
mod window;

use triune_graph::{
    Node, Op, ValueId,
    format::xir::{Attribute, CUSTOM, Target},
    ops::{BinaryKind, PoolKind, ReduceKind},
};
use triune_tensor::Requantize;

use super::{
    emit::{Emitter, input},
    form::{Form, Style},
    source::Meaning,
};
use crate::Error;

impl Emitter<'_> {
    /// Appends what a node is in the vendor's words.
    pub(crate) fn node(&mut self, node: &Node) -> Result<(), Error> {
        match &node.op {
            Op::Conv(op) => self.conv(node, op),
            Op::Gemm(op) => self.gemm(node, op),
            Op::MatMul(_) => self.matmul(node),
            Op::BatchNormalization(op) => self.batch_normalization(node, op.epsilon),
            Op::LayerNorm(op) => self.layer_norm(node, *op),
            Op::Pool(op) => self.pool(node, op),
            Op::GlobalPool(op) => self.global_pool(node, *op),
            Op::Resize(op) => self.resize(node, *op),
            Op::Binary(op) => self.binary(node, op),
            Op::Unary(op) => self.unary(node, op.kind),
            Op::Clip(_) => self.clip(node),
            Op::Softmax(op) => self.softmax(node, *op),
            Op::Reduce(op) => self.reduce(node, op),
            Op::ArgReduce(op) => self.arg_reduce(node, *op),
            Op::Where(_) => self.choose(node),
            Op::Identity(_) => self.identity(node),
            Op::Cast(_) => self.cast_to(node),
            Op::Reshape(_) | Op::Flatten(_) | Op::Unsqueeze(_) | Op::Squeeze(_) => self.reshaped(node),
            Op::Transpose(op) => {
                let (x, y) = super::source::ends(node)?;
                self.alias(y, x, &op.perm)
            }
            Op::Concat(op) => self.concat(node, *op),
            Op::Slice(_) => self.slice(node),
            Op::Split(op) => self.split(node, *op),
            Op::Gather(op) => self.gather(node, *op),
            Op::Expand(_) => self.expand(node),
            Op::Pad(op) => self.pad(node, *op),
            // Whatever else there is, and will be.
            _ => Err(self.nameless(node)),
        }
    }

    /// The error of an operator for which the vendor has no name.
    fn nameless(&self, node: &Node) -> Error {
        let cure = crate::without(&self.source.graph, node);
        let reason = format!("the vendor's intermediate representation has no such operator; {cure}");
        Error::unsupported(node, reason)
    }

    /// The meaning that a node reads its operand with: reals, when it makes reals, and where integers have no factor for it.
    pub(crate) fn wanted(&self, node: &Node, id: ValueId) -> Option<Meaning> {
        let reals = node.outputs.iter().flatten().any(|&output| self.meaning(output).is_none());
        if reals || self.lacks_factor(node) { None } else { self.meaning(id) }
    }

    /// Whether no m·2⁻ⁿ is a factor of a sum, product or mean that the host runs: of reals there is one. On the accelerator such an
    /// operator is refused when its commands are made.
    fn lacks_factor(&self, node: &Node) -> bool {
        let fixed = self.dialect.style == Some(Style::Fixed) && self.target == Target::Host;
        let Some(to) = node.outputs.first().and_then(|id| self.meaning((*id)?)).filter(|_| fixed) else {
            return false;
        };
        let scale = |id: &Option<ValueId>| {
            let id = (*id)?;
            let known = self.source.integers(id).and_then(|integers| integers.scales.first().copied());
            known.or_else(|| self.meaning(id).map(|meaning| meaning.params.scale))
        };
        let scales: Vec<f32> = node.inputs.iter().filter_map(scale).collect();
        let factors = match &node.op {
            Op::Binary(op) if matches!(op.kind, BinaryKind::Add | BinaryKind::Sub) => scales,
            Op::Binary(op) if op.kind == BinaryKind::Mul => vec![scales.iter().product()],
            Op::Pool(op) if op.kind != PoolKind::Max => scales,
            Op::GlobalPool(op) if op.kind != PoolKind::Max => scales,
            Op::Reduce(op) if op.kind == ReduceKind::Mean => scales,
            _ => return false,
        };
        let bits = 8 * to.dtype.bytes() as u32;
        factors.iter().any(|own| Requantize::Fixed.factor(own / to.params.scale, bits).is_none())
    }

    /// A node's operand in a form, or in blocks where the accelerator runs the node.
    fn taken(&mut self, node: &Node, index: usize, form: &Form) -> Result<usize, Error> {
        let id = input(node, index)?;
        let meaning = self.wanted(node, id);
        let form =
            if self.constant(id).is_some() { form.clone() } else { self.native(id, form.clone(), meaning) };
        self.operand(id, &form, meaning)
    }

    /// The value that a node makes, in a form, or in blocks where the accelerator runs the node.
    fn made(&mut self, node: &Node, index: usize, form: &Form) -> Result<usize, Error> {
        let id = node.outputs.get(index).copied().flatten();
        let id = id.ok_or_else(|| Error::unsupported(node, "nothing takes its result"))?;
        let form = self.native(id, form.clone(), self.meaning(id));
        self.define(id, form)
    }

    /// An operator of one operand that keeps its form.
    fn simple(&mut self, node: &Node, kind: &str, attributes: Vec<(&str, Attribute)>) -> Result<(), Error> {
        let form = self.form(input(node, 0)?)?.unblocked();
        let x = self.taken(node, 0, &form)?;
        let y = self.made(node, 0, &form)?;
        self.push(kind, &node.name, vec![Some(x)], vec![y], attributes);
        Ok(())
    }

    /// Lets the last operator be one of Triune's own, for the host: the vendor's have none such.
    fn make_custom(&mut self) {
        let Some(op) = self.document.ops.last_mut() else { return };
        let kind = op.type_key.rsplit("::").next().unwrap_or_default();
        let reason = format!("the vendor's intermediate representation has no {kind}");
        op.type_key = format!("{CUSTOM}{kind}");
        op.tags.insert("reason".to_owned(), reason.into());
    }

    /// A constant operand as integers.
    fn constant_ints(&self, node: &Node, index: usize) -> Option<Vec<i64>> {
        self.constant(node.inputs.get(index).copied().flatten()?)?.to_i64()
    }

    /// The axis of a tensor of `rank` axes, counted from the back when negative.
    fn axis(node: &Node, axis: isize, rank: usize) -> Result<usize, Error> {
        let from_front = if axis < 0 { axis + rank as isize } else { axis };
        usize::try_from(from_front)
            .ok()
            .filter(|&axis| axis < rank)
            .ok_or_else(|| Error::unsupported(node, format!("axis {axis} of {rank}")))
    }
}
