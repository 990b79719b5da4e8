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
}

/// The bytes of `commands`, one after the other, as they lie in device memory.
pub fn encode<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Vec<u8> {
    let mut words = Vec::new();
    for command in commands {
        command.encode(&mut words);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Walks over the bytes of a command stream, without copying it.
#[derive(Debug)]
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

    /// The next command; `None` behind an `end` command or the last byte.
    pub(crate) fn next(&mut self) -> Result<Option<Command>, Error> {
        let rest = &self.bytes[self.at..];
        if self.ended || rest.is_empty() {
            return Ok(None);
        }
        self.started = self.at;
        self.words.clear();
        self.words
            .extend(rest.as_chunks::<4>().0.iter().take(MAX_WORDS).map(|&word| u32::from_le_bytes(word)));
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
