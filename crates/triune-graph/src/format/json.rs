//! What JSON text takes in memory before it is read.

use triune_tensor::{OutOfMemory, memory::Room};

/// Room for the values that a JSON text holds, told by its punctuation; what stands in strings counts as well.
///
/// # Errors
/// When this process cannot have it.
pub fn room(text: &[u8]) -> Result<Room, OutOfMemory> {
    // An object's first key makes room for eleven; lists grow, and are copied when they do.
    const OBJECT: u64 = 768;
    const ITEM: u64 = 128;
    const TEXT: u64 = 32;
    let bytes = text.iter().map(|byte| match byte {
        b'{' => OBJECT,
        b'[' | b',' => ITEM,
        b'"' => TEXT,
        _ => 1,
    });
    Room::of(bytes.sum())
}
