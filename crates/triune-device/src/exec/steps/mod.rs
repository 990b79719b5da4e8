//! One adapter per command: operands checked against the command's rules, kernel made.

mod conv;

use super::{
    check::{Checker, Result, bad},
    operands::Prepared,
};
use crate::Command;

/// Checks a command and makes it ready to run.
pub(super) fn prepare(checker: &Checker<'_>, command: &Command) -> Result<Prepared> {
    match command {
        Command::QConv(command) => conv::qconv(checker, command),
        other => bad("opcode", format!("{} cannot be executed", other.opcode().mnemonic())),
    }
}
