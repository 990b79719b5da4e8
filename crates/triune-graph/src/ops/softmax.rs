//! Softmax.

/// exp(x − max)/Σ along `axis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// The axis, counted from the back when negative.
    pub axis: isize,
    /// Whether all axes from `axis` on form one (ONNX before opset 13).
    pub flatten: bool,
}
