//! MegEngine model files of version 2 made by hand, with an encoder that shares nothing with the reader.

use std::collections::HashMap;

use triune_graph::{
    Graph,
    format::mge,
    passes::{Arrival, Stage, stages},
};
use triune_runtime::{Session, SessionOptions, Tensor, TensorRef, dynamic};
use triune_tensor::{DType, Shape};
use triune_testing::Random;

/// What a slot of a table holds.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    U8(u8),
    U32(u32),
    U64(u64),
    F32(f32),
    Text(String),
    Table(Table),
    /// The number of elements, their alignment, their bytes.
    Vector(usize, usize, Vec<u8>),
    Tables(Vec<Table>),
}

/// Slots and what they hold.
pub(crate) type Table = Vec<(usize, Field)>;

fn align(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

/// Lets the offset at `position` point to the end.
fn point(out: &mut [u8], position: usize) {
    let distance = (out.len() - position) as u32;
    out[position..position + 4].copy_from_slice(&distance.to_le_bytes());
}

/// Appends a table and what it refers to.
fn put(out: &mut Vec<u8>, table: &Table) {
    let slots = table.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
    // The table comes first, the vtable behind it, then what it refers to; every field takes four bytes or eight.
    align(out, 4);
    let start = out.len();
    let width = |field: &Field| if matches!(field, Field::U64(_)) { 8 } else { 4 };
    let size = 4 + table.iter().map(|(_, field)| width(field)).sum::<usize>();
    out.resize(start + size, 0);
    let vtable = out.len();
    out[start..start + 4].copy_from_slice(&(start as i32 - vtable as i32).to_le_bytes());
    out.extend_from_slice(&(4 + 2 * slots as u16).to_le_bytes());
    out.extend_from_slice(&(size as u16).to_le_bytes());
    out.resize(vtable + 4 + 2 * slots, 0);
    let mut next = start + 4;
    for (slot, field) in table {
        let position = next;
        next += width(field);
        let entry = vtable + 4 + 2 * slot;
        out[entry..entry + 2].copy_from_slice(&((position - start) as u16).to_le_bytes());
        let word = match field {
            Field::U8(value) => u32::from(*value),
            Field::U32(value) => *value,
            Field::F32(value) => value.to_bits(),
            Field::U64(value) => {
                out[position..position + 8].copy_from_slice(&value.to_le_bytes());
                continue;
            }
            _ => {
                align(out, 4);
                if let Field::Vector(_, to, _) = field {
                    while !(out.len() + 4).is_multiple_of(*to) {
                        out.extend_from_slice(&[0; 4]);
                    }
                }
                point(out, position);
                match field {
                    Field::Text(text) => {
                        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                        out.extend_from_slice(text.as_bytes());
                        out.push(0);
                    }
                    Field::Vector(count, _, bytes) => {
                        out.extend_from_slice(&(*count as u32).to_le_bytes());
                        out.extend_from_slice(bytes);
                    }
                    Field::Table(table) => put(out, table),
                    Field::Tables(tables) => {
                        let first = out.len() + 4;
                        out.extend_from_slice(&(tables.len() as u32).to_le_bytes());
                        out.resize(first + 4 * tables.len(), 0);
                        for (index, table) in tables.iter().enumerate() {
                            align(out, 4);
                            point(out, first + 4 * index);
                            put(out, table);
                        }
                    }
                    Field::U8(_) | Field::U32(_) | Field::U64(_) | Field::F32(_) => {
                        unreachable!("handled above")
                    }
                }
                continue;
            }
        };
        out[position..position + 4].copy_from_slice(&word.to_le_bytes());
    }
}

/// An element type: a code of the schema, and scale and zero point where it is quantized.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type(pub(crate) u8, pub(crate) Option<(f32, u8)>);

pub(crate) const F32: Type = Type(0, None);
pub(crate) const I32: Type = Type(4, None);

/// `QuantizedS8` with a scale.
pub(crate) const fn qs8(scale: f32) -> Type {
    Type(13, Some((scale, 0)))
}

/// `QuantizedS32` with a scale.
pub(crate) const fn qs32(scale: f32) -> Type {
    Type(12, Some((scale, 0)))
}

pub(crate) fn dtype(of: Type) -> Table {
    let mut table = vec![(0, Field::U8(of.0))];
    if let Some((scale, zero_point)) = of.1 {
        table.push((1, Field::U8(1)));
        table.push((2, Field::Table(vec![(0, Field::F32(scale)), (1, Field::U8(zero_point))])));
    }
    table
}

fn u32s(values: &[u32]) -> Field {
    Field::Vector(values.len(), 4, values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// A file while operators are added; variables are numbers.
#[derive(Default)]
pub(crate) struct File {
    operators: Vec<Table>,
    variables: u32,
}

impl File {
    fn tensor(name: &str, of: Type, shape: &[usize], data: Option<Vec<u8>>) -> Table {
        let extents: Vec<u32> = shape.iter().map(|&extent| extent as u32).collect();
        let mut table = vec![
            (0, Field::Text(name.into())),
            (1, u32s(&extents)),
            (3, Field::Table(dtype(of))),
            (4, Field::U8(1)),
            (5, Field::Table(Vec::new())),
        ];
        if let Some(data) = data {
            table.push((6, Field::Vector(data.len(), 4, data)));
        }
        table
    }

    pub(crate) fn input(&mut self, name: &str, of: Type, shape: &[usize]) -> u32 {
        let tensor = (11, Field::Tables(vec![Self::tensor(name, of, shape, None)]));
        self.add("Host2DeviceCopy", Some((63, Vec::new())), &[], 1, vec![tensor])[0]
    }

    pub(crate) fn constant(&mut self, of: Type, shape: &[usize], data: Vec<u8>) -> u32 {
        let tensor = (11, Field::Tables(vec![Self::tensor("", of, shape, Some(data))]));
        self.add("SharedDeviceTensor", None, &[], 1, vec![tensor])[0]
    }

    pub(crate) fn floats(&mut self, shape: &[usize], values: &[f32]) -> u32 {
        self.constant(F32, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    pub(crate) fn ints(&mut self, values: &[i32]) -> u32 {
        self.constant(I32, &[values.len()], values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    fn add(
        &mut self,
        kind: &str,
        param: Option<(u8, Table)>,
        inputs: &[u32],
        results: u32,
        more: Table,
    ) -> Vec<u32> {
        let outputs: Vec<u32> = (self.variables..self.variables + results).collect();
        self.variables += results;
        let mut table = vec![(0, Field::Text(kind.into())), (7, u32s(inputs)), (8, u32s(&outputs))];
        table.push((2, Field::Text(format!("{kind}_{}", self.operators.len()))));
        if let Some((kind, params)) = param {
            table.push((3, Field::U8(kind)));
            table.push((4, Field::Table(params)));
        }
        table.extend(more);
        self.operators.push(table);
        outputs
    }

    /// An operator with one result.
    pub(crate) fn one(&mut self, kind: &str, param: (u8, Table), inputs: &[u32]) -> u32 {
        self.many(kind, param, inputs, 1)[0]
    }

    pub(crate) fn many(&mut self, kind: &str, param: (u8, Table), inputs: &[u32], results: u32) -> Vec<u32> {
        self.add(kind, Some(param), inputs, results, Vec::new())
    }

    /// An operator with one result of a type that the file gives.
    pub(crate) fn typed(&mut self, kind: &str, param: (u8, Table), inputs: &[u32], of: Type) -> u32 {
        self.add(kind, Some(param), inputs, 1, vec![(10, Field::Table(dtype(of)))])[0]
    }

    /// An operator with one result, whatever it has and lacks.
    pub(crate) fn node(
        &mut self,
        kind: &str,
        param: Option<(u8, Table)>,
        inputs: &[u32],
        of: Option<Type>,
    ) -> u32 {
        let more = of.map(|of| (10, Field::Table(dtype(of)))).into_iter().collect();
        self.add(kind, param, inputs, 1, more)[0]
    }

    /// To another element type.
    pub(crate) fn convert(&mut self, x: u32, to: Type) -> u32 {
        self.typed("TypeCvtV2", (67, dtype(to)), &[x], to)
    }

    pub(crate) fn finish(self, outputs: &[u32]) -> Vec<u8> {
        let names = (0..self.variables).map(|index| vec![(0, Field::Text(format!("v{index}")))]).collect();
        let outputs =
            outputs.iter().map(|&id| vec![(0, Field::U32(id)), (1, Field::U32(id))]).collect::<Vec<_>>();
        let root: Table = vec![
            (0, Field::U32(101_300)),
            (1, Field::U32(2)),
            (2, Field::Tables(self.operators)),
            (3, Field::Tables(names)),
            (4, Field::Tables(outputs)),
        ];
        let mut out = vec![0; 12];
        out[8..12].copy_from_slice(b"mgv2");
        point(&mut out, 4);
        put(&mut out, &root);
        let length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&length.to_le_bytes());
        out
    }
}

/// A result: type, extents, bytes.
#[derive(Debug, PartialEq)]
pub(crate) struct Array {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Array {
    pub(crate) fn f32(&self) -> Vec<f32> {
        assert_eq!(self.dtype, DType::F32);
        self.bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    pub(crate) fn i32(&self) -> Vec<i32> {
        assert_eq!(self.dtype, DType::I32);
        self.bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

pub(crate) fn read(file: Vec<u8>) -> Result<mge::Model, String> {
    mge::read(file, &mge::ReadOptions::default()).map_err(|error| error.to_string())
}

/// What has been computed, by name.
type Arrived = HashMap<String, Tensor>;

fn reference<'t>(arrived: &'t Arrived, name: &str) -> Option<TensorRef<'t>> {
    let tensor = arrived.get(name)?;
    Some(TensorRef { dtype: tensor.dtype, shape: &tensor.shape, bytes: &tensor.bytes })
}

fn run_stage(stage: &Stage, arrived: &mut Arrived) {
    if !stage.outputs.is_empty() {
        let arrival = |name: &str| {
            let TensorRef { dtype, shape, bytes } = reference(arrived, name)?;
            Some(Arrival { dtype, shape, bytes })
        };
        let graph = stage.bind(arrival).unwrap_or_else(|error| panic!("{error}"));
        let inputs = stage.inputs.iter().filter(|name| !stage.constants.contains(*name));
        let inputs: Vec<TensorRef<'_>> =
            inputs.map(|name| reference(arrived, name).expect("an operand")).collect();
        let outputs = run_graph(graph, &inputs);
        arrived.extend(stage.outputs.iter().cloned().zip(outputs));
    }
    for step in &stage.host {
        let results = dynamic::run(step, |name| reference(arrived, name)).expect("a host step");
        let results: Vec<(String, Tensor)> =
            results.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
        arrived.extend(results);
    }
}

fn run_graph(graph: Graph, inputs: &[TensorRef<'_>]) -> Vec<Tensor> {
    let mut session =
        Session::new(graph, &SessionOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    session.run(inputs).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads and runs a file on f32 inputs, in the order in which it declares them.
pub(crate) fn run(file: Vec<u8>, inputs: &[(&[usize], &[f32])]) -> Vec<Array> {
    let graph = read(file).unwrap_or_else(|error| panic!("{error}")).graph;
    let mut arrived = Arrived::new();
    for (&id, (shape, values)) in graph.inputs.iter().rev().zip(inputs) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor { dtype: DType::F32, shape: Shape::new(shape).expect("a shape"), bytes };
        arrived.insert(graph.value(id).name.clone(), tensor);
    }
    if let Some(stages) = stages(&graph).expect("a cut") {
        for stage in &stages {
            run_stage(stage, &mut arrived);
        }
    } else {
        let names: Vec<String> = [&graph.inputs, &graph.outputs]
            .into_iter()
            .flatten()
            .map(|&id| graph.value(id).name.clone())
            .collect();
        let (inputs, outputs) = names.split_at(graph.inputs.len());
        let operands: Vec<TensorRef<'_>> =
            inputs.iter().map(|name| reference(&arrived, name).expect("an input")).collect();
        let results = run_graph(graph.clone(), &operands);
        arrived.extend(outputs.iter().cloned().zip(results));
    }
    let result = |&id| {
        let tensor = &arrived[&graph.value(id).name];
        Array { dtype: tensor.dtype, shape: tensor.shape.to_vec(), bytes: tensor.bytes.clone() }
    };
    graph.outputs.iter().map(result).collect()
}

/// Numbers between −1 and 1.
pub(crate) fn noise(seed: u64, count: usize) -> Vec<f32> {
    Random(seed).floats(count)
}

pub(crate) fn close(got: &[f32], want: &[f32], bound: f32) {
    assert_eq!(got.len(), want.len());
    let largest = want.iter().fold(1e-30_f32, |most, value| most.max(value.abs()));
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= bound * largest, "element {index}: {got}, not {want}, of {largest}");
    }
}
