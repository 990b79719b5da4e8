//! Placements against what their bytes say, one by one.

use std::{collections::BTreeSet, path::Path};

use triune_device::DeviceSpec;
use triune_graph::format::onnx;
use triune_testing::Random;

use super::{super::tests::Placed, *};
use crate::{DeploymentOptions, HardNetwork, PAGE, Stages, load::Place};

/// The network that comes with Triune.
fn digits(device: &str) -> Arc<HardDeployment> {
    let spec = DeviceSpec::builtin(device).unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/triune/models/digits_int8.onnx");
    let plan = triune_compiler::PlanOptions::default();
    let stages = Stages::new(&onnx::read(model).unwrap(), None, &spec, &plan).unwrap();
    let network = Arc::new(HardNetwork::new(&stages.compiled, Path::new("digits")).unwrap());
    Arc::new(HardDeployment::new(&network, &spec, &DeploymentOptions::default()).unwrap())
}

/// The bytes of a segment, one by one.
fn bytes(segment: &Segment) -> BTreeSet<(usize, u64)> {
    (segment.base..segment.base + segment.len).map(|at| (segment.region.0, at)).collect()
}

/// The only input and the only output.
fn ends(deployment: &HardDeployment) -> (i64, i64) {
    let first = deployment.ops()[0].inputs.iter();
    let mut given = first.copied().filter(|v_id| deployment.value(*v_id).unwrap().segment == "input");
    let made = deployment.values().iter().filter(|value| value.segment == "output");
    (given.next().unwrap(), made.max_by_key(|value| value.v_id).unwrap().v_id)
}

#[test]
fn segments_that_share_bytes_are_found() {
    let placed = Placed::new(&digits("zg330"));
    assert_eq!(placed.at.collision(), None);
    let mut random = Random(1);
    let mut found = 0;
    for _ in 0..300 {
        let mut at = placed.at.clone();
        // Small ones close together.
        for segment in &mut at.segments {
            segment.base = 64 * random.below(60) as u64;
            segment.len = segment.len.min(random.below(200) as u64);
        }
        let all: Vec<_> = at.segments.iter().map(bytes).collect();
        let meets = |one: usize, other: usize| all[one].intersection(&all[other]).next().is_some();
        let pairs = (0..2).flat_map(|one| (one + 1..all.len()).map(move |other| (one, other)));
        let wanted = pairs.into_iter().find(|&(one, other)| meets(one, other));
        assert_eq!(at.collision(), wanted, "{:?}", at.segments);
        found += u32::from(wanted.is_some());
        let (first, size) = (random.below(4000) as u64, random.below(300) as u64);
        let written: BTreeSet<_> = (first..first + size).map(|byte| (0, byte)).collect();
        let damaged = (0..2).find(|&index| all[index].intersection(&written).next().is_some());
        assert_eq!(at.damaged(first, size), damaged, "{:?}", at.segments);
    }
    assert!((30..270).contains(&found), "{found}");
}

#[test]
fn a_flipped_byte_is_its_operators() {
    for device in ["zg330", "buyi"] {
        let deployment = digits(device);
        let mut random = Random(2);
        for (kind, content) in [
            (SegmentKind::Instructions, deployment.instructions()),
            (SegmentKind::Constants, deployment.weights()),
        ] {
            assert_eq!(deployment.fault(kind, content), None);
            for _ in 0..50 {
                let mut there = content.to_vec();
                let ends = [random.below(there.len()), random.below(there.len())];
                for at in ends {
                    there[at] ^= 0x10;
                }
                let at = ends[0].min(ends[1]);
                let fault = deployment.fault(kind, &there);
                let wanted = (ends[0] != ends[1]).then(|| {
                    let owner = deployment.ops().iter().find(|op| {
                        let mut pieces = vec![op.instructions];
                        if kind == SegmentKind::Constants {
                            pieces.clone_from(&op.weights);
                        }
                        pieces.iter().any(|[first, bytes]| at as u64 >= *first && (at as u64) < first + bytes)
                    });
                    Fault {
                        op_id: owner.map(|op| op.op_id),
                        offset: at as u64,
                        wanted: content[at],
                        found: content[at] ^ 0x10,
                    }
                });
                assert_eq!(fault, wanted);
            }
        }
        assert_eq!(deployment.fault(SegmentKind::Scratch, &[1]), None);
    }
}

#[test]
fn areas_lie_in_what_was_given_for_all_of_them() {
    let deployment = digits("zg330");
    let (given, made) = ends(&deployment);
    let [input, output] = [given, made].map(|v_id| deployment.value(v_id).unwrap());
    let seat = |chunks: &[(i64, u64)], value: &ValuePlace| {
        deployment.seats(chunks, false).unwrap()[value.area.unwrap()]
    };
    assert!(deployment.seats(&[], false).unwrap().iter().all(|seat| *seat == Seat::Own));
    let need = deployment.areas()[input.area.unwrap()].bytes;
    let whole = input.offset == 0 && input.is_dense();
    assert_eq!(seat(&[(given, need)], input) == Seat::Value(given), whole);
    assert_eq!(seat(&[(given, need - 1)], input), Seat::Own);
    assert_eq!(seat(&[(given, need)], output), Seat::Own);
    // Packed, areas have the distances of their logical addresses.
    let packed = deployment.seats(&[], true).unwrap();
    for (area, seat) in deployment.areas().iter().zip(packed) {
        let edge = deployment.segments().iter().find(|segment| segment.name == area.role.name()).unwrap();
        assert_eq!(seat, Seat::Edge(area.logic - edge.logic));
    }
    let inside = deployment.values().iter().find(|value| value.area.is_none()).unwrap();
    assert!(deployment.seats(&[(inside.v_id, 1 << 20)], false).is_err());
    assert!(deployment.seats(&[(-1, 1 << 20)], false).is_err());
}

#[test]
fn results_are_made_where_they_are_wanted() {
    for device in ["zg330", "buyi"] {
        let deployment = digits(device);
        let placed = Placed::new(&deployment);
        let (given, made) = ends(&deployment);
        let ops = 0..deployment.ops().len();
        let pixels = Random(3).bytes(deployment.value(given).unwrap().bytes as usize);
        placed.at.write(&placed.board, given, &pixels).unwrap();
        placed.at.run(&placed.board, ops.clone()).unwrap().unwrap();
        let wanted = placed.read(made);

        let value = deployment.value(made).unwrap();
        let area = value.area.unwrap();
        let far = placed.at.segments[0].region;
        let place = placed.board.allocate(far, 1 << 16, PAGE).unwrap();
        let at = |address, bytes| Wanted { v_id: made, address, bytes };
        let moves = |wanted: &[Wanted]| placed.at.moves(ops.clone(), wanted).unwrap();
        let whole = value.is_dense() && value.bytes == deployment.areas()[area].bytes;
        assert!(whole, "{device}: nothing to move");
        assert_eq!(moves(&[at(place + 64, value.bytes)]), [(area, place + 64)]);
        // The first of two is made there.
        assert_eq!(moves(&[at(place, value.bytes), at(place + 4096, value.bytes)]), [(area, place)]);
        for (address, bytes) in [
            (place + 32, 1 << 10),
            (place, value.bytes - 1),
            (placed.bases.instructions, 1 << 10),
            (placed.at.address(given).unwrap(), 1 << 10),
            (placed.bases.constants, 1 << 10),
        ] {
            assert_eq!(moves(&[at(address, bytes)]), [], "{address:#x}, {bytes} bytes");
        }
        // Its own place is as good as any.
        assert_eq!(moves(&[at(placed.at.address(made).unwrap(), value.bytes)]).len(), 1);
        // Not without the operator that makes it.
        let others = 0..ops.end - 1;
        let makes = deployment.ops()[others.clone()].iter().any(|op| op.outputs.contains(&made));
        assert!(makes || placed.at.moves(others, &[at(place, value.bytes)]).unwrap().is_empty());

        let (region, old) = (far, placed.at.address(made).unwrap());
        let mark = vec![0x5A; wanted.len()];
        placed.board.write(region, old, &mark).unwrap();
        let moved = moves(&[at(place, value.bytes)]);
        let there = placed.at.moved(&moved).unwrap();
        there.run(&placed.board, ops.clone()).unwrap().unwrap();
        assert_eq!(placed.read(made), mark);
        let mut found = vec![0; wanted.len()];
        there.read(&placed.board, made, &mut found).unwrap();
        assert_eq!((there.address(made).unwrap(), found), (place, wanted));

        assert!(placed.at.moves(ops.clone(), &[Wanted { v_id: -1, address: 0, bytes: 0 }]).is_err());
        assert!(placed.at.moved(&[(99, place)]).is_err() && placed.at.moved(&[(usize::MAX, place)]).is_err());
        assert!(placed.at.run(&placed.board, ops.end..ops.end + 1).is_err());
        let over = placed.at.moved(&[(area, placed.bases.instructions)]).unwrap();
        assert!(over.run(&placed.board, ops).is_err());
    }
}

#[test]
fn values_that_are_not_all_of_their_area_stay_in_it() {
    let whole = digits("zg330");
    let made = whole.ops().iter().flat_map(|op| op.outputs.iter().copied()).collect();
    let options = DeploymentOptions { outputs: made, ..DeploymentOptions::default() };
    let mut deployment = HardDeployment::new(&whole.network, &whole.spec, &options).unwrap();
    let ops = 0..deployment.ops().len();
    let fills = |deployment: &HardDeployment, value: &ValuePlace| {
        let area = &deployment.areas()[value.area.unwrap()];
        value.segment == "output" && value.is_dense() && value.bytes == area.bytes
    };
    let outputs = deployment.values().iter().filter(|value| value.area.is_some());
    let outputs: Vec<(i64, usize)> = outputs
        .filter(|value| fills(&deployment, value))
        .map(|value| (value.v_id, value.area.unwrap()))
        .collect();
    let [(one, first), (other, second), ..] = outputs[..] else { panic!("{outputs:?}") };
    assert_ne!(first, second);
    let at = |v_id, address| Wanted { v_id, address, bytes: 1 << 16 };

    let placed = Placed::new(&Arc::new(deployment.clone()));
    let far = placed.at.segments[0].region;
    let place = placed.board.allocate(far, 1 << 20, PAGE).unwrap();
    let moves = |wanted: &[Wanted]| placed.at.moves(ops.clone(), wanted).unwrap();
    // Neither over the other.
    assert_eq!(moves(&[at(one, place), at(other, place)]), [(first, place)]);
    assert_eq!(
        moves(&[at(one, place), at(other, place + (1 << 16))]),
        [(first, place), (second, place + (1 << 16))]
    );

    let index = deployment.values.iter().position(|value| value.v_id == one).unwrap();
    for change in [
        |value: &mut ValuePlace| value.offset = 1,
        |value: &mut ValuePlace| value.span += 1,
        |value: &mut ValuePlace| (value.bytes, value.span) = (value.bytes - 1, value.span - 1),
    ] {
        let old = deployment.values[index].clone();
        change(&mut deployment.values[index]);
        let changed = Arc::new(deployment.clone());
        let placed = Placement { deployment: Arc::clone(&changed), segments: placed.at.segments.clone() };
        assert_eq!(placed.moves(ops.clone(), &[at(one, place)]).unwrap(), []);
        // A chunk for a value holds what begins with it, less of it even.
        let given = changed.seats(&[(one, 1 << 20)], false).unwrap()[first];
        let value = &changed.values[index];
        assert_eq!(given == Seat::Value(one), value.offset == 0 && value.is_dense());
        deployment.values[index] = old;
    }
    // Of several chunks the first that does.
    let (small, large) = (deployment.areas()[first].bytes - 1, 1 << 20);
    let seats = deployment.seats(&[(one, small), (other, large), (one, large)], false).unwrap();
    assert_eq!((seats[first], seats[second]), (Seat::Value(one), Seat::Value(other)));
}

#[test]
fn rows_of_operators_have_their_streams_and_constants() {
    for device in ["zg330", "buyi"] {
        let deployment = digits(device);
        let ops = deployment.ops();
        for first in 0..ops.len() {
            for last in first + 1..=ops.len() {
                let row = &ops[first..last];
                let held = |pieces: Vec<[u64; 2]>| -> BTreeSet<u64> {
                    pieces.iter().flat_map(|[at, bytes]| *at..at + bytes).collect()
                };
                let weights = held(row.iter().flat_map(|op| op.weights.clone()).collect());
                let [at, bytes] = deployment.constants(first..last).unwrap();
                assert_eq!(bytes == 0, weights.is_empty());
                if bytes > 0 {
                    assert_eq!((Some(&at), Some(&(at + bytes - 1))), (weights.first(), weights.last()));
                }
                let streams = held(row.iter().map(|op| op.instructions).collect());
                let [at, bytes] = deployment.stream(first..last).unwrap();
                assert_eq!((at..at + bytes).collect::<BTreeSet<_>>(), streams);
                let layers: Vec<i64> =
                    row.iter().filter(|op| op.instructions[1] > 0).map(|op| op.op_id).collect();
                for layer in 0..=layers.len() {
                    let found = deployment.layer(first..last, layer).unwrap();
                    assert_eq!(found, layers.get(layer).copied());
                }
            }
        }
        assert!(deployment.constants(0..0).is_err() && deployment.layer(0..1000, 0).is_err());
    }
}

#[test]
fn gaps_between_elements_stay() {
    let mut deployment = HardDeployment::clone(&digits("zg330"));
    // A value of its own, in the middle of an area.
    let at = deployment.values.iter().position(|value| value.area.is_some() && value.bytes >= 60).unwrap();
    let value = &mut deployment.values[at];
    let place =
        Place { segment: 0, offset: 1000, element_bytes: 2, extents: vec![2, 3, 2], strides: vec![28, 8, 4] };
    (value.offset, value.bytes, value.span) = (3, 24, place.span().unwrap());
    let (v_id, span) = (value.v_id, value.span as usize);
    let mut network = HardNetwork::clone(&deployment.network);
    network.values.insert(v_id, place);
    deployment.network = Arc::new(network);
    let placed = Placed::new(&Arc::new(deployment));
    let elements = Random(4).bytes(24);
    placed.at.write(&placed.board, v_id, &elements).unwrap();
    assert_eq!(placed.read(v_id), elements);
    let mut wanted = vec![0xA5; span + 2];
    for (index, element) in elements.chunks(2).enumerate() {
        let [a, b, c] = [index / 6, index / 2 % 3, index % 2];
        let first = 1 + 28 * a + 8 * b + 4 * c;
        wanted[first..first + 2].copy_from_slice(element);
    }
    let mut there = vec![0; span + 2];
    let address = placed.at.address(v_id).unwrap() - 1;
    placed.board.read(placed.at.segments[0].region, address, &mut there).unwrap();
    assert_eq!(there, wanted);
    assert!(matches!(placed.at.write(&placed.board, v_id, &elements[1..]), Err(Error::Operand { .. })));
    assert!(placed.at.read(&placed.board, -1, &mut []).is_err());
}
