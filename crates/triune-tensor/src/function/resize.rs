//! Where resampled elements are taken, and from how many.

use super::{Code, Coded, coded, named};

coded! {
    /// How an output coordinate maps to an input coordinate.
    CoordinateMode, "How an output coordinate maps to an input coordinate." {
        /// x/scale.
        Asymmetric = 0, "x/scale.";
        /// (x + ½)/scale − ½.
        HalfPixel = 1, "(x + ½)/scale − ½.";
        /// As half pixel, but 0 where the output extent is 1.
        PytorchHalfPixel = 2, "As half pixel, but 0 where the output extent is 1.";
        /// x·(in − 1)/(out − 1).
        AlignCorners = 3, "x·(in − 1)/(out − 1).";
    }
}

/// Which neighbour nearest-neighbour sampling takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResizeMode {
    /// One input element.
    Nearest(NearestMode),
    /// The two nearest per axis.
    Linear,
}

impl ResizeMode {
    /// The mode with this code.
    pub fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Nearest(NearestMode::RoundPreferFloor),
            1 => Self::Nearest(NearestMode::RoundPreferCeil),
            2 => Self::Nearest(NearestMode::Floor),
            3 => Self::Nearest(NearestMode::Ceil),
            4 => Self::Linear,
            _ => return None,
        })
    }
}

named!(ResizeMode);

impl Coded for ResizeMode {
    const NAME: &'static str = "ResizeMode";
    const MEANING: &'static str = "How a resized element is made.";
    const CODES: &'static [Code] = &[
        Code { code: 0, name: "NearestRoundPreferFloor", meaning: "The nearest, half down." },
        Code { code: 1, name: "NearestRoundPreferCeil", meaning: "The nearest, half up." },
        Code { code: 2, name: "NearestFloor", meaning: "The one before." },
        Code { code: 3, name: "NearestCeil", meaning: "The one after." },
        Code { code: 4, name: "Linear", meaning: "From the two nearest per axis." },
    ];

    fn code(self) -> u32 {
        match self {
            Self::Nearest(NearestMode::RoundPreferFloor) => 0,
            Self::Nearest(NearestMode::RoundPreferCeil) => 1,
            Self::Nearest(NearestMode::Floor) => 2,
            Self::Nearest(NearestMode::Ceil) => 3,
            Self::Linear => 4,
        }
    }
}
