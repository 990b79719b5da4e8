//! Work has a bound, and can be stopped in the middle of a command.

use crate::common;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::common::{Bench, Constants, OUTPUT, input, output, quant, to_bytes, to_floats, window};
use triune_device::{
    Addr, Board, Command, DeviceSpec, Error, Executor, Job, LocalBoard, RegionId, Segment, SegmentKind,
    SegmentTable,
    command::{ArgReduce, End, FUnary, GlobalPool, Operand, Pool, Reduce, encode},
    work,
};
use triune_kernels::{CancelToken, Isa, cancel};
use triune_tensor::DType;
use triune_tensor::{
    Requantize, Rounding,
    function::{PoolKind, ReduceKind, UnaryKind},
};

/// Commands of a few bytes that read one element `of` times, or as often as they can.
fn long(of: u32) -> Vec<Command> {
    let map = |rows: u32| {
        let mut map = input(DType::F32, [1, rows, rows, 1]);
        (map.stride_n, map.stride_h, map.stride_w) = (0, 0, 0);
        map
    };
    let (kind, rounding, requantize) = (PoolKind::Max, Rounding::HalfToEven, Requantize::Float);
    let still = Operand { addr: Addr::new(common::INPUT, 0), dtype: DType::F32, strides: [0; 6] };
    let dims = [1, 1, 1, 1, of, of];
    let to = |dtype, stride| Operand { addr: Addr::new(OUTPUT, 0), dtype, strides: [0, 0, 0, 0, stride, 0] };
    vec![
        Reduce { dims, axes: 0b11_0000, kind: ReduceKind::Sum, input: still, output: to(DType::F32, 0) }
            .into(),
        ArgReduce {
            dims: [1, 1, 1, 1, (of >> 12).max(1), of.saturating_mul(of)],
            axis: 5,
            largest: true,
            last: false,
            input: still,
            output: to(DType::I64, 8),
        }
        .into(),
        Pool {
            input: map(of),
            output: output(DType::F32, [1, 1, 1, 1]),
            window: window([of, of], [1, 1], [0; 4], 1),
            kind,
            input_quant: quant(1.0, 0),
            output_quant: quant(1.0, 0),
            rounding,
            requantize,
        }
        .into(),
        GlobalPool {
            input: map(of),
            output: output(DType::F32, [1, 1, 1, 1]),
            kind,
            input_quant: quant(1.0, 0),
            output_quant: quant(1.0, 0),
            rounding,
            requantize,
        }
        .into(),
    ]
}

const SIZES: [u64; 3] = [64, 4096, 8 * 4096];

fn executor(command: &Command) -> Result<(Bench, Executor), Error> {
    let bench = Bench::alone(std::slice::from_ref(command), &Constants::default(), SIZES);
    let executor = bench.executor(Isa::best())?;
    Ok((bench, executor))
}

#[test]
fn absurd_commands_are_refused_by_name() {
    for command in long(1 << 24) {
        let name = command.opcode().mnemonic();
        let own = work::operations(&command);
        if name == "argreduce" {
            assert_eq!(own, 4096 * u64::from(u32::MAX));
        } else {
            assert_eq!(own, 1 << 48, "{name}");
        }
        let error = executor(&command).err();
        let Some(Error::TooMuchWork { index: 0, mnemonic, work, total, limit }) = error else {
            panic!("{name}: {error:?}")
        };
        assert_eq!((mnemonic, work, total, limit), (name, own, own, work::DEFAULT_LIMIT));
    }
}

#[test]
fn the_limit_counts_all_commands_of_a_run() {
    let one = long(1 << 21).remove(0);
    assert!(work::operations(&one) < work::DEFAULT_LIMIT);
    let three = Bench::alone(&[one; 3], &Constants::default(), SIZES);
    let error = three.executor(Isa::best()).err();
    assert!(matches!(error, Some(Error::TooMuchWork { total, .. }) if total == 3 << 42), "{error:?}");
    // Those behind the one that is too much, too.
    let five = Bench::alone(&[one; 5], &Constants::default(), SIZES);
    let error = five.executor(Isa::best()).err();
    assert!(matches!(error, Some(Error::TooMuchWork { total, .. }) if total == 5 << 42), "{error:?}");
    // The board's jobs are several streams.
    let board = LocalBoard::open("zg330", true, 1).expect("builtin");
    let job = job(&board, &[one, one, one]);
    let error = board.run(&job).expect_err("one layer after the other");
    assert!(
        matches!(error, Error::TooMuchWork { mnemonic: "reduce", total, .. } if total == 3 << 42),
        "{error}"
    );
}

/// Runs until the work is stopped, which happens once it has begun.
fn stopped<T>(run: impl FnOnce() -> Result<T, Error>) -> Option<Error> {
    let (token, begun) = (CancelToken::new(), AtomicBool::new(false));
    let asker = |_: cancel::Occasion| {
        begun.store(true, Ordering::SeqCst);
        false
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            token.cancel();
        });
        cancel::during(Some(&token), Some(&asker), run).err()
    })
}

#[test]
fn runs_stop_inside_of_commands_and_can_be_run_again() {
    for threads in [1, 3] {
        let pool = triune_kernels::Pool::new(threads);
        for (command, short) in long(1 << 20).into_iter().zip(long(3)) {
            let name = command.opcode().mnemonic();
            let (bench, mut endless) = executor(&command).expect("below the limit");
            assert_eq!(stopped(|| endless.run(&pool, None)), Some(Error::Cancelled), "{name}");
            // What the run leased is free, and the next is as if there had been no other.
            bench.write(common::INPUT, 0, &to_bytes(&[2.0]));
            let other = Bench::new(&bench.memory, &[short], &Constants::default(), SIZES);
            other.write(common::INPUT, 0, &to_bytes(&[2.0]));
            other.executor(Isa::best()).and_then(|mut short| short.run(&pool, None)).expect(name);
            let expected = match name {
                "argreduce" => vec![0; 8],
                "reduce" => to_bytes(&[18.0]),
                _ => to_bytes(&[2.0]),
            };
            assert_eq!(other.read(OUTPUT, 0, expected.len()), expected, "{name}");
        }
    }
}

#[test]
fn a_run_under_a_cancelled_token_does_not_begin_a_second_command() {
    let abs = |kind| {
        let map = |segment| triune_device::FeatureMap::dense(Addr::new(segment, 0), DType::F32, [1, 1, 1, 8]);
        Command::from(FUnary { input: map(common::INPUT), output: map(OUTPUT), function: kind })
    };
    let commands = [abs(UnaryKind::Abs), abs(UnaryKind::Neg)];
    let bench = Bench::alone(&commands, &Constants::default(), SIZES);
    let mut executor = bench.executor(Isa::best()).expect("fits");
    bench.write(common::INPUT, 0, &to_bytes(&[-1.0; 8]));
    let token = CancelToken::new();
    token.cancel();
    let pool = triune_kernels::Pool::new(1);
    assert_eq!(token.during(|| executor.run(&pool, None)), Err(Error::Cancelled));
    assert_eq!(to_floats(&bench.read(OUTPUT, 0, 32)), [1.0; 8]);
    executor.run(&pool, None).expect("under no token any more");
}

/// A job of one stream per command, the segments in the far memory.
fn job(board: &LocalBoard, commands: &[Command]) -> Job {
    let far = RegionId(0);
    let mut words = Vec::new();
    for command in commands {
        words.extend(encode([command, &Command::from(End {})]));
        words.resize(words.len().next_multiple_of(8), 0);
    }
    let place = |kind, len: u64| {
        let base = board.allocate(far, len, 64).expect("room");
        Segment { region: far, base, len, kind }
    };
    // As the bench numbers them.
    let table = vec![
        place(SegmentKind::Instructions, words.len() as u64),
        place(SegmentKind::Constants, 64),
        place(SegmentKind::Scratch, SIZES[0]),
        place(SegmentKind::Input, SIZES[1]),
        place(SegmentKind::Output, SIZES[2]),
    ];
    board.write(far, table[0].base, &words).expect("inside");
    let start = table[0].base;
    Job { start, bytes: words.len() as u64, segments: Some(SegmentTable::new(table).expect("disjoint")) }
}

#[test]
fn jobs_of_boards_and_who_waits_for_them_can_be_stopped() {
    let board = LocalBoard::new(DeviceSpec::builtin("zg330").expect("builtin"), true, 2).expect("builtin");
    let endless = job(&board, &long(1 << 20)[..1]);
    let short = job(&board, &long(3)[..1]);
    let token = CancelToken::new();
    thread::scope(|scope| {
        let running = scope.spawn(|| token.during(|| board.run(&endless)));
        let waits = |occasion: cancel::Occasion| occasion == cancel::Occasion::Idle;
        // Once it runs, who wants memory that it writes has to wait.
        loop {
            let segment = endless.segments.as_ref().expect("given").segments()[4];
            let mut bytes = [0; 8];
            let read = || board.read(segment.region, segment.base, &mut bytes);
            if cancel::during(None, Some(&waits), read) == Err(Error::Cancelled) {
                break;
            }
        }
        assert_eq!(cancel::during(None, Some(&waits), || board.run(&short)), Err(Error::Cancelled));
        token.cancel();
        assert_eq!(running.join().expect("no panic"), Err(Error::Cancelled));
    });
    let report = board.run(&short).expect("free again");
    assert_eq!(report.layer_count, 1, "what was stopped does not count");
}
