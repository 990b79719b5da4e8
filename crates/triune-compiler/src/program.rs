//! A compiled program: command words, constants, the memory it needs, its inputs and outputs.
//!
//! Plain data: made by the compiler, kept in a package, deployed to a device. It holds one image's commands; a batch is
//! that many cores running them side by side.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use triune_device::{Addr, DeviceSpec, Error as DeviceError, SegmentKind, SegmentTable};
use triune_graph::Origin;
use triune_kernels::Error as KernelError;
use triune_memory::residency::Policy;
use triune_tensor::{DType, Shape, text::Name};

use crate::Error;

/// One tensor at a program's border, as it lies in memory: padded, batch outermost, channels innermost.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorIo {
    /// The tensor's name in the model.
    pub name: String,
    /// Element type of the buffer.
    pub dtype: DType,
    /// Extents of the buffer, padding included: (batch, rows, columns, channels) on an NPU.
    pub shape: Shape,
    /// Elements before and after the data along each axis.
    pub padding: Vec<(usize, usize)>,
    /// Real value of one step; 1 for tensors that are not quantized.
    pub scale: f32,
    /// The integer that stands for 0; 0 for tensors that are not quantized.
    pub zero_point: i32,
    /// Channels of a block, if channels lie in blocks: the buffer is then (batch, channels / block, rows, columns, block),
    /// where `shape` still says (batch, rows, columns, channels).
    pub block: Option<usize>,
    /// The tensor's extents in the model's own order of axes, without padding.
    pub model_shape: Shape,
    /// The model's own element type: that of its reals, for which the buffer's integers stand, or of integers that the model
    /// itself takes or gives. Without a sign these are 128 above the buffer's.
    pub model_dtype: DType,
}

impl TensorIo {
    /// Bytes of the whole buffer.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }

    /// Extents of the buffer without padding.
    #[must_use]
    pub fn unpadded_shape(&self) -> Shape {
        let mut shape = self.shape;
        for (dim, (before, after)) in shape.dims_mut().iter_mut().zip(&self.padding) {
            *dim -= before + after;
        }
        shape
    }
}

/// Alignment of every buffer, in bytes: a cache line and a vector register.
pub const ALIGNMENT: u64 = triune_device::exec::SEGMENT_ALIGNMENT;

/// What a command of the stream came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The node's name in the model.
    pub name: String,
    /// The operator, such as `Conv`; [`Self::ATTENTION`] of several that are one command.
    pub kind: Cow<'static, str>,
    /// Index of its first command.
    pub first: u32,
    /// One past its last command.
    pub last: u32,
    /// The axes of its operand that its indices lead along; empty for operators without any.
    pub axes: Vec<u32>,
    /// The composite operator of the model that the node is a part of, if it is.
    pub origin: Option<Arc<Origin>>,
}

impl Operator {
    /// The kind of products, softmaxes and what stands between them that are one command; the name is that of the last of them.
    pub const ATTENTION: &str = "Attention";

    /// Whether a node of this name and kind has the commands.
    pub fn is_of(&self, name: &str, kind: &str) -> bool {
        self.name == name && (self.kind == kind || self.kind == Self::ATTENTION)
    }
}

/// A feature map's place, as the memory plan chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedBuffer {
    /// [`Program::SCRATCH`], [`Program::RESIDENT`] or [`Program::spilled`].
    pub segment: u16,
    /// First byte in the segment.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// Index of the first command that touches it: the one that writes it.
    pub first: u32,
    /// One past the last command that touches it.
    pub last: u32,
    /// How often all of it is read; reads of parts add up, the sum is rounded up.
    pub reads: u32,
}

/// What stays in the near memory, and what that is worth: for each feature map, the bytes that commands do not move to
/// and from the far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// How the feature maps were chosen.
    pub policy: Policy,
    /// Bytes of the near memory that they could take.
    pub capacity: u64,
    /// Bytes not moved, per image.
    pub value: u64,
    /// No choice avoids more.
    pub bound: u64,
    /// Bytes that their placement takes.
    pub peak: u64,
    /// What no placement of this choice can do without.
    pub lower_bound: u64,
}

impl Residency {
    /// How far `value` may be below the optimum, from 0 to 1; 0 is proven optimal.
    pub fn gap(&self) -> f64 {
        if self.bound == 0 { 0.0 } else { 1.0 - self.value as f64 / self.bound as f64 }
    }
}

/// Where a program waits for the host, which makes inputs of outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How many commands run before it, counted from the first.
    pub at: u32,
    /// The outputs that the host reads, by their number.
    pub reads: Vec<usize>,
    /// The inputs that it makes.
    pub makes: Vec<usize>,
}

/// A program for one kind of device.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Name of the device description that it was compiled for.
    pub target: String,
    /// That description, if it is not one that comes with Triune: the program takes it along.
    pub device: Option<Arc<DeviceSpec>>,
    /// Images per run: each runs the commands on a core of its own.
    pub batch: usize,
    /// Encoded commands: the content of segment 0.
    pub instructions: Bytes,
    /// Weights, parameters and tables: the content of segment 1.
    pub constants: Bytes,
    /// Large constants that a model's programs on the host have in common: the content of the segments behind the outputs'. Empty for
    /// every other device.
    pub tables: Vec<Bytes>,
    /// Size of segment 2, the feature maps in the far memory, per image.
    pub scratch_bytes: u64,
    /// What no plan for segment 2 can do without.
    pub scratch_lower_bound: u64,
    /// Size of the segment behind the outputs', per image: feature maps that the far memory has no room for. 0: there is none.
    pub spilled_bytes: u64,
    /// What stays in the near memory; `None` when the device has no such memory.
    pub residency: Option<Residency>,
    /// What lies in the segments of feature maps, and when. Execution does not read it.
    pub buffers: Vec<PlannedBuffer>,
    /// What a run takes, batch included: segments 4 and up. What the host makes while the program waits comes last.
    pub inputs: Vec<TensorIo>,
    /// What a run gives, batch included: the segments after the inputs'. What only the host reads while the program waits
    /// comes last.
    pub outputs: Vec<TensorIo>,
    /// How many of the outputs callers get; the others are for the host while the program waits.
    pub results: usize,
    /// Where it waits for the host, in order.
    pub waits: Vec<Wait>,
    /// What a run takes besides, batch included, for the host alone: its parts in the waits read it. It has no segment, and never
    /// crosses to the device.
    pub beside: Vec<TensorIo>,
    /// Where commands come from, in order.
    pub operators: Vec<Operator>,
}

/// Whether two devices differ in nothing but the size and speed of the memory that the host reaches: no command knows of that.
fn is_one_chip(one: &DeviceSpec, other: &DeviceSpec) -> bool {
    let mut board = other.clone();
    (board.name, board.description) = (one.name.clone(), one.description.clone());
    if let (Some(far), Some(of)) = (board.memory.first_mut(), one.memory.first()) {
        (far.bytes, far.bytes_per_second) = (of.bytes, of.bytes_per_second);
    }
    board == *one
}

impl Program {
    /// Segment of the encoded commands.
    pub const INSTRUCTIONS: u16 = SegmentTable::INSTRUCTIONS;
    /// Segment of weights, parameters and tables.
    pub const CONSTANTS: u16 = SegmentTable::CONSTANTS;
    /// Segment of the feature maps in the far memory.
    pub const SCRATCH: u16 = SegmentTable::SCRATCH;
    /// Segment of the feature maps in the near memory.
    pub const RESIDENT: u16 = SegmentTable::RESIDENT;
    /// Segment of input 0.
    pub const FIRST_IO: u16 = SegmentTable::FIRST_IO;
    /// Most segments behind these; the last that an address names is that of weights in a library.
    pub const MOST_BORDER: u16 = Addr::MAX_SEGMENT - Self::FIRST_IO;

    /// What runs take and give, batch included, in the order of their segments.
    pub fn border(&self) -> impl Iterator<Item = (SegmentKind, &TensorIo)> {
        let inputs = self.inputs.iter().map(|io| (SegmentKind::Input, io));
        inputs.chain(self.outputs.iter().map(|io| (SegmentKind::Output, io)))
    }

    /// The description that a program for this device takes along: none for those that come with Triune, and for hosts.
    pub fn carried(spec: &DeviceSpec) -> Option<Arc<DeviceSpec>> {
        (spec.name != "host" && !spec.is_builtin()).then(|| Arc::new(spec.clone()))
    }

    /// The description of the device that it was compiled for.
    ///
    /// # Errors
    /// [`Error::Device`] if it carries none, and none of that name comes with Triune.
    pub fn spec(&self) -> Result<DeviceSpec, Error> {
        match &self.device {
            Some(own) => Ok(DeviceSpec::clone(own)),
            None => Ok(DeviceSpec::builtin(&self.target)?),
        }
    }

    /// Whether it was compiled for this device, or for the same chip on another board.
    ///
    /// # Errors
    /// [`Error::Argument`] if not: devices of one name can differ.
    pub fn check_device(&self, spec: &DeviceSpec) -> Result<(), Error> {
        let is_own = self.device.is_some();
        let on_a_board = || DeviceSpec::builtin(&self.target).is_ok_and(|own| is_one_chip(&own, spec));
        if self.target != spec.name && (is_own || !on_a_board()) {
            let text = format!("a program for '{}' on a device '{}'", Name(&self.target), Name(&spec.name));
            return Err(Error::Argument(text));
        }
        match &self.device {
            Some(own) if **own != *spec => Err(Error::Argument(format!(
                "the program was compiled for another device of the name '{}'; compile it again for this one",
                Name(&spec.name)
            ))),
            _ => Ok(()),
        }
    }

    /// The inputs that callers give.
    pub fn given(&self) -> &[TensorIo] {
        let made: usize = self.waits.iter().map(|wait| wait.makes.len()).sum();
        &self.inputs[..self.inputs.len().saturating_sub(made)]
    }

    /// All that callers give: the inputs, and behind them what is for the host alone.
    pub fn taken(&self) -> impl Iterator<Item = &TensorIo> + Clone {
        self.given().iter().chain(&self.beside)
    }

    /// The outputs that callers get.
    pub fn results(&self) -> &[TensorIo] {
        &self.outputs[..self.results.min(self.outputs.len())]
    }

    /// The commands of each stage: between the program's beginning, its waits and its end.
    pub fn stages(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let ends = self.waits.iter().map(|wait| wait.at as usize).chain([usize::MAX]);
        let mut start = 0;
        ends.map(move |end| std::mem::replace(&mut start, end)..end)
    }

    /// Segment behind those of so many inputs and outputs; `None` when these are as many as addresses can name.
    pub fn behind(border: usize) -> Option<u16> {
        let border = u16::try_from(border).ok().filter(|&border| border < Self::MOST_BORDER)?;
        Some(Self::FIRST_IO + border)
    }

    /// Segment of the feature maps that the far memory has no room for: that behind the outputs'. `None` if there are none.
    pub fn spilled(&self) -> Option<u16> {
        let segment = Self::behind(self.inputs.len() + self.outputs.len());
        (self.spilled_bytes > 0).then_some(segment).flatten()
    }

    /// Bytes of a segment of feature maps, per image; `None` for any other segment.
    pub fn map_bytes(&self, segment: u16) -> Option<u64> {
        match segment {
            Self::SCRATCH => Some(self.scratch_bytes),
            Self::RESIDENT => Some(self.resident_bytes()),
            _ => (self.spilled() == Some(segment)).then_some(self.spilled_bytes),
        }
    }

    /// Size of segment 3, the feature maps that stay in the near memory, per image.
    pub fn resident_bytes(&self) -> u64 {
        let peak = self.residency.map_or(0, |residency| residency.peak);
        peak.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
    }

    /// What went wrong with command `index` of this program or of a part of it that begins with command `first`, as an error
    /// of the operator that the command came from.
    pub fn blame(&self, first: u32, error: DeviceError) -> Error {
        let (DeviceError::Command { index, .. } | DeviceError::Kernel { index, .. }) = &error else {
            return error.into();
        };
        let command = u32::try_from(*index).ok().and_then(|index| first.checked_add(index));
        let Some(operator) = command.and_then(|command| self.operator_of(command)) else {
            return error.into();
        };
        let mut source = error;
        if let DeviceError::Kernel { source: KernelError::Index { axis, .. }, .. } = &mut source {
            // Commands count the axes that are indexed, people those of the operand.
            *axis = operator.axes.get(*axis).map_or(*axis, |&axis| axis as usize);
        }
        let (node, op) = match &operator.origin {
            Some(origin) => (&*origin.node, &*origin.op),
            None => (&*operator.name, &*operator.kind),
        };
        Error::Node { node: node.into(), op: op.into(), source: Box::new(source) }
    }

    /// The operator that command `index` belongs to.
    pub fn operator_of(&self, index: u32) -> Option<&Operator> {
        let at = self.operators.partition_point(|operator| operator.last <= index);
        self.operators.get(at).filter(|operator| operator.first <= index)
    }
}
