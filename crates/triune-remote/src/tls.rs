//! TLS 1.3: what a server shows, and what a client trusts.

use std::{fmt, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName,
        pem::{self, PemObject},
    },
    version::TLS13,
};
use triune_device::Error;
use triune_files::{read, read_secret};

use crate::link;

/// What a file with a key or certificates has at most; those of all public authorities have a quarter of it.
const LIMIT: u64 = 1 << 20;

/// A connection of either side.
pub(crate) type Session = rustls::Connection;

/// A server's certificate and key.
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// Reads a chain of certificates, the server's own first, and its key, both PEM. The key's file is to be read and written by
    /// its owner alone.
    ///
    /// # Errors
    /// [`Error::Link`] names the file.
    pub fn load(certificates: &Path, key: &Path) -> Result<Self, Error> {
        let chain = read_certificates(certificates)?;
        let secret = read_secret(key, LIMIT).map_err(|error| link(error.to_string()))?;
        let private = PrivateKeyDer::from_pem_slice(&secret).map_err(|error| match error {
            pem::Error::NoItemsFound => fail(key, &"there is no private key in it"),
            other => fail(key, &other),
        })?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    fail(certificates, &format!("the key in {} is not this certificate's", key.display()))
                }
                other => fail(certificates, &other),
            })?;
        // Connections live long: tickets to resume them would only be bytes to store.
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn session(&self) -> Result<Session, Error> {
        let session = rustls::ServerConnection::new(self.0.clone());
        session.map(Into::into).map_err(|error| link(format!("TLS: {error}")))
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls(…)")
    }
}

/// The certificates that a client trusts.
#[derive(Clone)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Trusts the certificates in a PEM file, and those that they signed. The system's are not asked.
    ///
    /// # Errors
    /// [`Error::Link`] names the file.
    pub fn load(authorities: &Path) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in read_certificates(authorities)? {
            roots.add(certificate).map_err(|error| fail(authorities, &error))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| fail(authorities, &error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// A connection to a host, whose certificate has to be for this name or address.
    pub(crate) fn session(&self, host: &str) -> Result<Session, Error> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| link(format!("'{host}' is no name that a certificate can have")))?;
        let session = rustls::ClientConnection::new(self.0.clone(), name);
        session.map(Into::into).map_err(|error| link(format!("TLS: {error}")))
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls(…)")
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(path, LIMIT).map_err(|error| link(error.to_string()))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| fail(path, &error))?;
    if certificates.is_empty() {
        return Err(fail(path, &"there is no certificate in it"));
    }
    Ok(certificates)
}

fn fail(path: &Path, problem: &dyn fmt::Display) -> Error {
    link(format!("{}: {problem}", path.display()))
}
