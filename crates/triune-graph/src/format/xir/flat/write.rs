//! From the document to tables.

use std::cell::Cell;

use serde_json::Value as Json;

use super::{
    super::{
        Attribute, Document, ElementType, Fill, Layout, Mem, MergedDistr, Operation, Runs, Scalar, Scale,
        Tags, Target, TensorType, write,
    },
    schema::{
        CHIPS, FLOATS, Kind, OPERATORS, UNKNOWN, class, mem_class, network, operation, target_class, value,
    },
};
use crate::format::flatbuffer::{Claims, Part, TableBuilder, Wrong, write_shared};

/// References have 32 bits, some with sign.
const LIMIT: usize = i32::MAX as usize;

/// Where the data of a constant begin: at a page's multiple, as the vendor's tools have it, so that a file can be mapped.
const PAGE: usize = 4096;

/// The longest list that runs of equal values are written out to.
const LONGEST: usize = 1 << 24;

const NAMESPACE: &str = "icraft::xir::";

/// What is about to be written, counted so that it is refused before it is made: runs are short, and their values many.
#[derive(Default)]
pub(super) struct Written {
    bytes: Cell<u64>,
    pub(super) claims: Claims,
}

impl Written {
    /// What a byte takes in memory, at most: in a part, and in a file that grows by copies.
    const COPIES: u64 = 4;

    fn count(&self, bytes: u64) -> Result<(), Wrong> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.bytes.get() > LIMIT as u64 {
            return Err(too_large());
        }
        self.claims.take(bytes.saturating_mul(Self::COPIES))
    }
}

fn too_large() -> Wrong {
    format!("it would have more than {LIMIT} bytes, the most that its references reach")
}

/// The file of a document.
pub(super) fn file(document: &Document, written: &Written) -> Result<Vec<u8>, Wrong> {
    if let Some(key) = document.extra.keys().next() {
        return Err(format!("the network has '{key}', for which there is no field"));
    }
    for data in document.values.iter().filter_map(|value| value.params.as_ref()?.data.as_ref()) {
        written.count(data.len() as u64)?;
    }
    let writer = Writer { document, written, json: document.values.iter().map(write::value).collect() };
    let mut ops = Vec::with_capacity(document.ops.len());
    for op in &document.ops {
        let (class, table) = writer.operation(op)?;
        ops.push((class, Part::Table(table)));
    }
    let mut root = TableBuilder::default()
        .text(network::NAME, &document.name)
        .text(network::FRAMEWORK_KIND, &document.framework_kind)
        .text(network::FRAMEWORK_VERSION, &document.framework_version)
        .text(network::ICRAFT_XIR_VERSION, &document.icraft_xir_version)
        .text(network::ICRAFT_VERSION, &document.icraft_version)
        .u64(network::PARAMS_BYTES, document.params_bytes)
        .text(network::PARAMS_MD5, &document.params_md5)
        .text(network::TAGS, &json(&document.tags))
        .unions(network::OPS, ops);
    if let Some(given) = document.ai_target {
        root = target(root, network::AI_TARGET, given);
    }
    let values = document.values.iter().enumerate();
    let values = values.map(|(index, _)| writer.value(index)).collect::<Result<_, _>>()?;
    let mut out = Vec::new();
    write_shared(&mut out, b"", root, values);
    if out.len() > LIMIT { Err(too_large()) } else { Ok(out) }
}

/// What tags are in a string: their JSON.
fn json(tags: &Tags) -> String {
    tags.clone().into_iter().collect::<Json>().to_string()
}

fn integers(key: &str, attribute: &Attribute) -> Result<Vec<i64>, Wrong> {
    let whole = |item: &Attribute| if let Attribute::Int(value) = item { Some(*value) } else { None };
    let items = if let Attribute::List(items) = attribute { items.iter().map(whole).collect() } else { None };
    items.ok_or_else(|| format!("{key} is no list of whole numbers"))
}

struct Writer<'a> {
    document: &'a Document,
    written: &'a Written,
    /// The values' JSON, for operators without a table.
    json: Vec<Json>,
}

impl Writer<'_> {
    fn operation(&self, op: &Operation) -> Result<(u8, TableBuilder), Wrong> {
        self.operation_at(op).map_err(|wrong| format!("operation {} ({}): {wrong}", op.op_id, op.type_key))
    }

    fn operation_at(&self, op: &Operation) -> Result<(u8, TableBuilder), Wrong> {
        let class = |name: &str| OPERATORS.iter().position(|(class, _)| *class == name);
        let own = op.type_key.strip_prefix(NAMESPACE).and_then(class);
        let place = own.or_else(|| class(UNKNOWN)).expect("there is a class for the others");
        let fields = OPERATORS[place].1;
        let (mut table, mut slot) = (TableBuilder::default(), 0);
        if own.is_some() {
            if let Some(key) = op.attributes.keys().find(|key| fields.iter().all(|(field, _)| *key != field))
            {
                return Err(format!("its class has no attribute '{key}' in this form"));
            }
            for &(key, kind) in fields {
                table = self.attribute(table, slot, kind, key, op.attributes.get(key))?;
                slot += kind.slots();
            }
        } else {
            self.has_no_constants(op)?;
            table = table.text(0, "").text(1, &write::operation(op, &self.json).to_string());
            slot = 2;
        }
        // An empty table stands where there is none: readers look at the class alone.
        let input = |input: &Option<usize>| match *input {
            None => (0, Part::Table(TableBuilder::default())),
            Some(index) => self.reference(index),
        };
        let table = target(table, slot + operation::COMPILE_TARGET, op.target)
            .i64(slot + operation::OP_ID, op.op_id)
            .text(slot + operation::NAME, &op.name)
            .unions(slot + operation::INPUTS, op.inputs.iter().map(input))
            .unions(slot + operation::OUTPUTS, op.outputs.iter().map(|&index| self.reference(index)))
            .text(slot + operation::TAGS, &json(&op.tags));
        Ok((place as u8 + 1, table))
    }

    /// An operator without a table has its attributes as JSON, which has no data.
    fn has_no_constants(&self, op: &Operation) -> Result<(), Wrong> {
        fn find(attribute: &Attribute, found: &mut impl FnMut(usize)) {
            match attribute {
                Attribute::Value(index) => found(*index),
                Attribute::List(items) => items.iter().for_each(|item| find(item, found)),
                Attribute::Map(items) => items.values().for_each(|item| find(item, found)),
                Attribute::Operation(op) => op.attributes.values().for_each(|item| find(item, found)),
                _ => {}
            }
        }
        let mut wrong = Ok(());
        for (key, attribute) in &op.attributes {
            find(attribute, &mut |index| {
                let value = &self.document.values[index];
                if value.params.as_ref().is_some_and(|params| params.data.is_some()) {
                    wrong =
                        Err(format!("{key} has constant {}, for whose data there is no field", value.v_id));
                }
            });
        }
        wrong
    }

    fn attribute(
        &self,
        table: TableBuilder,
        slot: usize,
        kind: Kind,
        key: &str,
        attribute: Option<&Attribute>,
    ) -> Result<TableBuilder, Wrong> {
        let given = match (kind, attribute) {
            (Kind::MaybeInts | Kind::Params | Kind::MaybeImm, None | Some(Attribute::Null)) => {
                return Ok(table);
            }
            (_, Some(attribute)) => attribute,
            (_, None) => return Err(format!("{key} is missing")),
        };
        let not = |what: &str| format!("{key} is no {what}");
        let items = || if let Attribute::List(items) = given { Ok(items) } else { Err(not("list")) };
        Ok(match (kind, given) {
            (Kind::Int, Attribute::Int(number)) => table.i64(slot, *number),
            (Kind::Int, _) => return Err(not("whole number")),
            (Kind::Bool, Attribute::Bool(flag)) => table.u8(slot, u8::from(*flag)),
            (Kind::Bool, _) => return Err(not("truth value")),
            (Kind::Real, Attribute::Float(number)) => table.f32(slot, single(key, *number)?),
            (Kind::Real, Attribute::Int(number)) => table.f32(slot, *number as f32),
            (Kind::Real, _) => return Err(not("number")),
            (Kind::Text, Attribute::Text(text)) => table.text(slot, text),
            (Kind::Json, _) => table.text(slot, &write::attribute(given, &self.json).to_string()),
            (Kind::Ints | Kind::MaybeInts, _) => table.i64s(slot, &integers(key, given)?),
            (Kind::Params, _) => table.part(slot, self.constant(key, given)?),
            (Kind::ManyParams, _) => {
                let parts = items()?.iter().map(|item| self.constant(key, item));
                table.part(slot, Part::Parts(parts.collect::<Result<_, _>>()?))
            }
            (Kind::MaybeImm, _) => match number(key, given)? {
                (class::INT_IMM, part) => table.part(slot, part),
                _ => return Err(not("whole number")),
            },
            (Kind::Number, _) => {
                let (class, part) = number(key, given)?;
                table.union(slot, class, part)
            }
            (Kind::Numbers, _) => {
                let numbers = items()?.iter().map(|item| number(key, item));
                table.unions(slot, numbers.collect::<Result<Vec<_>, _>>()?)
            }
            (Kind::Scales, Attribute::Text(text)) => {
                let read = text.parse().map_err(|error: crate::Error| format!("{key}: {error}"))?;
                scale(table, slot, &read, self.written)?
            }
            (Kind::Layout, Attribute::Text(text)) => {
                let read = text.parse().map_err(|error: crate::Error| format!("{key}: {error}"))?;
                table.table(slot, layout(&read))
            }
            (Kind::Text | Kind::Scales | Kind::Layout, _) => return Err(not("text")),
            (Kind::Type, Attribute::Type(dtype)) => table.table(slot, tensor_type(dtype, self.written)?),
            (Kind::Type, _) => return Err(not("type of a tensor")),
            (Kind::Units, _) => {
                let units = items()?.iter().map(|unit| {
                    let Attribute::Map(unit) = unit else { return Err(not("list of axes with multiples")) };
                    let field = |name: &str| integers(name, unit.get(name).unwrap_or(&Attribute::Null));
                    Ok(TableBuilder::default().i64s(0, &field("index")?).i64s(1, &field("unit")?))
                });
                table.tables(slot, units.collect::<Result<Vec<_>, _>>()?)
            }
            (Kind::HardOps, _) => {
                let ops = items()?.iter().map(|item| match item {
                    Attribute::Operation(op) if op.type_key == "icraft::xir::HardOp" => {
                        self.operation(op).map(|(_, table)| table)
                    }
                    _ => Err(not("list of HardOps")),
                });
                table.tables(slot, ops.collect::<Result<Vec<_>, _>>()?)
            }
        })
    }

    fn constant(&self, key: &str, attribute: &Attribute) -> Result<Part, Wrong> {
        match *attribute {
            Attribute::Value(index) if self.document.values[index].params.is_some() => {
                Ok(Part::Shared(index))
            }
            _ => Err(format!("{key} is no constant")),
        }
    }

    fn reference(&self, index: usize) -> (u8, Part) {
        let constant = self.document.values[index].params.is_some();
        (if constant { class::PARAMS } else { class::VALUE }, Part::Shared(index))
    }

    fn value(&self, index: usize) -> Result<Part, Wrong> {
        let given = &self.document.values[index];
        let base = usize::from(given.params.is_some());
        let dtype = tensor_type(&given.dtype, self.written)
            .map_err(|wrong| format!("value {}: {wrong}", given.v_id))?;
        let mut table = TableBuilder::default()
            .i64(base + value::V_ID, given.v_id)
            .text(base + value::NAME, &given.name)
            .text(base + value::TAGS, &json(&given.tags))
            .union(base + value::DTYPE, class::TENSOR_TYPE, Part::Table(dtype))
            .union(base + value::MTYPE, mem_class(given.mtype), mem(given.mtype));
        if let Some(params) = &given.params {
            table = table.u8(0, u8::from(params.allow_no_data));
            if let Some(data) = &params.data {
                table = table.part(base + value::DATA, Part::Vector(data.len(), PAGE, data.clone()));
            }
        }
        Ok(Part::Table(table))
    }
}

fn mem(mem: Mem) -> Part {
    let table = TableBuilder::default();
    Part::Table(match mem {
        Mem::Host => table,
        Mem::OnChip(address) | Mem::External(address) => table.u64(0, address),
        Mem::Chunk(id, offset) => table.u64(0, u64::from(id)).u64(1, offset),
    })
}

fn target(table: TableBuilder, slot: usize, target: Target) -> TableBuilder {
    let mut own = TableBuilder::default();
    if let Target::Zhuge(chip) = target
        && let Some((name, _)) = CHIPS.iter().find(|(_, other)| *other == chip)
    {
        own = own.text(0, name);
    }
    table.union(slot, target_class(target), Part::Table(own))
}

/// A number in the 32 bits that there are for it.
fn single(key: &str, number: f64) -> Result<f32, Wrong> {
    let narrow = number as f32;
    if narrow.is_infinite() && number.is_finite() {
        return Err(format!("{key} is {number:e}, which is infinite in 32 bits"));
    }
    Ok(narrow)
}

/// A number with a type of its own.
fn number(key: &str, attribute: &Attribute) -> Result<(u8, Part), Wrong> {
    let wrong = || format!("{key} is no number");
    let (value, dtype, place) = match attribute {
        Attribute::Map(map) => {
            let text =
                |name: &str| if let Some(Attribute::Text(text)) = map.get(name) { Some(text) } else { None };
            let dtype =
                text("dtype").ok_or_else(wrong)?.parse().map_err(|error: crate::Error| error.to_string())?;
            let place = text("mtype").map(|text| text.parse()).transpose();
            let place = place.map_err(|error: crate::Error| error.to_string())?.unwrap_or_default();
            (map.get("value").ok_or_else(wrong)?, Some(dtype), place)
        }
        plain => (plain, None, Mem::Host),
    };
    let (class, table, usual) = match *value {
        Attribute::Bool(flag) => (class::BOOL, TableBuilder::default().u8(0, u8::from(flag)), Scalar::Bool),
        Attribute::Int(number) => {
            (class::INT_IMM, TableBuilder::default().i64(0, number), Scalar::Signed(64))
        }
        Attribute::Float(number) => {
            (class::FLOAT_IMM, TableBuilder::default().f32(0, single(key, number)?), Scalar::Float(64))
        }
        _ => return Err(wrong()),
    };
    let table = scalar(table, 1, dtype.unwrap_or(usual)).union(3, mem_class(place), mem(place));
    Ok((class, Part::Table(table)))
}

fn scalar(table: TableBuilder, slot: usize, scalar: Scalar) -> TableBuilder {
    let own = TableBuilder::default();
    let (class, own) = match scalar {
        Scalar::Bool => (class::BOOL_TYPE, own),
        Scalar::Signed(bits) | Scalar::Unsigned(bits) => {
            let signed = matches!(scalar, Scalar::Signed(_));
            (class::INTEGER_TYPE, own.u8(0, u8::from(signed)).u64(1, u64::from(bits)))
        }
        float => {
            let (_, numbers) =
                FLOATS.iter().find(|(other, _)| *other == float).expect("there are no other floats");
            let own = (0..).zip(numbers).fold(own, |own, (slot, &number)| own.i64(slot, number));
            (class::FLOAT_TYPE, own)
        }
    };
    table.union(slot, class, Part::Table(own))
}

fn ratios(runs: &Runs<f32>, written: &Written) -> Result<TableBuilder, Wrong> {
    written.count(runs.total().saturating_mul(4))?;
    let values = runs.expanded(LONGEST).ok_or_else(|| format!("normratio has more than {LONGEST} values"))?;
    Ok(TableBuilder::default().i64(0, runs.axis).f32s(1, &values))
}

fn scale(table: TableBuilder, slot: usize, scale: &Scale, written: &Written) -> Result<TableBuilder, Wrong> {
    let many = || format!("there are more than {LONGEST} scales");
    let own = TableBuilder::default();
    let (class, own) = match scale {
        Scale::Plain(runs) => {
            written.count(runs.total().saturating_mul(4))?;
            let values = runs.expanded(LONGEST).ok_or_else(many)?;
            (class::SCALES, own.i64(0, runs.axis).f32s(1, &values))
        }
        Scale::Exp(runs) => {
            written.count(runs.total().saturating_mul(20))?;
            let values = runs.expanded(LONGEST).ok_or_else(many)?;
            let m: Vec<i64> = values.iter().map(|value| value.m).collect();
            let exp: Vec<i64> = values.iter().map(|value| value.exp).collect();
            let origins: Vec<f32> = values.iter().map(|value| value.origin).collect();
            (class::EXP_SCALES, own.i64s(0, &m).i64s(1, &exp).i64(2, runs.axis).f32s(3, &origins))
        }
    };
    Ok(table.union(slot, class, Part::Table(own)))
}

fn layout(layout: &Layout) -> TableBuilder {
    let axes = layout.axes.iter().map(|axis| {
        let own = TableBuilder::default();
        let name = axis.name.to_string();
        if axis.unit > 0 {
            (class::AXIS_UNIT, Part::Table(own.u64(0, axis.unit).text(1, &name)))
        } else {
            (class::AXIS_NAME, Part::Table(own.text(0, &name)))
        }
    });
    TableBuilder::default().unions(0, axes)
}

fn element(
    table: TableBuilder,
    slot: usize,
    element: &ElementType,
    written: &Written,
) -> Result<TableBuilder, Wrong> {
    let own = TableBuilder::default();
    let bases = |own: TableBuilder, slot: usize, storage: Scalar, expressed: Scalar| {
        scalar(scalar(own, slot, storage), slot + 2, expressed)
    };
    let reals = |key: &str, values: &[f64]| -> Result<Vec<f32>, Wrong> {
        values.iter().map(|&value| single(key, value)).collect()
    };
    let (class, own) = match element {
        ElementType::Scalar(format) => return Ok(scalar(table, slot, *format)),
        ElementType::Calibrated { storage, expressed, min, max, sat } => {
            let own =
                own.f32s(0, &reals("min", min)?).f32s(1, &reals("max", max)?).f32s(2, &reals("sat", sat)?);
            (class::CALIBRATED_TYPE, bases(own, 3, *storage, *expressed))
        }
        ElementType::Normalized { storage, expressed, ratio, zero_points } => {
            if zero_points.as_ref().is_some_and(|points| points.iter().any(|&point| point != 0)) {
                return Err("a NormalizedType has zero_points, for which there is no field".to_owned());
            }
            (class::NORMALIZED_TYPE, bases(own.table(0, ratios(ratio, written)?), 1, *storage, *expressed))
        }
        ElementType::Quantized { storage, expressed, scale: scales, zero_points } => {
            let own = scale(own, 0, scales, written)?.i64s(2, zero_points);
            (class::QUANTIZED_TYPE, bases(own, 3, *storage, *expressed))
        }
        ElementType::NormalizedQuantized { storage, expressed, ratio, scale: scales, zero_points } => {
            let own = scale(own.table(0, ratios(ratio, written)?), 1, scales, written)?.i64s(3, zero_points);
            (class::NORMALIZED_QUANTIZED_TYPE, bases(own, 4, *storage, *expressed))
        }
    };
    Ok(table.union(slot, class, Part::Table(own)))
}

fn tensor_type(dtype: &TensorType, written: &Written) -> Result<TableBuilder, Wrong> {
    let merged = dtype.merged.iter().map(|each| merged(each, written)).collect::<Result<Vec<_>, _>>()?;
    Ok(element(TableBuilder::default(), 0, &dtype.element, written)?
        .i64s(2, &dtype.shape)
        .table(3, layout(&dtype.layout))
        .tables(4, merged))
}

fn merged(merged: &MergedDistr, written: &Written) -> Result<TableBuilder, Wrong> {
    let total = merged.sections.last().map_or(0, |section| section.end);
    if total > LONGEST as u64 {
        return Err(format!("a distribution of merged axes has {total} elements, more than {LONGEST}"));
    }
    written.count(total)?;
    let mut mask = vec![0; total as usize];
    for section in &merged.sections {
        mask[section.start as usize..section.end as usize].fill(u8::from(section.valid));
    }
    let table = TableBuilder::default().i64s(0, &merged.axes).bytes(1, &mask, 1);
    Ok(match merged.fill {
        None => table,
        Some(Fill::Zero) => table.text(2, "ZERO"),
        Some(Fill::None) => table.text(2, "NONE"),
    })
}
