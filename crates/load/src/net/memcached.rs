//! memcached's text protocol, as a client speaks it.

use std::io::Write;

use super::protocol::{About, Reply, Strange, line, number};
use super::{Operation, key};

/// Appends a request.
pub(super) fn request(operation: Operation, about: About<'_>, out: &mut Vec<u8>) {
    let key = key(about.key);
    let mut part = |bytes: &[u8]| out.extend_from_slice(bytes);
    match operation {
        Operation::Set => {
            part(b"set ");
            part(&key);
            // Writing to memory does not fail.
            let _ = write!(out, " 0 0 {}\r\n", about.value.len());
            out.extend_from_slice(about.value);
        }
        // Counters are keys of their own: values of others are no numbers.
        Operation::Incr => {
            part(b"incr counter:");
            part(&key);
            part(b" 1");
        }
        _ => {
            part(b"get ");
            part(&key);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The reply at the beginning of `input`. A `get` that finds nothing counts as refused.
pub(super) fn reply(input: &[u8]) -> Result<Option<(usize, Reply)>, Strange> {
    let (mut at, mut reply) = (0, Reply::Refused);
    loop {
        let Some((text, used)) = line(&input[at..]) else { return Ok(None) };
        at += used;
        let mut words = text.split(|&byte| byte == b' ');
        match words.next().unwrap_or_default() {
            b"VALUE" => {
                let length = words.nth(2).and_then(number);
                at = length.and_then(|n| at.checked_add(n)?.checked_add(2)).ok_or(Strange)?;
                if at > input.len() {
                    return Ok(None);
                }
                reply = Reply::Done;
            }
            b"END" => return Ok(Some((at, reply))),
            b"STORED" => return Ok(Some((at, Reply::Done))),
            b"NOT_STORED" | b"NOT_FOUND" | b"EXISTS" | b"ERROR" | b"CLIENT_ERROR"
            | b"SERVER_ERROR" => return Ok(Some((at, Reply::Refused))),
            word if number(word).is_some() => return Ok(Some((at, Reply::Done))),
            _ => return Err(Strange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines() {
        let about = About { id: 0, key: 7, value: b"v", rows: 0 };
        let text = |operation| {
            let mut out = Vec::new();
            request(operation, about, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Operation::Get), "get key:000000000007\r\n");
        assert_eq!(text(Operation::Set), "set key:000000000007 0 0 1\r\nv\r\n");
        assert_eq!(text(Operation::Incr), "incr counter:key:000000000007 1\r\n");
    }

    #[test]
    fn replies_end_where_they_end() {
        for (text, expected) in [
            ("STORED\r\n", Reply::Done),
            ("NOT_STORED\r\n", Reply::Refused),
            ("SERVER_ERROR out of memory\r\n", Reply::Refused),
            ("12\r\n", Reply::Done),
            ("END\r\n", Reply::Refused),
            ("VALUE k 0 5\r\nEND\r\n\r\nEND\r\n", Reply::Done),
        ] {
            let longer = format!("{text}STORED\r\n");
            assert_eq!(reply(longer.as_bytes()), Ok(Some((text.len(), expected))), "{text}");
            for end in 0..text.len() {
                assert_eq!(reply(&text.as_bytes()[..end]), Ok(None), "{text}");
            }
        }
        for text in ["hello\r\n", "VALUE k\r\n", "\r\n"] {
            assert_eq!(reply(text.as_bytes()), Err(Strange), "{text}");
        }
    }
}
