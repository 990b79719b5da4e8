//! From tables to the document.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Display,
};

use serde_json::Value as Json;
use triune_tensor::text::Name;

use super::{
    super::{
        Attribute, Document, ElementType, ExpScale, Fill, Layout, Mem, MergedDistr, Operation, Params, Runs,
        Scalar, Scale, Section, Tags, Target, TensorType, Value, json, malformed,
    },
    Place,
    schema::{CHIPS, Class, FLOATS, Kind, OPERATORS, UNKNOWN, class, network, operation, value},
};
use crate::{
    Error,
    format::flatbuffer::{Buffer, Table, Wrong},
    walk::Walk,
};

/// How deep operations may lie inside of each other; files have one level.
const DEPTH: usize = 32;

/// The network in the buffer of some bytes, and where the data of its values lie.
pub(super) fn document(bytes: &[u8]) -> Result<(Document, Vec<Place>), Error> {
    let buffer = Buffer::new(bytes);
    let wrong = |reason: Wrong| {
        let none = || malformed(format!("FlatBuffers file: {reason}"));
        buffer.refused().map_or_else(none, Error::Memory)
    };
    let table = buffer.root(0).map_err(|reason| wrong(format!("it holds no table: {reason}")))?;
    let (mut document, ops) = network(&table).map_err(wrong)?;
    let mut reader =
        Reader { bytes, values: Vec::new(), places: Vec::new(), seen: HashMap::new(), known: HashMap::new() };
    let mut ids = HashSet::with_capacity(ops.len());
    let mut walk = Walk::new();
    for (index, op) in ops.into_iter().enumerate() {
        walk.node()?;
        let place = format!("operation at index {index}");
        let op = op.ok_or_else(|| format!("{place} is none"));
        let op = op.and_then(|(class, table)| reader.operation(class, &table, &place, 0)).map_err(wrong)?;
        if !ids.insert(op.op_id) {
            return Err(wrong(format!("two operations have op_id {}", op.op_id)));
        }
        document.ops.push(op);
    }
    document.values = reader.values;
    Ok((document, reader.places))
}

/// A union's class and table, if there is one.
type Union<'a> = Option<(u8, Table<'a>)>;

/// The network without its operations, and their tables.
fn network<'a>(table: &Table<'a>) -> Result<(Document, Vec<Union<'a>>), Wrong> {
    let version = table.text(network::ICRAFT_XIR_VERSION)?.unwrap_or_default();
    if version.is_empty() {
        return Err("it has no icraft_xir_version: no network of Icraft is in it".to_owned());
    }
    if !json::is_known(&version) {
        let (name, newest) = (Name(&version), json::NEWEST_MAJOR);
        return Err(format!("icraft_xir_version \"{name}\" is not known; up to {newest}.x can be read"));
    }
    let text = |slot: usize| table.text(slot).map(Option::unwrap_or_default);
    let document = Document {
        name: text(network::NAME)?,
        ai_target: table.union(network::AI_TARGET)?.map(target).transpose().map_err(at("ai_target"))?,
        framework_kind: text(network::FRAMEWORK_KIND)?,
        framework_version: text(network::FRAMEWORK_VERSION)?,
        icraft_version: text(network::ICRAFT_VERSION)?,
        icraft_xir_version: version,
        params_bytes: table.u64(network::PARAMS_BYTES, 0)?,
        params_md5: text(network::PARAMS_MD5)?,
        tags: tags(table, network::TAGS)?,
        ..Document::default()
    };
    Ok((document, table.unions(network::OPS).map_err(at("ops"))?))
}

/// Puts a place before what is wrong.
fn at(place: impl Display) -> impl FnOnce(Wrong) -> Wrong {
    move |wrong| format!("{place}: {wrong}")
}

/// The JSON object in a string; nothing in it is an empty one.
fn object(table: &Table<'_>, slot: usize, place: &str) -> Result<serde_json::Map<String, Json>, Wrong> {
    let text = table.bytes(slot)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(serde_json::Map::new());
    }
    let _room = crate::format::json::room(text).map_err(|error| error.to_string())?;
    match serde_json::from_slice(text) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(Json::Null) => Ok(serde_json::Map::new()),
        Ok(_) => Err(format!("{place}: its text is no JSON object")),
        Err(error) => Err(format!("{place}: its text is no JSON: {error}")),
    }
}

fn tags(table: &Table<'_>, slot: usize) -> Result<Tags, Wrong> {
    object(table, slot, "tags").map(|object| object.into_iter().collect())
}

fn list(values: Vec<i64>) -> Attribute {
    Attribute::List(values.into_iter().map(Attribute::Int).collect())
}

struct Reader<'a> {
    bytes: &'a [u8],
    values: Vec<Value>,
    places: Vec<Place>,
    /// Where in `values` each `v_id` is.
    seen: HashMap<i64, usize>,
    /// Which value each table is, by class and position, and how many bytes were visited for it.
    known: HashMap<(u8, usize), (usize, usize)>,
}

impl Reader<'_> {
    fn operation(
        &mut self,
        class: u8,
        table: &Table<'_>,
        place: &str,
        depth: usize,
    ) -> Result<Operation, Wrong> {
        let Some((name, fields)) = usize::from(class).checked_sub(1).and_then(|place| OPERATORS.get(place))
        else {
            let (last, name) = (OPERATORS.len(), OPERATORS[OPERATORS.len() - 1].0);
            return Err(format!(
                "{place}: there is no class {class} of operators; the last is {last}, {name}"
            ));
        };
        let base = fields.iter().map(|(_, kind)| kind.slots()).sum::<usize>();
        let op_id = table.i64(base + operation::OP_ID, 0)?;
        let place = format!("operation {op_id} ({name})");
        self.operation_at(&(name, fields), table, base, op_id, depth).map_err(at(place))
    }

    fn operation_at(
        &mut self,
        &(class, fields): &Class,
        table: &Table<'_>,
        base: usize,
        op_id: i64,
        depth: usize,
    ) -> Result<Operation, Wrong> {
        let mut op = Operation {
            type_key: format!("icraft::xir::{class}"),
            op_id,
            name: table.text(base + operation::NAME)?.unwrap_or_default(),
            target: match table.union(base + operation::COMPILE_TARGET)? {
                None => Target::Host,
                Some(given) => target(given).map_err(at("compile_target"))?,
            },
            tags: tags(table, base + operation::TAGS)?,
            inputs: Vec::new(),
            outputs: Vec::new(),
            attributes: BTreeMap::new(),
        };
        // Operands come before attributes, as in JSON, so that values are numbered in the order in which they are made.
        for (index, input) in table.unions(base + operation::INPUTS)?.into_iter().enumerate() {
            let input = input.map(|given| self.value(given).map_err(at(format!("inputs[{index}]"))));
            op.inputs.push(input.transpose()?);
        }
        let mut slot = 0;
        for &(key, kind) in fields {
            let attribute = self.attribute(kind, table, slot, depth).map_err(at(key))?;
            op.attributes.insert(key.to_owned(), attribute);
            slot += kind.slots();
        }
        if class == UNKNOWN {
            self.unknown(&mut op, table)?;
        }
        for (index, output) in table.unions(base + operation::OUTPUTS)?.into_iter().enumerate() {
            let output = output.ok_or_else(|| format!("outputs[{index}] is none"))?;
            op.outputs.push(self.value(output).map_err(at(format!("outputs[{index}]")))?);
        }
        Ok(op)
    }

    /// Makes of an `Unknown` the operation that its JSON describes, if it describes one.
    fn unknown(&mut self, op: &mut Operation, table: &Table<'_>) -> Result<(), Wrong> {
        let described = object(table, 1, "json_info")?;
        let Some(key) = described.get("_type_key").and_then(Json::as_str) else { return Ok(()) };
        key.clone_into(&mut op.type_key);
        op.attributes.clear();
        for (key, item) in &described {
            if json::OPERATION_KEYS.contains(&key.as_str()) {
                continue;
            }
            let (attribute, values) = json::attribute(item, key).map_err(|error| error.to_string())?;
            op.attributes.insert(key.clone(), self.adopted(attribute, &values)?);
        }
        Ok(())
    }

    /// An attribute of JSON, which refers to its own values.
    fn adopted(&mut self, attribute: Attribute, values: &[Value]) -> Result<Attribute, Wrong> {
        Ok(match attribute {
            Attribute::Value(index) => {
                Attribute::Value(self.intern(values[index].clone(), None, |_| Ok(()))?)
            }
            Attribute::List(items) => Attribute::List(
                items.into_iter().map(|item| self.adopted(item, values)).collect::<Result<_, _>>()?,
            ),
            Attribute::Map(items) => Attribute::Map(
                items
                    .into_iter()
                    .map(|(key, item)| Ok((key, self.adopted(item, values)?)))
                    .collect::<Result<_, Wrong>>()?,
            ),
            Attribute::Operation(_) => {
                return Err("json_info describes an operation inside of one".to_owned());
            }
            other => other,
        })
    }

    fn attribute(
        &mut self,
        kind: Kind,
        table: &Table<'_>,
        slot: usize,
        depth: usize,
    ) -> Result<Attribute, Wrong> {
        Ok(match kind {
            Kind::Int => Attribute::Int(table.i64(slot, 0)?),
            Kind::Bool => Attribute::Bool(table.bool(slot, false)?),
            Kind::Real => Attribute::Float(f64::from(table.f32(slot, 0.0)?)),
            Kind::Text => Attribute::Text(table.text(slot)?.unwrap_or_default()),
            Kind::Json => {
                let object = Json::Object(object(table, slot, "it")?);
                let (attribute, values) =
                    json::attribute(&object, "it").map_err(|error| error.to_string())?;
                self.adopted(attribute, &values)?
            }
            Kind::Ints => list(table.i64s(slot)?.unwrap_or_default()),
            Kind::MaybeInts => table.i64s(slot)?.map_or(Attribute::Null, list),
            Kind::Params => match table.table(slot)? {
                None => Attribute::Null,
                Some(table) => Attribute::Value(self.value((class::PARAMS, table))?),
            },
            Kind::ManyParams => Attribute::List(
                table
                    .tables(slot)?
                    .into_iter()
                    .map(|table| self.value((class::PARAMS, table)).map(Attribute::Value))
                    .collect::<Result<_, _>>()?,
            ),
            Kind::MaybeImm => match table.table(slot)? {
                None => Attribute::Null,
                Some(table) => number((class::INT_IMM, table))?,
            },
            Kind::Number => table.union(slot)?.map(number).transpose()?.unwrap_or(Attribute::Null),
            Kind::Numbers => Attribute::List(
                table
                    .unions(slot)?
                    .into_iter()
                    .map(|one| number(one.ok_or("a number of it is none")?))
                    .collect::<Result<_, Wrong>>()?,
            ),
            Kind::Scales => {
                let none = Scale::Plain(Runs { axis: -1, runs: Vec::new() });
                Attribute::Text(table.union(slot)?.map(scale).transpose()?.unwrap_or(none).to_string())
            }
            Kind::Layout => {
                let layout = table.table(slot)?.map(|table| layout(&table)).transpose()?.unwrap_or_default();
                Attribute::Text(format!("@layout({layout})"))
            }
            Kind::Type => {
                let table = table.table(slot)?.ok_or("it is missing")?;
                Attribute::Type(Box::new(tensor_type(&table)?))
            }
            Kind::Units => {
                let unit = |table: Table<'_>| -> Result<Attribute, Wrong> {
                    let numbers = |slot| table.i64s(slot).map(|values| list(values.unwrap_or_default()));
                    let items = [("index".to_owned(), numbers(0)?), ("unit".to_owned(), numbers(1)?)];
                    Ok(Attribute::Map(items.into()))
                };
                Attribute::List(table.tables(slot)?.into_iter().map(unit).collect::<Result<_, _>>()?)
            }
            Kind::HardOps => {
                if depth == DEPTH {
                    return Err(format!("operations lie inside of each other more than {DEPTH} deep"));
                }
                let hard_op =
                    OPERATORS.iter().position(|(name, _)| *name == "HardOp").expect("it has a class");
                let mut ops = Vec::new();
                for (index, table) in table.tables(slot)?.into_iter().enumerate() {
                    let op = self.operation(hard_op as u8 + 1, &table, &format!("[{index}]"), depth + 1)?;
                    ops.push(Attribute::Operation(Box::new(op)));
                }
                Attribute::List(ops)
            }
        })
    }

    /// The index of a value.
    fn value(&mut self, (class, table): (u8, Table<'_>)) -> Result<usize, Wrong> {
        let base = match class {
            class::PARAMS => 1,
            class::VALUE => 0,
            other => return Err(format!("there is no class {other} of values")),
        };
        if let Some(&(index, visited)) = self.known.get(&(class, table.position())) {
            // JSON has a value at each of its uses.
            table.repeat(visited)?;
            return Ok(index);
        }
        let left = table.left();
        let v_id = table.i64(base + value::V_ID, 0)?;
        let read = || -> Result<_, Wrong> {
            let dtype = match table.union(base + value::DTYPE)? {
                Some((class::TENSOR_TYPE, dtype)) => tensor_type(&dtype).map_err(at("dtype"))?,
                Some((other, _)) => return Err(format!("dtype: class {other} is no type of a tensor")),
                None => return Err("dtype: it is missing".to_owned()),
            };
            let value = Value {
                v_id,
                name: table.text(base + value::NAME)?.unwrap_or_default(),
                dtype,
                mtype: match table.union(base + value::MTYPE)? {
                    None => Mem::Host,
                    Some(given) => mem(given).map_err(at("mtype"))?,
                },
                tags: tags(&table, base + value::TAGS)?,
                params: match class {
                    class::PARAMS => Some(Params { allow_no_data: table.bool(0, false)?, data: None }),
                    _ => None,
                },
            };
            let data = if class == class::PARAMS { data(&value, &table, base + value::DATA)? } else { None };
            Ok((value, data))
        };
        let place = format!("value {v_id}");
        let (value, data) = read().map_err(at(&place))?;
        let index = self.intern(value, data, |bytes| table.visit(bytes)).map_err(at(place))?;
        self.known.insert((class, table.position()), (index, left - table.left()));
        Ok(index)
    }

    /// The index of a value, the same one each time it is described; `visit` counts bytes that are looked at.
    fn intern(
        &mut self,
        value: Value,
        data: Place,
        visit: impl Fn(usize) -> Result<(), Wrong>,
    ) -> Result<usize, Wrong> {
        let Some(&index) = self.seen.get(&value.v_id) else {
            let index = self.values.len();
            self.seen.insert(value.v_id, index);
            self.values.push(value);
            self.places.push(data);
            return Ok(index);
        };
        if self.values[index] != value {
            return Err("it was described before in another way".to_owned());
        }
        match (&self.places[index], data) {
            // One description may have the data, and the others not.
            (None, Some(data)) => self.places[index] = Some(data),
            (Some(before), Some(data)) if *before != data => {
                // Writers that know of no sharing repeat them.
                visit(data.len())?;
                if self.bytes.get(before.clone()) != self.bytes.get(data) {
                    return Err("it was described before with other data".to_owned());
                }
            }
            _ => {}
        }
        Ok(index)
    }
}

/// Where a constant's data lie; nothing if the file has none.
fn data(value: &Value, table: &Table<'_>, slot: usize) -> Result<Place, Wrong> {
    let Some((start, length)) = table.blob(slot)? else { return Ok(None) };
    let needed = value.dtype.storage_bytes().ok_or("its extents have no size")?;
    if length as u64 == needed {
        Ok(Some(start..start + length))
    } else if length == 0 {
        Ok(None)
    } else {
        Err(format!("it has {length} bytes, its type has {needed}"))
    }
}

/// A number with a type of its own: as itself where the type is the one that JSON leaves out.
fn number((class, table): (u8, Table<'_>)) -> Result<Attribute, Wrong> {
    let (key, value, usual) = match class {
        class::BOOL => return Ok(Attribute::Bool(table.bool(0, false)?)),
        class::INT_IMM => ("IntImm", Attribute::Int(table.i64(0, 0)?), Scalar::Signed(64)),
        class::FLOAT_IMM => ("FloatImm", Attribute::Float(f64::from(table.f32(0, 0.0)?)), Scalar::Float(64)),
        other => return Err(format!("class {other} is no number")),
    };
    let dtype = match table.union(1)? {
        None => usual,
        Some(given) => scalar(given).map_err(at("dtype"))?,
    };
    if dtype == usual {
        return Ok(value);
    }
    let place = table.union(3)?.map(mem).transpose().map_err(at("mtype"))?.unwrap_or_default();
    Ok(Attribute::Map(
        [
            ("_type_key".to_owned(), Attribute::Text(format!("icraft::xir::{key}"))),
            ("dtype".to_owned(), Attribute::Text(dtype.to_string())),
            ("mtype".to_owned(), Attribute::Text(place.to_string())),
            ("value".to_owned(), value),
        ]
        .into(),
    ))
}

fn mem((class, table): (u8, Table<'_>)) -> Result<Mem, Wrong> {
    Ok(match class {
        1 => Mem::Host,
        2 => Mem::OnChip(table.u64(0, 0)?),
        3 => Mem::External(table.u64(0, 0)?),
        4 => {
            let id = table.u64(0, 0)?;
            let id = u16::try_from(id).map_err(|_| format!("chunk {id} does not fit 16 bits"))?;
            Mem::Chunk(id, table.u64(1, 0)?)
        }
        other => return Err(format!("there is no class {other} of places in memory")),
    })
}

fn target((class, table): (u8, Table<'_>)) -> Result<Target, Wrong> {
    Ok(match class {
        1 => Target::Host,
        2 => Target::Fpga,
        3 => Target::Custom,
        4 => Target::Buyi,
        5 => {
            let core = table.text(0)?.unwrap_or_default();
            let named = |(name, _): &&(&str, _)| *name == core || name.strip_prefix("ZG") == Some(&core);
            let (_, chip) = CHIPS.iter().find(named).ok_or_else(|| {
                format!("there is no chip \"{}\"; there are ZG330, ZG340 and ZG30S", Name(&core))
            })?;
            Target::Zhuge(*chip)
        }
        6 => Target::Wolong,
        other => return Err(format!("there is no class {other} of targets")),
    })
}

fn scalar((class, table): (u8, Table<'_>)) -> Result<Scalar, Wrong> {
    Ok(match class {
        class::BOOL_TYPE => Scalar::Bool,
        class::INTEGER_TYPE => {
            let bits = table.u64(1, 0)?;
            match u16::try_from(bits) {
                Ok(bits @ 1..=64) if table.bool(0, false)? => Scalar::Signed(bits),
                Ok(bits @ 1..=64) => Scalar::Unsigned(bits),
                _ => return Err(format!("an integer has 1 to 64 bits, not {bits}")),
            }
        }
        class::FLOAT_TYPE => {
            let format = [table.i64(0, 0)?, table.i64(1, 0)?, table.i64(2, 0)?, table.i64(3, 0)?];
            let known = FLOATS.iter().find(|(_, numbers)| *numbers == format);
            let [emax, emin, precision, bits] = format;
            known.map(|(scalar, _)| *scalar).ok_or_else(|| {
                format!("no float has emax {emax}, emin {emin}, precision {precision} and {bits} bits")
            })?
        }
        other => return Err(format!("class {other} is no number format")),
    })
}

fn element((class, table): (u8, Table<'_>)) -> Result<ElementType, Wrong> {
    // Behind a quantized type's own fields.
    let base = |slot: usize, key: &str| {
        let given = table.union(slot)?.ok_or_else(|| format!("{key} is missing"))?;
        scalar(given).map_err(at(key))
    };
    let bases = |slot: usize| -> Result<(Scalar, Scalar), Wrong> {
        Ok((base(slot, "storage_dtype")?, base(slot + 2, "expressed_dtype")?))
    };
    let reals = |slot: usize| -> Result<Vec<f64>, Wrong> {
        Ok(table.f32s(slot)?.into_iter().map(f64::from).collect())
    };
    let ratio = || -> Result<Runs<f32>, Wrong> {
        let table = table.table(0)?.ok_or("normratio is missing")?;
        Ok(Runs::from_values(table.i64(0, 0)?, table.f32s(1)?))
    };
    let scale =
        |slot: usize| table.union(slot)?.map(scale).transpose()?.ok_or_else(|| "scale is missing".to_owned());
    let zero_points = |slot: usize| table.i64s(slot).map(Option::unwrap_or_default);
    Ok(match class {
        class::CALIBRATED_TYPE => {
            let (storage, expressed) = bases(3)?;
            ElementType::Calibrated { storage, expressed, min: reals(0)?, max: reals(1)?, sat: reals(2)? }
        }
        class::NORMALIZED_TYPE => {
            let (storage, expressed) = bases(1)?;
            ElementType::Normalized { storage, expressed, ratio: ratio()?, zero_points: None }
        }
        class::QUANTIZED_TYPE => {
            let (storage, expressed) = bases(3)?;
            ElementType::Quantized { storage, expressed, scale: scale(0)?, zero_points: zero_points(2)? }
        }
        class::NORMALIZED_QUANTIZED_TYPE => {
            let (storage, expressed) = bases(4)?;
            let (ratio, scale) = (ratio()?, scale(1)?);
            ElementType::NormalizedQuantized {
                storage,
                expressed,
                ratio,
                scale,
                zero_points: zero_points(3)?,
            }
        }
        _ => ElementType::Scalar(scalar((class, table))?),
    })
}

fn scale((class, table): (u8, Table<'_>)) -> Result<Scale, Wrong> {
    Ok(match class {
        class::EXP_SCALES => {
            let (m, exp) = (table.i64s(0)?.unwrap_or_default(), table.i64s(1)?.unwrap_or_default());
            let origins = table.f32s(3)?;
            if m.len() != exp.len() || m.len() != origins.len() {
                let (m, exp, origins) = (m.len(), exp.len(), origins.len());
                return Err(format!("scales have {m} factors, {exp} shifts and {origins} numbers"));
            }
            let scales = m.into_iter().zip(exp).zip(origins);
            let scales = scales.map(|((m, exp), origin)| ExpScale { m, exp, origin });
            Scale::Exp(Runs::from_values(table.i64(2, 0)?, scales))
        }
        class::SCALES => Scale::Plain(Runs::from_values(table.i64(0, 0)?, table.f32s(1)?)),
        other => return Err(format!("there is no class {other} of scales")),
    })
}

fn layout(table: &Table<'_>) -> Result<Layout, Wrong> {
    let mut text = String::new();
    for axis in table.unions(0)? {
        let (class, axis) = axis.ok_or("an axis is none")?;
        let (name, unit) = match class {
            class::AXIS_UNIT => (axis.text(1)?, axis.u64(0, 0)?),
            class::AXIS_NAME => (axis.text(0)?, 0),
            other => return Err(format!("there is no class {other} of axes")),
        };
        let name = name.unwrap_or_default();
        if name.chars().count() != 1 {
            return Err(format!("an axis is called \"{}\"; one letter is needed", Name(&name)));
        }
        text += &name;
        if unit > 0 {
            text += &unit.to_string();
        }
    }
    text.parse().map_err(|error: Error| error.to_string())
}

fn tensor_type(table: &Table<'_>) -> Result<TensorType, Wrong> {
    let given = table.union(0)?.ok_or("element_dtype is missing")?;
    let shape = table.i64s(2)?.unwrap_or_default();
    if let Some(extent) = shape.iter().find(|&&extent| extent < -1) {
        return Err(format!("shape has the extent {extent}"));
    }
    Ok(TensorType {
        element: element(given).map_err(at("element_dtype"))?,
        shape,
        layout: table
            .table(3)?
            .map(|table| layout(&table))
            .transpose()
            .map_err(at("layout"))?
            .unwrap_or_default(),
        merged: table.tables(4)?.iter().map(merged).collect::<Result<_, _>>().map_err(at("merged_distrs"))?,
    })
}

fn merged(table: &Table<'_>) -> Result<MergedDistr, Wrong> {
    let mut sections: Vec<Section> = Vec::new();
    for (place, &mask) in table.bytes(1)?.unwrap_or_default().iter().enumerate() {
        let (valid, end) = (mask != 0, place as u64 + 1);
        match sections.last_mut() {
            Some(last) if last.valid == valid => last.end = end,
            _ => sections.push(Section { valid, start: place as u64, end }),
        }
    }
    // A byte of the mask may become a section of its own, and a text of it.
    table.repeat(8 * sections.len())?;
    let fill = match table.text(2)?.unwrap_or_default().as_str() {
        "" => None,
        "ZERO" => Some(Fill::Zero),
        "NONE" => Some(Fill::None),
        other => return Err(format!("padding is ZERO or NONE, not \"{}\"", Name(other))),
    };
    Ok(MergedDistr { axes: table.i64s(0)?.unwrap_or_default(), fill, sections })
}
