//! A bench for hand-made programs: constants, segments and a stream in a device's memory.

use std::sync::Arc;

use triune_device::{
    Addr, Command, DeviceSpec, Error, Executor, FeatureMap, Memory, RegionId, Segment, SegmentKind,
    SegmentTable, Stream,
    command::{self, End, Quant, Window, encode},
};
use triune_kernels::Isa;
use triune_tensor::DType;

/// Segments as compiled programs number them, with one input and one output.
pub(crate) const CONSTANTS: u16 = 1;
pub(crate) const SCRATCH: u16 = 2;
pub(crate) const INPUT: u16 = 3;
pub(crate) const OUTPUT: u16 = 4;

/// Collects what goes into the constants segment.
#[derive(Default)]
pub(crate) struct Constants {
    pub(crate) bytes: Vec<u8>,
}

impl Constants {
    pub(crate) fn add(&mut self, bytes: impl IntoIterator<Item = u8>) -> Addr {
        self.bytes.resize(self.bytes.len().next_multiple_of(64), 0);
        let addr = Addr::new(CONSTANTS, self.bytes.len() as u64);
        self.bytes.extend(bytes);
        addr
    }

    pub(crate) fn floats(&mut self, values: &[f32]) -> Addr {
        self.add(values.iter().flat_map(|value| value.to_le_bytes()))
    }

    pub(crate) fn ints(&mut self, values: &[i32]) -> Addr {
        self.add(values.iter().flat_map(|value| value.to_le_bytes()))
    }
}

/// A program in a memory.
pub(crate) struct Bench {
    pub(crate) memory: Arc<Memory>,
    pub(crate) region: RegionId,
    pub(crate) table: SegmentTable,
    pub(crate) stream: Stream,
}

impl Bench {
    /// Puts a program into `memory`; scratch, input and output have the given sizes.
    pub(crate) fn new(
        memory: &Arc<Memory>,
        commands: &[Command],
        constants: &Constants,
        [scratch, input, output]: [u64; 3],
    ) -> Self {
        let region = memory.regions().next().expect("a region").0;
        let words = encode(commands.iter().chain([&Command::from(End {})]));
        let place = |kind, len: u64, bytes: &[u8]| {
            let base = memory.allocate(region, len.max(1), 64).expect("room");
            memory.write(region, base, bytes).expect("free");
            Segment { region, base, len, kind }
        };
        let segments = vec![
            place(SegmentKind::Instructions, words.len() as u64, &words),
            place(SegmentKind::Constants, constants.bytes.len() as u64, &constants.bytes),
            place(SegmentKind::Scratch, scratch, &[]),
            place(SegmentKind::Input, input, &[]),
            place(SegmentKind::Output, output, &[]),
        ];
        Self {
            memory: Arc::clone(memory),
            region,
            table: SegmentTable::new(segments).expect("disjoint"),
            stream: Stream { addr: Addr::new(0, 0), len: words.len() as u64 },
        }
    }

    /// On a memory of its own.
    pub(crate) fn alone(commands: &[Command], constants: &Constants, sizes: [u64; 3]) -> Self {
        Self::new(&memory("host"), commands, constants, sizes)
    }

    pub(crate) fn executor(&self, isa: Isa) -> Result<Executor, Error> {
        Executor::new(Arc::clone(&self.memory), &self.table, self.stream, isa)
    }

    pub(crate) fn base(&self, segment: u16) -> u64 {
        self.table.segments()[usize::from(segment)].base
    }

    pub(crate) fn write(&self, segment: u16, offset: u64, bytes: &[u8]) {
        self.memory.write(self.region, self.base(segment) + offset, bytes).expect("free");
    }

    pub(crate) fn read(&self, segment: u16, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(self.region, self.base(segment) + offset, &mut bytes).expect("free");
        bytes
    }
}

pub(crate) fn memory(device: &str) -> Arc<Memory> {
    Arc::new(Memory::new(&DeviceSpec::builtin(device).expect("builtin")).expect("address space"))
}

pub(crate) fn window(kernel: [u32; 2], stride: [u32; 2], pad: [u32; 4], groups: u32) -> Window {
    Window { kernel, stride, dilation: [1, 1], pad, groups }
}

pub(crate) fn input(dtype: DType, dims: [u32; 4]) -> FeatureMap {
    FeatureMap::dense(Addr::new(INPUT, 0), dtype, dims)
}

pub(crate) fn output(dtype: DType, dims: [u32; 4]) -> FeatureMap {
    FeatureMap::dense(Addr::new(OUTPUT, 0), dtype, dims)
}

pub(crate) fn quant(scale: f32, zero_point: i32) -> Quant {
    Quant { scale, zero_point }
}

/// A dense operand of 8-bit or float elements over the last axes.
pub(crate) fn operand(addr: Addr, dtype: DType, dims: [u32; 6]) -> command::Operand {
    let mut strides = [0; 6];
    let mut step = dtype.bytes() as u64;
    for (stride, dim) in strides.iter_mut().zip(dims).rev() {
        *stride = step;
        step *= u64::from(dim);
    }
    command::Operand { addr, dtype, strides }
}

pub(crate) fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

pub(crate) fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
