//! Timelines of deployed programs: other circumstances, several cores, and what computing one costs.

use crate::published;
use crate::quantize;
use std::{sync::Arc, time::Instant};

use triune_device::{
    DeviceSpec, Timeline, TimingOptions,
    spec::{Kept, Precision},
};
use triune_graph::format::onnx;
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, Estimate, Place, PlanOptions, Policy, Study,
    clock::{self, Arrivals, MemoryUse},
    compile,
    study::{self, Caller},
};

/// A network of the topologies, deployed.
fn deploy(topology: &str, spec: &DeviceSpec, batch: usize) -> Option<Deployment> {
    deploy_by(topology, spec, batch, Policy::default())
}

/// A network of the topologies, deployed with a choice of what stays in the near memory.
fn deploy_by(topology: &str, spec: &DeviceSpec, batch: usize, policy: Policy) -> Option<Deployment> {
    let more = ["", "_more"].map(|more| format!("refdata/topologies{more}/{topology}.onnx"));
    let path = more.iter().find_map(|path| triune_testing::test_data(path))?;
    let graph =
        quantize::quantized(onnx::read(path).expect("a model")).expect("a network that can be quantized");
    let plan = PlanOptions { policy, ..PlanOptions::default() };
    let program = compile(&graph, spec, &CompileOptions { batch, plan, ..CompileOptions::default() })
        .expect("compiled")
        .program;
    let device = Device::new(spec.clone()).expect("a device");
    Some(Deployment::new(&device, &Arc::new(program), &DeployOptions::default()).expect("deployed"))
}

fn retimed(deployment: &Deployment, change: impl FnOnce(&mut TimingOptions)) -> Timeline {
    let mut options = TimingOptions::default();
    change(&mut options);
    deployment.retime(&options).expect("timed")
}

#[test]
fn a_deployment_is_retimed_under_other_circumstances() {
    // A product of many weights, which fit L2 and are most of its traffic.
    let graph = quantize::quantized(quantize::product(2048, 3072, 64)).expect("quantized");
    let spec = DeviceSpec::builtin("metis").expect("builtin");
    let device = Device::new(spec.clone()).expect("a device");
    let deploy = |batch| {
        let program = compile(&graph, &spec, &CompileOptions { batch, ..CompileOptions::default() })
            .expect("compiled")
            .program;
        Deployment::new(&device, &Arc::new(program), &DeployOptions::default()).expect("deployed")
    };
    let deployment = deploy(1);
    let placement: Vec<&str> = deployment.places().iter().map(|place| &*place.memory).collect();
    assert_eq!(placement, ["ddr", "l2", "l2", "l1", "ddr", "ddr"]);
    let usual = deployment.timeline();
    assert_eq!(*usual, retimed(&deployment, |_| {}));
    // Half the clock: as many cycles for what is on the chip, fewer for the rest, but longer.
    let slow = retimed(&deployment, |options| options.clock_mhz = Some(400));
    assert!(slow.total_cycles < usual.total_cycles && slow.micros() > usual.micros());
    assert_eq!(slow.commands[0].compute, usual.commands[0].compute);
    // Four cores share DDR: each takes longer, together they do more. A batch of four runs like that.
    let four = retimed(&deployment, |options| options.active_cores = 4);
    assert!((usual.total_cycles..4 * usual.total_cycles).contains(&four.total_cycles));
    assert!(four.total_cycles > usual.total_cycles);
    assert_eq!(deploy(4).timeline().total_cycles, four.total_cycles);
    assert!(deployment.retime(&TimingOptions { active_cores: 5, ..TimingOptions::default() }).is_err());
    let wide = TimingOptions { precision: Precision::Int16, ..TimingOptions::default() };
    assert!(deployment.retime(&wide).is_err(), "the array has no 16-bit integers");
}

/// Without a deployment the same is said, and what runs ask of the device follows from it.
#[test]
fn an_estimate_equals_the_deployment() {
    for (k, n) in [(64, 64), (2048, 3072), (8192, 8192)] {
        let graph = quantize::quantized(quantize::product(k, n, 64)).expect("quantized");
        for (name, batch) in [("metis", 1), ("metis", 3), ("metis-m2", 2), ("zg330", 1)] {
            let spec = DeviceSpec::builtin(name).expect("builtin");
            let program = compile(&graph, &spec, &CompileOptions { batch, ..CompileOptions::default() })
                .expect("compiled")
                .program;
            let (program, device) = (Arc::new(program), Device::new(spec.clone()).expect("a device"));
            let deployment = Deployment::new(&device, &program, &DeployOptions::default()).expect("deployed");
            let estimate = Estimate::new(&program).expect("decoded");
            let options = TimingOptions::default();
            let (timeline, places) = estimate.timeline(&spec, &options).expect("timed");
            assert_eq!(timeline, *deployment.timeline(), "{name} {batch}");
            let memories =
                |places: &[Place]| places.iter().map(|each| each.memory.clone()).collect::<Vec<_>>();
            assert_eq!(memories(&places), memories(deployment.places()));
            let demand = estimate.demand(&spec, &options, (1 << batch) - 1).expect("timed");
            assert_eq!(Some(&demand), deployment.demand().map(|demand| &**demand));
            assert_eq!(demand.busy(batch as u32), timeline.nanos_up(timeline.total_cycles));
        }
    }
}

/// Limits of the array's time and of the memory for weights, as cards set them.
#[test]
fn limits_take_time() {
    let graph = quantize::quantized(quantize::product(2048, 3072, 64)).expect("quantized");
    let spec = DeviceSpec::builtin("metis").expect("builtin");
    let program = Arc::new(compile(&graph, &spec, &CompileOptions::default()).expect("compiled").program);
    let device = Device::new(spec).expect("a device");
    let deploy = |options| Deployment::new(&device, &program, &options).expect("deployed");
    let usual = deploy(DeployOptions::default());
    let half = deploy(DeployOptions { array_percent: 50, ..DeployOptions::default() });
    let [all, limited] = [&usual, &half].map(|each| each.timeline().commands[0].compute);
    // Vectors take twice as long, weights enter as before: 3072 outputs of 2048 inputs.
    let rate = device.spec().array.and_then(|array| array.weight_bytes_per_cycle).expect("a rate");
    let weights = (2048 * 3072_u64).div_ceil(rate.into());
    assert_eq!(limited, 2 * (all - weights) + weights);
    assert!(half.timeline().total_cycles > usual.timeline().total_cycles);
    // 6.3 MB fit a quarter of L2 but not a tenth.
    let memory = |percent| {
        let deployment =
            deploy(DeployOptions { constants_percent: Some(percent), ..DeployOptions::default() });
        (deployment.places()[1].memory.clone(), deployment.timeline().total_cycles)
    };
    assert_eq!(memory(25), ("l2".to_owned(), usual.timeline().total_cycles));
    let (far, longer) = memory(10);
    assert_eq!(far, "ddr");
    assert!(longer > usual.timeline().total_cycles);
    let refused = DeployOptions { array_percent: 0, ..DeployOptions::default() };
    assert!(Deployment::new(&device, &program, &refused).is_err());
    let refused = DeployOptions { cores: vec![4], ..DeployOptions::default() };
    assert!(Deployment::new(&device, &program, &refused).is_err());
}

/// What the device's clock says about runs that were done.
#[test]
fn runs_are_composed_on_the_devices_clock() {
    let graph = quantize::quantized(quantize::product(64, 64, 8)).expect("quantized");
    let spec = DeviceSpec::builtin("metis").expect("builtin");
    let program = Arc::new(compile(&graph, &spec, &CompileOptions::default()).expect("compiled").program);
    let device = Device::new(spec).expect("a device");
    let input = vec![0; program.inputs[0].bytes()];
    let mut deployments: Vec<Deployment> = (0..4)
        .map(|core| {
            let options = DeployOptions { cores: vec![core], ..DeployOptions::default() };
            Deployment::new(&device, &program, &options).expect("deployed")
        })
        .collect();
    let run = |deployment: &mut Deployment| {
        let mut output = vec![0; deployment.program().outputs[0].bytes()];
        deployment.run(&[&input], &mut [&mut output]).expect("ran");
    };
    run(&mut deployments[0]);
    let demand = Arc::clone(deployments[0].demand().expect("time is modelled"));
    assert_eq!(device.clock().composition().horizon, demand.alone());
    device.clock().clear();
    std::thread::scope(|scope| {
        for deployment in &mut deployments {
            scope.spawn(move || (0..10).for_each(|_| run(deployment)));
        }
    });
    let found = device.clock().composition();
    assert_eq!(found.runs.len(), 40);
    assert_eq!(found.instances.len(), 4);
    assert!((10 * demand.alone()..40 * demand.alone()).contains(&found.horizon), "four threads overlap");
    assert!(found.core_busy.iter().all(|&busy| busy >= 10 * demand.busy(1) && busy <= 10 * demand.busy(4)));
    assert_eq!(found.link_busy, demand.transfers().map(|nanos| 40 * nanos));
}

/// Runs of each of two programs at once.
const RUNS: usize = 8;

/// Two programs at once, one of which reads weights from DDR most of the time and the other next to nothing: the composition that is planned is
/// the one of what ran, and neither takes an even share of what the other does not ask for.
#[test]
fn two_programs_share_what_they_ask_for() {
    let spec = DeviceSpec::builtin("metis").expect("builtin");
    let program = |k, n, m| {
        let graph = quantize::quantized(quantize::product(k, n, m)).expect("quantized");
        Arc::new(compile(&graph, &spec, &CompileOptions::default()).expect("compiled").program)
    };
    // 12.6 MB of weights are more than a core's share of L2, and stream; 4 KiB are next to nothing beside a launch.
    let programs = [program(2048, 6144, 1), program(64, 64, 8)];
    let device = Device::new(spec.clone()).expect("a device");
    let deploy = |(core, program): (u32, &Arc<_>)| {
        let options = DeployOptions { cores: vec![core], ..DeployOptions::default() };
        Deployment::new(&device, program, &options).expect("deployed")
    };
    let mut deployments: Vec<Deployment> = (0..).zip(&programs).map(deploy).collect();
    std::thread::scope(|scope| {
        for deployment in &mut deployments {
            scope.spawn(move || {
                let program = Arc::clone(deployment.program());
                let input = vec![0; program.inputs[0].bytes()];
                let mut output = vec![0; program.outputs[0].bytes()];
                (0..RUNS).for_each(|_| deployment.run(&[&input], &mut [&mut output]).expect("ran"));
            });
        }
    });
    let ran = device.clock().composition();
    // The same calls, planned: each as soon as the one before has ended.
    let studies: Vec<Study> = programs.iter().map(|program| Study::of(program).expect("commands")).collect();
    let cores = [[0], [1]];
    // Whoever calls first has the link first.
    let planned = [[0, 1], [1, 0]].map(|order| {
        let callers = order.map(|at: usize| Caller {
            name: "x".into(),
            study: &studies[at],
            cores: &cores[at],
            arrivals: Arrivals::Closed { depth: 1 },
        });
        study::compose(&callers, ran.horizon, None).expect("composed")
    });
    let runs_of = |found: &clock::Composition, cores: u64| -> Vec<clock::Stamp> {
        let own = |run: &&clock::Stamp| found.instances[run.instance as usize].cores == cores;
        found.runs.iter().filter(own).map(|&run| clock::Stamp { instance: 0, ..run }).collect()
    };
    // Until the first of the two has done all its runs, they are in each other's way just so.
    let both = [1, 2].map(|cores| runs_of(&ran, cores).last().map_or(0, |run| run.end));
    let until = both.into_iter().min().expect("two of them");
    let [seen, planned @ ..] = [&ran, &planned[0], &planned[1]].map(|found| {
        [1, 2].map(|cores| {
            let mut runs = runs_of(found, cores);
            runs.retain(|run| run.end <= until);
            runs
        })
    });
    assert!(seen.iter().all(|runs| runs.len() >= 2), "{seen:?}");
    assert!(planned.contains(&seen), "{seen:#?}, not one of {planned:#?}");
    // The study of each, and its instance, say what its run asks of memories.
    let options = TimingOptions::default();
    for ((program, deployment), core) in programs.iter().zip(&deployments).zip(0..) {
        let estimate = Estimate::new(program).expect("decoded");
        let demand = estimate.demand(&spec, &options, 1 << core).expect("timed");
        assert_eq!(deployment.demand().map(|demand| &**demand), Some(&demand));
    }
    let [streams, works] = [0, 1].map(|at| Arc::clone(deployments[at].demand().expect("timed")));
    let [much, little] = [&streams, &works].map(|demand| demand.memories()[0].used);
    assert!(much > MemoryUse::WHOLE / 2 && little < MemoryUse::WHOLE / 4, "{much} and {little}");
    // So the one that streams is slower by what the other takes, which is far from half.
    let slowest = runs_of(&ran, 1).iter().map(|run| run.compute.end - run.compute.start).max();
    let [slowest, alone, beside_itself] = [slowest.expect("it ran"), streams.busy(1), streams.busy(2)];
    assert!(
        alone < slowest && slowest < alone + (beside_itself - alone) / 2,
        "{alone} {slowest} {beside_itself}"
    );
}

#[test]
fn totals_add_up_over_a_network() {
    // With maps in L1, so that L2 has weights alone.
    let mut spec = DeviceSpec::builtin("metis").expect("builtin");
    (spec.name, spec.placement.kept) = ("metis-with-maps".into(), Kept::Maps);
    // Its weights are more than one core's share of L2, and less than four cores'.
    let Some(deployment) = deploy("resnet18_224x224", &spec, 4) else { return };
    let timeline = deployment.timeline();
    // The stem has one input channel more than the network: images are padded to four.
    let padding = 112 * 112 * 64 * 49;
    assert_eq!(timeline.macs(), 1_814_073_344 + padding);
    let traffic = timeline.traffic();
    let constants = traffic[1][0];
    let held = deployment.program().constants.len() as u64;
    assert!(constants.abs_diff(held) * 100 < held, "every weight is read once: {constants} {held}");
    assert_eq!(traffic[1][1], 0, "weights are never written");
    // 1000 classes, stored as the whole blocks of 64 channels that the output's buffer has.
    assert_eq!(traffic[0][1], 1024);
    assert_eq!(4 * traffic[0][1], deployment.program().outputs[0].bytes() as u64);
    assert!(timeline.utilization() > 0 && timeline.utilization() <= 1000);
    assert!(timeline.commands.iter().all(|command| command.ideal <= command.compute));
}

#[test]
fn sixteen_bit_takes_longer_and_fewer_units_too() {
    let time = |name: &str, precision| {
        let spec = DeviceSpec::builtin(name).expect("builtin");
        let deployment = deploy("yolov8n_cls_224x224", &spec, 1)?;
        Some(retimed(&deployment, |options| options.precision = precision).total_cycles)
    };
    let Some(narrow) = time("buyi", Precision::Int8) else { return };
    assert!(time("buyi", Precision::Int16).is_some_and(|wide| wide > narrow));
    assert!(time("buyi-1x1", Precision::Int8).is_some_and(|small| small > narrow));
    assert!(time("zg330", Precision::Int8).is_some_and(|other| other > 0));
}

/// The descriptions that come with the crate predict the rows that they were fitted to: a network of each kind within 18 %, on one
/// core of four that work, cut for one, with its own copy of the weights or a shared one; the single products; BUYI at both widths.
#[test]
fn fitted_rows_are_met() {
    let near = |what: &str, predicted: f64, published: f64, most: f64| {
        let error = predicted / published - 1.0;
        assert!(error.abs() < most, "{what}: {predicted:.3} for {published:.3}");
    };
    let metis = DeviceSpec::builtin("metis").expect("builtin");
    let kinds = [
        "ResNet-50",
        "ResNeXt-50 32x4d",
        "RegNetX-400MF",
        "MobileNetV2",
        "EfficientNet-B0",
        "Inception v3",
        "SqueezeNet 1.1",
        "YOLOv5n",
        "YOLOv8n",
    ];
    for row in published::METIS.iter().filter(|row| kinds.contains(&row.name)) {
        let images = published::Setting::on_metis(row.topology).images;
        let Some(deployment) = deploy(row.topology, &metis, images) else { return };
        let micros = retimed(&deployment, |options| options.active_cores = 4).micros();
        near(row.name, 4e6 / micros, row.figures[0].expect("published"), 0.18);
    }
    for row in &published::PRODUCTS {
        let graph = quantize::quantized(quantize::product(row.k, row.n, row.m)).expect("quantized");
        let program = compile(&graph, &metis, &CompileOptions { batch: 4, ..CompileOptions::default() })
            .expect("compiled")
            .program;
        let device = Device::new(metis.clone()).expect("a device");
        let deployment = Deployment::new(&device, &Arc::new(program), &DeployOptions::default());
        let micros = deployment.expect("deployed").timeline().micros() / 4.0;
        near(&format!("{}x{} by {}", row.k, row.n, row.m), micros, row.micros, 0.18);
    }
    let buyi = DeviceSpec::builtin("buyi").expect("builtin");
    for row in published::BUYI.iter().filter(|row| row.topology.contains("224x224")) {
        // The fit is to feature maps in external memory; docs/timing-model.md says why.
        let Some(deployment) = deploy_by(row.topology, &buyi, 1, Policy::None) else { return };
        for (precision, figure) in [Precision::Int8, Precision::Int16].into_iter().zip(row.figures) {
            let timeline = retimed(&deployment, |options| options.precision = precision);
            let nanos = timeline.nanos(timeline.total_cycles - timeline.launch_cycles);
            near(row.name, nanos as f64 / 1e6, figure.expect("published"), 0.25);
        }
    }
}

/// Weights that are more than a core's share of the memory for them stream from the one that the host reaches, alone on the device as
/// beside others; a batch of as many images as there are cores has all of it. So one scenario has one time, whoever asks.
#[test]
fn each_core_has_its_share_of_what_cores_share() {
    let spec = DeviceSpec::builtin("metis").expect("builtin");
    // 12.6 MB: a quarter of L2 is 7.7 MiB. With 2 MB it fits.
    for (n, shares) in [(6144, ["ddr", "l2"]), (1024, ["l2", "l2"])] {
        let graph = quantize::quantized(quantize::product(2048, n, 64)).expect("quantized");
        let options = TimingOptions::default();
        for (batch, memory) in [1, 4].into_iter().zip(shares) {
            let compiled = compile(&graph, &spec, &CompileOptions { batch, ..CompileOptions::default() });
            let program = Arc::new(compiled.expect("compiled").program);
            let estimate = Estimate::new(&program).expect("decoded");
            let (alone, places) = estimate.timeline(&spec, &options).expect("timed");
            assert_eq!(places[1].memory, memory, "{n} by {batch}");
            // Four instances of a core each, one after the other on one device.
            let device = Device::new(spec.clone()).expect("a device");
            let instances: Vec<Deployment> = (0..4 / batch as u32)
                .map(|core| {
                    // A program of its own each: nothing is shared.
                    let program = Arc::new((*program).clone());
                    let cores = (0..batch as u32).map(|image| core + image).collect();
                    let options = DeployOptions { cores, ..DeployOptions::default() };
                    Deployment::new(&device, &program, &options).expect("deployed")
                })
                .collect();
            for (core, instance) in instances.iter().enumerate() {
                assert_eq!(*instance.timeline(), alone, "{n} by {batch} on core {core}");
                let cores = ((1 << batch) - 1) << core;
                let demand = estimate.demand(&spec, &options, cores).expect("timed");
                assert_eq!(instance.demand().map(|demand| &**demand), Some(&demand));
            }
        }
    }
}

/// Zeros between groups take their share, too: as the device holds them, not as the program has them.
#[test]
fn weights_count_as_the_device_holds_them() {
    let Some(deployment) =
        deploy("regnet_x_400mf_224x224", &DeviceSpec::builtin("metis").expect("builtin"), 1)
    else {
        return;
    };
    // 5.5 MB of weights, 24 with the zeros.
    assert!(deployment.program().constants.len() < 6_000_000);
    assert_eq!(deployment.places()[1].memory, "ddr");
    let weights: u64 = deployment.timeline().commands.iter().map(|command| command.bytes_read[0]).sum();
    assert!((20_000_000..30_000_000).contains(&weights), "{weights}");
}

/// The figure that matters is release mode's; the limit here leaves room for checks and a busy machine.
#[test]
fn timing_a_network_is_nothing_beside_deploying_it() {
    let spec = DeviceSpec::builtin("metis").expect("builtin");
    let start = Instant::now();
    let Some(deployment) = deploy("resnet50_224x224", &spec, 1) else { return };
    let deployed = start.elapsed().as_nanos();
    let options = TimingOptions { active_cores: 4, ..TimingOptions::default() };
    let mut best = u128::MAX;
    for _ in 0..500 {
        let start = Instant::now();
        std::hint::black_box(deployment.retime(&options).expect("timed"));
        best = best.min(start.elapsed().as_nanos());
    }
    println!(
        "ResNet-50: {} commands in {:.1} µs",
        deployment.timeline().commands.len(),
        best as f64 / 1000.0
    );
    assert!(best < deployed / 50, "{best} ns beside {deployed} ns");
}
