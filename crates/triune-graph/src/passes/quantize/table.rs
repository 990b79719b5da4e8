//! Functions of one 8-bit operand as tables of 256 results.

use std::sync::Arc;

use triune_tensor::{DType, QuantParams, Rounding};

use crate::{
    Op,
    ops::{Table, Unary, UnaryKind},
};

/// What a quantized value means: its element type and its quantization.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::passes) struct Quantized {
    pub(in crate::passes) dtype: DType,
    pub(in crate::passes) params: QuantParams,
}

impl Quantized {
    /// Whether its values have 8 bits, as tables want them.
    pub(in crate::passes) fn is_byte(self) -> bool {
        self.dtype.is_quantized()
    }
}

/// The integer that a byte pattern stands for.
pub(in crate::passes) fn integer(byte: u8, dtype: DType) -> i32 {
    if dtype == DType::I8 { i32::from(byte as i8) } else { i32::from(byte) }
}

/// The table that dequantizes, applies `function` in f64, rounds to f32 and quantizes.
pub(in crate::passes) fn tabulate(
    from: Quantized,
    to: Quantized,
    rounding: Rounding,
    function: impl Fn(f64) -> f64,
) -> Arc<[u8; 256]> {
    Arc::new(std::array::from_fn(|byte| {
        let x = from.params.dequantize(integer(byte as u8, from.dtype));
        to.params.quantize_by(rounding, function(f64::from(x)) as f32, to.dtype) as u8
    }))
}

/// The map of all 256 bytes of one 8-bit type and quantization to another, by way of a function of the real.
///
/// With a function: dequantize, apply it in f64, round to f32, quantize by `rounding`. Without one, halves to even:
/// dequantize, quantize; away from zero: round(f32(q − zero point) · f32(scale / scale)) + zero point, as `MegEngine`
/// converts between quantized types.
pub fn table(
    function: Option<UnaryKind>,
    (dtype, from): (DType, QuantParams),
    (to_dtype, to): (DType, QuantParams),
    rounding: Rounding,
) -> Table {
    let source = Quantized { dtype, params: from };
    let target = Quantized { dtype: to_dtype, params: to };
    let table = match (function, rounding) {
        (Some(kind), _) => tabulate(source, target, rounding, |x| kind.evaluate(x)),
        (None, Rounding::HalfToEven) => tabulate(source, target, rounding, |x| x),
        (None, Rounding::HalfAwayFromZero) => {
            let ratio = from.scale / to.scale;
            let steps = QuantParams { scale: 1.0, zero_point: to.zero_point };
            Arc::new(std::array::from_fn(|byte| {
                let q = integer(byte as u8, dtype) - from.zero_point;
                steps.quantize_by(rounding, q as f32 * ratio, to_dtype) as u8
            }))
        }
    };
    Table { table }
}

/// A function of one operand as an operator over integers, or one that keeps the real: a table of bytes, or the function itself
/// between 16-bit integers, whose table is made by [`q16_table`]. `None` between integers of 8 and of 16 bits.
pub(in crate::passes) fn mapping(
    function: Option<UnaryKind>,
    from: Quantized,
    to: Quantized,
    rounding: Rounding,
) -> Option<Op> {
    let kind = function.unwrap_or(UnaryKind::Identity);
    match (from.is_byte(), to.is_byte()) {
        (true, true) => Some(Op::Table(Table { table: tabulate(from, to, rounding, |x| kind.evaluate(x)) })),
        (false, false) if from.dtype == to.dtype => Some(Op::Unary(Unary { kind })),
        _ => None,
    }
}

/// The map of all 65,536 patterns of 16-bit integers to others, by way of a function of the real: dequantize, apply it in
/// f64, round to f32, quantize by `rounding`. Indexed by the unsigned pattern.
pub fn q16_table(function: UnaryKind, from: QuantParams, to: QuantParams, rounding: Rounding) -> Vec<i16> {
    (0..=u16::MAX)
        .map(|pattern| {
            let x = from.dequantize(i32::from(pattern.cast_signed()));
            let real = function.evaluate(f64::from(x)) as f32;
            to.quantize_by(rounding, real, DType::I16) as i16
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_parameters_make_the_identity() {
        let quantized = Quantized { dtype: DType::I8, params: QuantParams { scale: 0.037, zero_point: -11 } };
        let table = tabulate(quantized, quantized, Rounding::HalfToEven, |x| x);
        assert!((0..=255_u8).all(|byte| table[usize::from(byte)] == byte));
    }

    #[test]
    fn conversions_round_halves_as_asked() {
        let from = (DType::I8, QuantParams { scale: 0.5, zero_point: 0 });
        let to = (DType::I8, QuantParams { scale: 1.0, zero_point: -2 });
        let halves = |rounding| {
            let table = table(None, from, to, rounding).table;
            [1, 5, -1, -5_i8].map(|q| table[usize::from(q.cast_unsigned())].cast_signed() + 2)
        };
        assert_eq!(halves(Rounding::HalfToEven), [0, 2, 0, -2]);
        assert_eq!(halves(Rounding::HalfAwayFromZero), [1, 3, -1, -3]);
        let relu = table(Some(UnaryKind::Relu), from, to, Rounding::HalfAwayFromZero).table;
        assert_eq!([relu[3], relu[0xfd]].map(u8::cast_signed), [2 - 2, -2]);
    }

    #[test]
    fn signed_bytes_are_indexed_by_their_pattern() {
        let from = Quantized { dtype: DType::I8, params: QuantParams { scale: 1.0, zero_point: 0 } };
        let to = Quantized { dtype: DType::U8, params: QuantParams { scale: 1.0, zero_point: 0 } };
        let table = tabulate(from, to, Rounding::HalfToEven, |x| UnaryKind::Abs.evaluate(x));
        assert_eq!([table[0], table[5], table[0xfb], table[0x80]], [0, 5, 5, 128]);
    }
}
