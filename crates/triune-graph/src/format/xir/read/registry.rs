//! The operators that are read: one line each, the rest is in the family's own file.

use super::{
    node::Reader,
    ops::{
        activation, arithmetic, conv, custom, matrix, movement, normalization, planes, pool, reduce, resize,
        shape,
    },
};
use crate::Error;

/// Makes the nodes of one operation and defines its results.
pub(super) type Read = fn(&mut Reader<'_, '_>) -> Result<(), Error>;

macro_rules! operators {
    ($($name:literal => $read:expr;)*) => {
        /// The operators that are read (without `icraft::xir::`), in alphabetical order; `Input` and `Output` are read, too.
        pub const OPERATORS: &[&str] = &[$($name),*];

        /// How the operator `kind` is read.
        pub(super) fn find(kind: &str) -> Option<Read> {
            match kind {
                $($name => Some($read),)*
                _ => kind.strip_prefix(CUSTOM).filter(|own| CUSTOM_OPERATORS.contains(own)).map(|_| custom::read as Read),
            }
        }
    };
}

/// What the names of operators of one's own begin with.
pub const CUSTOM: &str = "customop::";

/// Operators that the vendor has none for, in alphabetical order: networks have them as [`CUSTOM`] ones.
pub const CUSTOM_OPERATORS: &[&str] = &[
    "Affine",
    "And",
    "Atan2",
    "Ceil",
    "Erf",
    "ErfInv",
    "Erfc",
    "ErfcInv",
    "Exp",
    "Expm1",
    "FastTanh",
    "Floor",
    "Gate",
    "Log1p",
    "LogAddExp",
    "Mod",
    "MulHigh",
    "Or",
    "Pow",
    "RMSNorm",
    "Rem",
    "Resize",
    "Round",
    "RoundHalfAway",
    "Rsqrt",
    "ScaledTanh",
    "ShiftLeft",
    "ShiftRight",
    "Sign",
    "ThresholdedRelu",
    "Xor",
];

operators! {
    "ACos" => activation::function;
    "ACosh" => activation::function;
    "ASin" => activation::function;
    "ASinh" => activation::function;
    "ATan" => activation::function;
    "ATanh" => activation::function;
    "Abs" => activation::function;
    "Add" => arithmetic::add;
    "AlignAxis" => shape::carry;
    "Argmax" => reduce::position;
    "Argmin" => reduce::position;
    "AvgPool1d" => pool::pool;
    "AvgPool2d" => pool::pool;
    "Avgpool" => pool::pool;
    "BatchNorm1d" => normalization::batch;
    "BatchNorm2d" => normalization::batch;
    "BatchNorm3d" => normalization::batch;
    "Batchnorm" => normalization::batch;
    "Cast" => shape::cast;
    "ChannelShuffle" => planes::channel_shuffle;
    "ClampScalar" => activation::clamp;
    "Concat" => movement::concat;
    "Conv1d" => conv::conv1d;
    "Conv2d" => conv::conv2d;
    "Conv2dTranspose" => conv::conv_transpose2d;
    "ConvTranspose1d" => conv::conv_transpose1d;
    "ConvTranspose2d" => conv::conv_transpose2d;
    "Copy" => shape::carry;
    "Cos" => activation::function;
    "Cosh" => activation::function;
    "Div" => arithmetic::divide;
    "DivideScalar" => arithmetic::divide_scalar;
    "ELU" => activation::elu;
    "Elu" => activation::elu;
    "Equal" => arithmetic::compare;
    "Expand" => movement::expand;
    "GELU" => activation::function;
    "Gelu" => activation::function;
    "Greater" => arithmetic::compare;
    "GreaterEqual" => arithmetic::compare;
    "Hardshrink" => activation::hard_shrink;
    "Hardsigmoid" => activation::hard_sigmoid;
    "Hardswish" => activation::function;
    "Hardtanh" => activation::hard_tanh;
    "InstanceNorm1d" => normalization::instance;
    "InstanceNorm2d" => normalization::instance;
    "InstanceNorm3d" => normalization::instance;
    "LayerNorm" => normalization::layer;
    "Layernorm" => normalization::layer;
    "Less" => arithmetic::compare;
    "LessEqual" => arithmetic::compare;
    "Log" => activation::function;
    "LogSigmoid" => activation::function;
    "LogSoftmax" => reduce::log_softmax;
    "Matmul" => matrix::product;
    "Max" => reduce::reduce;
    "MaxPool1d" => pool::pool;
    "MaxPool2d" => pool::pool;
    "Maximum" => arithmetic::extreme;
    "Maxpool" => pool::pool;
    "Mean" => reduce::reduce;
    "Min" => reduce::reduce;
    "Minimum" => arithmetic::extreme;
    "Mish" => activation::mish;
    "Multiply" => arithmetic::multiply;
    "Neg" => activation::function;
    "Normalize" => normalization::normalize;
    "NotEqual" => arithmetic::compare;
    "PReLU" => activation::prelu;
    "Pad" => movement::pad;
    "PixelShuffle" => planes::pixel_shuffle;
    "Prelu" => activation::prelu;
    "PruneAxis" => shape::carry;
    "ReLU" => activation::relu;
    "Relu" => activation::relu;
    "Reshape" => shape::reshape;
    "Resize" => resize::resize;
    "Roll" => movement::roll;
    "SiLU" => activation::function;
    "Sigmoid" => activation::function;
    "Silu" => activation::function;
    "Sin" => activation::function;
    "Sinh" => activation::function;
    "Slice" => movement::slice;
    "Softmax" => reduce::softmax;
    "Softplus" => activation::softplus;
    "Softshrink" => activation::soft_shrink;
    "Softsign" => activation::softsign;
    "Split" => movement::split;
    "Sqrt" => activation::function;
    "Squeeze" => shape::squeeze;
    "Stack" => movement::stack;
    "Sum" => reduce::reduce;
    "SwapOrder" => movement::swap_order;
    "Tan" => activation::function;
    "Tanh" => activation::function;
    "Tanhshrink" => activation::tanh_shrink;
    "Transpose" => shape::transpose;
    "Unstack" => movement::unstack;
    "Upsample" => resize::upsample;
    "Where" => arithmetic::choose;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of `docs/icraft.md` names every operator, and no other.
    #[test]
    fn the_documentation_lists_the_operators() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/icraft.md");
        let text = std::fs::read_to_string(path).expect("docs/icraft.md is readable");
        let (_, section) =
            text.split_once("\n## How operators are computed\n").expect("a section on operators");
        let section = section.split("\n## ").next().expect("a section");
        let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1));
        let mut names: Vec<&str> = cells
            .filter(|cell| cell.starts_with('`'))
            .flat_map(|cell| cell.split(", "))
            .map(|name| name.trim_matches('`'))
            .collect();
        names.sort_unstable();
        assert_eq!(names, OPERATORS);
    }

    /// Every one is a function of the graph, and stands in the text behind the table.
    #[test]
    fn the_documentation_lists_operators_of_ones_own() {
        use triune_tensor::function::{BinaryKind, Coded, UnaryKind};
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/icraft.md");
        let text = std::fs::read_to_string(path).expect("docs/icraft.md is readable");
        let (_, rest) = text.split_once("\n`customop::` ").expect("a list");
        let list = rest.split(".\n").next().expect("a sentence");
        let names: Vec<&str> = list.split(',').map(|name| name.trim().trim_matches('`')).collect();
        assert_eq!(names, CUSTOM_OPERATORS);
        let known = |name: &&str| {
            let mut codes = UnaryKind::CODES.iter().chain(BinaryKind::CODES);
            ["RMSNorm", "Resize"].contains(name) || codes.any(|code| code.name == *name)
        };
        assert!(CUSTOM_OPERATORS.iter().all(known));
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(OPERATORS.is_sorted());
        assert!(CUSTOM_OPERATORS.is_sorted());
    }
}
