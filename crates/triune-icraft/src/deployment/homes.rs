//! Which feature map of a program's plan each value lies in. Documents say where values lie, plans when.

use std::{collections::HashMap, ops::Range};

use triune_device::command;

use crate::{
    Error,
    load::{HardNetwork, Place, Step},
};
use triune_compiler::{PlannedBuffer, Program};

/// What a value lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Home {
    /// A feature map of the plan.
    Map(usize),
    /// An input or output of the program.
    Edge(u16),
    /// The constants.
    Constants,
}

/// Where a value lies: in what, and how many bytes from its beginning.
pub(super) type Homes = HashMap<i64, (Home, u64)>;

/// Commands of each operator, by their index in the stream.
pub(super) fn windows(network: &HardNetwork) -> Result<Vec<Range<usize>>, Error> {
    let commands = command::decode(&network.program.instructions)?;
    let mut ends = HashMap::from([(0, 0)]);
    let mut at = 0;
    for (command, index) in commands.iter().zip(1..) {
        at += 4 * command.words() as u64;
        ends.insert(at, index);
    }
    let windows = network.steps.iter().map(|step| {
        let [first, bytes] = step.bytes;
        Some(*ends.get(&first)?..*ends.get(&first.checked_add(bytes)?)?)
    });
    windows
        .collect::<Option<_>>()
        .ok_or_else(|| Error::program("an operator's commands are not among the program's"))
}

/// Finds what every value lies in.
pub(super) fn homes(network: &HardNetwork, windows: &[Range<usize>]) -> Result<Homes, Error> {
    let mut homes = Homes::new();
    let mut left = Vec::new();
    for (step, window) in network.steps.iter().zip(windows) {
        let mut note = |v_id: i64, written: bool| -> Result<bool, Error> {
            if homes.contains_key(&v_id) {
                return Ok(true);
            }
            let place = network.values.get(&v_id).ok_or_else(|| lost(v_id))?;
            let found = if network.vendor.is_some() {
                outlined(&network.program, place, window)
            } else {
                home(&network.program, place, window, written)
            };
            Ok(found.map(|found| homes.insert(v_id, found)).is_some())
        };
        for &v_id in &step.inputs {
            if !note(v_id, false)? {
                left.push((v_id, step));
            }
        }
        for &v_id in &step.outputs {
            if !note(v_id, true)? {
                left.push((v_id, step));
            }
        }
    }
    // What an operator without commands makes lies in what it reads.
    while !left.is_empty() {
        let before = left.len();
        left.retain(|&(v_id, step)| {
            let found = homes.get(&v_id).copied().or_else(|| shared(network, &homes, v_id, step));
            found.map(|found| homes.insert(v_id, found)).is_none()
        });
        if left.len() == before {
            return Err(lost(left[0].0));
        }
    }
    Ok(homes)
}

fn lost(v_id: i64) -> Error {
    Error::program(format!("value {v_id} lies in nothing that the memory plan has"))
}

/// What a value lies in that an operator with commands reads or writes.
fn home(program: &Program, place: &Place, window: &Range<usize>, written: bool) -> Option<(Home, u64)> {
    match place.segment {
        Program::CONSTANTS => return Some((Home::Constants, place.offset)),
        Program::SCRATCH | Program::RESIDENT => {}
        segment => return Some((Home::Edge(segment), place.offset)),
    }
    if window.is_empty() {
        return None;
    }
    let alive =
        |buffer: &PlannedBuffer, at: usize| (buffer.first as usize..buffer.last as usize).contains(&at);
    let holding = || program.buffers.iter().enumerate().filter(|(_, buffer)| holds(buffer, place));
    let found = if written {
        let last = holding().find(|(_, buffer)| alive(buffer, window.end - 1));
        // One that nobody reads may end before the operator does.
        last.or_else(|| {
            let met = |buffer: &PlannedBuffer| {
                (buffer.first as usize) < window.end && buffer.last as usize > window.start
            };
            holding().filter(|(_, buffer)| met(buffer)).max_by_key(|(_, buffer)| buffer.last)
        })
    } else {
        holding().find(|(_, buffer)| (buffer.first as usize) < window.start && alive(buffer, window.start))
    };
    found.map(|(index, buffer)| (Home::Map(index), place.offset - buffer.offset))
}

/// What a value of an outline lies in: all values of an operator are alive at its commands, or where they would be.
fn outlined(program: &Program, place: &Place, window: &Range<usize>) -> Option<(Home, u64)> {
    let window = window.start..window.end.max(window.start + 1);
    let met =
        |buffer: &PlannedBuffer| (buffer.first as usize) < window.end && buffer.last as usize > window.start;
    let mut found = program.buffers.iter().enumerate();
    let (index, buffer) = found.find(|(_, buffer)| holds(buffer, place) && met(buffer))?;
    Some((Home::Map(index), place.offset - buffer.offset))
}

/// Whether a value lies within the bytes of a feature map.
fn holds(buffer: &PlannedBuffer, place: &Place) -> bool {
    let end = place.span().and_then(|span| place.offset.checked_add(span));
    let within = end.zip(buffer.offset.checked_add(buffer.bytes));
    buffer.segment == place.segment
        && place.offset >= buffer.offset
        && within.is_some_and(|(end, last)| end <= last)
}

/// The feature map of another operand that holds a value's bytes.
fn shared(network: &HardNetwork, homes: &Homes, v_id: i64, step: &Step) -> Option<(Home, u64)> {
    let place = network.values.get(&v_id)?;
    step.inputs.iter().chain(&step.outputs).find_map(|other| {
        let (home, _) = *homes.get(other)?;
        let Home::Map(index) = home else { return None };
        let buffer = network.program.buffers.get(index)?;
        holds(buffer, place).then(|| (home, place.offset - buffer.offset))
    })
}
