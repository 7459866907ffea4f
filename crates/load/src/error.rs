//! The error of every parser of short texts: where, what was expected, what stood there.
//!
//! Parsers cut their text into pieces that borrow from it, so the column of a piece follows from
//! its address and need not be carried along.

use std::fmt;

/// A text such as `get:95,scan:5` or `10..95:5` could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    what: &'static str,
    text: String,
    column: usize,
    expected: String,
    found: String,
}

impl SpecError {
    /// The column of the offending piece, in characters, counted from 1.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, text, column, expected, found } = self;
        write!(f, "{what} {text}, column {column}: expected {expected}, found {found}")
    }
}

/// A text that is being parsed, and what it is meant to be.
#[derive(Clone, Copy)]
pub(crate) struct Spec<'a> {
    what: &'static str,
    pub(crate) text: &'a str,
}

impl<'a> Spec<'a> {
    pub(crate) fn new(what: &'static str, text: &'a str) -> Self {
        Self { what, text }
    }

    /// An error at `piece`, a slice of the text.
    pub(crate) fn error(&self, piece: &str, expected: impl Into<String>) -> SpecError {
        self.error_found(piece, expected, quoted(piece))
    }

    /// An error at `piece`, a slice of the text, about something other than its letters.
    pub(crate) fn error_found(
        &self,
        piece: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> SpecError {
        let offset = piece.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let column = 1 + self.text.get(..offset).map_or(0, |before| before.chars().count());
        SpecError {
            what: self.what,
            text: quoted(self.text),
            column,
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// The text in quotation marks for a message of one line, control characters escaped, cut when
/// long.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        _ if text.is_empty() => "nothing".to_owned(),
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_counts_characters() {
        let text = "µs,xyz";
        let error = Spec::new("list", text).error(&text[4..], "a number");
        assert_eq!(error.column(), 4);
        assert_eq!(
            error.to_string(),
            "list \"µs,xyz\", column 4: expected a number, found \"xyz\""
        );
    }

    #[test]
    fn long_and_empty_texts_are_shown_decently() {
        assert_eq!(quoted(""), "nothing");
        assert_eq!(quoted(&"é".repeat(100)), format!("\"{}\"...", "é".repeat(60)));
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
    }
}
