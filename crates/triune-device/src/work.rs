//! How much work a run may be, and whether it is to go on.
//!
//! Strides of 0 let a command of a few bytes go through as many elements as its extents can say, for days. What a run
//! takes is known from its commands' extents, so one that takes more than the limit is refused before it begins.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use triune_kernels::cancel;

use crate::{Command, Error, timing};

/// Operations that a run may take where nobody sets another limit: some minutes of products, or hours of anything else, on
/// a machine of today; a thousand times what the largest networks for these devices take for an image.
pub const DEFAULT_LIMIT: u64 = 10_000_000_000_000;

/// The environment variable that sets the limit: a number of operations, or `none`.
pub const VARIABLE: &str = "TRIUNE_WORK_LIMIT";

/// What the program set; 0: nothing.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Sets how many operations (see [`operations`]) a run of a program may take in this process from now on, for programs that
/// are made ready later: `u64::MAX` for no limit, 0 for what [`VARIABLE`] says, or else [`DEFAULT_LIMIT`].
///
/// ```
/// triune_device::work::set_limit(1_000_000);
/// assert_eq!(triune_device::work::limit(), Ok(1_000_000));
/// # triune_device::work::set_limit(0);
/// ```
pub fn set_limit(operations: u64) {
    LIMIT.store(operations, Relaxed);
}

/// How many operations a run may take.
///
/// # Errors
/// [`Error::WorkLimit`] if the environment sets what is no limit.
pub fn limit() -> Result<u64, Error> {
    match LIMIT.load(Relaxed) {
        0 => std::env::var_os(VARIABLE).map_or(Ok(DEFAULT_LIMIT), |value| parse(&value.to_string_lossy())),
        limit => Ok(limit),
    }
}

fn parse(value: &str) -> Result<u64, Error> {
    match value.trim() {
        "" => Ok(DEFAULT_LIMIT),
        "none" => Ok(u64::MAX),
        number => match number.replace('_', "").parse() {
            Ok(limit @ 1..) => Ok(limit),
            _ => Err(Error::WorkLimit { value: value.to_owned() }),
        },
    }
}

/// What a command takes: multiply-accumulates or comparisons, or the elements that it goes through where those are more.
/// Saturates.
pub fn operations(command: &Command) -> u64 {
    timing::operations(command)
}

/// What the commands of a run take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    total: u64,
    /// The largest one: position, name, operations.
    largest: (usize, &'static str, u64),
}

impl Tally {
    /// Adds a command.
    pub(crate) fn add(&mut self, index: usize, command: &Command) {
        let work = operations(command);
        self.merge(Self { total: work, largest: (index, command.opcode().mnemonic(), work) });
    }

    /// Adds another stream's.
    pub(crate) fn merge(&mut self, other: Self) {
        self.total = self.total.saturating_add(other.total);
        if other.largest.2 > self.largest.2 {
            self.largest = other.largest;
        }
    }

    /// Refuses what is more than the limit.
    pub(crate) fn check(&self, limit: u64) -> Result<(), Error> {
        if self.total <= limit { Ok(()) } else { Err(self.refused(limit)) }
    }

    /// What is said where it is more.
    pub(crate) fn refused(&self, limit: u64) -> Error {
        let (index, mnemonic, work) = self.largest;
        Error::TooMuchWork { index, mnemonic, work, total: self.total, limit }
    }
}

/// Whether the work that this thread does goes on.
///
/// # Errors
/// [`Error::Cancelled`] when somebody has stopped it.
pub fn go_on() -> Result<(), Error> {
    if cancel::requested() { Err(Error::Cancelled) } else { Ok(()) }
}

impl From<cancel::NoLock> for Error {
    fn from(no: cancel::NoLock) -> Self {
        match no {
            cancel::NoLock::Cancelled => Self::Cancelled,
            cancel::NoLock::Forked(forked) => Self::Forked(forked),
            cancel::NoLock::Reentered => {
                Self::Board("it is in the middle of a run, which this call interrupts".into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Addr,
        command::{Fill, Opcode},
    };

    #[test]
    fn limits_are_numbers_or_none() {
        assert_eq!(parse(""), Ok(DEFAULT_LIMIT));
        assert_eq!(parse("none"), Ok(u64::MAX));
        assert_eq!(parse(" 20_000 "), Ok(20_000));
        for wrong in ["0", "-1", "many", "1e3"] {
            let error = parse(wrong).expect_err(wrong).to_string();
            assert!(error.contains(VARIABLE) && error.contains(wrong) && error.contains("none"), "{error}");
        }
    }

    #[test]
    fn what_is_too_much_is_named() {
        let fill = |rows| {
            Command::from(Fill {
                elem_bytes: 1,
                dims: [1, 1, 1, 1, rows, 64],
                dst: Addr::new(1, 0),
                dst_strides: [0, 0, 0, 0, 64, 1],
                value: 7,
            })
        };
        let mut tally = Tally::default();
        tally.add(0, &fill(2));
        tally.add(1, &fill(10));
        assert!(tally.check(768).is_ok());
        let error = tally.check(767).expect_err("one too many").to_string();
        for word in ["command 1", Opcode::Fill.mnemonic(), "640", "768", "767", VARIABLE] {
            assert!(error.contains(word), "{word}: {error}");
        }
        tally.merge(Tally { total: u64::MAX, largest: (7, "reduce", u64::MAX) });
        assert!(tally.check(u64::MAX).is_ok(), "what saturates is not more than no limit");
        assert!(tally.check(u64::MAX - 1).expect_err("absurd").to_string().contains("command 7 (reduce)"));
    }
}
