//! Servers and clients over loopback.

mod board;
mod faults;
mod hostile;
mod refuses;
mod security;
mod support;
