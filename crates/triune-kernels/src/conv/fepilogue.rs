//! What happens to finished f32 sums: bias, residual, activation. Knows no windows.

use crate::dispatch::{Level, multiversion};
use triune_tensor::function::UnaryKind;

use crate::{math, unary};

use super::fconv::Views;
use super::fgemm::MAX_COLUMNS;

/// The steps behind the sums of one convolution.
#[derive(Debug)]
pub(crate) struct Epilogue {
    level: Level,
    /// One per output channel; vectors may read up to a panel more.
    pub(crate) bias: Vec<f32>,
    /// Limits that the store applies; infinite where the activation is none or not a clamp.
    pub(crate) limits: [f32; 2],
    /// The activation where it is more than a clamp.
    pub(crate) function: Option<UnaryKind>,
}

impl Epilogue {
    pub(crate) fn new(level: Level, mut bias: Vec<f32>, activation: UnaryKind) -> Self {
        let open = [f32::NEG_INFINITY, f32::INFINITY];
        let (limits, function) = match activation {
            UnaryKind::Identity => (open, None),
            UnaryKind::Relu => ([0.0, f32::INFINITY], None),
            UnaryKind::Clip(limits) => (limits, None),
            other => (open, Some(other)),
        };
        bias.resize(bias.len() + MAX_COLUMNS, 0.0);
        Self { level, bias, limits, function }
    }

    /// Applies the activation that is more than a clamp.
    pub(crate) fn activate(&self, sums: &[f32], output: &mut [f32]) {
        unary::apply(self.level, self.function.unwrap_or_default(), sums, output);
    }

    /// Finishes the sums of consecutive pixels from `pixel` on, `width` channels each, from `channel` on.
    ///
    /// # Safety
    /// The pixels and channels lie in the views' maps, and no other task writes them.
    pub(crate) unsafe fn store(
        &self,
        sums: &mut [f32],
        width: usize,
        channel: usize,
        views: &Views<'_>,
        pixel: [usize; 3],
    ) {
        let bias = &self.bias[channel..][..width];
        let mut at = pixel;
        for sums in sums.chunks_exact_mut(width) {
            let [n, h, w] = at;
            let residual = views.residual.map(|(x, map)| &x[map.offset(n, h, w) + channel..][..width]);
            // SAFETY: a pixel of the checked output map, this task's own by the caller's promise.
            let output = unsafe {
                let first = views.output.add(views.out_map.offset(n, h, w) + channel);
                std::slice::from_raw_parts_mut(first, width)
            };
            finish(self.level, bias, residual.unwrap_or_default(), self.limits, sums);
            self.activate(sums, output);
            at = views.next(at);
        }
    }
}

multiversion! {
    /// Bias, residual if there is any, limits, in place.
    fn finish(bias: &[f32], residual: &[f32], limits: [f32; 2], sums: &mut [f32]) {
        let [low, high] = limits;
        for (sum, &bias) in sums.iter_mut().zip(bias) {
            *sum += bias;
        }
        for (sum, &residual) in sums.iter_mut().zip(residual) {
            *sum += residual;
        }
        for sum in sums {
            *sum = math::min(math::max(*sum, low), high);
        }
    }
}
