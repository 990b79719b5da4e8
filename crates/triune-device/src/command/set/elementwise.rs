//! Commands that make each element of those in its place.

use triune_tensor::{
    Rounding,
    function::{BinaryKind, UnaryKind},
};

use super::super::{
    access::{Elements, dense, operand, table, with_last},
    table::commands,
    types::{AddParams, Addr, FeatureMap, Operand, Quant},
};

commands! {
    elementwise_list ($)
    /// 8-bit addition with broadcast; of `i16` clamp(round(f64(a)·ra + f64(b)·rb)), zero points and `k` 0.
    QAdd = 0x0030, "qadd", makes(|c| Elements::Part(c.dims, c.counted)) {
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// First operand.
        [in] a: Operand,
        /// Second operand.
        [in] b: Operand,
        /// Result.
        [out] output: Operand,
        /// The operation's constants.
        params: AddParams,
        /// How many results of how many are no padding of blocks, as time counts them; zeros: all.
        counted: [u32; 2],
    }

    /// 8-bit multiplication with broadcast: clamp(rint(f32((a − a₀)(b − b₀))·multiplier + zero point)) when halves go to
    /// even, clamp(round(f32((a − a₀)(b − b₀))·multiplier) + zero point) when they go away from zero; of `i16`
    /// clamp(round(f64(a·b)·f64(multiplier))), zero points 0.
    QMul = 0x0031, "qmul", makes(|c| Elements::Part(c.dims, c.counted)) {
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// First operand.
        [in] a: Operand,
        /// Second operand.
        [in] b: Operand,
        /// Result.
        [out] output: Operand,
        /// Integers of a, b and the result that stand for 0.
        zero_points: [i32; 3],
        /// f32(a's scale · b's scale) / the result's scale.
        multiplier: f32,
        /// How the product becomes an integer.
        rounding: Rounding,
        /// Smallest and largest result.
        clamp: [i32; 2],
        /// How many results of how many are no padding of blocks, as time counts them; zeros: all.
        counted: [u32; 2],
    }

    /// f32 function of two operands with broadcast.
    FBinary = 0x0032, "fbinary", makes(|c| c.dims) {
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// The function.
        kind: BinaryKind,
        /// First operand.
        [in] a: Operand,
        /// Second operand.
        [in] b: Operand,
        /// Result.
        [out] output: Operand,
        /// Applied last.
        activation: UnaryKind,
    }

    /// Function of one real, element by element; may work in place. Over f64, elements lie one after the other.
    FUnary = 0x0033, "funary", makes(|c| c.output) {
        /// Input, f32 or f64.
        [in] input: FeatureMap,
        /// Output of the same type and extents.
        [out] output: FeatureMap,
        /// The function.
        function: UnaryKind,
    }

    /// Map of all patterns of 8 or 16 bits, element by element; may work in place.
    Table = 0x0034, "table", makes(|c| c.output) {
        /// Input, `i8`, `u8` or `i16`.
        [in] input: FeatureMap,
        /// Output of the same extents, `i8` or `u8`; `i16` of `i16`.
        [out] output: FeatureMap,
        /// 256 bytes, or 65,536 words of 16 bits, indexed by the unsigned pattern.
        [const; |c| table(c.input.dtype)] table: Addr,
    }

    /// Map of all patterns of 8 bits, element by element, by a table of each channel or of each row; may work in place.
    Tables = 0x0038, "tables", makes(|c| c.output) {
        /// Input, `i8` or `u8`.
        [in] input: FeatureMap,
        /// Output of the same extents, `i8` or `u8`.
        [out] output: FeatureMap,
        /// 256 bytes for each channel or row, indexed by the unsigned pattern.
        [const; |c| dense(256, [if c.by_rows { c.input.h } else { c.input.c }])] tables: Addr,
        /// Whether rows have tables, not channels.
        by_rows: bool,
    }

    /// f32 to 8 or 16 bit: clamp(rint(x / scale) + zero point) when halves go to even, clamp(round(x · f32(1/scale)) + zero
    /// point) when they go away from zero.
    Quantize = 0x0040, "quantize", makes(|c| c.output) {
        /// Input, f32.
        [in] input: FeatureMap,
        /// Output, `i8`, `u8`, `i16` or `u16`, of the same extents.
        [out] output: FeatureMap,
        /// Meaning of the output.
        quant: Quant,
        /// How a quotient becomes an integer.
        rounding: Rounding,
    }

    /// 8 bit, 16 bit or i32 to f32: f32(q − zero point)·scale.
    Dequantize = 0x0041, "dequantize", makes(|c| c.output) {
        /// Input, `i8`, `u8`, `i16`, `u16` or `i32`.
        [in] input: FeatureMap,
        /// Output, f32, of the same extents.
        [out] output: FeatureMap,
        /// Meaning of the input.
        quant: Quant,
    }

    /// As `quantize` to 8 bit, with a meaning that is computed: clamp(rint(x / scale) + zero point), or clamp(round(x · f32(1/scale)) +
    /// zero point) when halves go away from zero; what is no number by this scale becomes the type's least integer.
    QuantizeBy = 0x0043, "quantizeby", makes(|c| c.output) {
        /// Input, f32.
        [in] input: FeatureMap,
        /// Output, `i8` or `u8`, of the same extents.
        [out] output: FeatureMap,
        /// The scale, one f32.
        [in; |_| dense(4, [1])] scale: Addr,
        /// The zero point, one integer of the output's type. Without it 0.
        [in; |_| dense(1, [1])] zero_point: Option<Addr>,
        /// How a quotient becomes an integer.
        rounding: Rounding,
    }

    /// Function of two numbers of one type with broadcast: integer types (arithmetic wraps around), bool (logic, extremes),
    /// f64; questions over these and f32. A quotient by an integer 0 is 0.
    Binary = 0x0035, "binary", makes(|c| c.dims) {
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// The function.
        kind: BinaryKind,
        /// First operand.
        [in] a: Operand,
        /// Second operand, of the same type.
        [in] b: Operand,
        /// Result, of the same type; bool for questions.
        [out] output: Operand,
    }

    /// One of two operands, element by element.
    Select = 0x0036, "select", makes(|c| c.dims) {
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// Bool.
        [in] condition: Operand,
        /// Taken where the condition is not 0.
        [in] a: Operand,
        /// Taken elsewhere; of the same type.
        [in] b: Operand,
        /// Result, of the same type.
        [out] output: Operand,
    }

    /// f32 product of two operands, to which a third one is added or by which it is multiplied, with broadcast: both results are rounded.
    FTriple = 0x0037, "ftriple", makes(|c| c.dims) {
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// `add` or `mul`: what is done with the third operand.
        then: BinaryKind,
        /// First factor.
        [in] a: Operand,
        /// Second factor.
        [in] b: Operand,
        /// Third operand.
        [in] c: Operand,
        /// Result.
        [out] output: Operand,
    }

    /// f32 rows whose first elements turn in pairs by angles: a pair (a, b) becomes a·cos − b·sin and b·cos + a·sin, every product,
    /// difference and sum rounded; what stands behind the pairs of a row stays as it is.
    Rotate = 0x0039, "rotate", makes(|c| c.dims) {
        /// Extents, outermost first; unused ones are 1. The last is that of the rows, whose elements lie one after the other.
        dims: [u32; 6],
        /// Angles, and pairs of a row.
        pairs: u32,
        /// Whether a pair's elements are neighbours; else the second ones stand behind all first ones.
        interleaved: bool,
        /// Rows.
        [in] input: Operand,
        /// Cosines of the angles, which are the last extent.
        [in; |c| operand(&c.cosines, with_last(c.dims, c.pairs))] cosines: Operand,
        /// Sines of the angles.
        [in; |c| operand(&c.sines, with_last(c.dims, c.pairs))] sines: Operand,
        /// Result.
        [out] output: Operand,
    }

    /// The elements in another type. Integers give their low bits; floats are cut towards 0 into 64 bits, NaN to 0, and give
    /// the low bits of that; into floats, to nearest even; beyond the largest, infinity, or no number where there is none. Bool: 0, or 1
    /// for what is not 0.
    Convert = 0x0042, "convert", makes(|c| c.dims) {
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// Input, any type.
        [in] input: Operand,
        /// Output, any type.
        [out] output: Operand,
    }
}
