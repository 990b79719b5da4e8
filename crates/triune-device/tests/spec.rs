//! Device descriptions: the builtin ones are valid, and errors name the key.

use triune_device::{DeviceSpec, Error, spec::TimingModel};

const METIS: &str = include_str!("../specs/metis.toml");

#[test]
fn builtins_are_valid() {
    for name in DeviceSpec::BUILTIN {
        assert_eq!(DeviceSpec::builtin(name).expect("valid").name, *name);
    }
    assert!(DeviceSpec::builtin("abacus").is_err());
    let metis = DeviceSpec::builtin("metis").expect("valid");
    assert_eq!((metis.cores, metis.clock_mhz), (4, Some(800)));
    assert!(
        metis.allows_clock(600)
            && metis.allows_clock(1000)
            && !metis.allows_clock(1001)
            && !metis.allows_clock(19)
    );
    assert_eq!(DeviceSpec::builtin("host").expect("valid").timing, TimingModel::None);
}

/// Every number of the description says where it is from.
#[test]
fn every_figure_has_its_source() {
    let text = METIS.lines().skip_while(|line| !line.starts_with("cores"));
    for line in text.filter(|line| line.contains('=')) {
        if line.starts_with("name") {
            continue;
        }
        let comment = line.split_once('#').map(|(_, comment)| comment).unwrap_or_default();
        assert!(
            ["ISSCC24", "SDK", "BENCH", "inferred"].iter().any(|source| comment.contains(source)),
            "{line}"
        );
    }
}

#[test]
fn peaks_follow_from_the_description() {
    let mut spec = DeviceSpec::builtin("metis").expect("builtin");
    // 512 x 512 / 8, which is 52.4 TOPS at 800 MHz.
    assert!((spec.peak_macs_per_cycle() - 32_768.0).abs() < 1e-9);
    let ddr = &spec.memory[0];
    assert!((ddr.bytes_per_cycle_at(800) - 42.625).abs() < 1e-9);
    assert!((ddr.bytes_per_cycle_at(400) - 85.25).abs() < 1e-9, "its clock is its own");
    assert!((spec.memory[1].bytes_per_cycle_at(400) - 45.0).abs() < 1e-9, "its clock is the core's");
    assert_eq!(spec.memory[2].usable_bytes(), 4_194_304 - 524_288);
    spec.array = None;
    assert!((spec.peak_macs_per_cycle() - 576.0).abs() < 1e-9);
    let host = DeviceSpec::builtin("host").expect("builtin");
    assert!(host.memory[0].bytes_per_cycle_at(0).abs() < 1e-9, "not modelled");
}

#[test]
fn errors_name_the_key() {
    for (from, to, key) in [
        ("cores = 4", "cores = 0", "cores"),
        ("clock_mhz = 800", "clock_mhz = 1001", "clock_mhz"),
        ("[20, 100, 200, 400", "[20, 200, 100, 400", "clocks_mhz"),
        ("alignment = 64", "alignment = 48", "alignment"),
        ("rows = 512", "rows = 0", "array.rows"),
        ("elements_per_cycle = 64", "elements_per_cycle = 0", "vector.elements_per_cycle"),
        ("name = \"l1\"", "name = \"l2\"", "memory[2].name"),
        ("bytes = 4_194_304 ", "bytes = 0 ", "memory[2].bytes"),
        ("reserved = 524_288", "reserved = 4_194_304", "memory[2].reserved"),
        ("bytes_per_cycle = [45, 1]", "bytes_per_cycle = [45, 0]", "memory[1].bytes_per_cycle"),
        ("bytes_per_cycle = [45, 1]", "", "memory[1].bytes_per_cycle"),
        ("constants = \"l2\"", "constants = \"l3\"", "placement.constants"),
        ("buffers = 2", "buffers = 9", "queues.buffers"),
        ("blocks = 4", "blocks = 0", "queues.blocks"),
        ("bytes_per_second = 2_570_000_000", "bytes_per_second = 0", "link.bytes_per_second"),
        ("cores = 4", "cores = 4\ncolour = 1", "toml"),
        ("cores = 4", "cores = \"four\"", "toml"),
    ] {
        assert!(METIS.contains(from), "{from}");
        match DeviceSpec::from_toml(&METIS.replacen(from, to, 1)) {
            Err(Error::Spec { key: named, .. }) => assert_eq!(named, key, "{to}"),
            other => panic!("{to}: {other:?}"),
        }
    }
}
