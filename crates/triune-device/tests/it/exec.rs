//! A two-layer 8-bit program in device memory against a naive reading of it, and everything that can be wrong with one.

use std::sync::Arc;

use crate::common::{Bench, CONSTANTS, Constants, INPUT, OUTPUT, SCRATCH, input, memory, operand, window};
use triune_device::{
    Addr, Command, DeviceSpec, Error, FeatureMap, RangeAccess, Segment, SegmentKind, SegmentTable,
    command::{AddParams, QAdd, QConv, RequantTarget},
};
use triune_kernels::{Isa, Pool};
use triune_tensor::DType;
use triune_tensor::Rounding;
use triune_testing::Random;

const SIZE: u32 = 9;
const IN: u32 = 5;
const OUT: u32 = 7;
const MAP: u64 = (SIZE * SIZE * OUT) as u64;

/// conv(x) + conv(x)·½, both in i8: a 3×3 convolution into scratch, then an addition of two parts of it.
struct Program {
    commands: Vec<Command>,
    constants: Constants,
    weights: Vec<i8>,
    bias: Vec<i32>,
    multiplier: Vec<f32>,
}

fn target(dtype: DType, zero_point: i32) -> RequantTarget {
    RequantTarget { dtype, zero_point }
}

fn program(seed: u64) -> Program {
    let mut random = Random(seed);
    let mut constants = Constants::default();
    let weights: Vec<i8> = random.bytes((OUT * 9 * IN) as usize).into_iter().map(u8::cast_signed).collect();
    let bias: Vec<i32> = (0..OUT).map(|_| (random.next() % 4001) as i32 - 2000).collect();
    let multiplier: Vec<f32> = (0..OUT).map(|_| 0.0005 + (random.next() % 1000) as f32 * 1e-6).collect();
    let conv = QConv {
        input: input(DType::U8, [1, SIZE, SIZE, IN]),
        output: FeatureMap::dense(Addr::new(SCRATCH, 64), DType::I8, [1, SIZE, SIZE, OUT]),
        window: window([3, 3], [1, 1], [1; 4], 1),
        weights: constants.add(weights.iter().map(|weight| weight.cast_unsigned())),
        weight_blocks: [0, 0],
        bias: Some(constants.ints(&bias)),
        multiplier: constants.floats(&multiplier),
        multipliers: OUT,
        input_zero_point: 120,
        result: target(DType::I8, -3),
        rounding: Rounding::HalfToEven,
        clamp: [-100, 127],
        table: None,
        residual: None,
        add: None,
        conv_is_a: false,
    };
    let dims = [1, 1, 1, 1, 1, MAP as u32];
    let add = QAdd {
        dims,
        a: operand(Addr::new(SCRATCH, 64), DType::I8, dims),
        b: operand(Addr::new(SCRATCH, 64), DType::I8, dims),
        output: operand(Addr::new(OUTPUT, 0), DType::U8, dims),
        counted: [0, 0],
        params: AddParams {
            a: target(DType::I8, -3),
            b: target(DType::I8, -3),
            out: target(DType::U8, 128),
            ra: 1.0,
            rb: 0.5,
            k: 128.0 + 4.5,
            rounding: Rounding::HalfToEven,
            clamp: [0, 250],
        },
    };
    Program { commands: vec![conv.into(), add.into()], constants, weights, bias, multiplier }
}

const SIZES: [u64; 3] = [64 + MAP, (SIZE * SIZE * IN) as u64, MAP];

/// The program in the plainest way.
fn naive(program: &Program, x: &[u8]) -> Vec<u8> {
    let mut y = Vec::new();
    let (size, channels, outputs) = (i64::from(SIZE), IN as usize, OUT as usize);
    for row in 0..size {
        for column in 0..size {
            for out in 0..outputs {
                let mut sum = i64::from(program.bias[out]);
                for (kh, kw) in (0..3).flat_map(|kh| (0..3).map(move |kw| (kh, kw))) {
                    let (h, w) = (row + kh - 1, column + kw - 1);
                    if (0..size).contains(&h) && (0..size).contains(&w) {
                        for channel in 0..channels {
                            let x = i64::from(x[(h * size + w) as usize * channels + channel]) - 120;
                            let tap = (kh * 3 + kw) as usize;
                            sum += x * i64::from(program.weights[(out * 9 + tap) * channels + channel]);
                        }
                    }
                }
                let q = (sum as f32 * program.multiplier[out]).round_ties_even() as i32 - 3;
                let q = q.clamp(-100, 127) as f32;
                let sum = q.mul_add(1.0, q.mul_add(0.5, 132.5)).round_ties_even();
                y.push((sum as i32).clamp(0, 250) as u8);
            }
        }
    }
    y
}

fn place(program: &Program) -> Bench {
    Bench::alone(&program.commands, &program.constants, SIZES)
}

#[test]
fn two_layers_equal_the_naive_reading_on_every_isa() {
    for seed in 0..5 {
        let program = program(seed);
        let x = Random(seed + 100).bytes(SIZES[1] as usize);
        let expected = naive(&program, &x);
        assert!(expected.iter().any(|&y| y != expected[0]));
        let bench = place(&program);
        bench.write(INPUT, 0, &x);
        for isa in Isa::available() {
            for threads in [1, 2] {
                bench.write(OUTPUT, 0, &vec![0; MAP as usize]);
                let mut executor = bench.executor(isa).expect("valid");
                executor.run(&Pool::new(threads), None).expect("runs");
                assert_eq!(bench.read(OUTPUT, 0, MAP as usize), expected, "{isa:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn an_observer_sees_every_output() {
    let program = program(1);
    let bench = place(&program);
    bench.write(INPUT, 0, &Random(9).bytes(SIZES[1] as usize));
    let mut executor = bench.executor(Isa::Scalar).expect("valid");
    let mut seen = Vec::new();
    executor
        .run(&Pool::new(1), Some(&mut |view| seen.push((view.index, view.command(), view.output.to_vec()))))
        .expect("runs");
    assert_eq!(seen.len(), 2);
    for (index, (at, command, bytes)) in seen.iter().enumerate() {
        assert_eq!((*at, *command, bytes.len()), (index, program.commands[index], MAP as usize));
    }
    assert_eq!(seen[1].2, bench.read(OUTPUT, 0, MAP as usize));
}

#[test]
fn a_written_weight_changes_the_next_run() {
    let mut program = program(2);
    let bench = place(&program);
    let x = Random(3).bytes(SIZES[1] as usize);
    bench.write(INPUT, 0, &x);
    let pool = Pool::new(1);
    let mut executor = bench.executor(Isa::best()).expect("valid");
    executor.run(&pool, None).expect("runs");
    assert_eq!(bench.read(OUTPUT, 0, MAP as usize), naive(&program, &x));
    assert!(!executor.decoded().is_stale(), "a run does not touch its own constants");

    program.weights[17] ^= 0x55;
    bench.write(CONSTANTS, 17, &[program.weights[17].cast_unsigned()]);
    assert!(executor.decoded().is_stale());
    executor.run(&pool, None).expect("runs");
    assert_eq!(bench.read(OUTPUT, 0, MAP as usize), naive(&program, &x));

    // Decoded by hand, staleness is an error and not a wrong result.
    let decoded =
        triune_device::Decoded::new(&bench.memory, &bench.table, bench.stream, Isa::best()).expect("valid");
    bench.write(CONSTANTS, 17, &[0]);
    let mut scratch = vec![0; decoded.scratch_bytes(1)];
    assert_eq!(decoded.run(&bench.memory, &mut scratch, &pool, None), Err(Error::Stale));
}

#[test]
fn damaged_instructions_give_errors_or_run_but_never_panic() {
    let program = program(3);
    let bench = place(&program);
    let pool = Pool::new(1);
    let mut executor = bench.executor(Isa::best()).expect("valid");
    let words = bench.read(0, 0, bench.stream.len as usize);
    let mut refused = 0;
    for at in 0..words.len() {
        for value in [0x00, 0x01, 0x7f, 0xff, words[at] ^ 0x08] {
            if value == words[at] {
                continue;
            }
            bench.write(0, at as u64, &[value]);
            match executor.run(&pool, None) {
                Ok(()) => {}
                // What instructions can say is judged when they are decoded, not by a kernel midway.
                Err(Error::Command { .. } | Error::TooMuchWork { .. }) => refused += 1,
                Err(other) => panic!("byte {at} = {value}: {other}"),
            }
            bench.write(0, at as u64, &words[at..=at]);
        }
    }
    assert!(refused > words.len(), "only {refused} of the damages were noticed");
    executor.run(&pool, None).expect("repaired");
    bench.write(0, 0, &[0xee]);
    let error = executor.run(&pool, None).expect_err("damaged").to_string();
    assert_eq!(error, "command 0 (?) at byte 0x0 of the stream: opcode: 0x00ee is no opcode");
}

/// The field that a changed convolution or addition is refused for.
fn refused(change: impl Fn(&mut QConv, &mut QAdd)) -> (usize, String, String) {
    let mut program = program(4);
    program.constants.bytes.resize(1024, 0);
    let [Command::QConv(mut conv), Command::QAdd(mut add)] = program.commands[..] else { unreachable!() };
    change(&mut conv, &mut add);
    program.commands = vec![conv.into(), add.into()];
    match place(&program).executor(Isa::Scalar) {
        Err(Error::Command { index, field, problem, .. }) => (index, field, problem),
        other => panic!("{:?}", other.map(|_| "was accepted")),
    }
}

#[test]
fn operands_are_checked() {
    type Change = fn(&mut QConv, &mut QAdd);
    let cases: &[(Change, usize, &str, &str)] = &[
        (|c, _| c.input.addr = Addr::new(9, 0), 0, "input", "no segment 9"),
        (|c, _| c.input.addr = Addr::new(INPUT, 1), 0, "input", "leave the segment's 405 bytes"),
        (|c, _| c.input.addr = Addr::new(INPUT, Addr::MAX_OFFSET), 0, "input", "leave"),
        (|c, _| c.input.stride_h = u64::MAX / 8, 0, "input", "too many bytes"),
        (|c, _| c.input.n = 0, 0, "input", "extent 2 is 0"),
        (|c, _| c.input.w = 8, 0, "output", "the window makes"),
        (|c, _| c.input.dtype = DType::F32, 0, "input", "the type is float32"),
        (|c, _| c.window.kernel = [20, 3], 0, "window", "does not fit"),
        (|c, _| c.window.kernel = [0, 3], 0, "window", "does not fit"),
        (|c, _| c.window.groups = 2, 0, "window.groups", "do not divide"),
        (|c, _| c.window.groups = 0, 0, "window.groups", "do not divide"),
        (|c, _| c.weights = Addr::new(CONSTANTS, 1 << 40), 0, "weights", "leave"),
        (|c, _| c.weights = Addr::new(SCRATCH, 0), 0, "weights", "not in a segment of constants"),
        (|c, _| c.bias = Some(Addr::new(CONSTANTS, 2)), 0, "bias", "not a multiple of 4"),
        (|c, _| c.multipliers = 3, 0, "multipliers", "3 for 7 channels"),
        (|c, _| c.table = Some(Addr::new(CONSTANTS, 1000)), 0, "table", "leave"),
        (|c, _| c.output.addr = Addr::new(CONSTANTS, 0), 0, "output", "constants) is read-only"),
        (|c, _| c.output.addr = Addr::new(INPUT, 0), 0, "output", "leave"),
        (|c, _| c.output.stride_w = 6, 0, "output", "two of its elements share bytes"),
        (|c, _| c.output.dtype = DType::U8, 0, "output", "it can be int8"),
        (|c, _| c.result.zero_point = 300, 0, "result.zero_point", "outside of int8"),
        (|c, _| c.residual = Some(c.output), 0, "add", "is missing"),
        (|c, a| c.add = Some(a.params), 0, "output", "it can be uint8"),
        (|_, a| a.output.addr = Addr::new(INPUT, 0), 1, "output", "leave"),
        (|_, a| a.output.strides[5] = 0, 1, "dims", "overlap"),
        (|_, a| a.params.ra = f32::NAN, 1, "params", "overflow"),
        (|_, a| a.a.dtype = DType::U8, 1, "a", "it can be int8"),
        (|_, a| a.dims[0] = u32::MAX, 1, "a", "leave"),
        (
            |_, a| {
                a.output = triune_device::command::Operand { addr: Addr::new(SCRATCH, 63), ..a.a };
                a.params.out = a.params.a;
            },
            1,
            "a",
            "shares bytes with output",
        ),
    ];
    for (index, (change, command, field, problem)) in cases.iter().enumerate() {
        let (at, named, text) = refused(change);
        assert_eq!((at, named.as_str()), (*command, *field), "case {index}: {text}");
        assert!(text.contains(problem), "case {index}: {text}");
    }
}

#[test]
fn elementwise_commands_may_work_in_place() {
    let mut program = program(5);
    let x = Random(6).bytes(SIZES[1] as usize);
    let [conv, Command::QAdd(mut add)] = program.commands[..] else { unreachable!() };
    add.output = operand(Addr::new(SCRATCH, 64), DType::U8, add.dims);
    program.commands = vec![conv, add.into()];
    let bench = place(&program);
    bench.write(INPUT, 0, &x);
    bench.executor(Isa::best()).expect("valid").run(&Pool::new(1), None).expect("runs");
    assert_eq!(bench.read(SCRATCH, 64, MAP as usize), naive(&program, &x));
}

#[test]
fn channel_parts_of_one_map_interleave() {
    // The first layer writes channels 2..9 of a map of 16; the second reads them and writes channels 9..16.
    let mut program = program(6);
    let x = Random(7).bytes(SIZES[1] as usize);
    let pixels = u64::from(SIZE * SIZE);
    let part = |channel: u64| FeatureMap {
        stride_n: pixels * 16,
        stride_h: u64::from(SIZE) * 16,
        stride_w: 16,
        ..FeatureMap::dense(Addr::new(SCRATCH, channel), DType::I8, [1, SIZE, SIZE, OUT])
    };
    let [Command::QConv(mut conv), Command::QAdd(mut add)] = program.commands[..] else { unreachable!() };
    conv.output = part(2);
    add.dims = [1, 1, 1, 1, SIZE * SIZE, OUT];
    for (operand, channel, dtype) in
        [(&mut add.a, 2, DType::I8), (&mut add.b, 2, DType::I8), (&mut add.output, 9, DType::U8)]
    {
        (operand.addr, operand.dtype, operand.strides) =
            (Addr::new(SCRATCH, channel), dtype, [0, 0, 0, 0, 16, 1]);
    }
    program.commands = vec![conv.into(), add.into()];
    let bench = Bench::alone(&program.commands, &program.constants, [pixels * 16, SIZES[1], 1]);
    bench.write(INPUT, 0, &x);
    bench.executor(Isa::best()).expect("valid").run(&Pool::new(2), None).expect("runs");
    let map = bench.read(SCRATCH, 0, pixels as usize * 16);
    let written: Vec<u8> = map.chunks(16).flat_map(|pixel| pixel[9..].to_vec()).collect();
    assert_eq!(written, naive(&program, &x));
    assert!(map.chunks(16).all(|pixel| pixel[..2] == [0, 0]), "gaps are left alone");
    // One channel further down they would meet.
    add.output.addr = Addr::new(SCRATCH, 8);
    program.commands = vec![conv.into(), add.into()];
    let bench = Bench::alone(&program.commands, &program.constants, [pixels * 16, SIZES[1], 1]);
    assert!(bench.executor(Isa::best()).is_err());
}

#[test]
fn rows_of_one_map_interleave() {
    // The first layer writes columns behind one another, so that rows lie between each other; the second reads them so.
    let mut program = program(8);
    let x = Random(9).bytes(SIZES[1] as usize);
    let [Command::QConv(mut conv), Command::QAdd(mut add)] = program.commands[..] else { unreachable!() };
    let (step, column) = (u64::from(OUT), u64::from(SIZE * OUT));
    conv.output.stride_h = step;
    conv.output.stride_w = column;
    add.dims = [1, 1, 1, SIZE, SIZE, OUT];
    for operand in [&mut add.a, &mut add.b] {
        operand.strides = [0, 0, 0, step, column, 1];
    }
    add.output.strides = [0, 0, 0, u64::from(SIZE * OUT), u64::from(OUT), 1];
    program.commands = vec![conv.into(), add.into()];
    let bench = place(&program);
    bench.write(INPUT, 0, &x);
    for threads in [1, 2] {
        bench.executor(Isa::best()).expect("valid").run(&Pool::new(threads), None).expect("runs");
        assert_eq!(bench.read(OUTPUT, 0, MAP as usize), naive(&program, &x));
    }
    // A little closer, and elements would share bytes.
    conv.output.stride_w = column - 1;
    program.commands = vec![conv.into(), add.into()];
    let error = place(&program).executor(Isa::best()).expect_err("overlaps").to_string();
    assert!(error.contains("output: two of its elements share bytes"), "{error}");
}

#[test]
fn two_programs_run_on_one_memory_at_once() {
    let memory = memory("metis");
    let pool_of = |seed: u64| {
        let program = program(seed);
        let bench = Bench::new(&memory, &program.commands, &program.constants, SIZES);
        let mut executor = bench.executor(Isa::best()).expect("valid");
        move || {
            let pool = Pool::new(1);
            for round in 0..200 {
                let x = Random(1000 * seed + round).bytes(SIZES[1] as usize);
                bench.write(INPUT, 0, &x);
                executor.run(&pool, None).expect("runs");
                assert_eq!(bench.read(OUTPUT, 0, MAP as usize), naive(&program, &x));
            }
        }
    };
    let (one, two) = (pool_of(1), pool_of(2));
    std::thread::scope(|scope| {
        scope.spawn(one);
        scope.spawn(two);
    });
}

#[test]
fn a_run_excludes_writers_and_is_excluded() {
    let program = program(7);
    let bench = place(&program);
    let mut executor = bench.executor(Isa::best()).expect("valid");
    let pool = Pool::new(1);
    let held = [RangeAccess::shared(bench.region, bench.base(OUTPUT), 1)];
    let lease = bench.memory.lease(&held).expect("free");
    assert!(matches!(executor.run(&pool, None), Err(Error::Busy { .. })));
    drop(lease);
    let memory = Arc::clone(&bench.memory);
    let (region, output) = (bench.region, bench.base(OUTPUT));
    executor
        .run(
            &pool,
            Some(&mut |_| {
                assert!(matches!(memory.write(region, output, &[1]), Err(Error::Busy { .. })));
                assert!(matches!(memory.read(region, output, &mut [1]), Err(Error::Busy { .. })));
            }),
        )
        .expect("runs");
}

#[test]
fn a_program_moves_to_other_segments() {
    let program = program(8);
    let bench = place(&program);
    let mut executor = bench.executor(Isa::best()).expect("valid");
    let x = Random(11).bytes(SIZES[1] as usize);
    let base = bench.memory.allocate(bench.region, MAP, 64).expect("room");
    let mut segments = bench.table.segments().to_vec();
    segments[usize::from(OUTPUT)].base = base;
    executor.bind(&SegmentTable::new(segments.clone()).expect("disjoint")).expect("fits");
    bench.write(INPUT, 0, &x);
    executor.run(&Pool::new(1), None).expect("runs");
    let mut y = vec![0; MAP as usize];
    bench.memory.read(bench.region, base, &mut y).expect("free");
    assert_eq!(y, naive(&program, &x));
    assert_eq!(bench.read(OUTPUT, 0, 8), [0; 8]);
    segments[usize::from(OUTPUT)].len -= 1;
    assert!(executor.bind(&SegmentTable::new(segments).expect("disjoint")).is_err());
    executor.run(&Pool::new(1), None).expect("still bound");
}

#[test]
fn segment_tables_are_checked() {
    let program = program(9);
    let bench = place(&program);
    let with = |change: &dyn Fn(&mut Vec<Segment>)| {
        let mut segments = bench.table.segments().to_vec();
        change(&mut segments);
        SegmentTable::new(segments)
    };
    assert!(matches!(with(&|s| s[3].base += 4), Err(Error::Segment { segment: 3, .. })));
    assert!(matches!(with(&|s| s[4].len = u64::MAX), Err(Error::Segment { segment: 4, .. })));
    let overlap = with(&|s| s[4].base = s[1].base).expect_err("writes constants").to_string();
    assert!(overlap.contains("segments 1 (constants) and 4 (output)"), "{overlap}");
    assert!(with(&|s| s[3].base = s[1].base).is_ok(), "both are only read");
    let outside = with(&|s| s[4].base = 1 << 40).expect("disjoint");
    let error = triune_device::Executor::new(Arc::clone(&bench.memory), &outside, bench.stream, Isa::Scalar);
    assert!(matches!(error, Err(Error::Segment { segment: 4, .. })));
    let stream = triune_device::Stream { addr: Addr::new(CONSTANTS, 0), len: 8 };
    assert!(triune_device::Decoded::new(&bench.memory, &bench.table, stream, Isa::Scalar).is_err());
    let stream = triune_device::Stream { addr: Addr::new(0, 0), len: bench.stream.len + 1 };
    assert!(triune_device::Decoded::new(&bench.memory, &bench.table, stream, Isa::Scalar).is_err());
}

#[test]
fn kinds_say_what_may_be_written() {
    assert!(DeviceSpec::builtin("host").is_ok());
    let writable: Vec<_> = [
        SegmentKind::Instructions,
        SegmentKind::Constants,
        SegmentKind::Scratch,
        SegmentKind::Resident,
        SegmentKind::Input,
        SegmentKind::Output,
    ]
    .into_iter()
    .filter(|kind| kind.writable())
    .collect();
    assert_eq!(writable, [SegmentKind::Scratch, SegmentKind::Resident, SegmentKind::Output]);
}
