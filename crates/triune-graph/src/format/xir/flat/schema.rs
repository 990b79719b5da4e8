//! What the tables of a network in FlatBuffers form hold, as data.
//!
//! Facts of the format: the vendor publishes the header that `flatc` 24.3.25 made of its schema (`xir_generated.h`). A table
//! has its class' attributes in the order in which the class declares them, then what it has of the class it derives from. A
//! field whose class others derive from is a union, which takes two slots, the first for which class it is. Members of
//! enumerations are strings with their names; scalars that are left out are 0.

/// What an attribute of an operator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A 64-bit integer with sign.
    Int,
    /// A flag.
    Bool,
    /// A 32-bit float.
    Real,
    /// A string, or the name of an enumeration's member.
    Text,
    /// A string that holds JSON.
    Json,
    /// Integers.
    Ints,
    /// Integers, or nothing.
    MaybeInts,
    /// A constant, or nothing.
    Params,
    /// Constants.
    ManyParams,
    /// An `IntImm`, or nothing.
    MaybeImm,
    /// A number with a type of its own.
    Number,
    /// Such numbers.
    Numbers,
    /// Scales along an axis.
    Scales,
    /// The axes of a tensor.
    Layout,
    /// The type of a tensor.
    Type,
    /// Multiples that axes are filled up to.
    Units,
    /// The operations that one was merged from.
    HardOps,
}

impl Kind {
    /// How many slots a field takes.
    pub(super) fn slots(self) -> usize {
        match self {
            Self::Number | Self::Numbers | Self::Scales => 2,
            _ => 1,
        }
    }
}

use Kind::{
    Bool, HardOps, Int, Ints, Json, Layout, ManyParams, MaybeImm, MaybeInts, Number, Numbers, Params, Real,
    Scales, Text, Type, Units,
};

/// A class of operators and its attributes, by the JSON's names, in the order of the slots.
pub(super) type Class = (&'static str, &'static [(&'static str, Kind)]);

/// The class of which the vendor's tools keep operators that have no table of their own.
pub(super) const UNKNOWN: &str = "Unknown";

/// The union of operations: a class' number is its place here, counted from 1.
///
/// Behind them comes `Operation` itself, of which there are no objects.
#[rustfmt::skip]
pub(super) const OPERATORS: [Class; 105] = [
    ("Input", &[]),
    ("Output", &[]),
    ("Abs", &[]),
    ("ACos", &[]),
    ("ACosh", &[]),
    ("Add", &[("alpha", Numbers), ("beta", Numbers), ("cut_scale", Scales)]),
    ("AlignAxis", &[("aligned_units", Units)]),
    ("Argmax", &[("dim", MaybeImm), ("keepdim", Bool)]),
    ("Argmin", &[("dim", MaybeImm), ("keepdim", Bool)]),
    ("ASin", &[]),
    ("ASinh", &[]),
    ("ATan", &[]),
    ("ATanh", &[]),
    ("AvgPool1d", &[
        ("pool_width", Int), ("stride_width", Int), ("pad_left", Int), ("pad_right", Int),
        ("count_include_pad", Bool), ("divisor_override", Int),
    ]),
    ("AvgPool2d", &[
        ("pool_width", Int), ("pool_height", Int), ("stride_width", Int), ("stride_height", Int), ("pad_top", Int),
        ("pad_bottom", Int), ("pad_left", Int), ("pad_right", Int), ("count_include_pad", Bool), ("divisor_override", Int),
    ]),
    ("AvgPool3d", &[
        ("pool_depth", Int), ("pool_width", Int), ("pool_height", Int), ("stride_depth", Int), ("stride_width", Int),
        ("stride_height", Int), ("pad_front", Int), ("pad_back", Int), ("pad_top", Int), ("pad_bottom", Int),
        ("pad_left", Int), ("pad_right", Int), ("count_include_pad", Bool), ("divisor_override", Int),
    ]),
    ("BatchNorm1d", &[("variance", Params), ("mean", Params)]),
    ("BatchNorm2d", &[("variance", Params), ("mean", Params)]),
    ("BatchNorm3d", &[("variance", Params), ("mean", Params)]),
    ("Cast", &[("target_dtype", Type)]),
    ("ChannelShuffle", &[("groups", Int)]),
    ("ClampScalar", &[("min", Real), ("max", Real)]),
    ("Concat", &[("axis", Int)]),
    ("Conv1d", &[
        ("stride_width", Int), ("pad_left", Int), ("pad_right", Int), ("dilation_width", Int), ("groups", Int),
        ("padding_mode", Text), ("cut_scale", Scales),
    ]),
    ("Conv2d", &[
        ("stride_width", Int), ("stride_height", Int), ("pad_top", Int), ("pad_bottom", Int), ("pad_left", Int),
        ("pad_right", Int), ("dilation_width", Int), ("dilation_height", Int), ("groups", Int), ("padding_mode", Text),
        ("cut_scale", Scales),
    ]),
    ("Conv3d", &[
        ("stride_depth", Int), ("stride_width", Int), ("stride_height", Int), ("pad_front", Int), ("pad_back", Int),
        ("pad_top", Int), ("pad_bottom", Int), ("pad_left", Int), ("pad_right", Int), ("dilation_depth", Int),
        ("dilation_width", Int), ("dilation_height", Int), ("groups", Int), ("padding_mode", Text), ("cut_scale", Scales),
    ]),
    ("ConvTranspose1d", &[
        ("stride_width", Int), ("pad_left", Int), ("pad_right", Int), ("dilation_width", Int), ("output_pad_width", Int),
        ("groups", Int),
    ]),
    ("ConvTranspose2d", &[
        ("stride_width", Int), ("stride_height", Int), ("pad_top", Int), ("pad_bottom", Int), ("pad_left", Int),
        ("pad_right", Int), ("dilation_width", Int), ("dilation_height", Int), ("output_pad_width", Int),
        ("output_pad_height", Int), ("groups", Int),
    ]),
    ("ConvTranspose3d", &[
        ("stride_depth", Int), ("stride_width", Int), ("stride_height", Int), ("pad_front", Int), ("pad_back", Int),
        ("pad_top", Int), ("pad_bottom", Int), ("pad_left", Int), ("pad_right", Int), ("dilation_depth", Int),
        ("dilation_width", Int), ("dilation_height", Int), ("output_pad_depth", Int), ("output_pad_width", Int),
        ("output_pad_height", Int), ("groups", Int),
    ]),
    ("Copy", &[]),
    ("Cos", &[]),
    ("Cosh", &[]),
    ("Div", &[("rounding_mode", Text)]),
    ("DivideScalar", &[("divisor", Real), ("rounding_mode", Text)]),
    ("Einsum", &[("equation", Text)]),
    ("ELU", &[("alpha", Real)]),
    ("Equal", &[]),
    ("Expand", &[("sizes", Ints)]),
    ("GELU", &[]),
    ("Greater", &[]),
    ("GreaterEqual", &[]),
    ("HardOp", &[
        ("instr", ManyParams), ("params", ManyParams), ("origin_ops_id", Ints), ("device_info", Json), ("layer_count", Int),
        ("sub_hard_ops", HardOps),
    ]),
    ("Hardshrink", &[("lambda", Real)]),
    ("Hardsigmoid", &[("alpha", Real), ("beta", Real)]),
    ("Hardswish", &[]),
    ("Hardtanh", &[("min_val", Real), ("max_val", Real)]),
    ("InstanceNorm1d", &[("eps", Real), ("gamma", Params), ("beta", Params)]),
    ("InstanceNorm2d", &[("eps", Real), ("gamma", Params), ("beta", Params)]),
    ("InstanceNorm3d", &[("eps", Real), ("gamma", Params), ("beta", Params)]),
    ("LayerNorm", &[("axis", Ints), ("eps", Real), ("gamma", Params), ("beta", Params)]),
    ("Less", &[]),
    ("LessEqual", &[]),
    ("Log", &[]),
    ("LogSigmoid", &[]),
    ("LogSoftmax", &[("axis", Int)]),
    ("Matmul", &[("cut_scale", Scales)]),
    ("Max", &[("dim", MaybeImm), ("keepdim", Bool)]),
    ("Maximum", &[]),
    ("MaxPool1d", &[
        ("pool_width", Int), ("stride_width", Int), ("pad_left", Int), ("pad_right", Int), ("dilation_width", Int),
    ]),
    ("MaxPool2d", &[
        ("pool_width", Int), ("pool_height", Int), ("stride_width", Int), ("stride_height", Int), ("pad_top", Int),
        ("pad_bottom", Int), ("pad_left", Int), ("pad_right", Int), ("dilation_width", Int), ("dilation_height", Int),
    ]),
    ("MaxPool3d", &[
        ("pool_depth", Int), ("pool_width", Int), ("pool_height", Int), ("stride_depth", Int), ("stride_width", Int),
        ("stride_height", Int), ("pad_front", Int), ("pad_back", Int), ("pad_top", Int), ("pad_bottom", Int),
        ("pad_left", Int), ("pad_right", Int), ("dilation_depth", Int), ("dilation_width", Int), ("dilation_height", Int),
    ]),
    ("Mean", &[("dim", Ints), ("keepdim", Bool)]),
    ("Min", &[("dim", MaybeImm), ("keepdim", Bool)]),
    ("Minimum", &[]),
    ("Mish", &[]),
    ("Multiply", &[("cut_scale", Scales)]),
    ("Neg", &[]),
    ("Normalize", &[("axis", Ints), ("p", Real), ("eps", Real)]),
    ("Not", &[]),
    ("NotEqual", &[]),
    ("Pad", &[("padding", Ints), ("mode", Text), ("value", Number)]),
    ("PixelShuffle", &[("upscale_factor", Int)]),
    ("Pow", &[]),
    ("PReLU", &[("alpha", Params)]),
    ("PruneAxis", &[("index", Ints)]),
    ("ReLU", &[("alpha", Real), ("max_value", Real), ("threshold", Real)]),
    ("Reshape", &[("shape", Ints), ("layout", Layout)]),
    ("Resize", &[("dsize", Ints), ("interpolation", Text)]),
    ("Roll", &[("shifts", Ints), ("dims", MaybeInts)]),
    ("Sigmoid", &[]),
    ("SiLU", &[]),
    ("Sin", &[]),
    ("Sinh", &[]),
    ("Slice", &[("begin", Ints), ("end", Ints), ("stride", Ints)]),
    ("Softmax", &[("axis", Int)]),
    ("Softplus", &[("beta", Real), ("threshold", Real)]),
    ("Softshrink", &[("lambda", Real)]),
    ("Softsign", &[]),
    ("Split", &[("sections", Ints), ("axis", Int)]),
    ("Sqrt", &[]),
    ("Squeeze", &[("axis", Ints)]),
    ("Stack", &[("dim", Int)]),
    ("Sum", &[("dim", Ints), ("keepdim", Bool)]),
    ("SwapOrder", &[("order", Ints), ("axis", Int)]),
    ("Tan", &[]),
    ("Tanh", &[]),
    ("Tanhshrink", &[]),
    ("Tile", &[("dims", Ints)]),
    ("Transpose", &[("dims", Ints), ("layout", Layout)]),
    ("Unfold", &[
        ("kernel_width", Int), ("kernel_height", Int), ("stride_width", Int), ("stride_height", Int), ("pad_top", Int),
        ("pad_bottom", Int), ("pad_left", Int), ("pad_right", Int), ("dilation_width", Int), ("dilation_height", Int),
    ]),
    (UNKNOWN, &[("msg_info", Text), ("json_info", Text)]),
    ("Unstack", &[("dim", Int)]),
    ("Unsupport", &[]),
    ("Upsample", &[("height", Int), ("width", Int), ("interpolation", Text), ("align_corners", Bool)]),
    ("Where", &[]),
];

/// The slots of a network.
pub(super) mod network {
    pub(in super::super) const NAME: usize = 0;
    pub(in super::super) const FRAMEWORK_KIND: usize = 1;
    pub(in super::super) const FRAMEWORK_VERSION: usize = 2;
    pub(in super::super) const ICRAFT_XIR_VERSION: usize = 3;
    pub(in super::super) const ICRAFT_VERSION: usize = 4;
    pub(in super::super) const PARAMS_BYTES: usize = 5;
    pub(in super::super) const PARAMS_MD5: usize = 6;
    pub(in super::super) const TAGS: usize = 7;
    /// A vector of unions: two slots.
    pub(in super::super) const OPS: usize = 8;
    /// A union: two slots.
    pub(in super::super) const AI_TARGET: usize = 10;
}

/// The slots of any operation, counted from behind its attributes.
pub(super) mod operation {
    pub(in super::super) const OP_ID: usize = 0;
    pub(in super::super) const NAME: usize = 1;
    /// A vector of unions: two slots.
    pub(in super::super) const INPUTS: usize = 2;
    /// A vector of unions: two slots.
    pub(in super::super) const OUTPUTS: usize = 4;
    /// A union: two slots.
    pub(in super::super) const COMPILE_TARGET: usize = 6;
    pub(in super::super) const TAGS: usize = 8;
}

/// The slots of a value; a constant has one before them and one behind.
pub(super) mod value {
    pub(in super::super) const V_ID: usize = 0;
    pub(in super::super) const NAME: usize = 1;
    pub(in super::super) const TAGS: usize = 2;
    /// A union: two slots.
    pub(in super::super) const DTYPE: usize = 3;
    /// A union: two slots.
    pub(in super::super) const MTYPE: usize = 5;
    /// Behind a constant's.
    pub(in super::super) const DATA: usize = 7;
}

/// Numbers of classes in the unions.
pub(super) mod class {
    /// In `Value_box`.
    pub(in super::super) const PARAMS: u8 = 1;
    /// In `Value_box`.
    pub(in super::super) const VALUE: u8 = 2;
    /// In `DataType_box`.
    pub(in super::super) const TENSOR_TYPE: u8 = 10;
    /// In `DataType_box` and `ScalarType_box`.
    pub(in super::super) const BOOL_TYPE: u8 = 1;
    pub(in super::super) const INTEGER_TYPE: u8 = 2;
    pub(in super::super) const FLOAT_TYPE: u8 = 3;
    pub(in super::super) const CALIBRATED_TYPE: u8 = 4;
    pub(in super::super) const NORMALIZED_TYPE: u8 = 5;
    pub(in super::super) const NORMALIZED_QUANTIZED_TYPE: u8 = 6;
    pub(in super::super) const QUANTIZED_TYPE: u8 = 7;
    /// In `QuantizedScaleArray_box`.
    pub(in super::super) const EXP_SCALES: u8 = 1;
    pub(in super::super) const SCALES: u8 = 2;
    /// In `AxisName_box`.
    pub(in super::super) const AXIS_UNIT: u8 = 1;
    pub(in super::super) const AXIS_NAME: u8 = 2;
    /// In `ScalarImm_box`.
    pub(in super::super) const BOOL: u8 = 1;
    pub(in super::super) const INT_IMM: u8 = 2;
    pub(in super::super) const FLOAT_IMM: u8 = 3;
}

use super::super::{Chip, Mem, Scalar, Target};

/// What a number format is to FlatBuffers: largest and smallest exponent, bits of the mantissa, all bits.
pub(super) const FLOATS: [(Scalar, [i64; 4]); 7] = [
    (Scalar::Float(16), [15, -14, 11, 16]),
    (Scalar::Float(32), [127, -126, 24, 32]),
    (Scalar::Float(64), [1023, -1022, 53, 64]),
    (Scalar::BFloat(16), [127, -126, 8, 16]),
    (Scalar::TFloat(32), [127, -126, 11, 19]),
    (Scalar::Split { exponent: 7, mantissa: 8, bits: 16 }, [63, -64, 9, 16]),
    (Scalar::Split { exponent: 6, mantissa: 9, bits: 16 }, [31, -32, 10, 16]),
];

/// The class of a place in `MemType_box`.
pub(super) fn mem_class(mem: Mem) -> u8 {
    match mem {
        Mem::Host => 1,
        Mem::OnChip(_) => 2,
        Mem::External(_) => 3,
        Mem::Chunk(..) => 4,
    }
}

/// The class of a target in `CompileTarget_box`.
pub(super) fn target_class(target: Target) -> u8 {
    match target {
        Target::Host => 1,
        Target::Fpga => 2,
        Target::Custom => 3,
        Target::Buyi => 4,
        Target::Zhuge(_) => 5,
        Target::Wolong => 6,
    }
}

/// The chips by the names of the enumeration's members.
pub(super) const CHIPS: [(&str, Chip); 3] =
    [("ZG330", Chip::Zg330), ("ZG340", Chip::Zg340), ("ZG30S", Chip::Zg30s)];
