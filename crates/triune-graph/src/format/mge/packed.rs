//! Packed models: one model with a header, a description as JSON and a fast-run cache, each perhaps encrypted.
//!
//! Twelve bytes of ASCII and a FlatBuffer without identifier. Slot numbers are those of upstream's `pack_model.fbs`.

use bytes::Bytes;

use super::malformed;
use crate::{
    Error,
    format::flatbuffer::{self, Buffer, TableBuilder, Wrong},
};

const MAGIC: &[u8; 12] = b"packed_model";

/// The contents of a packed file, nothing decrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// The model's name, which its description repeats.
    pub name: String,
    /// The cipher of the description; empty or `NONE` for none.
    pub info_decryption: String,
    /// How the description is to be read; `LITE_default` is JSON.
    pub info_parser: String,
    /// The cipher of the model; empty or `NONE` for none.
    pub model_decryption: String,
    /// How the cache is to be read.
    pub cache_parser: String,
    /// Whether the cache holds chosen algorithms.
    pub is_fast_run_cache: bool,
    /// The description.
    pub info: Bytes,
    /// The description of the cache.
    pub algo_policy: Bytes,
    /// The cache.
    pub binary_cache: Bytes,
    /// The model file.
    pub model: Bytes,
}

/// Whether `bytes` begin like a packed file.
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads a packed file; the parts share its buffer.
pub fn read(bytes: impl Into<Bytes>) -> Result<Packed, Error> {
    let bytes = bytes.into();
    if !is_packed(&bytes) {
        return Err(malformed("invalid model format: not a packed model"));
    }
    let body = bytes.slice(MAGIC.len()..);
    parse(&body).map_err(|reason| malformed(format!("packed model: {reason}")))
}

fn parse(body: &Bytes) -> Result<Packed, Wrong> {
    let buffer = Buffer::new(body);
    let models = buffer.root(0)?.tables(0)?;
    let [model] = models.as_slice() else { return Err(format!("{} models; 1 is expected", models.len())) };
    let mut packed = Packed::default();
    let header = model.table(0)?.ok_or("the header is missing")?;
    packed.name = header.text(0)?.unwrap_or_default();
    packed.info_decryption = header.text(1)?.unwrap_or_default();
    packed.info_parser = header.text(2)?.unwrap_or_default();
    packed.model_decryption = header.text(3)?.unwrap_or_default();
    packed.cache_parser = header.text(4)?.unwrap_or_default();
    packed.is_fast_run_cache = header.bool(5, false)?;
    let part = |table: &flatbuffer::Table<'_>, slot: usize| -> Result<Bytes, Wrong> {
        Ok(table.blob(slot)?.map_or_else(Bytes::new, |(first, length)| body.slice(first..first + length)))
    };
    if let Some(info) = model.table(1)? {
        packed.info = part(&info, 0)?;
        packed.algo_policy = part(&info, 1)?;
        packed.binary_cache = part(&info, 2)?;
    }
    packed.model = part(&model.table(2)?.ok_or("the model is missing")?, 0)?;
    Ok(packed)
}

/// The bytes of a packed file.
pub fn write(packed: &Packed) -> Vec<u8> {
    let header = TableBuilder::default()
        .text(0, &packed.name)
        .text(1, &packed.info_decryption)
        .text(2, &packed.info_parser)
        .text(3, &packed.model_decryption)
        .text(4, &packed.cache_parser)
        .u8(5, u8::from(packed.is_fast_run_cache));
    let mut info = TableBuilder::default();
    for (slot, part) in [&packed.info, &packed.algo_policy, &packed.binary_cache].into_iter().enumerate() {
        if !part.is_empty() {
            info = info.bytes(slot, part, 1);
        }
    }
    let data = TableBuilder::default().bytes(0, &packed.model, 16);
    let model = TableBuilder::default().table(0, header).table(1, info).table(2, data);
    let mut body = Vec::new();
    flatbuffer::write(&mut body, b"", TableBuilder::default().tables(0, [model]));
    [&MAGIC[..], &body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::kind::Kind;

    #[test]
    fn what_is_packed_is_unpacked() {
        let packed = Packed {
            name: "net".into(),
            info_decryption: "NONE".into(),
            info_parser: "LITE_default".into(),
            model_decryption: "RC4_default".into(),
            cache_parser: "LITE_parse_cache".into(),
            is_fast_run_cache: true,
            info: Bytes::from_static(b"{}"),
            algo_policy: Bytes::new(),
            binary_cache: Bytes::from_static(b"cache"),
            model: Bytes::from_static(b"model"),
        };
        let bytes = write(&packed);
        assert!(is_packed(&bytes) && !matches!(Kind::of(&bytes), Kind::MegEngine(_)));
        assert_eq!(read(bytes).unwrap(), packed);
        assert!(read(&b"packed_modelxxxx"[..]).is_err());
    }
}
