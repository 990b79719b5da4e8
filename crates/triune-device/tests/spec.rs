//! Device descriptions: the builtin ones are valid, and errors name the key.

use triune_device::{
    DeviceSpec, Error,
    spec::{Dataflow, Fold, TimingModel},
};

const METIS: &str = include_str!("../specs/metis.toml");
const SPECS: [&str; 5] = [
    METIS,
    include_str!("../specs/metis-m2.toml"),
    include_str!("../specs/buyi.toml"),
    include_str!("../specs/zg330.toml"),
    include_str!("../specs/scalesim.toml"),
];

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

/// Every number of the descriptions says where it is from.
#[test]
fn every_figure_has_its_source() {
    for text in SPECS {
        // The files name their sources, indented, in the comment that they open with.
        let mut sources: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .filter_map(|line| line.strip_prefix("#   ")?.split_whitespace().next())
            .collect();
        sources.extend(["inferred", "replaced"]);
        for line in text.lines() {
            let Some((_, rest)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
            let (value, comment) = rest.split_once('#').unwrap_or((rest, ""));
            if value.contains(|c: char| c.is_ascii_digit()) && !value.contains('"') {
                assert!(sources.iter().any(|source| comment.contains(source)), "{line}");
            }
        }
    }
}

#[test]
fn names_carry_parameters() {
    let array = |name: &str| DeviceSpec::builtin(name).expect("valid").array.expect("an array");
    let os = array("scalesim-os-32x64");
    assert_eq!((os.dataflow, os.rows, os.columns, os.fold), (Dataflow::Os, 32, 64, Fold::Serial));
    assert_eq!(array("scalesim-is").dataflow, Dataflow::Is);
    assert_eq!(array("scalesim-ws-8x4096").columns, 4096);
    assert_eq!(DeviceSpec::builtin("scalesim-ws-8x16").expect("valid").name, "scalesim-ws-8x16");
    assert_eq!(array("buyi").units, [4, 4]);
    assert_eq!(array("buyi-2x3").units, [2, 3]);
    assert_eq!(DeviceSpec::builtin("buyi-2x3").expect("valid").name, "buyi-2x3");
    assert_eq!(DeviceSpec::builtin("buyi-4x4").expect("valid").name, "buyi");
    assert_eq!(
        DeviceSpec::builtin("metis-pcie").expect("valid"),
        DeviceSpec::builtin("metis").expect("valid")
    );
    for name in [
        "buyi-5x4",
        "buyi-0x1",
        "buyi-2",
        "scalesim-xs",
        "scalesim-os-0x4",
        "scalesim-os-04x4",
        "scalesim-os-9999x1",
        "metis-2x2",
    ] {
        assert!(matches!(DeviceSpec::builtin(name), Err(Error::Spec { .. })), "{name}");
    }
}

#[test]
fn metis_boards_differ_in_name_and_external_memory_only() {
    let (pcie, mut m2) =
        (DeviceSpec::builtin("metis").expect("valid"), DeviceSpec::builtin("metis-m2").expect("valid"));
    assert!(m2.memory[0].bytes < pcie.memory[0].bytes);
    assert!(m2.memory[0].bytes_per_second < pcie.memory[0].bytes_per_second);
    m2.memory[0] = pcie.memory[0].clone();
    (m2.name, m2.description) = (pcie.name.clone(), pcie.description.clone());
    assert_eq!(m2, pcie);
}

#[test]
fn systolic_arrays_refuse_what_broadcast_ones_have() {
    let text = include_str!("../specs/scalesim.toml");
    for (line, key) in [
        ("replication = 2", "array.replication"),
        ("units = [2, 2]", "array.units"),
        ("results_per_cycle = 64", "array.results_per_cycle"),
        ("fold = \"folded\"", "toml"),
    ] {
        let text = text.replacen("[array]", &format!("[array]\n{line}"), 1);
        match DeviceSpec::from_toml(&text) {
            Err(Error::Spec { key: named, .. }) => assert_eq!(named, key),
            other => panic!("{line}: {other:?}"),
        }
    }
    let pipelined = METIS.replacen("[array]", "[array]\nfold = \"pipelined\"", 1);
    assert!(DeviceSpec::from_toml(&pipelined).is_err());
}

#[test]
fn peaks_follow_from_the_description() {
    let mut spec = DeviceSpec::builtin("metis").expect("builtin");
    // 512 x 512 / 8, which is 52.4 TOPS at 800 MHz.
    assert!((spec.peak_macs_per_cycle() - 32_768.0).abs() < 1e-9);
    let ddr = &spec.memory[0];
    assert!((ddr.bytes_per_cycle_at(800) - 42.625).abs() < 1e-9);
    assert!((ddr.bytes_per_cycle_at(400) - 85.25).abs() < 1e-9, "its clock is its own");
    assert!((spec.memory[1].bytes_per_cycle_at(400) - 128.0).abs() < 1e-9, "its clock is the core's");
    assert_eq!(spec.memory[2].usable_bytes(), 4_194_304 - 524_288);
    spec.array = None;
    assert!((spec.peak_macs_per_cycle() - 150.0).abs() < 1e-9);
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
        ("bytes_per_cycle = [128, 1]        #", "bytes_per_cycle = [128, 0] #", "memory[1].bytes_per_cycle"),
        ("bytes_per_cycle = [128, 1]        #", "#", "memory[1].bytes_per_cycle"),
        ("ports = 4", "ports = 0", "memory[1].ports"),
        ("constants = \"l2\"", "constants = \"l3\"", "placement.constants"),
        ("buffers = 2", "buffers = 9", "queues.buffers"),
        ("blocks = 4", "blocks = 0", "queues.blocks"),
        ("bytes_per_second = 2_570_000_000", "bytes_per_second = 0", "link.bytes_per_second"),
        ("name = \"metis\"", "name = \"\"", "name"),
        ("cores = 4", "cores = 65", "cores"),
        ("[20, 100, 200, 400", "[0, 100, 200, 400", "clocks_mhz"),
        ("[20, 100, 200, 400", "[20, 100, 100, 400", "clocks_mhz"),
        ("clock_mhz = 800 ", "#", "clock_mhz"),
        ("alignment = 64", "alignment = 32", "alignment"),
        ("alignment = 64", "alignment = 2_097_152", "alignment"),
        ("taps_per_cycle = 150", "taps_per_cycle = 0", "vector.taps_per_cycle"),
        ("products_per_cycle = 3", "products_per_cycle = 0", "vector.products_per_cycle"),
        ("reserved = 33_554_432", "reserved = 4_294_967_296", "memory[0].reserved"),
        ("bytes_per_second = 34_100_000_000", "bytes_per_second = 0", "memory[0].bytes_per_second"),
        ("latency_cycles = 160", "bytes_per_cycle = [1, 1]", "memory[0].bytes_per_second"),
        ("bytes_per_cycle = [128, 1]        #", "bytes_per_cycle = [0, 1] #", "memory[1].bytes_per_cycle"),
        ("ports = 4", "ports = 65", "memory[1].ports"),
        ("name = \"l2\"", "name = \"\"", "memory[1].name"),
        ("instructions = \"ddr\"", "instructions = \"l3\"", "placement.instructions"),
        ("scratch = \"l2\"", "scratch = \"l3\"", "placement.scratch"),
        ("io = \"ddr\"", "io = \"l3\"", "placement.io"),
        ("resident = \"l1\"", "resident = \"l3\"", "placement.resident"),
        ("resident = \"l1\"", "resident = \"l2\"", "placement.resident"),
        ("buffers = 2", "buffers = 0", "queues.buffers"),
        ("blocks = 4", "blocks = 65", "queues.blocks"),
        ("program_ns = 32_100", "program_ns = 1_000_000_001", "launch.program_ns"),
        ("\nchannels = 64", "\nchannels = 0", "border.channels"),
        ("\nchannels = 64", "\nchannels = 4097", "border.channels"),
        ("image_columns = 16", "image_columns = 4097", "border.image_columns"),
        ("image_channels = 4", "image_channels = 65", "border.image_channels"),
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

/// The last figure that each limit lets through.
#[test]
fn limits_include_themselves() {
    for (from, to) in [
        ("cores = 4", "cores = 64"),
        ("cores = 4", "cores = 1"),
        ("alignment = 64", "alignment = 1_048_576"),
        ("ports = 4", "ports = 64"),
        ("ports = 4", "ports = 1"),
        ("buffers = 2", "buffers = 8"),
        ("buffers = 2", "buffers = 1"),
        ("blocks = 4", "blocks = 64"),
        ("blocks = 4", "blocks = 1"),
        ("program_ns = 32_100", "program_ns = 1_000_000_000"),
        ("\nchannels = 64", "\nchannels = 4096"),
        ("\nchannels = 64", "\nchannels = 1"),
        ("image_columns = 16", "image_columns = 4096"),
        ("image_channels = 4", "image_channels = 64"),
        ("image_channels = 4", "image_channels = 0"),
        ("reserved = 524_288", "reserved = 4_194_303"),
        ("clock_mhz = 800", "clock_mhz = 20"),
        ("clock_mhz = 800", "clock_mhz = 1000"),
        ("taps_per_cycle = 150", "taps_per_cycle = 1"),
    ] {
        assert!(METIS.contains(from), "{from}");
        let read = DeviceSpec::from_toml(&METIS.replacen(from, to, 1));
        assert!(read.is_ok(), "{to}: {:?}", read.err());
    }
}

/// What is not named stays; what is named reads as it was set.
#[test]
fn numbers_can_be_changed() {
    let metis = DeviceSpec::builtin("metis").expect("builtin");
    assert_eq!(metis.with(&[]).expect("unchanged"), metis);
    let changed = metis
        .with(&[
            ("array", "256x128"),
            ("clock", "900"),
            ("l2", "16.5M"),
            ("ddr", "6.4G"),
            ("queues.buffers", "4"),
            ("memory.l1.bytes_per_cycle", "64"),
            ("memory[1].ports", "2"),
            ("array.units[1]", "2"),
            ("memory.l1.bytes", "512K"),
            ("memory.l1.reserved", "1k"),
        ])
        .expect("changed");
    let mut expected = metis.clone();
    let array = expected.array.as_mut().expect("an array");
    (array.rows, array.columns, array.units) = (256, 128, [1, 2]);
    expected.clock_mhz = Some(900);
    expected.clocks_mhz.insert(7, 900);
    expected.memory[0].bytes_per_second = Some(6_400_000_000);
    (expected.memory[1].bytes, expected.memory[1].ports) = (33 << 19, 2);
    (expected.memory[2].bytes, expected.memory[2].reserved) = (512 << 10, 1024);
    expected.memory[2].bytes_per_cycle = Some([64, 1]);
    expected.queues.buffers = 4;
    assert_eq!(changed, expected);
    for (key, value) in [
        ("array", "256x128"),
        ("clock", "900"),
        ("l2", "17301504"),
        ("ddr", "6400000000"),
        ("memory.l1.bytes_per_cycle", "64"),
        ("array.units[1]", "2"),
        ("cores", "4"),
    ] {
        assert_eq!(changed.number(key).expect("a number"), value, "{key}");
        assert_eq!(changed.with(&[(key, value)]).expect("changed"), changed, "{key}");
    }
    for key in ["name", "colour", "memory", "link", "array.units[2]", "memory.l2.bytes_per_second", ""] {
        assert!(changed.number(key).is_err(), "{key}");
    }
    for name in DeviceSpec::BUILTIN {
        let spec = DeviceSpec::builtin(name).expect("builtin");
        assert_eq!(spec.with(&[("alignment", "64")]).expect("changed"), spec, "{name}");
    }
    let host = DeviceSpec::builtin("host").expect("builtin");
    assert!(host.with(&[("array", "3x3")]).is_err());
    for (key, value, said) in [
        ("colour", "1", "colour"),
        ("name", "1", "string"),
        ("array", "32", "rows and columns"),
        ("array.rows", "0", "0 is not in"),
        ("array.rows", "-1", "whole number"),
        ("array.rows", "1.5", "whole number"),
        ("array.rows", "99999999999999999999999", "whole number"),
        ("l2", "9.99T", "whole number"),
        ("l2", "1M", "leaves nothing"),
        ("l3", "1M", "l3"),
        ("memory.l3.bytes", "1M", "l3"),
        ("memory[9].bytes", "1M", "'9'"),
        ("memory", "1", "array"),
        ("link", "1", "table"),
        ("link.colour", "1", "colour"),
        ("array.units[2]", "1", "'2'"),
        ("", "1", ""),
        ("a..b[", "1", ""),
        ("queues.buffers", "", "whole number"),
    ] {
        match metis.with(&[(key, value)]) {
            Err(problem @ Error::Spec { .. }) => {
                assert!(problem.to_string().contains(said), "{key}: {problem}");
            }
            other => panic!("{key} = {value}: {other:?}"),
        }
    }
}
