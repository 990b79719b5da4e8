//! Model files: one module per format. Versions and dialects of a format end here; what leaves is the one IR.

pub mod onnx;
mod protobuf;
