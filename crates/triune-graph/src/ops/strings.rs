//! Operators that look at the letters of strings. Tensors of strings are those of [`crate::Strings`].

use triune_tensor::DType;

/// What is done with strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StringOp {
    /// Two operands, element by element with broadcasting: one behind the other.
    Concat,
    /// Each element in parts: the strings (…, most parts there are), filled up with empty ones, and how many parts each
    /// element has (…) of i64.
    Split {
        /// What stands between parts; without it white space of any length, which none begins or ends with.
        delimiter: Option<String>,
        /// Most cuts, counted from the front.
        most: Option<usize>,
    },
    /// Elements taken away, letters changed; of (C) or (1, C).
    Normalize(Normalize),
    /// The number that an element says.
    Parse(DType),
    /// An element's decimal digits, eight of them that count where it is a real.
    Format,
    /// Where each element stands in the alphabet of all that are there, and the strings in that order; both are numbers.
    Ranks,
}

impl StringOp {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Concat => "StringConcat",
            Self::Split { .. } => "StringSplit",
            Self::Normalize(_) => "StringNormalizer",
            Self::Parse(_) | Self::Format => "Cast",
            Self::Ranks => "Unique",
        }
    }
}

/// What is taken away from strings, then what becomes of the others' letters. Where none is left, one empty string is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normalize {
    /// What becomes of letters.
    pub case: CaseChange,
    /// Elements that are taken away.
    pub stopwords: Vec<String>,
    /// Whether an element has to have the capital letters of such a word.
    pub case_sensitive: bool,
}

/// What becomes of letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseChange {
    /// They stay.
    None,
    /// Small ones.
    Lower,
    /// Capitals.
    Upper,
}
