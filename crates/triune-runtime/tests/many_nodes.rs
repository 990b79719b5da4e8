//! What a node costs does not grow with their number, from the file to the first run.

#[path = "many_nodes/mod.rs"]
mod many_nodes;

use std::time::Duration;

use many_nodes::{FAMILIES, REFUSED};
use triune_runtime::{Error, Model, ModelOptions, Session, SessionOptions, TensorRef};
use triune_tensor::DType;
use triune_testing::thread_time;

/// Two sizes: a walk that grows with the square takes `STEP` times as long per node for the larger one.
const FEW: usize = 2_000;
const STEP: usize = 16;
/// What a node of the larger model may cost, times one of the smaller: caches and pages are felt, a square is not missed.
const MOST: u32 = 5;

fn load_and_run(bytes: Vec<u8>) -> Result<(), Error> {
    let model = Model::from_bytes(bytes, &ModelOptions::default())?;
    let mut session = Session::of(model, &SessionOptions::default())?;
    let x = TensorRef { dtype: DType::F32, shape: &[1, 4], bytes: &[0; 16] };
    session.run(&[x]).map(|_| ())
}

/// The least time of a few tries for `models` models of `count` nodes each.
fn least(family: fn(usize) -> Vec<u8>, models: usize, count: usize, fits: bool) -> Duration {
    let times = (0..3).map(|_| {
        let files = vec![family(count); models];
        let (results, time) = thread_time(|| files.into_iter().map(load_and_run).collect::<Vec<_>>());
        assert!(results.iter().all(|result| result.is_ok() == fits), "{:?}", results.first());
        time
    });
    times.min().unwrap()
}

fn grows_in_proportion((name, family): many_nodes::Family, fits: bool) {
    // As many nodes on either side.
    let (small, large) = (least(family, STEP, FEW, fits), least(family, 1, FEW * STEP, fits));
    assert!(
        large <= small * MOST,
        "{name}: {small:?} for {STEP} models of {FEW} nodes, {large:?} for one of {}",
        FEW * STEP
    );
}

#[test]
fn models_of_many_nodes_load_and_run_in_proportion() {
    for family in FAMILIES {
        grows_in_proportion(family, true);
    }
}

#[test]
fn models_of_many_inputs_and_outputs_are_refused_in_proportion() {
    for family in REFUSED {
        grows_in_proportion(family, false);
    }
}
