//! What the XIR reader refuses of any operator: each as it should be, and then with one attribute, operand or result wrong. The error is
//! of the kind, names the operation and says what it must.

use crate::xir_common::samples::{
    Kind::{Shape, Unsupported},
    Wrong, sample,
};
use triune_graph::format::xir::{OPERATORS, Options, to_graph};

#[test]
fn every_sample_is_read() {
    for kind in OPERATORS {
        let sample = sample(kind);
        if let Err(error) = to_graph(&sample.document(), &Options::default()) {
            panic!("{kind}: {error}");
        }
        for (key, _) in &sample.takes {
            // What an attribute is when it is left out is no reason to complain, unless the declared result needs another value.
            if sample.attributes.iter().any(|(own, _)| own == key) {
                continue;
            }
            let again = sample.without(key);
            let read = to_graph(&again.document(), &Options::default());
            // Slopes are among the attributes or among the operands.
            let refused = sample.needs.contains(key) || kind.eq_ignore_ascii_case("prelu");
            assert!(refused || read.is_ok(), "{kind} without '{key}'");
        }
    }
}

#[test]
fn attributes_of_another_kind() {
    let mut wrong = Wrong::default();
    for kind in OPERATORS {
        let sample = sample(kind);
        for (key, takes) in &sample.takes {
            for (value, words) in takes.refused() {
                let expected = if words.contains("declared") { Shape } else { Unsupported };
                let what = format!("'{key}' {value:?}");
                wrong.sample(
                    &what,
                    &sample.with(key, value),
                    expected,
                    &[&format!("attribute '{key}'"), words],
                );
            }
        }
        for key in &sample.needs {
            wrong.sample(key, &sample.without(key), Unsupported, &[&format!("attribute '{key}' is missing")]);
        }
    }
}

#[test]
fn operands_and_results_that_are_missing_or_too_many() {
    let mut wrong = Wrong::default();
    for kind in OPERATORS {
        let sample = sample(kind);
        let one = sample.operands.len() == 1 && !matches!(*kind, "Concat" | "Stack" | "Split" | "Unstack");
        let parts = matches!(*kind, "Concat" | "Stack");
        for count in 0..sample.needed {
            let mut fewer = sample.document();
            fewer.ops[1].inputs.truncate(count);
            let what = format!("{kind} of {count} operands");
            let words = format!("operand {count} is missing");
            match (one, parts) {
                // Slopes may be among the operands, so that their attribute decides how many there are.
                (true, _) if kind.eq_ignore_ascii_case("prelu") => {
                    wrong.check(&what, &fewer, Unsupported, &[&words]);
                }
                (true, _) => wrong.check(&what, &fewer, Shape, &["0 operands and 1 results"]),
                (_, true) if count == 0 => wrong.check(&what, &fewer, Shape, &["nothing to join"]),
                (_, true) => wrong.check(&what, &fewer, Shape, &["declared"]),
                _ => wrong.check(&what, &fewer, Unsupported, &[&words]),
            }
            let mut open = sample.document();
            open.ops[1].inputs[count] = None;
            wrong.check(&format!("{kind} without operand {count}"), &open, Unsupported, &[&words]);
        }
        if one && !kind.eq_ignore_ascii_case("prelu") {
            let mut more = sample.document();
            let again = more.ops[1].inputs[0];
            more.ops[1].inputs.push(again);
            wrong.check(&format!("{kind} of 2 operands"), &more, Shape, &["2 operands and 1 results"]);
        }
        // A result that nobody declared, and one more than there is.
        let mut none = sample.document();
        none.ops[1].outputs.clear();
        let what = format!("{kind} without a result");
        match *kind {
            "Split" => {}
            "Unstack" => wrong.check(&what, &none, Shape, &["0 results of axis 0"]),
            _ if one && !kind.eq_ignore_ascii_case("prelu") => {
                wrong.check(&what, &none, Shape, &["1 operands and 0 results"]);
            }
            _ => wrong.check(&what, &none, Unsupported, &["result 0 is missing"]),
        }
        let mut more = sample.clone();
        more.results.push(sample.results[0].clone());
        let what = "with one result more";
        match *kind {
            "Split" => wrong.sample(what, &more, Shape, &["4 elements cannot be split into 3 parts"]),
            "Unstack" => wrong.sample(what, &more, Shape, &["2 results of axis 0"]),
            _ if one && !kind.eq_ignore_ascii_case("prelu") => {
                wrong.sample(what, &more, Shape, &["1 operands and 2 results"]);
            }
            _ => wrong.sample(what, &more, Shape, &["is one that the operator does not have"]),
        }
    }
}
