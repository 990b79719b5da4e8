//! One node of the graph while its operators are written, and operators that are one of upstream's.

use super::{Operator, Variable, Writer, int};
use crate::{
    Constant, Error, Node, Op, ValueId,
    format::flatbuffer::{Part, TableBuilder},
};

/// One node while its operators are written.
pub(super) struct Site<'w, 'g> {
    pub(super) writer: &'w mut Writer<'g>,
    pub(super) node: &'w Node,
    pub(super) inputs: Vec<Option<u32>>,
    pub(super) result: Variable,
}

impl Site<'_, '_> {
    pub(super) fn unsupported(&self, reason: impl std::fmt::Display) -> Error {
        Error::Unsupported {
            node: self.node.name.clone(),
            op: self.node.op.name().into(),
            reason: format!("{reason} cannot be written as a MegEngine model"),
        }
    }

    pub(super) fn input(&self, index: usize) -> Result<u32, Error> {
        self.inputs
            .get(index)
            .copied()
            .flatten()
            .ok_or_else(|| self.unsupported(format!("a missing input {index}")))
    }

    pub(super) fn variable(&self, index: usize) -> Result<Variable, Error> {
        let id = self.node.inputs.get(index).copied().flatten();
        self.writer.variable(id.ok_or_else(|| self.unsupported(format!("a missing input {index}")))?)
    }

    pub(super) fn constant(&self, index: usize) -> Option<&Constant> {
        self.writer.graph.value(self.node.inputs.get(index).copied().flatten()?).constant.as_ref()
    }

    pub(super) fn ints(&self, index: usize) -> Option<Vec<i64>> {
        self.constant(index)?.to_i64()
    }

    /// A variable between this node's operators, like the result.
    pub(super) fn inner(&self, suffix: &str) -> Variable {
        Variable { name: format!("{}.{suffix}", self.result.name), ..self.result.clone() }
    }

    pub(super) fn add(
        &mut self,
        kind: &str,
        param: Option<(u8, TableBuilder)>,
        inputs: &[u32],
        to: &Variable,
    ) -> Result<u32, Error> {
        self.writer.add(Operator { kind, param, inputs: inputs.to_vec(), tensors: Vec::new() }, to)
    }

    /// A function by its number in the schema's `ElemwiseMode`.
    pub(super) fn elemwise(&mut self, mode: u32, inputs: &[u32], to: &Variable) -> Result<u32, Error> {
        self.add("Elemwise", Some((17, TableBuilder::default().u32(0, mode))), inputs, to)
    }

    pub(super) fn convert(&mut self, x: u32, to: &Variable) -> Result<u32, Error> {
        let params = Writer::element_table(to)?;
        self.add("TypeCvtV2", Some((67, params)), &[x], to)
    }

    pub(super) fn reshape(&mut self, x: u32, to: &Variable) -> Result<u32, Error> {
        let dims: Vec<i64> = to.extents().map(i64::from).collect();
        let requested = self.writer.ints(&dims, &format!("{}.shape", to.name))?;
        self.add("ReshapeV1", Some((54, TableBuilder::default())), &[x, requested], to)
    }

    /// Whether the types of what is read and made, which say what integers mean, are those that the operator's own rules give.
    fn keeps_types(&self) -> bool {
        let quant = |id: &ValueId| self.writer.quants[id.0 as usize];
        let made = self.node.outputs.iter().flatten().find_map(quant);
        let operands = self.node.inputs.iter().take(self.inputs.len()).flatten();
        match &self.node.op {
            Op::QuantizeLinear(_) | Op::DequantizeLinear(_) => true,
            Op::Reshape(_)
            | Op::Flatten(_)
            | Op::Squeeze(_)
            | Op::Unsqueeze(_)
            | Op::Transpose(_)
            | Op::Concat(_)
            | Op::Slice(_)
            | Op::Expand(_)
            | Op::Identity(_) => operands.map(quant).all(|own| own == made),
            _ => made.is_none() && operands.map(quant).all(|own| own.is_none()),
        }
    }

    pub(super) fn write(mut self) -> Result<u32, Error> {
        let result = self.result.clone();
        let epilogue = match &self.node.op {
            Op::Conv(op) => Some(&op.epilogue),
            Op::Gemm(op) => Some(&op.epilogue),
            Op::MatMul(op) => Some(&op.epilogue),
            Op::Binary(op) => Some(&op.epilogue),
            _ => None,
        };
        if epilogue.is_some_and(|epilogue| !epilogue.post_ops.is_empty()) {
            return Err(self.unsupported("a fused epilogue"));
        }
        if self.node.quant.is_some() || !self.keeps_types() {
            return Err(self.unsupported("an operator over quantized values"));
        }
        let node = self.node;
        match &node.op {
            Op::Conv(op) => self.conv(op),
            Op::Gemm(op) => self.gemm(op),
            Op::MatMul(_) => self.mat_mul(),
            Op::BatchNormalization(op) => self.batch_normalization(*op),
            Op::Pool(op) => self.pool(op),
            Op::GlobalPool(op) => self.global_pool(*op),
            Op::Binary(op) => self.binary(op),
            Op::Unary(op) => self.unary(op.kind),
            Op::Softmax(op) => {
                if op.flatten {
                    return Err(self.unsupported("a softmax over several axes"));
                }
                if op.log {
                    return self.log_softmax(op.axis);
                }
                let x = self.input(0)?;
                self.add("Softmax", Some((90, int(0, op.axis as i32))), &[x], &result)
            }
            Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(_) | Op::Unsqueeze(_) => {
                let x = self.input(0)?;
                self.reshape(x, &result)
            }
            Op::Transpose(op) => {
                let pattern: Vec<u8> = op.perm.iter().flat_map(|&axis| (axis as i32).to_le_bytes()).collect();
                let rank = op.perm.len();
                let params = TableBuilder::default()
                    .part(0, Part::Vector(rank, 4, pattern.into()))
                    .u32(1, rank as u32);
                let x = self.input(0)?;
                self.add("Dimshuffle", Some((64, params)), &[x], &result)
            }
            Op::Concat(op) => {
                let axis = op.axis as i32;
                let inputs: Result<Vec<u32>, Error> =
                    (0..self.inputs.len()).map(|index| self.input(index)).collect();
                self.add("Concat", Some((2, int(0, axis))), &inputs?, &result)
            }
            Op::Slice(_) => self.slice(),
            Op::Expand(_) => {
                let dims: Vec<i64> = result.extents().map(i64::from).collect();
                let requested = self.writer.ints(&dims, &format!("{}.shape", result.name))?;
                let x = self.input(0)?;
                self.add("Broadcast", Some((1, TableBuilder::default())), &[x, requested], &result)
            }
            Op::Identity(_) => {
                let x = self.input(0)?;
                self.add("Identity", Some((1, TableBuilder::default())), &[x], &result)
            }
            Op::Cast(_) => {
                let x = self.input(0)?;
                self.convert(x, &result)
            }
            Op::Resize(op) => self.resize(*op),
            Op::QuantizeLinear(_) | Op::DequantizeLinear(_) => self.border(),
            Op::Reduce(op) => self.reduce(op),
            Op::Pad(op) => self.pad(*op),
            other => Err(self.unsupported(format!("the operator {}", other.name()))),
        }
    }
}
