//! Servers and clients over loopback.

mod board;
mod faults;
mod hostile;
mod security;
mod support;
