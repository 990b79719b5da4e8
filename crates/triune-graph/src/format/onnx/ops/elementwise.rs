//! Element by element: functions of one operand, of two, of any number, and limits.

use triune_tensor::{DType, Shape};

use super::{
    DEFAULT_DOMAIN, Form, MANY, Meaning, NodeReader, NodeWriter, Operator, Signature, bare, mistaken,
    no_epilogue, operators,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{BinaryKind, Clip, Identity, UnaryKind},
};

/// A function of one operand without attributes.
macro_rules! unary {
    ($kind:ident) => {
        |_| Ok(UnaryKind::$kind.into())
    };
}

/// A function of two operands without attributes.
macro_rules! binary {
    ($kind:ident) => {
        |_| Ok(BinaryKind::$kind.into())
    };
}

fn leaky_relu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(UnaryKind::LeakyRelu(node.float("alpha", 0.01)?).into())
}

fn elu(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(UnaryKind::Elu(node.float("alpha", 1.0)?).into())
}

fn hard_sigmoid(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (alpha, beta) = (node.float("alpha", 0.2)?, node.float("beta", 0.5)?);
    Ok(UnaryKind::HardSigmoid { alpha, beta }.into())
}

fn write_unary(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    match op {
        Op::Unary(op) => match op.kind {
            UnaryKind::LeakyRelu(alpha) | UnaryKind::Elu(alpha) => writer.float("alpha", alpha),
            UnaryKind::HardSigmoid { alpha, beta } => {
                writer.float("alpha", alpha);
                writer.float("beta", beta);
            }
            UnaryKind::Clip(_) => return Err("limits that are not operands cannot be written as ONNX".into()),
            _ => {}
        },
        Op::Clip(_) => {}
        _ => return Err(mistaken(op)),
    }
    Ok(())
}

/// Limits are attributes of the first two versions, operands since.
fn clip(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since >= 11 {
        return Ok(Op::Clip(Clip));
    }
    // Limits that are left out are the largest numbers of float32: infinities are cut, too.
    let limits = [("min", f32::MIN), ("max", f32::MAX)];
    let mut found = [0.0; 2];
    for (found, (name, default)) in found.iter_mut().zip(limits) {
        *found = node.float(name, default)?;
    }
    if node.dtype_of(0) == Some(DType::F32) {
        for (index, (name, _)) in limits.iter().enumerate() {
            let limit = node.new_scalar(name, found[index]);
            node.set_input(index + 1, limit);
        }
        return Ok(Op::Clip(Clip));
    }
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let [low, high] = found.map(|limit| f.scalar_like(f64::from(limit), x));
            f.op(Op::Clip(Clip), &[x, low, high])
        })
        .into())
}

/// A function of two operands before opset 7: they have one shape, unless the attribute `broadcast` says that the second one
/// stands for a run of the first one's axes, which starts at `axis` or else ends with the last one.
fn first_binary(node: &mut NodeReader<'_, '_>, kind: BinaryKind) -> Result<Op, Error> {
    let (broadcast, axis) = (node.flag("broadcast")?, node.int("axis")?);
    Ok(node
        .function(move |f| {
            let (a, b) = (f.input(0)?, f.input(1)?);
            let (whole, part) = (f.shape(a), f.shape(b));
            let wrong = || f.wrong(format!("inputs {whole} and {part}"));
            if !broadcast {
                return if whole == part { f.binary(kind, a, b) } else { Err(wrong()) };
            }
            let last = whole.rank().checked_sub(part.rank()).ok_or_else(wrong)?;
            let start = match axis {
                Some(axis) => usize::try_from(axis).ok().filter(|start| *start <= last).ok_or_else(wrong)?,
                None => last,
            };
            let fits = |(&own, &other): (&usize, &usize)| own == other || other == 1;
            if !whole[start..].iter().zip(&*part).all(fits) {
                return Err(wrong());
            }
            let dims = [&*part, &vec![1; last - start]].concat();
            let b = f.reshape(b, &dims)?;
            f.binary(kind, a, b)
        })
        .into())
}

/// Slopes before opset 7 are one for all, or one per channel.
fn first_prelu(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let (x, slope) = (f.input(0)?, f.input(1)?);
    let (shape, slopes) = (f.shape(x), f.shape(slope));
    let count = slopes.elements().unwrap_or(0);
    let channels = shape.get(1).copied();
    if count != 1 && (slopes.rank() != 1 || channels != Some(count)) {
        return Err(f.wrong(format!("slopes {slopes} for {shape}")));
    }
    let mut dims = vec![1; shape.rank().saturating_sub(1).max(1)];
    dims[0] = count;
    let slope = f.reshape(slope, if count == 1 { &[] } else { &dims })?;
    f.binary(BinaryKind::PRelu, x, slope)
}

/// Every bit the other way round.
fn bitwise_not(f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
    let x = f.input(0)?;
    let dtype = f.dtype(x);
    let ones = f.integer(-1, dtype);
    f.binary(BinaryKind::Xor, x, ones)
}

/// An operator of any number of operands, as a chain from the left.
fn chain(node: &mut NodeReader<'_, '_>, kind: BinaryKind) -> Result<Op, Error> {
    if node.inputs.iter().any(Option::is_none) {
        return Err(node.unsupported("an input is missing"));
    }
    if node.inputs.len() == 1 {
        return Ok(Op::Identity(Identity));
    }
    let operands = std::mem::take(&mut node.inputs);
    let last = operands.len() - 1;
    let mut left = operands[0];
    for &right in &operands[1..last] {
        let inner = node.new_value("partial");
        node.emit_before(kind.into(), &[left, right], inner);
        left = Some(inner);
    }
    node.inputs = vec![left, operands[last]];
    Ok(kind.into())
}

/// A remainder: of the dividend's sign when `fmod` is set, of the divisor's otherwise.
fn modulo(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(if node.flag("fmod")? { BinaryKind::Rem } else { BinaryKind::Mod }.into())
}

fn bit_shift(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let kinds = [("LEFT", BinaryKind::ShiftLeft), ("RIGHT", BinaryKind::ShiftRight)];
    Ok(node.choice("direction", "", &kinds)?.into())
}

/// !x, as x ≠ true.
fn not(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let truth = truth(node)?;
    node.set_input(1, truth);
    Ok(BinaryKind::Xor.into())
}

/// Not x = x.
fn is_nan(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let x = node.inputs[0];
    let number = node.new_value("number");
    node.emit_before(BinaryKind::Equal.into(), &[x, x], number);
    let truth = truth(node)?;
    node.inputs = vec![Some(number), Some(truth)];
    Ok(BinaryKind::Xor.into())
}

/// x = ∞ or −∞, as the attributes ask.
fn is_inf(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let negative = node.int("detect_negative")?.unwrap_or(1) != 0;
    let positive = node.int("detect_positive")?.unwrap_or(1) != 0;
    let limit = match (negative, positive) {
        (_, true) => f64::INFINITY,
        (true, false) => f64::NEG_INFINITY,
        (false, false) => {
            let none = node.function(|f| {
                let (no, shape) = (f.scalar(0.0, DType::Bool), f.shape(f.input(0)?));
                f.expand(no, &shape)
            });
            return Ok(none.into());
        }
    };
    let infinite = node.function(move |f| {
        let x = f.input(0)?;
        let x = if negative && positive { f.unary(UnaryKind::Abs, x)? } else { x };
        f.compare(BinaryKind::Equal, x, limit)
    });
    Ok(infinite.into())
}

fn truth(node: &mut NodeReader<'_, '_>) -> Result<ValueId, Error> {
    let truth = Constant::new(DType::Bool, Shape::from([]), vec![1]);
    let truth = truth.ok_or_else(|| node.unsupported("no constant"))?;
    Ok(node.new_constant("true", truth))
}

fn write_binary(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Binary(op) = op else { return Err(mistaken(op)) };
    no_epilogue(&op.epilogue)?;
    match op.kind {
        BinaryKind::Rem => writer.int("fmod", 1),
        BinaryKind::ShiftLeft => writer.text("direction", "LEFT"),
        BinaryKind::ShiftRight => writer.text("direction", "RIGHT"),
        _ => {}
    }
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "Abs": [1, 6, 13] {1, 1, 1 => unary!(Abs)} write bare;
    "Acos": [7, 22] {1, 1, 1 => unary!(Acos)} write bare;
    "Acosh": [9, 22] {1, 1, 1 => unary!(Acosh)} write bare;
    "Add": [1, 6] {2, 2, 1 => |node| first_binary(node, BinaryKind::Add)}
        [7, 13, 14] {2, 2, 1 => binary!(Add)} write write_binary;
    "And": [1] {2, 2, 1 => |node| first_binary(node, BinaryKind::And)}
        [7] {2, 2, 1 => binary!(And)} write write_binary;
    "Asin": [7, 22] {1, 1, 1 => unary!(Asin)} write bare;
    "Asinh": [9, 22] {1, 1, 1 => unary!(Asinh)} write bare;
    "Atan": [7, 22] {1, 1, 1 => unary!(Atan)} write bare;
    "Atanh": [9, 22] {1, 1, 1 => unary!(Atanh)} write bare;
    "BitShift": [11, 28] {2, 2, 1 => bit_shift} write write_binary;
    "BitwiseAnd": [18] {2, 2, 1 => binary!(And)};
    "BitwiseNot": [18] {1, 1, 1 => body bitwise_not};
    "BitwiseOr": [18] {2, 2, 1 => binary!(Or)};
    "BitwiseXor": [18] {2, 2, 1 => binary!(Xor)};
    "Ceil": [1, 6, 13] {1, 1, 1 => unary!(Ceil)} write bare;
    "Clip": [1, 6] {1, 1, 1 => clip} [11, 12, 13] {1, 3, 1 => clip} write write_unary;
    "Cos": [7, 22] {1, 1, 1 => unary!(Cos)} write bare;
    "Cosh": [9, 22] {1, 1, 1 => unary!(Cosh)} write bare;
    "Div": [1, 6] {2, 2, 1 => |node| first_binary(node, BinaryKind::Div)}
        [7, 13, 14] {2, 2, 1 => binary!(Div)} write write_binary;
    "Elu": [1, 6, 22] {1, 1, 1 => elu} write write_unary;
    "Equal": [1] {2, 2, 1 => |node| first_binary(node, BinaryKind::Equal)}
        [7, 11, 13, 19] {2, 2, 1 => binary!(Equal)} write write_binary;
    "Erf": [9, 13] {1, 1, 1 => unary!(Erf)} write bare;
    "Exp": [1, 6, 13] {1, 1, 1 => unary!(Exp)} write bare;
    "Floor": [1, 6, 13] {1, 1, 1 => unary!(Floor)} write bare;
    "Greater": [1] {2, 2, 1 => |node| first_binary(node, BinaryKind::Greater)}
        [7, 9, 13] {2, 2, 1 => binary!(Greater)} write write_binary;
    "GreaterOrEqual": [12, 16] {2, 2, 1 => binary!(GreaterOrEqual)} write write_binary;
    "HardSigmoid": [1, 6, 22] {1, 1, 1 => hard_sigmoid} write write_unary;
    "HardSwish": [14, 22] {1, 1, 1 => unary!(HardSwish)} write bare;
    "IsInf": [10, 20] {1, 1, 1 => is_inf};
    "IsNaN": [9, 13, 20] {1, 1, 1 => is_nan};
    "LeakyRelu": [1, 6, 16] {1, 1, 1 => leaky_relu} write write_unary;
    "Less": [1] {2, 2, 1 => |node| first_binary(node, BinaryKind::Less)}
        [7, 9, 13] {2, 2, 1 => binary!(Less)} write write_binary;
    "LessOrEqual": [12, 16] {2, 2, 1 => binary!(LessOrEqual)} write write_binary;
    "Log": [1, 6, 13] {1, 1, 1 => unary!(Log)} write bare;
    "Max": [1, 6, 8, 12, 13] {1, MANY, 1 => |node| chain(node, BinaryKind::Max)} write write_binary;
    "Min": [1, 6, 8, 12, 13] {1, MANY, 1 => |node| chain(node, BinaryKind::Min)} write write_binary;
    "Mod": [10, 13, 28] {2, 2, 1 => modulo} write write_binary;
    "Mul": [1, 6] {2, 2, 1 => |node| first_binary(node, BinaryKind::Mul)}
        [7, 13, 14] {2, 2, 1 => binary!(Mul)} write write_binary;
    "Neg": [1, 6, 13] {1, 1, 1 => unary!(Neg)} write bare;
    "Not": [1] {1, 1, 1 => not};
    "Or": [1] {2, 2, 1 => |node| first_binary(node, BinaryKind::Or)}
        [7] {2, 2, 1 => binary!(Or)} write write_binary;
    "PRelu": [1, 6] {2, 2, 1 => body first_prelu}
        [7, 9, 16] {2, 2, 1 => binary!(PRelu)} write write_binary;
    "Pow": [1] {2, 2, 1 => |node| first_binary(node, BinaryKind::Pow)}
        [7, 12, 13, 15] {2, 2, 1 => binary!(Pow)} write write_binary;
    "Reciprocal": [1, 6, 13] {1, 1, 1 => unary!(Reciprocal)} write bare;
    "Relu": [1, 6, 13, 14] {1, 1, 1 => unary!(Relu)} write bare;
    "Round": [11, 22] {1, 1, 1 => unary!(Round)} write bare;
    "Sigmoid": [1, 6, 13] {1, 1, 1 => unary!(Sigmoid)} write bare;
    "Sign": [9, 13] {1, 1, 1 => unary!(Sign)} write bare;
    "Sin": [7, 22] {1, 1, 1 => unary!(Sin)} write bare;
    "Sinh": [9, 22] {1, 1, 1 => unary!(Sinh)} write bare;
    "Softplus": [1, 22] {1, 1, 1 => unary!(Softplus)} write bare;
    "Sqrt": [1, 6, 13] {1, 1, 1 => unary!(Sqrt)} write bare;
    "Sub": [1, 6] {2, 2, 1 => |node| first_binary(node, BinaryKind::Sub)}
        [7, 13, 14] {2, 2, 1 => binary!(Sub)} write write_binary;
    "Sum": [1, 6, 8, 13] {1, MANY, 1 => |node| chain(node, BinaryKind::Add)};
    "Tan": [7, 22] {1, 1, 1 => unary!(Tan)} write bare;
    "Tanh": [1, 6, 13] {1, 1, 1 => unary!(Tanh)} write bare;
    "Xor": [1] {2, 2, 1 => |node| first_binary(node, BinaryKind::Xor)}
        [7] {2, 2, 1 => binary!(Xor)} write write_binary;
}
