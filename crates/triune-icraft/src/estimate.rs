//! What networks of the vendor's compiler would cost, from what their documents say: shapes, weights, places in memory.
//!
//! Their instructions are the vendor's machine code. Window steps follow from the extents; windows of pools, activations and
//! what is fused are not known. Commands of the same extents stand for the operators, to be timed and never run.

use std::{collections::HashMap, ops::Range, path::Path, sync::Arc};

use bytes::Bytes;
use triune_device::{
    Addr, Command, DeviceSpec, FeatureMap,
    command::{
        self, AddParams, CommandBuffer, Copy, Operand, Pool, QAdd, QConv, QMul, Quant, RequantTarget, Resize,
        Window,
    },
};
use triune_graph::format::xir::{Attribute, Document, Mem, Operation, Scalar, Target, Value};
use triune_tensor::{
    DType, Requantize, Rounding,
    function::{CoordinateMode, NearestMode, PoolKind, ResizeMode},
};

use super::{HardNetwork, tags::PROGRAM_TAG};
use crate::Error;
use triune_compiler::{
    Operator, PlanOptions, PlannedBuffer, Program, patch,
    plan::{self, Besides, Draft},
};

/// The accelerator's part of a document as a program, and whether it is the one that runs: that of a document of the vendor's
/// compiler stands for its time alone.
///
/// # Errors
/// [`Error::Package`] for a document without commands, or one that does not hold together.
pub fn program(document: &Document, path: &Path) -> Result<(Arc<Program>, bool), Error> {
    if document.tags.contains_key(PROGRAM_TAG) {
        let network = HardNetwork::new(document, path)?;
        return Ok((Arc::clone(network.program()), true));
    }
    Ok((Estimate::new(document, path)?.program()?.0, false))
}

pub(super) const HARD_OP: &str = "icraft::xir::HardOp";

/// The program of an outline; position in the document and commands of each operator; where values lie, by what the document says.
pub(super) type Outlined = (Arc<Program>, Vec<(usize, Range<usize>)>, HashMap<Mem, (u16, u64)>);

/// A draft of the value that an address names, or an address.
pub(super) struct Estimate<'a> {
    document: &'a Document,
    path: &'a Path,
    spec: DeviceSpec,
    commands: CommandBuffer,
    operators: Vec<Operator>,
    /// Chunks of virtual memory: the draft of each.
    chunks: HashMap<u16, usize>,
    drafts: Vec<Draft>,
    /// Feature maps at addresses, by place and first byte.
    fixed: HashMap<(u16, u64), PlannedBuffer>,
}

/// A value's extents as a feature map.
#[derive(Clone, Copy)]
struct Map {
    n: u32,
    h: u32,
    w: u32,
    c: u32,
    dtype: DType,
    addr: Addr,
}

impl<'a> Estimate<'a> {
    pub(super) fn new(document: &'a Document, path: &'a Path) -> Result<Self, Error> {
        let hard = |op: &&Operation| op.type_key == "icraft::xir::HardOp";
        let first = document.ops.iter().find(hard).ok_or_else(|| {
            Error::package(
                path,
                "the document has no operators with commands; only compiled networks have times",
            )
        })?;
        let device = match first.target {
            Target::Buyi => "buyi",
            Target::Zhuge(_) => "zg330",
            other => {
                return Err(Error::package(
                    path,
                    format!("the time of operators on {other} is not modelled"),
                ));
            }
        };
        Ok(Self {
            document,
            path,
            spec: DeviceSpec::builtin(device)?,
            commands: CommandBuffer::default(),
            operators: Vec::new(),
            chunks: HashMap::new(),
            drafts: Vec::new(),
            fixed: HashMap::new(),
        })
    }

    pub(super) fn program(mut self) -> Result<Outlined, Error> {
        let mut steps = Vec::new();
        let document = self.document;
        for (position, op) in document.ops.iter().enumerate().filter(|(_, op)| op.type_key == HARD_OP) {
            let first = self.commands.len() as u32;
            self.operator(op)?;
            let last = self.commands.len() as u32;
            steps.push((position, first as usize..last as usize));
            if last > first {
                let class = op.name.rsplit("::").next().unwrap_or_default();
                let kind = class.strip_suffix("Node").unwrap_or(class).to_owned();
                self.operators.push(Operator {
                    name: format!("{kind} {}", op.op_id),
                    kind: kind.into(),
                    first,
                    last,
                    axes: Vec::new(),
                    origin: None,
                });
            }
        }
        self.commands.push(&Command::End(command::End {}));
        if !self.drafts.is_empty() && !self.fixed.is_empty() {
            return Err(Error::package(self.path, "some values lie at addresses, others in chunks"));
        }
        let mut planned = None;
        if !self.drafts.is_empty() {
            let besides = Besides { batch: 1, cores: 1, constants: 0, inputs: &[], outputs: &[] };
            let options = PlanOptions::default();
            planned = Some(plan::place(&self.spec, &options, &besides, &mut self.commands, &self.drafts)?);
        }
        let mut places = HashMap::new();
        let touched = document.ops.iter().filter(|op| op.type_key == HARD_OP).flat_map(|op| {
            op.inputs.iter().flatten().chain(&op.outputs).filter_map(|&index| document.values.get(index))
        });
        for value in touched {
            let found = match value.mtype {
                Mem::Chunk(id, offset) => planned.as_ref().and_then(|planned| {
                    let draft = *self.chunks.get(&id)?;
                    let buffer = planned.buffers.get((*planned.drafts.get(draft)?)?)?;
                    Some((buffer.segment, buffer.offset.checked_add(offset)?))
                }),
                Mem::External(address) => Some((Program::SCRATCH, address)),
                Mem::OnChip(address) => Some((Program::RESIDENT, address)),
                Mem::Host => None,
            };
            if let Some(found) = found {
                places.insert(value.mtype, found);
            }
        }
        let mut fixed: Vec<PlannedBuffer> = joined(self.fixed.into_values().collect());
        fixed.sort_by_key(|buffer| (buffer.first, buffer.segment, buffer.offset));
        let end = |segment: u16| {
            let own = fixed.iter().filter(|buffer| buffer.segment == segment);
            own.map(|buffer| buffer.offset.saturating_add(buffer.bytes)).max().unwrap_or_default()
        };
        let scratch_bytes = end(Program::SCRATCH);
        let program = Program {
            target: self.spec.name.clone(),
            device: None,
            batch: 1,
            instructions: Bytes::new(),
            constants: Bytes::new(),
            tables: Vec::new(),
            scratch_bytes,
            scratch_lower_bound: 0,
            spilled_bytes: 0,
            residency: None,
            buffers: fixed,
            inputs: Vec::new(),
            outputs: Vec::new(),
            results: 0,
            waits: Vec::new(),
            beside: Vec::new(),
            operators: self.operators,
        };
        let program = match planned {
            Some(planned) => program.with_plan(self.commands, planned),
            None => Program { instructions: self.commands.into_bytes().into(), ..program },
        };
        Ok((Arc::new(program), steps, places))
    }

    fn fail(&self, op: &Operation, reason: &str) -> Error {
        Error::package(self.path, format!("HardOp {}: {reason}", op.op_id))
    }

    fn operator(&mut self, op: &Operation) -> Result<(), Error> {
        let document = self.document;
        let value = |index: usize| document.values.get(index);
        let inputs: Option<Vec<&Value>> = op.inputs.iter().flatten().map(|&index| value(index)).collect();
        let outputs: Option<Vec<&Value>> = op.outputs.iter().map(|&index| value(index)).collect();
        let (Some(inputs), Some(outputs)) = (inputs, outputs) else {
            return Err(self.fail(op, "a value that the document does not have"));
        };
        if op.attributes.get("layer_count") == Some(&Attribute::Int(0)) {
            // It has no commands; its values lie somewhere all the same.
            for (value, written) in
                inputs.iter().map(|each| (each, false)).chain(outputs.iter().map(|each| (each, true)))
            {
                self.map(op, value, written)?;
            }
            return Ok(());
        }
        let (Some(&input), Some(&output)) = (inputs.first(), outputs.first()) else {
            return Err(self.fail(op, "nothing goes in or comes out"));
        };
        let (x, y) = (self.map(op, input, false)?, self.map(op, output, true)?);
        let kind = op.name.rsplit("::").next().unwrap_or_default();
        let command = match kind {
            "Conv2dNode" | "Conv1dNode" | "ConvTranspose2dNode" | "MatmulNode" => self.conv(op, x, y)?,
            "AddNode" | "MultiplyNode" => {
                let second = match inputs.get(1) {
                    Some(second) => self.map(op, second, false)?,
                    None => x,
                };
                elementwise(kind == "AddNode", x, second, y)
            }
            "MaxPool2dNode" | "MaxpoolNode" => pool(PoolKind::Max, x, y),
            "AvgPool2dNode" | "AvgpoolNode" => pool(PoolKind::Average { count_include_pad: false }, x, y),
            "UpsampleNode" | "ResizeNode" => Command::Resize(Resize {
                input: x.feature_map(),
                output: y.feature_map(),
                mode: ResizeMode::Nearest(NearestMode::Floor),
                coordinates: CoordinateMode::Asymmetric,
                scales: [0.0; 2],
                zero_points: [0; 2],
                factor: 0.0,
                rounding: Rounding::HalfToEven,
            }),
            _ => moved(x, y),
        };
        self.commands.push(&command);
        for &input in inputs.iter().skip(1).filter(|_| kind == "ConcatNode") {
            let x = self.map(op, input, false)?;
            self.commands.push(&moved(x, y));
        }
        Ok(())
    }

    /// A convolution whose weights are the first of the operator's constants.
    fn conv(&mut self, op: &Operation, x: Map, y: Map) -> Result<Command, Error> {
        let constants: Vec<&Value> = match op.attributes.get("params") {
            Some(Attribute::List(list)) => list
                .iter()
                .filter_map(|item| match item {
                    Attribute::Value(index) => self.document.values.get(*index),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        let Some(weights) = constants.first() else { return Ok(moved(x, y)) };
        let extent = |name: char| -> u32 {
            let axes = weights.dtype.layout.axes.iter().zip(&weights.dtype.shape);
            let own = axes.filter(|(axis, _)| axis.name.eq_ignore_ascii_case(&name));
            own.fold(1, |product: u32, (_, &extent)| {
                product.saturating_mul(u32::try_from(extent).unwrap_or(u32::MAX))
            })
        };
        let (kernel, inputs, outputs) = ([extent('H'), extent('W')], extent('I'), extent('O'));
        if kernel.contains(&0) || inputs == 0 || outputs == 0 {
            return Err(self.fail(op, "weights without elements"));
        }
        let groups = if x.c > inputs && x.c.is_multiple_of(inputs) { x.c / inputs } else { 1 };
        let at = |value: &Value| match value.mtype {
            Mem::External(address) | Mem::OnChip(address) => address & Addr::MAX_OFFSET,
            Mem::Chunk(id, offset) => (u64::from(id) << 32 | offset & u64::from(u32::MAX)) & Addr::MAX_OFFSET,
            Mem::Host => 0,
        };
        let constant = |value: &Value| Addr::new(Program::CONSTANTS, at(value));
        let element = DType::I8;
        Ok(Command::QConv(QConv {
            input: FeatureMap { dtype: element, ..x.feature_map() },
            output: FeatureMap { dtype: element, c: outputs, ..y.feature_map() },
            window: window(kernel, x, y, groups),
            weights: constant(weights),
            weight_blocks: [0; 2],
            bias: constants.get(1).map(|bias| constant(bias)),
            multiplier: constant(weights),
            multipliers: 1,
            input_zero_point: 0,
            result: RequantTarget { dtype: element, zero_point: 0 },
            rounding: Rounding::HalfToEven,
            clamp: [-128, 127],
            table: None,
            residual: None,
            add: None,
            conv_is_a: true,
        }))
    }

    /// A value as rows, columns and channels, where its document says that it lies.
    fn map(&mut self, op: &Operation, value: &Value, written: bool) -> Result<Map, Error> {
        let wrong = "extents that no feature map has";
        let extents: Option<Vec<u32>> =
            value.dtype.shape.iter().map(|&extent| u32::try_from(extent).ok()).collect();
        let extents = extents.ok_or_else(|| self.fail(op, wrong))?;
        let of = |names: &[char]| {
            let own = value.dtype.layout.axes.iter().zip(&extents);
            own.filter(|(axis, _)| names.contains(&axis.name))
                .fold(1, |all: u32, (_, extent)| all.saturating_mul(*extent))
        };
        let all = extents.iter().try_fold(1_u32, |all, &extent| all.checked_mul(extent));
        let elements = all.ok_or_else(|| self.fail(op, wrong))?;
        let (mut n, mut h, mut w, c) = (of(&['N']), of(&['H']), of(&['W']), of(&['C', 'c']));
        let plain = u64::from(n) * u64::from(h) * u64::from(w) * u64::from(c) != u64::from(elements);
        if plain && c > 0 {
            (n, h, w) = (1, 1, elements / c);
        }
        let dtype = match value.dtype.element.storage() {
            Scalar::Unsigned(8) => DType::U8,
            Scalar::Signed(8) => DType::I8,
            other => match other.bytes() {
                2 => DType::F16,
                4 => DType::F32,
                _ => return Err(self.fail(op, "elements of a width that is not timed")),
            },
        };
        let bytes = u64::from(elements) * dtype.bytes() as u64;
        let addr = self.place(op, value.mtype, bytes, written)?;
        Ok(Map { n, h, w, c, dtype, addr })
    }

    fn place(&mut self, op: &Operation, mem: Mem, bytes: u64, written: bool) -> Result<Addr, Error> {
        let now = self.commands.len() as u32;
        let (segment, offset) = match mem {
            Mem::Chunk(id, offset) => {
                let count = self.drafts.len();
                let index = *self.chunks.entry(id).or_insert(count);
                if index == count {
                    self.drafts.push(Draft { bytes: 0, first: now, last: now + 1 });
                }
                let draft = &mut self.drafts[index];
                let end = offset.checked_add(bytes);
                let named = end.and_then(|_| patch::pack(index as u32, offset));
                let (Some(end), Some(named)) = (end, named) else {
                    return Err(self.fail(op, "a place beyond every memory"));
                };
                let draft_end = end.max(draft.bytes);
                draft.bytes = draft_end;
                draft.last = now + 1;
                return Ok(named);
            }
            Mem::External(address) => (Program::SCRATCH, address),
            Mem::OnChip(address) => (Program::RESIDENT, address),
            Mem::Host => return Err(self.fail(op, "a value in the host's memory")),
        };
        if offset.checked_add(bytes).is_none_or(|end| end > Addr::MAX_OFFSET) {
            return Err(self.fail(op, "a place beyond every memory"));
        }
        let first = now;
        let new = PlannedBuffer { segment, offset, bytes, first, last: now + 1, reads: 0 };
        let buffer = self.fixed.entry((segment, offset)).or_insert(new);
        buffer.bytes = buffer.bytes.max(bytes);
        buffer.last = now + 1;
        buffer.reads += u32::from(!written);
        Ok(Addr::new(segment, offset))
    }
}

impl Map {
    fn feature_map(self) -> FeatureMap {
        FeatureMap::dense(self.addr, self.dtype, [self.n, self.h, self.w, self.c])
    }

    fn elements(self) -> u32 {
        [self.n, self.h, self.w, self.c].into_iter().fold(1, u32::saturating_mul)
    }

    fn operand(self) -> Operand {
        let mut strides = [0; 6];
        strides[5] = self.dtype.bytes() as u64;
        Operand { addr: self.addr, dtype: self.dtype, strides }
    }
}

/// Feature maps that share bytes while both are alive, as the parts of a joint do, put together.
fn joined(mut buffers: Vec<PlannedBuffer>) -> Vec<PlannedBuffer> {
    buffers.sort_by_key(|buffer| (buffer.segment, buffer.offset, buffer.first));
    let meet = |a: &PlannedBuffer, b: &PlannedBuffer| {
        a.segment == b.segment
            && a.offset < b.offset + b.bytes
            && b.offset < a.offset + a.bytes
            && a.first < b.last
            && b.first < a.last
    };
    let mut open = true;
    while open {
        open = false;
        let mut kept: Vec<PlannedBuffer> = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            match kept.iter_mut().find(|other| meet(other, &buffer)) {
                Some(other) => {
                    let end = (other.offset + other.bytes).max(buffer.offset + buffer.bytes);
                    other.offset = other.offset.min(buffer.offset);
                    other.bytes = end - other.offset;
                    other.first = other.first.min(buffer.first);
                    other.last = other.last.max(buffer.last);
                    other.reads += buffer.reads;
                    open = true;
                }
                None => kept.push(buffer),
            }
        }
        buffers = kept;
    }
    buffers
}

/// The step and the padding that make `y`'s extents of `x`'s.
fn window(kernel: [u32; 2], x: Map, y: Map, groups: u32) -> Window {
    let along = |kernel: u32, from: u32, to: u32| {
        let stride = ((f64::from(from) / f64::from(to.max(1))).round() as u32).max(1);
        let reach = u64::from(to.saturating_sub(1)) * u64::from(stride) + u64::from(kernel);
        let pad = u32::try_from(reach.saturating_sub(u64::from(from))).unwrap_or(0);
        (stride, pad / 2, pad - pad / 2)
    };
    let (stride_h, top, bottom) = along(kernel[0], x.h, y.h);
    let (stride_w, left, right) = along(kernel[1], x.w, y.w);
    Window { kernel, stride: [stride_h, stride_w], dilation: [1; 2], pad: [top, left, bottom, right], groups }
}

/// A pool. Its window is not in the document: taken as the step, or as 3 where that is 1.
fn pool(kind: PoolKind, x: Map, y: Map) -> Command {
    let step = |from: u32, to: u32| match from / to.max(1) {
        0 | 1 => 3,
        step => step,
    };
    let quant = Quant { scale: 1.0, zero_point: 0 };
    Command::Pool(Pool {
        input: x.feature_map(),
        output: y.feature_map(),
        window: window([step(x.h, y.h), step(x.w, y.w)], x, y, 1),
        kind,
        input_quant: quant,
        output_quant: quant,
        rounding: Rounding::HalfToEven,
        requantize: Requantize::Float,
    })
}

fn elementwise(sum: bool, a: Map, b: Map, y: Map) -> Command {
    let dims = [1, 1, 1, 1, 1, y.elements()];
    let (a, b, output) = (a.operand(), b.operand(), y.operand());
    let target = RequantTarget { dtype: DType::I8, zero_point: 0 };
    let (rounding, clamp) = (Rounding::HalfToEven, [-128, 127]);
    if sum {
        let (ra, rb, k) = (1.0, 1.0, 0.0);
        let params = AddParams { a: target, b: target, out: target, ra, rb, k, rounding, clamp };
        return Command::QAdd(QAdd { dims, a, b, output, params, counted: [0; 2] });
    }
    let (zero_points, multiplier) = ([0; 3], 1.0);
    Command::QMul(QMul { dims, a, b, output, zero_points, multiplier, rounding, clamp, counted: [0; 2] })
}

/// A copy of as many elements as both have.
fn moved(x: Map, y: Map) -> Command {
    let elem_bytes = x.dtype.bytes() as u32;
    let dims = [1, 1, 1, 1, 1, x.elements().min(y.elements())];
    let mut strides = [0; 6];
    strides[5] = u64::from(elem_bytes);
    Command::Copy(Copy {
        elem_bytes,
        dims,
        src: x.addr,
        src_strides: strides,
        dst: y.addr,
        dst_strides: strides,
    })
}

#[cfg(test)]
mod tests;
