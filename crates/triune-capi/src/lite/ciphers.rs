//! Ciphers by name: those that the interface has, whose keys can be changed, and those that programs register.

use std::{
    collections::BTreeMap,
    ffi::{c_char, c_int, c_void},
    ptr,
};

use triune::internals::{fork::Brief, graph::format::mge::cipher, tensor::memory};

use super::failure::{Failure, done, failure};
use crate::boundary;

/// `LiteDecryptionFunc`: gives the size of the plain bytes, and writes them if there is a place.
type Function = unsafe extern "C" fn(*const c_void, usize, *const u8, usize, *const c_void) -> usize;

/// A cipher as the program has it.
#[derive(Clone, Default)]
struct Own {
    /// Of a cipher that the interface has: in the place of that one's.
    function: Option<Function>,
    key: Option<Vec<u8>>,
}

static OWN: Brief<BTreeMap<String, Own>> = Brief::new(BTreeMap::new());

/// What a cipher made of plain bytes, plain again. `what` begins what is wrong with them.
pub(super) fn decrypt(name: &str, what: &str, secret: &[u8]) -> Result<Vec<u8>, Failure> {
    // A clone: the program's function may register another.
    let own = OWN.lock().get(name).cloned().unwrap_or_default();
    let key = own.key.as_deref().or(cipher::default_key(name)).unwrap_or_default();
    match own.function {
        Some(function) => call(name, function, key, secret),
        None if cipher::default_key(name).is_none() => Err(unknown(name)),
        None => cipher::decrypt(name, key, secret).map_err(|error| failure(format!("{what}: {error}"))),
    }
}

fn call(name: &str, function: Function, key: &[u8], secret: &[u8]) -> Result<Vec<u8>, Failure> {
    let sized = |size: usize, most: usize| {
        if size <= most {
            return Ok(size);
        }
        Err(failure(format!("decryption '{name}': expected a size of at most {most}, got {size}")))
    };
    // SAFETY: the program gave the function, which takes NULL for the question how much there will be.
    let ask = |place: *mut u8| unsafe {
        function(secret.as_ptr().cast(), secret.len(), key.as_ptr(), key.len(), place.cast())
    };
    let size = sized(ask(ptr::null_mut()), (16 * secret.len()).max(1 << 20))?;
    let mut plain = memory::filled(size, 0u8)?;
    let written = sized(ask(plain.as_mut_ptr()), size)?;
    plain.truncate(written);
    Ok(plain)
}

fn unknown(name: &str) -> Failure {
    let own = OWN.lock();
    let mut names: Vec<&str> = cipher::NAMES.to_vec();
    names.extend(own.keys().map(String::as_str).filter(|name| cipher::default_key(name).is_none()));
    failure(format!(
        "there is no decryption '{name}'; there are {}; LITE_register_decryption_and_key adds one",
        names.join(", ")
    ))
}

/// # Safety
/// The name is NULL or a text, and the key NULL or has so many bytes.
unsafe fn read(name: *const c_char, key: *const u8, size: usize) -> Result<(String, Vec<u8>), Failure> {
    // SAFETY: the caller's promise.
    let (name, key) = unsafe { (boundary::text(name), boundary::array(key, size)) };
    let name = name.ok_or_else(|| failure("decrypt_name: expected a name, got NULL"))?;
    let key = key.ok_or_else(|| failure(format!("key_data: expected {size} bytes, got NULL")))?;
    Ok((name, key.to_vec()))
}

/// `LITE_register_decryption_and_key`.
///
/// # Safety
/// Name and key are as the header says, and the function can be called as it says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_register_decryption_and_key(
    decrypt_name: *const c_char,
    func: Option<Function>,
    key_data: *const u8,
    key_size: usize,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let (name, key) = unsafe { read(decrypt_name, key_data, key_size) }?;
        let function = func.ok_or_else(|| failure("func: expected a function, got NULL"))?;
        let mut own = OWN.lock();
        if cipher::default_key(&name).is_some() || own.contains_key(&name) {
            return Err(failure(format!(
                "there is a decryption '{name}' already; LITE_update_decryption_or_key changes it"
            )));
        }
        own.insert(name, Own { function: Some(function), key: Some(key) });
        Ok(())
    })
}

/// `LITE_update_decryption_or_key`: no function, or an empty key, leaves what there is.
///
/// # Safety
/// As for [`LITE_register_decryption_and_key`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_update_decryption_or_key(
    decrypt_name: *const c_char,
    func: Option<Function>,
    key_data: *const u8,
    key_size: usize,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let (name, key) = unsafe { read(decrypt_name, key_data, key_size) }?;
        let default = cipher::default_key(&name);
        if default.is_none() && !OWN.lock().contains_key(&name) {
            return Err(unknown(&name));
        }
        let mut own = OWN.lock();
        let entry = own.entry(name.clone()).or_default();
        let function = func.or(entry.function);
        if let Some(default) =
            default.filter(|key_of| function.is_none() && !key.is_empty() && key.len() != key_of.len())
        {
            let (needed, got) = (default.len(), key.len());
            return Err(failure(format!("the key of {name} has {needed} bytes, got {got}")));
        }
        entry.function = function;
        if !key.is_empty() {
            entry.key = Some(key);
        }
        Ok(())
    })
}
