//! The reader of networks in FlatBuffers form, and their writer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::internals::graph::format::xir::Document;

fuzz_target!(|data: &[u8]| {
    let Ok(document) = Document::read_flat(&data.to_vec().into()) else { return };
    // Its JSON is what the other reader takes, unless a key of it says what JSON does not allow.
    let text = document.write_json();
    let _ = Document::read(text.as_bytes(), None);
    if let Ok(written) = document.write_flat() {
        let again = Document::read_flat(&written.clone().into()).expect("its own file");
        assert_eq!(again.write_flat().ok(), Some(written));
    }
});
