//! Objects and who owns them: every object belongs to a context, and to what it was made from; errors go to the context.

use std::{
    cell::RefCell,
    ffi::{c_uint, c_void},
    sync::Arc,
};

use triune::internals::fork::Brief;

use super::{
    device::Connection,
    failure::{Failure, argument},
    model::Model,
    properties::Properties,
    run::Instance,
    types::{Code, DeviceInfo, LOG_DEBUG, LOG_ERROR, Logger, Opaque},
};
use crate::{
    boundary,
    handle::{self, Table},
};

pub(crate) static OBJECTS: Table<Object> = Table::new();

thread_local! {
    /// The last error of this thread for which there was no context.
    static HOMELESS: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// What is shared by all objects of a context.
pub(crate) struct Context {
    pub(crate) handle: usize,
    last: Brief<Option<Failure>>,
    logger: Brief<Option<(c_uint, Logger, Arg)>>,
    /// What the program was given last; it may write there.
    pub(crate) devices: Brief<Vec<DeviceInfo>>,
}

/// What a logger is called with.
#[derive(Clone, Copy)]
pub(crate) struct Arg(pub(crate) *mut c_void);

// SAFETY: it is handed back to the program, which is told that any thread may log.
unsafe impl Send for Arg {}

impl Context {
    pub(crate) fn tell(&self, level: c_uint, message: &str) {
        // Nothing is locked while it runs: it may call any function.
        let logger = *self.logger.lock();
        if let Some((least, logger, arg)) = logger
            && level >= least
        {
            let message = boundary::c_text(message);
            // SAFETY: the program gave the function together with its argument.
            unsafe { logger(arg.0, level, message.as_ptr()) };
        }
    }

    pub(crate) fn set_logger(&self, logger: Option<(c_uint, Logger, Arg)>) {
        *self.logger.lock() = logger;
    }

    pub(crate) fn last(&self) -> Option<Failure> {
        self.last.lock().clone()
    }

    fn failed(&self, failure: Failure) {
        let level = if failure.code == Code::Pending { LOG_DEBUG } else { LOG_ERROR };
        let text = failure.text.clone();
        *self.last.lock() = Some(failure);
        self.tell(level, &text);
    }
}

/// What a handle stands for.
pub(crate) struct Object {
    handle: usize,
    /// The object that it was made from, with which it goes; a context's own handle is its.
    parent: usize,
    pub(crate) context: Arc<Context>,
    kind: Kind,
}

pub(crate) enum Kind {
    Context,
    Properties(Properties),
    Model(Arc<Model>),
    Connection(Arc<Connection>),
    Instance(Box<Instance>),
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Context => "an axrContext",
            Self::Properties(_) => "an axrProperties",
            Self::Model(_) => "an axrModel",
            Self::Connection(_) => "an axrConnection",
            Self::Instance(_) => "an axrModelInstance",
        }
    }
}

impl Object {
    /// A child of this object.
    pub(crate) fn make(&self, kind: Kind) -> *mut Opaque {
        let (parent, context) = (self.handle, Arc::clone(&self.context));
        handle::pointer(OBJECTS.add(|handle| Self { handle, parent, context, kind }))
    }

    pub(crate) fn is_context(&self, name: &str) -> Result<(), Failure> {
        if matches!(self.kind, Kind::Context) { Ok(()) } else { Err(self.other(name, "an axrContext")) }
    }

    pub(crate) fn properties(&self, name: &str) -> Result<&Properties, Failure> {
        if let Kind::Properties(inner) = &self.kind {
            Ok(inner)
        } else {
            Err(self.other(name, "an axrProperties"))
        }
    }

    pub(crate) fn model(&self, name: &str) -> Result<&Arc<Model>, Failure> {
        if let Kind::Model(inner) = &self.kind { Ok(inner) } else { Err(self.other(name, "an axrModel")) }
    }

    pub(crate) fn connection(&self, name: &str) -> Result<&Arc<Connection>, Failure> {
        if let Kind::Connection(inner) = &self.kind {
            Ok(inner)
        } else {
            Err(self.other(name, "an axrConnection"))
        }
    }

    pub(crate) fn instance(&self, name: &str) -> Result<&Instance, Failure> {
        if let Kind::Instance(inner) = &self.kind {
            Ok(inner)
        } else {
            Err(self.other(name, "an axrModelInstance"))
        }
    }

    fn other(&self, name: &str, expected: &str) -> Failure {
        argument(format!("{name}: expected {expected}, got {}", self.kind.name()))
    }

    fn release(&self) {
        match &self.kind {
            Kind::Instance(instance) => instance.release(),
            Kind::Connection(connection) => connection.release(),
            Kind::Context | Kind::Properties(_) | Kind::Model(_) => {}
        }
    }
}

/// Makes a context.
pub(crate) fn new_context() -> *mut Opaque {
    let handle = OBJECTS.add(|handle| {
        let context = Context {
            handle,
            last: Brief::new(None),
            logger: Brief::new(None),
            devices: Brief::new(Vec::new()),
        };
        Object { handle, parent: handle, context: Arc::new(context), kind: Kind::Context }
    });
    handle::pointer(handle)
}

/// Ends an object and all that was made from it; one that is no more is nothing to end.
pub(crate) fn destroy(object: *const Opaque) {
    // Children have larger handles than what they were made from.
    let mut family = vec![object.addr()];
    let taken = OBJECTS.take(|handle, object| {
        let member = family.contains(&handle) || family.contains(&object.parent);
        if member {
            family.push(handle);
        }
        member
    });
    for object in taken {
        object.release();
    }
}

/// Keeps what failed where there is no context to tell.
pub(crate) fn homeless(failure: Failure) {
    HOMELESS.set(Some(failure));
}

/// The object that an argument names.
pub(crate) fn find(name: &str, object: *const Opaque) -> Result<Arc<Object>, Failure> {
    OBJECTS.find(object).ok_or_else(|| {
        let got = if object.is_null() { "NULL" } else { "what has been destroyed, or never was one" };
        argument(format!("{name}: expected an object, got {got}"))
    })
}

/// Does `work` with the object that the argument `name` gives. What fails is its context's last error, and gives what `failed` says.
pub(crate) fn with<T>(
    name: &str,
    object: *const Opaque,
    failed: impl FnOnce(Code) -> T,
    work: impl FnOnce(&Object) -> Result<T, Failure>,
) -> T {
    let mut context = None;
    let done = boundary::caught(|| {
        let object = find(name, object)?;
        context = Some(Arc::clone(&object.context));
        work(&object)
    });
    let failure = match done {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Code::InternalError, panic),
    };
    let code = failure.code;
    match context {
        Some(context) => context.failed(failure),
        None => homeless(failure),
    }
    failed(code)
}

/// The last error of an object's context, or this thread's last one for which there was no context.
pub(crate) fn last(object: *const Opaque) -> Option<Failure> {
    match OBJECTS.find(object) {
        Some(object) => object.context.last(),
        None => HOMELESS.with_borrow(Clone::clone),
    }
}
