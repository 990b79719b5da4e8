//! Lifespans in order of time.

use crate::Buffer;

/// The beginning or the end of a buffer's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) step: u64,
    pub(crate) starts: bool,
    /// The buffer.
    pub(crate) index: usize,
}

/// Beginnings and ends of the buffers that are kept, in order of time. Ends come before beginnings of the same step:
/// lifespans are half open. Those of one step and kind come in the buffers' order.
pub(crate) fn events(buffers: &[Buffer], keep: impl Fn(&Buffer) -> bool) -> Vec<Event> {
    let kept = || buffers.iter().enumerate().filter(|(_, buffer)| keep(buffer));
    let mut events = Vec::with_capacity(2 * buffers.len());
    events.extend(kept().map(|(index, buffer)| Event { step: buffer.lower, starts: true, index }));
    events.extend(kept().map(|(index, buffer)| Event { step: buffer.upper, starts: false, index }));
    // Plans have their buffers by their beginnings: what is in order already costs this sort one look.
    events.sort_by_key(|event| (event.step, event.starts));
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_before_beginnings() {
        let buffer = |lower, upper, size| Buffer { lower, upper, size, alignment: 1 };
        let buffers = [buffer(2, 3, 1), buffer(0, 2, 1), buffer(1, 2, 0), buffer(0, 3, 1)];
        let found = events(&buffers, |buffer| buffer.size > 0);
        let found: Vec<_> =
            found.into_iter().map(|Event { step, starts, index }| (step, starts, index)).collect();
        let expected =
            [(0, true, 1), (0, true, 3), (2, false, 1), (2, true, 0), (3, false, 0), (3, false, 3)];
        assert_eq!(found, expected);
    }
}
