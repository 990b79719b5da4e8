//! `lite-c`: MegEngine Lite's networks and tensors on this machine's CPU.
//!
//! The rules are those of `triune.megenginelite` in Python, as far as they are here; what is not says so by name, and `docs/c.md` lists
//! it.

mod addresses;
mod allocator;
mod caches;
mod ciphers;
mod compute;
mod discrete;
mod failure;
mod global;
mod load;
mod looks;
mod network;
mod packed;
mod run;
mod settings;
mod tensor;
mod types;
mod wish;
