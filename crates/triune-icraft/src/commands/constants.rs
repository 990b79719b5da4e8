//! The constants that commands read: weights in blocks, biases, multipliers, tables.

use triune_device::{
    Addr, Command,
    command::{self, Opcode},
};
use triune_graph::{
    Constant, Node,
    format::xir::{Axis, ElementType, ExpScale, Runs, Scale, TensorType},
};
use triune_tensor::{DType, Multiplier, Shape};

use super::{
    super::{
        address::Section,
        emit::{Emitter, quantized},
        form::{Style, layout, padded, scalar, tensor},
    },
    Compiled,
};
use crate::Error;
use triune_compiler::Program;

impl Emitter<'_> {
    /// The constants that commands read, each once in a document.
    pub(super) fn constants(
        &mut self,
        compiled: &mut Compiled<'_>,
        node: Option<&Node>,
        name: &str,
        commands: &[Command],
    ) -> Result<Vec<usize>, Error> {
        let mut found = Vec::new();
        let mut fresh: Vec<(u64, u64, usize)> = Vec::new();
        for command in commands {
            for (addr, role) in roles(command) {
                let Some([offset, bytes]) = piece(&compiled.generated.pieces, addr.offset()) else {
                    return Err(Error::internal(format!("the constant at {addr} is none of the program's")));
                };
                let index = if let Some(&index) = compiled.constants.get(&offset) {
                    index
                } else {
                    let (what, dtype) = self.constant_type(compiled, node, command, role, bytes);
                    let end = offset as usize + bytes as usize;
                    let data = compiled.generated.program.constants.slice(offset as usize..end);
                    let data = Constant::new(DType::U8, Shape::from([data.len()]), data)
                        .ok_or_else(|| Error::internal("a constant of no whole bytes"))?;
                    let index = self.value(&format!("hard {name}:{what}"), dtype, Some(data));
                    compiled.constants.insert(offset, index);
                    fresh.push((offset, bytes, index));
                    index
                };
                if !found.contains(&index) {
                    found.push(index);
                }
            }
        }
        fresh.sort_unstable();
        if let (Some(&(first, ..)), Some(&(last, bytes, _))) = (fresh.first(), fresh.last()) {
            let section = Section { segment: Program::CONSTANTS, offset: first, bytes: last + bytes - first };
            compiled.addresses.add(section);
        }
        for (offset, _, index) in fresh {
            self.document.values[index].mtype = compiled.addresses.last(Program::CONSTANTS, offset)?;
        }
        Ok(found)
    }

    /// What a constant of a command is, and its type.
    fn constant_type(
        &self,
        compiled: &Compiled<'_>,
        node: Option<&Node>,
        command: &Command,
        role: Role,
        bytes: u64,
    ) -> (&'static str, TensorType) {
        let bytes = bytes as usize;
        let raw = |what| (what, tensor(ElementType::Scalar(scalar(DType::U8)), &[bytes], layout("*")));
        let Command::QConv(conv) = command else {
            return raw(if role == Role::Table { "table" } else { "data" });
        };
        let [outputs, inputs] = conv.weight_blocks.map(|block| block as usize);
        let channels = conv.output.c as usize;
        match role {
            Role::Weights => {
                let element_bytes = conv.input.dtype.bytes();
                let group = (conv.input.c / conv.window.groups.max(1)) as usize;
                let [rows, columns] = conv.window.kernel.map(|extent| extent as usize);
                if outputs == 0 || inputs == 0 {
                    return raw("weights");
                }
                let extents =
                    [channels.div_ceil(outputs), group.div_ceil(inputs), rows, columns, outputs, inputs];
                if extents.iter().product::<usize>() * element_bytes != bytes {
                    return raw("weights");
                }
                let dtype = if element_bytes == 2 { DType::I16 } else { DType::I8 };
                let scale = self.weight_scale(compiled, node, conv, channels.next_multiple_of(outputs));
                let mut dtype = tensor(quantized(dtype, scale, Vec::new()), &extents, layout("OIHW"));
                let axes = [('o', outputs), ('i', inputs)];
                dtype.layout.axes.extend(axes.map(|(name, unit)| Axis { name, unit: unit as u64 }));
                let whole = [extents[0] * outputs, extents[1] * inputs];
                dtype.merged =
                    vec![padded(vec![0, 4], channels, whole[0]), padded(vec![1, 5], group, whole[1])];
                ("weights", dtype)
            }
            Role::Bias if outputs > 0 && bytes.is_multiple_of(4 * outputs) => {
                let mut dtype = tensor(
                    ElementType::Scalar(scalar(DType::I32)),
                    &[bytes / 4 / outputs, outputs],
                    layout("O"),
                );
                dtype.layout.axes.push(Axis { name: 'o', unit: outputs as u64 });
                ("bias", dtype)
            }
            Role::Multiplier => {
                ("multiplier", tensor(ElementType::Scalar(scalar(DType::F32)), &[bytes / 4], layout("C")))
            }
            Role::Bias => raw("bias"),
            Role::Table => raw("table"),
            Role::Data => raw("data"),
        }
    }

    /// The scales of a convolution's weights in the target's words.
    fn weight_scale(
        &self,
        compiled: &Compiled<'_>,
        node: Option<&Node>,
        conv: &command::QConv,
        count: usize,
    ) -> Scale {
        let fill = |mut values: Vec<f32>| {
            let last = values.last().copied().unwrap_or(1.0);
            values.resize(count, last);
            values
        };
        if self.dialect.style == Some(Style::Fixed) {
            let at = conv.multiplier.offset() as usize;
            let bytes = &compiled.generated.program.constants[at..][..4 * conv.multipliers as usize];
            let factors =
                bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            let bits = 8 * conv.output.dtype.bytes() as u32;
            let fixed = fill(factors.collect()).into_iter().map(|factor| {
                let found = Multiplier::fixed(factor, bits);
                let (m, exp) = found.map_or((0, 0), |found| (found.m.into(), found.n.into()));
                ExpScale { m, exp, origin: factor }
            });
            return Scale::Exp(Runs::from_values(4, fixed));
        }
        let quant = node.and_then(|node| node.quant.as_ref());
        let scales = quant.map(|quant| quant.weights.to_vec()).filter(|scales| !scales.is_empty());
        match scales {
            Some(scales) if scales.len() == 1 => Scale::Plain(Runs { axis: -1, runs: vec![(1, scales[0])] }),
            Some(scales) => Scale::Plain(Runs::from_values(4, fill(scales))),
            None => Scale::Plain(Runs { axis: -1, runs: Vec::new() }),
        }
    }
}

/// What a command reads a constant as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Weights,
    Multiplier,
    Bias,
    Table,
    Data,
}

/// The constants that a command reads.
fn roles(command: &Command) -> Vec<(Addr, Role)> {
    let mut found = Vec::new();
    let mut command = *command;
    let opcode = command.opcode();
    command.addresses(&mut |_, field, addr| {
        let role = match (opcode, field) {
            (Opcode::QConv, "weights") => Role::Weights,
            (Opcode::QConv, "multiplier") => Role::Multiplier,
            (Opcode::QConv, "bias") => Role::Bias,
            (Opcode::QConv | Opcode::Table, "table") | (Opcode::Tables, "tables") => Role::Table,
            _ => Role::Data,
        };
        if addr.segment() == Program::CONSTANTS {
            found.push((*addr, role));
        }
    });
    found.sort_by_key(|&(_, role)| role);
    found
}

/// The piece of the constants that has a byte.
fn piece(pieces: &[[u64; 2]], offset: u64) -> Option<[u64; 2]> {
    let at = pieces.partition_point(|&[first, _]| first <= offset);
    let found = *pieces.get(at.checked_sub(1)?)?;
    (offset < found[0] + found[1].max(1)).then_some(found)
}
