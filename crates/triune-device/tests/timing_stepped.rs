//! The timeline against the cycle-stepped simulator of `stepped`, on random small programs.

mod stepped;

use proptest::prelude::*;
use stepped::{Core, Cost, MEMORIES, Task, simulate};
use triune_device::{
    Addr, Command, DeviceSpec, FeatureMap, TimingOptions,
    command::{Copy, Fill, Operand, QMul, Table},
    timeline,
};
use triune_tensor::DType;
use triune_tensor::Rounding;

/// Segments: instructions, constants, scratch, input, output; the second scratch lies in another memory.
const SEGMENTS: usize = 6;

/// A command and what it asks of the engines, found here without the device's help.
#[derive(Clone, Debug)]
struct Step {
    command: Command,
    segments: Vec<(u8, u64)>,
    constant: Option<(u8, u64)>,
    write: (u8, u64),
    elements: u64,
    /// Whether its operands are maps, whose channels come in blocks.
    maps: bool,
}

fn fill(to: u8, count: u32) -> Step {
    let command = Fill {
        elem_bytes: 2,
        dims: [1, 1, 1, 1, 1, count],
        dst: Addr::new(to, 0),
        dst_strides: [0, 0, 0, 0, 0, 2],
        value: 0,
    };
    Step {
        command: command.into(),
        segments: vec![],
        constant: None,
        write: (to, 2 * u64::from(count)),
        elements: 0,
        maps: false,
    }
}

fn copy(from: u8, to: u8, count: u32) -> Step {
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
    Step {
        command: command.into(),
        segments: vec![(from, bytes)],
        constant: None,
        write: (to, bytes),
        elements: 0,
        maps: false,
    }
}

fn table(from: u8, to: u8, count: u32) -> Step {
    let map = |segment| FeatureMap::dense(Addr::new(segment, 0), DType::I8, [1, 1, 1, count]);
    let command = Table { input: map(from), output: map(to), table: Addr::new(1, 0) };
    let bytes = u64::from(count);
    Step {
        command: command.into(),
        segments: vec![(from, bytes)],
        constant: Some((1, 256)),
        write: (to, bytes),
        elements: bytes,
        maps: true,
    }
}

/// The second operand is repeated over a quarter of the rows.
fn multiply(a: u8, b: u8, to: u8, count: u32) -> Step {
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
    Step {
        command: command.into(),
        segments: vec![(a, 4 * count), (b, count)],
        constant: None,
        write: (to, 4 * count),
        elements: 4 * count,
        maps: false,
    }
}

fn step() -> impl Strategy<Value = Step> {
    let segment = || 2..SEGMENTS as u8;
    // Now and then nothing, mostly a block or less, sometimes several.
    let count = || prop_oneof![1 => Just(1_u32), 4 => 1..600_u32, 3 => 600..6000_u32];
    (0..4, segment(), segment(), segment(), count()).prop_map(|(kind, a, b, to, count)| match kind {
        0 => fill(to, count),
        1 => copy(a, to, count),
        2 => table(a, to, count),
        _ => multiply(a, b, to, count),
    })
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
    let port = (1..200_u32, 1..4_u32, 0..60_u32);
    let memories = [port.clone(), port.clone(), port];
    let placement = [0..MEMORIES, 0..MEMORIES, 0..MEMORIES, 0..MEMORIES, 0..MEMORIES, 0..MEMORIES];
    let block = prop_oneof![Just(1_u32), Just(32), Just(48)];
    (memories, placement, 1..5_u32, 1..9_u32, 0..200_u32, 0..4_u64, 1..100_u32, block).prop_map(
        |(ports, placement, buffers, blocks, overhead, launch_micros, elements_per_cycle, block)| {
            let mut spec = DeviceSpec::builtin("metis").expect("builtin");
            for (memory, (bytes, cycles, latency)) in spec.memory.iter_mut().zip(ports) {
                memory.bytes_per_cycle = Some([bytes, cycles]);
                memory.bytes_per_second = None;
                memory.latency_cycles = latency;
            }
            (spec.border.channels, spec.border.image_channels) = (block, 0);
            (spec.queues.buffers, spec.queues.blocks) = (buffers, blocks);
            (spec.launch.program_ns, spec.launch.command_cycles) = (launch_micros * 1000, overhead);
            if let Some(vector) = &mut spec.vector {
                vector.elements_per_cycle = elements_per_cycle;
                vector.products_per_cycle = None;
            }
            let core = Core {
                ports: ports.map(|(bytes, cycles, latency)| {
                    ([u64::from(bytes), u64::from(cycles)], u64::from(latency))
                }),
                buffers: buffers as usize,
                blocks: u64::from(blocks),
                smallest: 4096,
                launch: launch_micros * 800,
                overhead: u64::from(overhead),
            };
            Case { spec, core, placement, elements_per_cycle, block }
        },
    )
}

fn task(case: &Case, step: &Step) -> Task {
    let mut task = Task { writes: step.write.0, ..Task::default() };
    let memory = |segment: u8| case.placement[usize::from(segment)];
    let filled = |count: u64| if step.maps { count.next_multiple_of(case.block.into()) } else { count };
    for &(segment, bytes) in &step.segments {
        task.inputs[memory(segment)] += filled(bytes);
        task.reads.push(segment);
    }
    if let Some((segment, bytes)) = step.constant {
        task.constants[memory(segment)] += bytes;
    }
    task.outputs[memory(step.write.0)] += filled(step.write.1);
    let per_cycle = u64::from(case.elements_per_cycle);
    while task.compute * per_cycle < filled(step.elements) {
        task.compute += 1;
    }
    task
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn equal_to_the_stepped_simulator(case in case(), steps in proptest::collection::vec(step(), 1..7)) {
        let tasks: Vec<Task> = steps.iter().map(|step| task(&case, step)).collect();
        let (costs, total) = simulate(&case.core, &tasks);
        let commands: Vec<Command> = steps.iter().map(|step| step.command).collect();
        let placement = case.placement.map(|memory| ["ddr", "l2", "l1"][memory]);
        let timeline = timeline(&case.spec, &commands, &placement, &TimingOptions::default()).expect("timed");
        for ((command, cost), task) in timeline.commands.iter().zip(&costs).zip(&tasks) {
            let own = Cost {
                start: command.start,
                end: command.end,
                stall: command.stall,
                load_stall: command.load_stall,
            };
            prop_assert_eq!(own, *cost, "command {}", command.index);
            prop_assert_eq!(command.compute, task.compute);
            for memory in 0..MEMORIES {
                prop_assert_eq!(command.bytes_read[memory], task.constants[memory] + task.inputs[memory]);
                prop_assert_eq!(command.bytes_written[memory], task.outputs[memory]);
            }
        }
        prop_assert_eq!(timeline.total_cycles, total);
    }
}
