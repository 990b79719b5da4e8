//! The ciphers that model files come encrypted with. They keep honest people honest: the default keys are public.
//!
//! What a cipher's file holds beside the encrypted bytes is written in its own file. None of them tells a wrong key
//! from damage; only the fast form of RC4 has a checksum.

mod aes;
mod rc4;

use crate::Error;

/// The ciphers' names.
pub const NAMES: [&str; 3] = ["AES_default", "RC4_default", "SIMPLE_FAST_RC4_default"];

/// Why bytes do not decrypt.
enum Refusal {
    /// They do not have the cipher's form.
    Form(&'static str),
    /// They have, but not under this key; or they are damaged, which looks the same.
    Key(&'static str),
}

impl From<&'static str> for Refusal {
    fn from(reason: &'static str) -> Self {
        Self::Form(reason)
    }
}

/// The key that upstream uses unless the caller gives one; `None` for a name that is no cipher's.
pub fn default_key(name: &str) -> Option<&'static [u8]> {
    match name {
        "AES_default" => Some(&aes::DEFAULT_KEY),
        "RC4_default" | "SIMPLE_FAST_RC4_default" => Some(&rc4::DEFAULT_KEY),
        _ => None,
    }
}

/// The bytes that `data` was made of by the cipher called `name`.
///
/// AES takes the first 32 bytes of the key, the others the first 16; a shorter key is an error. RC4 leaves up to seven
/// zeros behind the plain bytes, since the file does not tell their number; readers of models ignore them.
pub fn decrypt(name: &str, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Error> {
    let plain = match name {
        "AES_default" => aes::decrypt(head(name, key)?, data),
        "RC4_default" => rc4::decrypt(head(name, key)?, data),
        "SIMPLE_FAST_RC4_default" => rc4::decrypt_fast(head(name, key)?, data),
        _ => return Err(unknown(name)),
    };
    plain.map_err(|refusal| match refusal {
        Refusal::Form(reason) => Error::Cipher { cipher: name.into(), reason: reason.into() },
        Refusal::Key(reason) => Error::Key { cipher: name.into(), reason: reason.into() },
    })
}

/// Bytes that [`decrypt`] with the same key turns into `data` again.
///
/// Equal data and keys give equal bytes, so that builds stay reproducible.
pub fn encrypt(name: &str, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Error> {
    match name {
        "AES_default" => Ok(aes::encrypt(head(name, key)?, data)),
        "RC4_default" => Ok(rc4::encrypt(head(name, key)?, data)),
        "SIMPLE_FAST_RC4_default" => Ok(rc4::encrypt_fast(head(name, key)?, data)),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Error {
    let reason = format!("the decryption method {name} is not registered; built in are {}", NAMES.join(", "));
    Error::Cipher { cipher: name.into(), reason }
}

/// The part of the key that the cipher takes.
fn head<'k, const N: usize>(name: &str, key: &'k [u8]) -> Result<&'k [u8; N], Error> {
    key.first_chunk().ok_or_else(|| Error::Cipher {
        cipher: name.into(),
        reason: format!("the key has {} bytes; {N} are needed", key.len()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_encrypted_is_decrypted(
            data in prop::collection::vec(any::<u8>(), 0..200),
            key in prop::array::uniform32(any::<u8>()),
        ) {
            for name in NAMES {
                let secret = encrypt(name, &key, &data).unwrap();
                let plain = decrypt(name, &key, &secret).unwrap();
                prop_assert_eq!(&plain[..data.len()], &data[..]);
                prop_assert!(plain.len() - data.len() < 8 && plain[data.len()..].iter().all(|&byte| byte == 0));
                prop_assert!(data.len() < 16 || secret[..16] != data[..16]);
            }
        }

        #[test]
        fn any_bytes_are_decrypted_or_refused(data in prop::collection::vec(any::<u8>(), 0..100)) {
            for name in NAMES {
                let key = default_key(name).unwrap();
                if let Ok(plain) = decrypt(name, key, &data) {
                    prop_assert!(plain.len() <= data.len());
                }
            }
        }
    }

    #[test]
    fn wrong_names_and_keys_are_errors() {
        let message = decrypt("nothing", &[0; 32], b"").unwrap_err().to_string();
        assert!(message.contains("decryption method nothing is not registered"), "{message}");
        let message = decrypt("AES_default", &[0; 31], b"").unwrap_err().to_string();
        assert!(message.contains("31 bytes; 32 are needed"), "{message}");
        let mut secret = encrypt("SIMPLE_FAST_RC4_default", &[7; 16], b"some model").unwrap();
        let message = decrypt("SIMPLE_FAST_RC4_default", &[8; 16], &secret).unwrap_err().to_string();
        assert!(message.contains("checksum of the file cannot be verified"), "{message}");
        secret[3] ^= 1;
        assert!(decrypt("SIMPLE_FAST_RC4_default", &[7; 16], &secret).is_err());
    }
}
