//! The quantized convolution: what callers say, what is checked, which path runs. Arithmetic lies elsewhere.

use triune_tensor::Rounding;

use crate::{ConvGeometry, Error, Isa, Nhwc, Pool, Q8, QAdd, dispatch::Level};

use super::{method::ConvMethod, qdepthwise::QDepthwise, qgemm::QGemm, qscalar};

/// A quantized convolution: i8 weights, 8-bit activations, i32 sums, 8-bit results.
///
/// A result is clamp(round(f32(sum) · multiplier) + zero point), then looked up in the table, then added to the residual;
/// sum = bias + Σ weight · (activation − zero point) is exact, padding taps count as the zero point.
#[derive(Clone, Copy, Debug)]
pub struct QConvSpec<'a> {
    /// Window and groups.
    pub geometry: ConvGeometry,
    /// Channels of the input map.
    pub in_channels: usize,
    /// Channels of the output map.
    pub out_channels: usize,
    /// Weights with zero point 0 in the order output channel, kernel row, kernel column, input channel of the group.
    pub weights: &'a [i8],
    /// One per output channel, in units of input scale × weight scale.
    pub bias: Option<&'a [i32]>,
    /// Input scale × weight scale / output scale: one per output channel, or one for all. Finite.
    pub multiplier: &'a [f32],
    /// The input's encoding.
    pub input: Q8,
    /// What the sums are requantized to.
    pub output: Q8,
    /// How scaled sums become integers.
    pub rounding: Rounding,
    /// Smallest and largest requantized value, in the quantized domain of `output`; cut to its type's range.
    pub clamp: [i32; 2],
    /// Maps the requantized byte to the byte that is stored or added.
    pub table: Option<&'a [u8; 256]>,
    /// Adds a second map of the output's shape to the (requantized, looked up) result.
    pub residual: Option<QAdd>,
}

/// The parameters of a convolution in the form that every path shares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Params {
    pub(crate) geometry: ConvGeometry,
    pub(crate) in_channels: usize,
    pub(crate) out_channels: usize,
    pub(crate) input: Q8,
    pub(crate) output: Q8,
    pub(crate) rounding: Rounding,
    pub(crate) clamp: [i32; 2],
    pub(crate) table: Option<Box<[u8; 256]>>,
    pub(crate) residual: Option<QAdd>,
    /// One per output channel.
    pub(crate) multiplier: Vec<f32>,
    /// One per output channel.
    pub(crate) bias: Vec<i32>,
}

/// The maps of one run; every access through them was checked.
#[derive(Clone, Copy)]
pub(crate) struct Views<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) in_map: Nhwc,
    pub(crate) residual: Option<(&'a [u8], Nhwc)>,
    pub(crate) output: *mut u8,
    pub(crate) out_map: Nhwc,
}

// SAFETY: `output` is the only pointer; tasks write disjoint pixels or channels of it.
unsafe impl Sync for Views<'_> {}

/// A convolution with packed weights, ready to run on any map size.
#[derive(Debug)]
pub struct QConv {
    params: Params,
    kernel: Kernel,
}

#[derive(Debug)]
enum Kernel {
    /// Weights as in [`QConvSpec`].
    Scalar(Vec<i8>),
    Gemm(QGemm),
    Depthwise(QDepthwise),
}

impl QConv {
    /// Checks the parameters and packs the weights for `isa`, or for the best instruction set below it that this
    /// machine has.
    ///
    /// Errors: lengths that do not fit the channels, zero extents, channels that the groups do not divide, multipliers
    /// that are not finite, zero points outside of their types, sums that could overflow i32.
    pub fn new(spec: &QConvSpec<'_>, isa: Isa) -> Result<Self, Error> {
        let params = check(spec)?;
        let level = Level::new(isa);
        let weights = spec.weights;
        let kernel = QDepthwise::new(&params, weights, level)
            .map(Kernel::Depthwise)
            .or_else(|| QGemm::new(&params, weights, level).map(Kernel::Gemm))
            .unwrap_or_else(|| Kernel::Scalar(weights.to_vec()));
        Ok(Self { params, kernel })
    }

    /// Whether this is what [`QConv::new`] would make of the same weights and these parameters.
    pub fn has_parameters(&self, spec: &QConvSpec<'_>) -> bool {
        check(spec).is_ok_and(|params| params == self.params)
    }

    /// Bytes of the packed weights, with what is added to and multiplied by each channel.
    pub fn bytes(&self) -> usize {
        match &self.kernel {
            Kernel::Scalar(weights) => weights.len(),
            Kernel::Gemm(gemm) => gemm.bytes(),
            Kernel::Depthwise(depthwise) => depthwise.bytes(),
        }
    }

    /// How it is computed from a map.
    pub fn method(&self, in_map: Nhwc) -> ConvMethod {
        match &self.kernel {
            Kernel::Scalar(_) => ConvMethod::Plain,
            Kernel::Gemm(gemm) if gemm.direct(&in_map).is_some() => ConvMethod::Direct,
            Kernel::Gemm(gemm) => gemm.copying(&self.params, &in_map),
            Kernel::Depthwise(_) => ConvMethod::Depthwise,
        }
    }

    /// Bytes of scratch that [`QConv::run`] needs with a pool of `threads` threads.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        match &self.kernel {
            Kernel::Scalar(_) | Kernel::Depthwise(_) => 0,
            Kernel::Gemm(gemm) => gemm.scratch_bytes(threads),
        }
    }

    /// Computes `output` from `input` and, if the convolution has one, the residual map of the output's shape.
    ///
    /// The slices start at the first element of their maps, `scratch` holds [`QConv::scratch_bytes`] bytes of any content.
    /// Bytes in the gaps of the output map are left alone. Errors: extents that do not agree, slices shorter than
    /// their maps, a residual where none is expected or none where one is, an output map that overlaps itself.
    pub fn run(
        &self,
        input: &[u8],
        in_map: Nhwc,
        residual: Option<(&[u8], Nhwc)>,
        output: &mut [u8],
        out_map: Nhwc,
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error> {
        let p = &self.params;
        p.geometry.check_maps([p.in_channels, p.out_channels], in_map, out_map)?;
        Error::check_len("input", input.len(), in_map.span())?;
        Error::check_len("output", output.len(), out_map.span())?;
        Error::check_len("scratch", scratch.len(), self.scratch_bytes(pool.threads()))?;
        if out_map.overlaps_itself() {
            return Err(Error::Invalid("output map overlaps itself"));
        }
        match (residual, p.residual) {
            (Some((bytes, map)), Some(_)) => {
                for (what, expected, got) in [
                    ("residual batch", out_map.n, map.n),
                    ("residual rows", out_map.h, map.h),
                    ("residual columns", out_map.w, map.w),
                    ("residual channels", out_map.c, map.c),
                ] {
                    Error::check_eq(what, expected, got)?;
                }
                Error::check_len("residual", bytes.len(), map.span())?;
            }
            (None, None) => {}
            (Some(_), None) => {
                return Err(Error::Invalid("a residual was given to a convolution without one"));
            }
            (None, Some(_)) => return Err(Error::Invalid("the residual is missing")),
        }
        if out_map.n == 0 {
            return Ok(());
        }
        let views = Views { input, in_map, residual, output: output.as_mut_ptr(), out_map };
        match &self.kernel {
            Kernel::Scalar(weights) => qscalar::run(p, weights, &views, pool),
            Kernel::Gemm(gemm) => gemm.run(p, &views, scratch, pool),
            Kernel::Depthwise(depthwise) => depthwise.run(p, &views, pool),
        }
        Ok(())
    }
}

fn check(spec: &QConvSpec<'_>) -> Result<Params, Error> {
    let g = spec.geometry;
    let [depth, elements] = g.weights(spec.in_channels, spec.out_channels)?;
    Error::check_eq("weights", elements, spec.weights.len())?;
    if let Some(bias) = spec.bias {
        Error::check_eq("bias", spec.out_channels, bias.len())?;
    }
    if spec.multiplier.len() != 1 {
        Error::check_eq("multiplier", spec.out_channels, spec.multiplier.len())?;
    }
    if !spec.multiplier.iter().all(|m| m.is_finite()) {
        return Err(Error::Invalid("multipliers must be finite"));
    }
    spec.input.check()?;
    spec.output.check()?;
    let clamp = spec.output.intersect(spec.clamp)?;
    let mut residual = spec.residual;
    if let Some(add) = &mut residual {
        add.check()?;
        add.clamp = add.out.intersect(add.clamp)?;
        if spec.table.is_none() && add.conv_and_other().0.signed != spec.output.signed {
            return Err(Error::Invalid("the residual reads the result as another type than the output's"));
        }
    }
    let bias = spec.bias.map_or_else(|| vec![0; spec.out_channels], <[i32]>::to_vec);
    let [low, high] = spec.input.range();
    let (below, above) = (i64::from(low - spec.input.zero_point), i64::from(high - spec.input.zero_point));
    for (&bias, weights) in bias.iter().zip(spec.weights.chunks_exact(depth)) {
        // Every partial sum lies between the sums of all its negative and of all its positive parts.
        let (mut least, mut most) = (i64::from(bias), i64::from(bias));
        for &w in weights {
            let w = i64::from(w);
            least += (w * below).min(w * above);
            most += (w * below).max(w * above);
        }
        if i32::try_from(least).is_err() || i32::try_from(most).is_err() {
            return Err(Error::Invalid("sums of the convolution could overflow i32"));
        }
    }
    let multiplier = match spec.multiplier {
        &[one] => vec![one; spec.out_channels],
        all => all.to_vec(),
    };
    Ok(Params {
        geometry: g,
        in_channels: spec.in_channels,
        out_channels: spec.out_channels,
        input: spec.input,
        output: spec.output,
        rounding: spec.rounding,
        clamp,
        table: spec.table.copied().map(Box::new),
        residual,
        multiplier,
        bias,
    })
}
