//! A variation of RC4 with a hash of 64 bits, in two forms.
//!
//! The key's first eight bytes are the hash's, the others the stream's. Data is padded with zeros to whole words of
//! eight bytes. The plain form encrypts twice, first under the data's own hash, and hides that hash behind the data; the
//! fast form encrypts once and appends the hash of the encrypted words, which serves as a checksum.

use super::Refusal;

/// What upstream uses unless the caller gives a key.
pub(super) const DEFAULT_KEY: [u8; 16] =
    [0x6c, 0x69, 0x65, 0x6a, 0x67, 0x66, 0x6b, 0x68, 0x7c, 0x7f, 0x7e, 0x79, 0x78, 0x7d, 0x7b, 0x7a];

/// The generator of the key stream.
struct Stream {
    state: [u8; 256],
    i: u8,
    j: u8,
}

impl Stream {
    fn new(key: u64) -> Self {
        let mut state = [0; 256];
        for (index, entry) in state.iter_mut().enumerate() {
            *entry = index as u8;
        }
        let key = key.to_le_bytes();
        let mut j = 0_u8;
        for index in 0..256 {
            j = j.wrapping_add(state[index]).wrapping_add(key[index % 8]);
            state.swap(index, usize::from(j));
        }
        let mut stream = Self { state, i: 0, j: 0 };
        for _ in 0..768 {
            stream.byte();
        }
        // As many more as the next one says.
        for _ in 0..stream.byte() {
            stream.byte();
        }
        stream
    }

    fn byte(&mut self) -> u8 {
        let at = |state: &[u8; 256], index: u8| state[usize::from(index)];
        self.i = self.i.wrapping_add(1);
        let a = at(&self.state, self.i);
        self.j = self.j.wrapping_add(a);
        let b = at(&self.state, self.j);
        self.state[usize::from(self.i)] = b;
        self.state[usize::from(self.j)] = a;
        let (i, j) = (self.i, self.j);
        let c = at(&self.state, (i << 5) ^ (j >> 3)).wrapping_add(at(&self.state, (j << 5) ^ (i >> 3)));
        at(&self.state, a.wrapping_add(b)).wrapping_add(at(&self.state, c ^ 0xaa))
            ^ at(&self.state, j.wrapping_add(b))
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }
}

/// The hash of words, from the key on.
struct Hash(u64);

impl Hash {
    fn add(&mut self, word: u64) {
        let mut value = word ^ (word >> 23);
        value = value.wrapping_mul(u64::from_le_bytes([0x37, 0x5c, 0x32, 0xf4, 0x9b, 0x59, 0x27, 0x21]));
        value ^= value >> 47;
        self.0 = (self.0 ^ value)
            .wrapping_mul(u64::from_le_bytes([0x65, 0x19, 0x6d, 0x1e, 0xf2, 0x55, 0x03, 0x88]));
    }
}

/// The keys of the hash and of the stream.
fn keys(key: &[u8; 16]) -> [u64; 2] {
    let words = words(key);
    [words[0], words[1]]
}

/// Whole words; the last is padded with zeros.
fn words(data: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(bytes)
    };
    data.chunks(8).map(word).collect()
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The words of `data` and the one behind them.
fn sealed(data: &[u8]) -> Result<(Vec<u64>, u64), &'static str> {
    if !data.len().is_multiple_of(8) {
        return Err("the data is not a whole number of 8-byte words; is it encrypted with another method?");
    }
    let mut words = words(data);
    let seal = words.pop().ok_or("the data is empty")?;
    Ok((words, seal))
}

pub(super) fn encrypt(key: &[u8; 16], data: &[u8]) -> Vec<u8> {
    let [hash_key, stream_key] = keys(key);
    let mut words = words(data);
    let mut plain_hash = Hash(hash_key);
    for &word in &words {
        plain_hash.add(word);
    }
    let (mut inner, mut outer) = (Stream::new(plain_hash.0), Stream::new(stream_key));
    let mut inner_hash = Hash(hash_key);
    for word in &mut words {
        *word ^= inner.word();
        inner_hash.add(*word);
        *word ^= outer.word();
    }
    words.push(plain_hash.0 ^ inner_hash.0 ^ outer.word());
    bytes(&words)
}

pub(super) fn decrypt(key: &[u8; 16], data: &[u8]) -> Result<Vec<u8>, Refusal> {
    let [hash_key, stream_key] = keys(key);
    let (mut words, seal) = sealed(data)?;
    let mut outer = Stream::new(stream_key);
    let mut inner_hash = Hash(hash_key);
    for word in &mut words {
        *word ^= outer.word();
        inner_hash.add(*word);
    }
    let mut inner = Stream::new(seal ^ inner_hash.0 ^ outer.word());
    for word in &mut words {
        *word ^= inner.word();
    }
    Ok(bytes(&words))
}

pub(super) fn encrypt_fast(key: &[u8; 16], data: &[u8]) -> Vec<u8> {
    let [hash_key, stream_key] = keys(key);
    let mut words = words(data);
    let (mut stream, mut hash) = (Stream::new(stream_key), Hash(hash_key));
    for word in &mut words {
        *word ^= stream.word();
        hash.add(*word);
    }
    words.push(hash.0);
    bytes(&words)
}

pub(super) fn decrypt_fast(key: &[u8; 16], data: &[u8]) -> Result<Vec<u8>, Refusal> {
    let [hash_key, stream_key] = keys(key);
    let (mut words, seal) = sealed(data)?;
    let (mut stream, mut hash) = (Stream::new(stream_key), Hash(hash_key));
    for word in &mut words {
        hash.add(*word);
        *word ^= stream.word();
    }
    if hash.0 != seal {
        return Err(Refusal::Key(
            "the checksum of the file cannot be verified: the key is wrong or the file is damaged",
        ));
    }
    Ok(bytes(&words))
}
