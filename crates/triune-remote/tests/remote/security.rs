//! Who gets in: tokens, TLS, addresses.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use triune_device::{Board, Error};
use triune_remote::{ClientTls, ConnectOptions, Options, RemoteBoard, Server, ServerTls, Token};

use crate::support::{DDR, Site, hello, noise, receive, wait_for};

const SECRET: &[u8] = b"a secret of some length";

/// Writes a file for its owner alone.
fn secret_file(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Certificates in a folder.
pub(crate) struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// An authority and a server that it signed, for names.
    pub(crate) fn new(names: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let server = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        fs::write(folder.path().join("server.pem"), server.pem()).unwrap();
        secret_file(&folder.path().join("key.pem"), &key.serialize_pem());
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn server(&self) -> ServerTls {
        ServerTls::load(&self.path("server.pem"), &self.path("key.pem")).unwrap()
    }

    pub(crate) fn client(&self) -> ClientTls {
        ClientTls::load(&self.path("ca.pem")).unwrap()
    }
}

fn secret() -> Token {
    Token::new(SECRET).unwrap()
}

#[test]
fn a_token_lets_in_those_who_have_it() {
    let site = Site::new(Options { token: Some(secret()), ..Options::default() });
    let with = |token| site.connect(&ConnectOptions { token, ..ConnectOptions::default() });
    assert!(with(None).unwrap_err().to_string().contains("the server wants a token"));
    let wrong = Token::new(b"another secret of some length").unwrap();
    assert!(with(Some(wrong)).unwrap_err().to_string().contains("the token is wrong"));
    with(Some(secret())).unwrap().write_register(1, 2).unwrap();
    // Before the token nothing is told, not even whether there is a board.
    let mut socket = site.raw();
    std::io::Write::write_all(&mut socket, &hello(b"nonsense")).unwrap();
    let (_, payload) = receive(&mut socket).unwrap();
    assert!(!String::from_utf8_lossy(&payload).contains("plain"));
    wait_for("all are counted", || site.server.statistics().refused == 3);
}

#[test]
fn tls_carries_everything() {
    let certificates = Certificates::new(&["127.0.0.1", "localhost"]);
    let site =
        Site::new(Options { token: Some(secret()), tls: Some(certificates.server()), ..Options::default() });
    let options = ConnectOptions {
        token: Some(secret()),
        tls: Some(certificates.client()),
        ..ConnectOptions::default()
    };
    let board = site.connect(&options).unwrap();
    let data = noise(3, 3_000_001);
    for _ in 0..3 {
        board.write(DDR, 5, &data).unwrap();
        let mut out = vec![0; data.len()];
        board.read(DDR, 5, &mut out).unwrap();
        assert!(out == data);
    }
    std::thread::scope(|scope| {
        for index in 0..3u64 {
            let board = &board;
            scope.spawn(move || {
                for round in 0..200 {
                    board.write_register(index, round).unwrap();
                    assert_eq!(board.read_register(index).unwrap(), round);
                }
            });
        }
    });
    drop(board);
    site.wait_until_free();
}

#[test]
fn certificates_are_checked() {
    let certificates = Certificates::new(&["127.0.0.1"]);
    let handshake = Duration::from_millis(500);
    let site = Site::new(Options { tls: Some(certificates.server()), handshake, ..Options::default() });
    let stranger = Certificates::new(&["127.0.0.1"]);
    let connect = |host: &str, tls| {
        let options = ConnectOptions { tls, timeout: Duration::from_secs(1), ..ConnectOptions::default() };
        RemoteBoard::connect(host, site.address().port(), "plain", &options)
    };
    connect("127.0.0.1", Some(certificates.client())).unwrap();
    let unknown = connect("127.0.0.1", Some(stranger.client())).unwrap_err().to_string();
    assert!(unknown.contains("certificate"), "{unknown}");
    let name = connect("localhost", Some(certificates.client())).unwrap_err().to_string();
    assert!(name.contains("certificate"), "{name}");
    // Neither side of one kind talks to the other.
    let plain = connect("127.0.0.1", None).unwrap_err();
    assert!(matches!(plain, Error::Link(_)), "{plain:?}");
    let site = Site::boards(1);
    let options = ConnectOptions { tls: Some(certificates.client()), ..ConnectOptions::default() };
    assert!(matches!(site.connect(&options), Err(Error::Link(_))));
}

#[test]
fn other_addresses_need_token_and_certificate() {
    let certificates = Certificates::new(&["localhost"]);
    let start = |token: Option<Token>, tls: Option<ServerTls>, insecure| {
        let options = Options { bind: "0.0.0.0:0".into(), token, tls, insecure, ..Options::default() };
        Server::start("plain", options, || Err(Error::Board("not needed".into())))
    };
    let error = start(None, None, false).unwrap_err().to_string();
    assert!(
        error.contains("0.0.0.0:0 can be reached from other machines: that needs a token, and"),
        "{error}"
    );
    assert!(start(Some(secret()), None, false).unwrap_err().to_string().contains("needs a certificate"));
    assert!(
        start(None, Some(certificates.server()), false).unwrap_err().to_string().contains("needs a token")
    );
    assert!(start(Some(secret()), Some(certificates.server()), false).unwrap().stop());
    assert!(start(None, None, true).unwrap().stop());
}

#[test]
fn files_that_are_none_are_named() {
    let certificates = Certificates::new(&["localhost"]);
    let empty = certificates.path("empty.pem");
    secret_file(&empty, "no certificate");
    for error in [
        ClientTls::load(&empty).unwrap_err(),
        ServerTls::load(&empty, &certificates.path("key.pem")).unwrap_err(),
        ServerTls::load(&certificates.path("server.pem"), &empty).unwrap_err(),
    ] {
        assert!(error.to_string().contains("empty.pem"), "{error}");
    }
    let other = Certificates::new(&["localhost"]);
    let error = ServerTls::load(&certificates.path("server.pem"), &other.path("key.pem")).unwrap_err();
    assert!(error.to_string().contains("is not this certificate's"), "{error}");
    let error = ServerTls::load(&certificates.path("server.pem"), &empty).unwrap_err();
    assert!(error.to_string().contains("there is no private key in it"), "{error}");
}

#[test]
fn secrets_that_others_can_read_are_refused() {
    let certificates = Certificates::new(&["localhost"]);
    let (key, token) = (certificates.path("key.pem"), certificates.path("token"));
    secret_file(&token, "sixteen bytes or more");
    let attempts = || {
        let server = ServerTls::load(&certificates.path("server.pem"), &key).map(drop);
        [(&key, server), (&token, Token::read(&token).map(drop))]
    };
    assert!(attempts().iter().all(|(_, result)| result.is_ok()));
    for path in [&key, &token] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
    }
    for (path, result) in attempts() {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("others can read or write this secret (mode 0640)"), "{error}");
        assert!(error.contains(&format!("chmod 600 {}", path.display())), "{error}");
    }
}

#[test]
fn a_token_does_not_go_over_the_net_in_clear() {
    // An address of this machine that is not loopback's, if it has one.
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = probe.connect("192.0.2.1:9").ok().and_then(|()| probe.local_addr().ok());
    let Some(own) = own.filter(|own| !own.ip().is_loopback() && !own.ip().is_unspecified()) else {
        triune_testing::skipped("an address of this machine that is not loopback's");
        return;
    };
    let options = Options {
        bind: format!("{}:0", own.ip()),
        token: Some(secret()),
        insecure: true,
        ..Options::default()
    };
    let server = Server::start("plain", options, || Err(Error::Board("none is made".into()))).unwrap();
    let connect = |insecure| {
        let options = ConnectOptions { token: Some(secret()), insecure, ..ConnectOptions::default() };
        RemoteBoard::connect(&own.ip().to_string(), server.address().port(), "plain", &options).unwrap_err()
    };
    assert!(connect(false).to_string().contains("for everyone to read"));
    assert!(connect(true).to_string().contains("none is made"));
}
