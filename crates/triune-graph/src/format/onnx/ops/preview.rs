//! Operators that ONNX is trying out.

use super::{Form, Meaning, Operator, Signature, attention::flex_attention, operators};

operators! {
    "ai.onnx.preview";
    "FlexAttention": [1] {3, 3, 1 => flex_attention};
}
