//! Operators that ONNX Runtime adds to ONNX's, as its quantizers and optimizers write them.

use triune_tensor::{
    DType, OutOfMemory, Recipe, Shape,
    half::{f32_of_bf16, f32_of_f16},
    memory,
};

use super::{
    Form, Meaning, NodeReader, Operator, Signature, activation, operators, quant,
    quantized::{product, spread},
    recurrent, statistics,
};
use crate::{
    Constant, Error, Op, ValueId,
    evaluate::constant_of,
    functions::{Scope, exact, standard},
    ops::{BinaryKind, BlockMatMul, Inverse, MatMul, ReduceKind, UnaryKind},
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
    node.ignore(&["weight_prepacked"]);
    // What elements of A may become at most: bytes.
    let integers = node.int("accuracy_level")? == Some(4);
    let given = |index: usize| node.inputs.get(index).copied().flatten();
    // Where the file has them, they are put together once: not again for each set of extents that comes along.
    let known = |index: usize| node.constant(index).is_some() == given(index).is_some();
    if let (Some(blocks), Some(scales)) = (node.constant(1), node.constant(2))
        && known(3)
        && known(4)
    {
        let (zero_points, groups) = (node.constant(3), node.constant(4));
        let blocks = Blocks { packed: blocks, scales, zero_points, groups };
        let (weights, op) = packed.product(&blocks, integers, &|reason| node.unsupported(reason))?;
        let bias = given(5);
        let weights = node.new_constant("weights", weights);
        node.inputs.truncate(1);
        node.set_input(1, weights);
        if bias.is_some() {
            node.emit_after(BinaryKind::Add.into(), &[bias]);
        }
        return Ok(op);
    }
    Ok(node
        .function(move |f| {
            let (weights, op) = {
                let known = |index: usize, name: &str| {
                    let known = f.input(index).ok().and_then(|id| f.constant_of(id));
                    known.ok_or_else(|| f.wrong(format!("input {name} is not known before the network runs")))
                };
                let zero_points = f.get(3).map(|_| known(3, "zero_points")).transpose()?;
                let groups = f.get(4).map(|_| known(4, "g_idx")).transpose()?;
                let (blocks, scales) = (known(1, "B")?, known(2, "scales")?);
                let blocks = Blocks { packed: blocks, scales, zero_points, groups };
                packed.product(&blocks, integers, &|reason| f.wrong(reason))?
            };
            let weights = f.constant(weights);
            let y = f.op(op, &[f.input(0)?, weights])?;
            f.get(5).map_or(Ok(y), |bias| f.add(y, bias))
        })
        .into())
}

/// A digit of so many bits.
fn digit(bytes: &[u8], index: usize, bits: usize) -> u8 {
    let per_byte = 8 / bits;
    (bytes[index / per_byte] >> (index % per_byte * bits)) & (u8::MAX >> (8 - bits))
}

impl Packed {
    /// Blocks of a row.
    const fn in_row(self) -> usize {
        self.columns.div_ceil(self.block)
    }

    /// Checks what the matrix is made of against its extents.
    fn check(self, blocks: &Blocks<'_>, wrong: &dyn Fn(String) -> Error) -> Result<(), Error> {
        let Self { rows, bits, block, .. } = self;
        let groups = rows.checked_mul(self.in_row());
        let digits = groups.and_then(|groups| groups.checked_mul(block)?.checked_mul(bits));
        digits.ok_or_else(|| wrong("more elements than there are".into()))?;
        // A row behind the other, along whatever axes.
        let by_rows = |known: &Constant, each: usize| {
            let shape = known.shape();
            rows.checked_mul(each) == Some(known.elements())
                && (shape.rank() == 1 || shape.first() == Some(&rows))
        };
        let are = |known: &Constant, right: bool, name: &str, each: usize, what: &str| {
            let found = || {
                format!(
                    "input {name} is {} {}, not {rows} rows of {each} {what}",
                    known.dtype(),
                    known.shape()
                )
            };
            if right && by_rows(known, each) { Ok(()) } else { Err(wrong(found())) }
        };
        let are_bytes = |known: &Constant, each: usize, name: &str| {
            are(known, known.dtype() == DType::U8, name, each, "bytes")
        };
        let are_reals = |known: &Constant, name: &str| {
            let right = matches!(known.dtype(), DType::F32 | DType::F16 | DType::BF16);
            are(known, right, name, self.in_row(), "reals")
        };
        are_bytes(blocks.packed, self.in_row() * (block * bits / 8), "B")?;
        are_reals(blocks.scales, "scales")?;
        match blocks.zero_points {
            None => Ok(()),
            Some(known) if known.dtype() == DType::U8 => {
                are_bytes(known, (self.in_row() * bits).div_ceil(8), "zero_points")
            }
            Some(known) => are_reals(known, "zero_points"),
        }
    }

    /// The zero point of block `index`, of all rows' blocks.
    fn zero_point(self, known: Option<&Constant>, index: usize) -> f32 {
        let (row, index_in_row) = (index / self.in_row(), index % self.in_row());
        match known {
            None => (1_u32 << (self.bits - 1)) as f32,
            Some(known) if known.dtype() == DType::U8 => {
                let row_bytes = (self.in_row() * self.bits).div_ceil(8);
                digit(&known.bytes()[row * row_bytes..], index_in_row, self.bits).into()
            }
            Some(known) => real(known, index),
        }
    }

    /// The second operand of a product, and the product.
    fn product(
        self,
        blocks: &Blocks<'_>,
        integers: bool,
        wrong: &dyn Fn(String) -> Error,
    ) -> Result<(Constant, Op), Error> {
        self.check(blocks, wrong)?;
        if blocks.scales.dtype() != DType::F32 || blocks.groups.is_some() {
            return Ok((self.matrix(blocks, wrong)?, Op::MatMul(MatMul::default())));
        }
        let Self { rows, columns, bits, block } = self;
        // Halves of bytes hold two bits as well.
        let stored = bits.max(4);
        // As ONNX Runtime has it: with real zero points rows stay real, and with two bits in blocks that are short or long.
        let whole = blocks.zero_points.is_none_or(|known| known.dtype() == DType::U8);
        let integers = integers && whole && (bits > 2 || (32..=128).contains(&block));
        // No more of a row have one factor, however many of the matrix do.
        let own = if integers { block.min(LONGEST) } else { block };
        let in_row = columns.div_ceil(own);
        let op = BlockMatMul { depth: columns, bits: stored, block: own, integers };
        let (packed, scales) = (blocks.packed.bytes().clone(), blocks.scales.clone());
        let zero_points = blocks.zero_points.cloned();
        let mut how = format!("{bits} bits, blocks of {block}, here {own}, rows of {columns} ").into_bytes();
        how.extend_from_slice(scales.bytes());
        if let Some(zero_points) = &zero_points {
            how.extend_from_slice(zero_points.dtype().name().as_bytes());
            how.extend_from_slice(zero_points.bytes());
        }
        let (given, size) = (own / 8 * bits, own / 8 * stored + 8);
        let fill = move |at: usize, mut to: &mut [u8]| {
            let mut made = vec![0; size];
            let (mut number, mut from) = (at / size, at % size);
            while !to.is_empty() {
                let (row, part) = (number / in_row, number % in_row);
                let index = row * self.in_row() + part * own / block;
                let digits = &packed[row * self.in_row() * (block / 8 * bits) + part * given..][..given];
                let (elements, parameters) = made.split_at_mut(size - 8);
                if bits == stored {
                    elements.copy_from_slice(digits);
                } else {
                    for (pair, to) in elements.iter_mut().enumerate() {
                        *to = digit(digits, 2 * pair, bits) | digit(digits, 2 * pair + 1, bits) << 4;
                    }
                }
                let zero_point = self.zero_point(zero_points.as_ref(), index);
                parameters[..4].copy_from_slice(&real(&scales, index).to_le_bytes());
                parameters[4..].copy_from_slice(&zero_point.to_le_bytes());
                let (first, rest) = to.split_at_mut(to.len().min(size - from));
                first.copy_from_slice(&made[from..][..first.len()]);
                (to, number, from) = (rest, number + 1, 0);
            }
        };
        let len = rows.checked_mul(op.column_bytes());
        let len = len.ok_or_else(|| wrong("more elements than there are".into()))?;
        memory::check_room(len as u64)?;
        let recipe = Recipe::new(blocks.packed.bytes().clone(), how, len, fill);
        let made = constant_of(DType::U8, Shape::from([rows, op.column_bytes()]), recipe);
        let made = made.ok_or_else(|| Error::from(OutOfMemory { bytes: len as u64 }))?;
        Ok((made, Op::BlockMatMul(op)))
    }

    /// B as reals of the scales' type, columns by rows: no more elements than `blocks` has digits.
    fn matrix(self, blocks: &Blocks<'_>, wrong: &dyn Fn(String) -> Error) -> Result<Constant, Error> {
        /// Rows that lie side by side in the result, as many as a line of the cache has.
        const TOGETHER: usize = 16;
        let Self { rows, columns, bits, block } = self;
        let in_row = self.in_row();
        let (packed, dtype) = (blocks.packed.bytes(), blocks.scales.dtype());
        let scales: Vec<f32> = (0..rows * in_row).map(|index| real(blocks.scales, index)).collect();
        let zero_points: Vec<f32> =
            (0..rows * in_row).map(|index| self.zero_point(blocks.zero_points, index)).collect();
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
                    let level = digit(&packed[own * (block * bits / 8)..], column % block, bits);
                    let value = (f32::from(level) - zero_points[group]) * scales[group];
                    match dtype.encode(f64::from(value)) {
                        _ if dtype == DType::F32 => place.copy_from_slice(&value.to_le_bytes()),
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

/// Elements of a row that become integers with one factor at most, as in ONNX Runtime.
const LONGEST: usize = 256;

/// An element of reals of 32 or 16 bits.
fn real(known: &Constant, index: usize) -> f32 {
    let size = known.dtype().bytes();
    let bytes = &known.bytes()[index * size..][..size];
    match (known.dtype(), bytes) {
        (DType::BF16, &[low, high]) => f32_of_bf16(u16::from_le_bytes([low, high])),
        (_, &[low, high]) => f32_of_f16(u16::from_le_bytes([low, high])),
        (_, bytes) => bytes.first_chunk().map_or(f32::NAN, |word| f32::from_le_bytes(*word)),
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
