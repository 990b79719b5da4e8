//! Device descriptions: the builtin ones are valid, and errors name the key.

use triune_device::{
    DeviceSpec, Error,
    spec::{Dataflow, Depthwise, Fold, Style, TEMPLATE, TimingModel, schema},
};

const METIS: &str = include_str!("../../specs/metis.toml");
const SPECS: [&str; 5] = [
    METIS,
    include_str!("../../specs/metis-m2.toml"),
    include_str!("../../specs/buyi.toml"),
    include_str!("../../specs/zg330.toml"),
    include_str!("../../specs/scalesim.toml"),
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
    let text = include_str!("../../specs/scalesim.toml");
    for (line, key) in [
        ("replication = 2", "array.replication"),
        ("units = [2, 2]", "array.units"),
        ("results_per_cycle = 64", "array.results_per_cycle"),
        ("fold = \"folded\"", "array.fold"),
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
    assert!((spec.peak_macs_per_cycle() - 185.0).abs() < 1e-9);
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
        ("buffers = 2", "blocks = 0", "queues.blocks"),
        ("bytes_per_second = 2_570_000_000", "bytes_per_second = 0", "link.bytes_per_second"),
        ("name = \"metis\"", "name = \"\"", "name"),
        ("cores = 4", "cores = 65", "cores"),
        ("[20, 100, 200, 400", "[0, 100, 200, 400", "clocks_mhz"),
        ("[20, 100, 200, 400", "[20, 100, 100, 400", "clocks_mhz"),
        ("clock_mhz = 800 ", "#", "clock_mhz"),
        ("alignment = 64", "alignment = 32", "alignment"),
        ("alignment = 64", "alignment = 2_097_152", "alignment"),
        ("taps_per_cycle = 185", "taps_per_cycle = 0", "vector.taps_per_cycle"),
        ("products_per_cycle = 31", "products_per_cycle = 0", "vector.products_per_cycle"),
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
        ("buffers = 2", "blocks = 65", "queues.blocks"),
        ("buffer_bytes = 1_572_864", "buffer_bytes = 4_095", "queues.buffer_bytes"),
        ("buffer_bytes = 1_572_864", "buffer_bytes = 1_099_511_627_777", "queues.buffer_bytes"),
        ("program_ns = 32_900", "program_ns = 1_000_000_001", "launch.program_ns"),
        ("\nchannels = 64", "\nchannels = 0", "border.channels"),
        ("\nchannels = 64", "\nchannels = 4097", "border.channels"),
        ("image_columns = 16", "image_columns = 4097", "border.image_columns"),
        ("image_channels = 4", "image_channels = 65", "border.image_channels"),
        ("groups = \"dense\"", "groups = \"sparse\"", "array.groups"),
        ("groups = \"dense\"", "sparsity = [3, 2]", "array.sparsity"),
        ("groups = \"dense\"", "weight_percent = 101", "array.weight_percent"),
        ("ports = 4", "row_ns = 20", "memory[1].row_ns"),
        ("ports = 4", "burst_bytes = 48", "memory[1].burst_bytes"),
        ("mac_fj = 133", "mac_fj = -1", "energy.mac_fj"),
        ("element_fj = 3_200", "", "energy.element_fj"),
        ("cores = 4", "cores = 4\ncolour = 1", "colour"),
        ("cores = 4", "cores = \"four\"", "cores"),
    ] {
        assert!(METIS.contains(from), "{from}");
        match DeviceSpec::from_toml(&METIS.replacen(from, to, 1)) {
            Err(Error::Spec { key: named, .. }) => assert_eq!(named, key, "{to}"),
            other => panic!("{to}: {other:?}"),
        }
    }
}

/// Names begin with a letter or a digit; what follows may be of three other kinds, too, and there is an end to it.
#[test]
fn names_are_plain() {
    let named = |name: &str| {
        let text = METIS.replacen("name = \"metis\"", &format!("name = \"{name}\""), 1);
        DeviceSpec::from_toml(&text).map(|spec| spec.name)
    };
    for name in ["a", "7", "a-", "a_", "a.", "3d-x_y.z", "Z"] {
        assert_eq!(named(name).as_deref(), Ok(name));
    }
    let long = |count: usize| "n".repeat(count);
    let most = (1..1000).take_while(|&count| named(&long(count)).is_ok()).count();
    assert_eq!(most, 48);
    for name in ["", "-a", "_a", ".a", "a b", "a/b", "a:", "é", "a\\n", &long(most + 1)] {
        match named(name) {
            Err(Error::Spec { key, .. }) => assert_eq!(key, "name", "{name}"),
            other => panic!("{name}: {other:?}"),
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
        ("buffers = 2", "blocks = 64"),
        ("buffers = 2", "blocks = 1"),
        ("buffer_bytes = 1_572_864", "buffer_bytes = 4_096"),
        ("buffer_bytes = 1_572_864", "buffer_bytes = 1_099_511_627_776"),
        ("program_ns = 32_900", "program_ns = 1_000_000_000"),
        ("\nchannels = 64", "\nchannels = 4096"),
        ("\nchannels = 64", "\nchannels = 1"),
        ("image_columns = 16", "image_columns = 4096"),
        ("image_channels = 4", "image_channels = 64"),
        ("image_channels = 4", "image_channels = 0"),
        ("reserved = 524_288", "reserved = 4_194_303"),
        ("clock_mhz = 800", "clock_mhz = 20"),
        ("clock_mhz = 800", "clock_mhz = 1000"),
        ("taps_per_cycle = 185", "taps_per_cycle = 1"),
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
        ("array.rows", "0", "got 0"),
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

/// The page has the tables that `cargo run -q -p triune-device --example device_tables` prints.
#[test]
fn the_page_has_the_schema() {
    let page = include_str!("../../../../docs/device-spec.md");
    let (_, rest) = page.split_once("--example device_tables` -->\n").expect("where the tables begin");
    let (tables, _) = rest.split_once("<!-- end of what is made -->").expect("where they end");
    assert_eq!(tables.trim(), schema::markdown().trim(), "make the tables again");
}

/// The schema and the types have the same keys: each key of the schema is read, and each field has its key.
#[test]
fn the_schema_has_every_field() {
    let mut full = DeviceSpec::builtin("buyi").expect("builtin");
    let array = full.array.as_mut().expect("an array");
    (array.results_per_cycle, array.partial_sums_per_cycle) = (Some(1), Some(2));
    (array.weight_bytes_per_cycle, array.depthwise) = (Some(3), Some(Depthwise::Vector));
    (array.channels, array.sparsity) = (Some(5), Some([2, 4]));
    full.memory[0].row_bytes = Some(2048);
    full.energy.as_mut().expect("priced").mac_16_fj = Some(6);
    full.memory[0].write_fj_per_byte = Some(7);
    full.vector.as_mut().expect("a vector unit").products_per_cycle = Some(4);
    full.link = DeviceSpec::builtin("metis").expect("builtin").link;
    full.name = "full".into();
    let text = full.to_toml(Style::Whole);
    assert_eq!(DeviceSpec::own(&text), Ok(full.clone()));
    for key in schema::KEYS {
        assert!(text.contains(&format!("\n{} = ", key.name)) || text.starts_with(key.name), "{}", key.name);
        assert!(!key.meaning.is_empty(), "{}", key.name);
    }
    let table = toml::Table::try_from(&full).expect("a table");
    let known =
        |table: &str, name: &str| schema::KEYS.iter().any(|key| (key.table, key.name) == (table, name));
    for (name, value) in &table {
        match value {
            toml::Value::Table(inner) => assert!(inner.keys().all(|key| known(name, key)), "{name}"),
            toml::Value::Array(items) if items.iter().all(toml::Value::is_table) => {
                let keys = items.iter().filter_map(toml::Value::as_table).flat_map(toml::Table::keys);
                assert!(keys.into_iter().all(|key| known(name, key)), "{name}");
            }
            _ => assert!(known("", name), "{name}"),
        }
    }
}

#[test]
fn descriptions_read_back_as_they_were_written() {
    let odd = DeviceSpec {
        description: "a \"quoted\" \\ text, µ".into(),
        ..DeviceSpec::own(TEMPLATE).expect("valid")
    };
    let named = DeviceSpec::BUILTIN.iter().copied().chain(["buyi-2x3", "scalesim-is-8x16"]);
    for spec in named.map(|name| DeviceSpec::builtin(name).expect("valid")).chain([odd]) {
        for style in [Style::Short, Style::Commented, Style::Whole] {
            assert_eq!(DeviceSpec::read(&spec.to_toml(style)), Ok(spec.clone()), "{} {style:?}", spec.name);
        }
    }
}

#[test]
fn beginnings_are_in_order() {
    let likes = DeviceSpec::BUILTIN.iter().copied().chain(["scalesim-ws-16x16", "buyi-2x2", "metis-pcie"]);
    for like in likes.map(Some).chain([None]) {
        let text = DeviceSpec::begin("mine-2", like).expect("a beginning");
        let mut spec = DeviceSpec::own(&text).expect("in order");
        assert_eq!(spec.name, "mine-2");
        if let Some(like) = like {
            let base = DeviceSpec::builtin(like).expect("builtin");
            (spec.name, spec.description) = (base.name.clone(), base.description.clone());
            assert_eq!(spec, base, "{like}");
        }
    }
    for (name, like) in [
        ("metis", None),
        ("", None),
        ("a b", None),
        ("../x", None),
        ("x\"\ny = 1", None),
        ("mine", Some("abacus")),
    ] {
        assert!(DeviceSpec::begin(name, like).is_err(), "{name} {like:?}");
    }
}

/// Each slip with the words that say where it is, what is there, and what to do.
#[test]
fn problems_say_line_key_and_cure() {
    for (from, to, line, key, said) in [
        ("columns = 16 ", "colums = 16 ", 13, "array.colums", "did you mean columns?"),
        ("columns = 16 ", "", 11, "array.columns", "is missing: add a whole number from 1 to 65536"),
        ("[array]", "[aray]", 11, "aray", "did you mean array?"),
        ("rows = 16 ", "rows = 16.0 ", 12, "array.rows", "got 16; write 16"),
        ("rows = 16 ", "rows = nan ", 12, "array.rows", "got NaN"),
        ("rows = 16 ", "rows = -1 ", 12, "array.rows", "got -1"),
        ("rows = 16 ", "rows = inf ", 12, "array.rows", "got inf"),
        ("rows = 16 ", "rows = 99_999 ", 12, "array.rows", "from 1 to 65536, got 99999"),
        ("rows = 16 ", "rows = 99999999999999999999 ", 12, "toml", "is not valid"),
        ("\"ws\" ", "\"sw\" ", 14, "array.dataflow", "did you mean \"ws\"?"),
        ("bytes = 262_144 ", "bytes = \"256K\" ", 29, "memory[1].bytes", "got \"256K\"; write 262144"),
        ("[32, 1] ", "32 ", 30, "memory[1].bytes_per_cycle", "write [32, 1] for 32 bytes per cycle"),
        ("resident = \"pad\" ", "resident = \"dram\" ", 38, "placement.resident", "leave it out"),
        ("resident = \"pad\" ", "resident = \"sram\" ", 38, "placement.resident", "there are dram, pad"),
        ("clock_mhz = 500 ", "clock_mhz = 501 ", 7, "clock_mhz", "[100, 500]"),
        ("name = \"small\"", "name = \"zg330\"", 4, "name", "a name of its own"),
        ("name = \"pad\"", "name = \"a.b\"", 28, "memory[1].name", "dot"),
        ("cores = 1 ", "rows = 1\ncores = 1 ", 6, "rows", "belongs to [array]"),
        ("cores = 1 ", "cores = 1\ncores = 1 ", 7, "toml", "duplicate"),
    ] {
        assert!(TEMPLATE.contains(from), "{from}");
        let problems = DeviceSpec::own(&TEMPLATE.replacen(from, to, 1)).expect_err(to);
        let found = problems.iter().find(|problem| problem.key == key);
        let Some(found) = found else { panic!("{to}: {problems:?}") };
        assert_eq!(found.line, Some(line), "{to}: {found}");
        assert!(found.problem.contains(said), "{to}: {found}");
    }
    let two = TEMPLATE.replacen("rows = 16 ", "rows = 0 ", 1).replacen("cores = 1 ", "cores = 0 ", 1);
    assert_eq!(DeviceSpec::own(&two).expect_err("two").len(), 2);
    assert!(DeviceSpec::own(&"#".repeat(1 << 17)).expect_err("long")[0].problem.contains("at most 65536"));
    assert!(DeviceSpec::own("").is_err());
    let deep = format!("x = {}", "[".repeat(60_000));
    assert!(DeviceSpec::own(&deep).is_err());
    let nested = format!("clocks_mhz = {}1{}", "[".repeat(70), "]".repeat(70));
    assert!(DeviceSpec::own(&nested).is_err());
}

/// What the schema calls optional can be absent, and then is what it says.
#[test]
fn optional_keys_can_be_absent() {
    let text = DeviceSpec::builtin("metis").expect("builtin").to_toml(Style::Whole);
    let mut table = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_matches(|c| "[]".contains(c));
        }
        let Some((name, value)) = line.split_once(" = ") else { continue };
        let key = schema::KEYS.iter().find(|key| (key.table, key.name) == (table, name)).expect("a key");
        let without = text.replacen(&format!("{line}\n"), "", 1);
        match (key.default(), DeviceSpec::read(&without)) {
            (None, read) => assert!(read.is_err(), "{table} {name}"),
            // A memory has one of two.
            (Some(_), Err(problems)) if name.starts_with("bytes_per") => {
                assert!(problems[0].problem.contains("add it, or bytes_per_second"), "{problems:?}");
            }
            // With prices of work, bytes have theirs.
            (Some(_), Err(problems)) if name == "read_fj_per_byte" => {
                assert!(problems[0].problem.contains("add what a byte costs"), "{problems:?}");
            }
            (Some(default), read) => {
                let read = read.unwrap_or_else(|problems| panic!("{table} {name}: {problems:?}"));
                let again = read.to_toml(Style::Whole);
                let expected = if default.is_empty() {
                    without
                } else {
                    let quoted =
                        if value.starts_with('"') { format!("\"{default}\"") } else { default.to_owned() };
                    text.replacen(line, &format!("{name} = {quoted}"), 1)
                };
                assert_eq!(again, expected, "{table} {name}");
            }
        }
    }
}

/// Bandwidth in bytes per second is shared out among the cycles of whatever clock there is.
#[test]
fn bytes_per_cycle_follow_the_clock() {
    let spec = DeviceSpec::builtin("metis").expect("it is there");
    let memory = |bytes_per_cycle, bytes_per_second| triune_device::spec::MemorySpec {
        bytes_per_cycle,
        bytes_per_second,
        ..spec.memory[0].clone()
    };
    for (cycles, second, clock, expected) in [
        (None, Some(3_000_000_000), 500, 6.0),
        (None, Some(3_000_000_000), 1, 3000.0),
        (None, Some(3_000_000_000), 0, 0.0),
        (Some([32, 5]), Some(3_000_000_000), 0, 6.4),
        (Some([32, 5]), None, 500, 6.4),
        (None, None, 500, 0.0),
    ] {
        assert_eq!(
            memory(cycles, second).bytes_per_cycle_at(clock),
            expected,
            "{cycles:?} {second:?} {clock}"
        );
    }
}
