//! What messages say of names, lists and whole texts whose length a file or a caller decides.
//!
//! A message is for people: it stays short, and in characters that can be shown.

use std::fmt::{self, Display, Write};

/// Most bytes of a name in a message: a word of a message, since it may be a path.
const NAME: usize = 240;
/// Most items of a list in a message.
const ITEMS: usize = 16;
/// Most bytes of a message.
const MESSAGE: usize = 1900;
/// Most bytes of what a message is about, when others stand before and behind it.
const REASON: usize = 600;

/// A name as messages show it: what cannot be shown is escaped, the middle of a long one left out.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a>(pub &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = String::with_capacity(self.0.len());
        for letter in self.0.chars() {
            if breaks(letter) { shown.extend(letter.escape_default()) } else { shown.push(letter) }
        }
        if shown.len() <= NAME {
            return f.write_str(&shown);
        }
        let head = shown.floor_char_boundary(NAME * 2 / 3);
        let tail = shown.ceil_char_boundary(shown.len() - NAME / 3);
        let count = self.0.chars().count();
        write!(f, "{}…({count} characters)…{}", &shown[..head], &shown[tail..])
    }
}

/// Whether a character ends the line, cannot be seen, or turns the direction of what follows.
fn breaks(letter: char) -> bool {
    let turns = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    turns || letter.is_control()
}

/// A list as messages show it: `[1, 2, 3]`, a long one by its first items and their number.
#[derive(Clone, Copy, Debug)]
pub struct List<'a, T>(pub &'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (index, item) in self.0.iter().take(ITEMS).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        if self.0.len() > ITEMS {
            write!(f, ", … {} in all", self.0.len())?;
        }
        f.write_char(']')
    }
}

/// What is wrong, in the words of who found it, as a part of a message: as [`message`], and shorter.
#[derive(Clone, Copy, Debug)]
pub struct Reason<'a>(pub &'a str);

impl Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&limited(self.0, REASON))
    }
}

/// A whole message as people get it: long words are names or paths and shown as [`Name`]s, and when there are many, the
/// middle of the message is left out, so that what it is about and the cure stay.
pub fn message(text: impl AsRef<str>) -> String {
    limited(text.as_ref(), MESSAGE)
}

fn limited(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    for word in text.split_inclusive([' ', '\n']) {
        let (word, space) = match word.char_indices().next_back() {
            Some((at, ' ' | '\n')) => word.split_at(at),
            _ => (word, ""),
        };
        shown += &Name(word).to_string();
        shown += space;
    }
    if shown.len() <= most {
        return shown;
    }
    let head = shown.floor_char_boundary(most * 2 / 3);
    let tail = shown.ceil_char_boundary(shown.len() - most / 5);
    format!("{} … {} bytes left out … {}", &shown[..head], tail - head, &shown[tail..])
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
        assert!(shown.starts_with("firstx") && shown.ends_with("xlast"), "{shown}");
        assert!(shown.contains("x…(1000009 characters)…x") && shown.len() < 300, "{shown}");
    }

    #[test]
    fn what_breaks_lines_is_escaped() {
        assert_eq!(Name("a\0b\nc\u{202e}d").to_string(), "a\\u{0}b\\nc\\u{202e}d");
    }

    #[test]
    fn long_lists_say_how_long() {
        assert_eq!(List(&[1, 2, 3]).to_string(), "[1, 2, 3]");
        assert_eq!(List::<u8>(&[]).to_string(), "[]");
        let shown = List(&vec![7; 100_000]).to_string();
        assert!(shown.ends_with("7, … 100000 in all]") && shown.len() < 100, "{shown}");
    }

    #[test]
    fn messages_stay_as_they_are_while_they_are_short() {
        for text in ["", "short", "two  lines\n and \n\n more ", "node 'a' (Conv): it is wrong"] {
            assert_eq!(message(text), text);
        }
    }

    #[test]
    fn long_names_in_messages_are_shortened_in_place() {
        let text = format!("node '{}' (Conv): the cure", "n".repeat(100_000));
        let shown = message(&text);
        assert!(shown.starts_with("node 'nn") && shown.ends_with("n' (Conv): the cure"), "{shown}");
        assert!(shown.len() < 400, "{shown}");
    }

    #[test]
    fn long_messages_keep_both_ends() {
        for letter in ["ü ", "\u{1F600} ", "a b\n"] {
            let shown = message(format!("subject {}cure", letter.repeat(5_000)));
            assert!(shown.len() <= 2000, "{}", shown.len());
            assert!(
                shown.starts_with("subject ") && shown.ends_with("cure") && shown.contains("bytes left out")
            );
        }
        assert!(Reason(&"word ".repeat(5_000)).to_string().len() < REASON);
    }
}
