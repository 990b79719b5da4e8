//! What messages say of names, lists and whole texts whose length a file or a caller decides.
//!
//! A message is for people: it stays short, on lines of its own making, and in characters that can be shown.

use std::fmt::{self, Display, Write};

/// Most characters of a name in a message.
const NAME: usize = 120;
/// Most items of a list in a message.
const ITEMS: usize = 16;
/// Most bytes of a message.
pub const MESSAGE: usize = 1900;

/// A name as messages show it: what cannot be shown is escaped, the middle of a long one left out.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a>(pub &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.chars().count();
        if count <= NAME {
            return self.0.chars().try_for_each(|letter| put(f, letter));
        }
        let head = NAME * 2 / 3;
        let tail = NAME - head;
        self.0.chars().take(head).try_for_each(|letter| put(f, letter))?;
        write!(f, "…")?;
        self.0.chars().skip(count - tail).try_for_each(|letter| put(f, letter))?;
        write!(f, " ({count} characters)")
    }
}

/// A character, escaped where it would break the line, be invisible or turn the direction of what follows.
fn put(f: &mut fmt::Formatter<'_>, letter: char) -> fmt::Result {
    let turns = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    if letter.is_control() || turns { write!(f, "{}", letter.escape_unicode()) } else { f.write_char(letter) }
}

/// A list as messages show it: `(1, 2, 3)`, a long one by its first items and their number.
#[derive(Clone, Copy, Debug)]
pub struct List<'a, T>(pub &'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('(')?;
        for (index, item) in self.0.iter().take(ITEMS).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        if self.0.len() > ITEMS {
            write!(f, ", … {} in all", self.0.len())?;
        }
        f.write_char(')')
    }
}

/// A whole message of at most [`MESSAGE`] bytes: a longer one loses its middle, so that what it is about and the cure stay.
pub fn message(text: impl Into<String>) -> String {
    let text = text.into();
    if text.len() <= MESSAGE {
        return text;
    }
    let head = text.floor_char_boundary(MESSAGE * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - MESSAGE / 4);
    format!("{} … {} bytes left out … {}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_as_they_are() {
        assert_eq!(Name("conv/1 ü 名").to_string(), "conv/1 ü 名");
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = format!("first{}last", "x".repeat(1_000_000));
        let shown = Name(&name).to_string();
        assert!(shown.starts_with("first") && shown.ends_with("last (1000009 characters)"), "{shown}");
        assert!(shown.len() < 200, "{shown}");
    }

    #[test]
    fn what_breaks_lines_is_escaped() {
        assert_eq!(Name("a\0b\nc\u{202e}d").to_string(), "a\\u{0}b\\u{a}c\\u{202e}d");
    }

    #[test]
    fn long_lists_say_how_long() {
        assert_eq!(List(&[1, 2, 3]).to_string(), "(1, 2, 3)");
        assert_eq!(List::<u8>(&[]).to_string(), "()");
        let shown = List(&[7; 100_000]).to_string();
        assert!(shown.ends_with("7, … 100000 in all)") && shown.len() < 100, "{shown}");
    }

    #[test]
    fn long_messages_keep_both_ends() {
        assert_eq!(message("short"), "short");
        let text = format!("subject{}cure", "ü".repeat(5_000));
        let short = message(text);
        assert!(short.len() <= MESSAGE, "{}", short.len());
        assert!(short.starts_with("subject") && short.ends_with("cure") && short.contains("bytes left out"));
    }
}
