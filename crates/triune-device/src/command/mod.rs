//! The command set: op-level commands, and their encoding as little-endian 32-bit words.
//!
//! One table (`set.rs`) makes the structs, the encoder, the decoder and the field tables of
//! `docs/command-set.md`. Decoding is total: any words give commands or an error that names the command and the
//! field. Whether an address leads anywhere is not known here; [`crate::exec`] checks that.

mod buffer;
mod codec;
mod docs;
mod empty;
mod set;
mod table;
mod types;

pub use buffer::{CommandBuffer, Commands};
pub(crate) use codec::{CommandReader, FieldError};
pub use codec::{decode, encode};
pub use docs::field_tables;
pub use set::{
    ArgReduce, Binary, Command, Convert, Copy, Dequantize, End, FBinary, FConv, FMatMul, FNorm, FSoftmax,
    FUnary, Fill, GlobalPool, IMatMul, Opcode, Order, Pool, Put, QAdd, QConv, QMatMul, QMul, QNorm, QSoftmax,
    Quantize, QuantizeBy, Recurrence, Reduce, Resize, Running, Select, TMatMul, Table, Take, Use, Warp,
    Weigh,
};
pub use types::{AddParams, Addr, Blocks, FeatureMap, Operand, Quant, RequantTarget, Window};
