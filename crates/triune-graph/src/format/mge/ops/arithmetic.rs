//! Element by element, and normalization.

use triune_tensor::DType;

use super::{conv::relu, kind};
use crate::{
    Error, ValueId,
    format::mge::node::NodeReader,
    ops::{BatchNormalization, Binary, BinaryKind, Op, Softmax, UnaryKind},
};

/// A function of floats by its number; `None` for one that is not supported.
fn function(node: &mut NodeReader<'_, '_, '_>, mode: u32) -> Result<Option<ValueId>, Error> {
    use {BinaryKind as B, UnaryKind as U};
    let unary = |kind: U| Some((1, Op::from(kind), None));
    let binary = |kind: B| Some((2, Op::from(kind), None));
    let added = |kind: U| Some((2, Op::from(B::Add), Some(kind)));
    // Numbers of the schema's `ElemwiseMode`.
    let found = match mode {
        0 => unary(U::Relu),
        1 => unary(U::Abs),
        4 => unary(U::Ceil),
        6 => unary(U::Exp),
        8 => unary(U::Floor),
        9 => unary(U::Log),
        11 => unary(U::Neg),
        12 => unary(U::Sigmoid),
        14 => unary(U::Tanh),
        16 => binary(B::Add),
        18 => binary(B::Max),
        19 => binary(B::Min),
        21 => binary(B::Mul),
        22 => binary(B::Pow),
        24 => binary(B::Sub),
        27 => binary(B::Div),
        37 => added(U::Relu),
        38 => added(U::Sigmoid),
        39 => added(U::Tanh),
        45 => unary(U::Erf),
        49 => unary(U::HardSwish),
        51 => added(U::HardSwish),
        56 => unary(U::Silu),
        58 => unary(U::Gelu),
        76 => unary(U::Softplus),
        78 => unary(U::Clip([0.0, 6.0])),
        80 => unary(U::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 }),
        83 => unary(U::Sqrt),
        _ => None,
    };
    if let Some((operands, op, then)) = found {
        arity(node, operands)?;
        let inputs = node.inputs.clone();
        let value = node.emit(op, &inputs)?;
        return match then {
            Some(kind) => node.unary(kind, value).map(Some),
            None => Ok(Some(value)),
        };
    }
    Ok(match mode {
        35 => {
            arity(node, 3)?;
            let product = node.binary(B::Mul, node.inputs[0], node.inputs[1])?;
            Some(node.binary(B::Add, product, node.inputs[2])?)
        }
        36 => {
            arity(node, 4)?;
            let left = node.binary(B::Mul, node.inputs[0], node.inputs[1])?;
            let right = node.binary(B::Mul, node.inputs[2], node.inputs[3])?;
            Some(node.binary(B::Add, left, right)?)
        }
        73 => {
            arity(node, 2)?;
            let [x, slope] = [node.inputs[0], node.inputs[1]];
            if let Some(slope) = node.constant(slope).and_then(crate::Constant::scalar_f32) {
                return node.unary(U::LeakyRelu(slope), x).map(Some);
            }
            let zero = node.scalar(0.0);
            let (above, below) = (node.binary(B::Max, x, zero)?, node.binary(B::Min, x, zero)?);
            let below = node.binary(B::Mul, below, slope)?;
            Some(node.binary(B::Add, above, below)?)
        }
        74 => {
            arity(node, 3)?;
            let [x, low, high] = [node.inputs[0], node.inputs[1], node.inputs[2]];
            let limit =
                |id| node.constant(id).and_then(crate::Constant::scalar_f32).filter(|limit| !limit.is_nan());
            if let (Some(low), Some(high)) = (limit(low), limit(high)) {
                return node.unary(U::Clip([low, high]), x).map(Some);
            }
            let below = node.binary(B::Min, x, high)?;
            Some(node.binary(B::Max, below, low)?)
        }
        84 => {
            arity(node, 1)?;
            Some(node.binary(B::Mul, node.inputs[0], node.inputs[0])?)
        }
        _ => None,
    })
}

fn arity(node: &NodeReader<'_, '_, '_>, operands: usize) -> Result<(), Error> {
    if node.inputs.len() == operands {
        return Ok(());
    }
    Err(node.unsupported(format!("{} inputs for a function of {operands}", node.inputs.len())))
}

/// A function of plain numbers.
pub(in super::super) fn elemwise(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let mode = node.params(kind::ELEMWISE)?.u32(0, 0)?;
    if node.inputs.iter().any(|&id| node.quant(id).is_some()) {
        return Err(node.unsupported(format!("mode {mode} over quantized inputs")));
    }
    function(node, mode)?.ok_or_else(|| node.unsupported(format!("mode {mode}")))
}

/// A function of 8-bit integers that mean reals.
pub(in super::super) fn elemwise_multi_type(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let mode = node.params(kind::ELEMWISE_MULTI_TYPE)?.u32(0, 0)?;
    let Some(element) = node.output_element()? else {
        return Err(node.unsupported("an output type is missing"));
    };
    let quantized =
        |id: &ValueId| node.quant(*id).is_some() && node.dtype(*id).is_ok_and(DType::is_quantized);
    let (true, Some(quant), true) =
        (node.inputs.iter().all(quantized), element.quant, element.dtype.is_quantized())
    else {
        return Err(node.unsupported(format!("mode {mode} over these types")));
    };
    let (kind, relued) = match mode {
        6 => (BinaryKind::Add, false),
        7 => (BinaryKind::Add, true),
        8 => (BinaryKind::Mul, false),
        _ => return Err(node.unsupported(format!("mode {mode}"))),
    };
    arity(node, 2)?;
    let mut op = Binary::new(kind);
    if relued {
        op.epilogue.stages.push(relu(element.dtype, quant.zero_point));
    }
    let inputs: Vec<_> = node.inputs.iter().copied().map(Some).collect();
    node.emit_as(Op::Binary(op), &inputs, Some(element))
}

/// Batch normalization at inference; parameters of extents (1, C, 1, 1).
pub(in super::super) fn batch_norm(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::BN)?;
    if params.u32(1, 0)? != 1 {
        return Err(node.unsupported("training mode"));
    }
    let dim = params.u32(0, 0)?;
    if dim != 2 {
        return Err(node.unsupported(format!("parameter dimensions {dim}; 2, per channel, is supported")));
    }
    let epsilon = params.f64(2, 1e-4)? as f32;
    let mut inputs = vec![node.input(0)?];
    for index in 1..5 {
        let row = node.reshaped_row(index)?;
        inputs.push(row);
    }
    node.emit(Op::BatchNormalization(BatchNormalization { epsilon }), &inputs)
}

impl NodeReader<'_, '_, '_> {
    /// Operand `index`, whose extents are 1 but for one, as one row.
    fn reshaped_row(&mut self, index: usize) -> Result<ValueId, Error> {
        let id = self.input(index)?;
        let shape = self.shape(id)?;
        let elements = shape.iter().product::<usize>();
        if !shape.contains(&elements) {
            return Err(self.unsupported(format!("input {index} of extents {shape}")));
        }
        self.reshaped(id, &[elements as i64])
    }
}

pub(in super::super) fn softmax(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let axis = node.params(kind::SOFTMAX)?.i32(0, -1)? as isize;
    let x = node.input(0)?;
    node.emit(Op::Softmax(Softmax { axis, flatten: false }), &[x])
}
