//! Runs: in the thread that asks for one, or apart, in one of the interface's own; and what is called around them.

use std::{
    ffi::{c_int, c_void},
    sync::{Arc, OnceLock, mpsc},
    thread::{self, ThreadId},
};

use triune::internals::fork::Lock;

use super::{
    failure::{Failure, done, failure},
    network::{Network, Port, find, with},
    types::{Handle, Io},
};
use crate::{boundary, handle};

pub(super) type Plain = unsafe extern "C" fn(*const Io, *const Handle, usize) -> c_int;
pub(super) type WithData = unsafe extern "C" fn(*const Io, *const Handle, usize, *mut c_void) -> c_int;

#[derive(Clone, Copy)]
pub(super) enum Callback {
    Plain(Plain),
    WithData(WithData, *mut c_void),
}

// SAFETY: the program gave the data for that function, which is called in the thread that runs or waits.
unsafe impl Send for Callback {}

/// What a callback is called with.
struct Called {
    callback: Callback,
    ios: Vec<Io>,
    handles: Vec<Handle>,
}

impl Called {
    fn new(callback: Callback, ports: &[Port]) -> Self {
        let io = |port: &Port| Io {
            name: port.name.as_ptr(),
            is_host: port.is_host,
            io_type: port.io_type,
            config_layout: port.tensor.state.lock().layout(),
        };
        let handles = ports.iter().map(|port| handle::pointer(port.handle)).collect();
        Self { callback, ios: ports.iter().map(io).collect(), handles }
    }

    fn call(&self, what: &str) -> Result<(), Failure> {
        let (ios, handles, count) = (self.ios.as_ptr(), self.handles.as_ptr(), self.ios.len());
        // SAFETY: the program gave the function, and the data for it.
        let code = unsafe {
            match self.callback {
                Callback::Plain(function) => function(ios, handles, count),
                Callback::WithData(function, data) => function(ios, handles, count, data),
            }
        };
        if code == 0 { Ok(()) } else { Err(failure(format!("the {what} callback gave {code}"))) }
    }
}

/// What is called when a run apart is done, which makes runs be apart.
#[derive(Clone, Copy)]
pub(super) enum Async {
    Plain(unsafe extern "C" fn() -> c_int),
    WithData(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void),
}

// SAFETY: the program gave the data for that function, which is called in the thread that ran.
unsafe impl Send for Async {}

impl Async {
    fn call(self) -> Result<(), Failure> {
        // SAFETY: the program gave the function, and the data for it.
        let code = unsafe {
            match self {
                Self::Plain(function) => function(),
                Self::WithData(function, data) => function(data),
            }
        };
        if code == 0 { Ok(()) } else { Err(failure(format!("the async callback gave {code}"))) }
    }
}

/// A run apart: its thread has the lock until the callback has returned.
pub(super) struct Pending {
    thread: OnceLock<ThreadId>,
    ended: Lock<Option<Failure>>,
}

impl Network {
    /// Waits for a run apart, unless this is its own callback. What it failed with, it says to the first who waits.
    pub(super) fn settle(&self) -> Result<(), Failure> {
        let Some(running) = self.running.lock().clone() else { return Ok(()) };
        if running.thread.get() == Some(&thread::current().id()) {
            return Ok(());
        }
        let ended = running.ended.lock().map(|mut ended| ended.take());
        let mut latest = self.running.lock();
        if latest.as_ref().is_some_and(|latest| Arc::ptr_eq(latest, &running)) {
            *latest = None;
        }
        ended?.map_or(Ok(()), Err)
    }

    /// Has a thread run the network and call back.
    fn run_apart(self: &Arc<Self>, callback: Async) -> Result<(), Failure> {
        let own = Arc::new(Pending { thread: OnceLock::new(), ended: Lock::new(None) });
        let (begun, begins) = mpsc::sync_channel(1);
        let network = Arc::clone(self);
        let work = move || {
            let _ = own.thread.set(thread::current().id());
            // Nobody else has it yet.
            let Ok(mut ended) = own.ended.lock() else { return };
            // Whoever waits, waits for the lock from here on.
            *network.running.lock() = Some(Arc::clone(&own));
            if begun.send(()).is_err() {
                return;
            }
            let result = boundary::caught(|| network.compute().and_then(|()| callback.call()));
            *ended = result.unwrap_or_else(|panic| Err(failure(panic))).err();
        };
        let started = thread::Builder::new().name("lite".to_owned()).spawn(work);
        started.map_err(|error| failure(format!("an asynchronous forward cannot start: {error}")))?;
        begins.recv().map_err(|_| failure("an asynchronous forward did not start"))
    }

    fn compute(&self) -> Result<(), Failure> {
        let mut inner = self.state.lock()?;
        if let Some(affinity) = inner.affinity {
            // SAFETY: the program gave the function.
            let code = unsafe { affinity(0) };
            if code != 0 {
                return Err(failure(format!("the thread affinity callback gave {code}")));
            }
        }
        let own_outputs = inner.own_outputs();
        inner.loaded()?.run(own_outputs)?;
        inner.dump()?;
        inner.ran = true;
        Ok(())
    }
}

/// `LITE_forward`: with an async callback, it returns at once, and a run that is under way is waited for before.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_forward(network: Handle) -> c_int {
    done(|| {
        let network = find("network", network)?;
        network.settle()?;
        let (start, apart) = {
            let mut inner = network.state.lock()?;
            let (start, apart) = (inner.start, inner.apart);
            let loaded = inner.loaded()?;
            (start.map(|callback| Called::new(callback, &loaded.inputs)), apart)
        };
        // Nothing is locked meanwhile: it may ask for tensors.
        start.map_or(Ok(()), |start| start.call("start"))?;
        match apart {
            Some(callback) => network.run_apart(callback),
            None => network.compute(),
        }
    })
}

/// `LITE_wait`: the finish callback is called here, if there was a run since.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_wait(network: Handle) -> c_int {
    done(|| {
        let network = find("network", network)?;
        network.settle()?;
        let finish = {
            let mut inner = network.state.lock()?;
            let ran = std::mem::take(&mut inner.ran);
            let finish = inner.finish.filter(|_| ran);
            if ran {
                inner.write_profile()?;
            }
            let loaded = inner.loaded()?;
            finish.map(|callback| Called::new(callback, &loaded.outputs))
        };
        finish.map_or(Ok(()), |finish| finish.call("finish"))
    })
}

macro_rules! callbacks {
    ($($plain:ident $data:ident $field:ident;)+) => {
        $(
            #[doc = concat!("`", stringify!($plain), "`: NULL takes it away.\n\n# Safety\nThe function can be called as the header says.")]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $plain(network: Handle, callback: Option<Plain>) -> c_int {
                with(network, |inner| {
                    inner.$field = callback.map(Callback::Plain);
                    Ok(())
                })
            }

            #[doc = concat!("`", stringify!($data), "`: NULL takes it away.\n\n# Safety\nThe function can be called with the data as the header says.")]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $data(network: Handle, callback: Option<WithData>, data: *mut c_void) -> c_int {
                with(network, |inner| {
                    inner.$field = callback.map(|callback| Callback::WithData(callback, data));
                    Ok(())
                })
            }
        )+
    };
}

callbacks! {
    LITE_set_start_callback LITE_set_start_callback_with_userdata start;
    LITE_set_finish_callback LITE_set_finish_callback_with_userdata finish;
}

fn set_apart(network: Handle, callback: Option<Async>) -> c_int {
    with(network, |inner| {
        if callback.is_some() && inner.inplace() {
            return Err(failure("an async callback and inplace mode exclude each other"));
        }
        if callback.is_some() && inner.own_outputs() {
            return Err(failure(
                "an async callback and force_output_use_user_specified_memory exclude each other",
            ));
        }
        inner.apart = callback;
        Ok(())
    })
}

/// `LITE_set_async_callback`: NULL takes it away.
///
/// # Safety
/// The function can be called as the header says, from another thread.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_set_async_callback(
    network: Handle,
    callback: Option<unsafe extern "C" fn() -> c_int>,
) -> c_int {
    set_apart(network, callback.map(Async::Plain))
}

/// `LITE_set_async_callback_with_userdata`: NULL takes it away.
///
/// # Safety
/// The function can be called with the data as the header says, from another thread.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_set_async_callback_with_userdata(
    network: Handle,
    callback: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    user_data: *mut c_void,
) -> c_int {
    set_apart(network, callback.map(|callback| Async::WithData(callback, user_data)))
}

/// `LITE_set_runtime_thread_affinity`: it is called before each run, in the thread that computes; NULL takes it away.
///
/// # Safety
/// The function can be called as the header says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_set_runtime_thread_affinity(
    network: Handle,
    callback: Option<unsafe extern "C" fn(c_int) -> c_int>,
) -> c_int {
    with(network, |inner| {
        inner.loaded()?;
        if callback.is_some() && inner.threads() > 1 {
            return Err(failure("not implemented: LITE_set_runtime_thread_affinity of several threads"));
        }
        inner.affinity = callback;
        Ok(())
    })
}
