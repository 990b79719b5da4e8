//! Deployments in the memory of boards: addresses, what collides, runs, and values there and back.

use std::{collections::BTreeMap, sync::Arc};

use pyo3::prelude::*;
use triune::internals::{
    device::{Layout, Segment, SegmentKind},
    icraft::{self, Wanted},
};

use crate::{
    array::{Input, Output},
    board::{Board, BoardReport, Place, bytes_of},
    deployment::Deployment,
    error,
    list::List,
};

/// A deployment whose segments have addresses on a board. It owns no memory there.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct Placement {
    inner: icraft::Placement,
    /// The region of each segment.
    regions: Arc<[String]>,
}

#[pymethods]
impl Placement {
    /// A deployment whose segments begin at these addresses of a board, which are kept for it elsewhere; `areas` has those of the
    /// deployment's areas.
    ///
    /// Raises `ArgumentError` for another number of areas or a board without such memories, `ReleasedError` if it is closed.
    #[new]
    #[pyo3(signature = (deployment, board, *, instructions, constants, scratch, resident, areas))]
    fn new(
        deployment: &Deployment,
        board: &Board,
        instructions: u64,
        constants: u64,
        scratch: u64,
        resident: u64,
        areas: List<u64>,
    ) -> PyResult<Self> {
        let board = board.open()?;
        // Which is an input and which an output, the deployment knows.
        let others = areas.into_iter().map(|base| (SegmentKind::Output, base)).collect();
        let bases = Layout { instructions, constants, scratch, resident, others };
        let inner = icraft::Placement::new(&deployment.inner, &*board, bases).map_err(error::runtime)?;
        let regions =
            inner.segments().iter().map(|segment| board.info().regions[segment.region.0].name.clone());
        Ok(Self { regions: regions.collect(), inner })
    }

    /// What runs are told of the segments, by their numbers: region, address, bytes and kind, as `Board.run` takes them. Those of the
    /// areas come last.
    #[getter]
    fn segments(&self) -> Vec<Place> {
        let place = |(segment, region): (&Segment, &String)| {
            (region.clone(), segment.base, segment.len, segment.kind.to_string())
        };
        self.inner.segments().iter().zip(&*self.regions).map(place).collect()
    }

    /// Address of a value's first byte.
    ///
    /// Raises `ArgumentError` if no operator reads or makes it.
    fn address(&self, v_id: i64) -> PyResult<u64> {
        self.inner.address(v_id).map_err(error::runtime)
    }

    /// Numbers of two segments that share bytes, the first of which holds instructions or constants; None if these lie by
    /// themselves.
    fn collision(&self) -> Option<(usize, usize)> {
        self.inner.collision()
    }

    /// The number of the segment of instructions or constants that writing to bytes of its memory would damage, None if none is.
    fn damaged(&self, address: u64, nbytes: u64) -> Option<usize> {
        self.inner.damaged(address, nbytes)
    }

    /// Areas that a run of operators `first..last` can make right where results are wanted, and where. `wanted` has number, address
    /// in the memory of the areas, and bytes that are free from there on.
    ///
    /// Raises `ArgumentError` if there are no such operators or values.
    fn moves(
        &self,
        first: usize,
        last: usize,
        wanted: List<(i64, u64, u64)>,
    ) -> PyResult<BTreeMap<usize, u64>> {
        let wanted: Vec<Wanted> =
            wanted.into_iter().map(|(v_id, address, bytes)| Wanted { v_id, address, bytes }).collect();
        Ok(self.inner.moves(first..last, &wanted).map_err(error::runtime)?.into_iter().collect())
    }

    /// The same with areas that lie elsewhere, and where.
    ///
    /// Raises `ArgumentError` if there are no such areas.
    fn moved(&self, areas: BTreeMap<usize, u64>) -> PyResult<Self> {
        let areas: Vec<(usize, u64)> = areas.into_iter().collect();
        let inner = self.inner.moved(&areas).map_err(error::runtime)?;
        Ok(Self { inner, regions: Arc::clone(&self.regions) })
    }

    /// Runs operators `first..last` on a board and returns what that cost, None if they have no commands.
    ///
    /// Raises `ArgumentError` if there are no such operators, and as `Board.run`.
    fn run(&self, py: Python<'_>, board: &Board, first: usize, last: usize) -> PyResult<Option<BoardReport>> {
        let open = board.open()?;
        let report = board.detached(py, || self.inner.run(&*open, first..last))?;
        Ok(report.map(|inner| BoardReport { inner }))
    }

    /// Writes a value to where it lies: its elements row-major in their stored extents. Bytes between them stay.
    ///
    /// Raises `ArgumentError` for another number of bytes, or if no operator reads or makes it.
    fn write(&self, py: Python<'_>, board: &Board, v_id: i64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let open = board.open()?;
        let data = Input::new("data", &bytes_of(data)?)?;
        let bytes = data.bytes()?;
        board.detached(py, || self.inner.write(&*open, v_id, bytes))
    }

    /// Reads a value into a buffer: its elements row-major in their stored extents.
    ///
    /// Raises `ArgumentError` for another number of bytes, or if no operator reads or makes it.
    fn read(&self, py: Python<'_>, board: &Board, v_id: i64, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let open = board.open()?;
        let mut out = Output::new("out", &bytes_of(out)?)?;
        let bytes = out.bytes()?;
        board.detached(py, || self.inner.read(&*open, v_id, bytes))
    }
}
