//! Names for the ways in which convolutions are computed.

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvMethod {
    /// One product after the other: the specification of the others.
    Plain,
    /// A matrix product whose rows are read where they lie in the input, but for those at its border.
    Direct,
    /// A matrix product whose rows are gathered from the input first, tile by tile.
    Gather,
    /// A matrix product whose windows are read from rows of the input that are copied first, band by band.
    Rows,
    /// A matrix product whose rows are neighbours in each plane of the input, read where they lie there.
    Planes,
    /// Each channel by itself, or each group of a few; of integers each channel.
    Depthwise,
    /// Winograd's filtering.
    Winograd,
}

impl ConvMethod {
    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Direct => "direct",
            Self::Gather => "gather",
            Self::Rows => "rows",
            Self::Planes => "planes",
            Self::Depthwise => "depthwise",
            Self::Winograd => "winograd",
        }
    }
}
