//! Commands over an axis.

use triune_tensor::{DType, Rounding, function::ReduceKind};

use super::super::{
    access::{axis, bytes, dense, gone, kept, operand},
    table::commands,
    types::{Addr, Operand, Quant},
};

commands! {
    rows_list ($)
    /// 8-bit softmax over the middle of `[outer, len, inner]`, dense.
    QSoftmax = 0x0050, "qsoftmax", makes(|c| c.dims) {
        /// Input.
        [in; |c| dense(bytes(c.dtype), c.dims)] input: Addr,
        /// Output.
        [out; |c| dense(bytes(c.dtype), c.dims)] output: Addr,
        /// `i8` or `u8`, of both.
        dtype: DType,
        /// Extents: outer, len, inner.
        dims: [u32; 3],
        /// Meaning of the input.
        input_quant: Quant,
        /// Meaning of the output.
        output_quant: Quant,
    }

    /// f32 softmax over the middle of `[outer, len, inner]`, dense.
    FSoftmax = 0x0051, "fsoftmax", makes(|c| c.dims) {
        /// Input.
        [in; |c| dense(4, c.dims)] input: Addr,
        /// Output.
        [out; |c| dense(4, c.dims)] output: Addr,
        /// Extents: outer, len, inner.
        dims: [u32; 3],
    }

    /// 8-bit normalization to mean 0 and variance 1 over the middle of `[outer, len, inner]`, dense: S = Σq and D = len·Σq² − S²
    /// are exact, r = f32((len·q − S) / √(D + len²·epsilon/scale²)) in f64; then r·gamma + beta in f32, quantized. If it is not
    /// `centred`, to a mean square of 1: q counts from the input's zero point, and S is 0.
    QNorm = 0x0052, "qnorm", makes(|c| c.dims) {
        /// Input.
        [in; |c| dense(bytes(c.dtype), c.dims)] input: Addr,
        /// Output.
        [out; |c| dense(bytes(c.dtype), c.dims)] output: Addr,
        /// `i8` or `u8`, of both.
        dtype: DType,
        /// Extents: outer, len (at most 4,194,304), inner.
        dims: [u32; 3],
        /// Meaning of the input; its zero point plays no part if it is `centred`.
        input_quant: Quant,
        /// Meaning of the output.
        output_quant: Quant,
        /// Added to the variance; above 0.
        epsilon: f32,
        /// `len` factors, f32. Without them 1.
        [const; |c| dense(4, [c.dims[1]])] gamma: Option<Addr>,
        /// `len` addends, f32. Without them 0.
        [const; |c| dense(4, [c.dims[1]])] beta: Option<Addr>,
        /// How a real becomes an integer, as in `quantize`.
        rounding: Rounding,
        /// Whether the mean is taken off.
        centred: bool,
    }

    /// f32 normalization of rows to mean 0 and variance 1, dense: sums in f64; mean, variance, 1/√(variance + epsilon), and each
    /// product and sum with gamma and beta behind it, are rounded to f32.
    FNorm = 0x0053, "fnorm", makes(|c| c.dims) {
        /// Input.
        [in; |c| dense(4, c.dims)] input: Addr,
        /// Output.
        [out; |c| dense(4, c.dims)] output: Addr,
        /// Extents: rows, elements of a row.
        dims: [u32; 2],
        /// Added to the variance; finite, not below 0.
        epsilon: f32,
        /// A factor per element of a row, f32. Without them 1.
        [const; |c| dense(4, [c.dims[1]])] gamma: Option<Addr>,
        /// An addend per element of a row, f32. Without them 0.
        [const; |c| dense(4, [c.dims[1]])] beta: Option<Addr>,
    }

    /// The logarithm of an f32 softmax over the middle of `[outer, len, inner]`, dense: x − max − ln Σ e^(x − max).
    FLogSoftmax = 0x0054, "flogsoftmax", makes(|c| c.dims) {
        /// Input.
        [in; |c| dense(4, c.dims)] input: Addr,
        /// Output.
        [out; |c| dense(4, c.dims)] output: Addr,
        /// Extents: outer, len, inner.
        dims: [u32; 3],
    }

    /// One result of all elements along the axes that go. Sums, means and products of floats are carried in f64;
    /// integers in 64 bits, and wrap around in their type.
    Reduce = 0x0070, "reduce", makes(|c| kept(c.dims, c.axes)), taps(|c| gone(c.dims, c.axes)) {
        /// The input's extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// The axes that go: bit i is axis i.
        axes: u32,
        /// What is computed.
        kind: ReduceKind,
        /// Input, any integer type, bool (smallest and largest only), f32 or f64.
        [in; |c| operand(&c.input, c.dims)] input: Operand,
        /// Output, of the same type; strides along axes that go are not read.
        [out] output: Operand,
    }

    /// Where along one axis the largest or smallest element stands. A NaN wins.
    ArgReduce = 0x0071, "argreduce", makes(|c| kept(c.dims, axis(c.axis))), taps(|c| gone(c.dims, axis(c.axis))) {
        /// The input's extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// The axis that goes.
        axis: u32,
        /// Whether the largest is looked for.
        largest: bool,
        /// Whether the last of equal ones is taken, rather than the first.
        last: bool,
        /// Input, any integer type, f32 or f64.
        [in; |c| operand(&c.input, c.dims)] input: Operand,
        /// Output, `i32` or `i64`; the stride along the axis is not read.
        [out] output: Operand,
    }
}
