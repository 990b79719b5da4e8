//! Operators that ONNX Runtime adds to ONNX's, as its quantizers and optimizers write them.

use super::{Form, Meaning, Operator, Signature, operators, quant};

operators! {
    "com.microsoft";
    // They mean the same as the standard's.
    "DequantizeLinear": [1] {2, 3, 1 => quant::dequantize};
    "QuantizeLinear": [1] {2, 3, 1 => quant::quantize};
}
