//! Reading payloads field by field; every length is checked against what is there.

use super::{FrameError, Kind};

/// What is left of a payload.
#[derive(Debug)]
pub struct Fields<'a> {
    kind: Kind,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of a payload.
    pub fn new(kind: Kind, payload: &'a [u8]) -> Self {
        Self { kind, rest: payload }
    }

    /// The error that says what is wrong with the payload.
    pub fn fail(&self, problem: impl Into<String>) -> FrameError {
        FrameError::Payload { kind: self.kind, problem: problem.into() }
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            self.fail(format!("{count} bytes are to follow, there are {}", self.rest.len()))
        })?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    /// The next byte.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn u8(&mut self) -> Result<u8, FrameError> {
        self.array().map(u8::from_le_bytes)
    }

    /// A byte that is 0 or 1.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn flag(&mut self) -> Result<bool, FrameError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.fail(format!("{other} is neither 0 nor 1"))),
        }
    }

    /// The next 4 bytes.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn u32(&mut self) -> Result<u32, FrameError> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next 8 bytes.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn u64(&mut self) -> Result<u64, FrameError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text: 4 bytes of length, UTF-8.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn text(&mut self) -> Result<String, FrameError> {
        let length = self.u32()? as usize;
        let bytes = self.bytes(length)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|error| self.fail(format!("a text: {error}")))
    }

    /// A list: 4 bytes of count, then its items, of at least `least` bytes each.
    ///
    /// # Errors
    /// [`FrameError::Payload`]; a count that cannot be is found before anything is allocated.
    pub fn list<T>(
        &mut self,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, FrameError>,
    ) -> Result<Vec<T>, FrameError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() / least.max(1) {
            return Err(self.fail(format!("{count} items are to follow in {} bytes", self.rest.len())));
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Asserts that nothing is left.
    ///
    /// # Errors
    /// [`FrameError::Payload`].
    pub fn end(&self) -> Result<(), FrameError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.fail(format!("{} bytes too many", self.rest.len())))
        }
    }
}

/// Writing of fields.
pub(super) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_u64s(&mut self, values: &[u64]);
    fn put_text(&mut self, text: &str);
}

/// Bytes of a text at most; longer ones are cut.
const MAX_TEXT: usize = 1 << 14;

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64s(&mut self, values: &[u64]) {
        for value in values {
            self.put_u64(*value);
        }
    }

    fn put_text(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(MAX_TEXT)];
        self.put_u32(text.len() as u32);
        self.extend_from_slice(text.as_bytes());
    }
}
