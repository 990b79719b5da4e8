//! Windows over feature maps, and other places in them.

use triune_tensor::{
    Requantize, Rounding,
    function::{BorderMode, CoordinateMode, PoolKind, ResizeMode, Sampling},
};

use super::super::{
    access::{batches, dense, product},
    table::commands,
    types::{Addr, FeatureMap, Quant, Window},
};

commands! {
    maps_list ($)
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
}
