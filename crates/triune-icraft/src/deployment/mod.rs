//! Operators with commands laid out for a board: segments, the place of every value, a stream of commands for each operator.
//!
//! A deployment has some of a network's operators. What they read from others and give to others gets memory of its own;
//! what stays between them is planned anew. Nothing here holds memory of a board: whoever deploys says where the segments lie
//! ([`Placement`]).

mod border;
mod cost;
mod homes;
mod layout;
mod placement;
#[cfg(test)]
mod tests;

use std::{ops::Range, sync::Arc};

use triune_device::{Command, DeviceSpec, Layout, command};
use triune_memory::residency::Policy;

pub use border::{Area, LogicSegment, Role};
pub use cost::Cost;
pub use layout::ValuePlace;
pub use placement::{Fault, Placement, Seat, Wanted};

use super::{HardNetwork, load::VendorStream, made::made};
use crate::Error;
use triune_compiler::{PlannedBuffer, Program, Residency};

/// Alignment of segments and of what lies in them by itself, in bytes: the vendor's pages.
pub const PAGE: u64 = 4096;

/// Bytes that the stream of an operator is a multiple of: a burst of the far memory.
const BURST: u64 = 64;

/// How the feature maps that stay on the chip are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChip {
    /// Those that the document has there.
    Compiled,
    /// Anew.
    Policy(Policy),
}

/// What is deployed, and how feature maps are placed.
#[derive(Clone, Debug)]
pub struct DeploymentOptions {
    /// Numbers of the operators; `None`: all.
    pub ops: Option<Vec<i64>>,
    /// Numbers of values that are wanted outside of the accelerator.
    pub outputs: Vec<i64>,
    /// Whether feature maps in the far memory share bytes in turn.
    pub reuse: bool,
    /// What stays on the chip. Only what is read in the same uninterrupted row of operators can.
    pub on_chip: OnChip,
    /// Bytes of the memory on the chip that feature maps may take at most; `None`: all that there are.
    pub on_chip_bytes: Option<u64>,
}

impl Default for DeploymentOptions {
    fn default() -> Self {
        let on_chip = OnChip::Policy(Policy::BestScore);
        Self { ops: None, outputs: Vec::new(), reuse: true, on_chip, on_chip_bytes: None }
    }
}

/// An operator of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployedOp {
    /// Its number.
    pub op_id: i64,
    /// First byte and bytes of its commands in the instruction segment, `end` and the zeros behind it included; no bytes: it
    /// needs no command.
    pub instructions: [u64; 2],
    /// First byte and bytes of each of its constants in the weight segment.
    pub weights: Vec<[u64; 2]>,
    /// Values that it reads.
    pub inputs: Vec<i64>,
    /// Values that it makes.
    pub outputs: Vec<i64>,
    /// Layers of the deployment that are done when it is: operators with commands up to and with it.
    pub layers: u64,
    /// Its commands among the deployment's.
    window: Range<usize>,
}

/// Some operators of a network, laid out.
#[derive(Clone, Debug)]
pub struct HardDeployment {
    network: Arc<HardNetwork>,
    spec: DeviceSpec,
    ops: Vec<DeployedOp>,
    runs: Vec<Range<usize>>,
    values: Vec<ValuePlace>,
    areas: Vec<Area>,
    segments: Vec<LogicSegment>,
    commands: Vec<Command>,
    instructions: Vec<u8>,
    buffers: Vec<PlannedBuffer>,
    map_bytes: u64,
    residency: Option<Residency>,
}

impl HardDeployment {
    /// The network.
    pub fn network(&self) -> &Arc<HardNetwork> {
        &self.network
    }

    /// The device that it is for.
    pub fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// The operators in the order in which they run.
    pub fn ops(&self) -> &[DeployedOp] {
        &self.ops
    }

    /// Operators that run without anything between them, on elements of one width: ranges of [`Self::ops`].
    pub fn runs(&self) -> &[Range<usize>] {
        &self.runs
    }

    /// Where the operators' values lie, by their number.
    pub fn values(&self) -> &[ValuePlace] {
        &self.values
    }

    /// What is read from outside or wanted there, each a chunk of memory.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// The segments with their logical addresses: inputs, outputs, weights, feature maps, instructions.
    pub fn segments(&self) -> &[LogicSegment] {
        &self.segments
    }

    /// What the instruction segment holds.
    pub fn instructions(&self) -> &[u8] {
        &self.instructions
    }

    /// What the weight segment holds.
    pub fn weights(&self) -> &[u8] {
        &self.network.program.constants
    }

    /// Bytes of feature maps on the chip.
    pub fn on_chip_bytes(&self) -> u64 {
        self.buffers
            .iter()
            .filter(|buffer| buffer.segment == Program::RESIDENT)
            .map(|buffer| buffer.offset + buffer.bytes)
            .max()
            .unwrap_or_default()
    }

    /// What stays on the chip, by which policy, and the bytes that this keeps from being moved; `None` for a device without
    /// such memory.
    pub fn residency(&self) -> Option<&Residency> {
        self.residency.as_ref()
    }

    /// Bytes of the segments.
    pub fn sizes(&self) -> Layout<u64> {
        Layout {
            instructions: self.instructions.len() as u64,
            constants: self.weights().len() as u64,
            scratch: self.map_bytes,
            resident: self.on_chip_bytes(),
            others: self.areas.iter().map(|area| (area.role.kind(), area.bytes)).collect(),
        }
    }

    /// First byte and bytes of the streams of some operators in the instruction segment; no bytes when none has commands.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for a range that the deployment does not have.
    pub fn stream(&self, ops: Range<usize>) -> Result<[u64; 2], Error> {
        Ok(hull(self.range(ops)?.iter().map(|op| op.instructions)))
    }

    /// First byte and bytes of the constants of some operators in the weight segment, from the first to the end of the last; no
    /// bytes when none has constants.
    ///
    /// # Errors
    /// As [`Self::stream`].
    pub fn constants(&self, ops: Range<usize>) -> Result<[u64; 2], Error> {
        Ok(hull(self.range(ops)?.iter().flat_map(|op| op.weights.iter().copied())))
    }

    /// The number of the operator whose commands are a layer of a run of some operators, the run's first being layer 0; `None` if the
    /// run has no such layer.
    ///
    /// # Errors
    /// As [`Self::stream`].
    pub fn layer(&self, ops: Range<usize>, layer: usize) -> Result<Option<i64>, Error> {
        let mut layers = self.range(ops)?.iter().filter(|op| op.instructions[1] > 0);
        Ok(layers.nth(layer).map(|op| op.op_id))
    }

    /// What some operators make, each an index of the segment table, the first byte and the bytes, less what they read what
    /// was there before from: a board that is watched has to hear that nothing of value is there before they run.
    ///
    /// # Errors
    /// As [`Self::stream`].
    pub fn makes(&self, ops: Range<usize>) -> Result<Vec<(u16, u64, u64)>, Error> {
        let own = self.range(ops)?;
        let steps = own.iter().filter_map(|op| self.network.steps.iter().find(|step| step.op_id == op.op_id));
        made(&self.network, steps, |v_id| {
            let value = self.value(v_id).ok()?;
            Some((value.segment_number(), value.offset))
        })
    }

    /// Where a value lies.
    fn value(&self, v_id: i64) -> Result<&ValuePlace, Error> {
        let found = self.values.binary_search_by_key(&v_id, |value| value.v_id);
        found.map(|at| &self.values[at]).map_err(|_| {
            Error::argument(format!("no operator of the deployment reads or makes value {v_id}"))
        })
    }

    fn range(&self, ops: Range<usize>) -> Result<&[DeployedOp], Error> {
        self.ops.get(ops.clone()).filter(|own| !own.is_empty()).ok_or_else(|| {
            Error::argument(format!(
                "operators {} to {} of a deployment of {}",
                ops.start,
                ops.end,
                self.ops.len()
            ))
        })
    }
}

/// First byte and bytes from the first piece that has some to the end of the last.
fn hull(pieces: impl Iterator<Item = [u64; 2]>) -> [u64; 2] {
    let ends = pieces.filter(|[_, bytes]| *bytes > 0).map(|[first, bytes]| [first, first + bytes]);
    let hull = ends.reduce(|all, own| [all[0].min(own[0]), all[1].max(own[1])]);
    hull.map_or([0, 0], |[first, end]| [first, end - first])
}

/// The streams of operators one after the other, and where each is.
fn encode(commands: &[Command], windows: &[Range<usize>]) -> (Vec<u8>, Vec<[u64; 2]>) {
    let mut instructions = Vec::new();
    let mut streams = Vec::with_capacity(windows.len());
    for window in windows {
        let first = instructions.len() as u64;
        if !window.is_empty() {
            let mut own = commands[window.clone()].to_vec();
            own.push(Command::End(command::End {}));
            instructions.extend(command::encode(&own));
            instructions.resize(instructions.len().next_multiple_of(BURST as usize), 0);
        }
        streams.push([first, instructions.len() as u64 - first]);
    }
    (instructions, streams)
}

/// As [`encode`], of instructions that the vendor's compiler wrote; without data only their places.
fn vendors<'a>(streams: impl Iterator<Item = &'a VendorStream>, complete: bool) -> (Vec<u8>, Vec<[u64; 2]>) {
    let (mut instructions, mut places, mut at) = (Vec::new(), Vec::new(), 0);
    for stream in streams {
        let bytes = stream.bytes.next_multiple_of(BURST);
        if complete {
            instructions.resize(at as usize, 0);
            instructions.extend_from_slice(&stream.data);
            instructions.resize((at + bytes) as usize, 0);
        }
        places.push([at, bytes]);
        at += bytes;
    }
    (instructions, places)
}
