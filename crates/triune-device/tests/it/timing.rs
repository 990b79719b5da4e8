//! The timeline: closed forms, limits, monotonicity.

use proptest::prelude::*;
use triune_device::{
    Addr, Command, CommandTime, DeviceSpec, Error, FeatureMap, Timeline,
    command::{Copy, End, Opcode, Operand, QConv, QMul, RequantTarget, Window},
    spec::{Groups, LaunchSpec, Precision, VectorSpec},
    timeline,
    timing::{BoundBy, Order, Span, Tiling, TimingOptions, constant_bytes, tiles, timeline_tiled},
};
use triune_tensor::DType;
use triune_tensor::Rounding;

const PLACEMENT: [&str; 4] = ["ddr", "l2", "l1", "ddr"];

/// The shape of a Metis with round figures: the tests are about the model, not about what was fitted.
fn metis() -> DeviceSpec {
    let mut spec = DeviceSpec::builtin("metis").expect("builtin");
    let array = spec.array.as_mut().expect("an array");
    (array.partial_sums_per_cycle, array.weight_bytes_per_cycle, array.replication) = (None, None, 1);
    (array.groups, array.channels) = (Groups::Apart, None);
    spec.vector = Some(VectorSpec { elements_per_cycle: 64, taps_per_cycle: 576, products_per_cycle: None });
    spec.memory[1].bytes_per_cycle = Some([45, 1]);
    spec.launch =
        LaunchSpec { program_ns: 36_000, command_cycles: 400, command_cycles_16: None, table_cycles: 0 };
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

fn map(segment: u16, [h, w, c]: [u32; 3]) -> FeatureMap {
    FeatureMap::dense(Addr::new(segment, 0), DType::I8, [1, h, w, c])
}

fn conv(from: u16, to: u16, size: u32, kernel: u32, channels: [u32; 2], groups: u32) -> Command {
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

fn copy(from: u16, to: u16, bytes: u32) -> Command {
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
fn a_command_begins_when_the_results_before_it_are_stored() {
    let mut spec = equal_blocks(1);
    spec.memory[2].latency_cycles = 100;
    let bytes = 1 << 16;
    let commands = [copy(3, 2, bytes), copy(2, 3, bytes)];
    let (ddr, l1) = ((u64::from(bytes) * 800).div_ceil(34_100), u64::from(bytes) / 128 + 100);
    // In from DDR, out to L1; only then in from L1 and out to DDR.
    let timeline = time(&spec, &commands);
    assert_eq!(timeline.total_cycles, 2 * ddr + 2 * l1);
    assert_eq!([timeline.commands[0].end, timeline.commands[1].start], [ddr + l1; 2]);
    assert_eq!(timeline.commands[1].stall, ddr + l1, "the wait for the load and for the store behind it");
    // What starting a command takes, its loads have, too.
    spec.launch.command_cycles = ddr as u32;
    let timeline = time(&spec, &commands);
    assert_eq!(timeline.total_cycles, 3 * ddr + l1);
    assert_eq!([timeline.commands[0].start, timeline.commands[1].start], [0, ddr + l1]);
    assert_eq!(timeline.commands[0].stall, l1);
}

/// A device whose buffers have no size, which streams a command's work in as many equal blocks at most.
fn equal_blocks(blocks: u32) -> DeviceSpec {
    let mut spec = bare();
    (spec.queues.buffer_bytes, spec.queues.blocks) = (None, blocks);
    spec
}

#[test]
fn without_a_size_of_buffers_each_operand_is_read_once() {
    let commands = [conv(3, 3, 64, 3, [512, 512], 1)];
    let mut before = u64::MAX;
    for blocks in [1, 2, 4, 16, 64] {
        let timeline = time(&equal_blocks(blocks), &commands);
        let [command] = timeline.commands[..] else { panic!("one command") };
        assert_eq!((command.tiling.order, command.reread()), (Order::Even, 0));
        assert!(command.tiling.tiles() <= blocks.into());
        assert!(timeline.total_cycles < before, "{blocks}");
        before = timeline.total_cycles;
    }
}

/// 18.9 MB of weights for 64 pixels pass a megabyte: computing waits for the first tile, then for the port alone.
#[test]
fn weights_stream_through_buffers_of_bytes() {
    let mut spec = DeviceSpec::builtin("zg330").expect("builtin");
    let place = ["ddr", "ddr", "ddr", "ocm", "ddr"];
    let commands = [conv(2, 2, 8, 3, [2048, 1024], 1)];
    let at = |spec: &DeviceSpec| {
        timeline(spec, commands, &place, &TimingOptions::default()).expect("timed").commands[0]
    };
    let all = at(&spec);
    let weights: u64 = 9 * 2048 * 1024;
    assert!(all.buffered <= spec.queues.buffer_bytes.expect("a size") + spec.memory[1].bytes);
    assert_eq!(all.reread(), 0, "all pixels fit");
    let port = (weights + 8 * 8 * 3072) * 10 / 128;
    let begins = |time: &CommandTime| time.computing.start - time.loading.start;
    assert!(begins(&all) < port / 20, "{} of {port}", begins(&all));
    assert!((port..port + port / 20).contains(&(all.end - all.start)), "{} {port}", all.end - all.start);
    // Where not even the pixels fit beside a panel, smaller panels do.
    spec.queues.buffer_bytes = Some(131_072);
    let options = TimingOptions { resident_bytes: spec.memory[1].bytes, ..TimingOptions::default() };
    let least = timeline(&spec, commands, &place, &options).expect("timed").commands[0];
    assert!(least.buffered <= 131_072 && least.tiling.tiles() > all.tiling.tiles(), "{:?}", least.tiling);
    assert!(least.reread() > 0 && least.end > all.end);
}

/// Rows that two bands need are read by both.
#[test]
fn bands_read_their_halo_again() {
    let mut spec = bare();
    spec.queues.buffer_bytes = Some(0);
    let options = TimingOptions { resident_bytes: spec.memory[2].bytes, ..TimingOptions::default() };
    let commands = [conv(3, 3, 32, 5, [64, 64], 1)];
    for bands in [1, 2, 3, 32] {
        let tiling = Tiling { order: Order::Panels, bands, depth: 2, ..Tiling::default() };
        let timed = timeline_tiled(&spec, commands, &PLACEMENT, &options, [tiling]).expect("timed");
        let [command] = timed.commands[..] else { panic!("one command") };
        assert_eq!(command.tiling, tiling);
        // Two rows from either side of every border but where the map ends: 32 bands of a row reach over more than one.
        let rows = if bands == 32 { 32 * 5 - 2 * (2 + 1) - 32 } else { 4 * (u64::from(bands) - 1) };
        assert_eq!(command.bytes_reread[0], rows * 32 * 64, "{bands} bands");
        assert_eq!(command.bytes_read[0], (32 + rows) * 32 * 64);
    }
}

#[test]
fn a_tiling_that_cannot_be_is_replaced() {
    let commands = [conv(3, 3, 8, 3, [64, 64], 1)];
    let usual = time(&bare(), &commands);
    for given in [
        Tiling { bands: 0, ..Tiling::default() },
        Tiling { depth: 0, ..Tiling::default() },
        Tiling { order: Order::Bands, bands: 9, ..Tiling::default() },
        Tiling { order: Order::Panels, panels: 2, ..Tiling::default() },
        Tiling { order: Order::Panels, chunks: 2, ..Tiling::default() },
        Tiling { order: Order::Panels, bands: 2, kept: 3, ..Tiling::default() },
        Tiling { order: Order::Bands, kept: 2, ..Tiling::default() },
        Tiling { panels: u32::MAX, bands: u32::MAX, chunks: u32::MAX, ..Tiling::default() },
    ] {
        let timed = timeline_tiled(&bare(), commands, &PLACEMENT, &TimingOptions::default(), [given]);
        assert_eq!(timed.expect("timed"), usual, "{given:?}");
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
    assert_eq!([narrow.compute, wide.compute], [64 * 36, 2 * 64 * 36]);
    let parameters = 4 * 64 + 4;
    let [narrow_read, wide_read] =
        [narrow, wide].map(|command| command.bytes_read[0] - command.bytes_reread[0]);
    assert_eq!(narrow_read, 16 * 16 * 64 + 9 * 64 * 64 + parameters);
    assert_eq!(wide_read - parameters, 2 * (narrow_read - parameters));
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
        (spec.queues.buffer_bytes, spec.queues.blocks) = (None, 16);
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
    let segment = || prop_oneof![4 => Just(2_u16), 1 => Just(3_u16)];
    let command = (0..3, segment(), segment(), 1..40_u32, 1..4_u32, 1..300_u32, 1..300_u32).prop_map(
        |(kind, from, to, size, kernel, c, o)| match kind {
            0 => copy(from, to, size * size * c),
            1 => conv(from, to, size, 2 * kernel - 1, [c, c], c),
            _ => conv(from, to, size, 2 * kernel - 1, [c, o], 1),
        },
    );
    proptest::collection::vec(command, 1..12)
}

/// Some buffers, or as many equal blocks.
fn sized(spec: &mut DeviceSpec, buffers: u32, blocks: u32) {
    spec.queues.buffers = buffers;
    spec.queues.buffer_bytes = (!blocks.is_multiple_of(3)).then(|| 1 << (13 + blocks));
    spec.queues.blocks = blocks;
    if blocks.is_multiple_of(2) {
        spec.memory[2].bytes = spec.memory[2].reserved;
    }
}

proptest! {
    #[test]
    fn more_bandwidth_is_never_slower(commands in programs(), buffers in 1..4_u32, blocks in 1..9_u32) {
        let mut spec = metis();
        sized(&mut spec, buffers, blocks);
        let times = [1, 2, 3, 8].map(|factor| time(&scaled(&spec, factor), &commands).total_cycles);
        prop_assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    }

    #[test]
    fn unlimited_bandwidth_leaves_the_computation(commands in programs(), buffers in 1..4_u32, blocks in 1..9_u32) {
        let mut spec = bare();
        sized(&mut spec, buffers, blocks);
        for memory in &mut spec.memory {
            memory.bytes_per_cycle = None;
            memory.bytes_per_second = Some(u64::MAX);
        }
        let timeline = time(&spec, &commands);
        let compute: u64 = timeline.commands.iter().map(|command| command.compute).sum();
        // A transfer is never shorter than a cycle: one load ahead of each computation and one store behind it.
        let tiles: u64 = timeline.commands.iter().map(|command| command.tiling.tiles()).sum();
        let transfers = 3 * tiles;
        prop_assert!((compute..=compute + transfers).contains(&timeline.total_cycles));
    }

    #[test]
    fn time_lies_between_its_bounds(commands in programs(), buffers in 1..4_u32, blocks in 1..9_u32) {
        let mut spec = bare();
        sized(&mut spec, buffers, blocks);
        let timeline = time(&spec, &commands);
        let rates = [(34_100_000_000_u128, 800_000_000_u128), (45, 1), (128, 1)];
        let (mut compute, mut serial, mut ports) = (0, 0, [0; 3]);
        for command in &timeline.commands {
            compute += command.compute;
            for (memory, (bytes, cycles)) in rates.into_iter().enumerate() {
                let moved = u128::from(command.bytes_read[memory] + command.bytes_written[memory]);
                ports[memory] += (moved * cycles / bytes) as u64;
                // Each block rounds its constants, inputs and results up by itself.
                serial += (moved * cycles / bytes) as u64 + 3 * command.tiling.tiles();
            }
            prop_assert!(command.end >= command.start);
            prop_assert!(command.end <= timeline.total_cycles);
        }
        let least = ports.into_iter().fold(compute, u64::max);
        prop_assert!(least <= timeline.total_cycles, "{least} {}", timeline.total_cycles);
        prop_assert!(timeline.total_cycles <= compute + serial, "{} {}", timeline.total_cycles, compute + serial);
        // Computing and waiting for loads or stores are disjoint in time.
        let busy: u64 = timeline.commands.iter().map(CommandTime::occupied).sum();
        prop_assert_eq!(timeline.launch_cycles + busy, timeline.total_cycles);
        for command in &timeline.commands {
            prop_assert!(command.load_stall <= command.stall);
            prop_assert!(command.ideal <= command.compute && command.utilization() <= command.array_utilization());
        }
    }

    #[test]
    fn spans_say_when(commands in programs(), buffers in 1..4_u32, blocks in 1..9_u32) {
        let mut spec = metis();
        sized(&mut spec, buffers, blocks);
        let timeline = time(&spec, &commands);
        let mut free = timeline.launch_cycles;
        for command in &timeline.commands {
            let (loading, computing, storing) = (command.loading, command.computing, command.storing);
            // No cycle is without a name: fixed cost, waiting, computing.
            let fixed = u64::from(spec.launch.command_cycles);
            prop_assert_eq!(command.end - free, fixed + command.stall + command.compute);
            prop_assert!(free <= command.start && computing.end <= command.end);
            free = command.end;
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
        let tiles: u64 = without.commands.iter().map(|command| command.tiling.tiles()).sum();
        let latencies = 3 * (160 + 40 + 8) * tiles;
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
        // What is not there has no place; what only takes no time has one.
        let delay = if alone == Span::default() { 0 } else { delay };
        assert_eq!([behind.start, behind.end], [alone.start + delay, alone.end + delay]);
    }
    assert!(alone.loading.start < alone.loading.end && alone.computing.start == alone.computing.end);
    assert_eq!(behind.bytes_read, alone.bytes_read);
}

/// Ports are busy for as long as their bytes take, each by itself.
#[test]
fn ports_are_busy_for_their_bytes() {
    let spec = equal_blocks(4);
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

/// A program's time on every device that comes with Triune, its resources changed.
fn on_devices(change: impl Fn(&mut DeviceSpec, u64), commands: &[Command]) -> Vec<(String, Vec<u64>)> {
    let names =
        ["metis", "metis-m2", "buyi", "buyi-2x1", "zg330", "scalesim-ws-16x16", "scalesim-os", "small"];
    let specs = names.map(|name| DeviceSpec::builtin(name).or_else(|_| DeviceSpec::from_toml(SMALL)));
    let timed = |spec: DeviceSpec| {
        let place = &spec.placement;
        let near = place.resident.as_ref().unwrap_or(&place.scratch).clone();
        let memories = [&place.instructions, &place.constants, &place.scratch, &near, &place.io];
        let places = [0, 1, 3, 4].map(|at| &**memories[at]);
        let times = (0..6).map(|step| {
            let mut changed = spec.clone();
            change(&mut changed, step);
            timeline(&changed, commands, &places, &TimingOptions::default()).expect("timed").total_cycles
        });
        (spec.name.clone(), times.collect())
    };
    specs.into_iter().map(|spec| timed(spec.expect("a device"))).collect()
}

const SMALL: &str = include_str!("../../specs/template.toml");

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_device_is_slower_with_more(commands in programs(), memory in 0..3_usize) {
        for (what, times) in [
            ("buffers", on_devices(|spec, step| spec.queues.buffer_bytes = Some(4096 << (3 * step)), &commands)),
            ("near memory", on_devices(|spec, step| {
                spec.queues.buffer_bytes = Some(4096);
                let near = spec.placement.resident.clone();
                for memory in spec.memory.iter_mut().filter(|memory| Some(&memory.name) == near.as_ref()) {
                    (memory.bytes, memory.reserved) = (65_536 << step, 0);
                }
            }, &commands)),
            ("tiles under way", on_devices(|spec, step| spec.queues.buffers = 1 + step as u32, &commands)),
            ("blocks", on_devices(|spec, step| {
                (spec.queues.buffer_bytes, spec.queues.blocks) = (None, [1, 2, 3, 5, 17, 64][step as usize]);
            }, &commands)),
            ("bandwidth", on_devices(|spec, step| {
                let memory = memory.min(spec.memory.len() - 1);
                let memory = &mut spec.memory[memory];
                memory.bytes_per_cycle = memory.bytes_per_cycle.map(|[bytes, cycles]| [bytes * (1 + step as u32), cycles]);
                memory.bytes_per_second = memory.bytes_per_second.map(|bytes| bytes * (1 + step));
            }, &commands)),
            ("smaller bursts", on_devices(|spec, step| {
                for memory in &mut spec.memory {
                    memory.burst_bytes = 4096 >> (2 * step);
                }
            }, &commands)),
            ("longer rows", on_devices(|spec, step| {
                for memory in &mut spec.memory {
                    (memory.burst_bytes, memory.row_bytes, memory.row_ns) = (64, Some(256 << (2 * step)), 45);
                }
            }, &commands)),
            ("rows opened sooner", on_devices(|spec, step| {
                for memory in &mut spec.memory {
                    (memory.row_bytes, memory.row_ns) = (Some(2048), 160 >> step);
                }
            }, &commands)),
            ("less latency", on_devices(|spec, step| {
                for memory in &mut spec.memory {
                    memory.latency_cycles = 160 >> step;
                }
            }, &commands)),
        ] {
            for (device, times) in times {
                prop_assert!(times.is_sorted_by(|a, b| a >= b), "{what} of {device}: {times:?}");
            }
        }
    }
}

/// The first command's time on a device.
fn first(spec: &DeviceSpec, command: &Command) -> CommandTime {
    timeline(spec, [*command], &PLACEMENT, &TimingOptions::default()).expect("timed").commands[0]
}

#[test]
fn dense_groups_are_one_product_with_zeros() {
    let mut spec = metis();
    let (grouped, whole) = (conv(2, 2, 14, 3, [256, 256], 8), conv(2, 2, 14, 3, [256, 256], 1));
    let apart = first(&spec, &grouped);
    assert_eq!(constant_bytes(&spec, [&grouped]), 256 * 32 * 9);
    spec.array.as_mut().expect("an array").groups = Groups::Dense;
    let (dense, plain) = (first(&spec, &grouped), first(&spec, &whole));
    assert_eq!(dense.compute, plain.compute);
    assert_eq!(dense.bytes_read, plain.bytes_read);
    assert_eq!(dense.sram, plain.sram);
    // Products with zeros are no work of the model's.
    assert_eq!(dense.macs, apart.macs);
    assert_eq!(constant_bytes(&spec, [&grouped, &grouped]), 256 * 256 * 9);
    assert!(apart.bytes_read[1] < dense.bytes_read[1]);
    // Depthwise windows are the vector unit's, whatever the groups of products.
    let depthwise = conv(2, 2, 14, 3, [256, 256], 256);
    assert_eq!(constant_bytes(&spec, [&depthwise]), 256 * 9);
    let here = first(&spec, &depthwise);
    spec.array.as_mut().expect("an array").groups = Groups::Apart;
    assert_eq!(here, first(&spec, &depthwise));
}

#[test]
fn inner_products_have_blocks_of_their_own() {
    let mut spec = bare();
    // 9 windows of 80 channels: 1152 of 128, 864 of 96 in blocks of 32.
    let command = conv(2, 2, 8, 3, [80, 64], 1);
    assert_eq!(first(&spec, &command).compute, 64 * 3 * 8);
    spec.array.as_mut().expect("an array").channels = Some(32);
    let narrow = first(&spec, &command);
    assert_eq!(narrow.compute, 64 * 2 * 8);
    // Maps lie in blocks of 64 as before.
    assert_eq!(narrow.bytes_read[2], 8 * 8 * 128);
}

/// Of 2:4 weights half of the products are left and five eighths of the bytes: a byte and two bits for each.
#[test]
fn skipped_weights_take_no_time_and_no_bytes() {
    let mut spec = bare();
    let command = conv(2, 2, 8, 1, [2048, 64], 1);
    let all = first(&spec, &command);
    spec.array.as_mut().expect("an array").sparsity = Some([2, 4]);
    let half = first(&spec, &command);
    assert_eq!((all.compute, half.compute), (64 * 4 * 8, 64 * 2 * 8));
    let weights = 2048 * 64;
    assert_eq!(all.bytes_read[1] - half.bytes_read[1], weights - weights * 5 / 8);
    assert_eq!((half.macs, half.ideal), (all.macs, all.ideal / 2));
    assert_eq!(constant_bytes(&spec, [&command]), weights * 5 / 8);
    assert_eq!(spec.assumptions().len(), 1);
    // Compressed besides, and the products stay what they are.
    spec.array.as_mut().expect("an array").weight_percent = 60;
    let small = first(&spec, &command);
    assert_eq!(small.compute, half.compute);
    assert_eq!(constant_bytes(&spec, [&command]), weights * 5 / 8 * 60 / 100);
    assert_eq!(spec.assumptions().len(), 2);
    // A product of two maps has nothing to skip, and depthwise windows are the vector unit's.
    let depthwise = conv(2, 2, 8, 3, [64, 64], 64);
    assert_eq!(first(&spec, &depthwise), first(&bare(), &depthwise));
}

/// Whole bursts, and rows that are opened, of what one transfer moves.
#[test]
fn bursts_and_rows_take_their_time() {
    let mut spec = bare();
    (spec.memory[2].burst_bytes, spec.memory[2].row_bytes, spec.memory[2].row_ns) = (128, Some(1024), 50);
    let copy = |count: u32| {
        let command = Copy {
            elem_bytes: 1,
            dims: [1, 1, 1, 1, 1, count],
            src: Addr::new(2, 0),
            src_strides: [1; 6],
            dst: Addr::new(1, 0),
            dst_strides: [1; 6],
        };
        first(&spec, &command.into()).load
    };
    // 128 bytes a cycle, 40 cycles of 800 MHz for a row.
    assert_eq!([1, 128, 129, 1024, 1025].map(copy), [41, 41, 42, 48, 8 + 1 + 2 * 40]);
}

#[test]
fn a_table_behind_a_product_costs_its_own_cycles() {
    let mut spec = metis();
    spec.launch.table_cycles = 1000;
    let Command::QConv(plain) = conv(2, 2, 8, 3, [64, 64], 1) else { unreachable!() };
    let with_table = QConv { table: Some(Addr::new(1, 0)), ..plain };
    let (plain, table) = (first(&spec, &plain.into()), first(&spec, &with_table.into()));
    assert_eq!((plain.launch, table.launch), (400, 1400));
    // Loads run beside, so that it may hide some of them.
    assert!((900..=1000).contains(&(table.end - plain.end)), "{} and {}", table.end, plain.end);
}

/// Tiles cover the spans of their command, do not compute two at a time, and compute as long as it.
#[test]
fn tiles_are_what_a_command_is_made_of() {
    let mut spec = metis();
    spec.queues.buffer_bytes = Some(1 << 16);
    // Nothing near: all of it passes the buffers.
    spec.memory[2].bytes = spec.memory[2].reserved;
    let commands = [conv(0, 3, 64, 3, [128, 256], 1), conv(3, 0, 64, 1, [256, 64], 1)];
    let options = TimingOptions { active_cores: 3, ..TimingOptions::default() };
    let found = timeline(&spec, commands, &PLACEMENT, &options).expect("timed");
    let all = tiles(&spec, commands, &PLACEMENT, &found).expect("the same commands");
    assert_eq!(all.len(), 2);
    for (time, tiles) in found.commands.iter().zip(&all) {
        assert_eq!(tiles.len() as u64, time.tiling.tiles());
        assert!(tiles.len() > 4, "{:?}", time.tiling);
        let computed: u64 = tiles.iter().map(|tile| tile.computing.end - tile.computing.start).sum();
        assert_eq!(computed, time.compute);
        assert!(tiles.windows(2).all(|pair| pair[0].computing.end <= pair[1].computing.start));
        for (whole, part) in [
            (time.loading, tiles.iter().map(|tile| tile.loading).collect::<Vec<_>>()),
            (time.computing, tiles.iter().map(|tile| tile.computing).collect()),
            (time.storing, tiles.iter().map(|tile| tile.storing).collect()),
        ] {
            let some = || part.iter().filter(|span| span.start < span.end);
            assert_eq!(some().map(|span| span.start).min(), Some(whole.start));
            assert_eq!(some().map(|span| span.end).max(), Some(whole.end));
        }
    }
    // Not those of other commands.
    let other = [commands[1], commands[0]];
    assert!(tiles(&spec, other, &PLACEMENT, &found).is_err());
}
