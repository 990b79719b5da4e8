//! Operators of classical learning that look elements up in tables, and those about maps.

use std::collections::HashMap;

use triune_tensor::{DType, Shape};

use super::{
    Form, Meaning, NodeReader, NodeWriter, Operator, Signature,
    learning::{ML_DOMAIN, miscounted, missing},
    mistaken, operators,
};
use crate::{
    Constant, Error, MapType, Op, ValueKind,
    ops::{CastMap, Dictionary, Hosted, MapOp, OneHotEncoder},
};

/// Refuses maps for operators that have no place for them: they are what the network takes or gives, and nothing between.
pub(in crate::format::onnx) fn settle_maps(node: &mut NodeReader<'_, '_>) -> Result<(), Error> {
    let maps = (0..node.inputs.len())
        .find_map(|index| Some((index, node.kind_of(index)?)).filter(|(_, kind)| kind.is_map()));
    let Some((index, kind)) = maps else { return Ok(()) };
    match (node.op_type, kind) {
        ("Identity", _) => {
            node.makes(0, kind);
            Ok(())
        }
        ("CastMap" | "DictVectorizer", ValueKind::Map(_)) => Ok(()),
        _ => {
            let kind = kind.name();
            Err(node.unsupported(format!(
                "input {index} is a {kind}, which only outputs of the network can be; let the node read the tensor that the {kind} is made of"
            )))
        }
    }
}

/// A list of elements as their bits.
struct Column {
    /// What it was called.
    name: String,
    dtype: DType,
    strings: bool,
    bits: Vec<u64>,
}

impl Column {
    fn of_constant(name: String, constant: &Constant, strings: bool) -> Self {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let dtype = constant.dtype();
        let bits = constant.bytes().chunks_exact(dtype.bytes()).map(word).collect();
        Self { name, dtype, strings, bits }
    }

    fn integers(name: String, values: &[i64], strings: bool) -> Self {
        let bits = values.iter().map(|value| value.cast_unsigned()).collect();
        Self { name, dtype: DType::I64, strings, bits }
    }
}

/// The numbers of strings.
fn numbers(node: &NodeReader<'_, '_>, texts: &[String]) -> Result<Vec<i64>, Error> {
    texts.iter().map(|text| node.number_of(text)).collect()
}

/// Takes the one list of elements that attributes beginning with `name` have.
fn column(node: &mut NodeReader<'_, '_>, name: &str) -> Result<Column, Error> {
    let mut found = Vec::new();
    let attribute = format!("{name}_strings");
    if let Some(texts) = node.texts(&attribute)?.filter(|list| !list.is_empty()) {
        let numbers = numbers(node, &texts)?;
        found.push(Column::integers(attribute, &numbers, true));
    }
    let attribute = format!("{name}_int64s");
    if let Some(values) = node.ints(&attribute)?.filter(|list| !list.is_empty()) {
        found.push(Column::integers(attribute, &values, false));
    }
    let attribute = format!("{name}_floats");
    if let Some(values) = node.floats(&attribute)?.filter(|list| !list.is_empty()) {
        let bits = values.iter().map(|value| value.to_bits().into()).collect();
        found.push(Column { name: attribute, dtype: DType::F32, strings: false, bits });
    }
    let attribute = format!("{name}_tensor");
    if let Some((constant, kind)) = node.any_tensor(&attribute)? {
        found.push(Column::of_constant(attribute, &constant, kind == ValueKind::Strings));
    }
    let (first, second) = (found.pop(), found.pop());
    match (first, second) {
        (Some(column), None) => Ok(column),
        (Some(column), Some(other)) => {
            let names = (other.name, column.name);
            Err(node.unsupported(format!("attributes '{}' and '{}'; one of both is expected", names.0, names.1)))
        }
        (None, _) => Err(node.unsupported(format!(
            "attributes '{name}_strings', '{name}_int64s', '{name}_floats' and '{name}_tensor' are missing; one of them is expected"
        ))),
    }
}

/// Takes the bits of what stands for all other elements.
fn default(node: &mut NodeReader<'_, '_>, values: &Column) -> Result<u64, Error> {
    let tensor = node.any_tensor("default_tensor")?;
    let text = node.text("default_string", "_Unused")?;
    let integer = node.int("default_int64")?.unwrap_or(-1);
    let real = node.float("default_float", -0.0)?;
    if let Some((constant, kind)) = tensor {
        let own = Column::of_constant(String::new(), &constant, kind == ValueKind::Strings);
        if own.dtype != values.dtype || own.strings != values.strings || own.bits.len() != 1 {
            return Err(node.unsupported(format!(
                "attribute 'default_tensor' is not one element of the type of '{}'",
                values.name
            )));
        }
        return Ok(own.bits[0]);
    }
    if values.strings {
        return Ok(node.number_of(&text)?.cast_unsigned());
    }
    Ok(match values.dtype {
        DType::F32 => real.to_bits().into(),
        DType::F64 => f64::from(real).to_bits(),
        DType::I64 => integer.cast_unsigned(),
        // Of fewer bits, it says none that fits.
        dtype => {
            let bits = 8 * dtype.bytes() as u32;
            let mask = u64::MAX >> (64 - bits);
            integer.cast_unsigned() & mask
        }
    })
}

/// Refuses an input of strings where numbers are keys, and the other way round.
fn expect_strings(node: &NodeReader<'_, '_>, strings: bool, name: &str) -> Result<(), Error> {
    if node.is_strings(0) == strings {
        return Ok(());
    }
    let got = if strings { "numbers" } else { "strings" };
    Err(node.unsupported(format!("input 0 is of {got}, and attribute '{name}' is not")))
}

fn label_encoder(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let keys = column(node, "keys")?;
    let values = column(node, "values")?;
    expect_strings(node, keys.strings, &keys.name)?;
    if keys.bits.len() != values.bits.len() {
        let expected = format!("{}, as '{}' has,", keys.bits.len(), keys.name);
        return Err(miscounted(node, &values.name, values.bits.len(), &expected));
    }
    let default = default(node, &values)?;
    let mut table = HashMap::new();
    for (&key, &value) in keys.bits.iter().zip(&values.bits) {
        // The first of equal keys counts.
        table.entry(Dictionary::key(keys.dtype, key)).or_insert(value);
    }
    if values.strings {
        node.makes_strings(0);
    }
    let (from, to) = (keys.dtype, values.dtype);
    Ok(Dictionary { name: "LabelEncoder", from, to, table: table.into(), default }.into())
}

/// Between strings and integers, whichever the input is.
fn between(node: &mut NodeReader<'_, '_>, name: &'static str, pairs: &[(i64, i64)]) -> Result<Op, Error> {
    let text = node.text("default_string", "_Unused")?;
    let integer = node.int("default_int64")?.unwrap_or(-1);
    let mut table = HashMap::new();
    let default = if node.is_strings(0) {
        table.extend(pairs.iter().map(|&(text, number)| (text.cast_unsigned(), number.cast_unsigned())));
        integer
    } else {
        table.extend(pairs.iter().map(|&(text, number)| (number.cast_unsigned(), text.cast_unsigned())));
        node.makes_strings(0);
        node.number_of(&text)?
    };
    let (from, to, default) = (DType::I64, DType::I64, default.cast_unsigned());
    Ok(Dictionary { name, from, to, table: table.into(), default }.into())
}

/// Strings and their places in a list.
fn first_label_encoder(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let texts = node.texts("classes_strings")?.ok_or_else(|| missing(node, "classes_strings"))?;
    let numbers = numbers(node, &texts)?;
    let pairs: Vec<_> = numbers.into_iter().zip(0..).collect();
    between(node, "LabelEncoder", &pairs)
}

fn category_mapper(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let texts = node.texts("cats_strings")?.ok_or_else(|| missing(node, "cats_strings"))?;
    let integers = node.ints("cats_int64s")?.ok_or_else(|| missing(node, "cats_int64s"))?;
    if texts.len() != integers.len() {
        let expected = format!("{}, as 'cats_strings' has,", texts.len());
        return Err(miscounted(node, "cats_int64s", integers.len(), &expected));
    }
    let numbers = numbers(node, &texts)?;
    let pairs: Vec<_> = numbers.into_iter().zip(integers).collect();
    between(node, "CategoryMapper", &pairs)
}

fn one_hot_encoder(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let texts = node.texts("cats_strings")?.filter(|list| !list.is_empty());
    let integers = node.ints("cats_int64s")?.filter(|list| !list.is_empty());
    let zeros = node.int("zeros")?.unwrap_or(1) != 0;
    let keys = match (texts, integers) {
        (Some(texts), None) => {
            expect_strings(node, true, "cats_strings")?;
            numbers(node, &texts)?
        }
        (None, Some(integers)) => {
            expect_strings(node, false, "cats_int64s")?;
            integers
        }
        _ => {
            let reason = "attributes 'cats_strings' and 'cats_int64s'; exactly one of both is expected";
            return Err(node.unsupported(reason));
        }
    };
    let count = keys.len();
    Ok(OneHotEncoder { places: keys.into_iter().zip(0..).collect(), count, zeros }.into())
}

/// Takes keys, strings or integers; whether they are strings.
fn keys(node: &mut NodeReader<'_, '_>, strings: &str, integers: &str) -> Result<(Vec<i64>, bool), Error> {
    let texts = node.texts(strings)?.filter(|list| !list.is_empty());
    let numbers_of = node.ints(integers)?.filter(|list| !list.is_empty());
    match (texts, numbers_of) {
        (Some(texts), None) => Ok((numbers(node, &texts)?, true)),
        (None, Some(integers)) => Ok((integers, false)),
        _ => Err(node.unsupported(format!(
            "attributes '{strings}' and '{integers}'; exactly one of both is expected"
        ))),
    }
}

fn zip_map(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (keys, string_keys) = keys(node, "classlabels_strings", "classlabels_int64s")?;
    let mut seen = std::collections::HashSet::new();
    if let Some(index) = keys.iter().position(|key| !seen.insert(*key)) {
        let name = if string_keys { "classlabels_strings" } else { "classlabels_int64s" };
        return Err(
            node.unsupported(format!("attribute '{name}', element {index}: the key is there already"))
        );
    }
    node.makes(0, ValueKind::Maps(MapType { string_keys, string_values: false }));
    Ok(MapOp::Zip { keys }.into())
}

/// What the first operand is a map of.
fn map_of(node: &NodeReader<'_, '_>) -> Result<(MapType, DType), Error> {
    match (node.kind_of(0), node.dtype_of(0)) {
        (Some(ValueKind::Map(map)), Some(dtype)) => Ok((map, dtype)),
        _ => Err(node.unsupported("input 0 is no map; a map that the network takes is expected")),
    }
}

fn dict_vectorizer(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (keys, string_keys) = keys(node, "string_vocabulary", "int64_vocabulary")?;
    let (map, _) = map_of(node)?;
    if map.string_keys != string_keys {
        let name = if string_keys { "string_vocabulary" } else { "int64_vocabulary" };
        let got = if string_keys { "integers" } else { "strings" };
        return Err(node.unsupported(format!("input 0 has {got} for keys, and attribute '{name}' has not")));
    }
    if map.string_values {
        node.makes_strings(0);
    }
    Ok(MapOp::Vectorize { keys }.into())
}

/// What values become; without a type, strings.
const CASTS: [(&str, Option<DType>); 3] =
    [("TO_FLOAT", Some(DType::F32)), ("TO_INT64", Some(DType::I64)), ("TO_STRING", None)];

fn cast_map(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let to = node.choice("cast_to", "TO_FLOAT", &CASTS)?;
    let sparse = node.choice("map_form", "DENSE", &[("DENSE", false), ("SPARSE", true)])?;
    let most = node.int("max_map")?.unwrap_or(1);
    let extent = usize::try_from(most).ok().filter(|extent| (1..=1 << 24).contains(extent));
    if sparse && extent.is_none() {
        return Err(node.unsupported(format!("attribute 'max_map' = {most}; 1 to 16,777,216 is expected")));
    }
    let (map, dtype) = map_of(node)?;
    if map.string_keys || !(map.string_values || dtype == DType::F32) {
        return Err(node.unsupported("input 0 is no map of integers to strings or float32"));
    }
    if to.is_none() {
        node.makes_strings(0);
    }
    let gap = node.number_of("0.f")?;
    let extent = extent.filter(|_| sparse);
    Ok(MapOp::Cast(CastMap { from_strings: map.string_values, to, extent, gap }).into())
}

/// Writes elements as the attributes that begin with `name`, from their bits: a list, or a tensor where there is none for their type.
fn write_column(
    writer: &mut NodeWriter<'_>,
    name: &str,
    dtype: DType,
    strings: bool,
    bits: &[u64],
) -> Result<(), String> {
    let integers = || bits.iter().map(|bits| bits.cast_signed());
    match dtype {
        // A list without elements is none.
        _ if bits.is_empty() => {
            write_elements(writer, &format!("{name}_tensor"), dtype, Shape::from([0]), bits)
        }
        DType::I64 if strings => {
            let texts = integers().map(|number| writer.text_of(number)).collect::<Result<Vec<_>, _>>()?;
            writer.texts(&format!("{name}_strings"), texts);
            Ok(())
        }
        DType::I64 => {
            writer.ints(&format!("{name}_int64s"), integers());
            Ok(())
        }
        DType::F32 => {
            writer.floats(&format!("{name}_floats"), bits.iter().map(|&bits| f32::from_bits(bits as u32)));
            Ok(())
        }
        _ => write_elements(writer, &format!("{name}_tensor"), dtype, Shape::from([bits.len()]), bits),
    }
}

fn write_elements(
    writer: &mut NodeWriter<'_>,
    name: &str,
    dtype: DType,
    shape: Shape,
    bits: &[u64],
) -> Result<(), String> {
    writer.needs(4);
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()[..dtype.bytes()].to_vec()).collect();
    let constant = Constant::new(dtype, shape, bytes).ok_or_else(|| format!("elements of {dtype}"))?;
    writer.tensor(name, &constant);
    Ok(())
}

fn write_dictionary(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Hosted(Hosted::Dictionary(op)) = op else { return Err(mistaken(op)) };
    let (from_strings, to_strings) = (writer.is_strings(0), writer.makes_strings(0));
    let mut entries: Vec<(u64, u64)> = op.table.iter().map(|(&key, &value)| (key, value)).collect();
    entries.sort_unstable();
    let (keys, values): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
    if keys.is_empty() && (from_strings || to_strings) {
        return Err("a table of strings without entries cannot be written as ONNX".into());
    }
    write_column(writer, "keys", op.from, from_strings, &keys)?;
    write_column(writer, "values", op.to, to_strings, &values)?;
    match op.to {
        DType::I64 if to_strings => {
            let text = writer.text_of(op.default.cast_signed())?;
            writer.text("default_string", &text);
        }
        DType::I64 => writer.int("default_int64", op.default.cast_signed()),
        DType::F32 => writer.float("default_float", f32::from_bits(op.default as u32)),
        dtype => write_elements(writer, "default_tensor", dtype, Shape::from([1]), &[op.default])?,
    }
    Ok(())
}

fn write_one_hot(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Hosted(Hosted::OneHotEncoder(op)) = op else { return Err(mistaken(op)) };
    let mut keys = vec![None; op.count];
    for (&key, &place) in op.places.iter() {
        keys[place] = Some(key);
    }
    // A category that is listed twice has the later place: what stands at the first of them is one of those behind it.
    let mut behind = None;
    for key in keys.iter_mut().rev() {
        behind = key.or(behind);
        *key = behind;
    }
    let keys: Option<Vec<i64>> = keys.into_iter().collect();
    let keys = keys.ok_or("categories without a key")?;
    let strings = writer.is_strings(0);
    writer.keys(["cats_int64s", "cats_strings"], &keys, strings)?;
    writer.int("zeros", op.zeros.into());
    Ok(())
}

fn write_map(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Hosted(Hosted::Maps(op)) = op else { return Err(mistaken(op)) };
    let string_keys = |kind: Option<ValueKind>| match kind {
        Some(ValueKind::Map(map) | ValueKind::Maps(map)) => Ok(map.string_keys),
        _ => Err("there is no map".to_owned()),
    };
    match &**op {
        MapOp::Zip { keys } => {
            let strings = string_keys(writer.kind_made(0))?;
            writer.keys(["classlabels_int64s", "classlabels_strings"], keys, strings)
        }
        MapOp::Vectorize { keys } => {
            let strings = string_keys(writer.kind_of(0))?;
            writer.keys(["int64_vocabulary", "string_vocabulary"], keys, strings)
        }
        MapOp::Cast(cast) => {
            writer.choice("cast_to", &CASTS, &cast.to);
            writer.text("map_form", if cast.extent.is_some() { "SPARSE" } else { "DENSE" });
            if let Some(extent) = cast.extent {
                writer.int("max_map", extent as i64);
            }
            Ok(())
        }
    }
}

operators! {
    ML_DOMAIN;
    "CastMap": [1] {1, 1, 1 => cast_map} write write_map;
    "CategoryMapper": [1] {1, 1, 1 => category_mapper};
    "DictVectorizer": [1] {1, 1, 1 => dict_vectorizer} write write_map;
    "LabelEncoder": [1] {1, 1, 1 => first_label_encoder} [2, 4] {1, 1, 1 => label_encoder} write write_dictionary;
    "OneHotEncoder": [1] {1, 1, 1 => one_hot_encoder} write write_one_hot;
    "ZipMap": [1] {1, 1, 1 => zip_map} write write_map;
}
