//! Requests of RESP, the protocol of Redis: bytes in, words out.
//!
//! A request is an array of bulk strings, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, or a line of words,
//! which people type: `GET k`. Words of a line may be quoted.
//!
//! The parser goes on where it stopped, so a request that arrives byte by byte costs no more than
//! one that arrives whole. Lengths are checked before their bytes are waited for.

use std::ops::Range;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Words of a request.
    pub words: usize,
    /// Bytes of a word.
    pub word: usize,
    /// Bytes of a request.
    pub request: usize,
}

/// Bytes of a line, as Redis allows them.
const LINE: usize = 64 * 1024;

/// Words of a request for which memory is kept until the next one.
const KEPT: usize = 4096;

/// Why the bytes are no request. The text is that of Redis, for the error reply; the connection
/// cannot go on, because nobody knows where the next request begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The number of words is none, or too high.
    #[error("Protocol error: invalid multibulk length")]
    Words,
    /// A word does not begin with its length.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0).escape_default())]
    NoLength(u8),
    /// The length of a word is none, or too high.
    #[error("Protocol error: invalid bulk length")]
    Length,
    /// A word does not end where it should.
    #[error("Protocol error: expected CR LF after a bulk string")]
    NoEnd,
    /// The line does not end.
    #[error("Protocol error: too big inline request")]
    Line,
    /// The line with a length does not end.
    #[error("Protocol error: too big mbulk count string")]
    LengthLine,
    /// A quoted word does not end, or something stands right behind it.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    /// All words together are too long.
    #[error("Protocol error: request too large")]
    Request,
}

/// What has been found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The request goes on in bytes that have not arrived.
    More,
    /// A request of this many bytes. Its words are [`Parser::words`]; there may be none.
    Request(usize),
}

/// A parser of one connection's requests.
#[derive(Debug)]
pub struct Parser {
    limits: RequestLimits,
    /// Parsed so far, of the request under way.
    at: usize,
    /// Words of it that are still to come, if it is an array.
    missing: Option<usize>,
    /// Where its words lie.
    words: Vec<Range<usize>>,
    /// The words of a line without their quotes, where the ranges point if there are any.
    unquoted: Vec<u8>,
}

/// The words of a request.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
}

impl<'a> Words<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The word of this number.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|range| &self.bytes[range.clone()])
    }

    /// All words from this number on.
    pub fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let (bytes, ranges) = (self.bytes, self.ranges.get(first..).unwrap_or_default());
        ranges.iter().map(move |range| &bytes[range.clone()])
    }
}

impl Parser {
    /// A parser for a new connection.
    pub fn new(limits: RequestLimits) -> Parser {
        Parser { limits, at: 0, missing: None, words: Vec::new(), unquoted: Vec::new() }
    }

    /// Goes on with the request at the beginning of `input`, which holds everything that has
    /// arrived since the request began. After [`Step::Request`] the next call begins with the next
    /// request.
    ///
    /// # Errors
    ///
    /// The bytes are no request. The parser is of no use any more.
    pub fn step(&mut self, input: &[u8]) -> Result<Step, Malformed> {
        if self.at == 0 {
            match input.first() {
                None => return Ok(Step::More),
                Some(b'*') => {}
                Some(_) => return self.line(input),
            }
        }
        if self.missing.is_none() {
            self.words.clear();
            self.unquoted.clear();
            let Some((count, after)) = length_line(input, 1)? else { return Ok(Step::More) };
            // Redis takes an array of a negative number of words for one without words.
            let count = count.ok_or(Malformed::Words)?.max(0) as u64;
            if count > self.limits.words as u64 {
                return Err(Malformed::Words);
            }
            (self.missing, self.at) = (Some(count as usize), after);
        }
        while let Some(missing @ 1..) = self.missing {
            let Some(&first) = input.get(self.at) else { return Ok(Step::More) };
            if first != b'$' {
                return Err(Malformed::NoLength(first));
            }
            let Some((length, start)) = length_line(input, self.at + 1)? else {
                return Ok(Step::More);
            };
            let length = length.and_then(|length| usize::try_from(length).ok());
            let length = length.filter(|&length| length <= self.limits.word);
            let end = start + length.ok_or(Malformed::Length)?;
            if end > self.limits.request {
                return Err(Malformed::Request);
            }
            match input.get(end..end + 2) {
                None => return Ok(Step::More),
                Some(b"\r\n") => {}
                Some(_) => return Err(Malformed::NoEnd),
            }
            self.words.push(start..end);
            (self.missing, self.at) = (Some(missing - 1), end + 2);
        }
        self.missing = None;
        Ok(Step::Request(std::mem::take(&mut self.at)))
    }

    /// The words of the request that was found last are of no use any more. A connection that once
    /// had a long request does not keep the memory for it.
    pub fn forget(&mut self) {
        self.words.clear();
        self.words.shrink_to(KEPT);
    }

    /// The words of the request that was found last, in the input in which it was.
    pub fn words<'a>(&'a self, input: &'a [u8]) -> Words<'a> {
        let bytes = if self.unquoted.is_empty() { input } else { &self.unquoted };
        Words { bytes, ranges: &self.words }
    }

    fn line(&mut self, input: &[u8]) -> Result<Step, Malformed> {
        let seen = &input[..input.len().min(LINE)];
        let Some(end) = seen.iter().position(|&byte| byte == b'\n') else {
            return if input.len() >= LINE { Err(Malformed::Line) } else { Ok(Step::More) };
        };
        self.words.clear();
        self.unquoted.clear();
        let line = &input[..end];
        let mut rest = line.strip_suffix(b"\r").unwrap_or(line);
        loop {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                break;
            }
            let start = self.unquoted.len();
            rest = unquote(rest, &mut self.unquoted).ok_or(Malformed::Quotes)?;
            self.words.push(start..self.unquoted.len());
        }
        Ok(Step::Request(end + 1))
    }
}

/// The number in the line at `start`, `None` if it is none, and where the line ends; `None` if it
/// has not ended.
fn length_line(input: &[u8], start: usize) -> Result<Option<(Option<i64>, usize)>, Malformed> {
    // A sign and 19 digits.
    const LONGEST: usize = 20;
    let rest = &input[start.min(input.len())..];
    let seen = &rest[..rest.len().min(LONGEST + 2)];
    let Some(end) = seen.iter().position(|&byte| byte == b'\r') else {
        return if seen.len() > LONGEST { Err(Malformed::LengthLine) } else { Ok(None) };
    };
    match rest.get(end + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((super::integer(&rest[..end]), start + end + 2))),
        Some(_) => Ok(Some((None, start + end + 2))),
    }
}

/// Appends the first word of `text` without its quotes, and returns what follows. In double quotes
/// a backslash begins an escape, in single ones `\'` is a quote.
fn unquote<'a>(text: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = text;
    loop {
        match rest {
            [] => return Some(rest),
            [byte, ..] if byte.is_ascii_whitespace() => return Some(rest),
            [quote @ (b'"' | b'\''), inside @ ..] => {
                rest = if *quote == b'"' { double(inside, out)? } else { single(inside, out)? };
                // What follows must be a blank.
                if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    return None;
                }
            }
            [byte, after @ ..] => {
                out.push(*byte);
                rest = after;
            }
        }
    }
}

fn double<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or_default() as u8;
                out.push(digit(high) << 4 | digit(low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
            [] => return None,
        }
    }
}

fn single<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => {
                out.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_many_words_is_given_back() {
        let limits = RequestLimits { words: 100_000, word: 10, request: 1 << 20 };
        let mut parser = Parser::new(limits);
        let request = format!("*100000\r\n{}", "$0\r\n\r\n".repeat(100_000));
        let step = parser.step(request.as_bytes());
        assert_eq!(step, Ok(Step::Request(request.len())));
        assert_eq!(parser.words(request.as_bytes()).len(), 100_000);
        parser.forget();
        assert!(parser.words.capacity() <= KEPT);
    }
}
