//! `axruntime/axruntime.h`: Metis cards, as the vendor documents them, run on virtual ones.
//!
//! The objects are those of `triune.axelera.runtime` in Python, with the same rules and texts. What the documents leave open, such as
//! the texts of codes, is our own; `docs/c.md` says which that is.

mod context;
mod device;
mod dmabuf;
mod failure;
mod model;
mod object;
mod properties;
mod run;
mod types;
