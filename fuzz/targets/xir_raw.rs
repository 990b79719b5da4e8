//! The RAW container of XIR documents: its table, and the constants of a document that it is or is not of.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use triune::internals::graph::format::xir::{Document, raw_table};

static DOCUMENT: LazyLock<Document> = LazyLock::new(triune_fuzz::document);

fuzz_target!(|data: &[u8]| {
    if let Ok(table) = raw_table(data) {
        for entry in table {
            let end = entry.offset + entry.length;
            assert!(end <= data.len() as u64);
        }
    }
    let mut document = DOCUMENT.clone();
    document.params_bytes = data.len() as u64;
    if document.attach(&data.to_vec().into()).is_ok() {
        let (_, raw) = document.write().expect("what was read can be written");
        assert_eq!(raw.len(), data.len());
    }
});
