//! The table of commands.

use triune_tensor::{
    DType, Requantize, Rounding,
    function::{
        BinaryKind, BorderMode, CellKind, CoordinateMode, PoolKind, ReduceKind, ResizeMode, Sampling,
        ScatterKind, UnaryKind,
    },
};

use super::access::{
    Access, Accessing, Elements, Use, axis, batches, bytes, dense, gone, in_blocks, kept, operand, product,
    strided, table, weights, with_last,
};
use super::codec::{Field, FieldError, HEADER_WORDS, body};
use super::table::{access_of, commands, optional, use_of};
use super::types::{AddParams, Addr, Addressed, FeatureMap, Operand, Quant, RequantTarget, Window};

commands! {
    ($)
    /// Ends the program; words behind it are not read.
    End = 0x0000, "end" {}

    /// Copies elements between two strided layouts: transposes, slices, parts of a concatenation, broadcasts.
    Copy = 0x0001, "copy", makes(|c| c.dims) {
        /// Bytes of one element: 1, 2, 4 or 8.
        elem_bytes: u32,
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// First element read.
        [in; |c| strided(c.elem_bytes, c.dims, c.src_strides)] src: Addr,
        /// Bytes from one element read to the next; 0 repeats.
        src_strides: [u64; 6],
        /// First element written.
        [out; |c| strided(c.elem_bytes, c.dims, c.dst_strides)] dst: Addr,
        /// Bytes from one element written to the next.
        dst_strides: [u64; 6],
    }

    /// Writes one value to every element of a strided layout.
    Fill = 0x0002, "fill", makes(|c| c.dims) {
        /// Bytes of one element: 1, 2, 4 or 8.
        elem_bytes: u32,
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// First element written.
        [out; |c| strided(c.elem_bytes, c.dims, c.dst_strides)] dst: Addr,
        /// Bytes from one element written to the next.
        dst_strides: [u64; 6],
        /// The element's bytes, little endian, in the low `elem_bytes` bytes; the others 0.
        value: u64,
    }

    /// Integer convolution. 8 bit: i32 accumulator, plus bias, requantized, then limits, table and addition as given.
    ///
    /// acc = Σ (x − zero point)·w + bias; q = clamp(round(f32(acc)·multiplier) + zero point of `result`). A matrix
    /// product is a 1×1 convolution over h = 1, w = M.
    ///
    /// 16 bit (`i16` input, weights and output): q = clamp(round(f64(acc)·f64(multiplier))), acc in i64, all zero points 0,
    /// neither table nor addition.
    QConv = 0x0010, "qconv", makes(|c| c.output) {
        /// Input, `i8`, `u8` or `i16`.
        [in] input: FeatureMap,
        /// Output, `i8` or `u8`, or `i16`.
        [out] output: FeatureMap,
        /// The window.
        window: Window,
        /// Weights, i8 or i16: output channel, window row, window column, input channel of the group; dense, or in blocks.
        [const; |c| weights(&c.input, &c.output, &c.window)] weights: Addr,
        /// Output and input channels of a block of weights: block of outputs, block of inputs, window row, window column,
        /// output, input, with zeros for channels that fill the last block. Zeros: no blocks.
        weight_blocks: [u32; 2],
        /// One i32 per output channel.
        [const; |c| dense(4, [c.output.c])] bias: Option<Addr>,
        /// f32 multipliers.
        [const; |c| dense(4, [c.multipliers])] multiplier: Addr,
        /// Number of multipliers: 1 or one per output channel.
        multipliers: u32,
        /// The input's integer for 0.
        input_zero_point: i32,
        /// What the accumulator is requantized to, before table and addition.
        result: RequantTarget,
        /// How the scaled accumulator becomes an integer.
        rounding: Rounding,
        /// Smallest and largest requantized integer, before table and addition.
        clamp: [i32; 2],
        /// 256 bytes, indexed by the requantized byte's unsigned pattern.
        [const; |_| dense(256, [1])] table: Option<Addr>,
        /// Second operand of a fused addition; needs `add`.
        [in] residual: Option<FeatureMap>,
        /// Parameters of the fused addition; a is the convolution's result if `conv_is_a`.
        add: Option<AddParams>,
        /// Whether the convolution's result is the addition's first operand.
        conv_is_a: bool,
    }

    /// f32 convolution; the addition of `residual` comes before the activation.
    FConv = 0x0011, "fconv", makes(|c| c.output) {
        /// Input, f32.
        [in] input: FeatureMap,
        /// Output, f32.
        [out] output: FeatureMap,
        /// The window.
        window: Window,
        /// Weights, f32, dense: output channel, window row, window column, input channel of the group.
        [const; |c| weights(&c.input, &c.output, &c.window)] weights: Addr,
        /// One f32 per output channel.
        [const; |c| dense(4, [c.output.c])] bias: Option<Addr>,
        /// Added to the result.
        [in] residual: Option<FeatureMap>,
        /// Applied last.
        activation: UnaryKind,
    }

    /// f32 matrix product of two feature maps: `out[b, m, n] = Σ a[b, m, k]·b[b or 0, k, n] + bias[n]`; all dense.
    FMatMul = 0x0012, "fmatmul", makes(|c| [c.batch, c.m, c.n]) {
        /// Number of products.
        batch: u32,
        /// Rows of the result.
        m: u32,
        /// Columns of the result.
        n: u32,
        /// Length of the inner products.
        k: u32,
        /// First operand.
        [in; |c| dense(4, [c.batch, c.m, c.k])] a: Addr,
        /// Whether a is stored as `[k, m]`.
        transpose_a: bool,
        /// Second operand.
        [in; |c| dense(4, [batches(c.shared_b, c.batch), c.k, c.n])] b: Addr,
        /// Whether b is stored as `[n, k]`.
        transpose_b: bool,
        /// Whether all products use the same b.
        shared_b: bool,
        /// One f32 per column.
        [const; |c| dense(4, [c.n])] bias: Option<Addr>,
        /// The result.
        [out; |c| dense(4, [c.batch, c.m, c.n])] output: Addr,
        /// Applied last.
        activation: UnaryKind,
    }

    /// 8-bit matrix product of two feature maps: `out[b, m, n]` = clamp(round(f32(Σ (a − a₀)·(b − b₀))·multiplier) +
    /// zero point of `result`), the sum exact; all dense. An inner product is at most 33,025 long.
    QMatMul = 0x0014, "qmatmul", makes(|c| [c.batch, c.m, c.n]) {
        /// Number of products.
        batch: u32,
        /// Rows of the result.
        m: u32,
        /// Columns of the result.
        n: u32,
        /// Length of the inner products.
        k: u32,
        /// First operand.
        [in; |c| dense(1, [c.batch, c.m, c.k])] a: Addr,
        /// Its type, `i8` or `u8`, and its integer for 0.
        a_target: RequantTarget,
        /// Whether a is stored as `[k, m]`.
        transpose_a: bool,
        /// Second operand.
        [in; |c| dense(1, [batches(c.shared_b, c.batch), c.k, c.n])] b: Addr,
        /// Its type, `i8` or `u8`, and its integer for 0.
        b_target: RequantTarget,
        /// Whether b is stored as `[n, k]`.
        transpose_b: bool,
        /// Whether all products use the same b.
        shared_b: bool,
        /// The result.
        [out; |c| dense(1, [c.batch, c.m, c.n])] output: Addr,
        /// Its type, `i8` or `u8`, and its integer for 0.
        result: RequantTarget,
        /// f32(a's scale · b's scale) / the result's scale.
        multiplier: f32,
        /// How the scaled sum becomes an integer.
        rounding: Rounding,
    }

    /// Matrix product of bytes with sums of 32 bits, which wrap around: `out[b, m, n] = Σ (a[b, m, k] − a₀)·(w[b or 0, k, n] − w₀)`,
    /// as i32, or as f32 times the scale; all dense. w is either `b` or `weights`.
    IMatMul = 0x0015, "imatmul", makes(|c| [c.batch, c.m, c.n]) {
        /// Number of products.
        batch: u32,
        /// Rows of the result.
        m: u32,
        /// Columns of the result.
        n: u32,
        /// Length of the inner products.
        k: u32,
        /// First operand.
        [in; |c| dense(1, [c.batch, c.m, c.k])] a: Addr,
        /// Its type, `i8` or `u8`.
        a_dtype: DType,
        /// Second operand.
        [in; |c| dense(1, [batches(c.shared_b, c.batch), c.k, c.n])] b: Option<Addr>,
        /// The same if it came with the program: `[n, k]`.
        [const; |c| dense(1, [c.k, c.n])] weights: Option<Addr>,
        /// The second operand's type, `i8` or `u8`.
        b_dtype: DType,
        /// Whether all products use the same second operand; so they do `weights`.
        shared_b: bool,
        /// Zero points of the first operand, of its type. Without them 0.
        [in; |c| dense(1, [c.counts[0]])] a_zeros: Option<Addr>,
        /// Zero points of the second operand, of its type. Without them 0.
        [in; |c| dense(1, [c.counts[1]])] b_zeros: Option<Addr>,
        /// f32 factors. Without them sums stay integers.
        [in; |c| dense(4, [c.counts[2]])] scales: Option<Addr>,
        /// How many of these there are: 1 or one per row of the first operand, 1 or one per column, 1 or one per column.
        counts: [u32; 3],
        /// The result, i32; with factors f32.
        [out; |c| dense(4, [c.batch, c.m, c.n])] output: Addr,
    }

    /// Matrix product of numbers: `out[b, m, n] = Σ a[b, m, k]·b[b or 0, k, n]`, k from front to back, f64 rounded once per product
    /// and sum, integers wrapping around; all dense.
    TMatMul = 0x0016, "tmatmul", makes(|c| [c.batch, c.m, c.n]) {
        /// Any integer type or f64, of both operands and the result.
        dtype: DType,
        /// Number of products.
        batch: u32,
        /// Rows of the result.
        m: u32,
        /// Columns of the result.
        n: u32,
        /// Length of the inner products.
        k: u32,
        /// First operand.
        [in; |c| dense(bytes(c.dtype), [c.batch, c.m, c.k])] a: Addr,
        /// Second operand.
        [in; |c| dense(bytes(c.dtype), [batches(c.shared_b, c.batch), c.k, c.n])] b: Addr,
        /// Whether all products use the same b.
        shared_b: bool,
        /// The result.
        [out; |c| dense(bytes(c.dtype), [c.batch, c.m, c.n])] output: Addr,
    }

    /// f32 matrix product with integers of few bits in blocks, each of which has a factor and a zero point: `out[m, n] = Σ x[m, k]·(q[n, k] − zero point)·factor`.
    /// Of reals each w = (q − zero point)·factor is rounded, and y = Σ x·w by fused multiply-adds in k order. Of integers, the elements of a block of a row become
    /// a = round(x·127/largest), halves to even, and y = Σ (Σ a·q − zero point·Σ a)·(largest/127·factor), the inner sums exact and rounded once, the outer one by
    /// fused multiply-adds block by block.
    BlockMatMul = 0x0017, "blockmatmul", makes(|c| [c.extents[0], c.extents[1]]) {
        /// Rows and columns of the result, length of the inner products.
        extents: [u32; 3],
        /// Bits of an integer, 4 or 8, and integers of a block, a power of two from 16 on.
        blocks: [u32; 2],
        /// Whether rows become integers, too.
        integers: bool,
        /// Rows.
        [in; |c| dense(4, [c.extents[0], c.extents[2]])] input: Addr,
        /// Columns, block by block: integers, the first in the low bits of a byte; factor and zero point, f32.
        [const; |c| in_blocks(c.extents[1], c.extents[2], c.blocks)] weights: Addr,
        /// The result.
        [out; |c| dense(4, [c.extents[0], c.extents[1]])] output: Addr,
    }

    /// f32 recurrence over time: a cell's steps from their inputs, which are multiplied already. All operands are dense.
    Recurrence = 0x0013, "recurrence", makes(|c| [c.directions, c.batch, c.hidden]) {
        /// The cell.
        cell: CellKind,
        /// Steps of a sequence.
        steps: u32,
        /// Directions, 1 or 2.
        directions: u32,
        /// Sequences.
        batch: u32,
        /// Units.
        hidden: u32,
        /// For each direction, whether it goes from a sequence's last step to its first.
        backwards: [bool; 2],
        /// The cell's functions f, g and j, for each direction.
        functions: [UnaryKind; 6],
        /// Functions of gates see arguments limited to −clip..clip.
        clip: f32,
        /// `Lstm`: whether its gate f is 1 − i.
        coupled: bool,
        /// f32: steps, batch, directions, gates, hidden; the inputs' products with the gates' weights, biases added.
        [in; |c| dense(4, [c.steps, c.batch, c.directions, c.cell.gates() as u32, c.hidden])] input: Addr,
        /// Recurrent weights, f32: directions, gates, unit of the result, unit of the state.
        [const; |c| dense(4, [c.directions, c.cell.gates() as u32, c.hidden, c.hidden])] weights: Option<Addr>,
        /// The same, known at run time only.
        [in; |c| dense(4, [c.directions, c.cell.gates() as u32, c.hidden, c.hidden])] given_weights: Option<Addr>,
        /// The cell's vectors, f32: directions, vectors, hidden: `Lstm` i, o, f; `LinearGru` b. Without them 0.
        [in; |c| dense(4, [c.directions, c.cell.vectors() as u32, c.hidden])] vectors: Option<Addr>,
        /// States before the first step, f32: states (h, c), directions, batch, hidden. Without them 0.
        [in; |c| dense(4, [c.cell.states() as u32, c.directions, c.batch, c.hidden])] initial: Option<Addr>,
        /// Steps of each sequence, i32. Without them all have all.
        [in; |c| dense(4, [c.batch])] lengths: Option<Addr>,
        /// f32: steps and states, directions, batch, hidden: h behind each step, 0 behind a sequence's last one; then the states behind the last one.
        [out; |c| dense(4, [c.steps.saturating_add(c.cell.states() as u32), c.directions, c.batch, c.hidden])] output: Addr,
    }

    /// Sliding window without weights, f32, 8 bit or `i16` (input and output of one type). `i16` has zero points 0, and a
    /// mean is clamp(round(f64(Σq)·f64(factor))).
    Pool = 0x0020, "pool", makes(|c| c.output), taps(|c| product(c.window.kernel)) {
        /// Input.
        [in] input: FeatureMap,
        /// Output.
        [out] output: FeatureMap,
        /// The window; `groups` is 1.
        window: Window,
        /// What is computed.
        kind: PoolKind,
        /// 8 bit: meaning of the input.
        input_quant: Quant,
        /// 8 bit: meaning of the output; equal to the input's for a maximum.
        output_quant: Quant,
        /// 8 bit: how a mean becomes an integer; half away from zero also means the mean of the raw integers, with `Float`.
        rounding: Rounding,
        /// 8 bit: whether means are sums times m·2⁻ⁿ.
        requantize: Requantize,
    }

    /// One result per image and channel, of the types of `pool`; the output has h = w = 1.
    GlobalPool = 0x0021, "gpool", makes(|c| c.output) {
        /// Input.
        [in] input: FeatureMap,
        /// Output.
        [out] output: FeatureMap,
        /// What is computed; both averages are the same, and of floats a NaN is the largest.
        kind: PoolKind,
        /// 8 bit: meaning of the input.
        input_quant: Quant,
        /// 8 bit: meaning of the output; equal to the input's for a maximum.
        output_quant: Quant,
        /// 8 bit: how a mean becomes an integer; half away from zero also means the mean of the raw integers, with `Float`.
        rounding: Rounding,
        /// 8 bit: whether means are sums times m·2⁻ⁿ.
        requantize: Requantize,
    }

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

    /// Spatial resampling: nearest for any type, linear for f32 and 8 bit. 8-bit linear: weights are rounded to k·2⁻¹¹, halves
    /// to even, S = Σ k·k·(q − zero point) over the four neighbours is exact, and the result clamp(round(f32(S)·(factor·2⁻²²)) + zero point).
    Resize = 0x0060, "resize", makes(|c| c.output), taps(|c| if c.mode == ResizeMode::Linear { 4 } else { 1 }) {
        /// Input.
        [in] input: FeatureMap,
        /// Output, of the same type, images and channels.
        [out] output: FeatureMap,
        /// How an element is made.
        mode: ResizeMode,
        /// Where it is taken.
        coordinates: CoordinateMode,
        /// Output extent over input extent, rows and columns, as the model gives it; zeros: the extents' quotient.
        scales: [f32; 2],
        /// 8-bit linear: integers of the input and of the output that stand for 0.
        zero_points: [i32; 2],
        /// 8-bit linear: the input's scale over the output's.
        factor: f32,
        /// 8-bit linear: how a sum becomes an integer.
        rounding: Rounding,
    }

    /// Perspective warp: pixel (x, y) of output image i is taken from the input at (m₀x + m₁y + m₂, m₃x + m₄y + m₅) /
    /// (m₆x + m₇y + m₈) of matrix i, f32 or 8 bit (rounded half away from zero, saturated).
    Warp = 0x0061, "warp", makes(|c| c.output), taps(|c| c.sampling.taps()) {
        /// Input, f32, `i8` or `u8`.
        [in] input: FeatureMap,
        /// Output, of the same type and channels.
        [out] output: FeatureMap,
        /// 9 f32 per output image, row-major.
        [in; |c| dense(4, [9, c.output.n])] matrices: Addr,
        /// One i32 per output image: the input image that it is taken from; without them image i from image i.
        [in; |c| dense(4, [c.output.n])] images: Option<Addr>,
        /// What a pixel is made of.
        sampling: Sampling,
        /// What lies outside of the input.
        border: BorderMode,
    }

    /// Weighted sums of elements picked by index: `out[n, c, i] = Σ factors[n, t, i]·x[n, c, indices[n, t, i]]`, taps t from front to
    /// back, each added with one rounding; all dense. A negative index adds nothing, one behind the last element stops the program.
    Weigh = 0x0062, "weigh", makes(|c| [c.batch, c.channels, c.count]), taps(|c| c.taps.into()) {
        /// Images.
        batch: u32,
        /// Channels of an image.
        channels: u32,
        /// Elements of a channel.
        elements: u32,
        /// Results of a channel.
        count: u32,
        /// Elements that a result is made of.
        taps: u32,
        /// Whether all images have the same indices and factors.
        shared: bool,
        /// Input, f32.
        [in; |c| dense(4, [c.batch, c.channels, c.elements])] input: Addr,
        /// Indices, i32.
        [in; |c| dense(4, [batches(c.shared, c.batch), c.taps, c.count])] indices: Addr,
        /// Factors, f32. Without them 1.
        [in; |c| dense(4, [batches(c.shared, c.batch), c.taps, c.count])] factors: Option<Addr>,
        /// Output, f32.
        [out; |c| dense(4, [c.batch, c.channels, c.count])] output: Addr,
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

    /// Elements picked by index. Each result has a fixed place in the source and, along `count` further axes of it, an
    /// index of its own; a negative one counts from the back, one outside of its axis stops the program.
    Take = 0x0072, "take", makes(|c| c.dims) {
        /// Bytes of one element: 1, 2, 4 or 8.
        elem_bytes: u32,
        /// The output's extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// The source's first element.
        [in; |c| dense(c.elem_bytes, c.dims)] src: Addr,
        /// Bytes from one result's fixed place to the next.
        src_strides: [u64; 6],
        /// The indices along the first indexed axis, `i32` or `i64`.
        [in; |c| operand(&c.indices, c.dims).times(c.count)] indices: Operand,
        /// Indexed axes, 1 to 6.
        count: u32,
        /// Bytes from an index along one indexed axis to that along the next.
        index_stride: u64,
        /// Extents of the indexed axes; unused ones are 1.
        extents: [u32; 6],
        /// Bytes from one element to the next along the indexed axes.
        axis_strides: [u64; 6],
        /// First element written.
        [out; |c| dense(c.elem_bytes, c.dims)] dst: Addr,
        /// Bytes from one element written to the next.
        dst_strides: [u64; 6],
    }

    /// Elements put where indices say, one after the other as they lie at `src`. Each has a fixed place in the target and, along
    /// `count` further axes of it, an index of its own; a negative one counts from the back, one outside of its axis stops
    /// the program. What lies in the target beforehand stays where nothing is put.
    Put = 0x0074, "put", makes(|c| c.dims) {
        /// Type of the elements: any for [`ScatterKind::Set`], otherwise any integer type, f32 or f64.
        dtype: DType,
        /// What becomes of an element that another one is put on.
        kind: ScatterKind,
        /// The extents of what is put, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// The first element that is put.
        [in; |c| dense(bytes(c.dtype), c.dims)] src: Addr,
        /// Bytes from one to the next.
        src_strides: [u64; 6],
        /// The indices along the first indexed axis, `i32` or `i64`.
        [in; |c| operand(&c.indices, c.dims).times(c.count)] indices: Operand,
        /// Indexed axes, 1 to 6.
        count: u32,
        /// Bytes from an index along one indexed axis to that along the next.
        index_stride: u64,
        /// Extents of the indexed axes; unused ones are 1.
        extents: [u32; 6],
        /// Bytes of the target from one element to the next along the indexed axes.
        axis_strides: [u64; 6],
        /// The target's first element.
        [out; |c| dense(bytes(c.dtype), c.dims)] dst: Addr,
        /// Bytes from one fixed place in the target to the next.
        dst_strides: [u64; 6],
    }

    /// Positions of the first elements in order over the middle of `[outer, len, inner]`, dense. Of equal elements the one
    /// that stands first comes first; NaN counts as larger than every number.
    Order = 0x0073, "order", makes(|c| [c.dims[0], c.k, c.dims[2]]) {
        /// Input.
        [in; |c| dense(bytes(c.dtype), c.dims)] input: Addr,
        /// The input's type: any integer type, f32 or f64.
        dtype: DType,
        /// Extents: outer, len, inner.
        dims: [u32; 3],
        /// Positions per row, at most `len`.
        k: u32,
        /// Whether the largest come first.
        descending: bool,
        /// `[outer, k, inner]` positions along the middle, i64.
        [out; |c| dense(8, [c.dims[0], c.k, c.dims[2]])] output: Addr,
    }

    /// Running sums or products along the middle of `[outer, len, inner]`, dense: one element after the other in their own type,
    /// integers wrapping around.
    Running = 0x0075, "running", makes(|c| c.dims) {
        /// Input.
        [in; |c| dense(bytes(c.dtype), c.dims)] input: Addr,
        /// Output.
        [out; |c| dense(bytes(c.dtype), c.dims)] output: Addr,
        /// Any integer type, f32 or f64, of both.
        dtype: DType,
        /// Extents: outer, len, inner.
        dims: [u32; 3],
        /// Whether products are made instead of sums.
        product: bool,
        /// Whether an element itself is left out.
        exclusive: bool,
        /// Whether the last element comes first.
        reverse: bool,
    }
}
