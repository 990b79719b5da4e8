//! Operators that ONNX Runtime adds to ONNX's, as its quantizers and optimizers write them.

use triune_tensor::{DType, Shape, memory};

use super::{
    Form, Meaning, NodeReader, Operator, Signature, activation, operators, quant,
    quantized::{product, spread},
    recurrent, statistics,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::{Scope, exact, standard},
    ops::{BinaryKind, Inverse, MatMul, ReduceKind, UnaryKind},
};

/// x/2·(1 + tanh …) of x and a bias.
fn fast_gelu(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let mut x = f.input(0)?;
    if let Some(bias) = f.get(1) {
        x = f.add(x, bias)?;
    }
    f.unary(activation::GELU_BY_TANH, x)
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

/// The sum of two operands, and of a bias at place `bias`: as it is a result, and in f32 for statistics.
fn summed(f: &mut Scope<'_, '_>, bias: usize) -> Result<[ValueId; 2], Error> {
    let mut sum = f.add(f.input(0)?, f.input(1)?)?;
    if let Some(bias) = f.get(bias) {
        sum = f.add(sum, bias)?;
    }
    // An ε of 10⁻¹² is 0 in 16 bits.
    let wide = if f.dtype(sum).is_half() { f.cast(sum, DType::F32)? } else { sum };
    Ok([sum, wide])
}

/// The sum of two operands and a bias, normalized along its last axis; results y, mean, 1/deviation, the sum.
fn skip_layer_normalization(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let epsilon = node.float("epsilon", 1e-12)?;
    Ok(node
        .functions(move |f| {
            let [sum, wide] = summed(f, 4)?;
            let axis = f.axis(wide, -1)?;
            let standard = standard::standardized(f, wide, &[axis], epsilon)?;
            let y = statistics::scaled(f, standard.result, f.dtype(sum), f.input(2)?, f.get(3))?;
            // Statistics are f32 whatever the type is.
            let (mean, inverse) = (f.cast(standard.mean, DType::F32)?, f.cast(standard.inverse, DType::F32)?);
            Ok(vec![y, mean, inverse, sum])
        })
        .into())
}

/// As [`skip_layer_normalization`], of what is not centered: x/√(mean of x² + ε), whose mean is taken for 0.
fn skip_simplified(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let epsilon = node.float("epsilon", 1e-12)?;
    Ok(node
        .functions(move |f| {
            let [sum, wide] = summed(f, 3)?;
            let axis = f.axis(wide, -1)?;
            let square = f.mul(wide, wide)?;
            let mean = f.reduce(ReduceKind::Mean, square, &[axis])?;
            let mean = f.add_number(mean, f64::from(epsilon))?;
            let inverse = f.unary(UnaryKind::Rsqrt, mean)?;
            let y = f.mul(wide, inverse)?;
            let y = statistics::scaled(f, y, f.dtype(sum), f.input(2)?, None)?;
            let inverse = f.cast(inverse, DType::F32)?;
            let mean = f.mul_number(inverse, 0.0)?;
            Ok(vec![y, mean, inverse, sum])
        })
        .into())
}

/// A product of integers without their zero points as reals: times both scales, plus a bias.
pub(super) fn scaled(
    f: &mut Scope<'_, '_>,
    operands: [ValueId; 2],
    zero_points: [Option<ValueId>; 2],
    scales: [ValueId; 2],
    bias: Option<ValueId>,
) -> Result<ValueId, Error> {
    let [a, b] = scales;
    let (a, b) = (spread(f, a, true)?, spread(f, b, false)?);
    // Sums leave the range of 16 bits.
    let dtype = f.dtype(a);
    let (a, b) = (f.cast(a, DType::F32)?, f.cast(b, DType::F32)?);
    let factor = f.mul(a, b)?;
    let y = if let Some(y) = exact::of_bytes(f, operands, zero_points, Some(factor))? {
        y
    } else {
        let sums = product(f, operands, zero_points)?;
        let reals = f.cast(sums, DType::F32)?;
        f.mul(reals, factor)?
    };
    let Some(bias) = bias else { return f.cast(y, dtype) };
    let bias = f.cast(bias, DType::F32)?;
    let y = f.add(y, bias)?;
    f.cast(y, dtype)
}

/// A · B as reals; operands A, B, their scales, their zero points, a bias.
fn matmul_integer_to_float(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let scales = [f.input(2)?, f.input(3)?];
    scaled(f, [f.input(0)?, f.input(1)?], [f.get(4), f.get(5)], scales, f.get(6))
}

/// The same of reals A, quantized by their range; operands A, B, B's scale and zero point, a bias.
fn dynamic_quantize_matmul(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let x = f.input(0)?;
    let [bytes, scale, zero_point] = quant::by_range(f, x)?;
    let scales = [scale, f.input(2)?];
    scaled(f, [bytes, f.input(1)?], [Some(zero_point), f.get(3)], scales, f.get(4))
}

/// What `MatMulNBits` says of its matrix.
#[derive(Clone, Copy)]
struct Packed {
    rows: usize,
    columns: usize,
    bits: usize,
    block: usize,
}

/// What the matrix is made of: its blocks, a scale for each, and a zero point for each unless that is the middle.
struct Blocks<'c> {
    packed: &'c Constant,
    scales: &'c Constant,
    zero_points: Option<&'c Constant>,
    /// Which group of its row each place belongs to, unless they lie in order.
    groups: Option<&'c Constant>,
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
    let given = |index: usize| node.inputs.get(index).copied().flatten();
    // Where the file has them, they become reals once: not again for each set of extents that comes along.
    let known = |index: usize| node.constant(index).is_some() == given(index).is_some();
    if let (Some(blocks), Some(scales)) = (node.constant(1), node.constant(2))
        && known(3)
        && known(4)
    {
        let (zero_points, groups) = (node.constant(3), node.constant(4));
        let blocks = Blocks { packed: blocks, scales, zero_points, groups };
        let weights = packed.matrix(&blocks, &|reason| node.unsupported(reason))?;
        let bias = given(5);
        let weights = node.new_constant("weights", weights);
        node.inputs.truncate(1);
        node.set_input(1, weights);
        if bias.is_some() {
            node.emit_after(BinaryKind::Add.into(), &[bias]);
        }
        return Ok(Op::MatMul(MatMul::default()));
    }
    Ok(node
        .function(move |f| {
            let weights = {
                let known = |index: usize, name: &str| {
                    let known = f.input(index).ok().and_then(|id| f.constant_of(id));
                    known.ok_or_else(|| f.wrong(format!("input {name} is not known before the network runs")))
                };
                let zero_points = f.get(3).map(|_| known(3, "zero_points")).transpose()?;
                let groups = f.get(4).map(|_| known(4, "g_idx")).transpose()?;
                let (blocks, scales) = (known(1, "B")?, known(2, "scales")?);
                let blocks = Blocks { packed: blocks, scales, zero_points, groups };
                packed.matrix(&blocks, &|reason| f.wrong(reason))?
            };
            let weights = f.constant(weights);
            let y = f.matmul(f.input(0)?, weights)?;
            f.get(5).map_or(Ok(y), |bias| f.add(y, bias))
        })
        .into())
}

impl Packed {
    /// B as reals of the scales' type, columns by rows: no more elements than `blocks` has digits.
    fn matrix(self, blocks: &Blocks<'_>, wrong: &dyn Fn(String) -> Error) -> Result<Constant, Error> {
        /// Rows that lie side by side in the result, as many as a line of the cache has.
        const TOGETHER: usize = 16;
        let Self { rows, columns, bits, block } = self;
        let in_row = columns.div_ceil(block);
        let digits = rows.checked_mul(in_row).and_then(|groups| groups.checked_mul(block)?.checked_mul(bits));
        let need = digits.ok_or_else(|| wrong("more elements than there are".into()))? / 8;
        let (groups, row_bytes) = (rows * in_row, (in_row * bits).div_ceil(8));
        let bytes_of = |known: &Constant, need: usize, name: &str| {
            let there = known.dtype() == DType::U8 && known.byte_len() >= need;
            there
                .then(|| known.bytes().clone())
                .ok_or_else(|| wrong(format!("input {name} is not {need} bytes")))
        };
        let reals = |known: &Constant, name: &str| {
            let reals = known.to_f64().filter(|reals| reals.len() == groups);
            reals.ok_or_else(|| wrong(format!("input {name} is not {groups} reals")))
        };
        let packed = bytes_of(blocks.packed, need, "B")?;
        let dtype = blocks.scales.dtype();
        let scales = reals(blocks.scales, "scales")?;
        let digit = |bytes: &[u8], index: usize| {
            let per_byte = 8 / bits;
            (bytes[index / per_byte] >> (index % per_byte * bits)) & (u8::MAX >> (8 - bits))
        };
        let zero_points = match blocks.zero_points {
            None => vec![f64::from(1_u32 << (bits - 1)); groups],
            Some(known) if known.dtype() == DType::U8 => {
                let bytes = bytes_of(known, rows * row_bytes, "zero_points")?;
                let all = bytes.chunks_exact(row_bytes);
                all.take(rows)
                    .flat_map(|row| (0..in_row).map(move |index| f64::from(digit(row, index))))
                    .collect()
            }
            Some(known) => reals(known, "zero_points")?,
        };
        let group_of: Vec<usize> = match blocks.groups {
            None => (0..columns).map(|column| column / block).collect(),
            Some(known) => {
                let groups = known.to_i64().unwrap_or_default().into_iter().map(usize::try_from);
                let groups = groups.collect::<Result<Vec<_>, _>>().ok();
                let fits = |groups: &Vec<usize>| {
                    groups.len() == columns && groups.iter().all(|&group| group < in_row)
                };
                let wanted = || wrong(format!("input g_idx is not {columns} integers below {in_row}"));
                groups.filter(fits).ok_or_else(wanted)?
            }
        };
        memory::check_room((rows * columns * dtype.bytes()) as u64)?;
        let mut values = vec![0; rows * columns * dtype.bytes()];
        let size = dtype.bytes();
        for first in (0..rows).step_by(TOGETHER) {
            let last = rows.min(first + TOGETHER);
            for column in 0..columns {
                let places = &mut values[(column * rows + first) * size..(column * rows + last) * size];
                for (row, place) in (first..last).zip(places.chunks_exact_mut(size)) {
                    let (own, group) = (row * in_row + column / block, row * in_row + group_of[column]);
                    let level = f64::from(digit(&packed[own * (block * bits / 8)..], column % block));
                    let real = ((level - zero_points[group]) as f32) * scales[group] as f32;
                    match dtype.encode(f64::from(real)) {
                        _ if dtype == DType::F32 => place.copy_from_slice(&real.to_le_bytes()),
                        Some(bits) => place.copy_from_slice(&bits.to_le_bytes()[..size]),
                        None => return Err(wrong(format!("input scales has type {dtype}"))),
                    }
                }
            }
        }
        let constant = Constant::new(dtype, Shape::from([columns, rows]), values);
        Ok(constant.expect("as many elements as the shape says"))
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
    "Gelu": [1] {1, 1, 1 => |_| Ok(UnaryKind::Gelu.into())};
    "Inverse": [1] {1, 1, 1 => |_| Ok(Inverse.into())};
    "MatMulIntegerToFloat": [1] {4, 7, 1 => body matmul_integer_to_float};
    "MatMulNBits": [1] {3, 6, 1 => matmul_n_bits};
    "QuantizeLinear": [1] {2, 3, 1 => quant::quantize};
    "QuickGelu": [1] {1, 1, 1 => quick_gelu};
    "SkipLayerNormalization": [1] {3, 5, 4 => skip_layer_normalization};
    "SkipSimplifiedLayerNormalization": [1] {3, 4, 4 => skip_simplified};
}
