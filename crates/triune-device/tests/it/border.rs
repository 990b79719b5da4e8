//! Runs over a border: inputs read and outputs written where the caller has them, or copied, all under one lease.

use crate::common;
use crate::common::{Bench, Constants, INPUT, OUTPUT, SCRATCH, memory, operand};
use triune_device::{
    Addr, Command, Decoded, Error, Inputs, Outputs, RangeAccess, Sanitize, SegmentKind, command::FBinary,
    exec::StepView,
};
use triune_kernels::{Isa, Pool};
use triune_tensor::{
    DType,
    function::{BinaryKind, UnaryKind},
};
use triune_testing::Random;

const ELEMENTS: u32 = 40;
const BYTES: usize = 4 * ELEMENTS as usize;

/// Buffers of the caller; the inputs start so many bytes behind an aligned address.
struct Side {
    storage: Vec<u64>,
    shift: usize,
}

impl Side {
    fn new(x: &[u8], shift: usize) -> Self {
        let mut side = Self { storage: vec![0_u64; BYTES / 8 + 1], shift };
        side.output(0).copy_from_slice(x);
        side
    }

    fn floats(&self) -> Vec<f32> {
        common::to_floats(self.input(0))
    }
}

impl Inputs for Side {
    fn input(&self, index: usize) -> &[u8] {
        assert_eq!(index, 0, "there is one input");
        &bytemuck::cast_slice(&self.storage)[self.shift..][..BYTES]
    }
}

impl Outputs for Side {
    fn output(&mut self, index: usize) -> &mut [u8] {
        assert_eq!(index, 0, "there is one output");
        &mut bytemuck::cast_slice_mut(&mut self.storage)[self.shift..][..BYTES]
    }
}

/// y = x + x, over scratch.
fn bench(memory: &std::sync::Arc<triune_device::Memory>) -> Bench {
    let dims = [1, 1, 1, 1, 1, ELEMENTS];
    let at = |segment| operand(Addr::new(segment, 0), DType::F32, dims);
    let add =
        |a, b, output| FBinary { kind: BinaryKind::Add, dims, a, b, output, activation: UnaryKind::Identity };
    let commands: [Command; 2] =
        [add(at(INPUT), at(INPUT), at(SCRATCH)).into(), add(at(SCRATCH), at(INPUT), at(OUTPUT)).into()];
    Bench::new(memory, &commands, &Constants::default(), [BYTES as u64; 3])
}

fn decoded(bench: &Bench) -> Decoded {
    Decoded::new(&bench.memory, &bench.table, bench.stream, Isa::best()).expect("a program")
}

/// Runs on a copy of `x` and into a side that is filled with a pattern, each so many bytes off.
fn run(bench: &Bench, decoded: &Decoded, x: &Side, into: &mut Side) -> Result<(), Error> {
    let mut scratch = vec![0; decoded.scratch_bytes(1)];
    decoded.run_border(&bench.memory, x, into, &mut scratch, &Pool::new(1), None)
}

const PATTERN: [u8; BYTES] = [0xA5; BYTES];

#[test]
fn tensors_are_used_wherever_they_lie() {
    let memory = memory("host");
    let bench = bench(&memory);
    let decoded = decoded(&bench);
    for shifts in 0..64 {
        let (from, to) = (shifts / 8, shifts % 8);
        let x = Random(shifts as u64).floats(ELEMENTS as usize);
        let (given, mut made) = (Side::new(&common::to_bytes(&x), from), Side::new(&PATTERN, to));
        bench.write(INPUT, 0, &[0x5A; BYTES]);
        bench.write(OUTPUT, 0, &[0x5A; BYTES]);
        run(&bench, &decoded, &given, &mut made).expect("a run");
        let expected: Vec<f32> = x.iter().map(|x| x + x + x).collect();
        assert_eq!(made.floats(), expected, "{from} and {to} bytes off");
        // Aligned ones never pass the device's memory.
        for (segment, shift) in [(INPUT, from), (OUTPUT, to)] {
            let passed = bench.read(segment, 0, BYTES) != [0x5A; BYTES];
            assert_eq!(passed, shift != 0, "segment {segment}, {shift} bytes off");
        }
    }
}

/// An output that commands read again is made in the device's memory, and copied.
#[test]
fn outputs_that_are_read_are_copied_out() {
    let memory = memory("host");
    let dims = [1, 1, 1, 1, 1, ELEMENTS];
    let at = |segment| operand(Addr::new(segment, 0), DType::F32, dims);
    let add =
        |a, b, output| FBinary { kind: BinaryKind::Add, dims, a, b, output, activation: UnaryKind::Identity };
    // y = x + x; y = y + x.
    let commands: [Command; 2] =
        [add(at(INPUT), at(INPUT), at(OUTPUT)).into(), add(at(OUTPUT), at(INPUT), at(OUTPUT)).into()];
    let bench = Bench::new(&memory, &commands, &Constants::default(), [BYTES as u64; 3]);
    let decoded = decoded(&bench);
    let x = Random(1).floats(ELEMENTS as usize);
    let (given, mut made) = (Side::new(&common::to_bytes(&x), 0), Side::new(&PATTERN, 0));
    run(&bench, &decoded, &given, &mut made).expect("a run");
    let expected: Vec<f32> = x.iter().map(|x| x + x + x).collect();
    assert_eq!(made.floats(), expected);
    assert_eq!(common::to_floats(&bench.read(OUTPUT, 0, BYTES)), expected);
}

/// Who looks at commands sees their outputs, wherever those are.
#[test]
fn observers_see_what_is_made_in_place() {
    let memory = memory("host");
    let bench = bench(&memory);
    let decoded = decoded(&bench);
    let x = Random(2).floats(ELEMENTS as usize);
    for shift in [0, 3] {
        let (given, mut made) = (Side::new(&common::to_bytes(&x), 0), Side::new(&PATTERN, shift));
        let mut scratch = vec![0; decoded.scratch_bytes(1)];
        let mut seen = Vec::new();
        let mut observer = |step: StepView<'_>| seen.push(common::to_floats(step.output));
        decoded
            .run_border(&memory, &given, &mut made, &mut scratch, &Pool::new(1), Some(&mut observer))
            .expect("a run");
        let times = |factor: f32| x.iter().map(|x| x * factor).collect::<Vec<f32>>();
        assert_eq!(seen, [times(2.0), x.iter().map(|x| x + x + x).collect()], "{shift} bytes off");
    }
}

/// Nobody else may hold an input while a run may write it, aligned or not, nor what the program writes.
#[test]
fn a_run_has_its_border_for_itself() {
    let memory = memory("host");
    let bench = bench(&memory);
    let decoded = decoded(&bench);
    for (segment, shared) in [(INPUT, false), (OUTPUT, false), (SCRATCH, false), (common::CONSTANTS, true)] {
        let held = bench.table.segments()[usize::from(segment)];
        if held.len == 0 {
            continue;
        }
        let ranges = [RangeAccess::shared(held.region, held.base, held.len)];
        let lease = memory.lease(&ranges).expect("a lease");
        for shift in [0, 3] {
            let (given, mut made) = (Side::new(&[1; BYTES], shift), Side::new(&PATTERN, shift));
            let found = run(&bench, &decoded, &given, &mut made);
            assert_eq!(matches!(found, Err(Error::Busy { .. })), !shared, "segment {segment}: {found:?}");
            assert_eq!(made.input(0) == PATTERN, !shared, "a refused run leaves the outputs alone");
        }
        drop(lease);
        run(&bench, &decoded, &Side::new(&[1; BYTES], 0), &mut Side::new(&PATTERN, 0)).expect("a run");
        // Without a border, inputs are only read.
        let lease = memory.lease(&ranges).expect("a lease");
        let mut scratch = vec![0; decoded.scratch_bytes(1)];
        let found = decoded.run(&memory, &mut scratch, &Pool::new(1), None);
        assert_eq!(found.is_ok(), shared || held.kind == SegmentKind::Input, "segment {segment}: {found:?}");
        drop(lease);
    }
}

#[test]
fn borders_of_other_lengths_are_refused() {
    /// Without its first bytes.
    struct Short<'a>(&'a mut Side, usize);
    impl Inputs for Short<'_> {
        fn input(&self, index: usize) -> &[u8] {
            &self.0.input(index)[self.1..]
        }
    }
    impl Outputs for Short<'_> {
        fn output(&mut self, index: usize) -> &mut [u8] {
            &mut self.0.output(index)[self.1..]
        }
    }
    let memory = memory("host");
    let bench = bench(&memory);
    let decoded = decoded(&bench);
    let mut scratch = vec![0; decoded.scratch_bytes(1)];
    for (missing, segment) in [([1, 0], INPUT), ([0, 1], OUTPUT), ([8, 0], INPUT)] {
        let (mut given, mut made) = (Side::new(&[1; BYTES], 0), Side::new(&PATTERN, 0));
        let (inputs, mut outputs) = (Short(&mut given, missing[0]), Short(&mut made, missing[1]));
        let found = decoded.run_border(&memory, &inputs, &mut outputs, &mut scratch, &Pool::new(1), None);
        let Err(Error::Segment { segment: named, problem }) = found else { panic!("{found:?}") };
        assert_eq!(named, usize::from(segment));
        assert!(problem.contains(&format!("has {BYTES} bytes")), "{problem}");
        assert_eq!(made.input(0), PATTERN, "nothing has run");
    }
}

/// With the sanitizer on, everything passes the device's memory, where it is watched; the values are the same.
#[test]
fn a_watched_run_copies_everything() {
    let spec = triune_device::DeviceSpec::builtin("host").expect("builtin");
    let memory =
        std::sync::Arc::new(triune_device::Memory::with_sanitizer(&spec, Sanitize::Report).expect("memory"));
    let bench = bench(&memory);
    let decoded = decoded(&bench);
    let x = Random(5).floats(ELEMENTS as usize);
    let (given, mut made) = (Side::new(&common::to_bytes(&x), 0), Side::new(&PATTERN, 0));
    run(&bench, &decoded, &given, &mut made).expect("a run");
    assert_eq!(bench.read(INPUT, 0, BYTES), common::to_bytes(&x));
    let expected: Vec<f32> = x.iter().map(|x| x + x + x).collect();
    assert_eq!(made.floats(), expected);
    assert_eq!(common::to_floats(&bench.read(OUTPUT, 0, BYTES)), expected);
    assert_eq!(memory.faults(), []);
}
