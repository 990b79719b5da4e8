//! Commands that run strip by strip, against the same commands one after the other.

use crate::common;
use crate::common::{Bench, Constants, INPUT, OUTPUT, SCRATCH, memory, operand};
use proptest::prelude::*;
use triune_device::{
    Addr, Command, Decoded, FeatureMap, Inputs, Outputs,
    command::{
        Binary, Convert, Copy, FBinary, FMatMul, FNorm, FSoftmax, FTriple, FUnary, Operand, Quantize, Reduce,
        Select,
    },
    exec::StepView,
};
use triune_kernels::{Isa, Pool};
use triune_tensor::{
    DType, Rounding,
    function::{BinaryKind, ReduceKind, UnaryKind},
};
use triune_testing::Random;

/// Rows and columns of all tensors: some strips, the last one shorter.
const ROWS: u32 = 90;
const COLUMNS: u32 = 1024;
const ELEMENTS: u32 = ROWS * COLUMNS;
const DIMS: [u32; 6] = [1, 1, 1, 1, ROWS, COLUMNS];
/// Bytes of a tensor of f32.
const TENSOR: u64 = 4 * ELEMENTS as u64;
/// Where tensors of scratch begin: some overlap by half.
const SLOTS: u64 = 6;
const SLOT: u64 = TENSOR / 2;

/// A tensor in scratch, the input or the output.
fn at(place: u64) -> Addr {
    match place {
        0..SLOTS => Addr::new(SCRATCH, place * SLOT),
        SLOTS => Addr::new(INPUT, 0),
        _ => Addr::new(OUTPUT, 0),
    }
}

/// How an operand repeats: not, in every row, in every column, everywhere; or with the rows from the last to the first row's end.
fn repeated(place: u64, how: u8) -> Operand {
    let mut own = operand(at(place), DType::F32, DIMS);
    match how {
        0..6 => {}
        6 => own.strides[4] = 0,
        7 => own.strides[5] = 0,
        8 => (own.strides[4], own.strides[5]) = (0, 0),
        // Columns before rows.
        _ => (own.strides[4], own.strides[5]) = (4, 4 * u64::from(ROWS)),
    }
    own
}

fn map(place: u64) -> FeatureMap {
    FeatureMap::dense(at(place), DType::F32, [1, 1, ROWS, COLUMNS])
}

#[derive(Clone, Copy, Debug)]
struct Drawn {
    kind: u8,
    a: u64,
    b: u64,
    to: u64,
    how: [u8; 2],
}

impl Drawn {
    fn command(self) -> Command {
        let Self { kind, a, b, to, how } = self;
        let [x, y] = [repeated(a, how[0]), repeated(b, how[1])];
        let output = operand(at(to), DType::F32, DIMS);
        let binary = |kind| FBinary { dims: DIMS, kind, a: x, b: y, output, activation: UnaryKind::Identity };
        let bytes = |own: Operand| Operand { dtype: DType::Bool, strides: own.strides.map(|s| s / 4), ..own };
        match kind {
            0 => binary(BinaryKind::Add).into(),
            1 => binary(BinaryKind::Mul).into(),
            2 => binary(BinaryKind::Max).into(),
            3 => FUnary { function: UnaryKind::Tanh, input: map(a), output: map(to) }.into(),
            4 => FUnary { function: UnaryKind::Abs, input: map(a), output: map(to) }.into(),
            5 => FNorm {
                input: at(a),
                output: at(to),
                dims: [ROWS, COLUMNS],
                epsilon: 1e-5,
                gamma: None,
                beta: None,
            }
            .into(),
            6 => FSoftmax { input: at(a), output: at(to), dims: [ROWS, COLUMNS, 1] }.into(),
            7 => Binary { dims: DIMS, kind: BinaryKind::Less, a: x, b: y, output: bytes(output) }.into(),
            8 => Select { dims: DIMS, condition: bytes(x), a: y, b: output, output }.into(),
            // A matrix in every row, or in every second one, with others of as many or one of all.
            16..=18 => {
                let (batch, shared_b) = (if kind == 17 { ROWS / 2 } else { ROWS }, kind == 18);
                FMatMul {
                    batch,
                    m: ELEMENTS / batch / 32,
                    n: 32,
                    k: 32,
                    a: at(a),
                    transpose_a: how[0] > 5,
                    b: at(b),
                    transpose_b: how[1] > 5,
                    shared_b,
                    bias: None,
                    output: at(to),
                    activation: UnaryKind::Identity,
                }
                .into()
            }
            19 => Copy {
                elem_bytes: 4,
                dims: DIMS,
                src: x.addr,
                src_strides: x.strides,
                dst: output.addr,
                dst_strides: output.strides,
            }
            .into(),
            15 => FTriple { dims: DIMS, then: BinaryKind::Add, a: x, b: y, c: output, output }.into(),
            // A sum for each row, or for each column, between the rows.
            12 | 13 => {
                let row =
                    |place| Operand { strides: [0, 0, 0, 0, 4, 4], ..operand(at(place), DType::F32, DIMS) };
                let (input, output) = (operand(at(a), DType::F32, DIMS), row(to));
                Reduce {
                    dims: DIMS,
                    axes: if kind == 12 { 1 << 5 } else { 1 << 4 },
                    kind: ReduceKind::Sum,
                    input,
                    output,
                }
                .into()
            }
            // What each row has of its own, in all of its columns.
            14 => {
                let b = Operand { strides: [0, 0, 0, 0, 4, 0], ..y };
                FBinary {
                    dims: DIMS,
                    kind: BinaryKind::Sub,
                    a: x,
                    b,
                    output,
                    activation: UnaryKind::Identity,
                }
                .into()
            }
            9 => Convert { dims: DIMS, input: x, output: Operand { dtype: DType::I32, ..output } }.into(),
            10 => Convert { dims: DIMS, input: Operand { dtype: DType::I32, ..x }, output }.into(),
            _ => Quantize {
                input: map(a),
                output: FeatureMap::dense(at(to), DType::U8, [1, 1, ROWS, COLUMNS]),
                quant: common::quant(0.25, 3),
                rounding: Rounding::HalfToEven,
            }
            .into(),
        }
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let to = (0..=SLOTS).prop_map(|place| if place == SLOTS { SLOTS + 1 } else { place });
    (0..20_u8, 0..=SLOTS, 0..=SLOTS, to, [0..10_u8, 0..10_u8]).prop_map(|(kind, a, b, to, how)| Drawn {
        kind,
        a,
        b,
        to,
        how,
    })
}

/// The caller's tensor.
struct Side(Vec<u64>);

impl Inputs for Side {
    fn input(&self, _: usize) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Outputs for Side {
    fn output(&mut self, _: usize) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

fn side(values: &[f32]) -> Side {
    let mut side = Side(vec![0; values.len().div_ceil(2)]);
    bytemuck::cast_slice_mut::<u64, f32>(&mut side.0)[..values.len()].copy_from_slice(values);
    side
}

/// Of each chain the first command, and the first one behind it.
fn extents(decoded: &Decoded) -> Vec<(usize, usize)> {
    decoded.chains().map(|chain| (chain.commands.start, chain.commands.end)).collect()
}

/// Bytes of scratch.
const SIZE: usize = (SLOT * (SLOTS + 1)) as usize;

/// Puts what runs find in scratch and the output.
fn fill(bench: &Bench) {
    bench.write(SCRATCH, 0, &common::to_bytes(&Random(7).floats(SIZE / 4)));
    bench.write(OUTPUT, 0, &vec![0x11; TENSOR as usize]);
}

/// On the boundary that kernels are given, and full of what may not be read.
fn with_scratch<T>(decoded: &Decoded, threads: usize, run: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut scratch = vec![0xA5_u8; decoded.scratch_bytes(threads) + 64];
    let skip = scratch.as_ptr().align_offset(64);
    run(&mut scratch[skip..])
}

/// What a run over the caller's tensors makes.
fn run(bench: &Bench, decoded: &Decoded, x: &Side, threads: usize, watched: bool) -> Vec<u64> {
    fill(bench);
    let mut y = side(&vec![1.0; ELEMENTS as usize]);
    let mut seen = |_: StepView<'_>| {};
    let observer: Option<&mut dyn FnMut(StepView<'_>)> = if watched { Some(&mut seen) } else { None };
    let pool = Pool::new(threads);
    with_scratch(decoded, threads, |scratch| {
        decoded.run_border(&bench.memory, x, &mut y, scratch, &pool, observer).expect("a run");
    });
    y.0
}

/// All of scratch and the output behind a run in the device's memory alone.
fn run_inside(bench: &Bench, decoded: &Decoded, x: &Side, threads: usize, watched: bool) -> [Vec<u8>; 2] {
    fill(bench);
    bench.write(INPUT, 0, x.input(0));
    let mut seen = |_: StepView<'_>| {};
    let observer: Option<&mut dyn FnMut(StepView<'_>)> = if watched { Some(&mut seen) } else { None };
    let pool = Pool::new(threads);
    with_scratch(decoded, threads, |scratch| {
        decoded.run(&bench.memory, scratch, &pool, observer).expect("a run");
    });
    [bench.read(SCRATCH, 0, SIZE), bench.read(OUTPUT, 0, TENSOR as usize)]
}

fn bench(commands: &[Command]) -> Bench {
    let sizes = [SIZE as u64, TENSOR, TENSOR];
    Bench::new(&memory("host"), commands, &Constants::default(), sizes)
}

/// Values among which are those that arithmetic treats in its own way.
fn values() -> Vec<f32> {
    let mut values = Random(3).floats(ELEMENTS as usize);
    for (index, special) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-42].into_iter().enumerate()
    {
        values[index * 1733] = special;
        values[(ELEMENTS as usize) - 1 - index] = special;
    }
    values
}

#[test]
fn what_is_chained() {
    let links = |commands: &[Command]| {
        let bench = bench(commands);
        let decoded =
            Decoded::new(&bench.memory, &bench.table, bench.stream, Isa::best()).expect("a program");
        extents(&decoded)
    };
    let plain = |kind, a, b, to| Drawn { kind, a, b, to, how: [0, 0] }.command();
    let (input, output) = (SLOTS, SLOTS + 1);
    // One reads what the other wrote, over the caller's tensors or not.
    assert_eq!(links(&[plain(4, input, 0, 0), plain(0, 0, input, 2), plain(1, input, 2, output)]), [(0, 3)]);
    // In place.
    assert_eq!(links(&[plain(4, input, 0, 0), plain(0, 0, 0, 0)]), [(0, 2)]);
    // Rows alone.
    assert_eq!(links(&[plain(5, input, 0, 0), plain(6, 0, 0, 2)]), [(0, 2)]);
    // What a row adds up to, for all of it.
    assert_eq!(links(&[plain(12, input, 0, 0), plain(14, input, 0, 2)]), [(0, 2)]);
    assert_eq!(links(&[plain(13, input, 0, 0), plain(14, input, 0, 2)]), []);
    // Another tensor's rows in the same bytes.
    assert_eq!(links(&[plain(4, input, 0, 0), plain(0, 1, 1, 3)]), []);
    // Every row reads the first one; every column's elements are others' rows.
    for how in 6..10 {
        let all = Drawn { kind: 0, a: input, b: 0, to: 2, how: [0, how] }.command();
        assert_eq!(links(&[plain(4, input, 0, 0), all]), [], "{how}");
    }
    // Matrices in rows, and copies; columns before rows are read together.
    assert_eq!(
        links(&[plain(16, input, input, 0), plain(6, 0, 0, 2), plain(17, 2, input, output)]),
        [(0, 3)]
    );
    assert_eq!(links(&[plain(19, input, input, 0), plain(4, 0, 0, 2)]), [(0, 2)]);
    let turned = Drawn { kind: 19, a: input, b: input, to: 0, how: [9, 0] }.command();
    assert_eq!(links(&[turned, plain(4, 0, 0, 2)]), []);
    // A place that is taken again: what was there is not stored. Where somebody reads it later it is, and there are two chains.
    let again = [
        plain(4, input, 0, 0),
        plain(0, 0, 0, 2),
        plain(1, 2, 2, 4),
        plain(4, 4, 0, 1),
        plain(4, 1, 0, output),
    ];
    assert_eq!(links(&again), [(0, 5)]);
    let later = |place| [&again[..], &[plain(13, place, 0, 5)]].concat();
    assert_eq!(links(&later(1)), [(0, 5)]);
    assert_eq!(links(&later(0)), [(0, 3), (3, 5)]);
    // Nothing to give each other.
    assert_eq!(links(&[plain(4, input, 0, 0), plain(4, input, 0, 2)]), []);
    // Two outputs outside.
    assert_eq!(links(&[plain(4, input, 0, output), plain(4, input, 0, output)]), []);
}

#[test]
fn strips_and_places_are_told() {
    let plain = |kind, a, b, to| Drawn { kind, a, b, to, how: [0, 0] }.command();
    let bench = bench(&[plain(4, SLOTS, 0, 0), plain(0, 0, SLOTS, 2), plain(1, SLOTS, 2, SLOTS + 1)]);
    let decoded = Decoded::new(&bench.memory, &bench.table, bench.stream, Isa::best()).expect("a program");
    let strips: Vec<_> = decoded.chains().collect();
    assert_eq!(strips.len(), 1);
    assert_eq!((strips[0].commands.clone(), &*strips[0].passing), (0..3, &[true, true, false][..]));
    assert!(strips[0].each < strips[0].rows, "{strips:?}");
    let places: Vec<_> = decoded.steps().map(|step| (step.segment, step.start, step.len)).collect();
    assert_eq!(places, [(SCRATCH, 0, TENSOR), (SCRATCH, 2 * SLOT, TENSOR), (OUTPUT, 0, TENSOR)]);
    assert!(decoded.steps().zip(decoded.commands()).all(|(step, command)| step.opcode == command.opcode()));
    assert!(decoded.steps().all(|step| step.method.is_none()));
}

#[test]
fn errors_and_halts_are_those_of_single_commands() {
    let plain = |kind, a, b, to| Drawn { kind, a, b, to, how: [0, 0] }.command();
    let bench = bench(&[plain(4, SLOTS, 0, 0), plain(0, 0, 0, 2), plain(0, 2, 2, SLOTS + 1)]);
    let decoded = Decoded::new(&bench.memory, &bench.table, bench.stream, Isa::best()).expect("a program");
    assert_eq!(extents(&decoded), [(0, 3)]);
    let token = triune_kernels::CancelToken::new();
    token.cancel();
    let (x, mut y) = (side(&values()), side(&values()));
    let mut scratch = vec![0; decoded.scratch_bytes(2)];
    let pool = Pool::new(2);
    let stopped = token.during(|| decoded.run_border(&bench.memory, &x, &mut y, &mut scratch, &pool, None));
    assert_eq!(stopped, Err(triune_device::Error::Cancelled));
    // A part of the commands that ends within a chain.
    let mut scratch = vec![0; decoded.scratch_bytes(1)];
    bench.write(INPUT, 0, &common::to_bytes(&vec![-3.0; ELEMENTS as usize]));
    bench.write(SCRATCH, 2 * SLOT, &common::to_bytes(&[9.0]));
    for (part, first) in [(0..1, 9.0), (1..3, 6.0)] {
        decoded.run_part(&bench.memory, part, &mut scratch, &Pool::new(1), None).expect("a run");
        assert_eq!(common::to_floats(&bench.read(SCRATCH, 2 * SLOT, 4)), [first]);
    }
    let last = common::to_floats(&bench.read(OUTPUT, TENSOR - 4, 4));
    assert_eq!(last, [12.0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Whatever commands do to each other's bytes, strips leave what one command after the other leaves.
    #[test]
    fn bits_are_those_of_single_commands(all in prop::collection::vec(drawn(), 2..7)) {
        // Those that a program could not have are left out.
        let commands: Vec<Command> = all
            .iter()
            .map(|drawn| drawn.command())
            .filter(|command| {
                let alone = bench(&[*command]);
                Decoded::new(&alone.memory, &alone.table, alone.stream, Isa::best()).is_ok()
            })
            .collect();
        let bench = bench(&commands);
        let decoded = Decoded::new(&bench.memory, &bench.table, bench.stream, Isa::best()).expect("a program");
        let x = side(&values());
        let expected = (run(&bench, &decoded, &x, 1, true), run_inside(&bench, &decoded, &x, 1, true));
        for threads in [1, 3] {
            let got = (run(&bench, &decoded, &x, threads, false), run_inside(&bench, &decoded, &x, threads, false));
            prop_assert!(got == expected, "{threads} threads, chains {:?}: {all:?}", extents(&decoded));
        }
    }
}
