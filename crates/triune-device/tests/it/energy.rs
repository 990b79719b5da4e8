//! What commands cost in energy: counts times prices, each told apart by a price of its own.

use triune_device::{
    Addr, Command, DeviceSpec, FeatureMap, Timeline, TimingOptions,
    command::{GlobalPool, QConv, Quant, RequantTarget, Window},
    spec::{EnergySpec, Precision},
    timeline,
};
use triune_tensor::{DType, Requantize, Rounding, function::PoolKind};

const PLACEMENT: [&str; 3] = ["ddr", "l2", "l1"];

/// Memories cost 2, 3 and 5 to read, the second 7 to write.
fn spec() -> DeviceSpec {
    let mut spec = DeviceSpec::builtin("metis").expect("builtin");
    spec.energy =
        Some(EnergySpec { mac_fj: 11, mac_16_fj: None, element_fj: 13, buffer_fj: 17, static_mw: 19 });
    for (memory, read) in spec.memory.iter_mut().zip([2, 3, 5]) {
        (memory.read_fj_per_byte, memory.write_fj_per_byte) = (Some(read), None);
    }
    spec.memory[1].write_fj_per_byte = Some(7);
    spec
}

fn map(segment: u16, dims: [u32; 4]) -> FeatureMap {
    FeatureMap::dense(Addr::new(segment, 0), DType::I8, dims)
}

/// From DDR to L2, with weights in L1.
fn conv() -> Command {
    QConv {
        input: map(0, [1, 8, 8, 64]),
        output: map(1, [1, 8, 8, 128]),
        window: Window { kernel: [1; 2], stride: [1; 2], dilation: [1; 2], pad: [0; 4], groups: 1 },
        weights: Addr::new(2, 0),
        weight_blocks: [0, 0],
        bias: None,
        multiplier: Addr::new(2, 1 << 20),
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

fn run(spec: &DeviceSpec, command: &Command, precision: Precision) -> Timeline {
    let options = TimingOptions { precision, ..TimingOptions::default() };
    timeline(spec, [*command], &PLACEMENT, &options).expect("timed")
}

#[test]
fn counts_times_prices() {
    let spec = spec();
    let found = run(&spec, &conv(), Precision::Int8);
    let energy = spec.energy_of(&found, &found.commands).expect("priced");
    assert_eq!(energy.macs, 11 * 64 * 64 * 128);
    assert_eq!(energy.elements, 13 * 64 * 128);
    // Each of 64 pixels' 64 inputs once, the weights once, each result once.
    assert_eq!(energy.buffers, 17 * (64 * 64 + 64 * 128 + 64 * 128));
    assert_eq!(energy.memories[..3], [2 * 64 * 64, 7 * 64 * 128, 5 * (64 * 128 + 4)]);
    // A milliwatt for a microsecond is a nanojoule: 10⁶ fJ.
    let command = found.commands[0];
    assert_eq!(energy.idle, 19 * command.occupied() * 1_000_000 / 800);
    let parts = energy.macs + energy.elements + energy.buffers + energy.idle;
    assert_eq!(energy.total(), parts + energy.memories.iter().sum::<u64>());
    // The whole run draws from its launch on.
    let all = spec.energy_of_all(&found).expect("priced");
    assert_eq!(all.idle, 19 * found.total_cycles * 1_000_000 / 800);
    assert_eq!(all.total() - all.idle, energy.total() - energy.idle);
}

#[test]
fn windows_of_the_vector_unit_count_as_products() {
    let spec = spec();
    let pool = GlobalPool {
        input: map(0, [1, 8, 8, 64]),
        output: map(1, [1, 1, 1, 64]),
        kind: PoolKind::Average { count_include_pad: false },
        input_quant: Quant { scale: 1.0, zero_point: 0 },
        output_quant: Quant { scale: 1.0, zero_point: 0 },
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    };
    let found = run(&spec, &pool.into(), Precision::Int8);
    let energy = spec.energy_of(&found, &found.commands).expect("priced");
    assert_eq!((energy.macs, energy.elements, energy.buffers), (11 * 8 * 8 * 64, 13 * 64, 0));
}

#[test]
fn sixteen_bits_cost_four_products_unless_told() {
    let mut spec = spec();
    let array = spec.array.as_mut().expect("an array");
    array.cycles_per_vector_16 = Some(16);
    let macs = |spec: &DeviceSpec| {
        let found = run(spec, &conv(), Precision::Int16);
        spec.energy_of(&found, &found.commands).expect("priced").macs
    };
    assert_eq!(macs(&spec), 4 * 11 * 64 * 64 * 128);
    spec.energy.as_mut().expect("priced").mac_16_fj = Some(23);
    assert_eq!(macs(&spec), 23 * 64 * 64 * 128);
}

#[test]
fn no_prices_no_energy() {
    let mut spec = spec();
    spec.energy = None;
    let found = run(&spec, &conv(), Precision::Int8);
    assert_eq!(spec.energy_of(&found, &found.commands), None);
    assert_eq!(spec.energy_of_all(&found), None);
}

/// Sums do not wrap.
#[test]
fn the_largest_prices_saturate() {
    let mut spec = spec();
    let dear = 1_000_000_000;
    spec.energy = Some(EnergySpec {
        mac_fj: dear,
        mac_16_fj: Some(dear),
        element_fj: dear,
        buffer_fj: dear,
        static_mw: 1_000_000,
    });
    let mut found = run(&spec, &conv(), Precision::Int8);
    found.commands[0].macs = u64::MAX;
    found.commands[0].compute = u64::MAX;
    let energy = spec.energy_of_all(&found).expect("priced");
    assert_eq!((energy.macs, energy.total()), (u64::MAX, u64::MAX));
}

#[test]
fn prices_go_together() {
    let text = |text: &str| DeviceSpec::from_toml(text).map(|_| ()).map_err(|error| error.to_string());
    let whole = include_str!("../../specs/metis.toml");
    assert_eq!(text(whole), Ok(()));
    let without = whole.replacen("read_fj_per_byte", "# read_fj_per_byte", 1);
    assert!(text(&without).unwrap_err().contains("memory[0].read_fj_per_byte"), "{:?}", text(&without));
    let (before, _) = whole.split_once("[energy]").expect("prices");
    let error = text(before).unwrap_err();
    assert!(error.contains("memory[0].read_fj_per_byte") && error.contains("[energy]"), "{error}");
}
