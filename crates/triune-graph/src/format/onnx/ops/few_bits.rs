//! Rows of tables whose elements are blocks of few bits.

use triune_tensor::DType;

use super::{Form, Meaning, NodeReader, Operator, Signature, operators, quant::by_element};
use crate::{Error, Op, ValueId, functions::Scope, ops::UnaryKind};

/// What `GatherBlockQuantized` says of its table.
#[derive(Clone, Copy)]
struct Table {
    /// The axis that indices choose from.
    gathered: i64,
    /// The axis that blocks lie along.
    axis: i64,
    block: usize,
    bits: u32,
}

/// Elements of a table as reals; operands table, indices, scales, zero points.
fn gather(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (gathered, axis) = (node.axis("gather_axis", 0)? as i64, node.axis("quantize_axis", 1)? as i64);
    let (block, bits) = (node.int("block_size")?.unwrap_or(128), node.int("bits")?.unwrap_or(4));
    let wide = usize::try_from(block).ok().filter(|block| *block >= 16 && block.is_power_of_two());
    let (Some(block), 2 | 4 | 8) = (wide, bits) else {
        return Err(node.unsupported(format!("blocks of {block} times {bits} bits")));
    };
    let table = Table { gathered, axis, block, bits: bits as u32 };
    Ok(node.function(move |f| table.rows(f)).into())
}

impl Table {
    fn rows(self, f: &mut Scope<'_, '_>) -> Result<ValueId, Error> {
        let (table, indices, scales) = (f.input(0)?, f.input(1)?, f.input(2)?);
        let dtype = f.dtype(table);
        let packed = dtype == DType::U8;
        let (gathered, axis) = (f.axis(table, self.gathered)?, f.axis(table, self.axis)?);
        let (rank, of_indices) = (f.rank(table), f.rank(indices));
        if gathered == axis || packed && (gathered != 0 || axis + 1 != rank) {
            return Err(f.unsupported(format!("blocks along axis {axis} gathered along axis {gathered}")));
        }
        // Elements of few bits are bytes on the way.
        let bytes = match dtype {
            DType::U8 | DType::U4 => DType::U8,
            DType::I4 => DType::I8,
            _ => return Err(f.wrong(format!("a table of {dtype}"))),
        };
        let chosen = |f: &mut Scope<'_, '_>, part: ValueId| {
            let part = if f.dtype(part) == dtype { f.cast(part, bytes)? } else { part };
            f.gather(part, gathered, indices)
        };
        let (table, of_scales) = (chosen(f, table)?, f.dtype(scales));
        let scales = chosen(f, scales)?;
        let zero_points = f.get(3).map(|zero_points| chosen(f, zero_points)).transpose()?;
        let axis = if axis < gathered { axis } else { axis + of_indices - 1 };
        let levels = |f: &mut Scope<'_, '_>, x: ValueId, count: Option<usize>| {
            let x = f.cast(x, DType::F32)?;
            if packed { self.digits(f, x, count) } else { Ok(x) }
        };
        let x = levels(f, table, None)?;
        let x = match zero_points {
            Some(zero_points) => {
                let blocks = f.shape(scales)[axis];
                let zero_points = levels(f, zero_points, Some(blocks))?;
                let zero_points = by_element(f, zero_points, x, axis as isize, self.block)?;
                f.sub(x, zero_points)?
            }
            // Bytes have it in the middle.
            None if packed => f.add_number(x, -f64::from(1_u32 << (self.bits - 1)))?,
            None => x,
        };
        let scales = f.cast(scales, DType::F32)?;
        let scales = by_element(f, scales, x, axis as isize, self.block)?;
        let y = f.mul(x, scales)?;
        f.cast(y, of_scales)
    }

    /// The digits of bytes along the last axis, the lowest first; so many of them, if it is said.
    fn digits(self, f: &mut Scope<'_, '_>, x: ValueId, count: Option<usize>) -> Result<ValueId, Error> {
        let (shape, per_byte) = (f.shape(x), 8 / self.bits as usize);
        let base = f64::from(1_u32 << self.bits);
        let (mut dims, last) = (shape.to_vec(), shape.rank() - 1);
        dims.push(1);
        let (mut rest, mut digits) = (x, Vec::new());
        for place in 1..=per_byte {
            let mut digit = rest;
            if place < per_byte {
                let quotient = f.mul_number(rest, 1.0 / base)?;
                let quotient = f.unary(UnaryKind::Floor, quotient)?;
                let higher = f.mul_number(quotient, base)?;
                (digit, rest) = (f.sub(rest, higher)?, quotient);
            }
            digits.push(f.reshape(digit, &dims)?);
        }
        let digits = f.concat(&digits, last + 1)?;
        dims.truncate(last + 1);
        dims[last] *= per_byte;
        let digits = f.reshape(digits, &dims)?;
        match count {
            Some(count) if count < dims[last] => f.slice(digits, last, 0, count as i64),
            _ => Ok(digits),
        }
    }
}

operators! {
    "com.microsoft";
    "GatherBlockQuantized": [1] {3, 4, 1 => gather};
}
