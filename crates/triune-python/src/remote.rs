//! Boards over a socket: the server, and how a client connects.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use pyo3::{prelude::*, types::PyDict};
use triune::internals::{
    device::{DeviceSpec, LocalBoard},
    fork::{Brief, Forked},
    remote::{Event, Options, Server, ServerTls, Token},
    runtime,
};

use crate::error::{self, ReleasedError};

/// How often a server that is waited for looks whether it is to be interrupted.
const GLANCE: Duration = Duration::from_millis(100);

/// A time in seconds, for what it is.
pub(crate) fn seconds(what: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| error::argument(format!("{what}: {value} is no time in seconds")))
}

/// The token in a file, or else in the environment.
pub(crate) fn token(file: Option<PathBuf>) -> Result<Option<Token>, triune::internals::device::Error> {
    file.map_or_else(Token::from_environment, |path| Token::read(&path).map(Some))
}

/// A server of simulated boards for clients elsewhere. It stops when it goes.
#[pyclass(frozen, module = "triune._native")]
#[derive(Debug)]
pub(crate) struct BoardServer {
    inner: Brief<Option<Server>>,
    address: (String, u16),
}

#[pymethods]
impl BoardServer {
    /// Listens at `bind` (host:port, port 0 picks one) with `boards` boards of a device, each made when a client wants it. Runs
    /// use `threads` threads, 0 means one per CPU core. Clients have to know the token in `token_file`, or else in the
    /// environment variable `TRIUNE_TOKEN`, if there is one. `certificate` and `key` are PEM files and turn TLS on. A client
    /// that is silent for `patience` seconds is given up. With `verbose`, standard error tells what happens.
    ///
    /// Raises `LinkError` if it cannot listen, or would let strangers in: any but a loopback address needs a token and a
    /// certificate, or `insecure`.
    #[new]
    #[pyo3(signature = (
        device,
        bind="127.0.0.1:9981",
        *,
        boards=1,
        token_file=None,
        certificate=None,
        key=None,
        insecure=false,
        connections=64,
        patience=30.0,
        threads=0,
        verbose=false,
    ))]
    fn new(
        py: Python<'_>,
        device: String,
        bind: &str,
        boards: u32,
        token_file: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
        insecure: bool,
        connections: usize,
        patience: f64,
        threads: usize,
        verbose: bool,
    ) -> PyResult<Self> {
        let files = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(error::argument("a certificate and its key go together")),
        };
        let patience = seconds("patience", patience)?;
        let bind = bind.to_owned();
        let start = || {
            // A wrong name is to be heard of now, not by the first client.
            if runtime::target::is_file(Path::new(&device)) {
                return Err(triune::internals::device::Error::Spec {
                    key: "device".into(),
                    problem: "boards are of devices that come with Triune: their clients know the registers of buyi and zg330 \
                              alone; a package for a device of one's own runs with triune run, or on a card of TRIUNE_CARDS"
                        .into(),
                });
            }
            DeviceSpec::builtin(&device)?;
            let log: Option<triune::internals::remote::Log> =
                if verbose { Some(Arc::new(|event: &Event| eprintln!("{event}"))) } else { None };
            let options = Options {
                // A client that says nothing at all is silent, too.
                handshake: Options::default().handshake.min(patience),
                bind,
                boards,
                token: token(token_file)?,
                tls: files.map(|(certificate, key)| ServerTls::load(&certificate, &key)).transpose()?,
                insecure,
                connections,
                patience,
                log,
            };
            let name = device.clone();
            Server::start(&device, options, move || Ok(Arc::new(LocalBoard::open(&name, true, threads)?)))
        };
        let server = error::detached(py, start)?.map_err(error::device)?;
        let address = (server.address().ip().to_string(), server.address().port());
        Ok(Self { inner: Brief::new(Some(server)), address })
    }

    /// Host and port that it listens at.
    #[getter]
    fn address(&self) -> (String, u16) {
        self.address.clone()
    }

    /// Counts since the start: connections that `came`, were `refused`, `left`, were `lost`, `panics`; and now: `connections`,
    /// `boards` in use.
    ///
    /// Raises `ReleasedError` once it is stopped.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.inner.lock().as_ref().map(Server::statistics);
        let statistics = statistics.ok_or_else(|| ReleasedError::new_err("the server has been stopped"))?;
        let found = PyDict::new(py);
        found.set_item("came", statistics.came)?;
        found.set_item("refused", statistics.refused)?;
        found.set_item("left", statistics.left)?;
        found.set_item("lost", statistics.lost)?;
        found.set_item("panics", statistics.panics)?;
        found.set_item("connections", statistics.connections)?;
        found.set_item("boards", statistics.boards)?;
        Ok(found)
    }

    /// Waits until it is stopped by another thread, or a signal's handler raises.
    ///
    /// Raises `ForkedError` in a forked child, where it does not serve.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        loop {
            match &*self.inner.lock() {
                None => return Ok(()),
                Some(server) if !server.is_here() => return Err(error::forked(Forked)),
                Some(_) => {}
            }
            error::detached(py, || thread::sleep(GLANCE))?;
            py.check_signals()?;
        }
    }

    /// Ends all connections; waits some seconds for what is running, and returns whether all has ended.
    fn stop(&self, py: Python<'_>) -> PyResult<bool> {
        let server = self.inner.lock().take();
        error::detached(py, || server.is_none_or(Server::stop))
    }
}
