//! The reader of packed models, and of the model inside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::internals::graph::format::mge;

fuzz_target!(|data: &[u8]| {
    if let Ok(packed) = mge::packed::read(data.to_vec()) {
        assert_eq!(mge::packed::read(mge::packed::write(&packed)).expect("what was written"), packed);
        let _ = mge::read(packed.model, &mge::ReadOptions::default());
    }
});
