//! Images on several cores: pipelines are cut best, splits compute the same, more cores are never slower.

use std::sync::Arc;

use crate::{cascades, quantize};
use triune_compiler::parts::parts;
use triune_device::{
    Command, DeviceSpec,
    command::{decode, encode},
    timing::{Timeline, TimingOptions},
};
use triune_graph::format::onnx;
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, Estimate, Program, compile,
    cores::{Axis, Kind, Mode, Shared},
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor, test_data};

fn device(name: &str, cores: u32) -> DeviceSpec {
    DeviceSpec { cores, ..DeviceSpec::builtin(name).expect("a built-in device") }
}

fn topology(name: &str, spec: &DeviceSpec) -> Option<Arc<Program>> {
    let path = test_data(&format!("refdata/topologies/{name}.onnx"))?;
    let graph = quantize::quantized(onnx::read(&path).expect("a model")).expect("quantized");
    Some(Arc::new(compile(&graph, spec, &CompileOptions::default()).expect("compiled").program))
}

fn shared(spec: &DeviceSpec, program: &Arc<Program>, mode: Mode, cores: u32) -> Shared {
    Shared::new(spec.clone(), program, mode, cores, None).expect("an answer")
}

fn alone(spec: &DeviceSpec, program: &Arc<Program>) -> Timeline {
    Estimate::new(program).expect("commands").timeline(spec, &TimingOptions::default()).expect("a timeline").0
}

/// A program's first output.
fn run(spec: &DeviceSpec, program: &Program, input: &[u8]) -> Vec<u8> {
    let device = Device::new(spec.clone()).expect("a device");
    let options = DeployOptions::default();
    let mut deployed = Deployment::new(&device, &Arc::new(program.clone()), &options).expect("deployed");
    let mut output = vec![0; program.outputs[0].bytes()];
    deployed.run(&[input], &mut [&mut output]).expect("a run");
    output
}

/// What a pipeline's stages take, cut in every way, the slowest of each.
fn slowest(commands: &[u64], launch: u64, stages: usize) -> u64 {
    let own = |commands: &[u64]| launch + commands.iter().sum::<u64>();
    if stages == 1 {
        return own(commands);
    }
    let cuts = 1..=commands.len() + 1 - stages;
    let each = cuts.map(|cut| own(&commands[..cut]).max(slowest(&commands[cut..], launch, stages - 1)));
    each.min().expect("a cut")
}

#[test]
fn more_cores_are_never_slower() {
    for name in DeviceSpec::BUILTIN.iter().copied().filter(|&name| name != "host") {
        let spec = device(name, 8);
        for network in ["mobilenet_v2_224x224", "resnet18_224x224"] {
            let Some(program) = topology(network, &spec) else { return };
            let one = alone(&spec, &program).total_cycles;
            for mode in [Mode::Pipelined, Mode::Split] {
                let mut before = one;
                for cores in [1, 2, 3, 8] {
                    let found = shared(&spec, &program, mode, cores);
                    let what = format!("{network} {} on {cores} cores of {name}", mode.name());
                    assert!(found.interval <= before, "{what}: {} after {before}", found.interval);
                    assert_eq!(found.alone, one, "{what}");
                    let macs = |program: &Program, commands: &[Command]| {
                        let program = Program { instructions: encode(commands).into(), ..program.clone() };
                        alone(&spec, &Arc::new(program)).macs()
                    };
                    assert_eq!(
                        macs(&found.program, &found.commands),
                        alone(&spec, &program).macs(),
                        "{what}"
                    );
                    before = found.interval;
                }
                assert!(before < one, "{network} {} on {name}", mode.name());
            }
        }
    }
}

#[test]
fn a_pipeline_is_cut_where_its_slowest_stage_is_fastest() {
    let spec = device("metis", 4);
    let mut random = Random(5);
    let mut cut = 0;
    for _ in 0..20 {
        let program = Arc::new(cascades::compiled(&cascades::network(&mut random), &spec, 0, false));
        let found = shared(&spec, &program, Mode::Pipelined, 4);
        let commands: Vec<u64> = found
            .tasks
            .iter()
            .filter(|task| task.kind == Kind::Command)
            .map(|task| task.span.end - task.span.start)
            .collect();
        let launch = found.tasks[0].span.end;
        assert_eq!(found.interval, slowest(&commands, launch, found.cores as usize));
        assert_eq!(found.latency, u64::from(found.cores) * launch + commands.iter().sum::<u64>());
        assert_eq!(found.exchanges.len() as u32, found.cores - 1);
        // L1 keeps none of what is handed on.
        assert!(found.exchanges.iter().all(|each| each.shared > 0 && each.copied == 0));
        cut += usize::from(found.cores > 1);
    }
    assert!(cut > 10);
}

/// Parts as they were chosen, one after the other on one core, have the bits of the whole.
#[test]
fn a_split_computes_the_same() {
    let mut spec = device("metis", 4);
    spec.name = "metis-fine".into();
    (spec.launch.command_cycles, spec.launch.table_cycles, spec.border.channels) = (0, 0, 16);
    let mut random = Random(11);
    let (mut axes, mut again) = (Vec::new(), [0_u64; 2]);
    for _ in 0..30 {
        let program = Arc::new(cascades::compiled(&cascades::network(&mut random), &spec, 0, false));
        let found = shared(&spec, &program, Mode::Split, 4);
        axes.extend(found.tasks.iter().filter_map(|task| task.part.map(|(axis, ..)| axis)));
        let parts =
            Program { instructions: encode(&found.commands).into(), ..Program::clone(&found.program) };
        let input = random.bytes(program.inputs[0].bytes());
        assert!(run(&spec, &program, &input) == run(&spec, &parts, &input));
        for each in &found.exchanges {
            again = [again[0] + each.maps_again, again[1] + each.weights_again];
        }
    }
    assert!(again.iter().all(|&bytes| bytes > 0), "halos and weights that several parts read");
    assert!(Axis::ALL.iter().all(|axis| axes.contains(axis)), "both axes are of use");
}

/// A factor and an addend for each channel go with it, groups with their inputs.
#[test]
fn parts_by_channels_have_factors_of_their_own() {
    let mut spec = device("metis", 4);
    (spec.name, spec.border.channels) = ("metis-fine".into(), 32);
    let params = QuantParams { scale: 0.02, zero_point: 3 };
    let mut random = Random(17);
    for groups in [1, 8, 96] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[1, 96, 9, 7]);
        let x = builder.quantize_dequantize(x, params, DType::I8);
        let weights: Vec<i8> = (0..96 * 96 / groups * 9).map(|_| random.next() as i8).collect();
        let weights = Tensor::i8(&[96, 96 / groups, 3, 3], &weights);
        let scales: Vec<f32> = (0..96).map(|_| random.unit().abs() * 0.01 + 0.001).collect();
        let weights = builder.dequantized_constant(&weights, &scales, 0);
        let window = random.window([9, 7], [3, 3]);
        let y = builder.conv_window(&[x, weights], window, groups);
        let y = builder.quantize_dequantize(y, params, DType::I8);
        let program = cascades::compiled(&builder.finish(&[y]), &spec, 0, false);
        let input = random.bytes(program.inputs[0].bytes());
        let whole = decode(&program.instructions).expect("commands");
        let expected = run(&spec, &program, &input);
        for count in [2, 3] {
            let mut cut = 0;
            let commands: Vec<Command> = whole
                .iter()
                .flat_map(|command| match parts(&spec, command, Axis::Channels, count) {
                    Some(parts) => {
                        cut += parts.len();
                        parts
                    }
                    None => vec![*command],
                })
                .collect();
            assert_eq!(cut, count as usize, "{groups} groups");
            let program = Program { instructions: encode(&commands).into(), ..program.clone() };
            assert!(run(&spec, &program, &input) == expected, "{groups} groups in {count} parts");
        }
    }
}

/// Maps in memories that each core has are copied to the next stage's, and cost what copies do.
#[test]
fn what_lies_in_a_cores_own_memory_is_copied() {
    let mut spec = device("zg330", 2);
    let common = topology("resnet18_224x224", &spec);
    let Some(program) = common else { return };
    let found = shared(&spec, &program, Mode::Pipelined, 2);
    assert!(found.exchanges[0].shared > 0 && found.exchanges[0].copied == 0);
    for memory in spec.memory.iter_mut().filter(|memory| memory.name == "ocm") {
        memory.per_core = true;
    }
    let program = topology("resnet18_224x224", &spec).expect("the same file");
    let found = shared(&spec, &program, Mode::Pipelined, 2);
    assert_eq!(found.cores, 2);
    let copied = found.exchanges[0].copied;
    let moved = |kind| found.tasks.iter().filter(move |task| task.kind == kind);
    assert_eq!(moved(Kind::Send).map(|task| task.written[0]).sum::<u64>(), copied);
    assert_eq!(moved(Kind::Receive).map(|task| task.read[0]).sum::<u64>(), copied);
    let rate = spec.memory[0].bytes_per_cycle_at(found.clock_mhz);
    assert!(
        moved(Kind::Send)
            .all(|task| (task.span.end - task.span.start) as f64 >= task.written[0] as f64 / rate)
    );
    // A split image has no maps there.
    let split = shared(&spec, &program, Mode::Split, 2);
    assert!(split.cores == 1 || split.program.resident_bytes() == 0);
}

/// Weights that no core's memory holds as a whole are near where each core has those of its own stage.
#[test]
fn stages_keep_their_own_constants_near() {
    let mut spec = device("metis", 4);
    for memory in spec.memory.iter_mut().filter(|memory| memory.name == "l2") {
        (memory.per_core, memory.bytes) = (true, memory.bytes / 4);
    }
    let Some(program) = topology("resnet18_224x224", &spec) else { return };
    let one = alone(&spec, &program);
    assert!(one.commands.iter().map(|time| time.bytes_read[0]).sum::<u64>() > 8 << 20, "its weights stream");
    let found = shared(&spec, &program, Mode::Pipelined, 4);
    let read: u64 =
        found.tasks.iter().filter(|task| task.kind == Kind::Command).map(|task| task.read[0]).sum();
    assert!(read < 4 << 20, "{read}");
    assert!(2 * found.interval < one.total_cycles, "{} {}", found.interval, one.total_cycles);
}

#[test]
fn more_cores_than_there_are_are_refused() {
    let spec = device("metis", 4);
    let mut random = Random(3);
    let program = Arc::new(cascades::compiled(&cascades::network(&mut random), &spec, 0, false));
    for cores in [0, 5] {
        let error = Shared::new(spec.clone(), &program, Mode::Split, cores, None).expect_err("too many");
        assert!(error.to_string().contains("expected 1 to the 4 of 'metis'"), "{error}");
    }
}

/// What docs/timing-model.md says of networks on four cores.
#[test]
fn published_networks_are_as_documented() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/timing-model.md"))
        .expect("the page");
    let spec = device("metis", 4);
    for (name, file) in [
        ("ResNet-18", "resnet18_224x224"),
        ("ResNet-50", "resnet50_224x224"),
        ("Wide ResNet-50", "wide_resnet50_224x224"),
        ("MobileNetV2", "mobilenet_v2_224x224"),
        ("EfficientNet-B0", "efficientnet_b0_224x224"),
        ("YOLOv5s", "yolov5s_640x640"),
        ("YOLOv8s", "yolov8s_640x640"),
    ] {
        let Some(program) = topology(file, &spec) else { return };
        let [pipelined, split] = [Mode::Pipelined, Mode::Split].map(|mode| shared(&spec, &program, mode, 4));
        let millis = |cycles: u64| cycles as f64 / f64::from(pipelined.clock_mhz) / 1000.0;
        let row = format!(
            "| {name} | {:.2} ms | {:.0} images/s | {:.0} images/s | {:.2} ms on {} cores | {:.2} ms on {} cores |",
            millis(pipelined.alone),
            4000.0 / millis(pipelined.abreast),
            1000.0 / millis(pipelined.interval),
            millis(pipelined.latency),
            pipelined.cores,
            millis(split.latency),
            split.cores,
        );
        assert!(page.contains(&row), "{row}");
    }
}
