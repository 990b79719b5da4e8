//! The commands: a file for each family, and here all of them, in the order of the documentation.

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

movement_list! { ($) products_list maps_list elementwise_list rows_list command_set ; }
