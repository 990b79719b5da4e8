//! Spatial resampling.

/// How an output coordinate maps to an input coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinateMode {
    /// x/scale.
    Asymmetric,
    /// (x + ½)/scale − ½.
    HalfPixel,
    /// As half pixel, but 0 where the output extent is 1.
    PytorchHalfPixel,
    /// x·(in − 1)/(out − 1).
    AlignCorners,
}

/// Which neighbour nearest-neighbour sampling takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearestMode {
    /// Half goes down.
    RoundPreferFloor,
    /// Half goes up.
    RoundPreferCeil,
    /// Down.
    Floor,
    /// Up.
    Ceil,
}

/// How values between input elements are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeMode {
    /// One input element.
    Nearest(NearestMode),
    /// The two nearest per axis.
    Linear,
}

/// Spatial resampling; inputs x, optional roi, optional scales, optional sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// How values are made.
    pub mode: ResizeMode,
    /// Where they are taken.
    pub coordinates: CoordinateMode,
}
