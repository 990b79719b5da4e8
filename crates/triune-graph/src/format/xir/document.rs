//! The document as plain data: what an XIR file says, nothing computed and nothing dropped.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Free notes on a network, an operation or a value, kept as JSON.
pub type Tags = BTreeMap<String, serde_json::Value>;

/// One network: the JSON file, with the contents of the RAW file in its [`Params`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The network's name.
    pub name: String,
    /// The accelerator that the network is for; files before 3.7 don't say.
    pub ai_target: Option<Target>,
    /// The framework of the source model, such as `PYTORCH` or `ONNX`.
    pub framework_kind: String,
    /// The version of the source framework.
    pub framework_version: String,
    /// The version of the tools that wrote the file, such as `v3.33.1`.
    pub icraft_version: String,
    /// The version of the intermediate representation, such as `3.33.1.0`.
    pub icraft_xir_version: String,
    /// Notes on the network.
    pub tags: Tags,
    /// Every value once, in the order of first use; operations refer to them by index.
    pub values: Vec<Value>,
    /// The operations in execution order, `Input` first and `Output` last.
    pub ops: Vec<Operation>,
    /// The size of the RAW file in bytes, 0 without one.
    pub params_bytes: u64,
    /// The MD5 sum of the RAW file in hexadecimal, that of nothing without one.
    pub params_md5: String,
    /// Keys of the network that this version of the format doesn't name.
    pub extra: Tags,
}

/// One tensor: what an operation makes, or a constant ([`Value::params`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Unique in a document; negative before the network gives one.
    pub v_id: i64,
    /// Name, often empty.
    pub name: String,
    /// Element type, extents and their meaning.
    pub dtype: TensorType,
    /// Where it lies.
    pub mtype: Mem,
    /// Notes on the value.
    pub tags: Tags,
    /// Set for a constant.
    pub params: Option<Params>,
}

/// What a constant has beyond a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// Whether the RAW file may leave the data out.
    pub allow_no_data: bool,
    /// The elements, row-major in the order of the stored extents, little-endian; absent until the RAW file is read.
    pub data: Option<Bytes>,
}

/// One operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The class with its namespace and without `Node`, such as `icraft::xir::Conv2d`.
    pub type_key: String,
    /// Unique in a document.
    pub op_id: i64,
    /// Name, often empty.
    pub name: String,
    /// Which processor runs it.
    pub target: Target,
    /// Notes on the operation.
    pub tags: Tags,
    /// Operands as indices of [`Document::values`]; `None` for an optional one that is left out.
    pub inputs: Vec<Option<usize>>,
    /// Results as indices of [`Document::values`].
    pub outputs: Vec<usize>,
    /// All other keys.
    pub attributes: BTreeMap<String, Attribute>,
}

/// The value of an operation's attribute.
///
/// Strings of the format's own grammars (`@layout(NHWC)`, `@scales(…)`, `@sint(8)`) stay [`Attribute::Text`]; the grammar
/// functions of this module read them.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number written with a point; `inf`, `-inf` and `nan` are strings in the file.
    Float(f64),
    /// A string, enum members by name included.
    Text(String),
    /// An array.
    List(Vec<Attribute>),
    /// An object of no known kind, its `_type_key` included.
    Map(BTreeMap<String, Attribute>),
    /// A value or a constant as index of [`Document::values`].
    Value(usize),
    /// A tensor type.
    Type(Box<TensorType>),
    /// A quantized element type.
    Element(Box<ElementType>),
    /// An operation inside of one, such as the ones that a `HardOp` was merged from.
    Operation(Box<Operation>),
}

/// Element type, stored extents, and what they mean.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorType {
    /// The elements.
    pub element: ElementType,
    /// The stored extents, one per axis of the layout; -1 for one that is not known.
    pub shape: Vec<i64>,
    /// The axes' names.
    pub layout: Layout,
    /// Which elements along some axes are padding.
    pub merged: Vec<MergedDistr>,
}

/// What one element is.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementType {
    /// A number as it is.
    Scalar(Scalar),
    /// A number with the range that calibration saw.
    Calibrated {
        /// What it will be stored as.
        storage: Scalar,
        /// What it stands for.
        expressed: Scalar,
        /// Lowest values seen.
        min: Vec<f64>,
        /// Highest values seen.
        max: Vec<f64>,
        /// Values to saturate at.
        sat: Vec<f64>,
    },
    /// real = v · ratio.
    Normalized {
        /// What it is stored as.
        storage: Scalar,
        /// What it stands for.
        expressed: Scalar,
        /// The ratios.
        ratio: Runs<f32>,
        /// Zero points of the base type, when the file has the key.
        zero_points: Option<Vec<i64>>,
    },
    /// real = (q − zero point) · scale.
    Quantized {
        /// What it is stored as.
        storage: Scalar,
        /// What it stands for.
        expressed: Scalar,
        /// The scales.
        scale: Scale,
        /// One per scale, one for all, or none (0).
        zero_points: Vec<i64>,
    },
    /// real = (q − zero point) · scale · ratio.
    NormalizedQuantized {
        /// What it is stored as.
        storage: Scalar,
        /// What it stands for.
        expressed: Scalar,
        /// The ratios.
        ratio: Runs<f32>,
        /// The scales.
        scale: Scale,
        /// One per scale, one for all, or none (0).
        zero_points: Vec<i64>,
    },
}

/// A number's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// `@fp(bits)`: IEEE 754.
    Float(u16),
    /// `@bf(bits)`: the upper half of an f32.
    BFloat(u16),
    /// `@tf(bits)`: an f32 of which fewer bits count.
    TFloat(u16),
    /// `@fpe<e>m<m>(bits)`: exponent and mantissa bits named.
    Split {
        /// Exponent bits.
        exponent: u8,
        /// Mantissa bits.
        mantissa: u8,
        /// All bits.
        bits: u16,
    },
    /// `@sint(bits)`.
    Signed(u16),
    /// `@uint(bits)`.
    Unsigned(u16),
    /// `@bool`.
    Bool,
}

/// Values along an axis, equal neighbours counted, so that a long array costs no more than its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs<T> {
    /// The axis of the stored extents that they run along; negative counts from the end. One value is for all elements.
    pub axis: i64,
    /// (how many, value).
    pub runs: Vec<(u64, T)>,
}

/// The scales of a quantized type.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// `@scales(…)`: plain numbers.
    Plain(Runs<f32>),
    /// `@exp_scales(…)`: m · 2^-exp.
    Exp(Runs<ExpScale>),
}

/// The scale m · 2^-exp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpScale {
    /// The factor.
    pub m: i64,
    /// The shift.
    pub exp: i64,
    /// The number that m · 2^-exp is near to.
    pub origin: f32,
}

/// The meaning of every stored axis, such as `NHWC` or `NCHWc32`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    /// One per stored axis.
    pub axes: Vec<Axis>,
}

/// One axis of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// One of `N H W D C I O L *`; in lower case when it is the inner part of a split axis.
    pub name: char,
    /// The extent of the inner part of a split axis, 0 for an axis as it is.
    pub unit: u64,
}

/// Which elements over some axes taken together (first axis slowest) are valid, and which are padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedDistr {
    /// The stored axes.
    pub axes: Vec<i64>,
    /// What padding holds; files before 3.31 don't say.
    pub fill: Option<Fill>,
    /// Sections in order, without gaps, from 0.
    pub sections: Vec<Section>,
}

/// What padding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// `^NONE`: anything.
    None,
    /// `^ZERO`: zeros.
    Zero,
}

/// The elements from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// `v` valid, or `u` padding.
    pub valid: bool,
    /// First element.
    pub start: u64,
    /// First element behind.
    pub end: u64,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mem {
    /// `@hostm`: in the host's memory.
    #[default]
    Host,
    /// `@ocm(address)`: in on-chip memory.
    OnChip(u64),
    /// `@etm(address)`: in the accelerator's external memory.
    External(u64),
    /// `@chunk(id@offset)`: in a chunk of virtual memory.
    Chunk(u16, u64),
}

/// Which processor runs an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Target {
    /// `@hostt`: the processor of the host.
    #[default]
    Host,
    /// `@fpgat`: an operator in programmable logic.
    Fpga,
    /// `@customt`: something of the user's.
    Custom,
    /// `@buyit`: the Buyi accelerator.
    Buyi,
    /// `@zhuget(chip)`: a Zhuge accelerator.
    Zhuge(Chip),
    /// `@wolongt`: the Wolong accelerator.
    Wolong,
}

/// A chip with a Zhuge accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chip {
    /// `330`.
    Zg330,
    /// `340`.
    Zg340,
    /// `30S`.
    Zg30s,
}
