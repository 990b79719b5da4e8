//! Notes on a network with commands: the vendor's, and what Triune needs to run it.

use serde::{Deserialize, Serialize};
use triune_device::DeviceSpec;
use triune_graph::format::xir::Tags;

use super::{address::Addresses, commands::Compiled};
use crate::Error;
use triune_compiler::{Program, TensorIo};
use triune_runtime::Description;

/// The tag under which a network says that its instructions are Triune's commands, and what program they are.
pub const PROGRAM_TAG: &str = "triune";

/// Goes up with every change of the command set or of this note; no other version is read.
pub(crate) const VERSION: u32 = 2;

/// What a program is besides what documents have words for.
#[derive(Serialize, Deserialize)]
pub(crate) struct ProgramTag {
    pub(crate) version: u32,
    pub(crate) producer: String,
    /// Bytes of the constants segment.
    pub(crate) constants: u64,
    pub(crate) addresses: Addresses,
    pub(crate) program: Description,
}

/// The notes on a network.
pub(crate) fn network(spec: &DeviceSpec, compiled: &Compiled<'_>) -> Result<Tags, Error> {
    let program = &compiled.generated.program;
    let mut tags = Tags::from([("bgr_order".to_owned(), false.into())]);
    if let Addresses::Linear(bases) = &compiled.addresses {
        let first = usize::from(Program::FIRST_IO);
        let inputs = first + program.inputs.len();
        let bytes = |tensors: &[TensorIo]| tensors.iter().map(|io| io.bytes() as u64).sum::<u64>();
        let at = |index: usize| bases.get(index).copied().unwrap_or_default();
        let segments = [
            ("params", at(usize::from(Program::CONSTANTS)), program.constants.len() as u64),
            ("input", at(first), bytes(&program.inputs)),
            ("output", at(inputs), bytes(&program.outputs)),
            ("ftmp", at(usize::from(Program::SCRATCH)), program.scratch_bytes),
            ("instr", at(usize::from(Program::INSTRUCTIONS)), compiled.instructions),
        ];
        for (name, address, bytes) in segments {
            tags.insert(format!("{name}_segment_addr"), address.into());
            tags.insert(format!("{name}_segment_bytesize"), bytes.into());
        }
        if let Some(array) = &spec.array {
            tags.insert("rows".to_owned(), array.units[0].into());
            tags.insert("cols".to_owned(), array.units[1].into());
        }
        tags.insert("speedmode".to_owned(), false.into());
        tags.insert("compressFtmp".to_owned(), false.into());
    }
    let tag = ProgramTag {
        version: VERSION,
        producer: format!("triune {}", env!("CARGO_PKG_VERSION")),
        constants: program.constants.len() as u64,
        addresses: compiled.addresses.clone(),
        program: Description::of(program),
    };
    let tag = serde_json::to_value(tag).map_err(|error| Error::internal(error.to_string()))?;
    tags.insert(PROGRAM_TAG.to_owned(), tag);
    Ok(tags)
}
