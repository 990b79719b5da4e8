//! Reading a short text from left to right.

use std::{fmt::Display, str::FromStr};

use super::malformed;
use crate::Error;

/// What is left of a text, and the whole of it for messages.
pub(super) struct Cursor<'a> {
    what: &'static str,
    text: &'a str,
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    /// At the start of `text`, which should be a `what`.
    pub(super) fn new(what: &'static str, text: &'a str) -> Self {
        Self { what, text, rest: text.trim() }
    }

    /// What is left.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// The error that `reason` says of the text; long texts are cut.
    pub(super) fn error(&self, reason: impl Display) -> Error {
        let shown: String = self.text.chars().take(80).collect();
        let more = if shown.len() < self.text.len() { "…" } else { "" };
        malformed(format!("'{shown}{more}' is not a {}: {reason}", self.what))
    }

    /// Steps over `token` and blanks behind it, when it is next.
    pub(super) fn take(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(token) else { return false };
        self.rest = rest.trim_start();
        true
    }

    /// Steps over `token`, which must be next.
    pub(super) fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.take(token) {
            return Ok(());
        }
        let found: String = self.rest.chars().take(12).collect();
        Err(self.error(format_args!("'{token}' should stand before '{found}'")))
    }

    /// Takes all up to the next of `ends`, which stays.
    pub(super) fn until(&mut self, ends: &[char]) -> &'a str {
        let at = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(at);
        self.rest = rest;
        word.trim()
    }

    /// Takes a number that ends before the next of `ends`.
    pub(super) fn number<T: FromStr>(&mut self, ends: &[char]) -> Result<T, Error> {
        let word = self.until(ends);
        word.parse().map_err(|_| self.error(format_args!("'{word}' is not a number of its kind")))
    }

    /// The text must be at its end.
    pub(super) fn finish(&self) -> Result<(), Error> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let found: String = self.rest.chars().take(12).collect();
        Err(self.error(format_args!("'{found}' is too much")))
    }
}
