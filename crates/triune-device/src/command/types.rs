//! The types of command fields: addresses, feature maps, windows, functions.

use triune_tensor::{
    DType, Requantize, Rounding,
    function::{
        BinaryKind, BorderMode, CellKind, Coded, CoordinateMode, PoolKind, ReduceKind, ResizeMode, Sampling,
        ScatterKind, UnaryKind,
    },
};

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

        fn records() -> Vec<super::docs::Struct> {
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

/// Makes fields of types with codes and nothing else.
macro_rules! coded_fields {
    ($($name:ident),+) => {$(
        impl Field for $name {
            const WORDS: usize = 1;
            fn type_name() -> String {
                Self::NAME.into()
            }
            fn put(&self, words: &mut Vec<u32>) {
                words.push(self.code());
            }
            fn get(words: &[u32]) -> Result<Self, FieldError> {
                Self::from_code(words[0]).ok_or_else(|| no_code::<Self>(words[0]))
            }
            #[cfg(test)]
            fn sample(random: &mut dyn FnMut() -> u64) -> Self {
                Self::from_code((random() % Self::CODES.len() as u64) as u32).expect("a code")
            }
        }
    )+};
}

fn no_code<T: Coded>(code: u32) -> FieldError {
    FieldError::new(format!("{code} is no code of {}", T::NAME))
}

/// An address in a program: a segment (top 10 bits) and a byte offset in it (low 54 bits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Addr(pub u64);

impl Addr {
    /// The encoding of "no address".
    const NONE: u64 = u64::MAX;
    /// Bits of an offset; the others are the segment's.
    pub const OFFSET_BITS: u32 = 54;
    /// Largest offset.
    pub const MAX_OFFSET: u64 = (1 << Self::OFFSET_BITS) - 1;
    /// Largest index of a segment.
    pub const MAX_SEGMENT: u16 = u16::MAX >> (Self::OFFSET_BITS - 48);

    /// The address of byte `offset` in `segment`; both are cut to their bits.
    pub const fn new(segment: u16, offset: u64) -> Self {
        debug_assert!(segment <= Self::MAX_SEGMENT && offset <= Self::MAX_OFFSET);
        Self((segment as u64) << Self::OFFSET_BITS | offset & Self::MAX_OFFSET)
    }

    /// The segment's index.
    pub const fn segment(self) -> u16 {
        (self.0 >> Self::OFFSET_BITS) as u16
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
        Self::new(random() as u16 % Self::MAX_SEGMENT, random() & Self::MAX_OFFSET)
    }
}

/// All ones mean none: the last segment has no byte at the largest offset.
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
}

coded_fields!(
    BinaryKind,
    CellKind,
    CoordinateMode,
    PoolKind,
    ReduceKind,
    Requantize,
    ResizeMode,
    Rounding,
    Sampling,
    ScatterKind
);

/// The tables of all codes, as documents list them.
pub(super) fn code_tables() -> Vec<super::docs::Codes> {
    use super::docs::Codes;
    vec![
        Codes::of::<UnaryKind>(),
        Codes::of::<BinaryKind>(),
        Codes::of::<Rounding>(),
        Codes::of::<Requantize>(),
        Codes::of::<ReduceKind>(),
        Codes::of::<Sampling>(),
        Codes::of::<ScatterKind>(),
        Codes::of::<PoolKind>(),
        Codes::of::<ResizeMode>(),
        Codes::of::<BorderMode>(),
        Codes::of::<CoordinateMode>(),
        Codes::of::<CellKind>(),
    ]
}

/// The tables of all composite fields, as documents list them.
pub(super) fn composites() -> Vec<super::docs::Struct> {
    use super::docs::{Row, Struct};
    let row = |name, type_name: String, words, doc| Row { name, type_name, words, doc };
    let mut all = records();
    all.push(Struct {
        name: "Function",
        words: UnaryKind::WORDS,
        doc: "A function of one real, with its parameters (unused ones are 0).",
        fields: vec![
            row("kind", UnaryKind::NAME.into(), 1, "Which function."),
            row("parameters", <[f32; 2]>::type_name(), 2, "α and β, or the lower and upper limit."),
        ],
    });
    all.push(Struct {
        name: "Border",
        words: BorderMode::WORDS,
        doc: "What lies outside of a warped input.",
        fields: vec![
            row("mode", BorderMode::NAME.into(), 1, "Which rule."),
            row("value", f32::type_name(), 1, "The value outside, for a constant border; 0 for others."),
        ],
    });
    all
}

/// The code, then the parameters; those that the function does not have are 0.
impl Field for UnaryKind {
    const WORDS: usize = 3;
    fn type_name() -> String {
        "Function".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        words.push(self.code());
        self.parameters().put(words);
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        let parameters = <[f32; 2]>::get(&words[1..])?;
        if parameters.iter().any(|parameter| parameter.is_nan()) {
            return Err(FieldError::new("a parameter is NaN").within("parameters"));
        }
        let function =
            Self::from_code(words[0], parameters).ok_or_else(|| no_code::<Self>(words[0]).within("kind"))?;
        if function.parameters().map(f32::to_bits) != parameters.map(f32::to_bits) {
            return Err(
                FieldError::new("a parameter that the function does not have is not 0").within("parameters")
            );
        }
        Ok(function)
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        let code = (random() % Self::CODES.len() as u64) as u32;
        Self::from_code(code, Field::sample(random)).expect("a code")
    }
}

/// The code, then the value of a constant border, 0 for others.
impl Field for BorderMode {
    const WORDS: usize = 2;
    fn type_name() -> String {
        "Border".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        words.push(self.code());
        self.value().put(words);
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        let value = f32::get(&words[1..])?;
        let mode =
            Self::from_code(words[0], value).ok_or_else(|| no_code::<Self>(words[0]).within("mode"))?;
        if mode.value().to_bits() != value.to_bits() {
            return Err(FieldError::new("a value that the mode does not have is not 0").within("value"));
        }
        Ok(mode)
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        let code = (random() % Self::CODES.len() as u64) as u32;
        Self::from_code(code, f32::sample(random)).expect("a code")
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

impl FeatureMap {
    /// A map without gaps.
    pub const fn dense(addr: Addr, dtype: DType, [n, h, w, c]: [u32; 4]) -> Self {
        let stride_w = c as u64 * dtype.bytes() as u64;
        let stride_h = stride_w.saturating_mul(w as u64);
        let stride_n = stride_h.saturating_mul(h as u64);
        Self { addr, dtype, n, h, w, c, stride_n, stride_h, stride_w, blocks: None }
    }

    /// Whether the elements lie one after the other.
    pub fn is_dense(&self) -> bool {
        *self == Self::dense(self.addr, self.dtype, [self.n, self.h, self.w, self.c])
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

/// What has an address, or may have one.
pub(super) trait Addressed: Clone {
    fn addr_mut(&mut self) -> Option<&mut Addr>;

    fn addr(&self) -> Option<Addr> {
        self.clone().addr_mut().copied()
    }
}

impl Addressed for Addr {
    fn addr_mut(&mut self) -> Option<&mut Addr> {
        Some(self)
    }
}

impl Addressed for FeatureMap {
    fn addr_mut(&mut self) -> Option<&mut Addr> {
        Some(&mut self.addr)
    }
}

impl Addressed for Operand {
    fn addr_mut(&mut self) -> Option<&mut Addr> {
        Some(&mut self.addr)
    }
}

impl<T: Addressed> Addressed for Option<T> {
    fn addr_mut(&mut self) -> Option<&mut Addr> {
        self.as_mut()?.addr_mut()
    }
}
