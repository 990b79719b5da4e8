//! Names that a reader gives out: each once, and none that the file has itself.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
};

/// Names that are taken, each with the number that the next one like it gets.
#[derive(Debug, Default)]
pub(super) struct Names<'f>(HashMap<Cow<'f, str>, usize>);

impl<'f> Names<'f> {
    /// None, and room for so many.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self(HashMap::with_capacity(count))
    }

    /// Takes a name that the file has itself.
    pub(super) fn take(&mut self, name: impl Into<Cow<'f, str>>) {
        self.0.entry(name.into()).or_insert(2);
    }

    /// The name that is wished for, with a number behind it if it is taken; from now on, it is.
    pub(super) fn unique(&mut self, name: impl Into<Cow<'f, str>>) -> String {
        self.unique_beside(name, |_| false)
    }

    /// As [`Self::unique`], where `is_taken` knows of others.
    pub(super) fn unique_beside(
        &mut self,
        name: impl Into<Cow<'f, str>>,
        is_taken: impl Fn(&str) -> bool,
    ) -> String {
        let name = name.into();
        let mut number = match self.0.entry(name.clone()) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                entry.insert(2);
                if !is_taken(&name) {
                    return name.into_owned();
                }
                2
            }
        };
        // The count goes on where it stopped: a file may call all its nodes the same.
        let numbered = loop {
            let numbered = format!("{name}_{number}");
            number += 1;
            if !self.0.contains_key(numbered.as_str()) && !is_taken(&numbered) {
                break numbered;
            }
        };
        self.0.insert(name, number);
        self.take(numbered.clone());
        numbered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_out_once() {
        let mut names = Names::default();
        names.take("a_2");
        assert_eq!(["a", "a", "a", "b"].map(|name| names.unique(name)), ["a", "a_3", "a_4", "b"]);
        assert_eq!(names.unique("a_3"), "a_3_2");
    }

    #[test]
    fn names_that_others_have_are_taken() {
        let mut names = Names::default();
        let file = |name: &str| name == "x" || name == "x_3";
        assert_eq!(["x", "x", "x"].map(|name| names.unique_beside(name, file)), ["x_2", "x_4", "x_5"]);
    }
}
