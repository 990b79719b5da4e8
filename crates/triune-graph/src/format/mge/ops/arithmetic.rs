//! Element by element, and normalization.

use triune_tensor::{DType, QuantParams, Shape};

use super::{
    conv::{real, relu},
    convert::quantize,
    kind,
};
use crate::{
    Constant, Error, ValueId,
    format::mge::{element::Element, node::NodeReader},
    ops::{BatchNormalization, Binary, BinaryKind, Op, Softmax, UnaryKind, Where},
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
        2 => unary(U::Acos),
        3 => unary(U::Asin),
        4 => unary(U::Ceil),
        5 => unary(U::Cos),
        6 => unary(U::Exp),
        7 => unary(U::Expm1),
        8 => unary(U::Floor),
        9 => unary(U::Log),
        10 => unary(U::Log1p),
        11 => unary(U::Neg),
        12 => unary(U::Sigmoid),
        13 => unary(U::Sin),
        14 => unary(U::Tanh),
        16 => binary(B::Add),
        17 => binary(B::FloorDiv),
        18 => binary(B::Max),
        19 => binary(B::Min),
        // Of integers the rest has the sign of the divisor, of floats that of the dividend.
        20 => {
            let float = node.inputs.first().is_none_or(|&x| node.dtype(x).is_ok_and(DType::is_float));
            binary(if float { B::Rem } else { B::Mod })
        }
        21 => binary(B::Mul),
        22 => binary(B::Pow),
        24 => binary(B::Sub),
        27 => binary(B::Div),
        28 => binary(B::LogAddExp),
        32 => binary(B::ShiftLeft),
        33 => binary(B::ShiftRight),
        37 => added(U::Relu),
        38 => added(U::Sigmoid),
        39 => added(U::Tanh),
        40 => unary(U::FastTanh),
        42 => unary(U::RoundHalfAway),
        43 => binary(B::MulHigh),
        44 => binary(B::Atan2),
        45 => unary(U::Erf),
        46 => unary(U::ErfInv),
        47 => unary(U::Erfc),
        48 => unary(U::ErfcInv),
        49 => unary(U::HardSwish),
        51 => added(U::HardSwish),
        53 => binary(B::And),
        54 => binary(B::Or),
        55 => binary(B::Xor),
        56 => unary(U::Silu),
        58 => unary(U::Gelu),
        64 => unary(U::Sinh),
        65 => unary(U::Cosh),
        66 => unary(U::Asinh),
        67 => unary(U::Acosh),
        68 => unary(U::Atanh),
        69 => unary(U::Tan),
        76 => unary(U::Softplus),
        78 => unary(U::Clip([0.0, 6.0])),
        80 => unary(U::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 }),
        82 => unary(U::LogSigmoid),
        83 => unary(U::Sqrt),
        85 => unary(U::Sign),
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
        // Questions are answered in the operands' type.
        29..=31 | 61 => {
            arity(node, 2)?;
            let kind = [B::Less, B::LessOrEqual, B::Equal, B::NotEqual]
                [if mode == 61 { 3 } else { mode as usize - 29 }];
            let answer = node.binary(kind, node.inputs[0], node.inputs[1])?;
            let dtype = node.dtype(node.inputs[0])?;
            Some(node.cast(answer, dtype)?)
        }
        25 => {
            arity(node, 2)?;
            let zero = zero_like(node, node.inputs[0])?;
            let positive = node.binary(B::Greater, node.inputs[0], zero)?;
            Some(node.emit(Op::Where(Where), &[positive, node.inputs[1], zero])?)
        }
        34 | 60 => {
            arity(node, 3)?;
            let kind = if mode == 34 { B::LessOrEqual } else { B::Less };
            let holds = node.binary(kind, node.inputs[0], node.inputs[1])?;
            let zero = zero_like(node, node.inputs[2])?;
            Some(node.emit(Op::Where(Where), &[holds, node.inputs[2], zero])?)
        }
        52 => {
            arity(node, 1)?;
            let truth = Constant::new(DType::Bool, Shape::from([]), vec![1]);
            let truth = truth.ok_or_else(|| node.unsupported("no constant"))?;
            let truth = node.new_constant("true", truth);
            Some(node.binary(B::Xor, node.inputs[0], truth)?)
        }
        62 | 63 => {
            arity(node, 1)?;
            let x = node.inputs[0];
            let dtype = node.dtype(x)?;
            let answer = special(node, x, mode == 62)?;
            Some(node.cast(answer, dtype)?)
        }
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
            if let Some(slope) = node.constant(slope).and_then(Constant::scalar_f32) {
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
            let limit = |id| node.constant(id).and_then(Constant::scalar_f32).filter(|limit| !limit.is_nan());
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

/// One zero of the operand's type.
fn zero_like(node: &mut NodeReader<'_, '_, '_>, id: ValueId) -> Result<ValueId, Error> {
    let dtype = node.dtype(id)?;
    let zero = Constant::new(dtype, Shape::from([]), vec![0; dtype.bytes()]);
    let zero = zero.ok_or_else(|| node.unsupported("no constant"))?;
    Ok(node.new_constant("zero", zero))
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
    if let Some(quant) = node.inputs.iter().find_map(|&id| node.quant(id)) {
        return alike(node, mode, quant);
    }
    function(node, mode)?.ok_or_else(|| node.unsupported(format!("mode {mode}")))
}

/// A function of integers that all mean the same, as the result's do.
fn alike(node: &mut NodeReader<'_, '_, '_>, mode: u32, quant: QuantParams) -> Result<ValueId, Error> {
    let dtype = node.dtype(node.inputs[0])?;
    let same = |&id: &ValueId| node.quant(id) == Some(quant) && node.dtype(id).is_ok_and(|own| own == dtype);
    if !node.inputs.iter().all(same) {
        return Err(node.unsupported(format!("mode {mode} over integers that do not mean the same")));
    }
    // Sums, differences and extremes of 32 bits are those of the integers.
    let kind = match mode {
        16 => Some(BinaryKind::Add),
        18 => Some(BinaryKind::Max),
        19 => Some(BinaryKind::Min),
        24 => Some(BinaryKind::Sub),
        _ => None,
    };
    if let Some(kind) = kind.filter(|_| dtype == DType::I32) {
        arity(node, 2)?;
        let value = node.binary(kind, node.inputs[0], node.inputs[1])?;
        node.builder.set_quant(value, Some(quant));
        return Ok(value);
    }
    in_floats(node, mode, Element { dtype, quant: Some(quant) }, quant)
}

/// For each mode of `ElemwiseMultiType` from 6 to 53, the function of reals that it is, by its number for `Elemwise`;
/// `None` for derivatives.
const QUANTIZED: [Option<u32>; 48] = {
    let mut modes = [None; 48];
    let numbers: [u32; 48] = [
        16, 37, 21, 19, 18, 24, 27, 38, 39, 0, 1, 12, 6, 14, 35, 40, 11, 2, 3, 4, 5, 7, 8, 9, 10, 13, 42, 45,
        46, 47, 48, 15, 17, 20, 23, 25, 26, 29, 30, 31, 22, 28, 41, 44, 34, 49, 51, 50,
    ];
    let mut index = 0;
    while index < 48 {
        if !matches!(numbers[index], 15 | 23 | 26 | 41 | 50) {
            modes[index] = Some(numbers[index]);
        }
        index += 1;
    }
    modes
};

/// A function of operands of several types: integers that mean reals, or plain ones beside reals.
pub(in super::super) fn elemwise_multi_type(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let mode = node.params(kind::ELEMWISE_MULTI_TYPE)?.u32(0, 0)?;
    match mode {
        0 => return mixed(node, DType::I32, 3),
        54 | 56 => return mixed(node, DType::F32, 3),
        55 => return mixed(node, DType::F32, 2),
        58..=63 => return question(node, mode),
        _ => {}
    }
    let equivalent = (mode as usize).checked_sub(6).and_then(|index| QUANTIZED.get(index).copied().flatten());
    let Some(equivalent) = equivalent else { return Err(node.unsupported(format!("mode {mode}"))) };
    let Some(element) = node.output_element()? else {
        return Err(node.unsupported("an output type is missing"));
    };
    let (true, Some(quant)) = (node.inputs.iter().all(|&id| node.quant(id).is_some()), element.quant) else {
        return Err(node.unsupported(format!("mode {mode} over these types")));
    };
    let bytes = element.dtype.is_quantized()
        && node.inputs.iter().all(|&id| node.dtype(id).is_ok_and(DType::is_quantized));
    let (kind, relued) = match mode {
        6 => (BinaryKind::Add, false),
        7 => (BinaryKind::Add, true),
        8 => (BinaryKind::Mul, false),
        _ => return in_floats(node, equivalent, element, quant),
    };
    if !bytes {
        return in_floats(node, equivalent, element, quant);
    }
    arity(node, 2)?;
    let mut op = Binary::new(kind);
    if relued {
        op.epilogue.post_ops.push(relu(element.dtype, quant.zero_point));
    }
    let inputs: Vec<_> = node.inputs.iter().copied().map(Some).collect();
    node.emit_as(Op::Binary(op), &inputs, Some(element))
}

/// A quantized function that has no form over integers here: the reals that the operands mean, the function, and one
/// rounding. (Passes find tables for what has one operand.)
fn in_floats(
    node: &mut NodeReader<'_, '_, '_>,
    equivalent: u32,
    element: Element,
    quant: QuantParams,
) -> Result<ValueId, Error> {
    for index in 0..node.inputs.len() {
        node.inputs[index] = real(node, node.inputs[index])?;
    }
    let value = function(node, equivalent)?;
    let value = value.ok_or_else(|| node.unsupported(format!("the function number {equivalent}")))?;
    quantize(node, value, element, quant)
}

/// A comparison, or a question about one operand, whose answer is a bool.
fn question(node: &mut NodeReader<'_, '_, '_>, mode: u32) -> Result<ValueId, Error> {
    for index in 0..node.inputs.len() {
        if node.quant(node.inputs[index]).is_some() {
            node.inputs[index] = real(node, node.inputs[index])?;
        }
    }
    if mode >= 62 {
        arity(node, 1)?;
        return special(node, node.inputs[0], mode == 62);
    }
    arity(node, 2)?;
    let kind = [BinaryKind::Equal, BinaryKind::NotEqual, BinaryKind::Less, BinaryKind::LessOrEqual];
    node.binary(kind[mode as usize - 58], node.inputs[0], node.inputs[1])
}

/// Whether elements are no numbers, or infinite.
fn special(node: &mut NodeReader<'_, '_, '_>, x: ValueId, nan: bool) -> Result<ValueId, Error> {
    if nan {
        return node.binary(BinaryKind::NotEqual, x, x);
    }
    let magnitude = node.unary(UnaryKind::Abs, x)?;
    let infinity = node.scalar(f32::INFINITY);
    let infinity = node.cast(infinity, node.dtype(x)?)?;
    node.binary(BinaryKind::Equal, magnitude, infinity)
}

/// a·b, or a·b + c, of plain numbers in the type `wide`.
fn mixed(node: &mut NodeReader<'_, '_, '_>, wide: DType, operands: usize) -> Result<ValueId, Error> {
    arity(node, operands)?;
    if node.inputs.iter().any(|&id| node.quant(id).is_some()) {
        return Err(node.unsupported("quantized operands of a function of plain numbers"));
    }
    for index in 0..operands {
        node.inputs[index] = node.cast(node.inputs[index], wide)?;
    }
    let product = node.binary(BinaryKind::Mul, node.inputs[0], node.inputs[1])?;
    if operands == 2 { Ok(product) } else { node.binary(BinaryKind::Add, product, node.inputs[2]) }
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
    node.emit(Op::Softmax(Softmax { axis, flatten: false, log: false }), &[x])
}
