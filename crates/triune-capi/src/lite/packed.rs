//! Packed models: what one says of itself, as JSON, overrides what the program asked for.

use std::{
    collections::BTreeMap,
    ffi::{CString, c_char, c_int, c_void},
    ptr,
};

use serde_json::{Map, Value};
use triune::{
    Model, ValueInfo,
    internals::{
        fork::Brief,
        graph::format::{
            json,
            mge::packed::{self, Packed},
        },
    },
};

use super::{
    ciphers,
    failure::{Failure, done, failure},
    settings::{MOST_THREADS, OWN_OUTPUTS, Settings},
    types::{Config, IO_SHAPE, IO_VALUE, Layout, MAX_DIMS, NetworkIo, kind, kind_named},
    wish::{Wish, wishes},
};
use crate::boundary;

/// A packed model taken apart.
pub(super) struct Unpacked {
    pub(super) model: Vec<u8>,
    pub(super) settings: Settings,
    /// What it says besides, as JSON.
    pub(super) extra: CString,
    pub(super) stated: Vec<Stated>,
}

/// What it says of an input or output itself.
pub(super) struct Stated {
    is_input: bool,
    name: String,
    shape: Vec<usize>,
    kind: Option<c_int>,
}

/// `LiteParseInfoFunc`.
type Parser = unsafe extern "C" fn(
    *const c_void,
    usize,
    *const c_char,
    *mut Config,
    *mut NetworkIo,
    *mut c_int,
    *mut usize,
    *mut c_int,
    *mut c_int,
) -> c_int;

static PARSERS: Brief<BTreeMap<String, Parser>> = Brief::new(BTreeMap::new());
const DEFAULT_PARSER: &str = "LITE_default";

/// Takes a packed model apart; with `configure`, what it says of itself goes into the settings.
pub(super) fn open(content: Vec<u8>, settings: Settings, configure: bool) -> Result<Unpacked, Failure> {
    let parts = packed::read(content).map_err(|error| failure(error.to_string()))?;
    let whose = format!("packed model '{}'", parts.name);
    let mut unpacked =
        Unpacked { model: Vec::new(), settings, extra: CString::default(), stated: Vec::new() };
    if !parts.info.is_empty() {
        let what = format!("the information of {whose}");
        let info = decrypted(&parts.info_decryption, &what, &parts.info)?;
        let own = PARSERS.lock().get(&parts.info_parser).copied();
        if let Some(parser) = own {
            if configure {
                // SAFETY: the program registered it for that.
                unsafe { parse_by(parser, &parts, &info, &mut unpacked.settings) }?;
            }
        } else if matches!(parts.info_parser.as_str(), "" | DEFAULT_PARSER) {
            let info = parsed(&whose, &parts, &info)?;
            if configure {
                take(&whose, &info, &mut unpacked)?;
            }
        } else {
            let parser = &parts.info_parser;
            return Err(failure(format!(
                "{whose}: its information is for the parser '{parser}'; LITE_register_parse_info_func adds it"
            )));
        }
    }
    unpacked.model = decrypted(&parts.model_decryption, &whose, &parts.model)?;
    unpacked.settings.check_device()?;
    Ok(unpacked)
}

fn decrypted(cipher: &str, what: &str, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    if matches!(cipher, "" | "NONE") { Ok(bytes.to_vec()) } else { ciphers::decrypt(cipher, what, bytes) }
}

fn parsed(whose: &str, parts: &Packed, info: &[u8]) -> Result<Map<String, Value>, Failure> {
    // Ciphers pad: what follows the object is no part of it.
    let start = info.iter().position(|&byte| byte == b'{').unwrap_or(0);
    let text = String::from_utf8_lossy(&info[start..]);
    let _room = json::room(text.as_bytes())?;
    let cause = if matches!(parts.info_decryption.as_str(), "" | "NONE") {
        String::new()
    } else {
        format!("; it was decrypted with {}, whose key may be another one", parts.info_decryption)
    };
    let first = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next();
    let value = match first {
        Some(Ok(value)) => value,
        Some(Err(error)) => {
            return Err(failure(format!("{whose}: its information is no JSON: {error}{cause}")));
        }
        None => return Err(failure(format!("{whose}: its information is no JSON: there is none{cause}"))),
    };
    let Value::Object(info) = value else {
        return Err(failure(format!("{whose}: its information is no JSON object{cause}")));
    };
    if info.get("name").and_then(Value::as_str) != Some(&parts.name) {
        let other = info.get("name").unwrap_or(&Value::Null);
        return Err(failure(format!("{whose}: its information is for {other}")));
    }
    Ok(info)
}

/// A member, if it is there, of the right kind.
struct Taker<'a> {
    whose: &'a str,
}

impl<'a> Taker<'a> {
    fn wrong(&self, name: &str, kind: &str, value: &Value) -> Failure {
        failure(format!("{}: {name}: expected {kind}, got {value}", self.whose))
    }

    fn section(
        &self,
        of: &'a Map<String, Value>,
        name: &str,
    ) -> Result<Option<&'a Map<String, Value>>, Failure> {
        match of.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(section)) => Ok(Some(section)),
            Some(_) => Err(failure(format!("{}: {name} is no object", self.whose))),
        }
    }

    fn number(&self, of: &Map<String, Value>, name: &str) -> Result<Option<c_int>, Failure> {
        match of.get(name) {
            None | Some(Value::Null) => Ok(None),
            // The vendor writes flags as numbers and as booleans.
            Some(Value::Bool(flag)) => Ok(Some(c_int::from(*flag))),
            Some(value) => {
                let number = value.as_i64().and_then(|number| c_int::try_from(number).ok());
                number.map(Some).ok_or_else(|| self.wrong(name, "a number", value))
            }
        }
    }

    fn text(&self, of: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Failure> {
        match of.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| self.wrong(name, "a text", value)),
        }
    }
}

fn take(whose: &str, info: &Map<String, Value>, unpacked: &mut Unpacked) -> Result<(), Failure> {
    let taker = Taker { whose };
    if taker.number(info, "valid")? == Some(0) {
        return Ok(());
    }
    let settings = &mut unpacked.settings;
    if let Some(flag) = taker.number(info, "has_compression")? {
        settings.compressed = flag != 0;
    }
    if let Some(device) = taker.section(info, "device")? {
        if let Some(name) = taker.text(device, "type")? {
            settings.device_type = device_type(whose, name)?;
        }
        if let Some(number) = taker.number(device, "device_id")? {
            settings.device_id = number;
        }
        if let Some(threads) = taker.number(device, "number_threads")? {
            let count = usize::try_from(threads).ok().filter(|&count| count <= MOST_THREADS);
            let wrong = || {
                failure(format!(
                    "{whose}: number_threads: expected 0 (leave it) to {MOST_THREADS}, got {threads}"
                ))
            };
            settings.threads = count.ok_or_else(wrong)?.max(1);
        }
        if let Some(flag) = taker.number(device, "enable_inplace_model")? {
            settings.inplace = flag != 0;
        }
    }
    if let Some(options) = taker.section(info, "options")? {
        if let Some(level) = taker.number(options, "graph_opt_level")? {
            settings.fusion = level != 0;
        }
        if let Some(flag) = taker.number(options, "force_output_use_user_specified_memory")? {
            settings.own_outputs = flag != 0;
        }
    }
    let ios = taker.section(info, "IO")?;
    for (which, name) in ["inputs", "outputs"].into_iter().enumerate() {
        let items = match ios.and_then(|ios| ios.get(name)) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(items)) => items,
            Some(_) => return Err(failure(format!("{whose}: IO.{name} is no list"))),
        };
        for item in items {
            let (wish, stated) = io(&taker, item, which == 0, &settings.wishes[which])?;
            settings.wishes[which].push(wish);
            unpacked.stated.push(stated);
        }
    }
    if let Some(extra) = info.get("extra_info") {
        unpacked.extra = boundary::c_text(&extra.to_string());
    }
    Ok(())
}

fn device_type(whose: &str, name: &str) -> Result<c_int, Failure> {
    let known = [("CPU", 0), ("CUDA", 1), ("ATLAS", 3), ("NPU", 4)];
    let found = known.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, number)| *number)
        .ok_or_else(|| failure(format!("{whose}: there is no device type '{name}'")))
}

fn io(taker: &Taker<'_>, item: &Value, is_input: bool, asked: &[Wish]) -> Result<(Wish, Stated), Failure> {
    let whose = taker.whose;
    let unnamed = || failure(format!("{whose}: an input or output without a name: {item}"));
    let item = item.as_object().ok_or_else(unnamed)?;
    let name = item.get("name").and_then(Value::as_str).ok_or_else(unnamed)?;
    let mut wish = asked.iter().rev().find(|wish| wish.name == name).cloned().unwrap_or_else(|| Wish {
        name: name.to_owned(),
        is_host: 1,
        io_type: IO_VALUE,
        layout: Layout::EMPTY,
    });
    if let Some(flag) = taker.number(item, "is_host")? {
        wish.is_host = flag;
    }
    match taker.text(item, "io_type")? {
        None => {}
        Some("value") => wish.io_type = IO_VALUE,
        Some("shape") => wish.io_type = IO_SHAPE,
        Some(other) => return Err(failure(format!("{whose}: '{name}': there is no io_type '{other}'"))),
    }
    let mut stated = Stated { is_input, name: name.to_owned(), shape: Vec::new(), kind: None };
    if let Some(shape) = taker.section(item, "shape")?.filter(|shape| !shape.is_empty()) {
        let extents = (0..shape.len()).map(|axis| shape.get(&format!("dim{axis}")).and_then(Value::as_u64));
        let extents: Option<Vec<usize>> =
            extents.map(|extent| extent.and_then(|extent| usize::try_from(extent).ok())).collect();
        let wrong = || failure(format!("{whose}: the layout of '{name}': expected dim0 to at most dim6"));
        stated.shape = extents.filter(|extents| extents.len() <= MAX_DIMS).ok_or_else(wrong)?;
        if let Some(dtype) = taker.text(item, "dtype")? {
            let wrong =
                || failure(format!("{whose}: the layout of '{name}': there is no element type '{dtype}'"));
            stated.kind = Some(kind_named(dtype).ok_or_else(wrong)?);
        }
        wish.layout = Layout::new(&stated.shape, stated.kind.unwrap_or_default());
    }
    Ok((wish, stated))
}

/// Compares what a packed model says of its inputs and outputs with the model. Other extents are a wish for an input, no contradiction.
pub(super) fn check(stated: &[Stated], model: &Model) -> Result<(), Failure> {
    for said in stated {
        let values: &[ValueInfo] = if said.is_input { model.inputs() } else { model.outputs() };
        let Some(value) = values.iter().find(|value| value.name == said.name) else { continue };
        let own = kind(&format!("'{}'", said.name), value.dtype)?;
        let rank = value.is_ranked().then(|| value.dims.len().max(1));
        let wrong_rank = !said.shape.is_empty() && rank.is_some_and(|rank| rank != said.shape.len());
        if wrong_rank || said.kind.is_some_and(|kind| kind != own) {
            let what = if said.is_input { "input" } else { "output" };
            let axes = rank.map_or("any number of".to_owned(), |rank| rank.to_string());
            return Err(failure(format!(
                "packed model: its information has {what} '{}' with {} axes{}, the model with {axes} of {}; LITE_extra_configure \
                 leaves the information aside",
                said.name,
                said.shape.len(),
                if said.kind.is_some_and(|kind| kind != own) { " of another type" } else { "" },
                value.dtype.name(),
            )));
        }
    }
    Ok(())
}

/// # Safety
/// The parser is a function as the header says.
unsafe fn parse_by(
    parser: Parser,
    parts: &Packed,
    info: &[u8],
    settings: &mut Settings,
) -> Result<(), Failure> {
    let whose = format!("packed model '{}'", parts.name);
    let name = boundary::c_text(&parts.name);
    let mut config = Config::DEFAULT;
    config.has_compression = c_int::from(settings.compressed);
    config.options.before[OWN_OUTPUTS] = c_int::from(settings.own_outputs);
    config.options.graph_opt_level = if settings.fusion { config.options.graph_opt_level } else { 0 };
    (config.device_type, config.device_id) = (settings.device_type, settings.device_id);
    let mut io = NetworkIo::DEFAULT;
    let (mut device_id, mut threads, mut inplace, mut tensorrt) = (0, 1usize, 0, 0);
    // SAFETY: the caller's promise; all places are there until it returns.
    let valid = unsafe {
        parser(
            info.as_ptr().cast(),
            info.len(),
            name.as_ptr(),
            ptr::from_mut(&mut config),
            ptr::from_mut(&mut io),
            ptr::from_mut(&mut device_id),
            ptr::from_mut(&mut threads),
            ptr::from_mut(&mut inplace),
            ptr::from_mut(&mut tensorrt),
        )
    };
    if valid == 0 {
        return Err(failure(format!(
            "{whose}: the parser of its information, '{}', refused it",
            parts.info_parser
        )));
    }
    if threads > MOST_THREADS {
        return Err(failure(format!("{whose}: nr_threads: expected at most {MOST_THREADS}, got {threads}")));
    }
    // SAFETY: what the function wrote there is as the header says.
    let (inputs, outputs) = unsafe {
        (wishes("inputs", io.inputs, io.input_size)?, wishes("outputs", io.outputs, io.output_size)?)
    };
    settings.compressed = config.has_compression != 0;
    settings.fusion = config.options.graph_opt_level != 0;
    settings.own_outputs = config.options.before[OWN_OUTPUTS] != 0;
    settings.device_type = config.device_type;
    if device_id != 0 {
        settings.device_id = device_id;
    }
    if threads > 1 {
        settings.threads = threads;
    }
    settings.inplace |= inplace != 0;
    settings.wishes[0].extend(inputs);
    settings.wishes[1].extend(outputs);
    Ok(())
}

/// `LITE_register_parse_info_func`.
///
/// # Safety
/// `info_type` is NULL or a text, and the function can be called as the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_register_parse_info_func(
    info_type: *const c_char,
    parse_func: Option<Parser>,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { boundary::text(info_type) };
        let name = name.ok_or_else(|| failure("info_type: expected a name, got NULL"))?;
        let parser = parse_func.ok_or_else(|| failure("parse_func: expected a function, got NULL"))?;
        let mut parsers = PARSERS.lock();
        if name == DEFAULT_PARSER || parsers.contains_key(&name) {
            return Err(failure(format!("there is a parser '{name}' already")));
        }
        parsers.insert(name, parser);
        Ok(())
    })
}
