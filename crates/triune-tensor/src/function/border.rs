//! What lies outside of an image.

use super::{Code, Coded, named};

/// What a tap outside of the input gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BorderMode {
    /// This value.
    Constant(f32),
    /// The nearest element: aaaa|abcd|dddd.
    Replicate,
    /// Mirrored at the edge: dcba|abcd|dcba.
    Reflect,
    /// Mirrored at the outermost element: dcb|abcd|cba.
    Reflect101,
    /// Repeated: abcd|abcd|abcd.
    Wrap,
}

impl BorderMode {
    /// The mode with this code; `value` is what a constant border has.
    pub fn from_code(code: u32, value: f32) -> Option<Self> {
        Some(match code {
            0 => Self::Constant(value),
            1 => Self::Replicate,
            2 => Self::Reflect,
            3 => Self::Reflect101,
            4 => Self::Wrap,
            _ => return None,
        })
    }

    /// The value of a constant border; 0 for the others.
    pub fn value(self) -> f32 {
        if let Self::Constant(value) = self { value } else { 0.0 }
    }
}

named!(BorderMode);

impl Coded for BorderMode {
    const NAME: &'static str = "BorderMode";
    const MEANING: &'static str = "What lies outside of a warped input.";
    const CODES: &'static [Code] = &[
        Code { code: 0, name: "Constant", meaning: "One value." },
        Code { code: 1, name: "Replicate", meaning: "The nearest element." },
        Code { code: 2, name: "Reflect", meaning: "The input mirrored at its edge: dcba|abcd|dcba." },
        Code {
            code: 3,
            name: "Reflect101",
            meaning: "The input mirrored at its outermost element: dcb|abcd|cba.",
        },
        Code { code: 4, name: "Wrap", meaning: "The input repeated." },
    ];

    fn code(self) -> u32 {
        match self {
            Self::Constant(_) => 0,
            Self::Replicate => 1,
            Self::Reflect => 2,
            Self::Reflect101 => 3,
            Self::Wrap => 4,
        }
    }
}
