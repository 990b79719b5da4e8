//! The vendors' C interfaces over Triune, as one shared library: the functions of `axruntime/axruntime.h` and of
//! `lite-c`.
//!
//! Names, signatures, enumerations and structures are the vendors'. Handles are numbers that look like pointers: nobody follows
//! them, each is given out once, and one that is NULL, destroyed or of another kind gets an error. No panic crosses into C.

mod axelera;
mod boundary;
mod handle;
mod lite;
