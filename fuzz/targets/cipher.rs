//! Decryption, and back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::internals::graph::format::mge::cipher;

fuzz_target!(|data: &[u8]| {
    for name in cipher::NAMES {
        let key = cipher::default_key(name).expect("a key");
        let _ = cipher::decrypt(name, key, data);
        let secret = cipher::encrypt(name, key, data).expect("bytes");
        let plain = cipher::decrypt(name, key, &secret).expect("what was encrypted");
        assert!(plain.starts_with(data) && plain.len() < data.len() + 8);
    }
});
