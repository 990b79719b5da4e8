//! What operations of XIR become: each as it is in samples, without each of its attributes, with other values of each, over integers,
//! and as the reals that these stand for. `pinned/xir.txt` has the graphs as they were when values were last compared, or what the
//! error says. A change that is meant is written down with `TRIUNE_PIN=write cargo test -p triune-graph --test it xir_spelled`.

use std::{fmt::Write, path::Path};

use crate::xir_common::{
    check::{float, int, text},
    net::{ints, quantized},
    samples::{Given, Sample, Takes, sample},
};
use triune_graph::format::xir::{Attribute, Document, ElementType, OPERATORS, Options, Scalar, to_graph};
use triune_testing::{Tensor, outline, pinned};

/// Values that an attribute may have.
fn values(takes: Takes) -> Vec<Attribute> {
    match takes {
        Takes::Int => [0, 1, -1, 2].map(int).to_vec(),
        Takes::Size => [1, 2].map(int).to_vec(),
        Takes::Extent => [2, 4].map(int).to_vec(),
        Takes::Number => vec![float(0.5), float(-1.0), int(3), float(0.0)],
        Takes::Numbers => {
            vec![float(0.5), int(2), Attribute::List(vec![float(0.5), float(0.25), float(1.0), float(2.0)])]
        }
        Takes::Ints => {
            vec![ints(&[2]), ints(&[-1]), ints(&[0, 3]), ints(&[1, 1]), ints(&[0, 2, 1, 3]), int(1)]
        }
        Takes::Flag => vec![Attribute::Bool(true), Attribute::Bool(false), int(1)],
        Takes::Choice => (0..5).map(int).collect(),
        Takes::Cut | Takes::Constant => Vec::new(),
        Takes::Type => vec![text("@fp(32)"), text("@fp(16)")],
    }
}

/// The same over integers of 8 bits, constants, too, where these are asked for.
fn in_integers(sample: &Sample, constants: bool) -> Sample {
    let mut other = sample.clone();
    let real = ElementType::Scalar(Scalar::Float(32));
    for operand in &mut other.operands {
        match operand {
            Given::Input(dtype) if dtype.element == real => dtype.element = quantized(-1, &[0.5], 3),
            Given::Constant(dtype, data) if constants && dtype.element == real => {
                dtype.element = quantized(-1, &[0.25], 0);
                let count = data.shape.iter().product();
                let numbers: Vec<i8> = (0..count).map(|at: usize| (at * 37 % 29) as i8 - 14).collect();
                *data = Tensor::i8(&data.shape, &numbers);
            }
            _ => {}
        }
    }
    for result in &mut other.results {
        if result.element == real {
            result.element = quantized(-1, &[0.125], -5);
        }
    }
    other
}

fn told(out: &mut String, what: &str, document: &Document, options: Options) {
    let read = to_graph(document, &options).and_then(|mut graph| {
        triune_graph::infer::infer(&mut graph)?;
        Ok(graph)
    });
    let graph = match read {
        Ok(graph) => outline(&graph),
        Err(error) => format!("  refused: {error}\n"),
    };
    write!(out, "{what}\n{graph}").expect("memory");
}

#[test]
fn operations_become_what_they_did() {
    let mut out = String::new();
    let plain = Options::default();
    for kind in OPERATORS {
        let own = sample(kind);
        told(&mut out, kind, &own.document(), plain);
        for (key, takes) in &own.takes {
            if own.attributes.iter().any(|(given, _)| given == key) {
                told(&mut out, &format!("{kind} without {key}"), &own.without(key).document(), plain);
            }
            for value in values(*takes) {
                told(&mut out, &format!("{kind} {key}={value:?}"), &own.with(key, value).document(), plain);
            }
        }
        for constants in [false, true] {
            let integers = in_integers(&own, constants).document();
            told(&mut out, &format!("{kind} over integers, weights {constants}"), &integers, plain);
            told(&mut out, &format!("{kind} as reals"), &integers, Options { fake_qf: true });
        }
    }
    pinned(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pinned/xir.txt"), &out);
}
