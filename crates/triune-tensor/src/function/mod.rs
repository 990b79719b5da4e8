//! The operators' vocabulary: what functions there are, under one name and one code from a file's operator to the kernel.
//!
//! Networks, commands and kernels use these types; each says in its own place which of them it takes. Codes are those of
//! the command words (docs/command-set.md) and never change. Knows no operands, no shapes and no file format, except
//! that functions go by ONNX's names.

mod binary;
mod border;
mod cell;
pub mod math;
mod pool;
mod reduce;
mod resize;
mod sampling;
mod scatter;
mod unary;

pub use binary::{BinaryKind, Comparison};
pub use border::BorderMode;
pub use cell::CellKind;
pub use pool::PoolKind;
pub use reduce::ReduceKind;
pub use resize::{CoordinateMode, NearestMode, ResizeMode};
pub use sampling::Sampling;
pub use scatter::ScatterKind;
pub use unary::UnaryKind;

/// A code of a vocabulary: number, name and meaning, as documents list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The number in command words.
    pub code: u32,
    /// The name, without parameters.
    pub name: &'static str,
    /// What it means; one line of Markdown.
    pub meaning: &'static str,
}

/// A type whose values have stable codes.
pub trait Coded: Copy + PartialEq + Sized + 'static {
    /// The type's name in documents.
    const NAME: &'static str;
    /// What the type stands for.
    const MEANING: &'static str;
    /// Every code, in order; the first is 0 and none is left out.
    const CODES: &'static [Code];

    /// The number that stands for this value, whatever its parameters are.
    fn code(self) -> u32;
}

/// Declares an enumeration without parameters whose values have stable codes.
macro_rules! coded {
    ($(#[$attribute:meta])+ $name:ident, $meaning:literal {
        $($(#[$value_attribute:meta])+ $value:ident = $code:literal, $text:literal;)+
    }) => {
        $(#[$attribute])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$value_attribute])+ $value = $code,)+
        }

        impl $name {
            /// Every value, in the order of the codes.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The value with this code.
            pub fn from_code(code: u32) -> Option<Self> {
                Self::ALL.get(usize::try_from(code).ok()?).copied()
            }
        }

        $crate::function::named!($name);

        impl $crate::function::Coded for $name {
            const NAME: &'static str = stringify!($name);
            const MEANING: &'static str = $meaning;
            const CODES: &'static [$crate::function::Code] = &[
                $($crate::function::Code { code: $code, name: stringify!($value), meaning: $text }),+
            ];

            fn code(self) -> u32 {
                self as u32
            }
        }
    };
}
pub(crate) use coded;

/// Shows values by the names of their codes, without parameters, as documents have them.
macro_rules! named {
    ($name:ident) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                use $crate::function::Coded;
                f.write_str(Self::CODES[self.code() as usize].name)
            }
        }
    };
}
pub(crate) use named;

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Coded + std::fmt::Debug>(all: impl Iterator<Item = T>) {
        for (index, each) in T::CODES.iter().enumerate() {
            assert_eq!(each.code as usize, index, "{}: {}", T::NAME, each.name);
            assert!(!each.meaning.is_empty());
        }
        let mut seen = vec![false; T::CODES.len()];
        for value in all {
            let code = value.code() as usize;
            let text = format!("{value:?}");
            let name = T::CODES[code].name;
            let variant = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            assert!(name.starts_with(variant), "{name} is not {text}");
            seen[code] = true;
        }
        assert!(seen.iter().all(|&seen| seen), "{}: {seen:?}", T::NAME);
    }

    #[test]
    fn functions_that_level_off_have_their_limits() {
        for (kind, lowest, highest) in [
            (UnaryKind::Tanh, -1.0, 1.0),
            (UnaryKind::Erf, -1.0, 1.0),
            (UnaryKind::Sigmoid, 0.0, 1.0),
            (UnaryKind::Sign, -1.0, 1.0),
        ] {
            let at = [f64::NEG_INFINITY, f64::INFINITY, f64::NAN].map(|x| kind.evaluate(x));
            assert_eq!(at[..2], [lowest, highest], "{kind:?}");
            assert!(at[2].is_nan(), "{kind:?}");
        }
        assert_eq!([-3.0, 0.0, 1.0].map(|x| UnaryKind::Softsign.evaluate(x)), [-0.75, 0.0, 0.5]);
    }

    #[test]
    fn every_code_has_its_value_and_its_name() {
        check(BinaryKind::ALL.iter().copied());
        check(Comparison::ALL.iter().copied());
        check(ReduceKind::ALL.iter().copied());
        check(Sampling::ALL.iter().copied());
        check(ScatterKind::ALL.iter().copied());
        check(CoordinateMode::ALL.iter().copied());
        check(CellKind::ALL.iter().copied());
        check(crate::Rounding::ALL.iter().copied());
        check(crate::Requantize::ALL.iter().copied());
        check((0..).map_while(|code| UnaryKind::from_code(code, [0.0; 2])));
        check((0..).map_while(PoolKind::from_code));
        check((0..).map_while(ResizeMode::from_code));
        check((0..).map_while(|code| BorderMode::from_code(code, 0.0)));
    }
}
