//! Networks of the vendor's compiler: their constants and instructions as bytes that can be put into memory, their operators by
//! what their shapes say. What the instructions mean is not known.

use std::{collections::HashMap, ops::Range, path::Path, sync::Arc};

use bytes::Bytes;
use triune_device::command;
use triune_graph::format::xir::{Attribute, Document, Target, Value};
use triune_memory::residency::Policy;

use super::{
    HardNetwork,
    estimate::{Estimate, HARD_OP},
    load::{Place, Step, Vendor, VendorStream},
};
use crate::Error;
use triune_compiler::{Program, Residency};

/// The accelerator's part of a document of the vendor's compiler, its operators standing for their time alone.
pub(super) fn network(document: &Document, path: &Path) -> Result<HardNetwork, Error> {
    let constants = Vendors::new(document, path)?;
    let (program, steps, places) = Estimate::new(document, path)?.program()?;
    let mut values = HashMap::new();
    let mut listed = Vec::with_capacity(steps.len());
    let mut at = 0;
    let commands = command::decode(&program.instructions)?;
    let words = |span: &Range<usize>| -> u64 {
        commands.get(span.clone()).map_or(0, |own| own.iter().map(|each| 4 * each.words() as u64).sum())
    };
    for (position, span) in steps {
        let op = &document.ops[position];
        let mut ids = Vec::new();
        for &index in op.inputs.iter().flatten().chain(&op.outputs) {
            let value = document.values.get(index);
            let place = value.and_then(|value| Some((value, place(value, places.get(&value.mtype)?)?)));
            let (value, place) = place.ok_or_else(|| {
                Error::package(path, format!("HardOp {}: a value that lies nowhere", op.op_id))
            })?;
            ids.push(value.v_id);
            values.insert(value.v_id, place);
        }
        let outputs = ids.split_off(op.inputs.iter().flatten().count());
        let bytes = words(&span);
        listed.push(Step {
            op_id: op.op_id,
            position,
            pieces: constants.pieces.get(&position).cloned().unwrap_or_default(),
            bytes: [at, bytes],
            inputs: ids,
            outputs,
        });
        at += bytes;
    }
    let resident = program.buffers.iter().filter(|buffer| buffer.segment == Program::RESIDENT);
    let peak = resident.map(|buffer| buffer.offset + buffer.bytes).max();
    let residency = peak.map(|peak| Residency {
        policy: Policy::None,
        capacity: peak,
        value: 0,
        bound: 0,
        peak,
        lower_bound: 0,
    });
    let program = Program {
        constants: constants.data.clone().unwrap_or_default(),
        residency: program.residency.or(residency),
        ..(*program).clone()
    };
    let streams =
        listed.iter().map(|step| constants.streams.get(&step.position).cloned().unwrap_or_default());
    let vendor = Vendor {
        weight_bytes: constants.bytes,
        complete: constants.data.is_some(),
        addressed: document.ops.iter().any(|op| op.type_key == HARD_OP && op.target == Target::Buyi),
        streams: streams.collect(),
    };
    let last_op = document.ops.iter().map(|op| op.op_id).max().unwrap_or_default();
    Ok(HardNetwork { program: Arc::new(program), steps: listed, values, last_op, vendor: Some(vendor) })
}

/// Where a value's elements lie, given where its first one does.
fn place(value: &Value, &(segment, offset): &(u16, u64)) -> Option<Place> {
    let extents: Option<Vec<usize>> =
        value.dtype.shape.iter().map(|&extent| usize::try_from(extent).ok()).collect();
    let extents = extents?;
    let element_bytes = usize::try_from(value.dtype.element.storage().bytes()).ok()?;
    let mut strides = vec![0; extents.len()];
    let mut step = element_bytes as u64;
    for (stride, &extent) in strides.iter_mut().zip(&extents).rev() {
        *stride = step;
        step = step.checked_mul(extent as u64)?;
    }
    let place = Place { segment, offset, element_bytes, extents, strides };
    place.bytes()?;
    Some(place)
}

/// What no memory has: sizes stay so far below 64 bits that their sums cannot overflow.
const MOST: u64 = 1 << 40;

fn sum(a: u64, b: u64) -> Option<u64> {
    a.checked_add(b).filter(|&sum| sum <= MOST)
}

/// The constants and instructions of the vendor's operators, as they are to lie in memory.
struct Vendors {
    /// First byte and bytes of each constant, by the operator's position.
    pieces: HashMap<usize, Vec<[u64; 2]>>,
    /// Bytes of all constants.
    bytes: u64,
    /// The constants, if the document has all of its data.
    data: Option<Bytes>,
    /// Instructions, by the operator's position.
    streams: HashMap<usize, VendorStream>,
}

impl Vendors {
    fn new(document: &Document, path: &Path) -> Result<Self, Error> {
        let mut own = Self { pieces: HashMap::new(), bytes: 0, data: None, streams: HashMap::new() };
        let mut found: HashMap<i64, [u64; 2]> = HashMap::new();
        let (mut data, mut complete) = (Vec::new(), true);
        for (position, op) in document.ops.iter().enumerate().filter(|(_, op)| op.type_key == HARD_OP) {
            let wrong = |what: &str| Error::package(path, format!("HardOp {}: {what}", op.op_id));
            let constants = |key: &str| -> Vec<&Value> {
                let Some(Attribute::List(list)) = op.attributes.get(key) else { return Vec::new() };
                let value = |item: &Attribute| match item {
                    Attribute::Value(index) => document.values.get(*index),
                    _ => None,
                };
                list.iter().filter_map(value).collect()
            };
            let size = |value: &Value| -> Option<u64> {
                let extents = value.dtype.shape.iter().map(|&extent| u64::try_from(extent).ok());
                let bytes = value.dtype.element.storage().bytes();
                extents.into_iter().try_fold(bytes, |all, extent| all.checked_mul(extent?))
            };
            let stored = |value: &Value, bytes: u64| {
                let data = value.params.as_ref().and_then(|params| params.data.clone());
                data.filter(|data| data.len() as u64 == bytes)
            };
            for value in constants("params") {
                let bytes = size(value).ok_or_else(|| wrong("a constant of no size"))?;
                let piece = if let Some(piece) = found.get(&value.v_id) {
                    *piece
                } else {
                    let first = own.bytes.next_multiple_of(64);
                    own.bytes =
                        sum(first, bytes).ok_or_else(|| wrong("more constants than any memory holds"))?;
                    match stored(value, bytes) {
                        Some(own) if complete => {
                            data.resize(first as usize, 0);
                            data.extend_from_slice(&own);
                        }
                        _ => complete = false,
                    }
                    found.insert(value.v_id, [first, bytes]);
                    [first, bytes]
                };
                own.pieces.entry(position).or_default().push(piece);
            }
            let mut stream = VendorStream::default();
            for value in constants("instr") {
                let bytes = size(value).ok_or_else(|| wrong("instructions of no size"))?;
                stream.bytes = sum(stream.bytes, bytes)
                    .ok_or_else(|| wrong("more instructions than any memory holds"))?;
                match stored(value, bytes) {
                    Some(data) => stream.data.extend_from_slice(&data),
                    None => complete = false,
                }
            }
            own.streams.insert(position, stream);
        }
        own.data = complete.then(|| data.into());
        Ok(own)
    }
}
