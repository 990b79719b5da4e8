//! A document's constants: from the RAW file beside it or by hand, and how large they are.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use bytes::Bytes;
use triune_files::{DATA_LIMIT, Input};

use super::{Document, ElementType, Scalar, TensorType, malformed, raw::raw_table};
use crate::Error;

impl Document {
    /// Reads the document at `path`, whose JSON text is `json`, with the RAW file that lies beside it under the same name.
    ///
    /// # Errors
    /// As [`Document::read`]; [`Error::Io`] when the RAW file cannot be read and the document has constants.
    pub fn read_beside(path: &Path, json: &[u8]) -> Result<Self, Error> {
        let mut document = Self::read(json, None)?;
        let path = path.with_extension("raw");
        let file = match Input::open(&path, DATA_LIMIT) {
            Ok(file) => file,
            Err(_) if document.params_bytes == 0 => return Ok(document),
            Err(error) => return Err(error.into()),
        };
        // Before it is read: another file may have any size.
        let attached = match document.check_size(file.size()) {
            Ok(()) => document.attach(&file.read()?.into()),
            Err(error) => Err(error),
        };
        attached
            .map_err(|source| Error::File { path: path.display().to_string(), source: Box::new(source) })?;
        Ok(document)
    }

    /// Gives the constant `v_id` its bytes.
    ///
    /// # Errors
    /// If there is no such constant, or it has another size.
    pub fn give(&mut self, v_id: i64, data: Bytes) -> Result<(), Error> {
        let constant = self.values.iter_mut().find(|value| value.v_id == v_id && value.params.is_some());
        let value = constant.ok_or_else(|| malformed(format!("no operation has a constant {v_id}")))?;
        if value.dtype.storage_bytes() != Some(data.len() as u64) {
            return Err(malformed(format!(
                "constant {v_id} is given {} bytes, not those of its type",
                data.len()
            )));
        }
        if let Some(params) = &mut value.params {
            params.data = Some(data);
        }
        Ok(())
    }

    fn check_size(&self, size: u64) -> Result<(), Error> {
        let expected = self.params_bytes;
        if size == expected {
            return Ok(());
        }
        Err(malformed(format!("RAW file: it has {size} bytes, params_bytes says {expected}")))
    }

    /// Gives the constants their bytes, which stay shared with `raw`.
    ///
    /// # Errors
    /// A file that is not of this document: another size than `params_bytes`, constants that it doesn't have or of another
    /// size, or constants of the document that the file doesn't have and that may not do without.
    pub fn attach(&mut self, raw: &Bytes) -> Result<(), Error> {
        self.check_size(raw.len() as u64)?;
        let table: HashMap<i64, _> =
            raw_table(raw)?.into_iter().map(|entry| (i64::from(entry.v_id), entry)).collect();
        let mut used = 0;
        for value in &mut self.values {
            let Some(params) = &mut value.params else { continue };
            let Some(entry) = table.get(&value.v_id) else {
                if params.allow_no_data {
                    continue;
                }
                return Err(malformed(format!("RAW file: it has no data of constant {}", value.v_id)));
            };
            let bytes = value
                .dtype
                .storage_bytes()
                .ok_or_else(|| malformed(format!("constant {}: its extents have no size", value.v_id)))?;
            if bytes != 0 && bytes != entry.length {
                let reason =
                    format!("constant {} has {} bytes, its type has {bytes}", value.v_id, entry.length);
                return Err(malformed(format!("RAW file: {reason}")));
            }
            let start = entry.offset as usize;
            params.data = Some(raw.slice(start..start + bytes as usize));
            used += 1;
        }
        if used != table.len() {
            let known: HashSet<i64> =
                self.values.iter().filter(|value| value.params.is_some()).map(|value| value.v_id).collect();
            let mut strangers: Vec<_> = table.keys().filter(|v_id| !known.contains(v_id)).collect();
            strangers.sort_unstable();
            let first = strangers.first().map_or_else(String::new, ToString::to_string);
            return Err(malformed(format!("RAW file: no operation has its constant {first}")));
        }
        Ok(())
    }
}

impl TensorType {
    /// The number of stored elements; `None` when an extent is not known or the product is out of range.
    pub fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |product, &extent| product.checked_mul(u64::try_from(extent).ok()?))
    }

    /// The bytes that the elements take; `None` as [`TensorType::elements`].
    pub fn storage_bytes(&self) -> Option<u64> {
        self.elements()?.checked_mul(self.element.storage().bytes())
    }
}

impl ElementType {
    /// What one element is stored as.
    pub fn storage(&self) -> Scalar {
        match self {
            Self::Scalar(scalar) => *scalar,
            // A range has been seen, the numbers are still what they were.
            Self::Calibrated { expressed, .. } => *expressed,
            Self::Normalized { storage, .. }
            | Self::Quantized { storage, .. }
            | Self::NormalizedQuantized { storage, .. } => *storage,
        }
    }
}

impl Scalar {
    /// The bits of one element.
    pub fn bits(self) -> u16 {
        match self {
            Self::Float(bits)
            | Self::BFloat(bits)
            | Self::TFloat(bits)
            | Self::Split { bits, .. }
            | Self::Signed(bits)
            | Self::Unsigned(bits) => bits,
            Self::Bool => 8,
        }
    }

    /// The bytes that one element takes: its bits in whole bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.bits().div_ceil(8))
    }
}
