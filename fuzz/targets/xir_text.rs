//! The strings inside of XIR documents: what is read is written so that it reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::internals::graph::format::xir::{Layout, Mem, MergedDistr, Runs, Scalar, Scale, Target};

fn check<T: std::str::FromStr + ToString>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let written = value.to_string();
        let again = written.parse::<T>().ok().expect("its own text");
        assert_eq!(again.to_string(), written);
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check::<Scalar>(text);
    check::<Layout>(text);
    check::<MergedDistr>(text);
    check::<Mem>(text);
    check::<Target>(text);
    check::<Scale>(text);
    if let Ok(runs) = Runs::parse_ratios(text) {
        let written = runs.ratios_text();
        assert_eq!(Runs::parse_ratios(&written).expect("its own text").ratios_text(), written);
    }
});
