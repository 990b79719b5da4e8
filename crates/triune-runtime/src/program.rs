//! A compiled program: command words, constants, the memory it needs, its inputs and outputs.
//!
//! Plain data: made by the compiler, kept in a package, deployed to a device. It holds one image's commands; a batch is
//! that many cores running them side by side.

use bytes::Bytes;
use triune_tensor::{DType, Shape};

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
    /// The tensor's extents in the model's own order of axes, without padding.
    pub model_shape: Shape,
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

/// What a command of the stream came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The node's name in the model.
    pub name: String,
    /// The operator, such as `Conv`.
    pub kind: String,
    /// Index of its first command.
    pub first: u32,
    /// One past its last command.
    pub last: u32,
}

/// A feature map's place in segment 2, as the memory plan chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedBuffer {
    /// First byte in the segment.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
    /// Index of the first command that touches it: the one that writes it.
    pub first: u32,
    /// One past the last command that touches it.
    pub last: u32,
}

/// A program for one kind of device.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Name of the device description that it was compiled for.
    pub target: String,
    /// Images per run: each runs the commands on a core of its own.
    pub batch: usize,
    /// Encoded commands: the content of segment 0.
    pub instructions: Bytes,
    /// Weights, parameters and tables: the content of segment 1.
    pub constants: Bytes,
    /// Size of segment 2, the feature maps between commands, per image.
    pub scratch_bytes: u64,
    /// What no plan for segment 2 can do without.
    pub scratch_lower_bound: u64,
    /// What lies in segment 2 and when; empty in packages of before the plan was kept. Execution does not read it.
    pub buffers: Vec<PlannedBuffer>,
    /// What a run takes, batch included: segments 3 and up.
    pub inputs: Vec<TensorIo>,
    /// What a run gives, batch included: the segments after the inputs'.
    pub outputs: Vec<TensorIo>,
    /// Where commands come from, in order.
    pub operators: Vec<Operator>,
}

impl Program {
    /// Segment of the encoded commands.
    pub const INSTRUCTIONS: u8 = 0;
    /// Segment of weights, parameters and tables.
    pub const CONSTANTS: u8 = 1;
    /// Segment of the feature maps between commands.
    pub const SCRATCH: u8 = 2;
    /// Segment of input 0.
    pub const FIRST_IO: u8 = 3;

    /// The operator that command `index` belongs to.
    pub fn operator_of(&self, index: u32) -> Option<&Operator> {
        let at = self.operators.partition_point(|operator| operator.last <= index);
        self.operators.get(at).filter(|operator| operator.first <= index)
    }
}
