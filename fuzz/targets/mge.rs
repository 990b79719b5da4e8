//! The reader of MegEngine's models, with and without compressed tensors, and the writer of what it reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::internals::graph::format::mge;

fuzz_target!(|data: &[u8]| {
    for compressed in [false, true] {
        if let Ok(model) = mge::read(data.to_vec(), &mge::ReadOptions { compressed }) {
            let elements =
                model.default_shapes.iter().flatten().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
            if elements.is_some_and(|elements| elements < 1 << 16) {
                let _ = mge::write(&model.graph, &model.default_shapes);
            }
        }
    }
});
