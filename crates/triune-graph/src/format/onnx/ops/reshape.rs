//! Operators that change or tell a tensor's extents or element type, not the elements' order.

use triune_tensor::{DType, Shape};

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, bare, mistaken, operators,
    strings,
};
use crate::{
    Constant, Error, Op, ValueId,
    functions::Scope,
    ops::{
        BinaryKind, BitCast, Cast, ConstantOfShape, Expand, Flatten, Identity, Reshape, ShapeOf, Squeeze,
        UnaryKind, Unsqueeze,
    },
};

fn reshape(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 5 {
        let shape = node.ints("shape")?.ok_or_else(|| node.unsupported("attribute 'shape' is missing"))?;
        let shape = node.new_ints("shape", &shape);
        node.set_input(1, shape);
    }
    Ok(Op::Reshape(Reshape { allow_zero: node.flag("allowzero")? }))
}

fn write_reshape(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Reshape(op) = op else { return Err(mistaken(op)) };
    if op.allow_zero {
        writer.needs(14);
        writer.int("allowzero", 1);
    }
    Ok(())
}

fn flatten(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    Ok(Op::Flatten(Flatten { axis: node.axis("axis", 1)? }))
}

fn write_flatten(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Flatten(op) = op else { return Err(mistaken(op)) };
    writer.int("axis", op.axis as i64);
    Ok(())
}

/// Before opset 13 the axes are an attribute.
fn axes(node: &mut NodeReader<'_, '_>) -> Result<(), Error> {
    if node.since < 13
        && let Some(axes) = node.ints("axes")?
    {
        let axes = node.new_ints("axes", &axes);
        node.set_input(1, axes);
    }
    Ok(())
}

fn unsqueeze(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    axes(node)?;
    if node.inputs.get(1).copied().flatten().is_none() {
        return Err(node.unsupported("axes are missing"));
    }
    Ok(Op::Unsqueeze(Unsqueeze))
}

fn squeeze(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    axes(node)?;
    Ok(Op::Squeeze(Squeeze))
}

fn shape_of(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let start = node.axis("start", 0)?;
    let end = if node.has("end") { Some(node.axis("end", 0)?) } else { None };
    Ok(Op::ShapeOf(ShapeOf { start, end }))
}

fn write_shape_of(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::ShapeOf(op) = op else { return Err(mistaken(op)) };
    if op.start != 0 || op.end.is_some() {
        writer.needs(15);
        writer.int("start", op.start as i64);
    }
    if let Some(end) = op.end {
        writer.int("end", end as i64);
    }
    Ok(())
}

fn constant_of_shape(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let value = match node.tensor("value")? {
        Some(value) if value.elements() == 1 => value.reshaped(Shape::from([1])),
        Some(_) => return Err(node.unsupported("attribute 'value' does not have one element")),
        None => Constant::from_f32(Shape::from([1]), &[0.0]),
    };
    let value = value.ok_or_else(|| node.unsupported("attribute 'value'"))?;
    Ok(Op::ConstantOfShape(ConstantOfShape { value }))
}

fn write_constant_of_shape(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::ConstantOfShape(op) = op else { return Err(mistaken(op)) };
    writer.tensor("value", &op.value);
    Ok(())
}

fn cast(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if let Some(op) = strings::cast(node)? {
        return Ok(op);
    }
    let conversion = Conversion::read(node)?;
    let to = node.dtype("to")?.ok_or_else(|| node.unsupported("attribute 'to' is missing"))?;
    if conversion.is_plain(to) {
        return Ok(Op::Cast(Cast { to }));
    }
    Ok(node.function(move |f| conversion.apply(f, f.input(0)?, to)).into())
}

/// Which of two powers of two a real becomes that lies between them.
#[derive(Clone, Copy, PartialEq)]
enum Powers {
    Up,
    Down,
    Nearest,
}

/// How reals become those of 8 bits.
#[derive(Clone, Copy)]
pub(super) struct Conversion {
    /// Whether those beyond the largest one become that.
    saturates: bool,
    powers: Powers,
}

impl Conversion {
    pub(super) fn read(node: &mut NodeReader<'_, '_>) -> Result<Self, Error> {
        let modes = [("up", Powers::Up), ("down", Powers::Down), ("nearest", Powers::Nearest)];
        Ok(Self {
            saturates: node.int("saturate")?.unwrap_or(1) != 0,
            powers: node.choice("round_mode", "up", &modes)?,
        })
    }

    /// Whether it is the plain conversion.
    fn is_plain(self, to: DType) -> bool {
        match to {
            DType::F8E8M0 => !self.saturates && self.powers == Powers::Up,
            // Reals of 4 bits have nothing beyond the largest one.
            DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ => !self.saturates,
            _ => true,
        }
    }

    pub(super) fn apply(self, f: &mut Scope<'_, '_>, x: ValueId, to: DType) -> Result<ValueId, Error> {
        if self.is_plain(to) || f.dtype(x) == to {
            return f.cast(x, to);
        }
        let largest = to.largest().unwrap_or(f64::INFINITY) as f32;
        let mut x = f.cast(x, DType::F32)?;
        if to == DType::F8E8M0 {
            // Infinity is no number here, saturated or not.
            let infinity = f.compare(BinaryKind::Less, x, f64::from(f32::MAX))?;
            let finite = f.compare(BinaryKind::Equal, x, f64::from(f32::MAX))?;
            let finite = f.binary(BinaryKind::Or, infinity, finite)?;
            let mut power = match self.powers {
                Powers::Up => x,
                Powers::Down => power_below(f, x, false)?,
                Powers::Nearest => power_below(f, x, true)?,
            };
            if self.saturates {
                power = f.unary(UnaryKind::Clip([f32::MIN, largest]), power)?;
            }
            x = f.choose(finite, power, x)?;
            return f.cast(x, to);
        }
        x = f.unary(UnaryKind::Clip([-largest, largest]), x)?;
        f.cast(x, to)
    }
}

/// The power of two below an f32's magnitude, or the nearest one: half of the way counts as above, but not below the normal reals.
fn power_below(f: &mut Scope<'_, '_>, x: ValueId, nearest: bool) -> Result<ValueId, Error> {
    let mut bits = f.op(Op::BitCast(BitCast { to: DType::I32 }), &[x])?;
    if nearest {
        let magnitude = f.integer(0x7fff_ffff, DType::I32);
        bits = f.binary(BinaryKind::And, bits, magnitude)?;
        let normal = f.integer(0x0080_0000, DType::I32);
        let normal = f.binary(BinaryKind::GreaterOrEqual, bits, normal)?;
        let one = f.cast(normal, DType::I32)?;
        let half = f.integer(0x003f_ffff, DType::I32);
        bits = f.add(bits, half)?;
        bits = f.add(bits, one)?;
    }
    let exponent = f.integer(0x7f80_0000, DType::I32);
    let bits = f.binary(BinaryKind::And, bits, exponent)?;
    f.op(Op::BitCast(BitCast { to: DType::F32 }), &[bits])
}

/// The bits of each element taken for another type's.
fn bit_cast(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let to = node.dtype("to")?.ok_or_else(|| node.unsupported("attribute 'to' is missing"))?;
    if to != DType::Bool {
        return Ok(Op::BitCast(BitCast { to }));
    }
    // Truth values have two patterns only.
    Ok(node
        .function(|f| {
            let bytes = f.op(Op::BitCast(BitCast { to: DType::U8 }), &[f.input(0)?])?;
            f.compare(BinaryKind::NotEqual, bytes, 0.0)
        })
        .into())
}

fn write_bit_cast(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::BitCast(op) = op else { return Err(mistaken(op)) };
    writer.needs(26);
    writer.dtype("to", op.to);
    Ok(())
}

fn write_cast(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Cast(op) = op else { return Err(mistaken(op)) };
    writer.dtype("to", op.to);
    if op.to.is_storage() && op.to.largest().is_some() {
        writer.needs(19);
        writer.int("saturate", 0);
    }
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "BitCast": [26] {1, 1, 1 => bit_cast} write write_bit_cast;
    "Cast": [1] {refused "its element type is a name before opset 6"}
        [6, 9, 13, 19, 21, 23, 24, 25, 28] {1, 1, 1 => cast} write write_cast;
    "ConstantOfShape": [9, 20, 21, 23, 24, 25] {1, 1, 1 => constant_of_shape} write write_constant_of_shape;
    "Expand": [8, 13] {2, 2, 1 => |_| Ok(Op::Expand(Expand))} write bare;
    "Flatten": [1, 9, 11, 13, 21, 23, 24, 25] {1, 1, 1 => flatten} write write_flatten;
    "Identity": [1, 13, 14, 16, 19, 21, 23, 24, 25] {1, 1, 1 => |_| Ok(Op::Identity(Identity))} write bare;
    "Reshape": [1] {1, 1, 1 => reshape} [5, 13, 14, 19, 21, 23, 24, 25] {2, 2, 1 => reshape} write write_reshape;
    "Shape": [1, 13, 15, 19, 21, 23, 24, 25] {1, 1, 1 => shape_of} write write_shape_of;
    "Squeeze": [1, 11] {1, 1, 1 => squeeze} [13, 21, 23, 24, 25] {1, 2, 1 => squeeze} write bare;
    "Unsqueeze": [1, 11] {1, 1, 1 => unsqueeze} [13, 21, 23, 24, 25] {2, 2, 1 => unsqueeze} write bare;
}
