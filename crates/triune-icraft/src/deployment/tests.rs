//! Deployments of whole networks and of parts against operators that run where their document has them: equal bits of every
//! value, however feature maps are placed.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    path::Path,
    sync::Arc,
};

use triune_device::{Board, Command, DeviceSpec, Layout, LocalBoard, TimingOptions, command};
use triune_graph::format::{
    onnx,
    xir::{Document, Mem},
};
use triune_memory::residency::Policy;

use super::{DeploymentOptions, HardDeployment, OnChip, PAGE, Placement, ValuePlace};
use crate::{HardNetwork, HardOps, Stages};
use triune_compiler::PlanOptions;
use triune_runtime::Device;

fn networks() -> Vec<(String, DeviceSpec, Arc<HardNetwork>)> {
    let mut found = Vec::new();
    for model in
        ["mlperftiny_resnet8_int8_qdq", "squeezenet_u8s8_qdq", "ultraface_u8s8_qdq", "yolox_nano_u8s8_qdq"]
    {
        let Some(path) = triune_testing::test_data(&format!("models/onnx/{model}.onnx")) else { continue };
        for name in ["zg330", "buyi"] {
            let spec = DeviceSpec::builtin(name).unwrap();
            let stages =
                Stages::new(&onnx::read(&path).unwrap(), None, &spec, &PlanOptions::default()).unwrap();
            let (json, raw) = stages.compiled.write().unwrap();
            let read = Document::read(json.as_bytes(), Some(raw.into())).unwrap();
            let network = Arc::new(HardNetwork::new(&read, Path::new("net")).unwrap());
            found.push((format!("{model} on {name}"), spec, network));
        }
    }
    found
}

/// Every value's bytes right after the operator that makes it, from random inputs.
fn reference(spec: &DeviceSpec, network: &Arc<HardNetwork>) -> HashMap<i64, Vec<u8>> {
    let device = Device::new(spec.clone()).unwrap();
    let steps = HardOps::new(&device, network, 1).unwrap();
    let made: HashSet<i64> = network.steps.iter().flat_map(|step| step.outputs.clone()).collect();
    let mut values = HashMap::new();
    let mut random = triune_testing::Random(1);
    for v_id in network.steps.iter().flat_map(|step| &step.inputs).filter(|v_id| !made.contains(v_id)) {
        let bytes = random.bytes(steps.bytes(*v_id).unwrap());
        steps.write(*v_id, &bytes).unwrap();
        values.insert(*v_id, bytes);
    }
    for step in &network.steps {
        steps.run(step.op_id, step.op_id).unwrap();
        for &v_id in &step.outputs {
            let mut bytes = vec![0; steps.bytes(v_id).unwrap()];
            steps.read(v_id, &mut bytes).unwrap();
            values.insert(v_id, bytes);
        }
    }
    values
}

/// A deployment on a board of its own, where feature maps begin as garbage.
pub(super) struct Placed {
    pub(super) board: LocalBoard,
    pub(super) deployment: Arc<HardDeployment>,
    pub(super) bases: Layout<u64>,
    pub(super) at: Placement,
}

impl Placed {
    pub(super) fn new(deployment: &Arc<HardDeployment>) -> Self {
        let board = LocalBoard::new(deployment.spec().clone(), true, 1).unwrap();
        let put = |memory: &str, content: &[u8]| {
            let region = board.info().region(memory).unwrap();
            let base = board.allocate(region, content.len().max(1) as u64, PAGE).unwrap();
            board.write(region, base, content).unwrap();
            base
        };
        let garbage = |memory: &str, bytes: u64| put(memory, &vec![0xA5; bytes as usize]);
        let sizes = deployment.sizes();
        let bases = Layout {
            instructions: put("ddr", deployment.instructions()),
            constants: put("ddr", deployment.weights()),
            scratch: garbage("ddr", sizes.scratch),
            resident: garbage("ocm", sizes.resident),
            others: sizes.others.into_iter().map(|(kind, bytes)| (kind, garbage("ddr", bytes))).collect(),
        };
        let at = Placement::new(deployment, &board, bases.clone()).unwrap();
        Self { board, deployment: Arc::clone(deployment), bases, at }
    }

    pub(super) fn read(&self, v_id: i64) -> Vec<u8> {
        let mut bytes = vec![0; self.deployment.value(v_id).unwrap().bytes as usize];
        self.at.read(&self.board, v_id, &mut bytes).unwrap();
        bytes
    }
}

/// Runs operators one by one and compares every value that they make.
fn check(label: &str, deployment: &HardDeployment, wanted: &HashMap<i64, Vec<u8>>) {
    let placed = Placed::new(&Arc::new(deployment.clone()));
    let places: HashMap<i64, &ValuePlace> =
        deployment.values().iter().map(|each| (each.v_id, each)).collect();
    let made: HashSet<i64> = deployment.ops().iter().flat_map(|op| op.outputs.clone()).collect();
    for (index, op) in deployment.ops().iter().enumerate() {
        for v_id in op.inputs.iter().filter(|v_id| !made.contains(v_id)) {
            assert!(places[v_id].area.is_some(), "{label}: {v_id}");
            placed.at.write(&placed.board, *v_id, &wanted[v_id]).unwrap();
        }
        let report = placed.at.run(&placed.board, index..index + 1).unwrap();
        assert_eq!(report.is_none(), op.instructions[1] == 0);
        for v_id in &op.outputs {
            assert!(placed.read(*v_id) == wanted[v_id], "{label}: operator {}, value {v_id}", op.op_id);
        }
    }
}

fn options(policy: Policy, reuse: bool) -> DeploymentOptions {
    DeploymentOptions { reuse, on_chip: OnChip::Policy(policy), ..DeploymentOptions::default() }
}

#[test]
fn every_layout_gives_every_value() {
    for (name, spec, network) in networks() {
        let wanted = reference(&spec, &network);
        let mut sizes = Vec::new();
        for reuse in [true, false] {
            for policy in [Policy::None, Policy::BestScore] {
                let deployment = HardDeployment::new(&network, &spec, &options(policy, reuse)).unwrap();
                let label = format!("{name}, {policy:?}, reuse {reuse}");
                check(&label, &deployment, &wanted);
                sizes.push(deployment.map_bytes);
                assert_eq!(deployment.on_chip_bytes() > 0, policy != Policy::None, "{label}");
                for run in deployment.runs() {
                    assert!(deployment.stream(run.clone()).is_ok());
                }
            }
        }
        assert!(sizes[0] < sizes[2] && sizes[1] <= sizes[3], "{name}: {sizes:?}");
        let compiled = DeploymentOptions { on_chip: OnChip::Compiled, ..DeploymentOptions::default() };
        check(&name, &HardDeployment::new(&network, &spec, &compiled).unwrap(), &wanted);
    }
}

#[test]
fn parts_of_a_network_give_its_values() {
    for (name, spec, network) in networks() {
        let wanted = reference(&spec, &network);
        let ids: Vec<i64> = network.op_ids().collect();
        let picks: [&dyn Fn(usize) -> bool; 4] =
            [&|at| at < ids.len() / 2, &|at| at >= ids.len() / 2, &|at| at % 3 != 1, &|at| at % 2 == 0];
        for (number, pick) in picks.iter().enumerate() {
            let ops = (0..ids.len()).filter(|&at| pick(at)).map(|at| ids[at]).collect();
            let own = DeploymentOptions { ops: Some(ops), ..DeploymentOptions::default() };
            let deployment = HardDeployment::new(&network, &spec, &own).unwrap();
            check(&format!("{name}, part {number}"), &deployment, &wanted);
        }
    }
}

#[test]
fn options_differ_in_bytes_and_time() {
    for (name, spec, network) in networks() {
        let cost = |policy| {
            let deployment = HardDeployment::new(&network, &spec, &options(policy, true)).unwrap();
            let whole = 0..deployment.ops().len();
            let cost = deployment.cost(whole, &spec, &TimingOptions::default()).unwrap();
            let value = deployment.residency().unwrap().value;
            (cost, value, deployment.residency().unwrap().policy)
        };
        let (none, nothing, _) = cost(Policy::None);
        assert_eq!((nothing, none.near), (0, [0, 0]), "{name}");
        let each = [Policy::Option1, Policy::Option2, Policy::Option3].map(|policy| (policy, cost(policy)));
        let (best, value, chosen) = cost(Policy::BestScore);
        let most = each.iter().max_by_key(|(_, (_, value, _))| *value).unwrap();
        assert_eq!(value, most.1.1, "{name}");
        assert!(each.iter().any(|(policy, own)| *policy == chosen && own.0 == best), "{name}");
        let far = |cost: super::Cost| cost.far[0] + cost.far[1];
        assert!(far(best) < far(none) && best.cycles <= none.cycles, "{name}");
    }
}

#[test]
fn all_is_deployed_and_shares_memory_unless_asked_otherwise() {
    let options = DeploymentOptions::default();
    assert_eq!((options.ops, options.outputs, options.on_chip_bytes), (None, vec![], None));
    assert!(options.reuse);
    assert_eq!(options.on_chip, OnChip::Policy(Policy::BestScore));
}

/// Where everything lies and how long each operator takes, as it was when results were last compared.
#[test]
fn pinned_deployments() {
    let networks = networks();
    if networks.is_empty() {
        return;
    }
    let mut out = String::new();
    for (name, spec, network) in networks {
        for (reuse, on_chip) in [
            (true, OnChip::Policy(Policy::BestScore)),
            (true, OnChip::Compiled),
            (false, OnChip::Policy(Policy::None)),
        ] {
            let options = DeploymentOptions { reuse, on_chip, ..DeploymentOptions::default() };
            let made = HardDeployment::new(&network, &spec, &options).unwrap();
            writeln!(out, "== {name} on {}: reuse {reuse}, {on_chip:?}", spec.name).unwrap();
            writeln!(out, "{:?} {:?}", made.segments(), made.residency()).unwrap();
            let values = format!("{:?} {:?} {:?}", made.areas(), made.values(), made.runs());
            let makes = format!("{:?}", made.makes(0..made.ops().len()).unwrap());
            let digests = [values.as_bytes(), makes.as_bytes(), made.instructions(), made.weights()];
            writeln!(out, "{:016x?}", digests.map(triune_testing::digest)).unwrap();
            let mut costs = String::new();
            for (index, op) in made.ops().iter().enumerate() {
                let cost = made.cost(index..index + 1, &spec, &TimingOptions::default()).unwrap();
                writeln!(costs, "  {op:?} {cost:?}").unwrap();
            }
            // Of one network line by line.
            if name.starts_with("mlperftiny") && reuse && on_chip != OnChip::Compiled {
                out.push_str(&costs);
            }
            writeln!(out, "{:016x}", triune_testing::digest(costs.as_bytes())).unwrap();
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/networks/deployments.txt");
    triune_testing::pinned(&file, &out);
}

#[test]
fn wrong_requests_are_named() {
    let Some((_, spec, network)) = networks().into_iter().next() else { return };
    let missing = DeploymentOptions { ops: Some(vec![1 << 40]), ..DeploymentOptions::default() };
    let error = HardDeployment::new(&network, &spec, &missing).unwrap_err();
    assert!(error.to_string().contains("no HardOp"), "{error}");
    let deployment = Arc::new(HardDeployment::new(&network, &spec, &DeploymentOptions::default()).unwrap());
    let placed = Placed::new(&deployment);
    let mut bases = placed.bases;
    bases.others.pop();
    assert!(Placement::new(&deployment, &placed.board, bases).is_err());
    assert!(deployment.stream(0..1000).is_err());
}

#[test]
fn networks_of_the_vendors_compiler_are_laid_out() {
    let Some(path) = triune_testing::test_data("models/xir/yolov5s_plin_BY.json") else { return };
    let document = Document::read(&std::fs::read(&path).unwrap(), None).unwrap();
    let network = Arc::new(HardNetwork::any(&document, &path).unwrap());
    assert!(network.is_vendors() && !network.is_complete());
    // A network of pictures of 352 x 640: maps keep rows and columns, halved from layer to layer.
    let mut convolutions = 0;
    for each in command::decode(&network.program.instructions).unwrap() {
        let Command::QConv(conv) = each else { continue };
        for map in [conv.input, conv.output] {
            assert_eq!((map.n, 20 * map.h), (1, 11 * map.w), "{conv:?}");
            assert!(map.w >= 20 && 640 % map.w == 0, "{conv:?}");
        }
        convolutions += 1;
    }
    assert!(convolutions > 50, "{convolutions}");
    let mut out = String::new();
    for command in command::decode(&network.program.instructions).unwrap() {
        writeln!(out, "{command:?}").unwrap();
    }
    network.program.buffers.iter().for_each(|buffer| writeln!(out, "{buffer:?}").unwrap());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/networks/outline.txt");
    triune_testing::pinned(&file, &out);
    let spec = DeviceSpec::builtin(&network.program.target).unwrap();
    let outputs: Vec<i64> = network.steps.last().unwrap().outputs.clone();
    let own = |reuse| DeploymentOptions {
        outputs: outputs.clone(),
        reuse,
        on_chip: OnChip::Compiled,
        ..DeploymentOptions::default()
    };
    let shared = HardDeployment::new(&network, &spec, &own(true)).unwrap();
    let apart = HardDeployment::new(&network, &spec, &own(false)).unwrap();
    let bytes = |deployment: &HardDeployment, name: &str| {
        deployment.segments().iter().find(|segment| segment.name == name).unwrap().bytes
    };
    assert!(bytes(&shared, "ftmp") < bytes(&apart, "ftmp"));
    // Apart, values lie where the document has them, and segments follow each other as its tags say.
    let given =
        document.ops.iter().filter(|op| op.type_key != "icraft::xir::HardOp").flat_map(|op| &op.inputs);
    let given: Vec<i64> = given.flatten().map(|&index| document.values[index].v_id).collect();
    let apart =
        HardDeployment::new(&network, &spec, &DeploymentOptions { outputs: given, ..own(false) }).unwrap();
    let tag = |name: &str| document.tags[name].as_u64().unwrap();
    for (name, tagged) in
        [("weight", "params"), ("input", "input"), ("output", "output"), ("ftmp", "ftmp"), ("instr", "instr")]
    {
        let segment = apart.segments().iter().find(|segment| segment.name == name).unwrap();
        assert_eq!(segment.logic, tag(&format!("{tagged}_segment_addr")), "{name}");
        assert!(segment.bytes <= tag(&format!("{tagged}_segment_bytesize")), "{name}");
    }
    for value in apart.values() {
        let stated = document.values.iter().find(|other| other.v_id == value.v_id).unwrap();
        let place = if value.on_chip { Mem::OnChip(value.logic) } else { Mem::External(value.logic) };
        assert_eq!(stated.mtype, place, "value {}", value.v_id);
    }
    assert!(bytes(&shared, "weight") >= 7_000_000 && bytes(&shared, "instr") >= 700_000);
    assert!(shared.areas().len() >= 2);
    let whole = 0..shared.ops().len();
    assert!(shared.cost(whole, &spec, &TimingOptions::default()).unwrap().cycles > 1_000_000);
}
