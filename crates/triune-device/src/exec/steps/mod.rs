//! One adapter per command: operands checked against the command's rules, kernel made.

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
use crate::Command;

/// The types that integer operators compute on.
const EIGHT_BIT: &[DType] = &[DType::I8, DType::U8];
/// The type of integers of 16 bits, which are symmetric.
const SIXTEEN_BIT: &[DType] = &[DType::I16];
/// Their range.
const SIXTEEN_BIT_RANGE: [i32; 2] = [i16::MIN as i32, i16::MAX as i32];
/// The type that float operators compute on.
const FLOAT: &[DType] = &[DType::F32];

/// Checks a command and makes it ready to run.
pub(super) fn prepare(checker: &Checker<'_>, command: &Command) -> Result<Prepared> {
    match command {
        Command::End(_) => bad("opcode", "end is not executed"),
        Command::Copy(command) => movement::copy(checker, command),
        Command::Fill(command) => movement::fill(checker, command),
        Command::QConv(command) => conv::qconv(checker, command),
        Command::FConv(command) => conv::fconv(checker, command),
        Command::FMatMul(command) => matmul::fmatmul(checker, command),
        Command::QMatMul(command) => matmul::qmatmul(checker, command),
        Command::IMatMul(command) => matmul::imatmul(checker, command),
        Command::TMatMul(command) => matmul::tmatmul(checker, command),
        Command::QuantizeBy(command) => quantize::quantize_by(checker, command),
        Command::Weigh(command) => warp::weigh(checker, command),
        Command::Running(command) => index::running(checker, command),
        Command::Recurrence(command) => recurrence::recurrence(checker, command),
        Command::Pool(command) => pooling::pool(checker, command),
        Command::GlobalPool(command) => pooling::global_pool(checker, command),
        Command::QAdd(command) => eltwise::qadd(checker, command),
        Command::QMul(command) => eltwise::qmul(checker, command),
        Command::FBinary(command) => eltwise::fbinary(checker, command),
        Command::FUnary(command) => eltwise::funary(checker, command),
        Command::Table(command) => eltwise::table(checker, command),
        Command::Quantize(command) => quantize::quantize(checker, command),
        Command::Dequantize(command) => quantize::dequantize(checker, command),
        Command::QSoftmax(command) => softmax::qsoftmax(checker, command),
        Command::QNorm(command) => softmax::qnorm(checker, command),
        Command::FNorm(command) => softmax::fnorm(checker, command),
        Command::FSoftmax(command) => softmax::fsoftmax(checker, command),
        Command::Resize(command) => movement::resize(checker, command),
        Command::Reduce(command) => reduce::reduce(checker, command),
        Command::ArgReduce(command) => reduce::arg_reduce(checker, command),
        Command::Warp(command) => warp::warp(checker, command),
        Command::Binary(command) => typed::binary(checker, command),
        Command::Select(command) => typed::select(checker, command),
        Command::Convert(command) => typed::convert(checker, command),
        Command::Take(command) => index::take(checker, command),
        Command::Put(command) => index::put(checker, command),
        Command::Order(command) => index::order(checker, command),
    }
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
