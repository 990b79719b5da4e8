//! What a partition came to, for people: what runs where, why, and what crosses.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use triune_graph::{Graph, NodeId, Op, ValueId, ValueKind};
use triune_tensor::{DType, QuantParams, Shape, text::Name};

use super::{
    Crossings, Reasons, is_device,
    reasons::{LACKS, TOO_LITTLE},
};
use crate::outline::macs;

/// What runs where, and what crosses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Operators on the device.
    pub device: Share,
    /// Operators on the host; what only quantizes or dequantizes is none.
    pub host: Share,
    /// How often the device begins.
    pub segments: usize,
    /// The operators on the host.
    pub stayed: Vec<Stayed>,
    /// What crosses between the two.
    pub crossings: Vec<Crossing>,
    /// What the model gives.
    pub outputs: Vec<Given>,
    /// The name and the operator of a node that takes images of a batch together, as [`taken_together`](crate::taken_together) finds it.
    pub together: Option<(String, String)>,
}

/// Operators on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many.
    pub operators: usize,
    /// Their multiply-accumulates with weights or between matrices, per image.
    pub macs: u64,
}

/// An operator that stayed on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stayed {
    /// The node's name in the model.
    pub node: String,
    /// The operator.
    pub op: String,
    /// Its multiply-accumulates.
    pub macs: u64,
    /// Why it stayed.
    pub reason: String,
}

/// A tensor that crosses between host and device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Its name.
    pub name: String,
    /// Whether it goes to the device.
    pub to_device: bool,
    /// Which segment of the device takes it or has given it last, counted from 0.
    pub segment: usize,
    /// Bytes of its integers, without padding, per image.
    pub bytes: u64,
}

/// An output of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// Its name.
    pub name: String,
    /// What callers get, or the numbers of the strings that they do.
    pub dtype: DType,
    /// Whether these are strings.
    pub strings: bool,
    /// Its extents in the model's order of axes, of one image.
    pub shape: Shape,
    /// What integers behind it mean, if it is no more than these dequantized.
    pub quant: Option<(DType, QuantParams)>,
}

impl Report {
    /// Logs what stays on the host.
    pub fn tell(&self) {
        for Stayed { node, op, reason, .. } in &self.stayed {
            log::debug!(target: "triune::compile", "'{}' ({op}) stays on the host: {reason}", Name(node));
        }
    }

    /// That of a prepared graph whose nodes have these stages; those of `kept` stayed for what crosses has no
    /// name in the model, or if they are `lost` too, for the host in front of them lacks something.
    pub fn new(
        prepared: &Graph,
        stages: &[u32],
        crossings: &Crossings,
        [kept, lost]: [&HashSet<NodeId>; 2],
        int16: bool,
    ) -> Self {
        let reasons = Reasons::new(prepared, stages, kept, int16).with_lost(lost);
        let mut spelled_out = HashMap::new();
        let mut report = Self { segments: crossings.pauses.len() + 1, ..Self::default() };
        for (index, (node, &stage)) in prepared.nodes.iter().zip(stages).enumerate() {
            if matches!(node.op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_)) {
                continue;
            }
            let own = macs(prepared, node);
            // What one node of the model was spelled out as is one operator.
            let row = report.stayed.len();
            let place = node.origin.as_ref().map(|origin| (is_device(stage), &origin.node, &origin.op));
            let known = place.and_then(|place| match spelled_out.entry(place) {
                Entry::Occupied(known) => Some(*known.get()),
                Entry::Vacant(new) => {
                    new.insert(row);
                    None
                }
            });
            let share = if is_device(stage) { &mut report.device } else { &mut report.host };
            share.operators += usize::from(known.is_none());
            share.macs = share.macs.saturating_add(own);
            if is_device(stage) {
                continue;
            }
            let reason = reasons.of(NodeId(index as u32));
            let (name, op) = node.title();
            match known {
                Some(row) => {
                    let known: &mut Stayed = &mut report.stayed[row];
                    known.macs = known.macs.saturating_add(own);
                    // What the device lacks says more than what that keeps on the host, and what keeps all pieces there more
                    // than that those that could go are too few.
                    let weight = |reason: &str| (reason.starts_with(LACKS), reason != TOO_LITTLE);
                    if weight(&reason) > weight(&known.reason) {
                        known.reason = reason;
                    }
                }
                None => report.stayed.push(Stayed { node: name.into(), op: op.into(), macs: own, reason }),
            }
        }
        let bytes = |id: ValueId| {
            let value = prepared.value(id);
            let elements = value.fixed_shape().and_then(|shape| shape.elements()).unwrap_or(0);
            (elements * value.dtype.map_or(1, DType::bytes)) as u64
        };
        let mut cross = |ids: &mut dyn Iterator<Item = ValueId>, to_device, segment| {
            for id in ids {
                let name = prepared.value(id).name.clone();
                report.crossings.push(Crossing { name, to_device, segment, bytes: bytes(id) });
            }
        };
        cross(&mut crossings.inputs[..crossings.given].iter().copied(), true, 0);
        for (pause, segment) in crossings.pauses.iter().zip(0..) {
            cross(&mut pause.reads.iter().map(|&index| crossings.outputs[index]), false, segment);
            cross(&mut pause.makes.iter().map(|&index| crossings.inputs[index]), true, segment + 1);
        }
        let last = crossings.pauses.len();
        cross(&mut crossings.outputs[..crossings.results].iter().copied(), false, last);
        let producers = prepared.producers();
        report.outputs = prepared
            .outputs
            .iter()
            .filter_map(|&id| {
                let value = prepared.value(id);
                let maker = producers[id.0 as usize].map(|maker| &prepared.nodes[maker.0 as usize]);
                let quant =
                    maker.filter(|node| matches!(node.op, Op::DequantizeLinear(_))).and_then(|node| {
                        let dtype = prepared.value(node.inputs.first().copied()??).dtype?;
                        Some((dtype, prepared.border_params(node)?))
                    });
                let (dtype, shape) = (value.dtype?, value.fixed_shape()?);
                let strings = value.kind == ValueKind::Strings;
                Some(Given { name: value.name.clone(), dtype, strings, shape, quant })
            })
            .collect();
        report
    }

    /// The device's share of the multiply-accumulates, from 0 to 1; 1 where there are none.
    pub fn share(&self) -> f64 {
        let all = self.device.macs.saturating_add(self.host.macs);
        if all == 0 { 1.0 } else { self.device.macs as f64 / all as f64 }
    }
}
