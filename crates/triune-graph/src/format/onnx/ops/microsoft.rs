//! Operators that ONNX Runtime adds to ONNX's, as its quantizers and optimizers write them.

use triune_tensor::{DType, Shape};

use super::{
    Form, Meaning, NodeReader, Operator, Signature, activation, conv, operators, quant,
    quantized::{centered, spread},
    recurrent,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::{Scope, exact, standard},
    ops::{BinaryKind, ReduceKind, UnaryKind},
};

/// A convolution, to which the fourth operand is added, and a function behind it.
fn fused_conv(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let parameters = node.floats("activation_params")?.unwrap_or_default();
    let parameter = |index: usize, default: f32| parameters.get(index).copied().unwrap_or(default);
    let name = node.text("activation", "")?;
    let function = match name.as_str() {
        "" => None,
        "Relu" => Some(UnaryKind::Relu),
        "Tanh" => Some(UnaryKind::Tanh),
        "Sigmoid" => Some(UnaryKind::Sigmoid),
        "LeakyRelu" => Some(UnaryKind::LeakyRelu(parameter(0, 0.01))),
        "Clip" => Some(UnaryKind::Clip([parameter(0, f32::MIN), parameter(1, f32::MAX)])),
        "HardSigmoid" => Some(UnaryKind::HardSigmoid { alpha: parameter(0, 0.2), beta: parameter(1, 0.5) }),
        other => return Err(node.unsupported(format!("attribute 'activation' = '{other}'"))),
    };
    let addend = node.inputs.get(3).copied().flatten();
    node.inputs.truncate(3);
    let op = conv::conv(node)?;
    // The last is put in first.
    if let Some(function) = function {
        node.emit_after(function.into(), &[]);
    }
    if addend.is_some() {
        node.emit_after(BinaryKind::Add.into(), &[addend]);
    }
    Ok(op)
}

/// x/2·(1 + tanh …) of x and a bias.
fn fast_gelu(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let mut x = f.input(0)?;
    if let Some(bias) = f.get(1) {
        x = f.add(x, bias)?;
    }
    activation::gelu_by_tanh(f, x)
}

fn bias_gelu(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let sum = f.add(f.input(0)?, f.input(1)?)?;
    f.unary(UnaryKind::Gelu, sum)
}

/// x·sigmoid(α·x).
fn quick_gelu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let alpha = node.float("alpha", 1.702)?;
    Ok(node.function(move |f| activation::swish_of(f, f.input(0)?, alpha)).into())
}

/// The sum of two operands and a bias, normalized along its last axis; results y, mean, 1/deviation, the sum.
fn skip_layer_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let epsilon = node.float("epsilon", 1e-12)?;
    Ok(node
        .functions(move |f| {
            let mut sum = f.add(f.input(0)?, f.input(1)?)?;
            if let Some(bias) = f.get(4) {
                sum = f.add(sum, bias)?;
            }
            let axis = f.axis(sum, -1)?;
            let standard = standard::standardized(f, sum, &[axis], epsilon)?;
            let mut y = f.mul(standard.result, f.input(2)?)?;
            if let Some(beta) = f.get(3) {
                y = f.add(y, beta)?;
            }
            Ok(vec![y, standard.mean, standard.inverse, sum])
        })
        .into())
}

/// As [`skip_layer_normalization`], of what is not centered: x/√(mean of x² + ε).
fn skip_simplified(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let epsilon = node.float("epsilon", 1e-12)?;
    Ok(node
        .functions(move |f| {
            let mut sum = f.add(f.input(0)?, f.input(1)?)?;
            if let Some(bias) = f.get(3) {
                sum = f.add(sum, bias)?;
            }
            let axis = f.axis(sum, -1)?;
            let square = f.mul(sum, sum)?;
            let mean = f.reduce(ReduceKind::Mean, square, &[axis])?;
            let mean = f.add_number(mean, f64::from(epsilon))?;
            let inverse = f.unary(UnaryKind::Rsqrt, mean)?;
            let y = f.mul(sum, inverse)?;
            let y = f.mul(y, f.input(2)?)?;
            Ok(vec![y, mean, inverse, sum])
        })
        .into())
}

/// Sums of products of integers as reals: times both scales, plus a bias.
fn scaled(
    f: &mut Scope<'_, '_>,
    sums: ValueId,
    scales: [ValueId; 2],
    bias: Option<ValueId>,
) -> Result<ValueId, Error> {
    let [a, b] = scales;
    let (a, b) = (spread(f, a, true)?, spread(f, b, false)?);
    let factor = f.mul(a, b)?;
    let reals = f.cast(sums, DType::F32)?;
    let y = f.mul(reals, factor)?;
    bias.map_or(Ok(y), |bias| f.add(y, bias))
}

/// A · B as reals; operands A, B, their scales, their zero points, a bias.
fn matmul_integer_to_float(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let (a, b) = (f.input(0)?, f.input(1)?);
    let a = centered(f, a, f.get(4), true)?;
    let b = centered(f, b, f.get(5), false)?;
    let sums = exact::product(f, a, b)?;
    scaled(f, sums, [f.input(2)?, f.input(3)?], f.get(6))
}

/// The same of reals A, quantized by their range; operands A, B, B's scale and zero point, a bias.
fn dynamic_quantize_matmul(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let x = f.input(0)?;
    let [bytes, scale, zero_point] = quant::by_range(f, x)?;
    let a = centered(f, bytes, Some(zero_point), true)?;
    let b = f.input(1)?;
    let b = centered(f, b, f.get(3), false)?;
    let sums = exact::product(f, a, b)?;
    scaled(f, sums, [scale, f.input(2)?], f.get(4))
}

/// What `MatMulNBits` says of its matrix.
#[derive(Clone, Copy)]
struct Packed {
    rows: usize,
    columns: usize,
    bits: usize,
    block: usize,
}

/// A · Bᵀ with B in blocks of few bits; operands A, B, its scales and zero points, an order of groups, a bias.
fn matmul_n_bits(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let extent = |node: &mut NodeReader<'_, '_>, name: &str, default: Option<i64>| {
        let value = node.int(name)?.or(default);
        let found = value.and_then(|value| usize::try_from(value).ok()).filter(|value| *value > 0);
        found.ok_or_else(|| node.unsupported(format!("attribute '{name}' is missing or no extent")))
    };
    let packed = Packed {
        rows: extent(node, "N", None)?,
        columns: extent(node, "K", None)?,
        bits: extent(node, "bits", Some(4))?,
        block: extent(node, "block_size", None)?,
    };
    if !matches!(packed.bits, 2 | 4 | 8) || packed.block < 16 || !packed.block.is_power_of_two() {
        return Err(node.unsupported(format!("blocks of {} times {} bits", packed.block, packed.bits)));
    }
    // What it may be computed in; here always f32.
    node.ignore(&["accuracy_level", "weight_prepacked"]);
    Ok(node
        .function(move |f| {
            if f.get(4).is_some() {
                return Err(f.unsupported("an order of groups (input g_idx)"));
            }
            let weights = packed.matrix(f)?;
            let a = f.input(0)?;
            let weights = f.cast(weights, f.dtype(a))?;
            let y = f.matmul(a, weights)?;
            f.get(5).map_or(Ok(y), |bias| f.add(y, bias))
        })
        .into())
}

impl Packed {
    /// B as reals, columns by rows.
    fn matrix(self, f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
        let Self { rows, columns, bits, block } = self;
        let blocks = columns.div_ceil(block);
        f.bounded(rows.checked_mul(blocks).and_then(|count| count.checked_mul(block)))?;
        let bytes_of = |f: &Scope<'_, '_>, index: usize, name: &str, need: usize| -> Result<Vec<u8>, Error> {
            let id = f.input(index)?;
            let known = f.known(id).filter(|known| known.dtype() == DType::U8 && known.bytes().len() >= need);
            known.map(|known| known.bytes().to_vec()).ok_or_else(|| {
                f.wrong(format!("input {name} is not {need} bytes that are known before the network runs"))
            })
        };
        let packed = bytes_of(f, 1, "B", rows * blocks * (block * bits / 8))?;
        let reals = |f: &Scope<'_, '_>, index: usize, name: &str| -> Result<Vec<f64>, Error> {
            let known = f.input(index).ok().and_then(|id| f.known(id)?.to_f64());
            known
                .filter(|known| known.len() == rows * blocks)
                .ok_or_else(|| f.wrong(format!("input {name} is not {} reals that are known", rows * blocks)))
        };
        let scales = reals(f, 2, "scales")?;
        let row_bytes = (blocks * bits).div_ceil(8);
        let digit = |bytes: &[u8], index: usize| {
            let per_byte = 8 / bits;
            (bytes[index / per_byte] >> (index % per_byte * bits)) & (u8::MAX >> (8 - bits))
        };
        let middle = f64::from(1_u32 << (bits - 1));
        let zero_points: Vec<f64> = match f.get(3) {
            None => vec![middle; rows * blocks],
            Some(id) if f.dtype(id) == DType::U8 => {
                let bytes = bytes_of(f, 3, "zero_points", rows * row_bytes)?;
                let all = bytes.chunks_exact(row_bytes);
                all.flat_map(|row| (0..blocks).map(move |index| f64::from(digit(row, index)))).collect()
            }
            Some(_) => reals(f, 3, "zero_points")?,
        };
        let mut values = vec![0.0_f32; columns * rows];
        for row in 0..rows {
            for column in 0..columns {
                let group = row * blocks + column / block;
                let q = f64::from(digit(&packed[group * (block * bits / 8)..], column % block));
                values[column * rows + row] = ((q - zero_points[group]) as f32) * scales[group] as f32;
            }
        }
        let constant = Constant::from_f32(Shape::from([columns, rows]), &values);
        Ok(f.constant(constant.expect("as many elements as the shape says")))
    }
}

operators! {
    "com.microsoft";
    "BiasGelu": [1] {2, 2, 1 => body bias_gelu};
    // They mean the same as the standard's.
    "DequantizeLinear": [1] {2, 3, 1 => quant::dequantize};
    "DynamicQuantizeLSTM": [1] {3, 12, 3 => recurrent::dynamic_quantize_lstm};
    "DynamicQuantizeMatMul": [1] {3, 5, 1 => body dynamic_quantize_matmul};
    "FastGelu": [1] {1, 2, 1 => body fast_gelu};
    "FusedConv": [1] {2, 4, 1 => fused_conv};
    "Gelu": [1] {1, 1, 1 => |_| Ok(UnaryKind::Gelu.into())};
    "MatMulIntegerToFloat": [1] {4, 7, 1 => body matmul_integer_to_float};
    "MatMulNBits": [1] {3, 6, 1 => matmul_n_bits};
    "QuantizeLinear": [1] {2, 3, 1 => quant::quantize};
    "QuickGelu": [1] {1, 1, 1 => quick_gelu};
    "SkipLayerNormalization": [1] {3, 5, 4 => skip_layer_normalization};
    "SkipSimplifiedLayerNormalization": [1] {3, 4, 4 => skip_simplified};
}
