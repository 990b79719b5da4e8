//! The commands: a file for each family, and here all of them in the order of the documentation.

mod elementwise;
mod maps;
mod movement;
mod products;
mod rows;

pub use elementwise::*;
pub use maps::*;
pub use movement::*;
pub use products::*;
pub use rows::*;

use super::{
    codec::FieldError,
    table::{Body, command_set, decode_body},
};

command_set! {
    ($)
    End,
    Copy,
    Fill,
    QConv,
    FConv,
    FMatMul,
    QMatMul,
    IMatMul,
    TMatMul,
    BlockMatMul,
    FAttention,
    Recurrence,
    Pool,
    GlobalPool,
    QAdd,
    QMul,
    FBinary,
    FUnary,
    Table,
    Tables,
    Quantize,
    Dequantize,
    QuantizeBy,
    QSoftmax,
    FSoftmax,
    QNorm,
    FNorm,
    FLogSoftmax,
    Resize,
    Warp,
    Weigh,
    Reduce,
    ArgReduce,
    Binary,
    Select,
    FTriple,
    Rotate,
    Convert,
    Take,
    Put,
    Order,
    Running,
}
