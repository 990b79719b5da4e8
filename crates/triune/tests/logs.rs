//! What a Rust program's own backend of the crate `log` hears.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use log::{Level, LevelFilter, Log, Metadata, Record};
use triune::{Session, SessionOptions, TensorRef};

struct Heard(Mutex<Vec<(Level, String, String)>>);

static HEARD: Heard = Heard(Mutex::new(Vec::new()));

impl Heard {
    fn take(&self) -> Vec<(Level, String, String)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Log for Heard {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let heard = (record.level(), record.target().to_owned(), record.args().to_string());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(heard);
    }

    fn flush(&self) {}
}

#[test]
fn plans_are_logged_and_runs_are_not() {
    log::set_logger(&HEARD).expect("no other logger");
    log::set_max_level(LevelFilter::Trace);
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/triune/models/digits_int8.onnx");
    let mut session = Session::open(&model, &SessionOptions::default()).expect("a session");
    HEARD.take();
    let pixels = vec![0_f32; 3 * 64];
    let input = [TensorRef::of(&pixels, &[3, 1, 8, 8])];
    session.run(&input).expect("a run");
    let heard = HEARD.take();
    let [(level, target, text)] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!((*level, target.as_str()), (Level::Debug, "triune::session"));
    assert!(text.starts_with("planned for image (3, 1, 8, 8) on host in "), "{text}");
    session.run(&input).expect("the same again");
    assert_eq!(HEARD.take(), []);
}
