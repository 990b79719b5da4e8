//! A deployment in the memory of a board: what its areas lie in, where segments begin and which of them collide, what a run is
//! told, and values on their way from and to the host. Chunks of memory have owners elsewhere; here are their addresses.

use std::{collections::HashSet, ops::Range, sync::Arc};

use triune_device::{
    Board, Error as DeviceError, Job, JobReport, Layout, RangeAccess, RegionId, Segment, SegmentKind,
    SegmentTable, exec::SEGMENT_ALIGNMENT,
};
use triune_kernels::Pool;
use triune_tensor::memory;

use super::{HardDeployment, ValuePlace};
use crate::{Error, hardops::rows, load::Place};

/// What an area lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// The chunk that was given for this value, from its first byte on.
    Value(i64),
    /// The chunk of all inputs or all outputs, so many bytes from its beginning.
    Edge(u64),
    /// A chunk of its own.
    Own,
}

/// A byte of a segment that is not what was put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The operator that it belongs to, `None` between them.
    pub op_id: Option<i64>,
    /// Bytes from the segment's beginning.
    pub offset: u64,
    /// What was put there.
    pub wanted: u8,
    /// What is there.
    pub found: u8,
}

/// Where a result is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The result's number.
    pub v_id: i64,
    /// The first byte's address in the memory that areas lie in.
    pub address: u64,
    /// Bytes that are free for it from there on.
    pub bytes: u64,
}

impl HardDeployment {
    /// What each area lies in, by its index. `chunks` are given for values, each the value's number and the chunk's bytes: the first
    /// of an area that holds all of it, for a value without gaps at its beginning, is the area's. Without one, areas lie one behind
    /// the other with those of their role if `packed`, else by themselves.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for values that lie in no area.
    pub fn seats(&self, chunks: &[(i64, u64)], packed: bool) -> Result<Vec<Seat>, Error> {
        let alone = |area: &super::Area| {
            let edge = self.segments.iter().find(|segment| segment.name == area.role.name());
            let edge = edge.filter(|edge| packed && edge.bytes > 0);
            edge.map_or(Seat::Own, |edge| Seat::Edge(area.logic - edge.logic))
        };
        let mut seats: Vec<Seat> = self.areas.iter().map(alone).collect();
        for &(v_id, bytes) in chunks {
            let value = self.value(v_id)?;
            let Some(area) = value.area else {
                return Err(Error::argument(format!("value {v_id} is no input or output of the deployment")));
            };
            let whole = value.offset == 0 && value.is_dense() && self.areas[area].bytes <= bytes;
            if whole && !matches!(seats[area], Seat::Value(_)) {
                seats[area] = Seat::Value(v_id);
            }
        }
        Ok(seats)
    }

    /// The first byte of the instructions or the constants that is another one in `there`, which was read from where they were put;
    /// `None` if none is, and for segments of another kind.
    pub fn fault(&self, kind: SegmentKind, there: &[u8]) -> Option<Fault> {
        let wanted = match kind {
            SegmentKind::Instructions => self.instructions(),
            SegmentKind::Constants => self.weights(),
            _ => &[],
        };
        let at = wanted.iter().zip(there).position(|(wanted, found)| wanted != found)?;
        let offset = at as u64;
        let owner = self.ops.iter().find(|op| {
            let pieces = match kind {
                SegmentKind::Instructions => std::slice::from_ref(&op.instructions),
                _ => &op.weights,
            };
            pieces.iter().any(|[first, bytes]| (*first..first + bytes).contains(&offset))
        });
        Some(Fault { op_id: owner.map(|op| op.op_id), offset, wanted: wanted[at], found: there[at] })
    }
}

/// A deployment whose segments have addresses on a board.
///
/// It owns no memory: whoever places a deployment allocates the chunks, and keeps them as long as it runs.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use triune_device::{Board, DeviceSpec, Layout, LocalBoard};
/// use triune_graph::format::onnx;
/// use triune_icraft::{DeploymentOptions, HardDeployment, HardNetwork, PAGE, Placement, Stages};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spec = DeviceSpec::builtin("zg330")?;
/// let model = onnx::read("../triune/models/edges.onnx")?;
/// let stages = Stages::new(&model, None, &spec, &triune_compiler::PlanOptions::default())?;
/// let network = Arc::new(HardNetwork::new(&stages.compiled, Path::new("edges"))?);
/// let deployment = Arc::new(HardDeployment::new(&network, &spec, &DeploymentOptions::default())?);
///
/// let board = LocalBoard::new(spec, true, 1)?;
/// let [far, near] = [board.info().region("ddr")?, board.info().region("ocm")?];
/// let take = |bytes: u64| board.allocate(far, bytes.max(1), PAGE);
/// let sizes = deployment.sizes();
/// let mut bases = Layout {
///     instructions: take(sizes.instructions)?,
///     constants: take(sizes.constants)?,
///     scratch: take(sizes.scratch)?,
///     resident: board.allocate(near, sizes.resident.max(1), PAGE)?,
///     others: Vec::new(),
/// };
/// for (kind, bytes) in sizes.others {
///     bases.others.push((kind, take(bytes)?));
/// }
/// board.write(far, bases.instructions, deployment.instructions())?;
/// board.write(far, bases.constants, deployment.weights())?;
/// let placed = Placement::new(&deployment, &board, bases)?;
///
/// let (first, last) = (&deployment.ops()[0], &deployment.ops()[deployment.ops().len() - 1]);
/// let bytes = |v_id| deployment.values().iter().find(|value| value.v_id == v_id).map_or(0, |value| value.bytes as usize);
/// placed.write(&board, first.inputs[0], &vec![1; bytes(first.inputs[0])])?;
/// let report = placed.run(&board, 0..deployment.ops().len())?;
/// let mut result = vec![0; bytes(last.outputs[0])];
/// placed.read(&board, last.outputs[0], &mut result)?;
/// println!("{result:?} after {} ns", report.map_or(0, |report| report.nanoseconds));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Placement {
    deployment: Arc<HardDeployment>,
    segments: Vec<Segment>,
}

impl Placement {
    /// A deployment whose segments begin at `bases`, each in the memory of the board that its device description names.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for another number of areas, [`Error::Device`](triune_compiler::Error::Device) for a board without such memories.
    pub fn new(
        deployment: &Arc<HardDeployment>,
        board: &dyn Board,
        bases: Layout<u64>,
    ) -> Result<Self, Error> {
        let areas = deployment.areas.len();
        if bases.others.len() != areas {
            return Err(Error::argument(format!(
                "{} addresses for {areas} inputs and outputs",
                bases.others.len()
            )));
        }
        let sizes = deployment.sizes().in_order();
        let places = sizes.zip(bases.in_order()).zip(deployment.memories(&deployment.spec));
        let segments = places.map(|(((kind, len), (_, base)), memory)| {
            Ok(Segment { region: board.info().region(memory)?, base, len, kind })
        });
        let segments = segments.collect::<Result<_, DeviceError>>()?;
        Ok(Self { deployment: Arc::clone(deployment), segments })
    }

    /// The segments by their numbers; those of the areas come last.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Address of a value's first byte.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for a value that no operator reads or makes.
    pub fn address(&self, v_id: i64) -> Result<u64, Error> {
        Ok(self.at(self.deployment.value(v_id)?).1)
    }

    /// Numbers of two segments that share bytes, the first of which holds instructions or constants; `None` if these lie by
    /// themselves. That segments which are written do, every run sees to.
    pub fn collision(&self) -> Option<(usize, usize)> {
        let fixed = self.segments.iter().enumerate().filter(|(_, segment)| segment.kind.prepared());
        fixed.into_iter().find_map(|(index, segment)| {
            let behind = &self.segments[index + 1..];
            let other = behind.iter().position(|other| other.access().overlaps(&segment.access()))?;
            Some((index, index + 1 + other))
        })
    }

    /// The number of the segment of instructions or constants that writing to bytes of its memory would damage.
    pub fn damaged(&self, address: u64, bytes: u64) -> Option<usize> {
        self.segments.iter().position(|segment| {
            let written = RangeAccess::exclusive(segment.region, address, bytes);
            segment.kind.prepared() && segment.access().overlaps(&written)
        })
    }

    /// Areas that a run of some operators can make right where results are wanted: index and address of each. The result is all of
    /// its area and has no gaps, the run makes everything that lies there, and the place begins at a multiple of 64 and is apart
    /// from every other segment.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for operators or values that the deployment does not have.
    pub fn moves(&self, ops: Range<usize>, wanted: &[Wanted]) -> Result<Vec<(usize, u64)>, Error> {
        let deployment = &self.deployment;
        let made: HashSet<i64> =
            deployment.range(ops)?.iter().flat_map(|op| op.outputs.iter().copied()).collect();
        let mut moved: Vec<(usize, u64, RangeAccess)> = Vec::new();
        for wanted in wanted {
            let value = deployment.value(wanted.v_id)?;
            let Some(area) = value.area else { continue };
            let number = usize::from(value.segment_number());
            let own = self.segments[number];
            let place = RangeAccess::exclusive(own.region, wanted.address, own.len);
            let whole = value.offset == 0 && value.is_dense() && value.bytes == own.len;
            let fits = wanted.address.is_multiple_of(SEGMENT_ALIGNMENT) && own.len <= wanted.bytes;
            let mut beside = deployment.values.iter().filter(|other| other.area == Some(area));
            let mut others = self.segments.iter().enumerate().filter(|(index, _)| *index != number);
            if whole
                && fits
                && beside.all(|other| made.contains(&other.v_id))
                && others.all(|(_, other)| !other.access().overlaps(&place))
                && moved.iter().all(|(other, _, taken)| *other != area && !taken.overlaps(&place))
            {
                moved.push((area, wanted.address, place));
            }
        }
        Ok(moved.into_iter().map(|(area, address, _)| (area, address)).collect())
    }

    /// The same with areas that lie elsewhere, index and address of each ([`Self::moves`]).
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for areas that the deployment does not have.
    pub fn moved(&self, areas: &[(usize, u64)]) -> Result<Self, Error> {
        let mut segments = self.segments.clone();
        for &(area, address) in areas {
            let segment = segments.get_mut(area.saturating_add(SegmentTable::FIRST_IO.into()));
            segment.ok_or_else(|| Error::argument(format!("the deployment has no area {area}")))?.base =
                address;
        }
        Ok(Self { deployment: Arc::clone(&self.deployment), segments })
    }

    /// Runs some operators on a board and returns what that cost, `None` if they have no commands.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for operators that the deployment does not have, [`Error::Device`](triune_compiler::Error::Device) for segments of which one is
    /// written and that overlap, and as [`Board::run`] has it.
    pub fn run(&self, board: &dyn Board, ops: Range<usize>) -> Result<Option<JobReport>, Error> {
        let [first, bytes] = self.deployment.stream(ops.clone())?;
        if bytes == 0 {
            return Ok(None);
        }
        if board.info().watched {
            let makes = self.deployment.makes(ops)?;
            let range = |(number, first, bytes): (u16, u64, u64)| {
                let segment = self.segments[usize::from(number)];
                (segment.region, segment.base.saturating_add(first), bytes)
            };
            board.forget(&makes.into_iter().map(range).collect::<Vec<_>>())?;
        }
        let start = self.segments[usize::from(SegmentTable::INSTRUCTIONS)].base.saturating_add(first);
        let segments = SegmentTable::new(self.segments.clone())?;
        Ok(Some(board.run(&Job { start, bytes, segments: Some(segments) })?))
    }

    /// Writes a value's elements, row-major in their stored extents, to where it lies; bytes between them stay.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for a value that no operator reads or makes, [`Error::Operand`] for another number of bytes,
    /// [`Error::Device`](triune_compiler::Error::Device) as [`Board::write`] has it.
    pub fn write(&self, board: &dyn Board, v_id: i64, mut elements: &[u8]) -> Result<(), Error> {
        let value = self.sized(v_id, elements.len())?;
        let (region, address) = self.at(value);
        if value.is_dense() {
            return Ok(board.write(region, address, elements)?);
        }
        let mut span = memory::filled(value.span as usize, 0)?;
        board.read(region, address, &mut span)?;
        if let Some(copy) = self.place(value).copy(true) {
            copy.run(elements, &mut span, &Pool::new(1))
                .map_err(|error| Error::argument(error.to_string()))?;
            return Ok(board.write(region, address, &span)?);
        }
        self.rows(value, |row| {
            let (own, behind) = elements.split_at(row.len());
            span[row].copy_from_slice(own);
            elements = behind;
        })?;
        Ok(board.write(region, address, &span)?)
    }

    /// Reads a value's elements, row-major in their stored extents.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(&self, board: &dyn Board, v_id: i64, elements: &mut [u8]) -> Result<(), Error> {
        let value = self.sized(v_id, elements.len())?;
        let (region, address) = self.at(value);
        if value.is_dense() {
            return Ok(board.read(region, address, elements)?);
        }
        let mut span = memory::filled(value.span as usize, 0)?;
        board.read(region, address, &mut span)?;
        if let Some(copy) = self.place(value).copy(false) {
            let read = copy.run(&span, elements, &Pool::new(1));
            return read.map_err(|error| Error::argument(error.to_string()));
        }
        let mut at = 0;
        self.rows(value, |row| {
            let end = at + row.len();
            elements[at..end].copy_from_slice(&span[row]);
            at = end;
        })
    }

    /// The region of a value, and its first byte's address.
    fn at(&self, value: &ValuePlace) -> (RegionId, u64) {
        let segment = self.segments[usize::from(value.segment_number())];
        (segment.region, segment.base.saturating_add(value.offset))
    }

    /// Where a value lies that has so many bytes.
    fn sized(&self, v_id: i64, bytes: usize) -> Result<&ValuePlace, Error> {
        let value = self.deployment.value(v_id)?;
        self.deployment.network.values[&v_id].expect(v_id, bytes)?;
        Ok(value)
    }

    fn place(&self, value: &ValuePlace) -> &Place {
        &self.deployment.network.values[&value.v_id]
    }

    /// Calls `each` with the bytes, counted from the value's first, of every row of elements without gaps, in row-major order.
    fn rows(&self, value: &ValuePlace, mut each: impl FnMut(Range<usize>)) -> Result<(), Error> {
        let place = self.place(value);
        rows(place, &mut |offset, bytes| {
            let first = (offset - place.offset) as usize;
            each(first..first + bytes);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
