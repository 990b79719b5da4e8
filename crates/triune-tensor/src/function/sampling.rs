//! How a warp takes a pixel from its image.

use super::coded;

coded! {
    /// How a warp takes a pixel from its image.
    Sampling, "How a warp takes a pixel from its image." {
        /// The nearest element, half to even.
        Nearest = 0, "The nearest element, half to even.";
        /// Its four neighbours.
        Linear = 1, "Its four neighbours.";
        /// The four neighbours of the place that is nearest on a grid of 1/32, half to even; places are computed in f64.
        Grid = 2, "The four neighbours of the nearest place on a grid of 1/32.";
        /// The same for an affine matrix in fixed point: ⌊(⌊1024·m₀x⌉ + ⌊1024·(m₁y + m₂)⌉ + 16) / 32⌋ / 32, ⌊·⌉ half to even.
        AffineGrid = 3, "The four neighbours on a grid of 1/32, of an affine matrix in fixed point of 2⁻¹⁰.";
    }
}

impl Sampling {
    /// Elements that a result is made of.
    pub const fn taps(self) -> u64 {
        if matches!(self, Self::Nearest) { 1 } else { 4 }
    }
}
