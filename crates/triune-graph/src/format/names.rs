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
    pub(super) fn unique(&mut self, wish: impl Into<Cow<'f, str>>) -> String {
        self.unique_beside(wish, |_| false)
    }

    /// As [`Self::unique`], where `is_taken` knows of others.
    pub(super) fn unique_beside(
        &mut self,
        wish: impl Into<Cow<'f, str>>,
        is_taken: impl Fn(&str) -> bool,
    ) -> String {
        let wish = wish.into();
        let mut number = match self.0.entry(wish.clone()) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                entry.insert(2);
                if !is_taken(&wish) {
                    return wish.into_owned();
                }
                2
            }
        };
        // The count goes on where it stopped: a file may call all its nodes the same.
        let name = loop {
            let name = format!("{wish}_{number}");
            number += 1;
            if !self.0.contains_key(name.as_str()) && !is_taken(&name) {
                break name;
            }
        };
        self.0.insert(wish, number);
        self.take(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_out_once() {
        let mut names = Names::default();
        names.take("a_2");
        assert_eq!(["a", "a", "a", "b"].map(|wish| names.unique(wish)), ["a", "a_3", "a_4", "b"]);
        assert_eq!(names.unique("a_3"), "a_3_2");
    }

    #[test]
    fn names_that_others_have_are_taken() {
        let mut names = Names::default();
        let file = |name: &str| name == "x" || name == "x_3";
        assert_eq!(["x", "x", "x"].map(|wish| names.unique_beside(wish, file)), ["x_2", "x_4", "x_5"]);
    }
}
