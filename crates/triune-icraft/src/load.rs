//! From a document with commands back to the program that they are.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use triune_device::command;
use triune_graph::format::xir::{Attribute, Document, Operation, Value};
use triune_kernels::{CopyNd, CopySpec};
use triune_tensor::{memory, text::List};

use super::{
    commands::STRIDES,
    tags::{PROGRAM_TAG, ProgramTag, VERSION},
};
use crate::Error;
use triune_compiler::Program;

/// The accelerator's part of a network: its program, operator by operator.
#[derive(Clone, Debug)]
pub struct HardNetwork {
    pub(crate) program: Arc<Program>,
    pub(crate) steps: Vec<Step>,
    pub(crate) values: HashMap<i64, Place>,
    /// The largest number of an operator in the document.
    pub(crate) last_op: i64,
    /// What the vendor's compiler wrote, whose meaning is not known; its operators have times alone.
    pub(crate) vendor: Option<Vendor>,
}

/// Constants and instructions of the vendor's compiler.
#[derive(Clone, Debug)]
pub(crate) struct Vendor {
    /// Bytes of the constants, which are the program's if they are there.
    pub(crate) weight_bytes: u64,
    /// Whether the data of all constants and instructions are there.
    pub(crate) complete: bool,
    /// Whether the document says where values lie by addresses, as for BUYI.
    pub(crate) addressed: bool,
    /// The instructions of each operator.
    pub(crate) streams: Vec<VendorStream>,
}

/// The instructions of one operator.
#[derive(Clone, Debug, Default)]
pub(crate) struct VendorStream {
    /// Bytes as the document describes them.
    pub(crate) bytes: u64,
    /// The instructions, if they are there.
    pub(crate) data: Vec<u8>,
}

/// One operator: its commands among the program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) op_id: i64,
    /// Which operator of the document it is.
    pub(crate) position: usize,
    /// First byte and bytes of each of its constants.
    pub(crate) pieces: Vec<[u64; 2]>,
    /// First byte and bytes in the instructions.
    pub(crate) bytes: [u64; 2],
    pub(crate) inputs: Vec<i64>,
    pub(crate) outputs: Vec<i64>,
}

/// Where a value's elements lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: u16,
    pub(crate) offset: u64,
    pub(crate) element_bytes: usize,
    pub(crate) extents: Vec<usize>,
    /// Bytes from one element to the next along each axis.
    pub(crate) strides: Vec<u64>,
}

/// Axes of a [`CopySpec`].
const AXES: usize = 6;

/// Most bytes of a value that is more than what lies in memory, as an expansion is.
const MOST_REPEATED: u64 = 256 << 20;

impl Place {
    /// Bytes of the elements without gaps.
    pub(crate) fn bytes(&self) -> Option<usize> {
        let elements = self.extents.iter().try_fold(1_usize, |all, &extent| all.checked_mul(extent))?;
        elements.checked_mul(self.element_bytes)
    }

    /// Refuses another number of bytes than those of the elements of value `v_id`, which lie here.
    pub(crate) fn expect(&self, v_id: i64, bytes: usize) -> Result<(), Error> {
        if self.bytes() == Some(bytes) {
            return Ok(());
        }
        Err(Error::Operand {
            what: format!("value {v_id}"),
            expected: format!("{} bytes of {}", self.bytes().unwrap_or_default(), List(&self.extents)),
            got: format!("{bytes} bytes"),
        })
    }

    /// Bytes from the first element to the end of the last.
    pub(crate) fn span(&self) -> Option<u64> {
        if self.extents.contains(&0) {
            return Some(0);
        }
        let last = self.extents.iter().zip(&self.strides).try_fold(0_u64, |last, (&extent, &stride)| {
            last.checked_add((extent as u64 - 1).checked_mul(stride)?)
        })?;
        last.checked_add(self.element_bytes as u64)
    }

    /// The copy of the elements from where they lie, counted from the first one's first byte, to where they lie without gaps, or
    /// back if `scatter`; `None` for what is no single copy, as are more axes than one has and elements written more than once.
    pub(crate) fn copy(&self, scatter: bool) -> Option<CopyNd> {
        let (mut dims, mut here, mut dense) = ([1; AXES], [0_u64; AXES], [0_u64; AXES]);
        let mut behind = self.element_bytes as u64;
        let axes = self.extents.iter().zip(&self.strides).rev().filter(|&(&extent, _)| extent != 1);
        for (index, (&extent, &stride)) in axes.enumerate() {
            let axis = (AXES - 1).checked_sub(index)?;
            (dims[axis], here[axis], dense[axis]) = (extent, stride, behind);
            behind = behind.checked_mul(extent as u64)?;
        }
        let [from, to] = if scatter { [dense, here] } else { [here, dense] };
        CopyNd::new(&CopySpec {
            elem_bytes: self.element_bytes,
            dims,
            src_offset: 0,
            src_strides: from.map(|stride| i64::try_from(stride).unwrap_or(i64::MAX)),
            dst_strides: to.map(|stride| usize::try_from(stride).unwrap_or(usize::MAX)),
        })
        .ok()
    }
}

impl HardNetwork {
    /// The program in a document, whose constants are there. `path` names the document in errors.
    ///
    /// # Errors
    /// [`Error::Foreign`] for instructions that the vendor's compiler wrote, [`Error::Package`] for a document that does
    /// not hold together.
    pub fn new(document: &Document, path: &Path) -> Result<Self, Error> {
        let tag = document.tags.get(PROGRAM_TAG).ok_or_else(|| foreign(path))?;
        let version = tag.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(VERSION)) {
            return Err(Error::package(
                path,
                match version {
                    Some(version) => {
                        format!("commands of version {version}, {VERSION} is read; compile the model again")
                    }
                    None => format!("tag '{PROGRAM_TAG}' has no version; compile the model again"),
                },
            ));
        }
        let tag: ProgramTag = serde_json::from_value(tag.clone()).map_err(|error| {
            Error::package(path, format!("tag '{PROGRAM_TAG}': {error}; compile the model again"))
        })?;
        let reader = Reader { document, path, tag: &tag };
        let constants = reader.constants()?;
        let (instructions, steps) = reader.instructions()?;
        let values = reader.values()?;
        let program = tag.program.program(path, instructions, constants)?;
        let last_op = document.ops.iter().map(|op| op.op_id).max().unwrap_or_default();
        Ok(Self { program: Arc::new(program), steps, values, last_op, vendor: None })
    }

    /// The operators of a document, whatever compiler wrote their instructions. Those of the vendor's compiler can be laid
    /// out and timed, by their shapes, and not run ([`Self::is_vendors`]).
    ///
    /// # Errors
    /// [`Error::Package`] for a document that does not hold together.
    pub fn any(document: &Document, path: &Path) -> Result<Self, Error> {
        if document.tags.contains_key(PROGRAM_TAG) {
            return Self::new(document, path);
        }
        super::vendor::network(document, path)
    }

    /// Whether the vendor's compiler wrote the instructions.
    pub fn is_vendors(&self) -> bool {
        self.vendor.is_some()
    }

    /// Whether all constants and instructions have their data.
    pub fn is_complete(&self) -> bool {
        self.vendor.as_ref().is_none_or(|vendor| vendor.complete)
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The largest number of an operator in the document, whoever computes it.
    pub fn last_op(&self) -> i64 {
        self.last_op
    }

    /// Numbers of the operators, in the order in which they run.
    pub fn op_ids(&self) -> impl Iterator<Item = i64> + '_ {
        self.steps.iter().map(|step| step.op_id)
    }
}

const HARD_OP: &str = "icraft::xir::HardOp";

fn foreign(path: &Path) -> Error {
    Error::Foreign {
        path: path.display().to_string(),
        reason: "its instructions are the vendor's machine code, whose meaning only the chip knows; it can be inspected and \
                 timed. To run the network, compile the model that it came from: triune compile MODEL.onnx --target \
                 buyi --format icraft -o DIR"
            .into(),
    }
}

struct Reader<'a> {
    document: &'a Document,
    path: &'a Path,
    tag: &'a ProgramTag,
}

impl<'a> Reader<'a> {
    fn fail(&self, op: &Operation, reason: &str) -> Error {
        Error::package(self.path, format!("HardOp {}: {reason}; compile the model again", op.op_id))
    }

    fn ops(&self) -> impl Iterator<Item = &'a Operation> {
        self.document.ops.iter().filter(|op| op.type_key == HARD_OP)
    }

    /// The constants in an operator's attribute.
    fn params(&self, op: &Operation, key: &str) -> Result<Vec<(&'a Value, &'a Bytes)>, Error> {
        let Some(Attribute::List(list)) = op.attributes.get(key) else {
            return Err(self.fail(op, &format!("'{key}' is no list")));
        };
        list.iter()
            .map(|item| {
                let value = match item {
                    Attribute::Value(index) => self.document.values.get(*index),
                    _ => None,
                };
                let data = value.and_then(|value| value.params.as_ref()?.data.as_ref());
                value.zip(data).ok_or_else(|| self.fail(op, &format!("'{key}' has something without data")))
            })
            .collect()
    }

    fn constants(&self) -> Result<Bytes, Error> {
        // A piece that several operators read is there once.
        let mut pieces = BTreeMap::new();
        for op in self.ops() {
            let data = self.params(op, "params")?.into_iter().map(|(_, data)| data);
            pieces.extend(self.pieces(op)?.into_iter().zip(data));
        }
        // No larger than what is in the file: between pieces there is less than an alignment.
        let held: u64 = pieces.values().map(|data| data.len() as u64 + 128).sum();
        if self.tag.constants > held + 128 {
            return Err(Error::package(
                self.path,
                format!(
                    "{} bytes of constants, of which the document has {held}: a HardOp is missing; compile the model again",
                    self.tag.constants
                ),
            ));
        }
        let mut constants = memory::filled(self.tag.constants as usize, 0)?;
        for ([offset, _], data) in pieces {
            constants[offset as usize..][..data.len()].copy_from_slice(data);
        }
        Ok(constants.into())
    }

    /// First byte and bytes of each constant of an operator.
    fn pieces(&self, op: &Operation) -> Result<Vec<[u64; 2]>, Error> {
        let mut pieces = Vec::new();
        for (value, data) in self.params(op, "params")? {
            let bytes = data.len() as u64;
            let found = self.tag.addresses.find(value.mtype, bytes);
            let offset =
                found.filter(|&(segment, _)| segment == Program::CONSTANTS).map(|(_, offset)| offset);
            let fits = |offset: &u64| offset.checked_add(bytes).is_some_and(|end| end <= self.tag.constants);
            let offset = offset.filter(fits);
            pieces.push([offset.ok_or_else(|| self.fail(op, "a constant outside of the constants"))?, bytes]);
        }
        Ok(pieces)
    }

    /// All commands as one stream, and the part of each operator.
    fn instructions(&self) -> Result<(Bytes, Vec<Step>), Error> {
        let mut commands = Vec::new();
        let mut steps = Vec::new();
        let mut at = 0;
        for (position, op) in self.document.ops.iter().enumerate() {
            if op.type_key != HARD_OP {
                continue;
            }
            let mut own = Vec::new();
            for (_, data) in self.params(op, "instr")? {
                if data.is_empty() {
                    continue;
                }
                let decoded = command::decode(data).map_err(|error| self.fail(op, &error.to_string()))?;
                own.extend(decoded.into_iter().filter(|each| !matches!(each, command::Command::End(_))));
            }
            let ids = |indices: &mut dyn Iterator<Item = usize>| -> Result<Vec<i64>, Error> {
                indices
                    .map(|index| self.document.values.get(index).map(|value| value.v_id))
                    .collect::<Option<Vec<i64>>>()
                    .ok_or_else(|| self.fail(op, "a value that the document does not have"))
            };
            let inputs = ids(&mut op.inputs.iter().flatten().copied())?;
            let outputs = ids(&mut op.outputs.iter().copied())?;
            let bytes = 4 * own.iter().map(command::Command::words).sum::<usize>() as u64;
            let op_id = op.op_id;
            steps.push(Step {
                op_id,
                position,
                pieces: self.pieces(op)?,
                bytes: [at, bytes],
                inputs,
                outputs,
            });
            at += bytes;
            commands.extend(own);
        }
        commands.push(command::Command::End(command::End {}));
        Ok((command::encode(&commands).into(), steps))
    }

    fn values(&self) -> Result<HashMap<i64, Place>, Error> {
        let mut places = HashMap::new();
        for op in self.ops() {
            for index in op.inputs.iter().flatten().chain(&op.outputs) {
                let value = self.document.values.get(*index);
                let place = value.and_then(|value| self.place(value));
                let (value, place) = value
                    .zip(place)
                    .ok_or_else(|| self.fail(op, "a value that lies nowhere in the accelerator's memory"))?;
                places.insert(value.v_id, place);
            }
        }
        Ok(places)
    }

    fn place(&self, value: &Value) -> Option<Place> {
        let extents: Option<Vec<usize>> =
            value.dtype.shape.iter().map(|&extent| usize::try_from(extent).ok()).collect();
        let extents = extents?;
        let element_bytes = usize::try_from(value.dtype.element.storage().bytes()).ok()?;
        let strides = if let Some(strides) = value.tags.get(STRIDES) {
            let strides = strides.as_array()?.iter().map(serde_json::Value::as_u64);
            strides.collect::<Option<Vec<u64>>>().filter(|strides| strides.len() == extents.len())?
        } else {
            let mut strides = vec![0; extents.len()];
            let mut step = element_bytes as u64;
            for (stride, &extent) in strides.iter_mut().zip(&extents).rev() {
                *stride = step;
                step = step.checked_mul(extent as u64)?;
            }
            strides
        };
        let mut place = Place { segment: 0, offset: 0, element_bytes, extents, strides };
        let span = place.span()?;
        // No element lies where another does, so that nobody makes room for more than a segment has; but for those that
        // are repeated along an axis, of which there are not many.
        let repeats: u64 = place
            .extents
            .iter()
            .zip(&place.strides)
            .filter(|(_, stride)| **stride == 0)
            .try_fold(1_u64, |all, (&extent, _)| all.checked_mul(extent as u64))?;
        let bytes = place.bytes()? as u64;
        let once = bytes.checked_div(repeats).unwrap_or(0);
        (once <= span && (repeats <= 1 || bytes <= MOST_REPEATED)).then_some(())?;
        (place.segment, place.offset) = self.tag.addresses.find(value.mtype, span)?;
        place.offset.checked_add(span)?;
        Some(place)
    }
}
