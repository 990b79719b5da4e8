//! The timeline: closed forms, limits, monotonicity.

use proptest::prelude::*;
use triune_device::{
    Addr, Command, CommandTime, DeviceSpec, Error, FeatureMap, Timeline,
    command::{Copy, End, Opcode, Operand, QConv, QMul, RequantTarget, Window},
    spec::{LaunchSpec, Precision, VectorSpec},
    timeline,
    timing::{BoundBy, TimingOptions},
};
use triune_tensor::DType;
use triune_tensor::Rounding;

const PLACEMENT: [&str; 4] = ["ddr", "l2", "l1", "ddr"];

/// The shape of a Metis with round figures: the tests are about the model, not about what was fitted.
fn metis() -> DeviceSpec {
    let mut spec = DeviceSpec::builtin("metis").expect("builtin");
    let array = spec.array.as_mut().expect("an array");
    (array.partial_sums_per_cycle, array.weight_bytes_per_cycle, array.replication) = (None, None, 1);
    spec.vector = Some(VectorSpec { elements_per_cycle: 64, taps_per_cycle: 576, products_per_cycle: None });
    spec.memory[1].bytes_per_cycle = Some([45, 1]);
    spec.launch = LaunchSpec { program_ns: 36_000, command_cycles: 400, command_cycles_16: None };
    spec
}

/// A metis without fixed costs and latencies.
fn bare() -> DeviceSpec {
    let mut spec = metis();
    spec.launch.program_ns = 0;
    spec.launch.command_cycles = 0;
    for memory in &mut spec.memory {
        memory.latency_cycles = 0;
    }
    spec
}

fn map(segment: u8, [h, w, c]: [u32; 3]) -> FeatureMap {
    FeatureMap::dense(Addr::new(segment, 0), DType::I8, [1, h, w, c])
}

fn conv(from: u8, to: u8, size: u32, kernel: u32, channels: [u32; 2], groups: u32) -> Command {
    QConv {
        input: map(from, [size, size, channels[0]]),
        output: map(to, [size, size, channels[1]]),
        window: Window {
            kernel: [kernel; 2],
            stride: [1; 2],
            dilation: [1; 2],
            pad: [kernel / 2; 4],
            groups,
        },
        weights: Addr::new(1, 0),
        weight_blocks: [0, 0],
        bias: Some(Addr::new(1, 0)),
        multiplier: Addr::new(1, 0),
        multipliers: 1,
        input_zero_point: 0,
        result: RequantTarget { dtype: DType::I8, zero_point: 0 },
        rounding: Rounding::HalfToEven,
        clamp: [-128, 127],
        table: None,
        residual: None,
        add: None,
        conv_is_a: false,
    }
    .into()
}

fn copy(from: u8, to: u8, bytes: u32) -> Command {
    let strides = [0, 0, 0, 0, 0, 1];
    Copy {
        elem_bytes: 1,
        dims: [1, 1, 1, 1, 1, bytes],
        src: Addr::new(from, 0),
        src_strides: strides,
        dst: Addr::new(to, 0),
        dst_strides: strides,
    }
    .into()
}

fn at_clock(clock_mhz: u32) -> TimingOptions {
    TimingOptions { clock_mhz: Some(clock_mhz), ..TimingOptions::default() }
}

fn time(spec: &DeviceSpec, commands: &[Command]) -> Timeline {
    timeline(spec, commands, &PLACEMENT, &TimingOptions::default()).expect("timed")
}

/// All memories at `factor` times metis' bandwidth of [`bare`].
fn scaled(spec: &DeviceSpec, factor: u32) -> DeviceSpec {
    let mut spec = spec.clone();
    for memory in &mut spec.memory {
        memory.bytes_per_cycle = memory.bytes_per_cycle.map(|[bytes, cycles]| [bytes * factor, cycles]);
        memory.bytes_per_second = memory.bytes_per_second.map(|bytes| bytes * u64::from(factor));
    }
    spec
}

#[test]
fn one_convolution_by_hand() {
    // 14·14 pixels, K = 9·256 = 2304 → 5 tiles, N = 256 → 1 tile: 5·196·8 cycles.
    let commands = [conv(3, 3, 14, 3, [256, 256], 1), End {}.into()];
    let timeline = time(&metis(), &commands);
    let [command] = timeline.commands[..] else { panic!("end has no entry") };
    assert_eq!(command.opcode, Opcode::QConv);
    assert_eq!(command.compute, 5 * 196 * 8);
    assert_eq!(command.macs, 196 * 2304 * 256);
    assert_eq!(timeline.memories, ["ddr", "l2", "l1"]);
    assert_eq!(command.bytes_read[..3], [196 * 256, 2304 * 256 + 4 * 256 + 4, 0]);
    assert_eq!(command.bytes_written[..3], [196 * 256, 0, 0]);
    assert_eq!(timeline.launch_cycles, 28_800);
    // Weights at 45 bytes per cycle take longer than the array.
    let weights = (2304 * 256 + 1028_u64).div_ceil(45);
    assert!(timeline.total_cycles >= timeline.launch_cycles + weights);
    assert_eq!(timeline.total_cycles, command.end);
    assert_eq!(timeline.nanos(8), 10);
    assert!((timeline.micros() - timeline.total_cycles as f64 / 800.0).abs() < 0.01);
}

#[test]
fn depthwise_windows_run_on_the_vector_unit() {
    let timeline = time(&bare(), &[conv(3, 3, 32, 3, [64, 64], 64)]);
    assert_eq!(timeline.commands[0].compute, (32 * 32 * 64 * 9_u64).div_ceil(576));
}

#[test]
fn a_slower_clock_changes_the_ratio_to_ddr() {
    let commands = [copy(0, 3, 1 << 20)];
    let at = |clock| timeline(&bare(), commands, &PLACEMENT, &at_clock(clock)).expect("timed");
    let (slow, fast) = (at(200), at(800));
    // DDR has a clock of its own: the same nanoseconds, a quarter of the cycles.
    assert!(slow.nanos(slow.total_cycles).abs_diff(fast.nanos(fast.total_cycles)) < 100);
    assert!(fast.total_cycles.abs_diff(4 * slow.total_cycles) < 32);
    assert!(matches!(timeline(&bare(), commands, &PLACEMENT, &at_clock(1)), Err(Error::Timing(_))));
}

#[test]
fn the_host_has_no_time_but_counts_bytes() {
    let host = DeviceSpec::builtin("host").expect("builtin");
    let timeline = timeline(&host, [conv(2, 3, 8, 3, [8, 8], 1)], &["ram"; 4], &TimingOptions::default())
        .expect("timed");
    assert_eq!((timeline.total_cycles, timeline.clock_mhz, timeline.micros()), (0, 0, 0.0));
    assert_eq!(timeline.commands[0].bytes_written[0], 512);
    assert_eq!(timeline.macs(), 64 * 72 * 8);
}

#[test]
fn errors_name_what_is_missing() {
    let commands = [conv(3, 3, 8, 3, [8, 8], 1)];
    let error = timeline(&metis(), commands, &["ddr", "l2"], &TimingOptions::default())
        .expect_err("no memory for segment 3");
    assert!(error.to_string().contains("command 0") && error.to_string().contains("segment 3"), "{error}");
    assert!(matches!(
        timeline(&metis(), commands, &["l9"; 4], &TimingOptions::default()),
        Err(Error::UnknownMemory { .. })
    ));
}

#[test]
fn two_buffers_hide_loads_that_one_cannot() {
    let commands: Vec<_> = (0..6).map(|_| conv(2, 2, 16, 3, [128, 128], 1)).collect();
    let mut single = bare();
    single.queues.buffers = 1;
    let (single, double) = (time(&single, &commands), time(&bare(), &commands));
    assert!(double.total_cycles < single.total_cycles, "{} {}", double.total_cycles, single.total_cycles);
}

#[test]
fn a_read_waits_for_the_store_before_it() {
    let mut spec = bare();
    spec.queues.blocks = 1;
    spec.memory[2].latency_cycles = 100;
    let bytes = 1 << 16;
    let commands = [copy(3, 2, bytes), copy(2, 3, bytes)];
    let (ddr, l1) = ((u64::from(bytes) * 800).div_ceil(34_100), u64::from(bytes) / 128 + 100);
    // In from DDR, out to L1; only then in from L1 and out to DDR.
    let timeline = time(&spec, &commands);
    assert_eq!(timeline.total_cycles, 2 * ddr + 2 * l1);
    assert_eq!([timeline.commands[0].end, timeline.commands[1].start], [ddr + l1; 2]);
    assert_eq!(timeline.commands[1].stall, 2 * l1, "the wait for the store and the load behind it");
    // Independent of each other, the second one's load does not wait for the first one's store.
    let commands = [copy(3, 2, bytes), copy(3, 2, bytes)];
    assert_eq!(time(&spec, &commands).total_cycles, 2 * ddr + l1);
}

#[test]
fn loads_run_ahead_as_far_as_there_are_buffers() {
    let mut spec = bare();
    spec.queues.blocks = 1;
    // Results are never read again; computing takes far longer than loading.
    let commands: Vec<_> = (0..5).map(|_| conv(3, 2, 32, 3, [8, 8], 1)).collect();
    for buffers in [1, 2] {
        spec.queues.buffers = buffers;
        let timeline = time(&spec, &commands);
        for (index, command) in timeline.commands.iter().enumerate() {
            let loaded_during = command.start / command.compute;
            let expected = (index + 1).saturating_sub(buffers as usize);
            assert_eq!(loaded_during, expected as u64, "command {index}, {buffers} buffers");
        }
    }
}

#[test]
fn cores_beyond_the_ports_share_them() {
    let commands = [copy(0, 1, 1 << 20)];
    let at = |active_cores| {
        let options = TimingOptions { active_cores, ..TimingOptions::default() };
        timeline(&bare(), commands, &["ddr", "ddr", "l1"], &options)
    };
    // Read from and written to DDR, which has one port: half of it each is half as fast.
    let [one, two, four] = [1, 2, 4].map(|cores| at(cores).expect("timed").total_cycles);
    assert!(two.abs_diff(2 * one) < 32 && four.abs_diff(4 * one) < 32, "{one} {two} {four}");
    assert!(matches!(at(5), Err(Error::Timing(_))) && matches!(at(0), Err(Error::Timing(_))));
    // L2 has four ports and every core its own L1.
    let commands = [copy(1, 2, 1 << 20)];
    let at = |active_cores| {
        let options = TimingOptions { active_cores, ..TimingOptions::default() };
        timeline(&bare(), commands, &["ddr", "l2", "l1"], &options).expect("timed").total_cycles
    };
    assert_eq!(at(1), at(4));
}

#[test]
fn wider_integers_move_twice_the_bytes() {
    let buyi = DeviceSpec::builtin("buyi").expect("builtin");
    let commands = [conv(3, 2, 16, 3, [64, 64], 1), End {}.into()];
    let at = |spec: &DeviceSpec, precision| {
        let options = TimingOptions { precision, ..TimingOptions::default() };
        timeline(spec, commands, &["ddr", "ddr", "ocm", "ddr"], &options)
    };
    let narrow = at(&buyi, Precision::Int8).expect("timed").commands[0];
    let wide = at(&buyi, Precision::Int16).expect("timed").commands[0];
    // 16 x 16 pixels on four rows of units, two tiles of outputs on four columns, 36 of inputs; biases and multipliers
    // stay as they are.
    assert_eq!([narrow.compute, wide.compute], [64 * 36, 4 * 64 * 36]);
    let parameters = 4 * 64 + 4;
    assert_eq!(narrow.bytes_read[0], 16 * 16 * 64 + 9 * 64 * 64 + parameters);
    assert_eq!(wide.bytes_read[0] - parameters, 2 * (narrow.bytes_read[0] - parameters));
    assert_eq!([narrow.bytes_written[1], wide.bytes_written[1]], [16 * 16 * 64, 2 * 16 * 16 * 64]);
    assert_eq!([narrow.macs, wide.macs], [16 * 16 * 64 * 576; 2]);
    assert!(matches!(at(&metis(), Precision::Int16), Err(Error::UnknownMemory { .. } | Error::Timing(_))));
}

#[test]
fn a_smaller_array_takes_longer() {
    let commands = [conv(2, 2, 32, 3, [64, 128], 1)];
    let compute = |name: &str| {
        let spec = DeviceSpec::builtin(name).expect("builtin");
        let options = TimingOptions::default();
        timeline(&spec, commands, &["ddr", "ddr", "ocm"], &options).expect("timed").commands[0].compute
    };
    assert_eq!(compute("buyi-2x2"), 4 * compute("buyi"));
    assert_eq!(compute("buyi-1x1"), 16 * compute("buyi"));
}

#[test]
fn commands_are_bound_by_what_takes_longest() {
    let bound = |change: fn(&mut DeviceSpec), commands: &[Command]| {
        let mut spec = bare();
        change(&mut spec);
        time(&spec, commands).commands[0].bound_by()
    };
    let heavy = [conv(2, 2, 32, 3, [512, 512], 1)];
    assert_eq!(bound(|_| {}, &heavy), BoundBy::Compute);
    assert_eq!(bound(|spec| spec.launch.command_cycles = 1 << 30, &heavy), BoundBy::Launch);
    assert_eq!(bound(|spec| spec.memory[1].bytes_per_cycle = Some([1, 10]), &heavy), BoundBy::Load);
    // Constants by a fast port, results by a slow one that nothing is read from; several blocks, so that they wait.
    let results = [conv(2, 3, 32, 1, [64, 512], 1)];
    let slow = |spec: &mut DeviceSpec| {
        spec.memory[0].bytes_per_second = Some(100_000_000);
        spec.queues.blocks = 16;
    };
    assert_eq!(bound(slow, &results), BoundBy::Store);
}

/// Of equal parts the first of the enumeration counts, and nothing is bound by computing.
#[test]
fn ties_go_to_what_comes_first() {
    fn parts(mut time: CommandTime, [compute, load, store, launch]: [u64; 4]) -> CommandTime {
        (time.compute, time.launch) = (compute, launch);
        (time.load_stall, time.stall) = (load, load + store);
        time
    }
    let one = time(&bare(), &[conv(2, 2, 32, 3, [512, 512], 1)]).commands[0];
    assert_eq!(BoundBy::of(&[]), BoundBy::Compute);
    for (times, expected) in [
        ([5, 5, 5, 5], BoundBy::Compute),
        ([4, 5, 5, 5], BoundBy::Load),
        ([4, 4, 5, 5], BoundBy::Store),
        ([4, 4, 4, 5], BoundBy::Launch),
    ] {
        assert_eq!(BoundBy::of(&[parts(one, times)]), expected);
    }
    // Those of several commands are added up first.
    let [launched, computed] = [[3, 0, 0, 4], [3, 0, 0, 0]].map(|times| parts(one, times));
    assert_eq!(BoundBy::of(&[launched, launched]), BoundBy::Launch);
    assert_eq!(BoundBy::of(&[launched, launched, computed]), BoundBy::Compute);
}

/// A chain over scratch, now and then from the input or to the output.
fn programs() -> impl Strategy<Value = Vec<Command>> {
    let segment = || prop_oneof![4 => Just(2_u8), 1 => Just(3_u8)];
    let command = (0..3, segment(), segment(), 1..40_u32, 1..4_u32, 1..300_u32, 1..300_u32).prop_map(
        |(kind, from, to, size, kernel, c, o)| match kind {
            0 => copy(from, to, size * size * c),
            1 => conv(from, to, size, 2 * kernel - 1, [c, c], c),
            _ => conv(from, to, size, 2 * kernel - 1, [c, o], 1),
        },
    );
    proptest::collection::vec(command, 1..12)
}

proptest! {
    #[test]
    fn more_bandwidth_is_never_slower(commands in programs(), buffers in 1..4_u32, blocks in 1..9_u32) {
        let mut spec = metis();
        (spec.queues.buffers, spec.queues.blocks) = (buffers, blocks);
        let times = [1, 2, 3, 8].map(|factor| time(&scaled(&spec, factor), &commands).total_cycles);
        prop_assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    }

    #[test]
    fn unlimited_bandwidth_leaves_the_computation(commands in programs(), buffers in 1..4_u32, blocks in 1..9_u32) {
        let mut spec = bare();
        (spec.queues.buffers, spec.queues.blocks) = (buffers, blocks);
        for memory in &mut spec.memory {
            memory.bytes_per_cycle = None;
            memory.bytes_per_second = Some(u64::MAX);
        }
        let timeline = time(&spec, &commands);
        let compute: u64 = timeline.commands.iter().map(|command| command.compute).sum();
        // A transfer is never shorter than a cycle: one load ahead of each computation and one store behind it.
        let transfers = 3 * u64::from(blocks) * commands.len() as u64;
        prop_assert!((compute..=compute + transfers).contains(&timeline.total_cycles));
    }

    #[test]
    fn time_lies_between_its_bounds(commands in programs(), buffers in 1..4_u32, blocks in 1..9_u32) {
        let mut spec = bare();
        (spec.queues.buffers, spec.queues.blocks) = (buffers, blocks);
        let timeline = time(&spec, &commands);
        let rates = [(34_100_000_000_u128, 800_000_000_u128), (45, 1), (128, 1)];
        let (mut compute, mut serial, mut ports) = (0, 0, [0; 3]);
        for command in &timeline.commands {
            compute += command.compute;
            for (memory, (bytes, cycles)) in rates.into_iter().enumerate() {
                let moved = u128::from(command.bytes_read[memory] + command.bytes_written[memory]);
                ports[memory] += (moved * cycles / bytes) as u64;
                // Each block rounds its constants, inputs and results up by itself.
                serial += (moved * cycles / bytes) as u64 + 3 * u64::from(blocks);
            }
            prop_assert!(command.end >= command.start);
            prop_assert!(command.end <= timeline.total_cycles);
        }
        let least = ports.into_iter().fold(compute, u64::max);
        prop_assert!(least <= timeline.total_cycles, "{least} {}", timeline.total_cycles);
        prop_assert!(timeline.total_cycles <= compute + serial, "{} {}", timeline.total_cycles, compute + serial);
        // Computing and waiting for loads or stores are disjoint in time.
        let busy: u64 = timeline.commands.iter().map(CommandTime::occupied).sum();
        prop_assert!(busy <= timeline.total_cycles);
        // What is left is the launch and the stores behind the last computation.
        let stores: u64 = timeline.commands.iter().map(|command| command.store).sum();
        prop_assert!(timeline.total_cycles - busy <= timeline.launch_cycles + stores);
        for command in &timeline.commands {
            prop_assert!(command.load_stall <= command.stall);
            prop_assert!(command.ideal <= command.compute && command.utilization() <= command.array_utilization());
        }
    }

    #[test]
    fn spans_say_when(commands in programs(), buffers in 1..4_u32, blocks in 1..9_u32) {
        let mut spec = metis();
        (spec.queues.buffers, spec.queues.blocks) = (buffers, blocks);
        let timeline = time(&spec, &commands);
        let mut free = timeline.launch_cycles;
        for command in &timeline.commands {
            let (loading, computing, storing) = (command.loading, command.computing, command.storing);
            // The execute queue is never idle without a name: fixed cost, waiting, computing.
            let fixed = u64::from(spec.launch.command_cycles);
            prop_assert_eq!(computing.end - free, fixed + command.stall + command.compute);
            free = computing.end;
            let moves = command.bytes_read.iter().any(|&bytes| bytes > 0);
            prop_assert_eq!(loading.start < loading.end, moves);
            prop_assert_eq!(command.start, if moves { loading.start.min(computing.start) } else { computing.start });
            prop_assert!(loading.end <= computing.end);
            prop_assert!(computing.start <= storing.start && storing.end <= command.end);
            prop_assert!(command.store <= storing.end - storing.start);
        }
    }

    #[test]
    fn fixed_costs_only_add(commands in programs()) {
        let (with, without) = (time(&metis(), &commands), time(&bare(), &commands));
        let fixed = with.launch_cycles + 400 * commands.len() as u64;
        prop_assert!(with.total_cycles >= without.total_cycles);
        let latencies = 4 * 3 * (160 + 40 + 8) * commands.len() as u64;
        prop_assert!(with.total_cycles <= without.total_cycles + fixed + latencies);
    }
}

#[test]
fn products_and_wide_commands_have_costs_of_their_own() {
    let operand =
        |segment| Operand { addr: Addr::new(segment, 0), dtype: DType::I8, strides: [0, 0, 0, 0, 0, 1] };
    let product = QMul {
        dims: [1, 1, 1, 1, 1, 640],
        a: operand(1),
        b: operand(2),
        output: operand(3),
        zero_points: [0; 3],
        multiplier: 1.0,
        clamp: [-128, 127],
        counted: [0, 0],
        rounding: Rounding::HalfToEven,
    };
    let mut spec = bare();
    spec.launch.command_cycles_16 = Some(777);
    let at = |spec: &DeviceSpec, precision| {
        let options = TimingOptions { precision, ..TimingOptions::default() };
        timeline(spec, [Command::from(product)], &["ddr"; 4], &options).expect("timed").commands[0]
    };
    assert_eq!(at(&spec, Precision::Int8).compute, 10);
    spec.vector.as_mut().expect("a vector unit").products_per_cycle = Some(3);
    assert_eq!(at(&spec, Precision::Int8).compute, 640_u64.div_ceil(3));
    assert_eq!(at(&spec, Precision::Int8).launch, u64::from(spec.launch.command_cycles));
    spec.array.as_mut().expect("an array").cycles_per_vector_16 = Some(2);
    assert_eq!(at(&spec, Precision::Int16).launch, 777);
}

/// What is launched behind other commands happens later by all of their time, and is otherwise as it would be alone.
#[test]
fn parts_follow_one_another() {
    let part = |commands: &[Command]| time(&metis(), commands);
    let (first, second) = ([copy(0, 1, 1 << 12), conv(0, 2, 8, 3, [16, 16], 1)], [copy(1, 2, 1 << 10)]);
    let (before, after) = (part(&first), part(&second));
    let mut both = before.clone();
    both.append(after.clone());
    assert_eq!(both.total_cycles, before.total_cycles + after.total_cycles);
    assert_eq!(both.commands[..2], before.commands);
    let (alone, behind) = (after.commands[0], both.commands[2]);
    assert_eq!(behind.index, 2);
    let delay = before.total_cycles;
    assert_eq!([behind.start, behind.end], [alone.start + delay, alone.end + delay]);
    for (alone, behind) in [
        (alone.loading, behind.loading),
        (alone.computing, behind.computing),
        (alone.storing, behind.storing),
    ] {
        // What takes no time has no place in it.
        let delay = if alone.start < alone.end { delay } else { 0 };
        assert_eq!([behind.start, behind.end], [alone.start + delay, alone.end + delay]);
    }
    assert!(alone.loading.start < alone.loading.end && alone.computing.start == alone.computing.end);
    assert_eq!(behind.bytes_read, alone.bytes_read);
}

/// Ports are busy for as long as their bytes take, each by itself.
#[test]
fn ports_are_busy_for_their_bytes() {
    let spec = bare();
    let rate = |name: &str| spec.memory[spec.memory_index(name).expect("a memory")].bytes_per_cycle_at(800);
    let timeline = time(&spec, &[copy(0, 1, 9 << 10), copy(1, 2, 9 << 10)]);
    for (command, [from, to]) in timeline.commands.iter().zip([["ddr", "l2"], ["l2", "l1"]]) {
        let cycles = |name: &str| f64::from(9 << 10) / rate(name);
        let [load, store] = [command.load, command.store].map(|cycles| cycles as f64);
        // Blocks are rounded up, each by itself.
        assert!((load / cycles(from) - 1.0).abs() < 0.03, "{from}: {load}, not {}", cycles(from));
        assert!((store / cycles(to) - 1.0).abs() < 0.03, "{to}: {store}, not {}", cycles(to));
    }
}

/// Rates whose quotient needs more than 64 bits: their first digits are what counts.
#[test]
fn odd_rates_are_rates() {
    let spec = bare();
    let at = spec.memory_index("ddr").expect("a memory");
    let slow = |rate: u64| {
        let mut spec = spec.clone();
        (spec.memory[at].bytes_per_cycle, spec.memory[at].bytes_per_second) = (None, Some(rate));
        (spec.memory[at].per_core, spec.memory[at].ports, spec.cores) = (false, 3, u32::MAX);
        let options =
            TimingOptions { active_cores: u32::MAX - 4, clock_mhz: Some(799), ..TimingOptions::default() };
        timeline(&spec, [copy(0, 1, 1 << 20)], &["ddr", "l1"], &options).expect("timed").total_cycles
    };
    // A prime rate of some terabytes, of which each core has a billionth.
    let cycles = |rate: u64| f64::from(1 << 20) * f64::from(u32::MAX - 4) / 3.0 * 799e6 / rate as f64;
    for rate in [9_999_999_999_971, 18_446_744_073_709_551_557] {
        let found = slow(rate) as f64;
        assert!((found / cycles(rate) - 1.0).abs() < 0.05, "{rate}: {found}, not {}", cycles(rate));
    }
}
