//! Operators over integers that say themselves what these stand for: the operator over reals between a dequantizer of each
//! operand and a quantizer of the result, which passes make one integer operator of.

use triune_tensor::DType;

use super::{Form, MANY, Meaning, NodeReader, Operator, Read, Signature, conv, operators, pool};
use crate::{
    Error, Op, ValueId,
    functions::{Scope, exact},
    ops::{
        BinaryKind, DequantizeLinear, Epilogue, Gemm, GlobalPool, QuantizeLinear, Softmax, Transpose,
        UnaryKind,
    },
};

/// The reals that operand `index` stands for, by the scale and zero point at the places behind it.
fn dequantized(f: &mut Scope<'_, '_>, index: usize, axis: isize) -> Result<ValueId, Error> {
    let operands = [Some(f.input(index)?), Some(f.input(index + 1)?), f.get(index + 2)];
    Ok(f.ops(Op::DequantizeLinear(DequantizeLinear { axis }), &operands, 1)?[0])
}

/// The integers for a result, by the scale and zero point at these places; of operand 0's type unless a zero point says another.
fn integers(f: &mut Scope<'_, '_>, y: ValueId, scale: usize, like: ValueId) -> Result<ValueId, Error> {
    let op = QuantizeLinear { axis: 1, dtype: f.dtype(like) };
    let operands = [Some(y), Some(f.input(scale)?), f.get(scale + 1)];
    Ok(f.ops(Op::QuantizeLinear(op), &operands, 1)?[0])
}

/// Two operands with their scales and zero points, then the result's.
fn binary(f: &mut Scope<'_, '_>, kind: BinaryKind) -> Result<ValueId, Error> {
    let (a, b) = (dequantized(f, 0, 1)?, dequantized(f, 3, 1)?);
    let y = f.binary(kind, a, b)?;
    integers(f, y, 6, f.input(0)?)
}

/// One operand with its scale and zero point, then the result's.
fn unary(f: &mut Scope<'_, '_>, op: impl Into<Op>) -> Result<ValueId, Error> {
    let x = dequantized(f, 0, 1)?;
    let y = f.op(op, &[x])?;
    integers(f, y, 3, f.input(0)?)
}

/// Operand 0 chooses between two, each with a scale and a zero point; then those of the result.
fn choice(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let (a, b) = (dequantized(f, 1, 1)?, dequantized(f, 4, 1)?);
    let y = f.choose(f.input(0)?, a, b)?;
    integers(f, y, 7, f.input(1)?)
}

/// The result's scale and zero point, then each part with its own.
fn concat(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let axis = node.axis("axis", 1)?;
    if !(node.inputs.len() - 2).is_multiple_of(3) {
        return Err(node.unsupported("each part comes with a scale and a zero point"));
    }
    Ok(node
        .function(move |f| {
            let mut parts = Vec::new();
            for first in (2..f.inputs().len()).step_by(3) {
                parts.push(dequantized(f, first, 1)?);
            }
            let axis = f.axis(parts[0], axis as i64)?;
            let y = f.concat(&parts, axis)?;
            integers(f, y, 0, f.input(2)?)
        })
        .into())
}

fn softmax(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let opset = node.int("opset")?.unwrap_or(13);
    let axis = node.axis("axis", if opset < 13 { 1 } else { -1 })?;
    // Before opset 13 all axes from the given one on form a row.
    let op = Softmax { axis, flatten: opset < 13, log: false };
    Ok(node.function(move |f| unary(f, Op::Softmax(op))).into())
}

fn leaky_relu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let alpha = node.float("alpha", 0.01)?;
    Ok(node.function(move |f| unary(f, UnaryKind::LeakyRelu(alpha))).into())
}

fn global_average_pool(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let last = node.flag("channels_last")?;
    Ok(node
        .function(move |f| {
            let x = dequantized(f, 0, 1)?;
            let rank = f.rank(x);
            if rank < 2 {
                return Err(f.wrong(format!("input {} has no channels", f.shape(x))));
            }
            // Channels behind the batch, and where they were.
            let ahead: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
            let back: Vec<usize> = std::iter::once(0).chain(2..rank).chain([1]).collect();
            let x = if last { f.transpose(x, &ahead)? } else { x };
            let y = f.op(Op::GlobalPool(GlobalPool::AVERAGE), &[x])?;
            let y = if last { f.transpose(y, &back)? } else { y };
            integers(f, y, 3, f.input(0)?)
        })
        .into())
}

/// Lets an operator over reals that is read from the first operand, and from `more`, stand between a dequantizer of each and a
/// quantizer. Parameters of operand `index` are its scale, its zero point and the axis that they run along.
fn between(
    node: &mut NodeReader<'_, '_>,
    operands: &[(usize, [Option<ValueId>; 2], isize)],
    [scale, zero_point]: [Option<ValueId>; 2],
    dtype: DType,
    read: Read,
) -> Result<Op, Error> {
    let op = read(node)?;
    for &(index, [scale, zero_point], axis) in operands {
        let real = node.new_value("real");
        let dequantize = Op::DequantizeLinear(DequantizeLinear { axis });
        node.emit_before(dequantize, &[node.inputs[index], scale, zero_point], real);
        node.set_input(index, real);
    }
    node.emit_after(Op::QuantizeLinear(QuantizeLinear { axis: 1, dtype }), &[scale, zero_point]);
    Ok(op)
}

/// Lets an operator that has channels behind the batch have them last, in its first operand and its result.
fn channels_last(node: &mut NodeReader<'_, '_>, rank: Option<usize>) -> Result<(), Error> {
    let by_kernel = node.extents("kernel_shape")?.map(|kernel| kernel.len() + 2);
    let rank = rank.or(by_kernel).filter(|rank| *rank > 2);
    let rank = rank.ok_or_else(|| node.unsupported("channels that lie last, of unknown extents"))?;
    let ahead = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let back = std::iter::once(0).chain(2..rank).chain([1]).collect();
    let x = node.new_value("ahead");
    node.emit_before(Op::Transpose(Transpose { perm: ahead }), &[node.inputs[0]], x);
    node.inputs[0] = Some(x);
    node.emit_after(Op::Transpose(Transpose { perm: back }), &[]);
    Ok(())
}

fn nhwc_max_pool(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let rank = node.rank(0);
    channels_last(node, rank)?;
    pool::max_pool(node)
}

/// Operands x, w and the result's parameters, each of the first two with its own before; then a bias in 32 bits.
pub(super) fn convolution(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    // ONNX Runtime's own form has it; that of the standard has no such attribute.
    if node.flag("channels_last")? {
        let rank = node.rank(3).or_else(|| node.rank(0));
        channels_last(node, rank)?;
    }
    let all = std::mem::take(&mut node.inputs);
    let bias = all.get(8).copied().flatten();
    node.inputs = vec![all[0], all[3]];
    node.inputs.extend(bias.map(Some));
    let mut operands = vec![(0, [all[1], all[2]], 1), (1, [all[4], all[5]], 0)];
    if bias.is_some() {
        let scale = node.new_value("bias.scale");
        node.emit_before(BinaryKind::Mul.into(), &[all[1], all[4]], scale);
        operands.push((2, [Some(scale), None], 0));
    }
    // The zero point, which is there, has the type.
    between(node, &operands, [all[6], all[7]], DType::U8, conv::conv)
}

fn average_pool(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    // Its attributes are those of the standard's newest version.
    node.since = 22;
    let dtype = node.dtype_of(0).unwrap_or(DType::U8);
    if node.flag("channels_last")? {
        let rank = node.rank(0);
        channels_last(node, rank)?;
    }
    let all = std::mem::take(&mut node.inputs);
    node.inputs = vec![all[0]];
    let at = |index: usize| all.get(index).copied().flatten();
    between(node, &[(0, [all[1], all[2]], 1)], [at(3), at(4)], dtype, pool::average_pool)
}

/// The sums of 32 bits of [`gemm`] by α and the scales of both, where there is a command for the product.
fn exact_gemm(f: &mut Scope<'_, '_>, alpha: f32, transposed: [bool; 2]) -> Result<Option<ValueId>, Error> {
    let mut operands = [f.input(0)?, f.input(3)?];
    for (operand, transposed) in operands.iter_mut().zip(transposed) {
        if f.rank(*operand) != 2 {
            return Ok(None);
        }
        if transposed {
            *operand = f.transpose(*operand, &[1, 0])?;
        }
    }
    let scale = f.mul(f.input(1)?, f.input(4)?)?;
    let scale = if alpha == 1.0 { scale } else { f.mul_number(scale, f64::from(alpha))? };
    let zeros = [f.get(2), f.get(5)];
    let Some(c) = f.get(6) else { return exact::of_bytes(f, operands, zeros, Some(scale)) };
    let Some(sums) = exact::of_bytes(f, operands, zeros, None)? else { return Ok(None) };
    let sums = f.add(sums, c)?;
    let sums = f.cast(sums, DType::F32)?;
    f.mul(sums, scale).map(Some)
}

/// α·A·B + C, C in 32 bits; without a scale of the result reals.
fn gemm(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let alpha = node.float("alpha", 1.0)?;
    let (trans_a, trans_b) = (node.flag("transA")?, node.flag("transB")?);
    Ok(node
        .function(move |f| {
            if f.get(7).is_none()
                && let Some(y) = exact_gemm(f, alpha, [trans_a, trans_b])?
            {
                return Ok(y);
            }
            let (a, b) = (dequantized(f, 0, 1)?, dequantized(f, 3, isize::from(!trans_b))?);
            let mut operands = vec![Some(a), Some(b)];
            if let Some(c) = f.get(6) {
                let scale = f.mul(f.input(1)?, f.input(4)?)?;
                let scale = if alpha == 1.0 { scale } else { f.mul_number(scale, f64::from(alpha))? };
                let c =
                    f.ops(Op::DequantizeLinear(DequantizeLinear { axis: -1 }), &[Some(c), Some(scale)], 1)?;
                operands.push(Some(c[0]));
            }
            let op = Gemm { alpha, beta: 1.0, trans_a, trans_b, epilogue: Epilogue::default() };
            let y = f.ops(Op::Gemm(op), &operands, 1)?[0];
            if f.get(7).is_some() { integers(f, y, 7, f.input(0)?) } else { Ok(y) }
        })
        .into())
}

operators! {
    "com.microsoft";
    "NhwcMaxPool": [1] {1, 1, 1 => nhwc_max_pool};
    "QGemm": [1] {6, 9, 1 => gemm};
    "QLinearAdd": [1] {7, 8, 1 => body |f| binary(f, BinaryKind::Add)};
    "QLinearAveragePool": [1] {4, 5, 1 => average_pool};
    "QLinearConcat": [1] {5, MANY, 1 => concat};
    "QLinearConv": [1] {8, 9, 1 => convolution};
    "QLinearGlobalAveragePool": [1] {5, 5, 1 => global_average_pool};
    "QLinearLeakyRelu": [1] {4, 5, 1 => leaky_relu};
    "QLinearMul": [1] {7, 8, 1 => body |f| binary(f, BinaryKind::Mul)};
    "QLinearSigmoid": [1] {4, 5, 1 => body |f| unary(f, UnaryKind::Sigmoid)};
    "QLinearSoftmax": [1] {5, 5, 1 => softmax};
    "QLinearWhere": [1] {9, 9, 1 => body choice};
}
