//! What stands for TLS where that is left out: nothing that there could be one of. Files of keys and certificates are refused.

use std::{
    io::{self, Empty, Read, Sink, Write},
    path::Path,
};

use triune_device::Error;

use crate::link;

/// A server's certificate and key: there are none.
#[derive(Clone, Debug)]
pub enum ServerTls {}

impl ServerTls {
    /// Refuses them.
    ///
    /// # Errors
    /// [`Error::Link`], always.
    pub fn load(certificates: &Path, _key: &Path) -> Result<Self, Error> {
        Err(refused(certificates))
    }

    pub(crate) fn session(&self) -> Result<Session, Error> {
        match *self {}
    }
}

/// The certificates that a client trusts: there are none.
#[derive(Clone, Debug)]
pub enum ClientTls {}

impl ClientTls {
    /// Refuses them.
    ///
    /// # Errors
    /// [`Error::Link`], always.
    pub fn load(authorities: &Path) -> Result<Self, Error> {
        Err(refused(authorities))
    }

    pub(crate) fn session(&self, _host: &str) -> Result<Session, Error> {
        match *self {}
    }
}

fn refused(path: &Path) -> Error {
    link(format!("{}: compiled without TLS (the feature `tls`)", path.display()))
}

/// A connection of the library for TLS, which is not there.
pub(crate) enum Session {}

impl Session {
    pub(crate) fn set_buffer_limit(&mut self, _limit: Option<usize>) {
        match *self {}
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) fn complete_io(&mut self, _socket: &mut (impl Read + Write)) -> io::Result<(usize, usize)> {
        match *self {}
    }

    pub(crate) fn reader(&mut self) -> Empty {
        match *self {}
    }

    pub(crate) fn writer(&mut self) -> Sink {
        match *self {}
    }

    pub(crate) fn read_tls(&mut self, _from: &mut dyn Read) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn process_new_packets(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn wants_write(&self) -> bool {
        match *self {}
    }

    pub(crate) fn write_tls(&mut self, _to: &mut dyn Write) -> io::Result<usize> {
        match *self {}
    }
}
