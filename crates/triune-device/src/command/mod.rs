//! The command set: op-level commands, and their encoding as little-endian 32-bit words.
//!
//! Tables (`set`) make the structs, the encoder, the decoder and the field tables of
//! `docs/command-set.md`. Decoding is total: any words give commands or an error that names the command and the
//! field. Whether an address leads anywhere is not known here; [`crate::exec`] checks that.

mod access;
mod buffer;
mod codec;
mod docs;
mod set;
mod table;
mod types;

pub use access::Use;
pub(crate) use access::{Access, Elements, product};
pub use buffer::{CommandBuffer, Commands};
pub(crate) use codec::{CommandReader, FieldError};
pub use codec::{decode, encode};
pub use docs::field_tables;
pub(crate) use set::with_command;
pub use set::*;
pub use types::{AddParams, Addr, Blocks, FeatureMap, Operand, Quant, RequantTarget, Window};
