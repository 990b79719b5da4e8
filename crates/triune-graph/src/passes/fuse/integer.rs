//! Integer steps: chains of tables to one table, tables and residual additions to epilogues. Not a bit changes.

use std::sync::Arc;

use smallvec::smallvec;
use triune_tensor::{DType, QuantParams, Requantize, Rounding};

use super::{Rewriter, absorb_residual, append, epilogue};
use crate::{
    Node, Op, Quantization, Value, ValueId,
    ops::{Binary, BinaryKind, Epilogue, PostOp, Table},
    passes::quantize::{
        movement::is_reordering,
        table::{Quantized, integer},
    },
};

type Bytes = Arc<[u8; 256]>;

/// Table after table → one table; a sum or product of two functions of one value → one table.
pub(super) fn compose(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(node) = rewriter.get(index) else { return };
    let composed = match &node.op {
        Op::Table(op) => compose_chain(rewriter, node, &op.table),
        Op::Binary(op) => compose_binary(rewriter, node, op),
        _ => None,
    };
    let Some((Function { root, table, operand }, quant)) = composed.zip(node.quant.clone()) else { return };
    let quant = Some(Box::new(Quantization { operands: vec![operand], ..*quant }));
    let node = Node { op: Op::Table(Table { table }), inputs: smallvec![Some(root)], quant, ..node.clone() };
    rewriter.replace(index, node);
}

/// A function of one value's bytes.
struct Function {
    root: ValueId,
    table: Bytes,
    /// What it takes its operand for.
    operand: Option<QuantParams>,
}

fn compose_chain(rewriter: &Rewriter<'_>, node: &Node, outer: &Bytes) -> Option<Function> {
    let input = node.inputs.first().copied()??;
    // With other readers the inner table stays, and reading past it would only tie down its operand.
    let inner = rewriter.is_private(input).then(|| function_of(rewriter, input))??;
    let table = Arc::new(std::array::from_fn(|byte| outer[usize::from(inner.table[byte])]));
    Some(Function { table, ..inner })
}

/// The operand and the table of the node that makes this value.
fn function_of(rewriter: &Rewriter<'_>, id: ValueId) -> Option<Function> {
    let (_, node) = rewriter.producer(id)?;
    let Op::Table(op) = &node.op else { return None };
    let operand = node.quant.as_ref().and_then(|quant| quant.operand(0));
    Some(Function { root: node.inputs.first().copied()??, table: op.table.clone(), operand })
}

fn compose_binary(rewriter: &Rewriter<'_>, node: &Node, op: &Binary) -> Option<Function> {
    let &[Some(a), Some(b)] = &node.inputs[..] else { return None };
    let quant = node.quant.as_ref()?;
    let meaning = |index: usize, id: ValueId| {
        let dtype = rewriter.value(id).dtype.filter(|dtype| dtype.is_quantized())?;
        Some(Quantized { dtype, params: quant.operand(index)? })
    };
    let (a_meaning, b_meaning) = (meaning(0, a)?, meaning(1, b)?);
    let to = Some(Quantized { dtype: quant.dtype, params: quant.result }).filter(|to| to.is_byte())?;
    let plain =
        |root: ValueId, own: Quantized| Function { root, table: identity(), operand: Some(own.params) };
    let a_function = function_of(rewriter, a).unwrap_or_else(|| plain(a, a_meaning));
    let b_function = function_of(rewriter, b).unwrap_or_else(|| plain(b, b_meaning));
    // One operand may be the other one's own operand.
    let (a_function, b_function) = if a_function.root == b_function.root {
        (a_function, b_function)
    } else if a == b_function.root {
        (plain(a, a_meaning), b_function)
    } else if b == a_function.root {
        (a_function, plain(b, b_meaning))
    } else {
        return None;
    };
    let (a_table, b_table) = (&a_function.table, &b_function.table);
    let limits = match op.epilogue.post_ops[..] {
        [] => [i32::MIN, i32::MAX],
        [PostOp::Clamp { limits }] => limits,
        _ => return None,
    };
    let function = match op.kind {
        BinaryKind::Add | BinaryKind::Sub => add,
        BinaryKind::Mul => mul,
        _ => return None,
    };
    let factors = match op.kind {
        BinaryKind::Add => sum_factors(a_meaning, b_meaning, to, rewriter.requantize())?,
        BinaryKind::Sub => {
            let [ra, rb] = sum_factors(a_meaning, b_meaning, to, rewriter.requantize())?;
            [ra, -rb]
        }
        _ => product_factors(a_meaning, b_meaning, to, rewriter.requantize())?,
    };
    let table = std::array::from_fn(|byte| {
        let (x, y) = (integer(a_table[byte], a_meaning.dtype), integer(b_table[byte], b_meaning.dtype));
        let q = function((x, a_meaning), (y, b_meaning), to, factors, rewriter.rounding());
        // In this order: limits that leave nothing between them still give a value.
        q.max(limits[0]).min(limits[1]) as u8
    });
    Some(Function { table: Arc::new(table), ..a_function })
}

fn identity() -> Bytes {
    Arc::new(std::array::from_fn(|byte| byte as u8))
}

/// Each operand's scale over the result's, as a sum multiplies with them.
fn sum_factors(a: Quantized, b: Quantized, to: Quantized, requantize: Requantize) -> Option<[f32; 2]> {
    let factor = |own: Quantized| requantize.factor(own.params.scale / to.params.scale, 8);
    Some([factor(a)?, factor(b)?])
}

/// The one factor of a product, and one that is not used.
fn product_factors(a: Quantized, b: Quantized, to: Quantized, requantize: Requantize) -> Option<[f32; 2]> {
    Some([requantize.factor(a.params.scale * b.params.scale / to.params.scale, 8)?, 0.0])
}

/// The integer sum: raw integers, one fused multiply-add each, zero points gathered in one constant.
fn add(
    (a, a_meaning): (i32, Quantized),
    (b, b_meaning): (i32, Quantized),
    to: Quantized,
    [ra, rb]: [f32; 2],
    rounding: Rounding,
) -> i32 {
    let (left, right) = (a_meaning.params, b_meaning.params);
    let (inside, behind) = zero_points(to, rounding);
    let zero = inside as f32 - ra.mul_add(left.zero_point as f32, rb * right.zero_point as f32);
    let sum = rounding.round((a as f32).mul_add(ra, (b as f32).mul_add(rb, zero)));
    saturate(sum, behind, to.dtype)
}

/// The integer product: one multiplier; the zero point is added before rounding when halves go to even.
fn mul(
    (a, a_meaning): (i32, Quantized),
    (b, b_meaning): (i32, Quantized),
    to: Quantized,
    [multiplier, _]: [f32; 2],
    rounding: Rounding,
) -> i32 {
    let (left, right) = (a_meaning.params, b_meaning.params);
    let product = (a - left.zero_point) * (b - right.zero_point);
    let (inside, behind) = zero_points(to, rounding);
    saturate(rounding.round(product as f32 * multiplier + inside as f32), behind, to.dtype)
}

/// What of the result's zero point is added before rounding, and what behind it.
fn zero_points(to: Quantized, rounding: Rounding) -> (i32, i32) {
    match rounding {
        Rounding::HalfToEven => (to.params.zero_point, 0),
        Rounding::HalfAwayFromZero => (0, to.params.zero_point),
    }
}

fn saturate(rounded: f32, zero_point: i32, dtype: DType) -> i32 {
    let (low, high) = if dtype == DType::I8 { (-128, 127) } else { (0, 255) };
    (rounded as i32).saturating_add(zero_point).clamp(low, high)
}

/// Fuses the table or addition at `index` into the operator that makes its operand.
pub(super) fn absorb(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some(node) = rewriter.get(index) else { return };
    match &node.op {
        Op::Table(op) => {
            let table = op.table.clone();
            absorb_table(rewriter, index, table)
        }
        Op::Binary(Binary { kind: BinaryKind::Add, .. }) => node.quant.clone().and_then(|sum| {
            absorb_residual(rewriter, index, |conv, epilogue, position| {
                let own = conv.quant.as_ref();
                // What the sum takes the integers for must be what the convolution makes them for.
                own.is_some_and(|own| {
                    // Bytes alone: a 16-bit operator takes no function and no addition.
                    own.dtype.is_quantized()
                        && own.dtype == sum.dtype
                        && Some(own.result) == sum.operand(position)
                }) && !has_residual(epilogue)
            })
        }),
        _ => None,
    };
}

fn has_residual(epilogue: &Epilogue) -> bool {
    epilogue.post_ops.iter().any(|post_op| matches!(post_op, PostOp::Residual(_)))
}

fn absorb_table(rewriter: &mut Rewriter<'_>, index: usize, table: Bytes) -> Option<()> {
    let node = rewriter.get(index)?;
    let (input, output) = (node.inputs.first().copied()??, node.outputs.first().copied()??);
    let own = node.quant.clone()?;
    // A post-op states no element type: the bytes before and after it are of the result's.
    (rewriter.value(input).dtype == Some(own.dtype) && rewriter.is_private(input)).then_some(())?;
    if *table == *identity() && !rewriter.is_output(output) {
        rewriter.replace_uses(output, input);
        return Some(());
    }
    let (_, maker) = rewriter.producer(input)?;
    if is_reordering(&maker.op) {
        return raise_table(rewriter, index, table);
    }
    let post_ops = &epilogue(&maker.op)?.post_ops;
    let quant = maker.quant.as_ref()?.result;
    let limits = (quant == own.result).then(|| limits_of(&table, own.dtype)).flatten();
    match limits {
        Some(limits) if post_ops.is_empty() => {
            append(rewriter, index, input, output, PostOp::Clamp { limits })
        }
        _ => {
            has_room_for_table(&maker.op).then_some(())?;
            append(rewriter, index, input, output, PostOp::Table { quant, table })
        }
    }
}

/// Rewrites operator → reordering → table to operator → table → reordering, and fuses the table into the operator.
fn raise_table(rewriter: &mut Rewriter<'_>, index: usize, table: Bytes) -> Option<()> {
    let node = rewriter.get(index)?;
    let (input, output) = (node.inputs.first().copied()??, node.outputs.first().copied()??);
    let (place, mover) = rewriter.producer(input)?;
    let mut mover = mover.clone();
    let x = mover.inputs.first().copied()??;
    // Only all the way: on its own the table is best where it is.
    let mut origin = x;
    let maker = loop {
        let (_, maker) = rewriter.is_private(origin).then(|| rewriter.producer(origin))??;
        if !is_reordering(&maker.op) {
            break maker;
        }
        origin = maker.inputs.first().copied()??;
    };
    (has_room_for_table(&maker.op) && maker.quant.is_some()).then_some(())?;
    let value = rewriter.value(x);
    let value = Value {
        dtype: rewriter.value(output).dtype,
        shape: value.shape.clone(),
        ..Value::named(format!("{}:mapped", value.name))
    };
    let raised = rewriter.add_value(value);
    mover.inputs[0] = Some(raised);
    mover.outputs = smallvec![Some(output)];
    let before = Node {
        op: Op::Table(Table { table: table.clone() }),
        inputs: smallvec![Some(x)],
        outputs: smallvec![Some(raised)],
        ..rewriter.get(index)?.clone()
    };
    let before = rewriter.add_node(before, place);
    rewriter.move_to(index, place);
    rewriter.replace(index, mover);
    absorb_table(rewriter, before, table)
}

/// Whether the operator can still take a table: functions of two operands have no room for one, nor is there any
/// behind another table or an addition.
fn has_room_for_table(op: &Op) -> bool {
    !matches!(op, Op::Binary(_))
        && epilogue(op).is_some_and(|epilogue| {
            epilogue.post_ops.iter().all(|post_op| matches!(post_op, PostOp::Clamp { .. }))
        })
}

/// The limits that the table clamps to, when it does nothing else.
fn limits_of(table: &Bytes, dtype: DType) -> Option<[i32; 2]> {
    let (first, last) = if dtype == DType::I8 { (-128, 127) } else { (0, 255) };
    let result = |q: i32| integer(table[usize::from(q as u8)], dtype);
    let limits = [result(first), result(last)];
    (limits[0] <= limits[1] && (first..=last).all(|q| result(q) == q.clamp(limits[0], limits[1])))
        .then_some(limits)
}
