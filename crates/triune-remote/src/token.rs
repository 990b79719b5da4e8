//! The secret that a server can ask for.

use std::{fmt, path::Path};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use triune_device::Error;
use triune_files::read_secret;

/// Bytes that a token has at least, and at most.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=1024;

/// A secret that client and server know. It never appears in messages or debug output.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// The environment variable that holds a token where no file is named.
    pub const VARIABLE: &'static str = "TRIUNE_TOKEN";

    /// A token of 16 to 1024 bytes; white space around it is not part of it.
    ///
    /// # Errors
    /// [`Error::Link`] for another length.
    pub fn new(text: &[u8]) -> Result<Self, Error> {
        let text = text.trim_ascii();
        if LENGTHS.contains(&text.len()) {
            Ok(Self(text.to_vec()))
        } else {
            Err(crate::link(format!(
                "a token has {} to {} bytes, this one has {}",
                LENGTHS.start(),
                LENGTHS.end(),
                text.len()
            )))
        }
    }

    /// The token in a file, which only its owner may read and write.
    ///
    /// # Errors
    /// [`Error::Link`] names the file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        // White space around it takes some, too.
        let text =
            read_secret(path, 2 * *LENGTHS.end() as u64).map_err(|error| crate::link(error.to_string()))?;
        Self::new(&text).map_err(|error| crate::link(format!("{}: {error}", path.display())))
    }

    /// The token in [`Self::VARIABLE`], if that is set.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_environment() -> Result<Option<Self>, Error> {
        std::env::var_os(Self::VARIABLE).map(|text| Self::new(text.as_encoded_bytes())).transpose()
    }

    /// Its bytes, for the wire.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is `other`. The time that this takes says nothing about either.
    pub(crate) fn is(&self, other: &[u8]) -> bool {
        // Digests have one length, whatever was sent.
        Sha256::digest(&self.0).ct_eq(&Sha256::digest(other)).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn tokens_are_compared_whole() {
        let token = Token::new(b"  0123456789abcdef\n").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        assert!(!token.is(b"0123456789abcdeg"));
        assert!(!token.is(b"0123456789abcde"));
        assert!(!token.is(b""));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn short_and_long_ones_are_refused() {
        assert!(Token::new(b"short").is_err());
        assert!(Token::new(&[b'a'; 1025]).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"0123456789abcdef\n").unwrap();
        assert!(Token::read(file.path()).is_ok());
        fs::write(file.path(), [b'a'; 4096]).unwrap();
        let error = Token::read(file.path()).unwrap_err().to_string();
        assert!(
            error.contains("more than the 2048") && error.contains(file.path().to_str().unwrap()),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        assert!(!Token::read(folder.path()).unwrap_err().to_string().contains("token has"));
        assert!(Token::read(Path::new("/dev/zero")).unwrap_err().to_string().contains("it is a device"));
        assert!(Token::read(Path::new("/nowhere")).unwrap_err().to_string().contains("/nowhere"));
    }
}
