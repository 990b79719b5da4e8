//! The sanitizer: each fault is planted and must be named with its chunk, size and places; what is right stays silent.

use std::sync::Arc;

use crate::common::{Bench, CONSTANTS, Constants, INPUT, OUTPUT, SCRATCH, input, output, window};
use proptest::prelude::*;
use triune_device::{
    Addr, Command, DeviceSpec, Error, Executor, FeatureMap, Memory, RangeAccess, RegionId, Sanitize, Segment,
    SegmentTable, Stream,
    command::{Copy, End, FConv, FUnary, encode},
    memory::sanitizer::{Fault, Report},
};
use triune_kernels::{Isa, Pool};
use triune_tensor::DType;
use triune_tensor::function::UnaryKind;
use triune_testing::Random;

fn memory(mode: Sanitize) -> Arc<Memory> {
    let spec = DeviceSpec::builtin("metis").expect("builtin");
    Arc::new(Memory::with_sanitizer(&spec, mode).expect("address space"))
}

/// The report of a call that must have failed.
#[track_caller]
fn report<T: std::fmt::Debug>(result: Result<T, Error>) -> Report {
    match result {
        Err(Error::Sanitizer(report)) => *report,
        other => panic!("no report: {other:?}"),
    }
}

/// The line after the one of the caller, in this file.
macro_rules! next_line {
    () => {
        format!("sanitizer.rs:{}", line!() + 1)
    };
}

#[test]
fn off_unless_asked_for() {
    let memory = memory(Sanitize::Off);
    let ddr = memory.region("ddr").expect("ddr");
    let start = memory.allocate(ddr, 64, 64).expect("room");
    memory.label(ddr, start, || unreachable!("nobody reads labels"));
    memory.seal(ddr, start);
    memory.write(ddr, start, &[1]).expect("allowed");
    memory.free(ddr, start).expect("allocated");
    assert_eq!(memory.free(ddr, start), Err(Error::NotAllocated { region: "ddr".into(), start }));
    memory.read(ddr, start, &mut [0; 100]).expect("allowed");
    assert_eq!((memory.leaks(), memory.faults()), (vec![], vec![]));
}

#[test]
fn host_faults_name_chunk_size_and_places() {
    let memory = memory(Sanitize::Report);
    let ddr = memory.region("ddr").expect("ddr");
    let allocated = next_line!();
    let start = memory.allocate(ddr, 100, 64).expect("room");
    memory.label(ddr, start, || "weights of a test".to_owned());

    let found = report(memory.read(ddr, start, &mut [0; 4]));
    assert_eq!((found.fault, found.first, found.last), (Fault::NeverWritten, start, start + 4));
    memory.write(ddr, start, &[7; 50]).expect("allocated");
    memory.read(ddr, start, &mut [0; 50]).expect("written");
    let found = report(memory.read(ddr, start + 40, &mut [0; 20]));
    assert_eq!((found.fault, found.first, found.last), (Fault::NeverWritten, start + 50, start + 60));

    let error = memory.write(ddr, start + 90, &[7; 20]).expect_err("too long");
    let text = error.to_string();
    let end = start + 100;
    for part in [
        "sanitizer: out of bounds: the host writes ddr",
        &format!("{end:#x}..{:#x} is at fault", end + 10),
        "\"weights of a test\"",
        &format!("100 bytes at ddr {start:#x}..{end:#x}"),
        &allocated,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Nothing of it was written.
    assert_eq!(report(memory.read(ddr, start + 90, &mut [0])).fault, Fault::NeverWritten);
    let found = report(memory.read(ddr, start + 200, &mut [0]));
    assert_eq!((found.fault, found.chunk.map(|chunk| chunk.len)), (Fault::OutOfBounds, Some(100)));

    assert_eq!(report(memory.free(ddr, start + 1)).fault, Fault::FreeInside);
    let freed = next_line!();
    memory.free(ddr, start).expect("allocated");
    let text = memory.read(ddr, start + 8, &mut [0; 4]).expect_err("freed").to_string();
    assert!(text.contains("use after free: the host reads ddr"), "{text}");
    assert!(text.contains(&allocated) && text.contains(&freed) && text.contains("100 bytes"), "{text}");
    assert_eq!(report(memory.write(ddr, start, &[1])).fault, Fault::UseAfterFree);
    let text = memory.free(ddr, start).expect_err("freed").to_string();
    assert!(text.contains("double free: the host frees ddr") && text.contains(&freed), "{text}");
    assert!(matches!(memory.free(ddr, start + 4096), Err(Error::NotAllocated { .. })));
    assert!(memory.free(ddr, 0).is_err());
}

#[test]
fn leases_of_the_host_are_watched_too() {
    let memory = memory(Sanitize::Report);
    let ddr = memory.region("ddr").expect("ddr");
    let start = memory.allocate(ddr, 100, 64).expect("room");
    let ranges = [RangeAccess::exclusive(ddr, start, 100)];
    let mut lease = memory.lease(&ranges).expect("free");
    assert_eq!(report(lease.read(ranges[0])).fault, Fault::NeverWritten);
    lease.write(RangeAccess::exclusive(ddr, start, 60)).expect("allocated").fill(1);
    lease.read(RangeAccess::shared(ddr, start, 60)).expect("written");
    assert_eq!(
        report(lease.split([RangeAccess::shared(ddr, start + 60, 1)], ranges[0])).fault,
        Fault::NeverWritten
    );
}

#[test]
fn what_is_sealed_is_not_written() {
    let memory = memory(Sanitize::Report);
    let ddr = memory.region("ddr").expect("ddr");
    let start = memory.allocate(ddr, 64, 64).expect("room");
    memory.write(ddr, start, &[1; 64]).expect("open");
    memory.label(ddr, start, || "instructions".to_owned());
    memory.seal(ddr, start);
    let found = report(memory.write(ddr, start + 8, &[2]));
    assert_eq!(
        (found.fault, found.chunk.map(|chunk| chunk.label)),
        (Fault::Sealed, Some("instructions".into()))
    );
    let mut byte = [0];
    memory.read(ddr, start + 8, &mut byte).expect("readable");
    assert_eq!(byte, [1]);
    memory.free(ddr, start).expect("allocated");
    let again = memory.allocate(ddr, 64, 64).expect("room");
    assert_eq!(again, start);
    memory.write(ddr, again, &[3]).expect("the seal went with the chunk");
}

#[test]
fn leaks_are_listed_in_order() {
    let memory = memory(Sanitize::Report);
    let l1 = memory.region("l1.0").expect("l1");
    let ddr = memory.region("ddr").expect("ddr");
    assert_eq!(memory.leaks(), []);
    let first = memory.allocate(l1, 10, 64).expect("room");
    let second = memory.allocate(ddr, 20, 64).expect("room");
    memory.allocate_at(ddr, 1 << 30, 30).expect("room");
    memory.free(ddr, second).expect("allocated");
    let leaks = memory.leaks();
    let listed: Vec<_> = leaks.iter().map(|chunk| (&*chunk.region, chunk.start, chunk.len)).collect();
    assert_eq!(listed, [("l1.0", first, 10), ("ddr", 1 << 30, 30)]);
    assert!(leaks[0].allocated.file().ends_with("sanitizer.rs"));
}

#[test]
fn logged_faults_are_kept_once_and_stop_nothing() {
    let memory = memory(Sanitize::Log);
    let ddr = memory.region("ddr").expect("ddr");
    let start = memory.allocate(ddr, 8, 64).expect("room");
    for _ in 0..3 {
        memory.write(ddr, start, &[5; 16]).expect("logged only");
    }
    let mut bytes = [0; 16];
    memory.read(ddr, start, &mut bytes).expect("logged only");
    assert_eq!(bytes, [5; 16]);
    memory.free(ddr, start).expect("allocated");
    assert!(matches!(memory.free(ddr, start), Err(Error::NotAllocated { .. })));
    let faults: Vec<_> = memory.faults().iter().map(|fault| (fault.fault, fault.action)).collect();
    assert_eq!(
        faults,
        [(Fault::OutOfBounds, "writes"), (Fault::OutOfBounds, "reads"), (Fault::DoubleFree, "frees")]
    );
}

/// Four gigabytes of shadow must not be touched to watch a chunk of that size.
#[test]
fn a_whole_region_costs_only_what_is_used() {
    let memory = memory(Sanitize::Report);
    let ddr = memory.region("ddr").expect("ddr");
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
    };
    let before = resident();
    let (start, len) = (0, memory.size(ddr).expect("size"));
    let reserved = memory.live(ddr).expect("ddr").iter().map(|chunk| chunk.1).sum::<u64>();
    memory.allocate_at(ddr, start + reserved, len - reserved).expect("room");
    memory.write(ddr, len - 1, &[1]).expect("allocated");
    memory.read(ddr, len - 1, &mut [0]).expect("written");
    assert_eq!(report(memory.read(ddr, len - 2, &mut [0; 2])).first, len - 2);
    assert!(resident() < before + (64 << 20), "{} MiB more", (resident() - before) >> 20);
}

fn relu(input: FeatureMap, output: FeatureMap) -> Command {
    FUnary { input, output, function: UnaryKind::Relu }.into()
}

fn map(segment: u16, offset: u64, dims: [u32; 4]) -> FeatureMap {
    FeatureMap::dense(Addr::new(segment, offset), DType::F32, dims)
}

fn run(bench: &Bench) -> Result<(), Error> {
    bench.executor(Isa::best())?.run(&Pool::new(1), None)
}

const DIMS: [u32; 4] = [1, 4, 4, 8];
const BYTES: u64 = 4 * 4 * 8 * 4;

#[test]
fn a_program_reads_only_what_was_written_in_this_run() {
    let commands =
        [relu(map(INPUT, 0, DIMS), map(SCRATCH, 0, DIMS)), relu(map(SCRATCH, 0, DIMS), map(OUTPUT, 0, DIMS))];
    let bench = Bench::new(&memory(Sanitize::Report), &commands, &Constants::default(), [BYTES; 3]);
    let found = report(run(&bench));
    assert_eq!((found.fault, &*found.actor), (Fault::NeverWritten, "command 0 (funary), operand input,"));
    bench.write(INPUT, 0, &[0; BYTES as usize]);
    let mut executor = bench.executor(Isa::best()).expect("valid");
    executor.run(&Pool::new(1), None).expect("clean");
    executor.run(&Pool::new(1), None).expect("clean again");
    assert_eq!(bench.read(OUTPUT, 0, 4), [0; 4]);

    // The second program reads a feature map before it writes it: the first run's values must not pass for it.
    let swapped = [commands[1], commands[0]];
    let bench = Bench::new(&memory(Sanitize::Report), &swapped, &Constants::default(), [BYTES; 3]);
    bench.write(INPUT, 0, &[0; BYTES as usize]);
    bench.write(SCRATCH, 0, &[0; BYTES as usize]);
    for _ in 0..2 {
        let found = report(run(&bench));
        assert_eq!((found.fault, &*found.actor), (Fault::NeverWritten, "command 0 (funary), operand input,"));
    }
}

#[test]
fn what_an_earlier_run_put_out_is_nothing_of_this_one() {
    let [copy, back] =
        [relu(map(INPUT, 0, DIMS), map(OUTPUT, 0, DIMS)), relu(map(OUTPUT, 0, DIMS), map(SCRATCH, 0, DIMS))];
    // Two programs with the same buffers: what the first one writes, the second one reads first, or not at all.
    let bench = Bench::new(&memory(Sanitize::Report), &[copy, back, copy], &Constants::default(), [BYTES; 3]);
    let all = bench.stream.len;
    let size = (all - encode([&Command::from(End {})]).len() as u64) / 3;
    let executor = |first: u64, len: u64| {
        let stream = Stream { addr: Addr::new(0, first), len };
        Executor::new(Arc::clone(&bench.memory), &bench.table, stream, Isa::best()).expect("valid")
    };
    let mut whole = executor(0, all);
    let mut late = executor(size, all - size);
    let mut nothing = executor(3 * size, all - 3 * size);
    bench.write(INPUT, 0, &[0; BYTES as usize]);
    let output = || bench.memory.read(bench.region, bench.base(OUTPUT), &mut [0; BYTES as usize]);
    let pool = Pool::new(1);
    for _ in 0..2 {
        whole.run(&pool, None).expect("clean");
        output().expect("of this run");
    }
    let found = report(late.run(&pool, None));
    assert_eq!((found.fault, &*found.actor), (Fault::NeverWritten, "command 0 (funary), operand input,"));
    whole.run(&pool, None).expect("clean");
    nothing.run(&pool, None).expect("there is nothing to find");
    assert_eq!(report(output()).fault, Fault::NeverWritten);
    // Parts of one program leave each other what they put out, and so does what the host says it writes itself.
    whole.run(&pool, None).expect("clean");
    late.into_part().run(&pool, None).expect("the other part's");
    let mut nothing = nothing.with_results([(OUTPUT, 8, BYTES - 8)]);
    nothing.run(&pool, None).expect("there is nothing to find");
    bench.memory.read(bench.region, bench.base(OUTPUT), &mut [0; 8]).expect("the host's");
    assert_eq!(report(output()).first, bench.base(OUTPUT) + 8);
}

/// Bytes between rows and between pixels are nobody's; the elements at both ends of a gap are somebody's.
#[test]
fn gaps_of_strided_maps_are_not_read() {
    let dims = [2, 3, 4, 5];
    let strided = |segment| FeatureMap {
        addr: Addr::new(segment, 64),
        dtype: DType::F32,
        n: 2,
        h: 3,
        w: 4,
        c: 5,
        stride_n: 512,
        stride_h: 128,
        stride_w: 28,
        blocks: None,
    };
    let commands =
        [relu(map(INPUT, 0, dims), strided(SCRATCH)), relu(strided(SCRATCH), map(OUTPUT, 0, dims))];
    let memory = memory(Sanitize::Report);
    let bench = Bench::new(&memory, &commands, &Constants::default(), [1024, 480, 480]);
    bench.write(INPUT, 0, &[0; 480]);
    run(&bench).expect("clean");
    // The chunk knows which bytes are written: those of the elements.
    let mut written = vec![false; 1024];
    for n in 0..2 {
        for h in 0..3 {
            for w in 0..4 {
                let at = 64 + n * 512 + h * 128 + w * 28;
                written[at..at + 20].fill(true);
            }
        }
    }
    for (offset, written) in written.into_iter().enumerate() {
        let read = memory.read(bench.region, bench.base(SCRATCH) + offset as u64, &mut [0]);
        assert_eq!(read.is_ok(), written, "byte {offset}");
    }
    // One element more than the writer had is a fault, at that element.
    let mut wider = strided(SCRATCH);
    wider.c = 6;
    let commands = [commands[0], relu(wider, map(OUTPUT, 0, [2, 3, 4, 6]))];
    let bench = Bench::new(&memory, &commands, &Constants::default(), [1024, 480, 576]);
    bench.write(INPUT, 0, &[0; 480]);
    let found = report(run(&bench));
    let gap = bench.base(SCRATCH) + 64 + 20;
    assert_eq!((found.fault, found.first, found.last), (Fault::NeverWritten, gap, gap + 4));
}

#[test]
fn programs_in_freed_chunks_are_found_even_when_the_bytes_have_a_new_owner() {
    for segment in [0, CONSTANTS, SCRATCH, INPUT, OUTPUT] {
        let memory = memory(Sanitize::Report);
        let mut constants = Constants::default();
        let weights = constants.floats(&Random(1).floats(8 * 8));
        let conv = FConv {
            input: map(INPUT, 0, DIMS),
            output: map(SCRATCH, 0, DIMS),
            window: window([1, 1], [1, 1], [0; 4], 1),
            weights,
            bias: None,
            residual: None,
            activation: UnaryKind::Identity,
        };
        let commands = [conv.into(), relu(map(SCRATCH, 0, DIMS), map(OUTPUT, 0, DIMS))];
        let bench = Bench::new(&memory, &commands, &constants, [BYTES; 3]);
        bench.write(INPUT, 0, &[0; BYTES as usize]);
        let mut executor = bench.executor(Isa::best()).expect("valid");
        executor.run(&Pool::new(1), None).expect("clean");
        let old = bench.table.segments()[usize::from(segment)];
        memory.free(bench.region, old.base).expect("allocated");
        let found = report(executor.run(&Pool::new(1), None));
        assert_eq!((found.fault, &found.other), (Fault::UseAfterFree, &None), "segment {segment}");
        memory.allocate_at(bench.region, old.base, old.len).expect("room");
        memory.write(bench.region, old.base, &vec![0; old.len as usize]).expect("allocated");
        let found = report(executor.run(&Pool::new(1), None));
        assert_eq!(found.fault, Fault::UseAfterFree, "segment {segment}");
        assert!(found.chunk.is_some_and(|chunk| chunk.freed.is_some() && chunk.len == old.len));
        assert!(found.other.is_some_and(|chunk| chunk.freed.is_none()));
    }
}

/// Segments of a program at chosen places.
fn table(bench: &Bench, change: impl Fn(&mut [Segment])) -> SegmentTable {
    let mut segments = bench.table.segments().to_vec();
    change(&mut segments);
    SegmentTable::new(segments).expect("disjoint")
}

#[test]
fn a_segment_larger_than_its_chunk_ends_where_the_chunk_does() {
    let commands = [relu(map(INPUT, 0, DIMS), map(OUTPUT, 64, DIMS))];
    let memory = memory(Sanitize::Report);
    let bench = Bench::new(&memory, &commands, &Constants::default(), [0, BYTES, BYTES]);
    bench.write(INPUT, 0, &[0; BYTES as usize]);
    let wide = table(&bench, |segments| segments[usize::from(OUTPUT)].len += 64);
    let mut executor =
        Executor::new(Arc::clone(&memory), &wide, bench.stream, Isa::best()).expect("in the region");
    let found = report(executor.run(&Pool::new(1), None));
    let end = bench.base(OUTPUT) + BYTES;
    assert_eq!((found.fault, found.first, found.last), (Fault::OutOfBounds, end, end + 64));
    assert_eq!(&*found.actor, "command 0 (funary), operand output,");
    assert_eq!(found.chunk.map(|chunk| chunk.start), Some(bench.base(OUTPUT)));
}

#[test]
fn a_program_that_leaves_its_segment_into_a_neighbour_is_found() {
    let commands = [relu(map(INPUT, 0, DIMS), map(OUTPUT, BYTES, DIMS))];
    let memory = memory(Sanitize::Report);
    let bench = Bench::new(&memory, &commands, &Constants::default(), [0, BYTES, BYTES]);
    bench.write(INPUT, 0, &[0; BYTES as usize]);
    let neighbour = bench.base(OUTPUT) + BYTES;
    memory.allocate_at(bench.region, neighbour, BYTES).expect("room");
    memory.label(bench.region, neighbour, || "the neighbour".to_owned());
    let wide = table(&bench, |segments| segments[usize::from(OUTPUT)].len += BYTES);
    let mut executor =
        Executor::new(Arc::clone(&memory), &wide, bench.stream, Isa::best()).expect("in the region");
    let found = report(executor.run(&Pool::new(1), None));
    assert_eq!(found.fault, Fault::OutOfBounds);
    assert_eq!(found.chunk.map(|chunk| chunk.start), Some(bench.base(OUTPUT)));
    assert_eq!(found.other.map(|chunk| chunk.label), Some("the neighbour".into()));
}

#[test]
fn a_program_cannot_write_into_anothers_constants() {
    let memory = memory(Sanitize::Report);
    let mut constants = Constants::default();
    constants.floats(&[1.0; (BYTES / 4) as usize]);
    let victim = Bench::new(&memory, &[], &constants, [0; 3]);
    memory.label(victim.region, victim.base(CONSTANTS), || "constants of the victim".to_owned());
    memory.seal(victim.region, victim.base(CONSTANTS));
    let commands = [relu(map(INPUT, 0, DIMS), map(OUTPUT, 0, DIMS))];
    let bench = Bench::new(&memory, &commands, &Constants::default(), [0, BYTES, BYTES]);
    bench.write(INPUT, 0, &[0; BYTES as usize]);
    let base = victim.base(CONSTANTS);
    let wrong = table(&bench, |segments| segments[usize::from(OUTPUT)].base = base);
    let mut executor =
        Executor::new(Arc::clone(&memory), &wrong, bench.stream, Isa::best()).expect("in the region");
    let found = report(executor.run(&Pool::new(1), None));
    assert_eq!((found.fault, &*found.actor), (Fault::Sealed, "command 0 (funary), operand output,"));
    assert!(found.to_string().contains("\"constants of the victim\""), "{found}");
    assert_eq!(victim.read(CONSTANTS, 0, 4), 1_f32.to_le_bytes());
}

#[test]
fn constants_that_nobody_loaded_are_found_when_they_are_decoded() {
    let memory = memory(Sanitize::Report);
    let mut constants = Constants::default();
    let conv = FConv {
        input: input(DType::F32, DIMS),
        output: output(DType::F32, DIMS),
        window: window([1, 1], [1, 1], [0; 4], 1),
        weights: constants.floats(&[1.0; 64]),
        bias: Some(constants.floats(&[1.0; 8])),
        residual: None,
        activation: UnaryKind::Identity,
    };
    let bench = Bench::new(&memory, &[conv.into()], &constants, [0, BYTES, BYTES]);
    bench.write(INPUT, 0, &[0; BYTES as usize]);
    run(&bench).expect("clean");
    // The same constants elsewhere, the last four bytes missing.
    let len = constants.bytes.len() as u64;
    let base = memory.allocate(bench.region, len, 64).expect("room");
    memory.write(bench.region, base, &constants.bytes[..len as usize - 4]).expect("allocated");
    let moved = table(&bench, |segments| segments[usize::from(CONSTANTS)].base = base);
    let found = report(Executor::new(Arc::clone(&memory), &moved, bench.stream, Isa::best()).map(|_| ()));
    assert_eq!((found.fault, &*found.actor), (Fault::NeverWritten, "command 0 (fconv), operand bias,"));
    assert_eq!((found.first, found.last), (base + len - 4, base + len));
}

/// Copies of bytes between random strided layouts; their addresses have offsets only.
fn copies() -> impl Strategy<Value = Vec<Copy>> {
    let axes = prop::array::uniform3((1_u32..5, 0_u64..3, 0_u64..3));
    let one = (axes, 0_u64..24, 0_u64..24).prop_map(|(axes, src, dst)| {
        let (mut dims, mut src_strides, mut dst_strides) = ([1; 6], [0; 6], [0; 6]);
        let (mut from, mut to) = (1, 1);
        for (axis, (dim, from_gap, to_gap)) in axes.into_iter().enumerate() {
            (dims[3 + axis], src_strides[3 + axis], dst_strides[3 + axis]) = (dim, from, to);
            from = from * u64::from(dim) + from_gap;
            to = to * u64::from(dim) + to_gap;
        }
        Copy { elem_bytes: 1, dims, src: Addr::new(0, src), src_strides, dst: Addr::new(0, dst), dst_strides }
    });
    prop::collection::vec(one, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Byte by byte, the sanitizer and a plain list of what was written agree on whether a program is clean.
    #[test]
    fn agrees_with_a_list_of_bytes(copies in copies()) {
        const SIZE: u64 = 512;
        // The first fills one half of the scratch from the input, the others go from one half to the other.
        let commands: Vec<Command> = copies
            .iter()
            .enumerate()
            .map(|(index, copy)| {
                let half = |which: usize| (which % 2) as u64 * SIZE / 2;
                let from = if index == 0 { INPUT } else { SCRATCH };
                let src = Addr::new(from, copy.src.offset() + half(index + 1) * u64::from(index > 0));
                let dst = Addr::new(SCRATCH, copy.dst.offset() + half(index));
                Copy { src, dst, ..*copy }.into()
            })
            .collect();
        let mut written = [false; SIZE as usize];
        let mut bad = None;
        for (index, command) in commands.iter().enumerate() {
            let Command::Copy(copy) = command else { unreachable!() };
            let elements = |base: Addr, strides: [u64; 6]| {
                let mut all = vec![base.offset()];
                for (dim, stride) in copy.dims.into_iter().zip(strides) {
                    all = all.iter().flat_map(|at| (0..u64::from(dim)).map(move |i| at + i * stride)).collect();
                }
                all
            };
            let reads = elements(copy.src, copy.src_strides);
            if copy.src.segment() == SCRATCH && reads.iter().any(|&at| !written[at as usize]) {
                bad = Some(index);
                break;
            }
            for at in elements(copy.dst, copy.dst_strides) {
                written[at as usize] = true;
            }
        }
        let bench = Bench::new(&memory(Sanitize::Report), &commands, &Constants::default(), [SIZE, SIZE, 0]);
        bench.write(INPUT, 0, &[1; SIZE as usize]);
        match (run(&bench), bad) {
            (Ok(()), None) => {}
            (Err(Error::Sanitizer(found)), Some(index)) => {
                prop_assert_eq!(found.fault, Fault::NeverWritten);
                let actor = format!("command {index} (copy), operand src,");
                prop_assert_eq!(&found.actor, &actor);
            }
            (result, bad) => prop_assert!(false, "{result:?}, but the list says {bad:?}"),
        }
    }
}

#[test]
fn unknown_regions_do_not_panic() {
    let memory = memory(Sanitize::Report);
    memory.label(RegionId(99), 0, String::new);
    memory.seal(RegionId(99), 0);
    assert!(memory.free(RegionId(99), 0).is_err());
}
