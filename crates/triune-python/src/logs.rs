//! What the core logs, for Python's `logging`: the target `triune::session` is the logger `triune.session`.
//!
//! Whoever logs waits for nobody, as it may be a thread that the interpreter's holder waits for: records are put down, and given to
//! Python by the next thread that comes back to it from the core. Only rare events are logged, so no level is kept here.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::{intern, prelude::*};
use triune::internals::fork::Brief;

/// Records that are kept while nobody comes back; then the oldest goes.
const KEPT: usize = 1024;

struct Note {
    level: Level,
    target: String,
    text: String,
}

#[derive(Default)]
struct Notes {
    kept: VecDeque<Note>,
    lost: usize,
}

struct Bridge {
    notes: Brief<Option<Notes>>,
    some: AtomicBool,
}

static BRIDGE: Bridge = Bridge { notes: Brief::new(None), some: AtomicBool::new(false) };

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("triune::")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        let note = Note { level: record.level(), target: record.target().replace("::", "."), text };
        let mut notes = self.notes.lock();
        let notes = notes.get_or_insert_default();
        if notes.kept.len() == KEPT {
            notes.kept.pop_front();
            notes.lost += 1;
        }
        notes.kept.push_back(note);
        self.some.store(true, SeqCst);
    }

    fn flush(&self) {}
}

/// Has what the core logs kept for Python from now on.
pub(crate) fn register() {
    // Set before, if another module than this one's interpreter has it.
    if log::set_logger(&BRIDGE).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

/// Gives Python what was logged. Raises what a logger's filter or handler does.
pub(crate) fn deliver(py: Python<'_>) -> PyResult<()> {
    if !BRIDGE.some.load(SeqCst) {
        return Ok(());
    }
    let taken = {
        let mut notes = BRIDGE.notes.lock();
        BRIDGE.some.store(false, SeqCst);
        notes.take()
    };
    let Some(Notes { kept, lost }) = taken else { return Ok(()) };
    let logging = py.import(intern!(py, "logging"))?;
    if lost > 0 {
        let text = format!("{lost} earlier messages were lost, as nobody called the core");
        hand_over(&logging, Level::Warn, "triune", &text)?;
    }
    kept.iter().try_for_each(|note| hand_over(&logging, note.level, &note.target, &note.text))
}

fn hand_over(logging: &Bound<'_, PyModule>, level: Level, logger: &str, text: &str) -> PyResult<()> {
    let py = logging.py();
    let number = match level {
        Level::Error => 40,
        Level::Warn => 30,
        Level::Info => 20,
        Level::Debug | Level::Trace => 10,
    };
    let logger = logging.call_method1(intern!(py, "getLogger"), (logger,))?;
    logger.call_method1(intern!(py, "log"), (number, "%s", text)).map(drop)
}
