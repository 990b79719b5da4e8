//! Words to values and back: the trait that every field type has, and the walk over a stream.

use super::set::{Command, MAX_WORDS};
use crate::Error;

/// Words of a command's header: `opcode | flags << 16`, then the command's length in words, header included.
pub(super) const HEADER_WORDS: usize = 2;

/// A field that cannot be decoded: which, dotted, and why.
#[derive(Debug)]
pub(crate) struct FieldError {
    pub(crate) field: String,
    pub(crate) problem: String,
}

impl FieldError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { field: String::new(), problem: problem.into() }
    }

    /// Puts the enclosing field's name in front.
    pub(crate) fn within(mut self, name: &str) -> Self {
        self.field = if self.field.is_empty() { name.to_owned() } else { format!("{name}.{}", self.field) };
        self
    }
}

/// A type that has a fixed number of words in a command.
pub(super) trait Field: Sized {
    /// Words that a value takes.
    const WORDS: usize;
    /// The type's name in the documentation.
    fn type_name() -> String;
    /// Appends exactly [`Self::WORDS`] words.
    fn put(&self, words: &mut Vec<u32>);
    /// Reads exactly [`Self::WORDS`] words; `words` has that length.
    fn get(words: &[u32]) -> Result<Self, FieldError>;
    /// A random value that the encoding can tell apart from every other.
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self;
}

impl Field for u32 {
    const WORDS: usize = 1;
    fn type_name() -> String {
        "u32".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        words.push(*self);
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        Ok(words[0])
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        random() as Self
    }
}

impl Field for i32 {
    const WORDS: usize = 1;
    fn type_name() -> String {
        "i32".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        words.push(self.cast_unsigned());
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        Ok(words[0].cast_signed())
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        random() as Self
    }
}

impl Field for f32 {
    const WORDS: usize = 1;
    fn type_name() -> String {
        "f32".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        words.push(self.to_bits());
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        Ok(Self::from_bits(words[0]))
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        (random() as i32) as Self / 1024.0
    }
}

impl Field for u64 {
    const WORDS: usize = 2;
    fn type_name() -> String {
        "u64".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        words.extend([*self as u32, (*self >> 32) as u32]);
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        Ok(Self::from(words[0]) | Self::from(words[1]) << 32)
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        random()
    }
}

impl Field for bool {
    const WORDS: usize = 1;
    fn type_name() -> String {
        "bool".into()
    }
    fn put(&self, words: &mut Vec<u32>) {
        words.push(u32::from(*self));
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        match words[0] {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(FieldError::new(format!("{other} is neither 0 nor 1"))),
        }
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        random() & 1 == 1
    }
}

impl<T: Field, const N: usize> Field for [T; N] {
    const WORDS: usize = N * T::WORDS;
    fn type_name() -> String {
        format!("[{}; {N}]", T::type_name())
    }
    fn put(&self, words: &mut Vec<u32>) {
        for value in self {
            value.put(words);
        }
    }
    fn get(words: &[u32]) -> Result<Self, FieldError> {
        let mut values = Vec::with_capacity(N);
        for (index, chunk) in words.chunks_exact(T::WORDS).enumerate() {
            values.push(T::get(chunk).map_err(|error| error.within(&index.to_string()))?);
        }
        values.try_into().map_err(|_| FieldError::new("wrong number of words"))
    }
    #[cfg(test)]
    fn sample(random: &mut dyn FnMut() -> u64) -> Self {
        std::array::from_fn(|_| T::sample(random))
    }
}

/// The bytes of `commands`, one after the other, as they lie in device memory.
pub fn encode<'a, I>(commands: I) -> Vec<u8>
where
    I: IntoIterator<Item = &'a Command, IntoIter: Clone>,
{
    let commands = commands.into_iter();
    let length = 4 * commands.clone().map(Command::words).sum::<usize>();
    let (mut words, mut bytes) = (Vec::with_capacity(MAX_WORDS), Vec::with_capacity(length));
    for command in commands {
        words.clear();
        command.encode(&mut words);
        for word in &words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

/// Takes the words of the first command into `words`, as many as its header says and no more than any command has.
pub(super) fn load(stream: &[[u8; 4]], words: &mut Vec<u32>) {
    let length = stream.get(1).map_or(MAX_WORDS, |&length| u32::from_le_bytes(length) as usize);
    words.clear();
    words.extend(
        stream.iter().take(length.clamp(HEADER_WORDS, MAX_WORDS)).map(|&word| u32::from_le_bytes(word)),
    );
}

/// Walks over the bytes of a command stream, without copying it.
#[derive(Clone, Debug)]
pub(crate) struct CommandReader<'a> {
    bytes: &'a [u8],
    at: usize,
    started: usize,
    index: usize,
    ended: bool,
    words: Vec<u32>,
}

impl<'a> CommandReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, started: 0, index: 0, ended: false, words: Vec::with_capacity(MAX_WORDS) }
    }

    /// Byte offset of the command that was read last.
    pub(crate) fn command_offset(&self) -> u64 {
        self.started as u64
    }

    /// Bytes that have been read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Whether an `end` command has been read.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// The words of the next command as they lie in memory, for streams that have been read before; `None` behind the last
    /// byte.
    pub(crate) fn skip(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let (header, _) = rest.as_chunks::<4>();
        let length = 4 * u32::from_le_bytes(*header.get(1)?) as usize;
        let words = rest.get(..length)?;
        self.at += length;
        Some(words)
    }

    /// The next command; `None` behind an `end` command or the last byte.
    pub(crate) fn next(&mut self) -> Result<Option<Command>, Error> {
        let rest = &self.bytes[self.at..];
        if self.ended || rest.is_empty() {
            return Ok(None);
        }
        self.started = self.at;
        load(rest.as_chunks::<4>().0, &mut self.words);
        let (command, length) = Command::decode(&self.words).map_err(|(mnemonic, error)| Error::Command {
            index: self.index,
            offset: self.command_offset(),
            mnemonic,
            field: error.field,
            problem: error.problem,
        })?;
        self.at += 4 * length;
        self.index += 1;
        self.ended = matches!(command, Command::End(_));
        Ok(Some(command))
    }
}

/// Decodes a stream up to its `end` command or its last byte.
///
/// # Errors
/// [`Error::Command`] for a truncated or unknown command, a wrong length, set flags, or a field outside of its
/// type's values; no input panics or allocates more than some ten times its own size.
pub fn decode(bytes: &[u8]) -> Result<Vec<Command>, Error> {
    let mut reader = CommandReader::new(bytes);
    let mut commands = Vec::new();
    while let Some(command) = reader.next()? {
        commands.push(command);
    }
    Ok(commands)
}

/// The words after a header, which must be as long as the command is and have no flags.
pub(super) fn body(words: &[u32], tag: u32, length: usize, expected: usize) -> Result<&[u32], FieldError> {
    if length != expected {
        return Err(FieldError::new(format!("{length} words, the command has {expected}")).within("length"));
    }
    if tag >> 16 != 0 {
        return Err(FieldError::new(format!("{:#06x}: reserved flags are set", tag >> 16)).within("flags"));
    }
    words.get(HEADER_WORDS..expected).ok_or_else(|| {
        FieldError::new(format!("{expected} words, the stream has {} left", words.len())).within("length")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use triune_testing::Random;

    use super::*;
    use crate::command::Opcode;

    #[test]
    fn every_command_survives_encoding() {
        for seed in 0..200 {
            let mut seeded = Random(seed);
            let mut random = move || seeded.next();
            let mut commands: Vec<_> =
                Opcode::ALL.iter().rev().map(|&opcode| Command::sample(opcode, &mut random)).collect();
            assert_eq!(commands.len(), Opcode::ALL.len());
            let bytes = encode(&commands);
            assert_eq!(bytes.len(), 4 * commands.iter().map(Command::words).sum::<usize>());
            assert_eq!(decode(&bytes).as_deref(), Ok(commands.as_slice()));
            // What follows the end is not read.
            commands.truncate(3);
            let mut bytes = encode(&commands);
            bytes.extend(encode([&Command::End(crate::command::End {})]));
            bytes.extend([0xff; 64]);
            assert_eq!(decode(&bytes).map(|commands| commands.len()), Ok(4));
        }
    }

    #[test]
    fn errors_name_command_and_field() {
        let mut seeded = Random(7);
        let mut random = move || seeded.next();
        let pool = Command::sample(Opcode::Pool, &mut random);
        let bytes = encode([&pool, &pool]);
        let second = 4 * pool.words();
        let problem = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            match decode(&bytes) {
                Err(Error::Command { index, offset, mnemonic, field, .. }) => {
                    (index, offset, mnemonic, field)
                }
                other => panic!("{other:?}"),
            }
        };
        let at = second as u64;
        assert_eq!(problem(&|bytes| bytes[second] = 0xee), (1, at, "?", "opcode".to_owned()));
        assert_eq!(problem(&|bytes| bytes[second + 2] = 1), (1, at, "pool", "flags".to_owned()));
        assert_eq!(problem(&|bytes| bytes[second + 4] += 1), (1, at, "pool", "length".to_owned()));
        // Word 4 is the input's element type, behind its address.
        assert_eq!(problem(&|bytes| bytes[second + 16] = 99), (1, at, "pool", "input.dtype".to_owned()));
        assert_eq!(problem(&|bytes| bytes.truncate(second + 7)), (1, at, "?", "header".to_owned()));
        assert_eq!(problem(&|bytes| bytes.truncate(second + 20)), (1, at, "pool", "length".to_owned()));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn damaged_commands_never_panic(seed: u64, opcode in 0..Opcode::ALL.len(), at: usize, value: u8) {
            let mut seeded = Random(seed);
            let mut bytes = encode([&Command::sample(Opcode::ALL[opcode], &mut || seeded.next())]);
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(commands) = decode(&bytes) {
                prop_assert_eq!(encode(&commands), bytes);
            }
        }
    }
}
