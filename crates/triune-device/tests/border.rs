//! Runs over a border: inputs read where the caller has them or copied in, outputs copied out, all under one lease.

mod common;

use common::{Bench, Constants, INPUT, OUTPUT, SCRATCH, memory, operand};
use triune_device::{
    Addr, Border, Command, Decoded, Error, RangeAccess, Sanitize, SegmentKind, command::FBinary,
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
struct Sides {
    inputs: Vec<u64>,
    shift: usize,
    output: Vec<u8>,
}

impl Sides {
    fn new(x: &[u8], shift: usize) -> Self {
        let mut inputs = vec![0_u64; BYTES / 8 + 1];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut inputs);
        bytes[shift..shift + BYTES].copy_from_slice(x);
        Self { inputs, shift, output: vec![0xA5; BYTES] }
    }
}

impl Border for Sides {
    fn input(&self, index: usize) -> &[u8] {
        assert_eq!(index, 0, "there is one input");
        &bytemuck::cast_slice(&self.inputs)[self.shift..][..BYTES]
    }

    fn output(&mut self, index: usize) -> &mut [u8] {
        assert_eq!(index, 0, "there is one output");
        &mut self.output
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

#[test]
fn inputs_are_read_wherever_they_lie() {
    let memory = memory("host");
    let bench = bench(&memory);
    let decoded = decoded(&bench);
    let pool = Pool::new(1);
    let mut scratch = vec![0; decoded.scratch_bytes(1)];
    for shift in 0..8 {
        let x = Random(shift as u64).floats(ELEMENTS as usize);
        let mut sides = Sides::new(&common::to_bytes(&x), shift);
        bench.write(INPUT, 0, &[0x5A; BYTES]);
        decoded.run_border(&memory, &mut sides, &mut scratch, &pool, None).expect("a run");
        let expected: Vec<f32> = x.iter().map(|x| x + x + x).collect();
        assert_eq!(common::to_floats(&sides.output), expected, "{shift} bytes off");
        // Aligned ones never pass the device's memory.
        let copied = bench.read(INPUT, 0, BYTES) != [0x5A; BYTES];
        assert_eq!(copied, !shift.is_multiple_of(8), "{shift} bytes off");
    }
}

/// Nobody else may hold an input while a run may write it, aligned or not, nor what the program writes.
#[test]
fn a_run_has_its_border_for_itself() {
    let memory = memory("host");
    let bench = bench(&memory);
    let decoded = decoded(&bench);
    let pool = Pool::new(1);
    let mut scratch = vec![0; decoded.scratch_bytes(1)];
    for (segment, shared) in [(INPUT, false), (OUTPUT, false), (SCRATCH, false), (common::CONSTANTS, true)] {
        let held = bench.table.segments()[usize::from(segment)];
        if held.len == 0 {
            continue;
        }
        let ranges = [RangeAccess::shared(held.region, held.base, held.len)];
        let lease = memory.lease(&ranges).expect("a lease");
        for shift in [0, 3] {
            let mut sides = Sides::new(&[1; BYTES], shift);
            let found = decoded.run_border(&memory, &mut sides, &mut scratch, &pool, None);
            assert_eq!(matches!(found, Err(Error::Busy { .. })), !shared, "segment {segment}: {found:?}");
            assert_eq!(sides.output == [0xA5; BYTES], !shared, "a refused run leaves the outputs alone");
        }
        drop(lease);
        let mut sides = Sides::new(&[1; BYTES], 0);
        decoded.run_border(&memory, &mut sides, &mut scratch, &pool, None).expect("a run");
        // Without a border, inputs are only read.
        let lease = memory.lease(&ranges).expect("a lease");
        let found = decoded.run(&memory, &mut scratch, &pool, None);
        assert_eq!(found.is_ok(), shared || held.kind == SegmentKind::Input, "segment {segment}: {found:?}");
        drop(lease);
    }
}

#[test]
fn borders_of_other_lengths_are_refused() {
    struct Short(Sides, [usize; 2]);
    impl Border for Short {
        fn input(&self, index: usize) -> &[u8] {
            &self.0.input(index)[self.1[0]..]
        }
        fn output(&mut self, index: usize) -> &mut [u8] {
            let from = self.1[1];
            &mut self.0.output(index)[from..]
        }
    }
    let memory = memory("host");
    let bench = bench(&memory);
    let decoded = decoded(&bench);
    let mut scratch = vec![0; decoded.scratch_bytes(1)];
    for (missing, segment) in [([1, 0], INPUT), ([0, 1], OUTPUT), ([8, 0], INPUT)] {
        let mut border = Short(Sides::new(&[1; BYTES], 0), missing);
        let found = decoded.run_border(&memory, &mut border, &mut scratch, &Pool::new(1), None);
        let Err(Error::Segment { segment: named, problem }) = found else { panic!("{found:?}") };
        assert_eq!(named, usize::from(segment));
        assert!(problem.contains(&format!("has {BYTES} bytes")), "{problem}");
        assert_eq!(border.0.output, [0xA5; BYTES], "nothing has run");
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
    let mut scratch = vec![0; decoded.scratch_bytes(1)];
    let x = Random(5).floats(ELEMENTS as usize);
    let mut sides = Sides::new(&common::to_bytes(&x), 0);
    decoded.run_border(&memory, &mut sides, &mut scratch, &Pool::new(1), None).expect("a run");
    assert_eq!(bench.read(INPUT, 0, BYTES), common::to_bytes(&x));
    let expected: Vec<f32> = x.iter().map(|x| x + x + x).collect();
    assert_eq!(common::to_floats(&sides.output), expected);
    assert_eq!(memory.faults(), []);
}
