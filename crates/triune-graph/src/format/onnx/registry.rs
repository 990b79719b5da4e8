//! The operators that are read: one line each, the rest is in the operator's own file.

use super::NodeReader;
use crate::{
    Error, Op,
    ops::{
        ArgReduce, BatchNormalization, Binary, BinaryKind, Cast, Clip, Concat, ConstantOfShape, Conv,
        DequantizeLinear, Expand, Flatten, Gather, GatherElements, GatherNd, Gemm, GlobalPool, Identity,
        MatMul, NonMaxSuppression, NonZero, Pad, Pool, QuantizeLinear, Reduce, ReduceKind, Reshape, Resize,
        ShapeOf, Slice, Softmax, Split, Squeeze, TopK, Transpose, Unary, UnaryKind, Unsqueeze, Where,
    },
};

/// How one operator of the format is read.
pub(super) struct Entry {
    /// Fewest and most operands.
    pub(super) inputs: (usize, usize),
    /// Most results.
    pub(super) outputs: usize,
    /// Makes the operator.
    pub(super) read: fn(&mut NodeReader<'_, '_>) -> Result<Op, Error>,
}

const MANY: usize = usize::MAX;

macro_rules! operators {
    ($(($name:literal, $low:expr, $high:expr, $outputs:expr) => $read:expr;)*) => {
        /// How the default domain's operator `op_type` is read.
        fn entry(op_type: &str) -> Option<Entry> {
            match op_type {
                $($name => Some(Entry { inputs: ($low, $high), outputs: $outputs, read: $read }),)*
                _ => None,
            }
        }
    };
}

// Name, fewest and most inputs, most outputs, and who reads it. `Constant` makes a value, not a node: see `read`.
operators! {
    ("Abs", 1, 1, 1) => |_| Ok(UnaryKind::Abs.into());
    ("Acos", 1, 1, 1) => |_| Ok(UnaryKind::Acos.into());
    ("Acosh", 1, 1, 1) => |_| Ok(UnaryKind::Acosh.into());
    ("Add", 2, 2, 1) => |_| Ok(BinaryKind::Add.into());
    ("And", 2, 2, 1) => |_| Ok(BinaryKind::And.into());
    ("ArgMax", 1, 1, 1) => |node| ArgReduce::from_onnx(node, ReduceKind::Max);
    ("ArgMin", 1, 1, 1) => |node| ArgReduce::from_onnx(node, ReduceKind::Min);
    ("Asin", 1, 1, 1) => |_| Ok(UnaryKind::Asin.into());
    ("Asinh", 1, 1, 1) => |_| Ok(UnaryKind::Asinh.into());
    ("Atan", 1, 1, 1) => |_| Ok(UnaryKind::Atan.into());
    ("Atanh", 1, 1, 1) => |_| Ok(UnaryKind::Atanh.into());
    ("AveragePool", 1, 1, 1) => Pool::average_from_onnx;
    ("BatchNormalization", 5, 5, 5) => BatchNormalization::from_onnx;
    ("BitShift", 2, 2, 1) => Binary::bit_shift_from_onnx;
    ("Cast", 1, 1, 1) => Cast::from_onnx;
    ("Ceil", 1, 1, 1) => |_| Ok(UnaryKind::Ceil.into());
    ("Clip", 1, 3, 1) => Clip::from_onnx;
    ("Concat", 1, MANY, 1) => Concat::from_onnx;
    ("ConstantOfShape", 1, 1, 1) => ConstantOfShape::from_onnx;
    ("Conv", 2, 3, 1) => Conv::from_onnx;
    ("Cos", 1, 1, 1) => |_| Ok(UnaryKind::Cos.into());
    ("Cosh", 1, 1, 1) => |_| Ok(UnaryKind::Cosh.into());
    ("DequantizeLinear", 2, 3, 1) => DequantizeLinear::from_onnx;
    ("Div", 2, 2, 1) => |_| Ok(BinaryKind::Div.into());
    ("Dropout", 1, 3, 2) => Identity::dropout_from_onnx;
    ("Elu", 1, 1, 1) => Unary::elu_from_onnx;
    ("Equal", 2, 2, 1) => |_| Ok(BinaryKind::Equal.into());
    ("Erf", 1, 1, 1) => |_| Ok(UnaryKind::Erf.into());
    ("Exp", 1, 1, 1) => |_| Ok(UnaryKind::Exp.into());
    ("Expand", 2, 2, 1) => |_| Ok(Op::Expand(Expand));
    ("Flatten", 1, 1, 1) => Flatten::from_onnx;
    ("Floor", 1, 1, 1) => |_| Ok(UnaryKind::Floor.into());
    ("Gather", 2, 2, 1) => Gather::from_onnx;
    ("GatherElements", 2, 2, 1) => GatherElements::from_onnx;
    ("GatherND", 2, 2, 1) => GatherNd::from_onnx;
    ("Gelu", 1, 1, 1) => Unary::gelu_from_onnx;
    ("Gemm", 2, 3, 1) => Gemm::from_onnx;
    ("GlobalAveragePool", 1, 1, 1) => |_| Ok(Op::GlobalPool(GlobalPool::AVERAGE));
    ("GlobalMaxPool", 1, 1, 1) => |_| Ok(Op::GlobalPool(GlobalPool::MAX));
    ("Greater", 2, 2, 1) => |_| Ok(BinaryKind::Greater.into());
    ("GreaterOrEqual", 2, 2, 1) => |_| Ok(BinaryKind::GreaterOrEqual.into());
    ("HardSigmoid", 1, 1, 1) => Unary::hard_sigmoid_from_onnx;
    ("HardSwish", 1, 1, 1) => |_| Ok(UnaryKind::HardSwish.into());
    ("Identity", 1, 1, 1) => |_| Ok(Op::Identity(Identity));
    ("IsInf", 1, 1, 1) => Binary::is_inf_from_onnx;
    ("IsNaN", 1, 1, 1) => Binary::is_nan_from_onnx;
    ("LeakyRelu", 1, 1, 1) => Unary::leaky_relu_from_onnx;
    ("Less", 2, 2, 1) => |_| Ok(BinaryKind::Less.into());
    ("LessOrEqual", 2, 2, 1) => |_| Ok(BinaryKind::LessOrEqual.into());
    ("Log", 1, 1, 1) => |_| Ok(UnaryKind::Log.into());
    ("MatMul", 2, 2, 1) => |_| Ok(Op::MatMul(MatMul::default()));
    ("Max", 1, MANY, 1) => |node| Binary::chain_from_onnx(node, BinaryKind::Max);
    ("MaxPool", 1, 1, 2) => Pool::max_from_onnx;
    ("Min", 1, MANY, 1) => |node| Binary::chain_from_onnx(node, BinaryKind::Min);
    ("Mod", 2, 2, 1) => Binary::mod_from_onnx;
    ("Mul", 2, 2, 1) => |_| Ok(BinaryKind::Mul.into());
    ("Neg", 1, 1, 1) => |_| Ok(UnaryKind::Neg.into());
    ("NonMaxSuppression", 2, 5, 1) => NonMaxSuppression::from_onnx;
    ("NonZero", 1, 1, 1) => |_| Ok(Op::NonZero(NonZero));
    ("Not", 1, 1, 1) => Binary::not_from_onnx;
    ("Or", 2, 2, 1) => |_| Ok(BinaryKind::Or.into());
    ("PRelu", 2, 2, 1) => |_| Ok(BinaryKind::PRelu.into());
    ("Pad", 1, 4, 1) => Pad::from_onnx;
    ("Pow", 2, 2, 1) => |_| Ok(BinaryKind::Pow.into());
    ("QuantizeLinear", 2, 3, 1) => QuantizeLinear::from_onnx;
    ("Reciprocal", 1, 1, 1) => |_| Ok(UnaryKind::Reciprocal.into());
    ("ReduceL1", 1, 2, 1) => Reduce::l1_from_onnx;
    ("ReduceL2", 1, 2, 1) => Reduce::l2_from_onnx;
    ("ReduceLogSum", 1, 2, 1) => Reduce::log_sum_from_onnx;
    ("ReduceLogSumExp", 1, 2, 1) => Reduce::log_sum_exp_from_onnx;
    ("ReduceMax", 1, 2, 1) => |node| Reduce::from_onnx(node, ReduceKind::Max);
    ("ReduceMean", 1, 2, 1) => |node| Reduce::from_onnx(node, ReduceKind::Mean);
    ("ReduceMin", 1, 2, 1) => |node| Reduce::from_onnx(node, ReduceKind::Min);
    ("ReduceProd", 1, 2, 1) => |node| Reduce::from_onnx(node, ReduceKind::Product);
    ("ReduceSum", 1, 2, 1) => |node| Reduce::from_onnx(node, ReduceKind::Sum);
    ("ReduceSumSquare", 1, 2, 1) => |node| Reduce::from_onnx(node, ReduceKind::SumSquare);
    ("Relu", 1, 1, 1) => |_| Ok(UnaryKind::Relu.into());
    ("Reshape", 2, 2, 1) => Reshape::from_onnx;
    ("Resize", 1, 4, 1) => Resize::from_onnx;
    ("Round", 1, 1, 1) => |_| Ok(UnaryKind::Round.into());
    ("Shape", 1, 1, 1) => ShapeOf::from_onnx;
    ("Sigmoid", 1, 1, 1) => |_| Ok(UnaryKind::Sigmoid.into());
    ("Sign", 1, 1, 1) => |_| Ok(UnaryKind::Sign.into());
    ("Sin", 1, 1, 1) => |_| Ok(UnaryKind::Sin.into());
    ("Sinh", 1, 1, 1) => |_| Ok(UnaryKind::Sinh.into());
    ("Slice", 1, 5, 1) => Slice::from_onnx;
    ("Softmax", 1, 1, 1) => Softmax::from_onnx;
    ("Softplus", 1, 1, 1) => |_| Ok(UnaryKind::Softplus.into());
    ("Split", 1, 2, MANY) => Split::from_onnx;
    ("Sqrt", 1, 1, 1) => |_| Ok(UnaryKind::Sqrt.into());
    ("Squeeze", 1, 2, 1) => Squeeze::from_onnx;
    ("Sub", 2, 2, 1) => |_| Ok(BinaryKind::Sub.into());
    ("Sum", 1, MANY, 1) => |node| Binary::chain_from_onnx(node, BinaryKind::Add);
    ("Tan", 1, 1, 1) => |_| Ok(UnaryKind::Tan.into());
    ("Tanh", 1, 1, 1) => |_| Ok(UnaryKind::Tanh.into());
    ("TopK", 1, 2, 2) => TopK::from_onnx;
    ("Transpose", 1, 1, 1) => Transpose::from_onnx;
    ("Unsqueeze", 1, 2, 1) => Unsqueeze::from_onnx;
    ("Upsample", 1, 2, 1) => Resize::upsample_from_onnx;
    ("Where", 3, 3, 1) => |_| Ok(Op::Where(Where));
    ("Xor", 2, 2, 1) => |_| Ok(BinaryKind::Xor.into());
}

/// Whether `domain` is the one that ONNX itself defines.
pub(super) fn is_default_domain(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// How an operator is read; `None` for one that is not known.
pub(super) fn find(domain: &str, op_type: &str) -> Option<Entry> {
    // The contributed forms mean the same as the standard's, and some quantizers write them.
    let same = domain == "com.microsoft" && matches!(op_type, "QuantizeLinear" | "DequantizeLinear");
    if is_default_domain(domain) || same { entry(op_type) } else { None }
}
