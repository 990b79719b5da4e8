//! The reader of ONNX models, inference and folding of what has fixed extents, and the writer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::internals::graph::{format::onnx, passes};

fuzz_target!(|data: &[u8]| {
    if let Ok(mut graph) = onnx::read_bytes(data.to_vec(), None) {
        let _ = onnx::write(&graph);
        let _ = passes::prepare(&mut graph);
    }
});
