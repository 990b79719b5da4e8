//! The reader of XIR documents, their writer, and the graph that their operators make.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::internals::graph::{
    format::xir::{Document, Options, to_graph},
    passes,
};

fuzz_target!(|data: &[u8]| {
    let Ok(mut document) = Document::read(data, None) else { return };
    let text = document.write_json();
    let again = Document::read(text.as_bytes(), None).expect("its own text");
    assert_eq!(again.write_json(), text);
    // Constants get zeros, when they are not large.
    for value in &mut document.values {
        let bytes = value.dtype.storage_bytes().filter(|&bytes| bytes <= 1 << 16);
        if let (Some(params), Some(bytes)) = (&mut value.params, bytes) {
            params.data = Some(vec![0; bytes as usize].into());
        }
    }
    for fake_qf in [false, true] {
        if let Ok(mut graph) = to_graph(&document, &Options { fake_qf }) {
            let small = |extent: &triune::internals::graph::Dim| matches!(extent, triune::internals::graph::Dim::Fixed(0..=4096));
            let inputs = graph.inputs.iter().all(|&id| graph.value(id).shape.iter().flatten().all(small));
            if inputs {
                let _ = passes::prepare(&mut graph);
            }
        }
    }
});
