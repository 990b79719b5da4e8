//! The types of command fields: addresses, feature maps, windows, functions.

use triune_tensor::DType;

use super::codec::{Field, FieldError};

/// Declares a composite field: a struct, its encoding field by field, and its row in the documentation.
macro_rules! record {
    ($($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)+ })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $name {
                $($(#[doc = $field_doc])+ pub $field: $type,)+
            }

            impl Field for $name {
                const WORDS: usize = 0 $(+ <$type as Field>::WORDS)+;
                fn type_name() -> String {
                    stringify!($name).into()
                }
                fn put(&self, words: &mut Vec<u32>) {
                    $(self.$field.put(words);)+
                }
                fn get(words: &[u32]) -> Result<Self, FieldError> {
                    let mut rest = words;
                    Ok(Self {
                        $($field: {
                            let (own, after) = rest.split_at(<$type as Field>::WORDS);
                            rest = after;
                            let _ = rest;
                            <$type as Field>::get(own).map_err(|error| error.within(stringify!($field)))?
                        },)+
                    })
                }
                #[cfg(test)]
                fn sample(random: &mut dyn FnMut() -> u64) -> Self {
                    Self { $($field: Field::sample(random),)+ }
                }
            }
        )+

        pub(super) fn records() -> Vec<super::docs::Struct> {
            vec![$(super::docs::Struct {
                name: stringify!($name),
                words: <$name as Field>::WORDS,
                doc: concat!($($doc, "\n"),+),
                fields: vec![$(super::docs::Row {
                    name: stringify!($field),
                    type_name: <$type as Field>::type_name(),
                    words: <$type as Field>::WORDS,
                    doc: concat!($($field_doc),+),
                },)+],
            },)+]
        }
    };
}

/// Declares a field with named codes.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $value_doc:literal])+ $value:ident = $code:literal,)+ })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $name {
                $($(#[doc = $value_doc])+ $value = $code,)+
            }

            impl $name {
                /// Every value, in the order of the codes.
                pub const ALL: &[Self] = &[$(Self::$value),+];
            }

            /// By the name that the document of the command set has for it.
            impl std::fmt::Display for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str(match self { $(Self::$value => stringify!($value),)+ })
                }
            }

            impl Field for $name {
                const WORDS: usize = 1;
                fn type_name() -> String {
                    stringify!($name).into()
                }
                fn put(&self, words: &mut Vec<u32>) {
                    words.push(*self as u32);
                }
                fn get(words: &[u32]) -> Result<Self, FieldError> {
                    match words[0] {
                        $($code => Ok(Self::$value),)+
                        other => Err(FieldError::new(format!(
                            "{other} is no code of {}", stringify!($name)
                        ))),
                    }
                }
                #[cfg(test)]
                fn sample(random: &mut dyn FnMut() -> u64) -> Self {
                    Self::ALL[random() as usize % Self::ALL.len()]
                }
            }
        )+

        pub(super) fn code_tables() -> Vec<super::docs::Codes> {
            vec![$(super::docs::Codes {
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                values: vec![$((stringify!($value), $code, concat!($($value_doc),+)),)+],
            },)+]
        }
    };
}

/// An address in a program: a segment (top 8 bits) and a byte offset in it (low 56 bits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Addr(pub u64);

impl Addr {
    /// The encoding of "no address".
    const NONE: u64 = u64::MAX;
    /// Largest offset.
    pub const MAX_OFFSET: u64 = (1 << 56) - 1;

    /// The address of byte `offset` in `segment`; `offset` is cut to 56 bits.
    pub const fn new(segment: u8, offset: u64) -> Self {
        debug_assert!(offset <= Self::MAX_OFFSET);
        Self((segment as u64) << 56 | offset & Self::MAX_OFFSET)
    }

    /// The segment's index.
    pub const fn segment(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// The byte offset in the segment.
    pub const fn offset(self) -> u64 {
        self.0 & Self::MAX_OFFSET
    }
}

impl std::fmt::Debug for Addr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::fmt::Display for Addr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{:#x}", self.segment(), self.offset())
    }
}

impl Field for Addr {
    const WORDS: usize = 2;
    fn type_name() -> String {
        "Addr".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        self.0.put(words);
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        Ok(Self(u64::get(words)?))
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        Self::new(random() as u8 % 255, random() >> 8)
    }
}

/// All ones mean none: segment 255 has no byte at the largest offset.
impl Field for Option<Addr> {
    const WORDS: usize = 2;
    fn type_name() -> String {
        "Addr?".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        self.map_or(Addr::NONE, |addr| addr.0).put(words);
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        let word = u64::get(words)?;
        Ok((word != Addr::NONE).then_some(Addr(word)))
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        (random() & 1 == 1).then(|| Addr::sample(random))
    }
}

/// Code of an element type: its position in [`DType::ALL`] plus one; 0 means absent.
fn dtype_code(dtype: DType) -> u32 {
    DType::ALL.iter().position(|&each| each == dtype).map_or(0, |index| index as u32 + 1)
}

impl Field for DType {
    const WORDS: usize = 1;
    fn type_name() -> String {
        "DType".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        words.push(dtype_code(*self));
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        (words[0] as usize)
            .checked_sub(1)
            .and_then(|index| Self::ALL.get(index).copied())
            .ok_or_else(|| FieldError::new(format!("{} is no code of DType", words[0])))
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        Self::ALL[random() as usize % Self::ALL.len()]
    }
}

record! {
    /// A feature map in device memory: batch, rows, columns, channels, with channels contiguous, all of a pixel or those of
    /// a block.
    ///
    /// Strides are in BYTES and multiples of the element size; a stride along an extent of 1 is ignored.
    FeatureMap {
        /// Channel 0 of the first pixel.
        addr: Addr,
        /// Element type.
        dtype: DType,
        /// Images.
        n: u32,
        /// Rows.
        h: u32,
        /// Columns.
        w: u32,
        /// Channels.
        c: u32,
        /// Bytes from one image to the next.
        stride_n: u64,
        /// Bytes from one row to the next.
        stride_h: u64,
        /// Bytes from one column to the next.
        stride_w: u64,
        /// How channels lie in blocks, if they do.
        blocks: Option<Blocks>,
    }

    /// Channels in blocks: a block of each pixel lies where the strides of the map say, and the next blocks behind that.
    /// Whole blocks are read and written, whatever the number of channels.
    Blocks {
        /// Channels of a block; not 0.
        channels: u32,
        /// Bytes from one block to the next.
        stride: u64,
        /// Element that the last block has behind the last channel, when the map is written.
        fill: u32,
    }

    /// How a convolution's or a pool's window slides: rows first, columns second.
    Window {
        /// Window rows and columns.
        kernel: [u32; 2],
        /// Step of the window.
        stride: [u32; 2],
        /// Distance of two taps.
        dilation: [u32; 2],
        /// Padding: top, left, bottom, right.
        pad: [u32; 4],
        /// Channel groups; 1 for pools.
        groups: u32,
    }

    /// Meaning of an 8-bit integer: real = (q − zero point) × scale.
    Quant {
        /// Real value of one step; finite and above 0.
        scale: f32,
        /// The integer that stands for 0.
        zero_point: i32,
    }

    /// The 8-bit integer that a result is rounded to.
    RequantTarget {
        /// `i8` or `u8`.
        dtype: DType,
        /// The integer that stands for 0.
        zero_point: i32,
    }

    /// Quantized addition of the raw integers a and b: clamp(rint(fma(a, ra, fma(b, rb, k)))) when halves go to even,
    /// clamp(round(fma(a, ra, fma(b, rb, k))) + zero point of `out`) when they go away from zero.
    AddParams {
        /// Meaning of a's bytes.
        a: RequantTarget,
        /// Meaning of b's bytes.
        b: RequantTarget,
        /// Meaning of the result's bytes.
        out: RequantTarget,
        /// a's scale over the result's.
        ra: f32,
        /// b's scale over the result's.
        rb: f32,
        /// The constant that holds the zero points: all three, or a's and b's when halves go away from zero.
        k: f32,
        /// How the sum becomes an integer.
        rounding: Rounding,
        /// Smallest and largest result, in the result's integers.
        clamp: [i32; 2],
    }

    /// A strided operand of an elementwise command; the extents are the command's.
    Operand {
        /// The first element.
        addr: Addr,
        /// Element type.
        dtype: DType,
        /// Bytes from one element to the next along each dimension; 0 repeats (inputs only).
        strides: [u64; 6],
    }

    /// A function of one real, with its parameters (unused ones are 0).
    Function {
        /// Which function.
        kind: FunctionKind,
        /// α and β, or the lower and upper limit.
        parameters: [f32; 2],
    }
}

codes! {
    /// A function of one real.
    FunctionKind {
        /// x.
        Identity = 0,
        /// max(x, 0).
        Relu = 1,
        /// x, or α·x below 0.
        LeakyRelu = 2,
        /// x, or α·(eˣ − 1) below 0.
        Elu = 3,
        /// Limited to α..β.
        Clip = 4,
        /// 1/(1 + e⁻ˣ).
        Sigmoid = 5,
        /// x/(1 + e⁻ˣ).
        Silu = 6,
        /// max(0, min(1, α·x + β)).
        HardSigmoid = 7,
        /// x·max(0, min(1, x/6 + 1/2)).
        HardSwish = 8,
        /// Hyperbolic tangent.
        Tanh = 9,
        /// eˣ.
        Exp = 10,
        /// Natural logarithm.
        Log = 11,
        /// Square root.
        Sqrt = 12,
        /// 1/x.
        Reciprocal = 13,
        /// |x|.
        Abs = 14,
        /// −x.
        Neg = 15,
        /// ln(1 + eˣ).
        Softplus = 16,
        /// Gauss error function.
        Erf = 17,
        /// x·Φ(x).
        Gelu = 18,
        /// Largest integer not above.
        Floor = 19,
        /// Smallest integer not below.
        Ceil = 20,
        /// Nearest integer, half to even.
        Round = 21,
        /// Sine.
        Sin = 22,
        /// Cosine.
        Cos = 23,
        /// Tangent.
        Tan = 24,
        /// Inverse sine; NaN beyond −1..1.
        Asin = 25,
        /// Inverse cosine; NaN beyond −1..1.
        Acos = 26,
        /// Inverse tangent.
        Atan = 27,
        /// Hyperbolic sine.
        Sinh = 28,
        /// Hyperbolic cosine.
        Cosh = 29,
        /// Inverse hyperbolic sine.
        Asinh = 30,
        /// Inverse hyperbolic cosine; NaN below 1.
        Acosh = 31,
        /// Inverse hyperbolic tangent; NaN beyond −1..1.
        Atanh = 32,
        /// eˣ − 1, right near 0.
        Expm1 = 33,
        /// ln(1 + x), right near 0.
        Log1p = 34,
        /// 1 − erf x, right in the tail.
        Erfc = 35,
        /// Inverse of the error function.
        ErfInv = 36,
        /// Inverse of erfc.
        ErfcInv = 37,
        /// x·(27 + x²)/(27 + 9·x²), a rational function near tanh.
        FastTanh = 38,
        /// Nearest integer, half away from zero.
        RoundHalfAway = 39,
        /// −1, 0 or 1; NaN for NaN.
        Sign = 40,
        /// x².
        Square = 41,
        /// 1/√x.
        Rsqrt = 42,
        /// −ln(1 + e⁻ˣ).
        LogSigmoid = 43,
    }

    /// A function of two numbers.
    BinaryKind {
        /// a + b.
        Add = 0,
        /// a − b.
        Sub = 1,
        /// a · b.
        Mul = 2,
        /// a / b.
        Div = 3,
        /// The smaller.
        Min = 4,
        /// The larger.
        Max = 5,
        /// aᵇ.
        Pow = 6,
        /// ⌊a / b⌋.
        FloorDiv = 7,
        /// a − b·⌊a / b⌋: the remainder of b's sign.
        Mod = 8,
        /// a − b·trunc(a / b): the remainder of a's sign.
        Rem = 9,
        /// a, or a·b where a is negative.
        PRelu = 10,
        /// The angle of the point (b, a); reals.
        Atan2 = 11,
        /// ln(eᵃ + eᵇ); reals.
        LogAddExp = 12,
        /// Bit by bit, or of truth values; not for floats.
        And = 13,
        /// Bit by bit, or of truth values; not for floats.
        Or = 14,
        /// Bit by bit, or of truth values; not for floats.
        Xor = 15,
        /// Towards the high bits; 0 beyond the type's width; integers.
        ShiftLeft = 16,
        /// Towards the low bits, keeping the sign; integers.
        ShiftRight = 17,
        /// The high half of 2·a·b, rounded half up, cut to the type's range; integers.
        MulHigh = 18,
        /// a = b; a bool.
        Equal = 19,
        /// a ≠ b; a bool.
        NotEqual = 20,
        /// a < b; a bool.
        Less = 21,
        /// a ≤ b; a bool.
        LessOrEqual = 22,
        /// a > b; a bool.
        Greater = 23,
        /// a ≥ b; a bool.
        GreaterOrEqual = 24,
    }

    /// How a real becomes an integer, and where the result's zero point is added.
    Rounding {
        /// Halves go to the even neighbour, as in ONNX.
        HalfToEven = 0,
        /// Halves go away from zero; the zero point is added to what was rounded.
        HalfAwayFromZero = 1,
    }

    /// What the factors are that come of scales.
    Requantize {
        /// f32.
        Float = 0,
        /// The nearest m·2⁻ⁿ, m 0 to 255, n 0 to 21 at 8 bit.
        Fixed = 1,
    }

    /// What a reduction makes of its elements.
    ReduceKind {
        /// Σ x.
        Sum = 0,
        /// Σ x².
        SumSquare = 1,
        /// Π x.
        Product = 2,
        /// The smallest; NaN when any is.
        Min = 3,
        /// The largest; NaN when any is.
        Max = 4,
        /// Σ x / n; integers towards 0.
        Mean = 5,
    }

    /// What a pool makes of its window.
    PoolKind {
        /// The largest.
        Max = 0,
        /// The mean of the elements inside the input.
        Average = 1,
        /// The mean of all taps, those in the padding 0.
        AverageIncludingPad = 2,
    }

    /// How a resized element is made.
    ResizeMode {
        /// The nearest, half down.
        NearestRoundPreferFloor = 0,
        /// The nearest, half up.
        NearestRoundPreferCeil = 1,
        /// The one before.
        NearestFloor = 2,
        /// The one after.
        NearestCeil = 3,
        /// From the two nearest per axis.
        Linear = 4,
    }

    /// What lies outside of a warped input.
    BorderMode {
        /// One value.
        Constant = 0,
        /// The nearest element.
        Replicate = 1,
        /// The input mirrored at its edge: dcba|abcd|dcba.
        Reflect = 2,
        /// The input mirrored at its outermost element: dcb|abcd|cba.
        Reflect101 = 3,
        /// The input repeated.
        Wrap = 4,
    }

    /// How an output coordinate maps to an input coordinate.
    CoordinateMode {
        /// x/scale.
        Asymmetric = 0,
        /// (x + ½)/scale − ½.
        HalfPixel = 1,
        /// As half pixel, but 0 where the output extent is 1.
        PytorchHalfPixel = 2,
        /// x·(in − 1)/(out − 1).
        AlignCorners = 3,
    }
}

/// All zeros mean none.
impl Field for Option<FeatureMap> {
    const WORDS: usize = FeatureMap::WORDS;
    fn type_name() -> String {
        "FeatureMap?".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        match self {
            Some(map) => map.put(words),
            None => words.extend([0; Self::WORDS]),
        }
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        if words.iter().all(|&word| word == 0) { Ok(None) } else { FeatureMap::get(words).map(Some) }
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        (random() & 1 == 1).then(|| FeatureMap::sample(random))
    }
}

/// All zeros mean none.
impl Field for Option<Blocks> {
    const WORDS: usize = Blocks::WORDS;
    fn type_name() -> String {
        "Blocks?".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        match self {
            Some(blocks) => blocks.put(words),
            None => words.extend([0; Self::WORDS]),
        }
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        if words.iter().all(|&word| word == 0) { Ok(None) } else { Blocks::get(words).map(Some) }
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        (random() & 1 == 1).then(|| Blocks::sample(random))
    }
}

/// All zeros mean none.
impl Field for Option<AddParams> {
    const WORDS: usize = AddParams::WORDS;
    fn type_name() -> String {
        "AddParams?".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        match self {
            Some(params) => params.put(words),
            None => words.extend([0; Self::WORDS]),
        }
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        if words.iter().all(|&word| word == 0) { Ok(None) } else { AddParams::get(words).map(Some) }
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        (random() & 1 == 1).then(|| AddParams::sample(random))
    }
}

impl From<triune_tensor::Rounding> for Rounding {
    fn from(rounding: triune_tensor::Rounding) -> Self {
        match rounding {
            triune_tensor::Rounding::HalfToEven => Self::HalfToEven,
            triune_tensor::Rounding::HalfAwayFromZero => Self::HalfAwayFromZero,
        }
    }
}

impl From<Rounding> for triune_tensor::Rounding {
    fn from(rounding: Rounding) -> Self {
        match rounding {
            Rounding::HalfToEven => Self::HalfToEven,
            Rounding::HalfAwayFromZero => Self::HalfAwayFromZero,
        }
    }
}

impl From<triune_tensor::Requantize> for Requantize {
    fn from(requantize: triune_tensor::Requantize) -> Self {
        match requantize {
            triune_tensor::Requantize::Float => Self::Float,
            triune_tensor::Requantize::Fixed => Self::Fixed,
        }
    }
}

impl From<Requantize> for triune_tensor::Requantize {
    fn from(requantize: Requantize) -> Self {
        match requantize {
            Requantize::Float => Self::Float,
            Requantize::Fixed => Self::Fixed,
        }
    }
}

impl FeatureMap {
    /// A map without gaps.
    pub const fn dense(addr: Addr, dtype: DType, [n, h, w, c]: [u32; 4]) -> Self {
        let stride_w = c as u64 * dtype.bytes() as u64;
        let stride_h = stride_w.saturating_mul(w as u64);
        let stride_n = stride_h.saturating_mul(h as u64);
        Self { addr, dtype, n, h, w, c, stride_n, stride_h, stride_w, blocks: None }
    }

    /// Elements that the map holds, gaps not counted; saturates.
    pub const fn elements(&self) -> u64 {
        (self.n as u64 * self.h as u64).saturating_mul(self.w as u64).saturating_mul(self.c as u64)
    }

    /// Bytes that the map holds, gaps not counted; saturates.
    pub const fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.bytes() as u64)
    }
}

impl Function {
    /// x itself.
    pub const IDENTITY: Self = Self { kind: FunctionKind::Identity, parameters: [0.0; 2] };
}
