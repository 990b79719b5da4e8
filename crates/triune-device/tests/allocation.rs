//! A run allocates nothing: counted by the allocator itself.

#[expect(dead_code, reason = "other tests take more")]
#[path = "it/common/mod.rs"]
mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use common::{Bench, Constants, INPUT, OUTPUT, input, output, window};
use triune_device::{
    Addr, Command, FeatureMap,
    command::{FConv, FSoftmax, Pool, Recurrence},
};
use triune_kernels::Isa;
use triune_tensor::DType;
use triune_tensor::{
    Requantize, Rounding,
    function::{CellKind, PoolKind, UnaryKind},
};
use triune_testing::Random;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system allocator does the work; counting changes nothing about it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's layout, as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: allocated by `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_run_allocates_nothing() {
    let mut random = Random(1);
    let mut constants = Constants::default();
    let scratch = |offset| FeatureMap::dense(Addr::new(common::SCRATCH, offset), DType::F32, [1, 16, 16, 8]);
    let commands: [Command; 3] = [
        FConv {
            input: input(DType::F32, [1, 16, 16, 8]),
            output: scratch(0),
            window: window([3, 3], [1, 1], [1; 4], 1),
            weights: constants.floats(&random.floats(8 * 9 * 8)),
            bias: None,
            residual: Some(scratch(0)),
            activation: UnaryKind::Silu,
        }
        .into(),
        Pool {
            input: scratch(0),
            output: output(DType::F32, [1, 8, 8, 8]),
            window: window([2, 2], [2, 2], [0; 4], 1),
            kind: PoolKind::Max,
            input_quant: common::quant(1.0, 0),
            output_quant: common::quant(1.0, 0),
            rounding: Rounding::HalfToEven,
            requantize: Requantize::Float,
        }
        .into(),
        FSoftmax { input: Addr::new(INPUT, 0), output: Addr::new(common::SCRATCH, 0), dims: [8, 16, 16] }
            .into(),
    ];
    let bench = Bench::alone(&commands, &constants, [8192, 8192, 2048]);
    bench.write(INPUT, 0, &common::to_bytes(&random.floats(2048)));
    settles(&bench, "a convolution, a pool and a softmax");

    for (cell, hidden, given) in
        [(CellKind::Lstm, 20, false), (CellKind::Gru, 20, true), (CellKind::LinearGru, 300, false)]
    {
        let (steps, batch, gates) = (5, 2, cell.gates() as u32);
        let mut constants = Constants::default();
        let weights = constants.floats(&random.floats((gates * hidden * hidden) as usize));
        let (input, output) = (steps * batch * gates * hidden * 4, (steps + 2) * batch * hidden * 4);
        let recurrence = Recurrence {
            cell,
            steps,
            directions: 1,
            batch,
            hidden,
            backwards: [true, false],
            functions: [UnaryKind::Tanh; 6],
            clip: 1.0,
            coupled: false,
            input: Addr::new(INPUT, 0),
            weights: (!given).then_some(weights),
            given_weights: given.then_some(weights),
            vectors: None,
            initial: None,
            lengths: None,
            output: Addr::new(OUTPUT, 0),
        };
        let bench = Bench::alone(&[recurrence.into()], &constants, [64, u64::from(input), u64::from(output)]);
        bench.write(INPUT, 0, &common::to_bytes(&random.floats(input as usize / 4)));
        settles(&bench, &format!("{cell} of {hidden} units"));
    }
}

/// Runs a program until a round of runs allocates nothing.
fn settles(bench: &Bench, what: &str) {
    for threads in [1, 2] {
        let pool = triune_kernels::Pool::new(threads);
        let mut executor = bench.executor(Isa::best()).expect("valid");
        executor.run(&pool, None).expect("runs");
        // The least of several rounds: threads that start late, the pool's and the test runner's, allocate on their own.
        let least = (0..20).map(|_| {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for _ in 0..10 {
                executor.run(&pool, None).expect("runs");
            }
            ALLOCATIONS.load(Ordering::Relaxed) - before
        });
        assert_eq!(least.min(), Some(0), "{what}, {threads} threads");
    }
}
