//! Commands as a list that takes as few bytes as their encoding.

use std::fmt;

use super::{
    Command,
    codec::{CommandReader, load},
};
use crate::Error;

/// Commands one behind the other, as they lie in device memory.
///
/// A [`Command`] has room for the longest one; most are encoded in a third of that.
#[derive(Clone, Default)]
pub struct CommandBuffer {
    /// Nothing but whole commands.
    bytes: Vec<u8>,
    count: usize,
    /// The words of one command, while it is encoded.
    words: Vec<u32>,
}

impl CommandBuffer {
    /// The commands of a stream up to its `end` command, which is one of them, or to its last byte.
    ///
    /// # Errors
    /// As [`decode`](super::decode).
    pub fn read(stream: &[u8]) -> Result<Self, Error> {
        let mut reader = CommandReader::new(stream);
        let mut count = 0;
        while reader.next()?.is_some() {
            count += 1;
        }
        Ok(Self { bytes: stream[..reader.position()].to_vec(), count, words: Vec::new() })
    }

    /// Appends a command.
    pub fn push(&mut self, command: &Command) {
        self.words.clear();
        command.encode(&mut self.words);
        self.bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        self.count += 1;
    }

    /// How many commands there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The commands in order.
    pub fn iter(&self) -> Commands<'_> {
        Commands::new(&self.bytes, self.count)
    }

    /// Calls `f` on each command in order, which may give its fields other values; it stays the command that it is.
    ///
    /// # Panics
    /// When `f` makes another command of one.
    pub fn change(&mut self, mut f: impl FnMut(&mut Command)) {
        let (mut rest, _) = self.bytes.as_chunks_mut::<4>();
        loop {
            load(rest, &mut self.words);
            let Ok((mut command, length)) = Command::decode(&self.words) else { break };
            let before = command.opcode();
            f(&mut command);
            assert_eq!(command.opcode(), before, "a command stays what it is");
            self.words.clear();
            command.encode(&mut self.words);
            let (own, after) = rest.split_at_mut(length);
            for (bytes, word) in own.iter_mut().zip(&self.words) {
                *bytes = word.to_le_bytes();
            }
            rest = after;
        }
    }

    /// The encoded commands.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The encoded commands.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.shrink_to_fit();
        self.bytes
    }
}

impl fmt::Debug for CommandBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a CommandBuffer {
    type Item = Command;
    type IntoIter = Commands<'a>;

    fn into_iter(self) -> Commands<'a> {
        self.iter()
    }
}

impl<'a> FromIterator<&'a Command> for CommandBuffer {
    fn from_iter<I: IntoIterator<Item = &'a Command>>(commands: I) -> Self {
        let mut buffer = Self::default();
        commands.into_iter().for_each(|command| buffer.push(command));
        buffer
    }
}

/// The commands of a stream that was read before, decoded one by one.
#[derive(Clone, Debug)]
pub struct Commands<'a> {
    reader: CommandReader<'a>,
    left: usize,
}

impl<'a> Commands<'a> {
    /// The first `count` commands of `stream`.
    pub(crate) fn new(stream: &'a [u8], count: usize) -> Self {
        Self { reader: CommandReader::new(stream), left: count }
    }
}

impl Iterator for Commands<'_> {
    type Item = Command;

    fn next(&mut self) -> Option<Command> {
        self.left = self.left.checked_sub(1)?;
        self.reader.next().ok().flatten()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Commands<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Addr, End, Fill, decode, encode};

    fn fill(offset: u64) -> Command {
        let (dims, dst_strides) = ([1, 1, 1, 1, 1, 4], [0, 0, 0, 0, 0, 4]);
        Command::Fill(Fill { elem_bytes: 4, dims, dst: Addr::new(2, offset), dst_strides, value: 7 })
    }

    #[test]
    fn commands_are_kept_and_changed_in_place() {
        let list = [fill(0), fill(64), Command::End(End {})];
        let mut buffer: CommandBuffer = list.iter().collect();
        assert_eq!((buffer.len(), buffer.is_empty()), (3, false));
        assert_eq!(buffer.as_bytes(), encode(&list));
        assert_eq!(buffer.iter().len(), 3);
        assert!(buffer.iter().eq(list));
        let mut next = 0;
        buffer.change(|command| {
            command.addresses(&mut |_, _, addr| *addr = Addr::new(3, addr.offset() + 1 + next));
            next += 1;
        });
        let offsets: Vec<Addr> = buffer
            .iter()
            .filter_map(|command| if let Command::Fill(fill) = command { Some(fill.dst) } else { None })
            .collect();
        assert_eq!(offsets, [Addr::new(3, 1), Addr::new(3, 66)]);
        assert_eq!(decode(buffer.as_bytes()).map(|list| list.len()), Ok(3));
    }

    #[test]
    fn a_stream_is_read_up_to_its_end() {
        let list = [fill(8), Command::End(End {})];
        let mut stream = encode(&list);
        stream.extend([0xFF; 12]);
        let buffer = CommandBuffer::read(&stream).expect("a stream");
        assert!(buffer.iter().eq(list));
        assert_eq!(buffer.into_bytes(), stream[..stream.len() - 12]);
        assert!(CommandBuffer::read(&stream[1..]).is_err());
        assert_eq!(CommandBuffer::read(&[]).map(|buffer| buffer.is_empty()), Ok(true));
    }

    #[test]
    #[should_panic(expected = "a command stays what it is")]
    fn a_command_does_not_become_another() {
        let mut buffer: CommandBuffer = [fill(0)].iter().collect();
        buffer.change(|command| *command = Command::End(End {}));
    }
}
