//! `lite-c`: MegEngine Lite's networks and tensors on this machine's CPU.
//!
//! The rules are those of `triune.megenginelite` in Python, as far as they are here; what is not says so by name (`missing`), and
//! `docs/c.md` lists it.

mod failure;
mod global;
mod missing;
mod network;
mod tensor;
mod types;
mod wish;
