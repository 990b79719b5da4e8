//! What happens to finished f32 sums: bias, residual, activation, store. Knows no windows.

use crate::dispatch::{Level, multiversion};
use crate::{Activation, math, unary};

use super::fconv::Views;

/// The steps behind the sums of one convolution.
#[derive(Debug)]
pub(crate) struct Epilogue {
    level: Level,
    /// One per output channel.
    bias: Vec<f32>,
    /// Limits that the store applies; infinite where the activation is none or not a clamp.
    limits: [f32; 2],
    /// The activation where it is more than a clamp.
    function: Option<Activation>,
}

/// One row of a tile on its way out.
#[derive(Clone, Copy)]
struct Target<'a> {
    bias: &'a [f32],
    residual: Option<&'a [f32]>,
    limits: [f32; 2],
}

impl Epilogue {
    pub(crate) fn new(level: Level, bias: Vec<f32>, activation: Activation) -> Self {
        let open = [f32::NEG_INFINITY, f32::INFINITY];
        let (limits, function) = match activation {
            Activation::None => (open, None),
            Activation::Relu => ([0.0, f32::INFINITY], None),
            Activation::Clip(limits) => (limits, None),
            other => (open, Some(other)),
        };
        Self { level, bias, limits, function }
    }

    /// Finishes `rows` consecutive pixels from `pixel` on: `used` of `width` sums each, for channels from `channel` on.
    ///
    /// # Safety
    /// The pixels and channels lie in the views' maps, and no other task writes them.
    pub(crate) unsafe fn store(
        &self,
        sums: &mut [f32],
        width: usize,
        used: usize,
        channel: usize,
        views: &Views<'_>,
        mut pixel: [usize; 3],
        rows: usize,
    ) {
        let bias = &self.bias[channel..][..used];
        for row in 0..rows {
            let [n, h, w] = pixel;
            let sums = &mut sums[row * width..][..used];
            let residual =
                views.residual.map(|(values, map)| &values[map.offset(n, h, w) + channel..][..used]);
            // SAFETY: a pixel of the checked output map, this task's own by the caller's promise.
            let output = unsafe {
                let at = views.output.add(views.out_map.offset(n, h, w) + channel);
                std::slice::from_raw_parts_mut(at, used)
            };
            let target = Target { bias, residual, limits: self.limits };
            finish(self.level, target, sums, output);
            if let Some(function) = self.function {
                unary::apply(self.level, function, output);
            }
            pixel = views.next(pixel);
        }
    }
}

multiversion! {
    fn finish(target: Target<'_>, sums: &[f32], output: &mut [f32]) {
        let [low, high] = target.limits;
        let sums = output.iter_mut().zip(sums).zip(target.bias);
        if let Some(residual) = target.residual {
            for (((y, &sum), &bias), &other) in sums.zip(residual) {
                *y = math::min(math::max(sum + bias + other, low), high);
            }
        } else {
            for ((y, &sum), &bias) in sums {
                *y = math::min(math::max(sum + bias, low), high);
            }
        }
    }
}
