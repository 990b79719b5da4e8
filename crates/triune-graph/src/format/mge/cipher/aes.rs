//! AES-256-CBC: 16 bytes of initial vector, the ciphertext with PKCS #7 padding, the plain size as eight big-endian
//! bytes.

use aes::Aes256;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, block_padding::Pkcs7};
use sha2::{Digest, Sha256};

use super::Refusal;

/// The bytes 0 to 31.
pub(super) const DEFAULT_KEY: [u8; 32] = {
    let mut key = [0; 32];
    let mut index = 0;
    while index < 32 {
        key[index] = index as u8;
        index += 1;
    }
    key
};

pub(super) fn decrypt(key: &[u8; 32], data: &[u8]) -> Result<Vec<u8>, Refusal> {
    const SHORT: &str = "the data is shorter than its initial vector and size";
    let (vector, rest) = data.split_first_chunk::<16>().ok_or(SHORT)?;
    let (secret, size) = rest.split_last_chunk::<8>().ok_or(SHORT)?;
    if secret.len() % 16 != 0 {
        return Err(Refusal::Form(
            "the data is not a whole number of blocks; is it encrypted with another method?",
        ));
    }
    let cipher = cbc::Decryptor::<Aes256>::new(key.into(), vector.into());
    let mut plain = cipher.decrypt_padded_vec::<Pkcs7>(secret).map_err(|_| {
        Refusal::Key("invalid model format: the padding is wrong, which a wrong key or damage makes it")
    })?;
    let size = usize::try_from(u64::from_be_bytes(*size)).ok().filter(|&size| size <= plain.len());
    plain.truncate(size.ok_or("the size at the end is larger than the data")?);
    Ok(plain)
}

pub(super) fn encrypt(key: &[u8; 32], data: &[u8]) -> Vec<u8> {
    // Another vector for every file and key, yet the same for the same: no randomness is needed.
    let digest = Sha256::new().chain_update(key).chain_update(data).finalize();
    let mut vector = [0; 16];
    vector.copy_from_slice(&digest[..16]);
    let cipher = cbc::Encryptor::<Aes256>::new(key.into(), &vector.into());
    let secret = cipher.encrypt_padded_vec::<Pkcs7>(data);
    [&vector[..], &secret, &(data.len() as u64).to_be_bytes()].concat()
}
