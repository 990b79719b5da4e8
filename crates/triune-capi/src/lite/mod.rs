//! `lite-c`: MegEngine Lite's networks and tensors on this machine's CPU.
//!
//! The rules are those of `triune.megenginelite` in Python, as far as they are here; what is not says so by name (`missing`), and
//! `docs/c.md` lists it.

mod addresses;
mod caches;
mod ciphers;
mod failure;
mod global;
mod load;
mod missing;
mod network;
mod packed;
mod run;
mod settings;
mod tensor;
mod types;
mod wish;
