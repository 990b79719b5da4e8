//! What a decoded program takes of the host's memory, counted by the allocator itself.

mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use common::{Bench, CONSTANTS, Constants, INPUT, OUTPUT, input, operand, output, quant};
use triune_device::{
    Addr, Command, Decoded,
    command::{self, Convert, FBinary, FMatMul, FSoftmax, FUnary, Fill, Order, QSoftmax, Table},
};
use triune_kernels::Isa;
use triune_tensor::{
    DType,
    function::{BinaryKind, UnaryKind},
};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system allocator does the work; counting changes nothing about it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's layout, as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: allocated by `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Commands in a stream: enough that what a program has once does not count.
const COUNT: usize = 4000;
const DIMS: [u32; 6] = [1, 1, 1, 1, 4, 4];
const FUNCTION: UnaryKind = UnaryKind::Sigmoid;

/// A kind of command by name, and one of it.
type Kind = (&'static str, fn() -> Command);

/// Short commands, and commands with much to keep.
fn kinds() -> Vec<Kind> {
    vec![
        ("fill", || {
            Fill {
                elem_bytes: 4,
                dims: DIMS,
                dst: Addr::new(OUTPUT, 0),
                dst_strides: [0, 0, 0, 0, 16, 4],
                value: 7,
            }
            .into()
        }),
        ("copy", || {
            let strides = [0, 0, 0, 0, 16, 4];
            let (src, dst) = (Addr::new(INPUT, 0), Addr::new(OUTPUT, 0));
            command::Copy { elem_bytes: 4, dims: DIMS, src, src_strides: strides, dst, dst_strides: strides }
                .into()
        }),
        ("fsoftmax", || {
            FSoftmax { input: Addr::new(INPUT, 0), output: Addr::new(OUTPUT, 0), dims: [1, 16, 1] }.into()
        }),
        ("qsoftmax", || {
            QSoftmax {
                input: Addr::new(INPUT, 0),
                output: Addr::new(OUTPUT, 0),
                dtype: DType::I8,
                dims: [1, 16, 1],
                input_quant: quant(0.1, 0),
                output_quant: quant(1.0 / 256.0, -128),
            }
            .into()
        }),
        ("funary", || {
            let (input, output) = (input(DType::F32, [1, 2, 2, 4]), output(DType::F32, [1, 2, 2, 4]));
            FUnary { input, output, function: FUNCTION }.into()
        }),
        ("table", || {
            let (input, output) = (input(DType::I8, [1, 2, 2, 4]), output(DType::I8, [1, 2, 2, 4]));
            Table { input, output, table: Addr::new(CONSTANTS, 0) }.into()
        }),
        ("fbinary", || {
            let [a, output] = [INPUT, OUTPUT].map(|segment| operand(Addr::new(segment, 0), DType::F32, DIMS));
            FBinary { dims: DIMS, kind: BinaryKind::Add, a, b: a, output, activation: FUNCTION }.into()
        }),
        ("convert", || {
            let input = operand(Addr::new(INPUT, 0), DType::F32, DIMS);
            let output = operand(Addr::new(OUTPUT, 0), DType::U16, DIMS);
            Convert { dims: DIMS, input, output }.into()
        }),
        ("fmatmul", || {
            FMatMul {
                batch: 1,
                m: 4,
                n: 4,
                k: 4,
                a: Addr::new(INPUT, 0),
                transpose_a: false,
                b: Addr::new(INPUT, 0),
                transpose_b: false,
                shared_b: true,
                bias: None,
                output: Addr::new(OUTPUT, 0),
                activation: FUNCTION,
            }
            .into()
        }),
        ("order", || {
            let (input, output) = (Addr::new(INPUT, 0), Addr::new(OUTPUT, 0));
            Order { input, dtype: DType::F32, dims: [1, 8, 1], k: 8, descending: true, output }.into()
        }),
    ]
}

#[test]
fn decoded_programs_take_up_to_eight_times_their_stream() {
    let mut constants = Constants::default();
    constants.add(vec![0; 1 << 17]);
    for (name, make) in kinds() {
        let commands: Vec<Command> = (0..COUNT).map(|_| make()).collect();
        let bench = Bench::alone(&commands, &constants, [1024, 1024, 1024]);
        let before = LIVE.load(Ordering::Relaxed);
        let decoded = Decoded::new(&bench.memory, &bench.table, bench.stream, Isa::best()).expect(name);
        let live = LIVE.load(Ordering::Relaxed) - before;
        let stream = bench.stream.len as usize;
        assert!(live <= 8 * stream, "{name}: {live} bytes for a stream of {stream}");
        // What is counted for the limit is what is there, allocator's rests apart.
        assert!(
            (decoded.bytes() as usize).abs_diff(live) <= live / 4,
            "{name}: {} of {live}",
            decoded.bytes()
        );
        // Decoded again from the words that are kept.
        assert_eq!(decoded.commands().len(), COUNT, "{name}");
        assert!(decoded.commands().eq(commands), "{name}");
    }
}
