//! One adapter per command: operands checked against the command's rules, kernel made.

mod attention;
mod conv;
mod eltwise;
mod index;
mod matmul;
mod movement;
mod pooling;
mod quantize;
mod recurrence;
mod reduce;
mod softmax;
mod typed;
mod warp;

use triune_kernels::Error as KernelError;
use triune_tensor::DType;

use super::{
    check::{Checker, Result, bad, expect_dtype},
    operands::Prepared,
};
use crate::{
    Command,
    command::{self, with_command},
};

/// The types that integer operators compute on.
const EIGHT_BIT: &[DType] = &[DType::I8, DType::U8];
/// The type of integers of 16 bits, which are symmetric.
const SIXTEEN_BIT: &[DType] = &[DType::I16];
/// Their range.
const SIXTEEN_BIT_RANGE: [i32; 2] = [i16::MIN as i32, i16::MAX as i32];
/// The type that float operators compute on.
const FLOAT: &[DType] = &[DType::F32];

/// A command that can be checked and made ready to run.
trait Prepare {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared>;
}

impl Prepare for command::End {
    fn prepare(&self, _: &Checker<'_>) -> Result<Prepared> {
        bad("opcode", "end is not executed")
    }
}

/// Checks a command and makes it ready to run.
pub(super) fn prepare(checker: &Checker<'_>, command: &Command) -> Result<Prepared> {
    with_command!(command, command => command.prepare(checker))
}

/// Evaluates an expression with `$type` as the element type that a `DType` stands for; bool counts as u8, and reals of 16 bits
/// and what is only stored have no arithmetic of their own.
macro_rules! with_number {
    ($dtype:expr, $type:ident => $body:expr) => {
        with_number!(@each $dtype, $type, $body, [
            Bool: u8, U8: u8, I8: i8, U16: u16, I16: i16, U32: u32, I32: i32, U64: u64, I64: i64, F32: f32, F64: f64
        ])
    };
    (@each $dtype:expr, $type:ident, $body:expr, [$($variant:ident: $element:ty),*]) => {
        match $dtype {
            $(triune_tensor::DType::$variant => {
                type $type = $element;
                $body
            })*
            _ => Err(triune_kernels::Error::Invalid("the type is converted before it is computed on")),
        }
    };
}
use with_number;

/// Bytes as elements of another type. Decoding has checked address and strides, so this only fails on a scratch buffer
/// whose base is not aligned.
fn elements<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> std::result::Result<&[T], KernelError> {
    bytemuck::try_cast_slice(bytes).map_err(|_| KernelError::Invalid("operand is not aligned to its type"))
}

/// As [`elements`], to be written.
fn elements_mut<T: bytemuck::Pod>(bytes: &mut [u8]) -> std::result::Result<&mut [T], KernelError> {
    bytemuck::try_cast_slice_mut(bytes)
        .map_err(|_| KernelError::Invalid("operand is not aligned to its type"))
}

/// Refuses scales that no meaning can be given to.
fn expect_scale(field: &str, scale: f32) -> Result<()> {
    if scale.is_finite() && scale > 0.0 {
        Ok(())
    } else {
        bad(field, format!("the scale {scale} is not above 0"))
    }
}

/// Refuses any zero point of a 16-bit integer but 0.
fn expect_zero(field: &str, zero_point: i32) -> Result<()> {
    if zero_point == 0 { Ok(()) } else { bad(field, format!("is {zero_point}, 16-bit integers have 0")) }
}

/// Both operands' types, equal and allowed.
fn expect_equal_dtypes(input: DType, output: DType, allowed: &[DType]) -> Result<()> {
    expect_dtype("input", input, allowed)?;
    expect_dtype("output", output, &[input])
}
