//! How a program wants inputs and outputs, copied from what it gave.

use std::ffi::c_int;

use super::{
    failure::{Failure, failure},
    types::{IO_SHAPE, IO_VALUE, Io, Layout},
};
use crate::boundary;

/// How an input or output is wanted.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) is_host: c_int,
    pub(crate) io_type: c_int,
    pub(crate) layout: Layout,
}

/// # Safety
/// `ios` is NULL or has `count` items, whose names are texts.
pub(crate) unsafe fn wishes(what: &str, ios: *const Io, count: usize) -> Result<Vec<Wish>, Failure> {
    // SAFETY: the caller's promise.
    let ios = unsafe { boundary::array(ios, count) };
    let ios = ios.ok_or_else(|| failure(format!("network_io.{what}: expected {count} LiteIO, got NULL")))?;
    let wish = |io: &Io| {
        // SAFETY: the caller's promise.
        let name = unsafe { boundary::text(io.name) };
        let name = name.ok_or_else(|| failure(format!("network_io.{what}: a LiteIO has no name")))?;
        if !(IO_VALUE..=IO_SHAPE).contains(&io.io_type) {
            return Err(failure(format!("network_io.{what}: expected a LiteIOType, got {}", io.io_type)));
        }
        io.config_layout.shape()?;
        Ok(Wish { name, is_host: io.is_host, io_type: io.io_type, layout: io.config_layout })
    };
    ios.iter().map(wish).collect()
}
