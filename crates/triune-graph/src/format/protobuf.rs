//! The protobuf wire format: a checked reader over borrowed bytes and an appending writer.
//!
//! It knows fields and wire types, no message of any format. Nothing but lists of numbers is copied while reading, and a
//! message's fields never lie outside the message, so that a file cannot ask for more than it holds.

use triune_tensor::memory;

use super::onnx::malformed;
use crate::Error;

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1, little-endian.
    Fixed64(u64),
    /// Wire type 2: a string, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Wire type 5, little-endian.
    Fixed32(u32),
}

impl<'a> Wire<'a> {
    /// A signed integer (`int32`, `int64`, `enum`).
    pub(crate) fn int(self) -> Result<i64, Error> {
        match self {
            Self::Varint(value) => Ok(value as i64),
            _ => Err(malformed("an integer field has another wire type")),
        }
    }

    /// A message, or bytes.
    pub(crate) fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(malformed("a string, bytes or message field has another wire type")),
        }
    }

    /// A string.
    pub(crate) fn text(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed("a string is not UTF-8"))
    }

    /// A `float`.
    pub(crate) fn float(self) -> Result<f32, Error> {
        match self {
            Self::Fixed32(bits) => Ok(f32::from_bits(bits)),
            _ => Err(malformed("a float field has another wire type")),
        }
    }

    /// Appends a repeated varint field, packed or not.
    pub(crate) fn append_varints(self, to: &mut Vec<u64>) -> Result<(), Error> {
        match self {
            Self::Varint(value) => {
                memory::grow(to, 1)?;
                to.push(value);
            }
            Self::Bytes(bytes) => {
                let mut reader = Reader::new(bytes);
                // The last byte of each number has no flag.
                memory::grow(to, bytes.iter().filter(|&&byte| byte & 0x80 == 0).count())?;
                while !reader.rest.is_empty() {
                    to.push(reader.varint()?);
                }
            }
            _ => return Err(malformed("a repeated integer field has another wire type")),
        }
        Ok(())
    }

    /// Appends the little-endian bytes of a repeated field of `N`-byte numbers, packed or not.
    pub(crate) fn append_fixed<const N: usize>(self, to: &mut Vec<u8>) -> Result<(), Error> {
        memory::grow(to, if let Self::Bytes(bytes) = self { bytes.len() } else { N })?;
        match (self, N) {
            (Self::Fixed32(value), 4) => to.extend_from_slice(&value.to_le_bytes()),
            (Self::Fixed64(value), 8) => to.extend_from_slice(&value.to_le_bytes()),
            (Self::Bytes(bytes), _) if bytes.len().is_multiple_of(N) => to.extend_from_slice(bytes),
            _ => return Err(malformed("a repeated float field has another wire type or a broken length")),
        }
        Ok(())
    }
}

/// Reads the fields of one message in file order.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads the message that `bytes` hold.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field's number and value, `None` at the end of the message.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = u32::try_from(key >> 3)
            .ok()
            .filter(|&field| field != 0)
            .ok_or_else(|| malformed(format!("field number {} is out of range", key >> 3)))?;
        let wire = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take_array()?)),
            2 => {
                let length = self.varint()?;
                let length =
                    usize::try_from(length).ok().filter(|&length| length <= self.rest.len()).ok_or_else(
                        || malformed(format!("a field of {length} bytes, but {} are left", self.rest.len())),
                    )?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.take_array()?)),
            other => return Err(malformed(format!("wire type {other} of field {field} is not supported"))),
        };
        Ok(Some((field, wire)))
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.take_array()?;
            // The tenth byte holds the 64th bit; what a sloppy encoder put above is dropped, as protobuf does.
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(malformed("a varint is longer than 10 bytes"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (head, tail) =
            self.rest.split_at_checked(length).ok_or_else(|| malformed("the file ends inside a field"))?;
        self.rest = tail;
        Ok(head)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }
}

/// Appends fields to one message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// The message's bytes.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// An integer or enum field.
    pub(crate) fn int(&mut self, field: u32, value: i64) {
        self.varint(u64::from(field) << 3);
        self.varint(value as u64);
    }

    /// A `float` field.
    pub(crate) fn float(&mut self, field: u32, value: f32) {
        self.varint(u64::from(field) << 3 | 5);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A string, bytes or finished message field.
    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// A message field that `fill` writes.
    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_round_trip() {
        let mut writer = Writer::default();
        writer.int(1, -3);
        writer.float(2, 0.5);
        writer.bytes(3, b"abc");
        writer.message(4, |inner| inner.int(5, 300));
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.next().unwrap(), Some((1, Wire::Varint((-3_i64) as u64))));
        assert_eq!(reader.next().unwrap(), Some((2, Wire::Fixed32(0.5_f32.to_bits()))));
        assert_eq!(reader.next().unwrap(), Some((3, Wire::Bytes(b"abc"))));
        let (field, wire) = reader.next().unwrap().unwrap();
        assert_eq!(field, 4);
        assert_eq!(Reader::new(wire.bytes().unwrap()).next().unwrap(), Some((5, Wire::Varint(300))));
        assert_eq!(reader.next().unwrap(), None);
    }

    #[test]
    fn broken_messages_are_errors() {
        for bytes in [
            &[0x0a, 0x05, 1][..], // 5 bytes announced, 1 there
            &[0x08],              // no value
            &[0x00, 0x00],        // field 0
            &[0x0b],              // group
            &[0x0d, 1, 2],        // half a fixed32
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], // 11-byte varint
        ] {
            assert!(Reader::new(bytes).next().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn packed_and_plain_repeated_fields_read_the_same() {
        let mut values = Vec::new();
        Wire::Varint(7).append_varints(&mut values).unwrap();
        Wire::Bytes(&[0x07, 0xac, 0x02]).append_varints(&mut values).unwrap();
        assert_eq!(values, [7, 7, 300]);
        let mut bytes = Vec::new();
        Wire::Fixed32(1).append_fixed::<4>(&mut bytes).unwrap();
        Wire::Bytes(&[2, 0, 0, 0]).append_fixed::<4>(&mut bytes).unwrap();
        assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0]);
        assert!(Wire::Bytes(&[2, 0, 0]).append_fixed::<4>(&mut bytes).is_err());
    }
}
