//! Replies of RESP, version 2 and 3.

use std::fmt::Display;
use std::io::Write;

/// Writes replies into a buffer.
#[derive(Debug)]
pub struct Replies<'a> {
    out: &'a mut Vec<u8>,
    version: u8,
}

impl<'a> Replies<'a> {
    /// Appends to `out`, in version 2 or 3.
    pub fn new(out: &'a mut Vec<u8>, version: u8) -> Replies<'a> {
        Replies { out, version }
    }

    /// Goes on in another version.
    pub fn speak(&mut self, version: u8) {
        self.version = version;
    }

    /// The bytes so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Is there no byte?
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes back everything behind this many bytes.
    pub fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    /// The elements of an array whose header has been written.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A word such as `OK`.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error. Line ends in it become blanks: it is one line.
    pub fn error(&mut self, text: impl Display) {
        let text = text.to_string().replace(['\r', '\n'], " ");
        self.line(b'-', text);
    }

    /// A number.
    pub fn integer(&mut self, value: i64) {
        self.line(b':', value);
    }

    /// A string of any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Nothing.
    pub fn null(&mut self) {
        let null: &[u8] = if self.version == 3 { b"_\r\n" } else { b"$-1\r\n" };
        self.out.extend_from_slice(null);
    }

    /// A string, or nothing.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// The beginning of an array of this many replies.
    pub fn array(&mut self, count: usize) {
        self.line(b'*', count);
    }

    /// The beginning of this many pairs; in version 2 an array.
    pub fn map(&mut self, pairs: usize) {
        if self.version == 3 {
            self.line(b'%', pairs);
        } else {
            self.array(2 * pairs);
        }
    }

    fn line(&mut self, kind: u8, text: impl Display) {
        self.out.push(kind);
        // Writing to memory does not fail.
        let _ = write!(self.out, "{text}\r\n");
    }
}
