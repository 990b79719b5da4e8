//! Strings as numbers.
//!
//! A tensor of strings is one of i64: each element is the number of its string in a table. So whatever moves elements moves
//! strings, and equal strings are equal numbers; what looks at their letters asks the table.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use triune_tensor::{OutOfMemory, memory};

/// Different strings with a number each. The empty one is always there and has 0, with which operators fill gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// The string with number n + 1.
    texts: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, i64>,
}

/// What gaps are filled with, by the million: one is enough.
static EMPTY: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));

/// About what a string takes in a table besides its letters.
const ENTRY: u64 = 128;
/// Strings with at most so many letters are asked room for together, and so many of them.
const SHORT: u64 = 1 << 16;
const TOGETHER: usize = 64;

impl Strings {
    /// The number of a string, which is added unless it is there.
    pub fn number(&mut self, text: &str) -> Result<i64, OutOfMemory> {
        match self.find(text) {
            Some(number) => Ok(number),
            None => self.add(text, |text| Arc::from(text)),
        }
    }

    /// As [`Self::number`], of a string that others hold, too.
    pub fn number_of(&mut self, text: &Arc<str>) -> Result<i64, OutOfMemory> {
        match self.find(text) {
            Some(number) => Ok(number),
            None => self.add(text, |_| Arc::clone(text)),
        }
    }

    fn add(&mut self, text: &str, make: impl FnOnce(&str) -> Arc<str>) -> Result<i64, OutOfMemory> {
        let none = OutOfMemory { bytes: (text.len() as u64).saturating_add(ENTRY) };
        // What is allocated in the ordinary way until the next question.
        if self.texts.len().is_multiple_of(TOGETHER) {
            memory::check_room(TOGETHER as u64 * (SHORT + ENTRY))?;
        }
        if none.bytes > SHORT {
            memory::check_room(none.bytes + TOGETHER as u64 * (SHORT + ENTRY))?;
        }
        memory::grow(&mut self.texts, 1)?;
        self.numbers.try_reserve(1).map_err(|_| none)?;
        let text = make(text);
        self.texts.push(Arc::clone(&text));
        let number = self.texts.len() as i64;
        self.numbers.insert(text, number);
        Ok(number)
    }

    /// The number of a string that is there.
    pub fn find(&self, text: &str) -> Option<i64> {
        if text.is_empty() { Some(0) } else { self.numbers.get(text).copied() }
    }

    /// The string with a number.
    pub fn text(&self, number: i64) -> Option<Arc<str>> {
        match usize::try_from(number).ok()?.checked_sub(1) {
            None => Some(Arc::clone(&EMPTY)),
            Some(place) => self.texts.get(place).cloned(),
        }
    }

    /// Strings besides the empty one.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none besides the empty one.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Forgets what was added since there were `len` strings.
    pub fn truncate(&mut self, len: usize) {
        for text in self.texts.drain(len.min(self.texts.len())..) {
            self.numbers.remove(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_one_number_and_give_it_back() {
        let mut strings = Strings::default();
        let shared: Arc<str> = "b".into();
        let numbers = ["", "a", "b", "a", ""].map(|text| strings.number(text).unwrap());
        assert_eq!((numbers, strings.number_of(&shared)), ([0, 1, 2, 1, 0], Ok(2)));
        assert_eq!([0, 1, 2].map(|n| strings.text(n).unwrap().to_string()), ["", "a", "b"]);
        assert_eq!([-1, 3, i64::MIN, i64::MAX].map(|n| strings.text(n)), [None, None, None, None]);
        strings.truncate(1);
        assert_eq!(
            (strings.find("a"), strings.find("b"), strings.find(""), strings.len()),
            (Some(1), None, Some(0), 1)
        );
        assert_eq!(strings.number("c"), Ok(2));
        strings.truncate(0);
        assert!(strings.is_empty());
    }
}
