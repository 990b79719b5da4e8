//! The decoder of command streams.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::internals::device::command;

fuzz_target!(|data: &[u8]| {
    let _ = command::decode(data);
});
