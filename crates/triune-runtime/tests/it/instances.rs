//! Packages on cards as programs run them, what they cost, and what several of them do to each other.

use std::{path::Path, sync::Arc};

use triune_device::DeviceSpec;
use triune_runtime::{
    CompileOptions, DOUBLE_BUFFER_DELAY, Error, Instance, InstanceOptions, Package, Policy, Profile, Session,
    SessionOptions, Study,
    card::{Card, CardSpec, Cards},
    clock::Arrivals,
    compile,
    study::{Caller, compose},
};
use triune_tensor::{DType, QuantParams, Shape};
use triune_testing::{GraphBuilder, Tensor};

const PARAMS: QuantParams = QuantParams { scale: 0.02, zero_point: 3 };

/// Two quantized convolutions in a row.
fn graph() -> triune_graph::Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 4, 12, 8]);
    let mut x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    for factor in [37, 41] {
        let integers: Vec<i8> = (0..4 * 4 * 9).map(|i| (i * factor % 255 - 127) as i8).collect();
        let weights = builder.dequantized_constant(&Tensor::i8(&[4, 4, 3, 3], &integers), &[0.01], 0);
        let y = builder.conv(&[x, weights], 1, 1, 1);
        x = builder.quantize_dequantize(y, PARAMS, DType::I8);
    }
    builder.finish(&[x])
}

fn package(folder: &Path) -> Package {
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let compiled = compile(&graph(), &spec, &CompileOptions::default()).expect("a program");
    Package::write(&compiled, folder).expect("a package")
}

fn card(folder: &Path) -> Arc<Card> {
    let specs = CardSpec::parse_list("pcie").expect("cards");
    let cards = Cards::new(specs, &folder.join("state")).expect("a directory");
    let card = cards.iter().next().expect("a card");
    Arc::clone(card)
}

fn options() -> InstanceOptions {
    InstanceOptions {
        cores: vec![0],
        threads: 1,
        double_buffer: false,
        host_profiling: false,
        constants_percent: 100,
        realtime: None,
    }
}

/// What the program makes of an input that is `seed` everywhere; nothing if it writes nothing.
fn run(instance: &mut Instance, package: &Package, seed: u8) -> Result<Option<Vec<u8>>, Error> {
    let bytes = |io: &triune_runtime::TensorIo| io.bytes();
    let program = package.program();
    let inputs: Vec<Vec<u8>> = program.given().iter().map(|io| vec![seed; bytes(io)]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    // No result is all 0x55 by itself.
    let mut output = vec![0x55; bytes(&program.results()[0])];
    instance.run(&inputs, &mut [&mut output])?;
    Ok(output.iter().any(|&byte| byte != 0x55).then_some(output))
}

#[test]
fn double_buffered_results_come_two_calls_late() {
    let folder = tempfile::tempdir().expect("a folder");
    let (package, card) = (package(folder.path()), card(folder.path()));
    let mut at_once = Instance::new(&card, &package, options()).expect("an instance");
    let late = InstanceOptions { double_buffer: true, host_profiling: true, cores: vec![1], ..options() };
    let mut late = Instance::new(&card, &package, late).expect("an instance");
    let wanted: Vec<Vec<u8>> =
        (0..5).map(|seed| run(&mut at_once, &package, seed).expect("a run").expect("a result")).collect();
    assert!(wanted.windows(2).all(|pair| pair[0] != pair[1]));
    for seed in 0..5_u8 {
        // A call that fails is none: what is under way stays so.
        assert!(matches!(late.run(&[], &mut []), Err(Error::Operand { .. })));
        let found = run(&mut late, &package, seed).expect("a run");
        let ready = usize::from(seed).checked_sub(DOUBLE_BUFFER_DELAY);
        assert_eq!(found.as_ref(), ready.map(|call| &wanted[call]), "call {seed}");
    }
    let host = late.host_times().expect("times");
    assert_eq!(host.calls, 5);
    assert!(host.least <= host.last && host.last <= host.most && host.most <= host.total);
    assert_eq!(at_once.host_times(), None);
    let runs = card.composition().expect("a device");
    assert_eq!(runs.instances.iter().map(|instance| instance.runs).collect::<Vec<_>>(), [5, 5]);
    drop((at_once, late));
    assert!(card.composition().is_none());
}

/// What a card was set to stays when another one takes its place, as far as that one can be set so.
#[test]
fn a_program_is_timed_at_the_clock_of_its_core() {
    let folder = tempfile::tempdir().expect("a folder");
    let wide = DeviceSpec::builtin("metis").expect("a built-in device");
    let narrow = DeviceSpec { name: "narrow".into(), clocks_mhz: vec![400, 800], ..wide.clone() };
    let compiled = compile(&graph(), &narrow, &CompileOptions::default()).expect("a program");
    let package = Package::write(&compiled, folder.path()).expect("a package");
    let card = |device: DeviceSpec| {
        let spec = CardSpec { name: "in slot 1".into(), ..CardSpec::of_package(&Arc::new(device)) };
        let cards = Cards::new(vec![spec], &folder.path().join("state")).expect("a directory");
        Arc::clone(cards.iter().next().expect("a card"))
    };
    let slow = [("clock_profile_core_2", "200"), ("clock_profile_core_1", "500")];
    card(wide).configure(&slow).expect("settings");
    let card = card(narrow);
    let clock = |core: u32| {
        let options = InstanceOptions { cores: vec![core], ..options() };
        let instance = Instance::new(&card, &package, options).expect("an instance");
        instance.profile().timeline().clock_mhz
    };
    assert_eq!([0, 1, 2].map(clock), [800, 500, 800]);
}

#[test]
fn costs_add_up_by_operators_and_over_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = package(folder.path());
    let profile = Study::of(package.program()).expect("a study").at(&[], None).expect("a profile");
    let (all, operators): (_, Vec<_>) = (profile.total(), profile.operators().collect());
    assert_eq!(all.span, [0, profile.timeline().total_cycles]);
    assert_eq!(operators.iter().filter(|operator| operator.kind == "Conv").count(), 2);
    let each: Vec<_> = operators.iter().map(|operator| profile.cost(operator.commands)).collect();
    for (cost, operator) in each.iter().zip(&operators) {
        assert!(cost.cycles() > 0 && cost.occupied >= cost.compute, "{}", operator.name);
        assert!(cost.utilization() <= cost.array_utilization(), "{}", operator.name);
        let bounded = matches!(cost.bound_by.name(), "load" | "store");
        assert_eq!(cost.bound_memory.is_some(), bounded, "{}", operator.name);
        for command in operator.commands {
            assert_eq!(profile.operator_of(command), (operator.name, operator.kind));
        }
    }
    assert_eq!(each.iter().map(|cost| cost.macs).sum::<u64>(), all.macs);
    assert_eq!(all.macs, 2 * 12 * 8 * 4 * 4 * 9);
    let read: u64 = each.iter().flat_map(|cost| &cost.read).sum();
    assert_eq!(read, all.read.iter().sum::<u64>());
    assert!(all.utilization() < all.array_utilization());
}

#[test]
fn designs_of_a_device_are_asked_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = package(folder.path());
    let study = Study::of(package.program()).expect("a study");
    let cycles = |changes: &[(&str, &str)]| -> Result<u64, Error> {
        Ok(study.at(changes, None)?.timeline().total_cycles)
    };
    let usual = cycles(&[]).expect("a time");
    assert!(cycles(&[("array", "8x8")]).expect("a time") > usual);
    assert_eq!(cycles(&[]).expect("a time"), usual);
    assert!(cycles(&[("aray", "8x8")]).is_err());
    // A package is compiled once, for tensors that lie as its device has them.
    let text = cycles(&[("border.channels", "16")]).expect_err("another border").to_string();
    assert!(text.contains("give the ONNX file"), "{text}");
    // Nothing near the array: what stayed there is moved.
    let none = Study::replanned(package.program(), Policy::None, None).expect("a plan");
    let moved = |profile: &Profile| profile.total().read.iter().sum::<u64>();
    let (far, near) = (none.at(&[], None).expect("a profile"), study.at(&[], None).expect("a profile"));
    assert!(far.program().residency.is_none_or(|residency| residency.value == 0));
    assert!(moved(&far) >= moved(&near));
}

#[test]
fn programs_of_different_devices_share_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let metis = package(folder.path());
    let metis = Study::of(metis.program()).expect("a study");
    let zg330 = DeviceSpec::builtin("zg330").expect("a built-in device");
    let other = compile(&graph(), &zg330, &CompileOptions::default()).expect("a program");
    let other = Study::of(&Arc::new(other.program)).expect("a study");
    let caller = |name: &str, study, cores| Caller {
        name: name.into(),
        study,
        cores,
        arrivals: Arrivals::Closed { depth: 1 },
    };
    let both = [caller("a", &metis, &[0]), caller("b", &metis, &[1])];
    let alone = compose(&both[..1], 1_000_000, None).expect("a composition");
    let together = compose(&both, 1_000_000, None).expect("a composition");
    let runs = |composition: &triune_runtime::clock::Composition, at: usize| composition.instances[at].runs;
    assert!(runs(&together, 0) > 0 && runs(&together, 0) <= runs(&alone, 0));
    assert_eq!(together.instances[1].cores, 0b10);
    let refused = [
        (compose(&[], 1, None), "there are none"),
        (compose(&[caller("a", &metis, &[0]), caller("z", &other, &[0])], 1, None), "'z' is for zg330"),
        (compose(&[caller("a", &metis, &[77])], 1, None), "0 cores"),
        (compose(&[caller("a", &metis, &[0, 1])], 1, None), "a batch of 1 on 2 cores"),
    ];
    for (found, words) in refused {
        let text = found.expect_err(words).to_string();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_memory_plan_has_the_maps_near_the_array_first() {
    let shapes = [Shape::from([1, 4, 12, 8])];
    let plan = |device: Option<DeviceSpec>| {
        let options = SessionOptions { device, ..SessionOptions::default() };
        let mut session = Session::new(graph(), &options).expect("a session");
        session.memory_plan(&shapes).expect("a plan")
    };
    let (host, card) = (plan(None), plan(Some(DeviceSpec::builtin("zg330").expect("a built-in device"))));
    assert!(host.near == 0 && card.near > 0);
    // The host's lie in the library, the card's in its memory.
    assert!(host.weights >= 2 * 4 * 4 * 9 && card.weights >= 2 * 4 * 4 * 9);
    for plan in [host, card] {
        assert!(plan.bytes >= plan.lower_bound && plan.lower_bound > 0);
        assert!(plan.operators.windows(2).all(|pair| pair[0].last <= pair[1].first));
        assert!(plan.operators.iter().filter(|operator| operator.kind == "Conv").count() == 2);
        assert!(plan.maps.iter().all(|map| map.first < map.last && map.offset + map.bytes <= plan.bytes));
    }
}
