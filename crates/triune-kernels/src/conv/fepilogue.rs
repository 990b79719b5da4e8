//! What happens to finished f32 sums: bias, residual, activation. Knows no windows.

use crate::dispatch::Level;
use triune_tensor::function::UnaryKind;

use crate::unary;

use super::fgemm::MAX_COLUMNS;

/// The steps behind the sums of one convolution.
#[derive(Debug)]
pub(crate) struct Epilogue {
    pub(crate) level: Level,
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

    /// As [`Self::activate`] over rows of `sums`, `width` long, whose first `used` results go `offset` floats behind the outputs'
    /// pointers. Says whether it did: few functions are made for it.
    ///
    /// # Safety
    /// There is a pointer for each row, behind which nobody else writes so many floats.
    pub(crate) unsafe fn activate_rows(
        &self,
        sums: &[f32],
        [width, used]: [usize; 2],
        outputs: *const *mut f32,
        offset: usize,
    ) -> bool {
        let function = self.function.unwrap_or_default();
        // SAFETY: passed on.
        unsafe { unary::apply_rows(self.level, function, sums, [width, used], outputs, offset) }
    }
}
