//! Properties: names and values, as texts.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char},
    ptr,
};

use triune::internals::fork::Brief;

use super::{
    failure::{Failure, argument},
    object::{self, Kind},
    types::Opaque,
};
use crate::boundary;

/// An `axrProperties`. Texts that C was given lie where they are until their value is set or deleted.
#[derive(Default)]
pub(crate) struct Properties {
    pairs: Brief<BTreeMap<CString, CString>>,
    /// The names, as C was given them last.
    listed: Brief<CString>,
}

impl Properties {
    /// Reads pairs `name=value`, apart by semicolons or lines. A name without a value has an empty one, which whoever reads it
    /// refuses.
    pub(crate) fn parse(text: &str) -> Self {
        let pieces = text.split([';', '\n']).map(str::trim).filter(|piece| !piece.is_empty());
        Self::of(pieces.map(|piece| {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            (name.trim(), value.trim())
        }))
    }

    pub(crate) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (boundary::c_text(name), boundary::c_text(value)));
        Self { pairs: Brief::new(pairs.collect()), ..Self::default() }
    }

    /// Names and values, by name.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let text = |text: &CStr| text.to_string_lossy().into_owned();
        self.pairs.lock().iter().map(|(name, value)| (text(name), text(value))).collect()
    }
}

/// The pairs of an argument that may be NULL.
pub(crate) fn pairs(properties: *const Opaque) -> Result<Vec<(String, String)>, Failure> {
    if properties.is_null() {
        return Ok(Vec::new());
    }
    Ok(object::find("properties", properties)?.properties("properties")?.pairs())
}

/// `axr_create_properties`.
///
/// # Safety
/// `initial` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_create_properties(
    context: *mut Opaque,
    initial: *const c_char,
) -> *mut Opaque {
    object::with(
        "context",
        context,
        |_| ptr::null_mut(),
        |object| {
            object.is_context("context")?;
            // SAFETY: the caller's promise.
            let initial = unsafe { boundary::text(initial) }.unwrap_or_default();
            Ok(object.make(Kind::Properties(Properties::parse(&initial))))
        },
    )
}

/// `axr_set_property`.
///
/// # Safety
/// `key` and `value` are NULL or texts.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_set_property(
    properties: *mut Opaque,
    key: *const c_char,
    value: *const c_char,
) {
    object::with(
        "properties",
        properties,
        |_| (),
        |object| {
            let properties = object.properties("properties")?;
            // SAFETY: the caller's promise.
            let (key, value) = unsafe { (boundary::text(key), boundary::text(value)) };
            let (Some(key), Some(value)) = (key, value) else {
                return Err(argument("axr_set_property: expected a key and a value, got NULL"));
            };
            properties.pairs.lock().insert(boundary::c_text(&key), boundary::c_text(&value));
            Ok(())
        },
    );
}

/// `axr_del_property`.
///
/// # Safety
/// `key` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_del_property(properties: *mut Opaque, key: *const c_char) {
    object::with(
        "properties",
        properties,
        |_| (),
        |object| {
            let properties = object.properties("properties")?;
            // SAFETY: the caller's promise.
            let key = unsafe { boundary::text(key) };
            let key = key.ok_or_else(|| argument("axr_del_property: expected a key, got NULL"))?;
            properties.pairs.lock().remove(&boundary::c_text(&key));
            Ok(())
        },
    );
}

/// `axr_get_property`: NULL if there is none. The text stays until the property is set or deleted.
///
/// # Safety
/// `key` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_get_property(
    properties: *mut Opaque,
    key: *const c_char,
) -> *const c_char {
    object::with(
        "properties",
        properties,
        |_| ptr::null(),
        |object| {
            let properties = object.properties("properties")?;
            // SAFETY: the caller's promise.
            let key = unsafe { boundary::text(key) };
            let key = key.ok_or_else(|| argument("axr_get_property: expected a key, got NULL"))?;
            Ok(properties
                .pairs
                .lock()
                .get(&boundary::c_text(&key))
                .map_or(ptr::null(), |value| value.as_ptr()))
        },
    )
}

/// `axr_list_properties`. The text stays until the next list of the object's.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_list_properties(properties: *mut Opaque) -> *const c_char {
    object::with(
        "properties",
        properties,
        |_| ptr::null(),
        |object| {
            let properties = object.properties("properties")?;
            let names: Vec<String> = properties.pairs().into_iter().map(|(name, _)| name).collect();
            let mut listed = properties.listed.lock();
            *listed = boundary::c_text(&names.join(";"));
            Ok(listed.as_ptr())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_apart_by_semicolons_or_lines() {
        let parsed = Properties::parse("a=1;b = x=y\n;c").pairs();
        let expected =
            [("a", "1"), ("b", "x=y"), ("c", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parsed, expected);
    }
}
