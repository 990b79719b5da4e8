//! Memory plans of programs: what stays in the near memory is really there, plans can be made again, and a wrong plan
//! shows.

use crate::quantize;
use std::{path::PathBuf, sync::Arc, time::Instant};

use triune_device::{
    Addr, Command, CommandTime, DeviceSpec, SegmentKind, TimingOptions,
    command::{decode, encode},
    spec::Kept,
    touches,
};
use triune_graph::{
    Graph, Op,
    format::onnx,
    ops::{self, BinaryKind},
};
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, Error, Estimate, PlanOptions, Policy, Program, compile,
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor, test_data};

const PARAMS: QuantParams = QuantParams { scale: 0.02, zero_point: 3 };

/// Channels of the maps: whole blocks on every device, so that the timeline counts no filling.
const CHANNELS: usize = 64;

/// Residual blocks with a skip over all of them and a concatenation: maps of several sizes and lifespans.
fn network(blocks: usize) -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 16, 16]);
    let mut x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    let conv = |builder: &mut GraphBuilder, x, inputs: usize, outputs: usize, kernel: usize| {
        let integers: Vec<i8> =
            (0..outputs * inputs * kernel * kernel).map(|i| (i * 37 % 255) as i8).collect();
        let weights = Tensor::i8(&[outputs, inputs, kernel, kernel], &integers);
        let weights = builder.dequantized_constant(&weights, &[0.01], 0);
        let y = builder.conv(&[x, weights], 1, kernel / 2, 1);
        builder.quantize_dequantize(y, PARAMS, DType::I8)
    };
    x = conv(&mut builder, x, 3, CHANNELS, 3);
    let first = x;
    for block in 0..blocks {
        let wide = CHANNELS * (1 + block % 3);
        let y = conv(&mut builder, x, CHANNELS, wide, 3);
        let y = conv(&mut builder, y, wide, CHANNELS, 1);
        let y = builder.binary(BinaryKind::Add, x, y);
        x = builder.quantize_dequantize(y, PARAMS, DType::I8);
    }
    let y = builder.node(Op::Concat(ops::Concat { axis: 1 }), &[x, first]);
    let y = builder.quantize_dequantize(y, PARAMS, DType::I8);
    let y = conv(&mut builder, y, 2 * CHANNELS, 4, 1);
    builder.finish(&[y])
}

/// Metis' L1 keeps whole maps here, as the near memories of the others do: one of a core's own.
fn spec(name: &str) -> DeviceSpec {
    let mut spec = DeviceSpec::builtin(name).expect("a built-in device");
    if spec.placement.kept == Kept::Bands {
        spec.name.push_str("-with-maps");
        spec.placement.kept = Kept::Maps;
    }
    spec
}

fn options(policy: Policy, capacity: Option<u64>) -> PlanOptions {
    PlanOptions { policy, capacity, ..PlanOptions::default() }
}

fn compiled(graph: &Graph, name: &str, batch: usize, plan: PlanOptions) -> Program {
    compile(graph, &spec(name), &CompileOptions { batch, plan, ..CompileOptions::default() })
        .expect("a program")
        .program
}

fn deployed(program: &Program) -> Deployment {
    let device = Device::new(program.spec().expect("a description")).expect("a device");
    Deployment::new(&device, &Arc::new(program.clone()), &DeployOptions::default()).expect("a deployment")
}

/// The outputs of a run on inputs that the seed makes.
fn outputs(deployment: &mut Deployment, seed: u64) -> Result<Vec<Vec<u8>>, Error> {
    let mut random = Random(seed);
    let program = Arc::clone(deployment.program());
    let inputs: Vec<Vec<u8>> =
        program.inputs.iter().map(|io| (0..io.bytes()).map(|_| random.next() as u8).collect()).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<u8>> = program.outputs.iter().map(|io| vec![0; io.bytes()]).collect();
    let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    deployment.run(&inputs, &mut slices)?;
    Ok(outputs)
}

/// Bytes that a run moves to and from a memory, each once however often it passes the buffers.
fn moved(deployment: &Deployment, memory: &str) -> u64 {
    let at = deployment.device().spec().memory_index(memory).expect("a memory");
    let commands = &deployment.timeline().commands;
    let once = |time: &CommandTime| time.bytes_read[at] - time.bytes_reread[at] + time.bytes_written[at];
    commands.iter().map(once).sum()
}

/// Whatever stays on the chip, and however little room there is, the numbers are the same; what stays is moved there and
/// nowhere else.
#[test]
fn plans_change_places_never_values() {
    let graph = network(5);
    for (name, near, far) in [("zg330", "ocm", "ddr"), ("buyi", "ocm", "ddr"), ("metis", "l1", "l2")] {
        let base = compiled(&graph, name, 1, options(Policy::None, None));
        let mut all_far = deployed(&base);
        let expected = outputs(&mut all_far, 1).expect("a run");
        assert_eq!((base.resident_bytes(), moved(&all_far, near)), (0, 0));
        let largest = base.buffers.iter().map(|buffer| buffer.bytes).max().expect("a feature map");
        for capacity in [None, Some(0), Some(1), Some(largest - 1), Some(largest), Some(3 * largest)] {
            let mut best = 0;
            for policy in Policy::ALL {
                let plan = options(policy, capacity);
                let program = base.replan(&spec(name), &plan).expect("a plan");
                assert_eq!(program, compiled(&graph, name, 1, plan), "planned again as if compiled so");
                let residency = program.residency.expect("a near memory");
                assert!(residency.peak <= residency.capacity && residency.value <= residency.bound);
                assert!(capacity.is_none_or(|limit| residency.capacity <= limit));
                let mut deployment = deployed(&program);
                assert_eq!(outputs(&mut deployment, 1).expect("a run"), expected, "{name} {plan:?}");
                // Every map is written and read as a whole here, so that the value is the traffic, byte by byte.
                assert_eq!(moved(&deployment, near), residency.value, "{name} {plan:?}");
                assert_eq!(moved(&all_far, far) - moved(&deployment, far), residency.value);
                best = best.max(residency.value);
                if policy == Policy::Exact {
                    assert_eq!((residency.value, residency.gap()), (best, 0.0));
                }
                // And back again.
                assert_eq!(program.replan(&spec(name), &options(Policy::None, None)).expect("a plan"), base);
            }
        }
    }
}

/// What keeps bands alone keeps no map, by any policy.
#[test]
fn a_near_memory_for_bands_keeps_no_maps() {
    let metis = DeviceSpec::builtin("metis").expect("a built-in device");
    let base = compiled(&network(5), "metis", 1, PlanOptions::default());
    assert!(base.resident_bytes() > 0);
    let expected = outputs(&mut deployed(&base), 1).expect("a run");
    for policy in Policy::ALL {
        let program = compile(
            &network(5),
            &metis,
            &CompileOptions { plan: options(policy, None), ..CompileOptions::default() },
        )
        .expect("a program")
        .program;
        let residency = program.residency.expect("a near memory");
        assert_eq!((residency.value, residency.bound, residency.peak), (0, 0, 0), "{policy:?}");
        assert!(program.buffers.iter().all(|buffer| buffer.segment == Program::SCRATCH));
        assert_eq!(program.replan(&metis, &options(policy, None)).expect("a plan"), program);
        assert_eq!(outputs(&mut deployed(&program), 1).expect("a run"), expected);
    }
}

#[test]
fn a_batch_has_a_near_memory_per_core_or_shares_one() {
    let graph = network(3);
    let program = compiled(&graph, "metis", 4, PlanOptions::default());
    let whole = spec("metis").resident_memory().expect("a near memory").usable_bytes();
    assert_eq!(program.residency.expect("a near memory").capacity, whole);
    let one =
        outputs(&mut deployed(&compiled(&graph, "metis", 1, PlanOptions::default())), 5).expect("a run");
    let four = outputs(&mut deployed(&program), 5).expect("a run");
    assert_eq!(four[0][..one[0].len()], one[0][..], "the first image is the same");
    // Constants lie in the memory that is near here, and four images share what they leave.
    let mut shared = spec("metis");
    shared.placement.resident = Some("l2".into());
    shared.placement.scratch = "ddr".into();
    let replanned = program.replan(&shared, &PlanOptions::default()).expect("a plan");
    let l2 = shared.resident_memory().expect("a near memory").usable_bytes();
    let left = (l2 - (program.constants.len() as u64).next_multiple_of(64)) / 4;
    assert_eq!(replanned.residency.expect("a near memory").capacity, left / 64 * 64);
    let device = Device::new(shared).expect("a device");
    let mut deployment =
        Deployment::new(&device, &Arc::new(replanned), &DeployOptions::default()).expect("a deployment");
    assert_eq!(outputs(&mut deployment, 5).expect("a run"), four);
}

/// Whatever else lies in the near memory leaves less of it for feature maps: its bytes in whole lines, and of a core's own memory
/// one image's.
#[test]
fn what_lies_in_the_near_memory_takes_room_there() {
    let program = compiled(&network(2), "metis", 3, PlanOptions::default());
    let border: Vec<u64> =
        program.inputs.iter().chain(&program.outputs).map(|io| io.bytes() as u64).collect();
    let lines = |bytes: u64| bytes.next_multiple_of(64);
    let (commands, constants) = (program.instructions.len() as u64, program.constants.len() as u64);
    let whole = border.iter().map(|&bytes| lines(bytes)).sum();
    let image = border.iter().map(|&bytes| lines(bytes / 3)).sum();
    for (near, part, taken) in [
        ("l1", "instructions", lines(commands)),
        ("l1", "constants", lines(constants)),
        ("l1", "io", image),
        ("l2", "instructions", lines(commands)),
        ("l2", "constants", lines(constants)),
        ("l2", "io", whole),
    ] {
        let mut spec = spec("metis");
        let places = &mut spec.placement;
        (places.resident, places.scratch) = (Some(near.into()), "ddr".into());
        for (name, place) in [
            ("instructions", &mut places.instructions),
            ("constants", &mut places.constants),
            ("io", &mut places.io),
        ] {
            *place = if name == part { near.into() } else { "ddr".into() };
        }
        let room = spec.resident_memory().expect("a near memory").usable_bytes() - taken;
        let own = if near == "l1" { room } else { room / 3 };
        let found = program.replan(&spec, &PlanOptions::default()).expect("a plan").residency;
        assert_eq!(found.expect("a near memory").capacity, own / 64 * 64, "{part} in {near}");
    }
}

/// A plan that a file brings is not believed: maps that share bytes while both are alive, or end beyond their segment.
#[test]
fn plans_that_are_none_are_not_made_again() {
    let program = compiled(&network(2), "metis", 1, options(Policy::None, None));
    let alive = |at: usize, other: usize| {
        let [a, b] = [program.buffers[at], program.buffers[other]];
        a.first < b.last && b.first < a.last
    };
    let mut pairs = (0..program.buffers.len()).flat_map(|at| (0..at).map(move |other| (at, other)));
    let (at, other) = pairs.rfind(|&(at, other)| alive(at, other)).expect("two that are alive together");
    assert!(program.replan(&spec("metis"), &PlanOptions::default()).is_ok());
    for offset in [program.buffers[other].offset, program.scratch_bytes] {
        let mut wrong = program.clone();
        wrong.buffers[at].offset = offset;
        let error = wrong.replan(&spec("metis"), &PlanOptions::default()).expect_err("no plan").to_string();
        assert!(error.contains("the memory plan is invalid"), "{error}");
    }
}

/// A program lies where it was said to, also where commands and constants lie in the first core's own memory.
#[test]
fn estimates_say_where_a_program_will_lie() {
    // As many images as there are cores, at most.
    for batch in [1, 2, 4] {
        for near in [["ddr", "l2", "ddr"], ["l1", "l2", "ddr"], ["ddr", "l1", "ddr"], ["l1", "l1", "l1"]] {
            let mut spec = spec("metis");
            [&mut spec.placement.instructions, &mut spec.placement.constants, &mut spec.placement.io]
                .into_iter()
                .zip(near)
                .for_each(|(place, name)| *place = name.into());
            let options = CompileOptions { batch, ..CompileOptions::default() };
            let program = Arc::new(compile(&network(1), &spec, &options).expect("a program").program);
            let (timeline, places) = Estimate::new(&program)
                .and_then(|program| program.timeline(&spec, &TimingOptions::default()))
                .expect("an estimate");
            let device = Device::new(spec).expect("a device");
            let deployment =
                Deployment::new(&device, &program, &DeployOptions::default()).expect("a deployment");
            assert_eq!(places, deployment.places(), "{near:?}");
            assert_eq!(timeline.total_cycles, deployment.timeline().total_cycles, "{near:?}");
        }
    }
}

/// The second deployment on a core finds its near memory taken: it runs from the far one, says so, and is timed so.
#[test]
fn a_second_deployment_falls_back_to_the_far_memory() {
    let program = Arc::new(compiled(&network(3), "zg330", 1, PlanOptions::default()));
    let mut small = spec("zg330");
    for memory in small.memory.iter_mut().filter(|memory| memory.name == "ocm") {
        memory.bytes = program.resident_bytes();
    }
    let device = Device::new(small).expect("a device");
    let deploy = || Deployment::new(&device, &program, &DeployOptions::default()).expect("a deployment");
    let resident = |deployment: &Deployment| {
        let place = deployment.places().iter().find(|place| place.kind == SegmentKind::Resident);
        place.expect("a segment").memory.clone()
    };
    let mut first = deploy();
    let mut second = deploy();
    assert_eq!((resident(&first), resident(&second)), ("ocm".into(), "ddr".into()));
    assert!(second.timeline().total_cycles >= first.timeline().total_cycles);
    assert_eq!((moved(&first, "ocm") > 0, moved(&second, "ocm")), (true, 0));
    assert_eq!(outputs(&mut first, 3).expect("a run"), outputs(&mut second, 3).expect("a run"));
    drop(first);
    assert_eq!(resident(&deploy()), "ocm", "the memory is free again");
}

/// A device of Metis' form, one of whose cores has `share` bytes of L2.
fn with_share(share: u64) -> DeviceSpec {
    let mut spec = spec("metis");
    spec.name = "metis-small".into();
    let cores = u64::from(spec.cores);
    for memory in spec.memory.iter_mut().filter(|memory| memory.name == "l2") {
        (memory.bytes, memory.reserved) = (cores * share, 0);
    }
    spec
}

/// Feature maps that a core's share of the far memory does not hold spill into the one behind it, the others stay; numbers are the same,
/// and the time is between that of all near and that of all behind.
#[test]
fn what_the_far_memory_has_no_room_for_spills() {
    let graph = network(5);
    let plan = options(Policy::None, None);
    let compiled = |spec: &DeviceSpec, batch: usize| {
        let options = CompileOptions { batch, plan, ..CompileOptions::default() };
        compile(&graph, spec, &options).expect("a program").program
    };
    let deploy = |spec: &DeviceSpec, program: &Program, percent: Option<u32>| {
        let device = Device::new(spec.clone()).expect("a device");
        let options = DeployOptions { constants_percent: percent, ..DeployOptions::default() };
        Deployment::new(&device, &Arc::new(program.clone()), &options).expect("a deployment")
    };
    let roomy = with_share(1 << 20);
    let whole = compiled(&roomy, 1);
    assert_eq!((whole.spilled_bytes, whole.spilled()), (0, None));
    let constants = whole.constants.len() as u64;
    let mut near = deploy(&roomy, &whole, None);
    let expected = outputs(&mut near, 4).expect("a run");
    let mut last = moved(&near, "ddr");
    // Constants stream where they do not fit either; feature maps have the whole share then.
    let steps = [
        constants + whole.scratch_bytes - 64,
        constants + whole.scratch_bytes / 2,
        whole.scratch_bytes / 2,
        64,
    ];
    for share in steps {
        let spec = with_share(share);
        let program = compiled(&spec, 1);
        assert_eq!(program, whole.replan(&spec, &plan).expect("a plan"), "planned again as if compiled so");
        assert_eq!(program.buffers.len(), whole.buffers.len());
        let behind = Program::FIRST_IO + 2;
        assert_eq!(program.spilled(), Some(behind), "{share}");
        let room = |all: u64| all - if constants <= all { constants } else { 0 };
        assert!(program.scratch_bytes <= room(share), "{share}");
        let mut deployment = deploy(&spec, &program, None);
        assert_eq!(outputs(&mut deployment, 4).expect("a run"), expected, "{share}");
        let memory =
            |kind| deployment.places().iter().find(|place| place.kind == kind).map(|place| &*place.memory);
        assert_eq!(memory(SegmentKind::Scratch), Some("l2"));
        assert_eq!(memory(SegmentKind::Spilled), Some("ddr"));
        assert_eq!(deployment.places().len(), usize::from(behind) + 1);
        let estimate = Estimate::new(&Arc::new(program.clone())).expect("commands");
        let (timeline, places) = estimate.timeline(&spec, &TimingOptions::default()).expect("an estimate");
        assert_eq!(
            (&*places, timeline.total_cycles),
            (deployment.places(), deployment.timeline().total_cycles)
        );
        let now = moved(&deployment, "ddr");
        assert!(now > last, "{share}: {now} bytes beside {last}");
        last = now;
        // With all of the memory there is room for what the plan saw none for.
        let alone = deploy(&spec, &program, Some(100));
        let fits = program.scratch_bytes + program.spilled_bytes <= room(4 * share);
        let spilled = alone.places().last().map(|place| &*place.memory);
        assert_eq!(spilled, Some(if fits { "l2" } else { "ddr" }), "{share}");
        // A batch of all cores has one copy of the constants.
        let batch = compiled(&spec, 4);
        assert!(batch.scratch_bytes <= share, "{share}");
        // And back again.
        assert_eq!(program.replan(&roomy, &plan).expect("a plan"), whole);
        assert!(corruptions_show(&program, 4, 11) > 0, "{share}");
    }
}

#[test]
fn a_program_of_one_command_has_nothing_to_keep() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 8, 8]);
    let x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    let weights = builder.dequantized_constant(&Tensor::i8(&[5, 3, 1, 1], &[3; 15]), &[0.01], 0);
    let y = builder.conv(&[x, weights], 1, 0, 1);
    let y = builder.quantize_dequantize(y, PARAMS, DType::I8);
    let program = compiled(&builder.finish(&[y]), "zg330", 1, PlanOptions::default());
    assert_eq!((program.buffers.len(), program.scratch_bytes, program.resident_bytes()), (0, 0, 0));
    assert_eq!(program.residency.expect("a near memory").gap(), 0.0);
    assert_eq!(program.replan(&spec("zg330"), &PlanOptions::default()).expect("a plan"), program);
    outputs(&mut deployed(&program), 1).expect("a run");
}

/// A deep network with a skip from the first map to the last: hundreds of maps, in a time that grows as they do.
#[test]
fn hundreds_of_feature_maps() {
    let compile = |blocks| {
        let graph = network(blocks);
        seconds(|| compiled(&graph, "buyi", 1, options(Policy::Exact, Some(80 * 1024))))
    };
    let ((half, _), (whole, program)) = (compile(75), compile(150));
    println!("{} feature maps in {whole} s, half as many in {half} s", program.buffers.len());
    assert!(program.buffers.len() >= 300);
    // Twice as many, each with twice as many others about: four times, and room for a busy machine.
    assert!(whole < 12.0 * half, "{whole} s, {half} s");
    let residency = program.residency.expect("a near memory");
    assert!(residency.value > 0 && residency.peak <= 80 * 1024);
}

/// Changes the feature maps' addresses of the commands that these tests have.
fn rename(command: &mut Command, f: &mut dyn FnMut(Addr) -> Addr) {
    let maps: Vec<&mut Addr> = match command {
        Command::End(_) => vec![],
        Command::Copy(c) => vec![&mut c.src, &mut c.dst],
        Command::QConv(c) => {
            let residual = c.residual.as_mut().map(|map| &mut map.addr);
            [&mut c.input.addr, &mut c.output.addr].into_iter().chain(residual).collect()
        }
        Command::QAdd(c) => vec![&mut c.a.addr, &mut c.b.addr, &mut c.output.addr],
        Command::Pool(c) => vec![&mut c.input.addr, &mut c.output.addr],
        Command::GlobalPool(c) => vec![&mut c.input.addr, &mut c.output.addr],
        Command::Resize(c) => vec![&mut c.input.addr, &mut c.output.addr],
        Command::Table(c) => vec![&mut c.input.addr, &mut c.output.addr],
        Command::Tables(c) => vec![&mut c.input.addr, &mut c.output.addr],
        other => panic!("{:?} is not known here", other.opcode()),
    };
    for addr in maps {
        *addr = f(*addr);
    }
}

/// A program in which feature map `victim` lies where `other` does, although both are alive: every address of the one is
/// moved to the other's bytes.
fn overlapped(program: &Program, victim: usize, other: usize) -> Program {
    let [from, to] = [program.buffers[victim], program.buffers[other]];
    let mut commands = decode(&program.instructions).expect("commands");
    for (index, command) in commands.iter_mut().enumerate() {
        if !(from.first as usize..from.last as usize).contains(&index) {
            continue;
        }
        rename(command, &mut |addr| {
            let inside = addr.segment() == from.segment
                && (from.offset..from.offset + from.bytes).contains(&addr.offset());
            if inside { Addr::new(to.segment, to.offset + (addr.offset() - from.offset)) } else { addr }
        });
    }
    Program { instructions: encode(&commands).into(), ..program.clone() }
}

/// A wrong plan is seen: an error, or other outputs; never the same ones. Returns how many pairs were tried.
fn corruptions_show(program: &Program, tries: usize, seed: u64) -> usize {
    let expected = outputs(&mut deployed(program), seed).expect("a run");
    let mut random = Random(seed);
    // Both alive before a command that reads what the other one would have overwritten.
    let pairs: Vec<(usize, usize)> = (0..program.buffers.len())
        .flat_map(|victim| (0..program.buffers.len()).map(move |other| (victim, other)))
        .filter(|&(victim, other)| {
            let [a, b] = [program.buffers[victim], program.buffers[other]];
            // The later one is written while the earlier one waits for a later reader.
            victim != other && a.first > b.first && b.last > a.first + 1 && a.bytes <= b.bytes
        })
        .collect();
    assert!(!pairs.is_empty(), "a program in which nothing lives together");
    let mut tried = 0;
    for _ in 0..tries {
        let (victim, other) = pairs[random.below(pairs.len())];
        let wrong = overlapped(program, victim, other);
        let device = Device::new(wrong.spec().expect("a description")).expect("a device");
        let Ok(mut deployment) =
            Deployment::new(&device, &Arc::new(wrong.clone()), &DeployOptions::default())
        else {
            tried += 1;
            continue;
        };
        if let Ok(got) = outputs(&mut deployment, seed) {
            assert!(got != expected, "{victim} over {other} of {} went unseen", program.target);
        }
        tried += 1;
    }
    tried
}

#[test]
fn a_corrupted_plan_is_never_silent() {
    for name in ["zg330", "metis"] {
        assert_eq!(corruptions_show(&compiled(&network(5), name, 1, PlanOptions::default()), 20, 7), 20);
        let far = compiled(&network(5), name, 1, options(Policy::None, None));
        assert_eq!(corruptions_show(&far, 20, 8), 20);
    }
}

/// Networks of the test data that an NPU takes as they are.
fn models() -> Vec<PathBuf> {
    [
        "mlperftiny_resnet8_int8_qdq",
        "mobilenetv2_int8_qdq",
        "squeezenet_u8s8_qdq",
        "ultraface_s8s8_qdq",
        "ultraface_u8s8_qdq",
        "yolox_nano_u8s8_qdq",
    ]
    .iter()
    .filter_map(|name| test_data(&format!("models/onnx/{name}.onnx")))
    .collect()
}

#[test]
fn corrupted_plans_of_real_networks_show() {
    let Some(path) = test_data("models/onnx/mlperftiny_resnet8_int8_qdq.onnx") else { return };
    let graph = onnx::read(&path).expect("a model");
    for name in ["zg330", "metis"] {
        let program = compiled(&graph, name, 1, PlanOptions::default());
        let tried = corruptions_show(&program, 12, 11);
        println!("{}: {tried} corruptions on {name}", path.display());
    }
}

/// Topologies of the test data, which have to be quantized first.
fn topologies() -> Vec<PathBuf> {
    [
        "efficientnet_b0_224x224",
        "mobilenet_v2_224x224",
        "resnet18_224x224",
        "resnet50_224x224",
        "resnet50_b4_224x224",
        "se_resnet34_224x224",
        "squeezenet1_1_224x224",
        "wide_resnet50_224x224",
        "yolov5s_640x640",
        "yolov8n_cls_224x224",
        "yolov8s_640x640",
        "yolox_s_640x640",
    ]
    .iter()
    .filter_map(|name| test_data(&format!("refdata/topologies/{name}.onnx")))
    .collect()
}

/// Seconds that work takes, of which the least of a few tries counts: others work on the machine, too.
fn seconds<T>(work: impl Fn() -> T) -> (f64, T) {
    let tries = (0..3).map(|_| {
        let start = Instant::now();
        let done = work();
        (start.elapsed(), done)
    });
    let (time, done) = tries.min_by_key(|(time, _)| *time).expect("a try");
    (time.as_secs_f64(), done)
}

/// Planning and timing cost little beside lowering, which is all there is where nothing is kept near: a search for the optimum could
/// take any time. Every choice is the optimum, every placement as low as can be.
#[test]
fn networks_are_planned_in_time_and_to_the_optimum() {
    let read = |path: &PathBuf| onnx::read(path).expect("a model");
    let quantized = |path: &PathBuf| quantize::quantized(read(path)).expect("a network to quantize");
    let graphs = models().iter().map(|path| (path.clone(), read(path))).collect::<Vec<_>>();
    let graphs =
        graphs.into_iter().chain(topologies().into_iter().map(|path| (path.clone(), quantized(&path))));
    for (path, graph) in graphs {
        for name in ["metis", "buyi", "zg330"] {
            let (lowered, _) = seconds(|| compiled(&graph, name, 1, options(Policy::None, None)));
            let (planned, program) = seconds(|| {
                let program = Arc::new(compiled(&graph, name, 1, PlanOptions::default()));
                let estimate = Estimate::new(&program).expect("commands");
                estimate.timeline(&spec(name), &TimingOptions::default()).expect("timed");
                program
            });
            assert!(planned < 40.0 * lowered, "{} on {name}: {planned} s, {lowered} s", path.display());
            let residency = program.residency.expect("a near memory");
            assert_eq!(residency.gap(), 0.0, "{} on {name}", path.display());
            assert_eq!(residency.peak, residency.lower_bound, "{} on {name}", path.display());
            assert_eq!(program.scratch_bytes, program.scratch_lower_bound.next_multiple_of(64));
        }
    }
}

/// Where a touch lies is where the plan says: every command's feature maps are inside of one that is alive.
#[test]
fn touches_stay_inside_of_living_feature_maps() {
    let program = compiled(&network(5), "zg330", 1, options(Policy::Option3, Some(48 * 1024)));
    let device = spec("zg330");
    let (mut near, mut far) = (0, 0);
    for (index, command) in decode(&program.instructions).expect("commands").iter().enumerate() {
        for touch in touches(&device, command) {
            let segment = touch.addr.segment();
            if !matches!(segment, Program::SCRATCH | Program::RESIDENT) {
                continue;
            }
            let owners = program.buffers.iter().filter(|buffer| {
                buffer.segment == segment
                    && (buffer.first as usize..buffer.last as usize).contains(&index)
                    && (buffer.offset..buffer.offset + buffer.bytes).contains(&touch.addr.offset())
            });
            assert_eq!(owners.count(), 1, "command {index}");
            *(if segment == Program::RESIDENT { &mut near } else { &mut far }) += 1;
        }
    }
    assert!(near > 0 && far > 0);
}

/// Results that take their dying operand's bytes: less memory, the same numbers, and still a plan that can be made again.
#[test]
fn results_in_place_are_the_same() {
    let graph = network(5);
    for name in ["zg330", "metis"] {
        let apart = compiled(&graph, name, 1, options(Policy::None, None));
        let plan = PlanOptions { in_place: true, ..options(Policy::None, None) };
        let shared = compiled(&graph, name, 1, plan);
        assert!(shared.buffers.len() < apart.buffers.len(), "{} buffers", shared.buffers.len());
        assert!(shared.scratch_bytes <= apart.scratch_bytes);
        let expected = outputs(&mut deployed(&apart), 4).expect("a run");
        assert_eq!(outputs(&mut deployed(&shared), 4).expect("a run"), expected);
        for capacity in [Some(0), Some(5 * 1024), None] {
            let again = shared.replan(&spec(name), &options(Policy::Exact, capacity)).expect("a plan");
            assert_eq!(outputs(&mut deployed(&again), 4).expect("a run"), expected);
        }
    }
}

/// A result does not take the bytes of an operand that is read again.
#[test]
fn operands_that_live_on_keep_their_bytes() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 8, 6, 6]);
    let mut x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    let conv = |builder: &mut GraphBuilder, x| {
        let integers: Vec<i8> = (0..64).map(|i| (i * 37 % 255) as i8).collect();
        let weights = builder.dequantized_constant(&Tensor::i8(&[8, 8, 1, 1], &integers), &[0.003], 0);
        let y = builder.conv(&[x, weights], 1, 0, 1);
        builder.quantize_dequantize(y, PARAMS, DType::I8)
    };
    for _ in 0..3 {
        let a = conv(&mut builder, x);
        let b = conv(&mut builder, a);
        let b = conv(&mut builder, b);
        let c = builder.binary(BinaryKind::Add, a, b);
        let c = builder.quantize_dequantize(c, PARAMS, DType::I8);
        let c = conv(&mut builder, c);
        let d = builder.binary(BinaryKind::Add, c, a);
        x = builder.quantize_dequantize(d, PARAMS, DType::I8);
    }
    let x = conv(&mut builder, x);
    let graph = builder.finish(&[x]);
    let apart = compiled(&graph, "zg330", 1, options(Policy::None, None));
    let shared = compiled(&graph, "zg330", 1, PlanOptions { in_place: true, ..options(Policy::None, None) });
    assert!(shared.buffers.len() < apart.buffers.len(), "some do die");
    let expected = outputs(&mut deployed(&apart), 2).expect("a run");
    let distinct: std::collections::BTreeSet<u8> = expected[0].iter().copied().collect();
    assert!(distinct.len() > 20, "numbers that say something: {distinct:?}");
    assert_eq!(outputs(&mut deployed(&shared), 2).expect("a run"), expected);
}
