//! From a file or bytes to a model: ciphers, packed models, and what is said of a model's inputs and outputs beforehand.

use std::{
    collections::BTreeMap,
    ffi::{CString, c_char, c_int, c_void},
    fs::File,
    io::Read,
    path::Path,
    sync::Arc,
};

use triune::{
    Model, ModelOptions,
    internals::{fork::Brief, graph::format::mge::packed::is_packed},
};

use super::{
    ciphers,
    failure::{Failure, done, failure, path},
    network::{Inner, find, with},
    packed,
    settings::Settings,
    types::{Config, Handle, IO_VALUE, Io, Layout, NetworkIo},
};
use crate::boundary;

/// As many bytes as the mark of packed models has.
const MARK: u64 = 12;

/// A model, and what it is loaded with.
pub(super) struct Opened {
    pub(super) model: Arc<Model>,
    pub(super) settings: Settings,
    pub(super) extra: CString,
    pub(super) bytes: Option<Arc<[u8]>>,
}

impl Inner {
    fn read(&self, path: &Path) -> Result<Opened, Failure> {
        let unreadable = |error: std::io::Error| failure(format!("load: '{}': {error}", path.display()));
        let mut file = File::open(path).map_err(unreadable)?;
        let mut content = Vec::new();
        if self.own.cipher.is_none() && !self.keeps_bytes {
            (&mut file).take(MARK).read_to_end(&mut content).map_err(unreadable)?;
            if !is_packed(&content) {
                let options = ModelOptions { compressed: self.own.compressed };
                return Ok(Opened {
                    model: Model::open(path, &options)?,
                    settings: self.own.clone(),
                    extra: CString::default(),
                    bytes: None,
                });
            }
        }
        file.read_to_end(&mut content).map_err(unreadable)?;
        self.model(content)
    }

    fn model(&self, content: Vec<u8>) -> Result<Opened, Failure> {
        let content = match &self.own.cipher {
            Some(name) if !is_packed(&content) => ciphers::decrypt(name, "the model", &content)?,
            _ => content,
        };
        let mut settings = self.own.clone();
        let mut extra = CString::default();
        let mut stated = Vec::new();
        let plain = if is_packed(&content) {
            let unpacked = packed::open(content, settings, !self.unconfigured)?;
            (settings, extra, stated) = (unpacked.settings, unpacked.extra, unpacked.stated);
            unpacked.model
        } else {
            content
        };
        let bytes = self.keeps_bytes.then(|| Arc::from(plain.as_slice()));
        let model = Model::from_bytes(plain, &ModelOptions { compressed: settings.compressed })?;
        packed::check(&stated, &model)?;
        Ok(Opened { model, settings, extra, bytes })
    }
}

/// # Safety
/// `model_mem` is NULL or has `size` bytes.
unsafe fn content(model_mem: *const c_void, size: usize) -> Result<Vec<u8>, Failure> {
    // SAFETY: the caller's promise.
    let content = unsafe { boundary::array(model_mem.cast::<u8>(), size) };
    let content = content.filter(|content| !content.is_empty());
    Ok(content.ok_or_else(|| failure("model_mem: expected a model, got nothing"))?.to_vec())
}

/// `LITE_load_model_from_path`.
///
/// # Safety
/// `model_path` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_load_model_from_path(
    network: Handle,
    model_path: *const c_char,
) -> c_int {
    done(|| {
        let network = find("network", network)?;
        // SAFETY: the caller's promise.
        let path = unsafe { path("model_path", model_path) }?;
        network.settle()?;
        let mut inner = network.state.lock()?;
        let opened = inner.read(path)?;
        inner.open(network.handle, opened)
    })
}

/// `LITE_load_model_from_mem`.
///
/// # Safety
/// `model_mem` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_load_model_from_mem(
    network: Handle,
    model_mem: *mut c_void,
    size: usize,
) -> c_int {
    done(|| {
        let network = find("network", network)?;
        // SAFETY: the caller's promise.
        let content = unsafe { content(model_mem.cast_const(), size) }?;
        network.settle()?;
        let mut inner = network.state.lock()?;
        let opened = inner.model(content)?;
        inner.open(network.handle, opened)
    })
}

/// `LITE_shared_weight_with_network`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_shared_weight_with_network(dst_network: Handle, src_network: Handle) -> c_int {
    done(|| {
        let (to, from) = (find("dst_network", dst_network)?, find("src_network", src_network)?);
        let own = to.state.lock()?.settable("shared weights")?.own.clone();
        let opened = from.state.lock()?.shared(&own)?;
        to.state.lock()?.settable("shared weights")?.open(to.handle, opened)
    })
}

/// `LITE_extra_configure`: a structure of one flag, whether a packed model's description of itself is left aside.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_extra_configure(network: Handle, extra_config: c_int) -> c_int {
    with(network, |inner| {
        inner.settable("the extra configuration")?.unconfigured = extra_config != 0;
        Ok(())
    })
}

/// `LITE_get_model_extra_info`: empty for a model that says nothing besides.
///
/// # Safety
/// The places are NULL or can be written. The text stays until another model is loaded.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_model_extra_info(
    network: Handle,
    info: *mut *const c_char,
    info_size: *mut c_int,
) -> c_int {
    with(network, |inner| {
        let extra = &inner.loaded()?.extra;
        let size = c_int::try_from(extra.as_bytes().len())
            .map_err(|_| failure("the extra information is too long"))?;
        // SAFETY: the caller's promise.
        unsafe {
            super::failure::give("info_size", info_size, size)?;
            super::failure::give("info", info, extra.as_ptr())
        }
    })
}

/// What was said of models' inputs and outputs, by the path or memory that was asked about: as in the vendor's library, it stays until
/// the same is asked about again.
static SAID: Brief<BTreeMap<usize, Said>> = Brief::new(BTreeMap::new());

struct Said {
    names: Vec<CString>,
    ios: [Vec<Io>; 2],
}

// SAFETY: the names that its structures point at are its own.
unsafe impl Send for Said {}

impl Said {
    fn of(inner: &mut Inner) -> Result<Self, Failure> {
        let loaded = inner.loaded()?;
        let mut said = Self { names: Vec::new(), ios: [Vec::new(), Vec::new()] };
        for (ios, ports) in said.ios.iter_mut().zip([&loaded.inputs, &loaded.outputs]) {
            for port in ports {
                let name = port.name.clone();
                let layout: Layout = port.tensor.state.lock().layout();
                // The text lies where it lies, wherever its owner goes.
                ios.push(Io { name: name.as_ptr(), is_host: 1, io_type: IO_VALUE, config_layout: layout });
                said.names.push(name);
            }
        }
        Ok(said)
    }
}

/// # Safety
/// The texts of the configuration are texts or NULL; `ios` is NULL or can be written.
unsafe fn io_info(
    key: usize,
    config: &Config,
    ios: *mut NetworkIo,
    open: impl FnOnce(&Inner) -> Result<Opened, Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let mut inner = unsafe { Inner::new(config, &NetworkIo::DEFAULT) }?;
    let opened = open(&inner)?;
    inner.open(0, opened)?;
    let mut said = Said::of(&mut inner)?;
    let [inputs, outputs] = &mut said.ios;
    let given = NetworkIo {
        inputs: inputs.as_mut_ptr(),
        outputs: outputs.as_mut_ptr(),
        input_size: inputs.len(),
        output_size: outputs.len(),
    };
    // SAFETY: the caller's promise.
    unsafe { super::failure::give("ios", ios, given) }?;
    SAID.lock().insert(key, said);
    Ok(())
}

/// `LITE_get_model_io_info_by_path`: what it gives stays until this path, at its address, is asked about again.
///
/// # Safety
/// The texts are NULL or texts, `ios` NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_model_io_info_by_path(
    model_path: *const c_char,
    config: Config,
    ios: *mut NetworkIo,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let path = path("model_path", model_path)?;
            io_info(model_path.addr(), &config, ios, |inner| inner.read(path))
        }
    })
}

/// `LITE_get_model_io_info_by_memory`, likewise.
///
/// # Safety
/// `model_mem` is NULL or has `size` bytes; else as for [`LITE_get_model_io_info_by_path`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_model_io_info_by_memory(
    model_mem: *const c_void,
    size: usize,
    config: Config,
    ios: *mut NetworkIo,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let content = content(model_mem, size)?;
            io_info(model_mem.addr(), &config, ios, |inner| inner.model(content))
        }
    })
}
