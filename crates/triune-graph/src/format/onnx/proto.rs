//! ONNX's messages as borrowed structures: names and attribute values, not their meaning.

use std::sync::Arc;

use smallvec::SmallVec;
use triune_tensor::memory::{self, Room};

use super::{malformed, ops::STRING};
use crate::{
    Error, MapType, ValueKind,
    format::{
        Metadata,
        protobuf::{Reader, Wire},
    },
    walk::Walk,
};

/// About what a message takes in memory until the graph is there, what becomes of it in the graph included: structures in
/// lists that grow, names in tables.
mod room {
    pub(super) const NODE: u64 = 1024;
    /// An operand or a result of a node; a sum of many becomes as many nodes.
    pub(super) const NAME: u64 = 1024;
    pub(super) const ATTRIBUTE: u64 = 512;
    pub(super) const TENSOR: u64 = 2048;
    pub(super) const VALUE: u64 = 2048;
    pub(super) const DIM: u64 = 128;
}

/// Networks within networks, at most.
const DEEPEST: usize = 32;

/// `ModelProto`.
#[derive(Debug, Default)]
pub(super) struct Model<'a> {
    /// Domain and version of each operator set.
    pub(super) opsets: Vec<(&'a str, i64)>,
    pub(super) graph: Option<Network<'a>>,
    /// Operators that the model itself defines.
    pub(super) functions: Vec<FunctionProto<'a>>,
    /// What the file says of itself, without what stands in the fields above.
    pub(super) metadata: Metadata,
}

/// `FunctionProto`.
#[derive(Debug, Default)]
pub(super) struct FunctionProto<'a> {
    pub(super) domain: &'a str,
    /// Tells functions of one name apart.
    pub(super) overload: &'a str,
    /// Its name, nodes, inputs and outputs, the latter without types.
    pub(super) body: Network<'a>,
    /// Attributes that a call may leave out.
    pub(super) defaults: Vec<Attribute<'a>>,
    pub(super) opsets: Vec<(&'a str, i64)>,
}

/// `GraphProto`.
#[derive(Debug, Default)]
pub(super) struct Network<'a> {
    pub(super) name: &'a str,
    pub(super) nodes: Vec<NodeProto<'a>>,
    pub(super) initializers: Vec<TensorProto<'a>>,
    pub(super) inputs: Vec<ValueInfo<'a>>,
    pub(super) outputs: Vec<ValueInfo<'a>>,
    pub(super) infos: Vec<ValueInfo<'a>>,
    pub(super) has_sparse: bool,
}

/// `NodeProto`.
#[derive(Debug, Default)]
pub(super) struct NodeProto<'a> {
    pub(super) name: &'a str,
    pub(super) op_type: &'a str,
    pub(super) domain: &'a str,
    /// Of functions of one name, the one that is meant.
    pub(super) overload: &'a str,
    pub(super) inputs: SmallVec<[&'a str; 2]>,
    pub(super) outputs: SmallVec<[&'a str; 1]>,
    pub(super) attributes: Vec<Attribute<'a>>,
}

/// `AttributeProto`.
#[derive(Clone, Debug)]
pub(super) struct Attribute<'a> {
    pub(super) name: &'a str,
    pub(super) value: AttributeValue<'a>,
}

/// The one value that an attribute has.
#[derive(Clone, Debug)]
pub(super) enum AttributeValue<'a> {
    Float(f32),
    Int(i64),
    Text(&'a [u8]),
    Tensor(Box<TensorProto<'a>>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<&'a [u8]>),
    Graph(Arc<Network<'a>>),
    /// That of the attribute of this name of the function that the node is in.
    Reference(&'a str),
    /// What kind of value something is, which shows by itself.
    Type,
    /// Lists of subgraphs, sparse tensors, lists of types.
    Other,
}

/// `TensorProto`. Elements stay encoded: in which field they may lie depends on the element type.
#[derive(Clone, Debug, Default)]
pub(super) struct TensorProto<'a> {
    pub(super) name: &'a str,
    pub(super) dims: Vec<i64>,
    pub(super) data_type: i64,
    pub(super) raw: Option<&'a [u8]>,
    /// `float_data` as little-endian bytes.
    pub(super) floats: Vec<u8>,
    /// `double_data` as little-endian bytes.
    pub(super) doubles: Vec<u8>,
    /// `int32_data`, `int64_data` and `uint64_data`.
    pub(super) int32s: Vec<u64>,
    pub(super) int64s: Vec<u64>,
    pub(super) uint64s: Vec<u64>,
    pub(super) strings: Vec<&'a [u8]>,
    pub(super) external: Vec<(&'a str, &'a str)>,
    pub(super) is_external: bool,
    pub(super) is_segment: bool,
}

/// `ValueInfoProto` of a tensor.
#[derive(Debug, Default)]
pub(super) struct ValueInfo<'a> {
    pub(super) name: &'a str,
    pub(super) data_type: i64,
    pub(super) shape: Option<Vec<DimInfo<'a>>>,
    pub(super) kind: ValueKind,
    /// Whether it is a map, or what else there is no place for.
    pub(super) is_foreign: bool,
}

/// One extent as a file declares it.
#[derive(Clone, Copy, Debug)]
pub(super) enum DimInfo<'a> {
    Value(i64),
    Param(&'a str),
    Unknown,
}

/// Reads a whole file, and claims what the graph takes that is made of it.
pub(super) fn model<'a>(bytes: &'a [u8], room: &mut Room) -> Result<Model<'a>, Error> {
    let mut model =
        Model { metadata: Metadata { format: "ONNX", ..Metadata::default() }, ..Model::default() };
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => model.metadata.format_version = wire.int()?,
            2 => model.metadata.producer = said(wire, room)?,
            3 => model.metadata.producer_version = said(wire, room)?,
            4 => model.metadata.domain = said(wire, room)?,
            5 => model.metadata.version = wire.int()?,
            6 => model.metadata.description = said(wire, room)?,
            7 if model.graph.is_some() => return Err(malformed("two graphs in one model")),
            7 => model.graph = Some(network(wire.bytes()?, room, 0)?),
            8 => {
                room.take(room::NAME)?;
                model.opsets.push(opset(wire.bytes()?)?);
            }
            14 => {
                room.take(room::NAME)?;
                model.metadata.properties.push(property(wire.bytes()?, room)?);
            }
            25 => model.functions.push(function(wire.bytes()?, room)?),
            _ => {}
        }
    }
    Ok(model)
}

/// A text that is shown and nothing else: bytes that are none are replaced.
fn said(wire: Wire<'_>, room: &mut Room) -> Result<String, Error> {
    let bytes = wire.bytes()?;
    // A byte that is none becomes three.
    room.take((bytes.len() as u64).saturating_mul(3))?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// `StringStringEntryProto`.
fn property(bytes: &[u8], room: &mut Room) -> Result<(String, String), Error> {
    let mut property = (String::new(), String::new());
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => property.0 = said(wire, room)?,
            2 => property.1 = said(wire, room)?,
            _ => {}
        }
    }
    Ok(property)
}

fn opset(bytes: &[u8]) -> Result<(&str, i64), Error> {
    let (mut domain, mut version) = ("", 0);
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => domain = wire.text()?,
            2 => version = wire.int()?,
            _ => {}
        }
    }
    Ok((domain, version))
}

fn function<'a>(bytes: &'a [u8], room: &mut Room) -> Result<FunctionProto<'a>, Error> {
    room.take(room::NODE)?;
    let mut function = FunctionProto::default();
    let named = |name| ValueInfo { name, ..ValueInfo::default() };
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        if matches!(field, 4 | 5 | 9) {
            room.take(room::VALUE)?;
        }
        match field {
            1 => function.body.name = wire.text()?,
            4 => function.body.inputs.push(named(wire.text()?)),
            5 => function.body.outputs.push(named(wire.text()?)),
            7 => function.body.nodes.push(node(wire.bytes()?, room, 0)?),
            9 => function.opsets.push(opset(wire.bytes()?)?),
            10 => function.domain = wire.text()?,
            11 => function.defaults.push(attribute(wire.bytes()?, room, 0)?),
            12 => function.body.infos.push(value_info(wire.bytes()?, room)?),
            13 => function.overload = wire.text()?,
            _ => {}
        }
    }
    Ok(function)
}

fn network<'a>(bytes: &'a [u8], room: &mut Room, depth: usize) -> Result<Network<'a>, Error> {
    if depth > DEEPEST {
        return Err(malformed(format!("more than {DEEPEST} networks within each other")));
    }
    let (mut network, mut walk) = (Network::default(), Walk::new());
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        walk.node()?;
        match field {
            1 => network.nodes.push(node(wire.bytes()?, room, depth)?),
            2 => network.name = wire.text()?,
            5 => network.initializers.push(tensor(wire.bytes()?, room)?),
            11 => network.inputs.push(value_info(wire.bytes()?, room)?),
            12 => network.outputs.push(value_info(wire.bytes()?, room)?),
            13 => network.infos.push(value_info(wire.bytes()?, room)?),
            15 => network.has_sparse = true,
            _ => {}
        }
    }
    Ok(network)
}

fn node<'a>(bytes: &'a [u8], room: &mut Room, depth: usize) -> Result<NodeProto<'a>, Error> {
    room.take(room::NODE)?;
    let mut node = NodeProto::default();
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 | 2 => {
                room.take(room::NAME)?;
                let name = wire.text()?;
                if field == 1 { node.inputs.push(name) } else { node.outputs.push(name) }
            }
            3 => node.name = wire.text()?,
            4 => node.op_type = wire.text()?,
            5 => node.attributes.push(attribute(wire.bytes()?, room, depth)?),
            7 => node.domain = wire.text()?,
            8 => node.overload = wire.text()?,
            _ => {}
        }
    }
    if node.op_type.is_empty() {
        return Err(malformed(format!("node '{}' has no operator", node.name)));
    }
    Ok(node)
}

fn attribute<'a>(bytes: &'a [u8], room: &mut Room, depth: usize) -> Result<Attribute<'a>, Error> {
    room.take(room::ATTRIBUTE)?;
    let (mut name, mut kind) = ("", 0);
    let (mut float, mut int, mut text, mut a_tensor) = (0.0, 0, &[][..], None);
    let (mut floats, mut ints, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut graph, mut reference) = (None, None);
    // Files before IR version 2 carry no type; then the field that is there tells.
    let mut seen = 0;
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => name = wire.text()?,
            2 => float = wire.float()?,
            3 => int = wire.int()?,
            4 => text = wire.bytes()?,
            5 => a_tensor = Some(Box::new(tensor(wire.bytes()?, room)?)),
            6 => graph = Some(Arc::new(network(wire.bytes()?, room, depth + 1)?)),
            7 => wire.append_fixed::<4>(&mut floats)?,
            8 => wire.append_varints(&mut ints)?,
            9 => {
                room.take(room::NAME)?;
                texts.push(wire.bytes()?);
            }
            21 => reference = Some(wire.text()?).filter(|name| !name.is_empty()),
            20 => kind = wire.int()?,
            _ => {}
        }
        if matches!(field, 2..=11 | 14 | 15 | 22 | 23) {
            seen = match field {
                7 => 6,
                8 => 7,
                9 => 8,
                2..=6 => i64::from(field) - 1,
                _ => 100,
            };
        }
    }
    if name.is_empty() {
        return Err(malformed("an attribute has no name"));
    }
    if let Some(reference) = reference {
        return Ok(Attribute { name, value: AttributeValue::Reference(reference) });
    }
    let value = match if kind == 0 { seen } else { kind } {
        5 => AttributeValue::Graph(
            graph.ok_or_else(|| malformed(format!("graph attribute '{name}' has no graph")))?,
        ),
        1 => AttributeValue::Float(float),
        2 => AttributeValue::Int(int),
        3 => AttributeValue::Text(text),
        4 => AttributeValue::Tensor(
            a_tensor.ok_or_else(|| malformed(format!("tensor attribute '{name}' has no tensor")))?,
        ),
        6 => {
            let mut values = memory::with_room(floats.len() / 4)?;
            values.extend(floats.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            AttributeValue::Floats(values)
        }
        7 => AttributeValue::Ints(ints.into_iter().map(|int| int as i64).collect()),
        8 => AttributeValue::Texts(texts),
        13 => AttributeValue::Type,
        _ => AttributeValue::Other,
    };
    Ok(Attribute { name, value })
}

fn tensor<'a>(bytes: &'a [u8], room: &mut Room) -> Result<TensorProto<'a>, Error> {
    room.take(room::TENSOR)?;
    let mut tensor = TensorProto::default();
    let mut dims = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => wire.append_varints(&mut dims)?,
            2 => tensor.data_type = wire.int()?,
            3 => tensor.is_segment = true,
            4 => wire.append_fixed::<4>(&mut tensor.floats)?,
            5 => wire.append_varints(&mut tensor.int32s)?,
            6 => {
                room.take(room::NAME)?;
                tensor.strings.push(wire.bytes()?);
            }
            7 => wire.append_varints(&mut tensor.int64s)?,
            8 => tensor.name = wire.text()?,
            9 => tensor.raw = Some(wire.bytes()?),
            10 => wire.append_fixed::<8>(&mut tensor.doubles)?,
            11 => wire.append_varints(&mut tensor.uint64s)?,
            13 => {
                room.take(room::NAME)?;
                tensor.external.push(text_pair(wire)?);
            }
            14 => tensor.is_external = wire.int()? == 1,
            _ => {}
        }
    }
    tensor.dims = dims.into_iter().map(|dim| dim as i64).collect();
    Ok(tensor)
}

fn text_pair(wire: Wire<'_>) -> Result<(&str, &str), Error> {
    let (mut key, mut value) = ("", "");
    let mut reader = Reader::new(wire.bytes()?);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => key = wire.text()?,
            2 => value = wire.text()?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn value_info<'a>(bytes: &'a [u8], room: &mut Room) -> Result<ValueInfo<'a>, Error> {
    room.take(room::VALUE)?;
    let mut info = ValueInfo::default();
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => info.name = wire.text()?,
            2 => {
                let kind = value_type(wire.bytes()?, &mut info, room, 0)?;
                info.is_foreign = kind.is_none();
                info.kind = kind.unwrap_or_default();
            }
            _ => {}
        }
    }
    Ok(info)
}

/// What a type is; that of tensors, in whatever they are, becomes the value's.
fn value_type<'a>(
    bytes: &'a [u8],
    info: &mut ValueInfo<'a>,
    room: &mut Room,
    depth: usize,
) -> Result<Option<ValueKind>, Error> {
    // An optional sequence of tensors is as deep as it gets.
    let mut kind = Some(ValueKind::Tensor);
    let mut types = Reader::new(bytes);
    while let Some((field, wire)) = types.next()? {
        match field {
            1 => tensor_type(wire.bytes()?, info, room)?,
            4 | 9 if depth < 2 => {
                let mut inner = None;
                let mut elements = Reader::new(wire.bytes()?);
                while let Some((field, wire)) = elements.next()? {
                    if field == 1 {
                        inner = value_type(wire.bytes()?, info, room, depth + 1)?;
                    }
                }
                kind = match (field, inner) {
                    (4, Some(ValueKind::Tensor)) => Some(ValueKind::Sequence),
                    (4, Some(ValueKind::Map(map))) => Some(ValueKind::Maps(map)),
                    (9, Some(ValueKind::Tensor)) => Some(ValueKind::Optional),
                    (9, Some(ValueKind::Sequence)) => Some(ValueKind::OptionalSequence),
                    _ => None,
                };
            }
            5 => kind = map_type(wire.bytes()?, info, room, depth)?,
            4 | 7 | 8 | 9 => kind = None,
            _ => {}
        }
    }
    Ok(kind)
}

/// A map of integers or strings to numbers or strings.
fn map_type<'a>(
    bytes: &'a [u8],
    info: &mut ValueInfo<'a>,
    room: &mut Room,
    depth: usize,
) -> Result<Option<ValueKind>, Error> {
    const INT64: i64 = 7;
    let (mut key, mut value) = (0, None);
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => key = wire.int()?,
            2 if depth < 2 => value = value_type(wire.bytes()?, info, room, depth + 2)?,
            _ => {}
        }
    }
    let known = value == Some(ValueKind::Tensor) && matches!(key, INT64 | STRING);
    let map = MapType { string_keys: key == STRING, string_values: info.data_type == STRING };
    Ok(known.then_some(ValueKind::Map(map)))
}

fn tensor_type<'a>(bytes: &'a [u8], info: &mut ValueInfo<'a>, room: &mut Room) -> Result<(), Error> {
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => info.data_type = wire.int()?,
            2 => {
                let mut dims = Vec::new();
                let mut shape = Reader::new(wire.bytes()?);
                while let Some((field, wire)) = shape.next()? {
                    if field == 1 {
                        room.take(room::DIM)?;
                        dims.push(dim(wire.bytes()?)?);
                    }
                }
                info.shape = Some(dims);
            }
            _ => {}
        }
    }
    Ok(())
}

fn dim(bytes: &[u8]) -> Result<DimInfo<'_>, Error> {
    let mut dim = DimInfo::Unknown;
    let mut reader = Reader::new(bytes);
    while let Some((field, wire)) = reader.next()? {
        match field {
            1 => dim = DimInfo::Value(wire.int()?),
            2 => dim = DimInfo::Param(wire.text()?),
            _ => {}
        }
    }
    Ok(dim)
}
