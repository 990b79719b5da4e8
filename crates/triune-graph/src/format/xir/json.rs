//! Reading a document: JSON text to structures.

use std::collections::{BTreeMap, HashMap, HashSet};
use triune_tensor::text::Name;

use bytes::Bytes;
use serde_json::{Map, Value as Json};

use super::{
    Attribute, Document, ElementType, Mem, Operation, Params, Runs, Tags, TensorType, Value, malformed,
};
use crate::{Error, format, walk::Walk};

const NAMESPACE: &str = "icraft::xir::";

impl Document {
    /// Reads a document, with its constants when the bytes of the RAW file are given.
    ///
    /// # Errors
    /// What is not such a document, or not the RAW file of it: the message names operation, operand and key.
    pub fn read(json: &[u8], raw: Option<Bytes>) -> Result<Self, Error> {
        let _room = format::json::room(json)?;
        let json: Json = serde_json::from_slice(json).map_err(|error| malformed(error.to_string()))?;
        let mut reader = Reader::default();
        let mut document = reader.document(&json)?;
        document.values = reader.values;
        if let Some(raw) = raw {
            document.attach(&raw)?;
        }
        Ok(document)
    }
}

/// The newest major version of the format whose documents are understood.
pub(super) const NEWEST_MAJOR: u64 = 3;

/// The keys of an operation that are no attributes.
pub(super) const OPERATION_KEYS: [&str; 7] =
    ["_type_key", "op_id", "name", "compile_target", "tags", "inputs", "outputs"];

/// An attribute by itself, with the values that it refers to.
///
/// # Errors
/// What no attribute is, after `place`.
pub(super) fn attribute(json: &Json, place: &str) -> Result<(Attribute, Vec<Value>), Error> {
    let mut reader = Reader::default();
    let attribute = reader.attribute(json, place)?;
    Ok((attribute, reader.values))
}

/// Whether documents of a version can be read.
pub(super) fn is_known(version: &str) -> bool {
    let major = version.trim_start_matches('v').split('.').next().unwrap_or_default();
    major.bytes().all(|digit| digit.is_ascii_digit())
        && major.parse().is_ok_and(|major: u64| major <= NEWEST_MAJOR)
}

/// The values seen so far, each with the object that it was read from.
#[derive(Default)]
struct Reader<'a> {
    values: Vec<Value>,
    seen: HashMap<i64, (usize, &'a Json)>,
}

impl<'a> Reader<'a> {
    fn document(&mut self, json: &'a Json) -> Result<Document, Error> {
        let fields = Fields::of(json, "the file")?;
        let kind = fields.text("_type_key")?;
        if kind != "icraft::xir::Network" {
            return Err(malformed(format!("the file holds a {kind}, not an icraft::xir::Network")));
        }
        let mut document = Document::default();
        let mut ops: &[Json] = &[];
        for (key, value) in fields.object {
            match key.as_str() {
                "_type_key" => {}
                "name" => fields.text(key)?.clone_into(&mut document.name),
                "ai_target" if value.is_null() => {}
                "ai_target" => document.ai_target = Some(fields.parsed(key)?),
                "framework_kind" => fields.text(key)?.clone_into(&mut document.framework_kind),
                "framework_version" => fields.text(key)?.clone_into(&mut document.framework_version),
                "icraft_version" => fields.text(key)?.clone_into(&mut document.icraft_version),
                "icraft_xir_version" => {
                    let version = fields.text(key)?;
                    if !is_known(version) {
                        let reason =
                            format!("\"{}\" is not known; up to {NEWEST_MAJOR}.x can be read", Name(version));
                        return Err(fields.bad(key, reason));
                    }
                    version.clone_into(&mut document.icraft_xir_version);
                }
                "params_md5" => fields.text(key)?.clone_into(&mut document.params_md5),
                "params_bytes" => {
                    document.params_bytes =
                        value.as_u64().ok_or_else(|| fields.bad(key, "is not a number of bytes"))?;
                }
                "tags" => document.tags = fields.tags(key)?,
                "ops" => ops = fields.array(key)?,
                _ => {
                    document.extra.insert(key.clone(), value.clone());
                }
            }
        }
        fields.required("ops")?;
        let mut ids = HashSet::with_capacity(ops.len());
        let mut walk = Walk::new();
        for (index, op) in ops.iter().enumerate() {
            walk.node()?;
            let op = self.operation(op, &format!("operation at index {index}"))?;
            if !ids.insert(op.op_id) {
                return Err(malformed(format!("two operations have op_id {}", op.op_id)));
            }
            document.ops.push(op);
        }
        Ok(document)
    }

    fn operation(&mut self, json: &'a Json, place: &str) -> Result<Operation, Error> {
        let fields = Fields::of(json, place)?;
        let type_key = fields.text("_type_key")?;
        let op_id = fields.integer("op_id")?;
        let place = format!("operation {op_id} ({type_key})");
        let fields = Fields { place: &place, ..fields };
        let mut op = Operation {
            type_key: type_key.to_owned(),
            op_id,
            name: String::new(),
            target: super::Target::Host,
            tags: Tags::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            attributes: BTreeMap::new(),
        };
        fields.required("inputs")?;
        fields.required("outputs")?;
        // Operands come before attributes, so that values are numbered in the order in which they are made.
        for (index, input) in fields.array("inputs")?.iter().enumerate() {
            let place = format!("{place}, inputs[{index}]");
            op.inputs.push(if input.is_null() { None } else { Some(self.value(input, &place)?) });
        }
        for (key, value) in fields.object {
            match key.as_str() {
                "_type_key" | "op_id" | "inputs" | "outputs" => {}
                "name" => fields.text(key)?.clone_into(&mut op.name),
                "compile_target" => op.target = fields.parsed(key)?,
                "tags" => op.tags = fields.tags(key)?,
                _ => {
                    let attribute = self.attribute(value, &format!("{place}, {key}"))?;
                    op.attributes.insert(key.clone(), attribute);
                }
            }
        }
        for (index, output) in fields.array("outputs")?.iter().enumerate() {
            op.outputs.push(self.value(output, &format!("{place}, outputs[{index}]"))?);
        }
        Ok(op)
    }

    fn attribute(&mut self, json: &'a Json, place: &str) -> Result<Attribute, Error> {
        Ok(match json {
            Json::Null => Attribute::Null,
            Json::Bool(value) => Attribute::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(value), _) => Attribute::Int(value),
                (None, Some(value)) if number.is_f64() => Attribute::Float(value),
                _ => return Err(malformed(format!("{place}: {number} does not fit 64 bits with sign"))),
            },
            Json::String(text) => match text.as_str() {
                "inf" => Attribute::Float(f64::INFINITY),
                "-inf" => Attribute::Float(f64::NEG_INFINITY),
                "nan" => Attribute::Float(f64::NAN),
                _ => Attribute::Text(text.clone()),
            },
            Json::Array(items) => Attribute::List(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| match item {
                        // Most lists are long ones of numbers, which need no place each.
                        Json::Array(_) | Json::Object(_) => {
                            self.attribute(item, &format!("{place}[{index}]"))
                        }
                        _ => self.attribute(item, place),
                    })
                    .collect::<Result<_, _>>()?,
            ),
            Json::Object(object) => {
                let kind = object.get("_type_key").and_then(Json::as_str).unwrap_or_default();
                match kind.strip_prefix(NAMESPACE) {
                    Some("Value" | "Params") => Attribute::Value(self.value(json, place)?),
                    Some("TensorType") => Attribute::Type(Box::new(tensor_type(json, place)?)),
                    Some(
                        "CalibratedType" | "NormalizedType" | "QuantizedType" | "NormalizedQuantizedType",
                    ) => Attribute::Element(Box::new(element_type(json, place)?)),
                    _ if object.contains_key("op_id") && object.contains_key("compile_target") => {
                        Attribute::Operation(Box::new(self.operation(json, place)?))
                    }
                    _ => Attribute::Map(
                        object
                            .iter()
                            .map(|(key, item)| {
                                Ok((key.clone(), self.attribute(item, &format!("{place}.{key}"))?))
                            })
                            .collect::<Result<_, Error>>()?,
                    ),
                }
            }
        })
    }

    /// The index of the value that `json` describes. A value that was seen before must be described as before.
    fn value(&mut self, json: &'a Json, place: &str) -> Result<usize, Error> {
        let fields = Fields::of(json, place)?;
        let v_id = fields.integer("v_id")?;
        if let Some(&(index, before)) = self.seen.get(&v_id) {
            if before == json {
                return Ok(index);
            }
            let key = fields.object.iter().find(|(key, value)| before.get(key.as_str()) != Some(value));
            let key = key.map_or("a key left out", |(key, _)| key.as_str());
            return Err(malformed(format!("{place}: value {v_id} was described before with another {key}")));
        }
        let place = format!("{place}, value {v_id}");
        let fields = Fields { place: &place, ..fields };
        let params = match fields.text("_type_key")? {
            "icraft::xir::Value" => None,
            "icraft::xir::Params" => {
                let allow_no_data = match fields.object.get("_allow_no_data") {
                    None => false,
                    Some(Json::Bool(allowed)) => *allowed,
                    Some(_) => return Err(fields.bad("_allow_no_data", "is not a bool")),
                };
                Some(Params { allow_no_data, data: None })
            }
            kind => return Err(fields.bad("_type_key", format!("is {kind}, not a Value or Params"))),
        };
        let mtype = match fields.object.get("mtype") {
            None => Mem::Host,
            Some(_) => fields.parsed("mtype")?,
        };
        let name = match fields.object.get("name") {
            None => String::new(),
            Some(_) => fields.text("name")?.to_owned(),
        };
        let tags = match fields.object.get("tags") {
            None => Tags::new(),
            Some(_) => fields.tags("tags")?,
        };
        let dtype = tensor_type(fields.required("dtype")?, &format!("{place}, dtype"))?;
        for key in fields.object.keys() {
            if !matches!(
                key.as_str(),
                "_type_key" | "_allow_no_data" | "v_id" | "mtype" | "name" | "tags" | "dtype"
            ) {
                return Err(fields.bad(key, "is not a key of a value"));
            }
        }
        let index = self.values.len();
        self.values.push(Value { v_id, name, dtype, mtype, tags, params });
        self.seen.insert(v_id, (index, json));
        Ok(index)
    }
}

fn tensor_type(json: &Json, place: &str) -> Result<TensorType, Error> {
    let fields = Fields::of(json, place)?;
    let element = element_type(fields.required("element_dtype")?, &format!("{place}, element_dtype"))?;
    let layout = fields.parsed("layout")?;
    let shape = fields.integers("shape")?;
    if let Some(extent) = shape.iter().find(|&&extent| extent < -1) {
        return Err(fields.bad("shape", format!("has the extent {extent}")));
    }
    let mut merged = Vec::new();
    if fields.object.contains_key("merged_distrs") {
        for item in fields.array("merged_distrs")? {
            let text =
                item.as_str().ok_or_else(|| fields.bad("merged_distrs", "is not a list of strings"))?;
            merged.push(text.parse().map_err(|error| fields.bad("merged_distrs", error))?);
        }
    }
    Ok(TensorType { element, shape, layout, merged })
}

fn element_type(json: &Json, place: &str) -> Result<ElementType, Error> {
    if let Json::String(text) = json {
        return text.parse().map(ElementType::Scalar).map_err(|error| malformed(format!("{place}: {error}")));
    }
    let fields = Fields::of(json, place)?;
    let storage = fields.parsed("storage_dtype")?;
    let expressed = fields.parsed("expressed_dtype")?;
    let ratio =
        || Runs::parse_ratios(fields.text("normratio")?).map_err(|error| fields.bad("normratio", error));
    let zero_points = || match fields.object.get("zero_points") {
        None => Ok(None),
        Some(_) => fields.integers("zero_points").map(Some),
    };
    let kind = fields.text("_type_key")?;
    Ok(match kind.strip_prefix(NAMESPACE) {
        Some("CalibratedType") => ElementType::Calibrated {
            storage,
            expressed,
            min: fields.numbers("min")?,
            max: fields.numbers("max")?,
            sat: fields.numbers("sat")?,
        },
        Some("NormalizedType") => {
            ElementType::Normalized { storage, expressed, ratio: ratio()?, zero_points: zero_points()? }
        }
        Some("QuantizedType") => ElementType::Quantized {
            storage,
            expressed,
            scale: fields.parsed("scale")?,
            zero_points: zero_points()?.unwrap_or_default(),
        },
        Some("NormalizedQuantizedType") => ElementType::NormalizedQuantized {
            storage,
            expressed,
            ratio: ratio()?,
            scale: fields.parsed("scale")?,
            zero_points: zero_points()?.unwrap_or_default(),
        },
        _ => return Err(fields.bad("_type_key", format!("is {kind}, not an element type"))),
    })
}

/// The keys of an object, with where it stands for messages.
struct Fields<'a, 'p> {
    object: &'a Map<String, Json>,
    place: &'p str,
}

impl<'a, 'p> Fields<'a, 'p> {
    fn of(json: &'a Json, place: &'p str) -> Result<Self, Error> {
        let object = json.as_object().ok_or_else(|| malformed(format!("{place}: it is not an object")))?;
        Ok(Self { object, place })
    }

    fn bad(&self, key: &str, reason: impl std::fmt::Display) -> Error {
        malformed(format!("{}: '{key}' {reason}", self.place))
    }

    fn required(&self, key: &str) -> Result<&'a Json, Error> {
        self.object.get(key).ok_or_else(|| self.bad(key, "is missing"))
    }

    fn text(&self, key: &str) -> Result<&'a str, Error> {
        self.required(key)?.as_str().ok_or_else(|| self.bad(key, "is not a string"))
    }

    fn integer(&self, key: &str) -> Result<i64, Error> {
        self.required(key)?.as_i64().ok_or_else(|| self.bad(key, "is not a whole number"))
    }

    fn array(&self, key: &str) -> Result<&'a [Json], Error> {
        self.required(key)?.as_array().map(Vec::as_slice).ok_or_else(|| self.bad(key, "is not an array"))
    }

    fn integers(&self, key: &str) -> Result<Vec<i64>, Error> {
        let items = self.array(key)?.iter().map(Json::as_i64);
        items.collect::<Option<_>>().ok_or_else(|| self.bad(key, "is not a list of whole numbers"))
    }

    fn numbers(&self, key: &str) -> Result<Vec<f64>, Error> {
        let items = self.array(key)?.iter().map(|item| match item {
            Json::String(text) => text.parse().ok(),
            item => item.as_f64(),
        });
        items.collect::<Option<_>>().ok_or_else(|| self.bad(key, "is not a list of numbers"))
    }

    fn tags(&self, key: &str) -> Result<Tags, Error> {
        let object = self.required(key)?.as_object().ok_or_else(|| self.bad(key, "is not an object"))?;
        Ok(object.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// The string under `key`, read by its own grammar.
    fn parsed<T: std::str::FromStr<Err = Error>>(&self, key: &str) -> Result<T, Error> {
        self.text(key)?.parse().map_err(|error| self.bad(key, error))
    }
}
