//! Simulated boards over a socket: the protocol, the server that holds boards, and the client that is one.
//!
//! [`RemoteBoard`] is a [`triune_device::Board`] whose memory, registers and core are behind a TCP connection to a
//! [`Server`]. Frames carry a version and checksums ([`protocol`]); `docs/serve.md` has them byte by byte.
//!
//! Everything here reads bytes of strangers: sizes are checked before anything is allocated, every wait has an end,
//! and what one connection does costs the others nothing.
#![forbid(unsafe_code)]

mod client;
pub mod protocol;
mod server;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod token;
mod wire;

pub use client::{ConnectOptions, RemoteBoard};
pub use server::{Event, Log, Options, Server, Statistics};
pub use tls::{ClientTls, ServerTls};
pub use token::Token;
pub use triune_device::Error;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic of another thread: what the locks here guard is whole at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The failure of a link, in words.
fn link(text: impl Into<String>) -> Error {
    Error::Link(text.into())
}
