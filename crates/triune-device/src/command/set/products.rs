//! Convolutions, products of matrices, and what is made of them.

use triune_tensor::{
    DType, Rounding,
    function::{CellKind, UnaryKind},
};

use super::super::{
    access::{batches, bytes, dense, in_blocks, operand, strided, weights},
    table::commands,
    types::{AddParams, Addr, FeatureMap, Operand, RequantTarget, Window},
};

commands! {
    products_list ($)
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
        /// Input, f32. In blocks of one channel it is planes, whose columns follow each other: for one group, steps of one or
        /// two columns, no residual.
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

    /// f32 attention: `out = softmax(q·kᵀ·scale + bias)·v` of each head. Scores are sums of fused multiply-adds in the order of the
    /// elements, of f32(q·scale) if there is a bias or `scale` is not above 0, and p = f32(log₂ e); else of q, and p = f32(scale·f32(log₂ e)).
    /// Weights are w = 2^((score − largest)·p), results f32(Σ w·v)·f32(1 / Σ w), the first sum by fused multiply-adds in the order of the keys.
    FAttention = 0x0018, "fattention", makes(|c| [1, 1, c.heads[0], c.heads[1], c.queries, c.elements]) {
        /// Heads, along two axes.
        heads: [u32; 2],
        /// Queries of a head.
        queries: u32,
        /// Keys of a head, and values.
        keys: u32,
        /// Elements of a query and of a key.
        width: u32,
        /// Elements of a value and of a result.
        elements: u32,
        /// Factor of the scores.
        scale: f32,
        /// Queries, f32: 1, 1, heads, queries, elements, which lie one after the other.
        [in; |c| operand(&c.q, [1, 1, c.heads[0], c.heads[1], c.queries, c.width])] q: Operand,
        /// Keys, f32: 1, 1, heads, keys, elements, of which either the keys or the elements lie one after the other.
        [in; |c| operand(&c.k, [1, 1, c.heads[0], c.heads[1], c.keys, c.width])] k: Operand,
        /// Values, f32: 1, 1, heads, values, elements, which lie one after the other.
        [in; |c| operand(&c.v, [1, 1, c.heads[0], c.heads[1], c.keys, c.elements])] v: Operand,
        /// Added to the scores, f32: 1, 1, heads, queries, keys, which lie one after the other.
        [in; |c| strided(4, [1, 1, c.heads[0], c.heads[1], c.queries, c.keys], c.bias_strides)] bias: Option<Addr>,
        /// Bytes from one of them to the next; 0 repeats.
        bias_strides: [u64; 6],
        /// Results, f32: 1, 1, heads, queries, elements, which lie one after the other.
        [out] output: Operand,
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
}
