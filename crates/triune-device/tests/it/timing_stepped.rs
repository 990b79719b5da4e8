//! The timeline against the cycle-stepped simulator of `stepped`, on random small programs, devices and tilings.

use crate::stepped::{Core, Cost, MEMORIES, Slide, Task, simulate};
use proptest::prelude::*;
use triune_device::{
    Addr, Command, DeviceSpec, FeatureMap, Timeline, TimingOptions,
    command::{Copy, Fill, Operand, QConv, QMul, RequantTarget, Table, Window},
    spec::Groups,
    timeline,
    timing::{Order, Tiling, timeline_tiled},
};
use triune_tensor::DType;
use triune_tensor::Rounding;

/// Segments: instructions, constants, scratch, input, output; the second scratch lies in another memory.
const SEGMENTS: usize = 6;

/// The memory whose contents need no buffer: `l1`.
const NEAR: usize = 2;

/// A command and what it asks of the engines, found here without the device's help.
#[derive(Clone, Debug)]
struct Step {
    command: Command,
    /// The first input, further ones.
    inputs: Vec<(u16, u64)>,
    constant: Option<(u16, u64)>,
    write: (u16, u64),
    elements: u64,
    /// Whether its operands are maps, whose channels come in blocks.
    maps: bool,
    /// A convolution's rows of results and outputs, its inner product and window.
    conv: Option<(u64, u64, u64, Slide)>,
}

fn step_of(command: impl Into<Command>, inputs: Vec<(u16, u64)>, write: (u16, u64), elements: u64) -> Step {
    Step { command: command.into(), inputs, constant: None, write, elements, maps: false, conv: None }
}

fn fill(to: u16, count: u32) -> Step {
    let command = Fill {
        elem_bytes: 2,
        dims: [1, 1, 1, 1, 1, count],
        dst: Addr::new(to, 0),
        dst_strides: [0, 0, 0, 0, 0, 2],
        value: 0,
    };
    step_of(command, vec![], (to, 2 * u64::from(count)), 0)
}

fn copy(from: u16, to: u16, count: u32) -> Step {
    let strides = [0, 0, 0, 0, 0, 4];
    let command = Copy {
        elem_bytes: 4,
        dims: [1, 1, 1, 1, 1, count],
        src: Addr::new(from, 0),
        src_strides: strides,
        dst: Addr::new(to, 0),
        dst_strides: strides,
    };
    let bytes = 4 * u64::from(count);
    step_of(command, vec![(from, bytes)], (to, bytes), 0)
}

fn table(from: u16, to: u16, count: u32) -> Step {
    let map = |segment| FeatureMap::dense(Addr::new(segment, 0), DType::I8, [1, 1, 1, count]);
    let command = Table { input: map(from), output: map(to), table: Addr::new(1, 0) };
    let bytes = u64::from(count);
    let step = step_of(command, vec![(from, bytes)], (to, bytes), bytes);
    Step { constant: Some((1, 256)), maps: true, ..step }
}

/// The second operand is repeated over a quarter of the rows.
fn multiply(a: u16, b: u16, to: u16, count: u32) -> Step {
    let operand = |segment, stride| Operand {
        addr: Addr::new(segment, 0),
        dtype: DType::I8,
        strides: [0, 0, 0, 0, stride, 1],
    };
    let command = QMul {
        dims: [1, 1, 1, 1, 4, count],
        a: operand(a, u64::from(count)),
        b: operand(b, 0),
        output: operand(to, u64::from(count)),
        zero_points: [0; 3],
        multiplier: 1.0,
        rounding: Rounding::HalfToEven,
        clamp: [-128, 127],
        counted: [0, 0],
    };
    let count = u64::from(count);
    step_of(command, vec![(a, 4 * count), (b, count)], (to, 4 * count), 4 * count)
}

/// A convolution of as many channels as blocks are made of, with something added to its results.
#[derive(Clone, Copy, Debug)]
struct Conv {
    size: u32,
    kernel: u32,
    stride: u32,
    dilation: u32,
    pad: u32,
    channels: [u32; 2],
    residual: bool,
}

fn convolution(a: u16, b: u16, to: u16, conv: Conv) -> Option<Step> {
    let Conv { size, kernel, stride, dilation, pad, channels, residual } = conv;
    let reach = (kernel - 1) * dilation + 1;
    let rows = (size + 2 * pad).checked_sub(reach)? / stride + 1;
    let map = |segment, [size, channels]: [u32; 2]| {
        FeatureMap::dense(Addr::new(segment, 0), DType::I8, [1, size, size, channels])
    };
    let output = map(to, [rows, channels[1]]);
    let command = QConv {
        input: map(a, [size, channels[0]]),
        output,
        window: Window {
            kernel: [kernel; 2],
            stride: [stride; 2],
            dilation: [dilation; 2],
            pad: [pad; 4],
            groups: 1,
        },
        weights: Addr::new(1, 0),
        weight_blocks: [0, 0],
        bias: None,
        multiplier: Addr::new(1, 0),
        multipliers: 1,
        input_zero_point: 0,
        result: RequantTarget { dtype: DType::I8, zero_point: 0 },
        rounding: Rounding::HalfToEven,
        clamp: [-128, 127],
        table: None,
        residual: residual.then(|| FeatureMap { addr: Addr::new(b, 0), ..output }),
        add: None,
        conv_is_a: false,
    };
    let [size, kernel, rows] = [size, kernel, rows].map(u64::from);
    let [inputs, outputs] = channels.map(u64::from);
    let inner = kernel * kernel * inputs;
    let written = rows * rows * outputs;
    let mut read = vec![(a, size * size * inputs)];
    if residual {
        read.push((b, written));
    }
    let step = step_of(command, read, (to, written), 0);
    // A window of one pixel that does not slide over others is cut between any two pixels.
    let pixels = conv.kernel == 1 && stride == 1 && pad == 0;
    let slide = Slide {
        rows_in: if pixels { size * size } else { size },
        kernel,
        stride: stride.into(),
        dilation: dilation.into(),
        pad: pad.into(),
    };
    let rows = if pixels { rows * rows } else { rows };
    Some(Step { constant: Some((1, inner * outputs + 4)), conv: Some((rows, outputs, inner, slide)), ..step })
}

fn step() -> impl Strategy<Value = Step> {
    let segment = || 2..SEGMENTS as u16;
    // Now and then nothing, mostly a block or less, sometimes several.
    let count = || prop_oneof![1 => Just(1_u32), 4 => 1..600_u32, 3 => 600..6000_u32];
    let conv = (2..14_u32, 1..4_u32, 1..4_u32, 1..3_u32, 0..3_u32, 1..3_u32, 1..4_u32, any::<bool>());
    let conv = conv.prop_map(|(size, kernel, stride, dilation, pad, inputs, outputs, residual)| Conv {
        size: size + 2 * kernel,
        kernel,
        stride,
        dilation,
        pad,
        channels: [32 * inputs, 32 * outputs],
        residual,
    });
    (0..8, segment(), segment(), segment(), count(), conv).prop_map(
        |(kind, a, b, to, count, conv)| match kind {
            0 => fill(to, count),
            1 => copy(a, to, count),
            2 => table(a, to, count),
            3 => multiply(a, b, to, count),
            _ => convolution(a, b, to, conv).unwrap_or_else(|| fill(to, count)),
        },
    )
}

#[derive(Clone, Debug)]
struct Case {
    spec: DeviceSpec,
    core: Core,
    placement: [usize; SEGMENTS],
    elements_per_cycle: u32,
    /// Channels of a block.
    block: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let rows = (0..8_u32, 6..13_u32, prop_oneof![Just(0_u32), 1..40_u32]);
    let port = (1..200_u32, 1..4_u32, 0..60_u32, rows);
    let memories = [port.clone(), port.clone(), port];
    let placement = [0..MEMORIES, 0..MEMORIES, 0..MEMORIES, 0..MEMORIES, 0..MEMORIES, 0..MEMORIES];
    let block = prop_oneof![Just(1_u32), Just(16), Just(32)];
    let buffers = (1..5_u32, proptest::option::weighted(0.8, 4096..100_000_u64));
    (memories, placement, buffers, 1..9_u32, 0..200_u32, 0..4_u64, 1..100_u32, block).prop_map(
        |(ports, placement, (depth, bytes), blocks, overhead, launch_micros, elements_per_cycle, block)| {
            let mut spec = DeviceSpec::builtin("metis").expect("builtin");
            for (memory, (bytes, cycles, latency, (burst, row, nanos))) in spec.memory.iter_mut().zip(ports) {
                memory.bytes_per_cycle = Some([bytes, cycles]);
                memory.bytes_per_second = None;
                memory.latency_cycles = latency;
                (memory.burst_bytes, memory.row_bytes, memory.row_ns) = (1 << burst, Some(1 << row), nanos);
            }
            (spec.border.channels, spec.border.image_channels) = (block, 0);
            (spec.queues.buffers, spec.queues.buffer_bytes, spec.queues.blocks) = (depth, bytes, blocks);
            (spec.launch.program_ns, spec.launch.command_cycles) = (launch_micros * 1000, overhead);
            // Nothing lies in the near memory but the buffers' operands.
            spec.memory[NEAR].bytes = spec.memory[NEAR].reserved;
            let array = spec.array.as_mut().expect("an array");
            (array.rows, array.columns) = (64, 32);
            (array.groups, array.channels) = (Groups::Apart, None);
            if let Some(vector) = &mut spec.vector {
                vector.elements_per_cycle = elements_per_cycle;
                vector.products_per_cycle = None;
            }
            let core = Core {
                ports: ports.map(|(bytes, cycles, latency, _)| {
                    ([u64::from(bytes), u64::from(cycles)], u64::from(latency))
                }),
                // At 800 MHz a nanosecond is four fifths of a cycle.
                rows: ports.map(|(.., (burst, row, nanos))| {
                    [1 << burst, 1 << row, (u64::from(nanos) * 4).div_ceil(5)]
                }),
                launch: launch_micros * 800,
                overhead: u64::from(overhead),
                near: NEAR,
            };
            Case { spec, core, placement, elements_per_cycle, block }
        },
    )
}

fn task(case: &Case, step: &Step, compute: u64) -> Task {
    let mut task = Task { rows: 1, compute, ..Task::default() };
    let memory = |segment: u16| case.placement[usize::from(segment)];
    // Channels of convolutions are whole blocks anyway.
    let filled = |count: u64| if step.maps { count.next_multiple_of(case.block.into()) } else { count };
    for (index, &(segment, bytes)) in step.inputs.iter().enumerate() {
        let inputs = if index == 0 { &mut task.map } else { &mut task.beside };
        inputs[memory(segment)] += filled(bytes);
    }
    if let Some((segment, bytes)) = step.constant {
        task.weights[memory(segment)] += bytes;
    }
    task.outputs[memory(step.write.0)] += filled(step.write.1);
    if let Some((rows, _, _, slide)) = &step.conv {
        (task.rows, task.slide) = (*rows, Some(slide.clone()));
        task.sums = 4 * step.write.1;
    } else {
        let per_cycle = u64::from(case.elements_per_cycle);
        while task.compute * per_cycle < filled(step.elements) {
            task.compute += 1;
        }
    }
    task
}

fn placement(case: &Case) -> [&'static str; SEGMENTS] {
    case.placement.map(|memory| ["ddr", "l2", "l1"][memory])
}

/// The timeline's every figure as the simulator finds it, for the tilings that it shows.
fn compare(case: &Case, steps: &[Step], timeline: &Timeline) -> Result<(), TestCaseError> {
    let tasks: Vec<(Task, Tiling)> = steps
        .iter()
        .zip(&timeline.commands)
        .map(|(step, time)| {
            // The array's closed forms have tests of their own.
            let compute = if step.conv.is_some() { time.compute } else { 0 };
            (task(case, step, compute), time.tiling)
        })
        .collect();
    let (costs, total) = simulate(&case.core, &tasks);
    for ((command, cost), (task, tiling)) in timeline.commands.iter().zip(&costs).zip(&tasks) {
        let mut read = [0; MEMORIES];
        read.copy_from_slice(&command.bytes_read[..MEMORIES]);
        let own = Cost {
            start: command.start,
            end: command.end,
            stall: command.stall,
            load_stall: command.load_stall,
            read,
            held: cost.held,
        };
        prop_assert_eq!(own, *cost, "command {}: {:?}", command.index, tiling);
        prop_assert_eq!(command.compute, task.compute);
        for memory in 0..MEMORIES {
            let once = task.weights[memory] + task.map[memory] + task.beside[memory];
            prop_assert_eq!(command.bytes_reread[memory], command.bytes_read[memory].saturating_sub(once));
            prop_assert_eq!(command.bytes_written[memory], task.outputs[memory]);
        }
        // What lies in the buffers in any cycle is no more than what is said, and that is what there is room for, unless
        // not even the smallest tiles have it.
        prop_assert!(cost.held <= command.buffered, "{} {} {:?}", cost.held, command.buffered, tiling);
    }
    prop_assert_eq!(timeline.total_cycles, total);
    Ok(())
}

/// Some tiling of a command, legal or not.
fn tiling() -> impl Strategy<Value = Tiling> {
    let order = prop_oneof![Just(Order::Even), Just(Order::Bands), Just(Order::Panels)];
    (order, 1..9_u32, 1..5_u32, 1..4_u32, 0..6_u32, 1..5_u32).prop_map(
        |(order, bands, panels, chunks, kept, depth)| Tiling { order, bands, panels, chunks, kept, depth },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn equal_to_the_stepped_simulator(case in case(), steps in proptest::collection::vec(step(), 1..7)) {
        let commands: Vec<Command> = steps.iter().map(|step| step.command).collect();
        let timeline =
            timeline(&case.spec, &commands, &placement(&case), &TimingOptions::default()).expect("timed");
        compare(&case, &steps, &timeline)?;
        for command in &timeline.commands {
            // A command that is cut in two has room; what does not fit is as small as can be.
            if let Some(bytes) = case.spec.queues.buffer_bytes {
                prop_assert!(command.buffered <= bytes || command.tiling.depth == 1, "{:?}", command.tiling);
            } else {
                prop_assert!(command.tiling.order == Order::Even && command.reread() == 0);
            }
        }
    }

    #[test]
    fn equal_to_the_stepped_simulator_however_it_is_cut(
        case in case(),
        steps in proptest::collection::vec((step(), tiling()), 1..5),
    ) {
        let (steps, tilings): (Vec<Step>, Vec<Tiling>) = steps.into_iter().unzip();
        let commands: Vec<Command> = steps.iter().map(|step| step.command).collect();
        let options = TimingOptions::default();
        let timeline =
            timeline_tiled(&case.spec, &commands, &placement(&case), &options, tilings.clone()).expect("timed");
        compare(&case, &steps, &timeline)?;
        for ((step, given), time) in steps.iter().zip(&tilings).zip(&timeline.commands) {
            let [bands, panels, chunks, kept] =
                [given.bands, given.panels, given.chunks, given.kept].map(u64::from);
            // 32 outputs and 64 inputs fill the array.
            let legal = match (&step.conv, given.order) {
                (_, Order::Even) => panels == 1 && chunks == 1 && kept == 0,
                (None, _) => false,
                (Some((rows, outputs, inner, _)), order) => {
                    let inner_tiles = if order == Order::Bands { panels * chunks } else { bands };
                    let whole = order == Order::Bands || chunks == 1;
                    bands <= *rows && panels <= outputs.div_ceil(32) && chunks <= inner.div_ceil(64)
                        && whole && kept <= inner_tiles
                }
            };
            if legal {
                prop_assert_eq!(time.tiling, *given);
            } else {
                prop_assert_ne!(time.tiling, *given);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No tiling that fits takes less time than the one that is chosen.
    #[test]
    fn nothing_that_fits_is_faster(case in case(), step in step()) {
        let options = TimingOptions::default();
        let place = placement(&case);
        let commands = [step.command];
        let chosen = timeline(&case.spec, commands, &place, &options).expect("timed").commands[0];
        let Some(bytes) = case.spec.queues.buffer_bytes else { return Ok(()) };
        let Some((rows, ..)) = &step.conv else { return Ok(()) };
        let powers = |most: u64| (0..7).map(|bit| 1_u64 << bit).filter(move |&count| count <= most);
        for bands in powers(*rows) {
            for panels in powers(9) {
                for (order, chunks) in [(Order::Panels, 1), (Order::Bands, 1), (Order::Bands, 2)] {
                    for depth in 1..=case.spec.queues.buffers {
                        for kept in [0, if order == Order::Bands { panels * chunks } else { bands }] {
                            let [bands, panels, kept, chunks] = [bands, panels, kept, chunks].map(|of| of as u32);
                            let given = Tiling { order, bands, panels, chunks, kept, depth };
                            let one = timeline_tiled(&case.spec, commands, &place, &options, [given]).expect("timed");
                            let one = one.commands[0];
                            // Of more tiles than this only those are looked for that are large or hold little.
                            if one.tiling == given && one.buffered <= bytes && given.tiles() <= 16 {
                                prop_assert!(chosen.end <= one.end, "{:?} {:?}", given, chosen.tiling);
                            }
                        }
                    }
                }
            }
        }
    }
}
