//! The board in this process: memory against a model, registers, jobs against plain execution, and everything that is wrong.

use std::{collections::BTreeMap, sync::Arc, thread};

use crate::common::{to_bytes, to_floats};
use proptest::prelude::*;
use triune_device::{
    Addr, Board, Command, DeviceSpec, Error, ErrorClass, FeatureMap, Job, JobReport, LocalBoard, Records,
    RegionId, Sanitize, Segment, SegmentKind, SegmentTable, Settings, TimingOptions,
    board::{PROFILER_RECORD_BYTES, TIMER_RECORD_BYTES},
    command::{End, FUnary, Operand, Take, encode},
    spec::Precision,
    timeline,
};
use triune_tensor::DType;
use triune_tensor::function::UnaryKind;
use triune_testing::Random;

const DDR: RegionId = RegionId(0);
const OCM: RegionId = RegionId(1);
const UDMA: RegionId = RegionId(2);
const INPUT: u16 = 1;
const SCRATCH: u16 = 2;
const OUTPUT: u16 = 3;
const ELEMENTS: u32 = 4096;
const BYTES: u64 = 4 * ELEMENTS as u64;

fn board(device: &str) -> LocalBoard {
    LocalBoard::open(device, true, 1).expect("builtin")
}

fn map(segment: u16) -> FeatureMap {
    FeatureMap::dense(Addr::new(segment, 0), DType::F32, [1, 1, 1, ELEMENTS])
}

fn unary(from: u16, to: u16, kind: UnaryKind) -> Command {
    FUnary { input: map(from), output: map(to), function: kind }.into()
}

/// Layers on a board: |−x| by way of scratch memory, the streams with `padding` zero bytes between them.
struct Placed {
    job: Job,
    layers: Vec<Vec<Command>>,
    table: Vec<Segment>,
}

impl Placed {
    fn new(board: &dyn Board, padding: usize) -> Self {
        let layers =
            vec![vec![unary(INPUT, SCRATCH, UnaryKind::Neg)], vec![unary(SCRATCH, OUTPUT, UnaryKind::Abs)]];
        let mut words = Vec::new();
        for layer in &layers {
            words.extend(encode(layer.iter().chain([&Command::from(End {})])));
            words.resize(words.len().next_multiple_of(8) + padding, 0);
        }
        let place = |kind, region, len: u64| {
            let base = board.allocate(region, len, 64).expect("room");
            Segment { region, base, len, kind }
        };
        let table = vec![
            place(SegmentKind::Instructions, DDR, words.len() as u64),
            place(SegmentKind::Input, DDR, BYTES),
            place(SegmentKind::Resident, OCM, BYTES),
            place(SegmentKind::Output, DDR, BYTES),
        ];
        board.write(DDR, table[0].base, &words).expect("in bounds");
        let segments = Some(SegmentTable::new(table.clone()).expect("disjoint"));
        Self { job: Job { start: table[0].base, bytes: words.len() as u64, segments }, layers, table }
    }

    fn run(&self, board: &dyn Board, x: &[f32]) -> Vec<f32> {
        board.write(DDR, self.table[1].base, &to_bytes(x)).expect("in bounds");
        board.run(&self.job).expect("runs");
        self.result(board)
    }

    fn result(&self, board: &dyn Board) -> Vec<f32> {
        let mut bytes = vec![0; BYTES as usize];
        board.read(DDR, self.table[3].base, &mut bytes).expect("in bounds");
        to_floats(&bytes)
    }
}

fn abs(x: &[f32]) -> Vec<f32> {
    x.iter().map(|x| x.abs()).collect()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.expect_err("refused").to_string()
}

#[test]
fn boards_say_what_they_have() {
    let zg330 = board("zg330");
    let regions: Vec<_> = zg330.info().regions.iter().map(|each| (&*each.name, each.bytes)).collect();
    assert_eq!(regions, [("ddr", 4 << 30), ("ocm", 1 << 20), ("udma", 256 << 20)]);
    let buyi = board("buyi-2x3");
    assert_eq!(buyi.info().regions[0].reserved, 4096);
    assert_eq!(buyi.live(DDR), Ok(vec![]));
    assert_eq!(buyi.settings().expect("local").engines, [2, 3]);
    assert!(buyi.info().versions.contains(&("icore".into(), "FMSHBYV1-20200903".into())));
    assert!(refusal(LocalBoard::open("nothing", true, 1)).contains("nothing"));
}

#[test]
fn several_streams_are_layers_of_one_launch() {
    for padding in [0, 8, 64] {
        let board = board("zg330");
        let placed = Placed::new(&board, padding);
        let x = Random(7).floats(ELEMENTS as usize);
        assert_eq!(placed.run(&board, &x), abs(&x));

        let report = board.run(&placed.job).expect("runs");
        let commands: Vec<Command> = placed.layers.iter().flatten().copied().collect();
        let placement = ["ddr", "ddr", "ocm", "ddr"];
        let time = timeline(board.spec(), &commands, &placement, &TimingOptions::default()).expect("timed");
        assert_eq!((report.cycles, report.layer_count), (time.total_cycles, 4));
        assert_eq!(report.nanoseconds, time.nanos_up(time.total_cycles));
        let layers: Vec<_> = report.layers.iter().map(|layer| (layer.start, layer.end)).collect();
        let expected: Vec<_> = time.commands.iter().map(|command| (command.start, command.end)).collect();
        assert_eq!(layers, expected);
        assert!(report.layers[0].end <= report.layers[1].end && report.layers[1].end == report.cycles);
    }
}

#[test]
fn jobs_see_what_changed_in_memory() {
    let board = board("zg330");
    let placed = Placed::new(&board, 0);
    let x = Random(3).floats(ELEMENTS as usize);
    assert_eq!(placed.run(&board, &x), abs(&x));
    // Other commands at the same place: −x at last.
    let layer = [unary(INPUT, OUTPUT, UnaryKind::Neg), End {}.into()];
    let mut words = encode(&layer);
    words.resize(placed.job.bytes as usize, 0);
    board.write(DDR, placed.job.start, &words).expect("in bounds");
    let negated: Vec<f32> = x.iter().map(|x| -x).collect();
    assert_eq!(placed.run(&board, &x), negated);
    assert_eq!(board.run(&placed.job).expect("runs").layers.len(), 1);
    // Another place for the result.
    let other = board.allocate(DDR, BYTES, 64).expect("room");
    let mut table = placed.table.clone();
    table[3].base = other;
    let segments = Some(SegmentTable::new(table).expect("disjoint"));
    board.run(&Job { segments, ..placed.job.clone() }).expect("runs");
    let mut bytes = vec![0; BYTES as usize];
    board.read(DDR, other, &mut bytes).expect("in bounds");
    assert_eq!(to_floats(&bytes), negated);
    // No command at all, then commands again.
    board.write(DDR, placed.job.start, &vec![0; words.len()]).expect("in bounds");
    assert_eq!(board.run(&placed.job).expect("runs").layers, []);
    board.write(DDR, placed.job.start, &words).expect("in bounds");
    assert_eq!(board.run(&placed.job).expect("runs").layers.len(), 1);
}

/// One layer's command becomes another; the other layer stays what it is.
#[test]
fn jobs_see_what_changed_in_one_layer() {
    let board = board("zg330");
    let placed = Placed::new(&board, 0);
    let x = Random(3).floats(ELEMENTS as usize);
    assert_eq!(placed.run(&board, &x), abs(&x));
    let layer = |from, to, kind| encode(&[unary(from, to, kind), End {}.into()]);
    let first = layer(INPUT, SCRATCH, UnaryKind::Neg).len().next_multiple_of(8) as u64;
    let second = layer(SCRATCH, OUTPUT, UnaryKind::Relu);
    board.write(DDR, placed.job.start + first, &second).expect("in bounds");
    let positive: Vec<f32> = x.iter().map(|x| (-x).max(0.0)).collect();
    assert_eq!(placed.run(&board, &x), positive);
    board.write(DDR, placed.job.start, &layer(INPUT, SCRATCH, UnaryKind::Abs)).expect("in bounds");
    assert_eq!(placed.run(&board, &x), abs(&x));
}

#[test]
fn run_registers_start_the_core() {
    for (device, base, size, valid, [layers, read, written, cycles, clear]) in [
        ("buyi", 0x40008, 0x4000c, 0x40010, [0x0c, 0x14, 0x10, 0x18, 0x04]),
        ("zg330", 0x40018, 0x40020, 0x40024, [0x0c, 0x14, 0x10, 0x18, 0x04]),
    ] {
        let board = board(device);
        let placed = Placed::new(&board, 8);
        let write =
            |address, value: u64| board.write_register(address, u32::try_from(value).expect("32 bits"));
        write(base, placed.job.start).expect("exists");
        write(size, placed.job.bytes).expect("exists");
        assert!(refusal(write(valid, 1)).contains("no table"));
        let x = Random(5).floats(ELEMENTS as usize);
        placed.run(&board, &x);
        board.write(DDR, placed.table[3].base, &vec![0; BYTES as usize]).expect("in bounds");
        write(valid, 0).expect("does nothing");
        assert_ne!(placed.result(&board), abs(&x));
        write(valid, 1).expect("runs");
        assert_eq!(placed.result(&board), abs(&x));
        let read_register = |address| board.read_register(address).expect("exists");
        assert_eq!(read_register(layers), 4);
        assert_eq!(u64::from(read_register(cycles)), board.run(&placed.job).expect("runs").cycles);
        // Scratch lies on the chip: one map of 16 KiB is read, one is written, per run, in tiles of 4 KiB.
        assert_eq!([read_register(read), read_register(written)], [3 * 4, 3 * 4]);
        let spread = |offset: u64| -> u32 {
            let [rows, columns] = board.settings().expect("local").engines.map(u64::from);
            let engine = |column: u64, row: u64| 0x2_0000_0000 + (column << 24) + (row << 16) + offset;
            (0..columns)
                .flat_map(|column| (0..rows).map(move |row| (column, row)))
                .map(|(column, row)| read_register(engine(column, row)))
                .sum()
        };
        assert_eq!([spread(0x14), spread(0x10)], [12, 12]);
        write(clear, 1).expect("exists");
        assert_eq!([read_register(layers), read_register(cycles), read_register(read)], [0, 0, 0]);
        // Where the segments lay is forgotten when the commands are freed, and by level 0.
        board.free(DDR, placed.job.start).expect("allocated");
        assert!(refusal(write(valid, 1)).contains("no table"));
        board.allocate_at(DDR, placed.job.start, placed.job.bytes).expect("free");
        placed.run(&board, &x);
        write(0x34, 1).expect("exists");
        assert_eq!(read_register(base), 0);
        write(base, placed.job.start).expect("exists");
        write(size, placed.job.bytes).expect("exists");
        assert!(refusal(write(valid, 1)).contains("no table"));
    }
}

#[test]
fn devices_without_registers_and_times_have_boards_too() {
    for device in ["metis", "scalesim-os"] {
        let board = board(device);
        assert!(board.read_register(0x0c).is_err());
        assert!(board.settings().expect("local").core_hz > 0);
    }
    let host = board("host");
    let settings = host.settings().expect("local");
    assert_eq!(settings.core_hz, 0);
    host.configure(&settings).expect("nothing changes");
    assert!(refusal(host.configure(&Settings { core_hz: 1_000_000, ..settings })).contains("1000000 Hz"));
    assert!(
        refusal(host.configure(&Settings { precision: Precision::Int16, ..settings })).contains("16-bit")
    );
    assert!(refusal(host.configure(&Settings { engines: [1, 1], ..settings })).contains("missing"));
}

#[test]
fn unknown_and_read_only_registers_are_named() {
    let buyi = board("buyi");
    assert!(refusal(buyi.read_register(0x44)).contains("buyi has no register at 0x44"));
    assert!(refusal(buyi.read_register(0x41)).contains("0x41"));
    assert!(refusal(buyi.write_register(0x0c, 1)).contains("AWLAYER_CNT"));
    assert!(refusal(buyi.write_register(0x1_000c_0000, 1)).contains("before it is set up"));
    buyi.write_register(0x1_000c_0004, 77).expect("exists");
    assert_eq!(buyi.read_register(0x1_000c_0004), Ok(77));
    assert!(refusal(buyi.read_register(0x2_0400_0000)).contains("column 4"));
    assert!(refusal(buyi.read_register(u64::MAX)).contains("no engine"));
    assert!(refusal(board("metis").read_register(0)).contains("metis has no register"));
    assert_eq!(board("zg330").read_register(0x1c), Ok(0x330));
}

#[test]
fn settings_change_times_and_nothing_else() {
    let board = board("buyi");
    let placed = Placed::new(&board, 0);
    let x = Random(9).floats(ELEMENTS as usize);
    let expected = placed.run(&board, &x);
    let opened = board.settings().expect("local");
    let time = |settings: Settings| {
        board.configure(&settings).expect("possible");
        let report = board.run(&placed.job).expect("runs");
        assert_eq!(placed.result(&board), expected);
        report
    };
    let usual = time(opened);
    let slow = time(Settings { core_hz: 430_000_000, ..opened });
    assert!(slow.nanoseconds > usual.nanoseconds);
    let starved = time(Settings { memory_hz: opened.memory_hz / 100, ..opened });
    assert!(starved.cycles > usual.cycles);
    assert!(time(Settings { precision: Precision::Int16, ..opened }).cycles > usual.cycles);
    time(Settings { engines: [1, 2], ..opened });
    assert_eq!(board.read_register(0x4006c), Ok(0x3_0001));
    board.write_register(0x4006c, 0x7_0003).expect("exists");
    assert_eq!(board.settings().expect("local").engines, [2, 3]);
    assert!(refusal(board.write_register(0x4006c, 0x5_0001)).contains("0x50001"));
    for (wrong, word) in [
        (Settings { core_hz: 860_000_001, ..opened }, "860000001 Hz"),
        (Settings { core_hz: 861_000_000, ..opened }, "100 to 860"),
        (Settings { memory_hz: 0, ..opened }, "0 Hz"),
        (Settings { engines: [5, 4], ..opened }, "5x4"),
        (Settings { timer: Some(Records { region: DDR, start: 1 << 31, bytes: 1 }), ..opened }, "ddr"),
    ] {
        let text = refusal(board.configure(&wrong));
        assert!(text.contains(word), "{text}");
    }
    board.reset(0).expect("a level");
    assert_eq!(board.settings(), Ok(opened));
    assert!(refusal(board.reset(2)).contains('2'));
}

#[test]
fn runs_write_their_layers_times() {
    let board = board("zg330");
    let placed = Placed::new(&board, 0);
    let chunk =
        |bytes| Records { region: UDMA, start: board.allocate(UDMA, bytes, 64).expect("room"), bytes };
    let (timer, profiler) = (chunk(3 * TIMER_RECORD_BYTES), chunk(4 * PROFILER_RECORD_BYTES));
    let settings =
        Settings { timer: Some(timer), profiler: Some(profiler), ..board.settings().expect("local") };
    board.configure(&settings).expect("in bounds");
    let first = board.run(&placed.job).expect("runs");
    board.run(&placed.job).expect("runs");
    let words = |records: Records| -> Vec<u64> {
        let mut bytes = vec![0; records.bytes as usize];
        board.read(records.region, records.start, &mut bytes).expect("in bounds");
        bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect()
    };
    let [one, two] = first.layers[..] else { panic!("two layers") };
    // The clock goes on; the fourth layer has no room.
    assert_eq!(
        words(timer),
        [one.start, one.end, two.start, two.end, first.cycles + one.start, first.cycles + one.end]
    );
    let profile = words(profiler);
    assert_eq!(profile[..2], [one.start, one.end]);
    assert_eq!(profile[5..8], [BYTES, 0, 0]);
    assert_eq!(profile[13..16], [0, BYTES, 0]);
    // Nothing is written to what was freed.
    board.free(UDMA, timer.start).expect("allocated");
    board.write(UDMA, timer.start, &[0; 48]).expect("in bounds");
    assert_eq!(board.settings().expect("local").timer, None);
    board.reset(1).expect("a level");
    board.run(&placed.job).expect("runs");
    assert_eq!(words(timer), [0; 6]);
    assert_eq!(words(profiler)[..2], [one.start, one.end]);
}

#[test]
fn the_mmu_moves_the_far_memory() {
    let board = board("buyi");
    let placed = Placed::new(&board, 0);
    let x = Random(11).floats(ELEMENTS as usize);
    let expected = placed.run(&board, &x);
    // Logical addresses from 0 for the instructions, from 1 MiB for the rest.
    let bases = [0, 1 << 20];
    let physical = [placed.table[0].base, placed.table[1].base];
    for entry in 0..32_u64 {
        let base = bases.get(entry as usize).copied().unwrap_or(u32::MAX);
        let difference = physical.get(entry as usize).map_or(0, |&to| (to as u32).wrapping_sub(base));
        board.write_register(0x1_0000_2020 + 4 * entry, base).expect("exists");
        board.write_register(0x1_0000_2120 + 4 * entry, difference).expect("exists");
    }
    let logical = |segment: &Segment| match segment.kind {
        SegmentKind::Instructions => Segment { base: 0, ..*segment },
        SegmentKind::Resident => *segment,
        _ => Segment { base: (1 << 20) + segment.base - physical[1], ..*segment },
    };
    let table: Vec<Segment> = placed.table.iter().map(logical).collect();
    let job = |table: Vec<Segment>| Job {
        start: 0,
        bytes: placed.job.bytes,
        segments: Some(SegmentTable::new(table).expect("disjoint")),
    };
    // The table is not in force yet: what lies there is no command.
    assert_eq!(board.run(&job(table.clone())).expect("nothing to run").layers, []);
    board.write_register(0x1_0000_2004, 1).expect("exists");
    assert_eq!(board.read_register(0x1_0000_2008), Ok(1));
    board.write(DDR, placed.table[3].base, &vec![0; BYTES as usize]).expect("in bounds");
    board.run(&job(table.clone())).expect("runs");
    assert_eq!(placed.result(&board), expected);
    // A segment over a border.
    let mut wrong = table;
    wrong[1].base = (1 << 20) - 64;
    assert!(matches!(board.run(&job(wrong)), Err(Error::Segment { segment: 1, .. })));
    // Off, addresses are physical.
    board.write_register(0x1_0000_201c, 0).expect("exists");
    board.run(&placed.job).expect("runs");
    board.write_register(0x1_0000_201c, 1).expect("exists");
    board.write_register(0x1_0000_2018, 1).expect("exists");
    board.run(&placed.job).expect("runs");
    assert_eq!(placed.result(&board), expected);
}

#[test]
fn the_sanitizer_watches_boards() {
    let spec = DeviceSpec::builtin("zg330").expect("builtin");
    let board = LocalBoard::with_sanitizer(spec, true, 1, Sanitize::Report).expect("mapped");
    let placed = Placed::new(&board, 0);
    assert!(board.info().watched);
    let found = |result: Result<JobReport, Error>| {
        let error = result.expect_err("a fault");
        assert_eq!(error.class(), ErrorClass::Sanitizer, "{error}");
        (error.layer(), error.to_string())
    };
    assert_eq!(found(board.run(&placed.job)).0, Some(0), "the input was never written");
    let x = Random(13).floats(ELEMENTS as usize);
    // What the first layer leaves on the chip is there for the second.
    assert_eq!(placed.run(&board, &x), abs(&x));
    assert!(matches!(board.read(DDR, placed.table[3].base + BYTES, &mut [0]), Err(Error::Sanitizer(_))));
    for segment in &placed.table {
        board.free(segment.region, segment.base).expect("allocated");
    }
    assert!(found(board.run(&placed.job)).1.contains("use after free"), "nothing is allocated");
}

/// As on cards: a job that leaves out what it is there for gives nothing of an earlier run.
#[test]
fn what_an_earlier_job_made_is_nothing_of_this_one() {
    let spec = DeviceSpec::builtin("zg330").expect("builtin");
    let board = LocalBoard::with_sanitizer(spec, true, 1, Sanitize::Report).expect("mapped");
    let placed = Placed::new(&board, 0);
    let x = Random(14).floats(ELEMENTS as usize);
    let whole = |segment: u16| {
        let Segment { region, base, len, .. } = placed.table[usize::from(segment)];
        (region, base, len)
    };
    let makes = [whole(SCRATCH), whole(OUTPUT)];
    for _ in 0..2 {
        board.forget(&makes).expect("in bounds");
        assert_eq!(placed.run(&board, &x), abs(&x));
    }
    // The first layer's commands alone are there, then the second's.
    let [first, second] =
        [0, 1].map(|layer| encode(placed.layers[layer].iter().chain([&Command::from(End {})])));
    let mut rest = vec![0; placed.job.bytes as usize];
    rest[..first.len()].copy_from_slice(&first);
    board.write(DDR, placed.job.start, &rest).expect("in bounds");
    board.forget(&makes).expect("in bounds");
    board.run(&placed.job).expect("what it does is right");
    let mut bytes = vec![0; BYTES as usize];
    let error = board.read(DDR, placed.table[3].base, &mut bytes).expect_err("of an earlier run").to_string();
    assert!(error.contains("read of never-written bytes: the host reads ddr"), "{error}");
    rest.fill(0);
    rest[..second.len()].copy_from_slice(&second);
    board.write(DDR, placed.job.start, &rest).expect("in bounds");
    board.forget(&makes).expect("in bounds");
    let error = board.run(&placed.job).expect_err("of an earlier run").to_string();
    for part in ["layer 0: ", "never-written", "command 0 (funary), operand input, reads ocm"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    for wrong in [(DDR, 4 << 30, 1), (OCM, 1, u64::MAX), (RegionId(9), 0, 1)] {
        assert_eq!(board.forget(&[wrong]).expect_err("outside").class(), ErrorClass::Argument, "{wrong:?}");
    }
}

#[test]
fn an_index_out_of_range_names_layer_and_operand() {
    let board = board("zg330");
    let mut placed = Placed::new(&board, 0);
    // Two elements of the input, by the first two integers in the scratch memory.
    let take = Take {
        elem_bytes: 4,
        dims: [1, 1, 1, 1, 1, 2],
        src: Addr::new(INPUT, 0),
        src_strides: [0; 6],
        indices: Operand { addr: Addr::new(SCRATCH, 0), dtype: DType::I32, strides: [0, 0, 0, 0, 0, 4] },
        count: 1,
        index_stride: 0,
        extents: [3, 1, 1, 1, 1, 1],
        axis_strides: [4, 0, 0, 0, 0, 0],
        dst: Addr::new(OUTPUT, 0),
        dst_strides: [0, 0, 0, 0, 0, 4],
    };
    let end = Command::from(End {});
    let mut words = encode([&unary(INPUT, OUTPUT, UnaryKind::Abs), &end]);
    words.resize(words.len().next_multiple_of(8), 0);
    words.extend(encode([&take.into(), &end]));
    let start = board.allocate(DDR, words.len() as u64, 64).expect("room");
    board.write(DDR, start, &words).expect("in bounds");
    placed.table[0] = Segment { base: start, len: words.len() as u64, ..placed.table[0] };
    let segments = Some(SegmentTable::new(placed.table.clone()).expect("disjoint"));
    placed.job = Job { start, bytes: words.len() as u64, segments };
    let index = |index: i32| {
        let [zero, index] = [0_i32, index].map(i32::to_le_bytes);
        board.write(OCM, placed.table[2].base, &[zero, index].concat()).expect("in bounds");
        board.run(&placed.job)
    };
    index(2).expect("the last element");
    index(-3).expect("the first element");
    for wrong in [3, -4, i32::MIN] {
        let error = index(wrong).expect_err("no element");
        assert_eq!((error.class(), error.layer()), (ErrorClass::Argument, Some(1)), "{error}");
        assert_eq!(error.operand(), Some("indices"));
        let text = format!("index {wrong} is outside of axis 0 of extent 3");
        assert!(error.to_string().contains(&text), "{error}");
    }
    index(0).expect("the board can be used as before");
}

#[test]
fn copies_within_the_far_memory_by_registers() {
    let board = board("buyi");
    let content = Random(1).bytes(128);
    board.write(DDR, 8192, &content).expect("in bounds");
    let copy = |words: [u32; 4]| {
        for (index, word) in words.into_iter().enumerate() {
            board.write_register(0x1_0004_1018 + 4 * index as u64, word).expect("exists");
        }
        board.write_register(0x1_0004_1004, 1)
    };
    copy([8192, 8192 + 64, 16384, 16384 + 64]).expect("copies");
    assert_eq!(board.read_register(0x1_0004_1084), Ok(0));
    let mut bytes = [0; 129];
    board.read(DDR, 16384, &mut bytes).expect("in bounds");
    assert_eq!(bytes[..128], content);
    assert_eq!(bytes[128], 0);
    assert!(refusal(copy([8192, 8192 + 64, 16384, 16384])).contains("as many"));
    assert!(refusal(copy([8192, 8192 + 32, 16384, 16384 + 32])).contains("multiples of 64"));
    assert!(refusal(copy([8192, 8191, 16384, 16383])).contains("as many"));
    assert!(refusal(copy([8192, 8192, u32::MAX - 63, u32::MAX - 63])).contains("leave the region"));
    board.write_register(0x1_0004_1004, 0).expect("does nothing");
}

#[test]
fn wrong_jobs_are_refused_before_anything_runs() {
    let board = board("zg330");
    let placed = Placed::new(&board, 0);
    let run = |change: &dyn Fn(&mut Job, &mut Vec<Segment>)| {
        let (mut job, mut table) = (placed.job.clone(), placed.table.clone());
        change(&mut job, &mut table);
        job.segments = Some(SegmentTable::new(table).expect("disjoint"));
        refusal(board.run(&job))
    };
    assert!(run(&|job, _| job.bytes += 1).contains("no instruction segment"));
    assert!(run(&|job, _| job.start = u64::MAX).contains("no instruction segment"));
    assert!(run(&|job, _| job.bytes -= 8).contains("ends in the middle of a header"));
    // Its two words, and those that round the stream up.
    let cut = run(&|job, _| job.bytes -= 12);
    assert!(cut.contains("has no end command"), "{cut}");
    let unknown = |start| refusal(board.run(&Job { start, bytes: 8, segments: None }));
    assert!(unknown(64).contains("nothing says where the segments lie"));
    assert!(unknown(1 << 40).contains("8 bytes at 0x10000000000 leave the region ddr"));
    assert!(
        run(&|_, table| (table[0].region, table[0].base) = (OCM, 1 << 19)).contains("no instruction segment")
    );
    assert!(run(&|_, table| table[3].region = UDMA).contains("does not reach"));
    assert!(run(&|_, table| table[3].region = RegionId(9)).contains("does not reach"));
    assert!(run(&|_, table| table[3].base = 4 << 30).contains("leave"));
    assert!(run(&|_, table| table[3].len = 64).contains("output"));
    assert_eq!(board.read_register(0x0c), Ok(0));
    let mock = LocalBoard::open("zg330", false, 1).expect("builtin");
    assert!(refusal(mock.run(&placed.job)).contains("memory and registers only"));
    let copied = |from, to, bytes| board.copy(from, to, bytes).map_err(|error| error.to_string());
    for (from, to) in [((DDR, 0), (RegionId(7), 0)), ((RegionId(7), 0), (DDR, 0))] {
        assert!(copied(from, to, 1).is_err_and(|error| error.contains("#7")));
    }
    // Either side, also where nothing is moved.
    for (from, to) in
        [((DDR, 1 << 40), (DDR, 0)), ((DDR, 0), (DDR, 1 << 40)), ((DDR, 1 << 40), (DDR, 1 << 40))]
    {
        assert!(copied(from, to, 64).is_err_and(|error| error.contains("leave the region ddr")));
    }
}

#[test]
fn jobs_of_several_threads_take_turns() {
    let board: Arc<dyn Board> = Arc::new(board("zg330"));
    let workers: Vec<_> = (0..4_u64)
        .map(|number| {
            let board = Arc::clone(&board);
            thread::spawn(move || {
                let placed = Placed::new(&*board, 0);
                let mut random = Random(number);
                for _ in 0..20 {
                    let x = random.floats(ELEMENTS as usize);
                    assert_eq!(placed.run(&*board, &x), abs(&x));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("no panic");
    }
    assert_eq!(board.read_register(0x0c), Ok(4 * 20 * 2));
}

#[test]
fn copies_and_runs_over_the_same_bytes_take_turns() {
    let board = Arc::new(board("zg330"));
    let placed = Arc::new(Placed::new(&*board, 0));
    let writer = {
        let (board, placed) = (Arc::clone(&board), Arc::clone(&placed));
        thread::spawn(move || {
            for value in 0..200_u32 {
                let x = vec![value as f32; ELEMENTS as usize];
                board.write(DDR, placed.table[1].base, &to_bytes(&x)).expect("waits");
                let result = placed.result(&*board);
                assert!(result.iter().all(|value| *value == result[0]), "a run is seen whole");
            }
        })
    };
    for _ in 0..200 {
        board.run(&placed.job).expect("waits");
    }
    writer.join().expect("no panic");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn corrupted_commands_are_refused_or_run(seed: u64, at: usize, value: u8) {
        let board = board("zg330");
        let placed = Placed::new(&board, 0);
        let x = Random(seed).floats(ELEMENTS as usize);
        placed.run(&board, &x);
        let at = (at % placed.job.bytes as usize) as u64;
        board.write(DDR, placed.job.start + at, &[value]).expect("in bounds");
        // An error or another program: never a crash, and the board goes on.
        let _ = board.run(&placed.job);
        let other = Placed::new(&board, 0);
        prop_assert_eq!(other.run(&board, &x), abs(&x));
    }

    #[test]
    fn memory_is_a_row_of_bytes(seed: u64) {
        let board = board("zg330");
        let mut random = Random(seed);
        let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for _ in 0..200 {
            let any = model.keys().copied().nth(random.next() as usize % model.len().max(1));
            match (random.next() % 5, any) {
                (0, _) | (_, None) => {
                    let bytes = 1 + random.next() % 5000;
                    let start = board.allocate(UDMA, bytes, 1 << (random.next() % 8)).expect("room");
                    let clear = model.range(..start + bytes).next_back();
                    prop_assert!(clear.is_none_or(|(begin, old)| begin + old.len() as u64 <= start));
                    let content = random.bytes(bytes as usize);
                    board.write(UDMA, start, &content).expect("in bounds");
                    model.insert(start, content);
                }
                (1, Some(start)) => {
                    prop_assert_eq!(board.free(UDMA, start), Ok(model[&start].len() as u64));
                    model.remove(&start);
                    prop_assert!(board.free(UDMA, start).is_err());
                }
                (2, Some(start)) => {
                    let own = model.get_mut(&start).expect("live");
                    let at = random.next() as usize % own.len();
                    let bytes = random.next() as usize % (own.len() - at + 1);
                    let content = random.bytes(bytes);
                    board.write(UDMA, start + at as u64, &content).expect("in bounds");
                    own[at..at + content.len()].copy_from_slice(&content);
                }
                (3, Some(start)) => {
                    // Within a chunk, over itself.
                    let own = model.get_mut(&start).expect("live");
                    let (from, to) = (random.next() as usize % own.len(), random.next() as usize % own.len());
                    let bytes = random.next() as usize % (own.len() - from.max(to) + 1);
                    let at = |offset: usize| (UDMA, start + offset as u64);
                    board.copy(at(from), at(to), bytes as u64).expect("in bounds");
                    own.copy_within(from..from + bytes, to);
                }
                (_, Some(start)) => {
                    // To the other memory and back to another chunk.
                    let other = model.keys().copied().nth(random.next() as usize % model.len()).expect("live");
                    let bytes = model[&start].len().min(model[&other].len());
                    board.copy((UDMA, start), (OCM, 64), bytes as u64).expect("in bounds");
                    board.copy((OCM, 64), (UDMA, other), bytes as u64).expect("in bounds");
                    let content = model[&start][..bytes].to_vec();
                    model.get_mut(&other).expect("live")[..bytes].copy_from_slice(&content);
                }
            }
        }
        let live: Vec<_> = model.iter().map(|(&start, own)| (start, own.len() as u64)).collect();
        prop_assert_eq!(board.live(UDMA), Ok(live));
        let without: Vec<u64> = model.keys().copied().filter(|_| random.below(4) == 0).collect();
        let own = &board.info().regions[UDMA.0];
        let mut most = 0;
        for first in (own.reserved..own.bytes).step_by(256).take_while(|first| *first < 1 << 20) {
            let mut others = model.iter().filter(|(start, _)| !without.contains(start));
            let end = others.try_fold(own.bytes, |end, (&start, own)| {
                let inside = first >= start && first < start + own.len() as u64;
                if inside { None } else { Some(if start > first { end.min(start) } else { end }) }
            });
            most = most.max(end.map_or(0, |end| end - first));
        }
        prop_assert_eq!(board.room(UDMA, 256, &without), Ok(most));
        prop_assert_eq!(board.room(UDMA, 0, &[]), Ok(0));
        prop_assert!(board.room(RegionId(99), 64, &[]).is_err());
        for (&start, own) in &model {
            let mut bytes = vec![0; own.len()];
            board.read(UDMA, start, &mut bytes).expect("in bounds");
            prop_assert_eq!(&bytes, own);
        }
    }
}
